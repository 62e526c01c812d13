// The documentation names only files and folders that exist, and its links lead to files and headings that exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const untracked = /^(\..*|build|data|node_modules)$/;
const folders = readdirSync(root, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() && !untracked.test(entry.name) ? [entry.name] : [],
);

const documents = [
  'README.md',
  ...['docs', 'packages'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md') && !name.includes('node_modules'))
      .map((name) => `${folder}/${name}`),
  ),
];

test.each(documents)('paths in %s', (document) => {
  const quoted = readFileSync(join(root, document), 'utf8').matchAll(/`([\w-]+(?:\/[\w.-]+)+\/?)`/g);
  const paths = [...quoted].map(([, path = '']) => path);
  const named = paths.filter((path) => folders.includes(path.split('/', 1)[0] ?? ''));
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

/** The anchors of a document, as GitHub derives them from its headings. */
const anchorsOf = (document: string) =>
  [...readFileSync(document, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

test.each(documents)('links in %s', (document) => {
  const file = join(root, document);
  const links = readFileSync(file, 'utf8').matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g);
  const broken = [...links].filter(([, path = '', anchor]) => {
    const target = path ? join(dirname(file), path) : file;
    return !existsSync(target) || (anchor && !anchorsOf(target).includes(anchor));
  });
  expect(broken.map(([link]) => link)).toEqual([]);
});
