// Money is an integer in cents. One way to write it for each surface.

const storefrontNumber = new Intl.NumberFormat('en-KE', {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});
const adminNumber = new Intl.NumberFormat('en-KE', { maximumFractionDigits: 2 });

/**
 * An amount as shoppers read it.
 * @param cents an integer in minor units
 * @returns such as `KSh 1,234.00` (specification §1)
 */
export function formatKsh(cents: number): string {
  return `KSh ${storefrontNumber.format(cents / 100)}`;
}

/**
 * An amount as staff read it.
 * @param cents an integer in minor units
 * @returns such as `KES 1,234`; cents only when there are any (specification §2, Admin Products)
 */
export function formatKes(cents: number): string {
  return `KES ${adminNumber.format(cents / 100)}`;
}

/**
 * What M-PESA is asked for: it takes whole shillings, so a fraction is rounded up.
 * @param totalCents the order's total in cents
 * @returns the charge in cents, a multiple of 100
 */
export function chargeAmount(totalCents: number): number {
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
