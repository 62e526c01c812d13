// A shop with orders, payments, refunds and deliveries in every state, made by its own procedures: the rows of an update's fixture.
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Database } from '@jani-juice/backend/database';
import { call, makeProduct, orderForm, type PlacedOrder, personIds } from '../shop-database.ts';

const charge = 95_100;
/** Initial units of the product that all orders are for. */
export const initialUnits = 1000;

/** Fills a migrated, empty database. The customers' names are those of their orders' states. */
export async function fillShop(database: Database): Promise<void> {
  const orders: Record<string, PlacedOrder> = {};
  const receipts: Record<string, string> = {};
  const service = <Answer>(procedure: string, given: Record<string, unknown>) =>
    call<Answer>(database, 'service', procedure, given);
  const staff = <Answer>(procedure: string, given: Record<string, unknown>) =>
    call<Answer>(database, 'staff', procedure, given);
  const first = async <Row>(query: string, values: unknown[] = []) =>
    (await database.query<Row & Record<string, unknown>>(query, values)).rows[0] as Row;
  const orderOf = (name: string) => orders[name] as PlacedOrder;

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

  await database.execute(await readFile(new URL('../../seed.sql', import.meta.url), 'utf8'));
  await database.query(`insert into auth.users (id, email) values ($1, 'staff@jani.example')`, [
    personIds.staff,
  ]);
  await database.query('insert into public.admin_profiles (user_id, is_active) values ($1, true)', [
    personIds.staff,
  ]);
  const product = await makeProduct(database, initialUnits);
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
      { ...orderForm(product), customer_name: name },
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
}
