// Messages to customers: queued once in the transaction of their cause, which never fails because of them.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { deliveryFailures } from '../../../domain/deliveries/delivery-failure.ts';
import {
  exampleFacts,
  type MessageFacts,
  type MessageTemplate,
  placeholders,
  writeMessage,
} from '../../../domain/messages/customer-message.ts';
import { textLength } from '../../../domain/messages/text-message.ts';
import type { DeliveryFailureReason } from '../../types.ts';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, queryAs, readRows, readColumn, place, expire, begin } = shop;
  const { confirm, rowsAs } = shop;
  beforeEach(() => database.execute('delete from private.rate_limits'));

  const placeOrder = async (form: Record<string, unknown> = {}) =>
    place(await makeProduct(database, 10), form);
  /** Begins a payment, after ending the one before. */
  const beginAgain = async (order: PlacedOrder, phone = order.customer_phone): Promise<void> => {
    await database.query(`update public.payments set status = 'failed' where order_id = $1`, [order.id]);
    await begin(order, { phone });
  };
  const set = (order: PlacedOrder, change: string) =>
    database.query(`update public.orders set ${change} where id = $1`, [order.id]);
  /** `kind channel recipient` of each message of an order, unordered. */
  const messagesOf = ({ id }: PlacedOrder) =>
    readColumn(
      `select concat_ws(' ', m.kind, nullif(m.event_key, ''), m.channel, m.recipient)
       from public.outbox_messages as m join private.outbox_queue as q on q.message_id = m.id
       where m.order_id = $1 and m.status = 'waiting' order by 1`,
      [id],
    );

  test('an order that is only placed sends nothing', async () => {
    const order = await placeOrder();
    expect(await messagesOf(order)).toEqual([]);
    await beginAgain(order);
    expect(await messagesOf(order)).toEqual([
      'order_received mail amina@example.com',
      'order_received text +254712345678',
    ]);
  });

  test('a second prompt for the same order sends nothing more', async () => {
    const order = await placeOrder();
    await beginAgain(order);
    await beginAgain(order);
    expect(await messagesOf(order)).toHaveLength(2);
  });

  test('a prompt to another phone sends no text until a prompt reaches the phone of the order', async () => {
    const order = await placeOrder();
    await beginAgain(order, '0799999999');
    expect(await messagesOf(order)).toEqual(['order_received mail amina@example.com']);
    await beginAgain(order);
    expect(await messagesOf(order)).toEqual([
      'order_received mail amina@example.com',
      'order_received text +254712345678',
    ]);
  });

  test('money paid to the till by hand sends the payment messages only', async () => {
    const order = await placeOrder();
    await confirm(order);
    expect(await messagesOf(order)).toEqual([
      'order_paid mail amina@example.com',
      'order_paid text +254712345678',
    ]);
  });

  test('each step of an order sends one email and one text, also when repeated', async () => {
    const order = await placeOrder();
    await beginAgain(order);
    const both = (step: string) => [`${step} mail amina@example.com`, `${step} text +254712345678`];
    expect(await messagesOf(order)).toEqual(both('order_received'));
    await set(order, `payment_status = 'paid', status = 'processing'`);
    await set(order, `status = 'shipped'`);
    await set(order, `status = 'out_for_delivery'`);
    await set(order, `status = 'delivered'`);
    await set(order, `status = 'out_for_delivery'`);
    await set(order, `status = 'delivered'`);
    expect(await messagesOf(order)).toEqual(
      ['order_delivered', 'order_on_its_way', 'order_paid', 'order_received'].flatMap(both),
    );
    await set(order, `payment_status = 'refunded'`);
    expect(await messagesOf(order)).toEqual(
      ['order_delivered', 'order_on_its_way', 'order_paid', 'order_received', 'order_refunded'].flatMap(both),
    );
  });

  test('limits messages about unpaid orders to five per recipient and day, and sends the withheld one when its order is paid', async () => {
    const victim = { customer_phone: '0799999999', customer_email: 'Victim@example.com' };
    const orders: PlacedOrder[] = [];
    const order = async (form: Record<string, unknown>, phone?: string) => {
      const placed = await placeOrder(form);
      await beginAgain(placed, phone);
      orders.push(placed);
      return placed;
    };
    const received = async () => (await Promise.all(orders.map(messagesOf))).flat();
    for (let count = 0; count < 7; count += 1) await order(victim);
    expect((await received()).filter((message) => message.startsWith('order_received mail'))).toHaveLength(5);
    expect((await received()).filter((message) => message.startsWith('order_received text'))).toHaveLength(5);
    // The same email address in another case with another phone; the phone with another email address.
    await order({ ...victim, customer_phone: '0788888888', customer_email: 'VICTIM@example.com' });
    const last = await order({ ...victim, customer_email: 'other@example.com' });
    expect(await received()).toHaveLength(5 + 5 + 2);
    const { rows } = await database.query(
      `select channel, status, problem from public.outbox_messages where order_id = $1 and channel = 'text'`,
      [last.id],
    );
    expect(rows).toEqual([
      {
        channel: 'text',
        status: 'over_budget',
        problem: 'Not sent: too many unpaid orders for this recipient today',
      },
    ]);
    await set(last, `payment_status = 'paid', status = 'processing'`);
    expect(await messagesOf(last)).toEqual([
      'order_paid mail other@example.com',
      'order_paid text +254799999999',
      'order_received mail other@example.com',
      'order_received text +254799999999',
    ]);
  });

  test("deletes bodies of M-PESA's messages after the retention period, but not their outcome", async () => {
    await database.query(`update public.store_settings set payment_messages_months = 12`);
    const words = () =>
      readRows<{ body: string; source_address: string | null; age: string }>(
        `select body, source_address, outcome as age from public.payment_messages where body <> 'other' order by id`,
      );
    await database.query(`update public.payment_messages set body = 'other'`);
    for (const [source, outcome, age] of [
      ['callback', 'paid', '13 months'],
      ['callback', 'paid', '11 months'],
      // Not settled yet.
      ['callback', null, '13 months'],
      ['confirmation', null, '13 months'],
      ['query', 'pending', '91 days'],
      ['query', 'pending', '89 days'],
      ['query', 'failed', '91 days'],
    ]) {
      await database.query(
        `insert into public.payment_messages (source, outcome, received_at, body, source_address)
         values ($1, $2, now() - $3::interval, 'words of M-PESA', '196.201.212.69')`,
        [source, outcome, age],
      );
    }
    await database.query(
      `insert into public.mpesa_transactions (receipt, received_cents, transacted_at, payer_name, payer_phone)
       values ('UKL0000OLD', 100, now() - interval '13 months', 'AMINA', '2547 ***** 126'),
              ('UKL0000NEW', 100, now() - interval '11 months', 'AMINA', '2547 ***** 126')`,
    );
    await asService('forget_old_rows');
    const whole = { body: 'words of M-PESA', source_address: '196.201.212.69' };
    expect(await words()).toEqual([
      { body: '{}', source_address: null, age: 'paid' },
      { ...whole, age: 'paid' },
      { ...whole, age: null },
      { ...whole, age: null },
      { ...whole, age: 'pending' },
      { ...whole, age: 'failed' },
    ]);
    const { rows } = await database.query(
      'select receipt, payer_name, payer_phone from public.mpesa_transactions order by receipt',
    );
    expect(rows).toEqual([
      { receipt: 'UKL0000NEW', payer_name: 'AMINA', payer_phone: '2547 ***** 126' },
      { receipt: 'UKL0000OLD', payer_name: null, payer_phone: null },
    ]);
  });

  test('deletes recipient and text of old messages, but not their state', async () => {
    const [old, young] = [await placeOrder(), await placeOrder()];
    for (const order of [old, young]) await beginAgain(order);
    await database.query(
      `update public.outbox_messages set status = 'sent', next_attempt_at = null, body = 'key'`,
    );
    await database.query(
      `update public.outbox_messages set created_at = now() - interval '91 days' where order_id = $1`,
      [old.id],
    );
    await database.query(
      `insert into private.rate_limits
       select bucket, 'x', ended - interval '10 minutes', 1, ended
       from (values ('old', now() - interval '1 second'), ('young', now() + interval '1 minute')) as counters (bucket, ended)`,
    );
    expect(await asService('forget_old_rows')).toBe(2);
    expect(await asService('forget_old_rows')).toBe(0);
    const wordsOf = ({ id: order }: PlacedOrder) =>
      readRows(
        `select status, recipient <> '' as is_addressed, body from public.outbox_messages where order_id = $1`,
        [order],
      );
    const gone = { status: 'sent', is_addressed: false, body: null };
    expect(await wordsOf(old)).toEqual([gone, gone]);
    const unchanged = { status: 'sent', is_addressed: true, body: 'key' };
    expect(await wordsOf(young)).toEqual([unchanged, unchanged]);
    expect(await readRows(`select bucket from private.rate_limits where subject = 'x'`)).toEqual([
      { bucket: 'young' },
    ]);
  });

  test('reports a payment that needs review', async () => {
    const held = await placeOrder();
    await set(held, `payment_status = 'needs_review'`);
    expect(await messagesOf(held)).toContain('order_payment_held text +254712345678');
  });

  describe('an order that ends', () => {
    const endPaymentAndExpire = async (order: PlacedOrder) => {
      await database.query(
        `update public.payments set status = 'failed' where order_id = $1 and status <> 'completed'`,
        [order.id],
      );
      await expire(order);
    };
    const endings = async (order: PlacedOrder) =>
      (await messagesOf(order)).filter((line) => /^order_(cancelled|expired)/.test(line));
    const priorityOf = ({ id }: PlacedOrder) =>
      readColumn<boolean>(
        `select distinct has_priority from public.outbox_messages
         where order_id = $1 and kind in ('order_cancelled', 'order_expired')`,
        [id],
      );

    test('sends nothing when it expires without a prompt', async () => {
      const order = await placeOrder();
      await endPaymentAndExpire(order);
      expect(await messagesOf(order)).toEqual([]);
      const { rows } = await database.query('select status from public.orders where id = $1', [order.id]);
      expect(rows, 'it has expired').toEqual([{ status: 'cancelled' }]);
    });

    test('sends an email and no text when it expires after a prompt, without priority', async () => {
      const order = await placeOrder();
      await beginAgain(order);
      await endPaymentAndExpire(order);
      expect(await endings(order)).toEqual(['order_expired mail amina@example.com']);
      expect(await priorityOf(order)).toEqual([false]);
    });

    test('sends an email and no text when staff cancel it unpaid', async () => {
      const order = await placeOrder();
      await set(order, `status = 'cancelled'`);
      expect(await endings(order)).toEqual(['order_cancelled mail amina@example.com']);
      expect(await priorityOf(order)).toEqual([false]);
    });

    test('sends both for a paid order, with the refunded amount', async () => {
      const order = await placeOrder();
      await database.query(
        `insert into public.payments (order_id, phone, charge_cents, status, receipt, completed_at)
         values ($1, '254712345678', 190100, 'completed', 'UKLCANCEL1', now())`,
        [order.id],
      );
      await set(order, `payment_status = 'paid', status = 'processing', reserved_until = null`);
      await set(order, `status = 'cancelled'`);
      expect(await endings(order)).toEqual([
        'order_cancelled mail amina@example.com',
        'order_cancelled text +254712345678',
      ]);
      expect(await priorityOf(order)).toEqual([true]);
      const { rows } = await database.query<{ facts: MessageFacts }>(
        `select private.message_facts($1, 'order_cancelled', '') as facts`,
        [order.id],
      );
      const templates = await database.query<MessageTemplate>(
        `select subject, body from public.message_templates where kind = 'order_cancelled' and channel = 'mail'`,
      );
      const [template] = templates.rows;
      const [known] = rows;
      if (!template || !known) throw new Error('there is no template');
      const write = (facts: MessageFacts) =>
        writeMessage(template, 'mail', facts, 'https://jani.example').body;
      expect(write(known.facts)).toContain('We are sending your KSh 1,901.00 back to the phone that paid.');
      expect(write({ ...known.facts, payment: null })).not.toContain('back to the phone');
    });

    test('sends only the message about the refund when the refund is completed', async () => {
      const order = await placeOrder();
      await set(order, `payment_status = 'needs_review', reserved_until = null`);
      await set(order, `payment_status = 'refunded', status = 'cancelled'`);
      expect((await messagesOf(order)).filter((line) => !line.startsWith('order_payment_held'))).toEqual([
        'order_refunded mail amina@example.com',
        'order_refunded text +254712345678',
      ]);
    });

    test('sends emails for five unpaid orders of one recipient, and none for a sixth', async () => {
      const email = 'often@example.com';
      for (let ended = 0; ended < 6; ended += 1) {
        const order = await placeOrder({ customer_email: email });
        await set(order, `status = 'cancelled'`);
        expect(await endings(order)).toHaveLength(ended < 5 ? 1 : 0);
      }
    });
  });

  test('emails start with a capital letter; texts edited by staff do not change', async () => {
    const { rows } = await database.query<{ default_body: string }>(
      `select default_body from public.message_templates where channel = 'mail'`,
    );
    for (const { default_body } of rows) expect(default_body).toMatch(/^Habari[^\n]*,\n\n[A-Z]/);
  });

  test('a message with a new event key is sent, one with a known key is not', async () => {
    const order = await placeOrder();
    const queue = (event_key: string) =>
      database.query(`select private.queue_order_messages($1, 'order_refunded', $2)`, [order.id, event_key]);
    await queue('first');
    await queue('second');
    await queue('second');
    expect((await messagesOf(order)).filter((line) => line.startsWith('order_refunded'))).toEqual([
      'order_refunded first mail amina@example.com',
      'order_refunded first text +254712345678',
      'order_refunded second mail amina@example.com',
      'order_refunded second text +254712345678',
    ]);
  });

  test('a rolled back change sends no message, and a change succeeds when its message cannot be queued', async () => {
    const order = await placeOrder();
    await database
      .transaction(async (session) => {
        await session.query(`update public.orders set payment_status = 'paid' where id = $1`, [order.id]);
        throw new Error('rolled back');
      })
      .catch(() => {});
    expect(await messagesOf(order)).toEqual([]);

    await database.query(`select private.queue_order_messages($1, 'an unknown kind')`, [order.id]);
    await database.execute(
      `alter table public.outbox_messages add constraint "nothing more" check (order_id <> '${order.id}') not valid`,
    );
    await set(order, `payment_status = 'paid'`);
    await database.execute('alter table public.outbox_messages drop constraint "nothing more"');
    const { rows } = await database.query(`select payment_status from public.orders where id = $1`, [
      order.id,
    ]);
    expect(rows).toEqual([{ payment_status: 'paid' }]);
    expect(await messagesOf(order)).toEqual([]);
    await set(order, `status = 'shipped'`);
    expect(await messagesOf(order)).toHaveLength(2);
  });

  test('deletes the messages of a deleted order', async () => {
    const order = await placeOrder();
    await set(order, `status = 'processing', payment_status = 'paid'`);
    expect(await messagesOf(order)).toHaveLength(2);
    await database.query('delete from public.orders where id = $1', [order.id]);
    const { rows } = await database.query('select from public.outbox_messages where order_id = $1', [
      order.id,
    ]);
    expect(rows).toEqual([]);
  });

  test('every default text to customers fits one SMS with a five-figure amount', async () => {
    const { rows } = await database.query<MessageTemplate & { kind: string }>(
      `select kind, default_subject as subject, default_body as body from public.message_templates where channel = 'text' and kind not in ('job_for_rider', 'back_in_stock')`,
    );
    expect(rows).toHaveLength(10);
    const payment = { charge_cents: 1_234_500, receipt: 'UKL3AB12CD', refund_receipt: 'UKM4EF56GH' };
    for (const template of rows) {
      for (const failure of Object.keys(deliveryFailures) as DeliveryFailureReason[]) {
        const arrival = new Date(Date.now() + 86_400_000).toISOString();
        const facts = { ...exampleFacts, total_amount: 1_234_500, payment, failure, arrival };
        const { body } = writeMessage(template, 'text', facts, 'https://janijuice.co.ke');
        expect(textLength(body).positions, body).toBeLessThanOrEqual(160);
      }
    }
  });

  describe('a template', () => {
    const save = (body: string, subject: string | null = null) =>
      queryAs(
        'staff',
        `update public.message_templates set body = $1, subject = $2
         where kind = 'order_paid' and channel = $3 returning updated_at`,
        [body, subject, subject === null ? 'text' : 'mail'],
      );

    test('may use every placeholder, and updates its date with every edit', async () => {
      const all = Object.keys(placeholders)
        .map((name) => `{${name}}`)
        .join(' ');
      const dates = [await save(all), await save('Paid[, {receipt}]'), await save('Paid')].map(
        ({ rows }) => (rows[0] as { updated_at: Date }).updated_at,
      );
      expect(new Set(dates.map(String)).size).toBe(3);
    });

    test.each([
      [' ', null, 'template_empty'],
      ['Paid', '', 'template_empty'],
      ['Paid', 'Two\nlines', 'subject_has_lines'],
      ['a'.repeat(481), null, 'template_too_long'],
      ['Paid {nmae}', null, 'placeholder_unknown'],
      ['Paid {}', null, 'placeholder_unknown'],
      ['Paid {name', null, 'brackets_unbalanced'],
      ['Paid [by [{name}]]', null, 'brackets_unbalanced'],
    ])('%j with the subject %j is rejected: %s', async (body, subject, code) => {
      await expectRefusal(save(body, subject), 400, code);
    });
  });

  describe('for staff', () => {
    const find = (given: Record<string, unknown>) =>
      rowsAs<{ id: string; created_at: Date; recipient: string }>('staff', 'search_messages', given);

    test('finds messages by customer, recipient, order and tracking number, in pages', async () => {
      const order = await placeOrder({
        customer_name: 'Zawadi 100% Otieno',
        customer_email: 'zawadi@example.com',
      });
      await beginAgain(order);
      await database.query(
        `insert into public.outbox_messages
           (order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, created_at)
         select gen_random_uuid(), 'order_paid', '', 'mail', 'many@example.com', 'ORD-0', 'JJ-0', 'Many',
           now() - make_interval(secs => n) from generate_series(1, 120) as n`,
      );
      for (const search of ['zawadi 100%', 'OTIENO', order.tracking_number]) {
        expect(await find({ search }), search).toHaveLength(2);
      }
      expect(await find({ search: 'ZAWADI@' })).toHaveLength(1);
      expect(await find({ search: 'zawadi', channel: 'mail' })).toMatchObject([
        { recipient: 'zawadi@example.com' },
      ]);
      expect(await find({ search: 'zawadi', status: 'failed' })).toEqual([]);
      // Rare, and older than the rows that a search reads first.
      await database.query(
        `update public.outbox_messages set created_at = now() - interval '1 year' where order_id = $1`,
        [order.id],
      );
      expect(await find({ search: 'zawadi', page_size: 2 })).toHaveLength(2);
      const first = await find({ search: 'many@', page_size: 100 });
      const last = first.at(-1);
      const next = await find({
        search: 'many@',
        page_size: 100,
        before_created_at: last?.created_at,
        before_id: last?.id,
      });
      expect(new Set([...first, ...next].map(({ id }) => id)).size).toBe(120);
      await expectRefusal(callAs('customer', 'search_messages'), 403, 'staff_only');
    });

    test('only failed and uncertain messages are resent, and the staff member is recorded', async () => {
      const order = await placeOrder();
      await beginAgain(order);
      const { rows } = await database.query<{ id: string }>(
        `update public.outbox_messages set status = 'failed', next_attempt_at = null, give_up_at = now()
         where order_id = $1 and channel = 'mail' returning id`,
        [order.id],
      );
      const message_id = rows[0]?.id;
      await database.query('delete from private.outbox_queue where message_id = $1', [message_id]);
      await expectRefusal(callAs('customer', 'send_message_again', { message_id }), 403, 'staff_only');
      await asStaff('send_message_again', { message_id });
      const { rows: again } = await database.query(
        `select m.status, m.resent_by, m.give_up_at > now() + interval '23 hours' as has_a_day
         from public.outbox_messages as m join private.outbox_queue as q on q.message_id = m.id where m.id = $1`,
        [message_id],
      );
      expect(again).toEqual([{ status: 'waiting', resent_by: 'staff@jani.example', has_a_day: true }]);
      await expectRefusal(asStaff('send_message_again', { message_id }), 409, 'message_not_to_send_again');
      await expectRefusal(asStaff('send_message_again', { message_id: order.id }), 404, 'message_not_found');
    });
  });
});
