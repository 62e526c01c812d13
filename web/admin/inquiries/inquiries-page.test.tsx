// Staff find inquiries and mark them as read, also while others write and read.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { beforeEach, expect, test } from 'vitest';
import { asOwner } from '../../../e2e/staff-member.ts';
import { interceptNext, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const send = (path: string, body: unknown) => asOwner(shop, `/rest/v1/${path}`, 'POST', body);
const makeInquiry = (name: string, more: Record<string, unknown> = {}) =>
  send('inquiries', { name, email: 'somebody@mail.example', message: 'Hello', ...more });
// Unique, so that a retried test finds only its own.
beforeEach(async () => {
  const cleared = await asOwner(shop, '/rest/v1/inquiries?id=not.is.null', 'DELETE');
  expect(cleared.ok).toBe(true);
});
const countUnread = async () => (await readRows('inquiries?is_read=is.false&select=id')).length;

const viewButton = (name: string) => screen.findByRole('button', { name: `View inquiry from ${name}` });
/** The row of a sender. */
async function rowOf(name: string) {
  const row = (await viewButton(name)).closest<HTMLElement>('tr, li');
  if (!row) throw new Error(`no row of ${name}`);
  return within(row);
}
const isMissing = (name: string) =>
  waitFor(() => expect(screen.queryByRole('button', { name: `View inquiry from ${name}` })).toBeNull());
const messages = async () => within(await screen.findByRole('region', { name: /Messages/ }));
async function search({ user }: OpenScreen, text: string): Promise<void> {
  const box = screen.getByRole('searchbox', { name: 'Search inquiries' });
  await user.clear(box);
  await user.click(box);
  await user.paste(text);
}

test('inquiries are found literally, by name, email and subject', async () => {
  await makeInquiry('Kamau', { email: 'kamau_100%@mail.example' });
  await makeInquiry('Wanjiku', { subject: 'A birthday & more' });
  const opened = await openScreen('/admin/inquiries');
  for (const [text, found, missing] of [
    ['WANJIKU', 'Wanjiku', 'Kamau'],
    ['u_100%@MAIL', 'Kamau', 'Wanjiku'],
    ['birthday & m', 'Wanjiku', 'Kamau'],
  ] as const) {
    await search(opened, text);
    await waitFor(() => expect(new URL(location.href).searchParams.get('search')).toBe(text));
    await isMissing(missing);
    await viewButton(found);
  }
  await search(opened, 'no one wrote this');
  await screen.findByText('No inquiries found');
  await opened.press(screen.getByRole('button', { name: 'Show all inquiries' }));
  await viewButton('Kamau');
  await viewButton('Wanjiku');
});

test('an inquiry that another member has marked as read is reported so', async () => {
  await makeInquiry('Njoroge');
  const { press } = await openScreen('/admin/inquiries', { on: 'phone' });
  const row = await rowOf('Njoroge');
  const [inquiry] = await readRows<{ id: string }>('inquiries?name=eq.Njoroge&select=id');
  interceptNext('/rpc/mark_inquiry_read', async (go) => {
    await asOwner(shop, `/rest/v1/inquiries?id=eq.${inquiry?.id}`, 'PATCH', { is_read: true });
    return go();
  });
  await press(await row.findByRole('button', { name: /^Mark as Read/ }));
  await (await messages()).findByText('Someone else has marked this inquiry as read already');
  await (await rowOf('Njoroge')).findByText('Read');
});

test('Mark All Read leaves an inquiry unread that arrives at the same time', async () => {
  await makeInquiry('Achieng');
  const { press } = await openScreen('/admin/inquiries');
  await viewButton('Achieng');
  interceptNext('/rpc/mark_all_inquiries_read', async (go) => {
    await makeInquiry('Late');
    return go();
  });
  await press(await screen.findByRole('button', { name: `Mark All Read (${await countUnread()})` }));
  await (await messages()).findByText('All inquiries marked as read');
  await (await rowOf('Late')).findByText('Unread');
  await press(await screen.findByRole('button', { name: 'Mark All Read (1)' }));
  await waitFor(() => expect(screen.queryByRole('button', { name: /^Mark All Read/ })).toBeNull());
  await waitFor(async () => expect(await countUnread()).toBe(0));
});

test('a failure is reported, and the inquiry stays unread', async () => {
  await makeInquiry('Chebet');
  const { press } = await openScreen('/admin/inquiries', { expected: /Failed to mark/ });
  const row = await rowOf('Chebet');
  interceptNext('/rpc/mark_inquiry_read', async () =>
    Response.json({ code: 'XX000', message: 'The disk is full' }, { status: 500 }),
  );
  await press(await row.findByRole('button', { name: /^Mark as Read/ }));
  await (await messages()).findByText('Error');
  await (await rowOf('Chebet')).findByText('Unread');
  expect(await readRows('inquiries?name=eq.Chebet&select=is_read')).toEqual([{ is_read: false }]);
});

test.each(['nonsense', randomUUID()])('shows that no inquiry has the id of the URL: %s', async (id) => {
  await openScreen(`/admin/inquiries?view=${id}`);
  const dialog = within(await screen.findByRole('dialog'));
  await dialog.findByText('There is no such inquiry. The address may be mistyped.');
});
