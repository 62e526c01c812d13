// Creates staff accounts for the stories and signs them in.
import { randomInt, randomUUID } from 'node:crypto';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { type OpenShop, until } from '../scripts/tests/open-shop.ts';

/** The URL and keys of a shop. */
export type Shop = Pick<OpenShop, 'url' | 'keys'>;

export interface Account {
  id: string;
  email: string;
  password: string;
}

/** Sends a request with the secret key. */
export async function asOwner(shop: Shop, path: string, method: string, body?: unknown): Promise<Response> {
  const { secret } = await shop.keys();
  const answer = await fetch(`${shop.url}${path}`, {
    method,
    headers: {
      apikey: secret,
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      prefer: 'return=representation',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.ok) expect.fail(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}

export type StaffRole = 'owner' | 'staff' | 'counter';

let accountCount = 0;
// Workers share a shop, and each counts its accounts.
const ofWorker = randomUUID().slice(0, 8);

/**
 * Creates an account for a test.
 * @param label part of the email address; unique by itself. Default: a new one
 */
export async function makeAccount(
  shop: Shop,
  kind: 'staff' | 'customer' = 'staff',
  label?: string,
  role: StaffRole = 'owner',
): Promise<Account> {
  accountCount += 1;
  const email = `${kind}-${label ?? `${accountCount}-${ofWorker}`}@jani.example`;
  const password = `correct horse ${accountCount}`;
  const answer = await asOwner(shop, '/auth/v1/admin/users', 'POST', {
    email,
    password,
    email_confirm: true,
  });
  const { id } = (await answer.json()) as { id: string };
  if (kind === 'staff') await asOwner(shop, '/rest/v1/admin_profiles', 'POST', { user_id: id, role });
  return { id, email, password };
}

export const signInButton = (page: Page) => page.getByRole('button', { name: 'Sign In', exact: true });

export async function fillSignIn(
  page: Page,
  { email, password }: Pick<Account, 'email' | 'password'>,
): Promise<void> {
  await page.getByLabel(/^Email/).fill(email);
  await page.getByLabel(/^Password/).fill(password);
  await signInButton(page).click();
}

/** Signs in with the form and waits for the dashboard. */
export async function signIn(shop: Shop, page: Page, account: Account): Promise<void> {
  await page.goto(`${shop.url}/admin/login`);
  await fillSignIn(page, account);
  await page.waitForURL('**/admin/dashboard');
  await page.getByText(`Welcome, ${account.email}`).waitFor();
}

/** Signs in without the form, for stories about other screens. */
export async function sessionOf(shop: Shop, { email, password }: Account): Promise<{ access_token: string }> {
  const { publishable } = await shop.keys();
  const answer = await fetch(`${shop.url}/auth/v1/token?grant_type=password`, {
    method: 'POST',
    headers: {
      apikey: publishable,
      'content-type': 'application/json',
      // Another network each time. Only a shop behind a proxy reads it.
      'x-forwarded-for': `198.${randomInt(256)}.${randomInt(256)}.1`,
    },
    body: JSON.stringify({ email, password }),
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as { access_token: string };
}

/**
 * Creates a staff member and stores its session in the browser.
 * @param path screen to open
 */
export async function enterAsStaff(shop: Shop, page: Page, path?: string): Promise<Account> {
  const account = await makeAccount(shop);
  const session = await sessionOf(shop, account);
  const stored = {
    'jani.staff': JSON.stringify(session),
    'jani.staff-session': session.access_token.slice(-32),
  };
  await page.addInitScript((texts) => {
    // Only on the first page, because the panel may change or remove the stored session.
    if (sessionStorage.getItem('entered')) return;
    sessionStorage.setItem('entered', 'yes');
    for (const [key, text] of Object.entries(texts)) localStorage.setItem(key, text);
  }, stored);
  if (path) await page.goto(`${shop.url}${path}`);
  return account;
}

/** Calls a procedure as this account. */
export async function callAs(
  shop: Shop,
  account: Account,
  procedure: string,
  args: Record<string, unknown> = {},
): Promise<Response> {
  const [{ publishable }, { access_token }] = await Promise.all([shop.keys(), sessionOf(shop, account)]);
  return fetch(`${shop.url}/rest/v1/rpc/${procedure}`, {
    method: 'POST',
    headers: {
      apikey: publishable,
      authorization: `Bearer ${access_token}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(args),
  });
}

/** Calls a procedure as a new staff member. */
export async function callAsStaff(
  shop: Shop,
  procedure: string,
  args: Record<string, unknown> = {},
): Promise<void> {
  const answer = await callAs(shop, await makeAccount(shop), procedure, args);
  expect(answer.ok, `${procedure}: ${answer.status}`).toBe(true);
}

/** Presses a button that a live update may remove first; the outcome is the same. */
export async function pressUnlessTaken(button: Locator, outcome: Locator): Promise<void> {
  // A click that is still pending when the outcome appears would press the button later.
  await until(async () => {
    if (await outcome.isVisible()) return true;
    await button.click({ timeout: 1000 }).catch(() => {});
    return outcome.isVisible();
  }, 'the button or the news led on');
}

/** The button that shows a status and opens the menu of statuses. */
export const statusButton = (within: Page | Locator, label: string): Locator =>
  within.getByRole('button', { name: `${label}: ` });

/** Selects a status from its menu, and confirms where the panel requires it. */
export async function chooseStatus(button: Locator, status: string, confirm?: string): Promise<void> {
  const page = button.page();
  await button.click();
  await page.getByRole('menuitemradio', { name: status }).click();
  if (confirm) await page.getByRole('dialog').getByRole('button', { name: confirm, exact: true }).click();
}

/** The messages that appear for some seconds. */
export const toast = (page: Page, text: string | RegExp): Locator =>
  page.locator('[data-sonner-toast], [data-bar]').filter({ hasText: text });

/** Waits until the panel receives live updates. */
export const waitForLive = (page: Page) =>
  page.getByText('Live: changes appear by themselves').waitFor({ state: 'attached' });
