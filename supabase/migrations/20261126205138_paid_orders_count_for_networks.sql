-- Limits of networks grow with their paid orders, and messages withheld from an unpaid order leave when it is paid.

alter table private.limits add column per_paid_order numeric not null default 0;

comment on column private.limits.per_paid_order is
  'Further calls for each order of the network that was paid in the same window, so that a limit fits the thousands of customers behind one address of a mobile network.';

alter table private.order_networks add column phone text;

comment on column private.order_networks.phone is 'The customer''s phone. Null for orders placed before it was stored.';

comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget: its order was paid, or staff caused or sent it. Messages that visitors cause without paying may use half of it.';

comment on column public.store_settings.unpaid_orders_per_phone is
  'Maximum unpaid orders of one phone in one network (of all phones: waiting_orders in private.limits). Wider networks: private.allowance_factor.';

drop function public.message_budgets();

drop function private.refuse_too_many_unpaid_orders(text[],text,integer);

drop function private.return_to_budget(text,boolean,timestamp with time zone);

drop index private.order_networks_of_open_orders;

revoke all on public.outbox_messages from anon, authenticated;

alter table private.limits add constraint "a paid order takes no calls away" CHECK ((per_paid_order >= (0)::numeric));

create unlogged table private.network_paid_orders (
  id bigint generated always as identity primary key,
  network text not null,
  within interval not null,
  window_start timestamptz not null,
  window_end timestamptz not null,
  orders integer not null
);

comment on table private.network_paid_orders is
  'Paid orders counted per network and window of a limit, in as many rows as transactions counted at once: each takes a row that no other has locked.';

alter table private.network_paid_orders enable row level security;

create index network_paid_orders_by_window on private.network_paid_orders (network, within, window_start);

create index network_paid_orders_by_window_end on private.network_paid_orders (window_end);

create or replace function private.count_paid_order(networks text[]) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  counted record;
begin
  for counted in
    select payer.network, span.within, date_bin(span.within, clock_timestamp(), timestamptz '2000-01-01') as window_start
    from unnest(networks) as payer (network)
    cross join (select distinct l.within from private.limits as l where l.per_paid_order > 0) as span
  loop
    -- Never waits for another transaction: a settlement may have locked products already.
    update private.network_paid_orders as known
    set orders = known.orders + 1
    where known.id = (
      select free.id from private.network_paid_orders as free
      where free.network = counted.network and free.within = counted.within and free.window_start = counted.window_start
      limit 1
      for update skip locked
    );
    if not found then
      insert into private.network_paid_orders (network, within, window_start, window_end, orders)
      values (counted.network, counted.within, counted.window_start, counted.window_start + counted.within, 1);
    end if;
  end loop;
end
$$;

comment on function private.count_paid_order is
  'Counts an order that was paid for the networks of its customer, in the current window of each limit that grows with paid orders.';

create or replace function private.allowance(rule private.limits, network text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return rule.allowed * private.allowance_factor(allowance.network) + floor(rule.per_paid_order * coalesce((
    select sum(known.orders) from private.network_paid_orders as known
    where known.network = allowance.network and known.within = rule.within
      and known.window_start = date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0));
end
$$;

comment on function private.allowance is
  'Calls that a limit allows a network in the current window: its share, and per_paid_order for each of its paid orders.';

create or replace function private.is_within(rule private.limits, network text, hits bigint) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- Paid orders are counted only where the share is used up.
  return hits <= rule.allowed * private.allowance_factor(is_within.network)
    or (rule.per_paid_order > 0 and hits <= private.allowance(rule, is_within.network));
end
$$;

comment on function private.is_within is 'Whether a network may make this many calls in the current window of a limit.';

create or replace function private.is_within_limit(rule private.limits, networks text[], subject text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where not private.is_within(
      rule, caller.network, private.hits_so_far(rule.name, rtrim(caller.network || ' ' || is_within_limit.subject), rule.within) + 1
    )
  );
end
$$;

create or replace function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return private.is_within_limit(rule, private.caller_networks(), is_within_limit.subject);
end
$$;

comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';

create or replace function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  rule private.limits;
  networks text[] := private.caller_networks();
  started timestamptz;
  is_within boolean;
begin
  select * into strict rule from private.limits as l where l.name = count_call.limit_name;
  -- A call over the limit writes nothing, so that one address cannot use up the allowance of its wider networks.
  if not private.is_within_limit(rule, networks, count_call.subject) then
    return false;
  end if;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, rtrim(caller.network || ' ' || count_call.subject), started, started + rule.within, 1
    from unnest(networks) with ordinality as caller (network, level)
    -- Concurrent calls lock their common counters in the same order.
    order by caller.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, hits
  )
  select coalesce(bool_and(private.is_within(rule, split_part(c.subject, ' ', 1), c.hits)), true) into is_within
  from counted as c;
  return is_within;
end
$$;

comment on function private.count_call is
  'Counts one call in this limit, and subject if given, for each network of the caller. Returns whether all are within their allowance. Bound the subject''s length first. True without an IP address.';

create or replace function private.readable_phone(phone text) returns text
language sql immutable
return regexp_replace(phone, '^\+254(\d{3})(\d{3})(\d{3})$', '0\1 \2 \3');

comment on function private.readable_phone is 'A Kenyan number in groups, as 0712 345 678; others unchanged, as formatPhone of domain/phone.ts.';

create or replace function private.contact_numbers() returns text
language sql stable set search_path = '' as $$
  select private.readable_phone(s.support_phone) || case
    when s.chat_phone <> s.support_phone then ' (WhatsApp ' || private.readable_phone(s.chat_phone) || ')'
    else ''
  end
  from public.store_settings as s;
$$;

comment on function private.contact_numbers is
  'Where customers call the shop or write on WhatsApp: 0712 345 678, with a number for WhatsApp where it is another.';

create or replace function private.time_left(limit_name text) returns text
language plpgsql stable set search_path = '' as $$
declare
  rule private.limits;
  minutes integer;
begin
  select * into strict rule from private.limits as l where l.name = time_left.limit_name;
  minutes := ceil(extract(epoch from
    date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01') + rule.within - clock_timestamp()
  ) / 60);
  return case
    when minutes <= 1 then 'a minute'
    when minutes < 120 then minutes || ' minutes'
    else ceil(minutes / 60.0) || ' hours'
  end;
end
$$;

comment on function private.time_left is 'The time until the current window of a limit ends, such as 7 minutes or 5 hours.';

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
  total := private.total_of_offer(product, place_order.quantity, settings.delivery_fee, place_order.expected_total);
  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
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
    perform private.total_of_offer(product, place_order.quantity, settings.delivery_fee, place_order.expected_total);
    exit when not is_held or private.may_hold_units(
      networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
    );
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
  insert into private.order_networks (order_id, network, product_id, taken, phone)
  select new_order.id, caller.network, product.id, case when is_held then place_order.quantity else 0 end, customer.phone
  from unnest(networks) as caller (network);
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

create index order_networks_of_open_orders on private.order_networks (network, phone) where is_open;

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  paid_networks text[];
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

create or replace function private.refuse_too_many_unpaid_orders(networks text[], phone text, settings public.store_settings) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  rule private.limits;
  caller_network text;
  most integer;
begin
  select * into strict rule from private.limits as l where l.name = 'waiting_orders';
  foreach caller_network in array networks loop
    -- Only orders of the same network count, so that a stranger's orders with this phone do not block the customer.
    most := settings.unpaid_orders_per_phone * private.allowance_factor(caller_network);
    if (
      select count(*) from (
        select from private.order_networks as k
        where k.network = caller_network and k.is_open and k.phone = refuse_too_many_unpaid_orders.phone
        limit most
      ) as of_phone
    ) >= most then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in %s minutes',
        most, settings.reservation_minutes
      ));
    end if;
    most := private.allowance(rule, caller_network);
    if (
      select count(*) from (
        select from private.order_networks as k where k.network = caller_network and k.is_open limit most
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

create or replace function private.count_order_lookup(tracking_number text) returns boolean
language plpgsql set search_path = '' as $$
declare
  number_of_caller text := (private.caller_networks())[1] || ' ' || count_order_lookup.tracking_number;
begin
  if not private.count_call('order_lookups') then
    return false;
  end if;
  -- The same number counts once a day, so that an open page is not limited.
  if number_of_caller is null or private.hits_so_far('order_looked_up', number_of_caller, interval '1 day') > 0 then
    return true;
  end if;
  if not private.count_call('orders_looked_up') then
    return false;
  end if;
  perform private.count_hit('order_looked_up', number_of_caller, interval '1 day');
  return true;
end
$$;

comment on function private.count_order_lookup is
  'Counts a lookup without proof, and returns whether it is allowed: per network a number in 10 minutes (order_lookups), and of different numbers a day (orders_looked_up).';

create or replace function private.refuse_lookup() returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  return private.refusal_answer('PT429', format(
    'Too many look-ups. Please try again in %s, or call or WhatsApp us on %s',
    private.time_left(case when private.is_within_limit('order_lookups') then 'orders_looked_up' else 'order_lookups' end),
    private.contact_numbers()
  ), 'too_many_lookups', '');
end
$$;

comment on function private.refuse_lookup is 'The response to a lookup without proof above a limit.';

create or replace function private.open_order(
  tracking_number text, access_key text, phone_digits text, out found_order public.orders, out is_open boolean,
  out refusal jsonb
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  needs_whole_phone boolean;
  networks text[];
begin
  select * into found_order from public.orders as o where o.tracking_number = wanted;
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
    -- Many networks together could try all 10,000 endings. After 200 misses only the whole number opens the order.
    needs_whole_phone := private.hits_so_far('order_digits_of_all', wanted, interval '30 days') >= 200;
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
    if found_order.id is not null then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
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
  'Finds an order and checks the proof: its access key, the last four digits of its phone, or the whole number. is_open: the proof is valid; that is not counted. refusal: the response when the caller is over a limit.';

create or replace function public.orders_by_access_key(access_keys text[]) returns jsonb
language plpgsql volatile security definer
set search_path = ''
-- Without statistics the embedded database would scan all keys.
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  answer jsonb;
begin
  select jsonb_agg(private.order_facts(o, true) order by o.created_at desc) into answer
  from (select distinct left(requested.access_key, 64) as access_key from unnest(access_keys[1:20]) as requested (access_key)) as known
  join private.order_keys as k on k.access_key = known.access_key
  join public.orders as o on o.id = k.order_id;
  -- Valid keys are not counted, as in track_order.
  if answer is null and not private.count_call('order_lookups') then
    return private.refuse_lookup();
  end if;
  return coalesce(answer, '[]'::jsonb);
end
$$;

comment on function public.orders_by_access_key is
  'State of the orders with these access keys, at most 20, newest first, without personal data. Calls without a valid key count as order lookups.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.has_paid(payer text) returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (
    select from public.payments as p where p.phone = has_paid.payer and p.status = 'completed' and p.purpose = 'order'
  );
end
$$;

comment on function private.has_paid is 'Whether an order was paid from this phone before.';

create or replace function private.may_prompt_from_network(payer text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Customers who paid before are served even while a stranger uses up the limit of their common network.
  return private.count_call('payment_prompts') or private.has_paid(may_prompt_from_network.payer);
end
$$;

comment on function private.may_prompt_from_network is
  'Counts a prompt for the caller''s networks. Whether it may be sent: within the limit payment_prompts, or to a phone that paid before.';

create or replace function private.may_prompt_new_phone(payer text) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  phone_of_caller text := (private.caller_networks())[1] || ' ' || may_prompt_new_phone.payer;
begin
  if phone_of_caller is null or private.hits_so_far('phone_prompted', phone_of_caller, interval '1 day') > 0
    or private.has_paid(may_prompt_new_phone.payer)
  then
    return true;
  elsif not private.count_call('prompted_phones') then
    return false;
  end if;
  perform private.count_hit('phone_prompted', phone_of_caller, interval '1 day');
  return true;
end
$$;

comment on function private.may_prompt_new_phone is
  'Whether the caller''s networks may prompt this phone: one that paid before, that was prompted today, or one more within the limit prompted_phones.';

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
  ordered public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into ordered from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      ordered.payment_status in ('paid', 'refunded')
      or (ordered.payment_status = 'needs_review' and p.charge_cents = ordered.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (ordered.total_amount, ordered.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- Without limits, one order could send prompts to many phones.
  if not private.may_prompt_from_network(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payments from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts'), private.contact_numbers()
    ), 'too_many_payments', '');
  end if;
  if not private.may_prompt_new_phone(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payment prompts to new phones from your network today. Please try again in %s, or call or WhatsApp us on %s', private.time_left('prompted_phones'), private.contact_numbers()
    ), 'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', ordered.id::text) then
    return private.refusal_answer('PT429', format(
      'Too many payment attempts for this order. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts_of_order'), private.contact_numbers()
    ), 'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', format(
      'Too many payment prompts to this phone. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts_to_phone'), private.contact_numbers()
    ), 'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, ordered) then
    return private.refusal_answer('PT429', format(
      'This phone had many unpaid payment prompts today. Please pay from another phone, or call or WhatsApp us on %s',
      private.contact_numbers()
    ), 'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (ordered.id, payer, ordered.charge_cents, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(ordered.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', ordered.tracking_number
  );
end
$$;

comment on function public.begin_payment is
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new.';

create or replace function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- Clients have M-PESA's id, or only ours when the response with M-PESA's was lost.
  select to_jsonb(p) || case
    -- Money that is being refunded has not paid the order: staff contact the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  -- M-PESA's ids contain the time and the phone, so they can be guessed. Limits apply to wrong guesses only.
  if found_payment is null and not private.count_call('unknown_payments') then
    return private.refusal_answer('PT429', format(
      'Too many unknown payments. Please try again in %s, or call or WhatsApp us on %s', private.time_left('unknown_payments'), private.contact_numbers()
    ), 'too_many_lookups', '');
  end if;
  return found_payment;
end
$$;

comment on function public.find_payment is
  'An attempt by M-PESA''s checkout request id or its own id, for clients that poll its status. Null: none. Only unknown references count for the caller''s networks, and only they are refused.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function private.before_inquiry_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request bounds the checks of an insert.
    if current_setting('private.has_inquiry', true) = 'yes' then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform set_config('private.has_inquiry', 'yes', true);
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', format(
        'Too many messages from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('inquiries'), private.contact_numbers()
      ));
    elsif not private.count_call('inquiries_of_day') then
      perform private.refuse(429, 'too_many_inquiries', format(
        'Too many messages from your network today. Please try again in %s, or call or WhatsApp us on %s', private.time_left('inquiries_of_day'), private.contact_numbers()
      ));
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  return new;
end
$$;

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
  elsif char_length(subscribe_to_newsletter.email) <= 300 then
    address := trim(subscribe_to_newsletter.email);
  end if;
  if not private.is_email(address) then
    return private.refusal_answer('PT400', 'Please enter a valid email address', 'email_invalid', '');
  end if;
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
  -- At most one mail a day and address.
  update public.newsletter_subscriptions as n
  set confirmation_queued_at = now()
  where lower(n.email) = lower(address) and n.confirmed_at is null
    and (n.confirmation_queued_at is null or n.confirmation_queued_at < now() - interval '1 day')
  returning n.id into subscription_id;
  if found then
    perform private.count_call('newsletter_mails');
    perform private.queue_newsletter_confirmation(subscription_id);
  end if;
  -- The same result for every address, so that it does not reveal who is subscribed.
  return null;
end
$$;

comment on function public.subscribe_to_newsletter is
  'Mails a confirmation link to the address, at most once a day. Returns null for every address, so that the result does not reveal who is subscribed.';

-- Execution rights
grant execute on function public.subscribe_to_newsletter, public.confirm_newsletter, public.unsubscribe_from_newsletter
  to anon, authenticated, service_role;

comment on table public.outbox_messages is
  'Messages to customers. sending: being handed over. unsure: may have been sent, so only staff send it again. over_budget: withheld by a limit or daily budget (problem says which) until the order is paid or staff send it. subject and body: of the last attempt.';

comment on column public.outbox_messages.order_id is 'Null for newsletter mails.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, or the id of the refund; of newsletter mails the subscription''s id.';

comment on column public.outbox_messages.recipient is 'Email address, or phone as +254….';

comment on column public.outbox_messages.gateway_reference is 'Id from the text message gateway.';

comment on column public.outbox_messages.resent_by is 'Email address of the staff member who sent it again.';

comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget: its order was paid, or staff caused or sent it. Messages that visitors cause without paying may use half of it.';

alter table public.outbox_messages enable row level security;

grant select on public.outbox_messages to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.outbox_messages to anon;

-- Messages that visitors caused without paying: of one recipient, and sent today.
create index outbox_messages_unpaid_of_recipient on public.outbox_messages (lower(recipient), kind, created_at)
  where not has_priority;

create index outbox_messages_unpaid_by_time_of_sending on public.outbox_messages (channel, sending_since) where not has_priority;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  -- Staff can correct a manual payment for as long as they can undo a status change.
  due_at timestamptz := now() + case
    when current_setting('private.is_typed_by_staff', true) = 'yes' then private.undo_window() else interval '0'
  end;
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id, due_at);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', due_at => due_at);
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', due_at => due_at);
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_window());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      -- Only expire_reservations empties expires_at.
      if new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null then
        -- Not without a prompt, nor when the link was withheld: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) and not exists (
          select from public.outbox_messages as m
          where m.order_id = new.id and m.kind = 'order_received' and m.channel = 'mail' and m.status = 'over_budget'
        ) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
    if new.status = 'cancelled' then
      delete from public.outbox_messages as m
      where m.order_id = new.id and m.status = 'over_budget' and not private.is_message_true(m.order_id, m.kind);
    end if;
  end if;
end
$$;

create or replace function private.release_messages(order_id uuid, due_at timestamptz) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  with released as (
    update public.outbox_messages as m
    set has_priority = true,
        status = case when m.status = 'over_budget' then 'waiting' else m.status end,
        next_attempt_at = case when m.status = 'over_budget' then release_messages.due_at else m.next_attempt_at end,
        give_up_at = case when m.status = 'over_budget' then now() + interval '1 day' else m.give_up_at end,
        problem = case when m.status <> 'over_budget' then m.problem end,
        updated_at = now()
    where m.order_id = release_messages.order_id and not m.has_priority and m.recipient <> ''
    returning m.id, m.channel, m.status, m.next_attempt_at
  )
  insert into private.outbox_queue (message_id, channel, due_at)
  select r.id, r.channel, r.next_attempt_at from released as r where r.status = 'waiting'
  on conflict do nothing;
exception when others then
  -- The payment is settled all the same.
  raise warning 'the messages of order % could not be released: %', release_messages.order_id, sqlerrm;
end
$$;

comment on function private.release_messages is
  'Money for an order arrived: its messages no longer count as those of visitors who have not paid, and what was withheld is sent at due_at, if it is still true (begin_message). Never fails.';

create or replace function private.reason_to_withhold(kind text, channel text, recipient text) returns text
language plpgsql volatile set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  -- Concurrent prompts count one after the other. Orders end one after the other anyway, in transactions that hold locks of products,
  -- for which a prompt waits.
  if reason_to_withhold.kind = 'order_received' then
    perform pg_advisory_xact_lock(hashtextextended('messages to ' || lower(reason_to_withhold.recipient), 0));
  end if;
  -- The recipient first, so that a message withheld for it does not use up the network's limit.
  return case
    when 5 <= (
      select count(*) from (
        select from public.outbox_messages as m
        where lower(m.recipient) = lower(reason_to_withhold.recipient) and m.kind = reason_to_withhold.kind
          and not m.has_priority and m.created_at > now() - interval '1 day' and m.status <> 'over_budget'
        limit 5
      ) as of_recipient
    ) then 'Not sent: too many unpaid orders for this recipient today'
    -- Orders are ended by the shop and staff, whose networks are not limited.
    when reason_to_withhold.kind = 'order_received'
      and not private.count_call(case reason_to_withhold.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
      then 'Not sent: too many unpaid orders from one network today'
  end;
end
$$;

comment on function private.reason_to_withhold is
  'Why a message of an unpaid order is withheld. Null: it may be sent. A recipient gets five of a kind a day, for all unpaid orders together; of the links (order_received) a network causes its limit, which grows with its paid orders.';

create or replace function private.add_to_outbox(
  ordered public.orders, kind text, event_key text, channel text, recipient text, due_at timestamptz
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Other messages follow a payment, or a change by staff.
  has_priority boolean := ordered.payment_status <> 'unpaid'
    or add_to_outbox.kind not in ('order_received', 'order_expired', 'order_cancelled');
  problem text;
  added uuid;
begin
  -- Further prompts for an order are not limited: the message exists already.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.event_key = add_to_outbox.event_key and m.channel = add_to_outbox.channel;
  if found then
    -- Changed again before it was sent: the undo window starts again.
    if add_to_outbox.due_at > now() then
      update public.outbox_messages as m set next_attempt_at = add_to_outbox.due_at
      where m.id = added and m.status = 'waiting' and m.attempts = 0;
      if found then
        update private.outbox_queue as q set due_at = add_to_outbox.due_at, lease = null where q.message_id = added;
      end if;
    end if;
    return;
  end if;
  if not has_priority then
    problem := private.reason_to_withhold(add_to_outbox.kind, add_to_outbox.channel, add_to_outbox.recipient);
  end if;
  insert into public.outbox_messages (
    order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.event_key, add_to_outbox.channel, add_to_outbox.recipient,
    ordered.order_number, ordered.tracking_number, ordered.customer_name,
    has_priority,
    case when problem is null then 'waiting' else 'over_budget' end,
    case when problem is null then add_to_outbox.due_at end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, add_to_outbox.due_at);
  end if;
end
$$;

comment on function private.add_to_outbox is
  'Adds a message of an order to the outbox, once per order, kind, event_key and channel; it is sent at due_at. Messages of unpaid orders are withheld (over_budget) above the limits of private.reason_to_withhold.';

create or replace function public.finish_message(
  message_id uuid, attempt integer, outcome text, problem text default null, gateway_reference text default null
) returns text
language plpgsql security definer set search_path = '' as $$
declare
  sent public.outbox_messages;
  next_at timestamptz;
begin
  if finish_message.outcome not in ('sent', 'refused', 'failed', 'unsure') then
    perform private.refuse(400, 'outcome_unknown', 'A message is sent, refused, failed or unsure');
  end if;
  -- A slow process may still report its outcome, unless another attempt has followed.
  select * into sent from public.outbox_messages as m
  where m.id = finish_message.message_id and m.attempts = finish_message.attempt
    and (m.status in ('sending', 'unsure') or (m.status = 'waiting' and finish_message.outcome = 'sent'))
  for update;
  if not found then
    return null;
  end if;
  delete from private.outbox_queue as q where q.message_id = sent.id;
  if finish_message.outcome in ('refused', 'failed') then
    perform private.return_to_budget(sent.channel, sent.sending_since);
  end if;
  if finish_message.outcome = 'refused' then
    next_at := now() + least(interval '30 seconds' * power(2, least(sent.attempts - 1, 10)), interval '2 hours');
    if next_at <= sent.give_up_at then
      insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, next_at) on conflict do nothing;
    else
      next_at := null;
    end if;
  end if;
  update public.outbox_messages as m
  set status = case
        when finish_message.outcome <> 'refused' then finish_message.outcome
        when next_at is null then 'failed'
        else 'waiting'
      end,
      next_attempt_at = next_at,
      problem = case
        when finish_message.outcome = 'sent' then null
        when finish_message.outcome = 'refused' and next_at is null
          then 'Given up after a day: ' || coalesce(finish_message.problem, 'refused without a reason')
        else finish_message.problem
      end,
      gateway_reference = coalesce(finish_message.gateway_reference, m.gateway_reference),
      sent_at = case when finish_message.outcome = 'sent' then now() end, updated_at = now()
  where m.id = sent.id
  returning * into sent;
  return sent.status;
end
$$;

comment on function public.finish_message is
  'Records the outcome of an attempt: sent; refused, to be retried with growing delays for a day; failed; or unsure. Refused and failed messages are returned to the budget. Returns the message''s status, or null if a later attempt has begun.';

create or replace function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff();
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message is waiting already, or was sent in the meantime');
  end if;
  if private.left_of_budget(again.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;

comment on function public.send_message_again is
  'For staff: sends a failed, unsure or over-budget message again, for another day and with the whole daily budget.';

create or replace function public.send_withheld_messages(channel text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  sent integer;
  withheld bigint;
begin
  perform private.expect_staff();
  with chosen as (
    select m.id
    from (values ('mail'), ('text')) as way (channel)
    cross join lateral (
      select m.id from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at, m.id
      -- Further ones stay withheld, so that they do not fail one by one.
      limit least(private.left_of_budget(way.channel), 1000)
      for update
    ) as m
    where send_withheld_messages.channel is null or way.channel = send_withheld_messages.channel
  ), released as (
    update public.outbox_messages as m
    set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
        has_priority = true, resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'), updated_at = now()
    from chosen
    where m.id = chosen.id and m.status = 'over_budget'
    returning m.id, m.channel
  ), queued as (
    insert into private.outbox_queue (message_id, channel, due_at) select r.id, r.channel, now() from released as r
    on conflict do nothing
    returning 1
  )
  select count(*) into sent from queued;
  withheld := coalesce(private.withheld_messages(send_withheld_messages.channel), 0);
  if sent = 0 and withheld > 0 then
    perform private.refuse(409, 'message_budget_used_up',
      'Today''s budget is used up. Raise it under Settings, or send these tomorrow');
  end if;
  return jsonb_build_object('sent', sent, 'withheld', withheld);
end
$$;

comment on function public.send_withheld_messages is
  'For staff: sends the withheld messages of the last week, of one channel or both, the oldest first, as far as today''s budgets allow and at most 1,000 per channel. Returns sent, their number, and withheld, the number of those that stay.';

create or replace function private.withheld_since() returns timestamptz
language sql stable
return now() - interval '7 days';

comment on function private.withheld_since is 'Messages withheld before this time are too old to be sent and counted.';

create or replace function private.withheld_messages(channel text) returns bigint
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*) from public.outbox_messages as m
    where m.status = 'over_budget' and m.recipient <> '' and m.created_at > private.withheld_since()
      and (withheld_messages.channel is null or m.channel = withheld_messages.channel)
  );
end
$$;

comment on function private.withheld_messages is 'Withheld messages of the last week that can still be sent, of one channel or (null) both.';

create or replace function private.left_of_budget(channel text) returns integer
language sql stable set search_path = '' as $$
  select greatest(0, private.daily_budget(left_of_budget.channel) - coalesce((
    select s.total from private.messages_sent as s
    where s.day = private.nairobi_day(now()) and s.channel = left_of_budget.channel
  ), 0));
$$;

comment on function private.left_of_budget is 'Messages of a channel that today''s budget still allows.';

create or replace function private.sent_without_priority(channel text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*) from public.outbox_messages as m
    where m.channel = sent_without_priority.channel and not m.has_priority
      and m.sending_since >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
      and m.status in ('sending', 'sent', 'unsure')
  );
end
$$;

comment on function private.sent_without_priority is
  'Messages of a channel sent today that visitors caused without paying. Those of an order stop counting when it is paid.';

create or replace function private.take_from_budget(channel text, has_priority boolean) returns text
language plpgsql set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  budget integer := private.daily_budget(take_from_budget.channel);
  used integer;
begin
  insert into private.messages_sent (day, channel) values (today, take_from_budget.channel) on conflict do nothing;
  -- Until the end of the transaction no other message of this channel is counted.
  select m.total into used from private.messages_sent as m
  where m.day = today and m.channel = take_from_budget.channel for update;
  if used >= budget then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  elsif not take_from_budget.has_priority and private.sent_without_priority(take_from_budget.channel) >= budget / 2 then
    return format('Not sent: the half of today''s budget of %ss for visitors who have not paid is used up', take_from_budget.channel);
  end if;
  update private.messages_sent as counted
  set total = counted.total + 1
  where counted.day = today and counted.channel = take_from_budget.channel;
  return null;
end
$$;

comment on function private.take_from_budget is
  'Counts a message in today''s budget. Null: it may be sent; else the reason why not. Half of the budget is reserved for messages with priority.';

create or replace function private.return_to_budget(channel text, taken_at timestamptz) returns void
language sql set search_path = '' as $$
  update private.messages_sent as counted
  set total = counted.total - 1
  where counted.day = private.nairobi_day(return_to_budget.taken_at) and counted.channel = return_to_budget.channel
    and counted.total > 0;
$$;

create or replace function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint, reason text
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
begin
  perform private.expect_staff();
  return query
  select way.channel, coalesce(s.total, 0), private.sent_without_priority(way.channel), private.daily_budget(way.channel),
    private.withheld_messages(way.channel), (
      select m.problem from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at desc limit 1
    )
  from (values ('text'), ('mail')) as way (channel)
  left join private.messages_sent as s on s.day = today and s.channel = way.channel;
end
$$;

comment on function public.message_budgets is
  'For staff: per channel the messages sent today, those caused by visitors who have not paid, the daily budget, the withheld messages of the last week that can still be sent, and why the newest is withheld.';

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    -- Its link asks for a payment.
    when 'order_received' then o.status <> 'cancelled'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then o.payment_status in ('paid', 'refunded')
    when 'order_payment_held' then o.payment_status = 'needs_review'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

-- Execution rights
grant execute on function public.send_message_again, public.send_withheld_messages, public.message_budgets to authenticated, service_role;

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

-- Metrics for monitoring (docs/monitoring.md)

create or replace function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and p.status in ('initiating', 'processing')
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status in ('initiating', 'processing')
  union all
  select 'payments_completed_last_day', null, count(*)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed' and p.completed_at > now() - interval '1 day'
  union all
  select 'payment_last_completed_timestamp_seconds', null, coalesce(extract(epoch from max(p.completed_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed'
  union all
  select 'transactions_without_payment', null, count(*)
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  ) + (select count(*) from public.payment_messages as m where m.outcome = 'error')
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    select m.received_at from public.payment_messages as m where m.source = known.source order by m.id desc limit 1
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause as pause where pause.until > now()
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and r.status not in ('completed', 'failed', 'withdrawn')
  )
  from unnest(array['requested', 'approved', 'sending', 'sent', 'unknown']) as known (status)
  union all
  select 'outbox_waiting', known.channel, (select count(*) from private.outbox_queue as q where q.channel = known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_oldest_due_seconds', known.channel, greatest(0, coalesce(extract(epoch from now() - (
    select min(q.due_at) from private.outbox_queue as q where q.channel = known.channel
  )), 0))
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_failed_last_day', known.status, (
    select count(*) from public.outbox_messages as m
    where m.status = known.status and m.created_at > now() - interval '1 day'
  )
  from unnest(array['failed', 'unsure', 'over_budget']) as known (status)
  union all
  select 'messages_withheld', known.channel, private.withheld_messages(known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;

comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

alter table private.messages_sent drop column without_priority;

-- Rows

-- Each order that is paid adds to what the network of its customer may do in the same window (docs/decisions/limits.md).
update private.limits as l
set per_paid_order = grown.per_paid_order
from (values
  ('place_order', 2),
  ('payment_prompts', 2),
  ('unpaid_order_texts', 1.5),
  ('unpaid_order_mails', 1.5),
  ('order_lookups', 1),
  ('orders_looked_up', 1),
  ('inquiries_of_day', 0.1),
  ('newsletter_mails', 0.05)
) as grown (name, per_paid_order)
where l.name = grown.name;

insert into private.limits (name, allowed, within, per_paid_order) values
  ('waiting_orders', 150, '1 day', 0.1),
  ('prompted_phones', 300, '1 day', 2);

-- Links of orders that were paid no longer count as those of visitors who have not paid.
update public.outbox_messages as m
set has_priority = true
where not m.has_priority and m.created_at > now() - interval '7 days' and exists (
  select from public.orders as o where o.id = m.order_id and o.payment_status <> 'unpaid'
);

update private.order_networks as k
set phone = (select o.customer_phone from public.orders as o where o.id = k.order_id)
where k.phone is null;
