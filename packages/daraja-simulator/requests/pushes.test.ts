// Responses to pushes, before a decision.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { anyPhone, openShop, phoneEndingIn, quick, type TestShop } from '../test-shop.ts';

let shop: TestShop;
beforeEach(async () => {
  shop = await openShop({ ...quick, decisionDelayMs: 60_000 });
});
afterEach(() => shop.close());

test('returns ids in the format of Daraja for an accepted push', async () => {
  const { status, body } = await shop.push();
  expect(status).toBe(200);
  expect(body).toEqual({
    MerchantRequestID: expect.stringMatching(/^[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{16}$/),
    CheckoutRequestID: expect.stringMatching(/^ws_CO_\d{17}712345678$/),
    ResponseCode: '0',
    ResponseDescription: 'Success. Request accepted for processing',
    CustomerMessage: 'Success. Request accepted for processing',
  });
});

test('accepts numbers and strings alike', async () => {
  await shop.accepted({
    BusinessShortCode: 174379,
    Amount: '951',
    PartyA: Number(anyPhone),
    PartyB: 174379,
    PhoneNumber: Number(anyPhone),
  });
});

describe('names the invalid field', () => {
  const notice = (url: string) => ({ CallBackURL: url });
  test.each<[string, Record<string, unknown>, string]>([
    ['an amount with cents', { Amount: 951.5 }, 'Amount'],
    ['an amount written with cents', { Amount: '951.00' }, 'Amount'],
    ['no shilling at all', { Amount: 0 }, 'Amount'],
    ['a negative amount', { Amount: -1 }, 'Amount'],
    ['more than 250,000', { Amount: 250_001 }, 'Amount'],
    ['a phone in local spelling', { PhoneNumber: '0712345678', PartyA: anyPhone }, 'PhoneNumber'],
    ['a payer in local spelling', { PartyA: '0712345678' }, 'PartyA'],
    ['no payee', { PartyB: undefined }, 'PartyB'],
    ['an account reference of 13 characters', { AccountReference: 'JJ26112112345' }, 'AccountReference'],
    ['an account reference with a hyphen', { AccountReference: 'JJ-1234' }, 'AccountReference'],
    ['no account reference', { AccountReference: '' }, 'AccountReference'],
    ['no description', { TransactionDesc: undefined }, 'Remarks'],
    ['a description of 14 characters', { TransactionDesc: 'Fourteen chars' }, 'TransactionDesc'],
    ['an unknown transaction type', { TransactionType: 'PayMe' }, 'TransactionType'],
    ['a timestamp that is no time', { Timestamp: '20261341000000' }, 'Timestamp'],
    ['no password', { Password: '' }, 'Password'],
    ['no shortcode', { BusinessShortCode: null }, 'BusinessShortCode'],
    ['an unencrypted callback', notice('http://shop.example/notice/1'), 'CallBackURL'],
    ['a callback host in mixed case', notice('https://Shop.example/notice/1'), 'CallBackURL'],
    ['a callback that is no address', notice('notice'), 'CallBackURL'],
    ['"mpesa" in the callback', notice('https://shop.example/mpesa/1'), 'CallBackURL'],
    ['"safaricom" in the callback', notice('https://safaricom.shop.example/1'), 'CallBackURL'],
    ['"query" in the callback', notice('https://shop.example/1?query=1'), 'CallBackURL'],
    ['"SQL" in the callback', notice('https://shop.example/aSQLb'), 'CallBackURL'],
    ['"cmd" in the callback', notice('https://shop.example/cmd'), 'CallBackURL'],
    ['"exe" in the callback', notice('https://shop.example/executive'), 'CallBackURL'],
  ])('%s', async (_, changes, field) => {
    expect(await shop.push(changes)).toMatchObject({
      status: 400,
      body: { errorCode: '400.002.02', errorMessage: `Bad Request - Invalid ${field}` },
    });
    expect((await shop.ledger()).prompts).toEqual([]);
  });
});

test('accepts a public HTTPS callback URL', async () => {
  await shop.accepted({
    CallBackURL: `https://shop.example/functions/notice/${'0123456789abcdef'.repeat(4)}`,
  });
});

test('refuses a password for another timestamp, and another shortcode, with 500.001.1001', async () => {
  const { Password } = shop.merchant('20260101000000');
  expect(await shop.push({ Password })).toMatchObject({
    status: 500,
    body: { errorCode: '500.001.1001', errorMessage: 'Wrong credentials' },
  });
  expect(await shop.push({ BusinessShortCode: '600000' })).toMatchObject({
    status: 500,
    body: { errorMessage: 'Merchant does not exist' },
  });
});

test.each(['', '[]', '{"Amount":', 'null'])('the body %j is an invalid payload', async (body) => {
  expect(await shop.post('/mpesa/stkpush/v1/processrequest', body)).toMatchObject({
    status: 400,
    body: { errorCode: '400.002.05' },
  });
});

test('refuses a body above 64 KiB', async () => {
  expect((await shop.push({ TransactionDesc: 'x'.repeat(70_000) })).body.errorCode).toBe('400.002.05');
});

test('opens one prompt for concurrent pushes to a phone and refuses the others', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => shop.push()));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  for (const refused of answers.filter(({ status }) => status !== 200)) {
    expect(refused).toMatchObject({
      status: 500,
      body: {
        errorCode: '500.001.1001',
        errorMessage: expect.stringMatching(/^Unable to lock subscriber/),
      },
    });
  }
  const { prompts, refused } = await shop.ledger();
  expect([prompts.length, refused.length]).toEqual([1, 7]);
  await shop.accepted({ PhoneNumber: phoneEndingIn('1111') });
});

test('gives different ids to pushes within one millisecond', async () => {
  const phones = Array.from({ length: 20 }, (_, index) => phoneEndingIn(String(5000 + index)));
  const ids = await Promise.all(phones.map((PhoneNumber) => shop.accepted({ PhoneNumber })));
  expect(new Set(ids).size).toBe(20);
});
