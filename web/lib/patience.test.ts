import { afterEach, expect, test, vi } from 'vitest';
import { inTime, patience } from './patience.ts';

afterEach(() => vi.useRealTimers());

test('an answer in time is the answer, also when it is a refusal', async () => {
  expect(await inTime(Promise.resolve('asante'))).toBe('asante');
  await expect(inTime(Promise.reject(new TypeError('no network')))).rejects.toThrow('no network');
});

test('an answer that never comes is given up', async () => {
  vi.useFakeTimers();
  const given = expect(inTime(new Promise(() => {}))).rejects.toThrow('did not answer in time');
  await vi.advanceTimersByTimeAsync(patience);
  await given;
});
