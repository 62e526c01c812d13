// A visitor orders a drink, pays by M-PESA and tracks the order.
import { beforeAll, describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { desktop, phone } from '../../browser.ts';
import { atSizes, inLongRun } from '../../selection.ts';
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

// Stories run concurrently: with M-PESA's own limit the payments of one would wait for those of the others.
openShopForStories({ MPESA_QUERIES_PER_MINUTE: '60' });
beforeAll(async () => {
  // The pull of M-PESA transactions, 45 seconds after the start, would correct a callback with a wrong amount.
  const call = async (procedure: string, parameters: object) =>
    asStaff(`rpc/${procedure}`, { method: 'POST', body: JSON.stringify(parameters) });
  await until(async () => {
    const [pull] = (await (await call('lease_statement_pull', {})).json()) as { id: number }[];
    if (!pull) return false;
    const finished = { pull_id: pull.id, payments: 0, new_payments: 0, unreadable: 0 };
    return (await call('finish_statement_pull', finished)).ok;
  }, 'the statement is registered and pulled');
});
const longStory = inLongRun(story);

interface Prompt {
  checkoutRequestId: string;
  phone: string;
  accountReference: string;
  moneyMoved: number;
}
const promptsTo = async (number: string): Promise<Prompt[]> => {
  const answer = await fetch(`${shop.simulatorUrl}/simulator/ledger?phone=254${number.slice(1)}`);
  return ((await answer.json()) as { prompts: Prompt[] }).prompts;
};
const asStaff = async (path: string, init: RequestInit = {}): Promise<Response> => {
  const { secret } = await shop.keys();
  const headers = { apikey: secret, 'content-type': 'application/json', ...init.headers };
  return fetch(`${shop.url}/rest/v1/${path}`, { ...init, headers });
};
const ordersOf = async (number: string) =>
  (await (
    await asStaff(`orders?customer_phone=eq.%2B254${number.slice(1)}&select=*,deliveries(delivery_status)`)
  ).json()) as {
    id: string;
    live_handle: string;
    tracking_number: string;
    status: string;
    payment_status: string;
    total_amount: number;
  }[];

describe.each(
  atSizes([
    ['on a phone', phone, '0711005501'],
    ['on a desktop', desktop, '0711005502'],
  ] as const),
)('%s', (_, viewport, number) => {
  story('a visitor finds a drink, orders it, pays, and tracks the order', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(shop.url);
    await page.getByRole('heading', { name: 'Experience Premium Energy' }).waitFor();
    await page.goto(`${shop.url}/shop?search=hibiscus`);
    await page
      .getByRole('link', { name: /Embu Fresh Hibiscus/ })
      .first()
      .click();
    await page.getByRole('heading', { name: 'Embu Fresh Hibiscus' }).waitFor();
    await page.getByRole('button', { name: 'Order Now' }).click();
    await fillOrder(page, { ...amina, phone: number });
    await placeOrderButton(page).click();
    await page.getByText('Please complete payment to confirm your order.').waitFor();
    await payButton(page).click();
    await page.getByRole('dialog').getByText('Payment received').waitFor();
    await page.getByText('Please complete payment to confirm your order.').waitFor({ state: 'detached' });
    await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-\d{8}-\d{4}/);
    await page.getByText('Amina Otieno').waitFor();
    await page.getByText('Embu Fresh Hibiscus').first().waitFor();
    await page.getByText('KSh 1,051.00').first().waitFor();
    const orders = await ordersOf(number);
    expect(orders).toMatchObject([{ payment_status: 'paid', status: 'processing', total_amount: 105100 }]);
    expect(await promptsTo(number)).toMatchObject([{ moneyMoved: 1051 }]);
  });
});

// The texts of failed payments are tested in storefront-texts.long.test.ts.
inLongRun(describe)('payment outcomes', () => {
  story.concurrent.for([
    ['9001', 'the callback never arrives and only a query shows it'],
    ['9002', 'the callback arrives three times'],
    ['9003', 'the callback arrives before the response to the push'],
    ['9004', 'the answer to the prompt is lost'],
  ] as const)('a payment from …%s is recorded once when %s', async ([code], { newVisitor }) => {
    const number = `071300${code}`;
    const { page } = await newVisitor();
    await order(page, shop.url, 'passion-bottle', { ...amina, phone: number });
    await payButton(page).click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Track Your Order' })
      .waitFor({ timeout: 60_000 });
    expect(await ordersOf(number)).toMatchObject([{ payment_status: 'paid', status: 'processing' }]);
    expect(await promptsTo(number)).toHaveLength(1);
  });

  story.concurrent(
    'a callback with a wrong amount needs review, and the open page says so without asking for money',
    async ({ newVisitor }) => {
      const { page, context } = await newVisitor();
      await order(page, shop.url, 'passion-bottle', { ...amina, phone: '0714009005' });
      const number = await trackingNumberIn(page);
      const followed = await context.newPage();
      const joined = followed.waitForEvent('websocket', (socket) => socket.url().includes('/realtime/v1/'));
      await followed.goto(`${shop.url}/track-order/${number}`);
      await followed.getByRole('button', { name: 'Pay now' }).waitFor();
      await (await joined).waitForEvent('framereceived', ({ payload }) =>
        String(payload).includes('phx_reply'),
      );
      await payButton(page).click();
      await page
        .getByRole('dialog')
        .getByText(/another amount/i)
        .waitFor({ timeout: 60_000 });
      expect(await ordersOf('0714009005')).toMatchObject([{ payment_status: 'unpaid' }]);
      await followed.getByRole('heading', { name: 'We are checking your payment' }).waitFor();
      expect(await followed.getByRole('button', { name: 'Pay now' }).count()).toBe(0);
      expect(await followed.getByText('Pay another way').count()).toBe(0);
      // Neither a device without a stored prompt nor the payment page offers to pay again.
      await followed.goto(`${shop.url}/track-order/${number}/pay`);
      await followed.waitForURL(`${shop.url}/track-order/${number}`);
      await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
      await page.getByRole('heading', { name: 'We are checking your payment' }).waitFor();
    },
  );

  story.concurrent(
    'a success that arrives 20 seconds after a failure still pays the order',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await order(page, shop.url, 'passion-bottle', { ...amina, phone: '0714009006' });
      await payButton(page).click();
      await page.getByRole('dialog').getByText('Customer not reachable').waitFor({ timeout: 60_000 });
      await until(
        async () => (await ordersOf('0714009006'))[0]?.payment_status === 'paid',
        'the late success is recognised',
      );
    },
  );

  story.concurrent('a prompt rejected by M-PESA is reported at once', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'passion-bottle', { ...amina, phone: '0714009007' });
    await payButton(page).click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^(Retry|Try again)/i })
      .waitFor();
    expect(await ordersOf('0714009007')).toMatchObject([{ payment_status: 'unpaid', status: 'pending' }]);
  });
});

describe('an impatient visitor', () => {
  story('places one order with a double click on Place Order', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: '0715005501' });
    const click = async (clickCount: number) => {
      await page.mouse.down({ clickCount });
      await page.mouse.up({ clickCount });
    };
    await placeOrderButton(page).hover();
    await click(1);
    await payButton(page).waitFor();
    // The order was placed between the two clicks: Cancel has taken the place of the button, or Pay on another screen.
    await click(2);
    await payButton(page).hover();
    await click(2);
    await payButton(page).waitFor();
    expect(await ordersOf('0715005501')).toHaveLength(1);
    expect(await promptsTo('0715005501')).toEqual([]);
    await payButton(page).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).waitFor();
  });

  longStory('does not close the dialog with a double click that ends outside', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await page.getByRole('dialog').getByRole('heading', { level: 2 }).hover();
    await page.mouse.down();
    await page.mouse.up();
    await page.mouse.click(20, 450, { clickCount: 2 });
    const isOpen = () => page.getByRole('dialog').and(page.locator('[data-state=open]')).count();
    expect(await isOpen()).toBe(1);
    await expect
      .poll(async () => {
        await page.mouse.click(20, 450);
        return isOpen();
      })
      .toBe(0);
  });

  story('gets one prompt with a double click on Pay', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0715005502' });
    await payButton(page).dblclick({ noWaitAfter: true });
    await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).waitFor();
    expect(await promptsTo('0715005502')).toHaveLength(1);
  });

  story('sees the payment continue after a reload', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0715005503' });
    await payButton(page).click();
    await until(async () => (await promptsTo('0715005503')).length === 1, 'the prompt is sent');
    await page.reload();
    await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-/);
    expect(await ordersOf('0715005503')).toMatchObject([{ payment_status: 'paid' }]);
    expect(await promptsTo('0715005503')).toHaveLength(1);
  });

  longStory('who reloads before paying does not order twice', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: '0715005504' });
    // A reload keeps the typed text, too.
    await page.reload();
    await page.getByRole('button', { name: 'Order Now' }).click();
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    const number = await trackingNumberIn(page);
    await page.reload();
    await payButton(page).waitFor();
    expect(await trackingNumberIn(page)).toBe(number);
    expect(await ordersOf('0715005504')).toHaveLength(1);
  });

  longStory(
    'who retries the same amount too soon sees a countdown to the next attempt',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0715005509' });
      // This phone's prompt stays open; the story sends the callback in place of M-PESA.
      await page.goto(`${shop.url}/track-order/${await trackingNumberIn(page)}`);
      await page.getByRole('button', { name: 'Pay now' }).click();
      await payButton(page).waitFor();
      await fetch(`${shop.simulatorUrl}/simulator/prompts?phone=0715005509&screen=open`);
      await payButton(page).click();
      const waiting = page.getByRole('dialog').getByText('Waiting for M-PESA to confirm');
      await waiting.waitFor();
      // The page waits for an open prompt, also when the customer returns to it repeatedly.
      await page.getByRole('button', { name: "Close. I'll check later" }).click();
      await page.getByRole('button', { name: 'See payment' }).click();
      await waiting.waitFor();
      const [placed] = await ordersOf('0715005509');
      const [payment] = (await (await asStaff(`payments?order_id=eq.${placed?.id}&select=id`)).json()) as {
        id: string;
      }[];
      const settled = await asStaff('rpc/settle_payment', {
        method: 'POST',
        body: JSON.stringify({
          payment_id: payment?.id,
          source: 'callback',
          body: '{}',
          result: 'failed',
          result_code: '17',
        }),
      });
      expect(settled.status).toBe(200);
      const dialog = page.getByRole('dialog');
      await dialog
        .getByRole('alert')
        .getByText(/only once in two minutes.*do not pay again/)
        .waitFor();
      const retry = dialog.getByRole('button', { name: /^Try again in [12]:\d\d$/ });
      expect(await retry.isDisabled()).toBe(true);
      const counted = await retry.textContent();
      await until(async () => (await retry.textContent()) !== counted, 'the button counts down');
      // The shop rejects prompts from other pages and processes, too.
      const again = await fetch(`${shop.url}/functions/v1/mobile-money`, {
        method: 'POST',
        headers: { apikey: (await shop.keys()).publishable, 'content-type': 'application/json' },
        body: JSON.stringify({
          action: 'initiate',
          phoneNumber: '0715005509',
          amount: placed?.total_amount,
          trackingNumber: placed?.tracking_number,
          orderId: placed?.id,
        }),
      });
      expect(await again.json()).toMatchObject({ success: false, code: 'same_amount_too_soon' });
      expect(await promptsTo('0715005509')).toHaveLength(1);
    },
  );
});

describe('an invalid form', () => {
  story('shows one problem at a time and sends nothing', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await openOrderDialog(page, shop.url, 'mango-bottle');
    const wrong = { name: 'A', email: 'amina', phone: '12345', location: 'x' };
    await fillOrder(page, wrong);
    for (const [field, title] of [
      ['name', 'Invalid Name'],
      ['email', 'Invalid Email'],
      ['phone', 'Invalid Phone'],
      ['location', 'Invalid Location'],
    ] as const) {
      await placeOrderButton(page).click();
      await page.getByText(title, { exact: true }).waitFor();
      await fillOrder(page, { ...wrong, [field]: amina[field] });
      Object.assign(wrong, { [field]: field === 'phone' ? '0715005505' : amina[field] });
      await fillOrder(page, wrong);
    }
    expect(await ordersOf('0715005505')).toHaveLength(0);
  });
});

describe('unavailable products', () => {
  longStory('out of stock disables the order button', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/shop/tamarind-flask`);
    await page.getByText('Out of Stock').first().waitFor();
    expect(await page.getByRole('button', { name: 'Order Now' }).isDisabled()).toBe(true);
    expect(await page.getByRole('textbox', { name: 'Quantity' }).count()).toBe(0);
  });

  longStory(
    'a product that sells out while the form is open is rejected with an explanation',
    async ({ newVisitor }) => {
      const { page } = await newVisitor({ expectedFailures: /409 \(Conflict\).*place_order/ });
      await openOrderDialog(page, shop.url, 'coconut-lime-flask');
      await asStaff('products?slug=eq.coconut-lime-flask', {
        method: 'PATCH',
        body: JSON.stringify({ stock_quantity: 0 }),
      });
      await fillOrder(page, { ...amina, phone: '0715005506' });
      await placeOrderButton(page).click();
      await page.getByText('Failed to create order item: This product is out of stock').first().waitFor();
      expect(await ordersOf('0715005506')).toHaveLength(0);
    },
  );

  story('a price that rose while the form was open must be confirmed', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /409 \(Conflict\).*place_order/ });
    await openOrderDialog(page, shop.url, 'watermelon-can');
    await asStaff('products?slug=eq.watermelon-can', {
      method: 'PATCH',
      body: JSON.stringify({ price: 99900 }),
    });
    await fillOrder(page, { ...amina, phone: '0715005507' });
    await placeOrderButton(page).click();
    await page
      .getByText(/The price has changed/)
      .first()
      .waitFor();
    expect(await ordersOf('0715005507')).toHaveLength(0);
    await page.getByRole('dialog').getByText('KSh 1,000.00').first().waitFor();
  });
});

describe('following an order', () => {
  story('a status change reaches the open page at once, in every tab', async ({ newVisitor }) => {
    const { page, context } = await newVisitor();
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0716005501' });
    await payButton(page).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-/);
    const second = await context.newPage();
    await second.goto(page.url());
    await second.getByText('Amina Otieno').waitFor();
    const [{ tracking_number: number } = { tracking_number: '' }] = await ordersOf('0716005501');
    const setStatus = async (status: string, label: string) => {
      await asStaff(`orders?tracking_number=eq.${number}`, {
        method: 'PATCH',
        body: JSON.stringify({ status }),
      });
      for (const tab of [page, second]) await tab.getByText(label, { exact: true }).first().waitFor();
      for (const tab of [page, second]) {
        await until(
          async () =>
            (await tab.locator('[data-status]').first().getAttribute('data-status')) ===
            (status === 'shipped' ? 'out_for_delivery' : status),
          `the tab shows ${status}`,
        );
      }
    };
    await setStatus('shipped', 'Out for Delivery');
    await setStatus('delivered', 'Delivered');
  });

  longStory('a forged message changes nothing; a genuine one is still received', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /ERR_FAILED .*track_order/ });
    await order(page, shop.url, 'mango-can', { ...amina, phone: '0716005502' });
    const number = await trackingNumberIn(page);
    const joined = page
      .waitForEvent('websocket', (socket) => socket.url().includes('/realtime/v1/'))
      .then((socket) =>
        socket.waitForEvent('framereceived', ({ payload }) => String(payload).includes('phx_reply')),
      );
    await Promise.all([joined, page.goto(`${shop.url}/track-order/${number}`)]);
    const status = () => page.locator('[data-status]').first().getAttribute('data-status');
    expect(await status()).toBe('pending');

    const [{ live_handle: id } = { live_handle: '' }] = await ordersOf('0716005502');
    // Joining the channel causes the first lookup; a message causes another.
    await page.waitForLoadState('networkidle');
    const lookedUp = page.waitForResponse(/rpc\/track_order/);
    const payload = { id, status: 'delivered', payment_status: 'paid', updated_at: '9999-01-01T00:00:00Z' };
    const forge = (key: string) =>
      fetch(`${shop.url}/realtime/v1/api/broadcast`, {
        method: 'POST',
        headers: { apikey: key, 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ topic: `order-${id}`, event: 'UPDATE', payload }] }),
      });
    const { publishable, secret } = await shop.keys();
    expect((await forge(publishable)).status).toBe(403);
    expect((await forge(secret)).status).toBe(202);
    await (await lookedUp).finished();
    expect(await status()).toBe('pending');

    // The first lookup after the messages fails.
    await page.route('**/rpc/track_order', (route) => route.abort(), { times: 1 });
    await asStaff(`orders?tracking_number=eq.${number}`, {
      method: 'PATCH',
      body: JSON.stringify({ status: 'processing' }),
    });
    await until(async () => (await status()) === 'processing', 'the page shows processing');
  });

  longStory(
    "a stranger sees the status but no personal data without the phone's last digits",
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await order(page, shop.url, 'mango-can', { ...amina, phone: '0716004321' });
      const number = await trackingNumberIn(page);
      const { page: other } = await newVisitor();
      await other.goto(`${shop.url}/track-order`);
      await other.getByRole('textbox', { name: /tracking number/i }).fill(`  ${number.toLowerCase()} `);
      await other.getByRole('main').getByRole('button', { name: /track/i }).first().click();
      await other.waitForURL(new RegExp(number, 'i'));
      await other.getByText('A••• O•••').waitFor();
      expect(await other.content()).not.toContain('Westlands, Mpaka Road');
      await other.getByLabel(/last four digits/i).fill('4321');
      await other.getByRole('button', { name: /show/i }).click();
      await other.getByText('Westlands, Mpaka Road').waitFor();
    },
  );

  longStory('an unknown tracking number is reported as not found', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await page.goto(`${shop.url}/track-order?tracking=JJ-20200101-1000`);
    await page.getByText('No Order Found').first().waitFor();
    await page.getByText('Please check your tracking number and try again').waitFor();
    // Visible below the header.
    await until(async () => {
      const message = await page.locator('[data-sonner-toast]').boundingBox();
      const header = await page.getByRole('banner').boundingBox();
      if (!message || !header) return false;
      return message.y >= header.y + header.height && message.y < phone.height / 2;
    }, 'the message is where it is seen');
  });
});

inLongRun(describe)('a server that is killed', () => {
  story('loses no order and no payment', async ({ newVisitor }) => {
    const { page } = await newVisitor({
      expectedFailures: /ERR_CONNECTION|WebSocket|Failed to (load|fetch)|fetch/,
    });
    await order(page, shop.url, 'mango-bottle', { ...amina, phone: '0717005501' });
    await payButton(page).click();
    await until(async () => (await promptsTo('0717005501')).length === 1, 'the prompt is sent');
    await shop.kill();
    await shop.restart();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Track Your Order' })
      .waitFor({ timeout: 60_000 });
    await until(
      async () => (await ordersOf('0717005501'))[0]?.payment_status === 'paid',
      'the payment is known after the restart',
    );
  });
});
