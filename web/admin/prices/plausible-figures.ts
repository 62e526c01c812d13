// Prices, fees and stocks that are rather a slip of the finger: staff are asked before they are saved.
import { formatKes } from '../../../domain/money.ts';

/** A price or fee beyond this many times the former one, or below that part of it, is asked. */
const jump = 3;
/** A first price beyond this many times the typical one, or below that part of it, is asked. */
const farFromTypical = 10;
/** A stock that grows by more than this many units, and to more than ten times what it was, is asked. */
const manyUnits = 200;
/** A fee that differs by less than this, or was less than a quarter of it, is not compared with the former one: cents. */
const smallFee = 20_000;
/** A fee beyond this is asked while the typical price is not known: cents. */
const highFee = 100_000;

/**
 * Questions about a product's figures.
 * @param before its saved figures; null for a new product. Prices in cents
 * @param after the figures to save
 * @param typicalPrice the median price of the catalogue in cents; null when it is not known
 * @returns one sentence for each implausible figure; empty when there is nothing to ask
 */
export function questionsAboutProduct(
  before: { price: number; stock: number } | null,
  after: { price: number; stock: number },
  typicalPrice: number | null,
): string[] {
  const questions: string[] = [];
  if (after.price !== before?.price) {
    const price = formatKes(after.price);
    if (after.price === 0) questions.push('The price is 0: customers get it for nothing.');
    else if (before && before.price > 0 && isFar(after.price, before.price, jump)) {
      questions.push(`The price goes from ${formatKes(before.price)} to ${price}.`);
    } else if (
      (!before || before.price === 0) &&
      typicalPrice &&
      isFar(after.price, typicalPrice, farFromTypical)
    ) {
      questions.push(`The price is ${price}; half of your products cost ${formatKes(typicalPrice)} or less.`);
    }
  }
  const stock = before?.stock ?? 0;
  if (after.stock - stock > manyUnits && after.stock > 10 * stock) {
    questions.push(`The stock goes from ${stock} to ${after.stock}.`);
  }
  return questions;
}

/**
 * Questions about the delivery fee.
 * @param before the saved fee in cents
 * @param after the fee to save in cents
 * @param typicalPrice as above: a fee beyond it is asked
 * @returns as above
 */
export function questionsAboutFee(before: number, after: number, typicalPrice: number | null): string[] {
  if (after === before) return [];
  const change = `The delivery fee goes from ${formatKes(before)} to ${formatKes(after)}, for every order.`;
  if (after > (typicalPrice ?? highFee)) return [change];
  if (Math.abs(after - before) < smallFee || 4 * before < smallFee) return [];
  return isFar(after, before, jump) ? [change] : [];
}

const isFar = (figure: number, from: number, times: number): boolean =>
  figure > from * times || figure * times < from;
