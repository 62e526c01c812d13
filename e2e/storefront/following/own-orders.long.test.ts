// Orders stored on a device in each state: unpaid, paying, paid, cancelled, and payments that ended in the background.
import type { Page } from 'playwright-core';
import { afterAll, describe, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForHydration } from '../../browser.ts';
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
import { asOwner, callAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
afterAll(() => {
  for (const page of phonePages) clearInterval(page);
});

const asStaff = async (path: string, method = 'GET', body?: unknown) => {
  const answer = await asOwner(shop, `/rest/v1/${path}`, method, body);
  return answer.json().catch(() => null);
};
const changeOrder = (number: string, change: Record<string, unknown>) =>
  asStaff(`orders?tracking_number=eq.${number}`, 'PATCH', change);
const phonePages: NodeJS.Timeout[] = [];
/** From now on, prompts to this phone wait for a manual answer: its page is open, and asks every second as such a page does. */
const holdPrompts = (number: string) => {
  const ask = () =>
    fetch(`${shop.simulatorUrl}/simulator/prompts?phone=${number}&screen=open`).catch(() => undefined);
  phonePages.push(setInterval(ask, 1000));
  return ask();
};
/** Answers the newest prompt. */
const answerPrompt = async (number: string, answer: 'pin' | 'decline') => {
  const of = `?phone=254${number.slice(1)}`;
  const { prompts } = (await (await fetch(`${shop.simulatorUrl}/simulator/ledger${of}`)).json()) as {
    prompts: { checkoutRequestId: string }[];
  };
  const done = await fetch(
    `${shop.simulatorUrl}/simulator/prompts/${prompts.at(-1)?.checkoutRequestId}/${answer}`,
    {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(answer === 'pin' ? { pin: '1234' } : {}),
    },
  );
  expect(done.ok, await done.clone().text()).toBe(true);
};

const cardOf = (page: Page) => page.getByRole('region', { name: /^Your (last order|orders)$/ });
const toastOf = (page: Page, title: string) =>
  page
    .locator('[data-sonner-toast][data-visible=true]')
    .filter({ has: page.getByText(title, { exact: true }) });
const notPaid = /Not paid yet: KSh 951\.00, reserved until \d\d:\d\d\./;

describe.each(
  atSizes([
    ['on a phone', phone, 1],
    ['on a desktop', desktop, 2],
  ] as const),
)('%s', (_, viewport, which) => {
  story(
    'an unpaid order is shown on every page until it is paid, and the payment is announced once in each tab',
    async ({ newVisitor }) => {
      const customer = { ...amina, phone: `071600770${which}` };
      const { page, context } = await newVisitor({ viewport });
      await order(page, shop.url, 'mango-bottle', customer);
      const number = await trackingNumberIn(page);
      await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('main').getByText(notPaid).waitFor();
      await expectAccessible(page, 'a product with an unpaid order');

      // When the customer orders the same drink again, the form offers the earlier order.
      await page.getByRole('button', { name: 'Order Now' }).click();
      await dialogOf(page).getByText('You have ordered this already').waitFor();
      await dialogOf(page).getByText(notPaid).waitFor();
      await dialogOf(page).getByRole('button', { name: 'Pay for that order' }).click();
      expect(await trackingNumberIn(page)).toBe(number);
      await dialogOf(page).getByRole('button', { name: 'Close' }).click();

      const other = await context.newPage();
      await other.goto(`${shop.url}/shop`);
      await cardOf(other).getByText(notPaid).waitFor();
      await expectAccessible(other, 'the shop with an unpaid order');

      await page.goto(shop.url);
      await cardOf(page).getByText(notPaid).waitFor();
      const card = await cardOf(page).boundingBox();
      expect((card?.y ?? 0) + (card?.height ?? 0), 'on the first screen').toBeLessThan(viewport.height);
      await holdPrompts(customer.phone);
      await cardOf(page).getByRole('button', { name: 'Pay now' }).click();
      await payButton(page).click();
      await dialogOf(page).getByText('Waiting for M-PESA to confirm').waitFor();
      await dialogOf(page).getByRole('button', { name: "Close. I'll check later" }).click();
      await cardOf(page).getByText('Waiting for M-PESA to confirm KSh 951.00.').waitFor();

      await answerPrompt(customer.phone, 'decline');
      for (const tab of [page, other]) {
        await toastOf(tab, 'Payment not completed').getByText('Payment was cancelled').waitFor();
        await cardOf(tab).getByText(notPaid).waitFor();
      }
      await expectAccessible(page, 'a payment that failed in the background');
      await toastOf(page, 'Payment not completed').getByRole('link', { name: 'Pay for that order' }).click();
      await page.waitForURL(`**/track-order/${number}`);
      await toastOf(page, 'Payment not completed').waitFor({ state: 'detached' });

      await page.getByRole('button', { name: 'Pay now' }).click();
      await holdPrompts(customer.phone);
      await payButton(page).click();
      await dialogOf(page).getByText('Waiting for M-PESA to confirm').waitFor();
      await dialogOf(page).getByRole('button', { name: "Close. I'll check later" }).click();
      await page.getByRole('heading', { name: 'Waiting for M-PESA' }).waitFor();
      // A step back that is still due would cancel the load of the other page.
      await page.waitForFunction(() => !(window.history.state?.usr?.dialogs > 0));
      // The result is still announced after a reload and on another page.
      await page.goto(`${shop.url}/delivery`);
      await page.reload();
      await answerPrompt(customer.phone, 'pin');
      for (const tab of [page, other]) await toastOf(tab, 'Payment received').waitFor();
      await cardOf(other).getByText("Paid. We're preparing your drinks.").waitFor();
      await page.goto(shop.url);
      await cardOf(page).getByText("Paid. We're preparing your drinks.").waitFor();
      expect(await cardOf(page).getByRole('button', { name: 'Pay now' }).count()).toBe(0);

      // The reminder of the unpaid order is gone.
      const answered = page.waitForResponse('**/rpc/orders_by_access_key');
      await openOrderDialog(page, shop.url, 'mango-bottle');
      await answered;
      expect(await page.getByText(/Not paid yet|ordered this already|unpaid/).count()).toBe(0);
      // This tab has reported both prompts.
      const followed = await page.evaluate(() => sessionStorage.getItem('jani.payments'));
      expect(JSON.parse(followed ?? '[]')).toMatchObject([{ isReported: true }, { isReported: true }]);
    },
  );

  story(
    'a cancelled or expired order offers a new one with the form filled in, and no action that cannot succeed',
    async ({ newVisitor }) => {
      const customer = { ...amina, phone: `071600780${which}` };
      const { page } = await newVisitor({ viewport });
      await openOrderDialog(page, shop.url, 'mango-can');
      await dialogOf(page).getByRole('button', { name: 'One more' }).click();
      await fillOrder(page, customer);
      await placeOrderButton(page).click();
      await payButton(page).waitFor();
      const first = await trackingNumberIn(page);
      // The page has not received the change when the customer taps Pay.
      await page.route('**/rpc/orders_by_access_key', (route) => route.fulfill({ json: [] }));
      await changeOrder(first, { status: 'cancelled' });
      await payButton(page).click();
      await dialogOf(page).getByText('This order was cancelled before it was paid.').waitFor();
      await page.unroute('**/rpc/orders_by_access_key');
      await expectAccessible(page, 'a cancelled order in the payment dialog');
      expect(await dialogOf(page).getByRole('button', { name: 'Try Again' }).count()).toBe(0);
      await dialogOf(page).getByRole('button', { name: 'Order again' }).click();
      const name = dialogOf(page).getByLabel(/^Name/);
      await name.waitFor();
      expect(await name.inputValue()).toBe(customer.name);
      expect(
        await dialogOf(page)
          .getByLabel(/^Phone/)
          .inputValue(),
      ).toBe(customer.phone);
      expect(await dialogOf(page).getByRole('status').first().textContent()).toBe('2');
      expect(await dialogOf(page).getByText('You have ordered this already').count()).toBe(0);
      await placeOrderButton(page).click();
      await payButton(page).waitFor();
      const second = await trackingNumberIn(page);
      expect(second).not.toBe(first);

      const past = new Date(Date.now() - 60_000).toISOString();
      await changeOrder(second, { reserved_until: past, expires_at: past });
      await asStaff('rpc/expire_reservations', 'POST', {});
      // The open dialog shows the change after the page's next query.
      await page.evaluate(() => window.dispatchEvent(new Event('online')));
      await dialogOf(page).getByText("This order was cancelled because it wasn't paid in time.").waitFor();
      expect(await payButton(page).count()).toBe(0);
      await page.goto(shop.url);
      await cardOf(page).getByText("Cancelled: it wasn't paid in time.").waitFor();
      await cardOf(page).getByRole('link', { name: 'Order again' }).click();
      await name.waitFor();
      expect(await name.inputValue()).toBe(customer.name);
      await page.goto(`${shop.url}/track-order/${second}`);
      await page.getByText("This order was cancelled because it wasn't paid in time.").waitFor();
      await page.getByRole('link', { name: 'Order again' }).waitFor();

      // The order is cancelled while its prompt is open.
      await order(page, shop.url, 'mango-can', customer);
      const third = await trackingNumberIn(page);
      await holdPrompts(customer.phone);
      await payButton(page).click();
      await dialogOf(page).getByText('Enter your M-PESA PIN in the prompt to confirm.').waitFor();
      await changeOrder(third, { status: 'cancelled' });
      await page.evaluate(() => window.dispatchEvent(new Event('online')));
      await dialogOf(page)
        .getByText(/A prompt may still be open on your phone: please don't confirm it/)
        .waitFor();
      expect(await dialogOf(page).getByText('Enter your M-PESA PIN').count()).toBe(0);
    },
  );

  story(
    'tracking agrees with the payment: unpaid and delivered, then paid in whole shillings, then refunded',
    async ({ newVisitor }) => {
      const customer = { ...amina, phone: `071600790${which}` };
      const { page } = await newVisitor({ viewport });
      await asStaff('products?slug=eq.hibiscus-can', 'PATCH', { price: 89_950 });
      await order(page, shop.url, 'hibiscus-can', customer);
      const number = await trackingNumberIn(page);
      await page.goto(`${shop.url}/track-order/${number}`);
      await page.getByText(/Your drinks are reserved for you until \d\d:\d\d/).waitFor();
      await waitForHydration(page);
      const [{ id }] = (await asStaff(`orders?tracking_number=eq.${number}&select=id`)) as [{ id: string }];
      await asStaff('rpc/set_order_status', 'POST', {
        order_id: id,
        status: 'delivered',
        expected_status: 'pending',
        expected_payment_status: 'unpaid',
        although_unpaid: true,
      });
      await page.getByText("Your drinks were delivered, but we haven't received your payment.").waitFor();
      expect(await page.getByText(/reserved for|fridge as soon/).count()).toBe(0);
      await expectAccessible(page, 'a delivered order that is not paid');
      await page.getByRole('button', { name: 'Pay now' }).click();
      await payButton(page).click();
      await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).click();
      await page.getByText('We received KSh 901.00. Asante!').waitFor();
      await page.getByText('Rounded up to whole shillings').waitFor();

      await changeOrder(number, { status: 'cancelled' });
      await page
        .getByText("We received KSh 901.00 for this order. We'll refund you or give you a call.")
        .waitFor();
      const [payment] = (await asStaff(`payments?order_id=eq.${id}&status=eq.completed&select=id`)) as {
        id: string;
      }[];
      await callAsStaff(shop, 'note_refund_by_hand', {
        payment_id: payment?.id,
        refund_receipt: `UKM000000${which}`,
        reason: 'Wrong drink',
      });
      await page.getByText('KSh 901.00 was sent back to you by M-PESA.').waitFor();
      await page.goto(shop.url);
      await cardOf(page).getByText('Cancelled. KSh 901.00 was sent back.').waitFor();
      await page.goto(`${shop.url}/track-order/${number}/receipt`);
      await page.getByText('Refunded').waitFor();
      await page.getByText('KSh 901.00 by M-PESA').waitFor();
    },
  );
});
