// Valid URLs of product images: the constraint and the rule of the screens.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { isAllowedImageUrl } from '../../../domain/products/product-image.ts';
import { makeProduct } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

const accepted = [
  'https://project.supabase.co/storage/v1/object/public/product-images/products/a.webp',
  'http://127.0.0.1:54321/storage/v1/object/public/product-images/products/a.webp',
  'http://[::1]:3000/a.png',
  'http://localhost/a.png',
  '/art/mango-can-960.webp',
  '/storage/v1/object/public/product-images/products/a.webp?v=1',
];
const refused = [
  'javascript:alert(1)',
  'JavaScript:alert(1)',
  ' javascript:alert(1)',
  'java\nscript:alert(1)',
  'data:image/svg+xml,<svg/>',
  'blob:https://jani.example/1',
  'http://tracker.example/a.png',
  'http://localhost.tracker.example/a.png',
  'http://localhost@tracker.example/a.png',
  '//tracker.example/a.png',
  '/\\tracker.example/a.png',
  '/\t/tracker.example/a.png',
  'https:///a.png',
  'https://jani.example/a b.png',
  'https://jani.example/\u0085.png',
  'art/mango-can-960.webp',
  '',
  `/${'a'.repeat(2000)}`,
];

describe.each(testDatabases())('on %s', (kind) => {
  const { database, queryAs } = setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 5);
  });

  const setAsStaff = (address: string | null) =>
    queryAs('staff', 'update public.products set image_url = $1 where id = $2', [address, product]);

  test.each(accepted)('accepts %s', async (address) => {
    expect(isAllowedImageUrl(address)).toBe(true);
    expect((await setAsStaff(address)).rowCount).toBe(1);
  });

  test.each(refused)('rejects %j', async (address) => {
    expect(isAllowedImageUrl(address)).toBe(false);
    await expect(setAsStaff(address)).rejects.toMatchObject({
      code: '23514',
      constraint: 'an image is at an https URL or a path of this site',
    });
  });

  const setMoreAsStaff = (addresses: (string | null)[]) =>
    queryAs(
      'staff',
      'update public.products set more_images = array(select jsonb_array_elements_text($1)) where id = $2',
      [JSON.stringify(addresses), product],
    );

  test('accepts up to four more images', async () => {
    for (const some of [[], accepted.slice(0, 1), accepted.slice(2)])
      expect((await setMoreAsStaff(some)).rowCount).toBe(1);
  });

  test.each([
    ...refused.map((address) => [address]),
    ...refused.map((address) => ['/art/mango-can-960.webp', address]),
    [null],
    accepted.slice(0, 5),
  ])('rejects the more images %j', async (...addresses) => {
    await expect(setMoreAsStaff(addresses)).rejects.toMatchObject({
      code: '23514',
      constraint: 'at most four more images, each at such an address',
    });
  });

  test('accepts a product without an image', async () => {
    expect((await setAsStaff(null)).rowCount).toBe(1);
  });
});
