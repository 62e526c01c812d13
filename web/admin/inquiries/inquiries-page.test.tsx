// Staff find inquiries, mark them as read, answer and export them, also while others write, read and answer. All tests of screens that
// count inquiries are here, because they count those of the whole shop, and only the tests of a file run one after the other.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { placeOrder } from '../../../e2e/placed-orders.ts';
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

test('columns sort the inquiries, in the address too', async () => {
  await makeInquiry('Zuhura', { created_at: '2026-01-01T08:00:00Z' });
  await makeInquiry('Amina', { created_at: '2026-01-02T08:00:00Z' });
  await makeInquiry('Naliaka', { created_at: '2026-01-03T08:00:00Z', is_read: true });
  const opened = await openScreen('/admin/inquiries');
  const areShown = (expected: string[]) =>
    waitFor(() =>
      expect(
        screen
          .getAllByRole('button', { name: /^View inquiry from/ })
          .map((button) => button.textContent?.replace('View inquiry from ', '')),
      ).toEqual(expected),
    );
  await areShown(['Naliaka', 'Amina', 'Zuhura']);
  for (const [title, address, expected] of [
    ['Name', 'sort=name', ['Amina', 'Naliaka', 'Zuhura']],
    ['Name', 'sort=-name', ['Zuhura', 'Naliaka', 'Amina']],
    ['Date', 'sort=date', ['Zuhura', 'Amina', 'Naliaka']],
    ['Status', 'sort=status', ['Amina', 'Zuhura', 'Naliaka']],
  ] as const) {
    await opened.press(screen.getByRole('button', { name: title }));
    await waitFor(() => expect(opened.address()).toBe(`/admin/inquiries?${address}`));
    await areShown([...expected]);
  }
  const heading = screen.getByRole('columnheader', { name: 'Status' });
  expect(heading.getAttribute('aria-sort')).toBe('ascending');
});

test('unread ones are a list of their own, the longest waiting first', async () => {
  await makeInquiry('Achieng', { created_at: '2026-01-01T08:00:00Z' });
  await makeInquiry('Barasa', { created_at: '2026-01-02T08:00:00Z' });
  await makeInquiry('Chebet', { created_at: '2026-01-03T08:00:00Z', is_read: true });
  const opened = await openScreen('/admin/inquiries');
  const shown = () =>
    screen
      .queryAllByRole('button', { name: /^View inquiry from/ })
      .map(({ textContent }) => textContent?.split(' ').at(-1));
  await waitFor(() => expect(shown()).toEqual(['Chebet', 'Barasa', 'Achieng']));
  await opened.press(screen.getByRole('button', { name: /^Unread/ }));
  await waitFor(() => expect(shown()).toEqual(['Achieng', 'Barasa']));
  await search(opened, 'barasa');
  await waitFor(() => expect(shown()).toEqual(['Barasa']));
  await search(opened, ' ');
  await waitFor(() => expect(shown()).toEqual(['Achieng', 'Barasa']));
  await opened.press(await screen.findByRole('button', { name: 'Mark All Read (2)' }));
  await screen.findByText('All inquiries are read.');
  await opened.press(screen.getByRole('button', { name: 'Show all inquiries' }));
  await viewButton('Chebet');
});

test('a row opens where it is pressed, and by keys', async () => {
  await makeInquiry('Kiptoo', { subject: 'Party drinks' });
  await makeInquiry('Later');
  const opened = await openScreen('/admin/inquiries');
  await opened.user.click(await screen.findByText('Party drinks'));
  await screen.findByRole('dialog');
  await opened.user.keyboard('{Escape}');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  (document.activeElement as HTMLElement).blur();
  await opened.user.keyboard('jj');
  expect(document.activeElement).toBe(await viewButton('Kiptoo'));
  await opened.user.keyboard('{Enter}');
  within(await screen.findByRole('dialog')).getByText('Party drinks');
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

interface StoredMessage {
  channel: string;
  recipient: string;
  subject: string | null;
  body: string;
}
const inquiryOf = async (name: string) => {
  const [inquiry] = await readRows<{ id: string; answered_at: string | null; answered_by: string | null }>(
    `inquiries?name=eq.${encodeURIComponent(name)}&select=id,answered_at,answered_by`,
  );
  if (!inquiry) throw new Error(`no inquiry of ${name}`);
  return inquiry;
};
const repliesTo = async (name: string) =>
  readRows<StoredMessage>(
    `outbox_messages?kind=eq.inquiry_reply&event_key=eq.${(await inquiryOf(name)).id}&select=channel,recipient,subject,body`,
  );
/** Opens an inquiry with the form of its reply. */
async function beginReply({ press }: OpenScreen, name: string) {
  await press(await viewButton(name));
  const dialog = within(await screen.findByRole('dialog', { name: `Inquiry from ${name}` }));
  await press(await dialog.findByRole('button', { name: 'Reply' }));
  return dialog;
}
test('the list shows the first words of the message, its tracking number as a link, and who answered', async () => {
  await makeInquiry('Otieno', { message: 'Where is\nmy order jj 20261121 1234? <b>Please</b>' });
  await send('rpc/answer_inquiry', {
    inquiry_id: (await inquiryOf('Otieno')).id,
    way: 'elsewhere',
    body: '',
  });
  await openScreen('/admin/inquiries', { on: 'phone' });
  const row = await rowOf('Otieno');
  await row.findByText(/^Where is my order/);
  row.getByText(/<b>Please<\/b>/);
  expect(row.getByRole('link', { name: 'jj 20261121 1234' }).getAttribute('href')).toBe(
    '/admin/orders/JJ-20261121-1234',
  );
  row.getByText('the shop itself');
  row.getByText('Read');
});

test('a tracking number in a message opens its order', async () => {
  const { id, order_number, tracking_number } = await placeOrder(shop, 'Asks for it', '0712345679');
  await makeInquiry('Asks for it', { message: `${tracking_number}, please` });
  const { press, user, address } = await openScreen('/admin/inquiries');
  await press(await viewButton('Asks for it'));
  const dialog = within(await screen.findByRole('dialog'));
  await user.click(await dialog.findByRole('link', { name: tracking_number }));
  await screen.findByRole('dialog', { name: new RegExp(order_number) });
  await waitFor(() => expect(address()).toBe(`/admin/orders/${id}`));
});

test('a reply by SMS begins with a template, shows its price, is sent once and can be undone', async () => {
  await makeInquiry('Wambui Njau', {
    phone: '0712 345 678',
    message: 'Where is JJ-20261121-4321?',
  });
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Wambui Njau');
  await opened.press(dialog.getByRole('checkbox', { name: /^SMS/ }));
  await opened.press(dialog.getByRole('checkbox', { name: /^Email/ }));
  expect(dialog.queryByRole('textbox', { name: 'Subject' })).toBeNull();
  const picker = await dialog.findByRole('combobox', { name: 'Begin with a template' });
  await opened.user.selectOptions(picker, 'It is on its way');
  const field = dialog.getByRole('textbox', { name: 'Reply' });
  expect((field as HTMLTextAreaElement).value).toMatch(
    /^Habari Wambui, your order JJ-20261121-4321 is on its way\./,
  );
  await opened.fill(field, 'a'.repeat(161));
  dialog.getByText('161 of 160 characters: charged as 2 SMS');
  await opened.fill(field, 'Karibu “Wanjirũ”');
  dialog.getByText('Sent as: Karibu "Wanjiru"');
  await opened.user.dblClick(dialog.getByRole('button', { name: 'Send SMS' }));
  const answers = within(await dialog.findByRole('region', { name: 'Answers' }));
  await answers.findByText('Karibu "Wanjiru"');
  await answers.findByText('Waiting');
  expect(await repliesTo('Wambui Njau')).toEqual([
    { channel: 'text', recipient: '+254712345678', subject: null, body: 'Karibu "Wanjiru"' },
  ]);
  answers.getByText('you');

  await opened.press(await screen.findByRole('button', { name: /^Undo Wambui Njau: SMS/ }));
  await waitFor(() => expect(dialog.queryByRole('region', { name: 'Answers' })).toBeNull());
  expect(await repliesTo('Wambui Njau')).toEqual([]);
  expect(((await dialog.findByRole('textbox', { name: 'Reply' })) as HTMLTextAreaElement).value).toBe(
    'Karibu “Wanjirũ”',
  );
});

test('a reply by email needs words and a subject, and without a mobile number there is no SMS', async () => {
  await makeInquiry('Kiprono', { phone: 'office', subject: 'A party' });
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Kiprono');
  expect(dialog.queryByRole('checkbox', { name: /^SMS/ })).toBeNull();
  const subject = dialog.getByRole('textbox', { name: 'Subject' });
  expect((subject as HTMLInputElement).value).toBe('Re: A party');
  await opened.fill(subject, ' ');
  await opened.press(dialog.getByRole('button', { name: 'Send email' }));
  await dialog.findByText('Please write a reply');
  dialog.getByText('A mail needs a subject');
  await opened.fill(subject, 'Your party');
  const field = dialog.getByRole('textbox', { name: 'Reply' });
  await opened.fill(field, 'Habari {first_name}');
  await opened.press(dialog.getByRole('button', { name: 'Send email' }));
  await dialog.findByText('A placeholder is not filled in');
  await opened.fill(field, 'Karibu');
  await opened.press(dialog.getByRole('button', { name: 'Send email' }));
  await within(await dialog.findByRole('region', { name: 'Answers' })).findByText('Karibu');
  expect(await repliesTo('Kiprono')).toEqual([
    { channel: 'mail', recipient: 'somebody@mail.example', subject: 'Your party', body: 'Karibu' },
  ]);
});

test('a reply by email and SMS is sent by both, shown once, and undone at once', async () => {
  await makeInquiry('Nyambura', { phone: '0712 345 678' });
  const opened = await openScreen('/admin/inquiries', { on: 'phone' });
  const dialog = await beginReply(opened, 'Nyambura');
  const email = dialog.getByRole('checkbox', { name: /^Email/ });
  await opened.press(email);
  await opened.press(dialog.getByRole('button', { name: /^Send/ }));
  await dialog.findByText('Choose how you answer');
  await opened.press(email);
  await opened.press(dialog.getByRole('checkbox', { name: /^SMS/ }));
  const field = dialog.getByRole('textbox', { name: 'Reply' });
  await opened.fill(field, 'a'.repeat(481));
  const send = dialog.getByRole('button', { name: 'Send email and SMS' });
  await opened.press(send);
  await dialog.findByText('At most 480 characters in an SMS');
  await opened.fill(field, 'Karibu “Nyambũra”');
  await opened.press(send);
  const answers = within(await dialog.findByRole('region', { name: 'Answers' }));
  await answers.findByText('Karibu “Nyambũra”');
  answers.getByText(/, email and SMS$/);
  await waitFor(() => expect(answers.getAllByText('Waiting')).toHaveLength(2));
  const sent = (await repliesTo('Nyambura')).map(({ channel, body }) => [channel, body]);
  expect(sent.sort()).toEqual([
    ['mail', 'Karibu “Nyambũra”'],
    ['text', 'Karibu "Nyambura"'],
  ]);

  await opened.press(await screen.findByRole('button', { name: /^Undo Nyambura: Email and SMS/ }));
  await waitFor(() => expect(dialog.queryByRole('region', { name: 'Answers' })).toBeNull());
  expect(await repliesTo('Nyambura')).toEqual([]);
});

test('an answer elsewhere is neither an email nor an SMS', async () => {
  await makeInquiry('Cherono', { phone: '0712 345 678' });
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Cherono');
  const isTicked = (name: RegExp) => (dialog.getByRole('checkbox', { name }) as HTMLInputElement).checked;
  await opened.press(dialog.getByRole('checkbox', { name: /^SMS/ }));
  await opened.press(dialog.getByRole('checkbox', { name: /^Answered elsewhere/ }));
  expect([/^Email/, /^SMS/, /^Answered elsewhere/].map(isTicked)).toEqual([false, false, true]);
  await opened.press(dialog.getByRole('checkbox', { name: /^SMS/ }));
  expect([/^Email/, /^SMS/, /^Answered elsewhere/].map(isTicked)).toEqual([false, true, false]);
});

test('of two members who answer, the second one reads the other answer before sending', async () => {
  await makeInquiry('Mutua');
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Mutua');
  await opened.fill(dialog.getByRole('textbox', { name: 'Reply' }), 'Mine');
  const { id } = await inquiryOf('Mutua');
  interceptNext('/rpc/answer_inquiry', async (go) => {
    await send('rpc/answer_inquiry', { inquiry_id: id, way: 'mail', subject: 'Re', body: 'Theirs' });
    return go();
  });
  await opened.press(dialog.getByRole('button', { name: 'Send email' }));
  await dialog.findByText(/answered this in the meantime\. Nothing of yours was sent/);
  await within(await dialog.findByRole('region', { name: 'Answers' })).findByText('Theirs');
  expect((await repliesTo('Mutua')).map(({ body }) => body)).toEqual(['Theirs']);
  const sendButton = await dialog.findByRole('button', { name: 'Send email' });
  expect(sendButton.hasAttribute('disabled')).toBe(true);
  await opened.press(dialog.getByRole('button', { name: 'Reply all the same' }));
  await opened.press(await dialog.findByRole('button', { name: 'Send email' }));
  await waitFor(async () =>
    expect((await repliesTo('Mutua')).map(({ body }) => body).sort()).toEqual(['Mine', 'Theirs']),
  );
});

test('a reply whose answer was lost is sent once', async () => {
  await makeInquiry('Atieno');
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Atieno');
  await opened.fill(dialog.getByRole('textbox', { name: 'Reply' }), 'Karibu');
  interceptNext('/rpc/answer_inquiry', async (go) => {
    await go();
    return new Response('', { status: 502 });
  });
  await opened.press(dialog.getByRole('button', { name: 'Send email' }));
  await within(await dialog.findByRole('region', { name: 'Answers' })).findByText('Karibu');
  await screen.findByRole('button', { name: /^Undo Atieno: Email/ });
  expect(await repliesTo('Atieno')).toHaveLength(1);
});

test('a reply that is not sent yet survives closing the inquiry, and is discarded only after a question', async () => {
  await makeInquiry('Naliaka');
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Naliaka');
  await opened.fill(dialog.getByRole('textbox', { name: 'Reply' }), 'Half a ');
  await opened.press(dialog.getByRole('button', { name: 'Finish later' }));
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await opened.press(await viewButton('Naliaka'));
  const again = within(await screen.findByRole('dialog'));
  expect(((await again.findByRole('textbox', { name: 'Reply' })) as HTMLTextAreaElement).value).toBe(
    'Half a ',
  );
  await opened.press(again.getByRole('button', { name: 'Discard' }));
  await opened.press(within(again.getByRole('alertdialog')).getByRole('button', { name: 'Discard' }));
  await again.findByRole('button', { name: 'Reply' });
  await again.findByRole('button', { name: 'Mark as Read' });
});

test('an inquiry that was answered by phone is marked so, with a note for colleagues', async () => {
  await makeInquiry('Barasa');
  const opened = await openScreen('/admin/inquiries');
  const dialog = await beginReply(opened, 'Barasa');
  await opened.press(dialog.getByRole('checkbox', { name: /^Answered elsewhere/ }));
  await opened.fill(dialog.getByRole('textbox', { name: /^What was said/ }), 'Called him');
  await opened.press(dialog.getByRole('button', { name: 'Mark as answered' }));
  const answers = within(await dialog.findByRole('region', { name: 'Answers' }));
  await answers.findByText('Called him');
  answers.getByText(/by phone or chat$/);
  expect(await repliesTo('Barasa')).toEqual([]);
  expect((await inquiryOf('Barasa')).answered_by).toBe(opened.account.email);
});

test('an export that fails in the middle says so, saves nothing, and is continued', async () => {
  const name = crypto.randomUUID();
  await makeInquiry(name);
  const files: Blob[] = [];
  const { createObjectURL } = URL;
  URL.createObjectURL = (file: Blob) => {
    files.push(file);
    return 'data:,';
  };
  onTestFinished(() => {
    URL.createObjectURL = createObjectURL;
  });
  const { user, address } = await openScreen('/admin/inquiries', { expected: /^The export failed/ });
  await screen.findAllByText(name);
  // Not the list's own requests, and not what other parts of the panel ask, which may be repeated at any time.
  const { fetch } = globalThis;
  let pages = 0;
  globalThis.fetch = async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    const isExport = url.includes('rpc/search_inquiries') && String(init?.body).includes('"page_size":1000');
    if (isExport && ++pages === 2) throw new TypeError('Failed to fetch');
    return fetch(input, init);
  };
  onTestFinished(() => {
    globalThis.fetch = fetch;
  });
  await user.click(screen.getByRole('button', { name: /^Filters/ }));
  await user.click(await screen.findByRole('button', { name: 'Export CSV' }));
  const shown = await messages();
  await shown.findByText('Export stopped');
  expect(shown.getByText(/^It failed after \d+ inquiries\. No file was saved yet\.$/)).toBeTruthy();
  expect(files).toEqual([]);

  await user.click(shown.getByRole('button', { name: 'Continue export' }));
  await shown.findByText(/^\d+ inquiries exported$/);
  await waitFor(() => expect(shown.queryByText('Export stopped')).toBeNull());
  expect(files).toHaveLength(1);
  expect(address()).toBe('/admin/inquiries');
  expect((await files[0]?.text())?.split('\r\n').filter((line) => line.includes(name))).toHaveLength(1);
});

test('unread ones are counted on Today, and lead there', async () => {
  await makeInquiry('Waiting');
  await openScreen('/admin/today');
  const attention = within(await screen.findByRole('region', { name: /^Needs attention/ }));
  const link = await attention.findByRole('link', { name: '1 unread inquiry' });
  expect(link.getAttribute('href')).toBe('/admin/inquiries');
});
