// Two services on one PostgreSQL, as two processes of the shop are.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { openPostgresql } from '../database/postgresql.ts';
import { testDatabases, throwawayDatabase } from '../database/throwaway.ts';
import { Collected, startService, subscribed, type ThrowawayService } from './throwaway-service.ts';

const platform = { name: 'platform', folder: 'backend/platform' };

interface Message {
  event: string;
  payload: { n: number; text?: string };
}

describe.runIf(testDatabases().includes('postgresql'))('two processes', () => {
  let database: Database & { url?: string };
  let otherDatabase: Database;
  let here: ThrowawayService;
  let there: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase('postgresql', [platform]);
    // Errors from connections lost on purpose are not logged.
    otherDatabase = openPostgresql(database.url ?? '', { onFault: () => {} });
    here = await startService(database);
    there = await startService(otherDatabase);
  });
  afterAll(async () => {
    expect([here.faults, there.faults]).toEqual([[], []]);
    await here.close();
    await there.close();
    await otherDatabase.close();
    await database.close();
  });

  const listening = async (service: ThrowawayService, topic: string) => {
    const received = new Collected<Message>();
    const channel = service.client().channel(topic, { config: { broadcast: { self: true } } });
    channel.on('broadcast', { event: '*' }, received.add as never);
    await subscribed(channel);
    return { received, channel };
  };
  const numbers = (told: Message[]) => told.map(({ payload }) => payload.n);

  test('forward broadcasts of clients of the other, in order and once', async () => {
    const a = await listening(here, 'bridge');
    const b = await listening(there, 'bridge');
    for (let n = 0; n < 50; n += 1) await a.channel.send({ type: 'broadcast', event: 'n', payload: { n } });
    const expected = Array.from({ length: 50 }, (_, n) => n);
    expect(numbers(await b.received.atLeast(50))).toEqual(expected);
    expect(numbers(await a.received.atLeast(50))).toEqual(expected);
    await b.channel.send({ type: 'broadcast', event: 'n', payload: { n: 50 } });
    expect(numbers(await a.received.atLeast(51)).at(-1)).toBe(50);
    expect(b.received.all).toHaveLength(51);
  });

  test('forward more than a notification holds, as text and as bytes', async () => {
    const a = await listening(here, 'large');
    const b = await listening(there, 'large');
    const text = 'a cup of é 🥤'.repeat(20_000);
    await a.channel.send({ type: 'broadcast', event: 'text', payload: { n: 1, text } });
    const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
    await a.channel.send({ type: 'broadcast', event: 'bytes', payload: bytes.buffer });
    await a.channel.send({ type: 'broadcast', event: 'small', payload: { n: 3 } });
    const told = await b.received.atLeast(3);
    expect(told.map(({ event }) => event)).toEqual(['text', 'bytes', 'small']);
    expect(told[0]?.payload.text).toBe(text);
    expect(Buffer.from(told[1]?.payload as never).equals(Buffer.from(bytes))).toBe(true);
  });

  test('both deliver what SQL sends, and what one of them receives over HTTP', async () => {
    const a = await listening(here, 'both');
    const b = await listening(there, 'both');
    await database.query(`select realtime.send('{"n": 1}', 'sql', 'both', false)`);
    await Promise.all([a.received.atLeast(1), b.received.atLeast(1)]);
    await here.client().channel('both').httpSend('http', { n: 2 });
    expect(numbers(await a.received.atLeast(2))).toEqual([1, 2]);
    expect(numbers(await b.received.atLeast(2))).toEqual([1, 2]);
  });

  test('miss and repeat nothing that SQL sends while their connection is lost', async () => {
    const a = await listening(here, 'gap');
    const b = await listening(there, 'gap');
    const send = (n: number) =>
      database.query(`select realtime.send($1::jsonb, 'sql', 'gap', false)`, [{ n }]);
    await send(1);
    await Promise.all([a.received.atLeast(1), b.received.atLeast(1)]);
    const lost = await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'backend notifications'`,
    );
    expect(lost.rowCount).toBe(2);
    await send(2);
    await send(3);
    await Promise.all([a.received.atLeast(3), b.received.atLeast(3)]);
    await send(4);
    expect(numbers(await a.received.atLeast(4))).toEqual([1, 2, 3, 4]);
    expect(numbers(await b.received.atLeast(4))).toEqual([1, 2, 3, 4]);
  });
});
