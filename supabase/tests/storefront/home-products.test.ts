// The products of the home page, and the number of rows read to find them.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { people } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Shown {
  slug: string;
  category: string | null;
  home_section: string | null;
  is_active: boolean;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database } = setUpShop(kind);

  /** The products of the home page, and the number of rows read to find them. */
  const read = () =>
    asRole(database, people.visitor, async (session) => {
      const count = async () => {
        const { rows } = await session.query<{ rows: number }>(
          `select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
           from pg_stat_xact_all_tables where schemaname = 'public' and relname = 'products'`,
        );
        return rows[0]?.rows ?? 0;
      };
      const before = await count();
      const { rows: shown } = await session.query<Shown>('select * from public.home_products()');
      const rowsRead = (await count()) - before;
      await session.query('select count(to_jsonb(p)) from public.products as p');
      return { shown, rowsRead, rowsOfScan: (await count()) - before - rowsRead };
    });
  const inSections = (shown: Shown[]) =>
    shown.flatMap(({ slug, home_section }) => (home_section ? [slug] : [])).sort();

  test('are those of its sections, the newest and one per flavour, in a catalogue of any size', async () => {
    const { rows: small } = await database.query<Shown>('select * from public.products where is_active');
    const { shown: before } = await read();
    expect(inSections(before)).toEqual(inSections(small));

    await database.execute(`
      insert into public.brands (name) values ('Bulk');
      alter table public.products disable trigger user;
      insert into public.products (name, slug, price, category, brand, stock_quantity, is_active, created_at)
      select 'Bulk ' || n, 'bulk-' || n, 95000, 'Mango', 'Bulk', 10, n % 2 = 0, now() + n * interval '1 second'
      from generate_series(1, 5000) as n;
      alter table public.products enable trigger user`);
    for (const prepare of ['select', 'analyze public.products, public.categories']) {
      await database.execute(prepare);
      const { shown, rowsRead, rowsOfScan } = await read();
      expect(rowsOfScan).toBeGreaterThan(2500);
      expect(rowsRead).toBeLessThan(250);
      expect(inSections(shown)).toEqual(inSections(small));
      expect(shown.slice(0, 6).map(({ slug }) => slug)).toEqual(
        [5000, 4998, 4996, 4994, 4992, 4990].map((n) => `bulk-${n}`),
      );
      expect(shown.every(({ is_active }) => is_active)).toBe(true);
      const flavours = (products: Shown[]) => new Set(products.map(({ category }) => category));
      expect(flavours(shown)).toEqual(flavours(small));
    }
  });

  test('include products of an inactive category only in sections and the newest', async () => {
    await database.query(
      `update public.products set home_section = null, home_position = null where category = 'Tamarind'`,
    );
    await database.query(`update public.categories set is_active = false where name = 'Tamarind'`);
    const { shown } = await read();
    expect(shown.map(({ category }) => category)).not.toContain('Tamarind');
    await database.query(`update public.categories set is_active = true where name = 'Tamarind'`);
    expect((await read()).shown.map(({ category }) => category)).toContain('Tamarind');
  });
});
