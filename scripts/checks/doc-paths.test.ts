// The documentation names only files, folders and database objects that exist, places names in files that contain them, and its links
// lead to files and headings that exist. So do the documents that comments in the code name.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { readSchemas } from '../databases/schema-files.ts';

const root = join(import.meta.dirname, '../..');
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

const files = [
  ...readdirSync(root),
  ...folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => !name.includes('node_modules'))
      .map((name) => `${folder}/${name}`),
  ),
];
/** Files whose path ends with a name, such as `routes.ts` or `daraja/stk-push.ts`. */
const filesNamed = (name: string) => files.filter((path) => path === name || path.endsWith(`/${name}`));
const contains = (path: string, word: string) =>
  new RegExp(`\\b${word}\\b`).test(readFileSync(join(root, path), 'utf8'));

const schemas = readSchemas()
  .map(({ sql }) => sql)
  .join('\n');
/** Written by the shop, its backups and the long tests. */
const writtenFiles = new Set(['keys.json', 'version.json', 'backup.json', 'report.json']);

test.each(documents)('paths in %s', (document) => {
  const text = readFileSync(join(root, document), 'utf8');
  const paths = [...text.matchAll(/`([\w-]+(?:\/[\w.-]+)+\/?)`/g)].map(([, path = '']) => path);
  const named = paths.filter((path) => folders.includes(path.split('/', 1)[0] ?? ''));
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  const names = [
    ...text.matchAll(/`((?!\/|build\/|DATA_DIR\/)[\w./-]*[\w-]\.(?:sql|tsx?|mjs|css|json|toml))`/g),
  ];
  expect(
    names
      .map(([, name = '']) => name)
      .filter((name) => !writtenFiles.has(name) && filesNamed(name).length === 0),
  ).toEqual([]);
});

test.each(documents)('names in %s', (document) => {
  const text = readFileSync(join(root, document), 'utf8');
  const objects = [...text.matchAll(/`((?:private|public)\.\w+)/g)].map(([, name = '']) => name);
  expect(objects.filter((name) => !schemas.includes(name))).toEqual([]);
  const placed = [
    ...text.matchAll(/((?:`[\w.]+`(?:, | and )?)+) in `([\w./-]+\.(?:sql|tsx?|mjs))`/g),
  ].flatMap(([, names = '', file = '']) =>
    [...names.matchAll(/(?<!\.(?=sql|tsx?|mjs))\b(\w+)`/g)].map(([, name = '']) => ({ name, file })),
  );
  expect(placed.filter(({ name, file }) => !filesNamed(file).some((path) => contains(path, name)))).toEqual(
    [],
  );
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

/** Files with comments. Migrations are never changed, so they may name documents of their time. */
const sources = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:[cm]?[jt]s|tsx|sql|css|toml)$/.test(name) && !name.includes('node_modules'))
    .map((name) => `${folder}/${name}`)
    .filter((path) => !path.startsWith('supabase/migrations/')),
);

test('documents and headings that comments name', () => {
  const references = sources.flatMap((source) =>
    [
      ...readFileSync(join(root, source), 'utf8').matchAll(/\b(?:docs|packages)\/[\w/-]+\.md(?:#([\w-]+))?/g),
    ].map(([reference, anchor]) => ({ source, reference, anchor })),
  );
  expect(references.some(({ reference }) => reference === 'docs/product.md#statuses')).toBe(true);
  const broken = references.filter(({ reference, anchor }) => {
    const document = join(root, reference.replace(/#.*/, ''));
    return !existsSync(document) || (anchor !== undefined && !anchorsOf(document).includes(anchor));
  });
  expect(broken.map(({ source, reference }) => `${source}: ${reference}`)).toEqual([]);
});
