// Printouts of an order with names and texts that break a layout.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test, vi } from 'vitest';
import { changeOrder, placePaidOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, shop } from '../../testing/staff-screens.tsx';
import { formatDate, formatDateTime } from '../ui/time/dates.ts';

async function print(orderId: string, paper: string): Promise<HTMLElement> {
  vi.stubGlobal('print', vi.fn());
  onTestFinished(() => void vi.unstubAllGlobals());
  const { press } = await openScreen(`/admin/orders/${orderId}`);
  await press(await screen.findByRole('button', { name: `Print ${paper}` }));
  await waitFor(() => expect(findSheet()).toBeTruthy());
  return findSheet() as HTMLElement;
}
const findSheet = () => document.querySelector<HTMLElement>('.print-sheet');

test('isolates right-to-left names from the phone numbers after them', async () => {
  const [customer, rider] = ['فاطمة علي', 'حسن عمر'];
  const { id } = await placePaidOrder(shop, customer, '0711030177');
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${id}`, 'PATCH', {
    delivery_person: rider,
    delivery_phone: '+254 722 123 456',
    delivery_vehicle: 'KMFA 123B',
  });
  const sheet = within(await print(id, 'Packing slip'));
  expect(sheet.getByText(customer).tagName).toBe('BDI');
  expect(sheet.getByText(customer).parentElement?.textContent).toBe(`${customer}, 0711 030 177`);
  expect(sheet.getByText(rider).tagName).toBe('BDI');
  expect(sheet.getByText(rider).parentElement?.textContent).toBe(`${rider}, +254 722 123 456, KMFA 123B`);
});

test('the receipt of an order that was paid and then cancelled says so', async () => {
  const { id } = await placePaidOrder(shop, 'Cancelled Receipt', '0711030178');
  await asOwner(shop, '/rest/v1/payments', 'POST', {
    order_id: id,
    status: 'completed',
    receipt: 'SLK7RECEIP',
    phone: '254711030178',
    charge_cents: 27_000,
    completed_at: new Date().toISOString(),
  });
  await changeOrder(shop, id, { status: 'cancelled' });
  const sheet = within(await print(id, 'Receipt'));
  sheet.getByText('SLK7RECEIP');
  sheet.getByText("Cancelled after you paid. We'll refund you or give you a call.");
  expect(sheet.queryByText('Asante!')).toBeNull();
});

test('the packing slip says the area, and when the order is promised', async () => {
  const { id } = await placePaidOrder(shop, 'Promised Slip', '0711030179');
  await changeOrder(shop, id, { promised_at: '2026-11-28T19:14:00Z', area_name: 'Kilimani' });
  const sheet = within(await print(id, 'Packing slip'));
  expect(sheet.getByText('Arrives by').nextElementSibling?.textContent).toBe(
    formatDateTime('2026-11-28T19:14:00Z'),
  );
  expect(sheet.getByText('Area').nextElementSibling?.textContent).toBe('Kilimani');
});

test('the packing slip of an agreed day names the day', async () => {
  const { id } = await placePaidOrder(shop, 'Agreed Slip', '0711030180');
  await changeOrder(shop, id, { delivery_day: '2026-12-01' });
  const sheet = within(await print(id, 'Packing slip'));
  expect(sheet.getByText('Arrives on').nextElementSibling?.textContent).toBe(
    formatDate('2026-12-01T12:00:00+03:00'),
  );
});
