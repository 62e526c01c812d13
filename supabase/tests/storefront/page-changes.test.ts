// Change notifications of the database, read by the page cache's own functions.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database } = setUpShop(kind);
  const received: string[] = [];
  let arrived = () => {};
  beforeAll(async () => {
    await database.listen('page_changes', (payload) => {
      received.push(payload);
      arrived();
    });
  });

  /** Notifications of some statements; those of one transaction keep its order. */
  async function announced(...statements: string[]): Promise<unknown[]> {
    received.length = 0;
    const isOver = new Promise<void>((done) => {
      arrived = () => received.at(-1) === 'over' && done();
    });
    for (const statement of statements) await database.query(statement);
    await database.query(`select pg_notify('page_changes', 'over')`);
    await isOver;
    return received.slice(0, -1).map((payload) => JSON.parse(payload));
  }

  const row = (of: Record<string, unknown>) => expect.objectContaining(of);

  test('a changed price names its product', async () => {
    expect(
      await announced(`update public.products set price = price + 100 where slug = 'mango-can'`),
    ).toEqual([
      {
        table: 'products',
        old: row({ slug: 'mango-can', category: 'Mango', is_active: true }),
        new: row({ slug: 'mango-can', category: 'Mango', is_active: true }),
      },
    ]);
  });

  test('an offer that begins or ends is announced', async () => {
    const offer = (price: string) =>
      `update public.products set previous_price = ${price} where slug = 'mango-can'`;
    expect(await announced(offer('999900'), offer('null'))).toHaveLength(2);
  });

  test('another brand, home section or place in it is announced', async () => {
    for (const column of [`brand = 'Kaskazi'`, `home_section = 'top_picks'`, 'home_position = 77']) {
      const [column_name] = column.split(' ');
      const change = (set: string) => `update public.products set ${set} where slug = 'ginger-lemon-can'`;
      expect(await announced(change(column), change(column)), column).toHaveLength(1);
      expect(await announced(change(`${column_name} = null`)), column).toHaveLength(1);
    }
  });

  test('a changed fact is announced', async () => {
    const write = `update public.products set keeps = '4 days' where slug = 'mango-can'`;
    expect(await announced(write, write)).toHaveLength(1);
  });

  test('an edited text of a page is announced once, a new brand with its product', async () => {
    const write = (table: string) =>
      `update public.${table} set page_text = 'Cold' where slug = 'dusk-energy'`;
    expect(await announced(write('brands'), write('brands'))).toEqual([{ table: 'brands' }]);
    expect(await announced(`update public.categories set page_text = 'Cold' where slug = 'mango'`)).toEqual([
      { table: 'categories' },
    ]);
    const change = `update public.products set brand = 'Pwani' where slug = 'mango-flask'`;
    expect(await announced(change)).toEqual([
      { table: 'products', old: expect.anything(), new: expect.anything() },
    ]);
  });

  test('a synonym that is added, changed or removed is announced', async () => {
    expect(
      await announced(
        `insert into public.search_synonyms (word, means) values ('announced', 'mango')`,
        `update public.search_synonyms set means = 'passion' where word = 'announced'`,
        `delete from public.search_synonyms where word = 'announced'`,
      ),
    ).toEqual(Array(3).fill({ table: 'search_synonyms' }));
  });

  test('changes of stock are announced only when the product sells out or is available again', async () => {
    const stock = (units: number) =>
      `update public.products set stock_quantity = ${units} where slug = 'mango-can'`;
    await announced(stock(9));
    expect(await announced(stock(8), stock(3), 'update public.products set updated_at = now()')).toEqual([]);
    expect(await announced(stock(0))).toHaveLength(1);
    expect(await announced(stock(5))).toHaveLength(1);
  });

  test('a product that staff set to sold out is announced, also when it is sold again', async () => {
    const soldOut = (until: string) =>
      `update public.products set sold_out_until = ${until} where slug = 'mango-can'`;
    expect(await announced(soldOut(`now() + interval '1 hour'`))).toHaveLength(1);
    expect(await announced(soldOut('null'))).toHaveLength(1);
  });

  test('an added or removed product is announced with its columns', async () => {
    expect(
      await announced(
        `insert into public.products (name, slug, price, category) values ('New', 'new-can', 100, 'Mango')`,
        `delete from public.products where slug = 'new-can'`,
      ),
    ).toEqual([
      { table: 'products', new: row({ slug: 'new-can', category: 'Mango' }) },
      { table: 'products', old: row({ slug: 'new-can', category: 'Mango' }) },
    ]);
  });

  test('a renamed flavour is announced with its products', async () => {
    const changes = await announced(`update public.categories set name = 'Ripe Mango' where name = 'Mango'`);
    expect(changes).toContainEqual({ table: 'categories' });
    expect(changes).toContainEqual({
      table: 'products',
      old: row({ slug: 'mango-can', category: 'Mango' }),
      new: row({ slug: 'mango-can', category: 'Ripe Mango' }),
    });
    await announced(`update public.categories set name = 'Mango' where name = 'Ripe Mango'`);
  });

  test('settings are announced only when they change', async () => {
    expect(await announced('update public.store_settings set delivery_fee = delivery_fee')).toEqual([]);
    expect(await announced('update public.store_settings set delivery_fee = delivery_fee + 1')).toEqual([
      { table: 'store_settings' },
    ]);
    expect(
      await announced(
        `update public.store_settings set orders_pause_reason = 'rain'`,
        'update public.store_settings set orders_pause_reason = null',
      ),
    ).toEqual([{ table: 'store_settings' }, { table: 'store_settings' }]);
  });

  test('a text of the contact page is announced when it changes', async () => {
    expect(await announced(`update public.shop_texts set body = body where slug = 'faq'`)).toEqual([]);
    expect(await announced(`update public.shop_texts set body = 'Other' where slug = 'faq'`)).toEqual([
      { table: 'shop_texts' },
    ]);
  });

  test('an area of delivery is announced when it changes', async () => {
    expect(
      await announced(
        `insert into public.delivery_areas (name) values ('Rongai')`,
        `update public.delivery_areas set fee_cents = 20000 where name = 'Rongai'`,
      ),
    ).toEqual([{ table: 'delivery_areas' }, { table: 'delivery_areas' }]);
  });

  test('a name that is too long for a notification does not prevent the change', async () => {
    expect(
      await announced(
        `insert into public.products (name, slug, price) values ('Long', repeat('x', 8000), 1)`,
        `delete from public.products where name = 'Long'`,
      ),
    ).toEqual([{ table: 'products' }, { table: 'products' }]);
  });

  test('one query returns a product and its related products', async () => {
    const { rows } = await database.query<{ slug: string; category: string }>(
      `select slug, category from public.product_and_related('mango-can')`,
    );
    expect(rows.map(({ slug }) => slug)).toEqual(['mango-can', 'mango-bottle', 'mango-flask']);
    expect((await database.query(`select from public.product_and_related('nothing')`)).rowCount).toBe(0);
  });
});
