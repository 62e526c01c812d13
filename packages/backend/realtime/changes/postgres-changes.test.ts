// Table changes as the official client receives them.
import {
  type RealtimeChannel,
  type RealtimeClient,
  REALTIME_SUBSCRIBE_STATES as states,
} from '@supabase/realtime-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Database } from '../../database/database.ts';
import { openPostgresql } from '../../database/postgresql/postgresql.ts';
import { platform, testDatabases, throwawayDatabase } from '../../testing/throwaway.ts';
import {
  Collected,
  countQueries,
  startService,
  subscribed,
  type ThrowawayService,
  tokenOf,
} from '../throwaway-service.ts';

const anna = '00000000-0000-4000-8000-00000000000a';
const otieno = '00000000-0000-4000-8000-00000000000b';

const schema = `
  create table public.drinks (
    id int primary key, name text, price numeric, is_cold boolean, tags text[], made_at timestamptz, cost int
  );
  revoke all on public.drinks from anon, authenticated;
  grant select (id, name, price, is_cold, tags, made_at) on public.drinks to anon, authenticated;
  create table public.notes (id bigint generated always as identity primary key, owner uuid, text text);
  alter table public.notes enable row level security;
  create policy "everyone reads their own notes" on public.notes for select using (owner = (select auth.uid()));
  create table public.secrets (id int primary key, text text);
  revoke all on public.secrets from anon, authenticated;
  create table public.keyless (text text);
  alter table public.keyless enable row level security;
  create policy "all" on public.keyless using (true);
  alter table public.keyless replica identity full;
  create table public.whole (id int primary key, name text, hidden text);
  alter table public.whole replica identity full;
  create table public.whole_notes (id int primary key, owner uuid);
  alter table public.whole_notes enable row level security;
  alter table public.whole_notes replica identity full;
  create policy "all" on public.whole_notes using (true);
  create table public.unwatched (id int primary key);
  create table public.bursts (id int primary key, name text);
  create schema backroom;
  grant usage on schema backroom to anon;
  create table backroom.kegs (id int primary key);
  grant select on backroom.kegs to anon;
  alter publication supabase_realtime
    add table public.drinks, public.notes, public.secrets, public.keyless, public.whole, public.whole_notes, public.bursts, backroom.kegs;
`;

interface Change {
  schema: string;
  table: string;
  commit_timestamp: string;
  eventType: string;
  new: Record<string, unknown>;
  old: Record<string, unknown>;
  errors: string[] | null;
}

interface Wanted {
  event?: string;
  schema?: string;
  table?: string;
  filter?: string;
  select?: string[];
}

interface SystemMessage {
  extension: string;
  status: string;
  message: string;
}

const typesAndIds = (changes: readonly Change[]) =>
  changes.map(({ eventType, new: record, old }) => [eventType, record.id ?? old.id]);

let topics = 0;
/** Subscribes, and waits for the database's answer. */
async function followTables(
  client: RealtimeClient,
  ...wanted: Wanted[]
): Promise<{ channel: RealtimeChannel; received: Collected<Change>; system: Collected<SystemMessage> }> {
  topics += 1;
  const channel = client.channel(`changes-${topics}`);
  const received = new Collected<Change>();
  const system = new Collected<SystemMessage>();
  channel.on('system', {}, system.add as never);
  for (const one of wanted) {
    channel.on(
      'postgres_changes',
      { event: '*', schema: 'public', ...one } as never,
      ((change: Change) => received.add(change)) as never,
    );
  }
  expect(await subscribed(channel)).toEqual({ status: states.SUBSCRIBED, error: undefined });
  await system.atLeast(1);
  return { channel, received, system };
}

/** Follows a table without the official client, which cannot stop reading. Collects the ids of the rows. */
async function rawFollower(service: ThrowawayService, table: string) {
  const socket = new WebSocket(
    `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
  );
  const received = new Collected<unknown>();
  const system = new Collected<unknown>();
  socket.on('message', (text) => {
    const [, , , event, payload] = JSON.parse(String(text));
    if (event === 'system') system.add(payload);
    if (event === 'postgres_changes') received.add(payload.data.record.id);
  });
  await new Promise((done) => socket.once('open', done));
  const wanted = [{ event: 'INSERT', schema: 'public', table }];
  socket.send(
    JSON.stringify(['1', '1', 'realtime:raw', 'phx_join', { config: { postgres_changes: wanted } }]),
  );
  await system.atLeast(1);
  return { socket, received };
}

describe.each(testDatabases())('changes of tables on %s', (kind) => {
  let database: Database & { url?: string };
  let service: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
    await database.execute(schema);
    service = await startService(database);
  });
  afterAll(async () => {
    expect(service.errors).toEqual([]);
    await service.close();
    await database.close();
  });

  const member = async (sub: string, role = 'authenticated') => {
    const client = service.client();
    await client.setAuth(await tokenOf({ role, sub }));
    return client;
  };
  const shop = () => service.client({ params: { apikey: 'sb_secret_test' } });
  const empty = async (...tables: string[]) => {
    for (const table of tables) await database.execute(`delete from ${table}`);
  };

  test('sends an insert, an update and a delete with all permitted values', async () => {
    const { received, system } = await followTables(service.client(), { table: 'drinks' });
    expect(system.all).toMatchObject([
      { extension: 'postgres_changes', status: 'ok', message: 'Subscribed to PostgreSQL' },
    ]);
    await database.query(
      `insert into public.drinks values (1, 'Beet', 12.5, true, '{raw,"a,b"}', '2026-01-02 03:04:05+03', 7)`,
    );
    await database.query(`update public.drinks set name = 'Beet & mint' where id = 1`);
    await database.query('delete from public.drinks where id = 1');
    const [inserted, updated, deleted] = await received.atLeast(3);
    const record = {
      id: 1,
      name: 'Beet',
      price: 12.5,
      is_cold: true,
      tags: ['raw', 'a,b'],
      made_at: '2026-01-02T00:04:05+00:00',
    };
    expect(inserted).toEqual({
      schema: 'public',
      table: 'drinks',
      commit_timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      eventType: 'INSERT',
      new: record,
      old: {},
      errors: null,
    });
    expect(updated).toMatchObject({
      eventType: 'UPDATE',
      new: { ...record, name: 'Beet & mint' },
      old: { id: 1 },
    });
    expect(updated?.old).toEqual({ id: 1 });
    expect([deleted?.eventType, deleted?.new, deleted?.old]).toEqual(['DELETE', {}, { id: 1 }]);
  });

  test('are received from the response to the join on', async () => {
    const joins = 10;
    const received = new Collected<Change>();
    for (let id = 1; id <= joins; id += 1) {
      const channel = service.client().channel(`at once ${id}`);
      const wanted = { event: 'INSERT', schema: 'public', table: 'bursts', filter: `id=eq.${id}` };
      channel.on('postgres_changes', wanted as never, received.add as never);
      expect((await subscribed(channel)).status).toBe(states.SUBSCRIBED);
      await database.query('insert into public.bursts (id) values ($1::int)', [id]);
    }
    expect((await received.atLeast(joins)).map(({ new: { id } }) => id)).toHaveLength(joins);
    await empty('public.bursts');
  });

  test('that cannot be followed refuse a join that waits for them', async () => {
    const join = async (table: string) => {
      const socket = new WebSocket(
        `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
      );
      await new Promise((done) => socket.once('open', done));
      const replied = new Promise<{ status: string; response: { reason?: string } }>((done) =>
        socket.on('message', (text) => {
          const [, , , event, payload] = JSON.parse(String(text));
          if (event === 'phx_reply') done(payload);
        }),
      );
      const config = {
        postgres_changes: [{ event: '*', schema: 'public', table }],
        postgres_changes_options: { wait: true },
      };
      socket.send(JSON.stringify(['1', '1', 'realtime:waiting', 'phx_join', { config }]));
      const { status, response } = await replied;
      socket.close();
      return { status, reason: response.reason };
    };
    expect(await join('drinks')).toEqual({ status: 'ok', reason: undefined });
    expect(await join('unwatched')).toEqual({
      status: 'error',
      reason: expect.stringMatching(/^RealtimeDisabledForConfiguration: Unable to subscribe to changes/),
    });
  });

  test('lists the columns that the role may select, with their types', async () => {
    const socket = new WebSocket(
      `${service.url.replace('http', 'ws')}/websocket?apikey=sb_publishable_test&vsn=2.0.0`,
    );
    const system = new Collected<unknown>();
    const frames = new Collected<{ ids: number[]; data: Record<string, unknown> }>();
    socket.on('message', (text) => {
      const [joinRef, , , event, payload] = JSON.parse(String(text));
      if (event === 'system') system.add(payload);
      if (event === 'postgres_changes' && joinRef === null) frames.add(payload);
    });
    await new Promise((done) => socket.once('open', done));
    const wanted = [{ event: '*', schema: 'public', table: 'drinks' }];
    socket.send(
      JSON.stringify(['1', '1', 'realtime:raw', 'phx_join', { config: { postgres_changes: wanted } }]),
    );
    await system.atLeast(1);
    await database.query('insert into public.drinks (id, cost) values (2, 99)');
    const [frame] = await frames.atLeast(1);
    expect(Object.keys(frame?.data ?? {}).sort()).toEqual(
      ['columns', 'commit_timestamp', 'errors', 'record', 'schema', 'table', 'type'].sort(),
    );
    expect(frame?.data.columns).toEqual([
      { name: 'id', type: 'int4' },
      { name: 'name', type: 'text' },
      { name: 'price', type: 'numeric' },
      { name: 'is_cold', type: 'bool' },
      { name: 'tags', type: '_text' },
      { name: 'made_at', type: 'timestamptz' },
    ]);
    expect(frame?.data.record).not.toHaveProperty('cost');
    expect(frame?.ids).toEqual([expect.any(Number)]);
    socket.close();
    await empty('public.drinks');
  });

  test('sends bytes as hexadecimal digits', async () => {
    await database.execute(`
      create table public.labels (id int primary key, image bytea);
      alter publication supabase_realtime add table public.labels;
    `);
    const { received } = await followTables(service.client(), { table: 'labels' });
    await database.query(`insert into public.labels values (1, '\\x0102ff')`);
    expect((await received.atLeast(1))[0]?.new).toEqual({ id: 1, image: '0102ff' });
  });

  test('a column list selects those columns and the key', async () => {
    const { received } = await followTables(service.client(), { table: 'drinks', select: ['name'] });
    await database.query(`insert into public.drinks (id, name, price) values (3, 'Kale', 2)`);
    expect((await received.atLeast(1))[0]?.new).toEqual({ id: 3, name: 'Kale' });
    await empty('public.drinks');
  });

  test('sends only rows that row level security shows', async () => {
    const mine = await followTables(await member(anna), { table: 'notes' });
    const theirs = await followTables(await member(otieno), { table: 'notes' });
    const visitor = await followTables(service.client(), { table: 'notes' });
    const all = await followTables(shop(), { table: 'notes' });
    const { rows } = await database.query<{ id: number; owner: string }>(
      `insert into public.notes (owner, text) values ('${anna}', 'a'), ('${otieno}', 'b'), ('${anna}', 'c') returning id, owner`,
    );
    const ids = (owner: string) => rows.filter((row) => row.owner === owner).map(({ id }) => id);
    // Inserts are received before the next statements, because a deleted row is visible to no one.
    await Promise.all([mine.received.atLeast(2), theirs.received.atLeast(1), all.received.atLeast(3)]);
    await database.query(`update public.notes set text = 'A' where owner = $1`, [anna]);
    await Promise.all([mine.received.atLeast(4), all.received.atLeast(5)]);
    // Arrives last and at all clients, so nothing else can follow.
    await database.query('delete from public.notes where owner = $1', [otieno]);
    await Promise.all([
      mine.received.atLeast(5),
      theirs.received.atLeast(2),
      visitor.received.atLeast(1),
      all.received.atLeast(6),
    ]);
    const each = (type: string, these: unknown[]) => these.map((id) => [type, id]);
    const deleted = each('DELETE', ids(otieno));
    const updated = each('UPDATE', ids(anna));
    expect(typesAndIds(mine.received.all)).toEqual([...each('INSERT', ids(anna)), ...updated, ...deleted]);
    expect(typesAndIds(theirs.received.all)).toEqual([...each('INSERT', ids(otieno)), ...deleted]);
    expect(typesAndIds(visitor.received.all)).toEqual(deleted);
    const everyId = rows.map(({ id }) => id);
    expect(typesAndIds(all.received.all)).toEqual([...each('INSERT', everyId), ...updated, ...deleted]);
  });

  test('a role without select receives the event without values', async () => {
    const { received } = await followTables(service.client(), { table: 'secrets' });
    const { received: inside } = await followTables(shop(), { table: 'secrets' });
    await database.query(`insert into public.secrets values (1, 'recipe')`);
    expect((await inside.atLeast(1))[0]).toMatchObject({ new: { id: 1, text: 'recipe' }, errors: null });
    expect((await received.atLeast(1))[0]).toMatchObject({ new: {}, errors: ['Error 401: Unauthorized'] });
    await empty('public.secrets');
  });

  test('reports no values of a table with policies but without a primary key', async () => {
    const { received } = await followTables(service.client(), { table: 'keyless' });
    await database.query(`insert into public.keyless values ('a')`);
    await database.query(`update public.keyless set text = 'b'`);
    await database.query('delete from public.keyless');
    const error = ['Error 400: Bad Request, no primary key'];
    expect((await received.atLeast(3)).map(({ errors, new: record, old }) => [errors, record, old])).toEqual([
      [error, {}, {}],
      [error, {}, {}],
      [error, {}, {}],
    ]);
  });

  test('sends the old row with full replica identity, and only its key for a table with policies', async () => {
    const { received } = await followTables(service.client(), { table: 'whole' }, { table: 'whole_notes' });
    await database.query(`insert into public.whole values (1, 'a', 'h')`);
    await database.query(`update public.whole set name = 'b'`);
    await database.query('delete from public.whole');
    await database.query(`insert into public.whole_notes values (2, '${anna}')`);
    await database.query('delete from public.whole_notes');
    const changes = await received.atLeast(4);
    expect(
      changes.map(({ eventType, old }) => [eventType, old]).filter(([type]) => type !== 'INSERT'),
    ).toEqual([
      ['UPDATE', { id: 1, name: 'a', hidden: 'h' }],
      ['DELETE', { id: 1, name: 'b', hidden: 'h' }],
      ['DELETE', { id: 2 }],
    ]);
  });

  test.each([
    ['id=eq.2', [2]],
    ['id=neq.2', [1, 3]],
    ['id=lt.2', [1]],
    ['id=lte.2', [1, 2]],
    ['id=gt.2', [3]],
    ['price=gte.2.50', [2, 3]],
    ['price=eq.2.5', [2]],
    ['name=in.(Beet,"Kale, curly")', [1, 2]],
    ['id=in.(1,3)', [1, 3]],
    ['name=like.Kale%', [2]],
    ['name=ilike.KALE%', [2]],
    ['name=match.^(B|M)', [1]],
    ['name=imatch.^b', [1]],
    ['is_cold=is.true', [1]],
    ['is_cold=is.null', [3]],
    ['is_cold=not.is.null', [1, 2]],
    ['name=isdistinct.Beet', [2, 3]],
    ['name=not.isdistinct.Beet', [1]],
    ['id=not.in.(1,2)', [3]],
    ['name=not.like.Beet', [2]],
    ['id=gt.1,price=lt.3', [2]],
    ['name=eq."Kale, curly"', [2]],
    ['tags=eq.{raw}', [1]],
    ['made_at=lt.2026-01-01T00:00:00Z', [2]],
    ['', [1, 2, 3]],
  ])('the filter "%s" matches %j', async (filter, expected) => {
    const { channel, received, system } = await followTables(
      service.client(),
      { table: 'drinks', filter },
      { table: 'whole' },
    );
    expect(system.all[0]?.message).toBe('Subscribed to PostgreSQL');
    await database.query(
      `insert into public.drinks (id, name, price, is_cold, tags, made_at)
       values (1, 'Beet', 1, true, '{raw}', '2026-02-01'), (2, 'Kale, curly', 2.5, false, '{}', '2025-12-31'),
              (3, null, 3, null, null, null)`,
    );
    await database.query('insert into public.whole (id) values (0)');
    const changes = await received.atLeast(expected.length + 1);
    expect(changes.map(({ new: record }) => record.id)).toEqual([...expected, 0]);
    await channel.unsubscribe();
    await empty('public.drinks', 'public.whole');
  });

  test('a deleted row matches filters on its key only', async () => {
    const byKey = await followTables(service.client(), { table: 'drinks', filter: 'id=eq.1' });
    const byName = await followTables(service.client(), { table: 'drinks', filter: 'name=eq.Beet' });
    await database.query(`insert into public.drinks (id, name) values (1, 'Beet'), (2, 'Kale')`);
    await empty('public.drinks');
    await database.query(`insert into public.drinks (id, name) values (1, 'Beet')`);
    expect(typesAndIds(await byKey.received.atLeast(3))).toEqual([
      ['INSERT', 1],
      ['DELETE', 1],
      ['INSERT', 1],
    ]);
    expect(typesAndIds(await byName.received.atLeast(2))).toEqual([
      ['INSERT', 1],
      ['INSERT', 1],
    ]);
    await empty('public.drinks');
  });

  test('schema, table and event may be wildcards', async () => {
    const everything = await followTables(service.client(), { schema: '*' });
    const ofPublic = await followTables(service.client(), { schema: 'public' });
    const updates = await followTables(service.client(), { event: 'UPDATE', schema: '*', table: '*' });
    await database.query('insert into backroom.kegs values (1)');
    await database.query('insert into public.drinks (id) values (1)');
    await database.query('update backroom.kegs set id = 2');
    await database.query('delete from backroom.kegs');
    await empty('public.drinks');
    const tables = (changes: Change[]) => changes.map(({ eventType, table }) => `${eventType} ${table}`);
    expect(tables(await everything.received.atLeast(5))).toEqual([
      'INSERT kegs',
      'INSERT drinks',
      'UPDATE kegs',
      'DELETE kegs',
      'DELETE drinks',
    ]);
    expect(tables(await ofPublic.received.atLeast(2))).toEqual(['INSERT drinks', 'DELETE drinks']);
    expect(tables(await updates.received.atLeast(1))).toEqual(['UPDATE kegs']);
    expect(updates.received.all[0]?.old).toEqual({ id: 1 });
    for (const { channel } of [everything, ofPublic, updates]) await channel.unsubscribe();
  });

  test('several subscriptions of one channel each receive their own changes', async () => {
    const channel = service.client().channel('several');
    const received = {
      inserts: new Collected<Change>(),
      beet: new Collected<Change>(),
      kale: new Collected<Change>(),
    };
    const system = new Collected<SystemMessage>();
    channel.on('system', {}, system.add as never);
    const on = (wanted: Wanted, to: Collected<Change>) =>
      channel.on(
        'postgres_changes',
        { schema: 'public', table: 'drinks', ...wanted } as never,
        to.add as never,
      );
    on({ event: 'INSERT' }, received.inserts);
    on({ event: '*', filter: 'name=eq.Beet', select: ['name'] }, received.beet);
    on({ event: '*', filter: 'name=eq.Kale' }, received.kale);
    await subscribed(channel);
    await system.atLeast(1);
    await database.query(`insert into public.drinks (id, name) values (1, 'Beet')`);
    await database.query(`insert into public.drinks (id, name) values (2, 'Kale')`);
    await Promise.all([received.inserts.atLeast(2), received.beet.atLeast(1), received.kale.atLeast(1)]);
    expect(typesAndIds(received.inserts.all)).toEqual([
      ['INSERT', 1],
      ['INSERT', 2],
    ]);
    expect(received.beet.all.map((change) => change.new)).toEqual([{ id: 1, name: 'Beet' }]);
    expect(typesAndIds(received.kale.all)).toEqual([['INSERT', 2]]);
    await empty('public.drinks');
  });

  test('hundreds of changes of several transactions arrive in order, without those that were rolled back', async () => {
    const { received } = await followTables(service.client(), { table: 'drinks', event: 'INSERT' });
    for (let from = 0; from < 500; from += 50) {
      await database.transaction(async (session) => {
        await session.query(
          `insert into public.drinks (id, name) select n, 'one' from generate_series($1::int, $1::int + 24) as n`,
          [from],
        );
        for (let n = from + 25; n < from + 50; n += 1)
          await session.query(`insert into public.drinks (id, name) values ($1, 'by one')`, [n]);
      });
      const rolledBack = database.transaction(async (session) => {
        await session.query('insert into public.drinks (id) values ($1)', [10_000 + from]);
        throw new Error('rolled back');
      });
      await expect(rolledBack).rejects.toThrow('rolled back');
    }
    const changes = await received.atLeast(500);
    expect(changes.map(({ new: record }) => record.id)).toEqual(Array.from({ length: 500 }, (_, n) => n));
    await database.query(`insert into public.drinks (id) select 1000 + n from generate_series(0, 1200) as n`);
    expect((await received.atLeast(1701)).at(-1)?.new.id).toBe(2200);
    expect(received.all).toHaveLength(1701);
    await empty('public.drinks');
  });

  test('a change notifies no one, so that transactions do not commit one after another', async () => {
    const announced = new Collected<string>();
    const stop = await database.listen('realtime_changes', announced.add);
    const { received } = await followTables(service.client(), { table: 'drinks' });
    await database.query('insert into public.drinks (id) select generate_series(1, 20)');
    await received.atLeast(20);
    expect(announced.all).toEqual([]);
    await stop();
    await empty('public.drinks');
  });

  test('a table outside the publication is not logged, and without subscribers the log is not read', async () => {
    const reads: string[] = [];
    const counted = await startService({
      ...database,
      read(sql, parameters, settings) {
        reads.push(sql);
        return database.read(sql, parameters, settings);
      },
    });
    const logged = async () =>
      (await database.query<{ n: number }>('select count(*)::int as n from realtime.changes')).rows[0]?.n;
    const before = await logged();
    await database.query('insert into public.unwatched values (1)');
    expect(await logged()).toBe(before);
    const { channel, received } = await followTables(counted.client(), { table: 'drinks' });
    await database.query('insert into public.drinks (id) values (1)');
    await received.atLeast(1);
    expect(await channel.unsubscribe()).toBe('ok');
    await counted.close();
    expect(reads.length).toBeGreaterThan(0);
    await empty('public.drinks', 'public.unwatched');
  });

  test('sends only the small values of a change above 1 MiB', async () => {
    const { received } = await followTables(service.client(), { table: 'drinks', filter: 'name=like.xx%' });
    await database.query(`insert into public.drinks (id, name, price) values (1, repeat('x', 1100000), 5)`);
    expect((await received.atLeast(1))[0]).toMatchObject({
      errors: ['Error 413: Payload Too Large'],
      new: { id: 1, price: 5 },
    });
    expect(received.all[0]?.new).not.toHaveProperty('name');
    await empty('public.drinks');
  });

  test.each([
    [{ table: 'drinks', filter: 'name=foo.hey' }, 'Error parsing `filter` params: ["foo", "hey"]'],
    [
      { schema: '*', table: 'drinks', select: ['id'] },
      'Column selection is not supported for wildcard subscriptions. Provide an explicit schema and table name.',
    ],
    [
      { table: 'unwatched', filter: 'id=eq.1' },
      'Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given connect ' +
        'parameters: [event: *, schema: public, table: unwatched, filters: [{"id", "eq", "1", false}], select: nil]',
    ],
    [
      { table: 'nowhere' },
      /^Unable to subscribe to changes with given parameters\. Please check Realtime is enabled/,
    ],
    [
      { table: 'drinks', filter: 'cost=eq.1' },
      /^Unable to subscribe to changes with given parameters\. .* \[event: \*, schema: public, table: drinks, .*invalid column for filter cost$/,
    ],
    [{ table: 'drinks', select: ['nothing'] }, /invalid column for select nothing$/],
    [{ table: 'drinks', filter: 'id=eq.one' }, /invalid input syntax for type integer: "one"$/],
    [{ table: 'drinks', filter: 'name=match.(' }, /Unable to subscribe .*invalid regular expression/],
    [{ table: 'drinks', filter: 'name=match.(.*)*x\\1' }, /Unable to subscribe .*is too complex/],
    [{ table: 'drinks', filter: 'is_cold=is.maybe' }, /invalid value for is filter/],
    [{ table: 'drinks', filter: 'id=like.1%' }, /Unable to subscribe /],
    [
      { table: 'drinks', filter: `id=in.(${Array.from({ length: 101 }, (_, n) => n)})` },
      /too many values for `in` filter\. Maximum 100$/,
    ],
  ])('%j joins and receives its error', async (wanted, message) => {
    const { system, channel } = await followTables(service.client(), wanted as Wanted);
    expect(system.all).toEqual([
      expect.objectContaining({
        extension: 'postgres_changes',
        status: 'error',
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      }),
    ]);
    expect(channel.state).toBe('joined');
  });

  test('a table added to the publication serves earlier subscriptions', async () => {
    const { received, system } = await followTables(service.client(), { table: 'latecomers' });
    expect(system.all[0]?.status).toBe('error');
    await database.execute(`
      create table public.latecomers (id int primary key);
      alter publication supabase_realtime add table public.latecomers;
    `);
    expect((await system.atLeast(2))[1]).toMatchObject({ status: 'ok', message: 'Subscribed to PostgreSQL' });
    await database.query('insert into public.latecomers values (1)');
    expect(typesAndIds(await received.atLeast(1))).toEqual([['INSERT', 1]]);
    await database.execute('alter table public.latecomers replica identity full');
    await database.query('update public.latecomers set id = 2');
    expect((await received.atLeast(2))[1]?.old).toEqual({ id: 1 });
    await database.execute('alter publication supabase_realtime drop table public.latecomers');
    const { rows } = await database.query(
      `select from pg_trigger where tgrelid = 'public.latecomers'::regclass`,
    );
    expect(rows).toEqual([]);
  });

  test('without event triggers, a schema reload updates the published tables', async () => {
    await database.execute(`
      alter event trigger watch_tables disable;
      create table public.by_reload (id int primary key);
      alter publication supabase_realtime add table public.by_reload;
      alter event trigger watch_tables enable;
      notify pgrst, 'reload schema';
    `);
    const isWatched = async () =>
      (await database.query(`select from pg_trigger where tgrelid = 'public.by_reload'::regclass`)).rowCount >
      0;
    await expect.poll(isWatched).toBe(true);
  });

  test('a new token changes the claims without a lost or repeated change', async () => {
    const client = await member(anna);
    const { received, system } = await followTables(client, { table: 'notes' });
    const add = async (owner: string) =>
      (
        await database.query<{ id: number }>('insert into public.notes (owner) values ($1) returning id', [
          owner,
        ])
      ).rows[0]?.id;
    const first = await add(anna);
    await received.atLeast(1);
    await client.setAuth(await tokenOf({ role: 'authenticated', sub: otieno }));
    expect((await system.atLeast(2))[1]).toMatchObject({ status: 'ok', message: 'Subscribed to PostgreSQL' });
    await add(anna);
    const second = await add(otieno);
    expect(typesAndIds(await received.atLeast(2))).toEqual([
      ['INSERT', first],
      ['INSERT', second],
    ]);
  });

  test('fifty subscribers of three roles each receive their changes, with one query per identity', async () => {
    await database.execute(`
      create function public.note_asking() returns boolean language plpgsql volatile security definer as $$
      begin perform pg_notify('calls', current_setting('request.jwt.claims')); return true; end $$;
      create table public.tickets (id int primary key, owner uuid);
      alter table public.tickets enable row level security;
      create policy "owners" on public.tickets for select
        using ((select public.note_asking()) and (owner = (select auth.uid()) or owner is null));
      alter publication supabase_realtime add table public.tickets;
    `);
    const calls: string[] = [];
    const stop = await database.listen('calls', (claims) => calls.push(claims));
    const token = await tokenOf({ role: 'authenticated', sub: anna });
    const clients = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const client = n % 3 === 0 ? shop() : service.client();
        if (n % 3 === 1) await client.setAuth(token);
        return followTables(client, { table: 'tickets' });
      }),
    );
    await database.query(`insert into public.tickets values (1, '${anna}'), (2, '${otieno}'), (3, null)`);
    const expected = [[1, 2, 3], [1, 3], [3]];
    await Promise.all(clients.map(({ received }, n) => received.atLeast(expected[n % 3]?.length ?? 0)));
    clients.forEach(({ received }, n) => {
      expect(received.all.map(({ new: record }) => record.id)).toEqual(expected[n % 3]);
    });
    // service_role bypasses policies. PostgreSQL sends equal notifications of one transaction once.
    await vi.waitFor(() => expect(calls).toHaveLength(2), { timeout: 20_000 });
    expect(calls.map((claims) => JSON.parse(claims).role).sort()).toEqual(['anon', 'authenticated']);
    await stop();
  });

  test('two hundred subscribers of two users cost one query per user', async () => {
    await database.execute(`
      create table public.parcels (id int primary key, owner uuid);
      alter table public.parcels enable row level security;
      create policy "owners" on public.parcels for select using (owner = (select auth.uid()));
      alter publication supabase_realtime add table public.parcels;
    `);
    const { queries, counting } = countQueries(database);
    const own = await startService(counting, { joinsPerSecond: 1_000 });
    const tokens = await Promise.all(
      [anna, otieno].map((sub) => tokenOf({ role: 'authenticated', sub }, '1h')),
    );
    const subscribers: Collected<Change>[] = [];
    const subscribe = async (n: number) => {
      const client = own.client();
      await client.setAuth(tokens[n % 2] ?? '');
      subscribers.push((await followTables(client, { table: 'parcels' })).received);
    };
    let id = 0;
    const costOfOneChange = async () => {
      const before = queries.total;
      id += 1;
      await database.query('insert into public.parcels values ($1, $2)', [id, anna]);
      // The deletion reaches all clients last, so nothing else can follow.
      const counts = subscribers.map(({ all }) => all.length);
      await Promise.all(
        subscribers
          .filter((_, n) => n % 2 === 0)
          .map((received, n) => received.atLeast((counts[2 * n] ?? 0) + 1)),
      );
      const cost = queries.total - before;
      await database.query('delete from public.parcels where id = $1', [id]);
      await Promise.all(
        subscribers.map((received, n) => received.atLeast((counts[n] ?? 0) + (n % 2 === 0 ? 2 : 1))),
      );
      return cost;
    };
    for (const n of [0, 1]) await subscribe(n);
    const ofTwo = await costOfOneChange();
    for (let n = 2; n < 200; n += 1) await subscribe(n);
    expect(subscribers).toHaveLength(200);
    expect(await costOfOneChange()).toBe(ofTwo);
    // Queries for the changes, the table and the keys, and one per user for the rights.
    expect(ofTwo).toBe(5);
    expect(
      subscribers
        .filter((_, n) => n % 2 === 1)
        .every(({ all }) => all.every(({ eventType }) => eventType === 'DELETE')),
    ).toBe(true);
    await own.close();
  }, 30_000);

  test('many subscriptions to one table read its description about once per second', async () => {
    let described = 0;
    const counting: Database = {
      ...database,
      query: (sql, parameters) => {
        if (sql.includes('pg_publication_tables')) described += 1;
        return database.query(sql, parameters);
      },
    };
    const own = await startService(counting, { joinsPerSecond: 1_000 });
    for (let n = 0; n < 30; n += 1) await followTables(own.client(), { table: 'drinks' });
    expect(described).toBeGreaterThan(0);
    expect(described).toBeLessThan(15);
    await own.close();
  });

  test('a filter on a column that was just added is accepted, also before its table is announced', async () => {
    // A busy database announces a change later than it answers.
    const unannounced: Database = { ...database, listen: async () => async () => {} };
    const own = await startService(unannounced);
    await followTables(own.client(), { table: 'bursts' });
    await database.execute('alter table public.bursts add column shelf int');
    const { received, system } = await followTables(own.client(), { table: 'bursts', filter: 'shelf=eq.4' });
    expect(system.all.map(({ status }) => status)).toEqual(['ok']);
    await database.query(`insert into public.bursts values (-1, 'a', 3), (-2, 'b', 4)`);
    await received.atLeast(1);
    expect(typesAndIds(received.all)).toEqual([['INSERT', -2]]);
    await own.close();
    await database.execute(
      'alter table public.bursts drop column shelf; delete from public.bursts where id < 0',
    );
  });

  test('a waiting subscription is not checked after its client has disconnected', async () => {
    const calls: unknown[] = [];
    let open = () => {};
    const gate = new Promise<void>((done) => {
      open = done;
    });
    const delaying: Database = {
      ...database,
      query: async (sql, parameters) => {
        if (sql.includes('pg_publication_tables')) {
          calls.push(parameters?.[1]);
          await gate;
        }
        return database.query(sql, parameters);
      },
    };
    const own = await startService(delaying);
    const visitors = Array.from({ length: 8 }, (_, n) => {
      const client = own.client();
      const channel = client.channel(`waiting-${n}`);
      channel.on('postgres_changes', { event: '*', schema: 'public', table: `missing-${n}` }, () => {});
      // The join is answered after the check.
      channel.subscribe();
      return client;
    });
    // Two of a network are checked at a time.
    await vi.waitFor(() => expect(calls).toHaveLength(2), { timeout: 20_000 });
    await Promise.all(visitors.map((client) => client.disconnect()));
    await vi.waitFor(() => expect(own.sockets).toBe(0), { timeout: 20_000 });
    open();
    await followTables(own.client(), { table: 'drinks' });
    expect(calls).toHaveLength(3);
    expect(own.errors).toEqual([]);
    await own.close();
  });

  test('checks rights at each change: revoked ones stop the next change', async () => {
    await database.execute(`
      create table public.employees (id uuid primary key, is_active boolean not null);
      insert into public.employees values ('${anna}', true), ('${otieno}', true);
      create function public.is_employee() returns boolean language sql stable security definer set search_path = ''
        return exists (select from public.employees where id = (select auth.uid()) and is_active);
      create table public.sales (id int primary key);
      alter table public.sales enable row level security;
      create policy "employees" on public.sales for select using ((select public.is_employee()));
      alter publication supabase_realtime add table public.sales;
    `);
    const leaving = await followTables(await member(anna), { table: 'sales' });
    const staying = await followTables(await member(otieno), { table: 'sales' });
    await database.query('insert into public.sales values (1)');
    expect(typesAndIds(await leaving.received.atLeast(1))).toEqual([['INSERT', 1]]);
    await database.query('update public.employees set is_active = false where id = $1', [anna]);
    await database.query('insert into public.sales values (2)');
    await staying.received.atLeast(2);
    await database.query('update public.sales set id = 3 where id = 2');
    expect(typesAndIds(await staying.received.atLeast(3))).toEqual([
      ['INSERT', 1],
      ['INSERT', 2],
      ['UPDATE', 3],
    ]);
    expect(leaving.received.all).toHaveLength(1);
  });

  test('sends nothing after the token has expired', async () => {
    const token = await tokenOf({ role: 'authenticated', sub: anna }, Math.floor(Date.now() / 1000) + 2);
    const client = service.client();
    await client.setAuth(token);
    const expiring = await followTables(client, { table: 'drinks' });
    const lasting = await followTables(await member(anna), { table: 'drinks' });
    await database.query('insert into public.drinks (id) values (1)');
    await Promise.all([expiring.received.atLeast(1), lasting.received.atLeast(1)]);
    await vi.waitFor(() => expect(expiring.channel.state).toBe('closed'), { timeout: 20_000 });
    expect(expiring.system.all.at(-1)).toMatchObject({
      status: 'error',
      message: expect.stringMatching(/^Token has expired/),
    });
    await database.query('insert into public.drinks (id) values (2)');
    await lasting.received.atLeast(2);
    expect(expiring.received.all).toHaveLength(1);
    await empty('public.drinks');
  });

  test('a slow reader receives a burst of 5,000 changes complete and in order', async () => {
    const late = await rawFollower(service, 'bursts');
    const { received } = await followTables(service.client(), { table: 'bursts', event: 'INSERT' });
    late.socket.pause();
    for (let from = 1; from <= 5_000; from += 1_000) {
      await database.query(
        `insert into public.bursts (id, name) select n, repeat('x', 100) from generate_series($1::int, $1::int + 999) as n`,
        [from],
      );
    }
    const everyId = Array.from({ length: 5_000 }, (_, n) => n + 1);
    expect((await received.atLeast(5_000)).map(({ new: record }) => record.id)).toEqual(everyId);
    late.socket.resume();
    expect(await late.received.atLeast(5_000)).toEqual(everyId);
    late.socket.close();
    await empty('public.bursts');
  }, 30_000);

  test('disconnects a reader above the timeout; the others receive everything', async () => {
    const own = await startService(database, { bufferedBytes: 1_000_000, slowReaderTimeoutMs: 300 });
    const slow = await rawFollower(own, 'bursts');
    const { received } = await followTables(own.client(), { table: 'bursts', event: 'INSERT' });
    const closed = new Promise((done) => slow.socket.once('close', done));
    slow.socket.pause();
    // More than the operating system's buffer for a connection, in few messages: on a busy machine the server gives up a connection that
    // does not receive its close frame.
    await empty('public.bursts');
    await database.query(
      `insert into public.bursts (id, name) select n, repeat('x', 60000) from generate_series(1, 250) as n`,
    );
    expect((await received.atLeast(250)).at(-1)?.new.id).toBe(250);
    slow.socket.resume();
    expect(await closed).toBe(1013);
    // It received the beginning without gaps.
    expect(slow.received.all.length).toBeLessThan(250);
    expect(slow.received.all).toEqual(slow.received.all.map((_, n) => n + 1));
    await own.close();
    await empty('public.bursts');
  });

  test('a failing policy or filter is reported and affects no other client', async () => {
    await database.execute(`
      create table public.brittle (id int primary key, size int);
      alter table public.brittle enable row level security;
      create policy "visitors fail" on public.brittle for select to anon using (1 / (id - id) > 0);
      create policy "members read" on public.brittle for select to authenticated using (true);
      alter publication supabase_realtime add table public.brittle;
    `);
    const own = await startService(database);
    const visitor = await followTables(own.client(), { table: 'brittle' });
    const token = await tokenOf({ role: 'authenticated', sub: anna });
    const memberOf = async (filter: string) => {
      const client = own.client();
      await client.setAuth(token);
      return followTables(client, { table: 'brittle', filter });
    };
    const bySize = await memberOf('size=eq.5');
    const byId = await memberOf('id=gt.0');
    await database.execute(`
      alter table public.brittle alter column size type date using null;
      insert into public.brittle values (1, '2026-01-01');
    `);
    expect(typesAndIds(await byId.received.atLeast(1))).toEqual([['INSERT', 1]]);
    await database.execute('delete from public.brittle');
    await Promise.all([byId.received.atLeast(2), visitor.received.atLeast(1)]);
    expect(typesAndIds(visitor.received.all)).toEqual([['DELETE', 1]]);
    expect(bySize.received.all).toEqual([]);
    expect(own.errors).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ code: '22012' }),
        expect.objectContaining({ code: '22007' }),
      ]),
    );
    await own.close();
  });

  test('sends nothing after a leave', async () => {
    const { channel, received } = await followTables(service.client(), { table: 'drinks' });
    const other = await followTables(service.client(), { table: 'drinks' });
    await database.query('insert into public.drinks (id) values (1)');
    await received.atLeast(1);
    expect(await channel.unsubscribe()).toBe('ok');
    await database.query('insert into public.drinks (id) values (2)');
    await other.received.atLeast(2);
    expect(typesAndIds(received.all)).toEqual([['INSERT', 1]]);
    await empty('public.drinks');
  });

  test('requests cannot read or write the log, which drops rows after an hour', async () => {
    for (const sql of [
      'select * from realtime.changes',
      'delete from realtime.changes',
      'select realtime.watch_tables()',
    ]) {
      const asVisitor = database.transaction((session) => session.query(sql), { settings: { role: 'anon' } });
      await expect(asVisitor).rejects.toMatchObject({ code: '42501' });
    }
    await database.query(`update realtime.changes set changed_at = now() - interval '2 hours'`);
    await database.query('insert into public.drinks (id) values (77)');
    await database.query('select realtime.prune_messages()');
    expect((await database.query('select record from realtime.changes')).rows).toMatchObject([
      { record: { id: 77 } },
    ]);
  });

  test('the log has a maximum size, also within the hour, and its newest changes stay', async () => {
    await database.execute(`
      delete from realtime.changes;
      insert into public.bursts select id, repeat(md5(id::text), 30) from generate_series(1, 200) as id;`);
    const stored = async () => {
      const { rows } = await database.query<{ bytes: number; newest: number }>(
        `select sum(100 + pg_column_size(record))::bigint as bytes, max((record ->> 'id')::int) as newest from realtime.changes`,
      );
      return rows[0];
    };
    const before = await stored();
    await database.query(`select realtime.prune_changes('1 hour', 50000)`);
    const after = await stored();
    expect(before?.bytes).toBeGreaterThan(60_000);
    expect(after?.bytes).toBeGreaterThan(45_000);
    expect(after?.bytes).toBeLessThan(55_000);
    expect(after?.newest).toBe(200);
    await empty('public.bursts');
  });

  test('a subscriber whose changes were deleted unread joins again, and receives later ones', async () => {
    let reading = 0;
    /** While it is set, the reader waits for the change, and is behind: when it reads, the change is gone. */
    let inserted: Promise<unknown> | null = null;
    const own = await startService({
      ...database,
      async read(sql, parameters, settings) {
        if (sql.includes('realtime.pruned_changes') && inserted) {
          await inserted;
          inserted = null;
          await database.query(`select realtime.prune_changes('0 seconds')`);
        }
        reading += 1;
        try {
          return await database.read(sql, parameters, settings);
        } finally {
          reading -= 1;
        }
      },
    });
    const { channel, received } = await followTables(own.client(), { table: 'drinks' });
    const rejoined = new Collected<unknown>();
    channel.on('system', {}, rejoined.add as never);
    let insert = () => {};
    inserted = new Promise<void>((done) => {
      insert = done;
    });
    // A question that was asked before would find the change.
    await vi.waitFor(() => expect(reading).toBe(0), { interval: 1, timeout: 20_000 });
    await database.query('insert into public.drinks (id) values (1)');
    insert();
    await rejoined.atLeast(1);
    await database.query('insert into public.drinks (id) values (2)');
    expect(typesAndIds(await received.atLeast(1))).toEqual([['INSERT', 2]]);
    expect(own.errors.splice(0).map(String)).toEqual([
      'Error: changes were deleted from the log before they were read',
    ]);
    await own.close();
    // The other service reads the same log.
    service.errors.splice(0);
    await empty('public.drinks');
  });
});

describe.runIf(testDatabases().includes('postgresql'))('changes of tables in two processes', () => {
  let database: Database & { url?: string };
  let otherDatabase: Database;
  let here: ThrowawayService;
  let there: ThrowawayService;
  beforeAll(async () => {
    database = await throwawayDatabase('postgresql', [platform]);
    await database.execute(schema);
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
  const ids = (changes: Change[]) => changes.map(({ new: record }) => record.id);

  test('both send overlapping transactions whole, and each after those that it could see', async () => {
    const a = await followTables(here.client(), { table: 'drinks' });
    const b = await followTables(there.client(), { table: 'drinks' });
    // The second begins and writes first, but commits last.
    await database.transaction(async (late) => {
      await late.query('insert into public.drinks (id) values (1)');
      await otherDatabase.transaction(async (early) => {
        await early.query('insert into public.drinks (id) values (2)');
        await late.query('insert into public.drinks (id) values (3)');
        await early.query('insert into public.drinks (id) values (4)');
      });
      await database.query('insert into public.drinks (id) values (5)');
    });
    await database.query('update public.drinks set id = 6 where id = 3');
    for (const { received } of [a, b]) {
      const sent = typesAndIds(await received.atLeast(6));
      const placeOf = (id: number) => sent.findIndex(([, of]) => of === id);
      expect(sent.map(([, id]) => id).toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
      // Rows of a transaction stay together; one that ended before another began to write comes first.
      expect(placeOf(4)).toBe(placeOf(2) + 1);
      expect(placeOf(3)).toBe(placeOf(1) + 1);
      expect(placeOf(5)).toBeGreaterThan(placeOf(4));
      expect(placeOf(6)).toBe(5);
    }
    await database.execute('delete from public.drinks');
  });

  test('both send each change of concurrent writers once', async () => {
    const a = await followTables(here.client(), { table: 'drinks', event: 'INSERT' });
    const b = await followTables(there.client(), { table: 'drinks', event: 'INSERT' });
    await Promise.all(
      Array.from({ length: 120 }, (_, n) =>
        (n % 2 ? database : otherDatabase).query('insert into public.drinks (id) values ($1)', [n]),
      ),
    );
    for (const { received } of [a, b]) {
      const sent = ids(await received.atLeast(120));
      expect(sent).toHaveLength(120);
      expect(new Set(sent).size).toBe(120);
    }
    await database.execute('delete from public.drinks');
  });

  test('nothing is lost or repeated when the notification connection is lost', async () => {
    const a = await followTables(here.client(), { table: 'drinks', event: 'INSERT' });
    const b = await followTables(there.client(), { table: 'drinks', event: 'INSERT' });
    const add = (n: number) => database.query('insert into public.drinks (id) values ($1)', [n]);
    await add(1);
    await Promise.all([a.received.atLeast(1), b.received.atLeast(1)]);
    const lost = await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'backend notifications'`,
    );
    expect(lost.rowCount).toBe(2);
    for (const n of [2, 3, 4]) await add(n);
    await Promise.all([a.received.atLeast(4), b.received.atLeast(4)]);
    await add(5);
    expect(ids(await a.received.atLeast(5))).toEqual([1, 2, 3, 4, 5]);
    expect(ids(await b.received.atLeast(5))).toEqual([1, 2, 3, 4, 5]);
  });
});
