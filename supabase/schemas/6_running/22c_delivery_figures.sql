-- How deliveries went in a span of days: on time, how long they took, and why they failed (docs/decisions/delivery-figures.md).

create type public.delivery_line as (
  name text, delivered bigint, on_time bigint, median_minutes integer, p90_minutes integer, failures bigint, ratings bigint,
  average_stars numeric
);
create type public.delivery_failures as (reason text, failures bigint);
create type public.delivery_report as (
  total public.delivery_line, areas public.delivery_line[], hours public.delivery_line[], riders public.delivery_line[],
  reasons public.delivery_failures[]
);
comment on type public.delivery_report is
  'Deliveries of orders that were paid, or whose customers chose cash at the door, in a span of days in Nairobi; not of orders that are collected, nor of those that wait. on_time: of the delivered ones, by the first promise (private.due_at). Minutes: from the payment, within opening hours as in the promise; without orders whose day was agreed on. hours: of the payment. failures: how often goods came back. average_stars: of the ratings, with one decimal; null without any.';

create function public.delivery_report(since date, until date) returns public.delivery_report
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
      extract(hour from d.created_at at time zone 'Africa/Nairobi')::integer as hour,
      (select given.stars from public.ratings as given where given.order_id = d.order_id) as stars
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
      percentile_disc(0.5) within group (order by r.minutes), percentile_disc(0.9) within group (order by r.minutes), coalesce(sum(r.failures), 0), count(r.stars), round(avg(r.stars), 1)
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
