// Access to the shop's live messages, through the official client: active staff receive changes of the staff tables, other clients do
// not, and private topics are closed to all of them.

import { testDatabases } from '@jani-juice/backend/testing';
import {
  type REALTIME_SUBSCRIBE_STATES,
  type RealtimeChannel,
  type RealtimeClient,
  REALTIME_SUBSCRIBE_STATES as states,
} from '@supabase/realtime-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type OpenServices, openServices } from '../scripts/tests/open-services.ts';

const tables = ['orders', 'payments', 'deliveries', 'inquiries'] as const;
const id = (n: number) => `f0000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

interface Change {
  eventType: string;
  table: string;
  new: Record<string, unknown>;
  old: Record<string, unknown>;
  errors: string[] | null;
}

describe.each(testDatabases())('live messages of the shop on %s', (kind) => {
  let services: OpenServices;
  beforeAll(async () => {
    services = await openServices(kind);
  });
  afterAll(async () => {
    expect(services.errors).toEqual([]);
    await services.close();
  });

  const join = (channel: RealtimeChannel) =>
    new Promise<{ status: `${REALTIME_SUBSCRIBE_STATES}`; message: string | undefined }>((done) => {
      channel.subscribe((status, error) => done({ status, message: error?.message }));
    });

  /** Subscribes to all tables of the staff screens. Returns the received changes. */
  const subscribe = async (client: RealtimeClient) => {
    const received: Change[] = [];
    let isServed = false;
    const channel = client.channel('staff');
    for (const table of tables) {
      channel.on('postgres_changes', { event: '*', schema: 'public', table }, (change) =>
        received.push(change as unknown as Change),
      );
    }
    channel.on('system', {}, ({ status }) => {
      isServed = status === 'ok';
    });
    expect((await join(channel)).status).toBe(states.SUBSCRIBED);
    await vi.waitFor(() => expect(isServed).toBe(true), { timeout: 20_000 });
    return { received, channel };
  };

  const everyone = async () => {
    const clientOf = async (...given: Parameters<OpenServices['person']>) =>
      services.live((await services.person(...given)).token);
    return {
      visitor: await services.live(),
      customer: await clientOf('customer'),
      'inactive staff': await clientOf('inactive staff'),
      'half-way staff': await clientOf('half-way staff'),
      staff: await clientOf('staff'),
      service: await services.live(services.keys.secret),
    };
  };

  let orders = 0;
  /** Changes every table that staff screens subscribe to. */
  const changeAllTables = async () => {
    orders += 1;
    const [order, code] = [id(orders), String(1000 + orders)];
    await services.database.execute(`
      insert into public.orders
        (id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
        values ('${order}', 'JJ-20261121-${code}', 'Amina', 'a@b.example', '+254712345678', 'Karen', 100, 200);
      insert into public.payments (id, order_id, phone, charge_cents, status)
        values ('${order}', '${order}', '+254712345678', 200, 'processing');
      insert into public.deliveries (id, order_id) values ('${order}', '${order}');
      insert into public.inquiries (id, name, email, message) values ('${order}', 'Amina', 'a@b.example', 'Hello');
      update public.orders set status = 'processing' where id = '${order}';
    `);
    return order;
  };
  /** A deletion that every subscriber receives after all other changes, because rights to a deleted row cannot be checked. */
  const marker = async () => {
    const { rows } = await services.database.query<{ id: string }>(
      `insert into public.inquiries (name, email, message) values ('A', 'a@b.example', 'Marker') returning id`,
    );
    const inserted = rows[0]?.id;
    return {
      remove: () => services.database.query('delete from public.inquiries where id = $1', [inserted]),
      isIn: (received: readonly Change[]) =>
        received.some(({ eventType, old }) => eventType === 'DELETE' && old.id === inserted),
    };
  };
  const withoutMarkers = (received: readonly Change[]) =>
    received.filter(({ eventType, new: record }) => eventType !== 'DELETE' && record.message !== 'Marker');

  test('staff receive changes of orders, payments, deliveries and inquiries; other clients receive none', async () => {
    const clients = await everyone();
    const followed = Object.fromEntries(
      await Promise.all(
        Object.entries(clients).map(async ([person, client]) => [person, (await subscribe(client)).received]),
      ),
    ) as Record<keyof typeof clients, Change[]>;
    const order = await changeAllTables();
    const { remove, isIn } = await marker();
    // The insertion is received first, because no client may see a deleted row.
    await vi.waitFor(
      () => expect(followed.staff.some(({ new: record }) => record.message === 'Marker')).toBe(true),
      { timeout: 20_000 },
    );
    await remove();
    await vi.waitFor(() => expect(Object.values(followed).every(isIn)).toBe(true), { timeout: 20_000 });

    for (const person of ['staff', 'service'] as const) {
      const changes = withoutMarkers(followed[person]);
      expect(new Set(changes.map(({ table, eventType }) => `${eventType} ${table}`)), person).toEqual(
        new Set([...tables.map((table) => `INSERT ${table}`), 'UPDATE orders']),
      );
      expect(changes[0], person).toMatchObject({ new: { id: order, customer_name: 'Amina' }, errors: null });
    }
    for (const person of ['visitor', 'customer', 'inactive staff', 'half-way staff'] as const) {
      expect(withoutMarkers(followed[person]), person).toEqual([]);
      // Only the marker's deletion, with the key alone.
      expect(
        followed[person].map(({ old }) => Object.keys(old)),
        person,
      ).toEqual([['id']]);
    }
    for (const client of Object.values(clients)) await client.disconnect();
  });

  test('staff receive changes only after their second factor', async () => {
    const person = await services.person('half-way staff');
    const client = await services.live(person.token);
    const { received } = await subscribe(client);
    await client.setAuth(await services.token({ sub: person.id, aal: 'aal2' }));
    // The new claims apply once the client is notified; until then the old ones are checked.
    await vi.waitFor(
      async () => {
        await changeAllTables();
        expect(withoutMarkers(received).length).toBeGreaterThan(0);
      },
      { timeout: 20_000, interval: 100 },
    );
    await client.disconnect();
  });

  test.each([
    [
      'their account was deactivated',
      (person: { id: string }) =>
        services.database.query('update public.admin_profiles set is_active = false where user_id = $1', [
          person.id,
        ]),
    ],
    [
      'all their sessions were ended',
      (person: { id: string }) =>
        services.database.query('delete from auth.sessions where user_id = $1', [person.id]),
    ],
  ])('staff receive no more changes on an open socket after %s', async (_, end) => {
    const person = await services.person('staff');
    const { rows } = await services.database.query<{ id: string }>(
      `insert into auth.sessions (user_id, refresh_token_hmac_key) values ($1, '') returning id`,
      [person.id],
    );
    const leaving = await services.live(
      await services.token({ sub: person.id, aal: 'aal1', session_id: rows[0]?.id }),
    );
    const staying = await services.live((await services.person('staff')).token);
    const [theirs, others] = [await subscribe(leaving), await subscribe(staying)];
    await changeAllTables();
    await vi.waitFor(() => expect(theirs.received).toHaveLength(5), { timeout: 20_000 });
    await end(person);
    await changeAllTables();
    const { remove, isIn } = await marker();
    await vi.waitFor(() => expect(others.received.length).toBeGreaterThanOrEqual(11), { timeout: 20_000 });
    await remove();
    await vi.waitFor(() => expect([theirs, others].every(({ received }) => isIn(received))).toBe(true), {
      timeout: 20_000,
    });
    expect(withoutMarkers(theirs.received)).toHaveLength(5);
    expect(withoutMarkers(others.received)).toHaveLength(10);
    for (const client of [leaving, staying]) await client.disconnect();
  });

  test('a staff member whose token expires is notified and receives no more changes', async () => {
    const { id: sub } = await services.person('staff');
    const lasting = await services.live(await services.token({ sub }));
    const others = await subscribe(lasting);
    // Six seconds are enough to join.
    const expiring = await services.live(
      await services.token({ sub, exp: Math.floor(Date.now() / 1000) + 6 }),
    );
    const theirs = await subscribe(expiring);
    await vi.waitFor(() => expect(theirs.channel.state).toBe('closed'), { timeout: 20_000 });
    await changeAllTables();
    await vi.waitFor(() => expect(others.received).toHaveLength(5), { timeout: 20_000 });
    expect(theirs.received).toEqual([]);
    for (const client of [expiring, lasting]) await client.disconnect();
  });

  test('only the secret key joins, sends to or tracks presence on a private topic', async () => {
    const clients = await everyone();
    const config = {
      private: true,
      broadcast: { ack: true, self: true },
      presence: { key: 'me', enabled: true },
    };
    const inside = clients.service.channel('back-office', { config });
    const received: string[] = [];
    inside.on('broadcast', { event: '*' }, ({ event }) => received.push(event));
    expect((await join(inside)).status).toBe(states.SUBSCRIBED);
    expect(await inside.track({ here: true })).toBe('ok');

    for (const [person, client] of Object.entries(clients)) {
      if (person === 'service') continue;
      const answer = await join(client.channel('back-office', { config }));
      expect([answer.status, answer.message], person).toEqual([
        states.CHANNEL_ERROR,
        expect.stringMatching(/You do not have permissions to read from this Channel topic: back-office/),
      ]);
      // Without joining. The response does not show whether the message was delivered.
      const outside = client.channel('back-office-by-http', { config });
      const sent = await outside.httpSend(`from ${person}`, { n: 1 });
      expect(sent.success, person).toBe(true);
    }
    const listener = clients.service.channel('back-office-by-http', { config });
    listener.on('broadcast', { event: '*' }, ({ event }) => received.push(event));
    await join(listener);
    for (const [person, client] of Object.entries(clients)) {
      if (person !== 'service')
        await client.channel('back-office-by-http', { config }).httpSend(`from ${person}`, {});
    }
    await clients.service.channel('back-office-by-http', { config }).httpSend('from the shop', { n: 1 });
    expect(await inside.send({ type: 'broadcast', event: 'inside', payload: {} })).toBe('ok');
    await vi.waitFor(() => expect(received).toContain('from the shop'), { timeout: 20_000 });
    expect(received.sort()).toEqual(['from the shop', 'inside']);
    const stored = await services.database.query(
      `select from realtime.messages where private and topic like 'back-%'`,
    );
    expect(stored.rowCount).toBe(0);
    for (const client of Object.values(clients)) await client.disconnect();
  });

  test('staff and the secret key send to a public topic, other clients only receive', async () => {
    const clients = await everyone();
    const topic = `order-${id(999)}`;
    const received: string[] = [];
    const listener = clients.visitor.channel(topic);
    listener.on('broadcast', { event: '*' }, ({ event }) => received.push(event));
    await join(listener);
    const senders = Object.entries(clients).filter(([person]) => person !== 'visitor');
    for (const [person, client] of [...senders, ['visitor', await services.live()] as const]) {
      const outside = client.channel(`${topic}`);
      const answer = await outside.httpSend(`${person} by HTTP`, {}).catch((error: Error) => error);
      const channel = client.channel(topic, { config: { broadcast: { ack: false } } });
      await join(channel);
      await channel.send({ type: 'broadcast', event: `${person} by socket`, payload: {} });
      expect(answer instanceof Error || !answer.success, person).toBe(!['staff', 'service'].includes(person));
    }
    await services.database.query(`select realtime.send('{}', 'from SQL', $1, false)`, [topic]);
    // The service checks the rights of each sender, which may take longer than the message from SQL.
    await vi.waitFor(() => expect(received.length).toBeGreaterThanOrEqual(5), { timeout: 20_000 });
    expect(received.sort()).toEqual([
      'from SQL',
      'service by HTTP',
      'service by socket',
      'staff by HTTP',
      'staff by socket',
    ]);
    for (const client of Object.values(clients)) await client.disconnect();
  });

  test("an order's topic shows its status, and no personal data", async () => {
    const order = await changeAllTables();
    const visitor = await services.live();
    const received: Record<string, unknown>[] = [];
    const channel = visitor.channel(`order-${order}`);
    channel.on('broadcast', { event: 'UPDATE' }, ({ payload }) => received.push(payload));
    await join(channel);
    await services.database.query(
      `update public.orders set status = 'delivered', payment_status = 'paid' where id = $1`,
      [order],
    );
    await vi.waitFor(() => expect(received.at(-1)).toMatchObject({ id: order, status: 'delivered' }), {
      timeout: 20_000,
    });
    expect(JSON.stringify(received)).not.toMatch(/Amina|a@b|2547|Karen/);
    await visitor.disconnect();
  });
});
