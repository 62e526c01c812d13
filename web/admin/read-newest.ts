// What the list screens read of a table: how many rows, and the newest.

/** How many are shown until the screens can be searched. */
export const newest = 20;

interface Answer<Row> {
  data: Row[] | null;
  count: number | null;
  error: Error | null;
}

/** @throws the table service's own error, for the screen that says it could not be loaded */
export function rowsAndCount<Row>({ data, count, error }: Answer<Row>): { rows: Row[]; count: number } {
  if (error) throw error;
  return { rows: data ?? [], count: count ?? 0 };
}
