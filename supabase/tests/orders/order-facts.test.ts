// The state of an order for the storefront, for one order and for the orders of a device.
import { randomBytes } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  call,
  expectRefusal,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
} from '../shop-database.ts';

type Facts = Record<string, unknown>;

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
  });
  beforeEach(() => database.execute('delete from private.rate_limits; delete from private.order_networks'));
  afterAll(() => database.close());

  const place = (change: Facts = {}) =>
    call<PlacedOrder>(database, 'visitor', 'place_order', { ...orderForm(product), ...change });
  const asCustomer = ({ tracking_number, access_key }: PlacedOrder) =>
    call<Facts>(database, 'visitor', 'track_order', { tracking_number, access_key });
  const asStranger = ({ tracking_number }: PlacedOrder) =>
    call<Facts>(database, 'visitor', 'track_order', { tracking_number });
  const prompt = async ({ id, tracking_number }: PlacedOrder) =>
    (
      await call<{ payment: { id: string } }>(database, 'service', 'begin_payment', {
        order_id: id,
        tracking_number,
        phone: '0712345678',
        callback_secret: randomBytes(32).toString('hex'),
      })
    ).payment.id;
  const settle = (payment: string, outcome: 'failed' | 'succeeded', cents?: number) =>
    call(database, 'service', 'settle_payment', {
      payment_id: payment,
      source: 'callback',
      body: '{}',
      result: outcome,
      result_code: outcome === 'failed' ? '1032' : '0',
      ...(cents === undefined
        ? {}
        : {
            received_cents: cents,
            receipt: `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`,
          }),
    });
  const messagesTo = async (order: PlacedOrder) => {
    const { rows } = await database.query<{ count: number }>(
      `select count(*)::integer as count from realtime.messages where topic = $1`,
      [`order-${order.id}`],
    );
    return rows[0]?.count;
  };

  test('everyone sees an open prompt, and its start and end are announced', async () => {
    const order = await place();
    expect(await asStranger(order)).not.toHaveProperty('payment_check');
    const payment = await prompt(order);
    expect(await asStranger(order)).toMatchObject({ payment_check: 'prompted' });
    expect(await messagesTo(order)).toBe(1);
    await settle(payment, 'failed');
    expect(await asStranger(order)).not.toHaveProperty('payment_check');
    expect(await messagesTo(order)).toBe(2);
  });

  test('only the customer sees the end of the reservation, and only while it lasts', async () => {
    const order = await place();
    expect(await asCustomer(order)).toMatchObject({
      reserved_until: order.reserved_until,
      expires_at: order.expires_at,
    });
    for (const name of ['reserved_until', 'expires_at', 'paid_cents']) {
      expect(await asStranger(order)).not.toHaveProperty(name);
    }
    await settle(await prompt(order), 'succeeded', 95_100);
    const paid = await asCustomer(order);
    expect(paid).toMatchObject({ payment_status: 'paid', paid_cents: 95_100 });
    expect(paid).not.toHaveProperty('reserved_until');
    expect(await asStranger(order)).not.toHaveProperty('paid_cents');
  });

  test('the charge is in whole shillings', async () => {
    const odd = await makeProduct(database, 5, 94_950);
    const order = await place({ product_id: odd, expected_total: 95_050 });
    await settle(await prompt(order), 'succeeded', 95_100);
    expect(await asCustomer(order)).toMatchObject({ total_amount: 95_050, paid_cents: 95_100 });
  });

  test('contains the reason of a cancellation', async () => {
    const expired = await place();
    await database.query(
      `update public.orders set reserved_until = now() - interval '1 minute', expires_at = now() - interval '1 minute'
       where id = $1`,
      [expired.id],
    );
    await call(database, 'service', 'expire_reservations');
    expect(await asStranger(expired)).toMatchObject({
      status: 'cancelled',
      cancelled_because: 'not_paid_in_time',
    });

    const refused = await place();
    await asRole(database, people.staff, (session) =>
      session.query(`update public.orders set status = 'cancelled' where id = $1`, [refused.id]),
    );
    expect(await asStranger(refused)).toMatchObject({ status: 'cancelled', cancelled_because: 'by_shop' });

    const other = await place();
    await database.query(`update public.orders set status = 'cancelled' where id = $1`, [other.id]);
    expect(await asStranger(other)).not.toHaveProperty('cancelled_because');
  });

  test('shows a refund once it is approved', async () => {
    const order = await place();
    const payment = await prompt(order);
    await settle(payment, 'succeeded', 95_100);
    expect(await asStranger(order)).not.toHaveProperty('is_refunding');
    const insert = (status: string, needsApproval: boolean) =>
      database.query(
        `insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, needs_approval)
         select id, receipt, charge_cents, 'Customer cancelled', 'reversal', $2, $3 from public.payments where id = $1`,
        [payment, status, needsApproval],
      );
    await insert('requested', true);
    expect(await asStranger(order)).not.toHaveProperty('is_refunding');
    await database.query(`update public.refunds set status = 'withdrawn' where payment_id = $1`, [payment]);
    const before = await messagesTo(order);
    await insert('approved', false);
    expect(await asStranger(order)).toMatchObject({ is_refunding: true });
    expect(await messagesTo(order)).toBe((before ?? 0) + 1);
  });

  describe('the orders of a device', () => {
    /** As an array literal, which both drivers read. */
    const ask = (keys: (string | null)[] | null, address?: string) =>
      call<Facts[]>(
        database,
        'visitor',
        'orders_by_access_key',
        { access_keys: keys && `{${keys.map((key) => key ?? 'null').join(',')}}` },
        address,
      );

    test('are found by their access keys, newest first, without personal data', async () => {
      const first = await place();
      const second = await place();
      const answer = await ask([first.access_key, 'wrong', second.access_key, first.access_key]);
      expect(answer.map(({ tracking_number }) => tracking_number)).toEqual([
        second.tracking_number,
        first.tracking_number,
      ]);
      expect(answer[0]).toMatchObject({
        status: 'pending',
        payment_status: 'unpaid',
        total_amount: 95_100,
        reserved_until: second.reserved_until,
      });
      const shown = JSON.stringify(answer);
      for (const secret of ['Amina', '712345678', 'Westlands', 'example.com', first.id, first.access_key]) {
        expect(shown).not.toContain(secret);
      }
    });

    test('are twenty at most, and long keys are not parsed', async () => {
      const order = await place();
      const others = Array.from({ length: 20 }, (_, n) => `wrong-${n}`);
      expect(await ask([...others, order.access_key])).toEqual([]);
      expect(await ask([...others.slice(1), order.access_key])).toHaveLength(1);
      expect(await ask(['x'.repeat(1_000_000), order.access_key])).toHaveLength(1);
      expect(await ask([])).toEqual([]);
      expect(await ask(null)).toEqual([]);
      expect(await ask([null, order.id, order.tracking_number])).toEqual([]);
    });

    test('are always returned to a caller with a valid key; calls without one count as lookups', async () => {
      const order = await place();
      for (let n = 0; n < 60; n += 1) expect(await ask([`wrong-${n}`], '192.0.2.90')).toEqual([]);
      await expectRefusal(ask(['wrong'], '192.0.2.90'), 429, 'too_many_lookups');
      await expectRefusal(
        call(database, 'visitor', 'track_order', { tracking_number: order.tracking_number }, '192.0.2.90'),
        429,
        'too_many_lookups',
      );
      for (let n = 0; n < 70; n += 1) {
        expect(await ask(['wrong', order.access_key], '192.0.2.90')).toHaveLength(1);
      }
    });
  });
});
