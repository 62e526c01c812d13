// Staff assign, update and search deliveries, at both screen sizes and with two staff members at once.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone, waitForAnimations } from '../../browser.ts';
import { desktopFirst } from '../../selection.ts';
import { asOwner, chooseStatus, enterAsStaff, statusButton, toast } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });

interface Order {
  id: string;
  order_number: string;
  tracking_number: string;
  access_key: string;
}
interface Delivery {
  id: string;
  delivery_status: string;
  delivery_person: string | null;
  delivery_phone: string | null;
  pickup_time: string | null;
  delivery_time: string | null;
}

const firstOf = async <Row>(answer: Promise<Response>): Promise<Row> => {
  const [row] = (await (await answer).json()) as Row[];
  if (row === undefined) throw new Error('There is no such row');
  return row;
};

/** Creates a paid order with an unassigned delivery. */
async function makePaidOrder(customer: string): Promise<Order> {
  const product = await firstOf<{ id: string; price: number }>(
    asOwner(shop, '/rest/v1/products?stock_quantity=gt.5&is_active=is.true&limit=1', 'GET'),
  );
  const placed = await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
    idempotency_key: randomUUID(),
    product_id: product.id,
    quantity: 1,
    customer_name: customer,
    customer_email: 'customer@mail.example',
    customer_phone: '0712345678',
    delivery_location: 'Mpaka Road, Westlands',
    building: 'Krishna Centre',
    unit: 'B4',
    expected_total: product.price + 100,
  });
  const { id, access_key } = (await placed.json()) as Order;
  const order = await firstOf<Order>(
    asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'PATCH', {
      payment_status: 'paid',
      status: 'processing',
      reserved_until: null,
    }),
  );
  await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: id });
  return { ...order, access_key };
}
const deliveryOf = ({ id }: Order) =>
  firstOf<Delivery>(asOwner(shop, `/rest/v1/deliveries?order_id=eq.${id}`, 'GET'));
const statusOf = async ({ id }: Order) =>
  (await firstOf<{ status: string }>(asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'GET'))).status;

const openDeliveries = async (page: Page, query = ''): Promise<void> => {
  await page.goto(`${shop.url}/admin/deliveries${query}`);
  await page.getByRole('heading', { level: 1, name: 'Delivery Management' }).waitFor();
};
/** The row or card of an order. */
const rowOf = (page: Page, { order_number }: Order) =>
  page
    .getByRole('main')
    .locator('tbody tr, ul[aria-label="Deliveries"] > li')
    .filter({ has: page.getByRole('link', { name: order_number, exact: true }) });
const statusOfDelivery = (page: Page, { order_number }: Order) =>
  statusButton(page, `Delivery status of ${order_number}`);
const move = async (page: Page, order: Order, label: string, confirm?: string): Promise<void> => {
  const button = statusOfDelivery(page, order);
  await chooseStatus(button, label, confirm);
  await until(
    () => button.evaluate((element, wanted) => !element.ariaBusy && element.textContent === wanted, label),
    `${order.order_number} is ${label}`,
  );
};
const fill = async (page: Page, fields: Record<string, string>): Promise<void> => {
  for (const [label, text] of Object.entries(fields)) {
    await dialogOf(page)
      .getByLabel(new RegExp(`^${label}`))
      .fill(text);
  }
};
const joseph = {
  'Delivery Person': 'Joseph Otieno',
  'Phone Number': '0722 000 111',
  'Vehicle Information': 'Motorbike',
};

describe.each(desktopFirst)('%s', (size, viewport) => {
  story('a delivery is assigned, edited, moved, found and exported', async ({ newVisitor }) => {
    const order = await makePaidOrder(`Zawadi ${size}`);
    const other = await makePaidOrder('Someone else');
    const { page } = await newVisitor({ viewport });
    await enterAsStaff(shop, page);
    await openDeliveries(page);
    await page.getByText('Track and manage product deliveries').waitFor();
    await page.getByRole('heading', { level: 2, name: 'Active Deliveries' }).waitFor();
    const row = rowOf(page, order);
    const more = async (item: string | RegExp) => {
      await row.getByRole('button', { name: `More for ${order.order_number}` }).click();
      return page.getByRole('menuitem', { name: item });
    };
    const closeMenu = async () => {
      await page.keyboard.press('Escape');
      await page.getByRole('menu').waitFor({ state: 'detached' });
    };
    /** The number by which the rider is called: in the row, and on a phone in its menu. */
    const isRiderCalled = async (shown: string, called: string) => {
      if (viewport === desktop) await row.getByRole('link', { name: shown }).waitFor();
      else await row.getByText('Joseph Otieno').waitFor();
      await until(async () => {
        const found = await (await more('Call Joseph Otieno')).getAttribute('href');
        await closeMenu();
        return found === called;
      }, `the rider is called by ${shown}`);
    };
    if (viewport === desktop) {
      await row.getByText('Not assigned').waitFor();
      await row.getByText('N/A').waitFor();
      await row.getByText('Pending', { exact: true }).waitFor();
    }
    // Rows do not repeat the city.
    expect(await row.getByText('Nairobi').count()).toBe(0);
    expect(await (await more(/^Call Zawadi/)).getAttribute('href')).toBe('tel:+254712345678');
    await closeMenu();
    expect(await row.getByRole('link', { name: /^Mpaka Road/ }).getAttribute('href')).toContain(
      encodeURIComponent('Mpaka Road, Westlands, Nairobi, Kenya'),
    );
    expect(await statusOfDelivery(page, order).count()).toBe(0);
    if (viewport === desktop) {
      expect(await page.getByRole('columnheader').allTextContents()).toEqual([
        'Order #',
        'Customer',
        'Items',
        'Delivery Person',
        'Vehicle',
        'Status',
        'Times',
        'Actions',
      ]);
    }
    await expectAccessible(page);

    // Assigning.
    await row.getByRole('button', { name: 'Assign' }).click();
    const dialog = page.getByRole('dialog', { name: 'Assign Delivery' });
    await dialog.getByText(`Assign delivery details for order ${order.order_number}`).waitFor();
    expect(await dialog.getByLabel(/^Vehicle Information/).getAttribute('placeholder')).toBe(
      'e.g., Motorbike, Van, Car',
    );
    expect(await dialog.getByLabel('Delivery Notes').getAttribute('placeholder')).toBe(
      'Optional delivery instructions',
    );
    await dialog.getByRole('button', { name: 'Assign Delivery' }).click();
    await dialog.getByText('Delivery person name is required').waitFor();
    await dialog.getByText('Phone number is required').waitFor();
    await dialog.getByText('Vehicle information is required').waitFor();
    await until(
      () => dialog.getByLabel(/^Delivery Person/).evaluate((field) => field === document.activeElement),
      'the first field that lacks something has the focus',
    );
    await expectAccessible(page, 'the assign dialog with problems');
    // The dialog is in the URL, so it stays open after a reload.
    await page.reload();
    await fill(page, { ...joseph, 'Delivery Notes': 'Call at the gate' });
    await expectAccessible(page, 'the assign dialog');
    let isHeld = true;
    await page.route('**/rest/v1/rpc/assign_delivery*', async (route) => {
      await until(async () => !isHeld, 'the answer may come');
      await route.continue();
    });
    await dialogOf(page).getByRole('button', { name: 'Assign Delivery' }).click();
    await dialogOf(page).getByRole('button', { name: 'Assigning...' }).waitFor();
    isHeld = false;
    await toast(page, 'Delivery assigned successfully').waitFor();
    await dialogOf(page).waitFor({ state: 'hidden' });
    expect(new URL(page.url()).search).toBe('');
    await isRiderCalled('0722 000 111', 'tel:+254722000111');
    if (viewport === desktop) await row.getByText('Motorbike').waitFor();

    // On a phone a toast covers the buttons, and stays while the pointer is on it.
    const leaveMessages = () => page.mouse.move(0, 0);
    await leaveMessages();
    // Editing: the form of another delivery is empty, the form of this one is filled in.
    await (await more('Edit assignment')).click();
    const editing = page.getByRole('dialog', { name: 'Edit Assignment' });
    expect(await editing.getByLabel(/^Phone Number/).inputValue()).toBe('0722 000 111');
    await fill(page, { 'Phone Number': '0733 999 888' });
    await editing.getByRole('button', { name: 'Save Assignment' }).click();
    await toast(page, 'Delivery assignment updated successfully').waitFor();
    await isRiderCalled('0733 999 888', 'tel:+254733999888');
    await leaveMessages();
    await rowOf(page, other).getByRole('button', { name: 'Assign' }).click();
    expect(
      await dialogOf(page)
        .getByLabel(/^Delivery Person/)
        .inputValue(),
    ).toBe('');
    await fill(page, { 'Delivery Person': 'Nobody yet' });
    await page.keyboard.press('Escape');
    const question = dialogOf(page).getByRole('alertdialog', { name: 'Discard unsaved changes?' });
    await question.getByRole('button', { name: 'Keep editing' }).click();
    await question.waitFor({ state: 'detached' });
    expect(
      await dialogOf(page)
        .getByLabel(/^Delivery Person/)
        .inputValue(),
    ).toBe('Nobody yet');
    await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
    await question.getByRole('button', { name: 'Discard' }).click();
    await dialogOf(page).waitFor({ state: 'hidden' });

    // Status changes: the database sets the times and updates the order.
    await statusOfDelivery(page, order).click();
    await page.getByRole('menuitemradio').first().waitFor();
    expect(await page.getByRole('menuitemradio').allTextContents()).toEqual([
      'Assigned',
      'Picked Up',
      'In Transit',
      'Delivered',
      'Failed',
    ]);
    await waitForAnimations(page);
    await expectAccessible(page, 'the menu of statuses');
    await page.keyboard.press('Escape');
    await move(page, order, 'Picked Up');
    await toast(page, 'Delivery status updated successfully').first().waitFor();
    await row.getByText('Picked:').waitFor();
    expect(await statusOf(order)).toBe('out_for_delivery');
    await move(page, order, 'Delivered');
    await row.getByText('Delivered:').waitFor();
    expect(await statusOf(order)).toBe('delivered');
    expect(await deliveryOf(order)).toMatchObject({
      delivery_status: 'delivered',
      pickup_time: expect.any(String),
      delivery_time: expect.any(String),
    });
    await move(page, order, 'Failed', 'Nobody was there');
    await row.getByText('Delivered:').waitFor({ state: 'detached' });
    expect(await statusOf(order)).toBe('processing');

    // Search by rider, customer and number, case-insensitively, with and without a status filter.
    const box = page.getByRole('searchbox', { name: 'Search deliveries' });
    for (const text of ['joseph OTI', `zawadi ${size}`, order.order_number.toLowerCase()]) {
      await box.fill(text);
      await page.waitForURL((url) => url.searchParams.get('search') === text);
      await rowOf(page, other).waitFor({ state: 'detached' });
      await row.waitFor();
    }
    await page.getByLabel('Status', { exact: true }).selectOption({ label: 'In Transit' });
    await page.getByText('No deliveries found').waitFor();
    await expectAccessible(page, 'an empty search');
    await page.getByLabel('Status', { exact: true }).selectOption({ label: 'Failed' });
    await row.waitFor();
    await page.getByRole('button', { name: 'Filters' }).click();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const file = await readFile(await (await download).path(), 'utf8');
    const lines = file.trim().split('\r\n');
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain(`${order.order_number},Zawadi ${size},0712 345 678,"Mpaka Road`);
    expect(lines[1]).toContain('Failed,Joseph Otieno,0733 999 888,Motorbike,Call at the gate');
    await page.getByLabel('Status', { exact: true }).selectOption({ label: 'All Status' });
    await box.fill('');
    await rowOf(page, other).waitFor();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(overflow).toBeLessThanOrEqual(0);
  });
});

describe('two staff members', () => {
  story('assign one delivery: the second sees the current assignee and chooses', async ({ newVisitor }) => {
    const order = await makePaidOrder('Wanjiku');
    const first = await newVisitor();
    const second = await newVisitor({
      viewport: phone,
      expectedFailures: /409 .*assign_delivery|Failed to assign/,
    });
    const member = await enterAsStaff(shop, first.page);
    await enterAsStaff(shop, second.page);
    for (const { page } of [first, second]) {
      await openDeliveries(page);
      await rowOf(page, order).getByRole('button', { name: 'Assign' }).click();
      await dialogOf(page)
        .getByLabel(/^Delivery Person/)
        .waitFor();
    }
    await fill(second.page, { ...joseph, 'Delivery Person': 'Kamau' });
    await fill(first.page, joseph);
    await first.page.getByRole('button', { name: 'Assign Delivery' }).click();
    await toast(first.page, 'Delivery assigned successfully').waitFor();

    const conflict = second.page.getByRole('alert', { name: 'Someone else changed this' });
    await conflict.getByText('Joseph Otieno has this delivery now').waitFor();
    await conflict.getByText(`Assigned by ${member.email}`, { exact: false }).waitFor();
    await expectAccessible(second.page, 'two staff members assign one delivery');
    expect((await deliveryOf(order)).delivery_person).toBe('Joseph Otieno');
    // The typed text is still there, and can be saved after the conflict is shown.
    await conflict.getByRole('button', { name: 'Save mine instead' }).click();
    await dialogOf(second.page).waitFor({ state: 'hidden' });
    expect((await deliveryOf(order)).delivery_person).toBe('Kamau');
    await rowOf(first.page, order).getByText('Kamau').waitFor();
  });

  story('assign one delivery at once: the later assignment is rejected', async ({ newVisitor }) => {
    const order = await makePaidOrder('Njeri');
    const { page } = await newVisitor({ expectedFailures: /409 .*assign_delivery|Failed to assign/ });
    await enterAsStaff(shop, page);
    await openDeliveries(page);
    await rowOf(page, order).getByRole('button', { name: 'Assign' }).click();
    await fill(page, joseph);
    // The other staff member saves while this request is pending.
    await page.route(
      '**/rest/v1/rpc/assign_delivery*',
      async (route) => {
        await asOwner(shop, `/rest/v1/rpc/assign_delivery`, 'POST', {
          order_id: order.id,
          delivery_person: 'Kamau',
          delivery_phone: '0700000000',
          delivery_vehicle: 'Van',
        });
        await route.continue();
      },
      { times: 1 },
    );
    await page.getByRole('button', { name: 'Assign Delivery' }).click();
    const conflict = page.getByRole('alert', { name: 'Someone else changed this' });
    await conflict.getByText('Kamau has this delivery now').waitFor();
    expect((await deliveryOf(order)).delivery_person).toBe('Kamau');
    await conflict.getByRole('button', { name: 'Keep their changes' }).click();
    expect(
      await dialogOf(page)
        .getByLabel(/^Phone Number/)
        .inputValue(),
    ).toBe('0700000000');
    await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
    await rowOf(page, order).getByText('Kamau').waitFor();
  });

  story(
    'set one status: the first change stays, and the second staff member sees its author',
    async ({ newVisitor }) => {
      const order = await makePaidOrder('Achieng');
      await asOwner(shop, '/rest/v1/rpc/assign_delivery', 'POST', {
        order_id: order.id,
        delivery_person: 'Kamau',
        delivery_phone: '0700000000',
        delivery_vehicle: 'Van',
      });
      const { page } = await newVisitor({
        expectedFailures: /Failed to update delivery status|409 .*set_delivery_status/,
      });
      await enterAsStaff(shop, page);
      await openDeliveries(page);
      await statusOfDelivery(page, order).waitFor();
      let isFirst = true;
      await page.route('**/rest/v1/rpc/set_delivery_status*', async (route) => {
        if (!isFirst) return route.fallback();
        isFirst = false;
        await asOwner(shop, `/rest/v1/deliveries?order_id=eq.${order.id}`, 'PATCH', {
          delivery_status: 'delivered',
        });
        await route.continue();
      });
      await chooseStatus(statusOfDelivery(page, order), 'Picked Up');
      await toast(page, `set the delivery of ${order.order_number} to Delivered`).waitFor();
      await until(
        async () => (await statusOfDelivery(page, order).textContent()) === 'Delivered',
        'the status that stays is shown',
      );
      expect((await deliveryOf(order)).delivery_status).toBe('delivered');

      // The delivery of a cancelled order cannot be assigned and can only be set to failed.
      await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { status: 'cancelled' });
      await rowOf(page, order).getByText('Order cancelled').waitFor();
      expect(
        await rowOf(page, order)
          .getByRole('button', { name: /^Assign/ })
          .count(),
      ).toBe(0);
      await rowOf(page, order)
        .getByRole('button', { name: `More for ${order.order_number}` })
        .click();
      await page.getByRole('menuitem', { name: 'View the order' }).waitFor();
      expect(await page.getByRole('menuitem', { name: 'Edit assignment' }).count()).toBe(0);
      await page.keyboard.press('Escape');
      await statusOfDelivery(page, order).click();
      const inTransit = page.getByRole('menuitemradio', { name: 'In Transit Order cancelled' });
      expect(await inTransit.getAttribute('aria-disabled')).toBe('true');
      await page.getByRole('menuitemradio', { name: 'Failed' }).click();
      await expect.poll(async () => (await deliveryOf(order)).delivery_status).toBe('failed');
    },
  );
});

story('the customer’s open page follows the delivery', async ({ newVisitor }) => {
  const order = await makePaidOrder('Amina Otieno');
  const customer = await newVisitor({ viewport: phone });
  await customer.page.goto(`${shop.url}/track-order/${order.tracking_number}`);
  const sheet = customer.page.locator('article[data-status]');
  const isTold = (status: string) =>
    until(async () => (await sheet.getAttribute('data-status')) === status, `the customer sees ${status}`);
  await isTold('processing');

  const { page } = await newVisitor();
  await enterAsStaff(shop, page);
  await openDeliveries(page, `?search=${order.order_number}`);
  await rowOf(page, order).getByRole('button', { name: 'Assign' }).click();
  await fill(page, joseph);
  await page.getByRole('button', { name: 'Assign Delivery' }).click();
  await move(page, order, 'In Transit');
  await isTold('out_for_delivery');
  await move(page, order, 'Delivered');
  await isTold('delivered');
});

story('a URL without an existing delivery says so', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  await enterAsStaff(shop, page);
  for (const id of ['nonsense', randomUUID()]) {
    await page.goto(`${shop.url}/admin/deliveries?assign=${id}`);
    await dialogOf(page).getByText('There is no such delivery. The address may be mistyped.').waitFor();
  }
  await dialogOf(page).getByRole('button', { name: 'Close', exact: true }).last().click();
  await dialogOf(page).waitFor({ state: 'hidden' });
});
