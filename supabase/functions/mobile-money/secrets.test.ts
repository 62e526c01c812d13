import { expect, test } from 'vitest';
import { createCallbackSecret, isCallbackSecret, isSignedSecret } from './secrets.ts';

const key = 'sb_secret_one';

test('recognises callback secrets of its key, and no others', () => {
  const [secret, other] = [createCallbackSecret(key), createCallbackSecret(key)];
  expect(isCallbackSecret(secret)).toBe(true);
  expect(secret).not.toBe(other);
  expect(isSignedSecret(key, secret)).toBe(true);
  expect(isSignedSecret('sb_secret_two', secret)).toBe(false);
  for (const wrong of [
    secret.slice(0, 32) + other.slice(32),
    secret.toUpperCase(),
    secret.slice(1),
    '0'.repeat(64),
    '',
  ]) {
    expect(isSignedSecret(key, wrong)).toBe(false);
  }
});
