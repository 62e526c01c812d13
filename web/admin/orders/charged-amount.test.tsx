// Staff screens show what was charged, in whole shillings, once an order is paid.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test, vi } from 'vitest';
import { changeOrder, placeOrder, placePaidOrder } from '../../../e2e/placed-orders.ts';
import { openScreen, shop } from '../../testing/staff-screens.tsx';

/** KES 1,300.50, of which M-PESA charges 1,301. */
const fraction = { total_amount: 130_050 };
const exact = /1,300\.5/;

test.each(['phone', 'desktop'] as const)(
  'the list of orders on a %s shows the charge of a paid order',
  async (on) => {
    const paid = await placePaidOrder(shop, `Charged ${on}`);
    const unpaid = await placeOrder(shop, `Charged ${on}`);
    for (const { id } of [paid, unpaid]) await changeOrder(shop, id, fraction);
    await openScreen(`/admin/orders?search=Charged+${on}`, { on });
    await screen.findByText('KES 1,301');
    expect(screen.getAllByText(exact)).toHaveLength(1);
  },
);

test('an order and its printed receipt add up to the charge', async () => {
  vi.stubGlobal('print', vi.fn());
  onTestFinished(() => void vi.unstubAllGlobals());
  const { id } = await placePaidOrder(shop, 'Charged whole');
  await changeOrder(shop, id, fraction);
  const { press } = await openScreen(`/admin/orders/${id}`);
  const dialog = within(await screen.findByRole('dialog'));
  await dialog.findByText('Rounded up to whole shillings');
  expect(dialog.getAllByText('KES 1,301').length).toBeGreaterThan(0);
  expect(dialog.getByText('KES 0.5')).toBeTruthy();
  expect(dialog.queryByText(exact)).toBeNull();
  await press(dialog.getByRole('button', { name: 'Print Receipt' }));
  await waitFor(() => expect(document.querySelector('.print-sheet')).toBeTruthy());
  const sheet = within(document.querySelector('.print-sheet') as HTMLElement);
  sheet.getByText('KES 1,301');
  expect(sheet.queryByText(exact)).toBeNull();
});

test('an assignment shows the charge', async () => {
  const { id } = await placePaidOrder(shop, 'Charged delivery');
  await changeOrder(shop, id, fraction);
  const { press } = await openScreen('/admin/deliveries?search=Charged+delivery');
  await press(await screen.findByRole('button', { name: /^Assign/ }));
  await within(await screen.findByRole('dialog')).findByText(/KES 1,301/);
  expect(screen.queryByText(exact)).toBeNull();
});
