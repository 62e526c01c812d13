// Money is an integer in cents. One way to write it for each surface.

/**
 * An amount as shoppers read it.
 * @param cents an integer in minor units
 * @returns such as `KSh 1,234.00` (specification §1)
 */
export function formatKsh(cents: number): string {
  const { whole, rest } = parts(cents);
  return `KSh ${whole}.${rest}`;
}

/**
 * An amount as staff read it.
 * @param cents an integer in minor units
 * @returns such as `KES 1,234`; cents only when there are any (specification §2, Admin Products)
 */
export function formatKes(cents: number): string {
  const { whole, rest } = parts(cents);
  return rest === '00' ? `KES ${whole}` : `KES ${whole}.${rest.replace(/0$/, '')}`;
}

/**
 * Rounds an amount up to whole shillings, as M-PESA charges no cents.
 * @param totalCents the order's total in cents
 * @returns the charge in cents, a multiple of 100
 */
export function chargeCents(totalCents: number): number {
  return Math.ceil(totalCents / 100) * 100;
}

/**
 * The total of an order of one product (specification §9).
 * @param unitPrice cents
 * @param quantity whole number of units
 * @param deliveryFee cents
 */
export function orderTotal(unitPrice: number, quantity: number, deliveryFee: number): number {
  return unitPrice * quantity + deliveryFee;
}

/**
 * What an offer saves.
 * @param price cents
 * @param previousPrice cents; null when the product is not on offer
 * @returns whole percent of the previous price, rounded down; 0 when it is not on offer
 */
export function savingPercent(price: number, previousPrice: number | null): number {
  return previousPrice && previousPrice > price
    ? Math.floor((100 * (previousPrice - price)) / previousPrice)
    : 0;
}

/** Written by hand: a phone takes longer to set up its own number formats than to draw a page with them. */
function parts(cents: number): { whole: string; rest: string } {
  const digits = String(Math.abs(Math.round(cents))).padStart(3, '0');
  const whole = digits.slice(0, -2).replace(/\B(?=(?:\d{3})+$)/g, ',');
  return { whole: `${cents < 0 ? '-' : ''}${whole}`, rest: digits.slice(-2) };
}
