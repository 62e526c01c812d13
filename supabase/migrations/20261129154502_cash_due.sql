-- Earlier versions keep working: the new column can be null, and close_day fills it for them, too.

create type public.cash_due as (person text, orders bigint, cents bigint, open_orders bigint);

comment on type public.cash_due is
  'Cash of delivered orders that was not received by the end of a day. person: the rider who has it; null: delivered without one. open_orders: those of orders whose cash is not received yet.';

alter table public.day_closes add column cash_due jsonb;

comment on column public.day_closes.cash_due is
  'cash_due_of_day at that time. Null: closed by a version that did not store it.';

create or replace function private.cash_due(until timestamptz) returns table (order_id uuid, person text, cents integer, is_open boolean)
language plpgsql stable rows 20 set search_path = '' as $$
begin
  return query
  select o.id, d.delivery_person, coalesce(d.collected_cents, o.charge_cents), o.payment_status = 'unpaid'
  from (
    select due.id from public.orders as due
    where due.status = 'delivered' and due.payment_status = 'unpaid' and due.payment_method = 'cash'
    union
    select p.order_id from public.payments as p
    where p.completed_at >= cash_due.until and p.method = 'cash' and p.status = 'completed'
  ) as own
  cross join lateral (select * from public.orders as o where o.id = own.id offset 0) as o
  left join public.deliveries as d on d.order_id = o.id
  where o.status = 'delivered' and o.payment_method = 'cash'
    -- Without a time it was delivered before.
    and (d.delivery_time < cash_due.until) is not false
    and (o.payment_status = 'unpaid' or not exists (
      select from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.completed_at < cash_due.until
    ));
end
$$;

comment on function private.cash_due is
  'Orders in cash that were delivered before a moment, and whose cash was not noted as received by then. person: who delivered it. cents: what the rider got, as the rider said, or the charge. is_open: it is not received yet. infinity: all that are to be received now.';

create or replace function public.cash_due_of_day(day date) returns setof public.cash_due
language plpgsql stable security definer rows 10 set search_path = '' as $$
begin
  perform private.expect_staff('figures');
  return query
  select mode() within group (order by c.person), count(*), sum(c.cents), count(*) filter (where c.is_open)
  from private.cash_due((cash_due_of_day.day + 1)::timestamp at time zone 'Africa/Nairobi') as c
  group by lower(c.person)
  order by lower(c.person) nulls last;
end
$$;

comment on function public.cash_due_of_day is
  'For staff: cash that was not received by the end of a day in Nairobi, of orders that were delivered by then, by the rider who has it (private.cash_due).';

grant execute on function public.cash_due_of_day to authenticated, service_role;

create or replace function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer, cash_not_received integer, to_cancel integer, to_agree integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late')),
    (select count(*) from private.cash_due('infinity'))::integer,
    (
      select count(*) from public.orders as o
      where o.cancel_requested_at is not null and o.status <> 'cancelled' and private.has_cancel_request(o)
    )::integer,
    (select count(*) from public.orders as o where o.awaits_agreement and o.status <> 'cancelled')::integer;
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

create or replace function public.close_day(day date, counts jsonb, note text default null) returns public.day_closes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  closing_member uuid := private.expect_staff_member('figures');
  remark text := private.read_reason(close_day.note);
  counted private.cash_count[];
  wrong private.cash_count;
  outcome record;
begin
  if close_day.day is null or close_day.day > private.nairobi_day(now()) then
    perform private.refuse(400, 'day_in_future', 'This day has not begun yet');
  end if;
  counted := array(select c from private.read_cash_counts(close_day.counts) as c);
  if exists (select from unnest(counted) as c group by c.member having count(*) > 1) then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end if;
  select c.* into wrong from unnest(counted) as c
  where c.counted_cents is null or c.counted_cents % 100 <> 0 or abs(c.counted_cents) > 10000000000 limit 1;
  if found then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select c.* into wrong from unnest(counted) as c
  where c.counted_cents <> c.expected_cents and private.visible_length(coalesce(c.reason, '')) not between 3 and 200 limit 1;
  if found then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters', wrong.member::text);
  end if;

  -- One statement: totals and cash are of one moment.
  with closed as (
    insert into public.day_closes (day, totals, note, closed_by, closed_by_email, cash_due)
    select close_day.day, to_jsonb(t), remark, closing_member, private.email_of(closing_member),
      (select coalesce(jsonb_agg(c), '[]') from public.cash_due_of_day(close_day.day) as c)
    from public.day_totals(close_day.day) as t
    on conflict (day) do nothing
    returning *
  ), cash as materialized (
    select * from private.cash_by_member(close_day.day)
  ), saved_counts as (
    insert into public.cash_counts (day, member, member_email, taken_cents, given_back_cents, counted_cents, reason)
    select closed.day, cash.member, private.email_of(cash.member), cash.taken_cents, cash.given_back_cents, c.counted_cents, c.reason
    from closed, cash
    join unnest(counted) as c on c.member = cash.member and c.expected_cents = cash.taken_cents - cash.given_back_cents
    returning member
  )
  select closed.*, (select count(*) from saved_counts) = all (array[(select count(*) from cash), cardinality(counted)]) as is_whole
  into outcome from closed;
  if not found then
    perform private.refuse(409, 'day_closed', 'This day is closed already');
  elsif not outcome.is_whole then
    perform private.refuse(409, 'cash_changed', 'The cash of this day was changed in the meantime. Nothing was saved');
  end if;
  return (select d from public.day_closes as d where d.day = outcome.day);
end
$$;

comment on function public.close_day is
  'For staff: closes a day in Nairobi that has begun, once, with the cash that each member counted (private.read_cash_counts): one count for each member of cash_of_day, with the expected amount as seen. Another amount than expected needs a reason. Stores the totals of that moment, and the cash that was not received yet.';
