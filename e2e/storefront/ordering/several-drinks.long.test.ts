// One order of several drinks: the form, the payment, the tracking page, and the same without JavaScript.
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForHydration } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import {
  amina,
  fillOrder,
  openOrderDialog,
  payButton,
  placeOrderButton,
  trackingNumberIn,
} from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories({ MPESA_QUERIES_PER_MINUTE: '60' });
const story = storyWith({ expectedFailures: /40\d \(/ });

const addAnother = (page: Page) => dialogOf(page).getByRole('button', { name: 'Add another drink' });
const drinksOf = (page: Page) => dialogOf(page).getByRole('list', { name: /^Your drinks?$/ });
const done = (page: Page) => dialogOf(page).getByRole('button', { name: /^Done · KSh/ });
const quantityOf = (within: Locator, name: string) =>
  within.getByRole('group', { name: `Quantity of ${name}` }).getByRole('status');
const change = (slug: string, values: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/products?slug=eq.${slug}`, 'PATCH', values);

interface PlacedOrder {
  total_amount: number;
  delivery_fee: number;
  payment_status: string;
  order_items: { product_name: string; quantity: number }[];
}
const ordersOf = async (number: string) => {
  const select = 'select=total_amount,delivery_fee,payment_status,order_items(product_name,quantity)';
  const path = `/rest/v1/orders?customer_phone=eq.%2B254${number.slice(1)}&${select}&order_items.order=position`;
  return (await (await asOwner(shop, path, 'GET')).json()) as PlacedOrder[];
};
const promptsTo = async (number: string) => {
  const answer = await fetch(`${shop.simulatorUrl}/simulator/ledger?phone=254${number.slice(1)}`);
  return ((await answer.json()) as { prompts: { moneyMoved: number }[] }).prompts;
};

/** Counts what a customer presses, from the first page on. */
function tapCounter(page: Page) {
  let taps = 0;
  return {
    tap: async (target: Locator) => {
      taps += 1;
      await target.click();
    },
    count: () => taps,
    page,
  };
}

const sizes = atSizes([
  ['on a phone', phone, '0711008801'],
  ['at a desktop', desktop, '0711008802'],
] as const);

story.for(sizes)(
  'a remembered customer orders three drinks with one payment, in few taps %s',
  async ([where, viewport, number], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    // A first order, whose details are remembered.
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: number });
    await dialogOf(page).getByLabel('Remember my details on this device').check();
    await placeOrderButton(page).click();
    await payButton(page).click();
    await dialogOf(page).getByText('Payment received').waitFor();

    await page.goto(shop.url);
    await waitForHydration(page);
    const { tap, count } = tapCounter(page);
    const picks = page.getByRole('region', { name: 'Top Picks' }).getByRole('heading').getByRole('link');
    await tap(picks.filter({ hasNotText: 'Mango' }).first());
    await page.waitForURL('**/shop/*');
    await page.getByRole('button', { name: 'Order Now' }).first().waitFor();
    const own = (await page.getByRole('heading', { level: 1 }).textContent()) ?? '';
    await tap(page.getByRole('button', { name: 'Order Now' }));
    await tap(addAnother(page));
    const dialog = dialogOf(page);
    // The drink of the earlier order comes first.
    const add = dialog.getByRole('button', { name: /^Add / });
    await add.first().waitFor();
    expect(await add.first().getAttribute('aria-label')).toMatch(/Mango/);
    await expectAccessible(page, `the picker ${where}`);
    const names: string[] = [];
    for (const _ of [1, 2]) {
      const name = ((await add.first().getAttribute('aria-label')) ?? '').replace('Add ', '');
      names.push(name);
      await tap(add.first());
      await expect.poll(() => quantityOf(dialog, name).textContent()).toBe('1');
      // The pressed button has become the quantity, whose plus has the focus.
      await expect
        .poll(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label')))
        .toBe('One more');
    }
    await tap(done(page));
    await expect.poll(() => drinksOf(page).getByRole('listitem').count()).toBe(3);
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.textContent))
      .toBe('Add another drink');
    await expectAccessible(page, `an order of three drinks ${where}`);
    await tap(placeOrderButton(page));
    await tap(payButton(page));
    await dialog.getByText('Payment received').waitFor();
    // Three orders of one drink took 20 taps and three PINs.
    expect(count()).toBe(8);

    const order = (await ordersOf(number)).find(({ order_items }) => order_items.length === 3);
    expect(order).toMatchObject({ payment_status: 'paid', delivery_fee: 100 });
    expect(order?.order_items).toEqual(
      [own, ...names].map((product_name) => ({ product_name, quantity: 1 })),
    );
    expect((await promptsTo(number)).map(({ moneyMoved }) => moneyMoved)).toContain(
      Math.ceil((order?.total_amount ?? 0) / 100),
    );

    await tap(dialog.getByRole('button', { name: 'Track Your Order' }));
    await page.waitForURL(/\/track-order\/JJ-/);
    for (const name of [own, ...names]) await page.getByText(name).first().waitFor();
  },
);

story.for(sizes)(
  'added drinks survive closing and a reload, and each refusal is beside its line %s',
  async ([where, viewport, number], { newVisitor }) => {
    const isPhone = viewport.width < 768;
    const [sold, few] = isPhone ? ['tamarind-can', 'watermelon-can'] : ['tamarind-flask', 'watermelon-flask'];
    await change(sold, { stock_quantity: 40, is_active: true });
    await change(few, { stock_quantity: 40, is_active: true });
    const { page } = await newVisitor({ viewport });
    const dialog = dialogOf(page);
    await openOrderDialog(page, shop.url, 'passion-bottle');
    await fillOrder(page, { ...amina, phone: number });
    for (const search of [sold, few]) {
      await addAnother(page).click();
      await dialog.getByRole('searchbox', { name: 'Search drinks' }).fill(search.replace('-', ' '));
      const add = dialog
        .getByRole('region', { name: 'Matches' })
        .getByRole('button', { name: new RegExp(`^Add .*${search.split('-')[0]}`, 'i') })
        .first();
      await add.click();
      // Back and Escape return to the order, which has the typed text.
      if (search === sold) await page.goBack();
      else await page.keyboard.press('Escape');
      await addAnother(page).waitFor();
    }
    expect(await dialog.getByLabel(/^Name/).inputValue()).toBe(amina.name);
    const lines = drinksOf(page).getByRole('listitem');
    await expect.poll(() => lines.count()).toBe(3);
    await lines.nth(2).getByRole('button', { name: 'One more' }).click();
    await dialog.getByRole('button', { name: 'Close', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('button', { name: 'Order Now' }).click();
    await expect.poll(() => lines.count()).toBe(3);
    expect(await lines.nth(2).getByRole('group').getByRole('status').textContent()).toBe('2');

    // One is sold out, and too few are left of another: both are said beside their lines while the form is open.
    await change(sold, { stock_quantity: 0 });
    await change(few, { stock_quantity: 1 });
    await lines.nth(1).getByText('Sold out for now.').waitFor();
    // Its price and quantity no longer matter.
    expect(await lines.nth(1).getByText('KSh').count()).toBe(0);
    expect(await lines.nth(1).getByRole('button').allTextContents()).toEqual(['Remove it']);
    await lines.nth(2).getByText('Only 1 left.').waitFor();
    await expectAccessible(page, `refusals beside their lines ${where}`);
    const amount = await placeOrderButton(page).textContent();
    await placeOrderButton(page).click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Remove it');
    await page.keyboard.press('Enter');
    await expect.poll(() => lines.count()).toBe(2);
    expect(await placeOrderButton(page).textContent()).toBe(amount);
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Undo');
    await page.keyboard.press('Enter');
    await expect.poll(() => lines.count()).toBe(3);
    await lines.nth(1).getByRole('button', { name: 'Remove it' }).click();
    await lines.nth(1).getByRole('button', { name: 'Order 1 instead' }).click();
    // The page's own drink can be removed, too.
    await lines
      .nth(0)
      .getByRole('button', { name: /^Remove / })
      .first()
      .click();
    await expect.poll(() => lines.count()).toBe(1);
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    expect((await ordersOf(number)).map(({ order_items }) => order_items)).toContainEqual([
      { product_name: expect.stringMatching(/Watermelon/), quantity: 1 },
    ]);
    // The order is placed: its drinks are not in the next form.
    await page.reload();
    await payButton(page).waitFor();
    await dialog.getByRole('button', { name: 'Start a new order' }).click();
    await expect.poll(() => lines.count()).toBe(1);
    await dialog.getByText('Passion').first().waitFor();
  },
);

story.for(sizes)(
  'the order form without JavaScript takes several drinks %s',
  async ([, viewport, number], { newVisitor }) => {
    const { page } = await newVisitor({ viewport, javaScriptEnabled: false });
    await page.goto(`${shop.url}/shop/coconut-lime-bottle/order?quantity=2`);
    await page.getByLabel(/^Name/).fill(amina.name);
    await page.getByLabel(/^Email/).fill(amina.email);
    await page.getByLabel(/^Phone/).fill(number);
    await page.getByLabel(/^Delivery location/).fill(amina.location);
    await page.getByText('Add another drink').click();
    await page.getByRole('button', { name: /^Add / }).first().click();
    const lines = page.getByRole('list', { name: /^Your drinks?$/ }).getByRole('listitem');
    await expect.poll(() => lines.count()).toBe(2);
    // Enter searches where another text is in the search field.
    const main = page.getByRole('main');
    await main.getByRole('searchbox', { name: 'Search drinks' }).fill('hibiscus');
    await page.keyboard.press('Enter');
    const hibiscus = page.getByRole('button', { name: /^Add .*Hibiscus/ });
    await hibiscus.first().waitFor();
    await hibiscus.first().click();
    await expect.poll(() => lines.count()).toBe(3);
    await lines.nth(2).getByRole('button', { name: 'One more' }).click();
    await lines
      .nth(1)
      .getByRole('button', { name: /^Remove / })
      .click();
    await expect.poll(() => lines.count()).toBe(2);
    expect(await page.getByLabel(/^Delivery location/).inputValue()).toBe(amina.location);

    // A drink that sold out is refused beside its line.
    const hibiscusName = (await lines.nth(1).locator('p').first().textContent()) ?? '';
    const slug = await page.evaluate(
      () =>
        JSON.parse([...document.querySelectorAll<HTMLInputElement>('input[name=drink]')][1]?.value ?? '')
          .product.slug,
    );
    await change(slug, { stock_quantity: 0 });
    await page
      .getByRole('button', { name: /^Place Order/ })
      .last()
      .click();
    await lines.nth(1).getByText('Sold out for now.').waitFor();
    expect(await lines.nth(1).getByRole('button').allTextContents()).toEqual(['Remove it']);
    await change(slug, { stock_quantity: 40 });
    await page
      .getByRole('button', { name: /^Place Order/ })
      .last()
      .click();
    await page.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    await page.getByText(hibiscusName).first().waitFor();
    const [order] = (await ordersOf(number)).filter(({ order_items }) =>
      order_items[0]?.product_name.includes('Coconut'),
    );
    expect(order?.order_items).toEqual([
      { product_name: expect.stringContaining('Coconut'), quantity: 2 },
      { product_name: hibiscusName, quantity: 2 },
    ]);
  },
);

story.for(sizes)(
  'a drink is added on the payment screen, and all are ordered again later %s',
  async ([where, viewport, number], { newVisitor }) => {
    const isPhone = viewport.width < 768;
    const few = isPhone ? 'blackcurrant-can' : 'blackcurrant-flask';
    const gone = isPhone ? 'pineapple-mint-bottle' : 'pineapple-mint-flask';
    await change(few, { stock_quantity: 40, is_active: true });
    const { page, context } = await newVisitor({ viewport });
    const dialog = dialogOf(page);
    await openOrderDialog(page, shop.url, gone);
    await fillOrder(page, { ...amina, phone: number });
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    const tracking = await trackingNumberIn(page);
    const before = await payButton(page).textContent();

    // A second tab shows the same order, which this one changes.
    const followed = await context.newPage();
    await followed.goto(`${shop.url}/track-order/${tracking}`);
    await followed.getByText('Amina Otieno').waitFor();

    await addAnother(page).click();
    await dialog.getByRole('searchbox', { name: 'Search drinks' }).fill(few.replace('-', ' '));
    await dialog
      .getByRole('region', { name: 'Matches' })
      .getByRole('button', { name: /^Add .*Blackcurrant/ })
      .first()
      .click();
    const quantity = dialog.getByRole('group', { name: /^Quantity of .*Blackcurrant/ });
    await quantity.getByRole('button', { name: 'One more' }).click();
    // Others have bought it in the meantime: said beside its line.
    await change(few, { stock_quantity: 1 });
    await dialog.getByRole('button', { name: /^Update order · KSh/ }).click();
    await dialog.getByText('Only 1 left.').waitFor();
    await expectAccessible(page, `a refusal while drinks are added to an order ${where}`);
    await dialog.getByRole('button', { name: 'Order 1 instead' }).click();
    await dialog.getByRole('button', { name: /^Update order · KSh/ }).click();
    await payButton(page).waitFor();
    expect(await payButton(page).textContent()).not.toBe(before);
    expect(await trackingNumberIn(page)).toBe(tracking);
    await expectAccessible(page, `the payment of an order of two drinks ${where}`);
    await followed.getByRole('listitem').filter({ hasText: 'Blackcurrant' }).first().waitFor();
    await change(few, { stock_quantity: 40 });

    await payButton(page).click();
    await dialog.getByText('Payment received').waitFor();
    const [order] = (await ordersOf(number)).filter(({ order_items }) =>
      order_items[0]?.product_name.includes('Pineapple'),
    );
    expect(order).toMatchObject({ payment_status: 'paid', delivery_fee: 100 });
    expect(order?.order_items.map(({ quantity }) => quantity)).toEqual([1, 1]);

    // The receipt has both drinks and one fee.
    await page.goto(`${shop.url}/track-order/${tracking}/receipt`);
    const bought = page.getByRole('table', { name: 'What was bought' });
    await bought.waitFor();
    expect(await bought.locator('tbody tr').count()).toBe(2);

    // One of them is sold out since: the other comes back, with a note.
    await change(gone, { stock_quantity: 0 });
    await page.goto(shop.url);
    await page.getByRole('link', { name: 'Order again' }).click();
    await dialog.getByText(/Pineapple Mint isn't available right now/).waitFor();
    await expect.poll(() => drinksOf(page).getByRole('listitem').count()).toBe(1);
    expect(await drinksOf(page).textContent()).toContain('Blackcurrant');
    expect(await dialog.getByLabel(/^Name/).inputValue()).toBe(amina.name);
    await change(gone, { stock_quantity: 40 });
    await dialog.getByRole('button', { name: 'Close', exact: true }).click();
    await page
      .getByRole('banner')
      .getByRole('link', { name: /, home$/ })
      .click();
    await page.getByRole('link', { name: 'Order again' }).click();
    await expect.poll(() => drinksOf(page).getByRole('listitem').count()).toBe(2);
  },
);

story('a prompt that was sent, also by another device, fixes the drinks', async ({ newVisitor }) => {
  const number = '0711008803';
  const { page, context } = await newVisitor();
  const dialog = dialogOf(page);
  await openOrderDialog(page, shop.url, 'hibiscus-bottle');
  await fillOrder(page, { ...amina, phone: number });
  await placeOrderButton(page).click();
  await addAnother(page).click();
  await dialog.getByRole('button', { name: /^Add / }).first().click();

  // The payment begins in another tab.
  const tracking = await page.evaluate(() => JSON.parse(localStorage.getItem('jani.orders') ?? '')[0]);
  const other = await context.newPage();
  await other.goto(`${shop.url}/track-order/${tracking.trackingNumber}`);
  await other.getByRole('button', { name: 'Pay now' }).click();
  await payButton(other).waitFor();
  // For some seconds, so that the simulated phone leaves the prompt to its owner.
  await fetch(`${shop.simulatorUrl}/simulator/prompts?phone=${number}&screen=open`);
  await payButton(other).click();
  await dialogOf(other)
    .getByText(/Payment received|Waiting for M-PESA/)
    .first()
    .waitFor();

  await dialog.getByRole('button', { name: /^Update order · KSh/ }).click();
  await dialog.getByText(/A payment for this order has begun|already paid/).waitFor();
  await dialog.getByRole('button', { name: 'Back to the payment' }).click();
  await expect.poll(() => addAnother(page).count()).toBe(0);
});

story('ten drinks with long names fit every screen, and are the most', async ({ newVisitor }) => {
  const number = '0711008804';
  const { page } = await newVisitor({ viewport: phone });
  const dialog = dialogOf(page);
  const longName = `Meru Gold ${'Hibiscusginger'.repeat(3)} with Tamarind and Coconut Lime 500 ml Flask`;
  const [renamed] = (await (
    await asOwner(shop, '/rest/v1/products?slug=eq.coconut-lime-flask&select=name', 'GET')
  ).json()) as { name: string }[];
  await change('coconut-lime-flask', { name: longName });
  try {
    await openOrderDialog(page, shop.url, 'coconut-lime-can');
    await addAnother(page).click();
    await dialog.getByRole('searchbox', { name: 'Search drinks' }).fill('coconut lime flask');
    await dialog.getByRole('button', { name: `Add ${longName}` }).click();
    await dialog.getByRole('searchbox', { name: 'Search drinks' }).fill('');
    const add = dialog.getByRole('button', { name: /^Add / });
    for (let drinks = 3; drinks <= 10; drinks += 1) {
      await add.first().click();
      await dialog.getByText(`${drinks} drinks in all.`).waitFor();
    }
    await dialog.getByText('10 different drinks are the most in one order.').waitFor();
    expect(await add.first().isDisabled()).toBe(true);
    const expectFits = async (screen: string) => {
      for (const [width, size] of [
        [360, '100%'],
        [320, '100%'],
        [360, '200%'],
        [1440, '200%'],
      ] as const) {
        await page.setViewportSize({ width, height: 740 });
        await page.evaluate((fontSize) => {
          document.documentElement.style.fontSize = fontSize;
        }, size);
        const widest = () =>
          dialog.evaluate((own) =>
            Math.max(
              // The chips of the areas are swiped.
              ...[own, ...own.querySelectorAll(':not([data-shortened] *)')].map(
                (part) => part.getBoundingClientRect().right,
              ),
            ),
          );
        await expect.poll(widest, { message: `${screen}, ${width} px, ${size}` }).toBeLessThanOrEqual(width);
      }
      await page.setViewportSize(phone);
      await page.evaluate(() => document.documentElement.removeAttribute('style'));
    };
    await expectFits('the picker');
    await done(page).click();
    await expect.poll(() => drinksOf(page).getByRole('listitem').count()).toBe(10);
    expect(await addAnother(page).count()).toBe(0);
    await expectFits('the form');
    await fillOrder(page, { ...amina, phone: number });
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    await expectFits('the payment');
    const tracking = await trackingNumberIn(page);
    await payButton(page).click();
    await dialog.getByText('Payment received').waitFor();
    for (const path of ['', '/receipt']) {
      await page.goto(`${shop.url}/track-order/${tracking}${path}`);
      await page.getByText(longName).first().waitFor();
      // 180 px are a phone's screen with text of twice the size.
      for (const width of [360, 320, 180]) {
        await page.setViewportSize({ width, height: 740 });
        const widest = () =>
          page
            .getByRole('main')
            .evaluate((own) =>
              Math.max(...[...own.querySelectorAll('*')].map((part) => part.getBoundingClientRect().right)),
            );
        await expect.poll(widest, { message: `${path} ${width} px` }).toBeLessThanOrEqual(width);
      }
    }
    // Printed, the receipt has all lines.
    await page.emulateMedia({ media: 'print' });
    expect(await page.locator('.receipt tbody tr').count()).toBe(10);
  } finally {
    await change('coconut-lime-flask', { name: renamed?.name });
  }
});

story(
  'a payment of drinks that another tab has changed shows the new total first',
  async ({ newVisitor }) => {
    const { page, context } = await newVisitor();
    const dialog = dialogOf(page);
    await openOrderDialog(page, shop.url, 'tamarind-bottle');
    await fillOrder(page, { ...amina, phone: '0711008805' });
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    const before = await payButton(page).textContent();
    const other = await context.newPage();
    await other.goto(`${shop.url}/track-order/${await trackingNumberIn(page)}`);
    await other.getByRole('button', { name: 'Pay now' }).click();
    await addAnother(other).click();
    await dialogOf(other).getByRole('button', { name: /^Add / }).first().click();
    await dialogOf(other)
      .getByRole('button', { name: /^Update order · KSh/ })
      .click();
    await payButton(other).waitFor();
    const changed = await payButton(other).textContent();
    expect(changed).not.toBe(before);

    await payButton(page).click();
    await dialog.getByText('This order was changed in the meantime.').waitFor();
    await dialog.getByRole('button', { name: 'Try Again' }).click();
    await expect.poll(() => payButton(page).textContent()).toBe(changed);
    await payButton(page).click();
    await dialog.getByText('Payment received').waitFor();
  },
);
