// Decisions about money for an order, on the screens where they are made.
import { screen, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { formatKes } from '../../../domain/money.ts';
import { placeOrder, readOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const messages = async () => within(await screen.findByRole('region', { name: /Messages/ }));
let count = 0;
/** A receipt that no other payment of this run has. */
function nextReceipt(): string {
  count += 1;
  return `UKQ${String(Date.now()).slice(-5)}${String(count).padStart(2, '0')}`;
}
async function receive(received_cents: number, change: Record<string, unknown>): Promise<string> {
  const receipt = nextReceipt();
  const answer = await asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
    source: 'confirmation',
    receipt,
    received_cents,
    ...change,
  });
  expect(answer.ok).toBe(true);
  return receipt;
}
const chargeOf = async (id: string) =>
  (await readRows<{ charge_cents: number }>(`orders?id=eq.${id}&select=charge_cents`))[0]?.charge_cents ?? 0;
const dialog = async () => within(await screen.findByRole('dialog'));

test.each([20_000, -20_000])(
  'an order whose money differs from its charge by %i cents says what came and what was due',
  async (more) => {
    const order = await placeOrder(shop, 'Another amount');
    const charge = await chargeOf(order.id);
    await asOwner(shop, '/rest/v1/rpc/confirm_till_payment', 'POST', {
      order_id: order.id,
      receipt: nextReceipt(),
      received_cents: charge + more,
      although_not_reported: true,
    });
    await openScreen(`/admin/orders/${order.id}`);
    await (await dialog()).findByText(
      new RegExp(`${formatKes(charge + more)} came instead of ${formatKes(charge)}\\. Agree on it`),
    );
  },
);

test('a payment to the till finds its order by the last digits of the phone, and is taken back', async () => {
  const phone = `07119${String(Date.now()).slice(-5)}`;
  const order = await placeOrder(shop, 'Candidate Wanjiru', phone);
  const receipt = await receive(await chargeOf(order.id), {
    reference: 'juice',
    payer_name: 'WANJIRU',
    payer_phone: `25471*****${phone.slice(-3)}`,
  });
  const opened = await openScreen(`/admin/reconciliation?view=${receipt}`);
  const shown = await dialog();
  const [first] = within(await shown.findByRole('list', { name: 'Likely orders' })).getAllByRole('listitem');
  const candidate = within(first as HTMLElement);
  expect(candidate.getAllByText(order.order_number)).not.toHaveLength(0);
  candidate.getByText('Phone digits match');
  candidate.getByText('Same name');
  candidate.getByText(/^1 × /);
  expect(first?.querySelector('mark')?.textContent).toBe(phone.slice(-3));
  await opened.press(candidate.getByRole('button', { name: /^Choose/ }));
  await opened.press(await candidate.findByRole('button', { name: /^Assign KES/ }));
  await (await messages()).findByText('The order is paid with this money');
  expect((await readOrder(shop, order.id)).payment_status).toBe('paid');

  await opened.press(await shown.findByRole('button', { name: 'Take back from the order' }));
  await shown.findByText(new RegExp(`taken back from order ${order.order_number} of Candidate Wanjiru`));
  await opened.press(shown.getByRole('button', { name: 'Take back from the order' }));
  await (await messages()).findByText('The money is taken back. Its order is unpaid again');
  expect(await readOrder(shop, order.id)).toMatchObject({ payment_status: 'unpaid', status: 'pending' });
  await shown.findByText('Taken back from its order');
  // The member who assigned it needs no announcement of the payment. Orders of other tests may be announced.
  expect((await messages()).queryByText(new RegExp(`^${order.order_number}, KES`))).toBeNull();
});

test('one press, confirmed with order, customer and amounts, decides about the difference and the order', async () => {
  const order = await placeOrder(shop, 'Too much');
  const receipt = await receive((await chargeOf(order.id)) + 20_000, { reference: order.tracking_number });
  const opened = await openScreen(`/admin/reconciliation?view=${receipt}`, { on: 'phone' });
  const shown = await dialog();
  await opened.press(await shown.findByRole('button', { name: 'Deliver and keep KES 200 as credit owed' }));
  await shown.findByText(new RegExp(`came for ${order.order_number} of Too much`));
  expect((await readOrder(shop, order.id)).payment_status).toBe('needs_review');
  await opened.press(shown.getByRole('button', { name: 'Deliver and keep KES 200 as credit owed' }));
  await (await messages()).findByText('The order will be delivered, and the credit is noted');
  expect(await readOrder(shop, order.id)).toMatchObject({ payment_status: 'paid', status: 'processing' });
  await shown.findByText('Credit owed to the customer');
});

test('change that went back is noted with the order, never more than came', async () => {
  const order = await placeOrder(shop, 'Change back');
  const charge = await chargeOf(order.id);
  await receive(charge + 20_000, { reference: order.tracking_number });
  const opened = await openScreen(`/admin/orders/${order.id}`, { expected: /409/ });
  const shown = await dialog();
  await opened.press(await shown.findByRole('button', { name: 'Deliver and send KES 200 back' }));
  await shown.findByText(/send it by M-PESA, then note it with the order/);
  await opened.press(shown.getByRole('button', { name: 'Deliver and send KES 200 back' }));
  await shown.findByText('KES 200 owed to the customer');
  await opened.press(shown.getByRole('button', { name: 'Part refund or change' }));
  const form = within(await shown.findByRole('form', { name: 'Part refund or change' }));
  const amount = form.getByLabelText<HTMLInputElement>(/^Amount/);
  expect(amount.value).toBe('200');
  await opened.press(form.getByRole('button', { name: 'It went back' }));
  form.getByText('Choose how it went back');
  await opened.user.click(form.getByRole('radio', { name: 'In cash' }));
  await opened.user.clear(amount);
  await opened.user.type(amount, String(charge / 100 + 200));
  await opened.press(form.getByRole('button', { name: 'It went back' }));
  await form.findByText(/more than what is left of this payment|more than what is owed/);
  await opened.user.clear(amount);
  await opened.user.type(amount, '200');
  await opened.press(form.getByRole('button', { name: 'It went back' }));
  await (await messages()).findByText('KES 200 sent back is noted');
  await shown.findByText('KES 200 went back');
});

test('a payment that waits on another day is led to from today', async () => {
  const receipt = await receive(100, { reference: 'juice', transacted_at: '2020-02-01T21:30:00Z' });
  const opened = await openScreen('/admin/reconciliation');
  await opened.press(await screen.findByRole('link', { name: 'Oldest to decide: 2 Feb' }));
  await screen.findAllByText(receipt);
  expect(screen.queryByRole('link', { name: /^Oldest to decide/ })).toBeNull();
});
