// A Chromium for the stories, and visitors in it whose console must stay clean.
import {
  type Browser,
  type BrowserContext,
  chromium,
  type Locator,
  type Page,
  type Route,
} from 'playwright-core';
import { requireBrowser } from '../scripts/tests/ensure-programs.mjs';
import { until } from '../scripts/tests/open-shop.ts';

export const phone = { width: 360, height: 740 };
export const desktop = { width: 1440, height: 900 };

export function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: requireBrowser(),
    args: [
      '--no-sandbox',
      '--disable-gpu',
      // Letters have the widths that they have on a phone; the headless shell alone would round each to whole pixels.
      '--font-render-hinting=none',
      // Faster than software compositing, and without a spare process for other sites.
      '--disable-gpu-compositing',
      '--disable-site-isolation-trials',
      '--disable-quic',
      // A page of a story ends before optimized code pays for its compilation: a fifth of the browser's CPU time.
      '--js-flags=--no-opt --no-maglev',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

export interface Visitor {
  page: Page;
  context: BrowserContext;
  /** Console errors and warnings from every tab of this visitor. */
  consoleErrors: string[];
  /** Texts of the toasts and alerts shown in every tab. */
  messages: string[];
  close(): Promise<void>;
}

/** Opens a page with a new browser profile. */
export async function visit(
  browser: Browser,
  options: {
    viewport?: { width: number; height: number };
    javaScriptEnabled?: boolean;
    expectedFailures?: RegExp;
    /** Allows the service worker, which stores pages for offline use. Default: false, as most stories need no second cache. */
    allowServiceWorker?: boolean;
    /** Default: reduced motion. */
    reducedMotion?: 'reduce' | 'no-preference';
    forcedColors?: 'active' | 'none';
    /** Screen pixels per CSS pixel. With 2 and half the width the page is zoomed to 200 %. */
    deviceScaleFactor?: number;
  } = {},
): Promise<Visitor> {
  const context = await browser.newContext({
    viewport: options.viewport ?? phone,
    hasTouch: (options.viewport ?? phone).width < 768,
    javaScriptEnabled: options.javaScriptEnabled ?? true,
    reducedMotion: options.reducedMotion ?? 'reduce',
    forcedColors: options.forcedColors ?? 'none',
    deviceScaleFactor: options.deviceScaleFactor ?? 1,
    locale: 'en-KE',
    timezoneId: 'Africa/Nairobi',
    serviceWorkers: options.allowServiceWorker ? 'allow' : 'block',
  });
  context.setDefaultTimeout(40_000);
  const consoleErrors: string[] = [];
  const messages: string[] = [];
  if (options.javaScriptEnabled ?? true) {
    await context.exposeBinding('recordMessage', (_, text: string) => void messages.push(text));
    await context.addInitScript(recordMessages);
  }
  const listen = (page: Page) => {
    page.on('console', (message) => {
      if (!['error', 'warning'].includes(message.type())) return;
      if (message.text() === 'Service Worker registration blocked by Playwright') return;
      const text = `${message.text()} (${message.location().url})`;
      if (!options.expectedFailures?.test(text)) consoleErrors.push(text);
    });
    page.on('pageerror', (error) => consoleErrors.push(String(error)));
  };
  context.on('page', listen);
  const page = await context.newPage();
  return {
    page,
    context,
    consoleErrors,
    messages,
    async close() {
      // A story may end while a route still fetches what it will change.
      const routed = [context, ...context.pages()];
      await Promise.all(routed.map((one) => one.unrouteAll({ behavior: 'ignoreErrors' })));
      await context.close();
    },
  };
}

/** Runs in the page: records each text of a toast or an alert once. */
function recordMessages(): void {
  const recorded = new Set<string>();
  new MutationObserver(() => {
    for (const element of document.querySelectorAll(
      '[data-sonner-toast], [role=alert], [role=alertdialog]',
    )) {
      const text = element.textContent?.trim();
      if (!text || recorded.has(text)) continue;
      recorded.add(text);
      (window as unknown as { recordMessage(text: string): void }).recordMessage(text);
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
}

export const dialogOf = (page: Page): Locator => page.getByRole('dialog');

/**
 * Waits for hydration. Before it, forms and links work as they do without JavaScript.
 * @param element one that is hydrated later than the page, because its code is loaded on use
 */
export async function waitForHydration(page: Page, element?: Locator): Promise<void> {
  await (element ?? page.locator('main').first()).waitFor({ state: 'attached' });
  const hydrated = element ?? page.locator('main').first();
  await until(
    () => hydrated.evaluate((node) => Object.keys(node).some((key) => key.startsWith('__reactFiber'))),
    'the page is hydrated',
  );
}

export const waitForAnimations = (page: Page) =>
  until(() => page.evaluate(() => document.getAnimations().length === 0), 'nothing moves');

/**
 * Delays the responses to matching requests until `release`.
 * @param from a context where a service worker answers its pages: it asks for itself, unseen by a route of a page
 */
export async function delayResponses(
  from: Page | BrowserContext,
  url: RegExp,
): Promise<{ requested: string[]; release(): void }> {
  const requested: string[] = [];
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  await from.route(url, async (route: Route) => {
    requested.push(new URL(route.request().url()).pathname);
    await released;
    await route.continue();
  });
  return { requested, release };
}
