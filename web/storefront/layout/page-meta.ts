// What a page says about itself to search engines and to whoever shares it.
import type { UIMatch } from 'react-router';
import type { useShop } from './use-shop.ts';

interface Page {
  /** Without the name of the shop, which is added. Null on the home page. */
  title: string | null;
  description: string;
  /** Path of the page's one true address. */
  path: string;
  /** Path of a picture. */
  image?: string | null;
}

export function describePage(matches: readonly unknown[], { title, description, path, image }: Page) {
  const root = matches[0] as UIMatch<ReturnType<typeof useShop>> | undefined;
  const name = root?.loaderData?.settings.store_name ?? 'Jani Juice';
  const origin = root?.loaderData?.config.publicUrl ?? '';
  const fullTitle = title
    ? `${title} · ${name}`
    : `${name} · Khat-based juice and energy drinks, cold in Nairobi`;
  const picture = image ?? '/art/share.jpg';
  return [
    { title: fullTitle },
    { name: 'description', content: description },
    { tagName: 'link', rel: 'canonical', href: `${origin}${path}` },
    { property: 'og:title', content: fullTitle },
    { property: 'og:description', content: description },
    { property: 'og:type', content: 'website' },
    { property: 'og:url', content: `${origin}${path}` },
    { property: 'og:image', content: picture.startsWith('/') ? `${origin}${picture}` : picture },
    { name: 'twitter:card', content: 'summary_large_image' },
  ];
}
