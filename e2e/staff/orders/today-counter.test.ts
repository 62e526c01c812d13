// Counter mode of Today on a tablet: what only a browser shows. Component tests: web/admin/today/counter/counter.test.tsx.
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { placeAssignedOrder } from '../../placed-orders.ts';
import { enterAsStaff, waitForLive } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: { width: 1024, height: 768 } });

story('the queue scrolls by itself, and a new order below it is announced', async ({ newVisitor }) => {
  for (let index = 0; index < 6; index += 1) await placeAssignedOrder(shop, `Waiting ${index}`);
  const { page } = await newVisitor();
  await enterAsStaff(shop, page, '/admin/today');
  await page.getByRole('button', { name: 'Counter' }).click();
  await page.getByRole('heading', { name: 'Today at the counter' }).waitFor();
  await until(() => page.evaluate(() => document.fullscreenElement !== null), 'it has the whole screen');

  // A reload ends the whole screen, and nothing else.
  await page.reload();
  await page.getByRole('button', { name: 'Full screen' }).waitFor();
  expect(await page.getByText('Admin Panel').count()).toBe(0);
  await page.getByRole('heading', { name: /^To prepare\s*6$/ }).waitFor();
  await expectAccessible(page, 'counter mode');
  const scrolls = () =>
    page.evaluate(() => ({
      page: document.documentElement.scrollHeight > window.innerHeight,
      wide: document.documentElement.scrollWidth > window.innerWidth,
    }));
  expect(await scrolls()).toEqual({ page: false, wide: false });
  const smallest = await page
    .getByRole('button', { name: /^Prepare / })
    .evaluateAll((buttons) => Math.min(...buttons.map((button) => button.getBoundingClientRect().height)));
  expect(smallest).toBeGreaterThanOrEqual(56);

  await waitForLive(page);
  const order = await placeAssignedOrder(shop, 'Brand New');
  await page.getByRole('button', { name: 'New: 1 × Mango' }).click();
  const card = page.getByRole('listitem').filter({ hasText: order.order_number });
  await until(
    () =>
      card.evaluate((element) => {
        const { top, bottom } = element.getBoundingClientRect();
        return top > 0 && bottom < window.innerHeight;
      }),
    'the new order is in view',
  );
  await card.getByText('New order').waitFor({ state: 'attached' });
  // It was seen: the announcement is gone at once, the mark some seconds later.
  await page.getByRole('button', { name: /^New: / }).waitFor({ state: 'detached' });
  await card.getByText('New order').waitFor({ state: 'detached' });
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Today', exact: true }).waitFor();
  await page.getByText('Admin Panel').waitFor();
});
