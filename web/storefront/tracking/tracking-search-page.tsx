// Where customers search for their order. Without JavaScript, and in older links, the number is in the query.
import { redirect } from 'react-router';
import { orderLink } from '../../../domain/orders/order-link.ts';
import { normaliseTrackingNumber } from '../../../domain/orders/tracking-number.ts';
import { LastOrderSlot } from '../last-order/last-order-slot.tsx';
import { describePage } from '../layout/page-meta.ts';
import type { Route } from './+types/tracking-search-page.ts';
import { TrackingCard, TrackingFrame } from './tracking-frame.tsx';

export const meta: Route.MetaFunction = ({ matches }) =>
  describePage(matches, {
    title: 'Track Your Order',
    description: 'See where your order is: from our fridge to your gate, step by step.',
    path: '/track-order',
  });

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

export function loader({ url }: Route.LoaderArgs) {
  const trackingNumber = normaliseTrackingNumber(url.searchParams.get('tracking') ?? '');
  if (trackingNumber) throw redirect(orderLink('', trackingNumber, url.searchParams.get('key')));
  return null;
}

export default function TrackingSearchPage() {
  return (
    <TrackingFrame trackingNumber="">
      <TrackingCard>
        <h2 className="text-2xl">From our fridge to your gate</h2>
        <p className="max-w-text text-ink-soft">
          Enter your number above to see how far your drinks have come.{' '}
          <span className="block noscript:hidden">It updates on its own. No need to refresh.</span>
        </p>
      </TrackingCard>
      <LastOrderSlot />
    </TrackingFrame>
  );
}
