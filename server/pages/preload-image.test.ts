import { expect, test } from 'vitest';
import { preloadFirstImage } from './preload-image.ts';

const fonts = '<link rel="preload" href="/fonts/a.woff2" as="font"/>';
const page = (markup: string) =>
  `<head>${fonts}</head><picture><img src="/logo.png"/></picture>${markup}<picture><img src="/b.png" fetchPriority="high"/></picture>`;
/** The preloads before the fonts. */
const preloads = (markup: string) => preloadFirstImage(page(markup)).split(fonts)[0]?.replace('<head>', '');

test('preloads the first high-priority image in its newest format, with unchanged attributes', () => {
  const sources =
    '<source type="image/avif" srcSet="/a-240.avif 240w, /a-480.avif 480w" sizes="(min-width: 768px) 44vw, 92vw"/>';
  expect(
    preloads(
      `<picture class="contents">${sources}<img src="/a.webp?x=1&amp;y=$&amp;" fetchPriority="high"/></picture>`,
    ),
  ).toBe(
    '<link rel="preload" as="image" imagesrcset="/a-240.avif 240w, /a-480.avif 480w" imagesizes="(min-width: 768px) 44vw, 92vw" type="image/avif" fetchpriority="high"/>',
  );
});

test('preloads one image per screen width when wide screens have their own', () => {
  const sources =
    '<source media="(min-width: 1024px)" type="image/avif" srcSet="/wide.avif 1600w" sizes="100vw"/>' +
    '<source media="(min-width: 1024px)" type="image/webp" srcSet="/wide.webp 1600w" sizes="100vw"/>' +
    '<source type="image/avif" srcSet="/tall.avif 720w" sizes="99vw"/>';
  expect(preloads(`<picture>${sources}<img src="/tall.webp" fetchPriority="high"/></picture>`)).toBe(
    '<link rel="preload" as="image" imagesrcset="/wide.avif 1600w" imagesizes="100vw" type="image/avif" media="(min-width: 1024px)" fetchpriority="high"/>' +
      '<link rel="preload" as="image" imagesrcset="/tall.avif 720w" imagesizes="99vw" type="image/avif" media="not all and (min-width: 1024px)" fetchpriority="high"/>',
  );
});

test('preloads an uploaded image in its sizes, or with its single URL', () => {
  expect(
    preloads(
      '<picture><img src="/u?width=960" srcSet="/u?width=480 480w" sizes="92vw" fetchPriority="high"/></picture>',
    ),
  ).toBe(
    '<link rel="preload" as="image" imagesrcset="/u?width=480 480w" imagesizes="92vw" fetchpriority="high"/>',
  );
  expect(preloads('<picture><img fetchPriority="high" src="/u.png?x=$&amp;"/></picture>')).toBe(
    '<link rel="preload" as="image" href="/u.png?x=$&amp;" fetchpriority="high"/>',
  );
});

test('does not change a page without such an image', () => {
  const plain = `<head>${fonts}</head><picture><img src="/logo.png" loading="lazy"/></picture>`;
  expect(preloadFirstImage(plain)).toBe(plain);
});
