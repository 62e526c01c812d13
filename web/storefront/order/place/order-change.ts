// Changes of an order's price or fee between showing its form and sending it.
import { formatKsh } from '../../../../domain/money.ts';

/** The parts of a total, in cents. */
export interface OrderFigures {
  price: number;
  deliveryFee: number;
}

/**
 * The changes as sentences, such as `Delivery is now KSh 150.00 (it was KSh 100.00).`
 * @returns an empty list when neither figure changed
 */
export function describeOrderChange(shown: OrderFigures, now: OrderFigures): string[] {
  const sentences: string[] = [];
  if (now.price !== shown.price) {
    sentences.push(`One is now ${formatKsh(now.price)} (it was ${formatKsh(shown.price)}).`);
  }
  if (now.deliveryFee !== shown.deliveryFee) {
    sentences.push(`Delivery is now ${fee(now.deliveryFee)} (it was ${fee(shown.deliveryFee)}).`);
  }
  return sentences;
}

const fee = (cents: number): string => (cents === 0 ? 'free' : formatKsh(cents));
