-- Finding orders: what staff type is looked for anywhere in name, e-mail and number, however many orders there are.

create extension if not exists pg_trgm with schema extensions;

drop index public.orders_newest_first;
create index orders_newest_first on public.orders (created_at desc, id desc);
create index orders_of_a_status_newest_first on public.orders (status, created_at desc, id desc);
-- One text for all three, since a search in either of them is one search. No list of pending entries: nothing would
-- clear it on the embedded database, and every search would read it.
create index orders_by_part_of_their_text on public.orders
  using gin (lower(customer_name || E'\n' || customer_email || E'\n' || order_number) extensions.gin_trgm_ops)
  with (fastupdate = off);

create function private.order_search_pattern(search text) returns text
language sql immutable
set search_path = ''
as $$
  -- Every sign stands for itself. A line break, which would reach across two of the columns, is looked for as a space.
  select '%' || regexp_replace(lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g') || '%';
$$;
comment on function private.order_search_pattern(text) is 'For LIKE: contains what was typed, in lower case. Null when nothing was.';

-- Row level security cannot use the index of parts: LIKE might tell of rows that must not be seen. So the functions for
-- staff ask who reads and then read with their owner's rights. Their statements are planned for what is looked for each
-- time, and rest on no statistics of the table, which the embedded database never gathers.

create function private.newest_orders(
  pattern text,
  status text,
  before_created_at timestamptz,
  before_id uuid,
  most integer,
  nearby integer,
  out found_ids uuid[],
  out is_whole_list boolean
)
language plpgsql stable
set search_path = ''
-- Walks along an index in its order and stops early. Without statistics the planner would gather and sort the whole list.
set enable_sort = off
set enable_bitmapscan = off
as $$
declare
  in_list text := concat_ws(' and ', 'true',
    case when newest_orders.status is not null then 'o.status = $2' end,
    case when newest_orders.before_id is not null then '(o.created_at, o.id) < ($3, $4)' end
  );
begin
  execute format(
    'select array_agg(found.id) from (
       select o.id
       from (select o.* from public.orders as o where %s order by o.created_at desc, o.id desc limit $6) as o
       where $1 is null or lower(o.customer_name || E''\n'' || o.customer_email || E''\n'' || o.order_number) like $1
       limit $5
     ) as found', in_list
  ) into found_ids
  using pattern, newest_orders.status, newest_orders.before_created_at, newest_orders.before_id, most, nearby;
  if coalesce(cardinality(found_ids), 0) >= most then
    is_whole_list := false;
    return;
  end if;
  execute format('select count(*) < $5 from (select from public.orders as o where %s limit $5) as o', in_list)
  into is_whole_list
  using pattern, newest_orders.status, newest_orders.before_created_at, newest_orders.before_id, nearby;
end
$$;
comment on function private.newest_orders(text, text, timestamptz, uuid, integer, integer) is
  'The first of the orders that match, looked for among so many of the newest (nearby); and whether these were all there are.';

create function public.search_orders(
  search text default '',
  status text default null,
  before_created_at timestamptz default null,
  before_id uuid default null,
  page_size integer default 50
) returns setof public.orders
language plpgsql stable security definer rows 50
set search_path = ''
as $$
declare
  pattern text := private.order_search_pattern(search_orders.search);
  most integer := least(greatest(coalesce(search_orders.page_size, 50), 1), 1000);
  -- So far through the newest a broad search has found its page; what is rarer is looked up in the index of parts.
  nearby integer := case when pattern is null then most else 40 * most end;
  found_ids uuid[];
  is_whole_list boolean;
begin
  perform private.expect_staff();
  select n.found_ids, n.is_whole_list into found_ids, is_whole_list
  from private.newest_orders(
    pattern, search_orders.status, search_orders.before_created_at, search_orders.before_id, most, nearby
  ) as n;
  if pattern is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute 'with found as materialized (select o.id, o.created_at from public.orders as o where ' || concat_ws(' and ',
      $sql$lower(o.customer_name || E'\n' || o.customer_email || E'\n' || o.order_number) like $1$sql$,
      -- Hidden from the planner, who would take the index of the status to be the better one.
      case when search_orders.status is not null then $sql$o.status || '' = $2$sql$ end,
      case when search_orders.before_id is not null then '(o.created_at, o.id) < ($3, $4)' end
    ) || ') select array_agg(newest.id)
       from (select o.id from found as o order by o.created_at desc, o.id desc limit $5) as newest'
    into found_ids
    using pattern, search_orders.status, search_orders.before_created_at, search_orders.before_id, most;
  end if;
  return query
    select o.* from public.orders as o where o.id = any (found_ids) order by o.created_at desc, o.id desc;
end
$$;
comment on function public.search_orders(text, text, timestamptz, uuid, integer) is
  'For staff: a page of the orders whose name, e-mail or number contains a text, in any case and literally; newest first, after the order named by before_created_at and before_id.';

create function public.count_orders(search text default '', status text default null) returns integer
language plpgsql stable security definer
set search_path = ''
as $$
declare
  pattern text := private.order_search_pattern(count_orders.search);
  count integer;
begin
  perform private.expect_staff();
  execute 'select count(*) from public.orders as o where ' || concat_ws(' and ', 'true',
    case when pattern is not null then
      $sql$lower(o.customer_name || E'\n' || o.customer_email || E'\n' || o.order_number) like $1$sql$ end,
    case when count_orders.status is not null then
      case when pattern is null then 'o.status = $2' else $sql$o.status || '' = $2$sql$ end end
  ) into count using pattern, count_orders.status;
  return count;
end
$$;
comment on function public.count_orders(text, text) is 'For staff: how many orders search_orders finds, on all its pages.';
grant execute on function
  public.search_orders(text, text, timestamptz, uuid, integer),
  public.count_orders(text, text)
to authenticated, service_role;
