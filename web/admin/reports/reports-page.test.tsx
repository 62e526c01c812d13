// Reports: the span in the URL, empty spans, and the same money as the day's page.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { changeOrder, placeOrder, placePaidOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { interceptNext, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';
import { dayAfter } from '../ui/time/nairobi-day.ts';

test('shows the span of the URL, and says in a sentence that it is empty', async () => {
  await openScreen('/admin/reports?span=range&from=2025-01-01&until=2025-01-31');
  await screen.findByText(/^No orders were placed and no money moved in this time\./);
  screen.getByText(/^Wed, .*1.* to Fri, .*31/);
});

test('asks for both days of a span beside them, and keeps the choice in the URL', async () => {
  const opened = await openScreen('/admin/reports', { on: 'phone' });
  await opened.press(await screen.findByRole('button', { name: 'Choose days' }));
  await screen.findByText('Please choose the first and the last day.');
  expect(opened.address()).toBe('/admin/reports?span=range');
  await opened.press(screen.getByRole('button', { name: 'This month' }));
  await waitFor(() => expect(opened.address()).toBe('/admin/reports?span=month'));
  await waitFor(() =>
    expect(screen.getByRole('button', { name: 'This month' }).getAttribute('aria-pressed')).toBe('true'),
  );
});

test('refuses a span of more than a year in words', async () => {
  await openScreen('/admin/reports?span=range&from=2024-01-01&until=2025-12-31');
  await screen.findByText('Please choose up to one year.');
});

test('has a table beneath each chart, and a file of each table', async () => {
  await placePaidOrder(shop, 'Reported Order');
  interceptNext('/rpc/report', async (send) =>
    Response.json({ ...((await (await send()).json()) as object), discounts: [] }),
  );
  const today = nairobiDay(Date.now());
  const opened = await openScreen(`/admin/reports?span=range&from=${dayAfter(today, -1)}&until=${today}`, {
    // The document of the tests has no layout.
    expected: /^The width\(0\) and height\(0\) of chart/,
  });
  const days = within(await screen.findByRole('region', { name: 'Money and orders by day' }));
  days.getByRole('img', { name: /^Chart: Money received/ });
  await opened.user.click(days.getByText('Figures as a table'));
  days.getByRole('columnheader', { name: 'Received (KES)' });
  expect(days.getByRole('link', { name: today }).getAttribute('href')).toBe(`/admin/day/${today}`);
  days.getByRole('button', { name: 'CSV of money and orders by day' });
  for (const title of ['Paid orders by hour', 'Drinks', 'Areas', 'Riders', 'Refunds', 'Why prompts failed']) {
    screen.getByRole('region', { name: title });
  }
  expect(screen.queryByRole('region', { name: 'Discount codes' })).toBeNull();
  for (const title of [
    'Deliveries by area',
    'Deliveries by hour',
    'Deliveries by rider',
    'Why goods came back',
  ]) {
    await screen.findByRole('region', { name: title });
  }
});

test('lists what discount codes took off paid orders, with its total and file', async () => {
  await asOwner(shop, '/rest/v1/discount_codes', 'POST', { code: 'REPORTED', amount_cents: 12_300 });
  const [drink] = await readRows<{ price: number }>('products?slug=eq.mango-bottle');
  const order = await placeOrder(shop, 'Discounted Order', '0711030179', {
    discount_code: 'REPORTED',
    expected_total: (drink?.price ?? 0) + 100 - 12_300,
  });
  await changeOrder(shop, order.id, { payment_status: 'paid', status: 'processing', reserved_until: null });
  await openScreen('/admin/reports?span=today', {
    expected: /^The width\(0\) and height\(0\) of chart/,
  });
  const codes = within(await screen.findByRole('region', { name: 'Discount codes' }));
  const row = within(
    (await codes.findByRole('rowheader', { name: 'REPORTED' })).closest('tr') as HTMLElement,
  );
  expect(row.getAllByRole('cell').map((cell) => cell.textContent)).toEqual(['1', '123']);
  codes.getByText(/^Of paid orders: KES [\d,]+ off their drinks\.$/);
  codes.getByRole('button', { name: 'CSV of discount codes' });
});
