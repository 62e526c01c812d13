// A drink is sold out for an hour or until tomorrow, in the list and in its form.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

interface Product {
  id: string;
  name: string;
  stock_quantity: number;
  units_for_sale: number;
  sold_out_until: string | null;
}
const read = async (slug: string) =>
  (
    await readRows<Product>(
      `products?slug=eq.${slug}&select=id,name,stock_quantity,units_for_sale,sold_out_until`,
    )
  )[0] as Product;
/** A product of this test alone. */
async function makeProduct(name: string): Promise<Product> {
  const slug = name.toLowerCase().replaceAll(' ', '-');
  await asOwner(shop, '/rest/v1/products', 'POST', {
    name,
    slug,
    price: 90_000,
    stock_quantity: 40,
    category: 'Mango',
  });
  return read(slug);
}
const minutesUntil = (time: string | null) => (Date.parse(time ?? '') - Date.now()) / 60_000;

test.each(['phone', 'desktop'] as const)(
  'the list sells a drink out for an hour, says so, and sells it again, on a %s',
  async (on) => {
    const { name } = await makeProduct(`Baobab ${on}`);
    const slug = `baobab-${on}`;
    const opened = await openScreen(`/admin/products?search=${encodeURIComponent(name)}`, { on });
    const choose = async (label: string) => {
      await opened.press(await screen.findByRole('button', { name: `More for ${name}` }));
      await opened.user.click(await screen.findByRole('menuitem', { name: label }));
    };
    await choose('Sold out for an hour');
    const list = within(await screen.findByRole('main'));
    // With the day when the hour ends after midnight.
    await list.findByText(/^Sold out until (?:\d+ \w+, |\w+ \d+, )?\d+:\d\d/);
    const soldOut = await read(slug);
    expect(soldOut).toMatchObject({ stock_quantity: 40, units_for_sale: 0 });
    expect(Math.round(minutesUntil(soldOut.sold_out_until))).toBe(60);

    await choose('Sell again');
    await waitFor(() => expect(list.queryByText(/^Sold out until/)).toBeNull());
    expect(await read(slug)).toMatchObject({ units_for_sale: 40, sold_out_until: null });
  },
);

test('the form of a drink sells it out until tomorrow at once, and loses nothing that was typed', async () => {
  const { id } = await makeProduct('Baobab Form');
  const opened = await openScreen(`/admin/products?edit=${id}`);
  const dialog = within(await screen.findByRole('dialog'));
  const tagline = await dialog.findByLabelText('Product Tagline');
  await opened.user.click(tagline);
  await opened.user.paste('From the coast');
  const section = within(dialog.getByRole('region', { name: 'Sold out for a while' }));
  expect(section.queryByRole('button', { name: 'Sell again' })).toBeNull();
  await opened.press(section.getByRole('button', { name: 'Sold out until tomorrow, 6:00' }));
  await section.findByRole('button', { name: 'Sell again' });
  const { sold_out_until } = await read('baobab-form');
  expect(sold_out_until).toMatch(/T03:00:00/);
  await opened.press(dialog.getByRole('button', { name: 'Update Product' }));
  await waitFor(async () =>
    expect(await readRows(`products?id=eq.${id}&select=tagline,sold_out_until`)).toEqual([
      { tagline: 'From the coast', sold_out_until },
    ]),
  );
});

test('the form of a drink says how many customers wait for a text', async () => {
  const { id } = await makeProduct('Baobab Awaited');
  await asOwner(shop, `/rest/v1/products?id=eq.${id}`, 'PATCH', { stock_quantity: 0 });
  const ask = (phone: string) =>
    asOwner(shop, '/rest/v1/rpc/request_stock_alert', 'POST', { product_id: id, phone, has_consented: true });
  await ask('0711009911');
  await ask('0711009912');
  await openScreen(`/admin/products?edit=${id}`);
  const dialog = within(await screen.findByRole('dialog'));
  await dialog.findByText(/^2 customers wait for a text when it is back/);
});
