// Limits that protect clients from each other.
import { connect } from 'node:net';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Database } from '../database/database.ts';
import { Backlog } from '../limits/backlog.ts';
import { platform, throwawayDatabase } from '../testing/throwaway.ts';
import { type Limits, RateWindow } from './limits.ts';
import {
  Collected,
  countQueries,
  startService,
  subscribed,
  type ThrowawayService,
  tokenOf,
} from './throwaway-service.ts';

type Frame = [string | null, string | null, string, string, Record<string, unknown>];

/** A client without the official library, which can violate the protocol. */
async function rawClient(service: ThrowawayService, from?: string) {
  const socket = new WebSocket(
    `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
    from ? { headers: { 'x-forwarded-for': from } } : {},
  );
  const frames = new Collected<Frame>();
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

/** Sends broadcasts over HTTP. */
async function post(service: ThrowawayService, body: unknown, headers: Record<string, string> = {}) {
  const answer = await fetch(`${service.url}/api/broadcast`, {
    method: 'POST',
    headers: { apikey: 'sb_publishable_test', 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: answer.status, text: await answer.text() };
}

const messagesTo = (topic: string, many: number, more: Record<string, unknown> = {}) => ({
  messages: Array.from({ length: many }, () => ({ topic, event: 'e', payload: {}, ...more })),
});
const broadcastsIn = ({ frames }: { frames: Collected<Frame> }) =>
  frames.all.filter(([, , , event]) => event === 'broadcast').length;

const reasonIn = ([, , , , payload]: Frame) => (payload.response as { reason?: string })?.reason;

describe('limits', () => {
  let database: Database;
  let service: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase('pglite', [platform]);
    for (const statement of [
      'create table public.stock (id int primary key)',
      'grant select on public.stock to anon, authenticated',
      'alter publication supabase_realtime add table public.stock',
    ])
      await database.query(statement);
    return () => database.close();
  });
  afterEach(() => service.close());
  const start = async (limits: Partial<Limits>, counting: Database = database) => {
    service = await startService(counting, limits);
    return service;
  };

  test('closes the connection at a frame above the limit', async () => {
    const { closed, push } = await rawClient(await start({ frameBytes: 1000 }));
    push('realtime:a', 'broadcast', { text: 'x'.repeat(1000) });
    expect(await closed).toBe(1009);
  });

  test.each(['{"a":', '[1,2]', Buffer.from([9, 9])])(
    'a malformed frame ends the connection',
    async (frame) => {
      const { closed, socket } = await rawClient(await start({}));
      socket.send(frame);
      expect(await closed).toBe(1002);
    },
  );

  test('disconnects a silent client', async () => {
    const { closed } = await rawClient(await start({ idleMilliseconds: 100 }));
    expect(await closed).toBe(1000);
  });

  test('limits the number of connections', async () => {
    await start({ connections: 1 });
    await rawClient(service);
    const second = new WebSocket(`${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test`);
    const answer = await new Promise((done) => {
      second.on('unexpected-response', (_, response) => done(response.statusCode));
    });
    expect(answer).toBe(429);
  });

  test('limits the topics of a connection, and leaving one frees a place', async () => {
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

  test('limits joins per second and connection', async () => {
    const { frames, push } = await rawClient(await start({ joinsPerSecond: 1 }));
    push('realtime:a', 'phx_join');
    push('realtime:b', 'phx_join');
    expect((await frames.atLeast(2)).map(reasonIn)).toEqual(
      expect.arrayContaining([undefined, 'ClientJoinRateLimitReached: Too many joins per second']),
    );
  });

  test('closes the channel above the message rate', async () => {
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

  test('destroys handshakes above the rate of their network', async () => {
    await start({ handshakesPerNetwork: 0.1 });
    const open = (address: string) =>
      new Promise((done) => {
        const socket = new WebSocket(
          `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test`,
          {
            headers: { 'x-forwarded-for': address },
          },
        );
        socket.on('open', () => done('open'));
        socket.on('error', ({ message }) => done(message));
      });
    const answers = [];
    for (let n = 0; n < 3; n += 1) answers.push(await open('2001:db8::1'));
    expect(answers).toEqual(['open', 'open', 'socket hang up']);
    expect(await open('192.0.2.1')).toBe('open');
  });

  test('limits connections per network', async () => {
    await start({ connectionsPerNetwork: 1 });
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

  /** Opens a WebSocket as bytes, to send what no library sends. */
  const rawSocket = async (address = '192.0.2.1') => {
    const { port } = new URL(service.url);
    const socket = connect({ host: '127.0.0.1', port: Number(port) });
    const closed = new Promise<void>((done) => socket.once('close', () => done()));
    socket.on('error', () => {});
    let received = '';
    socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
    });
    socket.write(
      [
        'GET /realtime/v1/websocket?apikey=sb_publishable_test&vsn=2.0.0 HTTP/1.1',
        'host: shop.example',
        'connection: upgrade',
        'upgrade: websocket',
        'sec-websocket-version: 13',
        `sec-websocket-key: ${Buffer.alloc(16).toString('base64')}`,
        `x-forwarded-for: ${address}\r\n\r\n`,
      ].join('\r\n'),
    );
    await expect.poll(() => received).toContain('\r\n\r\n');
    return { socket, closed, frames: () => received.slice(received.indexOf('\r\n\r\n') + 4) };
  };
  /** A masked frame, its mask zero. @param first its first byte: 0x80 for the last fragment, and the opcode */
  const frameOf = (first: number, text = '') =>
    Buffer.concat([Buffer.from([first, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)]);
  const heartbeat = frameOf(0x81, '["1","1","phoenix","heartbeat",{}]');

  test.each([
    ['pings', [frameOf(0x89)]],
    ['pongs', [frameOf(0x8a)]],
    ['heartbeats', [heartbeat]],
    [
      'joins and leaves',
      ['join', 'leave'].map((verb) => frameOf(0x81, `["1","1","realtime:a","phx_${verb}",{}]`)),
    ],
    ['fragments', [frameOf(0x01), ...Array<Buffer>(9).fill(frameOf(0x00)), frameOf(0x80)]],
    ['close frames', [frameOf(0x88)]],
  ])('destroys a connection that sends too many %s, before the first is handled', async (_, frames) => {
    await start({ framesPerSecond: 10 });
    const flood = await rawSocket();
    flood.socket.write(Buffer.concat(Array<Buffer[]>(1_000).fill(frames).flat()));
    await flood.closed;
    expect(flood.frames()).toBe('');
  });

  test('destroys a connection that sends a frame byte by byte, or too many bytes', async () => {
    await start({ framesPerSecond: 100, bytesPerSecond: 10_000 });
    const drip = await rawSocket();
    drip.socket.setNoDelay(true);
    const dripping = setInterval(() => drip.socket.write('x'), 1);
    drip.socket.write(Buffer.from([0x82, 0xfe, 0xff, 0xff]));
    await drip.closed;
    clearInterval(dripping);
    const bulk = await rawSocket();
    bulk.socket.write(
      Buffer.concat([Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]), Buffer.alloc(60_000)]),
    );
    await bulk.closed;
  });

  test('closes a connection that breaks the protocol with its reason, and reads nothing more of it', async () => {
    await start({});
    const broken = await rawSocket();
    broken.socket.write(Buffer.concat([frameOf(0x81, '{'), heartbeat, heartbeat]));
    await broken.closed;
    expect(broken.frames()).toContain('malformed frame');
    expect(broken.frames()).not.toContain('phx_reply');
  });

  test("serves the client of a network whose frames others have used up, in its own socket's reserve", async () => {
    await start({ framesPerNetwork: 10, framesInAll: 20, reservedFrames: 5 });
    const flooding = await Promise.all(
      ['192.0.2.1', '192.0.2.1', '198.51.100.1', '203.0.113.1'].map(rawSocket),
    );
    const honest = service.client({ headers: { 'x-forwarded-for': '192.0.2.1' } });
    const channel = honest.channel('a');
    for (const { socket } of flooding) socket.write(Buffer.concat(Array<Buffer>(25).fill(heartbeat)));
    await Promise.all(flooding.map(({ closed }) => closed));
    expect((await subscribed(channel)).status).toBe('SUBSCRIBED');
    await honest.sendHeartbeat();
    expect(honest.isConnected()).toBe(true);
  });

  test('answers a broadcast above the limit with an error', async () => {
    await start({ payloadBytes: 100 });
    const channel = service.client().channel('a', { config: { broadcast: { ack: true } } });
    await subscribed(channel);
    const large = { type: 'broadcast' as const, event: 'e', payload: 'x'.repeat(100) };
    expect(await channel.send(large)).toBe('error');
  });

  test('closes the channel above the presence rate', async () => {
    await start({ presenceCalls: 1 });
    const channel = service.client().channel('a');
    const systemMessages = new Collected<{ message: string }>();
    channel.on('system', {}, systemMessages.add);
    await subscribed(channel);
    await channel.track({ n: 1 });
    void channel.track({ n: 2 });
    expect((await systemMessages.atLeast(1))[0]?.message).toBe('Client presence rate limit exceeded');
  });

  test('limits presence bytes of a client over all of its channels', async () => {
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

  test('refuses a channel with too many subscriptions', async () => {
    await start({});
    const { frames, push } = await rawClient(service);
    const change = { event: '*', schema: 'public' };
    push('realtime:a', 'phx_join', {
      config: { postgres_changes: Array.from({ length: 101 }, () => change) },
    });
    await expect.poll(() => JSON.stringify(frames.all)).toContain('more than 100 kinds of changes');
  });

  test('limits messages per HTTP request, and sends none above the limit', async () => {
    await start({});
    const listener = await rawClient(service);
    listener.push('realtime:a', 'phx_join');
    await listener.frames.atLeast(1);
    expect(await post(service, messagesTo('a', 101))).toEqual({
      status: 429,
      text: '{"message":"Too many messages to broadcast, please reduce the batch size"}',
    });
    expect((await post(service, messagesTo('a', 100))).status).toBe(202);
    await expect.poll(() => broadcastsIn(listener)).toBe(100);
  });

  test.each([
    ['a topic', { topic: 'x'.repeat(247), event: 'e', payload: {} }],
    ['an event', { topic: 'a', event: 'ũ'.repeat(128), payload: {} }],
  ])('%s with a name that is too long is refused over HTTP', async (_, message) => {
    await start({});
    expect((await post(service, { messages: [message] })).status).toBe(422);
    const single = `${service.url}/api/broadcast/${message.topic}/events/${message.event}`;
    const answer = await fetch(single, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '1',
    });
    expect(answer.status).toBe(422);
  });

  test('rejects an HTTP request or a message that is too large', async () => {
    await start({ requestBytes: 1_000, payloadBytes: 500 });
    const large = { messages: [{ topic: 'a', event: 'e', payload: { text: 'x'.repeat(600) } }] };
    expect((await post(service, large)).status).toBe(413);
    expect((await post(service, messagesTo('a', 100))).status).toBe(413);
    expect((await post(service, messagesTo('a', 1))).status).toBe(202);
  });

  test('limits deliveries per network over HTTP, but not for the secret key', async () => {
    await start({ deliveriesPerNetwork: 50, deliveriesPerSecond: 900 });
    const receivers = await Promise.all(Array.from({ length: 10 }, () => rawClient(service)));
    for (const { push } of receivers) push('realtime:a', 'phx_join');
    await Promise.all(receivers.map(({ frames }) => frames.atLeast(1)));
    const from = (address: string) => ({ 'x-forwarded-for': address });
    expect((await post(service, messagesTo('a', 6), from('192.0.2.1'))).status).toBe(429);
    expect((await post(service, messagesTo('a', 5), from('192.0.2.1'))).status).toBe(202);
    expect((await post(service, messagesTo('a', 5), from('198.51.100.1'))).status).toBe(202);
    const large = messagesTo('a', 2, { payload: { text: 'x'.repeat(100_000) } });
    expect((await post(service, large, from('203.0.113.1'))).status).toBe(429);
    const operator = { ...from('192.0.2.1'), apikey: 'sb_secret_test' };
    expect((await post(service, messagesTo('a', 50), operator)).status).toBe(202);
    expect((await post(service, messagesTo('a', 100), operator)).status).toBe(429);
    await expect.poll(() => receivers.map(broadcastsIn)).toEqual(Array(10).fill(60));
  });

  test('closes the channel of a socket above the delivery rate', async () => {
    await start({ deliveriesPerNetwork: 1 });
    const { frames, push } = await rawClient(service, '192.0.2.1');
    push('realtime:a', 'phx_join');
    for (let n = 0; n < 2; n += 1) push('realtime:a', 'broadcast', { type: 'broadcast', event: 'e' });
    expect((await frames.atLeast(3)).map(([, , , event]) => event)).toEqual([
      'phx_reply',
      'system',
      'phx_close',
    ]);
    expect(frames.all[1]?.[4]).toMatchObject({ message: 'Too many messages per second' });
  });

  test("closes a visitor's channel above the rate of table changes, and not that of another network", async () => {
    await start({ visitorChangesPerNetwork: 5 });
    const subscribe = async (from: string, token?: string) => {
      const client = await rawClient(service, from);
      client.push('realtime:a', 'phx_join', {
        config: { postgres_changes: [{ event: '*', schema: 'public', table: 'stock' }] },
        ...(token ? { access_token: token } : {}),
      });
      expect((await client.frames.atLeast(2))[1]?.[4]).toMatchObject({ message: 'Subscribed to PostgreSQL' });
      return client.frames;
    };
    const neighbours = [await subscribe('192.0.2.1'), await subscribe('192.0.2.1')];
    const visitor = await subscribe('198.51.100.1');
    const staff = await subscribe('192.0.2.1', await tokenOf({ role: 'authenticated' }));
    // A burst of two seconds: eight changes are within the allowance of one subscriber, and above that of two.
    await database.query('insert into public.stock select generate_series(1, 8)');
    const events = (frames: Collected<Frame>) => frames.all.slice(2).map(([, , , event]) => event);
    await expect.poll(() => events(staff)).toEqual(Array(8).fill('postgres_changes'));
    await expect.poll(() => events(visitor)).toEqual(Array(8).fill('postgres_changes'));
    for (const frames of neighbours) {
      await expect.poll(() => events(frames).slice(-2)).toEqual(['system', 'phx_close']);
      expect(events(frames).length).toBeLessThan(8 + 2);
    }
  });

  test('limits HTTP requests per network without affecting another network', async () => {
    await start({ callsPerNetwork: 1 });
    const send = async (address: string) =>
      (await post(service, messagesTo('a', 1), { 'x-forwarded-for': address })).status;
    const statuses: number[] = [];
    for (let n = 0; n < 15; n += 1) statuses.push(await send('192.0.2.1'));
    expect(statuses.slice(0, 9)).toEqual(Array(9).fill(202));
    expect(statuses).toContain(429);
    expect(await send('198.51.100.1')).toBe(202);
  });

  test('private topics in an HTTP request count as many calls as their queries', async () => {
    const { queries, counting } = countQueries(database);
    await start({ callsPerNetwork: 1 }, counting);
    const before = queries.total;
    const messages = ['a', 'b', 'c'].map((topic) => ({ topic, event: 'e', payload: {}, private: true }));
    expect((await post(service, { messages }, { 'x-forwarded-for': '192.0.2.1' })).status).toBe(429);
    expect(queries.total - before).toBe(1);
  });

  test('counts a join by its queries, and refuses it before the first query', async () => {
    const { queries, counting } = countQueries(database);
    await start({ callsPerNetwork: 1 }, counting);
    const { frames, push } = await rawClient(service, '192.0.2.1');
    push('realtime:a', 'phx_join');
    await frames.atLeast(1);
    const before = queries.total;
    const changes = Array.from({ length: 5 }, (_, n) => ({ event: '*', schema: 'public', table: `t${n}` }));
    push('realtime:b', 'phx_join', { config: { postgres_changes: changes } });
    push('realtime:d', 'phx_join', { config: { private: true } });
    expect((await frames.atLeast(3)).slice(1).map(reasonIn)).toEqual([
      'ClientJoinRateLimitReached: Too many joins per second',
      'Unauthorized: You do not have permissions to read from this Channel topic: d',
    ]);
    expect(queries.total - before).toBe(1);
  });

  test('new tokens count as the joins they repeat', async () => {
    await start({ callsPerNetwork: 1 });
    const tokens = await Promise.all(['a', 'b'].map((sub) => tokenOf({ role: 'authenticated', sub })));
    const { frames, push } = await rawClient(service, '192.0.2.1');
    push('realtime:a', 'phx_join');
    for (let n = 0; n < 20; n += 1) push('realtime:a', 'access_token', { access_token: tokens[n % 2] });
    expect((await frames.atLeast(3))[1]?.[4]).toMatchObject({ message: 'Too many joins per second' });
    expect(frames.all[2]?.[3]).toBe('phx_close');
  });

  test('limits channels per network, and leaving frees a place', async () => {
    await start({ channelsPerNetwork: 2 });
    const [one, other, neighbour] = await Promise.all(
      ['192.0.2.1', '192.0.2.1', '192.0.2.2'].map((address) => rawClient(service, address)),
    );
    const join = async (client: typeof one, topic: string, payload = {}) => {
      const count = client?.frames.all.length ?? 0;
      client?.push(topic, 'phx_join', payload);
      return reasonIn((await client?.frames.atLeast(count + 1))?.[count] as Frame);
    };
    expect(await join(one, 'realtime:a')).toBeUndefined();
    expect(await join(other, 'realtime:a')).toBeUndefined();
    expect(await join(other, 'realtime:b')).toBe('ChannelRateLimitReached: Too many channels');
    expect(await join(neighbour, 'realtime:a', { config: { presence: { key: 'x'.repeat(2_000) } } })).toBe(
      'ChannelRateLimitReached: Too many channels',
    );
    expect(await join(neighbour, 'realtime:a')).toBeUndefined();
    one?.socket.close();
    await expect.poll(() => join(other, 'realtime:b')).toBeUndefined();
  });

  test('limits subscriptions per network, and filters count more', async () => {
    await start({ changesPerNetwork: 20 });
    const { frames, push } = await rawClient(service, '192.0.2.1');
    const change = { event: '*', schema: 'public', table: 'nothing' };
    const changes = (many: number, more = {}) => ({
      config: { postgres_changes: Array.from({ length: many }, () => ({ ...change, ...more })) },
    });
    push('realtime:a', 'phx_join', changes(21));
    push('realtime:b', 'phx_join', changes(3, { filter: 'id=eq.1' }));
    expect((await frames.atLeast(2)).map(reasonIn)).toEqual(
      Array(2).fill('ChannelRateLimitReached: Too many channels'),
    );
    push('realtime:c', 'phx_join', changes(20));
    expect((await frames.atLeast(3))[2]?.[4]).toMatchObject({ status: 'ok' });
  });

  test('a join that is too large is refused', async () => {
    await start({ joinBytes: 1_000 });
    const { frames, push } = await rawClient(service);
    push('realtime:a', 'phx_join', { text: 'x'.repeat(1_000) });
    expect((await frames.atLeast(1)).map(reasonIn)).toEqual([
      'ClientJoinRateLimitReached: The join is too large',
    ]);
  });

  test.each([
    ['topic', [null, '1', `realtime:${'x'.repeat(300)}`, 'phx_join', {}]],
    ['event', [null, '1', 'realtime:a', 'x'.repeat(300), {}]],
    ['ref', [null, 'x'.repeat(300), 'phoenix', 'heartbeat', {}]],
    ['join_ref', ['x'.repeat(300), '1', 'phoenix', 'heartbeat', {}]],
  ])('a frame whose %s is too long ends the connection', async (_, frame) => {
    const { closed, socket } = await rawClient(await start({}));
    socket.send(JSON.stringify(frame));
    expect(await closed).toBe(1002);
  });

  test('rejects a handshake with large headers, because they are retained', async () => {
    await start({});
    const socket = new WebSocket(
      `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test`,
      {
        headers: { cookie: 'x'.repeat(9_000) },
      },
    );
    const answer = await new Promise((done) => {
      socket.on('unexpected-response', (__, response) => done(response.statusCode));
    });
    expect(answer).toBe(431);
  });

  test('limits frames per network over all of its sockets', async () => {
    await start({ framesPerNetwork: 10, reservedFrames: 0 });
    const [one, other] = await Promise.all([
      rawClient(service, '192.0.2.1'),
      rawClient(service, '192.0.2.1'),
    ]);
    for (let n = 0; n < 8; n += 1) {
      one.push('phoenix', 'heartbeat');
      other.push('phoenix', 'heartbeat');
    }
    expect(await Promise.race([one.closed, other.closed])).toBe(1006);
    expect(one.frames.all.length + other.frames.all.length).toBeLessThanOrEqual(12);
  });

  test('limits presence bytes per topic', async () => {
    await start({ presenceBytesPerTopic: 300 });
    const [one, other] = await Promise.all([rawClient(service), rawClient(service)]);
    for (const { push } of [one, other]) {
      push('realtime:a', 'phx_join');
      push('realtime:a', 'presence', {
        type: 'presence',
        event: 'track',
        payload: { text: 'x'.repeat(150) },
      });
    }
    const events = () => [one, other].flatMap(({ frames }) => frames.all.map(([, , , event]) => event));
    await expect.poll(events).toContain('phx_close');
    expect(events().filter((event) => event === 'phx_close')).toHaveLength(1);
  });

  test('limits unread bytes of all slow readers without affecting the others', async () => {
    const backlog = new Backlog({ queuedBytes: 20_000_000, queuedBytesPerNetwork: 16_000_000 });
    const limits = { bufferedBytes: 50_000_000, deliveriesPerSecond: 1_000_000 };
    service = await startService(database, limits, { backlog });
    const slow = await Promise.all(Array.from({ length: 8 }, () => rawClient(service)));
    for (const { push } of slow) push('realtime:flood', 'phx_join');
    await Promise.all(slow.map(({ frames }) => frames.atLeast(1)));
    for (const { socket } of slow) socket.pause();
    const codes: unknown[] = [];
    for (const { closed } of slow) void closed.then((code) => codes.push(code));
    const received = new Collected<unknown>();
    const listener = service.client().channel('flood');
    listener.on('broadcast', { event: 'e' }, received.add);
    await subscribed(listener);
    const payload = { text: 'x'.repeat(900_000) };
    // More than the operating system's buffers of all sockets.
    for (let n = 0; n < 30; n += 1)
      expect((await post(service, messagesTo('flood', 1, { payload }))).status).toBe(202);
    expect(await received.atLeast(30)).toHaveLength(30);
    for (const { socket } of slow) socket.resume();
    const terminated = () => codes.filter((code) => code === 1006).length;
    await expect.poll(terminated, { timeout: 30_000 }).toBeGreaterThanOrEqual(4);
  });

  test('disconnects a slow reader with a close code, and serves the others', async () => {
    await start({ bufferedBytes: 2_000_000 });
    const slow = await rawClient(service);
    slow.push('realtime:flood', 'phx_join');
    await slow.frames.atLeast(1);
    slow.socket.pause();
    const received = new Collected<unknown>();
    const listener = service.client().channel('flood');
    listener.on('broadcast', { event: 'e' }, received.add);
    await subscribed(listener);
    const sender = service.client().channel('flood', { config: { broadcast: { ack: true } } });
    await subscribed(sender);
    const payload = 'x'.repeat(500_000);
    for (let n = 0; n < 40; n += 1) await sender.send({ type: 'broadcast', event: 'e', payload });
    await received.atLeast(40);
    slow.socket.resume();
    expect(await slow.closed).toBe(1013);
  });
});

describe('the protocol beyond the official client', () => {
  let database: Database;
  let service: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase('pglite', [platform]);
    service = await startService(database);
    return async () => {
      expect(service.errors).toEqual([]);
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

  test('joining a topic again closes the older membership, and a late leave of it is ignored', async () => {
    const { frames, push } = await rawClient(service);
    push('realtime:a', 'phx_join', {}, 'first');
    push('realtime:a', 'phx_join', {}, 'second');
    push('realtime:a', 'phx_leave', {}, 'first');
    push('realtime:a', 'broadcast', { event: 'e' }, 'second');
    push('realtime:a', 'phx_leave', {}, 'second');
    const summaries = (await frames.atLeast(6)).map(([joinRef, ref, , event]) => [joinRef, ref, event]);
    expect(summaries).toEqual([
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

  test('rejects a presence that is not a map, and accepts any presence key', async () => {
    const { frames, push } = await rawClient(service);
    push('realtime:p', 'phx_join', { config: { presence: { key: '__proto__', enabled: true } } });
    push('realtime:p', 'presence', { type: 'presence', event: 'track', payload: [] });
    push('realtime:p', 'presence', { type: 'presence', event: 'track', payload: { a: 1 } });
    const received = await frames.atLeast(5);
    expect(received.map(([, , , event]) => event)).toEqual([
      'phx_reply',
      'presence_state',
      'phx_reply',
      'presence_diff',
      'phx_reply',
    ]);
    expect(reasonIn(received[2] as Frame)).toBe('Presence track payload must be a map');
    expect(JSON.stringify(received[3]?.[4])).toContain('"__proto__":{"metas":[{"a":1');
  });
});

test('a window limits its events and then starts again', () => {
  const window = new RateWindow(2, 1000);
  expect([1, 2, 3].map(() => window.take(1, 500))).toEqual([true, true, false]);
  expect([window.take(1, 1499), window.take(1, 1500)]).toEqual([false, true]);
});
