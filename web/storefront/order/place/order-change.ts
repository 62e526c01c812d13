// Changes of an order's prices or fee between showing its form and sending it.
import { formatKsh } from '../../../../domain/money.ts';

/** The parts of a total, in cents. */
export interface OrderFigures {
  /** The price of each drink by its product's id. */
  prices: Readonly<Record<string, number>>;
  deliveryFee: number;
  /** What the discount code takes off. Missing without a code. */
  discount?: number;
}

/**
 * The changes as sentences, such as `Delivery is now KSh 150.00 (it was KSh 100.00).`
 * @param drinks of the order: one is not named
 * @returns an empty list when no figure changed
 */
export function describeOrderChange(
  shown: OrderFigures,
  now: OrderFigures,
  drinks: readonly { productId: string; name: string }[],
): string[] {
  const sentences: string[] = [];
  for (const { productId, name } of drinks) {
    const [before, after] = [shown.prices[productId], now.prices[productId]];
    if (before === undefined || after === undefined || before === after) continue;
    const subject = drinks.length > 1 ? name : 'One';
    sentences.push(`${subject} is now ${formatKsh(after)} (it was ${formatKsh(before)}).`);
  }
  if (now.deliveryFee !== shown.deliveryFee) {
    sentences.push(`Delivery is now ${fee(now.deliveryFee)} (it was ${fee(shown.deliveryFee)}).`);
  }
  if (now.discount !== undefined && shown.discount !== undefined && now.discount !== shown.discount) {
    sentences.push(`The discount is now ${formatKsh(now.discount)} (it was ${formatKsh(shown.discount)}).`);
  }
  return sentences;
}

const fee = (cents: number): string => (cents === 0 ? 'free' : formatKsh(cents));
