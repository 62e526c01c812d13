import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { checkFunction } from './hosted-function.ts';

const setup = { environment: 'sandbox', callbackUrlProblems: [] as { sentence: string; isFatal: boolean }[] };
const complete = {
  status: 200,
  body: { setup } as unknown,
  headers: {
    'access-control-allow-origin': 'https://shop.example',
    'x-function-build': '0123456789abcdef',
  } as Record<string, string>,
  statusWithoutKeys: 404,
};
let answer = complete;
let server: Server;
let url = '';
let root = '';

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'hosted-function-'));
  const folder = join(root, 'supabase/functions/mobile-money');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'function.bundle.js'), 'var build = "build 0123456789abcdef".slice(6);');
  server = createServer((request, response) => {
    request.resume();
    const hasKey = request.headers.apikey !== undefined;
    response.writeHead(hasKey ? answer.status : answer.statusWithoutKeys, answer.headers);
    response.end(JSON.stringify(answer.body));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await rm(root, { recursive: true });
});
beforeEach(() => {
  answer = complete;
});

const check = () =>
  checkFunction(
    { url, secretKey: 'sb_secret_1' },
    { environment: 'sandbox', publicUrl: 'https://shop.example', root },
  );

test('accepts the function of this version with the settings of this shop', async () => {
  expect(await check()).toBeNull();
});

test.each([
  ['not deployed', { status: 404, body: {} }, 'not deployed', 'functions deploy'],
  [
    'a missing secret',
    { status: 503, body: { problem: 'MPESA_PASSKEY is not set' } },
    'MPESA_PASSKEY',
    'secrets set',
  ],
  ['another secret key', { status: 401, body: {} }, 'SUPABASE_SECRET_KEY', 'SHOP_SECRET_KEY'],
  ['another environment', { body: { setup: { ...setup, environment: 'production' } } }, 'MPESA_ENV', 'same'],
  ['a token from M-PESA', { statusWithoutKeys: 401 }, 'M-PESA sends none', 'functions deploy'],
  [
    'another shop',
    { headers: { ...complete.headers, 'access-control-allow-origin': 'https://old.example' } },
    'https://old.example',
    'secrets set PUBLIC_URL=https://shop.example',
  ],
  [
    'an earlier build',
    { headers: { ...complete.headers, 'x-function-build': 'fedcba9876543210' } },
    'not the one of this version',
    'functions deploy',
  ],
  [
    'a build before builds had names',
    { headers: { 'access-control-allow-origin': 'https://shop.example' } },
    'not the one of this version',
    'functions deploy',
  ],
  [
    'a callback URL that M-PESA refuses',
    { body: { setup: { ...setup, callbackUrlProblems: [{ sentence: 'It is not https.', isFatal: true }] } } },
    'It is not https.',
    'https',
  ],
  ['an error', { status: 500, body: {} }, 'status 500', 'log'],
])('names %s, and what to do', async (_case, changes, problem, remedy) => {
  answer = { ...complete, ...changes };
  expect(await check()).toEqual({
    problem: expect.stringContaining(problem),
    remedy: expect.stringContaining(remedy),
  });
});

test('names a function that does not answer', async () => {
  const gone = { url: 'http://127.0.0.1:9', secretKey: 'sb_secret_1' };
  const expected = { environment: 'sandbox', publicUrl: 'https://shop.example', root } as const;
  expect(await checkFunction(gone, expected)).toMatchObject({
    problem: expect.stringContaining('does not answer'),
  });
});
