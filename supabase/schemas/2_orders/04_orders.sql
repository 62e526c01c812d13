-- Orders and their items. Amounts are in cents.

create table public.orders (
  id uuid primary key default gen_random_uuid(),
  order_number text not null default 'ORD-' || nextval('private.order_numbers'),
  tracking_number text not null,
  customer_name text not null,
  customer_email text not null,
  customer_phone text not null,
  shipping_address text not null,
  city text not null default 'Nairobi',
  delivery_notes text,
  status text not null default 'pending',
  delivery_fee integer not null,
  total_amount integer not null,
  -- M-PESA takes whole shillings: a fraction is rounded up.
  charge_cents integer not null generated always as ((total_amount + 99) / 100 * 100) stored,
  payment_method text not null default 'pending',
  payment_status text not null default 'unpaid',
  reserved_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  units_returned_at timestamptz,
  expires_at timestamptz,
  expiry_limit timestamptz,
  extended_at timestamptz,
  live_handle uuid not null default gen_random_uuid(),
  anonymised_at timestamptz,
  erasure_requested_at timestamptz,
  terms_accepted_at timestamptz,
  accepted_terms jsonb,
  cancel_reason text,
  source text not null default 'storefront',
  is_collected boolean not null default false,
  discount_cents integer not null default 0,
  discount_code text,
  area_id uuid references public.delivery_areas (id),
  area_name text,
  awaits_agreement boolean not null default false,
  delivery_day date,
  map_point text,
  promised_at timestamptz,
  promised_again_at timestamptz,
  cancel_requested_at timestamptz,
  cancel_declined_at timestamptz,
  cancel_answer text,
  constraint "order numbers are unique" unique (order_number),
  constraint "tracking numbers are unique" unique (tracking_number),
  constraint "a tracking number is JJ-YYYYMMDD-NNNN" check (tracking_number ~ '^JJ-\d{8}-\d{4,6}$'),
  constraint "an order status is known"
    check (status in ('pending', 'processing', 'shipped', 'out_for_delivery', 'delivered', 'cancelled')),
  constraint "a payment method of an order is known" check (payment_method in ('pending', 'mpesa', 'cash', 'credit')),
  constraint "a payment status is known"
    check (payment_status in ('unpaid', 'paid', 'needs_review', 'refunded')),
  constraint "amounts are not negative" check (delivery_fee >= 0 and total_amount >= 0),
  constraint "an order expires by its limit" check (expires_at <= expiry_limit),
  constraint "units are held no longer than the order waits" check (reserved_until <= expires_at),
  constraint "a reason for cancelling is known" check (cancel_reason in ('not_paid_in_time', 'refunded', 'by_shop', 'by_customer')),
  constraint "only a cancelled order has a reason for it" check (status = 'cancelled' or cancel_reason is null),
  constraint "only a request to cancel is declined, with a reason" check (
    (cancel_declined_at is null) = (cancel_answer is null) and (cancel_requested_at is not null or cancel_declined_at is null)
  ),
  constraint "accepted terms have a time" check ((terms_accepted_at is null) = (accepted_terms is null)),
  constraint "a source of an order is known" check (source in ('storefront', 'call', 'whatsapp', 'walk_in')),
  constraint "a collected order has no delivery fee" check (not is_collected or delivery_fee = 0),
  constraint "a discount has a code" check (discount_cents = 0 or (discount_cents > 0 and discount_code is not null)),
  constraint "an area has a name" check (area_id is null or area_name is not null)
);
comment on table public.orders is 'Customer orders. Amounts in cents. Staff set the status; payment_status follows M-PESA.';
comment on column public.orders.payment_method is
  'How the order was paid; credit: by credit alone. cash while it is unpaid: staff agreed with the customer on cash at the door. pending: not known yet.';
comment on column public.orders.reserved_until is 'End of the hold on units of an unpaid order. Null: it holds none.';
comment on column public.orders.units_returned_at is
  'When the units of a paid order returned to stock, because it was cancelled before they left. Null: not returned.';
comment on column public.orders.expires_at is
  'When an unpaid order is cancelled. Null: expire_reservations has closed it, expired or cancelled before. Not used once the order is paid.';
comment on column public.orders.expiry_limit is
  'Upper bound of expires_at, which an open prompt moves. A payment under review delays the cancellation beyond it.';
comment on column public.orders.extended_at is 'When a prompt moved expires_at. That happens once.';
comment on column public.orders.live_handle is
  'Name of the live channel order-{live_handle}, which anyone with the tracking number may join. Grants no other access.';
comment on column public.orders.anonymised_at is
  'When the customer''s name, email, phone, address and notes were removed. The order itself stays in the books.';
comment on column public.orders.erasure_requested_at is
  'When erasure was requested while the order was open. It is anonymised once it is closed.';
comment on column public.orders.cancel_reason is
  'Why an order is cancelled: its time for payment ended, its money was sent back before it left the shop, the shop decided so, or the customer did, or asked for it. Null for other statuses, and where nobody said why.';
comment on column public.orders.customer_email is 'Empty for orders that staff entered without one: they cause no mails.';
comment on column public.orders.source is
  'How the order came: placed by the customer (storefront), or entered by staff for a caller, a chat or a customer in the shop.';
comment on column public.orders.is_collected is 'The customer takes it along at the shop: no delivery fee and no rider.';
comment on column public.orders.discount_cents is 'What the discount code takes off the price of the drinks; total_amount is what remains to pay.';
comment on column public.orders.discount_code is 'The discount code that the order uses. Null: none.';
comment on column public.orders.area_id is 'The area that the customer chose. Null: none, as in orders that are collected or were placed before there were areas.';
comment on column public.orders.area_name is 'Name of the area when the order was placed.';
comment on column public.orders.awaits_agreement is
  'Staff and customer have not agreed on fee and day yet (agree_delivery): the delivery fee is 0, and no prompt is sent.';
comment on column public.orders.delivery_day is 'The day on which it arrives, as agreed. Null: within the promise of its area.';
comment on column public.orders.promised_at is
  'When it arrives at the latest, as promised when it was paid or its customer chose cash (private.promise_of). Null: not yet, or within no open time.';
comment on column public.orders.promised_again_at is 'The new time that the customer of a late order was informed of, once. Null: never.';
comment on column public.orders.cancel_requested_at is
  'When the customer asked to cancel the paid order (cancel_own_order). Null: never, or the customer keeps it.';
comment on column public.orders.cancel_declined_at is 'When staff declined that. Null: they have not.';
comment on column public.orders.cancel_answer is 'Why staff declined it. The customer reads it.';
comment on column public.orders.map_point is
  'Latitude and longitude that the customer''s device reported, for staff and rider alone. Null: not shared, or erased.';
comment on column public.orders.terms_accepted_at is
  'When the customer confirmed being 18 or older and accepted terms and privacy notice. Null: the form did not show them, or staff entered the order.';
comment on column public.orders.accepted_terms is
  'shop_texts.updated_at of the accepted terms and privacy notice, and is_ticked: whether ticking a box was required.';
alter table public.orders enable row level security;
grant select, update (status, updated_at) on public.orders to authenticated;
grant select (id) on public.orders to anon;
create policy "staff read every order, the counter recent ones" on public.orders
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(id)));
create policy "staff edit every order" on public.orders
  for update to authenticated using ((select public.may('orders'))) with check ((select public.may('orders')));
create index orders_newest_first on public.orders (created_at desc, id desc);
create index orders_by_phone on public.orders (customer_phone, created_at desc, id desc) where customer_phone <> '';
create index orders_of_a_final_status_newest_first on public.orders (status, created_at desc, id desc) where status in ('delivered', 'cancelled');
create index orders_to_resolve on public.orders (created_at desc)
  where payment_status = 'needs_review' or (payment_status = 'paid' and status = 'cancelled');
create index orders_by_expiry on public.orders (expires_at) where payment_status = 'unpaid' and status = 'pending';
create index orders_by_end_of_hold on public.orders (reserved_until) where payment_status = 'unpaid' and status = 'pending';
create index orders_cancelled_with_units on public.orders (id)
  where payment_status = 'unpaid' and status = 'cancelled' and reserved_until is not null;
create index orders_with_personal_details on public.orders (created_at)
  where anonymised_at is null and (payment_status <> 'unpaid' or status = 'cancelled');
create index orders_to_reduce on public.orders (created_at)
  where status = 'cancelled' and payment_status = 'unpaid' and anonymised_at is null;
create index orders_to_anonymise on public.orders (erasure_requested_at)
  where erasure_requested_at is not null and anonymised_at is null;
-- The words of an order are many: they are added to the index for about a hundred orders at once, which writes a third of the log.
-- Searches read those that wait, up to 256 kB. Of named columns, as private.order_text reads them: an index of the row would be written
-- by every change of the order.
create index orders_by_words on public.orders using gin (
  private.without_accents(
    order_number || E'\n' || split_part(tracking_number, '-', 3) || E'\n' || customer_name || E'\n' || customer_email || E'\n' ||
    customer_phone || E'\n' || replace(customer_phone, '+254', '0') || E'\n' || shipping_address || E'\n' || city
  ) extensions.gin_trgm_ops
) with (gin_pending_list_limit = 256);
-- One partial index for each filter of the staff lists, in the order of the lists.
create index orders_open on public.orders (created_at desc, id desc)
  where status in ('pending', 'processing', 'shipped', 'out_for_delivery');
create index orders_unpaid on public.orders (created_at desc, id desc) where payment_status = 'unpaid' and status <> 'cancelled';
-- Of few orders, so that the others do not write it.
create index orders_by_discount_code on public.orders (discount_code, customer_phone) where discount_code is not null;
create index orders_to_agree on public.orders (created_at desc, id desc) where awaits_agreement and status <> 'cancelled';
create index orders_to_cancel on public.orders (cancel_requested_at) where cancel_requested_at is not null and status <> 'cancelled';
create index orders_by_promise on public.orders (promised_at)
  where status in ('pending', 'processing', 'shipped', 'out_for_delivery') and promised_at is not null;
create index orders_refunded on public.orders (created_at desc, id desc) where payment_status = 'refunded';

create function private.is_to_deliver(payment_status text, payment_method text) returns boolean
language sql immutable
return payment_status = 'paid' or (payment_status = 'unpaid' and payment_method = 'cash');
comment on function private.is_to_deliver is 'The order is paid, or is paid in cash at the door: staff prepare and deliver it.';

create table public.order_items (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  product_id uuid references public.products (id) on delete set null,
  product_name text not null,
  quantity integer not null,
  unit_price integer not null,
  created_at timestamptz not null default now(),
  position smallint not null default 1,
  constraint "at least one is ordered" check (quantity >= 1),
  constraint "a unit price is not negative" check (unit_price >= 0)
);
comment on table public.order_items is 'Items of orders, with name and price of the product at ordering.';
comment on column public.order_items.position is 'Place in the order, as the customer chose the drinks. Counted from 1.';
alter table public.order_items enable row level security;
grant select on public.order_items to authenticated;
create policy "staff read every item, the counter those of recent orders" on public.order_items
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));
create index order_items_by_order on public.order_items (order_id);
create index order_items_by_product on public.order_items (product_id);
create index order_items_by_words on public.order_items using gin (
  private.without_accents(product_name) extensions.gin_trgm_ops
) with (gin_pending_list_limit = 64);

create table private.order_keys (
  idempotency_key uuid primary key,
  request_hash text not null,
  -- Checked at the commit: the key is inserted before its order.
  order_id uuid references public.orders (id) on delete cascade deferrable initially deferred,
  access_key text not null default replace(gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now(),
  repeats_id uuid references public.orders (id) on delete set null
);
comment on column private.order_keys.repeats_id is 'The order that order_again repeated. Null for other orders.';
comment on table private.order_keys is 'Idempotency key of each order, and the access key that shows its personal data.';
alter table private.order_keys enable row level security;
create unique index order_keys_by_order on private.order_keys (order_id);
create index order_keys_by_access_key on private.order_keys (access_key);
create index order_keys_by_repeated_order on private.order_keys (repeats_id) where repeats_id is not null;

create function private.draw_tracking_number() returns text
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

create function private.placed_order(placed public.orders, access_key text) returns jsonb
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
  end || case when placed.awaits_agreement then '{"awaits_agreement": true}' else '{}' end::jsonb;
end
$$;
comment on function private.placed_order is 'The response of place_order.';

create function public.count_product_orders(product_id uuid) returns table (orders bigint, unpaid bigint)
language sql stable set search_path = '' as $$
  select count(distinct o.id),
    count(distinct o.id) filter (where o.payment_status = 'unpaid' and o.reserved_until is not null)
  from public.order_items as i
  join public.orders as o on o.id = i.order_id
  where i.product_id = count_product_orders.product_id;
$$;
comment on function public.count_product_orders is
  'Number of orders that contain a product, and of those that hold units for a payment. Counts orders that the caller may read.';

create type private.order_details as (name text, email text, phone text, address text, notes text);

create function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text, is_email_optional boolean default false
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
  email := case when is_email_optional then private.visible_text(customer_email) else trim(customer_email) end;
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
  elsif not (is_email_optional and email is null) and (not private.is_email(email) or private.has_control_characters(email)) then
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
    name, coalesce(email, ''), phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;
comment on function private.read_order_details is 'Checks and trims what a customer or staff typed; refuses what is missing, invalid or too long. Without an email address: an empty text.';

create function private.refuse_above_payment_limit(payment_limit integer) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.refuse(400, 'total_too_large',
    format('M-PESA takes at most KSh %s in one payment. Please order less, or contact us for a large order',
      to_char(payment_limit / 100, 'FM999,999,999')),
    payment_limit::text);
end
$$;
comment on function private.refuse_above_payment_limit is
  'Refuses an order that M-PESA cannot charge in one payment. The hint is the limit in cents.';

-- Execution rights
grant execute on function public.count_product_orders to authenticated, service_role;
