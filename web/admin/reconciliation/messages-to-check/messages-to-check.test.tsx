// Messages of M-PESA that cannot be read: staff see them at once, enter what they say, or note why they are no payment.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { placeOrder, readOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { type OpenScreen, openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

/** A line of the statement whose amount cannot be read. */
async function receiveUnreadable(reference: string): Promise<{ receipt: string; body: string }> {
  const receipt = `UKL${crypto.randomUUID().replaceAll('-', '').slice(0, 7).toUpperCase()}`;
  const body = JSON.stringify({ transactionId: receipt, amount: '951,00', billreference: reference });
  await asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
    source: 'statement',
    receipt,
    received_cents: 0,
    unreadable: ['amount'],
    reference,
    transacted_at: new Date().toISOString(),
    body,
  });
  return { receipt, body };
}
const messageOf = async ({ press }: OpenScreen, receipt: string) => {
  const chip = await screen.findByRole('button', { name: /^Messages to check/ });
  if (chip.getAttribute('aria-expanded') === 'false') await press(chip);
  const text = await screen.findByText(new RegExp(`"transactionId":"${receipt}"`));
  return within(text.closest('article') as HTMLElement);
};
const resolutionOf = async (receipt: string) =>
  (
    await readRows<{ resolution: string | null; note: string | null }>(
      `messages_to_check?receipt=eq.${receipt}`,
    )
  )[0];

test('a message appears on the open screen, and what staff enter pays its order', async () => {
  const order = await placeOrder(shop, 'Unreadable amount');
  const opened = await openScreen('/admin/reconciliation');
  await screen.findByRole('heading', { name: 'Reconciliation' });
  const [{ tracking_number, charge_cents } = { tracking_number: '', charge_cents: 0 }] = await readRows<{
    tracking_number: string;
    charge_cents: number;
  }>(`orders?id=eq.${order.id}`);
  const { receipt, body } = await receiveUnreadable(tracking_number);
  const message = await messageOf(opened, receipt);
  message.getByText('The amount can’t be read');
  message.getByText(body);
  await opened.press(message.getByRole('button', { name: 'Enter what it says' }));
  const form = within(message.getByRole('form', { name: 'Enter what it says' }));
  expect(form.getByLabelText(/^M-PESA receipt/)).toHaveProperty('value', receipt);
  const amount = form.getByLabelText(/^Amount that came/);
  await opened.fill(amount, '951,00');
  await opened.press(form.getByRole('button', { name: 'Enter payment' }));
  await form.findByText(/Please enter the amount/);
  await waitFor(() => expect(document.activeElement).toBe(amount));
  await opened.fill(amount, `KES ${(charge_cents / 100).toLocaleString('en-KE')}.00`);
  await opened.press(form.getByRole('button', { name: 'Enter payment' }));
  await waitFor(async () => expect((await readOrder(shop, order.id)).payment_status).toBe('paid'));
  await waitFor(() => expect(screen.queryByText(body)).toBeNull());
  expect(await resolutionOf(receipt)).toMatchObject({ resolution: 'entered' });
});

test.each([
  ['Enter what it says', /^Amount that came/, '951.00'],
  ['Not a payment', /^Why it is no payment/, 'A charge of the bank'],
])('what was typed under "%s" is not left without a question', async (button, label, text) => {
  const { receipt } = await receiveUnreadable('rent');
  const opened = await openScreen('/admin/reconciliation');
  const message = await messageOf(opened, receipt);
  await opened.press(message.getByRole('button', { name: button }));
  const field = message.getByRole('textbox', { name: label });
  await opened.fill(field, text);
  await opened.user.click(screen.getByRole('link', { name: 'Kept for customers' }));
  await message.findByText('Discard unsaved changes?');
  await opened.press(message.getByRole('button', { name: 'Keep editing' }));
  expect(field).toHaveProperty('value', text);
  expect(opened.address()).toMatch(/^\/admin\/reconciliation(\?|$)/);
});

test('staff note why a message is no payment', async () => {
  const { receipt, body } = await receiveUnreadable('rent');
  const opened = await openScreen('/admin/reconciliation', { on: 'phone' });
  const message = await messageOf(opened, receipt);
  await opened.press(message.getByRole('button', { name: 'Not a payment' }));
  await opened.press(message.getByRole('button', { name: 'Save' }));
  await message.findByText('Please say why, in 3 to 200 characters');
  await opened.fill(message.getByRole('textbox'), 'A charge of the bank');
  await opened.press(message.getByRole('button', { name: 'Save' }));
  await waitFor(() => expect(screen.queryByText(body)).toBeNull());
  expect(await resolutionOf(receipt)).toMatchObject({
    resolution: 'not_a_payment',
    note: 'A charge of the bank',
  });
});

test('the menu counts messages to check', async () => {
  const { receipt } = await receiveUnreadable('rent');
  await openScreen('/admin/inquiries');
  const entry = await screen.findByRole('link', { name: /Reconciliation/ });
  await waitFor(() => expect(entry.textContent).toMatch(/[1-9]\d* to match or check|[1-9]/));
  expect(await resolutionOf(receipt)).toMatchObject({ resolution: null });
});
