// A first visit on a slow connection: the loading order, bytes and files, and taps before hydration.
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { firstVisit } from '../../../scripts/tests/first-visit.ts';
import { delayResponses, desktop, phone, waitForHydration } from '../../browser.ts';
import { placeOrder } from '../../placed-orders.ts';
import { inLongRun, mainCase } from '../../selection.ts';
import { enterAsStaff } from '../../staff-member.ts';
import { browser, openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
const longStory = inLongRun(story);

const scripts = /\/assets\/.*\.js$/;

/** Slow 4G. */
async function slowDown(page: Page): Promise<void> {
  const line = await page.context().newCDPSession(page);
  await line.send('Network.enable');
  await line.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 150,
    downloadThroughput: (1.6 * 1024 * 1024) / 8,
    uploadThroughput: (750 * 1024) / 8,
  });
}

describe('a tap before hydration', () => {
  story('is handled after hydration, each one in order', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await slowDown(page);
    const code = await delayResponses(page, scripts);
    await page.goto(`${shop.url}/shop/mango-bottle`, { waitUntil: 'commit' });
    const more = page.getByRole('button', { name: 'Increase quantity' });
    await more.tap();
    await more.tap();
    await page.getByRole('button', { name: 'Order Now' }).tap();
    // The first tap requested the scripts; none has arrived.
    await expect.poll(() => code.requested.length).toBeGreaterThan(3);
    expect(await page.getByRole('dialog').count()).toBe(0);
    code.release();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/^Name/).waitFor();
    expect(await dialog.textContent()).toContain('Subtotal (3 × KSh 950.00)');
    expect(await page.locator('[data-tapped]').count()).toBe(0);
  });

  longStory('opens the order page where scripts never load', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await delayResponses(page, scripts);
    await page.goto(`${shop.url}/shop/mango-bottle`, { waitUntil: 'commit' });
    await page.getByRole('button', { name: 'Order Now' }).tap();
    await page.waitForURL('**/shop/mango-bottle/order?quantity=1');
  });

  story('opens the filters once and leaves them open', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    const code = await delayResponses(page, scripts);
    await page.goto(`${shop.url}/shop`, { waitUntil: 'commit' });
    await page.getByRole('button', { name: /^Filters/ }).tap();
    await page.getByRole('heading', { name: 'Filters' }).waitFor();
    code.release();
    await waitForHydration(page);
    expect(await page.locator('[data-tapped]').count()).toBe(0);
    await page.getByLabel('Sort by').selectOption('Price');
    await page.getByLabel('Brand').selectOption('Meru Gold');
    await page.getByRole('button', { name: 'Filters 1 chosen' }).waitFor();
    expect(await page.getByRole('heading', { name: 'Filters' }).isVisible()).toBe(true);
    // Back closes it like any other dialog, and the selection stays.
    await page.evaluate(() => void setTimeout(() => window.history.back()));
    await page.getByRole('heading', { name: 'Filters' }).waitFor({ state: 'hidden' });
    await page.waitForURL(/\/shop\?brand=Meru\+Gold&sort=price/);
  });

  story('opens the menu and follows a link at once', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await delayResponses(page, scripts);
    await page.goto(`${shop.url}/`, { waitUntil: 'commit' });
    await page.getByRole('button', { name: 'Menu' }).tap();
    await page.getByRole('dialog').getByRole('link', { name: 'Delivery' }).tap();
    // Its scripts are delayed, too, so the load event may never fire.
    await page.waitForURL('**/delivery', { waitUntil: 'commit' });
  });
});

describe('the scripts of a storefront page', () => {
  story('wait for the first image', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    const images = await delayResponses(page, /\/art\//);
    const requested: string[] = [];
    page.on('request', (request) => {
      if (scripts.test(request.url())) requested.push(request.url());
    });
    await page.goto(`${shop.url}/shop/mango-bottle`, { waitUntil: 'domcontentloaded' });
    await expect.poll(() => images.requested.length).toBeGreaterThan(0);
    expect(requested).toEqual([]);
    images.release();
    await expect.poll(() => requested.length).toBeGreaterThan(3);
  });

  story('load at once when a visitor types', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await delayResponses(page, /\/art\//);
    const started = page.waitForRequest(scripts);
    await page.goto(`${shop.url}/shop/mango-bottle`, { waitUntil: 'domcontentloaded' });
    await page.keyboard.press('Tab');
    await started;
  });

  test('load at once on staff pages', async () => {
    const html = await (await fetch(`${shop.url}/admin/login`)).text();
    expect(html).toContain('<link rel="modulepreload"');
    expect(html).not.toContain('rel="late"');
    // Started by a script that asks only whether the browser can run them.
    expect(html).toContain("s.type='module';s.textContent=d.getElementById('late-boot').textContent");
  });

  test('contain no code of the staff panel, nor does the style sheet', async () => {
    const html = await (await fetch(`${shop.url}/shop`)).text();
    const list = /\/assets\/storefront-manifest-\w+\.js/.exec(html)?.[0];
    const routes = await (await fetch(`${shop.url}${list}`)).text();
    expect(routes).toContain('storefront/shop/shop-page');
    expect(routes).not.toContain('admin');
    // Classes that only staff screens use.
    expect(html).not.toContain('.staff-drawer');
    expect(html).not.toMatch(/<link rel="stylesheet"/);
    const [, staffSheet] =
      /<link rel="stylesheet" href="([^"]+)"/.exec(await (await fetch(`${shop.url}/admin/login`)).text()) ??
      [];
    expect((await fetch(`${shop.url}${staffSheet}`)).status).toBe(200);
  });
});

describe('a first visit on a slow line', () => {
  test.each(mainCase(['/shop/mango-bottle', '/', '/shop', '/delivery', '/contact', '/track-order']))(
    'to %s stays within its budget and defers what can wait',
    async (path) => {
      const visit = await firstVisit(browser, `${shop.url}${path}`);
      expect(visit.total).toBeLessThan(250_000);
      // 0.4 kB of them say on every page that orders are paused (docs/decisions/pauses.md).
      // 1.7 kB of them are for browsers since 2021 (docs/decisions/old-browsers.md).
      // 0.5 kB of them are because the panel shares one script less with the storefront, which it has 9 kB sooner (web/script-groups.ts).
      expect(visit.scripts).toBeLessThan(124_800);
      const later =
        /dialog|toast|\/(?:store|live|module|dist)-|chart|staff|admin|payment|schema|tracking-p|nothing-found/;
      expect(visit.requests.filter(({ kind, path }) => kind === 'Script' && later.test(path))).toEqual([]);
      // These share the bandwidth with the largest image: the page, two fonts, and at most two images.
      const first = visit.requests.slice(
        0,
        visit.requests.findIndex(({ kind }) => kind === 'Script'),
      );
      expect(first.filter(({ kind }) => kind !== 'Image').map(({ kind }) => kind)).toEqual([
        'Document',
        'Font',
        'Font',
      ]);
      expect(first.length).toBeLessThanOrEqual(5);
      // Named in the page's first lines, the largest image is the first thing that is requested.
      if (first.some(({ kind }) => kind === 'Image'))
        expect(first[1]?.path.split('/').at(-1)).toBe(visit.largest);
      expect(first.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(80_000);
    },
  );

  test('to the home page on a fast line loads no image that is more than a screen away', async () => {
    const visit = await firstVisit(browser, `${shop.url}/`, { isSlow: false });
    expect(visit.total).toBeLessThan(250_000);
    const images = visit.requests.filter(({ kind }) => kind === 'Image');
    // The six drinks at the top, and the slides that the visit lasted for.
    expect(images.filter(({ path }) => !path.includes('/hero-'))).toHaveLength(6);
  });

  longStory('loads images far below when they come near', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    const code = await delayResponses(page, scripts);
    // With delayed scripts the load event may never fire.
    await page.goto(`${shop.url}/`, { waitUntil: 'domcontentloaded' });
    const offers = page.getByRole('region', { name: 'Drinks on Offer' }).locator('img').first();
    await expect.poll(() => code.requested.length).toBeGreaterThan(3);
    expect(await offers.evaluate(isHeldBack)).toBe(true);
    expect(await offers.evaluate(isFetched)).toBe(false);
    code.release();
    await page.locator('html:not([data-unpainted])').waitFor();
    expect(await offers.evaluate(isHeldBack)).toBe(true);
    await page.getByRole('region', { name: 'Drinks on Offer' }).scrollIntoViewIfNeeded();
    await expect.poll(() => offers.evaluate(isFetched)).toBe(true);
    // The deferred content has arrived.
    expect(await page.locator('link[rel="icon"]').count()).toBe(1);
    expect(await page.getAttribute('link[rel="icon"]', 'href')).toBe('/favicon.svg');
    expect(await page.locator('link[rel="manifest"]').count()).toBe(1);
  });

  longStory('or earlier when the visitor scrolls there', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    const code = await delayResponses(page, scripts);
    await page.goto(`${shop.url}/`, { waitUntil: 'domcontentloaded' });
    await expect.poll(() => code.requested.length).toBeGreaterThan(3);
    await page.mouse.wheel(0, 600);
    const offers = page.getByRole('region', { name: 'Drinks on Offer' }).locator('img').first();
    await expect.poll(() => offers.evaluate(isFetched)).toBe(true);
  });
});

describe('while a page loads and is scrolled', () => {
  story.for(mainCase(['/track-order', '/', '/shop', '/shop/mango-bottle', '/contact']))(
    'nothing on %s moves',
    async (path, { newVisitor }) => {
      const { page } = await newVisitor({ viewport: phone });
      await slowDown(page);
      await page.addInitScript(sumLayoutShifts);
      await page.goto(`${shop.url}${path}`);
      await waitForHydration(page);
      await page.evaluate(scrollThrough);
      expect(
        await page.evaluate(() => (window as unknown as { layoutShift: number }).layoutShift),
      ).toBeLessThan(0.01);
    },
  );
});

/** Runs in the page: remembers what it formats or compares by Intl, whose first use takes a cheap phone 100 ms. */
function recordIntl(): void {
  const used: string[] = [];
  Object.assign(window, { intlUsed: used });
  const noting = <Work extends object>(name: string, work: Work): Work =>
    new Proxy(work, {
      apply: (target, self, values) => {
        used.push(name);
        return Reflect.apply(target as never, self, values);
      },
      construct: (target, values) => {
        used.push(name);
        return Reflect.construct(target as never, values);
      },
    });
  for (const name of ['NumberFormat', 'DateTimeFormat', 'Collator', 'PluralRules', 'ListFormat'] as const)
    Object.assign(Intl, { [name]: noting(name, Intl[name]) });
  for (const [type, names] of [
    [Number.prototype, ['toLocaleString']],
    [Date.prototype, ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString']],
    [String.prototype, ['localeCompare']],
  ] as const)
    for (const name of names)
      Object.assign(type, { [name]: noting(name, (type as never as Record<string, object>)[name] ?? {}) });
}
const intlUsed = (page: Page) =>
  page.evaluate(() => (window as unknown as { intlUsed: string[] }).intlUsed.splice(0));

describe('a page of the storefront', () => {
  story('writes numbers, dates and names in order without Intl', async ({ newVisitor }) => {
    const order = await placeOrder(shop, 'Amina Hassan', '0711030195');
    const { page } = await newVisitor({ viewport: phone });
    await page.addInitScript(recordIntl);
    await page.goto(`${shop.url}/`);
    await page.evaluate(() => (1234).toLocaleString('en-KE'));
    expect(await intlUsed(page), 'positive control').toEqual(['toLocaleString']);
    const used: Record<string, string[]> = {};
    for (const path of [
      '/',
      '/shop',
      '/shop?filter=brand',
      '/shop?search=mango',
      '/flavors/mango',
      '/shop/mango-bottle',
      '/shop/mango-bottle/order',
      '/contact',
      '/delivery',
      '/track-order',
      `/track-order/${order.tracking_number}`,
    ]) {
      await page.goto(`${shop.url}${path}`);
      await waitForHydration(page);
      await page.waitForLoadState('networkidle');
      const here = await intlUsed(page);
      if (here.length > 0) used[path] = here;
    }
    expect(used).toEqual({});
  });
});

describe('a first visit of the staff panel', () => {
  /** Scripts of a visit so far: bytes over the network, and files. */
  /** @param without those that are loaded once the screen is shown */
  async function scriptsOf(page: Page, without?: RegExp) {
    const loaded = (await page.requests()).filter(
      (request) => scripts.test(request.url()) && !without?.test(request.url()),
    );
    const sizes = await Promise.all(loaded.map((request) => request.sizes()));
    const bytes = sizes.reduce((sum, size) => sum + size.responseHeadersSize + size.responseBodySize, 0);
    return { bytes, files: loaded.length };
  }

  story('loads little code to sign in', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/admin/login`);
    await page.getByRole('button', { name: 'Sign In', exact: true }).waitFor();
    const { bytes, files } = await scriptsOf(page);
    expect(bytes).toBeLessThan(150_000);
    expect(files).toBeLessThanOrEqual(12);
  });

  story(
    'reads the orders while the code is loading, and loads rarely used parts on demand',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport: phone });
      for (const name of ['Njeri First', 'Njeri Second']) await placeOrder(shop, name);
      const { order_number } = await placeOrder(shop, 'Njeri Cold');
      await enterAsStaff(shop, page);
      const code = await delayResponses(page, scripts);
      const reads: string[] = [];
      page.on('request', (request) => {
        const wanted = `${request.url()} ${request.postData() ?? ''}`;
        // The notice of orders to decide about has a search of its own.
        if (wanted.includes('/rpc/search_orders') && !wanted.includes('to_decide')) reads.push(wanted);
      });
      const answered = page.waitForResponse('**/rpc/search_orders*');
      await page.goto(`${shop.url}/admin/orders`, { waitUntil: 'commit' });
      const answer = await answered;
      await answer.finished();
      // A page's own calls have an Origin header, as those of other sites.
      expect(answer.headers()['content-encoding']).toBe('br');
      code.release();
      await page.getByRole('link', { name: `View ${order_number}` }).waitFor();
      // The screen has taken that answer instead of asking again.
      expect(reads).toHaveLength(1);
      await page.getByTitle('Live: changes appear by themselves').waitFor();
      await page.waitForLoadState('networkidle');
      const { bytes, files } = await scriptsOf(page, /\/(after-first-screen|device-notifications)-/);
      expect(bytes).toBeLessThan(210_000);
      expect(files).toBeLessThanOrEqual(20);
      await page.getByRole('link', { name: `View ${order_number}` }).tap();
      await page
        .getByRole('dialog')
        .getByRole('heading', { name: `Order ${order_number}` })
        .waitFor();
    },
  );
});

const isHeldBack = (image: Element) => getComputedStyle(image).display === 'none';
const isFetched = (image: Element) => (image as HTMLImageElement).currentSrc !== '';

/** Runs in the page: sums its layout shifts, as Lighthouse does, in `window.layoutShift`. */
function sumLayoutShifts(): void {
  const measured = window as unknown as { layoutShift: number };
  measured.layoutShift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as (PerformanceEntry & {
      value: number;
      hadRecentInput: boolean;
    })[])
      if (!entry.hadRecentInput) measured.layoutShift += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
}

/** Runs in the page: scrolls to its end by half screens, each of which is painted. */
async function scrollThrough(): Promise<void> {
  for (let top = 0; top < document.documentElement.scrollHeight; top += innerHeight / 2) {
    scrollTo(0, top);
    await new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)));
  }
}
