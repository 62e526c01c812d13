// Cash of an order in its dialog: agreed for the door, received, noted by mistake and given back.
import { waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { changeOrder, placeOrder, placePaidOrder } from '../../../../e2e/placed-orders.ts';
import { openPayments, paymentStatusOf } from '../../../testing/order-payments.ts';
import { shop } from '../../../testing/staff-screens.tsx';

test('an order that is paid at the door goes to work, and is paid once the rider brings the money', async () => {
  const order = await placeOrder(shop, 'Cash Door');
  const { dialog, payments, press, fill } = await openPayments(order);
  await press('Cash at the door');
  await payments.findByText('Cash due');
  await dialog.findByRole('button', { name: `Prepare ${order.order_number}` });
  await press('Receive cash');
  await fill(/^From/, 'Brian');
  await press(/^Received KES [\d,]+ from Brian$/);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
  await payments.findByText(/in cash, from Brian/);
  within(dialog.getByRole('region', { name: 'Timeline' })).getByText('Cash at the door agreed');
});

test('another amount is asked about beside the amount', async () => {
  // A phone of its own: what is owed to it could pay the rest.
  const order = await placeOrder(shop, 'Cash Differs', '0711031951');
  await changeOrder(shop, order.id, { total_amount: 95_100 });
  const { payments, press, fill } = await openPayments(order);
  await press('Receive cash');
  await fill(/^Cash received/, 'a lot');
  await press('Received');
  payments.getByText('Enter whole shillings, such as 711');
  await fill(/^Cash received/, '900');
  await press('Received KES 900');
  const reason = await payments.findByLabelText(/^Why KES 51 less is enough/);
  expect(reason.getAttribute('aria-invalid')).toBe('true');
  await waitFor(() => expect(document.activeElement).toBe(reason));
  await fill(/^Cash received/, '1000');
  await press('Received KES 1,000');
  await payments.findByText('Choose what happens with the rest');
  const choice = await payments.findByRole('radio', { name: 'Owed to the customer' });
  await waitFor(() => expect(document.activeElement).toBe(choice));
  choice.click();
  await press('Received KES 1,000');
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
  expect((await payments.findAllByText(/KES 49/)).length).toBeGreaterThan(0);
});

test('cash that was noted by mistake is taken back with a reason', async () => {
  const order = await placeOrder(shop, 'Cash Mistake');
  const { payments, press, fill } = await openPayments(order);
  await press('Receive cash');
  await press(/^Received KES/);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
  await press('Noted by mistake');
  await press('Take the entry back');
  await payments.findByText('Please say why, in 3 to 200 characters');
  await waitFor(() => expect(document.activeElement).toBe(payments.getByLabelText(/^Reason/)));
  await fill(/^Reason/, 'Of another order');
  await press('Take the entry back');
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('unpaid'));
  await payments.findByText('Taken back');
  payments.getByText('“Of another order”');
  await payments.findByRole('button', { name: 'Receive cash' });
});

test('the cash of a cancelled order is given back, not sent', async () => {
  const order = await placeOrder(shop, 'Cash Back');
  const { dialog, press, user } = await openPayments(order);
  await press('Receive cash');
  await press(/^Received KES/);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
  await changeOrder(shop, order.id, { status: 'cancelled' });
  const decision = within(await dialog.findByRole('region', { name: 'Decision' }));
  expect(decision.queryByRole('button', { name: /by M-PESA/ })).toBeNull();
  await user.click(await decision.findByRole('button', { name: /^Give KES [\d,]+ back$/ }));
  await user.type(decision.getByLabelText(/^Reason/), 'Cancelled at the counter');
  await user.click(decision.getByRole('button', { name: /is given back$/ }));
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('refunded'));
});

test('an order that M-PESA paid offers no cash', async () => {
  const { payments } = await openPayments(await placePaidOrder(shop, 'Cash Not'));
  expect(payments.queryByRole('button', { name: /cash/i })).toBeNull();
});
