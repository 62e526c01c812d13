// Notices by Web Push, to a push service of the test over https: what it receives, and what follows from its answers.
import { execFileSync } from 'node:child_process';
import { createDecipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { createPublicFetch, publicFetch } from '@jani-juice/backend/http';
import { testDatabases } from '@jani-juice/backend/testing';
import { importJWK, jwtVerify } from 'jose';
import pino from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createStore } from '../../supabase/store.ts';
import { call, makeProduct, openShopDatabase } from '../../supabase/tests/shop-database.ts';
import { shopSteps } from '../../supabase/tests/steps.ts';
import { type PushOptions, sendDuePushes } from './push.ts';

interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}
/** A browser's side of a subscription. */
interface Device {
  keys: ECDH;
  secret: Buffer;
}

/** Reads an encrypted body as a browser does (RFC 8188 and 8291). */
function decrypt(body: Buffer, { keys, secret }: Device): unknown {
  const salt = body.subarray(0, 16);
  const senderKey = body.subarray(21, 21 + body.readUInt8(20));
  const content = body.subarray(21 + senderKey.length);
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), keys.getPublicKey(), senderKey]);
  const derive = (key: Buffer, salt: Buffer, info: Buffer, length: number) =>
    Buffer.from(hkdfSync('sha256', key, salt, info, length));
  const input = derive(keys.computeSecret(senderKey), secret, info, 32);
  const key = derive(input, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
  const nonce = derive(input, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
  const decipher = createDecipheriv('aes-128-gcm', key, nonce);
  decipher.setAuthTag(content.subarray(-16));
  const padded = Buffer.concat([decipher.update(content.subarray(0, -16)), decipher.final()]);
  return JSON.parse(padded.toString('utf8', 0, padded.lastIndexOf(2)));
}

const publicUrl = 'https://jani.example';
let server: Server;
let origin: string;
let send: PushOptions['send'];
let received: Received[] = [];
let answer: { status: number; headers?: Record<string, string> } | 'hang up';

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jani-push-'));
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
      ...['-keyout', key, '-out', certificate, '-subj', '/CN=push.example'],
      ...['-addext', 'subjectAltName=IP:127.0.0.1'],
    ],
    { stdio: 'ignore' },
  );
  const ca = readFileSync(certificate, 'utf8');
  server = createServer({ key: readFileSync(key), cert: ca }, async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    received.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(parts) });
    if (answer === 'hang up') request.socket.destroy();
    else response.writeHead(answer.status, answer.headers).end();
  });
  rmSync(folder, { recursive: true });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  send = createPublicFetch({ isAllowed: (address) => address === '127.0.0.1', ca });
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let closeService: () => Promise<void>;
  let options: PushOptions;
  let logged: string;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
    const service = await createDataService({ database, schemas: ['public'] });
    closeService = () => service.close();
    const serviceFetch: typeof fetch = (input, init) =>
      service.fetch(new Request(input, init), { claims: { role: 'service_role' }, address: null });
    options = {
      tables: createStore({ url: publicUrl, key: 'secret' }, { fetch: serviceFetch }).tables,
      publicUrl,
      send,
      log: pino(
        {},
        {
          write(line: string) {
            logged += line;
          },
        },
      ),
    };
  });
  afterAll(async () => {
    await closeService();
    await database.close();
  });
  beforeEach(async () => {
    [received, answer, logged] = [[], { status: 201 }, ''];
    await database.execute('delete from public.notices; delete from public.push_subscriptions');
  });

  const readValue = async (sql: string) => Object.values((await database.query(sql)).rows[0] ?? {})[0];
  const subscribe = async (path = '/device', key?: string): Promise<Device> => {
    const keys = createECDH('prime256v1');
    keys.generateKeys();
    const secret = randomBytes(16);
    await call(database, 'staff', 'save_push_subscription', {
      endpoint: `${origin}${path}`,
      p256dh: key ?? keys.getPublicKey('base64url'),
      auth_secret: secret.toString('base64url'),
      device: 'Chrome on Android',
      kinds: ['paid_order', 'inquiry'],
    });
    return { keys, secret };
  };
  const placePaid = async () => {
    const { place, pay } = shopSteps(database);
    const order = await place(await makeProduct(database, 20), { quantity: 2, building: 'Mpaka Plaza' });
    await pay(order);
    return order;
  };
  const pushAgain = async () => {
    await database.query('update private.push_queue set due_at = now() where true');
    await sendDuePushes(options);
  };

  test('delivers a paid order, encrypted for its device and signed with the key of the shop', async () => {
    const device = await subscribe();
    const order = await placePaid();
    await sendDuePushes(options);
    expect(received).toHaveLength(1);
    const [{ path, headers, body }] = received as [Received];
    expect(path).toBe('/device');
    expect(headers).toMatchObject({ 'content-encoding': 'aes128gcm', urgency: 'high' });
    expect(Number(headers.ttl)).toBeGreaterThan(29 * 60);
    const payload = decrypt(body, device) as Record<string, string>;
    const number = await readValue(`select order_number from public.orders where id = '${order.id}'`);
    expect(payload).toEqual({
      id: await readValue('select id from public.notices'),
      title: 'New paid order',
      text: `2 × drink · Westlands · ${number}`,
      path: `/admin/today/${order.id}`,
    });
    expect(headers.topic, 'a push sent again replaces it').toBe(payload.id?.replaceAll('-', ''));

    const [, token = '', key = ''] = /^vapid t=([^,]+), k=(.+)$/.exec(headers.authorization ?? '') ?? [];
    expect(key).toBe(await call(database, 'staff', 'push_public_key'));
    const point = Buffer.from(key, 'base64url');
    const coordinate = (from: number) => point.subarray(from, from + 32).toString('base64url');
    const jwk = { kty: 'EC', crv: 'P-256', x: coordinate(1), y: coordinate(33) };
    const { payload: claims } = await jwtVerify(token, await importJWK(jwk, 'ES256'), { audience: origin });
    expect(claims.sub).toBe(publicUrl);

    await pushAgain();
    expect(received, 'only once').toHaveLength(1);
    expect(logged).toBe('');
  });

  test('keeps its keys, also when two processes start at once', async () => {
    await database.query('delete from private.push_keys');
    await Promise.all([sendDuePushes(options), sendDuePushes(options)]);
    const first = await readValue('select public_key from private.push_keys');
    await sendDuePushes(options);
    expect(await readValue('select public_key from private.push_keys')).toBe(first);
    expect(Buffer.from(String(first), 'base64url')).toHaveLength(65);
  });

  test.each([404, 410])('deletes a subscription that its push service answers with %i', async (status) => {
    await subscribe();
    await placePaid();
    answer = { status };
    await sendDuePushes(options);
    expect(await readValue('select count(*)::integer from public.push_subscriptions')).toBe(0);
  });

  test.each([
    ['is overloaded', { status: 503 }],
    ['limits requests', { status: 429, headers: { 'retry-after': '3' } }],
    ['hangs up', 'hang up'],
  ] as const)('sends it later when the push service %s', async (_, refusal) => {
    const device = await subscribe();
    await placePaid();
    answer = refusal;
    await sendDuePushes(options);
    expect(await readValue('select failures from public.push_subscriptions')).toBe(1);
    answer = { status: 201 };
    await sendDuePushes(options);
    expect(received, 'not at once').toHaveLength(1);
    await pushAgain();
    expect(received).toHaveLength(2);
    expect(decrypt(received[1]?.body as Buffer, device)).toMatchObject({ title: 'New paid order' });
    expect(await readValue('select failures from public.push_subscriptions')).toBe(0);
    expect(logged).toContain('a notice was not pushed');
    expect(logged).not.toContain('/device');
  });

  test('gives up a notice that the push service refuses for good, not the device', async () => {
    await subscribe();
    await placePaid();
    answer = { status: 413 };
    await sendDuePushes(options);
    await pushAgain();
    expect(received).toHaveLength(1);
    expect(await readValue('select count(*)::integer from public.push_subscriptions')).toBe(1);
  });

  test('follows no redirect, and reaches no address of this machine', async () => {
    await subscribe();
    await placePaid();
    answer = { status: 307, headers: { location: `${origin}/elsewhere` } };
    await sendDuePushes(options);
    expect(received.map(({ path }) => path)).toEqual(['/device']);
    await database.query('update private.push_queue set due_at = now() where true');
    await sendDuePushes({ ...options, send: publicFetch });
    expect(received).toHaveLength(1);
    expect(await readValue('select count(*)::integer from public.push_subscriptions')).toBe(0);
  });

  test('deletes a subscription whose key is no point of the curve, and pushes to the others', async () => {
    await subscribe('/broken', `B${'a'.repeat(86)}`);
    await subscribe('/device');
    await placePaid();
    await sendDuePushes(options);
    expect(received.map(({ path }) => path)).toEqual(['/device']);
    expect(await readValue('select count(*)::integer from public.push_subscriptions')).toBe(1);
  });

  test('names no person in the push of an inquiry', async () => {
    const device = await subscribe();
    await database.query(
      `insert into public.inquiries (name, email, message) values ('Baraka Otieno', 'baraka@mail.example', 'Habari')`,
    );
    await sendDuePushes(options);
    const payload = decrypt(received[0]?.body as Buffer, device);
    expect(payload).toMatchObject({ title: 'New inquiry' });
    expect(JSON.stringify(payload)).not.toMatch(/Baraka|mail\.example|Habari/);
  });

  test('starts no further push after a stop; the next run sends it', async () => {
    await subscribe();
    await placePaid();
    await sendDuePushes({ ...options, signal: AbortSignal.abort() });
    expect(received).toHaveLength(0);
    await pushAgain();
    expect(received).toHaveLength(1);
  });
});
