import { expect, test } from 'vitest';
import { adviseOnRefund, adviseOnResult } from './result-advice.ts';

test.each(['2006', '2028', '2029', 'SFC_IC0003'])(
  'code %s has its cause in the settings of the shop',
  (code) => {
    expect(adviseOnResult(code).isOurs).toBe(true);
  },
);

test.each(['1', '1032', '1037', '2001'])('code %s of a prompt is about the phone', (code) => {
  expect(adviseOnResult(code).isOurs).toBe(false);
});

test('distinguishes wrong credentials by the description of the code', () => {
  expect(adviseOnResult('500.001.1001', 'Wrong credentials').what).toMatch(/passkey/);
  expect(adviseOnResult('500.001.1001', 'Merchant does not exist').what).toMatch(/shortcode/);
  expect(adviseOnResult('mpesa_unreachable', 'no access token: HTTP 400').what).toMatch(/consumer key/);
  expect(adviseOnResult('mpesa_unreachable', 'ECONNREFUSED').what).toMatch(/not be reached/);
});

test('the same code has another meaning for a refund', () => {
  expect(adviseOnResult('2001').what).toMatch(/PIN/);
  expect(adviseOnRefund('2001').what).toMatch(/initiator/);
  expect(adviseOnRefund('R000002').what).toMatch(/receipt/);
});

test('describes an unknown code by its description', () => {
  expect(adviseOnResult('4711', 'Something new').what).toBe('Something new');
  expect(adviseOnResult(null).what).not.toBe('');
  expect(adviseOnResult('constructor').what).toMatch(/not known/);
});
