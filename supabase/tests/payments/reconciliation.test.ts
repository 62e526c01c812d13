// Reconciliation: differences between the shop and M-PESA, their resolution by staff, and pulls of the 48-hour statement.
import { randomBytes, randomInt } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  call,
  expectRefusal,
  makeProduct,
  openShopDatabase,
  orderForm,
  type Person,
  type PlacedOrder,
  people,
  personIds,
} from '../shop-database.ts';
import { expectBalancedBooks } from './balanced-books.ts';

interface Row {
  id: string;
  kind: string;
  is_open: boolean;
  receipt: string | null;
  our_cents: number | null;
  their_cents: number | null;
  payment_id: string | null;
  resolution: string | null;
  refund_status: string | null;
}
interface Day {
  rows: Row[];
  is_covered: boolean;
  missed: { starts_at: string; ends_at: string }[];
}
interface Pull {
  id: number;
  window_from: string;
  window_to: string;
  missed_since: string | null;
}

const receipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
const charge = 95_100;
const today = () => new Date(Date.now() + 3 * 3_600_000).toISOString().slice(0, 10);

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let product: string;
  let order: PlacedOrder;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
    product = await makeProduct(database, 1000);
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    await database.execute(`delete from public.statement_pulls; delete from private.mpesa_registrations`);
    order = await place();
  });
  afterEach(() => expectBalancedBooks(database));

  const place = () => call<PlacedOrder>(database, 'visitor', 'place_order', orderForm(product));
  const receive = (code: string, change: Record<string, unknown> = {}) =>
    call<{ outcome: string; payment: { id: string } | null }>(
      database,
      'service',
      'receive_mpesa_transaction',
      {
        source: 'confirmation',
        receipt: code,
        received_cents: charge,
        reference: order.tracking_number,
        ...change,
      },
    );
  const confirm = (code: string, cents = charge) =>
    call<{ payment: { id: string } }>(database, 'staff', 'confirm_till_payment', {
      order_id: order.id,
      receipt: code,
      received_cents: cents,
    });
  const readDay = (day = today()) => call<Day>(database, 'staff', 'reconciliation_day', { day });
  const rowOf = async (id: string, day?: string) => (await readDay(day)).rows.find((row) => row.id === id);
  const resolve = (given: Record<string, unknown>, person: Person = 'staff') =>
    call<{ outcome: string | null }>(database, person, 'resolve_difference', given);
  const history = async (code: string) =>
    (
      await database.query<{ line: string }>(
        `select concat_ws(' ', kind, note, actor_email) as line from public.reconciliation_events where receipt = $1 order by id`,
        [code],
      )
    ).rows.map(({ line }) => line);
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
      'sent back by hand': (code: string) =>
        call(database, 'staff', 'note_refund_by_hand', {
          receipt: code,
          refund_receipt: receipt(),
          reason: 'Another amount',
        }),
    };
    test.each(Object.entries(cases))(
      'waits for staff; once it is %s the order can be paid, and expires',
      async (how, end) => {
        const checked = async () =>
          (
            await call<{ payment_check?: string }>(database, 'visitor', 'track_order', {
              tracking_number: order.tracking_number,
            })
          ).payment_check;
        const begin = () =>
          call<{ is_new: boolean; payment: { id: string } }>(database, 'service', 'begin_payment', {
            order_id: order.id,
            tracking_number: order.tracking_number,
            phone: `07${String(randomInt(100_000_000)).padStart(8, '0')}`,
            callback_secret: randomBytes(32).toString('hex'),
          });
        const sweep = () => call(database, 'service', 'expire_reservations');
        const runOut = () =>
          database.query(
            `update public.orders set reserved_until = now() - interval '1 minute', expires_at = now() - interval '1 minute' where id = $1`,
            [order.id],
          );
        const countAnnouncements = async () =>
          Number(
            (
              await database.query<{ count: string }>(
                `select count(*)::text as count from realtime.messages where topic = 'order-' || $1`,
                [order.id],
              )
            ).rows[0]?.count,
          );
        const code = receipt();
        const { payment } = await begin();
        // Subscribers of the order are notified of the open prompt, of the review and of its end.
        expect(await countAnnouncements()).toBe(1);
        await call(database, 'service', 'settle_payment', {
          payment_id: payment.id,
          source: 'callback',
          body: '{}',
          result: 'succeeded',
          result_code: '0',
          ...(how.startsWith('accepted') ? {} : { received_cents: charge - 100, receipt: code }),
        });
        expect(await countAnnouncements()).toBe(2);
        await runOut();
        await sweep();
        expect(await checked()).toBe('review');
        expect(await begin()).toMatchObject({ is_new: false, payment: { status: 'review' } });

        await end(code, payment.id);
        await sweep();
        expect(await countAnnouncements()).toBe(3);
        expect(await checked()).toBeUndefined();
        const row = await rowOf(how.startsWith('accepted') ? payment.id : code);
        expect(row).toMatchObject({ kind: 'wrong_amount', is_open: false });
        expect((await begin()).is_new).toBe(true);
      },
    );
  });

  describe('a day', () => {
    test('shows payments on both sides as matched', async () => {
      const code = receipt();
      await receive(code);
      expect(await rowOf(code)).toMatchObject({
        kind: 'matched',
        is_open: false,
        our_cents: charge,
        their_cents: charge,
        order_id: order.id,
      });
    });

    test('shows unmatched money as missing here, open', async () => {
      const code = receipt();
      await receive(code, { reference: 'juice', payer_name: 'AMINA' });
      expect(await rowOf(code)).toMatchObject({
        kind: 'missing_here',
        is_open: true,
        our_cents: null,
        their_cents: charge,
        reference: 'juice',
        payer_name: 'AMINA',
      });
    });

    test('shows payments of the shop only as not compared, and as missing at M-PESA once the statement should list them', async () => {
      const code = receipt();
      const { payment } = await confirm(code);
      expect(await rowOf(payment.id)).toMatchObject({ kind: 'not_compared', is_open: false });
      await cover();
      expect(await rowOf(payment.id)).toMatchObject({
        kind: 'missing_there',
        is_open: true,
        our_cents: charge,
        their_cents: null,
      });
      await receive(code, { source: 'statement' });
      expect(await rowOf(code)).toMatchObject({ kind: 'matched', is_open: false });
      expect(await rowOf(payment.id)).toBeUndefined();
    });

    test('shows refunds of the order, by M-PESA or by hand, and withdrawn ones', async () => {
      const [first, second, back] = [receipt(), receipt(), receipt()];
      await receive(first);
      const { payment } = await receive(second);
      const refund = await call<{ id: string }>(database, 'staff', 'request_refund', {
        payment_id: payment?.id,
        reason: 'Twice',
      });
      await call(database, 'staff', 'withdraw_refund', { refund_id: refund.id });
      expect(await rowOf(second)).toMatchObject({ kind: 'double', is_open: true });
      await call(database, 'staff', 'note_refund_by_hand', {
        payment_id: payment?.id,
        refund_receipt: back,
        reason: 'From the till phone',
      });
      expect(await rowOf(second)).toMatchObject({ is_open: false, refund_status: 'completed' });
      expect(await history(second)).toEqual([
        'refund Twice staff@jani.example',
        'reopened The refund was withdrawn staff@jani.example',
        `refund By hand, receipt ${back}: From the till phone staff@jani.example`,
      ]);
    });

    test("a decision finds a payment typed by staff by its receipt, before M-PESA's message", async () => {
      const [first, second] = [receipt(), receipt()];
      await confirm(first);
      const { payment } = await confirm(second);
      expect(await resolve({ decision: 'refund', receipt: second })).toMatchObject({
        payment_id: payment.id,
      });
      await expectRefusal(resolve({ decision: 'refund', receipt: first }), 409, 'nothing_to_send_back');
    });

    test('shows a second payment as double until it is being sent back', async () => {
      const [first, second] = [receipt(), receipt()];
      await receive(first);
      const { payment } = await receive(second);
      expect(await rowOf(second)).toMatchObject({ kind: 'double', is_open: true });
      await resolve({ decision: 'refund', receipt: second, payment_id: payment?.id });
      expect(await rowOf(second)).toMatchObject({
        kind: 'double',
        is_open: false,
        refund_status: 'approved',
      });
      expect(await history(second)).toEqual(['refund Paid twice staff@jani.example']);
    });

    test('shows a wrong amount until the order is decided', async () => {
      const code = receipt();
      await receive(code, { received_cents: charge - 100 });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await resolve({ decision: 'give', receipt: code, order_id: order.id });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
      await call(database, 'staff', 'resolve_paid_order', { order_id: order.id, resolution: 'deliver' });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: false });
    });

    test('shows a differing amount of a refund with the same receipt until staff accept it', async () => {
      const code = receipt();
      const { payment } = await confirm(code);
      await database.query(`update public.orders set status = 'shipped' where id = $1`, [order.id]);
      await receive(code, { received_cents: charge - 5000 });
      expect(await rowOf(code)).toMatchObject({
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
      expect(await rowOf(code)).toMatchObject({ is_open: false, resolution: 'accepted' });
    });

    test('begins and ends at midnight in Nairobi', async () => {
      const [late, early] = [receipt(), receipt()];
      await receive(late, { reference: '', transacted_at: '2026-03-10T20:59:59Z' });
      await receive(early, { reference: '', transacted_at: '2026-03-10T21:00:00Z' });
      expect((await readDay('2026-03-10')).rows.map(({ id }) => id)).toEqual([late]);
      expect((await readDay('2026-03-11')).rows.map(({ id }) => id)).toEqual([early]);
      const days = await database
        .transaction(async (session) => {
          await session.query(`select set_config('request.jwt.claims', $1, true)`, [
            JSON.stringify({ role: 'service_role' }),
          ]);
          return session.query<Record<string, unknown>>(
            `select day::text, theirs, payments, missing_here, open from public.reconciliation_days('2026-03-09', '2026-03-11')`,
          );
        })
        .then(({ rows }) => rows.map((row) => Object.values(row).map(String)));
      expect(days).toEqual([
        ['2026-03-11', String(charge), '1', '1', '1'],
        ['2026-03-10', String(charge), '1', '1', '1'],
        ['2026-03-09', '0', '0', '0', '0'],
      ]);
    });

    test('excludes KSh 1 tests', async () => {
      const code = receipt();
      await database.query(
        `insert into public.payments (purpose, phone, charge_cents, requested_by, status, receipt)
         values ('test', '+254712345678', 100, $1, 'completed', $2)`,
        [personIds.staff, code],
      );
      await receive(code, { received_cents: 100, reference: 'TEST' });
      expect(await rowOf(code)).toBeUndefined();
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
      const code = receipt();
      await receive(code, { reference: 'juice' });
      expect(await resolve({ decision: 'give', receipt: code, order_id: order.id })).toMatchObject({
        outcome: 'paid',
      });
      expect(await rowOf(code)).toMatchObject({ kind: 'matched', is_open: false, resolution: 'given' });
      expect(await history(code)).toEqual(['given staff@jani.example']);
      await expectRefusal(
        resolve({ decision: 'give', receipt: code, order_id: (await place()).id }),
        409,
        'difference_changed',
      );
    });

    test('assign money of another amount to an order, which then needs review', async () => {
      const code = receipt();
      await receive(code, { reference: 'juice', received_cents: 50_000 });
      expect(await resolve({ decision: 'give', receipt: code, order_id: order.id })).toMatchObject({
        outcome: 'paid_needs_review',
      });
      expect(await rowOf(code)).toMatchObject({ kind: 'wrong_amount', is_open: true });
    });

    test('mark money as not for an order, and reopen it', async () => {
      const code = receipt();
      await receive(code, { reference: 'rent' });
      await resolve({ decision: 'not_an_order', receipt: code, note: 'Rent of the kiosk' });
      expect(await rowOf(code)).toMatchObject({ is_open: false, resolution: 'not_an_order' });
      // The statement lists it, too.
      await receive(code, { source: 'statement', reference: 'rent' });
      expect(await rowOf(code)).toMatchObject({ is_open: false });
      await resolve({ decision: 'reopen', receipt: code });
      expect(await rowOf(code)).toMatchObject({ is_open: true, resolution: null });
      expect(await history(code)).toEqual([
        'not_an_order Rent of the kiosk staff@jani.example',
        'reopened staff@jani.example',
      ]);
    });

    test('request a refund of unmatched money, by the rules of refunds', async () => {
      const [small, large] = [receipt(), receipt()];
      await receive(small, { reference: 'juice', received_cents: 50_000 });
      await receive(large, { reference: 'juice', received_cents: 500_000 });
      await resolve({ decision: 'refund', receipt: small });
      await resolve({ decision: 'refund', receipt: large });
      expect(await rowOf(small)).toMatchObject({ is_open: false, refund_status: 'approved' });
      expect(await rowOf(large)).toMatchObject({ is_open: false, refund_status: 'requested' });
      await expectRefusal(resolve({ decision: 'reopen', receipt: small }), 409, 'difference_changed');
      const { rows } = await database.query<{ id: string }>(
        'select id from public.refunds where transaction_receipt = $1',
        [large],
      );
      await call(database, 'staff', 'withdraw_refund', { refund_id: rows[0]?.id });
      expect(await rowOf(large)).toMatchObject({ is_open: true });
    });

    test('accept a payment that M-PESA does not list, and reopen it', async () => {
      const { payment } = await confirm(receipt());
      await cover();
      await resolve({ decision: 'accept', payment_id: payment.id, note: 'Cash' });
      expect(await rowOf(payment.id)).toMatchObject({ kind: 'missing_there', is_open: false });
      await resolve({ decision: 'reopen', payment_id: payment.id });
      expect(await rowOf(payment.id)).toMatchObject({ is_open: true });
    });

    test('see suggested orders for a payment', async () => {
      const code = receipt();
      await receive(code, { reference: 'juice' });
      const { rows } = await asRole(database, people.staff, (session) =>
        session.query<{ id: string }>('select id from public.suggest_orders($1)', [code]),
      );
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
      const code = receipt();
      await receive(code, { received_cents: 150 });
      for (const given of [{ decision: 'give', order_id: order.id }, { decision: 'refund' }]) {
        await expectRefusal(resolve({ ...given, receipt: code }), 409, 'amount_not_payable');
      }
    });

    test('have exclusive access, to at most a year at once', async () => {
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(resolve({ decision: 'accept', receipt: 'U' }, person), 403, 'staff_only');
        await expectRefusal(
          call(database, person, 'reconciliation_day', { day: today() }),
          403,
          'staff_only',
        );
        await expectRefusal(call(database, person, 'statement_status'), 403, 'staff_only');
      }
      await expectRefusal(
        call(database, 'staff', 'reconciliation_days', { since: '2025-01-01', until: '2026-06-01' }),
        400,
        'range_invalid',
      );
    });

    test('the history cannot be changed', async () => {
      const code = receipt();
      await receive(code, { reference: 'rent' });
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
      call<Pull | null>(database, 'service', 'lease_statement_pull', given);
    const finish = (pull: Pull | null, given: Record<string, unknown> = {}) =>
      call(database, 'service', 'finish_statement_pull', { pull_id: pull?.id, ...given });
    const register = () => call(database, 'service', 'record_mpesa_registration', { kind: 'statement' });
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
      expect(await call(database, 'staff', 'statement_status')).toMatchObject({
        problem: null,
        missed: [{ starts_at: late?.missed_since, ends_at: late?.window_from }],
      });
    });

    test('returns receipts that no earlier statement listed', async () => {
      const [listed, confirmed, unknown] = [receipt(), receipt(), receipt()];
      await receive(listed, { source: 'statement', reference: '' });
      await receive(confirmed, { reference: '' });
      expect(
        await call(database, 'service', 'receipts_not_in_statement', {
          receipts: `{${[listed, confirmed, unknown].join(',')}}`,
        }),
      ).toEqual([confirmed, unknown]);
    });
  });
});
