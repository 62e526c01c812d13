// Public topics with privileged senders: every client may receive.
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Database } from '../../database/database.ts';
import { platform, throwawayDatabase } from '../../testing/throwaway.ts';
import { Collected, startService, subscribed, type ThrowawayService, tokenOf } from '../throwaway-service.ts';

interface ReceivedBroadcast {
  event: string;
}

describe('with privileged senders', () => {
  let database: Database;
  let service: ThrowawayService;
  const queries = { total: 0 };
  beforeAll(async () => {
    database = await throwawayDatabase('pglite', [platform]);
    await database.execute(`
      create policy "members send" on realtime.messages for insert to authenticated
        with check ((auth.jwt() ->> 'is_member')::boolean and not private and topic = realtime.topic());
    `);
    const counting: Database = {
      ...database,
      transaction: (...given) => {
        queries.total += 1;
        return database.transaction(...given);
      },
    };
    service = await startService(counting, {}, { publicSenders: 'privileged' });
    return async () => {
      expect(service.errors).toEqual([]);
      await service.close();
      await database.close();
    };
  });

  const secret = { params: { apikey: 'sb_secret_test' } };
  const clientOf = async (claims?: Record<string, unknown>) => {
    const client = service.client();
    if (claims) await client.setAuth(await tokenOf({ role: 'authenticated', sub: 'a', ...claims }));
    return client;
  };
  const listening = async (topic: string) => {
    const received = new Collected<ReceivedBroadcast>();
    const channel = service.client().channel(topic);
    channel.on('broadcast', { event: '*' }, received.add as never);
    await subscribed(channel);
    return received;
  };
  const fromDatabase = (topic: string) =>
    database.query(`select realtime.send('{}', 'last', $1, false)`, [topic]);
  const post = async (path: string, key: string, body: unknown) => {
    const answer = await fetch(`${service.url}/api/broadcast${path}`, {
      method: 'POST',
      headers: { apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const forbidden = {
    status: 403,
    text: '{"message":"You do not have permissions to send to public topics"}',
  };

  test.each(['1.0.0', '2.0.0'])(
    'a broadcast of a visitor in protocol version %s is dropped without a response or a query',
    async (vsn) => {
      const topic = `hall ${vsn}`;
      const received = await listening(topic);
      const visitor = service.client({ vsn }).channel(topic, {
        config: { broadcast: { ack: true, self: true } },
      });
      const echoed = new Collected<ReceivedBroadcast>();
      visitor.on('broadcast', { event: '*' }, echoed.add as never);
      await subscribed(visitor);
      const before = queries.total;
      let answer: string | undefined;
      void visitor.send({ type: 'broadcast', event: 'forged', payload: {} }).then((given) => {
        answer = given;
      });
      // Answered after the broadcast, as the server handles the messages of a topic in order.
      expect(await visitor.track({})).toBe('error');
      expect([answer, queries.total]).toEqual([undefined, before]);
      await fromDatabase(topic);
      await Promise.all([received.atLeast(1), echoed.atLeast(1)]);
      expect([...received.all, ...echoed.all].map(({ event }) => event)).toEqual(['last', 'last']);
    },
  );

  test('a text frame of a visitor is dropped like a binary one', async () => {
    const received = await listening('text');
    const socket = new WebSocket(
      `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
    );
    await new Promise((done) => socket.on('open', done));
    const frames: unknown[] = [];
    socket.on('message', (data) => frames.push(JSON.parse(String(data))));
    const push = (...frame: unknown[]) => socket.send(JSON.stringify(frame));
    push('1', '1', 'realtime:text', 'phx_join', { config: { broadcast: { ack: true } } });
    push('1', '2', 'realtime:text', 'broadcast', { type: 'broadcast', event: 'forged', payload: {} });
    push('1', '3', 'realtime:text', 'phx_leave', {});
    await expect.poll(() => frames.length).toBe(3);
    await fromDatabase('text');
    expect((await received.atLeast(1)).map(({ event }) => event)).toEqual(['last']);
    socket.close();
  });

  test('a visitor has no presence', async () => {
    const seen = new Collected<unknown>();
    const watcher = service.client().channel('lobby');
    watcher.on('presence', { event: 'join' }, seen.add);
    await subscribed(watcher);
    const visitor = service.client().channel('lobby');
    await subscribed(visitor);
    expect(await visitor.track({ here: true })).toBe('error');
    const inside = service.client(secret).channel('lobby');
    await subscribed(inside);
    expect(await inside.track({ here: true })).toBe('ok');
    expect(await seen.atLeast(1)).toHaveLength(1);
  });

  test('over HTTP a visitor gets 403, and nothing of the request is sent', async () => {
    const received = await listening('news');
    const key = 'sb_publishable_test';
    const message = { topic: 'news', event: 'forged', payload: {} };
    expect(await post('/news/events/forged', key, {})).toEqual(forbidden);
    expect(await post('', key, { messages: [message] })).toEqual(forbidden);
    expect(await post('', key, { messages: [{ ...message, private: true }, message] })).toEqual(forbidden);
    await fromDatabase('news');
    expect((await received.atLeast(1)).map(({ event }) => event)).toEqual(['last']);
  });

  test('signed-in users send where the insert policies allow it', async () => {
    const received = await listening('club');
    const config = { config: { broadcast: { ack: true } } };
    const member = (await clientOf({ is_member: true })).channel('club', config);
    await subscribed(member);
    expect(await member.send({ type: 'broadcast', event: 'member', payload: {} })).toBe('ok');
    const token = (claims: Record<string, unknown>) =>
      tokenOf({ role: 'authenticated', sub: 'a', ...claims });
    expect((await post('/club/events/by-http', await token({ is_member: true }), {})).status).toBe(202);
    expect(await post('/club/events/forged', await token({}), {})).toEqual(forbidden);
    await fromDatabase('club');
    expect((await received.atLeast(3)).map(({ event }) => event)).toEqual(['member', 'by-http', 'last']);
  });

  test('the secret key sends', async () => {
    const received = await listening('street');
    const inside = service.client(secret).channel('street', { config: { broadcast: { ack: true } } });
    await subscribed(inside);
    expect(await inside.send({ type: 'broadcast', event: 'socket', payload: {} })).toBe('ok');
    expect((await post('/street/events/http', 'sb_secret_test', {})).status).toBe(202);
    expect((await received.atLeast(2)).map(({ event }) => event)).toEqual(['socket', 'http']);
  });
});
