// Riders for stories: on the list, with a link to their page, and what became of their deliveries.
import { randomInt } from 'node:crypto';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../scripts/tests/open-shop.ts';
import { type Order, placePaidOrder } from './placed-orders.ts';
import { asOwner, type Shop } from './staff-member.ts';

export interface Rider {
  id: string;
  name: string;
  phone: string;
}
interface Delivery {
  id: string;
  delivery_status: string;
  delivery_person: string | null;
  proof_code: string;
  wrong_codes: number;
  failure_reason: string | null;
  pickup_time: string | null;
}

export const newPhone = () => `07${String(randomInt(100_000_000)).padStart(8, '0')}`;

async function readAs<Answer>(answer: Response): Promise<Answer> {
  const text = await answer.text();
  return (text ? JSON.parse(text) : null) as Answer;
}

/** Calls a procedure with the secret key. */
export const call = async <Answer>(shop: Shop, procedure: string, given: Record<string, unknown>) =>
  readAs<Answer>(await asOwner(shop, `/rest/v1/rpc/${procedure}`, 'POST', given));

export const readRows = async <Row>(shop: Shop, rows: string) =>
  readAs<Row[]>(await asOwner(shop, `/rest/v1/${rows}`, 'GET'));

export const addRider = (shop: Shop, name: string) =>
  call<Rider>(shop, 'save_rider', { name, phone: newPhone(), vehicle: 'Motorbike', plate: 'KMDA 123B' });

/** Opens a link, which ends the one that the rider had. */
export const openLinkOf = async (shop: Shop, { id }: Rider) =>
  `${shop.url}/ride/${(await call<{ secret: string }>(shop, 'open_rider_link', { rider_id: id })).secret}`;

export async function deliveryOf(shop: Shop, { id }: Pick<Order, 'id'>): Promise<Delivery> {
  const [delivery] = await readRows<Delivery>(shop, `deliveries?order_id=eq.${id}`);
  return delivery ?? expect.fail('no delivery');
}

export const assignTo = (shop: Shop, { id }: Order, { name, phone }: Rider) =>
  asOwner(shop, `/rest/v1/deliveries?order_id=eq.${id}`, 'PATCH', {
    delivery_status: 'assigned',
    delivery_person: name,
    delivery_phone: phone,
    delivery_vehicle: 'Motorbike',
  });

/** A rider with a link and a paid order. */
export async function giveJob(shop: Shop, customer: string, phone?: string) {
  const rider = await addRider(shop, `Rider ${randomInt(1_000_000)}`);
  const order = await placePaidOrder(shop, customer, phone);
  await assignTo(shop, order, rider);
  const { proof_code } = await deliveryOf(shop, order);
  return { rider, order, url: await openLinkOf(shop, rider), code: proof_code };
}

export const isDelivery = (shop: Shop, order: Pick<Order, 'id'>, status: string) =>
  until(async () => (await deliveryOf(shop, order)).delivery_status === status, `the delivery is ${status}`);

/** The steps of a delivery, with who took each. */
export const stepsOf = async (shop: Shop, { id }: Pick<Order, 'id'>) =>
  (
    await readRows<{ actor: string; details: { to: string } }>(
      shop,
      `order_events?order_id=eq.${id}&kind=eq.delivery_status_changed&order=id&select=actor,details`,
    )
  ).map(({ actor, details }) => `${actor} ${details.to}`);

export const wrongCode = (code: string) => String((Number(code) + 1) % 10_000).padStart(4, '0');

/** The card of an order on the page of its rider. */
export const jobOn = (page: Page, { order_number }: Pick<Order, 'order_number'>) =>
  page.getByRole('article').filter({ hasText: order_number });

/** Waits until the page of a rider can be opened without a network. */
export const isStored = (page: Page) =>
  until(
    () => page.evaluate(async () => (await caches.match(location.pathname)) !== undefined),
    'the page of the rider is stored',
  );
