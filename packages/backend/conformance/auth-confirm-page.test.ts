// Links of the service's own emails: opening one changes nothing, its button uses the token, and so does the code of the same email.
import type { EmailOtpType } from '@supabase/auth-js';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Mail } from '../auth/codes/messages.ts';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, formFieldsOf, newEmail, password, pressLink, refusal } from './auth-client.ts';

const often = { count: 100_000, window: 300 };

describe.each(testDatabases())('links in emails on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, {
      emailResendGap: 0,
      autoconfirmsEmail: false,
      redirectAllowList: ['https://app.example.com/**', 'jani://**'],
      limits: {
        otp: often,
        signUp: often,
        verify: often,
        signIn: often,
        emailsSent: often,
        wrongCode: often,
      },
    });
  });
  afterAll(() => service.close());
  beforeEach(() => {
    service.mails.length = 0;
  });

  const person = async () => {
    const email = newEmail();
    await adminOf(service).createUser({ email, password, email_confirm: true });
    return email;
  };
  const mailTo = (address: string): Mail & { code: string; pageLink: string } => {
    const mail = service.mails.findLast(({ to }) => to === address);
    if (!mail?.code || !mail.pageLink) throw new Error('no email with a code and a link was sent');
    return { ...mail, code: mail.code, pageLink: mail.pageLink };
  };
  const changeAddress = async () => {
    const [email, next] = [await person(), newEmail()];
    const client = clientOf(service);
    await client.signInWithPassword({ email, password });
    expect((await client.updateUser({ email: next })).error).toBeNull();
    return { email, next };
  };

  /** Each kind of email with a link: sends one, and returns its recipient. */
  const kinds: Record<string, { type: EmailOtpType; send(): Promise<string> }> = {
    recovery: {
      type: 'recovery',
      async send() {
        const email = await person();
        await clientOf(service).resetPasswordForEmail(email);
        return email;
      },
    },
    invitation: {
      type: 'invite',
      async send() {
        const email = newEmail();
        await adminOf(service).inviteUserByEmail(email);
        return email;
      },
    },
    'magic link': {
      type: 'magiclink',
      async send() {
        const email = await person();
        await clientOf(service).signInWithOtp({ email });
        return email;
      },
    },
    'confirmation of a new account': {
      type: 'signup',
      async send() {
        const email = newEmail();
        await clientOf(service).signUp({ email, password });
        return email;
      },
    },
    'confirmation that was sent again': {
      type: 'signup',
      async send() {
        const email = newEmail();
        const client = clientOf(service);
        await client.signUp({ email, password });
        await client.resend({ type: 'signup', email });
        return email;
      },
    },
    'change of address, to the new address': {
      type: 'email_change',
      send: async () => (await changeAddress()).next,
    },
    'change of address, to the current address': {
      type: 'email_change',
      send: async () => (await changeAddress()).email,
    },
  };

  /** Everything that the service stores. */
  const stored = async () => {
    const { rows } = await service.database.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'auth' order by 1`,
    );
    const contents = await Promise.all(
      rows.map(async ({ name }) => {
        const { rows: content } = await service.database.query(
          `select coalesce(jsonb_agg(to_jsonb(t) order by to_jsonb(t)), '[]') as rows from ${name} t`,
        );
        return [name, content[0]];
      }),
    );
    return Object.fromEntries(contents);
  };

  /** Opens a link as scanners and previews do. */
  const scan = async (link: string) => {
    const before = await stored();
    const readers: RequestInit[] = [
      { method: 'HEAD' },
      { headers: { 'user-agent': 'WhatsApp/2.23.20.0 A' } },
      { headers: { 'user-agent': 'facebookexternalhit/1.1', range: 'bytes=0-1000' } },
      { headers: { 'sec-purpose': 'prefetch', purpose: 'prefetch' } },
      {
        headers: {
          'user-agent': 'Mozilla/5.0',
          'sec-fetch-site': 'cross-site',
          referer: 'https://mail.example/',
        },
      },
      {},
    ];
    for (const reader of readers) {
      const page = await fetch(link, reader);
      const html = await page.text();
      expect([page.status, page.redirected, page.url]).toEqual([200, false, link]);
      if (reader.method !== 'HEAD') expect(html.match(/<button/g)).toHaveLength(1);
      expect(Object.fromEntries(page.headers)).toMatchObject({
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-robots-tag': expect.stringContaining('noindex'),
        'x-frame-options': 'DENY',
        'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
      });
    }
    expect(await stored()).toEqual(before);
  };

  const isDead = async (link: string) => {
    const answer = await pressLink(link);
    expect([answer.status, answer.headers.get('location')]).toEqual([403, null]);
    expect(await answer.text()).toContain('This link does not work any more');
  };
  const resultOf = (answer: Response) => {
    const target = new URL(answer.headers.get('location') ?? 'none:');
    return { target, fragment: new URLSearchParams(target.hash.slice(1)) };
  };

  describe.each(Object.entries(kinds))('%s', (name, { type, send }) => {
    test('contains only a link that opening does not use up', async () => {
      const { text, pageLink } = mailTo(await send());
      expect(text).toContain(`\n${pageLink}\n`);
      expect(text.match(/https?:\S+/g)).toEqual([pageLink]);
      expect(new URL(pageLink).pathname).toBe('/auth/v1/verify/confirm');
    });

    test('scanners leave the code valid, and the code voids the link', async () => {
      const email = await send();
      const { code, pageLink } = mailTo(email);
      await scan(pageLink);
      const { error } = await clientOf(service).verifyOtp({ email, token: code, type });
      expect(error).toBeNull();
      await isDead(pageLink);
    });

    test('the button works once after scanners, and voids the code', async () => {
      const email = await send();
      const { code, pageLink } = mailTo(email);
      await scan(pageLink);
      const answer = await pressLink(pageLink);
      if (name.startsWith('change of address')) {
        expect(answer.status).toBe(200);
        expect(await answer.text()).toContain('Now open the link that we sent to your other email address.');
      } else {
        expect([answer.status, answer.headers.get('referrer-policy')]).toEqual([303, 'no-referrer']);
        const { fragment } = resultOf(answer);
        expect(fragment.get('type')).toBe(type);
        const { data } = await clientOf(service).getUser(fragment.get('access_token') ?? '');
        expect(data.user?.email).toBe(email);
      }
      await isDead(pageLink);
      const typed = await clientOf(service).verifyOtp({ email, token: code, type });
      expect(refusal(typed.error)).toEqual([403, 'otp_expired']);
    });

    test('an expired link says so, with the next step', async () => {
      const { pageLink } = mailTo(await send());
      service.advance(3601);
      await isDead(pageLink);
      const html = await (await pressLink(pageLink)).text();
      expect(html).toContain('Continue to ask for a new one');
      expect(html).toMatch(
        /<a href="[^"]+#error=access_denied&amp;error_code=otp_expired[^"]*">Continue<\/a>/,
      );
    });
  });

  test('both links of a change of address, scanned before, change it', async () => {
    const { email, next } = await changeAddress();
    for (const address of [email, next]) await scan(mailTo(address).pageLink);
    expect((await pressLink(mailTo(email).pageLink)).status).toBe(200);
    const { fragment } = resultOf(await pressLink(mailTo(next).pageLink));
    const { data } = await clientOf(service).getUser(fragment.get('access_token') ?? '');
    expect(data.user?.email).toBe(next);
  });

  test('an email to confirm that it is you has a code and no link', async () => {
    const client = clientOf(service);
    const email = await person();
    await client.signInWithPassword({ email, password });
    await client.reauthenticate();
    const { text, code, link, pageLink } = service.mails.at(-1) ?? {};
    expect([text?.includes('http'), link, pageLink]).toEqual([false, undefined, undefined]);
    expect(text).toContain(code);
  });

  test('with PKCE the button issues a code for the client that requested it', async () => {
    const client = clientOf(service, 'pkce');
    const email = await person();
    await client.resetPasswordForEmail(email, { redirectTo: 'https://app.example.com/reset' });
    const { pageLink } = mailTo(email);
    await scan(pageLink);
    const { target, fragment } = resultOf(await pressLink(pageLink));
    expect([target.origin, [...fragment.keys()]]).toEqual(['https://app.example.com', []]);
    const { data } = await client.exchangeCodeForSession(target.searchParams.get('code') ?? '');
    expect(data.user?.email).toBe(email);
  });

  test('a link without its PKCE flow leaves the code of the email valid', async () => {
    const client = clientOf(service, 'pkce');
    const email = await person();
    await client.resetPasswordForEmail(email);
    const { code, link, pageLink } = mailTo(email);
    await service.database.query('delete from auth.flow_state where true');
    const answer = await pressLink(pageLink);
    expect([answer.status, await answer.text()]).toEqual([404, expect.stringContaining('Enter the code')]);
    await fetch(link ?? '', { redirect: 'manual' });
    expect((await client.verifyOtp({ email, token: code, type: 'recovery' })).error).toBeNull();
  });

  test("GoTrue's link stays available to other templates: opening it signs in and redirects", async () => {
    for (const flow of ['implicit', 'pkce'] as const) {
      const email = await person();
      const redirectTo = 'https://app.example.com/reset';
      await clientOf(service, flow).resetPasswordForEmail(email, { redirectTo });
      const { link = '' } = mailTo(email);
      expect(new URL(link).pathname).toBe('/auth/v1/verify');
      const { target, fragment } = resultOf(await fetch(link, { redirect: 'manual' }));
      expect(target.origin).toBe('https://app.example.com');
      expect(flow === 'pkce' ? target.searchParams.has('code') : fragment.has('access_token')).toBe(true);
    }
  });

  test('redirects only to allowed URLs, whatever the page or the form names', async () => {
    const site = new URL(service.url).origin;
    for (const [named, expected] of [
      ['https://app.example.com/welcome?from=mail', 'https://app.example.com'],
      ['jani://signed-in', 'null'],
      ['https://evil.example.net/', site],
      ['//evil.example.net/', site],
      ['https://app.example.com.evil.example.net/', site],
      ['https://user@app.example.com/', site],
      ['javascript:alert(1)', site],
      ['', site],
    ] as const) {
      const email = await person();
      await clientOf(service).resetPasswordForEmail(email);
      const link = new URL(mailTo(email).pageLink);
      link.searchParams.set('redirect_to', named);
      const fields = formFieldsOf(await (await fetch(link)).text());
      expect(new URL(fields.redirect_to ?? '').origin, `form for ${named}`).toBe(expected);
      const answer = await fetch(new URL('confirm', link), {
        method: 'POST',
        redirect: 'manual',
        body: new URLSearchParams({ ...fields, redirect_to: named }),
      });
      expect(resultOf(answer).target.origin, `redirect to ${named}`).toBe(expected);
    }
  });

  test('a form of another site is refused and changes nothing', async () => {
    const email = await person();
    await clientOf(service).resetPasswordForEmail(email);
    const { pageLink } = mailTo(email);
    const own = new URL(service.url).origin;
    for (const headers of [
      { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
      { 'sec-fetch-site': 'same-site', origin: 'https://other.jani.example' },
      { 'sec-fetch-site': 'cross-site', origin: own },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `${own}0` },
    ] as Record<string, string>[]) {
      const answer = await pressLink(pageLink, headers);
      expect([answer.status, answer.headers.get('location')], JSON.stringify(headers)).toEqual([403, null]);
      expect(await answer.text()).toContain('Nothing has changed.');
    }
    const pressed = await pressLink(pageLink, { 'sec-fetch-site': 'same-origin', origin: own });
    expect(pressed.status).toBe(303);
  });

  test('incomplete links get a sentence, not an error of the protocol', async () => {
    const hash = 'a'.repeat(56);
    for (const query of [
      '',
      'type=recovery',
      `token_hash=${hash}`,
      `token_hash=${hash}&type=`,
      `token_hash=${hash}&type=nothing`,
      `token_hash=${hash}&type=constructor`,
      `token_hash=${hash}&type=sms`,
      'token_hash=&type=recovery',
      `token_hash=${'a'.repeat(129)}&type=recovery`,
      'token_hash=%00&type=recovery',
      'token_hash=%22%3E%3Cscript%3E&type=recovery',
    ]) {
      const opened = await fetch(`${service.url}/verify/confirm?${query}`);
      const posted = await fetch(`${service.url}/verify/confirm`, {
        method: 'POST',
        body: new URLSearchParams(query),
      });
      for (const answer of [opened, posted]) {
        expect([answer.status, answer.headers.get('content-type')]).toEqual([
          400,
          'text/html; charset=utf-8',
        ]);
        const html = await answer.text();
        expect(html).toContain('This link is incomplete');
        expect(html).not.toMatch(/<script>(?!var last)/);
      }
    }
  });

  test('a blocked account and a taken address have their own sentences', async () => {
    const email = await person();
    await clientOf(service).resetPasswordForEmail(email);
    const { data } = await adminOf(service).listUsers({ perPage: 1000 });
    const id = data.users.find((user) => user.email === email)?.id ?? '';
    await adminOf(service).updateUserById(id, { ban_duration: '1h' });
    expect(await (await pressLink(mailTo(email).pageLink)).text()).toContain('This account is blocked');

    const { email: current, next } = await changeAddress();
    expect((await pressLink(mailTo(current).pageLink)).status).toBe(200);
    await adminOf(service).createUser({ email: next, password, email_confirm: true });
    expect(await (await pressLink(mailTo(next).pageLink)).text()).toContain('This email address is taken');
  });

  test('unknown links are limited per network, with a sentence', async () => {
    const strict = await service.alongside({ limits: { verify: { count: 1, window: 300 } } });
    const press = () =>
      fetch(`${strict.url}/verify/confirm`, {
        method: 'POST',
        headers: { 'x-forwarded-for': '198.51.100.7' },
        body: new URLSearchParams({ token_hash: 'a'.repeat(56), type: 'recovery' }),
      });
    const statuses = [];
    for (let attempt = 0; attempt < 4; attempt += 1) statuses.push((await press()).status);
    expect(statuses).toEqual([403, 429, 429, 429]);
    expect(await (await press()).text()).toContain('Please wait a few minutes');
    await strict.close();
  });
});
