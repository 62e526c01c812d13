// A member of staff enters the order of a caller: the taps are counted.
import type { Locator } from 'playwright-core';
import { beforeAll, describe, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone } from '../../browser.ts';
import { placePaidOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
beforeAll(async () => {
  await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'PATCH', { stock_quantity: 500 });
});

/** Counts presses; typing is free. */
function countTaps() {
  let taps = 0;
  return {
    async tap(target: Locator) {
      taps += 1;
      await target.click();
    },
    taps: () => taps,
  };
}

/** Whether nothing lies over the middle of an element. */
const isUncovered = (target: Locator) =>
  target.evaluate((element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
  });

describe('a caller', () => {
  story.for(atSizes([phone, desktop]))(
    'who ordered before gets the same again in five taps, at %j',
    async (viewport, { newVisitor }) => {
      const number = `07110${viewport.width === 360 ? '20360' : '21440'}`;
      const before = await placePaidOrder(shop, 'Wanjiru Kamau', number);
      const { page } = await newVisitor({ viewport });
      await enterAsStaff(shop, page, '/admin/orders');
      const { tap, taps } = countTaps();

      await tap(page.getByRole('main').getByRole('link', { name: 'New order' }));
      await page
        .getByLabel(/^Phone/)
        .and(page.locator(':focus'))
        .waitFor();
      await page.keyboard.insertText(`Wanjiru +254 ${number.slice(1, 4)} ${number.slice(4)}`);
      await page.getByText(/1 order ·/).waitFor();
      await expect.poll(() => page.getByLabel(/^Name/).inputValue()).toBe('Wanjiru Kamau');
      expect(await page.getByLabel(/^Delivery location/).inputValue()).toBe('Westlands');
      await tap(page.getByRole('button', { name: /^Same again: 1 × .*Mango/ }));
      const place = page.getByRole('button', { name: 'Place order' });
      expect(await isUncovered(place)).toBe(true);
      await expectAccessible(page);
      await tap(place);

      const order = page.getByRole('dialog', { name: /^Order ORD-/ });
      await order.getByText(/^Entered by .+ · call,/).waitFor();
      await order
        .getByText('A text with the link goes to', { exact: false })
        .or(order.getByText(/^Text with the link/))
        .waitFor();
      await tap(order.getByRole('button', { name: /^Send M-PESA prompt/ }));
      // The simulated customer enters the PIN.
      await order.getByText('Paid', { exact: true }).first().waitFor();
      expect(taps()).toBeLessThanOrEqual(5);
      await order.getByText('Payment prompt sent').waitFor();
      expect(before.id).not.toBe(page.url().split('/').at(-1));
    },
  );

  story.for(atSizes([phone, desktop]))(
    'who is new gets three drinks in at most ten taps, and the link on WhatsApp, at %j',
    async (viewport, { newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      await enterAsStaff(shop, page, '/admin/today');
      const { tap, taps } = countTaps();
      await tap(page.getByRole('main').getByRole('link', { name: 'New order' }));
      await page
        .getByLabel(/^Phone/)
        .and(page.locator(':focus'))
        .waitFor();
      await page.keyboard.insertText(`07110${viewport.width === 360 ? '30360' : '31440'}`);
      await page.getByText('New customer', { exact: false }).waitFor();
      await tap(page.getByLabel('WhatsApp', { exact: true }));
      await tap(page.getByLabel(/^Name/));
      await page.keyboard.insertText('Otieno');
      const drinks = page.getByRole('list', { name: 'Drinks' });
      const names = await drinks
        .getByRole('button', { name: /^Add / })
        .evaluateAll((buttons) =>
          buttons.slice(0, 3).map((button) => button.getAttribute('aria-label') ?? ''),
        );
      expect(names).toHaveLength(3);
      for (const name of names) await tap(drinks.getByRole('button', { name, exact: true }));
      await tap(page.getByLabel(/^Delivery location/));
      await page.keyboard.insertText('Kilimani, Wood Avenue');
      // A reload loses nothing.
      await page.reload();
      await page.getByText('3 drinks', { exact: false }).waitFor();
      await tap(page.getByRole('button', { name: 'Place order' }));
      const order = page.getByRole('dialog', { name: /^Order ORD-/ });
      await order.getByText(/^Entered by .+ · WhatsApp,/).waitFor();
      // Who entered it has the link without another press.
      const link = order.getByRole('link', { name: /^Send by WhatsApp/ });
      expect(await link.getAttribute('href')).toMatch(/^https:\/\/wa\.me\/25471103[01]\d+\?text=.*%2Ft%2F/);
      expect(taps()).toBeLessThanOrEqual(9);
    },
  );
});
