// Facts of a product: optional lines of limited length, which staff write.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { factColumns, productFacts } from '../../../domain/products/product-facts.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { queryAs } = setUpShop(kind);
  const write = (column: string, text: string | null, person: 'staff' | 'counter' = 'staff') =>
    queryAs(person, `update public.products set ${column} = $1 where slug = 'mango-can'`, [text]);

  test.each(productFacts)(
    'the database and the form have the same limit of $column',
    async ({ column, maxLength }) => {
      expect((await write(column, 'f'.repeat(maxLength))).rowCount).toBe(1);
      await expect(write(column, 'f'.repeat(maxLength + 1))).rejects.toMatchObject({ code: '23514' });
      await expect(write(column, 'two\nlines')).rejects.toMatchObject({ code: '23514' });
      await expect(write(column, '')).rejects.toMatchObject({ code: '23514' });
      expect((await write(column, null)).rowCount).toBe(1);
    },
  );

  test('visitors read them, the counter does not write them', async () => {
    await write('size', '330 ml');
    expect((await write('size', '1 l', 'counter')).rowCount).toBe(0);
    const read = `select ${factColumns} from public.products where slug = 'mango-can'`;
    expect((await queryAs('visitor', read)).rows).toMatchObject([{ size: '330 ml' }]);
  });
});
