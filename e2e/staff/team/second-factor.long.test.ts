// What a lost second factor and a second factor of the only owner lead to.
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { addApp } from '../../authenticator-app.ts';
import { desktop, phone } from '../../browser.ts';
import { placeOrder, readOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner, fillSignIn, makeAccount, signIn, toast } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });

describe('a recovery code', () => {
  story.for(
    atSizes([
      ['a phone', phone],
      ['a desktop', desktop],
    ] as const),
  )(
    'is kept with the authenticator app, and signs in without it on %s',
    async ([, viewport], { newVisitor }) => {
      const account = await makeAccount(shop, 'staff');
      const { page } = await newVisitor({ viewport, expectedFailures: /40[13] .*\/(auth|rest)\/v1\// });
      await signIn(shop, page, account);
      await addApp(shop, page);
      const codes = page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem');
      await expect.poll(() => codes.count()).toBe(10);
      const kept = await codes.allTextContents();
      await expectAccessible(page);
      const download = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Save as a file' }).click();
      expect((await download).suggestedFilename()).toMatch(/^recovery-codes-.*\.txt$/);
      await page.getByRole('button', { name: 'I have kept them' }).click();
      await page.getByText('10 of 10 codes are left').waitFor();

      const { page: later } = await newVisitor({
        viewport,
        expectedFailures: /400 .*use_recovery_code|403 .*\/rest\/v1\//,
      });
      await later.goto(`${shop.url}/admin/login`);
      await fillSignIn(later, account);
      await later.getByRole('button', { name: 'I lost my phone' }).click();
      await later.getByLabel(/^Recovery code/).fill('AAAA-AAAA-AAAA');
      await later.getByRole('button', { name: 'Remove the app and sign in' }).click();
      await later.getByText('This is none of your recovery codes that are left').waitFor();
      await expectAccessible(later);
      await later.getByLabel(/^Recovery code/).fill((kept[3] ?? '').toLowerCase());
      await later.getByRole('button', { name: 'Remove the app and sign in' }).click();
      await toast(later, 'Your second factor is removed').waitFor();
      await later.waitForURL('**/admin/dashboard');
      // The device that still had a session is out.
      await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();

      await later.goto(`${shop.url}/admin/settings/team/audit`);
      await later.getByText('Second factor removed with a recovery code').first().waitFor();
      await addApp(shop, later);
      // The first app of the account: a new set.
      await expect
        .poll(() => later.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem').count())
        .toBe(10);
    },
  );
});

story(
  'the only owner approves an own large refund with a second factor after ten minutes',
  async ({ newVisitor }) => {
    await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'PATCH', { price: 60_000 });
    const account = await makeAccount(shop, 'staff');
    await asOwner(shop, `/rest/v1/admin_profiles?user_id=neq.${account.id}`, 'PATCH', { is_active: false });
    const order = await placeOrder(shop, 'Amina Kamau', '0712345678', { quantity: 2 });
    await asOwner(shop, '/functions/v1/mobile-money', 'POST', {
      action: 'initiate',
      phoneNumber: '0712105555',
      amount: order.total_amount,
      trackingNumber: order.tracking_number,
      orderId: order.id,
    });
    await until(async () => (await readOrder(shop, order.id)).payment_status === 'paid', 'the order is paid');
    await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { status: 'cancelled' });

    const { page } = await newVisitor({
      expectedFailures: /409 .*approve_refund|403 .*\/rest\/v1\/|Failed to approve the refund/,
    });
    await signIn(shop, page, account);
    await page.goto(`${shop.url}/admin/orders/${order.id}`);
    const dialog = page.getByRole('dialog', { name: `Order ${order.order_number}` });
    await dialog.getByRole('button', { name: 'Send back KES 1,201 by M-PESA' }).click();
    const ask = page.getByRole('dialog', { name: 'Send back KES 1,201?' });
    await ask.getByLabel('Reason').fill('Customer changed her mind');
    await ask.getByRole('button', { name: 'Ask for approval' }).click();
    await dialog
      .getByText('You are the only owner. With an authenticator app you can approve it yourself')
      .waitFor();
    const approve = async (outcome: string | RegExp) => {
      await dialog.getByRole('button', { name: 'Approve KES 1,201' }).click();
      const question = page.getByRole('dialog', { name: 'Send back KES 1,201?' });
      await question.getByRole('button', { name: 'Approve KES 1,201' }).click();
      await toast(page, outcome).waitFor();
    };
    await approve('Add an authenticator app under Account');
    await addApp(shop, page);
    await page.getByRole('button', { name: 'I have kept them' }).click();
    await page.goto(`${shop.url}/admin/orders/${order.id}`);
    await approve('so take ten minutes to think it over');
    expect((await readOrder(shop, order.id)).payment_status).toBe('paid');
    await asOwner(shop, `/rest/v1/refunds?reason=eq.Customer changed her mind`, 'PATCH', {
      created_at: new Date(Date.now() - 11 * 60_000).toISOString(),
    });
    await page.reload();
    await approve('Approved. M-PESA is asked to send the money back');
    await until(
      async () => (await readOrder(shop, order.id)).payment_status === 'refunded',
      'the money is back',
    );
  },
);
