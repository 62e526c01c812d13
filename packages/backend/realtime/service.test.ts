// The service as the official client sees it.
import { REALTIME_SUBSCRIBE_STATES as states } from '@supabase/realtime-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { asRole } from '../database/as-role.ts';
import type { Database } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import {
  Collected,
  forgedTokenOf,
  startService,
  subscribed,
  type ThrowawayService,
  tokenOf,
} from './throwaway-service.ts';

const sub = '00000000-0000-4000-8000-000000000001';
const joined = { status: states.SUBSCRIBED, error: undefined };

interface Message {
  event: string;
  payload: Record<string, unknown>;
  meta?: Record<string, unknown>;
}

describe.each(testDatabases())('realtime on %s', (kind) => {
  let database: Database & { url?: string };
  let service: ThrowawayService;

  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
    await database.execute(`
      create policy "members read their room" on realtime.messages for select to authenticated
        using (realtime.topic() = 'room-' || (select auth.uid())::text and topic = realtime.topic());
      create policy "members write to their room" on realtime.messages for insert to authenticated
        with check (realtime.topic() = 'room-' || (select auth.uid())::text and extension = 'broadcast');
      create policy "members of a club read presence, some read broadcasts" on realtime.messages
        for select to authenticated using (
          realtime.topic() = 'club'
          and (extension = 'presence' and (auth.jwt() ->> 'reads_presence')::boolean
            or extension = 'broadcast' and (auth.jwt() ->> 'reads_broadcasts')::boolean)
        );
      create policy "the lost topic fails" on realtime.messages for select to authenticated
        using (realtime.topic() = 'lost' and 1 / (length(topic) - 4) > 0);
      create policy "everyone reads the news" on realtime.messages for select using (realtime.topic() = 'news');
    `);
    service = await startService(database);
  });
  afterAll(async () => {
    expect(service.errors).toEqual([]);
    await service.close();
    await database.close();
  });

  const send = (payload: unknown, event: string, topic: string, isPrivate = false) =>
    database.query('select realtime.send($1::jsonb, $2, $3, $4)', [payload, event, topic, isPrivate]);
  const messageCount = async () =>
    (await database.query<{ n: number }>('select count(*) as n from realtime.messages')).rows[0]?.n;

  describe.each(['1.0.0', '2.0.0'])('in version %s of the protocol', (vsn) => {
    const options = { vsn };

    test('a broadcast reaches the other subscribers, and the sender only with the option `self`', async () => {
      const received = new Collected<Message>();
      const echoed = new Collected<Message>();
      const listener = service.client(options).channel(`hall ${vsn}`);
      listener.on('broadcast', { event: 'hello' }, received.add as never);
      const echo = service.client(options).channel(`hall ${vsn}`, {
        config: { broadcast: { self: true, ack: true } },
      });
      echo.on('broadcast', { event: '*' }, echoed.add as never);
      expect(await subscribed(listener)).toEqual(joined);
      expect(await subscribed(echo)).toEqual(joined);
      expect(await echo.send({ type: 'broadcast', event: 'hello', payload: { name: 'Wanjikũ' } })).toBe('ok');
      expect(await received.atLeast(1)).toEqual([
        { type: 'broadcast', event: 'hello', payload: { name: 'Wanjikũ' } },
      ]);
      await listener.send({ type: 'broadcast', event: 'answer', payload: {} });
      expect((await echoed.atLeast(2)).map(({ event }) => event)).toEqual(['hello', 'answer']);
      expect(received.all).toHaveLength(1);
    });

    test('broadcasts from SQL arrive after the commit, in order, and never after a rollback', async () => {
      const received = new Collected<Message>();
      const topic = `orders ${vsn}`;
      const channel = service.client(options).channel(topic);
      channel.on('broadcast', { event: '*' }, received.add as never);
      await subscribed(channel);
      let heardInside = -1;
      await database.transaction(async (session) => {
        const sendInside = (n: number) =>
          session.query('select realtime.send($1::jsonb, $2, $3, false)', [{ n }, 'UPDATE', topic]);
        await sendInside(1);
        await sendInside(2);
        heardInside = received.all.length;
      });
      const changeOfMind = database.transaction(async (session) => {
        await session.query('select realtime.send($1::jsonb, $2, $3, false)', [{ n: 0 }, 'UPDATE', topic]);
        await session.query('select 1 / 0');
      });
      await expect(changeOfMind).rejects.toMatchObject({ code: '22012' });
      for (const n of [3, 4, 5]) await send({ n }, 'UPDATE', topic);
      expect((await received.atLeast(5)).map(({ payload }) => payload.n)).toEqual([1, 2, 3, 4, 5]);
      expect(heardInside).toBe(0);
      expect(received.all[0]?.meta).toEqual({ id: received.all[0]?.payload.id });
    });

    test('a heartbeat is answered', async () => {
      const beats = new Collected<string>();
      const client = service.client({ ...options, heartbeatCallback: beats.add });
      await subscribed(client.channel(`pulse ${vsn}`));
      await client.sendHeartbeat();
      await vi.waitFor(() => expect(beats.all).toContain('ok'), { timeout: 20_000 });
    });

    test('leaving is confirmed, and the topic can be joined again', async () => {
      const client = service.client(options);
      const first = client.channel('again');
      await subscribed(first);
      expect(await first.unsubscribe()).toBe('ok');
      expect(await subscribed(client.channel('again'))).toEqual(joined);
    });

    test('tracking the same presence again announces nothing', async () => {
      const events = new Collected<string>();
      const watcher = service.client(options).channel(`again ${vsn}`);
      watcher.on('presence', { event: 'join' }, ({ newPresences }) =>
        events.add(newPresences.map((presence) => String(presence.mood)).join()),
      );
      await subscribed(watcher);
      const guest = service
        .client(options)
        .channel(`again ${vsn}`, { config: { presence: { key: 'guest' } } });
      await subscribed(guest);
      for (const mood of ['calm', 'calm', 'merry']) expect(await guest.track({ mood })).toBe('ok');
      expect(await events.atLeast(2)).toEqual(['calm', 'merry']);
    });

    test('presence reports members, joins and leaves', async () => {
      const watcher = service.client(options).channel(`lobby ${vsn}`);
      const events = new Collected<string>();
      watcher.on('presence', { event: 'join' }, ({ key, newPresences }) =>
        events.add(`${key} joins as ${newPresences.map((presence) => presence.mood)}`),
      );
      watcher.on('presence', { event: 'leave' }, ({ key }) => events.add(`${key} leaves`));
      await subscribed(watcher);
      const guest = service
        .client(options)
        .channel(`lobby ${vsn}`, { config: { presence: { key: 'guest' } } });
      await subscribed(guest);
      expect(await guest.track({ mood: 'calm' })).toBe('ok');
      await events.atLeast(1);
      expect(watcher.presenceState()).toMatchObject({ guest: [{ mood: 'calm' }] });
      const late = service.client(options).channel(`lobby ${vsn}`);
      const synced = new Promise<void>((done) => late.on('presence', { event: 'sync' }, done));
      await subscribed(late);
      await synced;
      expect(late.presenceState()).toMatchObject({ guest: [{ mood: 'calm' }] });
      await guest.unsubscribe();
      expect(await events.atLeast(2)).toEqual(['guest joins as calm', 'guest leaves']);
      expect(watcher.presenceState()).toEqual({});
    });
  });

  test('clients of both versions receive from each other', async () => {
    const received = new Collected<Message>();
    const old = service.client({ vsn: '1.0.0' }).channel('mixed');
    old.on('broadcast', { event: '*' }, received.add as never);
    const young = service.client().channel('mixed');
    young.on('broadcast', { event: '*' }, received.add as never);
    await subscribed(old);
    await subscribed(young);
    await old.send({ type: 'broadcast', event: 'from old', payload: { a: 1 } });
    await young.send({ type: 'broadcast', event: 'from young', payload: { a: 2 } });
    const messages = await received.atLeast(2);
    expect(messages.map(({ event }) => event).sort()).toEqual(['from old', 'from young']);
  });

  test('a binary broadcast arrives as bytes', async () => {
    const received = new Collected<{ payload: ArrayBuffer }>();
    const listener = service.client().channel('bytes');
    listener.on('broadcast', { event: 'blob' }, received.add as never);
    await subscribed(listener);
    const sender = service.client().channel('bytes');
    await subscribed(sender);
    await sender.send({ type: 'broadcast', event: 'blob', payload: new Uint8Array([0, 255, 7]).buffer });
    const [message] = await received.atLeast(1);
    expect(new Uint8Array(message?.payload ?? new ArrayBuffer(0))).toEqual(new Uint8Array([0, 255, 7]));
  });

  test('public and private topics of one name are separate', async () => {
    const received = new Collected<Message>();
    const open = service.client().channel('news');
    open.on('broadcast', { event: '*' }, received.add as never);
    const closed = service.client().channel('news', { config: { private: true } });
    const closedHeard = new Collected<Message>();
    closed.on('broadcast', { event: '*' }, closedHeard.add as never);
    await subscribed(open);
    expect(await subscribed(closed)).toEqual(joined);
    await send({}, 'private', 'news', true);
    await send({}, 'public', 'news', false);
    expect((await closedHeard.atLeast(1))[0]?.event).toBe('private');
    expect((await received.atLeast(1))[0]?.event).toBe('public');
  });

  describe('a private topic', () => {
    const room = `room-${sub}`;
    const isPrivate = { config: { private: true, broadcast: { ack: true, self: true } } };
    const member = async () => {
      const client = service.client();
      await client.setAuth(await tokenOf({ role: 'authenticated', sub }));
      return client;
    };

    test('accepts joins and broadcasts that its policies allow', async () => {
      const received = new Collected<Message>();
      const channel = (await member()).channel(room, isPrivate);
      channel.on('broadcast', { event: '*' }, received.add as never);
      expect(await subscribed(channel)).toEqual(joined);
      expect(await channel.send({ type: 'broadcast', event: 'hi', payload: {} })).toBe('ok');
      await send({}, 'from SQL', room, true);
      expect((await received.atLeast(2)).map(({ event }) => event)).toEqual(['hi', 'from SQL']);
    });

    test('refuses other clients, and the check leaves no row', async () => {
      const before = await messageCount();
      const refusal = /Unauthorized: You do not have permissions to read from this Channel topic: room-/;
      const visitor = await subscribed(service.client().channel(room, isPrivate));
      expect([visitor.status, visitor.error?.message]).toEqual([
        states.CHANNEL_ERROR,
        expect.stringMatching(refusal),
      ]);
      const stranger = service.client();
      await stranger.setAuth(
        await tokenOf({ role: 'authenticated', sub: '00000000-0000-4000-8000-000000000002' }),
      );
      expect((await subscribed(stranger.channel(room, isPrivate))).error?.message).toMatch(refusal);
      expect(await messageCount()).toBe(before);
    });

    test('drops broadcasts of a client without write permission', async () => {
      const received = new Collected<Message>();
      const reader = service.client({ timeout: 300 }).channel('news', isPrivate);
      reader.on('broadcast', { event: '*' }, received.add as never);
      await subscribed(reader);
      expect(await reader.send({ type: 'broadcast', event: 'fake', payload: {} })).toBe('timed out');
      await send({}, 'true', 'news', true);
      expect((await received.atLeast(1)).map(({ event }) => event)).toEqual(['true']);
    });

    test('closes when a new token does not allow it or is expired', async () => {
      for (const [claims, expiry, reason] of [
        [
          { role: 'authenticated', sub: '00000000-0000-4000-8000-000000000002' },
          '1h',
          /do not have permissions/,
        ],
        [
          { role: 'authenticated', sub },
          Math.floor(Date.now() / 1000) - 60,
          /Token has expired 6\d seconds ago/,
        ],
      ] as const) {
        const client = await member();
        const channel = client.channel(room, isPrivate);
        const systemMessages = new Collected<{ status: string; message: string }>();
        const statuses = new Collected<string>();
        channel.on('system', {}, systemMessages.add);
        channel.subscribe((status) => statuses.add(status));
        await statuses.atLeast(1);
        await client.setAuth(await tokenOf(claims, expiry));
        expect(await statuses.atLeast(2)).toEqual([states.SUBSCRIBED, states.CLOSED]);
        expect(systemMessages.all).toMatchObject([
          { status: 'error', message: expect.stringMatching(reason) },
        ]);
      }
    });

    test('sends presence and broadcasts as far as the current token allows', async () => {
      const clubOf = async (rights: { reads_presence: boolean; reads_broadcasts: boolean }) => {
        const client = service.client();
        const token = (now: typeof rights) => tokenOf({ role: 'authenticated', sub, ...now });
        await client.setAuth(await token(rights));
        const channel = client.channel('club', {
          config: { private: true, presence: { key: 'me', enabled: true } },
        });
        const received = new Collected<Message>();
        const closed = new Collected<string>();
        channel.on('broadcast', { event: '*' }, received.add as never);
        channel.on('system', {}, ({ message }) => closed.add(message));
        expect(await subscribed(channel)).toEqual(joined);
        return {
          channel,
          received,
          closed,
          become: async (now: typeof rights) => client.setAuth(await token(now)),
        };
      };
      const both = await clubOf({ reads_presence: true, reads_broadcasts: true });
      const watcher = await clubOf({ reads_presence: true, reads_broadcasts: false });
      await send({}, 'first', 'club', true);
      await both.received.atLeast(1);
      await watcher.become({ reads_presence: true, reads_broadcasts: true });
      await expect
        .poll(async () => {
          await send({}, 'later', 'club', true);
          return watcher.received.all.length;
        })
        .toBeGreaterThan(0);
      expect(watcher.received.all.map(({ event }) => event)).not.toContain('first');
      // Presence requires write permission, which no policy gives them.
      expect(await both.channel.track({ mood: 'calm' })).toBe('error');
      await both.become({ reads_presence: false, reads_broadcasts: true });
      expect(await both.closed.atLeast(1)).toEqual([
        'You no longer have permission to read from this Channel topic: club',
      ]);
      await watcher.become({ reads_presence: false, reads_broadcasts: false });
      expect(await watcher.closed.atLeast(1)).toEqual([
        'You do not have permissions to read from this Channel topic: club',
      ]);
    });

    test('with a failing policy refuses all joins and reports the failure', async () => {
      const own = await startService(database);
      const client = own.client();
      await client.setAuth(await tokenOf({ role: 'authenticated', sub }));
      const { status, error } = await subscribed(client.channel('lost', { config: { private: true } }));
      expect([status, error?.message]).toEqual([
        states.CHANNEL_ERROR,
        expect.stringMatching(
          /Unauthorized: You do not have permissions to read from this Channel topic: lost/,
        ),
      ]);
      expect(own.errors).toEqual([expect.objectContaining({ code: '22012' })]);
      await own.close();
    });

    test('ends the work that clients asked for before it closes', async () => {
      const ownDatabase = await throwawayDatabase(kind, [platform]);
      await ownDatabase.execute(
        'create table public.drinks (id int primary key); alter publication supabase_realtime add table public.drinks',
      );
      // A database that is far away.
      const query: Database['query'] = async (...question) => {
        await new Promise((done) => setTimeout(done, 50));
        return ownDatabase.query(...question);
      };
      const own = await startService({ ...ownDatabase, query });
      const tab = new WebSocket(
        `${own.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=1.0.0`,
      );
      tab.once('open', () => {
        const postgres_changes = [{ event: '*', schema: 'public', table: 'drinks' }];
        const payload = { config: { broadcast: {}, presence: {}, postgres_changes } };
        tab.send(JSON.stringify({ topic: 'realtime:drinks', event: 'phx_join', payload, ref: '1' }));
        tab.send(JSON.stringify({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '2' }));
      });
      // Closed with the answer to the second message, while the first is on its way.
      tab.once('message', () => tab.terminate());
      await new Promise((done) => tab.once('close', done));
      await vi.waitFor(() => expect(own.sockets).toBe(0), { interval: 1, timeout: 20_000 });
      await own.close();
      await ownDatabase.close();
      await new Promise((done) => setTimeout(done, 100));
      expect(own.errors).toEqual([]);
    });

    test('replays earlier messages on request, oldest first', async () => {
      const { rows } = await database.query<{ now: number }>(
        'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now',
      );
      for (const n of [1, 2, 3]) await send({ n }, 'past', room, true);
      // Anyone could have sent it.
      await send({ n: 4 }, 'past', room);
      const received = new Collected<Message>();
      const channel = (await member()).channel(room, {
        config: { private: true, broadcast: { replay: { since: Number(rows[0]?.now), limit: 2 } } },
      });
      channel.on('broadcast', { event: 'past' }, received.add as never);
      await subscribed(channel);
      const messages = await received.atLeast(2);
      expect(messages.map(({ payload, meta }) => [payload.n, meta?.replayed])).toEqual([
        [2, true],
        [3, true],
      ]);
    });
  });

  test('bytes from SQL reach clients of protocol 2, live and replayed', async () => {
    const sendBytes = (event: string) =>
      database.query(`select realtime.send_binary('\\xdeadbeef00ff', $1, 'news')`, [event]);
    await sendBytes('before');
    const receivedBy: Record<string, Collected<Message>> = {
      '1.0.0': new Collected(),
      '2.0.0': new Collected(),
    };
    for (const [vsn, received] of Object.entries(receivedBy)) {
      const channel = service.client({ vsn }).channel('news', {
        config: { private: true, broadcast: { replay: { since: Date.now() - 60_000, limit: 1 } } },
      });
      channel.on('broadcast', { event: '*' }, received.add as never);
      expect(await subscribed(channel)).toEqual(joined);
    }
    await sendBytes('after');
    await send({}, 'words', 'news', true);
    const bytes = new Uint8Array([0xde, 0xad, 0xbe, 0xef, 0, 0xff]);
    const [repeated, fresh, words] = (await receivedBy['2.0.0']?.atLeast(3)) ?? [];
    expect([repeated?.event, repeated?.meta?.replayed, new Uint8Array(repeated?.payload as never)]).toEqual([
      'before',
      true,
      bytes,
    ]);
    expect([fresh?.event, new Uint8Array(fresh?.payload as never)]).toEqual(['after', bytes]);
    expect(words?.event).toBe('words');
    // Protocol 1 has no binary frames.
    expect((await receivedBy['1.0.0']?.atLeast(1))?.map(({ event }) => event)).toEqual(['words']);
  });

  test('a channel ends when its token expires', async () => {
    const client = service.client();
    await client.setAuth(await tokenOf({ role: 'authenticated', sub }, Math.floor(Date.now() / 1000) + 2));
    const channel = client.channel('short');
    const systemMessages = new Collected<{ message: string }>();
    const statuses = new Collected<string>();
    channel.on('system', {}, systemMessages.add);
    channel.subscribe((status) => statuses.add(status));
    expect(await statuses.atLeast(2)).toEqual([states.SUBSCRIBED, states.CLOSED]);
    expect(systemMessages.all[0]?.message).toMatch(/^Token has expired 0 seconds ago/);
  });

  test.each([
    ['forged', async () => forgedTokenOf({ role: 'service_role' }), /^JwtSignatureError: /],
    ['malformed', async () => 'a.b.c', /^MalformedJWT: The token provided is not a valid JWT/],
    [
      'expired',
      async () => tokenOf({ role: 'anon' }, 1),
      /^InvalidJWTToken: Token has expired \d+ seconds ago/,
    ],
    [
      'without a role',
      async () => tokenOf({ sub }),
      /^InvalidJWTToken: Fields `role` and `exp` are required/,
    ],
  ])('a %s token joins nothing', async (_, token, reason) => {
    const client = service.client();
    await client.setAuth(await token());
    const { status, error } = await subscribed(client.channel('hall'));
    expect([status, error?.message]).toEqual([states.CHANNEL_ERROR, expect.stringMatching(reason)]);
  });

  test.each([
    ['without a key', '', 401, 'API key is missing'],
    ['with a wrong key', '&apikey=sb_publishable_wrong', 401, 'The token provided is not a valid JWT'],
    ['in an unknown version', '&apikey=sb_publishable_test&vsn=9.0.0', 400, 'Unsupported protocol version'],
  ])('a handshake %s is refused with JSON', async (_, query, status, error) => {
    const socket = new WebSocket(`${service.url.replace('http', 'ws')}/websocket?x=1${query}`);
    const answer = await new Promise<[number | undefined, string]>((done) => {
      socket.on('unexpected-response', (_request, response) => {
        response.on('data', (body) => done([response.statusCode, String(body)]));
      });
    });
    expect(answer).toEqual([status, JSON.stringify({ error })]);
  });

  test('a broadcast that is to be stored is refused, in both kinds of frames', async () => {
    const socket = new WebSocket(
      `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
    );
    await new Promise((done) => socket.once('open', done));
    const answers = new Collected<[string, unknown]>();
    socket.on('message', (text) => {
      const [, , , event, payload] = JSON.parse(String(text));
      answers.add([event, payload.response ?? payload.message]);
    });
    const broadcast = { ack: true, self: true };
    socket.send(JSON.stringify(['1', '1', 'realtime:kept', 'phx_join', { config: { broadcast } }]));
    await answers.atLeast(1);
    const message = { type: 'broadcast', event: 'note', payload: {}, persist: true };
    socket.send(JSON.stringify(['1', '2', 'realtime:kept', 'broadcast', message]));
    const fields = ['1', '3', 'realtime:kept', 'note', '{"persist":{"ttl":60}}'].map((text) =>
      Buffer.from(text),
    );
    const header = [3, ...fields.map((field) => field.length), 1];
    socket.send(Buffer.concat([Buffer.from(header), ...fields, Buffer.from('{}')]));
    const error = 'Storing a broadcast (persist) is not supported';
    const refused = [
      ['phx_reply', { error }],
      ['system', error],
    ];
    expect((await answers.atLeast(5)).slice(1)).toEqual([...refused, ...refused]);
    socket.close();
  });

  describe('over HTTP', () => {
    const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
      fetch(`${service.url}/api/broadcast${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', apikey: 'sb_publishable_test', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });

    test('the official client sends without joining, text or bytes', async () => {
      const received = new Collected<Message>();
      const listener = service.client().channel('by/post é');
      listener.on('broadcast', { event: '*' }, received.add as never);
      await subscribed(listener);
      const sender = service.client().channel('by/post é');
      expect(await sender.httpSend('greeting', { n: 1 })).toEqual({ success: true });
      expect(await sender.httpSend('blob', new Uint8Array([1, 2]).buffer)).toEqual({ success: true });
      const messages = await received.atLeast(2);
      expect(messages[0]).toEqual({ type: 'broadcast', event: 'greeting', payload: { n: 1 } });
      expect(new Uint8Array(messages[1]?.payload as never)).toEqual(new Uint8Array([1, 2]));
    });

    test('a message that is to be stored is refused', async () => {
      for (const query of ['persist=true', `${encodeURIComponent('persist[ttl]')}=60`]) {
        const answer = await post(`/room/events/note?private=true&${query}`, {});
        expect([answer.status, await answer.json()]).toEqual([
          400,
          { error: 'Storing a broadcast (persist) is not supported' },
        ]);
      }
      const batch = await post('', {
        messages: [{ topic: 'room', event: 'note', payload: {}, persist: true }],
      });
      expect(batch.status).toBe(422);
    });

    test('a batch is sent to the topics that the caller may send to, with the same response for all', async () => {
      const received = new Collected<Message>();
      const channel = service.client().channel('news', { config: { private: true } });
      channel.on('broadcast', { event: '*' }, received.add as never);
      await subscribed(channel);
      const message = (event: string) => ({ topic: 'news', event, payload: {}, private: true });
      const asVisitor = await post('', { messages: [message('rumour')] });
      const asShop = await post(
        '',
        { messages: [message('fact'), message('fact too')] },
        {
          authorization: 'Bearer sb_secret_test',
        },
      );
      expect([asVisitor.status, asShop.status]).toEqual([202, 202]);
      expect((await received.atLeast(2)).map(({ event }) => event)).toEqual(['fact', 'fact too']);
    });

    test('reports the invalid field', async () => {
      const unreadable = await post('', {
        messages: [
          { topic: 'a', event: 'b', payload: {} },
          { topic: '', payload: 1 },
        ],
      });
      expect([unreadable.status, await unreadable.json()]).toEqual([
        422,
        {
          errors: {
            messages: [{}, { topic: [`can't be blank`], event: [`can't be blank`], payload: ['is invalid'] }],
          },
        },
      ]);
      expect((await post('', 'nonsense')).status).toBe(422);
      expect((await post('/a/events/b', '{', {})).status).toBe(422);
      expect((await post('/a/events/b', 'x', { 'content-type': 'text/plain' })).status).toBe(415);
    });
  });

  describe('SQL', () => {
    test('receives a warning for an invalid broadcast and continues', async () => {
      const done = await database.transaction(async (session) => {
        await session.query(`select realtime.send('{}', 'event', null, false)`);
        return session.query('select 1 as still_here');
      });
      expect(done.rows).toEqual([{ still_here: 1 }]);
    });

    test('may send on behalf of a visitor in a security definer function; the visitor may not', async () => {
      await database.execute(`
        create function public.ring() returns void language sql security definer set search_path = ''
        begin atomic select realtime.send('{"by": "shop"}', 'ring', 'bell', false); end;
      `);
      const received = new Collected<Message>();
      const channel = service.client().channel('bell');
      channel.on('broadcast', { event: '*' }, received.add as never);
      await subscribed(channel);
      await asRole(database, { role: 'anon' }, async (session) => {
        await session.query(`select realtime.send('{"by": "visitor"}', 'ring', 'bell', false)`);
        await session.query('select public.ring()');
      });
      expect((await received.atLeast(1)).map(({ payload }) => payload.by)).toEqual(['shop']);
    });

    test('announces the changes of a table from a trigger', async () => {
      await database.execute(`
        create table public.orders (id int primary key, status text);
        create function public.tell_orders() returns trigger language plpgsql security definer set search_path = '' as $$
        begin
          perform realtime.broadcast_changes(
            'news', tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
          return null;
        end $$;
        create trigger tell_orders after insert or update or delete on public.orders
          for each row execute function public.tell_orders();
      `);
      const received = new Collected<Message>();
      const channel = service.client().channel('news', { config: { private: true } });
      channel.on('broadcast', { event: '*' }, received.add as never);
      await subscribed(channel);
      await database.query(`insert into public.orders values (1, 'pending')`);
      await database.query(`update public.orders set status = 'paid'`);
      await database.query('delete from public.orders');
      const change = { schema: 'public', table: 'orders' };
      expect((await received.atLeast(3)).map(({ payload: { id: _, ...payload } }) => payload)).toEqual([
        { ...change, operation: 'INSERT', record: { id: 1, status: 'pending' }, old_record: null },
        {
          ...change,
          operation: 'UPDATE',
          record: { id: 1, status: 'paid' },
          old_record: { id: 1, status: 'pending' },
        },
        { ...change, operation: 'DELETE', record: null, old_record: { id: 1, status: 'paid' } },
      ]);
    });

    test('sends messages longer than a notification', async () => {
      const received = new Collected<Message>();
      const channel = service.client().channel('large');
      channel.on('broadcast', { event: 'all' }, received.add as never);
      await subscribed(channel);
      await send({ text: 'é'.repeat(50_000) }, 'all', 'large');
      expect((await received.atLeast(1))[0]?.payload.text).toHaveLength(50_000);
    });

    test('deletes messages older than a day', async () => {
      await send({}, 'old', 'attic');
      await send({}, 'new', 'attic');
      await database.query(
        `update realtime.messages set inserted_at = now() - interval '25 hours' where topic = 'attic' and event = 'old'`,
      );
      await database.query('select realtime.prune_messages()');
      const { rows } = await database.query(`select event from realtime.messages where topic = 'attic'`);
      expect(rows).toEqual([{ event: 'new' }]);
    });
  });
});
