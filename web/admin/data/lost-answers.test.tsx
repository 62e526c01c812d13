// Writes of staff whose answer is lost: the screen recognises its own change, and loads again what it could not load.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { placeAssignedOrder, placePaidOrder, readOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { interceptNext, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const arrived = () => screen.findByText(/^Saved\. The connection broke/);
const blames = () => screen.queryByText(/Someone else|nothing of yours|Nothing of yours|yourself/);
const lose = (part: string) =>
  interceptNext(part, async (send) => {
    await send();
    throw new TypeError('Failed to fetch');
  });
test('an assignment whose answer is lost is saved, and the dialog closes', async () => {
  const { id } = await placePaidOrder(shop, 'Lost assignment');
  const opened = await openScreen('/admin/deliveries?search=Lost+assignment');
  await opened.press(await screen.findByRole('button', { name: /^Assign/ }));
  const dialog = within(await screen.findByRole('dialog'));
  await opened.fill(await dialog.findByLabelText(/^Delivery Person/), 'Njeri');
  await opened.fill(dialog.getByLabelText(/^Phone Number/), '0722 000 333');
  await opened.fill(dialog.getByLabelText(/^Vehicle Information/), 'Motorbike');
  lose('rpc/assign_delivery');
  await opened.press(dialog.getByRole('button', { name: 'Assign Delivery' }));
  await arrived();
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  expect(blames()).toBeNull();
  expect(await readRows(`deliveries?order_id=eq.${id}&select=delivery_person,delivery_status`)).toEqual([
    { delivery_person: 'Njeri', delivery_status: 'assigned' },
  ]);
});

test('settings whose answer is lost are saved, and are no conflict', async () => {
  const opened = await openScreen('/admin/settings');
  const field = await screen.findByLabelText<HTMLInputElement>(/^Store Name/i);
  const name = `${field.value} K`;
  await opened.fill(field, name);
  lose('/rest/v1/store_settings');
  await opened.user.click(screen.getByRole('button', { name: /^Save/ }));
  await arrived();
  await waitFor(() =>
    expect(screen.getByRole('button', { name: /^Save/ }).getAttribute('aria-busy')).toBeNull(),
  );
  expect(blames()).toBeNull();
  expect(field.value).toBe(name);
  const [row] = await readRows<{ id: string; store_name: string }>('store_settings?select=*');
  expect(row?.store_name).toBe(name);
  await asOwner(shop, `/rest/v1/store_settings?store_name=eq.${encodeURIComponent(name)}`, 'PATCH', {
    store_name: name.slice(0, -2),
  });
});

test('a write that never reached the shop is sent again', async () => {
  const order = await placeAssignedOrder(shop, 'Sent again');
  const opened = await openScreen('/admin/orders?search=Sent+again');
  interceptNext('rpc/set_order_status', () => Promise.reject(new TypeError('Failed to fetch')));
  await opened.press(
    await screen.findByRole('button', { name: `Status of ${order.order_number}: Processing` }),
  );
  await opened.user.click(await screen.findByRole('menuitemradio', { name: 'Delivered' }));
  await screen.findByText('Order status updated successfully');
  expect((await readOrder(shop, order.id)).status).toBe('delivered');
});

test('a list that could not be loaded is loaded as soon as the shop answers again', async () => {
  const order = await placePaidOrder(shop, 'Outage list');
  const { fetch } = globalThis;
  onTestFinished(() => {
    globalThis.fetch = fetch;
  });
  let isOut = true;
  globalThis.fetch = (input, init) =>
    isOut && /rpc\/search_orders|auth\/v1\/health/.test(String(input instanceof Request ? input.url : input))
      ? Promise.reject(new TypeError('Failed to fetch'))
      : fetch(input, init);
  await openScreen('/admin/orders?search=Outage+list');
  await screen.findByText(/could not be loaded/);
  isOut = false;
  await screen.findAllByText(order.order_number);
  expect(screen.queryByText(/could not be loaded/)).toBeNull();
});
