// The commands `npm run backup`, `npm run restore` and `npm run move`.
import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DatabaseError } from '@jani-juice/backend/database';
import { FolderInUse } from '@jani-juice/backend/files';
import { createDiskFiles } from '@jani-juice/backend/storage';
import { formatKes } from '../../domain/money.ts';
import { openLog } from '../monitoring/log.ts';
import { watchLoop } from '../monitoring/watch-loop.ts';
import { openDatabase, openFiles } from '../start/persistence.ts';
import { type Config, readConfig } from '../start/settings/config.ts';
import { describeStartFailure } from '../start/start-failure.ts';
import { BrokenArchive } from './archive.ts';
import { createBackups } from './backups.ts';
import { Refused } from './copying/create-database.ts';
import { ContentMismatch } from './copying/write-rows.ts';
import { type Moved, type MoveTarget, moveShop } from './moves/move-shop.ts';
import { restoreBackup } from './restore-backup.ts';

const ofProject = "The database belongs to a Supabase project: the project's own backups apply.";

/**
 * Makes a backup, whether the shop runs or not.
 * @param root the project's folder
 * @param release the folder with the migrations
 */
export function backUp(root: string, release: string): Promise<void> {
  return runAndReport('No backup was made.', async () => {
    const config = readConfig(process.env, root);
    if (config.supabase) throw new Refused(ofProject);
    try {
      return await backUpHere(config, release);
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
export function restore(root: string, release: string, args: readonly string[]): Promise<void> {
  return runAndReport('Nothing was restored.', async () => {
    const config = readConfig(process.env, root);
    if (config.supabase) throw new Refused(ofProject);
    const [archive, ...others] = args.filter((argument) => argument !== '--replace');
    if (!archive || others.length > 0) {
      throw new Refused('Name one backup: npm run restore -- data/backups/jani-….tar.gz [--replace]');
    }
    const file = resolve(root, archive);
    const isFile = await stat(file).then(
      (found) => found.isFile(),
      () => false,
    );
    if (!isFile) throw new Refused(`There is no file ${file}.`);
    const { madeAt, setAside } = await restoreBackup({
      archive: file,
      dataDir: config.dataDir,
      databaseUrl: config.databaseListenUrl ?? config.databaseUrl,
      files: config.s3 ? openFiles(config) : null,
      replaces: args.includes('--replace'),
      root: release,
    });
    const former = setAside ? ` What was there before is in ${setAside}.` : '';
    return `The shop is as it was on ${madeAt}.${former}`;
  });
}

/**
 * Moves the configured shop to another database. The shop must be stopped; it is only read.
 * @param args `--to` with a postgres:// URL or a folder; with a hosted project also `--project` with its URL
 */
export function move(root: string, release: string, args: readonly string[]): Promise<void> {
  return runAndReport('The shop was not moved, and is as it was.', async () => {
    const config = readConfig(process.env, root);
    if (config.supabase) {
      throw new Refused(
        'SUPABASE_URL is set: the shop is in a Supabase project, from which nothing is moved.',
      );
    }
    const target = readTarget(root, args);
    const place = {
      databaseUrl: config.databaseListenUrl ?? config.databaseUrl,
      dataDir: config.dataDir,
      files: openFiles(config),
      formerFiles: config.s3 ? createDiskFiles(join(config.dataDir, 'storage')) : null,
    };
    return describeMove(await moveShop(place, target, release), target, config);
  });
}

const moveUsage =
  'Name the new place: npm run move -- --to postgres://…, --to FOLDER, or for a Supabase project --to postgres://… --project https://….supabase.co';

function readTarget(root: string, args: readonly string[]): MoveTarget {
  const given = new Map<string, string>();
  for (let at = 0; at < args.length; at += 2) given.set(args[at] ?? '', args[at + 1] ?? '');
  const [to, project] = [given.get('--to'), given.get('--project')];
  if (!to || [...given.keys()].some((name) => !['--to', '--project'].includes(name)))
    throw new Refused(moveUsage);
  const isUrl = /^postgres(ql)?:\/\//.test(to);
  // A mistyped URL is no folder.
  if (isUrl ? !URL.canParse(to) : to.includes('://')) throw new Refused(moveUsage);
  if (project === undefined)
    return isUrl ? { kind: 'postgresql', url: to } : { kind: 'embedded', dataDir: resolve(root, to) };
  if (!isUrl || !/^https?:$/.test(URL.canParse(project) ? new URL(project).protocol : ''))
    throw new Refused(moveUsage);
  const secretKey = process.env.PROJECT_SECRET_KEY?.trim();
  if (!secretKey)
    throw new Refused("Set PROJECT_SECRET_KEY to the project's secret key (Settings, API keys).");
  return { kind: 'project', url: to, projectUrl: new URL(project).origin, secretKey };
}

function describeMove({ content, files }: Moved, target: MoveTarget, config: Config): string {
  const rows = content.tables.reduce((sum, table) => sum + table.rows, 0);
  const orders = content.tables.find(({ name }) => name === 'public.orders')?.rows ?? 0;
  const total = formatKes(content.sums['total of all orders'] ?? 0);
  const carried = files === null ? '' : ` and ${files} uploaded files`;
  return `The shop is in its new place: ${orders} orders of ${total} in all, ${rows} rows${carried}, read again and equal. ${describeNextStep(target, config)} The old place is as it was; do not start a shop on it.`;
}

function describeNextStep(target: MoveTarget, { dataDir, s3 }: Config): string {
  switch (target.kind) {
    case 'postgresql':
      return `Set DATABASE_URL to the new database, keep DATA_DIR${s3 ? ' and the S3 settings' : ''} (keys and uploaded files are there), and start the shop.`;
    case 'project':
      return 'Set SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY and SUPABASE_SECRET_KEY, remove DATABASE_URL, and start the shop.';
    case 'embedded':
      return target.dataDir === dataDir
        ? 'Remove DATABASE_URL and start the shop.'
        : `Remove DATABASE_URL and the S3 settings, set DATA_DIR to ${target.dataDir} and start the shop.`;
  }
}

async function runAndReport(failure: string, work: () => Promise<string>): Promise<void> {
  // An embedded database that computes without end blocks every timer.
  await watchLoop(openLog('silent'));
  try {
    process.stdout.write(`${await work()}\n`);
  } catch (error) {
    process.exitCode = 1;
    const isPlain = [Refused, BrokenArchive, ContentMismatch].some((kind) => error instanceof kind);
    const text = isPlain ? (error as Error).message : describeStartFailure(error);
    // Such as a right that the connecting role lacks: the stack would not help.
    const isOfDatabase = error instanceof DatabaseError && text === error.stack;
    process.stderr.write(`${failure} ${isOfDatabase ? error.message : text}\n`);
  }
}

async function backUpHere(config: Config, release: string): Promise<string> {
  const database = await openDatabase(config, () => {}, release);
  try {
    const backup = await createBackups({ database, config, log: openLog('silent'), root: release }).run();
    if (!backup) throw new Refused('The shop is making a backup right now.');
    if ('problem' in backup) throw new Refused(backup.problem);
    return sentenceOf(config, backup.fileName);
  } finally {
    await database.close();
  }
}

const answerTimeoutMs = 60_000;
const backupTimeoutMs = 60 * 60 * 1000;

/** Only the running shop can open the embedded database, so it makes the backup and this command waits. */
async function askRunningShop(config: Config): Promise<string> {
  const keys = JSON.parse(await readFile(join(config.dataDir, 'keys.json'), 'utf8')) as { secret: string };
  const host = ['0.0.0.0', '::'].includes(config.host) ? '127.0.0.1' : config.host;
  const origin = `http://${host.includes(':') ? `[${host}]` : host}:${config.port}`;
  const headers = { apikey: config.configuredKeys.secret ?? keys.secret, 'content-type': 'application/json' };
  interface Row {
    id: number;
    file_name: string | null;
    problem: string | null;
  }
  const call = (path: string, init: RequestInit = {}) =>
    fetch(`${origin}${path}`, { ...init, headers, signal: AbortSignal.timeout(answerTimeoutMs) }).catch(
      () => {
        throw new Refused(
          `Another process uses ${config.dataDir}, but no shop answers at ${origin}; set PORT and HOST as for the shop.`,
        );
      },
    );
  const newest = async (): Promise<Row | undefined> => {
    const answer = await call('/rest/v1/backups?select=id,file_name,problem&order=id.desc&limit=1');
    if (!answer.ok) throw new Refused(`The running shop at ${origin} answered ${answer.status}.`);
    return ((await answer.json()) as Row[])[0];
  };
  const before = await newest();
  const response = await call('/rest/v1/rpc/request_backup', { method: 'POST', body: '{}' });
  if (!response.ok) throw new Refused(((await response.json()) as { message: string }).message);
  const startedAt = performance.now();
  while (performance.now() - startedAt < backupTimeoutMs) {
    const backup = await newest();
    if (backup && backup.id !== before?.id) {
      if (backup.problem) throw new Refused(backup.problem);
      return sentenceOf(config, backup.file_name ?? '');
    }
    await new Promise((done) => setTimeout(done, 500));
  }
  throw new Refused(
    `The running shop at ${origin} has made no backup within an hour. Its log has the reason, or it has BACKUPS=off.`,
  );
}

function sentenceOf(config: Config, fileName: string): string {
  return `The backup is ${join(config.dataDir, 'backups', fileName)}. Checked: it restores completely.`;
}
