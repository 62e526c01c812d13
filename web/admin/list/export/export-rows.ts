// Writes every row of a filtered list into one file, page by page. Rows are dropped once their lines are written, and the lines belong
// to the browser, which moves large files to its disk: a list of any length takes the memory of one page.
import { dataOf } from '../../data/table-answer.ts';
import type { Cursor, ReadPage } from '../use-rows.ts';
import { type CsvColumn, csvHeading, csvLines } from './csv.ts';

/** Maximum rows that the table service returns at once. */
const pageSize = 1000;

export interface RowsExport {
  /** Rows written so far. */
  count(): number;
  /**
   * Writes the remaining rows. After an error it may be called again, and reads the page that failed.
   * @param onProgress called after each page
   * @returns the whole file
   * @throws when a page cannot be read, or the signal is aborted
   */
  writeRest(signal: AbortSignal, onProgress: () => void): Promise<Blob>;
}

/** An export of all rows that `read` returns. */
export function createExport<Row extends Cursor>(
  read: ReadPage<Row>,
  columns: readonly CsvColumn<Row>[],
): RowsExport {
  const parts = [new Blob([csvHeading(columns)])];
  let after: Cursor | null = null;
  let count = 0;
  return {
    count: () => count,
    async writeRest(signal, onProgress) {
      for (;;) {
        const page: Row[] = dataOf(await read({ after, limit: pageSize, signal }));
        signal.throwIfAborted();
        const last = page.at(-1);
        // Not a short page: a hosted project may return fewer rows than requested.
        if (!last) return new Blob(parts);
        parts.push(new Blob([csvLines(columns, page)]));
        after = { created_at: last.created_at, id: last.id };
        count += page.length;
        onProgress();
      }
    },
  };
}
