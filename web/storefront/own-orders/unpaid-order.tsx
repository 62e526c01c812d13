// An unpaid order on a product page: the order of this product, else the newest.
import { useState } from 'react';
import {
  describeOrdered,
  orderedDrinks,
  type RememberedOrder,
  unitsOrdered,
} from '../../lib/orders/remembered-orders.ts';
import { TextWithAmounts } from '../../ui/price.tsx';
import { PayNow } from '../payment/pay-now.tsx';
import { useUnpaidOrders } from './order-states.ts';

export default function UnpaidOrder({ product }: { product: { id: string; slug: string } }) {
  const orders = useUnpaidOrders();
  const unpaid = orders.find(({ order }) => unitsOrdered(order, product) > 0) ?? orders[0];
  // Paid in the meantime: the dialog of its payment may still be open.
  const [last, setLast] = useState<RememberedOrder | null>(null);
  const order = unpaid?.order ?? last;
  if (order !== last) setLast(order);
  if (!order) return null;
  const { orderId, trackingNumber, total, phone, accessKey, ordered } = order;
  return (
    // Overlays the page, so that nothing shifts, and stays visible where there is space above the content.
    <div className="relative z-20 h-0 [@media(min-height:30rem)]:sticky [@media(min-height:30rem)]:top-2 xl:[@media(min-height:30rem)]:top-20">
      <div
        className={
          unpaid
            ? 'absolute inset-x-0 top-0 flex flex-wrap items-center justify-between gap-x-5 gap-y-2 rounded-xl border border-ember-300 bg-ember-50 py-2 pr-2 pl-4 shadow-lg sm:max-w-[46%]'
            : ''
        }
      >
        <p role="status" className="min-w-[min(10rem,100%)] flex-1 text-sm leading-tight">
          {unpaid ? (
            <>
              <span className="block truncate text-xs leading-5 text-ink-soft">
                Your order {ordered ? `of ${shortly(ordered)}` : trackingNumber}
              </span>
              <strong>
                <TextWithAmounts>{unpaid.meaning.summary}</TextWithAmounts>
              </strong>
            </>
          ) : null}
        </p>
        <PayNow
          order={{ orderId, trackingNumber, total, phone }}
          meaning={unpaid?.meaning ?? null}
          accessKey={accessKey}
          isOffered={unpaid !== undefined}
          size="medium"
        />
      </div>
    </div>
  );
}

/** In one line of a phone, where names of several drinks would be cut off. */
const shortly = (ordered: NonNullable<RememberedOrder['ordered']>): string =>
  ordered.others ? `${orderedDrinks(ordered).length} drinks` : describeOrdered(ordered);
