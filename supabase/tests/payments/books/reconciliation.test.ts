// Reconciliation: differences between the shop and M-PESA, their resolution by staff, and pulls of the 48-hour statement.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type Person, type PlacedOrder } from '../../shop-database.ts';
import { nairobiDay, newReceipt, setUpShop } from '../../steps.ts';
import { expectBalancedBooks } from './balanced-books.ts';

interface Day {
  rows: { id: string }[];
  is_covered: boolean;
  missed: { starts_at: string; ends_at: string }[];
}
interface Pull {
  id: number;
  window_from: string;
  window_to: string;
  missed_since: string | null;
}

const charge = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, queryAs, readColumn, readRows, readValue, place, track } =
    shop;
  const { expireReservations, expire, setStatus, begin, beginTest, settle, receive, confirm, assign } = shop;
  const { reconciliationRow, requestRefund, withdrawRefund, noteRefundByHand, refundOf } = shop;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });
  beforeEach(async () => {
    await database.execute(`delete from public.statement_pulls; delete from private.mpesa_registrations`);
    order = await place(product);
  });
  afterEach(() => expectBalancedBooks(database));

  const readDay = (day: string) => asStaff<Day>('reconciliation_day', { day });
  const resolve = (given: Record<string, unknown>, by: Person = 'staff') =>
    callAs<{ outcome: string | null }>(by, 'resolve_difference', given);
  const historyOf = (code: string) =>
    readColumn(
      `select concat_ws(' ', kind, note, actor_email) as line from public.reconciliation_events where receipt = $1 order by id`,
      [code],
    );
  /** A completed pull up to now. */
  async function cover() {
    await database.query(
      `insert into public.statement_pulls (window_from, window_to, outcome, leased_until, finished_at)
       values (now() - interval '1 day', now() + interval '1 hour', 'complete', now(), now())`,
    );
  }

  describe('a payment under review', () => {
    const cases = {
      'noted as no order': (code: string) => resolve({ decision: 'not_an_order', receipt: code }),
      'accepted, without a receipt': (_: string, payment_id: string) =>
        resolve({ decision: 'accept', payment_id }),
      'sent back by hand': (code: string) => noteRefundByHand(code),
    };
    test.each(Object.entries(cases))(
      'waits for staff; once it is %s the order can be paid, and expires',
      async (how, end) => {
        const checked = async () => (await track(order)).payment_check;
        const countAnnouncements = () =>
          readValue<number>(`select count(*)::integer from realtime.messages where topic = 'order-' || $1`, [
            order.id,
          ]);
        const code = newReceipt();
        const { payment } = await begin(order);
        // Subscribers of the order are notified of the open prompt, of the review and of its end.
        expect(await countAnnouncements()).toBe(1);
        await settle(
          payment,
          how.startsWith('accepted')
            ? { received_cents: null, receipt: null }
            : { received_cents: charge - 100, receipt: code },
        );
        expect(await countAnnouncements()).toBe(2);
        await expire(order);
        expect(await checked()).toBe('review');
        expect(await begin(order)).toMatchObject({ is_new: false, payment: { status: 'review' } });

        await end(code, payment.id);
        await expireReservations();
        expect(await countAnnouncements()).toBe(3);
        expect(await checked()).toBeUndefined();
        const row = await reconciliationRow(how.startsWith('accepted') ? payment.id : code);
        expect(row).toMatchObject({ kind: 'wrong_amount', is_open: false });
        expect((await begin(order)).is_new).toBe(true);
      },
    );
  });

  describe('a day', () => {
    test('shows payments on both sides as matched', async () => {
      const code = newReceipt();
      await receive(order, code);
      expect(await reconciliationRow(code)).toMatchObject({
        kind: 'matched',
        is_open: false,
        our_cents: charge,
        their_cents: charge,
        order_id: order.id,
      });
    });

    test('shows unmatched money as missing here, open', async () => {
      const code = newReceipt();
      await receive('juice', code, { payer_name: 'AMINA' });
      expect(await reconciliationRow(code)).toMatchObject({
        kind: 'missing_here',
        is_open: true,
        our_cents: null,
        their_cents: charge,
        reference: 'juice',
        payer_name: 'AMINA',
      });
    });

    test('shows payments of the shop only as not compared, and as missing at M-PESA once the statement should list them', async () => {
      const code = newReceipt();
      const { payment } = await confirm(order, code);
      expect(await reconciliationRow(payment.id)).toMatchObject({ kind: 'not_compared', is_open: false });
      await cover();
      expect(await reconciliationRow(payment.id)).toMatchObject({
        kind: 'missing_there',
        is_open: true,
        our_cents: charge,
        their_cents: null,
      });
      await receive(order, code, { source: 'statement' });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'matched', is_open: false });
      expect(await reconciliationRow(payment.id)).toBeUndefined();
    });

    test('shows refunds of the order, by M-PESA or by hand, and withdrawn ones', async () => {
      const [first, second, back] = [newReceipt(), newReceipt(), newReceipt()];
      await receive(order, first);
      const { payment } = await receive(order, second);
      const refund = await requestRefund(payment, { reason: 'Twice' });
      await withdrawRefund(refund);
      expect(await reconciliationRow(second)).toMatchObject({ kind: 'double', is_open: true });
      await noteRefundByHand(payment, back);
      expect(await reconciliationRow(second)).toMatchObject({ is_open: false, refund_status: 'completed' });
      expect(await historyOf(second)).toEqual([
        'refund Twice staff@jani.example',
        'reopened The refund was withdrawn staff@jani.example',
        `refund By hand, receipt ${back}: Sent by hand staff@jani.example`,
      ]);
    });

    test("a decision finds a payment typed by staff by its receipt, before M-PESA's message", async () => {
      const [first, second] = [newReceipt(), newReceipt()];
      await confirm(order, first);
      const { payment } = await confirm(order, second);
      expect(await resolve({ decision: 'refund', receipt: second })).toMatchObject({
        payment_id: payment.id,
      });
      await expectRefusal(resolve({ decision: 'refund', receipt: first }), 409, 'nothing_to_send_back');
    });

    test('shows a second payment as such until it is being sent back', async () => {
      const [first, second] = [newReceipt(), newReceipt()];
      await receive(order, first);
      const { payment } = await receive(order, second);
      expect(await reconciliationRow(second)).toMatchObject({ kind: 'double', is_open: true });
      await resolve({ decision: 'refund', receipt: second, payment_id: payment.id });
      expect(await reconciliationRow(second)).toMatchObject({
        kind: 'double',
        is_open: false,
        refund_status: 'approved',
      });
      expect(await historyOf(second)).toEqual(['refund Paid twice staff@jani.example']);
    });

    test('does not keep a second payment for its customer that is being sent back', async () => {
      await receive(order, newReceipt());
      const { payment } = await receive(order, newReceipt());
      const { id } = await requestRefund(payment);
      await expectRefusal(resolve({ decision: 'accept', payment_id: payment.id }), 409, 'refund_exists');
      await withdrawRefund({ id });
      await resolve({ decision: 'accept', payment_id: payment.id });
      expect(
        await readRows('select kind, amount_cents from public.change_notes where payment_id = $1', [
          payment.id,
        ]),
      ).toEqual([{ kind: 'credit', amount_cents: charge }]);
    });

    test('shows a wrong amount until the order is decided', async () => {
      const code = newReceipt();
      await receive(order, code, { received_cents: charge - 100 });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await assign(order, code);
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await asStaff('resolve_paid_order', { order_id: order.id, resolution: 'deliver' });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: false });
    });

    test('shows a differing amount of a refund with the same receipt until staff accept it', async () => {
      const code = newReceipt();
      const { payment } = await confirm(order, code);
      await setStatus(order, 'shipped');
      await receive(order, code, { received_cents: charge - 5000 });
      expect(await reconciliationRow(code)).toMatchObject({
        kind: 'wrong_amount',
        is_open: true,
        our_cents: charge,
        their_cents: charge - 5000,
      });
      await resolve({
        decision: 'accept',
        receipt: code,
        payment_id: payment.id,
        note: 'Agreed on the phone',
      });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: false, resolution: 'accepted' });
    });

    test('begins and ends at midnight in Nairobi', async () => {
      const [late, early] = [newReceipt(), newReceipt()];
      await receive('', late, { transacted_at: '2026-03-10T20:59:59Z' });
      await receive('', early, { transacted_at: '2026-03-10T21:00:00Z' });
      expect((await readDay('2026-03-10')).rows.map(({ id }) => id)).toEqual([late]);
      expect((await readDay('2026-03-11')).rows.map(({ id }) => id)).toEqual([early]);
      const { rows } = await queryAs(
        'service',
        `select day::text, theirs, payments, missing_here, open from public.reconciliation_days('2026-03-09', '2026-03-11')`,
      );
      const days = rows.map((row) => Object.values(row).map(String));
      expect(days).toEqual([
        ['2026-03-11', String(charge), '1', '1', '1'],
        ['2026-03-10', String(charge), '1', '1', '1'],
        ['2026-03-09', '0', '0', '0', '0'],
      ]);
    });

    test("shows amount and time of the statement, which a later confirmation doesn't change", async () => {
      const code = newReceipt();
      await receive('juice', code, { source: 'statement', transacted_at: '2026-03-05T09:00:00Z' });
      await receive('juice', code, { received_cents: 100, transacted_at: '2026-03-06T09:00:00Z' });
      expect(await reconciliationRow(code, '2026-03-05')).toMatchObject({ their_cents: charge });
      const other = newReceipt();
      await receive('juice', other, { received_cents: 100, transacted_at: '2026-03-06T09:00:00Z' });
      await receive('juice', other, { source: 'statement', transacted_at: '2026-03-05T09:00:00Z' });
      expect(await reconciliationRow(other, '2026-03-05')).toMatchObject({ their_cents: charge });
    });

    test('excludes KSh 1 tests', async () => {
      const code = newReceipt();
      await settle(await beginTest(), { receipt: code });
      await receive('TEST', code, { received_cents: 100 });
      expect(await reconciliationRow(code)).toBeUndefined();
    });

    test('shows transactions that no statement will list', async () => {
      await database.query(
        `insert into public.statement_pulls (window_from, window_to, missed_since, outcome, leased_until, finished_at)
         values ('2026-03-12T10:00:00Z', '2026-03-14T10:00:00Z', '2026-03-11T08:00:00Z', 'complete', now(), now())`,
      );
      expect((await readDay('2026-03-10')).missed).toEqual([]);
      expect((await readDay('2026-03-11')).missed).toHaveLength(1);
      expect(await readDay('2026-03-12')).toMatchObject({ is_covered: false, missed: [{}] });
      expect(await readDay('2026-03-13')).toMatchObject({ is_covered: true, missed: [] });
    });
  });

  describe('staff', () => {
    test('assign money to an order, which is then paid', async () => {
      const code = newReceipt();
      await receive('juice', code);
      expect(await assign(order, code)).toMatchObject({
        outcome: 'paid',
      });
      expect(await reconciliationRow(code)).toMatchObject({
        kind: 'matched',
        is_open: false,
        resolution: 'given',
      });
      expect(await historyOf(code)).toEqual(['given staff@jani.example']);
      await expectRefusal(assign(await place(product), code), 409, 'difference_changed');
    });

    test('assign money of another amount to an order, which then needs review', async () => {
      const code = newReceipt();
      await receive('juice', code, { received_cents: 50_000 });
      expect(await assign(order, code)).toMatchObject({
        outcome: 'paid_needs_review',
      });
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
    });

    test('mark money as not for an order, and reopen it', async () => {
      const code = newReceipt();
      await receive('rent', code);
      await resolve({ decision: 'not_an_order', receipt: code, note: 'Rent of the kiosk' });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: false, resolution: 'not_an_order' });
      // The statement lists it, too.
      await receive('rent', code, { source: 'statement' });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: false });
      await resolve({ decision: 'reopen', receipt: code });
      expect(await reconciliationRow(code)).toMatchObject({ is_open: true, resolution: null });
      expect(await historyOf(code)).toEqual([
        'not_an_order Rent of the kiosk staff@jani.example',
        'reopened staff@jani.example',
      ]);
    });

    test('cannot mark money that pays an order as not for an order', async () => {
      const code = newReceipt();
      await receive(order, code);
      await expectRefusal(resolve({ decision: 'not_an_order', receipt: code }), 409, 'difference_changed');
      expect(await reconciliationRow(code)).toMatchObject({ kind: 'matched', resolution: null });
    });

    test('request a refund of unmatched money, by the rules of refunds', async () => {
      const [small, large] = [newReceipt(), newReceipt()];
      await receive('juice', small, { received_cents: 50_000 });
      await receive('juice', large, { received_cents: 500_000 });
      await resolve({ decision: 'refund', receipt: small });
      await resolve({ decision: 'refund', receipt: large });
      expect(await reconciliationRow(small)).toMatchObject({ is_open: false, refund_status: 'approved' });
      expect(await reconciliationRow(large)).toMatchObject({ is_open: false, refund_status: 'requested' });
      await expectRefusal(resolve({ decision: 'reopen', receipt: small }), 409, 'difference_changed');
      await withdrawRefund(await refundOf(large));
      expect(await reconciliationRow(large)).toMatchObject({ is_open: true });
    });

    test('accept a payment that M-PESA does not list, and reopen it', async () => {
      const { payment } = await confirm(order);
      await cover();
      await resolve({ decision: 'accept', payment_id: payment.id, note: 'Cash' });
      expect(await reconciliationRow(payment.id)).toMatchObject({ kind: 'missing_there', is_open: false });
      // A note of change is no decision about the payment.
      await asStaff('note_change', { payment_id: payment.id, kind: 'credit', amount_cents: 100 });
      expect(await reconciliationRow(payment.id)).toMatchObject({ is_open: false, resolution: 'accepted' });
      await resolve({ decision: 'reopen', payment_id: payment.id });
      expect(await reconciliationRow(payment.id)).toMatchObject({ is_open: true });
    });

    test('see suggested orders for a payment', async () => {
      const code = newReceipt();
      await receive('juice', code);
      const { rows } = await queryAs<{ id: string }>('staff', 'select id from public.suggest_orders($1)', [
        code,
      ]);
      expect(rows.map(({ id }) => id)).toContain(order.id);
      expect(rows.length).toBeLessThanOrEqual(5);
    });

    test.each([
      ['an unknown decision', { decision: 'keep', receipt: 'UKL0000000' }, 400, 'decision_unknown'],
      ['a decision without a difference', { decision: 'accept' }, 400, 'decision_unknown'],
      ['an unknown receipt', { decision: 'accept', receipt: 'UKL0000000' }, 404, 'difference_not_found'],
      ['assigning without an order', { decision: 'give', receipt: 'UKL0000000' }, 404, 'order_not_found'],
      ['a long note', { decision: 'accept', receipt: 'U', note: 'x'.repeat(201) }, 400, 'reason_invalid'],
      ['a note of one character', { decision: 'accept', receipt: 'U', note: 'x' }, 400, 'reason_invalid'],
    ])('%s is rejected', async (_, given, status, code) => {
      await expectRefusal(resolve(given), status, code);
    });

    test('cannot assign an amount with cents to an order', async () => {
      const code = newReceipt();
      await receive(order, code, { received_cents: 150 });
      for (const given of [{ decision: 'give', order_id: order.id }, { decision: 'refund' }]) {
        await expectRefusal(resolve({ ...given, receipt: code }), 409, 'amount_not_payable');
      }
    });

    test('have exclusive access, to at most a year at once', async () => {
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(resolve({ decision: 'accept', receipt: 'U' }, person), 403, 'staff_only');
        await expectRefusal(callAs(person, 'reconciliation_day', { day: nairobiDay() }), 403, 'staff_only');
        await expectRefusal(callAs(person, 'statement_status'), 403, 'staff_only');
      }
      await expectRefusal(
        asStaff('reconciliation_days', { since: '2025-01-01', until: '2026-06-01' }),
        400,
        'range_invalid',
      );
    });

    test('the history cannot be changed', async () => {
      const code = newReceipt();
      await receive('rent', code);
      await resolve({ decision: 'not_an_order', receipt: code });
      for (const statement of [
        `update public.reconciliation_events set note = 'x'`,
        'delete from public.reconciliation_events',
      ]) {
        await expect(database.query(statement)).rejects.toMatchObject({ code: '42501' });
      }
    });
  });

  describe('the statement', () => {
    const lease = (given: Record<string, unknown> = {}) =>
      asService<Pull | null>('lease_statement_pull', given);
    const finish = (pull: Pull | null, given: Record<string, unknown> = {}) =>
      asService('finish_statement_pull', { pull_id: pull?.id, ...given });
    const register = () => asService('record_mpesa_registration', { kind: 'statement' });
    const age = (hours: number) =>
      database.query(
        `update public.statement_pulls set started_at = started_at - make_interval(hours => $1),
         window_from = window_from - make_interval(hours => $1), window_to = window_to - make_interval(hours => $1),
         leased_until = leased_until - make_interval(hours => $1), finished_at = finished_at - make_interval(hours => $1)`,
        [hours],
      );
    const length = (pull: Pull | null) =>
      pull ? (Date.parse(pull.window_to) - Date.parse(pull.window_from)) / 3_600_000 : null;

    test('is not pulled before it is registered', async () => {
      expect(await lease()).toBeNull();
    });

    test('is pulled by one process at a time, 48 hours at first, then since shortly before the last pull', async () => {
      await register();
      const first = await lease();
      expect(length(first)).toBeCloseTo(48, 0);
      expect(await lease()).toBeNull();
      await finish(first, { payments: 0 });
      expect(await lease()).toBeNull();
      await age(1);
      const second = await lease();
      expect(length(second)).toBeCloseTo(4, 1);
      expect(second?.missed_since).toBeNull();
    });

    test('is pulled again after a failure or a killed process', async () => {
      await register();
      await finish(await lease(), { problem: 'HTTP 503' });
      expect(await lease()).toBeNull();
      await age(1);
      const again = await lease();
      expect(length(again)).toBeCloseTo(48, 0);
      await age(1);
      expect(length(await lease())).toBe(null);
      await age(1);
      expect(length(await lease())).toBeCloseTo(48, 0);
    });

    test('reports the missed period after more than 48 hours without a pull', async () => {
      await register();
      await finish(await lease(), { payments: 0 });
      await age(60);
      const late = await lease();
      expect(length(late)).toBeCloseTo(48, 0);
      expect(late?.missed_since).not.toBeNull();
      await finish(late, { payments: 3, new_payments: 1 });
      expect(await asStaff('statement_status')).toMatchObject({
        problem: null,
        missed: [{ starts_at: late?.missed_since, ends_at: late?.window_from }],
      });
    });

    test('returns receipts that no earlier statement listed', async () => {
      const [listed, confirmed, unknown] = [newReceipt(), newReceipt(), newReceipt()];
      await receive('', listed, { source: 'statement' });
      await receive('', confirmed);
      expect(
        await asService('receipts_not_in_statement', {
          receipts: `{${[listed, confirmed, unknown].join(',')}}`,
        }),
      ).toEqual([confirmed, unknown]);
    });
  });
});
