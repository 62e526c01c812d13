// What cannot be ordered for a while: everything while orders are paused, and drinks that are sold out.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { orderPauseOf } from '../../../domain/orders/order-pause.ts';
import {
  type Caller,
  everyone,
  expectRefusal,
  makeProduct,
  orderForm,
  secondStepPassed,
  stockOf,
} from '../shop-database.ts';
import { nairobiDay, setUpShop } from '../steps.ts';

interface Settings {
  orders_pause_reason: string | null;
  orders_paused_until: string | null;
  updated_at: string;
}

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    callAs,
    asStaff,
    asVisitor,
    queryAs,
    readRow,
    readRows,
    readValue,
    place,
    prompt,
    settle,
    expire,
    stateOf,
  } = setUpShop(kind);
  let product: string;
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits');
    product = await makeProduct(database, 20);
  });
  const staff: Caller[] = ['staff', secondStepPassed, 'service'];

  describe('a pause of orders', () => {
    const settings = async () =>
      (await readRow(
        `select orders_pause_reason, updated_at::text, to_char(orders_paused_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as orders_paused_until
         from public.store_settings`,
      )) as unknown as Settings;
    const pause = (reason = 'heavy rain', minutes: number | null = 30, by: Caller = 'staff') =>
      callAs(by, 'pause_orders', { reason, minutes });
    const history = () =>
      readRows(
        'select reason, paused_until is null as is_open, changed_by_email as by from public.order_pauses order by id',
      );
    afterEach(() => asStaff('resume_orders'));

    test.each([30, null])(
      'refuses orders of everyone with the sentence of the storefront (%s)',
      async (minutes) => {
        const order = await place(product);
        await pause('heavy rain', minutes);
        const { sentence = '' } = orderPauseOf(await settings(), Date.now()) ?? {};
        expect(sentence).toMatch(
          minutes === null
            ? /^Orders are paused for now: heavy rain\.$/
            : /^Orders are paused until \d\d:\d\d: heavy rain\.$/,
        );
        for (const by of everyone) {
          const { message } = await expectRefusal(place(product, { by }), 409, 'orders_paused');
          expect(message).toBe(sentence);
        }
        await asStaff('resume_orders');
        expect((await place(product)).status).toBe('pending');
        expect(order.status).toBe('pending');
      },
    );

    test('ends by itself, and the key of a refused order can be used again', async () => {
      const form = orderForm(product);
      await pause();
      await expectRefusal(asVisitor('place_order', form), 409, 'orders_paused');
      expect(await stockOf(database, product)).toBe(20);
      await database.query(
        `update public.store_settings set orders_paused_until = now() - interval '1 second'`,
      );
      expect(orderPauseOf(await settings(), Date.now())).toBeNull();
      const order = await asVisitor<{ id: string }>('place_order', form);
      expect((await stateOf(order)).status).toBe('pending');
    });

    test('leaves the orders that exist alone: they are found again, prompted, paid and cancelled', async () => {
      const form = orderForm(product);
      const first = await asVisitor<{ id: string }>('place_order', form);
      const [second, third] = [await place(product), await place(product)];
      await pause();
      expect((await asVisitor<{ id: string }>('place_order', form)).id).toBe(first.id);
      await settle(await prompt(second), {
        result: 'failed',
        result_code: '1032',
        received_cents: null,
        receipt: null,
      });
      await settle(await prompt(second));
      expect(await stateOf(second)).toMatchObject({ money: 'paid', deliveries: 1 });
      await expire(third);
      expect((await stateOf(third)).status).toBe('cancelled');
    });

    test('records who paused and resumed', async () => {
      const before = (await history()).length;
      await pause('no rider is free', null);
      await pause('no rider is free.', 60, secondStepPassed);
      await asStaff('resume_orders');
      await asStaff('resume_orders');
      expect((await history()).slice(before)).toEqual([
        { reason: 'no rider is free', is_open: true, by: 'staff@jani.example' },
        { reason: 'no rider is free', is_open: false, by: 'careful@jani.example' },
        { reason: null, is_open: true, by: 'staff@jani.example' },
      ]);
    });

    test('does not conflict with an open form of the settings, as an edit does', async () => {
      const { updated_at } = await settings();
      await pause();
      expect((await settings()).updated_at).toBe(updated_at);
      await database.query('update public.store_settings set reservation_minutes = reservation_minutes + 1');
      expect((await settings()).updated_at).not.toBe(updated_at);
    });

    test('is set by active staff alone, and only by the procedures', async () => {
      for (const by of everyone) {
        if (staff.includes(by)) continue;
        await expect(pause('heavy rain', 30, by), String(by)).rejects.toMatchObject({ code: /42501|PT403/ });
        await expect(callAs(by, 'resume_orders'), String(by)).rejects.toMatchObject({ code: /42501|PT403/ });
      }
      expect((await settings()).orders_pause_reason).toBeNull();
      for (const by of staff) await pause('heavy rain', 30, by);
      const write = `update public.store_settings set orders_pause_reason = 'none'`;
      await expect(queryAs('staff', write)).rejects.toMatchObject({ code: '42501' });
    });

    test('visitors read its reason and end, and not who paused', async () => {
      await pause();
      const read = 'select orders_pause_reason, orders_paused_until from public.store_settings';
      expect((await queryAs('visitor', read)).rows).toHaveLength(1);
      const who = 'select changed_by_email from public.order_pauses';
      await expect(queryAs('visitor', who)).rejects.toMatchObject({ code: '42501' });
      expect((await queryAs('customer', who)).rows).toEqual([]);
      expect((await queryAs('staff', who)).rows.length).toBeGreaterThan(0);
    });

    test.each([
      ['a reason that nobody sees', '\u200b\u200b\u200b', 30, 'reason_invalid'],
      ['full stops alone', '...', 30, 'reason_invalid'],
      ['two lines', 'rain\nrain', 30, 'reason_invalid'],
      ['81 characters', 'x'.repeat(81), 30, 'reason_invalid'],
      ['no time', 'heavy rain', 0, 'pause_invalid'],
      ['more than a day', 'heavy rain', 1441, 'pause_invalid'],
    ])('is refused with %s', async (_, reason, minutes, code) => {
      await expectRefusal(pause(reason, minutes), 400, code);
      await pause('x'.repeat(80), 1440);
      expect((await settings()).orders_pause_reason).toHaveLength(80);
    });
  });

  describe('a drink that is sold out for a while', () => {
    const setSoldOut = (span: string | null, by: Caller = 'staff', id = product) =>
      callAs<string | null>(by, 'set_sold_out', { product_id: id, span });
    const unitsForSale = () =>
      readValue<number>('select public.units_for_sale(p) from public.products as p where p.id = $1', [
        product,
      ]);

    test('refuses orders as one without stock, and its stock stays', async () => {
      expect(await unitsForSale()).toBe(20);
      await setSoldOut('hour');
      const { message } = await expectRefusal(place(product), 409, 'out_of_stock');
      await database.query(
        'update public.products set stock_quantity = 0, sold_out_until = null where id = $1',
        [product],
      );
      expect((await expectRefusal(place(product), 409, 'out_of_stock')).message).toBe(message);
      await database.query('update public.products set stock_quantity = 20 where id = $1', [product]);
      await setSoldOut('hour');
      expect([await unitsForSale(), await stockOf(database, product)]).toEqual([0, 20]);
      const { answer } = (await readRow(
        'select public.place_order(gen_random_uuid(), $1, 1, $2, $3, $4, $5, 1) as answer',
        [product, 'Amina Kamau', 'amina@example.com', '0712345678', 'Westlands'],
      )) as unknown as { answer: { quote: { units_left: number } } };
      expect(answer.quote.units_left).toBe(0);
    });

    test('can be ordered again when staff say so, and after its end', async () => {
      await setSoldOut('hour');
      await setSoldOut(null);
      await place(product);
      await setSoldOut('tomorrow');
      await expectRefusal(place(product), 409, 'out_of_stock');
      await database.query(`update public.products set sold_out_until = now() where id = $1`, [product]);
      await place(product);
      expect([await unitsForSale(), await stockOf(database, product)]).toEqual([18, 18]);
    });

    test('is reserved and paid by orders from before', async () => {
      const [held, unheld] = [await place(product), await place(product)];
      await database.query('update public.orders set reserved_until = null where id = $1', [unheld.id]);
      await setSoldOut('hour');
      await settle(await prompt(held));
      await settle(await prompt(unheld));
      expect(await stateOf(held)).toMatchObject({ money: 'paid', deliveries: 1 });
      expect(await stateOf(unheld)).toMatchObject({ money: 'paid', deliveries: 1 });
    });

    test('lasts an hour, or until 6:00 of the next day in Nairobi', async () => {
      const hours = await readValue<number>(
        `select round(extract(epoch from $1::timestamptz - now()) / 3600)::integer`,
        [await setSoldOut('hour')],
      );
      expect(hours).toBe(1);
      const morning = await readValue(
        `select to_char($1::timestamptz at time zone 'Africa/Nairobi', 'YYYY-MM-DD HH24:MI')`,
        [await setSoldOut('tomorrow')],
      );
      expect([0, 24].map((hours) => `${nairobiDay(Date.now() + (24 - hours) * 3_600_000)} 06:00`)).toContain(
        morning,
      );
    });

    test('is no edit, so that it does not conflict with an open form of the product', async () => {
      const editedAt = () =>
        readValue('select updated_at::text from public.products where id = $1', [product]);
      const before = await editedAt();
      await setSoldOut('hour');
      expect(await editedAt()).toBe(before);
      await database.query(`update public.products set tagline = 'New' where id = $1`, [product]);
      expect(await editedAt()).not.toBe(before);
    });

    test('is set by active staff alone', async () => {
      for (const by of everyone) {
        if (staff.includes(by)) continue;
        await expect(setSoldOut('hour', by), String(by)).rejects.toMatchObject({ code: /42501|PT403/ });
      }
      expect(await unitsForSale()).toBe(20);
      for (const by of staff) await setSoldOut('hour', by);
      const write = `update public.products set sold_out_until = null`;
      await expect(queryAs('staff', write)).rejects.toMatchObject({ code: '42501' });
      await expectRefusal(setSoldOut('year'), 400, 'span_unknown');
      await expectRefusal(
        setSoldOut('hour', 'staff', '00000000-0000-4000-8000-000000000000'),
        404,
        'product_not_found',
      );
    });
  });
});
