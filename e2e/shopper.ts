// Actions of a customer in the storefront.
import type { Page } from 'playwright-core';

export interface Shopper {
  name: string;
  email: string;
  phone: string;
  location: string;
}

export const amina: Shopper = {
  name: 'Amina Otieno',
  email: 'amina@example.com',
  phone: '0712345678',
  location: 'Westlands, Mpaka Road',
};

/** Opens the order dialog of a product. */
export async function openOrderDialog(page: Page, shopUrl: string, slug: string): Promise<void> {
  await page.goto(`${shopUrl}/shop/${slug}`);
  await page.getByRole('button', { name: 'Order Now' }).click();
  await page.getByRole('dialog').getByLabel(/^Name/).waitFor();
}

export async function fillOrder(page: Page, shopper: Shopper): Promise<void> {
  const dialog = page.getByRole('dialog');
  // The details of an earlier order may arrive after the empty text was selected and before it is replaced.
  const name = dialog.getByLabel(/^Name/);
  do await name.fill(shopper.name);
  while ((await name.inputValue()) !== shopper.name);
  await dialog.getByLabel(/^Email/).fill(shopper.email);
  await dialog.getByLabel(/^Phone/).fill(shopper.phone);
  await dialog.getByLabel(/^Delivery location/i).fill(shopper.location);
}

/** Shows the fields that are rarely needed, in the dialog or on the page of the order form. */
export const openMoreFields = (page: Page) => page.getByText('Building, unit, notes, discount code').click();

export const placeOrderButton = (page: Page) =>
  page.getByRole('dialog').getByRole('button', { name: /^Place Order/i });
export const payButton = (page: Page) =>
  page.getByRole('dialog').getByRole('button', { name: /^Pay KSh [\d,.]+$/ });

/** Orders one of a product, up to the payment dialog. */
export async function order(
  page: Page,
  shopUrl: string,
  slug: string,
  shopper: Shopper = amina,
): Promise<void> {
  await openOrderDialog(page, shopUrl, slug);
  await fillOrder(page, shopper);
  await placeOrderButton(page).click();
  await payButton(page).waitFor();
}

/** Reads the tracking number in the open dialog. */
export async function trackingNumberIn(page: Page): Promise<string> {
  const text = (await page.getByRole('dialog').textContent()) ?? '';
  const number = /JJ-\d{8}-\d{4,6}/.exec(text)?.[0];
  if (!number) throw new Error(`no tracking number in: ${text}`);
  return number;
}
