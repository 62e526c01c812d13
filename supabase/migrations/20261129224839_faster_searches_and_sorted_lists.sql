-- Earlier versions keep working: the new parameters have defaults, and the indexes hold the same words. Orders wait while these are
-- rebuilt, about two seconds for 100,000 orders.

drop function private.find_by_text(text,text,text,text,timestamp with time zone,uuid,integer);

drop function private.sortable_rows();

drop function private.walk_by_text(text,text,text,timestamp with time zone,uuid,integer,integer);

drop function public.search_inquiries(text,timestamp with time zone,uuid,integer,boolean);

drop function public.search_messages(text,text,text,timestamp with time zone,uuid,integer);

drop index public.deliveries_by_words;

drop index public.order_items_by_words;

drop index public.orders_by_words;

create or replace function private.without_accents(written text) returns text
language plpgsql immutable parallel safe as $$
begin
  -- Nearly all texts are plain, and `translate` compares each of their letters with each of the accented ones.
  if octet_length(written) = char_length(written) then
    return replace(lower(written), '''', '');
  end if;
  return translate(lower(written), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu');
end
$$;

comment on function private.without_accents is
  'A text as staff lists are searched: small letters without accents and apostrophes. The indexes by words hold what it returned: a migration that changes this rebuilds them.';

-- The indexes by words are written by those who may write their tables.
grant execute on function private.without_accents to authenticated, service_role;

create or replace function public.find_products(
  search text default '', category text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50,
  sort text default '', low_on_stock boolean default false
) returns setof public.products
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  condition constant text := case when find_products.low_on_stock then 't.is_active and t.is_low_on_stock' else 'true' end
    || coalesce(' and t.category = ' || quote_literal(find_products.category), '');
  sorted_by constant text := case ltrim(find_products.sort, '-')
    when 'name' then 'lower(t.name)' when 'price' then 't.price' when 'stock' then 't.stock_quantity'
  end;
  direction constant text := case when find_products.sort like '-%' then 'desc' else 'asc' end;
  found_ids uuid[];
begin
  perform private.expect_staff('products');
  if sorted_by is null then
    found_ids := private.find_by_text(
      'products', 'lower(t.name)', condition,
      find_products.search, null, find_products.before_created_at, find_products.before_id, find_products.page_size
    );
    return query
      select p.* from public.products as p where p.id = any (found_ids) order by p.created_at desc, p.id desc;
    return;
  end if;
  -- Reads the whole catalogue: an index by stock would be updated by every order.
  return query execute format(
    'select t.* from public.products as t
     where %1$s and (trim(coalesce($1, '''')) = '''' or position(lower(trim($1)) in lower(t.name)) > 0)
       and ($2 is null or (%2$s, t.id) %4$s (select %2$s, t.id from public.products as t where t.id = $2))
     order by %2$s %3$s, t.id %3$s
     limit least(greatest(coalesce($3, 50), 1), 1000)',
    condition, sorted_by, direction, case direction when 'asc' then '>' else '<' end
  ) using find_products.search, find_products.before_id, find_products.page_size;
end
$$;

comment on function public.find_products is
  'For staff: a page of products, hidden ones included, whose name contains a text, ignoring case; after the one named by before_created_at and before_id. sort: name, price or stock, with - before it for descending; otherwise newest first. low_on_stock: only active ones with a low stock.';

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;

-- The words of an order are many: they are added to the index for about a hundred orders at once, which writes a third of the log.
-- Searches read those that wait, up to 256 kB. Of named columns, as private.order_text reads them: an index of the row would be written
-- by every change of the order.
create index orders_by_words on public.orders using gin (
  private.without_accents(
    order_number || E'\n' || split_part(tracking_number, '-', 3) || E'\n' || customer_name || E'\n' || customer_email || E'\n' ||
    customer_phone || E'\n' || replace(customer_phone, '+254', '0') || E'\n' || shipping_address || E'\n' || city
  ) extensions.gin_trgm_ops
) with (gin_pending_list_limit = 256);

create index order_items_by_words on public.order_items using gin (
  private.without_accents(product_name) extensions.gin_trgm_ops
) with (gin_pending_list_limit = 64);

create index deliveries_by_words on public.deliveries using gin (
  private.without_accents(
    coalesce(delivery_person, '') || E'\n' || regexp_replace(coalesce(delivery_phone, ''), '[^0-9]', '', 'g')
  ) extensions.gin_trgm_ops
) with (fastupdate = off);

create or replace function private.most_counted() returns integer
language sql immutable
return 200;

comment on function private.most_counted is
  'Up to this number the rows of a search or of a rider are counted; one more means more than that. mostCounted in web/admin/list/list-filters.tsx.';

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
  own_rider_text constant text := case when is_orders
    then format('coalesce((select %s from public.deliveries as d where d.order_id = o.id), %L)', rider_text, '') else rider_text end;
  is_open constant text := $sql$private.is_open_order(o.status)$sql$;
  is_to_deliver constant text := is_open || $sql$ and private.is_to_deliver(o.payment_status, o.payment_method)$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  -- Nothing is left to decide: each payment has an open refund, or was received a second time and is kept for the customer.
  is_decided constant text := $sql$coalesce((
    select bool_and(
      exists (select from public.refunds as r where r.payment_id = p.id and private.is_open_refund(r.status))
      or (p.needs_refund and public.counted_cents(p) = 0)
    )
    from public.payments as p
    where p.order_id = o.id and ((p.status = 'review' and o.payment_status = 'unpaid') or (
      p.status = 'completed' and p.refunded_at is null
      and (p.needs_refund or o.payment_status = 'needs_review' or o.status = 'cancelled')
    ))
  ), false)$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
  -- The count of one word alone stops at the first orders, of which few have more than three lines with the same word.
  is_bounded boolean := false;
  bound text;
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
      else case when filters.payment not in ('needs_review', 'refund_due', 'to_decide') then 'false' end
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
    is_bounded := is_count and is_orders and typed.digits is null and cardinality(typed.words) = 1 and cardinality(checked) = 0
      and array_to_string(indexed, '') = '';
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if is_bounded or private.is_in_item_names(pattern) or private.is_in_rider_names(pattern) then
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
        || format($sql$ || E'\n' || %s$sql$, own_rider_text)
        else '' end,
      typed.words,
      case when typed.digits is not null then
        format(' or %s like %L or %s like %2$L', order_text, typed.digits, own_rider_text)
      end
    );
    bound := case when is_bounded then format(' limit %s', 3 * (private.most_counted() + 1)) else '' end;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern)))
      when cardinality(anywhere) > 0 then (
        select string_agg(format('((select i.order_id as id from public.order_items as i where %s like %L%s)', item_text, p.pattern, bound)
          || format(' union (select o.id from public.orders as o where %s like %L%s)', order_text, p.pattern, bound)
          || format(' union (select d.order_id from public.deliveries as d where %s like %L%s)', rider_text, p.pattern, bound)
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows())
    end || case when typed.digits is not null then format(
      ' union select o.id from public.orders as o where %s like %L union select d.order_id from public.deliveries as d where %s like %2$L',
      order_text, typed.digits, rider_text) else '' end;
  end if;
  if is_orders and filters.payment in ('needs_review', 'refund_due', 'to_decide') then
    checked := checked || case filters.payment
      when 'needs_review' then is_review_due
      when 'refund_due' then is_refund_due
      else format('(%s or %s) and not %s', is_review_due, is_refund_due, is_decided)
    end;
    is_exact := filters.payment = 'refund_due';
    candidates := concat_ws(' union ',
      case when filters.payment <> 'refund_due' then $sql$
        select o.id from public.orders as o where o.payment_status = 'needs_review'
        union
        select p.order_id from public.payments as p where p.status = 'review'$sql$ end,
      case when filters.payment <> 'needs_review' then $sql$
        select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
        union
        select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$ end
    );
    is_broad := false;
  end if;
  if not is_orders and filters.due = 'late' then
    -- As among orders. Failed deliveries are in no index of open ones, so that these come from their orders.
    checked := checked || (is_to_deliver || ' and private.due_at(o, d.created_at) < now()');
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_to_deliver;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
  is_exact := is_exact and cardinality(checked) = 1;
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_exact: whether each candidate meets by_row; is_broad: whether the newest rows are scanned first.';

-- Pages of staff lists: rows along an index or from candidates, their counts, their order, and the searches of the panel
-- (docs/decisions/staff-lists.md).

create or replace function private.sortable_rows(is_search boolean) returns integer
language sql immutable
return case when is_search then 500 else 5000 end;

comment on function private.sortable_rows is
  'Number of newest rows of a staff list, or of what a search finds, that are sorted by another column than the date. mostSorted in web/admin/list/use-rows.ts.';

create or replace function private.sort_expression(list text, key text) returns text
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

create or replace function private.sorted_page(
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

create or replace function private.find_in_list(
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

create or replace function private.count_in_list(filters private.list_filters) returns integer
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

create or replace function private.walk_by_text(
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

create or replace function private.find_by_text(
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

create or replace function public.count_orders(
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

create or replace function public.count_deliveries(
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

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;

create or replace function public.search_inquiries(
  search text default '', before_created_at timestamptz default null, before_id uuid default null,
  page_size integer default 50, unread boolean default false, sort text default null
) returns setof public.inquiries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('inquiries');
  found_ids := private.find_by_text(
    'inquiries', $sql$lower(t.name || E'\n' || t.email || E'\n' || coalesce(t.subject, ''))$sql$,
    case when unread then 'not t.is_read' else 'true' end, search,
    coalesce(sort, case when unread then 'date' end), before_created_at, before_id, page_size
  );
  return query
    select i.* from unnest(found_ids) with ordinality as f (id, place) join public.inquiries as i on i.id = f.id order by f.place;
end
$$;

comment on function public.search_inquiries is
  'For staff: a page of inquiries whose name, email or subject contains a text, ignoring case; after the one named by before_created_at and before_id. unread: only those. sort: date (oldest first, default of unread), -date (default), name, email, subject or status (unread first), with - before it for the opposite; by another column than the date only the newest 5,000, or 500 of a search.';

grant execute on function public.mark_inquiry_read, public.mark_all_inquiries_read, public.search_inquiries
  to authenticated, service_role;

create or replace function public.search_messages(
  search text default '', status text default null, channel text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('messages');
  found_ids := private.find_by_text(
    'outbox_messages',
    $sql$lower(t.customer_name || E'\n' || t.recipient || E'\n' || t.order_number || E'\n' || t.tracking_number)$sql$,
    concat_ws(' and ', 'true', 't.status = ' || quote_literal(status), 't.channel = ' || quote_literal(channel)),
    search, sort, before_created_at, before_id, page_size
  );
  return query
    select m.* from unnest(found_ids) with ordinality as f (id, place) join public.outbox_messages as m on m.id = f.id order by f.place;
end
$$;

comment on function public.search_messages is
  'For staff: a page of messages whose recipient, customer, order or tracking number contains a text, ignoring case; after the one named by before_created_at and before_id. sort: date (oldest first), -date (default), customer, order or status (failed first), with - before it for the opposite; by another column than the date only the newest 5,000, or 500 of a search.';

-- Execution rights
grant execute on function public.search_messages to authenticated, service_role;
