// Staff manage deliveries: assignment, times, and the effects on orders.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { everyone, expectRefusal, makeProduct, type Person, untilOneQueryWaits } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Delivery {
  id: string;
  order_id: string;
  delivery_status: string;
  delivery_person: string | null;
  delivery_phone: string | null;
  delivery_vehicle: string | null;
  delivery_notes: string | null;
  pickup_time: string | null;
  delivery_time: string | null;
  updated_at: string;
}

const joseph = {
  delivery_person: ' Joseph Otieno ',
  delivery_phone: '0722 000 111',
  delivery_vehicle: 'Motorbike',
};
const kamau = { delivery_person: 'Kamau', delivery_phone: '0733000222', delivery_vehicle: 'Van' };

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, queryAs, place } = setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });

  async function makeOrder(status = 'processing'): Promise<string> {
    const { id } = await place(product);
    await database.query(
      `update public.orders set status = $2, payment_status = 'paid', reserved_until = null where id = $1`,
      [id, status],
    );
    return id;
  }
  /** A paid order with an unassigned delivery. */
  async function makePaidOrder(): Promise<string> {
    const order = await makeOrder();
    await database.query('insert into public.deliveries (order_id) values ($1) on conflict do nothing', [
      order,
    ]);
    return order;
  }
  const rows = async <Row>(sql: string, parameters: unknown[], person: Person = 'staff'): Promise<Row[]> =>
    (await queryAs<Row>(person, sql, parameters)).rows;
  async function deliveryOf(order: string): Promise<Delivery> {
    const [found] = await rows<Delivery>('select * from public.deliveries where order_id = $1', [order]);
    if (!found) throw new Error('The order has no delivery');
    return found;
  }
  const statusOf = async (order: string) =>
    (await rows<{ status: string }>('select status from public.orders where id = $1', [order]))[0]?.status;
  const assign = (order: string, given: Record<string, unknown>, person: Person = 'staff') =>
    callAs<unknown>(person, 'assign_delivery', { order_id: order, ...given });
  const setOrder = (order: string, status: string) =>
    rows('update public.orders set status = $2 where id = $1', [order, status]);
  const move = (order: string, status: string) =>
    rows<Delivery>('update public.deliveries set delivery_status = $2 where order_id = $1 returning *', [
      order,
      status,
    ]);

  describe('assigning', () => {
    test('fills the delivery that the payment created', async () => {
      const order = await makePaidOrder();
      const before = await deliveryOf(order);
      await assign(order, { ...joseph, delivery_notes: '  ' });
      expect(await deliveryOf(order)).toMatchObject({
        id: before.id,
        delivery_status: 'assigned',
        delivery_person: 'Joseph Otieno',
        delivery_phone: '0722 000 111',
        delivery_vehicle: 'Motorbike',
        delivery_notes: null,
      });
    });

    test('creates a delivery for an order without one', async () => {
      const order = await makeOrder('pending');
      await assign(order, { ...joseph, delivery_notes: 'Call at the gate' });
      expect(await deliveryOf(order)).toMatchObject({
        delivery_status: 'assigned',
        delivery_notes: 'Call at the gate',
      });
      expect(await statusOf(order)).toBe('pending');
    });

    test.each([
      [{ delivery_person: ' ' }, 'delivery_person_missing', 'Delivery person name is required'],
      [{ delivery_phone: null }, 'delivery_phone_missing', 'Phone number is required'],
      [{ delivery_vehicle: '' }, 'delivery_vehicle_missing', 'Vehicle information is required'],
      [{ delivery_notes: 'x'.repeat(501) }, 'delivery_too_long', 'too long'],
    ])('with %j is rejected and changes nothing', async (change, code, message) => {
      const order = await makePaidOrder();
      const before = await deliveryOf(order);
      const error = await expectRefusal(assign(order, { ...joseph, ...change }), 400, code);
      expect(error.message).toContain(message);
      expect(await deliveryOf(order)).toEqual(before);
    });

    test('rejects an unknown order', async () => {
      await expectRefusal(assign(randomUUID(), joseph), 404, 'order_not_found');
    });

    test("does not replace another staff member's assignment, and the error names the staff member", async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      const before = await deliveryOf(order);
      const error = await expectRefusal(assign(order, kamau), 409, 'delivery_already_assigned');
      expect(error.message).toBe('Joseph Otieno already has this delivery. Nothing was changed');
      expect(await deliveryOf(order)).toEqual(before);
    });

    test('a repeated assignment changes nothing', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      const before = await deliveryOf(order);
      await assign(order, joseph);
      expect(await deliveryOf(order)).toEqual(before);
    });

    test('one of several concurrent assignments succeeds', async () => {
      for (const order of [await makePaidOrder(), await makeOrder()]) {
        const persons = ['Achieng', 'Baraka', 'Chebet', 'Daudi'];
        const outcomes = await Promise.allSettled(
          persons.map((delivery_person) => assign(order, { ...joseph, delivery_person })),
        );
        const winners = persons.filter((_, index) => outcomes[index]?.status === 'fulfilled');
        expect(winners).toHaveLength(1);
        expect((await deliveryOf(order)).delivery_person).toBe(winners[0]);
        const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
        expect(refused.map(({ reason }) => reason.detail)).toEqual(
          Array(3).fill('delivery_already_assigned'),
        );
      }
    });

    test.runIf(kind === 'postgresql')(
      'does not replace an assignment that is committed in the meantime',
      async () => {
        const order = await makePaidOrder();
        let late: Promise<unknown> | undefined;
        await database.transaction(async (session) => {
          await session.query(`update public.deliveries set delivery_person = 'Joseph' where order_id = $1`, [
            order,
          ]);
          late = assign(order, kamau).catch((error: unknown) => error);
          await untilOneQueryWaits(database);
        });
        expect(await late).toMatchObject({ detail: 'delivery_already_assigned' });
        expect((await deliveryOf(order)).delivery_person).toBe('Joseph');
      },
    );

    test('an edit with the current version changes an assignment but not its status', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      await move(order, 'picked_up');
      const { updated_at: seen } = await deliveryOf(order);
      await assign(order, { ...kamau, seen_updated_at: seen });
      expect(await deliveryOf(order)).toMatchObject({
        delivery_person: 'Kamau',
        delivery_vehicle: 'Van',
        delivery_status: 'picked_up',
      });
      const before = await deliveryOf(order);
      await expectRefusal(assign(order, { ...joseph, seen_updated_at: seen }), 409, 'delivery_changed');
      expect(await deliveryOf(order)).toEqual(before);
    });

    test('is for staff only', async () => {
      const order = await makePaidOrder();
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(assign(order, joseph, person), 403, 'staff_only');
      }
      await expect(assign(order, joseph, 'visitor')).rejects.toMatchObject({ code: '42501' });
      expect((await deliveryOf(order)).delivery_person).toBeNull();
      await assign(order, joseph, 'service');
      expect((await deliveryOf(order)).delivery_person).toBe('Joseph Otieno');
    });

    test('the table rejects texts that are too long, too', async () => {
      const order = await makePaidOrder();
      const attempt = rows('update public.deliveries set delivery_person = $2 where order_id = $1', [
        order,
        'x'.repeat(121),
      ]);
      await expect(attempt).rejects.toMatchObject({ code: '23514' });
    });
  });

  describe('the times', () => {
    test('are those of the database, not of a device', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      const long_ago = '2001-01-01T00:00:00Z';
      const [{ now: began } = { now: '' }] = await rows<{ now: string }>(
        'select clock_timestamp() as now',
        [],
      );
      const [picked] = await rows<Delivery>(
        `update public.deliveries set delivery_status = 'picked_up', pickup_time = $2, delivery_time = $2, updated_at = $2
         where order_id = $1 returning *`,
        [order, long_ago],
      );
      expect(new Date(picked?.pickup_time ?? 0) >= new Date(began)).toBe(true);
      expect(new Date(picked?.updated_at ?? 0) >= new Date(began)).toBe(true);
      expect(picked?.delivery_time).toBeNull();
      const [delivered] = await rows<Delivery>(
        `update public.deliveries set delivery_status = 'delivered', delivery_time = $2 where order_id = $1 returning *`,
        [order, long_ago],
      );
      expect(new Date(delivered?.delivery_time ?? 0) >= new Date(began)).toBe(true);
      expect(delivered?.pickup_time).toEqual(picked?.pickup_time);
      const [noted] = await rows<Delivery>(
        `update public.deliveries set delivery_notes = 'Left at the gate', delivery_time = null, pickup_time = $2
         where order_id = $1 returning *`,
        [order, long_ago],
      );
      expect(noted).toMatchObject({
        pickup_time: picked?.pickup_time,
        delivery_time: delivered?.delivery_time,
      });
    });

    test('are cleared by a step back', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      const seen: unknown[] = [];
      const statuses = ['picked_up', 'delivered', 'in_transit', 'delivered', 'picked_up', 'delivered'];
      for (const status of [...statuses, 'failed', 'assigned']) {
        const [{ pickup_time, delivery_time } = { pickup_time: null, delivery_time: null }] = await move(
          order,
          status,
        );
        seen.push([status, pickup_time !== null, delivery_time !== null]);
      }
      expect(seen).toEqual([
        ['picked_up', true, false],
        ['delivered', true, true],
        ['in_transit', true, false],
        ['delivered', true, true],
        ['picked_up', true, false],
        ['delivered', true, true],
        ['failed', true, false],
        ['assigned', false, false],
      ]);
    });

    test('of two changes always differ', async () => {
      const order = await makePaidOrder();
      await database.query(`alter table public.deliveries disable trigger deliveries_before_change`);
      await database.query(
        `update public.deliveries set updated_at = now() + interval '1 hour' where order_id = $1`,
        [order],
      );
      await database.query(`alter table public.deliveries enable trigger deliveries_before_change`);
      const before = await deliveryOf(order);
      await move(order, 'assigned');
      expect(new Date((await deliveryOf(order)).updated_at) >= new Date(before.updated_at)).toBe(true);
      expect((await deliveryOf(order)).updated_at).not.toBe(before.updated_at);
    });
  });

  describe('the order', () => {
    test('follows its delivery forward and back', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      const followed: unknown[] = [];
      for (const status of [
        'picked_up',
        'in_transit',
        'delivered',
        'in_transit',
        'failed',
        'assigned',
        'in_transit',
        'assigned',
        'delivered',
        'failed',
      ]) {
        await move(order, status);
        followed.push([status, await statusOf(order)]);
      }
      expect(followed).toEqual([
        ['picked_up', 'out_for_delivery'],
        ['in_transit', 'out_for_delivery'],
        ['delivered', 'delivered'],
        ['in_transit', 'out_for_delivery'],
        ['failed', 'processing'],
        ['assigned', 'processing'],
        ['in_transit', 'out_for_delivery'],
        ['assigned', 'processing'],
        ['delivered', 'delivered'],
        ['failed', 'processing'],
      ]);
    });

    test('follows a new delivery that is already on its way', async () => {
      const order = await makeOrder();
      await rows(
        `insert into public.deliveries (order_id, delivery_status, delivery_person) values ($1, 'in_transit', 'Kamau')`,
        [order],
      );
      expect(await statusOf(order)).toBe('out_for_delivery');
    });

    test('set to shipped or delivered by staff returns when its delivery fails; a waiting one does not change', async () => {
      const [shipped, delivered, pending] = [
        await makePaidOrder(),
        await makePaidOrder(),
        await makePaidOrder(),
      ];
      for (const order of [shipped, delivered, pending]) await assign(order, joseph);
      await move(shipped, 'in_transit');
      await setOrder(shipped, 'shipped');
      await move(shipped, 'failed');
      expect(await statusOf(shipped)).toBe('processing');

      await move(delivered, 'in_transit');
      await setOrder(delivered, 'delivered');
      await move(delivered, 'failed');
      expect(await statusOf(delivered)).toBe('processing');

      await setOrder(pending, 'pending');
      await move(pending, 'failed');
      expect(await statusOf(pending)).toBe('pending');
    });

    test('does not change when other columns of the delivery change', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      await move(order, 'picked_up');
      await setOrder(order, 'delivered');
      await rows(
        `update public.deliveries set delivery_status = 'delivered', delivery_notes = 'Gate 2' where order_id = $1`,
        [order],
      );
      expect(await statusOf(order)).toBe('delivered');
    });

    test('changes its delivery with the status that staff set, and each change is recorded once', async () => {
      const order = await makePaidOrder();
      const seen: unknown[] = [];
      for (const status of [
        'delivered',
        'shipped',
        'processing',
        'cancelled',
        'pending',
        'shipped',
        'cancelled',
      ]) {
        await setOrder(order, status);
        const { delivery_status, pickup_time, delivery_time } = await deliveryOf(order);
        seen.push([status, delivery_status, pickup_time !== null, delivery_time !== null]);
        expect(await statusOf(order)).toBe(status);
      }
      expect(seen).toEqual([
        ['delivered', 'delivered', false, true],
        // It waits for a rider.
        ['shipped', 'pending', false, false],
        ['processing', 'pending', false, false],
        ['cancelled', 'failed', false, false],
        ['pending', 'pending', false, false],
        ['shipped', 'pending', false, false],
        ['cancelled', 'failed', false, false],
      ]);
      const happened = await rows<{ line: string }>(
        `select concat_ws(' ', kind, actor, details ->> 'to') as line from public.order_events
         where order_id = $1 and kind in ('status_changed', 'delivery_status_changed') order by id`,
        [order],
      );
      expect(happened.slice(0, 4).map(({ line }) => line)).toEqual([
        'status_changed shop processing',
        'status_changed staff delivered',
        'delivery_status_changed staff delivered',
        'status_changed staff shipped',
      ]);
      expect(happened).toHaveLength(13);
      const messages = await database.query<{ kind: string; count: string }>(
        `select kind, count(*)::text as count from public.outbox_messages
         where order_id = $1 and kind in ('order_on_its_way', 'order_delivered') group by kind order by kind`,
        [order],
      );
      expect(messages.rows).toEqual([
        { kind: 'order_delivered', count: '2' },
        { kind: 'order_on_its_way', count: '2' },
      ]);
    });

    test('delivered before payment, or cancelled with a rider assigned, passes its status to the delivery', async () => {
      const early = await makeOrder('delivered');
      await database.query('insert into public.deliveries (order_id) values ($1) on conflict do nothing', [
        early,
      ]);
      expect(await deliveryOf(early)).toMatchObject({ delivery_status: 'delivered' });
      const named = await makePaidOrder();
      await assign(named, joseph);
      await setOrder(named, 'cancelled');
      expect(await deliveryOf(named)).toMatchObject({ delivery_status: 'failed' });
      await setOrder(named, 'processing');
      expect(await deliveryOf(named)).toMatchObject({ delivery_status: 'assigned' });
    });

    test('cancelled stays cancelled: its delivery can only fail', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      await move(order, 'in_transit');
      await setOrder(order, 'cancelled');
      for (const status of ['assigned', 'picked_up', 'delivered']) {
        await expectRefusal(move(order, status), 409, 'delivery_of_cancelled_order');
      }
      expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'failed' });
      expect(await statusOf(order)).toBe('cancelled');
      await setOrder(order, 'processing');
      await move(order, 'delivered');
      expect(await statusOf(order)).toBe('delivered');
    });

    test.each([
      ['pending', null, 'failed'],
      ['assigned', joseph, 'failed'],
      ['picked_up', joseph, 'failed'],
      ['in_transit', joseph, 'failed'],
      ['failed', joseph, 'failed'],
      ['delivered', joseph, 'delivered'],
    ])('cancelled or refunded ends a delivery that is %s', async (status, rider, ended) => {
      for (const columns of [`status = 'cancelled'`, `payment_status = 'refunded'`]) {
        const order = await makePaidOrder();
        if (rider) await assign(order, rider);
        if (!['pending', 'assigned'].includes(status)) await move(order, status);
        await database.query(`update public.orders set ${columns} where id = $1`, [order]);
        expect(await deliveryOf(order), columns).toMatchObject({ delivery_status: ended });
      }
    });

    test('shipped without a rider waits in "to assign" until it has one, is delivered or fails', async () => {
      const [given, delivered, failed, back] = [
        await makePaidOrder(),
        await makePaidOrder(),
        await makePaidOrder(),
        await makePaidOrder(),
      ];
      for (const order of [given, delivered, failed, back]) {
        await setOrder(order, 'shipped');
        expect(await deliveryOf(order)).toMatchObject({ delivery_status: 'pending' });
      }
      await assign(given, joseph);
      expect(await deliveryOf(given)).toMatchObject({
        delivery_status: 'in_transit',
        delivery_person: 'Joseph Otieno',
      });
      expect(await statusOf(given)).toBe('shipped');
      await setOrder(delivered, 'delivered');
      expect(await deliveryOf(delivered)).toMatchObject({ delivery_status: 'delivered' });
      await move(failed, 'failed');
      expect(await statusOf(failed)).toBe('processing');
      await setOrder(back, 'processing');
      expect(await deliveryOf(back)).toMatchObject({ delivery_status: 'pending' });
    });

    test('cancelled cannot be assigned, with or without a delivery', async () => {
      for (const order of [await makePaidOrder(), await makeOrder()]) {
        await setOrder(order, 'cancelled');
        await expectRefusal(assign(order, joseph), 409, 'delivery_of_cancelled_order');
      }
    });

    test('and its delivery are locked in one order: concurrent changes do not deadlock', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      for (let round = 0; round < 5; round += 1) {
        const { updated_at } = await deliveryOf(order);
        const outcomes = await Promise.allSettled([
          move(order, 'picked_up'),
          assign(order, { ...kamau, delivery_notes: `${round}`, seen_updated_at: updated_at }),
          move(order, 'in_transit'),
          database.query('insert into public.deliveries (order_id) values ($1) on conflict do nothing', [
            order,
          ]),
          setOrder(order, round % 2 === 0 ? 'delivered' : 'processing'),
        ]);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') expect(outcome.reason.detail).toBe('delivery_changed');
        }
        const {
          rows: [beside],
        } = await database.query<{ is: string; wanted: string }>(
          `select d.delivery_status as is, private.delivery_status_for_order(o, d.delivery_status, d.delivery_person) as wanted
           from public.deliveries as d join public.orders as o on o.id = d.order_id where o.id = $1`,
          [order],
        );
        expect(beside?.is).toBe(beside?.wanted);
      }
    });

    // The embedded database runs one transaction after another.
    test.runIf(kind === 'postgresql').each([
      ['delivered', 'assigned', 'delivered'],
      ['delivered', 'picked_up', 'out_for_delivery'],
      ['shipped', 'failed', 'shipped'],
      ['cancelled', 'picked_up', 'cancelled'],
    ])(
      'that becomes %s while its delivery is set to %s ends as %s, and both agree',
      async (status, delivery, end) => {
        const order = await makePaidOrder();
        await assign(order, joseph);
        let moved: Promise<unknown> = Promise.resolve();
        await database.transaction(async (session) => {
          await session.query('select from public.orders where id = $1 for update', [order]);
          moved = move(order, delivery);
          await untilOneQueryWaits(database);
          await session.query('update public.orders set status = $2 where id = $1', [order, status]);
        });
        await moved;
        expect(await statusOf(order)).toBe(end);
        const {
          rows: [agree],
        } = await database.query(
          `select d.delivery_status from public.deliveries as d join public.orders as o on o.id = d.order_id
           where o.id = $1 and private.delivery_status_for_order(o, d.delivery_status, d.delivery_person) = d.delivery_status`,
          [order],
        );
        expect(agree).toBeDefined();
      },
    );

    test.runIf(kind === 'postgresql')('does not deadlock with a failing delivery', async () => {
      const order = await makePaidOrder();
      await assign(order, joseph);
      await move(order, 'picked_up');
      let moved: Promise<unknown> = Promise.resolve();
      await database.transaction(async (session) => {
        // Locks the order, then its delivery, as payments and reviews do.
        await session.query('select from public.orders where id = $1 for update', [order]);
        moved = move(order, 'failed').catch((error: unknown) => error);
        await untilOneQueryWaits(database);
        await session.query('insert into public.deliveries (order_id) values ($1) on conflict do nothing', [
          order,
        ]);
      });
      expect(await moved).not.toBeInstanceOf(Error);
      expect(await statusOf(order)).toBe('processing');
    });
  });

  test('only staff read or change deliveries', async () => {
    const order = await makePaidOrder();
    const seen = [];
    for (const person of everyone) {
      const found = await rows('select from public.deliveries where order_id = $1', [order], person).catch(
        () => [],
      );
      seen.push([person, found.length]);
    }
    expect(seen.filter(([, count]) => count === 1).map(([person]) => person)).toEqual(['staff', 'service']);
  });
});
