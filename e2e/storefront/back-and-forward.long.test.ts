// Back and Forward: each dialog has its own history entry, Back closes it, and every press of Back has an effect.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { delayResponses, desktop, dialogOf, phone, waitForHydration } from '../browser.ts';
import { atSizes } from '../selection.ts';
import { amina, fillOrder, payButton, placeOrderButton, trackingNumberIn } from '../shopper.ts';
import { asOwner, enterAsStaff } from '../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../story.ts';

openShopForStories();
const story = storyWith({ expectedFailures: /409 \(|429 \(/ });

const sizes = atSizes([
  ['on a phone', phone, '0711007701'],
  ['at a desktop', desktop, '0711007702'],
] as const);
const pathOf = (page: Page) => new URL(page.url()).pathname;
const gone = (page: Page) => expect.poll(() => dialogOf(page).count()).toBe(0);
/**
 * Chromium's Back skips entries that were added without a user gesture; a key press on a phone counts as one. This function returns before
 * the page can navigate.
 */
const back = (page: Page) => page.evaluate(() => void setTimeout(() => window.history.back()));
const forward = (page: Page) => page.evaluate(() => void setTimeout(() => window.history.forward()));
/** Number of open dialogs in the state of the current history entry. */
const entryOf = (page: Page) =>
  expect.poll(() => page.evaluate(() => window.history.state?.usr?.dialogs ?? 0));
const scrollOf = (page: Page) => page.evaluate(() => Math.round(window.scrollY));

story.for(sizes)(
  'Back closes the order dialog, even during a payment, and the next Back leaves the page %s',
  async ([, viewport, number], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop`);
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await waitForHydration(page);
    const order = page.getByRole('button', { name: 'Order Now' }).first();

    await order.click();
    await dialogOf(page).getByLabel(/^Name/).fill('Amina');
    expect(pathOf(page)).toBe('/shop/mango-bottle');
    const there = await scrollOf(page);
    await back(page);
    await gone(page);
    expect(pathOf(page)).toBe('/shop/mango-bottle');
    expect(await scrollOf(page)).toBe(there);
    // Forward opens no dialog and costs no extra press of Back.
    await forward(page);
    await entryOf(page).toBe(0);
    await gone(page);
    await order.click();
    await expect.poll(() => dialogOf(page).getByLabel(/^Name/).inputValue()).toBe('Amina');
    await fillOrder(page, { ...amina, phone: number });
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    const tracking = await trackingNumberIn(page);
    await payButton(page).click();
    await back(page);
    await gone(page);
    expect(pathOf(page)).toBe('/shop/mango-bottle');

    // The payment continued and is shown again.
    await page.goto(`${shop.url}/track-order/${tracking}`);
    await page.getByText('Paid with M-PESA').waitFor();
    await back(page);
    await page.waitForURL('**/shop/mango-bottle');
    await waitForHydration(page);

    // A dialog closed by its button leaves no history entry.
    await order.click();
    await dialogOf(page).getByRole('button', { name: 'Close' }).first().click();
    await gone(page);
    await order.click();
    await dialogOf(page).getByRole('button', { name: 'Close' }).first().waitFor();
    await page.keyboard.press('Escape');
    await gone(page);
    await entryOf(page).toBe(0);
    await back(page);
    await page.waitForURL('**/shop');
  },
);

story('Back keeps the dialog open while an order is being sent', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  await page.goto(`${shop.url}/shop/mango-can`);
  await waitForHydration(page);
  await page.getByRole('button', { name: 'Order Now' }).first().click();
  await fillOrder(page, { ...amina, phone: '0711007705' });
  const placed = await delayResponses(page, /\/rpc\/place_order/);
  await placeOrderButton(page).click();
  await expect.poll(() => placed.requested.length).toBe(1);
  await page.evaluate(
    () =>
      new Promise<void>((done) => {
        window.addEventListener('popstate', () => done(), { once: true });
        window.history.back();
      }),
  );
  // The entry that Back left is added again.
  await entryOf(page).toBe(1);
  placed.release();
  await payButton(page).waitFor();
  expect(pathOf(page)).toBe('/shop/mango-can');
});

story(
  'Back on the first page of a tab stays on it, and a reload starts without the dialog',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await page.goto(`${shop.url}/shop/mango-can`);
    await waitForHydration(page);
    const length = () => page.evaluate(() => window.history.length);
    const before = await length();
    await page.getByRole('button', { name: 'Order Now' }).first().click();
    await dialogOf(page).getByLabel(/^Name/).fill('Amina');
    await expect.poll(length).toBe(before + 1);
    await page.reload();
    await waitForHydration(page);
    await entryOf(page).toBe(0);
    await page.getByRole('button', { name: 'Order Now' }).first().click();
    await expect.poll(() => dialogOf(page).getByLabel(/^Name/).inputValue()).toBe('Amina');
    await back(page);
    await gone(page);
    expect(pathOf(page)).toBe('/shop/mango-can');
  },
);

story('a dialog opened right after a reload stays open', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  await page.addInitScript(() => {
    const go = window.history.go.bind(window.history);
    window.history.go = (delta) => void setTimeout(() => go(delta), 500);
    window.addEventListener('popstate', () => {
      document.documentElement.dataset.steps = 'done';
    });
  });
  await page.goto(`${shop.url}/shop/mango-bottle`);
  await page.getByRole('button', { name: 'Order Now' }).first().click();
  const name = dialogOf(page).getByLabel(/^Name/);
  await name.waitFor();
  await entryOf(page).toBe(1);
  await page.reload();
  // The entry of the dialog from before the reload is now being removed.
  await page.getByRole('button', { name: 'Order Now' }).first().click();
  await name.waitFor();
  await page.locator('html[data-steps="done"]').waitFor();
  await entryOf(page).toBe(1);
  expect(await name.isVisible()).toBe(true);
  await back(page);
  await gone(page);
  expect(pathOf(page)).toBe('/shop/mango-bottle');
});

story('closing a dialog while it opens stays on the page', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: desktop });
  await page.goto(`${shop.url}/shop`);
  // Simulates a slow device: transitions render late, and going back takes even longer.
  await page.addInitScript(() => {
    const { postMessage } = MessagePort.prototype;
    MessagePort.prototype.postMessage = function (this: MessagePort, message: unknown) {
      setTimeout(() => postMessage.call(this, message), 50);
    };
    const { go, pushState } = History.prototype;
    History.prototype.pushState = function (this: History, ...entry: Parameters<typeof pushState>) {
      pushState.apply(this, entry);
      const press = new KeyboardEvent('keydown', { key: 'Escape', bubbles: true });
      setTimeout(() => document.dispatchEvent(press));
    };
    History.prototype.go = function (this: History, delta?: number) {
      const { dataset } = document.documentElement;
      dataset.steps = `${dataset.steps ?? ''}${delta}`;
      setTimeout(() => go.call(this, delta), 200);
    };
  });
  await page.goto(`${shop.url}/shop/mango-bottle`);
  await waitForHydration(page);
  const order = page.getByRole('button', { name: 'Order Now' }).first();
  const length = () => page.evaluate(() => window.history.length);
  const before = await length();
  await order.focus();
  await order.press('Enter');
  await expect.poll(length).toBe(before + 1);
  await gone(page);
  await entryOf(page).toBe(0);
  expect(await page.evaluate(() => document.documentElement.dataset.steps)).toBe('-1');
  expect(pathOf(page)).toBe('/shop/mango-bottle');
  await order.and(page.locator(':focus')).waitFor();
  await back(page);
  await page.waitForURL('**/shop');
});

story(
  'Back closes the menu, and following a link in it leaves no extra history entry',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await page.goto(`${shop.url}/contact`);
    await waitForHydration(page);
    const menu = page.getByRole('dialog', { name: 'Menu' });
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await menu.waitFor();
    await entryOf(page).toBe(1);
    await back(page);
    await menu.waitFor({ state: 'hidden' });
    expect(pathOf(page)).toBe('/contact');
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await menu.getByRole('link', { name: 'Delivery' }).click();
    await page.waitForURL('**/delivery');
    await menu.waitFor({ state: 'hidden' });
    await back(page);
    await page.getByRole('heading', { name: 'Send us a message' }).waitFor();
    await menu.waitFor({ state: 'hidden' });

    // Opened again while a slow page loads, the dialog stays open when that page arrives, and Back still closes it.
    let arrive = () => {};
    const isHeld = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    await page.route('**/track-order.data*', (route) => isHeld.then(() => route.fallback()));
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await menu.getByRole('link', { name: 'Track Your Order' }).click();
    await menu.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await menu.waitFor();
    arrive();
    await page
      .getByRole('heading', { level: 1, name: /Track/, includeHidden: true })
      .waitFor({ state: 'attached' });
    await entryOf(page).toBe(1);
    expect(await menu.isVisible()).toBe(true);
    await back(page);
    await menu.waitFor({ state: 'hidden' });
    expect(pathOf(page)).toBe('/track-order');
  },
);

story('Back closes the filters and keeps the selection', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  await page.goto(`${shop.url}/delivery`);
  await page.goto(`${shop.url}/shop`);
  await waitForHydration(page);
  const heading = page.getByRole('heading', { name: 'Filters' });
  const open = page.getByRole('button', { name: /^Filters/ });
  for (const [brand, leave] of [
    ['Meru Gold', () => back(page)],
    ['Embu Fresh', () => page.getByRole('button', { name: /^Show \d+ drinks?$/ }).click()],
    ['Dusk Energy', () => page.keyboard.press('Escape')],
  ] as const) {
    await open.click();
    await heading.waitFor();
    await entryOf(page).toBe(1);
    await page.getByLabel('Brand').selectOption({ label: brand });
    await leave();
    await heading.waitFor({ state: 'hidden' });
    await page.waitForURL((url) => url.searchParams.get('brand') === brand);
    await entryOf(page).toBe(0);
    expect(await page.getByRole('main').getByRole('article').first().textContent()).toContain(brand);
  }
  await back(page);
  await page.waitForURL('**/delivery');
});

story.for(sizes)(
  'a new page starts at the top, and Back restores the scroll position %s',
  async ([, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop`);
    await waitForHydration(page);
    const link = page.getByRole('main').getByRole('article').last().getByRole('link').first();
    await link.hover();
    const there = await scrollOf(page);
    expect(there).toBeGreaterThan(100);
    await link.click();
    await page.waitForURL(/\/shop\/./);
    await expect.poll(() => scrollOf(page)).toBe(0);
    await back(page);
    await page.waitForURL('**/shop');
    await expect.poll(() => scrollOf(page)).toBe(there);
  },
);

story.for(sizes)(
  'staff: Back closes nested dialogs one at a time and asks about unsaved changes %s',
  async ([, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page);
    await page.goto(`${shop.url}/admin/products`);
    await page.getByRole('link', { name: 'Add Product' }).waitFor();

    // This dialog is in the URL.
    await page.getByRole('link', { name: 'Add Product' }).click();
    await dialogOf(page)
      .getByLabel(/^Product Name/)
      .fill('Half a drink');
    await back(page);
    await dialogOf(page).getByText('Discard unsaved changes?').waitFor();
    await page.getByRole('button', { name: 'Keep editing' }).click();
    expect(
      await dialogOf(page)
        .getByLabel(/^Product Name/)
        .inputValue(),
    ).toBe('Half a drink');
    await dialogOf(page).getByRole('button', { name: 'Close' }).first().click();
    await page.getByRole('button', { name: 'Discard' }).click();
    await gone(page);
    expect(page.url()).toBe(`${shop.url}/admin/products`);

    // This dialog is not in the URL.
    await page.getByRole('main').getByRole('button', { name: 'More', exact: true }).click();
    await page.getByRole('button', { name: 'Manage Categories' }).click();
    await dialogOf(page).first().waitFor();
    await entryOf(page).toBe(1);
    await back(page);
    await gone(page);
    expect(page.url()).toBe(`${shop.url}/admin/products`);

    await page
      .getByRole('button', { name: /^Delete / })
      .first()
      .click();
    await page.getByRole('button', { name: 'Cancel' }).waitFor();
    await back(page);
    await gone(page);
    expect(page.url()).toBe(`${shop.url}/admin/products`);
  },
);

story(
  'staff: Back closes a confirmation before its order, and the order before the list',
  async ({ newVisitor }) => {
    const [product] = (await (
      await asOwner(shop, '/rest/v1/products?slug=eq.passion-can&select=id,price', 'GET')
    ).json()) as [{ id: string; price: number }];
    await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
      idempotency_key: crypto.randomUUID(),
      product_id: product.id,
      quantity: 1,
      customer_name: 'Nested Njeri',
      customer_email: 'njeri@example.com',
      customer_phone: '0711007799',
      delivery_location: 'Kilimani',
      expected_total: product.price + 100,
    });
    for (const viewport of [phone, desktop]) {
      const { page } = await newVisitor({ viewport });
      await enterAsStaff(shop, page);
      await page.goto(`${shop.url}/admin/orders?search=Njeri`);
      await page
        .getByRole('link', { name: /ORD-\d/ })
        .first()
        .click();
      const order = page.getByRole('dialog').first();
      await order.getByText('Nested Njeri').first().waitFor();
      await order.getByRole('button', { name: /^Set the status of/ }).click();
      await page.getByRole('menuitemradio', { name: 'Cancelled' }).click();
      const question = page.getByRole('button', { name: 'Keep it as it is' });
      await question.waitFor();
      await back(page);
      await question.waitFor({ state: 'detached' });
      await order.getByText('Nested Njeri').first().waitFor();
      await back(page);
      await gone(page);
      expect(page.url()).toBe(`${shop.url}/admin/orders?search=Njeri`);
    }
  },
);
