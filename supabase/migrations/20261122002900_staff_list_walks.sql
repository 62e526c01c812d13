-- Staff lists: conditions of a row ask for the row's own items and rider. As EXISTS, PostgreSQL hashed them: it read all items of the
-- shop for the few orders that a search looks at. Values of a subquery are never hashed.

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
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  rider_name constant text := lower(trim(left(list_conditions.rider, 120)));
  asked record;
  indexed text[] := '{}';
  checked text[] := '{}';
  rarest text;
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
      -- A cancelled order that nobody paid owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'needs_review' then $sql$o.payment_status = 'needs_decision'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
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
    checked := checked || format('(%s%s)',
      (
        select string_agg(
          format('(%1$s like %2$L or coalesce((select bool_or(%3$s like %2$L) from public.order_items as i where i.order_id = o.id), false)%4$s)',
            order_text, w.pattern, item_text, case when not is_orders then format(' or %s like %L', rider_text, w.pattern) end),
          ' and '
        )
        from unnest(asked.words) as w (pattern)
      ),
      case when asked.digits is not null then
        format(' or %s like %L', order_text, asked.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, asked.digits) end
      end
    );
    rarest := (select w.pattern from unnest(asked.words) as w (pattern) order by char_length(w.pattern) desc limit 1);
    candidates := (
      select string_agg(
        format('select o.id from public.orders as o where %s like %L', order_text, p.pattern)
        || format(' union select i.order_id from public.order_items as i where %s like %L', item_text, p.pattern)
        || case when is_orders then '' else
          format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end,
        ' union '
      )
      from unnest(array[rarest, asked.digits]) as p (pattern)
      where p.pattern is not null
    );
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
