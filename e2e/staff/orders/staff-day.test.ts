// The day's page and the reports: what only a browser shows. Component tests: web/admin/day/, web/admin/reports/.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone } from '../../browser.ts';
import { placeOrder, placePaidOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner, callAs, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();

/** Whether the page is wider than the screen. */
const isTooWide = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
const fileFrom = async (page: Page, button: RegExp) => {
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: button }).click();
  return readFile(await (await download).path(), 'utf8');
};
let receipts = 0;

describe.each(
  atSizes([
    ['on a phone', phone],
    ['at the counter', desktop],
  ]),
)('%s', (_, viewport) => {
  const story = storyWith({ viewport });

  story('the evening: count, close, print, and the files', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.addInitScript(() => {
      window.print = () => {};
    });
    const account = await enterAsStaff(shop, page);
    const cash = await placeOrder(shop, 'Evening Cash', '0711030190');
    const charge = Math.ceil(cash.total_amount / 100) * 100;
    const received = await callAs(shop, account, 'receive_cash', {
      order_id: cash.id,
      received_cents: charge,
      received_from: 'Brian',
    });
    const paid = (await received.json()) as { completed_at: string };
    receipts += 1;
    const receipt = `UKE000000${receipts}`;
    const till = await placeOrder(shop, 'Evening Till', '0711030191');
    await asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
      source: 'confirmation',
      receipt,
      received_cents: charge,
      reference: till.tracking_number,
    });
    const due = await placeOrder(shop, 'Evening Rider', '0711030193');
    await callAs(shop, account, 'agree_cash', { order_id: due.id });
    await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${due.id}`, 'PATCH', {
      delivery_person: 'Evening Brian',
      delivery_status: 'delivered',
    });
    // Nairobi has no summer time.
    const day = new Date(Date.parse(paid.completed_at) + 3 * 3_600_000).toISOString().slice(0, 10);

    await page.goto(`${shop.url}/admin/day/${day}`);
    await page.getByRole('heading', { name: 'Cash by person' }).waitFor();
    await page.getByRole('link', { name: till.order_number }).waitFor();
    await expectAccessible(page, 'an open day');
    expect(await isTooWide(page)).toBe(false);

    const stillOut = await page.getByText(/^Still with Evening Brian: KES /).textContent();
    await page.getByRole('button', { name: 'Print' }).click();
    await page
      .locator('.print-sheet')
      .getByText(stillOut ?? '')
      .waitFor({ state: 'attached' });

    // A step of the sum leads to its rows.
    await page.getByRole('link', { name: 'Paid to the till' }).click();
    await page.getByRole('link', { name: cash.order_number }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: till.order_number }).waitFor();

    const file = await fileFrom(page, /^CSV for the accountant/);
    expect(file).toContain(',Delivery fee included (KES),Discount (KES),Drinks,');
    expect(file).toContain(',0711 030 190,');
    expect(file).toContain(`,${receipt},${charge / 100},`);

    const own = page.getByRole('listitem', { name: account.email.split('@')[0] ?? '', exact: true });
    await own.getByLabel('Counted (KES)').fill(String(charge / 100 - 1));
    // Leaving would lose what was counted.
    await page.getByRole('link', { name: 'Reported by M-PESA' }).click();
    await page.getByRole('button', { name: 'Stay' }).click();
    for (const member of await page.locator('li', { has: page.getByLabel('Counted (KES)') }).all()) {
      const field = member.getByLabel('Counted (KES)');
      if ((await field.inputValue()) !== '') continue;
      const expected = await member.getByText(/ expected$/).textContent();
      await field.fill((expected ?? '').replace(/\D/g, ''));
    }
    await page.getByRole('button', { name: 'Close the day' }).click();
    await page.getByText('Please say why it differs').waitFor();
    await own.getByLabel(/^Why/).fill('One shilling is lost');
    await page.getByRole('button', { name: 'Close the day' }).click();
    const question = page.getByRole('dialog');
    await question.getByText('KES 1 missing. One shilling is lost').waitFor();
    await question.getByText(/^Still with Evening Brian: KES /).waitFor();
    await expectAccessible(page, 'the question before a day is closed');
    await question.getByRole('button', { name: 'Cancel' }).click();
    await question.waitFor({ state: 'detached' });
  });

  story('a closed day on paper, and the report on its span', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.addInitScript(() => {
      window.print = () => {};
    });
    const account = await enterAsStaff(shop, page);
    const day = viewport === phone ? '2025-05-01' : '2025-05-02';
    await callAs(shop, account, 'close_day', { day, counts: [], note: 'Labour Day' });
    await page.goto(`${shop.url}/admin/day/${day}`);
    await page.getByText(/^Closed by /).waitFor();
    await expectAccessible(page, 'a closed day');
    await page.getByRole('button', { name: 'Print' }).click();
    const sheet = page.locator('.print-sheet');
    await sheet.getByText('Labour Day').waitFor();
    await page.emulateMedia({ media: 'print' });
    expect(await page.getByRole('heading', { name: 'Cash by person' }).count()).toBe(0);
    await page.emulateMedia({ media: 'screen' });

    await page.getByRole('link', { name: 'Report', exact: true }).click();
    await page.getByText('No orders were placed and no money moved in this time').waitFor();
    await placePaidOrder(shop, 'Reported', '0711030192');
    const dayAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
    await page.goto(`${shop.url}/admin/reports?span=range&from=${dayAgo(2)}&until=${dayAgo(-1)}`);
    await page
      .getByRole('img', { name: /^Chart: / })
      .first()
      .waitFor();
    await page.locator('.recharts-bar-rectangle').first().waitFor({ state: 'attached' });
    await expectAccessible(page, 'reports');
    expect(await isTooWide(page)).toBe(false);
    expect(await fileFrom(page, /^CSV of drinks/)).toMatch(/^\uFEFFDrink,Sold,Orders,Amount \(KES\)\r\n/);
  });
});
