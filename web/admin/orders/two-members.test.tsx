// Two members at one order: the second is told what happened, and what a receipt cannot be used for is said beside it.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { changeOrder, placeOrder, placePaidOrder, readOrder } from '../../../e2e/placed-orders.ts';
import { askAsStaff, asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const messages = async () => within(await screen.findByRole('region', { name: /Messages/ }));
const isTaken = async () =>
  (await messages()).findByText(/^Someone else changed this in the meantime.*nothing of yours was saved/);
/** A receipt of its own. */
const receiptFor = (id: string) => `UK${id.replaceAll('-', '').slice(0, 8).toUpperCase()}`;

test('a till payment that another member confirms first', async () => {
  const [mine, other] = [await placeOrder(shop, 'Till mine'), await placeOrder(shop, 'Till other')];
  const received_cents = await chargeOf(mine.id);
  const confirm = ({ id }: { id: string }) =>
    askAsStaff(shop, 'confirm_till_payment', { order_id: id, receipt: receiptFor(id), received_cents });
  await confirm(other);
  const { user, press } = await openScreen(`/admin/orders/${mine.id}`);
  await press(await screen.findByRole('button', { name: 'Confirm till payment' }));
  const form = within(await screen.findByRole('form', { name: 'Confirm till payment' }));
  const receipt = form.getByLabelText(/^M-PESA receipt/);
  await user.type(receipt, receiptFor(other.id).toLowerCase());
  await user.type(form.getByLabelText(/^Amount that came/), String(received_cents / 100));
  await press(form.getByRole('button', { name: 'Confirm payment' }));
  await form.findByText(`This receipt has paid order ${other.order_number} already`);
  await waitFor(() => expect(document.activeElement).toBe(receipt));
  expect(receipt.getAttribute('aria-invalid')).toBe('true');
  expect((await readOrder(shop, mine.id)).payment_status).toBe('unpaid');

  await confirm(mine);
  await isTaken();
  expect(screen.queryByRole('form')).toBeNull();
  expect(await readRows(`payments?order_id=eq.${mine.id}`)).toHaveLength(1);
});

test('a refund that another member notes first', async () => {
  const [mine, other] = [
    await placePaidOrder(shop, 'Refund mine'),
    await placePaidOrder(shop, 'Refund other'),
  ];
  const payments = await Promise.all([mine, other].map(({ id }) => addPayment(id)));
  const note = (payment_id: string) =>
    askAsStaff(shop, 'note_refund_by_hand', {
      payment_id,
      refund_receipt: receiptFor(payment_id),
      reason: 'Out of stock',
    });
  await note(payments[1] as string);
  const { user, press } = await openScreen(`/admin/orders/${mine.id}`, { on: 'phone' });
  await press(await screen.findByRole('button', { name: 'I already refunded it' }));
  const receipt = await screen.findByLabelText(/^Receipt of sending it back/);
  await user.type(receipt, receiptFor(payments[1] as string));
  await user.type(screen.getByLabelText(/^Reason/), 'Sold out');
  await press(screen.getByRole('button', { name: 'It was sent back' }));
  await screen.findByText('This receipt belongs to another refund already');
  expect(receipt.getAttribute('aria-invalid')).toBe('true');

  await note(payments[0] as string);
  await isTaken();
  await waitFor(() => expect(screen.queryByLabelText(/^Receipt of sending it back/)).toBeNull());
  expect(await readRows(`refunds?payment_id=eq.${payments[0]}`)).toMatchObject([{ reason: 'Out of stock' }]);
});

async function chargeOf(id: string): Promise<number> {
  const [order] = await readRows<{ charge_cents: number }>(`orders?id=eq.${id}&select=charge_cents`);
  return order?.charge_cents ?? 0;
}

/** A received payment of an order, which is cancelled then. */
async function addPayment(order_id: string): Promise<string> {
  const [payment] = (await (
    await asOwner(shop, '/rest/v1/payments', 'POST', {
      order_id,
      phone: '254711030101',
      charge_cents: await chargeOf(order_id),
      status: 'completed',
      receipt: receiptFor(order_id),
    })
  ).json()) as { id: string }[];
  await changeOrder(shop, order_id, { status: 'cancelled' });
  return payment?.id ?? '';
}
