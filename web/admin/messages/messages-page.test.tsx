// Staff send a sent message once more, and edit the templates of replies to inquiries.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { changeOrder, placePaidOrder } from '../../../e2e/placed-orders.ts';
import { asOwner } from '../../../e2e/staff-member.ts';
import { interceptNext, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

interface Stored {
  id: string;
  repeat_of: string | null;
  recipient: string;
  body: string;
  resent_by: string | null;
}

/** A sent message, which the outbox leaves alone. */
async function makeSent(columns: Record<string, unknown>): Promise<Stored> {
  const answer = await asOwner(shop, '/rest/v1/outbox_messages', 'POST', {
    kind: 'order_on_its_way',
    event_key: randomUUID(),
    channel: 'text',
    recipient: '+254712345670',
    order_number: '',
    tracking_number: '',
    customer_name: 'Amina',
    status: 'sent',
    next_attempt_at: null,
    sent_at: new Date().toISOString(),
    body: 'Your order is on its way',
    ...columns,
  });
  const [made] = (await answer.json()) as Stored[];
  if (!made) throw new Error('no message was made');
  return made;
}
const repetitionsOf = ({ id }: Stored) =>
  readRows<Stored>(`outbox_messages?repeat_of=eq.${id}&select=id,repeat_of,recipient,body,resent_by`);
/** Opens a message with the question whether to send it again. */
async function ask(message: Stored): Promise<{ opened: OpenScreen; dialog: ReturnType<typeof within> }> {
  const opened = await openScreen(`/admin/messages?view=${message.id}`);
  await opened.press(await screen.findByRole('button', { name: 'Send again...' }));
  return { opened, dialog: within(await screen.findByRole('dialog', { name: 'Send this message again?' })) };
}

test('messages are sorted by their customer, in the address too', async () => {
  const part = randomUUID();
  const names = ['Zuhura', 'Amina', 'Naliaka'].map((name) => `${name} ${part}`);
  for (const customer_name of names) await makeSent({ kind: 'test_message', customer_name });
  const opened = await openScreen(`/admin/messages?search=${part}`);
  const areShown = (expected: string[]) =>
    waitFor(() =>
      expect(
        screen.getAllByText(new RegExp(`^\\w+ ${part}`)).map(({ firstChild }) => firstChild?.textContent),
      ).toEqual(expected),
    );
  await areShown(names.toReversed());
  await opened.press(screen.getByRole('button', { name: 'Customer' }));
  await waitFor(() => expect(opened.address()).toContain('sort=customer'));
  await areShown(names.toSorted());
  await opened.press(screen.getByRole('button', { name: 'Customer' }));
  await areShown(names.toSorted().toReversed());
});

test('a message opens where its row is pressed, and by keys', async () => {
  const { id, order_number, tracking_number } = await placePaidOrder(shop, 'By keys');
  const customer_name = `By keys ${randomUUID()}`;
  await makeSent({ order_id: id, order_number, tracking_number, customer_name });
  const opened = await openScreen(`/admin/messages?search=${customer_name}`);
  await opened.user.click(await screen.findByText(customer_name));
  await screen.findByRole('dialog');
  await opened.user.keyboard('{Escape}');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  (document.activeElement as HTMLElement).blur();
  await opened.user.keyboard('j{Enter}');
  await screen.findByRole('dialog');
});

test('a sent message is sent once more after a question that shows recipient and text', async () => {
  const { id, order_number, tracking_number } = await placePaidOrder(shop, 'Sent twice');
  await changeOrder(shop, id, { status: 'shipped' });
  const body = `Your order ${tracking_number} is on its way`;
  const message = await makeSent({ order_id: id, order_number, tracking_number, body });
  const { opened, dialog } = await ask(message);
  await dialog.findByText(/0712 345 670/);
  dialog.getByText(body);
  const button = await dialog.findByRole('button', { name: 'Send again' });
  expect(dialog.queryByText('This is no longer true')).toBeNull();
  await opened.user.dblClick(button);
  await screen.findByText('The message is on its way again');
  await screen.findByText('Sent more than once');
  expect(await repetitionsOf(message)).toMatchObject([
    { repeat_of: message.id, recipient: '+254712345670', body, resent_by: opened.account.email },
  ]);
  const whole = within(screen.getByRole('dialog'));
  expect(whole.getByRole('link', { name: tracking_number }).getAttribute('href')).toBe(
    `/admin/orders/${tracking_number}`,
  );
});

test('warns of a text that is no longer true', async () => {
  const { id } = await placePaidOrder(shop, 'Sent late');
  await changeOrder(shop, id, { status: 'delivered' });
  const message = await makeSent({ order_id: id });
  const { opened, dialog } = await ask(message);
  await dialog.findByText('This is no longer true');
  await opened.press(dialog.getByRole('button', { name: 'Cancel' }));
  await waitFor(() => expect(screen.queryByRole('dialog', { name: 'Send this message again?' })).toBeNull());
  expect(await repetitionsOf(message)).toEqual([]);
});

test.each([
  [
    'with links that work once',
    { kind: 'newsletter_confirmation', channel: 'mail', recipient: 'reader@mail.example' },
    'Because its links work once, and the shop keeps no copy of them.',
  ],
  [
    'whose recipient was erased',
    { order_id: randomUUID(), recipient: '', body: null, customer_name: '' },
    'Because its recipient and text were erased.',
  ],
])('says why a message %s cannot be sent again', async (_, columns, reason) => {
  const { dialog } = await ask(await makeSent(columns));
  await dialog.findByText(reason);
  expect(dialog.queryByRole('button', { name: 'Send again' })).toBeNull();
});

test('a reply template is added with its placeholders checked, changed by a colleague, and deleted', async () => {
  const title = `Hours ${randomUUID().slice(0, 8)}`;
  onTestFinished(async () => {
    await asOwner(shop, `/rest/v1/reply_templates?title=like.${encodeURIComponent(title)}*`, 'DELETE');
  });
  const opened = await openScreen('/admin/messages/templates', { expected: /Failed to save the reply/ });
  const { user, press } = opened;
  await press(await screen.findByRole('button', { name: 'Add a reply' }));
  const dialog = within(await screen.findByRole('dialog', { name: 'New reply' }));
  const field = dialog.getByRole('textbox', { name: 'Reply' });
  await user.click(field);
  await user.paste('Habari {nmae}');
  await press(dialog.getByRole('button', { name: 'Save' }));
  await dialog.findByText('Please enter a title');
  dialog.getByText('There is no placeholder {nmae}');
  await user.click(dialog.getByRole('textbox', { name: 'Title' }));
  await user.paste(title);
  await user.clear(field);
  await user.click(field);
  await user.paste('Habari {first_name}, we are open.');
  dialog.getByText('Habari Amina, we are open.');
  await press(dialog.getByRole('button', { name: 'Save' }));
  const shown = within(await screen.findByRole('region', { name: `Reply: ${title}` }));
  shown.getByText('Habari Amina, we are open.');

  await press(shown.getByRole('button', { name: /^Edit/ }));
  const editor = within(await screen.findByRole('dialog', { name: `Reply: ${title}` }));
  const own = editor.getByRole('textbox', { name: 'Reply' });
  await user.click(own);
  await user.paste(' Mine');
  interceptNext('reply_templates?', async (go) => {
    await asOwner(shop, `/rest/v1/reply_templates?title=eq.${encodeURIComponent(title)}`, 'PATCH', {
      body: 'Theirs',
    });
    return go();
  });
  await press(editor.getByRole('button', { name: 'Save' }));
  await editor.findByText('Someone else changed this');
  await press(editor.getByRole('button', { name: 'Keep their changes' }));
  expect((own as HTMLTextAreaElement).value).toBe('Theirs');
  await press(editor.getByRole('button', { name: 'Delete' }));
  await press(editor.getByRole('button', { name: 'Delete reply' }));
  // An open dialog hides the list from queries by role.
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await waitFor(() => expect(screen.queryByRole('region', { name: `Reply: ${title}` })).toBeNull());
  await waitFor(async () =>
    expect(await readRows(`reply_templates?title=eq.${encodeURIComponent(title)}&select=id`)).toEqual([]),
  );
});
