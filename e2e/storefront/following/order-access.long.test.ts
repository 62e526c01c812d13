// Access to an order: customers see, follow and pay it on any device; strangers with its number have limited access.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { waitForHydration } from '../../browser.ts';
import { amina, order, payButton, trackingNumberIn } from '../../shopper.ts';
import { openShopForStories, shop, story } from '../../story.ts';

// Each visitor can send its own network address.
openShopForStories({ TRUSTED_PROXIES: '1' });

interface Row {
  id: string;
  live_handle: string;
  tracking_number: string;
  status: string;
  payment_status: string;
  total_amount: number;
}
const asStaff = async (path: string, init: RequestInit = {}): Promise<Response> => {
  const { secret } = await shop.keys();
  const headers = { apikey: secret, 'content-type': 'application/json', ...init.headers };
  return fetch(`${shop.url}/rest/v1/${path}`, { ...init, headers });
};
const rowOf = async (number: string): Promise<Row> => {
  const [row] = (await (await asStaff(`orders?tracking_number=eq.${number}`)).json()) as Row[];
  if (!row) throw new Error(`there is no order ${number}`);
  return row;
};
const setRow = async (number: string, change: object) => {
  const answer = await asStaff(`orders?tracking_number=eq.${number}`, {
    method: 'PATCH',
    body: JSON.stringify(change),
  });
  expect(answer.status).toBe(204);
};
const from = (page: Page, address: string) => page.setExtraHTTPHeaders({ 'x-forwarded-for': address });
const asVisitor = async (path: string, body: object, address: string): Promise<Response> =>
  fetch(`${shop.url}${path}`, {
    method: 'POST',
    headers: {
      apikey: (await shop.keys()).publishable,
      'content-type': 'application/json',
      'x-forwarded-for': address,
    },
    body: JSON.stringify(body),
  });
const track = (body: object, address: string) => asVisitor('/rest/v1/rpc/track_order', body, address);
const initiate = async (fields: object, address: string) =>
  (await asVisitor('/functions/v1/mobile-money', { action: 'initiate', ...fields }, address)).json();
const digitsIn = (page: Page) => page.getByLabel('Last four digits of the phone');
const payNow = (page: Page) => page.getByRole('button', { name: 'Pay now' });
const statusOn = (page: Page) => page.locator('[data-status]').first().getAttribute('data-status');
/** Waits until the page is subscribed to the order's live channel. */
const opened = async (page: Page, url: string) => {
  const joined = page
    .waitForEvent('websocket', (socket) => socket.url().includes('/realtime/v1/'))
    .then((socket) =>
      socket.waitForEvent('framereceived', ({ payload }) => String(payload).includes('phx_reply')),
    );
  await Promise.all([joined, page.goto(url)]);
};

describe('another device of the customer', () => {
  story('pays after the last four digits of the phone', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005601' });
    const number = await trackingNumberIn(page);

    const { page: other } = await newVisitor();
    await from(other, '203.0.113.1');
    await other.goto(`${shop.url}/track-order/${number}`);
    await other
      .getByText('Enter the last four digits of your phone to pay or see the full details.')
      .waitFor();
    await waitForHydration(other);
    await expectAccessible(other, 'an unpaid order without proof');
    expect(await payNow(other).count()).toBe(0);
    await digitsIn(other).fill('5601');
    await other.getByRole('button', { name: 'Show my order' }).click();
    await other.getByText(amina.location).waitFor();
    await until(
      async () =>
        (await other.evaluate(() => document.activeElement?.textContent)) === 'Payment due: KSh 681.00',
      'the focus is at what can be done now',
    );
    // The order's phone number is filled in.
    await payNow(other).click();
    expect(await other.getByLabel('M-PESA phone number').inputValue()).toBe('0731005601');
    await payButton(other).click();
    await other.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
    await other.getByText('Paid with M-PESA').waitFor();
    expect(await rowOf(number)).toMatchObject({ payment_status: 'paid' });
  });

  story('pays without JavaScript', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005602' });
    const number = await trackingNumberIn(page);
    const { page: plain } = await newVisitor({ javaScriptEnabled: false });
    await plain.goto(`${shop.url}/track-order/${number}/pay`);
    await plain.waitForURL(`${shop.url}/track-order/${number}`);
    await digitsIn(plain).fill('5602');
    await plain.getByRole('button', { name: 'Show my order' }).click();
    await plain.getByText(amina.location).waitFor();
    await payNow(plain).click();
    await plain.getByRole('button', { name: /^Pay KSh/ }).click();
    await plain.waitForURL(/request=/);
    await until(async () => {
      if ((await plain.getByText('Paid with M-PESA').count()) > 0) return true;
      await plain.getByRole('button', { name: 'I have entered my PIN' }).click({ timeout: 1000 });
      return false;
    }, 'the payment is confirmed');
  });

  story(
    'waits for the prompt on another phone, and pays with its own when that one ends',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005603' });
      const number = await trackingNumberIn(page);
      const { id, total_amount: amount } = await rowOf(number);
      // The simulator's phone page of that number is open, so the prompt waits for a manual answer.
      await fetch(`${shop.simulatorUrl}/simulator/prompts?phone=0731005699&screen=open`);
      const begun = await initiate(
        { phoneNumber: '0731005699', amount, trackingNumber: number, orderId: id },
        '203.0.113.3',
      );
      expect(begun).toMatchObject({ success: true });

      await payButton(page).click();
      const dialog = page.getByRole('dialog');
      await dialog
        .getByText(/^We've already sent a prompt to 0731 ••• •••\. Answer that one first/)
        .waitFor();
      await expectAccessible(page, 'a prompt on another phone');
      const declined = await fetch(
        `${shop.simulatorUrl}/simulator/prompts/${begun.checkoutRequestId}/decline`,
        { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' },
      );
      expect(declined.status).toBe(200);
      await dialog.getByText('The prompt on 0731 ••• ••• ended without payment.').waitFor();
      await payButton(page).click();
      await dialog.getByRole('button', { name: 'Track Your Order' }).waitFor();
      expect(await rowOf(number)).toMatchObject({ payment_status: 'paid' });
    },
  );
});

describe('a stranger', () => {
  story(
    'follows an order live without its id, and cannot pay with what the page receives',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005604' });
      const number = await trackingNumberIn(page);
      const { id, live_handle: handle, total_amount: amount } = await rowOf(number);

      const { page: stranger } = await newVisitor();
      await from(stranger, '203.0.113.4');
      const received: string[] = [];
      stranger.on('websocket', (socket) => {
        socket.on('framereceived', ({ payload }) => received.push(String(payload)));
        socket.on('framesent', ({ payload }) => received.push(String(payload)));
      });
      const answers: Promise<string>[] = [];
      stranger.on('response', (response) => {
        if (/track|rpc/.test(response.url())) answers.push(response.text().catch(() => ''));
      });
      await opened(stranger, `${shop.url}/track-order/${number}`);
      await setRow(number, { status: 'processing' });
      await until(async () => (await statusOn(stranger)) === 'processing', 'the page shows the new status');
      const all = [...received, ...(await Promise.all(answers)), await stranger.content()].join('\n');
      expect(all).toContain(`order-${handle}`);
      expect(all).not.toContain(id);

      // Uses every id that was shown in place of the order's id.
      const shown = new Set(all.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g));
      expect(shown).toContain(handle);
      for (const orderId of shown) {
        expect(
          await initiate(
            { phoneNumber: '0731005698', amount, trackingNumber: number, orderId },
            '203.0.113.4',
          ),
        ).toMatchObject({ success: false, code: 'order_not_found' });
      }
      expect(
        await initiate(
          { phoneNumber: '0731005604', amount, trackingNumber: number, orderId: id },
          '203.0.113.5',
        ),
      ).toMatchObject({ success: true });
    },
  );

  story('is blocked after guessing the digits; the customer is not', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005605' });
    const number = await trackingNumberIn(page);
    for (const phone_last_four of ['0000', '0001', '0002', '0003', '0004']) {
      const answer = await track({ tracking_number: number, phone_last_four }, '198.51.100.5');
      expect(await answer.json()).toMatchObject({ is_masked: true });
    }
    const right = { tracking_number: number, phone_last_four: '5605' };
    expect((await track(right, '198.51.100.5')).status).toBe(429);

    const { page: customer } = await newVisitor();
    await from(customer, '203.0.113.6');
    await customer.goto(`${shop.url}/track-order/${number}`);
    await digitsIn(customer).fill('5605');
    await customer.getByRole('button', { name: 'Show my order' }).click();
    await customer.getByText(amina.location).waitFor();
  });

  story('sees only the status of an order older than 30 days', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005606' });
    const number = await trackingNumberIn(page);
    await setRow(number, { status: 'cancelled', created_at: '2020-01-01T09:00:00Z' });
    const { page: stranger } = await newVisitor();
    await from(stranger, '203.0.113.7');
    await stranger.goto(`${shop.url}/track-order/${number}`);
    await stranger.getByText('This order is more than 30 days old.').waitFor();
    await waitForHydration(stranger);
    await expectAccessible(stranger, 'an old order without proof');
    expect(await statusOn(stranger)).toBe('cancelled');
    expect(await stranger.getByRole('main').textContent()).not.toMatch(/KSh|A•••|Order items/);
    await digitsIn(stranger).fill('5606');
    await stranger.getByRole('button', { name: 'Show' }).click();
    await stranger.getByText(amina.location).waitFor();
  });
});

story(
  'customers with proof can open their order from a network over its lookup limit',
  async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await from(page, '203.0.113.8');
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0731005607' });
    const number = await trackingNumberIn(page);
    for (let n = 0; n < 60; n += 1)
      await track({ tracking_number: `JJ-20200101-${1000 + n}` }, '203.0.113.8');
    expect((await track({ tracking_number: number }, '203.0.113.8')).status).toBe(429);

    // The device that placed the order has access.
    await page.goto(`${shop.url}/track-order/${number}`);
    await page.getByText(amina.location).waitFor();
    // Another device is rate-limited.
    const { page: other } = await newVisitor();
    await from(other, '203.0.113.8');
    await other.goto(`${shop.url}/track-order/${number}`);
    await other
      .getByText(/^Too many look-ups\. Please try again in .+, or call or WhatsApp us on /)
      .first()
      .waitFor();
    await digitsIn(other).fill('5607');
    await other.getByRole('button', { name: 'Show my order' }).click();
    await other.getByText(amina.location).waitFor();
  },
);
