// An order's address, as a link that shows it on a map.
import type { ListedDelivery } from './delivery-queries.ts';

type Place = Pick<ListedDelivery['order'], 'shipping_address' | 'city'>;

export function MapLink({ order: { shipping_address, city } }: { order: Place }) {
  // Building and unit say nothing to a map.
  const [place] = shipping_address.split(/, (?:Building|Unit): /);
  const wanted = encodeURIComponent(`${place}, ${city}, Kenya`);
  return (
    <a
      href={`https://www.google.com/maps/search/?api=1&query=${wanted}`}
      target="_blank"
      rel="noreferrer"
      className="tap underline"
    >
      {shipping_address}
      <span className="sr-only"> (opens a map in a new tab)</span>
    </a>
  );
}
