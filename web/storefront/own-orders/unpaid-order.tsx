// An order that waits to be paid, on the page of a product: the one of this product, else the newest.
import { useState } from 'react';
import type { RememberedOrder } from '../../lib/remembered-orders.ts';
import { PayNow } from '../payment/pay-now.tsx';
import { useUnpaidOrder } from './order-states.ts';

export default function UnpaidOrder({ productId }: { productId: string }) {
  const ofProduct = useUnpaidOrder(productId);
  const newest = useUnpaidOrder();
  const unpaid = ofProduct ?? newest;
  // Paid by now: the dialog of its payment may still be open.
  const [last, setLast] = useState<RememberedOrder | null>(null);
  const order = unpaid?.order ?? last;
  if (order !== last) setLast(order);
  if (!order) return null;
  const { orderId, trackingNumber, total, phone, accessKey, ordered } = order;
  return (
    <div
      className={
        unpaid
          ? 'mt-1 mb-3 flex flex-wrap items-center justify-between gap-x-5 gap-y-2 rounded-xl border border-ember-300 bg-ember-50 py-3 pr-3 pl-4'
          : ''
      }
    >
      <p role="status" className="min-w-44 flex-1 text-sm leading-snug">
        {unpaid ? (
          <>
            <span className="block text-ink-soft">
              Your order {ordered ? `of ${ordered.quantity} × ${ordered.name}` : trackingNumber}
            </span>
            <strong>{unpaid.meaning.summary}</strong>
          </>
        ) : null}
      </p>
      <PayNow
        order={{ orderId, trackingNumber, total, phone }}
        meaning={unpaid?.meaning ?? null}
        accessKey={accessKey}
        isOffered={unpaid !== null}
        size="medium"
      />
    </div>
  );
}
