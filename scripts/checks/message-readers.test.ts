// What M-PESA writes is read in one place (docs/decisions/reading-messages.md): finds other readers.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const sourcesIn = (folder: string, ending: RegExp) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && ending.test(entry.name) && !/\.test\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path: relative(root, path), text: readFileSync(path, 'utf8') }));
type Sources = ReturnType<typeof sourcesIn>;

/** The lines that match, with their files. */
const found = (sources: Sources, pattern: RegExp) =>
  sources.flatMap(({ path, text }) =>
    text
      .split('\n')
      .filter((line) => pattern.test(line))
      .map((line) => `${path}: ${line.trim()}`),
  );
const code = ['domain', 'supabase/functions', 'server', 'web'].flatMap((folder) =>
  sourcesIn(folder, /\.tsx?$/),
);
const schemas = sourcesIn('supabase/schemas', /\.sql$/);

test('only domain/mpesa/receipt.ts has the pattern of a receipt', () => {
  const files = found(code, /\[A-Z(a-z)?0-9\]\{(8|10)/).map((line) => line.split(':')[0]);
  expect(files).toEqual(['domain/mpesa/receipt.ts']);
});

test('only private.normalised_receipt spells a receipt in SQL', () => {
  const lines = found(schemas, /(upper|lower|trim|regexp_replace)\([^)]*receipt/);
  // Constraints demand the spelling; a test for blanks only asks whether there is a receipt.
  const allowed = /check \(receipt = upper\(receipt\)|nullif\(trim\([\w.]*receipt\), ''\) is not null/;
  expect(lines.length, 'constraints').toBeGreaterThan(1);
  expect(lines.filter((line) => !allowed.test(line))).toEqual([]);
});

test('what reads messages of M-PESA parses no numbers and dates itself', () => {
  const names =
    /daraja\/(stk-callback|stk-query|c2b-payment|statement|reversal|transaction-status|initiated-request|fields\/money-fields)\.ts$/;
  const readers = code.filter(({ path }) => names.test(path));
  expect(readers).toHaveLength(8);
  expect(found(readers, /parseFloat\(|Number\(|Date\.parse\(|new Date\(/)).toEqual([]);
});
