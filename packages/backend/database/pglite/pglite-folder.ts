// The folder of an embedded database: creates it whole or not at all, and checks before the start what PGlite cannot report.
// The caller holds the folder's lock.
import { statSync } from 'node:fs';
import {
  access,
  chmod,
  constants,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { syncFile, syncTree } from '../../durable-file.ts';
import { type Database, DatabaseError, OtherVersion } from '../database.ts';
import { readBlankPglite } from './blank-pglite.ts';
import { findDamagedPage, pageBytes } from './page-check.ts';

/** The major version of PostgreSQL in PGlite, in which the files of a database are written. */
export const postgresqlMajor = 18;

/** Free bytes below which a failed start is attributed to the disk. PostgreSQL allocates its log in pieces of 16 MB. */
const minimumFreeBytes = 32 * 1024 * 1024;

/**
 * Files that name a running server. The lock of the folder replaces them: after a kill they are stale, after a power cut they may
 * be empty, and PGlite starts on neither.
 */
const serverFiles = ['postmaster.pid', 'postmaster.opts'];

/**
 * Prepares the folder for a start: creates the database if there is none.
 * @param options `blanks`: a folder that may contain a blank database; `isDurable`: waits for the disk
 * @throws OtherVersion for files of another version of PostgreSQL; DatabaseError XX001 if they are damaged; errors with a path
 * if they cannot be read or written
 */
export async function preparePgliteFolder(
  folder: string,
  options: { blanks?: string | undefined; isDurable: boolean },
): Promise<void> {
  await chmodIfPresent(folder);
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  // What a first start that was interrupted has left: no database was opened from it.
  const draft = `${await realpath(folder).catch(() => folder)}.new`;
  await rm(draft, { recursive: true, force: true });
  if (names.length === 0) {
    await createDatabase(draft, folder, options);
    return;
  }
  await checkVersion(folder, names);
  for (const name of names) {
    if (serverFiles.includes(name) || name.startsWith('.s.PGSQL.')) {
      await rm(join(folder, name), { recursive: true, force: true });
    }
  }
}

async function createDatabase(
  draft: string,
  folder: string,
  { blanks, isDurable }: { blanks?: string | undefined; isDurable: boolean },
): Promise<void> {
  // PGlite creates world-writable files, so the folder itself is private, as on servers.
  await mkdir(draft, { mode: 0o700 });
  const blank = blanks ? await readBlankPglite(blanks) : null;
  if (blank) {
    for (const { header, data } of blank) {
      if (data) await writeFile(join(draft, header.name), data);
      else await mkdir(join(draft, header.name), { recursive: true });
    }
  } else {
    const created = await PGlite.create({ dataDir: draft });
    await created.close();
  }
  if (isDurable) await syncTree(draft);
  const target = await realpath(folder).catch(() => folder);
  await rename(draft, target);
  if (isDurable) await syncFile(dirname(target));
}

async function checkVersion(folder: string, names: readonly string[]): Promise<void> {
  if (!names.includes('PG_VERSION')) throw damaged(folder, 'its file PG_VERSION is missing');
  const text = await readFile(join(folder, 'PG_VERSION'), 'latin1');
  // Without its line end, another version may be the beginning of this one.
  const major = /^\d{2,3}\n$/.test(text) || text === String(postgresqlMajor) ? Number(text) : null;
  if (major === null) throw damaged(folder, 'its file PG_VERSION does not contain a version');
  if (major !== postgresqlMajor) {
    throw new OtherVersion(
      `The database in ${folder} was written by PostgreSQL ${major}, but this version contains PostgreSQL ${postgresqlMajor}`,
      major > postgresqlMajor,
    );
  }
  const control = join(folder, 'global/pg_control');
  await access(control, constants.R_OK | constants.W_OK).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' || error.code === 'ENOTDIR'
      ? damaged(folder, `${control} is missing`)
      : error;
  });
}

/**
 * Finds the cause of a failed start.
 * @param error of PGlite, which reports the same for most causes
 * @returns XX001 for damaged files, 53100 for a full disk, 53200 without enough memory
 */
export async function describeOpenFailure(
  folder: string | undefined,
  error: unknown,
): Promise<DatabaseError> {
  const where = folder ?? 'memory';
  const reason = error instanceof Error ? error.message : String(error);
  if (error instanceof RangeError || /out of memory|could not allocate memory/i.test(reason)) {
    return new DatabaseError(`There is not enough memory to open the database in ${where} (${reason})`, {
      code: '53200',
      cause: error,
    });
  }
  const disk = folder ? await statfs(folder).catch(() => null) : null;
  const freeBytes = disk ? disk.bavail * disk.bsize : Number.POSITIVE_INFINITY;
  if (freeBytes < minimumFreeBytes) {
    const free = `${Math.floor(freeBytes / 1024 / 1024)} MB`;
    return new DatabaseError(`The database in ${where} could not be opened: its disk has only ${free} left`, {
      code: '53100',
      cause: error,
    });
  }
  return damaged(where, reason, error);
}

function damaged(where: string, reason: string, cause?: unknown): DatabaseError {
  return new DatabaseError(`The database in ${where} is damaged (${reason})`, { code: 'XX001', cause });
}

interface Relation {
  /** Quoted name with its schema. */
  name: string;
  /** Relative to the folder. */
  path: string;
  /** As in `pg_class`. */
  kind: string;
  /** For a complete B-tree: its object ID, and its table. */
  index: number | null;
  table_name: string | null;
  table_path: string | null;
}

/**
 * Checks that every table and index still has its file, because PostgreSQL notices that only when it reads them, and takes an
 * empty file for an empty table. Then checks all pages.
 * @param options `readsPages`: false checks the files' presence alone
 * @throws DatabaseError XX001
 */
export async function checkRelationFiles(
  database: Pick<Database, 'query' | 'transaction'>,
  folder: string,
  { readsPages }: { readsPages: boolean },
): Promise<void> {
  const { rows } = await database.query<Relation>(relations);
  if (readsPages) {
    const found = await database.query<{ has_checksums: boolean; log_end: number }>(
      `select current_setting('data_checksums') = 'on' as has_checksums,
         (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::double precision as log_end`,
    );
    const { has_checksums: hasChecksums = false, log_end: logEnd = 0 } = found.rows[0] ?? {};
    const checked = rows.map(({ name, path, table_path: tablePath }) => ({ name, path, tablePath }));
    const damage = findDamagedPage(checked, { folder, hasChecksums, logEnd });
    if (damage) throw damaged(folder, damage);
  }
  const sizes = new Map(
    rows.map(({ path }) => [path, statSync(join(folder, path), { throwIfNoEntry: false })?.size ?? null]),
  );
  for (const { name, path, kind } of rows) {
    const size = sizes.get(path) ?? null;
    // Indexes and sequences have a page from their beginning.
    if (size === null || (size === 0 && kind !== 'r')) {
      throw damaged(folder, `the file of ${name}, ${path}, is ${size === null ? 'missing' : 'empty'}`);
    }
  }
  for (const { index, table_name: table, table_path: path, path: indexPath } of rows) {
    // Deleted and vacuumed rows leave an empty table with an index of several pages. Reading it then finds no entry; in a damaged
    // database it finds one whose page is missing.
    if (index === null || table === null || path === null) continue;
    if (sizes.get(path) !== 0 || (sizes.get(indexPath) ?? 0) <= pageBytes) continue;
    await readFirst(database, table, index).catch((error) => {
      throw damaged(folder, `the file of ${table}, ${path}, is empty`, error);
    });
  }
}

/** Reads the row of an index's first entry. */
async function readFirst(
  database: Pick<Database, 'transaction'>,
  table: string,
  index: number,
): Promise<void> {
  await database.transaction(async (session) => {
    const { rows } = await session.query<{ key: string }>(
      'select pg_get_indexdef($1::oid, 1, false) as key',
      [index],
    );
    await session.execute(
      ['seqscan', 'indexonlyscan', 'bitmapscan', 'sort']
        .map((plan) => `set local enable_${plan} = off;`)
        .join(''),
    );
    await session.query(`select from only ${table} order by ${rows[0]?.key} limit 1`);
  });
}

const relations = `
  select format('%I.%I', n.nspname, c.relname) as name, pg_relation_filepath(c.oid) as path,
    case when c.relkind in ('r', 'm', 't') then 'r' else c.relkind::text end as kind,
    i.indexrelid::integer as index, i.indrelid::regclass::text as table_name, pg_relation_filepath(i.indrelid) as table_path
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_am a on a.oid = c.relam and a.amname = 'btree'
  left join pg_index i on i.indexrelid = c.oid and i.indisvalid and i.indpred is null and a.oid is not null
  where c.relpersistence = 'p' and pg_relation_filepath(c.oid) is not null`;

async function chmodIfPresent(folder: string): Promise<void> {
  await chmod(folder, 0o700).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}
