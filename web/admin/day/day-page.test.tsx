// The day's page: cash by person, its close, and what moved money. The shop is shared: each test has its own member.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { formatKes } from '../../../domain/money.ts';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { placeOrder } from '../../../e2e/placed-orders.ts';
import { asOwner, callAs, makeAccount } from '../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../testing/staff-screens.tsx';
import { shorten } from '../ui/known-names.ts';

/** A member receives the whole amount of a new order in cash, and another one opens the page of that day. */
async function openAfterCash(name: string, on: 'phone' | 'desktop' = 'desktop') {
  const [order, account] = await Promise.all([
    placeOrder(shop, name),
    makeAccount(shop, 'staff', crypto.randomUUID()),
  ]);
  const cents = Math.ceil(order.total_amount / 100) * 100;
  const answer = await callAs(shop, account, 'receive_cash', {
    order_id: order.id,
    received_cents: cents,
    received_from: 'Brian',
  });
  const { completed_at } = (await answer.json()) as { completed_at: string };
  const opened = await openScreen(`/admin/day/${nairobiDay(Date.parse(completed_at))}`, { on });
  return { ...opened, order, cents, holder: shorten(account.email) };
}

test('shows the cash of a member with its rider, asks for what was counted, and why it differs', async () => {
  const { user, cents, holder } = await openAfterCash('Cash Of Day', 'phone');
  const own = within(await screen.findByRole('listitem', { name: holder }));
  await own.findByText(`${formatKes(cents)} expected`);
  own.getByText(`Took ${formatKes(cents)} from Brian ${formatKes(cents)}`);

  const counted = own.getByLabelText('Counted (KES)');
  await user.type(counted, String(cents / 100));
  own.getByText('Exact');
  expect(own.queryByLabelText(/^Why/)).toBeNull();
  await user.clear(counted);
  await user.type(counted, String(cents / 100 - 50));
  own.getByText('KES 50 missing');
  own.getByLabelText(/^Why/);
  await user.clear(counted);
  await user.type(counted, 'a lot');
  own.getByText('–');
});

test('does not close a day before everything is counted, and says beside the field what is missing', async () => {
  const { press, holder } = await openAfterCash('Not Counted');
  await screen.findByRole('listitem', { name: holder });
  await press(screen.getByRole('button', { name: 'Close the day' }));
  const [missing] = await screen.findAllByText('Please enter what was counted');
  expect(missing).toBeDefined();
  expect(document.activeElement?.getAttribute('aria-invalid')).toBe('true');
  expect(screen.queryByRole('dialog')).toBeNull();
});

test('closes a day after a question, and shows who closed it ever after', async () => {
  // A day of the past that no other test uses: it has no cash.
  const day = '2025-03-04';
  const opened = await openScreen(`/admin/day/${day}`);
  await screen.findByText('No cash was taken or given back on this day.');
  screen.getByText('No money came in or went back on this day.');
  await opened.user.type(screen.getByLabelText('Note (optional)'), 'Shop was closed');
  await opened.press(screen.getByRole('button', { name: 'Close the day' }));
  const question = within(await screen.findByRole('dialog', { name: /^Close Tuesday/ }));
  question.getByText(/cannot be changed or opened again/);
  await opened.press(question.getByRole('button', { name: 'Close the day' }));
  await screen.findByText(new RegExp(`^Closed by ${shorten(opened.account.email)}, `));
  screen.getByText('Nothing has changed since.');
  screen.getByText('Shop was closed');
  expect(screen.queryByRole('button', { name: 'Close the day' })).toBeNull();
  expect(await readRows(`day_closes?day=eq.${day}&select=closed_by_email,note`)).toEqual([
    { closed_by_email: opened.account.email, note: 'Shop was closed' },
  ]);
});

test('shows which rider still has the cash of a delivered order, with a link to it', async () => {
  const rider = `Brian ${crypto.randomUUID().slice(0, 8)}`;
  const [order, account] = await Promise.all([
    placeOrder(shop, 'Cash Still Out', '0711030178'),
    makeAccount(shop, 'staff', crypto.randomUUID()),
  ]);
  await callAs(shop, account, 'agree_cash', { order_id: order.id });
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    delivery_person: rider,
    delivery_status: 'delivered',
  });
  await openScreen('/admin/day', { on: 'phone' });
  const charge = formatKes(Math.ceil(order.total_amount / 100) * 100);
  const link = await screen.findByRole('link', { name: `Still with ${rider}: ${charge}, 1 order` });
  expect(link.getAttribute('href')).toBe(
    `/admin/orders?payment=cash&status=delivered&rider=${encodeURIComponent(rider)}`,
  );
});

test('the question before a day is closed names the cash that is still out, and so does the closed day', async () => {
  const day = '2025-03-06';
  const due = [
    { person: 'Brian', orders: 2, cents: 190_200, open_orders: 1 },
    { person: null, orders: 1, cents: 95_100, open_orders: 1 },
    { person: 'Kevin', orders: 1, cents: 71_100, open_orders: 0 },
  ];
  // Of a day in the past, and each time: live changes read both again.
  const { fetch } = globalThis;
  onTestFinished(() => {
    globalThis.fetch = fetch;
  });
  globalThis.fetch = async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (url.includes('cash_due_of_day')) return Response.json(due);
    const answer = await fetch(input, init);
    if (!url.includes('/day_closes')) return answer;
    const closed = (await answer.text()).replace('"cash_due":[]', `"cash_due":${JSON.stringify(due)}`);
    return new Response(closed, {
      status: answer.status,
      headers: { 'content-type': answer.headers.get('content-type') ?? '' },
    });
  };
  const opened = await openScreen(`/admin/day/${day}`);
  const texts = [
    'With Brian at the end of the day: KES 1,902, 2 orders, 1 of them received since',
    'Delivered without a rider: KES 951, 1 order',
  ];
  const received = 'With Kevin at the end of the day: KES 711, 1 order, received since';
  for (const text of texts) await screen.findByRole('link', { name: text });
  screen.getByText(received);
  expect(screen.queryByRole('link', { name: received })).toBeNull();
  await opened.press(screen.getByRole('button', { name: 'Close the day' }));
  const question = within(await screen.findByRole('dialog'));
  question.getByText('Cash that is not received yet counts on the day on which it is received:');
  for (const text of texts) question.getByText(text);
  expect(question.queryByText(received)).toBeNull();

  await opened.press(question.getByRole('button', { name: 'Close the day' }));
  await screen.findByText(/^Closed by /);
  for (const text of texts) await screen.findByRole('link', { name: text });
});

test('a day that has not begun has nothing to close', async () => {
  await openScreen('/admin/day/2099-01-01');
  await screen.findByText('This day has not begun yet.');
  expect(screen.queryByRole('button', { name: 'Close the day' })).toBeNull();
});

test('a member who closes a day that a colleague has closed sees how it was closed', async () => {
  const day = '2025-03-05';
  const opened = await openScreen(`/admin/day/${day}`);
  await screen.findByText('No cash was taken or given back on this day.');
  expect(
    (await callAs(shop, opened.account, 'close_day', { day, counts: [], note: 'By the other' })).ok,
  ).toBe(true);
  expect((await callAs(shop, opened.account, 'close_day', { day, counts: [] })).status).toBe(409);
  await screen.findByText(/^Closed by /);
  screen.getByText('By the other');
});

test('lists what moved money with its order, and what is under one step only', async () => {
  const { user, order, address } = await openAfterCash('Listed Cash');
  const entries = within(await screen.findByRole('region', { name: 'What moved money' }));
  // The other tests' entries of the day come first.
  const findEntry = () =>
    waitFor(async () => {
      const more = entries.queryByRole('button', { name: 'Show more' });
      if (more) await user.click(more);
      return entries.getByRole('link', { name: order.order_number });
    });
  const link = await findEntry();
  within(link.closest('[data-row]') as HTMLElement).getByText('Cash');
  await user.selectOptions(entries.getByLabelText('Show'), 'till');
  await waitFor(() => expect(entries.queryByRole('link', { name: order.order_number })).toBeNull());
  expect(address()).toContain('show=till');
  await user.selectOptions(entries.getByLabelText('Show'), 'cash');
  await findEntry();
});
