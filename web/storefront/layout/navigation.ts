// Where header, drawer and footer lead.
import type { ShopTextSlug } from '../../../domain/shop-text.ts';

export const pages = [
  { label: 'Home', to: '/' },
  { label: 'Brands', to: '/shop?filter=brand' },
  { label: 'Flavors', to: '/shop?filter=flavor' },
  { label: 'Shop', to: '/shop' },
  { label: 'Delivery', to: '/delivery' },
  { label: 'Contact', to: '/contact' },
] as const;

/** Address of a text on the contact page. */
export const shopTextPath = (slug: ShopTextSlug): string => `/contact#${slug}`;

/** The order of the list that a URL's query presets: brand and flavor have entries of their own. */
function orderOf(query: string): string {
  const parameters = new URLSearchParams(query);
  const order = parameters.get('sort') ?? parameters.get('filter') ?? '';
  return ['brand', 'flavor'].includes(order) ? order : '';
}

/** Whether a link leads to where the visitor is. Brands and Flavors are the shop page in another order. */
export function isCurrent(to: string, location: { pathname: string; search: string }): boolean {
  const [path, query = ''] = to.split('?');
  // A URL may have a slash at its end.
  if (path !== location.pathname.replace(/(.)\/$/, '$1')) return false;
  return path !== '/shop' || orderOf(location.search) === orderOf(query);
}
