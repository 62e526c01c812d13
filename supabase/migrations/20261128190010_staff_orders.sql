-- Earlier versions keep working: they call place_order and begin_payment by the names of their arguments, all of which these still have, and
-- orders of theirs come from the storefront and are delivered.

alter table public.orders
  add column source text not null default 'storefront',
  add column is_collected boolean not null default false;
comment on column public.orders.customer_email is 'Empty for orders that staff entered without one: they cause no mails.';
comment on column public.orders.source is
  'How the order came: placed by the customer (storefront), or entered by staff for a caller, a chat or a customer in the shop.';
comment on column public.orders.is_collected is 'The customer takes it along at the shop: no delivery fee and no rider.';
comment on column public.orders.terms_accepted_at is
  'When the customer confirmed being 18 or older and accepted terms and privacy notice. Null: the form did not show them, or staff entered the order.';
comment on column public.payments.requested_by is 'The staff member who sent the prompt. Null: the customer did.';

create type public.pay_link as (tracking_number text, access_key text);
comment on type public.pay_link is 'What the link of an order consists of (domain/order-link.ts).';

create type public.known_address as (address text, notes text);

create type public.past_item as (product_id uuid, product_name text, quantity integer, unit_price integer);

create type public.past_order as (
  id uuid, order_number text, created_at timestamptz, status text, payment_status text, total_amount integer, items public.past_item[]
);

create type public.known_customer as (
  phone text, name text, email text, orders integer, received_cents bigint,
  addresses public.known_address[], last_orders public.past_order[]
);
comment on type public.known_customer is
  'A customer as staff need them for another order. email: empty if none is known. orders: without cancelled ones. received_cents: what was paid for all orders and not sent back. addresses: the last three different ones, with the notes of the last order there. last_orders: the last five. Newest first.';

alter table public.order_events drop constraint "a kind of event is known";

drop function public.begin_payment(uuid,text,text,text,integer,integer);

drop function public.place_order(uuid,uuid,integer,text,text,text,text,integer,text,text,text,boolean,jsonb);

drop function private.read_order_details(text,text,text,text,text,text,text);

drop function private.record_order_event(uuid,text,text,jsonb);

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.orders add constraint "a collected order has no delivery fee" CHECK (((NOT is_collected) OR (delivery_fee = 0)));

alter table public.orders add constraint "a source of an order is known" CHECK ((source = ANY (ARRAY['storefront'::text, 'call'::text, 'whatsapp'::text, 'walk_in'::text])));

create or replace function private.read_order_details(
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
  is_collected boolean default false
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
        then concat_ws(' ', place_order.source, place_order.is_collected) else '' end,
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
  total := private.total_of_offer(offer, settings, place_order.expected_total);
  holds_units := private.may_hold_from_placing(networks, offer, settings);
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected
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
      place_order.source, place_order.is_collected
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
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote). Staff also say where it came from (source) and whether it is collected; their orders need no email address and no terms.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null,
  same_amount_seconds integer default 0, requested_by uuid default null
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

  -- Without limits, one order could send prompts to many phones. Staff send them to all who call, from the network of the shop.
  if begin_payment.requested_by is not null then
    null;
  elsif not private.may_prompt_from_network(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payments from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts'), private.contact_numbers()
    ), 'too_many_payments', '');
  elsif not private.may_prompt_new_phone(payer) then
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
    insert into public.payments (order_id, phone, charge_cents, next_query_at, requested_by, requested_by_email)
    values (
      ordered.id, payer, ordered.charge_cents, null, begin_payment.requested_by, private.email_of(begin_payment.requested_by)
    )
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
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new. same_amount_seconds: how long M-PESA refuses the same amount from one phone; 0: it does not. requested_by: the staff member who sends the prompt, whose network is not limited; null: the customer.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.lease_payment_queries to service_role;

create or replace function private.record_order_event(
  order_id uuid, kind text, default_actor text, details jsonb default '{}', member uuid default auth.uid()
) returns void
language plpgsql set search_path = '' as $$
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
  'Appends to an order''s timeline. The actor is the staff member, by default the caller, else default_actor.';

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
  if new.method = 'cash' then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'completed' then 'completed' else 'taken_back' end, 'staff',
      payment || jsonb_build_object('person', new.received_from, 'note', new.note)
    );
    return;
  elsif old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(
      new.order_id, 'payment_prompted', 'customer', payment, member => coalesce(new.requested_by, auth.uid())
    );
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

create or replace function public.show_pay_link(order_id uuid) returns public.pay_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  shown public.orders;
begin
  perform private.expect_staff();
  select * into shown from public.orders as o where o.id = show_pay_link.order_id;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif shown.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif shown.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  -- Once per member and hour: the member who copies the link again has seen it.
  if not exists (
    select from public.order_events as e
    where e.order_id = shown.id and e.kind = 'pay_link_shown' and e.actor_id is not distinct from auth.uid()
      and e.happened_at > now() - interval '1 hour'
  ) then
    perform private.record_order_event(shown.id, 'pay_link_shown', 'shop');
  end if;
  return (
    shown.tracking_number, (select k.access_key from private.order_keys as k where k.order_id = shown.id)
  )::public.pay_link;
end
$$;

comment on function public.show_pay_link is
  'For staff: the access key of an order that waits for its payment, for a link to its customer. Recorded in its timeline. Who has it reads the customer''s details, so it is not among the columns of orders.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change, public.show_pay_link to authenticated, service_role;

create or replace function public.move_on(
  delivery_id uuid, expected_step text, step text,
  delivery_person text default null, delivery_phone text default null, delivery_vehicle text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(move_on.delivery_person);
  phone text := private.visible_text(move_on.delivery_phone);
  vehicle text := private.visible_text(move_on.delivery_vehicle);
  member constant text := private.email_of((select auth.uid()));
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff();
  changed := private.lock_delivery(move_on.delivery_id);
  if (select private.work_step(o, changed) from public.orders as o where o.id = changed.order_id)
    is distinct from move_on.expected_step
  then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  case move_on.step
    when 'prepare' then
      changed.taken_by := null;
      changed.ready_at := null;
    when 'preparing' then
      changed.taken_by := member;
      changed.ready_at := null;
    when 'ready' then
      changed.taken_by := coalesce(changed.taken_by, member);
      changed.ready_at := coalesce(changed.ready_at, clock_timestamp());
    when 'on_the_way' then
      if (select o.is_collected from public.orders as o where o.id = changed.order_id) then
        perform private.refuse(409, 'order_is_collected', 'The customer collects this order at the shop, so no rider takes it');
      end if;
      if changed.delivery_person is null then
        perform private.check_rider(person, phone, vehicle);
        changed.delivery_person := person;
        changed.delivery_phone := phone;
        changed.delivery_vehicle := vehicle;
      elsif person is distinct from changed.delivery_person and person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', changed.delivery_person));
      end if;
    when 'delivered' then
    else
      perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  end case;
  update public.deliveries as d
  set delivery_status = case
        when move_on.step = 'on_the_way' then 'picked_up'
        when move_on.step = 'delivered' then 'delivered'
        when private.is_before_pickup(changed.delivery_status) then changed.delivery_status
        when changed.delivery_person is null then 'pending'
        else 'assigned'
      end,
      delivery_person = changed.delivery_person, delivery_phone = changed.delivery_phone, delivery_vehicle = changed.delivery_vehicle,
      taken_by = changed.taken_by, ready_at = changed.ready_at
  where d.id = changed.id;
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.move_on is
  'For staff: moves a paid order to a step of private.work_step or to delivered, if it still is at the expected one. preparing: the caller has it. ready: it is packed. on_the_way: its rider takes it, the one given if none was assigned; refused for an order that is collected, which goes from ready to delivered. Result as in set_order_status.';

-- Execution rights
grant execute on function public.work_queue, public.move_on to authenticated, service_role;

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
  is_to_deliver constant text := is_open || $sql$ and private.is_to_deliver(o.payment_status, o.payment_method)$sql$;
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
      when 'cash' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled' and o.payment_method = 'cash'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_to_deliver || $sql$ and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_to_deliver || format($sql$ and coalesce(
          (select private.work_step(o, d) from public.deliveries as d where d.order_id = o.id), 'prepare'
        ) = any (%L)$sql$, case filters.due when 'prepare' then array['prepare', 'preparing'] else array[filters.due] end)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    -- Pending are those that wait for a rider; collected orders need none.
    indexed := indexed || case when filters.status = 'pending' then
      'not (select collected.is_collected from public.orders as collected where collected.id = d.order_id)' end;
    indexed := indexed || case filters.due
      when 'late' then $sql$d.delivery_status <> 'delivered' and d.created_at < now() - private.delivery_promise()$sql$
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
  if not is_orders and filters.due = 'late' then
    -- As among orders. Failed deliveries are in no index of open ones, so that these come from their orders.
    checked := checked || is_to_deliver;
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_to_deliver;
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

create or replace function private.orders_of_phone(phone text) returns setof public.orders
language plpgsql stable rows 10 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  -- Without the prefix, which every phone has: the index is searched by the rare parts.
  return query
    select o.* from public.orders as o
    where private.without_accents(private.order_text(o)) like '%' || right(orders_of_phone.phone, 9) || '%'
      and o.customer_phone = orders_of_phone.phone and o.anonymised_at is null;
end
$$;

comment on function private.orders_of_phone is 'The orders with this phone (+254…), by the index of the order search.';

create or replace function public.customer_by_phone(phone text) returns public.known_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_by_phone.phone);
  own public.orders[];
  customer public.known_customer;
begin
  perform private.expect_staff();
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  own := array(select o from private.orders_of_phone(wanted) as o order by o.created_at desc, o.id desc);
  if cardinality(own) = 0 then
    return null;
  end if;
  customer.phone := wanted;
  customer.name := (own[1]).customer_name;
  select count(*) filter (where o.status <> 'cancelled'),
    coalesce((array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1], ''),
    coalesce(sum((
      select sum(p.charge_cents) from public.payments as p
      where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null
    )), 0)
  into customer.orders, customer.email, customer.received_cents
  from unnest(own) as o;
  customer.addresses := array(
    select (latest.shipping_address, latest.delivery_notes)::public.known_address
    from (
      select distinct on (lower(o.shipping_address)) o.shipping_address, o.delivery_notes, o.created_at, o.id
      from unnest(own) as o
      where not o.is_collected
      order by lower(o.shipping_address), o.created_at desc, o.id desc
    ) as latest
    order by latest.created_at desc, latest.id desc
    limit 3
  );
  customer.last_orders := array(
    select (o.id, o.order_number, o.created_at, o.status, o.payment_status, o.total_amount, array(
      select (i.product_id, i.product_name, i.quantity, i.unit_price)::public.past_item
      from public.order_items as i where i.order_id = o.id order by i.position
    ))::public.past_order
    from unnest(own[1:5]) as o
    order by o.created_at desc, o.id desc
  );
  return customer;
end
$$;

comment on function public.customer_by_phone is
  'For staff: the customer with this phone, in any Kenyan format. Null: no order has it. Orders that were anonymised are no longer anyone''s.';

create or replace function public.drinks_to_order(search text default '', ids uuid[] default null) returns table (
  id uuid, name text, brand text, price integer, image_url text, units_left integer, sold integer
)
language plpgsql stable security definer rows 30 set search_path = '' as $$
#variable_conflict use_column
declare
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(drinks_to_order.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
begin
  perform private.expect_staff();
  -- Reads the whole catalogue, as find_products by a column, and of the orders only the newest.
  return query
    with sales as (
      select i.product_id, sum(i.quantity)::integer as units
      from (select o.id, o.status from public.orders as o order by o.created_at desc, o.id desc limit 300) as newest
      cross join lateral (select * from public.order_items as own where own.order_id = newest.id offset 0) as i
      where newest.status <> 'cancelled'
      group by i.product_id
    )
    select p.id, p.name, p.brand, p.price, p.image_url, public.units_for_sale(p), coalesce(s.units, 0)
    from public.products as p
    left join sales as s on s.product_id = p.id
    where p.is_active and (drinks_to_order.ids is null or p.id = any (drinks_to_order.ids))
      and private.without_accents(p.name || ' ' || coalesce(p.brand, '')) like all (words)
    order by public.units_for_sale(p) = 0, coalesce(s.units, 0) desc, lower(p.name), p.id
    limit 30;
end
$$;

comment on function public.drinks_to_order is
  'For staff who enter an order: up to 30 active products whose name and brand contain all words of a search, or those with these ids, with their price and the units that can be ordered now. Those of the newest 300 orders first, by units sold; those that cannot be ordered last.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      -- A customer who pays cash stands in front of staff or the rider, and texts cost money.
      perform private.queue_order_messages(
        new.id, 'order_paid', private.payment_event_key(new.id),
        channels => case new.payment_method when 'cash' then array['mail'] else array['mail', 'text'] end
      );
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    -- The customer of a collected order has it in hand.
    if new.is_collected and private.has_left_shop(new.status) then
      null;
    elsif private.is_on_the_way(new.status) then
      perform private.queue_order_messages(
        new.id, 'order_on_its_way', private.failure_event_key(new.id), due_at => now() + private.undo_window()
      );
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

create or replace function private.add_to_outbox(
  ordered public.orders, kind text, event_key text, channel text, recipient text, due_at timestamptz
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Other messages follow a payment, or a change by staff.
  has_priority boolean := ordered.payment_status <> 'unpaid' or ordered.source <> 'storefront'
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

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'INSERT' then
    perform private.record_order_event(new.id, 'order_placed', case when new.source = 'storefront' then 'customer' else 'shop' end, jsonb_build_object(
      'total_amount', new.total_amount,
      'source', nullif(new.source, 'storefront'),
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    -- Callers and chats get the link at once; a customer in the shop, as on the storefront, with a prompt.
    if new.source in ('call', 'whatsapp') then
      perform private.queue_order_messages(new.id, 'order_received');
    end if;
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
