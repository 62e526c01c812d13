// The time of arrival from the order form to the door, the rider on the way, and the rating of the delivery.
import { describe, expect, onTestFinished } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone } from '../../browser.ts';
import { textsTo } from '../../mailbox.ts';
import { placePaidOrder } from '../../placed-orders.ts';
import { phoneFirst } from '../../selection.ts';
import { amina, fillOrder, openOrderDialog, payButton, placeOrderButton } from '../../shopper.ts';
import { asOwner, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
const change = (rows: string, columns: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/${rows}`, 'PATCH', columns);
const readFirst = async <Row>(rows: string): Promise<Row> =>
  ((await (await asOwner(shop, `/rest/v1/${rows}`, 'GET')).json()) as Row[])[0] as Row;
const byTime = /Arrives by \d\d:\d\d/;

describe.each(phoneFirst)('%s', (_, viewport) => {
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
    const { id, order_number } = await readFirst<{ id: string; order_number: string }>(
      `orders?tracking_number=eq.${number}&select=id,order_number`,
    );
    // The home page shows the words of the other size, too.
    const words = `Cold and fast, ${order_number}`;
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
    await order.getByLabel(/^Anything to add/).fill(words);
    await order.getByLabel(/^You may show my words/).check();
    await order.getByRole('button', { name: 'Save' }).click();
    await expect
      .poll(() => readFirst(`ratings?order_id=eq.${id}&select=stars,words,may_quote`))
      .toEqual({ stars: 4, words, may_quote: true });
    await expectAccessible(page, 'a rated order');

    const { page: staff } = await newVisitor({ viewport });
    await enterAsStaff(shop, staff, `/admin/orders/${id}`);
    await staff.getByRole('dialog').getByText(words).waitFor();

    // Words that the customer lets the shop show, and staff choose, are on the home page.
    const { page: home } = await newVisitor({ viewport });
    const quote = home
      .getByRole('region', { name: 'What customers say' })
      .getByRole('listitem')
      .filter({ hasText: words });
    await home.goto(shop.url);
    await home.getByRole('heading', { name: 'Premium Flavors Collection' }).waitFor();
    expect(await quote.count()).toBe(0);
    await staff.goto(`${shop.url}/admin/settings/quotes`);
    const line = staff.getByRole('listitem', { name: order_number });
    await line.getByRole('button', { name: /^Show: / }).click();
    await line.getByText('On the home page', { exact: true }).waitFor();
    await expectAccessible(staff, 'the words of customers');
    await expect
      .poll(async () => {
        await home.reload();
        return quote.count();
      })
      .toBe(1);
    await quote.getByText(/^Amina, /).waitFor();
    await expectAccessible(home, 'the home page with words of customers');
    await line.getByRole('button', { name: /^Take off: / }).click();
    await line.getByRole('button', { name: /^Show: / }).waitFor();
    await expect
      .poll(async () => {
        await home.reload();
        return quote.count();
      })
      .toBe(0);
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
      .getByText(/^Opens at \d\d:\d\d.*, arrives by \d\d:\d\d.*Next, you'll pay with M-PESA\.$/)
      .first()
      .waitFor();
    // Also beside the area, in place of its minutes.
    await fillOrder(page, { ...amina, location: 'Sarit Centre' });
    await dialogOf(page)
      .getByText(/^KSh 1\.00\. Opens at \d\d:\d\d.*, arrives by \d\d:\d\d/)
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

story(
  'a late order rises on Today, and its customer gets one message with a new time, also on the open page',
  async ({ newVisitor }) => {
    const number = '0724005588';
    const order = await placePaidOrder(shop, 'Zawadi Late', number);
    const due = (minutes: number) =>
      change(`orders?id=eq.${order.id}`, {
        promised_at: new Date(Date.now() + minutes * 60_000).toISOString(),
      });
    await due(30);
    const answer = await asOwner(shop, '/rest/v1/rpc/track_order', 'POST', {
      tracking_number: order.tracking_number,
      phone_last_four: number.slice(-4),
    });
    const { access_key } = (await answer.json()) as { access_key: string };
    const { page } = await newVisitor({ viewport: phone });
    await page.goto(`${shop.url}/track-order/${order.tracking_number}?key=${access_key}`);
    const sheet = page.locator('article[data-status]');
    await sheet.getByText(byTime).first().waitFor();
    const { page: staff } = await newVisitor({ viewport: desktop });
    await enterAsStaff(shop, staff, '/admin/today');
    const attention = staff.getByRole('region', { name: /^Needs attention/ });
    const card = attention.getByRole('listitem').filter({ hasText: order.order_number });
    await staff.getByRole('link', { name: order.order_number }).waitFor();
    expect(await card.count()).toBe(0);

    await due(-2);
    await card.getByText(/ min late$/).waitFor();
    const delayed = async () =>
      (await textsTo(shop.outbox, `254${number.slice(1)}`)).filter(({ kind }) => kind === 'order_delayed');
    await until(async () => (await delayed()).length > 0, 'the customer has a text about the delay');
    const [{ text } = expect.fail()] = await delayed();
    const time = / It arrives by (\d\d:\d\d( tomorrow)?)\./.exec(text)?.[1];
    expect(text).toContain(order.tracking_number);
    await sheet.getByText(`Arrives by ${time}`, { exact: true }).waitFor();
    await sheet.getByText(/^Sorry, it takes longer than we promised \(/).waitFor();
    await card.waitFor();
    // Another message after the first one: the job that sends it has seen the late order again by then.
    await change(`deliveries?order_id=eq.${order.id}`, {
      delivery_person: 'Brian Otieno',
      delivery_phone: '0711 000 001',
      delivery_vehicle: 'KMEH 123A',
      delivery_status: 'picked_up',
    });
    await until(
      async () =>
        (await textsTo(shop.outbox, `254${number.slice(1)}`)).some(({ kind }) => kind === 'order_on_its_way'),
      'the customer has the next text',
    );
    expect(await delayed()).toHaveLength(1);
  },
);
