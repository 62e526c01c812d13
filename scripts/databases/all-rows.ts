// Reads every row of a shop's database as PostgreSQL prints it, to compare two databases without the code that copies rows.
import type { Database } from '@jani-juice/backend/database';

/** The rows of each table that a copy must have, in the order of their texts. */
export async function allRows(database: Database): Promise<Map<string, string[]>> {
  return database.transaction(async (session) => {
    await session.execute(`set local timezone = 'UTC'; set local extra_float_digits = 1`);
    const { rows: tables } = await session.query<{ name: string }>(
      `select schemaname || '.' || tablename as name from pg_tables
       join pg_class on pg_class.oid = format('%I.%I', schemaname, tablename)::regclass and relpersistence = 'p'
       where schemaname in ('public', 'private', 'auth', 'storage') order by 1`,
    );
    const found = new Map<string, string[]>();
    for (const { name } of tables) {
      const { rows } = await session.query<{ row: string }>(
        `select one::text as row from ${name} as one order by one::text collate "C"`,
      );
      found.set(
        name,
        rows.map(({ row }) => row),
      );
    }
    const { rows: sequences } = await session.query<{ row: string }>(
      `select sequencename || ' ' || coalesce(last_value::text, 'unused') as row from pg_sequences
       where schemaname in ('public', 'private', 'auth', 'storage') order by 1`,
    );
    found.set(
      'sequences',
      sequences.map(({ row }) => row),
    );
    const { rows: history } = await session.query<{ row: string }>(
      `select source || ' ' || version || ' ' || hash as row from platform.schema_migrations order by 1`,
    );
    found.set(
      'migrations',
      history.map(({ row }) => row),
    );
    return found;
  });
}
