// Staff edit the catalogue concurrently with each other and with customers who order.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, stockOf } from '../shop-database.ts';
import { failed, setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, queryAs, readRows, readRow, readValue, place, track, expire, begin, settle, pay } = shop;

  const asStaff = (statement: string, values: unknown[] = []) => queryAs('staff', statement, values);
  const orderNow = (id: string) =>
    readRow(
      `select o.status, o.payment_status, o.reserved_until is null as is_settled, i.product_id, i.product_name, i.quantity, i.unit_price
       from public.orders as o join public.order_items as i on i.order_id = o.id where o.id = $1`,
      [id],
    );
  /** The date as returned by the table service, with microseconds. */
  const editedAt = async (productId: string) =>
    (await readValue(`select to_json(updated_at) #>> '{}' from public.products where id = $1`, [
      productId,
    ])) ?? '';

  describe('two staff members edit one product', () => {
    test('a save changes nothing if another staff member has changed the row', async () => {
      const product = await makeProduct(database, 5);
      const seen = await editedAt(product);
      const save = (name: string, at: string) =>
        asStaff('update public.products set name = $2 where id = $1 and updated_at = $3::text::timestamptz', [
          product,
          name,
          at,
        ]);
      expect((await save('Mine', seen)).rowCount).toBe(1);
      expect((await save('Yours', seen)).rowCount).toBe(0);
      expect(await readRows('select name from public.products where id = $1', [product])).toEqual([
        { name: 'Mine' },
      ]);
      expect((await save('Yours', await editedAt(product))).rowCount).toBe(1);
    });

    test('one of two concurrent edits succeeds and the other fails', async () => {
      const product = await makeProduct(database, 5);
      const seen = await editedAt(product);
      const saved = await Promise.all(
        [1, 2, 3, 4].map((price) =>
          asStaff(
            'update public.products set price = $2 where id = $1 and updated_at = $3::text::timestamptz',
            [product, price, seen],
          ),
        ),
      );
      expect(saved.map(({ rowCount }) => rowCount).sort()).toEqual([0, 0, 0, 1]);
    });

    test.each([
      ['name', `'Other'`],
      ['slug', `'other-' || id`],
      ['tagline', `'Other'`],
      ['description', `'Other'`],
      ['price', '1'],
      ['previous_price', '120000'],
      ['image_url', `'/other.webp'`],
      ['category', `'Passion'`],
      ['brand', `'Other'`],
      ['is_active', 'false'],
      ['home_section', `'top_picks'`],
      ['home_position', '9'],
    ])('an edit of its %s changes the edit date', async (column, value) => {
      const product = await makeProduct(database, 5);
      const before = await editedAt(product);
      await asStaff(`update public.products set ${column} = ${value} where id = $1`, [product]);
      expect(await editedAt(product)).not.toBe(before);
      const after = await editedAt(product);
      await asStaff(`update public.products set ${column} = ${column} where id = $1`, [product]);
      expect(await editedAt(product), 'the same value again is no edit').toBe(after);
    });

    test('the date moves forward even ahead of the clock, and cannot be set', async () => {
      const product = await makeProduct(database, 5);
      await database.execute('alter table public.products disable trigger products_before_change');
      await database.query(`update public.products set updated_at = '2100-01-01' where id = $1`, [product]);
      await database.execute('alter table public.products enable trigger products_before_change');
      await asStaff(`update public.products set name = 'Later', updated_at = '2000-01-01' where id = $1`, [
        product,
      ]);
      const { rows } = await database.query(
        `select updated_at > '2100-01-01' and updated_at < '2100-01-02' as is_later from public.products where id = $1`,
        [product],
      );
      expect(rows).toEqual([{ is_later: true }]);
    });
  });

  describe('an offer', () => {
    const pricesOf = async (product: string) =>
      (await database.query('select price, previous_price from public.products where id = $1', [product]))
        .rows[0];
    const set = (product: string, columns: string) =>
      asStaff(`update public.products set ${columns} where id = $1`, [product]);

    test('has a previous price above the price', async () => {
      const product = await makeProduct(database, 5);
      await set(product, 'previous_price = 120000');
      expect(await pricesOf(product)).toEqual({ price: 95_000, previous_price: 120_000 });
      for (const columns of ['previous_price = 95000', 'price = 90000, previous_price = 80000']) {
        await expect(set(product, columns), columns).rejects.toMatchObject({
          code: '23514',
          message: expect.stringContaining('a previous price is above the price'),
        });
      }
    });

    test('ends when the price is raised to the previous price, and continues below it', async () => {
      const product = await makeProduct(database, 5);
      await set(product, 'previous_price = 120000');
      await set(product, 'price = 119999');
      expect(await pricesOf(product)).toEqual({ price: 119_999, previous_price: 120_000 });
      await set(product, 'price = 120000');
      expect(await pricesOf(product)).toEqual({ price: 120_000, previous_price: null });
    });
  });

  describe('stock is compared separately', () => {
    test('an order and its expiry do not change the edit date', async () => {
      const product = await makeProduct(database, 5);
      const seen = await editedAt(product);
      const order = await place(product, { quantity: 2 });
      expect(await stockOf(database, product)).toBe(3);
      expect(await editedAt(product)).toBe(seen);
      await expire(order);
      expect(await stockOf(database, product)).toBe(5);
      expect(await editedAt(product)).toBe(seen);
    });

    test('units sold since the form was opened are not restored', async () => {
      const product = await makeProduct(database, 5);
      const seen = await editedAt(product);
      await place(product, { quantity: 2 });
      const stored = await asStaff(
        `update public.products set name = 'Renamed', stock_quantity = 20
         where id = $1 and updated_at = $2::text::timestamptz and stock_quantity = 5`,
        [product, seen],
      );
      expect(stored.rowCount).toBe(0);
      expect(await stockOf(database, product)).toBe(3);
      await asStaff(
        `update public.products set name = 'Renamed' where id = $1 and updated_at = $2::text::timestamptz`,
        [product, seen],
      );
      expect(await stockOf(database, product), 'who leaves the stock alone writes none').toBe(3);
    });
  });

  describe('a product that orders contain is deleted', () => {
    const remove = (product: string) => asStaff('delete from public.products where id = $1', [product]);

    test('its orders keep its name, price and quantity', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product, { quantity: 2 });
      expect((await remove(product)).rowCount).toBe(1);
      expect(await orderNow(order.id)).toEqual({
        status: 'pending',
        payment_status: 'unpaid',
        is_settled: false,
        product_id: null,
        product_name: 'Test drink',
        quantity: 2,
        unit_price: 95_000,
      });
      const tracked = await track(order);
      expect(tracked.order_items).toMatchObject([
        { quantity: 2, unit_price: 95_000, product: { name: 'Test drink', image_url: null, slug: null } },
      ]);
    });

    test('a customer who was paying receives it: the units were reserved', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      const { payment } = await begin(order);
      await remove(product);
      expect((await settle(payment)).outcome).toBe('paid');
      expect(await orderNow(order.id)).toMatchObject({ status: 'processing', payment_status: 'paid' });
      const { rowCount } = await database.query('select from public.deliveries where order_id = $1', [
        order.id,
      ]);
      expect(rowCount).toBe(1);
    });

    test('a customer who had not begun to pay can still pay while the units are reserved', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      await remove(product);
      const { payment } = await begin(order);
      expect((await settle(payment)).outcome).toBe('paid');
    });

    test('an unpaid order expires as usual', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      await remove(product);
      await expire(order);
      expect(await orderNow(order.id)).toMatchObject({
        status: 'cancelled',
        payment_status: 'unpaid',
        is_settled: true,
        product_name: 'Test drink',
      });
    });

    test('a later payment needs review', async () => {
      const product = await makeProduct(database, 5);
      const order = await place(product);
      await settle((await begin(order)).payment, failed);
      const { payment } = await begin(order);
      await database.query(`update public.payments set status = 'failed' where order_id = $1`, [order.id]);
      await remove(product);
      await expire(order);
      expect((await settle(payment)).outcome).toBe('paid_needs_review');
      expect(await orderNow(order.id)).toMatchObject({ payment_status: 'needs_review' });
    });

    test('a concurrent order is complete or rejected', async () => {
      for (let round = 0; round < 6; round += 1) {
        const product = await makeProduct(database, 5);
        const [placed, removed] = await Promise.allSettled([place(product), remove(product)]);
        expect(removed.status).toBe('fulfilled');
        if (placed.status === 'fulfilled') {
          expect(await orderNow(placed.value.id)).toMatchObject({
            product_id: null,
            product_name: 'Test drink',
          });
        } else {
          await expectRefusal(Promise.reject(placed.reason), 404, 'product_unavailable');
        }
      }
    });

    test('staff see how many orders contain it, and how many of them are unpaid', async () => {
      const product = await makeProduct(database, 9);
      const count = async (person: 'staff' | 'customer') => {
        const { rows } = await queryAs(
          person,
          'select orders::integer, unpaid::integer from public.count_product_orders($1)',
          [product],
        );
        return rows[0];
      };
      expect(await count('staff')).toEqual({ orders: 0, unpaid: 0 });
      const [paid, expired] = [await place(product), await place(product)];
      await place(product);
      await pay(paid);
      await expire(expired);
      expect(await count('staff')).toEqual({ orders: 3, unpaid: 1 });
      expect(await count('customer'), 'who may read no orders counts none').toEqual({ orders: 0, unpaid: 0 });
    });
  });

  describe('categories', () => {
    const add = (name: string) =>
      asStaff('insert into public.categories (name) values ($1) returning id, name', [name]).then(
        ({ rows }) => rows[0] as { id: string; name: string },
      );

    test('a rename changes its products, and a stale form of one of them is rejected', async () => {
      const { id } = await add('Baobab');
      const product = await makeProduct(database, 5);
      await database.query(`update public.products set category = 'Baobab' where id = $1`, [product]);
      const seen = await editedAt(product);
      const renamed = await asStaff(
        `update public.categories set name = 'Baobab & Honey' where id = $1 and name = 'Baobab'`,
        [id],
      );
      expect(renamed.rowCount).toBe(1);
      expect(await readRows('select category from public.products where id = $1', [product])).toEqual([
        { category: 'Baobab & Honey' },
      ]);
      expect(await editedAt(product)).not.toBe(seen);
      const again = await asStaff(
        `update public.categories set name = 'Ubuyu' where id = $1 and name = 'Baobab'`,
        [id],
      );
      expect(again.rowCount, 'who saw the old name overwrites nothing').toBe(0);
    });

    test('a name is stored trimmed, with single spaces', async () => {
      const { id, name } = await add('\t  Sugar \t  Cane ');
      expect(name).toBe('Sugar Cane');
      await asStaff(`update public.categories set name = E'\\n  Cane\\n Sugar ' where id = $1`, [id]);
      expect(await readRows('select name from public.categories where id = $1', [id])).toEqual([
        { name: 'Cane Sugar' },
      ]);
    });

    test('rejects an empty name, and a taken one in another case or with other spaces', async () => {
      await add('Lime Leaf');
      for (const name of ['Lime Leaf', 'LIME leaf', ' lime  Leaf ']) {
        await expect(add(name)).rejects.toMatchObject({ code: '23505' });
      }
      await expect(add(' \t ')).rejects.toMatchObject({ code: '23514' });
      await expect(add('x'.repeat(81))).rejects.toMatchObject({ code: '23514' });
      const { id } = await add('Lemon Leaf');
      await expect(
        asStaff(`update public.categories set name = 'lime leaf' where id = $1`, [id]),
      ).rejects.toMatchObject({ code: '23505' });
      await asStaff(`update public.categories set name = 'LEMON leaf' where id = $1`, [id]);
    });

    test('products of an inactive category stay listed and can be ordered', async () => {
      const { id } = await add('Seasonal');
      const product = await makeProduct(database, 5);
      await database.query(`update public.products set category = 'Seasonal' where id = $1`, [product]);
      await asStaff('update public.categories set is_active = false where id = $1', [id]);
      const { rows } = await queryAs(
        'visitor',
        `select p.category, (select count(*)::integer from public.categories as c where c.name = p.category) as offered
         from public.products as p where p.id = $1`,
        [product],
      );
      expect(rows).toEqual([{ category: 'Seasonal', offered: 0 }]);
      expect((await place(product)).status).toBe('pending');
    });

    test('staff cannot delete one', async () => {
      const { id } = await add('Forever');
      await expect(asStaff('delete from public.categories where id = $1', [id])).rejects.toMatchObject({
        code: '42501',
      });
    });
  });
});
