// Calls to the attacked shop from chosen addresses, and what customers do there.
import { randomUUID } from 'node:crypto';
import type { AbusedShop } from './abused-shop.ts';
import type { Reply } from './client.ts';

/** Undefined if the rule held, otherwise the problem. */
export type Found = string | undefined;

export interface Rule {
  name: string;
  check(shop: Visit): Promise<Found>;
}

/** Calls to the shop from a given IP address. */
export interface Visit {
  shop: AbusedShop;
  /** Calls a procedure from an address. */
  call(address: string, procedure: string, body: unknown): Promise<Reply>;
  /** The same with the secret key. */
  own(method: string, path: string, body?: unknown): Promise<Reply>;
  post(address: string, path: string, body: unknown): Promise<Reply>;
  /** Opens a page. */
  open(address: string, path: string): Promise<Reply>;
  /** Reads with another token than the publishable key. */
  readWith(token: string, path: string): Promise<Reply>;
}

export interface Placed {
  id: string;
  tracking_number: string;
  access_key: string;
  total_amount: number;
}

let orders = 0;
export async function place(
  visit: Visit,
  address: string,
  phone: string,
  product = visit.shop.product,
  quantity = 1,
) {
  orders += 1;
  const price = product.total - 100;
  const reply = await visit.call(address, 'place_order', {
    idempotency_key: randomUUID(),
    product_id: product.id,
    quantity,
    customer_name: 'Amina Kamau',
    customer_email: `amina${orders}@example.com`,
    customer_phone: phone,
    delivery_location: 'Westlands',
    expected_total: price * quantity + 100,
  });
  return { reply, order: reply.status === 200 ? (JSON.parse(reply.body) as Placed) : null };
}

export const initiate = (visit: Visit, address: string, order: Partial<Placed>, phone: string) =>
  visit.post(address, '/functions/v1/mobile-money', {
    action: 'initiate',
    phoneNumber: phone,
    amount: order.total_amount,
    trackingNumber: order.tracking_number,
    orderId: order.id,
  });
