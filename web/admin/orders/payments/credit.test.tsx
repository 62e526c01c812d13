// Credit of a customer and part refunds, in the dialog of an order and in "Kept for customers".
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { changeOrder, type Order, placeOrder, readOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner, callAsStaff } from '../../../../e2e/staff-member.ts';
import { openPayments, paymentStatusOf } from '../../../testing/order-payments.ts';
import { dialogOf, type OpenScreen, openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

const newReceipt = () => `UKL${Math.random().toString(36).slice(2, 9).toUpperCase().padEnd(7, '2')}`;
const newPhone = () => `+2547${String(Math.floor(Math.random() * 1e8)).padStart(8, '0')}`;

/** Answers the question before credit is used. */
async function confirmCredit(user: OpenScreen['user']) {
  const question = within(await screen.findByRole('dialog', { name: /from credit/ }));
  await user.click(question.getByRole('button', { name: 'Use the credit' }));
}

/** An order of KES 951 that was paid in cash; what came beyond is owed to its phone. */
async function owe(name: string, phone: string, shillings: number): Promise<Order> {
  const order = await placeFor(name, phone);
  await callAsStaff(shop, 'receive_cash', {
    order_id: order.id,
    received_cents: 95_100 + shillings * 100,
    difference: 'credit',
  });
  return order;
}
async function placeFor(name: string, phone: string): Promise<Order> {
  const order = await placeOrder(shop, name);
  await changeOrder(shop, order.id, { customer_phone: phone, total_amount: 95_100 });
  return order;
}

test('cash beyond the charge is owed to the phone of its order', async () => {
  const order = await placeFor('Credit Begins', newPhone());
  const { press, fill, choose, payments } = await openPayments(order);
  await press('Receive cash');
  await fill(/^Cash received/, '2151');
  await choose('Owed to the customer');
  await press(/^Received KES/);
  await payments.findByText(/KES 1,200 owed to the customer/);
});

test('credit pays the next order of the phone, and is taken back when it was used by mistake', async () => {
  const phone = newPhone();
  const first = await owe('Credit Whole', phone, 1200);
  const order = await placeFor('Credit Whole', phone);
  const { payments, press, fill, user } = await openPayments(order);
  await payments.findByText(`Credit of KES 1,200 from ${first.order_number}`);
  await press('Use KES 951 of it');
  await confirmCredit(user);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
  await payments.findByText(/from credit/);
  expect(payments.queryByRole('region', { name: 'Credit' })).toBeNull();
  await press('Used by mistake');
  await press('Make it credit again');
  await payments.findByText('Please say why, in 3 to 200 characters');
  await fill(/^Reason/, 'Another customer');
  await press('Make it credit again');
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('unpaid'));
  await payments.findByText(`Credit of KES 1,200 from ${first.order_number}`);
});

test('credit that is too low pays the rest of cash', async () => {
  const phone = newPhone();
  await owe('Credit Rest', phone, 190);
  const order = await placeFor('Credit Rest', phone);
  const { payments, press, fill } = await openPayments(order);
  await payments.findByText(/It pays the last KES 190, once KES 761 came/);
  await press('Receive cash');
  await fill(/^Cash received/, '761');
  await payments.findByRole('radio', { name: 'From their credit', checked: true });
  await press(/^Received KES 761/);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
  expect((await payments.findAllByText(/from credit|in cash/)).length).toBeGreaterThan(1);
});

test('the credit of a cancelled order is credit again, and is not sent', async () => {
  const phone = newPhone();
  await owe('Credit Cancelled', phone, 951);
  const order = await placeFor('Credit Cancelled', phone);
  const { dialog, payments, press, user } = await openPayments(order);
  await press('Use KES 951 of it');
  await confirmCredit(user);
  await payments.findByText(/from credit/);
  await changeOrder(shop, order.id, { status: 'cancelled' });
  const decision = within(await dialog.findByRole('region', { name: 'Decision' }));
  await user.click(await decision.findByRole('button', { name: 'Make KES 951 credit again' }));
  expect(decision.queryByRole('button', { name: /by M-PESA/ })).toBeNull();
  await user.type(decision.getByLabelText(/^Reason/), 'Not in stock');
  await user.click(decision.getByRole('button', { name: 'Make it credit again' }));
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('refunded'));
});

/** An order that credit paid and that is cancelled, after the rest of the money of that credit was given back. */
async function payFromRefunded(name: string): Promise<Order> {
  const phone = newPhone();
  const source = await owe(name, phone, 951);
  const order = await placeFor(name, phone);
  await callAsStaff(shop, 'use_credit', { order_id: order.id });
  await changeOrder(shop, source.id, { status: 'cancelled' });
  const [payment] = await readRows<{ id: string }>(`payments?order_id=eq.${source.id}&select=id`);
  await callAsStaff(shop, 'give_back_cash', { payment_id: payment?.id, reason: 'Not in stock' });
  await changeOrder(shop, order.id, { status: 'cancelled' });
  return order;
}

test('credit whose source was refunded goes back in cash, and is not credit again', async () => {
  const order = await payFromRefunded('Credit Source Cash');
  const { dialog, user } = await openPayments(order);
  const decision = within(await dialog.findByRole('region', { name: 'Decision' }));
  await decision.findByText(/cannot be owed again/);
  expect(decision.queryByRole('button', { name: /credit again/ })).toBeNull();
  expect(decision.queryByRole('button', { name: /by M-PESA/ })).toBeNull();
  await user.click(await decision.findByRole('button', { name: 'Give KES 951 back' }));
  await user.type(decision.getByLabelText(/^Reason/), 'Not in stock');
  await user.click(decision.getByRole('button', { name: 'KES 951 is given back' }));
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('refunded'));
});

test('credit whose source was refunded goes back by hand, with the receipt', async () => {
  const order = await payFromRefunded('Credit Source Hand');
  const { dialog, user } = await openPayments(order);
  const decision = within(await dialog.findByRole('region', { name: 'Decision' }));
  await user.click(await decision.findByRole('button', { name: 'I already refunded it' }));
  const form = within(await screen.findByRole('dialog', { name: /were sent back by hand/ }));
  await user.type(form.getByLabelText(/^Receipt of the refund/), newReceipt());
  await user.type(form.getByLabelText(/^Reason/), 'Not in stock');
  await user.click(form.getByRole('button', { name: 'It was sent back' }));
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('refunded'));
});

const report = (receipt: string, received_cents: number, reference = 'juice') =>
  asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
    source: 'confirmation',
    receipt,
    received_cents,
    reference,
  });

/** Staff typed twice the charge of an order, and keep the surplus as credit. */
async function typeTooMuch(name: string) {
  const phone = newPhone();
  const order = await placeFor(name, phone);
  const receipt = newReceipt();
  await callAsStaff(shop, 'confirm_till_payment', {
    order_id: order.id,
    receipt,
    received_cents: 190_200,
    although_not_reported: true,
  });
  await callAsStaff(shop, 'resolve_review', {
    order_id: order.id,
    decision: 'deliver_with_credit',
    seen_cents: 190_200,
  });
  return { order, receipt, phone };
}

/** The credit of such an order paid the next one, and M-PESA reports the charge only. */
async function overdraw(name: string) {
  const { order, receipt, phone } = await typeTooMuch(name);
  const [typed] = await readRows<{ id: string }>(`payments?order_id=eq.${order.id}&select=id`);
  await callAsStaff(shop, 'resolve_difference', { decision: 'accept', payment_id: typed?.id });
  const next = await placeFor(name, phone);
  await callAsStaff(shop, 'use_credit', { order_id: next.id });
  await report(receipt, 95_100);
  return { order, next };
}

test('an order whose money paid another order says what is left of it, and is cancelled without a refund', async () => {
  const { order, next } = await overdraw('Typed Cancelled');
  const { dialog, user } = await openPayments(order);
  const decision = within(await dialog.findByRole('region', { name: 'Decision' }));
  decision.getByText(/KES 951 came, of which nothing is left for the KES 951 of this order/);
  decision.getByRole('button', { name: 'Deliver as paid, forgive KES 951' });
  expect(decision.queryByRole('button', { name: /refund|by M-PESA/ })).toBeNull();
  await user.click(decision.getByRole('button', { name: 'Cancel the order' }));
  decision.getByText(/no money moves/);
  await user.click(decision.getByRole('button', { name: 'Cancel the order' }));
  await waitFor(async () => expect((await readOrder(shop, order.id)).status).toBe('cancelled'));
  expect(await paymentStatusOf(order)).toBe('unpaid');
  expect(await paymentStatusOf(next)).toBe('paid');
});

test('an order whose money paid another order has it back, once that is cancelled', async () => {
  const { order, next } = await overdraw('Typed Back');
  const [used] = await readRows<{ id: string }>(`payments?order_id=eq.${next.id}&select=id`);
  await callAsStaff(shop, 'take_back_credit', { payment_id: used?.id, reason: 'Wrong order' });
  const { payments, press, user } = await openPayments(order);
  await payments.findByText('Credit of KES 951 from this order');
  await press('Use KES 951 of it');
  await confirmCredit(user);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
});

test('a second payment that was kept pays its own order, once that is unpaid again', async () => {
  const order = await placeFor('Credit Own', newPhone());
  await callAsStaff(shop, 'receive_cash', { order_id: order.id, received_cents: 95_100 });
  const receipt = newReceipt();
  await report(receipt, 95_100, order.tracking_number);
  await callAsStaff(shop, 'resolve_difference', { decision: 'accept', receipt });
  const [cash] = await readRows<{ id: string }>(`payments?order_id=eq.${order.id}&method=eq.cash&select=id`);
  await callAsStaff(shop, 'take_back_cash', { payment_id: cash?.id, reason: 'Wrong order' });
  const { payments, press, user } = await openPayments(order);
  await payments.findByText('Credit of KES 951 from this order');
  await press('Use KES 951 of it');
  await confirmCredit(user);
  await waitFor(async () => expect(await paymentStatusOf(order)).toBe('paid'));
});

test('credit of a receipt that M-PESA has not reported says so on both orders, and pays once it is reported', async () => {
  await asOwner(shop, '/rest/v1/rpc/record_mpesa_registration', 'POST', { kind: 'till' });
  const { order: source, receipt, phone } = await typeTooMuch('Typed Unconfirmed');
  const order = await placeFor('Typed Unconfirmed', phone);
  const { dialog, payments } = await openPayments(order);
  await payments.findByText(
    new RegExp(`KES 951 of ${source.order_number} can pay it once M-PESA reports ${receipt}`),
  );
  expect(payments.queryByRole('button', { name: /^Use / })).toBeNull();
  await report(receipt, 190_200);
  await dialog.findByText(`Credit of KES 951 from ${source.order_number}`);
  await payments.findByRole('button', { name: 'Use KES 951 of it' });
});

test('the order of a receipt that M-PESA has not reported says what its credit waits for', async () => {
  await asOwner(shop, '/rest/v1/rpc/record_mpesa_registration', 'POST', { kind: 'till' });
  const { order, receipt } = await typeTooMuch('Typed Waits');
  const { payments } = await openPayments(order);
  await payments.findByText(new RegExp(`It pays no other order until M-PESA reports ${receipt}`));
});

test('a missing drink is refunded in part: with the receipt and the reason, and the order stays', async () => {
  const order = await placeFor('Part Refund', newPhone());
  const { dialog, payments, press, fill, choose, user } = await openPayments(order);
  await press('Receive cash');
  await press(/^Received KES 951/);
  await user.click(await payments.findByText(/: details/));
  await press('Part refund or change');
  payments.getByText(/M-PESA sends whole payments back only/);
  await press('It went back');
  payments.getByText('Please enter the amount in whole shillings');
  payments.getByText('Choose how it went back');
  payments.getByText('Please say why, in 3 to 200 characters');
  await waitFor(() => expect(document.activeElement).toBe(payments.getByLabelText(/^Amount/)));
  await fill(/^Amount/, '100');
  await choose('By M-PESA, by hand');
  await fill(/^M-PESA receipt/, '123');
  await fill(/^Reason/, 'One drink was missing');
  await press('It went back');
  payments.getByText(/An M-PESA receipt has ten letters and digits/);
  await waitFor(() => expect(document.activeElement).toBe(payments.getByLabelText(/^M-PESA receipt/)));
  const receipt = newReceipt();
  await fill(/^M-PESA receipt/, receipt);
  await press('It went back');
  await payments.findByText('KES 100 went back');
  await payments.findByText(new RegExp(`Part refund: KES 100, receipt ${receipt}, “One drink was missing”`));
  within(dialog.getByRole('region', { name: 'Timeline' })).getByText('Part of the price went back');
  expect(await paymentStatusOf(order)).toBe('paid');
});

test('a form that was opened before another member noted something notes nothing, and says so', async () => {
  const order = await owe('Part Twice', newPhone(), 300);
  const [payment] = await readRows<{ id: string }>(`payments?order_id=eq.${order.id}&select=id`);
  const { payments, press, choose, user } = await openPayments(order);
  await user.click(await payments.findByText(/: details/));
  await press('Part refund or change');
  await choose('In cash');
  await callAsStaff(shop, 'refund_part', {
    payment_id: payment?.id,
    amount_cents: 10_000,
    way: 'cash',
    reason: 'One drink was missing',
  });
  await press('It went back');
  await payments.findByText(/Something else was noted for this payment in the meantime/);
  await payments.findByText(/KES 100 went back/);
  await press('Cancel');
  await press('Part refund or change');
  await choose('In cash');
  await press('It went back');
  await payments.findByText(/KES 400 went back/);
});

test('what is owed is listed with its customer, whose order gives it back', async () => {
  const order = await owe('Kept Listed', newPhone(), 300);
  const list = await openScreen('/admin/reconciliation/kept');
  const row = within(await screen.findByRole('row', { name: new RegExp(order.order_number) }));
  row.getByText('KES 300 owed');
  await list.press(row.getByRole('link', { name: order.order_number }));
  const dialog = await dialogOf(order);
  await list.press(await dialog.findByRole('button', { name: 'Part refund or change' }));
  await list.user.click(dialog.getByRole('radio', { name: 'In cash' }));
  await list.press(dialog.getByRole('button', { name: 'It went back' }));
  await dialog.findByText('KES 300 went back');
});

test('what was given back is listed as settled', async () => {
  const order = await owe('Kept Settled', newPhone(), 300);
  const [payment] = await readRows<{ id: string }>(`payments?order_id=eq.${order.id}&select=id`);
  await callAsStaff(shop, 'note_change', {
    payment_id: payment?.id,
    kind: 'returned',
    amount_cents: 30_000,
    way: 'cash',
  });
  await openScreen('/admin/reconciliation/kept?show=all');
  within(await screen.findByRole('row', { name: new RegExp(order.order_number) })).getByText('Settled');
});
