// Limits of the auth service: strangers exhaust their own limits, never those of an account's owner.
import { createHmac } from 'node:crypto';
import type { GoTrueClient } from '@supabase/auth-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, newEmail, password, post, refusal } from './auth-client.ts';

const often = { count: 100_000, window: 300 };

describe.each(testDatabases())('limits on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, {
      isSignupOpen: false,
      autoconfirmsEmail: false,
      smsResendGap: 60,
      limits: {
        signIn: often,
        otp: often,
        verify: { count: 4, window: 300 },
        tokenRefresh: { count: 3, window: 300 },
        wrongPassword: { count: 2, window: 3600 },
        wrongCode: { count: 2, window: 86_400 },
        wrongCodeOverall: { count: 6, window: 86_400 },
      },
    });
  });
  afterAll(() => service.close());

  let network = 0;
  /** An IP address in a network that no other test uses. */
  const newAddress = () => {
    network += 1;
    return `10.${network >> 8}.${network & 255}.7`;
  };
  const account = async () => {
    const email = newEmail();
    const { data } = await adminOf(service).createUser({ email, password, email_confirm: true });
    return { email, id: data.user?.id ?? '' };
  };
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const signIn = async (address: string, email: string, tried: string) =>
    (await post(service, '/token?grant_type=password', { email, password: tried }, from(address))).status;
  const recover = async (email: string, address = newAddress()) =>
    (await post(service, '/recover', { email }, from(address))).status;
  const mailsTo = (email: string) => service.mails.filter(({ to }) => to === email);
  const lastMailTo = (email: string) => {
    const mail = mailsTo(email).at(-1);
    if (!mail?.code || !mail.link) throw new Error('no e-mail with a code and a link was sent');
    return { code: mail.code, link: mail.link };
  };
  /** Opens a link. Returns `signed in` or an error code. */
  const open = async (link: string, address = newAddress()) => {
    const answer = await fetch(link, { redirect: 'manual', headers: from(address) });
    const { hash, searchParams } = new URL(answer.headers.get('location') ?? 'none:');
    const fragment = new URLSearchParams(hash.slice(1));
    if (fragment.has('access_token') || searchParams.has('code')) return 'signed in';
    return fragment.get('error_code') ?? fragment.get('message');
  };
  const typeCode = async (email: string, token: string, address: string) =>
    (await post(service, '/verify', { type: 'recovery', email, token }, from(address))).status;
  const wrong = (code: string) => (code === '000000' ? '000001' : '000000');

  describe('passwords', () => {
    test('wrong passwords from other networks never block the right one', async () => {
      const { email } = await account();
      for (const stranger of [newAddress(), newAddress()]) {
        for (let attempt = 0; attempt < 10; attempt += 1) {
          expect(await signIn(stranger, email, 'not it')).toBe(attempt < 2 ? 400 : 429);
        }
      }
      expect(await signIn(newAddress(), email, password)).toBe(200);
    });

    test('are counted per address, and per /24 with eight times the limit', async () => {
      const { email } = await account();
      const statuses: number[] = [];
      for (let host = 1; host <= 9; host += 1) {
        for (let attempt = 0; attempt < 3; attempt += 1) {
          statuses.push(await signIn(`203.0.113.${host}`, email, 'not it'));
        }
      }
      const eachHost = [400, 400, 429];
      expect(statuses).toEqual([...Array.from({ length: 8 }, () => eachHost).flat(), 429, 429, 429]);
      expect(await signIn('203.0.113.200', email, password), 'the same /24').toBe(429);
      expect(await signIn('203.0.114.1', email, password), 'another /24').toBe(200);
    });

    test('are counted per /64, /56 and /48', async () => {
      const { email } = await account();
      const accepted = async (addresses: readonly string[]) => {
        const statuses = [];
        for (const address of addresses) statuses.push(await signIn(address, email, 'not it'));
        return statuses.filter((status) => status === 400).length;
      };
      const hosts = (prefix: string) => ['::1', ':a:b:c:d', ':ffff::'].map((host) => `${prefix}${host}`);
      expect(await accepted(hosts('2001:db8:7:1')), 'a /64').toBe(2);
      expect(await accepted(['2', '3', '4'].flatMap((n) => hosts(`2001:db8:7:${n}`))), 'its /56').toBe(2);
      const others = Array.from({ length: 20 }, (_, n) => `2001:db8:7:${(n + 1).toString(16)}00`);
      expect(await accepted(others.flatMap(hosts)), 'its /48').toBe(12);
      expect(await signIn('2001:db8:7:ff00::1', email, password), 'the same /48').toBe(429);
      expect(await signIn('2001:db8:8::1', email, password), 'another /48').toBe(200);
    });

    test('of one account do not count for another', async () => {
      const [{ email }, other] = [await account(), await account()];
      const address = newAddress();
      for (let attempt = 0; attempt < 3; attempt += 1) await signIn(address, email, 'not it');
      expect(await signIn(address, email, password)).toBe(429);
      expect(await signIn(address, other.email, password)).toBe(200);
    });

    test('are counted again from zero after the right one and after their window', async () => {
      const { email } = await account();
      const address = newAddress();
      expect(await signIn(address, email, 'not it')).toBe(400);
      expect(await signIn(address, email, password)).toBe(200);
      expect(await signIn(address, email, 'not it')).toBe(400);
      expect(await signIn(address, email, 'not it')).toBe(400);
      expect(await signIn(address, email, password)).toBe(429);
      service.advance(3601);
      expect(await signIn(address, email, password)).toBe(200);
    });

    test('are limited alike for accounts that do not exist', async () => {
      const [stranger, unknown] = [newAddress(), newEmail()];
      const statuses = [];
      for (let attempt = 0; attempt < 3; attempt += 1) statuses.push(await signIn(stranger, unknown, 'x'));
      expect(statuses).toEqual([400, 400, 429]);
    });

    test('at the limit of their own network, owners can sign in by a link', async () => {
      const { email } = await account();
      const address = newAddress();
      for (let attempt = 0; attempt < 3; attempt += 1) await signIn(address, email, 'not it');
      expect(await signIn(address, email, password)).toBe(429);
      expect(await recover(email, address)).toBe(200);
      expect(await open(lastMailTo(email).link, address)).toBe('signed in');
    });

    test('a stolen session cannot guess its password or block another session from changing it', async () => {
      const { email } = await account();
      const [stolen, own] = [clientOf(service), clientOf(service)];
      for (const client of [stolen, own]) await client.signInWithPassword({ email, password });
      const change = async (client: GoTrueClient, current: string) =>
        (await client.updateUser({ password: 'another one', current_password: current })).error?.code;
      expect([
        await change(stolen, 'a'),
        await change(stolen, 'b'),
        await change(stolen, password),
        await change(own, password),
      ]).toEqual([
        'current_password_invalid',
        'current_password_invalid',
        'over_request_rate_limit',
        undefined,
      ]);
    });
  });

  describe('codes and links', () => {
    test('wrong codes from another network neither void nor block a code', async () => {
      const { email } = await account();
      await recover(email);
      const { code } = lastMailTo(email);
      const stranger = newAddress();
      const statuses = [];
      for (let attempt = 0; attempt < 4; attempt += 1) {
        statuses.push(await typeCode(email, wrong(code), stranger));
      }
      expect(statuses).toEqual([403, 403, 429, 429]);
      expect(await typeCode(email, code, stranger), 'from the network of the stranger').toBe(429);
      expect(await typeCode(email, code, newAddress()), 'from another one').toBe(200);
    });

    test('guesses at codes are limited for all networks together, and the link stays valid', async () => {
      const { email } = await account();
      await recover(email);
      const { code, link } = lastMailTo(email);
      for (let attempt = 0; attempt < 6; attempt += 1) {
        expect(await typeCode(email, wrong(code), newAddress())).toBe(403);
      }
      expect(await typeCode(email, code, newAddress())).toBe(429);
      expect(await open(link)).toBe('signed in');
    });

    test('concurrent guesses each count', async () => {
      const { email } = await account();
      await recover(email);
      const { code } = lastMailTo(email);
      const guesses = Array.from({ length: 20 }, () => typeCode(email, wrong(code), newAddress()));
      expect((await Promise.all(guesses)).filter((status) => status === 403)).toHaveLength(6);
    });

    test('unknown links are limited per network and never block a valid one', async () => {
      const { email } = await account();
      await recover(email);
      const address = newAddress();
      const unknown = `${service.url}/verify?token=${'0'.repeat(56)}&type=recovery`;
      const answers = [];
      for (let attempt = 0; attempt < 6; attempt += 1) answers.push(await open(unknown, address));
      expect(answers).toEqual([...Array(4).fill('otp_expired'), ...Array(2).fill('over_request_rate_limit')]);
      expect(await open(lastMailTo(email).link, address)).toBe('signed in');
    });

    test('a link that a stranger requests leaves the previous one valid; using one voids the others', async () => {
      const { email } = await account();
      await recover(email);
      const own = lastMailTo(email);
      service.advance(61);
      await recover(email);
      const requestedByStranger = lastMailTo(email);
      expect(requestedByStranger.link).not.toBe(own.link);
      expect(await open(own.link)).toBe('signed in');
      expect(await open(requestedByStranger.link)).toBe('otp_expired');
    });

    test('with PKCE, a link ends the flow of the client that requested it, not the newest one', async () => {
      const { email } = await account();
      const owner = clientOf(service, 'pkce');
      await owner.resetPasswordForEmail(email);
      const { link } = lastMailTo(email);
      service.advance(61);
      await clientOf(service, 'pkce').resetPasswordForEmail(email);
      expect(mailsTo(email)).toHaveLength(2);
      const answer = await fetch(link, { redirect: 'manual' });
      const code = new URL(answer.headers.get('location') ?? 'none:').searchParams.get('code') ?? '';
      const { data, error } = await owner.exchangeCodeForSession(code);
      expect([error, data.user?.email]).toEqual([null, email]);
    });
  });

  describe('e-mails', () => {
    test('have a cooldown, with or without an account', async () => {
      for (const email of [(await account()).email, newEmail()]) {
        const client = clientOf(service);
        expect((await client.resetPasswordForEmail(email)).error).toBeNull();
        const again = await client.resetPasswordForEmail(email);
        expect(refusal(again.error)).toEqual([429, 'over_email_send_rate_limit']);
        expect(again.error?.message).toMatch(
          /^For security purposes, you can only request this after \d+ seconds\.$/,
        );
        service.advance(61);
        expect((await client.resetPasswordForEmail(email)).error).toBeNull();
      }
    });

    test('have a daily limit, and the last link is still valid when one is refused', async () => {
      const { email } = await account();
      const unknown = newEmail();
      const lifetimeMinutes = 60;
      let [refusals, sentAt] = [0, 0];
      for (let minute = 0; minute < 24 * 60; minute += 10) {
        service.advance(600);
        const status = await recover(email);
        expect(await recover(unknown), 'the same for an unknown address').toBe(status);
        if (status === 200) sentAt = minute;
        else {
          expect(status).toBe(429);
          expect(minute - sentAt).toBeLessThanOrEqual(lifetimeMinutes / 2);
          refusals += 1;
        }
      }
      expect(refusals).toBeGreaterThan(80);
      expect(mailsTo(email).length).toBeLessThan(55);
      expect(await open(lastMailTo(email).link)).toBe('signed in');
    });

    test('can be requested again at once after a link was used', async () => {
      const { email } = await account();
      for (let round = 0; round < 6; round += 1) {
        expect(await recover(email)).toBe(200);
        expect(await open(lastMailTo(email).link)).toBe('signed in');
      }
    });

    test('of one session are limited to a few new addresses', async () => {
      const { email } = await account();
      const client = clientOf(service);
      await client.signInWithPassword({ email, password });
      const codes = [];
      for (let attempt = 0; attempt < 22; attempt += 1) {
        codes.push((await client.updateUser({ email: newEmail() })).error?.code);
      }
      expect(codes).toEqual([
        ...Array(20).fill(undefined),
        'over_request_rate_limit',
        'over_request_rate_limit',
      ]);
    });
  });

  describe('a change of e-mail address', () => {
    const begin = async () => {
      const { email } = await account();
      const client = clientOf(service);
      await client.signInWithPassword({ email, password });
      const next = newEmail();
      expect((await client.updateUser({ email: next })).error).toBeNull();
      return { email, next, client };
    };
    const resend = async (email: string) => {
      service.advance(61);
      const body = { type: 'email_change', email };
      expect((await post(service, '/resend', body, from(newAddress()))).status).toBe(200);
    };
    const halfWay = 'Confirmation link accepted. Please proceed to confirm link sent to the other email';

    test('is completed by its first links even if a stranger requests more', async () => {
      const { email, next, client } = await begin();
      const [ofCurrent, ofNew] = [lastMailTo(email).link, lastMailTo(next).link];
      await resend(email);
      expect(await open(ofNew)).toBe(halfWay);
      await resend(email);
      expect(await open(ofCurrent)).toBe('signed in');
      expect((await client.getUser()).data.user?.email).toBe(next);
    });

    test('needs one link of each address, and resends only the missing one', async () => {
      const { email, next, client } = await begin();
      await resend(email);
      const links = mailsTo(next).flatMap(({ link }) => link ?? []);
      expect(links).toHaveLength(2);
      expect(await open(links[0] ?? '')).toBe(halfWay);
      expect(await open(links[1] ?? ''), 'the same address').toBe('otp_expired');
      await resend(email);
      expect(mailsTo(next)).toHaveLength(2);
      expect((await client.getUser()).data.user?.email).toBe(email);
      expect(await open(lastMailTo(email).link)).toBe('signed in');
    });
  });

  describe('refresh tokens', () => {
    test('that do not exist are limited per network and never block a valid one', async () => {
      const { email } = await account();
      const address = newAddress();
      const signedIn = await post(service, '/token?grant_type=password', { email, password }, from(address));
      const { refresh_token: token } = await signedIn.json();
      const refresh = async (given: string) =>
        (await post(service, '/token?grant_type=refresh_token', { refresh_token: given }, from(address)))
          .status;
      const statuses = [];
      for (let attempt = 0; attempt < 5; attempt += 1) {
        const forged = createHmac('sha256', 'forged').update(String(attempt)).digest('base64url');
        statuses.push(await refresh(forged));
      }
      expect(statuses).toEqual([400, 400, 400, 429, 429]);
      expect(await refresh(token)).toBe(200);
    });

    test('of one session are limited without blocking another session', async () => {
      const { email } = await account();
      const [busy, quiet] = [clientOf(service), clientOf(service)];
      for (const client of [busy, quiet]) await client.signInWithPassword({ email, password });
      const codes = [];
      for (let attempt = 0; attempt < 4; attempt += 1) {
        codes.push((await busy.refreshSession()).error?.code);
      }
      expect(codes).toEqual([undefined, undefined, undefined, 'over_request_rate_limit']);
      expect((await quiet.refreshSession()).error).toBeNull();
    });
  });

  test('texts to a phone are limited per network, and another network can still request one', async () => {
    const phone = '254711000777';
    await adminOf(service).createUser({ phone, phone_confirm: true });
    const request = async (address: string) => {
      service.advance(61);
      return (await post(service, '/otp', { phone }, from(address))).status;
    };
    const stranger = newAddress();
    const statuses = [];
    for (let attempt = 0; attempt < 6; attempt += 1) statuses.push(await request(stranger));
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
    expect(await request(newAddress())).toBe(200);
    expect(service.texts.filter(({ to }) => to === phone)).toHaveLength(6);
  });
});
