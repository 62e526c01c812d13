// Beyond a first visit: paying later, ordering again, sharing a link, search engines, offline use,
// and manual payment.
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForHydration } from '../../browser.ts';
import { richResultErrors } from '../../rich-result-issues.ts';
import {
  amina,
  fillOrder,
  openOrderDialog,
  order,
  payButton,
  placeOrderButton,
  trackingNumberIn,
} from '../../shopper.ts';
import { asOwner, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';
import { twoVersionsOf } from '../../two-versions.ts';

openShopForStories();
const viewports = [
  ['on a phone', phone, 1],
  ['on a desktop', desktop, 2],
] as const;

const storedItem = (page: Page, key: string) => page.evaluate((name) => localStorage.getItem(name), key);

describe.each(viewports)('%s', (_, viewport, which) => {
  story(
    "an unpaid order is paid later from the customer's own link, with another person's phone",
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      await order(page, shop.url, 'passion-bottle', { ...amina, phone: `071100660${which}` });
      const number = await trackingNumberIn(page);
      const { accessKey } = JSON.parse((await storedItem(page, 'jani.orders')) ?? '[]')[0];
      const { page: friend } = await newVisitor({ viewport });
      await friend.goto(`${shop.url}/track-order/${number}?key=${accessKey}`);
      await friend.getByRole('heading', { name: /^Payment due/ }).waitFor();
      await expectAccessible(friend, 'an unpaid order');
      await friend.getByRole('button', { name: 'Pay now' }).click();
      const field = dialogOf(friend).getByLabel('M-PESA phone number');
      expect(await field.inputValue()).toBe(`071100660${which}`);
      await field.fill(`072200660${which}`);
      await payButton(friend).click();
      await dialogOf(friend).getByRole('button', { name: 'Track Your Order' }).click();
      await friend.getByText('Paid with M-PESA').waitFor();
    },
  );

  story(
    'the last order is offered again, with the remembered details, until it is forgotten',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      await openOrderDialog(page, shop.url, 'mango-can');
      await dialogOf(page).getByRole('button', { name: 'One more' }).click();
      const shopper = { ...amina, phone: `071100670${which}` };
      await fillOrder(page, shopper);
      await dialogOf(page).getByLabel('Remember my details on this device').check();
      await expectAccessible(page, 'the order dialog');
      await placeOrderButton(page).click();
      await payButton(page).click();
      await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).waitFor();
      const number = await trackingNumberIn(page);

      await page.goto(shop.url);
      const last = page.getByRole('region', { name: /^Your (last order|orders)$/ });
      await last.getByText(/^2 × /).waitFor();
      await expectAccessible(page, 'home with the last order');
      await page.goto(`${shop.url}/shop`);
      expect(await last.getByRole('link', { name: 'Track' }).getAttribute('href')).toBe(
        `/track-order/${number}`,
      );
      await last.getByRole('link', { name: 'Order again' }).click();
      await dialogOf(page).getByLabel(/^Name/).waitFor();
      await expect.poll(() => dialogOf(page).getByLabel(/^Name/).inputValue()).toBe(shopper.name);
      expect(
        await dialogOf(page)
          .getByLabel(/^Delivery location/)
          .inputValue(),
      ).toBe(shopper.location);
      expect(await dialogOf(page).getByRole('status').first().textContent()).toBe('2');
      // Orders the same again with one tap.
      await placeOrderButton(page).click();
      await payButton(page).waitFor();
      expect(await trackingNumberIn(page)).not.toBe(number);

      await page.goto(`${shop.url}/track-order`);
      await last.getByRole('button', { name: 'Forget my orders on this device' }).click();
      await last.getByText(/^Forget all orders on this device/).waitFor();
      await expectAccessible(page, 'asked whether to forget');
      await last.getByRole('button', { name: 'Forget my orders on this device' }).click();
      await page.locator(':focus', { hasText: 'Your orders are forgotten on this device.' }).waitFor();
      expect(await storedItem(page, 'jani.orders')).toBeNull();
      await page.goto(shop.url);
      await page.getByRole('heading', { name: 'Top Picks' }).waitFor();
      expect(await last.count()).toBe(0);
    },
  );
});

story('a customer is remembered only on request, until they withdraw', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  await order(page, shop.url, 'mango-can', { ...amina, phone: '0711006751' });
  expect(await storedItem(page, 'jani.customer')).toBeNull();
  await dialogOf(page).getByRole('button', { name: 'Close' }).click();
  await page.goto(`${shop.url}/shop/mango-bottle`);
  await page.getByRole('button', { name: 'Order Now' }).click();
  const name = dialogOf(page).getByLabel(/^Name/);
  await expect.poll(() => name.inputValue()).toBe(amina.name);
  await fillOrder(page, { ...amina, phone: '0711006752' });
  const choice = dialogOf(page).getByLabel('Remember my details on this device');
  await choice.check();
  await placeOrderButton(page).click();
  await payButton(page).waitFor();
  expect(await storedItem(page, 'jani.customer')).toContain(amina.name);
  await page.goto(`${shop.url}/shop/mango-flask`);
  await page.getByRole('button', { name: 'Order Now' }).click();
  await dialogOf(page).getByRole('button', { name: 'Forget my details' }).click();
  await expect.poll(() => name.inputValue()).toBe('');
  expect(await storedItem(page, 'jani.customer')).toBeNull();
});

story('links are shared by the phone or copied, never with the access key', async ({ newVisitor }) => {
  const { page, context } = await newVisitor();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.addInitScript(() => Object.defineProperty(navigator, 'share', { value: undefined }));
  await page.goto(`${shop.url}/shop/mango-can`);
  await page.getByRole('button', { name: 'Share' }).click();
  await page.getByText('Link copied').waitFor();
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  expect(await copied()).toBe(`${shop.url}/shop/mango-can`);

  await order(page, shop.url, 'mango-can', { ...amina, phone: '0711006801' });
  const number = await trackingNumberIn(page);
  const { accessKey } = JSON.parse((await storedItem(page, 'jani.orders')) ?? '[]')[0];
  await page.goto(`${shop.url}/track-order/${number}?key=${accessKey}`);
  await page.getByText('Westlands, Mpaka Road').waitFor();
  await page.getByRole('button', { name: 'Share tracking link' }).click();
  await page.getByText('Link copied').waitFor();
  expect(await copied()).toBe(`${shop.url}/track-order/${number}`);

  const { page: other } = await newVisitor();
  await other.addInitScript(() => {
    Object.defineProperty(navigator, 'share', {
      value: async (what: unknown) => Object.assign(window, { shared: what }),
    });
  });
  await other.goto(`${shop.url}/shop/mango-can`);
  await other.getByRole('button', { name: 'Share' }).click();
  await other.waitForFunction(() => 'shared' in window);
  expect(await other.evaluate(() => (window as unknown as { shared: unknown }).shared)).toMatchObject({
    url: `${shop.url}/shop/mango-can`,
  });
});

describe('search engines and shared links', () => {
  const read = async (path: string) => {
    const answer = await fetch(`${shop.url}${path}`);
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };
  const attribute = (html: string, pattern: RegExp) => pattern.exec(html)?.[1]?.replaceAll('&amp;', '&');
  const meta = (html: string, name: string) =>
    attribute(html, new RegExp(`<meta (?:property|name)="${name}" content="([^"]*)"`));
  const canonical = (html: string) => attribute(html, /<link rel="canonical" href="([^"]*)"/);
  const structured = (html: string): { '@type': string; [property: string]: unknown }[] =>
    [...html.matchAll(/<script type="application\/ld\+json">([\s\S]*?)<\/script>/g)].flatMap(([, json]) =>
      JSON.parse(json ?? ''),
    );
  const ofType = (html: string, type: string) => structured(html).find((data) => data['@type'] === type);

  story('every page has one canonical URL', async () => {
    for (const [path, address] of [
      ['/', '/'],
      ['/?utm_source=mail', '/'],
      ['/shop', '/shop'],
      ['/shop?search=mango&category=Mango&sort=price', '/shop'],
      ['/shop?filter=brand', '/shop'],
      ['/shop?category=Mango', '/flavors/mango'],
      ['/shop?brand=Embu+Fresh&sort=price', '/brands/embu-fresh'],
      ['/shop?brand=Embu+Fresh&category=Mango', '/shop'],
      ['/flavors/mango?ref=x', '/flavors/mango'],
      ['/brands/embu-fresh/', '/brands/embu-fresh'],
      ['/shop/mango-can?ref=x', '/shop/mango-can'],
      ['/shop/', '/shop'],
      ['/shop/mango-can/?ref=x', '/shop/mango-can'],
      ['/delivery', '/delivery'],
      ['/contact', '/contact'],
      ['/track-order', '/track-order'],
    ] as const) {
      expect(canonical((await read(path)).text), path).toBe(`${shop.url}${address}`);
    }
    const order = (await read('/track-order/JJ-20200101-1000')).text;
    expect([canonical(order), meta(order, 'robots')]).toEqual([undefined, 'noindex']);
    expect(meta((await read('/no-such-page')).text, 'robots')).toBe('noindex');
  });

  story('a shared product has a preview image of the stated size', async () => {
    const { text } = await read('/shop/mango-can');
    const picture = meta(text, 'og:image') ?? '';
    expect(picture).toMatch(new RegExp(`^${shop.url}/share/mango-can\\.jpg\\?v=[a-z0-9]+$`));
    expect(meta(text, 'og:title')).toBe('Dusk Energy Mango, 330 ml, for KSh 680.00 in Nairobi · Jani Juice');
    expect(meta(text, 'og:description')).toMatch(
      /^Ripe mango with bubbles, for the last matatu home\. 330 ml for KSh 680\.00, delivered ice-cold in Nairobi/,
    );
    const square = [...text.matchAll(/<meta property="og:image" content="([^"]*)"/g)][1]?.[1] ?? '';
    expect(square).toContain('shape=square');
    const { width, height } = await sharp(
      Buffer.from(await (await fetch(square.replaceAll('&amp;', '&'))).arrayBuffer()),
    ).metadata();
    expect([width, height]).toEqual([1200, 1200]);
    expect(meta(text, 'twitter:card')).toBe('summary_large_image');
    expect(meta(text, 'og:url')).toBe(`${shop.url}/shop/mango-can`);
    const answer = await fetch(picture);
    expect(answer.headers.get('content-type')).toBe('image/jpeg');
    expect(answer.headers.get('cache-control')).toContain('immutable');
    const own = `${shop.url}/art/share.jpg`;
    expect(meta((await read('/contact')).text, 'og:image')).toBe(own);
    for (const shared of [answer, await fetch(own)]) {
      const { width, height } = await sharp(Buffer.from(await shared.arrayBuffer())).metadata();
      expect([String(width), String(height)], shared.url).toEqual([
        meta(text, 'og:image:width'),
        meta(text, 'og:image:height'),
      ]);
    }
  });

  story('structured data names the products, the seller and the breadcrumb', async () => {
    const product = (await read('/shop/mango-can')).text;
    expect(ofType(product, 'Product')).toMatchObject({
      sku: 'mango-can',
      offers: {
        priceCurrency: 'KES',
        price: expect.stringMatching(/^\d+\.\d\d$/),
        availability: 'https://schema.org/InStock',
      },
    });
    expect(ofType(product, 'BreadcrumbList')).toMatchObject({
      itemListElement: [
        { position: 1 },
        { item: `${shop.url}/shop` },
        { item: `${shop.url}/flavors/mango` },
        { item: `${shop.url}/shop/mango-can` },
      ],
    });
    expect(ofType((await read('/shop/tamarind-flask')).text, 'Product')).toMatchObject({
      offers: { availability: 'https://schema.org/OutOfStock' },
    });
    const flavor = (await read('/flavors/mango')).text;
    expect(ofType(flavor, 'CollectionPage')).toMatchObject({
      url: `${shop.url}/flavors/mango`,
      mainEntity: { '@type': 'ItemList', numberOfItems: 3 },
    });
    expect(ofType(flavor, 'BreadcrumbList')).toMatchObject({
      itemListElement: [{ position: 1 }, { item: `${shop.url}/shop` }, { item: `${shop.url}/flavors/mango` }],
    });
    const home = (await read('/')).text;
    expect(ofType(home, 'Store')).toMatchObject({ name: 'Jani Juice', telephone: '+254700000000' });
    expect(ofType(home, 'WebSite')).toMatchObject({
      potentialAction: { target: { urlTemplate: `${shop.url}/shop?search={search_term_string}` } },
    });
  });

  story('the sitemap lists the current pages, and robots.txt links to it', async () => {
    const sitemap = await read('/sitemap.xml');
    expect(sitemap.headers.get('content-type')).toMatch(/^application\/xml/);
    const places = [...sitemap.text.matchAll(/<loc>([^<]*)<\/loc>/g)].map(([, place]) => place);
    for (const path of [
      '/',
      '/shop',
      '/delivery',
      '/contact',
      '/track-order',
      '/shop/mango-can',
      '/flavors/pineapple-mint',
      '/brands/dusk-energy',
    ]) {
      expect(places).toContain(`${shop.url}${path}`);
    }
    expect(sitemap.text).toMatch(/<lastmod>\d{4}-\d\d-\d\dT[\d:.]+Z<\/lastmod>/);
    for (const place of places) expect((await fetch(place ?? '')).status, place).toBe(200);

    await asOwner(shop, '/rest/v1/products?slug=eq.blackcurrant-can', 'PATCH', { is_active: false });
    await until(
      async () => !(await read('/sitemap.xml')).text.includes('blackcurrant-can<'),
      'the sitemap leaves out what is not sold',
      2000,
    );
    const robots = (await read('/robots.txt')).text;
    expect(robots).toContain(`Sitemap: ${shop.url}/sitemap.xml`);
    for (const path of ['/admin', '/api/', '/rest/', '/auth/', '/functions/']) {
      expect(robots).toContain(`Disallow: ${path}\n`);
    }
  });

  story('no page of the sitemap breaks a rule of rich results', async () => {
    const places = [...(await read('/sitemap.xml')).text.matchAll(/<loc>([^<]*)<\/loc>/g)].map(
      ([, place]) => place,
    );
    const found = new Set<string>();
    for (const place of places) {
      for (const data of structured(await (await fetch(place ?? '')).text())) {
        found.add(data['@type']);
        expect(await richResultErrors(data), `${data['@type']} of ${place}`).toEqual([]);
      }
    }
    expect([...found].sort()).toEqual(['BreadcrumbList', 'CollectionPage', 'Product', 'Store', 'WebSite']);
  });

  story("the shop can be installed on a phone's home screen", async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(shop.url);
    const address = await page.getAttribute('link[rel="manifest"]', 'href');
    const answer = await fetch(new URL(address ?? '', shop.url));
    expect(answer.headers.get('content-type')).toMatch(/^application\/manifest\+json/);
    const manifest = await answer.json();
    expect(manifest).toMatchObject({
      id: '/',
      name: 'Jani Juice',
      start_url: '/',
      scope: '/',
      display: 'standalone',
    });
    for (const { src, sizes, type } of manifest.icons) {
      const icon = await fetch(new URL(src, shop.url));
      expect(icon.headers.get('content-type'), src).toBe(type);
      if (type !== 'image/png') continue;
      const { width, height } = await sharp(Buffer.from(await icon.arrayBuffer())).metadata();
      expect(`${width}x${height}`).toBe(sizes);
    }
    expect(manifest.icons).toContainEqual(expect.objectContaining({ sizes: '512x512', purpose: 'maskable' }));
    for (const { url } of manifest.shortcuts) expect((await fetch(new URL(url, shop.url))).status).toBe(200);
    // Chrome's own installability errors.
    const session = await page.context().newCDPSession(page);
    const { errors } = await session.send('Page.getAppManifest');
    expect(errors).toEqual([]);
    const worker = await fetch(`${shop.url}/sw.js`);
    expect(worker.headers.get('cache-control')).toBe('no-cache');
    expect(worker.headers.get('content-type')).toMatch(/javascript/);
  });
});

describe('offline', () => {
  const offline = {
    allowServiceWorker: true,
    // Images that were not scrolled into view are not stored, and their absence is not an error.
    expectedFailures:
      /ERR_INTERNET_DISCONNECTED|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_FAILED .*\/art\/|Failed to fetch|WebSocket|503/,
  };
  const waitUntilCached = (page: Page, path: string) =>
    until(
      () => page.evaluate(async (own) => (await caches.match(own)) !== undefined, path),
      `${path} is cached`,
    );
  /** Without a network its registration would fail, which the console reports. */
  const waitForWorker = (page: Page) =>
    page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  const notice = (page: Page) => page.getByRole('status').filter({ hasText: 'You are offline.' });

  story('the visited catalogue can be read, and nothing else is stored', async ({ newVisitor }) => {
    const { page, context } = await newVisitor(offline);
    await page.goto(`${shop.url}/shop`);
    await page.getByRole('heading', { name: 'Shop all drinks' }).waitFor();
    // The service worker loads nothing while the first page loads.
    expect(await page.evaluate(() => navigator.serviceWorker.getRegistration().then(Boolean))).toBe(false);
    await page.locator('a[href="/shop/mango-can"]').first().click();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await waitUntilCached(page, '/shop/mango-can');
    for (const path of ['/', '/shop']) await waitUntilCached(page, path);
    await waitForWorker(page);
    // With a network, pages are current.
    await asOwner(shop, '/rest/v1/products?slug=eq.mango-can', 'PATCH', { price: 88_800 });
    await until(
      async () => (await (await fetch(`${shop.url}/shop/mango-can`)).text()).includes('888.00'),
      'the price is new',
    );
    await page.reload();
    await page.getByText('KSh 888.00').first().waitFor();

    // A part of the list does not replace it.
    await page.goto(`${shop.url}/shop?category=Mango`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.goto(`${shop.url}/shop/mango-can`);

    await context.setOffline(true);
    await notice(page).waitFor();
    await page.reload();
    await page.getByText('KSh 888.00').first().waitFor();
    await notice(page)
      .getByText(/as of \d\d:\d\d/)
      .waitFor();
    await expectAccessible(page, 'a cached page');
    await page.goto(`${shop.url}/shop`);
    await page.getByRole('heading', { name: 'Shop all drinks' }).waitFor();
    await notice(page).waitFor();
    await page.locator('a[href="/shop/watermelon-flask"]').first().waitFor();
    expect(
      await page
        .locator('img')
        .filter({ visible: true })
        .first()
        .evaluate((image: HTMLImageElement) => image.decode().then(() => image.naturalWidth > 0)),
    ).toBe(true);

    await page.goto(`${shop.url}/shop/watermelon-flask`);
    await page.getByRole('heading', { name: 'No network, no juice. Yet.' }).waitFor();
    await page.getByRole('link', { name: 'Mango can' }).waitFor();
    await expectAccessible(page, 'a page that is not cached');
    // It comes back without a press.
    await context.setOffline(false);
    await page.getByRole('button', { name: 'Order Now' }).waitFor();

    // The same when the phone has a network but the shop is unreachable.
    await shop.kill();
    await page.goto(`${shop.url}/shop`);
    const unreachable = page.getByRole('status').filter({ hasText: 'The shop cannot be reached right now.' });
    await unreachable.waitFor();
    // The window stays wide: with a larger image in memory, Chromium would not use the one a phone's page preloads.
    await page.setViewportSize(desktop);
    await page.evaluate(() => window.scrollTo(0, 600));
    const box = await unreachable.boundingBox();
    const home = await page
      .getByRole('banner')
      .getByRole('link', { name: 'Home', exact: true })
      .boundingBox();
    expect(home?.y, 'the header begins under the notice').toBeGreaterThanOrEqual(box?.height ?? 0);
    await shop.restart();
    await page.getByRole('button', { name: 'Try again' }).click();
    await unreachable.waitFor({ state: 'detached' });

    const everything = await page.evaluate(async () => {
      const names = await caches.keys();
      const stores = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
      return stores.flat().map(({ url }) => new URL(url).pathname);
    });
    expect(
      everything.filter((path) => /^\/(admin|rest|auth|functions|realtime|api)\b|\.data$/.test(path)),
    ).toEqual([]);
  });

  story(
    'a new version replaces the one a page was opened with without losing a tap',
    async ({ newVisitor }) => {
      const front = await twoVersionsOf(shop.url);
      const { page, context } = await newVisitor({
        ...offline,
        expectedFailures: new RegExp(`404 \\(Not Found\\)|${offline.expectedFailures.source}`),
      });
      try {
        await page.addInitScript(() => {
          navigator.serviceWorker?.addEventListener('controllerchange', () => {
            document.documentElement.dataset.worker = 'new';
          });
        });
        await page.goto(`${front.url}/shop`);
        await waitForHydration(page);
        await page.locator('a[href="/shop/mango-can"]').first().click();
        await waitUntilCached(page, '/shop/mango-can');
        await waitForWorker(page);
        const filesOfTheOldOne = () =>
          page.evaluate(
            () =>
              performance.getEntriesByType('resource').filter(({ name }) => name.includes('/assets/old/'))
                .length,
          );
        expect(await filesOfTheOldOne()).toBeGreaterThan(0);

        front.replace();
        // The new build removed the dialog's code, so the form opens as a page.
        await page.getByRole('button', { name: 'Order Now' }).click();
        await page.waitForURL('**/shop/mango-can/order?quantity=1');
        await page.getByRole('heading', { name: 'Your order' }).waitFor();

        await page.goto(`${front.url}/shop/mango-can`);
        await page.locator('[data-worker="new"]').waitFor({ state: 'attached' });
        expect(await filesOfTheOldOne()).toBe(0);
        await page.getByRole('button', { name: 'Order Now' }).click();
        await dialogOf(page).getByLabel(/^Name/).waitFor();
        await context.setOffline(true);
        await page.reload();
        await notice(page).waitFor();
        await page.getByRole('button', { name: 'Order Now' }).waitFor();
      } finally {
        await page.close();
        front.close();
      }
    },
  );

  story('a tracked order can be read without personal data', async ({ newVisitor }) => {
    const { page, context } = await newVisitor(offline);
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0711006901' });
    await payButton(page).click();
    await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).click();
    await page.getByText('Paid with M-PESA').waitFor();
    const { pathname } = new URL(page.url());
    await waitUntilCached(page, pathname);
    await waitUntilCached(page, '/art/mango-can-240.avif');
    await waitForWorker(page);
    expect(await page.evaluate(async (path) => (await caches.match(path))?.text(), pathname)).not.toContain(
      'Mpaka',
    );
    await context.setOffline(true);
    await page.reload();
    await page.getByText('Paid with M-PESA').waitFor();
    await notice(page).waitFor();
    await context.setOffline(false);
    await page.getByText('Westlands, Mpaka Road').waitFor();
    await notice(page).waitFor({ state: 'detached' });
  });

  story(
    'an order just paid can be read by every link to it, before a second page was opened',
    async ({ newVisitor }) => {
      const { page, context } = await newVisitor({
        ...offline,
        // Code that the first page did not need is not stored; the page then stays as it is.
        expectedFailures: new RegExp(`ERR_FAILED .*/assets/|${offline.expectedFailures.source}`),
      });
      await order(page, shop.url, 'mango-can', { ...amina, phone: '0711006902' });
      const number = await trackingNumberIn(page);
      await payButton(page).click();
      await dialogOf(page).getByText('Payment received').waitFor();
      await waitForWorker(page);
      await until(
        () =>
          page.evaluate(
            async (path) => (await (await caches.match(path))?.text())?.includes('Paid with M-PESA') === true,
            `/track-order/${number}`,
          ),
        'the paid order is cached',
      );
      await context.setOffline(true);
      const key = '0123456789abcdef0123456789abcdef';
      for (const link of [
        `/track-order/${number}?key=${key}`,
        `/track-order/${number}/receipt?key=${key}`,
        `/t/${number.slice(3)}-AbCdEfGhIjKlMnOpQrStUv`,
        `/track-order?tracking=${number}`,
      ]) {
        await page.goto(shop.url + link);
        await page.getByText('Paid with M-PESA').waitFor();
        await notice(page).waitFor();
      }
    },
  );

  story('an order cannot be placed: the form says so and keeps the typed text', async ({ newVisitor }) => {
    const { page, context } = await newVisitor(offline);
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: '0711006902' });
    await context.setOffline(true);
    await placeOrderButton(page).click();
    await dialogOf(page).getByText('You are offline', { exact: true }).waitFor();
    expect(
      await dialogOf(page)
        .getByLabel(/^Delivery location/)
        .inputValue(),
    ).toBe(amina.location);
    await expectAccessible(page, 'an order without a network');
    await context.setOffline(false);
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
  });

  story(
    'a payment does not start offline, and the dialog says that no prompt was sent',
    async ({ newVisitor }) => {
      const { page, context } = await newVisitor(offline);
      await order(page, shop.url, 'mango-flask', { ...amina, phone: '0711006905' });
      let requests = 0;
      page.on('request', (request) => {
        if (request.postData()?.includes('"initiate"')) requests++;
      });
      await waitForWorker(page);
      await context.setOffline(true);
      await payButton(page).click();
      await dialogOf(page).getByText('No prompt was sent.').waitFor();
      await expectAccessible(page, 'a payment that did not start');
      await context.setOffline(false);
      await dialogOf(page).getByText('No prompt was sent.').waitFor({ state: 'detached' });
      expect(requests).toBe(0);
      await payButton(page).click();
      await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
    },
  );

  story('a payment continues while the phone is offline, and the dialog says so', async ({ newVisitor }) => {
    const { page, context } = await newVisitor({
      expectedFailures: new RegExp(`could not be fetched; polling again|${offline.expectedFailures.source}`),
    });
    await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0711006903' });
    const pending = { success: true, payment: { status: 'processing', result_code: null } };
    const functionUrl = '**/functions/v1/mobile-money';
    let isPending = true;
    await page.route(functionUrl, (route) =>
      isPending && route.request().postDataJSON()?.action === 'check-status'
        ? route.fulfill({ json: pending })
        : route.fallback(),
    );
    await payButton(page).click();
    const dialog = dialogOf(page);
    await dialog.getByText('Waiting for M-PESA to confirm…').waitFor();
    await context.setOffline(true);
    const shown = dialog.getByRole('status');
    await shown.getByText('You are offline.').waitFor();
    await shown.getByText(/your payment is not lost/).waitFor();
    await expectAccessible(page, 'a payment without a network');
    isPending = false;
    await context.setOffline(false);
    await dialog.getByRole('heading', { name: 'Payment received' }).waitFor();
  });
});

describe('paying by hand', () => {
  const setTill = (till_number: string, paybill_number = '') =>
    asOwner(shop, '/rest/v1/store_settings?id=eq.true', 'PATCH', { till_number, paybill_number });
  story('is offered where prompts are unavailable, and staff confirm it', async ({ newVisitor }) => {
    const { page, context } = await newVisitor();
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.goto(`${shop.url}/shop/passion-bottle`);
    await setTill('5123456', '400200');
    await until(
      async () => (await (await fetch(`${shop.url}/shop/passion-bottle`)).text()).includes('5123456'),
      'the pages know the till',
    );
    const shopper = { ...amina, name: 'Tabitha Till', phone: '0711001037' };
    await order(page, shop.url, 'passion-bottle', shopper);
    const dialog = dialogOf(page);
    await dialog.getByRole('button', { name: 'Pay another way' }).click();
    await dialog.getByRole('heading', { name: 'Pay another way' }).waitFor();
    await expectAccessible(page, 'paying another way');
    await dialog.getByRole('button', { name: 'Back to the prompt' }).click();
    await payButton(page).click();
    await dialog.getByText('Customer not reachable').waitFor();
    await dialog.getByRole('heading', { name: 'Or pay without the prompt' }).waitFor();
    await expectAccessible(page, 'a phone that cannot be reached');
    const number = await trackingNumberIn(page);
    for (const [what, text] of [
      ['till number', '5123456'],
      ['account number', number],
      ['amount', '1201'],
    ] as const) {
      await dialog
        .getByRole('button', { name: `Copy ${what}` })
        .first()
        .click();
      await dialog.getByText(`Copied ${what}`).first().waitFor({ state: 'attached' });
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      if (what === 'amount') expect(copied).toMatch(/^\d+$/);
      else expect(copied).toBe(text);
    }
    const charge = await page.evaluate(() => navigator.clipboard.readText());
    await dialog.getByRole('button', { name: 'Try Again' }).click();
    await dialog.getByRole('button', { name: 'Pay another way' }).click();
    await dialog.getByRole('button', { name: 'I have paid: track my order' }).click();
    await page.waitForURL(`**/track-order/${number}`);
    await page.getByRole('heading', { name: 'Waiting for your payment' }).waitFor();
    await page.getByText(/Please don't pay again/).waitFor();
    // Also after a reload. Only customers who did not choose to pay later see the payment dialog.
    await page.reload();
    await page.getByRole('heading', { name: 'Waiting for your payment' }).waitFor();
    const offering = await context.newPage();
    await offering.goto(`${shop.url}/shop/passion-bottle`);
    await offering.getByRole('button', { name: 'Pay now' }).click();
    await payButton(offering).waitFor();
    await page.goto(`${shop.url}/track-order/${number}`);
    await page.getByRole('heading', { name: 'Payment due: KSh 1,201.00' }).waitFor();
    await page.getByText('Pay another way').click();
    await page.getByText('Buy Goods', { exact: true }).waitFor();
    await expectAccessible(page, 'an unpaid order that may be paid by hand');

    const { page: panel } = await newVisitor({ viewport: desktop, expectedFailures: /409 \(Conflict\)/ });
    await enterAsStaff(shop, panel);
    await panel.goto(`${shop.url}/admin/orders?search=Tabitha`);
    await panel
      .getByRole('link', { name: /ORD-\d/ })
      .first()
      .click();
    const whole = panel.getByRole('dialog');
    await whole.getByRole('button', { name: 'Confirm till payment' }).click();
    const form = whole.getByRole('form', { name: 'Confirm till payment' });
    await form.getByLabel(/^M-PESA receipt/).fill('short');
    await form.getByRole('button', { name: 'Confirm payment' }).click();
    await form.getByText('An M-PESA receipt has ten letters and digits').waitFor();
    await form.getByText('Please enter the amount in whole shillings').waitFor();
    await expectAccessible(panel, 'a till payment that is mistyped');
    await form.getByLabel(/^M-PESA receipt/).fill('ukl3ab12cd');
    await form.getByLabel(/^Amount that came/).fill(charge);
    await form.getByText('M-PESA has not reported this receipt (yet).').waitFor();
    await form.getByRole('button', { name: 'Confirm payment' }).click();
    await form.getByRole('button', { name: 'Confirm it all the same' }).click();
    await panel.getByText('The payment is confirmed: the order is paid').waitFor();
    await whole.getByText('By till · Receipt UKL3AB12CD').waitFor();
    await page.getByText('Paid with M-PESA').waitFor();
    await dialogOf(offering).getByRole('heading', { name: 'Payment received' }).waitFor();
    expect(await payButton(offering).count(), 'a paid order has no Pay button').toBe(0);
    await expectAccessible(panel, 'a till payment that is confirmed');
  });

  story('is not offered where the shop has no till', async ({ newVisitor }) => {
    await setTill('');
    await until(
      async () => !(await (await fetch(`${shop.url}/shop/passion-bottle`)).text()).includes('5123456'),
      'the pages know of no till',
    );
    const { page } = await newVisitor();
    await order(page, shop.url, 'passion-bottle', { ...amina, phone: '0712001037' });
    await payButton(page).click();
    await dialogOf(page).getByText('Customer not reachable').waitFor();
    expect(
      await dialogOf(page)
        .getByText(/Pay another way|without the prompt/)
        .count(),
    ).toBe(0);
  });
});
