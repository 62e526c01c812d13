-- "Same again?": what the last delivered order of a device costs now, and placing it again in one tap
-- (docs/decisions/same-again.md).

create function private.order_to_repeat(access_keys text[]) returns public.orders
language plpgsql stable set search_path = '' as $$
declare
  earlier public.orders;
begin
  select o.* into earlier
  from (select distinct left(requested.access_key, 64) as access_key from unnest(access_keys[1:20]) as requested (access_key)) as known
  join private.order_keys as k on k.access_key = known.access_key
  join public.orders as o on o.id = k.order_id
  where o.status = 'delivered' and o.payment_status = 'paid' and not o.is_collected
    -- Staff may leave it out; a visitor's order has one.
    and o.customer_email <> ''
  order by o.created_at desc
  limit 1;
  return earlier;
end
$$;
comment on function private.order_to_repeat is
  'The newest order with one of these access keys that was delivered and paid, and whose details make an order of a visitor. Nulls without one.';

create function private.lines_to_repeat(order_id uuid) returns jsonb
language sql stable
return (
  select jsonb_agg(jsonb_build_object('product_id', i.product_id, 'quantity', i.quantity) order by i.position)
  from public.order_items as i where i.order_id = lines_to_repeat.order_id
);
comment on function private.lines_to_repeat is 'The drinks of an order as place_order takes them. A deleted product has no id.';

create function private.address_parts(address text) returns text[]
language sql immutable
return regexp_match(address, '^(.*?)(?:, Building: (.*?))?(?:, Unit: (.*?))?$');
comment on function private.address_parts is 'Location, building and unit of an address as read_order_details joined them.';

create function public.same_again(access_keys text[]) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  earlier public.orders := private.order_to_repeat(access_keys);
  settings public.store_settings;
  area public.delivery_areas;
  offer private.offered_line[];
  total bigint;
begin
  if earlier.id is null then
    -- Valid keys are not counted, as in orders_by_access_key.
    if not exists (select from private.order_keys as k where k.access_key = any (access_keys[1:20])) and not private.count_call('order_lookups') then
      return private.refuse_lookup();
    end if;
    return null;
  end if;
  begin
    select * into strict settings from public.store_settings;
    area := private.read_area(earlier.area_id);
    -- Both need the form: an agreement on the fee before a payment, and a box that the customer ticks.
    if coalesce(area.needs_agreement, false) or settings.requires_terms_tick then
      return null;
    end if;
    -- The same checks in the same order as in place_order.
    perform private.refuse_while_paused(settings);
    perform private.refuse_blocked_phone(earlier.customer_phone);
    settings.delivery_fee := private.delivery_fee_in(area, settings.delivery_fee, false);
    offer := private.offer_of(private.read_order_lines(null, null, private.lines_to_repeat(earlier.id)));
    total := private.price_of(offer) + settings.delivery_fee;
    if total > settings.payment_limit then
      return null;
    end if;
    perform private.total_of_offer(offer, settings, total::integer);
  exception when sqlstate 'PT000' then
    return null;
  end;
  return jsonb_build_object(
    'tracking_number', earlier.tracking_number,
    'items', (
      select jsonb_agg(jsonb_build_object(
        'product_id', line.product_id, 'slug', p.slug, 'name', line.name, 'price', line.price, 'quantity', line.quantity
      ) order by line.position)
      from unnest(offer) as line join public.products as p on p.id = line.product_id
    ),
    'place', (private.address_parts(earlier.shipping_address))[1],
    'area_id', area.id,
    'delivery_fee', settings.delivery_fee,
    'total', total
  );
end
$$;
comment on function public.same_again is
  'What the newest delivered order with one of these access keys costs now: its drinks, its place, the delivery fee and the total. Null where one tap cannot place it: no such order, a drink that is not for sale in that number, orders are paused, the fee is to be agreed on, or a box is to be ticked. Calls without a valid key count as order lookups.';

create function public.order_again(access_key text, idempotency_key uuid, expected_total integer, accepts_terms boolean default null) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  earlier public.orders := private.order_to_repeat(array[order_again.access_key]);
  address text[] := private.address_parts(earlier.shipping_address);
  running_number text;
  answer jsonb;
begin
  if earlier.id is null then
    if not private.count_call('order_lookups') then
      return private.refuse_lookup();
    end if;
    return private.refusal_answer('PT404', 'This order cannot be placed again', 'order_not_repeatable', '');
  end if;
  -- Requests of several tabs have different idempotency keys. They wait for each other, so that each sees the order of the one before.
  perform pg_advisory_xact_lock(hashtext('order_again ' || earlier.id));
  select o.tracking_number into running_number
  from private.order_keys as k
  join public.orders as o on o.id = k.order_id
  where k.repeats_id = earlier.id and k.idempotency_key <> order_again.idempotency_key and private.is_open_order(o.status)
  limit 1;
  if found then
    perform private.refuse(409, 'order_repeated', format('You have just ordered this: %s', running_number), running_number);
  end if;
  answer := public.place_order(
    idempotency_key => order_again.idempotency_key,
    items => private.lines_to_repeat(earlier.id),
    customer_name => earlier.customer_name,
    customer_email => earlier.customer_email,
    customer_phone => earlier.customer_phone,
    delivery_location => address[1],
    building => address[2],
    unit => address[3],
    delivery_notes => earlier.delivery_notes,
    expected_total => order_again.expected_total,
    accepts_terms => order_again.accepts_terms,
    area_id => earlier.area_id,
    map_point => earlier.map_point
  );
  -- A refusal has no id.
  update private.order_keys as k set repeats_id = earlier.id where k.order_id = (answer ->> 'id')::uuid;
  return answer;
end
$$;
comment on function public.order_again is
  'Places a delivered order again by the rules of place_order, with today''s prices and without its discount code. Proof: its access key. Refuses (order_repeated) while an order that repeats it is under way. Answers as place_order.';

-- Execution rights
grant execute on function public.same_again, public.order_again to anon, authenticated, service_role;
