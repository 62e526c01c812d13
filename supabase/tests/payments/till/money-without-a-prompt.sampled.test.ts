// Money reported by confirmations and the statement: each receipt once, in any order with all other messages.
import { testDatabases } from '@jani-juice/backend/testing';
import { assert, asyncProperty, constantFrom, shuffledSubarray } from 'fast-check';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../../scripts/tests/test-depth.ts';
import { expectRefusal, makeProduct, type PlacedOrder } from '../../shop-database.ts';
import { byQuery, concurrently, failed, newReceipt, type Payment, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from '../books/balanced-books.ts';
import { expectExplainedDays } from '../books/explained-days.ts';

const charge = 190_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asService, readColumn, readValue, place, expire, stateOf, prompt, settle } = shop;
  const { receive, confirm, requestRefund } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeEach(placeNewOrder);
  afterEach(() => expectBalancedBooks(database));
  afterAll(() => expectExplainedDays(shop));

  /** An order of two of five units. */
  async function placeNewOrder(): Promise<void> {
    product = await makeProduct(database, 5);
    order = await place(product, { quantity: 2 });
  }
  const books = () => stateOf(order, { withReceipts: true });
  const unmatched = () =>
    readColumn('select receipt from public.mpesa_transactions where payment_id is null order by created_at');

  describe('a confirmation', () => {
    test('completes the open attempt of the order in its reference', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      expect(await receive(order, code)).toMatchObject({
        outcome: 'paid',
        payment: { id: attempt.id, receipt: code, presumption: 'attempt' },
      });
      expect(await books()).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: [`prompt completed ${code} 1901`],
        stock: 3,
      });
      expect(await receive(order, code)).toMatchObject({ outcome: 'already_completed' });
      expect(await settle(attempt, { receipt: code })).toMatchObject({
        outcome: 'already_completed',
        payment: { presumption: null },
      });
    });

    test('of a payment by hand becomes a separate payment', async () => {
      const attempt = await prompt(order);
      await settle(attempt, failed);
      const code = newReceipt();
      expect(await receive(order, code)).toMatchObject({
        outcome: 'paid',
        payment: { method: 'till', phone: '' },
      });
      expect(await books()).toMatchObject({
        status: 'processing',
        money: 'paid',
        payments: ['prompt failed 1901', `till completed ${code} 1901`],
        stock: 3,
      });
    });

    test.each([
      ['as is', (number: string) => number],
      ['without hyphens, in small letters', (number: string) => number.replaceAll('-', '').toLowerCase()],
      ['in twelve characters', (number: string) => number.replace(/^JJ-20(\d{6})-/, 'JJ$1')],
      ['in twelve characters with spaces', (number: string) => number.replace(/^JJ-20(\d{6})-/, ' jj $1 - ')],
      ['without its letters', (number: string) => number.replace(/^JJ-20(\d{6})-/, '$1')],
    ])('finds the order by its number %s', async (_, spell) => {
      expect(
        await receive(spell(order.tracking_number), newReceipt(), { received_cents: charge }),
      ).toMatchObject({
        outcome: 'paid',
        payment: { order_id: order.id },
      });
    });

    test('finds an order of a busy day, whose number has more digits', async () => {
      await database.query(`update public.orders set tracking_number = 'JJ-20310102-345678' where id = $1`, [
        order.id,
      ]);
      expect(await receive('310102345678', newReceipt(), { received_cents: charge })).toMatchObject({
        outcome: 'paid',
        payment: { order_id: order.id },
      });
    });

    test.each(['', 'juice', 'JJ-20200101-9999', '0712345678', `JJ'; drop table x`])(
      'with the reference "%s" is left to staff',
      async (reference) => {
        const code = newReceipt();
        expect(await receive(reference, code, { received_cents: charge })).toMatchObject({
          outcome: 'unmatched',
          payment: null,
        });
        expect(await unmatched()).toContain(code);
        expect(await books()).toMatchObject({ money: 'unpaid', payments: [] });
      },
    );

    test('of an amount below the charge is left to staff, and the order is unchanged', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      expect(await receive(order, code, { received_cents: charge - 100 })).toMatchObject({
        outcome: 'unmatched',
      });
      expect(await books()).toMatchObject({
        money: 'unpaid',
        payments: ['prompt processing 1901'],
        stock: 3,
      });
      expect(await unmatched()).toContain(code);
      expect(await settle(attempt)).toMatchObject({ outcome: 'paid' });
    });

    test('of an amount above the charge needs review and reserves no units; the whole charge settles it', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      expect(await receive(order, code, { received_cents: charge + 100 })).toMatchObject({
        outcome: 'paid_needs_review',
      });
      expect(await books()).toMatchObject({ money: 'needs_review', stock: 5 });
      // The prompt is still on the phone, so the customer may pay both.
      expect(await settle(attempt)).toMatchObject({ outcome: 'paid' });
      const { payments } = await books();
      expect(payments).toContain(`till completed ${code} 1902, needs refund`);
    });

    test.each([50, 190_150])(
      'of %i cents, which is not in whole shillings, is left to staff',
      async (cents) => {
        const code = newReceipt();
        expect(await receive(order, code, { received_cents: cents })).toMatchObject({ outcome: 'unmatched' });
        expect(await unmatched()).toContain(code);
      },
    );

    test('for a paid order is a second payment, flagged for a refund', async () => {
      const [first, second] = [newReceipt(), newReceipt()];
      await receive(order, first);
      expect(await receive(order, second)).toMatchObject({
        outcome: 'paid_twice',
        payment: { needs_refund: true },
      });
      expect(await books()).toMatchObject({
        money: 'paid',
        payments: [`till completed ${first} 1901`, `till completed ${second} 1901, needs refund`],
        stock: 3,
      });
    });

    test('for a cancelled order reopens it', async () => {
      await expire(order);
      expect(await receive(order)).toMatchObject({ outcome: 'paid' });
      expect(await books()).toMatchObject({ status: 'processing', money: 'paid', stock: 3 });
    });

    test('without a receipt or an amount is stored as unreadable', async () => {
      const before = await books();
      expect(await receive(order, '', { received_cents: null, body: 'nonsense' })).toMatchObject({
        outcome: 'unreadable',
      });
      expect(await books()).toEqual(before);
      const { rows } = await database.query(
        `select outcome from public.payment_messages where body = 'nonsense'`,
      );
      expect(rows).toEqual([{ outcome: 'unreadable' }]);
    });

    test('is stored as received before it is settled, once', async () => {
      const store = (body: string) =>
        asService<number>('store_confirmation', { body, source_address: '196.201.214.200' });
      const code = newReceipt();
      const messageId = await store('first');
      await receive(order, code, { message_id: messageId, body: 'first' });
      await receive(order, code, { message_id: await store('again'), body: 'again' });
      const { rows } = await database.query(
        `select m.body, m.outcome, m.source_address, p.receipt from public.payment_messages as m
         join public.payments as p on p.id = m.payment_id where p.receipt = $1 order by m.id`,
        [code],
      );
      expect(rows).toEqual([
        { body: 'first', outcome: 'paid', source_address: '196.201.214.200', receipt: code },
        { body: 'again', outcome: 'already_completed', source_address: '196.201.214.200', receipt: code },
      ]);
    });

    test('that was stored but not settled is listed', async () => {
      const messageId = await asService<number>('store_confirmation', {
        body: 'left behind',
      });
      const waiting = () =>
        database.query<{ id: number }>(
          `select id from public.list_unprocessed_confirmations(1000) where body = 'left behind'`,
        );
      expect((await waiting()).rows).toEqual([]);
      await database.query(
        `update public.payment_messages set received_at = now() - interval '1 minute' where id = $1`,
        [messageId],
      );
      expect((await waiting()).rows).toEqual([{ id: messageId }]);
      await receive(order, newReceipt(), { message_id: messageId });
      expect((await waiting()).rows).toEqual([]);
    });
  });

  describe('a callback', () => {
    test('with another receipt than the presumed one makes two separate payments', async () => {
      const attempt = await prompt(order);
      const [byHand, own] = [newReceipt(), newReceipt()];
      await receive(order, byHand);
      await settle(attempt, { receipt: own });
      const { money, payments } = await books();
      expect(money).toBe('paid');
      expect(payments).toHaveLength(2);
      expect(payments[0]).toContain(`prompt completed ${own} 1901`);
      expect(payments[1]).toContain(`till completed ${byHand} 1901`);
      expect(payments.filter((payment) => payment.endsWith('needs refund'))).toHaveLength(1);
    });

    test('with a second receipt for one attempt makes a separate payment, flagged for refund', async () => {
      const attempt = await prompt(order);
      const [first, second] = [newReceipt(), newReceipt()];
      await settle(attempt, { receipt: first });
      expect(await settle(attempt, { receipt: second })).toMatchObject({
        outcome: 'paid_twice',
        payment: { method: 'till', receipt: second, needs_refund: true },
      });
      expect(await settle(attempt, { receipt: second })).toMatchObject({ outcome: 'already_completed' });
      expect(await settle(attempt, { receipt: first })).toMatchObject({ outcome: 'already_completed' });
      expect(await books()).toMatchObject({
        money: 'paid',
        payments: [`prompt completed ${first} 1901`, `till completed ${second} 1901, needs refund`],
        stock: 3,
      });
    });

    test('of a failure ends the presumption, and the payment still pays the order', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      await receive(order, code);
      expect(await settle(attempt, failed)).toMatchObject({
        outcome: 'failed',
        payment: { status: 'failed' },
      });
      expect(await books()).toMatchObject({
        money: 'paid',
        payments: ['prompt failed 1901', `till completed ${code} 1901`],
      });
      // M-PESA corrects itself: the receipt belongs to the prompt.
      await settle(attempt, { receipt: code });
      expect(await books()).toMatchObject({ money: 'paid', payments: [`prompt completed ${code} 1901`] });
    });

    test('identifies the paid attempt, and reopens the presumed one', async () => {
      const first = await prompt(order);
      await settle(first, failed);
      const second = await prompt(order);
      const code = newReceipt();
      expect(await receive(order, code)).toMatchObject({ payment: { id: second.id } });
      expect(await settle(first, { receipt: code })).toMatchObject({ payment: { id: first.id } });
      expect(await books()).toMatchObject({
        money: 'paid',
        payments: [`prompt completed ${code} 1901`, 'prompt processing 1901'],
      });
    });

    test('of a payment that is being refunded does not change its refund', async () => {
      const attempt = await prompt(order);
      const [first, second] = [newReceipt(), newReceipt()];
      await receive(order, first);
      const { payment } = await receive(order, second);
      await requestRefund(payment);
      await settle(attempt, { receipt: second });
      expect(await books()).toMatchObject({
        money: 'paid',
        payments: [`prompt completed ${second} 1901, needs refund`, `till completed ${first} 1901`],
        stock: 3,
      });
      const { rows } = await database.query(
        'select payment_id, receipt from public.refunds where receipt = $1',
        [second],
      );
      expect(rows).toEqual([{ payment_id: attempt.id, receipt: second }]);
    });

    test('for a payment that a query and staff reported: neither record can be refunded before M-PESA sends the receipt', async () => {
      const attempt = await prompt(order);
      await settle(attempt, byQuery);
      const code = newReceipt();
      const { payment } = await confirm(order, code);
      // The prompt is flagged for refund, but only the payment entered by staff has a receipt.
      await expectRefusal(requestRefund(payment), 409, 'nothing_to_send_back');
      await expectRefusal(requestRefund(attempt), 409, 'receipt_unknown');
      await settle(attempt, { receipt: code });
      expect(await books()).toMatchObject({ money: 'paid', payments: [`prompt completed ${code} 1901`] });
    });

    test('with a wrong amount leaves its receipt to staff until a confirmation has the right amount', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      await settle(attempt, { receipt: code, received_cents: 100 });
      expect(await unmatched()).toContain(code);
      expect(await receive(order, code)).toMatchObject({ outcome: 'paid', payment: { id: attempt.id } });
      expect(await unmatched()).not.toContain(code);
    });

    test('with a wrong amount that a confirmation repeats leaves the payment to staff', async () => {
      const attempt = await prompt(order);
      const code = newReceipt();
      await settle(attempt, { receipt: code, received_cents: 100 });
      expect(await receive(order, code, { received_cents: 100 })).toMatchObject({ outcome: 'unmatched' });
      expect(await unmatched()).toContain(code);
      expect(await books()).toMatchObject({ money: 'unpaid', payments: ['prompt review 1901'] });
    });

    test('with a wrong amount for a paid attempt changes nothing, but its receipt is stored', async () => {
      const attempt = await prompt(order);
      await settle(attempt);
      const before = await books();
      const code = newReceipt();
      expect(await settle(attempt, { receipt: code, received_cents: 100 })).toMatchObject({
        outcome: 'superseded',
      });
      expect(await books()).toEqual(before);
      expect(await unmatched()).toContain(code);
    });
  });

  describe('staff', () => {
    test("who typed a wrong amount are corrected by M-PESA's amount before a decision", async () => {
      const code = newReceipt();
      await confirm(order, code, { received_cents: 100 });
      expect(await books()).toMatchObject({ money: 'needs_review' });
      await receive(order, code);
      expect(await books()).toMatchObject({
        money: 'paid',
        payments: [`till completed ${code} 1901`],
        stock: 3,
      });
    });

    test("who type a wrong amount after M-PESA's message get the received amount", async () => {
      const code = newReceipt();
      await receive('juice', code, { received_cents: charge });
      expect(await confirm(order, code, { received_cents: 100 })).toMatchObject({
        outcome: 'paid',
        payment: { charge_cents: charge },
      });
    });

    test('cannot assign a receipt to a second order', async () => {
      const code = newReceipt();
      await receive(order, code);
      const second = await place(await makeProduct(database, 2), { quantity: 2 });
      await expectRefusal(confirm(second, code), 409, 'receipt_used');
    });
  });

  // Messages about an order with one prompt, paid with the receipt `own`, and about another payment.
  const facts: Record<string, (attempt: Payment, own: string, other: string) => Promise<unknown>> = {
    callback: (attempt, own) => settle(attempt, { receipt: own }),
    'failed callback': (attempt) => settle(attempt, failed),
    query: (attempt) => settle(attempt, byQuery),
    confirmation: (_, own) => receive(order, own),
    statement: (_, own) => receive(order, own, { source: 'statement' }),
    staff: (_, own) => confirm(order, own),
    'other confirmation': (_, _own, other) => receive(order, other),
    'other statement': (_, _own, other) => receive(order, other, { source: 'statement' }),
    'other staff': (_, _own, other) => confirm(order, other),
  };
  const everything = Object.keys(facts);

  /** The books after messages in a given order. Either of two equal payments may be the second one. */
  async function booksAfter(names: readonly string[]) {
    await placeNewOrder();
    const attempt = await prompt(order);
    const [own, other] = [newReceipt(), newReceipt()];
    for (const name of names) {
      await facts[name]?.(attempt, own, other);
      await expectBalancedBooks(database, { stock: new Map([[product, 5]]) });
    }
    const { rows } = await database.query<{ description: string }>(
      `select p.status || ' ' || (p.charge_cents / 100) || ' ' || coalesce(case p.receipt when $2 then 'own' when $3 then 'other' else 'unknown' end, 'no receipt') as description
       from public.payments as p where p.order_id = $1 and p.status = 'completed' order by 1`,
      [order.id, own, other],
    );
    const { status, money, payments, stock } = await books();
    return {
      status,
      money,
      stock,
      completed: rows.map(({ description }) => description),
      refunds: payments.filter((payment) => payment.endsWith('needs refund')).length,
      attempt: await readValue('select status from public.payments where id = $1', [attempt.id]),
    };
  }
  function* permutations<T>(items: readonly T[]): Generator<T[]> {
    if (items.length === 0) yield [];
    for (const [index, item] of items.entries()) {
      for (const rest of permutations(items.filter((_, at) => at !== index))) yield [item, ...rest];
    }
  }

  test('one payment is recorded once in any order of its messages', async () => {
    const all = [...permutations(['callback', 'query', 'confirmation', 'statement', 'staff'])];
    expect(all).toHaveLength(120);
    // In the sample, each message comes first in two of the orders.
    for (const names of isExhaustive ? all : all.filter((_, index) => index % 12 === 0)) {
      expect(await booksAfter(names), names.join(', ')).toEqual({
        status: 'processing',
        money: 'paid',
        stock: 3,
        completed: ['completed 1901 own'],
        refunds: 0,
        attempt: 'completed',
      });
    }
  }, 600_000);

  test('any subset of the messages about two payments has the same result in any order', async () => {
    await assert(
      asyncProperty(
        shuffledSubarray(everything, { minLength: 2 }),
        constantFrom(...Array.from({ length: 50 }, (_, seed) => seed)),
        async (names, seed) => {
          const found = await booksAfter(names);
          const shuffled = [...names];
          for (let at = shuffled.length - 1; at > 0; at -= 1) {
            const to = (seed * 7919 + at * 104_729) % (at + 1);
            [shuffled[at], shuffled[to]] = [shuffled[to] as string, shuffled[at] as string];
          }
          expect(await booksAfter(shuffled), `${names.join(', ')} | ${shuffled.join(', ')}`).toEqual(found);
        },
      ),
      { numRuns: isExhaustive ? 40 : 8, seed: 20_261_121 },
    );
  }, 600_000);

  describe.runIf(kind === 'postgresql')('at the same time', () => {
    test('all messages about one payment make one payment', async () => {
      for (let round = 0; round < 10; round += 1) {
        await placeNewOrder();
        const attempt = await prompt(order);
        const code = newReceipt();
        const messages = [
          () => settle(attempt, { receipt: code }),
          () => receive(order, code),
          () => receive(order, code, { source: 'statement' }),
          () => confirm(order, code),
          () => settle(attempt, byQuery),
          () => receive('unreadable', code, { received_cents: charge }),
        ];
        await concurrently<unknown>(12, async (index) => messages[(index + round) % 6]?.());
        expect(await books()).toMatchObject({
          money: 'paid',
          payments: [`prompt completed ${code} 1901`],
          stock: 3,
        });
      }
    });

    test('ten payments of one order have ten receipts, nine of them flagged for refund', async () => {
      await concurrently(10, () => receive(order));
      const { payments } = await books();
      expect(payments).toHaveLength(10);
      expect(payments.filter((payment) => payment.endsWith('needs refund'))).toHaveLength(9);
    });
  });
});
