// The queue of paid orders: one step on, by whom, and back.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  type Caller,
  everyone,
  expectRefusal,
  makeProduct,
  type PlacedOrder,
  secondStepPassed,
} from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Delivery {
  id: string;
  delivery_status: string;
  delivery_person: string | null;
  taken_by: string | null;
  is_packed: boolean;
  step: string | null;
  order_status: string;
}
interface Change {
  change_id: string;
  undo_seconds: number;
  notifies_customer: boolean;
}
const rider = { delivery_person: 'Brian', delivery_phone: '0722000111', delivery_vehicle: 'Motorbike' };

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const {
    database,
    callAs,
    asStaff,
    queryAs,
    readRow,
    readColumn,
    readValue,
    place,
    pay,
    setStatus,
    handOver,
    eventsOf,
  } = shop;
  let product: string;
  let order: PlacedOrder;
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits');
    product = await makeProduct(database, 20);
    order = await place(product);
    await pay(order);
  });

  const read = async ({ id } = order) =>
    (await readRow(
      `select d.id, d.delivery_status, d.delivery_person, d.taken_by, d.ready_at is not null as is_packed,
         private.work_step(o, d) as step, o.status as order_status
       from public.deliveries as d join public.orders as o on o.id = d.order_id where o.id = $1`,
      [id],
    )) as unknown as Delivery;
  const moveOn = async (step: string, given: Record<string, unknown> = {}, by: Caller = 'staff') => {
    const { id, step: expected_step } = await read();
    return callAs<Change>(by, 'move_on', { delivery_id: id, expected_step, step, ...given });
  };
  const undo = ({ change_id }: Change) => asStaff('undo_status_change', { change_id });
  const queue = async () =>
    (await queryAs<{ order_id: string }>('staff', 'select order_id from public.work_queue()')).rows.map(
      ({ order_id }) => order_id,
    );

  test('four steps lead from paid to delivered', async () => {
    expect(await read()).toMatchObject({ step: 'prepare', taken_by: null, is_packed: false });
    await moveOn('preparing');
    expect(await read()).toMatchObject({
      step: 'preparing',
      taken_by: 'staff@jani.example',
      is_packed: false,
    });
    await moveOn('ready');
    expect(await read()).toMatchObject({ step: 'ready', is_packed: true, order_status: 'processing' });
    expect(await moveOn('on_the_way', rider)).toMatchObject({ notifies_customer: true });
    expect(await read()).toMatchObject({
      step: 'on_the_way',
      delivery_status: 'picked_up',
      delivery_person: 'Brian',
      order_status: 'out_for_delivery',
    });
    await moveOn('delivered');
    expect(await read()).toMatchObject({
      step: null,
      delivery_status: 'delivered',
      order_status: 'delivered',
    });
    expect((await eventsOf(order)).slice(-7)).toEqual([
      'staff delivery_taken',
      'staff delivery_ready',
      'staff delivery_assigned',
      'staff delivery_status_changed',
      'staff status_changed',
      'staff delivery_status_changed',
      'staff status_changed',
    ]);
  });

  test.each([
    ['preparing', {}],
    ['ready', {}],
    ['on_the_way', rider],
    ['delivered', {}],
  ])('%s can be undone whole', async (step, given) => {
    const before = await read();
    const change = await moveOn(step, given);
    expect(await read()).not.toEqual(before);
    await undo(change);
    expect(await read()).toEqual(before);
  });

  test('an order that is packed without being taken belongs to the member who packed it', async () => {
    await moveOn('ready', {}, secondStepPassed);
    expect(await read()).toMatchObject({ step: 'ready', taken_by: 'careful@jani.example' });
    await moveOn('on_the_way', rider);
    expect(await read()).toMatchObject({ taken_by: 'careful@jani.example' });
  });

  test('an order is given back, and taken over from a colleague', async () => {
    await moveOn('preparing', {}, secondStepPassed);
    await moveOn('preparing');
    expect(await read()).toMatchObject({ step: 'preparing', taken_by: 'staff@jani.example' });
    await moveOn('ready');
    await moveOn('prepare');
    expect(await read()).toMatchObject({ step: 'prepare', taken_by: null, is_packed: false });
    expect(
      await readColumn(
        `select concat_ws(' ', kind, details ->> 'person', details ->> 'instead_of') from public.order_events
         where order_id = $1 and kind in ('delivery_taken', 'delivery_ready', 'delivery_unpacked') order by id`,
        [order.id],
      ),
    ).toEqual([
      'delivery_taken careful@jani.example',
      'delivery_taken staff@jani.example careful@jani.example',
      'delivery_ready',
      'delivery_taken staff@jani.example',
      'delivery_unpacked',
    ]);
  });

  test('of two members who take one order, the second is told', async () => {
    const { id } = await read();
    const take = (by: Caller) =>
      callAs(by, 'move_on', { delivery_id: id, expected_step: 'prepare', step: 'preparing' });
    await take(secondStepPassed);
    await expectRefusal(take('staff'), 409, 'delivery_changed');
    expect(await read()).toMatchObject({ taken_by: 'careful@jani.example' });
  });

  test('a rider who was assigned in the meantime keeps the delivery', async () => {
    await asStaff('assign_delivery', { order_id: order.id, ...rider });
    await expectRefusal(
      moveOn('on_the_way', { ...rider, delivery_person: 'Otieno' }),
      409,
      'delivery_already_assigned',
    );
    await moveOn('on_the_way');
    expect(await read()).toMatchObject({ step: 'on_the_way', delivery_person: 'Brian' });
  });

  test.each([
    [{}, 'delivery_person_missing'],
    [{ delivery_person: 'Brian' }, 'delivery_phone_missing'],
    [{ delivery_person: 'Brian', delivery_phone: '0722000111' }, 'delivery_vehicle_missing'],
    [{ ...rider, delivery_person: 'B'.repeat(121) }, 'delivery_too_long'],
  ])('nobody leaves the shop without a rider: %j', async (given, code) => {
    await expectRefusal(moveOn('on_the_way', given), 400, code);
    expect(await read()).toMatchObject({ step: 'prepare', delivery_person: null });
  });

  describe('a delivery that fails', () => {
    const fail = async (failure_reason: string | null = 'nobody_there') => {
      const { id, delivery_status } = await read();
      return asStaff<Change>('set_delivery_status', {
        delivery_id: id,
        status: 'failed',
        expected_status: delivery_status,
        failure_reason,
      });
    };
    const failure = () =>
      readRow('select failure_reason, failures from public.deliveries where order_id = $1', [order.id]);
    /** `kind key` of the texts about the way of the order. */
    const texts = () =>
      readColumn(
        `select kind || ' ' || event_key from public.outbox_messages
         where order_id = $1 and channel = 'text' and kind in ('order_on_its_way', 'delivery_failed') order by created_at, kind`,
        [order.id],
      );
    const letMessagesLeave = () =>
      database.query(`update public.outbox_messages set attempts = 1 where order_id = $1`, [order.id]);

    test('is sent again, packed already, and each try is reported', async () => {
      await moveOn('on_the_way', rider);
      await letMessagesLeave();
      expect(await fail()).toMatchObject({ notifies_customer: true });
      expect(await read()).toMatchObject({ step: 'failed', order_status: 'processing' });
      expect(await failure()).toEqual({ failure_reason: 'nobody_there', failures: 1 });
      await letMessagesLeave();
      await moveOn('ready');
      expect(await read()).toMatchObject({
        step: 'ready',
        delivery_status: 'assigned',
        delivery_person: 'Brian',
      });
      expect(await failure()).toEqual({ failure_reason: null, failures: 1 });
      await moveOn('on_the_way');
      await letMessagesLeave();
      await fail('no_answer');
      expect(await failure()).toEqual({ failure_reason: 'no_answer', failures: 2 });
      expect(await texts()).toEqual([
        'order_on_its_way ',
        'delivery_failed 1',
        'order_on_its_way 1',
        'delivery_failed 2',
      ]);
      expect(
        await readColumn(
          `select details ->> 'failure' from public.order_events
           where order_id = $1 and details ->> 'to' = 'failed' order by id`,
          [order.id],
        ),
      ).toEqual(['nobody_there', 'no_answer']);
    });

    test('and is undone has not failed, and nobody is told twice that it is on its way', async () => {
      await moveOn('on_the_way', rider);
      await letMessagesLeave();
      await undo(await fail());
      expect(await read()).toMatchObject({ step: 'on_the_way', order_status: 'out_for_delivery' });
      expect(await failure()).toEqual({ failure_reason: null, failures: 0 });
      expect(await texts()).toEqual(['order_on_its_way ']);
    });

    test('without a reason, or before it left, tells the customer nothing', async () => {
      await asStaff('assign_delivery', { order_id: order.id, ...rider });
      await fail(null);
      expect(await failure()).toEqual({ failure_reason: null, failures: 0 });
      await moveOn('ready');
      await moveOn('on_the_way');
      await fail(null);
      expect(await failure()).toEqual({ failure_reason: null, failures: 1 });
      expect(await texts()).not.toContain('delivery_failed 1');
    });

    test('is counted on its day, each try once, and not after an undo', async () => {
      const failures = async () =>
        (
          await queryAs<{ failed_deliveries: string }>('staff', 'select * from public.daily_figures(2)')
        ).rows.map(({ failed_deliveries }) => Number(failed_deliveries));
      const [yesterday, today = 0] = await failures();
      await moveOn('on_the_way', rider);
      await undo(await fail());
      expect(await failures()).toEqual([yesterday, today]);
      await fail();
      await moveOn('ready');
      await moveOn('on_the_way');
      expect(await failures()).toEqual([yesterday, today + 1]);
      await fail();
      expect(await failures()).toEqual([yesterday, today + 2]);
      await database.query('delete from public.deliveries where order_id = $1', [order.id]);
      expect(await failures()).toEqual([yesterday, today + 2]);
    });

    test('is late like its order', async () => {
      await moveOn('on_the_way', rider);
      await fail();
      const counts = async () => [
        await asStaff<number>('count_orders', { due: 'late' }),
        await asStaff<number>('count_deliveries', { due: 'late' }),
      ];
      const before = await counts();
      await database.query(
        `update public.orders set promised_at = now() - interval '1 minute' where id = $1`,
        [order.id],
      );
      expect(await counts()).toEqual(before.map((count) => count + 1));
    });

    test('of an unpaid order tells the customer nothing about a payment', async () => {
      const unpaid = await place(product);
      await asStaff('assign_delivery', { order_id: unpaid.id, ...rider });
      await handOver(unpaid, 'shipped');
      const { id, delivery_status } = await read(unpaid);
      await asStaff('set_delivery_status', {
        delivery_id: id,
        status: 'failed',
        expected_status: delivery_status,
        failure_reason: 'damaged',
      });
      expect(
        await readColumn(
          `select kind from public.outbox_messages where order_id = $1 and kind = 'delivery_failed'`,
          [unpaid.id],
        ),
      ).toEqual([]);
    });

    test('because its order is cancelled is no failed try', async () => {
      await moveOn('on_the_way', rider);
      await setStatus(order, 'cancelled');
      expect(await read()).toMatchObject({ delivery_status: 'failed', step: null });
      expect(await failure()).toEqual({ failure_reason: null, failures: 0 });
    });

    test('has a reason that is known', async () => {
      await moveOn('on_the_way', rider);
      await expect(fail('aliens')).rejects.toMatchObject({ code: '23514' });
      expect(await read()).toMatchObject({ step: 'on_the_way' });
    });

    test('is told with its reason, until the order leaves again', async () => {
      const facts = () =>
        readValue<{ failure: string | null }>(`select private.message_facts($1, 'delivery_failed', '1')`, [
          order.id,
        ]);
      const isTrue = () =>
        readValue<boolean>(`select private.is_message_true($1, 'delivery_failed')`, [order.id]);
      await moveOn('on_the_way', rider);
      expect(await isTrue()).toBe(false);
      await fail('damaged');
      expect(await isTrue()).toBe(true);
      expect(await facts()).toMatchObject({
        failure: 'damaged',
        payment: { charge_cents: order.charge_cents },
      });
      await moveOn('ready');
      expect(await isTrue()).toBe(false);
    });
  });

  test('a status that is set elsewhere moves the order in the queue, too', async () => {
    await setStatus(order, 'shipped');
    expect(await read()).toMatchObject({ step: 'on_the_way', delivery_status: 'pending', is_packed: false });
    await setStatus(order, 'delivered');
    expect(await read()).toMatchObject({ step: null, is_packed: true });
  });

  test.each(['cancelled', 'delivered'])('an order that is %s is moved by nobody', async (status) => {
    await setStatus(order, status);
    const { id } = await read();
    await expectRefusal(
      asStaff('move_on', { delivery_id: id, expected_step: 'prepare', step: 'preparing' }),
      409,
      'delivery_changed',
    );
  });

  test('an order is due from its payment, also with a rider who was assigned before', async () => {
    const early = await place(product);
    await asStaff('assign_delivery', { order_id: early.id, ...rider });
    await database.query(
      `update public.deliveries set created_at = now() - interval '2 hours' where order_id = $1`,
      [early.id],
    );
    await pay(early);
    expect(
      await readValue<boolean>(
        `select created_at > now() - interval '1 minute' from public.deliveries where order_id = $1`,
        [early.id],
      ),
    ).toBe(true);
    expect(await read(early)).toMatchObject({ step: 'prepare', delivery_person: 'Brian' });
  });

  test('a step that does not exist is refused', async () => {
    await expectRefusal(moveOn('eaten'), 400, 'step_unknown');
  });

  test('the queue has open paid orders, the earliest payment first', async () => {
    await database.execute('delete from public.deliveries');
    const [first, second, unpaid, done] = [
      await place(product),
      await place(product),
      await place(product),
      await place(product),
    ];
    await pay(second);
    await pay(first);
    await pay(done);
    await setStatus(done, 'delivered');
    expect(await queue()).toEqual([second.id, first.id]);
    expect(await queue()).not.toContain(unpaid.id);
    await setStatus(second, 'cancelled');
    expect(await queue()).toEqual([first.id]);
  });

  test('is for staff only', async () => {
    const { id } = await read();
    const outsiders = everyone.filter((person) => person !== 'staff' && person !== 'service');
    for (const person of outsiders) {
      const given = { delivery_id: id, expected_step: 'prepare', step: 'preparing' };
      const refused = { code: expect.stringMatching(/^(PT403|42501)$/) };
      await expect(callAs(person, 'move_on', given)).rejects.toMatchObject(refused);
      await expect(queryAs(person, 'select from public.work_queue()')).rejects.toMatchObject(refused);
    }
    expect(await read()).toMatchObject({ step: 'prepare' });
    expect(await queue()).toContain(order.id);
  });
});
