// What is kept for customers, and the customers themselves: their screens lead to each other, on a phone and at the counter's desk.
// What each of them does: web/admin/customers/customers.test.tsx, web/admin/orders/payments/credit.test.tsx.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { phone } from '../../browser.ts';
import { type Order, placeOrder, readOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner, callAsStaff, enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

const laptop = { width: 1280, height: 800 };

openShopForStories();
const story = storyWith({ viewport: phone });

/** An order paid with KES 300 too much in cash, which the shop keeps for its customer. */
async function placeAndOwe(name: string, customerPhone: string): Promise<Order> {
  const order = await placeOrder(shop, name, customerPhone);
  const charge = Math.ceil(order.total_amount / 100) * 100;
  await callAsStaff(shop, 'receive_cash', {
    order_id: order.id,
    received_cents: charge + 30_000,
    difference: 'credit',
  });
  return readOrder(shop, order.id);
}

/** The row of a list, as a table's or a compact one. */
const rowOf = (page: Page, list: string, text: string) =>
  page.getByRole('main').locator(`tbody tr, ul[aria-label="${list}"] > li`).filter({ hasText: text });

const expectNoSidewaysScroll = async (page: Page): Promise<void> => {
  const [width, shown] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  expect(width, 'the page scrolls sideways').toBeLessThanOrEqual(shown ?? 0);
};

/** Downloads the file of a list. */
async function exportOf(page: Page): Promise<string> {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export CSV' }).click(),
  ]);
  return readFile(await file.path(), 'utf8');
}

story.for(
  atSizes([
    ['a phone', phone, '0711050101'],
    ['a laptop', laptop, '0711050102'],
  ] as const),
)(
  'money that is kept leads to its customer and is given back from its order, on %s',
  async ([where, viewport, customerPhone], { newVisitor }) => {
    const name = `Wambui ${where}`;
    const order = await placeAndOwe(name, customerPhone);
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page, '/admin/reconciliation/kept');
    const kept = rowOf(page, 'Kept for customers', order.order_number);
    await kept.getByText('KES 300 owed').waitFor();
    await page.getByText(/^KES [\d,]+ owed to (one customer|\d+ customers) · /).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page, 'kept for customers');
    expect(await exportOf(page)).toContain(order.order_number);

    // The customer has the credit, and leads back to the list.
    await kept.getByRole('link', { name }).click();
    const customer = page.getByRole('dialog', { name: new RegExp(`^${name}`) });
    await customer.getByText('KES 300', { exact: true }).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page, 'a customer with credit');
    await customer.getByRole('link', { name: 'Kept for customers' }).click();
    await kept.getByRole('link', { name: order.order_number }).click();

    const opened = page.getByRole('dialog', { name: new RegExp(`^Order ${order.order_number}`) });
    await opened.getByRole('button', { name: 'Part refund or change' }).click();
    await opened.getByRole('radio', { name: 'In cash' }).check();
    await opened.getByRole('button', { name: 'It went back' }).click();
    await opened.getByText('KES 300 went back').waitFor();
    await page.goto(`${shop.url}/admin/reconciliation/kept?show=all`);
    await kept.getByText('Settled').waitFor();
    await page.getByLabel('Show', { exact: true }).selectOption('Still owed');
    await kept.waitFor({ state: 'detached' });
  },
);

story.for(
  atSizes([
    ['a phone', phone, '0711050201'],
    ['a laptop', laptop, '0711050202'],
  ] as const),
)(
  'a customer is found, noted and blocked, and the storefront takes no order, on %s',
  async ([where, viewport, customerPhone], { newVisitor }) => {
    const name = `Achieng ${where}`;
    for (let count = 0; count < 2; count += 1) await placeOrder(shop, name, customerPhone);
    await placeOrder(shop, `Other ${where}`, `0711050${viewport.width}`.slice(0, 10));
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page, '/admin/customers');
    await page.getByRole('searchbox', { name: 'Name or phone' }).fill(customerPhone.slice(1));
    const row = rowOf(page, 'Customers', name);
    await row.getByText('Repeat customer').waitFor();
    await rowOf(page, 'Customers', `Other ${where}`).waitFor({ state: 'detached' });
    await expectNoSidewaysScroll(page);
    await expectAccessible(page, 'customers');
    expect(await exportOf(page)).toContain(name);

    await row.getByRole('link', { name }).click();
    const dialog = page.getByRole('dialog', { name: new RegExp(`^${name}`) });
    await dialog.getByLabel('What colleagues should know').fill('Rings twice');
    await dialog.getByRole('button', { name: 'Save notes' }).click();
    await dialog.getByRole('button', { name: 'Save notes' }).waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Block this phone' }).click();
    await dialog.getByRole('button', { name: /^Block 07/ }).click();
    await dialog.getByText('Please say why, in 3 to 200 characters').waitFor();
    await dialog.getByLabel('Reason').fill('Never opens the door');
    await expectAccessible(page, 'a phone that is about to be blocked');
    await dialog.getByRole('button', { name: /^Block 07/ }).click();
    await dialog.getByText('“Never opens the door”').waitFor();
    await expectNoSidewaysScroll(page);

    // Back closes the customer over the same search.
    await page.goBack();
    await dialog.waitFor({ state: 'detached' });
    await row.getByText('Blocked').waitFor();
    expect(new URL(page.url()).searchParams.get('search')).toBe(customerPhone.slice(1));

    const { publishable } = await shop.keys();
    const [mango] = (await (await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'GET')).json()) as {
      id: string;
      price: number;
    }[];
    const refused = await fetch(`${shop.url}/rest/v1/rpc/place_order`, {
      method: 'POST',
      headers: { apikey: publishable, 'content-type': 'application/json' },
      body: JSON.stringify({
        idempotency_key: crypto.randomUUID(),
        product_id: mango?.id,
        quantity: 1,
        customer_name: name,
        customer_email: 'a@mail.example',
        customer_phone: customerPhone,
        delivery_location: 'Westlands',
        expected_total: (mango?.price ?? 0) + 100,
      }),
    });
    expect(refused.ok).toBe(false);
    expect(await refused.text()).toContain('phone_blocked');
  },
);
