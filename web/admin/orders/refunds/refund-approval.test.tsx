// Approving a refund of a colleague: asked before it sends, in a list that does not move.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { formatKes } from '../../../../domain/money.ts';
import { changeOrder, placePaidOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner, makeAccount } from '../../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';
import { queryClient } from '../../data/query-client.ts';

/** A cancelled order that was paid. */
async function cancelPaidOrder(name: string, charge_cents: number) {
  const order = await placePaidOrder(shop, name);
  const receipt = `UKL${order.id.replaceAll('-', '').slice(0, 7).toUpperCase()}`;
  const payment_id = randomUUID();
  await asOwner(shop, '/rest/v1/payments', 'POST', {
    id: payment_id,
    order_id: order.id,
    phone: '+254711030101',
    charge_cents,
    status: 'completed',
    receipt,
    completed_at: new Date().toISOString(),
  });
  await changeOrder(shop, order.id, { status: 'cancelled' });
  return { order, payment_id, receipt };
}

/** A refund above the limit that a colleague requested. */
async function requestedRefund(
  name: string,
): Promise<{ id: string; order_number: string; colleague: string }> {
  const { order, payment_id, receipt } = await cancelPaidOrder(name, 150_100);
  const colleague = await makeAccount(shop, 'staff', randomUUID());
  const id = randomUUID();
  await asOwner(shop, '/rest/v1/refunds', 'POST', {
    id,
    payment_id,
    receipt,
    refund_cents: 150_100,
    reason: `Wrong drinks for ${name}`,
    method: 'reversal',
    status: 'requested',
    needs_approval: true,
    requested_by: colleague.id,
    requested_by_email: colleague.email,
  });
  onTestFinished(async () => {
    await asOwner(shop, `/rest/v1/refunds?id=eq.${id}&status=eq.requested`, 'PATCH', { status: 'withdrawn' });
  });
  return { id, order_number: order.order_number, colleague: colleague.email };
}

const statusOf = async (id: string) => (await readRows<{ status: string }>(`refunds?id=eq.${id}`))[0]?.status;

test('a refund is approved in a question with order, customer, amount and reason', async () => {
  const first = await requestedRefund('Approval first');
  const second = await requestedRefund('Approval second');
  const opened = await openScreen('/admin/orders');
  await opened.press(await screen.findByRole('button', { name: /^To decide/, expanded: false }));
  const region = within(await screen.findByRole('region', { name: 'Refunds that wait for you' }));
  // Other tests share the shop, and may have requested refunds.
  const items = () =>
    region
      .getAllByRole('listitem')
      .filter(({ textContent }) =>
        [first, second].some(({ order_number }) => textContent?.includes(order_number)),
      );
  const rows = () => items().map(({ textContent }) => textContent ?? '');
  await waitFor(() => expect(rows()).toHaveLength(2));
  const row = within(items()[0] as HTMLElement);
  await opened.press(row.getByRole('button', { name: 'Approve KES 1,501' }));
  const question = within(await screen.findByRole('dialog', { name: 'Send back KES 1,501?' }));
  for (const text of [first.order_number, 'Approval first', 'Wrong drinks for Approval first'])
    question.getByText(text);
  question.getByText(new RegExp(first.colleague));
  expect(await statusOf(first.id)).toBe('requested');
  await opened.press(question.getByRole('button', { name: 'Approve KES 1,501' }));
  await waitFor(async () => expect(await statusOf(first.id)).not.toBe('requested'));

  // The second refund stays where it was.
  await waitFor(() => expect(rows()[0]).toContain('dealt with'));
  expect(rows()).toHaveLength(2);
  expect(rows()[1]).toContain(second.order_number);
  expect(await statusOf(second.id)).toBe('requested');
});

const menu = () => within(screen.getByRole('navigation', { name: 'Admin' }));

test('the menu of every screen counts refunds that this member can approve, and Today shows them', async () => {
  const refund = await requestedRefund('Approval notice');
  const opened = await openScreen('/admin/products');
  await waitFor(() => expect(menu().getByRole('link', { name: /^Orders.*refunds to approve/ })).toBeTruthy());
  await opened.press(menu().getByRole('link', { name: /^Today/ }));
  const region = within(await screen.findByRole('region', { name: 'Refunds that wait for you' }));
  await region.findByText(/Wrong drinks for Approval notice/);
  expect(await statusOf(refund.id)).toBe('requested');
});

test('the requester reads who can approve a refund, and cannot do it', async () => {
  const refund = await requestedRefund('Approval own');
  const opened = await openScreen('/admin/products');
  await asOwner(shop, `/rest/v1/refunds?id=eq.${refund.id}`, 'PATCH', {
    requested_by: opened.account.id,
    requested_by_email: opened.account.email,
  });
  await opened.press(menu().getByRole('link', { name: /^Orders/ }));
  await opened.press(await screen.findByRole('button', { name: /^To decide/ }));
  const region = within(await screen.findByRole('region', { name: 'Refunds that wait for you' }));
  await region.findByText(/You requested it, so it needs the approval of .*@.*, notified by mail/);
  expect(region.queryByRole('button', { name: /Approve/ })).toBeNull();
});

test.each([
  [0, 'is sent by one member'],
  [100, 'needs a colleague'],
])('a refund of the limit and %i cents %s', async (more, meaning) => {
  const [settings] = await readRows<{ refund_approval_above: number }>('store_settings');
  const cents = (settings?.refund_approval_above ?? 0) + more;
  const { order } = await cancelPaidOrder('Approval limit', cents);
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const refund = `Send back ${formatKes(cents)}`;
  await opened.press(await screen.findByRole('button', { name: `${refund} by M-PESA` }));
  const question = within(await screen.findByRole('dialog', { name: `${refund}?` }));
  await waitFor(() => expect(queryClient.getQueryData(['settings', 'row'])).toBeTruthy());
  await question.findByRole('button', {
    name: meaning === 'needs a colleague' ? 'Ask for approval' : refund,
  });
});
