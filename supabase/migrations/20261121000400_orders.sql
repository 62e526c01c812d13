-- Orders: placed in one transaction, followed by their tracking number, given back when nobody pays.

create sequence private.order_numbers start 1001;

create table public.orders (
  id uuid primary key default gen_random_uuid(),
  order_number text not null default 'ORD-' || nextval('private.order_numbers'),
  tracking_number text not null,
  customer_name text not null,
  customer_email text not null,
  customer_phone text not null,
  shipping_address text not null,
  city text not null default 'Nairobi',
  delivery_notes text,
  status text not null default 'pending',
  delivery_fee integer not null,
  total_amount integer not null,
  payment_method text not null default 'pending',
  payment_status text not null default 'unpaid',
  reserved_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "order numbers are unique" unique (order_number),
  constraint "tracking numbers are unique" unique (tracking_number),
  constraint "a tracking number is JJ-YYYYMMDD-NNNN" check (tracking_number ~ '^JJ-\d{8}-\d{4,6}$'),
  constraint "an order status is known"
    check (status in ('pending', 'processing', 'shipped', 'out_for_delivery', 'delivered', 'cancelled')),
  constraint "a payment status is known"
    check (payment_status in ('unpaid', 'paid', 'needs_decision', 'refunded')),
  constraint "amounts are not negative" check (delivery_fee >= 0 and total_amount >= 0)
);
comment on table public.orders is 'Customer orders. Amounts in cents. The status is what staff chose; payment_status is what M-PESA says.';
comment on column public.orders.reserved_until is 'While unpaid: until when the units are kept. Null once they are sold or given back.';
alter table public.orders enable row level security;
create index orders_newest_first on public.orders (created_at desc);
create index orders_with_running_reservation on public.orders (reserved_until) where reserved_until is not null;

create policy "staff read every order" on public.orders for select to authenticated using ((select public.is_admin()));
create policy "staff set the order status" on public.orders
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
grant select, update (status, updated_at) on public.orders to authenticated;

create table public.order_items (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  product_id uuid references public.products (id) on delete set null,
  product_name text not null,
  quantity integer not null,
  unit_price integer not null,
  created_at timestamptz not null default now(),
  constraint "at least one is ordered" check (quantity >= 1),
  constraint "a unit price is not negative" check (unit_price >= 0)
);
comment on table public.order_items is 'What was ordered, at the price and under the name of that moment.';
alter table public.order_items enable row level security;
create index order_items_by_order on public.order_items (order_id);
create index order_items_by_product on public.order_items (product_id);

create policy "staff read every order item" on public.order_items
  for select to authenticated using ((select public.is_admin()));
grant select on public.order_items to authenticated;

create table private.order_keys (
  idempotency_key uuid primary key,
  request_hash text not null,
  order_id uuid references public.orders (id) on delete cascade,
  access_key text not null default replace(gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now()
);
comment on table private.order_keys is
  'Per order: the key that makes placing it repeatable, and the key that shows its personal data. Nobody reads it but functions.';
alter table private.order_keys enable row level security;
create unique index order_keys_by_order on private.order_keys (order_id);

-- Phones -----------------------------------------------------------------------------------------------------------

create function private.normalised_phone(phone text) returns text
language sql immutable
set search_path = ''
as $$
  -- 07…, 01…, 7…, 1…, 254… and +254…, with spaces or hyphens, all become +254…; anything else becomes null.
  select '+254' || substring(regexp_replace(phone, '[\s-]', '', 'g') from '^(?:\+?254|0)?([17]\d{8})$');
$$;
comment on function private.normalised_phone(text) is 'A Kenyan mobile number as +2547… or +2541…, or null when it is none.';

create function private.masked_phone(phone text) returns text
language sql immutable
set search_path = ''
as $$
  -- Nothing of its end: the last four digits are what opens an order.
  select case
    when phone ~ '^\+254\d{9}$' then '0' || substr(phone, 5, 3) || ' ••• •••'
    else '•••'
  end;
$$;

create function private.masked_name(name text) returns text
language sql immutable
set search_path = ''
as $$
  select string_agg(left(part, 1) || '•••', ' ')
  from regexp_split_to_table(trim(name), '\s+') as part;
$$;

-- Placing an order -------------------------------------------------------------------------------------------------

create function private.refuse(status integer, code text, message text, hint text default null) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- PT4xx becomes the HTTP status of the answer; the detail is the machine's word for what went wrong.
  raise exception using errcode = 'PT' || status, message = message, detail = code, hint = coalesce(hint, '');
end
$$;
comment on function private.refuse(integer, text, text, text) is 'Ends the request with a status, a code for programs and a sentence for people.';

create function private.draw_tracking_number(attempt integer) returns text
language sql volatile
set search_path = ''
as $$
  -- Four digits as long as they are easily found; when most of a day's are taken, draws fail and it widens to five.
  select 'JJ-' || to_char(now() at time zone 'Africa/Nairobi', 'YYYYMMDD') || '-' ||
    case when attempt <= 20 then 1000 + floor(random() * 9000)::integer else 10000 + floor(random() * 90000)::integer end;
$$;

create function public.place_order(
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
  name text := trim(place_order.customer_name);
  email text := trim(place_order.customer_email);
  phone text := private.normalised_phone(place_order.customer_phone);
  location text := trim(place_order.delivery_location);
  building_name text := nullif(trim(place_order.building), '');
  unit_name text := nullif(trim(place_order.unit), '');
  notes text := nullif(trim(place_order.delivery_notes), '');
  address text;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total bigint;
  new_order public.orders;
  caller text := private.caller_address();
  drawn text;
begin
  if place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;
  if name is null or char_length(name) < 2 then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  end if;
  if char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  end if;
  if email is null or email !~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  if char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  end if;
  if phone is null then
    perform private.refuse(400, 'phone_invalid',
      'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  if location is null or char_length(location) < 3 then
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

  -- Mobile networks put thousands behind one address, so this only stops machines.
  if caller is not null and private.count_hit('place_order', caller, interval '10 minutes') > 100 then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  end if;

  select * into strict settings from public.store_settings;

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
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
end
$$;
comment on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text) is
  'Places an order in one transaction: price and fee from the database, units reserved, tracking number drawn. The same key again returns the same order.';

create function private.placed_order(order_id uuid) returns jsonb
language sql stable
set search_path = ''
as $$
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
  where o.id = placed_order.order_id;
$$;

grant execute on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text)
  to anon, authenticated, service_role;

-- Following an order -----------------------------------------------------------------------------------------------

create function private.told_status(status text) returns text
language sql immutable
set search_path = ''
return case status when 'shipped' then 'out_for_delivery' else status end;
comment on function private.told_status(text) is 'An order status in the storefront''s words.';

create function public.track_order(
  tracking_number text,
  access_key text default null,
  phone_last_four text default null
) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  wanted text := upper(trim(track_order.tracking_number));
  caller text := coalesce(private.caller_address(), 'unknown');
  found_order public.orders;
  key text;
  is_open boolean := false;
begin
  if private.hits_so_far('track_order_misses', caller, interval '10 minutes') >= 60 then
    perform private.refuse(429, 'too_many_lookups', 'Too many look-ups. Please try again in a few minutes');
  end if;
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  if not found then
    perform private.count_hit('track_order_misses', caller, interval '10 minutes');
    return null;
  end if;

  select k.access_key into key from private.order_keys as k where k.order_id = found_order.id;
  is_open := coalesce(key = track_order.access_key, false);
  if not is_open and nullif(trim(track_order.phone_last_four), '') is not null then
    -- Four digits are guessed in 10,000 tries: so there are only a few, and one after the other, that each is counted
    -- before the next is looked at.
    perform pg_advisory_xact_lock(hashtext('track_order_phone ' || wanted));
    if private.hits_so_far('track_order_phone', wanted, interval '1 hour') >= 5 then
      perform private.refuse(429, 'too_many_guesses', 'Too many wrong digits for this order. Please try again in an hour');
    end if;
    is_open := right(found_order.customer_phone, 4) = trim(track_order.phone_last_four);
    if not is_open then
      perform private.count_hit('track_order_phone', wanted, interval '1 hour');
    end if;
  end if;

  return jsonb_build_object(
    'id', found_order.id,
    'tracking_number', found_order.tracking_number,
    'status', private.told_status(found_order.status),
    'payment_status', found_order.payment_status,
    'delivery_fee', found_order.delivery_fee,
    'total_amount', found_order.total_amount,
    'created_at', found_order.created_at,
    'updated_at', found_order.updated_at,
    'is_masked', not is_open,
    'customer_name', case when is_open then found_order.customer_name else private.masked_name(found_order.customer_name) end,
    'customer_phone', case when is_open then found_order.customer_phone else private.masked_phone(found_order.customer_phone) end,
    'shipping_address', case when is_open then found_order.shipping_address end,
    'delivery_notes', case when is_open then found_order.delivery_notes end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name),
          'image_url', p.image_url,
          'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.created_at, i.id)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = found_order.id
    ), '[]'::jsonb)
  );
end
$$;
comment on function public.track_order(text, text, text) is
  'An order by its tracking number: status, items and total for anyone; personal data in full only with the access key or the last four digits of the phone. Null when there is none.';
grant execute on function public.track_order(text, text, text) to anon, authenticated, service_role;

-- Whoever follows an order hears of its change: no personal data, since anyone may listen who knows the order's id.
create function private.tell_order_followers() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform realtime.send(
    jsonb_build_object(
      'id', new.id,
      'tracking_number', new.tracking_number,
      'status', private.told_status(new.status),
      'payment_status', new.payment_status,
      'updated_at', new.updated_at
    ),
    'UPDATE',
    'order-' || new.id,
    false
  );
  return null;
end
$$;
create trigger orders_tell_followers after update on public.orders
  for each row
  when (old.status is distinct from new.status or old.payment_status is distinct from new.payment_status)
  execute function private.tell_order_followers();

-- Unpaid orders give their units back ------------------------------------------------------------------------------

create function private.return_units(order_id uuid) returns void
language sql
set search_path = ''
as $$
  update public.products as p
  set stock_quantity = p.stock_quantity + i.quantity
  from public.order_items as i
  where i.order_id = return_units.order_id and p.id = i.product_id;
$$;
