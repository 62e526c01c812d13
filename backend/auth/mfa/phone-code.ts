// The code of a phone factor: kept only as a hash, and good for one challenge.
import { createHash, timingSafeEqual } from 'node:crypto';

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
