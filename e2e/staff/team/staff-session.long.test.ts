// A session that ends elsewhere: the sign-in dialog opens, typed text stays, and former staff lose access.
import type { Page, WebSocket } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktopFirst } from '../../selection.ts';
import {
  type Account,
  asOwner,
  enterAsStaff,
  sessionOf,
  statusButton,
  waitForLive,
} from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();

/** Expected console errors while a session ends. */
const refusals = /40[136] .*\/(auth|rest)\/v1\/|This account is not admin, or not active/;

/** Signs the account out everywhere, as from another device. */
async function signOutEverywhere(account: Account): Promise<void> {
  const [{ publishable }, { access_token }] = await Promise.all([shop.keys(), sessionOf(shop, account)]);
  const answer = await fetch(`${shop.url}/auth/v1/logout?scope=global`, {
    method: 'POST',
    headers: { apikey: publishable, authorization: `Bearer ${access_token}` },
  });
  expect(answer.status).toBe(204);
}
const ended = (page: Page) => page.getByRole('dialog', { name: 'Your session has ended' });
async function signInAgain(page: Page, { password }: Account): Promise<void> {
  await ended(page).getByLabel('Password').fill(password);
  await ended(page).getByRole('button', { name: 'Sign In' }).click();
  await ended(page).waitFor({ state: 'detached' });
}
let placed = 0;
async function placeOrder(name: string): Promise<string> {
  placed += 1;
  const order_number = `ORD-${7000 + placed}`;
  await asOwner(shop, '/rest/v1/orders', 'POST', {
    order_number,
    tracking_number: `JJ-20261121-${1000 + placed}`,
    customer_name: name,
    customer_email: 'wanjiku@mail.example',
    customer_phone: '+254712345678',
    shipping_address: 'Westlands',
    delivery_fee: 100,
    total_amount: 1100,
    payment_status: 'paid',
  });
  return order_number;
}

describe.each(desktopFirst)('%s', (where, viewport) => {
  const story = storyWith({ viewport });

  story('the sign-in dialog opens by itself and keeps the typed text', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: refusals });
    const account = await enterAsStaff(shop, page, '/admin/products?new=1');
    await page.getByLabel(/^Product Name/).fill('Half typed');
    await waitForLive(page);
    await signOutEverywhere(account);
    await ended(page).getByText('What you typed is still here.').waitFor();
    await expectAccessible(page, 'the dialog of an ended session');
    await ended(page).getByLabel('Password').fill('wrong horse');
    await page.keyboard.press('Escape');
    await signInAgain(page, account);
    expect(await page.getByLabel(/^Product Name/).inputValue()).toBe('Half typed');
    await waitForLive(page);
  });

  story('a screen without unsaved input is hidden until its user signs in again', async ({ newVisitor }) => {
    const name = `Wanjiku ${where}`;
    await placeOrder(name);
    const { page } = await newVisitor({ expectedFailures: refusals });
    const account = await enterAsStaff(shop, page, `/admin/orders?search=${encodeURIComponent(name)}`);
    await page.getByText(name).first().waitFor();
    await waitForLive(page);
    await signOutEverywhere(account);
    await ended(page).waitFor();
    expect(await page.getByText(name).count()).toBe(0);
    await signInAgain(page, account);
    await page.getByText(name).first().waitFor();
    expect(new URL(page.url()).searchParams.get('search')).toBe(name);
  });

  story(
    'a change rejected because the session ended is saved after signing in again',
    async ({ newVisitor }) => {
      const name = `Kamau ${where}`;
      const number = await placeOrder(name);
      const { page } = await newVisitor({ expectedFailures: new RegExp(`${refusals.source}|WebSocket`) });
      // No event announces the end of this session.
      await page.routeWebSocket(/\/realtime\/v1/, (socket) => void socket.close());
      const account = await enterAsStaff(shop, page, `/admin/orders?search=${encodeURIComponent(name)}`);
      const status = statusButton(page, `Status of ${number}`);
      await status.waitFor();
      // Any other request would notice the end first: on a busy machine the screen reads its rows again before the press.
      let release = () => {};
      const change = new Promise<void>((resolve) => {
        release = resolve;
      });
      await page.route(/\/(auth|rest)\/v1\//, async (route) => {
        if (route.request().url().includes('/rpc/set_order_status')) release();
        await change;
        await route.continue();
      });
      await status.click();
      const shipped = page.getByRole('menuitemradio', { name: 'Shipped' });
      await shipped.waitFor();
      await signOutEverywhere(account);
      await shipped.click();
      await ended(page).waitFor();
      await signInAgain(page, account);
      await page
        .getByRole('region', { name: 'Undo' })
        .getByText('Order status updated successfully')
        .waitFor();
      await until(async () => (await status.textContent()) === 'Shipped', 'the change is shown');
    },
  );

  story('Sign Out works without a network, for all tabs of the device', async ({ newVisitor }) => {
    const { page, context } = await newVisitor({
      expectedFailures: new RegExp(`${refusals.source}|ERR_INTERNET_DISCONNECTED|Failed to fetch|WebSocket`),
    });
    await enterAsStaff(shop, page, '/admin/orders');
    const other = await context.newPage();
    await other.goto(`${shop.url}/admin/orders`);
    await waitForLive(other);
    await page.bringToFront();
    await page.waitForLoadState('networkidle');
    await context.setOffline(true);
    await page.getByRole('button', { name: 'Sign Out', exact: true }).click();
    await page.getByText('You are signed out on this device, but the shop could not be reached.').waitFor();
    await expectAccessible(page, 'the sign-in page after signing out offline');
    await context.setOffline(false);
    for (const tab of [page, other]) {
      await tab.goto(`${shop.url}/admin/orders`);
      await tab.getByRole('button', { name: 'Sign In', exact: true }).waitFor();
    }
  });

  story('a deactivated staff member sees no customer data from that moment', async ({ newVisitor }) => {
    const name = `Achieng ${where}`;
    await placeOrder(name);
    const { page } = await newVisitor({ expectedFailures: refusals });
    const sockets: WebSocket[] = [];
    page.on('websocket', (socket) => sockets.push(socket));
    const account = await enterAsStaff(shop, page, `/admin/orders?search=${encodeURIComponent(name)}`);
    await page.getByText(name).first().waitFor();
    await waitForLive(page);
    await asOwner(shop, `/rest/v1/admin_profiles?user_id=eq.${account.id}`, 'PATCH', { is_active: false });
    await page.waitForURL('**/admin/login');
    await expect.poll(() => page.getByText(name).count()).toBe(0);
    await until(
      async () => sockets.length > 0 && sockets.every((socket) => socket.isClosed()),
      'the live channel is closed',
    );
    await page.getByText('If you are not redirected, you may not have admin privileges.').waitFor();
  });
});
