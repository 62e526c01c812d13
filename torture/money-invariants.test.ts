// Each invariant is violated once and must be reported.
import { randomUUID } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readInvariants } from '../scripts/databases/money-invariants.ts';
import { shopMigrations } from '../scripts/databases/shop-migrations.ts';
import { findViolations, type LedgerPage } from './money-invariants.ts';

const CHARGE = 95_000;

describe.skipIf(!testDatabases().includes('postgresql'))('an invariant about money', () => {
  let database: Database & { url?: string };
  const stock = new Map<string, number>();
  const ledger: LedgerPage = { transactions: [], prompts: [], requests: [] };
  let drawn = 0;

  beforeAll(async () => {
    database = await throwawayDatabase('postgresql', shopMigrations);
  });
  afterAll(() => database.close());

  const violations = async (isAtRest = true) =>
    findViolations(database.url ?? '', async () => ledger, stock, isAtRest);
  const invariants = async (isAtRest = true) =>
    (await violations(isAtRest)).map(({ invariant }) => invariant);

  /** A correctly paid order with its own product. */
  async function paidOrder() {
    drawn += 1;
    const [id, product, payment] = [randomUUID(), randomUUID(), randomUUID()];
    const receipt = `UKL${String(drawn).padStart(7, '0')}`;
    const checkoutRequestId = `ws_CO_${drawn}`;
    const number = String(1000 + drawn);
    stock.set(product, 5);
    await database.query(
      `insert into public.products (id, name, slug, price, stock_quantity)
       values ($1, 'Mango', $2, 95000, 4)`,
      [product, product],
    );
    await database.query(
      `insert into public.orders (id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
       values ($1, $2, 'Amina', 'amina@example.com', '+254712345678', 'Westlands', 0, 95000)`,
      [id, `JJ-20261121-${number}`],
    );
    await database.query(
      `insert into public.order_items (order_id, product_id, product_name, quantity, unit_price) values ($1, $2, 'Mango', 1, 95000)`,
      [id, product],
    );
    await database.query(
      `insert into public.payments (id, order_id, phone, charge_cents, status, receipt, checkout_request_id, completed_at)
       values ($1, $2, '+254712345678', 95000, 'completed', $3, $4, now())`,
      [payment, id, receipt, checkoutRequestId],
    );
    await database.query(
      `insert into public.payment_messages (payment_id, source, body, outcome) values ($1, 'callback', '{}', 'paid')`,
      [payment],
    );
    await database.query(`update public.orders set payment_status = 'paid' where id = $1`, [id]);
    await database.query('insert into public.deliveries (order_id) values ($1)', [id]);
    const reference = `JJ261121${number}`;
    ledger.transactions.push({
      receipt,
      at: Date.now(),
      amount: CHARGE / 100,
      reference,
      checkoutRequestId,
      reversal: null,
    });
    ledger.prompts.push({
      checkoutRequestId,
      accountReference: reference,
      phone: '254712345678',
      state: 'decided',
    });
    return { id, product, payment, receipt, checkoutRequestId };
  }

  /** A correctly refunded order. */
  async function refundedOrder() {
    const order = await paidOrder();
    const sentBy = `UKM${String(drawn).padStart(7, '0')}`;
    await database.query(
      `with refund as (
         insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, refund_receipt, tries, completed_at)
         values ($1, $2, 95000, 'Came for nothing', 'reversal', 'completed', $3, 1, now())
         returning id
       )
       insert into public.payment_messages (refund_id, source, body, outcome)
       select id, 'reversal_result', '{}', 'completed' from refund`,
      [order.payment, order.receipt, sentBy],
    );
    // The order follows.
    await database.query('update public.payments set refunded_at = now() where id = $1', [order.payment]);
    const transaction = ledger.transactions.at(-1);
    if (transaction) transaction.reversal = { receipt: sentBy, amount: CHARGE / 100 };
    ledger.requests.push({
      api: 'reversals',
      receipt: order.receipt,
      resultUrl: `http://shop.test/reversal/${drawn}/result`,
    });
    return order;
  }

  test('holds for correct books', async () => {
    await paidOrder();
    await refundedOrder();
    expect(await violations()).toEqual([]);
  });

  type Order = Awaited<ReturnType<typeof paidOrder>>;
  const run = (sql: string, parameters: string[]) => database.query(sql, parameters);
  const cases: [RegExp, (order: Order) => Promise<unknown> | undefined][] = [
    // Checked first, because it is one row however much is missing.
    [
      /all money that moved is in the books/,
      ({ checkoutRequestId }) => {
        ledger.transactions.push({
          receipt: 'UKLNOBODY0',
          at: 0,
          amount: 1,
          reference: '',
          checkoutRequestId: `${checkoutRequestId}x`,
          reversal: null,
        });
        return undefined;
      },
    ],
    [
      /every transaction is one completed payment/,
      ({ payment }) => run(`update public.payments set receipt = 'UKLOTHER00' where id = $1`, [payment]),
    ],
    [
      /no payment is completed without a transaction/,
      ({ payment }) =>
        run('update public.payments set charge_cents = charge_cents + 100 where id = $1', [payment]),
    ],
    [
      /an order costs what its items and its delivery cost/,
      ({ id }) => run('update public.orders set total_amount = total_amount - 100 where id = $1', [id]),
    ],
    [
      /the discount of an order is what its code takes off/,
      async ({ id }) => {
        await run(`insert into public.discount_codes (code, percent) values ('TENTH', 10)`, []);
        await run(
          `update public.orders set discount_code = 'TENTH', discount_cents = 9400, total_amount = total_amount - 9400 where id = $1`,
          [id],
        );
      },
    ],
    [
      /no discount code has more uses than it allows/,
      async ({ id }) => {
        await run(`insert into public.discount_codes (code, percent, max_uses) values ('ONCE', 10, 1)`, []);
        const { id: other } = await paidOrder();
        await run(
          `update public.orders set discount_code = 'ONCE', discount_cents = 9500, total_amount = total_amount - 9500
           where id in ($1, $2)`,
          [id, other],
        );
      },
    ],
    [
      /an order is paid if and only if its money arrived/,
      ({ payment }) => run(`update public.payments set status = 'unresolved' where id = $1`, [payment]),
    ],
    [
      /an unpaid order has no money/,
      ({ id }) => run(`update public.orders set payment_status = 'unpaid' where id = $1`, [id]),
    ],
    [
      /one payment of an order, or parts that staff assigned, pays it/,
      ({ id }) =>
        run(
          `insert into public.payments (order_id, phone, charge_cents, status) values ($1, '', 95000, 'completed')`,
          [id],
        ),
    ],
    [
      /stock is the initial stock/,
      ({ product }) => run('update public.products set stock_quantity = 5 where id = $1', [product]),
    ],
    [
      /the history of the stock has no gap/,
      ({ product }) =>
        run(
          `insert into public.stock_changes (product_id, from_units, to_units, cause) values ($1, 4, 9, 'edited')`,
          [product],
        ),
    ],
    [
      /an order that is paid, or paid in cash at the door, has one delivery/,
      ({ id }) => run('delete from public.deliveries where order_id = $1', [id]),
    ],
    [
      /has the original message that ended it/,
      ({ payment }) => run('delete from public.payment_messages where payment_id = $1', [payment]),
    ],
    [
      /the customer of a paid order gets one text/,
      ({ id }) => run(`delete from public.outbox_messages where order_id = $1 and channel = 'mail'`, [id]),
    ],
    [
      /no failed payment has money/,
      ({ payment }) =>
        run(`update public.payments set status = 'failed', receipt = null where id = $1`, [payment]),
    ],
    [
      /no payment is open that M-PESA has decided/,
      ({ payment }) =>
        run(`update public.payments set status = 'processing', receipt = null where id = $1`, [payment]),
    ],
    [
      /an ended payment is not queried/,
      ({ payment }) => run('update public.payments set next_query_at = now() where id = $1', [payment]),
    ],
    [
      /the rows of what moved money on a day add up to its figures/,
      // On a day without any other money: each violation is a day.
      () => run(`insert into private.daily_totals (day, received_cents) values ('2020-02-02', 100)`, []),
    ],
    [
      /a press of a rider counts once/,
      ({ id }) =>
        run(
          `with rider as (
             insert into public.riders (name, phone, vehicle)
             values ('Brian', '+2547' || lpad((random() * 99999999)::int::text, 8, '0'), 'Van') returning id
           ), link as (
             insert into public.rider_links (rider_id, secret_hash, expires_at)
             select r.id, encode(sha256(r.id::text::bytea), 'hex'), now() from rider as r returning id
           )
           insert into private.rider_presses (press_key, link_id, delivery_id, request_hash, outcome)
           select gen_random_uuid(), l.id, d.id, '', '{"outcome": "done"}' from link as l, public.deliveries as d where d.order_id = $1`,
          [id],
        ),
    ],
    [
      /no more than five wrong codes are compared/,
      ({ id }) => run('update public.deliveries set wrong_codes = 6 where order_id = $1', [id]),
    ],
    [
      /cash that a rider collected is on the timeline/,
      ({ id }) => run('update public.deliveries set collected_cents = 95000 where order_id = $1', [id]),
    ],
    [
      /the counted cash of a closed day is that of its totals/,
      () =>
        run(
          `insert into public.day_closes (day, totals, closed_by)
           values ('2020-02-02', '{"in_cash": 100, "refunded_in_cash": 0}', gen_random_uuid())`,
          [],
        ),
    ],
  ];

  test.each(cases)('reports a violation of %s', async (invariant, breakIt) => {
    const order = await paidOrder();
    const before = await invariants();
    await breakIt(order);
    const after = (await invariants()).filter((one) => invariant.test(one));
    expect(after.length).toBeGreaterThan(before.filter((one) => invariant.test(one)).length);
  });

  const refundCases: [RegExp, (order: Order) => Promise<unknown> | undefined][] = [
    [
      /a refund is completed only by a full reversal/,
      ({ receipt }) => {
        const transaction = ledger.transactions.find((known) => known.receipt === receipt);
        if (transaction) transaction.reversal = null;
        return undefined;
      },
    ],
    [
      /every reversal is one completed refund/,
      ({ payment }) => run(`update public.refunds set status = 'failed' where payment_id = $1`, [payment]),
    ],
    [
      /each refund is requested from M-PESA once/,
      () => {
        ledger.requests.push(...ledger.requests.slice(-1));
        return undefined;
      },
    ],
    [
      /no refund is requested from M-PESA that staff did not request/,
      ({ payment }) => run('update public.refunds set tries = 0 where payment_id = $1', [payment]),
    ],
    [
      /refunds do not exceed the transactions/,
      ({ payment }) =>
        run('update public.refunds set refund_cents = refund_cents + 100 where payment_id = $1', [payment]),
    ],
    [
      /no money both pays an order and is refunded/,
      ({ id }) =>
        run(`update public.orders set payment_status = 'paid', status = 'processing' where id = $1`, [id]),
    ],
    [
      /an order is refunded if and only if/,
      ({ id }) => run(`update public.orders set payment_status = 'needs_review' where id = $1`, [id]),
    ],
    [
      /a payment is refunded if and only if/,
      ({ payment }) => run('update public.payments set refunded_at = null where id = $1', [payment]),
    ],
    [
      /a refund above the limit is sent only after two staff members agreed/,
      () => run('update public.store_settings set refund_approval_above = 0', []),
    ],
    [
      /that went back by M-PESA or by hand gets one text/,
      ({ id }) =>
        run(
          `delete from public.outbox_messages where order_id = $1 and kind = 'order_refunded' and channel = 'text'`,
          [id],
        ),
    ],
    [
      /no refund is open/,
      ({ payment }) => run(`update public.refunds set status = 'sent' where payment_id = $1`, [payment]),
    ],
  ];

  test.each(refundCases)('reports a violation by refunds of %s', async (invariant, breakIt) => {
    const order = await refundedOrder();
    const before = await invariants();
    await breakIt(order);
    const after = (await invariants()).filter((one) => invariant.test(one));
    expect(after.length).toBeGreaterThan(before.filter((one) => invariant.test(one)).length);
  });

  test('skips the invariants at rest while payments cannot be queried yet', async () => {
    const whileRunning = new Set(await invariants(false));
    const atRest = (await readInvariants()).filter(({ isAtRest }) => isAtRest);
    expect(atRest.filter(({ title }) => whileRunning.has(title))).toEqual([]);
  });
});
