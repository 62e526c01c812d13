// Pages of flavors and brands: their slugs, who sees them, and edits of their texts.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { setUpShop } from '../steps.ts';

interface ShopList {
  brand_slugs: Record<string, string>;
  category_slugs: Record<string, string>;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, queryAs, readRows, readValue } = setUpShop(kind);

  const addProduct = (brand: string | null, isActive = true) =>
    readValue(
      `insert into public.products (name, slug, price, brand, is_active) values ('Drink', $1, 100, $2, $3) returning id`,
      [`drink-${randomUUID()}`, brand, isActive],
    );
  const slugOf = (brand: string) => readValue('select slug from public.brands where name = $1', [brand]);
  const slugOfFlavor = (name: string) =>
    readValue('insert into public.categories (name) values ($1) returning slug', [name]);

  test.each([
    ['Maji ya Pwani', 'maji-ya-pwani'],
    ['  Café -- Crème & Co. ', 'cafe-creme-co'],
    ['果汁', 'page'],
  ])('the slug of the brand %j is %s', async (brand, slug) => {
    await addProduct(brand);
    expect(await slugOf(brand)).toBe(slug);
  });

  test('a second name with the same slug gets a number', async () => {
    await addProduct('Rift & Roots');
    await addProduct('Rift Roots');
    expect(await slugOf('Rift & Roots')).toBe('rift-roots');
    expect(await slugOf('Rift Roots')).toBe('rift-roots-2');
    expect(await slugOfFlavor('Rift-Roots')).toBe('rift-roots');
    expect(await slugOfFlavor('Rift roots!')).toBe('rift-roots-2');
  });

  test('a renamed flavor keeps its slug, and its products follow', async () => {
    const slug = await slugOfFlavor('Guava');
    await database.query(`update public.categories set name = 'Pink Guava' where slug = $1`, [slug]);
    expect(await readRows(`select name from public.categories where slug = 'guava'`)).toEqual([
      { name: 'Pink Guava' },
    ]);
  });

  test('a product without a visible brand has none', async () => {
    const brands = await readValue('select count(*) from public.brands');
    for (const brand of [null, '', '\u200b']) {
      const product = await addProduct(brand);
      expect(await readValue('select brand from public.products where id = $1', [product])).toBeNull();
    }
    expect(await readValue('select count(*) from public.brands')).toBe(brands);
  });

  test('visitors see a brand once a product of it is active', async () => {
    const product = await addProduct('Not Yet', false);
    const seen = async () =>
      (await queryAs('visitor', `select slug from public.brands where name = 'Not Yet'`)).rows;
    expect(await seen()).toEqual([]);
    expect((await asVisitor<ShopList>('shop_page', {})).brand_slugs).not.toHaveProperty('Not Yet');
    await database.query('update public.products set is_active = true where id = $1', [product]);
    expect(await seen()).toEqual([{ slug: 'not-yet' }]);
    expect((await asVisitor<ShopList>('shop_page', {})).brand_slugs['Not Yet']).toBe('not-yet');
    expect((await asVisitor<ShopList>('shop_page', {})).category_slugs['Pineapple Mint']).toBe(
      'pineapple-mint',
    );
  });

  test.each(['brands', 'categories'])('a text of %s is at most 2,000 characters', async (table) => {
    const write = (text: string) =>
      queryAs(
        'staff',
        `update public.${table} set page_text = $1 where ctid = (select ctid from public.${table} limit 1)`,
        [text],
      );
    expect((await write('t'.repeat(2000))).rowCount).toBe(1);
    await expect(write('t'.repeat(2001))).rejects.toMatchObject({ code: '23514' });
  });

  test('an edit changes updated_at and is in the audit, a save without a change is not', async () => {
    await addProduct('Nyeri');
    const editedAt = () => readValue(`select updated_at::text from public.brands where name = 'Nyeri'`);
    const audited = () =>
      readRows(`select kind, before, after from public.audit_events where subject = 'Nyeri'`);
    const before = await editedAt();
    await queryAs('staff', `update public.brands set page_text = '' where name = 'Nyeri'`);
    expect(await editedAt()).toBe(before);
    expect(await audited()).toEqual([]);
    await queryAs('staff', `update public.brands set page_text = 'High tea' where name = 'Nyeri'`);
    expect(await editedAt()).not.toBe(before);
    expect(await audited()).toEqual([
      { kind: 'shop_text_changed', before: { body: '' }, after: { body: 'High tea' } },
    ]);
  });

  test('staff list every page that a product has, with its number of active products', async () => {
    await addProduct('Listed');
    await addProduct('Listed', false);
    await database.query(`insert into public.brands (name) values ('Orphan')`);
    const { rows } = await queryAs('staff', 'select kind, name, products from public.list_pages()');
    expect(rows).toContainEqual({ kind: 'brand', name: 'Listed', products: 1 });
    expect(rows).toContainEqual({ kind: 'flavor', name: 'Pineapple Mint', products: 3 });
    expect(rows).not.toContainEqual(expect.objectContaining({ name: 'Orphan' }));
    await expect(queryAs('customer', 'select public.list_pages()')).rejects.toMatchObject({ code: 'PT403' });
  });
});
