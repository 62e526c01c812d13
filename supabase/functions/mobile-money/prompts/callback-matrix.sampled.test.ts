// Result codes, forged and malformed callbacks, and inconclusive answers to queries, with real databases and two instances of the
// function. `npm run test:long` tries every code in every situation, and thousands of forged callbacks.
import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { shopMigrations } from '../../../../scripts/databases/shop-migrations.ts';
import { isExhaustive } from '../../../../scripts/tests/test-depth.ts';
import { createMobileMoney } from '../handler.ts';

const secretKey = 'sb_secret_for_tests';
const mango = 'a0000000-0000-4000-8000-000000000001';
const TOTAL = 95_100;

const finalCodes =
  '1 2 3 4 8 17 1001 1019 1025 1031 1032 1036 1037 1101 1102 2001 2006 2028 2029 8006 9999 SFC_IC0003'.split(
    ' ',
  );
/** Undocumented codes. In a callback, which is sent once, they end the attempt. */
const unknownCodes = ['E3008', '31415', '-1'];
const undecidedCodes = ['4999', '26', ''];
type Fate = 'completed' | 'failed' | 'open';
const matrix: [code: string, fate: Fate][] = [
  ['0', 'completed'],
  ...[...finalCodes, ...unknownCodes].map((code): [string, Fate] => [code, 'failed']),
  ...undecidedCodes.map((code): [string, Fate] => [code, 'open']),
];
/** One code of each kind, for situations in which codes of one kind behave alike. */
const oneOfEachKind = ['0', '1032', 'E3008', '4999'];
const representatives = isExhaustive ? matrix : matrix.filter(([code]) => oneOfEachKind.includes(code));

interface Order {
  id: string;
  tracking_number: string;
  total_amount: number;
}
interface Attempt {
  order: Order;
  /** Path of the callback URL. */
  path: string;
  checkoutRequestId: string;
  receipt: string;
}
type Fields = Record<string, unknown>;

/** Two instances of the function on one database. Daraja accepts every push immediately, and answers queries as configured. */
async function openTwoInstances(kind: Database['kind']) {
  const database = await throwawayDatabase(kind, shopMigrations);
  await database.execute(await readFile('supabase/seed.sql', 'utf8'));
  await database.query('update public.products set stock_quantity = 1000000');
  const data = await createDataService({ database, schemas: ['public'] });
  const paths = new Map<string, { path: string; checkoutRequestId: string }>();
  let onPush = async () => {};
  let storeFailures = 0;
  let answerQuery: () => Response | Promise<Response> = () => new Response(null, { status: 500 });

  const daraja: typeof fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    if (pathname.startsWith('/oauth/')) return Response.json({ access_token: 'token', expires_in: 3599 });
    if (!pathname.startsWith('/mpesa/stkpush/')) return answerQuery();
    const push = JSON.parse(String(init?.body));
    const sent = {
      path: new URL(push.CallBackURL).pathname,
      checkoutRequestId: `ws_CO_${randomBytes(8).toString('hex')}`,
    };
    paths.set(push.AccountReference, sent);
    await onPush();
    return Response.json({
      ResponseCode: '0',
      MerchantRequestID: 'm',
      CheckoutRequestID: sent.checkoutRequestId,
    });
  };
  const instances = [0, 1].map(() =>
    createMobileMoney({
      database: {
        url: 'http://database.test',
        secretKey,
        fetch: async (input, init) => {
          if (storeFailures > 0) {
            storeFailures -= 1;
            throw new TypeError('fetch failed');
          }
          return data.fetch(new Request(input, init), { claims: { role: 'service_role' }, address: null });
        },
      },
      daraja: {
        baseUrl: 'http://daraja.test',
        consumerKey: 'k',
        consumerSecret: 's',
        shortcode: '174379',
        passkey: 'p',
        transactionType: 'CustomerPayBillOnline',
      },
      callbackBaseUrl: 'http://shop.test/functions/v1/mobile-money/notice',
      fetch: daraja,
    }),
  );
  let turn = 0;
  const post = (path: string, body: BodyInit, headers: Record<string, string> = {}) => {
    turn += 1;
    const instance = instances[turn % 2] as (request: Request) => Promise<Response>;
    return instance(new Request(`http://shop.test${path}`, { method: 'POST', body, headers }));
  };
  const act = async (fields: Fields) => {
    const headers = { 'content-type': 'application/json', apikey: secretKey };
    return (await post('/functions/v1/mobile-money', JSON.stringify(fields), headers)).json();
  };

  let phones = 0;
  return {
    database,
    post,
    act,
    async order(): Promise<Order> {
      const { rows } = await asRole(database, { role: 'anon' }, (session) =>
        session.query<{ order: Order }>(
          `select public.place_order($1, $2, 1, 'Amina', 'amina@example.com', '0712345678', 'Westlands', $3) as order`,
          [randomUUID(), mango, TOTAL],
        ),
      );
      return rows[0]?.order as Order;
    },
    /** Starts a prompt for an order. `beforeAnswer` runs after M-PESA has received the push and before it answers. */
    async prompt(
      order: Order,
      beforeAnswer: (attempt: Attempt) => Promise<unknown> = async () => {},
    ): Promise<Attempt> {
      phones += 1;
      // Codes about wrong settings pause prompts, which prompt-pause.test.ts covers.
      await database.query('delete from private.prompt_pause');
      const reference = `JJ${order.tracking_number.slice(5, 11)}${order.tracking_number.slice(12)}`;
      const attempt = (): Attempt => {
        const sent = paths.get(reference);
        if (!sent) throw new Error('no prompt was sent');
        return { order, ...sent, receipt: receiptOf(sent.checkoutRequestId) };
      };
      onPush = async () => void (await beforeAnswer(attempt()));
      const answer = await act({
        action: 'initiate',
        phoneNumber: `07${String(phones).padStart(8, '0')}`,
        amount: order.total_amount,
        trackingNumber: order.tracking_number,
        orderId: order.id,
      });
      onPush = async () => {};
      expect(answer).toMatchObject({ success: true });
      return attempt();
    },
    /** Makes the next calls of the database fail. */
    failStore(times: number) {
      storeFailures = times;
    },
    async query(answer: () => Response | Promise<Response>) {
      answerQuery = answer;
      await database.query(
        `update public.payments set next_query_at = now() - interval '1 second' where status = 'processing'`,
      );
      await database.query(`delete from private.rate_limits where bucket = 'payment_queries'`);
      return act({ action: 'query-open' });
    },
    /** State of an order with its payments and deliveries. */
    async books({ id }: Order) {
      const { rows } = await database.query<{ books: unknown }>(
        `select jsonb_build_object(
           'money', o.payment_status, 'status', o.status,
           'payments', coalesce((select jsonb_agg(p.status order by p.created_at) from public.payments as p where p.order_id = o.id), '[]'),
           'deliveries', (select count(*) from public.deliveries as d where d.order_id = o.id)
         ) as books from public.orders as o where o.id = $1`,
        [id],
      );
      return rows[0]?.books;
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
      await data.close();
      await database.close();
    },
  };
}

const receiptOf = (checkoutRequestId: string) => `UKL${checkoutRequestId.slice(-7).toUpperCase()}`;

/** Body of M-PESA's callback, with some fields replaced. */
function callbackBody(attempt: Attempt, callback: Fields = {}, items: Fields = {}): string {
  const isPaid = String(callback.ResultCode ?? 0) === '0';
  const named: Fields = {
    Amount: TOTAL / 100,
    MpesaReceiptNumber: attempt.receipt,
    Balance: undefined,
    TransactionDate: 20261121191251,
    PhoneNumber: 254712345678,
    ...items,
  };
  return JSON.stringify({
    Body: {
      stkCallback: {
        MerchantRequestID: 'm',
        CheckoutRequestID: attempt.checkoutRequestId,
        ResultCode: 0,
        ResultDesc: 'any text',
        ...(isPaid
          ? { CallbackMetadata: { Item: Object.entries(named).map(([Name, Value]) => ({ Name, Value })) } }
          : {}),
        ...callback,
      },
    },
  });
}

const paid = { money: 'paid', status: 'processing', deliveries: 1 };
const unpaid = { money: 'unpaid', deliveries: 0 };
const openOr = (fate: Fate) => (fate === 'open' ? 'processing' : fate);
const expectedBooks = (fate: Fate) => ({
  ...(fate === 'completed' ? paid : unpaid),
  payments: [openOr(fate)],
});
const accepted = { ResultCode: 0, ResultDesc: 'Accepted' };

describe.each(testDatabases())('on %s', (kind) => {
  let shop: Awaited<ReturnType<typeof openTwoInstances>>;
  let order: Order;
  beforeAll(async () => {
    shop = await openTwoInstances(kind);
  });
  afterAll(() => shop.close());
  beforeEach(async () => {
    order = await shop.order();
  });

  const sendCallback = async (attempt: Attempt, body: string) => {
    const answer = await shop.post(attempt.path, body);
    expect([answer.status, await answer.json()]).toEqual([200, accepted]);
  };
  const expireOrder = async (of: Order) => {
    await shop.database.query(
      `update public.orders set reserved_until = now() - interval '1 second', expires_at = now() - interval '1 second' where id = $1`,
      [of.id],
    );
    await shop.database.query('select public.expire_reservations()');
  };

  describe.each(matrix)('a callback with result %j', (ResultCode, fate) => {
    test(`leaves the attempt ${fate}, whether the code is a text or a number`, async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, { ResultCode }));
      expect(await shop.books(order)).toMatchObject(expectedBooks(fate));
      if (!/^-?\d+$/.test(ResultCode)) return;
      const other = await shop.order();
      const second = await shop.prompt(other);
      await sendCallback(second, callbackBody(second, { ResultCode: Number(ResultCode) }));
      expect(await shop.books(other)).toMatchObject(expectedBooks(fate));
    });
  });

  describe.each(representatives)('a callback with result %j', (ResultCode, fate) => {
    // Fewer on the embedded database, which runs one call after another.
    const [times, inWords] = kind === 'pglite' ? [10, 'ten'] : [50, 'fifty'];
    test(`has the same effect when two instances receive it ${inWords} times concurrently`, async () => {
      const attempt = await shop.prompt(order);
      await Promise.all(
        Array.from({ length: times }, () => sendCallback(attempt, callbackBody(attempt, { ResultCode }))),
      );
      expect(await shop.books(order)).toMatchObject(expectedBooks(fate));
    });

    test('has the same effect before the push is answered', async () => {
      const attempt = await shop.prompt(order, (early) =>
        sendCallback(early, callbackBody(early, { ResultCode })),
      );
      expect(await shop.books(order)).toMatchObject(expectedBooks(fate));
      // A later callback finds the attempt settled.
      await sendCallback(attempt, callbackBody(attempt, { ResultCode }));
      expect(await shop.books(order)).toMatchObject(expectedBooks(fate));
    });

    test('reopens a cancelled order only if it is a payment', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, { ResultCode: 1037 }));
      await expireOrder(order);
      expect(await shop.books(order)).toMatchObject({ money: 'unpaid', status: 'cancelled' });
      await sendCallback(attempt, callbackBody(attempt, { ResultCode }));
      expect(await shop.books(order)).toMatchObject(
        fate === 'completed'
          ? { ...paid, payments: ['completed'] }
          : { ...unpaid, status: 'cancelled', payments: ['failed'] },
      );
    });

    test('changes nothing after a payment', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt));
      await sendCallback(attempt, callbackBody(attempt, { ResultCode }));
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
    });

    test('changes nothing after a failure, unless it is a payment', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, { ResultCode: 1032 }));
      await sendCallback(attempt, callbackBody(attempt, { ResultCode }));
      expect(await shop.books(order)).toMatchObject(expectedBooks(fate === 'completed' ? fate : 'failed'));
    });

    test('changes nothing after a callback with a wrong amount, unless it has the right amount', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, {}, { Amount: 950 }));
      await sendCallback(attempt, callbackBody(attempt, { ResultCode }));
      const { payments } = (await shop.books(order)) as { payments: string[] };
      expect(payments).toEqual([fate === 'completed' ? 'completed' : 'review']);
    });
  });

  describe('a message that does not succeed but names money', () => {
    // Codes that fail, are unknown, mean nothing, or are no codes at all.
    const codes: unknown[] = [
      ...finalCodes,
      ...unknownCodes,
      ...undecidedCodes,
      ...['00', '000', '0.0', '+0', ' ', 'failed'],
      ...[null, undefined, true, {}, [], 1032, 4999, -1],
    ];
    const withMoney = (attempt: Attempt, ResultCode: unknown, items: Fields = {}) =>
      callbackBody(attempt, {
        ResultCode,
        CallbackMetadata: {
          Item: Object.entries({ Amount: TOTAL / 100, MpesaReceiptNumber: attempt.receipt, ...items }).map(
            ([Name, Value]) => ({ Name, Value }),
          ),
        },
      });
    const initiateAgain = (of: Order) =>
      shop.act({
        action: 'initiate',
        phoneNumber: '0711222333',
        amount: of.total_amount,
        trackingNumber: of.tracking_number,
        orderId: of.id,
      });
    const moneyUnder = async (receipt: string) =>
      (
        await shop.database.query<{ received_cents: number; payment_id: string | null }>(
          'select received_cents, payment_id from public.mpesa_transactions where receipt = $1',
          [receipt],
        )
      ).rows;
    const waiting = async (of: Order) =>
      (
        await shop.database.query<{ unreadable: string[] }>(
          `select m.unreadable from public.messages_to_check as m join public.payments as p on p.id = m.payment_id
           where p.order_id = $1 and m.resolution is null order by m.id`,
          [of.id],
        )
      ).rows.map(({ unreadable }) => unreadable);

    test.each(codes.map((code) => [code]))(
      'with result %j: the attempt is in review, the receipt is stored, and no prompt is sent',
      async (ResultCode) => {
        const attempt = await shop.prompt(order);
        // Twice, because M-PESA may repeat it.
        await sendCallback(attempt, withMoney(attempt, ResultCode));
        await sendCallback(attempt, withMoney(attempt, ResultCode));
        expect(await shop.books(order)).toMatchObject({ ...unpaid, payments: ['review'] });
        expect(await moneyUnder(attempt.receipt)).toEqual([{ received_cents: TOTAL, payment_id: null }]);
        expect(await initiateAgain(order)).toMatchObject({ success: false, code: 'payment_needs_review' });
      },
    );

    test.each([
      ['an amount only', { MpesaReceiptNumber: undefined }, ['receipt']],
      ['a receipt only', { Amount: undefined }, ['amount']],
      ['a receipt and no money', { Amount: 0 }, ['amount']],
      ['an amount with two meanings', { Amount: '1.951' }, ['amount']],
      ['a receipt that is none', { MpesaReceiptNumber: 'UKL12' }, ['receipt']],
    ])('%s: the message waits for staff', async (_, items, unreadable) => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, withMoney(attempt, 1032, items));
      await sendCallback(attempt, withMoney(attempt, 1032, items));
      expect(await shop.books(order)).toMatchObject({ ...unpaid, payments: ['review'] });
      expect(await waiting(order)).toEqual([unreadable]);
      expect(await initiateAgain(order)).toMatchObject({ code: 'payment_needs_review' });
      // A clear success settles it, and nothing waits any more.
      await sendCallback(attempt, callbackBody(attempt));
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
      expect(await waiting(order)).toEqual([]);
    });

    const answerQuery = async (of: Order, answer: Fields) => {
      await shop.database.query(
        `update public.payments set next_query_at = case when order_id = $1 then now() - interval '1 second' end where status in ('processing', 'review')`,
        [of.id],
      );
      return shop.query(() => Response.json({ ResponseCode: '0', ...answer }));
    };

    test('a query that succeeds completes it with the receipt that was named', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, withMoney(attempt, '00'));
      await shop.database.query(
        `update public.payments set status = 'unresolved' where status = 'processing'`,
      );
      const CheckoutRequestID = attempt.checkoutRequestId;
      await answerQuery(order, { CheckoutRequestID, ResultCode: '1032' });
      expect(await shop.books(order)).toMatchObject({ ...unpaid, payments: ['review'] });
      await answerQuery(order, { CheckoutRequestID, ResultCode: '0' });
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
      expect(await moneyUnder(attempt.receipt)).toEqual([
        { received_cents: TOTAL, payment_id: expect.any(String) },
      ]);
    });

    test.each(['0', '1032', '31415', null])('the answer to a query with result %j', async (ResultCode) => {
      const attempt = await shop.prompt(order);
      await shop.database.query(
        `update public.payments set status = 'unresolved', next_query_at = null where status = 'processing' and order_id <> $1`,
        [order.id],
      );
      await answerQuery(order, { ResultCode, Amount: TOTAL / 100, MpesaReceiptNumber: attempt.receipt });
      expect(await shop.books(order)).toMatchObject(
        ResultCode === '0' ? { ...paid, payments: ['completed'] } : { ...unpaid, payments: ['review'] },
      );
    });

    test('does not change a paid order', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt));
      await sendCallback(attempt, withMoney(attempt, 1032));
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
      expect(await waiting(order)).toEqual([]);
    });

    test('without money, another spelling of zero leaves the attempt open and waits for staff until it is settled', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, { ResultCode: '00' }));
      expect(await shop.books(order)).toMatchObject({ ...unpaid, payments: ['processing'] });
      expect(await waiting(order)).toEqual([['code']]);
      await sendCallback(attempt, callbackBody(attempt, { ResultCode: 1032 }));
      expect(await shop.books(order)).toMatchObject({ ...unpaid, payments: ['failed'] });
      expect(await waiting(order)).toEqual([]);
    });
  });

  describe('a callback whose receipt is written in another way', () => {
    test.each([
      ['blanks around it', (code: string) => ` ${code} `],
      ['blanks inside', (code: string) => `${code.slice(0, 4)} ${code.slice(4)}`],
      ['small letters', (code: string) => code.toLowerCase()],
      ['an invisible character', (code: string) => `\u200b${code}`],
      ['full-width letters', (code: string) => code.replace(/^U/, '\uff35')],
    ])('(%s) is the same money as its confirmation', async (_, write) => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, {}, { MpesaReceiptNumber: write(attempt.receipt) }));
      await shop.database.query(
        `select public.receive_mpesa_transaction('confirmation', $1, $2::text::integer, $3)`,
        [attempt.receipt, String(TOTAL), order.tracking_number],
      );
      const { rows } = await shop.database.query(
        'select receipt, needs_refund from public.payments where order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ receipt: attempt.receipt, needs_refund: false }]);
    });

    test('(unreadable) pays the order, and waits for staff until the confirmation names it', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt, {}, { MpesaReceiptNumber: 'UKL-12' }));
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
      const open = async () =>
        (
          await shop.database.query(
            `select from public.messages_to_check as m join public.payments as p on p.id = m.payment_id
             where p.order_id = $1 and m.resolution is null`,
            [order.id],
          )
        ).rowCount;
      expect(await open()).toBe(1);
      await shop.database.query(
        `select public.receive_mpesa_transaction('confirmation', $1, $2::text::integer, $3)`,
        [attempt.receipt, String(TOTAL), order.tracking_number],
      );
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
      expect(await open()).toBe(0);
    });
  });

  describe('a callback of a payment', () => {
    test('pays with every known order and type of its items', async () => {
      const values: Record<string, fc.Arbitrary<unknown>> = {
        Amount: fc.constantFrom(951, 951.0, '951', '951.00', '951.0'),
        Balance: fc.constantFrom(undefined, null, '', 0),
        TransactionDate: fc.constantFrom(20261121191251, '20261121191251', undefined),
        PhoneNumber: fc.constantFrom(254712345678, '254712345678', '2547 ***** 678', undefined),
      };
      const items = fc.record(values).chain((named) =>
        fc.shuffledSubarray([...Object.entries(named), ['MpesaReceiptNumber', null], ['Unknown', 7]], {
          minLength: 6,
        }),
      );
      const code = fc.constantFrom<unknown>(0, '0', 0.0);
      await fc.assert(
        fc.asyncProperty(items, code, fc.boolean(), async (entries, ResultCode, isFirst) => {
          const fresh = await shop.order();
          const attempt = await shop.prompt(fresh);
          const Item = entries.map(([Name, Value]) => ({
            Name,
            Value: Name === 'MpesaReceiptNumber' ? attempt.receipt : Value,
          }));
          const fields = { CheckoutRequestID: attempt.checkoutRequestId, ResultCode, ResultDesc: 'ok' };
          const stkCallback = isFirst
            ? { CallbackMetadata: { Item }, ...fields }
            : { ...fields, CallbackMetadata: { Item } };
          await sendCallback(attempt, JSON.stringify({ Body: { stkCallback } }));
          expect(await shop.books(fresh)).toMatchObject({ ...paid, payments: ['completed'] });
        }),
        { seed: 6, numRuns: isExhaustive ? 60 : 15 },
      );
    });
  });

  test('the answer to a push is recorded after a short outage of the database', async () => {
    const attempt = await shop.prompt(order, async () => shop.failStore(3));
    const { rows } = await shop.database.query(
      'select status, checkout_request_id from public.payments where order_id = $1',
      [order.id],
    );
    expect(rows).toEqual([{ status: 'processing', checkout_request_id: attempt.checkoutRequestId }]);
  });

  describe('forged callbacks', () => {
    // Values that may replace any part of a callback.
    const junk: fc.Arbitrary<unknown> = fc.oneof(
      fc.constantFrom<unknown>(
        0,
        '0',
        1,
        '1032',
        null,
        true,
        '',
        -951,
        951,
        95_100,
        1e300,
        'NaN',
        {},
        [],
        '\0',
        '\ud800',
      ),
      fc.jsonValue({ maxDepth: 3 }),
    );
    interface Mutation {
      kind: 'replace' | 'drop' | 'double' | 'cut' | 'flip' | 'insert';
      at: number;
      junk: unknown;
    }
    const mutation: fc.Arbitrary<Mutation> = fc.record({
      kind: fc.constantFrom('replace', 'replace', 'drop', 'double', 'cut', 'flip', 'insert'),
      at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      junk,
    });

    /** A body with one part replaced, removed or repeated, or with changed bytes. */
    function mutate(text: string, { kind, at, junk }: Mutation): Uint8Array<ArrayBuffer> {
      const bytes = new Uint8Array(Buffer.from(text));
      const index = Math.floor(at * bytes.length);
      if (kind === 'cut') return bytes.slice(0, index);
      if (kind === 'flip') {
        bytes[index] = (bytes[index] ?? 0) ^ (1 << (index % 8));
        return bytes;
      }
      if (kind === 'insert') {
        const inserted = Buffer.from(JSON.stringify(junk) ?? '');
        return new Uint8Array(Buffer.concat([bytes.slice(0, index), inserted, bytes.slice(index)]));
      }
      let parsed: unknown;
      try {
        parsed = JSON.parse(text);
      } catch {
        return bytes;
      }
      const places: [holder: Record<string, unknown>, key: string][] = [];
      const collect = (value: unknown) => {
        if (typeof value !== 'object' || value === null) return;
        for (const key of Object.keys(value)) {
          places.push([value as Record<string, unknown>, key]);
          collect((value as Record<string, unknown>)[key]);
        }
      };
      collect(parsed);
      const place = places[Math.floor(at * places.length)];
      if (place) {
        const [holder, key] = place;
        if (kind === 'replace') holder[key] = junk;
        else if (kind === 'double') holder[`${key}2`] = holder[key];
        else if (Array.isArray(holder)) holder.splice(Number(key), 1);
        else delete holder[key];
      }
      return new Uint8Array(Buffer.from(JSON.stringify(parsed)));
    }

    // The embedded database does not differ here, and takes longer.
    const rounds = (exhaustive: number) =>
      isExhaustive && kind === 'postgresql' ? exhaustive : exhaustive / 10;
    const bodies = (text: string, howMany: number, seed: number) =>
      fc
        .sample(fc.array(mutation, { minLength: 1, maxLength: 3 }), { seed, numRuns: rounds(howMany) })
        .map((mutations) =>
          mutations.reduce(
            (body, one) => mutate(Buffer.from(body).toString(), one),
            new Uint8Array(Buffer.from(text)),
          ),
        );
    /** Sends all bodies, many concurrently. Returns the number of responses per status. */
    async function send(path: () => string, all: Uint8Array<ArrayBuffer>[]): Promise<Record<number, number>> {
      const statuses: Record<number, number> = {};
      for (let from = 0; from < all.length; from += 20) {
        await Promise.all(
          all.slice(from, from + 20).map(async (body) => {
            const { status } = await shop.post(path(), body);
            statuses[status] = (statuses[status] ?? 0) + 1;
          }),
        );
      }
      return statuses;
    }

    test('at unknown URLs are answered 404 and change nothing', async () => {
      const attempt = await shop.prompt(order);
      const before = await shop.everything();
      const all = bodies(callbackBody(attempt), 3_000, 1);
      const unknownPath = () => attempt.path.replace(/[0-9a-f]{64}$/, randomBytes(32).toString('hex'));
      expect(await send(unknownPath, all)).toEqual({ 404: all.length });
      expect(await shop.everything()).toEqual(before);
    });

    test('at the URL of a completed payment change nothing, without a 5xx', async () => {
      const attempt = await shop.prompt(order);
      await sendCallback(attempt, callbackBody(attempt));
      const before = await shop.everything();
      // A success with another receipt would be another payment, which is never ignored, so those are left out.
      const failure = callbackBody(attempt, { ResultCode: 1032 });
      const all = [
        ...bodies(failure, 2_000, 2),
        ...bodies(callbackBody(attempt, {}, { Amount: 950 }), 1_000, 3),
      ].filter((body) => !reportsOtherReceipt(body, attempt));
      expect(all.length).toBeGreaterThan(rounds(2_000));
      expect(await send(() => attempt.path, all)).toEqual({ 200: all.length });
      expect(await shop.everything()).toEqual(before);
    }, 600_000);

    test('at the URL of an open attempt pay nothing without the right amount, without a 5xx', async () => {
      const attempt = await shop.prompt(order);
      const all = [950, 952, 95_100, 0, -951]
        .flatMap((Amount, index) => bodies(callbackBody(attempt, {}, { Amount }), 800, 10 + index))
        .filter((body) => !/\b951\b(?!\d)/.test(Buffer.from(body).toString().replaceAll('-951', '')));
      expect(all.length).toBeGreaterThan(rounds(3_500));
      expect(await send(() => attempt.path, all)).toEqual({ 200: all.length });
      expect(await shop.books(order)).toMatchObject({ money: 'unpaid', deliveries: 0 });
      // Positive control: the real callback still pays.
      await sendCallback(attempt, callbackBody(attempt));
      expect(await shop.books(order)).toMatchObject({ money: 'paid' });
    }, 600_000);

    /** Whether a body reports a payment with another receipt. */
    function reportsOtherReceipt(body: Uint8Array, attempt: Attempt): boolean {
      try {
        const { ResultCode, CallbackMetadata } = JSON.parse(Buffer.from(body).toString()).Body.stkCallback;
        if (String(ResultCode).trim() !== '0') return false;
        const items = CallbackMetadata?.Item as { Name?: unknown; Value?: unknown }[];
        const receipt = items.find((item) => item?.Name === 'MpesaReceiptNumber')?.Value;
        return receipt !== undefined && receipt !== attempt.receipt;
      } catch {
        return false;
      }
    }
  });

  describe('an inconclusive query', () => {
    const json = (status: number, body: unknown) => () => Response.json(body, { status });
    const resultOf = (ResultCode: unknown) =>
      json(200, { ResponseCode: '0', ResponseDescription: 'ok', ResultCode, ResultDesc: 'any text' });
    const error = (status: number, errorCode: string, errorMessage: string) =>
      json(status, { requestId: '1', errorCode, errorMessage });
    const text = (status: number, body: string, type: string) => () =>
      new Response(body, { status, headers: { 'content-type': type } });
    const spikeArrest = { errorcode: 'policies.ratelimit.SpikeArrestViolation' };

    const dialects: [string, () => Response][] = [
      ['still under processing', resultOf('4999')],
      ['still under processing, as a number', resultOf(4999)],
      ['being processed', error(500, '500.001.1001', 'The transaction is being processed')],
      ['no such transaction', error(500, '500.001.1001', 'The transaction does not Exist')],
      ['wrong credentials', error(500, '500.001.1001', 'Wrong credentials')],
      ['the subscriber is locked', error(500, '500.001.1001', 'Unable to lock subscriber')],
      ['queried too early', error(400, '400.002.02', 'Bad Request - Invalid CheckoutRequestID')],
      ['an internal error', error(500, '500.003.1001', 'Internal Server Error')],
      ['busy', error(500, '500.003.02', 'System is busy')],
      ['too often', error(500, '500.003.03', 'Quota Violation')],
      [
        'too often, by the gateway',
        json(429, { fault: { faultstring: 'Spike arrest', detail: spikeArrest } }),
      ],
      ['too often, without a body', text(429, '', 'text/plain')],
      ['the firewall', text(403, '<html><title>Incapsula</title></html>', 'text/html')],
      ['an empty 400', text(400, '', 'text/plain')],
      ['a web page', text(200, '<html></html>', 'text/html')],
      ['a truncated answer', text(200, '{"ResponseCode":"0","ResultCode":"10', 'application/json')],
      ['an empty answer', text(200, '', 'application/json')],
      ['unavailable', text(503, 'upstream connect error', 'text/plain')],
      ['an unknown code', resultOf('31415')],
      ['no code', resultOf(null)],
      ['a code that is an object', resultOf({})],
      ['the system is busy, as a result', resultOf('26')],
      ['a failure with another status', json(500, { ResponseCode: '0', ResultCode: '1032' })],
      ['a failure that was not accepted', json(200, { ResponseCode: '1', ResultCode: '1032' })],
    ];
    test.each(dialects)('(%s) ends no attempt, and the later callback still pays', async (_, answer) => {
      const attempt = await shop.prompt(order);
      await shop.database.query(
        `update public.payments set next_query_at = null, status = case status when 'processing' then 'unresolved' else status end
         where next_query_at is not null and order_id <> $1`,
        [order.id],
      );
      for (let time = 0; time < 2; time += 1) {
        expect(await shop.query(answer)).toEqual({ queried: 1, settled: 0 });
        expect(await shop.books(order)).toMatchObject({ ...unpaid, payments: ['processing'] });
      }
      const { checkoutRequestId: CheckoutRequestID } = attempt;
      expect(
        await shop.query(
          json(200, { ResponseCode: '0', CheckoutRequestID, ResultCode: '0', ResultDesc: 'ok' }),
        ),
      ).toEqual({ queried: 1, settled: 1 });
      expect(await shop.books(order)).toMatchObject({ ...paid, payments: ['completed'] });
    });
  });
});
