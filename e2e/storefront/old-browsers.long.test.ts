// Browsers of the floor (`domain/browser-floor.ts`), which lack newer functions, and older ones, which get the forms without scripts.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { findNewerApis, hasNewerSyntax } from '../../scripts/checks/find-newer-features.ts';
import { currentRelease } from '../../scripts/releases/releases.mjs';
import { until } from '../../scripts/tests/open-shop.ts';
import { desktop, phone, waitForHydration } from '../browser.ts';
import { amina, fillOrder, openOrderDialog, order, payButton, placeOrderButton } from '../shopper.ts';
import { fillSignIn, makeAccount, signIn } from '../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../story.ts';

openShopForStories();
const story = storyWith({ viewport: phone });

/** Functions that `web/lib/browser/newer-apis.ts` adds. */
const added = [
  '.at()',
  '.throwIfAborted()',
  '.toSorted()',
  'AbortSignal.timeout',
  'Object.hasOwn',
  'URL.canParse',
  'crypto.randomUUID',
];

/** Functions whose absence the scripts expect. The value says how: a newer use needs the same. */
const guarded: Record<string, string> = {
  '.checkVisibility()': 'the focus of dialogs tests it',
  '.getNotifications()': 'only called where a push has arrived',
  '.requestFullscreen()': 'use-counter-mode.ts tests fullscreenEnabled',
  '.showModal()': 'native-dialog.ts tests it',
  '.showNotification()': 'device-notifications.ts tests Notification, and a push needs it',
  BroadcastChannel: 'the auth client tests it',
  'Notification.requestPermission': 'device-notifications.ts tests Notification',
  HTMLDialogElement: 'native-dialog.ts tests it',
  'PublicKeyCredential.parseCreationOptionsFromJSON': 'the auth client tests it',
  'PublicKeyCredential.parseRequestOptionsFromJSON': 'the auth client tests it',
  SharedArrayBuffer: 'the charts test it',
  createImageBitmap: 'prepare-image.ts catches its absence and decodes with an image element',
  'document.exitFullscreen': 'use-counter-mode.ts tests fullscreenElement',
  'document.fullscreenElement': 'use-counter-mode.ts reads it as absent',
  'document.fullscreenEnabled': 'use-counter-mode.ts reads it as absent',
  'document.startViewTransition': 'the router tests it',
  navigation: 'React tests it',
  'navigator.connection': 'React and offline-reading.tsx test it',
  'navigator.locks': 'use-notices.ts tests it',
  'navigator.share': 'share-button.tsx tests it and copies the link',
  'navigator.userActivation': 'sounds.ts tests it',
  'navigator.wakeLock': 'use-wake-lock.ts tests it and says so',
  reportError: 'React tests it',
  setImmediate: 'React tests it',
  'window.navigation': 'dialog-history.ts tests it',
  'window.requestIdleCallback': 'early-taps.tsx tests it',
};

/** Methods of libraries and of the page's own code with the name of a newer function. */
const namesakes = ['.check()', '.config()', '.handle()', '.in()', '.navigate()', '.toBase64()'];

/** Newer than the floor as well, and part of the platform that later code is most likely to use. */
const others = [
  'structuredClone',
  'scheduler',
  'cookieStore',
  'AbortSignal.any',
  'Promise.withResolvers',
  'Object.groupBy',
  'Array.prototype.findLast',
  'Array.prototype.toReversed',
  'Array.prototype.with',
  'HTMLElement.prototype.popover',
  'HTMLElement.prototype.showPopover',
  'HTMLElement.prototype.hidePopover',
  'HTMLElement.prototype.togglePopover',
  'HTMLElement.prototype.inert',
  'Navigator.prototype.clipboard',
  'Navigator.prototype.locks',
  'Navigator.prototype.permissions',
  'Element.prototype.setHTML',
];

const client = join(currentRelease(join(import.meta.dirname, '../..')) ?? '', 'client');
const scriptFiles = ['sw.js', ...readdirSync(join(client, 'assets')).map((name) => `assets/${name}`)].filter(
  (name) => name.endsWith('.js'),
);

describe('the built files need nothing newer than the floor', () => {
  test('functions, except those that are added or guarded', () => {
    const found = scriptFiles.flatMap((name) => findNewerApis(readFileSync(join(client, name), 'utf8')));
    expect([...new Set(found)].sort()).toEqual([...added, ...Object.keys(guarded), ...namesakes].sort());
  });

  test('syntax', async () => {
    const newer = await Promise.all(
      scriptFiles.map(
        async (name) => (await hasNewerSyntax(readFileSync(join(client, name), 'utf8'))) && name,
      ),
    );
    expect(newer.filter(Boolean)).toEqual([]);
  });

  test('conditions of style sheets', () => {
    const sheets = readdirSync(join(client, 'assets')).filter((name) => name.endsWith('.css'));
    for (const name of sheets) {
      const css = readFileSync(join(client, 'assets', name), 'utf8');
      expect(css.match(/@media[^{]*(?:width|height)\s*[<>][^{]*|@media not \([^{]*/g), name).toBeNull();
    }
  });

  test('inline scripts, which even the oldest browsers parse', async () => {
    for (const path of ['/', '/shop', '/shop/mango-bottle', '/admin/login', '/admin/orders']) {
      const html = await (await fetch(shop.url + path)).text();
      const scripts = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = '']) => script);
      expect(scripts.length).toBeGreaterThan(3);
      for (const script of scripts) {
        const isOfRouter = /__reactRouterContext|storageKey/.test(script);
        expect(findNewerApis(script)).toEqual([]);
        expect(await hasNewerSyntax(script)).toBe(false);
        if (isOfRouter) expect(script).toMatch(/^if\(!isBelowFloor\)/);
        else expect(script).not.toMatch(/=>|`|\b(?:let|const|class)\b|\?\./);
      }
    }
  });
});

test('finds what is newer in a script', async () => {
  for (const [script, name] of [
    ['AbortSignal.timeout(9)', 'AbortSignal.timeout'],
    ['AbortSignal.any([])', 'AbortSignal.any'],
    ['structuredClone({})', 'structuredClone'],
    ['window.structuredClone({})', 'structuredClone'],
    ['list.findLast(Boolean)', '.findLast()'],
    ['list.toReversed()', '.toReversed()'],
    ['Object.groupBy(list, f)', 'Object.groupBy'],
    ['Promise.withResolvers()', 'Promise.withResolvers'],
    ['sheet.showPopover()', '.showPopover()'],
    ['navigator.userAgentData', 'navigator.userAgentData'],
    ['await f()', 'top-level await'],
    ['/(?<=a)b/.test(t)', '/(?<=a)b/'],
    ['/(?<!a)b/.test(t)', '/(?<!a)b/'],
    ['new RegExp("(?<!a)b", "u")', '/(?<!a)b/u'],
    ['/a/d.exec(t)', '/a/d'],
    ['/[a--b]/v.test(t)', '/[a--b]/v'],
  ] as const)
    expect(findNewerApis(script), script).toEqual([name]);
  for (const script of [
    '/(?<year>a)|(?:b)(?=c)(?!d)\\p{L}/u',
    'a.replaceAll("b", "c")',
    'fetch("/")',
    'x.timeout',
  ])
    expect(findNewerApis(script), script).toEqual([]);
  for (const script of ['class A { #a() {} }', 'class A { static { f() } }', '/(?<=a)b/.test(t)'])
    expect(await hasNewerSyntax(script), script).toBe(true);
  expect(await hasNewerSyntax('a ||= 1; async () => { for await (const b of c) d }')).toBe(false);
});

/** Runs in the page: removes functions before any script. */
function removeApis(names: readonly string[]): void {
  const scope = window as unknown as Record<string, Record<string, unknown> & { prototype?: object }>;
  const prototypes = [
    Array,
    String,
    Object.getPrototypeOf(Uint8Array),
    Element,
    HTMLElement,
    HTMLDialogElement,
    AbortSignal,
  ].map(({ prototype }) => prototype);
  for (const name of names) {
    const [, method] = /^\.(\w+)\(\)$/.exec(name) ?? [];
    const [owner = '', ...rest] = name.split('.');
    if (method) for (const prototype of prototypes) delete prototype[method];
    else if (rest.length === 0) delete scope[name];
    else if (rest[0] === 'prototype')
      delete (scope[owner]?.prototype as Record<string, unknown>)?.[rest[1] ?? ''];
    else {
      const object = scope[owner] ?? {};
      delete object[rest[0] ?? ''];
      delete Object.getPrototypeOf(object)[rest[0] ?? ''];
    }
  }
}

const newer = [...added, ...Object.keys(guarded), ...others];
/** Nothing that a customer loads names them. */
const inPanelAlone = new Set([
  '.getNotifications()',
  '.requestFullscreen()',
  '.showNotification()',
  'Notification.requestPermission',
  'document.exitFullscreen',
  'document.fullscreenElement',
  'document.fullscreenEnabled',
  'navigator.wakeLock',
  'navigator.locks',
]);
/** Without dialogs alone: here the commands of buttons open them anyway, and both at once is more than any browser does. */
const newerThanDialogs = newer.filter((name) => !/Dialog|showModal/.test(name));

const groupCount = 8;
/** The ways to choose half of the groups. */
const halves = Array.from({ length: 2 ** groupCount }, (_, bits) =>
  Array.from({ length: groupCount }, (_, group) => group).filter((group) => (bits >> group) & 1),
).filter((chosen) => chosen.length === groupCount / 2);

/** Orders and pays in the dialogs. */
async function orderAndPay(page: Page, number: string): Promise<void> {
  await order(page, shop.url, 'mango-bottle', { ...amina, phone: number });
  await payButton(page).click();
  await page.getByRole('dialog').getByRole('heading', { name: 'Payment received' }).waitFor();
}

describe('without the functions that are newer than the floor', () => {
  story('a drink is found, ordered, paid and tracked, and links can be copied', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.addInitScript(removeApis, newerThanDialogs);
    await page.goto(`${shop.url}/shop`);
    await waitForHydration(page);
    await page.getByRole('button', { name: /^Filters/ }).click();
    await page.getByLabel('Sort by').selectOption('Price');
    await page.getByRole('button', { name: 'Show 27 drinks' }).click();
    await page.getByRole('heading', { name: 'Filters' }).waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('dialog').getByRole('link', { name: 'Delivery' }).click();
    await page.waitForURL('**/delivery');
    await orderAndPay(page, '0731007101');
    await page.getByRole('button', { name: 'Copy tracking number' }).click();
    await page.getByText('Copied', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Track Your Order' }).click();
    await page.getByText('Paid with M-PESA').waitFor();
    await page.getByRole('button', { name: /^Share/ }).click();
    await page.getByText('Link copied').waitFor();
  });

  story('staff sign in and read the orders', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await page.addInitScript(removeApis, newerThanDialogs);
    await signIn(shop, page, await makeAccount(shop));
    for (const [path, heading] of [
      ['orders', 'Orders'],
      ['products', 'Products'],
      ['settings', 'Settings'],
    ]) {
      await page.goto(`${shop.url}/admin/${path}`);
      await page.getByRole('heading', { level: 1, name: heading ?? '' }).waitFor();
    }
  });

  // Each function is missing from another half of the groups. For any two there is a group that lacks the first and has the second, so
  // that the guard of one cannot hide an unguarded use of the other.
  const inStorefront = newerThanDialogs.filter((name) => !inPanelAlone.has(name));
  const groups = Array.from({ length: groupCount }, (_, group) =>
    inStorefront.filter((_, index) => halves[index]?.includes(group)),
  );

  test('each function is missing without each other one somewhere', () => {
    expect(inStorefront.length).toBeLessThanOrEqual(halves.length);
    for (const missing of inStorefront)
      for (const other of inStorefront.filter((name) => name !== missing))
        expect(
          groups.some((group) => group.includes(missing) && !group.includes(other)),
          `${missing} without ${other}`,
        ).toBe(true);
  });

  const dialogs = newer.filter((name) => !newerThanDialogs.includes(name));
  story.for([...groups, ...dialogs.map((name) => [name])].map((missing, index) => [missing, index] as const))(
    'a drink is ordered and paid without %j',
    async ([missing, index], { newVisitor }) => {
      const { page } = await newVisitor();
      await page.addInitScript(removeApis, missing);
      await orderAndPay(page, `07310072${String(index).padStart(2, '0')}`);
    },
  );
});

/** What older browsers lack and the floor has. */
const required = [
  'TextEncoderStream',
  'WeakRef',
  'IntersectionObserver',
  'ResizeObserver',
  'AbortController',
  'Promise.any',
];

describe('below the floor', () => {
  const belowFloor = async (page: Page, missing: readonly string[]) => {
    const requested: string[] = [];
    page.on('request', (request) => /\/assets\/.*\.js$/.test(request.url()) && requested.push(request.url()));
    await page.addInitScript(removeApis, missing);
    return requested;
  };

  story('a drink is ordered and paid, and a message sent, without any script', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    const requested = await belowFloor(page, required);
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await page.getByRole('button', { name: 'Order Now' }).click();
    await page.waitForURL('**/shop/mango-bottle/order?quantity=1');
    await page.getByLabel(/^Name/).fill(amina.name);
    await page.getByLabel(/^Email/).fill(amina.email);
    await page.getByLabel(/^Phone/).fill('0731007301');
    await page.getByLabel(/^Delivery location/).fill(amina.location);
    await page.getByRole('button', { name: 'Place Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    await page.getByRole('button', { name: 'Pay now' }).click();
    await page.getByRole('button', { name: /^Pay KSh/ }).click();
    await page.waitForURL(/request=/);
    await until(async () => {
      if ((await page.getByText('Paid with M-PESA').count()) > 0) return true;
      await page.getByRole('button', { name: 'I have entered my PIN' }).click({ timeout: 1000 });
      return false;
    }, 'the payment is confirmed');
    await page.goto(`${shop.url}/contact`);
    await page.getByLabel(/First name/).fill('Amina');
    await page.getByLabel(/Last name/).fill('Otieno');
    await page.getByLabel(/Email \*/).fill(amina.email);
    await page.getByRole('textbox', { name: 'Message' }).fill('Do you deliver to Ruaka?');
    await page.getByRole('button', { name: 'Send message' }).click();
    await page.getByText('Message sent successfully!').waitFor();
    await page.goto(`${shop.url}/shop`);
    await page.getByRole('main').getByRole('searchbox').fill('ginger lemon');
    await page.keyboard.press('Enter');
    await page.waitForURL(/search=ginger/);
    expect(await page.locator('img:visible').count()).toBeGreaterThan(0);
    expect(requested).toEqual([]);
  });

  story.for(required)('no script starts without %s', async (name, { newVisitor }) => {
    const { page } = await newVisitor();
    const requested = await belowFloor(page, [name]);
    for (const path of ['/', '/shop/mango-bottle', '/track-order']) {
      await page.goto(shop.url + path);
      await page.mouse.move(1, 1);
      await page.keyboard.press('Tab');
    }
    expect(requested).toEqual([]);
    await page.goto(`${shop.url}/admin/login`);
    await page
      .getByText(/Chrome \d+, Firefox \d+/)
      .filter({ visible: true })
      .waitFor();
  });

  story('a staff screen names the browsers that it needs', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await belowFloor(page, required);
    const { page: plain } = await newVisitor({ viewport: desktop, javaScriptEnabled: false });
    for (const path of ['/admin/login', '/admin/orders', '/admin/reset-password'])
      for (const visited of [page, plain]) {
        await visited.goto(shop.url + path);
        await visited
          .getByText(/Chrome \d+, Firefox \d+ or Safari [\d.]+, or newer/)
          .filter({ visible: true })
          .waitFor();
      }
    expect(
      await page
        .getByText(/Loading/)
        .filter({ visible: true })
        .count(),
    ).toBe(0);
  });
});

describe('where a script cannot be parsed', () => {
  /** As in a browser that lacks a newer part of the syntax. */
  const breakScripts = (page: Page, files: RegExp) =>
    page.route(files, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: `${await answer.text()}\n/(?<*a)/` });
    });
  const broken = { expectedFailures: /Invalid (?:regular expression|group)/ };

  story('the order form opens as a page', async ({ newVisitor }) => {
    const { page, consoleErrors } = await newVisitor();
    await breakScripts(page, /\/assets\/(?:pieces|form-pieces|entry\.client)-.*\.js/);
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await page.getByRole('button', { name: 'Order Now' }).tap();
    // Sooner than a tap waits for scripts that are slow.
    await page.waitForURL('**/shop/mango-bottle/order?quantity=1', { timeout: 8000 });
    await page.getByLabel(/^Name/).waitFor();
    expect(consoleErrors.splice(0).every((text) => /Invalid/.test(text))).toBe(true);
  });

  story('a staff screen names the browsers that it needs', async ({ newVisitor }) => {
    const { page, consoleErrors } = await newVisitor({ viewport: desktop, ...broken });
    await breakScripts(page, /\/assets\/(?:pieces|form-pieces|entry\.client)-.*\.js/);
    await page.goto(`${shop.url}/admin/login`);
    await page
      .getByText(/Chrome \d+, Firefox \d+/)
      .filter({ visible: true })
      .waitFor();
    expect(consoleErrors.splice(0).every((text) => /Invalid/.test(text))).toBe(true);
  });
});

story('an order form that cannot be sent says so and can be closed', async ({ newVisitor }) => {
  const { page, consoleErrors } = await newVisitor({ expectedFailures: /The order could not be placed/ });
  await openOrderDialog(page, shop.url, 'mango-bottle');
  await fillOrder(page, { ...amina, phone: '0731007401' });
  await page.evaluate(() => {
    // A function that exists and throws, as an extension or a defect of the browser may.
    const { timeout } = AbortSignal;
    AbortSignal.timeout = () => {
      AbortSignal.timeout = timeout;
      throw new TypeError('not here');
    };
  });
  await placeOrderButton(page).click();
  await page.getByText('Order Failed').waitFor();
  await placeOrderButton(page).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  expect(consoleErrors).toEqual([]);
});

story('a shop in a private window takes an order without storing it', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  await page.addInitScript(() => {
    const refuse = () => {
      throw new DOMException('Access is denied for this document.', 'SecurityError');
    };
    for (const name of ['localStorage', 'sessionStorage', 'indexedDB', 'caches'])
      Object.defineProperty(window, name, { get: refuse });
    Object.defineProperty(Navigator.prototype, 'serviceWorker', { get: refuse });
    Object.defineProperty(Document.prototype, 'cookie', { get: refuse, set: refuse });
  });
  await orderAndPay(page, '0731007501');
  await page.reload();
  await waitForHydration(page);
  const account = await makeAccount(shop);
  await page.goto(`${shop.url}/admin/login`);
  await fillSignIn(page, account);
  await page.waitForURL('**/admin/dashboard');
});

describe('without cascade layers', () => {
  /** As browsers skip them: the blocks of the page's own sheet and of files, but not of the sheet without layers. */
  const skipLayers = (page: Page) =>
    page.route(/.*/, async (route) => {
      const request = route.request();
      const isSheet = request.url().endsWith('.css') && !request.url().endsWith('.flat.css');
      if (request.resourceType() !== 'document' && !isSheet) return route.continue();
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: (await answer.text()).replaceAll('@layer', '@skipped') });
    });
  const widestIcon = (page: Page) =>
    page.evaluate(() =>
      Math.max(...[...document.querySelectorAll('svg')].map((icon) => icon.getBoundingClientRect().width)),
    );

  story('pages look as they do with them', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await skipLayers(page);
    for (const path of ['/', '/shop', '/shop/mango-bottle', '/contact', '/admin/login']) {
      await page.goto(shop.url + path);
      await page.waitForFunction(
        () => getComputedStyle(document.body).backgroundColor === 'rgb(253, 248, 239)',
      );
      expect(await widestIcon(page)).toBeLessThan(64);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(phone.width);
    }
  });

  story('icons are small even without scripts', async ({ newVisitor }) => {
    const { page } = await newVisitor({ javaScriptEnabled: false });
    await skipLayers(page);
    for (const path of [
      '/',
      '/shop',
      '/shop/mango-bottle',
      '/contact',
      '/track-order',
      '/shop/mango-bottle/order',
    ]) {
      await page.goto(shop.url + path);
      expect(
        await page
          .locator('svg')
          .evaluateAll((icons) => Math.max(...icons.map((icon) => icon.getBoundingClientRect().width))),
      ).toBeLessThan(64);
    }
  });
});
