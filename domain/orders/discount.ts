// What a discount code takes off the price of drinks. The database decides (private.discount_on); this shows it beforehand.

/** The discount of a code, as `check_discount_code` returns it. Amounts in cents. */
export interface DiscountTerms {
  code: string;
  /** Of the price of the drinks. Null: `amount_cents` is taken off. */
  percent: number | null;
  amount_cents: number | null;
  /** The price of the drinks from which the code applies. */
  minimum_cents: number;
}

/**
 * What the code takes off, in cents: a percentage is rounded up to whole shillings, never more than the drinks cost, and one shilling is
 * left to pay.
 * @returns 0 below the minimum
 */
export function discountOn(
  { percent, amount_cents, minimum_cents }: DiscountTerms,
  drinksCents: number,
  deliveryFee: number,
): number {
  if (drinksCents < minimum_cents) return 0;
  const discount = amount_cents ?? Math.ceil((drinksCents * (percent ?? 0)) / 10_000) * 100;
  return Math.max(0, Math.min(discount, drinksCents, drinksCents + deliveryFee - 100));
}

/** @returns null for anything else than a discount */
export function readTerms(value: unknown): DiscountTerms | null {
  if (typeof value !== 'object' || value === null) return null;
  const { code, percent = null, amount_cents = null, minimum_cents } = value as Record<string, unknown>;
  const isAmount = (cents: unknown): cents is number => Number.isInteger(cents);
  if (typeof code !== 'string' || !isAmount(minimum_cents)) return null;
  if (isAmount(percent) && amount_cents === null) return { code, percent, amount_cents, minimum_cents };
  if (isAmount(amount_cents) && percent === null) return { code, percent, amount_cents, minimum_cents };
  return null;
}

/** @param code if the reader may see it */
export const describeDiscount = (code?: string | null): string => (code ? `Discount (${code})` : 'Discount');
