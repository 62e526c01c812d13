// Pages of a long product list: each product once, exact counts, and few rows read, with and without statistics.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { people, procedureCall } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Card {
  slug: string;
  brand: string | null;
  category: string | null;
  price: number;
  serving: string | null;
}
interface ShopList {
  is_whole: boolean;
  count: number;
  pages: number;
  products: Card[];
  brands: string[];
  categories: string[];
  found: string[] | null;
}

const size = 5000;
const pageSize = 60;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, queryAs } = setUpShop(kind);

  const list = (given: Record<string, unknown> = {}) => asVisitor<ShopList>('shop_page', given);

  test('returns all of a short list, newest first, with the slugs of a search', async () => {
    const { rows } = await database.query<{ slug: string }>(
      'select slug from public.products where is_active order by created_at desc, id',
    );
    const shown = await list({ search: 'mango', sort: 'price', page: 2 });
    expect(shown).toMatchObject({ is_whole: true, count: rows.length, pages: 1 });
    expect(shown.products.map(({ slug }) => slug)).toEqual(rows.map(({ slug }) => slug));
    expect(shown.found?.length).toBeGreaterThan(0);
    expect((await list()).found).toBeNull();
    expect(shown.products.find(({ slug }) => slug === 'mango-can')?.serving).toBe('330 ml · can');
  });

  test.each([
    ['Cold-pressed and bottled the same day, 500 ml.', 'serving-bottle', '500 ml · bottle'],
    ['With the natural lift of khat, in a 330ml slim can.', 'serving-can', '330 ml · can'],
    ['Our reserve in a 1.5 L swing-top flask to share.', 'serving', '1.5 l · flask'],
    ['One litre a week can be too much. 250 ML.', 'serving', '250 ml'],
    ['A gift that nobody opens at 5 mlima street.', 'serving-flask', 'flask'],
    ['Nothing is said here.', 'serving', null],
    [null, 'serving', null],
  ])('reads size and vessel of %j and %s as %j', async (description, slug, serving) => {
    const { rows } = await database.query<{ serving: string | null }>(
      `select public.serving(p) as serving
       from jsonb_populate_record(null::public.products, $1) as p`,
      [JSON.stringify({ description, slug })],
    );
    expect(rows).toEqual([{ serving }]);
  });

  describe(`of ${size} products`, () => {
    beforeAll(async () => {
      // Several products share price and creation time, so that the id decides; inactive ones are among them. Searches find
      // only the first 1,000: to index all words would take most of the test's time.
      const add = `insert into public.products (name, slug, price, category, brand, stock_quantity, is_active, created_at)
         select 'Bulk ' || n, 'bulk-' || n, 1000 * (n % 50), (array['Mango', 'Passion', null])[n % 3 + 1],
           (array['Bulk', 'bulk', 'Rare', null])[case when n % 100 = 0 then 3 when n % 7 = 0 then 4 else n % 2 + 1 end],
           10, n % 10 <> 9, timestamptz '2027-01-01' + (n / 4) * interval '1 minute'
         from generate_series`;
      await database.execute(`
        ${add}(1, 1000) as n;
        insert into public.brands (name) values ('Bulk'), ('bulk'), ('Rare') on conflict (name) do nothing;
        alter table public.products disable trigger user;
        ${add}(1001, ${size}) as n;
        alter table public.products enable trigger user;
        delete from private.catalogue_counts where true;
        insert into private.catalogue_counts
        select coalesce(category, ''), coalesce(brand, ''), count(*) from public.products where is_active group by 1, 2`);
    }, 300_000);

    const expected = async (where: string, order: string) => {
      const { rows } = await database.query<{ slug: string }>(
        `select slug from public.products where is_active and ${where} order by ${order}, created_at desc, id`,
      );
      return rows.map(({ slug }) => slug);
    };

    test.each([
      ['the newest first', {}, 'true', 'created_at desc'],
      ['the cheapest first', { sort: 'price' }, 'true', 'price'],
      ['by brand', { sort: 'brand' }, 'true', 'lower(brand), brand'],
      ['by flavour', { sort: 'flavor' }, 'true', 'lower(category), category'],
      ['of a brand', { brand: 'Rare' }, `brand = 'Rare'`, 'created_at desc'],
      ['of a flavour by price', { category: 'Passion', sort: 'price' }, `category = 'Passion'`, 'price'],
      [
        'of a brand and a flavour',
        { brand: 'bulk', category: 'Mango' },
        `brand = 'bulk' and category = 'Mango'`,
        'created_at desc',
      ],
    ])('pages have each product once: %s', async (_, given, where, order) => {
      const slugs = await expected(where, order);
      const first = await list(given);
      expect(first).toMatchObject({ is_whole: false, count: slugs.length, found: null });
      expect(first.pages).toBe(Math.ceil(slugs.length / pageSize));
      for (const page of new Set([1, 2, first.pages])) {
        const { products } = await list({ ...given, page });
        expect(products.map(({ slug }) => slug)).toEqual(slugs.slice((page - 1) * pageSize, page * pageSize));
      }
    });

    test('pages the matches of a search, filtered and sorted', async () => {
      const found = await list({ search: 'mango', brand: 'Bulk', sort: 'price' });
      expect(found.count).toBeGreaterThan(0);
      expect(found.products.every(({ brand }) => brand === 'Bulk')).toBe(true);
      const prices = found.products.map(({ price }) => price);
      expect(prices).toEqual(prices.toSorted((a, b) => a - b));
      const { rows } = await queryAs<Card>(
        'visitor',
        `select slug from public.search_products('mango', 250)`,
      );
      const best = await list({ search: 'mango' });
      expect(best).toMatchObject({ count: 250, may_be_more: true, pages: 5 });
      const pages = await Promise.all([1, 2, 3, 4, 5].map((page) => list({ search: 'mango', page })));
      expect(pages.flatMap(({ products }) => products.map(({ slug }) => slug))).toEqual(
        rows.map(({ slug }) => slug),
      );
    });

    test('returns the newest when nothing matches', async () => {
      expect(await list({ brand: 'Unknown' })).toMatchObject({ count: 0, pages: 1 });
      expect((await list({ brand: 'Unknown' })).products).toHaveLength(12);
    });

    test('counts follow every change of a product', async () => {
      const { count, brands, categories } = await list();
      expect(brands).toEqual(expect.arrayContaining(['Bulk', 'bulk', 'Rare']));
      expect(categories).toContain('Tamarind');
      await database.execute(`
        insert into public.products (name, slug, price, category, brand, stock_quantity) values ('One', 'one', 1, 'Mango', 'Only', 1);
        update public.products set is_active = false where slug in ('bulk-1', 'bulk-2', 'bulk-9');
        update public.products set brand = 'Changed' where brand = 'Rare';
        update public.categories set name = 'Ukwaju' where name = 'Tamarind';
        delete from public.products where slug in ('bulk-3', 'bulk-19')`);
      const after = await list();
      expect(after.count).toBe(count + 1 - 2 - 1);
      expect(after.brands).toEqual(expect.arrayContaining(['Only', 'Changed']));
      expect(after.brands).not.toContain('Rare');
      expect(after.categories).toContain('Ukwaju');
      expect(after.categories).not.toContain('Tamarind');
      const { rows } = await database.query(
        `(table private.catalogue_counts except all
          select coalesce(category, ''), coalesce(brand, ''), count(*)::integer from public.products where is_active group by 1, 2)
         union all
         (select coalesce(category, ''), coalesce(brand, ''), count(*)::integer from public.products where is_active group by 1, 2
          except all table private.catalogue_counts)`,
      );
      expect(rows).toEqual([]);
      await database.execute(`
        update public.categories set name = 'Tamarind' where name = 'Ukwaju';
        update public.products set brand = 'Rare' where brand = 'Changed'`);
    });

    test('a page reads only its own products, with any statistics', async () => {
      const rowsRead = (given: Record<string, unknown>) =>
        asRole(database, people.visitor, async (session) => {
          const count = async () => {
            const { rows } = await session.query<{ rows: number }>(
              `select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
               from pg_stat_xact_all_tables where schemaname = 'public' and relname = 'products'`,
            );
            return rows[0]?.rows ?? 0;
          };
          const before = await count();
          await session.query(`select ${procedureCall('shop_page', given)}`, Object.values(given));
          const read = (await count()) - before;
          await session.query('select count(to_jsonb(p)) from public.products as p');
          return { read, ofScan: (await count()) - before - read };
        });
      for (const prepare of ['select', 'analyze public.products, private.catalogue_counts']) {
        await database.execute(prepare);
        for (const given of [
          {},
          { page: 2 },
          { sort: 'price' },
          { sort: 'brand' },
          { sort: 'flavor' },
          { brand: 'Rare' },
          { category: 'Mango' },
          { category: 'Mango', sort: 'flavor' },
        ]) {
          const { read, ofScan } = await rowsRead(given);
          expect(ofScan).toBeGreaterThanOrEqual(size);
          expect(read, `${prepare}: ${JSON.stringify(given)}`).toBeLessThan(400);
        }
      }
    });
  });
});
