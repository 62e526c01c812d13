// Makes backups: every night at three in Nairobi, and soon after a start if the last one is older than that. A backup
// counts once it was restored elsewhere with the same content; the last seven are stored.
import { spawn } from 'node:child_process';
import { copyFile, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Database } from '@jani-juice/backend/database';
import { syncFile } from '@jani-juice/backend/files';
import type { Log } from '../monitoring/log.ts';
import type { Config } from '../start/settings/config.ts';
import type { BackupTask } from './backup-task.ts';
import type { Figures } from './copying/figures.ts';
import { copyOfEmbedded } from './embedded.ts';

export interface BackupOptions {
  database: Database;
  /** Uploaded files are part of a backup unless a store elsewhere has them (`s3`). */
  config: Pick<Config, 'databaseUrl' | 'databaseListenUrl' | 'dataDir' | 's3'>;
  log: Log;
  /** The folder with the migrations: a release, or the project's. */
  root: string;
}

/** Outcome of an attempt. */
type Outcome =
  | { outcome: 'verified'; fileName: string; size: number }
  | { outcome: 'failed'; problem: string };

export interface Backups {
  /** Makes a backup if one is due. */
  runIfDue(): Promise<void>;
  /** Makes a backup now; null when another process, or this one, is making one. */
  run(): Promise<Outcome | null>;
  /** Restores a backup once more, as a check, and records the outcome; waits while a backup is being made. */
  check(backupId: number): Promise<void>;
  /** Aborts the running backup. */
  close(): Promise<void>;
}

const storedBackups = 7;
/** Name of a backup's file. */
export const archiveName = /^jani-[\dTZ-]+\.tar\.gz$/;
const hour = 60 * 60 * 1000;
/** Delay before a check is tried again while a backup is being made. */
const retryMs = 5000;

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

  const check = async (backupId: number): Promise<true> => {
    const problem = await checkBackup(options, backupId, stopping.signal).then(() => null, sentence);
    if (stopping.signal.aborted) return true;
    if (problem === null) log.info({ backup: backupId }, 'backup checked');
    else log.error({ backup: backupId, problem }, 'a backup failed its check');
    await database.query('select public.record_backup_check($1, $2)', [backupId, problem]);
    return true;
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
    async check(backupId) {
      while (!stopping.signal.aborted && (await runExclusively(() => check(backupId))) === null) {
        await wait(retryMs, undefined, { signal: stopping.signal }).catch(() => {});
      }
    },
    async close() {
      stopping.abort();
      await running;
    },
  };
}

async function makeBackup(options: BackupOptions, startedAt: Date, signal: AbortSignal): Promise<Outcome> {
  const { database, config, root } = options;
  const { dataDir } = config;
  const folder = join(dataDir, 'backups');
  const work = join(folder, 'work');
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true, mode: 0o700 });

  const fileName = `jani-${startedAt.toISOString().replace(/\.\d+/, '').replaceAll(':', '-')}.tar.gz`;
  const unverified = join(work, fileName);
  try {
    // Reading rows of one moment would block the embedded database, so they are read from a copy of its files.
    const copy = database.kind === 'pglite' ? await copyEmbedded(database, dataDir, work, signal) : null;
    await runBackupProgram(
      {
        archive: unverified,
        madeAt: startedAt.toISOString(),
        work,
        root,
        dataDir,
        includesFiles: config.s3 === null,
        copy,
      },
      config.databaseListenUrl ?? config.databaseUrl,
      signal,
    );
    const size = await publishArchive(unverified, folder, fileName);
    await deleteOldArchives(folder);
    return { outcome: 'verified', fileName, size };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** @throws when the backup is not there, or cannot be restored */
async function checkBackup({ database, config, root }: BackupOptions, backupId: number, signal: AbortSignal) {
  const { rows } = await database.query<{ file_name: string | null }>(
    'select file_name from public.backups where id = $1',
    [backupId],
  );
  const name = rows[0]?.file_name ?? '';
  const folder = join(config.dataDir, 'backups');
  const archive = join(folder, name);
  if (!archiveName.test(name) || !(await stat(archive).catch(() => null))) {
    throw new Error('Its file is not on the disk of the server any more');
  }
  const work = join(folder, 'work');
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true, mode: 0o700 });
  try {
    await runBackupProgram(
      {
        archive,
        madeAt: '',
        work,
        root,
        dataDir: config.dataDir,
        includesFiles: false,
        copy: null,
        isCheck: true,
      },
      null,
      signal,
    );
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function copyEmbedded(
  database: Database,
  dataDir: string,
  work: string,
  signal: AbortSignal,
): Promise<NonNullable<BackupTask['copy']>> {
  let figures: Figures = {};
  const entries = copyOfEmbedded(database, join(dataDir, 'database'), join(work, 'wal'), (read) => {
    figures = read;
  });
  const folder = join(work, 'copy');
  for await (const entry of entries) {
    signal.throwIfAborted();
    const path = join(folder, entry.name);
    if ('folder' in entry) await mkdir(path, { recursive: true, mode: 0o700 });
    else if ('content' in entry) await writeFile(path, entry.content);
    else {
      await copyFile(entry.file, path).catch((error: NodeJS.ErrnoException) => {
        // Deleted in the meantime, which the write-ahead log knows.
        if (error.code !== 'ENOENT') throw error;
      });
    }
  }
  return { folder: join(folder, 'database'), figures };
}

/**
 * Writes and verifies the archive in a process of its own, which has ended when this resolves or rejects.
 * @param databaseUrl in the environment, which other users cannot read
 */
function runBackupProgram(task: BackupTask, databaseUrl: string | null, signal: AbortSignal): Promise<void> {
  // The built program is beside this file; in development it runs from its source.
  const extension = extname(import.meta.url);
  const program = fileURLToPath(new URL(`./backup-program${extension}`, import.meta.url));
  const loader = extension === '.ts' ? ['--import', 'tsx'] : [];
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [...loader, program, JSON.stringify(task)], {
      env: { ...process.env, BACKUP_DATABASE_URL: databaseUrl ?? '' },
      stdio: ['pipe', 'ignore', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    });
    let errorOutput = '';
    child.stderr.on('data', (chunk: Buffer) => {
      errorOutput = (errorOutput + chunk.toString()).slice(-2000);
    });
    // After an abort, `close` follows.
    child.once('error', (error) => {
      if (!signal.aborted) fail(error);
    });
    child.once('close', (code, killedBy) => {
      if (code === 0) done();
      else
        fail(new Error(errorOutput.trim() || `the backup program ended with ${killedBy ?? `code ${code}`}`));
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
