// The documentation names only files and folders that exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const untracked = /^(\..*|build|data|node_modules)$/;
const folders = readdirSync(root, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() && !untracked.test(entry.name) ? [entry.name] : [],
);

const documents = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`);

test.each(['README.md', ...documents])('%s', (document) => {
  const quoted = readFileSync(join(root, document), 'utf8').matchAll(/`([\w-]+(?:\/[\w.-]+)+\/?)`/g);
  const paths = [...quoted].map(([, path = '']) => path);
  const named = paths.filter((path) => folders.includes(path.split('/', 1)[0] ?? ''));
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});
