// An order's address as a link to a map: to the point that the customer's device reported, for staff and the rider alone, or to the address.
// Of an order that is collected the text alone.
import { placeOf } from '../orders/place.ts';
import type { ListedDelivery } from './delivery-queries.ts';

type Place = Pick<ListedDelivery['order'], 'shipping_address' | 'city' | 'is_collected' | 'map_point'>;

export function MapLink({ order, className = 'tap underline' }: { order: Place; className?: string }) {
  if (order.is_collected) return <span className="min-w-0 truncate">{order.shipping_address}</span>;
  const query = encodeURIComponent(order.map_point ?? `${placeOf(order)}, ${order.city}, Kenya`);
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
