// Rows read by a search: they do not grow with the catalogue for any search text.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { people } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

const size = 2500;
// Less than the catalogue has: about 2,500 products of 4,300 words.
const mostProducts = 1600;
const mostWords = 3300;

const searches = [
  'juice',
  'mango',
  'khat',
  'm',
  'lemon ginger 500ml',
  'dusk energy mango',
  'pineaple',
  'embe na tangawizi',
  'mango 2900',
  'whisky',
  // The most expensive texts of 100 characters: misspelt, similar, short and long words.
  'kamuriz torwengo shaliben dupayoka murtowe ngoshab libendu payokam ritowen gosh',
  'kamurix mukarix rikamux kamutox tokamux wekamux kalimux mukalix shakamu x',
  'ka mu ri to we ngo sha li be ndu',
  'a b c d e f g h i j',
  'kamuritowengoshalibendupayo'.repeat(4).slice(0, 100),
  'kakakakakakakaka mumumumumumumu ririririririri totototototo wewewewewewe ngongongongo',
  '%'.repeat(100),
  'mango '.repeat(16),
];

describe.each(testDatabases())('on %s', (kind) => {
  const { database } = setUpShop(kind);
  beforeAll(async () => {
    // 1,728 words of three syllables, so that many are similar.
    await database.query(
      `with syllables as (select '{ka,mu,ri,to,we,ngo,sha,li,be,ndu,pa,yo}'::text[] as s),
       words as (
         select n, s[n % 12 + 1] || s[n / 12 % 12 + 1] || s[n / 144 % 12 + 1] as word
         from syllables, generate_series(0, 1727) as n
       )
       insert into public.products (name, slug, tagline, description, category, brand, price, stock_quantity, created_at)
       select
         (array['Embu Fresh', 'Dusk Energy', 'Meru Gold'])[p.n % 3 + 1] || ' ' || c.name || ' ' || w.word || ' ' || p.n,
         'bulk-' || p.n, 'Cold ' || w.word || ' juice', 'Pressed ' || c.name || ' with khat and ' || w.word || ', 500 ml.',
         c.name, (array['Embu Fresh', 'Dusk Energy', 'Meru Gold'])[p.n % 3 + 1], 95000, 10,
         timestamptz '2026-01-01' + p.n * interval '1 minute'
       from generate_series(1, $1::integer) as p (n)
       join words as w on w.n = p.n % 1728
       join (select name, row_number() over (order by name) as place from public.categories) as c on c.place = p.n % 9 + 1`,
      [size],
    );
  }, 120_000);

  /** Rows that a statement reads of each table, and number of sequential scans. */
  const read = (statement: string, parameters: unknown[]) =>
    asRole(database, people.visitor, async (session) => {
      const count = async () => {
        const { rows } = await session.query<{ name: string; rows: number; whole: number }>(
          `select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows, seq_scan::integer as whole
           from pg_stat_xact_user_tables
           where relname in ('searchable_products', 'search_words', 'products')`,
        );
        return new Map(rows.map(({ name, ...counted }) => [name, counted]));
      };
      const before = await count();
      await session.query(statement, parameters);
      const after = await count();
      const readOf = (table: string) => {
        const [from, to] = [before.get(table), after.get(table)];
        return { rows: (to?.rows ?? 0) - (from?.rows ?? 0), whole: (to?.whole ?? 0) - (from?.whole ?? 0) };
      };
      return {
        products: readOf('products'),
        searchable: readOf('searchable_products'),
        words: readOf('search_words'),
      };
    });

  test('counts the read rows', async () => {
    const counted = await read('select count(to_jsonb(p)) from public.products as p', []);
    expect(counted.products).toEqual({ rows: expect.any(Number), whole: 1 });
    expect(counted.products.rows).toBeGreaterThanOrEqual(size);
  });

  const expectBoundedReads = async (search: string) => {
    for (const statement of [
      'select slug from public.search_products($1, 5)',
      'select slug from public.search_products($1, 50)',
      'select public.correct_search($1)',
      'select public.shop_page($1)',
    ]) {
      const counted = await read(statement, [search]);
      // The shop page reads the results of a search twice, to filter and to show them.
      const most = statement.includes('shop_page') ? 700 : 260;
      expect(counted.products.rows, statement).toBeLessThanOrEqual(most);
      expect(counted.searchable.rows, statement).toBeLessThanOrEqual(mostProducts);
      expect(counted.words.rows, statement).toBeLessThanOrEqual(mostWords);
      expect([counted.products.whole, counted.searchable.whole, counted.words.whole], statement).toEqual([
        0, 0, 0,
      ]);
    }
  };

  test.each(searches)('%s', expectBoundedReads);

  test('all of them with statistics, which autovacuum may gather at any time', async () => {
    await database.execute(
      'analyze public.products, public.search_synonyms, private.searchable_products, private.search_words',
    );
    for (const search of searches) await expectBoundedReads(search);
  });
});
