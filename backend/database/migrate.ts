// Brings a database up to the newest schema: ordered files, each applied once, none changed afterwards.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { asDatabaseError, type Database, DatabaseError, OtherVersion, type Session } from './database.ts';

/** A folder of `*.sql` files, applied in the order of their names. */
export interface MigrationSource {
  /** Owner of the files; names may repeat between sources. */
  name: string;
  folder: string;
}

/** The database's history does not match the files: one was changed or deleted, or the database is too old. */
export class MigrationChanged extends Error {
  override readonly name = 'MigrationChanged';
}

// Any constant: it only has to be the same in every process.
const lockKey = 7_204_517_331;

/** Attempts of one call of `migrate`. Each repeats only after another database's migration has committed. */
const maxAttempts = 20;

/**
 * Applies what is missing, all in one transaction: a failure, or a process killed in the middle, leaves the schema as it
 * was. Processes that start concurrently wait for each other on an advisory lock. That lock belongs to one database; roles belong to
 * the cluster, so a collision with the migration of another database is retried.
 * @param sources applied in this order
 * @returns the names of the files applied now, as `source/file`
 * @throws OtherVersion for a database of a newer version; MigrationChanged when history and files disagree; DatabaseError with the file's name when SQL fails
 */
export async function migrate(database: Database, sources: readonly MigrationSource[]): Promise<string[]> {
  const migrations = (await Promise.all(sources.map(readSource))).flat();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await applyMissing(database, sources, migrations);
    } catch (error) {
      if (attempt >= maxAttempts || !isRoleCollision(error)) throw error;
    }
  }
}

/** Whether another transaction wrote the same row of a catalogue that all databases of the cluster share. */
function isRoleCollision(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false;
  if (error.code === '23505') return /^pg_(authid|auth_members)_/.test(error.constraint ?? '');
  return error.code === 'XX000' && error.message.endsWith('tuple concurrently updated');
}

/** A migration in the history of a database. */
export interface AppliedMigration {
  source: string;
  version: string;
  hash: string;
}

/** Lets no other process migrate the database, or start on it, until the transaction ends. */
export async function lockMigrations(session: Session): Promise<void> {
  await session.query('select pg_advisory_xact_lock($1::bigint)', [lockKey]);
}

/** The migrations of a database, in the order of their names. */
export async function readMigrations(session: Session): Promise<AppliedMigration[]> {
  const { rows } = await session.query<AppliedMigration>(
    'select source, version, hash from platform.schema_migrations order by source, version',
  );
  return rows;
}

/**
 * Gives a database without migrations the schema of another one, for its rows. Later migrations are left to `migrate`.
 * @param history the migrations of the other database
 * @throws OtherVersion, MigrationChanged as `migrate` does for that database
 */
export async function migrateLike(
  session: Session,
  sources: readonly MigrationSource[],
  history: readonly AppliedMigration[],
): Promise<void> {
  const wanted = (await Promise.all(sources.map(readSource))).flat();
  const left = new Map(history.map((row) => [keyOf(row), row.hash]));
  await startHistory(session);
  for (const migration of wanted) {
    const key = keyOf(migration);
    const hash = left.get(key);
    left.delete(key);
    if (hash !== undefined && hash !== migration.hash) throw hasChanged(key);
    if (hash === undefined) {
      if (!migration.replaces || !takesBaseline(migration, history.map(keyOf))) continue;
      for (const former of left.keys()) if (isReplacedBy(migration, former)) left.delete(former);
    }
    await applyFile(session, migration);
  }
  const names = new Set(sources.map(({ name }) => name));
  const missing = [...left.keys()].find((key) => names.has(key.slice(0, key.indexOf('/'))));
  if (missing) throw describeMissing(missing, wanted);
  // Such as the record that the demo catalogue was loaded.
  for (const row of history) {
    if (!names.has(row.source)) await recordFile(session, row.source, row.version, row.hash);
  }
}

const isReplacedBy = (baseline: Migration, key: string) =>
  key.startsWith(`${baseline.source}/`) && key < keyOf(baseline);

/**
 * Whether a database has all migrations that a baseline replaces; false if it has none of them.
 * @throws MigrationChanged if it has some
 */
function takesBaseline(baseline: Migration, history: readonly string[]): boolean {
  const replaced = history.filter((key) => isReplacedBy(baseline, key));
  if (replaced.length === 0) return false;
  if (replaced.includes(`${baseline.source}/${baseline.replaces}`)) return true;
  throw new MigrationChanged(
    `This database was made by an earlier version: back it up, start the version whose last migration is ${baseline.replaces} once to bring it up to date, then start this version`,
  );
}

const keyOf = ({ source, version }: Pick<AppliedMigration, 'source' | 'version'>) => `${source}/${version}`;

const hasChanged = (key: string) =>
  new MigrationChanged(`migration ${key} was changed after it had been applied to this database`);

async function startHistory(session: Session): Promise<void> {
  await lockMigrations(session);
  await session.query('create schema if not exists platform');
  await session.query(`create table if not exists platform.schema_migrations (
    source text not null,
    version text not null,
    hash text not null,
    applied_at timestamptz not null default now(),
    primary key (source, version)
  )`);
}

async function applyMissing(
  database: Database,
  sources: readonly MigrationSource[],
  wanted: readonly Migration[],
): Promise<string[]> {
  const applied: string[] = [];
  await database.transaction(async (session) => {
    await startHistory(session);
    const history = new Map((await readMigrations(session)).map((row) => [keyOf(row), row.hash]));
    const takenBaselines = new Set<string>();
    for (const migration of wanted) {
      const key = keyOf(migration);
      const before = history.get(key);
      history.delete(key);
      if (before === migration.hash) continue;
      if (before) throw hasChanged(key);
      if (migration.replaces && (await takeBaseline(session, migration, history, takenBaselines))) continue;
      await applyFile(session, migration);
      applied.push(key);
    }
    const sourceNames = new Set(sources.map(({ name }) => name));
    const missing = [...history.keys()].find((key) => sourceNames.has(key.slice(0, key.indexOf('/'))));
    if (missing) throw describeMissing(missing, wanted);
    if (applied.length > 0) await session.query(`select pg_notify('pgrst', 'reload schema')`);
  });
  return applied;
}

/** A migration that is later than all files belongs to a newer version; another one was deleted. */
function describeMissing(missing: string, wanted: readonly Migration[]): Error {
  const [source = ''] = missing.split('/');
  const isNewer = wanted.every((file) => file.source !== source || missing > `${source}/${file.version}`);
  const message = `migration ${missing} was applied to this database but its file is missing`;
  return isNewer
    ? new OtherVersion(`${message}: a newer version wrote it`, true)
    : new MigrationChanged(message);
}

interface Migration extends AppliedMigration {
  /** A baseline, of one or several files, creates the same database as all migrations up to this version. */
  replaces: string | undefined;
  text: string;
}

async function readSource({ name, folder }: MigrationSource): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8');
      const hash = createHash('sha256').update(text.replaceAll('\r\n', '\n')).digest('hex');
      const replaces = /^-- Replaces: (\S+)\n/.exec(text)?.[1];
      return { source: name, version: file.replace(/\.sql$/, ''), replaces, text, hash };
    }),
  );
}

/**
 * Records a file of a baseline as applied where all migrations that the baseline replaces were applied.
 * @param taken baselines of which a file was recorded before
 * @returns whether it did; false for a database without any of them
 */
async function takeBaseline(
  session: Session,
  baseline: Migration,
  history: Map<string, string>,
  taken: Set<string>,
): Promise<boolean> {
  const { source, version, replaces, hash } = baseline;
  if (taken.has(`${source}/${replaces}`)) {
    await recordFile(session, source, version, hash);
    return true;
  }
  if (!takesBaseline(baseline, [...history.keys()])) return false;
  taken.add(`${source}/${replaces}`);
  for (const key of history.keys()) if (isReplacedBy(baseline, key)) history.delete(key);
  await session.query('delete from platform.schema_migrations where source = $1 and version < $2', [
    source,
    version,
  ]);
  await recordFile(session, source, version, hash);
  return true;
}

async function applyFile(session: Session, { source, version, text, hash }: Migration) {
  try {
    await session.execute(text);
  } catch (error) {
    const { message, code, detail, hint, constraint } = asDatabaseError(error);
    throw new DatabaseError(`migration ${source}/${version}: ${message}`, {
      code,
      detail,
      hint,
      constraint,
      cause: error,
    });
  }
  await recordFile(session, source, version, hash);
}

async function recordFile(session: Session, source: string, version: string, hash: string): Promise<void> {
  await session.query('insert into platform.schema_migrations (source, version, hash) values ($1, $2, $3)', [
    source,
    version,
    hash,
  ]);
}
