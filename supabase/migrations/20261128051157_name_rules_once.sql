-- Earlier versions keep working: functions of other names compute what they did, and a cancelled order says why.

alter table public.orders add column cancel_reason text;

update public.orders as o
set cancel_reason = case
  when e.details ->> 'reason' = 'not_paid_in_time' then 'not_paid_in_time'
  when o.payment_status = 'refunded' then 'refunded'
  when e.actor = 'staff' then 'by_shop'
end
from (
  select distinct on (order_id) order_id, actor, details from public.order_events
  where kind = 'status_changed' and details ->> 'to' = 'cancelled'
  order by order_id, id desc
) as e
where o.status = 'cancelled' and e.order_id = o.id;

comment on column public.orders.cancel_reason is
  'Why an order is cancelled: its time for payment ended, its money was sent back before it left the shop, or the shop decided so. Null for other statuses, and where nobody said why.';

drop function private.add_second_payment(payments,private.payment_report);

drop function private.has_left_shop(orders);

drop function private.mark_attempt_completed(uuid,private.payment_report,boolean);

drop function private.release_messages(uuid,timestamp with time zone);

alter table public.orders add constraint "a reason for cancelling is known" CHECK ((cancel_reason = ANY (ARRAY['not_paid_in_time'::text, 'refunded'::text, 'by_shop'::text])));

alter table public.orders add constraint "only a cancelled order has a reason for it" CHECK (((status = 'cancelled'::text) OR (cancel_reason IS NULL)));

create or replace function private.without_accents(written text) returns text
language sql immutable
return translate(lower(written), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu');

comment on function private.without_accents is
  'A text as staff lists are searched: small letters without accents and apostrophes. The indexes by words repeat the expression: an index of a function would keep what an earlier version of it returned.';

create or replace function private.back_off(first interval, tries integer, longest interval) returns interval
language sql immutable
return least(first * power(2, least(tries, 10)), longest);

comment on function private.back_off is 'The wait after a number of tries (from 0): it doubles with each, up to the longest.';

-- A trigger has no parameters. What only the writer of a row knows and the triggers of the row need, such as that a change is undone, the
-- writer states before its statement and takes back after it.
create or replace function private.state(fact text, is_true boolean default true) returns void
language plpgsql set search_path = '' as $$
begin
  perform set_config('private.' || fact, case when is_true then 'yes' else '' end, true);
end
$$;

comment on function private.state is
  'States a fact for the triggers of the next statements: undoes, although_unpaid, follows_delivery, has_inquiry. It ends with the transaction at the latest.';

create or replace function private.is_stated(fact text) returns boolean
language sql stable
return coalesce(current_setting('private.' || fact, true), '') = 'yes';

comment on function private.is_stated is 'Whether the writer of the row has stated a fact (private.state).';

create or replace function private.hits_so_far(bucket text, subject text, within interval) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return coalesce((
    select known.hits
    from private.rate_limits as known
    where known.bucket = hits_so_far.bucket and known.subject = hits_so_far.subject
      and known.window_start = date_bin(hits_so_far.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0);
end
$$;

comment on function private.hits_so_far is 'Number of hits in the current window, without counting one.';

create or replace function private.count_paid_order(networks text[]) returns void
language plpgsql set search_path = '' as $$
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
language plpgsql stable set search_path = '' as $$
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
language plpgsql stable set search_path = '' as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return private.is_within_limit(rule, private.caller_networks(), is_within_limit.subject);
end
$$;

comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';

-- A statement with an array as parameter would be planned again at each call.
create or replace function private.count_call_from(networks text[], limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' set plan_cache_mode = force_generic_plan as $$
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

-- Names for groups of states: a rule that holds for several states is stated here alone, and the compiler of the plans reads it as if
-- it were written out. A new state of a table has its place in each group that names the table.

-- Orders

create or replace function private.is_open_order(status text) returns boolean
language sql immutable
return status in ('pending', 'processing', 'shipped', 'out_for_delivery');

comment on function private.is_open_order is 'Neither delivered nor cancelled. Of a status of orders.';

create or replace function private.is_in_shop(status text) returns boolean
language sql immutable
return status in ('pending', 'processing');

comment on function private.is_in_shop is 'The goods of an order with this status are in the shop.';

create or replace function private.is_on_the_way(status text) returns boolean
language sql immutable
return status in ('shipped', 'out_for_delivery');

comment on function private.is_on_the_way is
  'The goods have left the shop and have not arrived. Of a status of orders; `shipped` is shown as `out_for_delivery`.';

create or replace function private.has_left_shop(status text) returns boolean
language sql immutable
return status in ('shipped', 'out_for_delivery', 'delivered');

comment on function private.has_left_shop is 'The goods of an order with this status have left the shop.';

create or replace function private.is_before_work(status text) returns boolean
language sql immutable
return status in ('pending', 'cancelled');

comment on function private.is_before_work is 'Nobody has begun to prepare an order with this status.';

create or replace function private.can_be_paid(payment_status text) returns boolean
language sql immutable
return payment_status in ('unpaid', 'needs_review');

comment on function private.can_be_paid is 'Money that arrives can still pay an order with this payment status.';

create or replace function private.was_paid(payment_status text) returns boolean
language sql immutable
return payment_status in ('paid', 'refunded');

comment on function private.was_paid is 'The charge of an order has arrived, whether or not it was sent back since.';

create or replace function private.has_money(payment_status text) returns boolean
language sql immutable
return payment_status in ('paid', 'needs_review');

comment on function private.has_money is
  'The shop has money of an order: its charge, or an amount that staff decide about.';

-- Deliveries

create or replace function private.is_open_delivery(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit');

comment on function private.is_open_delivery is 'Neither delivered nor failed.';

create or replace function private.is_before_pickup(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('pending', 'assigned');

comment on function private.is_before_pickup is 'The rider of a delivery has not picked it up.';

create or replace function private.is_with_rider(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('picked_up', 'in_transit');

comment on function private.is_with_rider is 'The rider of a delivery has the goods.';

create or replace function private.was_picked_up(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('picked_up', 'in_transit', 'delivered');

comment on function private.was_picked_up is 'The goods of a delivery went with its rider, and have not come back.';

-- Payments

create or replace function private.is_open_attempt(status text) returns boolean
language sql immutable
return status in ('initiating', 'processing');

comment on function private.is_open_attempt is
  'The prompt of a payment is being sent, or waits for the PIN or its result.';

create or replace function private.is_unsettled_attempt(status text) returns boolean
language sql immutable
return status in ('initiating', 'processing', 'review');

comment on function private.is_unsettled_attempt is
  'Neither its result nor, with an amount in doubt, the decision about it is known.';

create or replace function private.may_still_succeed(status text) returns boolean
language sql immutable
return status in ('initiating', 'processing', 'unresolved');

comment on function private.may_still_succeed is 'A prompt without a result, also one that nobody asks about any more.';

create or replace function private.ended_unpaid(status text) returns boolean
language sql immutable
return status in ('failed', 'review');

comment on function private.ended_unpaid is
  'A payment that ended without paying its order: it failed, or its amount is in doubt.';

create or replace function private.has_result(status text) returns boolean
language sql immutable
return status in ('completed', 'failed');

comment on function private.has_result is 'Of payments and refunds: M-PESA has said how it ended.';

create or replace function private.can_be_queried(status text) returns boolean
language sql immutable
return status in ('processing', 'review');

comment on function private.can_be_queried is
  'The result of a prompt can be asked for: none has come, or its amount is in doubt.';

-- Refunds: requested → approved → sending → sent or unknown → completed or failed; withdrawn by staff before it is sent.

create or replace function private.is_unsent_refund(status text) returns boolean
language sql immutable
return status in ('requested', 'approved');

comment on function private.is_unsent_refund is
  'A refund that waits for its approval, or to be sent. Before its first try it can be withdrawn.';

create or replace function private.is_refund_at_mpesa(status text) returns boolean
language sql immutable
return status in ('sent', 'unknown');

comment on function private.is_refund_at_mpesa is 'A refund that M-PESA has, or may have, without a result.';

create or replace function private.is_refund_on_the_way(status text) returns boolean
language sql immutable
return status in ('sending', 'sent', 'unknown');

comment on function private.is_refund_on_the_way is 'A refund whose money may have left, without a result.';

create or replace function private.is_open_refund(status text) returns boolean
language sql immutable
return status in ('requested', 'approved', 'sending', 'sent', 'unknown');

comment on function private.is_open_refund is 'A refund without an end: not completed, failed or withdrawn.';

create or replace function private.is_dropped_refund(status text) returns boolean
language sql immutable
return status in ('failed', 'withdrawn');

comment on function private.is_dropped_refund is
  'A refund that sent no money and will not: its money can be sent back by another.';

-- Messages

create or replace function private.may_have_arrived(status text) returns boolean
language sql immutable
return status in ('sending', 'sent', 'unsure');

comment on function private.may_have_arrived is 'A message that was handed over, or may have been.';

create or replace function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable set search_path = '' as $$
  select p.*
  from public.products as p
  where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  union all
  (
    select r.*
    from public.products as p
    -- The first condition is the first column of the index in this order.
    cross join lateral (
      select r.* from public.products as r
      where lower(r.category) = lower(p.category) and r.category = p.category and r.id <> p.id and r.is_active
      order by r.created_at desc, r.id
      limit least(greatest(related_limit, 0), 24)
    ) as r
    where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  );
$$;

comment on function public.product_and_related is
  'The active product with this slug, then the newest others of its category. No row: no such product.';

create or replace function public.list_categories() returns table (id uuid, name text, is_active boolean, products integer)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
    select c.id, c.name, c.is_active, (
      select count(*)::integer
      from (select from public.products as p where p.category = c.name limit 101) as bounded
    )
    from public.categories as c
    order by c.name;
end
$$;

comment on function public.list_categories is
  'For staff: every category by name, hidden ones included, with the number of its products; 101 means more than 100.';

-- Execution rights
grant execute on function public.find_products, public.list_categories to authenticated, service_role;

grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;

create or replace function private.draw_tracking_number() returns text
language plpgsql volatile set search_path = '' as $$
declare
  prefix text := 'JJ-' || to_char(private.nairobi_day(now()), 'YYYYMMDD') || '-';
  lowest integer;
  number text;
begin
  -- Four digits; five, then six, when most numbers of the day are taken.
  foreach lowest in array '{1000,1000,1000,1000,10000,10000,10000,10000,100000,100000,100000,100000}'::integer[] loop
    number := prefix || lowest + floor(random() * 9 * lowest)::integer;
    exit when not exists (select from public.orders as o where o.tracking_number = number);
  end loop;
  return number;
end
$$;

comment on function private.draw_tracking_number is
  'A random tracking number of today that no order has. A concurrent order may still take it first.';

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
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
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
      now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes)),
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

create or replace function private.reservation() returns interval
language sql stable set search_path = '' as $$
  select make_interval(mins => s.reservation_minutes) from public.store_settings as s;
$$;

comment on function private.reservation is 'How long the units of a new order wait for its payment.';

create or replace function private.longest_reservation(reservation interval) returns interval
language sql immutable
return 2 * reservation;

comment on function private.longest_reservation is
  'The longest that prompts can extend a reservation of this length to, counted from its beginning (orders.expiry_limit).';

create or replace function private.units_held(product_id uuid) returns bigint
language plpgsql stable set search_path = '' as $$
begin
  return coalesce((select h.quantity from private.held_units as h where h.product_id = units_held.product_id), 0);
end
$$;

comment on function private.units_held is 'Units of a product that unpaid orders hold.';

create or replace function private.return_units(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = return_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  update public.products as p
  set stock_quantity = p.stock_quantity
    + (select sum(i.quantity) from public.order_items as i where i.order_id = return_units.order_id and i.product_id = p.id)
  where p.id = any (product_ids);
end
$$;

comment on function private.return_units is 'Returns an order''s units to stock. The caller has locked the order.';

create or replace function private.due_end(ended public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  is_prompted boolean;
begin
  if ended.payment_status <> 'unpaid' or not private.is_before_work(ended.status) then
    return null;
  end if;
  if exists (select from public.payments as p where p.order_id = ended.id and p.status = 'review') then
    return null;
  end if;
  is_prompted := coalesce(ended.expiry_limit > now(), true) and exists (
    select from public.payments as p where p.order_id = ended.id and private.is_open_attempt(p.status)
  );
  return case
    when not is_prompted and (ended.expires_at <= now() or (ended.status = 'cancelled' and ended.reserved_until is not null)) then 'order'
    when ended.reserved_until <= now() then 'units'
  end;
end
$$;

comment on function private.due_end is
  'What ends now. order: the unpaid order, at expires_at; an open prompt delays that until expiry_limit. units: its hold, at reserved_until, also while a prompt is open. Null: nothing. A payment under review delays both.';

create or replace function private.due_orders(at_most integer) returns uuid[]
language plpgsql stable
set search_path = ''
-- The partial indexes return due orders in order.
as $$
begin
  -- Each kind has its own index, so that a run without due orders reads nothing.
  return array(
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now() and private.due_end(o) is not null
      order by o.expires_at limit due_orders.at_most
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now() and private.due_end(o) is not null
      order by o.reserved_until limit due_orders.at_most
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null and private.due_end(o) is not null
      order by o.id limit due_orders.at_most
    )
    limit due_orders.at_most
  );
end
$$;

comment on function private.due_orders is 'Orders whose end, or whose hold''s end, is due (private.due_end).';

create or replace function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  due uuid[];
  product_ids uuid[];
  ended public.orders;
  is_over boolean;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  due := private.due_orders(expire_reservations.at_most);
  if due = '{}' then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o where o.id = any (due) for no key update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun or arrived in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and private.due_end(o) is not null;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = any (due));
  -- Lock all products before the first changes, as renaming a category does.
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  -- A payment locks the counters of its products, and not the products.
  perform from private.held_units as h where h.product_id = any (product_ids) order by h.product_id for no key update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    -- A hold may end before its order does.
    is_over := ended.status = 'cancelled' or private.due_end(ended) = 'order';
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    update public.orders as o
    set reserved_until = null, status = case when is_over then 'cancelled' else o.status end,
        expires_at = case when not is_over then o.expires_at end,
        cancel_reason = case when ended.status = 'cancelled' then o.cancel_reason when is_over then 'not_paid_in_time' end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;

comment on function public.expire_reservations is
  'Ends what private.due_end names: cancels unpaid orders, and returns the units that they hold, of at_most orders. Returns the number of orders.';

create or replace function private.take_units(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = take_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  if exists (
    select from public.products as p
    where p.id = any (product_ids) and p.stock_quantity
      < (select sum(i.quantity) from public.order_items as i where i.order_id = take_units.order_id and i.product_id = p.id)
  ) then
    return false;
  end if;
  update public.products as p
  set stock_quantity = p.stock_quantity
    - (select sum(i.quantity) from public.order_items as i where i.order_id = take_units.order_id and i.product_id = p.id)
  where p.id = any (product_ids);
  return true;
end
$$;

comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create or replace function private.move_units_with_status(old public.orders, new public.orders) returns public.orders
language plpgsql set search_path = '' as $$
begin
  if new.status = 'cancelled' then
    -- Units that have left the shop are not returned automatically.
    if private.was_paid(new.payment_status) and new.units_returned_at is null and private.is_in_shop(old.status) then
      perform private.return_units(new.id);
      new.units_returned_at := now();
    end if;
    return new;
  end if;
  if (private.was_paid(new.payment_status) and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and new.reserved_until is null)
  then
    if not private.take_units(new.id) then
      perform private.refuse(409, 'units_sold',
        'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
    end if;
    new.units_returned_at := null;
  end if;
  if new.payment_status = 'unpaid' and new.reserved_until is null then
    new.expires_at := now() + private.reservation();
    new.reserved_until := new.expires_at;
    new.expiry_limit := now() + private.longest_reservation(private.reservation());
    new.extended_at := null;
  end if;
  return new;
end
$$;

create or replace function private.end_reviews() returns void
language plpgsql set search_path = '' as $$
declare
  reviewed record;
  minutes interval := private.reservation();
begin
  for reviewed in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Resolved money belongs to another payment, was refunded, or was noted.
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
    for no key update of o skip locked
  loop
    -- updated_at stays: it decides the day in the books.
    update public.payments as p set status = 'failed', next_query_at = null where p.id = reviewed.payment_id and p.status = 'review';
    -- The customer gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + private.longest_reservation(minutes)), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

comment on function private.end_reviews is
  'Ends attempts under review whose money staff have resolved. A later success still supersedes this.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  paid_networks text[];
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and private.is_before_work(old.status);
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and private.is_before_work(new.status);
begin
  if was_held and not is_held then
    -- In order of product, as expire_reservations locks them.
    perform from private.held_units as h
    where h.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id))
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
    set quantity = known.quantity
      - (select sum(i.quantity) from public.order_items as i where i.order_id = old.id and i.product_id = known.product_id)
    where known.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id));
    -- Before the networks are deleted.
    perform private.end_counted_hold(old.id, is_sold => new.payment_status <> 'unpaid' or not private.is_before_work(new.status));
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that were handed over, are not limited.
  if new.payment_status <> 'unpaid' or not private.is_before_work(new.status) then
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

create or replace function private.after_order_item_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into private.held_units as known (product_id, quantity)
  select new.product_id, new.quantity
  from public.orders as o
  where o.id = new.order_id and o.payment_status = 'unpaid' and o.reserved_until is not null and private.is_before_work(o.status)
  on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  return null;
end
$$;

create or replace function private.refuse_too_many_unpaid_orders(networks text[], phone text, settings public.store_settings) returns void
language plpgsql set search_path = '' as $$
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

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' as $$
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

create or replace function private.reduce_abandoned_orders() returns void
language plpgsql set search_path = '' as $$
declare
  -- Bounds the disk that a flood of orders uses: beyond the newest 5,000, details are stored for a day only.
  stored_since timestamptz := greatest(now() - interval '30 days', (
    select least(o.created_at, now() - interval '1 day') from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
    order by o.created_at desc offset 5000 limit 1
  ));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
      and o.created_at <= stored_since
      and o.reserved_until is null
      and not exists (select from public.payments as p where p.order_id = o.id and p.status <> 'failed')
      and not exists (select from public.mpesa_transactions as t where t.order_id = o.id)
      and not exists (select from public.deliveries as d where d.order_id = o.id)
      and private.retention_reason(o.id) is null
    order by o.created_at limit 2000
    for no key update skip locked
  );
begin
  delete from private.order_keys as k where k.order_id = any (due);
  delete from public.order_items as i where i.order_id = any (due);
  perform private.anonymise_orders(due);
  delete from public.order_events as e where e.order_id = any (due);
end
$$;

comment on function private.reduce_abandoned_orders is
  'Reduces cancelled orders whose payments all failed, or that had none, to their row, which reports count: after 30 days, or after a day beyond the newest 5,000.';

-- Execution rights
grant execute on function public.expire_reservations to service_role;

create or replace function private.is_within_hold_time(
  networks text[], product_id uuid, quantity integer, units bigint, span interval, is_prompted boolean, settings public.store_settings
) returns boolean
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan as $$
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

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number, 'live_handle', described.live_handle,
    'status', private.shown_status(described.status), 'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- Public: whether the order is paid and whether staff check a payment. Not public: the amount.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(private.is_open_attempt(p.status)) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif private.has_money(described.payment_status) and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and private.is_open_refund(r.status) and r.status <> 'requested'
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.status = 'cancelled' then
    answer := answer || jsonb_strip_nulls(jsonb_build_object('cancelled_because', nullif(described.cancel_reason, 'refunded')));
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' and described.status = 'pending' then
    answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
  elsif described.payment_status <> 'unpaid' then
    select answer || jsonb_strip_nulls(jsonb_build_object(
      'paid_cents', sum(p.charge_cents) filter (where not p.needs_refund),
      'refunded_cents', sum(p.charge_cents) filter (where not p.needs_refund and p.refunded_at is not null),
      'surplus_cents', sum(p.charge_cents) filter (where p.needs_refund and p.refunded_at is null)
    )) into answer
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed';
  end if;
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded) and part_paid_cents.';

create or replace function public.orders_by_access_key(access_keys text[]) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
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
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.payments as p where p.phone = has_paid.payer and p.status = 'completed' and p.purpose = 'order'
  );
end
$$;

comment on function private.has_paid is 'Whether an order was paid from this phone before.';

create or replace function private.add_till_payment(order_id uuid, received_cents integer, confirmed_by uuid default null) returns public.payments
language plpgsql set search_path = '' as $$
declare
  added public.payments;
begin
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (add_till_payment.order_id, '', add_till_payment.received_cents, 'unresolved', 'till', add_till_payment.confirmed_by)
  returning * into added;
  return added;
end
$$;

comment on function private.add_till_payment is
  'Adds money that came without a prompt as a payment of an order, to be settled by the caller. confirmed_by: the member of staff who typed it.';

create or replace function private.may_prompt_phone(payer text, paid_order public.orders) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  unanswered constant integer := 20;
begin
  perform pg_advisory_xact_lock(hashtextextended('prompts to ' || may_prompt_phone.payer, 0));
  if (
    select count(*) from (
      select from public.payments as p
      where p.phone = may_prompt_phone.payer and p.created_at > now() - interval '1 day'
        -- A prompt that M-PESA refused at once did not reach the phone.
        and (private.may_still_succeed(p.status) or (p.status = 'failed' and p.checkout_request_id is not null))
      limit unanswered
    ) as prompts
  ) < unanswered then
    return true;
  end if;
  if (may_prompt_phone.paid_order).customer_phone <> may_prompt_phone.payer then
    return false;
  end if;
  -- A stranger may order with this phone, but does not know the email address of its earlier orders.
  return exists (
    select from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.phone = may_prompt_phone.payer and p.status = 'completed'
      and o.customer_phone = may_prompt_phone.payer and lower(o.customer_email) = lower((may_prompt_phone.paid_order).customer_email)
  ) or private.count_call('prompts_beyond_unanswered', may_prompt_phone.payer);
end
$$;

comment on function private.may_prompt_phone is
  'Whether a phone may get another prompt. After 20 unpaid prompts within a day only for its own orders: without a further limit if it has paid an order with the same email address, else twice a day per network.';

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null,
  same_amount_seconds integer default 0
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment.phone);
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
  for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    private.is_unsettled_attempt(p.status)
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      private.was_paid(ordered.payment_status)
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
  elsif ordered.charge_cents > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
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
    perform private.refuse_same_amount(
      payer, ordered.charge_cents, interval '1 second' * least(greatest(begin_payment.same_amount_seconds, 0), 600)
    );
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
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new. same_amount_seconds: how long M-PESA refuses the same amount from one phone; 0: it does not.';

-- M-PESA allows few queries per minute. Prompts of one network must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5)
returns setof public.payments
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push had no response cannot be queried, and its callback arrives within 15 minutes or never. M-PESA reports
  -- no results after a day.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where private.is_open_attempt(p.status)
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  update public.payments as p
  set next_query_at = null
  where p.status = 'review' and p.next_query_at is not null and p.created_at < now() - interval '1 day';
  -- All processes share the merchant's rate limit: one batch, then none until the limit allows the next.
  if not exists (
    select from public.payments as p
    where private.can_be_queried(p.status) and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where private.can_be_queried(p.status) and p.checkout_request_id is not null and p.next_query_at <= now()
  ), network_queries as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join network_queries as n on n.widest_network = w.widest_network
    where private.can_be_queried(p.status)
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(n.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- A larger exponent would overflow the interval.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;

comment on function public.lease_payment_queries is
  'Leases attempts to query now: at most at_most at once, and per_minute; first those of the networks with the fewest queries in the last 15 minutes. Each is due again at growing intervals until it is settled.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.lease_payment_queries to service_role;

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  unreadable text[] default '{}', ended_by text default null, message_id bigint default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, private.normalised_receipt(receipt), merchant_request_id,
    checkout_request_id, coalesce(unreadable, '{}'), ended_by
  );
  reported_receipt text;
  stored_message bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  message_outcome text;
  settled_id uuid;
begin
  if report.result not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  if nullif(trim(settle_payment.receipt), '') is not null and report.receipt is null then
    report.unreadable := report.unreadable || array['receipt'];
  end if;
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for no key update;
  -- A query names no receipt; a message that contradicted itself may have named it.
  if report.result = 'succeeded' and report.receipt is null then
    reported_receipt := private.receipt_of_contradiction(settle_payment.payment_id);
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id, reported_receipt]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if settle_payment.message_id is null then
    insert into public.payment_messages (payment_id, source, source_address, body, receipt)
    values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
    returning id into stored_message;
  else
    update public.payment_messages as m set receipt = report.receipt
    where m.id = settle_payment.message_id and m.payment_id = attempt.id and m.outcome is null
    returning m.id into stored_message;
    if stored_message is null then
      -- Another process has settled it.
      select m.outcome into message_outcome from public.payment_messages as m where m.id = settle_payment.message_id;
      return (coalesce(message_outcome, 'unknown'), attempt)::public.settled_payment;
    end if;
  end if;

  if reported_receipt = private.receipt_of_contradiction(attempt.id) then
    report.receipt := reported_receipt;
  end if;
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_is_refunded => private.is_being_refunded(attempt.id),
    owner_is_refunded => private.is_being_refunded(receipt_owner.id)
  );

  if settlement.splits_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  settled_id := attempt.id;
  case settlement.decision
    when 'completes' then
      message_outcome := private.complete_attempt(attempt, report);
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents),
        'wrong_amount');
      perform private.store_mismatched_money(attempt, report);
    when 'contradiction' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported money and the result %s', coalesce(report.result_code, 'without a code')), 'contradiction');
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      perform private.store_mismatched_money(attempt, report);
    when 'confirmed_by_hand' then
      perform private.merge_receipt_owner(attempt, report, receipt_owner);
    when 'paid_twice' then
      settled_id := private.add_payment_to_refund(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = stored_message;
    when 'adds_details' then
      message_outcome := 'already_completed';
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  message_outcome := coalesce(message_outcome, settlement.decision);
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.match_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = stored_message;
  end if;
  if report.result = 'succeeded' and attempt.purpose = 'order' then
    perform private.correct_message_outcomes(m.payment_id) from public.payment_messages as m where m.id = stored_message;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  perform private.check_settled_message(attempt, report, settle_payment.body, settlement.decision);
  return (message_outcome, attempt)::public.settled_payment;
end
$$;

comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; a failure that names money needs review; every receipt stays in the books; an amount other than the charge needs review. message_id: the message is stored already (store_callback), and is settled once. unreadable: what the message has but cannot be read (code, receipt, amount): it waits for staff in messages_to_check.';

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  update public.orders as o
  set payment_status = 'paid', payment_method = 'mpesa',
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  insert into public.deliveries (order_id) values (paid_order.id) on conflict do nothing;
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function private.put_order_under_review(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set payment_status = 'needs_review', status = 'pending', updated_at = now()
  where o.id = put_order_under_review.order_id and o.payment_status = 'paid' and private.is_in_shop(o.status);
  if not found then
    return false;
  end if;
  perform private.return_units(put_order_under_review.order_id);
  delete from public.deliveries as d where d.order_id = put_order_under_review.order_id;
  return true;
end
$$;

comment on function private.put_order_under_review is
  'Puts a paid order under review, because less than its charge was received. False: it was handed over, or is not paid.';

create or replace function private.decide_settlement(
  attempt public.payments, report private.payment_report, receipt_owner public.payments, is_other_request boolean,
  attempt_is_refunded boolean, owner_is_refunded boolean
) returns private.settlement
language plpgsql immutable set search_path = '' as $$
declare
  is_completed boolean := attempt.status = 'completed';
  names_other_amount boolean := report.received_cents <> attempt.charge_cents or (report.received_cents is null and report.source = 'callback');
  -- Anyone can type a reference, so it disproves nothing.
  is_by_reference boolean := report.source in ('confirmation', 'statement');
  splits_receipt boolean := coalesce(
    report.receipt <> attempt.receipt and attempt.presumption is not null and not is_by_reference and not attempt_is_refunded, false
  );
  -- The attempt without its presumed receipt.
  stays_completed boolean := is_completed and not (splits_receipt and attempt.presumption = 'attempt');
  attempt_receipt text := case when not splits_receipt then attempt.receipt end;
  -- M-PESA names money only when it moved.
  is_contradiction boolean := report.result <> 'succeeded' and (
    coalesce(report.received_cents > 0, false) or report.receipt is not null
    or coalesce(report.unreadable && array['receipt', 'amount'], false)
  );
  decision text := case
    when is_other_request then 'other_request'
    when is_contradiction and is_completed then 'superseded'
    -- The money is in the books already.
    when is_contradiction and receipt_owner.id is not null then 'receipt_replayed'
    when is_contradiction and report.received_cents <> attempt.charge_cents then 'wrong_amount'
    when is_contradiction then 'contradiction'
    when report.result = 'pending' then 'pending'
    -- Also an attempt completed by presumption: the money was not this prompt's.
    when report.result = 'failed' and (
      private.may_still_succeed(attempt.status)
      or (is_completed and attempt.presumption = 'attempt' and not attempt_is_refunded)
    ) then 'failed'
    when report.result = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.received_cents is null and attempt.review_cause is distinct from 'contradiction'
      then 'needs_review'
    -- The money of a payment test pays no order, and money of an order completes no test.
    when receipt_owner.id is not null and (receipt_owner.order_id is distinct from attempt.order_id
      or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)) then 'receipt_replayed'
    -- Already in the books; money that is refunded is not moved.
    when owner_is_refunded and (receipt_owner.method = 'prompt' or attempt_is_refunded) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and attempt_receipt is not null then 'already_completed'
    -- The receipt is in the books: as a separate payment, or as the presumed receipt of another attempt.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is a separate payment.
    when stays_completed and report.receipt <> attempt_receipt then
      case attempt.purpose when 'test' then 'already_completed' else 'paid_twice' end
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else splits_receipt and decision in ('confirmed_by_hand', 'paid_twice', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;

comment on function private.decide_settlement is
  'Decides what a message means for a payment attempt, from facts alone. receipt_owner: the other payment with this receipt. is_other_request: the request id belongs to another attempt. attempt_is_refunded, owner_is_refunded: a refund of that money is requested or done.';

create or replace function private.receipt_of_contradiction(attempt_id uuid) returns text
language sql stable set search_path = '' as $$
  select t.receipt
  from public.payments as p
  join public.mpesa_transactions as t on t.attempt_id = p.id and t.received_cents = p.charge_cents
  where p.id = receipt_of_contradiction.attempt_id and private.ended_unpaid(p.status) and p.review_cause = 'contradiction'
  order by t.created_at, t.receipt
  limit 1;
$$;

comment on function private.receipt_of_contradiction is
  'The receipt of the charged amount that a message named which contradicted itself about this attempt. Staff may have decided about that money since: a query that confirms the attempt confirms this money, and no other.';

create or replace function private.add_payment_to_refund(attempt public.payments, report private.payment_report) returns uuid
language plpgsql set search_path = '' as $$
declare
  added_id uuid;
begin
  added_id := (private.add_till_payment(attempt.order_id, report.received_cents)).id;
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = report.receipt, needs_refund = true, completed_at = now(), updated_at = now()
  where p.id = added_id;
  return added_id;
end
$$;

comment on function private.add_payment_to_refund is 'Adds a second success of an attempt as a payment to refund. Returns its id.';

create or replace function private.mark_attempt_completed(
  attempt_id uuid, report private.payment_report, needs_refund boolean default false
) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      presumption = case when report.source in ('confirmation', 'statement') and p.method = 'prompt' then 'attempt' end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      needs_refund = mark_attempt_completed.needs_refund, next_query_at = null, completed_at = now(), updated_at = now()
  where p.id = attempt_id;
$$;

create or replace function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  purpose text;
begin
  if attempt.purpose = 'test' then
    perform private.mark_attempt_completed(attempt.id, report);
    return 'completed';
  end if;
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  purpose := case
    -- Money that is being refunded, or was refunded, pays nothing.
    when report.receipt is not null and not private.withdraw_unsent_transaction_refunds(report.receipt) then 'goes_back'
    when paid_order.payment_status = 'unpaid' then 'pays'
    when paid_order.payment_status = 'needs_review' then private.purpose_for_reviewed_order(attempt, report.source, paid_order)
    else 'paid_twice'
  end;
  perform private.mark_attempt_completed(attempt.id, report, needs_refund => purpose in ('paid_twice', 'goes_back'));
  case purpose
    when 'pays' then
      return private.mark_order_paid(paid_order.id);
    when 'part' then
      return 'paid_needs_review';
    when 'goes_back' then
      return 'goes_back';
    else
      if attempt.method = 'till' then
        -- Only money with a receipt can be refunded, and this may be the receipt of the earlier payment.
        update public.payments as p
        set needs_refund = true, updated_at = now()
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
          and not p.needs_refund and p.charge_cents = attempt.charge_cents and not private.is_being_refunded(p.id);
        if found then
          update public.payments as p set needs_refund = false where p.id = attempt.id;
        end if;
      end if;
      return 'paid_twice';
  end case;
end
$$;

comment on function private.complete_attempt is
  'Completes an open attempt and pays its order, or marks the money as too much, too little or being refunded. Returns the outcome: paid, paid_needs_review, paid_twice or goes_back; completed for a test. The caller has locked the order.';

create or replace function private.purpose_for_reviewed_order(attempt public.payments, source text, reviewed public.orders) returns text
language plpgsql set search_path = '' as $$
declare
  received_cents bigint;
  is_refunding boolean;
begin
  if exists (
    select from public.payments as p
    where p.order_id = reviewed.id and p.status = 'completed' and not p.needs_refund and p.charge_cents = reviewed.charge_cents
  ) then
    return 'paid_twice';
  elsif attempt.charge_cents = reviewed.charge_cents then
    -- The exact charge pays the order; earlier money is refunded.
    update public.payments as p
    set needs_refund = true, updated_at = now()
    where p.order_id = reviewed.id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
    perform private.correct_message_outcomes(p.id) from public.payments as p
    where p.order_id = reviewed.id and p.id <> attempt.id and p.status = 'completed';
    return 'pays';
  elsif source <> 'till' then
    return 'paid_twice';
  end if;
  -- Partial payments assigned by staff pay the order once they add up to its charge.
  select attempt.charge_cents + coalesce(sum(p.charge_cents) filter (where not private.is_being_refunded(p.id)), 0),
    coalesce(bool_or(private.is_being_refunded(p.id)), false)
  into received_cents, is_refunding
  from public.payments as p
  where p.order_id = reviewed.id and p.status = 'completed' and not p.needs_refund;
  return case
    when received_cents < reviewed.charge_cents then 'part'
    when received_cents = reviewed.charge_cents and not is_refunding then 'pays'
    else 'paid_twice'
  end;
end
$$;

comment on function private.purpose_for_reviewed_order is
  'What further money does for an order that needs review: pays (then earlier money is refunded, or added up), part or paid_twice.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

create or replace function private.is_being_refunded(payment_id uuid, receipt text default null) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.refunds as r
    where (r.payment_id = is_being_refunded.payment_id or r.receipt = is_being_refunded.receipt)
      and not private.is_dropped_refund(r.status)
  );
end
$$;

comment on function private.is_being_refunded is
  'Whether a refund of this payment, or of the money with this receipt, is requested or done. Then its receipt is not moved.';

create or replace function private.withdraw_unsent_transaction_refunds(receipt text) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
  where r.receipt = withdraw_unsent_transaction_refunds.receipt and r.transaction_receipt is not null
    and private.is_unsent_refund(r.status) and r.tries = 0;
  return not private.is_being_refunded(null, withdraw_unsent_transaction_refunds.receipt);
end
$$;

comment on function private.withdraw_unsent_transaction_refunds is
  'Withdraws refunds of unassigned money that were not sent to M-PESA. Returns whether the money can pay an order: not if it was, or may be, refunded. The caller has locked the receipt.';

create or replace function private.separate_receipt(payment_id uuid, failed boolean default false) returns uuid
language plpgsql set search_path = '' as $$
declare
  attempt public.payments;
  own_id uuid;
  confirmed_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = separate_receipt.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into confirmed_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null, confirmed_by = case when confirmed_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when separate_receipt.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and private.is_open_attempt(other.status)
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not separate_receipt.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end, presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  own_id := (private.add_till_payment(attempt.order_id, attempt.charge_cents, confirmed_by_staff)).id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = attempt.receipt,
      -- An attempt that stays completed still pays the order.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at, updated_at = now()
  where p.id = own_id;
  perform private.correct_message_outcomes(attempt.id);
  perform private.correct_message_outcomes(own_id);
  return own_id;
end
$$;

comment on function private.separate_receipt is
  'Makes a wrongly presumed receipt a separate payment; the attempt becomes what it was before, or failed. The caller has locked the order. Returns the id of the separate payment.';

create or replace function private.merge_payments(own_id uuid, attempt_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = merge_payments.own_id;
  select * into strict attempt from public.payments as p where p.id = merge_payments.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  update public.change_notes as c set payment_id = attempt.id where c.payment_id = by_hand.id;
  -- Refunds of its present receipt move with that (move_refund_with_receipt). Staff may have corrected the receipt since.
  update public.refunds as r set payment_id = attempt.id
  where r.payment_id = by_hand.id and r.receipt is distinct from by_hand.receipt and private.is_dropped_refund(r.status);
  delete from public.payments as p where p.id = by_hand.id;
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = by_hand.receipt,
      confirmed_by = coalesce(by_hand.confirmed_by, p.confirmed_by),
      needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
      next_query_at = null, completed_at = least(attempt.completed_at, by_hand.completed_at), updated_at = now()
  where p.id = attempt.id;
  perform private.correct_message_outcomes(attempt.id);
end
$$;

comment on function private.merge_payments is
  'Merges a payment by its receipt into the attempt of the same money. The caller has locked the order.';

create or replace function public.receive_mpesa_transaction(
  source text, receipt text, received_cents integer, reference text default '', transacted_at timestamptz default null,
  payer_phone text default null, payer_name text default null, body text default '', message_id bigint default null,
  kind text default 'payment', unreadable text[] default '{}', reversed_receipt text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := private.normalised_receipt(receipt);
  unknown text[] := coalesce(unreadable, '{}')
    || case when private.normalised_receipt(receipt) is null then array['receipt'] else '{}' end
    || case when coalesce(received_cents, 0) <= 0 then array['amount'] else '{}' end;
  moment timestamptz := coalesce(transacted_at, now());
  for_order uuid;
  reported public.mpesa_transactions;
  known public.payments;
  settled public.settled_payment;
  outcome text;
  is_part boolean;
begin
  if source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is reported by a confirmation or the statement');
  elsif kind = 'outgoing' then
    perform private.store_message_outcome(message_id, source, body, null, null, 'outgoing') where message_id is not null;
    return ('outgoing', null)::public.settled_payment;
  elsif kind = 'reversal' then
    outcome := private.receive_reversal(source, code, received_cents, reference, moment, body, reversed_receipt);
    perform private.store_message_outcome(message_id, source, body, null, null, outcome) where message_id is not null;
    return (outcome, null)::public.settled_payment;
  elsif kind <> 'payment' or unknown && array['receipt', 'amount'] or (source = 'statement' and unknown && array['time']) then
    outcome := private.add_message_to_check(
      source, case when kind = 'payment' then 'unreadable' else 'unknown_kind' end, body, unknown, code, received_cents, transacted_at,
      reference
    );
    perform private.store_message_outcome(message_id, source, body, null, null, 'unreadable') where message_id is not null or outcome = 'new';
    outcome := case outcome when 'checked' then 'checked' else 'unreadable' end;
    return (outcome, null)::public.settled_payment;
  end if;

  -- The order must be locked first, but is known only after reading. If it changed before the lock, read again.
  loop
    for_order := private.order_of_transaction(code, reference);
    begin
      -- Leaving this block releases the lock, so that no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for no key update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_transaction(code, reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  reported := private.store_transaction(source, code, received_cents, reference, moment, payer_phone, payer_name);
  -- A confirmation arrives within moments, so its money counts by the time of arrival until the statement names the time.
  if unknown && array['time'] and reported.reported_by_statement_at is null then
    perform private.add_message_to_check(source, 'unreadable', body, unknown, code, received_cents, null, reference);
  end if;
  perform private.add_receipt_to_test(reported);
  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    perform private.store_message_outcome(message_id, source, body, known.id, code, outcome);
    perform private.apply_reported_amount(known, reported);
    perform private.match_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return (outcome, known)::public.settled_payment;
  end if;

  -- Anyone can type an order's number. Less than its charge never pays it: staff decide.
  is_part := reported.received_cents < (select o.charge_cents from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or reported.resolution is not null
    or not private.is_whole_shillings(reported.received_cents)
  then
    outcome := 'unmatched';
    perform private.store_message_outcome(message_id, source, body, null, code, outcome);
    return (outcome, null)::public.settled_payment;
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, reported.received_cents, reported.transacted_at);
  if known.id is null then
    known := private.add_till_payment(for_order, reported.received_cents);
  end if;
  settled := public.settle_payment(
    payment_id => known.id, source => source, body => body,
    result => 'succeeded', result_code => '0', received_cents => reported.received_cents, receipt => code
  );
  -- The settlement stored the message again, with its payment.
  if message_id is not null then
    update public.payment_messages as m
    set source_address = stored.source_address, received_at = stored.received_at
    from public.payment_messages as stored
    where stored.id = receive_mpesa_transaction.message_id and m.id = (select max(later.id) from public.payment_messages as later
      where later.payment_id = (settled.payment).id and later.receipt = code and later.source = 'confirmation');
    delete from public.payment_messages as m where m.id = receive_mpesa_transaction.message_id;
  end if;
  return settled;
end
$$;

comment on function public.receive_mpesa_transaction is
  'Stores money that M-PESA reports by a confirmation or its statement, each receipt once. It belongs to the payment with this receipt, else to the order that its reference names: it completes an attempt of the same amount without a receipt, becomes a separate payment, or, if less than the charge, waits for staff. All other money stays unmatched for staff. Idempotent, in any order with other messages. kind: payment, reversal (of reversed_receipt, if it is named), outgoing (ignored) or unknown. unreadable: what the message has but cannot be read (receipt, amount, time). What cannot be read, and unknown kinds, wait in messages_to_check: the outcome is unreadable, or checked once staff have resolved it.';

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.till_registration, public.receipts_not_in_statement to service_role;

-- A paid order is delivered or refunded, never both.
create or replace function private.refuse_while_refund_is_open(new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and private.is_open_refund(r.status)
  ) then
    perform private.refuse(409, 'refund_under_way',
      'This money is on its way back to the customer. Withdraw the refund first, where that is still possible');
  elsif new.payment_status = 'paid' and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
  ) then
    perform private.refuse(409, 'partly_refunded',
      'Part of this money went back to the customer already. Send the rest back too');
  end if;
end
$$;

-- Updates the order of a refunded payment, as resolve_paid_order does.
create or replace function private.refund_order_of_payment(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for no key update;
  if new.needs_refund or not private.has_money(refunded_order.payment_status) then
    if new.needs_refund then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- Paid in parts: the order is refunded with the last part.
    perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    return;
  end if;
  -- M-PESA reversed the payment after refusing to, and the order was not sent: its units return to stock.
  if refunded_order.payment_status = 'paid' and private.is_in_shop(refunded_order.status) then
    perform private.return_units(refunded_order.id);
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then 'cancelled'
        else o.status
      end,
      cancel_reason = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then 'refunded'
        else o.cancel_reason
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
end
$$;

-- Moves the refund to the remaining payment when two payments with one receipt are merged.
create or replace function private.move_refund_with_receipt(new public.payments) returns public.payments
language plpgsql set search_path = '' as $$
declare
  refund public.refunds;
begin
  update public.refunds as r
  set payment_id = new.id, transaction_receipt = null, updated_at = now()
  where r.receipt = new.receipt and r.payment_id is distinct from new.id
    -- An earlier refund by hand stays with the payment.
    and (private.is_dropped_refund(r.status) or not exists (
      select from public.refunds as own
      where own.payment_id = new.id and own.id <> r.id and not private.is_dropped_refund(own.status)
    ));
  select * into refund from public.refunds as r where r.payment_id = new.id and r.status = 'completed';
  if found then
    new.refunded_at := coalesce(new.refunded_at, refund.completed_at);
    new.refund_receipt := coalesce(new.refund_receipt, refund.refund_receipt);
  end if;
  -- A refund recorded before the receipt was known gets the receipt.
  update public.refunds as r
  set receipt = new.receipt, updated_at = now()
  where r.payment_id = new.id and r.receipt is null and not exists (
    select from public.refunds as known
    where known.receipt = new.receipt and known.id <> r.id and not private.is_dropped_refund(known.status)
  );
  return new;
end
$$;

create or replace function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  withdrawn public.refunds := private.lock_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return withdrawn;
  end if;
  if not private.is_unsent_refund(withdrawn.status) then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return withdrawn;
end
$$;

comment on function public.withdraw_refund is 'Withdraws a refund that was not sent to M-PESA yet.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function public.lease_refunds(at_most integer default 1)
returns table (work text, refund public.refunds, secret text)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  leased public.refunds;
  excessive record;
  remaining integer := lease_refunds.at_most;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- M-PESA reported less than staff typed: no more is refunded than was received. First, since it locks more than the refund.
  for excessive in
    select r.id, reported.received_cents
    from public.refunds as r
    join public.mpesa_transactions as reported on reported.receipt = r.receipt and reported.received_cents < r.refund_cents
    where private.is_unsent_refund(r.status)
    order by r.id
  loop
    perform private.lock_refund(excessive.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA reported %s cents under this receipt, %s were to be refunded', excessive.received_cents, r.refund_cents)
    where r.id = excessive.id and private.is_unsent_refund(r.status) and excessive.received_cents < r.refund_cents;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: retried at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - private.back_off(interval '15 seconds', r.tries, interval '10 minutes'))
    order by r.created_at limit remaining for update skip locked
  loop
    remaining := remaining - 1;
    insert into private.refund_secrets (refund_id, result_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.result_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    work := 'send';
    refund := leased;
    return next;
  end loop;

  for leased in
    select * from public.refunds as r
    where (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
      -- The process that sent it ended before M-PESA's response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit remaining for update skip locked
  loop
    -- One update only: a second update of the row would check its foreign keys, and wait for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it sent the request to M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- A larger exponent would overflow the interval.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    work := 'query';
    refund := leased;
    select s.result_secret into secret from private.refund_secrets as s where s.refund_id = leased.id;
    return next;
  end loop;
end
$$;

comment on function public.lease_refunds is
  'Leases refunds to send, each once (work = send), and refunds to query, at growing intervals (work = query), with the secret of their URLs.';

create or replace function private.decide_reversal(
  refund public.refunds, source text, result text, refund_receipt text, refund_cents integer, originator_conversation_id text
) returns text
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  is_success constant boolean := decide_reversal.result = 'succeeded';
  code constant text := nullif(decide_reversal.refund_receipt, '');
begin
  return case
    when exists (select from public.refunds as r where r.refund_receipt = code and r.id <> refund.id) then 'receipt_replayed'
    when is_success and (
      code = refund.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then 'receipt_of_payment'
    -- Reversal results include the amount; a status with another amount may be about another payment.
    when is_success and code is not null and decide_reversal.source = 'status_result'
      and decide_reversal.refund_cents is distinct from refund.refund_cents then 'pending'
    when decide_reversal.originator_conversation_id <> refund.originator_conversation_id then 'other_request'
    when decide_reversal.result = 'pending' then 'pending'
    when is_success and refund.status = 'completed' then 'already_completed'
    when is_success and refund.tries = 0 then 'not_sent'
    when is_success and decide_reversal.refund_cents <> refund.refund_cents then 'wrong_amount'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt and r.status = 'completed'
        and (r.method = 'by_hand' or r.refund_receipt <> code)
    ) then 'sent_twice'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt
        and not private.is_dropped_refund(r.status) and not private.is_unsent_refund(r.status)
    ) then 'sent_by_another'
    when is_success then 'completed'
    when not private.is_refund_on_the_way(refund.status) then 'superseded'
    when decide_reversal.result = 'already_reversed' then 'already_reversed'
    when decide_reversal.result = 'not_reversed' and (
      -- M-PESA may not have processed the request yet, or has accepted it, or has reported the payment as reversed already.
      refund.sent_at > now() - interval '10 minutes' or refund.originator_conversation_id is not null
      or refund.result_code is not distinct from 'R000001'
    ) then 'pending'
    else 'failed'
  end;
end
$$;

comment on function private.decide_reversal is
  'Decides what a message means for a refund. A receipt of incoming money is no receipt of a refund. not_reversed proves that nothing was sent only if M-PESA never accepted the request. The caller has locked the refund.';

create or replace function public.settle_reversal(
  refund_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, refund_receipt text default null, refund_cents integer default null,
  originator_conversation_id text default null, source_address text default null, unreadable text[] default '{}'
) returns public.settled_refund
language plpgsql security definer set search_path = '' as $$
declare
  settled public.refunds;
  stored_message bigint;
  message_outcome text;
  settled_receipt constant text := private.normalised_receipt(settle_reversal.refund_receipt);
  unknown constant text[] := coalesce(settle_reversal.unreadable, '{}') || case
    when nullif(trim(settle_reversal.refund_receipt), '') is not null and settled_receipt is null then array['receipt'] else '{}'
  end;
begin
  if settle_reversal.result not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.lock_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into stored_message;
  if settled_receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settled_receipt));
  end if;
  -- lease_refunds does not lock the receipt: no other refund of this money may begin to be sent between the decision and the update.
  perform from public.refunds as r where r.receipt = settled.receipt and r.id <> settled.id for update;
  message_outcome := private.decide_reversal(
    settled, settle_reversal.source, settle_reversal.result, settled_receipt, settle_reversal.refund_cents,
    settle_reversal.originator_conversation_id
  );

  if message_outcome in ('completed', 'sent_twice', 'sent_by_another') then
    -- Also supersedes a failure. A second refund of the same money, requested after that failure, is withdrawn.
    update public.refunds as r
    set status = 'withdrawn', updated_at = now()
    where r.id <> settled.id and r.receipt = settled.receipt and private.is_unsent_refund(r.status);
  end if;
  case message_outcome
    when 'completed' then
      update public.refunds as r
      set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
      where r.id = settled.id;
      settled := private.complete_refund(settled.id, settled_receipt);
    when 'already_completed' then
      -- A result with another amount does not have this refund's receipt.
      if settled.refund_receipt is null and settled_receipt is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, settled_receipt);
      end if;
    when 'sent_twice' then
      settled := private.mark_sent_twice(settled, settled_receipt, settle_reversal.result_code, settle_reversal.result_description);
    when 'wrong_amount', 'already_reversed', 'failed' then
      update public.refunds as r
      set status = case
            when message_outcome = 'failed' then 'failed'
            when private.is_refund_on_the_way(r.status) then 'unknown'
            else r.status
          end,
          result_code = settle_reversal.result_code,
          result_description = case
            when message_outcome = 'wrong_amount'
              then format('M-PESA reported %s cents, %s were to be refunded', settle_reversal.refund_cents, r.refund_cents)
            else settle_reversal.result_description
          end,
          next_check_at = case when message_outcome = 'already_reversed' then now() end, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      null;
  end case;
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message;
  if cardinality(unknown) > 0 and settled.refund_receipt is null then
    perform private.add_message_to_check(
      settle_reversal.source, 'unreadable', settle_reversal.body, unknown, settled_receipt, settle_reversal.refund_cents, null, '', null,
      settled.id
    );
  elsif settled.refund_receipt is not null then
    update public.messages_to_check as m
    set resolution = 'read_later', resolved_at = now()
    where m.refund_id = settled.id and m.problem = 'unreadable' and m.resolution is null;
  end if;
  return (message_outcome, settled)::public.settled_refund;
end
$$;

comment on function public.settle_reversal is
  'Settles a refund by a message of M-PESA: stores the message, decides what it means (decide_reversal) and updates refund, payment and order in the same transaction. Idempotent. A success supersedes a failure, never the reverse. unreadable: as in settle_payment.';

grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret to service_role;

create or replace function private.pause_prompts(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  was_refused boolean := new.checkout_request_id is null;
  incident uuid;
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  elsif new.status <> 'failed' then
    perform private.end_refusal_pause();
    return;
  end if;
  if coalesce(new.ended_by not in ('owner', 'unknown'), true) or not private.is_owners_problem(new, was_refused) then
    -- Proves nothing about M-PESA: the next prompt is the probe.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  insert into private.prompt_pause (code, description, caused_by, is_refused, until)
  values (coalesce(new.result_code, ''), new.result_description, new.phone, was_refused, now() + interval '5 minutes')
  on conflict (id) do nothing;
  if found then
    insert into private.prompt_incidents (code, description, is_refused)
    values (coalesce(new.result_code, ''), new.result_description, was_refused)
    returning id into incident;
    update private.prompt_pause as paused set incident_id = incident where paused.incident_id is null;
    perform private.queue_staff_message('prompts_paused', incident::text);
    return;
  end if;
  update private.prompt_pause as paused
  set code = coalesce(new.result_code, ''), description = new.result_description, caused_by = new.phone,
      is_refused = was_refused, probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then private.back_off(interval '5 minutes', paused.times, interval '1 hour')
        else interval '5 minutes'
      end
  -- Failures of prompts sent before the pause do not extend it.
  where paused.until <= now();
end
$$;

comment on function private.pause_prompts is
  'Begins, extends or ends the pause of prompts after a prompt was accepted, refused, paid or failed.';

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false,
  although_not_reported boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff();
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  if known.id is null and not coalesce(confirm_till_payment.although_not_reported, false)
    and private.should_be_reported(confirmed_order.id)
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
  then
    perform private.refuse(409, 'receipt_not_reported',
      'M-PESA has not reported this receipt yet. Check it in the till''s own messages before you confirm it');
  end if;
  received := private.reported_amount(code, received);
  known := private.add_till_payment(confirmed_order.id, received, member);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform private.postpone_messages(confirmed_order.id);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid. although_not_reported: consent to a receipt that M-PESA should have reported and has not (receipt_not_reported otherwise).';

create or replace function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff();
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for no key update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = known.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (private.is_in_shop(paid_order.status) or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', private.email_of(member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received not in (known.charge_cents, paid_order.charge_cents) then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform private.postpone_messages(paid_order.id);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order is paid when the amount is its charge, otherwise it needs review.';

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff();
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  -- Windows end with the start of their pull, and one pull runs at a time: the last window is of the last pull.
  select s.finished_at, s.window_to into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete' order by s.window_to desc limit 1;
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from (select * from public.statement_pulls as gap where gap.missed_since is not null offset 0) as s
    where s.outcome = 'complete' and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

create or replace function private.close_messages_to_check(attempt public.payments) returns void
language sql set search_path = '' as $$
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.resolution is null and m.problem = 'unreadable' and (
    (m.payment_id = attempt.id and (
      (attempt.status = 'completed' and attempt.receipt is not null)
      -- A message without a readable code is explained by any final result.
      or (private.has_result(attempt.status) and m.unreadable = array['code'])
    ))
    or (attempt.status = 'completed' and m.receipt = attempt.receipt and not m.unreadable && array['time'])
  );
$$;

comment on function private.close_messages_to_check is
  'Ends the wait of unreadable messages about an attempt once its result and receipt are known.';

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable set search_path = '' as $$
declare
  coverage tstzmultirange := private.statement_coverage(tstzrange(since, until + interval '10 minutes'));
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order'
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when private.ended_unpaid(p.status) then 'wrong_amount'
        -- Paid twice. Earlier versions read this word.
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        -- A payment that joins a later attempt was completed before that was made.
        when (
          case when p.created_at >= since then coverage
            else private.statement_coverage(tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes')) end
        ) @> tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.booked_cents, money.waiting_cents, change.owed_cents, change.returned_cents
    from entries as e
    -- Lookups by key for each entry, with any statistics: an offset keeps the planner from joining whole tables.
    left join lateral (select * from public.payments as p where p.id = e.payment_id offset 0) as p on true
    left join lateral (select * from public.orders as o where o.id = coalesce(p.order_id, (e.t).order_id) offset 0) as o on true
    left join lateral (
      select
        (select sum(own.charge_cents) from (select * from public.payments as own where own.order_id = o.id offset 0) as own
         where own.status = 'completed' and not own.needs_refund) as booked_cents,
        (select sum(part.received_cents) from (select * from public.mpesa_transactions as part where part.order_id = o.id offset 0) as part
         where part.payment_id is null and part.resolution is null) as waiting_cents
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by private.is_dropped_refund(r.status), r.created_at desc
      limit 1
    ) as refund on true
    -- The money of a payment test pays no order.
    where p.purpose is distinct from 'test'
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or not private.is_dropped_refund(c.refund_status)
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    case when (c.p).status in ('completed', 'review') then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function public.reconciliation_day(day date) returns public.reconciliation_day
language plpgsql stable security definer set search_path = '' as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return (
    reconciliation_day.day,
    array(select r from private.reconciliation_rows(since, until) as r order by r.is_open desc, r.happened_at desc, r.id),
    private.statement_coverage(tstzrange(since, until)) @> tstzrange(since, greatest(since, least(until, now() - interval '2 hours'))),
    array(
      select (s.missed_since, s.window_from)::public.period
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since < until and s.window_from > since
      order by s.id
    )
  )::public.reconciliation_day;
end
$$;

comment on function public.reconciliation_day is
  'For staff: both books of a day in Nairobi, open differences first; whether complete statements cover the day; and gaps that no statement covers.';

create or replace function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := private.read_reason(resolve_difference.note);
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(code, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = code)
    );
    begin
      perform from public.orders as o where o.id = of_order for no key update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif code is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || code));
        select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
      end if;
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = code)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = code)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'accepted' and money.status = 'completed' and not money.needs_refund
    and exists (select from public.orders as o where o.id = money.order_id and o.payment_status = 'needs_review')
  then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    money := private.add_till_payment(resolve_difference.order_id, reported.received_cents, member);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    -- Staff can take it back before the customer is notified.
    perform private.postpone_messages(resolve_difference.order_id);
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  -- Money that the shop keeps beyond the charge is owed to its customer.
  kept_cents := case
    when event_kind <> 'accepted' or money.status is distinct from 'completed' then 0
    when money.needs_refund then money.charge_cents
    else greatest(reported.received_cents - money.charge_cents, 0)
  end;
  if kept_cents >= 100 and not exists (select from public.change_notes as c where c.payment_id = money.id) then
    perform private.add_change_note(money, 'credit', kept_cents / 100 * 100, null, reason, member);
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;

comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept: leave it as it is, what is kept beyond the charge becomes credit; reopen. Money of an order that needs review is decided by resolve_review. Recorded in reconciliation_events.';

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;

create or replace function public.suggest_orders(receipt text, search text default '') returns setof public.suggested_order
language plpgsql stable security definer set search_path = '' as $$
declare
  reported public.mpesa_transactions;
  is_search boolean := trim(coalesce(suggest_orders.search, '')) <> '';
  -- Possibly paid by this money, whose receipt was lost.
  missing_receipt uuid[];
  named uuid[];
  of_attempt uuid;
  found_ids uuid[];
begin
  perform private.expect_staff();
  select * into reported from public.mpesa_transactions as t where t.receipt = private.normalised_receipt(suggest_orders.receipt);
  missing_receipt := array(select private.orders_missing_receipt(reported.receipt));
  named := array(select private.orders_named(private.order_numbers_in(reported.reference)));
  of_attempt := (select p.order_id from public.payments as p where p.id = reported.attempt_id);
  if is_search then
    found_ids := array(select s.id from public.search_orders(search => suggest_orders.search, page_size => 8) as s);
  end if;
  return query
  with likely as (
    select o.*, o.id = any (missing_receipt) as lacks_receipt, o.id = any (named) as is_named,
      o.charge_cents = reported.received_cents as fits_amount,
      private.compare_payer_phone(reported.payer_phone, o.customer_phone) as phone_match,
      private.shares_name(reported.payer_name, o.customer_name) as shares_name,
      o.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour' as is_recent
    from public.orders as o
    where o.id in (
      select unnest(named || missing_receipt || of_attempt || found_ids)
      union
      select recent.id from public.orders as recent
      where private.can_be_paid(recent.payment_status)
        and recent.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour'
    )
  ),
  judged as (
    select l.*,
      l.payment_status = 'unpaid' and l.fits_amount and l.is_recent and l.phone_match in ('whole', 'digits') as fits_all
    from likely as l
  ),
  counted as (
    select j.*, count(*) filter (where j.fits_all) over () as fitting from judged as j
  )
  select c.id, c.order_number, c.tracking_number, c.customer_name, c.customer_phone,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.created_at, i.id)
     from public.order_items as i where i.order_id = c.id),
    c.total_amount, c.charge_cents, c.payment_status, c.status, c.created_at, c.lacks_receipt, c.is_named, c.fits_amount,
    c.phone_match, c.shares_name,
    c.fits_all and c.fitting = 1 and cardinality(array_remove(named, c.id)) = 0
      and (cardinality(missing_receipt) = 0 or c.lacks_receipt)
  from counted as c
  where case
    when is_search then c.id = any (found_ids)
    else c.lacks_receipt or c.is_named or c.id = of_attempt
      or (c.payment_status = 'unpaid' and (c.fits_amount or c.phone_match in ('whole', 'digits')))
      or (c.payment_status = 'needs_review' and c.phone_match in ('whole', 'digits'))
  end
  order by c.lacks_receipt desc, c.is_named desc, coalesce(c.phone_match in ('whole', 'digits'), false) desc, c.fits_amount desc,
    c.phone_match = 'whole' desc nulls last, c.shares_name desc nulls last, c.phone_match = 'differs' nulls first, c.created_at desc
  limit case when is_search then 8 else greatest(5, cardinality(named)) end;
end
$$;

comment on function public.suggest_orders is
  'For staff: orders that money may be for, the likeliest first: those with a prompt of this amount and time without a receipt, those that the reference names, then unpaid ones of the days before with the payer''s visible digits or of the same amount. With search: the orders that a search finds, with the same hints.';

-- Taking an assignment back

create or replace function private.was_handed_over(seen public.orders) returns boolean
language sql stable set search_path = '' as $$
  select private.has_left_shop(seen.status)
    -- Cancelled after it left: its units were not returned.
    or (seen.status = 'cancelled' and seen.payment_status = 'paid' and seen.units_returned_at is null)
    or exists (
      select from public.deliveries as d
      where d.order_id = seen.id and private.was_picked_up(d.delivery_status)
    );
$$;

comment on function private.was_handed_over is 'Whether an order was handed over, to a rider or to its customer.';

create or replace function private.reopen_unpaid_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  reopened public.orders;
  minutes interval := private.reservation();
  was_cancelled boolean;
  holds_units boolean;
begin
  select * into strict reopened from public.orders as o where o.id = reopen_unpaid_order.order_id;
  delete from public.deliveries as d where d.order_id = reopened.id;
  -- Its time for payment had passed before the money came.
  was_cancelled := reopened.payment_status = 'paid' and 'cancelled' = (
    select e.details ->> 'from' from public.order_events as e
    where e.order_id = reopened.id and e.kind = 'status_changed' and e.details ->> 'reason' = 'paid'
    order by e.id desc limit 1
  );
  if reopened.status = 'cancelled' or was_cancelled then
    if reopened.status <> 'cancelled' then
      perform private.return_units(reopened.id);
    end if;
    update public.orders as o
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled', cancel_reason = 'not_paid_in_time',
        reserved_until = null, expires_at = null, units_returned_at = null, updated_at = now()
    where o.id = reopened.id;
    return;
  end if;
  -- A paid order has its units. One that needed review takes them, if enough are left.
  holds_units := reopened.payment_status = 'paid' or (
    not exists (select from public.order_items as i where i.order_id = reopened.id and i.product_id is null)
    and private.take_units(reopened.id)
  );
  update public.orders as o
  set payment_status = 'unpaid', payment_method = 'pending', status = 'pending', expires_at = now() + minutes,
      reserved_until = case when holds_units then now() + minutes end, expiry_limit = now() + private.longest_reservation(minutes), extended_at = null,
      updated_at = now()
  where o.id = reopened.id;
end
$$;

comment on function private.reopen_unpaid_order is
  'Makes an order unpaid again whose payment was not its own: with a new time for payment, or cancelled if its time had passed before. The caller has locked the order.';

create or replace function private.settle_order_again(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  settled public.orders;
  exact uuid;
  received bigint;
begin
  select * into strict settled from public.orders as o where o.id = settle_order_again.order_id;
  -- Only money that goes back is left: if M-PESA was not asked for it yet, it pays the order instead.
  if settled.status <> 'cancelled' and not exists (
    select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
  ) then
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
    where private.is_unsent_refund(r.status) and r.tries = 0 and r.payment_id = (
      select p.id from public.payments as p
      where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null
      order by p.charge_cents = settled.charge_cents desc, private.is_being_refunded(p.id, p.receipt), p.completed_at, p.id
      limit 1
    );
  end if;
  -- The exact charge pays the order; otherwise the earliest money counts for it, if none does.
  select p.id into exact from public.payments as p
  where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null and not private.is_being_refunded(p.id, p.receipt)
    and (p.charge_cents = settled.charge_cents or not exists (
      select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
    ))
  order by p.charge_cents = settled.charge_cents desc, not p.needs_refund desc, p.completed_at, p.id
  limit 1;
  if exact is not null then
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = exact and p.needs_refund;
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = settled.id and p.id <> exact and p.status = 'completed' and not p.needs_refund;
  end if;
  select sum(p.charge_cents) into received
  from public.payments as p where p.order_id = settled.id and p.status = 'completed' and not p.needs_refund;
  if received is null then
    perform private.reopen_unpaid_order(settled.id);
  elsif received <> settled.charge_cents and settled.payment_status = 'paid' then
    if not private.put_order_under_review(settled.id) then
      -- Cancelled, and its units were returned.
      update public.orders as o set payment_status = 'needs_review', units_returned_at = null, updated_at = now()
      where o.id = settled.id;
      delete from public.deliveries as d where d.order_id = settled.id;
    end if;
  elsif received = settled.charge_cents and settled.payment_status = 'needs_review' then
    perform private.mark_order_paid(settled.id);
  end if;
  perform private.correct_message_outcomes(p.id)
  from public.payments as p where p.order_id = settled.id and p.status = 'completed';
end
$$;

comment on function private.settle_order_again is
  'Sets what an order is after one of its payments was taken away: paid by another one, under review, or unpaid. The caller has locked the order.';

create or replace function public.take_back_payment(payment_id uuid, note text default null) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(take_back_payment.note);
  paid_order public.orders;
  taken public.payments;
  reported public.mpesa_transactions;
  was_told boolean;
begin
  -- The order first: then its payments and their receipts do not change.
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_payment.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id;
  perform pg_advisory_xact_lock(hashtext('settle ' || taken.receipt)) where taken.receipt is not null;
  select * into reported from public.mpesa_transactions as t where t.receipt = taken.receipt for update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid_order.id is null or taken.status <> 'completed' or taken.method <> 'till' or taken.confirmed_by is null then
    perform private.refuse(409, 'not_assigned_by_staff', 'Only money that staff assigned or typed can be taken back from an order');
  elsif taken.refunded_at is not null or private.is_being_refunded(taken.id, taken.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.receipt is null and exists (select from public.refunds as r where r.payment_id = taken.id and r.tries > 0) then
    perform private.refuse(409, 'refund_exists', 'M-PESA was asked to send this money back before. It stays with its order');
  elsif exists (select from public.change_notes as c where c.payment_id = taken.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif not taken.needs_refund and private.was_handed_over(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and private.may_have_arrived(m.status)
  );
  perform private.record_order_event(paid_order.id, 'payment_taken_back', 'staff', jsonb_build_object(
    'payment_id', taken.id, 'charge_cents', taken.charge_cents, 'receipt', taken.receipt, 'note', reason
  ));
  -- Before the payment is deleted: a second update of the row would check its foreign keys, and wait for the lock of another order.
  update public.mpesa_transactions as t
  set payment_id = null, resolution = null, resolved_by = null, resolved_at = null, updated_at = now(),
      order_id = case when private.order_of_reference(t.reference) = paid_order.id then paid_order.id else t.order_id end
  where t.receipt = taken.receipt;
  -- The messages stay as received, without the payment.
  update public.payment_messages as m
  set payment_id = null, outcome = case when m.source = 'till' then 'taken_back' else 'unmatched' end
  where m.payment_id = taken.id;
  -- Refunds that sent nothing stay with the money, and go with a receipt that only staff typed.
  delete from public.refunds as r where r.payment_id = taken.id and reported.receipt is null;
  update public.refunds as r set payment_id = null, transaction_receipt = reported.receipt, updated_at = now() where r.payment_id = taken.id;
  delete from public.payments as p where p.id = taken.id;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (taken.receipt, taken.id, paid_order.id, 'taken_back', reason, member, private.email_of(member));

  if not taken.needs_refund then
    perform private.settle_order_again(paid_order.id);
    perform private.postpone_messages(paid_order.id);
  end if;
  perform private.withdraw_messages(paid_order.id);
  select * into paid_order from public.orders as o where o.id = paid_order.id;
  if was_told and paid_order.payment_status = 'unpaid' and paid_order.status <> 'cancelled' then
    perform private.queue_order_messages(
      paid_order.id, 'order_payment_corrected', private.payment_event_key(paid_order.id), due_at => now() + private.undo_window()
    );
  end if;
  return paid_order.payment_status;
end
$$;

comment on function public.take_back_payment is
  'For staff: takes money that they assigned or typed back from its order, until the order leaves the shop. The money is unassigned again, and the order is what it was: unpaid with a new time for payment, under review, or paid by other money of its own. A customer who was notified of the payment gets a correction. Returns the order''s payment status.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review, public.note_change,
  public.check_typed_receipt to authenticated, service_role;

create or replace function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  new_status text := private.order_status_of_delivery(new.delivery_status);
  old_status text := private.order_status_of_delivery(old.delivery_status);
begin
  perform private.state('follows_delivery');
  if new_status is not null then
    update public.orders as o
    set status = new_status, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.shown_status(o.status) is distinct from new_status;
  elsif old_status is not null or new.delivery_status = 'failed' then
    -- A delivery that fails without a rider belongs to an order that was shipped without one.
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.shown_status(o.status) = coalesce(old_status, 'out_for_delivery')
      and o.payment_status <> 'refunded';
  end if;
  perform private.state('follows_delivery', false);
end
$$;

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if private.is_stated('undoes') then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(ordered, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(ordered, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (private.is_called_off(ordered) or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is called off.
      new.delivery_status := private.delivery_status_for_order(ordered,
        case when private.is_called_off(ordered) then old.delivery_status else new.delivery_status end, new.delivery_person);
    elsif private.order_status_of_delivery(old.delivery_status) is null and private.is_before_pickup(new.delivery_status)
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif private.is_before_pickup(new.delivery_status) and not private.is_called_off(ordered) then
    new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status <> 'failed' and private.is_called_off(ordered) then
    if ordered.payment_status = 'refunded' then
      perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
    end if;
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  return new;
end
$$;

create or replace function private.order_status_of_delivery(delivery_status text) returns text
language sql immutable
return case
  when private.is_with_rider(delivery_status) then 'out_for_delivery'
  when delivery_status = 'delivered' then 'delivered'
end;

create or replace function private.delivery_status_for_order(ordered public.orders, delivery_status text, delivery_person text) returns text
language sql immutable
return case
  -- Whatever the rider had begun ends; what arrived has arrived.
  when private.is_called_off(ordered) then case when delivery_status = 'delivered' then 'delivered' else 'failed' end
  when ordered.status = 'delivered' then 'delivered'
  when private.shown_status(ordered.status) = 'out_for_delivery' then case
    when private.is_with_rider(delivery_status) then delivery_status
    -- Shipped without a rider: it waits for one.
    when delivery_person is null then 'pending'
    else 'in_transit'
  end
  when not private.was_picked_up(delivery_status) then delivery_status
  when delivery_person is null then 'pending'
  else 'assigned'
end;

comment on function private.delivery_status_for_order is
  'The status that a delivery gets from its order; unchanged if they agree.';

create or replace function private.newest_delivery_of_each_rider(since timestamptz) returns setof public.deliveries
language plpgsql stable
set search_path = ''
-- One step in the index for each rider, whatever number of deliveries they have.
as $$
begin
  return query
  with recursive riders (name) as (
    (select lower(d.delivery_person) from public.deliveries as d where d.delivery_person is not null order by 1 limit 1)
    union all
    select (
      select lower(d.delivery_person) from public.deliveries as d
      where d.delivery_person is not null and lower(d.delivery_person) > r.name
      order by 1 limit 1
    )
    from riders as r where r.name is not null
  )
  select newest.*
  from riders as r
  cross join lateral (
    select * from public.deliveries as d
    where d.delivery_person is not null and lower(d.delivery_person) = r.name and d.created_at > newest_delivery_of_each_rider.since
    order by d.created_at desc, d.id desc limit 1
  ) as newest;
end
$$;

create or replace function public.recent_riders() returns table (
  name text, phone text, vehicle text, open_deliveries integer, last_assigned_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
    with open as materialized (
      select lower(d.delivery_person) as name, count(*)::integer as count
      from (select * from public.deliveries as d where private.is_open_delivery(d.delivery_status) offset 0) as d
      where d.delivery_status <> 'pending' and d.created_at > now() - interval '60 days'
      group by 1
    )
    select latest.delivery_person, latest.delivery_phone, latest.delivery_vehicle,
      coalesce((select o.count from open as o where o.name = lower(latest.delivery_person)), 0), latest.updated_at
    from private.newest_delivery_of_each_rider(now() - interval '60 days') as latest
    order by latest.updated_at desc
    limit 20;
end
$$;

comment on function public.recent_riders is
  'For staff: riders of the last 60 days, with phone and vehicle of their newest delivery and the number of open deliveries.';

-- Execution rights
grant execute on function public.assign_delivery, public.recent_riders to authenticated, service_role;

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
      when private.is_stated('undoes') then '{"reason": "undone"}'
      when kind = 'status_changed' and private.is_stated('although_unpaid') then '{"although_unpaid": true}'
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
      new.id, 'payment_status_changed', case when private.has_money(new.payment_status) then 'mpesa' else 'shop' end,
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
          when private.is_stated('follows_delivery') then 'delivery'
          else nullif(new.cancel_reason, 'by_shop')
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

create or replace function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'charge_cents', new.charge_cents,
    'method', case when new.method <> 'prompt' then new.method end
  );
  result jsonb := payment || jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(new.order_id, 'payment_prompted', 'customer', payment);
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', result);
    end if;
    return;
  end if;
  if not private.is_open_attempt(new.status) then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'review' then 'in_review' else new.status end,
      case new.status when 'unresolved' then 'shop' else 'mpesa' end,
      result || jsonb_build_object('needs_refund', case when new.status = 'completed' and new.needs_refund then true end)
    );
  end if;
end
$$;

-- Records approvals, not every attempt to send.
create or replace function private.record_refund_events(old public.refunds, new public.refunds) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (old.id is not null and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order's status event already shows a refund without a receipt.
    or (old.id is null and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return;
  end if;
  perform private.record_order_event(
    refunded_order,
    'refund_' || case when old.id is null and new.status <> 'completed' then 'requested' else new.status end,
    case when private.has_result(new.status) then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'refund_cents', new.refund_cents, 'method', new.method, 'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end
    ) || case when new.status in ('failed', 'unknown')
      then jsonb_build_object('result_code', new.result_code, 'result_description', new.result_description)
      else '{}'
    end
  );
end
$$;

create or replace function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_paid_order.resolution = 'deliver' and decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  elsif resolve_paid_order.resolution = 'refunded' and (
    decided.payment_status = 'needs_review' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- This procedure must not bypass receipts and approval of refunds.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded', status = 'cancelled', cancel_reason = coalesce(o.cancel_reason, 'refunded'),
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_review' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  end if;
end
$$;

comment on function public.resolve_paid_order is
  'For staff: deliver an order that needs review, if its units are in stock; or mark such an order, or a cancelled one, as refunded, if the shop has no payment of it. Payments are refunded by request_refund or note_refund_by_hand.';

create or replace function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  -- For customers, shipped and out_for_delivery are the same.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
  elsif not private.is_stated('although_unpaid') and not private.is_stated('undoes') then
    perform private.refuse(409, 'order_unpaid', 'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;

comment on function private.check_handover is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless although_unpaid was passed to set_order_status or set_delivery_status.';

create or replace function private.order_state(order_id uuid) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'status', o.status,
    'cancel_reason', o.cancel_reason,
    'payment_status', o.payment_status,
    'delivery', (
      select jsonb_build_object(
        'delivery_status', d.delivery_status, 'delivery_person', d.delivery_person,
        'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create or replace function public.set_order_status(
  order_id uuid, status text, expected_status text, expected_payment_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.orders;
  state_before jsonb;
begin
  perform private.expect_staff();
  select * into changed from public.orders as o where o.id = set_order_status.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif (changed.status, changed.payment_status) is distinct from (set_order_status.expected_status, set_order_status.expected_payment_status) then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.id);
  perform private.state('although_unpaid', set_order_status.although_unpaid);
  update public.orders as o
  set status = set_order_status.status, cancel_reason = case when set_order_status.status = 'cancelled' then 'by_shop' end, updated_at = now()
  where o.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.id, state_before);
end
$$;

comment on function public.set_order_status is
  'For staff: sets the status of an order that still has the expected status and payment status. although_unpaid: consent to hand it over unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message is sent after that time.';

create or replace function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff();
  select * into changed from public.deliveries as d where d.id = set_delivery_status.delivery_id;
  if not found then
    perform private.refuse(404, 'delivery_not_found', 'This delivery does not exist');
  end if;
  perform from public.orders as o where o.id = changed.order_id for no key update;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  select * into changed from public.deliveries as d where d.id = changed.id for no key update skip locked;
  if not found or changed.delivery_status is distinct from set_delivery_status.expected_status then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  perform private.state('although_unpaid', set_delivery_status.although_unpaid);
  update public.deliveries as d set delivery_status = set_delivery_status.status where d.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.set_delivery_status is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. although_unpaid and result as in set_order_status.';

create or replace function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff();
  select * into change from private.status_changes as c
  where c.id = undo_status_change.change_id and c.changed_by is not distinct from (select auth.uid())
  for update;
  if not found or change.undo_until < clock_timestamp() then
    perform private.refuse(409, 'undo_too_late', 'It is too late to undo this. Set the status again instead');
  end if;
  had_delivery := nullif(change.state_before -> 'delivery', 'null');
  perform from public.orders as o where o.id = change.order_id for no key update;
  -- A locked delivery counts as changed, as in set_delivery_status.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  elsif exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_window()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform private.state('undoes');
  update public.orders as o
  set status = change.state_before ->> 'status', cancel_reason = change.state_before ->> 'cancel_reason', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz
    where d.order_id = change.order_id;
  end if;
  perform private.state('undoes', false);
  perform private.withdraw_messages(change.order_id);
  delete from private.status_changes as c where c.id = change.id;
end
$$;

comment on function public.undo_status_change is
  'For the staff member who made a change: restores the status of order and delivery with its times, and withdraws the message. Refuses after the undo window, once the message was sent, or if the order has changed again.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change to authenticated, service_role;

create or replace function private.work_step(order_status text, payment_status text, delivery_status text) returns text
language sql immutable
return case
  when payment_status <> 'paid' or not private.is_open_order(order_status) then null
  when delivery_status = 'failed' then 'failed'
  when private.shown_status(order_status) = 'out_for_delivery' then 'on_the_way'
  when delivery_status = 'assigned' then 'assigned'
  else 'prepare'
end;

comment on function private.work_step is
  'What a paid order waits for: prepare (in the shop, without a rider), assigned (its rider picks it up), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing. Also of orders that were shipped without a rider, delivery_status is pending until one is assigned.';

create or replace function private.order_text(o public.orders) returns text
language sql immutable
return o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n'
  || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city;

comment on function private.order_text is 'What a search reads of an order, as the index orders_by_words has it.';

create or replace function private.rider_text(d public.deliveries) returns text
language sql immutable
return coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g');

comment on function private.rider_text is 'What a search reads of the rider of a delivery, as the index deliveries_by_rider has it.';

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(private.without_accents(search), 200));
  typed_receipt text := private.normalised_receipt(search);
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select named.id from private.orders_named(private.order_numbers_in(written)) as named (id)
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;

comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, order number or M-PESA receipt was typed completely; then only these match.';

create or replace function private.is_in_item_names(pattern text) returns boolean
language sql stable
set search_path = ''
-- Bounds the cost of any text: the planner cannot know how rare a pattern is, and would scan every item for an unknown word.
set enable_seqscan = off
set jit = off
as $$
  select exists (
    select from public.order_items as i
    where private.without_accents(i.product_name) like pattern
  );
$$;

comment on function private.is_in_item_names is 'Whether a LIKE pattern matches the name of any ordered product.';

create or replace function private.is_in_rider_names(pattern text) returns boolean
language sql stable set search_path = '' set enable_seqscan = off set jit = off as $$
  select exists (
    select from public.deliveries as d
    where private.without_accents(private.rider_text(d)) like pattern
  );
$$;

comment on function private.is_in_rider_names is 'Whether a LIKE pattern matches the name or phone of any rider.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, is_count boolean, out by_index text, out by_row text, out candidates text, out is_exact boolean,
  out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := 'private.without_accents(%s)';
  order_text constant text := format(folded, 'private.order_text(o)');
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, 'private.rider_text(d)');
  is_open constant text := $sql$private.is_open_order(o.status)$sql$;
  is_open_delivery constant text := $sql$private.is_open_delivery(d.delivery_status)$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
  -- A count stops at 501 orders, of which few have more than three lines with the same word.
  bound text := '';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;
  is_exact := false;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and private.is_on_the_way(o.status)$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_open || format($sql$ and o.payment_status = 'paid' and private.work_step(
          o.status, o.payment_status, (select d.delivery_status from public.deliveries as d where d.order_id = o.id)
        ) = %L$sql$, filters.due)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
      is_exact := true;
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_exact := true;
    is_broad := false;
  elsif typed.words is not null then
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    is_exact := cardinality(in_order) + cardinality(anywhere) = cardinality(typed.words) and (in_order = '{}' or anywhere = '{}');
    checked := checked || format('(%s like all (%L::text[])%s)',
      order_text || case when in_order <> typed.words then
        format($sql$ || E'\n' || coalesce((select string_agg(%s, E'\n') from public.order_items as i where i.order_id = o.id), '')$sql$, item_text)
        || case when is_orders then '' else format($sql$ || E'\n' || %s$sql$, rider_text) end
        else '' end,
      typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    if is_count and is_orders and is_exact and cardinality(anywhere) = 1 and cardinality(checked) = 1 and array_to_string(indexed, '') = '' then
      bound := ' limit 1503';
    end if;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('((select i.order_id as id from public.order_items as i where %s like %L%s)', item_text, p.pattern, bound)
          || format(' union (select o.id from public.orders as o where %s like %L%s)', order_text, p.pattern, bound)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    is_exact := false;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    is_exact := true;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
  is_exact := is_exact and cardinality(checked) = 1;
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_exact: whether each candidate meets by_row; is_broad: whether the newest rows are scanned first.';

create or replace function private.find_in_list(
  filters private.list_filters, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  conditions record;
  found_ids uuid[];
  is_whole_list boolean := false;
  nearby integer;
begin
  conditions := private.list_conditions(filters, false);
  if conditions.is_broad then
    -- A few of the newest rows show whether a search is broad. Then its page is soon complete; rarer matches come from the candidates.
    foreach nearby in array case
      when conditions.by_row is null then array[most]
      when conditions.candidates is null then array[10 * most, greatest(private.short_search_rows(), 10 * most)]
      else array[10 * most, 40 * most]
    end loop
      select w.found_ids, w.is_whole_list into found_ids, is_whole_list
      from private.walk_list(filters.list, conditions.by_index, conditions.by_row, before_created_at, before_id, most, nearby) as w;
      exit when is_whole_list or coalesce(cardinality(found_ids), 0) = most
        or (conditions.candidates is not null and 4 * coalesce(cardinality(found_ids), 0) < most);
    end loop;
  end if;
  if conditions.candidates is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'select array_agg(page.id) from (%s and ($2 is null or (n.created_at, n.id) < ($1, $2)) limit $3) as page',
      private.rows_of_candidates(
        filters.list, conditions.by_index, case when conditions.is_exact then 'true' else conditions.by_row end, conditions.candidates
      )
    ) into found_ids using before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;

comment on function private.find_in_list is 'The ids of a page of a staff list, newest first.';

create or replace function private.count_in_list(filters private.list_filters) returns integer
language plpgsql stable set search_path = '' as $$
declare
  conditions record;
  count integer;
begin
  conditions := private.list_conditions(filters, true);
  if filters.list = 'orders' and conditions.by_row is null and conditions.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif conditions.by_row is null then
    count := private.count_along_index(filters.list, conditions.by_index, case when filters.rider <> '' then 501 else 10001 end);
  elsif conditions.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(filters.list, conditions.by_index, conditions.by_row, null, null, 501, private.short_search_rows()) as w;
  elsif conditions.is_exact then
    execute format(
      'select count(*) from (
         select from (%1$s) as c%2$s limit 501
       ) as bounded',
      conditions.candidates,
      case when filters.list <> 'orders' or conditions.by_index <> 'true' then format(
        ' cross join lateral (select %1$s.* from public.%2$I as %1$s where %1$s.%3$s = c.id limit 1) as %1$s where %4$s',
        case when filters.list = 'orders' then 'o' else 'd' end, filters.list,
        case when filters.list = 'orders' then 'id' else 'order_id' end, conditions.by_index
      ) end
    ) into count;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit 501) as bounded',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into count;
  end if;
  return count;
end
$$;

comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most 501. All orders are counted exactly.';

create or replace function private.before_inquiry_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request bounds the checks of an insert.
    if private.is_stated('has_inquiry') then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform private.state('has_inquiry');
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
  elsif private.visible_length(left(new.name, 300)) = 0 then
    perform private.refuse(400, 'name_invalid', 'Please enter your name');
  elsif private.visible_length(left(new.message, 10000)) = 0 then
    perform private.refuse(400, 'message_invalid', 'Please write a message');
  end if;
  -- Subject and phone; long texts are refused by the constraints.
  return private.without_invisible_texts(new);
end
$$;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', private.payment_event_key(new.id));
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if private.is_on_the_way(new.status) then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_window());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      if new.cancel_reason = 'not_paid_in_time' then
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

create or replace function private.release_messages(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  with released as (
    update public.outbox_messages as m
    set has_priority = true,
        status = case when m.status = 'over_budget' then 'waiting' else m.status end,
        next_attempt_at = case when m.status = 'over_budget' then now() else m.next_attempt_at end,
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
language plpgsql volatile set search_path = '' as $$
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

create or replace function private.postpone_messages(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  with postponed as (
    update private.outbox_queue as q set due_at = now() + private.undo_window()
    from public.outbox_messages as m
    where m.order_id = postpone_messages.order_id and m.id = q.message_id and q.due_at = now()
    returning q.message_id, q.due_at
  )
  update public.outbox_messages as m set next_attempt_at = p.due_at from postponed as p where m.id = p.message_id;
end
$$;

comment on function private.postpone_messages is
  'Delays what this transaction says about an order by the undo window: staff typed it and can correct it.';

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
    next_at := now() + private.back_off(interval '30 seconds', sent.attempts - 1, interval '2 hours');
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

create or replace function private.sent_without_priority(channel text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*)
    from (
      select m.kind, m.status from public.outbox_messages as m
      where m.channel = sent_without_priority.channel and not m.has_priority
        and m.sending_since >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
      -- Keeps the planner from the index by status, which is of all messages ever sent.
      offset 0
    ) as m
    where m.kind <> 'newsletter_confirmation' and private.may_have_arrived(m.status)
  );
end
$$;

comment on function private.sent_without_priority is
  'Messages of a channel sent today about orders that visitors placed without paying. Those of an order stop counting when it is paid.';

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
    when 'order_paid' then private.was_paid(o.payment_status)
    when 'order_payment_held' then o.payment_status = 'needs_review'
    when 'order_payment_corrected' then o.payment_status = 'unpaid' and o.status <> 'cancelled'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

create or replace function private.unsettled_money_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
declare
  unsettled public.orders;
begin
  select * into unsettled from public.orders as o where o.id = unsettled_money_reason.order_id;
  return case
    when unsettled.payment_status = 'unpaid' and unsettled.status <> 'cancelled' then 'It waits for its payment'
    when unsettled.payment_status = 'needs_review' then 'Its payment needs review'
    when exists (
      select from public.payments as p where p.order_id = unsettled.id and private.is_unsettled_attempt(p.status)
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and private.is_open_refund(r.status)
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
    when exists (
      select from public.payments as p
      join public.change_notes as c on c.payment_id = p.id
      where p.order_id = unsettled.id and p.refunded_at is null
      group by p.id
      having sum(c.amount_cents) filter (where c.kind = 'to_return') > coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0)
    ) then 'Change is owed to its customer'
    when exists (
      select from public.messages_to_check as m
      join public.payments as p on p.id = m.payment_id
      where p.order_id = unsettled.id and m.resolution is null
    ) then 'A message of M-PESA about its payment is being checked'
  end;
end
$$;

comment on function private.unsettled_money_reason is
  'Why the money of an order is not settled yet, as a sentence. Null: settled. Until then the customer''s details are needed.';

create or replace function private.retention_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
begin
  return coalesce(private.unsettled_money_reason(retention_reason.order_id), (
    select 'It is paid and not delivered yet'
    from public.orders as o
    where o.id = retention_reason.order_id and o.payment_status = 'paid' and private.is_open_order(o.status)
  ), (
    select 'A message to its customer is being sent'
    from public.outbox_messages as m
    where m.order_id = retention_reason.order_id and m.status = 'sending'
    limit 1
  ));
end
$$;

comment on function private.retention_reason is
  'Why an order cannot be anonymised on request yet, as a sentence. Null: it can. Retention periods ignore deliveries.';

create or replace function private.orders_of_person(email text, phone text) returns uuid[]
language plpgsql stable set search_path = '' as $$
begin
  return array(
    select o.id
    from public.orders as o
    -- Served by the index of the order search.
    where private.without_accents(private.order_text(o)) like
        '%' || regexp_replace(private.without_accents(coalesce(orders_of_person.email, orders_of_person.phone)), '([\\%_])', '\\\1', 'g') || '%'
      and (lower(o.customer_email) = orders_of_person.email or o.customer_phone = orders_of_person.phone)
    order by o.created_at desc, o.id
  );
end
$$;

comment on function private.orders_of_person is 'The orders with this email address, in lower case, or this phone, newest first.';

create or replace function public.erase_person(identifier text) returns public.erasure
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  closed uuid[];
  erased public.erased_counts;
  postponed public.postponed_order[];
begin
  perform private.expect_staff();
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.id = any (private.orders_of_person(person.email, person.phone)
        || array(select p.order_id from public.payments as p where p.phone = person.phone and p.order_id is not null))
      and o.anonymised_at is null
    order by o.id
    for no key update
  );

  closed := array(
    select o.id from public.orders as o
    where o.id = any (order_ids) and (lower(o.customer_email) = person.email or o.customer_phone = person.phone)
      and private.retention_reason(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased.orders := cardinality(closed);
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.retention_reason(p.order_id) is null;
  get diagnostics erased.payments_for_others = row_count;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.retention_reason(e.order_id) is null;
  update public.payments as p set phone = ''
  where p.purpose = 'test' and p.phone = person.phone and not private.is_open_attempt(p.status);

  delete from public.inquiries as i where lower(i.email) = person.email or private.is_phone(i.phone, person.phone);
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

  postponed := array(
    select (
      o.id, o.order_number, private.retention_reason(o.id),
      coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
    )::public.postponed_order
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.retention_reason(o.id) is not null
    order by o.created_at desc
  );
  perform private.log_personal_data_request(
    'erasure', person_key, to_jsonb(erased) || jsonb_build_object('postponed', cardinality(postponed))
  );
  return (person_key, erased, postponed)::public.erasure;
end
$$;

comment on function public.erase_person is
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create or replace function private.count_change(old private.day_figures, new private.day_figures) returns void
language plpgsql set search_path = '' as $$
declare
  moved private.day_figures;
begin
  if old is not distinct from new then
    return;
  end if;
  foreach moved in array array[(old.day, -old.orders, -old.revenue_cents, -old.received_cents)::private.day_figures, new] loop
    continue when moved.day is null;
    update private.daily_totals as t
    set orders = t.orders + moved.orders,
        revenue_cents = t.revenue_cents + moved.revenue_cents,
        received_cents = t.received_cents + moved.received_cents
    where t.id = (select free.id from private.daily_totals as free where free.day = moved.day limit 1 for update skip locked);
    if not found then
      insert into private.daily_totals (day, orders, revenue_cents, received_cents)
      values (moved.day, moved.orders, moved.revenue_cents, moved.received_cents);
    end if;
  end loop;
end
$$;

comment on function private.count_change is
  'Replaces what a row counts in daily_totals; null: nothing. Never waits for another transaction.';

create or replace function public.system_status() returns table (
  checked_at timestamptz, last_backup_at timestamptz, last_backup_outcome text, last_attempt_at timestamptz,
  last_attempt_outcome text, last_attempt_problem text, last_payment_answer_at timestamptz, overdue_payments bigint,
  opened_at timestamptz, prompts_paused_since timestamptz
)
language sql stable security definer set search_path = '' as $$
  select private.expect_staff();
  select
    clock_timestamp(),
    made.finished_at,
    made.outcome,
    tried.finished_at,
    tried.outcome,
    tried.problem,
    (select m.received_at from public.payment_messages as m order by m.id desc limit 1),
    (
      select count(*) from public.payments as p
      where p.purpose = 'order' and private.is_open_attempt(p.status) and p.created_at < now() - interval '5 minutes'
    ),
    (select min(a.created_at) from public.admin_profiles as a),
    (select paused.since from private.prompt_pause as paused)
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;

comment on function public.system_status is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, prompts open for more than five minutes, when the first staff account was created, and since when prompts do not work (null: they do).';

create or replace function public.dashboard_figures() returns table (
  products bigint, orders bigint, inquiries bigint, revenue bigint, received bigint, received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  monday date := date_trunc('week', today::timestamp)::date;
begin
  perform private.expect_staff();
  return query
  select
    (select coalesce(sum(c.products), 0)::bigint from private.catalogue_counts as c),
    coalesce(sum(t.orders), 0)::bigint,
    (select count(*) from public.inquiries),
    coalesce(sum(t.revenue_cents), 0)::bigint,
    coalesce(sum(t.received_cents), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= monday), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= today), 0)::bigint
  from private.daily_totals as t;
end
$$;

comment on function public.dashboard_figures is
  'For staff: active products, orders, inquiries, and money in cents. revenue: total of all orders, paid or not (docs/product.md#numbers). received: money for orders minus refunds, by its time; days of Nairobi, weeks from Monday.';

create or replace function public.count_payments_since(since timestamptz default null) returns table (count integer, newest timestamptz)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    (select count(*)::integer from (
      select from public.payments as p
      where p.completed_at > count_payments_since.since and p.status = 'completed' and p.purpose = 'order'
      limit 101
    ) as bounded),
    (select max(p.completed_at) from public.payments as p where p.status = 'completed' and p.purpose = 'order');
end
$$;

comment on function public.count_payments_since is
  'For staff: the number of orders'' payments that were completed after a time (101: more than 100; 0 for null), and when the newest was completed.';

create or replace function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  since timestamptz := day_totals.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (day_totals.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return query
  with orders as (
    select o.total_amount, o.charge_cents, o.delivery_fee, o.payment_status <> 'unpaid' as is_paid, money.payments, money.cents, money.then_cents
    from public.orders as o
    cross join lateral (
      select count(*) as payments, coalesce(sum(p.charge_cents), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      coalesce(sum(o.cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees
    from orders as o
  ), by_payment as (
    select
      coalesce(sum(p.charge_cents), 0) as received,
      coalesce(sum(p.charge_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(p.charge_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from public.payments as p
    left join lateral (select o.payment_status from public.orders as o where o.id = p.order_id offset 0) as o on true
    left join lateral (select t.transacted_at from public.mpesa_transactions as t where t.payment_id = p.id offset 0) as t on true
    where p.status = 'completed' and p.purpose = 'order' and p.completed_at >= since and p.completed_at < until
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    cross join lateral (select p.* from public.payments as p where p.id = t.payment_id offset 0) as p
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), sent_back as (
    select coalesce(sum(money.cents), 0)::bigint as cents
    from (
      select r.refund_cents as cents
      from public.refunds as r
      cross join lateral (select p.purpose from public.payments as p where p.id = r.payment_id offset 0) as p
      where r.status = 'completed' and p.purpose = 'order' and r.completed_at >= since and r.completed_at < until
      union all
      select c.amount_cents from public.change_notes as c where c.kind = 'returned' and c.noted_at >= since and c.noted_at < until
    ) as money
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, -d.cents, b.received - d.cents,
    c.cents - b.left_day, b.received + c.cents - b.left_day,
    a.delivery_fees, b.in_review
  from by_order as a, by_payment as b, other_day as c, sent_back as d;
end
$$;

comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_otherwise (paid without M-PESA) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received (payments completed on the day); + refunded (refunds, and change that went back) = net_received, as in dashboard_figures; received + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days. Included: delivery_fees of paid orders, in_review of received.';

-- Metrics for monitoring (docs/monitoring.md)

create or replace function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and private.is_open_attempt(p.status)
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and private.is_open_attempt(p.status)
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
  select 'messages_to_check', null, count(*) from public.messages_to_check as m where m.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
  )
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    -- Not where source = known.source: with statistics the planner would read all messages backwards for one of a rare source.
    select m.received_at
    from (select * from public.payment_messages as m where m.source >= known.source order by m.source, m.id desc limit 1) as m
    where m.source = known.source
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and private.is_open_refund(r.status)
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

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures, public.day_totals,
  public.count_payments_since to authenticated;

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

-- Orders

create or replace function private.before_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    delete from private.order_networks as k where k.order_id = old.id;
    return old;
  end if;
  if new.status <> 'cancelled' then
    new.cancel_reason := null;
  elsif old.status <> 'cancelled' and new.cancel_reason is null and auth.uid() is not null then
    -- Only staff have accounts; they may write no more than the status.
    new.cancel_reason := 'by_shop';
  end if;
  if (private.can_be_paid(old.payment_status) and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (private.has_money(old.payment_status) and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_review' and old.status <> new.status
      and not private.is_before_work(new.status))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and private.has_left_shop(new.status) then
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
  if private.has_money(old.payment_status) and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if (old.status <> new.status or private.is_called_off(old) <> private.is_called_off(new))
    and not private.is_stated('undoes')
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

create or replace function private.after_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A test pays no order; it only proves that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    elsif tg_op = 'UPDATE' and old.checkout_request_id is null and new.checkout_request_id is not null then
      perform private.end_refusal_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if private.is_open_attempt(new.status) then
      perform private.notify_order_followers(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if new.method = 'prompt' and (
    (old.status <> new.status and private.has_result(new.status))
    or (old.checkout_request_id is null and new.checkout_request_id is not null)
  ) then
    perform private.pause_prompts(new);
  end if;
  if new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)) then
    perform private.refund_order_of_payment(new);
  end if;
  if old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
    old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
  )) then
    perform private.notify_order_followers(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

create or replace function private.after_refund_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A refund that got its payment later has been recorded.
  if tg_op = 'UPDATE' and old.payment_id is distinct from new.payment_id then
    return null;
  end if;
  if tg_op = 'INSERT' then
    perform private.record_refund_in_reconciliation(new);
  end if;
  if new.payment_id is not null then
    perform private.notify_order_followers(p.order_id) from public.payments as p where p.id = new.payment_id;
  end if;
  perform private.record_refund_events(old, new);
  if old.status <> new.status and private.is_dropped_refund(new.status) then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;

create or replace function private.after_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.record_delivery_events(old, new);
  if old.delivery_status is distinct from new.delivery_status and not private.is_stated('undoes') then
    perform private.move_order_with_delivery(old, new);
  end if;
  return null;
end
$$;

-- What the shop's processes ask: which jobs have work, and whether the database fits their version

create or replace function private.is_job_due(job text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that do or lease the work, such as lease_payment_queries.
  return case is_job_due.job
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or private.is_open_attempt(p.status)
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where private.is_unsent_refund(r.status)
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    when 'expire-reservations' then exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
    ) or exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
    ) or exists (
      select from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
    ) or exists (select from public.payments as p where p.status = 'review')
    when 'send-messages' then exists (
      select from private.outbox_queue as q where q.channel = 'mail' and q.due_at <= now()
    ) or exists (
      select from private.outbox_queue as q where q.channel = 'text' and q.due_at <= now()
    ) or exists (
      select from public.outbox_messages as m where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    )
    else false
  end;
end
$$;

comment on function private.is_job_due is 'Whether a job of the shop''s processes has work now.';
