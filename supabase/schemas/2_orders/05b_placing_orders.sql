-- Placing an order of up to ten drinks, and changing the drinks of an unpaid one.

create type private.order_line as (product_id uuid, quantity integer, position smallint);

create function private.read_order_lines(product_id uuid, quantity integer, items jsonb) returns private.order_line[]
language plpgsql immutable set search_path = '' as $$
declare
  lines private.order_line[];
begin
  if items is null then
    if quantity is null or quantity < 1 then
      perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
    end if;
    return array[(product_id, quantity, 1)::private.order_line];
  elsif product_id is not null or quantity is not null or pg_column_size(items) > 4000 or jsonb_typeof(items) <> 'array' then
    perform private.refuse(400, 'items_invalid', 'The drinks of an order are one list of product_id and quantity');
  elsif jsonb_array_length(items) not between 1 and 10 then
    perform private.refuse(400, 'items_invalid', 'An order has one to ten different drinks');
  elsif exists (
    select from jsonb_array_elements(items) as item
    where jsonb_typeof(item) <> 'object' or coalesce(item ->> 'product_id', '') !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
  ) then
    perform private.refuse(400, 'items_invalid', 'Each drink of an order has a product_id and a quantity');
  elsif exists (
    select from jsonb_array_elements(items) as item
    where coalesce(item ->> 'quantity', '') !~ '^[1-9][0-9]{0,9}$' or (item ->> 'quantity')::bigint > 2147483647
  ) then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  select array_agg((chosen.product_id, chosen.quantity, chosen.position)::private.order_line order by chosen.product_id) into lines
  from (
    select (e.item ->> 'product_id')::uuid as product_id, least(sum((e.item ->> 'quantity')::bigint), 2147483647)::integer as quantity,
      (row_number() over (order by min(e.place)))::smallint as position
    from jsonb_array_elements(items) with ordinality as e (item, place)
    group by (e.item ->> 'product_id')::uuid
  ) as chosen;
  return lines;
end
$$;
comment on function private.read_order_lines is
  'The drinks of an order by product_id, in which order they are locked: of one product and quantity, or of items, a list of {product_id, quantity}. The same product twice is one line. Refuses (quantity_invalid, items_invalid) anything else.';

create type private.offered_line as (
  product_id uuid, quantity integer, position smallint, name text, price integer, stock_quantity integer, units_for_sale integer
);
comment on type private.offered_line is 'A line of an order with its product as it is now. name: null if it is not for sale.';

create function private.offer_of(lines private.order_line[]) returns private.offered_line[]
language plpgsql stable set search_path = '' as $$
begin
  return (
    select array_agg((
        l.product_id, l.quantity, l.position, p.name, p.price, p.stock_quantity, public.units_for_sale(p)
      )::private.offered_line order by l.product_id)
    from unnest(lines) as l
    -- One step in the primary key for each line: the planner would rather read all products.
    left join lateral (select * from public.products as p where p.id = l.product_id and p.is_active offset 0) as p on true
  );
end
$$;

create function private.price_of(offer private.offered_line[]) returns bigint
language sql immutable
return (select coalesce(sum(line.price::bigint * line.quantity), 0) from unnest(offer) as line);
comment on function private.price_of is 'Price of the units, without the delivery fee, in cents.';

create function private.total_of_offer(
  offer private.offered_line[], settings public.store_settings, expected_total integer, discount public.discount_codes default null
) returns integer
language plpgsql stable set search_path = '' as $$
declare
  line private.offered_line;
  total bigint := settings.delivery_fee;
begin
  foreach line in array offer loop
    perform private.refuse_missing_units(
      case when cardinality(offer) > 1 then coalesce(line.name, 'One of the drinks') end,
      case when line.name is not null then line.units_for_sale end, line.quantity
    );
    total := total + line.price::bigint * line.quantity;
  end loop;
  if discount.id is not null then
    if total - settings.delivery_fee < discount.minimum_cents then
      perform private.refuse(409, 'discount_minimum', format(
        'This discount code is for drinks of at least KSh %s', to_char(discount.minimum_cents / 100, 'FM999,999,999')
      ), discount.minimum_cents::text);
    end if;
    total := total - private.discount_on(discount, total - settings.delivery_fee, settings.delivery_fee);
  end if;
  -- M-PESA charges whole shillings.
  if (total + 99) / 100 * 100 > settings.payment_limit then
    perform private.refuse_above_payment_limit(settings.payment_limit);
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;
comment on function private.total_of_offer is
  'Price of the units and the delivery fee without the discount, in cents. Refuses an order of which a product, the stock or the total is not what its customer saw, and one below the minimum of its discount code.';

create function private.may_hold_from_placing(networks text[], offer private.offered_line[], settings public.store_settings) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  line private.offered_line;
  held bigint;
  units bigint;
begin
  if cardinality(networks) = 0 then
    return true;
  end if;
  foreach line in array offer loop
    held := private.units_held(line.product_id);
    units := line.stock_quantity + held;
    if held + line.quantity > ceil(units * settings.reserved_share_percent / 100.0)
      or not private.is_within_hold_time(
        networks, line.product_id, line.quantity, units, make_interval(mins => settings.reservation_minutes), false, settings
      )
    then
      return false;
    end if;
  end loop;
  return true;
end
$$;
comment on function private.may_hold_from_placing is
  'Whether an order may hold its units from placing: for each of its products all unpaid orders together stay within the share of the unsold units, and within private.is_within_hold_time. Without networks it always may.';

create function private.with_quote(
  refusal jsonb, offer private.offered_line[], settings public.store_settings, discount public.discount_codes default null
) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  quote jsonb;
  refused_id uuid;
  discount_cents integer := case
    when discount.id is not null then private.discount_on(discount, private.price_of(offer), settings.delivery_fee)
    else 0
  end;
begin
  select jsonb_build_object(
      'delivery_fee', settings.delivery_fee,
      'total', sum(line.price::bigint * line.quantity) + settings.delivery_fee - discount_cents,
      'items', jsonb_agg(
        jsonb_build_object('product_id', line.product_id, 'price', line.price, 'units_left', line.units_for_sale) order by line.position
      )
    ) || case
      when count(*) = 1 then jsonb_build_object('price', min(line.price), 'units_left', min(line.units_for_sale))
      else '{}'
    end || case when discount.id is not null then jsonb_build_object('discount', discount_cents) else '{}' end,
    (array_agg(line.product_id order by line.product_id) filter (where line.name is null or line.units_for_sale < line.quantity))[1]
  into quote, refused_id
  from unnest(offer) as line;
  refusal := refusal || jsonb_build_object('quote', quote);
  return case
    when refusal ->> 'details' in ('product_unavailable', 'out_of_stock', 'not_enough_stock')
      then refusal || jsonb_build_object('product_id', refused_id)
    else refusal
  end;
end
$$;
comment on function private.with_quote is
  'A refused order with the current amounts, so that its form can show them: quote has delivery_fee, total and the price and units_left of each item; of an order for one product these two beside them, too; of an order with a discount code that it may use, discount. product_id: the product that cannot be had.';

create function private.add_order_items(order_id uuid, offer private.offered_line[]) returns void
language plpgsql set search_path = '' as $$
begin
  -- By product, as counters of held units are locked.
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price, position)
  select add_order_items.order_id, line.product_id, line.name, line.quantity, line.price, line.position
  from unnest(offer) as line;
end
$$;

create function public.place_order(
  idempotency_key uuid,
  product_id uuid default null,
  quantity integer default null,
  customer_name text default null,
  customer_email text default null,
  customer_phone text default null,
  delivery_location text default null,
  expected_total integer default null,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null,
  items jsonb default null,
  source text default 'storefront',
  is_collected boolean default false,
  discount_code text default null,
  area_id uuid default null,
  map_point text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
-- A plan made for few orders must not scan the many of a burst.
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Staff and the shop itself: their orders are not limited, may be of any source, and need neither an email address nor a tick.
  is_by_shop boolean := coalesce(auth.role(), '') = 'service_role' or public.may('orders');
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := case when is_by_shop then true else private.count_call_from(callers, 'place_order') end;
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  area public.delivery_areas;
  point text;
  lines private.order_line[];
  offer private.offered_line[];
  total integer;
  code text := case when place_order.discount_code is not null then private.read_discount_code(place_order.discount_code) end;
  discount public.discount_codes;
  discount_cents integer := 0;
  refusal jsonb;
  new_order public.orders;
  number text;
  new_id uuid := gen_random_uuid();
  access_key text;
  networks text[] := case when is_by_shop then '{}' else callers end;
  holds_units boolean;
  held_until timestamptz;
  expires_at timestamptz;
  expiry_limit timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  -- A repeated call returns its order even over the limit: its client may have lost the first response. Customers who paid before are
  -- served even while a stranger uses up the limit of their common network.
  if not is_within_limit
    and not exists (select from private.order_keys as k where k.idempotency_key = place_order.idempotency_key)
    and not private.has_paid(private.normalised_phone(left(place_order.customer_phone, 40)))
  then
    perform private.refuse(429, 'too_many_orders', format(
      'Too many orders from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('place_order'), private.contact_numbers()
    ));
  elsif place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  elsif not is_by_shop and (place_order.source, place_order.is_collected) is distinct from ('storefront', false) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  elsif place_order.is_collected is null or place_order.source is null
    or place_order.source not in ('storefront', 'call', 'whatsapp', 'walk_in')
  then
    perform private.refuse(400, 'source_unknown', 'An order comes from the storefront, a call, a chat on WhatsApp or a customer in the shop');
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone,
    case
      when place_order.is_collected and coalesce(private.visible_length(left(place_order.delivery_location, 1000)), 0) = 0
        then 'Collected at the shop'
      else place_order.delivery_location
    end,
    place_order.building, place_order.unit, place_order.delivery_notes, is_email_optional => is_by_shop
  );
  point := case when not place_order.is_collected then private.read_map_point(place_order.map_point) end;
  lines := private.read_order_lines(place_order.product_id, place_order.quantity, place_order.items);
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, coalesce(to_jsonb(place_order.quantity), place_order.items), customer.name, customer.email,
      customer.phone, customer.address, customer.notes, place_order.expected_total)::text
      || case when place_order.source <> 'storefront' or place_order.is_collected
        then concat_ws(' ', place_order.source, place_order.is_collected) else '' end
      || coalesce(' ' || code, '')
      || case when place_order.area_id is not null or point is not null then concat_ws(' ', '', place_order.area_id, point) else '' end,
    'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys as k (idempotency_key, request_hash, order_id)
  values (place_order.idempotency_key, fingerprint, new_id)
  on conflict do nothing
  returning k.access_key into access_key;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    select * into new_order from public.orders as o where o.id = earlier.order_id;
    return private.placed_order(new_order, earlier.access_key);
  end if;

  select * into strict settings from public.store_settings;
  perform private.refuse_while_paused(settings);
  if settings.requires_terms_tick and place_order.accepts_terms is not true and not is_by_shop then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  elsif not is_by_shop then
    perform private.refuse_blocked_phone(customer.phone);
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  if not place_order.is_collected then
    area := private.read_area(place_order.area_id);
  end if;
  settings.delivery_fee := private.delivery_fee_in(area, settings.delivery_fee, place_order.is_collected);
  offer := private.offer_of(lines);
  if code is not null then
    if not is_by_shop and not private.is_within_limit('discount_codes') then
      perform private.refuse(429, 'too_many_discount_codes', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ));
    end if;
    discount := private.find_discount(code, customer.phone);
  end if;
  total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
  if code is not null then
    discount_cents := private.price_of(offer) + settings.delivery_fee - total;
  end if;
  holds_units := private.may_hold_from_placing(networks, offer, settings);
  held_until := now() + make_interval(mins => settings.reservation_minutes);
  expires_at := held_until;
  expiry_limit := now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes));
  -- These customers get the link from staff, and pay when they read it.
  if place_order.source in ('call', 'whatsapp') then
    held_until := expiry_limit;
    expires_at := greatest(held_until, now() + private.pay_link_time());
    expiry_limit := private.limit_of_pay_link(expires_at);
  end if;
  if area.needs_agreement then
    -- Without a hold beyond the usual one.
    expires_at := greatest(expires_at, now() + private.agreement_time());
    expiry_limit := private.limit_of_pay_link(expires_at);
  end if;
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected, discount_cents, discount_code, area_id, area_name, awaits_agreement, map_point
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then held_until end, expires_at, expiry_limit,
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end,
      place_order.source, place_order.is_collected, discount_cents, discount.code, area.id, area.name,
      coalesce(area.needs_agreement, false), point
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    if not found then
      number := null;
      continue;
    end if;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left. Products are locked by id, so that two orders of the same products cannot deadlock.
    perform from public.products as p
    where p.id = any (array(select line.product_id from unnest(lines) as line)) order by p.id for no key update;
    offer := private.offer_of(lines);
    if code is not null then
      -- Last of the locks.
      discount := private.find_discount(code, customer.phone, new_order.id);
    end if;
    total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
    exit when not holds_units;
    holds_units := private.may_hold_from_placing(networks, offer, settings);
    exit when holds_units;
    -- Placed again without a hold, under another id: the key would be deleted with its order. It keeps its number: a
    -- new one could wait for an order that waits for this product.
    new_id := gen_random_uuid();
    update private.order_keys as k set order_id = new_id where k.idempotency_key = place_order.idempotency_key;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  perform private.add_order_items(new_order.id, offer);
  if code is not null and discount_cents <> private.price_of(offer) + settings.delivery_fee - total then
    -- A price and the code have changed by the same amount since the order was inserted.
    update public.orders as o set discount_cents = private.price_of(offer) + settings.delivery_fee - total
    where o.id = new_order.id
    returning * into new_order;
  end if;
  if cardinality(networks) > 0 then
    insert into private.order_networks (order_id, network, phone)
    select new_order.id, caller.network, customer.phone
    from unnest(networks) as caller (network);
  end if;
  if holds_units then
    perform private.hold_units(new_order.id, networks, held_until, false);
  end if;
  if new_order.awaits_agreement then
    perform private.add_notice('order_to_agree', new_order.id::text, new_order.id, (select auth.uid()));
  end if;
  return private.placed_order(new_order, access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  if refusal_details in ('discount_invalid', 'discount_used') and not is_by_shop then
    perform private.count_call_from(callers, 'discount_codes');
  end if;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;
comment on function public.place_order is
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote). discount_code: the order uses it, and expected_total is what remains to pay after its discount. area_id: the area, whose fee it costs (private.delivery_fee_in); without one, that of the shop. Where fee and day are agreed on, awaits_agreement is true. map_point: "latitude,longitude". Staff also say where it came from (source) and whether it is collected; their orders need no email address and no terms.';

create function public.change_order_items(
  order_id uuid, access_key text, items jsonb, expected_total integer
) returns jsonb
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call_from(callers, 'place_order');
  lines private.order_line[];
  changed public.orders;
  settings public.store_settings;
  offer private.offered_line[];
  total integer;
  discount public.discount_codes;
  networks text[];
  product_ids uuid[];
  refusal jsonb;
  refusal_details text;
  refusal_hint text;
begin
  lines := private.read_order_lines(null, null, change_order_items.items);
  -- The lock on the order's row serialises this with its payments and its expiry.
  select o.* into changed from public.orders as o
  where o.id = change_order_items.order_id
    and exists (select from private.order_keys as k where k.order_id = o.id and k.access_key = change_order_items.access_key)
  for no key update of o;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not is_within_limit and not private.has_paid(changed.customer_phone) then
    perform private.refuse(429, 'too_many_orders', format(
      'Too many orders from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('place_order'), private.contact_numbers()
    ));
  elsif changed.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif changed.status = 'cancelled' or changed.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif changed.status <> 'pending' then
    perform private.refuse(409, 'order_in_work', 'This order is being prepared already. Please place a new one');
  -- Also one that failed: its money can still come, in the amount of the drinks of then.
  elsif exists (select from public.payments as p where p.order_id = changed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = changed.id)
  then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its drinks cannot change. Please place a new order for more');
  end if;
  select * into strict settings from public.store_settings;
  perform private.refuse_while_paused(settings);
  -- The fee that the customer saw when placing the order.
  settings.delivery_fee := changed.delivery_fee;

  product_ids := array(
    select i.product_id from public.order_items as i where i.order_id = changed.id
    union select line.product_id from unnest(lines) as line
  );
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  if changed.reserved_until is not null then
    perform private.return_units(changed.id, 'order_changed');
    update public.orders as o set reserved_until = null where o.id = changed.id;
  end if;
  offer := private.offer_of(lines);
  if changed.discount_code is not null then
    -- The discount that the customer agreed on, also after the code has ended. Below its minimum the order gives it back.
    select * into discount from public.discount_codes as d
    where d.code = changed.discount_code and d.minimum_cents <= private.price_of(offer);
  end if;
  total := private.total_of_offer(offer, settings, change_order_items.expected_total, discount);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = changed.id;
  delete from public.order_items as i where i.order_id = changed.id;
  perform private.add_order_items(changed.id, offer);
  perform private.record_order_event(
    changed.id, 'items_changed', 'customer', jsonb_build_object('from_cents', changed.total_amount, 'to_cents', total)
  );
  update public.orders as o
  set total_amount = total, updated_at = now(), discount_code = discount.code,
      discount_cents = case when discount.id is null then 0 else private.price_of(offer) + settings.delivery_fee - total end,
      reserved_until = case when private.may_hold_from_placing(networks, offer, settings) then
        -- Some orders wait longer than units are held.
        least(changed.expires_at, now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes)))
      end
  where o.id = changed.id
  returning * into changed;
  if changed.reserved_until is not null then
    perform private.hold_units(changed.id, networks, changed.reserved_until, false);
  end if;
  perform private.notify_order_followers(changed.id);
  return private.placed_order(changed, change_order_items.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;
comment on function public.change_order_items is
  'Replaces the drinks of an order that waits for its payment, in one transaction: prices from the database, fee and discount as they were agreed, the units held as by a new order. Proof: the order''s access key. Refuses once a payment has begun. Answers and refuses as place_order does.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;
