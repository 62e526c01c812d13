import { expect, test } from 'vitest';
import { preloadFirstPicture } from './first-picture.ts';

const faces = '<link rel="preload" href="/fonts/a.woff2" as="font"/>';
const page = (picture: string) =>
  `<head>${faces}</head><picture><img src="/logo.png"/></picture>${picture}<picture><img src="/b.png" fetchPriority="high"/></picture>`;
/** What was written before the faces. */
const told = (picture: string) => preloadFirstPicture(page(picture)).split(faces)[0]?.replace('<head>', '');

test('the first picture of high priority is told in its newest format, as it is written', () => {
  const sources =
    '<source type="image/avif" srcSet="/a-240.avif 240w, /a-480.avif 480w" sizes="(min-width: 768px) 44vw, 92vw"/>';
  expect(
    told(
      `<picture class="contents">${sources}<img src="/a.webp?x=1&amp;y=$&amp;" fetchPriority="high"/></picture>`,
    ),
  ).toBe(
    '<link rel="preload" as="image" imagesrcset="/a-240.avif 240w, /a-480.avif 480w" imagesizes="(min-width: 768px) 44vw, 92vw" type="image/avif" fetchpriority="high"/>',
  );
});

test('where wide screens have a picture of their own, each screen is told of one', () => {
  const sources =
    '<source media="(min-width: 1024px)" type="image/avif" srcSet="/wide.avif 1600w" sizes="100vw"/>' +
    '<source media="(min-width: 1024px)" type="image/webp" srcSet="/wide.webp 1600w" sizes="100vw"/>' +
    '<source type="image/avif" srcSet="/tall.avif 720w" sizes="99vw"/>';
  expect(told(`<picture>${sources}<img src="/tall.webp" fetchPriority="high"/></picture>`)).toBe(
    '<link rel="preload" as="image" imagesrcset="/wide.avif 1600w" imagesizes="100vw" type="image/avif" media="(min-width: 1024px)" fetchpriority="high"/>' +
      '<link rel="preload" as="image" imagesrcset="/tall.avif 720w" imagesizes="99vw" type="image/avif" media="not all and (min-width: 1024px)" fetchpriority="high"/>',
  );
});

test('an uploaded picture is told in the sizes it has, or by its one address', () => {
  expect(
    told(
      '<picture><img src="/u?width=960" srcSet="/u?width=480 480w" sizes="92vw" fetchPriority="high"/></picture>',
    ),
  ).toBe(
    '<link rel="preload" as="image" imagesrcset="/u?width=480 480w" imagesizes="92vw" fetchpriority="high"/>',
  );
  expect(told('<picture><img fetchPriority="high" src="/u.png?x=$&amp;"/></picture>')).toBe(
    '<link rel="preload" as="image" href="/u.png?x=$&amp;" fetchpriority="high"/>',
  );
});

test('a page without such a picture stays as it is', () => {
  const plain = `<head>${faces}</head><picture><img src="/logo.png" loading="lazy"/></picture>`;
  expect(preloadFirstPicture(plain)).toBe(plain);
});
