import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, shop } from '../../testing/staff-screens.tsx';

test('a dialog that opens while a busy device goes back from another one stays open', async () => {
  const slug = `busy-${crypto.randomUUID()}`;
  const drink = { name: slug, slug, price: 145_000, category: 'Mango', stock_quantity: 40 };
  const [{ id }] = await (await asOwner(shop, '/rest/v1/products', 'POST', drink)).json();
  const opened = await openScreen(`/admin/products?edit=${id}`);
  const form = within(await screen.findByRole('dialog'));
  await opened.fill(await form.findByLabelText(/^Price/), '0');
  const update = form.getByRole('button', { name: 'Update Product' });
  await opened.press(update);
  const question = /The price is 0: customers get it for nothing/;
  await screen.findByText(question);

  let hasGoneBack = false;
  const askAgain = () => {
    update.click();
    // Longer than a step in the history may take before it counts as refused.
    for (const end = Date.now() + 1200; Date.now() < end; );
    hasGoneBack = true;
  };
  window.addEventListener('popstate', askAgain, { once: true });
  onTestFinished(() => window.removeEventListener('popstate', askAgain));
  await opened.press(screen.getByRole('button', { name: 'Change it' }));
  await waitFor(() => expect(hasGoneBack).toBe(true));
  await waitFor(() =>
    expect(window.history.state.usr, 'the entry of the second question').toEqual({ dialogs: 1 }),
  );
  screen.getByText(question);
});
