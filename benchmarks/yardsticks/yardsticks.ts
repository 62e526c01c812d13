// What the shop is compared with: bare servers, and PostgreSQL's own benchmark.
import { execFile, fork } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { findPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import { freePort } from '../../scripts/tests/free-port.ts';

const run = promisify(execFile);

/** Starts a bare server in its own process. */
export async function startBareServer(
  file: 'yardstick-list.mjs' | 'yardstick-http.mjs',
  environment: Record<string, string>,
): Promise<{ url: string; stop(): void }> {
  const port = await freePort();
  const child = fork(new URL(file, import.meta.url), {
    execArgv: [],
    env: { ...process.env, ...environment, NODE_ENV: 'production', PORT: String(port) },
  });
  await new Promise((done, fail) => {
    child.once('exit', (code) => fail(new Error(`${file} ended with ${code}`)));
    child.once('message', done);
  });
  return { url: `http://127.0.0.1:${port}`, stop: () => void child.kill() };
}

/**
 * Prepares TPC-B in a database of its own: a transaction of five statements, 8 clients.
 * @returns measures transactions per second
 */
export async function prepareTpcB(clusterUrl: string): Promise<(seconds: number) => Promise<number>> {
  await createDatabase(clusterUrl, 'tpcb');
  const pgbench = join((await findPostgresql()) ?? '', 'pgbench');
  const { hostname, port, username } = new URL(clusterUrl);
  const to = ['-h', hostname, '-p', port, '-U', username, 'tpcb'];
  await run(pgbench, ['-i', '-q', '-s', '10', ...to]);
  return async (seconds) => {
    const { stdout } = await run(pgbench, ['-c', '8', '-j', '2', '-T', String(seconds), ...to]);
    return Number(/tps = ([\d.]+)/.exec(stdout)?.[1]);
  };
}

/** Creates a database. Returns its URL. */
export async function createDatabase(clusterUrl: string, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: clusterUrl });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  const url = new URL(clusterUrl);
  url.pathname = `/${name}`;
  return url.href;
}
