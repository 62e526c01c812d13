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

/** Attempts of one migration. Each repeats only after another database's migration has committed. */
const maxAttempts = 20;

/**
 * Applies what is missing, all in one transaction: a failure, or a process killed in the middle, leaves the schema as it
 * was. Processes that start concurrently wait for each other on an advisory lock. That lock belongs to one database; roles belong to
 * the cluster, so a collision with the migration of another database is retried.
 *
 * A database of a newer version is left as it is. It is accepted if each of its further migrations says that earlier versions work with it:
 * such a file begins with `-- Earlier versions keep working`.
 * @param sources applied in this order
 * @returns the names of the files applied now, as `source/file`
 * @throws OtherVersion for a database of a newer version; MigrationChanged when history and files disagree; DatabaseError with the file's name when SQL fails
 */
export async function migrate(database: Database, sources: readonly MigrationSource[]): Promise<string[]> {
  const migrations = (await Promise.all(sources.map(readSource))).flat();
  return repeatAfterCollisions(() => applyMissing(database, sources, migrations));
}

/**
 * Repeats a transaction with migrations that failed because another database of the cluster was migrated concurrently.
 * @param attempt a transaction of its own on each call
 */
export async function repeatAfterCollisions<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (attempts >= maxAttempts || !isRoleCollision(error)) throw error;
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
  /** Whether versions without this migration work with a database that has it. */
  earlier_versions_work: boolean;
}

/** Lets no other process migrate the database, or start on it, until the transaction ends. */
export async function lockMigrations(session: Session): Promise<void> {
  await session.query('select pg_advisory_xact_lock($1::bigint)', [lockKey]);
}

/** The migrations of a database, in the order of their names. */
export async function readMigrations(session: Pick<Session, 'query'>): Promise<AppliedMigration[]> {
  // Versions before this one have no such column.
  const works = (await tellsWhatWorks(session)) ? 'earlier_versions_work' : 'false as earlier_versions_work';
  const { rows } = await session.query<AppliedMigration>(
    `select source, version, hash, ${works} from platform.schema_migrations order by source, version`,
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
  const newer = newerThan(wanted, sources, history);
  if (newer.length > 0) throw isNewer(newer);
  const names = new Set(sources.map(({ name }) => name));
  refuseMissing([...left.keys()], names);
  // Such as the record that the demo catalogue was loaded.
  for (const row of history) {
    if (!names.has(row.source)) await recordFile(session, row);
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

/** @param left applied migrations for which no file was found, as `source/file` */
function refuseMissing(left: readonly string[], sourceNames: ReadonlySet<string>): void {
  const missing = left.find((key) => sourceNames.has(key.slice(0, key.indexOf('/'))));
  if (missing)
    throw new MigrationChanged(`migration ${missing} was applied to this database but its file is missing`);
}

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
  // Not `if not exists`: that waits for every transaction that reads the table, such as a backup, and readers wait for it.
  if (await tellsWhatWorks(session)) return;
  await session.query(
    'alter table platform.schema_migrations add column earlier_versions_work boolean not null default false',
  );
}

/** Whether the history has the column that versions before it lack. */
async function tellsWhatWorks(session: Pick<Session, 'query'>): Promise<boolean> {
  const { rows } = await session.query(
    `select from pg_attribute where attrelid = to_regclass('platform.schema_migrations') and attname = 'earlier_versions_work'`,
  );
  return rows.length > 0;
}

async function applyMissing(
  database: Database,
  sources: readonly MigrationSource[],
  wanted: readonly Migration[],
): Promise<string[]> {
  const applied: string[] = [];
  await database.transaction(async (session) => {
    await startHistory(session);
    const rows = await readMigrations(session);
    if (isAcceptedNewer(rows, sources, wanted)) return;
    const history = new Map(rows.map((row) => [keyOf(row), row.hash]));
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
    refuseMissing([...history.keys()], new Set(sources.map(({ name }) => name)));
    if (applied.length > 0) await session.query(`select pg_notify('pgrst', 'reload schema')`);
  });
  return applied;
}

/**
 * Checks that a database is not of a newer version, and changes nothing.
 * @throws OtherVersion
 */
export async function refuseNewer(database: Database, sources: readonly MigrationSource[]): Promise<void> {
  // Without the column the database is new, or of an earlier version.
  if (await tellsWhatWorks(database)) await worksWithNewer(await readMigrations(database), sources);
}

/**
 * Whether a history is that of a newer version with which this one works.
 * @throws OtherVersion for that of a newer version with which this one does not work
 */
export async function worksWithNewer(
  history: readonly AppliedMigration[],
  sources: readonly MigrationSource[],
): Promise<boolean> {
  return isAcceptedNewer(history, sources, (await Promise.all(sources.map(readSource))).flat());
}

/**
 * Whether the database is of a newer version with which this one works.
 * @throws OtherVersion when this one does not
 */
function isAcceptedNewer(
  applied: readonly AppliedMigration[],
  sources: readonly MigrationSource[],
  wanted: readonly Migration[],
): boolean {
  const newer = newerThan(wanted, sources, applied);
  if (newer.length === 0) return false;
  const history = new Map(applied.map((row) => [keyOf(row), row.hash]));
  const isComplete = wanted.every((migration) => history.get(keyOf(migration)) === migration.hash);
  if (isComplete && newer.every((row) => row.earlier_versions_work)) return true;
  throw isNewer(newer);
}

const isNewer = (newer: readonly AppliedMigration[]) =>
  new OtherVersion(
    `The database is of a newer version: its last migration is ${newer.map(keyOf).sort().at(-1)}, which this version does not have`,
    true,
  );

/** The applied migrations that are later than all files of their source. Others without a file were deleted. */
function newerThan(
  wanted: readonly Migration[],
  sources: readonly MigrationSource[],
  applied: readonly AppliedMigration[],
): AppliedMigration[] {
  const last = new Map(sources.map(({ name }) => [name, '']));
  for (const { source, version } of wanted) if (version > (last.get(source) ?? '')) last.set(source, version);
  return applied.filter(({ source, version }) => version > (last.get(source) ?? version));
}

interface Migration extends AppliedMigration {
  /** A baseline, of one or several files, creates the same database as all migrations up to this version. */
  replaces: string | undefined;
  text: string;
}

/** The first line of a migration that keeps everything which earlier versions use. */
const earlierVersionsKeepWorking = '-- Earlier versions keep working';

async function readSource({ name, folder }: MigrationSource): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8');
      const hash = createHash('sha256').update(text.replaceAll('\r\n', '\n')).digest('hex');
      const replaces = /^-- Replaces: (\S+)\n/.exec(text)?.[1];
      const earlier_versions_work = text.startsWith(earlierVersionsKeepWorking);
      return {
        source: name,
        version: file.replace(/\.sql$/, ''),
        replaces,
        earlier_versions_work,
        text,
        hash,
      };
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
  const { source, version, replaces } = baseline;
  if (taken.has(`${source}/${replaces}`)) {
    await recordFile(session, baseline);
    return true;
  }
  if (!takesBaseline(baseline, [...history.keys()])) return false;
  taken.add(`${source}/${replaces}`);
  for (const key of history.keys()) if (isReplacedBy(baseline, key)) history.delete(key);
  await session.query('delete from platform.schema_migrations where source = $1 and version < $2', [
    source,
    version,
  ]);
  await recordFile(session, baseline);
  return true;
}

async function applyFile(session: Session, migration: Migration) {
  const { source, version, text } = migration;
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
  await recordFile(session, migration);
}

async function recordFile(
  session: Session,
  { source, version, hash, earlier_versions_work }: AppliedMigration,
): Promise<void> {
  await session.query(
    'insert into platform.schema_migrations (source, version, hash, earlier_versions_work) values ($1, $2, $3, $4)',
    [source, version, hash, earlier_versions_work],
  );
}
