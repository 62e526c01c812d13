// Customers by phone: the list, the page of one, notes, blocking, and what a new order shows of them.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { placeOrder } from '../../../e2e/placed-orders.ts';
import { openScreen, shop } from '../../testing/staff-screens.tsx';

const newPhone = () => `+2547${String(Math.floor(Math.random() * 1e8)).padStart(8, '0')}`;

async function customerWith(name: string, orders: number, phone = newPhone()): Promise<string> {
  for (let count = 0; count < orders; count += 1) await placeOrder(shop, name, phone);
  return phone;
}
const dialogOf = async (name: string | RegExp) => within(await screen.findByRole('dialog', { name }));

test('a customer is found by name, and the page has orders, notes and the block', async () => {
  const phone = await customerWith('Listed Twice', 2);
  const opened = await openScreen('/admin/customers?search=Listed+Twice');
  const row = within(await screen.findByRole('row', { name: /Listed Twice/ }));
  row.getByText('Repeat customer');
  await opened.press(row.getByRole('link', { name: 'Listed Twice' }));
  const dialog = await dialogOf(/^Listed Twice/);
  expect((await dialog.findAllByRole('link', { name: /^ORD-/ })).length).toBe(2);

  await opened.user.type(dialog.getByLabelText(/^What colleagues should know/), 'Rings twice');
  await opened.press(dialog.getByRole('button', { name: 'Save notes' }));
  await dialog.findByText(/^admin@|Staff|@/);
  await waitFor(() => expect(dialog.queryByRole('button', { name: 'Save notes' })).toBeNull());

  await opened.press(dialog.getByRole('button', { name: 'Block this phone' }));
  // Invisible characters: the database refuses them, beside the field.
  await opened.user.click(dialog.getByLabelText(/^Reason/));
  await opened.user.paste('\u200b\u200b\u200b');
  await opened.press(dialog.getByRole('button', { name: /^Block 07/ }));
  await dialog.findByText('Please say why, in 3 to 200 characters');
  await opened.user.clear(dialog.getByLabelText(/^Reason/));
  await opened.press(dialog.getByRole('button', { name: /^Block 07/ }));
  await dialog.findByText('Please say why, in 3 to 200 characters');
  await opened.user.type(dialog.getByLabelText(/^Reason/), 'Never opens the door');
  await opened.press(dialog.getByRole('button', { name: /^Block 07/ }));
  await dialog.findByText(/“Never opens the door”/);
  await dialog.findByRole('heading', { name: 'Blocked' });

  await openScreen(`/admin/orders/new?phone=${encodeURIComponent(phone)}`);
  await screen.findByText('This phone is blocked on the storefront');
  await screen.findByText('Notes: Rings twice');

  const again = await openScreen(`/admin/customers/${phone}`);
  const page = await dialogOf(/^Listed Twice/);
  await again.press(await page.findByRole('button', { name: 'Unblock' }));
  const question = await dialogOf(/^Unblock 07/);
  await again.user.click(question.getByRole('button', { name: 'Unblock' }));
  await screen.findByRole('button', { name: 'Block this phone' });
});

test('an order shows which one of its customer it is, and leads to the customer', async () => {
  const phone = await customerWith('Third Order', 2);
  const order = await placeOrder(shop, 'Third Order', phone);
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const dialog = await dialogOf(new RegExp(`^Order ${order.order_number}`));
  await opened.press(await dialog.findByRole('link', { name: /^3rd order/ }));
  await dialogOf(/^Third Order/);
});

test('a phone without orders can be looked at, and an address that is none says so', async () => {
  const phone = newPhone();
  await openScreen(`/admin/customers/${phone}`);
  const dialog = await dialogOf(new RegExp(`^0${phone.slice(4, 7)}`));
  await dialog.findByText('No order has this phone');
  const opened = await openScreen('/admin/customers/nobody');
  const wrong = await dialogOf('This is no phone number');
  await opened.press(wrong.getByRole('button', { name: 'Back to the list' }));
  await waitFor(() => expect(screen.queryByRole('dialog', { name: 'This is no phone number' })).toBeNull());
});
