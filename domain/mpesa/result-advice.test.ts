import { expect, test } from 'vitest';
import type { PaymentEndedBy } from '../../supabase/types.ts';
import { adviseOnRefund, adviseOnResult } from './result-advice.ts';

const invalid = (field: string) => `Bad Request - Invalid ${field}`;
const noProduct = 'Error Occurred - Invalid Access Token - Invalid API call as no apiproduct match found';

// Codes and messages of the portal and of public logs; the setting that staff must look at.
test.each<[code: string, description: string, advice: RegExp]>([
  ['500.001.1001', 'Wrong credentials', /MPESA_PASSKEY/],
  ['500.001.1001', 'Merchant does not exist', /MPESA_SHORTCODE.*MPESA_ENV/],
  ['404.001.03', 'Invalid Access Token', /MPESA_CONSUMER_KEY/],
  ['400.003.01', 'Invalid Access Token', /MPESA_CONSUMER_KEY/],
  ['401.002.01', 'Error Occurred - Invalid Access Token - abc', /MPESA_CONSUMER_KEY/],
  ['401.003.01', 'Invalid Access Token', /MPESA_CONSUMER_KEY/],
  ['401.003.01', noProduct, /product/],
  ['401.002.01', noProduct, /product/],
  ['404.001.04', 'Invalid Authentication Header', /MPESA_CONSUMER_KEY/],
  ['http_401', '', /MPESA_CONSUMER_KEY/],
  ['400.008.01', 'Invalid Authentication passed', /MPESA_CONSUMER_KEY/],
  ['400.008.02', 'Invalid grant type passed', /MPESA_CONSUMER_KEY/],
  ['mpesa_unreachable', 'no access token: HTTP 400', /MPESA_CONSUMER_KEY/],
  ['404.001.01', 'Resource not found', /MPESA_ENV/],
  ['404.003.01', 'Resource not found', /MPESA_ENV/],
  ['http_404', '', /MPESA_ENV/],
  ['405.001', 'Method Not Allowed', /update the shop/],
  ['403.001.01', 'Forbidden', /product/],
  ['400.002.02', invalid('CallBackURL'), /PUBLIC_URL/],
  ['400.002.02', invalid('CallbackUrl'), /PUBLIC_URL/],
  ['400.002.02', invalid('ConfirmationURL'), /PUBLIC_URL/],
  ['400.002.02', invalid('BusinessShortCode'), /MPESA_SHORTCODE/],
  ['400.002.02', invalid('ShortCode'), /MPESA_SHORTCODE/],
  ['400.002.02', invalid('PartyB'), /MPESA_TILL/],
  ['400.002.02', invalid('TransactionType'), /MPESA_TRANSACTION_TYPE/],
  ['400.002.02', invalid('Password'), /MPESA_PASSKEY/],
  ['400.002.02', invalid('Timestamp'), /MPESA_PASSKEY/],
  ['400.002.02', invalid('Remarks'), /update the shop/],
  ['400.002.02', invalid('AccountReference'), /update the shop/],
  ['400.002.02', invalid('SecurityCredential'), /MPESA_INITIATOR_NAME/],
  ['2001', 'The initiator information is invalid.', /MPESA_PASSKEY/],
  ['1', 'The initiator information is invalid.', /MPESA_PASSKEY/],
  ['8006', 'The security credential is locked.', /MPESA_PASSKEY/],
  ['SFC_IC0003', 'The operator does not exist.', /MPESA_TILL/],
])('a request refused with %s, %s, is ended by the owner', (code, description, advice) => {
  expect(adviseOnResult(code, description, 'request')).toMatchObject({
    endedBy: 'owner',
    advice: expect.stringMatching(advice),
  });
});

test.each<[code: string, description: string, endedBy: PaymentEndedBy]>([
  ['500.001.1001', 'Unable to lock subscriber, a transaction is already in process', 'customer'],
  ['400.002.02', invalid('PhoneNumber'), 'customer'],
  ['400.002.02', invalid('PartyA'), 'customer'],
  ['400.002.02', invalid('Amount'), 'customer'],
  ['17', 'Rule limited.', 'time'],
  ['26', 'System busy', 'time'],
  ['http_429', '', 'time'],
  ['500.003.02', 'Spike Arrest Violation', 'time'],
  ['500.003.02', 'System is busy. Please try again in few minutes.', 'time'],
  ['500.003.03', 'Quota Violation', 'time'],
  ['500.003.1001', 'Internal Server Error', 'time'],
  ['http_503', '', 'time'],
  ['mpesa_unreachable', 'ECONNREFUSED', 'time'],
  ['mpesa_unreachable', 'no access token: HTTP 503', 'time'],
  ['mpesa_unreachable', 'no access token: a web page, HTTP 403', 'time'],
  ['mpesa_unreachable', 'CERT_HAS_EXPIRED', 'unknown'],
  ['http_403', '', 'unknown'],
  ['http_400', '', 'unknown'],
  ['400.002.05', 'Invalid Request Payload', 'unknown'],
  ['400.003.02', 'Bad Request', 'unknown'],
  ['400.002.02', invalid('SomethingNew'), 'unknown'],
  ['999.999.99', 'Something new', 'unknown'],
  ['constructor', '', 'unknown'],
])('a request refused with %s, %s, is ended by: %s', (code, description, endedBy) => {
  expect(adviseOnResult(code, description, 'request').endedBy).toBe(endedBy);
});

test.each<[code: string, description: string, endedBy: PaymentEndedBy]>([
  ['1', 'The balance is insufficient for the transaction.', 'customer'],
  ['1', 'The request is not permitted according to product assignment.', 'owner'],
  ['1032', 'Request cancelled by user', 'customer'],
  ['1037', 'No response from user.', 'customer'],
  ['1001', 'Unable to lock subscriber', 'customer'],
  // M-PESA's description of a wrong PIN.
  ['2001', 'The initiator information is invalid.', 'customer'],
  ['8006', 'The security credential is locked.', 'customer'],
  ['17', 'Rule limited.', 'time'],
  ['1025', '', 'time'],
  ['8', '', 'owner'],
  ['2006', '', 'owner'],
  ['2028', '', 'owner'],
  ['2029', '', 'owner'],
  ['SFC_IC0003', '', 'owner'],
  ['1101', '', 'owner'],
  ['4711', '', 'unknown'],
])('a prompt that ended with %s, %s, is ended by: %s', (code, description, endedBy) => {
  expect(adviseOnResult(code, description).endedBy).toBe(endedBy);
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
