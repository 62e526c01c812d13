// Two services on one PostgreSQL, as two processes of the shop are.
import type { RealtimeChannel } from '@supabase/realtime-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Database } from '../database/database.ts';
import { openPostgresql } from '../database/postgresql/postgresql.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { Collected, startService, subscribed, type ThrowawayService } from './throwaway-service.ts';

// A busy machine may be slow.
const waitMs = 50_000;

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
    otherDatabase = openPostgresql(database.url ?? '', { onError: () => {} });
    here = await startService(database);
    there = await startService(otherDatabase);
  });
  afterAll(async () => {
    expect([here.errors, there.errors]).toEqual([[], []]);
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
  const numbers = (messages: Message[]) => messages.map(({ payload }) => payload.n);

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
    const messages = await b.received.atLeast(3);
    expect(messages.map(({ event }) => event)).toEqual(['text', 'bytes', 'small']);
    expect(messages[0]?.payload.text).toBe(text);
    expect(Buffer.from(messages[1]?.payload as never).equals(Buffer.from(bytes))).toBe(true);
  });

  test('both deliver broadcasts from SQL, and those that one of them receives over HTTP', async () => {
    const a = await listening(here, 'both');
    const b = await listening(there, 'both');
    await database.query(`select realtime.send('{"n": 1}', 'sql', 'both', false)`);
    await Promise.all([a.received.atLeast(1), b.received.atLeast(1)]);
    await here.client().channel('both').httpSend('http', { n: 2 });
    expect(numbers(await a.received.atLeast(2))).toEqual([1, 2]);
    expect(numbers(await b.received.atLeast(2))).toEqual([1, 2]);
  });

  test('miss and repeat no broadcast from SQL after a lost connection', async () => {
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

  describe('share presence', () => {
    const present = async (service: ThrowawayService, topic: string, key: string, mood?: string) => {
      const channel = service.client().channel(topic, { config: { presence: { key, enabled: true } } });
      expect((await subscribed(channel)).status).toBe('SUBSCRIBED');
      if (mood) expect(await channel.track({ mood })).toBe('ok');
      return channel;
    };
    const moodsOf = (channel: RealtimeChannel) =>
      Object.fromEntries(
        Object.entries(channel.presenceState<{ mood: string }>()).map(([key, metas]) => [
          key,
          metas.map(({ mood }) => mood),
        ]),
      );
    const sees = (channel: RealtimeChannel, moods: Record<string, string[]>) =>
      vi.waitFor(() => expect(moodsOf(channel)).toEqual(moods), { timeout: waitMs });

    test('of clients of the other process: at the join, at a change, and when they leave', async () => {
      const watcher = await present(there, 'lobby', 'watcher');
      const guest = await present(here, 'lobby', 'guest', 'calm');
      await sees(watcher, { guest: ['calm'] });
      const late = await present(there, 'lobby', 'late', 'curious');
      await sees(late, { guest: ['calm'], late: ['curious'] });
      await sees(guest, { guest: ['calm'], late: ['curious'] });
      expect(await guest.track({ mood: 'happy \u0000' })).toBe('ok');
      // Earlier subscribers also list the former presence, because the official client does not find it to remove it.
      await vi.waitFor(() => expect(moodsOf(watcher).guest).toContain('happy \u0000'), { timeout: waitMs });
      const later = await present(there, 'lobby', 'later');
      await sees(later, { guest: ['happy \u0000'], late: ['curious'] });
      await guest.unsubscribe();
      await sees(later, { late: ['curious'] });
      const other = await present(here, 'another lobby', 'guest', 'calm');
      await sees(other, { guest: ['calm'] });
      expect(moodsOf(later)).toEqual({ late: ['curious'] });
    });

    test('with changes that happened while connections were lost', async () => {
      const watcher = await present(there, 'gap', 'watcher');
      await present(here, 'gap', 'first', 'calm');
      await sees(watcher, { first: ['calm'] });
      await database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name = 'backend notifications'`,
      );
      await present(here, 'gap', 'second', 'calm');
      await sees(watcher, { first: ['calm'], second: ['calm'] });
    });

    test('within the bytes of a topic', async () => {
      const bounded = await startService(database, { presenceBytesPerTopic: 100 });
      await present(there, 'full', 'guest', 'x'.repeat(60));
      const late = bounded.client().channel('full', { config: { presence: { key: 'late', enabled: true } } });
      const refusals = new Collected<{ message: string }>();
      late.on('system' as never, {} as never, refusals.add as never);
      await subscribed(late);
      await sees(late, { guest: ['x'.repeat(60)] });
      void late.track({ mood: 'x'.repeat(60) });
      expect((await refusals.atLeast(1))[0]?.message).toBe('Track message size exceeded');
      await bounded.close();
    });

    test('until a killed process times out', async () => {
      const lostDatabase = openPostgresql(database.url ?? '', { onError: () => {} });
      const lease = { presenceLeaseMs: 1_500 };
      const lost = await startService(lostDatabase, lease);
      const remaining = await startService(database, lease);
      const watcher = await present(remaining, 'mortal', 'watcher', 'well');
      await present(lost, 'mortal', 'guest', 'calm');
      await sees(watcher, { watcher: ['well'], guest: ['calm'] });
      const seenAt = async () => {
        const { rows } = await database.query<{ seen_at: string }>(
          `select p.seen_at::text from realtime.presence_processes as p join realtime.presences as s on s.process = p.id
           where s.appearance::json ->> 'key' = 'guest' and s.audience = 'public:mortal'`,
        );
        return rows[0]?.seen_at;
      };
      const first = await seenAt();
      await vi.waitFor(async () => expect(await seenAt()).not.toBe(first), { timeout: waitMs });
      // A running process that the others have deleted returns.
      await database.query(
        `delete from realtime.presence_processes where id in (
           select process from realtime.presences where appearance::json ->> 'key' = 'guest' and audience = 'public:mortal'
         )`,
      );
      await vi.waitFor(async () => expect(await seenAt()).toBeTruthy(), { timeout: waitMs });
      await sees(watcher, { watcher: ['well'], guest: ['calm'] });
      // It can neither renew its row nor delete it.
      await lostDatabase.close();
      await sees(watcher, { watcher: ['well'] });
      await Promise.all([lost.close(), remaining.close()]);
    });
  });
});
