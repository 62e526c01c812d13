// Orders for the component tests.
import { randomUUID } from 'node:crypto';
import { asOwner } from '../../e2e/staff-member.ts';
import { readRows, shop } from './staff-screens.tsx';

export interface Order {
  id: string;
  order_number: string;
  status: string;
  payment_status: string;
}

export async function readOrder(id: string): Promise<Order> {
  const [order] = await readRows<Order>(`orders?id=eq.${id}`);
  if (!order) throw new Error('there is no such order');
  return order;
}

export async function changeOrder(id: string, columns: Record<string, unknown>): Promise<void> {
  await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'PATCH', columns);
}

export async function placeOrder(name: string, customerPhone = '0711030101'): Promise<Order> {
  const [product] = await readRows<{ id: string; price: number }>('products?slug=eq.mango-bottle');
  await asOwner(shop, `/rest/v1/products?id=eq.${product?.id}`, 'PATCH', { stock_quantity: 500 });
  const placed = await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
    idempotency_key: randomUUID(),
    product_id: product?.id,
    quantity: 1,
    customer_name: name,
    customer_email: 'amina@mail.example',
    customer_phone: customerPhone,
    delivery_location: 'Westlands',
    expected_total: (product?.price ?? 0) + 100,
  });
  return readOrder(((await placed.json()) as { id: string }).id);
}

/** A paid order with its delivery, as a payment leaves it. */
export async function placePaidOrder(name: string, customerPhone?: string): Promise<Order> {
  const { id } = await placeOrder(name, customerPhone);
  await changeOrder(id, { payment_status: 'paid', status: 'processing', reserved_until: null });
  await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: id });
  return readOrder(id);
}
