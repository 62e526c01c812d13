// Copies the files of the embedded database while it runs, with PostgreSQL's low-level API for base backups.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '@jani-juice/backend/database';
import { type Entry, entriesOf } from './archive.ts';
import { type Figures, readFigures } from './copying/figures.ts';

// Files of the running server, which a copy must not contain. The needed part of the write-ahead log is added later.
const leftOut =
  /^(pg_wal|pg_replslot|pg_dynshmem|pg_notify|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans)\/.|^postmaster\.|^backup_label|(^|\/)pgsql_tmp/;

/**
 * Lists the files of a copy. The copy has the state at the moment the last file is listed.
 * @param folder of the database
 * @param work a folder for the end of the write-ahead log
 * @param onFigures receives the figures that the copy must have
 */
export async function* copyOfEmbedded(
  database: Database,
  folder: string,
  work: string,
  onFigures: (figures: Figures) => void,
): AsyncIterable<Entry> {
  // While this slot exists, no checkpoint removes the log that the copy needs. It ends with the session at the latest.
  await database.query(`select pg_create_physical_replication_slot('backup', true, true)`);
  let isRunning = false;
  try {
    yield* copy();
  } finally {
    // An aborted copy must not block the next one.
    if (isRunning) await database.query('select pg_backup_stop(false)').catch(() => {});
    await database.query(`select pg_drop_replication_slot('backup')`).catch(() => {});
  }

  async function* copy(): AsyncIterable<Entry> {
    const { rows: started } = await database.query<{ first: string }>(
      `select pg_walfile_name(pg_backup_start('backup', true)) as first`,
    );
    const first = started[0]?.first ?? '';
    isRunning = true;
    yield* entriesOf(folder, 'database', (name) => leftOut.test(name));
    yield { name: 'database/pg_wal/archive_status', folder: true };
    yield { name: 'database/pg_wal/summaries', folder: true };

    // Within one transaction no other request uses the database: the log ends where the figures were read.
    await mkdir(work, { recursive: true, mode: 0o700 });
    const { label, segments } = await database.transaction(async (session) => {
      onFigures(await readFigures(session));
      const { rows } = await session.query<{ labelfile: string; last: string }>(
        'select labelfile, pg_walfile_name(lsn) as last from pg_backup_stop(false)',
      );
      isRunning = false;
      const { labelfile = '', last = '' } = rows[0] ?? {};
      const { rows: files } = await session.query<{ name: string }>(
        `select name from pg_ls_waldir() where name ~ '^[0-9A-F]{24}$' and name between $1 and $2 order by name`,
        [first, last],
      );
      for (const { name } of files) await copyFile(join(folder, 'pg_wal', name), join(work, name));
      return { label: labelfile, segments: files.map(({ name }) => name) };
    });
    for (const name of segments) yield { name: `database/pg_wal/${name}`, file: join(work, name) };
    yield { name: 'database/backup_label', content: Buffer.from(label) };
  }
}
