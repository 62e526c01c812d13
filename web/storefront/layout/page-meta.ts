// What a page says about itself to search engines and to whoever shares it.
import type { UIMatch } from 'react-router';
import { sharePictureSize } from '../../../domain/share-picture.ts';
import type { Shop } from '../discovery/structured-data.ts';
import { describeTrail } from '../discovery/trail.ts';
import type { useShop } from './use-shop.ts';

interface Page {
  /** Without the name of the shop, which is added. Null on the home page. */
  title: string | null;
  description: string;
  /** Path of the page's one true address. */
  path: string;
  /** What kind of thing the page is about. */
  type?: 'website' | 'product';
  /** Path or address of the picture that is shared with it, 1200 x 630; the shop's own when there is none. */
  picture?: { path: string; alt: string };
  /** Pages above it, from the home page on, when it is not one of the first level. */
  trail?: { name: string; path: string }[];
  /** Nobody's business but who has its address. */
  isPrivate?: boolean;
}

/** The facts about the shop, from a page's matches; null where the page has none. */
export function shopOf(matches: readonly unknown[]): Shop | null {
  const facts = (matches[0] as UIMatch<ReturnType<typeof useShop>> | undefined)?.loaderData;
  return facts ? { settings: facts.settings, origin: facts.config.publicUrl } : null;
}

export function describePage(
  matches: readonly unknown[],
  { title, description, path, type = 'website', picture, trail = [], isPrivate = false }: Page,
) {
  const shop = shopOf(matches);
  const name = shop?.settings.store_name ?? 'Jani Juice';
  const origin = shop?.origin ?? '';
  const fullTitle = title
    ? `${title} · ${name}`
    : `${name} · Khat-based juice and energy drinks, cold in Nairobi`;
  const shown = picture ?? { path: '/art/share.jpg', alt: `${name}: ice-cold drinks at dusk in Nairobi` };
  return [
    { title: fullTitle },
    { name: 'description', content: description },
    ...(isPrivate
      ? [{ name: 'robots', content: 'noindex' }]
      : [{ tagName: 'link', rel: 'canonical', href: `${origin}${path}` }]),
    { property: 'og:site_name', content: name },
    { property: 'og:locale', content: 'en_KE' },
    { property: 'og:title', content: fullTitle },
    { property: 'og:description', content: description },
    { property: 'og:type', content: type },
    { property: 'og:url', content: `${origin}${path}` },
    { property: 'og:image', content: shown.path.startsWith('/') ? `${origin}${shown.path}` : shown.path },
    { property: 'og:image:type', content: 'image/jpeg' },
    { property: 'og:image:width', content: String(sharePictureSize.width) },
    { property: 'og:image:height', content: String(sharePictureSize.height) },
    { property: 'og:image:alt', content: shown.alt },
    { name: 'twitter:card', content: 'summary_large_image' },
    ...(title && !isPrivate
      ? [{ 'script:ld+json': describeTrail(origin, [...trail, { name: title, path }]) }]
      : []),
  ];
}
