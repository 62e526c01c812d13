// The client of Daraja against the simulator, over HTTP: registrations, statement, reversals, status requests.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  certificate,
  defaultCredentials,
  defaultMerchant,
  type SimulatorOptions,
  startDarajaSimulator,
} from '@jani-juice/daraja-simulator';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DarajaSettings } from '../settings.ts';
import { readTillPayment } from './c2b-payment.ts';
import { registerTillUrls } from './c2b-registration.ts';
import { connectDaraja, type DarajaClient } from './connection/client.ts';
import { readReversalResult, reverse } from './reversal.ts';
import { pullStatement, registerStatement } from './statement.ts';
import { sendPush } from './stk-push.ts';
import { readTransactionStatus, requestTransactionStatus } from './transaction-status.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes are read.
type Json = any;
type ReceivedMessage = { path: string; text: string; fields: Json };

async function openWorld(options: SimulatorOptions = {}, changes: Partial<DarajaSettings> = {}) {
  const simulator = await startDarajaSimulator({
    decisionDelayMs: 10,
    confirmationDelayMs: 10,
    resultDelayMs: 10,
    tooEarlyMs: 0,
    queryLimit: { requests: 1000, perMs: 60_000 },
    ...options,
  });
  const received: ReceivedMessage[] = [];
  let validation: Json = { ResultCode: '0', ResultDesc: 'Accepted' };
  const receiver = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    received.push({ path: request.url ?? '', text, fields: JSON.parse(text) });
    response.end(JSON.stringify(validation));
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const own = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const daraja = connectDaraja({
    baseUrl: simulator.url,
    ...defaultCredentials,
    transactionType: 'CustomerPayBillOnline',
    initiator: {
      name: defaultMerchant.initiatorName,
      password: defaultMerchant.initiatorPassword,
      certificate,
    },
    timeoutMs: 3000,
    ...changes,
  });
  async function control(path: string, body?: Json): Promise<Json> {
    const response = await fetch(`${simulator.url}/simulator/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  }
  return {
    own,
    daraja,
    received,
    control,
    ledger: () => control('ledger'),
    answerValidationsWith(answer: Json) {
      validation = answer;
    },
    pay: (amount: number, reference = 'JJ2611210001') =>
      control('payments', { phone: '0712345678', number: defaultCredentials.shortcode, amount, reference }),
    receive: (path: string, count = 1) =>
      vi.waitFor(
        () => {
          const found = received.filter((message) => message.path === path);
          expect(found).toHaveLength(count);
          return found[count - 1] as ReceivedMessage;
        },
        { timeout: 20_000 },
      ),
    async close() {
      await simulator.close();
      await new Promise((resolve) => {
        receiver.close(resolve);
        receiver.closeAllConnections();
      });
    },
  };
}

let context: Awaited<ReturnType<typeof openWorld>>;
let daraja: DarajaClient;
beforeEach(async () => {
  context = await openWorld();
  daraja = context.daraja;
});
afterEach(() => context.close());

const urls = () => ({
  confirmationUrl: `${context.own}/confirmation`,
  validationUrl: `${context.own}/validation`,
});
const results = () => ({ resultUrl: `${context.own}/result`, timeoutUrl: `${context.own}/timeout` });

describe('URLs for payments without a prompt (C2B)', () => {
  test('are registered, and receive the validation and confirmation of a payment', async () => {
    expect((await registerTillUrls(daraja, urls())).kind).toBe('registered');
    const { receipt } = await context.pay(951);
    expect((await context.receive('/validation')).fields.TransID).toBe(receipt);
    const { fields } = await context.receive('/confirmation');
    expect(fields).toEqual({
      TransactionType: 'Pay Bill',
      TransID: receipt,
      TransTime: expect.stringMatching(/^\d{14}$/),
      TransAmount: '951.00',
      BusinessShortCode: defaultCredentials.shortcode,
      BillRefNumber: 'JJ2611210001',
      InvoiceNumber: '',
      OrgAccountBalance: '',
      ThirdPartyTransID: '',
      MSISDN: '2547 ***** 678',
      FirstName: expect.any(String),
      MiddleName: '',
      LastName: expect.any(String),
    });
  });

  test('also receive the confirmation of a paid prompt', async () => {
    await registerTillUrls(daraja, urls());
    const pushed = await sendPush(daraja, {
      phone: '+254712345678',
      chargeCents: 95_100,
      trackingNumber: 'JJ-20261121-1234',
      callbackUrl: `${context.own}/notice`,
    });
    expect(pushed.kind).toBe('accepted');
    const callback = await context.receive('/notice');
    const { fields } = await context.receive('/confirmation');
    expect(fields).toMatchObject({ BillRefNumber: 'JJ2611211234', TransAmount: '951.00' });
    expect(callback.text).toContain(fields.TransID);
  });

  test('are accepted once where M-PESA accepts them once', async () => {
    await context.close();
    context = await openWorld({ registersUrlsOnce: true });
    expect((await registerTillUrls(context.daraja, urls())).kind).toBe('registered');
    expect((await registerTillUrls(context.daraja, urls())).kind).toBe('already registered');
  });

  test('are registered by the other version where the app lacks one, and by the known one at once', async () => {
    await context.close();
    context = await openWorld({ c2bVersion: 'v1' });
    expect(await registerTillUrls(context.daraja, urls())).toMatchObject({
      kind: 'registered',
      version: 'v1',
      lacks: 'v2',
    });
    expect(await registerTillUrls(context.daraja, urls(), 'v1')).toMatchObject({
      version: 'v1',
      lacks: null,
    });
    // A refusal for the lack of an API burns no access token.
    expect((await context.ledger()).tokensMade).toBe(1);
    const { receipt } = await context.pay(951);
    const { text } = await context.receive('/confirmation');
    expect(readTillPayment(text)).toMatchObject({
      receipt,
      receivedCents: 95_100,
      payerPhone: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test('are refused when they contain a word that Daraja forbids', async () => {
    const wrong = { ...urls(), confirmationUrl: `${context.own}/sql` };
    expect(await registerTillUrls(daraja, wrong)).toMatchObject({
      kind: 'refused',
      code: '400.002.02',
      description: 'Bad Request - Invalid ConfirmationURL',
    });
  });

  test('can reject a payment', async () => {
    await registerTillUrls(daraja, urls());
    context.answerValidationsWith({ ResultCode: 'C2B00012', ResultDesc: 'Rejected' });
    expect((await context.pay(951)).declined).toBe('C2B00012');
    expect(await context.ledger()).toMatchObject({
      moneyMoved: 0,
      declined: [{ resultCode: 'C2B00012', amount: 951 }],
    });
  });
});

describe('a prompt', () => {
  const order = () => ({
    phone: '+254712345678',
    chargeCents: 95_100,
    trackingNumber: 'JJ-20261121-1234',
    callbackUrl: `${context.own}/notice`,
  });
  const till = { transactionType: 'CustomerBuyGoodsOnline', partyB: defaultMerchant.tillNumber } as const;

  test('contains the paybill twice, the order in twelve characters and the time in Nairobi', async () => {
    await sendPush(daraja, order());
    const [prompt] = (await context.ledger()).prompts;
    expect(prompt).toMatchObject({
      transactionType: 'CustomerPayBillOnline',
      shortcode: defaultCredentials.shortcode,
      partyB: defaultCredentials.shortcode,
      accountReference: 'JJ2611211234',
      amount: 951,
      phone: '254712345678',
    });
  });

  test('of a till pays the till', async () => {
    await context.close();
    context = await openWorld({}, till);
    await sendPush(context.daraja, order());
    expect((await context.receive('/notice')).fields.Body.stkCallback.ResultCode).toBe(0);
    expect((await context.ledger()).prompts[0]).toMatchObject({ partyB: defaultMerchant.tillNumber });
  });

  test('with a mixed till and paybill fails with a text as its code', async () => {
    await context.close();
    context = await openWorld({}, { partyB: defaultMerchant.tillNumber });
    await sendPush(context.daraja, order());
    expect((await context.receive('/notice')).fields.Body.stkCallback.ResultCode).toBe('SFC_IC0003');
  });
});

describe('the statement', () => {
  const lately = () => ({ from: new Date(Date.now() - 3_600_000), to: new Date(Date.now() + 60_000) });

  test('is read over all its pages, with prompts and other payments', async () => {
    await context.close();
    context = await openWorld({ statementPageSize: 2 });
    const registration = { nominatedNumber: '254712345678', callbackUrl: `${context.own}/statement` };
    expect((await registerStatement(context.daraja, registration)).kind).toBe('registered');
    expect((await registerStatement(context.daraja, registration)).kind).toBe('already registered');
    const paid = [];
    for (const amount of [100, 200, 300]) paid.push(await context.pay(amount));
    await sendPush(context.daraja, {
      phone: '+254712345678',
      chargeCents: 40_000,
      trackingNumber: 'JJ-20261121-1234',
      callbackUrl: `${context.own}/notice`,
    });
    await context.receive('/notice');
    const statement = await pullStatement(context.daraja, lately());
    expect(statement.kind).toBe('pulled');
    expect(statement.lines.flatMap(({ unreadable }) => unreadable)).toEqual([]);
    expect(statement.lines.map((line) => [line.receivedCents, line.reference])).toEqual([
      [10_000, 'JJ2611210001'],
      [20_000, 'JJ2611210001'],
      [30_000, 'JJ2611210001'],
      [40_000, 'JJ2611211234'],
    ]);
    expect(statement.lines[0]).toMatchObject({ receipt: paid[0].receipt, msisdn: '254712345678' });
    // Whole seconds.
    expect(Math.abs((statement.lines[0]?.transactedAt?.getTime() ?? 0) - paid[0].at)).toBeLessThan(1000);
  });

  test('is read without requesting a line twice', async () => {
    await context.close();
    context = await openWorld({ statementPageSize: 2 });
    await registerStatement(context.daraja, {
      nominatedNumber: '254712345678',
      callbackUrl: `${context.own}/s`,
    });
    for (const amount of [100, 200, 300]) await context.pay(amount);
    const offsets: unknown[] = [];
    const post: DarajaClient['post'] = (path, fields) => {
      offsets.push(fields.OffSetValue);
      return context.daraja.post(path, fields);
    };
    await pullStatement({ ...context.daraja, post }, lately());
    expect(offsets).toEqual(['0', '2', '3']);
  });

  test('may be empty, and reaches back 48 hours', async () => {
    await registerStatement(daraja, { nominatedNumber: '254712345678', callbackUrl: `${context.own}/s` });
    expect(await pullStatement(daraja, lately())).toMatchObject({ kind: 'pulled', lines: [] });
    await context.pay(100);
    expect((await pullStatement(daraja, lately())).lines).toHaveLength(1);
    await context.control('clock', { advanceMs: 49 * 3_600_000 });
    expect((await pullStatement(daraja, lately())).lines).toHaveLength(0);
  });

  test('that is incomplete is reported as such, with the lines that were read', async () => {
    await context.close();
    context = await openWorld({ statementPageSize: 1 });
    await registerStatement(context.daraja, {
      nominatedNumber: '254712345678',
      callbackUrl: `${context.own}/s`,
    });
    for (const amount of [100, 200]) await context.pay(amount);
    await context.control('faults', {
      script: [{ target: 'statements', kind: 'unavailable', occurrences: [2] }],
    });
    expect(await pullStatement(context.daraja, lately())).toMatchObject({
      kind: 'unknown',
      lines: [{ receivedCents: 10_000 }],
    });
  });
});

describe('a reversal', () => {
  const whole = (receipt: string) => ({ receipt, refundCents: 95_100, remarks: 'Refund', ...results() });

  test('is accepted, carried out, and reported to the result URL', async () => {
    const { receipt } = await context.pay(951);
    const outcome = await reverse(daraja, whole(receipt));
    expect(outcome).toMatchObject({ kind: 'accepted' });
    const { text } = await context.receive('/result');
    const result = readReversalResult(text);
    expect(result).toMatchObject({
      outcome: 'reversed',
      resultCode: '0',
      originalReceipt: receipt,
      refundCents: 95_100,
      receipt: expect.stringMatching(/^[A-Z0-9]{10}$/),
    });
    if (outcome.kind !== 'accepted') throw new Error(outcome.kind);
    expect(result.conversationId).toBe(outcome.conversationId);
    expect(result.originatorConversationId).toBe(outcome.originatorConversationId);
    expect(await context.ledger()).toMatchObject({ moneyMoved: 951, moneyReturned: 951 });
  });

  test('of the same receipt happens once', async () => {
    const { receipt } = await context.pay(951);
    await reverse(daraja, whole(receipt));
    await context.receive('/result');
    await reverse(daraja, whole(receipt));
    const again = readReversalResult((await context.receive('/result', 2)).text);
    expect(again).toMatchObject({ outcome: 'already reversed', resultCode: 'R000001', receipt: null });
    expect((await context.ledger()).moneyReturned).toBe(951);
  });

  test('of a receipt that M-PESA does not know fails', async () => {
    await reverse(daraja, whole('UKL0000000'));
    expect(readReversalResult((await context.receive('/result')).text)).toMatchObject({
      outcome: 'failed',
      resultCode: 'R000002',
    });
  });

  test('fails with a wrong password of the initiator, and with any code of M-PESA', async () => {
    await context.close();
    context = await openWorld(
      {},
      { initiator: { name: defaultMerchant.initiatorName, password: 'wrong', certificate } },
    );
    const { receipt } = await context.pay(951);
    await reverse(context.daraja, whole(receipt));
    expect(readReversalResult((await context.receive('/result')).text)).toMatchObject({
      outcome: 'failed',
      resultCode: '2001',
    });
    await context.control('faults', { reversalResults: { next: 1, kind: 'fail', resultCode: 31415 } });
    await reverse(context.daraja, whole(receipt));
    expect(readReversalResult((await context.receive('/result', 2)).text)).toMatchObject({
      outcome: 'unknown',
      resultCode: '31415',
    });
  });

  test('is not sent without an initiator or with an invalid certificate', async () => {
    const { initiator: _, ...settings } = daraja.settings;
    expect(await reverse(connectDaraja(settings), whole('X'))).toMatchObject({ code: 'initiator_missing' });
    const broken = { ...settings, initiator: { name: 'a', password: 'b', certificate: 'none' } };
    expect(await reverse(connectDaraja(broken), whole('X'))).toMatchObject({ code: 'certificate_wrong' });
    expect((await context.ledger()).requests).toEqual([]);
  });

  test('whose answer is lost can be checked by its receipt', async () => {
    const { receipt } = await context.pay(951);
    await context.control('faults', { reversals: { next: 1, kind: 'lose-answer' } });
    expect((await reverse(daraja, whole(receipt))).kind).toBe('unknown');
    await context.receive('/result');
    await requestTransactionStatus(daraja, { receipt, ...results() });
    const status = readTransactionStatus((await context.receive('/result', 2)).text);
    expect(status).toMatchObject({ answered: true, receipt, status: 'Reversed', transactionCents: 95_100 });
  });

  test('is inconclusive with a malformed body', () => {
    for (const text of ['', 'OK', '[]', '{"Result":7}', '{"Result":{"ResultCode":null}}']) {
      expect(readReversalResult(text)).toMatchObject({ outcome: 'unknown', receipt: null });
      expect(readTransactionStatus(text).answered).toBe(false);
    }
  });
});

test('queries a reversal by its conversation id', async () => {
  const { receipt } = await context.pay(951);
  const outcome = await reverse(daraja, { receipt, refundCents: 95_100, remarks: 'Refund', ...results() });
  if (outcome.kind !== 'accepted') throw new Error(outcome.kind);
  const reversed = readReversalResult((await context.receive('/result')).text);
  const { originatorConversationId } = outcome;
  await requestTransactionStatus(daraja, { originatorConversationId, ...results() });
  expect(readTransactionStatus((await context.receive('/result', 2)).text)).toMatchObject({
    answered: true,
    receipt: reversed.receipt,
    status: 'Completed',
  });
});
