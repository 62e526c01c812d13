// Staff search and open orders and set their status, also with two staff members at the same order.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForAnimations } from '../../browser.ts';
import { type Order, placeOrder, readOrder } from '../../placed-orders.ts';
import { atSizes, inLongRun } from '../../selection.ts';
import { asOwner, chooseStatus, enterAsStaff, statusButton, toast, waitForLive } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
beforeAll(async () => {
  await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'PATCH', { stock_quantity: 500 });
  // Older than the orders of the stories, so that they come last in every list.
  await asOwner(
    shop,
    '/rest/v1/orders',
    'POST',
    Array.from({ length: 130 }, (_, index) => ({
      order_number: `OLD-${1000 + index}`,
      tracking_number: `JJ-20251001-${1000 + index}`,
      customer_name: index === 7 ? '100% Wambui_*' : `Regular ${index}`,
      customer_email: `regular.${index}@mail.example`,
      customer_phone: '+254712345678',
      shipping_address: 'Kilimani',
      status: index % 2 === 0 ? 'delivered' : 'shipped',
      delivery_fee: 100,
      total_amount: 123_400,
      created_at: new Date(Date.UTC(2025, 9, 1, 6, index)).toISOString(),
    })),
  );
});

/** Places an order of two as a customer. */
const place = (name: string, number = '0712345678', email = 'amina@example.com') =>
  placeOrder(shop, name, number, {
    quantity: 2,
    customer_email: email,
    delivery_notes: 'Blue gate,\nring twice',
    accepts_terms: true,
  });
/** Pays as the payment dialog does. The phone's last digits select the result. */
async function pay(order: Order, phoneNumber: string): Promise<string> {
  const ask = async (body: unknown) =>
    (await asOwner(shop, '/functions/v1/mobile-money', 'POST', body)).json();
  const { checkoutRequestId } = (await ask({
    action: 'initiate',
    phoneNumber,
    amount: order.total_amount,
    trackingNumber: order.tracking_number,
    orderId: order.id,
  })) as { checkoutRequestId: string };
  let status = '';
  await until(async () => {
    const answer = (await ask({ action: 'check-status', checkoutRequestId })) as {
      payment: { status: string };
    };
    status = answer.payment.status;
    return status === 'completed' || status === 'failed';
  }, 'the payment has ended');
  return status;
}

const list = (page: Page) => page.getByLabel('Orders', { exact: true });
const searchBox = (page: Page) => page.getByRole('searchbox', { name: 'Search orders' });
const statusOf = (page: Page, { order_number }: Order) => statusButton(page, `Status of ${order_number}`);
const statusIn = (dialog: Locator, { order_number }: Order) =>
  statusButton(dialog, `Set the status of ${order_number}`);
const dialogOf = (page: Page, { order_number }: Order) =>
  page.getByRole('dialog', { name: `Order ${order_number}` });
async function openOrders(page: Page, query = ''): Promise<void> {
  await page.goto(`${shop.url}/admin/orders${query}`);
  await page.getByRole('heading', { level: 1, name: 'Orders' }).waitFor();
}

describe.each(
  atSizes([
    ['at the counter', desktop, '07111'],
    ['on a phone', phone, '07110'],
  ] as const),
)('%s', (where, viewport, payer) => {
  const isPhone = viewport.width < 768;
  const story = storyWith({ viewport });
  const longStory = inLongRun(story);
  const rows = (page: Page) => list(page).getByRole(isPhone ? 'listitem' : 'row');
  const rowOf = (page: Page, text: string) => rows(page).filter({ hasText: text });
  const orderCount = (page: Page, count: string) => page.getByText(count, { exact: true }).waitFor();

  longStory(
    'a long list loads while scrolling, is searched, filtered and exported',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await enterAsStaff(shop, page);
      await openOrders(page);
      await page.getByText('Manage customer orders').waitFor();
      await page.getByRole('heading', { level: 2, name: 'Order Management' }).waitFor();
      if (!isPhone) {
        expect(await page.getByRole('columnheader').allTextContents()).toEqual([
          'Order #',
          'Customer',
          'Date',
          'Items',
          'Area',
          'Total',
          'Payment',
          'Status',
          'Actions',
        ]);
      }
      await rowOf(page, 'OLD-1129').waitFor();
      await waitForAnimations(page);
      await expectAccessible(page);
      await until(async () => {
        await page.mouse.wheel(0, 4000);
        return (await rowOf(page, 'OLD-1000').count()) === 1;
      }, 'the oldest order has arrived');
      const numbers = await rows(page)
        .getByText(/^(OLD|ORD)-\d+$/)
        .allTextContents();
      expect(new Set(numbers).size).toBe(numbers.length);
      expect(numbers.length).toBeGreaterThanOrEqual(130);

      for (const [typed, found] of [
        ['wamBUI', 1],
        ['100%', 1],
        ['i_*', 1],
        ['regular.12', 11],
        ['old-1012', 1],
      ] as const) {
        await searchBox(page).fill(typed);
        await orderCount(page, `${found} ${found === 1 ? 'order' : 'orders'}`);
        await until(
          async () => (await rowOf(page, 'OLD-').count()) === found,
          `${found} are found by ${typed}`,
        );
      }
      await searchBox(page).fill('regular.12');
      await page.getByLabel('Status', { exact: true }).selectOption('Shipped');
      await orderCount(page, '5 orders');
      await expect.poll(() => new URL(page.url()).search).toBe('?search=regular.12&status=shipped');
      const row = rowOf(page, 'OLD-1129');
      const shown = ['Regular 129', 'Kilimani', 'KES 1,234', 'Unpaid', 'Shipped'];
      for (const text of isPhone
        ? shown
        : [...shown, '0712 345 678', 'regular.129@mail.example', '0 items']) {
        await row.getByText(text).first().waitFor();
      }
      await page.getByRole('button', { name: 'Filters' }).click();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Export CSV' }).click(),
      ]);
      expect(download.suggestedFilename()).toMatch(/^orders-\d{4}-\d\d-\d\d\.csv$/);
      const lines = (await readFile(await download.path(), 'utf8')).trim().split('\r\n');
      expect(lines[0]).toContain('Order #,Tracking number,Customer,Email');
      expect(lines.slice(1).map((line) => line.split(',')[0])).toEqual(
        [129, 127, 125, 123, 121].map((index) => `OLD-${1000 + index}`),
      );
      expect(lines[1]).toContain('Regular 129,regular.129@mail.example');
      expect(lines[1]).toContain(',1234,Shipped,Unpaid');

      await searchBox(page).fill('no customer has this name');
      await page.getByText('No orders found').waitFor();
      await waitForAnimations(page);
      await expectAccessible(page, 'an empty list');
      await page.getByRole('button', { name: 'Show all orders' }).click();
      await rowOf(page, 'OLD-1129').waitFor();
      await expect.poll(() => searchBox(page).inputValue()).toBe('');
    },
  );

  longStory(
    'a page of the list that fails while scrolling is retried only by the user',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ expectedFailures: /403|Only staff/ });
      await enterAsStaff(shop, page);
      let requests = 0;
      await page.route('**/rest/v1/rpc/search_orders*', async (route) => {
        if (!route.request().postDataJSON().before_id) return route.continue();
        requests += 1;
        await route.fulfill({ status: 403, json: { message: 'Only staff may do this', code: 'PT403' } });
      });
      await openOrders(page);
      await rowOf(page, 'OLD-1129').waitFor();
      await page.getByRole('button', { name: 'Show more' }).scrollIntoViewIfNeeded();
      await page.getByText('the last refresh failed').waitFor();
      await page.evaluate(async () => {
        for (let frame = 0; frame < 60; frame += 1) await new Promise(requestAnimationFrame);
      });
      // A change of an order may reload the list once; a retry loop would send a request with every frame.
      expect(requests).toBeLessThan(4);
      await page.unroute('**/rest/v1/rpc/search_orders*');
      await page.getByRole('button', { name: 'Show more' }).click();
      await rowOf(page, 'OLD-1090').waitFor();
    },
  );

  longStory('an opened order shows all its details and its timeline', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    const account = await enterAsStaff(shop, page);
    // A customer with few orders: customers with many orders per hour do not get a message for each.
    const email = `${payer}.whose.name.goes.on.and.on.and.on@a-company-of-many-words.example`;
    const order = await place(`Wanjiru ${where}`, `${payer}02222`, email);
    expect(await pay(order, `${payer}01032`)).toBe('failed');
    expect(await pay(order, `${payer}05555`)).toBe('completed');
    await openOrders(page, `?search=${encodeURIComponent(`wanjiru ${where}`)}`);
    const row = rowOf(page, order.order_number);
    await row.getByText(/^2 × /).waitFor();
    await row.getByRole('link', { name: `View ${order.order_number}` }).click();

    const dialog = dialogOf(page, order);
    await dialog.waitFor();
    await page.waitForURL(`**/admin/orders/${order.id}*`);
    // What to pack comes first, whole: the drink, then its brand.
    await dialog.getByText('2 × Mango', { exact: true }).waitFor();
    await dialog.getByText('Embu Fresh', { exact: true }).waitFor();
    await until(
      () => dialog.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth > 0),
      'the picture is there',
    );
    const msisdn = `+254${payer.slice(1)}02222`;
    const links = Object.fromEntries(
      await Promise.all(
        ['Call', 'WhatsApp', 'Mail', 'JJ-'].map(async (name) => [
          name,
          // Excludes the messages in the timeline, "Mail to".
          await dialog.getByRole('link', { name: new RegExp(`^${name}(?! to)`) }).getAttribute('href'),
        ]),
      ),
    );
    expect(links).toEqual({
      Call: `tel:${msisdn}`,
      WhatsApp: expect.stringContaining(`https://wa.me/${msisdn.slice(1)}?`),
      Mail: expect.stringContaining(`mailto:${email}?`),
      'JJ-': `/track-order/${order.tracking_number}`,
    });
    await dialog.getByText('Blue gate').waitFor();
    await dialog
      .getByText(/^Confirmed being 18 or older and accepted the terms by placing the order/)
      .waitFor();
    expect(
      await dialog.evaluate((whole) =>
        [...whole.querySelectorAll('section')].every(
          (part) => part.getBoundingClientRect().right < whole.getBoundingClientRect().right,
        ),
      ),
      'no part is cut off',
    ).toBe(true);
    await dialog.getByText('Not assigned').waitFor();
    const payments = dialog.getByRole('region', { name: 'Payments' });
    // One line says how it was paid; the failed try is behind it.
    await payments.getByText(/^KES 1,901, [A-Z0-9]{10}, \d\d:\d\d$/).click();
    await payments.getByText('Payment was cancelled. Please try again. (code 1032)').waitFor();
    expect(await payments.getByText(/^Receipt/).textContent()).toMatch(/^Receipt [A-Z0-9]{10}/);
    const timeline = dialog.getByRole('region', { name: 'Timeline' });
    const entries = async () =>
      (await timeline.getByRole('listitem').allInnerTexts()).map((text) => text.split('\n')[0] ?? '');
    const isMessage = (line: string) => /: (?:mail|text)/.test(line);
    await expect
      .poll(async () => (await entries()).filter((line) => !isMessage(line)))
      .toEqual([
        'Ready to be assigned for delivery',
        'Status set to Processing',
        'The order is paid',
        'Payment received',
        'Payment prompt sent',
        'Payment failed',
        'Payment prompt sent',
        'Order placed',
      ]);
    await expect
      .poll(async () => (await entries()).filter(isMessage))
      // No text with the link, because the prompts went to a phone other than the order's.
      .toEqual(['Payment received: mail and text sent', 'Order received: mail sent']);
    await expectAccessible(page, 'an order');

    await statusIn(dialog, order).click();
    await page.getByRole('menuitemradio', { name: 'Shipped' }).waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'the menu of statuses in an order');
    await page.keyboard.press('Escape');
    await page.getByRole('menu').waitFor({ state: 'detached' });
    await chooseStatus(statusIn(dialog, order), 'Shipped');
    await page.getByRole('button', { name: 'Ship without a rider' }).click();
    await toast(page, 'Order status updated successfully').waitFor();
    await timeline.getByText('Status set to Shipped').waitFor();
    expect(await timeline.getByText(account.email).count()).toBe(1);

    // Back closes the dialog, and its URL opens it.
    await page.goBack();
    await dialog.waitFor({ state: 'detached' });
    expect(page.url()).toContain('/admin/orders?search=wanjiru');
    await page.goForward();
    await dialog.waitFor();
    await page.reload();
    await dialog.getByText('Status set to Shipped').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(new URL(page.url()).pathname).toBe('/admin/orders');
    await expect.poll(() => statusOf(page, order).textContent()).toBe('Shipped');
    for (const unknown of [randomUUID(), 'no-order']) {
      await page.goto(`${shop.url}/admin/orders/${unknown}`);
      await page.getByRole('dialog', { name: 'There is no such order' }).waitFor();
    }
    await page.getByText('OLD-1129', { exact: true }).first().waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'an unknown order');
    await page.getByRole('button', { name: 'Back to the list' }).click();
    await page.waitForURL(`${shop.url}/admin/orders`);
  });

  longStory(
    "two staff members set one order's status, and neither change is lost silently",
    async ({ newVisitor }) => {
      const order = await place(`Otieno ${where}`);
      const [{ page: first, context }, { page: second }] = [
        await newVisitor({
          expectedFailures: /409|set ORD|The payment of|Failed to update|ERR_|WebSocket/,
        }),
        await newVisitor(),
      ];
      const [, other] = [await enterAsStaff(shop, first), await enterAsStaff(shop, second)];
      const query = `?search=${order.order_number}`;
      await openOrders(second, query);
      // The first page receives no live updates for a while, as on a bad connection.
      await context.routeWebSocket(/realtime/, () => {});
      await openOrders(first, query);
      expect(await statusOf(first, order).textContent()).toBe('Pending');

      await chooseStatus(statusOf(second, order), 'Processing');
      await toast(second, 'Order status updated successfully').waitFor();
      await chooseStatus(statusOf(first, order), 'Cancelled', 'Cancel the order');
      await toast(first, `${other.email} set ${order.order_number} to Processing`).waitFor();
      await until(
        async () => (await statusOf(first, order).textContent()) === 'Processing',
        'the present status is shown',
      );
      expect((await readOrder(shop, order.id)).status).toBe('processing');

      // A payment that arrived in the meantime makes the order differ from the one on screen, even with the same status.
      await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { payment_status: 'needs_review' });
      await chooseStatus(statusOf(first, order), 'Cancelled', 'Cancel the order');
      await toast(first, `The payment of ${order.order_number} became Needs review`).waitFor();
      expect((await readOrder(shop, order.id)).status).toBe('processing');
      await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { payment_status: 'paid' });

      // A status that only couriers set is still shown, although it cannot be selected.
      await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { status: 'out_for_delivery' });
      await until(
        async () => (await statusOf(second, order).textContent()) === 'Out For Delivery',
        'a status beyond the five is shown',
      );
      await statusOf(second, order).click();
      expect(await second.getByRole('menuitemradio').allTextContents()).toEqual([
        'Pending',
        'Processing',
        'Shipped',
        'Delivered',
        'Cancelled',
      ]);
    },
  );

  story(
    'reports each failed request when the connection breaks on the first screen',
    async ({ newVisitor }) => {
      const order = await place('Offline Otieno');
      const { page, context } = await newVisitor({
        expectedFailures: /Failed to|could not be loaded|WebSocket .*ERR_INTERNET_DISCONNECTED/,
      });
      await enterAsStaff(shop, page);
      // The code of messages must not wait for a timer.
      await page.clock.install();
      await page.clock.pauseAt(Date.now() + 60_000);
      const toasterLoaded = page.waitForResponse(/\/assets\/toaster-/);
      await page.goto(`${shop.url}/admin/orders/${order.id}`);
      await (await toasterLoaded).finished();
      await page.clock.resume();
      const dialog = dialogOf(page, order);
      await dialog.getByRole('button', { name: 'Print Packing slip' }).waitFor();
      await page.waitForLoadState('networkidle');
      // A WebSocket that is closed while it opens is reported in the console.
      await waitForLive(page);

      await context.setOffline(true);
      await dialog.getByRole('button', { name: 'Print Packing slip' }).click();
      await toast(page, 'Failed to print. Please check the connection and try again.').waitFor();
      await chooseStatus(statusIn(dialog, order), 'Processing');
      await toast(page, 'The connection broke').waitFor();
      await dialog.getByText('Offline Otieno').first().waitFor();
    },
  );

  longStory('a new order appears by itself, and the visible rows stay in place', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openOrders(page, `?search=${encodeURIComponent(`live ${where}`)}`);
    await page.getByText('No orders found').waitFor();
    await waitForLive(page);
    const order = await place(`Live ${where}`);
    await rowOf(page, order.order_number).waitFor();
    await orderCount(page, '1 order');
  });

  longStory('a paid order that needs review stands out until it is resolved', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    const order = await place(`Decide ${where}`);
    await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', {
      status: 'cancelled',
      payment_status: 'needs_review',
      reserved_until: null,
    });
    await openOrders(page);
    await page.getByRole('button', { name: /^To decide \d/ }).click();
    // It may name open cases of earlier stories, too.
    const listed = page
      .getByRole('status')
      .filter({ hasText: 'needs your decision' })
      .getByRole('link', { name: order.order_number });
    await listed.waitFor();
    await rowOf(page, order.order_number).getByText('Needs review').waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'an order that needs a decision');
    await page.getByRole('link', { name: order.order_number, exact: true }).click();
    const dialog = dialogOf(page, order);
    await dialog.getByText('Paid, needs review').first().waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'a decision');
    await dialog.getByRole('button', { name: 'Deliver as paid' }).click();
    await toast(page, 'The order will be delivered').waitFor();
    expect(await readOrder(shop, order.id)).toMatchObject({ status: 'processing', payment_status: 'paid' });

    await chooseStatus(statusIn(dialog, order), 'Cancelled', 'Cancel the order');
    await dialog.getByText('Refund due').waitFor();
    await dialog.getByText('Its units went back into stock').waitFor();
    await dialog.getByRole('button', { name: 'The money was sent back' }).click();
    await dialog.getByRole('button', { name: 'Yes, it was sent back' }).click();
    await toast(page, 'The refund is noted with the order').waitFor();
    await dialog.getByText('Refunded', { exact: true }).waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await listed.waitFor({ state: 'detached' });
    expect(await readOrder(shop, order.id)).toMatchObject({
      status: 'cancelled',
      payment_status: 'refunded',
    });
  });

  longStory('an order with a different amount from M-PESA is not shown as unpaid', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    const [reviewed, unpaid] = [await place(`Another amount ${where}`), await place(`Not paid ${where}`)];
    await asOwner(shop, '/functions/v1/mobile-money', 'POST', {
      action: 'initiate',
      phoneNumber: `07${where === 'on a phone' ? '21' : '22'}009005`,
      amount: reviewed.total_amount,
      trackingNumber: reviewed.tracking_number,
      orderId: reviewed.id,
    });
    await until(async () => {
      const answer = await asOwner(
        shop,
        `/rest/v1/payments?order_id=eq.${reviewed.id}&status=eq.review`,
        'GET',
      );
      return ((await answer.json()) as unknown[]).length === 1;
    }, 'the payment needs review');
    if (!isPhone) await page.setViewportSize({ width: 768, height: 1024 });
    await openOrders(page);
    const rowIn = (order: Order) => list(page).getByRole('listitem').filter({ hasText: order.order_number });
    await rowIn(reviewed).getByText('Needs review', { exact: true }).waitFor();
    await rowIn(unpaid).getByText('Unpaid', { exact: true }).waitFor();
    if (!isPhone) {
      // On a tablet the longest payment text does not cover the status.
      await expect
        .poll(() =>
          rowIn(reviewed).evaluate((row) => {
            const badge = [...row.querySelectorAll('p')].find((line) => line.textContent?.includes('KES'));
            const status = row.querySelector('button[aria-label^="Status of"]');
            if (!badge || !status) return null;
            const words = document.createRange();
            words.selectNodeContents(badge);
            return words.getBoundingClientRect().right < status.getBoundingClientRect().left;
          }),
        )
        .toBe(true);
    }
    await page.getByRole('link', { name: `View ${reviewed.order_number}` }).click();
    const dialog = dialogOf(page, reviewed);
    const charged = (cents: number) => `KES ${(cents / 100).toLocaleString('en-KE')}`;
    await dialog
      .getByText(
        `M-PESA reported ${charged(reviewed.total_amount - 100)}, ${charged(reviewed.total_amount)} was charged`,
      )
      .first()
      .waitFor();
    await expectAccessible(page, 'an order whose payment needs review');
    await dialog.getByRole('link', { name: 'Decide in Reconciliation' }).click();
    await page.getByRole('heading', { level: 1, name: 'Reconciliation' }).waitFor();
    await page.getByRole('link', { name: reviewed.order_number, exact: true }).waitFor();
  });
});
