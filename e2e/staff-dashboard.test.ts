// The dashboard in a browser: figures, ways on, the measured state of the machinery, and the last 30 days.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { type OpenShop, openShop, until } from '../scripts/open-shop.ts';
import { expectAccessible } from './accessibility.ts';
import { desktop, openBrowser, phone } from './browser.ts';
import { asOwner, enterAsStaff, pressUnlessTaken } from './staff-member.ts';
import { storyIn } from './story.ts';

let shop: OpenShop;
let browser: Browser;
beforeAll(async () => {
  [shop, browser] = await Promise.all([openShop(), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  const problems = shop.problems();
  await shop.close();
  expect(problems, "the server's log").toEqual([]);
});
const story = storyIn(() => browser);

const sizes = [
  ['on a phone', phone],
  ['on a desktop', desktop],
] as const;
const cards = ['Total Products', 'Total Orders', 'Total Inquiries', 'Total Revenue'];
const card = (page: Page, title: string) =>
  page.getByRole('main').getByRole('listitem').filter({ hasText: title });
const line = (page: Page, label: string) =>
  page.getByRole('region', { name: 'System Status' }).locator('dl > div').filter({ hasText: label });

let orders = 0;
/** An order as the database keeps it, made by the owner's own programs. */
async function addOrder(paymentStatus: 'paid' | 'unpaid', total: number): Promise<void> {
  orders += 1;
  await asOwner(shop, '/rest/v1/orders', 'POST', {
    order_number: `ORD-${9000 + orders}`,
    tracking_number: `JJ-20261121-${1000 + orders}`,
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: '+254712345678',
    shipping_address: 'Westlands',
    delivery_fee: 100,
    total_amount: total,
    payment_status: paymentStatus,
  });
}

/** What a customer's browser reports is counted; the one of the stories says by itself that it is a machine. */
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
    const reported = page.waitForRequest('**/api/event');
    await page.goto(`${shop.url}${path}`);
    await reported;
  }
  await context.close();
}
const countedViews = async (): Promise<Record<string, number>> => {
  const answer = await asOwner(shop, '/rest/v1/page_views?select=path,views', 'GET');
  const rows = (await answer.json()) as { path: string; views: number }[];
  return Object.fromEntries(rows.map(({ path, views }) => [path, views]));
};
const sumOf = (counted: Record<string, number>) =>
  Object.values(counted).reduce((sum, views) => sum + views, 0);

story(
  'a new shop: skeletons first, then figures, an empty month, and everything measured',
  async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: desktop });
    let letGo = () => {};
    const held = new Promise<void>((done) => {
      letGo = done;
    });
    await page.route('**/rpc/dashboard_figures*', async (route) => {
      await held;
      await route.continue();
    });
    await enterAsStaff(shop, page);
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
    await line(page, 'Database').getByText('Connected').waitFor();
    expect(await line(page, 'Database').textContent()).toMatch(/Answered in \d+ ms/);
    await line(page, 'Authentication').getByText('Active').waitFor();
    await line(page, 'Payments').getByText('Simulated').waitFor();
    await line(page, 'Last Backup').getByText('None yet').waitFor();
    await line(page, 'Last Backup').getByText('Needs attention').waitFor();
    await expectAccessible(page, 'a new shop’s dashboard');

    await page.getByRole('button', { name: 'Back up now' }).click();
    await line(page, 'Last Backup').getByText('just now').waitFor({ timeout: 60_000 });
    await line(page, 'Last Backup').getByText('Restored beside the shop').waitFor();
    expect(shop.output()).toContain('"backed up"');
  },
);

story.for(sizes)(
  '%s: the figures follow what happens, and the month is a chart and a table',
  async ([where, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page);
    const revenue = card(page, 'Total Revenue');
    await revenue.getByText('of which paid').waitFor();
    const figure = async (title: string) =>
      Number((await card(page, title).locator('p').first().textContent())?.replace(/\D/g, ''));
    await page.getByText('Live: changes appear by themselves').waitFor({ state: 'attached' });
    const before = await figure('Total Orders');

    await addOrder('paid', 95_100);
    await addOrder('unpaid', 4_900);
    await visitAsCustomer(['/', '/shop']);
    // Nobody reloads the page.
    await until(async () => (await figure('Total Orders')) === before + 2, 'the orders are counted');
    const paid = (orders / 2) * 951;
    await revenue
      .getByText(`KES ${((orders / 2) * 1000).toLocaleString('en-KE')}`, { exact: true })
      .waitFor();
    await revenue.getByText(`of which paid: KES ${paid.toLocaleString('en-KE')}`).waitFor();

    await until(async () => sumOf(await countedViews()) === orders, 'the views are written down');
    await page.reload();
    const chart = page.getByRole('img', { name: /Chart of/ });
    await chart.waitFor();
    expect(await chart.getAttribute('aria-label')).toContain(`${orders} page views, ${orders} orders`);
    await chart.locator('svg .recharts-bar-rectangle path').first().waitFor();
    await page.getByText('Figures as a table').click();
    const rows = page.getByRole('table').getByRole('row');
    expect(await rows.count()).toBe(31);
    expect(await rows.nth(1).textContent()).toContain(`${orders}${orders}`);
    await expectAccessible(page, `the dashboard ${where}`);
    expect(
      await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
      'nothing is wider than the screen',
    ).toBe(true);
  },
);

story.for(sizes)('%s: the quick actions lead where they say', async ([, viewport], { newVisitor }) => {
  const { page } = await newVisitor({ viewport });
  await enterAsStaff(shop, page);
  const go = async (name: string, address: RegExp) => {
    await page.getByRole('region', { name: 'Quick Actions' }).getByRole('link', { name }).click();
    await page.waitForURL(address);
  };
  await go('View Recent Orders', /\/admin\/orders$/);
  await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor();
  await page.goBack();
  await go('Review Inquiries', /\/admin\/inquiries$/);
  await page.getByRole('heading', { name: 'Inquiries', level: 1 }).waitFor();
  await page.goBack();
  await go('Add New Product', /\/admin\/products\?new=1$/);
  await page.getByRole('dialog', { name: 'Add New Product' }).waitFor();
});

story.for(sizes)(
  '%s: each part that fails says so, and can be tried again',
  async ([where, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport, expectedFailures: /503/ });
    let isBroken = true;
    await page.route(/rpc\/(dashboard_figures|daily_figures|system_status)|auth\/v1\/health/, (route) =>
      isBroken ? route.fulfill({ status: 503, json: { message: 'no database' } }) : route.continue(),
    );
    await enterAsStaff(shop, page);
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

story(
  'a page view is reported once per page that is opened, by whatever way, and names no order',
  async () => {
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
    // What came before is written down by the time that this is.
    await visitAsCustomer(['/contact']);
    await until(
      async () => (await countedViews())['/contact'] === 1,
      'the view of a customer is written down',
    );
    expect(await countedViews(), 'nor are machines').not.toHaveProperty('/delivery');
  },
);
