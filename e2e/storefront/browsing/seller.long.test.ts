// Who the customer buys from: on the contact page and on receipts, once the settings have it.
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone } from '../../browser.ts';
import { amina, order, payButton, trackingNumberIn } from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

story('the contact page and receipts show address, registration and PIN', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  await page.goto(`${shop.url}/contact`);
  expect(await page.getByText('KRA PIN').count()).toBe(0);
  await asOwner(shop, '/rest/v1/store_settings?id=eq.true', 'PATCH', {
    seller_address: 'Mpaka Road 12, Westlands, Nairobi',
    seller_registration: 'BN-ABC1234',
    kra_pin: 'P051234567X',
  });
  await expect
    .poll(async () => {
      await page.reload();
      return page.getByRole('main').getByText('P051234567X').count();
    })
    .toBe(1);
  await page.getByText('Mpaka Road 12, Westlands, Nairobi').waitFor();

  await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0716009501' });
  const number = await trackingNumberIn(page);
  await payButton(page).click();
  await page.getByRole('dialog').getByRole('heading', { name: 'Payment received' }).waitFor();
  for (const viewport of [phone, desktop]) {
    await page.setViewportSize(viewport);
    for (const [path, ...words] of [
      ['/contact', 'Mpaka Road 12, Westlands, Nairobi'],
      [`/track-order/${number}/receipt`, 'KRA PIN: P051234567X', 'Business registration: BN-ABC1234'],
    ]) {
      await page.goto(`${shop.url}${path}`);
      for (const text of words) await page.getByText(text).waitFor();
      await expectAccessible(page, `${path} at ${viewport.width} px`);
    }
  }
});
