// What the roles of staff mean beyond tables and procedures, which supabase/tests/database/policies.test.ts goes over.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { type Caller, expectRefusal, makeProduct, orderForm, type PlacedOrder } from '../shop-database.ts';
import { newPhone, newReceipt, type Refund, setUpShop } from '../steps.ts';

/** Price in cents: one unit is below the limit of KES 1,000, two are above it. */
const cheap = 95_100;

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, queryAs, readColumn, readValue, place, pay, setStatus } = shop;
  const { requestRefund, approveRefund, noteRefundByHand } = shop;
  let product: string;
  beforeEach(async () => {
    await database.execute('delete from private.rate_limits; delete from public.notices');
    product = await makeProduct(database, 100);
  });

  const cancelledAndPaid = async (quantity: number) => {
    const order = await place(product, { quantity });
    const { payment } = await pay(order);
    await setStatus(order, 'cancelled');
    return { order, payment };
  };
  const paidInCash = async (quantity: number) => {
    const order = await place(product, { quantity });
    await asStaff('agree_cash', { order_id: order.id });
    const payment = await asStaff<{ id: string; charge_cents: number }>('receive_cash', {
      order_id: order.id,
      received_cents: order.charge_cents,
    });
    await setStatus(order, 'cancelled');
    return payment;
  };
  const kindsFor = async (caller: Caller) =>
    (await queryAs<{ kind: string }>(caller, 'select kind from public.waiting_notices()')).rows
      .map(({ kind }) => kind)
      .sort();

  describe('a refund', () => {
    test('of a staff member goes out at once up to the limit, and above it waits for an owner', async () => {
      const small = await requestRefund((await cancelledAndPaid(1)).payment, { by: 'assistant' });
      expect(small).toMatchObject({ refund_cents: cheap, status: 'approved' });
      const large = await requestRefund((await cancelledAndPaid(2)).payment, { by: 'assistant' });
      expect(large.status).toBe('requested');
      await expectRefusal(approveRefund(large, 'assistant'), 403, 'not_in_role');
      expect(await approveRefund(large, 'staff')).toMatchObject({ status: 'approved' });
    });

    test('is announced to those who may approve it', async () => {
      const refund = await requestRefund((await cancelledAndPaid(2)).payment, { by: 'assistant' });
      expect(
        await readColumn(`select recipient from public.outbox_messages where event_key = $1 order by 1`, [
          refund.id,
        ]),
      ).toEqual(['careful@jani.example', 'staff@jani.example']);
      expect(await kindsFor('staff')).toEqual(['refund_to_approve']);
      expect(await kindsFor('assistant')).toEqual([]);
    });

    test('by hand or in cash, which no one approves, is noted above the limit by owners only', async () => {
      const small = await cancelledAndPaid(1);
      const large = await cancelledAndPaid(2);
      expect(await noteRefundByHand(small.payment, newReceipt(), 'assistant')).toMatchObject({
        status: 'completed',
      });
      await expectRefusal(
        noteRefundByHand(large.payment, newReceipt(), 'assistant'),
        403,
        'above_refund_limit',
      );
      expect(await noteRefundByHand(large.payment, newReceipt())).toMatchObject({ status: 'completed' });

      const giveBack = ({ id }: { id: string }, by: Caller) =>
        callAs<Refund>(by, 'give_back_cash', { payment_id: id, reason: 'Not at home' });
      const largeCash = await paidInCash(2);
      expect(await giveBack(await paidInCash(1), 'assistant')).toMatchObject({ status: 'completed' });
      await expectRefusal(giveBack(largeCash, 'assistant'), 403, 'above_refund_limit');
      await expectRefusal(giveBack(largeCash, 'counter'), 403, 'not_in_role');
      expect(await giveBack(largeCash, 'staff')).toMatchObject({ status: 'completed' });
    });

    test('in parts counts as one: an owner notes the part that goes above the limit', async () => {
      const order = await place(product, { quantity: 2 });
      const { payment } = await pay(order);
      const refundPart = (by: Caller) =>
        callAs<{ amount_cents: number }>(by, 'refund_part', {
          payment_id: payment.id,
          amount_cents: 60_000,
          way: 'cash',
          reason: 'A drink was missing',
        });
      await expectRefusal(refundPart('counter'), 403, 'not_in_role');
      expect(await refundPart('assistant')).toMatchObject({ amount_cents: 60_000 });
      await expectRefusal(refundPart('assistant'), 403, 'above_refund_limit');
      await setStatus(order, 'cancelled');
      await expectRefusal(noteRefundByHand(payment, newReceipt(), 'assistant'), 403, 'above_refund_limit');
      expect(await noteRefundByHand(payment, newReceipt())).toMatchObject({ status: 'completed' });
    });

    test('of change is limited, too, and what is only owed is not', async () => {
      const { payment } = await pay(await place(product, { quantity: 2 }));
      const note = (by: Caller, kind: string, cents: number) =>
        callAs<{ kind: string }>(by, 'note_change', { payment_id: payment.id, kind, amount_cents: cents });
      await expectRefusal(note('counter', 'credit', 150_000), 403, 'not_in_role');
      expect(await note('assistant', 'to_return', 150_000)).toMatchObject({ kind: 'to_return' });
      expect(await note('assistant', 'returned', 60_000)).toMatchObject({ kind: 'returned' });
      await expectRefusal(note('assistant', 'returned', 60_000), 403, 'above_refund_limit');
      expect(await note('staff', 'returned', 60_000)).toMatchObject({ kind: 'returned' });
    });
  });

  describe('the counter', () => {
    test('takes an order from paid to delivered, and cash at the door', async () => {
      const order = await place(product);
      await asStaff('agree_cash', { order_id: order.id });
      const delivery = await readValue<string>('select id from public.deliveries where order_id = $1', [
        order.id,
      ]);
      const moveOn = (expected_step: string, step: string) =>
        callAs('counter', 'move_on', {
          delivery_id: delivery,
          expected_step,
          step,
          ...(step === 'on_the_way'
            ? { delivery_person: 'Brian', delivery_phone: '0722000111', delivery_vehicle: 'Bike' }
            : {}),
        });
      await moveOn('prepare', 'ready');
      await moveOn('ready', 'on_the_way');
      await moveOn('on_the_way', 'delivered');
      const received = await callAs('counter', 'receive_cash', {
        order_id: order.id,
        received_cents: order.charge_cents,
      });
      expect(received).toMatchObject({ method: 'cash', status: 'completed' });
      const { rows } = await queryAs<{ status: string; payments: number; items: number }>(
        'counter',
        `select o.status, (select count(*)::integer from public.payments as p where p.order_id = o.id) as payments,
                (select count(*)::integer from public.order_items as i where i.order_id = o.id) as items
         from public.orders as o where o.id = '${order.id}'`,
      );
      expect(rows).toEqual([{ status: 'delivered', payments: 1, items: 1 }]);
    });

    test('uses the credit of a customer and takes its own mistake back, and sees no list of credits', async () => {
      const phone = newPhone();
      const { payment } = await pay(await place(product, { customer_phone: phone, quantity: 2 }));
      await asStaff('note_change', { payment_id: payment.id, kind: 'credit', amount_cents: cheap });
      const order = await place(product, { customer_phone: phone });
      expect(await callAs<unknown[]>('counter', 'credit_for_order', { order_id: order.id })).toBeTruthy();
      const used = await callAs<{ id: string; method: string }>('counter', 'use_credit', {
        order_id: order.id,
      });
      expect(used).toMatchObject({ method: 'credit', status: 'completed', charge_cents: cheap });
      await callAs('counter', 'take_back_credit', { payment_id: used.id, reason: 'Wrong customer' });
      await callAs('counter', 'use_credit', { order_id: order.id });
      await expectRefusal(callAs('counter', 'kept_for_customers', {}), 403, 'not_in_role');
      const { rows } = await queryAs(
        'counter',
        `select id from public.change_notes where payment_id = '${payment.id}'`,
      );
      expect(rows).toHaveLength(4);
    });

    test('pays no order under review from credit: that is a decision about the order', async () => {
      const phone = newPhone();
      const { payment } = await pay(await place(product, { customer_phone: phone, quantity: 2 }));
      await asStaff('note_change', { payment_id: payment.id, kind: 'credit', amount_cents: cheap });
      const order = await place(product, { customer_phone: phone });
      await database.query(`update public.orders set payment_status = 'needs_review' where id = $1`, [
        order.id,
      ]);
      const use = (by: Caller) => callAs<{ method: string }>(by, 'use_credit', { order_id: order.id });
      await expectRefusal(use('counter'), 403, 'not_in_role');
      expect(await use('assistant')).toMatchObject({ method: 'credit' });
    });

    test('guesses discount codes within the limit of visitors, and reads none', async () => {
      await database.query(`insert into public.discount_codes (code, percent) values ('ROLES10', 10)`);
      const read = async (by: Caller) =>
        (await queryAs(by, `select from public.discount_codes where code = 'ROLES10'`)).rowCount;
      expect([await read('counter'), await read('assistant')]).toEqual([0, 1]);
      const countGuesses = async (by: Caller) => {
        await database.execute('delete from private.rate_limits');
        await callAs(by, 'check_discount_code', { code: 'NO-SUCH-CODE' }, '192.0.2.1').catch(() => {});
        return readValue<number>('select count(*)::integer from private.rate_limits');
      };
      expect(await countGuesses('assistant')).toBe(0);
      expect(await countGuesses('counter')).toBeGreaterThan(0);
    });

    test('neither cancels an order nor enters one as the shop', async () => {
      const order = await place(product);
      await expectRefusal(
        callAs('counter', 'set_order_status', {
          order_id: order.id,
          status: 'cancelled',
          expected_status: 'pending',
          expected_payment_status: 'unpaid',
        }),
        403,
        'not_in_role',
      );
      const { rows } = await queryAs(
        'counter',
        `update public.orders set status = 'cancelled' where id = '${order.id}' returning id`,
      );
      expect(rows).toEqual([]);
      const enter = (by: Caller) =>
        callAs<PlacedOrder>(by, 'place_order', {
          ...orderForm(product),
          idempotency_key: randomUUID(),
          source: 'walk_in',
        });
      await expectRefusal(enter('counter'), 403, 'staff_only');
      expect((await enter('assistant')).status).toBe('pending');
    });

    test('moves no delivery to another order, which would be without it', async () => {
      const [paid, unpaid] = [await place(product), await place(product)];
      await pay(paid);
      for (const caller of ['counter', 'assistant', 'staff'] as const) {
        const change = (set: string) =>
          queryAs(caller, `update public.deliveries set ${set} where order_id = '${paid.id}'`);
        await expect(change(`order_id = '${unpaid.id}'`)).rejects.toMatchObject({ code: '42501' });
        expect(await change(`delivery_notes = 'At the gate'`)).toMatchObject({ rowCount: 1 });
      }
    });

    test('gets the notices of Today, and none of inquiries', async () => {
      await database.query(
        `insert into public.inquiries (name, email, message) values ('Amina', 'a@b.example', 'Hello')`,
      );
      await pay(await place(product));
      expect(await kindsFor('counter')).toEqual(['paid_order']);
      expect(await kindsFor('assistant')).toEqual(['inquiry', 'paid_order']);
      const subscribe = (by: Caller) =>
        callAs(by, 'save_push_subscription', {
          endpoint: `https://push.example/${by}`,
          p256dh: `B${'a'.repeat(86)}`,
          auth_secret: 'b'.repeat(22),
          device: 'Tablet',
          kinds: ['inquiry', 'paid_order'],
        });
      await subscribe('counter');
      await subscribe('assistant');
      await database.query(
        `insert into public.inquiries (name, email, message) values ('Brian', 'b@b.example', 'Hello')`,
      );
      const { rows } = await queryAs<{ endpoint: string }>(
        'service',
        'select * from public.lease_pushes(100)',
      );
      expect(rows.map(({ endpoint }) => endpoint)).toEqual(['https://push.example/assistant']);
    });
  });
});
