// The automatic checks of every story detect problems.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBrowser, visit } from './browser.ts';
import { technicalMessages } from './technical-messages.ts';

let browser: Browser;
beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

test.each([
  ['a toast', '<li data-sonner-toast>new row violates row-level security policy</li>'],
  ['an alert', '<p role="alert">JWT expired</p>'],
  ['a question', '<div role="alertdialog">KSh NaN</div>'],
])('%s with technical words is found', async (_, markup) => {
  const { page, messages, close } = await visit(browser);
  await page.setContent('<main></main>');
  await page.evaluate((html) => {
    document.body.innerHTML = html;
  }, markup);
  await expect.poll(() => technicalMessages(messages).length).toBe(1);
  await close();
});

test('ordinary messages pass', () =>
  expect(
    technicalMessages([
      'Order status updated successfully',
      'Related products',
      // A text of the tracking page.
      'Failed to fetch order details',
    ]),
  ).toEqual([]));
