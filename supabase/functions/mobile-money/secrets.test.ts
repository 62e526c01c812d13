import { expect, test } from 'vitest';
import { createCallbackSecret, isCallbackSecret, isSignedSecret } from './secrets.ts';

const key = 'sb_secret_one';

test('recognises callback secrets of its key, and no others', async () => {
  const [secret, other] = [await createCallbackSecret(key), await createCallbackSecret(key)];
  expect(isCallbackSecret(secret)).toBe(true);
  expect(secret).not.toBe(other);
  expect(await isSignedSecret(key, secret)).toBe(true);
  expect(await isSignedSecret('sb_secret_two', secret)).toBe(false);
  for (const wrong of [
    secret.slice(0, 32) + other.slice(32),
    secret.toUpperCase(),
    secret.slice(1),
    '0'.repeat(64),
    '',
  ]) {
    expect(await isSignedSecret(key, wrong)).toBe(false);
  }
});
