// Builds the images and runs compose.yaml, where Docker (or Podman) with Compose is installed.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../tests/free-port.ts';
import { until } from '../tests/open-shop.ts';

const root = join(import.meta.dirname, '../..');
const succeeds = (program: string, parameters: string[]) => spawnSync(program, parameters).status === 0;
const tool = ['docker', 'podman'].find(
  (name) => succeeds(name, ['info']) && succeeds(name, ['compose', 'version']),
);
const baseImages = ['node:24-trixie-slim', 'debian:trixie-slim', 'postgres:17.11', 'caddy:2.11.4'];
const hasImages =
  tool !== undefined &&
  baseImages.every((name) => succeeds(tool, ['image', 'inspect', name]) || succeeds(tool, ['pull', name]));
if (!tool) console.warn('Neither Docker nor Podman runs here with Compose: the containers are not tested.');
else if (!hasImages) console.warn('Images cannot be pulled: the containers are not tested.');

const minutes = (count: number) => count * 60_000;

describe.runIf(hasImages)('compose.yaml', () => {
  let folder: string;
  let port: number;
  const compose = (...parameters: string[]) => {
    const files = ['compose', '--file', join(folder, 'compose.yaml'), ...parameters];
    const { status, stdout, stderr } = spawnSync(tool ?? '', files, { encoding: 'utf8' });
    expect(status, `${parameters.join(' ')}:\n${stdout}${stderr}`).toBe(0);
  };
  const host = 'shop.example';
  /** Reads a page through Caddy. */
  const read = (path: string) =>
    new Promise<{ status: number | undefined; body: string }>((done, fail) => {
      const outgoing = request(
        {
          host: '127.0.0.1',
          port,
          path,
          servername: host,
          headers: { host },
          rejectUnauthorized: false,
          agent: false,
        },
        (response) => {
          let body = '';
          response.on('data', (chunk) => {
            body += chunk;
          });
          response.on('end', () => done({ status: response.statusCode, body }));
        },
      );
      outgoing.on('error', fail);
      outgoing.end();
    });
  const answers = async () => (await read('/readyz')).status === 200;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'jani-compose-'));
    port = await freePort();
    const text = readFileSync(join(root, 'compose.yaml'), 'utf8')
      .replace('name: jani\n', `name: jani-test-${process.pid}\n`)
      .replaceAll('context: .', `context: ${root}`)
      .replaceAll(/image: (jani\S*)/g, 'image: $1-test')
      // No certificate authority issues certificates for this name.
      .replace(/\$\{SHOP_HOST\} \{\n/, '$&        tls internal\n')
      .replace(/ports: \[.*\]/, `ports: ["127.0.0.1:${port}:443"]`);
    writeFileSync(join(folder, 'compose.yaml'), text);
    writeFileSync(
      join(folder, '.env'),
      [
        `SHOP_HOST=${host}`,
        'POSTGRES_PASSWORD=fN2wq8',
        'ADMIN_EMAIL=owner@shop.example',
        'MPESA_ENV=sandbox',
        'MPESA_CONSUMER_KEY=key',
        'MPESA_CONSUMER_SECRET=secret',
        'MPESA_SHORTCODE=174379',
        'MPESA_PASSKEY=passkey',
        'MPESA_TRANSACTION_TYPE=CustomerPayBillOnline',
        '',
      ].join('\n'),
    );
    compose('up', '--detach', '--build');
  }, minutes(30));
  afterAll(() => {
    if (!folder) return;
    compose('down', '--volumes', '--rmi', 'local', '--timeout', '20');
    rmSync(folder, { recursive: true, force: true });
  }, minutes(5));

  test(
    'serves the shop behind Caddy, also after one of its processes is killed',
    async () => {
      await until(answers, 'the shop is ready', minutes(5));
      expect((await read('/shop')).body).toContain('KSh');
      compose('kill', 'shop-1');
      await until(answers, 'the other process answers', minutes(2));
      expect((await read('/shop')).body).toContain('KSh');
      compose('kill', 'shop-2');
      await until(
        async () => (await read('/shop')).body.includes('back in a moment'),
        'the page of Caddy',
        minutes(1),
      );
      expect((await read('/shop')).status).toBe(503);
    },
    minutes(10),
  );

  test(
    'runs the shop without a superuser, and through a restart of PostgreSQL',
    async () => {
      compose('up', '--detach');
      await until(answers, 'the shop is ready', minutes(5));
      const question = `select rolsuper from pg_roles where rolname = 'jani'`;
      compose('exec', 'postgres', 'bash', '-c', `test "$(psql -U postgres -Atc "${question}")" = f`);
      compose('restart', 'postgres');
      await until(answers, 'the shop is ready again', minutes(1));
    },
    minutes(10),
  );
});
