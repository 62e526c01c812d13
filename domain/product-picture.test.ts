import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import {
  checkPictureFile,
  keptPictureAddress,
  largestPicture,
  newPictureName,
  pictureBucket,
  pictureTypes,
  renderedPicture,
  uploadedPictureName,
} from './product-picture.ts';

const file = (name: string, type: string, size = 1000) => ({ name, type, size });

describe('a file that is to be a picture', () => {
  test.each(pictureTypes)('may be %s', (type) => {
    expect(checkPictureFile(file('a', type, largestPicture))).toBeNull();
  });

  test.each([
    [
      file('logo.svg', 'image/svg+xml'),
      'This kind of image is not accepted. Choose a JPEG, PNG, WebP, AVIF or GIF.',
    ],
    [file('prices.pdf', 'application/pdf'), 'This is not an image. Choose a JPEG, PNG, WebP, AVIF or GIF.'],
    [file('unknown', ''), 'This is not an image. Choose a JPEG, PNG, WebP, AVIF or GIF.'],
    [file('a.png', 'image/png', 0), 'The file is empty.'],
    [file('a.png', 'image/png', largestPicture + 1), 'The image has 10.1 MB. At most 10 MB are accepted.'],
  ])('%o is told: %s', (given, problem) => {
    expect(checkPictureFile(given)).toBe(problem);
  });

  test('is held to what the bucket takes', async () => {
    const sql = await readFile(
      new URL('../supabase/migrations/20261121000900_product_images.sql', import.meta.url),
      'utf8',
    );
    expect(sql).toContain(`'${pictureBucket}', '${pictureBucket}', true, 10 * 1024 * 1024`);
    expect(largestPicture).toBe(10 * 1024 * 1024);
    expect(sql).toContain(`array[${pictureTypes.map((type) => `'${type}'`).join(', ')}]`);
  });

  test.each([
    [file('Mango Front.JPEG', 'image/jpeg'), 'products/r.jpeg'],
    [file('mango.jpg', 'image/jpeg'), 'products/r.jpg'],
    [file('mango', 'image/webp'), 'products/r.webp'],
    [file('mango.php', 'image/png'), 'products/r.png'],
    [file('mango.png', 'image/jpeg'), 'products/r.jpg'],
  ])('%o is named %s', (given, name) => {
    expect(newPictureName(given, 'r')).toBe(name);
  });
});

const here = '/storage/v1/object/public/product-images/products/r.png';
const there = `https://abc.supabase.co${here}`;

describe('addresses', () => {
  test('a picture in storage has one for each size, here and in a project elsewhere', () => {
    const rendered =
      '/storage/v1/render/image/public/product-images/products/r.png?width=240&height=240&resize=cover';
    expect(renderedPicture(here, 240)).toBe(rendered);
    expect(renderedPicture(there, 240)).toBe(`https://abc.supabase.co${rendered}`);
  });

  test.each([
    '/art/mango-bottle-960.webp',
    'https://elsewhere.example/a.png',
    'javascript:alert(1)',
    `${here}?token=1`,
  ])('%s is shown as it is and never removed', (address) => {
    expect(renderedPicture(address, 240)).toBeNull();
    expect(uploadedPictureName(address)).toBeNull();
  });

  test('only what staff uploaded to the folder of products has a name to be removed by', () => {
    expect(uploadedPictureName(here)).toBe('products/r.png');
    expect(uploadedPictureName(there)).toBe('products/r.png');
    expect(uploadedPictureName(null)).toBeNull();
    expect(uploadedPictureName('/storage/v1/object/public/other/products/r.png')).toBeNull();
    expect(uploadedPictureName('/storage/v1/object/public/product-images/logo.png')).toBeNull();
    expect(uploadedPictureName('/storage/v1/object/public/product-images/products/../logo.png')).toBeNull();
  });

  test('the shop does not write its own name into its database', () => {
    expect(keptPictureAddress(`http://localhost:3000${here}`, 'http://localhost:3000')).toBe(here);
    expect(keptPictureAddress(there, 'http://localhost:3000')).toBe(there);
  });
});
