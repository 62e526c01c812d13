// Starts the system's PgBouncer for one test run, in transaction mode in front of a temporary cluster.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../tests/free-port.ts';
import { until } from '../tests/open-shop.ts';
import { answers } from './throwaway-postgresql.ts';

interface Pooler {
  /** postgres:// URL of the maintenance database, through the pooler. */
  url: string;
  stop(): Promise<void>;
}

/** Path of the program; undefined if it is not installed. */
export const pgbouncer = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find((path) => existsSync(path));

/**
 * Starts it on a free port of 127.0.0.1.
 * @param clusterUrl the cluster behind it
 * @param poolSize connections to the cluster
 */
export async function startThrowawayPgbouncer(clusterUrl: string, poolSize: number): Promise<Pooler> {
  if (!pgbouncer) throw new Error('PgBouncer is not installed');
  const folder = await mkdtemp(join(tmpdir(), 'jani-pooler-'));
  const port = await freePort();
  const { hostname, port: serverPort } = new URL(clusterUrl);
  const version = execFileSync(pgbouncer, ['--version'], { encoding: 'utf8' });
  const settings = join(folder, 'pgbouncer.ini');
  await writeFile(join(folder, 'users.txt'), '"postgres" ""\n');
  await writeFile(
    settings,
    [
      '[databases]',
      `* = host=${hostname} port=${serverPort}`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = trust',
      `auth_file = ${join(folder, 'users.txt')}`,
      'pool_mode = transaction',
      `default_pool_size = ${poolSize}`,
      'max_client_conn = 200',
      // Newer versions support prepared statements by default; Supavisor and older versions do not.
      ...(/PgBouncer 1\.(2[1-9]|[3-9]\d)/.test(version) ? ['max_prepared_statements = 0'] : []),
    ].join('\n'),
  );
  await chmod(folder, 0o755);
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
  const pooler = spawn(pgbouncer, ['-q', ...user, settings], { stdio: 'ignore' });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  await until(() => answers(url), 'the pooler answers');
  return {
    url,
    async stop() {
      const ended = new Promise((done) => pooler.once('exit', done));
      pooler.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
