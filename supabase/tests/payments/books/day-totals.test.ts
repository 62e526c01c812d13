// The totals of a day follow from each other and equal the sums of rows, for any books.
import { testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { personIds } from '../../shop-database.ts';
import { setUpShop } from '../../steps.ts';
import { expectExplainedDays } from './explained-days.ts';

const days = ['2026-11-20', '2026-11-21', '2026-11-22'] as const;
/** A time in Nairobi, also in the first and last minutes of a day. */
const time = fc
  .tuple(fc.constantFrom(...days), fc.constantFrom('00:00:00', '00:00:30', '09:15:00', '23:59:30'))
  .map(([day, clock]) => `${day}T${clock}+03:00`);
const payment = fc.record({
  cents: fc.integer({ min: 1, max: 3000 }).map((shillings) => shillings * 100),
  status: fc.constantFrom('completed', 'completed', 'completed', 'failed', 'review'),
  completed_at: time,
  needs_refund: fc.boolean(),
  /** M-PESA's time; null without a transaction. */
  transacted_at: fc.option(time),
  refunded_at: fc.option(time, { freq: 3 }),
  /** When one shilling of it went back as change. */
  returned_at: fc.option(time),
  /** When two shillings of it were kept for the customer. */
  kept_at: fc.option(time),
  isCash: fc.boolean(),
  /** Money at M-PESA besides that no order has, and what staff decided about it. */
  strange: fc.option(fc.record({ at: time, resolution: fc.constantFrom(null, 'not_an_order', 'refund') }), {
    freq: 3,
  }),
});
const order = fc.record({
  placed_at: time,
  total: fc.integer({ min: 1, max: 300_000 }),
  payment_status: fc.constantFrom('unpaid', 'paid', 'paid', 'needs_review', 'refunded'),
  payments: fc.array(payment, { maxLength: 3 }),
});

type Order = typeof order extends fc.Arbitrary<infer Drawn> ? Drawn : never;

const paidBefore: Order = {
  placed_at: '2026-11-21T09:15:00+03:00',
  total: 100,
  payment_status: 'paid',
  payments: [
    {
      cents: 100,
      status: 'completed',
      completed_at: '2026-11-21T09:15:00+03:00',
      needs_refund: false,
      transacted_at: null,
      refunded_at: null,
      returned_at: null,
      kept_at: null,
      isCash: false,
      strange: null,
    },
  ],
};

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database } = shop;
  let count = 0;

  async function add({ placed_at, total, payment_status, payments }: Order) {
    count += 1;
    const { rows } = await database.query<{ id: string }>(
      `insert into public.orders (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address,
         delivery_fee, total_amount, status, payment_status, created_at)
       values ('T-' || $1::text, 'JJ-20261120-' || (10000 + $1::integer), 'Amina', 'a@mail.example', '+254712345678', 'Karen', 0, $2,
         'processing', $3, $4) returning id`,
      [count, total, payment_status, placed_at],
    );
    for (const [index, given] of payments.entries()) {
      const isCash = given.isCash && given.status !== 'review';
      const isCompleted = given.status === 'completed';
      const receipt = `T${count.toString(36).toUpperCase().padStart(8, '0')}${index}`;
      const paid = await database.query<{ id: string }>(
        `insert into public.payments (order_id, phone, charge_cents, status, method, receipt, completed_at, needs_refund, confirmed_by)
         values ($1, $7, $2, $3, $8, $4, $5, $6, $9) returning id`,
        [
          rows[0]?.id,
          given.cents,
          given.status,
          isCompleted && !isCash ? receipt : null,
          isCompleted ? given.completed_at : null,
          isCompleted && given.needs_refund,
          isCash ? '' : '+254712345678',
          isCash ? 'cash' : index % 2 === 0 ? 'till' : 'prompt',
          isCash ? personIds.staff : null,
        ],
      );
      if (given.strange) {
        await database.query(
          `insert into public.mpesa_transactions (receipt, received_cents, transacted_at, resolution) values ($1, 700, $2, $3)`,
          [`X${receipt.slice(1)}`, given.strange.at, given.strange.resolution],
        );
      }
      if (!isCompleted) continue;
      if (given.transacted_at && !isCash) {
        await database.query(
          `insert into public.mpesa_transactions (receipt, received_cents, transacted_at, payment_id) values ($1, $2, $3, $4)`,
          [receipt, given.cents, given.transacted_at, paid.rows[0]?.id],
        );
      }
      if (given.returned_at) {
        await database.query(
          `insert into public.change_notes (payment_id, kind, amount_cents, noted_at) values ($1, 'returned', 100, $2), ($1, 'credit', 100, $2)`,
          [paid.rows[0]?.id, given.returned_at],
        );
      }
      if (given.kept_at) {
        await database.query(
          `insert into public.change_notes (payment_id, kind, amount_cents, noted_at) values ($1, 'to_return', 200, $2)`,
          [paid.rows[0]?.id, given.kept_at],
        );
      }
      if (given.refunded_at) {
        await database.query(
          `insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, completed_at, refund_receipt)
           values ($1, $2, $3, 'Random', $6, 'completed', $4, $5)`,
          [
            paid.rows[0]?.id,
            isCash ? null : receipt,
            given.cents,
            given.refunded_at,
            isCash ? null : `R${receipt.slice(1)}`,
            isCash ? 'cash' : 'by_hand',
          ],
        );
        await database.query('update public.payments set refunded_at = $2 where id = $1', [
          paid.rows[0]?.id,
          given.refunded_at,
        ]);
      }
    }
  }

  test('every step of a day adds up, and the ends are the dashboard, the books, the files and the reports', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(order, { minLength: 1, maxLength: 4 }), async (added) => {
        for (const one of added) await add(one);
        await expectExplainedDays(shop);
        for (const day of days) {
          // Of the file of orders: the columns Total and Received.
          const file = await shop.readRow<{ total: string; received: string }>(
            `select coalesce(sum(case when payment_status = 'unpaid' then total_amount else charge_cents end), 0) as total,
               coalesce(sum((select sum(p.charge_cents) from public.payments as p where p.order_id = o.id and p.status = 'completed')), 0)
                 as received
             from public.orders as o where private.nairobi_day(o.created_at) = $1`,
            [day],
          );
          const totals = await shop.queryAs<Record<'placed' | 'rounding' | 'received_for_orders', string>>(
            'staff',
            'select * from public.day_totals($1)',
            [day],
          );
          const [t] = totals.rows;
          expect([Number(t?.placed) + Number(t?.rounding), Number(t?.received_for_orders)]).toEqual(
            [file?.total, file?.received].map(Number),
          );
        }
      }),
      // Rarely drawn: the only payment of its order, complete before it was made, which no statement covers.
      { numRuns: 12, examples: [[[paidBefore]]] },
    );
  });
});
