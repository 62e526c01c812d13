// Text in a dialog, in a form inside an order, or on a card is not lost without a question.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { changeOrder, type Order, placeOrder, placePaidOrder } from '../../../e2e/placed-orders.ts';
import { asOwner, callAsStaff } from '../../../e2e/staff-member.ts';
import { dialogOf, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

async function placeCash(name: string): Promise<Order> {
  const order = await placeOrder(shop, name);
  await callAsStaff(shop, 'receive_cash', { order_id: order.id, received_cents: order.total_amount });
  return order;
}
async function placeOutside(name: string): Promise<Order> {
  const [area] = await readRows<{ id: string }>('delivery_areas?name=eq.Outside%20Nairobi');
  const [drink] = await readRows<{ price: number }>('products?slug=eq.mango-bottle');
  return placeOrder(shop, name, '0711030179', {
    area_id: area?.id,
    delivery_location: 'Nakuru',
    expected_total: drink?.price,
  });
}
const openOrder = async (order: Order) => ({
  ...(await openScreen(`/admin/orders/${order.id}`)),
  dialog: await dialogOf(order),
});
/** Presses Escape until the dialog asks: on a busy machine one press had no effect, for an unknown reason. */
const tryToClose = ({ user }: OpenScreen) =>
  waitFor(async () => {
    await user.keyboard('{Escape}');
    screen.getByRole('alertdialog', { name: 'Discard unsaved changes?' });
  });
/** Tries twice to close what the field is in: it stays with its text, and is discarded. */
async function expectQuestion(opened: OpenScreen, field: HTMLElement, text: string): Promise<void> {
  await opened.fill(field, text);
  await tryToClose(opened);
  await answer(opened, 'Keep editing');
  expect(field).toHaveProperty('value', text);
  await tryToClose(opened);
  await answer(opened, 'Discard');
  await waitFor(() => expect(field.isConnected).toBe(false));
}
/** Expects the question, and answers it. */
async function answer({ press }: OpenScreen, button: 'Keep editing' | 'Discard'): Promise<void> {
  const question = within(await screen.findByRole('alertdialog', { name: 'Discard unsaved changes?' }));
  await press(question.getByRole('button', { name: button }));
  await waitFor(() => expect(screen.queryByRole('alertdialog')).toBeNull());
}

test.each([
  ['a part refund', placeCash, 'Part refund or change', /^Amount \(KES\)/, '120'],
  ['a fee to agree on', placeOutside, null, /^Delivery fee/, '650'],
  ['the reason of a correction', placeCash, 'Noted by mistake', /^Reason/, 'Another customer'],
  ['cash', (name: string) => placeOrder(shop, name), 'Receive cash', /^Cash received/, '700'],
] as const)('an order does not close over %s that was typed', async (what, place, button, label, text) => {
  const order = await place(`Typed ${what}`);
  const opened = await openOrder(order);
  const { dialog, press } = opened;
  if (button) await press(await dialog.findByRole('button', { name: button }));
  await expectQuestion(opened, await dialog.findByLabelText(label), text);
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
});

/** Adds a payment to a cancelled order. */
async function placeToRefund(name: string, refund?: Record<string, unknown>): Promise<Order> {
  const order = await placePaidOrder(shop, name);
  const payment_id = crypto.randomUUID();
  const receipt = `UKU${order.id.replaceAll('-', '').slice(0, 7).toUpperCase()}`;
  const charge_cents = 70_000;
  await asOwner(shop, '/rest/v1/payments', 'POST', {
    id: payment_id,
    order_id: order.id,
    phone: '+254711030178',
    charge_cents,
    status: 'completed',
    receipt,
    completed_at: new Date().toISOString(),
  });
  await changeOrder(shop, order.id, { status: 'cancelled' });
  if (refund) {
    await asOwner(shop, '/rest/v1/refunds', 'POST', {
      payment_id,
      receipt,
      refund_cents: charge_cents,
      reason: 'Sold out',
      method: 'reversal',
      ...refund,
    });
  }
  return order;
}
test.each([
  ['by M-PESA', undefined, /^Send back KES .* by M-PESA/, /^Reason/],
  ['by hand', undefined, 'I already refunded it', /^Receipt of the refund/],
  ['without a result', { status: 'unknown' }, 'I looked it up', /^Receipt of the reversal/],
  [
    'that was sent twice',
    { status: 'completed', sent_twice_at: new Date().toISOString() },
    'It is dealt with',
    /^What became of the second payment/,
  ],
] as const)(
  'the form of a refund %s does not close over what was typed',
  async (what, refund, button, label) => {
    const opened = await openOrder(await placeToRefund(`Refund ${what}`, refund));
    await opened.press(await opened.dialog.findByRole('button', { name: button }));
    await expectQuestion(opened, await screen.findByLabelText(label), 'Typed words');
  },
);

test.each([
  ['the note', null, /^Note/],
  ['the reason of a refund by hand', 'I already refunded it', /^Reason/],
])('a row of Reconciliation does not close over %s that was typed', async (_, button, label) => {
  const receipt = `UKV${crypto.randomUUID().replaceAll('-', '').slice(0, 7).toUpperCase()}`;
  await asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
    source: 'confirmation',
    receipt,
    received_cents: 12_300,
    reference: 'rent',
    payer_name: 'WANJIRU',
    payer_phone: '25471*****178',
  });
  const opened = await openScreen(`/admin/reconciliation?view=${receipt}`);
  const dialog = within(await screen.findByRole('dialog'));
  if (button) await opened.press(await dialog.findByRole('button', { name: button }));
  await expectQuestion(opened, await dialog.findByLabelText(label), 'Typed words');
});

test('an order does not close over what was typed in one of two open forms', async () => {
  const opened = await openOrder(await placeOrder(shop, 'Two forms'));
  const { dialog, press, fill } = opened;
  await press(await dialog.findByRole('button', { name: 'Confirm till payment' }));
  const receipt = await dialog.findByLabelText(/^M-PESA receipt/);
  await fill(receipt, 'UKL3AB12CD');
  // Opened later, and as it was.
  await press(await dialog.findByRole('button', { name: 'Receive cash' }));
  await tryToClose(opened);
  await answer(opened, 'Keep editing');
  expect(receipt).toHaveProperty('value', 'UKL3AB12CD');
});

test('every form with unsaved changes asks before an order closes', async () => {
  const opened = await openOrder(await placeOrder(shop, 'Asks twice'));
  const { dialog, press, fill } = opened;
  await press(await dialog.findByRole('button', { name: 'Confirm till payment' }));
  const receipt = await dialog.findByLabelText(/^M-PESA receipt/);
  await fill(receipt, 'UKL3AB12CD');
  await press(await dialog.findByRole('button', { name: 'Receive cash' }));
  const cash = await dialog.findByLabelText(/^Cash received/);
  await fill(cash, '700');
  const form = () => screen.getByRole('alertdialog').closest('form');
  await tryToClose(opened);
  const first = form();
  await press(screen.getByRole('button', { name: 'Discard' }));
  await waitFor(() => expect(form()).not.toBe(first));
  // One form that stays keeps both.
  await answer(opened, 'Keep editing');
  expect([receipt, cash].map((field) => (field as HTMLInputElement).value)).toEqual(['UKL3AB12CD', '700']);
  await tryToClose(opened);
  await press(screen.getByRole('button', { name: 'Discard' }));
  await waitFor(() => expect(form()).not.toBe(first));
  await answer(opened, 'Discard');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
});

const pressNamed =
  (...names: (string | RegExp)[]) =>
  async ({ user }: OpenScreen) => {
    for (const name of names)
      await user.click((await screen.findAllByRole('button', { name }))[0] as HTMLElement);
  };
async function renameCategory(opened: OpenScreen) {
  const name = `Typed over ${crypto.randomUUID()}`;
  await asOwner(shop, '/rest/v1/categories', 'POST', { name, is_active: false });
  await pressNamed('More', 'Manage Categories', `Rename ${name}`)(opened);
}
async function editSynonym(opened: OpenScreen) {
  const word = `typed${crypto.randomUUID().replaceAll('-', '').slice(0, 8)}`;
  await asOwner(shop, '/rest/v1/search_synonyms', 'POST', { word, means: 'mango' });
  await pressNamed('More', 'Search Words', `Edit ${word}`)(opened);
}
async function changeMember(opened: OpenScreen) {
  await pressNamed(`More for ${opened.account.email}`)(opened);
  await opened.user.click(await screen.findByRole('menuitem', { name: 'Change the name' }));
}
async function assignMany(opened: OpenScreen) {
  await placePaidOrder(shop, 'Typed for many');
  await opened.user.click(await screen.findByLabelText('Select all orders'));
  await pressNamed(/^Assign \d/)(opened);
}
test.each([
  ['riders', pressNamed('Add a rider'), /^Name/],
  ['settings/team', pressNamed('Invite a colleague'), /^Name/],
  [
    'today',
    async (opened: OpenScreen) => {
      await pressNamed('Pause orders')(opened);
      await opened.user.click(await screen.findByRole('radio', { name: 'Other words' }));
    },
    /^Your words/,
  ],
  ['products', pressNamed('More', 'Manage Categories'), /^New Category/],
  ['products', renameCategory, /^New name of/],
  ['products', pressNamed('More', 'Search Words'), /^It means/],
  ['products', editSynonym, /^Customers type(?! \(new\))/],
  ['settings/team', changeMember, /^Name/],
  ['orders?search=Typed+for+many', assignMany, /^Delivery Person/],
] as const)('a dialog of %s does not close over what was typed', async (path, open, label) => {
  const opened = await openScreen(`/admin/${path}`);
  await open(opened);
  const dialog = within(await screen.findByRole('dialog'));
  const field = await dialog.findByLabelText(label);
  await opened.fill(field, 'Typed words');
  await tryToClose(opened);
  await answer(opened, 'Keep editing');
  expect(field).toHaveProperty('value', 'Typed words');
  await opened.press(dialog.getByRole('button', { name: 'Close' }));
  await answer(opened, 'Discard');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
});

test('a reason on a card stays while its order opens over it, and is not left without a question', async () => {
  const order = await placePaidOrder(shop, 'Typed on a card');
  await changeOrder(shop, order.id, { cancel_requested_at: new Date().toISOString() });
  const opened = await openScreen('/admin/today');
  const { press, fill, user } = opened;
  await press(await screen.findByRole('button', { name: `Don't cancel ${order.order_number}` }));
  const form = await screen.findByRole('form', { name: `Why ${order.order_number} is not cancelled` });
  const reason = within(form).getByLabelText(/^Reason/);
  await fill(reason, 'It is packed');
  const card = form.closest('article, li') as HTMLElement;
  await user.click(within(card).getByRole('link', { name: new RegExp(order.order_number) }));
  await screen.findByRole('dialog', { name: new RegExp(`^Order ${order.order_number}`) });
  await user.keyboard('{Escape}');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  expect(reason).toHaveProperty('value', 'It is packed');
  await user.click(screen.getAllByRole('link', { name: /^Orders/ })[0] as HTMLElement);
  await answer(opened, 'Keep editing');
  expect(opened.address()).toBe('/admin/today');
  expect(reason).toHaveProperty('value', 'It is packed');
});
