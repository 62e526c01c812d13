// Riders: the list, their links, what they press on their page, and the code of the customer.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

interface Rider {
  id: string;
  name: string;
  phone: string;
  updated_at: string;
}
interface Ride {
  name: string;
  jobs: Record<string, unknown>[];
  press?: { outcome: string; tries_left?: number; status?: string; is_repeated?: boolean };
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asVisitor, asStaff, asService, callAs, readRow, readRows, readValue } = shop;
  const { queryAs, place, pay, track, trackAsCustomer, eventsOf } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 10_000);
  });

  const addRider = (change: Record<string, unknown> = {}) =>
    asStaff<Rider>('save_rider', {
      name: 'Brian Otieno',
      phone: newPhone(),
      vehicle: 'Motorbike',
      plate: 'KMDA 123B',
      ...change,
    });
  const openLink = async ({ id }: { id: string }) =>
    (await asStaff<{ secret: string }>('open_rider_link', { rider_id: id })).secret;
  const deliveryOf = async ({ id }: { id: string }) =>
    (await readRow<{
      id: string;
      delivery_status: string;
      rider_id: string | null;
      proof_code: string;
      wrong_codes: number;
      proven_by: string | null;
      collected_cents: number | null;
    }>('select * from public.deliveries where order_id = $1', [id])) ?? expect.fail('no delivery');
  const assign = async (order: { id: string }, { name, phone }: { name: string; phone: string }) => {
    const [seen] = await readRows<{ updated_at: string }>(
      'select updated_at::text from public.deliveries where order_id = $1',
      [order.id],
    );
    return asStaff('assign_delivery', {
      order_id: order.id,
      delivery_person: name,
      delivery_phone: phone,
      delivery_vehicle: 'Motorbike',
      seen_updated_at: seen?.updated_at ?? null,
    });
  };
  const page = (secret: string) => asVisitor<Ride>('rider_page', { secret });
  const press = async (
    secret: string,
    order: { id: string },
    step: string,
    given: Record<string, unknown> = {},
  ) =>
    asVisitor<Ride>('rider_press', {
      secret,
      press_key: randomUUID(),
      delivery_id: (await deliveryOf(order)).id,
      step,
      ...given,
    });
  const outcomeOf = async (ride: Promise<Ride>) => (await ride).press?.outcome;
  const paidOrder = async (form: Record<string, unknown> = {}) => {
    const order = await place(product, { customer_phone: newPhone(), ...form });
    await pay(order);
    return order;
  };
  /** A rider with a link and a paid order. */
  const ride = async (form: Record<string, unknown> = {}) => {
    const rider = await addRider();
    const secret = await openLink(rider);
    const order = await paidOrder(form);
    await assign(order, rider);
    return { rider, secret, order, code: (await deliveryOf(order)).proof_code };
  };
  const wrong = (code: string) => String((Number(code) + 1) % 10_000).padStart(4, '0');

  describe('the list', () => {
    test('makes a delivery with the phone of a rider that rider’s, in any spelling', async () => {
      const rider = await addRider();
      const order = await paidOrder();
      await assign(order, { name: 'B.', phone: rider.phone.replace('+254', '0') });
      expect((await deliveryOf(order)).rider_id).toBe(rider.id);
      await assign(order, { name: 'Someone else', phone: newPhone() });
      expect((await deliveryOf(order)).rider_id).toBeNull();
    });

    test('takes over open deliveries that were typed before', async () => {
      const phone = newPhone();
      const order = await paidOrder();
      await assign(order, { name: 'Typed', phone });
      const rider = await addRider({ phone });
      expect((await deliveryOf(order)).rider_id).toBe(rider.id);
    });

    test('offers active riders with their load, and typed ones once', async () => {
      const rider = await addRider({ name: `Load ${randomUUID().slice(0, 8)}` });
      const retired = await addRider({ name: `Gone ${randomUUID().slice(0, 8)}` });
      const order = await paidOrder();
      await assign(order, rider);
      await assign(await paidOrder(), retired);
      await asStaff('save_rider', {
        rider_id: retired.id,
        name: retired.name,
        phone: retired.phone,
        vehicle: 'Van',
        is_active: false,
        seen_updated_at: retired.updated_at,
      });
      const offered = (
        await queryAs<{ name: string; vehicle: string; open_deliveries: number }>(
          'counter',
          'select * from public.recent_riders()',
        )
      ).rows.filter(({ name }) => name === rider.name || name === retired.name);
      expect(offered).toMatchObject([
        { name: rider.name, vehicle: 'Motorbike, KMDA 123B', open_deliveries: 1 },
      ]);
    });

    test('refuses what is missing, a phone that another rider has, and a change of an outdated row', async () => {
      const rider = await addRider();
      await expectRefusal(addRider({ name: '\u200b' }), 400, 'rider_name_missing');
      await expectRefusal(addRider({ vehicle: ' ' }), 400, 'rider_vehicle_missing');
      await expectRefusal(addRider({ phone: '12' }), 400, 'rider_phone_invalid');
      await expectRefusal(addRider({ plate: 'K'.repeat(21) }), 400, 'rider_too_long');
      await expectRefusal(addRider({ phone: rider.phone }), 409, 'rider_phone_taken');
      const change = { rider_id: rider.id, phone: rider.phone, seen_updated_at: rider.updated_at };
      await addRider({ ...change, name: 'First' });
      await expectRefusal(addRider({ ...change, name: 'Second' }), 409, 'rider_changed');
      await expectRefusal(addRider({ rider_id: randomUUID(), phone: newPhone() }), 404, 'rider_not_found');
      await expectRefusal(callAs('customer', 'list_riders'), 403, 'staff_only');
    });
  });

  describe('the link', () => {
    test('shows the deliveries of its rider, the earliest promise first, and no more than a rider needs', async () => {
      const { rider, secret, order } = await ride({ delivery_notes: 'Allergic to hibiscus' });
      const [later, second] = [await paidOrder(), await paidOrder()];
      await assign(later, rider);
      await assign(second, rider);
      await database.query(`update public.orders set promised_at = now() + interval '3 days' where id = $1`, [
        later.id,
      ]);
      const ofAnother = await ride();
      const { jobs } = await page(secret);
      const due = [order, second, later];
      expect(jobs.map(({ id }) => id)).toEqual(
        await Promise.all(due.map(async (one) => (await deliveryOf(one)).id)),
      );
      expect(jobs[0]).toEqual({
        id: expect.any(String),
        order_number: expect.stringMatching(/^ORD-/),
        status: 'assigned',
        items: [{ name: 'Test drink', quantity: 1 }],
        first_name: 'Amina',
        name: 'Amina Kamau',
        phone: order.customer_phone,
        address: 'Westlands',
        city: 'Nairobi',
        area: null,
        map_point: null,
        promised_at: expect.any(String),
        customer_notes: 'Allergic to hibiscus',
        notes: null,
        cash_cents: null,
        asks_code: true,
        tries_left: 5,
      });
      const text = JSON.stringify(jobs);
      for (const hidden of [
        order.access_key,
        order.tracking_number,
        order.id,
        'amina@example.com',
        ofAnother.order.customer_phone,
      ])
        expect(text).not.toContain(hidden);
    });

    test('shows area and point on the map of an open delivery, and neither afterwards', async () => {
      const area_id = await readValue<string>(
        `select id from public.delivery_areas where not needs_agreement order by position limit 1`,
      );
      const { secret, order, code } = await ride({ area_id, map_point: '-1.29207,36.82195' });
      expect((await page(secret)).jobs).toMatchObject([
        { area: expect.any(String), map_point: '-1.29207,36.82195' },
      ]);
      await press(secret, order, 'delivered', { code });
      expect(JSON.stringify((await page(secret)).jobs)).not.toMatch(/-1\.29207|"area"|promised/);
    });

    test('stores no secret, and one link is valid per rider', async () => {
      const rider = await addRider();
      const first = await openLink(rider);
      expect(first).toMatch(/^[\w-]{24}$/);
      expect(
        await readValue(
          `select count(*)::int from public.rider_links as l where l::text like '%' || $1 || '%'`,
          [first],
        ),
      ).toBe(0);
      const second = await openLink(rider);
      await expectRefusal(page(first), 410, 'rider_link_ended');
      expect((await page(second)).name).toBe(rider.name);
    });

    test.each([
      ['revoked', ({ id }: Rider) => asStaff('revoke_rider_link', { rider_id: id })],
      [
        'at its end',
        ({ id }: Rider) =>
          database.query(`update public.rider_links set expires_at = now() where rider_id = $1`, [id]),
      ],
      [
        'when its rider becomes inactive',
        ({ id, name, phone, updated_at }: Rider) =>
          asStaff('save_rider', {
            rider_id: id,
            name,
            phone,
            vehicle: 'Van',
            is_active: false,
            seen_updated_at: updated_at,
          }),
      ],
    ])('ends %s, for reading and pressing', async (_, end) => {
      const { rider, secret, order } = await ride();
      expect((await page(secret)).jobs).toHaveLength(1);
      await end(rider);
      await expectRefusal(page(secret), 410, 'rider_link_ended');
      await expectRefusal(press(secret, order, 'picked_up'), 410, 'rider_link_ended');
      expect((await deliveryOf(order)).delivery_status).toBe('assigned');
    });

    test('cannot be opened for an inactive rider', async () => {
      const rider = await addRider({ is_active: false });
      await expectRefusal(openLink(rider), 409, 'rider_inactive');
      await expectRefusal(openLink({ id: randomUUID() }), 404, 'rider_not_found');
    });

    test('changes nothing when it is opened', async () => {
      const { rider, secret, order } = await ride();
      const read = () =>
        readRow(
          `select d::text as delivery, r::text as rider, o::text as ordered from public.deliveries as d
           join public.riders as r on r.id = d.rider_id join public.orders as o on o.id = d.order_id where d.order_id = $1`,
          [order.id],
        );
      const before = await read();
      await page(secret);
      expect(await read()).toEqual(before);
      await asVisitor('rider_press', { secret, press_key: null, delivery_id: null, step: 'seen' });
      expect(
        await readValue('select last_seen_at is not null from public.riders where id = $1', [rider.id]),
      ).toBe(true);
    });

    test('is limited per network, and the limit is checked before anything is read', async () => {
      const { secret } = await ride();
      const address = '203.0.113.77';
      await database.query(`update private.limits set allowed = 2 where name = 'rider_pages'`);
      await asVisitor('rider_page', { secret }, address);
      await expectRefusal(asVisitor('rider_page', { secret: 'unknown' }, address), 410, 'rider_link_ended');
      await expectRefusal(asVisitor('rider_page', { secret }, address), 429, 'too_many_rider_calls');
      await database.query(`update private.limits set allowed = 1200 where name = 'rider_pages'`);
      expect(await asVisitor('rider_page', { secret }, '198.51.100.1')).toMatchObject({ jobs: [{}] });
    });
  });

  describe('a press', () => {
    test('moves delivery and order, with the rider as actor, and forgets the customer afterwards', async () => {
      const { secret, order, code } = await ride();
      expect(await outcomeOf(press(secret, order, 'picked_up'))).toBe('done');
      expect((await shop.stateOf(order)).status).toBe('out_for_delivery');
      expect(await outcomeOf(press(secret, order, 'in_transit'))).toBe('done');
      const { jobs, press: done } = await press(secret, order, 'delivered', { code: ` ${code} ` });
      expect(done).toMatchObject({ outcome: 'done', status: 'delivered' });
      expect(jobs).toEqual([
        {
          id: expect.any(String),
          order_number: expect.any(String),
          status: 'delivered',
          items: [{ name: 'Test drink', quantity: 1 }],
          first_name: 'Amina',
          done_at: expect.any(String),
          failure: null,
          is_cancelled: false,
        },
      ]);
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'delivered', proven_by: 'code' });
      expect((await shop.stateOf(order)).status).toBe('delivered');
      expect((await eventsOf(order)).filter((event) => event.startsWith('rider '))).toEqual([
        'rider delivery_status_changed',
        'rider status_changed',
        'rider delivery_status_changed',
        'rider delivery_status_changed',
        'rider status_changed',
      ]);
    });

    test('shows a done delivery for an hour', async () => {
      const { secret, order, code } = await ride();
      await press(secret, order, 'delivered', { code });
      expect((await page(secret)).jobs).toHaveLength(1);
      await database.execute('alter table public.deliveries disable trigger deliveries_before_change');
      await database.query(
        `update public.deliveries set updated_at = now() - interval '61 minutes' where order_id = $1`,
        [order.id],
      );
      await database.execute('alter table public.deliveries enable trigger deliveries_before_change');
      expect((await page(secret)).jobs).toEqual([]);
    });

    test('with a known key answers as the first time and does nothing', async () => {
      const { secret, order, code } = await ride();
      const press_key = randomUUID();
      await press(secret, order, 'picked_up', { press_key });
      const events = await eventsOf(order);
      const again = await press(secret, order, 'picked_up', { press_key });
      expect(again.press).toMatchObject({ outcome: 'done', is_repeated: true });
      expect(await eventsOf(order)).toEqual(events);
      // A wrong code is counted once, and the same form can be sent with another code.
      const key = randomUUID();
      const mistyped = { press_key: key, code: wrong(code) };
      expect(await outcomeOf(press(secret, order, 'delivered', mistyped))).toBe('wrong_code');
      expect(await outcomeOf(press(secret, order, 'delivered', mistyped))).toBe('wrong_code');
      expect((await deliveryOf(order)).wrong_codes).toBe(1);
      expect(await outcomeOf(press(secret, order, 'delivered', { press_key: key, code }))).toBe('done');
    });

    test('sent twice at once does one thing', async () => {
      const { secret, order } = await ride();
      const press_key = randomUUID();
      const rides = await Promise.all([
        press(secret, order, 'picked_up', { press_key }),
        press(secret, order, 'picked_up', { press_key }),
      ]);
      expect(rides.map((each) => each.press?.outcome)).toEqual(['done', 'done']);
      expect(rides.filter((each) => each.press?.is_repeated)).toHaveLength(1);
    });

    describe('that waited on the device', () => {
      /** Seconds between now and the times of a delivery. */
      const agesOf = async ({ id }: { id: string }) =>
        (await readRow<Record<'paid' | 'pickup' | 'delivery' | 'change', number | null>>(
          `select extract(epoch from now() - created_at)::float as paid, extract(epoch from now() - pickup_time)::float as pickup,
             extract(epoch from now() - delivery_time)::float as delivery, extract(epoch from now() - updated_at)::float as change
           from public.deliveries where order_id = $1`,
          [id],
        )) ?? expect.fail('no delivery');
      const assignTwoHoursAgo = async ({ id }: { id: string }) => {
        await database.execute('alter table public.order_events disable trigger order_events_before_change');
        await database.query(
          `update public.order_events set happened_at = happened_at - interval '2 hours' where order_id = $1`,
          [id],
        );
        await database.execute('alter table public.order_events enable trigger order_events_before_change');
        await database.query(
          `update public.deliveries set created_at = created_at - interval '2 hours' where order_id = $1`,
          [id],
        );
      };

      test('counts from when it was pressed, in the delivery and on the timeline', async () => {
        const { secret, order, code } = await ride();
        await assignTwoHoursAgo(order);
        await press(secret, order, 'picked_up', { seconds_ago: 1800 });
        await press(secret, order, 'delivered', { code, seconds_ago: 600 });
        const { pickup, delivery, change } = await agesOf(order);
        expect(pickup).toBeGreaterThanOrEqual(1800);
        expect(pickup).toBeLessThan(3600);
        expect(delivery).toBeGreaterThanOrEqual(600);
        expect(delivery).toBeLessThan(1800);
        expect(change).toBeLessThan(600);
        expect(
          await readRows(
            `select e.kind, d.delivery_time = e.happened_at as is_then from public.order_events as e
             join public.deliveries as d on d.order_id = e.order_id
             where e.order_id = $1 and e.actor = 'rider' order by e.id desc limit 2`,
            [order.id],
          ),
        ).toEqual([
          { kind: 'status_changed', is_then: true },
          { kind: 'delivery_status_changed', is_then: true },
        ]);
      });

      test('is neither in the future nor before the step before it', async () => {
        const { secret, order, code } = await ride();
        await press(secret, order, 'picked_up', { seconds_ago: 2_000_000_000 });
        expect(
          await readValue(
            `select d.pickup_time = e.happened_at from public.deliveries as d
             join public.order_events as e on e.order_id = d.order_id and e.kind = 'delivery_assigned' where d.order_id = $1`,
            [order.id],
          ),
        ).toBe(true);
        await press(secret, order, 'in_transit', { seconds_ago: -2_000_000_000 });
        await press(secret, order, 'delivered', { code, seconds_ago: 7200 });
        const { pickup, delivery } = await agesOf(order);
        expect(delivery).toBeGreaterThanOrEqual(0);
        expect(delivery).toBeLessThanOrEqual(pickup ?? expect.fail('not picked up'));
      });

      test('changes no time of what happens after it in the same transaction', async () => {
        const { secret, order } = await ride();
        await assignTwoHoursAgo(order);
        const { id } = await deliveryOf(order);
        const { rows } = await database.query<{ age: number }>(
          `with pressed as materialized (
             select public.rider_press($1, gen_random_uuid(), $2, 'picked_up', seconds_ago => 1800)
           )
           select extract(epoch from clock_timestamp() - private.moment())::float as age from pressed`,
          [secret, id],
        );
        expect(rows[0]?.age).toBeLessThan(1);
      });

      test('is sent with the next link of its rider, once', async () => {
        const { rider, secret, order } = await ride();
        const press_key = randomUUID();
        await press(secret, order, 'picked_up', { press_key });
        const next = await openLink(rider);
        expect((await press(next, order, 'picked_up', { press_key })).press).toMatchObject({
          outcome: 'done',
          is_repeated: true,
        });
        const other = await ride();
        expect(await outcomeOf(press(other.secret, order, 'picked_up', { press_key }))).toBe('not_yours');
      });
    });

    test('on a second device reads what was done', async () => {
      const { secret, order, code } = await ride();
      await press(secret, order, 'delivered', { code });
      for (const step of ['picked_up', 'delivered', 'failed'])
        expect((await press(secret, order, step)).press).toMatchObject({
          outcome: 'already',
          status: 'delivered',
        });
      expect((await deliveryOf(order)).delivery_status).toBe('delivered');
    });

    test('does nothing for a delivery that another rider has now, and shows nothing of it', async () => {
      const { secret, order } = await ride();
      await press(secret, order, 'picked_up');
      await assign(order, await addRider({ name: 'Kamau' }));
      const after = await press(secret, order, 'delivered', { code: '1234' });
      expect(after.press).toEqual({
        outcome: 'not_yours',
        delivery_id: expect.any(String),
        step: 'delivered',
      });
      expect(after.jobs).toEqual([]);
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'picked_up', wrong_codes: 0 });
    });

    test('does nothing for a cancelled order', async () => {
      const { secret, order } = await ride();
      await shop.handOver(order, 'cancelled');
      const after = await press(secret, order, 'picked_up');
      expect(after.press).toMatchObject({ outcome: 'cancelled' });
      expect(after.jobs).toMatchObject([{ status: 'failed', is_cancelled: true }]);
      expect(JSON.stringify(after.jobs)).not.toContain(order.customer_phone);
    });

    test('that it could not be delivered needs a reason', async () => {
      const { secret, order } = await ride();
      await press(secret, order, 'picked_up');
      expect(await outcomeOf(press(secret, order, 'failed'))).toBe('reason_missing');
      expect(await outcomeOf(press(secret, order, 'failed', { failure_reason: 'lost' }))).toBe(
        'reason_missing',
      );
      expect(await outcomeOf(press(secret, order, 'failed', { failure_reason: 'no_answer' }))).toBe('done');
      expect(
        await readRow('select delivery_status, failure_reason from public.deliveries where order_id = $1', [
          order.id,
        ]),
      ).toEqual({
        delivery_status: 'failed',
        failure_reason: 'no_answer',
      });
      expect((await shop.stateOf(order)).status).toBe('processing');
    });

    test('is refused with an unknown step, and without key or delivery', async () => {
      const { secret, order } = await ride();
      await expectRefusal(press(secret, order, 'cancelled'), 400, 'step_unknown');
      await expectRefusal(press(secret, order, 'picked_up', { press_key: null }), 400, 'press_incomplete');
    });
  });

  describe('cash', () => {
    const cashRide = async () => {
      const order = await place(product, { customer_phone: newPhone() });
      await asStaff('agree_cash', { order_id: order.id });
      const rider = await addRider();
      const secret = await openLink(rider);
      await assign(order, rider);
      return { order, secret, code: (await deliveryOf(order)).proof_code };
    };

    test('is reported by the rider, and is no payment before staff note it', async () => {
      const { order, secret, code } = await cashRide();
      expect((await page(secret)).jobs).toMatchObject([{ cash_cents: order.charge_cents }]);
      expect(await outcomeOf(press(secret, order, 'delivered', { code }))).toBe('cash_missing');
      expect(await outcomeOf(press(secret, order, 'delivered', { code, received_cents: 150 }))).toBe(
        'cash_missing',
      );
      const given = { code, received_cents: order.charge_cents - 100 };
      expect(await outcomeOf(press(secret, order, 'delivered', given))).toBe('cash_differs');
      expect((await deliveryOf(order)).delivery_status).toBe('assigned');
      expect(await outcomeOf(press(secret, order, 'delivered', { ...given, is_other_amount: true }))).toBe(
        'done',
      );
      expect(await deliveryOf(order)).toMatchObject({ collected_cents: order.charge_cents - 100 });
      expect(await shop.stateOf(order)).toMatchObject({ status: 'delivered', money: 'unpaid', payments: [] });
      expect(await eventsOf(order)).toContain('rider cash_collected');
    });

    test('is not asked for once the order is paid', async () => {
      const { order, secret, code } = await cashRide();
      await asStaff('receive_cash', { order_id: order.id, received_cents: order.charge_cents });
      expect((await page(secret)).jobs).toMatchObject([{ cash_cents: null }]);
      const done = await press(secret, order, 'delivered', { code });
      expect(done.press).toEqual({
        outcome: 'done',
        order_number: expect.any(String),
        status: 'delivered',
        step: 'delivered',
        delivery_id: expect.any(String),
      });
      expect(await deliveryOf(order)).toMatchObject({ collected_cents: null });
    });

    test('of an order that was paid in the meantime is recorded, and the rider reads that it was', async () => {
      const { order, secret, code } = await cashRide();
      await pay(order);
      const { press: done } = await press(secret, order, 'delivered', {
        code,
        received_cents: order.charge_cents,
      });
      expect(done).toMatchObject({ outcome: 'done', received_cents: order.charge_cents });
      expect(await deliveryOf(order)).toMatchObject({ collected_cents: order.charge_cents });
      expect(await eventsOf(order)).toContain('rider cash_collected');
      expect(await shop.stateOf(order)).toMatchObject({ status: 'delivered', money: 'paid' });
    });
  });

  describe('the code', () => {
    const codeShown = async (order: PlacedOrder) =>
      (await trackAsCustomer<{ proof_code?: string }>(order)).proof_code;

    test('is shown with the access key, and neither with the number nor with digits of the phone', async () => {
      const order = await paidOrder();
      const digits = { phone_last_four: order.customer_phone.slice(-4) };
      expect(await track(order, digits)).toHaveProperty('access_key', order.access_key);
      const rider = await addRider();
      await assign(order, rider);
      const { proof_code } = await deliveryOf(order);
      expect(await codeShown(order)).toBe(proof_code);
      for (const proof of [{}, digits, { phone_last_four: order.customer_phone }]) {
        const shown = await track(order, proof);
        expect(shown).not.toHaveProperty('proof_code');
        expect(shown).not.toHaveProperty('access_key');
        expect(
          await asVisitor('order_receipt', { tracking_number: order.tracking_number, ...proof }),
        ).not.toHaveProperty('access_key');
      }
      await press(await openLink(rider), order, 'delivered', { code: proof_code });
      expect(await codeShown(order)).toBeUndefined();
      // With the key the rider could rate the own work.
      for (const proof of [digits, { phone_last_four: order.customer_phone }]) {
        const shown = await track(order, proof);
        expect(shown).toMatchObject({ is_masked: false, status: 'delivered' });
        expect(shown).not.toHaveProperty('access_key');
        expect(shown).not.toHaveProperty('may_rate');
      }
      expect(await trackAsCustomer(order)).toMatchObject({ access_key: order.access_key, may_rate: true });
    });

    test('digits of the phone give no key either where the rider is typed', async () => {
      const order = await paidOrder();
      const digits = { phone_last_four: order.customer_phone.slice(-4) };
      expect(await track(order, digits)).toHaveProperty('access_key', order.access_key);
      await assign(order, { name: 'Typed', phone: newPhone() });
      expect(await track(order, digits)).not.toHaveProperty('access_key');
      await shop.handOver(order, 'delivered');
      expect(await track(order, digits)).not.toHaveProperty('access_key');
      expect(await track(order, { access_key: order.access_key })).toMatchObject({ may_rate: true });
    });

    test('is not asked from a rider who is not on the list', async () => {
      const order = await paidOrder();
      await assign(order, { name: 'Typed', phone: newPhone() });
      expect(await codeShown(order)).toBeUndefined();
    });

    test('five wrong ones leave it to staff, who finish it with a reason', async () => {
      const { secret, order, code } = await ride();
      expect(await outcomeOf(press(secret, order, 'delivered'))).toBe('code_missing');
      for (const tries_left of [4, 3, 2, 1])
        expect((await press(secret, order, 'delivered', { code: wrong(code) })).press).toMatchObject({
          outcome: 'wrong_code',
          tries_left,
        });
      expect(await outcomeOf(press(secret, order, 'delivered', { code: wrong(code) }))).toBe('code_locked');
      expect(await outcomeOf(press(secret, order, 'delivered', { code }))).toBe('code_locked');
      expect((await page(secret)).jobs).toMatchObject([{ tries_left: 0 }]);
      expect(await eventsOf(order)).toContain('rider code_locked');
      const { id } = await deliveryOf(order);
      await expectRefusal(
        asStaff('finish_without_code', { delivery_id: id, reason: 'x' }),
        400,
        'reason_invalid',
      );
      const { change_id } = await callAs<{ change_id: string }>('counter', 'finish_without_code', {
        delivery_id: id,
        reason: 'Customer confirmed by phone',
      });
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'delivered', proven_by: 'staff' });
      expect(await eventsOf(order)).toContain('staff code_waived');
      await expectRefusal(
        asStaff('finish_without_code', { delivery_id: id, reason: 'Again' }),
        409,
        'delivery_changed',
      );
      await callAs('counter', 'undo_status_change', { change_id });
      expect(await deliveryOf(order)).toMatchObject({
        delivery_status: 'assigned',
        proven_by: null,
        rider_id: expect.any(String),
      });
    });

    test('is not needed by staff, whose own steps stay as they are', async () => {
      const { order } = await ride();
      const { id } = await deliveryOf(order);
      await asStaff('set_delivery_status', {
        delivery_id: id,
        status: 'delivered',
        expected_status: 'assigned',
      });
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'delivered', proven_by: null });
    });

    test('can be switched off', async () => {
      const { secret, order } = await ride();
      await database.query('update public.store_settings set asks_delivery_code = false');
      expect(await codeShown(order)).toBeUndefined();
      expect(await outcomeOf(press(secret, order, 'delivered'))).toBe('done');
      await database.query('update public.store_settings set asks_delivery_code = true');
    });

    test('is in the text that the order is on its way', async () => {
      const { secret, order, code } = await ride();
      await press(secret, order, 'picked_up');
      const facts = await readValue<{ code: string }>(
        `select private.message_facts($1, 'order_on_its_way', '')`,
        [order.id],
      );
      expect(facts?.code).toBe(code);
    });
  });

  describe('the text to the rider', () => {
    const textsOf = ({ id }: { id: string }) =>
      readRows<{ recipient: string; event_key: string }>(
        `select recipient, event_key from public.outbox_messages where order_id = $1 and kind = 'job_for_rider' order by created_at`,
        [id],
      );

    test('names the promise, or the new time after a delay', async () => {
      const { order } = await ride();
      const arrivalOf = () =>
        readValue<string>(`select private.message_facts($1, 'job_for_rider', '') ->> 'arrival'`, [order.id]);
      const promised = await readValue<string>(`select promised_at from public.orders where id = $1`, [
        order.id,
      ]);
      expect(new Date(String(await arrivalOf()))).toEqual(new Date(String(promised)));
      await database.query(
        `update public.orders set promised_again_at = '2030-01-01T12:00:00+03:00' where id = $1`,
        [order.id],
      );
      expect(new Date(String(await arrivalOf()))).toEqual(new Date('2030-01-01T12:00:00+03:00'));
    });

    test('is off at first', async () => {
      expect(await textsOf((await ride()).order)).toEqual([]);
    });

    test('is sent once it is on, to each new rider, and not after the delivery was taken away', async () => {
      await database.query(`update public.message_templates set is_on = true where kind = 'job_for_rider'`);
      const { order, rider } = await ride();
      expect(await textsOf(order)).toEqual([{ recipient: rider.phone, event_key: rider.id }]);
      const stillTrue = () =>
        readRows(
          `select m.event_key, private.is_still_true(m) as is_true from public.outbox_messages as m
           where m.order_id = $1 and m.kind = 'job_for_rider' order by m.created_at`,
          [order.id],
        );
      const other = await addRider();
      await assign(order, other);
      expect(await stillTrue()).toEqual([
        { event_key: rider.id, is_true: false },
        { event_key: other.id, is_true: true },
      ]);
      await database.query(`update public.message_templates set is_on = false where kind = 'job_for_rider'`);
    });

    test('is sent again to a rider who gets the delivery back, but not while the first one waits', async () => {
      await database.query(`update public.message_templates set is_on = true where kind = 'job_for_rider'`);
      const { order, rider } = await ride();
      const other = await addRider();
      const send = () =>
        database.query(
          `update public.outbox_messages set status = 'sent', next_attempt_at = null where order_id = $1 and kind = 'job_for_rider'`,
          [order.id],
        );
      await assign(order, other);
      await assign(order, rider);
      expect((await textsOf(order)).map(({ event_key }) => event_key)).toEqual([rider.id, other.id]);
      await send();
      await assign(order, other);
      await send();
      await assign(order, rider);
      expect((await textsOf(order)).map(({ event_key }) => event_key)).toEqual([
        rider.id,
        other.id,
        `${other.id} 1`,
        `${rider.id} 1`,
      ]);
      expect(
        await readValue(
          `select private.is_still_true(m) from public.outbox_messages as m where m.order_id = $1 and m.event_key = $2`,
          [order.id, `${rider.id} 1`],
        ),
      ).toBe(true);
      await database.query(`update public.message_templates set is_on = false where kind = 'job_for_rider'`);
    });
  });

  test('a practice rider exists only with the simulator', async () => {
    const secret = await asService<string>('practice_rider', { is_practice: true });
    const second = await asService<string>('practice_rider', { is_practice: true });
    expect((await page(secret)).name).toBe('Practice rider');
    expect((await page(second)).name).toBe('Practice rider');
    const order = await paidOrder();
    await assign(order, { name: 'Practice rider', phone: '0100000000' });
    expect((await deliveryOf(order)).rider_id).not.toBeNull();
    expect(await asService('practice_rider', { is_practice: false })).toBeNull();
    await expectRefusal(page(secret), 410, 'rider_link_ended');
    expect((await deliveryOf(order)).rider_id).toBeNull();
    await expect(asStaff('practice_rider', { is_practice: true })).rejects.toMatchObject({ code: '42501' });
  });
});
