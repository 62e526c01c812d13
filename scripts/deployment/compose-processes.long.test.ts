// The roles and the pooler of compose.yaml, without containers: a shop that is no superuser, through an outage of its database.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { pgbouncer } from '../databases/throwaway-pgbouncer.ts';
import {
  answers,
  type Cluster,
  findPostgresql,
  startThrowawayPostgresql,
} from '../databases/throwaway-postgresql.ts';
import { freePort } from '../tests/free-port.ts';
import { type OpenShop, openShop, until } from '../tests/open-shop.ts';

const hasPrograms = pgbouncer !== undefined && (await findPostgresql()) !== null;
const password = 'fN2wq8';

describe.runIf(hasPrograms)('the processes of compose.yaml', () => {
  let folder: string;
  let cluster: Cluster;
  let pooler: ChildProcess;
  let settings: Record<string, string>;
  let shop: OpenShop;
  const asSuperuser = async (statements: readonly string[], database = 'postgres') => {
    const url = new URL(cluster.url);
    url.pathname = `/${database}`;
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    try {
      let rows: Record<string, unknown>[] = [];
      for (const statement of statements) rows = (await client.query(statement)).rows;
      return rows;
    } finally {
      await client.end();
    }
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'jani-compose-processes-'));
    chmodSync(folder, 0o755);
    const text = readFileSync(join(import.meta.dirname, '../../compose.yaml'), 'utf8');
    const { configs } = parse(text.replaceAll(/\$\{POSTGRES_PASSWORD[^}]*\}/g, password), { merge: true });
    cluster = await startThrowawayPostgresql();
    const { port } = new URL(cluster.url);
    await asSuperuser(configs.roles.content.trim().split('\n'));

    const poolerPort = await freePort();
    writeFileSync(join(folder, 'users.txt'), configs['pgbouncer-users'].content);
    const pooling = configs.pgbouncer.content
      .replace('host=postgres port=5432', `host=127.0.0.1 port=${port}`)
      .replace('0.0.0.0', '127.0.0.1')
      .replace('listen_port = 6432', `listen_port = ${poolerPort}\nunix_socket_dir =`)
      .replace('/etc/pgbouncer/users.txt', join(folder, 'users.txt'));
    writeFileSync(join(folder, 'shop.ini'), pooling);
    // It refuses to run as root.
    const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
    pooler = spawn(pgbouncer ?? '', ['-q', ...user, join(folder, 'shop.ini')], { stdio: 'ignore' });
    const pooled = `postgres://jani:${password}@127.0.0.1:${poolerPort}/jani`;
    await until(() => answers(pooled), 'the pooler answers');
    settings = {
      DATABASE_URL: pooled,
      DATABASE_LISTEN_URL: `postgres://jani:${password}@127.0.0.1:${port}/jani`,
    };
    shop = await openShop({ ...settings, BACKUPS: 'off' });
  });
  afterAll(async () => {
    await shop?.close();
    pooler?.kill('SIGTERM');
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('migrate, sell and verify backups without a superuser', async () => {
    expect(
      await asSuperuser([
        `select rolname from pg_roles where rolname in ('jani', 'anon', 'authenticated', 'service_role', 'authenticator') and rolsuper`,
      ]),
    ).toEqual([]);
    expect(await (await fetch(`${shop.url}/shop`)).text()).toContain('KSh');
    // `npm run backup`, which restores the backup into a temporary embedded database.
    const environment = { ...process.env, ...settings, DATA_DIR: dirname(shop.outbox) };
    const backup = join(import.meta.dirname, '../backup.mjs');
    await promisify(execFile)(process.execPath, [backup], { env: environment });
    expect(await asSuperuser(['select outcome from public.backups'], 'jani')).toEqual([
      { outcome: 'verified' },
    ]);
    // On a busy machine the backup's verification takes minutes.
  }, 600_000);

  test('answer with a page during an outage of PostgreSQL, log it once, and sell soon after it', async () => {
    const before = shop.output().length;
    await cluster.stopImmediately();
    for (let round = 0; round < 40; round += 1) {
      const answer = await fetch(`${shop.url}/shop?search=${round}`);
      expect(answer.status).toBe(503);
      expect(await answer.text()).toContain('</html>');
    }
    expect((await fetch(`${shop.url}/healthz`)).status).toBe(200);
    await cluster.restart();
    const restartedAt = performance.now();
    await until(async () => (await fetch(`${shop.url}/readyz`)).ok, 'the shop is ready');
    // PgBouncer's default would wait for fifteen seconds.
    expect(performance.now() - restartedAt).toBeLessThan(10_000);
    expect((await fetch(`${shop.url}/shop`)).status).toBe(200);
    await expect.poll(() => shop.output().slice(before)).toContain('the database answers again');

    const lines = shop.output().slice(before).split('\n');
    const errors = lines.filter((line) => line.includes('"level":"error"'));
    const causes = errors.filter((line) => line.includes('the database does not answer'));
    expect(causes.length).toBeGreaterThan(0);
    expect(new Set(causes.map((line) => JSON.parse(line).error)).size).toBe(causes.length);
    // Each job once, too.
    const others = errors.filter((line) => !causes.includes(line) && !line.includes('a job failed'));
    expect(others).toEqual([]);
  });
});
