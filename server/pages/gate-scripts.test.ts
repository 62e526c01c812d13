import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { contentSecurityPolicy } from './content-security-policy.ts';
import { gateScripts, startScripts } from './gate-scripts.ts';

const data = 'window.__reactRouterContext = {"a":1};';
const scroll = '((storageKey2, restoreKey) => { sessionStorage.getItem(storageKey2) })("key", null)';
const modules = 'import "/assets/$&.js";\nimport("/assets/a.js");';
const page = `<html><head><title>Jani</title></head><body><script>${scroll}</script><script>${data}</script><script type="module" async="">${modules}</script></body></html>`;

test('the check of the browser comes before every other script', () => {
  const gated = gateScripts(page);
  expect(gated.indexOf('isBelowFloor=')).toBe(gated.indexOf('<script>') + '<script>window.'.length);
  expect(gated.indexOf('<script>')).toBeLessThan(gated.indexOf('</head>'));
  expect(gated).toContain(`<script>if(!isBelowFloor){${data}}</script>`);
  expect(gated).toContain(`<script>if(!isBelowFloor)try{sessionStorage.length;${scroll}}catch(e){}</script>`);
});

test('the check also precedes scripts of the head', () => {
  const gated = gateScripts(page.replace('<title>', '<script>a</script><title>'));
  expect(gated.indexOf('isBelowFloor=')).toBeLessThan(gated.indexOf('<script>a'));
});

test("a staff page's modules are started by a script of the policy, with their text unchanged", () => {
  const started = startScripts(page);
  expect(started).not.toContain('<script type="module"');
  expect(started).toContain(`<script type="text/plain" id="late-boot">${modules}</script>`);
  expect(contentSecurityPolicy(started).match(/'sha256-/g)).toHaveLength(4);
});

test('other texts stay as they are', () => {
  expect(startScripts('<p>hello</p>')).toBe('<p>hello</p>');
  expect(gateScripts('<p>hello</p>')).toBe('<p>hello</p>');
});

/** What a browser needs besides what this list leaves out. */
const needed = [
  'TextEncoderStream',
  'TextDecoderStream',
  'fetch',
  'URLSearchParams',
  'AbortController',
  'FormData',
  'IntersectionObserver',
  'ResizeObserver',
  'MutationObserver',
  'matchMedia',
  'queueMicrotask',
];

function isBelowFloor(missing: readonly string[]): unknown {
  const [, script = ''] = /<script>([\s\S]*?)<\/script>/.exec(gateScripts('<head></head>')) ?? [];
  const scope: Record<string, unknown> = {
    CSS: { supports: (name: string) => !missing.includes(name) },
    crypto: { getRandomValues() {} },
    // Part of every context.
    WeakRef,
    Promise,
    Object,
  };
  for (const name of needed) scope[name] = () => {};
  for (const name of missing) delete scope[name];
  scope.window = scope;
  runInNewContext(script, scope);
  return scope.isBelowFloor;
}

test.each([...needed, 'CSS', 'crypto', 'inset', 'selector(:is(a))'])(
  'a browser without %s runs no script',
  (name) => expect(isBelowFloor([name])).toBe(true),
);

test('a browser of the floor runs the scripts', () => expect(isBelowFloor([])).toBe(false));
