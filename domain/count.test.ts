import { expect, test } from 'vitest';
import { formatCount } from './count.ts';

test.each([
  [0, '0'],
  [999, '999'],
  [1000, '1,000'],
  [-12_345, '-12,345'],
  [1_234_567, '1,234,567'],
  [Number.MAX_SAFE_INTEGER, '9,007,199,254,740,991'],
])('%d is written as %s, as Intl writes it', (count, written) => {
  expect(formatCount(count)).toBe(written);
  expect(formatCount(count)).toBe(count.toLocaleString('en-KE'));
});
