// Makes backups: every night at three in Nairobi, and soon after a start if the last one is older than that. A backup
// counts once it was restored elsewhere with the same content; the last seven are stored.
import { spawn } from 'node:child_process';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Database } from '../../backend/database/database.ts';
import { syncFile } from '../../backend/durable-file.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { type Entry, entriesOf, writeArchive } from './archive.ts';
import { copyOfEmbedded } from './embedded.ts';
import { type Figures, readFigures } from './figures.ts';
import { type Manifest, manifestName } from './manifest.ts';
import { findPrograms, runProgram } from './postgresql-programs.ts';

export interface BackupOptions {
  database: Database;
  /** Uploaded files are part of a backup unless a store elsewhere has them (`s3`). */
  config: Pick<Config, 'databaseUrl' | 'databaseListenUrl' | 'dataDir' | 's3'>;
  log: Log;
}

/** Outcome of an attempt. */
type Outcome =
  | { outcome: 'verified' | 'readable'; fileName: string; size: number }
  | { outcome: 'failed' | 'impossible'; problem: string };

export interface Backups {
  /** Makes a backup if one is due. */
  runIfDue(): Promise<void>;
  /** Makes a backup now; null when another process, or this one, is making one. */
  run(): Promise<Outcome | null>;
  /** Aborts the running backup. */
  close(): Promise<void>;
}

const storedBackups = 7;
const archiveName = /^jani-[\dTZ-]+\.tar\.gz$/;
const hour = 60 * 60 * 1000;

/**
 * Whether a backup is due.
 * @param completedAt when the last one was made or found impossible, null for never; milliseconds since 1970, like all times here
 * @param attemptedAt when the last attempt ended, successful or not
 */
export function isDue(now: number, completedAt: number | null, attemptedAt: number | null): boolean {
  // Three in the morning in Nairobi is midnight in UTC.
  const lastNight = Math.floor(now / (24 * hour)) * 24 * hour;
  if (completedAt !== null && completedAt >= lastNight) return false;
  return attemptedAt === null || now - attemptedAt >= hour;
}

/** Creates the backups of a shop. It starts nothing by itself. */
export function createBackups(options: BackupOptions): Backups {
  const { database, log } = options;
  const stopping = new AbortController();
  let running: Promise<unknown> | null = null;

  // One at a time: a promise serialises this process, an advisory lock several processes.
  const runExclusively = async <Result>(work: () => Promise<Result>): Promise<Result | null> => {
    if (running) return null;
    const result =
      database.kind === 'pglite'
        ? work()
        : database.transaction(async (session) => {
            const { rows } = await session.query<{ mine: boolean }>(
              `select pg_try_advisory_xact_lock(hashtext('backups')) as mine`,
            );
            return rows[0]?.mine ? work() : null;
          });
    running = result.catch(() => {});
    try {
      return await result;
    } finally {
      running = null;
    }
  };

  const attempt = async (): Promise<Outcome | null> => {
    const startedAt = new Date();
    const outcome = await makeBackup(options, startedAt, stopping.signal).catch(
      (error: unknown): Outcome => ({ outcome: 'failed', problem: sentence(error) }),
    );
    if (stopping.signal.aborted) return null;
    const isMade = 'fileName' in outcome;
    if (isMade)
      log.info({ file: outcome.fileName, size: outcome.size, outcome: outcome.outcome }, 'backed up');
    else if (outcome.outcome === 'impossible') log.warn({ problem: outcome.problem }, 'no backup was made');
    else log.error({ problem: outcome.problem }, 'the backup failed');
    await database.query('select public.record_backup($1, $2, $3, $4, $5)', [
      startedAt.toISOString(),
      outcome.outcome,
      isMade ? outcome.fileName : null,
      isMade ? outcome.size : null,
      isMade ? null : outcome.problem,
    ]);
    return outcome;
  };

  return {
    async runIfDue() {
      await runExclusively(async () => {
        const { rows } = await database.query<{ settled: number | null; tried: number | null }>(
          `select (extract(epoch from max(finished_at) filter (where outcome <> 'failed')) * 1000)::bigint as settled,
             (extract(epoch from max(finished_at)) * 1000)::bigint as tried
           from public.backups`,
        );
        if (isDue(Date.now(), rows[0]?.settled ?? null, rows[0]?.tried ?? null)) await attempt();
      });
    },
    run: () => runExclusively(attempt),
    async close() {
      stopping.abort();
      await running;
    },
  };
}

async function makeBackup(options: BackupOptions, startedAt: Date, signal: AbortSignal): Promise<Outcome> {
  const { database, config } = options;
  const { dataDir } = config;
  const databaseUrl = config.databaseListenUrl ?? config.databaseUrl;
  const programs = database.kind === 'postgresql' ? await findPrograms() : null;
  if (database.kind === 'postgresql' && !programs) {
    return {
      outcome: 'impossible',
      problem: 'The shop cannot back this database up: pg_dump and pg_restore are not on its machine.',
    };
  }
  const folder = join(dataDir, 'backups');
  const work = join(folder, 'work');
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) if (name.endsWith('.draft')) await rm(join(folder, name));

  const fileName = `jani-${startedAt.toISOString().replace(/\.\d+/, '').replaceAll(':', '-')}.tar.gz`;
  const unverified = join(work, fileName);
  try {
    let figures: Figures = {};
    const onFigures = (read: Figures) => {
      figures = read;
    };
    const copy =
      programs && databaseUrl
        ? dumpDatabase(database, databaseUrl, programs, work, onFigures, signal)
        : copyOfEmbedded(database, join(dataDir, 'database'), join(work, 'wal'), onFigures);
    const manifest = (): Manifest => ({
      format: 1,
      database: database.kind,
      madeAt: startedAt.toISOString(),
      figures,
    });
    await writeArchive(unverified, archiveEntries(copy, config, manifest), signal);
    const outcome = await check(unverified, join(work, 'check'), databaseUrl, signal);
    const size = await publishArchive(unverified, folder, fileName);
    await deleteOldArchives(folder);
    return { outcome, fileName, size };
  } finally {
    // A check that was just aborted may still be writing there.
    await rm(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function* archiveEntries(
  database: AsyncIterable<Entry>,
  { dataDir, s3 }: BackupOptions['config'],
  manifest: () => Manifest,
): AsyncIterable<Entry> {
  yield* database;
  // After the database, because every file exists before the row that names it.
  if (s3 === null) yield* entriesOf(join(dataDir, 'storage/files'), 'files');
  yield { name: 'keys.json', file: join(dataDir, 'keys.json') };
  yield { name: manifestName, content: Buffer.from(`${JSON.stringify(manifest(), null, 2)}\n`) };
}

async function* dumpDatabase(
  database: Database,
  databaseUrl: string,
  programs: string,
  work: string,
  onFigures: (figures: Figures) => void,
  signal: AbortSignal,
): AsyncIterable<Entry> {
  const dump = join(work, 'database.dump');
  await database.transaction(
    async (session) => {
      await session.query('set transaction isolation level repeatable read');
      const { rows } = await session.query<{ snapshot: string }>('select pg_export_snapshot() as snapshot');
      onFigures(await readFigures(session));
      // pg_dump uses the same snapshot as the counts.
      const snapshot = rows[0]?.snapshot ?? '';
      // The archive is compressed as a whole.
      const parameters = ['--format', 'custom', '--compress', '0', '--snapshot', snapshot, '--file', dump];
      await runProgram(join(programs, 'pg_dump'), parameters, { databaseUrl, signal });
    },
    { readOnly: true },
  );
  yield { name: 'database.dump', file: dump };
}

/** Restores the archive in a process of its own. */
function check(
  archive: string,
  work: string,
  databaseUrl: string | null,
  signal: AbortSignal,
): Promise<'verified' | 'readable'> {
  // The built program is beside this file; in development it runs from its source.
  const extension = extname(import.meta.url);
  const program = fileURLToPath(new URL(`./check-program${extension}`, import.meta.url));
  const loader = extension === '.ts' ? ['--import', 'tsx'] : [];
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [...loader, program, archive, work], {
      env: { ...process.env, CHECK_DATABASE_URL: databaseUrl ?? '' },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal,
    });
    let output = '';
    let errorOutput = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      errorOutput = (errorOutput + chunk.toString()).slice(-2000);
    });
    child.once('error', fail);
    child.once('close', (code) => {
      if (code === 0 && (output === 'verified' || output === 'readable')) done(output);
      else fail(new Error(errorOutput.trim() || `the check of the backup ended with code ${code}`));
    });
  });
}

async function publishArchive(archive: string, folder: string, fileName: string): Promise<number> {
  const path = join(folder, fileName);
  await rename(archive, path);
  await syncFile(folder);
  return (await stat(path)).size;
}

async function deleteOldArchives(folder: string): Promise<void> {
  const archives = (await readdir(folder)).filter((name) => archiveName.test(name)).sort();
  for (const name of archives.slice(0, -storedBackups)) await rm(join(folder, name));
}

function sentence(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 1000);
}
