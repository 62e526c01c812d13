// From the contact form to the panel at both sizes. Searching, conflicts and failures: web/admin/inquiries/inquiries-page.test.tsx.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone } from '../../browser.ts';
import { desktopFirst } from '../../selection.ts';
import { asOwner, enterAsStaff, toast } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });

interface Inquiry {
  id: string;
  name: string;
  is_read: boolean;
}

async function makeInquiry(name: string, more: Record<string, unknown> = {}): Promise<Inquiry> {
  const answer = await asOwner(shop, '/rest/v1/inquiries', 'POST', {
    name,
    email: 'visitor@mail.example',
    message: 'Hello',
    ...more,
  });
  const [made] = (await answer.json()) as Inquiry[];
  if (!made) throw new Error('No inquiry was made');
  return made;
}
async function unreadCount(): Promise<number> {
  const answer = await asOwner(shop, '/rest/v1/inquiries?is_read=is.false&select=id', 'GET');
  return ((await answer.json()) as unknown[]).length;
}

const openInquiries = async (page: Page): Promise<void> => {
  await page.goto(`${shop.url}/admin/inquiries`);
  await page.getByRole('heading', { level: 1, name: 'Inquiries' }).waitFor();
};
/** The row or card of an inquiry, by sender. */
const rowOf = (page: Page, name: string) =>
  page
    .getByRole('main')
    .locator('tbody tr, ul[aria-label="Inquiries"] > li')
    .filter({ has: page.getByRole('button', { name: `View inquiry from ${name}`, exact: true }) });
const markAll = (page: Page, count: number) =>
  page.getByRole('button', { name: `Mark All Read (${count})`, exact: true });

// Sequential, because the unread count covers the whole shop.
story.for(desktopFirst)(
  'a message from the contact form arrives, is found, opened, answered and marked as read, %s',
  async ([size, viewport], { newVisitor }) => {
    const [wanjiku, kamau] = [`Wanjiku ${size}`, `Kamau ${size}`];
    await makeInquiry(kamau, { email: `kamau_100%@mail.example`, message: 'First line\n\nThird line' });
    const njeri = `Njeri ${size}`;
    await makeInquiry(njeri, { subject: 'x'.repeat(200) });
    const before = await unreadCount();
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page);
    await openInquiries(page);
    await page.getByText('Manage customer inquiries').waitFor();
    await rowOf(page, kamau).getByText('No subject').waitFor();
    await markAll(page, before).waitFor();
    // A long subject without spaces does not push buttons out of the list.
    const [list, button] = await Promise.all([
      page.locator('[data-shape]').first().boundingBox(),
      rowOf(page, njeri).getByRole('button', { name: 'Mark as Read' }).boundingBox(),
    ]);
    if (!list || !button) throw new Error('the list or its button is not shown');
    expect(button.x + button.width).toBeLessThanOrEqual(list.x + list.width);
    if (viewport === desktop) {
      expect(await page.getByRole('columnheader').allTextContents()).toEqual([
        'Name',
        'Email',
        'Subject',
        'Date',
        'Status',
        'Actions',
      ]);
    }

    // A visitor writes while the list is open.
    const visitor = await newVisitor({ viewport: phone });
    await visitor.page.goto(`${shop.url}/contact`);
    await visitor.page.getByLabel(/^First name/i).fill('Wanjiku');
    await visitor.page.getByLabel(/^Last name/i).fill(size);
    await visitor.page.getByLabel(/Email \*/).fill('wanjiku@mail.example');
    await visitor.page.getByLabel('Phone', { exact: true }).fill('0712 345 678');
    await visitor.page.getByLabel('Subject', { exact: true }).fill('A birthday & more');
    await visitor.page.getByRole('textbox', { name: 'Message' }).fill('Do you deliver\nto Ngong Road?');
    // The toast disappears after four seconds, so the test waits for it while the message is sent.
    await Promise.all([
      toast(page, `From ${wanjiku}`).waitFor(),
      visitor.page.getByRole('button', { name: 'Send message' }).click(),
    ]);
    await visitor.page.getByText('Message sent successfully!').waitFor();
    const row = rowOf(page, wanjiku);
    await row.waitFor();
    await row.getByText('Unread', { exact: true }).waitFor();
    await markAll(page, before + 1).waitFor();
    await expectAccessible(page);

    // Opening an inquiry does not mark it as read.
    await row.getByRole('button', { name: /^View/ }).click();
    const dialog = page.getByRole('dialog', { name: `Inquiry from ${wanjiku}` });
    await dialog.getByText(/^Received on /).waitFor();
    await dialog.getByText('A birthday & more').waitFor();
    expect(
      await dialog
        .getByText('Do you deliver')
        .evaluate((element) => [element.textContent, getComputedStyle(element).whiteSpace]),
    ).toEqual(['Do you deliver\nto Ngong Road?', 'pre-wrap']);
    const leadsTo = (name: RegExp) => dialog.getByRole('link', { name }).getAttribute('href');
    expect(await leadsTo(/^Reply by mail/)).toBe(
      `mailto:wanjiku@mail.example?subject=${encodeURIComponent('Re: A birthday & more')}`,
    );
    expect(await leadsTo(/^Call/)).toBe('tel:+254712345678');
    expect(await leadsTo(/^Chat/)).toBe('https://wa.me/254712345678');
    await expectAccessible(page, 'an open inquiry');
    expect(await unreadCount()).toBe(before + 1);
    await dialog.getByRole('button', { name: 'Reply', exact: true }).click();
    await dialog.getByRole('checkbox', { name: /^SMS/ }).click();
    await dialog.getByLabel('Begin with a template').selectOption({ label: 'Yes, we deliver there' });
    await dialog.getByText(/^\d+ of 160 characters$/).waitFor();
    await expectAccessible(page, 'a reply');
    await dialog.getByRole('button', { name: 'Discard' }).click();
    await dialog.getByRole('alertdialog').getByRole('button', { name: 'Discard' }).click();
    await dialog.getByRole('button', { name: 'Mark as Read' }).click();
    await toast(page, 'Inquiry marked as read').waitFor();
    await dialog.getByText('Read', { exact: true }).waitFor();
    await dialog.getByRole('button', { name: 'Mark as Read' }).waitFor({ state: 'detached' });
    // Back closes the dialog, and its URL opens it.
    await page.goBack();
    await dialog.waitFor({ state: 'hidden' });
    expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe('/admin/inquiries');
    await page.goForward();
    await dialog.waitFor();
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
    await dialog.waitFor({ state: 'hidden' });
    await row.getByText('Read', { exact: true }).waitFor();
    await row.getByRole('button', { name: /^Mark as Read/ }).waitFor({ state: 'detached' });
    await markAll(page, before).waitFor();

    const box = page.getByRole('searchbox', { name: 'Search inquiries' });
    await box.fill(`kamau ${size}`);
    await rowOf(page, wanjiku).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Filters' }).click();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const file = await readFile(await (await download).path(), 'utf8');
    expect(file).toMatch(
      /^\uFEFFName,Email,Phone,Subject,Message,Received \(Nairobi time\),Status,Answered by,Answered \(Nairobi time\)\r\n/,
    );
    expect(file).toContain(`${kamau},kamau_100%@mail.example,,,"First line\n\nThird line",`);
    await box.fill('no message contains this');
    await page.getByText('No inquiries found').waitFor();
    await expectAccessible(page, 'an empty search');
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(overflow).toBeLessThanOrEqual(0);
  },
);
