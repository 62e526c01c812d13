// Placing an order: a rejected call changes nothing, an accepted one takes effect once.
import { randomUUID } from 'node:crypto';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { isEmail } from '../../../domain/people/email.ts';
import {
  expectRefusal,
  makeProduct,
  orderForm,
  type PlacedOrder,
  people,
  procedureCall,
  stockOf,
  untilOneQueryWaits,
} from '../shop-database.ts';
import { concurrently, settleAll, setUpShop } from '../steps.ts';

const long = (length: number) => 'x'.repeat(length);

/** All rows that an order could create, except the counters of limits, which include rejected calls. */
const everything = `
  select (select count(*) from public.orders) as orders,
         (select count(*) from public.order_items) as items,
         (select count(*) from private.order_keys) as keys,
         (select count(*) from public.payments) as payments,
         (select count(*) from public.deliveries) as deliveries,
         (select count(*) from realtime.messages) as messages,
         (select jsonb_object_agg(id, stock_quantity) from public.products) as stock`;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, answerToVisitor, queryAs, readRows, readRow, readValue, place } =
    setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 5);
  });

  const placeForm = (form: Record<string, unknown>, address?: string) =>
    asVisitor<PlacedOrder>('place_order', form, address);

  test.each<[string, Record<string, unknown>, number, string]>([
    ['without an idempotency key', { idempotency_key: null }, 400, 'idempotency_key_missing'],
    ['with a name of one letter', { customer_name: ' A ' }, 400, 'name_invalid'],
    ['with an invisible name', { customer_name: '\u200b\u200b' }, 400, 'name_invalid'],
    ['with a name of marks', { customer_name: 'A\u0301\u0301' }, 400, 'name_invalid'],
    ['with a location of dots', { delivery_location: '...' }, 400, 'location_invalid'],
    ['with an invisible email address', { customer_email: '\u200b@b.example' }, 400, 'email_invalid'],
    ['without a name', { customer_name: null }, 400, 'name_invalid'],
    ['with an email as its name', { customer_name: 'friend,\n\nYour PIN, please' }, 400, 'name_invalid'],
    [
      'with a bidirectional control character in the name',
      { customer_name: 'a\u202eb' },
      400,
      'name_invalid',
    ],
    ['with a location of two lines', { delivery_location: 'Westlands\nCall me' }, 400, 'location_invalid'],
    ['with a building of two lines', { building: 'A\r\nB' }, 400, 'location_invalid'],
    ['with an escape character in the unit', { unit: '\u001b[2J' }, 400, 'location_invalid'],
    [
      'with an invisible character in the email address',
      { customer_email: 'a\u0007@b.example' },
      400,
      'email_invalid',
    ],
    ['with a name that is too long', { customer_name: long(121) }, 400, 'name_too_long'],
    ['with an e-mail address without a domain', { customer_email: 'amina@' }, 400, 'email_invalid'],
    ['with a space in the e-mail address', { customer_email: 'a mina@b.example' }, 400, 'email_invalid'],
    ['without an e-mail address', { customer_email: null }, 400, 'email_invalid'],
    [
      'with an e-mail address that is too long',
      { customer_email: `${long(250)}@b.example` },
      400,
      'email_too_long',
    ],
    ['with a phone that is too short', { customer_phone: '071234567' }, 400, 'phone_invalid'],
    ['with a foreign phone', { customer_phone: '+255712345678' }, 400, 'phone_invalid'],
    ['with a landline', { customer_phone: '0201234567' }, 400, 'phone_invalid'],
    ['without a phone', { customer_phone: null }, 400, 'phone_invalid'],
    ['with a location of two letters', { delivery_location: ' CB ' }, 400, 'location_invalid'],
    ['without a location', { delivery_location: null }, 400, 'location_invalid'],
    ['with a location that is too long', { delivery_location: long(201) }, 400, 'address_too_long'],
    ['with a building that is too long', { building: long(121) }, 400, 'address_too_long'],
    ['with a unit that is too long', { unit: long(61) }, 400, 'address_too_long'],
    ['with notes that are too long', { delivery_notes: long(501) }, 400, 'notes_too_long'],
    ['with a quantity of 0', { quantity: 0, expected_total: 100 }, 400, 'quantity_invalid'],
    ['with a negative quantity', { quantity: -1, expected_total: -94_900 }, 400, 'quantity_invalid'],
    ['without a quantity', { quantity: null }, 400, 'quantity_invalid'],
    ['of more units than in stock', { quantity: 6, expected_total: 570_100 }, 409, 'not_enough_stock'],
    ['of an unknown product', { product_id: randomUUID() }, 404, 'product_unavailable'],
    ['without a product', { product_id: null }, 404, 'product_unavailable'],
    ['with a total that is too low', { expected_total: 95_099 }, 409, 'total_changed'],
    ['with a total that is too high', { expected_total: 95_101 }, 409, 'total_changed'],
    ['without a total', { expected_total: null }, 409, 'total_changed'],
  ])('an order %s is rejected, changes nothing and counts', async (_, change, status, code) => {
    await database.query('delete from private.rate_limits');
    const before = await readRow(everything);
    await expectRefusal(place(product, { ...change, address: '192.0.2.9' }), status, code);
    expect(await readRow(everything)).toEqual(before);
    const { rows } = await database.query(
      'select bucket, subject, hits from private.rate_limits order by subject',
    );
    expect(rows).toEqual([
      { bucket: 'place_order', subject: '192.0.2.0/24', hits: 1 },
      { bucket: 'place_order', subject: '192.0.2.9', hits: 1 },
    ]);
  });

  test.each([
    ['name', 'customer_name', 'name_too_long'],
    ['email address', 'customer_email', 'email_too_long'],
    ['phone', 'customer_phone', 'phone_invalid'],
    ['location', 'delivery_location', 'address_too_long'],
    ['building', 'building', 'address_too_long'],
    ['unit', 'unit', 'address_too_long'],
    ['note', 'delivery_notes', 'notes_too_long'],
  ])('a %s of a megabyte is rejected for its length', async (_, argument, code) => {
    const form = { ...orderForm(product), [argument]: 'a@b.'.repeat(250_000) };
    await expectRefusal(placeForm(form, '192.0.2.9'), 400, code);
  });

  test.each([
    ['a@b.ke', true],
    ['a@b.c.d', true],
    ['a@.b.c', true],
    [`${long(247)}@b.test`, true],
    [`${long(248)}@b.test`, false],
    ['a@b', false],
    ['a@b.', false],
    ['a@.b', false],
    ['@b.ke', false],
    ['a@b@c.ke', false],
    ['a.b.ke', false],
    ['a b@c.ke', false],
    ['a@b.k\u00a0e', false],
    ['a@b.ke\n', false],
    ['', false],
    [null, false],
  ])('accepts %j as an email address: %s', async (address, expected) => {
    expect(await readRows('select private.is_email($1) as found', [address])).toEqual([{ found: expected }]);
  });

  test('the database and the forms accept the same email addresses', async () => {
    const text = fc.stringMatching(/^[a@. \u00a0\u2003\ufeff\u0085\u202eéж🍹]{0,12}$/u);
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 50, maxLength: 50 }), async (texts) => {
        const { rows } = await database.query<{ found: boolean }>(
          'select private.is_email(text) as found from json_array_elements_text($1) as text',
          [JSON.stringify(texts)],
        );
        expect(texts.map((each, index) => [each, rows[index]?.found])).toEqual(
          texts.map((each) => [each, isEmail(each)]),
        );
      }),
      { numRuns: 40 },
    );
  });

  test('a hundred failed calls of an IP address in ten minutes exhaust its allowance', async () => {
    await database.query(`update private.limits set within = '1000 days' where name = 'place_order'`);
    try {
      const failed = { ...orderForm(product), customer_phone: 'none' };
      for (let n = 0; n < 100; n += 1) {
        await expectRefusal(placeForm(failed, '192.0.2.76'), 400, 'phone_invalid');
      }
      await expectRefusal(place(product, { address: '192.0.2.76' }), 429, 'too_many_orders');
      await expectRefusal(placeForm(failed, '192.0.2.77'), 400, 'phone_invalid');
    } finally {
      await database.query(`update private.limits set within = '10 minutes' where name = 'place_order'`);
    }
  });

  test.each([
    ['1.5', '22P02'],
    ['1e3', '22P02'],
    ['two', '22P02'],
    ['99999999999', '22003'],
  ])('a quantity of %s is not a whole number and changes nothing', async (quantity, code) => {
    const before = await readRow(everything);
    const attempt = queryAs(
      'visitor',
      `select public.place_order($1, $2, ($3::text)::integer, 'Amina', 'a@b.example', '0712345678', 'Karen', 95100)`,
      [randomUUID(), product, quantity],
    );
    await expect(attempt).rejects.toMatchObject({ code });
    expect(await readRow(everything)).toEqual(before);
  });

  test('rejects inactive and sold-out products with different errors', async () => {
    const inactive = await makeProduct(database, 5);
    await database.query('update public.products set is_active = false where id = $1', [inactive]);
    const empty = await makeProduct(database, 0);
    const before = await readRow(everything);
    await expectRefusal(place(inactive), 404, 'product_unavailable');
    await expectRefusal(place(empty), 409, 'out_of_stock');
    expect(await readRow(everything)).toEqual(before);
  });

  test.each([
    [25_000_000, 0],
    [24_999_950, 50],
  ])('accepts a price of %i cents with a fee of %i, as M-PESA can charge it', async (price, fee) => {
    await database.query('update public.store_settings set delivery_fee = $1 where id', [fee]);
    const dear = await makeProduct(database, 5, price);
    const order = await place(dear, { expected_total: price + fee });
    expect(order.total_amount).toBe(25_000_000);
    await database.query('update public.store_settings set delivery_fee = 100 where id');
  });

  test.each([
    ['one dear unit', 25_000_000, 1],
    ['many units', 95_000, 300],
    ['a fraction of a shilling', 24_999_901, 1],
    ['the largest price', 1_000_000_000, 3],
  ])('refuses a total of %s that M-PESA cannot charge, and reserves no stock', async (_, price, quantity) => {
    const dear = await makeProduct(database, 500, price);
    const form = {
      ...orderForm(dear),
      quantity,
      expected_total: Math.min(price * quantity + 100, 2_000_000_000),
    };
    const refusal = await expectRefusal(placeForm(form), 400, 'total_too_large');
    expect([refusal.message, refusal.hint]).toEqual([
      'M-PESA takes at most KSh 250,000 in one payment. Please order less, or contact us for a large order',
      '25000000',
    ]);
    expect(await stockOf(database, dear)).toBe(500);
  });

  test('an error about stock contains the remaining units, and one about the total the current total', async () => {
    const few = await expectRefusal(place(product, { quantity: 50 }), 409, 'not_enough_stock');
    expect([few.message, few.hint]).toEqual(['Only 5 left in stock', '5']);
    const other = await expectRefusal(place(product, { expected_total: 1 }), 409, 'total_changed');
    expect(other.hint).toBe('95100');
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a changed total', { expected_total: 1 }, 'total_changed'],
    ['missing stock', { quantity: 50 }, 'not_enough_stock'],
    ['an invalid name', { customer_name: 'A' }, 'name_invalid'],
  ])(
    'an error about %s contains the figures of the order once its product is known',
    async (_, change, details) => {
      const form = { ...orderForm(product), ...change };
      const answer = await answerToVisitor<{ details: string; quote?: unknown }>('place_order', form);
      const quantity = Number(form.quantity);
      expect(answer?.details).toBe(details);
      expect(answer?.quote).toEqual(
        details === 'name_invalid'
          ? undefined
          : {
              price: 95_000,
              delivery_fee: 100,
              total: 95_000 * quantity + 100,
              units_left: 5,
              items: [{ product_id: product, price: 95_000, units_left: 5 }],
            },
      );
    },
  );

  describe('age, terms and privacy notice', () => {
    const termsOf = ({ id }: PlacedOrder) =>
      readRow<{ terms_accepted_at: Date | null; accepted_terms: Record<string, unknown> | null }>(
        'select terms_accepted_at, accepted_terms from public.orders where id = $1',
        [id],
      );
    const require = (isRequired: boolean) =>
      database.query('update public.store_settings set requires_terms_tick = $1', [isRequired]);

    test('records the accepted terms with the order, and nothing when they were not shown', async () => {
      const own = await makeProduct(database, 5);
      const accepted = await termsOf(await place(own, { accepts_terms: true }));
      expect(accepted?.terms_accepted_at).not.toBeNull();
      const { rows } = await database.query<{ slug: string; edited: string }>(
        `select slug, to_jsonb(updated_at) #>> '{}' as edited from public.shop_texts where slug in ('terms', 'privacy')`,
      );
      expect(accepted?.accepted_terms).toEqual({
        ...Object.fromEntries(rows.map(({ slug, edited }) => [slug, edited])),
        is_ticked: false,
      });
      expect(await termsOf(await place(own))).toEqual({
        terms_accepted_at: null,
        accepted_terms: null,
      });
    });

    test('rejects an order without consent while the box is required, and accepts one with it', async () => {
      const own = await makeProduct(database, 5);
      const form = orderForm(own);
      await require(true);
      try {
        for (const answer of [{}, { accepts_terms: false }, { accepts_terms: null }]) {
          await expectRefusal(placeForm({ ...form, ...answer }), 400, 'terms_not_accepted');
        }
        expect(await stockOf(database, own)).toBe(5);
        const placed = await placeForm({ ...form, accepts_terms: true });
        expect((await termsOf(placed))?.accepted_terms).toMatchObject({ is_ticked: true });
      } finally {
        await require(false);
      }
    });
  });

  test("stores an accepted order with the database's price and fee, and reserves its stock", async () => {
    const own = await makeProduct(database, 5, 12_345);
    const form = {
      ...orderForm(own),
      quantity: 3,
      expected_total: 37_135,
      customer_name: '  Amina Kamau ',
      customer_phone: '0712-345 678',
      building: 'Delta Tower',
      unit: ' 4B ',
      delivery_notes: 'Ring twice',
    };
    const order = await placeForm(form);
    expect(order).toMatchObject({
      status: 'pending',
      payment_status: 'unpaid',
      delivery_fee: 100,
      total_amount: 37_135,
      charge_cents: 37_200,
      customer_phone: '+254712345678',
      tracking_number: expect.stringMatching(/^JJ-\d{8}-[1-9]\d{3}$/),
      access_key: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    const { rows } = await database.query(
      `select o.customer_name, o.shipping_address, o.city, o.delivery_notes, o.payment_method, o.order_number,
              o.reserved_until - o.created_at = interval '15 minutes' as is_kept_for_15_minutes,
              i.product_id, i.product_name, i.quantity, i.unit_price
       from public.orders as o join public.order_items as i on i.order_id = o.id where o.id = $1`,
      [order.id],
    );
    expect(rows).toEqual([
      {
        customer_name: 'Amina Kamau',
        shipping_address: 'Westlands, Building: Delta Tower, Unit: 4B',
        city: 'Nairobi',
        delivery_notes: 'Ring twice',
        payment_method: 'pending',
        order_number: expect.stringMatching(/^ORD-\d{4,}$/),
        is_kept_for_15_minutes: true,
        product_id: own,
        product_name: 'Test drink',
        quantity: 3,
        unit_price: 12_345,
      },
    ]);
    expect(await stockOf(database, own)).toBe(2);
  });

  test('accepts an order of the last unit, and none after it', async () => {
    const last = await makeProduct(database, 1);
    await place(last);
    await expectRefusal(place(last), 409, 'out_of_stock');
    expect(await stockOf(database, last)).toBe(0);
  });

  test('applies a changed delivery fee to the next total', async () => {
    await database.query('update public.store_settings set delivery_fee = 0');
    try {
      await expectRefusal(place(product), 409, 'total_changed');
      const order = await place(product, { expected_total: 95_000 });
      expect(order.total_amount).toBe(95_000);
    } finally {
      await database.query('update public.store_settings set delivery_fee = 100');
    }
  });

  test('returns the same order for the same key and content, even when sold out', async () => {
    const last = await makeProduct(database, 1);
    const form = orderForm(last);
    const first = await placeForm(form);
    const before = await readRow(everything);
    expect(await placeForm(form)).toEqual(first);
    expect(await placeForm({ ...form, customer_phone: '+254 712 345 678' })).toEqual(first);
    expect(await readRow(everything)).toEqual(before);
  });

  test.each([
    ['quantity', { quantity: 2, expected_total: 190_100 }],
    ['name', { customer_name: 'Brian' }],
    ['address', { building: 'Delta Tower' }],
    ['phone', { customer_phone: '0712345679' }],
  ])('the same key with another %s is rejected', async (_, change) => {
    const own = await makeProduct(database, 5);
    const form = orderForm(own);
    await placeForm(form);
    const before = await readRow(everything);
    await expectRefusal(placeForm({ ...form, ...change }), 409, 'idempotency_key_reused');
    expect(await readRow(everything)).toEqual(before);
  });

  test('accepts the key of a rejected order again', async () => {
    const own = await makeProduct(database, 0);
    const form = orderForm(own);
    await expectRefusal(placeForm(form), 409, 'out_of_stock');
    await database.query('update public.products set stock_quantity = 1 where id = $1', [own]);
    expect((await placeForm(form)).status).toBe('pending');
  });

  test('limits an IP address to a hundred orders in ten minutes', async () => {
    const own = await makeProduct(database, 200);
    await database.query(
      `insert into private.rate_limits (bucket, subject, window_start, hits)
       values ('place_order', '192.0.2.77', date_bin('10 minutes', clock_timestamp(), timestamptz '2000-01-01'), 99),
              ('place_order', '192.0.2.77', date_bin('10 minutes', clock_timestamp(), timestamptz '2000-01-01') + interval '10 minutes', 99)`,
    );
    await place(own, { address: '192.0.2.77' });
    await expectRefusal(place(own, { address: '192.0.2.77' }), 429, 'too_many_orders');
    expect(await stockOf(database, own)).toBe(199);
    await place(own, { address: '192.0.2.78' });
  });

  test('returns an existing order for its key when the limit of the network is exhausted', async () => {
    const own = await makeProduct(database, 5);
    const form = orderForm(own);
    const first = await placeForm(form, '192.0.2.79');
    await database.query(
      `update private.rate_limits set hits = 100 where bucket = 'place_order' and subject = '192.0.2.79'`,
    );
    const before = await readRow(everything);
    expect(await placeForm(form, '192.0.2.79')).toEqual(first);
    await expectRefusal(placeForm({ ...form, quantity: 2 }, '192.0.2.79'), 409, 'idempotency_key_reused');
    await expectRefusal(place(own, { address: '192.0.2.79' }), 429, 'too_many_orders');
    expect(await readRow(everything)).toEqual(before);
  });

  describe('the tracking number', () => {
    const day = (created: string) =>
      new Intl.DateTimeFormat('en-CA', { timeZone: 'Africa/Nairobi' })
        .format(new Date(created))
        .replaceAll('-', '');
    const placeWithSeed = (form: Record<string, unknown>, seed: number) =>
      asRole(database, people.visitor, async (session) => {
        await session.query('select setseed($1)', [seed]);
        const { rows } = await session.query<{ answer: PlacedOrder }>(
          `select ${procedureCall('place_order', form)} as answer`,
          Object.values(form),
        );
        return rows[0]?.answer.tracking_number;
      });

    test('contains the date in Nairobi', async () => {
      const own = await makeProduct(database, 1);
      const order = await place(own);
      expect(order.tracking_number.slice(3, 11)).toBe(day(order.created_at));
    });

    test('is generated again when it is taken', async () => {
      const own = await makeProduct(database, 3);
      const first = await placeWithSeed(orderForm(own), 0.42);
      const second = await placeWithSeed(orderForm(own), 0.42);
      const third = await placeWithSeed(orderForm(own), 0.42);
      expect(first).toMatch(/^JJ-\d{8}-\d{4}$/);
      expect(second).toMatch(/^JJ-\d{8}-\d{4}$/);
      expect(new Set([first, second, third]).size).toBe(3);
    });

    test('has five digits once the four-digit numbers of a day are used, without retries', async () => {
      const own = await makeProduct(database, 5);
      // Without triggers: notifications for all these orders would take longer than the other tests.
      await database.query('alter table public.orders disable trigger user');
      await database.query(
        `insert into public.orders (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
         select 'JJ-' || day || '-' || n, 'Filler', 'f@b.example', '+254712345678', 'Karen', 0, 0
         from generate_series(1000, 9999) as n,
              -- For the next day, too: midnight may be near.
              (select distinct to_char((now() + later) at time zone 'Africa/Nairobi', 'YYYYMMDD') as day
               from unnest(array[interval '0', interval '10 minutes']) as later) as days
         on conflict do nothing`,
      );
      await database.query('alter table public.orders enable trigger user');
      const orderNumber = async () => Number(await readValue('select last_value from private.order_numbers'));
      const before = await orderNumber();
      const orders = await concurrently(5, () => place(own));
      for (const order of orders) expect(order.tracking_number).toMatch(/^JJ-\d{8}-[1-9]\d{4}$/);
      // A rejected row would have used up an order number, too.
      expect((await orderNumber()) - before).toBe(5);
    });
  });
});

describe.runIf(testDatabases().includes('postgresql'))('concurrently on PostgreSQL', () => {
  const { database, asVisitor, readRow, place } = setUpShop('postgresql');
  const placeForm = (form: Record<string, unknown>) => asVisitor<PlacedOrder>('place_order', form);

  test('200 calls with one key create one order', async () => {
    const product = await makeProduct(database, 10);
    const form = orderForm(product);
    const orders = await concurrently(200, () => placeForm(form));
    expect(new Set(orders.map((order) => order.id)).size).toBe(1);
    expect(await stockOf(database, product)).toBe(9);
    const { rowCount } = await database.query('select from public.order_items where product_id = $1', [
      product,
    ]);
    expect(rowCount).toBe(1);
  });

  test('500 customers who order the only unit create one order', async () => {
    const product = await makeProduct(database, 1);
    const attempts = await settleAll(500, () => place(product));
    const sold = attempts.filter(({ status }) => status === 'fulfilled');
    const refused = attempts.flatMap((attempt) =>
      attempt.status === 'rejected' ? [attempt.reason.detail] : [],
    );
    expect(sold).toHaveLength(1);
    expect(new Set(refused)).toEqual(new Set(['out_of_stock']));
    expect(await stockOf(database, product)).toBe(0);
  });

  test.each<[string, string, number, string]>([
    ['becomes dearer', 'price = 96000', 409, 'total_changed'],
    ['is switched off', 'is_active = false', 404, 'product_unavailable'],
    ['is sold out', 'stock_quantity = 0', 409, 'out_of_stock'],
  ])(
    'an order whose product %s while it waits is rejected and changes nothing',
    async (_, change, status, code) => {
      const product = await makeProduct(database, 5);
      const form = orderForm(product);
      let rejected: Promise<unknown> | undefined;
      await database.transaction(async (session) => {
        await session.query(`update public.products set ${change} where id = $1`, [product]);
        rejected = expectRefusal(placeForm(form), status, code);
        await untilOneQueryWaits(database);
      });
      const changed = await readRow(everything);
      await rejected;
      expect(await readRow(everything)).toEqual(changed);
      await database.query(
        'update public.products set price = 95000, is_active = true, stock_quantity = 5 where id = $1',
        [product],
      );
      expect(await placeForm(form), 'the same key orders later').toMatchObject({
        total_amount: 95_100,
      });
    },
  );

  test('customers who order several units get all of them or none', async () => {
    const product = await makeProduct(database, 10);
    const attempts = await settleAll(40, () => place(product, { quantity: 3 }));
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    expect(await stockOf(database, product)).toBe(1);
  });
});
