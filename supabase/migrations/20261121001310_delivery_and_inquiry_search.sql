-- Finding deliveries and inquiries: what staff type is looked for anywhere, however many there are. As orders are found:
-- these functions ask who reads and then read with their owner's rights, because row level security cannot use the indexes
-- of parts; their statements are planned for what is looked for each time, and rest on no statistics of the tables.

create index deliveries_by_part_of_the_person on public.deliveries
  using gin (lower(delivery_person) extensions.gin_trgm_ops) with (fastupdate = off);
create index inquiries_by_part_of_their_text on public.inquiries
  using gin (lower(name || E'\n' || email || E'\n' || coalesce(subject, '')) extensions.gin_trgm_ops) with (fastupdate = off);

create function public.search_deliveries(
  search text default '',
  status text default null,
  before_created_at timestamptz default null,
  before_id uuid default null,
  page_size integer default 50
) returns setof public.deliveries
language plpgsql stable security definer rows 50
set search_path = ''
as $$
declare
  pattern text := private.order_search_pattern(search_deliveries.search);
  most integer := least(greatest(coalesce(search_deliveries.page_size, 50), 1), 1000);
  -- How far a search goes through the newest before it looks a text up: so far, a broad one has found its page.
  nearby integer := 40 * most;
  in_list text := concat_ws(' and ', 'true',
    case when search_deliveries.status is not null then 'd.delivery_status = $2' end,
    case when search_deliveries.before_id is not null then '(d.created_at, d.id) < ($3, $4)' end
  );
  -- The status is hidden from the planner, who would take its index to be the better one.
  in_list_of_found text := replace(in_list, 'd.delivery_status =', $sql$d.delivery_status || '' =$sql$);
  order_matches constant text := '(lower(o.customer_name) like $1 or lower(o.order_number) like $1)';
  found_ids uuid[];
  is_whole_list boolean;
begin
  perform private.expect_staff();
  if pattern is null then
    return query execute
      format('select d.* from public.deliveries as d where %s order by d.created_at desc, d.id desc limit $5', in_list)
      using pattern, search_deliveries.status, search_deliveries.before_created_at, search_deliveries.before_id, most;
    return;
  end if;

  execute format(
    'with near as materialized (
       select d.id, d.created_at, d.order_id, d.delivery_person
       from public.deliveries as d where %s order by d.created_at desc, d.id desc limit $6
     )
     select
       (select array_agg(found.id) from (
         select d.id from near as d
         -- The limit keeps the planner from reading every order for the few that are asked for here.
         cross join lateral (select o.customer_name, o.order_number from public.orders as o where o.id = d.order_id limit 1) as o
         where lower(d.delivery_person) like $1 or %s
         order by d.created_at desc, d.id desc limit $5
       ) as found),
       (select count(*) < $6 from near)',
    in_list, order_matches
  ) into found_ids, is_whole_list
  using pattern, search_deliveries.status, search_deliveries.before_created_at, search_deliveries.before_id, most, nearby;

  if coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (
         select d.id, d.created_at from public.deliveries as d where lower(d.delivery_person) like $1 and %1$s
         union
         select d.id, d.created_at
         from public.orders as o
         join public.deliveries as d on d.order_id = o.id
         -- The index holds the e-mail too, in which nothing is looked for here.
         where lower(o.customer_name || E''\n'' || o.customer_email || E''\n'' || o.order_number) like $1 and %2$s and %1$s
       )
       select array_agg(newest.id)
       from (select found.id from found order by found.created_at desc, found.id desc limit $5) as newest',
      in_list_of_found, order_matches
    ) into found_ids
    using pattern, search_deliveries.status, search_deliveries.before_created_at, search_deliveries.before_id, most;
  end if;
  return query
    select d.* from public.deliveries as d where d.id = any (found_ids) order by d.created_at desc, d.id desc;
end
$$;
comment on function public.search_deliveries(text, text, timestamptz, uuid, integer) is
  'For staff: a page of the deliveries whose delivery person, customer or order number contains a text, in any case and literally; newest first, after the delivery named by before_created_at and before_id.';

create function public.search_inquiries(
  search text default '',
  before_created_at timestamptz default null,
  before_id uuid default null,
  page_size integer default 50
) returns setof public.inquiries
language plpgsql stable security definer rows 50
set search_path = ''
as $$
declare
  pattern text := private.order_search_pattern(search_inquiries.search);
  most integer := least(greatest(coalesce(search_inquiries.page_size, 50), 1), 1000);
  nearby integer := 40 * most;
  in_list text := case when search_inquiries.before_id is null then 'true' else '(i.created_at, i.id) < ($2, $3)' end;
  matches constant text := $sql$lower(i.name || E'\n' || i.email || E'\n' || coalesce(i.subject, '')) like $1$sql$;
  found_ids uuid[];
  is_whole_list boolean;
begin
  perform private.expect_staff();
  if pattern is null then
    return query execute
      format('select i.* from public.inquiries as i where %s order by i.created_at desc, i.id desc limit $4', in_list)
      using pattern, search_inquiries.before_created_at, search_inquiries.before_id, most;
    return;
  end if;

  execute format(
    'with near as materialized (
       select i.id, i.created_at, i.name, i.email, i.subject
       from public.inquiries as i where %s order by i.created_at desc, i.id desc limit $5
     )
     select
       (select array_agg(found.id) from (
         select i.id from near as i where %s order by i.created_at desc, i.id desc limit $4
       ) as found),
       (select count(*) < $5 from near)',
    in_list, matches
  ) into found_ids, is_whole_list
  using pattern, search_inquiries.before_created_at, search_inquiries.before_id, most, nearby;

  if coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (select i.id, i.created_at from public.inquiries as i where %s and %s)
       select array_agg(newest.id)
       from (select found.id from found order by found.created_at desc, found.id desc limit $4) as newest',
      in_list, matches
    ) into found_ids
    using pattern, search_inquiries.before_created_at, search_inquiries.before_id, most;
  end if;
  return query
    select i.* from public.inquiries as i where i.id = any (found_ids) order by i.created_at desc, i.id desc;
end
$$;
comment on function public.search_inquiries(text, timestamptz, uuid, integer) is
  'For staff: a page of the inquiries whose name, e-mail or subject contains a text, in any case and literally; newest first, after the inquiry named by before_created_at and before_id.';
grant execute on function
  public.search_deliveries(text, text, timestamptz, uuid, integer),
  public.search_inquiries(text, timestamptz, uuid, integer)
to authenticated, service_role;
