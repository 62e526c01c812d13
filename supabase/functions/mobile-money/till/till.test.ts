// Payments without a prompt, with a real database and the Daraja simulator: registered, confirmed, validated, and found in the
// statement when every message was lost.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { defaultCredentials, defaultMerchant, startDarajaSimulator } from '@jani-juice/daraja-simulator';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { shopMigrations } from '../../../../scripts/databases/shop-migrations.ts';
import { readTillPayment } from '../daraja/c2b-payment.ts';
import { isKnownSource } from '../daraja/known-sources.ts';
import { createMobileMoney, type MobileMoneyEvent } from '../handler.ts';

const secretKey = 'sb_secret_for_tests';
const mango = 'a0000000-0000-4000-8000-000000000001';
interface Order {
  id: string;
  tracking_number: string;
  total_amount: number;
}

async function openTill(kind: Database['kind']) {
  const database = await throwawayDatabase(kind, shopMigrations);
  await database.execute(await readFile('supabase/seed.sql', 'utf8'));
  await database.query('update public.products set stock_quantity = 100000');
  const data = await createDataService({ database, schemas: ['public'] });
  const simulator = await startDarajaSimulator({
    decisionDelayMs: 20,
    confirmationDelayMs: 10,
    tooEarlyMs: 0,
    statementPageSize: 2,
    queryLimit: { requests: 1_000, perMs: 60_000 },
  });
  const logged: MobileMoneyEvent[] = [];
  let down: RegExp | null = null;
  const handle = createMobileMoney({
    database: {
      url: 'http://database.test',
      secretKey,
      fetch: async (input, init) => {
        const request = new Request(input, init);
        if (down?.test(request.url)) throw new TypeError('fetch failed');
        return data.fetch(request, { claims: { role: 'service_role' }, address: null });
      },
    },
    daraja: {
      baseUrl: simulator.url,
      ...defaultCredentials,
      nominatedNumber: defaultMerchant.nominatedNumber,
      transactionType: 'CustomerPayBillOnline',
      timeoutMs: 3000,
    },
    callbackBaseUrl: () => `${url}/functions/v1/mobile-money/notice`,
    log: (event) => logged.push(event),
  });
  const server = createAdaptorServer({ fetch: handle, overrideGlobalObjects: false }) as Server;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const post = async (address: string, body: unknown, headers: Record<string, string> = {}) => {
    const response = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  };
  const act = async (action: string, key = secretKey) =>
    post(`${url}/functions/v1/mobile-money`, { action }, { apikey: key });

  return {
    database,
    logged,
    simulator,
    url,
    post,
    act,
    setDown(what: RegExp | null) {
      down = what;
    },
    control: (path: string, body: unknown) => post(`${simulator.url}/simulator/${path}`, body),
    async order(): Promise<Order> {
      const { rows } = await asRole(database, { role: 'anon' }, (session) =>
        session.query<{ order: Order }>(
          `select public.place_order($1, $2, 1, 'Amina', 'amina@example.com', '0712345678', 'Westlands', 95100) as order`,
          [randomUUID(), mango],
        ),
      );
      return rows[0]?.order as Order;
    },
    initiate: (order: Order, phoneNumber: string) =>
      post(`${url}/functions/v1/mobile-money`, {
        action: 'initiate',
        phoneNumber,
        amount: order.total_amount,
        trackingNumber: order.tracking_number,
        orderId: order.id,
      }),
    async money(order: Order) {
      const { rows } = await database.query<{ money: string; payments: string[] }>(
        `select o.payment_status as money,
                coalesce((select json_agg(p.method || ' ' || p.status order by p.created_at)
                          from public.payments as p where p.order_id = o.id), '[]') as payments
         from public.orders as o where o.id = $1`,
        [order.id],
      );
      return rows[0];
    },
    async secret() {
      const { rows } = await database.query<{ secret: string }>('select public.read_till_secret() as secret');
      return rows[0]?.secret ?? '';
    },
    /** Makes a statement due. */
    forgetPulls: () => database.query('delete from public.statement_pulls'),
    async close() {
      await simulator.close();
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
      await data.close();
      await database.close();
    },
  };
}

describe.each(testDatabases())('on %s', (kind) => {
  let till: Awaited<ReturnType<typeof openTill>>;
  let order: Order;
  beforeAll(async () => {
    till = await openTill(kind);
  });
  afterAll(() => till.close());
  beforeEach(async () => {
    order = await till.order();
  });

  const payByHand = (change: Record<string, unknown> = {}) =>
    till.control('payments', {
      phone: '0712345678',
      number: defaultCredentials.shortcode,
      amount: 951,
      reference: order.tracking_number,
      ...change,
    });
  const becomes = (state: Record<string, unknown>, of = order) =>
    vi.waitFor(async () => expect(await till.money(of)).toMatchObject(state), { timeout: 20_000 });
  const confirmation = (change: Record<string, unknown> = {}) =>
    JSON.stringify({
      TransactionType: 'Pay Bill',
      TransID: `UKL${randomUUID().replaceAll('-', '').slice(0, 7).toUpperCase()}`,
      TransTime: '20261121121500',
      TransAmount: '951.00',
      BusinessShortCode: defaultCredentials.shortcode,
      BillRefNumber: order.tracking_number,
      MSISDN: '2547 ***** 678',
      FirstName: 'AMINA',
      LastName: 'KAMAU',
      ...change,
    });
  const tillAddress = async (purpose: string, secret?: string) =>
    `${till.url}/functions/v1/mobile-money/till/${secret ?? (await till.secret())}/${purpose}`;

  test('its actions need the secret key', async () => {
    for (const action of ['pull-statement', 'take-up-till', 'query-open']) {
      expect((await till.act(action, 'sb_publishable')).status, action).toBe(401);
    }
    // Staff may, too.
    expect((await till.act('register-till', 'sb_publishable')).status).toBe(403);
    expect((await till.act('constructor')).status).toBe(400);
  });

  test('before registration no confirmation is received and no statement pulled', async () => {
    expect((await till.act('pull-statement')).body).toBeNull();
    expect((await payByHand()).status).toBe(200);
    expect(await till.money(order)).toMatchObject({ money: 'unpaid' });
  });

  test('registers URLs that M-PESA accepts, and can repeat it', async () => {
    for (const _ of [1, 2]) {
      expect((await till.act('register-till')).body).toMatchObject({
        till: { kind: 'registered' },
        statement: { kind: expect.stringMatching(/registered/) },
      });
    }
    const { rows } = await till.database.query(
      'select kind, api_version from private.mpesa_registrations order by kind',
    );
    expect(rows).toEqual([
      { kind: 'statement', api_version: null },
      { kind: 'till', api_version: 'v2' },
    ]);
    expect((await till.act('describe-setup')).body.setup).toMatchObject({ c2b: { version: 'v2' } });
  });

  test('counts registrations by staff, and refuses the eleventh within an hour', async () => {
    const begin = () =>
      asRole(till.database, { role: 'service_role' }, (session) =>
        session.query('select public.begin_till_registration()'),
      );
    await till.database.query(`delete from private.rate_limits where bucket = 'till_registrations'`);
    await begin();
    // The hour may end between two calls.
    await till.database.query(
      `update private.rate_limits set hits = 10, window_start = date_bin('1 hour', clock_timestamp(), timestamptz '2000-01-01')
       where bucket = 'till_registrations'`,
    );
    await expect(begin()).rejects.toMatchObject({ code: 'PT429', detail: 'too_many_registrations' });
  });

  test('a payment without a prompt pays the order of its reference, in either spelling', async () => {
    await payByHand();
    await becomes({ money: 'paid', payments: ['till completed'] });
    order = await till.order();
    const { tracking_number: number } = order;
    await payByHand({ reference: `jj${number.slice(5, 11)} ${number.slice(12)}` });
    await becomes({ money: 'paid', payments: ['till completed'] });
  });

  test('a payment at a till, without a reference, needs review', async () => {
    const { body } = await payByHand({ number: defaultMerchant.tillNumber, reference: '' });
    await vi.waitFor(
      async () => {
        const { rows } = await till.database.query(
          'select receipt, received_cents, reference, payment_id from public.mpesa_transactions where receipt = $1',
          [body.receipt],
        );
        expect(rows).toEqual([
          { receipt: body.receipt, received_cents: 95_100, reference: '', payment_id: null },
        ]);
      },
      { timeout: 20_000 },
    );
  });

  test('a confirmation completes a prompt whose callback is lost', async () => {
    await till.control('faults', { callbacks: { next: 1, kind: 'drop' } });
    await till.initiate(order, '0711000111');
    await becomes({ money: 'paid', payments: ['prompt completed'] });
  });

  test('a prompt and its confirmation are one payment', async () => {
    await till.initiate(order, '0711000222');
    await becomes({ money: 'paid', payments: ['prompt completed'] });
    await vi.waitFor(
      async () => {
        const { rows } = await till.database.query(
          `select from public.mpesa_transactions as t join public.payments as p on p.id = t.payment_id
         where p.order_id = $1 and t.reported_by_confirmation_at is not null`,
          [order.id],
        );
        expect(rows).toHaveLength(1);
      },
      { timeout: 20_000 },
    );
    expect(await till.money(order)).toEqual({ money: 'paid', payments: ['prompt completed'] });
  });

  test('a callback with a wrong amount needs review, and the statement corrects it', async () => {
    await till.initiate(order, '0711009005');
    await becomes({ money: 'unpaid', payments: ['prompt review'] });
    await till.forgetPulls();
    await till.act('pull-statement');
    expect(await till.money(order)).toEqual({ money: 'paid', payments: ['prompt completed'] });
    const { rows } = await till.database.query<{ charge_cents: number }>(
      `select p.charge_cents from public.payments as p
       join public.mpesa_transactions as t on t.payment_id = p.id and t.received_cents = p.charge_cents where p.order_id = $1`,
      [order.id],
    );
    expect(rows).toEqual([{ charge_cents: 95_100 }]);
  });

  test('the statement finds lost payments, page by page, once', async () => {
    await till.forgetPulls();
    await till.act('pull-statement');
    const orders = [order, await till.order(), await till.order(), await till.order(), await till.order()];
    for (const of of orders) {
      await till.control('faults', { confirmations: { next: 1, kind: 'drop' } });
      expect((await payByHand({ reference: of.tracking_number })).status).toBe(200);
    }
    expect(await till.money(order)).toMatchObject({ money: 'unpaid' });
    await till.forgetPulls();
    expect((await till.act('pull-statement')).body).toMatchObject({ newPayments: 5 });
    for (const of of orders) {
      expect(await till.money(of)).toEqual({ money: 'paid', payments: ['till completed'] });
    }
    // Not pulled again before it is due, and then nothing is new.
    expect((await till.act('pull-statement')).body).toBeNull();
    await till.forgetPulls();
    expect((await till.act('pull-statement')).body).toMatchObject({ newPayments: 0 });
  });

  test('a failed pull is repeated', async () => {
    await till.forgetPulls();
    await till.control('faults', { statements: { next: 1, kind: 'unavailable' } });
    await till.act('pull-statement');
    const { rows } = await till.database.query('select outcome, problem from public.statement_pulls');
    expect(rows).toEqual([{ outcome: 'failed', problem: expect.stringMatching(/\S/) }]);
    await till.forgetPulls();
  });

  describe('a statement with unusual lines', () => {
    const line = (change: Record<string, unknown> = {}) => ({
      transactionId: `UKL${randomUUID().replaceAll('-', '').slice(0, 7).toUpperCase()}`,
      trxDate: new Date(Date.now() - 60_000).toISOString().replace(/\.\d+/, ''),
      msisdn: '254722000000',
      sender: 'MPESA',
      transactiontype: 'c2b-pay-bill-debit',
      billreference: order.tracking_number,
      amount: '951.00',
      organizationname: 'x',
      ...change,
    });
    const add = (added: unknown) => till.control('lines', { line: added });
    const pull = async () => {
      await till.forgetPulls();
      await till.act('pull-statement');
      const { rows } = await till.database.query(
        'select outcome, unreadable, problem from public.statement_pulls',
      );
      return rows[0];
    };
    const waiting = async () =>
      (
        await till.database.query<{ id: number; problem: string; body: string }>(
          'select id, problem, body from public.messages_to_check where resolution is null order by id',
        )
      ).rows;
    const checkAll = () =>
      till.database.query(
        `update public.messages_to_check set resolution = 'not_a_payment', resolved_at = now() where resolution is null`,
      );
    const complete = { outcome: 'complete', unreadable: 0, problem: null };
    afterEach(checkAll);

    test.each([
      'receipt-small',
      'receipt-blanks',
      'receipt-wide',
      'amount-groups',
      'amount-currency',
      'amount-whole',
      'time-day-first',
      'time-dots',
      'time-twelve-hours',
      'time-month-name',
    ])('%s is read in confirmations and in the statement, as the same payment', async (spelling) => {
      await till.control('faults', { confirmations: { next: 1, kind: 'spell', spelling } });
      const { body } = await payByHand();
      await becomes({ money: 'paid', payments: ['till completed'] });
      await till.control('faults', { lines: { next: 1000, kind: 'spell', spelling } });
      const second = await till.order();
      await till.control('faults', { confirmations: { next: 1, kind: 'drop' } });
      await payByHand({ reference: second.tracking_number });
      expect(await pull()).toEqual(complete);
      await till.control('faults', { lines: { next: 0, kind: 'spell', spelling } });
      expect(await till.money(order)).toEqual({ money: 'paid', payments: ['till completed'] });
      expect(await till.money(second)).toEqual({ money: 'paid', payments: ['till completed'] });
      const { rows } = await till.database.query('select receipt from public.payments where order_id = $1', [
        order.id,
      ]);
      expect(rows).toEqual([{ receipt: body.receipt }]);
      expect(await waiting()).toEqual([]);
    });

    test.each(['receipt-unreadable', 'amount-unreadable', 'time-unreadable'])(
      '%s keeps a pull from being complete, until the line is checked',
      async (spelling) => {
        await till.control('faults', { confirmations: { next: 1, kind: 'drop' } });
        const { body } = await payByHand();
        await till.control('faults', {
          script: [{ target: 'lines', kind: 'spell', spelling, share: 1, seed: 1 }],
        });
        const first = await pull();
        expect(first).toMatchObject({
          outcome: 'failed',
          problem: expect.stringMatching(/could not be read/),
        });
        const count = (await waiting()).length;
        expect(first?.unreadable).toBe(count);
        // The same lines again are no further messages.
        await pull();
        expect((await waiting()).length).toBe(count);
        expect(await till.money(order)).toMatchObject({ money: 'unpaid' });
        expect((await waiting()).at(-1)?.body).toContain(body.receipt.slice(0, 6));
        await checkAll();
        expect(await pull()).toEqual(complete);
        await till.control('faults', { script: [] });
        expect(await pull()).toEqual(complete);
        expect(await till.money(order)).toMatchObject({ money: 'paid' });
      },
    );

    test('pages of unreadable lines do not end a pull', async () => {
      // Two lines are one page.
      for (const broken of ['a text', 7, null, { trxDate: 'x' }, [], {}]) await add(broken);
      await add(line());
      expect(await pull()).toMatchObject({ outcome: 'failed' });
      expect(await till.money(order)).toEqual({ money: 'paid', payments: ['till completed'] });
      expect((await waiting()).map(({ body }) => body)).toEqual(
        expect.arrayContaining(['"a text"', '7', '{"trxDate":"x"}', '{}']),
      );
    });

    test.each([
      ['Pay Bill Charge', []],
      ['Withdrawal', []],
      ['Business Payment', []],
      ['Pay Bill Reversal', ['reversed']],
      ['Business Pay Bill', ['unknown_kind']],
      ['Something New', ['unknown_kind']],
    ])('a line of the kind %s pays no order', async (transactiontype, problems) => {
      await add(line({ transactiontype }));
      await add(line({ transactiontype, amount: '-951.00' }));
      await pull();
      expect(await till.money(order)).toEqual({ money: 'unpaid', payments: [] });
      expect([...new Set((await waiting()).map(({ problem }) => problem))]).toEqual(problems);
    });

    test('a line without a kind is a payment', async () => {
      await add(line({ transactiontype: undefined }));
      expect(await pull()).toEqual(complete);
      expect(await till.money(order)).toMatchObject({ money: 'paid' });
    });

    test('a reversal that is listed before its payment puts the order under review, and is no payment', async () => {
      const paid = line();
      await add(
        line({ transactiontype: 'Pay Bill Reversal', billreference: paid.transactionId, amount: '-951.00' }),
      );
      await add(paid);
      await till.forgetPulls();
      expect((await till.act('pull-statement')).body).toMatchObject({ newPayments: 1 });
      expect(await till.money(order)).toMatchObject({ money: 'needs_review' });
      expect(await waiting()).toMatchObject([{ problem: 'reversed' }]);
    });

    test('a payment that M-PESA reversed without our request puts its order under review', async () => {
      const { body } = await payByHand();
      await becomes({ money: 'paid' });
      await till.control('reversals', { receipt: body.receipt });
      expect(await pull()).toEqual(complete);
      expect(await till.money(order)).toMatchObject({ money: 'needs_review' });
      expect(await waiting()).toMatchObject([{ problem: 'reversed' }]);
    });
  });

  test.each([
    ['an amount that cannot be read', { TransAmount: '951,00' }, ['amount']],
    ['no amount', { TransAmount: undefined }, ['amount']],
    ['a receipt that cannot be read', { TransID: 'UKL-1' }, ['receipt']],
    ['no receipt', { TransID: undefined }, ['receipt']],
    ['nothing readable', { TransID: {}, TransAmount: [], TransTime: 'x' }, ['amount', 'receipt', 'time']],
    ['an unknown kind', { TransactionType: 'Something New' }, []],
  ])('a confirmation with %s waits for staff, once', async (_, change, unreadable) => {
    const body = confirmation(change);
    for (const _time of [1, 2]) {
      expect((await till.post(await tillAddress('confirmation'), body)).status).toBe(200);
    }
    const { rows } = await till.database.query(
      'select source, body, unreadable from public.messages_to_check where resolution is null',
    );
    expect(rows).toEqual([{ source: 'confirmation', body, unreadable }]);
    expect(await till.money(order)).toMatchObject({ money: 'unpaid' });
    await till.database.query(
      `update public.messages_to_check set resolution = 'not_a_payment', resolved_at = now() where resolution is null`,
    );
  });

  test('a confirmation that cannot be settled is stored, answered and settled later', async () => {
    till.setDown(/receive_mpesa_transaction/);
    expect((await till.post(await tillAddress('confirmation'), confirmation())).status).toBe(200);
    till.setDown(null);
    expect(await till.money(order)).toMatchObject({ money: 'unpaid' });
    await till.database.query(
      `update public.payment_messages set received_at = received_at - interval '1 minute' where outcome is null`,
    );
    expect((await till.act('take-up-till')).body).toEqual({ found: 1, taken: 1 });
    expect(await till.money(order)).toEqual({ money: 'paid', payments: ['till completed'] });
    expect((await till.act('take-up-till')).body).toEqual({ found: 0, taken: 0 });
  });

  test('a confirmation that cannot be stored is requested again', async () => {
    till.setDown(/./);
    expect((await till.post(await tillAddress('confirmation'), confirmation())).status).toBe(503);
    till.setDown(null);
  });

  test.each(['', 'null', '[]', '{', '{"TransID": {}}', 'x'.repeat(70_000)])(
    'a malformed confirmation (%#) is stored and changes nothing',
    async (body) => {
      const before = await till.money(order);
      expect(await till.post(await tillAddress('confirmation'), body)).toEqual({
        status: 200,
        body: { ResultCode: 0, ResultDesc: 'Accepted' },
      });
      expect(await till.money(order)).toEqual(before);
    },
  );

  test.each([
    ['another secret', () => 'f'.repeat(64)],
    ['no secret', () => 'x'],
  ])('%s gives no access', async (_, secret) => {
    for (const purpose of ['validation', 'confirmation']) {
      const answer = await till.post(await tillAddress(purpose, secret()), confirmation());
      expect(answer.status).toBe(404);
    }
    expect((await till.post(await tillAddress('result'), confirmation())).status).toBe(404);
    expect(await till.money(order)).toMatchObject({ money: 'unpaid' });
  });

  describe('before a payment is made', () => {
    const validate = async (change: Record<string, unknown> = {}) =>
      (await till.post(await tillAddress('validation'), confirmation(change))).body.ResultCode;
    const refuseUnknown = (refuses: boolean) =>
      till.database.query('update public.store_settings set refuses_unknown_payments = $1', [refuses]);

    test('every payment is accepted, unless the settings validate', async () => {
      expect(await validate({ BillRefNumber: 'rent', TransAmount: '12.50' })).toBe('0');
      await refuseUnknown(true);
      expect(await validate()).toBe('0');
      expect(await validate({ BillRefNumber: 'rent' })).toBe('C2B00012');
      expect(await validate({ TransAmount: '952.00' })).toBe('C2B00013');
      expect(await validate({ TransAmount: '0' })).toBe('C2B00013');
      // At a till customers enter no reference.
      expect(await validate({ TransactionType: 'Buy Goods', BillRefNumber: '' })).toBe('0');
      expect((await payByHand({ reference: 'rent' })).status).toBe(409);
      await refuseUnknown(false);
    });

    test('our errors stop no payment', async () => {
      await refuseUnknown(true);
      till.setDown(/validate_till_payment/);
      expect(await validate({ BillRefNumber: 'rent' })).toBe('0');
      till.setDown(null);
      await refuseUnknown(false);
    });
  });

  test('logs no secrets or personal data', async () => {
    const logged = JSON.stringify(till.logged);
    expect(till.logged.length).toBeGreaterThan(10);
    expect(logged).not.toContain(await till.secret());
    expect(logged).not.toMatch(/AMINA|KAMAU|2547|0712345678/i);
  });
});

test('reads a confirmation with missing and malformed fields', () => {
  expect(
    readTillPayment(
      '{"TransID":" ukl3ab12cd ","TransAmount":5,"BillRefNumber":12,"TransTime":20261121121500,"MSISDN":"?"}',
    ),
  ).toEqual({
    receipt: 'UKL3AB12CD',
    receivedCents: 500,
    kind: 'payment',
    unreadable: [],
    reference: '12',
    hasReference: true,
    transactedAt: new Date('2026-11-21T09:15:00Z'),
    payerPhone: null,
    payerName: null,
  });
  expect(readTillPayment('nothing')).toMatchObject({ receipt: null, receivedCents: null, reference: '' });
});

test.each([
  ['196.201.214.200', true],
  ['::ffff:196.201.212.69', true],
  ['203.0.113.7', false],
  [null, false],
])('%s is an IP address of M-PESA: %s', (address, is) => {
  expect(isKnownSource(address, 'https://api.safaricom.co.ke')).toBe(is);
  expect(isKnownSource(address, 'http://127.0.0.1:4000')).toBe(true);
});
