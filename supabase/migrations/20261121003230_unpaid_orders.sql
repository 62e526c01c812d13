-- What is ordered and not paid is kept from everybody else: nobody may empty the shop in that way.

alter table public.store_settings
  add column unpaid_orders_per_phone integer not null default 5,
  add constraint "somebody may order" check (unpaid_orders_per_phone between 1 and 100);
comment on column public.store_settings.unpaid_orders_per_phone is
  'How many orders of one phone may keep units at a time without being paid; ten times as many of one network.';
grant update (unpaid_orders_per_phone) on public.store_settings to authenticated;

create table private.order_networks (
  order_id uuid primary key references public.orders (id) on delete cascade,
  network text not null,
  is_large boolean not null,
  placed_at timestamptz not null default now()
);
comment on table private.order_networks is
  'From which network visitors placed an order, for as long as that limits what more is kept for them. is_large: it took more than half of what there was.';
alter table private.order_networks enable row level security;
create index order_networks_by_network on private.order_networks (network, placed_at);

create function private.expect_few_unpaid_orders(network text, phone text, per_phone integer) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  open record;
begin
  -- Of one network alone: otherwise anybody could keep a stranger from ordering by ordering in his name.
  select count(*) as of_network, count(*) filter (where o.customer_phone = expect_few_unpaid_orders.phone) as of_phone into open
  from private.order_networks as n
  join public.orders as o on o.id = n.order_id
  where n.network = expect_few_unpaid_orders.network
    and o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until is not null;
  if open.of_phone >= expect_few_unpaid_orders.per_phone then
    perform private.refuse(429, 'too_many_unpaid_orders', format(
      '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in a few minutes',
      open.of_phone
    ));
  elsif open.of_network >= expect_few_unpaid_orders.per_phone * 10 then
    perform private.refuse(429, 'too_many_unpaid_orders',
      'Too many orders from your network wait to be paid already. Please try again in a few minutes');
  end if;
end
$$;

create function private.takes_large_share(network text, product_id uuid, units_left integer, quantity integer) returns boolean
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  held bigint;
  share bigint;
begin
  select coalesce(sum(i.quantity), 0) into held
  from private.order_networks as n
  join public.orders as o on o.id = n.order_id
  join public.order_items as i on i.order_id = o.id
  where n.network = takes_large_share.network and i.product_id = takes_large_share.product_id
    and o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until is not null;
  -- Of few units half would be nothing.
  share := greatest(5, (takes_large_share.units_left + takes_large_share.quantity + held) / 2);
  if held + takes_large_share.quantity <= share then
    return false;
  end if;
  -- Any quantity may be ordered, and once more by who was too slow; then it is paid before more is kept.
  if 2 <= (
    select count(*)
    from private.order_networks as n
    join public.orders as o on o.id = n.order_id
    where n.network = takes_large_share.network and n.is_large and o.payment_status = 'unpaid'
      and (n.placed_at > now() - interval '1 hour' or o.reserved_until is not null)
  ) then
    if share > held then
      perform private.refuse(409, 'too_many_units_unpaid', format(
        'We cannot keep that many for you again without payment. Please order at most %s, or call us', share - held
      ), (share - held)::text);
    end if;
    perform private.refuse(409, 'too_many_units_unpaid',
      'We cannot keep more of this drink for you without payment. Please pay first what you have ordered, or call us', '0');
  end if;
  return true;
end
$$;
comment on function private.takes_large_share(text, uuid, integer, integer) is
  'Whether an order, together with what its network keeps unpaid of the product, takes more than half of it, and more than 5 units. Refuses the third such order of a network in an hour. units_left is what is left beside the order.';

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
  name text := trim(place_order.customer_name);
  email text := trim(place_order.customer_email);
  phone text := private.normalised_phone(place_order.customer_phone);
  location text := trim(place_order.delivery_location);
  building_name text := nullif(trim(place_order.building), '');
  unit_name text := nullif(trim(place_order.unit), '');
  -- Line feeds stay, what steers a screen in another way does not.
  notes text := nullif(trim(regexp_replace(place_order.delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');
  address text;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total bigint;
  new_order public.orders;
  caller text := private.caller_address();
  drawn text;
  -- Whose unpaid orders are limited; what staff and the shop itself order is theirs to pay.
  network text := case
    when coalesce((select auth.role()), '') <> 'service_role' and not public.is_admin() then private.caller_address()
  end;
  is_large boolean := false;
begin
  if place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;
  -- Names and addresses stand in messages to customers: they are one line, which no sign turns round.
  if name is null or char_length(name) < 2 or private.has_control_signs(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  end if;
  if char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  end if;
  if email is null or email !~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' or private.has_control_signs(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  if char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
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

  -- Mobile networks put thousands behind one address, so this only stops machines.
  if caller is not null and private.count_hit('place_order', caller, interval '10 minutes') > 100 then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
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
end
$$;

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  forgotten integer;
begin
  delete from private.rate_limits as counted where counted.window_start < now() - interval '2 hours';
  -- Whose order it is tells its own row; from where it was placed matters while it keeps units unpaid, and an hour.
  delete from private.order_networks as n
  where n.placed_at < now() - interval '2 hours' and not exists (
    select from public.orders as o
    where o.id = n.order_id and o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until is not null
  );
  update public.outbox_messages as m
  set recipient = '', customer_name = '', subject = null, body = null, problem = null, updated_at = now()
  where m.id in (
    select old.id from public.outbox_messages as old
    where old.recipient <> '' and old.created_at < now() - interval '90 days' and old.status not in ('waiting', 'sending')
    order by old.created_at limit 5000
    for update skip locked
  );
  get diagnostics forgotten = row_count;
  -- That M-PESA had not decided yet is no evidence of anything.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- It stays known that it came, when, of what and what it did; what could not be settled yet is kept whole.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s))
      and old.body <> '{}' and old.outcome is not null and old.outcome <> 'fault'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s))
      and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  return forgotten;
end
$$;
