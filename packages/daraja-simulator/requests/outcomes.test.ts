// Outcomes of pushes: each scripted ending, with real callbacks.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { compactNairobiTime } from '../ledger/nairobi-time.ts';
import { receiptDatePrefix } from '../ledger/receipt.ts';
import { defaultMerchant } from '../settings.ts';
import { anyPhone, openShop, phoneEndingIn, quick, type TestShop } from '../test-shop.ts';

let shop: TestShop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.close());

const item = (name: string, from = 0) =>
  shop.received[from]?.callback.CallbackMetadata?.Item.find(({ Name }) => Name === name)?.Value;

test('pays for an ordinary number and sends one callback in the format of Daraja', async () => {
  const checkoutRequestId = await shop.accepted();
  const { prompts, moneyMoved } = await shop.settled();
  expect(moneyMoved).toBe(951);
  expect(prompts[0]).toMatchObject({
    resultCode: 0,
    moneyMoved: 951,
    phone: anyPhone,
    accountReference: 'JJ2611211234',
  });
  expect(prompts[0].callbacks).toMatchObject([{ status: 200, error: null, isDropped: false }]);

  expect(shop.received).toHaveLength(1);
  const [notice] = shop.received;
  expect(notice?.path).toBe('/notice/1');
  expect(notice?.headers).toMatchObject({
    'content-type': 'application/json;charset=UTF-8',
    businessshortcode: '174379',
  });
  expect(notice?.raw).toContain('{"Name":"Amount","Value":951.00}');
  const day = compactNairobiTime(Date.now()).slice(0, 8);
  expect(notice?.callback).toEqual({
    MerchantRequestID: prompts[0].merchantRequestId,
    CheckoutRequestID: checkoutRequestId,
    ResultCode: 0,
    ResultDesc: 'The service request is processed successfully.',
    CallbackMetadata: {
      Item: [
        { Name: 'Amount', Value: 951 },
        { Name: 'MpesaReceiptNumber', Value: prompts[0].receipt },
        { Name: 'Balance' },
        { Name: 'TransactionDate', Value: expect.any(Number) },
        { Name: 'PhoneNumber', Value: Number(anyPhone) },
      ],
    },
  });
  expect(String(item('TransactionDate'))).toMatch(new RegExp(`^${day}\\d{6}$`));
  expect(prompts[0].receipt).toMatch(/^[A-Z][A-L][1-9A-V][A-Z0-9]{7}$/);
  expect(prompts[0].receipt.slice(0, 3)).toBe(receiptDatePrefix(Date.now()));
});

test('starts a receipt with the Nairobi date', () => {
  expect(receiptDatePrefix(Date.parse('2019-12-19T10:00:00Z'))).toBe('NLJ');
  expect(receiptDatePrefix(Date.parse('2026-01-08T23:30:00Z'))).toBe('UA9');
  expect(receiptDatePrefix(Date.parse('2026-10-31T12:00:00Z'))).toBe('UJV');
});

describe('a failure has its code without metadata and moves no money', () => {
  test.each([
    ['0001', 1],
    ['1001', 1001],
    ['1019', 1019],
    ['1025', 1025],
    ['1032', 1032],
    ['1037', 1037],
    ['2001', 2001],
  ])('a number ending in %s', async (ending, resultCode) => {
    const checkoutRequestId = await shop.accepted({ PhoneNumber: phoneEndingIn(ending) });
    expect(await shop.settled()).toMatchObject({ moneyMoved: 0, prompts: [{ resultCode, receipt: null }] });
    expect(shop.received).toHaveLength(1);
    expect(shop.received[0]?.callback).toMatchObject({
      ResultCode: resultCode,
      CheckoutRequestID: checkoutRequestId,
    });
    expect(shop.received[0]?.callback).not.toHaveProperty('CallbackMetadata');
    expect((await shop.query(checkoutRequestId)).body.ResultCode).toBe(String(resultCode));
  });
});

test('9001: paid, and only a query reports it', async () => {
  const checkoutRequestId = await shop.accepted({ PhoneNumber: phoneEndingIn('9001') });
  expect(await shop.settled()).toMatchObject({
    moneyMoved: 951,
    prompts: [{ resultCode: 0, callbacks: [{ isDropped: true, status: null }] }],
  });
  const answer = await shop.query(checkoutRequestId);
  expect(answer.body).toMatchObject({ ResponseCode: '0', ResultCode: '0' });
  expect(answer.text).not.toContain('Receipt');
  expect(shop.received).toHaveLength(0);
});

test('9002: paid once, with three identical callbacks', async () => {
  await shop.accepted({ PhoneNumber: phoneEndingIn('9002') });
  expect((await shop.settled()).moneyMoved).toBe(951);
  expect(shop.received).toHaveLength(3);
  expect(new Set(shop.received.map(({ raw }) => raw)).size).toBe(1);
});

test('9003: the callback is answered before the push', async () => {
  shop.answerCallbacksWith(200, 80);
  const checkoutRequestId = await shop.accepted({ PhoneNumber: phoneEndingIn('9003') });
  expect(shop.received.map(({ callback }) => callback.CheckoutRequestID)).toEqual([checkoutRequestId]);
  expect((await shop.ledger()).prompts[0]).toMatchObject({ moneyMoved: 951, callbacks: [{ status: 200 }] });
});

test('9004: paid with a callback, but without a response to the push', async () => {
  await expect(shop.push({ PhoneNumber: phoneEndingIn('9004') })).rejects.toThrow('fetch failed');
  expect(await shop.settled()).toMatchObject({ moneyMoved: 951 });
  expect(shop.received).toMatchObject([{ path: '/notice/1', callback: { ResultCode: 0 } }]);
});

test('9005: the callback has another amount than was paid', async () => {
  await shop.accepted({ PhoneNumber: phoneEndingIn('9005') });
  expect((await shop.settled()).moneyMoved).toBe(951);
  expect(item('Amount')).toBe(950);
});

test('9006: first unreachable, later paid', async () => {
  const checkoutRequestId = await shop.accepted({ PhoneNumber: phoneEndingIn('9006') });
  await vi.waitFor(() => expect(shop.received).toHaveLength(2), { timeout: 20_000 });
  expect(shop.received.map(({ callback }) => callback.ResultCode)).toEqual([1037, 0]);
  expect(await shop.settled()).toMatchObject({
    moneyMoved: 951,
    prompts: [{ resultCode: 0, decisions: [{ resultCode: 1037 }, { resultCode: 0, moneyMoved: 951 }] }],
  });
  expect((await shop.query(checkoutRequestId)).body.ResultCode).toBe('0');
});

test('9007: refuses the push without a prompt', async () => {
  expect(await shop.push({ PhoneNumber: phoneEndingIn('9007') })).toMatchObject({
    status: 500,
    body: { errorCode: '500.001.1001' },
  });
  expect(await shop.ledger()).toMatchObject({
    prompts: [],
    refused: [{ errorCode: '500.001.1001', amount: '951' }],
  });
});

test('fails a paybill push to another receiver with a string code', async () => {
  await shop.accepted({ PartyB: '600000' });
  expect((await shop.settled()).moneyMoved).toBe(0);
  expect(shop.received[0]?.callback.ResultCode).toBe('SFC_IC0003');
});

test('pays a till only under its own number', async () => {
  await shop.accepted({ TransactionType: 'CustomerBuyGoodsOnline', PartyB: defaultMerchant.tillNumber });
  expect((await shop.settled()).moneyMoved).toBe(951);
  await shop.accepted({ TransactionType: 'CustomerBuyGoodsOnline', PartyB: '600000' });
  expect((await shop.settled()).moneyMoved).toBe(951);
});

test('fails a second prompt for a phone late and leaves the first one open', async () => {
  const own = await openShop({ ...quick, locksLate: true, decisionDelayMs: 60_000 });
  const first = await own.accepted();
  const second = await own.accepted();
  await own.control(`prompts/${second}/pin`, { pin: '1234' });
  await own.control(`prompts/${first}/pin`, { pin: '1234' });
  const { prompts, moneyMoved } = await own.settled();
  expect(prompts.map(({ resultCode }: { resultCode: number }) => resultCode)).toEqual([0, 1001]);
  expect(moneyMoved).toBe(951);
  await own.close();
});

test('lets only one phone pay in sandbox mode', async () => {
  const own = await openShop({ ...quick, onlyPhone: '254708374149' });
  await own.accepted();
  await own.accepted({ PhoneNumber: '254708374149' });
  const { prompts } = await own.settled();
  expect(prompts.map(({ resultCode }: { resultCode: unknown }) => resultCode)).toEqual(['E3008', 0]);
  await own.close();
});

test('treats two pushes with one reference as two payments', async () => {
  await shop.accepted();
  await shop.settled();
  await shop.accepted();
  expect((await shop.settled()).moneyMoved).toBe(1902);
});

test('does not repeat a callback after an error or without a response', async () => {
  shop.answerCallbacksWith(500);
  await shop.accepted();
  await shop.settled();
  await shop.accepted({ PhoneNumber: phoneEndingIn('1111'), CallBackURL: 'http://127.0.0.1:1/notice' });
  const { prompts } = await shop.settled();
  expect(prompts[0].callbacks).toMatchObject([{ status: 500 }]);
  expect(prompts[1].callbacks).toMatchObject([{ status: null, error: expect.any(String) }]);
  expect(shop.received).toHaveLength(1);
});

test('applies the rule of repeated amounts to a phone page, and to others once it is set', async () => {
  const codes = async () =>
    (await shop.ledger()).prompts.map((prompt: { resultCode: number | null }) => prompt.resultCode);
  const answer = async (body: object) => {
    await fetch(`${shop.url}/simulator/prompts?phone=${anyPhone}&screen=open`);
    await shop.accepted();
    const open = (await shop.ledger()).prompts.at(-1);
    await shop.control(`prompts/${open.checkoutRequestId}/pin`, { pin: '1234', ...body });
  };
  await answer({});
  await answer({});
  await answer({ appliesRepeatRule: true });
  expect(await codes()).toEqual([0, 0, 17]);
  expect((await shop.control('rules', { repeatRuleMs: 'soon' })).status).toBe(400);
  expect((await shop.control('rules', { repeatRuleMs: 120_000 })).body).toMatchObject({
    repeatRuleMs: 120_000,
  });
  await answer({});
  expect(await codes()).toEqual([0, 0, 17, 17]);
});

test('fails a repeated amount from one phone with 17 within the time of the repeat rule', async () => {
  await shop.close();
  shop = await openShop({ ...quick, repeatRuleMs: 120_000 });
  await shop.accepted();
  await shop.settled();
  await shop.accepted();
  await shop.settled();
  await shop.control('clock', { advanceMs: 120_000 });
  await shop.accepted();
  const { prompts } = await shop.settled();
  expect(prompts.map((prompt: { resultCode: number }) => prompt.resultCode)).toEqual([0, 17, 0]);
});
