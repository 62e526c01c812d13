import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { renderedImageUrl } from './product-image.ts';
import {
  checkImageFile,
  exifOrientation,
  imageBucket,
  imageTypes,
  maxImageBytes,
  maxPhotoBytes,
  needsDrawing,
  newImageName,
  storedImageUrl,
  uploadedImageName,
} from './uploaded-image.ts';

const file = (name: string, type: string, size = 1000) => ({ name, type, size });

describe('an image file', () => {
  test.each(imageTypes)('may be %s', (type) => {
    expect(checkImageFile(file('a', type, maxImageBytes))).toBeNull();
  });
  test('may be a phone photo of any usual type and size', () => {
    expect(checkImageFile(file('IMG_1.jpg', 'image/jpeg', maxPhotoBytes))).toBeNull();
    expect(checkImageFile(file('IMG_1.HEIC', 'image/heic', maxPhotoBytes))).toBeNull();
    expect(checkImageFile(file('IMG_1.HEIC', ''))).toBeNull();
  });

  test.each([
    [
      file('logo.svg', 'image/svg+xml'),
      'This kind of image is not accepted. Choose a JPEG, PNG, WebP, AVIF or GIF.',
    ],
    [file('prices.pdf', 'application/pdf'), 'This is not an image. Choose a JPEG, PNG, WebP, AVIF or GIF.'],
    [file('unknown', ''), 'This is not an image. Choose a JPEG, PNG, WebP, AVIF or GIF.'],
    [file('a.png', 'image/png', 0), 'The file is empty.'],
    [file('a.png', 'image/png', maxPhotoBytes + 1), 'The image has 25.1 MB. At most 25 MB are accepted.'],
    [file('a.gif', 'image/gif', maxImageBytes + 1), 'The image has 10.1 MB. At most 10 MB are accepted.'],
  ])('reports for %o: %s', (given, problem) => {
    expect(checkImageFile(given)).toBe(problem);
  });

  test('has the limits of the bucket', async () => {
    const folder = new URL('../../supabase/migrations/', import.meta.url);
    const files = (await readdir(folder)).filter((file) => file.endsWith('.sql'));
    const sql = (await Promise.all(files.map((file) => readFile(new URL(file, folder), 'utf8')))).join('\n');
    expect(sql).toContain(`'${imageBucket}', '${imageBucket}', true, 10 * 1024 * 1024`);
    expect(maxImageBytes).toBe(10 * 1024 * 1024);
    expect(sql).toContain(`array[${imageTypes.map((type) => `'${type}'`).join(', ')}]`);
  });

  test.each([
    [file('Mango Front.JPEG', 'image/jpeg'), 'products/r.jpeg'],
    [file('mango.jpg', 'image/jpeg'), 'products/r.jpg'],
    [file('mango', 'image/webp'), 'products/r.webp'],
    [file('mango.php', 'image/png'), 'products/r.png'],
    [file('mango.png', 'image/jpeg'), 'products/r.jpg'],
  ])('the path of %o is %s', (given, name) => {
    expect(newImageName(given, 'r')).toBe(name);
  });
});

/** The beginning of a JPEG with an EXIF segment that holds one tag. */
function jpegTurned(orientation: number, order: 'II' | 'MM'): Uint8Array {
  const bytes = Buffer.alloc(60);
  const word = (value: number, at: number) =>
    order === 'II' ? bytes.writeUInt16LE(value, at) : bytes.writeUInt16BE(value, at);
  bytes.writeUInt32BE(0xffd8ffe0, 0);
  // A segment before it.
  bytes.writeUInt16BE(4, 4);
  bytes.writeUInt16BE(0xffe1, 8);
  bytes.writeUInt16BE(40, 10);
  bytes.write('Exif', 12, 'latin1');
  bytes.write(order, 18, 'latin1');
  word(42, 20);
  if (order === 'II') bytes.writeUInt32LE(8, 22);
  else bytes.writeUInt32BE(8, 22);
  word(1, 26);
  word(0x0112, 28);
  word(3, 30);
  word(orientation, 36);
  return bytes;
}

describe('the orientation of a photo', () => {
  test.each(['II', 'MM'] as const)('is found, in byte order %s', (order) => {
    expect(exifOrientation(jpegTurned(6, order))).toBe(6);
    expect(exifOrientation(jpegTurned(1, order))).toBe(1);
    expect(exifOrientation(jpegTurned(9, order))).toBe(1);
  });
  test('is not found in a file without one, even if truncated', () => {
    const whole = jpegTurned(6, 'II');
    for (let length = 0; length < 38; length += 1) {
      expect(exifOrientation(whole.slice(0, length))).toBe(1);
    }
    expect(exifOrientation(new TextEncoder().encode('GIF89a'))).toBe(1);
    expect(exifOrientation(new Uint8Array(64).fill(255))).toBe(1);
  });
  test('requires re-encoding, as do large size and HEIC; small images are uploaded unchanged', () => {
    const small = { width: 800, height: 600 };
    const start = new Uint8Array();
    const jpeg = file('a.jpg', 'image/jpeg');
    expect(needsDrawing(jpeg, small, start)).toBe(false);
    expect(needsDrawing(jpeg, small, jpegTurned(8, 'MM'))).toBe(true);
    expect(needsDrawing(jpeg, { width: 600, height: 2001 }, start)).toBe(true);
    expect(needsDrawing(file('a.jpg', 'image/jpeg', 3_000_000), small, start)).toBe(true);
    expect(needsDrawing(file('a.heic', 'image/heic'), small, start)).toBe(true);
    expect(needsDrawing(file('a.gif', 'image/gif', 3_000_000), { width: 5000, height: 5000 }, start)).toBe(
      false,
    );
  });
});

const here = '/storage/v1/object/public/product-images/products/r.png';
const there = `https://abc.supabase.co${here}`;

describe('image URLs', () => {
  test('exist for each size of an image in storage, here and in a hosted project', () => {
    const rendered =
      '/storage/v1/render/image/public/product-images/products/r.png?width=240&height=240&resize=cover';
    expect(renderedImageUrl(here, 240)).toBe(rendered);
    expect(renderedImageUrl(there, 240)).toBe(`https://abc.supabase.co${rendered}`);
  });

  test.each([
    '/art/mango-bottle-960.webp',
    'https://elsewhere.example/a.png',
    'javascript:alert(1)',
    `${here}?token=1`,
  ])('shows %s unchanged and never removes it', (address) => {
    expect(renderedImageUrl(address, 240)).toBeNull();
    expect(uploadedImageName(address)).toBeNull();
  });

  test('have a removable name only for uploads in the folder of products', () => {
    expect(uploadedImageName(here)).toBe('products/r.png');
    expect(uploadedImageName(there)).toBe('products/r.png');
    expect(uploadedImageName(null)).toBeNull();
    expect(uploadedImageName('/storage/v1/object/public/other/products/r.png')).toBeNull();
    expect(uploadedImageName('/storage/v1/object/public/product-images/logo.png')).toBeNull();
    expect(uploadedImageName('/storage/v1/object/public/product-images/products/../logo.png')).toBeNull();
  });

  test('are stored without the shop’s own origin', () => {
    expect(storedImageUrl(`http://localhost:3000${here}`, 'http://localhost:3000')).toBe(here);
    expect(storedImageUrl(there, 'http://localhost:3000')).toBe(there);
  });
});
