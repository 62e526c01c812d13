// Prints a whole filtered list as a plain table, including rows that are not loaded yet.
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { dataOf } from '../data/table-answer.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import type { Cursor, ReadPage } from '../list/use-rows.ts';
import { usePart } from '../ui/use-part.ts';

/** About thirty pages, and as many as the table service returns at once; larger lists are exported. */
const printLimit = 1000;
const loadSheet = () => import('./printed-list.tsx');

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
  const sheet = usePart(loadSheet, isRunning || rows !== null, () => setRows(null));
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
      {rows && sheet ? (
        <sheet.PrintedList
          heading={heading}
          columns={columns}
          rows={rows}
          isPart={rows.length >= printLimit}
          summary={summary}
          onPrinted={() => setRows(null)}
        />
      ) : null}
    </>
  );
}
