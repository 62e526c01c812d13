// Staff watch the daily budgets for texts and emails, raise an exhausted one, and send the messages that it held back.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { textsTo } from '../../mailbox.ts';
import { changeOrder, placeOrder } from '../../placed-orders.ts';
import { phoneFirst } from '../../selection.ts';
import { asOwner, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

const line = (page: Page, label: string) =>
  page.getByRole('region', { name: 'System Status' }).locator('dl > div').filter({ hasText: label });
const rowsOf = (page: Page, status: string) =>
  page.getByRole('main').locator('tbody tr, ul[aria-label="Messages"] > li').filter({ hasText: status });

/** Places and pays an order, so that its customer gets one text and one email. */
async function placePaidOrder(customerPhone: string): Promise<void> {
  const { id } = await placeOrder(shop, 'Amina Otieno', customerPhone);
  await changeOrder(shop, id, { payment_status: 'paid' });
}

/** Today's texts and emails, in every status. */
async function statusesOf(channel: 'text' | 'mail'): Promise<string[]> {
  const answer = await asOwner(shop, `/rest/v1/outbox_messages?channel=eq.${channel}&select=status`, 'GET');
  return ((await answer.json()) as { status: string }[]).map(({ status }) => status).sort();
}

async function setTextsPerDay(page: Page, texts: string): Promise<void> {
  await page.goto(`${shop.url}/admin/settings?section=messages`);
  await page.getByLabel('SMS per day').fill(texts);
  await page.getByRole('button', { name: 'Save Settings' }).click();
}

story.for(phoneFirst)(
  '%s: staff raise an exhausted message budget and send the messages held back',
  async ([size, viewport], { newVisitor }) => {
    const sent = (await statusesOf('text')).filter((status) => status === 'sent').length;
    const mails = (await statusesOf('mail')).length;
    const number = (figure: number) => figure.toLocaleString('en-KE');
    // The error for sending over budget comes from the table service.
    const { page } = await newVisitor({ viewport, expectedFailures: /409|Failed to send the message/ });
    await enterAsStaff(shop, page);
    await setTextsPerDay(page, '100001');
    await page.getByText('Please enter a whole number from 0 to 100000').waitFor();
    await page.getByLabel('SMS per day').fill(String(sent + 2));
    await page.getByRole('button', { name: 'Save Settings' }).click();
    await page.getByText('Settings saved successfully').first().waitFor();
    await expectAccessible(page, `the budgets in the settings ${size}`);

    const phones = [1, 2, 3].map((digit) => `07110${size === 'on a phone' ? 1 : 2}560${digit}`);
    for (const each of phones) await placePaidOrder(each);
    await until(
      async () => (await statusesOf('text')).filter((status) => status === 'over_budget').length === 1,
      'the third text is over budget',
    );
    await until(
      async () => (await statusesOf('mail')).every((status) => status === 'sent'),
      'every mail was sent',
    );

    await page.goto(`${shop.url}/admin/dashboard`);
    await line(page, 'Messages').getByText('Used up').waitFor();
    await line(page, 'Messages')
      .getByText(`SMS today ${sent + 2} of ${sent + 2}, mails ${number(mails + 3)} of 1,000`)
      .waitFor();
    await page.getByText("Today's budget of SMS is used up").waitFor();
    await page.getByText('One message was not sent.').waitFor();
    await expectAccessible(page, `the notice about the budget ${size}`);

    await page.getByRole('link', { name: 'See the messages' }).click();
    await page.getByRole('heading', { level: 1, name: 'Messages' }).waitFor();
    const kept = rowsOf(page, 'Withheld');
    await kept.getByRole('button', { name: /^View/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText("Not sent: today's budget of texts is used up").waitFor();
    await expectAccessible(page, `a message over budget ${size}`);
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
    await dialog.waitFor({ state: 'hidden' });
    await kept.getByRole('button', { name: /^Send now/ }).click();
    await page.getByText('Raise it under Settings, or send this tomorrow').first().waitFor();

    await setTextsPerDay(page, String(sent + 20));
    await page.getByText('Settings saved successfully').first().waitFor();
    await page.goto(`${shop.url}/admin/messages?status=over_budget`);
    await page.getByRole('button', { name: 'Send all 1 now' }).click();
    await page.getByText('One message is on the way').first().waitFor();
    await page.getByText('No messages found').waitFor();
    await until(
      async () => (await statusesOf('text')).filter((status) => status === 'sent').length === sent + 3,
      'the third text was sent',
    );
    const texts = await Promise.all(phones.map((each) => textsTo(shop.outbox, `254${each.slice(1)}`)));
    expect(texts.map((all) => all.length)).toEqual([1, 1, 1]);
    await page.goto(`${shop.url}/admin/dashboard`);
    await line(page, 'Messages')
      .getByText(`SMS today ${sent + 3} of ${sent + 20}`)
      .waitFor();
    expect(await page.getByText("Today's budget of SMS is used up").count()).toBe(0);
  },
);
