// The totals of every day follow from each other and equal its rows, the dashboard, the books, the file for the accountant and the
// reports.
import { expect } from 'vitest';
import type { Steps } from '../../steps.ts';

type Sums = Record<string, number>;
const asNumbers = (row: Record<string, unknown> | undefined): Sums =>
  Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]));

export interface Entry {
  id: string;
  happened_at: string;
  kind: string;
  received_cents: number;
  refunded_cents: number;
  kept_cents: number;
  delivery_fee: number | null;
  discount_cents: number | null;
}

/** The rows of the file for the accountant. */
export async function readEntries(
  { queryAs }: Pick<Steps, 'queryAs'>,
  since: string,
  until = since,
  page_size = 40,
): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (;;) {
    const last = entries.at(-1);
    const page = await queryAs<Entry>(
      'staff',
      `select to_char(happened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as happened_at, id, kind, received_cents,
         refunded_cents, kept_cents::integer as kept_cents, delivery_fee, discount_cents
       from public.money_entries($1, $2, $3, $4, $5)`,
      [since, until, last?.happened_at ?? null, last?.id ?? null, page_size],
    );
    if (page.rows.length === 0) return entries;
    entries.push(...page.rows);
  }
}

/** Sums of the rows, written without the procedures that are tested. */
const plainSums = `
  select
    coalesce((select sum(charge_cents) from paid where method = 'prompt'), 0) as by_prompt,
    coalesce((select sum(charge_cents) from paid where method = 'till'), 0) as by_till,
    coalesce((select sum(charge_cents) from paid where method = 'cash'), 0) as in_cash,
    -coalesce((select sum(refund_cents) from sent_back where method = 'reversal'), 0) as refunded_by_mpesa,
    -coalesce((select sum(refund_cents) from sent_back where method = 'cash'), 0)
      - coalesce((select sum(amount_cents) from returned where is_cash), 0) as refunded_in_cash,
    -coalesce((select sum(refund_cents) from sent_back where method = 'by_hand'), 0)
      - coalesce((select sum(amount_cents) from returned where not is_cash), 0) as refunded_by_hand
`;
const rowsOfDay = `
  with paid as (
    select p.* from public.payments as p
    where p.status = 'completed' and p.purpose = 'order' and (p.completed_at at time zone 'Africa/Nairobi')::date = $1
  ), sent_back as (
    select r.* from public.refunds as r join public.payments as p on p.id = r.payment_id and p.purpose = 'order'
    where r.status = 'completed' and (r.completed_at at time zone 'Africa/Nairobi')::date = $1
  ), returned as (
    select c.*, coalesce(c.way = 'cash', p.method = 'cash' and c.receipt is null) as is_cash from public.change_notes as c join public.payments as p on p.id = c.payment_id
    where c.kind = 'returned' and (c.noted_at at time zone 'Africa/Nairobi')::date = $1
  )`;

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
const sumOf = (totals: Sums, ...steps: string[]) => sum(steps.map((step) => totals[step] ?? Number.NaN));

export async function expectExplainedDays(
  steps: Pick<Steps, 'queryAs' | 'readRow' | 'readColumn' | 'readValue'>,
): Promise<void> {
  const { queryAs, readRow, readColumn, readValue } = steps;
  const askStaff = async (sql: string, given: unknown[]) =>
    asNumbers((await queryAs('staff', sql, given)).rows[0] as Record<string, unknown>);
  const days = await readColumn(`
    select distinct moved.day::text from (
      select (completed_at at time zone 'Africa/Nairobi')::date as day from public.payments
      union select (completed_at at time zone 'Africa/Nairobi')::date from public.refunds
      union select (noted_at at time zone 'Africa/Nairobi')::date from public.change_notes
      union select (created_at at time zone 'Africa/Nairobi')::date from public.orders
      union select (transacted_at at time zone 'Africa/Nairobi')::date from public.mpesa_transactions
    ) as moved where moved.day is not null order by 1`);
  const nets: number[] = [];
  let kept = 0;
  for (const day of days) {
    const t = await askStaff('select * from public.day_totals($1)', [day]);
    expect(t, day).toMatchObject(asNumbers(await readRow(rowsOfDay + plainSums, [day])));

    expect(sumOf(t, 'by_prompt', 'by_till', 'in_cash')).toBe(t.received);
    expect(sumOf(t, 'refunded_by_mpesa', 'refunded_by_hand', 'refunded_in_cash')).toBe(t.refunded);
    expect(sumOf(t, 'received', 'refunded')).toBe(t.net_received);
    expect(sumOf(t, 'received', 'other_clock') - (t.in_cash ?? 0), `${day}, booked`).toBe(t.booked);
    expect(
      sumOf(
        t,
        'booked',
        'missing_at_mpesa',
        'not_compared',
        'amounts_differ',
        'not_matched',
        'not_ours',
        'returned_unmatched',
      ),
      `${day}, at M-PESA`,
    ).toBe(t.at_mpesa);
    expect(
      sumOf(t, 'placed', 'rounding', 'not_paid', 'paid_with_credit', 'paid_otherwise', 'other_amounts'),
    ).toBe(t.received_for_orders);
    expect(sumOf(t, 'received_for_orders', 'paid_other_days', 'placed_other_days')).toBe(t.received);

    const dashboard = asNumbers(
      await readRow(
        `select coalesce(sum(revenue_cents), 0) as placed, coalesce(sum(received_cents), 0) as net_received
         from private.daily_totals where day = $1`,
        [day],
      ),
    );
    expect(t).toMatchObject(dashboard);
    const books = await askStaff('select ours, theirs from public.reconciliation_days($1, $1)', [day]);
    expect([t.booked, t.at_mpesa], `${day}, the books`).toEqual([books.ours, books.theirs]);

    const entries = await readEntries(steps, day);
    expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length);
    expect([
      sum(entries.map(({ received_cents }) => received_cents)),
      sum(entries.map(({ refunded_cents }) => refunded_cents)),
      sum(entries.map(({ kept_cents }) => kept_cents)),
    ]).toEqual([t.received, 0 - (t.refunded ?? Number.NaN), 0 - (t.kept ?? Number.NaN)]);
    nets.push(t.net_received ?? Number.NaN);
    kept += t.kept ?? Number.NaN;
  }
  const dashboard = await askStaff('select received from public.dashboard_figures()', []);
  const withoutTime = Number(
    await readValue(
      `select coalesce(sum(received_cents), 0) from private.daily_totals where day = '-infinity'`,
    ),
  );
  expect(sum(nets) + withoutTime).toBe(dashboard.received);
  // What is kept for customers is what their payments are owed still.
  const owed = await readValue(`
    select coalesce(sum(c.owed_cents), 0) from public.payments as p cross join lateral private.change_of(p.id) as c
    where p.purpose = 'order' and p.refunded_at is null`);
  expect(0 - kept).toBe(Number(owed));

  const [first, last] = [days[0], days.at(-1)];
  if (!first || !last || Date.parse(last) - Date.parse(first) > 360 * 86_400_000) return;
  const reported = await queryAs<{ day: string; net: string }>(
    'staff',
    'select d.day::text, d.net_cents::text as net from public.report($1, $2) as r, unnest((r).days) as d',
    [first, last],
  );
  expect(
    Object.fromEntries(
      reported.rows.filter(({ day }) => days.includes(day)).map(({ day, net }) => [day, Number(net)]),
    ),
  ).toEqual(Object.fromEntries(days.map((day, index) => [day, nets[index]])));
  expect(sum(reported.rows.map(({ net }) => Number(net)))).toBe(sum(nets));
}
