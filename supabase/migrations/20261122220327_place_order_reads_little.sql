drop function private.draw_tracking_number(integer);

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create or replace function public.is_admin() returns boolean
language plpgsql stable security definer
set search_path = ''
as $$
begin
  return exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  ) and (
    -- A token outlives its session by up to an hour; staff rights end with the session. A session whose refresh token was
    -- stolen keeps its row but has ended.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions as session
      where session.id = (select (auth.jwt() ->> 'session_id')::uuid) and session.user_id = (select auth.uid())
        and (session.not_after is null or session.not_after > now())
    )
  );
end
$$;

comment on function public.is_admin() is
  'Whether the request comes from active staff, neither banned nor deleted, in a session that goes on, who have passed their second factor if they have one. Every staff policy asks this.';

grant execute on function public.is_admin() to authenticated, service_role;

create or replace function private.draw_tracking_number() returns text
language plpgsql volatile
set search_path = ''
set enable_seqscan = off
as $$
declare
  prefix text := 'JJ-' || to_char(now() at time zone 'Africa/Nairobi', 'YYYYMMDD') || '-';
  lowest integer;
  drawn text;
begin
  -- Four digits while a free number is easily found. When most of the day's are taken, five, then six.
  foreach lowest in array '{1000,1000,1000,1000,10000,10000,10000,10000,100000,100000,100000,100000}'::integer[] loop
    drawn := prefix || lowest + floor(random() * 9 * lowest)::integer;
    exit when not exists (select from public.orders as o where o.tracking_number = drawn);
  end loop;
  return drawn;
end
$$;

comment on function private.draw_tracking_number() is
  'A tracking number of today that no order has. A concurrent order may still take it first.';

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
  if not is_within_limit then
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

comment on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text, boolean) is
  'Places an order in one transaction: price and fee from the database, tracking number drawn, units held (reserved_until) unless too many are held unpaid. The same key again returns the same order. A refusal carries quote: price, delivery_fee, total and units_left of this moment.';

revoke execute on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text, boolean) from public;

grant execute on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text, boolean)
  to anon, authenticated, service_role;

create or replace function private.return_units(order_id uuid) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = return_units.order_id
  order by p.id
  for update of p;
  update public.products as p
  set stock_quantity = p.stock_quantity + i.quantity
  from public.order_items as i
  where i.order_id = return_units.order_id and p.id = i.product_id;
end
$$;

-- Reads only orders that are due.
create or replace function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- Due orders come in the order of an index that has no others.
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  due uuid[];
  ended public.orders;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  -- Each kind has an index of its own, so that a run without due orders reads nothing.
  select array_agg(found.id) into due from (
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.expires_at limit 200
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.reserved_until limit 200
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.id limit 200
    )
  ) as found;
  if due is null then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
    where o.id = any (due) and o.payment_status = 'unpaid'
      and (
        (o.status = 'pending' and (o.expires_at <= now() or o.reserved_until <= now()))
        or (o.status = 'cancelled' and o.reserved_until is not null)
      )
    for update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and not private.is_paying(o.id, o.expiry_limit);
  -- Lock all products before the first changes, as renaming a category does.
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

grant execute on function public.expire_reservations() to service_role;

create or replace function private.take_units(order_id uuid) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
  order by p.id
  for update of p;
  if exists (
    select from public.products as p
    join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
    group by p.id
    having p.stock_quantity < sum(i.quantity)
  ) then
    perform private.refuse(409, 'units_sold_meanwhile',
      'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
  end if;
  update public.products as p
  set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = take_units.order_id and p.id = i.product_id;
end
$$;

comment on function private.take_units(uuid) is 'Takes an order''s units out of stock again. The order''s row must be locked.';

create or replace function private.end_reviews() returns void
language plpgsql
set search_path = ''
-- Reads the few attempts under review, then their orders: not all orders in the order of their ids.
set enable_sort = on
set enable_bitmapscan = on
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
          -- The money is settled once it belongs to another payment, was refunded, or was noted.
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
    -- The time of the message stays: it decides the day in the books.
    update public.payments as p set status = 'failed' where p.id = looked_at.payment_id and p.status = 'review';
    -- The customer waited for staff and gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes),
        extended_at = null
    where o.id = looked_at.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

comment on function private.end_reviews() is
  'Ends the attempts under review whose money staff have dealt with. A success that comes later still supersedes it.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := new.id is not null
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
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that staff hand over, count towards no limit.
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
end
$$;

create or replace function private.expect_few_unpaid_orders(networks text[], phone text, per_phone integer) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
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

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
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
  -- Handing an unpaid order over has taken its units already.
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
  -- Beyond that the prompt is sent without a hold, so that others of the same network cannot keep a customer from paying. Units that
  -- are sold before the money arrives are handled as with late money.
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

create or replace function private.record_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  select
    record_order_event.order_id,
    record_order_event.kind,
    case when member.user_id is null then record_order_event.otherwise else 'staff' end,
    member.user_id,
    member.email,
    jsonb_strip_nulls(record_order_event.details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and record_order_event.kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  from (select) as once
  left join (
    select a.user_id, u.email
    from public.admin_profiles as a
    join auth.users as u on u.id = a.user_id
    where a.user_id = (select auth.uid())
  ) as member on true;
end
$$;

comment on function private.record_order_event(uuid, text, text, jsonb) is
  'Adds to an order''s timeline. The actor is the member of staff whose request this is, otherwise the one named.';
