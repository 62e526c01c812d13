// The commands `npm run backup` and `npm run restore <file>`.
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { FolderInUse } from '../../backend/database/folder-lock.ts';
import { type Config, readConfig } from '../config.ts';
import { openLog } from '../log.ts';
import { openDatabase } from '../persistence.ts';
import { describeStartFailure } from '../start-failure.ts';
import { BrokenArchive } from './archive.ts';
import { createBackups } from './backups.ts';
import { ContentMismatch } from './check-backup.ts';
import { ProgramFailed } from './postgresql-programs.ts';
import { RestoredContentMismatch, RestoreRefused, restoreBackup } from './restore-backup.ts';

const ofProject = "The database belongs to a Supabase project: the project's own backups apply.";

/**
 * Makes a backup, whether the shop runs or not.
 * @param root the project's folder
 */
export function backUp(root: string): Promise<void> {
  return runAndReport('No backup was made.', async () => {
    const config = readConfig(process.env, root);
    if (config.supabase) throw new RestoreRefused(ofProject);
    try {
      return await backUpHere(config);
    } catch (error) {
      if (error instanceof FolderInUse) return await askRunningShop(config);
      throw error;
    }
  });
}

/**
 * Restores a backup. The shop must be stopped.
 * @param args arguments of the command: a file, optionally `--replace`
 */
export function restore(root: string, args: readonly string[]): Promise<void> {
  return runAndReport('Nothing was restored.', async () => {
    const config = readConfig(process.env, root);
    if (config.supabase) throw new RestoreRefused(ofProject);
    const [archive, ...others] = args.filter((argument) => argument !== '--replace');
    if (!archive || others.length > 0) {
      throw new RestoreRefused('Name one backup: npm run restore -- data/backups/jani-….tar.gz [--replace]');
    }
    const { madeAt, setAside } = await restoreBackup({
      archive: resolve(root, archive),
      dataDir: config.dataDir,
      databaseUrl: config.databaseListenUrl ?? config.databaseUrl,
      replaces: args.includes('--replace'),
    });
    const former = setAside ? ` What was there before is in ${setAside}.` : '';
    return `The shop is as it was on ${madeAt}.${former}`;
  });
}

async function runAndReport(failure: string, work: () => Promise<string>): Promise<void> {
  try {
    process.stdout.write(`${await work()}\n`);
  } catch (error) {
    process.exitCode = 1;
    if (error instanceof RestoredContentMismatch) {
      process.stderr.write(`${error.message}\n`);
      return;
    }
    const isPlain =
      error instanceof RestoreRefused ||
      error instanceof BrokenArchive ||
      error instanceof ContentMismatch ||
      error instanceof ProgramFailed;
    process.stderr.write(`${failure} ${isPlain ? error.message : describeStartFailure(error)}\n`);
  }
}

async function backUpHere(config: Config): Promise<string> {
  const database = await openDatabase(config, () => {});
  try {
    const backup = await createBackups({ database, config, log: openLog('silent') }).run();
    if (!backup) throw new RestoreRefused('The shop is making a backup right now.');
    if ('problem' in backup) throw new RestoreRefused(backup.problem);
    return sentenceOf(config, backup.outcome, backup.fileName);
  } finally {
    await database.close();
  }
}

/** Only the running shop can open the embedded database, so it makes the backup and this command waits. */
async function askRunningShop(config: Config): Promise<string> {
  const keys = JSON.parse(await readFile(join(config.dataDir, 'keys.json'), 'utf8')) as { secret: string };
  const host = ['0.0.0.0', '::'].includes(config.host) ? '127.0.0.1' : config.host;
  const origin = `http://${host.includes(':') ? `[${host}]` : host}:${config.port}`;
  const headers = { apikey: config.configuredKeys.secret ?? keys.secret, 'content-type': 'application/json' };
  interface Row {
    id: number;
    outcome: string;
    file_name: string | null;
    problem: string | null;
  }
  const newest = async (): Promise<Row | undefined> => {
    const path = '/rest/v1/backups?select=id,outcome,file_name,problem&order=id.desc&limit=1';
    const answer = await fetch(`${origin}${path}`, { headers });
    if (!answer.ok) throw new RestoreRefused(`The running shop at ${origin} answered ${answer.status}.`);
    return ((await answer.json()) as Row[])[0];
  };
  const before = await newest();
  const response = await fetch(`${origin}/rest/v1/rpc/request_backup`, {
    method: 'POST',
    headers,
    body: '{}',
  });
  if (!response.ok) throw new RestoreRefused(((await response.json()) as { message: string }).message);
  for (;;) {
    const backup = await newest();
    if (backup && backup.id !== before?.id) {
      if (backup.problem) throw new RestoreRefused(backup.problem);
      return sentenceOf(config, backup.outcome, backup.file_name ?? '');
    }
    await new Promise((done) => setTimeout(done, 500));
  }
}

function sentenceOf(config: Config, outcome: string, fileName: string): string {
  const proof =
    outcome === 'verified'
      ? 'Checked: it restores completely.'
      : 'It was read completely, but not restored for a check: the database user may not create databases.';
  return `The backup is ${join(config.dataDir, 'backups', fileName)}. ${proof}`;
}
