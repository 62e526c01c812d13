-- Earlier versions keep working: they call place_order by the names of its arguments, all of which it still has, and read items in any order.

alter table public.order_items add column position smallint not null default 1;
comment on column public.order_items.position is 'Place in the order, as the customer chose the drinks. Counted from 1.';

comment on column public.stock_changes.cause is
  'edited: by staff, or by the shop itself. ordered: an order took the units. All others returned the units of an order: its reservation ended, its customer changed its drinks, it was cancelled, its money was sent back, or its payment needs review.';

create type private.order_line as (product_id uuid, quantity integer, position smallint);

create type private.offered_line as (
  product_id uuid, quantity integer, position smallint, name text, price integer, stock_quantity integer, units_for_sale integer
);
comment on type private.offered_line is 'A line of an order with its product as it is now. name: null if it is not for sale.';

alter table public.order_events drop constraint "a kind of event is known";

alter table private.unpaid_holds drop constraint unpaid_holds_pkey;

alter table public.stock_changes drop constraint "a cause of a stock change is known";

drop function public.place_order(uuid,uuid,integer,text,text,text,text,integer,text,text,text,boolean);

drop function private.begin_counted_hold(text[],uuid,uuid,integer,bigint,timestamp with time zone,boolean);

drop function private.total_of_offer(products,integer,store_settings,integer);

drop function private.units_to_hold(text[],products,integer,store_settings);

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table private.unpaid_holds add constraint unpaid_holds_pkey PRIMARY KEY (order_id, product_id);

alter table public.stock_changes add constraint "a cause of a stock change is known" CHECK ((cause = ANY (ARRAY['edited'::text, 'ordered'::text, 'reservation_ended'::text, 'order_changed'::text, 'cancelled'::text, 'refunded'::text, 'under_review'::text])));

create or replace function private.refuse_while_paused(settings public.store_settings) returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.are_orders_paused(settings) then
    perform private.refuse(409, 'orders_paused', format(
      'Orders are paused %s: %s.', private.end_of_pause(settings.orders_paused_until), settings.orders_pause_reason
    ));
  end if;
end
$$;

create or replace function private.subtract_units(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.state_cause_of_units('ordered', subtract_units.order_id);
  update public.products as p set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = subtract_units.order_id and p.id = i.product_id;
  perform private.state_cause_of_units();
end
$$;

comment on function private.subtract_units is 'Takes an order''s units out of stock. The caller has locked the products and knows that there are enough.';

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
  perform private.subtract_units(take_units.order_id);
  return true;
end
$$;

comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create or replace function private.refuse_missing_units(product_name text, units integer, quantity integer) returns void
language plpgsql set search_path = '' as $$
begin
  if units is null then
    perform private.refuse(404, 'product_unavailable', format('%s is not available', coalesce(product_name, 'This product')));
  elsif units = 0 then
    perform private.refuse(409, 'out_of_stock', format('%s is out of stock', coalesce(product_name, 'This product')));
  elsif units < quantity then
    perform private.refuse(
      409, 'not_enough_stock', format('Only %s left in stock%s', units, coalesce(' of ' || product_name, '')), units::text
    );
  end if;
end
$$;

comment on function private.refuse_missing_units is
  'Refuses a line of an order of which there are too few units. units: null if the product is not for sale. product_name: null for an order of one drink.';

create or replace function private.hold_units(order_id uuid, networks text[], held_until timestamptz, is_prompted boolean) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.subtract_units(hold_units.order_id);
  perform private.begin_counted_hold(networks, hold_units.order_id, held_until, is_prompted);
end
$$;

comment on function private.hold_units is
  'Takes an order''s units out of stock until its payment, and counts the hold. The caller has locked the products and set reserved_until.';

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
    select p.id as product_id, i.product_name, p.stock_quantity as units_left, i.quantity,
      p.stock_quantity + private.units_held(p.id) as units
    from public.order_items as i
    left join lateral (select * from public.products as p where p.id = i.product_id and p.is_active offset 0) as p on true
    where i.order_id = waiting.id
  loop
    perform private.refuse_missing_units(case when cardinality(product_ids) > 1 then item.product_name end, item.units_left, item.quantity);
    may_hold := may_hold and (
      cardinality(networks) = 0
      or private.is_within_hold_time(networks, item.product_id, item.quantity, item.units, held_until - now(), true, settings)
    );
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.orders as o set reserved_until = held_until where o.id = waiting.id;
    perform private.hold_units(waiting.id, networks, held_until, true);
  end if;
end
$$;

comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

create or replace function private.begin_counted_hold(networks text[], order_id uuid, held_until timestamptz, is_prompted boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- Orders of staff and of the shop itself are not limited.
  if cardinality(networks) = 0 then
    return;
  end if;
  with begun as (
    insert into private.unpaid_holds (order_id, product_id, share_of_units, is_prompted, held_until)
    select i.order_id, i.product_id, i.quantity / (p.stock_quantity + private.units_held(p.id))::double precision,
      begin_counted_hold.is_prompted, begin_counted_hold.held_until
    from public.order_items as i
    -- One step in the primary key for each item: the planner would rather read all products.
    cross join lateral (select * from public.products as p where p.id = i.product_id offset 0) as p
    where i.order_id = begin_counted_hold.order_id
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
  'Counts the hold of an order on its units until its planned end, for its networks and all networks together. The order has taken the units.';

create or replace function private.extend_counted_hold(order_id uuid, held_until timestamptz) returns boolean
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  held private.unpaid_holds[];
  extended private.unpaid_holds;
  networks text[];
  settings public.store_settings;
begin
  perform from private.held_units as h
  where h.product_id = any (array(select u.product_id from private.unpaid_holds as u where u.order_id = extend_counted_hold.order_id))
  order by h.product_id
  for no key update;
  held := array(select h from private.unpaid_holds as h where h.order_id = extend_counted_hold.order_id order by h.product_id);
  select array_agg(k.network) into networks from private.order_networks as k where k.order_id = extend_counted_hold.order_id;
  select * into strict settings from public.store_settings;
  foreach extended in array held loop
    if not private.is_within_hold_time(
      networks, extended.product_id,
      (select i.quantity from public.order_items as i where i.order_id = extended.order_id and i.product_id = extended.product_id),
      (select p.stock_quantity + private.units_held(p.id) from public.products as p where p.id = extended.product_id),
      extend_counted_hold.held_until - extended.held_until, extended.is_prompted, settings
    ) then
      return false;
    end if;
  end loop;
  foreach extended in array held loop
    perform private.add_hold_time(extended, extended.held_since - extended.held_until);
    extended.held_until := extend_counted_hold.held_until;
    update private.unpaid_holds as h set held_until = extended.held_until
    where h.order_id = extended.order_id and h.product_id = extended.product_id;
    perform private.add_hold_time(extended, extended.held_until - extended.held_since);
  end loop;
  return true;
end
$$;

comment on function private.extend_counted_hold is
  'Moves the planned end of an order''s hold, if its networks may hold all of its units for longer. Returns whether they may; true for holds that are not counted.';

create or replace function private.end_counted_hold(order_id uuid, is_sold boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  ended private.unpaid_holds;
begin
  for ended in delete from private.unpaid_holds as h where h.order_id = end_counted_hold.order_id returning * loop
    perform private.add_hold_time(
      ended, case when end_counted_hold.is_sold then ended.held_since - ended.held_until else now() - ended.held_until end
    );
  end loop;
end
$$;

comment on function private.end_counted_hold is
  'Ends the hold of an order: counts the time that it took. A hold that ended in a sale does not count. The caller has locked the rows of private.held_units.';

create or replace function private.read_order_lines(product_id uuid, quantity integer, items jsonb) returns private.order_line[]
language plpgsql immutable set search_path = '' as $$
declare
  lines private.order_line[];
begin
  if items is null then
    if quantity is null or quantity < 1 then
      perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
    end if;
    return array[(product_id, quantity, 1)::private.order_line];
  elsif product_id is not null or quantity is not null or pg_column_size(items) > 4000 or jsonb_typeof(items) <> 'array' then
    perform private.refuse(400, 'items_invalid', 'The drinks of an order are one list of product_id and quantity');
  elsif jsonb_array_length(items) not between 1 and 10 then
    perform private.refuse(400, 'items_invalid', 'An order has one to ten different drinks');
  elsif exists (
    select from jsonb_array_elements(items) as item
    where jsonb_typeof(item) <> 'object' or coalesce(item ->> 'product_id', '') !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
  ) then
    perform private.refuse(400, 'items_invalid', 'Each drink of an order has a product_id and a quantity');
  elsif exists (
    select from jsonb_array_elements(items) as item
    where coalesce(item ->> 'quantity', '') !~ '^[1-9][0-9]{0,9}$' or (item ->> 'quantity')::bigint > 2147483647
  ) then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  select array_agg((chosen.product_id, chosen.quantity, chosen.position)::private.order_line order by chosen.product_id) into lines
  from (
    select (e.item ->> 'product_id')::uuid as product_id, least(sum((e.item ->> 'quantity')::bigint), 2147483647)::integer as quantity,
      (row_number() over (order by min(e.place)))::smallint as position
    from jsonb_array_elements(items) with ordinality as e (item, place)
    group by (e.item ->> 'product_id')::uuid
  ) as chosen;
  return lines;
end
$$;

comment on function private.read_order_lines is
  'The drinks of an order by product_id, in which order they are locked: of one product and quantity, or of items, a list of {product_id, quantity}. The same product twice is one line. Refuses (quantity_invalid, items_invalid) anything else.';

create or replace function private.offer_of(lines private.order_line[]) returns private.offered_line[]
language plpgsql stable set search_path = '' as $$
begin
  return (
    select array_agg((
        l.product_id, l.quantity, l.position, p.name, p.price, p.stock_quantity, public.units_for_sale(p)
      )::private.offered_line order by l.product_id)
    from unnest(lines) as l
    -- One step in the primary key for each line: the planner would rather read all products.
    left join lateral (select * from public.products as p where p.id = l.product_id and p.is_active offset 0) as p on true
  );
end
$$;

create or replace function private.total_of_offer(
  offer private.offered_line[], settings public.store_settings, expected_total integer
) returns integer
language plpgsql stable set search_path = '' as $$
declare
  line private.offered_line;
  total bigint := settings.delivery_fee;
begin
  foreach line in array offer loop
    perform private.refuse_missing_units(
      case when cardinality(offer) > 1 then coalesce(line.name, 'One of the drinks') end,
      case when line.name is not null then line.units_for_sale end, line.quantity
    );
    total := total + line.price::bigint * line.quantity;
  end loop;
  -- M-PESA charges whole shillings.
  if (total + 99) / 100 * 100 > settings.payment_limit then
    perform private.refuse_above_payment_limit(settings.payment_limit);
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;

comment on function private.total_of_offer is
  'Price of the units and the delivery fee, in cents. Refuses an order of which a product, the stock or the total is not what its customer saw.';

create or replace function private.may_hold_from_placing(networks text[], offer private.offered_line[], settings public.store_settings) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  line private.offered_line;
  held bigint;
  units bigint;
begin
  if cardinality(networks) = 0 then
    return true;
  end if;
  foreach line in array offer loop
    held := private.units_held(line.product_id);
    units := line.stock_quantity + held;
    if held + line.quantity > ceil(units * settings.reserved_share_percent / 100.0)
      or not private.is_within_hold_time(
        networks, line.product_id, line.quantity, units, make_interval(mins => settings.reservation_minutes), false, settings
      )
    then
      return false;
    end if;
  end loop;
  return true;
end
$$;

comment on function private.may_hold_from_placing is
  'Whether an order may hold its units from placing: for each of its products all unpaid orders together stay within the share of the unsold units, and within private.is_within_hold_time. Without networks it always may.';

create or replace function private.with_quote(refusal jsonb, offer private.offered_line[], settings public.store_settings) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  quote jsonb;
  refused_id uuid;
begin
  select jsonb_build_object(
      'delivery_fee', settings.delivery_fee,
      'total', sum(line.price::bigint * line.quantity) + settings.delivery_fee,
      'items', jsonb_agg(
        jsonb_build_object('product_id', line.product_id, 'price', line.price, 'units_left', line.units_for_sale) order by line.position
      )
    ) || case
      when count(*) = 1 then jsonb_build_object('price', min(line.price), 'units_left', min(line.units_for_sale))
      else '{}'
    end,
    (array_agg(line.product_id order by line.product_id) filter (where line.name is null or line.units_for_sale < line.quantity))[1]
  into quote, refused_id
  from unnest(offer) as line;
  refusal := refusal || jsonb_build_object('quote', quote);
  return case
    when refusal ->> 'details' in ('product_unavailable', 'out_of_stock', 'not_enough_stock')
      then refusal || jsonb_build_object('product_id', refused_id)
    else refusal
  end;
end
$$;

comment on function private.with_quote is
  'A refused order with the current amounts, so that its form can show them: quote has delivery_fee, total and the price and units_left of each item; of an order for one product these two beside them, too. product_id: the product that cannot be had.';

create or replace function private.add_order_items(order_id uuid, offer private.offered_line[]) returns void
language plpgsql set search_path = '' as $$
begin
  -- By product, as counters of held units are locked.
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price, position)
  select add_order_items.order_id, line.product_id, line.name, line.quantity, line.price, line.position
  from unnest(offer) as line;
end
$$;

create or replace function public.place_order(
  idempotency_key uuid,
  product_id uuid default null,
  quantity integer default null,
  customer_name text default null,
  customer_email text default null,
  customer_phone text default null,
  delivery_location text default null,
  expected_total integer default null,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null,
  items jsonb default null
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
  lines private.order_line[];
  offer private.offered_line[];
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
  holds_units boolean;
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
  lines := private.read_order_lines(place_order.product_id, place_order.quantity, place_order.items);
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, coalesce(to_jsonb(place_order.quantity), place_order.items), customer.name, customer.email,
      customer.phone, customer.address, customer.notes, place_order.expected_total)::text, 'UTF8'
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
  perform private.refuse_while_paused(settings);
  if settings.requires_terms_tick and place_order.accepts_terms is not true then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  offer := private.offer_of(lines);
  total := private.total_of_offer(offer, settings, place_order.expected_total);
  holds_units := private.may_hold_from_placing(networks, offer, settings);
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then expires_at end, expires_at,
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
    -- changed what is left. Products are locked by id, so that two orders of the same products cannot deadlock.
    perform from public.products as p
    where p.id = any (array(select line.product_id from unnest(lines) as line)) order by p.id for no key update;
    offer := private.offer_of(lines);
    total := private.total_of_offer(offer, settings, place_order.expected_total);
    exit when not holds_units;
    holds_units := private.may_hold_from_placing(networks, offer, settings);
    exit when holds_units;
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

  perform private.add_order_items(new_order.id, offer);
  if cardinality(networks) > 0 then
    insert into private.order_networks (order_id, network, phone)
    select new_order.id, caller.network, customer.phone
    from unnest(networks) as caller (network);
  end if;
  if holds_units then
    perform private.hold_units(new_order.id, networks, expires_at, false);
  end if;
  return private.placed_order(new_order, access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings) end;
end
$$;

comment on function public.place_order is
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote).';

create or replace function public.change_order_items(
  order_id uuid, access_key text, items jsonb, expected_total integer
) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call_from(callers, 'place_order');
  lines private.order_line[];
  changed public.orders;
  settings public.store_settings;
  offer private.offered_line[];
  total integer;
  networks text[];
  product_ids uuid[];
  refusal jsonb;
  refusal_details text;
  refusal_hint text;
begin
  lines := private.read_order_lines(null, null, change_order_items.items);
  -- The lock on the order's row serialises this with its payments and its expiry.
  select o.* into changed from public.orders as o
  where o.id = change_order_items.order_id
    and exists (select from private.order_keys as k where k.order_id = o.id and k.access_key = change_order_items.access_key)
  for no key update of o;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not is_within_limit and not private.has_paid(changed.customer_phone) then
    perform private.refuse(429, 'too_many_orders', format(
      'Too many orders from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('place_order'), private.contact_numbers()
    ));
  elsif changed.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif changed.status = 'cancelled' or changed.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif changed.status <> 'pending' then
    perform private.refuse(409, 'order_in_work', 'This order is being prepared already. Please place a new one');
  -- Also one that failed: its money can still come, in the amount of the drinks of then.
  elsif exists (select from public.payments as p where p.order_id = changed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = changed.id)
  then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its drinks cannot change. Please place a new order for more');
  end if;
  select * into strict settings from public.store_settings;
  perform private.refuse_while_paused(settings);
  -- The fee that the customer saw when placing the order.
  settings.delivery_fee := changed.delivery_fee;

  product_ids := array(
    select i.product_id from public.order_items as i where i.order_id = changed.id
    union select line.product_id from unnest(lines) as line
  );
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  if changed.reserved_until is not null then
    perform private.return_units(changed.id, 'order_changed');
    update public.orders as o set reserved_until = null where o.id = changed.id;
  end if;
  offer := private.offer_of(lines);
  total := private.total_of_offer(offer, settings, change_order_items.expected_total);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = changed.id;
  delete from public.order_items as i where i.order_id = changed.id;
  perform private.add_order_items(changed.id, offer);
  perform private.record_order_event(
    changed.id, 'items_changed', 'customer', jsonb_build_object('from_cents', changed.total_amount, 'to_cents', total)
  );
  update public.orders as o
  set total_amount = total, updated_at = now(),
      reserved_until = case when private.may_hold_from_placing(networks, offer, settings) then changed.expires_at end
  where o.id = changed.id
  returning * into changed;
  if changed.reserved_until is not null then
    perform private.hold_units(changed.id, networks, changed.reserved_until, false);
  end if;
  perform private.notify_order_followers(changed.id);
  return private.placed_order(changed, change_order_items.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings) end;
end
$$;

comment on function public.change_order_items is
  'Replaces the drinks of an order that waits for its payment, in one transaction: prices from the database, the fee as it was agreed, the units held as by a new order. Proof: the order''s access key. Refuses once a payment has begun. Answers and refuses as place_order does.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

create or replace function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(receipt_of);
  elsif not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.position
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create or replace function private.describe_order(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb := private.order_facts(described, is_open) || jsonb_build_object('is_masked', not is_open);
begin
  if not is_open and described.created_at < now() - interval '30 days' then
    return answer;
  end if;

  answer := answer || jsonb_build_object(
    'delivery_fee', described.delivery_fee,
    'created_at', described.created_at,
    'customer_name', case when is_open then described.customer_name else private.masked_name(described.customer_name) end,
    'customer_phone', case when is_open then described.customer_phone else private.masked_phone(described.customer_phone) end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name), 'image_url', p.image_url, 'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.position)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = described.id
    ), '[]'::jsonb)
  );
  if not is_open then
    return answer;
  end if;
  return answer || jsonb_build_object(
    'id', described.id,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = described.id),
    'shipping_address', described.shipping_address, 'delivery_notes', described.delivery_notes,
    'are_prompts_paused', described.payment_status = 'unpaid' and public.are_prompts_paused()
  );
end
$$;

comment on function private.describe_order is
  'The order as its caller may see it: everything with proof; else status, items and total, with name and phone masked; after 30 days only the status.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

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
      -- M-PESA may not have processed the request yet, or has accepted it, or has reported a reversal of the payment before, in whatever amount.
      refund.sent_at > now() - interval '10 minutes' or refund.originator_conversation_id is not null
      or exists (select from public.payment_messages as m where m.refund_id = refund.id and m.outcome in ('already_reversed', 'wrong_amount'))
    ) then 'pending'
    else 'failed'
  end;
end
$$;

comment on function private.decide_reversal is
  'Decides what a message means for a refund. A receipt of incoming money is no receipt of a refund. not_reversed proves that nothing was sent only if M-PESA never accepted the request. The caller has locked the refund.';

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
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position)
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

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review, public.note_change,
  public.check_typed_receipt to authenticated, service_role;

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  elsif private.is_staff_message(message_facts.kind) then
    return jsonb_build_object('shop', shop) || private.staff_message_facts(message_facts.kind, message_facts.event_key);
  elsif message_facts.kind = 'inquiry_reply' then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries: the shop.';

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := private.orders_of_person(person.email, person.phone);
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.position
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - '{id,is_read,answered_by,answered_at}'::text[] || jsonb_build_object('answers', array(
        select jsonb_build_object('by', a.way, 'body', a.body, 'answered_at', a.answered_at)
        from public.inquiry_answers as a where a.inquiry_id = i.id order by a.answered_at
      ))
      from public.inquiries as i
      where lower(i.email) = person.email or private.is_phone(i.phone, person.phone)
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and m.kind <> 'inquiry_reply' and lower(m.recipient) = person.email order by m.created_at
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create or replace function private.notice_facts(notice public.notices) returns jsonb
language sql stable set search_path = '' as $$
  select case
    when notice.kind = 'inquiry' then (
      select jsonb_build_object('name', i.name) from public.inquiries as i where i.id = notice.event_key::uuid
    )
    when notice.kind = 'refund_to_approve' then (
      select jsonb_build_object('refund_cents', r.refund_cents, 'requested_by', r.requested_by_email, 'order_number', o.order_number)
      from public.refunds as r
      left join public.payments as p on p.id = r.payment_id
      left join public.orders as o on o.id = p.order_id
      where r.id = notice.event_key::uuid
    )
    else (
      select jsonb_build_object(
        'order_number', o.order_number, 'name', o.customer_name, 'shipping_address', o.shipping_address, 'city', o.city,
        'charge_cents', o.charge_cents, 'failure_reason', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
        'items', array(
          select jsonb_build_object('quantity', i.quantity, 'product_name', i.product_name, 'brand', p.brand)
          from public.order_items as i left join public.products as p on p.id = i.product_id
          where i.order_id = o.id order by i.position
        )
      )
      from public.orders as o where o.id = notice.order_id
    )
  end;
$$;

comment on function private.notice_facts is 'What a notice says, in its parts (domain/notice-text.ts). A push leaves names out.';
