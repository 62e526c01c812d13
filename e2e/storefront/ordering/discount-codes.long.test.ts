// Discount codes: in the order form, in a link, in a change of the drinks, and without JavaScript.
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForHydration } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import {
  amina,
  fillOrder,
  openMoreFields,
  openOrderDialog,
  payButton,
  placeOrderButton,
} from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories({ MPESA_QUERIES_PER_MINUTE: '60' });
const story = storyWith({ expectedFailures: /40\d \(/ });

const makeCode = (code: string, columns: Record<string, unknown> = {}) =>
  asOwner(shop, '/rest/v1/discount_codes', 'POST', { code, percent: 10, ...columns });
const changeCode = (code: string, columns: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/discount_codes?code=eq.${code}`, 'PATCH', columns);
const rowsOf = async (query: string) =>
  (await (await asOwner(shop, `/rest/v1/${query}`, 'GET')).json()) as Record<string, unknown>[];
/** The newest order of a phone. */
const orderOf = async (number: string) => {
  const select = 'select=total_amount,discount_cents,discount_code,payment_status,delivery_fee';
  const path = `orders?customer_phone=eq.%2B254${number.slice(1)}&${select}&order=created_at.desc&limit=1`;
  return (await rowsOf(path))[0];
};
/** What a percentage takes off the price of a mango bottle, in cents. */
const discountOf = async (percent: number) => {
  const [mango] = await rowsOf('products?slug=eq.mango-bottle&select=price');
  return Math.ceil((Number(mango?.price) * percent) / 10_000) * 100;
};
const ksh = (cents: number) => `KSh ${(cents / 100).toLocaleString('en-KE', { minimumFractionDigits: 2 })}`;

const sizes = atSizes([
  ['on a phone', phone, '0711008901', 'PHONE10'],
  ['at a desktop', desktop, '0711008902', 'DESK10'],
] as const);

story.for(sizes)(
  'a customer pays less with a code, and reads why it does not apply %s',
  async ([where, viewport, number, code], { newVisitor }) => {
    await makeCode(code);
    const off = await discountOf(10);
    const { page } = await newVisitor({ viewport });
    const dialog = dialogOf(page);
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: number });
    const field = dialog.getByLabel('Discount code');
    expect(await field.isVisible()).toBe(false);
    await openMoreFields(page);
    await field.fill('NOT-A-CODE');
    await field.press('Enter');
    await dialog.getByText('This discount code is not valid, or it has ended.').waitFor();
    await expectAccessible(page, `a refused code ${where}`);

    // Enter applies it, and places no order.
    await field.fill(` ${code.toLowerCase()} `);
    await field.press('Enter');
    await dialog.getByText(`Code ${code} takes ${ksh(off)} off.`).waitFor();
    await dialog.getByText(`Discount (${code})`).waitFor();
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label')))
      .toBe(`Remove code ${code}`);
    await expectAccessible(page, `an applied code ${where}`);

    // It ends between the form and the order.
    await changeCode(code, { is_active: false });
    await placeOrderButton(page).click();
    await dialog.getByText('This discount code is not valid, or it has ended.').waitFor();
    await expect.poll(() => field.evaluate((input) => input === document.activeElement)).toBe(true);
    expect(await dialog.getByText(`Discount (${code})`).count()).toBe(0);
    expect(await orderOf(number)).toBeUndefined();

    await changeCode(code, { is_active: true });
    await dialog.getByRole('button', { name: 'Apply' }).click();
    await dialog.getByText(`Discount (${code})`).waitFor();
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    await dialog.getByText(`${ksh(off)} off with your discount code`).waitFor();
    const placed = await orderOf(number);
    expect(placed).toMatchObject({ discount_code: code, discount_cents: off });

    // A change of the drinks computes it again.
    await dialog.getByRole('button', { name: 'Add another drink' }).click();
    await dialog.getByRole('button', { name: /^Add / }).first().click();
    await dialog.getByRole('button', { name: /^Update order/ }).click();
    await payButton(page).waitFor();
    await expect.poll(async () => Number((await orderOf(number))?.discount_cents)).toBeGreaterThan(off);
    await payButton(page).click();
    await dialog.getByText('Payment received').waitFor();

    await dialog.getByRole('button', { name: 'Track Your Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-/);
    await page.getByText(`Discount (${code})`).waitFor();
    const receipt = await page
      .getByRole('link', { name: /receipt/i })
      .first()
      .getAttribute('href');
    await page.goto(new URL(receipt ?? '', page.url()).href);
    await page.getByRole('rowheader', { name: `Discount (${code})` }).waitFor();
    await page.goBack();
    // A page that is not shown yet cannot be reloaded.
    await page.getByText(`Discount (${code})`).waitFor();

    // The next order has no code.
    const [paid] = await rowsOf(`orders?customer_phone=eq.%2B254${number.slice(1)}&select=id`);
    await asOwner(shop, `/rest/v1/orders?id=eq.${paid?.id}`, 'PATCH', { status: 'delivered' });
    await page.reload();
    await waitForHydration(page);
    await page.getByRole('link', { name: 'Order again' }).click();
    await dialog.getByLabel(/^Name/).waitFor();
    expect(await dialog.getByLabel('Discount code').inputValue()).toBe('');
    expect(await dialog.getByText(`Discount (${code})`).count()).toBe(0);
  },
);

story('a link with a code applies it in the form, also after a reload', async ({ newVisitor }) => {
  await makeCode('LINK20', { percent: 20 });
  const { page } = await newVisitor({ viewport: phone });
  await page.goto(`${shop.url}/shop?code=link20`);
  await waitForHydration(page);
  await page.locator('a[href="/shop/mango-bottle"]').first().click();
  await page.getByRole('button', { name: 'Order Now' }).click();
  const dialog = dialogOf(page);
  await dialog.getByText('Discount (LINK20)').waitFor();
  await fillOrder(page, { ...amina, phone: '0711008903' });
  await page.reload();
  await page.getByRole('button', { name: 'Order Now' }).click();
  await dialog.getByText('Discount (LINK20)').waitFor();
  await dialog.getByRole('button', { name: 'Remove code LINK20' }).click();
  // The focus follows into the empty field.
  const field = dialog.getByLabel('Discount code');
  await expect.poll(() => field.evaluate((input) => input === document.activeElement)).toBe(true);
  expect(await dialog.getByText('Discount (LINK20)').count()).toBe(0);
});

story(
  'a code that was typed and not applied is applied before the order is placed',
  async ({ newVisitor }) => {
    await makeCode('TYPED10');
    const number = '0711008904';
    const { page } = await newVisitor({ viewport: desktop });
    const dialog = dialogOf(page);
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: number });
    await openMoreFields(page);
    await dialog.getByLabel('Discount code').fill('TYPED10');
    await placeOrderButton(page).click();
    await dialog.getByText('Discount (TYPED10)').waitFor();
    expect(await orderOf(number)).toBeUndefined();
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    expect(await orderOf(number)).toMatchObject({ discount_code: 'TYPED10' });
  },
);

story.for(sizes)('a code works without JavaScript %s', async ([, viewport, , sizeCode], { newVisitor }) => {
  const code = `${sizeCode}-PLAIN`;
  const number = viewport.width < 768 ? '0711008905' : '0711008906';
  await makeCode(code);
  const off = await discountOf(10);
  const { page } = await newVisitor({ viewport, javaScriptEnabled: false });
  await page.goto(`${shop.url}/shop/mango-bottle/order`);
  await page.getByLabel(/^Name/).fill(amina.name);
  await page.getByLabel(/^Email/).fill(amina.email);
  await page.getByLabel(/^Phone/).fill(number);
  await page.getByLabel(/^Delivery location/i).fill(amina.location);
  await openMoreFields(page);
  await page.getByLabel('Discount code').fill('WRONG');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('This discount code is not valid, or it has ended.').waitFor();
  await page.getByLabel('Discount code').fill(code);
  // Without pressing Apply: the new total is shown before the order is placed.
  await page.getByRole('button', { name: 'Place Order' }).click();
  await page.getByText(`Discount (${code})`).waitFor();
  expect(await page.getByLabel(/^Name/).inputValue()).toBe(amina.name);
  expect(await orderOf(number)).toBeUndefined();
  await page.getByRole('button', { name: 'Place Order' }).click();
  await page.waitForURL(/\/track-order\/JJ-/);
  await page.getByText(`Discount (${code})`).waitFor();
  expect(await orderOf(number)).toMatchObject({ discount_code: code, discount_cents: off });

  // A link with a code opens the field with it.
  await page.goto(`${shop.url}/shop/mango-bottle/order?code=${code}`);
  await page.getByText(`Discount (${code})`).waitFor();
});

story('Apply does not cover the code with large text', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: { width: 360, height: 420 } });
  await openOrderDialog(page, shop.url, 'mango-can');
  await page.evaluate(() => document.documentElement.style.setProperty('font-size', '200%'));
  await openMoreFields(page);
  const dialog = dialogOf(page);
  const [input, apply] = [
    await dialog.getByLabel('Discount code').boundingBox(),
    await dialog.getByRole('button', { name: 'Apply' }).boundingBox(),
  ];
  expect(input?.width).toBeGreaterThan(200);
  expect(apply?.y).toBeGreaterThanOrEqual((input?.y ?? 0) + (input?.height ?? 0));
});
