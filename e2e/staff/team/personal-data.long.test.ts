// Data protection: the texts that customers agree to, and the export and erasure of a person's data by staff.
import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { waitForHydration } from '../../browser.ts';
import { placeOrder } from '../../placed-orders.ts';
import { phoneFirst } from '../../selection.ts';
import { asOwner, enterAsStaff, pressUnlessTaken } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
// A conflicting change is also logged on the console, for developers.
const story = storyWith({ expectedFailures: /Failed to save the text/ });

const isInView = (page: Page, heading: string) =>
  page.getByRole('heading', { name: heading, level: 2 }).evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return top >= 0 && bottom <= window.innerHeight;
  });
const focusedId = (page: Page) => page.evaluate(() => document.activeElement?.id ?? '');

story.for(phoneFirst)(
  '%s: the footer links to privacy notice, terms and FAQ',
  async ([where, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(shop.url);
    await waitForHydration(page);
    for (const [link, id, heading] of [
      ['Privacy Policy', 'privacy', 'Privacy notice'],
      ['Terms of Service', 'terms', 'Terms of service'],
      ['FAQ', 'faq', 'Frequently asked questions'],
    ] as const) {
      await page.getByRole('contentinfo').getByRole('link', { name: link }).click();
      await page.waitForURL(`**/contact#${id}`);
      await until(() => isInView(page, heading), `${heading} is in view`);
      await until(async () => (await focusedId(page)) === id, `the focus is at ${heading}`);
    }
    await page.getByText('Office of the Data Protection Commissioner').waitFor();
    await page.getByText('Your details in an order: 2 years.').waitFor();
    await expectAccessible(page, `the texts ${where}`);
    // Collapsed until asked for.
    const text = page.getByText('Your details in an order: 2 years.');
    const title = page.getByRole('heading', { name: 'Privacy notice', level: 2 });
    await title.click();
    await text.waitFor({ state: 'hidden' });
    await title.click();
    await text.waitFor();
  },
);

story('the texts and their links work without JavaScript', async ({ newVisitor }) => {
  const { page } = await newVisitor({ javaScriptEnabled: false });
  await page.goto(`${shop.url}/delivery`);
  await page.getByRole('contentinfo').getByRole('link', { name: 'Privacy Policy' }).click();
  await page.waitForURL('**/contact#privacy');
  await until(() => isInView(page, 'Privacy notice'), 'the privacy notice is in view');
  await page.getByText('Your details in an order: 2 years.').waitFor();
});

const original = async (slug: string) => {
  const answer = await asOwner(shop, `/rest/v1/shop_texts?slug=eq.${slug}`, 'GET');
  const [row] = (await answer.json()) as { default_title: string; default_body: string }[];
  await asOwner(shop, `/rest/v1/shop_texts?slug=eq.${slug}`, 'PATCH', {
    title: row?.default_title,
    body: row?.default_body,
  });
};
const editor = (page: Page) => page.getByRole('textbox', { name: 'Text' });
const save = (page: Page) => page.getByRole('button', { name: 'Save', exact: true });
const saved = (page: Page) => page.getByText('Text saved successfully');

story.for(phoneFirst)('%s: staff edit a text with its preview', async ([where, viewport], { newVisitor }) => {
  await original('terms');
  const { page } = await newVisitor({ viewport });
  await enterAsStaff(shop, page, '/admin/settings?section=pages');
  await page.getByRole('link', { name: /^Terms of service/ }).click();
  const preview = page.getByRole('region', { name: 'Preview' });
  await preview.getByRole('heading', { name: 'Who may order' }).waitFor();
  await expectAccessible(page, `the editor of texts ${where}`);

  await editor(page).fill(
    '## Who may order\n\nAdults only. <script>alert(1)</script> [Call us]({phone_link})',
  );
  await save(page).click();
  await page.getByText('There is no placeholder {phone_link}').waitFor();
  await editor(page).fill('## Who may order\n\nAdults **only**. <script>alert(1)</script> Call {phone}.');
  await preview.getByText('<script>alert(1)</script>').waitFor();
  await preview.getByRole('link', { name: '0700 000 000' }).waitFor();

  // A tap on another screen does not discard unsaved text.
  await page.getByRole('link', { name: /^Orders/ }).click();
  const question = page.getByRole('dialog', { name: 'Leave without saving?' });
  await question.getByRole('button', { name: 'Cancel' }).click();
  await save(page).click();
  await saved(page).waitFor();

  await until(
    async () => (await (await fetch(`${shop.url}/contact`)).text()).includes('Adults <strong>only</strong>'),
    'the contact page shows the text',
    1000,
  );
  const html = await (await fetch(`${shop.url}/contact`)).text();
  expect(html).toContain(
    '&lt;script&gt;alert(1)&lt;/script&gt; Call <a href="tel:+254700000000">0700 000 000</a>',
  );
  expect(html).not.toContain('<script>alert(1)');
});

story('keeps both texts when two staff members edit one at the same time', async ({ newVisitor }) => {
  await original('faq');
  const [first, second] = [(await newVisitor()).page, (await newVisitor()).page];
  for (const page of [first, second]) {
    await enterAsStaff(shop, page, '/admin/settings/texts/faq');
    await editor(page).waitFor();
  }
  await editor(first).fill('Mine');
  await editor(second).fill('Written by the second member');
  await save(second).click();
  await saved(second).waitFor();
  const conflict = first.getByRole('alert').filter({ hasText: 'Another staff member changed this text' });
  await pressUnlessTaken(save(first), conflict);
  await conflict.getByText('Written by the second member').waitFor();
  expect(await editor(first).inputValue()).toBe('Mine');
  await conflict.getByRole('button', { name: 'Keep mine' }).click();
  await save(first).click();
  await saved(first).waitFor();
  await expect.poll(() => editor(second).inputValue()).toBe('Mine');
});

story.for(phoneFirst)('%s: staff export and erase one person', async ([where, viewport], { newVisitor }) => {
  const digits = `0711 ${randomInt(100, 1000)} ${randomInt(100, 1000)}`;
  // An email with a phone in it is read as an email.
  const customer = {
    name: `Njeri ${where}`,
    email: `njeri.${digits.replaceAll(' ', '')}@example.com`,
    phone: digits,
  };
  const place = async () =>
    (await placeOrder(shop, customer.name, customer.phone, { customer_email: customer.email })).id;
  const [closed, open] = [await place(), await place()];
  await asOwner(shop, `/rest/v1/orders?id=eq.${closed}`, 'PATCH', { status: 'cancelled' });
  // The message about it is sent once staff can no longer undo; until that has ended, the order is not erased.
  await expect
    .poll(
      async () => {
        const unsent = `outbox_messages?order_id=eq.${closed}&status=in.(waiting,sending)`;
        return (await asOwner(shop, `/rest/v1/${unsent}`, 'GET')).json();
      },
      { timeout: 60_000 },
    )
    .toEqual([]);
  await asOwner(shop, '/rest/v1/inquiries', 'POST', {
    name: customer.name,
    email: customer.email,
    message: 'What do you know about me?',
  });

  const { page } = await newVisitor({ viewport });
  await enterAsStaff(shop, page, '/admin/settings?section=data');
  await page.getByRole('link', { name: /^Customer data/ }).click();
  const search = page.getByRole('textbox', { name: 'Phone or email' });
  await search.fill('Njeri');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByText('Please enter a Kenyan mobile number or an email address').waitFor();
  await search.fill(`+254 (0)${digits.slice(1)}`);
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  const found = page.getByRole('region', { name: digits });
  const orders = found.getByRole('list', { name: 'Orders' }).getByRole('listitem');
  await expect.poll(() => orders.count()).toBe(2);
  await orders.filter({ hasText: 'It waits for its payment' }).waitFor();
  await expectAccessible(page, `customer data ${where}`);

  const download = page.waitForEvent('download');
  await found.getByRole('button', { name: 'Download a copy (JSON)' }).click();
  const file = await download;
  expect(file.suggestedFilename()).toMatch(/^customer-data-\d{4}-\d\d-\d\d\.json$/);
  const copy = JSON.parse(await readFile(await file.path(), 'utf8'));
  expect(copy.orders.map((order: { customer_name: string }) => order.customer_name)).toEqual([
    customer.name,
    customer.name,
  ]);

  await found.getByRole('button', { name: 'Erase...' }).click();
  const dialog = page.getByRole('dialog', { name: `Erase ${digits}?` });
  await dialog.getByText('1 order is still needed, and erased automatically later.').waitFor();
  await expectAccessible(page, `the question before erasure ${where}`);
  await dialog.getByRole('textbox').fill('0700 000 000');
  await dialog.getByRole('button', { name: 'Erase', exact: true }).click();
  await dialog.getByText('This is another phone or email').waitFor();
  await dialog.getByRole('textbox').fill(digits);
  await dialog.getByRole('button', { name: 'Erase', exact: true }).click();
  await page.getByText('1 order, 0 payments for other customers, 0 inquiries').waitFor();
  await page.getByText('It waits for its payment. It is erased automatically after that.').waitFor();
  await page.getByText('Erased orders: 1').first().waitFor();
  const row = async (id: string) =>
    (
      (await (await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'GET')).json()) as {
        customer_name: string;
      }[]
    )[0];
  expect(await row(closed)).toMatchObject({ customer_name: 'Anonymised', customer_phone: '' });
  expect(await row(open)).toMatchObject({ customer_name: customer.name });

  // The search by email still finds the inquiry.
  await search.fill(customer.email.toUpperCase());
  await search.press('Enter');
  const byMail = page.getByRole('region', { name: customer.email });
  await byMail.getByRole('button', { name: 'Erase...' }).click();
  const second = page.getByRole('dialog', { name: `Erase ${customer.email}?` });
  await second.getByRole('textbox').fill(customer.email);
  await second.getByRole('button', { name: 'Erase', exact: true }).click();
  await page.getByText('0 orders, 0 payments for other customers, 1 inquiry').waitFor();

  await page.goto(`${shop.url}/admin/orders/${closed}`);
  await page.getByText('Name, phone, email, address and notes were removed').waitFor();
  await page.goto(`${shop.url}/admin/orders/${open}`);
  await page.getByText('To be erased once this order is closed').waitFor();
});
