// An opened order: what is needed first comes first, on a phone and on a desk, and nothing of it is lost.
import { type queries, screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import {
  changeOrder,
  type Order,
  placeAssignedOrder,
  placeOrder,
  placePaidOrder,
  readOrder,
} from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { dialogOf, handOver, openScreen, shop } from '../../testing/staff-screens.tsx';

type Dialog = ReturnType<typeof within<typeof queries>>;

/** The titles of the parts, in the order in which the keyboard and screen readers meet them. */
const partsIn = (dialog: Dialog) =>
  dialog.getAllByRole('heading', { level: 3 }).map(({ textContent }) => textContent);
const pay = (order: Order, more: object) =>
  asOwner(shop, '/rest/v1/payments', 'POST', {
    order_id: order.id,
    phone: '+254711030101',
    charge_cents: order.total_amount,
    ...more,
  });

test.each([
  ['phone', ['Items', 'Customer', 'Payments', 'Delivery', 'Tracking and print', 'Timeline']],
  ['desktop', ['Items', 'Payments', 'Timeline', 'Customer', 'Delivery', 'Tracking and print']],
] as const)('an order on a %s begins with what to pack', async (on, parts) => {
  const order = await placeOrder(shop, `Parts ${on}`, '0711030101', { quantity: 2 });
  await changeOrder(shop, order.id, { delivery_notes: 'Allergic to hibiscus!' });
  await openScreen(`/admin/orders/${order.id}`, { on });
  const dialog = await dialogOf(order);
  expect(partsIn(dialog)).toEqual(parts);
  const items = within(dialog.getByRole('region', { name: 'Items' }));
  items.getByText('2 × Mango');
  items.getByText('Embu Fresh');
  items.getByText('Allergic to hibiscus!');
  const customer = within(dialog.getByRole('region', { name: 'Customer' }));
  expect(customer.getAllByRole('link').map(({ textContent }) => textContent)).toEqual([
    'Westlands (opens a map in a new tab)',
    expect.stringMatching(/^(First|\d+\w\w\+?) order: the customer$/),
    `Call Parts ${on}`,
    `WhatsApp Parts ${on}`,
    'Mail 0711030101@mail.example',
  ]);
});

test.each(['phone', 'desktop'] as const)('an order moves on from its own dialog, on a %s', async (on) => {
  await placeAssignedOrder(shop, 'Knows a rider');
  const order = await placePaidOrder(shop, `Moves ${on}`);
  const opened = await openScreen(`/admin/orders/${order.id}`, { on });
  const dialog = await dialogOf(order);
  const press = async (name: string) =>
    opened.press(await dialog.findByRole('button', { name: `${name} ${order.order_number}` }));
  const delivery = within(dialog.getByRole('region', { name: 'Delivery' }));
  delivery.getByText(/^(\d+ min|1 h) left$/);
  delivery.getByText('Not assigned');
  await press('Prepare');
  await delivery.findByText('You have it');
  await press('Ready');
  await delivery.findByText('Packed');
  const toRider = await dialog.findByRole('button', { name: handOver(order) });
  const rider = /^Hand over to (\S+)/.exec(toRider.textContent ?? '')?.[1];
  await opened.press(toRider);
  await delivery.findByText(new RegExp(`^${rider}\\b`));
  await press('Delivered');
  await waitFor(async () => expect((await readOrder(shop, order.id)).status).toBe('delivered'));
  // Delivered: nothing is left to do, and any other status is still behind the menu.
  await waitFor(() => expect(dialog.queryByRole('button', { name: /^Delivered ORD/ })).toBeNull());
  dialog.getByRole('button', { name: `Set the status of ${order.order_number}: Delivered` });
});

test('an order that is collected offers no rider', async () => {
  const { id, total_amount } = await placePaidOrder(shop, 'Comes along');
  await changeOrder(shop, id, { is_collected: true, delivery_fee: 0, total_amount: total_amount - 100 });
  const order = await readOrder(shop, id);
  const opened = await openScreen(`/admin/orders/${id}`);
  const dialog = await dialogOf(order);
  await opened.press(await dialog.findByRole('button', { name: `Prepare ${order.order_number}` }));
  await dialog.findByRole('button', { name: `Ready ${order.order_number}` });
  await opened.press(dialog.getByRole('button', { name: `More for ${order.order_number}` }));
  await screen.findByRole('menuitem', { name: 'Give back' });
  expect(screen.queryByRole('menuitem', { name: /rider/ })).toBeNull();
  expect(dialog.queryByRole('button', { name: 'Assign a rider' })).toBeNull();
  await opened.user.keyboard('{Escape}');
  await opened.press(dialog.getByRole('button', { name: `Ready ${order.order_number}` }));
  await dialog.findByRole('button', { name: `Handed over ${order.order_number}` });
  expect(dialog.queryByRole('button', { name: `More for ${order.order_number}` })).toBeNull();
});

test.each(['phone', 'desktop'] as const)(
  'rider and failure of a delivery are changed in its order, on a %s',
  async (on) => {
    const order = await placeAssignedOrder(shop, `On its way ${on}`);
    await changeOrder(shop, order.id, { status: 'out_for_delivery' });
    await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
      delivery_status: 'in_transit',
    });
    const opened = await openScreen(`/admin/orders/${order.id}`, { on });
    const dialog = await dialogOf(order);
    const choose = async (name: string) => {
      await opened.press(await dialog.findByRole('button', { name: `More for ${order.order_number}` }));
      await opened.press(await screen.findByRole('menuitem', { name }));
    };
    await choose('Other rider');
    const assignment = within(await screen.findByRole('dialog', { name: 'Edit Assignment' }));
    const person = await assignment.findByRole('textbox', { name: /^Delivery Person/ });
    await opened.user.clear(person);
    await opened.user.type(person, 'Amina Yusuf');
    await opened.press(assignment.getByRole('button', { name: 'Save Assignment' }));
    await (await dialogOf(order)).findByText('Amina Yusuf');
    expect(opened.address()).toBe(`/admin/orders/${order.id}`);

    await choose('Could not deliver');
    const question = within(
      await screen.findByRole('dialog', { name: `Why did the delivery of ${order.order_number} fail?` }),
    );
    await opened.press(question.getByRole('button', { name: 'Nobody was there' }));
    await within(dialog.getByRole('region', { name: 'Delivery' })).findByText(/^Nobody was there/);
    await dialog.findByRole('button', { name: `Send again ${order.order_number}` });
  },
);

test('a rider is assigned without leaving the order', async () => {
  const order = await placePaidOrder(shop, 'Assigned here');
  const opened = await openScreen(`/admin/orders/${order.id}`);
  await opened.press(await (await dialogOf(order)).findByRole('button', { name: 'Assign a rider' }));
  const assignment = within(await screen.findByRole('dialog', { name: 'Assign Delivery' }));
  const fill = async (name: RegExp, text: string) =>
    opened.user.type(await assignment.findByRole('textbox', { name }), text);
  await fill(/^Delivery Person/, 'Amina Yusuf');
  await fill(/^Phone Number/, '0722 555 111');
  await fill(/^Vehicle/, 'Motorbike');
  await opened.press(assignment.getByRole('button', { name: 'Assign Delivery' }));
  await (await dialogOf(order)).findByText('Amina Yusuf');
  expect(opened.address()).toBe(`/admin/orders/${order.id}`);
});

test('a failed delivery comes first until it is sent again', async () => {
  const order = await placeAssignedOrder(shop, 'Fails once');
  await changeOrder(shop, order.id, { status: 'out_for_delivery' });
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    delivery_status: 'in_transit',
  });
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    delivery_status: 'failed',
    failure_reason: 'nobody_there',
  });
  const opened = await openScreen(`/admin/orders/${order.id}`, { on: 'phone' });
  const dialog = await dialogOf(order);
  // What went wrong comes before what was packed.
  expect(partsIn(dialog).slice(0, 2)).toEqual(['Delivery', 'Items']);
  within(dialog.getByRole('region', { name: 'Delivery' })).getByText(/^Nobody was there/);
  await opened.press(await dialog.findByRole('button', { name: `Send again ${order.order_number}` }));
  await dialog.findByRole('button', { name: `Hand over to Joseph ${order.order_number}` });
  expect(partsIn(dialog)[0]).toBe('Items');
});

test('a payment is one line, with the failed tries behind it', async () => {
  const order = await placePaidOrder(shop, 'One Line');
  const receipt = `UK${String(Date.now()).slice(-8)}`;
  await pay(order, { status: 'failed', result_code: '1032' });
  await pay(order, { status: 'completed', receipt, completed_at: new Date().toISOString() });
  await openScreen(`/admin/orders/${order.id}`, { on: 'phone' });
  const payments = within((await dialogOf(order)).getByRole('region', { name: 'Payments' }));
  const line = await payments.findByText(new RegExp(`^KES [\\d,]+, ${receipt}, `));
  expect(line.closest('details')?.open).toBe(false);
  payments.getByText(/^Payment was cancelled/);
  expect(payments.queryByRole('button', { name: 'Confirm till payment' })).toBeNull();
});

test('a second payment comes first and is open until it is sent back', async () => {
  const order = await placePaidOrder(shop, 'Paid Twice');
  const [own, second] = [0, 1].map((index) => `UK${index}${String(Date.now()).slice(-7)}`);
  await pay(order, { status: 'completed', receipt: own, completed_at: new Date().toISOString() });
  await pay(order, {
    status: 'completed',
    receipt: second,
    needs_refund: true,
    completed_at: new Date(Date.now() - 60_000).toISOString(),
  });
  await openScreen(`/admin/orders/${order.id}`, { on: 'phone' });
  const dialog = await dialogOf(order);
  expect(partsIn(dialog)[0]).toBe('Payments');
  const payments = within(dialog.getByRole('region', { name: 'Payments' }));
  const [first] = payments.getAllByRole('listitem');
  expect(first?.textContent).toContain(second);
  expect(first?.closest('details')?.open).toBe(true);
  await within(first as HTMLElement).findByRole('button', { name: 'I already refunded it' });
});

test('mail and text of one event are one line of the timeline, with a link to each', async () => {
  const order = await placePaidOrder(shop, 'One Event');
  const add = async (channel: 'mail' | 'text', columns: object): Promise<string> => {
    const answer = await asOwner(shop, '/rest/v1/outbox_messages', 'POST', {
      order_id: order.id,
      kind: 'order_received',
      channel,
      recipient: channel === 'mail' ? 'amina@example.com' : '+254711030101',
      order_number: order.order_number,
      tracking_number: order.tracking_number,
      customer_name: 'One Event',
      next_attempt_at: null,
      ...columns,
    });
    return ((await answer.json()) as [{ id: string }])[0].id;
  };
  const mail = await add('mail', { status: 'sent', sent_at: new Date().toISOString() });
  const text = await add('text', { status: 'failed', problem: '550 no such number' });
  await openScreen(`/admin/orders/${order.id}`);
  const timeline = within((await dialogOf(order)).getByRole('region', { name: 'Timeline' }));
  const title = await timeline.findByText('Order received: mail sent, text failed');
  const line = within(title.closest('li') as HTMLElement);
  expect(line.getAllByRole('link').map((link) => [link.textContent, link.getAttribute('href')])).toEqual([
    ['Mail to amina@example.com', `/admin/messages?view=${mail}`],
    ['Text to 0711 030 101', `/admin/messages?view=${text}`],
  ]);
  line.getByText(/: 550 no such number$/);
});
