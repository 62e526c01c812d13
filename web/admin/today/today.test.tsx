// The queue of the day: four taps lead an order from paid to delivered.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import {
  changeOrder,
  type Order,
  placeAssignedOrder,
  placePaidOrder,
  readOrder,
} from '../../../e2e/placed-orders.ts';
import { asOwner, callAsStaff } from '../../../e2e/staff-member.ts';
import { interceptNext, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const messages = async () => within(await screen.findByRole('region', { name: /Messages/ }));
/** Waits until the order's card is in a group of the queue. */
const cardIn = async (group: RegExp, { order_number }: Order) => {
  const section = within(await screen.findByRole('region', { name: group }));
  const link = await section.findByRole('link', { name: order_number });
  return within(link.closest('li') as HTMLElement);
};
const press = async (opened: OpenScreen, card: ReturnType<typeof within>, name: string, order: Order) =>
  opened.press(await card.findByRole('button', { name: `${name} ${order.order_number}` }));
const deliveryOf = async ({ id }: Order) =>
  (
    await readRows<{ id: string; delivery_status: string; taken_by: string | null; ready_at: string | null }>(
      `deliveries?order_id=eq.${id}`,
    )
  )[0];

test.each(['phone', 'desktop'] as const)('four taps lead from paid to delivered, on a %s', async (on) => {
  await placeAssignedOrder(shop, 'Knows a rider');
  const order = await placePaidOrder(shop, 'Four Taps');
  await changeOrder(shop, order.id, { delivery_notes: 'Allergic to hibiscus!' });
  const opened = await openScreen('/admin/today', { on });

  const card = await cardIn(/^To prepare/, order);
  expect(card.getByText(/^1 × Mango/)).toBeTruthy();
  card.getByText('Allergic to hibiscus!');
  card.getByText(/^(59 min|1 h) left$/);
  await press(opened, card, 'Prepare', order);
  await card.findByText('You have it');
  await press(opened, card, 'Ready', order);
  const ready = await cardIn(/^Ready/, order);
  await press(opened, ready, 'Hand over to Joseph', order);
  const away = await cardIn(/^On the way/, order);
  expect(away.getByText('Joseph Otieno')).toBeTruthy();
  await press(opened, away, 'Delivered', order);
  await waitFor(() => expect(screen.queryByRole('link', { name: order.order_number })).toBeNull());
  expect((await readOrder(shop, order.id)).status).toBe('delivered');
  expect(await deliveryOf(order)).toMatchObject({
    delivery_status: 'delivered',
    taken_by: opened.account.email,
  });
});

test('a step is undone by the offer beside it', async () => {
  const order = await placePaidOrder(shop, 'Too Soon');
  const opened = await openScreen('/admin/today');
  await press(opened, await cardIn(/^To prepare/, order), 'Prepare', order);
  await press(opened, await cardIn(/^To prepare/, order), 'Ready', order);
  await cardIn(/^Ready/, order);
  await opened.press(
    await screen.findByRole('button', { name: new RegExp(`^Undo ${order.order_number}: Ready`) }),
  );
  await (await messages()).findByText(`${order.order_number} is Being prepared again.`);
  const card = await cardIn(/^To prepare/, order);
  await press(opened, card, 'Give back', order);
  await card.findByRole('button', { name: `Prepare ${order.order_number}` });
  expect(await deliveryOf(order)).toMatchObject({ taken_by: null, ready_at: null });
});

test('a delivery that fails needs attention, and is sent again', async () => {
  const order = await placeAssignedOrder(shop, 'Nobody There');
  const opened = await openScreen('/admin/today');
  await press(opened, await cardIn(/^To prepare/, order), 'Prepare', order);
  await press(opened, await cardIn(/^To prepare/, order), 'Ready', order);
  await press(opened, await cardIn(/^Ready/, order), 'Hand over to Joseph', order);
  await press(opened, await cardIn(/^On the way/, order), 'Failed', order);
  const question = within(await screen.findByRole('dialog'));
  question.getByText(`Why did the delivery of ${order.order_number} fail?`);
  await opened.press(question.getByRole('button', { name: 'Nobody was there' }));
  (await cardIn(/^Needs attention/, order)).getByText('Nobody was there');
  await press(opened, await cardIn(/^Needs attention/, order), 'Send again', order);
  await cardIn(/^Ready/, order);
  expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'assigned', failures: 1 });
});

test('whoever is second is told who was first', async () => {
  const order = await placePaidOrder(shop, 'Both Want It');
  const opened = await openScreen('/admin/today', { expected: /409|could not be moved/ });
  const delivery = await deliveryOf(order);
  interceptNext('rpc/move_on', async (send) => {
    await callAsStaff(shop, 'move_on', {
      delivery_id: delivery?.id,
      expected_step: 'prepare',
      step: 'preparing',
    });
    return send();
  });
  const card = await cardIn(/^To prepare/, order);
  await press(opened, card, 'Prepare', order);
  await (await messages()).findByText(new RegExp(`^\\S+ has just changed ${order.order_number}\\. `));
  const first = (await deliveryOf(order))?.taken_by as string;
  expect(first).not.toBe(opened.account.email);
  await card.findByText(`${first.split('@')[0]} has it`);
});

test('a new paid order appears by itself, and opens above the queue', async () => {
  const opened = await openScreen('/admin/today');
  const order = await placePaidOrder(shop, 'Comes By Itself');
  const card = await cardIn(/^To prepare/, order);
  await opened.user.click(card.getByRole('link', { name: order.order_number }));
  const dialog = within(await screen.findByRole('dialog'));
  await dialog.findAllByText('Comes By Itself');
  expect(opened.address()).toBe(`/admin/today/${order.id}`);
  await opened.user.keyboard('{Escape}');
  await waitFor(() => expect(opened.address()).toBe('/admin/today'));
});

test('what waits elsewhere is counted, and leads there', async () => {
  await asOwner(shop, '/rest/v1/inquiries', 'POST', {
    name: 'Waiting',
    email: 'w@mail.example',
    message: 'Do you deliver to Karen?',
  });
  await openScreen('/admin/today');
  const attention = within(await screen.findByRole('region', { name: /^Needs attention/ }));
  const link = await attention.findByRole('link', { name: /^\d+ unread inquir/ });
  expect(link.getAttribute('href')).toBe('/admin/inquiries');
});
