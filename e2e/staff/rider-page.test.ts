// The page of a rider on a phone: without scripts, without a network, on two devices, and after staff took something away.
import { randomInt } from 'node:crypto';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../accessibility.ts';
import { textsTo } from '../mailbox.ts';
import { type Order, placePaidOrder } from '../placed-orders.ts';
import { inLongRun } from '../selection.ts';
import { asOwner } from '../staff-member.ts';
import { story as everyStory, openShopForStories, shop, storyWith } from '../story.ts';

openShopForStories();
const narrow = { width: 320, height: 640 };
const story = storyWith({ viewport: narrow });
/** Refused presses and ended links answer with a status of 400 and more, which the console notes. */
const refusing = { expectedFailures: /\/ride\// };

interface Rider {
  id: string;
  name: string;
  phone: string;
}

async function call<Answer>(procedure: string, given: Record<string, unknown>): Promise<Answer> {
  const answer = await (await asOwner(shop, `/rest/v1/rpc/${procedure}`, 'POST', given)).text();
  return (answer ? JSON.parse(answer) : null) as Answer;
}
const addRider = (name: string) =>
  call<Rider>('save_rider', {
    name,
    phone: `07${String(randomInt(100_000_000)).padStart(8, '0')}`,
    vehicle: 'Motorbike',
    plate: 'KMDA 123B',
  });
const linkOf = async ({ id }: Rider) =>
  `${shop.url}/ride/${(await call<{ secret: string }>('open_rider_link', { rider_id: id })).secret}`;
async function deliveryOf({ id }: Order) {
  const answer = await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${id}`, 'GET');
  const [delivery] = (await answer.json()) as {
    id: string;
    delivery_status: string;
    proof_code: string;
    wrong_codes: number;
    failure_reason: string | null;
  }[];
  return delivery ?? expect.fail('no delivery');
}
const assign = async (order: Order, { name, phone }: Rider) => {
  await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
    delivery_status: 'assigned',
    delivery_person: name,
    delivery_phone: phone,
    delivery_vehicle: 'Motorbike',
  });
};
const wrong = (code: string) => String((Number(code) + 1) % 10_000).padStart(4, '0');
const stepsOf = async ({ id }: Order) => {
  const answer = await asOwner(
    shop,
    `/rest/v1/order_events?order_id=eq.${id}&kind=eq.delivery_status_changed&order=id&select=actor,details`,
    'GET',
  );
  return ((await answer.json()) as { actor: string; details: { to: string } }[]).map(
    ({ actor, details }) => `${actor} ${details.to}`,
  );
};
/** A rider with a link and a paid order. */
async function ride(customer: string, phone?: string) {
  const rider = await addRider(`Rider ${randomInt(1_000_000)}`);
  const order = await placePaidOrder(shop, customer, phone);
  await assign(order, rider);
  return { rider, order, url: await linkOf(rider), code: (await deliveryOf(order)).proof_code };
}
const job = (page: Page, order: Order) => page.getByRole('article').filter({ hasText: order.order_number });
const isStatus = (order: Order, status: string) =>
  until(async () => (await deliveryOf(order)).delivery_status === status, `the delivery is ${status}`);

story('works without scripts, and says what is wrong', async ({ newVisitor }) => {
  const { order, url, code } = await ride('Achieng Plain');
  const { page } = await newVisitor({ javaScriptEnabled: false, ...refusing });
  const answer = await page.goto(url);
  expect(await answer?.allHeaders()).toMatchObject({
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-store',
    'x-robots-tag': 'noindex, nofollow',
  });
  expect((await answer?.body())?.length).toBeLessThan(60_000);
  expect((await deliveryOf(order)).delivery_status).toBe('assigned');
  const card = job(page, order);
  await card.getByText('PAID').waitFor();
  await card.getByRole('listitem').filter({ hasText: /^1 × / }).waitFor();
  expect(await card.getByRole('link', { name: 'Call' }).getAttribute('href')).toMatch(/^tel:\+254/);
  expect(await card.getByRole('link', { name: 'Map' }).getAttribute('href')).toContain('Westlands');
  expect(await card.getByRole('button', { name: 'Delivered' }).count()).toBe(0);

  await card.getByRole('button', { name: 'Picked up' }).click();
  await card.getByRole('button', { name: 'On the way' }).waitFor();
  await card.getByLabel("Customer's code").fill(wrong(code));
  await card.getByRole('button', { name: 'Delivered' }).click();
  await page.getByText('wrong code. Ask the customer again: 4 tries left', { exact: false }).waitFor();
  await card.getByLabel("Customer's code").fill(code);
  await card.getByRole('button', { name: 'Delivered' }).click();
  await card.getByText('Delivered', { exact: true }).waitFor();
  await isStatus(order, 'delivered');
  expect(await page.content()).not.toContain('+254711030101');
  expect(shop.output()).not.toContain(url.slice(-24));
});

story('keeps what was pressed without a network, and sends it once and in order', async ({ newVisitor }) => {
  const { order, url, code } = await ride('Barasa Offline');
  const { page, context } = await newVisitor({ expectedFailures: /ERR_INTERNET_DISCONNECTED|\/ride\// });
  await page.goto(url);
  const card = job(page, order);
  await card.getByRole('button', { name: 'Picked up' }).waitFor();
  await expectAccessible(page, 'the page of a rider');
  const sizes = await page
    .locator('main button, main a, main summary')
    .evaluateAll((all) =>
      all.map((one) => one.getBoundingClientRect().height).filter((height) => height > 0),
    );
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(56);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(narrow.width);

  await context.setOffline(true);
  await card.getByRole('button', { name: 'Picked up' }).click();
  await card.getByText('pressed', { exact: false }).waitFor();
  await card.getByLabel("Customer's code").fill(code);
  await card.getByRole('button', { name: 'Delivered' }).click();
  await page.getByText('2 presses wait to be sent. Nothing is lost.', { exact: false }).waitFor();
  expect((await deliveryOf(order)).delivery_status).toBe('assigned');
  expect(await card.getByRole('button', { name: 'Delivered' }).count()).toBe(0);

  await context.setOffline(false);
  // The browser keeps them also while the page is closed.
  await page.reload();
  await isStatus(order, 'delivered');
  await card.getByText('Delivered', { exact: true }).waitFor();
  await until(async () => !(await page.locator('#line').isVisible()), 'nothing waits');
  expect(await stepsOf(order)).toEqual(['rider picked_up', 'rider delivered']);
});

story('an order that another rider gets disappears, with a word about it', async ({ newVisitor }) => {
  const { order, url } = await ride('Cherono Reassigned');
  const { page, context } = await newVisitor({ expectedFailures: /ERR_INTERNET_DISCONNECTED|\/ride\// });
  await page.goto(url);
  await job(page, order).getByRole('button', { name: 'Picked up' }).waitFor();
  // Pressed before the page knows.
  await context.setOffline(true);
  await job(page, order).getByRole('button', { name: 'Picked up' }).click();
  await page.getByText('1 press waits to be sent', { exact: false }).waitFor();
  await assign(order, await addRider('Kamau'));
  await context.setOffline(false);
  await page.getByText('This order is not on your list any more. Please call the shop.').first().waitFor();
  expect(await job(page, order).count()).toBe(0);
  expect(await page.content()).not.toContain('Cherono Reassigned');
  expect((await deliveryOf(order)).delivery_status).toBe('assigned');
});

story('a link that staff end shows nothing of a customer any more', async ({ newVisitor }) => {
  const { rider, order, url } = await ride('Daudi Revoked');
  const { page } = await newVisitor(refusing);
  await page.goto(url);
  await job(page, order).getByRole('button', { name: 'Picked up' }).waitFor();
  await call('revoke_rider_link', { rider_id: rider.id });
  await job(page, order).getByRole('button', { name: 'Picked up' }).click();
  await page.getByText('This link has ended. Ask the shop for a new one', { exact: false }).first().waitFor();
  await page.getByText('Not sent: ', { exact: false }).waitFor();
  expect(await page.getByRole('main').innerHTML()).not.toContain('Daudi');
  expect((await deliveryOf(order)).delivery_status).toBe('assigned');
  const answer = await page.goto(url);
  expect(answer?.status()).toBe(410);
  await page.getByRole('link', { name: 'Call the shop' }).waitFor();
  expect(await page.content()).not.toContain('Daudi');
});

story('the second device reads what the first one did', async ({ newVisitor }) => {
  const { order, url } = await ride('Esther Twice');
  const [first, second] = [await newVisitor(refusing), await newVisitor(refusing)];
  await first.page.goto(url);
  await second.page.goto(url);
  await job(first.page, order).getByRole('button', { name: 'Picked up' }).click();
  await isStatus(order, 'picked_up');
  await job(first.page, order).getByText('Could not deliver').click();
  await job(first.page, order).getByLabel('Phone not answered').check();
  await job(first.page, order).getByRole('button', { name: 'Bring it back to the shop' }).click();
  await isStatus(order, 'failed');
  await job(second.page, order).getByRole('button', { name: 'Picked up' }).click();
  await second.page
    .getByText('was set to “Could not deliver” (Phone not answered) before. Nothing was changed', {
      exact: false,
    })
    .waitFor();
  expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'failed', failure_reason: 'no_answer' });
});

inLongRun(everyStory)('after five wrong codes only staff finish the delivery', async ({ newVisitor }) => {
  const { order, url, code } = await ride('Fatuma Codes');
  const { page } = await newVisitor(refusing);
  await page.goto(url);
  const card = job(page, order);
  await card.getByRole('button', { name: 'Picked up' }).click();
  for (let tries = 1; tries <= 5; tries += 1) {
    await card.getByLabel("Customer's code").fill(wrong(code));
    await card.getByRole('button', { name: 'Delivered' }).click();
    await until(async () => (await deliveryOf(order)).wrong_codes === tries, `${tries} wrong codes`);
    await card.getByText('waits to be sent', { exact: false }).waitFor({ state: 'hidden' });
  }
  await card.getByText('Five wrong codes. Call the shop, which finishes this order.').waitFor();
  expect(await card.getByRole('button', { name: 'Delivered' }).count()).toBe(0);
  await call('finish_without_code', {
    delivery_id: (await deliveryOf(order)).id,
    reason: 'The customer said so',
  });
  await isStatus(order, 'delivered');
});

inLongRun(everyStory)(
  'the customer reads the code in the text and on the page of its link only',
  async ({ newVisitor }) => {
    const phone = `+2547${String(randomInt(100_000_000)).padStart(8, '0')}`;
    const { order, url, code } = await ride('Gathoni Code', phone);
    const rider = await newVisitor(refusing);
    await rider.page.goto(url);
    await job(rider.page, order).getByRole('button', { name: 'Picked up' }).click();
    await isStatus(order, 'picked_up');
    let text = '';
    await until(async () => {
      text =
        (await textsTo(shop.outbox, phone.slice(1))).find(({ kind }) => kind === 'order_on_its_way')?.text ??
        '';
      return text !== '';
    }, 'the text that it is on its way has left');
    expect(text).toContain(`Code for the rider: ${code}.`);
    const { page } = await newVisitor();
    const shown = page.getByText('Code for the rider');
    // The rider knows number and phone.
    await page.goto(`${shop.url}/track-order/${order.tracking_number}`);
    await page.getByLabel('Last four digits', { exact: false }).first().fill(phone.slice(-4));
    await page.getByRole('button', { name: 'Show details' }).click();
    await page.getByText('Gathoni Code').waitFor();
    expect(await shown.count()).toBe(0);
    await page.goto(/https?:\S+/.exec(text)?.[0] ?? '');
    await shown.waitFor();
    await page.getByText(code, { exact: true }).waitFor();
  },
);
