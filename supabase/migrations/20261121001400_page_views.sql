-- What the dashboard shows: page views counted by day, without anything of who came, and the shop's figures.

create table public.page_views (
  day date not null,
  path text not null,
  views integer not null,
  constraint "one count per day and page" primary key (day, path),
  constraint "a view was counted" check (views > 0)
);
comment on table public.page_views is
  'How often each page of the storefront was opened, per day in Nairobi. Nothing of who opened it: no address, no device, no cookie.';
alter table public.page_views enable row level security;
create policy "staff read the page views" on public.page_views
  for select to authenticated using ((select public.is_admin()));
grant select on public.page_views to authenticated;

create function private.counted_page(path text) returns text
language sql stable
set search_path = ''
as $$
  -- Only pages that exist have a count of their own: what strangers send cannot fill the table.
  select case
    when page in ('/', '/shop', '/contact', '/delivery', '/newsletter', '/track-order') then page
    -- Who follows which order is nobody's business here.
    when page like '/track-order/%' then '/track-order'
    when page ~ '^/(admin|api)(/|$)' then null
    when exists (select from public.products as p where page = '/shop/' || p.slug) then page
    else 'other'
  end
  from (select coalesce(nullif(rtrim(counted_page.path, '/'), ''), '/') as page) as asked;
$$;
comment on function private.counted_page(text) is
  'Under which page a view is counted: a page of the storefront, ''other'' for an address it does not have, null for staff screens.';

create function public.record_page_views(views jsonb) returns void
language sql volatile security definer
set search_path = ''
as $$
  insert into public.page_views as counted (day, path, views)
  select (now() at time zone 'Africa/Nairobi')::date, private.counted_page(seen.path), sum(seen.views)::integer
  from jsonb_to_recordset(record_page_views.views) as seen (path text, views integer)
  where private.counted_page(seen.path) is not null and seen.views > 0
  group by 2
  -- Always in one order: two processes that write at once must not wait for each other.
  order by 2
  on conflict (day, path) do update set views = counted.views + excluded.views;
$$;
comment on function public.record_page_views(jsonb) is
  'Adds page views to today''s counts: [{"path": "/shop", "views": 3}, …].';
grant execute on function public.record_page_views(jsonb) to service_role;

create function public.dashboard_figures() returns table (
  products bigint,
  orders bigint,
  inquiries bigint,
  revenue bigint,
  paid_revenue bigint
)
language plpgsql stable security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
  select
    (select count(*) from public.products as p where p.is_active),
    o.count,
    (select count(*) from public.inquiries),
    o.revenue,
    o.paid
  from (
    select count(*), coalesce(sum(total_amount), 0)::bigint as revenue,
      coalesce(sum(total_amount) filter (where payment_status = 'paid'), 0)::bigint as paid
    from public.orders
  ) as o;
end
$$;
comment on function public.dashboard_figures() is
  'Active products, orders, inquiries, and the sum of all orders and of the paid ones in cents. For staff.';
grant execute on function public.dashboard_figures() to authenticated;

create function public.daily_figures(days integer default 30) returns table (day date, page_views bigint, orders bigint)
language plpgsql stable security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  today date := (now() at time zone 'Africa/Nairobi')::date;
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff();
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select (o.created_at at time zone 'Africa/Nairobi')::date as day, count(*) as count
    from public.orders as o
    where o.created_at >= first_day::timestamp at time zone 'Africa/Nairobi'
    group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;
comment on function public.daily_figures(integer) is
  'Page views and orders of the last days in Nairobi, today included, days without any as 0. For staff.';
grant execute on function public.daily_figures(integer) to authenticated;
