-- Unpaid orders and the units they hold. An order may wait to be paid without holding units; docs/decisions/unpaid-orders.md.

alter table public.store_settings
  add column reserved_share_percent integer not null default 50,
  add constraint "a share of the stock can be reserved" check (reserved_share_percent between 1 and 100);
comment on column public.store_settings.reserved_share_percent is
  'Percentage of a product''s units that unpaid orders may hold from placing. Orders beyond it hold units only while a prompt is open.';
grant update (reserved_share_percent) on public.store_settings to authenticated;
comment on column public.store_settings.unpaid_orders_per_phone is
  'How many orders of one phone may wait to be paid at a time, in one network; ten times as many of all its phones. Wider networks: private.allowance_factor.';

alter table public.orders
  add column expires_at timestamptz,
  add column expiry_limit timestamptz,
  add column extended_at timestamptz,
  add constraint "an order expires by its limit" check (expires_at <= expiry_limit),
  add constraint "units are held no longer than the order waits" check (reserved_until <= expires_at);
comment on column public.orders.reserved_until is
  'While unpaid: until when units are held for the order. Null when it holds none: not yet, not any more, or because they are sold.';
comment on column public.orders.expires_at is
  'When the order is cancelled unless it is paid. Null after it expired. Without meaning once the order is paid.';
comment on column public.orders.expiry_limit is
  'The latest expires_at. An open prompt delays expiry to this moment at most; only a payment that staff look at delays it further.';
comment on column public.orders.extended_at is 'When a prompt moved expires_at, which happens once.';

update public.orders as o
set expires_at = o.reserved_until,
    expiry_limit = greatest(
      o.reserved_until, o.created_at + 2 * (select make_interval(mins => s.reservation_minutes) from public.store_settings as s)
    )
where o.payment_status = 'unpaid' and o.reserved_until is not null;

drop index public.orders_with_running_reservation;
create index orders_by_expiry on public.orders (expires_at) where payment_status = 'unpaid' and status = 'pending';
create index orders_by_end_of_hold on public.orders (reserved_until) where payment_status = 'unpaid' and status = 'pending';
create index orders_cancelled_with_units on public.orders (id)
  where payment_status = 'unpaid' and status = 'cancelled' and reserved_until is not null;

-- What unpaid orders hold ---------------------------------------------------------------------------------------------

create table private.held_units (
  product_id uuid primary key references public.products (id) on delete cascade,
  quantity integer not null
);
comment on table private.held_units is
  'Units of a product that unpaid orders hold, so that placing an order does not read all of them. Kept by the trigger orders_count_held_units.';
alter table private.held_units enable row level security;
insert into private.held_units (product_id, quantity)
select i.product_id, sum(i.quantity)
from public.order_items as i
join public.orders as o on o.id = i.order_id
where o.payment_status = 'unpaid' and o.reserved_until is not null and o.status in ('pending', 'cancelled') and i.product_id is not null
group by i.product_id;

-- Its rows lived for two hours at most: limits on unpaid orders start again.
drop table private.order_networks;
create table private.order_networks (
  order_id uuid not null references public.orders (id) on delete cascade,
  network text not null,
  product_id uuid not null,
  taken integer not null,
  is_open boolean not null default true,
  ended_at timestamptz,
  primary key (order_id, network)
);
comment on table private.order_networks is
  'The networks an unpaid order of a visitor came from. Deleted when it is paid, or an hour after it ended.';
comment on column private.order_networks.taken is 'Units the order has held so far. Units that it holds again count again.';
comment on column private.order_networks.is_open is 'Whether the order waits to be paid.';
comment on column private.order_networks.ended_at is 'When its last hold, or the order itself, ended. Null while it holds units.';
alter table private.order_networks enable row level security;
create index order_networks_by_product on private.order_networks (network, product_id);
create index order_networks_of_open_orders on private.order_networks (network) where is_open;

create function private.count_held_units() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := tg_op = 'UPDATE'
    and new.payment_status = 'unpaid' and new.reserved_until is not null and new.status in ('pending', 'cancelled');
begin
  if is_held and not was_held then
    insert into private.held_units as known (product_id, quantity)
    select i.product_id, sum(i.quantity)
    from public.order_items as i
    where i.order_id = new.id and i.product_id is not null
    group by i.product_id
    order by i.product_id
    on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  elsif was_held and not is_held then
    update private.held_units as known
    set quantity = known.quantity - held.quantity
    from (
      select i.product_id, sum(i.quantity) as quantity
      from public.order_items as i
      where i.order_id = old.id
      group by i.product_id
    ) as held
    where known.product_id = held.product_id;
  end if;
  if tg_op = 'DELETE' then
    return old;
  end if;

  -- An order that was paid, or that staff hand on unpaid, counts for no limit.
  if new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled') then
    delete from private.order_networks as k where k.order_id = new.id;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        taken = k.taken + case
          when is_held and not was_held then coalesce((
            select sum(i.quantity) from public.order_items as i where i.order_id = new.id and i.product_id = k.product_id
          ), 0)
          else 0
        end,
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
  return null;
end
$$;
create trigger orders_count_held_units after update on public.orders
  for each row
  when (
    (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  )
  execute function private.count_held_units();
create trigger orders_take_held_units_along before delete on public.orders
  for each row execute function private.count_held_units();

create function private.count_held_item() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  insert into private.held_units as known (product_id, quantity)
  select new.product_id, new.quantity
  from public.orders as o
  where o.id = new.order_id and o.payment_status = 'unpaid' and o.reserved_until is not null and o.status in ('pending', 'cancelled')
  on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  return null;
end
$$;
create trigger order_items_count_held_units after insert on public.order_items
  for each row when (new.product_id is not null)
  execute function private.count_held_item();

-- Limits ----------------------------------------------------------------------------------------------------------------

drop function private.takes_large_share(text, uuid, integer, integer);
drop function private.expect_few_unpaid_orders(text, text, integer);

create function private.expect_few_unpaid_orders(networks text[], phone text, per_phone integer) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  waiting record;
begin
  for waiting in
    select open.of_network, open.of_phone, per_phone * private.allowance_factor(caller.network) as allowed
    from unnest(networks) as caller (network)
    -- Read from the network's own rows, whatever the planner knows: a subquery per row cannot become a join of all orders.
    cross join lateral (
      select count(*) as of_network,
        count(*) filter (where expect_few_unpaid_orders.phone = (
          select o.customer_phone from public.orders as o where o.id = k.order_id
        )) as of_phone
      from private.order_networks as k
      where k.network = caller.network and k.is_open
    ) as open
  loop
    -- Only orders from the same network count: a stranger who orders in a customer's name does not keep the customer from ordering.
    if waiting.of_phone >= waiting.allowed then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in a few minutes',
        waiting.of_phone
      ));
    elsif waiting.of_network >= waiting.allowed * 10 then
      perform private.refuse(429, 'too_many_unpaid_orders',
        'Too many orders from your network wait to be paid already. Please try again in a few minutes');
    end if;
  end loop;
end
$$;
comment on function private.expect_few_unpaid_orders(text[], text, integer) is
  'Refuses an order when too many of its phone, or of its network, wait to be paid: per_phone and ten times as many, times private.allowance_factor.';

create function private.is_within_units(networks text[], product_id uuid, quantity integer, allowed bigint) returns boolean
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where is_within_units.quantity + (
      select coalesce(sum(k.taken), 0)
      from private.order_networks as k
      where k.network = caller.network and k.product_id = is_within_units.product_id
        and (k.ended_at is null or k.ended_at > now() - interval '1 hour')
    )
    -- Two drinks can always be ordered, and one drink again by a slow customer. A wider network has twice as much, not eight
    -- times: units are few, and whoever goes without a hold can pay all the same.
    > greatest(2, is_within_units.allowed * least(private.allowance_factor(caller.network), 2))
  );
end
$$;
comment on function private.is_within_units(text[], uuid, integer, bigint) is
  'Whether each network may hold that many more units of a product: with what it holds unpaid, or held and did not pay within the last hour, it stays within allowed units (a /56 and wider: twice).';

create function private.may_hold_units(networks text[], product_id uuid, quantity integer, units_left integer, share integer)
returns boolean
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  held bigint;
  most bigint;
begin
  if cardinality(networks) = 0 then
    return true;
  end if;
  select coalesce(max(h.quantity), 0) into held from private.held_units as h where h.product_id = may_hold_units.product_id;
  most := ceil((units_left + held) * share / 100.0);
  return held + may_hold_units.quantity <= most
    and private.is_within_units(networks, may_hold_units.product_id, may_hold_units.quantity, most);
end
$$;
comment on function private.may_hold_units(text[], uuid, integer, integer, integer) is
  'Whether an order holds its units from placing: all unpaid orders together, with it, stay within the share (percent) of the product''s units, and its networks within the same. Always true without networks.';

-- Placing an order ------------------------------------------------------------------------------------------------------

create or replace function private.is_email(address text) returns boolean
language plpgsql immutable
set search_path = ''
as $$
declare
  domain text;
begin
  if address is null or octet_length(address) > 1016 or char_length(address) > 254 then
    return false;
  end if;
  -- White space and control characters, written out: \s depends on the database's locale.
  if address ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]' then
    return false;
  end if;
  domain := split_part(address, '@', 2);
  return char_length(replace(address, '@', '')) = char_length(address) - 1
    and split_part(address, '@', 1) <> ''
    -- A dot that is neither the first nor the last character.
    and position('.' in substr(domain, 2, greatest(char_length(domain) - 2, 0))) > 0;
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
      'expires_at', o.expires_at,
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
  for attempt in 1 .. 60 loop
    drawn := private.draw_tracking_number(attempt);
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit
    ) values (
      drawn, name, email, phone, address, notes,
      settings.delivery_fee, total, case when is_held then expires_at end, expires_at,
      now() + 2 * make_interval(mins => settings.reservation_minutes)
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
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;
comment on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text) is
  'Places an order in one transaction: price and fee from the database, tracking number drawn, units held (reserved_until) unless too many are held unpaid. The same key again returns the same order.';

-- Paying ----------------------------------------------------------------------------------------------------------------

create function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  prompt_time constant interval := '5 minutes';
  waiting public.orders;
  item record;
  networks text[];
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for update;
  -- Staff who hand an order on unpaid have taken its units.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' then
    return;
  end if;
  if waiting.extended_at is null and waiting.expires_at < least(now() + prompt_time, waiting.expiry_limit) then
    update public.orders as o
    set expires_at = least(now() + prompt_time, o.expiry_limit),
        reserved_until = case when o.reserved_until is not null then least(now() + prompt_time, o.expiry_limit) end,
        extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if waiting.reserved_until is not null then
    return;
  end if;

  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = waiting.id)
  order by p.id
  for no key update;
  for item in
    select p.id as product_id, coalesce(p.stock_quantity, 0) as units_left, i.quantity, coalesce(h.quantity, 0) as held
    from public.order_items as i
    left join public.products as p on p.id = i.product_id and p.is_active
    left join private.held_units as h on h.product_id = p.id
    where i.order_id = waiting.id
  loop
    if item.product_id is null then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif item.units_left = 0 then
      perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
    elsif item.units_left < item.quantity then
      perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', item.units_left), item.units_left::text);
    end if;
    -- Everything there is, and once more for a customer who was too slow.
    may_hold := may_hold
      and private.is_within_units(networks, item.product_id, item.quantity, 2 * (item.units_left::bigint + item.held));
  end loop;
  -- Beyond that the prompt is sent without a hold, so that nobody is kept from paying by others of the same network. Units that
  -- are sold before the money comes are handled as with late money.
  if may_hold then
    update public.products as p
    set stock_quantity = p.stock_quantity - i.quantity
    from public.order_items as i
    where i.order_id = waiting.id and p.id = i.product_id;
    update public.orders as o
    set reserved_until = least(now() + prompt_time, o.expires_at)
    where o.id = waiting.id;
  end if;
end
$$;
comment on function private.reserve_for_prompt(uuid) is
  'Before a prompt is sent for an unpaid order: takes its units for five minutes where it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) when it cannot be paid any more.';

create or replace function public.begin_payment(order_id uuid, phone text, notice_secret text, expected_amount integer default null)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment.phone);
  paid_order public.orders;
  current_attempt public.payments;
  charge integer;
  caller text := private.caller_address();
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The order's row is the lock: attempts, settlements and expiry of one order happen one after another.
  select * into paid_order from public.orders as o where o.id = begin_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order is no answer to who wants to pay it.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_decision' and p.amount = (paid_order.total_amount + 99) / 100 * 100)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if paid_order.payment_status = 'needs_decision' then
    perform private.refuse(409, 'payment_to_decide',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  end if;
  if paid_order.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  end if;
  if paid_order.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if charge < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  if begin_payment.expected_amount is not null and begin_payment.expected_amount not in (paid_order.total_amount, charge) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;
  -- An order may be tried with many phones, so whoever has one could have the phones of many strangers ring.
  if caller is not null and private.count_hit('payment_prompts_from', caller, interval '10 minutes') > 100 then
    perform private.refuse(429, 'too_many_payments', 'Too many payments from your network. Please try again in a few minutes');
  end if;
  if private.count_hit('payment_prompts_of', paid_order.id::text, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_attempts', 'Too many payment attempts for this order. Please wait a few minutes');
  end if;
  if private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;

  insert into public.payments (order_id, phone, amount, next_query_at)
  values (paid_order.id, payer, charge, null)
  returning * into current_attempt;
  insert into private.payment_secrets (payment_id, notice_secret)
  values (current_attempt.id, begin_payment.notice_secret);
  perform private.reserve_for_prompt(paid_order.id);
  return jsonb_build_object(
    'is_new', true,
    'payment', to_jsonb(current_attempt),
    'tracking_number', paid_order.tracking_number
  );
end
$$;

-- The end of unpaid orders ------------------------------------------------------------------------------------------------

create or replace function private.end_reviews() returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  looked_at record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
begin
  for looked_at in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Money is dealt with once it is another payment's, went back, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for update of o skip locked
  loop
    -- The time of the message stays: it is the day on which the payment stands in the books.
    update public.payments as p set status = 'failed' where p.id = looked_at.payment_id and p.status = 'review';
    -- The customer had to wait for staff, and gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes),
        extended_at = null
    where o.id = looked_at.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

create function private.is_paying(order_id uuid, expiry_limit timestamptz) returns boolean
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return exists (
    select from public.payments as p
    where p.order_id = is_paying.order_id and (
      p.status = 'review' or (p.status in ('initiating', 'processing') and coalesce(is_paying.expiry_limit > now(), true))
    )
  );
end
$$;
comment on function private.is_paying(uuid, timestamptz) is
  'Whether a payment delays the end of an unpaid order: one that staff look at, or an open prompt until the order''s expiry_limit.';

create or replace function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  due uuid[];
  ended public.orders;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
    where o.payment_status = 'unpaid'
      and (
        (o.status = 'pending' and o.expires_at <= now())
        or (o.status = 'pending' and o.reserved_until <= now())
        -- Orders that staff cancelled give their units back, too.
        or (o.status = 'cancelled' and o.reserved_until is not null)
      )
      and not private.is_paying(o.id, o.expiry_limit)
    order by o.expires_at
    limit 200
    for update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and not private.is_paying(o.id, o.expiry_limit);
  -- All of them before the first is changed, as a renamed category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    -- A hold for a prompt ends before its order does.
    update public.orders as o
    set reserved_until = null,
        status = case when o.status = 'cancelled' or o.expires_at <= now() then 'cancelled' else o.status end,
        expires_at = case when o.status = 'cancelled' or o.expires_at <= now() then null else o.expires_at end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;
comment on function public.expire_reservations() is
  'Ends what has run out: cancels unpaid orders at expires_at, and gives units back at reserved_until and after a cancellation. Not while staff look at a payment, nor during an open prompt until expiry_limit. Returns how many orders.';

-- Staff -------------------------------------------------------------------------------------------------------------------

create or replace function private.move_units_with_status() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  minutes interval;
begin
  if new.status = 'cancelled' then
    -- Units that have left the shop do not come back by themselves.
    if new.payment_status in ('paid', 'refunded') and new.units_returned_at is null and old.status in ('pending', 'processing') then
      perform private.return_units(new.id);
      new.units_returned_at := now();
    end if;
  elsif new.payment_status in ('paid', 'refunded') and new.units_returned_at is not null then
    perform private.take_units(new.id);
    new.units_returned_at := null;
  elsif new.payment_status = 'unpaid' and new.reserved_until is null then
    perform private.take_units(new.id);
    select make_interval(mins => s.reservation_minutes) into minutes from public.store_settings as s;
    new.expires_at := now() + minutes;
    new.reserved_until := new.expires_at;
    new.expiry_limit := now() + 2 * minutes;
    new.extended_at := null;
  end if;
  return new;
end
$$;
drop trigger orders_move_their_units on public.orders;
create trigger orders_move_their_units before update of status on public.orders
  for each row
  when (
    old.payment_status = new.payment_status
    and old.status <> new.status
    -- An unpaid order that staff hand on takes its units even when it has held none so far.
    and (old.status = 'cancelled' or new.status = 'cancelled' or (new.payment_status = 'unpaid' and new.reserved_until is null))
  )
  execute function private.move_units_with_status();

create or replace function private.tell_order_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    perform private.tell_order_event(new.id, 'order_placed', 'customer', jsonb_build_object(
      'total_amount', new.total_amount,
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    return null;
  end if;
  if old.payment_status <> new.payment_status then
    perform private.tell_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_decision') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.tell_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          -- Only expire_reservations empties expires_at.
          when new.status = 'cancelled' and new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null
            then 'not_paid_in_time'
          when pg_trigger_depth() > 1 then 'delivery'
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.tell_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.tell_order_event(new.id, 'units_taken', 'shop');
  end if;
  return null;
end
$$;

create or replace function private.forget_old_limits() returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
end
$$;
