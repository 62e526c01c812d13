-- Earlier versions keep working
-- An order is placed with fewer statements, index entries and bytes of log.

alter table private.order_keys drop constraint order_keys_order_id_fkey;

alter table private.order_networks drop constraint order_networks_order_id_fkey;

alter table private.unpaid_holds drop constraint unpaid_holds_order_id_fkey;

drop function private.begin_counted_hold(uuid,uuid,integer,bigint,timestamp with time zone,boolean);

drop function private.hold_time_of(text,uuid);

drop function private.is_within_hold_time(text[],uuid,integer,bigint,interval,boolean);

drop function private.may_hold_units(text[],uuid,integer,bigint,store_settings);

drop function private.placed_order(uuid);

drop index public.orders_of_a_status_newest_first;

drop index public.orders_with_personal_details;

drop index public.outbox_messages_by_order;

drop index private.hold_time_by_end;

drop index private.order_networks_by_network;

drop index private.order_networks_of_open_orders;

drop index private.rate_limits_by_window_end;

alter table private.order_keys add constraint order_keys_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create or replace function public.is_admin() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  -- Visitors call functions that check this, too.
  if auth.uid() is null then
    return false;
  end if;
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

comment on function public.is_admin is
  'Whether the caller is active staff: not banned or deleted, in a session that has not ended, with the second factor verified if there is one. Every staff policy checks this.';

-- Execution rights
grant execute on function public.is_admin to authenticated, service_role;

-- Larger lists of rows that wait, without building the indexes again.
alter index public.orders_by_words set (gin_pending_list_limit = 256);
alter index public.outbox_messages_by_part_of_their_text reset (fastupdate);
alter index public.outbox_messages_by_part_of_their_text set (gin_pending_list_limit = 256);

alter table private.unpaid_holds set unlogged;
alter table private.hold_time set unlogged;

create index rate_limits_by_window_end on private.rate_limits using brin (window_end);

create or replace function private.request_address() returns text
language plpgsql stable security definer set search_path = '' as $$
declare
  headers jsonb := nullif(current_setting('request.headers', true), '')::jsonb;
  visitor text := left(headers ->> 'x-visitor-address', 100);
begin
  if coalesce(auth.role(), '') = 'service_role' then
    return visitor;
  elsif visitor is not null then
    if exists (
      select from private.storefront_tokens as known
      where known.token_hash = encode(sha256(convert_to(left(headers ->> 'x-visitor-token', 100), 'UTF8')), 'hex')
    ) then
      return visitor;
    end if;
  end if;
  -- An IP address with its zone has at most 100 characters.
  return coalesce(
    left(headers ->> 'cf-connecting-ip', 100),
    split_part(right(rtrim(headers ->> 'x-forwarded-for'), 100), ',', -1)
  );
end
$$;

comment on function private.request_address is
  'The caller''s IP address, from sources that a client cannot write: x-visitor-address, with a storefront token or the secret key; cf-connecting-ip, set by a hosted project''s network; the last address of x-forwarded-for, added by the nearest proxy. Null for calls of the shop itself.';

-- A statement with an array as parameter would be planned again at each call.
create or replace function private.count_call_from(networks text[], limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  rule private.limits;
  started timestamptz;
  is_within boolean;
begin
  select * into strict rule from private.limits as l where l.name = count_call_from.limit_name;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with callers as materialized (
    select caller.network, caller.level, rtrim(caller.network || ' ' || count_call_from.subject) as subject
    from unnest(networks) with ordinality as caller (network, level)
  ), counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, c.subject, started, started + rule.within, 1
    from callers as c
    -- A call over the limit writes nothing, so that one address cannot use up the allowance of its wider networks.
    where not exists (
      select from callers as every
      where not private.is_within(rule, every.network, 1 + coalesce((
        select before.hits from private.rate_limits as before
        where before.bucket = rule.name and before.subject = every.subject and before.window_start = started
      ), 0))
    )
    -- Concurrent calls lock their common counters in the same order.
    order by c.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, known.hits
  )
  select count(*) = cardinality(networks)
    and coalesce(bool_and(private.is_within(rule, split_part(c.subject, ' ', 1), c.hits)), true) into is_within
  from counted as c;
  return is_within;
end
$$;

comment on function private.count_call_from is
  'Counts one call in this limit, and subject if given, for each of the networks. Returns whether all are within their allowance. Bound the subject''s length first. True without networks.';

create or replace function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  return private.count_call_from(private.caller_networks(), count_call.limit_name, count_call.subject);
end
$$;

comment on function private.count_call is 'private.count_call_from the caller''s networks. True without an IP address.';

create index orders_of_a_final_status_newest_first on public.orders (status, created_at desc, id desc) where status in ('delivered', 'cancelled');

create index orders_with_personal_details on public.orders (created_at)
  where anonymised_at is null and (payment_status <> 'unpaid' or status = 'cancelled');

-- The words of an order are many: they are added to the index for about a hundred orders at once, which writes a third of the log.
-- Searches read those that wait, up to 256 kB.
create or replace function private.placed_order(placed public.orders, access_key text) returns jsonb
language plpgsql immutable set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', placed.id,
    'tracking_number', placed.tracking_number,
    'access_key', placed_order.access_key,
    'status', placed.status,
    'payment_status', placed.payment_status,
    'delivery_fee', placed.delivery_fee,
    'total_amount', placed.total_amount,
    'charge_cents', placed.charge_cents,
    'customer_phone', placed.customer_phone,
    'reserved_until', placed.reserved_until,
    'expires_at', placed.expires_at,
    'created_at', placed.created_at
  );
end
$$;

comment on function private.placed_order is 'The response of place_order.';

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
-- A cached plan made for few orders must not scan many.
set enable_seqscan = off
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call_from(callers, 'place_order');
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total integer;
  refusal jsonb;
  new_order public.orders;
  number text;
  new_id uuid := gen_random_uuid();
  access_key text;
  -- Empty for staff and the shop itself, whose unpaid orders are not limited.
  networks text[] := case
    when coalesce(auth.role(), '') = 'service_role' or public.is_admin() then '{}'
    else callers
  end;
  -- Unsold units of the product. Null: the order holds none.
  units bigint;
  expires_at timestamptz;
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
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone, place_order.delivery_location,
    place_order.building, place_order.unit, place_order.delivery_notes
  );
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, customer.name, customer.email, customer.phone, customer.address,
      customer.notes, place_order.expected_total)::text, 'UTF8'
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
  if settings.requires_terms_tick and place_order.accepts_terms is not true then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
  total := private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
  units := private.units_to_hold(networks, product, place_order.quantity, settings);
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when units is not null then expires_at end, expires_at,
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
    if not found then
      number := null;
      continue;
    end if;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left.
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
    total := private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
    exit when units is null;
    units := private.units_to_hold(networks, product, place_order.quantity, settings);
    exit when units is not null;
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

  if units is not null then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  if cardinality(networks) > 0 then
    insert into private.order_networks (order_id, network, phone)
    select new_order.id, caller.network, customer.phone
    from unnest(networks) as caller (network);
    if units is not null then
      perform private.begin_counted_hold(networks, new_order.id, product.id, place_order.quantity, units, expires_at, false);
    end if;
  end if;
  return private.placed_order(new_order, access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  -- Current figures for the form.
  if product.id is not null then
    refusal := refusal || jsonb_build_object('quote', jsonb_build_object(
      'price', product.price, 'delivery_fee', settings.delivery_fee,
      'total', product.price::bigint * place_order.quantity + settings.delivery_fee,
      'units_left', product.stock_quantity
    ));
  end if;
  return refusal;
end
$$;

comment on function public.place_order is
  'Places an order in one transaction: price and fee from the database, a new tracking number, units held (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes quote: the current price, delivery_fee, total and units_left.';

-- Execution rights
grant execute on function public.place_order to anon, authenticated, service_role;

create index order_networks_by_network on private.order_networks (network, is_open, phone);

create or replace function private.refuse_too_many_unpaid_orders(networks text[], phone text, settings public.store_settings) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  crowded record;
  most integer;
begin
  for crowded in
    select caller.network, rule, known.of_phone, most.of_phone as most_of_phone
    from unnest(networks) with ordinality as caller (network, level)
    join private.limits as rule on rule.name = 'waiting_orders'
    cross join lateral (
      select settings.unpaid_orders_per_phone * private.allowance_factor(caller.network) as of_phone,
        rule.allowed * private.allowance_factor(caller.network) as of_network
    ) as most
    cross join lateral (
      select
        -- Only orders of the same network count, so that a stranger's orders with this phone do not block the customer.
        (select count(*) from (
          select from private.order_networks as k
          where k.network = caller.network and k.is_open and k.phone = refuse_too_many_unpaid_orders.phone
          limit most.of_phone
        ) as of_phone) as of_phone,
        (select count(*) from (
          select from private.order_networks as k where k.network = caller.network and k.is_open limit most.of_network
        ) as of_network) as of_network
    ) as known
    where known.of_phone >= most.of_phone or known.of_network >= most.of_network
    order by caller.level
  loop
    if crowded.of_phone >= crowded.most_of_phone then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in %s minutes',
        crowded.most_of_phone, settings.reservation_minutes
      ));
    end if;
    most := private.allowance(crowded.rule, crowded.network);
    if (
      select count(*) from (
        select from private.order_networks as k where k.network = crowded.network and k.is_open limit most
      ) as of_network
    ) >= most and not private.has_paid(refuse_too_many_unpaid_orders.phone) then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        'Too many orders from your network wait to be paid already. Please try again in %s minutes, or call or WhatsApp us on %s',
        settings.reservation_minutes, private.contact_numbers()
      ));
    end if;
  end loop;
end
$$;

comment on function private.refuse_too_many_unpaid_orders is
  'Refuses an order when a network of its customer has as many unpaid orders as allowed: of its phone unpaid_orders_per_phone times private.allowance_factor, of all phones the allowance of the limit waiting_orders, unless its phone has paid before.';

create or replace function private.units_to_hold(networks text[], product public.products, quantity integer, settings public.store_settings)
returns bigint
language plpgsql stable set search_path = '' as $$
declare
  held bigint := private.units_held(product.id);
  units bigint := product.stock_quantity + held;
begin
  if cardinality(networks) = 0 or (
    held + units_to_hold.quantity <= ceil(units * settings.reserved_share_percent / 100.0)
    and private.is_within_hold_time(
      networks, product.id, units_to_hold.quantity, units, make_interval(mins => settings.reservation_minutes), false, settings
    )
  ) then
    return units;
  end if;
  return null;
end
$$;

comment on function private.units_to_hold is
  'The unsold units of the product (those left and those held) if an order may hold its units from placing, else null: all unpaid orders together stay within the share of these units, and private.is_within_hold_time. Without networks it always may.';

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  product_ids uuid[];
  waiting public.orders;
  extended_until timestamptz;
  item record;
  networks text[];
  settings public.store_settings;
  held_until timestamptz;
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for no key update;
  -- An unpaid order that was handed over has already taken its units.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' then
    return;
  end if;
  extended_until := least(now() + private.prompt_hold(), waiting.expiry_limit);
  if waiting.extended_at is null and waiting.expires_at < extended_until then
    if waiting.reserved_until is not null and private.extend_counted_hold(waiting.id, extended_until) then
      waiting.reserved_until := extended_until;
    end if;
    update public.orders as o
    set expires_at = extended_until, reserved_until = waiting.reserved_until, extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif waiting.reserved_until is not null then
    return;
  end if;

  held_until := least(now() + private.prompt_hold(), waiting.expires_at);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = waiting.id);
  select * into strict settings from public.store_settings;
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  for item in
    select p.id as product_id, coalesce(p.stock_quantity, 0) as units_left, i.quantity,
      p.stock_quantity + private.units_held(p.id) as units
    from public.order_items as i
    left join lateral (select * from public.products as p where p.id = i.product_id and p.is_active offset 0) as p on true
    where i.order_id = waiting.id
  loop
    if item.product_id is null then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif item.units_left = 0 then
      perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
    elsif item.units_left < item.quantity then
      perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', item.units_left), item.units_left::text);
    end if;
    may_hold := may_hold and (
      cardinality(networks) = 0
      or private.is_within_hold_time(networks, item.product_id, item.quantity, item.units, held_until - now(), true, settings)
    );
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.products as p
    set stock_quantity = p.stock_quantity
      - (select sum(i.quantity) from public.order_items as i where i.order_id = waiting.id and i.product_id = p.id)
    where p.id = any (product_ids);
    update public.orders as o set reserved_until = held_until where o.id = waiting.id;
    -- Visitors' orders, which are counted, have one product.
    perform private.begin_counted_hold(
      networks, waiting.id, i.product_id, i.quantity, private.units_held(p.id) + p.stock_quantity, held_until, true
    )
    from public.order_items as i
    cross join lateral (select * from public.products as p where p.id = i.product_id offset 0) as p
    where i.order_id = waiting.id;
  end if;
end
$$;

comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

comment on table private.unpaid_holds is
  'Holds of visitors'' unpaid orders that count in private.hold_time. Deleted with the end of the hold.';

comment on column private.unpaid_holds.share_of_units is 'Units held, divided by the unsold units of the product at the beginning.';

comment on column private.unpaid_holds.is_prompted is 'Whether the hold began with a prompt. False: with the order.';

comment on table private.hold_time is
  'For how long unpaid orders held a product, as if they had held all of its units: half of the units for ten minutes are five. Holds that ended in a payment are taken out again.';

comment on column private.hold_time.subject is 'A network, or all networks together: placed (holds that began with the order) or prompts.';

comment on column private.hold_time.counts_until is 'An hour after the end of the holds, in steps of five minutes.';

create index hold_time_by_end on private.hold_time using brin (counts_until);

create or replace function private.is_within_hold_time(
  networks text[], product_id uuid, quantity integer, units bigint, span interval, is_prompted boolean, settings public.store_settings
) returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  -- Rounded down, so that parts never add up to more than the whole.
  added interval := date_trunc('milliseconds', span * (is_within_hold_time.quantity / units::double precision));
  share double precision := ceil(units * settings.reserved_share_percent / 100.0) / units;
  whole interval := make_interval(mins => settings.reservation_minutes);
begin
  return not exists (
    select from (
      -- Wider networks have only twice as much, because units are few; an order without a hold can still be paid.
      select caller.network, whole * share * least(private.allowance_factor(caller.network), 2)
      from unnest(is_within_hold_time.networks) as caller (network)
      union all
      select case when is_prompted then 'prompts' else 'placed' end, case when is_prompted then private.prompt_hold() else whole end * share
    ) as bound (subject, allowed)
    -- One hold is always allowed, such as that of the last unit.
    where added + coalesce((
      select sum(t.held) from private.hold_time as t
      where t.subject = bound.subject and t.product_id = is_within_hold_time.product_id and t.counts_until > now()
    ), interval '0') > greatest(bound.allowed, added)
  );
end
$$;

comment on function private.is_within_hold_time is
  'Whether units may be held for a time. In any hour each network may hold the share of the units (reserved_share_percent) for reservation_minutes, or fewer units for longer; a /56 and wider twice that. The same holds for all networks together at placing, and with private.prompt_hold at prompts. One hold is always allowed.';

create or replace function private.hold_counts_until(held_until timestamptz) returns timestamptz
language sql immutable
return date_bin('5 minutes', held_until, timestamptz '2000-01-01') + interval '1 hour 5 minutes';

create or replace function private.add_hold_time(counted private.unpaid_holds, span interval) returns void
language plpgsql set search_path = '' as $$
begin
  insert into private.hold_time as known (subject, product_id, counts_until, held)
  select
    counting.subject, counted.product_id, private.hold_counts_until(counted.held_until),
    date_trunc('milliseconds', span * counted.share_of_units)
  from (
    select k.network as subject from private.order_networks as k where k.order_id = counted.order_id
    union all
    select case when counted.is_prompted then 'prompts' else 'placed' end
  ) as counting
  -- What counts no longer may be deleted at this moment.
  where private.hold_counts_until(counted.held_until) > now()
  on conflict (subject, product_id, counts_until) do update set held = known.held + excluded.held;
end
$$;

comment on function private.add_hold_time is
  'Adds a time, or takes away a negative one, for the networks of a hold and all networks together. The caller has locked the product''s row of private.held_units.';

create or replace function private.begin_counted_hold(
  networks text[], order_id uuid, product_id uuid, quantity integer, units bigint, held_until timestamptz, is_prompted boolean
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- Orders of staff and of the shop itself are not limited.
  if cardinality(networks) = 0 then
    return;
  end if;
  with begun as (
    insert into private.unpaid_holds (order_id, product_id, share_of_units, is_prompted, held_until)
    values (
      begin_counted_hold.order_id, begin_counted_hold.product_id, begin_counted_hold.quantity / begin_counted_hold.units::double precision,
      begin_counted_hold.is_prompted, begin_counted_hold.held_until
    )
    returning *
  )
  insert into private.hold_time as known (subject, product_id, counts_until, held)
  select
    counting.subject, begun.product_id, private.hold_counts_until(begun.held_until),
    date_trunc('milliseconds', (begun.held_until - now()) * begun.share_of_units)
  from begun
  cross join unnest(networks || case when begin_counted_hold.is_prompted then 'prompts' else 'placed' end) as counting (subject)
  on conflict (subject, product_id, counts_until) do update set held = known.held + excluded.held;
end
$$;

comment on function private.begin_counted_hold is
  'Counts the hold of an order until its planned end, for its networks and all networks together. units: unsold units of the product, with those held.';

create or replace function private.extend_counted_hold(order_id uuid, held_until timestamptz) returns boolean
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  extended private.unpaid_holds;
  networks text[];
  units bigint;
  settings public.store_settings;
begin
  select * into extended from private.unpaid_holds as h where h.order_id = extend_counted_hold.order_id;
  if not found then
    return true;
  end if;
  select p.stock_quantity + h.quantity into units
  from private.held_units as h
  join public.products as p on p.id = h.product_id
  where h.product_id = extended.product_id
  for no key update of h;
  select array_agg(k.network) into networks from private.order_networks as k where k.order_id = extended.order_id;
  select * into strict settings from public.store_settings;
  if not private.is_within_hold_time(
    networks, extended.product_id, (select sum(i.quantity)::integer from public.order_items as i where i.order_id = extended.order_id),
    units, extend_counted_hold.held_until - extended.held_until, extended.is_prompted, settings
  ) then
    return false;
  end if;
  perform private.add_hold_time(extended, extended.held_since - extended.held_until);
  update private.unpaid_holds as h set held_until = extend_counted_hold.held_until
  where h.order_id = extended.order_id
  returning * into extended;
  perform private.add_hold_time(extended, extended.held_until - extended.held_since);
  return true;
end
$$;

comment on function private.extend_counted_hold is
  'Moves the planned end of an order''s hold, if the networks may hold its units for longer. Returns whether they may; true for holds that are not counted.';

create or replace function private.record_order_event(order_id uuid, kind text, default_actor text, details jsonb default '{}') returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := auth.uid();
begin
  if member is not null then
    select a.user_id into member from public.admin_profiles as a where a.user_id = member;
  end if;
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  values (
    order_id, kind, case when member is null then default_actor else 'staff' end, member,
    case when member is not null then private.email_of(member) end,
    jsonb_strip_nulls(details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  );
end
$$;

comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the calling staff member, else default_actor.';

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_review') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
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
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

-- Added for about a hundred messages at once, as orders_by_words.
create or replace function private.anonymise_old_orders() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and (o.payment_status <> 'unpaid' or o.status = 'cancelled')
      and o.created_at < retained_since and private.unsettled_money_reason(o.id) is null
    order by o.created_at limit 1000
    for no key update skip locked
  ) || array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.erasure_requested_at is not null and private.retention_reason(o.id) is null
    limit 1000
    for no key update skip locked
  );
begin
  -- Checked again under the lock: a payment may have begun in the meantime.
  perform private.anonymise_orders(array(
    select id from unnest(due) as id where private.unsettled_money_reason(id) is null
  ));
  update public.payments as p set phone = '' where p.purpose = 'test' and p.created_at < retained_since and p.phone <> '';
end
$$;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  if tg_op = 'UPDATE' and old.price <> new.price then
    perform private.record_price_change(new.id, new.name, old.price, new.price);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;

-- Orders

create or replace function private.before_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    delete from private.order_networks as k where k.order_id = old.id;
    return old;
  end if;
  if (old.payment_status in ('unpaid', 'needs_review') and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_review' and old.status <> new.status
      and new.status in ('processing', 'shipped', 'out_for_delivery', 'delivered'))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and new.status in ('shipped', 'out_for_delivery', 'delivered') then
    perform private.check_handover(old, new);
  end if;
  -- An unpaid order that is handed over takes its units if it held none.
  if old.payment_status = new.payment_status and old.status <> new.status
    and (old.status = 'cancelled' or new.status = 'cancelled' or (new.payment_status = 'unpaid' and new.reserved_until is null))
  then
    new := private.move_units_with_status(old, new);
  end if;
  return new;
end
$$;

create or replace function private.take_from_budget(channel text, has_priority boolean) returns text
language plpgsql set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  budget integer := private.daily_budget(take_from_budget.channel);
  remaining integer := private.left_of_budget(take_from_budget.channel);
  is_half_used boolean := false;
  parts constant integer := 8;
  taken smallint;
begin
  -- While less than half of the budget is used, so is that of messages without priority. Fewer than 100 are counted at once.
  if not take_from_budget.has_priority and remaining between 1 and budget / 2 + 100 then
    -- Until the end of the transaction no other message without priority of this channel is counted.
    perform pg_advisory_xact_lock(hashtext('messages without priority ' || take_from_budget.channel));
    remaining := private.left_of_budget(take_from_budget.channel);
    is_half_used := private.sent_without_priority(take_from_budget.channel) >= budget / 2;
  end if;
  -- The parts' shares cover this, except after the budget was lowered.
  if remaining = 0 then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  elsif is_half_used then
    return format('Not sent: the half of today''s budget of %ss for visitors who have not paid is used up', take_from_budget.channel);
  end if;
  if not exists (select from private.messages_sent as m where m.day = today and m.channel = take_from_budget.channel) then
    insert into private.messages_sent (day, channel, part)
    select today, take_from_budget.channel, part from generate_series(0, parts - 1) as part on conflict do nothing;
  end if;
  -- Each part has its share of the budget, so that all together never exceed it. A part from which no other message is taken
  -- at the moment comes first.
  select m.part into taken from private.messages_sent as m
  where m.day = today and m.channel = take_from_budget.channel and m.total < (budget + parts - 1 - m.part) / parts
  order by m.total limit 1 for update skip locked;
  if not found then
    select m.part into taken from private.messages_sent as m
    where m.day = today and m.channel = take_from_budget.channel and m.total < (budget + parts - 1 - m.part) / parts
    order by m.total limit 1 for update;
  end if;
  if not found then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  end if;
  update private.messages_sent as counted
  set total = counted.total + 1
  where counted.day = today and counted.channel = take_from_budget.channel and counted.part = taken;
  return null;
end
$$;

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'INSERT' then
    perform private.record_order_event(new.id, 'order_placed', 'customer', jsonb_build_object(
      'total_amount', new.total_amount,
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if (old.status <> new.status or private.is_called_off(old) <> private.is_called_off(new))
    and current_setting('private.is_undoing', true) is distinct from 'yes'
  then
    perform private.move_delivery_with_order(old, new);
  end if;
  -- Last: orders of the same products wait for these counters until the transaction ends.
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  return null;
end
$$;
