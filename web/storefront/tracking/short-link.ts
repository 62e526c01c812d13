// The short links in text messages: each redirects to its order's page.
import { redirect } from 'react-router';
import { orderLink, readShortOrderLink } from '../../../domain/orders/order-link.ts';
import { linkWithoutPunctuation } from '../../lib/pasted-link.ts';
import type { Route } from './+types/short-link.ts';

export function loader({ url }: Route.LoaderArgs) {
  const [, , code = '', page] = (linkWithoutPunctuation(url) ?? url.pathname).split('/');
  const order = readShortOrderLink(code);
  const to = order
    ? orderLink('', order.trackingNumber, order.accessKey, page === 'receipt' ? 'receipt' : 'tracking')
    : '/track-order';
  return redirect(to, {
    headers: {
      'Cache-Control': 'private, no-store',
      'Referrer-Policy': 'no-referrer',
      'X-Robots-Tag': 'noindex',
    },
  });
}
