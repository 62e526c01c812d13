// The dashboard in a browser: figures, links, system status, and the last 30 days.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../accessibility.ts';
import { desktop } from '../browser.ts';
import { desktopFirst } from '../selection.ts';
import { asOwner, enterAsStaff, makeAccount, pressUnlessTaken, signIn } from '../staff-member.ts';
import { browser, openShopForStories, shop, story } from '../story.ts';

openShopForStories({ BACKUPS: 'on' });

const cards = ['Total Products', 'Total Orders', 'Total Inquiries', 'Total Revenue'];
const card = (page: Page, title: string) =>
  page.getByRole('main').getByRole('listitem').filter({ hasText: title });
const line = (page: Page, label: string) =>
  page.getByRole('region', { name: 'System Status' }).locator('dl > div').filter({ hasText: label });

/** Figures of the shop so far, including those from other stories and retries. */
const totals = { orders: 0, revenue: 0, received: 0, views: 0 };
/** Inserts an order with the secret key; the total in cents. Returns its id. */
async function addOrder(paymentStatus: 'paid' | 'unpaid', total: number): Promise<string> {
  const answer = await asOwner(shop, '/rest/v1/orders', 'POST', {
    order_number: `ORD-${9001 + totals.orders}`,
    tracking_number: `JJ-20261121-${1001 + totals.orders}`,
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: '+254712345678',
    shipping_address: 'Westlands',
    delivery_fee: 100,
    total_amount: total,
    payment_status: paymentStatus,
  });
  totals.orders += 1;
  totals.revenue += total;
  const [order] = (await answer.json()) as { id: string }[];
  return order?.id ?? '';
}
/** Inserts a successful payment for an order. */
async function addPayment(orderId: string, cents: number, completedAt: Date): Promise<void> {
  await asOwner(shop, '/rest/v1/payments', 'POST', {
    order_id: orderId,
    phone: '254712345678',
    charge_cents: cents,
    status: 'completed',
    receipt: `UKL${String(1_000_000 + totals.received).slice(-7)}`,
    completed_at: completedAt.toISOString(),
  });
  totals.received += cents;
}

/** Opens pages as a customer: page views with `Headless` in the user agent are not counted. */
async function visitAsCustomer(paths: readonly string[]): Promise<void> {
  const machine = await browser.newContext();
  const userAgent = (await (await machine.newPage()).evaluate(() => navigator.userAgent)).replace(
    'Headless',
    '',
  );
  await machine.close();
  const context = await browser.newContext({ userAgent, viewport: desktop });
  const page = await context.newPage();
  for (const path of paths) {
    // Leaving before the answer could cancel the report.
    const [report] = await Promise.all([
      page.waitForResponse('**/api/event'),
      page.goto(`${shop.url}${path}`),
    ]);
    expect(report.status()).toBe(202);
    expect(report.headers()).not.toHaveProperty('x-plausible-dropped');
    totals.views += 1;
  }
  await context.close();
}
const countedViews = async () => {
  const answer = await asOwner(shop, '/rest/v1/page_views?select=path,views', 'GET');
  return (await answer.json()) as { path: string; views: number }[];
};
const sumOf = (figures: readonly number[]) => figures.reduce((sum, figure) => sum + figure, 0);

story('a new shop shows skeletons, then figures, an empty month and every status', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: desktop });
  let letGo = () => {};
  const held = new Promise<void>((done) => {
    letGo = done;
  });
  await page.route('**/rpc/dashboard_figures*', async (route) => {
    await held;
    await route.continue();
  });
  await signIn(shop, page, await makeAccount(shop));
  await page.locator('li[data-skeleton]').first().waitFor();
  expect(await page.locator('li[data-skeleton]').count()).toBe(4);
  letGo();
  await card(page, 'Total Products').getByText('27').waitFor();
  for (const [title, text] of [
    ['Total Products', 'Active products in catalog'],
    ['Total Orders', 'Orders received'],
    ['Total Inquiries', 'Customer inquiries'],
    ['Total Revenue', 'Total sales revenue'],
  ] as const) {
    await card(page, title).getByText(text).waitFor();
  }
  await card(page, 'Total Revenue').getByText('KES 0', { exact: true }).waitFor();
  await page.getByText('Nothing yet').waitFor();
  await line(page, 'Database')
    .getByText(/^(Connected|Slow)$/)
    .waitFor();
  expect(await line(page, 'Database').textContent()).toMatch(/Answered in [\d,]+ ms/);
  await line(page, 'Authentication').getByText('Active').waitFor();
  await line(page, 'Payments').getByText('Simulated').waitFor();
  await line(page, 'Messages').getByText('SMS today 0 of 300, mails 0 of 1,000').waitFor();
  await line(page, 'Last Backup').getByText('None yet').waitFor();
  await line(page, 'Last Backup').getByText('The first is made a few minutes after the start.').waitFor();
  expect(await line(page, 'Last Backup').getByText('Needs attention').count()).toBe(0);
  await expectAccessible(page, 'a new shop’s dashboard');
});

// A story of its own: the backup is restored into an empty database, which takes a busy machine longer than all the rest.
story('a backup is made from the dashboard, and checked', { timeout: 180_000 }, async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: desktop });
  await enterAsStaff(shop, page, '/admin/dashboard');
  await page.getByRole('button', { name: 'Back up now' }).click();
  await line(page, 'Last Backup').getByText('Checked: it restores completely').waitFor({ timeout: 150_000 });
  await line(page, 'Last Backup')
    .getByText(/just now|\d+ minutes? ago/)
    .waitFor();
  expect(shop.output()).toContain('"backed up"');
});

story.for(desktopFirst)(
  '%s: figures update live, and the month is a chart and a table',
  async ([where, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page, '/admin/dashboard');
    const revenue = card(page, 'Total Revenue');
    await revenue.getByText('All orders, paid or not').waitFor();
    const money = page.getByRole('region', { name: 'Money received' });
    const monthAgo = new Date(Date.now() - 31 * 24 * 60 * 60 * 1000);
    const figure = async (title: string) =>
      Number((await card(page, title).locator('p').first().textContent())?.replace(/\D/g, ''));
    await page.getByText('Live: changes appear by themselves').waitFor({ state: 'attached' });

    const before = totals.received;
    const paid = await addOrder('paid', 95_100);
    await addPayment(paid, 95_100, new Date());
    const former = await addOrder('paid', 20_000);
    await addPayment(former, 20_000, monthAgo);
    await addOrder('unpaid', 4_900);
    await visitAsCustomer(['/', '/shop']);
    // Updates without a reload.
    await until(async () => (await figure('Total Orders')) === totals.orders, 'the orders are counted');
    const shillings = (cents: number) => `KES ${(cents / 100).toLocaleString('en-KE')}`;
    await revenue.getByText(shillings(totals.revenue), { exact: true }).waitFor();
    const received = (label: string) =>
      money
        .locator('div')
        .filter({ has: page.getByText(label, { exact: true }) })
        .last()
        .locator('dd');
    await expect.poll(() => received('In all').textContent()).toBe(shillings(totals.received));
    // Data from a month ago counts neither for today nor for this week.
    const isNew = shillings(95_100 * (1 + Math.round(before / 115_100)));
    expect(await received('Today').textContent()).toBe(isNew);
    expect(await received('This week').textContent()).toBe(isNew);

    await until(
      async () => sumOf((await countedViews()).map(({ views }) => views)) === totals.views,
      'the views are written down',
    );
    await page.reload();
    const chart = page.getByRole('img', { name: /Chart of/ });
    await chart.waitFor();
    expect(await chart.getAttribute('aria-label')).toContain(
      `${totals.views} page views, ${totals.orders} orders`,
    );
    await chart.locator('svg .recharts-bar-rectangle path').first().waitFor();
    await page.getByText('Figures as a table').click();
    const rows = page.getByRole('table').getByRole('row');
    expect(await rows.count()).toBe(31);
    const days = await rows.evaluateAll((all) =>
      all
        .slice(1)
        .map((row) => [...row.querySelectorAll('td')].map(({ textContent }) => Number(textContent))),
    );
    // Midnight may pass between them.
    const lastTwo = days.slice(0, 2);
    expect(sumOf(lastTwo.map(([views = 0]) => views))).toBe(totals.views);
    expect(sumOf(lastTwo.map(([, orders = 0]) => orders))).toBe(totals.orders);
    await expectAccessible(page, `the dashboard ${where}`);
    expect(
      await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
      'nothing is wider than the screen',
    ).toBe(true);
  },
);

story.for(desktopFirst)(
  '%s: quick actions open the screens they name',
  async ([, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page, '/admin/dashboard');
    const go = async (name: string, address: RegExp) => {
      await page.getByRole('region', { name: 'Quick Actions' }).getByRole('link', { name }).click();
      await page.waitForURL(address, { waitUntil: 'commit' });
    };
    await go('View Recent Orders', /\/admin\/orders$/);
    await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor();
    await page.goBack();
    await go('Review Inquiries', /\/admin\/inquiries$/);
    await page.getByRole('heading', { name: 'Inquiries', level: 1 }).waitFor();
    await page.goBack();
    await go('Add New Product', /\/admin\/products\?new=1$/);
    await page.getByRole('dialog', { name: 'Add New Product' }).waitFor();
  },
);

story.for(desktopFirst)(
  '%s: each part that fails says so and can be retried',
  async ([where, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport, expectedFailures: /503/ });
    let isBroken = true;
    await page.route(/rpc\/(dashboard_figures|daily_figures|system_status)|auth\/v1\/health/, (route) =>
      isBroken ? route.fulfill({ status: 503, json: { message: 'no database' } }) : route.continue(),
    );
    await enterAsStaff(shop, page, '/admin/dashboard');
    for (const title of cards) await card(page, title).getByText('Could not be loaded').waitFor();
    await page.getByText('The last 30 days could not be loaded').waitFor();
    await line(page, 'Database').getByText('No answer').waitFor();
    await line(page, 'Authentication').getByText('No answer').waitFor();
    await expectAccessible(page, `the dashboard without a database ${where}`);
    isBroken = false;
    await pressUnlessTaken(
      page.getByRole('button', { name: 'Try again: Total Orders' }),
      card(page, 'Total Orders').getByText('Orders received'),
    );
    await pressUnlessTaken(
      page.getByRole('button', { name: 'Try again', exact: true }),
      page.getByText('Figures as a table'),
    );
  },
);

story('without the chart’s code the dashboard shows its figures as a table', async ({ newVisitor }) => {
  await addOrder('unpaid', 95_100);
  const { page } = await newVisitor({ viewport: desktop, expectedFailures: /ERR_FAILED|activity-chart/ });
  await page.route('**/activity-chart-*', (route) => route.abort());
  await enterAsStaff(shop, page, '/admin/dashboard');
  await page.getByText('The chart could not be loaded.').waitFor();
  await page.getByText('Figures as a table').click();
  await page.getByRole('columnheader', { name: 'Orders', exact: true }).waitFor();
});

story('each opened page reports one page view without an order number', async () => {
  const context = await browser.newContext({ viewport: desktop });
  const page = await context.newPage();
  const reports: unknown[] = [];
  page.on('request', (request) => {
    if (request.url().endsWith('/api/event')) reports.push(JSON.parse(request.postData() ?? 'null'));
  });
  const view = (path: string) => ({
    name: 'pageview',
    url: `${shop.url}${path}`,
    domain: 'localhost',
    referrer: null,
  });
  await page.goto(`${shop.url}/?utm_source=letter`);
  await expect.poll(() => reports).toEqual([view('/')]);
  await page.getByRole('navigation').getByRole('link', { name: 'Delivery' }).first().click();
  await expect.poll(() => reports).toEqual([view('/'), view('/delivery')]);
  await page.goBack();
  await expect.poll(() => reports).toHaveLength(3);
  await page.goto(`${shop.url}/track-order/JJ-20261121-4711?key=secret`);
  await expect.poll(() => reports.at(-1)).toEqual(view('/track-order'));
  await page.goto(`${shop.url}/admin/login`);
  await page.getByRole('button', { name: 'Sign In', exact: true }).waitFor();
  expect(reports, 'staff are not counted').toHaveLength(4);
  await context.close();
  // Earlier page views are stored before this one.
  await visitAsCustomer(['/contact']);
  const isCounted = async (page: string) => (await countedViews()).some(({ path }) => path === page);
  await until(() => isCounted('/contact'), 'the view of a customer is written down');
  expect(await isCounted('/delivery'), 'nor are machines').toBe(false);
});
