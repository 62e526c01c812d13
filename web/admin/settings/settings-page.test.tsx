// The settings in sections: index, search by keyboard, addresses, and one form for all of them.
import { fireEvent, screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { asOwner } from '../../../e2e/staff-member.ts';
import { interceptNext, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const index = () => screen.findByRole('navigation', { name: 'Settings' });
const section = async (name: string) =>
  within(await index()).getByRole('link', { name: new RegExp(`^${name}`) });
const heading = (name: string) => screen.findByRole('heading', { level: 2, name });
const feeField = () => screen.findByRole<HTMLInputElement>('textbox', { name: /^Delivery fee/ });
test('the index has all sections, each with its own address', async () => {
  const { user, address } = await openScreen('/admin/settings');
  await heading('Shop');
  const links = within(await index()).getAllByRole('link');
  expect(links.map(({ textContent }) => textContent?.match(/^[A-Z][a-z]+?(?=[A-Z]|$)/)?.[0])).toEqual([
    'Shop',
    'Delivery',
    'Payments',
    'Messages',
    'Pages',
    'Team',
    'Data',
    'Backups',
  ]);
  await user.click(await section('Messages'));
  await screen.findByLabelText(/^SMS per day/);
  expect(address()).toBe('/admin/settings?section=messages');
  await waitFor(() => expect(document.activeElement?.textContent).toBe('Messages'));
  await user.click(await section('Team'));
  expect((await screen.findByRole('link', { name: /^Team ?Invite colleagues/ })).getAttribute('href')).toBe(
    '/admin/settings/team',
  );
  await user.click(await section('Backups'));
  await screen.findByRole('region', { name: 'Restore or move' });
  await user.click(await section('Pages'));
  await screen.findByRole('link', { name: /^Terms of service/ });
});

test('the search finds a setting by another word, leads to its field and is used with the keyboard', async () => {
  const { user, address } = await openScreen('/admin/settings');
  await heading('Shop');
  await user.keyboard('/');
  const search = screen.getByRole('searchbox', { name: 'Search settings' });
  expect(document.activeElement).toBe(search);
  await user.keyboard('xyzzy');
  await screen.findByText('No setting is called so. Try another word.');
  await user.keyboard('{Escape}');
  await section('Data');
  await user.keyboard('budget');
  const results = within(screen.getByRole('list', { name: 'Results' }));
  results.getByRole('link', { name: /^SMS per day/ });
  await user.keyboard('{ArrowDown}{ArrowDown}');
  expect(document.activeElement?.textContent).toMatch(/^Mails per day/);
  await user.keyboard('{Enter}');
  await waitFor(() => expect(document.activeElement).toBe(screen.getByLabelText(/^Mails per day/)));
  expect(address()).toBe('/admin/settings?section=messages&field=mails_per_day');
  // A slash in a field is text.
  await user.keyboard('/');
  expect(document.activeElement).toBe(screen.getByLabelText(/^Mails per day/));
});

test('an unknown section of an address shows the index and the first section', async () => {
  await openScreen('/admin/settings?section=nonsense&field=nonsense');
  await heading('Shop');
  await index();
});

test('typed values of one section stay while another is open, and a problem leads back to its field', async () => {
  const opened = await openScreen('/admin/settings?section=delivery');
  await opened.fill(await feeField(), '-5');
  await opened.user.click(await section('Shop'));
  await heading('Shop');
  within(await section('Delivery')).getByText('Not saved yet');
  await screen.findByText('Not saved yet: Delivery fee');
  await opened.user.click(screen.getByRole('button', { name: 'Save Settings' }));
  await screen.findByText(/^Delivery fee must be an amount/);
  await waitFor(() =>
    expect(document.activeElement).toBe(screen.getByRole('textbox', { name: /^Delivery fee/ })),
  );
  await opened.user.click(screen.getByRole('button', { name: 'Discard' }));
  expect(screen.getByRole<HTMLInputElement>('textbox', { name: /^Delivery fee/ }).value).toBe('1');
});

test('a change of another member in a section that is not open is a conflict, too', async () => {
  const opened = await openScreen('/admin/settings?section=messages', {
    expected: /Failed to save settings/,
  });
  const field = await screen.findByLabelText<HTMLInputElement>(/^Mails per day/);
  const [before] = await readRows<{ mails_per_day: number; inquiries_months: number }>(
    'store_settings?select=*',
  );
  if (!before) throw new Error('there are no settings');
  await opened.fill(field, String(before.mails_per_day + 1));
  interceptNext('/rest/v1/store_settings', async (go) => {
    await asOwner(shop, '/rest/v1/store_settings?id=is.true', 'PATCH', {
      inquiries_months: before.inquiries_months + 1,
    });
    return go();
  });
  await opened.user.click(screen.getByRole('button', { name: 'Save Settings' }));
  const panel = within(await screen.findByRole('alert'));
  panel.getByText('Keep inquiries');
  await opened.press(panel.getByRole('button', { name: 'Keep their changes' }));
  expect(field.value).toBe(String(before.mails_per_day));
  await asOwner(shop, '/rest/v1/store_settings?id=is.true', 'PATCH', {
    inquiries_months: before.inquiries_months,
  });
});

test('cash on the storefront needs cash for staff, and goes with it', async () => {
  const { user } = await openScreen('/admin/settings?section=payments');
  const offers = await screen.findByRole<HTMLInputElement>('checkbox', {
    name: /^Customers may choose cash/,
  });
  const takes = screen.getByRole<HTMLInputElement>('checkbox', { name: /^Staff may agree on cash/ });
  expect([takes.checked, offers.checked, offers.disabled]).toEqual([true, false, false]);
  await user.click(offers);
  await screen.findByText('Not saved yet: Offer cash');
  await user.click(takes);
  expect([takes.checked, offers.checked, offers.disabled]).toEqual([false, false, true]);
  await screen.findByText('Only where staff may agree on cash, too: tick that first.');
  await user.click(screen.getByRole('button', { name: 'Discard' }));
});

test('the addresses of the till are registered after a question, with the answer and the time', async () => {
  const { user } = await openScreen('/admin/settings?section=payments');
  const card = within(await screen.findByRole('region', { name: 'Payments by hand reach the shop' }));
  await user.click(await card.findByRole('button', { name: /^Register/ }));
  const dialog = within(await screen.findByRole('dialog'));
  dialog.getByText(/No money moves/);
  await user.click(dialog.getByRole('button', { name: 'Register' }));
  await card.findByText(/^Payments by hand: M-PESA (has registered|had registered)/);
  await card.findByText(/^Registered$/);
  card.getByText(/since .*, by C2B v\d/);
});

test('a test mail says at its field what is wrong, and then what became of it', async () => {
  const { user } = await openScreen('/admin/settings?section=messages');
  const card = within(await screen.findByRole('region', { name: 'Test messages' }));
  const field = card.getByLabelText('Email address');
  await user.clear(field);
  await user.type(field, 'nobody{Enter}');
  await card.findByText('Please enter a valid email address');
  await user.clear(field);
  await user.type(field, 'owner@shop.example');
  await user.click(card.getByRole('button', { name: 'Send a test mail' }));
  // The shop of these tests has no mail server. A test is given up after 20 seconds, so its end takes longer than a usual wait.
  await waitFor(() => card.getByText(/No provider is set up: emails are written to the outbox folder/), {
    timeout: 60_000,
  });
  card.getByText('Not sent to owner@shop.example.');
  await user.type(card.getByLabelText('Phone number'), '12{Enter}');
  await card.findByText('Please enter a valid phone number');
});

test('backups say that there are none, and the version that runs is shown with its update', async () => {
  await openScreen('/admin/settings?section=backups');
  await screen.findByRole('region', { name: 'Download or check' });
  const card = within(await screen.findByRole('region', { name: 'Version and updates' }));
  await card.findByText('Runs since');
  card.getByText('npm run update');
});

test('opening hours begin with the usual ones, have several times a day and past midnight, and are checked', async () => {
  const { user } = await openScreen('/admin/settings?section=delivery');
  const group = within(await screen.findByRole('group', { name: 'Opening hours' }));
  await user.click(group.getByRole('radio', { name: 'Opening hours' }));
  expect(group.getByLabelText<HTMLInputElement>('Sunday until').value).toBe('22:00');
  await screen.findByText('Not saved yet: Opening hours');
  fireEvent.change(group.getByLabelText('Friday until'), { target: { value: '02:00' } });
  within(group.getByRole('listitem', { name: 'Friday' })).getByText('until Saturday');
  await user.click(group.getByRole('button', { name: 'Remove Monday 08:00 to 22:00' }));
  within(group.getByRole('listitem', { name: 'Monday' })).getByText('Closed');
  await user.click(group.getByRole('button', { name: 'Add a time on Tuesday' }));
  expect(group.getAllByLabelText('Tuesday from')).toHaveLength(2);
  await user.click(screen.getByRole('button', { name: 'Save Settings' }));
  await within(group.getByRole('listitem', { name: 'Tuesday' })).findByText(
    'Tuesday: please enter both times',
  );
  await user.click(group.getByRole('button', { name: 'The same on every day' }));
  expect(group.queryByText('Closed')).toBeNull();
  await user.click(screen.getByRole('button', { name: 'Discard' }));
  expect(group.getByRole<HTMLInputElement>('radio', { name: 'Always' }).checked).toBe(true);
});

test('a day off has a date and a reason', async () => {
  const { user } = await openScreen('/admin/settings?section=delivery');
  const group = within(await screen.findByRole('group', { name: 'Days off' }));
  await user.click(group.getByRole('button', { name: 'Add a day off' }));
  await user.click(screen.getByRole('button', { name: 'Save Settings' }));
  await group.findByText('Please choose the date of each day off');
  fireEvent.change(group.getByLabelText('Day off'), { target: { value: '2028-12-25' } });
  await user.click(group.getByLabelText('Reason'));
  await user.paste('Christmas');
  await user.click(await screen.findByRole('button', { name: 'Save Settings' }));
  await waitFor(async () => {
    const [row] = await readRows<{ days_off: unknown }>('store_settings?select=days_off');
    expect(row?.days_off).toEqual([{ day: '2028-12-25', reason: 'Christmas' }]);
  });
  await screen.findByRole('button', { name: 'Save Settings' });
  await user.click(group.getByRole('button', { name: 'Remove the day off 2028-12-25 Christmas' }));
  await user.click(screen.getByRole('button', { name: 'Save Settings' }));
  await waitFor(async () => {
    const [row] = await readRows<{ days_off: unknown }>('store_settings?select=days_off');
    expect(row?.days_off).toEqual([]);
  });
});
