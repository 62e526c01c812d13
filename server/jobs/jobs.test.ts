// Jobs continue after a failed run.
import { afterEach, expect, test, vi } from 'vitest';
import { openLog } from '../monitoring/log.ts';
import { startJobs } from './jobs.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('retries a failed hourly job after a minute, and then returns to its interval', async () => {
  vi.useFakeTimers();
  const runs: number[] = [];
  let fails = true;
  const stop = startJobs(
    [
      {
        name: 'rare',
        everyMs: 6 * 60 * 60 * 1000,
        firstAfterMs: 0,
        async run() {
          runs.push(Date.now());
          if (fails) throw new Error('away');
        },
      },
    ],
    openLog('silent'),
  );
  await vi.advanceTimersByTimeAsync(0);
  expect(runs).toHaveLength(1);
  fails = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(5 * 60 * 60 * 1000);
  expect(runs).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(60 * 60 * 1000);
  expect(runs).toHaveLength(3);
  await stop();
});

test('retries a job at its own interval where that is shorter than a minute', async () => {
  vi.useFakeTimers();
  let runs = 0;
  const run = async () => {
    runs += 1;
    throw new Error('away');
  };
  const stop = startJobs([{ name: 'frequent', everyMs: 3000, firstAfterMs: 0, run }], openLog('silent'));
  await vi.advanceTimersByTimeAsync(6000);
  expect(runs).toBe(3);
  await stop();
});
