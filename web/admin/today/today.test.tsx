// The queue of the day: four taps lead an order from paid to delivered.
import { randomUUID } from 'node:crypto';
import { fireEvent, screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  changeOrder,
  type Order,
  placeAssignedOrder,
  placeOrder,
  placePaidOrder,
  readOrder,
} from '../../../e2e/placed-orders.ts';
import { asOwner, callAsStaff, makeAccount } from '../../../e2e/staff-member.ts';
import {
  handOver,
  interceptNext,
  type OpenScreen,
  openScreen,
  readRows,
  shop,
} from '../../testing/staff-screens.tsx';

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
  card.getByText(/^(\d+ min|1 h) left$/);
  await press(opened, card, 'Prepare', order);
  await card.findByText('You have it');
  await press(opened, card, 'Ready', order);
  const ready = await cardIn(/^Ready/, order);
  const toRider = await ready.findByRole('button', { name: handOver(order) });
  const rider = /^Hand over to (\S+)/.exec(toRider.textContent ?? '')?.[1];
  await opened.press(toRider);
  const away = await cardIn(/^On the way/, order);
  away.getByText(new RegExp(`^${rider}\\b`));
  const chat = away.getByRole('link', { name: `WhatsApp the job ${order.order_number} to its rider` });
  expect(decodeURIComponent(chat.getAttribute('href') ?? '')).toMatch(
    new RegExp(`^https://wa\\.me/254\\d{9}\\?text=${order.order_number} for Four Taps`),
  );
  await press(opened, away, 'Delivered', order);
  await waitFor(() => expect(screen.queryByRole('link', { name: order.order_number })).toBeNull());
  expect((await readOrder(shop, order.id)).status).toBe('delivered');
  expect(await deliveryOf(order)).toMatchObject({
    delivery_status: 'delivered',
    taken_by: opened.account.email,
  });
});

test('by keyboard the focus goes with the order to its next step, and then to another order', async () => {
  await placeAssignedOrder(shop, 'Stays behind');
  const order = await placeAssignedOrder(shop, 'By Keyboard');
  const opened = await openScreen('/admin/today');
  const name = (step: string) => `${step} ${order.order_number}`;
  const card = await cardIn(/^To prepare/, order);
  (await card.findByRole('button', { name: name('Prepare') })).focus();
  for (const next of ['Ready', 'Hand over to Joseph', 'Delivered']) {
    await opened.user.keyboard('{Enter}');
    await waitFor(() => expect(document.activeElement?.textContent).toBe(name(next)));
    await waitFor(() => expect(document.activeElement?.getAttribute('aria-busy')).toBeNull());
  }
  await opened.user.keyboard('{Enter}');
  await waitFor(() => expect(screen.queryByRole('link', { name: order.order_number })).toBeNull());
  expect(document.activeElement?.closest('[data-delivery]')).toBeTruthy();
});

test('the second press of a double one does not press the button of the next step', async () => {
  const order = await placePaidOrder(shop, 'Pressed Twice');
  const opened = await openScreen('/admin/today');
  const card = await cardIn(/^To prepare/, order);
  await press(opened, card, 'Prepare', order);
  const ready = await card.findByRole('button', { name: `Ready ${order.order_number}` });
  await waitFor(() => expect(ready.getAttribute('aria-busy')).toBeNull());
  fireEvent.click(ready, { detail: 2 });
  expect(ready.getAttribute('aria-busy')).toBeNull();
  fireEvent.click(ready, { detail: 1 });
  await cardIn(/^Ready/, order);
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

const paidMinutesAgo = (order: Order, minutes: number) =>
  asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    created_at: new Date(Date.now() - minutes * 60_000).toISOString(),
  });

test('a late order stands in Needs attention alone, and moves on from there', async () => {
  const order = await placeAssignedOrder(shop, 'Waits Too Long');
  await paidMinutesAgo(order, 90);
  const opened = await openScreen('/admin/today');
  const card = await cardIn(/^Needs attention/, order);
  card.getByText('To prepare');
  expect(screen.getAllByRole('link', { name: order.order_number })).toHaveLength(1);
  await press(opened, card, 'Prepare', order);
  await press(opened, card, 'Ready', order);
  await press(opened, card, 'Hand over to Joseph', order);
  await card.findByText('On the way');
  expect(screen.getAllByRole('link', { name: order.order_number })).toHaveLength(1);
  await press(opened, card, 'Delivered', order);
  await waitFor(() => expect(screen.queryByRole('link', { name: order.order_number })).toBeNull());
});

test('an order that becomes late does not move while a question about it is open', async () => {
  const order = await placeAssignedOrder(shop, 'Late Soon');
  await callAsStaff(shop, 'move_on', {
    delivery_id: (await deliveryOf(order))?.id,
    expected_step: 'prepare',
    step: 'on_the_way',
  });
  // Far from its end: opening a screen beside other tests may take longer than a minute.
  await paidMinutesAgo(order, 40);
  const opened = await openScreen('/admin/today');
  await press(opened, await cardIn(/^On the way/, order), 'Failed', order);
  const question = within(await screen.findByRole('dialog'));

  const now = Date.now.bind(Date);
  vi.spyOn(Date, 'now').mockImplementation(() => now() + 25 * 60_000);
  onTestFinished(() => void vi.restoreAllMocks());
  // Any change of the queue shows the new time.
  await placePaidOrder(shop, 'Comes Meanwhile');
  const group = within(screen.getByRole('region', { name: /^On the way/, hidden: true }));
  const card = group.getByRole('link', { name: order.order_number, hidden: true }).closest('li');
  await within(card as HTMLElement).findByText(/ min late$/);
  await opened.press(question.getByRole('button', { name: 'Nobody was there' }));
  await (await cardIn(/^Needs attention/, order)).findByText('Nobody was there');
});

test('a paid order to decide about says why, and opens above the queue', async () => {
  const order = await placePaidOrder(shop, 'Cancelled Late');
  await changeOrder(shop, order.id, { status: 'cancelled' });
  onTestFinished(() => changeOrder(shop, order.id, { payment_status: 'refunded' }));
  const opened = await openScreen('/admin/today');
  const attention = within(await screen.findByRole('region', { name: /^Needs attention/ }));
  const decide = await attention.findByRole('link', { name: `Decide about ${order.order_number}` });
  within(decide.closest('li') as HTMLElement).getByText(
    /^This order was cancelled after KES [\d,]+ was paid$/,
  );
  await opened.user.click(decide);
  await within(await screen.findByRole('dialog')).findByText('Refund due');
  expect(opened.address()).toBe(`/admin/today/${order.id}`);
});

const addPayment = async (order: Order, columns: Record<string, unknown>) => {
  const id = randomUUID();
  await asOwner(shop, '/rest/v1/payments', 'POST', {
    id,
    order_id: order.id,
    phone: '+254711009005',
    charge_cents: 150_100,
    ...columns,
  });
  onTestFinished(async () => {
    await asOwner(shop, `/rest/v1/payments?id=eq.${id}`, 'DELETE');
  });
};

test.each([
  ['owner', 'Decide about'],
  ['staff', 'View'],
] as const)(
  'an unpaid order with another amount from M-PESA waits for a decision, shown to %s',
  async (role, button) => {
    const order = await placeOrder(shop, 'Another Amount');
    await addPayment(order, {
      status: 'review',
      result_code: '0',
      result_description: 'M-PESA reported 150000 cents, 150100 were charged',
    });
    const opened = await openScreen('/admin/today', { role });
    const attention = within(await screen.findByRole('region', { name: /^Needs attention/ }));
    const link = await attention.findByRole('link', { name: `${button} ${order.order_number}` });
    within(link.closest('li') as HTMLElement).getByText('M-PESA reported KES 1,500, KES 1,501 was charged');
    await opened.user.click(screen.getAllByRole('link', { name: /^Orders/ })[0] as HTMLElement);
    await opened.press(await screen.findByRole('button', { name: /^To decide/ }));
    const notice = (await screen.findByText(/^The money of .+ needs your decision$/)).closest(
      '[role=status]',
    );
    within(notice as HTMLElement).getByRole('link', { name: order.order_number });
  },
);

test('a second payment of an open order waits for a decision, and the order stays in the queue', async () => {
  const order = await placePaidOrder(shop, 'Paid Twice');
  await addPayment(order, {
    status: 'completed',
    receipt: `UKS${order.id.replaceAll('-', '').slice(0, 7).toUpperCase()}`,
    needs_refund: true,
    completed_at: new Date().toISOString(),
  });
  await openScreen('/admin/today', { role: 'staff' });
  const attention = within(await screen.findByRole('region', { name: /^Needs attention/ }));
  const link = await attention.findByRole('link', { name: `Decide about ${order.order_number}` });
  within(link.closest('li') as HTMLElement).getByText('A second payment of KES 1,501 must go back');
  await cardIn(/^To prepare/, order);
});

test("a colleague's refund is approved from Today, an own one is not offered", async () => {
  const opened = await openScreen('/admin/today');
  const request = async (name: string, by: { id: string; email: string }) => {
    const order = await placePaidOrder(shop, name);
    await changeOrder(shop, order.id, { status: 'cancelled' });
    const [id, payment_id] = [randomUUID(), randomUUID()];
    const receipt = `UKT${order.id.replaceAll('-', '').slice(0, 7).toUpperCase()}`;
    await asOwner(shop, '/rest/v1/payments', 'POST', {
      id: payment_id,
      order_id: order.id,
      phone: '+254711030101',
      charge_cents: 150_100,
      status: 'completed',
      receipt,
      completed_at: new Date().toISOString(),
    });
    await asOwner(shop, '/rest/v1/refunds', 'POST', {
      id,
      payment_id,
      receipt,
      refund_cents: 150_100,
      reason: 'Wrong drinks',
      method: 'reversal',
      status: 'requested',
      needs_approval: true,
      requested_by: by.id,
      requested_by_email: by.email,
    });
    onTestFinished(async () => {
      await asOwner(shop, `/rest/v1/refunds?id=eq.${id}&status=eq.requested`, 'PATCH', {
        status: 'withdrawn',
      });
    });
    return { id, order };
  };
  const own = await request('Own Request', opened.account);
  const theirs = await request('Their Request', await makeAccount(shop, 'staff', randomUUID()));
  const region = within(await screen.findByRole('region', { name: 'Refunds that wait for you' }));
  const link = await region.findByRole('link', { name: theirs.order.order_number });
  expect(link.getAttribute('href')).toContain(`/admin/today/${theirs.order.id}`);
  expect(region.queryByRole('link', { name: own.order.order_number })).toBeNull();
  const row = within(link.closest('li') as HTMLElement);
  await opened.press(row.getByRole('button', { name: /^Approve KES/ }));
  const question = within(await screen.findByRole('dialog'));
  await opened.press(question.getByRole('button', { name: /^Approve KES/ }));
  await waitFor(async () =>
    expect(await readRows<{ status: string }>(`refunds?id=eq.${theirs.id}`)).not.toMatchObject([
      { status: 'requested' },
    ]),
  );
});

const askToCancel = ({ id }: Order) =>
  changeOrder(shop, id, { cancel_requested_at: new Date().toISOString() });

test('an order whose customer asks to cancel waits for the answer, and one button cancels it', async () => {
  const order = await placePaidOrder(shop, 'Asks To Cancel');
  const opened = await openScreen('/admin/today');
  const waiting = await cardIn(/^To prepare/, order);
  await waiting.findByRole('button', { name: `Prepare ${order.order_number}` });
  await askToCancel(order);
  // It arrives live, without a step.
  const asked = await cardIn(/^Needs attention/, order);
  await asked.findByText(/^The customer asked to cancel, \d/);
  expect(asked.queryByRole('button', { name: `Prepare ${order.order_number}` })).toBeNull();
  await opened.press(
    await asked.findByRole('button', { name: new RegExp(`^Cancel.* of ${order.order_number}$`) }),
  );
  await (await messages()).findByText(/^The order is cancelled/);
  expect(await readOrder(shop, order.id)).toMatchObject({
    status: 'cancelled',
    cancel_reason: 'by_customer',
  });
});

test('staff decline to cancel with a reason, and the order goes on', async () => {
  const order = await placePaidOrder(shop, 'Asks Too Late');
  await askToCancel(order);
  const opened = await openScreen('/admin/today', { on: 'phone' });
  const card = await cardIn(/^Needs attention/, order);
  await press(opened, card, "Don't cancel", order);
  const form = within(await card.findByRole('form', { name: `Why ${order.order_number} is not cancelled` }));
  await opened.press(form.getByRole('button', { name: "Don't cancel it" }));
  await form.findByText(/3 to 200|Please/);
  await opened.user.type(form.getByRole('textbox', { name: /^Reason/ }), 'It is packed');
  await opened.press(form.getByRole('button', { name: "Don't cancel it" }));
  const again = await cardIn(/^To prepare/, order);
  await again.findByRole('button', { name: `Prepare ${order.order_number}` });
  expect(await readOrder(shop, order.id)).toMatchObject({
    status: 'processing',
    cancel_answer: 'It is packed',
  });
});

test('the opened order asks for the answer and offers no step, and the counter leaves it to colleagues', async () => {
  const order = await placePaidOrder(shop, 'Asks On Their Page');
  await askToCancel(order);
  await openScreen(`/admin/today/${order.id}`, { role: 'counter' });
  const dialog = within(await screen.findByRole('dialog'));
  const request = within(await dialog.findByRole('region', { name: 'Request to cancel' }));
  request.getByText('A colleague who may refund answers this.');
  expect(dialog.queryByRole('button', { name: new RegExp(`Prepare ${order.order_number}`) })).toBeNull();
});
