// The embedded driver: PostgreSQL compiled to WebAssembly, on a folder of this machine, inside this process.
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { PGlite, type PGliteOptions, type Transaction } from '@electric-sql/pglite';
import { fuzzystrmatch } from '@electric-sql/pglite/contrib/fuzzystrmatch';
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm';
import { NodeFS } from '@electric-sql/pglite/nodefs';
import {
  asDatabaseError,
  type Database,
  DatabaseError,
  type QueryResult,
  type Session,
  settingsParameters,
  settingsStatement,
  type TransactionOptions,
} from '../database.ts';
import { DurableNodeFs } from './durable-node-fs.ts';
import { lockFolder } from './folder-lock.ts';
import { isNestedTooDeeply } from './nesting.ts';
import { detectBreak } from './pglite-break.ts';
import { checkRelationFiles, describeOpenFailure, preparePgliteFolder } from './pglite-folder.ts';
import { createRunSingle } from './pglite-statement.ts';

const asText = (value: string) => value;
const parsers = {
  20: Number,
  1082: asText,
  1083: asText,
  1114: asText,
  1184: asText,
  1186: asText,
  1266: asText,
  1700: asText,
};

// PGlite would check and convert values by the inferred type; here the server itself checks them.
const toText = (value: unknown): string => {
  const text =
    typeof value === 'string' ? value : typeof value === 'object' ? JSON.stringify(value) : String(value);
  if (isNestedTooDeeply(text)) {
    throw new DatabaseError('A value is nested too deeply', { code: '22P02' });
  }
  return text;
};
// Passed with each query: PGlite copies its options at the start, and the copy has no parser for some types.
const serializers = new Proxy({} as Record<number, typeof toText>, { get: () => toText, has: () => true });

// V8 compiles WebAssembly functions twice: quickly at first, and again with optimisation once they have run a little. Optimising
// PostgreSQL's largest functions takes half a second each, and with V8's default budget a start optimises dozens that are hardly used
// again. This budget (bytes of executed code) halves the CPU time of a start and slows no queries. V8 reads it when it compiles the
// module.
setFlagsFromString('--wasm-tiering-budget=100000000');
// V8 13 (Node 24) takes 600 MB to optimise one of these functions, which other versions optimise with 26 MB, and no setting excludes
// a function. Without optimised code queries take little longer (packages/backend/decisions/startup-time.md).
if (process.versions.v8.startsWith('13.')) {
  setFlagsFromString('--no-wasm-tier-up');
  setFlagsFromString('--no-wasm-dynamic-tiering');
}

/** Settings of the embedded driver. */
export interface PgliteOptions {
  /**
   * Waits for the disk at every commit, as a PostgreSQL server does. Default: true.
   * Without it a killed process still loses nothing, a power cut may.
   */
  isDurable?: boolean;
  /** PostgreSQL's `shared_buffers`, all of which this process holds from its start. Default: 32MB. */
  sharedBuffers?: string;
  /** A folder that may contain a blank database (scripts/build/make-blank-database.mjs), to create new folders from. */
  blanks?: string;
  /** Bytes of the write-ahead log after which a checkpoint runs. Default: 64 MB. */
  maxLogBytes?: number;
  /** Deleted and replaced rows of a table after which it is vacuumed, besides a fifth of its rows. Default: 1000. */
  maxDeadRows?: number;
  /**
   * Protocol messages between two checks, about six per statement, up to which the time counts as quiet: then indexes are vacuumed,
   * too. Default: 3000.
   */
  maxQuietMessages?: number;
  /** Milliseconds between two checks of the log and the tables. Default: one minute. */
  logCheckIntervalMs?: number;
  /**
   * Called once when the database has broken, or has left a query unanswered for five such checks: it is unusable in this process.
   * Committed data is in its files. Absent: callers receive the error.
   */
  onBreak?: (error: DatabaseError) => void;
}

const maxSilentChecks = 5;

/**
 * Opens the embedded database.
 * @param folder of the database files; created when missing. Absent: in memory
 * @returns the database, which locks the folder until it is closed
 * @throws FolderInUse when another process has the folder open; OtherVersion, or DatabaseError with the cause, when PostgreSQL does not
 * start on its files
 */
export async function openPglite(folder?: string, options: PgliteOptions = {}): Promise<Database> {
  const isDurable = options.isDurable ?? true;
  const startParams = PGlite.defaultStartParams.filter((parameter) => parameter !== '-F' || !isDurable);
  // The default, fdatasync, does nothing in Emscripten.
  startParams.push('-c', 'wal_sync_method=fsync');
  // WebAssembly has no just-in-time compiler for queries.
  startParams.push('-c', 'jit=off');
  startParams.push('-c', `shared_buffers=${options.sharedBuffers ?? '32MB'}`);
  let unlock = async () => {};
  if (folder) {
    await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
    unlock = await lockFolder(folder);
  }
  let lite: PGlite;
  try {
    if (folder) await preparePgliteFolder(folder, { blanks: options.blanks, isDurable });
    lite = await startPglite(folder, startParams, isDurable);
  } catch (error) {
    await unlock();
    throw error;
  }

  let isBroken = false;
  const onBreak = (error: DatabaseError) => {
    isBroken = true;
    options.onBreak?.(error);
  };
  const answered = detectBreak(lite, onBreak);
  const runSingle = createRunSingle(lite, toText);

  // A server makes checkpoints, vacuums and analyzes by itself, the embedded database does not: its log would grow as long as the process
  // runs and would be read whole after a kill, the space of deleted rows would never be used again, and plans would be made blindly.
  const { maxLogBytes = 64 * 1024 * 1024, logCheckIntervalMs = 60_000, maxQuietMessages = 3000 } = options;
  const vacuum = createVacuum(lite, options.maxDeadRows ?? 1000);
  let isChecking = false;
  let answeredBefore = 0;
  let silentChecks = 0;
  const maintenance = setInterval(() => {
    // Counts checks instead of time: none runs while the machine sleeps, and few run while the process gets no CPU time.
    silentChecks = isChecking && answered() === answeredBefore ? silentChecks + 1 : 0;
    const isQuiet = answered() - answeredBefore <= maxQuietMessages;
    answeredBefore = answered();
    if (silentChecks === maxSilentChecks) {
      onBreak(new DatabaseError('The embedded database no longer answers', { code: '08006' }));
    }
    if (isChecking) return;
    isChecking = true;
    void shortenLog(lite, maxLogBytes)
      .then(() => vacuum(isQuiet))
      .then(() => gatherStatistics(lite, isQuiet))
      .finally(() => {
        isChecking = false;
      });
  }, logCheckIntervalMs);
  maintenance.unref();

  const database: Database = {
    kind: 'pglite',
    query: (sql, parameters) => send(lite, sql, parameters),
    read: <Row>(sql: string, parameters: readonly unknown[], settings: Readonly<Record<string, string>>) =>
      runSingle<Row>(sql, parameters, { ...settings, transaction_read_only: 'on' }, null).catch(rethrow),
    write: <Row>(
      sql: string,
      parameters: readonly unknown[],
      settings: Readonly<Record<string, string>>,
      accept: ((result: QueryResult<Row>) => void) | null,
    ) => {
      const acceptOrRefuse = (result: QueryResult<Row>) => {
        try {
          accept?.(result);
        } catch (error) {
          throw new Refused(error);
        }
      };
      return runSingle<Row>(sql, parameters, settings, accept && acceptOrRefuse).catch(rethrow);
    },
    async transaction<T>(
      work: (session: Session) => Promise<T>,
      { readOnly, isolation, settings }: TransactionOptions = {},
    ) {
      // Errors of the work pass unchanged; those of the database are already converted.
      let ofWork: { error: unknown } | null = null;
      return lite
        .transaction(async (transaction) => {
          if (readOnly) await transaction.exec('set transaction read only');
          if (isolation) await transaction.exec(`set transaction isolation level ${isolation}`);
          if (settings) {
            await transaction.query(settingsStatement, settingsParameters(settings), { serializers });
          }
          return work({
            query: (sql, parameters) => send(transaction, sql, parameters),
            execute: async (script) => void (await transaction.exec(script).catch(rethrow)),
          }).catch((error) => {
            ofWork = { error };
            throw error;
          });
        })
        .catch((error) => {
          if (ofWork?.error === error) throw error;
          rethrow(error);
        });
    },
    async execute(script: string) {
      await lite.exec(script).catch(rethrow);
    },
    async listen(channel, listener) {
      const stop = lite.onNotification((from, payload) => {
        if (from === channel) listener(payload);
      });
      // The only session stays subscribed after the last listener: that costs nothing.
      await lite.exec(`listen ${quoted(channel)}`).catch(rethrow);
      return async () => stop();
    },
    async close() {
      clearInterval(maintenance);
      // A broken one would never end. All acknowledged writes are on the disk.
      if (!isBroken) await lite.close();
      await unlock();
    },
  };
  if (!folder) return database;
  try {
    // Tests wait for no disk, and copy a database that was just made.
    await checkRelationFiles(database, folder, { readsPages: isDurable });
  } catch (error) {
    await database.close().catch(() => unlock());
    throw error;
  }
  return database;
}

async function startPglite(
  folder: string | undefined,
  startParams: string[],
  isDurable: boolean,
): Promise<PGlite> {
  const settings: PGliteOptions = {
    ...(folder ? { fs: isDurable ? new DurableNodeFs(folder) : new NodeFS(folder) } : {}),
    startParams,
    parsers,
    // Only made available: a migration creates it, as on a server.
    extensions: { fuzzystrmatch, pg_trgm },
  };
  try {
    return await PGlite.create(settings);
  } catch (error) {
    // Errors about the path itself pass unchanged.
    if ((error as NodeJS.ErrnoException).path) throw error;
    throw await describeOpenFailure(folder, error);
  }
}

async function shortenLog(lite: PGlite, maxLogBytes: number): Promise<void> {
  try {
    const { rows } = await lite.query<{ is_long: boolean }>(
      'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) > $1::numeric as is_long from pg_control_checkpoint()',
      [maxLogBytes],
      { serializers },
    );
    if (rows[0]?.is_long) await lite.exec('checkpoint');
  } catch {
    // No caller depends on it; if the database has failed, the next statement reports it.
  }
}

/**
 * Creates the vacuum of the table with the most dead rows, one table per call, because nothing else is answered in the meantime. Most of
 * the time goes into its indexes, which are read whole: seconds in a large table. So a busy database frees only the space of the rows,
 * and indexes follow in a quiet time.
 */
function createVacuum(lite: PGlite, maxDeadRows: number): (isQuiet: boolean) => Promise<void> {
  const withDeadEntries = new Set<string>();
  return async (isQuiet) => {
    try {
      const { rows } = await lite.query<{ name: string }>(
        `select format('%I.%I', schemaname, relname) as name from pg_stat_user_tables
         where n_dead_tup > $1::bigint + n_live_tup / 5 order by n_dead_tup desc limit 1`,
        [maxDeadRows],
        { serializers },
      );
      const [overdue] = withDeadEntries;
      const name = rows[0]?.name ?? (isQuiet ? overdue : undefined);
      if (name === undefined) return;
      await lite.exec(isQuiet ? `vacuum ${name}` : `vacuum (index_cleanup off, truncate off) ${name}`);
      if (isQuiet) withDeadEntries.delete(name);
      else withDeadEntries.add(name);
    } catch {
      // The next check retries it. A table may have been dropped.
      withDeadEntries.clear();
    }
  };
}

/**
 * Gathers the statistics of one table: of the largest that has none, or of which a tenth changed. A busy database waits for a quiet time,
 * unless the table has doubled: nothing else is answered in the meantime, up to 0.5 s for a large table.
 */
async function gatherStatistics(lite: PGlite, isQuiet: boolean): Promise<void> {
  try {
    const { rows } = await lite.query<{ name: string }>(
      `select format('%I.%I', t.schemaname, t.relname) as name
       from pg_stat_user_tables as t join pg_class as c on c.oid = t.relid
       where t.n_mod_since_analyze > 50 + greatest(c.reltuples, 0) * case when $1::boolean then 0.1 else 1 end
         or (t.last_analyze is null and pg_relation_size(c.oid) > 0
           and not exists (select from pg_statistic as s where s.starelid = c.oid))
       order by pg_relation_size(c.oid) desc limit 1`,
      [isQuiet],
      { serializers },
    );
    if (rows[0]) await lite.exec(`analyze ${rows[0].name}`);
  } catch {
    // The next check retries it. A table may have been dropped.
  }
}

const quoted = (channel: string) => `"${channel.replaceAll('"', '""')}"`;

async function send<Row>(
  to: PGlite | Transaction,
  sql: string,
  parameters?: readonly unknown[],
): Promise<QueryResult<Row>> {
  const result = await to
    .query<Row>(sql, parameters as unknown[] | undefined, { serializers })
    .catch(rethrow);
  return { rows: result.rows, rowCount: result.affectedRows || result.rows.length };
}

/** The result of a change was refused. */
class Refused extends Error {
  readonly reason: unknown;
  constructor(reason: unknown) {
    super('the result was refused');
    this.reason = reason;
  }
}

function rethrow(error: unknown): never {
  if (error instanceof Refused) throw error.reason;
  if (error instanceof DatabaseError) throw error;
  // Only the database's own errors carry an SQLSTATE.
  if (error instanceof Error && !('code' in error)) throw error;
  throw asDatabaseError(error);
}
