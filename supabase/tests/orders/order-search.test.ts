// Order search: literal parts of name, email address and number, newest first, in pages.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database as Types } from '../../types.ts';
import { expectRefusal, type Person, people } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

type Order = Types['public']['Tables']['orders']['Row'];
interface Search {
  search?: string | null;
  status?: string;
  before_created_at?: string;
  before_id?: string;
  page_size?: number;
}

// More rows than a search scans before it uses the index: 40 pages of 5.
const bulk = 3000;
const named = [
  ['Wanjikũ Kamau', 'wanjiku@mail.example', 'ORD-5001'],
  ["O'Brien 100% Café", 'o.brien@mail.example', 'ORD-5002'],
  ['under_score', 'under@mail.example', 'ORD-5003'],
  ['back\\slash', 'back@mail.example', 'ORD-5004'],
  ['star*light', 'star@mail.example', 'ORD-5005'],
  ['underXscore 100x backslash starlight', 'plain@mail.example', 'ORD-5006'],
] as const;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asStaff, rowsAs, readRows } = setUpShop(kind);
  beforeAll(async () => {
    await database.query(
      `insert into public.orders
         (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee,
          total_amount, status, created_at)
       select 'ORD-' || (10000 + n), 'JJ-20261121-' || (100000 + n), 'Customer of juice', 'c' || n || '@mail.example',
         '+254712345678', 'Karen', 100, 1000,
         case when n % 500 = 0 then 'shipped' else 'delivered' end,
         -- Groups of four share their creation time, so that the id decides.
         timestamptz '2026-11-01 00:00Z' + (n / 4) * interval '1 minute'
       from generate_series(1, $1::integer) as n`,
      [bulk],
    );
    // Older than all others, so that no scan of the newest finds them.
    for (const [index, [name, email, number]] of named.entries()) {
      await database.query(
        `insert into public.orders
           (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee,
            total_amount, created_at)
         values ($1, $2, $3, $4, '+254712345678', 'Karen', 100, 1000, timestamptz '2026-10-01' + $5::integer * interval '1 day')`,
        [number, `JJ-20261101-100${index}`, name, email, index],
      );
    }
    await database.execute(
      `insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle)
       select id, 'assigned', 'Zebedayo Otieno', '0722 909 808', 'KMFA 123B' from public.orders where order_number = 'ORD-5003'`,
    );
  }, 60_000);

  const search = (given: Search, person: Person = 'staff') =>
    rowsAs<Order>(person, 'search_orders', { ...given });
  const numbers = async (given: Search) =>
    (await search({ page_size: 5, ...given })).map((order) => order.order_number);
  const count = (given: Search) => asStaff<number>('count_orders', { ...given });

  test.each([
    ['part of a name', 'anjik', ['ORD-5001']],
    ['another case', 'WANJIKŨ', ['ORD-5001']],
    ['part of an e-mail', 'plain@mail', ['ORD-5006']],
    ['part of a number', '-5004', ['ORD-5004']],
    ['part of a number in another case', 'ord-5004', ['ORD-5004']],
    ['a number without its hyphen', 'ord5004', ['ORD-5004']],
    ['a number with a space', 'ORD 5004', ['ORD-5004']],
    ['a number with a hash', '#5004', ['ORD-5004']],
    ['spaces around it', '  anjik ', ['ORD-5001']],
    ['a percent sign', '100%', ['ORD-5002']],
    ['an underscore', 'under_score', ['ORD-5003']],
    ['a backslash', 'back\\slash', ['ORD-5004']],
    ['a star', 'star*light', ['ORD-5005']],
    ['an apostrophe', "o'brien", ['ORD-5002']],
    ['an apostrophe of another kind', 'o’brien', ['ORD-5002']],
    ['a name without its apostrophe', 'obrien', ['ORD-5002']],
    ['only a special character, in none of the newest', '%', []],
    ['two special characters without a match', '%%', []],
    ['the end of one column and the beginning of the next', 'lightstar', []],
    ['two words in any order', 'light star', ['ORD-5006', 'ORD-5005']],
    ['a hyphen between words', 'light-star', ['ORD-5006', 'ORD-5005']],
    ['a name without its accents', 'wanjiku kamau', ['ORD-5001']],
    ['a rider', 'zebedayo', ['ORD-5003']],
    ['a rider and a word of the order', 'under zebedayo', ['ORD-5003']],
    ["the end of a rider's phone", '909 808', ['ORD-5003']],
    ['an unknown text', 'unknown at all', []],
    ['a tracking number', 'JJ-20261101-1003', ['ORD-5004']],
    ['a spoken tracking number', ' jj 20261101 1003 ', ['ORD-5004']],
    ["the reference on M-PESA's statement", 'JJ2611011003', ['ORD-5004']],
    ['an unknown tracking number', 'JJ-20261101-9999', []],
    ['the day in tracking numbers, which is not searched', 'JJ-20261101', []],
  ])('%s', async (_, text, found) => {
    expect(await numbers({ search: text })).toEqual(found);
    expect(await count({ search: text })).toBe(found.length);
  });

  test.each(['', '   ', null])('%j returns all orders', async (text) => {
    expect(await search({ search: text })).toHaveLength(50);
    expect(await count({ search: text })).toBe(bulk + named.length);
  });

  test('filters a search by exact status', async () => {
    expect(await count({ search: 'juice', status: 'shipped' })).toBe(6);
    expect(await numbers({ search: 'juice', status: 'shipped' })).toEqual(
      [3000, 2500, 2000, 1500, 1000].map((n) => `ORD-${10000 + n}`),
    );
    expect(await numbers({ search: 'c500@', status: 'shipped' })).toEqual(['ORD-10500']);
    expect(await numbers({ search: 'c500@', status: 'delivered' })).toEqual([]);
    expect(await numbers({ status: 'ship' })).toEqual([]);
    expect(await count({ status: 'delivered' })).toBe(bulk - 6);
  });

  test.each([
    ['everything', {}],
    ['a broad text', { search: 'juice' }],
    ['a rare text', { search: '77@' }],
    ['a rare status', { status: 'shipped' }],
    ['a text in a status', { search: '99@', status: 'delivered' }],
  ] as [string, Search][])('pages of %s have each order once', async (_, given) => {
    const found: Order[] = [];
    const after = () => {
      const last = found.at(-1);
      return last ? { before_created_at: last.created_at, before_id: last.id } : {};
    };
    for (let page = await search({ ...given, page_size: 7 }); page.length > 0; ) {
      expect(page.length).toBeLessThanOrEqual(7);
      found.push(...page);
      // All pages of a broad search would take long; the first ones are enough.
      if (found.length > 200) break;
      page = await search({ ...given, page_size: 7, ...after() });
    }
    const wanted = `%${given.search ?? ''}%`;
    const { rows } = await database.query<{ id: string }>(
      `select id from public.orders where customer_name || customer_email ilike $1 and status = coalesce($2, status)
       order by created_at desc, id desc limit $3`,
      [wanted, given.status ?? null, found.length > 200 ? found.length : 10_000],
    );
    expect(found.map(({ id }) => id)).toEqual(rows.map(({ id }) => id));
  });

  test('a page has at most a thousand orders, and at least one', async () => {
    expect(await search({ page_size: 100_000 })).toHaveLength(1000);
    expect(await search({ page_size: 0 })).toHaveLength(1);
    expect(await search({ page_size: -5 })).toHaveLength(1);
  });

  test('finds an order by the receipt of another amount, which needs review', async () => {
    await database.query(
      `with attempt as (
         insert into public.payments (order_id, phone, charge_cents, status)
         select id, '', 95100, 'review' from public.orders where order_number = 'ORD-5004'
         returning id
       )
       insert into public.mpesa_transactions (receipt, received_cents, transacted_at, attempt_id)
       select 'UKO0REVIEW', 95000, now(), id from attempt`,
    );
    expect(await numbers({ search: 'uko0review' })).toEqual(['ORD-5004']);
  });

  test('only staff can search and count', async () => {
    for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
      await expectRefusal(search({ search: 'juice' }, person), 403, 'staff_only');
      await expectRefusal(callAs(person, 'count_orders'), 403, 'staff_only');
    }
    await expect(search({ search: 'juice' }, 'visitor')).rejects.toMatchObject({ code: '42501' });
    expect(await search({ search: 'juice' }, 'service')).toHaveLength(50);
  });

  test('combines common words in one index lookup: reads only orders with all of them', async () => {
    const candidatesOf = async (text: string) => {
      const { rows } = await database.query<{ candidates: string }>(
        `select candidates from private.list_conditions(('orders', $1, null, null, null, null, null, null), false)`,
        [text],
      );
      return (await readRows(rows[0]?.candidates ?? '')).length;
    };
    expect(await candidatesOf('customer juice karen')).toBe(bulk);
    expect(await candidatesOf('customer juice karen starlight')).toBe(0);
    expect(await candidatesOf('karen starlight plain')).toBe(1);
  });

  describe('parts of fewer than three letters search the newest 2,000 orders:', () => {
    beforeAll(() =>
      database.execute(`
        alter table public.orders disable trigger user;
        insert into public.orders
          (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee,
           total_amount, created_at)
        select 'OLD-' || n, 'JJ-20250101-' || (100000 + n), 'Early ߷', 'early@mail.example', '+254712345678', 'Karen', 100, 1000,
          timestamptz '2026-11-03' - n * interval '1 minute'
        from generate_series(1, 1000) as n;
        alter table public.orders enable trigger user`),
    );
    afterAll(() =>
      database.execute(`
        alter table public.orders disable trigger user;
        delete from public.orders where customer_name = 'Early ߷';
        alter table public.orders enable trigger user`),
    );
    const rowsRead = (statement: string, parameters: unknown[] = []) =>
      asRole(database, people.staff, async (session) => {
        const count = async () => {
          const { rows } = await session.query<{ rows: number }>(
            `select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
             from pg_stat_xact_all_tables where schemaname = 'public' and relname = 'orders'`,
          );
          return rows[0]?.rows ?? 0;
        };
        const before = await count();
        await session.query(statement, parameters);
        return (await count()) - before;
      });

    test.each([
      ['every order has them', 'ju ka', 5],
      ['no order has them', 'zz qq', 0],
      ['some orders have them', '߷', 5],
    ])('%s', async (_, text, shown) => {
      expect(await numbers({ search: text })).toHaveLength(shown);
      // Of many it says only that they are more than 200.
      expect(await count({ search: text })).toBe(shown === 0 ? 0 : 201);
      // They are counted, too.
      for (const statement of [
        'select id from public.search_orders($1, page_size => 5)',
        'select public.count_orders($1)',
      ]) {
        expect(await rowsRead(statement, [text])).toBeLessThan(2 * 2100 + 1);
      }
      expect(await rowsRead('select count(to_jsonb(o)) from public.orders as o')).toBe(
        bulk + named.length + 1000,
      );
    });
  });

  test.each([
    ['orders_by_words', 'wanjikũ'],
    ['deliveries_by_words', 'zebedayo'],
  ])('finds a rare text with the trigram index %s, without reading the table', async (index, text) => {
    const readRows = async () => {
      await database.query('select pg_stat_force_next_flush()').catch(() => {});
      const { rows } = await database.query<{ scans: number }>(
        `select idx_scan::integer as scans from pg_stat_user_indexes where indexrelname = $1`,
        [index],
      );
      return rows[0]?.scans ?? 0;
    };
    // Autovacuum may gather statistics at any moment.
    for (const prepare of ['select', 'analyze public.orders, public.order_items, public.deliveries']) {
      await database.execute(prepare);
      const before = await readRows();
      await numbers({ search: text });
      await expect.poll(readRows, { timeout: 15_000 }).toBeGreaterThan(before);
    }
  });
});
