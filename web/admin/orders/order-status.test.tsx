// A status changes only by an explicit choice, with a confirmation if it is hard to undo, and can be undone.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import {
  changeOrder,
  type Order,
  placeAssignedOrder,
  placeOrder,
  placePaidOrder,
  readOrder,
} from '../../../e2e/placed-orders.ts';
import { asOwner, callAsStaff } from '../../../e2e/staff-member.ts';
import { interceptNext, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const statusButton = ({ order_number }: Order, status: string) =>
  screen.findByRole('button', { name: `Status of ${order_number}: ${status}` });
const messages = async () => within(await screen.findByRole('region', { name: /Messages/ }));
const undoBar = async () => within(await screen.findByRole('region', { name: 'Undo' }));
const undoButton = async ({ order_number }: Order) =>
  (await undoBar()).findByRole('button', { name: new RegExp(`^Undo ${order_number}`) });
const dialog = async () => within(await screen.findByRole('dialog'));
const waitUntilGone = (role: string) => waitFor(() => expect(screen.queryByRole(role)).toBeNull());
const hasFocus = (element: Element) => waitFor(() => expect(document.activeElement).toBe(element));
/** Status in the database; the screen shows it while saving. */
const isSaved = (id: string, columns: Partial<Order>) =>
  waitFor(async () => expect(await readOrder(shop, id)).toMatchObject(columns));

async function choose({ user, press }: OpenScreen, order: Order, from: string, to: string): Promise<void> {
  await press(await statusButton(order, from));
  await user.click(await screen.findByRole('menuitemradio', { name: to }));
}
const pressInDialog = async ({ press }: OpenScreen, name: string) =>
  press(await (await dialog()).findByRole('button', { name }));

test.each(['phone', 'desktop'] as const)(
  'saves on choice, not while moving in the menu, on a %s',
  async (on) => {
    const order = await placeAssignedOrder(shop, `Keys ${on}`);
    const { user } = await openScreen(`/admin/orders?search=Keys+${on}`, { on });
    const button = await statusButton(order, 'Processing');
    button.focus();
    // Opens the menu, and moves in it.
    await user.keyboard('{ArrowDown}{ArrowDown}{ArrowDown}{End}d');
    const current = await screen.findByRole('menuitemradio', { name: 'Processing' });
    expect(current.getAttribute('aria-checked')).toBe('true');
    await user.keyboard('{Escape}');
    await waitUntilGone('menu');
    await hasFocus(button);
    expect((await readOrder(shop, order.id)).status).toBe('processing');

    await user.keyboard('{Enter}');
    const shipped = await screen.findByRole('menuitemradio', { name: 'Shipped' });
    await user.keyboard('s');
    await hasFocus(shipped);
    await user.keyboard('{Enter}');
    await statusButton(order, 'Shipped');
    await (await undoBar()).findByText('Order status updated successfully');
    await isSaved(order.id, { status: 'shipped' });
    await hasFocus(await statusButton(order, 'Shipped'));
  },
);

test('each of several changes can be undone by its own button, and the customer gets no message about it', async () => {
  const [one, other] = [
    await placeAssignedOrder(shop, 'Undo one'),
    await placeAssignedOrder(shop, 'Undo two'),
  ];
  const opened = await openScreen('/admin/orders?search=Undo');
  await choose(opened, one, 'Processing', 'Delivered');
  await undoButton(one);
  await choose(opened, other, 'Processing', 'Shipped');
  // One bar collects them, and shows each on a line of its own.
  await (await undoBar()).findByText('2 changed');
  await opened.press(await (await undoBar()).findByRole('button', { name: 'Show' }));
  await undoButton(other);
  await (await undoBar()).findAllByText('Then the customer is notified');
  const undo = await undoButton(one);
  expect(undo.textContent).toMatch(/\d+ s$/);
  undo.focus();
  await opened.user.keyboard('{Enter}');
  await (await messages()).findByText(`${one.order_number} is Processing again.`);
  await statusButton(one, 'Processing');
  await hasFocus(await statusButton(other, 'Shipped'));
  await isSaved(one.id, { status: 'processing' });
  await isSaved(other.id, { status: 'shipped' });
  const waiting = await readRows<{ order_id: string; kind: string }>(
    `outbox_messages?order_id=in.(${one.id},${other.id})&channel=eq.text&status=eq.waiting&kind=in.(order_delivered,order_on_its_way)`,
  );
  expect(waiting).toMatchObject([{ order_id: other.id, kind: 'order_on_its_way' }]);
});

test('all changes are undone at once', async () => {
  const [one, other] = [await placeAssignedOrder(shop, 'All one'), await placeAssignedOrder(shop, 'All two')];
  const opened = await openScreen('/admin/orders?search=All', { on: 'phone' });
  await choose(opened, one, 'Processing', 'Delivered');
  await undoButton(one);
  await choose(opened, other, 'Processing', 'Shipped');
  await opened.press(await (await undoBar()).findByRole('button', { name: 'Undo all' }));
  await (await messages()).findByText('2 changes are undone.');
  await statusButton(one, 'Processing');
  await statusButton(other, 'Processing');
  await isSaved(one.id, { status: 'processing' });
  await isSaved(other.id, { status: 'processing' });
});

test('Ctrl+Z undoes the last change', async () => {
  const order = await placeAssignedOrder(shop, 'Last change');
  const opened = await openScreen('/admin/orders?search=Last+change');
  await choose(opened, order, 'Processing', 'Shipped');
  await undoButton(order);
  await opened.user.keyboard('{Control>}z{/Control}');
  await (await messages()).findByText(`${order.order_number} is Processing again.`);
  await statusButton(order, 'Processing');
  await isSaved(order.id, { status: 'processing' });
});

const hasNoUndo = ({ order_number }: Order) =>
  waitFor(() =>
    expect(screen.queryByRole('button', { name: new RegExp(`^Undo ${order_number}`) })).toBeNull(),
  );

test.each([
  ['another status', { status: 'delivered' }],
  ['a refund', { payment_status: 'refunded' }],
])('an undo is not offered any more after %s', async (what, columns) => {
  const order = await placeAssignedOrder(shop, `Late undo, ${what}`);
  const opened = await openScreen('/admin/orders?search=Late+undo', { on: 'phone' });
  await choose(opened, order, 'Processing', 'Shipped');
  await undoButton(order);
  await changeOrder(shop, order.id, columns);
  await hasNoUndo(order);
});

test('only the last change of an order can be undone', async () => {
  const order = await placeAssignedOrder(shop, 'Twice changed');
  const opened = await openScreen('/admin/orders?search=Twice+changed');
  await choose(opened, order, 'Processing', 'Shipped');
  await undoButton(order);
  await choose(opened, order, 'Shipped', 'Delivered');
  const undo = { name: new RegExp(`^Undo ${order.order_number}: Delivered`) };
  await (await undoBar()).findByRole('button', undo);
  expect(screen.getAllByRole('button', { name: /^Undo/ })).toHaveLength(1);
  await opened.press(await undoButton(order));
  await isSaved(order.id, { status: 'shipped' });
});

test('a change whose response is lost is recognised, made once, and can be undone', async () => {
  const order = await placeAssignedOrder(shop, 'Lost answer');
  const opened = await openScreen('/admin/orders?search=Lost+answer');
  interceptNext('rpc/set_order_status', async (send) => {
    await send();
    throw new TypeError('Failed to fetch');
  });
  await choose(opened, order, 'Processing', 'Shipped');
  await statusButton(order, 'Shipped');
  await isSaved(order.id, { status: 'shipped' });
  await undoButton(order);
  const changes = `order_events?order_id=eq.${order.id}&kind=eq.status_changed&details->>to=eq.shipped`;
  expect(await readRows(changes)).toHaveLength(1);
});

test('changes that are hard to undo are confirmed first', async () => {
  const order = await placeAssignedOrder(shop, 'Confirm');
  const opened = await openScreen('/admin/orders?search=Confirm');
  await choose(opened, order, 'Processing', 'Cancelled');
  const question = await dialog();
  await question.findByRole('heading', { name: `Cancel order ${order.order_number}?` });
  await question.findByText(/was paid: a refund becomes due/);
  await pressInDialog(opened, 'Keep it as it is');
  await waitUntilGone('dialog');
  await hasFocus(await statusButton(order, 'Processing'));
  expect((await readOrder(shop, order.id)).status).toBe('processing');

  await choose(opened, order, 'Processing', 'Delivered');
  await isSaved(order.id, { status: 'delivered' });
  await choose(opened, order, 'Delivered', 'Processing');
  await pressInDialog(opened, 'Set back to Processing');
  await isSaved(order.id, { status: 'processing' });
  await choose(opened, order, 'Processing', 'Cancelled');
  await pressInDialog(opened, 'Cancel the order');
  await statusButton(order, 'Cancelled');
  await isSaved(order.id, { status: 'cancelled' });
});

test('a cancelled order is taken up again only after a confirmation', async () => {
  const order = await placeAssignedOrder(shop, 'Resumed');
  await changeOrder(shop, order.id, { status: 'cancelled' });
  const opened = await openScreen('/admin/orders?search=Resumed');
  await choose(opened, order, 'Cancelled', 'Processing');
  const question = await dialog();
  await question.findByRole('heading', { name: `Take order ${order.order_number} up again?` });
  expect((await readOrder(shop, order.id)).status).toBe('cancelled');
  await pressInDialog(opened, 'Set to Processing');
  await isSaved(order.id, { status: 'processing' });
});

test('an unpaid order is handed over only with consent, a refunded one not at all', async () => {
  const [unpaid, refunded] = [await placeOrder(shop, 'Cash unpaid'), await placeOrder(shop, 'Cash refunded')];
  await changeOrder(shop, refunded.id, {
    payment_status: 'refunded',
    status: 'cancelled',
    reserved_until: null,
  });
  const opened = await openScreen('/admin/orders?search=Cash', { on: 'phone' });
  await choose(opened, unpaid, 'Pending', 'Shipped');
  await (await dialog()).findByRole('heading', { name: `Order ${unpaid.order_number} is not paid` });
  await pressInDialog(opened, 'Keep it as it is');
  await waitUntilGone('dialog');
  expect((await readOrder(shop, unpaid.id)).status).toBe('pending');
  await choose(opened, unpaid, 'Pending', 'Shipped');
  await pressInDialog(opened, 'Ship unpaid');
  await isSaved(unpaid.id, { status: 'shipped', payment_status: 'unpaid' });

  await opened.press(await statusButton(refunded, 'Cancelled'));
  for (const status of ['Shipped', 'Delivered']) {
    const item = await screen.findByRole('menuitemradio', { name: `${status} Money sent back` });
    expect(item.getAttribute('aria-disabled')).toBe('true');
  }
});

test('a till payment in another amount is confirmed, and corrected later', async () => {
  const order = await placeOrder(shop, 'Till');
  const opened = await openScreen(`/admin/orders/${order.id}`);
  await pressInDialog(opened, 'Confirm till payment');
  const till = await dialog();
  const receipt = `UKL${order.order_number.replace(/\D/g, '').slice(-7).padStart(7, '7')}`;
  await opened.fill(await till.findByLabelText(/^M-PESA receipt/), receipt);
  // Typed values are not discarded without a confirmation.
  await opened.user.keyboard('{Escape}');
  await till.findByText('Discard unsaved changes?');
  await pressInDialog(opened, 'Keep editing');
  const charge = (await till.findByText(/The order's charge is/)).textContent?.replace(/\D/g, '') ?? '';
  const wrong = Number(charge) - 90;
  await opened.fill(await till.findByLabelText(/^Amount that came/), String(wrong));
  // The shop registers its confirmations, and M-PESA has not reported this receipt.
  await till.findByText('M-PESA has not reported this receipt (yet).');
  await pressInDialog(opened, 'Confirm payment');
  await till.findByText(`M-PESA has not reported ${receipt} yet`);
  expect((await readOrder(shop, order.id)).payment_status).toBe('unpaid');
  await pressInDialog(opened, 'Confirm it all the same');
  await till.findByText(/is KES 90 less than the order's charge/);
  expect((await readOrder(shop, order.id)).payment_status).toBe('unpaid');
  await pressInDialog(opened, 'Change the amount');
  await pressInDialog(opened, 'Confirm payment');
  await pressInDialog(opened, `Save KES ${wrong.toLocaleString('en-KE')}`);
  await isSaved(order.id, { payment_status: 'needs_review' });
  await till.findByText(/^Typed, not confirmed: M-PESA has not reported receipt/);

  await pressInDialog(opened, 'Correct till payment');
  const typed = await till.findByLabelText<HTMLInputElement>(/^M-PESA receipt/);
  expect(typed.value).toBe(receipt);
  await opened.fill(await till.findByLabelText(/^Amount that came/), charge);
  await pressInDialog(opened, 'Save correction');
  await (await messages()).findByText('The payment is corrected: the order is paid');
  await isSaved(order.id, { payment_status: 'paid' });
  const waiting = await readRows<{ kind: string; status: string }>(
    `outbox_messages?order_id=eq.${order.id}&channel=eq.text&kind=in.(order_paid,order_payment_held)`,
  );
  expect(waiting.filter(({ status }) => status === 'waiting')).toMatchObject([{ kind: 'order_paid' }]);
});

test('an order whose money went back in part offers to refund the rest, and not to deliver', async () => {
  const order = await placePaidOrder(shop, 'Two parts');
  const digits = order.order_number.replace(/\D/g, '').slice(-6).padStart(6, '0');
  const parts = [30_000, 65_100].map((charge_cents, index) => ({
    order_id: order.id,
    phone: '',
    charge_cents,
    status: 'completed',
    method: 'till',
    receipt: `UKM${digits}${index}`,
    completed_at: new Date().toISOString(),
  }));
  const paid = await asOwner(shop, '/rest/v1/payments', 'POST', parts);
  const [first] = (await paid.json()) as { id: string }[];
  await changeOrder(shop, order.id, { status: 'cancelled' });
  await callAsStaff(shop, 'note_refund_by_hand', {
    refund_receipt: `UKN${digits}0`,
    reason: 'Cancelled',
    payment_id: first?.id,
  });
  await openScreen(`/admin/orders/${order.id}`);
  const shown = await dialog();
  await shown.findByText(
    "KES 300 of KES 951 went back already, so this order can't be delivered any more. Send the other KES 651 back too.",
  );
  await shown.findByText('Partly refunded');
});

test('a paid order without a rider is shipped only after a question, and waits in "To assign"', async () => {
  const order = await placePaidOrder(shop, 'Riderless');
  const opened = await openScreen('/admin/orders?search=Riderless');
  await choose(opened, order, 'Processing', 'Shipped');
  await (await dialog()).findByRole('heading', { name: `No rider is assigned to ${order.order_number}` });
  expect((await readOrder(shop, order.id)).status).toBe('processing');
  await pressInDialog(opened, 'Ship without a rider');
  await statusButton(order, 'Shipped');
  await isSaved(order.id, { status: 'shipped' });
  expect(await readRows(`deliveries?order_id=eq.${order.id}&select=delivery_status`)).toEqual([
    { delivery_status: 'pending' },
  ]);
});

test('the question about a missing rider leads to the assignment', async () => {
  const order = await placePaidOrder(shop, 'Assign instead');
  const opened = await openScreen('/admin/orders?search=Assign+instead');
  await choose(opened, order, 'Processing', 'Delivered');
  await opened.press(await (await dialog()).findByRole('link', { name: 'Assign a rider' }));
  await waitFor(() => expect(opened.address()).toMatch(/^\/admin\/deliveries\?search=ORD-\d+&assign=/));
  await screen.findByRole('heading', { name: /^Assign/ });
  expect((await readOrder(shop, order.id)).status).toBe('processing');
});
