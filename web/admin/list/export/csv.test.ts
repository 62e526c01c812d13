import { expect, test } from 'vitest';
import { phoneCell } from '../phone-cell.ts';
import { csvHeading, csvLines } from './csv.ts';

const columns = [
  { title: 'Name', value: (row: { name: string | null }) => row.name },
  { title: 'Letters', value: (row: { name: string | null }) => row.name?.length ?? 0 },
];
const lines = (...names: (string | null)[]) =>
  csvLines(
    columns,
    names.map((name) => ({ name })),
  )
    .split('\r\n')
    .slice(0, -1);

test('a file begins with the byte order mark and the headings', () => {
  expect(csvHeading(columns)).toBe('\uFEFFName,Letters\r\n');
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
  // Read as numbers.
  '+254712345678',
  '254712345678',
  '0712345678',
  '０７１２',
  '\u200B0712',
  ' 0712',
  '-5',
  '+1',
  '1E5',
  '1e+5',
  '1,000',
  '12.50',
  '50%',
])('prefixes %j with an apostrophe, because a spreadsheet would run it or read it as a number', (name) => {
  const cell = csvLines([columns[0] as (typeof columns)[0]], [{ name }]).slice(0, -2);
  expect(cell).toMatch(/^"?'/);
  expect(cell.replace(/^"?'|"$/g, '')).toBe(name);
});

test.each([
  '0712 345 678',
  '12 Riverside Drive',
  'Amina = Njeri',
  'a@jani.example',
  'JJ-20261121-1234',
  'UKL3AB12CD',
  'كريم',
])('writes %j as it is', (name) => {
  expect(lines(name)[0]).toBe(`${name},${name.length}`);
});

test.each([
  ['+254712345678', '0712 345 678'],
  ['0712345678', '0712 345 678'],
  ['254 712-345678', '0712 345 678'],
  ['+254112345678', '0112 345 678'],
  // The apostrophe keeps it as text.
  ['+447911123456', '+447911123456'],
  ['call Amina', 'call Amina'],
  [null, null],
])('the phone %j is written as %j', (phone, cell) => {
  expect(phoneCell(phone)).toBe(cell);
});

test('numbers stay numbers', () => {
  expect(csvLines([{ title: 'Cents', value: () => -12.5 }], [{}])).toBe('-12.5\r\n');
});
