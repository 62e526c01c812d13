-- Filters and searches of the lists of orders and deliveries for staff, as conditions in SQL (docs/decisions/staff-lists.md).

create function private.short_search_rows() returns integer
language sql immutable
return 2000;
comment on function private.short_search_rows is
  'Number of newest rows that are searched if every part of the search has fewer than three letters, because trigram indexes do not contain shorter parts.';

create function private.most_counted() returns integer
language sql immutable
return 200;
comment on function private.most_counted is
  'Up to this number the rows of a search or of a rider are counted; one more means more than that. mostCounted in web/admin/list/list-filters.tsx.';

create function private.order_text(o public.orders) returns text
language sql immutable
return o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n'
  || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city;
comment on function private.order_text is 'What a search reads of an order, as the index orders_by_words has it.';

create function private.rider_text(d public.deliveries) returns text
language sql immutable
return coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g');
comment on function private.rider_text is 'What a search reads of the rider of a delivery, as the index deliveries_by_words has it.';

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
