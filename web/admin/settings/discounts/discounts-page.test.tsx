// Staff create, edit, end and delete discount codes.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { placeOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { interceptNext, openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

interface Stored {
  code: string;
  percent: number | null;
  amount_cents: number | null;
  minimum_cents: number;
  max_uses: number | null;
  max_uses_per_phone: number | null;
  is_active: boolean;
}
const stored = (code: string) => readRows<Stored>(`discount_codes?code=eq.${code}`);
/** A name that no other test has. It is deleted after the test, if no order has it. */
function newCode(): string {
  const code = `T-${crypto.randomUUID().slice(0, 8).toUpperCase()}`;
  onTestFinished(async () => {
    await asOwner(shop, `/rest/v1/discount_codes?code=eq.${code}`, 'DELETE').catch(() => {});
  });
  return code;
}
const makeCode = async (columns: Record<string, unknown> = {}) => {
  const code = newCode();
  await asOwner(shop, '/rest/v1/discount_codes', 'POST', { code, percent: 10, ...columns });
  return code;
};
const rowOf = async (code: string) => within(await screen.findByRole('listitem', { name: code }));
test.each(['phone', 'desktop'] as const)(
  'a code is created, with each error beside its field, on a %s',
  async (on) => {
    const other = await makeCode();
    const code = newCode();
    const opened = await openScreen('/admin/settings/discounts', { on });
    await opened.press(await screen.findByRole('button', { name: 'New code' }));
    const dialog = within(await screen.findByRole('dialog', { name: 'New discount code' }));
    const save = dialog.getByRole('button', { name: 'Save' });
    await opened.press(save);
    await dialog.findByText('A code has 3 to 20 letters, digits and hyphens');
    await waitFor(() => expect(document.activeElement?.getAttribute('name')).toBe('code'));
    await opened.user.click(dialog.getByRole('radio', { name: 'Amount' }));
    await opened.fill(dialog.getByLabelText(/^Amount off/), '0.5');
    await opened.press(save);
    await dialog.findByText('An amount is whole shillings, at least 1');
    await opened.fill(dialog.getByLabelText(/^Amount off/), '200');
    await opened.fill(dialog.getByLabelText(/^Minimum of drinks/), '1000');
    await opened.fill(dialog.getByLabelText('Uses in all'), '50');
    await opened.fill(dialog.getByLabelText(/^Code/), other.toLowerCase());
    await opened.press(save);
    await dialog.findByText('There is a code with this name already');
    await opened.fill(dialog.getByLabelText(/^Code/), code.toLowerCase());
    await opened.press(save);
    const row = await rowOf(code);
    row.getByText('KES 200 off');
    row.getByText(/drinks from KES 1,000 · once per phone/);
    row.getByText('0 of 50');
    expect(await stored(code)).toMatchObject([
      {
        amount_cents: 20_000,
        percent: null,
        minimum_cents: 100_000,
        max_uses: 50,
        max_uses_per_phone: 1,
        is_active: true,
      },
    ]);
  },
);

test('a code is ended and started again in its row', async () => {
  const code = await makeCode();
  const opened = await openScreen('/admin/settings/discounts');
  const row = await rowOf(code);
  row.getByText('Active');
  await opened.press(row.getByRole('button', { name: `End: ${code}` }));
  await row.findByText('Ended');
  expect(await stored(code)).toMatchObject([{ is_active: false }]);
  await opened.press(await row.findByRole('button', { name: `Start again: ${code}` }));
  await row.findByText('Active');
  expect(await stored(code)).toMatchObject([{ is_active: true }]);
});

test('the list shows uses and cost, and the code of an order keeps its discount and cannot be deleted', async () => {
  const code = await makeCode();
  const [mango] = await readRows<{ price: number }>('products?slug=eq.mango-bottle&select=price');
  const off = Math.ceil(((mango?.price ?? 0) * 10) / 10_000) * 100;
  const order = { discount_code: code, expected_total: (mango?.price ?? 0) - off + 100 };
  await placeOrder(shop, 'Code waits', '0711039001', order);
  const paid = await placeOrder(shop, 'Code paid', '0711039002', order);
  await asOwner(shop, `/rest/v1/orders?id=eq.${paid.id}`, 'PATCH', {
    payment_status: 'paid',
    status: 'processing',
    reserved_until: null,
  });
  const opened = await openScreen('/admin/settings/discounts');
  const row = await rowOf(code);
  row.getByText('2');
  row.getByText('1 not paid yet');
  row.getByText(`KES ${off / 100}`);
  await opened.press(row.getByRole('button', { name: `Edit: ${code}` }));
  const dialog = within(await screen.findByRole('dialog', { name: `Discount code ${code}` }));
  dialog.getByText(/^Orders have this code/);
  dialog.getByText('10 % off');
  expect(dialog.queryByRole('button', { name: 'Delete' })).toBeNull();
  expect(dialog.queryByLabelText(/^Percent off/)).toBeNull();
  await opened.fill(dialog.getByLabelText('Uses per phone'), '2');
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await waitFor(async () =>
    expect(await stored(code)).toMatchObject([{ max_uses_per_phone: 2, percent: 10 }]),
  );
});

test('an unused code is deleted after a question, and the change of a colleague is shown', async () => {
  const code = await makeCode();
  const opened = await openScreen('/admin/settings/discounts', {
    expected: /Failed to save the discount code/,
  });
  await opened.press((await rowOf(code)).getByRole('button', { name: `Edit: ${code}` }));
  const dialog = within(await screen.findByRole('dialog', { name: `Discount code ${code}` }));
  await opened.fill(dialog.getByLabelText('Uses in all'), '5');
  interceptNext('discount_codes?', async (go) => {
    await asOwner(shop, `/rest/v1/discount_codes?code=eq.${code}`, 'PATCH', { percent: 20 });
    return go();
  });
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await dialog.findByText(new RegExp(`^${code} · 20 % off`));
  await opened.press(dialog.getByRole('button', { name: 'Keep their changes' }));
  expect(dialog.getByLabelText<HTMLInputElement>(/^Percent off/).value).toBe('20');
  await opened.press(dialog.getByRole('button', { name: 'Delete' }));
  await opened.press(dialog.getByRole('button', { name: 'Delete code' }));
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await waitFor(() => expect(screen.queryByRole('listitem', { name: code })).toBeNull());
  expect(await stored(code)).toEqual([]);
});

test('any code is found by a part of it, the others come page by page, and its dialog opens by its address', async () => {
  const code = await makeCode({ created_at: '2020-01-01T00:00:00Z' });
  const part = code.slice(2);
  // Newer ones that fill the first page.
  const others = Array.from({ length: 30 }, () => newCode());
  await asOwner(
    shop,
    '/rest/v1/discount_codes',
    'POST',
    others.map((each) => ({ code: each, percent: 10 })),
  );
  const opened = await openScreen('/admin/settings/discounts');
  await screen.findByRole('button', { name: 'Show more' });
  expect(screen.queryByRole('listitem', { name: code })).toBeNull();
  const search = screen.getByRole('searchbox', { name: 'Search codes' });
  await opened.fill(search, part.toLowerCase());
  const row = await rowOf(code);
  await waitFor(() =>
    expect(opened.address()).toBe(`/admin/settings/discounts?search=${part.toLowerCase()}`),
  );
  await waitFor(() => expect(screen.queryByRole('button', { name: 'Show more' })).toBeNull());
  await opened.press(row.getByRole('button', { name: `Edit: ${code}` }));
  await screen.findByRole('dialog', { name: `Discount code ${code}` });
  await opened.user.keyboard('{Escape}');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await opened.fill(search, `${part}NOT`);
  await opened.press(await screen.findByRole('button', { name: 'Show all discount codes' }));
  await opened.press(await screen.findByRole('button', { name: 'Show more' }));
  await screen.findByRole('listitem', { name: others.at(0) ?? '' });
});

test('a code on none of the pages that are shown opens by its address', async () => {
  const code = await makeCode({ created_at: '2020-01-01T00:00:00Z' });
  const [row] = await readRows<{ id: string }>(`discount_codes?code=eq.${code}&select=id`);
  await openScreen(`/admin/settings/discounts?search=NONE-HAS-THIS&edit=${row?.id}`);
  const dialog = within(await screen.findByRole('dialog', { name: `Discount code ${code}` }));
  expect((await dialog.findByLabelText<HTMLInputElement>(/^Percent off/)).value).toBe('10');
});
