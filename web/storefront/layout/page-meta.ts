// Metadata of a page for search engines and shared links.
import type { UIMatch } from 'react-router';
import { shareImageSize, squareShareImageSize } from '../../../domain/products/share-image.ts';
import type { useShop } from './use-shop.ts';

interface Page {
  /** Without the shop's name, which is appended. Null on the home page. */
  title: string | null;
  description: string;
  /** Canonical path of the page. */
  path: string;
  /** Open Graph type. Default: website. */
  type?: 'website' | 'product';
  /** Share image, 1200 x 630. Default: the shop's own. */
  image?: { path(storeName: string): string; squarePath(storeName: string): string | null; alt: string };
  /** Private: excluded from search engines. */
  isPrivate?: boolean;
  /** Paths of the previous and next page of a list. */
  neighbours?: { prev: string | null; next: string | null };
}

export function describePage(
  matches: readonly unknown[],
  { title, description, path, type = 'website', image, isPrivate = false, neighbours }: Page,
) {
  const facts = (matches[0] as UIMatch<ReturnType<typeof useShop>> | undefined)?.loaderData;
  const name = facts?.settings.store_name ?? 'Jani Juice';
  const origin = facts?.config.publicUrl ?? '';
  const fullTitle = title
    ? `${title} · ${name}`
    : `${name} · Khat-based juice and energy drinks, cold in Nairobi`;
  return [
    { title: fullTitle },
    { name: 'description', content: description },
    ...(isPrivate
      ? [{ name: 'robots', content: 'noindex' }]
      : [{ tagName: 'link', rel: 'canonical', href: `${origin}${path}` }]),
    ...Object.entries(neighbours ?? {}).flatMap(([rel, neighbour]) =>
      neighbour ? [{ tagName: 'link', rel, href: `${origin}${neighbour}` }] : [],
    ),
    // Chats and search engines read them as the server sends them, so that browsers need neither their code nor to hydrate them.
    ...(import.meta.env.SSR ? sharingTags() : []),
  ];

  function sharingTags() {
    return [
      { property: 'og:site_name', content: name },
      { property: 'og:locale', content: 'en_KE' },
      { property: 'og:title', content: fullTitle },
      { property: 'og:description', content: description },
      { property: 'og:type', content: type },
      { property: 'og:url', content: `${origin}${path}` },
      ...[
        { path: image?.path(name) ?? '/art/share.jpg', size: shareImageSize },
        { path: image?.squarePath(name), size: squareShareImageSize },
      ].flatMap(({ path, size }) =>
        path
          ? [
              { property: 'og:image', content: `${origin}${path}` },
              { property: 'og:image:type', content: 'image/jpeg' },
              { property: 'og:image:width', content: String(size.width) },
              { property: 'og:image:height', content: String(size.height) },
              {
                property: 'og:image:alt',
                content: image?.alt ?? `${name}: ice-cold drinks at dusk in Nairobi`,
              },
            ]
          : [],
      ),
      { name: 'twitter:card', content: 'summary_large_image' },
    ];
  }
}
