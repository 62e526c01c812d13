// A migration that changes rows, on the database of a shop that has rows in every state.
import { randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../../backend/database/database.ts';
import { migrate } from '../../backend/database/migrate.ts';
import { testDatabases, throwawayDatabase } from '../../backend/database/throwaway.ts';
import { shopMigrations } from '../../scripts/shop-migrations.ts';
import { expectBalancedBooks } from './balanced-books.ts';
import { call, makeProduct, orderForm, type PlacedOrder, personIds } from './shop-database.ts';

const charge = 95_100;
const migration = '20261126220000_no_order_payment_or_sign_in_is_lost.sql';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let folder: string;
  const orders: Record<string, PlacedOrder> = {};
  const receipts: Record<string, string> = {};
  const units = new Map<string, number>();
  let before: Record<string, number>;

  const service = <Answer>(procedure: string, given: Record<string, unknown>) =>
    call<Answer>(database, 'service', procedure, given);
  const staff = <Answer>(procedure: string, given: Record<string, unknown>) =>
    call<Answer>(database, 'staff', procedure, given);
  const first = async <Row>(query: string, values: unknown[] = []) =>
    (await database.query<Row & Record<string, unknown>>(query, values)).rows[0] as Row;
  const orderOf = (name: string) => orders[name] as PlacedOrder;

  /** Counts and sums that an update must not change. */
  const count = () =>
    first<Record<string, number>>(`select
      (select count(*)::integer from public.orders) as orders,
      (select sum(stock_quantity)::integer from public.products) as stock,
      (select sum(total_amount)::integer from public.orders) as total,
      (select count(*)::integer from public.orders where payment_status = 'paid') as paid,
      (select sum(charge_cents)::integer from public.payments where status = 'completed' and not needs_refund) as received,
      (select sum(refund_cents)::integer from public.refunds) as refunds,
      (select count(*)::integer from public.payment_messages) as payment_messages,
      (select count(*)::integer from public.outbox_messages) as messages,
      (select count(*)::integer from public.mpesa_transactions) as transactions`);

  async function prompt(name: string, settled: Record<string, unknown>): Promise<string> {
    const { id, tracking_number } = orderOf(name);
    const { payment } = await service<{ payment: { id: string } }>('begin_payment', {
      order_id: id,
      tracking_number,
      phone: '0712345678',
      callback_secret: randomBytes(16).toString('hex'),
    });
    await service('record_push', {
      payment_id: payment.id,
      body: '{}',
      merchant_request_id: `m-${name}`,
      checkout_request_id: `ws-${name}`,
    });
    await service('settle_payment', {
      payment_id: payment.id,
      source: 'callback',
      body: JSON.stringify(settled),
      ...settled,
    });
    return payment.id;
  }
  const paid = (receipt: string, received_cents = charge) => ({
    result: 'succeeded',
    result_code: '0',
    received_cents,
    receipt,
  });
  const setStatus = (name: string, status: string, from: string) =>
    staff('set_order_status', {
      order_id: orderOf(name).id,
      status,
      expected_status: from,
      expected_payment_status: 'paid',
    });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'jani-test-earlier-'));
    const [platform, shop] = shopMigrations as [(typeof shopMigrations)[0], (typeof shopMigrations)[0]];
    for (const file of await readdir(shop.folder)) {
      if (file < migration) await copyFile(join(shop.folder, file), join(folder, file));
    }
    database = await throwawayDatabase(kind, [platform, { name: 'shop', folder }]);
    await database.execute(await readFile(new URL('../seed.sql', import.meta.url), 'utf8'));
    await database.query(`insert into auth.users (id, email) values ($1, 'staff@jani.example')`, [
      personIds.staff,
    ]);
    await database.query('insert into public.admin_profiles (user_id, is_active) values ($1, true)', [
      personIds.staff,
    ]);
    const product = await makeProduct(database, 1000);
    units.set(product, 1000);
    for (const [index, name] of [
      'open',
      'expired',
      'failed',
      'paid',
      'lower',
      'both',
      'review',
      'short',
      'shipped',
      'onTheWay',
      'delivered',
      'refunded',
      'sentBack',
      'typed',
      'twice',
    ].entries()) {
      orders[name] = await call<PlacedOrder>(
        database,
        'visitor',
        'place_order',
        orderForm(product),
        `10.1.${index}.1`,
      );
      receipts[name] = `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
    }
    await prompt('failed', { result: 'failed', result_code: '1032', result_description: 'Cancelled' });
    for (const name of ['paid', 'shipped', 'onTheWay', 'delivered', 'refunded', 'sentBack'])
      await prompt(name, paid(receipts[name] ?? ''));
    await prompt('lower', paid(` ${receipts.lower?.toLowerCase()}`));
    await prompt('both', paid(receipts.both?.toLowerCase() ?? ''));
    // M-PESA's confirmation spells the same receipt in capitals.
    await service('receive_mpesa_transaction', {
      source: 'confirmation',
      receipt: receipts.both,
      received_cents: charge,
      reference: orderOf('both').tracking_number,
    });
    await prompt('review', paid(receipts.review?.toLowerCase() ?? '', charge - 10_000));
    // The same for money of another amount.
    await service('receive_mpesa_transaction', {
      source: 'confirmation',
      receipt: receipts.review,
      received_cents: charge - 10_000,
      reference: 'juice',
    });
    await prompt('twice', paid(receipts.twice ?? ''));
    await service('receive_mpesa_transaction', {
      source: 'confirmation',
      receipt: 'UKL7TWICE2',
      received_cents: charge,
      reference: orderOf('twice').tracking_number,
    });
    await staff('confirm_till_payment', {
      order_id: orderOf('short').id,
      receipt: receipts.short,
      received_cents: charge - 10_000,
    });
    await staff('confirm_till_payment', {
      order_id: orderOf('typed').id,
      receipt: receipts.typed,
      received_cents: charge,
    });
    await service('receive_mpesa_transaction', {
      source: 'confirmation',
      receipt: 'UKL7NOONE1',
      received_cents: 12_345,
      reference: 'juice',
    });
    await database.query(
      `insert into public.payment_messages (source, body, outcome) values ('confirmation', '{"TransAmount":"KSh"}', 'unreadable'), ('confirmation', '{}', 'unreadable')`,
    );
    await setStatus('shipped', 'shipped', 'processing');
    for (const name of ['onTheWay', 'delivered', 'sentBack']) {
      await staff('assign_delivery', {
        order_id: orderOf(name).id,
        delivery_person: 'Otieno',
        delivery_phone: '0711000000',
        delivery_vehicle: 'KMEA 1',
        seen_updated_at: (
          await first<{ at: string }>(
            'select updated_at::text as at from public.deliveries where order_id = $1',
            [orderOf(name).id],
          )
        ).at,
      });
      await setStatus(name, 'out_for_delivery', 'processing');
    }
    await database.query(`update public.orders set payment_status = 'refunded' where id = $1`, [
      orderOf('sentBack').id,
    ]);
    await setStatus('delivered', 'delivered', 'out_for_delivery');
    await setStatus('onTheWay', 'cancelled', 'out_for_delivery');
    await setStatus('refunded', 'cancelled', 'processing');
    const { payment_id } = await first<{ payment_id: string }>(
      'select id as payment_id from public.payments where order_id = $1',
      [orderOf('refunded').id],
    );
    await staff('note_refund_by_hand', { payment_id, refund_receipt: 'UKL7BACK01', reason: 'Sold out' });
    await database.query(
      `update public.orders set expires_at = now() - interval '1 minute', reserved_until = now() - interval '1 minute' where id = $1`,
      [orderOf('expired').id],
    );
    await service('expire_reservations', {});
    await database.execute(`
      update public.message_templates set body = '{shop}: {paid} received. Karibu! {link}' where kind = 'order_payment_held' and channel = 'text';
      insert into private.prompt_pause (code, until, caused_by) values ('2028', now() + interval '1 hour', '+254712345678');
      insert into private.failed_prompts (phone, at) values ('+254712345678', now());
      insert into private.mpesa_registrations (kind) values ('till');
      update private.limits set allowed = 77 where name = 'place_order'`);
    before = await count();
    expect(await migrate(database, shopMigrations)).toContain(`shop/${migration.slice(0, -4)}`);
  });
  afterAll(async () => {
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });

  test('keeps every order, unit, message and shilling', async () => {
    // One transaction was stored under two spellings of its receipt.
    expect(await count()).toEqual({ ...before, transactions: (before.transactions ?? 0) - 1 });
    await expectBalancedBooks(database, units);
    const { rows } = await database.query(
      `select receipt from public.payments where receipt <> upper(trim(receipt))
       union all select receipt from public.mpesa_transactions where receipt <> upper(trim(receipt))
       union all select receipt from public.payment_messages where receipt <> upper(trim(receipt))`,
    );
    expect(rows).toEqual([]);
  });

  test.each([
    ['open', 'pending', 'unpaid', null],
    ['expired', 'cancelled', 'unpaid', null],
    ['failed', 'pending', 'unpaid', null],
    ['paid', 'processing', 'paid', 'pending'],
    ['lower', 'processing', 'paid', 'pending'],
    ['both', 'processing', 'paid', 'pending'],
    ['review', 'pending', 'unpaid', null],
    ['short', 'pending', 'needs_review', null],
    ['shipped', 'shipped', 'paid', 'pending'],
    ['onTheWay', 'cancelled', 'paid', 'failed'],
    ['delivered', 'delivered', 'paid', 'delivered'],
    ['refunded', 'cancelled', 'refunded', 'failed'],
    ['sentBack', 'out_for_delivery', 'refunded', 'failed'],
    ['typed', 'processing', 'paid', 'pending'],
    ['twice', 'processing', 'paid', 'pending'],
  ])(
    'the order %s is %s and %s, and its delivery %s',
    async (name, status, payment_status, delivery_status) => {
      expect(
        await first(
          `select o.status, o.payment_status, (select d.delivery_status from public.deliveries as d where d.order_id = o.id)
         from public.orders as o where o.id = $1`,
          [orderOf(name).id],
        ),
      ).toEqual({ status, payment_status, delivery_status });
    },
  );

  test('joins money that was booked under two spellings of its receipt', async () => {
    const { rows } = await database.query(
      'select receipt, needs_refund, method from public.payments where order_id = $1',
      [orderOf('both').id],
    );
    expect(rows).toEqual([{ receipt: receipts.both, needs_refund: false, method: 'prompt' }]);
  });

  test('lists an unreadable confirmation, and says why an attempt is under review', async () => {
    expect(
      await first(
        'select count(*)::integer as waiting from public.messages_to_check where resolution is null',
      ),
    ).toEqual({
      waiting: 1,
    });
    expect(
      await first(`select review_cause from public.payments where order_id = $1`, [orderOf('review').id]),
    ).toEqual({
      review_cause: 'wrong_amount',
    });
  });

  test('keeps texts and limits that the owner changed', async () => {
    expect(
      await first(`select body, position('{receipt}' in default_body) > 0 as is_new from public.message_templates
        where kind = 'order_payment_held' and channel = 'text'`),
    ).toEqual({ body: '{shop}: {paid} received. Karibu! {link}', is_new: true });
    expect(
      await first(
        `select allowed::integer, per_paid_order::integer from private.limits where name = 'place_order'`,
      ),
    ).toEqual({
      allowed: 77,
      per_paid_order: 2,
    });
  });

  test('earlier money can be decided about, and earlier orders paid', async () => {
    const { payment } = await first<{ payment: string }>(
      'select id as payment from public.payments where order_id = $1',
      [orderOf('typed').id],
    );
    expect(await staff('take_back_payment', { payment_id: payment })).toBe('unpaid');
    expect(
      await staff('resolve_review', {
        order_id: orderOf('short').id,
        decision: 'deliver',
        seen_cents: charge - 10_000,
      }),
    ).toBe('deliver');
    await staff('resolve_difference', {
      decision: 'give',
      receipt: receipts.review,
      order_id: orderOf('review').id,
    });
    await staff('resume_prompts', {});
    await prompt('open', paid('UKL7OPEN01'));
    await expectBalancedBooks(database, units);
  });
});
