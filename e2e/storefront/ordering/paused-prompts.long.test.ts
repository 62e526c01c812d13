// M-PESA refuses every prompt for a reason that only the owner can end: customers are led to the till, with and without scripts.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { phone } from '../../browser.ts';
import { order, payButton, trackingNumberIn } from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
beforeAll(async () => {
  await asOwner(shop, '/rest/v1/store_settings?id=eq.true', 'PATCH', { till_number: '5550174' });
  await fetch(`${shop.simulatorUrl}/simulator/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      script: [{ target: 'pushes', kind: 'refuse', refusal: 'callback-url', share: 1 }],
    }),
  });
});

story(
  'a refused prompt and a paused shop lead to the till, without a retry that can only fail',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    const dialog = page.getByRole('dialog');
    const isLed = async () => {
      await dialog.getByRole('heading', { name: 'Pay another way' }).waitFor();
      await dialog.getByText('5550174').waitFor();
      expect(
        await dialog.getByRole('button', { name: /try again|^Pay KSh|back to the prompt/i }).count(),
      ).toBe(0);
    };
    await order(page, shop.url, 'mango-bottle');
    await payButton(page).click();
    await isLed();
    await expectAccessible(page, 'payment without a prompt');
    const number = await trackingNumberIn(page);
    await dialog.getByRole('button', { name: 'I have paid: track my order' }).click();
    await page.waitForURL(`**/track-order/${number}`);
    // The shop is paused now: the next customer, here the same one again, is not asked for a phone.
    await page.goto(`${shop.url}/track-order/${number}`);
    // Before hydration the button leads to the page without scripts, which is below.
    await page.locator('html:not([data-unpainted])').waitFor();
    await page.getByRole('button', { name: 'Pay now' }).click();
    await isLed();

    const [product] = (await (
      await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle&select=id,price', 'GET')
    ).json()) as { id: string; price: number }[];
    const placed = (await (
      await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
        idempotency_key: randomUUID(),
        product_id: product?.id,
        quantity: 1,
        customer_name: 'Otieno',
        customer_email: 'otieno@example.com',
        customer_phone: '0712340000',
        delivery_location: 'Karen',
        expected_total: (product?.price ?? 0) + 100,
      })
    ).json()) as { tracking_number: string; access_key: string };
    const { page: plain } = await newVisitor({ viewport: phone, javaScriptEnabled: false });
    await plain.goto(`${shop.url}/track-order/${placed.tracking_number}/pay?key=${placed.access_key}`);
    await plain.getByRole('heading', { name: 'Pay another way' }).waitFor();
    await plain.getByText('5550174').waitFor();
    expect(await plain.getByRole('button', { name: /^Pay KSh/ }).count()).toBe(0);

    const { prompts } = (await (await fetch(`${shop.simulatorUrl}/simulator/ledger`)).json()) as {
      prompts: unknown[];
    };
    expect(prompts).toEqual([]);
  },
);
