// Maximum bytes of a page's largest image and of the two fonts on a phone.
import { readdirSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';

const art = new URL('./public/art/', import.meta.url);
/** Two round trips over a slow connection shared with two fonts, including response headers. */
const most = 17_200;

test('the largest image of a page reaches a phone in two round trips', () => {
  // Only the scenes at the top of a page; other slides are loaded shortly before they are shown.
  const first = readdirSync(art).filter((name) => /^(?!hero-(?:khat|flavors)).*-720\.avif$/.test(name));
  expect(first).toContain('hero-energy-low-720.avif');
  expect(first).toContain('mango-bottle-720.avif');
  const heavy = first
    .map((name) => ({ name, bytes: statSync(new URL(name, art)).size }))
    .filter(({ bytes }) => bytes > most);
  expect(heavy).toEqual([]);
});

test('each font arrives in two round trips of a connection that four responses share', () => {
  const fonts = new URL('./public/fonts/', import.meta.url);
  const faces = readdirSync(fonts).filter((name) => name.endsWith('.woff2'));
  expect(faces).toHaveLength(2);
  for (const name of faces) expect(statSync(new URL(name, fonts)).size, name).toBeLessThanOrEqual(14_250);
});
