// Deployment files: known settings, consistent ports and folders, a supported Node.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../server/start/settings/config.ts';
import { startArguments } from '../tests/start-arguments.ts';
import { memoryEnvironment } from './memory-settings.mjs';

const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Service {
  image?: string;
  logging?: { options: Record<string, string> };
  mem_limit?: string;
  build?: { target: string };
  environment?: Record<string, string>;
  volumes?: string[];
  configs?: { source: string; target: string }[];
}

const owner: Record<string, string> = {
  SHOP_HOST: 'shop.example',
  POSTGRES_PASSWORD: 'fN2wq8',
  ADMIN_EMAIL: 'owner@shop.example',
  MPESA_ENV: 'sandbox',
};
const credentials = {
  MPESA_CONSUMER_KEY: 'key',
  MPESA_CONSUMER_SECRET: 'secret',
  MPESA_SHORTCODE: '174379',
  MPESA_PASSKEY: 'passkey',
  MPESA_TRANSACTION_TYPE: 'CustomerPayBillOnline',
};

const text = read('compose.yaml').replace(
  /\$\{(\w+)(?::\?[^}]*)?\}/g,
  (_, name: string) => owner[name] ?? '',
);
const compose: {
  services: Record<string, Service>;
  configs: Record<string, { content: string }>;
  volumes: Record<string, null>;
} = parse(text, { merge: true });

test('compose.yaml starts two processes with known settings, one of which makes backups', () => {
  const shops = Object.values(compose.services).filter(({ image }) => image === 'jani');
  const configs = shops.map(({ environment }) => readConfig({ ...environment, ...credentials }, root));
  expect(configs.map(({ makesBackups }) => makesBackups)).toEqual([true, false]);
  for (const config of configs) {
    expect(config).toMatchObject({
      host: '0.0.0.0',
      port: 3000,
      publicUrl: 'https://shop.example',
      trustedProxies: 1,
      dataDir: '/data',
      databaseUrl: 'postgres://jani:fN2wq8@pgbouncer:6432/jani',
      databaseListenUrl: 'postgres://jani:fN2wq8@postgres:5432/jani',
    });
  }
});

test('compose.yaml declares what its services use', () => {
  for (const { volumes = [], configs = [], build } of Object.values(compose.services)) {
    for (const volume of volumes) expect(Object.keys(compose.volumes)).toContain(volume.split(':')[0]);
    for (const { source } of configs) expect(Object.keys(compose.configs)).toContain(source);
    if (build) expect(read('Dockerfile')).toContain(` AS ${build.target}\n`);
  }
  expect(compose.configs.caddy?.content).toContain('reverse_proxy shop-1:3000 shop-2:3000');
  expect(compose.configs.pgbouncer?.content).toContain('pool_mode = transaction');
});

test('compose.yaml limits the memory and the logs of every service, and names exact versions', () => {
  for (const [name, { logging, mem_limit, image = '', build }] of Object.entries(compose.services)) {
    expect(logging?.options, name).toEqual({ 'max-size': '10m', 'max-file': '5' });
    expect(mem_limit, name).toMatch(/^\d+[mg]$/);
    if (!build) expect(image, name).toMatch(/:\d+\.\d+/);
  }
});

test('compose.yaml keeps the shop up while its database restarts', () => {
  const { pgbouncer, caddy, closed } = compose.configs;
  // PgBouncer's default is 15 seconds.
  expect(pgbouncer?.content).toMatch(/^server_login_retry = 1$/m);
  // Readiness fails at all processes at once.
  expect(caddy?.content).toContain('health_uri /healthz');
  expect(caddy?.content).toMatch(
    /handle_errors 502 503 504 \{[^}]*rewrite \* \/closed\.html[^}]*file_server/,
  );
  expect(compose.services.caddy?.configs).toContainEqual({ source: 'closed', target: '/srv/closed.html' });
  expect(closed?.content).toContain('http-equiv="refresh"');
  expect(closed?.content).not.toMatch(/https?:|<script|src=/);
});

const roles = compose.configs.roles?.content ?? '';

test('compose.yaml and the documentation create the same roles, none of them a superuser', () => {
  const operating = read('docs/operating.md');
  const documented = /```sql\n([^`]*create role jani[^`]*)```/.exec(operating)?.[1] ?? '';
  const statements = documented.replaceAll(/^ +/gm, '').trim().split('\n');
  expect(statements.length).toBeGreaterThan(5);
  for (const statement of statements) expect(roles).toContain(statement.replace('choose-one', 'fN2wq8'));
  expect(roles).not.toMatch(/superuser/);
});

test('the container runs as an unprivileged user on a supported Node, and its health check is readiness', () => {
  const dockerfile = read('Dockerfile');
  for (const [, major] of dockerfile.matchAll(/FROM node:(\d+)/g))
    expect(['22', '24', '26']).toContain(major);
  const shop = dockerfile.slice(dockerfile.indexOf(' AS shop'), dockerfile.indexOf(' AS pgbouncer'));
  expect(shop).toMatch(/\nUSER node\n/);
  expect(shop).toMatch(/\nHEALTHCHECK [^\n]*\\\n[^\n]*\/readyz/);
  expect(shop).toContain('CMD ["node", "scripts/start.mjs", "--as-built"]');
  // `npm ci` rejects a lockfile written on another platform.
  expect(dockerfile).not.toMatch(/^RUN npm ci\b/m);
});

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
if (!hasSystemd) console.warn('systemd-analyze is not installed: the unit is not verified.');

test.runIf(hasSystemd)('systemd accepts every line of the unit', () => {
  const unit = join(root, 'deploy/jani.service');
  const { stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
  expect(stderr).not.toMatch(/Unknown|Failed to parse|Invalid/i);
});

test('the unit returns freed memory to the system, with the same settings as the start', () => {
  const unit = read('deploy/jani.service');
  for (const [name, value] of Object.entries(memoryEnvironment)) expect(unit).toContain(`${name}=${value}`);
  const options = memoryEnvironment.NODE_OPTIONS?.split(' ');
  // The owner may set the heap's size; options of the command line would override that.
  expect(startArguments.slice(0, -1)).toEqual(options?.filter((option) => !option.includes('old-space')));
  const module = JSON.stringify(new URL('memory-settings.mjs', import.meta.url).href);
  const script = `
    const { applyMemorySettings } = await import(${module});
    applyMemorySettings();
    const { getHeapStatistics } = await import('node:v8');
    const environment = { ...process.env };
    console.log(JSON.stringify({ pid: process.pid, heapLimit: getHeapStatistics().heap_size_limit, environment }));
  `;
  const run = (environment: Record<string, string>) => {
    const child = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
      env: { PATH: process.env.PATH, ...environment },
      encoding: 'utf8',
    });
    expect(child.stderr).toBe('');
    const result = JSON.parse(child.stdout);
    expect(result.pid).toBe(child.pid);
    return result;
  };
  // As the unit starts it: on every Node.
  expect(run(memoryEnvironment)).toMatchObject({ environment: memoryEnvironment });
  expect(run(memoryEnvironment).heapLimit).toBeLessThan(1100 * 2 ** 20);
  if (process.platform !== 'linux' || !('execve' in process)) return;
  expect(run({})).toMatchObject({ environment: memoryEnvironment });
  const own = run({ MALLOC_ARENA_MAX: '7', NODE_OPTIONS: '--max-old-space-size=2048' });
  expect(own.environment.MALLOC_ARENA_MAX).toBe('7');
  expect(own.heapLimit).toBeGreaterThan(2000 * 2 ** 20);
});
