// The words of a job, for a chat with its rider.
import { formatKsh } from './money.ts';
import { formatPhone } from './phone.ts';

interface Job {
  order_number: string;
  customer_name: string;
  customer_phone: string;
  shipping_address: string;
  city: string;
  delivery_notes: string | null;
  order_items: readonly { quantity: number; product_name: string }[];
}

/**
 * @param cashCents to be collected at the door; null for a paid order
 * @param instructions of staff for this delivery
 */
export function describeJob(order: Job, cashCents: number | null, instructions: string | null): string {
  const place = `${order.shipping_address}, ${order.city}`;
  return [
    `${order.order_number} for ${order.customer_name}, ${formatPhone(order.customer_phone)}`,
    place,
    ...order.order_items.map(({ quantity, product_name }) => `${quantity} x ${product_name}`),
    ...[order.delivery_notes, instructions].flatMap((text) => (text ? [`Note: ${text}`] : [])),
    cashCents === null ? 'PAID' : `Collect ${formatKsh(cashCents)} in cash`,
    `https://www.google.com/maps/search/?api=1&query=${encodeURIComponent(`${place}, Kenya`)}`,
  ].join('\n');
}
