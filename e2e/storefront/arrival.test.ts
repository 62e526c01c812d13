// The time of arrival from the order form to the door, the rider on the way, and the rating of the delivery.
import type { Page } from 'playwright-core';
import { describe, expect, onTestFinished } from 'vitest';
import { expectAccessible } from '../accessibility.ts';
import { desktop, phone } from '../browser.ts';
import { placePaidOrder } from '../placed-orders.ts';
import { mainCase } from '../selection.ts';
import { amina, fillOrder, openOrderDialog, payButton, placeOrderButton } from '../shopper.ts';
import { asOwner, enterAsStaff } from '../staff-member.ts';
import { openShopForStories, shop, story } from '../story.ts';

openShopForStories();
const dialogOf = (page: Page) => page.getByRole('dialog');
const change = (rows: string, columns: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/${rows}`, 'PATCH', columns);
const readFirst = async <Row>(rows: string): Promise<Row> =>
  ((await (await asOwner(shop, `/rest/v1/${rows}`, 'GET')).json()) as Row[])[0] as Row;
const byTime = /Arrives by \d\d:\d\d/;

describe.each(
  mainCase([
    ['on a phone', phone],
    ['on a desktop', desktop],
  ] as const),
)('%s', (_, viewport) => {
  story('the customer knows when it arrives, who brings it, and rates it', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await dialogOf(page).getByText(byTime).first().waitFor();
    await fillOrder(page, { ...amina, phone: '0724005577' });
    await placeOrderButton(page).click();
    await payButton(page).click();
    await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
    await dialogOf(page).getByText(byTime).waitFor();
    await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).click();
    const order = page.locator('article[data-status]');
    await order.getByText(byTime).first().waitFor();
    await expectAccessible(page, 'a paid order');

    const number = page.url().split('/').at(-1)?.split('?')[0];
    const { id } = await readFirst<{ id: string }>(`orders?tracking_number=eq.${number}&select=id`);
    await change(`deliveries?order_id=eq.${id}`, {
      delivery_person: 'Brian Otieno',
      delivery_phone: '0711 000 001',
      delivery_vehicle: 'KMEH 123A',
      delivery_status: 'assigned',
    });
    expect(await order.getByText('Brian brings it').count()).toBe(0);
    await change(`deliveries?order_id=eq.${id}`, { delivery_status: 'picked_up' });
    await order.getByText('Brian brings it').waitFor();
    await order.getByText('KMEH 123A').waitFor();
    expect(await order.getByRole('link', { name: 'Call Brian' }).getAttribute('href')).toBe(
      'tel:+254711000001',
    );
    expect(await order.getByRole('link', { name: 'WhatsApp Brian' }).getAttribute('href')).toContain(
      'https://wa.me/254711000001?text=',
    );
    expect(await order.getByRole('list', { name: 'Progress of the order' }).locator('time').count()).toBe(3);
    await expectAccessible(page, 'an order on its way');

    await change(`deliveries?order_id=eq.${id}`, { delivery_status: 'delivered' });
    await order.getByText(/^Delivered at \d\d:\d\d/).waitFor();
    expect(await order.getByText('Brian brings it').count()).toBe(0);
    await order.getByRole('button', { name: '4 of 5: Good' }).click();
    await order.getByText('Asante! Our team reads it. You can change it for a day.').waitFor();
    await order.getByLabel(/^Anything to add/).fill('Cold and fast');
    await order.getByRole('button', { name: 'Save' }).click();
    await expect
      .poll(() => readFirst(`ratings?order_id=eq.${id}&select=stars,words`))
      .toEqual({ stars: 4, words: 'Cold and fast' });
    await expectAccessible(page, 'a rated order');

    const { page: staff } = await newVisitor({ viewport });
    await enterAsStaff(shop, staff, `/admin/orders/${id}`);
    await staff.getByRole('dialog').getByText('Cold and fast').waitFor();
  });

  story('while the shop is closed the form names the next opening', async ({ newVisitor }) => {
    // Closed now, whatever time it is: open from in two hours on, for an hour.
    const inNairobi = (hours: number) =>
      new Date(Date.now() + (3 + hours) * 3_600_000).toISOString().slice(11, 16);
    const hours = [1, 2, 3, 4, 5, 6, 7].map((day) => ({ day, from: inNairobi(2), to: inNairobi(3) }));
    await change('store_settings?id=is.true', { opening_hours: hours });
    onTestFinished(async () => void (await change('store_settings?id=is.true', { opening_hours: [] })));
    const { page } = await newVisitor({ viewport });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await dialogOf(page)
      .getByText(/^Opens at \d\d:\d\d.*, arrives by \d\d:\d\d/)
      .first()
      .waitFor();
    const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
    await plain.goto(`${shop.url}/shop/mango-bottle/order?quantity=1`);
    await plain.getByText(/^Opens at \d\d:\d\d.*, arrives by \d\d:\d\d/).waitFor();
  });

  story('without scripts a delivery is rated by a form', async ({ newVisitor }) => {
    const { id, tracking_number } = await placePaidOrder(shop, 'Plain Rating', '0711030188');
    const answer = await asOwner(shop, '/rest/v1/rpc/track_order', 'POST', {
      tracking_number,
      phone_last_four: '0188',
    });
    const { access_key } = (await answer.json()) as { access_key: string };
    await change(`orders?id=eq.${id}`, { status: 'delivered' });
    const { page } = await newVisitor({ viewport, javaScriptEnabled: false });
    await page.goto(`${shop.url}/track-order/${tracking_number}?key=${access_key}`);
    await page.getByRole('button', { name: '5 of 5: Very good' }).click();
    await page.getByLabel(/^Anything to add/).fill('Asante sana');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Asante sana').waitFor();
    expect(await readFirst(`ratings?order_id=eq.${id}&select=stars,words`)).toEqual({
      stars: 5,
      words: 'Asante sana',
    });
  });
});
