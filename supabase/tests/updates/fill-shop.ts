// A shop with orders, payments, refunds and deliveries in every state, made by its own procedures: the rows of an update's fixture.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Database } from '@jani-juice/backend/database';
import { makeProduct, type PlacedOrder, personIds } from '../shop-database.ts';
import { failed, newReceipt, shopSteps } from '../steps.ts';

const charge = 95_100;
/** Initial units of the product that all orders are for. */
export const initialUnits = 1000;

/** Fills a migrated, empty database. The customers' names are those of their orders' states. */
export async function fillShop(database: Database): Promise<void> {
  let product = '';
  const orders: Record<string, PlacedOrder> = {};
  const receipts: Record<string, string> = {};
  const shop = shopSteps(database);
  const { asStaff, readValue, place, expire, begin, recordPush, settle } = shop;
  const { receive, confirm, paymentOf, noteRefundByHand } = shop;
  const orderOf = (name: string) => orders[name] as PlacedOrder;

  async function settlePrompt(name: string, settled: Record<string, unknown>): Promise<void> {
    const { payment } = await begin(orderOf(name), { phone: '0712345678' });
    const push = { merchant_request_id: `m-${name}`, checkout_request_id: `ws-${name}` };
    await settle(await recordPush(payment, push), { body: JSON.stringify(settled), ...settled });
  }
  const paid = (receipt = '', received_cents = charge) => ({
    result: 'succeeded',
    result_code: '0',
    received_cents,
    receipt,
  });
  const setStatus = (name: string, status: string, from: string) =>
    asStaff('set_order_status', {
      order_id: orderOf(name).id,
      status,
      expected_status: from,
      expected_payment_status: 'paid',
    });

  /** Cash, credit, discount codes, areas, riders with their presses, requests to cancel and ratings. */
  async function fillDeliveries(): Promise<void> {
    const area_id = await readValue(`select id from public.delivery_areas where name = 'Karen'`);
    await database.execute(`insert into public.discount_codes (code, percent) values ('JANI10', 10)`);
    const made: PlacedOrder[] = [];
    for (const [index, form] of [
      { area_id, map_point: '-1.29207,36.82195' },
      { discount_code: 'JANI10', expected_total: 95_000 * 0.9 + 100 },
      {},
      {},
    ].entries())
      made.push(await place(product, { customer_phone: `072200000${index}`, ...form }));
    const [ridden, discounted, inCash, asked] = made as [PlacedOrder, PlacedOrder, PlacedOrder, PlacedOrder];
    for (const order of [ridden, discounted, asked]) await shop.pay(order);
    await asStaff('receive_cash', {
      order_id: inCash.id,
      received_cents: charge + 20_000,
      difference: 'credit',
    });
    const fromCredit = await place(product, { customer_phone: '0722000002' });
    await asStaff('receive_cash', {
      order_id: fromCredit.id,
      received_cents: charge - 10_000,
      difference: 'from_credit',
    });
    const rider = { name: 'Brian Otieno', phone: '0711000001', vehicle: 'Motorbike', plate: 'KMDA 123B' };
    const { id: rider_id } = await asStaff<{ id: string }>('save_rider', rider);
    const { secret } = await asStaff<{ secret: string }>('open_rider_link', { rider_id });
    for (const order of [ridden, discounted])
      await asStaff('assign_delivery', {
        order_id: order.id,
        delivery_person: rider.name,
        delivery_phone: rider.phone,
        delivery_vehicle: rider.vehicle,
        seen_updated_at: await readValue(
          'select updated_at::text from public.deliveries where order_id = $1',
          [order.id],
        ),
      });
    const { id: delivery_id, proof_code: code } = (await shop.readRow<{ id: string; proof_code: string }>(
      'select id, proof_code from public.deliveries where order_id = $1',
      [ridden.id],
    )) ?? { id: '', proof_code: '' };
    for (const [step, typed] of [
      ['picked_up', null],
      ['delivered', code === '0000' ? '0001' : '0000'],
      ['delivered', code],
    ])
      await shop.asVisitor('rider_press', {
        secret,
        press_key: randomUUID(),
        delivery_id,
        step,
        code: typed,
      });
    const proof = { order_id: ridden.id, access_key: ridden.access_key };
    await shop.asVisitor('rate_order', { ...proof, stars: 5, words: 'Cold and on time', may_quote: true });
    await shop.asVisitor('cancel_own_order', {
      tracking_number: asked.tracking_number,
      access_key: asked.access_key,
      expected_payment_status: 'paid',
    });
  }

  await database.execute(await readFile(new URL('../../seed.sql', import.meta.url), 'utf8'));
  await database.query(`insert into auth.users (id, email) values ($1, 'staff@jani.example')`, [
    personIds.staff,
  ]);
  await database.query('insert into public.admin_profiles (user_id, is_active) values ($1, true)', [
    personIds.staff,
  ]);
  product = await makeProduct(database, initialUnits);
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
    orders[name] = await place(product, { customer_name: name, address: `10.1.${index}.1` });
    receipts[name] = newReceipt();
  }
  await settlePrompt('failed', { ...failed, result_description: 'Cancelled' });
  for (const name of ['paid', 'shipped', 'onTheWay', 'delivered', 'refunded', 'sentBack'])
    await settlePrompt(name, paid(receipts[name]));
  await settlePrompt('lower', paid(` ${receipts.lower?.toLowerCase()}`));
  await settlePrompt('both', paid(receipts.both?.toLowerCase()));
  // M-PESA's confirmation spells the same receipt in capitals.
  await receive(orderOf('both'), receipts.both);
  await settlePrompt('review', paid(receipts.review?.toLowerCase(), charge - 10_000));
  // The same for money of another amount.
  await receive('juice', receipts.review, { received_cents: charge - 10_000 });
  await settlePrompt('twice', paid(receipts.twice));
  await receive(orderOf('twice'), 'UKL7TWICE2');
  await confirm(orderOf('short'), receipts.short, { received_cents: charge - 10_000 });
  await confirm(orderOf('typed'), receipts.typed);
  await receive('juice', 'UKL7NOONE1', { received_cents: 12_345 });
  await database.query(
    `insert into public.payment_messages (source, body, outcome) values ('confirmation', '{"TransAmount":"KSh"}', 'unreadable'), ('confirmation', '{}', 'unreadable')`,
  );
  await setStatus('shipped', 'shipped', 'processing');
  for (const name of ['onTheWay', 'delivered', 'sentBack']) {
    await asStaff('assign_delivery', {
      order_id: orderOf(name).id,
      delivery_person: 'Otieno',
      delivery_phone: '0711000000',
      delivery_vehicle: 'KMEA 1',
      seen_updated_at: await readValue(
        'select updated_at::text as at from public.deliveries where order_id = $1',
        [orderOf(name).id],
      ),
    });
    await setStatus(name, 'out_for_delivery', 'processing');
  }
  await database.query(`update public.orders set payment_status = 'refunded' where id = $1`, [
    orderOf('sentBack').id,
  ]);
  await setStatus('delivered', 'delivered', 'out_for_delivery');
  await setStatus('onTheWay', 'cancelled', 'out_for_delivery');
  await setStatus('refunded', 'cancelled', 'processing');
  await noteRefundByHand(await paymentOf(receipts.refunded ?? ''), 'UKL7BACK01');
  await expire(orderOf('expired'));
  await fillDeliveries();
  await database.execute(`
    update public.message_templates set body = '{shop}: {paid} received. Karibu! {link}' where kind = 'order_payment_held' and channel = 'text';
    insert into private.prompt_pause (code, until, caused_by) values ('2028', now() + interval '1 hour', '+254712345678');
    insert into private.failed_prompts (phone, at) values ('+254712345678', now());
    insert into private.mpesa_registrations (kind) values ('till');
    update private.limits set allowed = 77 where name = 'place_order'`);
}
