import { expect, test } from 'vitest';
import { describePaymentFailure, isReadableCode, judgeResultCode } from './payment-result.ts';

test('0 succeeded, as a number or as text', () => {
  expect([judgeResultCode(0, 'callback'), judgeResultCode('0', 'query')]).toEqual(['succeeded', 'succeeded']);
});

test.each([' 0 ', 0.0, -0, '0'])('%j is a success', (code) => {
  expect([judgeResultCode(code, 'callback'), judgeResultCode(code, 'query')]).toEqual([
    'succeeded',
    'succeeded',
  ]);
});

test.each(['00', '000', '0.0', '0.', '+0', '-0', '00.00'])(
  '%j is no code of M-PESA: neither a success nor a failure',
  (code) => {
    expect([judgeResultCode(code, 'callback'), judgeResultCode(code, 'query')]).toEqual([
      'pending',
      'pending',
    ]);
    expect(isReadableCode(code)).toBe(false);
  },
);

test.each([' 1032 ', 1032, 'E3008', 4999, '26', -1])('%j can be a code', (code) => {
  expect(isReadableCode(code)).toBe(true);
});

test.each([null, undefined, '', ' ', {}, [], true, Number.NaN])('%j cannot be a code', (code) => {
  expect(isReadableCode(code)).toBe(false);
});

test.each([1, '1', 1001, 1019, 1025, 1032, 1037, 2001, 'SFC_IC0003'])(
  '%j is a final failure in callbacks and queries',
  (code) => {
    expect([judgeResultCode(code, 'callback'), judgeResultCode(code, 'query')]).toEqual(['failed', 'failed']);
  },
);

test.each([4999, '4999', 26, null, undefined, '', {}, []])('%j never ends an attempt', (code) => {
  expect([judgeResultCode(code, 'callback'), judgeResultCode(code, 'query')]).toEqual(['pending', 'pending']);
});

test('an unknown code ends a payment only in a callback', () => {
  expect([judgeResultCode(7777, 'callback'), judgeResultCode(7777, 'query')]).toEqual(['failed', 'pending']);
});

test('each known code has its own message, others the general one', () => {
  expect(describePaymentFailure('1037')).toContain(
    'Customer not reachable. Please ensure phone is on and has network.',
  );
  expect(describePaymentFailure(1)).toContain('Insufficient balance. Please top up M-PESA or use Fuliza.');
  expect(describePaymentFailure('7')).toContain('Payment failed. Please try again.');
  expect(describePaymentFailure('constructor')).toContain('Payment failed. Please try again.');
});
