// A customer cancels an order on the tracking page: unpaid, paid, and without JavaScript.
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForHydration } from '../../browser.ts';
import { placeOrder, readOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner } from '../../staff-member.ts';
import { story as everyStory, openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ expectedFailures: /409 \(/ });

const keyOf = async ({ id }: { id: string }) => {
  const link = (await (
    await asOwner(shop, '/rest/v1/rpc/show_pay_link', 'POST', { order_id: id })
  ).json()) as {
    access_key: string;
  };
  return link.access_key;
};
const linkOf = (number: string, key: string) => `${shop.url}/track-order/${number}?key=${key}`;
const sizes = atSizes([
  ['on a phone', phone],
  ['at a desktop', desktop],
] as const);

story.for(sizes)('an unpaid order ends after one question %s', async ([where, viewport], { newVisitor }) => {
  const order = await placeOrder(shop, 'Amina Cancels', '0711009101');
  const { page } = await newVisitor({ viewport });
  await page.goto(linkOf(order.tracking_number, await keyOf(order)));
  await waitForHydration(page);
  await page.getByText('Cancel this order').click();
  await page.getByText(`Do you want to cancel order ${order.tracking_number}?`).waitFor();
  await expectAccessible(page, `the question whether to cancel ${where}`);
  await page.getByRole('button', { name: 'Yes, cancel my order' }).click();
  await page.getByText('You cancelled this order before it was paid.').waitFor();
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('payment');
  expect(await page.getByText('Cancel this order').count()).toBe(0);
  await expectAccessible(page, `a cancelled order ${where}`);
  expect(await readOrder(shop, order.id)).toMatchObject({
    status: 'cancelled',
    cancel_reason: 'by_customer',
  });
});

story(
  'a paid order is asked about, kept, and asked about again; staff decline with a reason',
  async ({ newVisitor }) => {
    const order = await placeOrder(shop, 'Brian Asks', '0711009102');
    const key = await keyOf(order);
    await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', {
      payment_status: 'paid',
      payment_method: 'mpesa',
      status: 'processing',
      reserved_until: null,
    });
    await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: order.id });
    const { page } = await newVisitor({ viewport: phone });
    await page.goto(linkOf(order.tracking_number, key));
    await waitForHydration(page);
    await page.getByText('Cancel this order').click();
    await page.getByRole('button', { name: 'Yes, ask to cancel it' }).click();
    await page.getByRole('heading', { name: 'You asked to cancel this order' }).waitFor();
    await expectAccessible(page, 'a request to cancel');
    await page.getByRole('button', { name: 'Keep my order after all' }).click();
    await page.getByRole('heading', { name: 'Paid with M-PESA' }).waitFor();
    await page.getByText('Cancel this order').click();
    await page.getByRole('button', { name: 'Yes, ask to cancel it' }).click();
    await page.getByRole('heading', { name: 'You asked to cancel this order' }).waitFor();
    await asOwner(shop, '/rest/v1/rpc/decline_cancel_request', 'POST', {
      order_id: order.id,
      reason: 'It is on the motorbike',
    });
    // The answer arrives by itself.
    await page.getByText('“It is on the motorbike”').waitFor();
    expect(await page.getByText('Cancel this order').count()).toBe(0);
  },
);

story(
  'a payment that arrived in the meantime is shown before anything is cancelled',
  async ({ newVisitor }) => {
    const order = await placeOrder(shop, 'Wanjiku Is Late', '0711009103');
    const { page } = await newVisitor({ viewport: phone, javaScriptEnabled: false });
    await page.goto(linkOf(order.tracking_number, await keyOf(order)));
    await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', {
      payment_status: 'paid',
      status: 'processing',
      reserved_until: null,
    });
    await page.getByText('Cancel this order').click();
    await page.getByRole('button', { name: 'Yes, cancel my order' }).click();
    await page.getByText('Your payment has changed in the meantime.').waitFor();
    await page.getByRole('button', { name: 'Yes, ask to cancel it' }).waitFor();
    expect(await readOrder(shop, order.id)).toMatchObject({ status: 'processing', payment_status: 'paid' });
  },
);

everyStory(
  'without JavaScript an unpaid order is cancelled, and without its key it is not',
  async ({ newVisitor }) => {
    const order = await placeOrder(shop, 'Plain Page', '0711009104');
    const key = await keyOf(order);
    const { page } = await newVisitor({ viewport: phone, javaScriptEnabled: false });
    await page.goto(`${shop.url}/track-order/${order.tracking_number}`);
    expect(await page.getByText('Cancel this order').count()).toBe(0);
    await page.goto(linkOf(order.tracking_number, key));
    await page.getByText('Cancel this order').click();
    await page.getByRole('button', { name: 'Yes, cancel my order' }).click();
    await page.getByText('You cancelled this order before it was paid.').waitFor();
    expect(await readOrder(shop, order.id)).toMatchObject({ status: 'cancelled' });
  },
);
