// Cash by member, and the close of a day: once, with reasons for differences, and as it was closed for ever.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Caller, expectRefusal, makeProduct, secondStepPassed } from '../../shop-database.ts';
import { nairobiDay, newPhone, newReceipt, type Payment, settleAll, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from './balanced-books.ts';
import { readEntries } from './explained-days.ts';

interface CashOfMember {
  member: string;
  email: string;
  taken_cents: number;
  given_back_cents: number;
  expected_cents: number;
  handed_over: { person: string | null; payments: number; cents: number }[];
}
interface CashDue {
  person: string | null;
  orders: number;
  cents: number;
  open_orders: number;
}
interface Close {
  day: string;
  cash_due: CashDue[];
  totals: Record<string, number>;
  note: string | null;
  closed_by_email: string;
}

const charge = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, callAs, queryAs, readRows, place, pay } = shop;
  let product: string;
  afterAll(() => expectBalancedBooks(database));
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });

  const receiveCash = async (received_from: string | null = null, by: Caller = 'staff', change = {}) => {
    const order = await place(product, { customer_phone: newPhone() });
    const payment = await callAs<Payment>(by, 'receive_cash', {
      order_id: order.id,
      received_cents: charge,
      received_from,
      ...change,
    });
    return { order, payment };
  };
  const cashOf = async (day: string) =>
    (
      await queryAs<{ cash: CashOfMember }>(
        'staff',
        'select to_jsonb(c) as cash from public.cash_of_day($1) as c',
        [day],
      )
    ).rows.map(({ cash }) => cash);
  /** Counts exactly what is expected. */
  const counted = async (day: string) =>
    (await cashOf(day)).map(({ member, expected_cents }) => ({
      member,
      expected_cents,
      counted_cents: expected_cents,
    }));
  const close = (day: string, counts: unknown, note: string | null = null, by: Caller = 'staff') =>
    callAs<Close>(by, 'close_day', { day, counts: JSON.stringify(counts), note });
  /** Moves all money of the test before this one to another day, so that each has its own. */
  let dayOfTest = Date.parse('2026-03-01T09:00:00Z');
  const moveMoney = async () => {
    dayOfTest += 86_400_000;
    const at = new Date(dayOfTest).toISOString();
    const recent = `status = 'completed' and completed_at > now() - interval '1 hour'`;
    await database.query(`update public.payments set completed_at = $1 where ${recent}`, [at]);
    // The time of a refund never changes otherwise, so that no trigger counts it on another day.
    await database.query(
      `select private.count_change(
         (private.nairobi_day(completed_at), 0, 0, -refund_cents, 0)::private.day_figures,
         (private.nairobi_day($1), 0, 0, -refund_cents, 0)::private.day_figures
       ) from public.refunds where ${recent}`,
      [at],
    );
    await database.query(`update public.refunds set completed_at = $1 where ${recent}`, [at]);
    return nairobiDay(dayOfTest);
  };

  test('lists what each member took and gave back, and who handed it over', async () => {
    await receiveCash('Brian');
    await receiveCash('Brian');
    await receiveCash();
    await receiveCash(null, secondStepPassed);
    const { order, payment } = await receiveCash();
    await shop.setStatus(order, 'cancelled');
    await asStaff('give_back_cash', { payment_id: payment.id, reason: 'Not in' });
    await pay(await place(product));
    const day = await moveMoney();
    const cash = await cashOf(day);
    expect(cash.map(({ member: _, ...rest }) => rest)).toEqual([
      expect.objectContaining({ taken_cents: charge, given_back_cents: 0, expected_cents: charge }),
      {
        email: 'staff@jani.example',
        taken_cents: 4 * charge,
        given_back_cents: charge,
        expected_cents: 3 * charge,
        handed_over: [
          { person: 'Brian', payments: 2, cents: 2 * charge },
          { person: null, payments: 2, cents: 2 * charge },
        ],
      },
    ]);
    // The sum of the members is the cash of the day.
    const totals = await queryAs<{ cash: string }>(
      'staff',
      'select (in_cash + refunded_in_cash)::text as cash from public.day_totals($1)',
      [day],
    );
    expect(Number(totals.rows[0]?.cash)).toBe(4 * charge);
    expect(cash.reduce((sum, { expected_cents }) => sum + expected_cents, 0)).toBe(4 * charge);
  });

  describe('cash that was not received by the end of a day', () => {
    const days = ['2026-02-10', '2026-02-11', '2026-02-12', '2026-02-13'] as const;
    const dueOf = async (day: string) =>
      (
        await queryAs<{ due: CashDue }>(
          'staff',
          'select to_jsonb(c) as due from public.cash_due_of_day($1) as c',
          [day],
        )
      ).rows.map(({ due }) => due);
    const atTheDoor = async () => {
      const order = await place(product, { customer_phone: newPhone() });
      await callAs('staff', 'agree_cash', { order_id: order.id });
      return order;
    };
    /** @param at in Nairobi */
    const deliver = async (
      { id }: { id: string },
      at: string,
      person: string | null,
      collected: number | null = null,
    ) => {
      await database.execute(`
        do $$ begin
          perform private.state_moment('${at}+03:00');
          update public.deliveries
          set delivery_status = 'delivered', delivery_person = ${person === null ? 'null' : `'${person}'`},
            collected_cents = ${collected}
          where order_id = '${id}';
          if ${collected} is not null then
            perform private.record_order_event(
              '${id}', 'cash_collected', 'rider', jsonb_build_object('received_cents', ${collected})
            );
          end if;
        end $$`);
    };
    const receive = async ({ id }: { id: string }, at: string) => {
      await callAs('staff', 'receive_cash', { order_id: id, received_cents: charge, received_from: 'Brian' });
      await database.query('update public.payments set completed_at = $2 where order_id = $1', [
        id,
        `${at}+03:00`,
      ]);
    };

    beforeAll(async () => {
      const [received, sameDay, paid, other, another, without, open] = await Promise.all(
        Array.from({ length: 7 }, atTheDoor),
      );
      if (!received || !sameDay || !paid || !other || !another || !without || !open)
        throw new Error('no order');
      await deliver(received, '2026-02-10 23:59:59', 'Brian');
      await receive(received, '2026-02-12 00:00:00');
      await deliver(sameDay, '2026-02-10 12:00:00', 'Brian');
      await receive(sameDay, '2026-02-10 23:59:59');
      // The customer paid by M-PESA after all: the rider has no cash.
      await deliver(paid, '2026-02-10 12:00:00', 'Brian');
      await pay(paid);
      await database.query(
        `update public.payments set completed_at = '2026-02-14 12:00:00+03:00' where order_id = $1`,
        [paid.id],
      );
      await deliver(other, '2026-02-11 00:00:00', 'brian', 90_000);
      await deliver(another, '2026-02-12 12:00:00', 'Brian');
      await deliver(without, '2026-02-12 12:00:00', null);
      await database.query(
        `update public.deliveries set delivery_status = 'in_transit', delivery_person = 'Brian' where order_id = $1`,
        [open.id],
      );
    });

    test('is named by the rider, from the day of the delivery until it is received', async () => {
      const brian = { person: expect.stringMatching(/^brian$/i) };
      expect(await Promise.all(days.map(dueOf))).toEqual([
        [{ ...brian, orders: 1, cents: charge, open_orders: 0 }],
        [{ ...brian, orders: 2, cents: charge + 90_000, open_orders: 1 }],
        [
          { ...brian, orders: 2, cents: charge + 90_000, open_orders: 2 },
          { person: null, orders: 1, cents: charge, open_orders: 1 },
        ],
        [
          { ...brian, orders: 2, cents: charge + 90_000, open_orders: 2 },
          { person: null, orders: 1, cents: charge, open_orders: 1 },
        ],
      ]);
    });

    test('is the plain sum of the orders, and what Today counts and its list shows', async () => {
      for (const day of [...days, nairobiDay()]) {
        const [plain] = await readRows<{ orders: number; cents: number }>(
          `select count(*)::integer as orders, coalesce(sum(coalesce(d.collected_cents, o.charge_cents)), 0)::integer as cents
           from public.orders as o join public.deliveries as d on d.order_id = o.id
           where o.payment_method = 'cash' and o.status = 'delivered' and (d.delivery_time at time zone 'Africa/Nairobi')::date <= $1
             and not exists (
               select from public.payments as p where p.order_id = o.id and p.status = 'completed'
                 and (p.completed_at at time zone 'Africa/Nairobi')::date <= $1
             )`,
          [day],
        );
        const due = await dueOf(day);
        const sum = (of: 'orders' | 'cents') => due.reduce((total, row) => total + row[of], 0);
        expect({ orders: sum('orders'), cents: sum('cents') }, day).toEqual(plain);
      }
      const [counted] = (
        await queryAs(
          'staff',
          `select cash_not_received as today, public.count_orders(status => 'delivered', payment => 'cash') as listed from public.count_work()`,
        )
      ).rows;
      expect(counted).toEqual({ today: 3, listed: 3 });
    });

    test('does not keep a day from being closed, which stores it as it was', async () => {
      const [day] = [days[2]];
      const due = await dueOf(day);
      expect((await close(day, await counted(day))).cash_due).toEqual(due);
      const [order] = await readRows<{ id: string }>(
        `select o.id from public.orders as o join public.deliveries as d on d.order_id = o.id
         where o.payment_status = 'unpaid' and d.delivery_status = 'delivered' and d.delivery_person is null`,
      );
      if (!order) throw new Error('no order');
      await receive(order, '2026-02-13 09:00:00');
      expect(await dueOf(day)).not.toEqual(due);
      expect(await readRows('select cash_due from public.day_closes where day = $1', [day])).toEqual([
        { cash_due: due },
      ]);
      expect((await close('2026-02-05', [])).cash_due).toEqual([]);
    });
  });

  test('stores what was counted and the totals of that moment, which later changes leave as they are', async () => {
    const { payment } = await receiveCash('Brian');
    const day = await moveMoney();
    const [own] = await counted(day);
    const closed = await close(
      day,
      [{ ...own, counted_cents: charge - 5000, reason: 'Change was wrong' }],
      'Quiet day',
    );
    expect(closed).toMatchObject({ day, note: 'Quiet day', closed_by_email: 'staff@jani.example' });
    expect(closed.totals).toMatchObject({ in_cash: charge, net_received: charge });
    expect(await readRows('select * from public.cash_counts where day = $1', [day])).toMatchObject([
      {
        member_email: 'staff@jani.example',
        reason: 'Change was wrong',
      },
    ]);

    await asStaff('take_back_cash', { payment_id: payment.id, reason: 'Wrong order' });
    const [stored] = await readRows<Close>('select totals from public.day_closes where day = $1', [day]);
    expect(stored?.totals).toMatchObject({ net_received: charge });
    expect(
      (
        await queryAs<{ net: string }>('staff', 'select net_received as net from public.day_totals($1)', [
          day,
        ])
      ).rows[0]?.net,
    ).toEqual(expect.toSatisfy((net: unknown) => Number(net) === 0));
  });

  test('nobody changes or deletes a closed day, the shop itself included', async () => {
    await receiveCash();
    const day = await moveMoney();
    await close(day, await counted(day));
    for (const statement of [
      `update public.day_closes set note = 'Better' where day = '${day}'`,
      `delete from public.day_closes where day = '${day}'`,
      `update public.cash_counts set counted_cents = 0, reason = 'Lost' where day = '${day}'`,
      `delete from public.cash_counts where day = '${day}'`,
      'truncate public.cash_counts',
      'truncate public.day_closes cascade',
    ]) {
      await expect(database.query(statement), statement).rejects.toMatchObject({ code: '42501' });
      await expect(queryAs('service', statement), statement).rejects.toMatchObject({ code: '42501' });
    }
    expect(await readRows('select from public.cash_counts where day = $1', [day])).toHaveLength(1);
  });

  test('a day is closed once, also by two members at once', async () => {
    await receiveCash();
    const day = await moveMoney();
    const counts = await counted(day);
    const results = await settleAll(2, (index) =>
      close(day, counts, null, index === 0 ? 'staff' : secondStepPassed),
    );
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await expectRefusal(close(day, counts), 409, 'day_closed');
    expect(await readRows('select from public.cash_counts where day = $1', [day])).toHaveLength(1);
  });

  test('a day that has not begun is refused, today is not', async () => {
    await expectRefusal(close(nairobiDay(Date.now() + 86_400_000), []), 400, 'day_in_future');
    const today = nairobiDay();
    expect(await close(today, await counted(today))).toMatchObject({ day: today });
  });

  test('a day without cash is closed without counts', async () => {
    const day = '2026-02-03';
    expect((await close(day, [])).totals).toMatchObject({ net_received: 0 });
  });

  test('a difference needs a reason, and each amount is in whole shillings', async () => {
    await receiveCash();
    const day = await moveMoney();
    const [own] = await counted(day);
    await expectRefusal(close(day, [{ ...own, counted_cents: charge + 100 }]), 400, 'reason_invalid');
    await expectRefusal(
      close(day, [{ ...own, counted_cents: charge + 100, reason: '\u200b \u2060' }]),
      400,
      'reason_invalid',
    );
    await expectRefusal(
      close(day, [{ ...own, counted_cents: charge + 50, reason: 'Coins' }]),
      400,
      'amount_invalid',
    );
    await expectRefusal(close(day, [{ ...own, counted_cents: null }]), 400, 'amount_invalid');
    await close(day, [{ ...own, counted_cents: charge + 100, reason: 'A tip' }]);
  });

  test('counts of others than those who had cash, or of cash that was changed since, save nothing', async () => {
    await receiveCash();
    const day = await moveMoney();
    const [own] = await counted(day);
    const stranger = { member: crypto.randomUUID(), expected_cents: 0, counted_cents: 0 };
    for (const wrong of [[], [own, stranger], [{ ...own, expected_cents: 100, counted_cents: 100 }]]) {
      await expectRefusal(close(day, wrong), 409, 'cash_changed');
    }
    for (const unreadable of [
      {},
      null,
      'cash',
      [{ member: 'Amina' }],
      [{ ...own, counted_cents: 'all' }],
      [own, own],
    ]) {
      await expectRefusal(close(day, unreadable), 400, 'counts_invalid');
    }
    expect(await readRows('select from public.day_closes where day = $1', [day])).toEqual([]);
    await close(day, [own]);
  });

  test('visitors, customers and former staff neither close a day nor read one', async () => {
    for (const by of ['visitor', 'customer', 'former staff'] as const) {
      await expect(close('2026-02-04', [], null, by), by).rejects.toMatchObject({
        code: expect.stringMatching(/^(42501|PT403)$/),
      });
      for (const procedure of ['cash_of_day', 'cash_due_of_day']) {
        await expect(
          callAs(by, procedure, { day: '2026-02-03' }),
          `${procedure} ${by}`,
        ).rejects.toMatchObject({
          code: expect.stringMatching(/^(42501|PT403)$/),
        });
      }
    }
    await close('2026-02-04', []);
  });

  test('the pages of the file have each row once, also rows of one moment', async () => {
    for (let count = 0; count < 5; count += 1) await receiveCash();
    const day = await moveMoney();
    const whole = await readEntries(shop, day, day, 1000);
    expect(whole).toHaveLength(5);
    expect(new Set(whole.map(({ happened_at }) => happened_at)).size).toBe(1);
    for (const pageSize of [1, 2, 3]) expect(await readEntries(shop, day, day, pageSize)).toEqual(whole);
  });

  test('the file for the accountant has the fee and the discount of an order once, whatever it was paid with', async () => {
    await database.query(
      `insert into public.discount_codes (code, amount_cents) values ('ONCE-ONLY', 10000)`,
    );
    const order = await place(product, { discount_code: 'ONCE-ONLY', expected_total: charge - 10_000 });
    await pay(order);
    await shop.receive(order, newReceipt());
    const day = await moveMoney();
    const entries = await readEntries(shop, day);
    expect(entries.map(({ kind: of }) => of).sort()).toEqual(['prompt', 'till']);
    expect(
      entries.flatMap(({ delivery_fee, discount_cents }) =>
        delivery_fee === null && discount_cents === null ? [] : [[delivery_fee, discount_cents]],
      ),
    ).toEqual([[order.delivery_fee, 10_000]]);
  });
});
