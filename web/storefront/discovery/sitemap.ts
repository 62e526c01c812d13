// All public pages for search engines, with the time of their last change. More than a thousand products are split
// into several sitemaps.
import { sitemapPartIn } from '../../../domain/products/catalogue.ts';
import type { Store } from '../../../supabase/store.ts';
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
  const isFirst = part === null || part === 1;
  const [settings, products, flavors, brands] = await Promise.all([
    store.tables.from('store_settings').select('updated_at').single(),
    store.tables
      .from('products')
      .select('slug, updated_at, category, brand', { count: 'exact' })
      .eq('is_active', true)
      .order('slug')
      .range(first, first + partSize - 1),
    isFirst ? readPages(store, 'categories') : [],
    isFirst ? readPages(store, 'brands') : [],
  ]);
  // A range beyond the last product.
  if (products.error?.code === 'PGRST103') return missing();
  if (
    settings.error ||
    !settings.data ||
    products.error ||
    !areProducts(products.data) ||
    !flavors ||
    !brands
  )
    return unavailable();
  const parts = Math.ceil((products.count ?? 0) / partSize);
  if (part === null && parts > 1) {
    const paths = Array.from({ length: parts }, (_, index) => `/sitemap.xml?part=${index + 1}`);
    return xml(sitemapIndexOf(config.publicUrl, paths));
  }
  if (part !== null && part > Math.max(parts, 1)) return missing();
  const changed = settings.data.updated_at;
  // With several sitemaps, none knows the latest change of the whole catalogue.
  const catalogue = parts > 1 ? null : latestOf(products.data, changed);
  const pages: SitemapPage[] = [
    { path: '/', changed: catalogue },
    { path: '/shop', changed: catalogue },
    { path: '/delivery', changed },
    { path: '/contact', changed },
    { path: '/track-order', changed: null },
  ];
  const listed = products.data;
  // Of one part of the catalogue, neither the flavors with a drink nor their latest change are known.
  const groupPages = (kind: 'flavors' | 'brands', groups: readonly PageRow[]): SitemapPage[] =>
    groups.flatMap(({ name, slug, updated_at }) => {
      const own = listed.filter((product) => (kind === 'brands' ? product.brand : product.category) === name);
      if (parts <= 1 && own.length === 0) return [];
      return [{ path: `/${kind}/${slug}`, changed: parts > 1 ? null : latestOf(own, updated_at) }];
    });
  const productPages = products.data.map(({ slug, updated_at }) => ({
    path: `/shop/${encodeURIComponent(slug)}`,
    changed: updated_at,
  }));
  return xml(
    sitemapOf(config.publicUrl, [
      ...(isFirst ? [...pages, ...groupPages('flavors', flavors), ...groupPages('brands', brands)] : []),
      ...productPages,
    ]),
  );
}

interface PageRow {
  name: string;
  slug: string;
  updated_at: string;
}

/** Flavors or brands that visitors see; null when they cannot be read. */
async function readPages({ tables }: Store, table: 'categories' | 'brands'): Promise<PageRow[] | null> {
  const columns = 'name, slug, updated_at';
  const { data } =
    table === 'brands'
      ? await tables.from('brands').select(columns).order('slug').limit(partSize)
      : await tables.from('categories').select(columns).order('slug').limit(partSize);
  return areProducts(data) ? data : null;
}

const latestOf = (rows: readonly { updated_at: string }[], start: string): string =>
  rows.reduce(
    (latest, { updated_at }) => (Date.parse(updated_at) > Date.parse(latest) ? updated_at : latest),
    start,
  );

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
