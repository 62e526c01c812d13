import { afterEach, expect, test, vi } from 'vitest';
import { inTime, patience } from './patience.ts';

afterEach(() => vi.useRealTimers());

test('returns the answer or its error before the deadline', async () => {
  expect(await inTime(Promise.resolve('asante'))).toBe('asante');
  await expect(inTime(Promise.reject(new TypeError('no network')))).rejects.toThrow('no network');
});

test('fails after the deadline', async () => {
  vi.useFakeTimers();
  const given = expect(inTime(new Promise(() => {}))).rejects.toThrow('did not answer in time');
  await vi.advanceTimersByTimeAsync(patience);
  await given;
});
