-- That an order's money was sent back is told by M-PESA's receipt of it, or not at all; and what visitors write cannot put words
-- into the shop's messages.

create or replace function public.decide_paid_order(order_id uuid, decision text) returns void
language plpgsql security definer
set search_path = ''
as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = decide_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  if decide_paid_order.decision = 'deliver' and decided.payment_status = 'needs_decision' then
    if private.mark_order_paid(decided.id) <> 'paid' then
      perform private.refuse(409, 'units_sold_meanwhile',
        'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
    end if;
  elsif decide_paid_order.decision = 'refunded' and (
    decided.payment_status = 'needs_decision' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- Refunds ask for a receipt, and above the limit for a second member: nobody decides past them.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded',
        status = 'cancelled',
        -- Money that waited for a decision holds no units.
        units_returned_at = case when decided.payment_status = 'needs_decision' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_decide', 'This order has changed. There is nothing to decide any more');
  end if;
end
$$;
comment on function public.decide_paid_order(uuid, text) is
  'What a member of staff decides about money: deliver an order whose units were sold before it was paid, once there are units again; or note that the money of such an order, or of a cancelled one, was sent back (refunded), where the shop has no payment of it. Payments are sent back by request_refund or note_refund_by_hand.';

create function private.has_control_signs(written text) returns boolean
language sql immutable
set search_path = ''
as $$
  select written ~ '[\u0001-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]';
$$;
comment on function private.has_control_signs(text) is
  'Whether a line holds signs that nobody types into one: line breaks, tabs, signs that steer a terminal or turn the direction of writing.';

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
  delivery_notes text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  name text := trim(place_order.customer_name);
  email text := trim(place_order.customer_email);
  phone text := private.normalised_phone(place_order.customer_phone);
  location text := trim(place_order.delivery_location);
  building_name text := nullif(trim(place_order.building), '');
  unit_name text := nullif(trim(place_order.unit), '');
  -- Line feeds stay, what steers a screen in another way does not.
  notes text := nullif(trim(regexp_replace(place_order.delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');
  address text;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total bigint;
  new_order public.orders;
  caller text := private.caller_address();
  drawn text;
begin
  if place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;
  -- Names and addresses stand in messages to customers: they are one line, which no sign turns round.
  if name is null or char_length(name) < 2 or private.has_control_signs(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  end if;
  if char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  end if;
  if email is null or email !~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' or private.has_control_signs(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  if char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  end if;
  if phone is null then
    perform private.refuse(400, 'phone_invalid',
      'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  if location is null or char_length(location) < 3
    or private.has_control_signs(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  end if;
  if char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  end if;
  if char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;

  address := location
    || coalesce(', Building: ' || building_name, '')
    || coalesce(', Unit: ' || unit_name, '');
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, name, email, phone, address, notes, place_order.expected_total)::text,
    'UTF8'
  )), 'hex');

  -- The first to bring a key places the order; anyone else with it waits here for the first to finish.
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

  -- Mobile networks put thousands behind one address, so this only stops machines.
  if caller is not null and private.count_hit('place_order', caller, interval '10 minutes') > 100 then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  end if;

  select * into strict settings from public.store_settings;

  update public.products as p
  set stock_quantity = p.stock_quantity - place_order.quantity
  where p.id = place_order.product_id and p.is_active and p.stock_quantity >= place_order.quantity
  returning * into product;
  if not found then
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif product.stock_quantity = 0 then
      perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
    else
      perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity),
        product.stock_quantity::text);
    end if;
  end if;

  total := product.price::bigint * place_order.quantity + settings.delivery_fee;
  if total > 2000000000 then
    perform private.refuse(400, 'total_too_large', 'The total is too large for one order');
  end if;
  if place_order.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;

  for attempt in 1 .. 60 loop
    drawn := private.draw_tracking_number(attempt);
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until
    ) values (
      drawn, name, email, phone, address, notes,
      settings.delivery_fee, total, now() + make_interval(mins => settings.reservation_minutes)
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    exit when found;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
end
$$;

-- How much one member may send back, and what is turned away, is nobody's business but the staff's.
revoke select on public.store_settings from anon;
grant select (
  id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee,
  reservation_minutes, till_number, paybill_number, updated_at
) on public.store_settings to anon;

-- Counters that count nothing any more go; of old messages it stays known that they were sent, not to whom and in what words:
-- those open the order's page.
create index outbox_messages_with_words on public.outbox_messages (created_at) where recipient <> '';

create function public.forget_old_rows() returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  forgotten integer;
begin
  delete from private.rate_limits as counted where counted.window_start < now() - interval '2 hours';
  update public.outbox_messages as m
  set recipient = '', customer_name = '', subject = null, body = null, problem = null, updated_at = now()
  where m.id in (
    select old.id from public.outbox_messages as old
    where old.recipient <> '' and old.created_at < now() - interval '90 days' and old.status not in ('waiting', 'sending')
    order by old.created_at limit 5000
    for update skip locked
  );
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
comment on function public.forget_old_rows() is
  'Deletes counters that have run out, and takes recipient and words from messages older than 90 days, 5000 at a time. Gives how many messages.';
grant execute on function public.forget_old_rows() to service_role;
