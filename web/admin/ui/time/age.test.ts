import { expect, onTestFinished, test, vi } from 'vitest';
import { readNow } from './age.tsx';

test('the time of the screens follows a clock that is set forward and back', () => {
  onTestFinished(() => void vi.useRealTimers());
  const start = readNow();
  for (const seconds of [120, 0, 5]) {
    vi.useFakeTimers({ toFake: ['Date'], now: start + seconds * 1000 });
    expect(readNow()).toBe(start + (seconds === 5 ? 0 : seconds) * 1000);
  }
});
