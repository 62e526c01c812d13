import { expect, test } from 'vitest';
import { accountReference, normaliseTrackingNumber } from './tracking-number.ts';

test('a typed number is trimmed and put in capitals', () => {
  expect(normaliseTrackingNumber(' jj-20261121-1234\n')).toBe('JJ-20261121-1234');
  expect(normaliseTrackingNumber('   ')).toBe('');
});

test('the reference M-PESA shows has at most twelve characters', () => {
  expect(accountReference('JJ-20261121-1234')).toBe('JJ2611211234');
  expect(accountReference('JJ-20261121-12345')).toBe('26112112345');
});
