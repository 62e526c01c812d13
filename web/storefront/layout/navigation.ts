// Where header, drawer and footer lead.

export const pages = [
  { label: 'Home', to: '/' },
  { label: 'Brands', to: '/shop?filter=brand' },
  { label: 'Flavors', to: '/shop?filter=flavor' },
  { label: 'Shop', to: '/shop' },
  { label: 'Delivery', to: '/delivery' },
  { label: 'Contact', to: '/contact' },
] as const;

/** Whether a link leads to where the visitor is. Brands and Flavors are the shop page under another sort. */
export function isCurrent(to: string, location: { pathname: string; search: string }): boolean {
  const [path, query = ''] = to.split('?');
  // An address may have been written with a stroke at its end.
  if (path !== location.pathname.replace(/(.)\/$/, '$1')) return false;
  if (path !== '/shop') return true;
  return new URLSearchParams(location.search).get('filter') === new URLSearchParams(query).get('filter');
}
