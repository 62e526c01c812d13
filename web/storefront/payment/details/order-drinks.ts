// The drinks of an order that waits for its payment, as they can be changed.
import type { DiscountTerms } from '../../../../domain/orders/discount.ts';
import type { Store } from '../../../../supabase/store.ts';
import { type RememberedOrder, toOrdered } from '../../../lib/orders/remembered-orders.ts';
import { drinksBySlug } from '../../order/lines/find-drinks.ts';
import type { OrderedProduct, OrderLine, Stock } from '../../order/lines/order-lines.ts';
import { describeOrderChange, type OrderFigures } from '../../order/place/order-change.ts';
import { requestedDrinks } from '../../order/place/place-order.ts';
import { lookUpOrder, type TrackedItem } from '../../tracking/tracked-order.ts';

export interface OrderDrinks {
  /** With current prices. */
  lines: OrderLine[];
  /** What the order can have of them, by their products' ids: the units that it holds count as left. */
  stock: Record<string, Stock>;
  /** Prices that have changed since the order was placed, as sentences. */
  changes: string[];
  /** As agreed, in cents. */
  deliveryFee: number;
  /** Of the order's code; null without one. */
  discount: DiscountTerms | null;
  /** Of the order as it is, in cents. */
  total: number;
}

const timeoutMs = 10_000;

/** @throws Error without an answer, or if the order's details are not the caller's */
export async function readOrderDrinks(
  tables: Store['tables'],
  { trackingNumber, accessKey }: { trackingNumber: string; accessKey: string },
): Promise<OrderDrinks> {
  const lookup = await lookUpOrder(tables, trackingNumber, { accessKey });
  const order = lookup.kind === 'found' && !lookup.order.isMasked ? lookup.order : null;
  if (!order?.details) throw new Error('The order could not be read');
  const { items, deliveryFee, discount, total } = order.details;
  const holdsUnits = order.reservedUntil !== null && Date.parse(order.reservedUntil) > Date.now();
  const slugs = items.flatMap(({ slug }) => slug ?? []);
  const products = await drinksBySlug(tables, slugs, AbortSignal.timeout(timeoutMs));
  return { ...matchItems(items, products, holdsUnits), deliveryFee, discount, total };
}

/** @param holdsUnits whether the order holds its units */
export function matchItems(
  items: readonly TrackedItem[],
  products: readonly OrderedProduct[],
  holdsUnits: boolean,
): Pick<OrderDrinks, 'lines' | 'stock' | 'changes'> {
  const stock: Record<string, Stock> = {};
  const agreed: Record<string, number> = {};
  const lines = items.map((item): OrderLine => {
    const { quantity, unitPrice } = item;
    const product = products.find(({ slug }) => slug === item.slug);
    if (!product) {
      stock[item.id] = { unitsLeft: 0, isOff: true };
      return { product: withdrawn(item), quantity };
    }
    stock[product.id] = { unitsLeft: product.stock_quantity + (holdsUnits ? quantity : 0), isOff: false };
    agreed[product.id] = unitPrice;
    return { product, quantity };
  });
  const now: OrderFigures = {
    prices: Object.fromEntries(lines.map(({ product: { id, price } }) => [id, price])),
    deliveryFee: 0,
  };
  const changes = describeOrderChange({ prices: agreed, deliveryFee: 0 }, now, requestedDrinks(lines));
  return { lines, stock, changes };
}

/** A drink that the shop has stopped selling: it has no product any more. */
const withdrawn = ({ id, slug, name, unitPrice, imageUrl, category }: TrackedItem): OrderedProduct => ({
  id,
  slug: slug ?? '',
  name,
  price: unitPrice,
  image_url: imageUrl,
  stock_quantity: 0,
  category,
});

/** The total and the drinks of an order as it is now; null without an answer. */
export async function readChangedOrder(
  tables: Store['tables'],
  { trackingNumber, accessKey }: { trackingNumber: string; accessKey: string },
): Promise<Pick<RememberedOrder, 'total' | 'discountCents' | 'ordered'> | null> {
  const lookup = await lookUpOrder(tables, trackingNumber, { accessKey });
  const details = lookup.kind === 'found' && !lookup.order.isMasked ? lookup.order.details : null;
  if (!details) return null;
  const drinks = details.items.flatMap(({ slug, name, quantity }) =>
    slug ? [{ slug, name, quantity }] : [],
  );
  const { total, discountCents } = details;
  return { total, discountCents, ordered: toOrdered(drinks) };
}
