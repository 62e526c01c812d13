-- Earlier versions keep working. To them an order that its customer cancelled has no reason, and an order whose customer asked for that is a paid
-- one: the database refuses its next steps with a sentence. Their payments settle as before; money for an order that its customer cancelled needs
-- review, which they show. They do not show the notices of a kind that they do not know.

alter table public.orders
  add column cancel_requested_at timestamptz,
  add column cancel_declined_at timestamptz,
  add column cancel_answer text;
comment on column public.orders.cancel_requested_at is
  'When the customer asked to cancel the paid order (cancel_own_order). Null: never, or the customer keeps it.';
comment on column public.orders.cancel_declined_at is 'When staff declined that. Null: they have not.';
comment on column public.orders.cancel_answer is 'Why staff declined it. The customer reads it.';
comment on column public.orders.cancel_reason is
  'Why an order is cancelled: its time for payment ended, its money was sent back before it left the shop, the shop decided so, or the customer did, or asked for it. Null for other statuses, and where nobody said why.';

create type public.delivery_line as (
  name text, delivered bigint, on_time bigint, median_minutes integer, p90_minutes integer, failures bigint
);
create type public.delivery_failures as (reason text, failures bigint);
create type public.delivery_report as (
  total public.delivery_line, areas public.delivery_line[], hours public.delivery_line[], riders public.delivery_line[],
  reasons public.delivery_failures[]
);
comment on type public.delivery_report is
  'Deliveries of orders that were paid, or whose customers chose cash at the door, in a span of days in Nairobi; not of orders that are collected, nor of those that wait. on_time: of the delivered ones, by the first promise (private.due_at). Minutes: from the payment, within opening hours as in the promise; without orders whose day was agreed on. hours: of the payment. failures: how often goods came back.';

insert into private.limits (name, allowed, within, per_paid_order) values
  ('cancellations', 60, '10 minutes', 1),
  ('cancellations_of_order', 6, '1 hour', 0);

alter table public.notices drop constraint "a kind of notice is known";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.orders drop constraint "a reason for cancelling is known";

drop function private.mark_order_paid(uuid);

drop function private.open_times(store_settings,timestamp with time zone);

revoke all on public.notices from anon, authenticated;

alter table public.notices add constraint "a kind of notice is known" CHECK ((kind = ANY (ARRAY['paid_order'::text, 'late_order'::text, 'failed_delivery'::text, 'cancel_request'::text, 'refund_to_approve'::text, 'inquiry'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'delivery_agreed'::text, 'items_changed'::text, 'status_changed'::text, 'cancel_requested'::text, 'cancel_declined'::text, 'cancel_withdrawn'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'cash_collected'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'code_locked'::text, 'code_waived'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.orders add constraint "a reason for cancelling is known" CHECK ((cancel_reason = ANY (ARRAY['not_paid_in_time'::text, 'refunded'::text, 'by_shop'::text, 'by_customer'::text])));

alter table public.orders add constraint "only a request to cancel is declined, with a reason" CHECK ((((cancel_declined_at IS NULL) = (cancel_answer IS NULL)) AND ((cancel_requested_at IS NOT NULL) OR (cancel_declined_at IS NULL))));

create or replace function private.open_times(settings public.store_settings, since timestamptz, days integer default 61) returns tstzmultirange
language plpgsql stable set search_path = '' as $$
begin
  -- From the day before, whose last span can end after midnight.
  return (
    select range_agg(tstzrange(
      (day.day + opening.from_time) at time zone 'Africa/Nairobi',
      (day.day + opening.to_time + case when opening.to_time <= opening.from_time then interval '1 day' else interval '0' end)
        at time zone 'Africa/Nairobi'
    ))
    from (
      select (since at time zone 'Africa/Nairobi')::date::timestamp + make_interval(days => n.n - 1) as day
      from generate_series(0, open_times.days) as n (n)
    ) as day
    join lateral (
      select (span.span ->> 'from')::interval as from_time, (span.span ->> 'to')::interval as to_time
      from jsonb_array_elements(settings.opening_hours) as span (span)
      where (span.span ->> 'day')::integer = extract(isodow from day.day)
      union all
      select interval '0', interval '24 hours' where settings.opening_hours = '[]'
    ) as opening on true
    where not settings.days_off @> jsonb_build_array(jsonb_build_object('day', to_char(day.day, 'YYYY-MM-DD')))
  );
end
$$;

comment on function private.open_times is
  'The times in which the shop delivers in the days after a moment. Default: 60 whole days. A span that begins before a day off ends as on any other day.';

create or replace function private.minutes_taken(open_times tstzmultirange, since timestamptz, until timestamptz) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return ceil(extract(epoch from case
    when open_times is null then until - since
    else (select sum(upper(span) - lower(span)) from unnest(open_times * tstzmultirange(tstzrange(since, until))) as span)
  end) / 60);
end
$$;

comment on function private.minutes_taken is 'Minutes between two moments within open times. Null: always open.';

create or replace function private.learn_delivery_times() returns void
language plpgsql set search_path = '' as $$
declare
  -- By today's hours. Null: always open.
  open_times constant tstzmultirange := (
    select private.open_times(s, now() - interval '30 days') from public.store_settings as s
    where s.opening_hours <> '[]' or s.days_off <> '[]'
  );
begin
  delete from private.delivery_estimates where true;
  insert into private.delivery_estimates (area_id, hour, deliveries, median_minutes, p90_minutes, median_way_minutes)
  select took.area_id, took.hour, count(*), percentile_disc(0.5) within group (order by took.minutes),
    percentile_disc(0.9) within group (order by took.minutes),
    percentile_disc(0.5) within group (order by took.way_minutes)
  from (
    select o.area_id, extract(hour from d.created_at at time zone 'Africa/Nairobi')::smallint as hour,
      private.minutes_taken(
        case when a.promise_to_minutes < 1440 then open_times end, d.created_at, d.delivery_time
      ) as minutes,
      ceil(extract(epoch from d.delivery_time - d.pickup_time) / 60)::integer as way_minutes
    from public.deliveries as d
    join public.orders as o on o.id = d.order_id
    join public.delivery_areas as a on a.id = o.area_id
    -- By the index of the newest deliveries.
    where d.created_at > now() - interval '30 days' and d.delivery_status = 'delivered' and d.delivery_time > d.created_at
      and o.delivery_day is null and not o.is_collected
  ) as took
  where took.minutes > 0
  group by grouping sets ((took.area_id, took.hour), (took.area_id))
  having count(*) >= 20;
end
$$;

comment on function private.learn_delivery_times is 'Computes delivery_estimates from the deliveries of the last 30 days. Counts open minutes, as the promise does.';

create or replace function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(opened.found_order);
  end if;
  return private.with_proof(private.describe_order(opened.found_order, opened.is_open), opened.found_order, track_order.access_key);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time, by_shop or by_customer. cancel_requested: the customer asked to cancel the paid order, and staff have not answered. awaits_agreement: fee and day are to be agreed on. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. Null: no such order, or several.''An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time, by_shop or by_customer. cancel_requested: the customer asked to cancel the paid order, and staff have not answered. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. proof_code: what the customer says to the rider, with the access key only; while it is asked for, digits of the phone do not show the access key. Null: no such order, or several.';

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number, 'live_handle', described.live_handle,
    'status', private.shown_status(described.status), 'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  if described.promised_at is not null and private.is_open_order(described.status) then
    answer := answer || jsonb_strip_nulls(jsonb_build_object(
      'promised_at', described.promised_at, 'promised_again_at', described.promised_again_at,
      'arrives_at', case when private.is_on_the_way(described.status) then (
        select d.pickup_time + make_interval(mins => private.way_minutes(described.area_id))
        from public.deliveries as d where d.order_id = described.id
      ) end
    ));
  end if;
  -- Public: whether the order is paid and whether staff check a payment. Not public: the amount.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(private.is_open_attempt(p.status)) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif private.has_money(described.payment_status) and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and private.is_open_refund(r.status) and r.status <> 'requested'
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.payment_method = 'cash' then
    answer := answer || '{"pays_cash": true}';
  elsif described.payment_method = 'credit' then
    answer := answer || '{"pays_credit": true}';
  end if;
  if described.awaits_agreement and described.status <> 'cancelled' then
    answer := answer || '{"awaits_agreement": true}';
  end if;
  if private.has_cancel_request(described) then
    answer := answer || '{"cancel_requested": true}';
  end if;
  if described.status = 'cancelled' then
    answer := answer || jsonb_strip_nulls(jsonb_build_object('cancelled_because', nullif(described.cancel_reason, 'refunded')));
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' and described.status = 'pending' then
    answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
  elsif described.payment_status <> 'unpaid' then
    select answer || jsonb_strip_nulls(jsonb_build_object(
      'paid_cents', sum(p.charge_cents) filter (where not p.needs_refund),
      'refunded_cents', sum(p.charge_cents) filter (where not p.needs_refund and p.refunded_at is not null),
      -- A second payment that is kept goes nowhere.
      'surplus_cents', nullif(sum(p.charge_cents - change.owed_cents - change.returned_cents - change.used_cents)
        filter (where p.needs_refund and p.refunded_at is null), 0),
      'part_refunded_cents', nullif(sum(change.returned_cents) filter (where p.refunded_at is null), 0),
      'credit_cents', nullif(sum(change.owed_cents) filter (where p.refunded_at is null), 0)
    )) into answer
    from public.payments as p
    cross join lateral private.change_of(p.id) as change
    where p.order_id = described.id and p.status = 'completed';
  end if;
  answer := answer || jsonb_strip_nulls(jsonb_build_object(
    'way_to_cancel', private.way_to_cancel(described),
    'cancel_answer', case when private.is_open_order(described.status) then described.cancel_answer end
  ));
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded), part_refunded_cents (what went back in part), credit_cents (what is owed for another order), part_paid_cents, way_to_cancel (private.way_to_cancel) and cancel_answer (why staff declined to cancel it).';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.mark_order_paid(order_id uuid, is_decided boolean default false) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review, and so does money that a customer sent after cancelling; such an order holds no units.
  if (paid_order.cancel_reason = 'by_customer' and not mark_order_paid.is_decided) or (paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  )) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id, 'under_review');
    end if;
    -- Of an order that was to be paid in cash.
    delete from public.deliveries as d where d.order_id = paid_order.id;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  perform private.set_order_paid(paid_order, 'mpesa');
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, too few units left, or cancelled by its customer, unless staff have decided to deliver it (is_decided). Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function private.request_refund_of(payment_id uuid, reason text, member uuid) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  paid public.payments := private.lock_refundable_payment(request_refund_of.payment_id);
  reported public.mpesa_transactions;
begin
  if paid.method = 'credit' then
    return private.return_to_credit(paid, private.read_reason(request_refund_of.reason, is_required => true), member);
  elsif paid.method = 'cash' then
    perform private.refuse(409, 'cash_goes_back_in_cash', 'This was paid in cash, which M-PESA cannot send back. Give it back, and note it');
  elsif paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if private.left_to_refund(paid) < paid.charge_cents then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, or paid another order as credit, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund_of.reason, member);
end
$$;

comment on function private.request_refund_of is
  'Requests the full refund by M-PESA of a payment; what was paid from credit is credit again at once. Refuses what can only go back by hand.';

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  return private.request_refund_of(request_refund.payment_id, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure. What was paid from credit is credit again at once.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function private.reopen_unpaid_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  reopened public.orders;
  minutes interval := private.reservation();
  was_cancelled boolean;
  holds_units boolean;
begin
  select * into strict reopened from public.orders as o where o.id = reopen_unpaid_order.order_id;
  delete from public.deliveries as d where d.order_id = reopened.id;
  -- Its time for payment had passed before the money came.
  was_cancelled := reopened.payment_status = 'paid' and 'cancelled' = (
    select e.details ->> 'from' from public.order_events as e
    where e.order_id = reopened.id and e.kind = 'status_changed' and e.details ->> 'reason' = 'paid'
    order by e.id desc limit 1
  );
  if reopened.status = 'cancelled' or was_cancelled then
    if reopened.status <> 'cancelled' then
      perform private.return_units(reopened.id, 'reservation_ended');
    end if;
    update public.orders as o
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled',
        cancel_reason = case when reopened.cancel_reason = 'by_customer' then 'by_customer' else 'not_paid_in_time' end,
        reserved_until = null, expires_at = null, units_returned_at = null, updated_at = now()
    where o.id = reopened.id;
    return;
  end if;
  -- A paid order has its units. One that needed review takes them, if enough are left.
  holds_units := reopened.payment_status = 'paid' or (
    not exists (select from public.order_items as i where i.order_id = reopened.id and i.product_id is null)
    and private.take_units(reopened.id)
  );
  update public.orders as o
  set payment_status = 'unpaid', payment_method = 'pending', status = 'pending', expires_at = now() + minutes,
      reserved_until = case when holds_units then now() + minutes end, expiry_limit = now() + private.longest_reservation(minutes), extended_at = null,
      updated_at = now()
  where o.id = reopened.id;
end
$$;

comment on function private.reopen_unpaid_order is
  'Makes an order unpaid again whose payment was not its own: with a new time for payment, or cancelled if its time had passed before. The caller has locked the order.';

-- An amount that differs from the charge: one decision about the money and the order

create or replace function private.deliver_reviewed_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  if private.mark_order_paid(deliver_reviewed_order.order_id, is_decided => true) <> 'paid' then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;

comment on function private.deliver_reviewed_order is
  'Makes an order that needs review paid with the money that came. Refuses if its units are sold. The caller has locked the order.';

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if not private.is_stated('undoes') and old.delivery_phone is distinct from new.delivery_phone then
    new.rider_id := private.rider_of_phone(new.delivery_phone);
  end if;
  if tg_op = 'INSERT' then
    new.proof_code := private.draw_proof_code();
  end if;
  if tg_op = 'UPDATE' and not private.is_stated('undoes') and private.has_cancel_request(ordered) and (
    (new.taken_by is not null and old.taken_by is null) or (new.ready_at is not null and old.ready_at is null)
    or (private.was_picked_up(new.delivery_status) and not private.was_picked_up(old.delivery_status))
  ) then
    perform private.refuse_before_answer();
  end if;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if private.is_stated('undoes') then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(ordered, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(ordered, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (private.is_called_off(ordered) or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is called off.
      new.delivery_status := private.delivery_status_for_order(ordered,
        case when private.is_called_off(ordered) then old.delivery_status else new.delivery_status end, new.delivery_person);
    elsif private.order_status_of_delivery(old.delivery_status) is null and private.is_before_pickup(new.delivery_status)
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif private.is_before_pickup(new.delivery_status) and not private.is_called_off(ordered) then
    new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status <> 'failed' and private.is_called_off(ordered) then
    if ordered.payment_status = 'refunded' then
      perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
    end if;
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  if private.was_picked_up(new.delivery_status) then
    new.ready_at := coalesce(new.ready_at, moment);
  end if;
  if new.delivery_status <> 'failed' then
    new.failure_reason := null;
  elsif private.has_left_shop(ordered.status) then
    new.failures := new.failures + 1;
  end if;
  return new;
end
$$;

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed',
      case when private.has_money(new.payment_status) and new.payment_method = 'mpesa' then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
      new.id, 'status_changed', case when new.cancel_reason = 'by_customer' and old.cancel_reason is null then 'customer' else 'shop' end,
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          when private.is_stated('follows_delivery') then 'delivery'
          else nullif(new.cancel_reason, 'by_shop')
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

create or replace function private.order_state(order_id uuid) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'status', o.status,
    'cancel_reason', o.cancel_reason,
    'cancel_requested_at', o.cancel_requested_at,
    'payment_status', o.payment_status,
    'delivery', (
      select jsonb_build_object(
        'delivery_status', d.delivery_status, 'delivery_person', d.delivery_person, 'delivery_phone', d.delivery_phone,
        'delivery_vehicle', d.delivery_vehicle, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time,
        'rider_id', d.rider_id, 'proven_by', d.proven_by, 'taken_by', d.taken_by, 'ready_at', d.ready_at, 'failure_reason', d.failure_reason, 'failures', d.failures
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create or replace function private.decide_press(
  link public.rider_links, delivery_id uuid, step text, code text, received_cents integer, is_other_amount boolean, failure_reason text
) returns jsonb
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  delivery public.deliveries;
  ordered public.orders;
  owes_cash boolean;
begin
  if not exists (select from public.deliveries as d where d.id = decide_press.delivery_id and d.rider_id = link.rider_id) then
    return '{"outcome": "not_yours"}';
  end if;
  delivery := private.lock_delivery(decide_press.delivery_id);
  select * into ordered from public.orders as o where o.id = delivery.order_id;
  -- Read again under the lock: staff may have given it to another rider in the meantime.
  if delivery.rider_id is distinct from link.rider_id then
    return '{"outcome": "not_yours"}';
  elsif private.is_called_off(ordered) then
    return jsonb_build_object('outcome', 'cancelled', 'order_number', ordered.order_number);
  elsif private.has_cancel_request(ordered) then
    return jsonb_build_object('outcome', 'asked_to_cancel', 'order_number', ordered.order_number);
  elsif private.step_rank(delivery.delivery_status) >= private.step_rank(decide_press.step) then
    return jsonb_build_object(
      'outcome', 'already', 'order_number', ordered.order_number, 'status', delivery.delivery_status, 'failure', delivery.failure_reason
    );
  elsif delivery.delivery_status not in ('assigned', 'picked_up', 'in_transit') then
    return '{"outcome": "not_yours"}';
  end if;
  owes_cash := ordered.payment_status = 'unpaid';
  if decide_press.step = 'delivered' then
    if private.asks_for_code(delivery) then
      if delivery.wrong_codes >= private.most_code_tries() then
        return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
      elsif decide_press.code is null or decide_press.code !~ '^\s*(\d\s*){4}$' then
        return jsonb_build_object('outcome', 'code_missing', 'order_number', ordered.order_number);
      elsif regexp_replace(decide_press.code, '\s', '', 'g') <> delivery.proof_code then
        update public.deliveries as d set wrong_codes = d.wrong_codes + 1 where d.id = delivery.id returning * into delivery;
        if delivery.wrong_codes >= private.most_code_tries() then
          perform private.record_order_event(ordered.id, 'code_locked', 'rider', jsonb_build_object('person', delivery.delivery_person));
          return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
        end if;
        return jsonb_build_object(
          'outcome', 'wrong_code', 'order_number', ordered.order_number, 'tries_left', private.most_code_tries() - delivery.wrong_codes
        );
      end if;
    end if;
    if owes_cash then
      if private.is_whole_shillings(decide_press.received_cents) is not true or decide_press.received_cents > 100000000 then
        return jsonb_build_object('outcome', 'cash_missing', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents);
      elsif decide_press.received_cents <> ordered.charge_cents and decide_press.is_other_amount is not true then
        return jsonb_build_object(
          'outcome', 'cash_differs', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents,
          'received_cents', decide_press.received_cents
        );
      end if;
    end if;
  elsif decide_press.step = 'failed' and coalesce(decide_press.failure_reason, '') not in (
    'nobody_there', 'no_answer', 'address_not_found', 'not_accepted', 'damaged', 'rider_problem', 'other'
  ) then
    return jsonb_build_object('outcome', 'reason_missing', 'order_number', ordered.order_number);
  end if;
  update public.deliveries as d
  set delivery_status = decide_press.step,
      failure_reason = case when decide_press.step = 'failed' then decide_press.failure_reason end,
      proven_by = case when decide_press.step = 'delivered' and private.asks_for_code(delivery) then 'code' else d.proven_by end,
      collected_cents = case when decide_press.step = 'delivered' and owes_cash then decide_press.received_cents else d.collected_cents end
  where d.id = delivery.id;
  if decide_press.step = 'delivered' and owes_cash then
    perform private.record_order_event(ordered.id, 'cash_collected', 'rider', jsonb_build_object(
      'person', delivery.delivery_person, 'received_cents', decide_press.received_cents, 'charge_cents', ordered.charge_cents
    ));
  end if;
  return jsonb_build_object('outcome', 'done', 'order_number', ordered.order_number, 'status', decide_press.step);
end
$$;

comment on function private.decide_press is
  'What a press of a rider does. outcome: done; already (someone has done it or gone further: status, failure); not_yours; cancelled; asked_to_cancel (staff have not answered yet); wrong_code (tries_left); code_locked, code_missing, cash_missing, cash_differs, reason_missing. Only done changes the delivery, a wrong code its count.';

-- Customers cancel their orders: an unpaid one at once, a paid one by a request that staff answer (docs/decisions/cancelling.md).

create or replace function private.has_cancel_request(o public.orders) returns boolean
language sql immutable
return o.cancel_requested_at is not null and o.cancel_declined_at is null and o.payment_status = 'paid' and private.is_open_order(o.status);

comment on function private.has_cancel_request is 'Whether the customer asked to cancel a paid order, and staff have not answered.';

create or replace function private.refuse_before_answer() returns void
language plpgsql stable set search_path = '' as $$
begin
  perform private.refuse(409, 'cancel_requested', 'The customer asked to cancel this order. Answer that first');
end
$$;

comment on function private.refuse_before_answer is 'Refuses a step of an order that its customer asked to cancel.';

create or replace function private.way_to_cancel(ordered public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  if ordered.payment_status = 'unpaid' and ordered.payment_method <> 'cash' then
    return case when ordered.status = 'pending' then 'at_once' end;
  elsif not private.is_in_shop(ordered.status) or ordered.cancel_requested_at is not null then
    return null;
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  return case
    when private.work_step(ordered, delivery) is distinct from 'prepare' or private.was_picked_up(delivery.delivery_status) then null
    when ordered.payment_status = 'unpaid' then 'at_once'
    else 'by_request'
  end;
end
$$;

comment on function private.way_to_cancel is
  'How a customer cancels an order. at_once: it is unpaid. by_request: it is paid, and nobody prepares it yet. Null: only staff cancel it, or were asked to already.';

create or replace function private.lock_own_order(
  tracking_number text, access_key text, is_within_limit boolean, is_within_limit_of_order boolean, out own public.orders
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- The lock on the order's row serialises this with its payments, its expiry and its steps.
  select o.* into own from public.orders as o
  join private.order_keys as k on k.order_id = o.id
  where k.access_key = left(lock_own_order.access_key, 64)
    and o.tracking_number = upper(trim(left(lock_own_order.tracking_number, 40)))
  for no key update of o;
  -- Customers who paid before are served even while a stranger uses up the limit of their common network.
  if not (is_within_limit or (own.id is not null and private.has_paid(own.customer_phone)))
    or not is_within_limit_of_order
  then
    perform private.refuse(429, 'too_many_cancellations', format(
      'Too many requests to cancel. Please try again in %s, or call or WhatsApp us on %s',
      private.time_left(case when is_within_limit then 'cancellations_of_order' else 'cancellations' end), private.contact_numbers()
    ));
  elsif own.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
end
$$;

comment on function private.lock_own_order is
  'Locks the order of a customer, by its tracking number and its access key; digits of the phone are no proof here. Refuses calls above the limits, which the caller has counted.';

create or replace function public.cancel_own_order(tracking_number text, access_key text, expected_payment_status text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cancellations');
  is_within_limit_of_order boolean := private.count_call('cancellations_of_order', left(cancel_own_order.access_key, 64));
  own public.orders;
  way text;
  refusal_details text;
  refusal_hint text;
begin
  own := private.lock_own_order(cancel_own_order.tracking_number, cancel_own_order.access_key, is_within_limit, is_within_limit_of_order);
  -- The customer confirmed what happens to an order in this state.
  if own.payment_status is distinct from cancel_own_order.expected_payment_status then
    perform private.refuse(409, 'payment_arrived', 'Your payment has changed in the meantime. Please look at your order again');
  elsif own.status = 'cancelled' or private.has_cancel_request(own) then
    return private.order_facts(own, true);
  end if;
  way := private.way_to_cancel(own);
  if way is null then
    perform private.refuse(409, 'cancel_too_late', format(
      'This order cannot be cancelled here any more. Please call or WhatsApp us on %s', private.contact_numbers()
    ));
  elsif way = 'by_request' then
    update public.orders as o set cancel_requested_at = now(), updated_at = now() where o.id = own.id returning * into own;
    perform private.record_order_event(own.id, 'cancel_requested', 'customer');
    perform private.notify_order_followers(own.id);
    perform private.add_notice('cancel_request', concat_ws(' ', own.id, extract(epoch from own.cancel_requested_at)), own.id);
    return private.order_facts(own, true);
  end if;
  if own.reserved_until is not null then
    perform private.return_units(own.id, 'cancelled');
  end if;
  -- Money of an open prompt that arrives from here on needs review (private.mark_order_paid): staff send it back.
  update public.orders as o
  set status = 'cancelled', cancel_reason = 'by_customer', reserved_until = null, expires_at = null, updated_at = now()
  where o.id = own.id
  returning * into own;
  return private.order_facts(own, true);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.cancel_own_order is
  'A customer cancels an order. Proof: its access key. An unpaid one ends at once, and its units return; for a paid one that nobody prepares yet, staff are asked. Answers as orders_by_access_key. Refuses if it has another payment status than the customer saw.';

create or replace function public.keep_own_order(tracking_number text, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cancellations');
  is_within_limit_of_order boolean := private.count_call('cancellations_of_order', left(keep_own_order.access_key, 64));
  own public.orders;
  refusal_details text;
  refusal_hint text;
begin
  own := private.lock_own_order(keep_own_order.tracking_number, keep_own_order.access_key, is_within_limit, is_within_limit_of_order);
  if private.has_cancel_request(own) then
    update public.orders as o set cancel_requested_at = null, updated_at = now() where o.id = own.id returning * into own;
    perform private.record_order_event(own.id, 'cancel_withdrawn', 'customer');
    perform private.notify_order_followers(own.id);
  elsif own.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  return private.order_facts(own, true);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.keep_own_order is
  'A customer keeps the paid order that staff were asked to cancel. Proof and answer as cancel_own_order. Repeating it changes nothing.';

create or replace function private.lock_requested_order(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  requested public.orders;
begin
  select * into requested from public.orders as o where o.id = lock_requested_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.has_cancel_request(requested) then
    perform private.refuse(409, 'cancel_answered', 'This request was answered or withdrawn in the meantime. Nothing was changed');
  end if;
  return requested;
end
$$;

comment on function private.lock_requested_order is 'Locks an order that its customer asked to cancel. Refuses others.';

create or replace function public.grant_cancel_request(order_id uuid, sends_back boolean default true) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  granted public.orders := private.lock_requested_order(grant_cancel_request.order_id);
  due uuid[];
  payment_id uuid;
  refund public.refunds;
  outcome text := 'sent';
begin
  update public.orders as o set status = 'cancelled', cancel_reason = 'by_customer', updated_at = now() where o.id = granted.id;
  due := array(
    select p.id from public.payments as p
    where p.order_id = granted.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    order by p.id
  );
  foreach payment_id in array due loop
    if not grant_cancel_request.sends_back then
      return 'left';
    end if;
    begin
      refund := private.request_refund_of(payment_id, 'The customer cancelled', member);
      if refund.status = 'requested' and outcome = 'sent' then
        outcome := 'needs_approval';
      end if;
    exception when sqlstate 'PT409' then
      -- Cash, or money that M-PESA cannot reverse: the order stays among those whose refund is due.
      outcome := 'left';
    end;
  end loop;
  return outcome;
end
$$;

comment on function public.grant_cancel_request is
  'For staff: cancels a paid order as its customer asked, and requests the refund of its money, which above the limit a second owner approves. sends_back false: M-PESA cannot reverse payments here. Returns sent (M-PESA is asked, or it is credit again), needs_approval, or left: some of it goes back by hand or in cash.';

create or replace function public.decline_cancel_request(order_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  answer text;
  declined public.orders;
begin
  perform private.expect_staff('orders');
  answer := private.read_reason(decline_cancel_request.reason, is_required => true);
  declined := private.lock_requested_order(decline_cancel_request.order_id);
  update public.orders as o set cancel_declined_at = now(), cancel_answer = answer, updated_at = now() where o.id = declined.id;
  perform private.record_order_event(declined.id, 'cancel_declined', 'staff', jsonb_build_object('note', answer));
  perform private.notify_order_followers(declined.id);
end
$$;

comment on function public.decline_cancel_request is
  'For staff: does not cancel a paid order, although its customer asked for it. The customer reads the reason on the tracking page.';

-- Execution rights
grant execute on function public.cancel_own_order, public.keep_own_order to anon, authenticated, service_role;

grant execute on function public.grant_cancel_request, public.decline_cancel_request to authenticated, service_role;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      -- A customer who pays cash stands in front of staff or the rider, and texts cost money.
      perform private.queue_order_messages(
        new.id, 'order_paid', private.payment_event_key(new.id),
        channels => case new.payment_method when 'cash' then array['mail'] else array['mail', 'text'] end
      );
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    -- Not where the last part of it became credit again or was given back in cash: nothing was sent.
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' and coalesce((
      select r.method from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
      order by r.completed_at desc, r.updated_at desc limit 1
    ), '') not in ('credit', 'cash') then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    -- The customer of a collected order has it in hand.
    if new.is_collected and private.has_left_shop(new.status) then
      null;
    elsif private.is_on_the_way(new.status) then
      perform private.queue_order_messages(
        new.id, 'order_on_its_way', private.failure_event_key(new.id), due_at => now() + private.undo_window()
      );
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      if new.cancel_reason = 'not_paid_in_time' or (new.cancel_reason = 'by_customer' and new.payment_status = 'unpaid') then
        -- Not without a prompt, nor when the link was withheld: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) and not exists (
          select from public.outbox_messages as m
          where m.order_id = new.id and m.kind = 'order_received' and m.channel = 'mail' and m.status = 'over_budget'
        ) then
          perform private.queue_order_messages(
            new.id, case new.cancel_reason when 'by_customer' then 'order_cancelled' else 'order_expired' end, channels => array['mail']
          );
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
    if new.status = 'cancelled' then
      delete from public.outbox_messages as m
      where m.order_id = new.id and m.status = 'over_budget' and not private.is_message_true(m.order_id, m.kind);
    end if;
  end if;
end
$$;

create or replace function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      map_point = null, cancel_answer = case when o.cancel_declined_at is not null then '' end, anonymised_at = now()
  where o.id = any (anonymise_orders.order_ids);
  -- Links in old messages stop working.
  update private.order_keys as k
  set request_hash = '', access_key = replace(gen_random_uuid()::text, '-', '')
  where k.order_id = any (anonymise_orders.order_ids);
  delete from private.order_networks as n where n.order_id = any (anonymise_orders.order_ids);
  update public.payments as p set phone = '' where p.order_id = any (anonymise_orders.order_ids) and p.phone <> '';
  update public.deliveries as d
  set delivery_notes = null
  where d.order_id = any (anonymise_orders.order_ids) and d.delivery_notes is not null;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;

comment on function private.anonymise_orders is
  'Removes the customer''s name, email, phone, address, point on the map and notes from orders and related rows. M-PESA''s messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

create or replace function public.delivery_report(since date, until date) returns public.delivery_report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := delivery_report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (delivery_report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  open_times tstzmultirange;
  answer public.delivery_report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(delivery_report.since, delivery_report.until);
  -- By today's hours; null: always open. A delivery of the last day can take some more.
  select private.open_times(s, span_start, delivery_report.until - delivery_report.since + 8) into open_times
  from public.store_settings as s where s.opening_hours <> '[]' or s.days_off <> '[]';
  with rides as materialized (
    select d.order_id, d.failures, d.delivery_status = 'delivered' as is_delivered, trim(d.delivery_person) as rider,
      d.delivery_status = 'delivered' and d.delivery_time <= private.due_at(o, d.created_at) as is_on_time,
      case when d.delivery_status = 'delivered' and o.delivery_day is null then private.minutes_taken(
        case when coalesce(a.promise_to_minutes, private.shop_promise_minutes()) < 1440 then open_times end, d.created_at, d.delivery_time
      ) end as minutes,
      coalesce(o.area_name, private.area_of(o.shipping_address, o.city)) as area,
      extract(hour from d.created_at at time zone 'Africa/Nairobi')::integer as hour
    -- By the index of the newest deliveries; the rest by keys, with any statistics.
    from (select * from public.deliveries as d where d.created_at >= span_start and d.created_at < span_end offset 0) as d
    cross join lateral (select * from public.orders as o where o.id = d.order_id offset 0) as o
    left join public.delivery_areas as a on a.id = o.area_id
    where not o.is_collected and (d.delivery_status = 'delivered' or d.failures > 0)
  ), spellings as materialized (
    select r.area, private.folded_area(r.area) as folded, count(*) as rides from rides as r group by r.area
  ), named_areas as (
    select s.folded, (array_agg(s.area order by s.rides desc, s.area))[1] as area,
      row_number() over (order by sum(s.rides) desc, min(s.area)) <= 50 as is_listed
    from spellings as s group by s.folded
  ), named as materialized (
    select r.*, case when n.is_listed then coalesce(n.area, 'Not known any more') else 'All others' end as area_line
    from rides as r
    join spellings as s on s.area is not distinct from r.area
    join named_areas as n on n.folded is not distinct from s.folded
  ), lines as (
    select grouping(r.area_line, r.hour, lower(r.rider)) as level, r.hour, (
      case grouping(r.area_line, r.hour, lower(r.rider))
        when 3 then r.area_line when 5 then lpad(r.hour::text, 2, '0') || ':00' when 6 then mode() within group (order by r.rider) else ''
      end,
      count(*) filter (where r.is_delivered), count(*) filter (where r.is_on_time),
      percentile_disc(0.5) within group (order by r.minutes), percentile_disc(0.9) within group (order by r.minutes), coalesce(sum(r.failures), 0)
    )::public.delivery_line as line
    from named as r
    group by grouping sets ((r.area_line), (r.hour), (lower(r.rider)), ())
    having lower(r.rider) is not null or grouping(lower(r.rider)) = 1
  ), stated as (
    select e.failure as reason, count(*) as failures
    from named as r
    cross join lateral (
      select own.details ->> 'from' as old_status, own.details ->> 'to' as new_status, own.details ->> 'failure' as failure,
        own.details ->> 'reason' as reason, lead(own.details ->> 'reason') over (order by own.id) as next_reason
      from public.order_events as own
      where own.order_id = r.order_id and own.kind = 'delivery_status_changed' offset 0
    ) as e
    where r.failures > 0 and e.new_status = 'failed' and private.is_with_rider(e.old_status) and e.failure is not null
      -- Neither undone itself, nor restored by undoing the next change.
      and e.reason is distinct from 'undone' and e.next_reason is distinct from 'undone'
    group by e.failure
  ), by_reason as (
    select (s.reason, s.failures)::public.delivery_failures as line from stated as s
    union all
    select (null, rest.failures)::public.delivery_failures
    from (
      select coalesce(sum(r.failures), 0) - (select coalesce(sum(s.failures), 0) from stated as s) as failures from named as r
    ) as rest
    where rest.failures > 0
  )
  select
    (select l.line from lines as l where l.level = 7),
    array(select l.line from lines as l where l.level = 3
      order by (l.line).name = 'All others', (l.line).delivered desc, (l.line).failures desc, (l.line).name),
    array(select l.line from lines as l where l.level = 5 order by l.hour),
    array(select l.line from lines as l where l.level = 6 order by (l.line).delivered desc, (l.line).failures desc, (l.line).name),
    array(select b.line from by_reason as b order by (b.line).reason is null, (b.line).failures desc, (b.line).reason)
  into answer;
  return answer;
end
$$;

comment on function public.delivery_report is
  'For staff: how the deliveries of up to 367 days in Nairobi went, in all, by area (the 50 with the most, and all others), by hour of the payment and by rider, and why goods came back (reason null: not said). Reads the deliveries of these days, whatever the size of the shop.';

-- Execution rights
grant execute on function public.delivery_report to authenticated, service_role;

-- Orders

create or replace function private.before_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    delete from private.order_networks as k where k.order_id = old.id;
    return old;
  end if;
  if new.status <> 'cancelled' then
    new.cancel_reason := null;
    if old.status = 'cancelled' and not private.is_stated('undoes') then
      -- Staff deliver it after all.
      new.cancel_requested_at := null;
      new.cancel_declined_at := null;
      new.cancel_answer := null;
    end if;
  elsif old.status <> 'cancelled' and new.cancel_reason is null and auth.uid() is not null then
    -- Only staff have accounts; they may write no more than the status.
    new.cancel_reason := 'by_shop';
  end if;
  if (private.can_be_paid(old.payment_status) and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (private.has_money(old.payment_status) and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_review' and old.status <> new.status
      and not private.is_before_work(new.status))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if private.has_cancel_request(old) and old.payment_status = new.payment_status and new.status not in (old.status, 'cancelled')
    and not private.is_stated('undoes')
  then
    perform private.refuse_before_answer();
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and private.has_left_shop(new.status) then
    perform private.check_handover(old, new);
  end if;
  -- An unpaid order that is handed over takes its units if it held none.
  if old.payment_status = new.payment_status and old.status <> new.status
    and (old.status = 'cancelled' or new.status = 'cancelled' or (new.payment_status = 'unpaid' and new.reserved_until is null))
  then
    new := private.move_units_with_status(old, new);
  end if;
  return new;
end
$$;

comment on table public.notices is
  'Events that wait for staff: a new paid order, a late order, a failed delivery, a request to cancel, a refund to approve, an inquiry. Deleted after a week.';

comment on column public.notices.event_key is
  'What makes the event unique within its kind: the id of the order, refund or inquiry; of failed deliveries with the number of failures, of requests to cancel with their time.';

comment on column public.notices.caused_by is 'The member who caused the event and needs no notice of it. Null: a customer, or the shop itself.';

alter table public.notices enable row level security;

grant select on public.notices to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.notices to anon;

create or replace function private.notice_kinds() returns text[]
language sql immutable
return array['paid_order', 'late_order', 'failed_delivery', 'cancel_request', 'refund_to_approve', 'inquiry'];

create or replace function private.notice_area(kind text) returns text
language sql immutable
return case kind when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' when 'cancel_request' then 'refunds' else 'deliveries' end;

comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

create or replace function private.is_notice_waiting(notice public.notices) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  step text;
begin
  if notice.kind = 'refund_to_approve' then
    return exists (select from public.refunds as r where r.id::text = notice.event_key and r.status = 'requested');
  elsif notice.kind = 'inquiry' then
    return exists (select from public.inquiries as i where i.id = notice.event_key::uuid and not i.is_read);
  elsif notice.kind = 'cancel_request' then
    return exists (select from public.orders as o where o.id = notice.order_id and private.has_cancel_request(o));
  end if;
  select private.work_step(o, d) into step
  from public.orders as o
  join public.deliveries as d on d.order_id = o.id
  where o.id = notice.order_id;
  return coalesce(case notice.kind
    when 'paid_order' then step = 'prepare'
    when 'failed_delivery' then step = 'failed'
    else true
  end and step is not null, false);
end
$$;

comment on function private.is_notice_waiting is
  'Whether nobody has dealt with it: nobody has taken the paid order, the late one is not delivered, the failed one is not sent again, the request to cancel is not answered, the refund is not decided, the inquiry is unread.';
