// Classification of Daraja's answers: refused and final only when that is certain.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DarajaReply } from './connection/client.ts';
import { classifyReply } from './connection/request-outcome.ts';
import { darajaDateTime, darajaTimestamp } from './fields/field-formats.ts';
import { merchantFields } from './fields/merchant-fields.ts';
import { readReversalResult } from './reversal.ts';
import { readStatementLine } from './statement.ts';
import { readStkCallback } from './stk-callback.ts';
import { readPushReply } from './stk-push.ts';
import { readQueryReply } from './stk-query.ts';
import { readTransactionStatus } from './transaction-status.ts';

function answered(status: number, body: unknown): DarajaReply {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    kind: 'answered',
    status,
    body: text,
    fields: typeof body === 'string' ? null : (body as Record<string, unknown>),
  };
}
const error = (status: number, errorCode: string, errorMessage = '') =>
  answered(status, { requestId: '1', errorCode, errorMessage });
const spikeArrest: DarajaReply = answered(429, {
  fault: {
    faultstring: 'Spike arrest violation',
    detail: { errorcode: 'policies.ratelimit.SpikeArrestViolation' },
  },
});

describe('a request', () => {
  test('contains the time in Nairobi, three hours ahead of UTC', () => {
    expect(darajaTimestamp(new Date('2026-12-31T21:30:05.999Z'))).toBe('20270101003005');
  });

  test('contains the same time in its password', () => {
    const merchant = { shortcode: '174379', passkey: 'pass' };
    expect(merchantFields(merchant, new Date('2026-11-21T07:08:09Z'))).toEqual({
      BusinessShortCode: '174379',
      Password: btoa('174379pass20261121100809'),
      Timestamp: '20261121100809',
    });
  });
});

describe('the answer to a push', () => {
  const accepted = {
    MerchantRequestID: 'm-1',
    CheckoutRequestID: 'ws_CO_1',
    ResponseCode: '0',
    ResponseDescription: 'Success. Request accepted for processing',
  };

  test('is accepted with a request id', () => {
    expect(readPushReply(answered(200, accepted))).toMatchObject({
      kind: 'accepted',
      checkoutRequestId: 'ws_CO_1',
      merchantRequestId: 'm-1',
      body: JSON.stringify(accepted),
    });
    expect(readPushReply(answered(200, { ...accepted, ResponseCode: 0 })).kind).toBe('accepted');
  });

  test.each([
    [
      'was never sent',
      { kind: 'not sent', reason: 'ECONNREFUSED' },
      'mpesa_unreachable',
      /cannot be reached/,
    ],
    ['has another response code', answered(200, { ...accepted, ResponseCode: '1' }), '1', /did not accept/],
    [
      'reports an invalid phone',
      error(400, '400.002.02', 'Bad Request - Invalid PhoneNumber'),
      '400.002.02',
      /valid phone/,
    ],
    [
      'reports an invalid URL',
      error(400, '400.002.02', 'Bad Request - Invalid CallBackURL'),
      '400.002.02',
      /did not accept/,
    ],
    [
      'rejects the token twice',
      error(404, '404.001.03', 'Invalid Access Token'),
      '404.001.03',
      /did not accept/,
    ],
    ['comes from the firewall', answered(403, '<html>Incapsula</html>'), 'http_403', /sent no prompt/],
    ['is an empty 400', answered(400, ''), 'http_400', /did not accept/],
    ['is a 405', error(405, '405.001', 'Method Not Allowed'), '405.001', /did not accept/],
    [
      'reports an invalid amount',
      error(400, '400.002.02', 'Bad Request - Invalid Amount'),
      '400.002.02',
      /this amount/,
    ],
    [
      'says that there are too many requests',
      spikeArrest,
      'http_429',
      /sent no prompt. Please try again in a minute/,
    ],
    [
      'reports too many requests',
      { ...spikeArrest, retryAfterMs: 121_000 } as DarajaReply,
      'http_429',
      /busy right now and sent no prompt. Please try again in 3 minutes/,
    ],
    ['says that the quota is used up', error(500, '500.003.03', 'Quota Violation'), '500.003.03', /busy/],
    ['reports a spike arrest', error(500, '500.003.02', 'Spike Arrest'), '500.003.02', /busy/],
    [
      'cannot lock the subscriber',
      error(500, '500.001.1001', 'Unable to lock subscriber, a transaction is already in process'),
      '500.001.1001',
      /Another transaction in progress/,
    ],
    [
      'reports wrong credentials',
      error(500, '500.001.1001', 'Wrong credentials'),
      '500.001.1001',
      /did not accept/,
    ],
    [
      'reports an unknown merchant',
      error(500, '500.001.1001', 'Merchant does not exist'),
      '500.001.1001',
      /did not accept/,
    ],
  ] satisfies [string, DarajaReply, string, RegExp][])(
    'is a refusal when it %s',
    (_, reply, code, sentence) => {
      expect(readPushReply(reply)).toMatchObject({
        kind: 'refused',
        code,
        sentence: expect.stringMatching(sentence),
      });
    },
  );

  test.each([
    ['was lost', { kind: 'lost', reason: 'ECONNRESET' }],
    ['is empty', answered(200, '')],
    ['is a web page', answered(200, '<html></html>')],
    ['has no request id', answered(200, { ResponseCode: '0' })],
    ['has no code', answered(200, { CheckoutRequestID: 'ws_CO_1' })],
    ['says that it is being processed', error(500, '500.001.1001', 'The transaction is being processed')],
    ['has a known code without a message', error(500, '500.001.1001')],
    ['is an internal error', error(500, '500.003.1001', 'Internal Server Error')],
    ['says that the system is busy', error(500, '500.003.02', 'System is busy')],
    ['is unavailable', answered(503, '<html></html>')],
    ['is a gateway timeout', answered(504, '')],
    ['is a request timeout', answered(408, '')],
    ['is a redirect', answered(302, '')],
    ['is a list', answered(200, '[]')],
    ['has an object as its code', answered(200, { ...accepted, ResponseCode: {} })],
  ] satisfies [string, DarajaReply][])('is inconclusive when it %s', (_, reply) => {
    expect(readPushReply(reply).kind).toBe('unknown');
  });
});

describe('the answer to a query', () => {
  const result = (ResultCode: unknown) =>
    answered(200, {
      ResponseCode: '0',
      MerchantRequestID: 'm-1',
      CheckoutRequestID: 'ws_CO_1',
      ResultCode,
      ResultDesc: 'any text',
    });

  test.each([
    ['0', 'succeeded'],
    [0, 'succeeded'],
    ['1032', 'failed'],
    [1037, 'failed'],
    ['SFC_IC0003', 'failed'],
    ['4999', 'pending'],
    ['26', 'pending'],
    ['31415', 'pending'],
    ['', 'pending'],
    [null, 'pending'],
  ])('with result %j is %s', (code, expected) => {
    expect(readQueryReply(result(code))).toMatchObject({ result: expected, checkoutRequestId: 'ws_CO_1' });
  });

  test.each([
    ['was never sent', { kind: 'not sent', reason: 'ECONNREFUSED' }],
    ['was lost', { kind: 'lost', reason: 'ECONNRESET' }],
    ['says that it is being processed', error(500, '500.001.1001', 'The transaction is being processed')],
    ['knows no such transaction', error(500, '500.001.1001', 'The transaction does not Exist')],
    ['came too early', error(400, '400.002.02', 'Bad Request - Invalid CheckoutRequestID')],
    ['says that there are too many requests', spikeArrest],
    ['comes from the firewall', answered(403, '<html></html>')],
    ['is no JSON', answered(200, 'OK')],
    ['is a success with another status', { ...result('0'), status: 500 }],
    ['has no response code', answered(200, { ResultCode: '0' })],
  ] as [string, DarajaReply][])('is inconclusive when it %s', (_, reply) => {
    expect(readQueryReply(reply).result).toBe('pending');
  });
});

test.each([
  [
    'as items',
    {
      CallbackMetadata: {
        Item: [
          { Name: 'Amount', Value: '951.00' },
          { Name: 'MpesaReceiptNumber', Value: 'ukl1234567' },
        ],
      },
    },
  ],
  ['as fields', { Amount: 951, MpesaReceiptNumber: ' UKL1234567 ' }],
])('money that the answer to a query names %s is read, whatever its result', (_, money) => {
  for (const ResultCode of ['0', '1032', '31415', null, undefined]) {
    const reply = readQueryReply(answered(200, { ResponseCode: '0', ResultCode, ...money }));
    expect(reply).toMatchObject({ receivedCents: 95_100, receipt: 'UKL1234567', unreadable: [] });
  }
});

describe('a callback', () => {
  const callback = (fields: Record<string, unknown>) => JSON.stringify({ Body: { stkCallback: fields } });
  const items = (...Item: unknown[]) => ({ CallbackMetadata: { Item } });

  test('is read by the names of its items, in any order and with unknown ones', () => {
    const text = callback({
      MerchantRequestID: 'm-1',
      CheckoutRequestID: 'ws_CO_1',
      ResultCode: 0,
      ResultDesc: 'The service request is processed successfully.',
      ...items(
        { Name: 'Balance' },
        null,
        { Name: 'PhoneNumber', Value: 254712345678 },
        { Name: 'MpesaReceiptNumber', Value: 'UKL1234567' },
        { Name: 'Amount', Value: 951.0 },
      ),
    });
    expect(readStkCallback(text)).toEqual({
      result: 'succeeded',
      resultCode: '0',
      resultDescription: 'The service request is processed successfully.',
      receivedCents: 95_100,
      receipt: 'UKL1234567',
      unreadable: [],
      merchantRequestId: 'm-1',
      checkoutRequestId: 'ws_CO_1',
    });
  });

  test.each([
    ['no code', { ResultCode: undefined }, {}, ['code']],
    ['an object as its code', { ResultCode: {} }, {}, ['code']],
    ['another spelling of zero', { ResultCode: '00' }, {}, ['code']],
    ['a receipt that is none', {}, { MpesaReceiptNumber: 'UKL12' }, ['receipt']],
    ['a receipt that is an object', {}, { MpesaReceiptNumber: {} }, ['receipt']],
    ['an amount with two meanings', {}, { Amount: '951,00' }, ['amount']],
    ['a long amount', {}, { Amount: '9'.repeat(5000) }, ['amount']],
    [
      'nothing readable',
      { ResultCode: null },
      { Amount: [], MpesaReceiptNumber: '?' },
      ['code', 'receipt', 'amount'],
    ],
    ['everything', {}, {}, []],
    ['blanks instead of a receipt', {}, { MpesaReceiptNumber: ' ' }, []],
    ['no money', {}, { Amount: undefined, MpesaReceiptNumber: null }, []],
  ])('with %s lists what cannot be read', (_, fields, money, unreadable) => {
    const named = Object.entries({ Amount: 951, MpesaReceiptNumber: 'UKL1234567', ...money });
    const text = callback({
      ResultCode: 0,
      ...fields,
      ...items(...named.map(([Name, Value]) => ({ Name, Value }))),
    });
    expect(readStkCallback(text).unreadable).toEqual(unreadable);
  });

  test('never throws and never returns values that a database cannot store', () => {
    const badText = fc.constantFrom('\0', '\ud800', 'a\udc00b', 'x'.repeat(1000), '0');
    const anything = fc.oneof(fc.jsonValue(), badText);
    fc.assert(
      fc.property(anything, anything, anything, anything, (ResultCode, ResultDesc, Value, Item) => {
        const read = readStkCallback(
          callback({
            ResultCode,
            ResultDesc,
            CheckoutRequestID: Value,
            CallbackMetadata: {
              Item: [{ Name: 'Amount', Value }, { Name: 'MpesaReceiptNumber', Value }, Item],
            },
          }),
        );
        const texts = [read.resultCode, read.resultDescription, read.receipt, read.checkoutRequestId];
        for (const text of texts) {
          expect(text ?? '').not.toMatch(/\0|\p{Surrogate}/u);
          expect((text ?? '').length).toBeLessThanOrEqual(500);
        }
        if (read.receivedCents !== null) expect(read.receivedCents | 0).toBe(read.receivedCents);
      }),
    );
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(['pending', 'succeeded', 'failed']).toContain(readStkCallback(text).result);
      }),
    );
  });
});

describe('the result of a reversal', () => {
  const result = (fields: Record<string, unknown>) => JSON.stringify({ Result: fields });

  test.each([
    [0, 'reversed'],
    ['0', 'reversed'],
    ['R000001', 'already reversed'],
    ['R000002', 'failed'],
    [1, 'failed'],
    ['2001', 'failed'],
    [8006, 'failed'],
    ['26', 'unknown'],
    ['31415', 'unknown'],
    ['', 'unknown'],
    [null, 'unknown'],
  ])('with code %j is %s', (ResultCode, outcome) => {
    const read = readReversalResult(result({ ResultCode, TransactionID: 'UKL1234567' }));
    expect(read).toMatchObject({ outcome, receipt: outcome === 'reversed' ? 'UKL1234567' : null });
  });

  test.each([
    [{ TransactionID: 'UKL12' }, ['receipt']],
    [{ ResultParameters: { ResultParameter: [{ Key: 'Amount', Value: '951,00' }] } }, ['amount']],
  ])('with %j is unknown, although its code is 0', (fields, unreadable) => {
    const read = readReversalResult(result({ ResultCode: 0, TransactionID: 'UKL1234567', ...fields }));
    expect(read).toMatchObject({ outcome: 'unknown', unreadable });
  });

  test('may have a single parameter without a list', () => {
    const parameter = { Key: 'Amount', Value: '951.00' };
    const text = result({ ResultCode: 0, ResultParameters: { ResultParameter: parameter } });
    expect(readReversalResult(text).refundCents).toBe(95_100);
  });

  test('never throws and never returns values that a database cannot store, like every other answer', () => {
    const badText = fc.constantFrom('\0', '\ud800', 'a\udc00b', 'x'.repeat(1000), '0');
    const anything = fc.oneof(fc.jsonValue(), badText);
    fc.assert(
      fc.property(anything, anything, anything, anything, (code, id, Key, Value) => {
        const fields = {
          ResultCode: code,
          ResultDesc: Value,
          TransactionID: id,
          ConversationID: Value,
          ResultParameters: {
            ResultParameter: [{ Key: 'OriginalTransactionID', Value }, { Key, Value }, id],
          },
        };
        const line = { transactionId: id, amount: Value, trxDate: code, msisdn: Value, billreference: Key };
        const read = readStatementLine(line);
        const all = [readReversalResult(result(fields)), readTransactionStatus(result(fields)), read];
        for (const text of all.flatMap((answer) => Object.values(answer))) {
          if (typeof text === 'string') expect(text).not.toMatch(/\0|\p{Surrogate}/u);
        }
      }),
    );
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(readReversalResult(text).outcome).not.toBe('failed');
        expect(readTransactionStatus(text).answered).toBe(false);
      }),
    );
  });
});

describe('any answer', () => {
  test('with status 500 or more is inconclusive, except with one of a few known codes', () => {
    const body = fc.oneof(
      fc.string(),
      fc.json(),
      fc.record({ errorCode: fc.string(), errorMessage: fc.string(), ResponseCode: fc.jsonValue() }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 500, max: 599 }), body, (status, answer) => {
        expect(classifyReply(answered(status, answer)).kind).toBe('unknown');
      }),
    );
  });
});

describe('a timestamp for M-PESA', () => {
  test('of the statement is in Nairobi', () => {
    expect(darajaDateTime(new Date('2026-12-31T21:30:05.999Z'))).toBe('2027-01-01 00:30:05');
  });
});
