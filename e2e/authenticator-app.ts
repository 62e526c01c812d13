// An authenticator app of a story's member.
import { Secret, TOTP } from 'otpauth';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Shop } from './staff-member.ts';

export const codeFor = (secret: string, at = Date.now()) =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: at });

/**
 * Adds an authenticator app to the current account; returns its secret. From that moment on the token of the password alone
 * reads nothing: a refetch that is under way is refused, which the visitor has to expect (`403 .*\/rest\/v1\/`).
 */
export async function addApp({ url }: Pick<Shop, 'url'>, page: Page): Promise<string> {
  await page.goto(`${url}/admin/account`);
  await page.getByRole('button', { name: 'Add an authenticator app' }).click();
  const shown = page.locator('[data-secret]');
  await shown.waitFor();
  const secret = ((await shown.textContent()) ?? '').replaceAll(' ', '');
  await page.getByAltText('QR code for the authenticator app').waitFor();
  expect(
    await page
      .getByAltText('QR code for the authenticator app')
      .evaluate((image) => (image as HTMLImageElement).naturalWidth),
  ).toBeGreaterThan(0);
  await page.getByLabel(/^Code it shows/).fill(codeFor(secret));
  await page.getByRole('button', { name: 'Confirm' }).click();
  await page.getByText('My phone', { exact: true }).waitFor();
  return secret;
}
