import { expect, test } from 'vitest';
import { contentSecurityPolicy } from './content-security-policy.ts';
import { deferScripts } from './defer-scripts.ts';

const page = [
  '<head><link rel="modulepreload" href="/assets/a.js"/><link rel="preload" href="/fonts/a.woff2"/></head>',
  '<script>window.a = 1</script>',
  `<script type="module" async="">import "/assets/a.js";\nimport("/assets/$&.js");</script>`,
].join('');

test('defers all modules to the boot script, with their text unchanged', () => {
  const late = deferScripts(page);
  expect(late).not.toContain('modulepreload" ');
  expect(late).not.toContain('<script type="module"');
  expect(late).toContain('<link rel="late" href="/assets/a.js"/>');
  expect(late).toContain('<link rel="preload" href="/fonts/a.woff2"/>');
  expect(late).toContain('import "/assets/a.js";\nimport("/assets/$&.js");</script>');
});

test('defers the icon and the manifest to hydration, except without JavaScript', () => {
  const links = '<link rel="icon" href="/favicon.svg"/><link rel="manifest" href="/manifest.webmanifest"/>';
  const late = deferScripts(page.replace('<head>', `<head>${links}`));
  expect(late).toContain(`<noscript>${links}</noscript>`);
  expect(late.replace(/<noscript>.*?<\/noscript>/, '')).not.toMatch(/favicon|webmanifest/);
  // Without any icon a browser requests /favicon.ico.
  expect(late).toContain('<link rel="icon" href="data:,"/>');
});

test('the policy contains the hashes of the boot scripts and of the script that they start', () => {
  const hashes = (html: string) => contentSecurityPolicy(html).match(/'sha256-[^']+'/g) ?? [];
  expect(hashes(page)).toHaveLength(2);
  expect(hashes(deferScripts(page))).toHaveLength(4);
  // The module script runs later with the same text.
  expect(hashes(deferScripts(page))).toEqual(expect.arrayContaining(hashes(page)));
});

test('does not change a page without scripts of the router', () => {
  expect(deferScripts('<p>hello</p>')).toBe('<p>hello</p>');
});
