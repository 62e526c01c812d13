// Changes of the stock by staff and by orders, their history, and the lists by stock.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { expectRefusal, initialStock, makeProduct, people, personIds, stockOf } from '../shop-database.ts';
import { newReceipt, setUpShop } from '../steps.ts';

interface Change {
  kind: string;
  id: number;
  from_value: number;
  to_value: number;
  cause: string;
  order_id: string | null;
  order_number: string | null;
  changed_by_email: string | null;
  reason: string | null;
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, queryAs, callAs, readRow, readColumn, readValue } = shop;
  const { place, expire, pay, prompt, settle, setStatus, confirm, correct, paymentOf } = shop;

  const historyOf = async (product: string, given: Record<string, unknown> = {}) =>
    (
      await queryAs<Change>(
        'staff',
        `select * from public.product_history($1, before_stock_change => $2, before_price_change => $3, page_size => $4)`,
        [
          product,
          given.before_stock_change ?? null,
          given.before_price_change ?? null,
          given.page_size ?? 50,
        ],
      )
    ).rows;
  /** `cause from to`, the oldest first. */
  const causesOf = async (product: string) =>
    (await historyOf(product))
      .map(({ cause, from_value, to_value }) => `${cause} ${from_value} ${to_value}`)
      .reverse();
  const changeStock = (product: string, by: number, who: 'staff' | 'customer' = 'staff') =>
    callAs<number>(who, 'change_stock', { product_id: product, by });
  const emailOf = (person: string) =>
    readValue('select email from auth.users where id = $1', [personIds[person as 'staff']]);
  /** Staff changed the stock: the invariants expect it. */
  const expectStock = (product: string, units: number) => initialStock(database).set(product, units);

  describe('the history of the stock', () => {
    test('shows the order that took units, and the end of its reservation', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product, { quantity: 2 });
      await expire(order);
      expect(await causesOf(product)).toEqual(['edited 0 5', 'ordered 5 3', 'reservation_ended 3 5']);
      const [ended, taken] = await historyOf(product);
      const number = await readValue('select order_number from public.orders where id = $1', [order.id]);
      for (const change of [taken, ended]) {
        expect(change).toMatchObject({ order_id: order.id, order_number: number, changed_by_email: null });
      }
    });

    test('shows the staff member who cancelled a paid order', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      await pay(order);
      await setStatus(order, 'cancelled');
      expect((await historyOf(product))[0]).toMatchObject({
        cause: 'cancelled',
        from_value: 4,
        to_value: 5,
        changed_by_email: await emailOf('staff'),
      });
      await setStatus(order, 'processing');
      expect((await causesOf(product)).at(-1)).toBe('ordered 5 4');
    });

    test('shows units that return with the money of an order', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      const { payment } = await pay(order);
      // M-PESA reverses the payment of its own accord.
      await database.query(`update public.payments set refunded_at = now() where id = $1`, [payment.id]);
      expect((await causesOf(product)).at(-1)).toBe('refunded 4 5');
    });

    test('shows units that return because a payment needs review', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      const receipt = newReceipt();
      await confirm(order, receipt);
      await correct(await paymentOf(receipt), { received_cents: order.charge_cents - 100 });
      expect((await causesOf(product)).at(-1)).toBe('under_review 4 5');
    });

    test('shows late money that takes the units again', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      const attempt = await prompt(order);
      await database.query(`update public.payments set status = 'failed' where id = $1`, [attempt.id]);
      await expire(order);
      expect((await settle(attempt)).outcome).toBe('paid');
      expect((await causesOf(product)).slice(1)).toEqual([
        'ordered 5 4',
        'reservation_ended 4 5',
        'ordered 5 4',
      ]);
    });

    test('names the staff member of an edit, and no one for the shop itself', async () => {
      const product = await makeProduct(database, 5);
      await queryAs('staff', 'update public.products set stock_quantity = 9, price = 90000 where id = $1', [
        product,
      ]);
      await database.query('update public.products set stock_quantity = 7 where id = $1', [product]);
      expectStock(product, 7);
      const member = await emailOf('staff');
      expect(
        (await historyOf(product)).map(({ kind, from_value, to_value, changed_by_email }) => [
          kind,
          from_value,
          to_value,
          changed_by_email,
        ]),
      ).toEqual([
        ['stock', 9, 7, null],
        ['stock', 5, 9, member],
        ['price', 95_000, 90_000, member],
        ['stock', 0, 5, null],
      ]);
    });

    test('is read page by page, without a gap between prices and units', async () => {
      const product = await makeProduct(database, 100);
      for (let round = 1; round <= 6; round += 1) {
        await changeStock(product, round);
        if (round % 2) {
          await queryAs('staff', 'update public.products set price = price + 100 where id = $1', [product]);
        }
      }
      expectStock(product, 121);
      const whole = await historyOf(product);
      expect(whole).toHaveLength(10);
      const read: Change[] = [];
      const smallest = (kind: string) => read.findLast((change) => change.kind === kind)?.id;
      for (let page = 0; page < 4; page += 1) {
        read.push(
          ...(await historyOf(product, {
            page_size: 3,
            before_stock_change: smallest('stock'),
            before_price_change: smallest('price'),
          })),
        );
      }
      expect(read).toEqual(whole);
    });

    test('is only added to, even by the owner', async () => {
      const product = await makeProduct(database, 5);
      for (const statement of [
        'update public.stock_changes set to_units = 9 where product_id = $1',
        'delete from public.stock_changes where product_id = $1',
      ]) {
        await expect(database.query(statement, [product])).rejects.toMatchObject({ code: '42501' });
        await expect(queryAs('staff', statement, [product])).rejects.toMatchObject({ code: '42501' });
      }
      await changeStock(product, 1);
      expectStock(product, 6);
      expect(await causesOf(product)).toEqual(['edited 0 5', 'edited 5 6']);
    });

    test('is for staff only', async () => {
      const product = await makeProduct(database, 5);
      for (const procedure of ['product_history', 'change_stock']) {
        await expectRefusal(
          callAs('customer', procedure, {
            product_id: product,
            ...(procedure === 'change_stock' && { by: 1 }),
          }),
          403,
          'staff_only',
        );
      }
      expect(await historyOf(product)).toHaveLength(1);
    });

    test('survives its product', async () => {
      const product = await makeProduct(database, 5);
      await queryAs('staff', 'delete from public.products where id = $1', [product]);
      expect(await causesOf(product)).toEqual(['edited 0 5']);
    });
  });

  describe('a change by a number of units', () => {
    test('loses no sale that happens at the same time', async () => {
      const product = await makeProduct(database, 20);
      await Promise.all([
        changeStock(product, 5),
        place(product, { quantity: 2 }),
        changeStock(product, -3),
        place(product, { quantity: 1 }),
      ]);
      expect(await stockOf(database, product)).toBe(19);
      expectStock(product, 22);
    });

    test('is no edit that conflicts with a form', async () => {
      const product = await makeProduct(database, 5);
      const seen = await readRow('select updated_at from public.products where id = $1', [product]);
      expect(await changeStock(product, 2)).toBe(7);
      expectStock(product, 7);
      expect(await readRow('select updated_at from public.products where id = $1', [product])).toEqual(seen);
    });

    test('takes away no more than is left', async () => {
      const product = await makeProduct(database, 3);
      await expectRefusal(changeStock(product, -4), 409, 'not_enough_stock');
      expect(await stockOf(database, product)).toBe(3);
      expect(await changeStock(product, -3)).toBe(0);
      expectStock(product, 0);
    });

    test('has the reason of an edit of price and stock, which the product does not keep', async () => {
      const product = await makeProduct(database, 5);
      await expectStock(product, 9);
      const edit = (values: string, reason: string | null) =>
        queryAs('staff', `update public.products set ${values}, reason_of_change = $2 where id = $1`, [
          product,
          reason,
        ]);
      await edit('price = price + 500, stock_quantity = 9', ' Sugar costs more ');
      await edit('price = price - 500', null);
      await queryAs('staff', 'update public.products set price = price + 100 where id = $1', [product]);
      expect((await historyOf(product)).map(({ kind, reason }) => [kind, reason]).reverse()).toEqual([
        ['stock', null],
        ['price', 'Sugar costs more'],
        ['stock', 'Sugar costs more'],
        ['price', null],
        ['price', null],
      ]);
      await expectRefusal(edit('price = price + 500', 'ab'), 400, 'reason_invalid');
      expect(
        await readValue('select reason_of_change from public.products where id = $1', [product]),
      ).toBeNull();
      // Neither does a change of the delivery fee in the same transaction have it.
      await database.transaction(async (session) => {
        await session.query(
          'update public.products set price = price + 1, reason_of_change = $2 where id = $1',
          [product, 'Sugar'],
        );
        await session.query('update public.store_settings set delivery_fee = delivery_fee + 1');
        const { rows } = await session.query<{ reason: string | null }>(
          'select reason from public.price_changes order by id desc limit 2',
        );
        expect(rows.map(({ reason }) => reason)).toEqual([null, 'Sugar']);
        await session.query('update public.store_settings set delivery_fee = delivery_fee - 1');
      });
    });

    test('has the reason that the member gave, and no other change has it', async () => {
      const product = await makeProduct(database, 20);
      const changeFor = (reason: string | null) =>
        callAs<number>('staff', 'change_stock', { product_id: product, by: -1, reason });
      const longest = 'Sour '.repeat(40).trim().padEnd(200, '!');
      for (const reason of ['  2 broken ', null, '\u200b', longest]) await changeFor(reason);
      await changeStock(product, -1);
      // In the same transaction, too, the next change has its own.
      await asRole(database, people.staff, async (session) => {
        await session.query(`select public.change_stock($1, -1, 'Delivery from Meru')`, [product]);
        await session.query('update public.products set stock_quantity = 10 where id = $1', [product]);
      });
      expectStock(product, 10);
      expect((await historyOf(product)).map(({ reason }) => reason).reverse()).toEqual([
        null,
        '2 broken',
        null,
        null,
        longest,
        null,
        'Delivery from Meru',
        null,
      ]);
      for (const reason of ['ab', 'x'.repeat(201)]) {
        await expectRefusal(changeFor(reason), 400, 'reason_invalid');
      }
      expect(await stockOf(database, product)).toBe(10);
    });

    test('of a typed stock is made only on the stock that the member saw', async () => {
      const product = await makeProduct(database, 20);
      const setSeen = (seen_units: number, by: number) =>
        callAs<number>('staff', 'change_stock', { product_id: product, by, seen_units });
      await changeStock(product, -2);
      await expectRefusal(setSeen(20, 5), 409, 'stock_changed');
      expect(await setSeen(18, 5)).toBe(23);
      await expectRefusal(setSeen(23, -24), 409, 'not_enough_stock');
      expectStock(product, 23);
    });

    test('needs a product', async () => {
      await expectRefusal(changeStock('00000000-0000-4000-8000-000000000000', 1), 404, 'product_unavailable');
    });
  });

  describe('a low stock', () => {
    const isLow = async (product: string) =>
      await readValue<boolean>('select is_low_on_stock from public.products where id = $1', [product]);

    test.each([
      // units, threshold, is low
      [10, null, false],
      [9, null, true],
      [0, null, true],
      [9, 9, false],
      [8, 9, true],
      [0, 0, false],
    ])('%s units with the threshold %s', async (units, threshold, expected) => {
      const product = await makeProduct(database, units);
      await queryAs('staff', 'update public.products set low_stock_below = $2 where id = $1', [
        product,
        threshold,
      ]);
      expect(await isLow(product)).toBe(expected);
    });

    test('rejects a negative threshold, and an edit of what is computed', async () => {
      const product = await makeProduct(database, 5);
      await expect(
        queryAs('staff', 'update public.products set low_stock_below = -1 where id = $1', [product]),
      ).rejects.toMatchObject({ code: '23514' });
      await expect(
        queryAs('staff', 'update public.products set is_low_on_stock = false where id = $1', [product]),
      ).rejects.toThrow();
    });

    test('is in an index that no order updates', async () => {
      const indexes = await readColumn(
        `select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'public.products'::regclass`,
      );
      expect(indexes.join()).toContain('is_low_on_stock');
      expect(indexes.join()).not.toContain('stock_quantity');
    });
  });

  describe('the list of products', () => {
    const readPage = async (values: unknown[]) =>
      (
        await queryAs<{ id: string; name: string; created_at: string }>(
          'staff',
          `select id, name, created_at::text
           from public.find_products('sorted', null, $1::text::timestamptz, $2, $3, sort => $4, low_on_stock => $5)`,
          values,
        )
      ).rows;
    const namesBy = async (sort: string, given: { pages?: number; low?: boolean } = {}) => {
      const names: string[] = [];
      let last: { id: string; name: string; created_at: string } | undefined;
      for (let page = 0; page < (given.pages ?? 1); page += 1) {
        const rows = await readPage([
          last?.created_at ?? null,
          last?.id ?? null,
          given.pages ? 2 : 50,
          sort,
          given.low ?? false,
        ]);
        names.push(...rows.map(({ name }) => name));
        last = rows.at(-1) ?? last;
      }
      return names.map((name) => name.replace('Sorted ', ''));
    };

    test('is sorted by stock, name and price, page by page, and narrowed to low stock', async () => {
      for (const [name, price, stock, isActive] of [
        ['c', 300, 12, true],
        ['A', 500, 4, true],
        ['b', 100, 0, false],
        ['E', 200, 4, true],
        ['d', 100, 70, true],
      ] as const) {
        const product = await makeProduct(database, stock, price);
        await queryAs(
          'staff',
          `update public.products set name = 'Sorted ' || $2, is_active = $3 where id = $1`,
          [product, name, isActive],
        );
      }
      expect(await namesBy('name')).toEqual(['A', 'b', 'c', 'd', 'E']);
      expect(await namesBy('-name')).toEqual(['E', 'd', 'c', 'b', 'A']);
      expect((await namesBy('stock')).map((name) => name.toUpperCase())).toEqual(
        expect.arrayContaining(['A', 'B', 'C', 'D', 'E']),
      );
      expect((await namesBy('stock')).at(0)).toBe('b');
      expect((await namesBy('-stock')).slice(0, 2)).toEqual(['d', 'c']);
      expect((await namesBy('price')).slice(2)).toEqual(['E', 'c', 'A']);
      for (const sort of ['stock', '-stock', 'name', '-name', 'price', '-price', '']) {
        expect(await namesBy(sort, { pages: 3 }), sort).toEqual(await namesBy(sort));
      }
      expect((await namesBy('', { low: true })).sort()).toEqual(['A', 'E']);
      expect(await namesBy('-name', { low: true })).toEqual(['E', 'A']);
    });
  });

  test('staff see the brands of active products', async () => {
    const product = await makeProduct(database, 5);
    await queryAs('staff', `update public.products set brand = 'Kaskazi' where id = $1`, [product]);
    const brands = async () =>
      (await queryAs<{ brand: string }>('staff', 'select * from public.list_brands() as brand')).rows.map(
        ({ brand }) => brand,
      );
    expect(await brands()).toContain('Kaskazi');
    await queryAs('staff', 'update public.products set is_active = false where id = $1', [product]);
    expect(await brands()).not.toContain('Kaskazi');
  });
});
