// Messages to customers: queued with what they tell, each once, and never in the way of it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../../backend/database/database.ts';
import { testDatabases } from '../../backend/database/throwaway.ts';
import { call, makeProduct, openShopDatabase, orderForm, type PlacedOrder } from './shop-database.ts';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  beforeAll(async () => {
    database = await openShopDatabase(kind);
  });
  afterAll(() => database.close());

  const placeOrder = async (form: Record<string, unknown> = {}): Promise<PlacedOrder> => {
    const product = await makeProduct(database, 10);
    return call<PlacedOrder>(database, 'visitor', 'place_order', { ...orderForm(product), ...form });
  };
  const set = (order: PlacedOrder, change: string) =>
    database.query(`update public.orders set ${change} where id = $1`, [order.id]);
  /** `kind channel recipient` of each message of an order, in no order. */
  const told = async (order: PlacedOrder): Promise<string[]> => {
    const { rows } = await database.query<{ told: string }>(
      `select concat_ws(' ', m.kind, nullif(m.occasion, ''), m.channel, m.recipient) as told
       from public.outbox_messages as m join private.outbox_queue as q on q.message_id = m.id
       where m.order_id = $1 and m.status = 'waiting' order by 1`,
      [order.id],
    );
    return rows.map((row) => row.told);
  };

  test('each step of an order is told by mail and by text, once however often it is taken', async () => {
    const order = await placeOrder();
    const both = (step: string) => [`${step} mail amina@example.com`, `${step} text +254712345678`];
    expect(await told(order)).toEqual(both('order_received'));
    await set(order, `payment_status = 'paid', status = 'processing'`);
    await set(order, `status = 'shipped'`);
    await set(order, `status = 'out_for_delivery'`);
    await set(order, `status = 'delivered'`);
    await set(order, `status = 'out_for_delivery'`);
    await set(order, `status = 'delivered'`);
    expect(await told(order)).toEqual(
      ['order_delivered', 'order_on_its_way', 'order_paid', 'order_received'].flatMap(both),
    );
    await set(order, `payment_status = 'refunded'`);
    expect(await told(order)).toEqual(
      ['order_delivered', 'order_on_its_way', 'order_paid', 'order_received', 'order_refunded'].flatMap(both),
    );
  });

  test('money that waits for a decision is told of, and a cancelled order that was never paid is not', async () => {
    const held = await placeOrder();
    await set(held, `payment_status = 'needs_decision'`);
    expect(await told(held)).toContain('order_payment_held text +254712345678');
    const cancelled = await placeOrder();
    await set(cancelled, `status = 'cancelled'`);
    expect(await told(cancelled)).toHaveLength(2);
  });

  test('an occasion of its own is told beside the others, and the same one again is not', async () => {
    const order = await placeOrder();
    const queue = (occasion: string) =>
      database.query(`select private.queue_order_messages($1, 'order_refunded', $2)`, [order.id, occasion]);
    await queue('first');
    await queue('second');
    await queue('second');
    expect((await told(order)).filter((line) => line.startsWith('order_refunded'))).toEqual([
      'order_refunded first mail amina@example.com',
      'order_refunded first text +254712345678',
      'order_refunded second mail amina@example.com',
      'order_refunded second text +254712345678',
    ]);
  });

  test('what is undone is not told, and what cannot be told is done all the same', async () => {
    const order = await placeOrder();
    await database
      .transaction(async (session) => {
        await session.query(`update public.orders set payment_status = 'paid' where id = $1`, [order.id]);
        throw new Error('the process gave up');
      })
      .catch(() => {});
    expect(await told(order)).toHaveLength(2);

    await database.query(`select private.queue_order_messages($1, 'a kind that nobody knows')`, [order.id]);
    await database.execute(
      `alter table public.outbox_messages add constraint "nothing more" check (order_id <> '${order.id}') not valid`,
    );
    await set(order, `payment_status = 'paid'`);
    await database.execute('alter table public.outbox_messages drop constraint "nothing more"');
    const { rows } = await database.query(`select payment_status from public.orders where id = $1`, [
      order.id,
    ]);
    expect(rows).toEqual([{ payment_status: 'paid' }]);
    expect(await told(order)).toHaveLength(2);
  });

  test('an order that is deleted takes its messages along', async () => {
    const order = await placeOrder();
    await database.query('delete from public.orders where id = $1', [order.id]);
    const { rows } = await database.query('select from public.outbox_messages where order_id = $1', [
      order.id,
    ]);
    expect(rows).toEqual([]);
  });
});
