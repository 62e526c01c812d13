// How many notifications an order costs: each transaction with one waits for the database's only queue of notifications.
import { randomUUID } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, makeProduct, openShopDatabase, orderForm, type PlacedOrder } from '../shop-database.ts';

const channels = ['page_changes', 'realtime_changes', 'realtime_messages'];

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  const received: string[] = [];
  let onStepEnd = () => {};
  const stops: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
    await database.query('select realtime.watch_tables()');
    for (const channel of channels) stops.push(await database.listen(channel, () => received.push(channel)));
    stops.push(await database.listen('step_ended', () => onStepEnd()));
  });
  afterAll(async () => {
    for (const stop of stops) await stop();
    await database.close();
  });

  /** Number of notifications of a step. They arrive in the order of commits: the step's before those of its end. */
  async function notificationsOf(step: () => Promise<unknown>): Promise<number> {
    received.length = 0;
    await step();
    const ended = new Promise<void>((done) => {
      onStepEnd = done;
    });
    await database.query(`select pg_notify('step_ended', '')`);
    await ended;
    return received.length;
  }

  test('placing an order causes none, and its payment at most five, three per transaction, however many rows change', async () => {
    // The first order of a product may change its page.
    await call(database, 'visitor', 'place_order', orderForm(product));
    let order: PlacedOrder | undefined;
    const counts = {
      placed: await notificationsOf(async () => {
        order = await call<PlacedOrder>(database, 'visitor', 'place_order', orderForm(product));
      }),
      prompted: await notificationsOf(() =>
        call(database, 'service', 'begin_payment', {
          order_id: order?.id,
          tracking_number: order?.tracking_number,
          phone: order?.customer_phone,
          callback_secret: randomUUID(),
        }),
      ),
      paid: await notificationsOf(() =>
        database.query(
          `update public.orders set payment_status = 'paid', status = 'processing' where id = $1`,
          [order?.id],
        ),
      ),
    };
    // One for each topic of the order.
    for (const [step, count] of Object.entries(counts)) expect(count, step).toBeLessThanOrEqual(3);
    expect(counts.placed + counts.prompted + counts.paid).toBeLessThanOrEqual(5);
    // PostgreSQL makes transactions that notify commit one after another.
    expect(counts.placed).toBe(0);
  });
});
