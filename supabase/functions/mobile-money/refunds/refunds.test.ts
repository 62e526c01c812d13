// Refunds, tests with KSh 1 and the check of the settings, with a real database and the simulator, over HTTP.
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import {
  certificate,
  defaultCredentials,
  defaultMerchant,
  startDarajaSimulator,
} from '@jani-juice/daraja-simulator';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  people,
} from '../../../tests/shop-database.ts';
import type { Database as Types } from '../../../types.ts';
import { createMobileMoney, type MobileMoneyEvent, type MobileMoneySettings } from '../handler.ts';

type Payment = Types['public']['Tables']['payments']['Row'];
type Refund = Types['public']['Tables']['refunds']['Row'];
type PaymentTest = Types['public']['Tables']['payments']['Row'];

const secretKey = 'sb_secret_for_tests';
const tokenOf = (person: keyof typeof people) =>
  `head.${Buffer.from(JSON.stringify(people[person])).toString('base64url')}.signature`;
const staffToken = tokenOf('staff');

/** @param changes `isFarAway`: Daraja has a host name other than this machine's */
async function openShop(
  kind: Database['kind'],
  changes: Partial<MobileMoneySettings> & { isFarAway?: boolean; hasNoInitiator?: boolean } = {},
) {
  const database = await openShopDatabase(kind);
  const product = await makeProduct(database, 1000);
  const data = await createDataService({ database, schemas: ['public'] });
  const simulator = await startDarajaSimulator({
    decisionDelayMs: 20,
    resultDelayMs: 20,
    confirmationDelayMs: 0,
    tooEarlyMs: 0,
    queryLimit: { requests: 1_000, perMs: 60_000 },
  });
  const logged: MobileMoneyEvent[] = [];
  const tokens = new Map(
    Object.entries(people).map(([person, claims]) => [tokenOf(person as keyof typeof people), claims]),
  );
  const handle = createMobileMoney({
    database: {
      url: 'http://database.test',
      secretKey,
      fetch: async (input, init) => {
        const request = new Request(input, init);
        const bearer = request.headers.get('authorization')?.replace('Bearer ', '') ?? '';
        const claims = bearer === secretKey ? people.service : tokens.get(bearer);
        if (!claims) return Response.json({ message: 'Invalid token' }, { status: 401 });
        return data.fetch(request, { claims, address: null });
      },
    },
    daraja: {
      baseUrl: changes.isFarAway ? 'https://daraja.test' : simulator.url,
      ...defaultCredentials,
      transactionType: 'CustomerPayBillOnline',
      timeoutMs: 3000,
      ...(changes.hasNoInitiator
        ? {}
        : {
            initiator: {
              name: defaultMerchant.initiatorName,
              password: defaultMerchant.initiatorPassword,
              certificate,
            },
          }),
      ...changes.daraja,
    },
    callbackBaseUrl: () => `${url}/functions/v1/mobile-money/notice`,
    log: (event) => logged.push(event),
    fetch: (input, init) => fetch(String(input).replace('https://daraja.test', simulator.url), init),
    ...(changes.publicCallbackBaseUrl ? { publicCallbackBaseUrl: changes.publicCallbackBaseUrl } : {}),
  });
  const server = createAdaptorServer({ fetch: handle, overrideGlobalObjects: false }) as Server;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function post(path: string, body: unknown, token?: string) {
    const answer = await fetch(`${url}/functions/v1/mobile-money${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of many shapes.
    return { status: answer.status, body: (text ? JSON.parse(text) : null) as any };
  }
  async function control(path: string, body: unknown): Promise<void> {
    const answer = await fetch(`${simulator.url}/simulator/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(answer.status, await answer.text()).toBe(200);
  }
  const row = async <Row>(table: string, id: string) =>
    (
      await database.query<{ row: Row }>(
        `select to_jsonb(t) as row from public.${table} as t where id = $1`,
        [id],
      )
    ).rows[0]?.row as Row;

  let phones = 0;
  const nextPhone = (ending = '5555') => {
    phones += 1;
    return `07${String(phones).padStart(4, '0')}${ending}`;
  };
  return {
    database,
    logged,
    url,
    post,
    control,
    row,
    nextPhone,
    shopDoes: () => post('', { action: 'send-refunds' }, secretKey),
    /** A cancelled order that was paid, and the refund that staff requested. */
    async refundOfPaidOrder(): Promise<{ order: PlacedOrder; payment: Payment; refund: Refund }> {
      const order = await call<PlacedOrder>(database, 'visitor', 'place_order', {
        ...orderForm(product),
        idempotency_key: randomUUID(),
      });
      const { body } = await post('', {
        action: 'initiate',
        phoneNumber: nextPhone(),
        amount: order.total_amount,
        trackingNumber: order.tracking_number,
        orderId: order.id,
      });
      expect(body).toMatchObject({ success: true });
      const payment = await vi.waitFor(
        async () => {
          const { rows } = await database.query<{ row: Payment }>(
            `select to_jsonb(p) as row from public.payments as p where order_id = $1 and status = 'completed' and receipt is not null`,
            [order.id],
          );
          expect(rows).toHaveLength(1);
          return rows[0]?.row as Payment;
        },
        { timeout: 20_000 },
      );
      await asRole(database, people.staff, (session) =>
        session.query(`update public.orders set status = 'cancelled' where id = $1`, [order.id]),
      );
      const refund = await call<Refund>(database, 'staff', 'request_refund', {
        payment_id: payment.id,
        reason: 'Customer cancelled',
      });
      return { order, payment, refund };
    },
    settled: (id: string, status: string) =>
      vi.waitFor(
        async () => {
          const now = await row<Refund>('refunds', id);
          expect(now).toMatchObject({ status });
          return now;
        },
        { timeout: 20_000 },
      ),
    dueNow: (id: string) =>
      database.query(
        `update public.refunds set next_check_at = now(), sent_at = sent_at - interval '11 minutes' where id = $1`,
        [id],
      ),
    async close() {
      await simulator.close();
      await new Promise((resolve) => server.close(resolve));
      await database.close();
    },
  };
}

describe.each(testDatabases())('on %s', (kind) => {
  let shop: Awaited<ReturnType<typeof openShop>>;
  beforeAll(async () => {
    shop = await openShop(kind);
  });
  afterAll(() => shop.close());
  beforeEach(async () => {
    await shop.database.execute('delete from private.rate_limits');
  });
  const reversalsOf = async (receipt: string | null) => {
    const { reversals } = (await (await fetch(`${shop.url}`)).json().catch(() => ({}))) as {
      reversals?: unknown[];
    };
    void reversals;
    const { rows } = await shop.database.query(
      `select from public.payment_messages as m join public.refunds as r on r.id = m.refund_id
       where m.source = 'reversal' and r.receipt = $1`,
      [receipt],
    );
    return rows.length;
  };

  describe('a refund', () => {
    test('is sent by M-PESA, and order, payment and customer show it', async () => {
      const { order, payment, refund } = await shop.refundOfPaidOrder();
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 1 });
      const done = await shop.settled(refund.id, 'completed');
      expect(done.refund_receipt).toMatch(/^[A-Z0-9]{10}$/);
      expect(await shop.row('orders', order.id)).toMatchObject({
        payment_status: 'refunded',
        status: 'cancelled',
      });
      expect(await shop.row('payments', payment.id)).toMatchObject({ refund_receipt: done.refund_receipt });
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 0 });
    });

    test('is sent with other waiting ones until M-PESA is busy', async () => {
      const refunds = [
        await shop.refundOfPaidOrder(),
        await shop.refundOfPaidOrder(),
        await shop.refundOfPaidOrder(),
      ].map(({ refund }) => refund);
      // The oldest is sent, the second is rejected, and the third waits for the next call.
      await shop.control('faults', {
        script: [{ target: 'reversals', kind: 'too-many', occurrences: [2] }],
      });
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 2 });
      const [first, second, third] = refunds as [Refund, Refund, Refund];
      await shop.settled(first.id, 'completed');
      expect(await shop.row('refunds', second.id)).toMatchObject({ status: 'approved', tries: 1 });
      expect(await shop.row('refunds', third.id)).toMatchObject({ status: 'approved', tries: 0 });
      await shop.database.query(
        `update public.refunds set updated_at = now() - interval '1 day' where id = $1`,
        [second.id],
      );
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 2 });
      await shop.settled(second.id, 'completed');
      await shop.settled(third.id, 'completed');
      await shop.control('faults', { script: [] });
    });

    test('is not sent any more once another one had no answer', async () => {
      const [first, second] = [await shop.refundOfPaidOrder(), await shop.refundOfPaidOrder()];
      await shop.control('faults', { reversals: { kind: 'drop-connection', next: 1 } });
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 1 });
      expect(await shop.row('refunds', first.refund.id)).toMatchObject({ status: 'unknown' });
      expect(await shop.row('refunds', second.refund.id)).toMatchObject({ status: 'approved', tries: 0 });
      await shop.shopDoes();
      await shop.settled(second.refund.id, 'completed');
    });

    test('with a lost result is settled by a status query about the payment', async () => {
      const { refund, payment } = await shop.refundOfPaidOrder();
      await shop.control('faults', { results: { kind: 'drop', next: 1 } });
      await shop.shopDoes();
      await shop.settled(refund.id, 'sent');
      await shop.dueNow(refund.id);
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 1 });
      await shop.settled(refund.id, 'completed');
      expect(await reversalsOf(payment.receipt)).toBe(1);
    });

    test('is settled by a status query about the reversal if that about the payment is inconclusive', async () => {
      const { refund } = await shop.refundOfPaidOrder();
      await shop.control('faults', {
        results: { kind: 'drop', next: 1 },
        statusResults: { kind: 'fail', resultCode: 2032, next: 1 },
      });
      await shop.shopDoes();
      await shop.settled(refund.id, 'sent');
      await shop.dueNow(refund.id);
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 1 });
      await vi.waitFor(
        async () => {
          const { rows } = await shop.database.query(
            `select outcome from public.payment_messages where refund_id = $1 and source = 'status_result'`,
            [refund.id],
          );
          expect(rows).toEqual([{ outcome: 'pending' }]);
        },
        { timeout: 20_000 },
      );
      await shop.dueNow(refund.id);
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 1 });
      const done = await shop.settled(refund.id, 'completed');
      expect(done.refund_receipt).toMatch(/^[A-Z0-9]{10}$/);
    });

    test('with a lost answer is queried, not sent again', async () => {
      const { refund, payment } = await shop.refundOfPaidOrder();
      await shop.control('faults', {
        reversals: { kind: 'lose-answer', next: 1 },
        results: { kind: 'drop', next: 1 },
      });
      await shop.shopDoes();
      await shop.settled(refund.id, 'unknown');
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 0 });
      await shop.dueNow(refund.id);
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 1 });
      await shop.settled(refund.id, 'completed');
      expect(await reversalsOf(payment.receipt)).toBe(1);
    });

    test('that never reached M-PESA fails when the payment is still reported as completed', async () => {
      const { refund } = await shop.refundOfPaidOrder();
      await shop.control('faults', { reversals: { kind: 'drop-connection', next: 1 } });
      await shop.shopDoes();
      await shop.settled(refund.id, 'unknown');
      await shop.dueNow(refund.id);
      await shop.shopDoes();
      await shop.settled(refund.id, 'failed');
    });

    test('is retried if M-PESA was busy', async () => {
      const { refund } = await shop.refundOfPaidOrder();
      await shop.control('faults', { reversals: { kind: 'too-many', next: 1 } });
      await shop.shopDoes();
      await shop.settled(refund.id, 'approved');
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0 });
      await shop.database.query(
        `update public.refunds set updated_at = now() - interval '1 hour' where id = $1`,
        [refund.id],
      );
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 1 });
      await shop.settled(refund.id, 'completed');
    });

    test("fails with M-PESA's code if it cannot be carried out", async () => {
      const { refund, order } = await shop.refundOfPaidOrder();
      await shop.control('faults', { reversalResults: { kind: 'fail', resultCode: 1, next: 1 } });
      await shop.shopDoes();
      expect(await shop.settled(refund.id, 'failed')).toMatchObject({ result_code: '1' });
      expect(await shop.row('orders', order.id)).toMatchObject({ payment_status: 'paid' });
    });

    test('of a payment that is already reversed completes by its status', async () => {
      const { refund, payment } = await shop.refundOfPaidOrder();
      // As if reversed in M-PESA's portal: the simulator's answer when the same request is sent twice.
      await shop.control('faults', { results: { kind: 'drop', next: 1 } });
      await shop.shopDoes();
      await shop.settled(refund.id, 'sent');
      const { rows } = await shop.database.query<{ secret: string }>(
        'select result_secret as secret from private.refund_secrets where refund_id = $1',
        [refund.id],
      );
      const answer = await shop.post(`/reversal/${rows[0]?.secret}/result`, {
        Result: { ResultCode: 'R000001', ResultDesc: 'already reversed', TransactionID: payment.receipt },
      });
      expect(answer).toEqual({ status: 200, body: { ResultCode: 0, ResultDesc: 'Accepted' } });
      await shop.settled(refund.id, 'unknown');
      expect((await shop.shopDoes()).body).toMatchObject({ sent: 0, queried: 1 });
      await shop.settled(refund.id, 'completed');
    });

    test('ignores other URLs, malformed results and wrong amounts', async () => {
      const { refund } = await shop.refundOfPaidOrder();
      await shop.control('faults', { results: { kind: 'drop', next: 1 } });
      await shop.shopDoes();
      await shop.settled(refund.id, 'sent');
      const { rows } = await shop.database.query<{ secret: string }>(
        'select result_secret as secret from private.refund_secrets where refund_id = $1',
        [refund.id],
      );
      const secret = rows[0]?.secret ?? '';
      const success = { Result: { ResultCode: 0, TransactionID: 'UKL0000001' } };
      expect((await shop.post(`/reversal/${'0'.repeat(64)}/result`, success)).status).toBe(404);
      expect((await shop.post(`/reversal/${secret}/other`, success)).status).toBe(404);
      expect((await shop.post(`/reversal/${secret}`, success)).status).toBe(404);
      expect((await shop.post(`/notice/${secret}`, success)).status).toBe(404);
      for (const body of [
        '',
        'null',
        '[]',
        '{"Result":{"ResultCode":""}}',
        '\u0000',
        '{"Result":{"ResultCode":"0 "}',
      ]) {
        expect((await shop.post(`/reversal/${secret}/result`, body)).status).toBe(200);
        expect((await shop.post(`/reversal/${secret}/status`, body)).status).toBe(200);
      }
      expect((await shop.post(`/reversal/${secret}/timeout`, success)).status).toBe(200);
      expect((await shop.post(`/reversal/${secret}/result`, 'x'.repeat(70_000))).status).toBe(413);
      expect(await shop.row('refunds', refund.id)).toMatchObject({ status: 'sent' });
      expect(JSON.stringify(shop.logged)).not.toContain(secret);
    });
  });

  test('sending refunds needs the secret key; setup and tests need staff', async () => {
    expect((await shop.post('', { action: 'send-refunds' }, staffToken)).status).toBe(401);
    for (const action of ['describe-setup', 'check-address', 'start-test']) {
      for (const token of [
        undefined,
        'nonsense',
        'a.b.c',
        secretKey,
        tokenOf('customer'),
        tokenOf('half-way staff'),
      ]) {
        // The shop's own server checks the settings of a hosted function with the secret key.
        const expected = action === 'describe-setup' && token === secretKey ? 200 : 403;
        expect((await shop.post('', { action }, token)).status, `${action} with ${token}`).toBe(expected);
      }
    }
  });

  test('roles without the settings read the setup at most, and register, test and invite nothing', async () => {
    const actions = ['describe-setup', 'check-address', 'start-test', 'register-till', 'invite-member'];
    const statusesOf = async (token: string) => {
      const found: Record<string, number> = {};
      for (const action of actions) found[action] = (await shop.post('', { action }, token)).status;
      return found;
    };
    const refused = Object.fromEntries(actions.map((action) => [action, 403]));
    expect(await statusesOf(tokenOf('counter'))).toEqual(refused);
    expect(await statusesOf(tokenOf('assistant'))).toEqual({ ...refused, 'describe-setup': 200 });
  });

  describe('a test with KSh 1', () => {
    const start = async (ending?: string) =>
      (await shop.post('', { action: 'start-test', phoneNumber: shop.nextPhone(ending) }, staffToken)).body
        .test as PaymentTest;
    const ended = (id: string, status: string) =>
      vi.waitFor(
        async () => {
          const now = await shop.row<PaymentTest>('payments', id);
          expect(now).toMatchObject({ status });
          return now;
        },
        { timeout: 20_000 },
      );

    test('prompts the phone, is paid and refunded', async () => {
      const begun = await start();
      expect(begun).toMatchObject({ status: 'processing', charge_cents: 100 });
      const paid = await ended(begun.id, 'completed');
      expect(paid.receipt).toMatch(/^[A-Z0-9]{10}$/);
      const refund = await call<Refund>(shop.database, 'staff', 'request_refund', {
        payment_id: begun.id,
        reason: 'Test with KSh 1',
      });
      await shop.shopDoes();
      await shop.settled(refund.id, 'completed');
      expect((await shop.row<PaymentTest>('payments', begun.id)).refunded_at).not.toBeNull();
    });

    test('shows why it failed', async () => {
      expect(await ended((await start('1032')).id, 'failed')).toMatchObject({ result_code: '1032' });
      expect(await start('9007')).toMatchObject({ status: 'failed', result_code: expect.any(String) });
    });

    test('without a callback is queried', async () => {
      const begun = await start('9001');
      await shop.database.query(`update public.payments set next_query_at = now() where id = $1`, [begun.id]);
      await vi.waitFor(
        async () => {
          await shop.database.execute(
            `delete from private.rate_limits; update public.payments set next_query_at = now() where status = 'processing'`,
          );
          await shop.post('', { action: 'query-open' }, secretKey);
          expect(await shop.row('payments', begun.id)).toMatchObject({
            status: 'completed',
            receipt: null,
          });
        },
        { timeout: 20_000 },
      );
    });

    test('rejects an invalid phone', async () => {
      const { body } = await shop.post('', { action: 'start-test', phoneNumber: '123' }, staffToken);
      expect(body).toEqual({ error: 'Please enter a valid phone number', code: 'phone_invalid' });
    });
  });

  test('a callback from an unknown IP address is accepted and logged', async () => {
    const other = await openShop(kind, { isFarAway: true });
    try {
      const { refund } = await other.refundOfPaidOrder();
      expect(other.logged.map(({ event }) => event)).toContain('callback from an unknown address');
      await other.shopDoes();
      await other.settled(refund.id, 'completed');
      expect(other.logged.map(({ event }) => event)).toContain('refund callback from an unknown address');
    } finally {
      await other.close();
    }
  });

  test('without an initiator refunds stay approved and unsent', async () => {
    const other = await openShop(kind, { hasNoInitiator: true });
    try {
      const { refund } = await other.refundOfPaidOrder();
      expect((await other.shopDoes()).body).toMatchObject({ sent: 0, queried: 0 });
      expect(await other.row('refunds', refund.id)).toMatchObject({ status: 'approved', tries: 0 });
      const { body } = await other.post('', { action: 'describe-setup' }, staffToken);
      expect(body.setup).toMatchObject({ canReverse: false });
    } finally {
      await other.close();
    }
  });

  describe('the check of the settings', () => {
    test('shows which settings are set, without secrets', async () => {
      const { body } = await shop.post('', { action: 'describe-setup' }, staffToken);
      expect(body.setup).toMatchObject({
        environment: 'simulator',
        mode: 'paybill',
        shortcode: defaultCredentials.shortcode,
        canReverse: true,
        callbackUrlProblems: expect.arrayContaining([expect.objectContaining({ isFatal: true })]),
      });
      const text = JSON.stringify(body);
      for (const secret of [
        defaultCredentials.consumerKey,
        defaultCredentials.consumerSecret,
        defaultCredentials.passkey,
        defaultMerchant.initiatorPassword,
      ]) {
        expect(text).not.toContain(secret);
      }
    });

    test('reaches its own URL', async () => {
      const { body } = await shop.post('', { action: 'check-address' }, staffToken);
      expect(body.reach).toMatchObject({ isReached: true });
      expect(body.reach.steps.map(({ name }: { name: string }) => name)).toEqual([
        'Name',
        'Connection',
        'Status',
        'Answer',
      ]);
    });

    test('answers only signed codes', async () => {
      const soon = String(Date.now() + 30_000);
      for (const code of ['x', `${soon}-${'0'.repeat(64)}`, `${soon}-`]) {
        expect((await shop.post(`/reach/${code}`, {})).status).toBe(404);
      }
    });
  });
});

describe('the check of the public URL reports', () => {
  const [kind] = testDatabases();
  const check = async (publicCallbackBaseUrl: string) => {
    const shop = await openShop(kind ?? 'pglite', { publicCallbackBaseUrl });
    try {
      return (await shop.post('', { action: 'check-address' }, staffToken)).body.reach as {
        isReached: boolean;
        steps: { name: string; state: string; detail: string }[];
      };
    } finally {
      await shop.close();
    }
  };
  const failedStep = ({ steps }: { steps: { name: string; state: string; detail: string }[] }) =>
    steps.find(({ state }) => state === 'failed');

  test('an unknown host name', async () => {
    expect(
      failedStep(await check('http://no-such-shop.invalid/functions/v1/mobile-money/notice')),
    ).toMatchObject({
      name: 'Name',
    });
  });

  test('a refused connection', async () => {
    expect(failedStep(await check('http://127.0.0.1:1/functions/v1/mobile-money/notice'))).toMatchObject({
      name: 'Connection',
    });
  });

  test('another server and a redirect', async () => {
    let answer = () => new Response('<html>Parked</html>');
    const other = createAdaptorServer({ fetch: () => answer(), overrideGlobalObjects: false }) as Server;
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(other.address() as AddressInfo).port}/functions/v1/mobile-money/notice`;
    expect(failedStep(await check(address))).toMatchObject({
      name: 'Answer',
      detail: expect.stringMatching(/Parked/),
    });
    answer = () => new Response(null, { status: 301, headers: { location: 'https://elsewhere.test/' } });
    expect(failedStep(await check(address))).toMatchObject({
      name: 'Status',
      detail: expect.stringMatching(/elsewhere/),
    });
    await new Promise((resolve) => other.close(resolve));
  });
});
