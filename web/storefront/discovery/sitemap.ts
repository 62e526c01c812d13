// Every public page for search engines, with when it changed last.
import { areProducts } from '../../lib/listed-products.ts';
import { shopContext } from '../../lib/shop-context.ts';
import type { Route } from './+types/sitemap.ts';
import { type SitemapPage, sitemapOf } from './sitemap-document.ts';

// Some projects answer at most a thousand rows at once.
const atOnce = 1000;

export async function loader({ context }: Route.LoaderArgs) {
  const { store, config } = context.get(shopContext);
  const settings = await store.tables.from('store_settings').select('updated_at').single();
  if (settings.error || !settings.data) return unavailable();
  const products: { slug: string; updated_at: string }[] = [];
  // More than a sitemap may hold is no shop of one seller.
  while (products.length < 45_000) {
    const { data, error } = await store.tables
      .from('products')
      .select('slug, updated_at')
      .eq('is_active', true)
      .order('slug')
      .range(products.length, products.length + atOnce - 1);
    if (error || !areProducts(data)) return unavailable();
    products.push(...data);
    if (data.length < atOnce) break;
  }
  const changed = settings.data.updated_at;
  const catalogue = products.reduce(
    (latest, { updated_at }) => (Date.parse(updated_at) > Date.parse(latest) ? updated_at : latest),
    changed,
  );
  const pages: SitemapPage[] = [
    { path: '/', changed: catalogue },
    { path: '/shop', changed: catalogue },
    { path: '/delivery', changed },
    { path: '/contact', changed },
    { path: '/track-order', changed: null },
    ...products.map(({ slug, updated_at }) => ({
      path: `/shop/${encodeURIComponent(slug)}`,
      changed: updated_at,
    })),
  ];
  return new Response(sitemapOf(config.publicUrl, pages), {
    headers: { 'content-type': 'application/xml; charset=utf-8' },
  });
}

const unavailable = () =>
  new Response('The list of pages cannot be read right now.\n', {
    status: 503,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '60' },
  });
