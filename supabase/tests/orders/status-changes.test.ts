// Status changes by staff: unpaid orders require consent, refunded ones cannot be handed over, and a change can be undone for 15 seconds.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  expectRefusal,
  makeProduct,
  type Person,
  type PlacedOrder,
  people,
  secondStepPassed,
} from '../shop-database.ts';
import { newReceipt, setUpShop } from '../steps.ts';

interface Change {
  change_id: string;
  undo_seconds: number;
  notifies_customer: boolean;
}
interface State {
  status: string;
  money: string;
  delivery: string | null;
  pickup_time: string | null;
  delivery_time: string | null;
  stock: number;
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, queryAs, readRows, readRow, readColumn, place } = shop;
  const { setStatus, confirm, noteRefundByHand } = shop;
  let product: string;
  let order: PlacedOrder;
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits; delete from public.outbox_messages');
    product = await makeProduct(database, 5);
    order = await place(product);
  });

  async function payAtTill(received_cents = order.charge_cents): Promise<void> {
    await confirm(order, newReceipt(), { received_cents });
    // Payments entered by staff can be corrected first; these tests cover the steps after that.
    await database.query(
      `update private.outbox_queue as q set due_at = now() from public.outbox_messages as m
       where m.id = q.message_id and m.kind in ('order_paid', 'order_payment_held')`,
    );
  }
  const assignRider = () =>
    asStaff('assign_delivery', {
      order_id: order.id,
      delivery_person: 'Otieno',
      delivery_phone: '0722000111',
      delivery_vehicle: 'Motorbike',
    });
  async function refundByHand(): Promise<void> {
    const { payment } = await confirm(order);
    await setStatus(order, 'cancelled');
    await noteRefundByHand(payment);
  }
  const state = async () =>
    (await readRow<State>(
      `select o.status, o.payment_status as money, d.delivery_status as delivery, d.pickup_time, d.delivery_time,
              (select p.stock_quantity from public.products as p where p.id = $2) as stock
       from public.orders as o left join public.deliveries as d on d.order_id = o.id where o.id = $1`,
      [order.id, product],
    )) as State;
  /** Updates like the table service does. */
  const setDeliveryPlainly = (status: string) =>
    queryAs('staff', 'update public.deliveries set delivery_status = $2 where order_id = $1', [
      order.id,
      status,
    ]);
  async function set(status: string, given: Record<string, unknown> = {}, by: Person = 'staff') {
    const { status: expected_status, money } = await state();
    return callAs<Change>(by, 'set_order_status', {
      order_id: order.id,
      status,
      expected_status,
      expected_payment_status: money,
      ...given,
    });
  }
  async function setDelivery(status: string, given: Record<string, unknown> = {}, by: Person = 'staff') {
    const delivery = await readRow<{ id: string; delivery_status: string }>(
      'select id, delivery_status from public.deliveries where order_id = $1',
      [order.id],
    );
    return callAs<Change>(by, 'set_delivery_status', {
      delivery_id: delivery?.id,
      status,
      expected_status: delivery?.delivery_status,
      ...given,
    });
  }
  const undo = ({ change_id }: Change, by: Person = 'staff') =>
    callAs(by, 'undo_status_change', { change_id });
  /** `kind status seconds-until-due` of the messages about the status. */
  const messages = () =>
    readColumn(
      `select concat_ws(' ', m.kind, m.channel, m.status, round(extract(epoch from q.due_at - m.created_at))) as line
       from public.outbox_messages as m left join private.outbox_queue as q on q.message_id = m.id
       where m.order_id = $1 and m.kind in ('order_on_its_way', 'order_delivered') order by 1`,
      [order.id],
    );
  const timePasses = (seconds: number) =>
    database.execute(`
      update private.outbox_queue set due_at = due_at - interval '${seconds} seconds';
      update private.status_changes set undo_until = undo_until - interval '${seconds} seconds';
    `);
  interface Leased {
    id: string;
    lease: string;
    kind: string;
  }
  const leaseAll = async () =>
    (await queryAs<Leased>('service', 'select * from public.lease_messages(100)')).rows;
  const beginMessage = ({ id, lease }: Leased) =>
    asService<number | null>('begin_message', { message_id: id, lease, body: 'words', subject: null });
  /** Marks every due message as being sent, and returns their kinds. */
  async function leave(): Promise<string[]> {
    const left: string[] = [];
    for (const message of await leaseAll()) {
      if ((await beginMessage(message)) !== null) left.push(message.kind);
    }
    return left.sort();
  }
  const timeline = () =>
    readColumn(
      `select concat_ws(' ', kind, details ->> 'to', details ->> 'reason', details ->> 'although_unpaid') as line
       from public.order_events where order_id = $1 and kind in ('status_changed', 'delivery_status_changed') order by id`,
      [order.id],
    );

  describe('handing over', () => {
    test.each(['shipped', 'out_for_delivery', 'delivered'])(
      'refuses to set an unpaid order to %s without consent',
      async (status) => {
        await expectRefusal(setStatus(order, status), 409, 'order_unpaid');
        await expectRefusal(setStatus(order, status, 'service'), 409, 'order_unpaid');
        await expectRefusal(set(status), 409, 'order_unpaid');
        expect(await state()).toMatchObject({ status: 'pending' });
        await set(status, { although_unpaid: true });
        expect(await state()).toMatchObject({ status, money: 'unpaid' });
        expect((await timeline()).at(-1)).toBe(`status_changed ${status} true`);
      },
    );

    test('requires consent at each step, but not for a paid order', async () => {
      await set('shipped', { although_unpaid: true });
      await setStatus(order, 'out_for_delivery');
      await expectRefusal(set('delivered'), 409, 'order_unpaid');
      await payAtTill();
      await setStatus(order, 'delivered');
      expect(await state()).toMatchObject({ status: 'delivered', money: 'paid' });
    });

    test('allows other statuses for unpaid orders, and handing over in the statement that pays them', async () => {
      for (const status of ['processing', 'pending', 'cancelled', 'pending']) {
        await setStatus(order, status);
        expect(await state()).toMatchObject({ status });
      }
      await database.query(
        `update public.orders set status = 'delivered', payment_status = 'paid', reserved_until = null where id = $1`,
        [order.id],
      );
      expect(await state()).toMatchObject({ status: 'delivered' });
    });

    test('requires consent when the payment needs review', async () => {
      await payAtTill(100);
      expect(await state()).toMatchObject({ money: 'needs_review' });
      await expectRefusal(set('shipped'), 409, 'order_unpaid');
      await set('shipped', { although_unpaid: true });
    });

    test.each(['picked_up', 'in_transit', 'delivered'])(
      'refuses to set the delivery of an unpaid order to %s without consent',
      async (status) => {
        await assignRider();
        await expectRefusal(setDeliveryPlainly(status), 409, 'order_unpaid');
        await expectRefusal(setDelivery(status), 409, 'order_unpaid');
        expect(await state()).toMatchObject({ status: 'pending', delivery: 'assigned' });
        await setDelivery(status, { although_unpaid: true });
        expect(await state()).toMatchObject({ delivery: status, money: 'unpaid' });
      },
    );

    test.each(['shipped', 'out_for_delivery', 'delivered'])(
      'refuses to set a refunded order to %s, with consent too',
      async (status) => {
        await refundByHand();
        await expectRefusal(setStatus(order, status), 409, 'order_refunded');
        await expectRefusal(set(status, { although_unpaid: true }), 409, 'order_refunded');
        // Other statuses are allowed, and do not bypass the rule.
        await set('processing');
        await expectRefusal(set(status, { although_unpaid: true }), 409, 'order_refunded');
        await expectRefusal(setDelivery('delivered', { although_unpaid: true }), 409, 'order_refunded');
        await expectRefusal(setDeliveryPlainly('picked_up'), 409, 'order_refunded');
      },
    );

    test('applies the consent to one call only', async () => {
      await expect(
        asRole(database, people.staff, async (session) => {
          await session.query(
            `select public.set_order_status($1, 'shipped', 'pending', 'unpaid', although_unpaid => true)`,
            [order.id],
          );
          await session.query(`update public.orders set status = 'delivered' where id = $1`, [order.id]);
        }),
      ).rejects.toMatchObject({ detail: 'order_unpaid' });
    });
  });

  describe('a change', () => {
    test('is refused when the order, its payment or the delivery is not as expected', async () => {
      await set('processing');
      await expectRefusal(set('cancelled', { expected_status: 'pending' }), 409, 'order_changed');
      await expectRefusal(set('cancelled', { expected_payment_status: 'paid' }), 409, 'order_changed');
      await expectRefusal(set('cancelled', { expected_status: null }), 409, 'order_changed');
      await payAtTill();
      await assignRider();
      await expectRefusal(setDelivery('picked_up', { expected_status: 'pending' }), 409, 'delivery_changed');
      expect(await state()).toMatchObject({ status: 'processing', delivery: 'assigned' });
    });

    test('is for staff only, and for an existing order', async () => {
      await payAtTill();
      const change = await set('shipped');
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(set('pending', {}, person), 403, 'staff_only');
        await expectRefusal(setDelivery('failed', {}, person), 403, 'staff_only');
        await expectRefusal(undo(change, person), 403, 'staff_only');
      }
      await expect(set('pending', {}, 'visitor')).rejects.toMatchObject({ code: '42501' });
      await expectRefusal(set('pending', { order_id: product }), 404, 'order_not_found');
      await expectRefusal(setDelivery('failed', { delivery_id: product }), 404, 'delivery_not_found');
    });

    test('reports whether a message to the customer follows', async () => {
      await payAtTill();
      expect(await set('pending')).toMatchObject({ undo_seconds: 15, notifies_customer: false });
      expect(await set('shipped')).toMatchObject({ notifies_customer: true });
      expect(await setDelivery('delivered')).toMatchObject({ notifies_customer: true });
    });
  });

  describe('the message of a change', () => {
    test('is sent after 15 seconds, however the status was set', async () => {
      await payAtTill();
      await leave();
      await setStatus(order, 'shipped');
      expect(await messages()).toEqual([
        'order_on_its_way mail waiting 15',
        'order_on_its_way text waiting 15',
      ]);
      expect(await leave()).toEqual([]);
      await timePasses(15);
      expect(await leave()).toEqual(['order_on_its_way', 'order_on_its_way']);
      await setDelivery('delivered');
      expect(await leave()).toEqual([]);
      await timePasses(15);
      expect(await leave()).toEqual(['order_delivered', 'order_delivered']);
    });

    test('is not sent when the order has another status by then, and is sent once the status is set again', async () => {
      await payAtTill();
      await leave();
      await set('shipped');
      await set('processing');
      await timePasses(15);
      expect(await leave()).toEqual([]);
      expect(await messages()).toEqual([]);
      await set('shipped');
      await timePasses(15);
      expect(await leave()).toEqual(['order_on_its_way', 'order_on_its_way']);
    });

    test('reports the last of several steps only', async () => {
      await payAtTill();
      await leave();
      await set('shipped');
      await set('delivered');
      await timePasses(15);
      expect(await leave()).toEqual(['order_delivered', 'order_delivered']);
    });

    test('waits again when the status is set again before it was sent', async () => {
      await payAtTill();
      await leave();
      await set('shipped');
      await timePasses(15);
      const leased = (await leaseAll()).filter(({ kind: of }) => of === 'order_on_its_way');
      expect(leased).toHaveLength(2);
      await set('processing');
      await set('shipped');
      for (const message of leased) expect(await beginMessage(message)).toBeNull();
      expect(await leave()).toEqual([]);
      await timePasses(15);
      expect(await leave()).toEqual(['order_on_its_way', 'order_on_its_way']);
    });
  });

  describe('undo', () => {
    test('restores the order and its delivery, and withdraws the message', async () => {
      await payAtTill();
      await leave();
      const before = await state();
      const change = await set('delivered');
      expect(await state()).toMatchObject({ status: 'delivered', delivery: 'delivered' });
      await undo(change);
      expect(await state()).toEqual(before);
      expect(await messages()).toEqual([]);
      await timePasses(15);
      expect(await leave()).toEqual([]);
      expect((await timeline()).slice(-4)).toEqual([
        'status_changed delivered',
        'delivery_status_changed delivered',
        'delivery_status_changed pending undone',
        'status_changed processing undone',
      ]);
      await expectRefusal(undo(change), 409, 'undo_too_late');
    });

    test('restores a delivery and its times', async () => {
      await payAtTill();
      await assignRider();
      await setDelivery('picked_up');
      const onTheWay = await state();
      expect(onTheWay.pickup_time).not.toBeNull();
      await undo(await setDelivery('assigned'));
      expect(await state()).toEqual(onTheWay);
      await undo(await setDelivery('delivered'));
      expect(await state()).toEqual(onTheWay);
      await setDelivery('delivered');
      const delivered = await state();
      await undo(await setDelivery('failed'));
      expect(await state()).toEqual(delivered);
      await undo(await set('processing'));
      expect(await state()).toEqual(delivered);
      await undo(await set('cancelled'));
      expect(await state()).toEqual(delivered);
    });

    test('reserves the stock of a cancelled order again, and is rejected when it is sold out', async () => {
      await payAtTill();
      const before = await state();
      let change = await set('cancelled');
      expect(await state()).toMatchObject({ status: 'cancelled', delivery: 'failed', stock: 5 });
      await undo(change);
      expect(await state()).toEqual(before);

      change = await set('cancelled');
      await place(product, { quantity: 5 });
      await database.query('update public.products set stock_quantity = 0 where id = $1', [product]);
      await expectRefusal(undo(change), 409, 'units_sold');
      expect(await state()).toMatchObject({ status: 'cancelled', delivery: 'failed' });
    });

    test('restores an unpaid order that was handed over, without another consent', async () => {
      await set('delivered', { although_unpaid: true });
      await undo(await set('processing'));
      expect(await state()).toMatchObject({ status: 'delivered', money: 'unpaid' });
    });

    test('undoes several changes one after another, the last one first', async () => {
      await payAtTill();
      const before = await state();
      const shipped = await set('shipped');
      const delivered = await set('delivered');
      await expectRefusal(undo(shipped), 409, 'undo_overtaken');
      await undo(delivered);
      expect(await state()).toMatchObject({ status: 'shipped', delivery: 'pending' });
      expect(await messages()).toEqual([
        'order_on_its_way mail waiting 15',
        'order_on_its_way text waiting 15',
      ]);
      await undo(shipped);
      expect(await state()).toEqual(before);
      expect(await messages()).toEqual([]);
    });

    test('requeues the message of the restored status when a later one replaced it', async () => {
      await payAtTill();
      await leave();
      await set('shipped');
      await timePasses(10);
      const delivered = await set('delivered');
      await timePasses(5);
      expect(await leave()).toEqual([]);
      await undo(delivered);
      await timePasses(15);
      expect(await leave()).toEqual(['order_on_its_way', 'order_on_its_way']);
    });

    test.each([
      ['the order was set', () => set('pending', {}, 'service')],
      ['the delivery was set', () => setDelivery('delivered', {}, 'service')],
      ['the delivery was assigned', () => assignRider()],
      ['the payment changed', () => sendMoneyBackLater()],
    ])('is rejected when %s since', async (_, interfere) => {
      await payAtTill();
      const change = await set('shipped');
      await interfere();
      const then = await state();
      await expectRefusal(undo(change), 409, 'undo_overtaken');
      expect(await state()).toEqual(then);
    });
    const sendMoneyBackLater = () =>
      database.query(`update public.orders set payment_status = 'needs_review' where id = $1`, [order.id]);

    test('is rejected after 15 seconds, after the message was sent, and for other staff', async () => {
      await payAtTill();
      await leave();
      let change = await set('shipped');
      await expectRefusal(
        queryAs(secondStepPassed, 'select public.undo_status_change($1)', [change.change_id]),
        409,
        'undo_too_late',
      );
      await timePasses(15);
      await expectRefusal(undo(change), 409, 'undo_too_late');
      expect(await leave()).toHaveLength(2);
      expect(await state()).toMatchObject({ status: 'shipped' });

      change = await set('delivered');
      await database.execute('update private.outbox_queue set due_at = now()');
      expect(await leave()).toEqual(['order_delivered', 'order_delivered']);
      await expectRefusal(undo(change), 409, 'undo_after_message');
      expect(await state()).toMatchObject({ status: 'delivered' });
    });

    test('is not available for earlier changes once its time is over', async () => {
      await set('processing');
      await timePasses(16);
      await set('pending');
      expect(await readRows('select state_after from private.status_changes')).toMatchObject([
        { state_after: { status: 'pending' } },
      ]);
    });
  });

  test.runIf(kind === 'postgresql')('concurrent changes and undo end in one consistent state', async () => {
    await payAtTill();
    await assignRider();
    for (let round = 0; round < 5; round += 1) {
      await setStatus(order, 'processing');
      const change = await set('shipped');
      const ends = await Promise.allSettled([
        undo(change),
        setDelivery('delivered'),
        setDeliveryPlainly('picked_up'),
        set('delivered'),
        setStatus(order, 'processing'),
      ]);
      for (const end of ends) {
        if (end.status === 'rejected') {
          expect(['undo_overtaken', 'order_changed', 'delivery_changed']).toContain(end.reason.detail);
        }
      }
      const { rows } = await database.query(
        `select 1 from public.deliveries as d join public.orders as o on o.id = d.order_id
         where o.id = $1 and private.delivery_status_for_order(o, d.delivery_status, d.delivery_person) = d.delivery_status`,
        [order.id],
      );
      expect(rows).toHaveLength(1);
    }
  });
});
