// The storefront's texts that must stay as they are (docs/product.md#visitors-screens, docs/product.md#order-form,
// docs/product.md#failure-messages), each on its screen and in its state.
import type { Locator, Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, waitForHydration } from '../../browser.ts';
import {
  amina,
  fillOrder,
  openMoreFields,
  openOrderDialog,
  order,
  payButton,
  placeOrderButton,
} from '../../shopper.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

/** A text that must be shown, or its locator. */
type Shown = string | ((page: Page) => Locator);

const heading =
  (name: string): Shown =>
  (page) =>
    page.getByRole('heading', { name, exact: true });
const link =
  (name: string, target: string): Shown =>
  (page) =>
    page.getByRole('link', { name, exact: true }).and(page.locator(`[href="${target}"]`));
const button =
  (name: string): Shown =>
  (page) =>
    page.getByRole('button', { name, exact: true });
const field =
  (label: string): Shown =>
  (page) =>
    page.getByLabel(label, { exact: true });
const required =
  (label: string): Shown =>
  (page) =>
    page.getByLabel(`${label} *`, { exact: true }).and(page.locator('[required]'));
const hint =
  (text: string): Shown =>
  (page) =>
    page.getByPlaceholder(text, { exact: true });
/** A toast with this title and text. */
const toast =
  (title: string, text: string | RegExp): Shown =>
  (page) =>
    page
      .locator('[data-sonner-toast][data-visible=true]')
      .filter({ has: page.getByText(title, { exact: true }) })
      .filter({ has: page.getByText(text, { exact: true }) });

async function expectShown(page: Page, shown: readonly Shown[]): Promise<void> {
  for (const text of shown) {
    const found =
      typeof text === 'string'
        ? page.getByText(new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))).filter({ visible: true })
        : text(page).filter({ visible: true });
    await found.first().waitFor();
  }
}

const brokenOff = /ERR_FAILED|Failed to fetch/;

/** Changes the services' responses to the browser; null aborts them. */
async function answerWith(page: Page, address: string, status: number | null, json?: unknown): Promise<void> {
  await page.unroute(address);
  await page.route(address, (route) => (status === null ? route.abort() : route.fulfill({ status, json })));
}

const header: Shown[] = [
  link('Home', '/'),
  link('Brands', '/shop?filter=brand'),
  link('Flavors', '/shop?filter=flavor'),
  link('Shop', '/shop'),
  link('Delivery', '/delivery'),
  link('Contact', '/contact'),
  link('Track Your Order', '/track-order'),
  'delivers all of its brands nationwide',
  'Chat on WhatsApp',
  (page) => page.getByRole('banner').getByRole('combobox', { name: 'Search drinks' }),
];

describe('on a desktop', () => {
  const screens: [screen: string, address: string, shows: Shown[]][] = [
    [
      'home',
      '/',
      [
        ...header,
        heading('Experience Premium Energy'),
        'Fresh & Ice-Cold',
        '15-60 minutes',
        'Premium Khat-Based Drinks',
        '100% natural ingredients from Meru & Embu',
        '9 Unique Flavors',
        link('Shop Now', '/shop'),
        heading('Top Picks'),
        heading('Drinks on Offer'),
        heading('Premium Flavors Collection'),
        link('View All 9 Flavors', '/shop'),
      ],
    ],
    [
      'footer',
      '/delivery',
      [
        ...(
          [
            ['Home', '/'],
            ['Brands', '/shop?filter=brand'],
            ['Flavors', '/shop?filter=flavor'],
            ['Shop', '/shop'],
            ['Delivery', '/delivery'],
            ['Contact', '/contact'],
            ['Track Your Order', '/track-order'],
            ['FAQ', '/contact#faq'],
            ['Contact Support', '/contact'],
            ['Privacy Policy', '/contact#privacy'],
            ['Terms of Service', '/contact#terms'],
          ] as const
        ).map(
          ([name, target]): Shown =>
            (page) =>
              page
                .getByRole('contentinfo')
                .getByRole('link', { name, exact: true })
                .and(page.locator(`[href="${target}"]`)),
        ),
        'WhatsApp chat: 0700 000 000',
        link('hello@jani.example', 'mailto:hello@jani.example'),
        (page) => page.getByRole('contentinfo').getByRole('link', { name: /Instagram/ }),
        button('Subscribe'),
        '©',
      ],
    ],
    [
      'shop',
      '/shop?filter=brand',
      [
        (page) => page.getByRole('main').getByRole('heading', { level: 1 }),
        (page) => page.getByRole('main').getByRole('searchbox'),
        field('Brand'),
        (page) => page.getByRole('group', { name: 'Flavor' }),
        field('Sort by'),
        'KES 1 delivery fee applies to all orders',
      ],
    ],
    [
      'shop where nothing matches',
      '/shop?search=whisky',
      [heading('No products found'), 'Try adjusting your search or filter criteria'],
    ],
    [
      'product',
      '/shop/mango-bottle',
      [
        heading('Embu Fresh Mango'),
        (page) => page.getByRole('img', { name: 'Embu Fresh Mango' }),
        'KSh 950.00',
        'In Stock',
        field('Quantity'),
        button('Order Now'),
        heading('You Might Also Like'),
      ],
    ],
    [
      'product without stock',
      '/shop/tamarind-flask',
      ['Out of Stock', (page) => page.getByRole('button', { name: 'Order Now', disabled: true })],
    ],
    [
      'product that is missing',
      '/shop/no-such-drink',
      [heading('Product not found'), link('Back to Shop', '/shop')],
    ],
    ['tracking', '/track-order', [heading('Track Your Order'), field('Tracking number')]],
    [
      'tracking an unknown number',
      '/track-order/JJ-20200101-1000',
      [
        heading('No Order Found'),
        'Please check your tracking number and try again',
        toast('Order Not Found', 'No order found with this tracking number'),
      ],
    ],
    [
      'tracking with a number in query and path',
      '/track-order/JJ-20200101-1000?tracking=JJ-20200202-2000',
      [(page) => page.getByLabel('Tracking number').and(page.locator('[value="JJ-20200202-2000"]'))],
    ],
    [
      'contact',
      '/contact',
      [
        heading('Phone'),
        heading('Chat on WhatsApp'),
        heading('Email support'),
        required('First name'),
        required('Last name'),
        required('Email'),
        field('Phone'),
        field('Subject'),
        required('Message'),
        hint('+254 7XX XXX XXX'),
        heading('Business hours'),
        '24/7',
        'Always open',
        heading('Quick actions'),
        (page) => page.getByRole('main').locator('a[href^="https://wa.me/"]').nth(1),
        (page) => page.getByRole('main').locator('a[href^="tel:"]').nth(1),
        (page) => page.getByRole('main').locator('a[href^="mailto:"]').nth(1),
        ...['Westlands', 'Kilimani', 'Ngong Road'].flatMap((name): Shown[] => {
          const card = (page: Page) =>
            page.getByRole('listitem').filter({ has: page.getByRole('heading', { name, exact: true }) });
          return [
            (page) => card(page).getByText('Nairobi'),
            (page) => card(page).getByRole('link', { name: '0700 000 000' }),
            (page) => card(page).getByText('Mon-Sun 8AM-10PM', { exact: true }),
            (page) => card(page).getByText('Delivery 15-60 mins', { exact: true }),
          ];
        }),
      ],
    ],
    [
      'delivery',
      '/delivery',
      [
        heading('Fast delivery'),
        heading('Cold and fresh'),
        heading('Order tracking'),
        heading('15-60 Minutes'),
        heading('Frequently asked questions'),
        link('Contact Us', '/contact'),
        (page) => page.getByRole('main').getByRole('link', { name: 'Track Your Order' }),
        '7 days a week',
        ...[
          ...[
            'Nairobi CBD',
            'Westlands',
            'Kilimani',
            'Parklands',
            'Lavington',
            'Karen',
            'Runda',
            'Kileleshwa',
          ],
          ...['Upperhill', 'South B & C', 'Ngong Road', 'Thika Road', 'Mombasa Road', 'Langata', 'Kasarani'],
        ].map(
          (area): Shown =>
            (page) =>
              page.getByRole('listitem').filter({ hasText: new RegExp(`^${area}$`) }),
        ),
      ],
    ],
    [
      'unknown page',
      '/no/such/page',
      [...header, heading('404'), 'Oops! Page not found', link('Return to Home', '/')],
    ],
    ['newsletter confirmation', '/newsletter', [...header, heading('404'), link('Return to Home', '/')]],
  ];

  story.concurrent.for(screens)('%s', async ([, address, shows], { newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop, expectedFailures: /404 \(Not Found\)/ });
    await page.goto(shop.url + address);
    await expectShown(page, shows);
  });

  story('the home page shows six of each at the prices of the demo catalogue', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await page.goto(shop.url);
    const prices = (title: string) =>
      page
        .getByRole('region', { name: title, exact: true })
        .getByText(/^KSh [\d,.]+$/)
        .allTextContents();
    expect(await prices('Top Picks')).toEqual(
      ['950.00', '1,200.00', '1,050.00', '1,350.00', '980.00', '1,500.00'].map((price) => `KSh ${price}`),
    );
    expect(await prices('Drinks on Offer')).toEqual(
      ['750.00', '890.00', '1,100.00', '850.00', '1,200.00', '950.00'].map((price) => `KSh ${price}`),
    );
    expect(await prices('Premium Flavors Collection')).toHaveLength(6);
  });
});

describe('on a phone', () => {
  story.concurrent('the menu has every link of the header', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(shop.url);
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    const menu = page.getByRole('dialog', { name: 'Menu' });
    for (const [name, target] of [
      ['Home', '/'],
      ['Brands', '/shop?filter=brand'],
      ['Flavors', '/shop?filter=flavor'],
      ['Shop', '/shop'],
      ['Delivery', '/delivery'],
      ['Contact', '/contact'],
      ['Track Your Order', '/track-order'],
    ] as const) {
      const found = menu.getByRole('link', { name, exact: true });
      expect(await found.getAttribute('href'), name).toBe(target);
    }
    await menu.getByRole('combobox').waitFor();
    await menu.getByRole('link', { name: /Chat/ }).waitFor();
    await expectAccessible(page, 'the menu');
  });

  story.concurrent(
    'the order form shows one error after the other, then why the order is rejected',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ expectedFailures: /place_order/ });
      await openOrderDialog(page, shop.url, 'mango-bottle');
      await openMoreFields(page);
      await expectShown(page, [
        required('Name'),
        required('Email'),
        required('Phone'),
        required('Delivery location'),
        field('Building name (optional)'),
        field('House/unit number (optional)'),
        'Delivery fee',
        'KSh 1.00',
        'Total',
        'KSh 951.00',
      ]);

      const form = { name: 'A', email: 'amina @example.com', phone: '0212345678', location: ' W ' };
      for (const [name, title, text] of [
        ['name', 'Invalid Name', 'Please enter a valid name (at least 2 characters)'],
        ['email', 'Invalid Email', 'Please enter a valid email address'],
        [
          'phone',
          'Invalid Phone',
          'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)',
        ],
        ['location', 'Invalid Location', 'Please enter a valid delivery location'],
      ] as const) {
        await fillOrder(page, form);
        await placeOrderButton(page).click();
        await expectShown(page, [toast(title, text)]);
        // Every problem is beside its field at once.
        if (name === 'name') {
          for (const problem of [
            'valid name',
            'valid email',
            'valid Kenyan phone',
            'valid delivery location',
          ])
            await dialogOf(page).getByText(`Please enter a ${problem}`, { exact: false }).waitFor();
          expect(await dialogOf(page).locator('[aria-invalid=true]').count()).toBe(4);
        }
        Object.assign(form, { [name]: { ...amina, phone: '0724005501' }[name] });
      }
      const message = page.locator('[data-sonner-toast]');
      await until(async () => {
        const [above, below] = [await message.boundingBox(), await dialogOf(page).boundingBox()];
        return above !== null && below !== null && above.y + above.height <= below.y;
      }, 'the message lies above the dialog');
      await expectAccessible(page, 'order, invalid');
      // The focus leaves the dialog and returns.
      await page.keyboard.press('Alt+t');
      for (const _ of ['the message', 'its button']) await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await until(async () => (await message.count()) === 0, 'it is gone');
      await fillOrder(page, form);

      const pattern = '**/rest/v1/rpc/place_order';
      const problem = (details: string, message: string) => ({ code: 'PT409', message, details, hint: null });
      for (const [status, json, text] of [
        [409, problem('no_tracking_number', 'No numbers left'), 'Failed to create order: No numbers left'],
        [409, problem('out_of_stock', 'All gone'), 'Failed to create order item: All gone'],
        [200, null, 'Order was not created successfully'],
        [500, problem('', ''), 'Failed to place order. Please try again.'],
        [null, undefined, 'Failed to place order. Please try again.'],
      ] as const) {
        await answerWith(page, pattern, status, json);
        await placeOrderButton(page).click();
        await expectShown(page, [toast('Order Failed', text)]);
      }
      await expectAccessible(page, 'order, failed');

      await page.unroute(pattern);
      await placeOrderButton(page).click();
      await expectShown(page, [
        toast('Order Created!', 'Please complete payment to confirm your order.'),
        hint('0712345678 or 254712345678'),
        button('Cancel'),
      ]);
      expect(
        await dialogOf(page)
          .getByLabel(/phone number/)
          .inputValue(),
      ).toBe('0724005501');
    },
  );

  story.concurrent('a payment that cannot start shows why, and a retry clears it', async ({ newVisitor }) => {
    const { page } = await newVisitor({
      expectedFailures: /mobile-money|could not be fetched; polling again/,
    });
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0724005502' });
    const number = dialogOf(page).getByLabel(/phone number/);
    await number.fill('');
    await payButton(page).click();
    await expectShown(page, ['Please enter a valid phone number 📱']);
    await number.fill('0724005502');

    const pattern = '**/functions/v1/mobile-money';
    for (const [status, json, text] of [
      [200, { success: false, error: 'M-PESA rests on Sundays' }, 'M-PESA rests on Sundays'],
      [200, { success: false }, 'Failed to initiate payment'],
      [500, 'nothing to read', 'Failed to initiate payment. Please try again. ⚠️'],
    ] as const) {
      await answerWith(page, pattern, status, json);
      await payButton(page).click();
      const failure = dialogOf(page).getByRole('alert').getByText(text, { exact: true });
      await failure.waitFor();
      await dialogOf(page).getByRole('button', { name: 'Try Again' }).click();
      await payButton(page).waitFor();
      await failure.waitFor({ state: 'detached' });
    }

    const payment = { status: 'failed', result_code: '2028' };
    let questions = 0;
    await page.unroute(pattern);
    await page.route(pattern, (route) => {
      if (route.request().postDataJSON().action === 'initiate')
        return route.fulfill({ json: { success: true, checkoutRequestId: 'ws_CO_1' } });
      questions += 1;
      // A status query without an answer does not end the payment: the page polls again.
      return questions === 1 ? route.abort() : route.fulfill({ json: { payment } });
    });
    await payButton(page).click();
    await expectShown(page, ['Payment failed. Please try again. ❌']);
    expect(questions).toBe(2);
    await expectAccessible(page, 'payment, failed');
    await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
  });

  story.concurrent.for([
    ['0001', 'Insufficient balance. Please top up M-PESA or use Fuliza. 💰'],
    ['1001', 'Another transaction in progress. Please wait and try again. ⏳'],
    ['1019', 'Transaction expired. Please try again. ⏰'],
    ['1025', 'System error occurred. Please try again. ⚠️'],
    ['1032', 'Payment was cancelled. Please try again. ❌'],
    ['1037', 'Customer not reachable. Please ensure phone is on and has network. 📵'],
    ['2001', 'Wrong M-PESA PIN entered. Please try again. 🔐'],
  ] as const)('result code %s shows "%s" and offers a retry', async ([code, message], { newVisitor }) => {
    const number = `071200${code}`;
    const { page } = await newVisitor();
    await order(page, shop.url, 'passion-bottle', { ...amina, phone: number });
    await payButton(page).click();
    const failure = dialogOf(page).getByText(message, { exact: true });
    await failure.waitFor();
    const { secret } = await shop.keys();
    const orders = await fetch(
      `${shop.url}/rest/v1/orders?customer_phone=eq.%2B254${number.slice(1)}&select=status,payment_status`,
      { headers: { apikey: secret } },
    );
    expect(await orders.json()).toEqual([{ status: 'pending', payment_status: 'unpaid' }]);
    await dialogOf(page).getByRole('button', { name: 'Try Again' }).click();
    await payButton(page).waitFor();
    await failure.waitFor({ state: 'detached' });
  });

  story.concurrent('a tracked order shows each status as staff set it', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await openOrderDialog(page, shop.url, 'mango-flask');
    await fillOrder(page, { ...amina, phone: '0724005503' });
    await openMoreFields(page);
    await dialogOf(page)
      .getByLabel(/^Building/)
      .fill('Sarit');
    await dialogOf(page)
      .getByLabel(/^House/)
      .fill('4B');
    await placeOrderButton(page).click();
    await payButton(page).click();
    await expectShown(page, [heading('Payment received')]);
    await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).click();
    await expectShown(page, [
      /* the order */ 'JJ-',
      'Order date',
      heading('Customer information'),
      'Amina Otieno',
      '0724 005 503',
      'Westlands, Mpaka Road, Building: Sarit, Unit: 4B',
      'Meru Gold Mango',
      '1 × KSh 1,500.00',
      'Total amount',
      'KSh 1,501.00',
    ]);
    expect(await page.locator('dd time').textContent()).toMatch(/^\d{1,2} [A-Z][a-z]+ \d{4} at \d\d:\d\d$/);

    const number = page.url().split('/').at(-1);
    const { secret } = await shop.keys();
    const steps = page.getByRole('list', { name: 'Progress of the order' });
    for (const [status, label, done, colour] of [
      ['pending', 'Order Placed', 1, 'yellow'],
      ['processing', 'Processing', 2, 'blue'],
      ['out_for_delivery', 'Out for Delivery', 3, 'purple'],
      ['delivered', 'Delivered', 4, 'green'],
      ['cancelled', 'Cancelled', 0, 'red'],
    ] as const) {
      await fetch(`${shop.url}/rest/v1/orders?tracking_number=eq.${number}`, {
        method: 'PATCH',
        headers: { apikey: secret, 'content-type': 'application/json' },
        body: JSON.stringify({
          // The label of the status in the staff panel.
          status: status === 'out_for_delivery' ? 'shipped' : status,
          delivery_notes: 'Ring twice',
        }),
      });
      await page.locator(`article[data-status=${status}]`).waitFor();
      const badge = page.getByText(`Status: ${label}`, { exact: true }).locator('span').last();
      expect(await badge.getAttribute('class'), label).toContain(`tone-${colour}`);
      expect(await steps.getByText(', done').count(), label).toBe(done);
      const current = await steps.locator('[aria-current=step]').allTextContents();
      // With its time, where it is known.
      expect(current.map((text) => text.replace(/\d\d:\d\d$/, ''))).toEqual(
        done > 0 ? [`${label}, done`] : [],
      );
    }
    await expectShown(page, [
      heading('Delivery notes'),
      'Ring twice',
      heading('Paid, then cancelled'),
      "We received KSh 1,501.00 for this order. We'll refund you or give you a call.",
    ]);
    await expectAccessible(page, 'a cancelled order');
  });

  story.concurrent('an interrupted lookup is reported as failed', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: brokenOff });
    await page.goto(`${shop.url}/track-order`);
    await waitForHydration(page);
    await page.route('**/track-order/*.data*', (route) => route.abort());
    const number = page.getByLabel('Tracking number');
    await number.fill('   ');
    await page.keyboard.press('Enter');
    expect(new URL(page.url()).pathname).toBe('/track-order');
    await number.fill(' jj-20200101-1000 ');
    await page.keyboard.press('Enter');
    await expectShown(page, [toast('Error', 'Failed to fetch order details')]);
    await page.waitForURL('**/track-order/JJ-20200101-1000');
    await until(
      async () => (await page.getByLabel('Tracking number').inputValue()) === 'JJ-20200101-1000',
      'the number stands in its field as it is written',
    );
    await expectAccessible(page, 'a failed look-up');
  });

  story.concurrent(
    'an interrupted message keeps its text and is sent at the next attempt',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ expectedFailures: brokenOff });
      await page.goto(`${shop.url}/contact`);
      await waitForHydration(page);
      await page.getByLabel(/First name/).fill('Amina');
      await page.getByLabel(/Last name/).fill('Otieno');
      await page.getByLabel(/Email \*/).fill('amina@example.com');
      const message = page.getByRole('textbox', { name: 'Message' });
      await message.fill('Jambo');
      let release = () => {};
      const released = new Promise<void>((done) => {
        release = done;
      });
      await page.route('**/contact.data*', async (route) => {
        await released;
        await route.abort();
      });
      await page.getByRole('button', { name: 'Send message' }).click();
      const sending = page.getByRole('button', { name: 'Sending...', disabled: true });
      await sending.waitFor();
      release();
      await expectShown(page, [toast('Error sending message', 'Please try again later.')]);
      expect(await message.inputValue()).toBe('Jambo');
      await expectAccessible(page, 'a failed message');
      await page.unroute('**/contact.data*');
      await page.getByRole('button', { name: 'Send message' }).click();
      await expectShown(page, [
        toast('Message sent successfully!', "We'll get back to you as soon as possible."),
      ]);
      await until(async () => (await message.inputValue()) === '', 'the form is empty');
    },
  );

  story.concurrent('data that cannot be loaded has its own message', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: brokenOff });
    await page.goto(`${shop.url}/delivery`);
    await waitForHydration(page);
    await page.route('**/*.data*', (route) => route.abort());
    await page.getByRole('contentinfo').getByRole('link', { name: 'Shop', exact: true }).click();
    await expectShown(page, [heading('Error Loading Products'), 'Please try again later.']);
    await expectAccessible(page, 'a shop that cannot be loaded');
    await page.getByRole('contentinfo').getByRole('link', { name: 'Home', exact: true }).click();
    await expectShown(page, [heading('Unexpected Application Error!'), link('Return to Home', '/')]);
    await page.locator('main:focus[aria-label="Something went wrong · Jani Juice"]').waitFor();
    await expectAccessible(page, 'the router failed');
    await page.unroute('**/*.data*');
    await page.getByRole('link', { name: 'Try again' }).click();
    await expectShown(page, [heading('Experience Premium Energy')]);
  });
});

describe('visible numbers', () => {
  story.concurrent(
    'the carousel advances every 5 seconds in a loop until the visitor touches it',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport: desktop, reducedMotion: 'no-preference' });
      await page.clock.install({ time: new Date('2026-11-21T18:00:00Z') });
      // Later than a busy machine can get to.
      await page.clock.pauseAt(new Date('2026-11-21T18:30:00Z'));
      await page.goto(shop.url);
      const dot = (number: number) => page.getByRole('button', { name: new RegExp(`^Slide ${number}: `) });
      const isCurrent = async (number: number) => (await dot(number).getAttribute('aria-current')) === 'true';
      const later = async (ms: number, number: number) => {
        await page.clock.runFor(ms);
        await until(() => isCurrent(number), `slide ${number} is shown`, 20_000);
      };
      await until(async () => {
        await page.clock.runFor(100);
        return page.getByRole('button', { name: 'Pause slides' }).isVisible();
      }, 'the slides move');
      expect(await page.getByRole('button', { name: /^Slide \d: / }).count()).toBe(4);
      await later(4800, 1);
      await later(400, 2);
      for (const number of [3, 4, 1]) await later(5000, number);
      await dot(3).click();
      await later(1000, 3);
      await page.getByRole('button', { name: 'Play slides' }).waitFor();
      await later(20_000, 3);
      // On the slide itself, not only on its selector.
      await page.clock.resume();
      await page.getByRole('button', { name: 'Play slides' }).click();
      await page.getByRole('button', { name: 'Pause slides' }).waitFor();
      const size = page.viewportSize() ?? { width: 0, height: 0 };
      await page.getByRole('group', { name: '3 of 4' }).click({ position: { x: size.width / 2, y: 250 } });
      await page.getByRole('button', { name: 'Play slides' }).waitFor();
    },
  );

  story.concurrent('a toast stays for 4 seconds, and at most three are shown', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: brokenOff });
    await page.goto(`${shop.url}/contact`);
    await waitForHydration(page);
    for (const label of [/First name/, /Last name/]) await page.getByLabel(label).fill('Amina');
    await page.getByLabel(/Email \*/).fill('amina@example.com');
    await page.getByRole('textbox', { name: 'Message' }).fill('Jambo');
    await page.route('**/contact.data*', (route) => route.abort());
    const toasts = page.locator('[data-sonner-toast]');
    // Appearance and removal times by the page's clock, because this process may be busy.
    await page.evaluate(() => {
      const times = { came: 0, went: 0 };
      Object.assign(window, { times });
      let shown = 0;
      new MutationObserver(() => {
        const count = document.querySelectorAll('[data-sonner-toast]').length;
        if (count > shown) times.came = performance.now();
        if (count < shown) times.went = performance.now();
        shown = count;
      }).observe(document.body, { childList: true, subtree: true });
    });
    await page.getByRole('button', { name: 'Send message' }).click();
    await toasts.waitFor();
    await until(async () => (await toasts.count()) === 0, 'it is gone');
    const { came, went } = await page.evaluate(
      () => (window as unknown as { times: { came: number; went: number } }).times,
    );
    expect(went - came).toBeGreaterThan(3900);
    expect(went - came).toBeLessThan(8000);

    // Toasts stay while the mouse is over them.
    await page.getByRole('button', { name: 'Send message' }).press('Enter');
    await toasts.hover();
    for (let count = 2; count <= 4; count += 1) {
      await page.getByRole('button', { name: 'Send message' }).press('Enter');
      await until(async () => (await toasts.count()) === count, `message ${count} is there`);
    }
    expect(await page.locator('[data-sonner-toast][data-visible=true]').count()).toBe(3);
    await page.mouse.move(0, 0);
    await until(async () => (await toasts.count()) === 0, 'they are gone');
  });

  story.concurrent(
    'a new page is prefetched, starts at the top and is counted once',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ viewport: desktop });
      const counted: string[] = [];
      page.on('request', (request) => {
        if (!request.url().endsWith('/api/event')) return;
        counted.push(new URL(JSON.parse(request.postData() ?? '{}').url).pathname);
      });
      await page.goto(shop.url);
      await waitForHydration(page);
      for (const [name, path, code] of [
        ['View All 9 Flavors', '/shop', 'shop-page'],
        ['Embu Fresh Mango', '/shop/mango-bottle', 'product-page'],
        ['Delivery', '/delivery', 'delivery-page'],
      ] as const) {
        const target = page.getByRole('link', { name, exact: true }).last();
        await target.scrollIntoViewIfNeeded();
        await page.evaluate(() => scrollBy(0, 100));
        // Hovering or focusing the link prefetches the next page.
        await target.hover();
        await page
          .locator(`link[rel="modulepreload"][href*="/${code}-"]`)
          .first()
          .waitFor({ state: 'attached' });
        await target.click();
        await page.waitForURL(`**${path}`);
        await until(async () => (await page.evaluate(() => scrollY)) === 0, `${path} begins at its top`);
        await until(async () => counted.at(-1) === path, `${path} is counted`);
      }
      expect(counted).toEqual(['/', '/shop', '/shop/mango-bottle', '/delivery']);
    },
  );

  story.concurrent(
    'the quantity has a minimum and no maximum; at most three related drinks are shown',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await page.goto(`${shop.url}/shop/mango-bottle`);
      await waitForHydration(page);
      const quantity = page.getByLabel('Quantity', { exact: true });
      await page.getByRole('button', { name: 'Decrease quantity' }).click({ force: true });
      expect(await quantity.inputValue()).toBe('1');
      for (const [typed, meant] of [
        ['0', '1'],
        ['-1', '1'],
        ['3.5', '3'],
        ['1e3', '1'],
        ['007', '7'],
        ['1,200', '1200'],
      ] as const) {
        await quantity.fill('');
        await quantity.pressSequentially(typed);
        await quantity.blur();
        expect(await quantity.inputValue(), typed).toBe(meant);
      }
      // The field is cleared and stays empty.
      await quantity.fill('');
      await quantity.pressSequentially('250000');
      await page.getByRole('button', { name: 'Increase quantity' }).click();
      await expectShown(page, ['250001 × KSh 950.00 = KSh 237,500,950.00']);
      expect(
        await quantity.evaluate((field) => field.scrollWidth - field.clientWidth),
        'all of it is seen',
      ).toBe(0);
      await quantity.fill('');
      await quantity.blur();
      expect(await quantity.inputValue()).toBe('250001');
      const others = page.getByRole('region', { name: 'You Might Also Like' }).getByRole('article');
      expect(await others.count()).toBeLessThanOrEqual(3);
      for (const name of await others.getByRole('heading').allTextContents()) expect(name).toMatch(/ Mango$/);
    },
  );

  story.concurrent('the menu button disappears at 768 px', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: { width: 767, height: 900 } });
    await page.goto(`${shop.url}/contact`);
    await waitForHydration(page);
    const menu = page.getByRole('button', { name: 'Menu', exact: true });
    const navigation = page.getByRole('navigation', { name: 'Main' });
    expect([await menu.isVisible(), await navigation.isVisible()]).toEqual([true, false]);
    await page.setViewportSize({ width: 768, height: 900 });
    expect([await menu.isVisible(), await navigation.isVisible()]).toEqual([false, true]);
    const search = page.getByRole('banner').getByRole('combobox');
    const track = page.getByRole('banner').getByRole('link', { name: 'Track Your Order' });
    expect((await search.boundingBox())?.y, 'searching and tracking share a row').toBe(
      (await track.boundingBox())?.y,
    );
    await search.fill('   ');
    await page.keyboard.press('Enter');
    expect(new URL(page.url()).pathname).toBe('/contact');
    await search.fill(' hibiscus & co ');
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.pathname === '/shop' && url.search === '?search=hibiscus%20%26%20co');
  });
});

// Runs last: afterwards the rate limit blocks lookups from this network for a while.
story("a rejected lookup shows the service's message", async ({ newVisitor }) => {
  const { publishable } = await shop.keys();
  const guess = () =>
    fetch(`${shop.url}/rest/v1/rpc/track_order`, {
      method: 'POST',
      headers: { apikey: publishable, 'content-type': 'application/json' },
      body: JSON.stringify({ tracking_number: 'JJ-20200101-1000' }),
    });
  // One after the other: of many at once, a busy shop refuses some without counting them.
  const answers: number[] = [];
  while (answers.at(-1) !== 429 && answers.length < 100) answers.push((await guess()).status);
  expect(answers.at(-1)).toBe(429);
  const { page } = await newVisitor();
  await page.goto(`${shop.url}/track-order`);
  await waitForHydration(page);
  await page.getByLabel('Tracking number').fill('JJ-20200101-1001');
  await page.keyboard.press('Enter');
  await expectShown(page, [
    toast('Error', /^Too many look-ups\. Please try again in .+, or call or WhatsApp us on /),
  ]);
});
