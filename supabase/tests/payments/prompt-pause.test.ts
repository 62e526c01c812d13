// Wrong settings at M-PESA pause the prompts for a while; the test with KSh 1 checks the settings without affecting the shop's
// books.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { adviseOnResult } from '../../../domain/mpesa/result-advice.ts';
import { expectRefusal, makeProduct, personIds } from '../shop-database.ts';
import {
  byQuery,
  failed,
  newPhone,
  newReceipt,
  type Payment,
  type Refund,
  settleAll,
  setUpShop,
} from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asVisitor, asStaff, asService, readRows, place, begin, recordPush } = shop;
  const { prompt, beginTest, settle, requestRefund, settleReversal } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  beforeEach(async () => {
    await database.execute(
      'delete from private.rate_limits; delete from private.prompt_pause; delete from private.failed_prompts; delete from public.outbox_messages; delete from private.prompt_incidents',
    );
  });

  /** Begins a payment of a new order. */
  const beginOrder = async (phone = newPhone()) => (await begin(await place(product), { phone })).payment;
  /** Prompts for a new order, which M-PESA accepts. */
  const promptOrder = async (phone = newPhone()) => prompt(await place(product), { phone });
  const refused = (payment: Payment, refusal_code: string, refusal_description: string) =>
    recordPush(payment, {
      refusal_code,
      refusal_description,
      // As the payment function classifies it.
      refusal_ended_by: adviseOnResult(refusal_code, refusal_description, 'request').endedBy,
    });
  const callback = (payment: Payment, code: string) =>
    settle(
      payment,
      code === '0' ? {} : { ...failed, result_code: code, ended_by: adviseOnResult(code).endedBy },
    );
  const health = () =>
    asStaff<{ pause: { code: string; until: string } | null; checked_at: string }>('payment_health');
  /** Prompts to several phones that fail with the same code. */
  const answered = async (code: string, count = 2) => {
    const sent: Payment[] = [];
    for (let number = 0; number < count; number += 1) sent.push(await promptOrder());
    for (const payment of sent) await callback(payment, code);
  };
  /** Remaining minutes of the pause, rounded. */
  const minutesLeft = async () => {
    const { pause, checked_at } = await health();
    return pause ? Math.max(Math.round((Date.parse(pause.until) - Date.parse(checked_at)) / 60_000), 0) : 0;
  };
  test("after M-PESA's duplicate amount error that phone is not prompted within two minutes", async () => {
    const phone = newPhone();
    const first = await promptOrder(phone);
    await callback(first, '17');
    const error = await expectRefusal(beginOrder(phone), 429, 'same_amount_too_soon');
    expect(error.message).toMatch(/do not pay again. Otherwise please try again in 1?[0-9]{2} seconds$/);
    // Another phone pays the same amount, and this one does so later.
    expect(await beginOrder()).toMatchObject({ status: 'initiating' });
    await database.query(
      `update public.payments set updated_at = now() - interval '121 seconds' where id = $1`,
      [first.id],
    );
    expect(await beginOrder(phone)).toMatchObject({ status: 'initiating' });
  });

  test('a paid amount is not prompted again within the time that M-PESA refuses it, if it does', async () => {
    const phone = newPhone();
    await callback(await promptOrder(phone), '0');
    const beginAgain = async (same_amount_seconds: number, of = phone) =>
      begin(await place(product), { phone: of, same_amount_seconds });
    const error = await expectRefusal(beginAgain(120), 429, 'same_amount_too_soon');
    expect(error.message).toMatch(/try again in 1?[0-9]{2} seconds$/);
    expect(await beginAgain(120, newPhone())).toMatchObject({ is_new: true });
    expect(await beginAgain(0)).toMatchObject({ is_new: true });
    await database.query(
      `update public.payments set completed_at = now() - interval '121 seconds' where phone = (
       select phone from public.payments where status = 'completed' order by completed_at desc limit 1)`,
    );
    expect(await beginAgain(120)).toMatchObject({ is_new: true });
  });

  const pass = (minutes: number) =>
    database.query('update private.prompt_pause set until = until - make_interval(mins => $1)', [minutes]);

  describe('prompts are paused', () => {
    test.each(['2006', '2028', '2029', 'SFC_IC0003'])('after result code %s', async (code) => {
      await answered(code);
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      expect(await health()).toMatchObject({ pause: { code } });
    });

    test('but not by repeated failures of a single phone, nor of two phones with a success in between', async () => {
      const phone = newPhone();
      for (let count = 0; count < 4; count += 1) await callback(await promptOrder(phone), '2028');
      await callback(await promptOrder(), '0');
      await callback(await promptOrder(), '2028');
      await beginOrder();
      expect(await health()).toMatchObject({ pause: null });
    });

    test('and then probed by one prompt at a time, until one succeeds', async () => {
      await answered('2028');
      await pass(6);
      const tries = await Promise.allSettled([beginOrder(), beginOrder(), beginOrder()]);
      const [through, ...more] = tries.flatMap((tried) =>
        tried.status === 'fulfilled' ? [tried.value] : [],
      );
      expect(more).toEqual([]);
      for (const tried of tries) {
        if (tried.status === 'rejected') expect(tried.reason).toMatchObject({ detail: 'prompts_paused' });
      }
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      // A failure caused by the customer is inconclusive: the next prompt is the probe.
      await callback(await recordPush(through as Payment), '1032');
      const next = await promptOrder();
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      await callback(next, '0');
      await beginOrder();
      await beginOrder();
    });

    test.each([
      ['404.001.03', 'Invalid Access Token'],
      ['401.003.01', 'Invalid API call as no apiproduct match found'],
      ['400.002.02', 'Bad Request - Invalid CallBackURL'],
      ['400.002.02', 'Bad Request - Invalid BusinessShortCode'],
      ['500.001.1001', 'Wrong credentials'],
      ['500.001.1001', 'Merchant does not exist'],
      ['mpesa_unreachable', 'no access token: HTTP 400'],
      ['SFC_IC0003', 'The operator does not exist.'],
    ])('after the error %s, %s', async (code, description) => {
      await refused(await beginOrder(), code, description);
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
    });

    test('longer after repeated failures, but not because of prompts that were already sent', async () => {
      await answered('2028', 3);
      expect(await minutesLeft()).toBe(5);
      for (const expected of [10, 20, 40, 60, 60]) {
        await pass(61);
        expect(await minutesLeft()).toBe(0);
        await database.query(`update private.prompt_pause set until = now() - interval '1 second'`);
        await callback(await promptOrder(), '2028');
        expect(await minutesLeft()).toBe(expected);
      }
    });

    test('for five minutes again an hour after a pause, and then longer from there', async () => {
      await answered('2028');
      for (const [minutes, expected] of [
        [6, 10],
        [71, 5],
        [6, 10],
      ] as const) {
        await pass(minutes);
        await callback(await promptOrder(), '2028');
        expect(await minutesLeft()).toBe(expected);
      }
    });

    test('and a refusal without a documented meaning pauses them only for the third customer in a row', async () => {
      const refuse = async (code: string, phone = newPhone()) =>
        refused(await beginOrder(phone), code, 'Something new');
      const phone = newPhone();
      for (let count = 0; count < 4; count += 1) await refuse('999.1', phone);
      await refuse('999.1');
      await refuse('999.2');
      expect(await health()).toMatchObject({ pause: null });
      // Refusals of the requests themselves: one that M-PESA accepts ends the row.
      await promptOrder();
      await refuse('999.1');
      await refuse('999.1');
      expect(await health()).toMatchObject({ pause: null });
      await refuse('999.1');
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      expect(await health()).toMatchObject({ pause: { code: '999.1', is_refused: true } });
    });

    test('and three phones for one order prove nothing about the shop', async () => {
      const order = await place(product);
      for (let count = 0; count < 4; count += 1) {
        const { payment } = await begin(order);
        await refused(payment, '999.1', 'Something new');
      }
      expect(await health()).toMatchObject({ pause: null });
    });

    const isPaused = () => asVisitor<boolean>('are_prompts_paused');

    test('and visitors can see it before they ask for a prompt', async () => {
      expect(await isPaused()).toBe(false);
      await refused(await beginOrder(), '404.001.03', 'Invalid Access Token');
      expect(await isPaused()).toBe(true);
      await pass(6);
      expect(await isPaused()).toBe(false);
      // While the probe is open.
      const probe = await beginOrder();
      expect(await isPaused()).toBe(true);
      // M-PESA refused requests, and accepts one: the cause is gone, before the customer has paid.
      await recordPush(probe);
      expect(await isPaused()).toBe(false);
      expect(await health()).toMatchObject({ pause: null });
    });

    test('and stay shown to staff after the pause, until a prompt works', async () => {
      await refused(await beginOrder(), '404.001.03', 'Invalid Access Token');
      await pass(600);
      expect(await health()).toMatchObject({ pause: { code: '404.001.03' } });
      const status = await asStaff<{ prompts_paused_since: string | null }>('system_status');
      expect(status.prompts_paused_since).not.toBeNull();
      await promptOrder();
      expect(await health()).toMatchObject({ pause: null });
    });

    test('until the payment function has other settings', async () => {
      await asService('note_mpesa_settings', { digest: 'one' });
      await refused(await beginOrder(), '404.001.03', 'Invalid Access Token');
      await asService('note_mpesa_settings', { digest: 'one' });
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      await asService('note_mpesa_settings', { digest: 'other' });
      await beginOrder();
    });

    describe('which staff are mailed', () => {
      const mails = () =>
        readRows<{ kind: string; recipient: string; status: string }>(
          `select kind, recipient, status from public.outbox_messages where order_id is null order by created_at, recipient`,
        );
      /** Marks all waiting mails as sent. */
      const send = async () => {
        await database.execute(
          `delete from private.outbox_queue;
           update public.outbox_messages set status = 'sent', next_attempt_at = null where order_id is null`,
        );
      };

      test('once when they begin and once when they work again', async () => {
        await refused(await beginOrder(), '404.001.03', 'Invalid Access Token');
        const staff = await mails();
        expect(staff.length).toBeGreaterThan(0);
        for (const { kind, recipient } of staff) {
          expect(kind).toBe('prompts_paused');
          expect(recipient).toMatch(/@/);
        }
        await send();
        // Extended by the probe, and then by another cause.
        for (const description of ['Invalid Access Token', 'Resource not found']) {
          await pass(61);
          await refused(await beginOrder(), '404.001.03', description);
        }
        expect(await mails()).toHaveLength(staff.length);
        await pass(61);
        await promptOrder();
        expect((await mails()).map(({ kind }) => kind)).toEqual([
          ...staff.map(() => 'prompts_paused'),
          ...staff.map(() => 'prompts_resumed'),
        ]);
      });

      test('not at all when they work again before the mail has left', async () => {
        await refused(await beginOrder(), '404.001.03', 'Invalid Access Token');
        await asStaff('resume_prompts');
        expect(await mails()).toEqual([]);
      });

      test('with the cause as values of the template', async () => {
        await refused(await beginOrder(), '400.002.02', 'Bad Request - Invalid CallBackURL');
        await database.execute(
          `delete from private.outbox_queue as q using public.outbox_messages as m where m.id = q.message_id and m.kind <> 'prompts_paused'`,
        );
        const leased = await asService<{ facts: Record<string, unknown> }>('lease_messages', {
          at_most: 1,
          channel: 'mail',
        });
        expect(leased.facts).toMatchObject({
          incident: {
            code: '400.002.02',
            description: 'Bad Request - Invalid CallBackURL',
            is_refused: true,
          },
        });
      });
    });

    test('until a payment succeeds, or staff resume them', async () => {
      const good = await promptOrder();
      await answered('2029');
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      await callback(good, '0');
      await answered('2029');
      await expectRefusal(beginOrder(), 409, 'prompts_paused');
      await expectRefusal(callAs('customer', 'resume_prompts'), 403, 'staff_only');
      await asStaff('resume_prompts');
      await beginOrder();
    });
  });

  test.each([
    ['1032', ''],
    ['1', ''],
    ['1037', ''],
    ['500.001.1001', 'Unable to lock subscriber'],
    ['mpesa_unreachable', 'ECONNREFUSED'],
    ['mpesa_unreachable', 'no access token: HTTP 503'],
    ['http_429', ''],
    ['400.002.02', 'Bad Request - Invalid PhoneNumber'],
    ['999.999', 'Something new'],
  ])("does not pause prompts after a customer's or a temporary error: %s %s", async (code, description) => {
    await refused(await beginOrder(), code, description);
    await beginOrder();
  });

  describe('a test with KSh 1', () => {
    const beginAndPush = async () => recordPush(await beginTest());

    test('is for staff only, and limited', async () => {
      await expectRefusal(beginTest({ requested_by: personIds.customer }), 403, 'staff_only');
      for (let count = 0; count < 10; count += 1) await beginTest();
      await expectRefusal(beginTest(), 429, 'too_many_tests');
    });

    test('is settled once, ends a pause, and is refunded once', async () => {
      await answered('2028');
      const begun = await beginAndPush();
      const code = newReceipt();
      expect(await settle(begun, { receipt: code })).toMatchObject({
        outcome: 'completed',
        payment: { status: 'completed', receipt: code },
      });
      expect(await settle(begun)).toMatchObject({ outcome: 'already_completed', payment: { receipt: code } });
      expect(await settle(begun, failed)).toMatchObject({
        outcome: 'superseded',
      });
      expect(await health()).toMatchObject({ pause: null });

      const attempts = await settleAll(3, () => requestRefund(begun));
      expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const { refund } = await asService<{ refund: Refund }>('lease_refunds');
      expect(refund).toMatchObject({ payment_id: begun.id, receipt: code, refund_cents: 100 });
      await settleReversal(refund);
      await expectRefusal(requestRefund(begun), 409, 'refund_exists');
      const { rows } = await database.query(
        'select refunded_at is not null as is_back from public.payments where id = $1',
        [begun.id],
      );
      expect(rows).toEqual([{ is_back: true }]);
    });

    test('a success supersedes a failure, but not with a wrong amount, another request or a known receipt', async () => {
      const begun = await beginAndPush();
      await settle(begun, { ...failed, result_code: '1037' });
      expect(await settle(begun, { checkout_request_id: 'ws_CO_other' })).toMatchObject({
        outcome: 'other_request',
      });
      const paid = await promptOrder();
      const { payment } = await settle(paid);
      expect(await settle(begun, { receipt: payment.receipt })).toMatchObject({
        outcome: 'receipt_replayed',
      });
      expect(await settle(begun, { received_cents: 101 })).toMatchObject({
        outcome: 'wrong_amount',
        payment: { status: 'review' },
      });
      expect(await settle(begun)).toMatchObject({ outcome: 'completed', payment: { status: 'completed' } });
    });

    test('a query without a receipt completes it; the callback adds the receipt', async () => {
      const begun = await beginAndPush();
      expect(await settle(begun, byQuery)).toMatchObject({
        outcome: 'completed',
      });
      await expectRefusal(requestRefund(begun), 409, 'receipt_unknown');
      expect(await settle(begun)).toMatchObject({ payment: { receipt: expect.any(String) } });
    });

    test('is queried within the same limits as payments', async () => {
      const begun = await beginAndPush();
      await database.query(`update public.payments set next_query_at = now() where id = $1`, [begun.id]);
      expect(await asService('lease_payment_queries')).toMatchObject({ id: begun.id, query_count: 1 });
      await database.query(`update public.payments set next_query_at = now() where id = $1`, [begun.id]);
      expect(await asService('lease_payment_queries')).toBeNull();
      // With a higher limit, all callers count in the same windows.
      const limits = { at_most: 3, per_minute: 60 };
      await database.execute('delete from private.rate_limits');
      expect(await asService('lease_payment_queries', limits)).toMatchObject({ id: begun.id });
      const { rows } = await database.query(
        `select hits, window_start = date_bin('3 seconds', window_start, '2000-01-01') as is_short
         from private.rate_limits where bucket = 'payment_queries'`,
      );
      expect(rows).toEqual([{ hits: 1, is_short: true }]);
    });
  });
});
