// Staff add, change and deactivate riders, and open and end their links.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { asOwner } from '../../../e2e/staff-member.ts';
import { type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

interface Stored {
  id: string;
  name: string;
  phone: string;
  plate: string;
  is_active: boolean;
}
const stored = (name: string) => readRows<Stored>(`riders?name=eq.${encodeURIComponent(name)}`);
/** A name and a phone that no other test has. The rider is deleted after the test. */
function newRider(): { name: string; phone: string } {
  const id = crypto.randomUUID().slice(0, 6);
  const name = `Rider ${id}`;
  onTestFinished(async () => {
    await asOwner(shop, `/rest/v1/riders?name=like.${encodeURIComponent(name)}*`, 'DELETE').catch(() => {});
  });
  return {
    name,
    phone: `07${String(Number.parseInt(id, 16) * 5 + 10_000_000)
      .padStart(8, '0')
      .slice(0, 8)}`,
  };
}
async function makeRider() {
  const rider = newRider();
  await asOwner(shop, '/rest/v1/rpc/save_rider', 'POST', { ...rider, vehicle: 'Motorbike' });
  return rider;
}
const rowOf = async (name: string) => within(await screen.findByRole('listitem', { name }));
async function choose(opened: OpenScreen, name: string, action: string) {
  await opened.press((await rowOf(name)).getByRole('button', { name: /more/i }));
  await opened.user.click(await screen.findByRole('menuitem', { name: action }));
}

test.each(['phone', 'desktop'] as const)(
  'a rider is added, with each error beside its field, on a %s',
  async (on) => {
    const other = await makeRider();
    const { name, phone } = newRider();
    const opened = await openScreen('/admin/riders', { on, expected: /has this phone number/ });
    await opened.press(await screen.findByRole('button', { name: 'Add a rider' }));
    const dialog = within(await screen.findByRole('dialog', { name: 'Add a rider' }));
    const save = dialog.getByRole('button', { name: 'Add rider' });
    await opened.press(save);
    await dialog.findByText('A rider needs a name');
    await waitFor(() => expect(document.activeElement?.getAttribute('name')).toBe('name'));
    await opened.fill(dialog.getByLabelText(/^Name/), name);
    await opened.fill(dialog.getByLabelText(/^Vehicle/), 'Motorbike');
    await opened.fill(dialog.getByLabelText('Plate'), 'KMDA 123B');
    await opened.fill(dialog.getByLabelText(/^Phone/), '12');
    await opened.press(save);
    await dialog.findByText(/Please enter a valid Kenyan phone number/);
    await opened.fill(dialog.getByLabelText(/^Phone/), other.phone);
    await opened.press(save);
    await dialog.findByText('Another rider has this phone number');
    await opened.fill(dialog.getByLabelText(/^Phone/), phone);
    await opened.press(save);
    const row = await rowOf(name);
    row.getByText('Free');
    row.getByText(/Motorbike, KMDA 123B/);
    expect(await stored(name)).toMatchObject([{ plate: 'KMDA 123B', is_active: true }]);
  },
);

test('a link is shown once, replaced after a question, and ended', async () => {
  const { name } = await makeRider();
  const opened = await openScreen('/admin/riders');
  await opened.press((await rowOf(name)).getByRole('button', { name: `Open link for ${name}` }));
  const first = within(await screen.findByRole('dialog', { name: `Link for ${name}` }));
  const url = first.getByText(/\/ride\/[\w-]{24}$/).textContent;
  const chat = first.getByRole('link', { name: /WhatsApp/ }).getAttribute('href') ?? '';
  expect(decodeURIComponent(chat)).toContain(url);
  await opened.press(first.getByRole('button', { name: 'Done' }));

  await opened.press(await (await rowOf(name)).findByRole('button', { name: `New link for ${name}` }));
  const question = within(await screen.findByRole('dialog', { name: `A new link for ${name}?` }));
  await opened.press(question.getByRole('button', { name: 'Open a new link' }));
  const second = within(await screen.findByRole('dialog', { name: `Link for ${name}` }));
  expect(second.getByText(/\/ride\/[\w-]{24}$/).textContent).not.toBe(url);
  await opened.press(second.getByRole('button', { name: 'Done' }));

  await choose(opened, name, 'End the link');
  await opened.press(await screen.findByRole('button', { name: 'End the link' }));
  await (await rowOf(name)).findByText(/No link/);
});

test('a rider is changed, deactivated after a question, and active again', async () => {
  const { name } = await makeRider();
  const opened = await openScreen('/admin/riders');
  await choose(opened, name, 'Edit');
  const dialog = within(await screen.findByRole('dialog', { name }));
  await opened.fill(dialog.getByLabelText('Plate'), 'KMZZ 900Z');
  await opened.press(dialog.getByRole('button', { name: 'Save' }));
  await (await rowOf(name)).findByText(/KMZZ 900Z/);
  await choose(opened, name, 'Deactivate');
  await opened.press(await screen.findByRole('button', { name: 'Deactivate' }));
  // The row moves to the other list.
  await opened.press(await screen.findByRole('button', { name: `Activate ${name}` }));
  await screen.findByRole('button', { name: `Open link for ${name}` });
  expect(await stored(name)).toMatchObject([{ is_active: true, plate: 'KMZZ 900Z' }]);
});
