// The access token that several processes share, with a real database and the Daraja simulator.

import { createDataService } from '@jani-juice/backend/data';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { defaultCredentials, startDarajaSimulator } from '@jani-juice/daraja-simulator';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { shopMigrations } from '../../../../../scripts/databases/shop-migrations.ts';
import { openTokenStore } from '../../database/access-tokens.ts';
import { connectDatabase } from '../../database/client.ts';
import { queryPush } from '../stk-query.ts';
import { createAccessTokens } from './access-token.ts';
import { connectDaraja, type DarajaClient } from './client.ts';

const service = { claims: { role: 'service_role' }, address: null };

async function openServices(kind: Parameters<typeof throwawayDatabase>[0]) {
  const database = await throwawayDatabase(kind, shopMigrations);
  const data = await createDataService({ database, schemas: ['public'] });
  const simulator = await startDarajaSimulator({ queryLimit: { requests: 10_000, perMs: 1 } });
  let isDatabaseAway = false;
  const store = {
    url: 'http://database.test',
    secretKey: 'secret',
    fetch: async (input: RequestInfo | URL, init?: RequestInit) => {
      if (isDatabaseAway) throw new TypeError('fetch failed');
      return data.fetch(new Request(input, init), service);
    },
  };
  const control = async (path: string, body: unknown) => {
    const answer = await fetch(`${simulator.url}/simulator/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(answer.status, await answer.text()).toBe(200);
  };
  return {
    database,
    control,
    setDatabaseAway(isAway: boolean) {
      isDatabaseAway = isAway;
    },
    /** A new process of the shop, with an empty cache. */
    startProcess(changes: Partial<typeof defaultCredentials> = {}): DarajaClient {
      const settings = {
        baseUrl: simulator.url,
        ...defaultCredentials,
        transactionType: 'CustomerPayBillOnline' as const,
        timeoutMs: 10_000,
        ...changes,
      };
      return connectDaraja(settings, { tokenStore: openTokenStore(connectDatabase(store), settings) });
    },
    tokensMade: async () =>
      ((await (await fetch(`${simulator.url}/simulator/ledger`)).json()) as { tokensMade: number })
        .tokensMade,
    async close() {
      await simulator.close();
      await data.close();
      await database.close();
    },
  };
}

test('a token that lives for a minute is used for half of it', async () => {
  let [nowMs, requests] = [0, 0];
  const tokens = createAccessTokens(
    { baseUrl: 'https://daraja.test', ...defaultCredentials, transactionType: 'CustomerPayBillOnline' },
    {
      send: async () => Response.json({ access_token: `token ${++requests}`, expires_in: '60' }),
      now: () => new Date(nowMs),
      timeoutMs: 1000,
      store: null,
    },
  );
  const read: string[] = [];
  for (nowMs of [0, 29_000, 31_000]) read.push(await tokens.get());
  expect(read).toEqual(['token 1', 'token 1', 'token 2']);
});

/** Whether Daraja accepts the client's token. */
async function isAuthorized(daraja: DarajaClient): Promise<boolean> {
  const { body } = await queryPush(daraja, 'ws_CO_unknown');
  return body?.includes('does not Exist') === true;
}

describe.each(testDatabases())('on %s', (kind) => {
  let context: Awaited<ReturnType<typeof openServices>>;
  beforeAll(async () => {
    context = await openServices(kind);
  });
  afterAll(() => context.close());
  beforeEach(async () => {
    await context.control('reset', {});
    await context.database.query('delete from private.daraja_tokens');
  });

  test('concurrent requests of several processes share one token', async () => {
    const processes = [context.startProcess(), context.startProcess(), context.startProcess()];
    const letIn = await Promise.all(
      processes.flatMap((daraja) => Array.from({ length: 8 }, () => isAuthorized(daraja))),
    );
    expect(letIn.every(Boolean)).toBe(true);
    expect(await context.tokensMade()).toBe(1);
  });

  test('a token is stored for later processes until a minute before its expiry', async () => {
    expect(await isAuthorized(context.startProcess())).toBe(true);
    expect(await isAuthorized(context.startProcess())).toBe(true);
    expect(await context.tokensMade()).toBe(1);
    const { rows } = await context.database.query<{ seconds: number }>(
      'select extract(epoch from fresh_until - now())::integer as seconds from private.daraja_tokens',
    );
    expect(rows[0]?.seconds).toBeGreaterThan(3530);
    expect(rows[0]?.seconds).toBeLessThanOrEqual(3539);
    await context.database.query('update private.daraja_tokens set fresh_until = now()');
    expect(await isAuthorized(context.startProcess())).toBe(true);
    expect(await context.tokensMade()).toBe(2);
  });

  test('an invalid token is replaced once for all processes, and every request is retried', async () => {
    const processes = [context.startProcess(), context.startProcess()];
    for (const daraja of processes) expect(await isAuthorized(daraja)).toBe(true);
    await context.control('tokens/invalidate', {});
    const letIn = await Promise.all(
      processes.flatMap((daraja) => Array.from({ length: 5 }, () => isAuthorized(daraja))),
    );
    expect(letIn.every(Boolean)).toBe(true);
    expect(await context.tokensMade()).toBe(2);
  });

  test('a request whose token is rejected repeatedly is sent twice at most', async () => {
    const daraja = context.startProcess();
    expect(await isAuthorized(daraja)).toBe(true);
    await context.control('faults', { queries: { next: 2, kind: 'invalid-token' } });
    expect(await isAuthorized(daraja)).toBe(false);
    expect(await isAuthorized(daraja)).toBe(true);
  });

  test('another process takes over from one that was killed while requesting a token', async () => {
    await isAuthorized(context.startProcess());
    await context.database.query(
      `update private.daraja_tokens
       set fresh_until = now(), lease = gen_random_uuid(), leased_until = now() + interval '500 milliseconds'`,
    );
    expect(await isAuthorized(context.startProcess())).toBe(true);
    expect(await context.tokensMade()).toBe(2);
  });

  test('without a token the request is not sent, and the next one may request a token immediately', async () => {
    const daraja = context.startProcess();
    for (const kind of ['forbidden-html', 'unavailable', 'empty-400', 'drop-connection', 'too-many']) {
      await context.control('faults', { tokens: { next: 1, kind } });
      expect(await daraja.post('/mpesa/stkpushquery/v1/query', {}), kind).toMatchObject({ kind: 'not sent' });
    }
    await context.control('faults', { tokens: { next: 1, kind: 'forbidden-html' } });
    expect(await daraja.post('/mpesa/stkpushquery/v1/query', {})).toMatchObject({
      reason: 'no access token: a web page, HTTP 403',
    });
    expect(await isAuthorized(daraja)).toBe(true);
    const wrong = context.startProcess({ consumerSecret: 'wrong' });
    expect(await wrong.post('/mpesa/stkpushquery/v1/query', {})).toEqual({
      kind: 'not sent',
      reason: 'no access token: HTTP 400',
    });
    expect(await context.tokensMade()).toBe(1);
  });

  test('without the database a process requests its own token', async () => {
    context.setDatabaseAway(true);
    expect(await isAuthorized(context.startProcess())).toBe(true);
    context.setDatabaseAway(false);
  });

  test('an expired lease cannot store a token', async () => {
    const lease = async () =>
      (
        await context.database.query<{ lease: string | null }>(
          `select lease from public.lease_daraja_token('a')`,
        )
      ).rows[0]?.lease;
    const store = async (held: string | null | undefined, token: string) =>
      (
        await context.database.query<{ stored: boolean }>(
          'select public.store_daraja_token($1, $2, $3, 60000) as stored',
          ['a', held, token],
        )
      ).rows[0]?.stored;
    const first = await lease();
    expect(await lease(), 'while another process requests it').toBeNull();
    await context.database.query('update private.daraja_tokens set leased_until = now()');
    const second = await lease();
    expect(await store(first, 'late')).toBe(false);
    expect(await store(second, 'good')).toBe(true);
    expect((await context.database.query('select token from private.daraja_tokens')).rows).toEqual([
      { token: 'good' },
    ]);
  });
});
