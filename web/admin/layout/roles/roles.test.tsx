// What the panel shows to the roles of staff.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test, vi } from 'vitest';
import { changeOrder, placeAssignedOrder, placePaidOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { readerOfOrdersKey } from '../../../lib/browser/early-requests.ts';
import { openScreen, shop } from '../../../testing/staff-screens.tsx';

const menu = async () => {
  const nav = within(await screen.findByRole('navigation', { name: 'Admin' }));
  return nav.getAllByRole('link').map(({ textContent }) => textContent?.replace(/\d.*$/, ''));
};

test('the counter begins with Today and moves an order on, without the rest of the panel', async () => {
  const order = await placePaidOrder(shop, 'At The Counter');
  const opened = await openScreen('/admin', { role: 'counter' });
  const link = await screen.findByRole('link', { name: order.order_number });
  expect(opened.address()).toBe('/admin/today');
  expect(await menu()).toEqual(['Today', 'Deliveries']);
  expect(screen.queryByRole('link', { name: /New order/ })).toBeNull();
  expect(screen.queryByRole('button', { name: 'Pause orders' })).toBeNull();

  await opened.press(link);
  const dialog = within(await screen.findByRole('dialog'));
  await dialog.findByRole('heading', { name: new RegExp(`^Order ${order.order_number}`) });
  expect(dialog.queryByRole('button', { name: /^Set the status/ })).toBeNull();
  expect(dialog.queryByRole('combobox')).toBeNull();
  await opened.press(await dialog.findByRole('button', { name: `Prepare ${order.order_number}` }));
  await dialog.findByRole('button', { name: `Ready ${order.order_number}` });
});

test.each([
  ['counter', false],
  ['staff', true],
] as const)('the orders are asked for before the scripts of %s have loaded: %s', async (role, may) => {
  await openScreen('/admin/today', { role });
  const stored = localStorage.getItem(readerOfOrdersKey);
  const { access_token } = JSON.parse(localStorage.getItem('jani.staff') ?? '') as { access_token: string };
  expect(stored).toBe(may ? access_token.slice(-32) : '');
});

test('an order that a link opens above the list is above Today for the counter', async () => {
  const order = await placePaidOrder(shop, 'By A Link');
  const opened = await openScreen(`/admin/orders/${order.id}`, { role: 'counter' });
  await within(await screen.findByRole('dialog')).findByRole('heading', {
    name: new RegExp(`^Order ${order.order_number}`),
  });
  expect(opened.address()).toBe(`/admin/today/${order.id}`);
});

test.each([
  ['counter', '/admin/products', 'Open Today'],
  ['counter', '/admin/dashboard', 'Open Today'],
  ['counter', '/admin/customers', 'Open Today'],
  ['counter', '/admin/day', 'Open Today'],
  ['staff', '/admin/settings', 'Open the dashboard'],
  ['staff', '/admin/settings/areas', 'Open the dashboard'],
  ['staff', '/admin/settings/discounts', 'Open the dashboard'],
  ['staff', '/admin/settings/quotes', 'Open the dashboard'],
  ['staff', '/admin/reconciliation', 'Open the dashboard'],
] as const)('a page that is not for the role %s (%s) says so', async (role, path, link) => {
  const opened = await openScreen(path, { role });
  await screen.findByRole('heading', { name: 'This page is not part of your role' });
  await opened.press(screen.getByRole('link', { name: link }));
  await waitFor(() => expect(opened.address()).not.toBe(path));
});

test.each([
  ['staff', false],
  ['owner', true],
] as const)('what is kept for customers leads %s to the reconciliation: %s', async (role, leads) => {
  await openScreen('/admin/reconciliation/kept', { role });
  await screen.findByRole('heading', { level: 1, name: 'Kept for customers' });
  expect(screen.queryAllByRole('link', { name: /^Reconciliation/ }).length > 0).toBe(leads);
});

test('staff have all screens but reconciliation and settings', async () => {
  await openScreen('/admin/inquiries', { role: 'staff' });
  expect(await menu()).toEqual([
    'Today',
    'Dashboard',
    'Products',
    'Orders',
    'Deliveries',
    'Inquiries',
    'Customers',
    'Messages',
    'The day',
    'Reports',
  ]);
});

test.each([
  ['counter', false],
  ['staff', true],
] as const)('exports of deliveries, and printed phones of finished ones, for %s: %s', async (role, may) => {
  vi.stubGlobal('print', vi.fn());
  onTestFinished(() => void vi.unstubAllGlobals());
  const name = `Printed for ${role} ${crypto.randomUUID()}`;
  await placePaidOrder(shop, name, '0711030141');
  const done = await placePaidOrder(shop, name, '0711030142');
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${done.id}`, 'PATCH', {
    delivery_status: 'delivered',
  });
  const opened = await openScreen(`/admin/deliveries?search=${encodeURIComponent(name)}`, { role });
  await opened.press(await screen.findByRole('button', { name: /^Filters/ }));
  await opened.press(await screen.findByRole('button', { name: 'Print' }));
  const sheet = await waitFor(() => {
    const found = document.querySelector<HTMLElement>('.print-sheet');
    expect(found).toBeTruthy();
    return within(found as HTMLElement);
  });
  sheet.getByText('0711 030 141');
  expect(sheet.queryByText('0711 030 142') !== null).toBe(may);
  expect(screen.queryByRole('button', { name: 'Export CSV' }) !== null).toBe(may);

  await opened.user.click(screen.getByLabelText('Select all deliveries'));
  const bar = within(await screen.findByRole('region', { name: 'Chosen rows' }));
  bar.getByRole('button', { name: 'Print slips' });
  expect(bar.queryByRole('button', { name: 'Export' }) !== null).toBe(may);
});

test.each([
  ['counter', false],
  ['staff', true],
] as const)('refund or cancellation of a failed delivery is offered to %s: %s', async (role, may) => {
  const order = await placeAssignedOrder(shop, 'No one at home');
  await changeOrder(shop, order.id, { status: 'out_for_delivery' });
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    delivery_status: 'failed',
  });
  await openScreen('/admin/today', { role });
  await screen.findByRole('button', { name: `Send again ${order.order_number}` });
  const link = screen.queryByRole('link', { name: `Refund or cancel ${order.order_number}` });
  expect(link !== null).toBe(may);
});

test.each(['phone', 'desktop'] as const)('the menu counts the orders to prepare, on a %s', async (on) => {
  await placePaidOrder(shop, 'Waits in the menu');
  await openScreen('/admin/today', { on, role: 'counter' });
  const links = await screen.findAllByRole('link', { name: /^Today ?\d+\+? to prepare$/ });
  expect(links.some((link) => link.closest('[data-bottom-bar]'))).toBe(true);
  expect(links.some((link) => link.closest('#sidebar'))).toBe(true);
});

test.each([
  ['counter', false],
  ['staff', true],
] as const)('which order of a customer a delivery is, for %s: %s', async (role, may) => {
  const name = `Comes back ${crypto.randomUUID()}`;
  const phone = role === 'staff' ? '0711030143' : '0711030144';
  await placePaidOrder(shop, name, phone);
  await placePaidOrder(shop, name, phone);
  await openScreen(`/admin/deliveries?search=${encodeURIComponent(name)}`, { role });
  const rows = await screen.findAllByRole('row', { name: new RegExp(name) });
  expect(rows).toHaveLength(2);
  expect(rows.filter((row) => within(row).queryByText('2nd'))).toHaveLength(may ? 1 : 0);
});
