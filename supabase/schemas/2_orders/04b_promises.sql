-- When an order arrives: opening hours, days off, and the one rule of the promise (docs/decisions/promise.md).
-- All days and times of day are those of Nairobi.

create function private.shop_promise_minutes() returns integer
language sql immutable
return 60;
comment on function private.shop_promise_minutes is
  'Minutes from the payment to the arrival, for orders without an area. shopPromiseMinutes in domain/deliveries/delivery-promise.ts.';

create function private.open_times(settings public.store_settings, since timestamptz, days integer default 61) returns tstzmultirange
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

create function private.arrival_after(settings public.store_settings, minutes integer, since timestamptz) returns timestamptz
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

create function private.queue_minutes(settings public.store_settings) returns integer
language plpgsql stable set search_path = '' as $$
begin
  -- At most an hour, so counting can stop at 12 steps.
  return least(60, settings.queue_minutes * ((
    select count(*) from (
      select from public.deliveries as d
      -- One step in an index for each delivery: the planner would rather read all orders.
      cross join lateral (select own.delivery_day from public.orders as own where own.id = d.order_id limit 1) as o
      where private.is_before_pickup(d.delivery_status) and coalesce(o.delivery_day <= private.nairobi_day(now()), true)
      limit 120
    ) as waiting
  ) / 10)::integer);
end
$$;
comment on function private.queue_minutes is
  'Minutes that the load of the queue adds to a promise: store_settings.queue_minutes for every ten orders that have not left the shop and are due today or sooner, at most 60.';

create function private.promise_for(area_id uuid, at timestamptz) returns timestamptz
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
    select least(minutes * 2, e.p90_minutes) from private.delivery_estimates as e where e.area_id = promise_for.area_id and e.hour is null
  ));
  return private.arrival_after(settings, minutes + private.queue_minutes(settings), promise_for.at);
end
$$;
comment on function private.promise_for is
  'The one rule of the promise: when an order for this area, or without one, arrives that is paid at this moment. Null: not within 60 days.';

create function private.promise_of(ordered public.orders, at timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
begin
  if ordered.delivery_day is null then
    return private.promise_for(ordered.area_id, promise_of.at);
  end if;
  return (
    -- Not midnight, which is shown as the next day.
    select least(upper(private.open_times(s, day.starts) * tstzmultirange(tstzrange(day.starts, day.ends))), day.ends - interval '1 minute')
    from public.store_settings as s,
      (select ordered.delivery_day::timestamp at time zone 'Africa/Nairobi' as starts,
        (ordered.delivery_day + 1)::timestamp at time zone 'Africa/Nairobi' as ends) as day
  );
end
$$;
comment on function private.promise_of is 'The promise of an order that is paid at this moment: as promise_for, or by the end of the day that was agreed on.';

create function private.due_at(o public.orders, delivery_created_at timestamptz) returns timestamptz
language sql immutable
return coalesce(
  o.promised_at, (o.delivery_day + 1)::timestamp at time zone 'Africa/Nairobi' - interval '1 minute',
  coalesce(delivery_created_at, o.created_at) + make_interval(mins => private.shop_promise_minutes())
);
comment on function private.due_at is
  'When an order is late: its promise, else the end of the agreed day, else an hour after its payment. dueAt in domain/deliveries/delivery-promise.ts.';

create function public.delivery_promise(area_id uuid default null) returns jsonb
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
  'Minutes from payment to delivery in the last 30 days, per area and hour of the payment; hour null: of all hours. Only after twenty deliveries. Filled by learn_delivery_times.';
comment on column private.delivery_estimates.median_way_minutes is 'Median of the minutes from the shop to the door. Null: no pickup was noted.';
alter table private.delivery_estimates enable row level security;

create function private.minutes_taken(open_times tstzmultirange, since timestamptz, until timestamptz) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return ceil(extract(epoch from case
    when open_times is null then until - since
    else (select sum(upper(span) - lower(span)) from unnest(open_times * tstzmultirange(tstzrange(since, until))) as span)
  end) / 60);
end
$$;
comment on function private.minutes_taken is 'Minutes between two moments within open times. Null: always open.';

create function public.learn_delivery_times() returns void
language plpgsql security definer set search_path = '' as $$
declare
  -- By today's hours. Null: always open.
  open_times constant tstzmultirange := (
    select private.open_times(s, now() - interval '30 days') from public.store_settings as s
    where s.opening_hours <> '[]' or s.days_off <> '[]'
  );
begin
  -- Two processes of the shop learn one after the other.
  perform pg_advisory_xact_lock(hashtext('learn_delivery_times'));
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
comment on function public.learn_delivery_times is
  'For the shop itself, once an hour: computes delivery_estimates from the deliveries of the last 30 days. Counts open minutes, as the promise does.';

create function public.delivery_estimates() returns table (
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

create function private.way_minutes(area_id uuid) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return coalesce(
    (
      select e.median_way_minutes from private.delivery_estimates as e
      where e.area_id = way_minutes.area_id and e.median_way_minutes is not null
        and (e.hour is null or e.hour = extract(hour from now() at time zone 'Africa/Nairobi'))
      order by e.hour nulls last
      limit 1
    ),
    (select a.promise_from_minutes from public.delivery_areas as a where a.id = way_minutes.area_id and a.promise_to_minutes < 1440),
    -- As the shop's promise, "15 to 60 minutes".
    case when way_minutes.area_id is null then 15 end
  );
end
$$;
comment on function private.way_minutes is 'Minutes from the shop to the door in an area at this hour: learned, else the earliest arrival that the area, or without one the shop, promises. Null for promises of days.';

-- Execution rights
grant execute on function public.delivery_promise to anon, authenticated, service_role;
grant execute on function public.delivery_estimates to authenticated, service_role;
grant execute on function public.learn_delivery_times to service_role;
