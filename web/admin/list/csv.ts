// Rows as a file that spreadsheets open.
import { unparse } from 'papaparse';

export interface CsvColumn<Row> {
  title: string;
  value(row: Row): string | number | null;
}

// Spreadsheets run what begins like a formula, and anybody may write a name. A signed number is only a number.
const formula = /^[=@\t\r]|^[+-](?!\d+$)/;

/** The file's text: a heading, one line a row, and the mark by which Excel knows that it is UTF-8. */
export function toCsv<Row>(columns: readonly CsvColumn<Row>[], rows: readonly Row[]): string {
  const text = unparse(
    {
      fields: columns.map(({ title }) => title),
      data: rows.map((row) => columns.map(({ value }) => value(row) ?? '')),
    },
    { escapeFormulae: formula, newline: '\r\n' },
  );
  return `\uFEFF${text}\r\n`;
}
