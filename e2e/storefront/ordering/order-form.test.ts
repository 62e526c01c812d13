// The order form: its fields, its messages while it is open, and its layout on small screens.
import type { Locator } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForHydration } from '../../browser.ts';
import { atSizes, inLongRun, mainCase } from '../../selection.ts';
import {
  amina,
  fillOrder,
  openMoreFields,
  openOrderDialog,
  payButton,
  placeOrderButton,
} from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ expectedFailures: /40\d \(/ });
const longStory = inLongRun(story);

const sizes = atSizes([
  ['on a phone', phone, '1'],
  ['at a desktop', desktop, '2'],
] as const);
// The number of unpaid orders per phone is limited.
const phoneNumber = (story: number, size: string) => `07110066${story}${size}`;

const changeSettings = (change: Record<string, unknown>) =>
  asOwner(shop, '/rest/v1/store_settings?id=is.true', 'PATCH', change);
const change = (slug: string, values: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/products?slug=eq.${slug}`, 'PATCH', values);
const lastOrderOf = async (number: string) => {
  const path = `/rest/v1/orders?customer_phone=eq.%2B254${number.slice(1)}&order=created_at.desc&limit=1`;
  return ((await (await asOwner(shop, path, 'GET')).json()) as Record<string, unknown>[])[0];
};

longStory.for(sizes)(
  'a line above Place Order, or a box to tick, confirms age and terms %s',
  async ([where, viewport, size], { newVisitor }) => {
    const number = phoneNumber(1, size);
    const { page } = await newVisitor({ viewport });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    const line = dialogOf(page).getByText(
      'By ordering you confirm that you are 18 or older and accept our terms and privacy notice.',
    );
    await line.waitFor();
    for (const [name, anchor] of [
      ['terms', 'terms'],
      ['privacy notice', 'privacy'],
    ] as const) {
      const link = line.getByRole('link', { name });
      expect(await link.getAttribute('href')).toBe(`/contact#${anchor}`);
    }
    await fillOrder(page, { ...amina, phone: number });
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    expect(await lastOrderOf(number)).toMatchObject({
      terms_accepted_at: expect.any(String),
      accepted_terms: { is_ticked: false, terms: expect.any(String), privacy: expect.any(String) },
    });

    const readPage = async () => (await fetch(`${shop.url}/shop/mango-can`)).text();
    // The whole page: where its data has the value depends on the other values.
    const before = await readPage();
    await changeSettings({ requires_terms_tick: true });
    try {
      await until(async () => (await readPage()) !== before, 'the page knows of the box', 10_000);
      const { page: other } = await newVisitor({ viewport });
      await openOrderDialog(other, shop.url, 'mango-can');
      await fillOrder(other, { ...amina, phone: number });
      await placeOrderButton(other).click();
      const box = dialogOf(other).getByRole('checkbox', { name: /18 or older/ });
      await expect.poll(() => box.evaluate((own) => own === document.activeElement)).toBe(true);
      await dialogOf(other)
        .getByText('Please confirm that you are 18 or older and accept our terms and privacy notice')
        .waitFor();
      await expectAccessible(other, `a box that is not ticked ${where}`);
      await other.keyboard.press('Space');
      await placeOrderButton(other).click();
      await payButton(other).waitFor();
      expect(await lastOrderOf(number)).toMatchObject({ accepted_terms: { is_ticked: true } });

      // Without JavaScript the browser requires the checkbox, and so does the server.
      const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
      await plain.goto(`${shop.url}/shop/mango-can/order`);
      await plain.getByLabel(/^Name/).fill(amina.name);
      await plain.getByLabel(/^Email/).fill(amina.email);
      await plain.getByLabel(/^Phone/).fill(number);
      await plain.getByLabel(/^Delivery location/).fill(amina.location);
      await plain
        .getByRole('button', { name: 'Place Order' })
        .evaluate((button) => (button as HTMLButtonElement).form?.setAttribute('novalidate', ''));
      await plain.getByRole('button', { name: 'Place Order' }).click();
      await plain
        .getByText('Please confirm that you are 18 or older and accept our terms and privacy notice')
        .first()
        .waitFor();
      await plain.getByRole('checkbox', { name: /18 or older/ }).check();
      await plain.getByRole('button', { name: 'Place Order' }).click();
      await plain.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    } finally {
      await changeSettings({ requires_terms_tick: false });
    }
  },
);

longStory.for(sizes)(
  'notes for the rider are entered and stored with the order %s',
  async ([, viewport, size], { newVisitor }) => {
    const number = phoneNumber(2, size);
    const { page } = await newVisitor({ viewport });
    await openOrderDialog(page, shop.url, 'passion-can');
    await fillOrder(page, { ...amina, phone: number });
    await openMoreFields(page);
    await dialogOf(page).getByLabel('Delivery notes (optional)').fill('Blue gate\ncall on arrival');
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    expect(await lastOrderOf(number)).toMatchObject({ delivery_notes: 'Blue gate\ncall on arrival' });

    const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
    await plain.goto(`${shop.url}/shop/passion-can/order`);
    await plain.getByLabel(/^Name/).fill(amina.name);
    await plain.getByLabel(/^Email/).fill(amina.email);
    await plain.getByLabel(/^Phone/).fill(number);
    await plain.getByLabel(/^Delivery location/).fill(amina.location);
    await openMoreFields(plain);
    await plain.getByLabel('Delivery notes (optional)').fill('Green gate\nring twice');
    await plain.getByRole('button', { name: 'Place Order' }).click();
    await plain.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    expect(await lastOrderOf(number)).toMatchObject({ delivery_notes: 'Green gate\nring twice' });
  },
);

longStory.for(sizes)(
  'stock is shown live beside the quantity, and an unavailable drink suggests others %s',
  async ([where, viewport, size], { newVisitor }) => {
    const number = phoneNumber(3, size);
    const slug = viewport.width < 768 ? 'hibiscus-can' : 'hibiscus-flask';
    await change(slug, { stock_quantity: 3, is_active: true });
    await until(
      async () => !(await (await fetch(`${shop.url}/shop/${slug}`)).text()).includes('OutOfStock'),
      'the page can be ordered from',
    );
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop/${slug}`);
    await waitForHydration(page);
    await page.getByRole('textbox', { name: 'Quantity' }).fill('7');
    await page.getByRole('button', { name: 'Order Now' }).click();
    const dialog = dialogOf(page);
    await dialog.getByText('Only 3 left.').waitFor();
    await expectAccessible(page, `a quantity above stock ${where}`);
    await dialog.getByRole('button', { name: 'Order 3 instead' }).click();
    await dialog.getByText('Only 3 left.').waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'One less' }).click();
    await fillOrder(page, { ...amina, phone: number });
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    await dialog.getByRole('button', { name: 'Close', exact: true }).click();

    // Units reserved by the customer's own order are not reported as sold to others.
    await page.getByRole('button', { name: 'Order Now' }).first().click();
    await dialog.getByText('Your unpaid order already holds 2, and 1 more can be ordered.').waitFor();
    await dialog.getByLabel(/^Name/).fill('Wanjiku Kamau');

    await change(slug, { stock_quantity: 0 });
    await dialog.getByText('Sold out for now').waitFor();
    const drink = dialog.getByRole('list', { name: 'Your drink' });
    expect(await drink.getByRole('button').allTextContents()).toEqual(['Add another drink']);
    expect(await dialog.getByText('Delivery fee').count()).toBe(0);
    expect(await placeOrderButton(page).isDisabled()).toBe(true);
    await change(slug, { is_active: false });
    await dialog.getByText("We don't sell this one any more").waitFor();
    await expectAccessible(page, `a drink that is gone ${where}`);
    await dialog
      .getByRole('link', { name: /Hibiscus/ })
      .first()
      .click();
    await page.waitForURL((url) => url.pathname !== `/shop/${slug}`);
    await expect.poll(() => dialog.getByLabel(/^Name/).inputValue()).toBe('Wanjiku Kamau');

    // Without JavaScript the same drinks are submit buttons, which preserve the typed text.
    const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
    await change(slug, { is_active: true, stock_quantity: 1 });
    await plain.goto(`${shop.url}/shop/${slug}/order`);
    await plain.getByLabel(/^Name/).fill(amina.name);
    await plain.getByLabel(/^Email/).fill(amina.email);
    await plain.getByLabel(/^Phone/).fill(number);
    await plain.getByLabel(/^Delivery location/).fill(amina.location);
    await change(slug, { is_active: false });
    await plain.getByRole('button', { name: 'Place Order' }).click();
    await plain.getByRole('heading', { name: "We don't sell this one any more" }).waitFor();
    await plain.getByRole('button', { name: /KSh/ }).first().click();
    await expect.poll(() => plain.getByLabel(/^Delivery location/).inputValue()).toBe(amina.location);
    await plain.getByRole('button', { name: 'Place Order' }).click();
    await plain.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
  },
);

story.for(sizes)(
  'a changed price or fee is shown, and one button accepts it %s',
  async ([where, viewport, size], { newVisitor }) => {
    const number = phoneNumber(4, size);
    const { page } = await newVisitor({ viewport });
    const { page: plain } = await newVisitor({ viewport, javaScriptEnabled: false });
    try {
      await openOrderDialog(page, shop.url, 'ginger-lemon-bottle');
      const before = await placeOrderButton(page).textContent();
      await fillOrder(page, { ...amina, phone: number });
      await plain.goto(`${shop.url}/shop/ginger-lemon-bottle/order`);
      await plain.getByLabel(/^Name/).fill(amina.name);
      await plain.getByLabel(/^Email/).fill(amina.email);
      await plain.getByLabel(/^Phone/).fill(number);
      await plain.getByLabel(/^Delivery location/).fill(amina.location);
      await changeSettings({ delivery_fee: 15_000 });
      await placeOrderButton(page).click();
      await dialogOf(page).getByText('Delivery is now KSh 150.00 (it was KSh 1.00).').waitFor();
      await expectAccessible(page, `a changed fee ${where}`);
      const cents = (text: string | null) => Number(text?.replace(/\D/g, ''));
      const accept = dialogOf(page).getByRole('button', { name: /^Accept and order · KSh / });
      expect(cents(await accept.textContent())).toBe(cents(before) + 14_900);
      await accept.click();
      await payButton(page).waitFor();

      await plain.getByRole('button', { name: 'Place Order' }).click();
      const reason = plain.getByText('Delivery is now KSh 150.00 (it was KSh 1.00).');
      await reason.waitFor();
      await expect
        .poll(async () => {
          const box = await reason.boundingBox();
          return box !== null && box.y > 0 && box.y + box.height < viewport.height;
        })
        .toBe(true);
      await plain.getByRole('button', { name: /^Accept and order · KSh/ }).click();
      await plain.waitForURL(/\/track-order\/JJ-[\d-]+\?key=/);
    } finally {
      await changeSettings({ delivery_fee: 100 });
    }
  },
);

longStory(
  'a phone shows the first field near the top, and a huge quantity does not widen the form',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await openOrderDialog(page, shop.url, 'mango-can');
    const dialog = dialogOf(page);
    await expect
      .poll(async () => {
        const [field, sheet] = [await dialog.getByLabel(/^Name/).boundingBox(), await dialog.boundingBox()];
        return field && sheet ? field.y - sheet.y : Number.POSITIVE_INFINITY;
      })
      .toBeLessThan(215);
    await dialog.getByRole('button', { name: 'Close' }).click();
    for (const width of [320, 360, 1440]) {
      await page.setViewportSize({ width, height: 740 });
      await page.getByRole('textbox', { name: 'Quantity' }).fill('999999999');
      await page.getByRole('button', { name: 'Order Now' }).first().click();
      await dialog.getByText(/^Only \d+ left\.$/).waitFor();
      const widest = await dialog.evaluate((own) =>
        Math.max(
          // The chips of the areas are swiped.
          ...[own, ...own.querySelectorAll(':not([data-shortened] *)')].map(
            (part) => part.getBoundingClientRect().right,
          ),
        ),
      );
      expect(widest, `${width} px`).toBeLessThanOrEqual(width);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), `${width} px`).toBe(width);
      await dialog.getByRole('button', { name: 'Close' }).click();
      await dialog.waitFor({ state: 'detached' });
    }
  },
);

story(
  'fits a small phone, reads a pasted contact, and opens the rest when it is needed',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await openOrderDialog(page, shop.url, 'mango-can');
    const dialog = dialogOf(page);
    const height = () =>
      dialog
        .locator('form')
        .first()
        .evaluate((form) => form.getBoundingClientRect().height);
    await expect.poll(height).toBeLessThan(670);
    // All that an order needs is in view at once.
    const place = placeOrderButton(page);
    for (const label of [/^Name/, /^Phone/, /^Email/, /^Delivery location/]) {
      const [box, button] = [await dialog.getByLabel(label).boundingBox(), await place.boundingBox()];
      expect(box && button && box.y + box.height <= button.y, String(label)).toBe(true);
    }
    await fillOrder(page, { ...amina, phone: 'Wanjiku (sister) +254 733-123 456' });
    await expect.poll(() => dialog.getByLabel(/^Phone/).inputValue()).toBe('0733123456');
    await dialog
      .getByText('This looks like a number of Airtel. M-PESA prompts reach Safaricom numbers only.')
      .waitFor();
    await expect.poll(height).toBeLessThan(720);

    await dialog.getByRole('button', { name: '12', exact: true }).click();
    await dialog.getByText(/^Subtotal \(12 × /).waitFor();
    expect(await dialog.getByRole('button', { name: '12', exact: true }).getAttribute('aria-pressed')).toBe(
      'true',
    );

    const building = dialog.getByLabel('Building name (optional)');
    expect(await building.isVisible()).toBe(false);
    await openMoreFields(page);
    await building.fill('x'.repeat(121));
    await openMoreFields(page);
    expect(await building.isVisible()).toBe(false);
    await place.click();
    await dialog.getByText('The building name is longer than 120 characters').waitFor();
    await expect.poll(() => building.evaluate((own) => own === document.activeElement)).toBe(true);
    // What was typed opens it the next time.
    await page.reload();
    await page.getByRole('button', { name: 'Order Now' }).click();
    await building.waitFor();
  },
);

story.for(
  mainCase([
    [740, 360],
    [360, 420],
    [1440, 900],
  ] as const),
)(
  'every required field is usable with large text on a screen of %i x %i',
  async ([width, height], { newVisitor }) => {
    const { page } = await newVisitor({ viewport: { width, height } });
    await openOrderDialog(page, shop.url, 'mango-can');
    await page.evaluate(() => document.documentElement.style.setProperty('font-size', '200%'));
    const dialog = dialogOf(page);
    for (const label of [/^Name/, /^Phone/, /^Email/, /^Delivery location/]) {
      const field = dialog.getByLabel(label);
      await field.click();
      await field.pressSequentially('Wan');
      const isShown = () =>
        field.evaluate((own) => {
          const { left, top, width, height } = own.getBoundingClientRect();
          return document.elementFromPoint(left + width / 2, top + height / 2) === own && width > 120;
        });
      await expect.poll(isShown, { message: String(label) }).toBe(true);
    }
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
  },
);

story('a first visit is paid with seven taps and 55 characters at most', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone });
  await page.goto(shop.url);
  await waitForHydration(page);
  const dialog = dialogOf(page);
  const taps = [];
  const tap = async (element: Locator) => {
    taps.push(element);
    await element.tap();
  };
  let characters = 0;
  await tap(page.getByRole('link', { name: /^Order / }).first());
  for (const [label, text] of [
    [/^Name/, 'Wanjiku'],
    [/^Phone/, '0711006650'],
    [/^Email/, 'wanjiku@gmail.com'],
    [/^Delivery location/, 'Mpaka Road 12'],
  ] as const) {
    await tap(dialog.getByLabel(label));
    expect(await dialog.getByLabel(label).inputValue()).toBe('');
    await page.keyboard.type(text);
    characters += text.length;
  }
  await tap(placeOrderButton(page));
  await tap(payButton(page));
  await dialog.getByRole('heading', { name: 'Payment received' }).waitFor();
  expect(await lastOrderOf('0711006650')).toMatchObject({ payment_status: 'paid', customer_name: 'Wanjiku' });
  expect(taps.length).toBeLessThanOrEqual(7);
  expect(characters).toBeLessThanOrEqual(55);
});

longStory.for([
  [360, 600],
  [320, 568],
] as const)(
  'the message about a field is not covered on a phone of %i x %i',
  async ([width, height], { newVisitor }) => {
    const { page } = await newVisitor({ viewport: { width, height } });
    await openOrderDialog(page, shop.url, 'mango-can');
    for (const wrong of [{ name: '' }, { phone: '0712' }, { location: 'x'.repeat(201) }]) {
      await fillOrder(page, { ...amina, ...wrong });
      await dialogOf(page)
        .locator('.dialog-body')
        .evaluate((body) => body.scrollTo(0, 0));
      await placeOrderButton(page).click();
      const message = dialogOf(page).locator('[id$=-problem]');
      // While the toast is shown, which makes the dialog lower.
      const shown = page.locator('[data-sonner-toast][data-visible=true]:not([data-removed=true])');
      await shown.waitFor();
      await expect
        .poll(() =>
          message.evaluate((own) => {
            const { left, top, bottom } = own.getBoundingClientRect();
            const isUncovered = (y: number) => document.elementFromPoint(left + 4, y) === own;
            return isUncovered(top + 4) && isUncovered(bottom - 4);
          }),
        )
        .toBe(true);
      expect(await shown.count()).toBe(1);
      await page.getByRole('button', { name: 'Dismiss' }).click();
      await shown.waitFor({ state: 'detached' });
    }
  },
);

longStory('a message above Place Order leaves room for the form on a small phone', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: { width: 320, height: 568 } });
  await openOrderDialog(page, shop.url, 'mango-can');
  await fillOrder(page, { ...amina, phone: '0711006693' });
  await change('mango-can', { stock_quantity: 0 });
  try {
    await placeOrderButton(page).click();
    const dialog = dialogOf(page);
    await dialog.getByText('Sold out for now').waitFor();
    const isBalanced = async () => {
      const [body, button] = [
        await dialog.locator('.dialog-body').boundingBox(),
        await placeOrderButton(page).boundingBox(),
      ];
      return body !== null && body.height >= 100 && button !== null && button.y + button.height <= 568;
    };
    await expect.poll(isBalanced).toBe(true);
    // All of the message can be reached.
    const similar = dialog.locator('[data-callout] a').last();
    await similar.scrollIntoViewIfNeeded();
    await expect
      .poll(() =>
        similar.evaluate((own) => {
          const { left, top, height } = own.getBoundingClientRect();
          return own.contains(document.elementFromPoint(left + 20, top + height / 2));
        }),
      )
      .toBe(true);
    expect(await isBalanced()).toBe(true);
  } finally {
    await change('mango-can', { stock_quantity: 50 });
  }
});

longStory('every field and Place Order are usable on a phone in landscape', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: { width: 740, height: 360 } });
  await openOrderDialog(page, shop.url, 'mango-flask');
  const dialog = dialogOf(page);
  const place = placeOrderButton(page);
  await expect.poll(async () => (await place.boundingBox())?.y).toBeLessThan(320);
  await fillOrder(page, { ...amina, phone: '0711006690' });
  await openMoreFields(page);
  for (const label of [
    /^Name/,
    /^Email/,
    /^Phone/,
    /^Delivery location/,
    /^Building/,
    /^House/,
    /^Delivery notes/,
  ]) {
    const field = dialog.getByLabel(label);
    await field.focus();
    await expect
      .poll(
        async () => {
          const [box, button] = [await field.boundingBox(), await place.boundingBox()];
          return box !== null && button !== null && box.y >= 0 && box.y + box.height <= button.y;
        },
        { message: String(label) },
      )
      .toBe(true);
  }
  // For a probably mistyped domain the form suggests a correction and does not reject it.
  await dialog.getByLabel(/^Email/).fill('amina@gmial.com');
  await dialog.getByLabel(/^Email/).blur();
  await dialog.getByRole('button', { name: 'Did you mean amina@gmail.com?' }).click();
  await expect.poll(() => dialog.getByLabel(/^Email/).inputValue()).toBe('amina@gmail.com');
  await place.click();
  await payButton(page).waitFor();
  await expect
    .poll(
      async () => {
        const button = await payButton(page).boundingBox();
        return button !== null && button.y + button.height <= 360;
      },
      { message: 'Pay is in sight' },
    )
    .toBe(true);
  await expect
    .poll(
      async () => {
        const [field, button] = [
          await dialog.getByLabel('M-PESA phone number').boundingBox(),
          await payButton(page).boundingBox(),
        ];
        return field !== null && button !== null && field.y + field.height <= button.y;
      },
      { message: 'the phone that is asked is in sight' },
    )
    .toBe(true);
});

longStory('without JavaScript, a sent message shows its result in view', async ({ newVisitor }) => {
  for (const viewport of [phone, desktop]) {
    const { page } = await newVisitor({ viewport, javaScriptEnabled: false });
    await page.goto(`${shop.url}/contact`);
    await page.getByLabel(/First name/).fill('Amina');
    await page.getByLabel(/Last name/).fill('Otieno');
    await page.getByLabel(/Email \*/).fill('amina@example.com');
    await page.getByRole('textbox', { name: 'Message' }).fill('Do you deliver to Ruaka?');
    await page.getByRole('button', { name: 'Send message' }).click();
    const words = page.getByText('Message sent successfully!');
    await words.waitFor();
    await expect
      .poll(async () => {
        const box = await words.boundingBox();
        return box !== null && box.y >= 0 && box.y + box.height <= viewport.height;
      })
      .toBe(true);
  }
});

longStory('a page whose data cannot be loaded says so and links to other pages', async ({ newVisitor }) => {
  const { page } = await newVisitor({ expectedFailures: /50\d/ });
  await page.goto(`${shop.url}/delivery`);
  await page.route('**/contact.data*', (route) => route.fulfill({ status: 500, body: 'no' }));
  await waitForHydration(page);
  await page.getByRole('contentinfo').getByRole('link', { name: 'Contact', exact: true }).click();
  await page.getByRole('heading', { name: "This page didn't load" }).waitFor();
  await expectAccessible(page, 'a page that did not load');
  await page.getByRole('link', { name: 'Return to Home' }).waitFor();
  await page.getByRole('link', { name: 'Try again' }).click();
  await page.getByRole('heading', { name: 'Send us a message' }).waitFor();
});
