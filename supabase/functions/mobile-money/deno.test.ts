// The function as a hosted project runs it: real Deno, the single bundled file, and a gateway that forwards requests as the
// platform's does.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { createAdaptorServer } from '@hono/node-server';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { defaultCredentials, startDarajaSimulator } from '@jani-juice/daraja-simulator';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../../../scripts/tests/free-port.ts';
import { until } from '../../../scripts/tests/open-shop.ts';
import { call, openShopDatabase } from '../../tests/shop-database.ts';

const deno = resolve('node_modules/.bin/deno');
const publishable = 'sb_publishable_1';
const secret = 'sb_secret_default';
const otherSecret = 'sb_secret_of_the_server';

let folder: string;
let environment: Record<string, string | undefined>;
let database: Database;
let simulator: Awaited<ReturnType<typeof startDarajaSimulator>>;
let gateway: Server;
let url = '';
let functionUrl = '';
const processes: ChildProcess[] = [];

/** Starts the bundle as the platform does: without the project's files or packages. */
async function startFunction(secrets: Record<string, string>): Promise<string> {
  const port = await freePort();
  const child = spawn(
    deno,
    [
      'run',
      '--no-config',
      '--no-remote',
      '--no-npm',
      '--allow-env',
      '--allow-net',
      join(folder, 'function.bundle.js'),
    ],
    {
      cwd: folder,
      env: { ...environment, DENO_SERVE_ADDRESS: `tcp:127.0.0.1:${port}`, ...secrets },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  processes.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  const address = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`the shop process exited: ${output}`);
    return (await fetch(address, { method: 'OPTIONS' })).status > 0;
  }, 'the function answers');
  return address;
}

const secrets = () => ({
  SUPABASE_URL: url,
  SUPABASE_SECRET_KEYS: JSON.stringify({ default: secret, server: otherSecret }),
  PUBLIC_URL: 'https://shop.example/',
  MPESA_ENV: 'sandbox',
  MPESA_URL: simulator.url,
  MPESA_CONSUMER_KEY: defaultCredentials.consumerKey,
  MPESA_CONSUMER_SECRET: defaultCredentials.consumerSecret,
  MPESA_SHORTCODE: defaultCredentials.shortcode,
  MPESA_PASSKEY: defaultCredentials.passkey,
  MPESA_TRANSACTION_TYPE: 'CustomerPayBillOnline',
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-function-'));
  environment = {
    PATH: process.env.PATH,
    HOME: folder,
    DENO_DIR: join(folder, 'deno'),
    DENO_NO_UPDATE_CHECK: '1',
    NO_COLOR: '1',
  };
  await build({ configFile: 'vite.function.config.ts', logLevel: 'warn', build: { outDir: folder } });
  database = await openShopDatabase('pglite');
  const data = await createDataService({ database, schemas: ['public'] });
  simulator = await startDarajaSimulator({ decisionDelayMs: 30, tooEarlyMs: 0 });
  gateway = createAdaptorServer({
    overrideGlobalObjects: false,
    fetch: async (request: Request) => {
      const { pathname, search } = new URL(request.url);
      const headers = new Headers(request.headers);
      headers.set('cf-connecting-ip', '203.0.113.7');
      const body = request.method === 'POST' ? await request.text() : null;
      if (pathname.startsWith('/functions/v1/')) {
        const path = pathname.slice('/functions/v1'.length);
        return fetch(functionUrl + path + search, { method: request.method, headers, body });
      }
      // As with legacy keys: the role comes from the bearer token.
      const bearer = headers.get('authorization')?.slice('Bearer '.length);
      const role = bearer === secret ? 'service_role' : 'anon';
      const passedOn = new Request(request.url, { method: request.method, headers, body });
      return data.fetch(passedOn, { claims: { role }, address: null });
    },
  }) as Server;
  await new Promise<void>((done) => gateway.listen(0, '127.0.0.1', done));
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  functionUrl = await startFunction(secrets());
});

afterAll(async () => {
  for (const child of processes) child.kill();
  gateway?.close();
  await simulator?.close();
  await database?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

const ask = async (body: Record<string, unknown>, key = publishable) => {
  const response = await fetch(`${url}/functions/v1/mobile-money`, {
    method: 'POST',
    headers: { apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json(), headers: response.headers };
};

test('the sources pass the type check of Deno', async () => {
  // A copy without the project's own TypeScript settings, with the packages that are installed.
  const copy = join(folder, 'sources');
  await mkdir(join(copy, 'supabase'), { recursive: true });
  await cp('supabase/functions', join(copy, 'supabase/functions'), { recursive: true });
  await cp('supabase/types.ts', join(copy, 'supabase/types.ts'));
  await cp('domain', join(copy, 'domain'), { recursive: true });
  await symlink(resolve('node_modules'), join(copy, 'node_modules'));
  const { imports } = JSON.parse(await readFile('supabase/functions/deno.json', 'utf8'));
  const installed = JSON.parse(await readFile('package.json', 'utf8'));
  const [packageName] = Object.keys(imports);
  expect(imports).toEqual({
    [String(packageName)]: `npm:${packageName}@${installed.dependencies[String(packageName)]}`,
  });
  await writeFile(
    join(copy, 'deno.json'),
    JSON.stringify({
      lock: false,
      nodeModulesDir: 'manual',
      imports: { ...imports, '@types/node': `npm:@types/node@${installed.devDependencies['@types/node']}` },
    }),
  );
  await rm(join(copy, 'supabase/functions/deno.json'));
  const check = promisify(execFile)(deno, ['check', 'supabase/functions/mobile-money/index.ts'], {
    cwd: copy,
    env: environment,
  });
  await expect(check).resolves.toBeTruthy();
});

test('the bundle completes a payment with prompt and callback', async () => {
  const form = {
    idempotency_key: crypto.randomUUID(),
    product_id: 'a0000000-0000-4000-8000-000000000001',
    quantity: 1,
    customer_name: 'Wanjiru Kamau',
    customer_email: 'wanjiru@example.com',
    customer_phone: '0712345678',
    delivery_location: 'Kilimani',
  };
  const { rows } = await database.query<{ total: number }>(
    `select p.price + s.delivery_fee as total from public.products as p, public.store_settings as s where p.id = $1`,
    [form.product_id],
  );
  const order = await call<{ id: string; tracking_number: string; total_amount: number }>(
    database,
    'visitor',
    'place_order',
    { ...form, expected_total: rows[0]?.total },
  );
  const begun = await ask({
    action: 'initiate',
    phoneNumber: form.customer_phone,
    amount: order.total_amount,
    trackingNumber: order.tracking_number,
    orderId: order.id,
  });
  expect(begun.status, JSON.stringify(begun.body)).toBe(200);
  await until(async () => {
    const paid = await database.query<{ payment_status: string }>(
      'select payment_status from public.orders where id = $1',
      [order.id],
    );
    return paid.rows[0]?.payment_status === 'paid';
  }, 'the order is paid');
  const counted = await database.query(`select from private.rate_limits where subject like '203.0.113.7%'`);
  expect(counted.rowCount).toBeGreaterThan(0);
});

test('the jobs accept every secret key of the project and no other key', async () => {
  for (const key of [secret, otherSecret]) {
    expect(await ask({ action: 'query-open' }, key)).toMatchObject({ status: 200, body: { queried: 0 } });
    expect((await ask({ action: 'describe-setup' }, key)).body.setup.environment).toBe('simulator');
  }
  expect((await ask({ action: 'query-open' })).status).toBe(401);
  expect((await ask({ action: 'describe-setup' })).status).toBe(403);
});

test('accepts calls from the storefront, with and without a slash at the end of PUBLIC_URL', async () => {
  const preflight = await fetch(`${url}/functions/v1/mobile-money`, { method: 'OPTIONS' });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get('access-control-allow-origin')).toBe('https://shop.example');
  expect((await ask({})).headers.get('access-control-allow-origin')).toBe('https://shop.example');
});

test('names its build, which hosted:check compares', async () => {
  const bundle = await readFile(join(folder, 'function.bundle.js'), 'utf8');
  const build = /"build ([0-9a-f]{16})"/.exec(bundle)?.[1];
  expect(build).not.toBe('0'.repeat(16));
  expect((await ask({ action: 'describe-setup' }, secret)).headers.get('x-function-build')).toBe(build);
});

test('names a missing secret', async () => {
  const { MPESA_PASSKEY: _passkey, ...others } = secrets();
  const incomplete = await startFunction(others);
  const response = await fetch(`${incomplete}/mobile-money`, { method: 'POST', body: '{}' });
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({ problem: 'MPESA_PASSKEY is not set' });
});
