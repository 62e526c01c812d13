-- Networks are limited by the time for which they hold units (private.hold_time), no longer by their number.
alter table private.order_networks drop column product_id, drop column taken;

comment on column public.store_settings.reserved_share_percent is
  'Percentage of a product''s units that unpaid orders may hold from placing. Orders beyond it hold units for some minutes from a prompt.';
comment on column public.newsletter_subscriptions.confirmation_queued_at is
  'When the last confirmation mail was queued: at most one in 30 days. An unconfirmed address is deleted seven days later.';

drop trigger products_before_change on public.products;

drop function private.has_payment_in_progress(uuid,timestamp with time zone);

drop function private.is_within_unit_allowance(text[],uuid,integer,bigint);

drop function private.may_hold_units(text[],uuid,integer,integer,integer);

drop function private.refuse_blank(text,text);

create or replace function private.visible_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return char_length(regexp_replace(
    written,
    '[\u0001-\u0020\u007f-\u00a0\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0600-\u0605\u0610-\u061c'
    '\u064b-\u065f\u0670\u06d6-\u06dd\u070f\u0890\u0891\u08e2\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0e31\u0e34-\u0e3a'
    '\u0e47-\u0e4e\u115f\u1160\u135d-\u135f\u1680\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff'
    '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u20d0-\u20f0\u2800\u3000\u302a-\u302f\u3099\u309a\u3164'
    '\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f'
    '\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]',
    '', 'g'
  ));
end
$$;

comment on function private.visible_length is
  'Number of characters that a reader sees: without white space, control and format characters, and combining marks. Counts as domain/visible-text.ts.';

create or replace function private.visible_text(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  return case when private.visible_length(written) > 0 then trim(written) end;
end
$$;

comment on function private.visible_text is 'A text without the spaces around it; null for one that a reader does not see.';

create or replace function private.without_invisible_texts(written anyelement) returns anyelement
language plpgsql stable set search_path = '' as $$
declare
  cleared jsonb;
begin
  select jsonb_object_agg(field.key, case when a.attnotnull then '' end) into cleared
  from jsonb_each_text(to_jsonb(written)) as field
  join pg_catalog.pg_attribute as a on a.attname = field.key and a.atttypid = 'text'::regtype
    and a.attrelid = (select t.typrelid from pg_catalog.pg_type as t where t.oid = pg_typeof(written))
  where field.value <> '' and private.visible_length(left(field.value, 10000)) = 0;
  return case when cleared is null then written else jsonb_populate_record(written, cleared) end;
end
$$;

comment on function private.without_invisible_texts is
  'A row that visitors or staff write, before it is stored: a text that a reader does not see counts as none. Constraints then refuse it where one is required.';

create or replace function private.read_reason(written text, is_required boolean default false) returns text
language plpgsql immutable set search_path = '' as $$
declare
  reason text := private.visible_text(left(written, 1000));
begin
  if char_length(reason) > 200 or private.visible_length(reason) < 3 or (is_required and reason is null) then
    if is_required then
      perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
    end if;
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  return reason;
end
$$;

comment on function private.read_reason is
  'The reason or note of a staff member, trimmed; null for none. Refuses one with fewer than 3 visible characters or more than 200.';

create or replace function private.before_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create or replace function private.fold_synonym() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' and (select count(*) from public.search_synonyms) >= 500 then
    raise exception 'there are at most 500 search words' using errcode = '23514';
  end if;
  new.word := private.fold_text(coalesce(private.visible_text(left(new.word, 200)), ''));
  new.means := private.fold_text(coalesce(private.visible_text(left(new.means, 1000)), ''));
  new.stem := coalesce(private.stem_text(new.word), '');
  return new;
end
$$;

create or replace function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text
) returns private.order_details
language plpgsql immutable set search_path = '' as $$
declare
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
begin
  -- octet_length is cheap: longer texts are refused before they are trimmed, matched or counted.
  if octet_length(customer_name) > 4000 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(customer_email) > 4000 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(octet_length(delivery_location), octet_length(building), octet_length(unit)) > 4000 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(delivery_notes) > 4000 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(customer_name);
  email := trim(customer_email);
  phone := private.normalised_phone(customer_phone);
  location := trim(delivery_location);
  building_name := private.visible_text(building);
  unit_name := private.visible_text(unit);
  -- Line feeds stay; other control characters become spaces.
  notes := private.visible_text(regexp_replace(delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g'));

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or private.visible_length(name) < 2 or private.has_control_characters(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  elsif char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif not private.is_email(email) or private.has_control_characters(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif phone is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif location is null or private.word_length(location) < 3
    or private.has_control_characters(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  elsif char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  return (
    name, email, phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;

comment on function private.read_order_details is 'Checks and trims what a customer typed; refuses what is missing, invalid or too long.';

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

create or replace function private.end_reviews() returns void
language plpgsql
set search_path = ''
-- Starts from the few attempts under review, not from all orders in order of id.
set enable_sort = on
set enable_bitmapscan = on
set jit = off
as $$
declare
  reviewed record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
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
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;
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

create or replace function private.reduce_abandoned_orders() returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
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

create table private.hold_time (
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
  -- What counts no longer may be deleted at this moment.
  where date_bin('5 minutes', counted.held_until, timestamptz '2000-01-01') + interval '1 hour 5 minutes' > now()
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

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  unreadable text[] default '{}', ended_by text default null
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
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into stored_message;

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
    when 'second_payment' then
      message_outcome := 'paid_twice';
      settled_id := private.add_second_payment(attempt, report);
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
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; a failure that names money needs review; every receipt stays in the books; an amount other than the charge needs review. unreadable: what the message has but cannot be read (code, receipt, amount): it waits for staff in messages_to_check.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

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
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', reported.received_cents, 'unresolved', 'till')
    returning * into known;
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

-- Updates the order of a refunded payment, as resolve_paid_order does.
create or replace function private.refund_order_of_payment(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for no key update;
  if new.needs_refund or refunded_order.payment_status not in ('paid', 'needs_review') then
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
  if refunded_order.payment_status = 'paid' and refunded_order.status in ('pending', 'processing') then
    perform private.return_units(refunded_order.id);
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_review' or refunded_order.status in ('pending', 'processing') then 'cancelled'
        else o.status
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_review' or refunded_order.status in ('pending', 'processing') then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
end
$$;

-- Refuses payments that cannot be refunded. Locks the order first.
create or replace function private.lock_refundable_payment(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = lock_refundable_payment.payment_id)
  for no key update;
  select * into paid from public.payments as p where p.id = lock_refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif paid.status <> 'completed' or not (
    paid.needs_refund
    or paid.purpose = 'test'
    or paid_order.payment_status = 'needs_review'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  return paid;
end
$$;

create or replace function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  reason := private.read_reason(reason, is_required => true);
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, reason,
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  if opened.status = 'requested' then
    perform private.queue_staff_message('refund_to_approve', opened.id::text, except_member => member);
  end if;
  return opened;
end
$$;

comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

-- All functions lock in the same order, against deadlocks: the order, the receipt (its advisory lock, then its row of
-- mpesa_transactions), the payment, the refund; last the products, by id.
create or replace function private.lock_refund(refund_id uuid) returns public.refunds
language plpgsql set search_path = '' as $$
declare
  seen public.refunds;
  locked public.refunds;
begin
  -- The order and receipt must be locked first, but are known only after reading. If they changed before the lock, read again.
  loop
    select * into seen from public.refunds as r where r.id = lock_refund.refund_id;
    if not found then
      perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
    end if;
    begin
      perform from public.orders as o
      where o.id = (select p.order_id from public.payments as p where p.id = seen.payment_id)
      for no key update;
      if seen.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || seen.receipt));
        perform from public.mpesa_transactions as t where t.receipt = seen.receipt for update;
      end if;
      perform from public.payments as p where p.id = seen.payment_id for update;
      select * into strict locked from public.refunds as r where r.id = seen.id for update;
      if (locked.payment_id, locked.receipt) is distinct from (seen.payment_id, seen.receipt) then
        raise exception using errcode = 'JJ001';
      end if;
      return locked;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
end
$$;

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  seen public.refunds := private.lock_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member, sent_twice_seen_by_email = private.email_of(member),
      sent_twice_note = private.read_reason(acknowledge_sent_twice.note, is_required => true), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;

comment on function public.acknowledge_sent_twice is 'Records how staff resolved money that was refunded twice.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

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
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (confirmed_order.id, '', received, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
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
  perform set_config('private.is_typed_by_staff', '', true);
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
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or received = known.charge_cents))
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
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received not in (known.charge_cents, paid_order.charge_cents) then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order is paid when the amount is its charge, otherwise it needs review.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

create or replace function private.receive_reversal(
  source text, receipt text, received_cents integer, reference text, reversed_at timestamptz, body text, reversed_receipt text
) returns text
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  original text;
  reversed public.payments;
  refund public.refunds;
  outcome text;
  state text;
begin
  -- The reversed payment is named, or its receipt is the reference, or the reversal has its receipt.
  select named.receipt into original
  from unnest(array[
    private.normalised_receipt(receive_reversal.reversed_receipt), private.normalised_receipt(receive_reversal.reference),
    receive_reversal.receipt
  ]) with ordinality as named (receipt, place)
  where exists (select from public.payments as p where p.receipt = named.receipt)
    or exists (select from public.mpesa_transactions as t where t.receipt = named.receipt)
  order by named.place
  limit 1;

  select * into refund from public.refunds as r
  where r.refund_receipt = receive_reversal.receipt
    or (r.receipt = original and r.tries > 0 and r.status <> 'withdrawn')
  order by r.refund_receipt is not distinct from receive_reversal.receipt desc, r.status = 'failed', r.created_at desc
  limit 1;
  if refund.status = 'completed' and (
    refund.refund_receipt = receive_reversal.receipt or refund.refund_receipt is null and receive_reversal.receipt = original
  ) then
    return 'already_completed';
  elsif refund.id is not null then
    outcome := (public.settle_reversal(
      refund.id, receive_reversal.source, receive_reversal.body, 'succeeded', '0', 'Reversed, by the statement',
      nullif(receive_reversal.receipt, original), abs(receive_reversal.received_cents)
    )).outcome;
    if outcome in ('completed', 'already_completed') then
      return outcome;
    end if;
  end if;

  -- Locked first: the message's reference to the payment locks that.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.receipt = original) for no key update;
  select p.* into reversed from public.payments as p where p.receipt = original;
  state := private.add_message_to_check(
    receive_reversal.source, 'reversed', receive_reversal.body, '{}', receive_reversal.receipt, receive_reversal.received_cents,
    receive_reversal.reversed_at, coalesce(original, receive_reversal.reference), reversed.id, refund.id
  );
  if state = 'new' and reversed.order_id is not null and not reversed.needs_refund and reversed.refunded_at is null then
    perform private.put_order_under_review(reversed.order_id);
  end if;
  return case state when 'checked' then 'checked' else 'reversed' end;
end
$$;

comment on function private.receive_reversal is
  'Matches a reversal that M-PESA lists with the refund that asked for it. Without one it waits for staff, and the order of the reversed payment needs review. Returns the outcome: completed, already_completed, reversed, or checked once staff have resolved it.';

create or replace function public.dismiss_message_to_check(message_id bigint, note text) returns public.messages_to_check
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  waiting public.messages_to_check := private.waiting_message_to_check(dismiss_message_to_check.message_id);
  reason text := private.read_reason(dismiss_message_to_check.note, is_required => true);
begin
  -- Ends the review of an attempt that has no other evidence (private.end_reviews).
  insert into public.reconciliation_events (payment_id, order_id, kind, note, actor_id, actor_email)
  select p.id, p.order_id, 'accepted', reason, member, private.email_of(member)
  from public.payments as p
  where p.id = waiting.payment_id and p.status = 'review'
    and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id);
  return private.finish_message_to_check(waiting.id, 'not_a_payment', reason);
end
$$;

comment on function public.dismiss_message_to_check is 'For staff: notes why a message that could not be read is no payment, or how it was dealt with.';

-- Execution rights
grant execute on function public.enter_message_to_check, public.dismiss_message_to_check to authenticated, service_role;

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
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', reported.received_cents, 'unresolved', 'till', member)
    returning * into money;
    -- Staff can take it back before the customer is notified.
    perform set_config('private.is_typed_by_staff', 'yes', true);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    perform set_config('private.is_typed_by_staff', '', true);
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
  elsif not taken.needs_refund and private.has_left_shop(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and m.status in ('sending', 'sent', 'unsure')
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
    perform set_config('private.is_typed_by_staff', 'yes', true);
    perform private.settle_order_again(paid_order.id);
    perform set_config('private.is_typed_by_staff', '', true);
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

create or replace function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(resolve_review.note);
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
begin
  if resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_review.receipt is not null then
    perform public.resolve_difference('give', resolve_review.receipt, null, resolve_review.order_id, reason);
  end if;
  select * into decided from public.orders as o where o.id = resolve_review.order_id;
  select sum(p.charge_cents) into received from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    and not private.is_being_refunded(p.id, p.receipt);
  select p.* into largest from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund
  order by p.charge_cents desc, p.id limit 1;
  surplus := received - decided.charge_cents;
  -- The exact charge under the receipt may have paid it already.
  if received is null or (decided.payment_status <> 'needs_review' and not (
    decided.payment_status = 'paid' and resolve_review.receipt is not null and surplus = 0 and resolve_review.decision = 'deliver'
  )) then
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  elsif received <> resolve_review.seen_cents then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  elsif (surplus > 0) <> (resolve_review.decision in ('deliver_with_credit', 'deliver_and_return')) and resolve_review.decision <> 'cancel_and_refund' then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;

  if resolve_review.decision = 'cancel_and_refund' then
    -- Each refund records its own event.
    perform public.request_refund(coalesce(reason, 'Another amount than the charge'), p.id)
    from public.payments as p
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
      and not private.is_being_refunded(p.id, p.receipt);
    return resolve_review.decision;
  end if;
  if decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  end if;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (largest.receipt, largest.id, decided.id, 'delivered', reason, member, private.email_of(member));
  if surplus > 0 then
    perform private.add_change_note(
      largest, case resolve_review.decision when 'deliver_with_credit' then 'credit' else 'to_return' end, surplus::integer, null, reason, member
    );
  end if;
  return resolve_review.decision;
end
$$;

comment on function public.resolve_review is
  'For staff: decides in one step about an order that needs review and the money that came for it (seen_cents: its sum as seen). deliver: a shortfall is forgiven. deliver_with_credit, deliver_and_return: the surplus is owed as credit, or to be sent back. cancel_and_refund: all of it goes back, by the rules of refunds. receipt: unassigned money that is assigned to the order first.';

create or replace function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(note_change.note);
  has_receipt boolean := nullif(trim(note_change.receipt), '') is not null;
  code text;
  paid public.payments;
  noted public.change_notes;
begin
  if note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif has_receipt and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for no key update;
  if has_receipt then
    code := private.check_refund_receipt(note_change.receipt);
  end if;
  select * into paid from public.payments as p where p.id = note_change.payment_id for update;
  if not found or paid.purpose <> 'order' then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  noted := private.add_change_note(paid, note_change.kind, note_change.amount_cents, code, reason, member);
  return noted;
end
$$;

comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, with M-PESA''s receipt if there is one. What is owed and what went back never exceed what came.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review, public.note_change,
  public.check_typed_receipt to authenticated, service_role;

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
    if current_setting('private.is_undoing', true) = 'yes' then
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
    elsif private.order_status_of_delivery(old.delivery_status) is null and new.delivery_status in ('pending', 'assigned')
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif new.delivery_status in ('pending', 'assigned') and not private.is_called_off(ordered) then
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

create or replace function public.assign_delivery(
  order_id uuid, delivery_person text, delivery_phone text, delivery_vehicle text, delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(assign_delivery.delivery_person);
  phone text := private.visible_text(assign_delivery.delivery_phone);
  vehicle text := private.visible_text(assign_delivery.delivery_vehicle);
  notes text := private.visible_text(assign_delivery.delivery_notes);
  ordered public.orders;
  delivery public.deliveries;
begin
  perform private.expect_staff();
  if person is null then
    perform private.refuse(400, 'delivery_person_missing', 'Delivery person name is required');
  elsif phone is null then
    perform private.refuse(400, 'delivery_phone_missing', 'Phone number is required');
  elsif vehicle is null then
    perform private.refuse(400, 'delivery_vehicle_missing', 'Vehicle information is required');
  elsif char_length(person) > 120 or char_length(phone) > 40 or char_length(vehicle) > 120 or char_length(notes) > 500 then
    perform private.refuse(400, 'delivery_too_long', 'The name, phone, vehicle or notes of the delivery are too long');
  end if;

  select * into ordered from public.orders as o where o.id = assign_delivery.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  -- A repeated request changes nothing.
  if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
    is not distinct from (person, phone, vehicle, notes) then
    return delivery;
  elsif coalesce(delivery.delivery_status, 'pending') in ('pending', 'failed') and ordered.status = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  elsif assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
    perform private.refuse(409, 'delivery_already_assigned',
      format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
  elsif delivery.id is null then
    insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
    values (ordered.id, 'assigned', person, phone, vehicle, notes)
    returning * into delivery;
    return delivery;
  end if;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  perform from public.deliveries as d where d.id = delivery.id for no key update skip locked;
  if not found or assign_delivery.seen_updated_at <> delivery.updated_at then
    perform private.refuse(409, 'delivery_changed',
      'This delivery was changed in the meantime. Please look at it again and save once more if you still want to');
  end if;
  update public.deliveries as d
  set delivery_person = person, delivery_phone = phone, delivery_vehicle = vehicle, delivery_notes = notes,
      delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
  where d.id = delivery.id
  returning * into delivery;
  return delivery;
end
$$;

comment on function public.assign_delivery is
  'Assigns the delivery of an order. Changes an existing assignment only with the updated_at that the caller read.';

-- Execution rights
grant execute on function public.assign_delivery to authenticated, service_role;

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
    set payment_status = 'refunded', status = 'cancelled',
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

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change to authenticated, service_role;

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
  elsif private.visible_length(left(new.name, 300)) = 0 then
    perform private.refuse(400, 'name_invalid', 'Please enter your name');
  elsif private.visible_length(left(new.message, 10000)) = 0 then
    perform private.refuse(400, 'message_invalid', 'Please write a message');
  end if;
  -- Subject and phone; long texts are refused by the constraints.
  return private.without_invisible_texts(new);
end
$$;

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

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'link', 'receipt_link'
    ]
  end;
  unknown text;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  elsif is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- Brackets that remain after all complete ones are removed.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

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

create or replace function private.anonymise_old_orders() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.created_at < retained_since and private.unsettled_money_reason(o.id) is null
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

grant execute on function public.forget_old_rows to service_role;

-- Triggers: one for each table and timing, which calls its steps in the order written here. Steps run as the owner. A change by a
-- step fires its triggers before the next step begins. old is null for an inserted row, new for a deleted one.

-- Products, categories and settings

create or replace function private.before_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    return private.without_invisible_texts(new);
  end if;
  -- A change of the stock alone is no edit, so that orders do not conflict with a staff member's edit.
  old.stock_quantity := new.stock_quantity;
  if old is not distinct from new then
    return new;
  end if;
  new := private.without_invisible_texts(new);
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  -- A price that is not below the previous one ends the offer.
  if new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price then
    new.previous_price := null;
  end if;
  return new;
end
$$;

create trigger products_before_change before insert or update on public.products
  for each row execute function private.before_product_change();

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
  if tg_op = 'UPDATE' then
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

create or replace function private.before_category_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'UPDATE' and old.name <> new.name then
    -- The foreign key updates its products in any order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  return new;
end
$$;

create or replace function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

update private.limits as l set allowed = 5 where l.name = 'newsletter_mails';

insert into private.newsletter_mailed (mailbox_hash, mailed_at)
select private.mailbox_hash(n.email), max(n.confirmation_queued_at)
from public.newsletter_subscriptions as n
where n.confirmation_queued_at is not null
group by 1;
