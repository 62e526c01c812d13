-- Reconciliation: the books of M-PESA and the shop by day, and the resolution of differences by staff.

create table public.reconciliation_events (
  id bigint generated always as identity primary key,
  receipt text,
  payment_id uuid,
  order_id uuid,
  kind text not null,
  note text,
  actor_id uuid,
  actor_email text,
  happened_at timestamptz not null default clock_timestamp(),
  constraint "a decision is known" check (kind in (
    'given', 'not_an_order', 'refund', 'accepted', 'reopened', 'taken_back', 'delivered',
    'change_credit', 'change_to_return', 'change_returned', 'change_used', 'change_use_taken_back', 'change_not_owed'
  )),
  constraint "a decision is about something" check (num_nonnulls(receipt, payment_id) >= 1)
);
comment on table public.reconciliation_events is
  'Staff decisions about differences between the books and M-PESA. Append-only, by resolve_difference, resolve_review, take_back_payment, and with notes of change. actor_email: the email address at that time.';
alter table public.reconciliation_events enable row level security;
revoke all on public.reconciliation_events from anon, authenticated, service_role;
grant select on public.reconciliation_events to authenticated, service_role;
grant select (id) on public.reconciliation_events to anon;
create policy "staff read every decision" on public.reconciliation_events
  for select to authenticated using ((select public.may('reconciliation')));
create index reconciliation_events_by_receipt on public.reconciliation_events (receipt, id);
create index reconciliation_events_by_payment on public.reconciliation_events (payment_id, id);

create type public.reconciliation_row as (
  id text, happened_at timestamptz, kind text, is_open boolean, receipt text, our_cents integer, their_cents integer,
  payment_id uuid, payment_status text, method text, needs_refund boolean, refunded_at timestamptz, refund_status text,
  order_id uuid, order_number text, tracking_number text, customer_name text, charge_cents integer,
  order_payment_status text, reference text, payer_name text, payer_phone text,
  reported_by_confirmation_at timestamptz, reported_by_statement_at timestamptz, resolution text,
  order_status text, order_booked_cents bigint, order_waiting_cents bigint, owed_cents bigint, returned_cents bigint, confirmed_by uuid
);
comment on type public.reconciliation_row is
  'A payment in the books of the shop and of M-PESA, joined by receipt. kind: matched; missing_here (no payment has M-PESA''s receipt); missing_there (a statement covers the payment but lacks it); not_compared (no statement covers it yet); typed (staff typed a receipt that M-PESA should have reported); double; wrong_amount. order_booked_cents: what counts for its order (counted_cents); order_waiting_cents: unassigned money under the order''s number.';

create function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable set search_path = '' as $$
declare
  coverage tstzmultirange := private.statement_coverage(tstzrange(since, until + interval '10 minutes'));
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when private.ended_unpaid(p.status) then 'wrong_amount'
        -- Paid twice. Earlier versions read this word.
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents
          or (o.payment_status = 'needs_review' and money.counted_cents <> o.charge_cents) then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        -- A payment that joins a later attempt was completed before that was made.
        when (
          case when p.created_at >= since then coverage
            else private.statement_coverage(tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes')) end
        ) @> tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.counted_cents, money.waiting_cents, change.owed_cents, change.returned_cents, change.used_cents
    from entries as e
    -- Lookups by key for each entry, with any statistics: an offset keeps the planner from joining whole tables.
    left join lateral (select * from public.payments as p where p.id = e.payment_id offset 0) as p on true
    left join lateral (select * from public.orders as o where o.id = coalesce(p.order_id, (e.t).order_id) offset 0) as o on true
    left join lateral (
      select
        booked.*,
        (select sum(part.received_cents) from (select * from public.mpesa_transactions as part where part.order_id = o.id offset 0) as part
         where part.payment_id is null and part.resolution is null) as waiting_cents
      from (
        select sum((own.payment).charge_cents) as booked_cents, sum(public.counted_cents(own.payment)) as counted_cents
        from (select p as payment from public.payments as p where p.order_id = o.id offset 0) as own
        where (own.payment).status = 'completed' and not (own.payment).needs_refund
      ) as booked
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by private.is_dropped_refund(r.status), r.created_at desc
      limit 1
    ) as refund on true
    -- The money of a payment test pays no order.
    where p.purpose is distinct from 'test'
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or not private.is_dropped_refund(c.refund_status)
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null and (c.p).charge_cents > c.returned_cents + c.used_cents
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    -- Money that a callback named for a completed payment besides its own is not booked: the payment has a row of its own.
    case when (c.p).status = 'review' or ((c.p).status = 'completed' and ((c.t).receipt is null or (c.t).payment_id is not null))
      then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.counted_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create type public.reconciliation_day as (
  day date, rows public.reconciliation_row[], is_covered boolean, missed public.period[]
);

create function public.reconciliation_day(day date) returns public.reconciliation_day
language plpgsql stable security definer set search_path = '' as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff('reconciliation');
  return (
    reconciliation_day.day,
    array(select r from private.reconciliation_rows(since, until) as r order by r.is_open desc, r.happened_at desc, r.id),
    private.statement_coverage(tstzrange(since, until)) @> tstzrange(since, greatest(since, least(until, now() - interval '2 hours'))),
    array(
      select (s.missed_since, s.window_from)::public.period
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since < until and s.window_from > since
      order by s.id
    )
  )::public.reconciliation_day;
end
$$;
comment on function public.reconciliation_day is
  'For staff: both books of a day in Nairobi, open differences first; whether complete statements cover the day; and gaps that no statement covers.';

create function private.expect_span(since date, until date) returns void
language plpgsql stable set search_path = '' as $$
begin
  if (expect_span.until - expect_span.since between 0 and 366) is not true then
    perform private.refuse(400, 'range_invalid', 'A range has up to 366 days');
  end if;
end
$$;
comment on function private.expect_span is 'Refuses spans that end before they begin, or have more than 367 days.';

create function public.reconciliation_days(since date, until date) returns table (
  day date, ours bigint, theirs bigint, payments bigint, matched bigint, missing_here bigint, missing_there bigint,
  not_compared bigint, doubles bigint, wrong_amounts bigint, open bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('reconciliation');
  perform private.expect_span(reconciliation_days.since, reconciliation_days.until);
  return query
  select
    d.day::date,
    coalesce(sum(r.our_cents) filter (where r.payment_status = 'completed'), 0),
    coalesce(sum(r.their_cents), 0),
    count(r.id),
    count(*) filter (where r.kind = 'matched'),
    count(*) filter (where r.kind = 'missing_here'),
    count(*) filter (where r.kind = 'missing_there'),
    count(*) filter (where r.kind in ('not_compared', 'typed')),
    count(*) filter (where r.kind = 'double'),
    count(*) filter (where r.kind = 'wrong_amount'),
    count(*) filter (where r.is_open)
  from generate_series(reconciliation_days.since::timestamp, reconciliation_days.until::timestamp, interval '1 day') as d (day)
  left join private.reconciliation_rows(
    reconciliation_days.since::timestamp at time zone 'Africa/Nairobi',
    (reconciliation_days.until + 1)::timestamp at time zone 'Africa/Nairobi'
  ) as r on private.nairobi_day(r.happened_at) = d.day::date
  group by d.day
  order by d.day desc;
end
$$;
comment on function public.reconciliation_days is
  'For staff: days of a range in Nairobi, newest first, with the sums of both books in cents and the number of differences by kind, and open ones.';

create type public.resolved_difference as (decision text, outcome text, payment_id uuid);
comment on type public.resolved_difference is
  'decision: as in reconciliation_events. outcome: of the settlement, when money was given to an order; joined: it completed the order''s prompt. payment_id: the payment of the money.';

create function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := private.read_reason(resolve_difference.note);
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  -- The others are about the payment's own order.
  given_to uuid := case when resolve_difference.decision = 'give' then resolve_difference.order_id end;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(code, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      given_to,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = code)
    );
    begin
      perform from public.orders as o where o.id = of_order for no key update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif code is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || code));
        select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
      end if;
      if of_order is distinct from coalesce(
        given_to,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = code)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = code)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'accepted' and money.status = 'completed' and not money.needs_refund
    and exists (select from public.orders as o where o.id = money.order_id and o.payment_status = 'needs_review')
  then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    elsif private.was_reversed(reported.receipt) then
      perform private.refuse(409, 'money_reversed', 'M-PESA has taken this money back. It pays no order');
    end if;
    money := private.add_till_payment(given_to, reported.received_cents, member);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    -- Staff can take it back before the customer is notified.
    perform private.postpone_messages(given_to);
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  -- Money that the shop keeps beyond the charge is owed to its customer.
  kept_cents := case
    when event_kind <> 'accepted' or money.status is distinct from 'completed' then 0
    when money.needs_refund then money.charge_cents
    else greatest(reported.received_cents - money.charge_cents, 0)
  end;
  if kept_cents >= 100 and not exists (select from public.change_notes as c where c.payment_id = money.id) then
    if private.is_being_refunded(money.id, money.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    perform private.add_change_note(money, 'credit', kept_cents / 100 * 100, null, reason, member);
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(given_to, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;
comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept: leave it as it is, what is kept beyond the charge becomes credit; reopen. Money of an order that needs review is decided by resolve_review. Recorded in reconciliation_events.';

create trigger reconciliation_events_before_change before update or delete on public.reconciliation_events
  for each row execute function private.refuse_change('The history of the reconciliation is only added to');

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;
