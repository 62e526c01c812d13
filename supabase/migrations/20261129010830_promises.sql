-- Earlier versions keep working: they read and write none of the new columns, and set_order_paid fixes the promise for them, too. Their
-- lists show an hour from the payment as before. Their messages have no {arrival}; a message about a delay that one of them sends has a blank there.

alter table public.orders
  add column promised_at timestamptz,
  add column promised_again_at timestamptz;
comment on column public.orders.promised_at is
  'When it arrives at the latest, as promised when it was paid or its customer chose cash (private.promise_of). Null: not yet, or within no open time.';
comment on column public.orders.promised_again_at is 'The new time that the customer of a late order was informed of, once. Null: never.';

alter table public.store_settings
  add column opening_hours jsonb not null default '[]',
  add column days_off jsonb not null default '[]',
  add column queue_minutes integer not null default 5,
  add column announces_delays boolean not null default true;
comment on column public.store_settings.opening_hours is
  'When the shop delivers: spans {day, from, to} of ISO weekdays in Nairobi. Empty: always. Orders are taken at any time.';
comment on column public.store_settings.days_off is 'Days {day, reason} on which the shop does not deliver.';
comment on column public.store_settings.queue_minutes is
  'Minutes that every ten orders that have not left the shop add to the promise of the next ones, at most 60 in all.';
comment on column public.store_settings.announces_delays is 'Whether the customer of a late order gets a message with a new time (announce_delays).';
grant update (opening_hours, days_off, queue_minutes, announces_delays) on public.store_settings to authenticated;
grant select (opening_hours, days_off) on public.store_settings to anon, authenticated;

create or replace function private.are_opening_hours(written jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  if jsonb_typeof(written) is distinct from 'array' or jsonb_array_length(written) > 42 then
    return false;
  end if;
  -- A value of another type, or a missing one, makes the condition null: that counts as wrong.
  return not exists (
    select from jsonb_array_elements(written) as s (span)
    where not coalesce(
      jsonb_typeof(s.span) = 'object' and jsonb_typeof(s.span -> 'day') = 'number'
        and jsonb_typeof(s.span -> 'from') = 'string' and jsonb_typeof(s.span -> 'to') = 'string'
        and s.span ->> 'day' ~ '^[1-7]$' and s.span ->> 'from' ~ '^([01]\d|2[0-3]):[0-5]\d$'
        and s.span ->> 'to' ~ '^(([01]\d|2[0-3]):[0-5]\d|24:00)$' and s.span ->> 'from' <> s.span ->> 'to',
      false
    )
  );
end
$$;
comment on function private.are_opening_hours is
  'Whether this is a list of spans {day, from, to}: ISO weekday and times such as 08:00. A span whose end is not after its beginning ends on the next day; 24:00 is midnight.';

create or replace function private.are_days_off(written jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  if jsonb_typeof(written) is distinct from 'array' or jsonb_array_length(written) > 60 then
    return false;
  end if;
  return not exists (
    select from jsonb_array_elements(written) as d (off)
    where not coalesce(case when
      jsonb_typeof(d.off) = 'object' and jsonb_typeof(d.off -> 'day') = 'string' and jsonb_typeof(d.off -> 'reason') = 'string'
        and d.off ->> 'day' ~ '^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$'
      -- 31 February is 3 March.
      then to_char(make_date(left(d.off ->> 'day', 4)::integer, substr(d.off ->> 'day', 6, 2)::integer, 1)
          + right(d.off ->> 'day', 2)::integer - 1, 'YYYY-MM-DD') = d.off ->> 'day'
        and char_length(trim(d.off ->> 'reason')) between 1 and 80 and d.off ->> 'reason' !~ '[\n\r]' end,
      false
    )
  );
end
$$;
comment on function private.are_days_off is 'Whether this is a list of days {day, reason}, at most 60.';

alter table public.store_settings add constraint "the queue adds at most an hour" CHECK (((queue_minutes >= 0) AND (queue_minutes <= 60)));

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text])));

create or replace function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  -- Constraints run as the caller, who may call no private function.
  if not private.are_opening_hours(new.opening_hours) or not private.are_days_off(new.days_off) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "opening hours and days off are well-formed"',
      constraint = 'opening hours and days off are well-formed';
  end if;
  -- A pause of orders is no edit, so that it does not conflict with a staff member's edit.
  old.orders_pause_reason := new.orders_pause_reason;
  old.orders_paused_until := new.orders_paused_until;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create index orders_by_promise on public.orders (promised_at)
  where status in ('pending', 'processing', 'shipped', 'out_for_delivery') and promised_at is not null;

-- When an order arrives: opening hours, days off, and the one rule of the promise (docs/decisions/promise.md).
-- All days and times of day are those of Nairobi.

create or replace function private.shop_promise_minutes() returns integer
language sql immutable
return 60;

comment on function private.shop_promise_minutes is
  'Minutes from the payment to the arrival, for orders without an area. shopPromiseMinutes in domain/delivery-promise.ts.';

create or replace function private.open_times(settings public.store_settings, since timestamptz) returns tstzmultirange
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
      from generate_series(0, 61) as n (n)
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
  'The times in which the shop delivers in the 60 days after a moment. A span that begins before a day off ends as on any other day.';

create or replace function private.arrival_after(settings public.store_settings, minutes integer, since timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
declare
  -- A pause without an end delays nothing: no one knows how long it lasts.
  starts timestamptz := greatest(since, case when settings.orders_pause_reason is not null then settings.orders_paused_until end);
  remaining interval := make_interval(mins => minutes);
  span tstzrange;
begin
  if settings.opening_hours = '[]' and settings.days_off = '[]' then
    return starts + remaining;
  end if;
  -- A promise in days counts the closed hours.
  if minutes >= 1440 then
    starts := starts + remaining;
    remaining := interval '0';
  end if;
  for span in select s from unnest(private.open_times(settings, starts)) as s order by s loop
    if upper(span) > starts then
      starts := greatest(starts, lower(span));
      if remaining <= upper(span) - starts then
        return starts + remaining;
      end if;
      remaining := remaining - (upper(span) - starts);
    end if;
  end loop;
  return null;
end
$$;

comment on function private.arrival_after is
  'The moment after this many open minutes, from the end of a pause on. Never in a closed time. Null: not within 60 days.';

create or replace function private.queue_minutes(settings public.store_settings) returns integer
language plpgsql stable set search_path = '' as $$
begin
  -- At most an hour, so counting can stop at 12 steps.
  return least(60, settings.queue_minutes * ((
    select count(*) from (
      select from public.deliveries as d where d.delivery_status in ('pending', 'assigned') limit 120
    ) as waiting
  ) / 10)::integer);
end
$$;

comment on function private.queue_minutes is
  'Minutes that the load of the queue adds to a promise: store_settings.queue_minutes for every ten orders that have not left the shop, at most 60.';

create or replace function private.promise_for(area_id uuid, at timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
declare
  settings public.store_settings;
  minutes integer;
begin
  select * into strict settings from public.store_settings as s;
  minutes := coalesce(
    (select a.promise_to_minutes from public.delivery_areas as a where a.id = promise_for.area_id), private.shop_promise_minutes()
  );
  -- Of all hours: with that of one hour, a later payment could arrive earlier.
  minutes := greatest(minutes, (
    select least(2 * minutes, e.p90_minutes) from private.delivery_estimates as e where e.area_id = promise_for.area_id and e.hour is null
  ));
  return private.arrival_after(settings, minutes + private.queue_minutes(settings), promise_for.at);
end
$$;

comment on function private.promise_for is
  'The one rule of the promise: when an order for this area, or without one, arrives that is paid at this moment. Null: not within 60 days.';

create or replace function private.promise_of(ordered public.orders, at timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
begin
  if ordered.delivery_day is null then
    return private.promise_for(ordered.area_id, promise_of.at);
  end if;
  return (
    select coalesce(
      upper(private.open_times(s, day.starts) * tstzmultirange(tstzrange(day.starts, day.ends))),
      day.ends
    )
    from public.store_settings as s,
      (select ordered.delivery_day::timestamp at time zone 'Africa/Nairobi' as starts,
        (ordered.delivery_day + 1)::timestamp at time zone 'Africa/Nairobi' as ends) as day
  );
end
$$;

comment on function private.promise_of is 'The promise of an order that is paid at this moment: as promise_for, or by the end of the day that was agreed on.';

create or replace function private.due_at(o public.orders, delivery_created_at timestamptz) returns timestamptz
language sql immutable
return coalesce(o.promised_at, coalesce(delivery_created_at, o.created_at) + make_interval(mins => private.shop_promise_minutes()));

comment on function private.due_at is
  'When an order is late: its promise, or an hour after its payment if it was paid before there were promises. dueAt in domain/delivery-promise.ts.';

create or replace function public.delivery_promise(area_id uuid default null) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  settings public.store_settings;
  opens timestamptz;
begin
  select * into strict settings from public.store_settings as s;
  opens := private.arrival_after(settings, 0, now());
  return jsonb_build_object(
    'arrives_by', private.promise_for(delivery_promise.area_id, now()),
    'opens_at', case when opens > now() then opens end
  );
end
$$;

comment on function public.delivery_promise is
  'When an order for this area, or without one, arrives that is paid now (arrives_by), and when the shop delivers next, if it does not now (opens_at).';

-- What deliveries took

create table private.delivery_estimates (
  area_id uuid references public.delivery_areas (id),
  hour smallint,
  deliveries integer not null,
  median_minutes integer not null,
  p90_minutes integer not null,
  median_way_minutes integer,
  constraint "one estimate per area and hour" unique nulls not distinct (area_id, hour)
);

comment on table private.delivery_estimates is
  'Minutes from payment to delivery in the last 30 days, per area and hour of the payment; hour null: of all hours. Only after twenty deliveries. Filled by private.learn_delivery_times.';

comment on column private.delivery_estimates.median_way_minutes is 'Median of the minutes from the shop to the door. Null: no pickup was noted.';

alter table private.delivery_estimates enable row level security;

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
      ceil(extract(epoch from case
        when open_times is null or a.promise_to_minutes >= 1440 then d.delivery_time - d.created_at
        else (
          select sum(upper(span) - lower(span)) from unnest(open_times * tstzmultirange(tstzrange(d.created_at, d.delivery_time))) as span
        )
      end) / 60)::integer as minutes,
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

create or replace function public.delivery_estimates() returns table (
  area_id uuid, hour smallint, deliveries integer, median_minutes integer, p90_minutes integer
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('panel');
  return query
    select e.area_id, e.hour, e.deliveries, e.median_minutes, e.p90_minutes
    from private.delivery_estimates as e
    order by e.area_id, e.hour nulls first;
end
$$;

comment on function public.delivery_estimates is
  'For staff: what deliveries took in the last 30 days, in minutes from the payment, per area and hour of the day (null: all), where there were at least twenty.';

create or replace function private.way_minutes(area_id uuid) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return (
    select e.median_way_minutes from private.delivery_estimates as e
    where e.area_id = way_minutes.area_id and e.median_way_minutes is not null
      and (e.hour is null or e.hour = extract(hour from now() at time zone 'Africa/Nairobi'))
    order by e.hour nulls last
    limit 1
  );
end
$$;

comment on function private.way_minutes is 'Learned minutes from the shop to the door in an area at this hour. Null: fewer than twenty deliveries.';

-- Execution rights
grant execute on function public.delivery_promise to anon, authenticated, service_role;

grant execute on function public.delivery_estimates to authenticated, service_role;

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
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded), part_refunded_cents (what went back in part), credit_cents (what is owed for another order) and part_paid_cents.';

create or replace function private.set_order_paid(paid_order public.orders, payment_method text) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
begin
  update public.orders as o
  set payment_status = 'paid', payment_method = set_order_paid.payment_method,
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now(),
      promised_at = case
        when paid_order.payment_method = 'cash' and paid_order.promised_at is not null then paid_order.promised_at
        else private.promise_of(paid_order, now())
      end,
      promised_again_at = case when paid_order.payment_method = 'cash' then o.promised_again_at end
  where o.id = paid_order.id;
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it; with cash at the door, from
  -- the agreement on it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at
  where paid_order.payment_method <> 'cash';
  perform private.note_paid_order(paid_order.id);
end
$$;

comment on function private.set_order_paid is
  'Marks an order as paid, as it was before, and creates its delivery. The caller has locked the order, which has its units.';

create or replace function private.deliver_for_cash(ordered public.orders, agreed_by text) returns void
language plpgsql set search_path = '' as $$
begin
  -- The order holds its units from now on, as one that was handed over unpaid: it does not expire any more.
  update public.orders as o
  set payment_method = 'cash', status = case when o.status = 'pending' then 'processing' else o.status end, updated_at = now(),
      promised_at = private.promise_of(ordered, now())
  where o.id = ordered.id;
  insert into public.deliveries (order_id) values (ordered.id) on conflict on constraint "an order is delivered once" do nothing;
  perform private.record_order_event(
    ordered.id, 'cash_agreed', deliver_for_cash.agreed_by, jsonb_build_object('charge_cents', ordered.charge_cents)
  );
end
$$;

-- Orders whose delivery fee and day staff agree on with the customer (docs/decisions/delivery-areas.md).

create or replace function public.agree_delivery(order_id uuid, fee_cents integer, delivery_day date) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today constant date := private.nairobi_day(now());
  agreed public.orders;
  is_first boolean;
  new_total integer;
begin
  perform private.expect_staff('orders');
  if agree_delivery.fee_cents is null or agree_delivery.fee_cents not between 0 and 100000000 or agree_delivery.fee_cents % 100 <> 0 then
    perform private.refuse(400, 'fee_invalid', 'The delivery fee must be in whole shillings');
  elsif agree_delivery.delivery_day is null or agree_delivery.delivery_day not between today and today + 60 then
    perform private.refuse(400, 'day_invalid', 'Choose a day from today to 60 days on');
  end if;
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into agreed from public.orders as o where o.id = agree_delivery.order_id for no key update;
  is_first := agreed.awaits_agreement;
  new_total := agreed.total_amount - agreed.delivery_fee + agree_delivery.fee_cents;
  if agreed.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.is_open_order(agreed.status) then
    perform private.refuse(409, 'order_closed', 'This order is closed. Nothing was changed');
  elsif not is_first and agreed.delivery_day is null then
    perform private.refuse(409, 'delivery_not_to_agree', 'The fee and the time of this order follow from its area');
  elsif agreed.delivery_fee <> agree_delivery.fee_cents and (
    agreed.payment_status <> 'unpaid' or agreed.payment_method = 'cash'
    or exists (select from public.payments as p where p.order_id = agreed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = agreed.id)
  ) then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its delivery fee cannot change');
  elsif (new_total::bigint + 99) / 100 * 100 > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;
  update public.orders as o
  set delivery_fee = agree_delivery.fee_cents, total_amount = new_total, delivery_day = agree_delivery.delivery_day,
      awaits_agreement = false, updated_at = now()
  where o.id = agreed.id
  returning * into agreed;
  if agreed.promised_at is not null then
    update public.orders as o set promised_at = private.promise_of(agreed, now()), promised_again_at = null where o.id = agreed.id;
  end if;
  perform private.record_order_event(agreed.id, 'delivery_agreed', 'shop', jsonb_build_object(
    'fee_cents', agreed.delivery_fee, 'total_cents', agreed.total_amount, 'day', agreed.delivery_day
  ));
  if agreed.payment_status = 'unpaid' then
    perform private.wait_for_pay_link(agreed);
    if is_first then
      perform private.queue_order_messages(agreed.id, 'order_received');
    end if;
  end if;
  perform private.notify_order_followers(agreed.id);
end
$$;

comment on function public.agree_delivery is
  'For staff: what they agreed on with the customer of an order outside the promise: its delivery fee in cents, and the day. The order can be paid from then on, waits a day for that, and its customer gets the link. Can be repeated until a payment has begun; the day also afterwards.';

-- Execution rights
grant execute on function public.agree_delivery to authenticated, service_role;

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, is_count boolean, out by_index text, out by_row text, out candidates text, out is_exact boolean,
  out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := 'private.without_accents(%s)';
  order_text constant text := format(folded, 'private.order_text(o)');
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, 'private.rider_text(d)');
  is_open constant text := $sql$private.is_open_order(o.status)$sql$;
  is_to_deliver constant text := is_open || $sql$ and private.is_to_deliver(o.payment_status, o.payment_method)$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
  -- A count stops at 501 orders, of which few have more than three lines with the same word.
  bound text := '';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;
  is_exact := false;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and private.is_on_the_way(o.status)$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'cash' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled' and o.payment_method = 'cash'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_to_deliver || $sql$ and private.due_at(
        o, (select d.created_at from public.deliveries as d where d.order_id = o.id)
      ) < now()$sql$
      else case when filters.due is not null then
        is_to_deliver || format($sql$ and coalesce(
          (select private.work_step(o, d) from public.deliveries as d where d.order_id = o.id), 'prepare'
        ) = any (%L)$sql$, case filters.due when 'prepare' then array['prepare', 'preparing'] else array[filters.due] end)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    -- Pending are those that wait for a rider; collected orders need none.
    indexed := indexed || case when filters.status = 'pending' then
      'not (select collected.is_collected from public.orders as collected where collected.id = d.order_id)' end;
    indexed := indexed || case filters.due
      when 'late' then $sql$d.delivery_status <> 'delivered'$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
      is_exact := true;
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_exact := true;
    is_broad := false;
  elsif typed.words is not null then
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    is_exact := cardinality(in_order) + cardinality(anywhere) = cardinality(typed.words) and (in_order = '{}' or anywhere = '{}');
    checked := checked || format('(%s like all (%L::text[])%s)',
      order_text || case when in_order <> typed.words then
        format($sql$ || E'\n' || coalesce((select string_agg(%s, E'\n') from public.order_items as i where i.order_id = o.id), '')$sql$, item_text)
        || case when is_orders then '' else format($sql$ || E'\n' || %s$sql$, rider_text) end
        else '' end,
      typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    if is_count and is_orders and is_exact and cardinality(anywhere) = 1 and cardinality(checked) = 1 and array_to_string(indexed, '') = '' then
      bound := ' limit 1503';
    end if;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('((select i.order_id as id from public.order_items as i where %s like %L%s)', item_text, p.pattern, bound)
          || format(' union (select o.id from public.orders as o where %s like %L%s)', order_text, p.pattern, bound)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    is_exact := false;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if not is_orders and filters.due = 'late' then
    -- As among orders. Failed deliveries are in no index of open ones, so that these come from their orders.
    checked := checked || (is_to_deliver || ' and private.due_at(o, d.created_at) < now()');
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_to_deliver;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    is_exact := true;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
  is_exact := is_exact and cardinality(checked) = 1;
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_exact: whether each candidate meets by_row; is_broad: whether the newest rows are scanned first.';

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'arrival', 'link', 'receipt_link'
    ]
  end;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(written, placeholders);
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  elsif private.is_staff_message(message_facts.kind) then
    return jsonb_build_object('shop', shop) || private.staff_message_facts(message_facts.kind, message_facts.event_key);
  elsif message_facts.kind in ('inquiry_reply', 'test_message') then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'arrival', coalesce(o.promised_again_at, o.promised_at),
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'payment', (
      select jsonb_build_object(
        'charge_cents', coalesce(part.amount_cents, p.charge_cents), 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', coalesce(part.receipt, p.refund_receipt), 'is_credit', case when p.method = 'credit' then true end
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      left join lateral (
        select c.* from public.change_notes as c where c.payment_id = p.id and c.id::text = message_facts.event_key
      ) as part on true
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          when part.id is not null then true
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries and tests: the shop.';

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'delivery_failed' then private.is_in_shop(o.status) and exists (
      select from public.deliveries as d where d.order_id = o.id and d.delivery_status = 'failed'
    )
    when 'order_delayed' then o.payment_status = 'paid' and private.is_open_order(o.status) and o.promised_again_at > now()
    when 'order_delivered' then o.status = 'delivered'
    -- Its link asks for a payment.
    when 'order_received' then o.status <> 'cancelled'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then private.was_paid(o.payment_status)
    when 'order_payment_held' then o.payment_status = 'needs_review'
    when 'order_payment_corrected' then o.payment_status = 'unpaid' and o.status <> 'cancelled'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

create or replace function private.newly_late_orders() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select o.id
    from public.orders as o
    -- One step in an index for each order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')
      -- After an outage, orders that have been late for longer are no news.
      and o.promised_at < now() and o.promised_at > now() - interval '1 hour'
      and private.is_open_delivery(d.delivery_status) and private.work_step(o, d) is not null
      and not exists (select from public.notices as n where n.kind = 'late_order' and n.event_key = o.id::text)
    limit 500;
end
$$;

comment on function private.newly_late_orders is 'Paid orders that are late since at most an hour and have no notice of it.';

create or replace function private.delays_to_announce() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select o.id
    from public.orders as o
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')
      and o.promised_at < now() and o.promised_at > now() - interval '1 hour'
      and o.promised_again_at is null and o.payment_status = 'paid' and not o.is_collected and o.delivery_day is null
      -- A rider who left half an hour ago or less is about to arrive.
      and (private.is_before_pickup(d.delivery_status) or (private.is_open_delivery(d.delivery_status) and d.pickup_time < now() - interval '30 minutes'))
      and (select s.announces_delays from public.store_settings as s)
    order by o.promised_at
    limit 500;
end
$$;

comment on function private.delays_to_announce is
  'Paid orders that are late since at most an hour, whose customer was not informed of a new time. Not those that failed or left the shop within half an hour, that the customer collects, or whose day was agreed on.';

create or replace function private.announce_delays() returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
declare
  late public.orders;
  way interval;
begin
  for late in
    select o.* from public.orders as o
    where o.id in (select private.delays_to_announce())
    order by o.id
    for no key update skip locked
  loop
    -- Another process may have informed the customer before the lock.
    continue when late.promised_again_at is not null;
    way := case when private.is_on_the_way(late.status) then make_interval(mins => coalesce(private.way_minutes(late.area_id), 20)) end;
    update public.orders as o
    -- In steps of five minutes, as a person would say it.
    set promised_again_at = date_bin('5 minutes', coalesce(now() + way, private.promise_for(late.area_id, now()), now() + interval '1 hour')
      + interval '4 minutes 59 seconds', timestamptz '2026-01-01')
    where o.id = late.id;
    perform private.queue_order_messages(late.id, 'order_delayed');
    perform private.notify_order_followers(late.id);
  end loop;
end
$$;

comment on function private.announce_delays is
  'Informs the customers of late orders of a new time (promised_again_at), each once by text and mail.';

create or replace function public.lease_pushes(at_most integer default 20) returns table (
  id bigint, lease uuid, endpoint text, p256dh text, auth_secret text, notice_id uuid, kind text, event_key text, order_id uuid,
  seconds_to_live integer, facts jsonb
)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  due bigint[];
begin
  perform private.add_notice('late_order', late.order_id::text, late.order_id) from private.newly_late_orders() as late (order_id);
  perform private.announce_delays();
  if private.count_hit('jobs', 'learn-delivery-times', interval '1 hour') = 1 then
    perform private.learn_delivery_times();
  end if;
  due := array(
    select q.id from private.push_queue as q
    where q.due_at <= now()
    order by q.due_at
    limit least(greatest(coalesce(lease_pushes.at_most, 20), 1), 100)
    for update skip locked
  );
  delete from private.push_queue as q
  using public.notices as n, public.push_subscriptions as s
  where q.id = any (due) and n.id = q.notice_id and s.id = q.subscription_id and not (
    n.created_at > now() - private.notice_lifetime(n.kind) and private.is_notice_waiting(n)
    and exists (
      select from public.admin_profiles as profile
      join auth.users as account on account.id = profile.user_id
      where profile.user_id = s.user_id and profile.is_active and private.notice_area(n.kind) = any (private.areas_of(profile.role))
        and account.deleted_at is null
        and (account.banned_until is null or account.banned_until <= now())
    )
  );
  return query
  with taken as (
    update private.push_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid(), attempts = q.attempts + 1
    where q.id = any (due)
    returning q.id, q.lease, q.notice_id, q.subscription_id
  )
  select taken.id, taken.lease, s.endpoint, s.p256dh, s.auth_secret, n.id, n.kind, n.event_key, n.order_id,
    greatest(60, extract(epoch from n.created_at + private.notice_lifetime(n.kind) - now()))::integer, private.notice_facts(n)
  from taken
  join public.push_subscriptions as s on s.id = taken.subscription_id
  join public.notices as n on n.id = taken.notice_id;
end
$$;

comment on function public.lease_pushes is
  'Adds notices of orders that are late now. Then leases due pushes for a minute, without those whose notice was dealt with, is too old or is for a member who is no longer active or whose role lacks its area. A push whose process ended is leased again; its device replaces the earlier notification. seconds_to_live: how long the push service may retain it. facts: see notice_facts.';

grant execute on function public.read_push_keys, public.store_push_keys, public.lease_pushes, public.finish_push to service_role;

-- What the shop's processes ask: which jobs have work, and whether the database fits their version

create or replace function private.is_job_due(job text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that do or lease the work, such as lease_payment_queries.
  return case is_job_due.job
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or private.is_open_attempt(p.status)
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where private.is_unsent_refund(r.status)
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    when 'expire-reservations' then exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
    ) or exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
    ) or exists (
      select from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
    ) or exists (select from public.payments as p where p.status = 'review')
    when 'send-messages' then exists (
      select from private.outbox_queue as q where q.channel = 'mail' and q.due_at <= now()
    ) or exists (
      select from private.outbox_queue as q where q.channel = 'text' and q.due_at <= now()
    ) or exists (
      select from public.outbox_messages as m where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    )
    when 'send-notices' then exists (select from private.push_queue as q where q.due_at <= now())
      or exists (select from private.newly_late_orders())
      or exists (select from private.delays_to_announce())
      or not exists (select from private.push_keys)
    else false
  end;
end
$$;

comment on function private.is_job_due is 'Whether a job of the shop''s processes has work now.';

drop function private.delivery_promise();

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_delayed', 'text', null, '{shop}: sorry, {order} takes longer than we promised. It arrives by {arrival}. Questions? {shop_phone}'),
  ('order_delayed', 'mail', 'Your order {order} takes a little longer', $text$Habari {name},

We are sorry: your order {order} takes longer than we promised. It arrives by {arrival}.

[Follow it here: {link}

]Questions? Call us at {shop_phone}.

{shop}
{shop_email}$text$)
) as written (kind, channel, subject, body);
