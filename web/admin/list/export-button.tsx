// Exports the whole filtered list, including rows that are not loaded yet.
import { useEffect, useRef, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { showToast } from '../../ui/toasts.tsx';
import type { CsvColumn } from './csv.ts';
import { readAll } from './read-all.ts';
import { saveFile } from './save-file.ts';
import type { Cursor, ReadPage } from './use-rows.ts';

/** Maximum rows: a larger file would exceed a phone's memory. A date filter splits the export. */
const exportLimit = 20_000;
const doubleClickMs = 600;

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
  useEffect(() => () => running.current?.abort(), []);

  async function start() {
    running.current = new AbortController();
    const { signal } = running.current;
    setDone(0);
    startedAt.current = Date.now();
    try {
      const [{ toCsv }, rows] = [
        await import('./csv.ts'),
        await readAll(read, { limit: exportLimit, signal, onProgress: setDone }),
      ];
      saveFile(name, 'csv', toCsv(columns, rows), day);
      const exported = `${rows.length.toLocaleString('en-KE')} ${name}`;
      showToast(
        rows.length < exportLimit
          ? { title: 'Success', text: `${exported} exported` }
          : {
              title: 'Not all exported',
              text: `The file has the newest ${exported}. Choose days for the others.`,
            },
      );
    } catch (error) {
      if (!signal.aborted) {
        console.warn('The export failed', error);
        showToast({ kind: 'error', title: 'Error', text: `Failed to export the ${name}. Please try again.` });
      }
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
      {done === null ? label : `Cancel export (${done.toLocaleString('en-KE')})`}
    </Button>
  );
}
