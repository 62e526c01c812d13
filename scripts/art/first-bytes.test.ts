// What the largest picture of a page and the two faces may weigh on a phone: scripts/art/draw-art.ts keeps to it, and so must what is
// drawn.
import { readdirSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';

const art = new URL('../../web/public/art/', import.meta.url);
/** Two flights over a slow line which two fonts share, with the answer's head. */
const most = 17_200;

test('the largest picture of a page comes to a phone in two flights', () => {
  // Of the scenes, those that a page begins with; the other slides come when it is nearly their turn.
  const first = readdirSync(art).filter((name) => /^(?!hero-(?:khat|flavors)).*-720\.avif$/.test(name));
  expect(first).toContain('hero-energy-tall-720.avif');
  expect(first).toContain('mango-bottle-720.avif');
  const heavy = first
    .map((name) => ({ name, bytes: statSync(new URL(name, art)).size }))
    .filter(({ bytes }) => bytes > most);
  expect(heavy).toEqual([]);
});

test('each face comes in two flights of a line that four share', () => {
  const fonts = new URL('../../web/public/fonts/', import.meta.url);
  const faces = readdirSync(fonts).filter((name) => name.endsWith('.woff2'));
  expect(faces).toHaveLength(2);
  for (const name of faces) expect(statSync(new URL(name, fonts)).size, name).toBeLessThanOrEqual(14_250);
});
