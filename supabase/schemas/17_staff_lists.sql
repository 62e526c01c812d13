-- Lists of orders and deliveries for staff: search, filters and counts (docs/decisions/staff-lists.md).

create function private.delivery_promise() returns interval
language sql immutable
return interval '60 minutes';
comment on function private.delivery_promise is
  'Time after the payment from which an order is late. deliveryPromiseMinutes in domain/delivery-status.ts.';

create function private.short_search_rows() returns integer
language sql immutable
return 2000;
comment on function private.short_search_rows is
  'Number of newest rows that are searched if every part of the search has fewer than three letters, because trigram indexes do not contain shorter parts.';

create function private.order_text(o public.orders) returns text
language sql immutable
return o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n'
  || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city;
comment on function private.order_text is 'What a search reads of an order, as the index orders_by_words has it.';

create function private.rider_text(d public.deliveries) returns text
language sql immutable
return coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g');
comment on function private.rider_text is 'What a search reads of the rider of a delivery, as the index deliveries_by_rider has it.';

create function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(private.without_accents(search), 200));
  typed_receipt text := private.normalised_receipt(search);
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select named.id from private.orders_named(private.order_numbers_in(written)) as named (id)
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;
comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, order number or M-PESA receipt was typed completely; then only these match.';

create function private.is_in_item_names(pattern text) returns boolean
language sql stable
set search_path = ''
-- Bounds the cost of any text: the planner cannot know how rare a pattern is, and would scan every item for an unknown word.
set enable_seqscan = off
set jit = off
as $$
  select exists (
    select from public.order_items as i
    where private.without_accents(i.product_name) like pattern
  );
$$;
comment on function private.is_in_item_names is 'Whether a LIKE pattern matches the name of any ordered product.';

create function private.is_in_rider_names(pattern text) returns boolean
language sql stable set search_path = '' set enable_seqscan = off set jit = off as $$
  select exists (
    select from public.deliveries as d
    where private.without_accents(private.rider_text(d)) like pattern
  );
$$;
comment on function private.is_in_rider_names is 'Whether a LIKE pattern matches the name or phone of any rider.';

create type private.list_filters as (
  list text, search text, status text, payment text, from_day date, until_day date, rider text, due text
);
comment on type private.list_filters is 'Filters of a staff list: of orders or deliveries. Null or an empty text: no filter.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create function private.list_conditions(
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
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_open || format($sql$ and o.payment_status = 'paid' and coalesce(
          (select private.work_step(o.status, o.payment_status, d) from public.deliveries as d where d.order_id = o.id), 'prepare'
        ) = any (%L)$sql$, case filters.due when 'prepare' then array['prepare', 'preparing'] else array[filters.due] end)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then $sql$d.delivery_status <> 'delivered' and d.created_at < now() - private.delivery_promise()$sql$
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
    checked := checked || (is_open || $sql$ and o.payment_status = 'paid'$sql$);
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_open || $sql$ and o.payment_status = 'paid'$sql$;
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

create function private.walk_list(
  list text, by_index text, by_row text, before_created_at timestamptz, before_id uuid, most integer, nearby integer,
  out found_ids uuid[], out is_whole_list boolean
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
    'select %1$s.* from public.%2$I as %1$s where %3$s%4$s order by %1$s.created_at desc, %1$s.id desc limit $3',
    own, list, by_index, case when before_id is not null then format(' and (%1$s.created_at, %1$s.id) < ($1, $2)', own) end
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
  'The first rows that meet the conditions among the newest `nearby` rows of a staff list, and whether the list has no other matches.';

create function private.rows_of_candidates(list text, by_index text, by_row text, candidates text) returns text
language sql immutable set search_path = '' as $$
  -- The limits keep the planner from reading every row for a few ids. Rows are checked newest first, so that a full page ends the query:
  -- by_row reads and folds all texts of an order.
  select format(
    'with candidates as materialized (%1$s), newest as materialized (
       select %2$s.id, %2$s.%3$s as order_id, %2$s.created_at
       from candidates as c
       cross join lateral (select %2$s.* from public.%4$I as %2$s where %2$s.%3$s = c.id limit 1) as %2$s
       where %5$s
       order by %2$s.created_at desc, %2$s.id desc
     )
     select n.id, n.created_at
     from newest as n
     cross join lateral (select o.* from public.orders as o where o.id = n.order_id limit 1) as o%6$s
     where %7$s',
    candidates, case when list = 'orders' then 'o' else 'd' end, case when list = 'orders' then 'id' else 'order_id' end, list, by_index,
    case when list <> 'orders' then ' cross join lateral (select d.* from public.deliveries as d where d.id = n.id limit 1) as d' end,
    by_row
  );
$$;

create function private.find_in_list(
  filters private.list_filters, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
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
      from private.walk_list(filters.list, conditions.by_index, conditions.by_row, before_created_at, before_id, most, nearby) as w;
      exit when is_whole_list or coalesce(cardinality(found_ids), 0) = most
        or (conditions.candidates is not null and 4 * coalesce(cardinality(found_ids), 0) < most);
    end loop;
  end if;
  if conditions.candidates is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'select array_agg(page.id) from (%s and ($2 is null or (n.created_at, n.id) < ($1, $2)) limit $3) as page',
      private.rows_of_candidates(
        filters.list, conditions.by_index, case when conditions.is_exact then 'true' else conditions.by_row end, conditions.candidates
      )
    ) into found_ids using before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;
comment on function private.find_in_list is 'The ids of a page of a staff list, newest first.';

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
  conditions record;
  count integer;
begin
  conditions := private.list_conditions(filters, true);
  if filters.list = 'orders' and conditions.by_row is null and conditions.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif conditions.by_row is null then
    count := private.count_along_index(filters.list, conditions.by_index, case when filters.rider <> '' then 501 else 10001 end);
  elsif conditions.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(filters.list, conditions.by_index, conditions.by_row, null, null, 501, private.short_search_rows()) as w;
  elsif conditions.is_exact then
    execute format(
      'select count(*) from (
         select from (%1$s) as c%2$s limit 501
       ) as bounded',
      conditions.candidates,
      case when filters.list <> 'orders' or conditions.by_index <> 'true' then format(
        ' cross join lateral (select %1$s.* from public.%2$I as %1$s where %1$s.%3$s = c.id limit 1) as %1$s where %4$s',
        case when filters.list = 'orders' then 'o' else 'd' end, filters.list,
        case when filters.list = 'orders' then 'id' else 'order_id' end, conditions.by_index
      ) end
    ) into count;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit 501) as bounded',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into count;
  end if;
  return count;
end
$$;
comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most 501. All orders are counted exactly.';

create function private.walk_by_text(
  rows text, searched text, pattern text, before_created_at timestamptz, before_id uuid, most integer, nearby integer,
  out found_ids uuid[], out is_whole_list boolean
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
       select t.id, coalesce(%s like $1, true) as matches %s order by t.created_at desc, t.id desc limit $5
     )
     select (select array_agg(found.id) from (select n.id from near as n where n.matches limit $4) as found), (select count(*) < $5 from near)',
    searched, rows
  ) into found_ids, is_whole_list using pattern, before_created_at, before_id, most, nearby;
end
$$;

create function private.find_by_text(
  list text, searched text, condition text, search text, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  -- Characters match literally. A line break, which would match across two columns, counts as a space. Null for an empty search.
  pattern constant text := '%' || regexp_replace(
    lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g'
  ) || '%';
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  -- A search scans this many of the newest before it uses the trigram index: a broad search has found its page by then.
  nearby constant integer := case when pattern is null then most when list = 'products' then 10 * most else 40 * most end;
  newest constant text := format(
    'from public.%I as t where %s%s', list, condition, case when before_id is not null then ' and (t.created_at, t.id) < ($2, $3)' end
  );
  found_ids uuid[];
  is_whole_list boolean;
begin
  select w.found_ids, w.is_whole_list into found_ids, is_whole_list
  from private.walk_by_text(newest, searched, pattern, before_created_at, before_id, most, nearby) as w;
  -- Trigram indexes do not contain shorter parts. A catalogue is read whole for them.
  if (pattern ~ '[[:alnum:]]{3}' or list = 'products') and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (select t.id, t.created_at %s and %s like $1)
       select array_agg(last.id)
       from (select f.id from found as f order by f.created_at desc, f.id desc limit $4) as last',
      -- Hides the status from the planner, which would prefer its index.
      replace(newest, 't.status =', $sql$t.status || '' =$sql$), searched
    ) into found_ids using pattern, before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;
comment on function private.find_by_text is
  'The ids of a page of a list, newest first, that meet a condition and whose searched text contains the search. Both are SQL about t, the row.';

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select o.* from public.orders as o where o.id = any (found_ids) order by o.created_at desc, o.id desc;
end
$$;
comment on function public.search_orders is
  'For staff: a page of orders, newest first, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare (also being prepared), ready, on_the_way, failed.';

create function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(('orders', search, status, payment, from_day, until_day, rider, due));
end
$$;
comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create function public.search_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null, before_created_at timestamptz default null,
  before_id uuid default null, page_size integer default 50
) returns setof public.deliveries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('deliveries', search, status, null, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select d.* from public.deliveries as d where d.id = any (found_ids) order by d.created_at desc, d.id desc;
end
$$;
comment on function public.search_deliveries is
  'For staff: a page of deliveries, newest first, after the one named by before_created_at and before_id. search: as in search_orders, also in name and phone of the rider. from_day, until_day: of the payment, in Nairobi. due: late.';

create function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(('deliveries', search, status, null, from_day, until_day, rider, due));
end
$$;
comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late'));
end
$$;
comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work to authenticated, service_role;
