// A text that a reader does not see counts as none, in every text that a visitor or staff member can write.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, orderForm, type PlacedOrder } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

const invisible = ['\u200b\u2060', ' \u00ad\u200e ', '\u3164\ufe0f', '\u{e0061}\u{1d173}', '\ufff0\u{13430}'];

/** Arguments that are stored as they are written, and how the procedure reads them. */
const storedArguments = {
  'place_order.customer_name': 'required',
  'place_order.customer_email': 'required',
  'place_order.customer_phone': 'required',
  'place_order.delivery_location': 'required',
  'place_order.building': 'optional',
  'place_order.unit': 'optional',
  'place_order.delivery_notes': 'optional',
  'subscribe_to_newsletter.email': 'required',
  'send_test_message.recipient': 'required',
  'change_member.name': 'required',
  'check_invitation.email': 'required',
  'check_invitation.name': 'required',
  'assign_delivery.delivery_person': 'required',
  'assign_delivery.delivery_phone': 'required',
  'assign_delivery.delivery_vehicle': 'required',
  'assign_delivery.delivery_notes': 'optional',
  'change_stock.reason': 'reason',
  'rate_order.words': 'optional',
  'save_rider.name': 'required',
  'save_rider.vehicle': 'required',
  'save_rider.plate': 'optional',
  'finish_without_code.reason': 'reason',
  'decline_cancel_request.reason': 'reason',
  'answer_inquiry.body': 'required',
  'answer_inquiry.subject': 'required',
  'answer_inquiry.text_body': 'required',
  'acknowledge_sent_twice.note': 'reason',
  'close_day.note': 'reason',
  'dismiss_message_to_check.note': 'reason',
  'move_on.delivery_person': 'required',
  'move_on.delivery_phone': 'required',
  'move_on.delivery_vehicle': 'required',
  'note_change.note': 'reason',
  'note_customer.notes': 'optional',
  'block_phone.reason': 'reason',
  'note_refund_by_hand.reason': 'reason',
  'give_back_cash.reason': 'reason',
  'receive_cash.note': 'reason',
  'refund_part.reason': 'reason',
  'use_credit.note': 'reason',
  'take_back_credit.reason': 'reason',
  'receive_cash.received_from': 'optional',
  'take_back_cash.reason': 'reason',
  'pause_orders.reason': 'reason',
  'request_refund.reason': 'reason',
  'resolve_difference.note': 'reason',
  'resolve_review.note': 'reason',
  'save_push_subscription.device': 'optional',
  'take_back_payment.note': 'reason',
} as const;
/** Arguments that are compared, or of which only known values are stored. */
const comparedArguments = new Set(
  `access_key access_keys area auth_secret before_id brand category channel code decision difference discount_code due endpoint expected_payment_status
   expected_status expected_step failure_reason identifier kind kinds map_point p256dh payment phone phone_last_four
   person product_slug receipt refund_receipt resolution rider role search secret seen_receipt sort source span status step token
   tracking_number way`.split(/\s+/),
);

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, asStaff, readRows, place } = setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 100);
    const order = await place(product);
    await database.query(
      `insert into public.deliveries (order_id, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
       values ($1, 'Brian', '0712', 'Bike', 'Gate')`,
      [order.id],
    );
    await database.execute(`
      insert into public.inquiries (name, email, phone, subject, message) values ('Amina', 'a@b.example', '0712', 'Hi', 'Hello');
      insert into public.search_synonyms (word, means) values ('mbili', 'two')`);
  });

  test('in a column that visitors or staff write', async () => {
    const { rows: columns } = await database.query<{ table: string; column: string; is_update: boolean }>(
      `select p.table_name as table, p.column_name as column, bool_or(p.privilege_type = 'UPDATE') as is_update
       from information_schema.column_privileges as p
       join information_schema.columns as c using (table_schema, table_name, column_name)
       where table_schema = 'public' and p.grantee in ('anon', 'authenticated') and p.privilege_type in ('INSERT', 'UPDATE')
         and c.data_type = 'text'
       group by 1, 2 order by 1, 2`,
    );
    expect(columns.length).toBeGreaterThan(30);
    const seen: string[] = [];
    for (const { table, column, is_update } of columns) {
      for (const text of invisible) {
        const write = is_update
          ? `update public.${table} set ${column} = $1 where ctid = (select ctid from public.${table} limit 1)`
          : `insert into public.${table} (name, email, message${['name', 'email', 'message'].includes(column) ? '' : `, ${column}`})
             values (${['name', 'email', 'message'].map((name) => (name === column ? '$1' : `'a@b.example'`)).join(', ')}
             ${['name', 'email', 'message'].includes(column) ? '' : ', $1'})`;
        const { rows } = await database
          .query<{ column: string | null }>(`${write} returning ${column} as column`, [text])
          .catch(() => ({ rows: [] as { column: string | null }[] }));
        if (rows.some((row) => row.column !== null && row.column !== '')) seen.push(`${table}.${column}`);
      }
    }
    expect([...new Set(seen)]).toEqual([]);
  });

  test('in an argument of a public procedure: each is known here', async () => {
    const { rows } = await database.query<{ procedure: string; argument: string }>(
      `select p.proname as procedure, given.name as argument
       from pg_proc as p
       cross join lateral unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargmodes) as given (name, type, mode)
       where p.pronamespace = 'public'::regnamespace and coalesce(given.mode, 'i') in ('i', 'b', 'v')
         and given.type in ('text'::regtype, 'text[]'::regtype)
         and (has_function_privilege('anon', p.oid, 'execute') or has_function_privilege('authenticated', p.oid, 'execute'))
       order by 1, 2`,
    );
    const stored = rows
      .filter(({ argument }) => !comparedArguments.has(argument))
      .map(({ procedure, argument }) => `${procedure}.${argument}`);
    expect(stored).toEqual(Object.keys(storedArguments).sort());
  });

  const argumentsOf = (procedure: string, reading: string) =>
    Object.entries(storedArguments)
      .filter(([name, read]) => name.startsWith(`${procedure}.`) && read === reading)
      .map(([name]) => name.slice(procedure.length + 1));

  test.each(invisible)('of orders and newsletter subscriptions: %j', async (text) => {
    for (const argument of argumentsOf('place_order', 'required')) {
      const form = { ...orderForm(product), [argument]: text };
      await expect(asVisitor('place_order', form), argument).rejects.toMatchObject({
        code: 'PT400',
      });
    }
    await expectRefusal(asVisitor('subscribe_to_newsletter', { email: text }), 400, 'email_invalid');
    await expectRefusal(
      asStaff('send_test_message', { channel: 'mail', recipient: text }),
      400,
      'email_invalid',
    );
    await expectRefusal(
      asStaff('send_test_message', { channel: 'text', recipient: text }),
      400,
      'phone_invalid',
    );
    const blank = Object.fromEntries(
      argumentsOf('place_order', 'optional').map((argument) => [argument, text]),
    );
    const order = await asVisitor<PlacedOrder>('place_order', {
      ...orderForm(product),
      ...blank,
    });
    const { rows } = await database.query(
      'select shipping_address, delivery_notes from public.orders where id = $1',
      [order.id],
    );
    expect(rows).toEqual([{ shipping_address: 'Westlands', delivery_notes: null }]);
    await database.query(`update public.orders set status = 'cancelled' where id = $1`, [order.id]);
    await database.query('select public.expire_reservations()');
  });

  test.each(invisible)('of deliveries: %j', async (text) => {
    const assign = (given: Record<string, string>) =>
      asStaff<{ delivery_notes: string | null }>('assign_delivery', {
        order_id: product,
        delivery_person: 'Brian',
        delivery_phone: '0712345678',
        delivery_vehicle: 'Bike',
        ...given,
      });
    for (const argument of argumentsOf('assign_delivery', 'required')) {
      await expectRefusal(assign({ [argument]: text }), 400, `${argument}_missing`);
    }
    await expectRefusal(assign({ delivery_notes: text }), 404, 'order_not_found');
    // `move_on` reads a rider by the same function.
    const check = (values: (string | null)[]) => readRows('select private.check_rider($1, $2, $3)', values);
    await expectRefusal(check([null, '0712', 'Bike']), 400, 'delivery_person_missing');
  });

  test.each(invisible)('of answers to inquiries: %j', async (text) => {
    const answer = async (given: Record<string, string>) => {
      const [inquiry] = await readRows<{ id: string; answered_at: string | null }>(
        'select id, answered_at::text from public.inquiries limit 1',
      );
      return asStaff('answer_inquiry', {
        inquiry_id: inquiry?.id,
        seen_answered_at: inquiry?.answered_at,
        way: 'mail',
        body: 'Karibu',
        subject: 'Re: Hi',
        ...given,
      });
    };
    await expectRefusal(answer({ body: text }), 400, 'reply_empty');
    await expectRefusal(answer({ subject: text }), 400, 'subject_invalid');
    await database.query("update public.inquiries set phone = '0712 345 678'");
    await expectRefusal(answer({ text_body: text }), 400, 'reply_empty');
    await answer({ way: 'elsewhere', body: text });
    expect(await readRows('select distinct body from public.inquiry_answers')).toEqual([{ body: null }]);
  });

  test('of decisions and refunds, which one function reads', async () => {
    for (const text of invisible) {
      expect(await readRows('select private.read_reason($1) as reason', [text])).toEqual([{ reason: null }]);
      await expectRefusal(
        database.query('select private.read_reason($1, true)', [text]),
        400,
        'reason_invalid',
      );
      await expectRefusal(
        database.query('select private.read_reason($1)', [`a${text}`]),
        400,
        'reason_invalid',
      );
    }
    const { rows } = await database.query<{ name: string; body: string }>(
      `select proname as name, prosrc as body from pg_proc where pronamespace in ('public'::regnamespace, 'private'::regnamespace)`,
    );
    const bodies = new Map(rows.map(({ name, body }) => [name, body]));
    for (const [argument, reading] of Object.entries(storedArguments)) {
      if (reading !== 'reason') continue;
      const body = bodies.get(argument.split('.')[0] ?? '') ?? '';
      expect(body.includes('read_reason(') || body.includes('open_refund('), argument).toBe(true);
    }
    expect(bodies.get('open_refund')).toContain('read_reason(');
  });
});
