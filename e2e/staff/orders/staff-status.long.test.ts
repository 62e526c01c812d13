// Status changes in a real browser over time. Component tests: web/admin/orders/order-status.test.tsx.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForAnimations } from '../../browser.ts';
import { textsTo } from '../../mailbox.ts';
import { type Order, placeAssignedOrder, placeOrder, readOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { chooseStatus, enterAsStaff, statusButton } from '../../staff-member.ts';
import { openShopForStories, shop, story, storyWith } from '../../story.ts';

openShopForStories();

const openOrders = async (page: Page, search: string): Promise<void> => {
  await page.goto(`${shop.url}/admin/orders?search=${encodeURIComponent(search)}`);
  await page.getByRole('heading', { level: 1, name: 'Orders' }).waitFor();
};
const statusOf = (page: Page, { order_number }: Order) => statusButton(page, `Status of ${order_number}`);
const messages = (page: Page) => page.getByRole('region', { name: /Messages/ });
const undoButton = (page: Page, { order_number }: Order) =>
  page.getByRole('region', { name: 'Undo' }).getByRole('button', { name: `Undo ${order_number}` });
/** The controls that the bar lies over. */
const underBar = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const bar = document.querySelector('[data-bar]')?.getBoundingClientRect();
    if (!bar) return ['there is no bar'];
    return [...document.querySelectorAll('a, button, input, select')]
      .filter((control) => !control.closest('[data-bar], [hidden]'))
      .filter((control) => {
        const { top, bottom, left, right, width, height } = control.getBoundingClientRect();
        return (
          width > 1 &&
          height > 1 &&
          bottom > bar.top &&
          top < bar.bottom &&
          right > bar.left &&
          left < bar.right
        );
      })
      .map((control) => control.outerHTML.slice(0, 200));
  });
const textsOf = async (customerPhone: string): Promise<string[]> =>
  (await textsTo(shop.outbox, `254${customerPhone.slice(1)}`)).map(({ text }) => text);
const isShown = (page: Page, order: Order, words: string) =>
  until(async () => (await statusOf(page, order).textContent()) === words, `${words} is shown`);

describe.each(
  atSizes([
    ['at the counter', desktop, '0711031'],
    ['on a phone', phone, '0711030'],
  ] as const),
)('%s', (where, viewport, numbers) => {
  const story = storyWith({ viewport });

  story('menus, questions and messages about a status are accessible', async ({ newVisitor }) => {
    const order = await placeAssignedOrder(shop, `Keys ${where}`, `${numbers}101`);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openOrders(page, `Keys ${where}`);
    const button = statusOf(page, order);
    await button.focus();
    await page.keyboard.press('ArrowDown');
    await page.getByRole('menuitemradio', { name: 'Delivered' }).waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'the menu of statuses');
    await page.keyboard.press('Escape');
    await page.getByRole('menu').waitFor({ state: 'detached' });
    await expect.poll(() => button.evaluate((element) => element === document.activeElement)).toBe(true);

    await chooseStatus(button, 'Cancelled');
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/was paid: a refund becomes due/).waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'the question before an order is cancelled');
    await dialog.getByRole('button', { name: 'Keep it as it is' }).click();
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => button.evaluate((element) => element === document.activeElement)).toBe(true);

    await chooseStatus(button, 'Shipped');
    await undoButton(page, order).waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'a change that can be undone');
    expect(await underBar(page)).toEqual([]);
    await undoButton(page, order).focus();
    await page.keyboard.press('Enter');
    await messages(page).getByText(`${order.order_number} is Processing again.`).waitFor();
    await isShown(page, order, 'Processing');
    expect((await readOrder(shop, order.id)).status).toBe('processing');
  });

  story('the question about another amount is accessible', async ({ newVisitor }) => {
    const order = await placeOrder(shop, `Till ${where}`, `${numbers}701`);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page, `/admin/orders/${order.id}`);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Confirm till payment' }).click();
    await dialog.getByLabel(/^M-PESA receipt/).fill(`UKL${numbers}`.slice(0, 10));
    await dialog.getByLabel(/^Amount that came/).fill('1');
    await dialog.getByText('M-PESA has not reported this receipt (yet).').waitFor();
    await dialog.getByRole('button', { name: 'Confirm payment' }).click();
    await expectAccessible(page, 'the question about a receipt that M-PESA has not reported');
    await dialog.getByRole('button', { name: 'Confirm it all the same' }).click();
    await dialog.getByText(/less than the order's charge/).waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'the question about another amount');
  });
});

describe('after 15 seconds', () => {
  story(
    'the customer is notified of a status not undone, even with the panel closed',
    async ({ newVisitor }) => {
      const [undone, reloaded, staying] = [
        await placeAssignedOrder(shop, 'Time undone', '0711030201'),
        await placeAssignedOrder(shop, 'Time reloaded', '0711030202'),
        await placeAssignedOrder(shop, 'Time staying', '0711030203'),
      ];
      const till = await placeOrder(shop, 'Time till', '0711030204');
      const { page, context } = await newVisitor();
      await enterAsStaff(shop, page);
      await openOrders(page, 'Time');
      await chooseStatus(statusOf(page, undone), 'Shipped');
      await undoButton(page, undone).click();
      await isShown(page, undone, 'Processing');
      await chooseStatus(statusOf(page, reloaded), 'Shipped');
      await undoButton(page, reloaded).waitFor();
      // After the page is closed, the undo button is gone but the message is still sent.
      const other = await context.newPage();
      await other.goto(`${shop.url}/admin/orders/${till.id}`);
      await page.close();
      const dialog = other.getByRole('dialog');
      const confirm = async (button: string, amount: string) => {
        await dialog.getByLabel(/^Amount that came/).fill(amount);
        await dialog.getByRole('button', { name: button }).click();
      };
      await dialog.getByRole('button', { name: 'Confirm till payment' }).click();
      const charge =
        (await dialog.getByText("The order's charge is").textContent())?.replace(/\D/g, '') ?? '';
      await dialog.getByLabel(/^M-PESA receipt/).fill('UKL7110302');
      await dialog.getByText('M-PESA has not reported this receipt (yet).').waitFor();
      await confirm('Confirm payment', '1');
      await dialog.getByRole('button', { name: 'Confirm it all the same' }).click();
      await dialog.getByRole('button', { name: 'Save KES 1' }).click();
      await dialog.getByRole('button', { name: 'Correct till payment' }).click();
      await confirm('Save correction', charge);
      await messages(other).getByText('The payment is corrected: the order is paid').waitFor();
      await openOrders(other, 'Time staying');
      await chooseStatus(statusOf(other, staying), 'Delivered');
      await undoButton(other, staying).waitFor();
      const texts = async (customerPhone: string, words: string) =>
        (await textsOf(customerPhone)).filter((text) => text.includes(words)).length;
      await until(
        async () =>
          (await texts('0711030202', 'is on its way')) === 1 &&
          (await texts('0711030203', 'was delivered')) === 1 &&
          (await texts('0711030204', ' paid, M-PESA ')) === 1,
        'the customers are notified',
      );
      await undoButton(other, staying).waitFor({ state: 'detached' });
      expect(await texts('0711030201', 'is on its way')).toBe(0);
      expect(await texts('0711030204', 'needs a check')).toBe(0);
      expect((await readOrder(shop, staying.id)).status).toBe('delivered');
    },
  );
});
