// The code of a phone factor: stored as a hash, valid for one challenge.
import { createHash, timingSafeEqual } from 'node:crypto';

/** The stored hash: SHA-256 of the challenge's id and the code, hexadecimal. */
export function hashPhoneCode(challengeId: string, code: string): string {
  return createHash('sha256').update(`${challengeId}${code}`).digest('hex');
}

/** Compares a code with its hash, in constant time. */
export function isPhoneCode(challengeId: string, code: string, storedHash: string | null): boolean {
  const actual = Buffer.from(hashPhoneCode(challengeId, code));
  const expected = Buffer.from(storedHash ?? '');
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}
