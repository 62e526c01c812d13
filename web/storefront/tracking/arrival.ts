// When an order arrives, as its customer reads it at the top of the tracking page.
import { formatArrival, minutesLeft } from '../../../domain/deliveries/delivery-promise.ts';
import { formatDay } from '../../lib/orders/order-date.ts';
import type { TrackedOrder } from './tracked-order.ts';

export interface Arrival {
  title: string;
  /** One sentence; null: nothing to add. */
  text: string | null;
}

type ArrivingOrder = Pick<TrackedOrder, 'status' | 'paymentStatus' | 'promise' | 'steps'> & {
  details: Pick<NonNullable<TrackedOrder['details']>, 'deliveryDay'> | null;
};

/**
 * @param now milliseconds since 1970
 * @returns null where no time is known: before the payment, for orders that are cancelled, and those collected at the shop
 */
export function describeOrderArrival(order: ArrivingOrder, now: number): Arrival | null {
  const { status, promise, steps } = order;
  if (order.paymentStatus === 'refunded' || status === 'cancelled') return null;
  if (status === 'delivered') {
    return steps.deliveredAt === null
      ? null
      : { title: `Delivered at ${formatArrival(steps.deliveredAt, now)}`, text: null };
  }
  const due = promise.again ?? promise.first;
  if (due === null) return null;
  const by = formatArrival(due, now);
  if (status === 'out_for_delivery' && promise.atDoor !== null) {
    const minutes = minutesLeft(promise.atDoor, now);
    return {
      title: minutes > 1 ? `About ${minutes} minutes` : 'Any minute now',
      text: Date.parse(due) > now ? `On its way, and arrives by ${by}.` : 'On its way to you.',
    };
  }
  if (Date.parse(due) <= now) {
    return { title: 'A little late, sorry', text: `We promised ${by}, and are on it.` };
  }
  const day = order.details?.deliveryDay;
  if (day && promise.again === null) return { title: `Arrives on ${formatDay(day)}`, text: null };
  return {
    title: `Arrives by ${by}`,
    text:
      promise.again !== null && promise.first !== null
        ? `Sorry, it takes longer than we promised (${formatArrival(promise.first, now)}).`
        : null,
  };
}
