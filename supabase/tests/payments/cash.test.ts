// Cash: agreed, received, taken back and given back. The books stay balanced, and M-PESA's are not touched.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  type Caller,
  expectRefusal,
  makeProduct,
  type PlacedOrder,
  refusalOf,
  stockOf,
} from '../shop-database.ts';
import { concurrently, failed, newPhone, type Refund, settleAll, setUpShop } from '../steps.ts';
import { expectBalancedBooks } from './books/balanced-books.ts';
import { expectExplainedDays } from './books/explained-days.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const {
    database,
    asVisitor,
    asStaff,
    callAs,
    readRow,
    readRows,
    readColumn,
    readValue,
    receiveCash,
    totalReceived,
    place,
    track,
    trackAsCustomer,
    begin,
    prompt,
    pay,
    settle,
    receive,
    expire,
    endPaymentTime,
    expireReservations,
    setStatus,
    stateOf,
    eventsOf,
    reconciliationRow,
    requestRefund,
  } = shop;
  afterEach(() => expectBalancedBooks(database));
  afterAll(() => expectExplainedDays(shop));
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });

  const charge = 95_100;
  const agree = ({ id }: { id: string }, by: Caller = 'staff') =>
    callAs<null>(by, 'agree_cash', { order_id: id });
  const choose = ({ id, access_key }: Pick<PlacedOrder, 'id' | 'access_key'>, address?: string) =>
    asVisitor<PlacedOrder>('choose_cash', { order_id: id, access_key }, address);
  const takeBack = ({ id }: { id: string }, reason = 'Wrong order') =>
    asStaff<null>('take_back_cash', { payment_id: id, reason });
  const giveBack = ({ id }: { id: string }) =>
    asStaff<Refund>('give_back_cash', { payment_id: id, reason: 'Not in' });
  const atTheDoor = async () => {
    const order = await place(product, { customer_phone: newPhone() });
    await agree(order);
    return order;
  };
  const queue = () => readColumn<string>('select order_id from public.deliveries');
  const setting = (name: 'takes_cash' | 'offers_cash', is: boolean) =>
    database.query(`update public.store_settings set ${name} = $1`, [is]);

  describe('agreed for the door', () => {
    test('puts the order into work with a delivery, and it does not expire', async () => {
      const order = await place(product);
      await agree(order);
      await endPaymentTime(order);
      await expireReservations();
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'unpaid', deliveries: 1 });
      expect(await eventsOf(order)).toContain('staff cash_agreed');
      expect((await asStaff<{ order_id: string }[]>('work_queue')) && (await queue())).toContain(order.id);
    });

    test('changes nothing the second time', async () => {
      const order = await atTheDoor();
      await agree(order);
      expect((await eventsOf(order)).filter((event) => event === 'staff cash_agreed')).toHaveLength(1);
    });

    test('lets the order leave without further questions, and lists what is to be collected', async () => {
      const order = await atTheDoor();
      await setStatus(order, 'shipped');
      await setStatus(order, 'delivered');
      expect(await stateOf(order)).toMatchObject({ status: 'delivered', money: 'unpaid' });
    });

    test('returns its units when it is cancelled', async () => {
      const own = await makeProduct(database, 3);
      const order = await place(own);
      await agree(order);
      expect(await stockOf(database, own)).toBe(2);
      await setStatus(order, 'cancelled');
      await expireReservations();
      expect(await stockOf(database, own)).toBe(3);
    });

    test('can still be paid by M-PESA', async () => {
      const order = await atTheDoor();
      await pay(order);
      expect(await stateOf(order)).toMatchObject({ money: 'paid', deliveries: 1 });
      await expectRefusal(receiveCash(order), 409, 'order_already_paid');
    });

    test('waits for a decision without a delivery when the till gets another amount', async () => {
      const order = await atTheDoor();
      await receive(order, undefined, { received_cents: charge + 4900 });
      expect(await stateOf(order)).toMatchObject({ money: 'needs_review', deliveries: 0 });
      await expectRefusal(receiveCash(order), 409, 'decide_order');
    });

    test('keeps the time from which its delivery is promised when the money comes', async () => {
      const order = await atTheDoor();
      const promised = () =>
        readValue<Date>('select created_at from public.deliveries where order_id = $1', [order.id]);
      const before = await promised();
      await receiveCash(order, { received_from: 'Brian' });
      expect(await promised()).toEqual(before);
    });
  });

  describe('received', () => {
    test('pays the order once, and counts as money received', async () => {
      const order = await atTheDoor();
      const before = await totalReceived();
      const payment = await receiveCash(order, { received_from: ' Brian ' });
      expect(payment).toMatchObject({
        method: 'cash',
        status: 'completed',
        charge_cents: charge,
        received_from: 'Brian',
      });
      expect(await stateOf(order)).toMatchObject({ money: 'paid', payments: ['cash completed'] });
      expect(await totalReceived()).toBe(before + charge);
      await expectRefusal(receiveCash(order), 409, 'order_already_paid');
      expect(await trackAsCustomer(order)).toMatchObject({ payment_status: 'paid', paid_cents: charge });
      expect(await readValue('select payment_method from public.orders where id = $1', [order.id])).toBe(
        'cash',
      );
    });

    test('at the counter pays an order that nobody agreed on', async () => {
      const order = await place(product);
      await receiveCash(order);
      expect(await stateOf(order)).toMatchObject({ status: 'processing', money: 'paid', deliveries: 1 });
    });

    test('of two members at once one notes it', async () => {
      const order = await atTheDoor();
      const results = await settleAll(4, () => receiveCash(order));
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    });

    test('is in no book of M-PESA', async () => {
      const payment = await receiveCash(await atTheDoor());
      expect(await reconciliationRow(payment.id)).toBeUndefined();
    });

    test.each([
      ['less without a word', { received_cents: 90_000 }],
      ['less without a reason', { received_cents: 90_000, difference: 'forgiven' }],
      ['less as a tip', { received_cents: 90_000, difference: 'tip', note: 'No change' }],
      ['more without a word', { received_cents: 100_000 }],
      ['more as forgiven', { received_cents: 100_000, difference: 'forgiven', note: 'No change' }],
      ['the charge with a difference', { difference: 'tip' }],
    ])('%s is asked about, and nothing is saved', async (_, change) => {
      const order = await atTheDoor();
      const refusal = await expectRefusal(receiveCash(order, change), 409, 'cash_differs');
      expect(refusal.hint).toBe(String(charge));
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid', payments: [] });
    });

    test('less is forgiven with a reason; more is a tip, or owed to the customer', async () => {
      const [less, tip, more] = [await atTheDoor(), await atTheDoor(), await atTheDoor()];
      const forgiven = await receiveCash(less, {
        received_cents: 95_000,
        difference: 'forgiven',
        note: 'No coins',
      });
      expect(forgiven).toMatchObject({ charge_cents: 95_000, note: 'No coins' });
      await receiveCash(tip, { received_cents: 100_000, difference: 'tip' });
      const owed = await receiveCash(more, { received_cents: 100_000, difference: 'credit' });
      for (const order of [less, tip, more]) expect((await stateOf(order)).money).toBe('paid');
      expect(
        await readRows('select kind, amount_cents from public.change_notes where payment_id = $1', [owed.id]),
      ).toEqual([{ kind: 'credit', amount_cents: 4900 }]);
    });

    test.each<[string, (order: PlacedOrder) => unknown, number, string]>([
      ['while a prompt is open', begin, 409, 'payment_open'],
      [
        'while a payment is checked',
        async (order) => {
          const attempt = await prompt(order);
          await settle(attempt, { received_cents: attempt.charge_cents + 100 });
        },
        409,
        'payment_open',
      ],
      ['once it is paid', pay, 409, 'order_already_paid'],
      ['once it is cancelled', expire, 409, 'order_cancelled'],
      ['once its time is over', endPaymentTime, 409, 'order_cancelled'],
      [
        'once part of it came to the till',
        (order) => receive(order, undefined, { received_cents: 5000 }),
        409,
        'money_waiting',
      ],
    ])('is refused %s', async (_, happens, status, code) => {
      const order = await place(product, { customer_phone: newPhone() });
      await happens(order);
      await expectRefusal(receiveCash(order), status, code);
      await expectRefusal(agree(order), status, code);
    });

    test.each([0, -100, 50, 150])('of %s cents is refused', async (received_cents) => {
      await expectRefusal(receiveCash(await atTheDoor(), { received_cents }), 400, 'amount_invalid');
    });

    test('takes the units of an order that held none, or is refused', async () => {
      const own = await makeProduct(database, 3);
      const address = '192.0.2.91';
      const [first, second] = [
        await place(own, { quantity: 2, address, expected_total: 190_100 }),
        await place(own, { quantity: 2, address, expected_total: 190_100, customer_phone: newPhone() }).catch(
          () => null,
        ),
      ];
      expect(second === null || second.reserved_until === null).toBe(true);
      await receiveCash(first, { received_cents: 190_100 });
      expect(await stockOf(database, own)).toBe(1);
      if (second) await expectRefusal(receiveCash(second, { received_cents: 190_100 }), 409, 'units_sold');
    });

    test('only staff note it', async () => {
      const order = await place(product);
      for (const caller of ['visitor', 'customer'] as const) {
        await expect(receiveCash(order, { by: caller })).rejects.toMatchObject({
          code: expect.stringMatching(/42501|PT403/),
        });
        await expect(agree(order, caller)).rejects.toMatchObject({
          code: expect.stringMatching(/42501|PT403/),
        });
      }
      expect(await stateOf(order)).toMatchObject({ money: 'unpaid' });
    });
  });

  describe('noted by mistake', () => {
    test('is taken back: the order is to be paid again, and the entry stays with its reason', async () => {
      const order = await atTheDoor();
      const before = await totalReceived();
      const payment = await receiveCash(order, { received_from: 'Brian' });
      await takeBack(payment);
      expect(await stateOf(order)).toMatchObject({
        status: 'processing',
        money: 'unpaid',
        payments: ['cash failed'],
      });
      expect(await totalReceived()).toBe(before);
      expect(await readRow('select note, status from public.payments where id = $1', [payment.id])).toEqual({
        note: 'Wrong order',
        status: 'failed',
      });
      expect(await eventsOf(order)).toContain('staff payment_taken_back');
      await receiveCash(order);
      expect(await stateOf(order)).toMatchObject({ money: 'paid', deliveries: 1 });
    });

    test('cannot be taken back twice, or once it went back to the customer', async () => {
      const order = await atTheDoor();
      const payment = await receiveCash(order);
      await takeBack(payment);
      await expectRefusal(takeBack(payment), 409, 'payment_final');
      const again = await receiveCash(order);
      await setStatus(order, 'cancelled');
      await giveBack(again);
      await expectRefusal(takeBack(again), 409, 'payment_final');
    });

    test('leaves an order that M-PESA paid, too, with that money, which does not go back', async () => {
      const order = await place(product, { customer_phone: newPhone() });
      const attempt = await prompt(order);
      await settle(attempt, failed);
      const cash = await receiveCash(order);
      const late = await settle(attempt);
      expect(late).toMatchObject({ outcome: 'paid_twice' });
      await requestRefund(late.payment);
      await takeBack(cash);
      expect(await stateOf(order)).toMatchObject({
        money: 'paid',
        deliveries: 1,
        payments: ['prompt completed', 'cash failed'],
        refunds: ['reversal withdrawn'],
      });
    });

    test('money of M-PESA is not taken back like this', async () => {
      const { payment } = await pay(await place(product, { customer_phone: newPhone() }));
      await expectRefusal(takeBack(payment), 409, 'payment_final');
    });
  });

  describe('given back', () => {
    test('ends a cancelled order as refunded, once', async () => {
      const order = await atTheDoor();
      const before = await totalReceived();
      const payment = await receiveCash(order);
      await expectRefusal(giveBack(payment), 409, 'nothing_to_send_back');
      await setStatus(order, 'cancelled');
      await expectRefusal(requestRefund(payment), 409, 'cash_goes_back_in_cash');
      const results = await settleAll(3, () => giveBack(payment));
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await stateOf(order)).toMatchObject({ money: 'refunded', refunds: ['cash completed'] });
      expect(await totalReceived()).toBe(before);
      expect(await eventsOf(order)).toContain('staff refund_completed');
    });

    test('money of M-PESA is not', async () => {
      const order = await place(product, { customer_phone: newPhone() });
      const { payment } = await pay(order);
      await setStatus(order, 'cancelled');
      await expectRefusal(giveBack(payment), 409, 'not_cash');
    });
  });

  describe('chosen by the customer', () => {
    test('is possible where the settings offer it, with the access key', async () => {
      const order = await place(product, { customer_phone: newPhone() });
      await expectRefusal(choose(order), 409, 'cash_not_taken');
      await setting('offers_cash', true);
      try {
        await expectRefusal(choose({ ...order, access_key: 'x' }), 404, 'order_not_found');
        expect(await choose(order)).toMatchObject({ id: order.id, status: 'processing' });
        expect(await choose(order)).toMatchObject({ id: order.id });
        expect(await eventsOf(order)).toContain('customer cash_agreed');
        expect(await track(order)).toMatchObject({ payment_status: 'unpaid', pays_cash: true });
      } finally {
        await setting('offers_cash', false);
      }
    });

    const offered = async (work: () => Promise<void>) => {
      await setting('offers_cash', true);
      try {
        await work();
      } finally {
        await setting('offers_cash', false);
      }
    };
    const messagesOf = ({ id }: { id: string }) =>
      readColumn<string>(
        "select kind || ' ' || channel from public.outbox_messages where order_id = $1 order by 1",
        [id],
      );

    test('sends the link of the order once, and tells staff', () =>
      offered(async () => {
        const order = await place(product, { customer_phone: newPhone() });
        expect(await messagesOf(order)).toEqual([]);
        await choose(order);
        await choose(order);
        expect(await messagesOf(order)).toEqual(['order_received mail', 'order_received text']);
        expect(await readColumn('select kind from public.notices where order_id = $1', [order.id])).toEqual([
          'paid_order',
        ]);
        const [facts] = await readColumn<{ pays_cash: boolean }>(
          "select private.message_facts($1, 'order_received', '')",
          [order.id],
        );
        expect(facts).toMatchObject({ pays_cash: true });
        await receiveCash(order);
        expect(
          await readValue("select private.message_facts($1, 'order_paid', '') -> 'pays_cash'", [order.id]),
        ).toBe(false);
      }));

    test('leaves M-PESA possible, which then pays the order once', () =>
      offered(async () => {
        const order = await place(product, { customer_phone: newPhone() });
        await choose(order);
        await pay(order);
        expect(await stateOf(order)).toMatchObject({ money: 'paid', deliveries: 1 });
        await expectRefusal(choose(order), 409, 'order_already_paid');
      }));

    test('is refused while a prompt is open, and for an order that is collected', () =>
      offered(async () => {
        const prompted = await place(product, { customer_phone: newPhone() });
        const attempt = await prompt(prompted);
        await expectRefusal(choose(prompted), 409, 'payment_open');
        await settle(attempt, failed);
        expect(await choose(prompted)).toMatchObject({ id: prompted.id });
        const collected = await place(product, {
          by: 'staff',
          source: 'walk_in',
          is_collected: true,
          expected_total: 95_000,
        });
        await expectRefusal(choose(collected), 409, 'cash_not_taken');
      }));

    test('of several requests at once puts the order into work once', () =>
      offered(async () => {
        const order = await place(product, { customer_phone: newPhone() });
        await Promise.all(Array.from({ length: 4 }, () => choose(order)));
        expect((await eventsOf(order)).filter((event) => event === 'customer cash_agreed')).toHaveLength(1);
        expect(await stateOf(order)).toMatchObject({ deliveries: 1 });
      }));

    test('is one order at a time for a phone that never paid, also from several networks at once', () =>
      offered(async () => {
        const phone = newPhone();
        // No common product, network or order that the requests would wait for.
        const orders = await concurrently(4, async () =>
          place(await makeProduct(database, 3), { customer_phone: phone }),
        );
        const answers = await concurrently(4, (index) =>
          refusalOf(choose(orders[index] as PlacedOrder, `203.0.${index}.92`)),
        );
        expect(answers.filter((answer) => answer === null)).toHaveLength(1);
        expect(answers.filter((answer) => answer === 'too_many_cash_orders')).toHaveLength(3);
      }));

    test('is one order at a time for a phone that never paid', async () => {
      await setting('offers_cash', true);
      try {
        const phone = newPhone();
        const [first, second] = [
          await place(product, { customer_phone: phone }),
          await place(product, { customer_phone: phone }),
        ];
        await choose(first, '192.0.2.92');
        await expectRefusal(choose(second, '192.0.2.92'), 429, 'too_many_cash_orders');
        const other = await place(product, { customer_phone: newPhone() });
        await choose(other, '192.0.2.92');
      } finally {
        await setting('offers_cash', false);
      }
    });
  });

  test('is noted by nobody where the shop takes none', async () => {
    const order = await place(product);
    await setting('takes_cash', false);
    try {
      await expectRefusal(agree(order), 409, 'cash_not_taken');
      await expectRefusal(receiveCash(order), 409, 'cash_not_taken');
    } finally {
      await setting('takes_cash', true);
    }
  });
});
