// Starts a PostgreSQL cluster from the system's binaries for one test run or benchmark, and removes it afterwards.
import { execFile, spawn } from 'node:child_process';
import { access, chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './free-port.ts';

const run = promisify(execFile);

export interface Cluster {
  /** postgres:// URL of its maintenance database. */
  url: string;
  stop(): Promise<void>;
  /** Kills it with SIGKILL. */
  kill(): Promise<void>;
  /** Stops it in PostgreSQL's immediate mode; the next start recovers. */
  stopImmediately(): Promise<void>;
  /** Starts it again on the same files and port. */
  restart(): Promise<void>;
}

/** The folder with the binaries of the newest installed PostgreSQL, or null. */
export async function findPostgresql(): Promise<string | null> {
  const root = '/usr/lib/postgresql';
  const versions = (await readdir(root).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  const folders = [
    ...versions.map((version) => join(root, version, 'bin')),
    ...(process.env.PATH ?? '').split(':'),
  ];
  for (const folder of folders) {
    const hasBoth = await Promise.all([
      access(join(folder, 'initdb')),
      access(join(folder, 'postgres')),
    ]).then(
      () => true,
      () => false,
    );
    if (hasBoth) return folder;
  }
  return null;
}

/**
 * Starts a cluster on a free port of 127.0.0.1.
 * @param settings extra postgresql.conf settings; by default it does not wait for the disk
 * @param superuser name of the cluster's first role
 */
export async function startThrowawayPostgresql(
  settings: Record<string, string> = { fsync: 'off' },
  superuser = 'postgres',
): Promise<Cluster> {
  const binaries = await findPostgresql();
  if (!binaries) throw new Error('no PostgreSQL binaries on this machine');
  const folder = await mkdtemp(join(tmpdir(), 'jani-postgresql-'));
  // PostgreSQL refuses to run as root.
  const user = process.getuid?.() === 0 ? await idsOf('postgres') : null;
  if (user) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const environment = { ...process.env, LC_ALL: 'C.UTF-8' };
  await run(
    join(binaries, 'initdb'),
    ['--pgdata', data, '--username', superuser, '--auth', 'trust', '--encoding', 'UTF8', '--no-sync'],
    { ...(user ?? {}), env: environment, cwd: folder },
  );
  const port = await freePort();
  const options = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: folder,
    max_connections: '300',
    ...settings,
  };
  const serverArguments = [
    '-D',
    data,
    ...Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
  const start = async () => {
    const server = spawn(join(binaries, 'postgres'), serverArguments, {
      ...(user ?? {}),
      env: environment,
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    server.stderr.on('data', (chunk) => {
      log = (log + chunk).slice(-20_000);
    });
    const ended = new Promise<void>((done) => server.once('exit', () => done()));
    for (let attempt = 0; ; attempt += 1) {
      const isReady = await run(join(binaries, 'pg_isready'), ['-h', '127.0.0.1', '-p', String(port)]).then(
        () => true,
        () => false,
      );
      if (isReady) return { server, ended };
      if (attempt > 200 || server.exitCode !== null) throw new Error(`PostgreSQL did not start: ${log}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  let running = await start();
  const end = async (signal: NodeJS.Signals) => {
    running.server.kill(signal);
    await running.ended;
  };
  return {
    url: `postgres://${superuser}@127.0.0.1:${port}/postgres`,
    async stop() {
      await end('SIGQUIT');
      await rm(folder, { recursive: true, force: true });
    },
    kill: () => end('SIGKILL'),
    stopImmediately: () => end('SIGQUIT'),
    async restart() {
      running = await start();
    },
  };
}

async function idsOf(user: string): Promise<{ uid: number; gid: number }> {
  const [uid, gid] = await Promise.all([run('id', ['-u', user]), run('id', ['-g', user])]);
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
}
