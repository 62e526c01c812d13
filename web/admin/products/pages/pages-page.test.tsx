// Staff write the texts of the pages of flavors and brands.
import { randomUUID } from 'node:crypto';
import { screen, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

/** A brand with one product, which no other test has. */
async function makeBrand(isActive = true): Promise<{ name: string; slug: string }> {
  const slug = `brand-${randomUUID()}`;
  const product = { name: slug, slug, price: 95_000, brand: slug, stock_quantity: 4, is_active: isActive };
  await asOwner(shop, '/rest/v1/products', 'POST', product);
  return { name: slug, slug };
}
const textOf = async ({ slug }: { slug: string }) =>
  (await readRows<{ page_text: string }>(`brands?slug=eq.${slug}`))[0]?.page_text;
const rowOf = async ({ name }: { name: string }) => within(await screen.findByRole('listitem', { name }));

test.each(['phone', 'desktop'] as const)('a text is written and shown in its row, on a %s', async (on) => {
  const brand = await makeBrand();
  const opened = await openScreen('/admin/products/pages', { on });
  (await rowOf(brand)).getByText('No text yet.');
  expect((await rowOf(brand)).getByRole('link').getAttribute('href')).toBe(`/brands/${brand.slug}`);
  await opened.press((await rowOf(brand)).getByRole('button', { name: `Edit text: ${brand.name}` }));
  const dialog = within(await screen.findByRole('dialog', { name: `Page of ${brand.name}` }));
  await opened.user.click(dialog.getByLabelText('Text'));
  await opened.user.paste('Pressed by the sea.');
  dialog.getByText('19 of 2,000 characters');
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await (await rowOf(brand)).findByText('Pressed by the sea.');
  expect(await textOf(brand)).toBe('Pressed by the sea.');
});

test('a text that a colleague changed is not overwritten without a decision', async () => {
  const brand = await makeBrand();
  const opened = await openScreen('/admin/products/pages');
  await opened.press((await rowOf(brand)).getByRole('button', { name: `Edit text: ${brand.name}` }));
  const dialog = within(await screen.findByRole('dialog', { name: `Page of ${brand.name}` }));
  await opened.user.click(dialog.getByLabelText('Text'));
  await opened.user.paste('Mine');
  await asOwner(shop, `/rest/v1/brands?slug=eq.${brand.slug}`, 'PATCH', { page_text: 'Theirs' });
  await dialog.findByText('Theirs');
  expect(dialog.getByRole<HTMLButtonElement>('button', { name: 'Save' }).disabled).toBe(true);
  await opened.press(dialog.getByRole('button', { name: 'Keep mine' }));
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await (await rowOf(brand)).findByText('Mine');
  expect(await textOf(brand)).toBe('Mine');
});

test('a brand without an active drink has no link', async () => {
  const brand = await makeBrand(false);
  await openScreen('/admin/products/pages');
  const row = await rowOf(brand);
  row.getByText('Not shown: it has no active drink.');
  expect(row.queryByRole('link')).toBeNull();
});
