-- Two changes of this function were landed at the same time: its whole text again.

create or replace function private.list_conditions(
  list text,
  search text,
  status text,
  payment text,
  from_day date,
  until_day date,
  rider text,
  due text,
  out by_index text,
  out by_row text,
  out candidates text,
  out is_broad boolean
)
language plpgsql stable
set search_path = ''
as $$
declare
  is_orders constant boolean := list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_decision' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(list_conditions.rider, 120)));
  asked record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
begin
  asked := private.read_list_search(search);
  is_broad := true;

  if from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, from_day);
  end if;
  if until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', status)
      else format('o.status = %L', status)
    end;
    indexed := indexed || case payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when payment is not null then 'false' end
    end;
    indexed := indexed || case due
      when 'prepare' then is_open || $sql$ and o.payment_status = 'paid' and o.status in ('pending', 'processing')$sql$
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when due is not null then 'false' end
    end;
  else
    indexed := indexed || case when status is not null then format('d.delivery_status = %L', status) end;
    indexed := indexed || case due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when due is not null then 'false' end
    end;
  end if;

  -- What no index has in the order of the list, the rarest last: it is where candidates come from.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(asked.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', asked.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', asked.order_ids);
    is_broad := false;
  elsif asked.words is not null then
    -- One text for each row, so that it is made once for however many words.
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, asked.words,
      case when asked.digits is not null then
        format(' or %s like %L', order_text, asked.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, asked.digits) end
      end
    );
    -- Words that no drink and no rider has are in the order itself: its index looks all of them up at once, so that words which
    -- many orders have are no slower than rare ones. Parts of fewer than three letters are in no index by trigram.
    foreach pattern in array asked.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_drinks(pattern) or (not is_orders and private.is_in_riders(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    -- Without any other part the text is looked for in the newest rows alone: candidates stay null, or are those rows with the orders
    -- that have the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when asked.digits is not null then format(' or %s like %L', order_text, asked.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when asked.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.newest_searched(), order_text, asked.digits)
    end || case when asked.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, asked.digits) else '' end;
  end if;
  if is_orders and payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_decision'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and payment = 'refund_due' then
    checked := checked || is_refund_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
end
$$;

comment on function private.list_conditions(text, text, text, text, date, date, text, text) is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of the orders they can be true of, null to look at private.newest_searched() rows alone; is_broad: whether the newest rows are worth a look first.';
