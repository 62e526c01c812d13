// docs/error-codes.md lists exactly the errors of the procedures.
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { readSchemas } from '../../../scripts/databases/schema-files.ts';

/** `status code sentence` of every error in the schemas. */
function refusals(): string[] {
  const found = new Set<string>();
  for (const { path, sql } of readSchemas()) {
    const calls = sql.matchAll(
      /perform private\.refuse\(\s*(\d{3}),\s*'([a-z_]+)',\s*(?:format\(\s*)?'((?:[^']|'')*)'/g,
    );
    for (const [, status, code, sentence = ''] of calls) {
      found.add(`${status} ${code} ${sentence.replaceAll("''", "'").replaceAll('%s', '{n}')}`);
    }
    // Errors returned as values; those that rethrow a caught error begin with sqlstate.
    const answers =
      /private\.refusal_answer\(\s*'PT(\d{3})',\s*(?:format\(\s*)?'((?:[^']|'')*)'[^;]*?,\s*'([a-z_]+)',\s*''\)/g;
    for (const [, status, sentence = '', code] of sql.matchAll(answers)) {
      found.add(`${status} ${code} ${sentence.replaceAll("''", "'").replaceAll('%s', '{n}')}`);
    }
    expect(sql.match(/(?:return|:=) private\.refusal_answer\((?!sqlstate)/g)?.length ?? 0, path).toBe(
      sql.match(answers)?.length ?? 0,
    );
    // A call in another notation would not be found.
    const written = sql.match(/perform private\.refuse\(/g)?.length ?? 0;
    expect(written, path).toBe(
      sql.match(/perform private\.refuse\(\s*\d{3},\s*'[a-z_]+',\s*(?:format\(\s*)?'/g)?.length ?? 0,
    );
  }
  return [...found].sort();
}

test('lists exactly the errors of the schemas with status, code and sentence', async () => {
  const page = await readFile(new URL('../../../docs/error-codes.md', import.meta.url), 'utf8');
  const rows = page.matchAll(/^\|\s*`([a-z_]+)`\s*\|\s*(\d{3})\s*\|\s*([^|]+?)\s*\|/gm);
  const listed = [...rows].map(([, code, status, sentence]) => `${status} ${code} ${sentence}`).sort();
  const written = refusals();
  expect(written.length).toBeGreaterThan(25);
  expect(listed).toEqual(written);
});
