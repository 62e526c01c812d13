import { afterEach, expect, test, vi } from 'vitest';
import { requestTimeoutMs, withTimeout } from './timeout.ts';

afterEach(() => vi.useRealTimers());

test('returns the answer or its error before the deadline', async () => {
  expect(await withTimeout(Promise.resolve('asante'))).toBe('asante');
  await expect(withTimeout(Promise.reject(new TypeError('no network')))).rejects.toThrow('no network');
});

test('fails after the deadline', async () => {
  vi.useFakeTimers();
  const given = expect(withTimeout(new Promise(() => {}))).rejects.toThrow('did not answer in time');
  await vi.advanceTimersByTimeAsync(requestTimeoutMs);
  await given;
});
