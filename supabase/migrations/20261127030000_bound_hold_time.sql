-- Networks are limited by the time for which they hold units (private.hold_time), no longer by their number.
alter table private.order_networks drop column product_id, drop column taken;

comment on column public.store_settings.reserved_share_percent is
  'Percentage of a product''s units that unpaid orders may hold from placing. Orders beyond it hold units for some minutes from a prompt.';
comment on column public.newsletter_subscriptions.confirmation_queued_at is
  'When the last confirmation mail was queued: at most one in 30 days. An unconfirmed address is deleted seven days later.';

drop function private.has_payment_in_progress(uuid,timestamp with time zone);

drop function private.is_within_unit_allowance(text[],uuid,integer,bigint);

drop function private.may_hold_units(text[],uuid,integer,integer,integer);

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
-- A cached plan made for few orders must not scan or join many.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('place_order');
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total integer;
  refusal jsonb;
  new_order public.orders;
  number text;
  -- Empty for staff and the shop itself, whose unpaid orders are not limited.
  networks text[] := case
    when coalesce((select auth.role()), '') = 'service_role' or public.is_admin() then '{}'
    else private.caller_networks()
  end;
  is_held boolean;
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
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
  total := private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity + private.units_held(product.id), settings
  );
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := private.draw_tracking_number();
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
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
    continue when not found;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left.
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
    perform private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
    units := product.stock_quantity + private.units_held(product.id);
    exit when not is_held or private.may_hold_units(networks, product.id, place_order.quantity, units, settings);
    is_held := false;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  if is_held then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  insert into private.order_networks (order_id, network, phone)
  select new_order.id, caller.network, customer.phone
  from unnest(networks) as caller (network);
  if is_held then
    perform private.begin_counted_hold(new_order.id, product.id, place_order.quantity, units, expires_at, false);
  end if;
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
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

create index order_networks_by_network on private.order_networks (network);

create or replace function private.units_held(product_id uuid) returns bigint
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return coalesce((select h.quantity from private.held_units as h where h.product_id = units_held.product_id), 0);
end
$$;

comment on function private.units_held is 'Units of a product that unpaid orders hold.';

create or replace function private.due_end(ended public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  is_prompted boolean;
begin
  if ended.payment_status <> 'unpaid' or ended.status not in ('pending', 'cancelled') then
    return null;
  end if;
  if exists (select from public.payments as p where p.order_id = ended.id and p.status = 'review') then
    return null;
  end if;
  is_prompted := coalesce(ended.expiry_limit > now(), true) and exists (
    select from public.payments as p where p.order_id = ended.id and p.status in ('initiating', 'processing')
  );
  return case
    when not is_prompted and (ended.expires_at <= now() or (ended.status = 'cancelled' and ended.reserved_until is not null)) then 'order'
    when ended.reserved_until <= now() then 'units'
  end;
end
$$;

comment on function private.due_end is
  'What ends now. order: the unpaid order, at expires_at; an open prompt delays that until expiry_limit. units: its hold, at reserved_until, also while a prompt is open. Null: nothing. A payment under review delays both.';

create or replace function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- The partial indexes return due orders in order.
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  due uuid[];
  ended public.orders;
  is_over boolean;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  -- Each kind has its own index, so that a run without due orders reads nothing.
  select array_agg(found.id) into due from (
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now() and private.due_end(o) is not null
      order by o.expires_at limit expire_reservations.at_most
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now() and private.due_end(o) is not null
      order by o.reserved_until limit expire_reservations.at_most
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null and private.due_end(o) is not null
      order by o.id limit expire_reservations.at_most
    )
  ) as found;
  if due is null then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o where o.id = any (due) for no key update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun or arrived in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and private.due_end(o) is not null;
  -- Lock all products before the first changes, as renaming a category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for no key update;
  -- A payment locks the counters of its products, and not the products.
  perform from private.held_units as h
  where h.product_id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by h.product_id
  for no key update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    -- A hold may end before its order does.
    is_over := ended.status = 'cancelled' or private.due_end(ended) = 'order';
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    update public.orders as o
    set reserved_until = null, status = case when is_over then 'cancelled' else o.status end,
        expires_at = case when not is_over then o.expires_at end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;

comment on function public.expire_reservations is
  'Ends what private.due_end names: cancels unpaid orders, and returns the units that they hold. At most at_most orders that expire, whose hold ends, and that were cancelled. Returns the number of orders.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  paid_networks text[];
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and new.status in ('pending', 'cancelled');
begin
  if was_held and not is_held then
    -- In order of product, as expire_reservations locks them.
    perform from private.held_units as h
    where h.product_id in (select i.product_id from public.order_items as i where i.order_id = old.id)
    order by h.product_id
    for no key update;
  end if;
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
    -- Before the networks are deleted.
    perform private.end_counted_hold(old.id, is_sold => new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled'));
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that were handed over, are not limited.
  if new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled') then
    with forgotten as (
      delete from private.order_networks as k where k.order_id = new.id returning k.network
    )
    select array_agg(f.network) into paid_networks from forgotten as f;
    if new.payment_status <> 'unpaid' and paid_networks is not null then
      perform private.count_paid_order(paid_networks);
    end if;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
end
$$;

create or replace function private.may_hold_units(networks text[], product_id uuid, quantity integer, units bigint, settings public.store_settings)
returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return cardinality(networks) = 0 or (
    private.units_held(may_hold_units.product_id) + may_hold_units.quantity
      <= ceil(may_hold_units.units * settings.reserved_share_percent / 100.0)
    and private.is_within_hold_time(
      networks, may_hold_units.product_id, may_hold_units.quantity, may_hold_units.units,
      make_interval(mins => settings.reservation_minutes), false
    )
  );
end
$$;

comment on function private.may_hold_units is
  'Whether an order holds its units from placing: all unpaid orders together stay within the share of the product''s units (those left and those held), and private.is_within_hold_time. Always true without networks.';

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  waiting public.orders;
  extended_until timestamptz;
  item record;
  networks text[];
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
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = waiting.id)
  order by p.id
  for no key update;
  for item in
    select p.id as product_id, coalesce(p.stock_quantity, 0) as units_left, i.quantity,
      p.stock_quantity + private.units_held(p.id) as units
    from public.order_items as i
    left join public.products as p on p.id = i.product_id and p.is_active
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
      or private.is_within_hold_time(networks, item.product_id, item.quantity, item.units, held_until - now(), true)
    );
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.products as p
    set stock_quantity = p.stock_quantity - i.quantity
    from public.order_items as i
    where i.order_id = waiting.id and p.id = i.product_id;
    update public.orders as o set reserved_until = held_until where o.id = waiting.id;
    -- Visitors' orders, which are counted, have one product.
    perform private.begin_counted_hold(waiting.id, i.product_id, i.quantity, private.units_held(p.id) + p.stock_quantity, held_until, true)
    from public.order_items as i
    join public.products as p on p.id = i.product_id
    where i.order_id = waiting.id;
  end if;
end
$$;

comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

-- Execution rights
grant execute on function public.expire_reservations to service_role;

-- For how long unpaid orders hold units, per network and in all (docs/decisions/unpaid-orders.md).

create table private.unpaid_holds (
  order_id uuid primary key references public.orders (id) on delete cascade,
  product_id uuid not null,
  share_of_units double precision not null,
  is_prompted boolean not null,
  held_since timestamptz not null default now(),
  held_until timestamptz not null
);

comment on table private.unpaid_holds is
  'Holds of visitors'' unpaid orders that count in private.hold_time. Deleted with the end of the hold.';

comment on column private.unpaid_holds.share_of_units is 'Units held, divided by the unsold units of the product at the beginning.';

comment on column private.unpaid_holds.is_prompted is 'Whether the hold began with a prompt. False: with the order.';

alter table private.unpaid_holds enable row level security;

create unlogged table private.hold_time (
  subject text not null,
  product_id uuid not null,
  counts_until timestamptz not null,
  held interval not null,
  primary key (subject, product_id, counts_until)
);

comment on table private.hold_time is
  'For how long unpaid orders held a product, as if they had held all of its units: half of the units for ten minutes are five. Holds that ended in a payment are taken out again.';

comment on column private.hold_time.subject is 'A network, or all networks together: placed (holds that began with the order) or prompts.';

comment on column private.hold_time.counts_until is 'An hour after the end of the holds, in steps of five minutes.';

alter table private.hold_time enable row level security;

create index hold_time_by_end on private.hold_time (counts_until);

create or replace function private.prompt_hold() returns interval
language sql immutable
return interval '5 minutes';

comment on function private.prompt_hold is
  'For how long a prompt holds units: those it takes, and those of an order that would end sooner. A customer enters the PIN within a minute or two.';

create or replace function private.hold_time_of(subject text, product_id uuid) returns interval
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return coalesce((
    select sum(t.held) from private.hold_time as t
    where t.subject = hold_time_of.subject and t.product_id = hold_time_of.product_id and t.counts_until > now()
  ), interval '0');
end
$$;

comment on function private.hold_time_of is 'For how long unpaid orders of a subject held a product within the last hour, planned time included.';

create or replace function private.is_within_hold_time(
  networks text[], product_id uuid, quantity integer, units bigint, span interval, is_prompted boolean
) returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  -- Rounded down, so that parts never add up to more than the whole.
  added interval := date_trunc('milliseconds', span * (is_within_hold_time.quantity / units::double precision));
  settings public.store_settings;
  share double precision;
  whole interval;
begin
  select * into strict settings from public.store_settings;
  share := ceil(units * settings.reserved_share_percent / 100.0) / units;
  whole := make_interval(mins => settings.reservation_minutes);
  return not exists (
    select from (
      -- Wider networks have only twice as much, because units are few; an order without a hold can still be paid.
      select caller.network, whole * share * least(private.allowance_factor(caller.network), 2)
      from unnest(is_within_hold_time.networks) as caller (network)
      union all
      select case when is_prompted then 'prompts' else 'placed' end, case when is_prompted then private.prompt_hold() else whole end * share
    ) as bound (subject, allowed)
    -- One hold is always allowed, such as that of the last unit.
    where private.hold_time_of(bound.subject, is_within_hold_time.product_id) + added > greatest(bound.allowed, added)
  );
end
$$;

comment on function private.is_within_hold_time is
  'Whether units may be held for a time. In any hour each network may hold the share of the units (reserved_share_percent) for reservation_minutes, or fewer units for longer; a /56 and wider twice that. The same holds for all networks together at placing, and with private.prompt_hold at prompts. One hold is always allowed.';

create or replace function private.add_hold_time(counted private.unpaid_holds, span interval) returns void
language sql set search_path = '' as $$
  insert into private.hold_time as known (subject, product_id, counts_until, held)
  select
    counting.subject, counted.product_id,
    date_bin('5 minutes', counted.held_until, timestamptz '2000-01-01') + interval '1 hour 5 minutes',
    date_trunc('milliseconds', span * counted.share_of_units)
  from (
    select k.network as subject from private.order_networks as k where k.order_id = counted.order_id
    union all
    select case when counted.is_prompted then 'prompts' else 'placed' end
  ) as counting
  on conflict (subject, product_id, counts_until) do update set held = known.held + excluded.held;
$$;

comment on function private.add_hold_time is
  'Adds a time, or takes away a negative one, for the networks of a hold and all networks together. The caller has locked the product''s row of private.held_units.';

create or replace function private.begin_counted_hold(
  order_id uuid, product_id uuid, quantity integer, units bigint, held_until timestamptz, is_prompted boolean
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  begun private.unpaid_holds;
begin
  insert into private.unpaid_holds (order_id, product_id, share_of_units, is_prompted, held_until)
  select begin_counted_hold.order_id, begin_counted_hold.product_id, begin_counted_hold.quantity / begin_counted_hold.units::double precision,
    begin_counted_hold.is_prompted, begin_counted_hold.held_until
  -- Orders of staff and of the shop itself are not limited.
  where exists (select from private.order_networks as k where k.order_id = begin_counted_hold.order_id)
  returning * into begun;
  if begun.order_id is not null then
    perform private.add_hold_time(begun, begun.held_until - now());
  end if;
end
$$;

comment on function private.begin_counted_hold is 'Counts the hold of an order until its planned end. units: unsold units of the product, with those held.';

create or replace function private.extend_counted_hold(order_id uuid, held_until timestamptz) returns boolean
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  extended private.unpaid_holds;
  networks text[];
  units bigint;
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
  if not private.is_within_hold_time(
    networks, extended.product_id, (select sum(i.quantity)::integer from public.order_items as i where i.order_id = extended.order_id),
    units, extend_counted_hold.held_until - extended.held_until, extended.is_prompted
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

create or replace function private.end_counted_hold(order_id uuid, is_sold boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  ended private.unpaid_holds;
begin
  delete from private.unpaid_holds as h where h.order_id = end_counted_hold.order_id returning * into ended;
  if found then
    perform private.add_hold_time(
      ended, case when end_counted_hold.is_sold then ended.held_since - ended.held_until else now() - ended.held_until end
    );
  end if;
end
$$;

comment on function private.end_counted_hold is
  'Ends the hold of an order: counts the time that it took. A hold that ended in a sale does not count.';

create or replace function private.open_order(
  tracking_number text, access_key text, phone_digits text, out found_order public.orders, out is_open boolean,
  out is_by_order_number boolean, out refusal jsonb
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  numbers text[];
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  misses integer;
  needs_whole_phone boolean;
  networks text[];
  guesser text;
begin
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  is_by_order_number := false;
  if not found then
    numbers := private.order_numbers_in(open_order.tracking_number);
    select * into found_order from public.orders as o where o.id = private.order_of_reference(open_order.tracking_number);
    is_by_order_number := found and found_order.tracking_number <> all (numbers);
    -- Each spelling of a number counts for the same limits.
    wanted := coalesce(found_order.tracking_number, numbers[1], wanted);
  end if;
  is_open := exists (
    select from private.order_keys as k
    where k.order_id = found_order.id and k.access_key = left(open_order.access_key, 64)
  );
  if is_open then
    return;
  end if;

  if digits is not null then
    -- Guesses are serialised, so that each is counted before the next is compared. Unknown numbers take the same path, so that the
    -- response does not distinguish them.
    perform pg_advisory_xact_lock(hashtext('order_digits ' || wanted));
    -- The widest network contains the others. Always after the order, so that two guesses never wait for each other.
    networks := private.caller_networks();
    perform pg_advisory_xact_lock(hashtext('digits ' || networks[cardinality(networks)]));
    if not private.is_within_limit('order_digits', wanted) then
      refusal := private.refusal_answer('PT429', format(
        'Too many wrong digits for this order. Please try again in %s, or call or WhatsApp us on %s', private.time_left('order_digits'), private.contact_numbers()
      ), 'too_many_guesses', '');
      return;
    end if;
    if not private.is_within_limit('digits') then
      refusal := private.refusal_answer('PT429', format(
        'Too many wrong digits from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('digits'), private.contact_numbers()
      ), 'too_many_guesses', '');
      return;
    end if;
    -- Many networks together could try all 10,000 endings. After 100 misses only the whole number opens the order for networks with a
    -- miss, so that strangers lock out themselves; each other network has one miss, up to 250 in all.
    guesser := coalesce(networks[cardinality(networks)], '') || ' ' || wanted;
    misses := private.hits_so_far('order_digits_of_all', wanted, interval '30 days');
    needs_whole_phone := misses >= 250
      or (misses >= 100 and private.hits_so_far('order_digits_of_network', guesser, interval '30 days') > 0);
    is_open := coalesce(
      private.normalised_phone(digits) = found_order.customer_phone
        or (right(found_order.customer_phone, 4) = digits and not needs_whole_phone),
      false
    );
    if is_open then
      return;
    end if;
    perform private.count_call('order_digits', wanted);
    perform private.count_call('digits');
    if found_order.id is not null and not needs_whole_phone then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
      perform private.count_hit('order_digits_of_network', guesser, interval '30 days');
    end if;
    if needs_whole_phone then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please enter the whole phone number',
        'too_many_guesses', '');
      return;
    end if;
  end if;

  if not private.count_order_lookup(wanted) then
    refusal := private.refuse_lookup();
  end if;
end
$$;

comment on function private.open_order is
  'Finds an order and checks the proof: its access key, the last four digits of its phone, or the whole number. is_open: the proof is valid; that is not counted. is_by_order_number: only its order number was given. refusal: the response when the caller is over a limit.';

create table private.newsletter_mailed (
  mailbox_hash bytea primary key,
  mailed_at timestamptz not null default now()
);

comment on table private.newsletter_mailed is
  'SHA-256 hashes of the mailboxes to which a confirmation was mailed within the last 30 days, so that a stranger''s gets no second one, even after unsubscribing.';

alter table private.newsletter_mailed enable row level security;

create index newsletter_mailed_by_time on private.newsletter_mailed (mailed_at);

create or replace function private.mailbox_hash(email text) returns bytea
language plpgsql immutable set search_path = '' as $$
declare
  domain text := replace(lower(split_part(email, '@', 2)), 'googlemail.com', 'gmail.com');
  mailbox text := split_part(lower(split_part(email, '@', 1)), '+', 1);
begin
  if domain = 'gmail.com' then
    mailbox := replace(mailbox, '.', '');
  end if;
  return sha256(convert_to(mailbox || '@' || domain, 'UTF8'));
end
$$;

comment on function private.mailbox_hash is
  'SHA-256 of the mailbox of an email address: without a tag (name+tag@), and without the dots that Gmail ignores.';

create or replace function public.subscribe_to_newsletter(email text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  address text;
  subscription_id uuid;
begin
  -- Checked for every address, so that a refusal does not reveal which addresses need a mail.
  if not private.count_call('newsletter') then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions from your network. Please try again in %s', private.time_left('newsletter')
    ));
  elsif not private.is_within_limit('newsletter_mails') then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions from your network today. Please try again in %s', private.time_left('newsletter_mails')
    ));
  -- A budget of its own, for all networks together, so that mails of orders never lack what strangers spend here.
  elsif private.hits_so_far('newsletter_mails_of_all', 'all', interval '1 day') >= ceil(private.daily_budget('mail') / 20.0) then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions today. Please try again in %s', private.time_left('newsletter_mails')
    ));
  elsif char_length(subscribe_to_newsletter.email) <= 300 then
    address := trim(subscribe_to_newsletter.email);
  end if;
  if not private.is_email(address) then
    return private.refusal_answer('PT400', 'Please enter a valid email address', 'email_invalid', '');
  end if;
  -- The same result for every address, so that it does not reveal who is subscribed.
  if exists (select from public.newsletter_subscriptions as n where lower(n.email) = lower(address) and n.confirmed_at is not null) then
    return null;
  end if;
  insert into private.newsletter_mailed as known (mailbox_hash) values (private.mailbox_hash(address))
  on conflict (mailbox_hash) do update set mailed_at = now() where known.mailed_at < now() - interval '30 days';
  if not found then
    return null;
  end if;
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
  update public.newsletter_subscriptions as n set confirmation_queued_at = now()
  where lower(n.email) = lower(address)
  returning n.id into subscription_id;
  perform private.count_call('newsletter_mails');
  perform private.count_hit('newsletter_mails_of_all', 'all', interval '1 day');
  perform private.queue_newsletter_confirmation(subscription_id);
  return null;
end
$$;

comment on function public.subscribe_to_newsletter is
  'Mails a confirmation link to the address, at most once in 30 days. All together cause at most a twentieth of the day''s mails. Returns null for every address, so that the result does not reveal who is subscribed.';

-- Execution rights
grant execute on function public.subscribe_to_newsletter, public.confirm_newsletter, public.unsubscribe_from_newsletter
  to anon, authenticated, service_role;

create or replace function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  message public.outbox_messages;
  final_status text;
  reason text;
  attempt integer;
begin
  select * into message from public.outbox_messages as m where m.id = begin_message.message_id for update;
  delete from private.outbox_queue as q where q.message_id = begin_message.message_id and q.lease = begin_message.lease;
  if not found or message.status <> 'waiting' then
    return null;
  end if;
  if (message.order_id is not null and not private.is_message_true(message.order_id, message.kind))
    or not private.is_staff_message_true(message.kind, message.event_key)
  then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := 'Given up after a day: ' || coalesce(message.problem, 'nothing could be sent in that time');
  elsif not exists (
    select from public.message_templates as t where t.kind = message.kind and t.channel = message.channel and t.is_on
  ) then
    final_status := 'failed';
    reason := 'Messages of this kind are switched off';
  else
    -- Newsletter confirmations have a budget of their own (subscribe_to_newsletter).
    reason := private.take_from_budget(message.channel, message.has_priority or message.kind = 'newsletter_confirmation');
    final_status := case when reason is not null then 'over_budget' end;
  end if;
  if final_status is not null then
    update public.outbox_messages as m
    set status = final_status, next_attempt_at = null, problem = reason, updated_at = now()
    where m.id = message.id;
    return null;
  end if;
  update public.outbox_messages as m
  set status = 'sending', attempts = m.attempts + 1, sending_since = now(), next_attempt_at = null,
      subject = begin_message.subject, body = begin_message.body, updated_at = now()
  where m.id = message.id
  returning m.attempts into attempt;
  return attempt;
end
$$;

comment on function public.begin_message is
  'Marks a leased message as being sent, stores its text and counts it in today''s budget. Returns the number of the attempt; only then may it be sent. Null: another process has it, a day has passed, its template is off, the budget is used up, or it no longer matches the order; then it is deleted.';

create or replace function private.sent_without_priority(channel text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*) from public.outbox_messages as m
    where m.channel = sent_without_priority.channel and not m.has_priority and m.kind <> 'newsletter_confirmation'
      and m.sending_since >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
      and m.status in ('sending', 'sent', 'unsure')
  );
end
$$;

comment on function private.sent_without_priority is
  'Messages of a channel sent today about orders that visitors placed without paying. Those of an order stop counting when it is paid.';

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  old_messages uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and m.status not in ('waiting', 'sending')
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.network_paid_orders as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
  delete from private.hold_time as t where t.counts_until < now();
  delete from private.newsletter_mailed as m where m.mailed_at < now() - interval '30 days';
  perform private.anonymise_messages(old_messages);
  perform private.clear_old_payment_messages();
  perform private.anonymise_old_orders();
  perform private.reduce_abandoned_orders();
  delete from public.inquiries as i
  where i.id in (
    select old.id from public.inquiries as old
    where old.created_at < now() - make_interval(months => (select s.inquiries_months from public.store_settings as s))
    order by old.created_at limit 5000
    for update skip locked
  );
  delete from public.newsletter_subscriptions as n
  where n.id in (
    select old.id from public.newsletter_subscriptions as old
    where old.confirmed_at is null and coalesce(old.confirmation_queued_at, old.created_at) < now() - interval '7 days'
    order by old.created_at limit 5000
    for update skip locked
  );
  return cardinality(old_messages);
end
$$;

comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

grant execute on function public.forget_old_rows to service_role;

update private.limits as l set allowed = 5 where l.name = 'newsletter_mails';

insert into private.newsletter_mailed (mailbox_hash, mailed_at)
select private.mailbox_hash(n.email), max(n.confirmation_queued_at)
from public.newsletter_subscriptions as n
where n.confirmation_queued_at is not null
group by 1;
