// The page of a rider on a phone: without scripts, without a network, on two devices, and after staff took something away.
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { textsTo } from '../../mailbox.ts';
import {
  addRider,
  assignTo,
  call,
  deliveryOf,
  giveJob,
  isDelivery,
  isStored,
  jobOn,
  newPhone,
  openLinkOf,
  readRows,
  stepsOf,
  wrongCode,
} from '../../riders.ts';
import { inLongRun } from '../../selection.ts';
import { asOwner } from '../../staff-member.ts';
import { story as everyStory, openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const narrow = { width: 320, height: 640 };
const story = storyWith({ viewport: narrow });
/** Refused presses and ended links answer with a status of 400 and more, which the console notes. */
const refusing = { expectedFailures: /\/ride\// };
const offline = {
  allowServiceWorker: true,
  expectedFailures: /ERR_INTERNET_DISCONNECTED|ERR_FAILED|Failed to fetch|\/ride/,
};

story('works without scripts, and says what is wrong', async ({ newVisitor }) => {
  const { order, url, code } = await giveJob(shop, 'Achieng Plain');
  const { page } = await newVisitor({ javaScriptEnabled: false, ...refusing });
  const answer = await page.goto(url);
  expect(await answer?.allHeaders()).toMatchObject({
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-store',
    'x-robots-tag': 'noindex, nofollow',
  });
  expect((await answer?.body())?.length).toBeLessThan(60_000);
  expect((await deliveryOf(shop, order)).delivery_status).toBe('assigned');
  const card = jobOn(page, order);
  await card.getByText('PAID').waitFor();
  await card.getByRole('listitem').filter({ hasText: /^1 × / }).waitFor();
  expect(await card.getByRole('link', { name: 'Call' }).getAttribute('href')).toMatch(/^tel:\+254/);
  expect(await card.getByRole('link', { name: 'Map' }).getAttribute('href')).toContain('Westlands');
  expect(await card.getByRole('button', { name: 'Delivered' }).count()).toBe(0);

  await card.getByRole('button', { name: 'Picked up' }).click();
  await card.getByRole('button', { name: 'On the way' }).waitFor();
  await card.getByText('At the door', { exact: true }).click();
  await card.getByLabel("Customer's code").fill(wrongCode(code));
  await card.getByRole('button', { name: 'Delivered' }).click();
  await card.getByText('wrong code. Ask the customer again: 4 tries left', { exact: false }).waitFor();
  expect(new URL(page.url()).hash).toBe(`#job-${(await deliveryOf(shop, order)).id}`);
  await card.getByLabel("Customer's code").fill(code);
  await card.getByRole('button', { name: 'Delivered' }).click();
  await card.getByText('Delivered', { exact: true }).waitFor();
  await isDelivery(shop, order, 'delivered');
  expect(await page.content()).not.toContain('+254711030101');
  expect(shop.output()).not.toContain(url.slice(-24));
});

story(
  'keeps list and presses without a network, and sends them once and in order',
  async ({ newVisitor }) => {
    const { order, url, code } = await giveJob(shop, 'Barasa Offline');
    const { page, context } = await newVisitor(offline);
    await page.goto(url);
    const card = jobOn(page, order);
    await card.getByRole('button', { name: 'Picked up' }).waitFor();
    await expectAccessible(page, 'the page of a rider');
    const sizes = await page
      .locator('main button, main a, main summary')
      .evaluateAll((all) =>
        all.map((one) => one.getBoundingClientRect().height).filter((height) => height > 0),
      );
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(56);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(narrow.width);
    await isStored(page);

    await context.setOffline(true);
    await card.getByRole('button', { name: 'Picked up' }).click();
    await card.getByText('pressed', { exact: false }).waitFor();
    await page.getByText('1 press waits to be sent. Nothing is lost.', { exact: false }).waitFor();
    // The phone closes the page, and opens it again where there is still no network.
    await page.reload();
    await card.getByText('Barasa Offline').waitFor();
    await card.getByText('Picked up: pressed', { exact: false }).waitFor();
    expect(await card.getByRole('button', { name: 'Picked up' }).count()).toBe(0);
    await card.getByText('At the door', { exact: true }).click();
    await card.getByLabel("Customer's code").fill(code);
    await card.getByRole('button', { name: 'Delivered' }).click();
    await page.getByText('No network. 2 presses wait to be sent. Nothing is lost.').waitFor();
    expect((await deliveryOf(shop, order)).delivery_status).toBe('assigned');
    expect(await card.getByRole('button', { name: 'Delivered' }).count()).toBe(0);
    await expectAccessible(page, 'the page of a rider without a network');

    // Both were pressed long ago: the first counts from the assignment at the earliest.
    await page.evaluate(() => {
      for (const name of Object.keys(localStorage).filter((key) => key.startsWith('ride-'))) {
        const list = JSON.parse(localStorage.getItem(name) ?? '[]') as { at: number }[];
        localStorage.setItem(
          name,
          JSON.stringify(list.map((press) => ({ ...press, at: press.at - 600_000 }))),
        );
      }
    });
    await context.setOffline(false);
    await isDelivery(shop, order, 'delivered');
    await card.getByText('Delivered', { exact: true }).waitFor();
    await until(async () => !(await page.locator('#line').isVisible()), 'nothing waits');
    expect(await stepsOf(shop, order)).toEqual(['rider picked_up', 'rider delivered']);
    const [assigned] = await readRows<{ happened_at: string }>(
      shop,
      `order_events?order_id=eq.${order.id}&kind=eq.delivery_assigned`,
    );
    expect((await deliveryOf(shop, order)).pickup_time).toBe(assigned?.happened_at);
    // The stored page is as new as the shown one.
    await until(
      () =>
        page.evaluate(
          async () => !(await (await caches.match(location.pathname))?.text())?.includes('Barasa Offline'),
        ),
      'the customer is forgotten',
    );
  },
);

story(
  'no press is lost where the storage is full and a network answers with its own sign-in page',
  async ({ newVisitor }) => {
    const { order, url } = await giveJob(shop, 'Baraka Captive');
    const { page } = await newVisitor();
    await page.addInitScript(() => {
      Storage.prototype.setItem = () => {
        throw new DOMException('The quota has been exceeded', 'QuotaExceededError');
      };
    });
    await page.goto(url);
    const card = jobOn(page, order);
    let isCaptive = true;
    await page.route('**/ride/*', (route) =>
      isCaptive
        ? route.fulfill({ contentType: 'text/html', body: '<title>Sign in</title><main>Free Wi-Fi</main>' })
        : route.continue(),
    );
    await card.getByRole('button', { name: 'Picked up' }).click();
    await page.getByText('No network. 1 press waits to be sent. Nothing is lost.').waitFor();
    await card.getByText('Picked up: pressed', { exact: false }).waitFor();
    expect((await deliveryOf(shop, order)).delivery_status).toBe('assigned');
    isCaptive = false;
    await isDelivery(shop, order, 'picked_up');
    await card.getByRole('button', { name: 'On the way' }).waitFor();
    await until(async () => !(await page.locator('#line').isVisible()), 'nothing waits');
    expect(await stepsOf(shop, order)).toEqual(['rider picked_up']);
  },
);

story(
  'a job that another rider gets disappears, with a word about it, and the other one delivers it',
  async ({ newVisitor }) => {
    await asOwner(shop, '/rest/v1/message_templates?kind=eq.job_for_rider', 'PATCH', { is_on: true });
    const { order, url, code } = await giveJob(shop, 'Cherono Reassigned');
    const kamau = await addRider(shop, 'Kamau');
    const [first, second] = [await newVisitor(offline), await newVisitor(refusing)];
    await first.page.goto(url);
    await second.page.goto(await openLinkOf(shop, kamau));
    await second.page.getByText('No deliveries at the moment').waitFor();
    await jobOn(first.page, order).getByRole('button', { name: 'Picked up' }).click();
    await isDelivery(shop, order, 'picked_up');
    await jobOn(first.page, order).getByRole('button', { name: 'On the way' }).waitFor();
    await isStored(first.page);
    // Pressed before the page knows.
    await first.context.setOffline(true);
    await jobOn(first.page, order).getByRole('button', { name: 'On the way' }).click();
    await first.page.getByText('1 press waits to be sent', { exact: false }).waitFor();
    await assignTo(shop, order, kamau);
    await first.context.setOffline(false);
    await first.page
      .getByText('This order is not on your list any more. Please call the shop.')
      .first()
      .waitFor();
    expect(await jobOn(first.page, order).count()).toBe(0);
    expect(await first.page.content()).not.toContain('Cherono Reassigned');

    await second.page.getByRole('heading', { name: 'Cherono Reassigned' }).waitFor();
    let text: string | undefined;
    await until(async () => {
      [text] = (await textsTo(shop.outbox, kamau.phone.replace(/^\+/, '')))
        .filter(({ kind }) => kind === 'job_for_rider')
        .map((sent) => sent.text);
      return text !== undefined;
    }, 'the second rider has the text');
    expect(text).toContain(order.order_number);
    const card = jobOn(second.page, order);
    await card.getByRole('button', { name: 'Picked up' }).click();
    await card.getByRole('button', { name: 'On the way' }).click();
    await card.getByLabel("Customer's code").fill(code);
    await card.getByRole('button', { name: 'Delivered' }).click();
    await isDelivery(shop, order, 'delivered');
    expect((await deliveryOf(shop, order)).delivery_person).toBe('Kamau');
  },
);

story(
  'a link that staff end shows and stores nothing of a customer; the next one sends what waits',
  async ({ newVisitor }) => {
    const { rider, order, url } = await giveJob(shop, 'Daudi Revoked');
    const { page, context } = await newVisitor(offline);
    await page.goto(url);
    await jobOn(page, order).getByRole('button', { name: 'Picked up' }).waitFor();
    await isStored(page);
    await call(shop, 'revoke_rider_link', { rider_id: rider.id });
    await jobOn(page, order).getByRole('button', { name: 'Picked up' }).click();
    await page
      .getByText('This link has ended. Ask the shop for a new one', { exact: false })
      .first()
      .waitFor();
    await page.getByText(`Not sent yet: ${order.order_number} Picked up`, { exact: false }).waitFor();
    expect(await page.getByRole('main').innerHTML()).not.toContain('Daudi');
    expect((await deliveryOf(shop, order)).delivery_status).toBe('assigned');
    await until(
      () => page.evaluate(async () => (await (await caches.open('ride-1')).keys()).length === 0),
      'nothing is stored',
    );
    await context.setOffline(true);
    await page.reload();
    await page.getByRole('heading', { name: 'No network' }).waitFor();
    expect(await page.content()).not.toContain('Daudi');
    await context.setOffline(false);
    const answer = await page.goto(url);
    expect(answer?.status()).toBe(410);
    await page.getByRole('link', { name: 'Call the shop' }).waitFor();
    expect(await page.content()).not.toContain('Daudi');
    await page.goto(await openLinkOf(shop, rider));
    await isDelivery(shop, order, 'picked_up');
    await jobOn(page, order).getByRole('button', { name: 'On the way' }).waitFor();
  },
);

story('programs that look at links change nothing', async ({ newVisitor }) => {
  const { rider, order, url } = await giveJob(shop, 'Ekai Scanned');
  const read = async () => ({
    delivery: await deliveryOf(shop, order),
    riders: await readRows(shop, `riders?id=eq.${rider.id}`),
    events: await readRows(shop, `order_events?order_id=eq.${order.id}`),
  });
  const before = await read();
  for (const [method, headers] of [
    ['GET', {}],
    ['HEAD', {}],
    ['GET', { purpose: 'prefetch', 'sec-purpose': 'prefetch' }],
    ['GET', { 'user-agent': 'WhatsApp/2.23.20.0' }],
    ['OPTIONS', {}],
  ] as [string, Record<string, string>][])
    await (await fetch(`${url}?step=picked_up`, { method, headers })).text();
  // Some run scripts.
  const { page } = await newVisitor(offline);
  await page.goto(url);
  await jobOn(page, order).waitFor();
  await isStored(page);
  expect(await read()).toEqual(before);
});

story('the second device reads what the first one did', async ({ newVisitor }) => {
  const { order, url } = await giveJob(shop, 'Esther Twice');
  const [first, second] = [await newVisitor(refusing), await newVisitor(refusing)];
  await first.page.goto(url);
  await second.page.goto(url);
  await jobOn(first.page, order).getByRole('button', { name: 'Picked up' }).click();
  await isDelivery(shop, order, 'picked_up');
  await jobOn(first.page, order).getByText('Could not deliver').click();
  await jobOn(first.page, order).getByLabel('Phone not answered').check();
  await jobOn(first.page, order).getByRole('button', { name: 'Bring it back to the shop' }).click();
  await isDelivery(shop, order, 'failed');
  await jobOn(second.page, order).getByRole('button', { name: 'Picked up' }).click();
  await second.page
    .getByText('was set to “Could not deliver” (Phone not answered) before. Nothing was changed', {
      exact: false,
    })
    .waitFor();
  expect(await deliveryOf(shop, order)).toMatchObject({
    delivery_status: 'failed',
    failure_reason: 'no_answer',
  });
});

inLongRun(everyStory)(
  'the customer reads the code in the text and on the page of its link only',
  async ({ newVisitor }) => {
    const phone = `+254${newPhone().slice(1)}`;
    const { order, url, code } = await giveJob(shop, 'Gathoni Code', phone);
    const rider = await newVisitor(refusing);
    await rider.page.goto(url);
    await jobOn(rider.page, order).getByRole('button', { name: 'Picked up' }).click();
    await isDelivery(shop, order, 'picked_up');
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
