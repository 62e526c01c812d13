// The texts of the contact page: limited in length, and rendered with the settings they contain.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { checkShopText, shopTextLimits, shopTextSlugs } from '../../../domain/messages/shop-text.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, readValue } = setUpShop(kind);

  const save = (change: string, given: unknown[] = []) =>
    database.query(`update public.shop_texts set ${change} where slug = 'faq'`, given);

  test('every section of the contact page has a text, which can be saved unchanged', async () => {
    const { rows } = await database.query<{ slug: string; title: string; body: string }>(
      'select slug, default_title as title, default_body as body from public.shop_texts where title = default_title and body = default_body',
    );
    expect(rows.map(({ slug }) => slug).sort()).toEqual([...shopTextSlugs].sort());
    for (const text of rows) expect(checkShopText(text), text.slug).toEqual({});
  });

  test('the database and the form have the same limits', async () => {
    const { title, body } = shopTextLimits;
    await save('title = $1, body = $2', ['t'.repeat(title), 'b'.repeat(body)]);
    for (const [change, given] of [
      ['title = $1', 't'.repeat(title + 1)],
      ['title = $1', ' '],
      ['title = $1', 'two\nlines'],
      ['body = $1', 'b'.repeat(body + 1)],
      ['body = $1', ' '],
    ] as const) {
      await expect(save(change, [given]), change).rejects.toMatchObject({ code: '23514' });
    }
  });

  test('an edit changes updated_at, a save without a change does not', async () => {
    const edited = () => readValue(`select updated_at::text as at from public.shop_texts where slug = 'faq'`);
    const before = await edited();
    await save('body = body, updated_at = now()');
    expect(await edited()).toBe(before);
    await save(`body = 'Other'`);
    expect(await edited()).not.toBe(before);
  });
});
