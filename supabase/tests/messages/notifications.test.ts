// How many notifications an order costs: each transaction with one waits for the database's only queue of notifications.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeProduct } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

const channels = ['page_changes', 'realtime_changes', 'realtime_messages'];

describe.each(testDatabases())('on %s', (kind) => {
  const { database, place, begin } = setUpShop(kind);
  let product: string;
  const received: string[] = [];
  let onStepEnd = () => {};
  const stops: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    product = await makeProduct(database, 1000);
    await database.query('select realtime.watch_tables()');
    for (const channel of channels) stops.push(await database.listen(channel, () => received.push(channel)));
    stops.push(await database.listen('step_ended', () => onStepEnd()));
  });
  afterAll(async () => {
    for (const stop of stops) await stop();
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
    const order = await place(product);
    const counts = {
      placed: await notificationsOf(() => place(product)),
      prompted: await notificationsOf(() => begin(order, { phone: order.customer_phone })),
      paid: await notificationsOf(() =>
        database.query(
          `update public.orders set payment_status = 'paid', status = 'processing' where id = $1`,
          [order.id],
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
