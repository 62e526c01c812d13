// Reads all rows of a filtered list, page by page.
import { dataOf } from '../table-answer.ts';
import type { Cursor, ReadPage } from './use-rows.ts';

/** Maximum rows that the table service returns at once. */
const pageSize = 1000;

interface ReadAllOptions {
  /** Maximum rows. */
  limit: number;
  signal: AbortSignal;
  onProgress?(rows: number): void;
}

export async function readAll<Row extends Cursor>(
  read: ReadPage<Row>,
  { limit, signal, onProgress }: ReadAllOptions,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (;;) {
    const last = rows.at(-1);
    const after = last ? { created_at: last.created_at, id: last.id } : null;
    const page = dataOf(await read({ after, limit: pageSize, signal }));
    signal.throwIfAborted();
    rows.push(...page);
    onProgress?.(rows.length);
    if (page.length < pageSize || rows.length >= limit) return rows;
  }
}
