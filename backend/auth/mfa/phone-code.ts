// The code of a phone factor: drawn anew for each challenge, kept only as a hash.
import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import type { AuthContext } from '../context.ts';

/**
 * Draws a code.
 * @param digits how many
 */
export function newPhoneCode(digits: number): string {
  return Array.from({ length: digits }, () => randomInt(10)).join('');
}

/** The code a phone has for good, by a setting for tests; null for every other phone. */
export function fixedPhoneCode(
  { settings, now }: Pick<AuthContext, 'settings' | 'now'>,
  phone: string,
): string | null {
  const isOver = settings.testPhonesUntil !== null && settings.testPhonesUntil <= now();
  return isOver || !Object.hasOwn(settings.testPhones, phone) ? null : (settings.testPhones[phone] ?? null);
}

/** What is kept of a code: SHA-256 of the challenge's id and the code, hexadecimal. */
export function hashPhoneCode(challengeId: string, code: string): string {
  return createHash('sha256').update(`${challengeId}${code}`).digest('hex');
}

/** Whether a code is the one whose hash was kept; takes as long either way. */
export function isPhoneCode(challengeId: string, code: string, kept: string | null): boolean {
  const given = Buffer.from(hashPhoneCode(challengeId, code));
  const expected = Buffer.from(kept ?? '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
