// Links of header, drawer and footer.
import type { ShopTextSlug } from '../../../supabase/types.ts';

export const pages = [
  { label: 'Home', to: '/' },
  { label: 'Brands', to: '/shop?filter=brand' },
  { label: 'Flavors', to: '/shop?filter=flavor' },
  { label: 'Shop', to: '/shop' },
  { label: 'Delivery', to: '/delivery' },
  { label: 'Contact', to: '/contact' },
] as const;

/** URL of a text on the contact page. */
export const shopTextPath = (slug: ShopTextSlug): string => `/contact#${slug}`;

/** The sort order that a URL's query presets: brand and flavor have their own links. */
function orderOf(query: string): string {
  const parameters = new URLSearchParams(query);
  const order = parameters.get('sort') ?? parameters.get('filter') ?? '';
  return ['brand', 'flavor'].includes(order) ? order : '';
}

/** Whether a link leads to the current page. Brands and Flavors are the shop page with another sort order. */
export function isCurrent(to: string, location: { pathname: string; search: string }): boolean {
  const [path, query = ''] = to.split('?');
  // A URL may end with a slash.
  if (path !== location.pathname.replace(/(.)\/$/, '$1')) return false;
  return path !== '/shop' || orderOf(location.search) === orderOf(query);
}
