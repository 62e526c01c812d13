// Customers by their phone: the list, the page of one, notes of staff, and blocked phones.
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import { type Caller, expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { newPhone, newReceipt, type Payment, setUpShop } from '../steps.ts';

interface Customer {
  id: string;
  created_at: Date;
  phone: string;
  name: string;
  orders: number;
  spent_cents: number;
  credit_cents: number;
  is_blocked: boolean;
}
interface Page extends Customer {
  notes: string | null;
  notes_at: string | null;
  notes_by: string | null;
  cancelled: number;
  email: string | null;
  block_reason: string | null;
  blocked_by: string | null;
}

describe.each(testDatabases())('on %s', (kind) => {
  const {
    database,
    asStaff,
    asVisitor,
    callAs,
    queryAs,
    rowsAs,
    readValue,
    place,
    pay,
    receive,
    setStatus,
    handOver,
  } = setUpShop(kind);
  afterEach(() => expectBalancedBooks(database));
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
  });

  const charge = 95_100;
  const stored = (phone: string) => `+254${phone.slice(1)}`;
  const list = async (given: Record<string, unknown> = {}, by: Caller = 'staff') => {
    const rows = await rowsAs<Customer>(by, 'list_customers', given);
    return rows.map((row) => ({
      ...row,
      spent_cents: Number(row.spent_cents),
      credit_cents: Number(row.credit_cents),
    }));
  };
  const page = async (phone: string) => asStaff<Page>('customer_page', { phone });
  const note = (phone: string, notes: string, seen_at: string | null = null) =>
    asStaff<null>('note_customer', { phone, notes, seen_at });
  const block = (phone: string, reason = 'Never opens the door') =>
    asStaff<null>('block_phone', { phone, reason });
  const unblock = (phone: string) => asStaff<null>('unblock_phone', { phone });
  const placeFor = (phone: string, form: Record<string, unknown> = {}) =>
    place(product, { customer_phone: phone, ...form });
  const of = (rows: Customer[], phone: string) => rows.find((row) => row.phone === stored(phone));

  describe('the list', () => {
    test('has each phone once, with its last name, orders, spending and credit', async () => {
      const phone = newPhone();
      const first = await placeFor(phone, { customer_name: 'Amina Wanjiku' });
      await pay(first);
      const cancelled = await placeFor(phone);
      await setStatus(cancelled, 'cancelled');
      const last = await placeFor(phone, { customer_name: "Amina Wanjikũ Ng'ang'a" });
      const cash = await asStaff<Payment>('receive_cash', {
        order_id: last.id,
        received_cents: charge + 20_000,
        difference: 'credit',
      });
      await asStaff('refund_part', {
        payment_id: cash.id,
        amount_cents: 10_000,
        way: 'cash',
        reason: 'Missing drink',
      });
      const rows = await list();
      expect(rows.filter((row) => row.phone === stored(phone))).toEqual([
        {
          id: last.id,
          created_at: expect.anything(),
          phone: stored(phone),
          name: "Amina Wanjikũ Ng'ang'a",
          orders: 2,
          spent_cents: 2 * charge - 10_000,
          credit_cents: 20_000,
          is_blocked: false,
        },
      ]);
    });

    test('counts money that went back as nothing, and credit where it paid', async () => {
      const phone = newPhone();
      const paid = await placeFor(phone);
      await pay(paid);
      const second = (await receive(paid)).payment;
      await asStaff('note_refund_by_hand', {
        payment_id: second.id,
        refund_receipt: newReceipt(),
        reason: 'Twice',
      });
      expect(of(await list(), phone)).toMatchObject({ spent_cents: charge });
      const kept = await placeFor(phone);
      await asStaff('receive_cash', { order_id: kept.id, received_cents: 2 * charge, difference: 'credit' });
      expect(of(await list(), phone)).toMatchObject({ spent_cents: 2 * charge, credit_cents: charge });
      const next = await placeFor(phone);
      await asStaff('use_credit', { order_id: next.id });
      expect(of(await list(), phone)).toMatchObject({ spent_cents: 3 * charge, credit_cents: 0 });
      await setStatus(paid, 'cancelled');
      const money = await readValue<string>(
        'select id from public.payments where order_id = $1 and refunded_at is null',
        [paid.id],
      );
      await asStaff('note_refund_by_hand', {
        payment_id: money,
        refund_receipt: newReceipt(),
        reason: 'Cancelled',
      });
      expect(of(await list(), phone)).toMatchObject({ orders: 2, spent_cents: 2 * charge });
    });

    test('goes on after the last row of a page, in each order', async () => {
      for (let count = 0; count < 5; count += 1) {
        const phone = newPhone();
        for (let orders = 0; orders <= count; orders += 1)
          await placeFor(phone, { customer_name: `Page ${count}` });
      }
      for (const sort of [null, 'name', '-name', 'orders', '-orders', 'spent', '-spent']) {
        const whole = await list({ sort, page_size: 1000 });
        const paged: Customer[] = [];
        for (;;) {
          const last = paged.at(-1);
          const next = await list({
            sort,
            page_size: 3,
            before_created_at: last?.created_at ?? null,
            before_id: last?.id ?? null,
          });
          paged.push(...next);
          if (next.length < 3) break;
        }
        expect(paged.map(({ id }) => id)).toEqual(whole.map(({ id }) => id));
      }
      const most = await list({ sort: '-orders', page_size: 1 });
      expect(most[0]?.orders).toBe(
        Math.max(...(await list({ page_size: 1000 })).map(({ orders }) => orders)),
      );
    });

    test('finds by words of the name and digits of the phone, and by nothing else of the order', async () => {
      const phone = newPhone();
      await placeFor(phone, { customer_name: 'Zawadi Achieng', delivery_location: 'Kileleshwa Zone' });
      for (const search of ['zawadi', 'achieng zaw', phone, stored(phone), phone.slice(-6)]) {
        expect(of(await list({ search }), phone), search).toBeDefined();
      }
      expect(of(await list({ search: 'Kileleshwa' }), phone)).toBeUndefined();
      expect(await list({ search: 'zawadi nobody' })).toEqual([]);
    });

    test('narrows to repeat customers, to those with credit, and to blocked ones', async () => {
      const [once, twice, owed, blocked] = [newPhone(), newPhone(), newPhone(), newPhone()];
      for (const phone of [once, twice, twice, owed, blocked]) {
        const order = await placeFor(phone);
        if (phone === owed) {
          await asStaff('receive_cash', {
            order_id: order.id,
            received_cents: charge + 100,
            difference: 'credit',
          });
        }
      }
      await block(blocked);
      const phones = async (wanted: string) =>
        [once, twice, owed, blocked].filter(
          (phone, index, all) => all.indexOf(phone) === index && of(found.get(wanted) ?? [], phone),
        );
      const found = new Map<string, Customer[]>();
      for (const wanted of ['repeat', 'credit', 'blocked']) {
        found.set(wanted, await list({ kind: wanted, page_size: 1000 }));
      }
      expect(await phones('repeat')).toEqual([twice]);
      expect(await phones('credit')).toEqual([owed]);
      expect(await phones('blocked')).toEqual([blocked]);
      await expect(list({ kind: 'rich' })).rejects.toMatchObject({ detail: 'filter_unknown' });
      await expect(list({ sort: 'phone' })).rejects.toMatchObject({ detail: 'sort_unknown' });
    });

    test('is for staff alone', async () => {
      for (const by of ['visitor', 'customer'] as const) {
        await expect(list({}, by)).rejects.toMatchObject({ code: expect.stringMatching(/42501|PT403/) });
      }
    });
  });

  describe('notes of staff', () => {
    test('are shown with their author, changed and removed', async () => {
      const phone = newPhone();
      await placeFor(phone);
      await note(phone, ' Rings twice ');
      const noted = await page(phone);
      expect(noted).toMatchObject({
        notes: 'Rings twice',
        notes_by: expect.stringContaining('@'),
        orders: 1,
      });
      await expectRefusal(note(phone, 'Another'), 409, 'notes_changed');
      await note(phone, 'Rings once', noted.notes_at);
      const changed = await page(phone);
      expect(changed.notes).toBe('Rings once');
      await expectRefusal(note(phone, '', noted.notes_at), 409, 'notes_changed');
      await note(phone, ' ', changed.notes_at);
      expect(await page(phone)).toMatchObject({ notes: null, notes_at: null });
    });

    test('are of a phone, and not endless', async () => {
      await expectRefusal(note('12', 'Who?'), 400, 'phone_invalid');
      await expectRefusal(note(newPhone(), 'x'.repeat(1001)), 400, 'notes_too_long');
      await expectRefusal(asStaff('customer_page', { phone: 'x' }), 400, 'phone_invalid');
    });
  });

  describe('a blocked phone', () => {
    let phone: string;
    beforeEach(async () => {
      phone = newPhone();
      await block(phone);
    });
    const visit = (form: Record<string, unknown> = {}) => placeFor(phone, { address: '192.0.2.77', ...form });

    test('places no order on the storefront in any spelling, and is told how to reach the shop', async () => {
      const refusal = await expectRefusal(visit(), 403, 'phone_blocked');
      expect(refusal.message).toMatch(/Please call or WhatsApp us on .*\d/);
      await expectRefusal(visit({ customer_phone: stored(phone) }), 403, 'phone_blocked');
      await unblock(phone);
      expect(await visit()).toMatchObject({ status: 'pending' });
      await unblock(phone);
    });

    test('is served when staff enter its order, and keeps the orders that it has', async () => {
      const order = await callAs<PlacedOrder>('staff', 'place_order', {
        idempotency_key: crypto.randomUUID(),
        product_id: product,
        quantity: 1,
        customer_name: 'Blocked Caller',
        customer_phone: phone,
        delivery_location: 'Karen',
        expected_total: charge,
        source: 'call',
      });
      await pay(order);
      expect(await page(phone)).toMatchObject({ is_blocked: true, orders: 1, spent_cents: charge });
    });

    test('has the newest reason, and who blocked it', async () => {
      await block(phone, 'Threatened the rider');
      expect(await page(phone)).toMatchObject({
        block_reason: 'Threatened the rider',
        blocked_by: expect.stringContaining('@'),
        name: null,
        orders: 0,
      });
      await expectRefusal(block(phone, ' '), 400, 'reason_invalid');
    });

    test('stays blocked as a hash after an erasure, which removes notes, and can be unblocked', async () => {
      await unblock(phone);
      const order = await placeFor(phone);
      await block(phone);
      await note(phone, 'Shouts');
      await handOver(order, 'cancelled');
      const exported = await asStaff<Record<string, unknown>>('export_person', { identifier: phone });
      expect(exported).toMatchObject({
        notes_of_staff: { notes: 'Shouts' },
        blocked: { reason: 'Never opens the door' },
      });
      await asStaff('erase_person', { identifier: phone });
      expect(
        await readValue(
          `select count(*)::integer from public.blocked_phones where phone = $1 or reason = 'Never opens the door' and person_hash = private.hash_person($1)`,
          [stored(phone)],
        ),
      ).toBe(0);
      expect(await page(phone)).toMatchObject({ is_blocked: true, block_reason: null, notes: null });
      await expectRefusal(visit(), 403, 'phone_blocked');
      await unblock(phone);
      expect(await visit()).toMatchObject({ status: 'pending' });
    });

    test('is blocked and unblocked by staff alone', async () => {
      for (const by of ['visitor', 'customer'] as const) {
        for (const [procedure, given] of [
          ['block_phone', { phone, reason: 'Competitor' }],
          ['unblock_phone', { phone }],
          ['note_customer', { phone, notes: 'Me' }],
          ['customer_page', { phone }],
        ] as const) {
          await expect(callAs(by, procedure, given)).rejects.toMatchObject({
            code: expect.stringMatching(/42501|PT403/),
          });
        }
      }
      await expectRefusal(visit(), 403, 'phone_blocked');
      expect(await asVisitor('are_prompts_paused')).toBe(false);
    });
  });

  test('an order says which one of its phone it is, without cancelled ones', async () => {
    const phone = newPhone();
    const orders: PlacedOrder[] = [];
    for (let count = 0; count < 3; count += 1) orders.push(await placeFor(phone));
    await setStatus(orders[1] as PlacedOrder, 'cancelled');
    const { rows } = await queryAs<{ nth: number }>(
      'staff',
      `select public.nth_order(o) as nth from public.orders as o where o.id = any ($1) order by o.created_at, o.id`,
      [`{${orders.map(({ id }) => id).join(',')}}`],
    );
    expect(rows.map(({ nth }) => nth)).toEqual([1, 1, 2]);
  });
});
