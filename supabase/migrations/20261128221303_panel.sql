-- Earlier versions keep working: they send the new kind of message as every other verbatim one, leave out a part of a template whose
-- placeholder they do not know, and read and write none of the new columns and tables.

comment on column public.outbox_messages.order_id is 'Null for newsletter mails, replies to inquiries, messages to staff and tests.';

alter table public.backups
  add column check_requested_at timestamptz,
  add column checked_at timestamptz,
  add column check_problem text;
comment on column public.backups.check_requested_at is 'When staff last asked to restore it once more, as a check.';
comment on column public.backups.checked_at is 'When that check last ended. Null: never since it was made.';
comment on column public.backups.check_problem is 'What the last check found. Null: nothing.';

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order, a reader, an inquiry or the shop";

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text])));

alter table public.outbox_messages add constraint "a message is about an order, a reader, an inquiry or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text]))));

create or replace function private.pay_link_time() returns interval
language sql immutable
return interval '24 hours';

comment on function private.pay_link_time is
  'How long an order waits for its payment once staff have given its customer the link: people answer a chat when they see it.';

create or replace function private.limit_of_pay_link(expires_at timestamptz) returns timestamptz
language sql immutable
return expires_at + interval '10 minutes';

comment on function private.limit_of_pay_link is 'orders.expiry_limit of an order with a pay link: an open prompt at its end is waited for.';

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
    if is_over and ended.status <> 'cancelled' and private.had_pay_link(ended) then
      insert into private.ended_pay_links (order_id) values (ended.id) on conflict do nothing;
    end if;
  end loop;
  return cardinality(due);
end
$$;

comment on function public.expire_reservations is
  'Ends what private.due_end names: cancels unpaid orders, and returns the units that they hold, of at_most orders. Returns the number of orders.';

-- Execution rights
grant execute on function public.expire_reservations to service_role;

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
  held_until timestamptz;
  expires_at timestamptz;
  expiry_limit timestamptz;
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
  elsif not is_by_shop then
    perform private.refuse_blocked_phone(customer.phone);
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
  held_until := now() + make_interval(mins => settings.reservation_minutes);
  expires_at := held_until;
  expiry_limit := now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes));
  -- These customers get the link from staff, and pay when they read it.
  if place_order.source in ('call', 'whatsapp') then
    held_until := expiry_limit;
    expires_at := greatest(held_until, now() + private.pay_link_time());
    expiry_limit := private.limit_of_pay_link(expires_at);
  end if;
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected, discount_cents, discount_code
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then held_until end, expires_at, expiry_limit,
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
    perform private.hold_units(new_order.id, networks, held_until, false);
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

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

create or replace function public.choose_cash(order_id uuid, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cash_orders');
  refusal_details text;
  refusal_hint text;
begin
  if not (select s.offers_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'We take no cash at the door at the moment. Please pay by M-PESA');
  elsif not exists (
    select from private.order_keys as k where k.order_id = choose_cash.order_id and k.access_key = choose_cash.access_key
  ) then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  ordered := private.lock_order_for_cash(choose_cash.order_id);
  if ordered.payment_method = 'cash' then
    return private.placed_order(ordered, choose_cash.access_key);
  elsif ordered.is_collected then
    perform private.refuse(409, 'cash_not_taken', 'You collect this order at the shop. Please pay there, or by M-PESA');
  end if;
  -- Nothing is paid before the rider stands at the door: a stranger could send riders around. One phone has one such order at a time,
  -- unless it has paid before.
  if not private.has_paid(ordered.customer_phone) and (
    not is_within_limit or exists (
      select from public.orders as o
      where private.is_open_order(o.status) and o.payment_status = 'unpaid' and o.payment_method = 'cash'
        and o.customer_phone = ordered.customer_phone
    )
  ) then
    perform private.refuse(429, 'too_many_cash_orders', format(
      'Another order of this phone or network is paid in cash already. Please pay this one by M-PESA, or call or WhatsApp us on %s',
      private.contact_numbers()
    ));
  end if;
  perform private.deliver_for_cash(ordered, 'customer');
  -- The link of an order leaves with its first prompt, or now.
  perform private.queue_order_messages(ordered.id, 'order_received');
  perform private.add_notice('paid_order', ordered.id::text, ordered.id);
  select * into ordered from public.orders as o where o.id = ordered.id;
  return private.placed_order(ordered, choose_cash.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.choose_cash is
  'A customer pays in cash at the door, where the settings offer it (store_settings.offers_cash). Proof: the order''s access key. Answers as place_order.';

-- Execution rights
grant execute on function public.choose_cash to anon, authenticated, service_role;

create table private.ended_pay_links (
  order_id uuid primary key references public.orders (id) on delete cascade,
  ended_at timestamptz not null default now()
);

comment on table private.ended_pay_links is
  'Orders that ended unpaid although staff had given their customers the link. Deleted after a day, or when staff have seen it.';

alter table private.ended_pay_links enable row level security;

create index ended_pay_links_by_time on private.ended_pay_links (ended_at);

create or replace function private.had_pay_link(ended public.orders) returns boolean
language sql stable set search_path = '' as $$
  select ended.source in ('call', 'whatsapp') or exists (
    select from public.order_events as e where e.order_id = ended.id and e.kind = 'pay_link_shown'
  );
$$;

comment on function private.had_pay_link is 'Whether staff gave the customer of an order its link.';

create or replace function public.ended_pay_links() returns table (
  order_id uuid, order_number text, customer_name text, charge_cents integer, ended_at timestamptz
)
language plpgsql stable security definer rows 10 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
    select o.id, o.order_number, o.customer_name, o.charge_cents, l.ended_at
    from (
      select * from private.ended_pay_links as recent where recent.ended_at > now() - interval '1 day'
      order by recent.ended_at desc limit 100
    ) as l
    cross join lateral (select * from public.orders as own where own.id = l.order_id offset 0) as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid'
    order by l.ended_at desc;
end
$$;

comment on function public.ended_pay_links is
  'For staff: orders of the last day that ended unpaid although their customers got the link from staff, and that no one has dealt with; the newest first.';

create or replace function public.dismiss_ended_pay_link(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  delete from private.ended_pay_links as l where l.order_id = dismiss_ended_pay_link.order_id or l.ended_at < now() - interval '1 day';
end
$$;

comment on function public.dismiss_ended_pay_link is 'For staff: someone has dealt with an order that ended unpaid. Repeating it changes nothing.';

create or replace function private.wait_for_pay_link(shown public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  waits_until constant timestamptz := now() + private.pay_link_time();
  held_until timestamptz := shown.reserved_until;
  -- No longer than prompts could have held its units.
  longest_hold constant timestamptz := least(shown.created_at + private.longest_reservation(private.reservation()), waits_until);
begin
  if shown.status <> 'pending' or shown.payment_method = 'cash' or shown.expires_at is null or shown.expires_at >= waits_until then
    return;
  end if;
  if held_until < longest_hold and private.extend_counted_hold(shown.id, longest_hold) then
    held_until := longest_hold;
  end if;
  update public.orders as o
  set expires_at = waits_until, reserved_until = held_until,
      expiry_limit = greatest(o.expiry_limit, private.limit_of_pay_link(waits_until)), updated_at = now()
  where o.id = shown.id;
end
$$;

comment on function private.wait_for_pay_link is
  'An unpaid order waits longer for its payment, because its customer gets the link now. Its units stay held at most for the longest reservation. The caller has locked the order.';

create or replace function public.show_pay_link(order_id uuid) returns public.pay_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  shown public.orders;
begin
  perform private.expect_staff();
  select * into shown from public.orders as o where o.id = show_pay_link.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif shown.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif shown.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  perform private.wait_for_pay_link(shown);
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
  'For staff: the access key of an order that waits for its payment, for a link to its customer. From then on the order waits a day. Recorded in its timeline. Who has it reads the customer''s details, so it is not among the columns of orders.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change, public.show_pay_link, public.ended_pay_links, public.dismiss_ended_pay_link to authenticated, service_role;

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
      'failure', 'cash', 'link', 'receipt_link'
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
  elsif message_facts.kind in ('inquiry_reply', 'test_message') then
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
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'payment', (
      select jsonb_build_object(
        'charge_cents', coalesce(part.amount_cents, p.charge_cents), 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', coalesce(part.receipt, p.refund_receipt), 'is_credit', case when p.method = 'credit' then true end
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      left join lateral (
        select c.* from public.change_notes as c where c.payment_id = p.id and c.id::text = message_facts.event_key
      ) as part on true
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          when part.id is not null then true
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries and tests: the shop.';

create or replace function private.given_up(message public.outbox_messages, problem text) returns text
language sql immutable set search_path = '' as $$
  select case
    -- Tried once: its sender waits for the answer.
    when message.kind = 'test_message' then coalesce(given_up.problem, 'No process of the shop sent it in time. Is one running?')
    else 'Given up after a day: ' || coalesce(given_up.problem, 'nothing could be sent in that time')
  end;
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
  if not message.is_verbatim and not private.is_still_true(message) then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := private.given_up(message, message.problem);
  elsif not message.is_verbatim and not exists (
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
          then private.given_up(sent, coalesce(finish_message.problem, 'refused without a reason'))
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

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

-- Tests of the mail server and of the text message gateway, sent by staff through the outbox.

create or replace function public.send_test_message(channel text, recipient text) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant text := coalesce(private.email_of(private.expect_staff_member()), 'A colleague');
  shop constant text := (select s.store_name from public.store_settings as s);
  new_id constant uuid := gen_random_uuid();
  checked text;
  queued public.outbox_messages;
begin
  if send_test_message.channel is null or send_test_message.channel not in ('mail', 'text') then
    perform private.refuse(400, 'channel_unknown', 'A message goes by mail or as a text');
  elsif send_test_message.channel = 'mail' then
    checked := private.visible_text(left(send_test_message.recipient, 255));
    if checked is null or not private.is_email(checked) or char_length(checked) > 254 then
      perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
    end if;
  else
    checked := private.normalised_phone(left(send_test_message.recipient, 40));
    if checked is null then
      perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
    end if;
  end if;
  if private.left_of_budget(send_test_message.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', send_test_message.channel || 's'
    ));
  elsif private.count_hit('test_messages', send_test_message.channel, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Ten tests were sent within an hour. Please wait before the next one');
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, give_up_at
  ) values (
    new_id, null, 'test_message', new_id::text, send_test_message.channel, checked, '', '', '', true, true,
    case send_test_message.channel when 'mail' then 'Test from ' || shop end,
    case send_test_message.channel
      when 'mail' then format(E'This is a test of the emails of %s. If you read it, customers get theirs, too.\n\nSent from the staff panel by %s.', shop, member)
      else format('%s: this is a test of our text messages.', shop)
    end,
    -- Less than the delay before a second attempt: the answer to the first one is the result.
    now() + interval '20 seconds'
  )
  returning * into queued;
  insert into private.outbox_queue (message_id, channel, due_at) values (queued.id, queued.channel, now());
  return queued;
end
$$;

comment on function public.send_test_message is
  'For staff: sends a test by mail or text to an address or phone, at most ten an hour of each, within the daily budget. It is tried once; the row of the outbox says how it ended.';

-- Execution rights
grant execute on function public.send_test_message to authenticated;

-- What staff do with a backup: check it once more, and download it (docs/decisions/backups.md).

create table public.backup_downloads (
  id bigint generated always as identity primary key,
  backup_id bigint not null,
  file_name text not null,
  downloaded_by uuid references auth.users (id) on delete set null,
  downloaded_by_email text not null,
  allowed_at timestamptz not null default now(),
  started_at timestamptz,
  token_hash text not null,
  constraint "a download has its own token" unique (token_hash)
);

comment on table public.backup_downloads is
  'Who downloaded a backup, which contains all personal data. Append-only; started_at is null while no file was sent.';

comment on column public.backup_downloads.token_hash is
  'SHA-256 of the token in the URL, which opens the file for two minutes from allowed_at.';

alter table public.backup_downloads enable row level security;

revoke all on public.backup_downloads from anon, authenticated, service_role;

grant select (id, backup_id, file_name, downloaded_by, downloaded_by_email, allowed_at, started_at) on public.backup_downloads
  to authenticated, service_role;

create policy "staff read who downloaded backups" on public.backup_downloads
  for select to authenticated using ((select public.is_admin()));

create or replace function private.backup_with_file(backup_id bigint) returns public.backups
language plpgsql stable set search_path = '' as $$
declare
  found_backup public.backups;
begin
  select * into found_backup from public.backups as b where b.id = backup_with_file.backup_id and b.file_name is not null;
  if not found then
    perform private.refuse(404, 'backup_not_found', 'This backup does not exist any more');
  end if;
  return found_backup;
end
$$;

create or replace function public.request_backup_check(backup_id bigint) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  perform private.backup_with_file(request_backup_check.backup_id);
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  update public.backups as b set check_requested_at = now() where b.id = request_backup_check.backup_id;
  perform pg_catalog.pg_notify('backup_checks', request_backup_check.backup_id::text);
end
$$;

comment on function public.request_backup_check is
  'For staff and the secret key: requests that a backup is restored once more, as a check. Its outcome is checked_at and check_problem of its row.';

create or replace function public.record_backup_check(backup_id bigint, problem text default null) returns void
language sql volatile security definer set search_path = '' as $$
  update public.backups as b set checked_at = now(), check_problem = record_backup_check.problem where b.id = record_backup_check.backup_id;
$$;

comment on function public.record_backup_check is 'Records the outcome of a check. problem: null if the backup could be restored.';

create or replace function private.has_fresh_second_factor() returns boolean
language sql stable set search_path = '' as $$
  select not exists (select from auth.mfa_factors as f where f.user_id = (select auth.uid()) and f.status = 'verified')
    or exists (
      select from jsonb_array_elements(
        case jsonb_typeof((select auth.jwt()) -> 'amr') when 'array' then (select auth.jwt()) -> 'amr' else '[]' end
      ) as passed (method)
      where passed.method ->> 'method' in ('totp', 'mfa/webauthn', 'mfa/phone')
        and to_timestamp((passed.method ->> 'timestamp')::double precision) > now() - interval '5 minutes'
    );
$$;

comment on function private.has_fresh_second_factor is
  'Whether the caller passed a second factor within the last five minutes, or has none.';

create or replace function public.allow_backup_download(backup_id bigint) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  member constant uuid := private.expect_staff_member();
  asked public.backups := private.backup_with_file(allow_backup_download.backup_id);
  token constant text := encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
begin
  if not private.has_fresh_second_factor() then
    perform private.refuse(403, 'second_factor_needed', 'Please enter the code of your authenticator app first');
  elsif private.count_hit('backup_downloads', 'all', interval '1 hour') > 20 then
    perform private.refuse(429, 'too_many_downloads', 'Backups were downloaded twenty times within an hour. Please wait before the next one');
  end if;
  insert into public.backup_downloads (backup_id, file_name, downloaded_by, downloaded_by_email, token_hash)
  values (
    asked.id, asked.file_name, member, coalesce(private.email_of(member), ''), encode(sha256(convert_to(token, 'UTF8')), 'hex')
  );
  return token;
end
$$;

comment on function public.allow_backup_download is
  'For staff who passed their second factor within five minutes, if they have one: records who downloads a backup, and returns the token of its URL, valid for two minutes.';

create or replace function public.open_backup_download(token text, is_started boolean default false) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  allowed public.backup_downloads;
begin
  select * into allowed from public.backup_downloads as d
  where d.token_hash = encode(sha256(convert_to(open_backup_download.token, 'UTF8')), 'hex')
    and d.allowed_at > now() - interval '2 minutes'
  for update;
  if found and open_backup_download.is_started and allowed.started_at is null then
    update public.backup_downloads as d set started_at = now() where d.id = allowed.id;
  end if;
  return allowed.file_name;
end
$$;

comment on function public.open_backup_download is
  'The file that a token opens; null if it opens none, or no longer. is_started: the file is about to be sent.';

-- Execution rights
grant execute on function public.request_backup_check to authenticated, service_role;

grant execute on function public.allow_backup_download to authenticated;

grant execute on function public.record_backup_check, public.open_backup_download to service_role;

-- Templates say that an order is paid in cash at the door. One that staff edited stays.
update public.message_templates as t
set body = case when t.body = t.default_body then replace(t.body, new.from_text, new.to_text) else t.body end,
    default_body = replace(t.default_body, new.from_text, new.to_text)
from (values
  ('order_received', 'text', ', {total}. Pay', ', {total}[, {cash}]. Pay'),
  ('order_received', 'mail', 'Total: {total}', 'Total: {total}[, {cash}]'),
  ('order_on_its_way', 'text', 'on its way. Follow', 'on its way. [Have {total} ready: {cash}. ]Follow'),
  ('order_on_its_way', 'mail', 'on its way to you.', E'on its way to you.[\n\nPlease have {total} ready: {cash}.]')
) as new (kind, channel, from_text, to_text)
where t.kind = new.kind and t.channel = new.channel;
