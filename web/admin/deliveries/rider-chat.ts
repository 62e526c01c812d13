// The job of a delivery as a message to its rider on WhatsApp.
import { chargeCents } from '../../../domain/money.ts';
import { normalisePhone } from '../../../domain/phone.ts';
import { describeJob } from '../../../domain/rider-job.ts';
import { chatTo } from '../ui/contact-link.tsx';

type Order = Parameters<typeof describeJob>[0] & {
  payment_status: string;
  total_amount: number;
  anonymised_at: string | null;
};

/** The link; null without a rider whose number has WhatsApp, or without the customer's data. */
export function jobChat(
  order: Order,
  delivery: { delivery_phone: string | null; delivery_notes: string | null },
): string | null {
  const phone = normalisePhone(delivery.delivery_phone ?? '');
  if (!phone || order.anonymised_at) return null;
  const cash = order.payment_status === 'unpaid' ? chargeCents(order.total_amount) : null;
  return chatTo(phone, describeJob(order, cash, delivery.delivery_notes));
}
