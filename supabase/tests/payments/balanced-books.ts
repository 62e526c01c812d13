// Invariants of orders, payments and stock.

import type { Database, Session } from '@jani-juice/backend/database';
import { expect } from 'vitest';

/** Days whose figures differ from the sums of their rows. */
export const wrongFigures = `
  select 'the figures of a day are those of its orders, payments and refunds', day::text
  from (
    select t.day, t.orders, t.revenue_cents, t.received_cents from private.daily_totals as t
    union all
    select private.nairobi_day(o.created_at), -1, -o.total_amount, 0 from public.orders as o
    union all
    select coalesce(private.nairobi_day(p.completed_at), '-infinity'), 0, 0, -p.charge_cents
    from public.payments as p where p.status = 'completed' and p.purpose = 'order'
    union all
    select coalesce(private.nairobi_day(r.completed_at), '-infinity'), 0, 0, r.refund_cents
    from public.refunds as r join public.payments as p on p.id = r.payment_id and p.purpose = 'order' where r.status = 'completed'
    union all
    select private.nairobi_day(c.noted_at), 0, 0, c.amount_cents from public.change_notes as c where c.kind = 'returned'
  ) as difference
  group by day
  having sum(orders) <> 0 or sum(revenue_cents) <> 0 or sum(received_cents) <> 0`;

// Each part returns the rows that violate one invariant.
const violatedInvariants = `
  select 'stock, sold and reserved units add up to the initial stock' as invariant, p.id::text as subject
  from unnest($1::uuid[], $2::integer[]) as was (product_id, units)
  join public.products as p on p.id = was.product_id
  left join public.order_items as i on i.product_id = p.id
  left join public.orders as o on o.id = i.order_id
  group by p.id, was.units
  having was.units <> p.stock_quantity + coalesce(sum(i.quantity) filter (
    where (o.payment_status in ('paid', 'refunded') and o.units_returned_at is null) or (o.payment_status = 'unpaid' and o.reserved_until is not null)
  ), 0)

  union all
  ${wrongFigures}

  union all
  select 'stock is never negative', id::text from public.products where stock_quantity < 0

  union all
  select 'held_units has the units that unpaid orders reserve', p.id::text
  from public.products as p
  left join private.held_units as h on h.product_id = p.id
  where coalesce(h.quantity, 0) <> (
    select coalesce(sum(i.quantity), 0)
    from public.order_items as i
    join public.orders as o on o.id = i.order_id
    where i.product_id = p.id and o.payment_status = 'unpaid' and o.reserved_until is not null and o.status in ('pending', 'cancelled')
  )

  union all
  select 'an order counts for its networks while it is unpaid and not handed over', o.id::text
  from private.order_networks as k
  join public.orders as o on o.id = k.order_id
  where o.payment_status <> 'unpaid' or o.status not in ('pending', 'cancelled')
    or k.is_open <> (o.status = 'pending') or (k.ended_at is null and o.reserved_until is null and o.status = 'cancelled')

  union all
  select 'hold time is counted only for an order that holds units', o.id::text
  from private.unpaid_holds as h
  join public.orders as o on o.id = h.order_id
  where o.payment_status <> 'unpaid' or o.reserved_until is null or o.status not in ('pending', 'cancelled')

  union all
  select 'no order expires after its limit, and no reservation after its order', id::text
  from public.orders where expires_at > expiry_limit or reserved_until > expires_at

  union all
  select 'a paid order has one completed payment that needs no refund, of the right amount or accepted by staff', o.id::text
  from public.orders as o
  left join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
  where o.payment_status in ('paid', 'needs_review')
  group by o.id
  having count(p.id) = 0
    or ((count(p.id) > 1 or sum(p.charge_cents) <> ceil(o.total_amount / 100.0) * 100) and (
      bool_or(p.method <> 'till')
      or sum(p.charge_cents) filter (where not private.is_being_refunded(p.id)) > ceil(o.total_amount / 100.0) * 100 and count(p.id) > 1
        and not exists (select from public.change_notes as c where c.payment_id = any (array_agg(p.id)))
      or (o.payment_status = 'paid' and not exists (select from public.change_notes as c where c.payment_id = any (array_agg(p.id))) and not exists (
        select from public.order_events as e
        where e.order_id = o.id and e.kind = 'payment_status_changed' and e.actor = 'staff' and e.details ->> 'from' = 'needs_review'
      ))
    ))

  union all
  select 'an unpaid order has no completed payment without a refund', o.id::text
  from public.orders as o
  join public.payments as p on p.order_id = o.id and p.status = 'completed'
  where o.payment_status = 'unpaid' and not (p.needs_refund and exists (
    select from public.refunds as r where r.payment_id = p.id and r.status <> 'withdrawn'
  ))

  union all
  select 'an order is not delivered while its payment is being refunded', o.id::text
  from public.orders as o
  join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
  join public.refunds as r on r.receipt = p.receipt and r.status not in ('failed', 'withdrawn')
  where o.payment_status = 'paid' and o.status <> 'cancelled'

  union all
  select 'a test payment belongs to no order', p.id::text
  from public.payments as p
  where p.purpose = 'test' and (p.order_id is not null or p.charge_cents <> 100 or p.needs_refund)

  union all
  select 'an order has a delivery if and only if it is paid', o.id::text
  from public.orders as o
  where o.payment_status <> 'refunded'
    and (o.payment_status = 'paid') <> exists (select from public.deliveries as d where d.order_id = o.id)

  union all
  select 'an order and its delivery agree', o.id::text
  from public.orders as o
  join public.deliveries as d on d.order_id = o.id
  where d.delivery_status <> private.delivery_status_for_order(o, d.delivery_status, d.delivery_person)

  union all
  select 'a paid order is not reserved, and only staff cancel it', o.id::text
  from public.orders as o
  where o.payment_status = 'paid' and (o.reserved_until is not null or (o.status = 'cancelled' and not exists (
    select from public.order_events as e
    where e.order_id = o.id and e.kind = 'status_changed' and e.actor = 'staff' and e.details ->> 'to' = 'cancelled'
      and e.id > (select max(paid.id) from public.order_events as paid
        where paid.order_id = o.id and paid.kind = 'payment_status_changed' and paid.details ->> 'to' = 'paid')
  )))

  union all
  select 'only cancelled orders have returned units', id::text
  from public.orders where units_returned_at is not null and status <> 'cancelled'

  union all
  select 'an order has at most one open attempt', order_id::text
  from public.payments
  where purpose = 'order' and status in ('initiating', 'processing') group by order_id having count(*) > 1

  union all
  select 'a completed payment was completed by exactly one message', p.id::text
  from public.payments as p
  where p.status = 'completed' and p.purpose = 'order' and 1 <> (
    select count(*) from public.payment_messages as m
    where m.payment_id = p.id and m.outcome in ('paid', 'paid_twice', 'paid_needs_review', 'goes_back')
  )

  union all
  select 'a transaction of M-PESA is matched to the payment with its receipt, or to none', t.receipt
  from public.mpesa_transactions as t
  left join public.payments as p on p.receipt = t.receipt
  where t.payment_id is distinct from p.id or (p.id is not null and p.status <> 'completed')

  union all
  select 'only a completed prompt with a receipt has a presumption', p.id::text
  from public.payments as p
  where p.presumption is not null and (p.receipt is null or p.status <> 'completed' or p.method <> 'prompt')

  union all
  select 'a payment is refunded once, up to its amount', p.id::text
  from public.payments as p
  join public.refunds as r on r.payment_id = p.id and r.status not in ('failed', 'withdrawn')
  group by p.id
  having count(*) > 1 or sum(r.refund_cents) > p.charge_cents or p.status <> 'completed' or bool_or(r.receipt <> p.receipt)

  union all
  select 'what was refunded, went back as change and is owed never exceeds what came', p.id::text
  from public.payments as p
  cross join lateral private.change_of(p.id) as change
  left join public.mpesa_transactions as t on t.receipt = p.receipt
  where change.returned_cents + change.owed_cents > greatest(p.charge_cents, t.received_cents)
    or change.returned_cents + (
      select coalesce(sum(r.refund_cents), 0) from public.refunds as r where r.payment_id = p.id and r.status not in ('failed', 'withdrawn')
    ) > greatest(p.charge_cents, t.received_cents)

  union all
  select 'a payment is marked as refunded if and only if a refund of it is completed', p.id::text
  from public.payments as p
  where (p.refunded_at is not null) <> exists (
    select from public.refunds as r where r.payment_id = p.id and r.status = 'completed'
  )

  union all
  select 'an order is refunded if and only if its own payment is refunded', o.id::text
  from public.orders as o
  join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
  group by o.id
  having (o.payment_status = 'refunded') <> bool_and(p.refunded_at is not null)

  union all
  select 'a refund by M-PESA is completed by M-PESA or by staff', r.id::text
  from public.refunds as r
  where r.method = 'reversal' and r.status = 'completed'
    and not exists (select from public.payment_messages as m where m.refund_id = r.id and m.outcome = 'completed')
    and not exists (
      select from public.order_events as e join public.payments as p on p.order_id = e.order_id
      where p.id = r.payment_id and e.kind = 'refund_completed' and e.actor = 'staff'
    )

  union all
  select 'a refund above the limit is approved by a second staff member', id::text
  from public.refunds
  where method = 'reversal' and needs_approval and sent_at is not null
    and (approved_by is null or approved_by = requested_by)

  union all
  select 'only payments in processing are queried, and those whose message contradicted itself', id::text
  from public.payments
  where next_query_at is not null and status <> 'processing' and not (status = 'review' and review_cause = 'contradiction')
`;

// The embedded database takes several times as long to plan this as to run it, and some tests run it after every
// step: a function caches its plan.
const plannedOnce = `
  create schema tests;
  create function tests.violated_invariants(products uuid[], units integer[])
  returns table (invariant text, subject text) language plpgsql
  set plan_cache_mode = force_generic_plan
  as $function$ begin return query ${violatedInvariants}; end $function$`;
const planned = new WeakMap<Database, Promise<void>>();

async function queryFor(database: Database): Promise<string> {
  if (database.kind === 'postgresql') return violatedInvariants;
  const made = planned.get(database) ?? database.execute(plannedOnce);
  planned.set(database, made);
  await made;
  return 'select invariant, subject from tests.violated_invariants($1, $2)';
}

/**
 * Expects every invariant to hold.
 * @param units stock of each product before the first order
 * @param session reads uncommitted changes of this session. This function must have run on the database before, because the
 * embedded database does nothing else while a transaction is open
 */
export async function expectBalancedBooks(
  database: Database,
  units: ReadonlyMap<string, number>,
  session: Pick<Session, 'query'> = database,
): Promise<void> {
  const { rows } = await session.query(await queryFor(database), [
    `{${[...units.keys()].join(',')}}`,
    `{${[...units.values()].join(',')}}`,
  ]);
  expect(rows).toEqual([]);
}
