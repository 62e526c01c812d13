// Staff lists: search of orders and deliveries by customers and riders, and filters by open work.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { shopPromiseMinutes } from '../../../domain/deliveries/delivery-promise.ts';
import { type WorkStep, workStep } from '../../../domain/deliveries/delivery-status.ts';
import type { DeliveryStatus, OrderPaymentMethod, OrderPaymentStatus, OrderStatus } from '../../types.ts';
import { expectRefusal, type Person, procedureCall } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

// More rows than a search scans before it uses the index: 40 pages of 5.
const bulk = 400;

/** An order with its related rows, from the newest to the oldest. */
const orders = [
  // number, customer, phone, address, status, payment, minutes ago, drink, receipt, rider
  [
    'A-1',
    'Amina Kamau',
    '+254712341032',
    'Westlands',
    'processing',
    'paid',
    10,
    'Embu Fresh Mango',
    'UKL3AB12CD',
    null,
  ],
  [
    'A-2',
    'Brian Otieno',
    '+254700000001',
    'Karen',
    'processing',
    'paid',
    90,
    'Meru Gold Hibiscus',
    'UKL3AB12CE',
    null,
  ],
  [
    'A-3',
    'Chebet Ruto',
    '+254700000002',
    'Kilimani',
    'pending',
    'unpaid',
    95,
    'Embu Fresh Mango',
    null,
    null,
  ],
  [
    'A-4',
    'David Mutua',
    '+254700000003',
    'Nyali',
    'out_for_delivery',
    'paid',
    100,
    'Embu Fresh Mango',
    'UKL3AB12CF',
    'Joseph',
  ],
  [
    'A-5',
    'Esther Njeri',
    '+254700000004',
    'Westlands',
    'delivered',
    'paid',
    200,
    'Embu Fresh Mango',
    'UKL3AB12CG',
    'Joseph',
  ],
  [
    'A-6',
    'Faith Wambui',
    '+254700000005',
    'Runda',
    'cancelled',
    'paid',
    220,
    'Embu Fresh Mango',
    'UKL3AB12CH',
    null,
  ],
  [
    'A-7',
    'George Kip',
    '+254700000006',
    'Runda',
    'cancelled',
    'needs_review',
    230,
    'Embu Fresh Mango',
    'UKL3AB12CJ',
    null,
  ],
  [
    'A-8',
    'Halima Noor',
    '+254700000007',
    'Runda',
    'cancelled',
    'refunded',
    240,
    'Embu Fresh Mango',
    'UKL3AB12CK',
    null,
  ],
  [
    'A-9',
    'Ivy Achieng',
    '+254700000008',
    'Runda',
    'cancelled',
    'unpaid',
    250,
    'Embu Fresh Mango',
    null,
    null,
  ],
  [
    'A-10',
    'Jane Atieno',
    '+254700000009',
    'Runda',
    'shipped',
    'unpaid',
    260,
    'Embu Fresh Mango',
    null,
    'peter',
  ],
] as const;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asStaff, queryAs } = setUpShop(kind);
  beforeAll(async () => {
    for (const [number, name, phone, address, status, payment, minutes, drink, receipt, rider] of orders) {
      await database.query(
        `with placed as (
           insert into public.orders (order_number, tracking_number, customer_name, customer_email, customer_phone,
             shipping_address, city, status, payment_status, delivery_fee, total_amount, created_at)
           values ($1, 'JJ-20261122-' || (7000 + split_part($1, '-', 2)::integer), $2, 'x@mail.example', $3, $4,
             case $4 when 'Nyali' then 'Mombasa' else 'Nairobi' end, 'pending', 'unpaid', 100, 95100,
             now() - make_interval(mins => $5))
           returning id
         ), item as (
           insert into public.order_items (order_id, product_name, quantity, unit_price) select id, $6, 2, 95000 from placed
         )
         insert into public.payments (order_id, phone, charge_cents, status, receipt, completed_at)
         select id, $3, 95100, 'completed', $7, now() from placed where $7::text is not null`,
        [number, name, phone, address, minutes, drink, receipt],
      );
      if (payment === 'paid' && status !== 'cancelled') {
        await database.query(
          `insert into public.deliveries (order_id, created_at)
           select id, created_at + interval '5 minutes' from public.orders where order_number = $1
           on conflict do nothing`,
          [number],
        );
      }
      if (rider) {
        await database.query(
          `insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, created_at)
           select id, 'assigned', $2, '0722 111 222', 'Motorbike', created_at + interval '5 minutes'
           from public.orders where order_number = $1
           on conflict (order_id) do update
           set delivery_person = excluded.delivery_person, delivery_phone = excluded.delivery_phone,
             delivery_vehicle = excluded.delivery_vehicle, delivery_status = 'assigned'`,
          [number, rider],
        );
      }
      await database.query(`select set_config('private.although_unpaid', 'yes', false)`);
      await database.query(
        `update public.orders set status = $2, payment_status = $3, reserved_until = null where order_number = $1`,
        [number, status, payment],
      );
      await database.query(`select set_config('private.although_unpaid', '', false)`);
    }
    // Older ones, so that rare matches are beyond the newest rows that a search scans.
    await database.query(
      `insert into public.orders (order_number, tracking_number, customer_name, customer_email, customer_phone,
         shipping_address, status, payment_status, delivery_fee, total_amount, created_at)
       select 'B-' || n, 'JJ-20261101-' || (20000 + n), case n when $1 then 'Zawadi' else 'Customer ' || n end, 'c@mail.example',
         '+2547333' || (10000 + n), 'Langata', 'delivered', 'paid', 100, 95100,
         date_trunc('day', now()) - interval '5 days' - make_interval(mins => n)
       from generate_series(1, $1::integer) as n`,
      [bulk],
    );
    await database.query(
      `insert into public.order_items (order_id, product_name, quantity, unit_price)
       select id, 'Baobab Special', 1, 95000 from public.orders where order_number = 'B-399'`,
    );
  }, 60_000);

  const ask = async <Row>(sql: string, given: unknown[] = [], person: Person = 'staff') =>
    (await queryAs<Row>(person, sql, given)).rows;
  const find = async (given: Record<string, unknown>) => {
    const paged = { page_size: 5, ...given };
    const rows = await ask<{ number: string }>(
      `select order_number as number from ${procedureCall('search_orders', paged)} as o
       order by o.created_at desc, o.id desc`,
      Object.values(paged),
    );
    return rows.map(({ number }) => number);
  };
  const count = (given: Record<string, unknown>) => asStaff<number>('count_orders', given);
  const findDeliveries = async (given: Record<string, unknown>) => {
    const paged = { page_size: 5, ...given };
    const rows = await ask<{ number: string }>(
      `select o.order_number as number from ${procedureCall('search_deliveries', paged)} as d
       join public.orders as o on o.id = d.order_id order by d.created_at desc, d.id desc`,
      Object.values(paged),
    );
    return rows.map(({ number }) => number);
  };

  test.each([
    ['0712341032'],
    ['0712 341 032'],
    ['0712-341-032'],
    ['+254712341032'],
    ['+254 712 341 032'],
    ['254712341032'],
    ['00254712341032'],
    ['+254 (0)712 341032'],
    ['712341032'],
    ['712 341'],
    ['341032'],
    ['\u202a+254 712 341 032\u202c'],
    ['westlands mango amina'],
    ['AMINA kam'],
    ['a-1 amina'],
    ['UKL3AB12CD'],
    [' ukl3ab12cd '],
    ['JJ-20261122-7001'],
    ['7001'],
  ])('an order is found by %j', async (search) => {
    expect(await find({ search })).toEqual(['A-1']);
    expect(await count({ search })).toBe(1);
  });

  test.each([
    [{ search: 'zawadi' }, ['B-400']],
    [{ search: '0733310399' }, ['B-399']],
    [{ search: 'baobab' }, ['B-399']],
    [{ search: 'baobab langata' }, ['B-399']],
    [{ search: 'baobab karen' }, []],
    [{ search: 'mombasa' }, ['A-4']],
    [{ search: 'hibiscus' }, ['A-2']],
    [{ search: 'Joseph' }, ['A-4', 'A-5']],
    [{ search: 'joseph mango nyali' }, ['A-4']],
    [{ search: 'joseph zawadi' }, []],
    [{ search: '0722 111 222' }, ['A-4', 'A-5', 'A-10']],
    [{ search: '111222', rider: 'peter' }, ['A-10']],
    [{ search: 'UKL3AB12CZ' }, []],
    [{ search: 'x'.repeat(5000) }, []],
    [{ search: '100% %' }, []],
  ])('%j finds %j', async (given, found) => {
    expect(await find(given)).toEqual(found);
    expect(await count(given)).toBe(found.length);
  });

  test.each([
    [{ payment: 'unpaid' }, ['A-3', 'A-10']],
    [{ payment: 'unpaid', status: 'pending' }, ['A-3']],
    [{ payment: 'needs_review' }, ['A-7']],
    [{ payment: 'refund_due' }, ['A-6']],
    [{ payment: 'to_decide' }, ['A-6', 'A-7']],
    [{ payment: 'to_decide', search: 'george' }, ['A-7']],
    [{ payment: 'refunded' }, ['A-8']],
    [{ payment: 'nonsense' }, []],
    [{ payment: 'paid', status: 'processing' }, ['A-1', 'A-2']],
    // The status "out for delivery" of a delivery is "shipped" for staff.
    [{ status: 'shipped' }, ['A-4', 'A-10']],
    [{ status: 'out_for_delivery' }, ['A-4']],
    [{ due: 'prepare' }, ['A-1', 'A-2']],
    [{ due: 'late' }, ['A-2', 'A-4']],
    [{ due: 'late', search: 'karen' }, ['A-2']],
    [{ due: 'nonsense' }, []],
    [{ rider: 'JOSEPH' }, ['A-4', 'A-5']],
    [{ rider: 'joseph', status: 'delivered' }, ['A-5']],
    [{ rider: 'Peter', payment: 'unpaid', search: 'runda mango' }, ['A-10']],
    [{ rider: 'jose' }, []],
  ])('the filters %j leave %j', async (given, found) => {
    expect(await find(given)).toEqual(found);
    expect(await count(given)).toBe(found.length);
  });

  /** The pages of a sorted list, each after the last row of the one before it. */
  async function sorted(list: 'orders' | 'deliveries', given: Record<string, unknown>): Promise<string[]> {
    const numbers: string[] = [];
    let after: { id: string; created_at: string } | undefined;
    for (;;) {
      const paged = {
        page_size: 2,
        before_id: after?.id ?? null,
        before_created_at: after?.created_at ?? null,
        ...given,
      };
      const page = await ask<{ id: string; created_at: string; number: string }>(
        `select l.id, l.created_at,
           (select o.order_number from public.orders as o where o.id = l.${list === 'orders' ? 'id' : 'order_id'}) as number
         from ${procedureCall(`search_${list}`, paged)} as l`,
        Object.values(paged),
      );
      numbers.push(...page.map(({ number }) => number));
      after = page[1];
      if (!after) return numbers;
    }
  }

  test.each([
    [{ due: 'late', sort: 'date' }, ['A-4', 'A-2']],
    [{ due: 'late', sort: '-date' }, ['A-2', 'A-4']],
    [{ search: 'hibiscus', sort: 'date' }, ['A-2']],
    [{ payment: 'unpaid', sort: 'customer' }, ['A-3', 'A-10']],
    [{ payment: 'unpaid', sort: '-customer' }, ['A-10', 'A-3']],
    [{ payment: 'paid', status: 'processing', sort: '-customer' }, ['A-2', 'A-1']],
    [{ rider: 'joseph', sort: 'status' }, ['A-4', 'A-5']],
    [{ rider: 'joseph', sort: '-status' }, ['A-5', 'A-4']],
    [{ rider: 'joseph', sort: 'nonsense' }, ['A-4', 'A-5']],
  ])('orders are sorted: %j', async (given, expected) => {
    expect(await sorted('orders', given)).toEqual(expected);
  });

  test('a sorted list has each order once, on all its pages', async () => {
    const byDate = await sorted('orders', { search: 'langata', sort: 'date' });
    const byTotal = await sorted('orders', { search: 'langata', sort: '-total' });
    expect(byDate).toHaveLength(bulk);
    expect(byDate[0]).toBe(`B-${bulk}`);
    expect(new Set(byTotal)).toEqual(new Set(byDate));
    expect(byTotal).toHaveLength(bulk);
    // Equal ones: the newest first.
    expect(byTotal[0]).toBe('B-1');
  });

  test('deliveries are sorted by rider', async () => {
    const riders = await sorted('deliveries', { sort: 'rider' });
    expect(await sorted('deliveries', { sort: '-rider' })).not.toEqual(riders);
    expect(new Set(riders).size).toBe(riders.length);
  });

  test('an unpaid order with a payment of another amount needs review', async () => {
    const { rows } = await database.query<{ id: string }>(
      `insert into public.payments (order_id, phone, charge_cents, status, result_code)
       select id, '+254700000003', 95100, 'review', '0' from public.orders where order_number in ('A-3', 'A-5')
       returning id`,
    );
    // A-5 is paid, so it needs no review.
    expect(await find({ payment: 'needs_review' })).toEqual(['A-3', 'A-7']);
    expect(await count({ payment: 'needs_review' })).toBe(2);
    expect(await find({ payment: 'needs_review', search: 'zawadi' })).toEqual([]);
    expect(await find({ payment: 'to_decide' })).toEqual(['A-3', 'A-6', 'A-7']);
    expect(await count({ payment: 'to_decide' })).toBe(3);
    await database.query('delete from public.payments where id = any ($1::uuid[])', [
      `{${rows.map(({ id }) => id).join(',')}}`,
    ]);
  });

  test('an order with a payment to refund has a due refund', async () => {
    await database.query(
      `insert into public.payments (order_id, phone, charge_cents, status, receipt, needs_refund, completed_at)
       select id, '+254700000004', 95100, 'completed', 'UKL3AB12ZZ', true, now() from public.orders where order_number = 'A-5'`,
    );
    expect(await find({ payment: 'refund_due' })).toEqual(['A-5', 'A-6']);
    expect(await find({ payment: 'to_decide' })).toEqual(['A-5', 'A-6', 'A-7']);
    await database.query(`update public.payments set refunded_at = now() where receipt = 'UKL3AB12ZZ'`);
    expect(await find({ payment: 'refund_due' })).toEqual(['A-6']);
    expect(await find({ payment: 'to_decide' })).toEqual(['A-6', 'A-7']);
  });

  describe('money to decide about', () => {
    const surplus = 'needs_refund = true';
    test.each([
      // order, its payments with their refunds, whether it waits for a decision
      ['a cancelled one without a recorded payment', 'A-6', [], true],
      ['a cancelled one', 'A-6', [['', '']], true],
      ['a cancelled one with a refund that waits for approval', 'A-6', [['', 'requested']], false],
      ['a cancelled one with a refund of unknown result', 'A-6', [['', 'unknown']], false],
      ['a cancelled one with a failed refund', 'A-6', [['', 'failed']], true],
      ['a cancelled one with a withdrawn refund', 'A-6', [['', 'withdrawn']], true],
      [
        'a cancelled one with a refund of one of two payments',
        'A-6',
        [
          ['', 'sent'],
          ['', ''],
        ],
        true,
      ],
      [
        'a cancelled one with refunds of both payments',
        'A-6',
        [
          ['', 'sent'],
          [surplus, 'approved'],
        ],
        false,
      ],
      [
        'a cancelled one with a refund of the payment that is left',
        'A-6',
        [
          ['refunded_at = now()', 'completed'],
          ['', 'approved'],
        ],
        false,
      ],
      ['one to review with a refund', 'A-7', [['', 'approved']], false],
      ['one to review with another amount', 'A-7', [[`status = 'review'`, '']], true],
      ['a paid one', 'A-5', [['', '']], false],
      [
        'a paid one with a second payment',
        'A-5',
        [
          ['', ''],
          [surplus, ''],
        ],
        true,
      ],
      [
        'a paid one with a second payment that goes back',
        'A-5',
        [
          ['', ''],
          [surplus, 'requested'],
        ],
        false,
      ],
      [
        'a paid one with another amount besides',
        'A-5',
        [
          ['', ''],
          [`status = 'review'`, ''],
        ],
        false,
      ],
      ['an unpaid one with another amount', 'A-3', [[`status = 'review'`, '']], true],
      ['an unpaid one with a failed prompt', 'A-3', [[`status = 'failed'`, '']], false],
    ] as const)('of an order, %s', async (_, number, payments, isWaiting) => {
      await database.execute(`
        create table saved_payments as
          select p.* from public.payments as p join public.orders as o on o.id = p.order_id where o.order_number = '${number}';
        alter table public.payments disable trigger user;
        alter table public.refunds disable trigger user;
        delete from public.payments where id in (select id from saved_payments)`);
      for (const [index, [change, refund]] of payments.entries()) {
        await database.execute(`
          with paid as (
            insert into public.payments (order_id, phone, charge_cents, status, receipt, completed_at)
            select id, '+254700000003', 95100, 'completed', 'UKD000000${index}', now()
            from public.orders where order_number = '${number}' returning id
          )
          insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, completed_at)
          select id, 'UKD000000${index}', 95100, 'Test', 'reversal', '${refund}', case '${refund}' when 'completed' then now() end
          from paid where '${refund}' <> '';
          update public.payments set ${change || 'receipt = receipt'} where receipt = 'UKD000000${index}'`);
      }
      expect((await find({ payment: 'to_decide' })).includes(number)).toBe(isWaiting);
      await database.execute(`
        delete from public.refunds where receipt like 'UKD000000_';
        delete from public.payments where receipt like 'UKD000000_';
        insert into public.payments select * from saved_payments;
        drop table saved_payments`);
      // In a transaction of its own: not while triggers of the statements above wait for their end.
      await database.execute(`
        alter table public.payments enable trigger user;
        alter table public.refunds enable trigger user`);
    });
  });

  test('days are days in Nairobi', async () => {
    await database.query(
      `insert into public.orders (order_number, tracking_number, customer_name, customer_email, customer_phone,
         shipping_address, delivery_fee, total_amount, created_at)
       select 'D-' || n, 'JJ-20250101-100' || n, 'Night', 'n@mail.example', '+254700000000', 'Karen', 100, 100, at
       from unnest(array['2025-01-01 20:59Z', '2025-01-01 21:00Z', '2025-01-02 20:59Z', '2025-01-02 21:00Z']::timestamptz[])
         with ordinality as moments (at, n)`,
    );
    const of = (from_day: string | null, until_day: string | null) =>
      find({ search: 'night', from_day, until_day });
    expect(await of('2025-01-02', '2025-01-02')).toEqual(['D-3', 'D-2']);
    expect(await of(null, '2025-01-01')).toEqual(['D-1']);
    expect(await of('2025-01-03', null)).toEqual(['D-4']);
    expect(await find({ from_day: '2025-01-01', until_day: '2025-01-01' })).toEqual(['D-1']);
    expect(await count({ from_day: '2025-01-02', until_day: '2025-01-03' })).toBe(3);
  });

  test.each([
    [{ search: 'joseph' }, ['A-4', 'A-5']],
    [{ search: '0722111222' }, ['A-4', 'A-5', 'A-10']],
    [{ search: '+254 722 111 222', rider: 'peter' }, ['A-10']],
    [{ search: '0700 000 003' }, ['A-4']],
    [{ search: 'westlands mango' }, ['A-1', 'A-5']],
    [{ search: 'UKL3AB12CG' }, ['A-5']],
    [{ status: 'pending' }, ['A-1', 'A-2']],
    [{ rider: 'Joseph' }, ['A-4', 'A-5']],
    [{ due: 'late' }, ['A-2', 'A-4']],
    [{ due: 'late', rider: 'joseph' }, ['A-4']],
  ])('deliveries: %j leaves %j', async (given, found) => {
    expect(await findDeliveries(given)).toEqual(found);
    expect(await asStaff<number>('count_deliveries', given)).toBe(found.length);
  });

  test.each([
    // status, payment, its method, delivery, taken, packed, waits for
    ['processing', 'paid', 'mpesa', null, false, false, 'prepare'],
    ['pending', 'paid', 'mpesa', 'pending', false, false, 'prepare'],
    ['processing', 'paid', 'mpesa', 'assigned', false, false, 'prepare'],
    ['processing', 'paid', 'mpesa', 'pending', true, false, 'preparing'],
    ['processing', 'paid', 'mpesa', 'assigned', true, true, 'ready'],
    ['processing', 'paid', 'mpesa', 'pending', false, true, 'ready'],
    ['processing', 'paid', 'mpesa', 'failed', true, true, 'failed'],
    ['shipped', 'paid', 'mpesa', 'failed', false, false, 'failed'],
    ['shipped', 'paid', 'mpesa', 'pending', true, false, 'on_the_way'],
    ['shipped', 'paid', 'mpesa', 'in_transit', true, true, 'on_the_way'],
    ['out_for_delivery', 'paid', 'mpesa', 'picked_up', true, true, 'on_the_way'],
    ['delivered', 'paid', 'mpesa', 'delivered', true, true, null],
    ['cancelled', 'paid', 'mpesa', 'failed', false, true, null],
    ['processing', 'unpaid', 'pending', null, false, false, null],
    ['processing', 'unpaid', 'cash', 'pending', false, false, 'prepare'],
    ['shipped', 'unpaid', 'cash', 'picked_up', true, true, 'on_the_way'],
    ['delivered', 'unpaid', 'cash', 'delivered', true, true, null],
    ['pending', 'needs_review', 'mpesa', null, false, false, null],
    ['processing', 'refunded', 'mpesa', 'failed', false, true, null],
  ] satisfies [
    OrderStatus,
    OrderPaymentStatus,
    OrderPaymentMethod,
    DeliveryStatus | null,
    boolean,
    boolean,
    WorkStep | null,
  ][])(
    'an order that is %s and %s (%s), with a delivery that is %s, taken: %s, packed: %s, waits for %s',
    async (status, payment_status, payment_method, delivery, isTaken, isPacked, step) => {
      const order = { status, payment_status, payment_method };
      const made = {
        delivery_status: delivery,
        taken_by: isTaken ? 'amina@jani.example' : null,
        ready_at: isPacked ? '2026-11-28T10:00:00Z' : null,
      };
      const { rows } = await database.query<{ step: string | null }>(
        `select private.work_step(
           jsonb_populate_record(null::public.orders, $1), jsonb_populate_record(null::public.deliveries, $2)
         ) as step`,
        [JSON.stringify(order), JSON.stringify(made)],
      );
      expect(rows[0]?.step).toBe(step);
      // The panel decides alike about the deliveries that it has.
      if (made.delivery_status !== null) {
        expect(workStep(order, { ...made, delivery_status: made.delivery_status })).toBe(step);
      }
    },
  );

  test('an order leaves "to prepare" when it is packed, and a failed delivery is counted as failed', async () => {
    const steps = async () => {
      const found: Record<string, boolean> = {};
      for (const due of ['prepare', 'ready', 'on_the_way', 'failed']) {
        found[due] = (await find({ due })).includes('A-2');
        expect(await count({ due })).toBe((await find({ due })).length);
      }
      return Object.keys(found).filter((due) => found[due]);
    };
    const setDelivery = (change: string) =>
      database.execute(
        `update public.deliveries set ${change}
         where order_id = (select id from public.orders where order_number = 'A-2')`,
      );
    const seen: unknown[] = [await steps()];
    for (const change of [
      `delivery_status = 'assigned', delivery_person = 'Joseph'`,
      `taken_by = 'amina@jani.example'`,
      'ready_at = now()',
      `delivery_status = 'picked_up'`,
      `delivery_status = 'failed'`,
      `delivery_status = 'assigned'`,
      `delivery_status = 'pending', delivery_person = null, taken_by = null, ready_at = null`,
    ]) {
      await setDelivery(change);
      seen.push(await steps());
    }
    expect(seen.flat()).toEqual([
      'prepare',
      'prepare',
      'prepare',
      'ready',
      'on_the_way',
      'failed',
      'ready',
      'prepare',
    ]);
  });

  test('counts open work', async () => {
    expect(await ask('select * from public.count_work()')).toEqual([
      {
        to_prepare: 2,
        ready: 0,
        on_the_way: 1,
        failed: 0,
        late: 2,
        unpaid: expect.any(Number),
        refunds_due: 1,
        to_assign: 2,
        late_deliveries: 2,
        cash_not_received: 0,
        to_cancel: 0,
        to_agree: 0,
      },
    ]);
  });

  test('the database and the screen use the same time limit for late orders', async () => {
    const { rows } = await database.query<{ minutes: number }>(
      'select private.shop_promise_minutes() as minutes',
    );
    expect(rows[0]?.minutes).toBe(shopPromiseMinutes);
  });

  test('lists riders of the last 60 days with their newest phone and vehicle, and their open deliveries', async () => {
    await database.query(
      `insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, created_at)
       select id, 'delivered', case order_number when 'B-1' then 'JOSEPH' else 'Long ago' end, '0799', 'Van',
         now() - case order_number when 'B-1' then interval '40 days' else interval '61 days' end
       from public.orders where order_number in ('B-1', 'B-2')`,
    );
    const riders = await ask<Record<string, unknown>>(
      'select name, phone, vehicle, open_deliveries from public.recent_riders() order by name',
    );
    expect(riders).toEqual([
      { name: 'Joseph', phone: '0722 111 222', vehicle: 'Motorbike', open_deliveries: 1 },
      { name: 'peter', phone: '0722 111 222', vehicle: 'Motorbike', open_deliveries: 1 },
    ]);
  });

  test.each(['count_deliveries', 'count_work', 'recent_riders'])(
    '%s is for staff only',
    async (procedure) => {
      const call = `select from public.${procedure}()`;
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(ask(call, [], person), 403, 'staff_only');
      }
      await expect(ask(call, [], 'visitor')).rejects.toMatchObject({ code: '42501' });
      await expect(ask(call, [], 'staff')).resolves.toBeDefined();
    },
  );
});
