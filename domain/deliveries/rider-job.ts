// The words of jobs, for a chat with their rider.

import { formatKsh } from '../money.ts';
import { formatPhone } from '../people/phone.ts';
import { formatArrival } from './delivery-promise.ts';

interface Job {
  order_number: string;
  customer_name: string;
  customer_phone: string;
  shipping_address: string;
  city: string;
  area_name: string | null;
  /** Latitude and longitude of the customer's device; null: unknown. */
  map_point: string | null;
  delivery_notes: string | null;
  promised_at: string | null;
  /** The new time after a delay. */
  promised_again_at: string | null;
  order_items: readonly { quantity: number; product_name: string }[];
}

/**
 * @param cashCents to be collected at the door; null for a paid order
 * @param instructions of staff for this delivery
 */
export function describeJob(
  order: Job,
  cashCents: number | null,
  instructions: string | null,
  now: number,
): string {
  const place = `${order.shipping_address}, ${order.city}`;
  const promise = order.promised_again_at ?? order.promised_at;
  return [
    `${order.order_number} for ${order.customer_name}, ${formatPhone(order.customer_phone)}`,
    ...(promise ? [`By ${formatArrival(promise, now)}`] : []),
    place,
    ...(order.area_name && !place.includes(order.area_name) ? [`Area: ${order.area_name}`] : []),
    ...order.order_items.map(({ quantity, product_name }) => `${quantity} x ${product_name}`),
    ...[order.delivery_notes, instructions].flatMap((text) => (text ? [`Note: ${text}`] : [])),
    cashCents === null ? 'PAID' : `Collect ${formatKsh(cashCents)} in cash`,
    `https://www.google.com/maps/search/?api=1&query=${encodeURIComponent(order.map_point ?? `${place}, Kenya`)}`,
  ].join('\n');
}

/** Longest text of one message in characters: its link must fit into an address. */
const mostCharacters = 3000;

/**
 * Joins jobs to as few messages as possible.
 * @returns texts with their number of jobs
 */
export function joinJobs(jobs: readonly string[]): { text: string; jobs: number }[] {
  const messages: { text: string; jobs: number }[] = [];
  for (const job of jobs) {
    const last = messages.at(-1);
    if (last && last.text.length + job.length < mostCharacters) {
      last.text += `\n\n${job}`;
      last.jobs += 1;
    } else messages.push({ text: job, jobs: 1 });
  }
  return messages;
}
