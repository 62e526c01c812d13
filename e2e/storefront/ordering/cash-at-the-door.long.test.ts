// A customer chooses cash at the door where the owner offers it: in the payment dialog, and without JavaScript.
import type { Page } from 'playwright-core';
import { beforeAll, expect } from 'vitest';
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
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ expectedFailures: /(409|429) \(/ });

const settings = (values: Record<string, unknown>) =>
  asOwner(shop, '/rest/v1/store_settings?id=is.true', 'PATCH', values);
beforeAll(async () => {
  await settings({ offers_cash: true });
});

const cash = /^Pay KSh [\d,.]+ in cash at the door$/;
const chooseCash = (page: Page) => page.getByRole('button', { name: cash });
const confirmCash = (page: Page) => page.getByRole('button', { name: 'Yes, I pay in cash' });

interface Order {
  status: string;
  payment_status: string;
  payment_method: string;
}
const orderOf = async (number: string) => {
  const path = `/rest/v1/orders?tracking_number=eq.${number}&select=status,payment_status,payment_method`;
  return ((await (await asOwner(shop, path, 'GET')).json()) as Order[])[0];
};

const sizes = atSizes([
  ['on a phone', phone, '0711008901'],
  ['at a desktop', desktop, '0711008902'],
] as const);

story.for(sizes)(
  'a customer pays in cash after one question, and the order says what happens now %s',
  async ([where, viewport, number], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await order(page, shop.url, 'mango-bottle', { ...amina, phone: number });
    const tracking = await trackingNumberIn(page);
    // The prompt stays the first choice.
    await chooseCash(page).click();
    await dialogOf(page).getByRole('heading', { name: 'Pay in cash at the door?' }).waitFor();
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.textContent))
      .toBe('Pay in cash at the door?');
    await expectAccessible(page, `the question about cash ${where}`);
    await dialogOf(page).getByRole('button', { name: 'Pay by M-PESA' }).click();
    await payButton(page).waitFor();
    expect(await orderOf(tracking)).toMatchObject({ status: 'pending', payment_method: 'pending' });

    await chooseCash(page).click();
    await confirmCash(page).dblclick();
    await dialogOf(page).getByRole('heading', { name: 'We are preparing your drinks' }).waitFor();
    await expectAccessible(page, `an order that is paid in cash ${where}`);
    expect(await orderOf(tracking)).toEqual({
      status: 'processing',
      payment_status: 'unpaid',
      payment_method: 'cash',
    });

    // M-PESA stays possible, and cash is not offered twice.
    await dialogOf(page).getByRole('button', { name: 'Pay by M-PESA instead' }).click();
    await payButton(page).waitFor();
    expect(await chooseCash(page).count()).toBe(0);
    await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
    await page.goto(`${shop.url}/track-order/${tracking}`);
    await page
      .getByText(/^Cash at the door: KSh/)
      .first()
      .waitFor();
    await page
      .getByText(/Our rider collects the money when they arrive/)
      .first()
      .waitFor();

    await waitForHydration(page);
    await page.getByRole('button', { name: 'Pay now' }).first().click();
    await payButton(page).click();
    await dialogOf(page).getByText('Payment received').waitFor();
    expect(await orderOf(tracking)).toMatchObject({ payment_status: 'paid', payment_method: 'mpesa' });
  },
);

story('a second order of a phone that never paid is refused beside the button', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  const shopper = { ...amina, phone: '0711008903' };
  await order(page, shop.url, 'mango-bottle', shopper);
  await chooseCash(page).click();
  await confirmCash(page).click();
  await dialogOf(page).getByRole('heading', { name: 'We are preparing your drinks' }).waitFor();

  const other = await newVisitor({ viewport: phone });
  await openOrderDialog(other.page, shop.url, 'passion-bottle');
  await fillOrder(other.page, shopper);
  await placeOrderButton(other.page).click();
  await payButton(other.page).waitFor();
  const tracking = await trackingNumberIn(other.page);
  await chooseCash(other.page).click();
  await confirmCash(other.page).click();
  await dialogOf(other.page)
    .getByRole('alert')
    .getByText(/paid in cash already\. Please pay this one by M-PESA/)
    .waitFor();
  await expectAccessible(other.page, 'a refusal of cash');
  await dialogOf(other.page).getByRole('button', { name: 'Pay by M-PESA' }).click();
  await payButton(other.page).waitFor();
  expect(await orderOf(tracking)).toMatchObject({ status: 'pending', payment_method: 'pending' });
});

story('without JavaScript cash is a link, a question and the page of the order', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone, javaScriptEnabled: false });
  const place = async (slug: string) => {
    await page.goto(`${shop.url}/shop/${slug}/order?quantity=1`);
    await page.getByLabel(/^Name/).fill(amina.name);
    await page.getByLabel(/^Email/).fill(amina.email);
    await page.getByLabel(/^Phone/).fill('0711008904');
    await page.getByLabel(/^Delivery location/).fill(amina.location);
    await page
      .getByRole('button', { name: /^Place Order/ })
      .last()
      .click();
    await page.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    await page.getByRole('button', { name: 'Pay now' }).first().click();
    await page.getByRole('heading', { name: 'Pay with M-PESA' }).waitFor();
  };
  await place('mango-bottle');
  await page.getByRole('link', { name: cash }).click();
  await page.getByRole('heading', { name: 'Pay in cash at the door?' }).waitFor();
  await confirmCash(page).click();
  await page.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
  await page
    .getByText(/Our rider collects the money when they arrive/)
    .first()
    .waitFor();
  // M-PESA stays possible, and cash is not offered again.
  await page.getByRole('button', { name: 'Pay now' }).first().click();
  await page.getByRole('button', { name: /^Pay KSh [\d,.]+$/ }).waitFor();
  expect(await page.getByRole('link', { name: cash }).count()).toBe(0);

  await place('passion-bottle');
  await page.getByRole('link', { name: cash }).click();
  await confirmCash(page).click();
  await page.getByText(/paid in cash already\. Please pay this one by M-PESA/).waitFor();
  await page.getByRole('link', { name: 'Pay by M-PESA' }).click();
  await page.getByRole('button', { name: /^Pay KSh [\d,.]+$/ }).waitFor();
});

story('is offered on a cached page as soon as the owner does', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  await settings({ offers_cash: false });
  await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0711008905' });
  expect(await chooseCash(page).count()).toBe(0);
  await settings({ offers_cash: true });
  await expect
    .poll(async () => {
      await page.reload();
      await payButton(page).waitFor();
      return chooseCash(page).count();
    })
    .toBe(1);
});
