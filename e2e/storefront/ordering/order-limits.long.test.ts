// What an order cannot promise: more than M-PESA takes, places outside Nairobi, a phone that was not reached, a drink that was withdrawn.
import { describe, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { dialogOf, waitForHydration } from '../../browser.ts';
import { phoneFirst } from '../../selection.ts';
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
const limit = 'M-PESA takes at most KSh 250,000.00 in one payment.';
const changeProduct = (slug: string, change: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/products?slug=eq.${slug}`, 'PATCH', change);

describe.each(phoneFirst)('%s', (_, viewport) => {
  story('more than M-PESA takes is said at the quantity, with a chat and a call', async ({ newVisitor }) => {
    await changeProduct('mango-bottle', { stock_quantity: 1000 });
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await waitForHydration(page);
    await page.getByLabel('Quantity', { exact: true }).fill('264');
    await page.getByText(limit).waitFor();
    expect(await page.getByRole('link', { name: 'WhatsApp us' }).getAttribute('href')).toMatch(
      /^https:\/\/wa\.me\/254700000000\?text=Habari.*264/,
    );
    expect(await page.getByRole('link', { name: /^call 0700/ }).getAttribute('href')).toBe(
      'tel:+254700000000',
    );
    await expectAccessible(page, 'a quantity above the limit');
    await page.getByLabel('Quantity', { exact: true }).fill('263');
    await page.getByText(limit).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Order Now' }).first().click();
    await dialogOf(page).getByRole('button', { name: 'One more' }).click();
    await dialogOf(page).getByText(limit).waitFor();
    expect(await placeOrderButton(page).isDisabled()).toBe(true);

    const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
    await plain.goto(`${shop.url}/shop/mango-bottle/order?quantity=264`);
    await plain.getByText(limit).waitFor();
    expect(await plain.getByRole('button', { name: 'Place Order' }).isDisabled()).toBe(true);
  });

  story(
    'a place outside Nairobi gets no promise of minutes, and one in Nairobi is prompted',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      await openOrderDialog(page, shop.url, 'mango-bottle');
      await fillOrder(page, { ...amina, location: 'Mombasa, Nyali', phone: 'Mum 0712 000 123' });
      await dialogOf(page).getByText('Outside Nairobi delivery takes longer.').waitFor();
      expect(
        await dialogOf(page)
          .getByText(/15-60 minutes/)
          .count(),
      ).toBe(0);
      await expectAccessible(page, 'an order outside Nairobi');
      // Of an order in Nairobi, whose phone is prompted next.
      await dialogOf(page)
        .getByLabel(/^Delivery location/i)
        .fill('Westlands');
      await dialogOf(page).getByText('Westlands').first().waitFor();
      await placeOrderButton(page).click();
      await payButton(page).waitFor();
      expect(await dialogOf(page).getByLabel('M-PESA phone number').inputValue()).toBe('0712000123');
    },
  );

  story(
    'a failed payment names the phone that was asked, and another one can pay',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      await order(page, shop.url, 'passion-bottle', { ...amina, phone: '0713001037' });
      await payButton(page).click();
      await dialogOf(page).getByText('We asked this phone').waitFor();
      await dialogOf(page).getByText('0713 001 037').waitFor();
      await dialogOf(page)
        .getByRole('link', { name: /^call 0700/ })
        .waitFor();
      await expectAccessible(page, 'a failed payment');
      await dialogOf(page).getByRole('button', { name: 'Change' }).click();
      const field = dialogOf(page).getByLabel('M-PESA phone number');
      await expect.poll(() => field.evaluate((input) => input === document.activeElement)).toBe(true);
      await page.keyboard.type('0713000007');
      await payButton(page).click();
      await dialogOf(page).getByText('Payment received').waitFor();
    },
  );
});

story('an order that the shop cannot charge any more is not tried again', async ({ newVisitor }) => {
  const { page } = await newVisitor({ expectedFailures: /4\d\d \(/ });
  await order(page, shop.url, 'passion-bottle', { ...amina, phone: '0713000008' });
  const settings = '/rest/v1/store_settings?id=is.true';
  await asOwner(shop, settings, 'PATCH', { payment_limit: 100_000 });
  await payButton(page).click();
  await dialogOf(page)
    .getByText(/M-PESA takes at most KSh 1,000 in one payment/)
    .waitFor();
  await dialogOf(page).getByText('We will sort it out with you:').waitFor();
  expect(await dialogOf(page).getByRole('button', { name: 'Try Again' }).count()).toBe(0);
  await asOwner(shop, settings, 'PATCH', { payment_limit: 25_000_000 });
});

story('the dialog of a withdrawn drink closes to a page that says so', async ({ newVisitor }) => {
  const { page } = await newVisitor({ expectedFailures: /404/ });
  await openOrderDialog(page, shop.url, 'tamarind-can');
  await changeProduct('tamarind-can', { is_active: false });
  await dialogOf(page).getByText("We don't sell this one any more").waitFor();
  await dialogOf(page).getByRole('button', { name: 'Close' }).click();
  await page.getByRole('heading', { name: 'Product not found' }).waitFor();
  expect(await page.getByText('In Stock').count()).toBe(0);
});

story('every order under way is shown, and one is ordered again in another tab', async ({ newVisitor }) => {
  const { page, context } = await newVisitor();
  const drinks = ['passion-bottle', 'mango-can', 'ginger-lemon-can'];
  const customer = { ...amina, phone: '0713000009', location: 'Karen, Ngong View' };
  for (const [index, slug] of drinks.entries()) {
    await order(page, shop.url, slug, customer);
    if (index !== 1) continue;
    await payButton(page).click();
    await dialogOf(page).getByText('Payment received').waitFor();
  }
  const other = await context.newPage();
  await other.goto(`${shop.url}/shop`);
  const rows = other.getByRole('region', { name: 'Your orders' }).getByRole('listitem');
  await expect.poll(() => rows.count()).toBe(3);
  expect(await rows.filter({ hasText: 'Not paid yet' }).count()).toBe(2);
  await expectAccessible(other, 'several orders under way');
  await rows.filter({ hasText: "We're preparing" }).getByRole('link', { name: 'Order again' }).click();
  await expect.poll(() => dialogOf(other).getByLabel(/^Name/).inputValue()).toBe(amina.name);
  expect(
    await dialogOf(other)
      .getByLabel(/^Delivery location/)
      .inputValue(),
  ).toBe(customer.location);
  expect(
    await dialogOf(other)
      .getByLabel(/^Phone/)
      .inputValue(),
  ).toBe(customer.phone);
});

story('without JavaScript, placing the same order again is asked about', async ({ newVisitor }) => {
  const { page } = await newVisitor({ javaScriptEnabled: false, expectedFailures: /409/ });
  const form = `${shop.url}/shop/mango-bottle/order?quantity=2`;
  const place = async (button: string) => {
    await page.getByLabel(/^Name/).fill(amina.name);
    await page.getByLabel(/^Email \*/).fill(amina.email);
    await page.getByLabel(/^Phone/).fill('0713000010');
    await page.getByLabel(/^Delivery location/).fill(amina.location);
    await page.getByRole('button', { name: button }).click();
  };
  await page.goto(form);
  await place('Place Order');
  await page.waitForURL(/\/track-order\/JJ-/);
  const number = page.url().match(/JJ-\d{8}-\d{4,6}/)?.[0] ?? '';
  await page.goto(form);
  await place('Place Order');
  await page.getByText('The same again?').waitFor();
  expect(await page.getByRole('link', { name: 'See that order' }).getAttribute('href')).toContain(number);
  await page.getByRole('button', { name: 'Order the same again' }).click();
  await page.waitForURL(/\/track-order\/JJ-/);
  expect(page.url()).not.toContain(number);
});

story('a link with the punctuation of a chat leads to its page', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0713000011' });
  const number = await trackingNumberIn(page);
  const [{ accessKey }] = JSON.parse(
    (await page.evaluate(() => localStorage.getItem('jani.orders'))) ?? '[]',
  );
  const short = `/t/${number.slice(3)}-${Buffer.from(accessKey, 'hex').toString('base64url')}`;
  for (const end of ['.', ',', ')', '!', '*', '_', '»', '…', '%20', '%E2%80%8B']) {
    for (const link of [short, `/track-order/${number}?key=${accessKey}`]) {
      await page.goto(shop.url + link + end);
      expect(page.url(), link + end).toBe(`${shop.url}/track-order/${number}?key=${accessKey}`);
    }
    await page.goto(`${shop.url}/shop/mango-bottle${end}`);
    expect(page.url()).toBe(`${shop.url}/shop/mango-bottle`);
  }
});
