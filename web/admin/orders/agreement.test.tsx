// Orders outside the promise: staff agree on fee and day. Cash that a rider brought is the amount that staff count.
import { screen, waitFor } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { changeOrder, type Order, placeOrder, readOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { dialogOf, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';
import { dayAfter } from '../ui/time/nairobi-day.ts';

interface Agreed {
  delivery_fee: number;
  delivery_day: string | null;
  awaits_agreement: boolean;
}
const agreedOf = async ({ id }: Order) =>
  (await readRows<Agreed>(`orders?id=eq.${id}&select=delivery_fee,delivery_day,awaits_agreement`))[0];
async function placeOutside(name: string): Promise<Order> {
  const [area] = await readRows<{ id: string }>('delivery_areas?name=eq.Outside%20Nairobi');
  const [drink] = await readRows<{ price: number }>('products?slug=eq.mango-bottle');
  return placeOrder(shop, name, '0711030177', {
    area_id: area?.id,
    delivery_location: 'Nakuru',
    expected_total: drink?.price,
  });
}

test.each(['phone', 'desktop'] as const)(
  'staff agree on fee and day, each error beside its field, and change the day, on a %s',
  async (on) => {
    const order = await placeOutside(`Upcountry ${on}`);
    const opened = await openScreen(`/admin/orders/${order.id}`, { on });
    const dialog = await dialogOf(order);
    await dialog.findByText('Agree on fee and day with the customer');
    expect(dialog.queryByRole('button', { name: 'Receive cash' }), 'not to be paid yet').toBeNull();
    const save = dialog.getByRole('button', { name: 'Agreed: let them pay' });
    await opened.press(save);
    await dialog.findByText('A fee is whole shillings. 0 means free');
    dialog.getByText('A day from today to 60 days on');
    await waitFor(() => expect(document.activeElement?.getAttribute('name')).toBe('fee'));
    await opened.fill(dialog.getByLabelText(/^Delivery fee/), '650');
    await opened.press(save);
    await waitFor(() => expect(document.activeElement?.getAttribute('name')).toBe('day'));
    const day = dayAfter(nairobiDay(Date.now()), 3);
    await opened.fill(dialog.getByLabelText(/^Day of delivery/), day);
    await opened.press(save);
    await dialog.findByText('Agreed for', { exact: false });
    expect(await agreedOf(order)).toEqual({
      delivery_fee: 65_000,
      delivery_day: day,
      awaits_agreement: false,
    });
    await dialog.findByRole('button', { name: 'Receive cash' });

    await opened.press(dialog.getByRole('button', { name: 'Change' }));
    expect(dialog.getByLabelText<HTMLInputElement>(/^Delivery fee/).value).toBe('650');
    const later = dayAfter(day, 1);
    await opened.fill(dialog.getByLabelText(/^Day of delivery/), later);
    await opened.press(dialog.getByRole('button', { name: 'Save' }));
    await waitFor(async () =>
      expect(await agreedOf(order)).toMatchObject({ delivery_fee: 65_000, delivery_day: later }),
    );
  },
);

test('a day that is agreed for a paid order does not say that the customer can pay', async () => {
  const order = await placeOutside('Upcountry paid');
  await changeOrder(shop, order.id, { payment_status: 'paid', status: 'processing', reserved_until: null });
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const dialog = await dialogOf(order);
  await dialog.findByText(/It is paid already, so its fee stays/);
  await opened.fill(dialog.getByLabelText(/^Day of delivery/), dayAfter(nairobiDay(Date.now()), 3));
  await opened.press(dialog.getByRole('button', { name: 'Agreed' }));
  await screen.findByText(`Agreed: ${order.order_number} is paid already`);
  expect(await agreedOf(order)).toMatchObject({ awaits_agreement: false });
});

test('an order to agree on is counted on Today, and leads to the order', async () => {
  const order = await placeOutside('Waits for a call');
  const opened = await openScreen('/admin/today');
  const link = await screen.findByRole('link', { name: /orders? to agree fee and day for$/ });
  expect(link.getAttribute('href')).toMatch(/^\/admin\/today\/[0-9a-f-]{36}$/);
  await opened.user.click(link);
  // Another test may have placed one later.
  await screen.findByText('Agree on fee and day with the customer');
  expect(await agreedOf(order)).toMatchObject({ awaits_agreement: true });
});

test('the amount that a rider got at the door is filled in, beside what the order costs', async () => {
  const order = await placeOrder(shop, 'Cash at the door', '0711030178');
  await asOwner(shop, '/rest/v1/rpc/agree_cash', 'POST', { order_id: order.id });
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    delivery_person: 'Joseph Otieno',
    delivery_phone: '0722 123 456',
    delivery_vehicle: 'KMFA 123B',
    delivery_status: 'in_transit',
  });
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', { collected_cents: 100_000 });
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const dialog = await dialogOf(order);
  await opened.press(await dialog.findByRole('button', { name: 'Receive cash' }));
  const amount = await dialog.findByLabelText<HTMLInputElement>(/^Cash received/);
  expect(amount.value).toBe('1000');
  dialog.getByText('The order costs KES 951. The rider got KES 1,000.');
  await opened.user.click(dialog.getByRole('radio', { name: 'A tip' }));
  await opened.press(dialog.getByRole('button', { name: /^Cash received|^Receive|^Note/ }));
  await waitFor(async () => expect((await readOrder(shop, order.id)).payment_status).toBe('paid'));
});
