// What "Same again?" offers: the last delivered order of this device at today's prices, as the database computes it.
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { createStore, type Store, type StoreAddress } from '../../../supabase/store.ts';
import {
  describeOrdered,
  ordersWithDetails,
  type RememberedOrder,
  toOrdered,
} from '../../lib/orders/remembered-orders.ts';
import type { RequestedDrink } from '../order/place/place-order.ts';

export interface SameAgainOffer {
  /** The delivered order, as this device stores it. */
  earlier: RememberedOrder;
  drinks: (RequestedDrink & { slug: string })[];
  /** Without building and unit. */
  place: string;
  areaId: string | null;
  /** Cents, as are the others. */
  deliveryFee: number;
  total: number;
}

const timeoutMs = 8000;

/** @returns null if one tap cannot place an order of this device again, or without an answer; does not throw */
export async function loadSameAgain(address: StoreAddress): Promise<SameAgainOffer | null> {
  const orders = ordersWithDetails();
  if (orders.length === 0) return null;
  const { tables }: Pick<Store, 'tables'> = createStore(address);
  const { data } = await tables
    .rpc('same_again', { access_keys: orders.map(({ accessKey }) => accessKey) })
    .abortSignal(AbortSignal.timeout(timeoutMs));
  return readSameAgain(data, orders);
}

/** @returns null for an answer without an order of this device */
export function readSameAgain(answer: unknown, orders: readonly RememberedOrder[]): SameAgainOffer | null {
  const { tracking_number, items, place, area_id, delivery_fee, total } = (answer ?? {}) as Record<
    string,
    unknown
  >;
  const earlier = orders.find(({ trackingNumber }) => trackingNumber === tracking_number);
  if (!earlier || !Array.isArray(items) || typeof place !== 'string') return null;
  if (typeof delivery_fee !== 'number' || typeof total !== 'number') return null;
  const drinks = items.flatMap((item: Record<string, unknown> | null) => {
    const { product_id: productId, slug, name, quantity, price } = item ?? {};
    return typeof productId === 'string' &&
      typeof slug === 'string' &&
      typeof name === 'string' &&
      typeof quantity === 'number' &&
      typeof price === 'number'
      ? [{ productId, slug, name, quantity, price }]
      : [];
  });
  if (drinks.length === 0 || drinks.length < items.length) return null;
  return {
    earlier,
    drinks,
    place,
    areaId: typeof area_id === 'string' ? area_id : null,
    deliveryFee: delivery_fee,
    total,
  };
}

/** The drinks as a device stores them. */
export const orderedOf = ({ drinks }: SameAgainOffer): RememberedOrder['ordered'] =>
  toOrdered(drinks.map(({ slug, name, quantity }) => ({ slug, name, quantity })));

/** Such as `2 × Mango to Mpaka Road, KSh 1,901.00`. */
export function describeOffer(offer: SameAgainOffer): string {
  const ordered = orderedOf(offer);
  return `${ordered ? describeOrdered(ordered) : ''} to ${offer.place}, ${formatKsh(chargeCents(offer.total))}`;
}
