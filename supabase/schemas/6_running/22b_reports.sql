-- Reports on a span of days (docs/decisions/days.md).

create type public.report_day as (
  day date, orders bigint, sold bigint, sold_cents bigint, received_cents bigint, refunded_cents bigint, net_cents bigint
);
create type public.report_drink as (name text, brand text, orders bigint, units bigint, cents bigint);
create type public.report_hour as (hour integer, orders bigint, cents bigint);
create type public.report_area as (area text, orders bigint, cents bigint);
create type public.report_rider as (rider text, orders bigint, delivered bigint, failures bigint, cash_cents bigint);
create type public.report_refund as (kind text, reason text, refunds bigint, cents bigint);
create type public.report_prompt as (status text, result_code text, prompts bigint);
create type public.report_discount as (code text, orders bigint, cents bigint);
create type public.report as (
  days public.report_day[], drinks public.report_drink[], hours public.report_hour[], areas public.report_area[],
  riders public.report_rider[], refunds public.report_refund[], prompts public.report_prompt[],
  discounts public.report_discount[]
);
comment on type public.report is
  'What was sold and received in a span of days in Nairobi, in cents. Orders, drinks, hours, areas, riders, prompts and discounts count by the day on which the order was placed. Sold orders are those that are paid. Received and refunded money counts by the day on which it moved, as in day_totals.';

create function private.area_of(shipping_address text, city text) returns text
language sql immutable
return nullif(concat_ws(', ',
  nullif(trim(regexp_replace(shipping_address, ', (Building|Unit): .*$', '')), ''), nullif(nullif(trim(city), ''), 'Nairobi')
), '');
comment on function private.area_of is 'The address of an order without building and unit; with the city if it is not Nairobi. As areaOf in domain/orders/order-summary.ts.';

create function private.folded_area(area text) returns text
language sql immutable set search_path = '' as $$
  select coalesce(nullif(replace(private.fold_text(left(area, 300)), ' ', ''), ''), area);
$$;
comment on function private.folded_area is 'What spellings of one area have in common: without case, accents, spaces and punctuation.';

create function public.report(since date, until date) returns public.report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  answer public.report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(report.since, report.until);
  with placed as materialized (
    select o.id, o.created_at, o.payment_status = 'paid' as is_sold, o.charge_cents, o.charge_cents - o.delivery_fee as drinks_cents, o.is_collected,
      o.discount_code, o.discount_cents,
      case when o.payment_status = 'paid' then coalesce(o.area_name, private.area_of(o.shipping_address, o.city)) end as area
    from public.orders as o
    where o.created_at >= span_start and o.created_at < span_end
  ), money as materialized (
    select m.* from private.money_rows(span_start, span_end) as m
  ), placed_by_day as (
    select private.nairobi_day(p.created_at) as day, count(*) as orders, count(*) filter (where p.is_sold) as sold,
      sum(p.charge_cents) filter (where p.is_sold) as cents
    from placed as p group by 1
  ), money_by_day as (
    select private.nairobi_day(m.happened_at) as day, sum(m.received_cents) as received, sum(m.refunded_cents) as refunded
    from money as m group by 1
  ), by_day as (
    select (
      d.day::date, coalesce(p.orders, 0), coalesce(p.sold, 0), coalesce(p.cents, 0),
      coalesce(m.received, 0), coalesce(m.refunded, 0), coalesce(m.received, 0) - coalesce(m.refunded, 0)
    )::public.report_day as line, d.day
    from generate_series(report.since::timestamp, report.until::timestamp, interval '1 day') as d (day)
    left join placed_by_day as p on p.day = d.day::date
    left join money_by_day as m on m.day = d.day::date
  ), sold_lines as (
    select i.order_id, i.product_id, i.product_name, i.quantity, i.list_cents, p.drinks_cents - i.all_cents as difference,
      i.list_cents + i.before_cents as until_cents, i.before_cents, i.all_cents
    from placed as p
    -- Lookups by key for each order, with any statistics.
    cross join lateral (
      select i.*, i.quantity::bigint * i.unit_price as list_cents,
        sum(i.quantity::bigint * i.unit_price) over () as all_cents,
        coalesce(sum(i.quantity::bigint * i.unit_price) over (order by i.position, i.id rows between unbounded preceding and 1 preceding), 0) as before_cents
      from public.order_items as i where i.order_id = p.id offset 0
    ) as i
    where p.is_sold
  ), by_drink as (
    -- The discount and the rounding to whole shillings, shared in proportion: each line gets what is due until it, less what is until the one before.
    select (
      i.product_name, max(own.brand), count(distinct i.order_id), sum(i.quantity),
      sum(i.list_cents + coalesce(
        round(i.difference * i.until_cents / nullif(i.all_cents, 0)) - round(i.difference * i.before_cents / nullif(i.all_cents, 0)), 0
      ))::bigint
    )::public.report_drink as line
    from sold_lines as i
    left join lateral (select d.brand from public.products as d where d.id = i.product_id offset 0) as own on true
    group by i.product_name
  ), by_hour as (
    select (h.hour, count(p.id), coalesce(sum(p.charge_cents), 0))::public.report_hour as line, h.hour
    from generate_series(0, 23) as h (hour)
    left join placed as p on p.is_sold and extract(hour from p.created_at at time zone 'Africa/Nairobi') = h.hour
    where exists (select from placed as any_sold where any_sold.is_sold)
    group by h.hour
  ), area_spellings as materialized (
    select p.is_collected, case when not p.is_collected then p.area end as area, count(*) as orders, sum(p.charge_cents) as cents
    from placed as p where p.is_sold
    group by 1, 2
  ), area_sums as (
    select case when s.is_collected then 'Collected at the shop' else (array_agg(s.area order by s.orders desc, s.area))[1] end as area,
      sum(s.orders) as orders, sum(s.cents) as cents
    from area_spellings as s
    group by s.is_collected, private.folded_area(s.area)
  ), ranked_areas as (
    select a.*, row_number() over (order by a.orders desc, a.cents desc, a.area) <= 50 as is_listed from area_sums as a
  ), by_area as (
    select (case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end, sum(a.orders), sum(a.cents))::public.report_area as line
    from ranked_areas as a
    group by a.is_listed, case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end
  ), by_rider as (
    select (
      mode() within group (order by trim(d.delivery_person)), count(*), count(*) filter (where d.delivery_status = 'delivered'),
      sum(d.failures), coalesce(sum(cash.cents), 0)
    )::public.report_rider as line
    from placed as p
    cross join lateral (select * from public.deliveries as d where d.order_id = p.id offset 0) as d
    left join lateral (
      select sum(c.charge_cents) as cents
      from (select * from public.payments as c where c.order_id = p.id offset 0) as c
      where c.method = 'cash' and c.status = 'completed' and lower(trim(c.received_from)) = lower(trim(d.delivery_person))
    ) as cash on true
    where d.delivery_person is not null
    group by lower(trim(d.delivery_person))
  ), by_refund as (
    select (m.kind, m.note, count(*), sum(m.refunded_cents))::public.report_refund as line
    from money as m where m.refunded_cents > 0
    group by m.kind, m.note
  ), by_prompt as (
    select (tried.status, case when tried.status = 'failed' then tried.result_code end, count(*))::public.report_prompt as line
    from placed as p
    cross join lateral (select * from public.payments as tried where tried.order_id = p.id offset 0) as tried
    where tried.method = 'prompt' and tried.purpose = 'order'
    group by tried.status, case when tried.status = 'failed' then tried.result_code end
  ), by_code as (
    select (p.discount_code, count(*), sum(p.discount_cents))::public.report_discount as line
    from placed as p where p.is_sold and p.discount_cents > 0
    group by p.discount_code
  )
  select
    array(select d.line from by_day as d order by d.day),
    array(select d.line from by_drink as d order by (d.line).units desc, (d.line).cents desc, (d.line).name),
    array(select h.line from by_hour as h order by h.hour),
    array(select a.line from by_area as a order by (a.line).area = 'All others', (a.line).orders desc, (a.line).cents desc, (a.line).area),
    array(select r.line from by_rider as r order by (r.line).orders desc, (r.line).rider),
    array(select r.line from by_refund as r order by (r.line).cents desc, (r.line).kind, (r.line).reason),
    array(select t.line from by_prompt as t order by (t.line).prompts desc, (t.line).status, (t.line).result_code),
    array(select c.line from by_code as c order by (c.line).cents desc, (c.line).code)
  into answer;
  return answer;
end
$$;
comment on function public.report is
  'For staff: the report on up to 367 days in Nairobi. Reads the orders and the money of these days, whatever the size of the shop. Areas: the 50 with the most orders, and all others.';

-- Execution rights
grant execute on function public.report to authenticated, service_role;
