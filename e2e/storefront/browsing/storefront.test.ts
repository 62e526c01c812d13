// The storefront by keyboard alone, with a screen reader, on the smallest phone and without JavaScript; its URLs, filters
// and empty states.
import type { Locator, Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForHydration } from '../../browser.ts';
import { newsletterLinkIn, nextMail } from '../../mailbox.ts';
import { inLongRun, mainCase } from '../../selection.ts';
import {
  amina,
  fillOrder,
  openOrderDialog,
  order,
  payButton,
  placeOrderButton,
  trackingNumberIn,
} from '../../shopper.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
const longStory = inLongRun(story);

/** The browser's console message for an expected 404. */
const missingPage = /404 \(Not Found\)/;

const routes = [
  '/',
  '/shop',
  '/shop?search=whisky',
  '/shop/mango-bottle',
  '/shop/tamarind-flask',
  '/shop/no-such-drink',
  '/track-order',
  '/track-order/JJ-20200101-1000',
  '/delivery',
  '/contact',
  '/newsletter/confirm?token=none',
  '/newsletter/unsubscribe?token=none',
  '/no-such-page',
];

const isFocusInDialog = (page: Page) =>
  page.evaluate(() => document.activeElement?.closest('[role="dialog"]') !== null);
const focusedText = (page: Page) =>
  page.evaluate(() => {
    const focused = document.activeElement;
    return focused?.getAttribute('aria-label') ?? focused?.textContent?.trim() ?? '';
  });

/** Waits until an element with this accessible name has the focus. */
async function expectFocus(page: Page, called: string): Promise<void> {
  let found = '';
  const seek = async () => {
    const focused = page.locator(':focus');
    found = (await focused.count()) === 1 ? await focused.ariaSnapshot() : 'nothing';
    return found.startsWith(`- ${called}`);
  };
  await until(seek, `the focus is on the ${called}`, 20_000).catch((error) => {
    throw new Error(`${error.message}; it is on: ${found.split('\n')[0]}`);
  });
}

inLongRun(describe)('a visitor with only a keyboard', () => {
  /** Presses Tab until the element has the focus. */
  async function tabTo(page: Page, role: 'button' | 'link' | 'textbox', name: string | RegExp) {
    const target = page.getByRole(role, { name }).first();
    await target.waitFor();
    for (let presses = 0; presses < 80; presses += 1) {
      await page.keyboard.press('Tab');
      if (await target.evaluate((element) => element === document.activeElement)) return;
    }
    throw new Error(`Tab does not reach the ${role} ${name}; the focus is on "${await focusedText(page)}"`);
  }
  async function type(page: Page, field: RegExp, text: string) {
    await tabTo(page, 'textbox', field);
    await page.keyboard.type(text);
  }

  story.for([
    ['in the drawer of a phone', phone, '0721005501'],
    ['in the dialog of a desktop', desktop, '0721005502'],
  ] as const)(
    'orders and pays %s with the focus always visible',
    async ([, viewport, number], { newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      let letGo = () => {};
      const gate = new Promise<void>((resolve) => {
        letGo = resolve;
      });
      await page.route('**/rest/v1/rpc/place_order', async (route) => {
        await gate;
        await route.continue();
      });

      await page.goto(shop.url);
      await waitForHydration(page);
      await page.keyboard.press('Tab');
      await expectFocus(page, 'link "Skip to content"');
      await page.keyboard.press('Enter');
      await expectFocus(page, 'main');
      await tabTo(page, 'link', 'Shop Now');
      await page.keyboard.press('Enter');
      await page.waitForURL('**/shop');
      await expectFocus(page, 'main');
      await tabTo(page, 'link', 'Embu Fresh Mango');
      await page.keyboard.press('Enter');
      await page.waitForURL('**/shop/mango-bottle');
      await expectFocus(page, 'main');
      await tabTo(page, 'button', 'Increase quantity');
      await page.keyboard.press('Enter');
      await expectFocus(page, 'button "Increase quantity"');
      await tabTo(page, 'button', 'Order Now');
      await page.keyboard.press('Enter');
      await dialogOf(page).waitFor();
      await expectFocus(page, 'dialog "Your order"');

      // An invalid form focuses the first invalid field.
      await tabTo(page, 'button', /^Place Order/);
      await page.keyboard.press('Enter');
      await expectFocus(page, 'textbox "Name" [invalid]');
      await page.keyboard.type(amina.name);
      await type(page, /^Email/, amina.email);
      await type(page, /^Phone/, number);
      await type(page, /^Delivery location/, amina.location);

      await page.keyboard.press('Enter');
      await dialogOf(page).getByRole('button', { name: 'Processing...' }).waitFor();
      await expectFocus(page, 'button "Processing..."');
      letGo();

      await payButton(page).waitFor();
      expect(await dialogOf(page).textContent()).toContain('1,901.00');
      await until(() => isFocusInDialog(page), 'the focus is in the payment dialog');
      await tabTo(page, 'textbox', /phone number/);
      await tabTo(page, 'button', /^Pay\b/);
      await page.keyboard.press('Enter');
      await dialogOf(page).getByRole('heading', { name: 'Payment received' }).waitFor();
      await expectFocus(page, 'heading "Payment received"');
      await tabTo(page, 'button', 'Track Your Order');
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/track-order\/JJ-/);
      await page.getByText('Amina Otieno').waitFor();
      await page.getByRole('heading', { name: 'Paid with M-PESA' }).waitFor();
      await expectFocus(page, 'main');
    },
  );

  longStory('closes the order dialog by Escape and returns to the button', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await tabTo(page, 'button', 'Order Now');
    await page.keyboard.press('Enter');
    await dialogOf(page).waitFor();
    await page.keyboard.press('Escape');
    await dialogOf(page).waitFor({ state: 'detached' });
    await until(async () => (await focusedText(page)) === 'Order Now', 'the focus is back');
  });

  longStory('reaches the result of the tracking form', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0721004321' });
    const number = await trackingNumberIn(page);
    const { page: other } = await newVisitor();
    await other.goto(`${shop.url}/track-order/${number}`);
    await waitForHydration(other);
    await other.getByLabel(/last four digits/i).fill('0000');
    await other.keyboard.press('Enter');
    await other.getByText('These are not the last four digits').waitFor();
    await until(
      () => other.evaluate(() => getSelection()?.toString() === '0000'),
      'the wrong digits are selected, to be typed over',
    );
    await other.keyboard.type('4321');
    await other.keyboard.press('Enter');
    await other.getByText(amina.location).waitFor();
    await until(
      async () => (await focusedText(other))?.startsWith('Payment due'),
      'the focus is at what was shown',
    );
  });
});

describe.each(
  mainCase([
    ['a phone', phone],
    ['a desktop', desktop],
  ] as const),
)('with a screen reader on %s', (_, viewport) => {
  const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

  story.for(routes)('%s has no accessibility findings', async (route, { newVisitor }) => {
    const { page } = await newVisitor({ viewport, expectedFailures: missingPage });
    await page.goto(`${shop.url}${route}`);
    await page.getByRole('main').waitFor();
    await expectAccessible(page, route, rules);
  });

  longStory('order and payment have none in any state', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    const payment = { status: 'pending', result_code: null as string | null };
    await page.route('**/functions/v1/mobile-money', (route) =>
      route.fulfill({
        json:
          route.request().postDataJSON().action === 'initiate'
            ? { success: true, checkoutRequestId: 'ws_CO_1', chargeCents: 68100 }
            : { payment },
      }),
    );
    const expectClean = (state: string) => expectAccessible(page, state, rules);

    await openOrderDialog(page, shop.url, 'mango-can');
    await expectClean('order, empty');
    await dialogOf(page)
      .getByRole('button', { name: /^Place Order/ })
      .click();
    await page.getByText('Invalid Name', { exact: true }).waitFor();
    await expectClean('order, invalid');
    await fillOrder(page, { ...amina, phone: viewport === phone ? '0722005501' : '0722005502' });
    await dialogOf(page)
      .getByRole('button', { name: /^Place Order/ })
      .click();
    await payButton(page).waitFor();
    await expectClean('payment, idle');
    await payButton(page).click();
    await dialogOf(page).getByRole('heading', { name: 'Check your phone' }).waitFor();
    await expectClean('payment, processing');
    payment.status = 'review';
    await dialogOf(page).getByText('We are checking your payment').waitFor();
    await expectClean('payment, in review');
    Object.assign(payment, { status: 'failed', result_code: '1032' });
    await dialogOf(page).getByText('Payment was cancelled. Please try again. ❌').waitFor();
    await expectClean('payment, failed');
    // The requests: the prompt, then two status queries.
    const [, first = 0, second = 0] = await page.evaluate(() =>
      performance
        .getEntriesByType('resource')
        .flatMap(({ name, startTime }) => (/mobile-money/.test(name) ? startTime : [])),
    );
    // The timer keeps its grid: after a query that started late on a busy machine, the next one comes early.
    expect(second - first, 'every 3 seconds').toBeGreaterThan(2000);
    expect(second - first, 'every 3 seconds').toBeLessThan(5900);
    await dialogOf(page).getByRole('button', { name: 'Try Again' }).click();
    await payButton(page).click();
    payment.status = 'completed';
    await dialogOf(page).getByText('Payment received').waitFor();
    await expectClean('payment, completed');
    await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).click();
    await page.getByText('Payment due').waitFor();
    await expectClean('tracking');
  });
});

/** The main action of a screen. */
const firstAction: Record<string, (page: Page) => Locator> = {
  '/': (page) => page.getByRole('link', { name: 'Shop Now' }).first(),
  '/shop': (page) => page.getByRole('main').getByRole('searchbox'),
  '/shop?search=whisky': (page) => page.getByRole('link', { name: 'Show everything' }),
  '/shop/mango-bottle': (page) => page.getByRole('button', { name: 'Order Now' }),
  '/shop/tamarind-flask': (page) => page.getByRole('main').getByRole('link', { name: 'All drinks' }).first(),
  '/shop/no-such-drink': (page) => page.getByRole('link', { name: 'Back to Shop' }),
  '/track-order': (page) => page.getByRole('button', { name: 'Track Order' }),
  '/track-order/JJ-20200101-1000': (page) => page.getByRole('button', { name: 'Track Order' }),
  '/delivery': (page) => page.getByRole('main').getByRole('link', { name: 'Track Your Order' }),
  '/contact': (page) => page.getByRole('button', { name: 'Send message' }),
  '/no-such-page': (page) => page.getByRole('link', { name: 'Return to Home' }),
};

describe.each(
  mainCase([
    ['360 px', 360, 1, 16],
    ['320 px', 320, 1, 16],
    ['360 px with text at 200 %', 360, 1, 32],
    ['1280 px at 200 %', 640, 2, 16],
    ['768 px', 768, 1, 16],
    ['1440 px', 1440, 1, 16],
  ]),
)('at %s', (_, width, deviceScaleFactor, fontSize) => {
  /** Horizontal overflow in px of the page, a dialog or its body. */
  const widerThanTheScreen = (page: Page) =>
    page.evaluate(() =>
      Math.max(
        ...[...document.querySelectorAll('html, [role=dialog], .dialog-body')].map(
          (box) => box.scrollWidth - box.clientWidth,
        ),
      ),
    );

  /** Texts that extend beyond the screen, or are clipped by their box. */
  const cutOff = (page: Page) =>
    page.evaluate(() => {
      const found: string[] = [];
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        const parent = text.parentElement;
        if (!text.textContent?.trim() || !parent?.checkVisibility({ visibilityProperty: true })) continue;
        // Visible only to screen readers.
        if (parent.closest('[inert], [aria-hidden=true], [class*="sr-only"], noscript, script, option'))
          continue;
        const range = document.createRange();
        range.selectNodeContents(text);
        const { left, right, top, bottom } = range.getBoundingClientRect();
        if (right - left === 0) continue;
        for (let box: Element | null = parent; box; box = box.parentElement) {
          const { overflowX, overflowY } = getComputedStyle(box);
          // Scrollable content is reachable.
          if ([overflowX, overflowY].some((way) => way === 'auto' || way === 'scroll')) break;
          const edge = box.getBoundingClientRect();
          const isCut =
            box === document.documentElement
              ? left < -1 || right > innerWidth + 1
              : overflowX !== 'visible' &&
                (left < edge.left - 1 ||
                  right > edge.right + 1 ||
                  top < edge.top - 2 ||
                  bottom > edge.bottom + 2);
          if (isCut) found.push(text.textContent.trim());
          if (isCut) break;
        }
      }
      return found;
    });

  /** The element that covers a control, at its centre or near its corners. */
  const liesOver = (control: Locator) =>
    control.evaluate((element) => {
      const { left, right, top, bottom } = element.getBoundingClientRect();
      // The corners of a tall button are rounder.
      const inset = Math.min(40, Math.max(14, (bottom - top) / 4));
      const points = [
        [(left + right) / 2, (top + bottom) / 2],
        [left + inset, top + inset],
        [right - inset, bottom - inset],
      ] as const;
      return points
        .map(([x, y]) => document.elementFromPoint(x, y))
        .filter((hit) => !hit || !(element.contains(hit) || element.parentElement?.contains(hit)))
        .map((hit) => hit?.outerHTML.slice(0, 120) ?? 'nothing can be hit');
    });

  const expectWhole = async (page: Page, what: string, action: Locator) => {
    await action.scrollIntoViewIfNeeded();
    expect(await widerThanTheScreen(page), `${what} is as wide as the screen`).toBe(0);
    expect(await cutOff(page), `cut off: ${what}`).toEqual([]);
    // The page may still move after it was scrolled.
    await expect.poll(() => liesOver(action), { message: `over the first action: ${what}` }).toEqual([]);
  };

  story('every page fits, nothing is cut off, and no control is covered', async ({ newVisitor }) => {
    const { page } = await newVisitor({
      viewport: { width, height: 800 },
      deviceScaleFactor,
      expectedFailures: /404 \(Not Found\)|ERR_FAILED.*place_order/,
    });
    // The font size set in the browser.
    const session = await page.context().newCDPSession(page);
    await session.send('Page.setFontSizes', { fontSizes: { standard: fontSize } });
    for (const route of routes) {
      await page.goto(`${shop.url}${route}`);
      const first = firstAction[route]?.(page) ?? page.getByRole('heading', { level: 1 });
      await expectWhole(page, route, first);
      expect(await page.evaluate(() => document.compatMode), route).toBe('CSS1Compat');
    }
    await openOrderDialog(page, shop.url, 'ginger-lemon-bottle');
    const expectInside = async (what: string, action: Locator) => {
      // Waits for the slide animation.
      await until(
        async () => {
          await action.scrollIntoViewIfNeeded();
          return (await liesOver(action)).length === 0;
        },
        `${what} is there`,
        20_000,
      );
      const box = await dialogOf(page).boundingBox();
      expect(box?.x, what).toBeGreaterThanOrEqual(0);
      expect((box?.x ?? 0) + (box?.width ?? 0), what).toBeLessThanOrEqual(width);
      // A drawer from the bottom on phones, centred on larger screens.
      const middle = (start = 0, size = 0) => start + size / 2;
      if (width < 768) expect((box?.y ?? 0) + (box?.height ?? 0), what).toBeCloseTo(800, 0);
      else {
        expect(middle(box?.x, box?.width), what).toBeCloseTo(width / 2, 0);
        expect(box?.y, what).toBeGreaterThan(0);
      }
      await expectWhole(page, what, action);
    };
    await expectInside('the order dialog', placeOrderButton(page));
    await fillOrder(page, { ...amina, phone: `0725${fontSize}${String(width).padStart(4, '0')}` });
    await page.route('**/rest/v1/rpc/place_order', (route) => route.abort());
    await placeOrderButton(page).click();
    await page.getByText('Order Failed', { exact: true }).waitFor();
    await expectInside('the order dialog under a message', placeOrderButton(page));
    await page.unroute('**/rest/v1/rpc/place_order');
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    await page.getByText('Order Failed', { exact: true }).waitFor({ state: 'detached' });
    await expectInside('the payment dialog', payButton(page));
    const number = await trackingNumberIn(page);
    await page.goto(`${shop.url}/track-order/${number}`);
    await expectWhole(page, 'an order', page.getByRole('button', { name: 'Pay now' }));
  });
});

describe('for assistive technology', () => {
  story('landmarks and controls have names', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await page.goto(shop.url);
    const slides = page.getByRole('region', { name: 'What we stand for' });
    await slides.getByRole('button', { name: 'Play slides' }).waitFor();
    expect((await slides.ariaSnapshot()).split('\n').filter((line) => /^ {2}- \W?[bg]/.test(line))).toEqual([
      '  - group "1 of 4":',
      '  - group "2 of 4":',
      '  - group "3 of 4":',
      '  - group "4 of 4":',
      `  - 'button "Slide 1: Experience Premium Energy"'`,
      `  - 'button "Slide 2: Fresh & Ice-Cold"'`,
      `  - 'button "Slide 3: Premium Khat-Based Drinks"'`,
      `  - 'button "Slide 4: 9 Unique Flavors"'`,
      '  - button "Play slides"',
    ]);
    expect(
      await slides
        .getByRole('group')
        .evaluateAll((groups) => groups.map((group) => group.hasAttribute('inert'))),
      'only the slide that is shown is read',
    ).toEqual([false, true, true, true]);

    await page.goto(`${shop.url}/shop/mango-bottle`);
    const stepper = page.getByRole('button', { name: 'Decrease quantity' }).locator('..');
    expect(await stepper.ariaSnapshot()).toBe(`- button "Decrease quantity" [disabled]
- textbox "Quantity": "1"
- button "Increase quantity"`);

    await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0725005599' });
    const number = await trackingNumberIn(page);
    expect((await dialogOf(page).ariaSnapshot()).split('\n')[0]).toBe('- dialog "Pay with M-PESA":');
    await page.goto(`${shop.url}/track-order/${number}`);
    await page.getByText('Status: Order Placed', { exact: true }).waitFor();
    const progress = page.getByRole('list', { name: 'Progress of the order' });
    expect(
      (await progress.ariaSnapshot()).replace(/\d\d:\d\d/, 'hh:mm'),
    ).toBe(`- list "Progress of the order":
  - listitem:
    - text: Order Placed , done
    - time: hh:mm
  - listitem: Processing
  - listitem: Out for Delivery
  - listitem: Delivered`);
  });

  story(
    'selections are visible in forced colours, and reduced motion stops animations',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport: desktop, forcedColors: 'active' });
      const colour = (control: Locator, property: string) =>
        control.evaluate((element, name) => getComputedStyle(element).getPropertyValue(name), property);
      await page.goto(shop.url);
      await page.getByRole('button', { name: 'Play slides' }).waitFor();
      const dot = (number: number) =>
        page.getByRole('button', { name: new RegExp(`^Slide ${number}: `) }).locator('span');
      expect(await colour(dot(1), 'background-color')).not.toBe(await colour(dot(2), 'background-color'));
      const shopNow = page.getByRole('link', { name: 'Shop Now' }).first();
      const ring = () => colour(shopNow, 'outline-style');
      expect(await ring(), 'what has no focus does not look as if').toBe('none');
      expect(await colour(shopNow, 'border-top-width'), 'a button has an edge').toBe('1px');
      await page.getByRole('banner').getByRole('combobox').focus();
      await until(async () => {
        await page.keyboard.press('Tab');
        return shopNow.evaluate((element) => element === document.activeElement);
      }, 'the focus is on the link');
      expect(await ring()).toBe('solid');
      const moving = () =>
        page.evaluate(
          () => document.getAnimations().filter(({ playState }) => playState === 'running').length,
        );
      expect(await moving()).toBe(0);
      await page.goto(`${shop.url}/shop`);
      const choice = (name: string) =>
        page.getByRole('group', { name: 'Flavor' }).getByText(name, { exact: true });
      expect(await colour(choice('All flavors'), 'outline-style')).toBe('solid');
      expect(await colour(choice('Mango'), 'outline-style')).toBe('none');
    },
  );
});

describe('without JavaScript', () => {
  const options = { javaScriptEnabled: false, viewport: desktop };

  longStory("the header's search finds drinks", async ({ newVisitor }) => {
    const { page } = await newVisitor(options);
    await page.goto(shop.url);
    await page.getByRole('banner').getByRole('searchbox').fill('ginger lemon');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/shop\?search=ginger(\+|%20)lemon/);
    expect(await page.getByRole('main').getByRole('article').count()).toBe(3);
  });

  longStory("the shop's form filters and sorts", async ({ newVisitor }) => {
    const { page } = await newVisitor(options);
    await page.goto(`${shop.url}/shop`);
    const main = page.getByRole('main');
    await main.getByLabel('Brand').selectOption('Meru Gold');
    await main.getByLabel('Sort by').selectOption('Price');
    await main.getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/brand=Meru/);
    const names = await main.getByRole('article').getByRole('heading').allTextContents();
    expect(names).toHaveLength(9);
    expect(names.every((name) => name.startsWith('Meru Gold'))).toBe(true);
  });

  longStory("an order is shown in full with the phone's last digits", async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'passion-can', { ...amina, phone: '0723004321' });
    const number = await trackingNumberIn(page);
    const { page: plain } = await newVisitor(options);
    await plain.goto(`${shop.url}/track-order`);
    await plain.getByLabel('Tracking number').fill(number);
    await plain.getByRole('button', { name: 'Track Order' }).click();
    await plain.waitForURL(`${shop.url}/track-order/${number}`);
    await plain.getByText('A••• O•••').waitFor();
    await plain.getByLabel(/last four digits/i).fill('4321');
    await plain.getByRole('button', { name: 'Show my order' }).click();
    await plain.getByText(amina.location).waitFor();
  });

  longStory('the contact form and the newsletter work', async ({ newVisitor }) => {
    const { page } = await newVisitor(options);
    await page.goto(`${shop.url}/contact`);
    await page.getByLabel(/First name/).fill('Amina');
    await page.getByLabel(/Last name/).fill('Otieno');
    await page.getByLabel(/Email \*/).fill('amina@example.com');
    await page.getByRole('textbox', { name: 'Message' }).fill('Do you deliver to Ruaka?');
    await page.getByRole('button', { name: 'Send message' }).click();
    await page.getByText('Message sent successfully!').waitFor();
    await page.getByRole('contentinfo').getByLabel('Email address').fill('plain@example.com');
    await page.getByRole('button', { name: 'Subscribe' }).click();
    await page.getByText('Almost there').waitFor();
    // The link in the email opens a page with a confirmation button.
    const mail = await nextMail(shop.outbox, 'plain@example.com');
    await page.goto(newsletterLinkIn(mail, 'confirm'));
    await page.getByRole('button', { name: 'Yes, send me news' }).click();
    await page.getByText('You are on the list. First sip goes to you.').waitFor();
    await page.goto(newsletterLinkIn(mail, 'confirm'));
    await page.getByRole('button', { name: 'Yes, send me news' }).click();
    await page.getByText('This link does not work any more').waitFor();
    await page.goto(newsletterLinkIn(mail, 'unsubscribe'));
    await page.getByRole('button', { name: 'Unsubscribe' }).click();
    await page.getByText('You are off the list, and your address is deleted.').waitFor();
  });

  story('a drink is ordered, paid and tracked', async ({ newVisitor }) => {
    // A form with errors is returned with status 400.
    const { page } = await newVisitor({
      ...options,
      viewport: phone,
      expectedFailures: /400 \(Bad Request\)/,
    });
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await page.getByRole('textbox', { name: 'Quantity' }).fill('3');
    await page.getByRole('button', { name: 'Order Now' }).click();
    await page.waitForURL('**/shop/mango-bottle/order?quantity=3');
    await page.getByText('KSh 2,851.00').waitFor();
    await page.getByLabel(/^Name/).fill(amina.name);
    await page.getByLabel(/^Email/).fill(amina.email);
    await page.getByLabel(/^Phone/).fill('0723004399');
    await page.getByLabel(/^Delivery location/).fill('ab');
    await page.getByRole('button', { name: 'Place Order' }).click();
    await page.getByText('Please enter a valid delivery location').waitFor();
    expect(await page.getByLabel(/^Name/).inputValue()).toBe(amina.name);
    await page.getByLabel(/^Delivery location/).fill(amina.location);
    await page.getByRole('button', { name: 'Place Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    await page.getByText(amina.location).waitFor();

    await page.getByRole('button', { name: 'Pay now' }).click();
    await page.waitForURL(/\/pay\?key=/);
    const { page: seeing } = await newVisitor();
    for (const address of [page.url(), `${shop.url}/shop/mango-can/order?quantity=2`]) {
      await seeing.goto(address);
      await expectAccessible(seeing);
    }
    const phoneField = page.getByLabel('M-PESA phone number');
    const enterPinUntil = (text: string) =>
      until(async () => {
        if ((await page.getByText(text).count()) > 0) return true;
        await page.getByRole('button', { name: 'I have entered my PIN' }).click({ timeout: 1000 });
        return false;
      }, text);
    expect(await phoneField.inputValue()).toBe('0723004399');
    // Another phone, whose owner declines: it is named, and asked again unless the customer changes it.
    await phoneField.fill('0711991032');
    await page.getByRole('button', { name: 'Pay KSh 2,851.00' }).click();
    await page.waitForURL(/request=/);
    await enterPinUntil('We asked this phone: 0711 991 032');
    expect(await phoneField.inputValue()).toBe('0711991032');
    const number = /JJ-[\d-]+/.exec(page.url())?.[0] ?? '';
    const chat = page.getByRole('contentinfo').getByRole('link', { name: /WhatsApp/ });
    expect(decodeURIComponent((await chat.first().getAttribute('href')) ?? '')).toContain(`order ${number}`);
    await phoneField.fill('0723004399');
    await page.getByRole('button', { name: 'Pay KSh 2,851.00' }).click();
    await page.getByRole('heading', { name: 'Check your phone' }).waitFor();
    await enterPinUntil('Paid with M-PESA');
    expect(new URL(page.url()).searchParams.has('request')).toBe(false);
  });
});

longStory(
  'on a phone a sticky bar offers the order once its button is out of view',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await waitForHydration(page);
    const bar = page.getByRole('region', { name: 'Order this drink' });
    expect(await bar.count()).toBe(0);
    await page.getByRole('button', { name: 'Increase quantity' }).click();
    await page.getByRole('contentinfo').getByRole('link', { name: 'Terms of Service' }).focus();
    await bar.getByText('2 × ').waitFor();
    await bar.getByText('1,900.00').waitFor();
    // It covers neither the end of the page nor the focused element.
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    const edge = async (part: Locator, side: 'top' | 'bottom') =>
      part.evaluate((element, which) => element.getBoundingClientRect()[which], side);
    const last = page.getByRole('contentinfo').getByText('All rights reserved');
    await expect.poll(async () => (await edge(last, 'bottom')) <= (await edge(bar, 'top'))).toBe(true);
    await expectAccessible(page, 'a product with the bar at its foot');
    const button = bar.getByRole('button', { name: 'Order Now' });
    await button.click();
    await dialogOf(page).getByRole('button', { name: 'Close' }).click();
    await expect.poll(() => button.evaluate((own) => own === document.activeElement)).toBe(true);
    await page.evaluate(() => window.scrollTo(0, 0));
    await bar.waitFor({ state: 'hidden' });
  },
);

describe('the shop page', () => {
  const cards = (page: Page) => page.getByRole('main').getByRole('article');
  const namesOn = (page: Page) => cards(page).getByRole('heading').allTextContents();
  const pricesOn = async (page: Page) =>
    (await cards(page).getByText('KSh', { exact: true }).locator('..').allTextContents()).map((text) =>
      Number(text.replace(/[^\d.]/g, '')),
    );
  const sortOn = (page: Page) => page.getByLabel('Sort by').locator('option:checked').textContent();
  /** The filter fields, which are in a sheet on phones. */
  const openFilters = (page: Page) => page.getByRole('button', { name: /^Filters/ }).click();
  /** The URL contains the filters once the sheet is closed. */
  const closeFilters = (page: Page) => page.getByRole('button', { name: /^Show \d+ drinks?$/ }).click();

  story.for([
    ['', 'Popularity'],
    ['?filter=brand', 'Brand'],
    ['?filter=flavor', 'Flavor'],
    ['?filter=anything', 'Popularity'],
    ['?search=khat', 'Best match'],
  ] as const)('/shop%s presets the sort %s', async ([query, sort], { newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/shop${query}`);
    expect(await sortOn(page)).toBe(sort);
    expect(await namesOn(page)).toHaveLength(27);
  });

  longStory('sorts brands and flavors by alphabet and prices upwards', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/shop?filter=brand`);
    const brands = (await namesOn(page)).map((name) => name.split(' ').slice(0, 2).join(' '));
    expect(brands).toEqual([...brands].sort());
    await openFilters(page);
    await page.getByLabel('Sort by').selectOption('Price');
    await closeFilters(page);
    await page.waitForURL(/sort=price/);
    // The URL changes before the page does.
    const isCheapestFirst = async () => {
      const prices = await pricesOn(page);
      return (
        prices.length === 27 &&
        prices.every((price, index) => index === 0 || price >= (prices[index - 1] ?? 0))
      );
    };
    await until(isCheapestFirst, 'prices go upwards');
    await openFilters(page);
    await page.getByLabel('Sort by').selectOption('Flavor');
    await closeFilters(page);
    await page.waitForURL(/sort=flavor/);
    await expect.poll(async () => (await namesOn(page))[0]).toContain('Blackcurrant');
    expect((await namesOn(page)).at(-1)).toContain('Watermelon');
  });

  story('narrows by text, brand and flavor, and its address brings the same view', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/shop?search=mango`);
    expect(await page.getByRole('main').getByRole('searchbox').inputValue()).toBe('mango');
    await page.getByRole('main').getByRole('searchbox').fill('');
    await page.getByRole('status').getByText('27 drinks').waitFor();
    await openFilters(page);
    await page.getByRole('group', { name: 'Flavor' }).getByText('Passion', { exact: true }).click();
    await page.getByRole('status').getByText('3 drinks').waitFor();
    await page.getByLabel('Brand').selectOption('Dusk Energy');
    await page.getByRole('status').getByText('1 drink', { exact: true }).waitFor();
    await closeFilters(page);
    await page.waitForURL(/brand=Dusk(\+|%20)Energy/);
    const { page: other } = await newVisitor();
    await other.goto(page.url());
    expect(await namesOn(other)).toEqual(['Dusk Energy Passion']);
  });

  longStory(
    'keeps the sheet open while a search that was just typed enters the URL',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      const session = await page.context().newCDPSession(page);
      await page.goto(`${shop.url}/shop?search=mango`);
      await waitForHydration(page);
      // A slow phone takes longer to render than the router to change the URL.
      await session.send('Emulation.setCPUThrottlingRate', { rate: 8 });
      for (const pauseMs of [300, 350, 400, 450, 500]) {
        await page.evaluate(
          ([pause, text]) => {
            const field = document.querySelector<HTMLInputElement>('#shop-search');
            const filters = document.querySelector<HTMLButtonElement>('[popovertarget=shop-filters]');
            field?.focus();
            field?.select();
            document.execCommand(text ? 'insertText' : 'delete', false, text);
            setTimeout(() => filters?.click(), pause);
          },
          [pauseMs, new URL(page.url()).search ? '' : 'mango'] as const,
        );
        await expect.poll(() => page.evaluate(() => window.history.state?.usr?.dialogs ?? 0)).toBe(1);
        await closeFilters(page);
        await expect
          .poll(() => new URL(page.url()).searchParams.get('search') ?? '')
          .toBe(await page.locator('#shop-search').inputValue());
      }
    },
  );

  longStory('says that nothing matches and links to all products', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/shop?search=whisky`);
    await page.getByRole('heading', { name: 'No products found' }).waitFor();
    await page.getByText('Try adjusting your search or filter criteria', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Show everything' }).click();
    await page.getByRole('status').getByText('27 drinks').waitFor();
  });

  longStory('shows the delivery fee that the order dialog adds', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/shop`);
    await page.getByText('KES 1 delivery fee applies to all orders', { exact: true }).waitFor();
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await dialogOf(page).getByText('KSh 1.00', { exact: true }).waitFor();
  });
});

longStory(
  'an image that cannot be loaded is replaced by a placeholder of the same name',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /net::ERR_FAILED/ });
    await page.route(/\.(avif|webp|jpg|png)$/, (route) => route.abort());
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await page.locator('main span[role=img]').first().waitFor();
    await page
      .getByRole('main')
      .getByRole('img', { name: /Embu Fresh Mango/ })
      .first()
      .waitFor();
    await expectAccessible(page, 'a product without its image');
  },
);

inLongRun(describe)('missing pages', () => {
  story('an unknown page is a 404 with a link home', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: missingPage });
    const answer = await page.goto(`${shop.url}/no/such/page`);
    expect(answer?.status()).toBe(404);
    await page.getByRole('heading', { name: '404' }).waitFor();
    await page.getByText('Oops! Page not found', { exact: true }).waitFor();
    await page.getByRole('main').getByRole('link').click();
    await page.getByRole('heading', { name: 'Experience Premium Energy' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/');
  });

  story('an unknown product is a 404 with a link to the shop', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: missingPage });
    const answer = await page.goto(`${shop.url}/shop/no-such-drink`);
    expect(answer?.status()).toBe(404);
    await page.getByRole('heading', { name: 'Product not found' }).waitFor();
    const others = page.getByRole('region', { name: 'How about one of these?' });
    expect(await others.getByRole('article').count()).toBe(4);
    await page.getByRole('link', { name: 'Back to Shop' }).click();
    await page.getByRole('heading', { name: 'Shop all drinks' }).waitFor();
  });

  story("a link works when its page's script is gone after a new build", async ({ newVisitor }) => {
    const { page } = await newVisitor({
      viewport: desktop,
      expectedFailures: /404 \(Not Found\)|Error loading route module|dynamically imported module/,
    });
    await page.route('**/assets/delivery-page-*.js', (route) => route.fulfill({ status: 404 }));
    const visited: string[] = [];
    page.on('request', (request) => {
      if (request.isNavigationRequest()) visited.push(new URL(request.url()).pathname);
    });
    await page.goto(`${shop.url}/track-order`);
    await page.locator('html:not([data-unpainted])').waitFor();
    // Hovering again loads nothing.
    const missing = page.waitForResponse(/delivery-page-/);
    const link = page.getByRole('banner').getByRole('link', { name: 'Delivery', exact: true });
    await link.hover();
    await missing;
    await link.click();
    await page.getByRole('heading', { name: 'Cold at your door' }).waitFor();
    expect(visited).toEqual(['/track-order', '/delivery']);
  });
});

describe('header and footer', () => {
  longStory('name and menu share a row where text is at 200 %', async ({ newVisitor }) => {
    for (const width of [320, 360]) {
      const { page } = await newVisitor({ viewport: { width, height: 740 } });
      await page.goto(shop.url);
      await page.evaluate(() => document.documentElement.style.setProperty('font-size', '200%'));
      const header = page.getByRole('banner');
      const name = header.getByRole('link', { name: 'Jani Juice, home' });
      const menu = header.getByRole('button', { name: 'Menu' });
      const [left, right] = [await name.boundingBox(), await menu.boundingBox()];
      const middle = (box: typeof left) => (box ? box.y + box.height / 2 : Number.NaN);
      expect(middle(left), `${width} px`).toBeCloseTo(middle(right), 0);
      expect(right ? right.x + right.width : width, `${width} px`).toBeLessThan(width);
      await menu.click();
      const drawer = page.getByRole('dialog', { name: 'Menu' });
      const close = await drawer.getByRole('button', { name: 'Close menu' }).boundingBox();
      expect(close ? close.x + close.width : width, `${width} px`).toBeLessThan(width);
    }
  });

  story('the side drawer traps the focus and closes by every exit', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    const menu = page.getByRole('dialog', { name: 'Menu' });
    const open = async () => {
      await page.getByRole('button', { name: 'Menu', exact: true }).click();
      await menu.waitFor();
    };
    await page.goto(shop.url);
    // It opens before hydration and is still open afterwards.
    await open();
    await waitForHydration(page);
    await page
      .getByRole('button', { name: 'Play slides', includeHidden: true })
      .waitFor({ state: 'attached' });
    expect(await menu.getByRole('navigation').getByRole('link').allTextContents()).toEqual([
      'Home',
      'Brands',
      'Flavors',
      'Shop',
      'Delivery',
      'Contact',
    ]);
    await page.keyboard.press('Escape');
    await menu.waitFor({ state: 'hidden' });
    await expect.poll(() => focusedText(page)).toBe('Menu');

    await open();
    await menu.getByRole('combobox').fill('   ');
    await page.keyboard.press('Enter');
    expect(new URL(page.url()).pathname).toBe('/');
    expect(await menu.isVisible()).toBe(true);
    await menu.getByRole('combobox').fill(' hibiscus & co ');
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.pathname === '/shop' && url.search.includes('hibiscus%20%26%20co'));
    await menu.waitFor({ state: 'hidden' });

    await open();
    await menu.getByRole('link', { name: 'Brands' }).click();
    await page.waitForURL(/\/shop\?filter=brand$/);
    await menu.waitFor({ state: 'hidden' });
    await open();
    await menu.getByRole('link', { name: 'Track Your Order' }).click();
    await page.waitForURL(/\/track-order$/);
    await menu.waitFor({ state: 'hidden' });
  });

  longStory('the newsletter form shows its result in place', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /400 \(Bad Request\)|ERR_FAILED/ });
    await page.goto(`${shop.url}/delivery`);
    await waitForHydration(page);
    const footer = page.getByRole('contentinfo');
    await footer.getByRole('button', { name: 'Subscribe' }).click();
    await footer.getByText('Please enter a valid email address').waitFor();
    await footer.getByLabel('Email address').fill('amina@nowhere');
    await footer.getByRole('button', { name: 'Subscribe' }).click();
    await footer.getByText('Please enter a valid email address').waitFor();
    await footer.getByLabel('Email address').fill('amina@example.com');
    await page.route('**/newsletter.data*', (route) => route.abort());
    await footer.getByRole('button', { name: 'Subscribe' }).click();
    await footer.getByText('That did not work. Please try again later.').waitFor();
    await page.unroute('**/newsletter.data*');
    await footer.getByRole('button', { name: 'Subscribe' }).click();
    await footer.getByText('Almost there: open the link in the mail we just sent you.').waitFor();
    await until(
      async () => (await focusedText(page)).startsWith('Almost there'),
      'the focus is at the answer',
    );
  });
});

describe('the message form', () => {
  story('shows success and failure, and keeps what was typed until it is sent', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /503/ });
    await page.goto(`${shop.url}/contact`);
    await waitForHydration(page);
    const [first, email] = [page.getByLabel(/First name/), page.getByLabel(/Email \*/)];
    await first.fill('Amina');
    await email.fill('amina');
    await page.getByRole('button', { name: 'Send message' }).click();
    await page.getByText('Last name is required').waitFor();
    await page.getByText('Message is required').waitFor();
    await until(
      () => page.evaluate(() => document.activeElement?.getAttribute('name') === 'lastName'),
      'the focus is on the first wrong field',
    );
    await page.getByRole('textbox', { description: 'Please enter a valid email address' }).waitFor();
    await page.getByLabel(/Last name/).fill('Otieno');
    await email.fill('amina@example.com');
    expect(await page.getByText('Please enter a valid email address').count()).toBe(0);
    const message = page.getByRole('textbox', { name: 'Message' });
    await message.fill('Jambo');
    // The server's answer when its database fails.
    await page.route('**/contact.data*', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      const good = await route.fetch();
      const body = (await good.text()).replace('"isSent",true', '"isSent",false');
      await route.fulfill({ response: good, body });
    });
    await page.getByRole('button', { name: 'Send message' }).click();
    await page.getByText('Error sending message', { exact: true }).waitFor();
    await page.getByText('Please try again later.', { exact: true }).waitFor();
    expect(await message.inputValue()).toBe('Jambo');
    await page.unroute('**/contact.data*');
    // A request without an answer times out.
    await page.clock.install();
    const posted = page.waitForRequest((request) => request.method() === 'POST');
    await page.route('**/contact.data*', () => {}, { times: 1 });
    await page.getByRole('button', { name: 'Send message' }).click();
    await posted;
    await page.getByRole('button', { name: 'Sending...' }).waitFor();
    await page.clock.fastForward(30_000);
    await page.getByRole('button', { name: 'Send message' }).waitFor();
    expect(await message.inputValue()).toBe('Jambo');
    await page.getByRole('button', { name: 'Send message' }).click();
    await page.getByText('Message sent successfully!', { exact: true }).waitFor();
    await page.getByText("We'll get back to you as soon as possible.", { exact: true }).waitFor();
    expect(await message.inputValue()).toBe('');
  });
});
