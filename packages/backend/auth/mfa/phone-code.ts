// The code of a phone factor: stored as a hash, valid for one challenge.
import { createHash } from 'node:crypto';
import { isSameSecret } from '../../api-keys.ts';

/** The stored hash: SHA-256 of the challenge's id and the code, hexadecimal. */
export function hashPhoneCode(challengeId: string, code: string): string {
  return createHash('sha256').update(`${challengeId}${code}`).digest('hex');
}

/** Compares a code with its hash, in constant time. */
export const isPhoneCode = (challengeId: string, code: string, storedHash: string | null): boolean =>
  isSameSecret(hashPhoneCode(challengeId, code), storedHash ?? '');
