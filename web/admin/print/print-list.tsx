// Prints a whole filtered list as a plain table, including rows that are not loaded yet.
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { dataOf } from '../data/table-answer.ts';
import type { CsvColumn } from '../list/csv.ts';
import type { Cursor, ReadPage } from '../list/use-rows.ts';
import { formatDateTime } from '../ui/dates.ts';
import { PrintSheet } from './print-sheet.tsx';

/** About thirty pages, and as many as the table service returns at once; larger lists are exported. */
const printLimit = 1000;
/** Numbers, phones, dates: text without line breaks. */
const shortLength = 16;

interface PrintListProps<Row> {
  /** Such as 'Orders'. */
  heading: string;
  columns: readonly CsvColumn<Row>[];
  read: ReadPage<Row>;
  /** A line below the heading, such as the sums of a day. */
  summary?: string;
}

export function PrintList<Row extends Cursor>({ heading, columns, read, summary }: PrintListProps<Row>) {
  const [rows, setRows] = useState<readonly Row[] | null>(null);
  const { isRunning, run } = useAction();
  const start = () =>
    run(
      async () =>
        setRows(dataOf(await read({ after: null, limit: printLimit, signal: AbortSignal.timeout(60_000) }))),
      (error) => {
        console.warn('The list could not be read for printing', error);
        showToast({ kind: 'error', title: 'Error', text: 'Failed to load the list. Please try again.' });
      },
    );
  return (
    <>
      <Button tone="quiet" isBusy={isRunning} onClick={() => void start()} className="px-4!">
        Print
      </Button>
      {rows ? (
        <PrintSheet paper="page" onPrinted={() => setRows(null)}>
          <h1 className="text-xl">{heading}</h1>
          <p className="mb-2">
            {formatDateTime(new Date().toISOString())}, {rows.length.toLocaleString('en-KE')} rows
            {rows.length >= printLimit ? ' (the newest)' : ''}
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
      ) : null}
    </>
  );
}
