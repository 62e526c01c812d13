// Only staff can sign in to the panel.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { addApp, codeFor } from '../../authenticator-app.ts';
import { desktop, phone } from '../../browser.ts';
import { linkInMail, mailsTo, nextMail } from '../../mailbox.ts';
import { desktopFirst, inLongRun } from '../../selection.ts';
import { asOwner, fillSignIn, makeAccount, signIn, signInButton } from '../../staff-member.ts';
import { browser, openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });
const longStory = inLongRun(story);

const signOut = async (page: Page): Promise<void> => {
  await page.getByRole('button', { name: 'Sign Out', exact: true }).click();
  await page.waitForURL('**/admin/login');
};
const failedSignIn = /400 \(Bad Request\).*\/auth\/v1\/token/;
const sessionGone = /40[13] .*\/(auth|rest)\/v1\//;
const notAdmin = /This account is not admin, or not active/;

const screens = [
  ['dashboard', 'Dashboard'],
  ['products', 'Products'],
  ['orders', 'Orders'],
  ['deliveries', 'Delivery Management'],
  ['inquiries', 'Inquiries'],
  ['messages', 'Messages'],
] as const;

describe('signing in', () => {
  story('the first account, printed on the console, opens every screen', async ({ newVisitor }) => {
    const announcement = /First staff account: +(\S+) {2}password: (\S+)/;
    await until(async () => announcement.test(shop.output()), 'the account is printed');
    const [, email = '', password = ''] = announcement.exec(shop.output()) ?? [];
    const { page } = await newVisitor();
    await signIn(shop, page, { id: '', email, password });
    for (const [path, heading] of screens) {
      await page
        .getByRole('link', { name: heading.split(' ')[0]?.replace('Delivery', 'Deliveries') ?? '' })
        .click();
      await page.waitForURL(`**/admin/${path}`);
      await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    }
  });

  story.for([...screens.map(([path]) => path), 'account', ''])(
    '/admin/%s redirects to the sign-in page without a session',
    async (path, { newVisitor }) => {
      const { page } = await newVisitor();
      await page.goto(`${shop.url}/admin/${path}`);
      await page.waitForURL('**/admin/login');
      await page.getByRole('heading', { name: 'Jani Juice Admin' }).waitFor();
      await page.getByText('Sign in to access the admin panel').waitFor();
    },
  );

  story('a wrong password is rejected with a message', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page } = await newVisitor({ expectedFailures: failedSignIn });
    await page.goto(`${shop.url}/admin/login`);
    await fillSignIn(page, { ...account, password: 'wrong horse' });
    await page.getByText('Invalid email or password. Please check your credentials.').waitFor();
    await Promise.all([
      page.waitForResponse(/\/auth\/v1\/token/),
      fillSignIn(page, { ...account, email: 'nobody@jani.example' }),
    ]);
    await until(async () => await signInButton(page).isEnabled(), 'the form is back');
    await page.getByText('Invalid email or password. Please check your credentials.').waitFor();
    expect(page.url()).toBe(`${shop.url}/admin/login`);
    await fillSignIn(page, account);
    await page.waitForURL('**/admin/dashboard');
  });

  longStory('a signed-in customer is rejected with the reason after a second', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'customer');
    const { page } = await newVisitor({ expectedFailures: notAdmin });
    await page.goto(`${shop.url}/admin/login`);
    await fillSignIn(page, account);
    await page.getByText('If you are not redirected, you may not have admin privileges.').waitFor();
    await page.goto(`${shop.url}/admin/orders`);
    await page.waitForURL('**/admin/login');
    await page.getByRole('button', { name: 'Sign out of this account' }).click();
    await page.getByText('If you are not redirected').waitFor({ state: 'detached' });
  });

  longStory(
    'signed-in staff are redirected to the dashboard, also after a reload',
    async ({ newVisitor }) => {
      const { page } = await newVisitor();
      await signIn(shop, page, await makeAccount(shop, 'staff'));
      await page.goto(`${shop.url}/admin/login`);
      await page.waitForURL('**/admin/dashboard');
      await page.goto(`${shop.url}/admin/reset-password`);
      await page.waitForURL('**/admin/account');
    },
  );
});

inLongRun(describe)('the panel', () => {
  story('the sidebar collapses with Ctrl+B and remembers it for a week', async ({ newVisitor }) => {
    const { page, context } = await newVisitor();
    await signIn(shop, page, await makeAccount(shop, 'staff'));
    const widthIs = (width: number) =>
      until(
        async () => (await page.locator('#sidebar').boundingBox())?.width === width,
        `the sidebar is ${width} pixels wide`,
      );
    await widthIs(256);
    await page.keyboard.press('Control+b');
    await widthIs(48);
    await page.reload();
    await widthIs(48);
    const cookie = (await context.cookies(`${shop.url}/admin`)).find(({ name }) => name === 'sidebar_state');
    const days = ((cookie?.expires ?? 0) - Date.now() / 1000) / 86_400;
    expect(Math.round(days)).toBe(7);
    await page.keyboard.press('Meta+b');
    await widthIs(256);
    await page.getByRole('button', { name: 'Toggle sidebar' }).click();
    await widthIs(48);
  });

  story('on a phone the sidebar is a drawer', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: phone });
    await signIn(shop, page, await makeAccount(shop, 'staff'));
    const bar = page.getByRole('navigation', { name: 'Screens of the day' });
    await bar.getByRole('link', { name: 'Deliveries' }).click();
    await page.getByRole('heading', { name: 'Delivery Management', level: 1 }).waitFor();
    await bar.getByRole('button', { name: 'More' }).click();
    const drawer = page.getByRole('dialog', { name: 'Menu' });
    await until(async () => (await drawer.boundingBox())?.width === 288, 'the drawer is 288 pixels wide');
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'hidden' });
    await page.keyboard.press('Control+b');
    await drawer.getByRole('link', { name: 'Inquiries' }).click();
    await page.getByRole('heading', { name: 'Inquiries', level: 1 }).waitFor();
    await drawer.waitFor({ state: 'hidden' });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(overflow).toBeLessThanOrEqual(0);
  });

  story('signing out in one tab signs out the other', async ({ newVisitor }) => {
    // The other tab may be checking its session at the same time.
    const { page, context } = await newVisitor({ expectedFailures: sessionGone });
    const account = await makeAccount(shop, 'staff');
    await signIn(shop, page, account);
    const second = await context.newPage();
    // A fragment in the URL has no effect.
    await second.goto(`${shop.url}/admin/orders#main`);
    await second.getByRole('heading', { name: 'Orders', level: 1 }).waitFor();
    // The router warns in the console of a step in the history that is not its own.
    await second.getByRole('link', { name: 'Skip to content' }).press('Enter');
    expect(await second.evaluate(() => document.activeElement?.id), 'the focus').toBe('main');
    // A WebSocket that is closed while it opens is reported in the console.
    const isLive = () => second.getByTitle('Live: changes appear by themselves').waitFor();
    await isLive();
    await signOut(page);
    const ended = second.getByRole('dialog', { name: 'Your session has ended' });
    await ended.waitFor();
    expect(await second.getByRole('heading', { name: 'Orders' }).count()).toBe(0);

    // A session that begins in one tab applies to the others, too.
    await signIn(shop, page, account);
    await ended.waitFor({ state: 'detached' });
    await second.goto(`${shop.url}/admin/products?new=1`);
    const name = second.getByLabel(/^Product Name/);
    await name.fill('Half typed');
    await isLive();
    await signOut(page);
    await ended.waitFor();
    await signIn(shop, page, account);
    await ended.waitFor({ state: 'detached' });
    expect(await name.inputValue()).toBe('Half typed');
  });

  story.for(desktopFirst)(
    'sign-in and account page have no accessibility findings, %s',
    async ([, viewport], { newVisitor }) => {
      const { page } = await newVisitor({ viewport });
      await page.goto(`${shop.url}/admin/login`);
      await signInButton(page).waitFor();
      await expectAccessible(page);
      await signIn(shop, page, await makeAccount(shop, 'staff'));
      // The stories of the other screens check those.
      await page.goto(`${shop.url}/admin/account`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await expectAccessible(page);
    },
  );
});

inLongRun(describe)('the second factor', () => {
  story('an authenticator app is added, asked for, and removed again', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page } = await newVisitor({ expectedFailures: /422 .*\/verify|403 .*\/rest\/v1\// });
    await signIn(shop, page, account);
    const secret = await addApp(shop, page);
    await signOut(page);

    await fillSignIn(page, account);
    await page.getByLabel(/^Code from your authenticator app/).waitFor();
    // The password alone gives access to neither screens nor tables.
    await page.goto(`${shop.url}/admin/orders`);
    await page.waitForURL('**/admin/login');
    await page.getByLabel(/^Code from your authenticator app/).waitFor();
    const token = await page.evaluate(
      () => JSON.parse(localStorage.getItem('jani.staff') ?? '{}').access_token,
    );
    const { publishable } = await shop.keys();
    const orders = await fetch(`${shop.url}/rest/v1/rpc/is_admin`, {
      headers: { apikey: publishable, authorization: `Bearer ${token}` },
    });
    expect(await orders.json()).toBe(false);

    const wrong = codeFor(secret, Date.now() - 3_600_000);
    await page.getByLabel(/^Code from your authenticator app/).fill(wrong);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('That code is not right or was already used. Enter the one shown now.').waitFor();
    expect(await page.evaluate(() => document.activeElement?.textContent), 'the focus stays').toBe(
      'Continue',
    );
    // The code that confirmed the app is used up; the next one is already valid.
    await page.getByLabel(/^Code from your authenticator app/).fill(codeFor(secret, Date.now() + 30_000));
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForURL('**/admin/dashboard');

    await page.goto(`${shop.url}/admin/account`);
    await page.getByRole('button', { name: 'Remove My phone...' }).click();
    await page.getByRole('button', { name: 'Remove My phone', exact: true }).click();
    await page.getByText('My phone', { exact: true }).waitFor({ state: 'detached' });
    expect(await page.evaluate(() => document.activeElement?.id), 'the focus is not lost').toBe('main');
    await signOut(page);
    await signIn(shop, page, account);
  });

  story('a passkey is created, signs in, is renamed and removed', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page, context } = await newVisitor();
    const session = await context.newCDPSession(page);
    await session.send('WebAuthn.enable');
    await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    await signIn(shop, page, account);
    await page.goto(`${shop.url}/admin/account`);
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByRole('button', { name: /^Rename/ }).click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Laptop');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Laptop', { exact: true }).waitFor();
    await signOut(page);

    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL('**/admin/dashboard');
    await page.goto(`${shop.url}/admin/account`);
    await page.getByRole('button', { name: 'Remove Laptop...' }).click();
    await page.getByRole('button', { name: 'Remove Laptop', exact: true }).click();
    await page.getByText('Laptop', { exact: true }).waitFor({ state: 'detached' });
  });
});

inLongRun(describe)('the password', () => {
  async function askForLink(page: Page, email: string): Promise<void> {
    await page.goto(`${shop.url}/admin/login`);
    await page.getByRole('link', { name: 'Forgot password?' }).click();
    // The previous page has a field with this label, too.
    await page.waitForURL('**/admin/reset-password');
    await page.getByRole('button', { name: 'Send the link' }).waitFor();
    await page.getByLabel(/^Email/).fill(email);
    await page.getByRole('button', { name: 'Send the link' }).click();
    await page.getByText('Check your e-mail').waitFor();
  }

  story('a forgotten password is replaced by an emailed link on another device', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page } = await newVisitor();
    await askForLink(page, account.email);
    const link = await linkInMail(shop.outbox, account.email);

    const { page: other } = await newVisitor({ viewport: phone });
    await other.goto(link);
    await other.getByRole('heading', { name: 'Reset your password' }).waitFor();
    await expectAccessible(other);
    await other.getByRole('button', { name: 'Continue' }).dblclick();
    await other.getByLabel(/^New password \*/).fill('a better horse');
    await other.getByLabel(/^New password, again/).fill('another horse');
    await other.getByRole('button', { name: 'Set password' }).click();
    await other.getByText('The two passwords are not the same').waitFor();
    await other.getByLabel(/^New password, again/).fill('a better horse');
    await other.getByRole('button', { name: 'Set password' }).click();
    await other.waitForURL('**/admin/dashboard');
    await signIn(shop, page, { ...account, password: 'a better horse' });

    const { page: third } = await newVisitor({ expectedFailures: /403 .*\/verify\/confirm/ });
    await third.goto(link);
    await third.getByRole('button', { name: 'Continue' }).click();
    await third.getByRole('heading', { name: 'This link does not work any more' }).waitFor();
    await third.getByRole('link', { name: 'Continue' }).click();
    await third.getByText('Email link is invalid or has expired').waitFor();
    await third.getByRole('button', { name: 'Send the link' }).waitFor();
  });

  story('the code in that email works as well as its link', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page } = await newVisitor({ expectedFailures: /403 .*\/auth\/v1\/verify/ });
    await askForLink(page, account.email);
    await page.getByLabel(/^Code from the mail/).fill('000000');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('That code or link is not right, was already used, or has expired.').waitFor();
    const code = /enter the code (\d+)/.exec(await nextMail(shop.outbox, account.email))?.[1] ?? '';
    await page.getByLabel(/^Code from the mail/).fill(code);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel(/^New password \*/).fill('a better horse');
    await page.getByLabel(/^New password, again/).fill('a better horse');
    await page.getByRole('button', { name: 'Set password' }).click();
    await page.waitForURL('**/admin/dashboard');
  });

  story('an earlier link still works when another email is rejected', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page: stranger } = await newVisitor();
    await askForLink(stranger, account.email);
    const { page } = await newVisitor({ expectedFailures: /429 .*\/auth\/v1\/recover/ });
    await page.goto(`${shop.url}/admin/reset-password`);
    await page.getByLabel(/^Email/).fill(account.email);
    await page.getByRole('button', { name: 'Send the link' }).click();
    await page.getByText('We already sent an email').waitFor();
    await page.goto(await linkInMail(shop.outbox, account.email));
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel(/^New password \*/).waitFor();
  });

  story('browsers that only open the link leave it and its code valid', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const { page } = await newVisitor();
    await askForLink(page, account.email);
    const link = await linkInMail(shop.outbox, account.email);
    for (const visits of [1, 2]) {
      const { page: scanner } = await newVisitor();
      for (let visit = 0; visit < visits; visit += 1) await scanner.goto(link, { waitUntil: 'networkidle' });
      expect(scanner.url()).toBe(link);
    }
    const code = /enter the code (\d+)/.exec(await nextMail(shop.outbox, account.email))?.[1] ?? '';
    await page.getByLabel(/^Code from the mail/).fill(code);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel(/^New password \*/).waitFor();
  });

  story(
    'the page of the link works without scripts and reports no token to others',
    async ({ newVisitor }) => {
      const account = await makeAccount(shop, 'staff');
      const { page } = await newVisitor();
      await askForLink(page, account.email);
      const link = await linkInMail(shop.outbox, account.email);
      const context = await browser.newContext({ javaScriptEnabled: false });
      const plain = await context.newPage();
      await plain.goto(link);
      const [posted] = await Promise.all([
        plain.waitForRequest((request) => request.method() === 'POST'),
        plain.getByRole('button', { name: 'Continue' }).click(),
      ]);
      await plain.waitForURL('**/admin/reset-password*');
      expect(await posted.headerValue('origin')).toBe(shop.url);
      expect((await posted.headerValue('referer')) ?? '').not.toContain('token');
      expect(plain.url()).toContain('#access_token=');
      await context.close();
    },
  );

  story("a hosted project's link asks for a press, too", async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const made = await asOwner(shop, '/auth/v1/admin/generate_link', 'POST', {
      type: 'recovery',
      email: account.email,
    });
    const { hashed_token: hash } = (await made.json()) as { hashed_token: string };
    const link = `${shop.url}/admin/confirm?token_hash=${hash}&type=recovery`;
    for (let visit = 0; visit < 2; visit += 1) {
      const { page: scanner } = await newVisitor();
      await scanner.goto(link, { waitUntil: 'networkidle' });
      await scanner.getByRole('button', { name: 'Continue' }).waitFor();
    }
    const { page } = await newVisitor({ viewport: phone });
    const answer = await page.goto(link);
    expect(await answer?.headerValue('referrer-policy')).toBe('no-referrer');
    expect(await answer?.headerValue('cache-control')).toContain('no-store');
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForURL('**/admin/reset-password');
    await page.getByLabel(/^New password \*/).waitFor();

    const { page: late } = await newVisitor({ expectedFailures: /403 .*\/auth\/v1\/verify/ });
    await late.goto(link);
    await late.getByRole('button', { name: 'Continue' }).click();
    await late.getByText('That code or link is not right, was already used, or has expired.').waitFor();
    await late.getByRole('link', { name: 'Ask for a new link' }).click();
    await late.getByRole('button', { name: 'Send the link' }).waitFor();
    await late.goto(`${shop.url}/admin/confirm?token_hash=${hash}`);
    await late.getByRole('heading', { name: 'This link is incomplete' }).waitFor();
  });

  story('the response does not reveal whether an email has an account', async ({ newVisitor }) => {
    const { page } = await newVisitor();
    await askForLink(page, 'stranger@jani.example');
    expect(await mailsTo(shop.outbox, 'stranger@jani.example')).toEqual([]);
  });

  story('changing it needs the current one and ends the other sessions', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const [{ page }, { page: other }] = [
      await newVisitor({ expectedFailures: /400 .*\/auth\/v1\/user/ }),
      await newVisitor({ expectedFailures: sessionGone }),
    ];
    await signIn(shop, page, account);
    await signIn(shop, other, account);
    await page.goto(`${shop.url}/admin/account`);
    await page.getByLabel(/^Current password/).fill('wrong horse');
    await page.getByLabel(/^New password \*/).fill('a better horse');
    await page.getByLabel(/^New password, again/).fill('a better horse');
    await page.getByRole('button', { name: 'Change password' }).click();
    await page.getByText('The current password is not right.').waitFor();
    await page.getByLabel(/^Current password/).fill(account.password);
    await page.getByRole('button', { name: 'Change password' }).click();
    await page.getByText('Your password is changed').waitFor();
    await other.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
  });

  story('other sessions are listed and ended', async ({ newVisitor }) => {
    const account = await makeAccount(shop, 'staff');
    const [{ page }, { page: other }] = [
      await newVisitor(),
      await newVisitor({ expectedFailures: sessionGone }),
    ];
    await signIn(shop, other, account);
    await signIn(shop, page, account);
    await page.goto(`${shop.url}/admin/account`);
    const sessions = page.getByRole('listitem').filter({ hasText: 'since' });
    await sessions.first().getByText('This device').waitFor();
    expect(await sessions.count()).toBe(2);
    await page.getByRole('button', { name: 'Sign out everywhere else' }).click();
    await page.getByText('You are signed out everywhere else').waitFor();
    await until(async () => (await sessions.count()) === 1, 'one session is left');
    await other.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
  });
});

longStory('no storefront page loads code of the staff panel', async ({ newVisitor }) => {
  const { page, context } = await newVisitor();
  const addresses = new Set<string>();
  context.on('response', (answer) => {
    if (answer.url().endsWith('.js')) addresses.add(answer.url());
  });
  for (const path of ['/', '/shop', '/shop/mango-bottle', '/contact', '/track-order']) {
    await page.goto(`${shop.url}${path}`, { waitUntil: 'networkidle' });
  }
  expect(addresses.size).toBeGreaterThan(5);
  const scripts = await Promise.all([...addresses].map(async (address) => (await fetch(address)).text()));
  expect(scripts.filter((script) => /grant_type|Loading admin panel/.test(script))).toEqual([]);
});
