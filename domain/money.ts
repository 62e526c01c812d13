// Money is an integer in cents, with one format for customers and one for staff.
import type { OrderPaymentStatus } from '../supabase/types.ts';
import { formatCount } from './count.ts';

/**
 * Formats an amount for customers.
 * @param cents an integer in minor units
 * @returns such as `KSh 1,234.00`
 */
export function formatKsh(cents: number): string {
  const { whole, rest } = parts(cents);
  return `KSh ${whole}.${rest}`;
}

/**
 * Formats an amount for staff.
 * @param cents an integer in minor units
 * @returns such as `KES 1,234`; cents only when there are any
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
 * The amount of an order, as every list, file, paper and message shows it: its exact total while it is unpaid, afterwards the charge,
 * because that is what M-PESA took. An amount that staff or M-PESA ask for is always `chargeCents`, paid or not; an amount that
 * arrived or went back is the payment's own.
 * @param totalCents the order's total in cents
 * @param paymentStatus of the order
 * @returns cents
 */
export function shownAmount(totalCents: number, paymentStatus: OrderPaymentStatus): number {
  return paymentStatus === 'unpaid' ? totalCents : chargeCents(totalCents);
}

/**
 * The saving of an offer, for customers.
 * @param price cents
 * @param previousPrice cents; null when the product is not on offer
 * @returns such as `KSh 150`, with cents only when there are any; null when it is not on offer
 */
export function formatSaving(price: number, previousPrice: number | null): string | null {
  return previousPrice && previousPrice > price
    ? formatKsh(previousPrice - price).replace(/\.00$/, '')
    : null;
}

function parts(cents: number): { whole: string; rest: string } {
  const amount = Math.abs(Math.round(cents));
  const whole = formatCount(Math.floor(amount / 100));
  return { whole: `${cents < 0 ? '-' : ''}${whole}`, rest: String(amount % 100).padStart(2, '0') };
}
