// Data of the dashboard: page views, figures, backups and system state.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type Person } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asVisitor, asStaff, asService, queryAs, place } = setUpShop(kind);

  const rowsOf = async <Row>(procedure: string, caller: Person = 'staff') =>
    (await queryAs<Row>(caller, `select * from public.${procedure}`)).rows;

  const record = (views: unknown) => asService('record_page_views', { views: JSON.stringify(views) });
  const counts = async () => {
    const { rows } = await database.query<{ path: string; views: number }>(
      `select path, views from public.page_views where day = (now() at time zone 'Africa/Nairobi')::date order by path`,
    );
    return Object.fromEntries(rows.map(({ path, views }) => [path, views]));
  };

  test('counts views per page, without tracking numbers and staff screens, and unknown paths together', async () => {
    const { rows } = await database.query<{ slug: string }>(
      'select slug from public.products order by slug limit 1',
    );
    const product = `/shop/${rows[0]?.slug}`;
    await record([
      { path: '/', views: 2 },
      { path: product, views: 1 },
      { path: '/track-order/JJ-20261121-1234', views: 1 },
      { path: '/track-order', views: 1 },
      { path: '/admin/orders', views: 5 },
      { path: '/admin', views: 5 },
      { path: '/shop/no-such-drink', views: 1 },
      { path: `/${'x'.repeat(5000)}`, views: 1 },
      { path: '/contact/', views: 1 },
      { path: null, views: 1 },
      { path: '/delivery', views: 0 },
      { path: '/delivery', views: -4 },
    ]);
    await record([{ path: '/', views: 3 }]);
    expect(await counts()).toEqual({
      '/': 6,
      [product]: 1,
      '/track-order': 2,
      '/contact': 1,
      other: 2,
    });
  });

  test('only the secret key records page views', async () => {
    for (const person of ['visitor', 'customer', 'staff'] as const) {
      const attempt = callAs(person, 'record_page_views', { views: '[]' });
      await expect(attempt, person).rejects.toMatchObject({ code: '42501' });
    }
  });

  test('the figures include all orders, and received money less refunds', async () => {
    const before = (await rowsOf<Record<string, number>>('dashboard_figures()'))[0];
    const product = await makeProduct(database, 10);
    await place(product);
    const { id } = await place(product);
    await database.query(`update public.orders set payment_status = 'paid' where id = $1`, [id]);
    const { rows: times } = await database.query<{ today: string; monday: string }>(
      `select date_trunc('day', now() at time zone 'Africa/Nairobi') at time zone 'Africa/Nairobi' as today,
       date_trunc('week', now() at time zone 'Africa/Nairobi') at time zone 'Africa/Nairobi' as monday`,
    );
    const [{ today, monday } = { today: '', monday: '' }] = times;
    const isMonday = String(today) === String(monday);
    await database.query(
      `with money as (
         insert into public.payments (order_id, phone, charge_cents, status, receipt, completed_at)
         select $1, '254712345678', came.cents, 'completed', came.receipt, came.at from (values
           (100, 'UKLAAAAAA1', $2::timestamptz), (2000, 'UKLAAAAAA2', $2::timestamptz - interval '1 second'),
           (30000, 'UKLAAAAAA3', $3::timestamptz), (400000, 'UKLAAAAAA4', $3::timestamptz - interval '1 second')
         ) as came (cents, receipt, at)
         returning id, receipt, charge_cents
       )
       insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, completed_at)
       select id, receipt, charge_cents, 'Test', 'by_hand', 'completed', now() from money where receipt = 'UKLAAAAAA4'`,
      [id, today, monday],
    );
    await database.query(
      `insert into public.inquiries (name, email, message) values ('A', 'a@b.example', 'Hi')`,
    );
    const after = (await rowsOf<Record<string, number>>('dashboard_figures()'))[0];
    expect(after).toEqual({
      products: (before?.products ?? 0) + 1,
      orders: (before?.orders ?? 0) + 2,
      inquiries: (before?.inquiries ?? 0) + 1,
      revenue: (before?.revenue ?? 0) + 2 * 95_100,
      received: (before?.received ?? 0) + 32_100,
      // Today's refund is of a payment from before this week.
      received_this_week: (before?.received_this_week ?? 0) + 30_100 + (isMonday ? 0 : 2000) - 400_000,
      received_today: (before?.received_today ?? 0) + 100 + (isMonday ? 30_000 : 0) - 400_000,
    });
    await database.query('update public.products set is_active = false where id = $1', [product]);
    const [now] = await rowsOf<Record<string, number>>('dashboard_figures()');
    expect(now?.products).toBe(before?.products);
  });

  test('lists days in Nairobi time up to today, including days without orders', async () => {
    const product = await makeProduct(database, 10);
    const order = await place(product);
    // 21:30 UTC is half past midnight of the next day in Nairobi.
    await database.query(
      `update public.orders set created_at = ((now() at time zone 'Africa/Nairobi')::date - 10)::timestamp at time zone 'UTC' + interval '21 hours 30 minutes'
       where id = $1`,
      [order.id],
    );
    await database.query(
      `insert into public.page_views select (now() at time zone 'Africa/Nairobi')::date - days, '/', 7 from unnest(array[4, 29, 30]) as days`,
    );
    interface Day {
      day: string;
      page_views: number;
      orders: number;
    }
    const days = await rowsOf<Day>('daily_figures()');
    const { rows } = await database.query<{ today: string }>(
      `select (now() at time zone 'Africa/Nairobi')::date as today`,
    );
    expect(days).toHaveLength(30);
    expect(days.at(-1)?.day).toBe(rows[0]?.today);
    expect(days.map((day) => day.day)).toEqual([...days.map((day) => day.day)].sort());
    expect(days[20]).toMatchObject({ orders: 1, page_views: 0 });
    expect(days[25]).toMatchObject({ orders: 0, page_views: 7 });
    expect(days[0]).toMatchObject({ page_views: 7 });
    expect(days[1]).toMatchObject({ orders: 0, page_views: 0 });
    const total = (all: readonly Day[]) => all.reduce((sum, day) => sum + day.orders, 0);
    const { rows: placed } = await database.query<{ count: number }>('select count(*) from public.orders');
    expect(total(days)).toBe(placed[0]?.count);
    expect(await rowsOf('daily_figures(1)')).toHaveLength(1);
    expect(await rowsOf('daily_figures(100000)')).toHaveLength(366);
    expect(await rowsOf('daily_figures(-5)')).toHaveLength(1);
  });

  test.each(['dashboard_figures()', 'daily_figures()', 'system_status()'])(
    '%s is for active staff only',
    async (procedure) => {
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(rowsOf(procedure, person), 403, 'staff_only');
      }
      await expect(rowsOf(procedure, 'visitor')).rejects.toMatchObject({ code: '42501' });
      expect((await rowsOf(procedure)).length).toBeGreaterThan(0);
    },
  );

  test('the state contains the last successful backup and the last attempt', async () => {
    const status = async () => (await rowsOf<Record<string, unknown>>('system_status()'))[0];
    expect(await status()).toMatchObject({
      last_backup_at: null,
      last_attempt_at: null,
      opened_at: expect.any(String),
    });
    const write = (given: Record<string, unknown>) =>
      asService('record_backup', { started_at: '2026-11-21T00:00:00Z', ...given });
    await write({ outcome: 'verified', file_name: 'first.tar.gz', size: 5_000_000_000 });
    const good = await status();
    expect(good).toMatchObject({ last_backup_outcome: 'verified', last_attempt_outcome: 'verified' });
    await write({ outcome: 'failed', problem: 'the disk is full' });
    expect(await status()).toMatchObject({
      last_backup_at: good?.last_backup_at,
      last_attempt_outcome: 'failed',
      last_attempt_problem: 'the disk is full',
    });
    await expect(write({ outcome: 'failed' })).rejects.toMatchObject({ code: '23514' });
    await expect(write({ outcome: 'verified' })).rejects.toMatchObject({ code: '23514' });
  });

  test('the state counts prompts that wait too long for an answer', async () => {
    const product = await makeProduct(database, 10);
    const order = await place(product);
    await database.query(
      `insert into public.payments (order_id, phone, charge_cents, status) values ($1, '+254712345678', 95100, 'processing')`,
      [order.id],
    );
    const overdue = async () =>
      (await rowsOf<{ overdue_payments: number }>('system_status()'))[0]?.overdue_payments;
    expect(await overdue()).toBe(0);
    await database.query(`update public.payments set created_at = now() - interval '6 minutes'`);
    expect(await overdue()).toBe(1);
  });

  test('staff and the secret key can request a few backups', async () => {
    const notifications: string[] = [];
    const stop = await database.listen('backup_requests', (payload) => notifications.push(payload));
    await expectRefusal(callAs('customer', 'request_backup'), 403, 'staff_only');
    await expect(asVisitor('request_backup')).rejects.toMatchObject({ code: '42501' });
    await database.query(`delete from private.rate_limits`);
    await asStaff('request_backup');
    for (let times = 0; times < 4; times += 1) await asService('request_backup');
    await expectRefusal(asStaff('request_backup'), 429, 'too_many_backups');
    await expect.poll(() => notifications.length).toBe(5);
    await stop();
  });

  describe('settings', () => {
    const change = async (set: string, seen?: string) => {
      const { rows } = await queryAs<{ updated_at: string }>(
        'staff',
        `update public.store_settings set ${set} where id ${seen ? 'and updated_at = $1' : ''} returning updated_at`,
        seen ? [seen] : [],
      );
      return rows[0]?.updated_at;
    };

    test('the second of two concurrent edits changes nothing', async () => {
      const { rows } = await database.query<{ updated_at: string }>(
        'select updated_at from public.store_settings',
      );
      const seen = rows[0]?.updated_at;
      const moved = await change(`store_name = 'Juice of the East'`, seen);
      expect(moved).toBeDefined();
      expect(moved).not.toBe(seen);
      expect(await change('delivery_fee = 20000', seen)).toBeUndefined();
      expect(await change('delivery_fee = 20000', moved)).toBeDefined();
    });

    test('an edit without changes, or with a clock set back, is not a concurrent edit', async () => {
      const first = await change('delivery_fee = 300');
      expect(await change('delivery_fee = 300')).toBe(first);
      const second = await change(`delivery_fee = 400, updated_at = '2020-01-01'`);
      expect(String(second) > String(first)).toBe(true);
    });

    test.each([
      `instagram_url = 'javascript:alert(1)'`,
      `facebook_url = 'http://facebook.example/x'`,
      `tiktok_url = 'https://tiktok.example/a b'`,
      `support_phone = '0712345678'`,
      `chat_phone = 'call me'`,
      `support_email = 'amina'`,
      `store_name = '  '`,
      `seller_address = E'Mpaka Road\\nNairobi'`,
      `seller_registration = repeat('x', 81)`,
      `kra_pin = 'P05123456X'`,
      'delivery_fee = -1',
      'reservation_minutes = 0',
    ])('rejects %s', async (set) => {
      await expect(change(set)).rejects.toMatchObject({ code: '23514' });
    });

    test('a social link may be left out', async () => {
      expect(await change(`tiktok_url = ''`)).toBeDefined();
    });
  });
});
