// Implausible prices and fees are asked about, can be undone, and can be looked up.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

interface Product {
  id: string;
  name: string;
  price: number;
}
const readPrice = async (id: string) => (await readRows<Product>(`products?id=eq.${id}`))[0]?.price;

test('a price of 0 is saved only after a question, can be undone, and is in the history', async () => {
  // Each attempt its own: a price of 0 is not asked about twice.
  const slug = `priced-${crypto.randomUUID()}`;
  const drink = { name: slug, slug, price: 145_000, category: 'Mango', stock_quantity: 40 };
  const made = await asOwner(shop, '/rest/v1/products', 'POST', drink);
  const [{ id, name, price }] = (await made.json()) as [Product];
  const opened = await openScreen(`/admin/products?edit=${id}`);
  const form = within(await screen.findByRole('dialog'));
  await opened.fill(await form.findByLabelText(/^Price/), '0');
  await opened.press(form.getByRole('button', { name: 'Update Product' }));
  await screen.findByText(/The price is 0: customers get it for nothing/);
  expect(await readPrice(id)).toBe(price);
  await opened.press(screen.getByRole('button', { name: 'Change it' }));
  await waitFor(() => expect(screen.queryByText(/customers get it for nothing/)).toBeNull());
  expect(await readPrice(id)).toBe(price);

  await opened.press(form.getByRole('button', { name: 'Update Product' }));
  await opened.press(await screen.findByRole('button', { name: 'Save it like this' }));
  const undo = await screen.findByRole('button', { name: new RegExp(`^Undo ${name}`) });
  expect(await readPrice(id)).toBe(0);
  await opened.press(undo);
  await screen.findByText(new RegExp(`^${name}: KES [\\d,.]+ again`));
  expect(await readPrice(id)).toBe(price);
  expect(
    await readRows(`price_changes?product_id=eq.${id}&select=from_cents,to_cents,changed_by_email&order=id`),
  ).toEqual([
    { from_cents: price, to_cents: 0, changed_by_email: opened.account.email },
    { from_cents: 0, to_cents: price, changed_by_email: opened.account.email },
  ]);
});

test('a changed price may have a reason, which its history shows', async () => {
  const slug = `priced-${crypto.randomUUID()}`;
  const drink = { name: slug, slug, price: 95_000, category: 'Mango', stock_quantity: 40 };
  const [{ id }] = await (await asOwner(shop, '/rest/v1/products', 'POST', drink)).json();
  const opened = await openScreen(`/admin/products?search=${slug}&edit=${id}`);
  const form = within(await screen.findByRole('dialog', { name: 'Edit Product' }));
  const price = await form.findByLabelText(/^Price/);
  expect(form.queryByLabelText('Why')).toBeNull();
  await opened.fill(price, '990');
  const why = form.getByLabelText('Why');
  await opened.fill(why, 'ab');
  await opened.press(form.getByRole('button', { name: 'Update Product' }));
  await form.findByText('Please say why, in 3 to 200 characters');
  expect(document.activeElement).toBe(why);
  await opened.fill(why, 'Sugar costs more');
  await opened.press(form.getByRole('button', { name: 'Update Product' }));
  await screen.findByRole('button', { name: new RegExp(`^Undo ${slug}`) });
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await opened.user.click(await screen.findByRole('link', { name: `Edit ${slug}` }));
  const dialog = within(await screen.findByRole('dialog', { name: 'Edit Product' }));
  await opened.user.click(await dialog.findByText('Stock and price history'));
  const history = within(await dialog.findByRole('list', { name: 'Stock and price history' }));
  expect(history.getByText(/Sugar costs more/).textContent).toBe('Price: Sugar costs more');
});

test('a fee of 15,000 is saved only after a question', async () => {
  const opened = await openScreen('/admin/settings?section=delivery');
  const field = await screen.findByLabelText<HTMLInputElement>(/^Delivery fee/);
  await opened.fill(field, '15000');
  await opened.user.click(screen.getByRole('button', { name: /^Save/ }));
  await screen.findByText(/The delivery fee goes from KES 1 to KES 15,000, for every order/);
  await opened.press(screen.getByRole('button', { name: 'Change it' }));
  const [row] = await readRows<{ delivery_fee: number }>('store_settings?select=delivery_fee');
  expect(row?.delivery_fee).toBe(100);
});
