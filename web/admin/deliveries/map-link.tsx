// An order's address as a link to a map.
import { placeOf } from '../orders/place.ts';
import type { ListedDelivery } from './delivery-queries.ts';

type Place = Pick<ListedDelivery['order'], 'shipping_address' | 'city'>;

export function MapLink({ order, className = 'tap underline' }: { order: Place; className?: string }) {
  const query = encodeURIComponent(`${placeOf(order)}, ${order.city}, Kenya`);
  return (
    <a
      href={`https://www.google.com/maps/search/?api=1&query=${query}`}
      target="_blank"
      rel="noreferrer"
      title={order.shipping_address}
      className={`relative ${className}`}
    >
      {order.shipping_address}
      <span className="sr-only"> (opens a map in a new tab)</span>
    </a>
  );
}
