// Staff reconcile the shop's payments with M-PESA's and resolve unknown, duplicate and differing payments.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { beforeAll, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop } from '../../browser.ts';
import { type Order, placeOrder } from '../../placed-orders.ts';
import { desktopFirst } from '../../selection.ts';
import { asOwner, enterAsStaff, pressUnlessTaken, toast } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

const paybill = '174379';
const till = '5550174';

openShopForStories();
beforeAll(async () => {
  // The shop registers its URLs with the simulator by itself.
  await until(async () => {
    const ledger = await (await fetch(`${shop.simulatorUrl}/simulator/ledger`)).json();
    return (ledger as { urls: unknown }).urls !== null;
  }, 'the addresses for money without a prompt are registered');
});
const story = storyWith({ viewport: desktop });

/** Pays from the M-PESA menu of a phone; returns the receipt number. */
async function payByHand(reference: string, amount = 951): Promise<string> {
  const answer = await fetch(`${shop.simulatorUrl}/simulator/payments`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      phone: '0722000111',
      number: reference ? paybill : till,
      amount,
      reference,
    }),
  });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { receipt: string }).receipt;
}
const paymentOf = async ({ id }: Order) =>
  (
    (await (await asOwner(shop, `/rest/v1/orders?id=eq.${id}&select=payment_status`, 'GET')).json()) as {
      payment_status: string;
    }[]
  )[0]?.payment_status;

/** Waits until the current day in Nairobi lasts at least this long, because the screen shows a single day. */
const untilTheDayLasts = (seconds: number) =>
  until(
    async () => {
      const ofNairobi = Date.now() / 1000 + 3 * 60 * 60;
      return 86_400 - (ofNairobi % 86_400) > seconds;
    },
    'a new day has begun',
    (seconds + 10) * 1000,
  );

/** The row or card of a receipt. */
const rowOf = (page: Page, receipt: string) =>
  page.getByRole('main').locator('tbody tr, ul[aria-label="Payments"] > li').filter({ hasText: receipt });

// Sequential, because the sums cover the whole shop.
story.for(desktopFirst)(
  'unknown, duplicate and too small payments are found, resolved and recorded, %s',
  { timeout: 150_000 },
  async ([size, viewport], { newVisitor }) => {
    await untilTheDayLasts(45);
    const [matched, unknown] = [
      await placeOrder(shop, `Matched ${size}`),
      await placeOrder(shop, `Unknown ${size}`),
    ];
    const { page } = await newVisitor({ viewport });
    const account = await enterAsStaff(shop, page);
    await page.goto(`${shop.url}/admin/reconciliation`);
    await page.getByRole('heading', { level: 1, name: 'Reconciliation' }).waitFor();
    await page.getByText("Our payments beside M-PESA's").waitFor();

    // Four payments are made while the screen is open.
    const good = await payByHand(matched.tracking_number.replaceAll('-', '').toLowerCase());
    await rowOf(page, good).getByText('Matched', { exact: true }).waitFor();
    expect(await paymentOf(matched)).toBe('paid');
    const second = await payByHand(matched.tracking_number);
    const lost = await payByHand('juice please');
    const rent = await payByHand('', 5000);
    for (const [receipt, kind] of [
      [second, 'Paid twice'],
      [lost, 'Missing here'],
      [rent, 'Missing here'],
    ] as const) {
      await rowOf(page, receipt).getByText(kind, { exact: true }).waitFor();
    }
    await rowOf(page, lost).getByText('for “juice please”').waitFor();
    await page.getByRole('button', { name: /^To decide/ }).waitFor();
    await expectAccessible(page, 'a day with differences');

    // Staff match the payment to its order.
    await rowOf(page, lost)
      .getByRole('button', { name: `Assign to an order ${lost}` })
      .click();
    const dialog = page.getByRole('dialog', { name: lost });
    const choose = dialog.getByRole('button', { name: `Choose ${unknown.order_number}` });
    await choose.waitFor();
    await dialog.getByRole('searchbox').fill(`unknown ${size}`);
    await dialog.getByRole('list', { name: 'Found orders' }).waitFor();
    await choose.click();
    await dialog.getByText('The order becomes paid, and the customer gets a message.').waitFor();
    await dialog.getByLabel('Note').fill('He called');
    await expectAccessible(page, 'giving money to an order');
    await dialog.getByRole('button', { name: `Assign KES 951 to ${unknown.order_number}` }).click();
    await toast(page, 'The order is paid with this money').waitFor();
    await dialog.getByText('Assigned to an order').waitFor();
    await dialog.getByText('He called').waitFor();
    await dialog.getByText(account.email).waitFor();
    await dialog.getByText('Matched', { exact: true }).waitFor();
    expect(await paymentOf(unknown)).toBe('paid');
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
    await dialog.waitFor({ state: 'hidden' });
    await rowOf(page, lost).getByRole('link', { name: unknown.order_number }).waitFor();

    // Staff return the duplicate payment after a confirmation.
    await rowOf(page, second)
      .getByRole('button', { name: `Send back ${second}` })
      .click();
    const question = page.getByRole('dialog', { name: 'Send this money back?' });
    await question.getByText(/cannot be undone/).waitFor();
    await expectAccessible(page, 'the question before a refund');
    await question.getByRole('button', { name: 'Send it back' }).click();
    await toast(page, 'The refund is queued').waitFor();
    await rowOf(page, second)
      .getByText(/^(Refund|Sent back)/)
      .waitFor();

    // Staff mark a rent payment as unrelated, and can undo it.
    await rowOf(page, rent)
      .getByRole('button', { name: `Details of ${rent}` })
      .click();
    const other = page.getByRole('dialog', { name: rent });
    await other.getByText('No decision about').waitFor();
    await other.getByRole('button', { name: 'Not an order' }).click();
    await toast(page, 'Noted as not an order').waitFor();
    await other.getByRole('button', { name: 'Open again' }).click();
    await toast(page, 'It is open again').waitFor();
    await other.getByRole('button', { name: 'Not an order' }).click();
    await other.getByRole('button', { name: 'Open again' }).waitFor();
    await other.getByRole('listitem').filter({ hasText: 'Noted as not an order' }).nth(1).waitFor();

    // Later the payment was returned from the till's phone.
    await other.getByRole('button', { name: 'Open again' }).click();
    await other.getByRole('button', { name: 'I already refunded it' }).click();
    await other.getByLabel('Receipt of the refund').fill('UKL');
    await other.getByLabel('Reason').fill('Rent goes elsewhere');
    await other.getByRole('button', { name: 'It was sent back', exact: true }).click();
    await other.getByText('ten letters and digits').waitFor();
    const back = `UKL${randomUUID().slice(0, 7).toUpperCase()}`;
    await other.getByLabel('Receipt of the refund').fill(back.toLowerCase());
    await expectAccessible(page, 'money that was sent back by hand');
    await other.getByRole('button', { name: 'It was sent back', exact: true }).click();
    await toast(page, 'The refund is noted').waitFor();
    await other
      .getByRole('listitem')
      .filter({ hasText: `By hand, receipt ${back}: Rent goes elsewhere` })
      .waitFor();
    await page.goBack();
    await other.waitFor({ state: 'hidden' });

    // Filtered by kind, and exported as a file.
    await page.getByRole('button', { name: /^Filters/ }).click();
    await page.getByLabel('Show').selectOption('double');
    await rowOf(page, good).waitFor({ state: 'detached' });
    await rowOf(page, second).waitFor();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const file = await readFile(await (await download).path(), 'utf8');
    expect(file).toMatch(
      /^\uFEFFTime \(Nairobi\),Receipt,Comparison,Open,State,Our books \(KES\),M-PESA \(KES\),Order #/,
    );
    expect(file).toContain(`,${second},Paid twice,no,`);
    expect(file).not.toContain(good);

    // An empty day has a message; the range shows the days with open cases.
    await page.getByLabel('Show').selectOption('');
    await page.getByRole('button', { name: 'The day before' }).click();
    await page.getByText('No payments on this day').waitFor();
    await expectAccessible(page, 'a day without payments');
    await page.getByRole('button', { name: 'Today' }).click();
    await rowOf(page, good).waitFor();
    await payByHand('who is this');
    await page.getByRole('link', { name: 'All days' }).click();
    await page.getByRole('heading', { level: 1, name: 'Reconciliation' }).waitFor();
    await page.getByText(/^[1-9]\d* to decide$/).waitFor();
    await expectAccessible(page, 'all days');
    await page
      .getByRole('link', { name: /^Open / })
      .first()
      .click();
    await rowOf(page, good).waitFor();
  },
);

story.for(desktopFirst)(
  'a day that cannot be loaded says so and can be retried, %s',
  async ([, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport, expectedFailures: /reconciliation_day/ });
    await enterAsStaff(shop, page);
    await page.route('**/rest/v1/rpc/reconciliation_day*', (route) => route.abort());
    await page.goto(`${shop.url}/admin/reconciliation?day=2026-01-15`);
    await page.getByText('Payments could not be loaded').waitFor();
    await expectAccessible(page, 'a day that cannot be read');
    await page.unroute('**/rest/v1/rpc/reconciliation_day*');
    await pressUnlessTaken(
      page.getByRole('button', { name: 'Try again' }),
      page.getByText('No payments on this day'),
    );
  },
);

story.for([360, 768])('the sums of a day are whole on a screen of %i px', async (width, { newVisitor }) => {
  await untilTheDayLasts(20);
  await payByHand('', 400);
  const { page } = await newVisitor({ viewport: { width, height: 740 } });
  await enterAsStaff(shop, page, '/admin/reconciliation');
  for (const text of ['Our books', 'Difference', /^\(.* than .*\)$/, 'How the day adds up']) {
    const shown = page.getByRole('main').getByText(text).first();
    await shown.waitFor();
    const cutOff = await shown.evaluate((element) => {
      const { left, right } = element.getBoundingClientRect();
      return left < 0 || right > window.innerWidth;
    });
    expect(cutOff, `${text} is cut off`).toBe(false);
  }
});
