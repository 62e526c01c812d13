// Customers receive an email and a text at each step, and a receipt; staff see every message and resend failed ones.
import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { openShop, until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForHydration } from '../../browser.ts';
import { mailsTo, textsTo } from '../../mailbox.ts';
import { changeOrder, placeOrder } from '../../placed-orders.ts';
import { phoneFirst } from '../../selection.ts';
import { amina, order, payButton, type Shopper } from '../../shopper.ts';
import { asOwner, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });

interface Message {
  id: string;
  kind: string;
  channel: string;
  status: string;
}
const messagesTo = async (recipient: string, at = shop): Promise<Message[]> =>
  (await (
    await asOwner(at, `/rest/v1/outbox_messages?recipient=eq.${encodeURIComponent(recipient)}`, 'GET')
  ).json()) as Message[];

/** Orders and pays, and waits until the emails and texts about both are sent. */
async function orderAndPay(page: Page, shopper: Shopper): Promise<{ trackingNumber: string }> {
  await order(page, shop.url, 'hibiscus-bottle', shopper);
  await payButton(page).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
  await page.waitForURL(/\/track-order\/JJ-/);
  await until(async () => {
    const messages = await Promise.all(
      [shopper.email, `+254${shopper.phone.slice(1)}`].map((recipient) => messagesTo(recipient)),
    );
    return messages.flat().filter(({ status }) => status === 'sent').length === 4;
  }, 'order and payment were notified by email and text');
  return { trackingNumber: /JJ-\d{8}-\d{4,6}/.exec(page.url())?.[0] ?? '' };
}

story('a customer is notified of the payment and can reopen its receipt', async ({ newVisitor }) => {
  const shopper = { ...amina, email: 'receipt@example.com', phone: '0711005601' };
  const { page } = await newVisitor({ viewport: phone });
  const { trackingNumber } = await orderAndPay(page, shopper);

  // The ordering device opens the receipt without entering anything.
  await page.getByRole('link', { name: 'View receipt' }).click();
  await page.getByRole('heading', { level: 1, name: 'Receipt' }).waitFor();
  const receipt = page.getByRole('article', { name: 'Receipt' });
  await receipt.waitFor();
  const words = (await receipt.allInnerTexts()).join(' ').replaceAll(/\s+/g, ' ');
  for (const expected of [
    'Jani Juice',
    '0700 000 000',
    'hello@jani.example',
    trackingNumber,
    'Amina Otieno',
    '1 × KSh 1,050.00',
    'Delivery fee KSh 1.00',
    'Total KSh 1,051.00',
    'KSh 1,051.00 by M-PESA',
  ]) {
    expect(words, expected).toContain(expected);
  }
  const number = /M-PESA receipt: ([A-Z0-9]{10})/.exec(words)?.[1];
  expect(number).toBeTruthy();
  await waitForHydration(page);
  await expectAccessible(page, 'the receipt on a phone');
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);

  // Only the receipt is printed.
  await page.emulateMedia({ media: 'print' });
  expect(await page.getByRole('banner').isVisible()).toBe(false);
  expect(await page.getByRole('button', { name: 'Print' }).isVisible()).toBe(false);
  expect(await receipt.isVisible()).toBe(true);
  await page.emulateMedia({ media: 'screen' });

  // Both messages link to the full order from any device.
  const texts = await textsTo(shop.outbox, '254711005601');
  const text = texts.find(({ kind }) => kind === 'order_paid')?.text ?? '';
  expect(text.length).toBeLessThanOrEqual(160);
  expect(text).toContain(number);
  const elsewhere = await newVisitor({ viewport: desktop });
  await elsewhere.page.goto(/https?:\/\/\S+/.exec(text)?.[0] ?? '');
  await elsewhere.page.waitForURL(/\/track-order\/JJ-.*\?key=/);
  await elsewhere.page.getByText('Amina Otieno').waitFor();
  const mail = (await mailsTo(shop.outbox, shopper.email)).find((each) => each.includes('your payment'));
  expect(mail).toContain(number);
  const link = /http:\/\/\S+\/receipt\?key=[0-9a-f]{32}/.exec(mail ?? '')?.[0] ?? '';
  await elsewhere.page.goto(link);
  await elsewhere.page.getByText(`KSh 1,051.00 by M-PESA`).waitFor();
  await expectAccessible(elsewhere.page, 'the receipt on a desktop');

  // With only the number, customers first prove that the order is theirs.
  const stranger = await newVisitor({ viewport: phone });
  const answer = await stranger.page.goto(`${shop.url}/track-order/${trackingNumber}/receipt`);
  expect(answer?.headers()['cache-control']).toContain('no-store');
  expect(answer?.headers()['x-robots-tag']).toBe('noindex');
  expect(await answer?.text()).not.toMatch(/Amina|711005601|[A-Z0-9]{10} by/);
  const digits = stranger.page.getByLabel('Last four digits of the phone');
  await digits.fill('0000');
  await stranger.page.getByRole('button', { name: 'Show receipt' }).click();
  await stranger.page.getByText('These are not the last four digits').waitFor();
  await expectAccessible(stranger.page, 'a receipt that is not shown');
  await digits.fill('5601');
  await stranger.page.getByRole('button', { name: 'Show receipt' }).click();
  await stranger.page.getByText('Amina Otieno').waitFor();

  // Each message was sent once.
  const messages = [...(await messagesTo(shopper.email)), ...(await messagesTo('+254711005601'))];
  expect(messages.map(({ kind, channel, status }) => `${kind} ${channel} ${status}`).sort()).toEqual([
    'order_paid mail sent',
    'order_paid text sent',
    'order_received mail sent',
    'order_received text sent',
  ]);
  expect(await mailsTo(shop.outbox, shopper.email)).toHaveLength(2);

  await asOwner(shop, `/rest/v1/orders?tracking_number=eq.${trackingNumber}`, 'PATCH', {
    status: 'cancelled',
  });
  await elsewhere.page.goto(link);
  const cancelled = elsewhere.page.getByRole('article', { name: 'Receipt' });
  await cancelled.getByText('Paid, then cancelled').waitFor();
  await cancelled.getByText("Cancelled after you paid. We'll refund you or give you a call.").waitFor();
  expect(await cancelled.getByText('Asante').count()).toBe(0);
});

const rowOf = (page: Page, words: RegExp) =>
  page.getByRole('main').locator('tbody tr, ul[aria-label="Messages"] > li').filter({ hasText: words });

story.for(phoneFirst)(
  'staff see every message sent to a customer and resend failed ones, %s',
  async ([size, viewport], { newVisitor }) => {
    // A customer of its own for each attempt, because the story counts messages.
    const number = `07${String(randomInt(10_000)).padStart(4, '0')}5611`;
    const shopper = {
      ...amina,
      name: `Zawadi ${size}`,
      email: `zawadi-${number}@example.com`,
      phone: number,
    };
    const customer = await newVisitor({ viewport: phone });
    const { trackingNumber } = await orderAndPay(customer.page, shopper);
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page);
    await page.goto(`${shop.url}/admin/messages?search=${trackingNumber}`);
    await page.getByRole('heading', { level: 1, name: 'Messages' }).waitFor();
    await until(async () => (await rowOf(page, /Sent/).count()) === 4, 'four messages are shown as sent');
    await expectAccessible(page, 'the messages');

    // The newsletter goes only to confirmed addresses.
    await asOwner(shop, '/rest/v1/newsletter_subscriptions', 'POST', [
      { email: `reader-${number}@mail.example`, confirmed_at: '2026-11-22T22:30:00Z' },
      { email: `stranger-${number}@mail.example`, confirmed_at: null },
    ]);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Filters' }).click();
    await page.getByRole('button', { name: 'Newsletter list' }).click();
    const list = await readFile(await (await download).path(), 'utf8');
    expect(list).toMatch(/^\uFEFFEmail,Subscribed \(Nairobi time\),Confirmed \(Nairobi time\)\r\n/);
    expect(list).toMatch(new RegExp(`reader-${number}@mail\\.example,[\\d: -]+,2026-11-23 01:30\r\n`));
    expect(list).not.toContain(`stranger-${number}`);

    // Two messages failed, and the list shows it without a reload.
    const [mail] = (await messagesTo(shopper.email)).filter(({ kind }) => kind === 'order_received');
    const [text] = (await messagesTo(`+254${number.slice(1)}`)).filter(
      ({ kind }) => kind === 'order_received',
    );
    const change = (message: Message | undefined, status: string, problem: string) =>
      asOwner(shop, `/rest/v1/outbox_messages?id=eq.${message?.id}`, 'PATCH', { status, problem });
    await change(mail, 'failed', 'Given up after a day: 450 mailbox busy');
    await change(text, 'unsure', 'The shop stopped while it was sending this.');
    await rowOf(page, /Failed/).waitFor();
    await rowOf(page, /Unsure/)
      .getByRole('button', { name: /^View/ })
      .click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('It is unclear whether this message was sent').waitFor();
    await dialog.getByText('we have your order').waitFor();
    await expectAccessible(page, 'a message');
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await dialog.getByText(/^Sent /).waitFor();
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
    await dialog.waitFor({ state: 'hidden' });
    expect(
      (await textsTo(shop.outbox, `254${number.slice(1)}`)).filter(({ kind }) => kind === 'order_received'),
    ).toHaveLength(2);

    await page.getByLabel('Status', { exact: true }).selectOption('failed');
    await rowOf(page, /Order received/)
      .getByRole('button', { name: /^Send again/ })
      .click();
    await page.getByText('No messages found').waitFor();
    await until(
      async () => (await mailsTo(shop.outbox, shopper.email)).length === 3,
      'the mail was sent again',
    );
    // Email programs recognise a repeated email by its id.
    const ids = (await mailsTo(shop.outbox, shopper.email)).map(
      (each) => /^Message-ID: (.+)$/m.exec(each)?.[1],
    );
    expect(new Set(ids).size, 'two messages in three mails').toBe(2);

    // The order's timeline shows the message.
    await page.getByRole('button', { name: 'Show all messages' }).click();
    await page.goto(`${shop.url}/admin/messages?search=${trackingNumber}`);
    await rowOf(page, /Payment received/)
      .first()
      .getByRole('link', { name: /^ORD-/ })
      .click();
    const timeline = page.getByRole('dialog').getByRole('region', { name: 'Timeline' });
    // Mail and text of one event are one line, with a link to each.
    const line = (words: string) => timeline.getByText(words, { exact: true });
    await line('Payment received: mail and text sent').waitFor();
    await timeline
      .getByRole('link', { name: `Mail to ${shopper.email}` })
      .first()
      .waitFor();
    await line('Order received: mail and text sent').waitFor();
    await expect.poll(() => timeline.getByRole('link', { name: /^(Mail|Text) to / }).count()).toBe(4);
  },
);

story(
  'staff edit a template with its placeholders checked, and the next message uses it',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await enterAsStaff(shop, page, '/admin/dashboard');
    await page.getByRole('link', { name: 'Messages' }).click();
    await page.getByRole('link', { name: 'Edit templates' }).click();
    await page.getByRole('heading', { level: 1, name: 'Message templates' }).waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('main');
    const shown = page.getByRole('region', { name: 'On its way: Text' });
    await shown.getByText('Jani Juice: your order JJ-20261121-1234 is on its way').waitFor();
    await expectAccessible(page, 'the templates');
    await shown.getByRole('button', { name: /^Edit/ }).click();
    const dialog = page.getByRole('dialog', { name: 'On its way: text message' });
    const words = dialog.getByLabel('Message');
    await words.fill('{shop}: karibu {nmae}');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('There is no placeholder {nmae}').waitFor();
    await words.fill('{shop}: karibu , your drinks ride! {link}');
    await words.evaluate((field: HTMLTextAreaElement) => field.setSelectionRange(15, 15));
    await dialog.getByText('Placeholders', { exact: true }).click();
    await dialog.getByRole('button', { name: 'Insert {name}' }).click();
    await dialog
      .getByRole('region', { name: 'Preview' })
      .getByText('Jani Juice: karibu Amina Kamau, your drinks')
      .waitFor();
    await expectAccessible(page, 'a template');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'hidden' });
    await shown.getByText('Jani Juice: karibu Amina Kamau').waitFor();

    const shopper = { ...amina, email: 'ride@example.com', phone: '0711005621' };
    const customer = await newVisitor({ viewport: phone });
    await order(customer.page, shop.url, 'hibiscus-bottle', shopper);
    await asOwner(shop, `/rest/v1/orders?customer_email=eq.${shopper.email}`, 'PATCH', {
      payment_status: 'paid',
      status: 'shipped',
    });
    await until(
      async () =>
        (await textsTo(shop.outbox, '254711005621')).some(({ text }) =>
          text.startsWith('Jani Juice: karibu Amina Otieno, your drinks ride! '),
        ),
      'the customer reads the new words',
    );
  },
);

/** A mail server that accepts a whole email and answers only when the test calls for it. */
async function silentMailServer() {
  const mails: string[] = [];
  const sockets = new Set<Socket>();
  let isSilent = true;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.write('220 here\r\n');
    let rest = '';
    let mail: string[] | null = null;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      rest += chunk.toString();
      for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 2);
        if (mail && line !== '.') mail.push(line);
        else if (mail) {
          mails.push(mail.join('\n'));
          mail = null;
          if (!isSilent) socket.write('250 kept\r\n');
        } else if (line === 'DATA') {
          mail = [];
          socket.write('354 go on\r\n');
        } else socket.write('250 ok\r\n');
      }
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  return {
    url: `smtp://127.0.0.1:${address && typeof address === 'object' ? address.port : 0}`,
    mails,
    speak() {
      isSilent = false;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

test('a shop killed while sending an email does not resend it by itself, and sends the ones not yet started', async () => {
  const mailServer = await silentMailServer();
  onTestFinished(() => mailServer.close());
  const fragile = await openShop({ SMTP_URL: mailServer.url });
  onTestFinished(() => fragile.close());
  const place = async (email: string) => {
    const { id } = await placeOrder(fragile, 'Amina Otieno', '0712345678', { customer_email: email });
    await changeOrder(fragile, id, { payment_status: 'paid' });
  };
  const mailsOf = (email: string) => mailServer.mails.filter((mail) => mail.includes(`To: ${email}`));
  const statusOf = async (email: string) => (await messagesTo(email, fragile))[0]?.status;

  await place('lost@example.com');
  await until(async () => mailsOf('lost@example.com').length === 1, 'the mail server has the whole mail');
  expect(await statusOf('lost@example.com')).toBe('sending');
  await fragile.kill();
  mailServer.speak();
  await fragile.restart();
  // Simulates that five minutes have passed.
  await asOwner(fragile, '/rest/v1/outbox_messages?recipient=eq.lost@example.com', 'PATCH', {
    sending_since: new Date(Date.now() - 5 * 60_000 - 1000).toISOString(),
  });
  await place('next@example.com');
  await until(async () => (await statusOf('lost@example.com')) === 'unsure', 'the outcome is unsure');
  await until(async () => (await statusOf('next@example.com')) === 'sent', 'the next mail was sent');
  expect(mailsOf('lost@example.com')).toHaveLength(1);
  expect(mailsOf('next@example.com')).toHaveLength(1);

  const [lost] = await messagesTo('lost@example.com', fragile);
  await asOwner(fragile, '/rest/v1/rpc/send_message_again', 'POST', { message_id: lost?.id });
  await until(async () => (await statusOf('lost@example.com')) === 'sent', 'a person had it sent again');
  const ids = mailsOf('lost@example.com').map((mail) => /^Message-ID: (.+)$/m.exec(mail)?.[1]);
  expect(ids).toEqual([`<${lost?.id}@localhost>`, `<${lost?.id}@localhost>`]);
});
