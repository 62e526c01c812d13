-- Earlier versions keep working: they call place_order by the names of its arguments, without a code, and read answers and figures by name,
-- so that they see an order with a discount by its total.

alter table public.orders
  add column discount_cents integer not null default 0,
  add column discount_code text;
comment on column public.orders.discount_cents is 'What the discount code takes off the price of the drinks; total_amount is what remains to pay.';
comment on column public.orders.discount_code is 'The discount code that the order uses. Null: none.';

insert into private.limits (name, allowed, within, per_paid_order) values ('discount_codes', 60, '1 hour', 0);

drop function public.day_totals(date);

drop function public.place_order(uuid,uuid,integer,text,text,text,text,integer,text,text,text,boolean,jsonb,text,boolean);

drop function private.total_of_offer(private.offered_line[],store_settings,integer);

drop function private.with_quote(jsonb,private.offered_line[],store_settings);

alter table public.orders add constraint "a discount has a code" CHECK (((discount_cents = 0) OR ((discount_cents > 0) AND (discount_code IS NOT NULL))));

-- Of few orders, so that the others do not write it.
create index orders_by_discount_code on public.orders (discount_code, customer_phone) where discount_code is not null;

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
  ) || case
    when placed.discount_code is null then '{}'
    else jsonb_build_object('discount_code', placed.discount_code, 'discount_cents', placed.discount_cents)
  end;
end
$$;

comment on function private.placed_order is 'The response of place_order.';

-- Discount codes: what they take off the price of an order's drinks, and who may use them (docs/decisions/discount-codes.md).
-- Amounts are in cents.

create table public.discount_codes (
  id uuid primary key default gen_random_uuid(),
  code text not null,
  percent smallint,
  amount_cents integer,
  minimum_cents integer not null default 0,
  starts_at timestamptz,
  ends_at timestamptz,
  max_uses integer,
  max_uses_per_phone integer,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "discount codes are unique" unique (code),
  constraint "a discount code has 3 to 20 capitals, digits and hyphens" check (code ~ '^[A-Z0-9][A-Z0-9-]{1,18}[A-Z0-9]$'),
  constraint "a discount is a percentage or an amount" check (num_nonnulls(percent, amount_cents) = 1),
  constraint "a percentage is 1 to 100" check (percent between 1 and 100),
  constraint "a discount is whole shillings" check (amount_cents between 100 and 100000000 and amount_cents % 100 = 0),
  constraint "a minimum is whole shillings" check (minimum_cents between 0 and 100000000 and minimum_cents % 100 = 0),
  constraint "a discount code ends after it starts" check (ends_at > starts_at),
  constraint "a discount code can be used at least once" check (max_uses >= 1 and max_uses_per_phone >= 1)
);

comment on table public.discount_codes is
  'Codes with which customers pay less for the drinks of an order. Once an order has one, its discount never changes, and it cannot be deleted.';

comment on column public.discount_codes.percent is 'Percentage of the price of the drinks. Null: amount_cents is taken off.';

comment on column public.discount_codes.minimum_cents is 'The price of an order''s drinks from which the code applies.';

comment on column public.discount_codes.starts_at is 'Null: from its creation.';

comment on column public.discount_codes.ends_at is 'The first moment at which it applies no more. Null: it has no end.';

comment on column public.discount_codes.max_uses is 'Maximum orders with the code, cancelled unpaid ones not counted. Null: no limit.';

comment on column public.discount_codes.max_uses_per_phone is 'The same of one phone.';

comment on column public.discount_codes.is_active is 'Inactive: no order can use it, whatever its dates.';

comment on column public.discount_codes.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';

alter table public.discount_codes enable row level security;

grant
  select,
  insert (code, percent, amount_cents, minimum_cents, starts_at, ends_at, max_uses, max_uses_per_phone, is_active),
  update (
    code, percent, amount_cents, minimum_cents, starts_at, ends_at, max_uses, max_uses_per_phone, is_active, updated_at
  ),
  delete on public.discount_codes to authenticated;

create policy "staff read and edit the discount codes" on public.discount_codes
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create or replace function private.read_discount_code(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  -- left is cheap: a longer text is none of the codes, whatever it is.
  return nullif(upper(regexp_replace(left(written, 100), '\s', '', 'g')), '');
end
$$;

comment on function private.read_discount_code is 'A code as it was typed, in capitals and without white space. Null for none.';

create or replace function private.before_discount_code_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op <> 'DELETE' then
    new.code := coalesce(private.read_discount_code(new.code), '');
  end if;
  -- The row is locked by now, and orders with the code lock it, too.
  if (tg_op = 'DELETE' or (
      tg_op = 'UPDATE' and (old.code, old.percent, old.amount_cents, old.minimum_cents)
        is distinct from (new.code, new.percent, new.amount_cents, new.minimum_cents)
    )) and exists (select from public.orders as o where o.discount_code = old.code)
  then
    perform private.refuse(409, 'discount_in_use',
      'Orders have this code, so it can be neither deleted nor given another discount. End it, and create another one');
  elsif tg_op = 'DELETE' then
    return old;
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create trigger discount_codes_before_change before insert or update or delete on public.discount_codes
  for each row execute function private.before_discount_code_change();

-- The one rounding rule of discounts; domain/discount.ts shows what it will be.
create or replace function private.discount_on(discount public.discount_codes, drinks_cents bigint, delivery_fee integer) returns integer
language sql immutable
return case when drinks_cents >= discount.minimum_cents then greatest(0, least(
  coalesce(discount.amount_cents, (drinks_cents * discount.percent + 9999) / 10000 * 100),
  drinks_cents,
  drinks_cents + delivery_fee - 100
)) else 0 end;

comment on function private.discount_on is
  'What a code takes off the price of drinks, in cents. A percentage is rounded up to whole shillings, so that the customer gets at least what was promised. Never more than the drinks cost, and one shilling is left to pay, the least that M-PESA takes. 0 below the minimum.';

create or replace function private.counts_as_use(status text, payment_status text) returns boolean
language sql immutable
return not (status = 'cancelled' and payment_status = 'unpaid');

comment on function private.counts_as_use is
  'Whether an order with a code is one of its uses. An order that expired or was cancelled unpaid gives its use back.';

create or replace function private.has_uses_left(discount public.discount_codes, phone text default null, own_order uuid default null) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Two queries, so that each reads only its part of the index.
  if has_uses_left.phone is not null then
    return discount.max_uses_per_phone is null or discount.max_uses_per_phone > (
      select count(*) from public.orders as o
      where o.discount_code = discount.code and o.customer_phone = has_uses_left.phone
        and private.counts_as_use(o.status, o.payment_status) and o.id is distinct from has_uses_left.own_order
    );
  end if;
  return discount.max_uses is null or discount.max_uses > (
    select count(*) from (
      select from public.orders as o
      where o.discount_code = discount.code
        and private.counts_as_use(o.status, o.payment_status) and o.id is distinct from has_uses_left.own_order
      limit discount.max_uses
    ) as used
  );
end
$$;

comment on function private.has_uses_left is
  'Whether fewer orders than allowed have the code: of a phone, or of all customers if phone is null. Without own_order. Volatile: it must see what was committed until now.';

create or replace function private.is_discount_open(discount public.discount_codes) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  return discount.id is not null and discount.is_active
    and (discount.starts_at is null or discount.starts_at <= now()) and (discount.ends_at is null or discount.ends_at > now());
end
$$;

comment on function private.is_discount_open is 'Whether the code exists, is active, has started and has not ended.';

create or replace function private.find_discount(code text, phone text, own_order uuid default null) returns public.discount_codes
language plpgsql volatile set search_path = '' as $$
declare
  discount public.discount_codes;
begin
  if own_order is null then
    select * into discount from public.discount_codes as d where d.code = find_discount.code;
  else
    -- Orders with the same code wait for each other from here to their end: the last use is given once.
    select * into discount from public.discount_codes as d where d.code = find_discount.code for no key update;
  end if;
  -- One answer to a code that never existed and to one that is over.
  if not private.is_discount_open(discount) or not private.has_uses_left(discount, own_order => find_discount.own_order) then
    perform private.refuse(409, 'discount_invalid', 'This discount code is not valid, or it has ended');
  elsif not private.has_uses_left(discount, find_discount.phone, find_discount.own_order) then
    perform private.refuse(409, 'discount_used', 'This discount code was used with this phone number already');
  end if;
  return discount;
end
$$;

comment on function private.find_discount is
  'The code that an order of this phone may use; refuses any other. own_order: the order that uses it, which must exist; the code is locked then.';

create or replace function public.check_discount_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  networks text[] := case when public.is_admin() then '{}' else private.caller_networks() end;
  discount public.discount_codes;
begin
  if cardinality(networks) > 0 then
    -- Guesses are serialised, so that each is counted before the next is compared. The widest network contains the others.
    perform pg_advisory_xact_lock(hashtext('discount_codes ' || networks[cardinality(networks)]));
    if not private.is_within_limit('discount_codes') then
      return private.refusal_answer('PT429', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ), 'too_many_discount_codes', '');
    end if;
  end if;
  select * into discount from public.discount_codes as d where d.code = private.read_discount_code(check_discount_code.code);
  if not private.is_discount_open(discount) or not private.has_uses_left(discount) then
    perform private.count_call_from(networks, 'discount_codes');
    return private.refusal_answer('PT409', 'This discount code is not valid, or it has ended', 'discount_invalid', '');
  end if;
  return private.discount_terms(discount);
end
$$;

comment on function public.check_discount_code is
  'The discount of a code that can be used now, so that the order form can show it: code, percent or amount_cents, minimum_cents. place_order decides. Wrong codes are counted (discount_codes in private.limits), those of staff are not.';

create or replace function private.discount_terms(discount public.discount_codes) returns jsonb
language sql immutable
return jsonb_build_object(
  'code', discount.code, 'percent', discount.percent, 'amount_cents', discount.amount_cents, 'minimum_cents', discount.minimum_cents
);

create or replace function public.list_discount_codes() returns table (
  id uuid, code text, percent smallint, amount_cents integer, minimum_cents integer, starts_at timestamptz, ends_at timestamptz,
  max_uses integer, max_uses_per_phone integer, is_active boolean, created_at timestamptz, updated_at timestamptz,
  uses bigint, waiting bigint, cost_cents bigint, sold_cents bigint, has_orders boolean
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
  select d.id, d.code, d.percent, d.amount_cents, d.minimum_cents, d.starts_at, d.ends_at,
    d.max_uses, d.max_uses_per_phone, d.is_active, d.created_at, d.updated_at,
    used.uses, used.waiting, used.cost_cents, used.sold_cents, used.has_orders
  from (select * from public.discount_codes as d order by d.created_at desc, d.id limit 500) as d
  cross join lateral (
    select count(*) filter (where private.counts_as_use(o.status, o.payment_status)) as uses,
      count(*) filter (where o.payment_status = 'unpaid' and o.status <> 'cancelled') as waiting,
      coalesce(sum(o.discount_cents) filter (where o.payment_status = 'paid'), 0)::bigint as cost_cents,
      coalesce(sum(o.total_amount) filter (where o.payment_status = 'paid'), 0)::bigint as sold_cents,
      count(*) > 0 as has_orders
    from public.orders as o where o.discount_code = d.code
  ) as used
  order by d.created_at desc, d.id;
end
$$;

comment on function public.list_discount_codes is
  'For staff: the 500 newest discount codes. uses: orders with the code, cancelled unpaid ones not counted; waiting: those of them that wait for their payment. cost_cents and sold_cents: the discounts and the totals of paid orders. has_orders: it was used at least once, so it can be neither changed nor deleted.';

-- Execution rights
grant execute on function public.check_discount_code to anon, authenticated, service_role;

grant execute on function public.list_discount_codes to authenticated;

create or replace function private.price_of(offer private.offered_line[]) returns bigint
language sql immutable
return (select coalesce(sum(line.price::bigint * line.quantity), 0) from unnest(offer) as line);

comment on function private.price_of is 'Price of the units, without the delivery fee, in cents.';

create or replace function private.total_of_offer(
  offer private.offered_line[], settings public.store_settings, expected_total integer, discount public.discount_codes default null
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
  if discount.id is not null then
    if total - settings.delivery_fee < discount.minimum_cents then
      perform private.refuse(409, 'discount_minimum', format(
        'This discount code is for drinks of at least KSh %s', to_char(discount.minimum_cents / 100, 'FM999,999,999')
      ), discount.minimum_cents::text);
    end if;
    total := total - private.discount_on(discount, total - settings.delivery_fee, settings.delivery_fee);
  end if;
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
  'Price of the units and the delivery fee without the discount, in cents. Refuses an order of which a product, the stock or the total is not what its customer saw, and one below the minimum of its discount code.';

create or replace function private.with_quote(
  refusal jsonb, offer private.offered_line[], settings public.store_settings, discount public.discount_codes default null
) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  quote jsonb;
  refused_id uuid;
  discount_cents integer := case
    when discount.id is not null then private.discount_on(discount, private.price_of(offer), settings.delivery_fee)
    else 0
  end;
begin
  select jsonb_build_object(
      'delivery_fee', settings.delivery_fee,
      'total', sum(line.price::bigint * line.quantity) + settings.delivery_fee - discount_cents,
      'items', jsonb_agg(
        jsonb_build_object('product_id', line.product_id, 'price', line.price, 'units_left', line.units_for_sale) order by line.position
      )
    ) || case
      when count(*) = 1 then jsonb_build_object('price', min(line.price), 'units_left', min(line.units_for_sale))
      else '{}'
    end || case when discount.id is not null then jsonb_build_object('discount', discount_cents) else '{}' end,
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
  'A refused order with the current amounts, so that its form can show them: quote has delivery_fee, total and the price and units_left of each item; of an order for one product these two beside them, too; of an order with a discount code that it may use, discount. product_id: the product that cannot be had.';

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
  items jsonb default null,
  source text default 'storefront',
  is_collected boolean default false,
  discount_code text default null
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
  -- Staff and the shop itself: their orders are not limited, may be of any source, and need neither an email address nor a tick.
  is_by_shop boolean := coalesce(auth.role(), '') = 'service_role' or public.is_admin();
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := case when is_by_shop then true else private.count_call_from(callers, 'place_order') end;
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  lines private.order_line[];
  offer private.offered_line[];
  total integer;
  code text := case when place_order.discount_code is not null then private.read_discount_code(place_order.discount_code) end;
  discount public.discount_codes;
  discount_cents integer := 0;
  refusal jsonb;
  new_order public.orders;
  number text;
  new_id uuid := gen_random_uuid();
  access_key text;
  networks text[] := case when is_by_shop then '{}' else callers end;
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
  elsif not is_by_shop and (place_order.source, place_order.is_collected) is distinct from ('storefront', false) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  elsif place_order.is_collected is null or place_order.source is null
    or place_order.source not in ('storefront', 'call', 'whatsapp', 'walk_in')
  then
    perform private.refuse(400, 'source_unknown', 'An order comes from the storefront, a call, a chat on WhatsApp or a customer in the shop');
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone,
    case
      when place_order.is_collected and coalesce(private.visible_length(left(place_order.delivery_location, 1000)), 0) = 0
        then 'Collected at the shop'
      else place_order.delivery_location
    end,
    place_order.building, place_order.unit, place_order.delivery_notes, is_email_optional => is_by_shop
  );
  lines := private.read_order_lines(place_order.product_id, place_order.quantity, place_order.items);
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, coalesce(to_jsonb(place_order.quantity), place_order.items), customer.name, customer.email,
      customer.phone, customer.address, customer.notes, place_order.expected_total)::text
      || case when place_order.source <> 'storefront' or place_order.is_collected
        then concat_ws(' ', place_order.source, place_order.is_collected) else '' end
      || coalesce(' ' || code, ''),
    'UTF8'
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
  if settings.requires_terms_tick and place_order.accepts_terms is not true and not is_by_shop then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  if place_order.is_collected then
    settings.delivery_fee := 0;
  end if;
  offer := private.offer_of(lines);
  if code is not null then
    if not is_by_shop and not private.is_within_limit('discount_codes') then
      perform private.refuse(429, 'too_many_discount_codes', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ));
    end if;
    discount := private.find_discount(code, customer.phone);
  end if;
  total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
  if code is not null then
    discount_cents := private.price_of(offer) + settings.delivery_fee - total;
  end if;
  holds_units := private.may_hold_from_placing(networks, offer, settings);
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected, discount_cents, discount_code
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then expires_at end, expires_at,
      now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes)),
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end,
      place_order.source, place_order.is_collected, discount_cents, discount.code
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
    if code is not null then
      -- Last of the locks.
      discount := private.find_discount(code, customer.phone, new_order.id);
    end if;
    total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
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
  if code is not null and discount_cents <> private.price_of(offer) + settings.delivery_fee - total then
    -- A price and the code have changed by the same amount since the order was inserted.
    update public.orders as o set discount_cents = private.price_of(offer) + settings.delivery_fee - total
    where o.id = new_order.id
    returning * into new_order;
  end if;
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
  if refusal_details in ('discount_invalid', 'discount_used') and not is_by_shop then
    perform private.count_call_from(callers, 'discount_codes');
  end if;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;

comment on function public.place_order is
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote). discount_code: the order uses it, and expected_total is what remains to pay after its discount. Staff also say where it came from (source) and whether it is collected; their orders need no email address and no terms.';

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
  discount public.discount_codes;
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
  if changed.discount_code is not null then
    -- The discount that the customer agreed on, also after the code has ended. Below its minimum the order gives it back.
    select * into discount from public.discount_codes as d
    where d.code = changed.discount_code and d.minimum_cents <= private.price_of(offer);
  end if;
  total := private.total_of_offer(offer, settings, change_order_items.expected_total, discount);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = changed.id;
  delete from public.order_items as i where i.order_id = changed.id;
  perform private.add_order_items(changed.id, offer);
  perform private.record_order_event(
    changed.id, 'items_changed', 'customer', jsonb_build_object('from_cents', changed.total_amount, 'to_cents', total)
  );
  update public.orders as o
  set total_amount = total, updated_at = now(), discount_code = discount.code,
      discount_cents = case when discount.id is null then 0 else private.price_of(offer) + settings.delivery_fee - total end,
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
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;

comment on function public.change_order_items is
  'Replaces the drinks of an order that waits for its payment, in one transaction: prices from the database, fee and discount as they were agreed, the units held as by a new order. Proof: the order''s access key. Refuses once a payment has begun. Answers and refuses as place_order does.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

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
  ) || case
    when described.discount_cents = 0 then '{}' else jsonb_build_object('discount_cents', described.discount_cents)
  end;
  if not is_open then
    return answer;
  end if;
  return answer || jsonb_build_object(
    'id', described.id,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = described.id),
    'shipping_address', described.shipping_address, 'delivery_notes', described.delivery_notes,
    'are_prompts_paused', described.payment_status = 'unpaid' and public.are_prompts_paused()
  ) || case when described.discount_code is null then '{}' else jsonb_build_object('discount', (
    select private.discount_terms(d) from public.discount_codes as d where d.code = described.discount_code
  )) end;
end
$$;

comment on function private.describe_order is
  'The order as its caller may see it: everything with proof, also the terms of its discount code (discount); else status, items and total, with name and phone masked; after 30 days only the status.';

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
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'link', 'receipt_link'
    ]
  end;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(written, placeholders);
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

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
    'discount_cents', o.discount_cents,
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
        'delivery_fee', o.delivery_fee, 'discount_code', o.discount_code, 'discount_cents', o.discount_cents,
        'total_amount', o.total_amount,
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

-- Totals

create or replace function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint,
  by_prompt bigint, by_till bigint, in_cash bigint, refunded_by_mpesa bigint, refunded_by_hand bigint, refunded_in_cash bigint,
  kept bigint, paid_with_credit bigint,
  missing_at_mpesa bigint, not_compared bigint, amounts_differ bigint, not_matched bigint, not_ours bigint, returned_unmatched bigint,
  at_mpesa bigint, discounts bigint
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
    select o.total_amount, o.charge_cents, o.delivery_fee, o.discount_cents, o.payment_status <> 'unpaid' as is_paid, money.*
    from public.orders as o
    cross join lateral (
      select count(*) as payments,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit'), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.method = 'credit'), 0) as credit_cents,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit' and p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      -coalesce(sum(o.credit_cents), 0) as paid_with_credit,
      coalesce(sum(o.cents + o.credit_cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees,
      coalesce(sum(o.discount_cents) filter (where o.is_paid), 0) as discounts
    from orders as o
  ), by_row as (
    select
      coalesce(sum(m.received_cents), 0) as received,
      coalesce(sum(m.received_cents) filter (where m.kind = 'prompt'), 0) as by_prompt,
      coalesce(sum(m.received_cents) filter (where m.kind = 'till'), 0) as by_till,
      coalesce(sum(m.received_cents) filter (where m.kind = 'cash'), 0) as in_cash,
      -coalesce(sum(m.refunded_cents), 0) as refunded,
      -coalesce(sum(m.refunded_cents) filter (where m.kind = 'refund_by_mpesa'), 0) as refunded_by_mpesa,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_by_hand', 'change_by_hand')), 0) as refunded_by_hand,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_in_cash', 'change_in_cash')), 0) as refunded_in_cash,
      -coalesce(sum(m.kept_cents), 0) as kept,
      coalesce(sum(m.received_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(m.received_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from private.money_rows(since, until) as m
    left join lateral (select o.payment_status from public.orders as o where o.id = m.order_id offset 0) as o on m.received_cents > 0
    left join lateral (select t.transacted_at from public.mpesa_transactions as t where t.payment_id = m.payment_id offset 0) as t
      on m.received_cents > 0
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    cross join lateral (select p.* from public.payments as p where p.id = t.payment_id offset 0) as p
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), compared as (
    select r.their_cents, case when r.payment_status = 'completed' then r.our_cents end as our_cents, r.kind, r.resolution
    from private.reconciliation_rows(since, until) as r
  ), at_mpesa as (
    select
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind = 'missing_there'), 0) as missing_at_mpesa,
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind <> 'missing_there'), 0) as not_compared,
      coalesce(sum(c.their_cents - c.our_cents), 0) as amounts_differ,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and coalesce(c.resolution, '') not in ('not_an_order', 'refund')), 0) as not_matched,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'not_an_order'), 0) as not_ours,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'refund'), 0) as returned_unmatched,
      coalesce(sum(c.their_cents), 0) as total
    from compared as c
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, b.refunded, b.received + b.refunded,
    c.cents - b.left_day, b.received - b.in_cash + c.cents - b.left_day,
    a.delivery_fees, b.in_review,
    b.by_prompt, b.by_till, b.in_cash, b.refunded_by_mpesa, b.refunded_by_hand, b.refunded_in_cash,
    b.kept::bigint, a.paid_with_credit::bigint,
    d.missing_at_mpesa, d.not_compared, d.amounts_differ, d.not_matched, d.not_ours, d.returned_unmatched, d.total,
    a.discounts
  from by_order as a, by_row as b, other_day as c, at_mpesa as d;
end
$$;

comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. by_prompt + by_till + in_cash = received (payments completed on the day); + refunded_by_mpesa + refunded_by_hand + refunded_in_cash (together refunded; change that went back is in them) = net_received, as in dashboard_figures; + kept (owed to customers) is the shop''s own. received - in_cash + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days; + missing_at_mpesa + not_compared + amounts_differ + not_matched + not_ours + returned_unmatched (went back without an order) = at_mpesa. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_with_credit + paid_otherwise (marked as paid, without a payment) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received. Included: delivery_fees of paid orders, in_review of received. discounts of paid orders: already taken off placed.';

-- Execution rights
grant execute on function public.money_entries, public.day_totals, public.cash_of_day, public.close_day to authenticated, service_role;

create trigger discount_codes_by_staff before insert or update or delete on public.discount_codes for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

alter publication supabase_realtime add table public.discount_codes;

-- The default texts; the shop's own ones where they are the default.
update public.message_templates as t
set default_body = replace(t.default_body, E'\nDelivery: {delivery_fee}\n', E'\n[Discount: {discount}\n]Delivery: {delivery_fee}\n'),
    body = case
      when t.body = t.default_body
        then replace(t.body, E'\nDelivery: {delivery_fee}\n', E'\n[Discount: {discount}\n]Delivery: {delivery_fee}\n')
      else t.body
    end
where t.kind in ('order_received', 'order_paid') and t.channel = 'mail';
