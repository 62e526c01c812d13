// Two staff members change one order: the second one sees what happened. Errors about a receipt appear beside its
// field.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { changeOrder, placeOrder, placePaidOrder, readOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { interceptNext, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const messages = async () => within(await screen.findByRole('region', { name: /Messages/ }));
const taken = /^Someone else changed this in the meantime.*nothing of yours was saved/;
const isTaken = async () => (await messages()).findByText(taken);

test('a till payment that another member confirms first', async () => {
  const [mine, other] = [await placeOrder(shop, 'Till mine'), await placeOrder(shop, 'Till other')];
  const { receipt, charge_cents } = await addPayment(other.id);
  const opened = await openScreen(`/admin/orders/${mine.id}`);
  await opened.press(await screen.findByRole('button', { name: 'Confirm till payment' }));
  const form = within(await screen.findByRole('form', { name: 'Confirm till payment' }));
  const field = form.getByLabelText(/^M-PESA receipt/);
  await opened.fill(field, receipt.toLowerCase());
  await opened.fill(form.getByLabelText(/^Amount that came/), String(charge_cents / 100));
  await opened.press(form.getByRole('button', { name: 'Confirm payment' }));
  await form.findByText(`This receipt has paid order ${other.order_number} already`);
  await waitFor(() => expect(document.activeElement).toBe(field));
  expect(field.getAttribute('aria-invalid')).toBe('true');
  expect((await readOrder(shop, mine.id)).payment_status).toBe('unpaid');

  await changeOrder(shop, mine.id, { payment_status: 'paid', status: 'processing', reserved_until: null });
  await isTaken();
  expect(screen.queryByRole('form')).toBeNull();
});

test('a payment whose response is lost is reported neither as a failure nor as another member’s change', async () => {
  const order = await placeOrder(shop, 'Till lost');
  const opened = await openScreen(`/admin/orders/${order.id}`);
  await opened.press(await screen.findByRole('button', { name: 'Confirm till payment' }));
  const form = within(await screen.findByRole('form', { name: 'Confirm till payment' }));
  await opened.fill(form.getByLabelText(/^M-PESA receipt/), receiptFor(order.id));
  await opened.fill(form.getByLabelText(/^Amount that came/), await chargeOf(order.id).then(String));
  interceptNext('rpc/confirm_till_payment', async (send) => {
    await send();
    throw new TypeError('Failed to fetch');
  });
  await form.findByText('M-PESA has not reported this receipt (yet).');
  await opened.press(form.getByRole('button', { name: 'Confirm payment' }));
  await opened.press(form.getByRole('button', { name: 'Confirm it all the same' }));
  await (await messages()).findByText(/^Saved\. The connection broke/);
  await waitFor(() => expect(screen.queryByRole('form')).toBeNull());
  expect((await messages()).queryByText(taken)).toBeNull();
  expect((await readOrder(shop, order.id)).payment_status).toBe('paid');
});

test('asks before a second receipt is saved for an order that a colleague has just confirmed', async () => {
  const order = await placeOrder(shop, 'Till twice');
  const received_cents = (await chargeOf(order.id)) * 100;
  const opened = await openScreen(`/admin/orders/${order.id}`, { expected: /409/ });
  await opened.press(await screen.findByRole('button', { name: 'Confirm till payment' }));
  const form = within(await screen.findByRole('form', { name: 'Confirm till payment' }));
  const receipt = receiptFor(order.id);
  await opened.fill(form.getByLabelText(/^M-PESA receipt/), `Z${receipt.slice(1)}`);
  await opened.fill(form.getByLabelText(/^Amount that came/), String(received_cents / 100));
  interceptNext('rpc/confirm_till_payment', async (send) => {
    await asOwner(shop, '/rest/v1/rpc/confirm_till_payment', 'POST', {
      order_id: order.id,
      receipt,
      received_cents,
      although_not_reported: true,
    });
    return send();
  });
  await form.findByText('M-PESA has not reported this receipt (yet).');
  await opened.press(form.getByRole('button', { name: 'Confirm payment' }));
  await opened.press(form.getByRole('button', { name: 'Confirm it all the same' }));
  await form.findByText('This order has just been paid with another receipt');
  await screen.findByText(new RegExp(`Receipt ${receipt}`));
  const drop = form.getByRole('button', { name: "Don't save it" });
  await waitFor(() => expect(document.activeElement).toBe(drop));
  await opened.press(drop);
  await waitFor(() => expect(screen.queryByRole('form')).toBeNull());
  expect(await readRows(`payments?order_id=eq.${order.id}`)).toMatchObject([
    { receipt, needs_refund: false },
  ]);
  expect((await messages()).queryByText(taken)).toBeNull();
});

test('a refund that another member notes first', async () => {
  const [mine, other] = [
    await placePaidOrder(shop, 'Refund mine'),
    await placePaidOrder(shop, 'Refund other'),
  ];
  const [payment, otherPayment] = [await addPayment(mine.id), await addPayment(other.id)];
  const { receipt, charge_cents: refund_cents } = otherPayment;
  const refund_receipt = `B${receipt.slice(1)}`;
  const noted = { method: 'by_hand', status: 'completed', reason: 'Out of stock' };
  await insert('refunds', { payment_id: otherPayment.id, receipt, refund_receipt, refund_cents, ...noted });
  await changeOrder(shop, mine.id, { status: 'cancelled' });

  const opened = await openScreen(`/admin/orders/${mine.id}`, { on: 'phone' });
  await opened.press(await screen.findByRole('button', { name: 'I already refunded it' }));
  const field = await screen.findByLabelText(/^Receipt of the refund/);
  await opened.fill(field, refund_receipt);
  await opened.fill(screen.getByLabelText(/^Reason/), 'Sold out');
  await opened.press(screen.getByRole('button', { name: 'It was sent back' }));
  await screen.findByText('This receipt belongs to another refund already');
  expect(field.getAttribute('aria-invalid')).toBe('true');

  await changeOrder(shop, mine.id, { payment_status: 'refunded' });
  await isTaken();
  await waitFor(() => expect(screen.queryByLabelText(/^Receipt of the refund/)).toBeNull());
  expect(await readRows(`refunds?payment_id=eq.${payment.id}`)).toMatchObject([
    { reason: 'Noted with the order' },
  ]);
});

interface Payment {
  id: string;
  receipt: string;
  charge_cents: number;
}

async function insert<Row>(table: string, row: Record<string, unknown>): Promise<Row> {
  const [inserted] = (await (await asOwner(shop, `/rest/v1/${table}`, 'POST', row)).json()) as [Row];
  return inserted;
}

/** In shillings. */
async function chargeOf(id: string): Promise<number> {
  const [order] = await readRows<{ charge_cents: number }>(`orders?id=eq.${id}&select=charge_cents`);
  return (order?.charge_cents ?? 0) / 100;
}

/** A unique receipt. */
const receiptFor = (orderId: string): string => `UK${orderId.replaceAll('-', '').slice(0, 8).toUpperCase()}`;

/** Adds a received payment to an order. */
async function addPayment(order_id: string): Promise<Payment> {
  return insert('payments', {
    order_id,
    phone: '254711030101',
    charge_cents: (await chargeOf(order_id)) * 100,
    status: 'completed',
    receipt: receiptFor(order_id),
  });
}
