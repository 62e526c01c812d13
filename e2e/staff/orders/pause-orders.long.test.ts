// Staff pause orders: customers read why and until when, lose nothing they typed, and order again after it.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import { amina, fillOrder, openOrderDialog, payButton, placeOrderButton } from '../../shopper.ts';
import { callAsStaff, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ expectedFailures: /409 \(/ });

const sentence = /Orders are paused until \d\d:\d\d: heavy rain\./;
const strip = (page: Page) => page.getByRole('complementary', { name: 'Orders are paused' });
const pageOf = async (path: string) => (await fetch(`${shop.url}${path}`)).text();

story.for(
  atSizes([
    ['on a phone', phone, '1'],
    ['at a desktop', desktop, '2'],
  ] as const),
)(
  'a pause is begun and ended on Today, and customers order after it %s',
  async ([where, viewport, size], { newVisitor }) => {
    const shopper = { ...amina, phone: `071100880${size}` };
    const { page } = await newVisitor({ viewport });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, shopper);

    const staff = await newVisitor({ viewport });
    const member = await enterAsStaff(shop, staff.page, '/admin/today');
    const colleague = await newVisitor({ viewport: desktop });
    await enterAsStaff(shop, colleague.page, '/admin/dashboard');
    await colleague.page.getByRole('button', { name: 'Pause orders' }).waitFor();
    await staff.page.getByRole('button', { name: 'Pause orders' }).click();
    const question = staff.page.getByRole('dialog');
    await question.getByRole('radio', { name: 'Rain' }).check();
    await question.getByRole('radio', { name: '1 hour' }).check();
    await expectAccessible(staff.page, `the question before a pause ${where}`);
    await question.getByRole('button', { name: 'Pause orders' }).click();
    const banner = staff.page.getByRole('region', { name: 'Orders are paused' });
    await banner.getByText(sentence).waitFor();
    await banner.getByText(/^(1 h|\d+ min) left/).waitFor();
    await banner.getByText(member.email.split('@')[0] ?? '', { exact: false }).waitFor();
    await expect.poll(() => banner.evaluate((own) => own === document.activeElement)).toBe(true);
    await expectAccessible(staff.page, `the banner of a pause ${where}`);
    await colleague.page.getByRole('region', { name: 'Orders are paused' }).getByText(sentence).waitFor();

    // The form was filled in before the pause.
    await placeOrderButton(page).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(sentence).waitFor();
    await strip(page).waitFor();
    expect(await dialog.getByLabel(/^Delivery location/i).inputValue()).toBe(shopper.location);
    // The button says that it is not available, and why.
    const inactive = dialog.getByRole('button', { name: /^Place Order/, disabled: true });
    await expect.poll(() => inactive.evaluate((own) => own === document.activeElement)).toBe(true);
    expect(await inactive.getAttribute('aria-describedby')).toBe(
      await dialog.locator('[data-callout]').getAttribute('id'),
    );
    await expectAccessible(page, `a refused order ${where}`);

    await until(async () => sentence.test(await pageOf('/')), 'the home page says so', 2000);
    for (const path of ['/brands/embu-fresh', '/flavors/mango'])
      expect(await pageOf(path), path).toContain('aria-label="Orders are paused"');
    expect(await pageOf('/track-order')).not.toContain('aria-label="Orders are paused"');
    const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
    await plain.goto(`${shop.url}/shop/mango-can/order`);
    await strip(plain).getByText(sentence).waitFor();
    const fields = {
      Name: amina.name,
      Email: amina.email,
      Phone: shopper.phone,
      'Delivery location': amina.location,
    };
    for (const [label, text] of Object.entries(fields))
      await plain.getByLabel(new RegExp(`^${label}`)).fill(text);
    await plain.getByRole('button', { name: 'Try to place the order' }).click();
    await plain.getByText('What you type stays here until you can place your order.').waitFor();
    expect(await plain.getByLabel(/^Delivery location/).inputValue()).toBe(amina.location);

    await banner.getByRole('button', { name: 'Resume now' }).click();
    const again = staff.page.getByRole('button', { name: 'Pause orders' });
    await expect.poll(() => again.evaluate((own) => own === document.activeElement)).toBe(true);
    await colleague.page.getByRole('button', { name: 'Pause orders' }).waitFor();
    // The open page notices by itself, and the form is still filled in.
    await dialog.getByText(sentence).waitFor({ state: 'detached', timeout: 30_000 });
    expect(await strip(page).count()).toBe(0);
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    await plain.getByRole('button', { name: 'Try to place the order' }).click();
    await plain.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
  },
);

story('an order that exists is paid during a pause', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  await openOrderDialog(page, shop.url, 'tamarind-bottle');
  await fillOrder(page, { ...amina, phone: '0711008803' });
  await placeOrderButton(page).click();
  await payButton(page).waitFor();
  await callAsStaff(shop, 'pause_orders', { reason: 'heavy rain' });
  try {
    await until(
      async () => (await pageOf('/shop')).includes('Orders are paused for now: heavy rain.'),
      'the pause began',
      2000,
    );
    await payButton(page).click();
    await page.getByRole('dialog').getByText('Payment received').waitFor();
  } finally {
    await callAsStaff(shop, 'resume_orders');
  }
});
