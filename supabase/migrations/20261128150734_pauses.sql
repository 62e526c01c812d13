-- Earlier versions keep working: a pause and a drink that is sold out for a while refuse orders with a sentence that they show, and
-- daily_figures has one column more.

alter table public.store_settings add column orders_pause_reason text, add column orders_paused_until timestamptz;

comment on column public.store_settings.orders_pause_reason is
  'Why the shop takes no new orders, as customers read it. Null: it takes them. Changed by pause_orders and resume_orders.';
comment on column public.store_settings.orders_paused_until is
  'When it takes orders again by itself. Null with a reason: when staff resume. A pause that is over leaves reason and end as they are.';

grant select (orders_pause_reason, orders_paused_until) on public.store_settings to anon, authenticated;

alter table public.products add column sold_out_until timestamptz;

comment on column public.products.sold_out_until is
  'Until then nobody can order it, whatever its stock. Changed by set_sold_out. Null or over: the stock decides.';
comment on column public.products.updated_at is
  'Changes with every edit except of the stock and of sold_out_until. A save sends the value that it read, and changes nothing if the row has changed since.';

alter table private.daily_totals add column failed_deliveries bigint not null default 0;

comment on column private.daily_totals.failed_deliveries is 'How often goods came back, by the day of that. Counted since the column exists.';

alter type private.day_figures add attribute failed_deliveries bigint;

drop function public.daily_figures(integer);

alter table public.store_settings add constraint "a pause of orders has a reason" CHECK ((((char_length(TRIM(BOTH FROM orders_pause_reason)) >= 1) AND (char_length(TRIM(BOTH FROM orders_pause_reason)) <= 80)) OR ((orders_pause_reason IS NULL) AND (orders_paused_until IS NULL))));

create or replace function public.shop_page(
  search text default '',
  brand text default null,
  category text default null,
  sort text default null,
  page integer default 1
) returns jsonb
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  page_size constant integer := 60;
  most_found constant integer := 250;
  wanted text := trim(left(coalesce(shop_page.search, ''), 200));
  of_brand text := left(shop_page.brand, 200);
  of_category text := left(shop_page.category, 200);
  before integer := (least(greatest(coalesce(shop_page.page, 1), 1), 1000) - 1) * page_size;
  is_whole boolean := (select count(*) from (select from public.products as p where p.is_active limit page_size + 1) as few) <= page_size;
  terms private.search_terms;
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    terms := private.read_search(wanted);
    found_ids := private.found_products(terms, most_found);
  end if;
  if is_whole then
    shown_ids := private.shop_page_ids(null, null, null, 0, page_size);
    matching := coalesce(cardinality(shown_ids), 0);
  elsif wanted <> '' then
    select array_agg(f.id order by f.place) filter (where f.place > before and f.place <= before + page_size), count(*)
    into shown_ids, matching
    from (
      select p.id, row_number() over (
        order by
          case shop_page.sort when 'brand' then lower(p.brand) when 'flavor' then lower(p.category) end,
          case shop_page.sort when 'brand' then p.brand when 'flavor' then p.category end,
          case shop_page.sort when 'price' then p.price end,
          case when shop_page.sort in ('popularity', 'brand', 'flavor', 'price') then p.created_at end desc,
          match.place
      ) as place
      from unnest(found_ids) with ordinality as match (id, place)
      cross join lateral (select * from public.products as p where p.id = match.id offset 0) as p
      where (coalesce(of_brand, '') in ('', p.brand)) and (coalesce(of_category, '') in ('', p.category))
    ) as f;
  else
    select coalesce(sum(c.products), 0) into matching
    from private.catalogue_counts as c
    where coalesce(of_brand, '') in ('', c.brand) and coalesce(of_category, '') in ('', c.category);
    shown_ids := private.shop_page_ids(of_brand, of_category, shop_page.sort, before, page_size);
  end if;
  return jsonb_build_object(
    'is_whole', is_whole,
    'count', matching,
    'may_be_more', coalesce(cardinality(found_ids), 0) = most_found,
    'pages', greatest((matching + page_size - 1) / page_size, 1),
    'products', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'slug', p.slug, 'name', p.name, 'tagline', p.tagline, 'price', p.price, 'previous_price', p.previous_price,
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', public.units_for_sale(p),
          'sold_out_until', p.sold_out_until
        ) order by s.place
      )
      from unnest(case when matching > 0 then shown_ids else private.shop_page_ids(null, null, null, 0, 12) end)
        with ordinality as s (id, place)
      cross join lateral (select * from public.products as p where p.id = s.id offset 0) as p
    ), '[]'),
    'brands', (
      select coalesce(jsonb_agg(distinct c.brand order by c.brand), '[]')
      from private.catalogue_counts as c where c.brand <> ''
    ),
    'categories', (
      select coalesce(jsonb_agg(distinct c.category order by c.category), '[]')
      from private.catalogue_counts as c
      join public.categories as k on k.name = c.category and k.is_active
    ),
    'found', case when is_whole and wanted <> '' then (
      select coalesce(jsonb_agg(p.slug order by f.place), '[]')
      from unnest(found_ids) with ordinality as f (id, place)
      cross join lateral (select * from public.products as p where p.id = f.id offset 0) as p
    ) end,
    'correction', case when wanted <> '' then private.better_search(terms) end,
    'most_cents', terms.most_cents
  );
end
$$;

comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. most_cents: the highest price that the search names. count: products that match; may_be_more: the search has reached its 250 best matches.';

grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;

-- What cannot be ordered for a while: everything while orders are paused, and drinks that are sold out (docs/decisions/pauses.md)

-- Pauses of orders

create table public.order_pauses (
  id bigint generated always as identity primary key,
  reason text,
  paused_until timestamptz,
  changed_by uuid,
  changed_by_email text,
  changed_at timestamptz not null default clock_timestamp()
);

comment on table public.order_pauses is
  'Pauses of orders, and when staff ended them (without a reason). Append-only. changed_by_email: the email address at that time.';

alter table public.order_pauses enable row level security;

revoke all on public.order_pauses from anon, authenticated, service_role;

grant select on public.order_pauses to authenticated, service_role;

create policy "staff read every pause" on public.order_pauses for select to authenticated using ((select public.is_admin()));

create trigger order_pauses_before_change before update or delete on public.order_pauses
  for each row execute function private.refuse_change('The history of pauses is only added to');

create or replace function private.are_orders_paused(settings public.store_settings) returns boolean
language sql stable
return settings.orders_pause_reason is not null and coalesce(settings.orders_paused_until > now(), true);

create or replace function private.end_of_pause(paused_until timestamptz) returns text
language sql stable
return coalesce('until ' || to_char(paused_until at time zone 'Africa/Nairobi', 'HH24:MI'), 'for now');

comment on function private.end_of_pause is
  'The end of a pause as customers read it: until 18:30. The same sentence is in domain/order-pause.ts.';

create or replace function public.pause_orders(reason text, minutes integer default null) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  shown text;
begin
  perform private.expect_staff();
  shown := rtrim(private.read_reason(pause_orders.reason, is_required => true), ' .');
  if char_length(shown) not between 1 and 80 or private.has_control_characters(shown) then
    perform private.refuse(400, 'reason_invalid', 'Customers read this: please write one line of at most 80 characters');
  elsif pause_orders.minutes not between 1 and 1440 then
    perform private.refuse(400, 'pause_invalid', 'A pause lasts up to 24 hours, or until you resume');
  end if;
  update public.store_settings as s
  set orders_pause_reason = shown, orders_paused_until = now() + make_interval(mins => pause_orders.minutes)
  where s.id;
end
$$;

comment on function public.pause_orders is
  'For staff: place_order refuses orders for some minutes (null: until resume_orders). Orders that exist are paid and delivered as usual.';

create or replace function public.resume_orders() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  update public.store_settings as s
  set orders_pause_reason = null, orders_paused_until = null
  where private.are_orders_paused(s);
end
$$;

comment on function public.resume_orders is 'For staff: ends a pause of orders.';

-- Drinks that are sold out for a while

create or replace function public.units_for_sale(product public.products) returns integer
language sql stable
return case when product.sold_out_until > now() then 0 else product.stock_quantity end;

comment on function public.units_for_sale is
  'Computed column: the units that can be ordered now, none while staff have set the product to sold out.';

create or replace function public.set_sold_out(product_id uuid, span text default null) returns timestamptz
language plpgsql volatile security definer set search_path = '' as $$
declare
  ends_at timestamptz := case set_sold_out.span
    when 'hour' then now() + interval '1 hour'
    when 'tomorrow' then (private.nairobi_day(now()) + 1 + time '06:00') at time zone 'Africa/Nairobi'
  end;
begin
  perform private.expect_staff();
  if set_sold_out.span is not null and ends_at is null then
    perform private.refuse(400, 'span_unknown', 'A product is sold out for an hour or until tomorrow');
  end if;
  update public.products as p set sold_out_until = ends_at where p.id = set_sold_out.product_id;
  if not found then
    perform private.refuse(404, 'product_not_found', 'This product does not exist');
  end if;
  return ends_at;
end
$$;

comment on function public.set_sold_out is
  'For staff: nobody can order a product for an hour (span: hour) or until 6:00 of the next day in Nairobi (tomorrow), or its stock decides again (null). Its stock does not change. Returns the end.';

-- Execution rights
grant execute on function public.units_for_sale to anon, authenticated, service_role;

grant execute on function public.pause_orders, public.resume_orders, public.set_sold_out to authenticated, service_role;

create or replace function private.total_of_offer(
  product public.products, quantity integer, settings public.store_settings, expected_total integer
) returns integer
language plpgsql stable set search_path = '' as $$
declare
  total bigint := product.price::bigint * total_of_offer.quantity + settings.delivery_fee;
  units integer := public.units_for_sale(product);
begin
  if product.id is null then
    perform private.refuse(404, 'product_unavailable', 'This product is not available');
  elsif units = 0 then
    perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
  elsif units < total_of_offer.quantity then
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', units), units::text);
  -- M-PESA charges whole shillings.
  elsif (total + 99) / 100 * 100 > settings.payment_limit then
    perform private.refuse_above_payment_limit(settings.payment_limit);
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;

comment on function private.total_of_offer is
  'Price of the units and the delivery fee, in cents. Refuses an order whose product (null: not for sale), stock or total is not what its customer saw.';

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

create or replace function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
return case when counted.status = 'completed' and counted.purpose = 'order' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.change_notes) returns private.day_figures
language sql immutable
return case when counted.kind = 'returned' then
  (private.nairobi_day(counted.noted_at), 0, 0, -counted.amount_cents, 0)::private.day_figures
end;

create or replace function private.count_change(old private.day_figures, new private.day_figures) returns void
language plpgsql set search_path = '' as $$
declare
  moved private.day_figures;
begin
  if old is not distinct from new then
    return;
  end if;
  foreach moved in array array[
    (old.day, -old.orders, -old.revenue_cents, -old.received_cents, -old.failed_deliveries)::private.day_figures, new
  ] loop
    continue when moved.day is null;
    update private.daily_totals as t
    set orders = t.orders + moved.orders,
        revenue_cents = t.revenue_cents + moved.revenue_cents,
        received_cents = t.received_cents + moved.received_cents,
        failed_deliveries = t.failed_deliveries + moved.failed_deliveries
    where t.id = (select free.id from private.daily_totals as free where free.day = moved.day limit 1 for update skip locked);
    if not found then
      insert into private.daily_totals (day, orders, revenue_cents, received_cents, failed_deliveries)
      values (moved.day, moved.orders, moved.revenue_cents, moved.received_cents, moved.failed_deliveries);
    end if;
  end loop;
end
$$;

comment on function private.count_change is
  'Replaces what a row counts in daily_totals; null: nothing. Never waits for another transaction.';

create or replace function public.daily_figures(days integer default 30) returns table (
  day date, page_views bigint, orders bigint, failed_deliveries bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff();
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select t.day, sum(t.orders) as count, sum(t.failed_deliveries) as failed from private.daily_totals as t where t.day >= first_day group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint, coalesce(placed.failed, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;

comment on function public.daily_figures is
  'For staff: page views, orders and failed deliveries of the last days in Nairobi, including today and days without any.';

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures, public.day_totals,
  public.count_payments_since to authenticated;

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
  -- A pause of orders is no edit, so that it does not conflict with a staff member's edit.
  old.orders_pause_reason := new.orders_pause_reason;
  old.orders_paused_until := new.orders_paused_until;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  perform private.record_price_change(null, null, old.delivery_fee, new.delivery_fee);
  if (old.orders_pause_reason, old.orders_paused_until) is distinct from (new.orders_pause_reason, new.orders_paused_until) then
    insert into public.order_pauses (reason, paused_until, changed_by, changed_by_email)
    values (new.orders_pause_reason, new.orders_paused_until, auth.uid(), private.email_of(auth.uid()));
  end if;
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;

create or replace function private.after_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(old.failures, 0) <> new.failures then
    perform private.count_change(
      null, (private.nairobi_day(now()), 0, 0, 0, new.failures - coalesce(old.failures, 0))::private.day_figures
    );
  end if;
  perform private.record_delivery_events(old, new);
  if old.delivery_status is distinct from new.delivery_status and not private.is_stated('undoes') then
    perform private.move_order_with_delivery(old, new);
    perform private.queue_messages_of_delivery(old, new);
    perform private.note_failed_delivery(old, new);
  end if;
  return null;
end
$$;
