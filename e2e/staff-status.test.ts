// Staff change a status: only by choosing it, with a question where it is hard to take back, and with 15 seconds to undo it.
import { randomUUID } from 'node:crypto';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { type OpenShop, openShop, until } from '../scripts/open-shop.ts';
import { expectAccessible } from './accessibility.ts';
import { desktop, openBrowser, phone } from './browser.ts';
import { textsTo } from './mailbox.ts';
import { asOwner, chooseStatus, enterAsStaff, statusButton } from './staff-member.ts';
import { storyIn } from './story.ts';

let shop: OpenShop;
let browser: Browser;

beforeAll(async () => {
  [shop, browser] = await Promise.all([openShop(), openBrowser()]);
  await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'PATCH', { stock_quantity: 500 });
});
afterAll(async () => {
  await browser.close();
  const problems = shop.problems();
  await shop.close();
  expect(problems, "the server's log").toEqual([]);
});

interface Order {
  id: string;
  order_number: string;
  status: string;
  payment_status: string;
}
const orderNow = async (id: string): Promise<Order> => {
  const [order] = (await (await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'GET')).json()) as Order[];
  if (!order) throw new Error('there is no such order');
  return order;
};
async function place(name: string, customerPhone: string): Promise<Order> {
  const answer = await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'GET');
  const [product] = (await answer.json()) as { id: string; price: number }[];
  const placed = await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
    idempotency_key: randomUUID(),
    product_id: product?.id,
    quantity: 1,
    customer_name: name,
    customer_email: `${customerPhone}@mail.example`,
    customer_phone: customerPhone,
    delivery_location: 'Westlands',
    expected_total: (product?.price ?? 0) + 100,
  });
  return orderNow(((await placed.json()) as { id: string }).id);
}
/** A paid order with its delivery, as a payment leaves it. */
async function placePaid(name: string, customerPhone: string): Promise<Order> {
  const { id } = await place(name, customerPhone);
  await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'PATCH', {
    payment_status: 'paid',
    status: 'processing',
    reserved_until: null,
  });
  await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: id });
  return orderNow(id);
}
const openOrders = async (page: Page, search: string): Promise<void> => {
  await page.goto(`${shop.url}/admin/orders?search=${encodeURIComponent(search)}`);
  await page.getByRole('heading', { level: 1, name: 'Orders' }).waitFor();
};
const statusOf = (page: Page, { order_number }: Order) => statusButton(page, `Status of ${order_number}`);
const messages = (page: Page) => page.getByRole('region', { name: /Messages/ });
const undoButton = (page: Page, { order_number }: Order) =>
  messages(page).getByRole('button', { name: `Undo ${order_number}` });
const textsOf = async (customerPhone: string): Promise<string[]> =>
  (await textsTo(shop.outbox, `254${customerPhone.slice(1)}`)).map(({ text }) => text);
const isShown = (page: Page, order: Order, words: string) =>
  until(async () => (await statusOf(page, order).textContent()) === words, `${words} is shown`);
const isStill = (page: Page) =>
  until(() => page.evaluate(() => document.getAnimations().length === 0), 'nothing moves');

describe.each([
  ['on a phone', phone, '0711030'],
  ['at the counter', desktop, '0711031'],
] as const)('%s', (where, viewport, numbers) => {
  const story = storyIn(() => browser, { viewport });

  story('moving through the statuses saves nothing; choosing one does', async ({ newVisitor }) => {
    const order = await placePaid(`Keys ${where}`, `${numbers}101`);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openOrders(page, `Keys ${where}`);
    const button = statusOf(page, order);
    await button.focus();
    // Opens the menu, and moves in it.
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'End', 'd']) await page.keyboard.press(key);
    await page.getByRole('menuitemradio', { name: 'Delivered' }).waitFor();
    expect(await page.getByRole('menuitemradio', { name: 'Processing' }).getAttribute('aria-checked')).toBe(
      'true',
    );
    await isStill(page);
    await expectAccessible(page, 'the menu of statuses');
    await page.keyboard.press('Escape');
    await page.getByRole('menu').waitFor({ state: 'detached' });
    await expect.poll(() => button.evaluate((element) => element === document.activeElement)).toBe(true);
    expect((await orderNow(order.id)).status).toBe('processing');

    await page.keyboard.press('Enter');
    const shipped = page.getByRole('menuitemradio', { name: 'Shipped' });
    await shipped.waitFor();
    await page.keyboard.press('s');
    await expect.poll(() => shipped.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.keyboard.press('Enter');
    await isShown(page, order, 'Shipped');
    await messages(page).getByText('Order status updated successfully').waitFor();
    await expect.poll(async () => (await orderNow(order.id)).status).toBe('shipped');
    await expect.poll(() => button.evaluate((element) => element === document.activeElement)).toBe(true);
  });

  story('a change is undone within 15 seconds, and the customer gets no message', async ({ newVisitor }) => {
    const [one, other] = [
      await placePaid(`Undo ${where} one`, `${numbers}201`),
      await placePaid(`Undo ${where} two`, `${numbers}202`),
    ];
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openOrders(page, `Undo ${where}`);
    await chooseStatus(statusOf(page, one), 'Delivered');
    await undoButton(page, one).waitFor();
    await chooseStatus(statusOf(page, other), 'Shipped');
    // Each change has its own line in one message.
    await undoButton(page, other).waitFor();
    await messages(page).getByText('Then the customer is notified').first().waitFor();
    expect(await undoButton(page, one).textContent()).toMatch(/\d+ s$/);
    await undoButton(page, one).focus();
    await page.keyboard.press('Enter');
    await messages(page).getByText(`${one.order_number} is Processing again.`).waitFor();
    await isShown(page, one, 'Processing');
    await expect
      .poll(() => statusOf(page, other).evaluate((element) => element === document.activeElement))
      .toBe(true);
    expect(await orderNow(one.id)).toMatchObject({ status: 'processing' });
    await isStill(page);
    await expectAccessible(page, 'a change that can be undone');
    // What is not undone is told by itself once the time is over.
    await until(
      async () => (await textsOf(`${numbers}202`)).some((text) => text.includes('is on its way')),
      'the customer of the other order is notified',
    );
    await undoButton(page, other).waitFor({ state: 'detached' });
    expect((await textsOf(`${numbers}201`)).filter((text) => text.includes('was delivered'))).toEqual([]);
    expect((await orderNow(other.id)).status).toBe('shipped');
  });

  story(
    'Ctrl and Z undo the last change; a reload loses the button and not the message',
    async ({ newVisitor }) => {
      const order = await placePaid(`Reload ${where}`, `${numbers}301`);
      const { page } = await newVisitor();
      await enterAsStaff(shop, page);
      await openOrders(page, `Reload ${where}`);
      await chooseStatus(statusOf(page, order), 'Shipped');
      await undoButton(page, order).waitFor();
      await page.keyboard.press('Control+z');
      await messages(page).getByText(`${order.order_number} is Processing again.`).waitFor();
      await isShown(page, order, 'Processing');
      await chooseStatus(statusOf(page, order), 'Delivered');
      await undoButton(page, order).waitFor();
      await page.close();
      await until(
        async () => (await textsOf(`${numbers}301`)).some((text) => text.includes('was delivered')),
        'the customer is notified without the panel',
      );
      expect((await textsOf(`${numbers}301`)).filter((text) => text.includes('is on its way'))).toEqual([]);
    },
  );

  story('an undo that comes after someone else is refused in words', async ({ newVisitor }) => {
    const order = await placePaid(`Late ${where}`, `${numbers}401`);
    const { page } = await newVisitor({ expectedFailures: /409/ });
    await enterAsStaff(shop, page);
    await openOrders(page, `Late ${where}`);
    await chooseStatus(statusOf(page, order), 'Shipped');
    await undoButton(page, order).waitFor();
    await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { status: 'delivered' });
    await undoButton(page, order).click();
    await messages(page).getByText('This order has changed again since then. Nothing was undone').waitFor();
    await isShown(page, order, 'Delivered');
  });

  story('what is hard to take back is asked about first', async ({ newVisitor }) => {
    const order = await placePaid(`Ask ${where}`, `${numbers}501`);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openOrders(page, `Ask ${where}`);
    const dialog = page.getByRole('dialog');
    await chooseStatus(statusOf(page, order), 'Cancelled');
    await dialog.getByRole('heading', { name: `Cancel order ${order.order_number}?` }).waitFor();
    await dialog.getByText(/was paid: a refund becomes due/).waitFor();
    await isStill(page);
    await expectAccessible(page, 'the question before an order is cancelled');
    await dialog.getByRole('button', { name: 'Keep it as it is' }).click();
    await dialog.waitFor({ state: 'detached' });
    await expect
      .poll(() => statusOf(page, order).evaluate((element) => element === document.activeElement))
      .toBe(true);
    expect((await orderNow(order.id)).status).toBe('processing');

    await chooseStatus(statusOf(page, order), 'Delivered');
    await isShown(page, order, 'Delivered');
    await chooseStatus(statusOf(page, order), 'Processing', 'Set back to Processing');
    await isShown(page, order, 'Processing');
    await chooseStatus(statusOf(page, order), 'Cancelled', 'Cancel the order');
    await isShown(page, order, 'Cancelled');
    // It is shown while it is being saved.
    await expect.poll(async () => (await orderNow(order.id)).status).toBe('cancelled');
  });

  story('a till payment in another amount is asked about, and corrected later', async ({ newVisitor }) => {
    const order = await place(`Till ${where}`, `${numbers}701`);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page, `/admin/orders/${order.id}`);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Confirm till payment' }).click();
    const receipt = `UKL${numbers}`.slice(0, 10);
    await dialog.getByLabel(/^M-PESA receipt/).fill(receipt);
    // What was typed is asked about before it is lost.
    await page.keyboard.press('Escape');
    await dialog.getByText('Discard unsaved changes?').waitFor();
    await dialog.getByRole('button', { name: 'Keep editing' }).click();
    const amount = (await dialog.getByText("The order's charge is").textContent())?.replace(/\D/g, '') ?? '';
    const wrong = String(Number(amount) - 90);
    await dialog.getByLabel(/^Amount that came/).fill(wrong);
    await dialog.getByRole('button', { name: 'Confirm payment' }).click();
    await dialog.getByText(`is KES 90 less than the order's charge`).waitFor();
    await isStill(page);
    await expectAccessible(page, 'the question about another amount');
    expect((await orderNow(order.id)).payment_status).toBe('unpaid');
    await dialog.getByRole('button', { name: 'Change the amount' }).click();
    await dialog.getByRole('button', { name: 'Confirm payment' }).click();
    await dialog.getByRole('button', { name: `Save KES ${Number(wrong).toLocaleString('en-KE')}` }).click();
    await expect.poll(async () => (await orderNow(order.id)).payment_status).toBe('needs_decision');

    await dialog.getByRole('button', { name: 'Correct till payment' }).click();
    expect(await dialog.getByLabel(/^M-PESA receipt/).inputValue()).toBe(receipt);
    await dialog.getByLabel(/^Amount that came/).fill(amount);
    await dialog.getByRole('button', { name: 'Save correction' }).click();
    await messages(page).getByText('The payment is corrected: the order is paid').waitFor();
    await expect.poll(async () => (await orderNow(order.id)).payment_status).toBe('paid');
    await until(
      async () => (await textsOf(`${numbers}701`)).some((text) => text.includes('received for')),
      'the customer hears of the payment',
    );
    expect((await textsOf(`${numbers}701`)).filter((text) => text.includes('needs a check'))).toEqual([]);
  });

  story(
    'an unpaid order is handed over only on purpose, a refunded one not at all',
    async ({ newVisitor }) => {
      const [unpaid, refunded] = [
        await place(`Cash ${where} unpaid`, `${numbers}601`),
        await place(`Cash ${where} refunded`, `${numbers}602`),
      ];
      await asOwner(shop, `/rest/v1/orders?id=eq.${refunded.id}`, 'PATCH', {
        payment_status: 'refunded',
        status: 'cancelled',
        reserved_until: null,
      });
      const { page } = await newVisitor();
      await enterAsStaff(shop, page);
      await openOrders(page, `Cash ${where}`);
      await chooseStatus(statusOf(page, unpaid), 'Shipped');
      await page.getByRole('heading', { name: `Order ${unpaid.order_number} is not paid` }).waitFor();
      await page.getByRole('button', { name: 'Keep it as it is' }).click();
      expect((await orderNow(unpaid.id)).status).toBe('pending');
      await chooseStatus(statusOf(page, unpaid), 'Shipped', 'Ship unpaid');
      await isShown(page, unpaid, 'Shipped');
      await expect
        .poll(() => orderNow(unpaid.id))
        .toMatchObject({ status: 'shipped', payment_status: 'unpaid' });

      await statusOf(page, refunded).click();
      for (const status of ['Shipped', 'Delivered']) {
        const item = page.getByRole('menuitemradio', { name: `${status} Money sent back` });
        expect(await item.getAttribute('aria-disabled')).toBe('true');
      }
    },
  );
});
