// Payments without a prompt: validated, recorded, confirmed, and in the ledger after restarts.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultCredentials, defaultMerchant } from '../settings.ts';
import { anyPhone, call, openShop, phoneEndingIn, quick, type TestShop } from '../test-shop.ts';

let shop: TestShop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.close());

test('records a payment without a message while no URL is registered', async () => {
  const { status, body } = await shop.payByHand();
  expect(status).toBe(200);
  expect(body).toMatchObject({
    receipt: expect.stringMatching(/^[A-Z0-9]{10}$/),
    amount: 951,
    method: 'paybill',
    reference: 'JJ2611211234',
    checkoutRequestId: null,
    reversal: null,
  });
  expect(await shop.ledger()).toMatchObject({ moneyMoved: 951, messages: [], transactions: [body] });
  expect(shop.shopMessages).toEqual([]);
});

test('ignores the account of a till payment', async () => {
  await shop.registerUrls();
  await shop.payByHand({ number: defaultMerchant.tillNumber });
  expect(await shop.receivesAt('/confirmation')).toMatchObject([
    { TransactionType: 'Buy Goods', BillRefNumber: '', TransAmount: '951.00' },
  ]);
});

test.each([
  [{ phone: '12' }, 'phone'],
  [{ number: '1' }, 'number'],
  [{ amount: 0 }, 'amount'],
  [{ amount: 1.5 }, 'amount'],
  [{ amount: 250_001 }, 'amount'],
  [{ reference: ' ' }, 'account'],
  [{ reference: 'x'.repeat(21) }, 'reference'],
])('%j is no payment', async (changes, word) => {
  const { status, body } = await shop.payByHand(changes);
  expect(status).toBe(400);
  expect(body.error).toContain(word);
  expect((await shop.ledger()).moneyMoved).toBe(0);
});

describe('validation by the shop', () => {
  test.each([
    ['{"ResultCode":"C2B00011","ResultDesc":"Rejected"}', 'Completed', 409],
    ['{"ResultCode":0,"ResultDesc":"Accepted"}', 'Cancelled', 200],
    ['no JSON', 'Completed', 200],
    ['no JSON', 'Cancelled', 409],
  ])('%s with %s is answered %i', async (answer, ResponseType, status) => {
    await shop.registerUrls({ ResponseType });
    shop.answerValidationsWith(answer);
    expect((await shop.payByHand()).status).toBe(status);
    expect((await shop.ledger()).moneyMoved).toBe(status === 200 ? 951 : 0);
  });

  test('is skipped while M-PESA has not activated it', async () => {
    const own = await openShop({ ...quick, asksValidation: false });
    await own.registerUrls();
    await own.payByHand();
    await own.receivesAt('/confirmation');
    expect(own.shopMessages.map(({ path }) => path)).toEqual(['/confirmation']);
    await own.close();
  });
});

test('confirms a paid prompt under the same receipt, and no failed one', async () => {
  await shop.registerUrls();
  await shop.accepted();
  await shop.accepted({ PhoneNumber: phoneEndingIn('1032') });
  await shop.settled();
  const [confirmation] = await shop.receivesAt('/confirmation');
  expect(confirmation).toMatchObject({
    TransID: shop.received
      .find(({ callback }) => callback.ResultCode === 0)
      ?.callback.CallbackMetadata?.Item.find(({ Name }) => Name === 'MpesaReceiptNumber')?.Value,
    BillRefNumber: 'JJ2611211234',
    MSISDN: '2547 ***** 678',
  });
});

test('sends no confirmation for numbers with a lost or wrong callback', async () => {
  await shop.registerUrls();
  for (const ending of ['9001', '9005']) await shop.accepted({ PhoneNumber: phoneEndingIn(ending) });
  await shop.settled();
  const { messages, moneyMoved } = await shop.ledger();
  expect(moneyMoved).toBe(2 * 951);
  expect(messages.map(({ isDropped }: { isDropped: boolean }) => isDropped)).toEqual([true, true]);
});

test('drops, duplicates and delays confirmations', async () => {
  await shop.registerUrls();
  await shop.control('faults', {
    script: [
      { target: 'confirmations', kind: 'drop', occurrences: [1] },
      { target: 'confirmations', kind: 'duplicate', occurrences: [2], times: 3 },
      { target: 'confirmations', kind: 'delay', occurrences: [3], delayMs: 60_000 },
    ],
  });
  await shop.payByHand();
  const doubled = (await shop.payByHand()).body.receipt;
  const delayed = (await shop.payByHand()).body.receipt;
  const three = await shop.receivesAt('/confirmation', 3);
  expect(three.map(({ TransID }) => TransID)).toEqual([doubled, doubled, doubled]);
  await shop.control('clock', { advanceMs: 60_000 });
  expect((await shop.receivesAt('/confirmation', 4))[3].TransID).toBe(delayed);
});

test('keeps registered URLs, payments, reversals and unsent messages over a restart', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ledger-'));
  const own = await openShop({
    ...quick,
    ledgerFile: join(folder, 'ledger.jsonl'),
    confirmationDelayMs: 60_000,
  });
  await own.registerUrls();
  const { receipt } = (await own.payByHand()).body;
  const reversal = await own.post('/mpesa/reversal/v1/request', {
    Initiator: 'unknown',
    SecurityCredential: 'wrong',
    CommandID: 'TransactionReversal',
    TransactionID: receipt,
    Amount: 951,
    ReceiverParty: defaultCredentials.shortcode,
    RecieverIdentifierType: 11,
    ResultURL: `${own.receiverUrl}/result`,
    QueueTimeOutURL: `${own.receiverUrl}/timeout`,
    Remarks: 'Refund',
  });
  expect(reversal).toMatchObject({ status: 200, body: { ResponseCode: '0' } });
  expect((await own.receivesAt('/result'))[0].Result).toMatchObject({ ResultCode: 2001 });
  // A restart before the ledger records the delivery would send the result again.
  await expect
    .poll(async () => (await own.ledger()).messages)
    .toMatchObject([{ purpose: 'confirmation' }, { purpose: 'result', status: 200 }]);
  await own.restart();
  expect(own.shopMessages.map(({ path }) => path)).toEqual(['/validation', '/result']);
  await own.control('clock', { advanceMs: 60_000 });
  expect(await own.receivesAt('/confirmation')).toMatchObject([{ TransID: receipt }]);
  expect(await own.ledger()).toMatchObject({
    moneyMoved: 951,
    moneyReturned: 0,
    urls: { responseType: 'Completed' },
    requests: [{ api: 'reversals', resultCode: 2001 }],
    messages: [{ purpose: 'confirmation' }, { purpose: 'result', status: 200 }],
  });
  await own.close();
  await rm(folder, { recursive: true });
});

test('lists payments without a prompt for the phone page', async () => {
  await shop.payByHand({ amount: 70 });
  const { body } = await call(`${shop.url}/simulator/prompts?phone=${anyPhone}`);
  expect(body).toMatchObject({ prompts: [], payments: [{ amount: 70 }] });
  const page = await call(`${shop.url}/phone?number=${anyPhone}`);
  expect(page.text).toContain(`Paybill ${defaultCredentials.shortcode}`);
  expect(page.text).toContain(`Till ${defaultMerchant.tillNumber}`);
});

test.each([
  ['/mpesa/c2b/v2/registerurl', { ResponseType: 'Maybe' }, 'ShortCode'],
  ['/pulltransactions/v1/query', { ShortCode: defaultCredentials.shortcode }, 'ShortCode'],
  ['/mpesa/reversal/v1/request', {}, 'Initiator'],
  ['/mpesa/transactionstatus/v1/query', { Initiator: 'a' }, 'SecurityCredential'],
])(
  'a wrong request to %s is refused with the name of what is wrong, and kept',
  async (path, fields, wrong) => {
    const answer = await shop.post(path, fields);
    expect(answer).toMatchObject({
      status: 400,
      body: { errorCode: '400.002.02', errorMessage: `Bad Request - Invalid ${wrong}` },
    });
    expect((await shop.ledger()).requestsRefused).toMatchObject([{ errorCode: '400.002.02' }]);
    expect((await shop.post(path, fields, 'wrong')).body.errorCode).toBe('404.001.03');
    expect((await shop.post(path, 'no JSON')).body.errorCode).toBe('400.002.05');
  },
);

test('accepts a reversal only with the misspelt field', async () => {
  const answer = await shop.post('/mpesa/reversal/v1/request', {
    Initiator: 'a',
    SecurityCredential: 'b',
    CommandID: 'TransactionReversal',
    TransactionID: 'UKL1234567',
    Amount: '1',
    ReceiverParty: defaultCredentials.shortcode,
    ReceiverIdentifierType: '11',
  });
  expect(answer.body.errorMessage).toBe('Bad Request - Invalid RecieverIdentifierType');
});
