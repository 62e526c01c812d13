// Finds in a built script what browsers of the floor (`domain/browser-floor.ts`) lack: functions and interfaces by the versions that
// MDN's browser compatibility data lists, syntax by lowering the script again, and parts of regular expressions.

import bcd from '@mdn/browser-compat-data' with { type: 'json' };
import type { CompatStatement, Identifier, SimpleSupportStatement } from '@mdn/browser-compat-data';
import { parseSync, transformWithOxc } from 'vite';
import { browserFloor, buildTarget } from '../../domain/browser-floor.ts';

type Browser = keyof typeof browserFloor;

const browsers = Object.keys(browserFloor) as Browser[];

/** First full support, as a number; infinite if there is none. Support by parts, prefix or flag does not count. */
function firstVersion(compat: CompatStatement, browser: Browser): number {
  const statements = [compat.support[browser] ?? []].flat() as SimpleSupportStatement[];
  const versions = statements
    .filter(
      ({ flags, prefix, alternative_name, version_removed }) =>
        !flags && !prefix && !alternative_name && !version_removed,
    )
    .map(({ version_added }) =>
      typeof version_added === 'string' ? Number.parseFloat(version_added.replace('≤', '')) : Number.NaN,
    );
  return Math.min(
    ...versions.map((version) => (Number.isNaN(version) ? Number.POSITIVE_INFINITY : version)),
    Number.POSITIVE_INFINITY,
  );
}

const isNewer = (node: Identifier): boolean => {
  const compat = node.__compat;
  return (
    compat !== undefined && browsers.some((browser) => firstVersion(compat, browser) > browserFloor[browser])
  );
};

/** Names of global functions, interfaces and namespaces. */
const globals = new Set<string>();
const newerGlobals = new Set<string>();
/** Such as `Object.hasOwn`. */
const newerStatics = new Set<string>();
/** Names that only newer methods or properties have. */
const newerMembers = new Set<string>();
const olderMembers = new Set<string>();
/** Objects of a page by their interface, whose properties count even if they are not called. */
const objects: Record<string, string> = {
  navigator: 'Navigator',
  document: 'Document',
  window: 'Window',
  self: 'Window',
  globalThis: 'Window',
  crypto: 'Crypto',
  performance: 'Performance',
  screen: 'Screen',
  history: 'History',
  location: 'Location',
};
const namespaces = ['Math', 'JSON', 'Reflect', 'Atomics', 'Intl', 'CSS', 'WebAssembly', 'console'];

for (const root of [bcd.api, bcd.javascript.builtins as Identifier]) {
  for (const [owner, node] of Object.entries(root)) {
    if (owner === '__compat') continue;
    globals.add(owner);
    const isOwnerNewer = isNewer(node as Identifier);
    if (isOwnerNewer) newerGlobals.add(owner);
    for (const [key, member] of Object.entries(node as Identifier)) {
      const name = key.replace(/_(?:static|event)$/, '');
      if (key === '__compat' || !/^[\w$]+$/.test(name) || name === owner) continue;
      if (key.endsWith('_static') || namespaces.includes(owner) || root !== bcd.api) {
        if (isNewer(member as Identifier)) newerStatics.add(`${owner}.${name}`);
      }
      // An object of a newer interface exists only where its members do, except elements, which every page can contain.
      if (isOwnerNewer && !/^HTML.*Element$/.test(owner)) continue;
      if (isOwnerNewer || isNewer(member as Identifier)) newerMembers.add(name);
      else olderMembers.add(name);
      const object = Object.keys(objects).find((global) => objects[global] === owner);
      if (object && isNewer(member as Identifier)) newerStatics.add(`${object}.${name}`);
    }
  }
}
for (const name of olderMembers) newerMembers.delete(name);

const isNewerGlobal = (name: string) => newerGlobals.has(name) || newerStatics.has(`window.${name}`);

interface Node {
  type: string;
  [field: string]: unknown;
}
const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string';

const nameOf = (node: unknown): string =>
  isNode(node) && node.type === 'Identifier' ? String(node.name) : '';

/** The name of a member, without what is computed. */
function memberOf(node: Node): string {
  if (!node.computed) return nameOf(node.property);
  const { type, value } = node.property as Node;
  return type === 'Literal' ? String(value) : '';
}

/** Look-behind, modifiers, and flags `d` and `v`. */
const isNewerPattern = (pattern: string, flags: string): boolean =>
  /\(\?<[=!]|\(\?[ims]*-?[ims]*:/.test(pattern.replaceAll('(?:', '')) || /[dv]/.test(flags);

/**
 * Lists what a script uses that browsers of the floor lack.
 * @param source JavaScript
 * @returns such as `Object.hasOwn`, `.toSorted()`, `reportError`, `/(?<=a)/`, `top-level await`
 */
export function findNewerApis(source: string): string[] {
  const found = new Set<string>();
  function visit(node: Node, parent: Node | null, field: string, isTop: boolean): void {
    if (isTop && (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)))
      found.add('top-level await');
    if (node.type === 'Identifier' && isNewerGlobal(nameOf(node))) {
      const isName =
        (parent?.type === 'MemberExpression' && field === 'property' && !parent.computed) ||
        (field === 'key' && !parent?.computed);
      if (!isName) found.add(nameOf(node));
    }
    if (node.type === 'MemberExpression') {
      const object =
        isNode(node.object) && node.object.type === 'MemberExpression'
          ? memberOf(node.object)
          : nameOf(node.object);
      const member = memberOf(node);
      const isGlobal = globals.has(object) || object in objects;
      if (newerStatics.has(`${object}.${member}`)) found.add(`${object}.${member}`);
      else if (newerGlobals.has(member) && ['window', 'self', 'globalThis'].includes(object))
        found.add(member);
      else if (
        !isGlobal &&
        newerMembers.has(member) &&
        parent?.type === 'CallExpression' &&
        field === 'callee'
      )
        found.add(`.${member}()`);
    }
    if (isNode(node) && node.type === 'Literal' && node.regex) {
      const { pattern, flags } = node.regex as { pattern: string; flags: string };
      if (isNewerPattern(pattern, flags)) found.add(`/${pattern}/${flags}`);
    }
    // The build turns what it cannot lower in a pattern into a call, which then fails when it runs.
    if (['NewExpression', 'CallExpression'].includes(node.type) && nameOf(node.callee) === 'RegExp') {
      const [pattern, flags] = (node.arguments as Node[]).map((part) =>
        part.type === 'Literal' ? String(part.value) : '',
      );
      if (isNewerPattern(pattern ?? '', flags ?? '')) found.add(`/${pattern}/${flags ?? ''}`);
    }
    for (const [key, value] of Object.entries(node)) {
      for (const child of [value].flat())
        if (isNode(child))
          visit(child, node, key, isTop && !/Function/.test(node.type) && node.type !== 'PropertyDefinition');
    }
  }
  visit(parseSync('script.js', source).program as unknown as Node, null, '', true);
  return [...found].sort();
}

/**
 * Whether a script has syntax that browsers of the floor cannot parse: lowering it changes it.
 * @param source JavaScript
 */
export async function hasNewerSyntax(source: string): Promise<boolean> {
  const printed = async (target: string | string[]) =>
    (await transformWithOxc(source, 'script.js', { target, sourcemap: false })).code;
  const [asIs, lowered] = await Promise.all([printed('esnext'), printed(buildTarget)]);
  return asIs !== lowered;
}
