-- Pages of staff lists: rows along an index or from candidates, their counts, their order, and the searches of the panel
-- (docs/decisions/staff-lists.md).

create function private.sortable_rows(is_search boolean) returns integer
language sql immutable
return case when is_search then 500 else 5000 end;
comment on function private.sortable_rows is
  'Number of newest rows of a staff list, or of what a search finds, that are sorted by another column than the date. mostSorted in web/admin/list/use-rows.ts.';

create function private.walk_list(
  list text, by_index text, by_row text, is_oldest_first boolean, before_created_at timestamptz, before_id uuid, most integer,
  nearby integer, out found_ids uuid[], out is_whole_list boolean
)
language plpgsql stable
set search_path = ''
set jit = off
-- Scans an index in its order and stops early. The planner cannot know how rare a typed text is, and would gather and sort the whole list.
set enable_sort = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  own constant text := case when list = 'orders' then 'o' else 'd' end;
  near constant text := format(
    'select %1$s.* from public.%2$I as %1$s where %3$s%4$s order by %1$s.created_at %5$s, %1$s.id %5$s limit $3',
    own, list, by_index,
    case when before_id is not null then
      format(' and (%1$s.created_at, %1$s.id) %2$s ($1, $2)', own, case when is_oldest_first then '>' else '<' end) end,
    case when is_oldest_first then 'asc' else 'desc' end
  );
begin
  execute format(
    'select array_agg(found.id) from (select %1$s.id from (%2$s) as %1$s%3$s where %4$s limit $4) as found',
    own, near,
    case when own = 'd' and by_row is not null then
      ' cross join lateral (select o.* from public.orders as o where o.id = d.order_id limit 1) as o' end,
    coalesce(by_row, 'true')
  ) into found_ids using before_created_at, before_id, nearby, most;
  is_whole_list := coalesce(cardinality(found_ids), 0) < most;
  if is_whole_list and by_row is not null then
    execute format('select count(*) < $3 from (%s) as near', near) into is_whole_list using before_created_at, before_id, nearby;
  end if;
end
$$;
comment on function private.walk_list is
  'The first rows that meet the conditions among the first `nearby` rows of a staff list, and whether the list has no other matches.';

create function private.rows_of_candidates(list text, by_index text, by_row text, candidates text, is_oldest_first boolean) returns text
language sql immutable set search_path = '' as $$
  -- The limits keep the planner from reading every row for a few ids. Rows are checked in the order of the list, so that a full page ends
  -- the query: by_row reads and folds all texts of an order.
  select format(
    'with candidates as materialized (%1$s), sorted as materialized (
       select %2$s.id, %2$s.%3$s as order_id, %2$s.created_at
       from candidates as c
       cross join lateral (select %2$s.* from public.%4$I as %2$s where %2$s.%3$s = c.id limit 1) as %2$s
       where %5$s
       order by %2$s.created_at %8$s, %2$s.id %8$s
     )
     select n.id, n.created_at
     from sorted as n
     cross join lateral (select o.* from public.orders as o where o.id = n.order_id limit 1) as o%6$s
     where %7$s',
    candidates, case when list = 'orders' then 'o' else 'd' end, case when list = 'orders' then 'id' else 'order_id' end, list, by_index,
    case when list <> 'orders' then ' cross join lateral (select d.* from public.deliveries as d where d.id = n.id limit 1) as d' end,
    by_row, case when is_oldest_first then 'asc' else 'desc' end
  );
$$;

create function private.find_by_date(
  filters private.list_filters, is_oldest_first boolean, before_created_at timestamptz, before_id uuid, most integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  conditions record;
  found_ids uuid[];
  is_whole_list boolean := false;
  nearby integer;
begin
  conditions := private.list_conditions(filters, false);
  if conditions.is_broad then
    -- A few of the newest rows show whether a search is broad. Then its page is soon complete; rarer matches come from the candidates.
    foreach nearby in array case
      when conditions.by_row is null then array[most]
      when conditions.candidates is null then array[10 * most, greatest(private.short_search_rows(), 10 * most)]
      else array[10 * most, 40 * most]
    end loop
      select w.found_ids, w.is_whole_list into found_ids, is_whole_list
      from private.walk_list(
        filters.list, conditions.by_index, conditions.by_row, is_oldest_first, before_created_at, before_id, most, nearby
      ) as w;
      exit when is_whole_list or coalesce(cardinality(found_ids), 0) = most
        or (conditions.candidates is not null and 4 * coalesce(cardinality(found_ids), 0) < most);
    end loop;
  end if;
  if conditions.candidates is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'select array_agg(page.id) from (%s and ($2 is null or (n.created_at, n.id) %s ($1, $2)) limit $3) as page',
      private.rows_of_candidates(
        filters.list, conditions.by_index, case when conditions.is_exact then 'true' else conditions.by_row end, conditions.candidates,
        is_oldest_first
      ),
      case when is_oldest_first then '>' else '<' end
    ) into found_ids using before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;
comment on function private.find_by_date is 'The ids of the first rows of a staff list after the given one, sorted by date.';

create function private.sort_expression(list text, key text) returns text
language sql immutable
return case list || ' ' || key
  when 'orders status' then
    $sql$array_position(array['pending', 'processing', 'shipped', 'out_for_delivery', 'delivered', 'cancelled'], o.status)$sql$
  when 'orders customer' then 'lower(o.customer_name)'
  when 'orders total' then 'o.total_amount'
  when 'deliveries status' then
    $sql$array_position(array['failed', 'pending', 'assigned', 'picked_up', 'in_transit', 'delivered'], d.delivery_status)$sql$
  when 'deliveries customer' then 'lower(o.customer_name)'
  when 'deliveries rider' then $sql$lower(coalesce(d.delivery_person, ''))$sql$
  when 'inquiries name' then 'lower(t.name)'
  when 'inquiries email' then 'lower(t.email)'
  when 'inquiries subject' then $sql$nullif(lower(trim(t.subject)), '')$sql$
  when 'inquiries status' then 't.is_read'
  when 'outbox_messages customer' then 'lower(t.customer_name)'
  when 'outbox_messages order' then $sql$nullif(substring(t.order_number from '\d+')::bigint, 0)$sql$
  when 'outbox_messages status' then
    $sql$array_position(array['failed', 'unsure', 'over_budget', 'waiting', 'sending', 'sent'], t.status)$sql$
end;
comment on function private.sort_expression is
  'What a list is sorted by, in SQL about its order (o), its delivery (d), or a row of another list (t). Null: no such order.';

create function private.sorted_page(
  list text, expression text, is_descending boolean, found_ids uuid[], before_id uuid, most integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  own constant text := case list when 'orders' then 'o' when 'deliveries' then 'd' else 't' end;
  page uuid[];
begin
  execute format(
    'with sorted as materialized (
       select f.id, row_number() over (order by %1$s %2$s nulls last, f.place) as place
       from unnest($1) with ordinality as f (id, place)
       cross join lateral (select %3$s.* from public.%4$I as %3$s where %3$s.id = f.id limit 1) as %3$s%5$s
     )
     select array_agg(s.id order by s.place)
     from sorted as s
     where s.place > coalesce((select before.place from sorted as before where before.id = $2), 0)
       and s.place <= coalesce((select before.place from sorted as before where before.id = $2), 0) + $3',
    expression, case when is_descending then 'desc' else 'asc' end, own, list,
    case when list = 'deliveries' then ' cross join lateral (select o.* from public.orders as o where o.id = d.order_id limit 1) as o' end
  ) into page using found_ids, before_id, most;
  return page;
end
$$;
comment on function private.sorted_page is
  'The ids of a page after a row, of rows that are sorted by an expression and, among equals, stay in their order.';

create function private.find_in_list(
  filters private.list_filters, sort text, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  expression constant text := private.sort_expression(filters.list, ltrim(sort, '-'));
begin
  if expression is null then
    return private.find_by_date(filters, coalesce(sort = 'date', false), before_created_at, before_id, most);
  end if;
  return private.sorted_page(
    filters.list, expression, sort ~ '^-',
    private.find_by_date(filters, false, null, null, private.sortable_rows(filters.search <> '')), before_id, most
  );
end
$$;
comment on function private.find_in_list is
  'The ids of a page of a staff list. sort: date (oldest first), -date or null (newest first), or a key of private.sort_expression, descending after a minus, among the newest private.sortable_rows() rows.';

create function private.count_along_index(list text, by_index text, most integer) returns integer
language plpgsql stable
set search_path = ''
set jit = off
-- Stops at the limit: a bitmap scan would read all rows first.
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  count integer;
begin
  execute format(
    'select count(*) from (select from public.%I as %s where %s limit %s) as bounded',
    list, case when list = 'orders' then 'o' else 'd' end, by_index, most
  ) into count;
  return count;
end
$$;

create function private.count_in_list(filters private.list_filters) returns integer
language plpgsql stable set search_path = '' as $$
declare
  most constant integer := private.most_counted() + 1;
  conditions record;
  count integer;
begin
  conditions := private.list_conditions(filters, true);
  if filters.list = 'orders' and conditions.by_row is null and conditions.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif conditions.by_row is null then
    count := private.count_along_index(filters.list, conditions.by_index, case when filters.rider <> '' then most else 10001 end);
  elsif conditions.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(
      filters.list, conditions.by_index, conditions.by_row, false, null, null, most, private.short_search_rows()
    ) as w;
  elsif conditions.is_exact then
    execute format(
      'select count(*) from (
         select from (%1$s) as c%2$s limit %3$s
       ) as bounded',
      conditions.candidates,
      case when filters.list <> 'orders' or conditions.by_index <> 'true' then format(
        ' cross join lateral (select %1$s.* from public.%2$I as %1$s where %1$s.%3$s = c.id limit 1) as %1$s where %4$s',
        case when filters.list = 'orders' then 'o' else 'd' end, filters.list,
        case when filters.list = 'orders' then 'id' else 'order_id' end, conditions.by_index
      ) end,
      most
    ) into count;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit %s) as bounded',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates, false), most
    ) into count;
  end if;
  return count;
end
$$;
comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most private.most_counted() and one more. All orders are counted exactly.';

create function private.walk_by_text(
  rows text, searched text, pattern text, is_oldest_first boolean, before_created_at timestamptz, before_id uuid, most integer,
  nearby integer, out found_ids uuid[], out is_whole_list boolean
)
language plpgsql stable
set search_path = ''
set jit = off
-- As in walk_list.
set enable_sort = off
set enable_bitmapscan = off
as $$
begin
  execute format(
    'with near as materialized (
       select t.id, coalesce(%1$s like $1, true) as matches %2$s order by t.created_at %3$s, t.id %3$s limit $5
     )
     select (select array_agg(found.id) from (select n.id from near as n where n.matches limit $4) as found), (select count(*) < $5 from near)',
    searched, rows, case when is_oldest_first then 'asc' else 'desc' end
  ) into found_ids, is_whole_list using pattern, before_created_at, before_id, most, nearby;
end
$$;

create function private.find_by_text(
  list text, searched text, condition text, search text, sort text, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  -- Characters match literally. A line break, which would match across two columns, counts as a space. Null for an empty search.
  pattern constant text := '%' || regexp_replace(
    lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g'
  ) || '%';
  page constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  expression constant text := private.sort_expression(list, ltrim(sort, '-'));
  most constant integer := case when expression is null then page else private.sortable_rows(pattern is not null) end;
  is_oldest_first constant boolean := coalesce(sort = 'date', false);
  -- A search scans this many of the newest before it uses the trigram index: a broad search has found its page by then.
  nearby constant integer := case
    when pattern is null then most when list = 'products' then 10 * page else greatest(40 * page, most)
  end;
  rows constant text := format(
    'from public.%I as t where %s%s', list, condition,
    case when before_id is not null and expression is null then
      format(' and (t.created_at, t.id) %s ($2, $3)', case when is_oldest_first then '>' else '<' end) end
  );
  found_ids uuid[];
  is_whole_list boolean;
begin
  select w.found_ids, w.is_whole_list into found_ids, is_whole_list
  from private.walk_by_text(rows, searched, pattern, is_oldest_first, before_created_at, before_id, most, nearby) as w;
  -- Trigram indexes do not contain shorter parts. A catalogue is read whole for them.
  if (pattern ~ '[[:alnum:]]{3}' or list = 'products') and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (select t.id, t.created_at %1$s and %2$s like $1)
       select array_agg(page.id)
       from (select f.id from found as f order by f.created_at %3$s, f.id %3$s limit $4) as page',
      -- Hides the status from the planner, which would prefer its index.
      replace(rows, 't.status =', $sql$t.status || '' =$sql$), searched, case when is_oldest_first then 'asc' else 'desc' end
    ) into found_ids using pattern, before_created_at, before_id, most;
  end if;
  if expression is null then
    return found_ids;
  end if;
  return private.sorted_page(list, expression, sort ~ '^-', found_ids, before_id, page);
end
$$;
comment on function private.find_by_text is
  'The ids of a page of a list that meet a condition and whose searched text contains the search. Both are SQL about t, the row. sort: as in private.find_in_list.';

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('orders');
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), sort, before_created_at, before_id, page_size
  );
  return query
    select o.*
    from unnest(found_ids) with ordinality as f (id, place)
    -- One step in an index for each row: the planner cannot know how few there are.
    cross join lateral (select * from public.orders as own where own.id = f.id limit 1) as o
    order by f.place;
end
$$;
comment on function public.search_orders is
  'For staff: a page of orders, newest first unless sorted otherwise, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area, products, or name and phone of the rider; or a phone number, also the rider''s; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, to_decide (needs_review or refund_due without those whose money goes back or is kept already), refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare (also being prepared), ready, on_the_way, failed. sort: date (oldest first), -date (default), customer, -customer, total, -total, status or -status; by another column than the date only the newest 5,000 of the list.';

create function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  return private.count_in_list(('orders', search, status, payment, from_day, until_day, rider, due));
end
$$;
comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 201 means more than 200, for a search or rider; 10001 more than 10,000, for other filters.';

create function private.first_day_of_deliveries(from_day date) returns date
language sql stable set search_path = '' as $$
  select case
    when (select auth.role()) = 'authenticated' and not public.may('orders')
    then greatest(from_day, private.nairobi_day(now()) - private.counter_days() + 1)
    else from_day
  end;
$$;
comment on function private.first_day_of_deliveries is
  'The first day of which the caller sees deliveries: that of the filter, for the role counter not before its seven days.';

create function public.search_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null, before_created_at timestamptz default null,
  before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.deliveries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('deliveries');
  found_ids := private.find_in_list(
    ('deliveries', search, status, null, private.first_day_of_deliveries(from_day), until_day, rider, due), sort, before_created_at, before_id, page_size
  );
  return query
    select d.*
    from unnest(found_ids) with ordinality as f (id, place)
    cross join lateral (select * from public.deliveries as own where own.id = f.id limit 1) as d
    order by f.place;
end
$$;
comment on function public.search_deliveries is
  'For staff: a page of deliveries, newest first unless sorted otherwise, after the one named by before_created_at and before_id. search: as in search_orders. from_day, until_day: of the payment, in Nairobi. due: late. sort: as in search_orders, and rider or -rider instead of the total.';

create function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return private.count_in_list(
    ('deliveries', search, status, null, private.first_day_of_deliveries(from_day), until_day, rider, due)
  );
end
$$;
comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 201 means more than 200, for a search or rider; 10001 more than 10,000, for other filters.';

create function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer, cash_not_received integer, to_cancel integer, to_agree integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late')),
    (select count(*) from private.cash_due('infinity'))::integer,
    (
      select count(*) from public.orders as o
      where o.cancel_requested_at is not null and o.status <> 'cancelled' and private.has_cancel_request(o)
    )::integer,
    (select count(*) from public.orders as o where o.awaits_agreement and o.status <> 'cancelled')::integer;
end
$$;
comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Customers by their phone

create type public.known_address as (address text, notes text);

create type public.past_item as (product_id uuid, product_name text, quantity integer, unit_price integer);

create type public.past_order as (
  id uuid, order_number text, created_at timestamptz, status text, payment_status text, total_amount integer, items public.past_item[]
);

create type public.known_customer as (
  phone text, name text, email text, orders integer, received_cents bigint,
  addresses public.known_address[], last_orders public.past_order[]
);
comment on type public.known_customer is
  'A customer as staff need them for another order. email: empty if none is known. orders: without cancelled ones. received_cents: what was paid for all orders and not sent back. addresses: the last three different ones, with the notes of the last order there. last_orders: the last five. Newest first.';

create function private.orders_of_phone(phone text) returns setof public.orders
language plpgsql stable rows 10 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select o.* from public.orders as o where o.customer_phone = orders_of_phone.phone and o.customer_phone <> '';
end
$$;
comment on function private.orders_of_phone is 'The orders with this phone (+254…), by its index.';

create function public.customer_by_phone(phone text) returns public.known_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_by_phone.phone);
  own public.orders[];
  customer public.known_customer;
begin
  perform private.expect_staff('orders');
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  own := array(select o from private.orders_of_phone(wanted) as o order by o.created_at desc, o.id desc);
  if cardinality(own) = 0 then
    return null;
  end if;
  customer.phone := wanted;
  customer.name := (own[1]).customer_name;
  select count(*) filter (where o.status <> 'cancelled'),
    coalesce((array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1], ''),
    coalesce(sum((
      select sum(p.charge_cents - change.returned_cents) from public.payments as p
      cross join lateral private.change_of(p.id) as change
      where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null and p.method <> 'credit'
    )), 0)
  into customer.orders, customer.email, customer.received_cents
  from unnest(own) as o;
  customer.addresses := array(
    select (latest.shipping_address, latest.delivery_notes)::public.known_address
    from (
      select distinct on (lower(o.shipping_address)) o.shipping_address, o.delivery_notes, o.created_at, o.id
      from unnest(own) as o
      where not o.is_collected
      order by lower(o.shipping_address), o.created_at desc, o.id desc
    ) as latest
    order by latest.created_at desc, latest.id desc
    limit 3
  );
  customer.last_orders := array(
    select (o.id, o.order_number, o.created_at, o.status, o.payment_status, o.total_amount, array(
      select (i.product_id, i.product_name, i.quantity, i.unit_price)::public.past_item
      from public.order_items as i where i.order_id = o.id order by i.position
    ))::public.past_order
    from unnest(own[1:5]) as o
    order by o.created_at desc, o.id desc
  );
  return customer;
end
$$;
comment on function public.customer_by_phone is
  'For staff: the customer with this phone, in any Kenyan format. Null: no order has it. Orders that were anonymised are no longer anyone''s.';

create function public.drinks_to_order(search text default '', ids uuid[] default null) returns table (
  id uuid, name text, brand text, price integer, image_url text, units_left integer, sold integer
)
language plpgsql stable security definer rows 30 set search_path = '' as $$
#variable_conflict use_column
declare
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(drinks_to_order.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
begin
  perform private.expect_staff('orders');
  -- Reads the whole catalogue, as find_products by a column, and of the orders only the newest.
  return query
    with sales as (
      select i.product_id, sum(i.quantity)::integer as units
      from (select o.id, o.status from public.orders as o order by o.created_at desc, o.id desc limit 300) as newest
      cross join lateral (select * from public.order_items as own where own.order_id = newest.id offset 0) as i
      where newest.status <> 'cancelled'
      group by i.product_id
    )
    select p.id, p.name, p.brand, p.price, p.image_url, public.units_for_sale(p), coalesce(s.units, 0)
    from public.products as p
    left join sales as s on s.product_id = p.id
    where p.is_active and (drinks_to_order.ids is null or p.id = any (drinks_to_order.ids))
      and private.without_accents(p.name || ' ' || coalesce(p.brand, '')) like all (words)
    order by public.units_for_sale(p) = 0, coalesce(s.units, 0) desc, lower(p.name), p.id
    limit 30;
end
$$;
comment on function public.drinks_to_order is
  'For staff who enter an order: up to 30 active products whose name and brand contain all words of a search, or those with these ids, with their price and the units that can be ordered now. Those of the newest 300 orders first, by units sold; those that cannot be ordered last.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;
