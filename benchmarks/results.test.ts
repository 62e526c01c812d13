import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeResults, readResults, withTable } from './results.ts';

const root = join(import.meta.dirname, '..');
const readme = join('benchmarks', 'README.md');
const textOf = (path: string) => readFileSync(join(root, path), 'utf8');

test("README.md shows the saved results, as 'npm run bench -- --save' writes them", () => {
  expect(withTable(textOf(readme), readResults())).toBe(textOf(readme));
});

test('documents name no other rates: they would not follow the shop', () => {
  const documents = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => join('docs', path));
  const measuredRate = /\d(?:[\d,.]*\d)?\s?(?:\/s\b|tps\b|(?:orders|pages|requests) (?:per|a) second)/;
  const found = [readme, 'README.md', ...documents].flatMap((path) =>
    textOf(path)
      .replace(describeResults(readResults()), '')
      .split('\n')
      .filter((line) => measuredRate.test(line))
      .map((line) => `${path}: ${line}`),
  );
  expect(found).toEqual([]);
});
