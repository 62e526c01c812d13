// The rider of a delivery gets its job on WhatsApp with one press, and staff finish a delivery whose code was typed wrong.
import { screen, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { placePaidOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { dialogOf, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

/** A rider's name and phone that no other test has. */
function newRider() {
  const id = crypto.randomUUID().slice(0, 6);
  return {
    name: `Wanja-${id}`,
    phone: `0711${String(Number.parseInt(id, 16) % 1_000_000).padStart(6, '0')}`,
  };
}
async function fillIn(
  { user }: OpenScreen,
  dialog: ReturnType<typeof within>,
  rider: { name: string; phone: string },
) {
  await user.type(await dialog.findByRole('textbox', { name: /^Delivery Person/ }), `${rider.name} Otieno`);
  await user.type(dialog.getByRole('textbox', { name: /^Phone Number/ }), rider.phone);
  await user.type(dialog.getByRole('textbox', { name: /^Vehicle/ }), 'Bike');
}
const textOf = (link: HTMLElement) => new URL((link as HTMLAnchorElement).href).searchParams.get('text');

test.each(['phone', 'desktop'] as const)(
  'the job of a delivery goes to its rider when it is assigned, and from the list, on a %s',
  async (on) => {
    const rider = newRider();
    const order = await placePaidOrder(shop, `Job ${rider.name}`);
    const opened = await openScreen(`/admin/deliveries?search=${order.order_number}`, { on });
    await opened.press(await screen.findByRole('button', { name: `Assign ${order.order_number}` }));
    const dialog = within(await screen.findByRole('dialog', { name: 'Assign Delivery' }));
    await fillIn(opened, dialog, rider);
    await opened.press(dialog.getByRole('button', { name: 'Assign Delivery' }));
    const offer = await screen.findByRole('link', { name: `WhatsApp the job to ${rider.name}` });
    const text = textOf(offer);
    expect(offer.getAttribute('href')).toMatch(new RegExp(`^https://wa\\.me/254${rider.phone.slice(1)}\\?`));
    expect(text).toContain(`${order.order_number} for Job ${rider.name}`);
    const inRow = await screen.findByRole('link', {
      name: `WhatsApp ${order.order_number} to ${rider.name} Otieno`,
    });
    expect(textOf(inRow)).toBe(text);
  },
);

test('many deliveries of one rider are one message', async () => {
  const rider = newRider();
  const orders = await Promise.all([1, 2, 3].map(() => placePaidOrder(shop, `Tour ${rider.name}`)));
  const opened = await openScreen(`/admin/orders?search=Tour+${rider.name}`);
  await opened.user.click(await screen.findByLabelText('Select all orders'));
  await opened.press(await screen.findByRole('button', { name: /^Assign 3/ }));
  const dialog = within(await screen.findByRole('dialog', { name: 'Assign 3 orders' }));
  await fillIn(opened, dialog, rider);
  await opened.press(dialog.getByRole('button', { name: 'Assign' }));
  const offer = await screen.findByRole('link', { name: `WhatsApp 3 jobs to ${rider.name}` });
  for (const { order_number } of orders) expect(textOf(offer)).toContain(`${order_number} for`);
});

test('a delivery with five wrong codes is finished by staff with a reason', async () => {
  const rider = newRider();
  const order = await placePaidOrder(shop, `Codes ${rider.name}`);
  const change = (columns: Record<string, unknown>) =>
    asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', columns);
  await change({
    delivery_person: rider.name,
    delivery_phone: rider.phone,
    delivery_vehicle: 'Bike',
    delivery_status: 'in_transit',
  });
  await change({ wrong_codes: 5 });
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const dialog = await dialogOf(order);
  await dialog.findByText('Five wrong codes at the door');
  await opened.press(dialog.getByRole('button', { name: 'Finish without the code' }));
  const confirm = await dialog.findByRole('button', { name: 'Set to delivered' });
  await opened.press(confirm);
  const field = dialog.getByRole('textbox', { name: /^Reason/ });
  expect(field.getAttribute('aria-invalid')).toBe('true');
  await opened.user.type(field, 'She showed the order on her phone');
  await opened.press(confirm);
  await dialog.findByText('“She showed the order on her phone”');
  expect(await readRows(`deliveries?order_id=eq.${order.id}&select=delivery_status,proven_by`)).toEqual([
    { delivery_status: 'delivered', proven_by: 'staff' },
  ]);
});
