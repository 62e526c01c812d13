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

test('a file begins with the mark of UTF-8 and the headings', () => {
  expect(toCsv(columns, [])).toMatch(/^\uFEFFName,Letters\r\n/);
});

test('what holds a comma, a quote or a new line is quoted, and nothing is an empty field', () => {
  expect(lines('Wanjiru, Amina', 'Say "hi"', null)).toEqual(['"Wanjiru, Amina",14', '"Say ""hi""",8', ',0']);
  expect(lines('one\ntwo')[0]).toBe('"one\ntwo",7');
});

test('no name is a formula to a spreadsheet', () => {
  for (const name of ['=1+1', '@sum(A1)', '+cmd', '-cmd', '\t=1']) {
    expect(lines(name)[0], name).toMatch(/^"?'/);
  }
});

test('a phone number stays as it is', () => {
  expect(lines('+254712345678')[0]).toBe('+254712345678,13');
});
