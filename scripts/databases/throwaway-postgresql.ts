// Starts a PostgreSQL cluster for one test run or benchmark, and removes it afterwards.
import { execFile, spawn } from 'node:child_process';
import { chown, cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { findPostgresqlPrograms } from '../tests/ensure-programs.mjs';
import { freePort } from '../tests/free-port.ts';

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

/** The folder with a PostgreSQL server's programs: POSTGRESQL_PROGRAMS, or the system's newest. Null where there is none. */
export async function findPostgresql(): Promise<string | null> {
  return process.env.POSTGRESQL_PROGRAMS ?? findPostgresqlPrograms('initdb', 'postgres');
}

/**
 * Starts a cluster on a free port of 127.0.0.1.
 * @param settings extra postgresql.conf settings; by default it does not wait for the disk
 * @param superuser name of the cluster's first role
 * @param prepare changes its data folder before the first start
 */
export async function startThrowawayPostgresql(
  settings: Record<string, string> = { fsync: 'off' },
  superuser = 'postgres',
  prepare?: (data: string) => Promise<void>,
): Promise<Cluster> {
  let programs = await findPostgresql();
  if (!programs) throw new Error('no PostgreSQL on this machine');
  const folder = await mkdtemp(join(tmpdir(), 'jani-postgresql-'));
  // PostgreSQL refuses to run as root. Another user may not be allowed to enter the project's folder.
  const user = process.getuid?.() === 0 ? await ordinaryUser() : null;
  if (user) {
    await chown(folder, user.uid, user.gid);
    if (process.env.POSTGRESQL_PROGRAMS) {
      await cp(dirname(programs), join(folder, 'programs'), { recursive: true, verbatimSymlinks: true });
      programs = join(folder, 'programs', 'bin');
    }
  }
  const data = join(folder, 'data');
  const environment = { ...process.env, LC_ALL: 'C.UTF-8' };
  await run(
    join(programs, 'initdb'),
    ['--pgdata', data, '--username', superuser, '--auth', 'trust', '--encoding', 'UTF8', '--no-sync'],
    { ...(user ?? {}), env: environment, cwd: folder },
  );
  await prepare?.(data);
  if (prepare && user) await run('chown', ['-R', `${user.uid}:${user.gid}`, data]);
  const port = await freePort();
  const url = `postgres://${superuser}@127.0.0.1:${port}/postgres`;
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
    const server = spawn(join(programs, 'postgres'), serverArguments, {
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
      if (await answers(url)) return { server, ended };
      if (attempt > 1200 || server.exitCode !== null) throw new Error(`PostgreSQL did not start: ${log}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  let running = await start();
  const end = async (signal: NodeJS.Signals) => {
    running.server.kill(signal);
    await running.ended;
  };
  return {
    url,
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

/** Whether a PostgreSQL server, or a pooler in front of it, accepts connections. */
export async function answers(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString });
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end();
  }
}

async function ordinaryUser(): Promise<{ uid: number; gid: number }> {
  const ids = (user: string) => Promise.all([run('id', ['-u', user]), run('id', ['-g', user])]);
  const [uid, gid] = await ids('postgres').catch(() => ids('nobody'));
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
}
