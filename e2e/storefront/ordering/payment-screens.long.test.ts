// The screens of the payment dialog: what they say and offer while M-PESA answers, after a failure and after success, in both languages.
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, dialogOf, phone } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import { amina, order, payButton, trackingNumberIn } from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories({ MPESA_QUERIES_PER_MINUTE: '60' });

const promptsTo = async (number: string) => {
  const answer = await fetch(`${shop.simulatorUrl}/simulator/ledger?phone=254${number.slice(1)}`);
  return ((await answer.json()) as { prompts: unknown[] }).prompts;
};
const sizes = atSizes([
  ['on a phone', phone, '1'],
  ['at a desktop', desktop, '2'],
] as const);

story.for(sizes)(
  'after the payment the customer is thanked by name, and sees drink, arrival, address and what is next %s',
  async ([where, viewport, size], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await order(page, shop.url, 'mango-bottle', { ...amina, phone: `071100770${size}` });
    const number = await trackingNumberIn(page);
    await payButton(page).click();
    const dialog = dialogOf(page);
    await dialog.getByText('Payment received').waitFor();
    await dialog.getByText('Asante, Amina!').waitFor();
    await dialog.getByText(/^Arrives by \d\d:\d\d/).waitFor();
    await dialog.getByText('Westlands, Mpaka Road').waitFor();
    await dialog.getByText('1 × Embu Fresh Mango').waitFor();
    // The drink is loaded and in view, and no toast lies over the result.
    await until(
      () =>
        dialog
          .locator('img')
          .first()
          .evaluate((image: HTMLImageElement) => image.naturalWidth > 0),
      'the drink is shown',
    );
    await page.getByText('Please complete payment to confirm your order.').waitFor({ state: 'detached' });
    await expectAccessible(page, `payment received ${where}`);
    for (const part of ['Asante, Amina!', 'Track Your Order', 'Add another order', 'Keep as reminder']) {
      const box = await dialog.getByText(part).boundingBox();
      expect(box && box.y >= 0 && box.y + box.height <= viewport.height, part).toBe(true);
    }
    const reminder = await dialog.getByRole('link', { name: 'Keep as reminder' }).getAttribute('href');
    const text = new URL(reminder ?? '').searchParams.get('text');
    expect(text).toContain(`${shop.url}/track-order/${number}`);
    expect(text).toContain('My order of 1 × Embu Fresh Mango');
    // It may be passed on, so it does not show the address.
    expect(text).not.toContain('key=');

    await dialog.getByRole('link', { name: 'Receipt' }).click();
    await page.waitForURL(`**/track-order/${number}/receipt?key=*`);
  },
);

story.for(sizes)(
  'a failure names the number that was asked, and one press asks it again %s',
  async ([where, viewport, size], { newVisitor }) => {
    // Fails once, then pays.
    const number = `07110${size}1032`;
    const { page } = await newVisitor({ viewport });
    await order(page, shop.url, 'mango-can', { ...amina, phone: number });
    const tracking = await trackingNumberIn(page);
    await payButton(page).click();
    const dialog = dialogOf(page);
    await dialog.getByText('Payment was cancelled. Please try again. ❌').waitFor();
    await dialog.getByText(`0711 0${size}1 032`).waitFor();
    await expectAccessible(page, `payment failed ${where}`);
    const chat = await dialog.getByRole('link', { name: 'WhatsApp us' }).getAttribute('href');
    expect(new URL(chat ?? '').searchParams.get('text')).toContain(tracking);

    const first = await promptsTo(number);
    expect(first).toHaveLength(1);
    await dialog.getByRole('button', { name: 'Send it again' }).click();
    await dialog.getByRole('heading', { name: 'Check your phone' }).waitFor();
    await until(async () => (await promptsTo(number)).length === 2, 'a second prompt is sent');
    await dialog.getByText('Payment was cancelled. Please try again. ❌').waitFor();

    // Another number is one press and its digits away.
    await dialog.getByRole('button', { name: 'Change' }).click();
    const field = dialog.getByLabel('M-PESA phone number');
    await expect.poll(() => field.evaluate((own) => own === document.activeElement)).toBe(true);
    await page.keyboard.type(`071100771${size}`);
    await payButton(page).click();
    await dialog.getByText('Payment received').waitFor();
  },
);

story.for(sizes)(
  'the payment speaks Kiswahili, also after a reload %s',
  async ([where, viewport, size], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await order(page, shop.url, 'mango-flask', { ...amina, phone: `07110${size}1037` });
    const dialog = dialogOf(page);
    await dialog.getByRole('button', { name: 'Kiswahili' }).click();
    await dialog.getByRole('heading', { name: 'Lipa na M-PESA' }).waitFor();
    expect(
      await dialog
        .getByRole('heading', { name: 'Lipa na M-PESA' })
        .evaluate((own) => own.closest('[lang]')?.getAttribute('lang')),
    ).toBe('sw');
    await expectAccessible(page, `payment in Kiswahili ${where}`);
    await page.reload();
    await dialog.getByRole('button', { name: /^Lipa KSh / }).click();
    await dialog.getByText('Weka PIN yako ya M-PESA', { exact: true }).waitFor();
    await dialog.getByText('Simu haipatikani. Tafadhali hakikisha imewashwa na ina mtandao. 📵').waitFor();
    await dialog.getByRole('button', { name: 'Tuma tena' }).waitFor();
    await dialog.getByRole('button', { name: 'English' }).click();
    await dialog.getByText('Customer not reachable. Please ensure phone is on and has network. 📵').waitFor();
  },
);

story.for(sizes)(
  'a payment that is checked says in Kiswahili, too, not to pay again %s',
  async ([where, viewport, size], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await order(page, shop.url, 'mango-flask', { ...amina, phone: `07110${size}9005` });
    const dialog = dialogOf(page);
    await dialog.getByRole('button', { name: 'Kiswahili' }).click();
    await dialog.getByRole('button', { name: /^Lipa KSh / }).click();
    await dialog.getByText('Tafadhali usilipe tena. Tutawasiliana nawe.').waitFor();
    await dialog.getByRole('button', { name: 'Fuatilia oda yako' }).waitFor();
    await expectAccessible(page, `a payment that is checked, in Kiswahili, ${where}`);
    await dialog.getByRole('button', { name: 'English' }).click();
    await dialog.getByText('Please do not pay again. Our team gets in touch.').waitFor();
  },
);

story.for(sizes)(
  'waiting says what comes next, and offers the till as a second way %s',
  async ([where, viewport, size], { newVisitor }) => {
    const settings = (change: Record<string, unknown>) =>
      asOwner(shop, '/rest/v1/store_settings?id=is.true', 'PATCH', change);
    await settings({ till_number: '5123456' });
    await until(
      async () => (await (await fetch(`${shop.url}/shop/passion-can`)).text()).includes('5123456'),
      'the page knows the till',
    );
    const { page } = await newVisitor({ viewport });
    const number = `071100773${size}`;
    await order(page, shop.url, 'passion-can', { ...amina, phone: number });
    await fetch(`${shop.simulatorUrl}/simulator/prompts?phone=${number}&screen=open`);
    await payButton(page).click();
    const dialog = dialogOf(page);
    await dialog
      .getByText('The prompt comes within a few seconds, and waits about a minute for your PIN.')
      .waitFor();
    expect(await dialog.getByText('5123456').isVisible()).toBe(false);
    await dialog.getByText('No prompt on your phone?').click();
    await dialog.getByText('5123456').waitFor();
    await dialog.getByText('Only do so when no prompt is waiting on your phone.').waitFor();
    await expectAccessible(page, `waiting, with the till, ${where}`);
  },
);
