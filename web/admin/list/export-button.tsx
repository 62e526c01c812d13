// Puts the whole filtered list into a file, also what has not been scrolled to yet.
import { useEffect, useRef, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { showToast } from '../../ui/toasts.tsx';
import { dataOf } from '../table-answer.ts';
import type { CsvColumn } from './csv.ts';
import { saveFile } from './save-file.ts';
import type { Cursor, ReadPage } from './use-rows.ts';

/** As many as the table service gives at once. */
const exportPageSize = 1000;

interface ExportButtonProps<Row> {
  /** Of the file, to which the date is added: 'orders'. */
  name: string;
  columns: readonly CsvColumn<Row>[];
  read: ReadPage<Row>;
}

export function ExportButton<Row extends Cursor>({ name, columns, read }: ExportButtonProps<Row>) {
  const [done, setDone] = useState<number | null>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  async function start() {
    running.current = new AbortController();
    const { signal } = running.current;
    setDone(0);
    try {
      const [{ toCsv }, rows] = [await import('./csv.ts'), await readAll(read, signal, setDone)];
      saveFile(name, 'csv', toCsv(columns, rows));
      showToast({ title: 'Success', text: `${rows.length.toLocaleString('en-KE')} ${name} exported` });
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
      onClick={() => (done === null ? void start() : running.current?.abort())}
      className="max-sm:grow"
    >
      {done === null ? 'Export CSV' : `Cancel export (${done.toLocaleString('en-KE')})`}
    </Button>
  );
}

async function readAll<Row extends Cursor>(
  read: ReadPage<Row>,
  signal: AbortSignal,
  onProgress: (rows: number) => void,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (;;) {
    const last = rows.at(-1);
    const after = last ? { created_at: last.created_at, id: last.id } : null;
    const page = dataOf(await read({ after, limit: exportPageSize, signal }));
    signal.throwIfAborted();
    rows.push(...page);
    onProgress(rows.length);
    if (page.length < exportPageSize) return rows;
  }
}
