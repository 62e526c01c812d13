// The short links in text messages: each redirects to its order's page.
import { redirect } from 'react-router';
import { orderLink, readShortOrderLink } from '../../../domain/order-link.ts';
import type { Route } from './+types/short-link.ts';

export function loader({ params }: Route.LoaderArgs) {
  const order = readShortOrderLink(params.code);
  const to = order
    ? orderLink('', order.trackingNumber, order.accessKey, params.page === 'receipt' ? 'receipt' : 'tracking')
    : '/track-order';
  return redirect(to, {
    headers: {
      'Cache-Control': 'private, no-store',
      'Referrer-Policy': 'no-referrer',
      'X-Robots-Tag': 'noindex',
    },
  });
}
