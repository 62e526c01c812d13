// Where the rows of a shop come from: its database, or a backup.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type AppliedMigration, readMigrations, type Session } from '@jani-juice/backend/database';
import { BrokenArchive, type Entry } from '../archive.ts';
import type { Content, Manifest } from '../manifest.ts';
import { readSums } from './figures.ts';
import { LineDigest, listTables, readLines, setTextForm, type Table } from './table-rows.ts';

export interface RowSource {
  migrations: readonly AppliedMigration[];
  tables: readonly { name: string; columns: readonly string[] }[];
  /** The lines of one of the tables. */
  read(table: string): AsyncIterable<string[]>;
  /** Called after all tables were read. */
  finish(): Promise<Content>;
}

/**
 * Reads a database.
 * @param session of a transaction with isolation level repeatable read
 */
export async function databaseRows(session: Session): Promise<RowSource> {
  const migrations = await readMigrations(session);
  await setTextForm(session);
  const listed = await listTables(session);
  const tables = listed.map(({ name, columns }) => ({ name, columns: columns.map((column) => column.name) }));
  const digests = new Map<string, LineDigest>();
  return {
    migrations,
    tables,
    async *read(name) {
      const table = listed.find((one) => one.name === name) as Table;
      const digest = new LineDigest();
      digests.set(name, digest);
      for await (const lines of readLines(session, table)) {
        digest.add(lines);
        yield lines;
      }
    },
    async finish() {
      return {
        migrations,
        tables: tables.flatMap((table) => {
          const digest = digests.get(table.name);
          return digest ? [{ ...table, ...digest.result() }] : [];
        }),
        // Numbers drawn by requests of the meantime are only skipped.
        sequences: await readSequences(session),
        sums: await readSums(session),
      };
    },
  };
}

async function readSequences(session: Session): Promise<Record<string, string>> {
  const { rows } = await session.query<{ name: string; last: string }>(
    `select format('%I.%I', schemaname, sequencename) as name, last_value::text as last from pg_catalog.pg_sequences
     where schemaname in ('public', 'private', 'auth', 'storage') and last_value is not null order by 1`,
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, last]));
}

/**
 * The entries of an archive with all rows of a source, a few hundred in each file.
 * @param onContent receives what `finish` returns
 */
export async function* entriesOfRows(
  source: RowSource,
  onContent: (content: Content) => void,
): AsyncIterable<Entry> {
  for (const { name } of source.tables) {
    let part = 0;
    for await (const lines of source.read(name)) {
      part += 1;
      yield {
        name: `${partFolder(name)}/${String(part).padStart(7, '0')}`,
        content: Buffer.from(lines.join('\n')),
      };
    }
  }
  onContent(await source.finish());
}

const partFolder = (table: string) => `rows/${table.replaceAll(/[^a-z0-9_.]/gi, '-')}`;

/**
 * Reads an unpacked backup.
 * @throws BrokenArchive from `finish` when its rows are not those that the manifest describes
 */
export function backupRows(folder: string, manifest: Manifest): RowSource {
  const digests = new Map<string, LineDigest>();
  return {
    migrations: manifest.migrations,
    tables: manifest.tables,
    async *read(name) {
      const digest = new LineDigest();
      digests.set(name, digest);
      const parts = join(folder, partFolder(name));
      for (const part of (await readdir(parts).catch(() => [])).sort()) {
        const lines = (await readFile(join(parts, part), 'utf8')).split('\n');
        digest.add(lines);
        yield lines;
      }
    },
    async finish() {
      for (const { name, rows, hash } of manifest.tables) {
        const read = digests.get(name)?.result();
        if (read && (read.rows !== rows || read.hash !== hash)) {
          throw new BrokenArchive(`the rows of ${name} in the backup are not those that were backed up`);
        }
      }
      return manifest;
    },
  };
}
