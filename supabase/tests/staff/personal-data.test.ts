// Personal data: deleted after its retention period, and on request of a person, while the books stay balanced.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { newCheckoutRequestId, newReceipt, type Payment, setUpShop } from '../steps.ts';

interface Customer {
  customer_name: string;
  customer_email: string;
  customer_phone: string;
  delivery_location: string;
  delivery_notes: string;
}
let made = 0;
/** A new customer for a test, and strings that occur only in their data. */
function makeCustomer(): { customer: Customer; needles: string[] } {
  made += 1;
  const digits = String(711_000_000 + made * 1117);
  return {
    customer: {
      customer_name: `Amina Wanjiru${made}x`,
      customer_email: `Amina.${made}x@example.com`,
      customer_phone: `+254${digits}`,
      delivery_location: `Rosewood Close ${made}x`,
      delivery_notes: `Ring for ${made}x`,
    },
    needles: [`wanjiru${made}x`, `amina.${made}x@`, digits, `rosewood close ${made}x`, `ring for ${made}x`],
  };
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asVisitor, asStaff, asService, readRows, readRow, readColumn, readValue } = shop;
  const { place, track, trackAsCustomer, expireReservations, expire, begin, recordPush, settle } = shop;
  beforeEach(() =>
    database.execute(`
      delete from private.rate_limits;
      delete from public.inquiries;
      delete from public.newsletter_subscriptions;
      update public.store_settings set order_details_months = 24, inquiries_months = 12;
    `),
  );

  const placeFor = async (customer = makeCustomer().customer) =>
    place(await makeProduct(database, 10), { ...customer });
  // M-PESA's messages contain the phone that pays.
  const promptPhone = async (order: PlacedOrder, phone = order.customer_phone) =>
    recordPush((await begin(order, { phone })).payment, {
      body: JSON.stringify({ MSISDN: phone }),
      checkout_request_id: newCheckoutRequestId(),
    });
  const settleFrom = async (payment: Payment, phone: string) => {
    const receipt = newReceipt();
    await settle(payment, { body: JSON.stringify({ MSISDN: phone, MpesaReceiptNumber: receipt }), receipt });
    return receipt;
  };
  const payFrom = async (order: PlacedOrder, phone = order.customer_phone) =>
    settleFrom(await promptPhone(order, phone), phone);
  const deliver = ({ id }: PlacedOrder, notes = 'Gate') =>
    database.query(
      `update public.deliveries set delivery_status = 'delivered', delivery_person = 'Otieno', delivery_notes = $2
       where order_id = $1`,
      [id, notes],
    );
  const age = ({ id }: PlacedOrder, interval: string) =>
    database.query(`update public.orders set created_at = now() - $2::interval where id = $1`, [
      id,
      interval,
    ]);
  const forget = () => asService('forget_old_rows');

  /** `table: string` for each table with a row that contains one of the strings. M-PESA's messages are retained for tax law. */
  const heldIn = async (looked: readonly string[]): Promise<string[]> => {
    const tables = await readColumn(
      `select c.oid::regclass::text from pg_class as c
       where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace) and c.relkind = 'r'
         and c.relname not in ('payment_messages', 'messages_to_check', 'mpesa_transactions', 'rate_limits')`,
    );
    const found = await Promise.all(
      tables.map((name) =>
        readColumn(
          `select distinct '${name}: ' || needle from ${name} as row, unnest($1::text[]) as needle
           where lower(row::text) like '%' || needle || '%'`,
          [`{${looked.map((needle) => JSON.stringify(needle)).join(',')}}`],
        ),
      ),
    );
    return found.flat().sort();
  };
  const orderRow = ({ id }: PlacedOrder) => readRow('select * from public.orders where id = $1', [id]);

  describe('after the period of the settings', () => {
    test('anonymises an order, which stays in the books', async () => {
      const { customer, needles } = makeCustomer();
      const order = await placeFor(customer);
      const receipt = await payFrom(order);
      await deliver(order, `Gate at ${customer.delivery_location}`);
      const before = await orderRow(order);
      const [, email, phone, address] = needles;
      expect(await heldIn(needles)).toEqual(
        expect.arrayContaining([
          `orders: ${email}`,
          `orders: ${address}`,
          `payments: ${phone}`,
          `order_events: ${phone}`,
          `outbox_messages: ${email}`,
          `deliveries: ${address}`,
        ]),
      );
      await age(order, '25 months');
      await forget();
      expect(await heldIn(needles)).toEqual([]);
      expect(await orderRow(order)).toMatchObject({
        order_number: before?.order_number,
        tracking_number: order.tracking_number,
        total_amount: order.total_amount,
        status: 'delivered',
        payment_status: 'paid',
        customer_name: 'Anonymised',
        anonymised_at: expect.anything(),
      });
      const { rows } = await database.query<{ receipt: string; charge_cents: number }>(
        'select receipt, charge_cents from public.payments where order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ receipt, charge_cents: order.charge_cents }]);
      const events = await database.query(
        `select kind, details -> 'charge_cents' as charge_cents from public.order_events where order_id = $1 and kind = 'payment_completed'`,
        [order.id],
      );
      expect(events.rows).toEqual([{ kind: 'payment_completed', charge_cents: order.charge_cents }]);
      await expectBalancedBooks(database);
    });

    test("links of old messages and the phone's digits no longer give access", async () => {
      const order = await placeFor();
      await payFrom(order);
      await deliver(order);
      const digits = { phone_last_four: order.customer_phone.slice(-4) };
      expect(await trackAsCustomer(order)).toMatchObject({ is_masked: false });
      expect(await track(order, digits)).toMatchObject({ is_masked: false });
      await age(order, '25 months');
      await forget();
      expect(await trackAsCustomer(order)).toMatchObject({ is_masked: true });
      expect(await track(order, digits)).toMatchObject({ is_masked: true });
    });

    test('reduces cancelled orders without payments to their row after 30 days', async () => {
      const { customer, needles } = makeCustomer();
      const declined = makeCustomer();
      const orders = {
        unprompted: await placeFor(customer),
        declined: await placeFor(declined.customer),
        younger: await placeFor(),
        justDeclined: await placeFor(),
        underReview: await placeFor(),
      };
      const attempt = await promptPhone(orders.declined);
      await promptPhone(orders.justDeclined);
      await promptPhone(orders.underReview);
      for (const { id } of Object.values(orders)) {
        await database.query(
          `update public.orders set status = 'cancelled', expires_at = null where id = $1`,
          [id],
        );
      }
      const endPayment = ({ id }: PlacedOrder, status: string, interval: string) =>
        database.query(
          `update public.payments set status = $2, next_query_at = null, created_at = now() - $3::interval where order_id = $1`,
          [id, status, interval],
        );
      await endPayment(orders.declined, 'failed', '31 days');
      // M-PESA may still report money of this one.
      await endPayment(orders.justDeclined, 'failed', '47 hours');
      await endPayment(orders.underReview, 'review', '31 days');
      await expireReservations();
      const rowsOf = ({ id }: PlacedOrder) =>
        readRow(
          `select (select count(*)::integer from public.order_items where order_id = $1) as items,
           (select count(*)::integer from public.order_events where order_id = $1) as events,
           (select count(*)::integer from private.order_keys where order_id = $1) as keys`,
          [id],
        );
      const complete = { items: 1, events: expect.any(Number), keys: 1 };
      const reduced = { items: 0, events: 0, keys: 0 };
      const before = await orderRow(orders.unprompted);
      for (const [name, order] of Object.entries(orders))
        await age(order, name === 'younger' ? '29 days' : '31 days');
      await forget();
      expect(await rowsOf(orders.unprompted)).toEqual(reduced);
      expect(await rowsOf(orders.declined)).toEqual(reduced);
      expect(await heldIn([...needles, ...declined.needles])).toEqual([]);
      expect(await orderRow(orders.unprompted)).toMatchObject({
        order_number: before?.order_number,
        total_amount: before?.total_amount,
        status: 'cancelled',
        anonymised_at: expect.anything(),
      });
      for (const name of ['younger', 'justDeclined', 'underReview'] as const)
        expect(await rowsOf(orders[name]), name).toEqual(complete);
      expect(await track(orders.unprompted)).toMatchObject({ status: 'cancelled' });
      await expectBalancedBooks(database);

      // A late payment is still in the books, and staff resolve it.
      await settleFrom(attempt, orders.declined.customer_phone);
      expect(await orderRow(orders.declined)).toMatchObject({ payment_status: 'needs_review' });
      await expectBalancedBooks(database);
    });

    test('retains only the newest 5,000 abandoned orders older than a day in full', async () => {
      // Without triggers: notifications for all these orders would take longer than the other tests.
      await database.query('alter table public.orders disable trigger user');
      const { rows } = await database.query<{ id: string }>(
        `insert into public.orders (tracking_number, customer_name, customer_email, customer_phone, shipping_address,
           delivery_fee, total_amount, status, created_at)
         select 'JJ-20200101-' || 100000 + n, 'Flood', 'flood@example.com', '+254700000000', 'Westlands', 0, 0, 'cancelled',
           now() - interval '25 hours' - n * interval '1 second'
         from generate_series(1, 5002) as n
         returning id`,
      );
      await database.query('alter table public.orders enable trigger user');
      const countOrders = () =>
        readValue<number>(
          `select count(*)::integer as count from public.orders where customer_name = 'Flood'`,
        );
      await forget();
      expect(await countOrders()).toBeLessThanOrEqual(5000);
      expect(await countOrders()).toBeGreaterThan(4900);
      const count = await database.query('select 1 from public.orders where id = any ($1)', [
        `{${rows.map(({ id }) => id).join(',')}}`,
      ]);
      expect(count.rows).toHaveLength(5002);
      await database.query('alter table public.orders disable trigger user');
      await database.query(`delete from public.orders where total_amount = 0 and delivery_fee = 0`);
      await database.query('alter table public.orders enable trigger user');
    });

    test('does not change orders within the period of the setting', async () => {
      const order = await placeFor();
      await payFrom(order);
      await deliver(order);
      await age(order, '23 months');
      await forget();
      expect(await orderRow(order)).toMatchObject({ customer_phone: order.customer_phone });
      await database.query('update public.store_settings set order_details_months = 22');
      await forget();
      expect(await orderRow(order)).toMatchObject({ customer_phone: '', anonymised_at: expect.anything() });
    });

    test('anonymises an order whose delivery was never finished', async () => {
      const order = await placeFor();
      await payFrom(order);
      await age(order, '25 months');
      await forget();
      expect(await orderRow(order)).toMatchObject({ status: 'processing', customer_name: 'Anonymised' });
    });

    test('deletes inquiries after their period', async () => {
      const send = (message: string, interval: string) =>
        database.query(
          `insert into public.inquiries (name, email, message, created_at) values ('Amina', 'a@b.example', $1, now() - $2::interval)`,
          [message, interval],
        );
      await send('old', '13 months');
      await send('young', '11 months');
      await forget();
      expect(await readRows('select message from public.inquiries')).toEqual([{ message: 'young' }]);
    });

    test('deletes an unconfirmed newsletter address after seven days, with its email', async () => {
      await asVisitor('subscribe_to_newsletter', { email: 'old@example.com' });
      await asVisitor('subscribe_to_newsletter', { email: 'young@example.com' });
      await asVisitor('subscribe_to_newsletter', { email: 'reader@example.com' });
      await database.execute(`
        update public.newsletter_subscriptions set confirmed_at = now() where email = 'reader@example.com';
        update public.newsletter_subscriptions set confirmation_queued_at = now() - interval '8 days', created_at = now() - interval '8 days'
          where email <> 'young@example.com';
      `);
      await forget();
      const { rows } = await database.query<{ email: string }>(
        'select email from public.newsletter_subscriptions order by email',
      );
      expect(rows.map(({ email }) => email)).toEqual(['reader@example.com', 'young@example.com']);
      expect(await heldIn(['old@example.com'])).toEqual([]);
    });
  });

  test('the timeline of an order is append-only, except for the phone of a payment', async () => {
    const order = await placeFor();
    await payFrom(order);
    const change = (set: string) =>
      database.query(
        `update public.order_events set ${set} where order_id = $1 and kind = 'payment_completed'`,
        [order.id],
      );
    await expect(change(`details = '{}'`)).rejects.toThrow('only added to');
    await expect(change(`actor = 'shop'`)).rejects.toThrow('only added to');
    await expect(change(`details = details - 'phone', actor = 'shop'`)).rejects.toThrow('only added to');
    expect((await change(`details = details - 'phone'`)).rowCount).toBe(1);
  });

  describe('of one person, on request', () => {
    interface Exported {
      identifier: string;
      orders: {
        order_number: string;
        tracking_number: string;
        reason_to_keep: string | null;
        [fact: string]: unknown;
      }[];
      payments_for_others: { phone: string; receipt: string }[];
      inquiries: { message: string }[];
      newsletter: { email: string } | null;
      also_used: string[];
      earlier_requests: { kind: string; counts: Record<string, number> }[];
    }
    interface Erased {
      erased: Record<string, number>;
      postponed: { id: string; reason: string; is_own: boolean }[];
    }
    const find = (identifier: string) => asStaff<Exported>('export_person', { identifier });
    const erase = (identifier: string) => asStaff<Erased>('erase_person', { identifier });
    const inquire = (email: string, phone: string | null, message: string) =>
      database.query('insert into public.inquiries (name, email, phone, message) values ($1, $2, $3, $4)', [
        'Amina',
        email,
        phone,
        message,
      ]);

    test('exports all data of the person, and nothing of another person', async () => {
      const { customer, needles } = makeCustomer();
      const { customer: other } = makeCustomer();
      const [order, foreign] = [await placeFor(customer), await placeFor(other)];
      const receipt = await payFrom(order);
      await deliver(order, 'At the gate');
      const paidForOther = await payFrom(foreign, order.customer_phone);
      await inquire(customer.customer_email.toUpperCase(), null, 'mine by mail');
      await inquire(other.customer_email, '0700 000 001', 'of another');
      await asVisitor('subscribe_to_newsletter', { email: customer.customer_email });

      const byMail = await find(` ${customer.customer_email.toUpperCase()} `);
      expect(byMail.orders).toMatchObject([
        {
          tracking_number: order.tracking_number,
          customer_name: customer.customer_name,
          customer_phone: order.customer_phone,
          shipping_address: customer.delivery_location,
          delivery_notes: customer.delivery_notes,
          reason_to_keep: null,
          items: [{ product: 'Test drink', quantity: 1, unit_price: 95_000 }],
          payments: [{ receipt, charge_cents: order.charge_cents }],
          delivery: { status: 'delivered', notes: 'At the gate' },
        },
      ]);
      expect(JSON.stringify(byMail.orders[0]?.payments)).toContain('MSISDN');
      expect(JSON.stringify(byMail.orders[0]?.messages)).toContain('order_paid');
      expect(byMail.inquiries.map(({ message }) => message)).toEqual(['mine by mail']);
      expect(byMail.newsletter).toMatchObject({ email: customer.customer_email });
      expect(byMail.also_used).toEqual([order.customer_phone]);
      // The rider is another person.
      expect(JSON.stringify(byMail)).not.toContain('Otieno');
      for (const needle of needles) expect(JSON.stringify(byMail).toLowerCase()).toContain(needle);

      const byPhone = await find(order.customer_phone);
      expect(byPhone.orders.map(({ tracking_number }) => tracking_number)).toEqual([order.tracking_number]);
      expect(byPhone.payments_for_others).toMatchObject([
        { phone: order.customer_phone, receipt: paidForOther },
      ]);
      expect(byPhone.newsletter).toBeNull();
      expect(JSON.stringify(byPhone)).not.toContain(other.customer_name);
    });

    test.each([
      ['0', '712 000 101'],
      ['+254 ', '712-000-102'],
      ['254', '712000103'],
      ['+254 (0)', '712.000.104'],
      ['00254', '712000105'],
      ['', '712000106'],
    ])('finds a phone in the format %s%s', async (prefix, digits) => {
      const phone = `+254${digits.replace(/\D/g, '')}`;
      const { customer } = makeCustomer();
      const order = await placeFor({ ...customer, customer_phone: phone });
      await inquire('any@example.com', prefix + digits, 'by phone');
      const found = await find(prefix + digits);
      expect(found.identifier).toBe(phone);
      expect(found.orders).toMatchObject([{ tracking_number: order.tracking_number }]);
      expect(found.inquiries).toMatchObject([{ message: 'by phone' }]);
    });

    test.each(['', 'Amina', '12345', 'a@b', '1'.repeat(100_000)])(
      'rejects %.20s as a person',
      async (identifier) => {
        await expectRefusal(find(identifier), 400, 'person_invalid');
        await expectRefusal(erase(identifier), 400, 'person_invalid');
      },
    );

    test('erases a person from all tables, and the books stay balanced', async () => {
      const { customer, needles } = makeCustomer();
      const { customer: other } = makeCustomer();
      const [order, unpaid, foreign] = [
        await placeFor(customer),
        await placeFor(customer),
        await placeFor(other),
      ];
      const receipt = await payFrom(order);
      await deliver(order, `Gate at ${customer.delivery_location}`);
      await payFrom(foreign, order.customer_phone);
      await deliver(foreign);
      await database.query(
        `update public.orders set status = 'cancelled', reserved_until = null, expires_at = null where id = $1`,
        [unpaid.id],
      );
      await database.query(
        `update public.products set stock_quantity = stock_quantity + 1
         where id = (select product_id from public.order_items where order_id = $1)`,
        [unpaid.id],
      );
      await inquire(customer.customer_email, order.customer_phone, `Where is ${needles[0]}?`);
      await asVisitor('subscribe_to_newsletter', { email: customer.customer_email });
      await expectBalancedBooks(database);

      expect(await erase(customer.customer_email)).toMatchObject({
        erased: { orders: 2, inquiries: 1, newsletter: 1 },
        postponed: [],
      });
      // The phone remains at another customer's order that it paid.
      expect(await heldIn(needles)).toEqual([`order_events: ${needles[2]}`, `payments: ${needles[2]}`]);
      expect(await erase(order.customer_phone)).toMatchObject({
        erased: { orders: 0, payments_for_others: 1 },
        postponed: [],
      });
      expect(await heldIn(needles)).toEqual([]);
      expect(await orderRow(foreign)).toMatchObject({ customer_name: other.customer_name });
      const { rows } = await database.query('select receipt from public.payments where order_id = $1', [
        order.id,
      ]);
      expect(rows).toEqual([{ receipt }]);
      await expectBalancedBooks(database);
      expect(await find(customer.customer_email)).toMatchObject({
        orders: [],
        inquiries: [],
        newsletter: null,
      });
    });

    test('postpones an open order with its reason, and anonymises it once it is closed', async () => {
      const { customer, needles } = makeCustomer();
      const [waiting, paid] = [await placeFor(customer), await placeFor(customer)];
      await payFrom(paid);
      const { erased, postponed } = await erase(customer.customer_phone);
      expect(erased).toMatchObject({ orders: 0 });
      expect(postponed).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ id: waiting.id, reason: 'It waits for its payment', is_own: true }),
          expect.objectContaining({ id: paid.id, reason: 'It is paid and not delivered yet', is_own: true }),
        ]),
      );
      await forget();
      expect(await orderRow(paid)).toMatchObject({ customer_name: customer.customer_name });

      await deliver(paid);
      await forget();
      expect(await orderRow(paid)).toMatchObject({ customer_name: 'Anonymised' });
      expect(await orderRow(waiting)).toMatchObject({ customer_name: customer.customer_name });
      await expire(waiting);
      await forget();
      expect(await orderRow(waiting)).toMatchObject({ status: 'cancelled', customer_name: 'Anonymised' });
      expect(await heldIn(needles)).toEqual([]);
    });

    test('keeps the phone at an open order of another customer that it paid', async () => {
      const { customer, needles } = makeCustomer();
      const own = await placeFor(customer);
      const foreign = await placeFor(makeCustomer().customer);
      await expire(own);
      await payFrom(foreign, own.customer_phone);
      expect(await erase(own.customer_phone)).toMatchObject({
        erased: { orders: 1, payments_for_others: 0 },
        postponed: [{ id: foreign.id, reason: 'It is paid and not delivered yet', is_own: false }],
      });
      expect(await heldIn(needles)).toEqual([`order_events: ${needles[2]}`, `payments: ${needles[2]}`]);
      await deliver(foreign);
      expect(await erase(own.customer_phone)).toMatchObject({ erased: { payments_for_others: 1 } });
      expect(await heldIn(needles)).toEqual([]);
    });

    test('logs each request with staff member, time and counts, but without the person', async () => {
      const { customer } = makeCustomer();
      const order = await placeFor(customer);
      await payFrom(order);
      await deliver(order);
      await find(customer.customer_email);
      await erase(customer.customer_email);
      const { rows } = await database.query<{ kind: string; person_hash: string; logged: string }>(
        `select kind, person_hash, requested_by_email, counts, r::text as logged
         from public.personal_data_requests as r order by id desc limit 2`,
      );
      expect(rows).toMatchObject([
        { kind: 'erasure', requested_by_email: 'staff@jani.example', counts: { orders: 1, postponed: 0 } },
        { kind: 'export', requested_by_email: 'staff@jani.example', counts: { orders: 1 } },
      ]);
      expect(rows[0]?.person_hash).toMatch(/^[0-9a-f]{64}$/);
      expect(rows[0]?.person_hash).toBe(rows[1]?.person_hash);
      for (const { logged } of rows)
        expect(logged.toLowerCase()).not.toContain(customer.customer_email.toLowerCase());
      // A later request reports it.
      expect((await find(customer.customer_email)).earlier_requests).toMatchObject([{ kind: 'erasure' }]);
      for (const change of [
        `update public.personal_data_requests set counts = '{}'`,
        'delete from public.personal_data_requests',
        'truncate public.personal_data_requests',
      ]) {
        await expect(database.execute(change), change).rejects.toThrow('only added to');
      }
    });

    test.each(['visitor', 'customer', 'former staff', 'half-way staff'] as const)(
      'rejects export and erasure by a %s',
      async (person) => {
        const { customer } = makeCustomer();
        const order = await placeFor(customer);
        for (const procedure of ['export_person', 'erase_person']) {
          await expect(callAs(person, procedure, { identifier: customer.customer_email })).rejects.toThrow(
            person === 'visitor' ? /permission denied/ : /Only staff/,
          );
        }
        expect(await orderRow(order)).toMatchObject({ customer_name: customer.customer_name });
      },
    );
  });

  // Last, because they write rows that no process of the shop writes.
  test.each<[string, (order: PlacedOrder) => Promise<unknown>, string]>([
    ['an open payment', promptPhone, 'It waits for its payment'],
    [
      'a payment that needs review',
      async (order) => {
        await payFrom(order);
        await database.query(`update public.orders set payment_status = 'needs_review' where id = $1`, [
          order.id,
        ]);
      },
      'Its payment needs review',
    ],
    [
      'a second payment to refund',
      async (order) => {
        await payFrom(order);
        await database.query(
          `insert into public.payments (order_id, phone, charge_cents, status, receipt, needs_refund, completed_at, created_at)
           values ($1, $2, $3, 'completed', $4, true, now(), now() - interval '25 months')`,
          [order.id, order.customer_phone, order.charge_cents, newReceipt()],
        );
      },
      'Money is on its way back',
    ],
  ])('an order with %s is not anonymised until that is settled', async (_, happen, reason) => {
    const [order, settled] = [await placeFor(), await placeFor()];
    await payFrom(settled);
    await happen(order);
    for (const each of [order, settled]) await age(each, '25 months');
    await forget();
    expect(await orderRow(order)).toMatchObject({
      customer_phone: order.customer_phone,
      anonymised_at: null,
    });
    // Control: another order was anonymised.
    expect(await orderRow(settled)).toMatchObject({ customer_phone: '' });
    expect(await readRows('select private.unsettled_money_reason($1) as reason', [order.id])).toEqual([
      { reason },
    ]);
  });
});
