// Staff screens of a large shop read no more rows than those of a small one, with and without statistics.
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { findWrongFigures } from '../payments/books/balanced-books.ts';
import { people } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

// More orders than lists count exactly.
const size = 10_100;

interface Figures {
  products: number;
  orders: number;
  inquiries: number;
  revenue: number;
  received: number;
  received_this_week: number;
  received_today: number;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asStaff } = setUpShop(kind);
  beforeAll(async () => {
    // One order and its payment every ten minutes, the last of them now.
    await database.execute(`
      alter table public.payments disable trigger payments_before_change;
      alter table public.payments disable trigger payments_after_receipt;
      insert into public.orders
        (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee,
         total_amount, status, payment_status, created_at)
      select 'ORD-' || (100000 + n), 'JJ-20260101-' || (100000 + n), 'Amina', 'a@mail.example', '+254712345678', 'Karen', 100, 95100,
        'delivered', 'paid', now() - n * interval '10 minutes'
      from generate_series(0, ${size - 1}) as n;
      insert into public.payments (order_id, phone, charge_cents, status, receipt, created_at, completed_at, updated_at)
      select o.id, '+254712345678', 95100, case when n % 2 = 0 then 'completed' else 'failed' end,
        case when n % 2 = 0 then 'UKL' || lpad(n::text, 7, '0') end, o.created_at,
        case when n % 2 = 0 then o.created_at end, o.created_at
      from (select o.*, row_number() over (order by o.created_at desc) - 1 as n from public.orders as o) as o;
      alter table public.payments enable trigger user`);
  }, 300_000);

  /** The result of a call by staff, and the number of rows it reads of some tables. */
  const read = <Answer>(statement: string, tables: string[]) =>
    asRole(database, people.staff, async (session) => {
      const count = async () => {
        const { rows } = await session.query<{ rows: number }>(
          `select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::integer as rows
           from pg_stat_xact_all_tables where schemaname = 'public' and relname = any ($1)`,
          [`{${tables.join(',')}}`],
        );
        return rows[0]?.rows ?? 0;
      };
      const before = await count();
      const { rows: answer } = await session.query<Answer>(statement);
      const rows = (await count()) - before;
      for (const table of tables) await session.query(`select count(to_jsonb(t)) from public.${table} as t`);
      return { answer, rows, rowsOfScans: (await count()) - before - rows };
    });
  const states = ['select', 'analyze'];

  test('dashboard figures read neither orders nor payments', async () => {
    for (const prepare of states) {
      await database.execute(prepare);
      const { answer, rows, rowsOfScans } = await read<Figures>('select * from public.dashboard_figures()', [
        'orders',
        'payments',
        'refunds',
        'products',
      ]);
      expect(rowsOfScans).toBeGreaterThanOrEqual(2 * size);
      expect(rows).toBe(0);
      const { rows: sums } = await database.query<Figures>(
        `select
           (select count(*) from public.products where is_active) as products,
           count(*) as orders, sum(total_amount) as revenue,
           (select sum(charge_cents) from public.payments where status = 'completed') as received
         from public.orders`,
      );
      expect(answer[0]).toMatchObject(sums[0] as unknown as Record<string, unknown>);
      const month = await read<{ orders: number }>('select * from public.daily_figures(30)', ['orders']);
      expect(month.rows).toBe(0);
      expect(month.rowsOfScans).toBe(size);
      expect(month.answer.some(({ orders }) => Number(orders) === 144)).toBe(true);
    }
  });

  test('all orders are counted exactly without reading them, those of a filter up to a limit', async () => {
    for (const prepare of states) {
      await database.execute(prepare);
      const all = await read<{ count: number }>('select public.count_orders() as count', ['orders']);
      expect(all.answer).toEqual([{ count: size }]);
      expect(all.rows).toBe(0);
    }
    expect(await asStaff<number>('count_orders', { status: 'delivered' })).toBe(10_001);
    expect(await asStaff<number>('count_orders', { payment: 'paid' })).toBe(10_001);
    expect(await asStaff<number>('count_orders', { status: 'pending' })).toBe(0);
  });

  test('a day of the reconciliation reads the rows of the day', async () => {
    for (const prepare of states) {
      await database.execute(prepare);
      const day = await read<{ day: { rows: unknown[] } }>(
        `select to_jsonb(public.reconciliation_day((now() at time zone 'Africa/Nairobi')::date - 3)) as day`,
        ['orders', 'payments', 'refunds', 'mpesa_transactions', 'reconciliation_events'],
      );
      // Half of the 144 payments of a day were completed.
      expect(day.answer[0]?.day.rows).toHaveLength(72);
      expect(day.rowsOfScans).toBeGreaterThanOrEqual(2 * size);
      expect(day.rows).toBeLessThan(10 * 144);
    }
  });

  test('a page of customers reads their orders, and a customer only its own', async () => {
    await database.execute(`
      alter table public.orders disable trigger user;
      update public.orders set customer_phone = '+2547' || lpad((hashtext(id::text) & 2047)::text, 8, '0');
      alter table public.orders enable trigger user`);
    const tables = ['orders', 'payments', 'change_notes', 'blocked_phones'];
    for (const prepare of states) {
      await database.execute(prepare);
      const first = await read<{ id: string; created_at: string; phone: string; orders: number }>(
        'select * from public.list_customers()',
        tables,
      );
      expect(first.answer).toHaveLength(25);
      expect(first.rowsOfScans).toBeGreaterThanOrEqual(2 * size);
      // About five orders for each phone.
      expect(first.rows).toBeLessThan(25 * 60);
      const { id, phone } = first.answer.at(-1) as { id: string; phone: string };
      const next = await read<{ id: string }>(
        `select * from public.list_customers(before_id => '${id}', before_created_at =>
           (select created_at from public.orders where id = '${id}'))`,
        tables,
      );
      expect(next.answer).toHaveLength(25);
      // What it walks over again does not grow with the pages.
      expect(next.rows).toBeLessThan(25 * 60);
      const one = await read(`select * from public.customer_page('${phone}')`, tables);
      expect(one.rows).toBeLessThan(200);
    }
  });

  test('the figures of each day follow changes and deletions', async () => {
    await database.execute(`
      update public.orders set total_amount = 200000, created_at = created_at - interval '40 days' where order_number in ('ORD-100003', 'ORD-100005');
      update public.payments set completed_at = completed_at - interval '2 days' where receipt = 'UKL0000004';
      update public.payments set status = 'failed' where receipt = 'UKL0000006';
      delete from public.payments where receipt = 'UKL0000008'`);
    expect(await findWrongFigures(database)).toEqual([]);
    await database.execute(
      'update private.daily_totals set orders = orders + 1 where id = (select max(id) from private.daily_totals)',
    );
    expect(await findWrongFigures(database)).toHaveLength(1);
  });
});
