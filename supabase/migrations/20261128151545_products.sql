-- Earlier versions keep working: new columns have defaults, find_products has its old arguments first, and stock_changes is written by a trigger.

alter table public.products
  add column low_stock_below integer,
  add column is_low_on_stock boolean not null generated always as (stock_quantity < coalesce(low_stock_below, 10)) stored;

comment on column public.products.low_stock_below is 'Units below which the stock is low. 0: never. Null: the default, 10.';
comment on column public.products.is_low_on_stock is
  'Whether few units are left. Stored, so that it can be indexed: an index on stock_quantity would be updated by every order.';
grant insert (low_stock_below), update (low_stock_below) on public.products to authenticated;

drop function public.find_products(text,text,timestamp with time zone,uuid,integer);

drop function private.return_units(uuid);

alter table public.products add constraint "a low-stock threshold is not negative" CHECK (((low_stock_below >= 0) AND (low_stock_below <= 1000000)));

create index products_low_on_stock on public.products (created_at desc, id desc) where is_active and is_low_on_stock;

create table public.stock_changes (
  id bigint generated always as identity,
  product_id uuid not null,
  order_id uuid,
  changed_by uuid,
  changed_at timestamptz not null default clock_timestamp(),
  from_units integer not null,
  to_units integer not null,
  cause text not null,
  changed_by_email text,
  -- The only index: every order adds a row.
  primary key (product_id, id),
  constraint "a cause of a stock change is known" check (
    cause in ('edited', 'ordered', 'reservation_ended', 'cancelled', 'refunded', 'under_review')
  ),
  constraint "a stock change has its order, unless it is an edit" check ((order_id is null) = (cause = 'edited'))
);

comment on table public.stock_changes is
  'Changes of the stock, with what caused them. Append-only. It refers to no product and no order, so that it survives them. changed_by_email: the email address at that time.';

comment on column public.stock_changes.cause is
  'edited: by staff, or by the shop itself. ordered: an order took the units. All others returned the units of an order: its reservation ended, it was cancelled, its money was sent back, or its payment needs review.';

alter table public.stock_changes enable row level security;

revoke all on public.stock_changes from anon, authenticated, service_role;

grant select on public.stock_changes to authenticated, service_role;

create policy "staff read every stock change" on public.stock_changes
  for select to authenticated using ((select public.is_admin()));

create trigger stock_changes_before_change before update or delete on public.stock_changes
  for each row execute function private.refuse_change('The history of the stock is only added to');

create or replace function private.state_cause_of_units(cause text default null, order_id uuid default null) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform set_config('private.cause_of_units', coalesce(cause || ' ' || order_id, ''), true);
end
$$;

comment on function private.state_cause_of_units is
  'States why the next statements change stock, and for which order. Without arguments: the order has its units now.';

create or replace function private.record_stock_change(product_id uuid, from_units integer, to_units integer) returns void
language plpgsql set search_path = '' as $$
declare
  member constant uuid := auth.uid();
  stated constant text := coalesce(current_setting('private.cause_of_units', true), '');
begin
  insert into public.stock_changes (product_id, from_units, to_units, cause, order_id, changed_by, changed_by_email)
  values (
    record_stock_change.product_id, record_stock_change.from_units, record_stock_change.to_units,
    case when stated = '' then 'edited' else split_part(stated, ' ', 1) end,
    nullif(split_part(stated, ' ', 2), '')::uuid,
    member, case when member is not null then private.email_of(member) end
  );
end
$$;

create or replace function public.product_history(
  product_id uuid, before_stock_change bigint default null, before_price_change bigint default null, page_size integer default 50
) returns table (
  kind text, id bigint, from_value integer, to_value integer, cause text, order_id uuid, order_number text, changed_by_email text,
  changed_at timestamptz
)
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 200);
begin
  perform private.expect_staff();
  -- Of one edit, the trigger records the price before the stock.
  return query
    with changes as (
      (
        select 'stock' as kind, s.id, s.from_units, s.to_units, s.cause, s.order_id, s.changed_by_email, s.changed_at
        from public.stock_changes as s
        where s.product_id = product_history.product_id and s.id < coalesce(before_stock_change, 9223372036854775807)
        order by s.id desc limit most
      )
      union all
      (
        select 'price', c.id, c.from_cents, c.to_cents, 'edited', null, c.changed_by_email, c.changed_at
        from public.price_changes as c
        where c.product_id = product_history.product_id and c.id < coalesce(before_price_change, 9223372036854775807)
        order by c.id desc limit most
      )
    )
    select c.kind, c.id, c.from_units, c.to_units, c.cause, c.order_id, o.order_number, c.changed_by_email, c.changed_at
    from (select * from changes order by changes.changed_at desc, changes.kind desc, changes.id desc limit most) as c
    left join lateral (select own.order_number from public.orders as own where own.id = c.order_id offset 0) as o on true
    order by c.changed_at desc, c.kind desc, c.id desc;
end
$$;

comment on function public.product_history is
  'For staff: a page of the changes of a product''s stock (units) and price (cents), newest first. The next page is before the smallest id of each kind so far.';

-- Stock, brands, lists

create or replace function public.change_stock(product_id uuid, by integer) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  units integer;
begin
  perform private.expect_staff();
  update public.products as p set stock_quantity = p.stock_quantity + change_stock.by
  where p.id = change_stock.product_id and p.stock_quantity::bigint + change_stock.by between 0 and 2147483647
  returning p.stock_quantity into units;
  if not found then
    select p.stock_quantity into units from public.products as p where p.id = change_stock.product_id;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    end if;
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', units), units::text);
  end if;
  perform private.note_answer(to_jsonb(units));
  return units;
end
$$;

comment on function public.change_stock is
  'For staff: adds units to the stock of a product, or takes some away (by < 0), whatever was sold in the meantime. Returns the units now.';

create or replace function public.list_brands() returns setof text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select distinct c.brand from private.catalogue_counts as c where c.brand <> '' order by c.brand;
end
$$;

comment on function public.list_brands is 'For staff: the brands of active products, by name.';

create or replace function public.find_products(
  search text default '', category text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50,
  sort text default '', low_on_stock boolean default false
) returns setof public.products
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  condition constant text := case when find_products.low_on_stock then 't.is_active and t.is_low_on_stock' else 'true' end
    || coalesce(' and t.category = ' || quote_literal(find_products.category), '');
  sorted_by constant text := case ltrim(find_products.sort, '-')
    when 'name' then 'lower(t.name)' when 'price' then 't.price' when 'stock' then 't.stock_quantity'
  end;
  direction constant text := case when find_products.sort like '-%' then 'desc' else 'asc' end;
  found_ids uuid[];
begin
  perform private.expect_staff();
  if sorted_by is null then
    found_ids := private.find_by_text(
      'products', 'lower(t.name)', condition,
      find_products.search, find_products.before_created_at, find_products.before_id, find_products.page_size
    );
    return query
      select p.* from public.products as p where p.id = any (found_ids) order by p.created_at desc, p.id desc;
    return;
  end if;
  -- Reads the whole catalogue: an index by stock would be updated by every order.
  return query execute format(
    'select t.* from public.products as t
     where %1$s and (trim(coalesce($1, '''')) = '''' or position(lower(trim($1)) in lower(t.name)) > 0)
       and ($2 is null or (%2$s, t.id) %4$s (select %2$s, t.id from public.products as t where t.id = $2))
     order by %2$s %3$s, t.id %3$s
     limit least(greatest(coalesce($3, 50), 1), 1000)',
    condition, sorted_by, direction, case direction when 'asc' then '>' else '<' end
  ) using find_products.search, find_products.before_id, find_products.page_size;
end
$$;

comment on function public.find_products is
  'For staff: a page of products, hidden ones included, whose name contains a text, ignoring case; after the one named by before_created_at and before_id. sort: name, price or stock, with - before it for descending; otherwise newest first. low_on_stock: only active ones with a low stock.';

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;

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
  if private.are_orders_paused(settings) then
    perform private.refuse(409, 'orders_paused', format(
      'Orders are paused %s: %s.', private.end_of_pause(settings.orders_paused_until), settings.orders_pause_reason
    ));
  elsif settings.requires_terms_tick and place_order.accepts_terms is not true then
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
    perform private.state_cause_of_units('ordered', new_order.id);
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
    perform private.state_cause_of_units();
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
      'units_left', public.units_for_sale(product)
    ));
  end if;
  return refusal;
end
$$;

comment on function public.place_order is
  'Places an order in one transaction: price and fee from the database, a new tracking number, units held (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes quote: the current price, delivery_fee, total and units_left.';

-- Execution rights
grant execute on function public.place_order to anon, authenticated, service_role;

create or replace function private.return_units(order_id uuid, cause text) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = return_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  perform private.state_cause_of_units(return_units.cause, return_units.order_id);
  update public.products as p
  set stock_quantity = p.stock_quantity
    + (select sum(i.quantity) from public.order_items as i where i.order_id = return_units.order_id and i.product_id = p.id)
  where p.id = any (product_ids);
  perform private.state_cause_of_units();
end
$$;

comment on function private.return_units is
  'Returns an order''s units to stock, for one of the causes of stock_changes. The caller has locked the order.';

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
      perform private.return_units(ended.id, case when ended.status = 'cancelled' then 'cancelled' else 'reservation_ended' end);
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
  perform private.state_cause_of_units('ordered', take_units.order_id);
  update public.products as p
  set stock_quantity = p.stock_quantity
    - (select sum(i.quantity) from public.order_items as i where i.order_id = take_units.order_id and i.product_id = p.id)
  where p.id = any (product_ids);
  perform private.state_cause_of_units();
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
      perform private.return_units(new.id, 'cancelled');
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
    perform private.state_cause_of_units('ordered', waiting.id);
    update public.products as p
    set stock_quantity = p.stock_quantity
      - (select sum(i.quantity) from public.order_items as i where i.order_id = waiting.id and i.product_id = p.id)
    where p.id = any (product_ids);
    perform private.state_cause_of_units();
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

-- Execution rights
grant execute on function public.expire_reservations to service_role;

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
      perform private.return_units(paid_order.id, 'under_review');
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
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at;
  perform private.note_paid_order(paid_order.id);
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
  perform private.return_units(put_order_under_review.order_id, 'under_review');
  delete from public.deliveries as d where d.order_id = put_order_under_review.order_id;
  return true;
end
$$;

comment on function private.put_order_under_review is
  'Puts a paid order under review, because less than its charge was received. False: it was handed over, or is not paid.';

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
    perform private.return_units(refunded_order.id, 'refunded');
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
      perform private.return_units(reopened.id, 'reservation_ended');
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

-- Triggers: one for each table and timing, which calls its steps in the order written here. Steps run as the owner. A change by a
-- step fires its triggers before the next step begins. old is null for an inserted row, new for a deleted one.

-- Products, categories and settings

create or replace function private.before_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    return private.without_invisible_texts(new);
  end if;
  -- A change of the stock or of sold_out_until alone is no edit, so that neither conflicts with a staff member's edit.
  old.stock_quantity := new.stock_quantity;
  old.sold_out_until := new.sold_out_until;
  -- Generated columns are computed after this.
  old.is_low_on_stock := new.is_low_on_stock;
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
  if tg_op <> 'DELETE' and coalesce(old.stock_quantity, 0) <> new.stock_quantity then
    perform private.record_stock_change(new.id, coalesce(old.stock_quantity, 0), new.stock_quantity);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.sold_out_until, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.sold_out_until, new.stock_quantity = 0)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;
