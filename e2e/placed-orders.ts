// Orders for stories and component tests of the staff screens, placed with the secret key.
import { randomUUID } from 'node:crypto';
import { asOwner, type Shop } from './staff-member.ts';

export interface Order {
  id: string;
  order_number: string;
  tracking_number: string;
  status: string;
  payment_status: string;
  total_amount: number;
}

const readFirst = async <Row>(shop: Shop, query: string): Promise<Row | undefined> =>
  ((await (await asOwner(shop, `/rest/v1/${query}`, 'GET')).json()) as Row[])[0];

export async function readOrder(shop: Shop, id: string): Promise<Order> {
  const order = await readFirst<Order>(shop, `orders?id=eq.${id}`);
  if (!order) throw new Error('there is no such order');
  return order;
}

export async function changeOrder(shop: Shop, id: string, columns: Record<string, unknown>): Promise<void> {
  await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'PATCH', columns);
}

/**
 * Orders mango bottles as a customer.
 * @param more further arguments of `place_order`
 */
export async function placeOrder(
  shop: Shop,
  name: string,
  customerPhone = '0711030101',
  { quantity = 1, ...more }: { quantity?: number; [argument: string]: unknown } = {},
): Promise<Order> {
  const product = await readFirst<{ id: string; price: number }>(shop, 'products?slug=eq.mango-bottle');
  await asOwner(shop, `/rest/v1/products?id=eq.${product?.id}`, 'PATCH', { stock_quantity: 500 });
  const placed = await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
    idempotency_key: randomUUID(),
    product_id: product?.id,
    quantity,
    customer_name: name,
    customer_email: `${customerPhone}@mail.example`,
    customer_phone: customerPhone,
    delivery_location: 'Westlands',
    expected_total: (product?.price ?? 0) * quantity + 100,
    ...more,
  });
  return readOrder(shop, ((await placed.json()) as { id: string }).id);
}

/** Places an order and pays it, which creates its delivery. */
export async function placePaidOrder(shop: Shop, name: string, customerPhone?: string): Promise<Order> {
  const { id } = await placeOrder(shop, name, customerPhone);
  await changeOrder(shop, id, { payment_status: 'paid', status: 'processing', reserved_until: null });
  await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: id });
  return readOrder(shop, id);
}

/** Places an order, pays it and assigns its delivery to a rider: it can be shipped without a question. */
export async function placeAssignedOrder(shop: Shop, name: string, customerPhone?: string): Promise<Order> {
  const { id } = await placePaidOrder(shop, name, customerPhone);
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${id}`, 'PATCH', {
    delivery_status: 'assigned',
    delivery_person: 'Joseph Otieno',
    delivery_phone: '0722 123 456',
    delivery_vehicle: 'KMFA 123B',
  });
  return readOrder(shop, id);
}
