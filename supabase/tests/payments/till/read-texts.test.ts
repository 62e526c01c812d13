// Readers of texts that exist twice, in domain/ and in SQL: both give the same for each example.

import type { Database } from '@jani-juice/backend/database';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { normalisePhone } from '../../../../domain/people/phone.ts';
import { spellingsOfOnePhone, textsWithoutOnePhone } from '../../../../domain/people/phone-examples.ts';
import { visibleLength, wordLength } from '../../../../domain/visible-text.ts';
import { shopMigrations } from '../../../../scripts/databases/shop-migrations.ts';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, shopMigrations);
  });
  afterAll(() => database.close());

  test('reads phone numbers as domain/people/phone.ts does', async () => {
    const texts = [...spellingsOfOnePhone, ...textsWithoutOnePhone];
    const { rows } = await database.query<{ phone: string | null }>(
      `select private.normalised_phone(text) as phone
       from jsonb_array_elements_text($1::jsonb) with ordinality as t (text, place) order by place`,
      [JSON.stringify(texts)],
    );
    expect(texts.map((text, index) => [text, rows[index]?.phone])).toEqual(
      texts.map((text) => [text, normalisePhone(text)]),
    );
  });

  test('counts visible characters, letters and digits as domain/visible-text.ts does', async () => {
    const ends = [
      [1, 0xd7ff],
      [0xe000, 0xffff],
      [0x1f000, 0x1faff],
      [0xe0000, 0xe01ff],
    ];
    const characters = ends.flatMap(([first = 0, last = 0]) =>
      Array.from({ length: last - first + 1 }, (_, index) => String.fromCodePoint(first + index)),
    );
    const { rows } = await database.query<{ visible: string; letters: string }>(
      `select
         string_agg(character, '' order by code) filter (where private.visible_length(character) > 0) as visible,
         string_agg(character, '' order by code) filter (where private.word_length(character) > 0) as letters
       from (
         select code, chr(code) as character from jsonb_to_recordset($1::jsonb) as e (first integer, last integer),
           generate_series(first, last) as code
       ) as c`,
      [JSON.stringify(ends.map(([first, last]) => ({ first, last })))],
    );
    const kept = (count: (text: string) => number) => characters.filter((one) => count(one) > 0).join('');
    expect(rows[0]?.visible === kept(visibleLength), 'visible characters').toBe(true);
    expect(rows[0]?.letters === kept(wordLength), 'letters and digits').toBe(true);
  });

  test.each([
    ['product', `insert into public.products (name, slug, price) values ($1, 'blank', 100)`],
    ['category', 'insert into public.categories (name) values ($1)'],
    ['store', 'update public.store_settings set store_name = $1 where id'],
    ['inquiry', `insert into public.inquiries (name, email, message) values ($1, 'a@b.example', 'Hello')`],
    ['message', `insert into public.inquiries (name, email, message) values ('Amina', 'a@b.example', $1)`],
  ])('rejects invisible text in the required field of a %s', async (_, statement) => {
    for (const text of ['\u200b\u200b', '\u0301', '\u3164 \u2800', '\u00a0']) {
      await expect(database.query(statement, [text]), JSON.stringify(text)).rejects.toMatchObject({
        code: expect.stringMatching(/^(23514|PT400)$/),
      });
    }
    await database.query(statement, ['Karibu']);
  });
});
