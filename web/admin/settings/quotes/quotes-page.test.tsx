// Owners choose the words of customers that the home page shows.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { placePaidOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

async function rated(words: string, mayQuote: boolean) {
  const { id } = await placePaidOrder(shop, 'Wanjiku Njeri');
  await asOwner(shop, '/rest/v1/ratings', 'POST', { order_id: id, stars: 5, words, may_quote: mayQuote });
  return id;
}
const isQuoted = async (id: string) =>
  (await readRows<{ quoted_at: string | null }>(`ratings?order_id=eq.${id}&select=quoted_at`))[0]
    ?.quoted_at !== null;
const newWords = (text: string) => `${text} ${crypto.randomUUID().slice(0, 8)}`;
const lineOf = async (words: string) => {
  const line = (await screen.findByText(words)).closest('li');
  return line ? within(line) : expect.fail('not in a list');
};

test('words with consent are shown on the home page and taken off', async () => {
  const words = newWords('Ice-cold at the door');
  const secret = newWords('For the team');
  const [id] = [await rated(words, true), await rated(secret, false)];
  const opened = await openScreen('/admin/settings/quotes', { on: 'phone' });
  const line = await lineOf(words);
  expect(screen.queryByText(secret)).toBeNull();
  await opened.press(line.getByRole('button', { name: /^Show: Wanjiku Njeri/ }));
  await line.findByText('On the home page');
  expect(await isQuoted(id)).toBe(true);
  await opened.press(line.getByRole('button', { name: /^Take off: Wanjiku Njeri/ }));
  await waitFor(() => expect(line.queryByText('On the home page')).toBeNull());
  expect(await isQuoted(id)).toBe(false);
});

test('words that the customer changed since are not shown', async () => {
  const words = newWords('Very good');
  const id = await rated(words, true);
  const opened = await openScreen('/admin/settings/quotes', {
    expected: /The customer has changed this in the meantime/,
  });
  const line = await lineOf(words);
  await asOwner(shop, `/rest/v1/ratings?order_id=eq.${id}`, 'PATCH', {
    updated_at: new Date().toISOString(),
  });
  await opened.press(line.getByRole('button', { name: /^Show: / }));
  await screen.findByText(/The customer has changed this in the meantime/);
  expect(await isQuoted(id)).toBe(false);
});

test('words that the home page no longer shows say so', async () => {
  const chosen = Array.from({ length: 7 }, (_, n) => newWords(`Number ${n}`));
  for (const words of chosen) {
    const order_id = await rated(words, true);
    const [row] = await readRows<{ updated_at: string }>(`ratings?order_id=eq.${order_id}&select=updated_at`);
    const seen = { order_id, is_quoted: true, seen_updated_at: row?.updated_at };
    await asOwner(shop, '/rest/v1/rpc/quote_rating', 'POST', seen);
  }
  await openScreen('/admin/settings/quotes');
  const [first = '', second = ''] = chosen;
  (await lineOf(first)).getByText('Not among the last six');
  (await lineOf(second)).getByText('On the home page');
});
