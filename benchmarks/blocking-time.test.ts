import { expect, test } from 'vitest';
import { blockingByProcessorTime } from './blocking-time.ts';

const task = (ts: number, dur: number, tdur: number, tid = 1) => ({
  name: 'RunTask',
  ph: 'X',
  pid: 7,
  tid,
  ts,
  dur,
  tdur,
});
const start = {
  name: 'navigationStart',
  ph: 'R',
  pid: 7,
  tid: 1,
  ts: 1000,
  args: { data: { documentLoaderURL: 'http://localhost/shop' } },
};

test('counts the processor time of a task above 50 ms on a phone four times slower, without waits for a core', () => {
  const trace = { traceEvents: [start, task(2000, 90_000, 20_000), task(100_000, 90_000, 12_000)] };
  expect(blockingByProcessorTime(trace)).toBe(30);
});

test('counts a layout task as two times slower', () => {
  const layout = { name: 'Layout', ph: 'X', pid: 7, tid: 1, ts: 3000, dur: 100, tdur: 100 };
  const trace = { traceEvents: [start, task(2000, 40_000, 30_000), layout] };
  expect(blockingByProcessorTime(trace)).toBe(10);
});

test('ignores other threads and tasks before the page', () => {
  const trace = { traceEvents: [task(0, 90_000, 90_000), start, task(2000, 90_000, 90_000, 2)] };
  expect(blockingByProcessorTime(trace)).toBe(0);
});

test('rejects a trace without a page', () => {
  expect(() => blockingByProcessorTime({ traceEvents: [task(0, 1, 1)] })).toThrow('no page');
});
