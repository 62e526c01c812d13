// Lists of staff: search by any detail of an order, filter by open work, assign, export and print.
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect } from 'vitest';
import { until } from '../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../accessibility.ts';
import { desktop, phone, waitForAnimations } from '../browser.ts';
import { atSizes } from '../selection.ts';
import { asOwner, enterAsStaff, statusButton } from '../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../story.ts';

/** Height of the line with a customer's notes, in px. */
const noteLine = 20;
let product: { id: string; name: string; brand: string; price: number };
/** As staff read it first: without its brand. */
let drink: string;

interface Order {
  id: string;
  order_number: string;
}
let made = 0;
/** Places an order of two, with a creation time some minutes ago. */
async function makeOrder(
  name: string,
  minutes: number,
  more: { phone?: string; place?: string; notes?: string; receipt?: string; rider?: string } = {},
): Promise<Order> {
  made += 1;
  const created_at = new Date(Date.now() - minutes * 60_000).toISOString();
  const answer = await asOwner(shop, '/rest/v1/orders', 'POST', {
    order_number: `ORD-${2000 + made}`,
    tracking_number: `JJ-20261001-${4000 + made}`,
    customer_name: name,
    customer_email: `lists.${made}@mail.example`,
    customer_phone: more.phone ?? '+254700000000',
    shipping_address: more.place ?? 'Runda',
    delivery_notes: more.notes ?? null,
    delivery_fee: 100,
    total_amount: product.price * 2 + 100,
    created_at,
  });
  const [order] = (await answer.json()) as [Order];
  await asOwner(shop, '/rest/v1/order_items', 'POST', {
    order_id: order.id,
    product_id: product.id,
    product_name: product.name,
    quantity: 2,
    unit_price: product.price,
  });
  if (!more.receipt) return order;
  await asOwner(shop, '/rest/v1/payments', 'POST', {
    order_id: order.id,
    phone: '+254700000000',
    charge_cents: product.price * 2 + 100,
    status: 'completed',
    result_code: '0',
    receipt: more.receipt,
    completed_at: created_at,
  });
  await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', {
    payment_status: 'paid',
    status: 'processing',
    reserved_until: null,
  });
  await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: order.id, created_at });
  if (more.rider) {
    await asOwner(shop, '/rest/v1/rpc/assign_delivery', 'POST', {
      order_id: order.id,
      delivery_person: more.rider,
      delivery_phone: '0722 000 111',
      delivery_vehicle: 'Motorbike',
    });
    await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', { ready_at: created_at });
  }
  return order;
}

openShopForStories();
beforeAll(async () => {
  const answer = await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'GET');
  [product] = (await answer.json()) as [typeof product];
  drink = product.name.replace(`${product.brand} `, '');
  await makeOrder('Amina Kamau', 12, {
    phone: '+254712341032',
    place: 'Westlands, Mpaka Road, Building: Delta, Unit: 4',
    notes: '=Blue gate, ring twice',
    receipt: 'UKL3AB12CD',
  });
  await makeOrder('Brian Mutua', 90, { receipt: 'UKL3AB12CE', rider: 'Joseph Otieno' });
  await makeOrder('Chebet Ruto', 3);
  for (let index = 0; index < 8; index += 1) await makeOrder(`Regular ${index}`, 3000 + index);
});

const heightOf = async (row: Locator) => (await row.boundingBox())?.height ?? 0;
/** Replaces `window.print`: the printable content stays in the page. */
const holdPrinter = (page: Page) =>
  page.addInitScript(() => {
    window.print = () => {};
  });
const sheet = (page: Page) => page.locator('.print-sheet');

describe.each(
  atSizes([
    ['at the counter', desktop],
    ['on a phone', phone],
  ] as const),
)('%s', (where, viewport) => {
  const isPhone = viewport === phone;
  const story = storyWith({ viewport });
  const rowOf = (page: Page, text: string) =>
    page.getByRole(isPhone ? 'listitem' : 'row').filter({ hasText: text });
  const open = async (page: Page, path: string, heading: string) => {
    await page.goto(`${shop.url}${path}`);
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
  };
  const press = (locator: Locator) => (isPhone ? locator.tap() : locator.click());

  story('a dense row shows payment, age, drinks, phone and area', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await open(page, '/admin/orders', 'Orders');
    const row = rowOf(page, 'Amina Kamau');
    for (const text of [
      'Paid',
      `2 × ${drink}`,
      product.brand,
      'Westlands, Mpaka Road',
      /^4[0-9] min left$/,
    ]) {
      await row.getByText(text).first().waitFor();
    }
    await rowOf(page, 'Brian Mutua')
      .getByText(/ late$/)
      .waitFor();
    await rowOf(page, 'Chebet Ruto').getByText('Unpaid').waitFor();
    // The longest status stays within its button, as every order on its way has it.
    const beyond = await rowOf(page, 'Chebet Ruto')
      .getByRole('button', { name: /^Status of/ })
      .evaluate((button) => {
        const [status, chevron] = button.children;
        if (!status || !chevron) return null;
        const before = status.textContent;
        status.textContent = 'Out For Delivery';
        const right = chevron.getBoundingClientRect().right - button.getBoundingClientRect().right;
        status.textContent = before;
        return right;
      });
    expect(beyond).toBeLessThanOrEqual(0);
    if (isPhone) {
      // A row is at most a third of a former card (270 px); its controls have the minimum touch size.
      expect(await heightOf(row)).toBeLessThanOrEqual(98 + noteLine);
      for (const control of await row.getByRole('button').all())
        expect(await heightOf(control)).toBeGreaterThanOrEqual(44);
      await row.getByRole('button', { name: /^More for/ }).click();
      const call = page.getByRole('menuitem', { name: 'Call Amina Kamau' });
      expect(await call.getAttribute('href')).toBe('tel:+254712341032');
      expect(await heightOf(call)).toBeGreaterThanOrEqual(44);
      await page.keyboard.press('Escape');
      await page.getByRole('menu').waitFor({ state: 'detached' });
    } else {
      const call = row.getByRole('link', { name: 'Call Amina Kamau: 0712 341 032' });
      expect(await call.getAttribute('href')).toBe('tel:+254712341032');
      expect(await heightOf(row)).toBeLessThanOrEqual(60 + noteLine);
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.reload();
      await row.waitFor();
      // The sidebar collapses, and no column is cut off.
      expect(await page.getByRole('columnheader').count()).toBe(9);
      expect(await heightOf(row)).toBeLessThanOrEqual(60 + noteLine);
      const table = page.getByRole('region', { name: 'Orders', exact: true });
      expect(await table.evaluate((element) => element.scrollWidth - element.clientWidth)).toBe(0);
      const total = row.getByRole('cell', { name: /^KES / });
      const overflow = await total.evaluate((cell) => {
        cell.textContent = 'KES 14,401';
        const text = document.createRange();
        text.selectNodeContents(cell);
        const right =
          cell.getBoundingClientRect().right - Number.parseFloat(getComputedStyle(cell).paddingRight);
        return text.getBoundingClientRect().right - right;
      });
      expect(overflow, 'a total of five digits stays in its column').toBeLessThanOrEqual(0.5);
    }
    await waitForAnimations(page);
    await expectAccessible(page, 'the orders');
    await open(page, '/admin/deliveries', 'Delivery Management');
    const delivery = rowOf(page, 'Amina Kamau');
    await delivery.getByText(`2 × ${drink}`, { exact: true }).waitFor();
    await delivery.getByText('=Blue gate, ring twice').waitFor();
    expect(await heightOf(delivery)).toBeLessThanOrEqual((isPhone ? 98 : 60) + noteLine);
    // With a rider, one line more.
    expect(await heightOf(rowOf(page, 'Brian Mutua'))).toBeLessThanOrEqual(isPhone ? 98 : 60);
    const withRider = rowOf(page, 'Brian Mutua');
    await withRider.getByText('Joseph Otieno').evaluate((name) => {
      name.textContent = 'Peter Kipchoge Keino-Rotich the Second';
    });
    if (isPhone) {
      await withRider.getByRole('button', { name: /^More for/ }).click();
      await page.getByRole('menuitem', { name: 'Call Joseph Otieno' }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('menu').waitFor({ state: 'detached' });
    } else {
      const hidden = await withRider.getByRole('link', { name: '0722 000 111' }).evaluate((link) => {
        const line = link.closest('p, td');
        return line ? link.getBoundingClientRect().right - line.getBoundingClientRect().right : null;
      });
      expect(hidden, "the rider's phone is cut off").toBeLessThanOrEqual(0);
    }
    await expectAccessible(page, 'the deliveries');
  });

  story('an order is found by phone, name, area, address, drink or receipt', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await open(page, '/admin/orders', 'Orders');
    const search = page.getByRole('searchbox', { name: 'Search orders' });
    for (const typed of ['0712 341 032', '+254712341032', '712341', 'mpaka', 'mango amina', 'ukl3ab12cd']) {
      await search.fill(typed);
      await page.getByText('1 order', { exact: true }).waitFor();
      await rowOf(page, 'Amina Kamau').waitFor();
    }
    await search.fill('0799 999 999');
    await page.getByText('Try three letters or more of the name, phone, address, drink').waitFor();
    await page.getByRole('button', { name: 'Show all orders' }).click();
    // Riders' phone numbers, too, combined with other words.
    await open(page, '/admin/deliveries?search=0722000111+brian', 'Delivery Management');
    await rowOf(page, 'Brian Mutua').waitFor();
    await page.getByText('1 delivery', { exact: true }).waitFor();
  });

  story('filters combine, are part of the URL, and survive opening an order', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await open(page, '/admin/orders', 'Orders');
    const prepare = page.getByRole('button', { name: /^To prepare/ });
    // By keyboard: Space on a toggle.
    await prepare.focus();
    await page.keyboard.press('Space');
    await page.waitForURL('**/admin/orders?due=prepare');
    await expect.poll(() => prepare.getAttribute('aria-pressed')).toBe('true');
    await rowOf(page, 'Chebet Ruto').waitFor({ state: 'detached' });
    // A packed order is prepared.
    await rowOf(page, 'Brian Mutua').waitFor({ state: 'detached' });
    await rowOf(page, 'Amina Kamau').waitFor();
    await page.keyboard.press('Space');
    await page.waitForURL('**/admin/orders');
    await page.getByRole('button', { name: 'Filters' }).click();
    await page.getByLabel('Rider').selectOption('Joseph Otieno');
    // Another story may have assigned an order to the same rider.
    await rowOf(page, 'Amina Kamau').waitFor({ state: 'detached' });
    await page.getByLabel('Days').selectOption('Last 7 days');
    await page.getByLabel('Payment').selectOption('Paid');
    await expect.poll(() => new URL(page.url()).search).toBe('?rider=Joseph+Otieno&day=7days&payment=paid');
    await press(rowOf(page, 'Brian Mutua').getByRole('link', { name: /^View/ }));
    await page.getByRole('dialog').getByText('Timeline').waitFor();
    await page.goBack();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await rowOf(page, 'Brian Mutua').waitFor();
    expect(new URL(page.url()).search).toContain('rider=Joseph+Otieno');
    await page.reload();
    await rowOf(page, 'Brian Mutua').waitFor();
    await page.getByRole('button', { name: 'Filters (3)' }).click();
    await page.getByLabel('Days').selectOption('Choose days');
    await page.getByLabel('From').fill('2020-01-01');
    await page.getByLabel('Until').fill('2020-01-02');
    await page.getByText('No orders found').waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'filters that leave nothing');
    await page.getByRole('button', { name: 'Show all orders' }).click();
    await page.waitForURL('**/admin/orders');
    await rowOf(page, 'Chebet Ruto').waitFor();
  });

  story('the queue of the day fits the screen and is accessible', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page, '/admin/today');
    const waiting = page.getByRole('region', { name: /^To prepare/ });
    await waiting.getByText(`2 × ${drink}`, { exact: true }).first().waitFor();
    await waiting.getByText('=Blue gate, ring twice').first().waitFor();
    await expectAccessible(page, 'the queue of the day');
    const beyond = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(await beyond()).toBeLessThanOrEqual(0);
    // As wide as readers may set it (WCAG 1.4.12), and as another font is before the shop's own has loaded.
    await page.addStyleTag({ content: '* { letter-spacing: 0.12em !important }' });
    expect(await beyond(), 'with wider letters').toBeLessThanOrEqual(0);
    for (const button of await waiting.getByRole('button').all())
      expect(await heightOf(button)).toBeGreaterThanOrEqual(44);
  });

  story('an order is handed over with six presses and no typing', async ({ newVisitor }) => {
    const { order_number, id } = await makeOrder(`Handover ${where}`, 5, {
      receipt: isPhone ? 'UKL3AB13AA' : 'UKL3AB13AB',
    });
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await open(page, '/admin/orders', 'Orders');
    let presses = 0;
    const count = async (locator: Locator) => {
      presses += 1;
      await press(locator);
    };
    await count(rowOf(page, order_number).getByRole('link', { name: `View ${order_number}` }));
    await count(page.getByRole('dialog').getByRole('button', { name: 'Assign a rider' }));
    const dialog = page.getByRole('dialog', { name: 'Assign Delivery' });
    const rider = dialog.getByRole('button', { name: /^Joseph Otieno/ });
    await rider.waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'riders to choose from');
    await count(rider);
    expect(await dialog.getByLabel(/^Phone Number/).inputValue()).toBe('0722 000 111');
    expect(await dialog.getByLabel(/^Vehicle Information/).inputValue()).toBe('Motorbike');
    expect(await rider.getAttribute('aria-pressed')).toBe('true');
    // The next key press assigns the delivery.
    const assign = dialog.getByRole('button', { name: 'Assign Delivery' });
    await expect.poll(() => assign.evaluate((button) => button === document.activeElement)).toBe(true);
    await count(assign);
    await dialog.waitFor({ state: 'hidden' });
    // The order is on the screen again, with its rider.
    await page.getByRole('dialog').getByText('Joseph Otieno').first().waitFor();
    await count(statusButton(page, `Set the status of ${order_number}`));
    await count(page.getByRole('menuitemradio', { name: 'Delivered' }));
    await until(async () => {
      const [order] = (await (await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'GET')).json()) as {
        status: string;
      }[];
      return order?.status === 'delivered';
    }, 'the order is delivered');
    expect(presses).toBe(6);
  });

  story('CSV files have Nairobi time, receipt, fee and notes', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    const exportList = async (path: string, heading: string) => {
      await open(page, path, heading);
      await rowOf(page, 'Amina Kamau').waitFor();
      await page.getByRole('button', { name: 'Filters' }).click();
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Export CSV' }).click(),
      ]);
      return (await readFile(await file.path(), 'utf8')).trim().split('\r\n');
    };
    const orders = await exportList('/admin/orders?search=amina', 'Orders');
    expect(orders).toHaveLength(2);
    expect(orders[0]).toContain('Placed (Nairobi time)');
    const price = product.price / 100;
    expect(orders[1]).toContain(
      `2 x ${product.name},${price},1,0,,${price * 2 + 1},Processing,Paid,UKL3AB12CD`,
    );
    // Formulas are exported as text.
    expect(orders[1]).toContain("'=Blue gate");
    const inNairobi = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeZone: 'Africa/Nairobi' });
    expect(orders[1]).toContain(`,${inNairobi.format(Date.now() - 12 * 60_000)} `);
    const deliveries = await exportList('/admin/deliveries?search=amina', 'Delivery Management');
    expect(deliveries[0]).toContain('Paid (Nairobi time)');
    expect(deliveries[1]).toContain(`2 x ${product.name}`);
    expect(deliveries[1]).toContain("'=Blue gate");
  });

  story('packing slip, receipt and list print without the rest of the screen', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await holdPrinter(page);
    await open(page, '/admin/orders?search=amina', 'Orders');
    await press(rowOf(page, 'Amina Kamau').getByRole('link', { name: /^View/ }));
    const dialog = page.getByRole('dialog');
    for (const [button, texts] of [
      ['Print Packing slip', ['PAID. Nothing to collect.', 'Building: Delta', '2 ×', 'JJ-20261001-']],
      ['Print Receipt', ['UKL3AB12CD', 'Delivery fee', `KES ${(product.price * 2 + 100) / 100}`.slice(0, 5)]],
    ] as const) {
      await dialog.getByRole('button', { name: button }).click();
      await sheet(page).waitFor({ state: 'attached' });
      await page.emulateMedia({ media: 'print' });
      for (const text of texts) await sheet(page).getByText(text).first().waitFor();
      expect(await page.getByRole('button').count(), 'buttons on paper').toBe(0);
      // A text without spaces, as a customer may write it.
      const [width, contentWidth] = await sheet(page).evaluate((element) => {
        for (const cell of element.querySelectorAll('dd, td:nth-child(2)')) {
          cell.textContent = 'x'.repeat(300);
        }
        return [element.clientWidth, element.scrollWidth];
      });
      expect(contentWidth, 'the content fits the paper').toBe(width);
      await page.emulateMedia({ media: 'screen' });
      await page.evaluate(() => window.dispatchEvent(new Event('afterprint')));
      await sheet(page).waitFor({ state: 'detached' });
    }
    await open(page, '/admin/orders', 'Orders');
    await rowOf(page, 'Amina Kamau').waitFor();
    await page.emulateMedia({ media: 'print' });
    expect(await page.getByRole('navigation').count(), 'navigation on paper').toBe(0);
    await page.emulateMedia({ media: 'screen' });
    await page.getByRole('button', { name: 'Filters' }).click();
    await page.getByRole('button', { name: 'Print', exact: true }).click();
    await sheet(page).waitFor({ state: 'attached' });
    await page.emulateMedia({ media: 'print' });
    await sheet(page).getByRole('row').filter({ hasText: 'Regular 7' }).waitFor();
    expect(await sheet(page).getByRole('row').count()).toBeGreaterThanOrEqual(12);
  });
});

storyWith({ viewport: desktop })('an order is handed over by keyboard alone', async ({ newVisitor }) => {
  // The newest: how many rows come before an older one depends on how long the other stories took.
  const { order_number, id } = await makeOrder('Keyboard Kendi', 0, { receipt: 'UKL3AB14AA' });
  const { page } = await newVisitor();
  await enterAsStaff(shop, page);
  await page.goto(`${shop.url}/admin/orders`);
  const tabTo = async (target: Locator) => {
    await target.waitFor();
    await waitForAnimations(page);
    for (let presses = 0; presses < 200; presses += 1) {
      await page.keyboard.press('Tab');
      if (await target.evaluate((element) => element === document.activeElement)) return;
    }
    throw new Error(`Tab does not reach ${target}`);
  };
  await tabTo(page.getByRole('link', { name: `View ${order_number}` }));
  await page.keyboard.press('Enter');
  await tabTo(page.getByRole('dialog').getByRole('button', { name: 'Assign a rider' }));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Assign Delivery' });
  await tabTo(dialog.getByRole('button', { name: /^Joseph Otieno/ }));
  await page.keyboard.press('Enter');
  const assign = dialog.getByRole('button', { name: 'Assign Delivery' });
  await expect.poll(() => assign.evaluate((button) => button === document.activeElement)).toBe(true);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await page.getByRole('dialog').getByText('Joseph Otieno').first().waitFor();
  await tabTo(statusButton(page, `Set the status of ${order_number}`));
  await page.keyboard.press('Enter');
  // The menu itself, where its code came after the press: it then cannot know that a key opened it.
  await page.locator('[role=menu]:focus, [role=menu] :focus').waitFor();
  await page.keyboard.press('d');
  await page.getByRole('menuitemradio', { name: 'Delivered' }).and(page.locator(':focus')).waitFor();
  await page.keyboard.press('Enter');
  await until(async () => {
    const answer = await asOwner(shop, `/rest/v1/orders?id=eq.${id}&select=status`, 'GET');
    return ((await answer.json()) as { status: string }[])[0]?.status === 'delivered';
  }, 'the order is delivered');
});

storyWith({ viewport: phone })(
  'nothing of the orders is cut off on a phone, however much waits',
  async ({ newVisitor }) => {
    const { id } = await makeOrder('Refunded Rehema', 30, { receipt: 'UKL3AB15AA' });
    await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'PATCH', { status: 'cancelled' });
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await page.goto(`${shop.url}/admin/orders`);
    await page.getByRole('button', { name: /^Refund due/ }).waitFor();
    for (const control of [
      page.getByRole('searchbox', { name: 'Search orders' }),
      page
        .getByLabel('Status', { exact: true })
        .or(page.getByLabel(/status/i))
        .first(),
      page.getByRole('button', { name: 'Filters' }),
    ]) {
      const box = await control.boundingBox();
      expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(phone.width);
    }
  },
);
