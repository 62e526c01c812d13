import { expect, test } from 'vitest';
import { describeArrival, readPromise } from './promise.ts';

const now = Date.parse('2026-11-28T22:30:00+03:00');

test.each([
  ['2026-11-28T23:14:00+03:00', null, 'Arrives by 23:14'],
  ['2026-11-29T08:45:00+03:00', '2026-11-29T08:00:00+03:00', 'Opens at 08:00, arrives by 08:45 tomorrow'],
  ['2026-11-28T23:45:00+03:00', '2026-11-28T23:00:00+03:00', 'Opens at 23:00, arrives by 23:45'],
  [
    '2026-11-30T08:45:00+03:00',
    '2026-11-30T08:00:00+03:00',
    'Opens at 08:00, arrives by 08:45 on Mon 30 Nov',
  ],
  [
    '2026-11-30T08:15:00+03:00',
    '2026-11-29T23:30:00+03:00',
    'Opens at 23:30 tomorrow, arrives by 08:15 on Mon 30 Nov',
  ],
])('describes an arrival by %s of a shop that opens at %s as "%s"', (arrives_by, opens_at, words) => {
  const promise = readPromise({ arrives_by, opens_at });
  expect(promise && describeArrival(promise, now)).toBe(words);
});

test.each([null, undefined, 'text', {}, { arrives_by: null, opens_at: null }, [1]])(
  'reads no promise in %j',
  (answer) => {
    expect(readPromise(answer)).toBeNull();
  },
);
