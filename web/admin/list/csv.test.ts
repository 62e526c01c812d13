import { expect, test } from 'vitest';
import { toCsv } from './csv.ts';

const columns = [
  { title: 'Name', value: (row: { name: string | null }) => row.name },
  { title: 'Letters', value: (row: { name: string | null }) => row.name?.length ?? 0 },
];
const lines = (...names: (string | null)[]) =>
  toCsv(
    columns,
    names.map((name) => ({ name })),
  )
    .replace('\uFEFF', '')
    .split('\r\n')
    .slice(1, -1);

test('a file begins with the byte order mark and the headings', () => {
  expect(toCsv(columns, [])).toMatch(/^\uFEFFName,Letters\r\n/);
});

test('quotes commas, quotes and new lines, and writes empty fields for missing values', () => {
  expect(lines('Wanjiru, Amina', 'Say "hi"', null)).toEqual(['"Wanjiru, Amina",14', '"Say ""hi""",8', ',0']);
  expect(lines('one\ntwo')[0]).toBe('"one\ntwo",7');
});

test.each([
  '=1+1',
  '@sum(A1)',
  '+cmd',
  '-cmd',
  '−1+1',
  '＝1+1',
  '＋1',
  '－1',
  '＠sum(A1)',
  '﹦1+1',
  '\t=1',
  '\r=1',
  '\n=1',
  '\n1',
  '\t1',
  ' =1',
  '\u00A0=1',
  '\u3000=1',
  '\u200B=1',
  '\u200E=1',
  '\u00AD=1',
  '\u2060\uFEFF=1',
  '\u0000=1',
  '\u0301=1',
  '\u200B\n ＝1',
])('prefixes %j with an apostrophe, because a spreadsheet would run it', (name) => {
  const cell = toCsv([columns[0] as (typeof columns)[0]], [{ name }]).slice('\uFEFFName\r\n'.length, -2);
  expect(cell).toMatch(/^"?'/);
  expect(cell.replace(/^"?'|"$/g, '')).toBe(name);
});

test.each(['+254712345678', '-5', 'Amina = Njeri', 'a@jani.example', '1-2', 'كريم'])(
  'writes %j as it is',
  (name) => {
    expect(lines(name)[0]).toBe(`${name},${name.length}`);
  },
);
