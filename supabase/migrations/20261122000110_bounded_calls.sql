-- What visitors send: quota first, then length, then patterns, then work. Failed calls count.

insert into private.limits (name, allowed, within) values
  ('place_order', 100, '10 minutes'),
  ('inquiries', 30, '10 minutes');

-- Texts -------------------------------------------------------------------------------------------------------------

create function private.is_email(address text) returns boolean
language plpgsql immutable
set search_path = ''
as $$
declare
  domain text;
begin
  if address is null or octet_length(address) > 1016 or char_length(address) > 254 then
    return false;
  end if;
  -- Spaces of any kind, control and bidirectional characters. Written out: \s depends on the database's locale.
  if address ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028-\u202f\u205f\u2066-\u2069\u3000\ufeff]' then
    return false;
  end if;
  domain := split_part(address, '@', 2);
  return char_length(replace(address, '@', '')) = char_length(address) - 1
    and split_part(address, '@', 1) <> ''
    -- A dot that is neither the first nor the last character.
    and position('.' in substr(domain, 2, greatest(char_length(domain) - 2, 0))) > 0;
end
$$;
comment on function private.is_email(text) is
  'Whether a text can be an email address, by the rule of domain/email.ts: at most 254 characters, one @ with something before it, behind it a dot with something on both sides, no spaces or control characters.';

create or replace function private.has_control_signs(written text) returns boolean
language plpgsql immutable
set search_path = ''
as $$
begin
  return written ~ '[\u0001-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]';
end
$$;
comment on function private.has_control_signs(text) is
  'Whether a text has characters that do not belong in a single line: line breaks, tabs, other control characters, bidirectional controls.';

create or replace function private.normalised_phone(phone text) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  if octet_length(phone) > 100 then
    return null;
  end if;
  -- 07…, 01…, 7…, 1…, 254… and +254…, with spaces or hyphens, all become +254…; anything else becomes null.
  return '+254' || substring(regexp_replace(phone, '[\s-]', '', 'g') from '^(?:\+?254|0)?([17]\d{8})$');
end
$$;

-- Placing an order --------------------------------------------------------------------------------------------------

create or replace function private.draw_tracking_number(attempt integer) returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  -- Four digits while a free one is easily found; when most of a day's are taken, draws fail and it widens to five.
  return 'JJ-' || to_char(now() at time zone 'Africa/Nairobi', 'YYYYMMDD') || '-' ||
    case when attempt <= 20 then 1000 + floor(random() * 9000)::integer else 10000 + floor(random() * 90000)::integer end;
end
$$;

create or replace function private.placed_order(order_id uuid) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return (
    select jsonb_build_object(
      'id', o.id,
      'tracking_number', o.tracking_number,
      'access_key', k.access_key,
      'status', o.status,
      'payment_status', o.payment_status,
      'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount,
      -- M-PESA takes whole shillings only: a fraction is rounded up.
      'charge_amount', (o.total_amount + 99) / 100 * 100,
      'customer_phone', o.customer_phone,
      'reserved_until', o.reserved_until,
      'created_at', o.created_at
    )
    from public.orders as o
    join private.order_keys as k on k.order_id = o.id
    where o.id = placed_order.order_id
  );
end
$$;

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
  delivery_notes text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below begins, so that a refusal does not undo it.
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
  new_order public.orders;
  drawn text;
  -- Whose unpaid orders are limited; what staff and the shop itself order is theirs to pay.
  network text := case
    when coalesce((select auth.role()), '') <> 'service_role' and not public.is_admin() then private.caller_address()
  end;
  is_large boolean := false;
  refusal_details text;
  refusal_hint text;
begin
  if not is_within_limit then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  end if;
  if place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;

  -- Bytes are known without reading a text: nothing longer is trimmed, matched or counted.
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
  if not private.is_email(email) then
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

  -- The first to bring a key places the order; anyone else with it waits here for the first to finish.
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
  if network is not null then
    perform private.expect_few_unpaid_orders(network, phone, settings.unpaid_orders_per_phone);
  end if;

  update public.products as p
  set stock_quantity = p.stock_quantity - place_order.quantity
  where p.id = place_order.product_id and p.is_active and p.stock_quantity >= place_order.quantity
  returning * into product;
  if not found then
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif product.stock_quantity = 0 then
      perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
    else
      perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity),
        product.stock_quantity::text);
    end if;
  end if;

  if network is not null then
    is_large := private.takes_large_share(network, product.id, product.stock_quantity, place_order.quantity);
  end if;

  total := product.price::bigint * place_order.quantity + settings.delivery_fee;
  if total > 2000000000 then
    perform private.refuse(400, 'total_too_large', 'The total is too large for one order');
  end if;
  if place_order.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;

  for attempt in 1 .. 60 loop
    drawn := private.draw_tracking_number(attempt);
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until
    ) values (
      drawn, name, email, phone, address, notes,
      settings.delivery_fee, total, now() + make_interval(mins => settings.reservation_minutes)
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
  if network is not null then
    insert into private.order_networks (order_id, network, is_large) values (new_order.id, network, is_large);
  end if;
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

-- Inquiries ---------------------------------------------------------------------------------------------------------

create or replace function private.limit_inquiries() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- Visitors send one inquiry per request: one insert of thousands would be thousands of checks.
    if current_setting('private.has_inquiry', true) = 'yes' then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform set_config('private.has_inquiry', 'yes', true);
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network. Please try again in a few minutes');
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  return new;
end
$$;
alter table public.inquiries
  drop constraint "an inquiry has an e-mail address";
comment on column public.inquiries.email is 'Checked by the trigger inquiries_are_limited with private.is_email.';

-- Catalogue ---------------------------------------------------------------------------------------------------------

create or replace function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable
set search_path = ''
as $$
  select p.*
  from public.products as p
  where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  union all
  (
    select r.*
    from public.products as p
    join public.products as r on r.category = p.category and r.id <> p.id and r.is_active
    where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
    order by r.created_at desc, r.id
    limit least(greatest(related_limit, 0), 24)
  );
$$;

-- Settings ----------------------------------------------------------------------------------------------------------

create function private.expect_support_email() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  return new;
end
$$;
create trigger store_settings_have_an_email_address before update of support_email on public.store_settings
  for each row when (old.support_email is distinct from new.support_email)
  execute function private.expect_support_email();
alter table public.store_settings drop constraint "the support address is an e-mail address";
comment on column public.store_settings.support_email is 'Checked by the trigger store_settings_have_an_email_address with private.is_email.';
