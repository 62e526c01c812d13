// Random histories of what is kept for one customer: paid too much, used, taken back, cancelled, given back and refunded in part, in any
// order, also receipts that staff type with too much money before M-PESA reports less. What is owed is what a model of a few lines says, and the books stay balanced after every step.
import { testDatabases } from '@jani-juice/backend/testing';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { makeProduct, type PlacedOrder, refusalOf } from '../shop-database.ts';
import { newPhone, newReceipt, type Payment, setUpShop } from '../steps.ts';
import { expectBalancedBooks } from './books/balanced-books.ts';

const charge = 95_100;

const act = fc.oneof(
  fc.record({
    act: fc.constant('overpay' as const),
    cents: fc.constantFrom(100, 19_000, charge, 2 * charge),
  }),
  fc.record({ act: fc.constant('use' as const) }),
  fc.record({ act: fc.constant('use with cash' as const), cents: fc.constantFrom(100, 19_000, 90_000) }),
  fc.record({ act: fc.constant('use with till' as const), cents: fc.constantFrom(100, 19_000, 90_000) }),
  fc.record({ act: fc.constant('pay twice and keep' as const) }),
  fc.record({
    act: fc.constant('type too much' as const),
    cents: fc.constantFrom(100, 19_000, charge, 2 * charge),
  }),
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constantFrom(
        'take back',
        'cancel',
        'give back',
        'refund a part',
        'refund',
        'ship',
        'pay again',
        'report less',
      ),
      number: fc.nat(20),
      cents: fc.constantFrom(100, 5000, 19_000, charge),
    }),
  },
);
type Act = typeof act extends fc.Arbitrary<infer Drawn> ? Drawn : never;

/** Each act once, where it is possible. */
const everyAct: Act[] = [
  { act: 'overpay', cents: 2 * charge },
  { act: 'use' },
  { act: 'take back', number: 1, cents: 100 },
  { act: 'give back', number: 0, cents: 100 },
  { act: 'refund a part', number: 0, cents: 100 },
  { act: 'use' },
  { act: 'pay again', number: 1, cents: 100 },
  { act: 'ship', number: 1, cents: 100 },
  { act: 'use with till', cents: 19_000 },
  { act: 'overpay', cents: charge },
  { act: 'use' },
  { act: 'cancel', number: -1, cents: 100 },
  { act: 'refund', number: -1, cents: 100 },
  { act: 'pay twice and keep' },
  { act: 'use with cash', cents: 19_000 },
  { act: 'type too much', cents: 2 * charge },
  { act: 'use' },
  { act: 'report less', number: 0, cents: charge },
];

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, readRows, readValue, place, pay, receive, confirm, setStatus } = shop;
  const { totalReceived, requestRefund } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 100_000);
  });

  /** Whether the shop did it; it may refuse anything, with a code, but nothing else may fail. */
  const did = async (attempt: Promise<unknown>) => (await refusalOf(attempt)) === null;
  const owedTo = (phone: string) =>
    readValue<string>(
      `select coalesce(sum(change.owed_cents), 0)::text
       from public.orders as o join public.payments as p on p.order_id = o.id and p.status = 'completed' and p.refunded_at is null
       cross join lateral private.change_of(p.id) as change where o.customer_phone = $1`,
      [phone],
    ).then(Number);

  test('what is owed follows each act, and no shilling is used twice', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 4, maxLength: 14 }), async (acts: Act[]) => {
        const phone = `+254${newPhone().slice(1)}`;
        const orders: PlacedOrder[] = [];
        const order = async () => {
          const placed = await place(product, { customer_phone: phone });
          orders.push(placed);
          return placed;
        };
        const payments = () =>
          readRows<
            Payment & {
              owed: string;
              gone: string;
              parts: string;
              order_status: string;
              is_reported: boolean;
            }
          >(
            `select p.*, change.owed_cents::text as owed, (change.used_cents + change.returned_cents - parts.cents)::text as gone,
               parts.cents::text as parts, o.status as order_status,
               exists (select from public.mpesa_transactions as t where t.receipt = p.receipt) as is_reported
             from public.payments as p join public.orders as o on o.id = p.order_id
             cross join lateral private.change_of(p.id) as change
             cross join lateral (
               select coalesce(sum(c.amount_cents), 0) as cents from public.change_notes as c where c.payment_id = p.id and c.is_part_refund
             ) as parts
             where o.customer_phone = $1 and p.status = 'completed' order by p.created_at, p.id`,
            [phone],
          );
        let owed = 0;
        let money = await totalReceived();
        for (const one of acts) {
          let moved = 0;
          if (one.act === 'overpay') {
            await asStaff('receive_cash', {
              order_id: (await order()).id,
              received_cents: charge + one.cents,
              difference: 'credit',
            });
            owed += one.cents;
            moved = charge + one.cents;
          } else if (one.act === 'use') {
            const isDone = await did(asStaff('use_credit', { order_id: (await order()).id }));
            expect(isDone).toBe(owed >= charge);
            if (isDone) owed -= charge;
          } else if (one.act === 'use with cash') {
            const isDone = await did(
              asStaff('receive_cash', {
                order_id: (await order()).id,
                received_cents: charge - one.cents,
                difference: 'from_credit',
              }),
            );
            expect(isDone).toBe(owed >= one.cents);
            if (isDone) {
              owed -= one.cents;
              moved = charge - one.cents;
            }
          } else if (one.act === 'use with till') {
            const placed = await order();
            const receipt = newReceipt();
            await receive(placed, receipt, { received_cents: charge - one.cents });
            await asStaff('resolve_difference', { decision: 'give', receipt, order_id: placed.id });
            moved = charge - one.cents;
            const isDone = await did(asStaff('use_credit', { order_id: placed.id }));
            expect(isDone).toBe(owed >= one.cents);
            if (isDone) owed -= one.cents;
          } else if (one.act === 'type too much') {
            const placed = await order();
            const typed = charge + one.cents;
            await confirm(placed, newReceipt(), { received_cents: typed });
            await asStaff('resolve_review', {
              order_id: placed.id,
              decision: 'deliver_with_credit',
              seen_cents: typed,
            });
            owed += one.cents;
            moved = typed;
          } else if (one.act === 'pay twice and keep') {
            const placed = await order();
            await pay(placed);
            const receipt = newReceipt();
            await receive(placed, receipt);
            await asStaff('resolve_difference', { decision: 'accept', receipt });
            owed += charge;
            moved = 2 * charge;
          } else {
            const all = await payments();
            const possible = all.filter(({ method, owed: own, is_reported, refunded_at }) =>
              one.act === 'give back'
                ? Number(own) >= one.cents
                : one.act === 'report less'
                  ? method === 'till' && !is_reported && refunded_at === null
                  : one.act !== 'take back' || method === 'cash' || method === 'credit',
            );
            const chosen = possible.at(
              one.number < 0 ? one.number : one.number % Math.max(possible.length, 1),
            );
            if (!chosen) continue;
            const before = await owedTo(phone);
            const own = Number(chosen.owed);
            let isDone = false;
            if (one.act === 'take back') {
              const procedure = chosen.method === 'cash' ? 'take_back_cash' : 'take_back_credit';
              const credit = all
                .filter(
                  (p) => p.order_id === chosen.order_id && p.method === 'credit' && p.refunded_at === null,
                )
                .reduce((sum, p) => sum + p.charge_cents, 0);
              isDone = await did(asStaff(procedure, { payment_id: chosen.id, reason: 'By mistake' }));
              if (isDone) owed += credit;
              if (isDone && chosen.method === 'cash') moved = -chosen.charge_cents;
            } else if (one.act === 'give back') {
              isDone = await did(
                asStaff('note_change', {
                  payment_id: chosen.id,
                  kind: 'returned',
                  amount_cents: one.cents,
                  way: 'mpesa',
                  receipt: newReceipt(),
                }),
              );
              if (isDone) {
                expect(own).toBeGreaterThanOrEqual(one.cents);
                owed -= one.cents;
                moved = -one.cents;
              }
            } else if (one.act === 'refund a part') {
              isDone = await did(
                asStaff('refund_part', {
                  payment_id: chosen.id,
                  amount_cents: one.cents,
                  way: 'cash',
                  reason: 'A drink was missing',
                }),
              );
              if (isDone) moved = -one.cents;
            } else if (one.act === 'refund') {
              const left = Number(
                await readValue(
                  'select private.left_to_refund(p)::text from public.payments as p where p.id = $1',
                  [chosen.id],
                ),
              );
              isDone = await did(
                chosen.method === 'credit'
                  ? requestRefund(chosen)
                  : chosen.method === 'cash'
                    ? asStaff('give_back_cash', { payment_id: chosen.id, reason: 'Cancelled' })
                    : asStaff('note_refund_by_hand', {
                        payment_id: chosen.id,
                        refund_receipt: newReceipt(),
                        reason: 'Cancelled',
                      }),
              );
              if (isDone && chosen.method === 'credit') owed += chosen.charge_cents;
              if (isDone && chosen.method !== 'credit') {
                owed -= own;
                moved = -left;
              }
            } else if (one.act === 'report less') {
              const came = Math.max(chosen.charge_cents - one.cents, 100);
              await receive('juice', chosen.receipt as string, { received_cents: came });
              // The order's charge comes first, then what left, and last what is owed.
              const surplus = came - Number(chosen.gone) - Math.max(charge, Number(chosen.parts));
              owed -= own - Math.min(own, Math.max(surplus, 0));
              const now = (await payments()).find(({ id }) => id === chosen.id) as Payment;
              // An order that left the shop keeps its amount, as a difference.
              expect([
                came,
                ...(['shipped', 'cancelled'].includes(chosen.order_status) ? [chosen.charge_cents] : []),
              ]).toContain(now.charge_cents);
              moved = now.charge_cents - chosen.charge_cents;
              isDone = true;
            } else if (one.act === 'pay again') {
              const of = orders.find(({ id }) => id === chosen.order_id) as PlacedOrder;
              await receive(of);
              moved = charge;
              isDone = true;
            } else {
              isDone = await did(
                setStatus({ id: chosen.order_id as string }, one.act === 'cancel' ? 'cancelled' : 'shipped'),
              );
            }
            if (!isDone) expect(await owedTo(phone)).toBe(before);
            if (isDone) seen.add(one.act);
          }
          expect(await owedTo(phone), one.act).toBe(owed);
          expect(await totalReceived(), one.act).toBe(money + moved);
          money += moved;
          await expectBalancedBooks(database);
        }
      }),
      // The embedded database checks the books many times slower.
      { numRuns: kind === 'pglite' ? 3 : 20, examples: [[everyAct]] },
    );
    expect([...seen].sort()).toEqual(
      [
        'cancel',
        'give back',
        'pay again',
        'refund',
        'refund a part',
        'report less',
        'ship',
        'take back',
      ].sort(),
    );
  });
});
