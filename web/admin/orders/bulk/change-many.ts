// Changes many rows, each by a request of its own: one that is refused does not stop the others.

/** Requests at a time: fast on a slow line, and no flood for the shop. */
const atOnce = 4;

export interface Changed<Row> {
  changed: Row[];
  failed: { row: Row; error: Error }[];
}

/**
 * @param change changes one row, or throws
 * @param onProgress called with the number of rows that are done
 * @param isStopped whether the rows that are left stay as they are
 */
export async function changeMany<Row>(
  rows: readonly Row[],
  change: (row: Row) => Promise<void>,
  onProgress: (done: number) => void,
  isStopped: () => boolean = () => false,
): Promise<Changed<Row>> {
  const waiting = [...rows];
  const result: Changed<Row> = { changed: [], failed: [] };
  async function work() {
    for (let row = waiting.shift(); row !== undefined && !isStopped(); row = waiting.shift()) {
      try {
        await change(row);
        result.changed.push(row);
      } catch (thrown) {
        result.failed.push({ row, error: thrown as Error });
      }
      onProgress(result.changed.length + result.failed.length);
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work));
  return result;
}
