// Who the customer buys from: on the contact page and on receipts, once the settings have it.
import { expect } from 'vitest';
import { phone } from '../../browser.ts';
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
  await page.goto(`${shop.url}/track-order/${number}/receipt`);
  await page.getByText('KRA PIN: P051234567X').waitFor();
  await page.getByText('Business registration: BN-ABC1234').waitFor();
});
