// The last mile on three phones: the customer orders and pays, staff assign, the rider brings it. Also what goes wrong on the way.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { delayResponses, desktop, phone, type Visitor } from '../../browser.ts';
import { changeOrder, type Order, placePaidOrder } from '../../placed-orders.ts';
import {
  addRider,
  assignTo,
  deliveryOf,
  giveJob,
  isDelivery,
  isStored,
  jobOn,
  newPhone,
  openLinkOf,
  type Rider,
  readRows,
  stepsOf,
  wrongCode,
} from '../../riders.ts';
import { atSizes } from '../../selection.ts';
import { amina, fillOrder, openOrderDialog, payButton, placeOrderButton } from '../../shopper.ts';
import { asOwner, callAsStaff, enterAsStaff, toast } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
/** A rider's phone: it opens the page without a network, and its console notes each refused press. */
const ofRider = {
  viewport: phone,
  allowServiceWorker: true,
  expectedFailures: /ERR_INTERNET_DISCONNECTED|ERR_FAILED|Failed to fetch|\/ride/,
};
const sheetOf = (page: Page) => page.locator('article[data-status]');
const byTime = /^Arrives by \d\d:\d\d/;

/** Orders a mango bottle to Kilimani, pays it with the simulator, and opens its page. */
async function buy(page: Page, name: string): Promise<Order> {
  await openOrderDialog(page, shop.url, 'mango-bottle');
  const dialog = page.getByRole('dialog');
  await fillOrder(page, {
    ...amina,
    name,
    phone: newPhone().slice(0, -4).concat('5577'),
    location: 'Yaya Centre',
  });
  await dialog.getByText('(from the address)').waitFor();
  await dialog.getByRole('button', { name: 'Change the area' }).click();
  await dialog.getByRole('button', { name: 'Kilimani' }).click();
  await dialog.getByText(byTime).first().waitFor();
  await placeOrderButton(page).click();
  await payButton(page).click();
  await dialog.getByRole('heading', { name: 'Payment received' }).waitFor();
  await dialog.getByText(byTime).waitFor();
  await dialog.getByRole('button', { name: 'Track Your Order' }).click();
  await sheetOf(page).getByText(byTime).waitFor();
  const number = new URL(page.url()).pathname.split('/').at(-1);
  const [order] = await readRows<Order>(shop, `orders?tracking_number=eq.${number}`);
  return order ?? expect.fail('no order');
}

/** Staff give the delivery of an order to a rider of the list. */
async function assignInPanel(staff: Page, order: Order, rider: Rider): Promise<void> {
  await staff.goto(`${shop.url}/admin/deliveries?search=${order.order_number}`);
  const { delivery_person } = await deliveryOf(shop, order);
  if (delivery_person === null) {
    await staff.getByRole('button', { name: `Assign ${order.order_number}` }).click();
  } else {
    await staff.getByRole('button', { name: `More for ${order.order_number}` }).click();
    await staff.getByRole('menuitem', { name: 'Edit assignment' }).click();
  }
  const dialog = staff.getByRole('dialog');
  await dialog.getByRole('button', { name: rider.name }).click();
  await dialog
    .getByRole('button', { name: delivery_person === null ? 'Assign Delivery' : 'Save Assignment' })
    .click();
  await toast(staff, /^Success/).waitFor();
}

async function typeCode(page: Page, order: Order, code: string): Promise<void> {
  const card = jobOn(page, order);
  await card.getByLabel("Customer's code").fill(code);
  await card.getByRole('button', { name: 'Delivered' }).click();
}

const waitsFor = (page: Page, presses: number) =>
  page
    .getByText(`No network. ${presses} ${presses === 1 ? 'press waits' : 'presses wait'} to be sent.`, {
      exact: false,
    })
    .waitFor();

describe.each(
  atSizes([
    ['on phones', phone],
    ['with a customer and staff at a desktop', desktop],
  ] as const),
)('%s', (_, viewport) => {
  story(
    'an order goes from its area to the rating, with a rider without a network and five wrong codes',
    async ({ newVisitor }) => {
      const name = `Njeri ${viewport.width}`;
      const { page: customer } = await newVisitor({ viewport });
      const order = await buy(customer, name);
      const rider = await addRider(shop, `Juma ${order.order_number} Mwangi`);
      const sheet = sheetOf(customer);

      const { page: staff } = await newVisitor({ viewport });
      await enterAsStaff(shop, staff, '/admin/riders');
      await staff.getByRole('button', { name: `Open link for ${rider.name}` }).click();
      const link = await staff
        .getByRole('dialog')
        .getByText(/\/ride\/[\w-]{24}$/)
        .textContent();
      await staff.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
      await assignInPanel(staff, order, rider);
      // Nobody has it yet.
      expect(await sheet.getByText('brings it').count()).toBe(0);

      const { page, context } = await newVisitor(ofRider);
      await page.goto(link ?? '');
      const card = jobOn(page, order);
      await card.getByRole('heading', { name }).waitFor();
      await card.getByText('PAID').waitFor();
      await card.getByText('Kilimani', { exact: true }).waitFor();
      await card.getByText(/^by \d\d:\d\d( tomorrow)?$/).waitFor();
      await isStored(page);
      await card.getByRole('button', { name: 'Picked up' }).click();
      await sheet.getByText('Juma brings it').waitFor();
      await sheet.getByText('KMDA 123B').waitFor();
      const { phone: number } = rider;
      expect(await sheet.getByRole('link', { name: 'Call Juma' }).getAttribute('href')).toBe(`tel:${number}`);
      expect(await sheet.getByRole('link', { name: 'WhatsApp Juma' }).getAttribute('href')).toContain(
        `https://wa.me/${number.slice(1)}?text=`,
      );
      await sheet.getByText('Code for the rider').waitFor();
      const { proof_code: code } = await deliveryOf(shop, order);
      await sheet.getByText(code, { exact: true }).waitFor();
      await expectAccessible(customer, 'an order with a rider and a code');

      await context.setOffline(true);
      await card.getByRole('button', { name: 'On the way' }).click();
      await waitsFor(page, 1);
      await page.reload();
      await card.getByText('On the way: pressed', { exact: false }).waitFor();
      await typeCode(page, order, wrongCode(code));
      await waitsFor(page, 2);
      expect((await deliveryOf(shop, order)).delivery_status).toBe('picked_up');
      await context.setOffline(false);
      await card.getByText('wrong code. Ask the customer again: 4 tries left.', { exact: false }).waitFor();
      expect(await stepsOf(shop, order)).toEqual(['rider picked_up', 'rider in_transit']);
      // The refusal is where the code is typed, and stays when the list is read again.
      await card.getByText('4 left to try').waitFor();
      expect(await card.getByLabel("Customer's code").inputValue()).toBe('');
      await expectAccessible(page, 'a wrong code');
      for (const left of [3, 2, 1]) {
        await typeCode(page, order, wrongCode(code));
        await card.getByText(`Ask the customer again: ${left} `, { exact: false }).waitFor();
      }
      await typeCode(page, order, wrongCode(code));
      await card.getByText('Five wrong codes. Call the shop, which finishes this order.').waitFor();
      expect(await card.getByRole('button', { name: 'Delivered' }).count()).toBe(0);

      await staff.goto(`${shop.url}/admin/orders/${order.id}`);
      const opened = staff.getByRole('dialog');
      await opened.getByText('Five wrong codes at the door').first().waitFor();
      await opened.getByRole('button', { name: 'Finish without the code' }).click();
      await opened.getByLabel('Reason').fill('The customer has the drinks, and read 1 as 7');
      await opened.getByRole('button', { name: 'Set to delivered' }).click();
      await toast(staff, 'Delivered, without the code').waitFor();
      await sheet.getByText(/^Delivered at \d\d:\d\d/).waitFor();
      await page.getByText(`${order.order_number} is set to “Delivered” now.`).waitFor();
      await card.getByRole('heading', { name: 'Njeri', exact: true }).waitFor();
      expect(await page.content()).not.toContain('Yaya Centre');

      await sheet.getByRole('button', { name: '5 of 5: Very good' }).click();
      await sheet.getByText('Asante! Our team reads it.', { exact: false }).waitFor();
      await staff.reload();
      await opened.getByText('5 of 5').waitFor();
      expect(await deliveryOf(shop, order)).toMatchObject({
        delivery_status: 'delivered',
        proven_by: 'staff',
      });
      expect(await stepsOf(shop, order)).toEqual(['rider picked_up', 'rider in_transit', 'staff delivered']);
    },
  );
});

story(
  'a delivery changes its rider on the way: the customer reads the new one, and presses of the first are refused',
  async ({ newVisitor }) => {
    const first = await addRider(shop, 'Ochieng First');
    const second = await addRider(shop, 'Kamau Second');
    const { page: customer } = await newVisitor({ viewport: phone });
    const order = await buy(customer, 'Halima Moves');
    await assignTo(shop, order, first);
    const [one, other] = [await newVisitor(ofRider), await newVisitor(ofRider)];
    await one.page.goto(await openLinkOf(shop, first));
    await other.page.goto(await openLinkOf(shop, second));
    await jobOn(one.page, order).getByRole('button', { name: 'Picked up' }).click();
    await sheetOf(customer).getByText('Ochieng brings it').waitFor();
    await isStored(one.page);
    const { proof_code: code } = await deliveryOf(shop, order);
    await one.context.setOffline(true);
    await jobOn(one.page, order).getByRole('button', { name: 'On the way' }).click();
    await typeCode(one.page, order, code);
    await waitsFor(one.page, 2);

    const { page: staff } = await newVisitor({ viewport: phone });
    await enterAsStaff(shop, staff);
    await assignInPanel(staff, order, second);
    await sheetOf(customer).getByText('Kamau brings it').waitFor();
    await one.context.setOffline(false);
    await one.page
      .getByText(`${order.order_number} Delivered: This order is not on your list any more.`, {
        exact: false,
      })
      .waitFor();
    expect(await jobOn(one.page, order).count()).toBe(0);
    expect(await one.page.content()).not.toContain('Halima Moves');
    expect(await deliveryOf(shop, order)).toMatchObject({ delivery_status: 'picked_up', wrong_codes: 0 });

    await jobOn(other.page, order).getByRole('button', { name: 'On the way' }).click();
    await typeCode(other.page, order, code);
    await jobOn(other.page, order).getByText('Delivered', { exact: true }).waitFor();
    expect(await deliveryOf(shop, order)).toMatchObject({ delivery_person: second.name, proven_by: 'code' });
  },
);

story(
  "the start prints links to practise with: the customer's phone and the rider",
  async ({ newVisitor }) => {
    const links = () => /Simulated payments: +(\S+) .*\n +Practice rider: +(\S+) /.exec(shop.output());
    await until(async () => links() !== null, 'both links stand side by side');
    const [, phoneLink = '', riderLink = ''] = links() ?? [];
    const [rider] = await readRows<Rider>(shop, 'riders?name=eq.Practice rider');
    const order = await placePaidOrder(shop, 'Practice Customer', newPhone());
    await assignTo(shop, order, rider ?? expect.fail('there is no practice rider'));
    const { page } = await newVisitor(ofRider);
    await page.goto(riderLink);
    await jobOn(page, order).getByRole('heading', { name: 'Practice Customer' }).waitFor();
    const { page: phonePage } = await newVisitor({ viewport: phone });
    await phonePage.goto(phoneLink);
    await phonePage.getByRole('heading', { level: 1 }).waitFor();
  },
);

story(
  'money that goes back on the way ends the delivery on the page of its rider and of its customer',
  async ({ newVisitor }) => {
    const rider = await addRider(shop, 'Ngugi Refund');
    const { page: customer } = await newVisitor({ viewport: phone });
    const order = await buy(customer, 'Zawadi Refund');
    await assignTo(shop, order, rider);
    const { page } = await newVisitor(ofRider);
    await page.goto(await openLinkOf(shop, rider));
    const card = jobOn(page, order);
    await card.getByRole('button', { name: 'Picked up' }).click();
    await sheetOf(customer).getByText('Ngugi brings it').waitFor();
    expect(await customer.getByText('Cancel this order').count()).toBe(0);

    await changeOrder(shop, order.id, { status: 'cancelled' });
    // Pressed before the page has read it.
    await card.getByRole('button', { name: 'On the way' }).click();
    await page
      .getByText(`${order.order_number} was cancelled. If you have it, bring it back to the shop.`)
      .waitFor();
    await card.getByText('Cancelled', { exact: true }).waitFor();
    expect(await page.content()).not.toContain('Zawadi Refund');
    await sheetOf(customer).getByText('Ngugi brings it').waitFor({ state: 'hidden' });
    const [paid] = await readRows<{ id: string }>(
      shop,
      `payments?order_id=eq.${order.id}&status=eq.completed`,
    );
    await callAsStaff(shop, 'request_refund', { payment_id: paid?.id, reason: 'The bottle is broken' });
    await sheetOf(customer)
      .getByRole('heading', { name: /refunded|sent back/i })
      .waitFor();
    expect(await stepsOf(shop, order)).not.toContain('rider in_transit');
  },
);

story(
  'a customer asks to cancel while the rider picks up: the rider is asked to call, and goes on after the answer',
  async ({ newVisitor }) => {
    const rider = await addRider(shop, 'Mutua Asked');
    const { page: customer } = await newVisitor({ viewport: phone });
    const order = await buy(customer, 'Wambui Asks');
    await assignTo(shop, order, rider);
    const { page, context } = await newVisitor(ofRider);
    await page.goto(await openLinkOf(shop, rider));
    const card = jobOn(page, order);
    await card.getByRole('button', { name: 'Picked up' }).waitFor();
    await context.setOffline(true);
    await card.getByRole('button', { name: 'Picked up' }).click();
    await waitsFor(page, 1);

    await customer.getByText('Cancel this order').click();
    await customer.getByRole('button', { name: 'Yes, ask to cancel it' }).dblclick();
    await customer.getByRole('heading', { name: 'You asked to cancel this order' }).waitFor();
    await context.setOffline(false);
    await card
      .getByText(`The customer asked to cancel ${order.order_number}. Please call the shop first.`)
      .waitFor();
    expect((await deliveryOf(shop, order)).delivery_status).toBe('assigned');

    const { page: staff } = await newVisitor({ viewport: phone });
    await enterAsStaff(shop, staff, `/admin/orders/${order.id}`);
    await staff.getByRole('button', { name: `Don't cancel ${order.order_number}` }).click();
    await staff.getByLabel('Reason').fill('It is on the motorbike');
    await staff.getByRole('button', { name: "Don't cancel it" }).click();
    await customer.getByText('“It is on the motorbike”').waitFor();
    await card.getByRole('button', { name: 'Picked up' }).click();
    await isDelivery(shop, order, 'picked_up');
    await card.getByText('asked to cancel', { exact: false }).waitFor({ state: 'hidden' });
    expect(
      await readRows(shop, `order_events?order_id=eq.${order.id}&kind=eq.cancel_requested`),
    ).toHaveLength(1);
  },
);

story(
  'two devices of a rider press at the same time: one thing happens, and both say which',
  async ({ newVisitor }) => {
    const { order, url, code } = await giveJob(shop, 'Kerubo Twice');
    const devices = [await newVisitor(ofRider), await newVisitor(ofRider)] as [Visitor, Visitor];
    const press = (label: string) =>
      Promise.all(devices.map(({ page }) => jobOn(page, order).getByRole('button', { name: label }).click()));
    await Promise.all(devices.map(({ page }) => page.goto(url)));
    await press('Picked up');
    await isDelivery(shop, order, 'picked_up');
    expect(await stepsOf(shop, order)).toEqual(['rider picked_up']);
    // One ends it with the code, the other one says that it could not be delivered.
    const [{ page: one }, { page: other }] = devices;
    await jobOn(one, order).getByText('At the door', { exact: true }).click();
    await jobOn(one, order).getByLabel("Customer's code").fill(code);
    await jobOn(other, order).getByText('Could not deliver').click();
    await jobOn(other, order).getByLabel('Address not found').check();
    await Promise.all([
      jobOn(one, order).getByRole('button', { name: 'Delivered' }).click(),
      jobOn(other, order).getByRole('button', { name: 'Bring it back to the shop' }).click(),
    ]);
    await until(
      async () => ['delivered', 'failed'].includes((await deliveryOf(shop, order)).delivery_status),
      'the delivery has ended',
    );
    const { delivery_status } = await deliveryOf(shop, order);
    const label = delivery_status === 'delivered' ? 'Delivered' : 'Could not deliver';
    const [first, second] = delivery_status === 'delivered' ? [one, other] : [other, one];
    await first.getByText(`${order.order_number}: ${label}.`).first().waitFor();
    await second
      .getByText(
        new RegExp(
          `was set to “${label}”.* before\\. Nothing was changed\\. Call the shop if that is wrong\\.`,
        ),
      )
      .first()
      .waitFor();
    for (const { page } of devices) await jobOn(page, order).getByText(label, { exact: true }).waitFor();
    expect(await stepsOf(shop, order)).toHaveLength(2);
  },
);

story('double taps, a second tab, a slow network and Back do nothing twice', async ({ newVisitor }) => {
  const { order, url, code } = await giveJob(shop, 'Mercy Twice');
  const { page, context } = await newVisitor(ofRider);
  await page.goto(url);
  const second = await context.newPage();
  await second.goto(url);
  await isStored(page);
  // Both tabs send what was pressed: neither may be through before the other shows it.
  const slow = await delayResponses(context, /\/ride\//);
  await jobOn(page, order).getByRole('button', { name: 'Picked up' }).dblclick();
  // The other tab shows it, too.
  await jobOn(second, order).getByText('Picked up: pressed', { exact: false }).waitFor();
  expect(await jobOn(page, order).getByRole('button', { name: 'Picked up' }).count()).toBe(0);
  await expect.poll(() => slow.requested).not.toEqual([]);
  slow.release();
  await jobOn(page, order).getByRole('button', { name: 'On the way' }).waitFor();
  await isDelivery(shop, order, 'picked_up');
  await page.goto('about:blank');
  await page.goBack();
  await jobOn(page, order).getByRole('button', { name: 'On the way' }).dblclick();
  await isDelivery(shop, order, 'in_transit');

  // Without scripts a reload posts the form again.
  const { page: plain } = await newVisitor({
    ...ofRider,
    allowServiceWorker: false,
    javaScriptEnabled: false,
  });
  await plain.goto(url);
  await jobOn(plain, order).getByLabel("Customer's code").fill(wrongCode(code));
  await jobOn(plain, order).getByRole('button', { name: 'Delivered' }).click();
  await jobOn(plain, order).getByText('4 tries left', { exact: false }).waitFor();
  await plain.reload();
  await jobOn(plain, order).getByText('4 tries left', { exact: false }).waitFor();
  expect((await deliveryOf(shop, order)).wrong_codes).toBe(1);
  await plain.goto(url);
  await typeCode(plain, order, code);
  await jobOn(plain, order).getByText('Delivered', { exact: true }).waitFor();
  await plain.goBack();
  await jobOn(plain, order).getByText('Delivered', { exact: true }).waitFor();
  expect(await stepsOf(shop, order)).toEqual(['rider picked_up', 'rider in_transit', 'rider delivered']);
});

story(
  'a shift that ends without a network ends the page by itself, and keeps what was pressed',
  async ({ newVisitor }) => {
    const { rider, order, url } = await giveJob(shop, 'Otieno Shift');
    const endsIn = (seconds: number) =>
      asOwner(shop, `/rest/v1/rider_links?rider_id=eq.${rider.id}&revoked_at=is.null`, 'PATCH', {
        expires_at: new Date(Date.now() + seconds * 1000).toISOString(),
      });
    const { page, context } = await newVisitor(ofRider);
    await page.goto(url);
    await isStored(page);
    await endsIn(10);
    await page.reload();
    await isStored(page);
    await context.setOffline(true);
    await jobOn(page, order).getByRole('button', { name: 'Picked up' }).click();
    await waitsFor(page, 1);
    await page.getByText('This link has ended. Ask the shop for a new one.').waitFor();
    await page.getByText(`Not sent yet: ${order.order_number} Picked up`, { exact: false }).waitFor();
    expect(await page.content()).not.toContain('Otieno Shift');
    await page.reload();
    await page.getByRole('heading', { name: 'No network' }).waitFor();
    await context.setOffline(false);
    // The page ends up to a second before the link.
    await until(async () => (await fetch(url)).status === 410, 'the link has ended');
    expect((await page.goto(url))?.status()).toBe(410);
    await page.goto(await openLinkOf(shop, rider));
    await isDelivery(shop, order, 'picked_up');
  },
);
