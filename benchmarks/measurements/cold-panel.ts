// The orders list of the panel on a phone's first visit over a slow line, in Chromium with an empty cache.
import { type Browser, chromium } from 'playwright-core';
import { requireBrowser } from '../../scripts/tests/ensure-programs.mjs';
import { type BenchShop, staff } from '../shops/bench-shop.ts';
import { placeOrder, totalOf } from './payments.ts';
import type { RowGroup } from './rows.ts';

/** 400 kbit/s, and 400 ms there and back. */
const slow3g = {
  offline: false,
  latency: 400,
  downloadThroughput: 400_000 / 8,
  uploadThroughput: 400_000 / 8,
};
/** As many as the list shows at once. */
const orders = 30;

/** Milliseconds until the first orders are shown. */
async function openOrdersCold(browser: Browser, shop: BenchShop): Promise<number> {
  const session = await shop.call('POST', '/auth/v1/token?grant_type=password', shop.asVisitor, staff);
  const context = await browser.newContext({
    viewport: { width: 412, height: 823 },
    deviceScaleFactor: 1.75,
    isMobile: true,
    hasTouch: true,
    serviceWorkers: 'block',
  });
  try {
    const page = await context.newPage();
    await page.addInitScript(
      (texts) => {
        for (const [key, text] of Object.entries(texts)) localStorage.setItem(key, text);
      },
      {
        'jani.staff': JSON.stringify(session),
        'jani.staff-session': String(session.access_token).slice(-32),
      },
    );
    const network = await context.newCDPSession(page);
    await network.send('Network.enable');
    await network.send('Network.emulateNetworkConditions', slow3g);
    await page.goto(`${shop.url}/admin/orders`, { waitUntil: 'commit' });
    // By the page's own clock: messages of the browser arrive late on a busy machine.
    const shown = await page.waitForFunction(
      () => document.querySelector('[data-row-link]') && performance.now(),
      null,
      { polling: 'raf', timeout: 60_000 },
    );
    return Number(await shown.jsonValue());
  } finally {
    await context.close();
  }
}

export function coldPanel(): RowGroup & { close(): Promise<void> } {
  let browser: Promise<Browser> | undefined;
  const launch = () =>
    chromium.launch({ executablePath: requireBrowser(), args: ['--no-sandbox', '--disable-gpu'] });
  return {
    async prepare(shop) {
      browser ??= launch();
      const total = await totalOf(shop);
      while ((await shop.count('/rest/v1/orders?select=id')) < orders) await placeOrder(shop, total);
    },
    rows: [
      {
        name: 'orders cold on Slow 3G: until the list is shown',
        unit: 'ms',
        isCost: true,
        async measure(shop) {
          browser ??= launch();
          return openOrdersCold(await browser, shop);
        },
      },
    ],
    close: async () => (await browser)?.close(),
  };
}
