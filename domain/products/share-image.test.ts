import { expect, test } from 'vitest';
import { shareImagePath, shareImageVersion } from './share-image.ts';

const mango = { slug: 'mango-can', name: 'Mango', price: 95_000, image_url: '/art/mango-can-960.webp' };

test('the URL changes only with the content of the image', () => {
  const version = shareImageVersion(mango, 'Jani Juice');
  expect(shareImageVersion({ ...mango }, 'Jani Juice')).toBe(version);
  expect(shareImagePath(mango, 'Jani Juice')).toBe(`/share/mango-can.jpg?v=${version}`);
  const others = [
    shareImageVersion({ ...mango, price: 96_000 }, 'Jani Juice'),
    shareImageVersion({ ...mango, name: 'Mango 2' }, 'Jani Juice'),
    shareImageVersion({ ...mango, image_url: '/art/mango-flask-960.webp' }, 'Jani Juice'),
    shareImageVersion(mango, 'Another shop'),
  ];
  expect(new Set([version, ...others]).size).toBe(5);
});

test("a product without an image uses the shop's own", () =>
  expect(shareImagePath({ ...mango, image_url: null }, 'Jani Juice')).toBe('/art/share.jpg'));
