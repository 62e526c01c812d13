// Refunds, with a second approval above the limit, and the payment test page of staff.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect, onTestFinished } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForAnimations } from '../../browser.ts';
import { type Order, placeOrder, readOrder } from '../../placed-orders.ts';
import { atSizes } from '../../selection.ts';
import { asOwner, callAsStaff, enterAsStaff, toast } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
beforeAll(async () => {
  await asOwner(shop, '/rest/v1/products?slug=eq.mango-bottle', 'PATCH', { price: 60_000 });
});

/** Creates an order that was paid and then cancelled. */
async function paidAndCancelled(quantity: number, phoneNumber: string): Promise<Order> {
  const order = await placeOrder(shop, 'Amina Kamau', '0712345678', { quantity });
  await asOwner(shop, '/functions/v1/mobile-money', 'POST', {
    action: 'initiate',
    phoneNumber,
    amount: order.total_amount,
    trackingNumber: order.tracking_number,
    orderId: order.id,
  });
  await until(async () => (await readOrder(shop, order.id)).payment_status === 'paid', 'the order is paid');
  await asOwner(shop, `/rest/v1/orders?id=eq.${order.id}`, 'PATCH', { status: 'cancelled' });
  return order;
}

const dialogOf = (page: Page, { order_number }: Order) =>
  page.getByRole('dialog', { name: `Order ${order_number}` });
async function openOrder(page: Page, order: Order): Promise<Locator> {
  await page.goto(`${shop.url}/admin/orders/${order.id}`);
  const dialog = dialogOf(page, order);
  await dialog.getByText('Refund due').waitFor();
  return dialog;
}
/** For who wants to look at them. */
const picture = async (page: Page, name: string, viewport: { width: number }) => {
  if (process.env.PICTURES) {
    await page.screenshot({
      path: join(process.env.PICTURES, `${name}-${viewport.width}.png`),
      fullPage: true,
    });
  }
};

describe.each(
  atSizes([
    ['at the counter', desktop, '07121'],
    ['on a phone', phone, '07120'],
  ] as const),
)('%s', (_, viewport, payer) => {
  const story = storyWith({ viewport });

  story(
    'a large refund is requested by one staff member, approved by another, and sent',
    async ({ newVisitor }) => {
      const [{ page: first }, { page: second }] = [await newVisitor(), await newVisitor()];
      const [asking] = [await enterAsStaff(shop, first), await enterAsStaff(shop, second)];
      const order = await paidAndCancelled(2, `${payer}05555`);
      const dialog = await openOrder(first, order);
      await dialog.getByRole('button', { name: 'Send back KES 1,201 by M-PESA' }).click();
      const ask = first.getByRole('dialog', { name: 'Send back KES 1,201?' });
      await ask.getByText('A colleague must approve it').waitFor();
      await waitForAnimations(first);
      await expectAccessible(first, 'asking for a refund');
      await picture(first, 'ask', viewport);
      await ask.getByRole('button', { name: 'Ask for approval' }).click();
      await ask.getByText('Please say why').waitFor();
      await ask.getByLabel('Reason').fill('Customer changed her mind');
      await ask.getByRole('button', { name: 'Ask for approval' }).click();
      await toast(first, 'A colleague must approve').waitFor();
      await dialog.getByText(/You requested it, so it needs the approval of .*@/).waitFor();
      expect(await dialog.getByRole('button', { name: /Approve/ }).count()).toBe(0);
      expect((await readOrder(shop, order.id)).payment_status).toBe('paid');

      await second.goto(`${shop.url}/admin/dashboard`);
      await second.getByText(/\b[1-9]\d* to approve/).waitFor();
      await second.goto(`${shop.url}/admin/orders`);
      await second.getByRole('button', { name: /^To decide/ }).click();
      const waiting = second
        .getByRole('region', { name: 'Refunds that wait for you' })
        .getByRole('listitem')
        .filter({ hasText: order.order_number });
      await waiting.getByText(`requested by ${asking.email}`).waitFor();
      await waitForAnimations(second);
      await expectAccessible(second, 'a refund that waits');
      await picture(second, 'waits', viewport);
      await waiting.getByRole('button', { name: 'Approve KES 1,201' }).click();
      const question = second.getByRole('dialog', { name: 'Send back KES 1,201?' });
      await question.getByText('Customer changed her mind').waitFor();
      await waitForAnimations(second);
      await expectAccessible(second, 'the question before a refund is approved');
      await picture(second, 'approve', viewport);
      await question.getByRole('button', { name: 'Approve KES 1,201' }).click();
      await toast(second, 'Approved. M-PESA is asked to send the money back').waitFor();
      await waiting.getByText(/dealt with/).waitFor();

      await dialog.getByText('Refunded', { exact: true }).waitFor({ timeout: 60_000 });
      await dialog.getByText('Sent back by M-PESA').first().waitFor();
      await dialog.getByText('Refund approved').waitFor();
      expect(await readOrder(shop, order.id)).toMatchObject({
        status: 'cancelled',
        payment_status: 'refunded',
      });
      await waitForAnimations(first);
      await expectAccessible(first, 'a refunded order');
      await picture(first, 'refunded', viewport);
    },
  );

  story(
    'a failed refund is recorded as sent by hand; when M-PESA sent it after all, staff resolve it',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      const account = await enterAsStaff(shop, page);
      const order = await paidAndCancelled(1, `${payer}15555`);
      const dialog = await openOrder(page, order);
      const fails = await fetch(`${shop.simulatorUrl}/simulator/faults`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ reversalResults: { next: 1, kind: 'fail', resultCode: '1' } }),
      });
      expect(fails.status).toBe(200);
      await dialog.getByRole('button', { name: 'Send back KES 601 by M-PESA' }).click();
      const ask = page.getByRole('dialog', { name: 'Send back KES 601?' });
      await ask.getByLabel('Reason').fill('Cancelled');
      await ask.getByRole('button', { name: 'Send back KES 601' }).click();
      await dialog.getByText('KES 601 were not sent back').waitFor({ timeout: 20_000 });
      await dialog.getByRole('button', { name: 'I already refunded it' }).click();
      const note = page.getByRole('dialog', { name: 'KES 601 were sent back by hand?' });
      await note.getByLabel('Receipt of the refund').fill('123');
      await note.getByLabel('Reason').fill('Sent from the till phone');
      await note.getByRole('button', { name: 'It was sent back' }).click();
      await note.getByText('ten letters and digits').waitFor();
      const receipt = `UKL${randomUUID().slice(0, 7).toUpperCase()}`;
      await note.getByLabel('Receipt of the refund').fill(receipt.toLowerCase());
      await waitForAnimations(page);
      await expectAccessible(page, 'a refund by hand');
      await picture(page, 'by-hand', viewport);
      await note.getByRole('button', { name: 'It was sent back' }).click();
      await toast(page, 'The refund is noted with the order').waitFor();
      await dialog.getByText('Refunded', { exact: true }).waitFor();
      await dialog.getByText(receipt).first().waitFor();
      expect(await readOrder(shop, order.id)).toMatchObject({
        status: 'cancelled',
        payment_status: 'refunded',
      });

      // M-PESA reported a failure but executes the reversal.
      const [failed] = (await (
        await asOwner(
          shop,
          `/rest/v1/refunds?status=eq.failed&select=id,refund_cents,payments!inner(order_id)&payments.order_id=eq.${order.id}`,
          'GET',
        )
      ).json()) as { id: string; refund_cents: number }[];
      const late = await asOwner(shop, '/rest/v1/rpc/settle_reversal', 'POST', {
        refund_id: failed?.id,
        source: 'reversal_result',
        body: '{}',
        result: 'succeeded',
        result_code: '0',
        refund_cents: failed?.refund_cents,
        refund_receipt: `UKL${randomUUID().slice(0, 7).toUpperCase()}`,
      });
      expect(late.status).toBe(200);
      await dialog.getByText('KES 601 went back twice').waitFor();
      await dialog.getByRole('button', { name: 'It is dealt with' }).click();
      await dialog.getByRole('button', { name: 'It is dealt with' }).click();
      await dialog.getByText('Please say why').waitFor();
      await dialog.getByLabel('What became of the second payment').fill('Paid back to the till');
      await expectAccessible(page, 'money that went back twice');
      await dialog.getByRole('button', { name: 'It is dealt with' }).click();
      await toast(page, "Noted. It's off the list now").waitFor();
      await dialog.getByText(`Dealt with by ${account.email}`).waitFor();
    },
  );

  story(
    'payments are tested: settings, public URL, one shilling paid and refunded',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await enterAsStaff(shop, page);
      await page.goto(`${shop.url}/admin/settings?section=payments`);
      await page.getByRole('link', { name: 'M-PESA check' }).click();
      await page.getByRole('heading', { level: 1, name: 'M-PESA check' }).waitFor();
      await page.getByText('Simulated: no money moves').waitFor();
      await page.getByText('MPESA_PASSKEY').waitFor();
      await page.getByText(/means the machine that reads it/).waitFor();
      expect(await page.content()).not.toContain(
        'bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919',
      );

      await page.getByRole('button', { name: 'Test the public address' }).click();
      await page.getByText(/The shop is reached, in/).waitFor();

      await page.getByLabel('Your phone').fill('12');
      await page.getByRole('button', { name: 'Send a prompt for KSh 1' }).click();
      await page.getByText('Please enter a valid phone number').waitFor();
      await page.getByLabel('Your phone').fill(`${payer}21032`);
      await page.getByRole('button', { name: 'Send a prompt for KSh 1' }).click();
      await page
        .getByText('The prompt was cancelled or not answered. (code 1032)')
        .waitFor({ timeout: 60_000 });
      await page.getByLabel('Your phone').fill(`${payer}25555`);
      await page.getByRole('button', { name: 'Send a prompt for KSh 1' }).click();
      await page.getByText('Waiting for the PIN...').waitFor();
      await page.getByText('The shilling came. Customers can pay.').waitFor({ timeout: 60_000 });
      await page.getByText(/from this machine/).waitFor({ timeout: 60_000 });
      await waitForAnimations(page);
      await expectAccessible(page, 'the check of the payments');
      await picture(page, 'check', viewport);
      await page.getByRole('button', { name: 'Send the shilling back' }).click();
      await page.getByText(/^Sent back by M-PESA/).waitFor({ timeout: 60_000 });
    },
  );

  story('wrong settings pause the prompts; staff are notified and resume them', async ({ newVisitor }) => {
    // Restored in any case, because other stories need prompts.
    onTestFinished(() => callAsStaff(shop, 'resume_prompts'));
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    const order = await placeOrder(shop, 'Otieno', '0712345678');
    const begun = (await (
      await asOwner(shop, '/rest/v1/rpc/begin_payment', 'POST', {
        order_id: order.id,
        tracking_number: order.tracking_number,
        phone: `${payer}35555`,
        callback_secret: randomUUID(),
      })
    ).json()) as { payment: { id: string } };
    await asOwner(shop, '/rest/v1/rpc/record_push', 'POST', {
      payment_id: begun.payment.id,
      body: '{}',
      refusal_code: 'SFC_IC0003',
      refusal_description: 'The operator does not exist.',
      refusal_ended_by: 'owner',
    });
    const initiate = async () =>
      (
        await asOwner(shop, '/functions/v1/mobile-money', 'POST', {
          action: 'initiate',
          phoneNumber: `${payer}35555`,
          amount: order.total_amount,
          trackingNumber: order.tracking_number,
          orderId: order.id,
        })
      ).json();
    expect(await initiate()).toMatchObject({ success: false, code: 'prompts_paused' });

    await page.goto(`${shop.url}/admin/dashboard`);
    await page.getByText('Paused').waitFor();
    await page.goto(`${shop.url}/admin/settings/payments`);
    await page.getByText('The till or operator does not exist.').waitFor();
    await waitForAnimations(page);
    await expectAccessible(page, 'a pause');
    await picture(page, 'pause', viewport);
    await page.getByRole('button', { name: 'It is fixed: send prompts again' }).click();
    await page.getByRole('region', { name: 'Prompts are paused' }).waitFor({ state: 'detached' });
    expect(await initiate()).toMatchObject({ success: true });
  });
});
