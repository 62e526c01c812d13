// Writes the rows of a shop into a database, within one transaction: an interruption leaves it as it was.
import {
  lockMigrations,
  type MigrationSource,
  migrateLike,
  type Session,
} from '@jani-juice/backend/database';
import type { Content } from '../manifest.ts';
import { differenceOf, readSums } from './figures.ts';
import type { RowSource } from './row-source.ts';
import { digestOf, insertLines, LineDigest, listTables, setTextForm, type Table } from './table-rows.ts';

/** The written rows are not the ones that were read. */
export class ContentMismatch extends Error {
  override readonly name = 'ContentMismatch';
}

/** How a table is written into a database whose tables differ. */
export interface Adaptation {
  /** Tables that are written; all others are left as they are. */
  isWritten(table: string): boolean;
  /** Tables with the same columns in both databases. They belong to the connecting role, and are emptied before. */
  isOwn(table: string): boolean;
  /** Changes a row of the columns that both databases have. */
  changeRow?(table: string, row: Record<string, string | null>): void;
}

const everything: Adaptation = { isWritten: () => true, isOwn: () => true };

/**
 * Creates a shop with the rows of a source in a database without one, and reads them again.
 * @param session of a transaction that is committed only when this returns
 * @throws ContentMismatch, and errors of `migrateLike`
 */
export async function createShop(
  session: Session,
  source: RowSource,
  migrations: readonly MigrationSource[],
): Promise<Content> {
  await lockMigrations(session);
  await migrateLike(session, migrations, source.migrations);
  return replaceRows(session, source);
}

/**
 * Replaces all rows of a database that has the schema of the source, and reads them again.
 * @param session of a transaction that is committed only when this returns
 * @throws ContentMismatch
 */
export async function replaceRows(
  session: Session,
  source: RowSource,
  adaptation: Adaptation = everything,
): Promise<Content> {
  await setTextForm(session);
  const pairs = await matchTables(session, source, adaptation);
  const own = pairs.filter(({ isOwn }) => isOwn).map(({ table }) => table.name);
  // What triggers would do has happened already: their results are among the rows.
  for (const name of own) await session.execute(`alter table ${name} disable trigger user`);
  if (own.length > 0) await session.execute(`truncate ${own}`);
  const digests = new Map<string, LineDigest>();
  for (const { table, change } of pairs) {
    const digest = new LineDigest();
    digests.set(table.name, digest);
    for await (const read of source.read(table.name)) {
      const lines = change ? read.map(change) : read;
      digest.add(lines);
      await insertLines(session, table, lines);
    }
  }
  const content = await source.finish();
  // A table with checks that wait for the commit cannot be altered.
  await session.execute('set constraints all immediate');
  for (const name of own) await session.execute(`alter table ${name} enable trigger user`);
  await setSequences(session, content.sequences);
  await compareRows(session, pairs, digests, content);
  // The first requests find many rows of which nothing is known.
  if (own.length > 0) await session.execute(`analyze ${own}`);
  return content;
}

/**
 * Whether a database has the rows of a source already, as after a move that was interrupted at its very end.
 * @param session of a transaction with isolation level repeatable read
 */
export async function hasRows(
  session: Session,
  source: RowSource,
  adaptation: Adaptation = everything,
): Promise<boolean> {
  await setTextForm(session);
  try {
    const pairs = await matchTables(session, source, adaptation);
    const digests = new Map<string, LineDigest>();
    for (const { table, change } of pairs) {
      const digest = new LineDigest();
      digests.set(table.name, digest);
      for await (const read of source.read(table.name)) digest.add(change ? read.map(change) : read);
    }
    await compareRows(session, pairs, digests, await source.finish());
    return true;
  } catch (error) {
    if (error instanceof ContentMismatch) return false;
    throw error;
  }
}

interface Pair {
  /** As it is in the target, with the columns that are written. */
  table: Table;
  /** Turns a line of the source into one of the target. Null: they are the same. */
  change: ((line: string) => string) | null;
  isOwn: boolean;
}

async function matchTables(
  session: Session,
  source: RowSource,
  { isWritten, isOwn, changeRow }: Adaptation,
): Promise<Pair[]> {
  const inTarget = await listTables(session);
  const pairs: Pair[] = [];
  for (const { name, columns } of source.tables) {
    if (!isWritten(name)) continue;
    const found = inTarget.find((table) => table.name === name);
    const common = columns.filter((column) => found?.columns.some((one) => one.name === column));
    const isComplete = common.length === columns.length && common.length === found?.columns.length;
    if (!found || (isOwn(name) && !isComplete)) {
      throw new ContentMismatch(`the table ${name} is not the same in both databases`);
    }
    const table = { name, columns: found.columns.filter((column) => common.includes(column.name)) };
    const order = table.columns.map((column) => columns.indexOf(column.name));
    const isSame = isComplete && order.every((position, index) => position === index) && !changeRow;
    pairs.push({ table, isOwn: isOwn(name), change: isSame ? null : change });

    function change(line: string): string {
      const values = JSON.parse(line) as (string | null)[];
      const entries = table.columns.map((column, index) => [column.name, values[order[index] ?? -1] ?? null]);
      const row = Object.fromEntries(entries) as Record<string, string | null>;
      changeRow?.(name, row);
      return JSON.stringify(table.columns.map((column) => row[column.name]));
    }
  }
  return pairs;
}

async function setSequences(session: Session, sequences: Content['sequences']): Promise<void> {
  await session.query(
    `select pg_catalog.setval(to_regclass(name), value::bigint, true)
     from jsonb_each_text($1::jsonb) as given (name, value)
     where has_sequence_privilege(to_regclass(name), 'update')`,
    [JSON.stringify(sequences)],
  );
}

async function compareRows(
  session: Session,
  pairs: readonly Pair[],
  digests: ReadonlyMap<string, LineDigest>,
  content: Content,
): Promise<void> {
  for (const { table } of pairs) {
    const expected = digests.get(table.name)?.result();
    const found = await digestOf(session, table);
    if (expected?.rows !== found.rows) {
      throw new ContentMismatch(
        `${table.name}: ${expected?.rows} rows were read, ${found.rows} were written`,
      );
    }
    if (expected.hash !== found.hash)
      throw new ContentMismatch(`${table.name}: a row differs after writing it`);
  }
  const difference = differenceOf(content.sums, await readSums(session));
  if (difference) throw new ContentMismatch(difference);
}
