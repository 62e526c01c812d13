// CSV files for spreadsheets.
import { unparse } from 'papaparse';

export interface CsvColumn<Row> {
  title: string;
  value(row: Row): string | number | null;
}

const newline = '\r\n';

/** The beginning of a file: the byte order mark, by which Excel recognises UTF-8, and the headings. */
export const csvHeading = <Row>(columns: readonly CsvColumn<Row>[]): string =>
  `\uFEFF${unparse([columns.map(({ title }) => title)], { newline })}${newline}`;

/** One line per row. */
export function csvLines<Row>(columns: readonly CsvColumn<Row>[], rows: readonly Row[]): string {
  const cells = rows.map((row) => columns.map(({ value }) => asText(value(row) ?? '')));
  return `${unparse(cells, { newline })}${newline}`;
}

// OWASP, "CSV Injection": spreadsheets run a cell that begins with one of these. Some skip blanks and invisible characters
// before it, and read full-width and small forms as the plain character (NFKC maps them to it).
const formulaStart = /^[=+\-@\u2212]/;
const skippedStart = /^[\p{C}\p{Z}\p{M}\s]+/u;
const controlStart = /^[\t\n\r]/;
// Excel shows +254712345678 as 2.54713E+11 and drops the zero of 0712345678.
const readAsNumber = /^\d[\d.,]*(e[+-]?\d+)?%?$/i;

/**
 * Keeps a text a text in Excel, LibreOffice and Google Sheets: what one of them would run as a formula or read as a number begins
 * with an apostrophe. All three show ="…" differently, and drop or keep a tab.
 */
function asText(value: string | number): string | number {
  if (typeof value === 'number') return value;
  const read = value.normalize('NFKC').replace(skippedStart, '');
  return controlStart.test(value) || formulaStart.test(read) || readAsNumber.test(read.trim())
    ? `'${value}`
    : value;
}
