// The invariants of the shop's books, for the tests of the database and the torture tests.
import { readFile } from 'node:fs/promises';

interface Invariant {
  title: string;
  /** It reads M-PESA's ledger, not only the books. */
  needsLedger: boolean;
  /** It holds only once every open payment could be queried. */
  isAtRest: boolean;
  /** Returns a row (subject, found) for each violation. */
  sql: string;
}

/** Parses money-invariants.sql: a comment per invariant, then the query for its violations. */
export async function readInvariants(): Promise<Invariant[]> {
  const text = await readFile(new URL('./money-invariants.sql', import.meta.url), 'utf8');
  return [...text.matchAll(/^-- (?:\[([^\]]+)\] )?([^\n]+)\n(select[^;]+);/gm)].map(
    ([, marks = '', title = '', sql = '']) => ({
      title,
      needsLedger: marks.includes('ledger'),
      isAtRest: marks.includes('at rest'),
      sql,
    }),
  );
}
