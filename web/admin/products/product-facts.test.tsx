// Staff write the facts of a product.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { factColumns } from '../../../domain/products/product-facts.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

test.each(['phone', 'desktop'] as const)('facts are written and removed in the form, on a %s', async (on) => {
  const slug = `facts-${randomUUID()}`;
  const product = { name: slug, slug, price: 95_000, category: 'Mango', keeps: '2 days', stock_quantity: 4 };
  const [{ id }] = await (await asOwner(shop, '/rest/v1/products', 'POST', product)).json();
  const opened = await openScreen(`/admin/products?search=${slug}&edit=${id}`, { on });
  const dialog = within(await screen.findByRole('dialog', { name: 'Edit Product' }));
  const facts = within(await dialog.findByRole('group', { name: /^Facts/ }));
  await opened.user.click(facts.getByLabelText('Size'));
  await opened.user.paste('500 ml');
  await opened.user.clear(facts.getByLabelText('Keeps'));
  await opened.press(dialog.getByRole('button', { name: 'Update Product' }));
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  expect(await readRows(`products?id=eq.${id}&select=${factColumns.replaceAll(' ', '')}`)).toMatchObject([
    { size: '500 ml', keeps: null, allergens: null },
  ]);
});
