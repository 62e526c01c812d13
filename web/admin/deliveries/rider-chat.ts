// The job of a delivery as a message to its rider on WhatsApp.

import { describeJob } from '../../../domain/deliveries/rider-job.ts';
import { chargeCents } from '../../../domain/money.ts';
import { normalisePhone } from '../../../domain/people/phone.ts';
import { chatTo } from '../ui/contact-link.tsx';

type Order = Parameters<typeof describeJob>[0] & {
  payment_status: string;
  total_amount: number;
  anonymised_at: string | null;
};

/** The words; null without the customer's data. */
export function jobText(order: Order, { delivery_notes }: { delivery_notes: string | null }): string | null {
  if (order.anonymised_at) return null;
  const cash = order.payment_status === 'unpaid' ? chargeCents(order.total_amount) : null;
  return describeJob(order, cash, delivery_notes, Date.now());
}

/** The link; null without a number that has WhatsApp. */
export function chatWithRider(delivery_phone: string | null | undefined, text: string): string | null {
  const phone = normalisePhone(delivery_phone ?? '');
  return phone && chatTo(phone, text);
}

/** The link; null without a rider whose number has WhatsApp, or without the customer's data. */
export function jobChat(
  order: Order,
  delivery: { delivery_phone: string | null; delivery_notes: string | null },
): string | null {
  const text = jobText(order, delivery);
  return text && chatWithRider(delivery.delivery_phone, text);
}
