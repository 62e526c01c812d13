// A customer comes back: all running orders of the device, the same again in one tap, and the order that was just paid without a network.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import {
  amina,
  fillOrder,
  openOrderDialog,
  order,
  payButton,
  placeOrderButton,
  trackingNumberIn,
} from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

const cardOf = (page: Page) => page.getByRole('region', { name: /^Your (last order|orders)$/ });
const ordersOf = async (phoneNumber: string): Promise<{ tracking_number: string; total_amount: number }[]> =>
  (
    await asOwner(
      shop,
      `/rest/v1/orders?customer_phone=eq.%2B254${phoneNumber.slice(1)}&order=created_at&select=tracking_number,total_amount`,
      'GET',
    )
  ).json();
const changeOrder = (number: string, change: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/orders?tracking_number=eq.${number}`, 'PATCH', change);

/** Orders two mango bottles and pays them. */
async function orderAndPay(page: Page, customer: typeof amina): Promise<string> {
  await openOrderDialog(page, shop.url, 'mango-bottle');
  await dialogOf(page).getByRole('button', { name: 'One more' }).click();
  await fillOrder(page, customer);
  await placeOrderButton(page).click();
  await payButton(page).waitFor();
  const number = await trackingNumberIn(page);
  await payButton(page).click();
  await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
  return number;
}

describe.each(
  atSizes([
    ['on a phone', { width: 360, height: 740 }, 1],
    ['on a desktop', desktop, 2],
  ] as const),
)('%s', (_, viewport, which) => {
  story('orders the same again with one tap and the PIN, or undoes it', async ({ newVisitor }) => {
    const customer = { ...amina, phone: `071600910${which}`, location: 'Mpaka Road' };
    const { page, context } = await newVisitor({ viewport });
    const first = await orderAndPay(page, customer);
    await changeOrder(first, { status: 'delivered' });

    await page.goto(shop.url);
    await cardOf(page)
      .getByText(/^2 × .+ to Mpaka Road, KSh 1,901\.00$/)
      .waitFor();
    await expectAccessible(page, 'the same again');
    const again = cardOf(page).getByRole('button', { name: 'Same again' });
    await again.click();
    await dialogOf(page).getByRole('heading', { name: 'Same again' }).waitFor();
    await expectAccessible(page, 'the same again, before it is ordered');
    await dialogOf(page).getByRole('button', { name: 'Undo' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    expect(await ordersOf(customer.phone)).toHaveLength(1);

    const other = await context.newPage();
    await other.goto(`${shop.url}/shop`);
    await cardOf(other).getByRole('button', { name: 'Same again' }).waitFor();

    // One tap. The simulated phone confirms with its PIN.
    await again.click();
    await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
    const orders = await ordersOf(customer.phone);
    expect(orders.map(({ total_amount }) => total_amount)).toEqual([190_100, 190_100]);
    expect(await trackingNumberIn(page)).toBe(orders[1]?.tracking_number);
    // The other tab shows it, and offers it no more.
    await cardOf(other).getByText("Paid. We're preparing your drinks.").waitFor();
    expect(await cardOf(other).getByRole('button', { name: 'Same again' }).count()).toBe(0);
  });

  story('asks before it orders at another price', async ({ newVisitor }) => {
    const customer = { ...amina, phone: `071600920${which}`, location: 'Mpaka Road' };
    const { page } = await newVisitor({ viewport, expectedFailures: /409/ });
    await openOrderDialog(page, shop.url, 'hibiscus-can');
    await fillOrder(page, customer);
    await placeOrderButton(page).click();
    await payButton(page).click();
    await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
    const [placed] = await ordersOf(customer.phone);
    await changeOrder(placed?.tracking_number ?? '', { status: 'delivered' });
    await page.goto(shop.url);
    await cardOf(page).getByRole('button', { name: 'Same again' }).waitFor();
    await asOwner(shop, '/rest/v1/products?slug=eq.hibiscus-can', 'PATCH', { price: 90_000 + which * 100 });
    await cardOf(page).getByRole('button', { name: 'Same again' }).click();
    await dialogOf(page)
      .getByRole('button', { name: /^Order now/ })
      .click();
    await dialogOf(page)
      .getByText(`New total KSh 90${1 + which}.00`)
      .waitFor();
    expect(await ordersOf(customer.phone)).toHaveLength(1);
    await dialogOf(page)
      .getByRole('button', { name: /^Accept and order/ })
      .click();
    await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
    expect(await ordersOf(customer.phone)).toHaveLength(2);
  });

  story('shows every running order with its own state, newest first', async ({ newVisitor }) => {
    const customer = { ...amina, phone: `071600930${which}` };
    const { page, context } = await newVisitor({ viewport });
    const onItsWay = await orderAndPay(page, customer);
    await order(page, shop.url, 'mango-can', customer);
    const unpaid = await trackingNumberIn(page);
    const paid = await orderAndPay(page, customer);
    await changeOrder(onItsWay, { status: 'out_for_delivery' });

    const other = await context.newPage();
    for (const tab of [page, other]) {
      await tab.goto(shop.url);
      const rows = cardOf(tab).getByRole('listitem');
      await expect.poll(() => rows.count()).toBe(3);
      for (const [index, [number, state]] of [
        [paid, "Paid. We're preparing your drinks."],
        [unpaid, /^Not paid yet/],
        [onItsWay, 'Paid, and on its way to you.'],
      ].entries()) {
        const row = rows.nth(index);
        await row.getByText(state as string).waitFor();
        const link = row.getByRole('link', { name: 'Track' });
        expect(await link.getAttribute('href')).toBe(`/track-order/${number}`);
      }
    }
    await expectAccessible(page, 'several running orders');
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    // Erased in both tabs.
    await cardOf(page).getByRole('button', { name: 'Forget my orders on this device' }).click();
    await cardOf(page).getByRole('button', { name: 'Forget my orders on this device' }).click();
    await cardOf(other).waitFor({ state: 'detached' });
  });
});

story('two taps in two tabs place one order and send one prompt', async ({ newVisitor }) => {
  const customer = { ...amina, phone: '0716009501', location: 'Mpaka Road' };
  const { page, context } = await newVisitor({ viewport: phone });
  const first = await orderAndPay(page, customer);
  await changeOrder(first, { status: 'delivered' });
  const other = await context.newPage();
  const againIn = (tab: Page) => cardOf(tab).getByRole('button', { name: 'Same again' });
  for (const tab of [page, other]) {
    await tab.goto(shop.url);
    await againIn(tab).waitFor();
  }
  await againIn(page).click();
  await dialogOf(page)
    .getByRole('button', { name: /^Order now \([123]\)$/ })
    .waitFor();
  await againIn(other).click();
  await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
  const number = await trackingNumberIn(page);
  await dialogOf(other).getByText(`You have just ordered this: ${number}`).waitFor();
  await expectAccessible(other, 'the same again, ordered in another tab');
  await dialogOf(other).getByRole('link', { name: 'Track your order' }).click();
  await other.waitForURL(`${shop.url}/track-order/${number}`);
  expect((await ordersOf(customer.phone)).map(({ tracking_number }) => tracking_number)).toEqual([
    first,
    number,
  ]);
  const prompts = await asOwner(
    shop,
    `/rest/v1/payments?select=id,orders!inner(tracking_number)&orders.tracking_number=eq.${number}`,
    'GET',
  );
  expect(await prompts.json()).toHaveLength(1);
});

story(
  'a new order is filled in from the last one of the device, until its details are forgotten',
  async ({ newVisitor }) => {
    const customer = { ...amina, phone: '0716009601', location: 'Mpaka Road' };
    const { page, context } = await newVisitor({ viewport: phone });
    const first = await orderAndPay(page, customer);
    // Another tab has not typed it.
    const other = await context.newPage();
    const field = (label: RegExp) => dialogOf(other).getByLabel(label);
    await openOrderDialog(other, shop.url, 'hibiscus-can');
    for (const [label, value] of [
      [/^Name/, customer.name],
      [/^Email/, customer.email],
      [/^Phone/, customer.phone],
      [/^Delivery location/, customer.location],
    ] as const) {
      await expect.poll(() => field(label).inputValue()).toBe(value);
    }
    await expectAccessible(other, 'a form that the last order filled in');
    await dialogOf(other).getByRole('button', { name: 'Forget my details' }).click();
    await expect.poll(() => field(/^Name/).inputValue()).toBe('');
    await openOrderDialog(other, shop.url, 'hibiscus-can');
    // An order that fills it in would have been read by then.
    await other.waitForLoadState('networkidle');
    expect(await field(/^Name/).inputValue()).toBe('');
    expect(await dialogOf(other).getByRole('button', { name: 'Forget my details' }).count()).toBe(0);
    // The order stays on the device.
    await other.goto(shop.url);
    await cardOf(other).getByText("Paid. We're preparing your drinks.").waitFor();
    expect(await cardOf(other).getByRole('link', { name: 'Track' }).getAttribute('href')).toBe(
      `/track-order/${first}`,
    );
  },
);

story('an order that ended is shown again once it is under way again', async ({ newVisitor }) => {
  const customer = { ...amina, phone: '0716009701' };
  const { page } = await newVisitor({ viewport: phone });
  const first = await orderAndPay(page, customer);
  await changeOrder(first, { status: 'delivered' });
  await page.goto(shop.url);
  await cardOf(page).getByRole('button', { name: 'Same again' }).waitFor();
  const second = await orderAndPay(page, customer);
  await page.goto(shop.url);
  const rows = cardOf(page).getByRole('listitem');
  await expect.poll(() => rows.count()).toBe(1);
  await changeOrder(first, { status: 'processing' });
  await page.reload();
  await expect.poll(() => rows.count()).toBe(2);
  for (const [index, number] of [second, first].entries()) {
    const link = rows.nth(index).getByRole('link', { name: 'Track' });
    expect(await link.getAttribute('href')).toBe(`/track-order/${number}`);
  }
});

story.for(
  atSizes([
    ['on a phone', phone, '1'],
    ['on a desktop', desktop, '2'],
  ] as const),
)(
  'the order just paid is read without a network, and its page comes back by itself, %s',
  async ([, viewport, size], { newVisitor }) => {
    const { page, context } = await newVisitor({
      viewport,
      allowServiceWorker: true,
      expectedFailures:
        /ERR_INTERNET_DISCONNECTED|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_FAILED .*\/(?:art|assets)\/|Failed to fetch|WebSocket|503/,
    });
    const number = await orderAndPay(page, { ...amina, phone: `071600940${size}` });
    // Its page was never opened.
    const path = `/track-order/${number}`;
    await until(
      () =>
        page.evaluate(
          async (own) => (await (await caches.match(own))?.text())?.includes('Paid with M-PESA') === true,
          path,
        ),
      'the paid order is stored',
    );
    const accessKey = await page.evaluate(
      () => JSON.parse(localStorage.getItem('jani.orders') ?? '[]')[0]?.accessKey,
    );
    await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
    for (const address of [path, `${path}?key=${accessKey}`]) {
      await context.setOffline(true);
      await page.goto(shop.url + address);
      await page.getByText('Paid with M-PESA').waitFor();
      const notice = page.getByRole('status').filter({ hasText: 'You are offline.' });
      await notice.waitFor();
      await context.setOffline(false);
      await page.getByText('Westlands, Mpaka Road').waitFor();
      await notice.waitFor({ state: 'detached' });
    }
  },
);
