// Tests wait for a state, not for a time. Vitest's `waitFor` gives up after a second unless a test says otherwise, and units share
// one thread pool for files and hashes: beside other files a single write may take longer.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const folders = [
  'conformance',
  'domain',
  'e2e',
  'packages',
  'scripts',
  'server',
  'supabase',
  'torture',
  'web',
];
const files = folders
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
  .filter(
    (entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.parentPath.includes('node_modules'),
  )
  .map((entry) => join(entry.parentPath, entry.name));

/** The arguments of each call, as text: up to the bracket that closes it. */
function argumentsOf(call: RegExp, text: string): string[] {
  return [...text.matchAll(call)].map(({ 0: found, index }) => {
    const rest = text.slice(index + found.length);
    let depth = 1;
    const end = [...rest].findIndex((character) => {
      if (character === '(') depth += 1;
      else if (character === ')') depth -= 1;
      return depth === 0;
    });
    return rest.slice(0, end);
  });
}

test('every wait for a state says how long it may take', () => {
  const waits = files.flatMap((path) =>
    argumentsOf(/\bvi\.wait(?:For|Until)\(/g, readFileSync(path, 'utf8')).map((given) => ({ path, given })),
  );
  expect(waits.length).toBeGreaterThan(20);
  expect(
    waits.filter(({ given }) => !/\btimeout:/.test(given)).map(({ path }) => relative(root, path)),
  ).toEqual([]);
});
