// The payment function with a real database and the Daraja simulator, over HTTP.
import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { defaultCredentials, merchantRefusals, startDarajaSimulator } from '@jani-juice/daraja-simulator';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import { shopMigrations } from '../../../../scripts/databases/shop-migrations.ts';
import { createMobileMoney, type MobileMoneyEvent, type MobileMoneySettings } from '../handler.ts';

const secretKey = 'sb_secret_for_tests';
const mango = 'a0000000-0000-4000-8000-000000000001';

interface Order {
  id: string;
  tracking_number: string;
  total_amount: number;
}
interface Prompt {
  phone: string;
  amount: number;
  accountReference: string;
  callbackUrl: string;
  checkoutRequestId: string;
  state: string;
  receipt: string | null;
  moneyMoved: number;
  callbacksOutstanding: number;
  queries: number;
}
// biome-ignore lint/suspicious/noExplicitAny: the tests read answers of many shapes.
type Answer = { status: number; body: any };

const initiation = (order: Order, phoneNumber: string) => ({
  action: 'initiate',
  phoneNumber,
  amount: order.total_amount,
  trackingNumber: order.tracking_number,
  orderId: order.id,
});

async function openPayments(kind: Database['kind'], changes: Partial<MobileMoneySettings['daraja']> = {}) {
  const database = await throwawayDatabase(kind, shopMigrations);
  await database.execute(await readFile('supabase/seed.sql', 'utf8'));
  await database.query('update public.products set stock_quantity = 100000');
  const data = await createDataService({ database, schemas: ['public'] });
  const simulator = await startDarajaSimulator({
    decisionDelayMs: 30,
    lateSuccessDelayMs: 200,
    tooEarlyMs: 0,
    queryLimit: { requests: 1_000, perMs: 60_000 },
  });
  const logged: MobileMoneyEvent[] = [];
  let isStoreDown = false;
  let afterAnswer: MobileMoneySettings['afterAnswer'];
  let onRefused = () => {};

  const handle = createMobileMoney({
    database: {
      url: 'http://database.test',
      secretKey,
      fetch: async (input, init) => {
        if (isStoreDown) {
          onRefused();
          throw new TypeError('fetch failed');
        }
        const request = new Request(input, init);
        const key = request.headers.get('apikey');
        const bearer = request.headers.get('authorization');
        const isSecret = key === secretKey && bearer === `Bearer ${secretKey}`;
        return data.fetch(request, {
          claims: { role: isSecret ? 'service_role' : 'anon' },
          address: null,
        });
      },
    },
    daraja: {
      baseUrl: simulator.url,
      ...defaultCredentials,
      transactionType: 'CustomerPayBillOnline',
      timeoutMs: 3000,
      ...changes,
    },
    callbackBaseUrl: () => `${url}/functions/v1/mobile-money/notice`,
    afterAnswer: (work) => (afterAnswer ? afterAnswer(work) : work()),
    log: (event) => logged.push(event),
  });
  const server = createAdaptorServer({ fetch: handle, overrideGlobalObjects: false }) as Server;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function read(response: Response): Promise<Answer> {
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  }
  async function post(body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return read(
      await fetch(`${url}/functions/v1/mobile-money`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    );
  }
  async function control(path: string, body: unknown): Promise<void> {
    const answer = await fetch(`${simulator.url}/simulator/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(answer.status, await answer.text()).toBe(200);
  }
  const ledger = async () =>
    (await (await fetch(`${simulator.url}/simulator/ledger`)).json()) as {
      moneyMoved: number;
      prompts: Prompt[];
      refused: { accountReference: string; errorCode: string }[];
    };

  let phones = 0;
  return {
    database,
    logged,
    url,
    simulator,
    post,
    control,
    ledger,
    /** Undefined: before the answer. */
    setAfterAnswer(given: MobileMoneySettings['afterAnswer']) {
      afterAnswer = given;
    },
    setStoreDown(isDown: boolean) {
      isStoreDown = isDown;
      onRefused = () => {};
    },
    /** Makes the next call of the database fail. */
    failStoreOnce() {
      isStoreDown = true;
      onRefused = () => {
        isStoreDown = false;
      };
    },
    /** A new phone number. Its ending selects the outcome in the simulator. */
    phone(ending = '5678') {
      phones += 1;
      return `07${String(phones).padStart(4, '0')}${ending}`;
    },
    async order(productId = mango, total = 95_100): Promise<Order> {
      const { rows } = await asRole(database, { role: 'anon' }, (session) =>
        session.query<{ order: Order }>(
          `select public.place_order($1, $2, 1, 'Amina', 'amina@example.com', '0712345678', 'Westlands', $3) as order`,
          [randomUUID(), productId, total],
        ),
      );
      return rows[0]?.order as Order;
    },
    initiate: (order: Order, phoneNumber: string, change: Record<string, unknown> = {}) =>
      post({ ...initiation(order, phoneNumber), ...change }),
    async status(checkoutRequestId: string) {
      const { body } = await post({ action: 'check-status', checkoutRequestId });
      return body.payment as { status: string; result_code: string | null };
    },
    /** The prompts of an order in the simulator's ledger. */
    async prompts(order: Order): Promise<Prompt[]> {
      const { prompts } = await ledger();
      const reference = `JJ${order.tracking_number.slice(5, 11)}${order.tracking_number.slice(12)}`;
      return prompts.filter(({ accountReference }) => accountReference === reference);
    },
    notify: async (address: string, body: string | Uint8Array<ArrayBuffer>, headers = {}) =>
      read(await fetch(address, { method: 'POST', body, headers })),
    /** Makes every open payment due, and queries one of them. */
    async ask(): Promise<Answer> {
      await database.query(
        `update public.payments set next_query_at = now() - interval '1 second' where status = 'processing'`,
      );
      await database.query(`delete from private.rate_limits where bucket = 'payment_queries'`);
      return post({ action: 'query-open' }, { apikey: secretKey });
    },
    /** State of an order with its payments. */
    async books(order: Order) {
      const { rows } = await database.query<{ money: string; payments: string[]; messages: string[] }>(
        `select o.payment_status as money,
                coalesce((select json_agg(p.status order by p.created_at) from public.payments as p where p.order_id = o.id), '[]') as payments,
                coalesce((select json_agg(m.source || ' ' || coalesce(m.outcome, '-') order by m.id)
                          from public.payment_messages as m join public.payments as p on p.id = m.payment_id
                          where p.order_id = o.id), '[]') as messages
         from public.orders as o where o.id = $1`,
        [order.id],
      );
      return rows[0] as { money: string; payments: string[]; messages: string[] };
    },
    /** All rows that a forged or malformed message could change. */
    async everything() {
      const { rows } = await database.query(
        `select (select json_agg(to_jsonb(o) order by o.id) from public.orders as o) as orders,
                (select json_agg(to_jsonb(p) order by p.id) from public.payments as p) as payments,
                (select json_agg(to_jsonb(d) order by d.id) from public.deliveries as d) as deliveries,
                (select sum(stock_quantity) from public.products) as stock`,
      );
      return rows[0];
    },
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
  let shop: Awaited<ReturnType<typeof openPayments>>;
  let order: Order;
  beforeAll(async () => {
    shop = await openPayments(kind);
  });
  afterAll(() => shop.close());
  beforeEach(async () => {
    order = await shop.order();
  });
  afterEach(async () => {
    // The simulator's ledger is the truth: an order is paid only with a recorded payment, and only once.
    const { prompts } = await shop.ledger();
    const { rows } = await shop.database.query<{ checkout_request_id: string; charge_cents: number }>(
      `select checkout_request_id, charge_cents from public.payments where status = 'completed' and checkout_request_id is not null`,
    );
    for (const payment of rows) {
      const prompt = prompts.find((one) => one.checkoutRequestId === payment.checkout_request_id);
      expect(prompt?.moneyMoved).toBe(payment.charge_cents / 100);
    }
    const { rows: wrong } = await shop.database.query(
      `select o.id from public.orders as o
       where (o.payment_status = 'paid') <> (1 = (select count(*) from public.payments as p
         where p.order_id = o.id and p.status = 'completed' and not p.needs_refund))`,
    );
    expect(wrong).toEqual([]);
  });

  const statusBecomes = (checkoutRequestId: string, status: string) =>
    vi.waitFor(
      async () => {
        const payment = await shop.status(checkoutRequestId);
        expect(payment.status).toBe(status);
        return payment;
      },
      { timeout: 20_000 },
    );
  const decided = (of: Order) =>
    vi.waitFor(
      async () => {
        const [prompt] = await shop.prompts(of);
        expect(prompt).toMatchObject({ state: 'decided', callbacksOutstanding: 0 });
        return prompt as Prompt;
      },
      { timeout: 20_000 },
    );
  /** An order whose prompt was paid, but whose callback was lost. */
  async function paidUnheard(of: Order): Promise<Prompt> {
    await shop.control('faults', { callbacks: { next: 1, kind: 'drop' } });
    const { body } = await shop.initiate(of, shop.phone());
    expect(body.success).toBe(true);
    return decided(of);
  }
  const callback = (
    prompt: Prompt,
    change: Record<string, unknown> = {},
    items: Record<string, unknown> = {},
  ) => {
    const named = { Amount: prompt.amount, MpesaReceiptNumber: prompt.receipt, ...items };
    return JSON.stringify({
      Body: {
        stkCallback: {
          MerchantRequestID: 'm',
          CheckoutRequestID: prompt.checkoutRequestId,
          ResultCode: 0,
          ResultDesc: 'ok',
          CallbackMetadata: { Item: Object.entries(named).map(([Name, Value]) => ({ Name, Value })) },
          ...change,
        },
      },
    });
  };

  describe('paying', () => {
    test('prompts the phone for whole shillings and ends in completed', async () => {
      const phoneNumber = shop.phone();
      const { status, body } = await shop.initiate(order, phoneNumber);
      expect([status, body]).toEqual([
        200,
        { success: true, checkoutRequestId: expect.stringMatching(/^ws_CO_/), chargeCents: 95_100 },
      ]);
      expect(await statusBecomes(body.checkoutRequestId, 'completed')).toEqual({
        status: 'completed',
        result_code: '0',
      });
      expect(await shop.prompts(order)).toMatchObject([
        { phone: `254${phoneNumber.slice(1)}`, amount: 951, moneyMoved: 951 },
      ]);
      expect(await shop.books(order)).toEqual({
        money: 'paid',
        payments: ['completed'],
        messages: ['push accepted', 'callback paid'],
      });
    });

    test('sends no prompt as staff for a caller without a staff session', async () => {
      const asked = { ...initiation(order, shop.phone()), byStaff: true };
      expect(await shop.post(asked)).toEqual({ status: 403, body: { error: 'Only staff may do this' } });
      expect(await shop.post({ ...asked, byStaff: false })).toMatchObject({ body: { success: true } });
    });

    test("counts attempts for the customer's network, not for the function's", async () => {
      const from = (address: string) =>
        shop.post(initiation(order, shop.phone('1032')), { 'x-forwarded-for': address });
      for (let attempt = 0; attempt < 10; attempt += 1) {
        const { body } = await from('192.0.2.99');
        expect(body).toMatchObject({ success: true });
        await statusBecomes(body.checkoutRequestId, 'failed');
      }
      const { status, body } = await from('192.0.2.99');
      expect([status, body]).toEqual([
        200,
        {
          success: false,
          code: 'too_many_attempts',
          error: expect.stringMatching(
            /^Too many payment attempts for this order\. Please try again in .+, or call or WhatsApp us on 0700 000 000$/,
          ),
        },
      ]);
      expect(await shop.prompts(order)).toHaveLength(10);
      const customer = await from('192.0.2.98');
      expect(customer.body).toMatchObject({ success: true });
      await statusBecomes(customer.body.checkoutRequestId, 'failed');
    });

    test('rounds cents up to the shilling and reports it', async () => {
      await shop.database.query(
        `insert into public.products (id, name, slug, price, stock_quantity) values ($1, 'Odd', $2, 12345, 9)`,
        [order.id, `odd-${order.id}`],
      );
      const odd = await shop.order(order.id, 12_445);
      const { body } = await shop.initiate(odd, shop.phone());
      expect(body).toMatchObject({ success: true, chargeCents: 12_500 });
      expect(await shop.prompts(odd)).toMatchObject([{ amount: 125 }]);
      await statusBecomes(body.checkoutRequestId, 'completed');
    });

    test.each([
      ['0001', '1'],
      ['1001', '1001'],
      ['1019', '1019'],
      ['1025', '1025'],
      ['1032', '1032'],
      ['1037', '1037'],
      ['2001', '2001'],
    ])('from a phone ending in %s fails with result %s, and can be tried again', async (ending, code) => {
      const { body } = await shop.initiate(order, shop.phone(ending));
      expect(body.success).toBe(true);
      expect(await statusBecomes(body.checkoutRequestId, 'failed')).toEqual({
        status: 'failed',
        result_code: code,
      });
      expect(await shop.books(order)).toMatchObject({ money: 'unpaid', payments: ['failed'] });
      const again = await shop.initiate(order, shop.phone());
      await statusBecomes(again.body.checkoutRequestId, 'completed');
    });

    test('9001: without a callback, a query completes it', async () => {
      const { body } = await shop.initiate(order, shop.phone('9001'));
      // A request for another phone in the meantime returns the masked phone of the open prompt.
      expect((await shop.initiate(order, shop.phone())).body).toEqual({
        ...body,
        promptedPhone: '0700 ••• •••',
      });
      await decided(order);
      expect(await shop.status(body.checkoutRequestId)).toEqual({ status: 'pending', result_code: null });
      expect((await shop.ask()).body).toEqual({ queried: 1, settled: 1 });
      expect((await shop.status(body.checkoutRequestId)).status).toBe('completed');
      expect((await shop.ask()).body).toEqual({ queried: 0, settled: 0 });
    });

    test('9002: three callbacks are one payment', async () => {
      const { body } = await shop.initiate(order, shop.phone('9002'));
      await statusBecomes(body.checkoutRequestId, 'completed');
      await decided(order);
      const { messages, ...books } = await shop.books(order);
      expect(books).toEqual({ money: 'paid', payments: ['completed'] });
      // They came at one moment: any may be the first.
      expect(messages.toSorted()).toEqual([
        'callback already_completed',
        'callback already_completed',
        'callback paid',
        'push accepted',
      ]);
    });

    test('9003: a callback before the answer to the push completes it', async () => {
      const { body } = await shop.initiate(order, shop.phone('9003'));
      expect(body.success).toBe(true);
      expect((await shop.status(body.checkoutRequestId)).status).toBe('completed');
      expect((await shop.books(order)).messages).toEqual(['callback paid', 'push accepted']);
    });

    test('9004: when the answer to the push is lost, its callback completes it', async () => {
      const { body } = await shop.initiate(order, shop.phone('9004'));
      expect(body).toMatchObject({
        success: true,
        checkoutRequestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      });
      await statusBecomes(body.checkoutRequestId, 'completed');
      expect(await shop.prompts(order)).toHaveLength(1);
      // In either order: the connection breaks while the callback is under way.
      expect((await shop.books(order)).messages.toSorted()).toEqual(['callback paid', 'push unknown']);
    });

    test('9005: a callback with a wrong amount pays nothing and needs review, whatever a query returns', async () => {
      const { body } = await shop.initiate(order, shop.phone('9005'));
      expect((await statusBecomes(body.checkoutRequestId, 'review')).status).toBe('review');
      await shop.ask();
      expect(await shop.books(order)).toMatchObject({ money: 'unpaid', payments: ['review'] });
      expect((await shop.initiate(order, shop.phone('1111'))).body).toMatchObject({
        success: false,
        code: 'payment_needs_review',
      });
    });

    test('9006: a success after a failure supersedes it', async () => {
      const { body } = await shop.initiate(order, shop.phone('9006'));
      expect(await statusBecomes(body.checkoutRequestId, 'failed')).toMatchObject({ result_code: '1037' });
      await statusBecomes(body.checkoutRequestId, 'completed');
      expect(await shop.books(order)).toMatchObject({ money: 'paid', payments: ['completed'] });
    });

    test('9007: a refused push fails immediately with a message, and another phone can be tried', async () => {
      const { status, body } = await shop.initiate(order, shop.phone('9007'));
      expect([status, body]).toEqual([
        200,
        {
          success: false,
          code: '500.001.1001',
          error: 'Another transaction in progress. Please wait and try again. ⏳',
        },
      ]);
      expect(await shop.books(order)).toMatchObject({ money: 'unpaid', payments: ['failed'] });
      const again = await shop.initiate(order, shop.phone());
      await statusBecomes(again.body.checkoutRequestId, 'completed');
    });
  });

  describe('a refusal that only the owner can end', () => {
    const owners = Object.keys(merchantRefusals).filter(
      (cause) => cause !== 'payload' && cause !== 'undocumented',
    );
    const refuse = (refusal: string) =>
      shop.control('faults', { script: [{ target: 'pushes', kind: 'refuse', refusal, share: 1 }] });
    const heal = async () => {
      await shop.control('faults', { script: [] });
      await shop.database.execute('delete from private.prompt_pause; delete from private.failed_prompts');
    };
    afterEach(heal);

    test.each(owners)('(%s) reaches one customer, and the next ones get no prompt', async (cause) => {
      await refuse(cause);
      const first = (await shop.initiate(order, shop.phone())).body;
      expect(first).toMatchObject({ success: false, endedBy: 'owner' });
      expect(first.error).not.toMatch(/try again/i);
      const second = (await shop.initiate(await shop.order(), shop.phone())).body;
      expect(second).toMatchObject({ success: false, code: 'prompts_paused', endedBy: 'owner' });
    });

    test.each(['payload', 'undocumented'])('(%s) is recognised by the third customer', async (cause) => {
      await refuse(cause);
      for (const code of [/^400/, /^400/, /^400/, /^prompts_paused$/]) {
        const { body } = await shop.initiate(await shop.order(), shop.phone());
        expect(body).toMatchObject({ success: false, code: expect.stringMatching(code) });
      }
    });
  });

  describe('a stranger with the data of a masked lookup', () => {
    const ids = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
    /** All data of an order that a visitor without proof receives, from every procedure and live channel. */
    async function shownTo(of: Order): Promise<{ masked: Record<string, unknown>; text: string }> {
      const { rows } = await asRole(shop.database, { role: 'anon' }, (session) =>
        session.query<{ tracked: Record<string, unknown>; receipt: unknown }>(
          'select public.track_order($1) as tracked, public.order_receipt($1) as receipt',
          [of.tracking_number],
        ),
      );
      const masked = rows[0]?.tracked ?? {};
      await shop.database.query(
        `update public.orders set status = 'processing' where id = $1 and status = 'pending'`,
        [of.id],
      );
      await shop.database.query(`update public.orders set status = 'pending' where id = $1`, [of.id]);
      const { rows: live } = await shop.database.query(
        'select topic, event, payload from realtime.messages where topic = $1',
        [`order-${masked.live_handle}`],
      );
      expect(live).toHaveLength(2);
      return { masked, text: JSON.stringify([rows, live]) };
    }

    test('cannot send a prompt', async () => {
      const other = await shop.order();
      const { masked, text } = await shownTo(order);
      const shown = [...new Set(text.match(ids))];
      expect(shown).toContain(masked.live_handle);
      expect(shown).not.toContain(order.id);
      expect(text).not.toContain(order.id.replaceAll('-', ''));
      const before = (await shop.ledger()).prompts.length;
      for (const change of [
        ...shown.flatMap((orderId) => [
          { orderId },
          { orderId: orderId.toUpperCase() },
          { orderId, amount: 1 },
        ]),
        // The stranger's own order, or its number.
        { orderId: other.id },
        { trackingNumber: other.tracking_number },
        { orderId: other.id, amount: other.total_amount, trackingNumber: ` ${order.tracking_number} ` },
        { orderId: order.tracking_number },
        { orderId: masked },
        { orderId: undefined },
      ]) {
        const { status, body } = await shop.initiate(order, shop.phone(), change);
        expect([status, body], JSON.stringify(change)).toEqual([
          200,
          { success: false, code: 'order_not_found', error: 'This order does not exist' },
        ]);
      }
      expect((await shop.ledger()).prompts).toHaveLength(before);
      expect(await shop.books(order)).toMatchObject({ payments: [] });
      // The customer has the order's id.
      const { body } = await shop.initiate(order, shop.phone());
      expect(body).toMatchObject({ success: true });
      await statusBecomes(body.checkoutRequestId, 'completed');
    });

    test('reads the status of a payment only with its id, and is rejected after sixty wrong ids', async () => {
      const { body } = await shop.initiate(order, shop.phone());
      const ask = (checkoutRequestId: unknown, address: string) =>
        shop.post({ action: 'check-status', checkoutRequestId }, { 'x-forwarded-for': address });
      for (let guess = 0; guess < 60; guess += 1) {
        expect((await ask(`ws_CO_${guess}`, '192.0.2.97')).status).toBe(404);
      }
      expect(await ask('ws_CO_60', '192.0.2.97')).toMatchObject({
        status: 429,
        body: { code: 'too_many_lookups' },
      });
      // A customer behind the same IP address still finds their own payment.
      const answered = await ask(body.checkoutRequestId, '192.0.2.97');
      expect(answered.status).toBe(200);
      expect(Object.keys(answered.body.payment).sort()).toEqual(['result_code', 'status']);
      for (const reference of ['x'.repeat(201), '', 7, null]) {
        expect((await ask(reference, '192.0.2.96')).status).toBe(400);
      }
    });
  });

  describe('a repeated request', () => {
    test('sends one prompt, and every answer has its id', async () => {
      const phoneNumber = shop.phone();
      const answers = await Promise.all(Array.from({ length: 10 }, () => shop.initiate(order, phoneNumber)));
      expect(await shop.prompts(order)).toHaveLength(1);
      for (const { body } of answers) {
        expect(body).toMatchObject({ success: true, chargeCents: 95_100 });
        await statusBecomes(body.checkoutRequestId, 'completed');
      }
    });

    test('after the payment sends no prompt and returns the completed payment', async () => {
      const first = await shop.initiate(order, shop.phone());
      await statusBecomes(first.body.checkoutRequestId, 'completed');
      const second = await shop.initiate(order, shop.phone());
      expect(second.body).toEqual(first.body);
      expect(await shop.prompts(order)).toHaveLength(1);
    });
  });

  describe('an invalid request', () => {
    test.each([
      ['an invalid phone', { phoneNumber: '12345' }, 'phone_invalid'],
      ['no phone', { phoneNumber: null }, 'phone_invalid'],
      ['a phone as a number', { phoneNumber: 712345678 }, 'phone_invalid'],
      ['an amount in text', { amount: '95100' }, 'amount_invalid'],
      ['half a cent', { amount: 95_100.5 }, 'amount_invalid'],
      ['a negative amount', { amount: -95_100 }, 'amount_invalid'],
      ['a huge amount', { amount: 1e300 }, 'amount_invalid'],
      ['a shilling less', { amount: 95_000 }, 'amount_changed'],
      ['no tracking number', { trackingNumber: '' }, 'tracking_number_invalid'],
      ['no order', { orderId: null }, 'order_not_found'],
      ['an invalid order id', { orderId: "' or true --" }, 'order_not_found'],
      ['an unknown order', { orderId: randomUUID() }, 'order_not_found'],
    ])('with %s is rejected with a message and sends no prompt', async (_, change, code) => {
      const before = (await shop.ledger()).prompts.length;
      const { status, body } = await shop.initiate(order, shop.phone(), change);
      expect([status, body]).toEqual([
        200,
        { success: false, code, error: expect.stringMatching(/\w+ \w+/) },
      ]);
      expect((await shop.ledger()).prompts).toHaveLength(before);
      expect(await shop.books(order)).toMatchObject({ money: 'unpaid', payments: [] });
    });

    test('is answered with a status and an error', async () => {
      const json = { 'content-type': 'application/json' };
      const send = async (init: RequestInit, path = '') =>
        (await fetch(`${shop.url}/functions/v1/mobile-money${path}`, init)).status;
      expect(await send({ method: 'GET' })).toBe(405);
      expect(await send({ method: 'POST', headers: json, body: '{' })).toBe(400);
      expect(await send({ method: 'POST', headers: json, body: '[]' })).toBe(400);
      expect(await send({ method: 'POST', headers: json, body: '' })).toBe(400);
      expect(await send({ method: 'POST', headers: json, body: '{"action":"refund"}' })).toBe(400);
      expect(await send({ method: 'POST', headers: json, body: '{"action":"check-status"}' })).toBe(400);
      expect(await send({ method: 'POST', body: '{"action":"initiate"}' })).toBe(415);
      expect(await send({ method: 'POST', headers: json, body: `"${'x'.repeat(20_000)}"` })).toBe(413);
      expect(await send({ method: 'POST', headers: json, body: '{}' }, '/elsewhere')).toBe(404);
    });

    test('queries a payment that does not exist', async () => {
      for (const checkoutRequestId of ['ws_CO_nobody', randomUUID(), "'", 'a\0b']) {
        const { status, body } = await shop.post({ action: 'check-status', checkoutRequestId });
        expect([status, body]).toEqual([404, { error: 'This payment does not exist' }]);
      }
    });

    test('queries M-PESA without the secret key', async () => {
      const keys = [
        {},
        { apikey: 'sb_publishable' },
        { apikey: '' },
        { authorization: `Bearer ${secretKey}x` },
      ];
      for (const headers of keys) {
        expect((await shop.post({ action: 'query-open' }, headers as Record<string, string>)).status).toBe(
          401,
        );
      }
      const bearer = { authorization: `Bearer ${secretKey}` };
      expect((await shop.post({ action: 'query-open' }, bearer)).status).toBe(200);
    });
  });

  describe('a forged callback', () => {
    test('at an unknown URL changes nothing', async () => {
      const prompt = await paidUnheard(order);
      const before = await shop.everything();
      const addresses = [
        randomBytes(32).toString('hex'),
        'x',
        `${prompt.callbackUrl.split('/').at(-1)}0`,
        '',
      ];
      for (const secret of addresses) {
        const address = `${shop.url}/functions/v1/mobile-money/notice/${secret}`;
        expect((await shop.notify(address, callback(prompt))).status).toBe(404);
      }
      expect(await shop.everything()).toEqual(before);
      // Positive control: the same body at the right URL pays.
      expect((await shop.notify(prompt.callbackUrl, callback(prompt))).status).toBe(200);
      expect(await shop.books(order)).toMatchObject({ money: 'paid' });
    });

    test.each([
      ['a shilling less', 950],
      ['a shilling more', 952],
      ['a hundred times as much', 95_100],
      ['a hundredth of it', 9.51],
      ['an amount of 0', 0],
      ['a negative amount', -951],
      ['a fraction of a cent more', 951.001],
      ['an astronomic amount', 1e300],
      ['not a number', 'NaN'],
      ['an empty text', ''],
      ['an object', {}],
      ['no amount', undefined],
    ])('of %s pays nothing and needs review', async (_, amount) => {
      const prompt = await paidUnheard(order);
      const answer = await shop.notify(prompt.callbackUrl, callback(prompt, {}, { Amount: amount }));
      expect(answer).toEqual({ status: 200, body: { ResultCode: 0, ResultDesc: 'Accepted' } });
      expect(await shop.books(order)).toEqual({
        money: 'unpaid',
        payments: ['review'],
        messages: ['push accepted', 'callback wrong_amount'],
      });
    });

    test("with another order's request id changes neither order", async () => {
      const other = await shop.order();
      const [prompt, foreign] = [await paidUnheard(order), await paidUnheard(other)];
      const before = await shop.everything();
      await shop.notify(prompt.callbackUrl, callback(foreign));
      await shop.notify(prompt.callbackUrl, callback(foreign, { ResultCode: 1032 }));
      expect(await shop.everything()).toEqual(before);
      expect((await shop.books(order)).messages).toEqual([
        'push accepted',
        'callback other_request',
        'callback other_request',
      ]);
    });

    test('with the receipt of another payment changes nothing', async () => {
      const other = await shop.order();
      const [prompt, earlier] = [await paidUnheard(order), await paidUnheard(other)];
      await shop.notify(earlier.callbackUrl, callback(earlier));
      const before = await shop.everything();
      await shop.notify(prompt.callbackUrl, callback(prompt, {}, { MpesaReceiptNumber: earlier.receipt }));
      expect(await shop.everything()).toEqual(before);
    });

    test('of a failure after a success changes nothing', async () => {
      const prompt = await paidUnheard(order);
      await shop.notify(prompt.callbackUrl, callback(prompt));
      const before = await shop.everything();
      await shop.notify(
        prompt.callbackUrl,
        callback(prompt, { ResultCode: 1032, CallbackMetadata: undefined }),
      );
      expect(await shop.everything()).toEqual(before);
    });
  });

  describe('an unreadable callback', () => {
    test.each<[string, string | Uint8Array<ArrayBuffer>]>([
      ['an empty text', ''],
      ['truncated JSON', '{"Body":{"stkCallback":{"ResultCode":0'],
      ['a list', '[]'],
      ['null', 'null'],
      ['a number', '0'],
      ['no body', '{"Body":null}'],
      ['no result code', '{"Body":{"stkCallback":{"ResultDesc":"?"}}}'],
      ['a result code that is an object', '{"Body":{"stkCallback":{"ResultCode":{"toString":0}}}}'],
      ['a result code that is true', '{"Body":{"stkCallback":{"ResultCode":true}}}'],
      ['the code of a busy system', '{"Body":{"stkCallback":{"ResultCode":26}}}'],
      ['a NUL character', '{"Body":\0}'],
      ['broken UTF-8', new Uint8Array([0x7b, 0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80])],
      ['deep nesting', '['.repeat(30_000)],
    ])('with %s is stored and accepted, and changes nothing', async (_, body) => {
      const prompt = await paidUnheard(order);
      const before = await shop.everything();
      const answer = await shop.notify(prompt.callbackUrl, body);
      expect(answer).toEqual({ status: 200, body: { ResultCode: 0, ResultDesc: 'Accepted' } });
      expect(await shop.everything()).toEqual(before);
      expect((await shop.books(order)).messages).toEqual(['push accepted', 'callback pending']);
    });

    test('that is too large is cut, stored and changes nothing', async () => {
      const prompt = await paidUnheard(order);
      const before = await shop.everything();
      const large = callback(prompt, { ResultDesc: 'x'.repeat(100_000) });
      expect((await shop.notify(prompt.callbackUrl, large)).status).toBe(413);
      expect(await shop.everything()).toEqual(before);
      const { rows } = await shop.database.query<{ bytes: number }>(
        `select octet_length(m.body) as bytes from public.payment_messages as m join public.payments as p on p.id = m.payment_id
         where p.order_id = $1 and m.source = 'callback'`,
        [order.id],
      );
      expect(rows).toEqual([{ bytes: 65_536 }]);
    });

    test('with unexpected items still pays if code and amount are right', async () => {
      const prompt = await paidUnheard(order);
      const body = JSON.stringify({
        Body: {
          stkCallback: {
            ResultCode: '0',
            ResultDesc: 'odd \u0000 \ud800 text',
            CallbackMetadata: { Item: [null, 7, { Name: 'Balance' }, { Name: 'Amount', Value: '951.00' }] },
          },
        },
      });
      await shop.notify(prompt.callbackUrl, body);
      expect(await shop.books(order)).toMatchObject({ money: 'paid', payments: ['completed'] });
    });
  });

  test("stores a callback's body and IP address", async () => {
    const prompt = await paidUnheard(order);
    const body = callback(prompt);
    await shop.notify(prompt.callbackUrl, body, { 'x-forwarded-for': '10.0.0.1, 196.201.214.200' });
    const { rows } = await shop.database.query(
      `select m.body, m.source_address from public.payment_messages as m join public.payments as p on p.id = m.payment_id
       where p.order_id = $1 and m.source = 'callback'`,
      [order.id],
    );
    expect(rows).toEqual([{ body, source_address: '196.201.214.200' }]);
  });

  test('a callback that cannot be settled is stored, answered and settled later', async () => {
    const prompt = await paidUnheard(order);
    await shop.database.execute(
      `create function private.fail() returns trigger language plpgsql as 'begin raise exception using errcode = ''23505''; end';
       create trigger fails before update on public.payments for each row execute function private.fail()`,
    );
    try {
      expect((await shop.notify(prompt.callbackUrl, callback(prompt))).status).toBe(200);
    } finally {
      await shop.database.execute('drop function private.fail() cascade');
    }
    expect(await shop.books(order)).toMatchObject({ money: 'unpaid' });
    await shop.database.query(
      `update public.payment_messages set received_at = now() - interval '1 minute' where outcome is null`,
    );
    expect((await shop.post({ action: 'take-up-till' }, { apikey: secretKey })).body).toEqual({
      found: 1,
      taken: 1,
    });
    expect(await shop.books(order)).toMatchObject({ money: 'paid', payments: ['completed'] });
    expect((await shop.post({ action: 'take-up-till' }, { apikey: secretKey })).body).toEqual({
      found: 0,
      taken: 0,
    });
  });

  test('a callback is answered before it is settled, and all in their order', async () => {
    const settlements: (() => Promise<void>)[] = [];
    shop.setAfterAnswer((settle) => void settlements.push(settle));
    onTestFinished(() => shop.setAfterAnswer(undefined));
    const prompt = await paidUnheard(order);
    const cancelled = JSON.stringify({
      Body: { stkCallback: { CheckoutRequestID: prompt.checkoutRequestId, ResultCode: 1032 } },
    });
    expect((await shop.notify(prompt.callbackUrl, cancelled)).status).toBe(200);
    expect((await shop.notify(prompt.callbackUrl, callback(prompt))).status).toBe(200);
    expect(await shop.books(order)).toMatchObject({
      money: 'unpaid',
      messages: ['push accepted', 'callback -', 'callback -'],
    });
    for (const settle of settlements) await settle();
    expect(await shop.books(order)).toMatchObject({
      money: 'paid',
      messages: ['push accepted', 'callback failed', 'callback paid'],
    });
  });

  describe('while the database is unavailable', () => {
    afterEach(() => shop.setStoreDown(false));

    test('a callback is answered with 503, and accepted when M-PESA repeats it', async () => {
      const prompt = await paidUnheard(order);
      shop.setStoreDown(true);
      expect((await shop.notify(prompt.callbackUrl, callback(prompt))).status).toBe(503);
      shop.setStoreDown(false);
      expect((await shop.notify(prompt.callbackUrl, callback(prompt))).status).toBe(200);
      expect(await shop.books(order)).toMatchObject({ money: 'paid' });
    });

    test('settling a callback is retried for a moment', async () => {
      const prompt = await paidUnheard(order);
      shop.failStoreOnce();
      expect((await shop.notify(prompt.callbackUrl, callback(prompt))).status).toBe(200);
      expect(await shop.books(order)).toMatchObject({ money: 'paid' });
    });

    test('no prompt is sent, and the customer sees an error', async () => {
      shop.setStoreDown(true);
      const { status, body } = await shop.initiate(order, shop.phone());
      expect([status, body]).toEqual([
        200,
        {
          success: false,
          code: 'store_unavailable',
          error: 'Failed to initiate payment. Please try again.',
        },
      ]);
      expect((await shop.post({ action: 'check-status', checkoutRequestId: 'x' })).status).toBe(503);
      expect(await shop.prompts(order)).toEqual([]);
    });
  });

  describe('when Daraja', () => {
    test.each(['unavailable', 'drop-connection', 'busy'])(
      'answers a push with the error "%s", the attempt stays open and is not pushed again',
      async (kind) => {
        await shop.control('faults', { pushes: { next: 1, kind } });
        const phone = shop.phone();
        const first = await shop.initiate(order, phone);
        expect(first.body).toMatchObject({ success: true });
        expect((await shop.status(first.body.checkoutRequestId)).status).toBe('pending');
        const second = await shop.initiate(order, phone);
        expect(second.body).toEqual(first.body);
        expect(await shop.prompts(order)).toEqual([]);
        expect(await shop.books(order)).toMatchObject({
          payments: ['processing'],
          messages: ['push unknown'],
        });
      },
    );

    test.each(['lose-answer', 'delay'])(
      'accepts a push but its answer is lost by "%s", its callback completes it',
      async (kind) => {
        await shop.control('faults', { pushes: { next: 1, kind, delayMs: 3000 } });
        const { body } = await shop.initiate(order, shop.phone());
        expect(body.success).toBe(true);
        await statusBecomes(body.checkoutRequestId, 'completed');
        expect(await shop.prompts(order)).toHaveLength(1);
      },
    );

    test('rejects a push at its firewall, the payment fails with a message', async () => {
      await shop.control('faults', { pushes: { next: 1, kind: 'forbidden-html' } });
      const { body } = await shop.initiate(order, shop.phone());
      expect(body).toEqual({
        success: false,
        code: 'http_403',
        error: 'M-PESA is not available right now and sent no prompt. Please try again in a few minutes.',
      });
      expect(await shop.books(order)).toMatchObject({ payments: ['failed'] });
    });

    test('has too many requests, the customer sees that no prompt was sent and can retry', async () => {
      await shop.control('faults', { pushes: { next: 1, kind: 'too-many', retryAfterS: 90 } });
      const { body } = await shop.initiate(order, shop.phone());
      expect(body).toEqual({
        success: false,
        code: 'http_429',
        error: 'M-PESA is busy right now and sent no prompt. Please try again in 2 minutes.',
      });
      const again = await shop.initiate(order, shop.phone());
      expect(again.body.success).toBe(true);
      await statusBecomes(again.body.checkoutRequestId, 'completed');
      expect(await shop.prompts(order)).toHaveLength(1);
    });

    test.each(['unavailable', 'spoil-answer', 'drop-connection'])(
      'answers with "%s", the attempt stays open and no second prompt is sent',
      async (kind) => {
        // The prompt behind a spoiled answer stays unreported, however long the second request takes.
        const callbacks = kind === 'spoil-answer' ? { callbacks: { next: 1, kind: 'drop' } } : {};
        await shop.control('faults', { pushes: { next: 1, kind }, ...callbacks });
        const phone = shop.phone();
        const first = await shop.initiate(order, phone);
        const second = await shop.initiate(order, phone);
        expect(first.body.success).toBe(true);
        expect(second.body).toEqual(first.body);
        expect((await shop.prompts(order)).length).toBe(kind === 'spoil-answer' ? 1 : 0);
      },
    );

    test('rejects our token, a new one is requested and one prompt sent', async () => {
      const { consumerKey, consumerSecret } = defaultCredentials;
      const answer = await fetch(`${shop.simulator.url}/oauth/v1/generate?grant_type=client_credentials`, {
        headers: { authorization: `Basic ${btoa(`${consumerKey}:${consumerSecret}`)}` },
      });
      expect(answer.status).toBe(200);
      const { body } = await shop.initiate(order, shop.phone());
      expect(body.success).toBe(true);
      expect(await shop.prompts(order)).toHaveLength(1);
      await statusBecomes(body.checkoutRequestId, 'completed');
    });

    test.each(['busy', 'unavailable', 'forbidden-html', 'drop-connection'])(
      'answers a query with the error "%s", the payment stays open',
      async (kind) => {
        const { body } = await shop.initiate(order, shop.phone('9001'));
        await decided(order);
        await shop.database.query(
          `update public.payments set status = 'failed' where status = 'processing' and order_id <> $1`,
          [order.id],
        );
        await shop.control('faults', { queries: { next: 1, kind } });
        expect((await shop.ask()).body).toEqual({ queried: 1, settled: 0 });
        expect((await shop.status(body.checkoutRequestId)).status).toBe('pending');
        expect((await shop.ask()).body).toEqual({ queried: 1, settled: 1 });
        expect((await shop.status(body.checkoutRequestId)).status).toBe('completed');
      },
    );
  });

  test('logs no secrets or personal data', () => {
    const logged = JSON.stringify(shop.logged);
    expect(shop.logged.length).toBeGreaterThan(20);
    for (const secret of [
      secretKey,
      ...Object.values(defaultCredentials).filter((value) => value.length > 6),
    ]) {
      expect(logged).not.toContain(secret);
    }
    // Ids are removed first: they may contain any digits.
    const besideIds = logged.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '');
    expect(besideIds).not.toMatch(/[0-9a-f]{64}|254\d{9}|07\d{8}/);
  });
});

describe('without a connection to Daraja', () => {
  let shop: Awaited<ReturnType<typeof openPayments>>;
  beforeAll(async () => {
    shop = await openPayments('pglite', { baseUrl: 'http://127.0.0.1:1' });
  });
  afterAll(() => shop.close());

  test('the payment fails, as nothing was sent, and the customer can retry', async () => {
    const order = await shop.order();
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const { body } = await shop.initiate(order, shop.phone());
      expect(body).toEqual({
        success: false,
        code: 'mpesa_unreachable',
        error: 'M-PESA cannot be reached right now, so no prompt was sent. Please try again in a minute.',
      });
    }
    expect(await shop.books(order)).toMatchObject({ money: 'unpaid', payments: ['failed', 'failed'] });
  });
});

describe('with wrong credentials', () => {
  test('the payment fails and the reason is logged', async () => {
    const shop = await openPayments('pglite', { consumerSecret: 'wrong-consumer-secret' });
    const { body } = await shop.initiate(await shop.order(), shop.phone());
    expect(body).toMatchObject({ success: false, code: 'mpesa_unreachable' });
    expect(shop.logged).toMatchObject([
      { level: 'warn', event: 'push refused', detail: expect.stringContaining('no access token: HTTP 400') },
    ]);
    await shop.close();
  });
});
