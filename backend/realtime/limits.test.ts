// What one client may not do to the others.
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Database } from '../database/database.ts';
import { throwawayDatabase } from '../database/throwaway.ts';
import { type Limits, RateWindow } from './limits.ts';
import { Heard, startService, subscribed, type ThrowawayService } from './throwaway-service.ts';

type Frame = [string | null, string | null, string, string, Record<string, unknown>];

/** A client that can misbehave. */
async function rawClient(service: ThrowawayService) {
  const socket = new WebSocket(
    `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
  );
  const frames = new Heard<Frame>();
  const closed = new Promise<number>((done) => socket.on('close', done));
  socket.on('message', (data, isBinary) => {
    if (!isBinary) frames.add(JSON.parse(String(data)));
  });
  socket.on('error', () => {});
  await new Promise<void>((done) => socket.on('open', done));
  let ref = 0;
  const push = (topic: string, event: string, payload: unknown = {}, joinRef: string | null = topic) => {
    ref += 1;
    socket.send(JSON.stringify([joinRef, String(ref), topic, event, payload]));
  };
  return { socket, frames, closed, push };
}

const reasonIn = ([, , , , payload]: Frame) => (payload.response as { reason?: string })?.reason;

describe('limits', () => {
  let database: Database;
  let service: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase('pglite', [{ name: 'platform', folder: 'backend/platform' }]);
    return () => database.close();
  });
  afterEach(() => service.close());
  const start = async (limits: Partial<Limits>) => {
    service = await startService(database, limits);
    return service;
  };

  test('a frame that is too large ends the connection', async () => {
    const { closed, push } = await rawClient(await start({ frameBytes: 1000 }));
    push('realtime:a', 'broadcast', { text: 'x'.repeat(1000) });
    expect(await closed).toBe(1009);
  });

  test.each(['{"a":', '[1,2]', Buffer.from([9, 9])])(
    'a frame that makes no sense ends the connection',
    async (frame) => {
      const { closed, socket } = await rawClient(await start({}));
      socket.send(frame);
      expect(await closed).toBe(1002);
    },
  );

  test('a silent client is let go', async () => {
    const { closed } = await rawClient(await start({ idleMilliseconds: 100 }));
    expect(await closed).toBe(1000);
  });

  test('there is room for so many connections', async () => {
    await start({ connections: 1 });
    await rawClient(service);
    const second = new WebSocket(`${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test`);
    const answer = await new Promise((done) => {
      second.on('unexpected-response', (_, response) => done(response.statusCode));
    });
    expect(answer).toBe(429);
  });

  test('one connection may be on so many topics, and leaving one makes room', async () => {
    const { frames, push } = await rawClient(await start({ channelsPerConnection: 2 }));
    for (const topic of ['realtime:a', 'realtime:b', 'realtime:c']) push(topic, 'phx_join');
    const answers = await frames.atLeast(3);
    expect(answers.map(reasonIn)).toEqual([
      undefined,
      undefined,
      'ChannelRateLimitReached: Too many channels',
    ]);
    push('realtime:a', 'phx_leave');
    await frames.atLeast(5);
    push('realtime:c', 'phx_join');
    expect((await frames.atLeast(6))[5]?.[4]).toMatchObject({ status: 'ok' });
  });

  test('one connection may join so many times a second', async () => {
    const { frames, push } = await rawClient(await start({ joinsPerSecond: 1 }));
    push('realtime:a', 'phx_join');
    push('realtime:b', 'phx_join');
    expect((await frames.atLeast(2)).map(reasonIn)).toEqual(
      expect.arrayContaining([undefined, 'ClientJoinRateLimitReached: Too many joins per second']),
    );
  });

  test('whoever sends too many messages a second loses the channel', async () => {
    const { frames, push } = await rawClient(await start({ messagesPerSecond: 2 }));
    push('realtime:a', 'phx_join');
    for (let n = 0; n < 3; n += 1) push('realtime:a', 'broadcast', { type: 'broadcast', event: 'e' });
    const [, system, close] = await frames.atLeast(3);
    expect(system).toEqual([
      'realtime:a',
      null,
      'realtime:a',
      'system',
      { extension: 'system', status: 'error', message: 'Too many messages per second', channel: 'a' },
    ]);
    expect(close).toEqual(['realtime:a', null, 'realtime:a', 'phx_close', {}]);
  });

  test('one network takes only a part of that room', async () => {
    await start({ connectionsPerAddress: 1 });
    const open = (from: string) => {
      const socket = new WebSocket(
        `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test`,
        { headers: { 'x-forwarded-for': from } },
      );
      const answer = new Promise<number | undefined>((done) => {
        socket.on('open', () => done(101));
        socket.on('unexpected-response', (_, response) => done(response.statusCode));
      });
      return { socket, answer };
    };
    const first = open('2001:db8::1');
    expect(await first.answer).toBe(101);
    expect(await open('2001:db8::2').answer).toBe(429);
    expect(await open('192.0.2.1').answer).toBe(101);
    first.socket.close();
    await expect.poll(() => open('2001:db8::2').answer).toBe(101);
  });

  test('whoever floods us with anything at all loses the connection', async () => {
    const { closed, push } = await rawClient(await start({ framesPerSecond: 10 }));
    for (let n = 0; n < 11; n += 1) push('phoenix', 'heartbeat');
    expect(await closed).toBe(1008);
  });

  test('a broadcast that is too large is refused to whoever waits for the answer', async () => {
    await start({ payloadBytes: 100 });
    const channel = service.client().channel('a', { config: { broadcast: { ack: true } } });
    await subscribed(channel);
    const large = { type: 'broadcast' as const, event: 'e', payload: 'x'.repeat(100) };
    expect(await channel.send(large)).toBe('error');
  });

  test('whoever changes its presence too often loses the channel', async () => {
    await start({ presenceCalls: 1 });
    const channel = service.client().channel('a');
    const told = new Heard<{ message: string }>();
    channel.on('system', {}, told.add);
    await subscribed(channel);
    await channel.track({ n: 1 });
    void channel.track({ n: 2 });
    expect((await told.atLeast(1))[0]?.message).toBe('Client presence rate limit exceeded');
  });

  test('a client is present with so much on all of its channels together', async () => {
    await start({ presenceBytes: 200 });
    const { frames, push } = await rawClient(service);
    const track = (topic: string) =>
      push(topic, 'presence', { type: 'presence', event: 'track', payload: { text: 'x'.repeat(100) } });
    const endOf = (topic: string) =>
      expect.poll(() => frames.all.filter((frame) => frame[2] === topic).map(([, , , event]) => event));
    for (const topic of ['realtime:a', 'realtime:b']) push(topic, 'phx_join');
    track('realtime:a');
    track('realtime:b');
    await endOf('realtime:b').toContain('phx_close');
    push('realtime:a', 'phx_leave');
    await endOf('realtime:a').toContain('phx_close');
    push('realtime:c', 'phx_join');
    track('realtime:c');
    await endOf('realtime:c').toContain('presence_diff');
  });

  test('a channel that asks for too many kinds of changes is told so', async () => {
    await start({});
    const { frames, push } = await rawClient(service);
    const change = { event: '*', schema: 'public' };
    push('realtime:a', 'phx_join', {
      config: { postgres_changes: Array.from({ length: 101 }, () => change) },
    });
    await expect.poll(() => JSON.stringify(frames.all)).toContain('more than 100 kinds of changes');
  });

  test('whoever reads too slowly is let go with a word, and the others go on', async () => {
    await start({ bufferedBytes: 2_000_000 });
    const deaf = await rawClient(service);
    deaf.push('realtime:flood', 'phx_join');
    await deaf.frames.atLeast(1);
    deaf.socket.pause();
    const heard = new Heard<unknown>();
    const listener = service.client().channel('flood');
    listener.on('broadcast', { event: 'e' }, heard.add);
    await subscribed(listener);
    const sender = service.client().channel('flood', { config: { broadcast: { ack: true } } });
    await subscribed(sender);
    const payload = 'x'.repeat(500_000);
    for (let n = 0; n < 40; n += 1) await sender.send({ type: 'broadcast', event: 'e', payload });
    await heard.atLeast(40);
    deaf.socket.resume();
    expect(await deaf.closed).toBe(1013);
  });
});

describe('the protocol beyond the official client', () => {
  let database: Database;
  let service: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase('pglite', [{ name: 'platform', folder: 'backend/platform' }]);
    service = await startService(database);
    return async () => {
      expect(service.faults).toEqual([]);
      await service.close();
      await database.close();
    };
  });

  test('a message to a topic that was not joined is answered with an error', async () => {
    const { frames, push } = await rawClient(service);
    push('realtime:a', 'broadcast', {}, null);
    push('elsewhere', 'phx_join');
    push('phoenix', 'nonsense');
    expect((await frames.atLeast(3)).map(reasonIn)).toEqual(Array(3).fill('unmatched topic'));
  });

  test('joining a topic again closes the older membership, and a late good-bye to it is harmless', async () => {
    const { frames, push } = await rawClient(service);
    push('realtime:a', 'phx_join', {}, 'first');
    push('realtime:a', 'phx_join', {}, 'second');
    push('realtime:a', 'phx_leave', {}, 'first');
    push('realtime:a', 'broadcast', { event: 'e' }, 'second');
    push('realtime:a', 'phx_leave', {}, 'second');
    const told = (await frames.atLeast(6)).map(([joinRef, ref, , event]) => [joinRef, ref, event]);
    expect(told).toEqual([
      ['first', '1', 'phx_reply'],
      ['first', null, 'phx_close'],
      ['second', '2', 'phx_reply'],
      ['first', '3', 'phx_reply'],
      ['second', '5', 'phx_reply'],
      ['second', null, 'phx_close'],
    ]);
  });

  test.each([
    ['realtime:', {}, 'TopicNameRequired: You must provide a topic name'],
    [
      'realtime:a',
      { config: { broadcast: { replay: { since: 1 } } } },
      'UnableToReplayMessages: Replay is not allowed for public channels',
    ],
    [
      'realtime:a',
      { config: { private: 'true', broadcast: { replay: { since: 'yesterday' } } } },
      'UnableToReplayMessages: Replay params are not valid',
    ],
  ])('a join of %s with %j is refused', async (topic, payload, reason) => {
    const { frames, push } = await rawClient(service);
    push(topic, 'phx_join', payload);
    expect((await frames.atLeast(1)).map(reasonIn)).toEqual([reason]);
  });

  test.each([
    null,
    7,
    'text',
    { config: 7 },
    { config: { broadcast: [], presence: null, postgres_changes: {} } },
  ])('a join with the unreadable payload %j takes the defaults', async (payload) => {
    const { frames, push } = await rawClient(service);
    push('realtime:a', 'phx_join', payload);
    expect((await frames.atLeast(1))[0]?.[4]).toEqual({ status: 'ok', response: { postgres_changes: [] } });
  });

  test('a presence that is no map is refused, and one under any key is shown', async () => {
    const { frames, push } = await rawClient(service);
    push('realtime:p', 'phx_join', { config: { presence: { key: '__proto__', enabled: true } } });
    push('realtime:p', 'presence', { type: 'presence', event: 'track', payload: [] });
    push('realtime:p', 'presence', { type: 'presence', event: 'track', payload: { a: 1 } });
    const told = await frames.atLeast(5);
    expect(told.map(([, , , event]) => event)).toEqual([
      'phx_reply',
      'presence_state',
      'phx_reply',
      'presence_diff',
      'phx_reply',
    ]);
    expect(reasonIn(told[2] as Frame)).toBe('Presence track payload must be a map');
    expect(JSON.stringify(told[3]?.[4])).toContain('"__proto__":{"metas":[{"a":1');
  });
});

test('a window of time takes so many events and then begins anew', () => {
  const window = new RateWindow(2, 1000);
  expect([1, 2, 3].map(() => window.take(500))).toEqual([true, true, false]);
  expect([window.take(1499), window.take(1500)]).toEqual([false, true]);
});
