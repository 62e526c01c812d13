// Why an order is cancelled is a column that its writer fills: the order page, the timeline and the messages read nothing else.
import { randomBytes } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
} from '../shop-database.ts';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;
  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
  });
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits; delete from private.order_networks');
    order = await call(database, 'visitor', 'place_order', orderForm(product));
  });
  afterAll(() => database.close());

  const change = (columns: string) =>
    database.query(`update public.orders set ${columns} where id = $1`, [order.id]);
  const set = (status: string, expected_status: string, expected_payment_status = 'unpaid') =>
    call<{ change_id: string }>(database, 'staff', 'set_order_status', {
      order_id: order.id,
      status,
      expected_status,
      expected_payment_status,
    });
  const expire = async () => {
    await change(`reserved_until = now() - interval '1 minute', expires_at = now() - interval '1 minute'`);
    await call(database, 'service', 'expire_reservations');
  };
  const pay = async () => {
    const { payment } = await call<{ payment: { id: string; charge_cents: number } }>(
      database,
      'service',
      'begin_payment',
      {
        order_id: order.id,
        tracking_number: order.tracking_number,
        phone: '0712345678',
        callback_secret: randomBytes(32).toString('hex'),
      },
    );
    await call(database, 'service', 'settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: '{}',
      result: 'succeeded',
      result_code: '0',
      received_cents: payment.charge_cents,
      receipt: `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`,
    });
  };
  const sendBack = () =>
    database.query('update public.payments set refunded_at = now() where order_id = $1', [order.id]);

  const reason = async () => {
    const { rows } = await database.query<{ cancel_reason: string | null; status: string }>(
      'select status, cancel_reason from public.orders where id = $1',
      [order.id],
    );
    return rows[0];
  };
  /** Newest status changes in the timeline, with what it says about their cause. */
  const lastEvent = async () => {
    const { rows } = await database.query<{ reason: string | null; new_status: string }>(
      `select details ->> 'to' as new_status, details ->> 'reason' as reason from public.order_events
       where order_id = $1 and kind = 'status_changed' order by id desc limit 1`,
      [order.id],
    );
    return rows[0];
  };
  const messages = async () => {
    const { rows } = await database.query<{ kind: string }>(
      `select distinct kind from public.outbox_messages where order_id = $1 and kind in ('order_expired', 'order_cancelled')`,
      [order.id],
    );
    return rows.map((row) => row.kind);
  };

  test('an order whose time ended was not paid in time', async () => {
    await expire();
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'not_paid_in_time' });
    expect(await lastEvent()).toEqual({ new_status: 'cancelled', reason: 'not_paid_in_time' });
  });

  test('staff cancel an order by the procedure or by its status, also one whose time ends at that moment', async () => {
    await set('cancelled', 'pending');
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'by_shop' });
    expect(await messages()).toEqual(['order_cancelled']);
    await set('pending', 'cancelled');
    await change(`reserved_until = now() - interval '1 minute', expires_at = now() - interval '1 minute'`);
    await asRole(database, people.staff, (session) =>
      session.query(`update public.orders set status = 'cancelled' where id = $1`, [order.id]),
    );
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'by_shop' });
    await call(database, 'service', 'expire_reservations');
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'by_shop' });
    expect(await lastEvent()).toEqual({ new_status: 'cancelled', reason: null });
  });

  test('an order whose money is sent back before it leaves is cancelled for that, and not along with a delivery', async () => {
    await pay();
    await sendBack();
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'refunded' });
    expect(await lastEvent()).toEqual({ new_status: 'cancelled', reason: 'refunded' });
    expect(await messages()).toEqual([]);
  });

  test('an order that staff cancelled keeps its reason when its money is sent back', async () => {
    await pay();
    await set('cancelled', 'processing', 'paid');
    await sendBack();
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'by_shop' });
  });

  test('an order that is opened again has no reason, and undoing that brings it back', async () => {
    await expire();
    const opened = await set('pending', 'cancelled');
    expect(await reason()).toEqual({ status: 'pending', cancel_reason: null });
    await call(database, 'staff', 'undo_status_change', { change_id: opened.change_id });
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: 'not_paid_in_time' });
  });

  test('another writer can leave the reason open, and invents none', async () => {
    await change(`status = 'cancelled'`);
    expect(await reason()).toEqual({ status: 'cancelled', cancel_reason: null });
    await expect(change(`cancel_reason = 'bored'`)).rejects.toThrow('a reason for cancelling is known');
    await change(`status = 'pending'`);
    await expect(change(`cancel_reason = 'by_shop'`)).rejects.toThrow(
      'only a cancelled order has a reason for it',
    );
  });
});
