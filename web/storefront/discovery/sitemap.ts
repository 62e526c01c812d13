// All public pages for search engines, with the time of their last change. More than a thousand products are split
// into several sitemaps.
import { sitemapPartIn } from '../../../domain/catalogue.ts';
import { areProducts } from '../../lib/listed-products.ts';
import { shopContext } from '../../lib/shop-context.ts';
import type { Route } from './+types/sitemap.ts';
import { type SitemapPage, sitemapIndexOf, sitemapOf } from './sitemap-document.ts';

/** Products per sitemap. Hosted projects return at most a thousand rows per request. */
const partSize = 1000;

export async function loader({ context, request }: Route.LoaderArgs) {
  const { store, config } = context.get(shopContext);
  const part = sitemapPartIn(new URL(request.url).searchParams);
  const first = ((part ?? 1) - 1) * partSize;
  const [settings, products] = await Promise.all([
    store.tables.from('store_settings').select('updated_at').single(),
    store.tables
      .from('products')
      .select('slug, updated_at', { count: 'exact' })
      .eq('is_active', true)
      .order('slug')
      .range(first, first + partSize - 1),
  ]);
  // A range beyond the last product.
  if (products.error?.code === 'PGRST103') return missing();
  if (settings.error || !settings.data || products.error || !areProducts(products.data)) return unavailable();
  const parts = Math.ceil((products.count ?? 0) / partSize);
  if (part === null && parts > 1) {
    const paths = Array.from({ length: parts }, (_, index) => `/sitemap.xml?part=${index + 1}`);
    return xml(sitemapIndexOf(config.publicUrl, paths));
  }
  if (part !== null && part > Math.max(parts, 1)) return missing();
  const changed = settings.data.updated_at;
  // With several sitemaps, none knows the latest change of the whole catalogue.
  const catalogue =
    parts > 1
      ? null
      : products.data.reduce(
          (latest, { updated_at }) => (Date.parse(updated_at) > Date.parse(latest) ? updated_at : latest),
          changed,
        );
  const pages: SitemapPage[] = [
    { path: '/', changed: catalogue },
    { path: '/shop', changed: catalogue },
    { path: '/delivery', changed },
    { path: '/contact', changed },
    { path: '/track-order', changed: null },
  ];
  const productPages = products.data.map(({ slug, updated_at }) => ({
    path: `/shop/${encodeURIComponent(slug)}`,
    changed: updated_at,
  }));
  return xml(
    sitemapOf(config.publicUrl, part === null || part === 1 ? [...pages, ...productPages] : productPages),
  );
}

const xml = (document: string) =>
  new Response(document, { headers: { 'content-type': 'application/xml; charset=utf-8' } });

const missing = () =>
  new Response('The sitemap has no such part.\n', {
    status: 404,
    headers: { 'content-type': 'text/plain; charset=utf-8' },
  });

const unavailable = () =>
  new Response('The list of pages cannot be read right now.\n', {
    status: 503,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '60' },
  });
