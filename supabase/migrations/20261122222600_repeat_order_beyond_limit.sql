-- A repeated place_order gets its order although others have used up the limit of its network.

create or replace function public.place_order(
  idempotency_key uuid,
  product_id uuid,
  quantity integer,
  customer_name text,
  customer_email text,
  customer_phone text,
  delivery_location text,
  expected_total integer,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- A plan that was made for a few orders must not scan or join many.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('place_order');
  longest constant integer := 4000;
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
  address text;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total bigint;
  refusal jsonb;
  new_order public.orders;
  drawn text;
  -- Unpaid orders of visitors are limited by these; staff and the shop itself have none.
  networks text[] := case
    when coalesce((select auth.role()), '') = 'service_role' or public.is_admin() then '{}'
    else private.caller_networks()
  end;
  is_held boolean;
  expires_at timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  -- A repeated call gets its order whatever others of the same network did in between: its customer may never have seen the response.
  if not is_within_limit and not exists (
    select from private.order_keys as k where k.idempotency_key = place_order.idempotency_key
  ) then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  end if;
  if place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;

  -- octet_length does not read the text: no longer text is trimmed, matched or counted.
  if octet_length(place_order.customer_name) > longest then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(place_order.customer_email) > longest then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(
    octet_length(place_order.delivery_location), octet_length(place_order.building), octet_length(place_order.unit)
  ) > longest then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(place_order.delivery_notes) > longest then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(place_order.customer_name);
  email := trim(place_order.customer_email);
  phone := private.normalised_phone(place_order.customer_phone);
  location := trim(place_order.delivery_location);
  building_name := nullif(trim(place_order.building), '');
  unit_name := nullif(trim(place_order.unit), '');
  -- Line feeds stay; other control characters become spaces.
  notes := nullif(trim(regexp_replace(place_order.delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or char_length(name) < 2 or private.has_control_signs(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  end if;
  if char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  end if;
  if char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  end if;
  if not private.is_email(email) or private.has_control_signs(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  if phone is null then
    perform private.refuse(400, 'phone_invalid',
      'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  if location is null or char_length(location) < 3
    or private.has_control_signs(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  end if;
  if char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  end if;
  if char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;

  address := location
    || coalesce(', Building: ' || building_name, '')
    || coalesce(', Unit: ' || unit_name, '');
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, name, email, phone, address, notes, place_order.expected_total)::text,
    'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys (idempotency_key, request_hash)
  values (place_order.idempotency_key, fingerprint)
  on conflict do nothing;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    return private.placed_order(earlier.order_id);
  end if;

  select * into strict settings from public.store_settings;
  if settings.requires_terms_tick and place_order.accepts_terms is not true then
    perform private.refuse(400, 'terms_not_accepted',
      'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.expect_few_unpaid_orders(networks, phone, settings.unpaid_orders_per_phone);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
  if not found then
    perform private.refuse(404, 'product_unavailable', 'This product is not available');
  elsif product.stock_quantity = 0 then
    perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
  elsif product.stock_quantity < place_order.quantity then
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity),
      product.stock_quantity::text);
  end if;

  total := product.price::bigint * place_order.quantity + settings.delivery_fee;
  if total > 2000000000 then
    perform private.refuse(400, 'total_too_large', 'The total is too large for one order');
  end if;
  if place_order.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;

  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
  );
  if is_held then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    drawn := private.draw_tracking_number();
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      drawn, name, email, phone, address, notes,
      settings.delivery_fee, total, case when is_held then expires_at end, expires_at,
      now() + 2 * make_interval(mins => settings.reservation_minutes),
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    exit when found;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  insert into private.order_networks (order_id, network, product_id, taken)
  select new_order.id, caller.network, product.id, case when is_held then place_order.quantity else 0 end
  from unnest(networks) as caller (network);
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  -- The current figures, so that a form can show what changed.
  if product.id is not null then
    refusal := refusal || jsonb_build_object('quote', jsonb_build_object(
      'price', product.price,
      'delivery_fee', settings.delivery_fee,
      'total', product.price::bigint * place_order.quantity + settings.delivery_fee,
      'units_left', product.stock_quantity
    ));
  end if;
  return refusal;
end
$$;
