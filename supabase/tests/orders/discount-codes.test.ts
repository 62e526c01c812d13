// Discount codes: what they take off an order, who may use them, and how often.
import { randomUUID } from 'node:crypto';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { discountOn } from '../../../domain/orders/discount.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import {
  expectRefusal,
  itemsForm,
  makeProduct,
  personIds,
  procedureCall,
  untilOneQueryWaits,
} from '../shop-database.ts';
import { newPhone, settleAll, setUpShop } from '../steps.ts';

interface Refusal {
  details: string;
  quote?: { total: number; discount?: number };
}

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    asVisitor,
    asStaff,
    queryAs,
    answerToVisitor,
    readRow,
    readValue,
    place,
    placeItems,
    changeItems,
    track,
    trackAsCustomer,
    prompt,
    pay,
    settle,
    expire,
    setStatus,
  } = setUpShop(kind);
  afterEach(() => expectBalancedBooks(database));
  let mango: string;
  beforeEach(async () => {
    mango = await makeProduct(database, 50, 50_000, 'Mango');
    await database.query('delete from private.rate_limits');
  });

  let made = 0;
  /** A code, 10 % unless the columns say otherwise. */
  const makeCode = async (columns: Record<string, unknown> = {}) => {
    made += 1;
    const row: Record<string, unknown> = {
      code: `TEST-${made}`,
      ...('amount_cents' in columns ? {} : { percent: 10 }),
      ...columns,
    };
    const names = Object.keys(row);
    await database.query(
      `insert into public.discount_codes (${names.join(', ')}) values (${names.map((_, index) => `$${index + 1}`).join(', ')})`,
      Object.values(row),
    );
    return String(row.code);
  };
  const items = (quantity = 1) => [{ product_id: mango, quantity }];
  /** An order of one Mango by a phone of its own, 10 % cheaper. */
  const placeWith = (discount_code: string, form: Record<string, unknown> = {}, expected = 45_100) =>
    placeItems(items(), expected, { discount_code, customer_phone: newPhone(), ...form });
  /** The whole answer of a refused order of one Mango. */
  const refusalWith = (discount_code: string, expected = 45_100) =>
    answerToVisitor<Refusal>('place_order', { ...itemsForm(items(), expected), discount_code });
  const change = (code: string, set: string) =>
    queryAs('staff', `update public.discount_codes set ${set} where code = $1`, [code]);
  const orderOf = ({ id }: { id: string }) =>
    readRow(
      'select total_amount, charge_cents, discount_cents, discount_code from public.orders where id = $1',
      [id],
    );

  describe('placing an order', () => {
    test('takes the discount off the drinks, not off the delivery', async () => {
      const code = await makeCode({ percent: 15 });
      const order = await placeItems(items(3), 127_600, { discount_code: code });
      expect(order).toMatchObject({
        total_amount: 127_600,
        delivery_fee: 100,
        discount_code: code,
        discount_cents: 22_500,
      });
      await pay(order);
      expect(
        await readValue('select sum(charge_cents)::integer from public.payments where order_id = $1', [
          order.id,
        ]),
      ).toBe(127_600);
    });

    test('reads a code as it is typed', async () => {
      const code = await makeCode();
      expect(await placeWith(` ${code.toLowerCase().replace('-', ' -')} `)).toMatchObject({
        discount_code: code,
      });
    });

    test('leaves an order without a code as it is', async () => {
      const order = await place(mango, { expected_total: 50_100 });
      expect(order).not.toHaveProperty('discount_cents');
      expect(await placeItems(items(), 50_100, { discount_code: ' ' })).not.toHaveProperty('discount_cents');
      expect(await orderOf(order)).toMatchObject({ discount_cents: 0, discount_code: null });
    });

    test('refuses the total without the discount, and answers with the discount', async () => {
      const code = await makeCode();
      expect(await refusalWith(code, 50_100)).toMatchObject({
        details: 'total_changed',
        quote: { total: 45_100, discount: 5_000 },
      });
    });

    test.each<[string, Record<string, unknown>]>([
      ['that has ended', { ends_at: new Date(Date.now() - 1000).toISOString() }],
      ['that has not begun', { starts_at: new Date(Date.now() + 3_600_000).toISOString() }],
      ['that is switched off', { is_active: false }],
    ])('refuses a code %s as one that never existed, with the amounts without it', async (_, columns) => {
      const unknown = await refusalWith('NEVER-MADE');
      expect(unknown).toMatchObject({ details: 'discount_invalid', quote: { total: 50_100 } });
      expect(unknown?.quote).not.toHaveProperty('discount');
      const code = await makeCode(columns);
      expect(await refusalWith(code)).toEqual(unknown);
      await expectRefusal(asVisitor('check_discount_code', { code }), 409, 'discount_invalid');
    });

    test('refuses a code that ended between the form and the order', async () => {
      const code = await makeCode();
      expect(await asVisitor('check_discount_code', { code })).toEqual({
        code,
        percent: 10,
        amount_cents: null,
        minimum_cents: 0,
      });
      await change(code, 'ends_at = now()');
      await expectRefusal(placeWith(code), 409, 'discount_invalid');
    });

    test('accepts a code from its start to the moment of its end', async () => {
      const code = await makeCode({
        starts_at: new Date(Date.now() - 60_000).toISOString(),
        ends_at: new Date(Date.now() + 3_600_000).toISOString(),
      });
      expect(await placeWith(code)).toMatchObject({ discount_cents: 5_000 });
    });

    test('refuses drinks below the minimum of the code, and says how much it is', async () => {
      const code = await makeCode({ minimum_cents: 100_000 });
      const refusal = await expectRefusal(placeWith(code), 409, 'discount_minimum');
      expect(refusal).toMatchObject({
        hint: '100000',
        message: 'This discount code is for drinks of at least KSh 1,000',
      });
      expect(await placeItems(items(2), 90_100, { discount_code: code })).toMatchObject({
        discount_cents: 10_000,
      });
    });

    test('the same key finds the same order, and refuses another code', async () => {
      const [code, other] = [await makeCode({ max_uses: 1 }), await makeCode()];
      const form = { idempotency_key: randomUUID(), customer_phone: newPhone() };
      const first = await placeWith(code, form);
      expect(await placeWith(code, form)).toEqual(first);
      await change(code, 'is_active = false');
      expect(await placeWith(code, form)).toEqual(first);
      await expectRefusal(placeWith(other, form), 409, 'idempotency_key_reused');
    });

    test('staff use the same codes, also for orders that are collected', async () => {
      const code = await makeCode({ amount_cents: 100_000 });
      const order = await asStaff<{ id: string }>('place_order', {
        ...itemsForm(items(), 100),
        source: 'walk_in',
        is_collected: true,
        discount_code: code,
      });
      // One shilling is left, the least that M-PESA takes.
      expect(await orderOf(order)).toMatchObject({ total_amount: 100, discount_cents: 49_900 });
      await change(code, 'is_active = false');
      await expectRefusal(
        asStaff('place_order', { ...itemsForm(items(), 100), source: 'call', discount_code: code }),
        409,
        'discount_invalid',
      );
    });

    test('the discount is what the form shows, of any prices and codes', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 0, max: 30_000_000 }),
          fc.integer({ min: 0, max: 100_000 }),
          fc.oneof(
            fc.record({ percent: fc.integer({ min: 1, max: 100 }), amount_cents: fc.constant(null) }),
            fc.record({
              percent: fc.constant(null),
              amount_cents: fc.integer({ min: 1, max: 9_999 }).map((n) => n * 100),
            }),
          ),
          fc.integer({ min: 0, max: 1_000_000 }),
          async (drinks, fee, value, minimum_cents) => {
            const terms = { code: 'ANY', ...value, minimum_cents };
            const discount = await readValue<number>(
              `select private.discount_on(jsonb_populate_record(null::public.discount_codes, $1::jsonb), $2, $3)`,
              [JSON.stringify(terms), drinks, fee],
            );
            expect(discount).toBe(discountOn(terms, drinks, fee));
            expect(discount).toBeGreaterThanOrEqual(0);
            expect(
              Number(discount) % 100 === 0 || discount === drinks || discount === drinks + fee - 100,
            ).toBe(true);
          },
        ),
        { numRuns: 100 },
      );
    });
  });

  describe('the limits of a code', () => {
    test('count the orders of all customers', async () => {
      const code = await makeCode({ max_uses: 2 });
      await placeWith(code);
      await placeWith(code);
      await expectRefusal(placeWith(code), 409, 'discount_invalid');
      await expectRefusal(asVisitor('check_discount_code', { code }), 409, 'discount_invalid');
    });

    test('count the orders of a phone, however it is typed', async () => {
      const code = await makeCode({ max_uses_per_phone: 1 });
      await placeWith(code, { customer_phone: '0712 345 678' });
      await expectRefusal(placeWith(code, { customer_phone: '+254712345678' }), 409, 'discount_used');
      await placeWith(code);
    });

    test('give the last use to one of many customers at once', async () => {
      const code = await makeCode({ max_uses: 3 });
      const placed = await settleAll(12, () => placeWith(code));
      expect(placed.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
      for (const order of placed) {
        if (order.status === 'rejected') expect(order.reason).toMatchObject({ detail: 'discount_invalid' });
      }
    });

    test('give one use to two tabs of one phone at once', async () => {
      const code = await makeCode({ max_uses_per_phone: 1 });
      const customer_phone = newPhone();
      const placed = await settleAll(4, () => placeWith(code, { customer_phone }));
      expect(placed.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    });

    test.runIf(kind === 'postgresql').each<[string, string, string]>([
      ['ends', 'is_active = false', 'discount_invalid'],
      ['gives less', 'percent = 5', 'total_changed'],
      ['is deleted', '', 'discount_invalid'],
    ])('refuse an order whose code %s while it waits for its drinks', async (_, set, refusal) => {
      const code = await makeCode();
      let placed: Promise<unknown> | undefined;
      await database.transaction(async (session) => {
        await session.query('select from public.products where id = $1 for update', [mango]);
        placed = expectRefusal(placeWith(code), 409, refusal);
        await untilOneQueryWaits(database);
        if (set) await session.query(`update public.discount_codes set ${set} where code = $1`, [code]);
        else await session.query('delete from public.discount_codes where code = $1', [code]);
      });
      await placed;
    });

    test.runIf(kind === 'postgresql')(
      'store the discount of now, where the total stays the same',
      async () => {
        const code = await makeCode({ amount_cents: 10_000 });
        let placed: ReturnType<typeof placeWith> | undefined;
        await database.transaction(async (session) => {
          await session.query('update public.products set price = 60000 where id = $1', [mango]);
          placed = placeWith(code, {}, 40_100);
          await untilOneQueryWaits(database);
          await session.query('update public.discount_codes set amount_cents = 20000 where code = $1', [
            code,
          ]);
        });
        const order = await placed;
        expect(order).toMatchObject({ total_amount: 40_100, discount_cents: 20_000 });
      },
    );

    test.each<[string, (order: { id: string }) => Promise<unknown>]>([
      ['expires', (order) => expire(order)],
      ['is cancelled by staff', (order) => setStatus(order, 'cancelled')],
    ])('get the use back of an unpaid order that %s', async (_, end) => {
      const code = await makeCode({ max_uses: 1, max_uses_per_phone: 1 });
      const form = { customer_phone: newPhone() };
      const order = await placeWith(code, form);
      await expectRefusal(placeWith(code, form), 409, 'discount_invalid');
      await end(order);
      await placeWith(code, form);
      await expectRefusal(placeWith(code), 409, 'discount_invalid');
    });

    test('do not get the use back of a paid order that is cancelled', async () => {
      const code = await makeCode({ max_uses: 1 });
      const order = await placeWith(code);
      await pay(order);
      await setStatus(order, 'cancelled');
      await expectRefusal(placeWith(code), 409, 'discount_invalid');
    });

    test('count an order again that is paid after its end, at the price that its customer was shown', async () => {
      const code = await makeCode({ max_uses: 1 });
      const order = await placeWith(code);
      const attempt = await prompt(order);
      await settle(attempt, { result: 'failed', result_code: '1032', received_cents: null, receipt: null });
      await expire(order);
      await placeWith(code);
      expect((await settle(attempt)).outcome).toBe('paid');
      expect(await orderOf(order)).toMatchObject({ total_amount: 45_100, discount_code: code });
      await expectRefusal(placeWith(code), 409, 'discount_invalid');
    });
  });

  describe('guessing codes', () => {
    const address = '198.51.100.7';
    const guess = (from = address) => asVisitor('check_discount_code', { code: 'WRONG' }, from);

    test('ends after 60 wrong ones of a network, also by placing orders, and orders without a code go on', async () => {
      const code = await makeCode();
      for (let number = 0; number < 59; number += 1) await expectRefusal(guess(), 409, 'discount_invalid');
      // A right one is not counted.
      await asVisitor('check_discount_code', { code }, address);
      await expectRefusal(placeWith('WRONG', { address }), 409, 'discount_invalid');
      await expectRefusal(guess(), 429, 'too_many_discount_codes');
      await expectRefusal(
        asVisitor('check_discount_code', { code }, address),
        429,
        'too_many_discount_codes',
      );
      await expectRefusal(placeWith(code, { address }), 429, 'too_many_discount_codes');
      await placeItems(items(), 50_100, { address });
      await expectRefusal(guess('192.0.2.9'), 409, 'discount_invalid');
    });

    test('is not counted for staff', async () => {
      for (let number = 0; number < 3; number += 1) {
        await expectRefusal(asStaff('check_discount_code', { code: 'WRONG' }), 409, 'discount_invalid');
      }
      expect(
        await readValue(`select count(*)::integer from private.rate_limits where bucket = 'discount_codes'`),
      ).toBe(0);
    });

    test.each([
      ['an empty text', ''],
      ['a space', ' '],
      ['a long text', 'A'.repeat(100_000)],
      ['a quote', "JANI' or true"],
      ['a pattern', '%'],
      ['an invisible character', '\u200b'],
    ])('refuses %s', async (_, code) => {
      await expectRefusal(asVisitor('check_discount_code', { code }), 409, 'discount_invalid');
    });
  });

  describe('changing the drinks before the payment', () => {
    test('computes the discount again, also after the code has ended', async () => {
      const code = await makeCode({ max_uses: 1 });
      const order = await placeWith(code);
      await change(code, 'is_active = false');
      const changed = await changeItems(order, items(3), 135_100);
      expect(changed).toMatchObject({ total_amount: 135_100, discount_cents: 15_000, discount_code: code });
    });

    test('below the minimum gives the code back', async () => {
      const code = await makeCode({ max_uses: 1, minimum_cents: 100_000 });
      const order = await placeItems(items(2), 90_100, { discount_code: code });
      await expectRefusal(changeItems(order, items(), 45_100), 409, 'total_changed');
      expect(await changeItems(order, items(), 50_100)).not.toHaveProperty('discount_code');
      expect(await orderOf(order)).toMatchObject({
        total_amount: 50_100,
        discount_cents: 0,
        discount_code: null,
      });
      await placeItems(items(2), 90_100, { discount_code: code });
    });
  });

  describe('what an order shows', () => {
    test('the discount to every visitor, the code to the customer', async () => {
      const code = await makeCode();
      const order = await placeWith(code);
      expect(await track(order)).toMatchObject({ discount_cents: 5_000, total_amount: 45_100 });
      expect(await track(order)).not.toHaveProperty('discount');
      const terms = { code, percent: 10, amount_cents: null, minimum_cents: 0 };
      expect(await trackAsCustomer(order)).toMatchObject({ discount_cents: 5_000, discount: terms });
      expect(
        await asVisitor('order_receipt', {
          tracking_number: order.tracking_number,
          access_key: order.access_key,
        }),
      ).toMatchObject({ discount_cents: 5_000, discount: terms });
    });

    test('day totals name the discounts of paid orders', async () => {
      const day = await readValue(`select private.nairobi_day(now())::text`);
      const discounts = async () =>
        Number(
          (await queryAs('staff', 'select discounts from public.day_totals($1::date)', [day])).rows[0]
            ?.discounts,
        );
      const before = await discounts();
      const code = await makeCode();
      await placeWith(code);
      await pay(await placeWith(code));
      expect((await discounts()) - before).toBe(5_000);
    });
  });

  describe('the codes of the shop', () => {
    const figuresOf = async (code: string) =>
      (
        await queryAs<Record<string, unknown>>(
          'staff',
          `select uses::integer, waiting::integer, cost_cents::integer, sold_cents::integer, has_orders
           from public.list_discount_codes() where code = $1`,
          [code],
        )
      ).rows[0];

    test('are listed with their uses and what they cost so far', async () => {
      const code = await makeCode({ max_uses: 5 });
      expect(await figuresOf(code)).toMatchObject({ uses: 0, waiting: 0, cost_cents: 0, has_orders: false });
      await expire(await placeWith(code));
      expect(await figuresOf(code)).toMatchObject({ uses: 0, has_orders: true });
      await placeWith(code);
      await pay(await placeWith(code));
      expect(await figuresOf(code)).toMatchObject({
        uses: 2,
        waiting: 1,
        cost_cents: 5_000,
        sold_cents: 45_100,
        has_orders: true,
      });
      await expectRefusal(queryAs('former staff', 'select public.list_discount_codes()'), 403, 'staff_only');
    });

    test('are searched by a part of the code, and listed page by page', async () => {
      const list = async (args: Record<string, unknown>) =>
        (
          await queryAs<{ id: string; code: string; created_at: string }>(
            'staff',
            `select id, code, created_at::text from ${procedureCall('list_discount_codes', args)}`,
            Object.values(args),
          )
        ).rows;
      const made: string[] = [];
      for (const part of ['A', 'B', 'C']) made.unshift(await makeCode({ code: `PAGE-${part}9` }));
      // At one time: the id decides.
      await database.query(
        `update public.discount_codes set created_at = '2020-01-01' where code = any ($1::text[])`,
        [`{${made.join()}}`],
      );
      expect((await list({ search: ' page- ' })).map(({ code }) => code).sort()).toEqual(made.toSorted());
      expect((await list({ search: 'e-b' })).map(({ code }) => code)).toEqual(['PAGE-B9']);
      expect(await list({ search: '%' })).toEqual([]);
      expect(await list({ search: '_' })).toEqual([]);
      const paged: string[] = [];
      let last: { id: string; created_at: string } | undefined;
      for (;;) {
        const [row] = await list({
          search: 'page-',
          page_size: 1,
          ...(last ? { before_created_at: last.created_at, before_id: last.id } : {}),
        });
        if (!row) break;
        paged.push(row.code);
        last = row;
      }
      expect(paged.toSorted()).toEqual(made.toSorted());
      expect((await list({ only_id: last?.id })).map(({ id }) => id)).toEqual([last?.id]);
    });

    test('are stored in capitals', async () => {
      await queryAs('staff', `insert into public.discount_codes (code, percent) values (' karibu20 ', 20)`);
      expect(await readValue(`select code from public.discount_codes where percent = 20`)).toBe('KARIBU20');
      await expect(
        queryAs('staff', `insert into public.discount_codes (code, percent) values ('Karibu20', 5)`),
      ).rejects.toMatchObject({ code: '23505' });
      await queryAs('staff', `delete from public.discount_codes where code = 'KARIBU20'`);
    });

    test('can be changed and deleted until the first order has them', async () => {
      const code = await makeCode();
      await change(code, 'percent = 20');
      await change(code, 'percent = 10');
      const order = await placeWith(code);
      await expire(order);
      for (const set of [
        'percent = 20',
        'minimum_cents = 100',
        `code = 'OTHER'`,
        'percent = null, amount_cents = 100',
      ]) {
        await expectRefusal(change(code, set), 409, 'discount_in_use');
      }
      await expectRefusal(
        queryAs('staff', 'delete from public.discount_codes where code = $1', [code]),
        409,
        'discount_in_use',
      );
      await change(code, 'ends_at = now(), max_uses = 3, max_uses_per_phone = 1, is_active = false');
      const unused = await makeCode();
      await queryAs('staff', 'delete from public.discount_codes where code = $1', [unused]);
      expect(
        await readValue('select count(*)::integer from public.discount_codes where code = $1', [unused]),
      ).toBe(0);
    });

    test('an edit of an outdated row changes nothing', async () => {
      const code = await makeCode();
      const seen = await readValue('select updated_at::text from public.discount_codes where code = $1', [
        code,
      ]);
      await change(code, 'max_uses = 3');
      const { rows } = await queryAs(
        'staff',
        'update public.discount_codes set max_uses = 4 where code = $1 and updated_at = $2::timestamptz returning id',
        [code, seen],
      );
      expect(rows).toEqual([]);
    });

    test('reads no other orders for a code', async () => {
      const plan = await asRole(database, { role: 'service_role', sub: personIds.staff }, async (session) => {
        await session.query('set local enable_seqscan = off');
        const { rows } = await session.query<Record<string, string>>(
          `explain select count(*) from public.orders as o where o.discount_code = 'JANI10'`,
        );
        return rows.map((row) => Object.values(row)[0]).join('\n');
      });
      expect(plan).toContain('orders_by_discount_code');
    });
  });
});
