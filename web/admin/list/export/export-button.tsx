// Exports the whole filtered list, including rows that are not loaded yet.
import { useEffect, useRef, useState } from 'react';
import { formatCount } from '../../../../domain/count.ts';
import { Button } from '../../../ui/button.tsx';
import { dismissToast, showToast } from '../../../ui/toasts/toasts.tsx';
import type { Cursor, ReadPage } from '../use-rows.ts';
import type { CsvColumn } from './csv.ts';
import type { RowsExport } from './export-rows.ts';
import { saveFile } from './save-file.ts';

const doubleClickMs = 600;
const topic = 'export';

interface ExportButtonProps<Row> {
  /** File name, to which the date is added: 'orders'. */
  name: string;
  /** The day that the rows are of, as YYYY-MM-DD. Default: today. */
  day?: string;
  /** Default: Export CSV. */
  label?: string;
  columns: readonly CsvColumn<Row>[];
  read: ReadPage<Row>;
}

/**
 * Saves loaded rows as a file.
 * @param name of the file, to which the date is added
 * @param day the day or days that the rows are of. Default: today
 */
export async function exportRows<Row extends Cursor>(
  name: string,
  columns: readonly CsvColumn<Row>[],
  rows: readonly Row[],
  day?: string,
): Promise<void> {
  try {
    const { createExport } = await import('./export-rows.ts');
    const { writeRest } = createExport(
      async ({ after }) => ({ data: after ? [] : [...rows], error: null }),
      columns,
    );
    saveFile(name, 'csv', await writeRest(AbortSignal.timeout(60_000), () => {}), day);
    showToast({ title: 'Success', text: `${formatCount(rows.length)} ${name} exported` });
  } catch (error) {
    console.warn('The export failed', error);
    showToast({ kind: 'error', title: 'Error', text: 'No file was saved. Please try again.' });
  }
}

export function ExportButton<Row extends Cursor>({
  name,
  day,
  label = 'Export CSV',
  columns,
  read,
}: ExportButtonProps<Row>) {
  const [done, setDone] = useState<number | null>(null);
  const running = useRef<AbortController | null>(null);
  const startedAt = useRef(0);
  useEffect(
    () => () => {
      running.current?.abort();
      void dismissToast(topic);
    },
    [],
  );

  /** @param interrupted an export that failed, which goes on where it stopped */
  async function start(interrupted?: RowsExport) {
    running.current = new AbortController();
    const { signal } = running.current;
    setDone(interrupted?.count() ?? 0);
    startedAt.current = Date.now();
    let rows = interrupted;
    const written = () => `${formatCount(rows?.count() ?? 0)} ${name}`;
    void dismissToast(topic);
    try {
      // Its library is loaded with the first export.
      rows ??= (await import('./export-rows.ts')).createExport(read, columns);
      const { count, writeRest } = rows;
      saveFile(name, 'csv', await writeRest(signal, () => setDone(count())), day);
      showToast({ title: 'Success', text: `${written()} exported` });
    } catch (error) {
      if (signal.aborted) return;
      console.warn('The export failed', error);
      const rest = rows;
      showToast({
        kind: 'error',
        title: 'Export stopped',
        text: `It failed after ${written()}. No file was saved yet.`,
        topic,
        content: (
          <Button tone="quiet" className="mt-2" onClick={() => void start(rest)}>
            Continue export
          </Button>
        ),
      });
    } finally {
      setDone(null);
    }
  }
  return (
    <Button
      tone="quiet"
      onClick={() => {
        if (done === null) void start();
        // Prevents the second click of a double click from cancelling.
        else if (Date.now() - startedAt.current > doubleClickMs) running.current?.abort();
      }}
      className="max-sm:grow max-sm:px-4"
    >
      {done === null ? label : `Cancel export (${formatCount(done)})`}
    </Button>
  );
}
