// A day of a hundred orders with three people: how many taps an order takes, and that each screen follows the others.
import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { desktop, phone } from '../../browser.ts';
import { type Order, placeAssignedOrder, placePaidOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

const tablet = { width: 768, height: 1024 };
const laptop = { width: 1280, height: 800 };
const sizes = [phone, tablet, laptop, desktop] as const;

openShopForStories();
const story = storyWith({ viewport: phone });

/** Paid orders that no story has begun with, the earliest first. */
const waiting: Order[] = [];
beforeAll(async () => {
  // The rider whom the next orders go to.
  await placeAssignedOrder(shop, 'Knows a rider');
  for (let begun = 0; begun < 100; begun += 5) {
    waiting.push(
      ...(await Promise.all(
        Array.from({ length: 5 }, (_, index) =>
          placePaidOrder(shop, begun < 80 ? `Customer ${begun + index}` : 'Goes Together'),
        ),
      )),
    );
  }
  await asOwner(
    shop,
    '/rest/v1/inquiries',
    'POST',
    Array.from({ length: 5 }, (_, index) => ({
      name: `Visitor ${index}`,
      email: 'v@mail.example',
      message: 'Do you deliver to Karen?',
    })),
  );
});
const takeOrders = (count: number): Order[] => waiting.splice(0, count);

const deliveriesOf = async (orders: readonly Order[]) =>
  (await (
    await asOwner(
      shop,
      `/rest/v1/deliveries?order_id=in.(${orders.map(({ id }) => id).join()})&select=delivery_status,failures`,
      'GET',
    )
  ).json()) as { delivery_status: string; failures: number }[];
const isAllDelivered = async (orders: readonly Order[]) =>
  (await deliveriesOf(orders)).every(({ delivery_status }) => delivery_status === 'delivered');

/** A member at a screen, whose taps are counted. */
async function openToday(page: Page) {
  await enterAsStaff(shop, page, '/admin/today');
  let taps = 0;
  const press = async ({ order_number }: Order, name: string) => {
    // The rider's name is part of the button where there is space for it.
    await page
      .getByRole('button', { name: new RegExp(`^${name}( to \\S+)? ${order_number}$`) })
      // Three busy screens on one machine.
      .click({ timeout: 60_000 });
    taps += 1;
  };
  return {
    press,
    async choose(answer: string) {
      await page.getByRole('dialog').getByRole('button', { name: answer }).click();
      taps += 1;
    },
    async deliver(order: Order) {
      for (const step of ['Prepare', 'Ready', 'Hand over', 'Delivered']) await press(order, step);
    },
    countTaps() {
      const counted = taps;
      taps = 0;
      return counted;
    },
  };
}

story.for(atSizes(sizes))(
  'an order takes four taps, and eight if its delivery fails once, at %j',
  async (viewport, { newVisitor }) => {
    const [ordinary, failing] = takeOrders(2) as [Order, Order];
    const { page } = await newVisitor({ viewport });
    const { press, choose, deliver, countTaps } = await openToday(page);
    await deliver(ordinary);
    expect(countTaps()).toBe(4);
    await until(() => isAllDelivered([ordinary]), 'the order is delivered');

    for (const step of ['Prepare', 'Ready', 'Hand over', 'Failed']) await press(failing, step);
    await choose('Nobody was there');
    await press(failing, 'Send again');
    for (const step of ['Hand over', 'Delivered']) await press(failing, step);
    expect(countTaps()).toBe(8);
    await until(() => isAllDelivered([failing]), 'the second try is delivered');
    expect(await deliveriesOf([failing])).toMatchObject([{ failures: 1 }]);
  },
);

story(
  'three people work at once, and twenty orders go out together',
  { timeout: 480_000 },
  async ({ newVisitor }) => {
    const people = await Promise.all(
      [phone, tablet, laptop].map(async (viewport) => {
        const { page } = await newVisitor({ viewport });
        return { page, orders: takeOrders(8), today: await openToday(page) };
      }),
    );
    await Promise.all(
      people.map(async ({ orders, today }) => {
        for (const order of orders) await today.deliver(order);
        expect(today.countTaps()).toBe(4 * orders.length);
      }),
    );
    const done = people.flatMap(({ orders }) => orders);
    await until(() => isAllDelivered(done), 'all of them are delivered');
    // Each screen follows what the two others did.
    for (const { page } of people) {
      for (const { order_number } of done) {
        await page
          .getByRole('main')
          .getByRole('link', { name: order_number, exact: true })
          .waitFor({ state: 'detached' });
      }
    }

    const { page } = await newVisitor({ viewport: desktop });
    await enterAsStaff(shop, page, '/admin/orders?search=Goes+Together');
    const together = waiting.splice(-20);
    await expect.poll(() => page.locator('main tbody tr').count()).toBe(together.length);
    let taps = 0;
    const tap = async (target: Locator) => {
      await target.click();
      taps += 1;
    };
    const changeAll = async (change: string, status: string, answer?: RegExp) => {
      await tap(page.getByRole('checkbox', { name: 'Select all orders' }));
      await tap(page.getByRole('button', { name: `${change} 20` }));
      if (answer) await tap(page.getByRole('dialog').getByRole('button', { name: answer }));
      await until(
        async () => (await deliveriesOf(together)).every(({ delivery_status }) => delivery_status === status),
        `all twenty are ${status}`,
      );
      await page.getByText('20 selected').waitFor({ state: 'detached' });
    };
    await changeAll('Assign', 'assigned', /^Joseph Otieno/);
    await changeAll('Hand over', 'picked_up');
    await changeAll('Delivered', 'delivered');
    expect(taps).toBe(7);
  },
);

story.for(sizes)('the first row of each list is near the top, at %j', async (viewport, { newVisitor }) => {
  const { page } = await newVisitor({ viewport });
  await enterAsStaff(shop, page, '/admin/orders');
  const found: Record<string, number> = {};
  for (const list of ['orders', 'deliveries', 'inquiries', 'messages', 'products']) {
    await page.goto(`${shop.url}/admin/${list}`);
    const row = page.locator('main tbody tr:has(a, button), main ul[aria-label] > li[data-row]').first();
    await row.waitFor();
    found[list] = Math.round((await row.boundingBox())?.y ?? 0);
  }
  const most = viewport.width < 768 ? 200 : 220;
  expect(
    Object.entries(found).filter(([, top]) => top > most),
    JSON.stringify(found),
  ).toEqual([]);
});
