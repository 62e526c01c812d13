// Figures that are equal in a database and its copy.
import type { Session } from '@jani-juice/backend/database';

/** Rows per table, and sums of money. */
export type Figures = Record<string, number>;

/** Counts all permanent rows. Run it within one transaction for a consistent result. */
export async function readFigures(session: Session): Promise<Figures> {
  const { rows: tables } = await session.query<{ count: string }>(
    `select format('select %L as name, count(*) as value from %I.%I', n.nspname || '.' || c.relname, n.nspname, c.relname) as count
     from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
     -- Unlogged tables are empty after every restore.
     where c.relkind in ('r', 'p') and c.relpersistence = 'p'
       and n.nspname in ('public', 'private', 'auth', 'storage', 'platform')
     order by 1`,
  );
  const { rows } = await session.query<{ name: string; value: number }>(
    tables.map(({ count }) => count).join(' union all '),
  );
  return {
    ...Object.fromEntries(rows.map(({ name, value }) => [name, value])),
    ...(await readSums(session)),
  };
}

/** Sums of money, and of units in stock. */
export async function readSums(session: Session): Promise<Figures> {
  const { rows } = await session.query<{ name: string; value: number }>(
    `select 'total of all orders' as name, coalesce(sum(total_amount), 0)::bigint as value from public.orders
     union all select 'total of paid orders', coalesce(sum(total_amount), 0)::bigint from public.orders where payment_status = 'paid'
     union all select 'total of all items and fees', (
       (select coalesce(sum(unit_price::bigint * quantity), 0) from public.order_items)
       + (select coalesce(sum(delivery_fee), 0) from public.orders)
     )::bigint
     union all select 'money received', coalesce(sum(charge_cents), 0)::bigint from public.payments
       where status = 'completed' and purpose = 'order'
     union all select 'units in stock', coalesce(sum(stock_quantity), 0)::bigint from public.products`,
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

/** @returns null when they are equal, else a sentence that names the first difference */
export function differenceOf(expected: Figures, found: Figures): string | null {
  for (const name of new Set([...Object.keys(expected), ...Object.keys(found)])) {
    if (expected[name] !== found[name]) {
      return `${name}: ${expected[name] ?? 'nothing'} in the shop, ${found[name] ?? 'nothing'} in the copy`;
    }
  }
  return null;
}
