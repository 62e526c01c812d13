import { expect, test } from 'vitest';
import { sharePicturePath, sharePictureVersion } from './share-picture.ts';

const mango = { slug: 'mango-can', name: 'Mango', price: 95_000, image_url: '/art/mango-can-960.webp' };

test('the URL changes only with the content of the image', () => {
  const version = sharePictureVersion(mango, 'Jani Juice');
  expect(sharePictureVersion({ ...mango }, 'Jani Juice')).toBe(version);
  expect(sharePicturePath(mango, 'Jani Juice')).toBe(`/share/mango-can.jpg?v=${version}`);
  const others = [
    sharePictureVersion({ ...mango, price: 96_000 }, 'Jani Juice'),
    sharePictureVersion({ ...mango, name: 'Mango 2' }, 'Jani Juice'),
    sharePictureVersion({ ...mango, image_url: '/art/mango-flask-960.webp' }, 'Jani Juice'),
    sharePictureVersion(mango, 'Another shop'),
  ];
  expect(new Set([version, ...others]).size).toBe(5);
});

test("a product without an image uses the shop's own", () =>
  expect(sharePicturePath({ ...mango, image_url: null }, 'Jani Juice')).toBe('/art/share.jpg'));
