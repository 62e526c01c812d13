// Notices of a device: what waits is counted outside of the page, and each device chooses what it reports.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { desktop } from '../../browser.ts';
import { placeOrder } from '../../placed-orders.ts';
import { asOwner, enterAsStaff, toast, waitForLive } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });

/** Records the numbers on the icon of the installed app. */
const recordBadges = (page: Page) =>
  page.addInitScript(() => {
    const badges: number[] = [];
    Object.assign(window, { badges });
    Object.defineProperties(Navigator.prototype, {
      setAppBadge: { configurable: true, value: async (count: number) => void badges.push(count) },
      clearAppBadge: { configurable: true, value: async () => void badges.push(0) },
    });
  });
const badge = (page: Page) => page.evaluate(() => (window as unknown as { badges: number[] }).badges.at(-1));
/** Counts the notes that a tab plays. */
const recordNotes = (page: Page) =>
  page.addInitScript(() => {
    const { createOscillator } = AudioContext.prototype;
    Object.assign(window, { notes: 0 });
    AudioContext.prototype.createOscillator = function countNote() {
      (window as unknown as { notes: number }).notes += 1;
      return createOscillator.call(this);
    };
  });
const notes = (page: Page) => page.evaluate(() => (window as unknown as { notes: number }).notes);
const payAtTill = async (name: string, receipt: string) => {
  const { id } = await placeOrder(shop, name);
  const [order] = (await (
    await asOwner(shop, `/rest/v1/orders?id=eq.${id}&select=tracking_number,charge_cents`, 'GET')
  ).json()) as { tracking_number: string; charge_cents: number }[];
  await asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
    source: 'confirmation',
    receipt,
    received_cents: order?.charge_cents,
    reference: order?.tracking_number,
    body: '{}',
  });
};

story('a new paid order is announced and counted, as the device has chosen', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  await recordBadges(page);
  await enterAsStaff(shop, page, '/admin/today');
  await waitForLive(page);
  expect(await page.title()).toBe('Today · Jani Juice Admin');
  // Browsers take the first: the app that is installed from here is the panel.
  const app = await page.locator('link[rel="manifest"]').first().getAttribute('href');
  expect(await (await fetch(shop.url + app)).json()).toMatchObject({
    id: '/admin',
    start_url: '/admin/today',
    scope: '/admin',
  });
  await payAtTill('Wanjiku Notices', 'UKL1111111');
  await toast(page, '1 × Mango · Westlands').waitFor();
  await expect.poll(() => page.title()).toBe('(1) Today · Jani Juice Admin');
  await expect.poll(() => badge(page)).toBe(1);

  await page.getByRole('link', { name: /^Products/ }).click();
  await expect.poll(() => page.title()).toBe('(1) Products · Jani Juice Admin');

  await page.getByRole('button', { name: 'Notices', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Notices on this device' });
  await dialog.getByLabel('In the title of the tab').uncheck();
  await dialog.getByLabel('On the icon of the installed app').uncheck();
  await expect.poll(() => page.title()).toBe('Products · Jani Juice Admin');
  await expect.poll(() => badge(page)).toBe(0);
  await dialog.getByRole('radio', { name: 'Loud' }).check({ force: true });
  await dialog.getByLabel(/^Repeat every 20 seconds/).check();
  await page.reload();
  await page.getByRole('button', { name: /^(Notices|Press for sound)$/ }).click();
  expect(await dialog.getByRole('radio', { name: 'Loud' }).isChecked()).toBe(true);
  expect(await dialog.getByLabel(/^Repeat every 20 seconds/).isChecked()).toBe(true);
  expect(await page.title()).toBe('Products · Jani Juice Admin');
});

story('of several tabs of a device, one makes the sound of a new order', async ({ newVisitor }) => {
  const { page: first } = await newVisitor();
  const second = await first.context().newPage();
  const tabs = [first, second];
  await Promise.all(tabs.map(recordNotes));
  await enterAsStaff(shop, first, '/admin/today');
  await waitForLive(first);
  await second.goto(`${shop.url}/admin/inquiries`);
  await waitForLive(second);
  // Browsers allow sounds after a press.
  for (const tab of tabs) await tab.getByText('Admin Panel').click();
  await payAtTill('Njeri Sounds', 'UKL2222222');
  await Promise.all(tabs.map((tab) => toast(tab, 'Njeri Sounds').waitFor()));
  await expect.poll(async () => (await Promise.all(tabs.map(notes))).sort()).toEqual([0, 3]);
});
