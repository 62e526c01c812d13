// The state of an order for the storefront, for one order and for the orders of a device.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { failed, setUpShop } from '../steps.ts';

type Facts = Record<string, unknown>;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asVisitor, readValue, place, track, trackAsCustomer, expire, setStatus, prompt } = shop;
  const { settle, pay } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  beforeEach(() => database.execute('delete from private.rate_limits; delete from private.order_networks'));

  const messagesTo = (order: PlacedOrder) =>
    readValue<number>(`select count(*)::integer from realtime.messages where topic = $1`, [
      `order-${order.id}`,
    ]);

  test('everyone sees an open prompt, and its start and end are announced', async () => {
    const order = await place(product);
    expect(await track(order)).not.toHaveProperty('payment_check');
    const payment = await prompt(order);
    expect(await track(order)).toMatchObject({ payment_check: 'prompted' });
    expect(await messagesTo(order)).toBe(1);
    await settle(payment, failed);
    expect(await track(order)).not.toHaveProperty('payment_check');
    expect(await messagesTo(order)).toBe(2);
  });

  test('only the customer sees the end of the reservation, and only while it lasts', async () => {
    const order = await place(product);
    expect(await trackAsCustomer(order)).toMatchObject({
      reserved_until: order.reserved_until,
      expires_at: order.expires_at,
    });
    for (const name of ['reserved_until', 'expires_at', 'paid_cents']) {
      expect(await track(order)).not.toHaveProperty(name);
    }
    await pay(order);
    const paid = await trackAsCustomer(order);
    expect(paid).toMatchObject({ payment_status: 'paid', paid_cents: 95_100 });
    expect(paid).not.toHaveProperty('reserved_until');
    expect(await track(order)).not.toHaveProperty('paid_cents');
  });

  test('the charge is in whole shillings', async () => {
    const odd = await makeProduct(database, 5, 94_950);
    const order = await place(odd, { expected_total: 95_050 });
    await pay(order);
    expect(await trackAsCustomer(order)).toMatchObject({ total_amount: 95_050, paid_cents: 95_100 });
  });

  test('contains the reason of a cancellation', async () => {
    const expired = await place(product);
    await expire(expired);
    expect(await track(expired)).toMatchObject({
      status: 'cancelled',
      cancelled_because: 'not_paid_in_time',
    });

    const refused = await place(product);
    await setStatus(refused, 'cancelled');
    expect(await track(refused)).toMatchObject({ status: 'cancelled', cancelled_because: 'by_shop' });

    const other = await place(product);
    await database.query(`update public.orders set status = 'cancelled' where id = $1`, [other.id]);
    expect(await track(other)).not.toHaveProperty('cancelled_because');
  });

  test('shows a refund once it is approved', async () => {
    const order = await place(product);
    const { payment } = await pay(order);
    expect(await track(order)).not.toHaveProperty('is_refunding');
    const insert = (status: string, needsApproval: boolean) =>
      database.query(
        `insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, needs_approval)
         select id, receipt, charge_cents, 'Customer cancelled', 'reversal', $2, $3 from public.payments where id = $1`,
        [payment.id, status, needsApproval],
      );
    await insert('requested', true);
    expect(await track(order)).not.toHaveProperty('is_refunding');
    await database.query(`update public.refunds set status = 'withdrawn' where payment_id = $1`, [
      payment.id,
    ]);
    const before = await messagesTo(order);
    await insert('approved', false);
    expect(await track(order)).toMatchObject({ is_refunding: true });
    expect(await messagesTo(order)).toBe((before ?? 0) + 1);
  });

  describe('the orders of a device', () => {
    /** As an array literal, which both drivers read. */
    const ask = (keys: (string | null)[] | null, address?: string) =>
      asVisitor<Facts[]>(
        'orders_by_access_key',
        { access_keys: keys && `{${keys.map((key) => key ?? 'null').join(',')}}` },
        address,
      );

    test('are found by their access keys, newest first, without personal data', async () => {
      const first = await place(product);
      const second = await place(product);
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
      const order = await place(product);
      const others = Array.from({ length: 20 }, (_, n) => `wrong-${n}`);
      expect(await ask([...others, order.access_key])).toEqual([]);
      expect(await ask([...others.slice(1), order.access_key])).toHaveLength(1);
      expect(await ask(['x'.repeat(1_000_000), order.access_key])).toHaveLength(1);
      expect(await ask([])).toEqual([]);
      expect(await ask(null)).toEqual([]);
      expect(await ask([null, order.id, order.tracking_number])).toEqual([]);
    });

    test('are always returned to a caller with a valid key; calls without one count as lookups', async () => {
      const order = await place(product);
      for (let n = 0; n < 60; n += 1) expect(await ask([`wrong-${n}`], '192.0.2.90')).toEqual([]);
      await expectRefusal(ask(['wrong'], '192.0.2.90'), 429, 'too_many_lookups');
      await expectRefusal(track(order, {}, '192.0.2.90'), 429, 'too_many_lookups');
      for (let n = 0; n < 70; n += 1) {
        expect(await ask(['wrong', order.access_key], '192.0.2.90')).toHaveLength(1);
      }
    });
  });
});
