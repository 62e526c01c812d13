// Notices to staff: which events are one, what ends them, and which devices they are pushed to.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  type Caller,
  everyone,
  expectRefusal,
  initialStock,
  makeProduct,
  type PlacedOrder,
  people,
  personIds,
  secondStepPassed,
} from '../shop-database.ts';
import { failed, nairobiDay, newPhone, setUpShop } from '../steps.ts';

interface Waiting {
  kind: string;
  event_key: string;
  order_id: string | null;
  facts: Record<string, unknown>;
}
interface Leased {
  id: number;
  lease: string;
  endpoint: string;
  kind: string;
  order_id: string | null;
  seconds_to_live: number;
}

const allKinds = [
  'paid_order',
  'late_order',
  'failed_delivery',
  'cancel_request',
  'order_to_agree',
  'refund_to_approve',
  'inquiry',
  'low_stock',
];
const p256dh = `B${'a'.repeat(86)}`;
const auth_secret = 'b'.repeat(22);
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, asVisitor, queryAs, readRow, readColumn, readValue } = shop;
  const { place, pay, prompt, settle, receive, requestRefund, approveRefund, setStatus } = shop;
  let product: string;
  beforeEach(async () => {
    await database.execute(
      'delete from private.rate_limits; delete from public.notices; delete from public.push_subscriptions',
    );
    product = await makeProduct(database, 100);
  });

  const waitingFor = async (caller: Caller = 'staff') =>
    (await queryAs<Waiting>(caller, 'select * from public.waiting_notices()')).rows;
  const kindsFor = async (caller: Caller = 'staff') => (await waitingFor(caller)).map(({ kind }) => kind);
  /** A device of a member, with its endpoint. */
  const subscribe = async (name: string, by: Caller = 'staff', kinds = allKinds) => {
    const endpoint = `https://push.example/${name}`;
    await callAs<string>(by, 'save_push_subscription', {
      endpoint,
      p256dh,
      auth_secret,
      device: 'Chrome on Android',
      kinds,
    });
    return endpoint;
  };
  const lease = async () => (await queryAs<Leased>('service', 'select * from public.lease_pushes(100)')).rows;
  const finish = ({ id, lease }: Leased, outcome: string, retry_after_seconds: number | null = null) =>
    asService('finish_push', { push_id: id, lease, outcome, retry_after_seconds });
  const endpoints = () => readColumn('select endpoint from public.push_subscriptions order by endpoint');
  const moveOn = async ({ id }: PlacedOrder, expected_step: string, step: string, by: Caller = 'staff') =>
    callAs(by, 'move_on', {
      delivery_id: await readValue('select id from public.deliveries where order_id = $1', [id]),
      expected_step,
      step,
      ...(step === 'on_the_way'
        ? { delivery_person: 'Brian', delivery_phone: '0722000111', delivery_vehicle: 'Bike' }
        : {}),
    });
  const placePaid = async () => {
    const order = await place(product);
    await pay(order);
    return order;
  };
  const paidMinutesAgo = (order: PlacedOrder, minutes: number) =>
    database.query(
      `with moved as (update public.deliveries set created_at = $2 where order_id = $1)
       update public.orders set promised_at = $2::timestamptz + interval '1 hour' where id = $1`,
      [order.id, minutesAgo(minutes)],
    );
  const failDelivery = async (order: PlacedOrder, by: Caller = 'staff') => {
    await moveOn(order, 'prepare', 'on_the_way');
    await callAs(by, 'set_delivery_status', {
      delivery_id: await readValue('select id from public.deliveries where order_id = $1', [order.id]),
      status: 'failed',
      expected_status: 'picked_up',
      failure_reason: 'no_answer',
    });
  };

  describe('a paid order', () => {
    test('waits until someone takes it, and says what was ordered', async () => {
      expect(await waitingFor()).toEqual([]);
      const order = await placePaid();
      expect(await waitingFor()).toMatchObject([
        { kind: 'paid_order', order_id: order.id, facts: { items: [{ quantity: 1 }], city: 'Nairobi' } },
      ]);
      await moveOn(order, 'prepare', 'preparing', secondStepPassed);
      expect(await waitingFor()).toEqual([]);
      await moveOn(order, 'preparing', 'prepare', secondStepPassed);
      expect(await kindsFor(), 'given back').toEqual(['paid_order']);
      await setStatus(order, 'cancelled');
      expect(await waitingFor()).toEqual([]);
    });

    test.each([
      ['just now', 0, ['paid_order']],
      ['four minutes ago', 4, ['paid_order']],
      ['six minutes ago', 6, []],
      ['three days ago', 3 * 24 * 60, []],
    ])('is news only if the customer paid just now: %s', async (_, minutes, kinds) => {
      for (const source of ['confirmation', 'statement']) {
        await database.execute('delete from public.notices');
        const order = await place(product);
        const { outcome } = await receive(order, undefined, { source, transacted_at: minutesAgo(minutes) });
        expect(outcome).toBe('paid');
        expect(await kindsFor(), source).toEqual(kinds);
      }
    });

    test('is no news when the answer to its prompt was late', async () => {
      const order = await place(product);
      const attempt = await prompt(order);
      await database.query('update public.payments set created_at = $2 where id = $1', [
        attempt.id,
        minutesAgo(6),
      ]);
      await settle(attempt);
      expect(await readValue('select payment_status from public.orders where id = $1', [order.id])).toBe(
        'paid',
      );
      expect(await kindsFor()).toEqual([]);
    });

    test('is announced once, whatever follows', async () => {
      const order = await placePaid();
      await receive(order);
      await settle(await prompt(await place(product)), failed);
      expect(await kindsFor()).toEqual(['paid_order']);
    });

    test('that a member entered is announced to the others', async () => {
      await shop.confirm(await place(product));
      expect(await kindsFor('staff')).toEqual([]);
      expect(await kindsFor(secondStepPassed)).toEqual(['paid_order']);
    });
  });

  test('an order is late once, at the end of its promise, unless it was delivered', async () => {
    const [late, early, old, delivered] = await Promise.all([
      placePaid(),
      placePaid(),
      placePaid(),
      placePaid(),
    ]);
    await paidMinutesAgo(late, 61);
    await paidMinutesAgo(early, 59);
    await paidMinutesAgo(old, 121);
    await paidMinutesAgo(delivered, 61);
    await moveOn(delivered, 'prepare', 'on_the_way');
    await moveOn(delivered, 'on_the_way', 'delivered');
    const isDue = () => readValue<boolean>(`select private.is_job_due('send-notices')`);
    await asService('store_push_keys', { public_key: 'public', private_key: 'private' });
    expect(await isDue()).toBe(true);
    await lease();
    expect(await isDue()).toBe(false);
    await Promise.all([lease(), lease()]);
    const lateOnes = async () => (await waitingFor()).filter(({ kind }) => kind === 'late_order');
    expect(await lateOnes()).toMatchObject([{ order_id: late.id }]);
    await moveOn(late, 'prepare', 'preparing');
    expect(await lateOnes(), 'still late').toHaveLength(1);
    await moveOn(late, 'preparing', 'on_the_way');
    await moveOn(late, 'on_the_way', 'delivered');
    expect(await lateOnes()).toEqual([]);
  });

  test('a failed delivery is announced to the others at each failure, until it is sent again', async () => {
    const order = await placePaid();
    await failDelivery(order);
    expect(await kindsFor('staff')).toEqual([]);
    expect(await waitingFor(secondStepPassed)).toMatchObject([
      { kind: 'failed_delivery', event_key: `${order.id} 1`, facts: { failure_reason: 'no_answer' } },
    ]);
    await moveOn(order, 'failed', 'ready');
    expect(await kindsFor(secondStepPassed)).toEqual([]);
    await setStatus(order, 'cancelled');
    const cancelled = await placePaid();
    await setStatus(cancelled, 'cancelled');
    expect(await kindsFor(secondStepPassed), 'the delivery of a cancelled order').toEqual([]);
  });

  test('a refund waits for the other members until it is decided', async () => {
    await database.query('update public.store_settings set refund_approval_above = 100 where id');
    const order = await placePaid();
    await setStatus(order, 'cancelled');
    const payment = (await readRow('select * from public.payments where order_id = $1', [order.id])) as {
      id: string;
    };
    const refund = await requestRefund(payment);
    expect(await kindsFor('staff')).toEqual([]);
    expect(await waitingFor(secondStepPassed)).toMatchObject([
      { kind: 'refund_to_approve', event_key: refund.id, facts: { refund_cents: refund.refund_cents } },
    ]);
    await approveRefund(refund);
    expect(await kindsFor(secondStepPassed)).toEqual([]);
  });

  test('an inquiry waits until it is read; a flood of them is not announced', async () => {
    const write = (name: string) =>
      queryAs(
        'visitor',
        `insert into public.inquiries (name, email, message) values ($1, 'a@b.example', 'Habari')`,
        [name],
      );
    await write('Baraka');
    const [notice] = await waitingFor();
    expect(notice).toMatchObject({ kind: 'inquiry', facts: { name: 'Baraka' } });
    await asStaff('mark_inquiry_read', { inquiry_id: notice?.event_key });
    expect(await waitingFor()).toEqual([]);
    for (let index = 0; index < 25; index += 1) await write(`Visitor ${index}`);
    expect((await waitingFor()).length).toBeLessThanOrEqual(20);
    expect((await waitingFor()).length).toBeGreaterThan(10);
  });

  test('an order outside the promise waits until fee and day are agreed on; a flood of them is not announced', async () => {
    const outside = await readValue<string>(
      `select id from public.delivery_areas where name = 'Outside Nairobi'`,
    );
    const placeOutside = () =>
      place(product, { area_id: outside, customer_phone: newPhone(), expected_total: 95_000 });
    const order = await placeOutside();
    expect(await waitingFor()).toMatchObject([{ kind: 'order_to_agree', order_id: order.id }]);
    await asStaff('agree_delivery', { order_id: order.id, fee_cents: 50_000, delivery_day: nairobiDay() });
    expect(await kindsFor()).toEqual([]);
    const cancelled = await placeOutside();
    await setStatus(cancelled, 'cancelled');
    expect(await kindsFor()).toEqual([]);
    await place(product, { customer_phone: newPhone() });
    expect(await kindsFor(), 'with a promise').toEqual([]);
    await database.execute(`delete from private.rate_limits`);
    for (let n = 0; n < 25; n++) await placeOutside();
    expect((await kindsFor()).length).toBeLessThanOrEqual(20);
    expect((await kindsFor()).length).toBeGreaterThan(10);
  });

  describe('a low stock', () => {
    const low = async (caller: Caller = 'staff') =>
      (await waitingFor(caller)).filter(({ kind }) => kind === 'low_stock');
    const edit = (id: string, change: string, by: Caller = 'staff') =>
      queryAs(by, `update public.products set ${change} where id = $1`, [id]);
    const setStock = async (id: string, units: number, by?: Caller) => {
      await edit(id, `stock_quantity = ${units}`, by);
      initialStock(database).set(id, units);
    };
    const countNotices = () =>
      readValue<number>(`select count(*)::integer from public.notices where kind = 'low_stock'`);

    test('waits since the order that made it low, until there is enough again', async () => {
      const few = await makeProduct(database, 11);
      const name = await readValue('select name from public.products where id = $1', [few]);
      await place(few, { customer_phone: newPhone() });
      expect(await low(), 'ten are enough').toEqual([]);
      const order = await place(few, { customer_phone: newPhone() });
      expect(await low()).toMatchObject([{ order_id: null, facts: { product_name: name, units: 9 } }]);
      await place(few, { customer_phone: newPhone() });
      expect(await low()).toMatchObject([{ facts: { units: 8 } }]);
      await shop.expire(order);
      expect(await low(), 'still low').toHaveLength(1);
      await callAs('staff', 'change_stock', { product_id: few, by: 5 });
      initialStock(database).set(few, 16);
      expect(await low()).toEqual([]);
      expect(await countNotices()).toBe(1);
    });

    test('is announced once a day, however often units return', async () => {
      const few = await makeProduct(database, 10);
      for (let round = 0; round < 3; round += 1) {
        await shop.expire(await place(few, { customer_phone: newPhone() }));
        expect(await low()).toEqual([]);
      }
      await place(few, { customer_phone: newPhone() });
      expect(await low()).toHaveLength(1);
      expect(await countNotices()).toBe(1);
    });

    test('of an edit or a changed threshold is announced to the others', async () => {
      const edited = await makeProduct(database, 20);
      await setStock(edited, 4);
      expect(await low('staff')).toEqual([]);
      expect(await low(secondStepPassed)).toHaveLength(1);
      await setStock(edited, 20);
      expect(await low(secondStepPassed)).toEqual([]);
      const raised = await makeProduct(database, 20);
      await edit(raised, 'low_stock_below = 21');
      expect(await low('staff')).toEqual([]);
      expect(await low(secondStepPassed)).toMatchObject([{ facts: { units: 20 } }]);
      await edit(raised, 'low_stock_below = 0');
      expect(await low(secondStepPassed)).toEqual([]);
    });

    test('of an order is announced to the member who edited the stock before', async () => {
      const recounted = await makeProduct(database, 20);
      await setStock(recounted, 3);
      await setStock(recounted, 10);
      expect(await low('staff')).toEqual([]);
      await place(recounted, { customer_phone: newPhone() });
      expect(await low('staff')).toHaveLength(1);
    });

    test('of an inactive or deleted product waits no longer, and of a new one never', async () => {
      await makeProduct(database, 3);
      const hidden = await makeProduct(database, 20);
      await edit(hidden, 'is_active = false');
      await setStock(hidden, 2);
      await edit(hidden, 'is_active = true');
      expect(await countNotices()).toBe(0);
      await setStock(hidden, 20);
      await setStock(hidden, 2);
      const deleted = await makeProduct(database, 20);
      await setStock(deleted, 2);
      expect(await low(secondStepPassed)).toHaveLength(2);
      await edit(hidden, 'is_active = false');
      expect(await low(secondStepPassed)).toHaveLength(1);
      await queryAs('staff', 'delete from public.products where id = $1', [deleted]);
      expect(await low(secondStepPassed)).toEqual([]);
    });

    test('of many products at once is announced for twenty', async () => {
      for (let index = 0; index < 25; index += 1) await setStock(await makeProduct(database, 20), 1);
      expect(await countNotices()).toBe(20);
    });

    test('is pushed to devices that want it, not within the time of an undo, and only while it is low', async () => {
      await subscribe('own', 'staff', ['paid_order']);
      const other = await subscribe('other', secondStepPassed, ['low_stock']);
      const few = await makeProduct(database, 10);
      await place(few, { customer_phone: newPhone() });
      expect(await lease()).toEqual([]);
      const passUndo = () =>
        database.query(`update private.push_queue set due_at = due_at - private.undo_window() where true`);
      await passUndo();
      expect(await lease()).toMatchObject([{ kind: 'low_stock', endpoint: other, facts: { units: 9 } }]);
      await database.query('delete from private.push_queue where true');
      const corrected = await makeProduct(database, 10);
      await setStock(corrected, 1, 'staff');
      await setStock(corrected, 10, 'staff');
      await passUndo();
      expect(await lease()).toEqual([]);
    });

    test('is not for the counter, which sees no products', async () => {
      const few = await makeProduct(database, 10);
      await place(few, { customer_phone: newPhone() });
      expect(await low('staff')).toHaveLength(1);
      await database.query(`update public.admin_profiles set role = 'counter' where user_id = $1`, [
        personIds.staff,
      ]);
      expect(await low('staff')).toEqual([]);
      await database.query(`update public.admin_profiles set role = 'owner' where user_id = $1`, [
        personIds.staff,
      ]);
    });
  });

  test('only staff read what waits, and the public key', async () => {
    await placePaid();
    for (const person of everyone.filter((person) => person !== 'staff' && person !== 'service')) {
      await expect(waitingFor(person), person).rejects.toThrow();
      await expect(callAs(person, 'push_public_key'), person).rejects.toThrow();
    }
    expect(await kindsFor('staff')).toEqual(['paid_order']);
    await asService('store_push_keys', { public_key: 'public', private_key: 'private' });
    await asService('store_push_keys', { public_key: 'other', private_key: 'other' });
    expect(await asStaff('push_public_key'), 'the first process decides').toBe('public');
    await expect(asStaff('read_push_keys')).rejects.toThrow('permission denied');
    await expect(queryAs('staff', 'select * from private.push_keys')).rejects.toThrow('permission denied');
  });

  describe('a subscription', () => {
    test('is readable and removable by its member alone, without its keys', async () => {
      const own = await subscribe('own');
      const other = await subscribe('other', secondStepPassed);
      const seenBy = async (caller: Caller) =>
        (await queryAs<{ endpoint: string }>(caller, 'select endpoint from public.push_subscriptions')).rows;
      expect(await seenBy('staff')).toEqual([{ endpoint: own }]);
      expect(await seenBy('customer')).toEqual([]);
      await expect(queryAs('staff', 'select p256dh from public.push_subscriptions')).rejects.toThrow(
        'permission denied',
      );
      await queryAs('staff', `delete from public.push_subscriptions where endpoint <> ''`);
      expect(await endpoints()).toEqual([other]);
      for (const person of everyone.filter((person) => person !== 'staff'))
        await expect(subscribe('of another', person), person).rejects.toThrow();
    });

    test('moves to the member who signs in on the same browser', async () => {
      await subscribe('tablet');
      await subscribe('tablet', secondStepPassed, ['late_order']);
      expect(await readColumn('select user_id from public.push_subscriptions')).toEqual([
        secondStepPassed.sub,
      ]);
      expect(await readColumn('select kinds from public.push_subscriptions')).toEqual([['late_order']]);
    });

    test.each([
      ['http', { endpoint: 'http://push.example/1' }],
      ['without a path', { endpoint: 'https://push.example' }],
      ['with a user', { endpoint: 'https://user@push.example/1' }],
      ['too long', { endpoint: `https://push.example/${'x'.repeat(1000)}` }],
      ['with a short key', { p256dh: 'Baaa' }],
      ['with another key', { p256dh: `A${'a'.repeat(86)}` }],
      ['with a short secret', { auth_secret: 'b' }],
    ])('is refused %s', async (_, change) => {
      const given = {
        endpoint: 'https://push.example/1',
        p256dh,
        auth_secret,
        device: '\u200b',
        kinds: allKinds,
      };
      await expectRefusal(
        asStaff('save_push_subscription', { ...given, ...change }),
        400,
        'push_subscription_invalid',
      );
      await asStaff('save_push_subscription', given);
      expect(await readColumn('select device from public.push_subscriptions')).toEqual(['An unknown device']);
    });

    test('of an eleventh device is refused; one that is known is saved again', async () => {
      await Promise.all(
        Array.from({ length: 10 }, (_, index) => subscribe(`device ${index}`.replace(' ', '-'))),
      );
      await expectRefusal(subscribe('one-more'), 409, 'too_many_devices');
      await subscribe('device-3');
      await subscribe('of-another-member', secondStepPassed);
      expect(await endpoints()).toHaveLength(11);
    });

    test('ends with its session, and all end when the member is deactivated', async () => {
      const session = (digit: number) => `a0000000-0000-4000-8000-00000000000${digit}`;
      await database.query(
        `insert into auth.sessions (id, user_id, refresh_token_hmac_key) values ($1, $3, ''), ($2, $3, '')`,
        [session(1), session(2), personIds.staff],
      );
      const inSession = (digit: number) => ({ ...people.staff, session_id: session(digit) });
      await subscribe('first', inSession(1));
      await subscribe('second', inSession(2));
      await subscribe('other', secondStepPassed);
      await database.query('delete from auth.sessions where id = $1', [session(1)]);
      expect(await endpoints()).toEqual(['https://push.example/other', 'https://push.example/second']);
      await database.query('update public.admin_profiles set is_active = false where user_id = $1', [
        personIds.staff,
      ]);
      expect(await endpoints()).toEqual(['https://push.example/other']);
      await database.query('update public.admin_profiles set is_active = true where user_id = $1', [
        personIds.staff,
      ]);
    });
  });

  describe('a push', () => {
    test('goes to every device that wants its kind, except those of the member who caused it', async () => {
      const own = await subscribe('own');
      const other = await subscribe('other', secondStepPassed);
      await subscribe('inquiries-only', secondStepPassed, ['inquiry']);
      const order = await placePaid();
      expect((await lease()).map(({ endpoint }) => endpoint).sort()).toEqual([other, own]);
      expect(await lease(), 'leased for a minute').toEqual([]);
      await moveOn(order, 'prepare', 'preparing');
      await shop.confirm(await place(product));
      expect((await lease()).map(({ endpoint }) => endpoint)).toEqual([other]);
    });

    test('is leased again when its process ended, and then only reports its own outcome', async () => {
      await subscribe('own');
      await placePaid();
      const [first] = await lease();
      await database.query(`update private.push_queue set due_at = now() where due_at > now()`);
      const [second] = await lease();
      expect(second?.id).toBe(first?.id);
      await finish(first as Leased, 'gone');
      expect(await endpoints()).toHaveLength(1);
      await finish(second as Leased, 'sent');
      expect(await readColumn('select last_sent_at is not null from public.push_subscriptions')).toEqual([
        true,
      ]);
      await database.query(`update private.push_queue set due_at = now() where true`);
      expect(await lease()).toEqual([]);
    });

    test('is dropped when someone has taken the order, when it is old, and for a member without access', async () => {
      await subscribe('own');
      const taken = await placePaid();
      await moveOn(taken, 'prepare', 'preparing');
      expect(await lease()).toEqual([]);
      await placePaid();
      await database.query(`update public.notices set created_at = now() - interval '31 minutes' where true`);
      expect(await lease()).toEqual([]);
      await placePaid();
      await database.query(`update auth.users set banned_until = now() + interval '1 day' where id = $1`, [
        personIds.staff,
      ]);
      expect(await lease()).toEqual([]);
      await database.query(`update auth.users set banned_until = null where id = $1`, [personIds.staff]);
      await placePaid();
      expect(await lease()).toMatchObject([{ kind: 'paid_order' }]);
    });

    test('of a failed delivery waits as long as staff can undo the failure', async () => {
      await subscribe('other', secondStepPassed, ['failed_delivery']);
      await failDelivery(await placePaid());
      expect(await lease()).toEqual([]);
      await database.query(
        `update private.push_queue set due_at = due_at - private.undo_window() where true`,
      );
      expect(await lease()).toMatchObject([{ kind: 'failed_delivery' }]);
    });

    test('that is refused is retried later and later; one that failed is not; a device that is gone is deleted', async () => {
      await subscribe('own');
      await placePaid();
      const secondsUntilDue = () =>
        readValue<number>(
          `select round(extract(epoch from due_at - now()))::integer from private.push_queue`,
        );
      const waits: (number | undefined)[] = [];
      for (const retryAfter of [null, null, null, 90]) {
        await database.query(`update private.push_queue set due_at = now() where true`);
        const [push] = await lease();
        await finish(push as Leased, 'refused', retryAfter);
        waits.push(await secondsUntilDue());
      }
      expect(waits).toEqual([5, 10, 20, 90]);
      expect(await readColumn('select failures from public.push_subscriptions')).toEqual([4]);
      await database.query(`update private.push_queue set due_at = now() where true`);
      const [push] = await lease();
      await finish(push as Leased, 'failed');
      expect(await readValue('select count(*)::integer from private.push_queue')).toBe(0);
      expect(await endpoints()).toHaveLength(1);
      await placePaid();
      const [last] = await lease();
      expect(last?.seconds_to_live).toBeGreaterThan(29 * 60);
      expect(last?.seconds_to_live).toBeLessThanOrEqual(30 * 60);
      await finish(last as Leased, 'gone');
      expect(await endpoints()).toEqual([]);
      await expectRefusal(finish(last as Leased, 'other'), 400, 'outcome_unknown');
    });

    test('stops for a device that nothing reached for a week', async () => {
      await subscribe('own');
      await database.query(
        `update public.push_subscriptions set failures = 49, created_at = now() - interval '8 days' where true`,
      );
      await placePaid();
      const [push] = await lease();
      await finish(push as Leased, 'refused');
      expect(await endpoints()).toEqual([]);
    });
  });

  test('notices are forgotten after a week', async () => {
    await placePaid();
    await asService('forget_old_rows');
    expect(await kindsFor()).toEqual(['paid_order']);
    await database.query(`update public.notices set created_at = now() - interval '8 days' where true`);
    await asService('forget_old_rows');
    expect(await readValue('select count(*)::integer from public.notices')).toBe(0);
  });

  test('an order that cannot be announced is paid all the same', async () => {
    await database.execute('alter table public.notices add constraint broken check (false) not valid');
    const order = await placePaid();
    await database.execute('alter table public.notices drop constraint broken');
    expect(await readValue('select payment_status from public.orders where id = $1', [order.id])).toBe(
      'paid',
    );
    expect(await waitingFor()).toEqual([]);
    await asVisitor('track_order', { tracking_number: order.tracking_number });
  });
});
