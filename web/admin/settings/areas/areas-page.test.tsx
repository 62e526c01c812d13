// Staff create, edit, sort and switch off areas of delivery.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { changeOrder, placeOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner } from '../../../../e2e/staff-member.ts';
import { openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

interface Stored {
  id: string;
  name: string;
  fee_cents: number | null;
  promise_to_minutes: number;
  needs_agreement: boolean;
  is_active: boolean;
  position: number;
  spellings: string[];
}
const stored = async (name: string) =>
  (await readRows<Stored>(`delivery_areas?name=eq.${encodeURIComponent(name)}`))[0];
/** A name that no other test has. Its area is switched off after the test: areas are not deleted. */
function newName(): string {
  const name = `Area ${crypto.randomUUID().slice(0, 8)}`;
  onTestFinished(async () => {
    await asOwner(shop, `/rest/v1/delivery_areas?name=eq.${encodeURIComponent(name)}`, 'PATCH', {
      is_active: false,
    }).catch(() => {});
  });
  return name;
}
const makeArea = async (columns: Record<string, unknown> = {}) => {
  const name = newName();
  await asOwner(shop, '/rest/v1/delivery_areas', 'POST', { name, ...columns });
  return name;
};
const rowOf = async (name: string) => within(await screen.findByRole('listitem', { name }));
test.each(['phone', 'desktop'] as const)(
  'an area is created, with each error beside its field, on a %s',
  async (on) => {
    const other = await makeArea();
    const name = newName();
    const opened = await openScreen('/admin/settings/areas', { on });
    await opened.press(await screen.findByRole('button', { name: 'New area' }));
    const dialog = within(await screen.findByRole('dialog', { name: 'New area' }));
    const save = dialog.getByRole('button', { name: 'Save' });
    await opened.press(save);
    await dialog.findByText('A name has 2 to 60 characters');
    await waitFor(() => expect(document.activeElement?.getAttribute('name')).toBe('name'));
    await opened.user.click(dialog.getByRole('radio', { name: 'Its own' }));
    await opened.fill(dialog.getByLabelText(/^Name/), other);
    await opened.press(save);
    await dialog.findByText('A fee is whole shillings. 0 means free');
    await opened.fill(dialog.getByLabelText(/^Fee/), '350');
    await opened.fill(dialog.getByLabelText(/^Arrives within/), '90');
    dialog.getByText('Customers read: 15-90 minutes');
    await opened.press(save);
    await dialog.findByText('There is an area with this name');
    await opened.fill(dialog.getByLabelText(/^Name/), name);
    await opened.fill(dialog.getByLabelText(/^Other names/), 'Hub, Hardy');
    await opened.press(save);
    (await rowOf(name)).getByText('KES 350 · 15-90 minutes');
    expect(await stored(name)).toMatchObject({
      fee_cents: 35_000,
      promise_to_minutes: 90,
      spellings: ['Hardy', 'Hub'],
    });
  },
);

test('an area is edited: its fee is agreed each time', async () => {
  const name = await makeArea({ fee_cents: 50_000 });
  const opened = await openScreen('/admin/settings/areas', { on: 'desktop' });
  await opened.press((await rowOf(name)).getByRole('button', { name: `Edit: ${name}` }));
  const dialog = within(await screen.findByRole('dialog', { name }));
  await opened.user.click(dialog.getByRole('radio', { name: 'Agreed each time' }));
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await (await rowOf(name)).findByText('Fee and day agreed with each customer');
  expect(await stored(name)).toMatchObject({ needs_agreement: true, fee_cents: 50_000 });
});

test('an area is switched off and on again', async () => {
  const name = await makeArea();
  const opened = await openScreen('/admin/settings/areas', { on: 'phone' });
  await opened.press((await rowOf(name)).getByRole('button', { name: `Switch off: ${name}` }));
  const on = await (await rowOf(name)).findByRole('button', { name: `Switch on: ${name}` });
  expect(await stored(name)).toMatchObject({ is_active: false });
  await opened.press(on);
  await (await rowOf(name)).findByRole('button', { name: `Switch off: ${name}` });
  expect(await stored(name)).toMatchObject({ is_active: true });
});

test('an area moves by its button and by the arrow keys, and keeps the focus', async () => {
  const first = await makeArea();
  const second = await makeArea();
  const opened = await openScreen('/admin/settings/areas', { on: 'desktop' });
  const isBefore = async (one: string, other: string) => {
    const [a, b] = [await stored(one), await stored(other)];
    return a !== undefined && b !== undefined && a.position < b.position;
  };
  const placeOf = (name: string) =>
    screen.getAllByRole('listitem').findIndex((item) => item.getAttribute('aria-label') === name);
  await rowOf(second);
  const before = placeOf(second);
  const up = (await rowOf(second)).getByRole('button', { name: `Move ${second} up` });
  await opened.press(up);
  await waitFor(() => expect(placeOf(second)).toBeLessThan(before));
  expect(document.activeElement?.getAttribute('aria-label')).toBe(`Move ${second} up`);
  // Another test may add areas to the shared shop, which refuses a list that lacks them: until it is stored.
  await waitFor(async () => {
    if (await isBefore(second, first)) return;
    await opened.press((await rowOf(second)).getByRole('button', { name: `Move ${second} up` }));
    throw new Error('not yet');
  });
  const handle = (await rowOf(second)).getByRole('button', { name: /^Move .*drag it/ });
  handle.focus();
  await waitFor(async () => {
    if (await isBefore(first, second)) return;
    await opened.user.keyboard('{ArrowDown}');
    throw new Error('not yet');
  });
  expect(document.activeElement).toBe(handle);
});

test('beside an area stands what its last twenty deliveries took, and its promise takes that over', async () => {
  const name = await makeArea({ promise_to_minutes: 30 });
  const id = (await stored(name))?.id;
  const earlier = new Date(Date.now() - 52 * 60_000).toISOString();
  for (let index = 0; index < 20; index++) {
    const order = await placeOrder(shop, 'Learned from', `07110302${String(index).padStart(2, '0')}`, {
      area_id: id,
    });
    await changeOrder(shop, order.id, { payment_status: 'paid', status: 'processing', reserved_until: null });
    await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: order.id, created_at: earlier });
    await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
      delivery_person: 'Joseph Otieno',
      delivery_phone: '0722 123 456',
      delivery_vehicle: 'KMFA 123B',
      delivery_status: 'delivered',
    });
  }
  await asOwner(shop, '/rest/v1/rpc/learn_delivery_times', 'POST', {});
  const opened = await openScreen('/admin/settings/areas', { on: 'desktop' });
  await (await rowOf(name)).findByText(/^Took 5\d minutes, 9 of 10 up to \d+ \(20 deliveries in 30 days\)/);
  await opened.press((await rowOf(name)).getByRole('button', { name: `Edit: ${name}` }));
  const dialog = within(await screen.findByRole('dialog', { name }));
  await opened.press(await dialog.findByRole('button', { name: /^Promise \d+ minutes$/ }));
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await waitFor(async () => expect((await stored(name))?.promise_to_minutes).toBeGreaterThan(50));
});
