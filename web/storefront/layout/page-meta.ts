// Metadata of a page for search engines and shared links.
import type { UIMatch } from 'react-router';
import { sharePictureSize } from '../../../domain/share-picture.ts';
import type { useShop } from './use-shop.ts';

interface Page {
  /** Without the name of the shop, which is added. Null on the home page. */
  title: string | null;
  description: string;
  /** Path of the page's one true address. */
  path: string;
  /** What kind of thing the page is about. */
  type?: 'website' | 'product';
  /** The picture that is shared with it, 1200 x 630; the shop's own when there is none. */
  picture?: { path(storeName: string): string; alt: string };
  /** Private: excluded from search engines. */
  isPrivate?: boolean;
  /** Paths of the pages before and after it in a list. */
  neighbours?: { prev: string | null; next: string | null };
}

export function describePage(
  matches: readonly unknown[],
  { title, description, path, type = 'website', picture, isPrivate = false, neighbours }: Page,
) {
  const facts = (matches[0] as UIMatch<ReturnType<typeof useShop>> | undefined)?.loaderData;
  const name = facts?.settings.store_name ?? 'Jani Juice';
  const origin = facts?.config.publicUrl ?? '';
  const fullTitle = title
    ? `${title} · ${name}`
    : `${name} · Khat-based juice and energy drinks, cold in Nairobi`;
  const shown = picture?.path(name) ?? '/art/share.jpg';
  return [
    { title: fullTitle },
    { name: 'description', content: description },
    ...(isPrivate
      ? [{ name: 'robots', content: 'noindex' }]
      : [{ tagName: 'link', rel: 'canonical', href: `${origin}${path}` }]),
    ...Object.entries(neighbours ?? {}).flatMap(([rel, neighbour]) =>
      neighbour ? [{ tagName: 'link', rel, href: `${origin}${neighbour}` }] : [],
    ),
    { property: 'og:site_name', content: name },
    { property: 'og:locale', content: 'en_KE' },
    { property: 'og:title', content: fullTitle },
    { property: 'og:description', content: description },
    { property: 'og:type', content: type },
    { property: 'og:url', content: `${origin}${path}` },
    { property: 'og:image', content: `${origin}${shown}` },
    { property: 'og:image:type', content: 'image/jpeg' },
    { property: 'og:image:width', content: String(sharePictureSize.width) },
    { property: 'og:image:height', content: String(sharePictureSize.height) },
    { property: 'og:image:alt', content: picture?.alt ?? `${name}: ice-cold drinks at dusk in Nairobi` },
    { name: 'twitter:card', content: 'summary_large_image' },
  ];
}
