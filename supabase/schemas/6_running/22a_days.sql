-- The money of a day: its rows, how its totals follow from each other, cash by person, and the close of the day
-- (docs/decisions/days.md).

create index refunds_by_completion on public.refunds (completed_at) where completed_at is not null;
create index change_notes_by_time on public.change_notes (noted_at);

-- Rows

create function private.signed_change(kind text, amount_cents integer) returns integer
language sql immutable
return case when kind in ('credit', 'to_return', 'use_taken_back') then amount_cents else -amount_cents end;
comment on function private.signed_change is 'How much more is owed to the customer after a note of change.';

create function private.change_balance(payment_id uuid, moment timestamptz, note_id uuid) returns bigint
language sql stable set search_path = '' as $$
  -- Part of the price that went back was never owed.
  select coalesce(sum(private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end)), 0)
  from public.change_notes as c
  where c.payment_id = change_balance.payment_id and (c.noted_at, c.id) < (change_balance.moment, change_balance.note_id)
    -- A refund returns all that is left of a payment.
    and not exists (
      select from public.refunds as r
      where r.payment_id = change_balance.payment_id and r.status = 'completed' and r.completed_at < change_balance.moment
    );
$$;
comment on function private.change_balance is
  'Change of a payment that was noted before a note: what is owed to its customer, less what went back. Only a positive balance is owed.';

create type private.money_row as (
  id uuid, happened_at timestamptz, kind text, payment_id uuid, order_id uuid, receipt text,
  received_cents integer, refunded_cents integer, kept_cents bigint, member uuid, received_from text, note text
);

create function private.money_rows(since timestamptz, until timestamptz) returns setof private.money_row
language plpgsql stable rows 100 set search_path = '' as $$
begin
  return query
  select p.id, p.completed_at, p.method, p.id, p.order_id, p.receipt,
    p.charge_cents, 0, 0::bigint, p.confirmed_by, p.received_from, p.note
  from public.payments as p
  -- No money comes with credit: its note is below.
  where p.status = 'completed' and p.purpose = 'order' and p.method <> 'credit'
    and p.completed_at >= money_rows.since and p.completed_at < money_rows.until
  union all
  select r.id, r.completed_at, case r.method when 'reversal' then 'refund_by_mpesa' when 'cash' then 'refund_in_cash' else 'refund_by_hand' end,
    p.id, p.order_id, coalesce(r.refund_receipt, r.receipt), 0, r.refund_cents,
    -greatest(private.change_balance(p.id, r.completed_at, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), 0), r.requested_by, null, r.reason
  from public.refunds as r
  -- A lookup by key for each refund, with any statistics.
  cross join lateral (select * from public.payments as own where own.id = r.payment_id offset 0) as p
  where r.status = 'completed' and p.purpose = 'order' and r.method <> 'credit'
    and r.completed_at >= money_rows.since and r.completed_at < money_rows.until
  union all
  select c.id, c.noted_at,
    case
      when c.kind in ('credit', 'to_return') then 'kept'
      when c.kind = 'used' then 'credit_used'
      when c.kind = 'use_taken_back' then 'credit_returned'
      when c.kind = 'not_owed' then 'not_owed'
      -- Earlier versions did not note how it went back.
      when coalesce(c.way = 'cash', p.method = 'cash' and c.receipt is null) then 'change_in_cash'
      else 'change_by_hand'
    end,
    p.id, p.order_id, c.receipt, 0, case when c.kind = 'returned' then c.amount_cents else 0 end,
    case when own.is_refunded then 0 else greatest(own.balance + own.cents, 0) - greatest(own.balance, 0) end,
    c.noted_by, null, c.note
  from public.change_notes as c
  cross join lateral (select * from public.payments as own where own.id = c.payment_id offset 0) as p
  cross join lateral (
    select private.change_balance(p.id, c.noted_at, c.id) as balance,
      private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end) as cents,
      exists (
        select from public.refunds as r where r.payment_id = p.id and r.status = 'completed' and r.completed_at < c.noted_at
      ) as is_refunded
  ) as own
  where p.purpose = 'order' and c.noted_at >= money_rows.since and c.noted_at < money_rows.until;
end
$$;
comment on function private.money_rows is
  'What moved money of orders within a period. kind: prompt, till, cash (a payment by its method); refund_by_mpesa, refund_by_hand, refund_in_cash; change_by_hand, change_in_cash (part of a payment went back); kept (owed to the customer); credit_used, credit_returned (it paid another order, or did not after all); not_owed (less is owed than was noted). kept_cents: how much more the shop owes to customers after it. member: who took cash, gave it back, or requested the refund.';

create type public.money_entry as (
  id uuid, happened_at timestamptz, kind text, order_id uuid, order_number text, tracking_number text, customer_name text,
  customer_phone text, receipt text, received_cents integer, refunded_cents integer, kept_cents bigint, delivery_fee integer,
  items text, member_email text, received_from text, note text, discount_cents integer
);

create function public.money_entries(
  since date, until date, after_time timestamptz default null, after_id uuid default null, page_size integer default 1000
) returns setof public.money_entry
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff('figures');
  perform private.expect_span(money_entries.since, money_entries.until);
  return query
  select m.id, m.happened_at, m.kind, m.order_id, o.order_number, o.tracking_number, o.customer_name, o.customer_phone, m.receipt,
    m.received_cents, m.refunded_cents, m.kept_cents,
    case when first.is_own then o.delivery_fee end,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position) from public.order_items as i where i.order_id = o.id),
    private.email_of(m.member), m.received_from, m.note, case when first.is_own then o.discount_cents end
  from (
    select page.*
    from private.money_rows(
      greatest(money_entries.since::timestamp at time zone 'Africa/Nairobi', money_entries.after_time),
      (money_entries.until + 1)::timestamp at time zone 'Africa/Nairobi'
    ) as page
    where money_entries.after_time is null or (page.happened_at, page.id) > (money_entries.after_time, money_entries.after_id)
    order by page.happened_at, page.id
    limit least(greatest(coalesce(money_entries.page_size, 1000), 1), 1000)
  ) as m
  cross join lateral (select * from public.orders as own where own.id = m.order_id offset 0) as o
  -- With the first payment that counts: fees and discounts of a file add up.
  cross join lateral (
    select m.id = (
      select p.id from public.payments as p
      where p.order_id = o.id and p.status = 'completed' and not p.needs_refund
      order by p.completed_at, p.id limit 1
    ) as is_own
  ) as first
  order by m.happened_at, m.id;
end
$$;
comment on function public.money_entries is
  'For staff: what moved money of orders on the days of a span in Nairobi, the earliest first, at most 1,000 after a row. Amounts in cents; kinds as in private.money_rows. delivery_fee, discount_cents: with the first payment that counts for its order.';

-- Totals

create function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint,
  by_prompt bigint, by_till bigint, in_cash bigint, refunded_by_mpesa bigint, refunded_by_hand bigint, refunded_in_cash bigint,
  kept bigint, paid_with_credit bigint,
  missing_at_mpesa bigint, not_compared bigint, amounts_differ bigint, not_matched bigint, not_ours bigint, returned_unmatched bigint,
  at_mpesa bigint, discounts bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  since timestamptz := day_totals.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (day_totals.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff('figures');
  return query
  with orders as (
    select o.total_amount, o.charge_cents, o.delivery_fee, o.discount_cents, o.payment_status <> 'unpaid' as is_paid, money.*
    from public.orders as o
    cross join lateral (
      select count(*) as payments,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit'), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.method = 'credit'), 0) as credit_cents,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit' and p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      -coalesce(sum(o.credit_cents), 0) as paid_with_credit,
      coalesce(sum(o.cents + o.credit_cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees,
      coalesce(sum(o.discount_cents) filter (where o.is_paid), 0) as discounts
    from orders as o
  ), by_row as (
    select
      coalesce(sum(m.received_cents), 0) as received,
      coalesce(sum(m.received_cents) filter (where m.kind = 'prompt'), 0) as by_prompt,
      coalesce(sum(m.received_cents) filter (where m.kind = 'till'), 0) as by_till,
      coalesce(sum(m.received_cents) filter (where m.kind = 'cash'), 0) as in_cash,
      -coalesce(sum(m.refunded_cents), 0) as refunded,
      -coalesce(sum(m.refunded_cents) filter (where m.kind = 'refund_by_mpesa'), 0) as refunded_by_mpesa,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_by_hand', 'change_by_hand')), 0) as refunded_by_hand,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_in_cash', 'change_in_cash')), 0) as refunded_in_cash,
      -coalesce(sum(m.kept_cents), 0) as kept,
      coalesce(sum(m.received_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(m.received_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from private.money_rows(since, until) as m
    left join lateral (select o.payment_status from public.orders as o where o.id = m.order_id offset 0) as o on m.received_cents > 0
    left join lateral (select t.transacted_at from public.mpesa_transactions as t where t.payment_id = m.payment_id offset 0) as t
      on m.received_cents > 0
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    cross join lateral (select p.* from public.payments as p where p.id = t.payment_id offset 0) as p
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), compared as (
    select r.their_cents, case when r.payment_status = 'completed' then r.our_cents end as our_cents, r.kind, r.resolution
    from private.reconciliation_rows(since, until) as r
  ), at_mpesa as (
    select
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind = 'missing_there'), 0) as missing_at_mpesa,
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind <> 'missing_there'), 0) as not_compared,
      coalesce(sum(c.their_cents - c.our_cents), 0) as amounts_differ,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and coalesce(c.resolution, '') not in ('not_an_order', 'refund')), 0) as not_matched,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'not_an_order'), 0) as not_ours,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'refund'), 0) as returned_unmatched,
      coalesce(sum(c.their_cents), 0) as total
    from compared as c
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, b.refunded, b.received + b.refunded,
    c.cents - b.left_day, b.received - b.in_cash + c.cents - b.left_day,
    a.delivery_fees, b.in_review,
    b.by_prompt, b.by_till, b.in_cash, b.refunded_by_mpesa, b.refunded_by_hand, b.refunded_in_cash,
    b.kept::bigint, a.paid_with_credit::bigint,
    d.missing_at_mpesa, d.not_compared, d.amounts_differ, d.not_matched, d.not_ours, d.returned_unmatched, d.total,
    a.discounts
  from by_order as a, by_row as b, other_day as c, at_mpesa as d;
end
$$;
comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. by_prompt + by_till + in_cash = received (payments completed on the day); + refunded_by_mpesa + refunded_by_hand + refunded_in_cash (together refunded; change that went back is in them) = net_received, as in dashboard_figures; + kept (owed to customers) is the shop''s own. received - in_cash + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days; + missing_at_mpesa + not_compared + amounts_differ + not_matched + not_ours + returned_unmatched (went back without an order) = at_mpesa. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_with_credit + paid_otherwise (marked as paid, without a payment) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received. Included: delivery_fees of paid orders, in_review of received. discounts of paid orders: already taken off placed.';

-- Cash by person

create type public.handed_over as (person text, payments bigint, cents bigint);
comment on type public.handed_over is 'Cash that a rider handed over. person: null for customers.';

create function private.cash_by_member(day date) returns table (
  member uuid, taken_cents bigint, given_back_cents bigint, handed_over public.handed_over[]
)
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
begin
  return query
  with moved as materialized (
    select m.*
    from private.money_rows(
      cash_by_member.day::timestamp at time zone 'Africa/Nairobi', (cash_by_member.day + 1)::timestamp at time zone 'Africa/Nairobi'
    ) as m
    where m.kind in ('cash', 'refund_in_cash', 'change_in_cash') and m.member is not null
  ), taken as (
    select m.member, m.received_from, count(*) as payments, sum(m.received_cents) as cents
    from moved as m where m.kind = 'cash' group by m.member, m.received_from
  )
  select m.member, sum(m.received_cents), sum(m.refunded_cents),
    array(
      select (t.received_from, t.payments, t.cents)::public.handed_over
      from taken as t where t.member = m.member order by t.received_from nulls last
    )
  from moved as m
  group by m.member;
end
$$;
comment on function private.cash_by_member is 'Cash that each staff member took and gave back on a day in Nairobi, and who handed it over.';

create function public.cash_of_day(day date) returns table (
  member uuid, email text, taken_cents bigint, given_back_cents bigint, expected_cents bigint, handed_over public.handed_over[]
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('figures');
  return query
  select c.member, private.email_of(c.member), c.taken_cents, c.given_back_cents, c.taken_cents - c.given_back_cents, c.handed_over
  from private.cash_by_member(cash_of_day.day) as c
  order by 2, 1;
end
$$;
comment on function public.cash_of_day is
  'For staff: the cash of a day in Nairobi by the member who took it or gave it back. expected_cents: what should be there, without the change that the day began with.';

-- Close of the day

create table public.day_closes (
  day date primary key,
  totals jsonb not null,
  note text,
  closed_by uuid not null,
  closed_by_email text,
  closed_at timestamptz not null default now(),
  cash_due jsonb
);
comment on table public.day_closes is
  'Days that staff closed, by close_day. totals: day_totals at that time; later changes of the day leave it as it is. Append-only.';
comment on column public.day_closes.cash_due is
  'cash_due_of_day at that time. Null: closed by a version that did not store it.';
comment on column public.day_closes.closed_by_email is 'The email address at that time.';
alter table public.day_closes enable row level security;
revoke all on public.day_closes from anon, authenticated, service_role;
grant select on public.day_closes to authenticated, service_role;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (day) on public.day_closes to anon;
create policy "staff read every close" on public.day_closes for select to authenticated using ((select public.may('figures')));

create table public.cash_counts (
  day date not null references public.day_closes (day),
  member uuid not null,
  member_email text,
  taken_cents bigint not null,
  given_back_cents bigint not null,
  expected_cents bigint not null generated always as (taken_cents - given_back_cents) stored,
  counted_cents bigint not null,
  reason text,
  primary key (day, member),
  constraint "counted cash that differs has a reason" check (counted_cents = taken_cents - given_back_cents or reason is not null)
);
comment on table public.cash_counts is
  'Cash that a staff member took, gave back and counted on a closed day. Append-only.';
comment on column public.cash_counts.reason is 'Why the counted cash differs from what is expected.';
alter table public.cash_counts enable row level security;
revoke all on public.cash_counts from anon, authenticated, service_role;
grant select on public.cash_counts to authenticated, service_role;
create policy "staff read every count" on public.cash_counts for select to authenticated using ((select public.may('figures')));

create trigger day_closes_before_change before update or delete on public.day_closes
  for each row execute function private.refuse_change('A closed day stays as it was closed');
create trigger day_closes_before_truncate before truncate on public.day_closes
  for each statement execute function private.refuse_change('A closed day stays as it was closed');
create trigger cash_counts_before_change before update or delete on public.cash_counts
  for each row execute function private.refuse_change('A closed day stays as it was closed');
create trigger cash_counts_before_truncate before truncate on public.cash_counts
  for each statement execute function private.refuse_change('A closed day stays as it was closed');

create type private.cash_count as (member uuid, expected_cents bigint, counted_cents bigint, reason text);

create function private.read_cash_counts(counts jsonb) returns setof private.cash_count
language plpgsql stable set search_path = '' as $$
begin
  if jsonb_typeof(read_cash_counts.counts) is distinct from 'array' or jsonb_array_length(read_cash_counts.counts) > 200 then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end if;
  begin
    return query
    select c.member, c.expected_cents, c.counted_cents, private.visible_text(left(c.reason, 1000))
    from jsonb_to_recordset(read_cash_counts.counts) as c (member uuid, expected_cents bigint, counted_cents bigint, reason text);
  exception when data_exception then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end;
end
$$;
comment on function private.read_cash_counts is
  'Reads what staff counted: [{"member", "expected_cents", "counted_cents", "reason"}, …]. expected_cents: as the staff member saw it.';

create function public.close_day(day date, counts jsonb, note text default null) returns public.day_closes
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

-- Execution rights
grant execute on function public.money_entries, public.day_totals, public.cash_of_day, public.close_day to authenticated, service_role;
