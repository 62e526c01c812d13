// Open staff screens update without a reload.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../scripts/tests/open-shop.ts';
import { desktop, phone } from '../browser.ts';
import { placeAssignedOrder } from '../placed-orders.ts';
import { atSizes } from '../selection.ts';
import { amina, order, payButton } from '../shopper.ts';
import { asOwner, chooseStatus, enterAsStaff, waitForLive } from '../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });

const message = (page: Page, title: string) =>
  page.getByRole('region', { name: /Messages/ }).getByText(title, { exact: true });

async function pay(page: Page, name: string, phoneNumber: string): Promise<void> {
  await order(page, shop.url, 'mango-bottle', { ...amina, name, phone: phoneNumber });
  await payButton(page).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).waitFor();
}

const menu = (page: Page, size: { width: number }) =>
  size.width >= 768
    ? page.getByRole('complementary')
    : page.getByRole('navigation', { name: 'Screens of the day' });

describe.each(
  atSizes([
    ['on a desktop', desktop, '0722000102'],
    ['on a phone', phone, '0722000101'],
  ] as const),
)('%s', (where, size, payer) => {
  story('a paid order appears as a toast, a count in the menu, and a row', async ({ newVisitor }) => {
    const [{ page: staff }, { page: shopper }] = [await newVisitor({ viewport: size }), await newVisitor()];
    await enterAsStaff(shop, staff, '/admin/dashboard');
    await waitForLive(staff);
    const name = `Wanjiku ${where}`;
    // The toast disappears after four seconds, so the test waits for it while the customer pays.
    await Promise.all([
      message(staff, 'New paid order').waitFor({ timeout: 60_000 }),
      pay(shopper, name, payer),
    ]);
    const link = menu(staff, size).getByRole('link', { name: /^Orders/ });
    await link.getByText('newly paid').waitFor({ state: 'attached' });
    expect(await link.textContent()).toMatch(/^Orders1/);
    // Opening the orders resets the counter.
    await link.click();
    await staff.getByText(name).first().waitFor();
    await link.getByText('newly paid').waitFor({ state: 'detached' });
  });

  story('a message from the contact form appears as a toast that opens it', async ({ newVisitor }) => {
    const [{ page: staff }, { page: visitor }] = [await newVisitor({ viewport: size }), await newVisitor()];
    await enterAsStaff(shop, staff, '/admin/dashboard');
    await waitForLive(staff);
    await visitor.goto(`${shop.url}/contact`);
    await visitor.getByLabel(/^First name/i).fill('Baraka');
    await visitor.getByLabel(/^Last name/i).fill(where);
    await visitor.getByLabel(/^Email \*/).fill('baraka@mail.example');
    await visitor.getByRole('textbox', { name: 'Message' }).fill('Is the mango one back?');
    // The test waits for this toast while the message is sent, too.
    const read = async () => {
      await message(staff, 'New inquiry').waitFor();
      await staff.getByRole('button', { name: 'Read', exact: true }).click();
    };
    const send = async () => {
      await visitor.getByRole('button', { name: /^Send/ }).click();
      await visitor.getByText('Message sent successfully!').waitFor();
    };
    await Promise.all([read(), send()]);
    await staff.getByRole('dialog', { name: `Inquiry from Baraka ${where}` }).waitFor();
  });

  story('a change by one staff member appears for another', async ({ newVisitor }) => {
    const [{ page: first }, { page: second }, { page: shopper }] = [
      await newVisitor({ viewport: size }),
      await newVisitor({ viewport: size }),
      await newVisitor(),
    ];
    const name = `Njeri ${where}`;
    const status = (page: Page) => page.getByRole('button', { name: /^Status of ORD-/ });
    await order(shopper, shop.url, 'mango-bottle', { ...amina, name });
    for (const page of [first, second]) {
      await enterAsStaff(shop, page);
      await page.goto(`${shop.url}/admin/orders?search=${encodeURIComponent(name)}`);
      await page.getByText(name).first().waitFor();
      await waitForLive(page);
    }
    await chooseStatus(status(first), 'Processing');
    await first.getByRole('button', { name: /^Undo .*: Processing/ }).waitFor();
    await until(async () => (await status(second).textContent()) === 'Processing', 'the other one sees it');
  });
});

story('a staff member without rights receives nothing more', async ({ newVisitor }) => {
  const [{ page: staff }, { page: watcher }, { page: shopper }] = [
    await newVisitor({ expectedFailures: /40[13] |not admin, or not active|Changed|failed/ }),
    await newVisitor(),
    await newVisitor(),
  ];
  const account = await enterAsStaff(shop, staff, '/admin/dashboard');
  await enterAsStaff(shop, watcher, '/admin/dashboard');
  await Promise.all([waitForLive(staff), waitForLive(watcher)]);
  await asOwner(shop, `/rest/v1/admin_profiles?user_id=eq.${account.id}`, 'PATCH', { is_active: false });
  // Records everything that the screen of the former staff member shows, even briefly.
  await staff.evaluate(() => {
    const shown: string[] = [];
    Object.assign(window, { shown });
    new MutationObserver(() => shown.push(document.body.textContent ?? '')).observe(document.body, {
      childList: true,
      subtree: true,
    });
  });
  await Promise.all([
    message(watcher, 'New paid order').waitFor({ timeout: 60_000 }),
    pay(shopper, 'Achieng', '0722000103'),
  ]);
  const shown = await staff.evaluate(() => (window as unknown as { shown: string[] }).shown);
  expect(shown.filter((text) => text.includes('New paid order'))).toEqual([]);
});

story('after a server outage, the screens reconnect and show what they missed', async ({ newVisitor }) => {
  const { page } = await newVisitor({
    viewport: phone,
    expectedFailures: /ERR_CONNECTION_REFUSED|WebSocket|Failed to fetch|could not|failed/i,
  });
  await enterAsStaff(shop, page);
  await page.goto(`${shop.url}/admin/inquiries`);
  await page.getByRole('heading', { name: 'Inquiries', level: 1 }).waitFor();
  await waitForLive(page);
  const headerHeight = () => page.getByRole('banner').evaluate((header) => header.clientHeight);
  const height = await headerHeight();
  await shop.kill();
  await page.getByText('Reconnecting...').waitFor();
  expect(await headerHeight()).toBe(height);
  await shop.restart();
  const { publishable } = await shop.keys();
  const sent = await fetch(`${shop.url}/rest/v1/inquiries`, {
    method: 'POST',
    headers: { apikey: publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Kamau', email: 'kamau@mail.example', message: 'Hello?' }),
  });
  expect(sent.status).toBe(201);
  await waitForLive(page);
  await page.getByText('Kamau').first().waitFor();
});

story('a toast does not cover what the keyboard has focused', async ({ newVisitor }) => {
  for (let count = 0; count < 16; count += 1) await placeAssignedOrder(shop, 'Under a toast');
  const { page } = await newVisitor();
  await enterAsStaff(shop, page, '/admin/orders?search=Under+a+toast');
  await waitForLive(page);
  const buttons = page.getByRole('table').getByRole('button', { name: /^More for/ });
  await buttons.nth(15).waitFor();
  const focused = await buttons.evaluateAll((all) =>
    all.findLastIndex((button) => button.getBoundingClientRect().bottom < window.innerHeight - 20),
  );
  // The last press was by keyboard, so that the focus is shown.
  await buttons.nth(focused - 1).focus();
  await page.keyboard.press('Tab');
  await asOwner(shop, '/rest/v1/inquiries', 'POST', {
    name: 'Above a button',
    email: 'above@mail.example',
    message: 'Do you deliver to Karen?',
  });
  const toast = page.locator('[data-sonner-toast]').filter({ hasText: 'New inquiry' });
  // It stays while the mouse is over it.
  await toast.hover();
  const isClear = () =>
    page.evaluate(() => {
      const [button, shown] = [document.activeElement, document.querySelector('[data-sonner-toast]')].map(
        (element) => element?.getBoundingClientRect(),
      );
      return (
        button !== undefined &&
        shown !== undefined &&
        (button.bottom <= shown.top || button.right <= shown.left)
      );
    });
  for (let presses = 0; presses < 8; presses += 1) {
    await page.keyboard.press('Tab');
    await until(isClear, 'what has the focus is above the toast');
  }
});
