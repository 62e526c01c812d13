// A list on paper.
import { formatCount } from '../../../domain/count.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { PrintSheet } from './print-sheet.tsx';

/** Numbers, phones, dates: text without line breaks. */
const shortLength = 16;

interface PrintedListProps<Row> {
  heading: string;
  columns: readonly CsvColumn<Row>[];
  rows: readonly Row[];
  /** Whether the list has more rows, which are not printed. */
  isPart: boolean;
  summary: string | undefined;
  onPrinted(): void;
}

export function PrintedList<Row extends { id: string }>({
  heading,
  columns,
  rows,
  isPart,
  summary,
  onPrinted,
}: PrintedListProps<Row>) {
  return (
    <PrintSheet paper="page" onPrinted={onPrinted}>
      <h1 className="text-xl">{heading}</h1>
      <p className="mb-2">
        {formatDateTime(new Date().toISOString())}, {formatCount(rows.length)} rows
        {isPart ? ' (the first ones)' : ''}
      </p>
      {summary ? <p className="mb-2 font-semibold">{summary}</p> : null}
      <table className="w-full text-left text-xs">
        <thead>
          <tr className="border-b-2 border-black">
            {columns.map(({ title }) => (
              <th key={title} scope="col" className="py-1 pr-2">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id} className="break-inside-avoid border-b border-black/40 align-top">
              {columns.map(({ title, value }) => {
                const text = String(value(row) ?? '');
                const wrap = text.length <= shortLength ? 'whitespace-nowrap' : 'wrap-anywhere';
                return (
                  <td key={title} className={`py-1 pr-2 ${wrap}`}>
                    {text}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </PrintSheet>
  );
}
