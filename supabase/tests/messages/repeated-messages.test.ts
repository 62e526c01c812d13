// Staff send the text of a sent message once more: a new message that refers to the first.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { settleAll, setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asStaff, readRow, readRows, readValue, queryAs, place } = setUpShop(kind);
  beforeEach(() =>
    database.execute(
      `delete from private.rate_limits; delete from private.messages_sent; update public.store_settings set texts_per_day = 300`,
    ),
  );

  /** A paid order on its way, whose messages were sent. */
  async function notifiedOrder(): Promise<PlacedOrder> {
    const order = await place(await makeProduct(database, 10));
    await database.query(
      `update public.orders set payment_status = 'paid', status = 'shipped' where id = $1`,
      [order.id],
    );
    await database.query(
      `update public.outbox_messages
       set status = 'sent', attempts = 1, next_attempt_at = null, sent_at = now(), body = 'Your order is on its way'
       where order_id = $1`,
      [order.id],
    );
    await database.query(
      `delete from private.outbox_queue where message_id in (select id from public.outbox_messages where order_id = $1)`,
      [order.id],
    );
    return order;
  }
  const messageOf = (order: PlacedOrder, kind_ = 'order_on_its_way', channel = 'text') =>
    readValue(
      'select id from public.outbox_messages where order_id = $1 and kind = $2 and channel = $3 and repeat_of is null',
      [order.id, kind_, channel],
    ) as Promise<string>;
  const repeat = (message_id: string) => asStaff<{ id: string }>('repeat_message', { message_id });
  const check = async (message_id: string) =>
    (await queryAs('staff', 'select * from public.check_repeat($1)', [message_id])).rows[0];
  const finish = (id: string) =>
    database.query(
      `update public.outbox_messages set status = 'sent', next_attempt_at = null where id = $1`,
      [id],
    );

  test('a new message with the same text and recipient waits, and refers to the first', async () => {
    const first = await messageOf(await notifiedOrder());
    expect(await check(first)).toEqual({ problem: null, is_true: true });
    const { id } = await repeat(first);
    expect(
      await readRow(
        `select m.repeat_of, m.kind, m.recipient, m.body, m.status, m.resent_by, m.is_verbatim
         from public.outbox_messages as m join private.outbox_queue as q on q.message_id = m.id where m.id = $1`,
        [id],
      ),
    ).toEqual({
      repeat_of: first,
      kind: 'order_on_its_way',
      recipient: '+254712345678',
      body: 'Your order is on its way',
      status: 'waiting',
      resent_by: 'staff@jani.example',
      is_verbatim: true,
    });
    await finish(id);
    const { id: next } = await repeat(id);
    expect(await readValue('select repeat_of from public.outbox_messages where id = $1', [next])).toBe(first);
  });

  test('two members who send it at once send it once', async () => {
    const first = await messageOf(await notifiedOrder());
    const ends = await settleAll(2, () => repeat(first));
    expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await expectRefusal(repeat(first), 409, 'message_not_to_repeat');
    expect(await readRows('select from public.outbox_messages where repeat_of = $1', [first])).toHaveLength(
      1,
    );
  });

  test('shows whether its text is still true, and sends it all the same once it is confirmed', async () => {
    const order = await notifiedOrder();
    const first = await messageOf(order);
    await database.query(`update public.orders set status = 'delivered' where id = $1`, [order.id]);
    expect(await check(first)).toEqual({ problem: null, is_true: false });
    const { id } = await repeat(first);
    // An undo of a status withdraws what the shop says by itself, not what staff confirmed.
    await database.query('select private.withdraw_messages($1)', [order.id]);
    expect(await readRows('select from public.outbox_messages where id = $1', [id])).toHaveLength(1);
  });

  test('is refused for erased, waiting and one-time messages, and without a budget', async () => {
    const order = await notifiedOrder();
    const [erased, waiting, sent] = [
      await messageOf(order, 'order_paid', 'mail'),
      await messageOf(order, 'order_paid', 'text'),
      await messageOf(order),
    ];
    await database.query('select private.anonymise_messages(array[$1::uuid])', [erased]);
    await database.query(
      `update public.outbox_messages set status = 'waiting', next_attempt_at = now() where id = $1`,
      [waiting],
    );
    const newsletter = (await readValue(
      `insert into public.outbox_messages
         (kind, event_key, channel, recipient, order_number, tracking_number, customer_name, status, next_attempt_at, body)
       values ('newsletter_confirmation', $1, 'mail', 'reader@example.com', '', '', '', 'sent', null, 'Confirm') returning id`,
      [randomUUID()],
    )) as string;
    expect(await check(erased)).toMatchObject({ problem: 'its recipient and text were erased' });
    expect(await check(newsletter)).toMatchObject({
      problem: 'its links work once, and the shop keeps no copy of them',
    });
    for (const id of [erased, waiting, newsletter]) {
      await expectRefusal(repeat(id), 409, 'message_not_to_repeat');
    }
    await expectRefusal(repeat(randomUUID()), 404, 'message_not_found');
    await database.query('update public.store_settings set texts_per_day = 0');
    await expectRefusal(repeat(sent), 409, 'message_budget_used_up');
    await database.query('update public.store_settings set texts_per_day = 300');
    await repeat(sent);
  });

  test('disappears with its order', async () => {
    const order = await notifiedOrder();
    await repeat(await messageOf(order));
    await database.query('delete from public.orders where id = $1', [order.id]);
    expect(await readRows('select from public.outbox_messages where order_id = $1', [order.id])).toEqual([]);
  });

  test('is for staff only', async () => {
    const first = await messageOf(await notifiedOrder());
    for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
      await expectRefusal(callAs(person, 'repeat_message', { message_id: first }), 403, 'staff_only');
      await expectRefusal(callAs(person, 'check_repeat', { message_id: first }), 403, 'staff_only');
    }
    await repeat(first);
  });
});
