import { Secret, TOTP } from 'otpauth';
import { describe, expect, test } from 'vitest';
import { matchingTotpStep, newTotp } from './totp.ts';

// RFC 6238, appendix B: the SHA-1 secret; its codes have eight digits, of which six-digit apps show the last six.
const secret = Secret.fromLatin1('12345678901234567890').base32;

describe('an enrolment', () => {
  test('returns a new secret of 160 bits with its URI', async () => {
    const first = await newTotp('shop.example', 'amina@jani.example');
    const second = await newTotp('shop.example', 'amina@jani.example');
    expect(first.secret).toMatch(/^[A-Z2-7]{32}$/);
    expect(second.secret).not.toBe(first.secret);
    const uri = new URL(first.uri);
    expect(uri.protocol).toBe('otpauth:');
    expect(decodeURIComponent(uri.pathname)).toBe('/shop.example:amina@jani.example');
    expect(Object.fromEntries(uri.searchParams)).toEqual({
      issuer: 'shop.example',
      secret: first.secret,
      algorithm: 'SHA1',
      digits: '6',
      period: '30',
    });
  });

  test('returns an SVG that needs no escaping in a data URI', async () => {
    const { qrCode } = await newTotp('shop.example', 'amina@jani.example');
    expect(qrCode).toMatch(/^<svg .*<\/svg>$/s);
    expect(qrCode).not.toContain('#');
  });

  test('accepts names with any characters', async () => {
    const { uri } = await newTotp('Wanjiru: Brot & Söhne', 'a+b@jani.example');
    const parsed = new URL(uri);
    expect(parsed.searchParams.get('issuer')).toBe('Wanjiru: Brot & Söhne');
  });
});

describe('a code', () => {
  test.each([
    [59, '287082', 1],
    [1111111109, '081804', 37037036],
    [1234567890, '005924', 41152263],
    [20000000000, '353130', 666666666],
  ])('at %i s is the one of RFC 6238', (seconds, code, step) => {
    expect(matchingTotpStep(secret, code, seconds * 1000)).toBe(step);
  });

  test('is accepted at most one step early or late, with its own step', () => {
    const now = 1_700_000_010_000;
    const codeAt = (steps: number) =>
      TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: now + steps * 30_000 });
    const present = Math.floor(now / 30_000);
    const offsets = [-2, -1, 0, 1, 2];
    expect(offsets.map((steps) => matchingTotpStep(secret, codeAt(steps), now))).toEqual([
      null,
      present - 1,
      present,
      present + 1,
      null,
    ]);
  });

  test.each(['', '28708', '2870820', ' 287082', '28708２', 'abcdef', '-87082'])(
    'must be six digits, which "%s" is not',
    (code) => {
      expect(matchingTotpStep(secret, code, 59_000)).toBeNull();
    },
  );
});
