-- Earlier versions keep working: they use no credit, refund no part, and note change without its way. What they note counts as before.

alter table public.change_notes
  add column way text,
  add column is_part_refund boolean not null default false,
  add column used_for uuid;

create type public.kept_money as (
  id uuid, order_id uuid, order_number text, customer_name text, customer_phone text, created_at timestamptz,
  kept_cents bigint, used_cents bigint, returned_cents bigint, owed_cents bigint, used_orders text
);

comment on type public.kept_money is
  'What was kept of one payment (id) for its customer since created_at, in cents: kept_cents = used_cents + returned_cents + owed_cents. returned_cents: also what went back with a refund of the whole payment. used_orders: numbers of the orders that it paid.';

create type public.listed_customer as (
  id uuid, created_at timestamptz, phone text, name text, orders integer, spent_cents bigint, credit_cents bigint, is_blocked boolean
);

comment on type public.listed_customer is
  'A customer in the list. id, created_at: of the last order. orders: without cancelled ones. spent_cents: what came for the orders, less what went back and what is owed. credit_cents: what is owed.';

create type public.owed_credit as (payment_id uuid, order_id uuid, order_number text, owed_cents integer, noted_at timestamptz);

comment on type public.owed_credit is 'What is owed of one payment, in cents, and the order that it came for.';

create type public.shown_customer as (
  phone text, name text, email text, orders integer, cancelled integer, spent_cents bigint, credit_cents bigint, first_order_at timestamptz,
  notes text, notes_by text, notes_at timestamptz, is_blocked boolean, block_reason text, blocked_by text, blocked_at timestamptz
);

comment on type public.shown_customer is
  'A customer as staff see them: sums as in listed_customer. name: of the last order; null: no order has the phone. block_reason: null although is_blocked: an erasure removed it.';

comment on column public.orders.payment_method is
  'How the order was paid; credit: by credit alone. cash while it is unpaid: staff agreed with the customer on cash at the door. pending: not known yet.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of newsletter mails the subscription''s id; of replies the inquiry''s id; of messages to staff the id of the incident or the refund; of a repeated message of an order its own id.';

comment on column public.payments.method is
  'prompt: a prompt for charge_cents was sent. till: money without a prompt, reported by staff or M-PESA; its phone is unknown (''''). cash: a staff member (confirmed_by) took it. credit: a staff member used what the shop owed to the customer (change_notes.used_for); no money came. cash and credit that failed were taken back.';

comment on column public.payments.note is 'Why cash differs from the charge of its order, or why cash or credit was taken back.';

alter table public.change_notes drop constraint "change is credit, to return, or returned";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.orders drop constraint "a payment method of an order is known";

alter table public.payments drop constraint "a payment method is known";

alter table public.payments drop constraint "cash has no receipt, and a staff member took it";

alter table public.reconciliation_events drop constraint "a decision is known";

alter table public.refunds drop constraint "a refund goes by M-PESA, by hand or in cash";

drop function public.note_change(uuid,text,integer,text,text);

drop function private.add_change_note(payments,text,integer,text,text,uuid);

drop function private.change_of(uuid);

revoke all on public.change_notes from anon, authenticated;

revoke all on public.reconciliation_events from anon, authenticated;

revoke all on public.refunds from anon, authenticated;

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.orders add constraint "a payment method of an order is known" CHECK ((payment_method = ANY (ARRAY['pending'::text, 'mpesa'::text, 'cash'::text, 'credit'::text])));

alter table public.payments add constraint "a payment method is known" CHECK ((method = ANY (ARRAY['prompt'::text, 'till'::text, 'cash'::text, 'credit'::text])));

alter table public.reconciliation_events add constraint "a decision is known" CHECK ((kind = ANY (ARRAY['given'::text, 'not_an_order'::text, 'refund'::text, 'accepted'::text, 'reopened'::text, 'taken_back'::text, 'delivered'::text, 'change_credit'::text, 'change_to_return'::text, 'change_returned'::text, 'change_used'::text, 'change_use_taken_back'::text])));

alter table public.change_notes add constraint "a kind of change is known" CHECK ((kind = ANY (ARRAY['credit'::text, 'to_return'::text, 'returned'::text, 'used'::text, 'use_taken_back'::text])));

alter table public.change_notes add constraint "a part refund is returned" CHECK (((NOT is_part_refund) OR ((kind = 'returned'::text) AND (way IS NOT NULL) AND (note IS NOT NULL))));

alter table public.change_notes add constraint "change goes back by M-PESA or in cash" CHECK ((way = ANY (ARRAY['mpesa'::text, 'cash'::text])));

alter table public.change_notes add constraint "change sent by M-PESA has a receipt, cash has none" CHECK (((way = 'mpesa'::text) = (receipt IS NOT NULL)));

alter table public.change_notes add constraint "only returned change has a way" CHECK (((way IS NULL) OR (kind = 'returned'::text)));

alter table public.change_notes add constraint "used credit pays an order" CHECK (((kind = ANY (ARRAY['used'::text, 'use_taken_back'::text])) = (used_for IS NOT NULL)));

alter table public.payments add constraint "cash and credit have no receipt, and a staff member noted them" CHECK (((method <> ALL (ARRAY['cash'::text, 'credit'::text])) OR ((receipt IS NULL) AND (phone = ''::text) AND (purpose = 'order'::text) AND (confirmed_by IS NOT NULL) AND (status = ANY (ARRAY['completed'::text, 'failed'::text])))));

alter table public.refunds add constraint "a refund goes by M-PESA, by hand, in cash or as credit" CHECK ((method = ANY (ARRAY['reversal'::text, 'by_hand'::text, 'cash'::text, 'credit'::text])));

create index orders_by_phone on public.orders (customer_phone, created_at desc, id desc) where customer_phone <> '';

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
          'method', p.method, 'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt,
          'parts_back', array(
            select jsonb_build_object('amount_cents', c.amount_cents, 'receipt', c.receipt, 'way', c.way, 'noted_at', c.noted_at)
            from public.change_notes as c where c.payment_id = p.id and c.kind = 'returned' order by c.noted_at, c.id
          ),
          'credit_cents', case when p.refunded_at is null then (select change.owed_cents from private.change_of(p.id) as change) end
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
  if described.payment_method = 'cash' then
    answer := answer || '{"pays_cash": true}';
  elsif described.payment_method = 'credit' then
    answer := answer || '{"pays_credit": true}';
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
      -- A second payment that is kept goes nowhere.
      'surplus_cents', nullif(sum(p.charge_cents - change.owed_cents - change.returned_cents - change.used_cents)
        filter (where p.needs_refund and p.refunded_at is null), 0),
      'part_refunded_cents', nullif(sum(change.returned_cents) filter (where p.refunded_at is null), 0),
      'credit_cents', nullif(sum(change.owed_cents) filter (where p.refunded_at is null), 0)
    )) into answer
    from public.payments as p
    cross join lateral private.change_of(p.id) as change
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
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded), part_refunded_cents (what went back in part), credit_cents (what is owed for another order) and part_paid_cents.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

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
        -- M-PESA refunds only money with a receipt, and this may be the receipt of an earlier prompt. Cash and credit have none.
        update public.payments as p
        set needs_refund = true, updated_at = now()
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
          and not p.needs_refund and p.charge_cents = attempt.charge_cents and p.method = 'prompt' and not private.is_being_refunded(p.id);
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
  -- What is owed of the money moves with it.
  if attempt.presumption = 'attempt' then
    update public.change_notes as c set payment_id = own_id where c.payment_id = attempt.id;
  end if;
  perform private.correct_message_outcomes(attempt.id);
  perform private.correct_message_outcomes(own_id);
  return own_id;
end
$$;

comment on function private.separate_receipt is
  'Makes a wrongly presumed receipt a separate payment; the attempt becomes what it was before, or failed. The caller has locked the order. Returns the id of the separate payment.';

comment on table public.refunds is
  'Refunds of a payment, or of money without an order (transaction_receipt). receipt: M-PESA''s receipt of the incoming money; refund_receipt: of the refund. unknown: M-PESA may have sent it; M-PESA is queried and nothing is sent again. method credit: what an order was paid from is credit again; no money moved.';

comment on column public.refunds.sent_twice_at is
  'When M-PESA reported this reversal after the money had been refunded in another way. refund_receipt is the receipt of the second refund.';

comment on column public.refunds.needs_approval is 'Whether refund_cents was above the limit when the refund was requested.';

comment on column public.refunds.sent_twice_note is
  'How staff resolved the double refund: the customer repaid one, or it is written off.';

alter table public.refunds enable row level security;

grant select on public.refunds to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.refunds to anon;

-- Records refunds by hand of an order's payments when staff mark the order as refunded.
create or replace function private.record_refund_of_order(new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, private.left_to_refund(p) as left_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.left_cents, 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
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
    if new.needs_refund and new.method <> 'credit' then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- Paid in parts: the order is refunded with the last part.
    if new.method <> 'credit' then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
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
  -- Credit of this money is not used while its refund begins.
  if exists (select from public.change_notes as c where c.payment_id = lock_refundable_payment.payment_id) then
    perform private.lock_credit(paid_order.customer_phone);
  end if;
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
  if private.left_to_refund(paid) < 100 then
    perform private.refuse(409, 'nothing_to_send_back', 'All of this money went back already, or paid another order');
  end if;
  return paid;
end
$$;

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  paid := private.lock_refundable_payment(request_refund.payment_id);
  if paid.method = 'credit' then
    return private.return_to_credit(paid, private.read_reason(request_refund.reason, is_required => true), member);
  elsif paid.method = 'cash' then
    perform private.refuse(409, 'cash_goes_back_in_cash', 'This was paid in cash, which M-PESA cannot send back. Give it back, and note it');
  elsif paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if private.left_to_refund(paid) < paid.charge_cents then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, or paid another order as credit, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure. What was paid from credit is credit again at once.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = private.normalised_receipt(note_refund_by_hand.refund_receipt)
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = private.normalised_receipt(note_refund_by_hand.receipt) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  if paid.method = 'credit' then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  end if;
  noted := private.open_refund(
    paid.id, null, paid.receipt, private.left_to_refund(paid),
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

create or replace function private.take_units_to_pay(ordered public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if private.is_before_work(ordered.status) and ordered.reserved_until is null and not private.take_units(ordered.id) then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;

comment on function private.take_units_to_pay is 'Takes the units of an unpaid order that holds none. Refuses if they are sold.';

create or replace function public.receive_cash(
  order_id uuid, received_cents integer, received_from text default null, difference text default null, note text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  person text := private.visible_text(receive_cash.received_from);
  reason text := private.read_reason(receive_cash.note);
  ordered public.orders;
  received public.payments;
begin
  if private.is_whole_shillings(receive_cash.received_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif char_length(person) > 120 then
    perform private.refuse(400, 'rider_too_long', 'The name of the person is longer than 120 characters');
  elsif not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(receive_cash.order_id);
  -- A shortfall is forgiven, with the reason, or paid from credit; a surplus is a tip, or owed to the customer.
  if receive_cash.received_cents < ordered.charge_cents
      and not coalesce(receive_cash.difference = 'from_credit' or (receive_cash.difference = 'forgiven' and reason is not null), false)
    or receive_cash.received_cents > ordered.charge_cents and coalesce(receive_cash.difference, '') not in ('tip', 'credit')
    or receive_cash.received_cents = ordered.charge_cents and receive_cash.difference is not null
  then
    perform private.refuse(409, 'cash_differs', 'This is another amount than the order costs. Say why', ordered.charge_cents::text);
  end if;
  if receive_cash.difference = 'from_credit' then
    perform private.pay_from_credit(ordered, ordered.charge_cents - receive_cash.received_cents, null, member);
  end if;
  -- An order that waits without a hold takes its units now.
  perform private.take_units_to_pay(ordered);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, received_from, note, completed_at)
  values (ordered.id, '', receive_cash.received_cents, 'completed', 'cash', member, person, reason, now())
  returning * into received;
  perform private.set_order_paid(ordered, 'cash');
  if receive_cash.difference = 'credit' then
    perform private.add_change_note(received, 'credit', receive_cash.received_cents - ordered.charge_cents, null, reason, member);
  end if;
  return received;
end
$$;

comment on function public.receive_cash is
  'For staff: cash for an unpaid order was received, from its rider (received_from) or the customer, and pays it. Another amount than the charge needs difference: forgiven (with a note), from_credit (what the shop owes to the customer pays the rest), tip, or credit (owed to the customer); its refusal has the charge as hint.';

create or replace function public.take_back_cash(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text := private.read_reason(take_back_cash.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
  minutes interval := private.reservation();
  member uuid := private.expect_staff_member();
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_cash.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_cash.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'cash' or taken.status <> 'completed' or taken.refunded_at is not null or ordered.payment_status <> 'paid'
    or ordered.status = 'cancelled' or exists (
      select from public.change_notes as c join public.payments as p on p.id = c.payment_id
      where p.order_id = ordered.id and (p.id = taken.id or (p.method = 'credit' and p.status = 'completed'))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  -- Credit paid the rest.
  perform private.release_credit(p, cause, member)
  from public.payments as p
  where p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund;
  update public.payments as p set status = 'failed', note = cause, updated_at = now()
  where p.id = taken.id
    or (p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund);
  -- The customer has paid by M-PESA, too: that money pays the order instead of going back.
  if exists (select from public.payments as p where p.order_id = ordered.id and private.can_still_pay(p)) then
    update public.orders as o set payment_method = 'mpesa', updated_at = now() where o.id = ordered.id;
    perform private.settle_order_again(ordered.id);
    return;
  end if;
  -- It has its units, as every unpaid order in work.
  update public.orders as o
  set payment_status = 'unpaid', expires_at = now() + minutes, reserved_until = now() + minutes,
      expiry_limit = now() + private.longest_reservation(minutes), extended_at = null, updated_at = now()
  where o.id = ordered.id;
end
$$;

comment on function public.take_back_cash is
  'For staff: cash was noted by mistake for an order that is not cancelled. Its order is to be paid in cash again, unless it was paid by M-PESA, too; the payment stays in the books as taken back, with the reason. Credit that paid the rest of it is taken back, too.';

create or replace function public.give_back_cash(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  paid public.payments := private.lock_refundable_payment(give_back_cash.payment_id);
  given public.refunds;
begin
  if paid.method = 'credit' then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  elsif paid.method <> 'cash' then
    perform private.refuse(409, 'not_cash', 'This payment came by M-PESA. It goes back by M-PESA, or by hand with its receipt');
  end if;
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (
    paid.id, private.left_to_refund(paid),
    private.read_reason(give_back_cash.reason, is_required => true), 'cash', 'completed', member, private.email_of(member), now()
  )
  returning * into given;
  return private.complete_refund(given.id, null);
end
$$;

comment on function public.give_back_cash is
  'For staff: the cash of a cancelled order was given back to its customer.';

grant execute on function public.agree_cash, public.receive_cash, public.take_back_cash, public.give_back_cash
  to authenticated, service_role;

comment on table public.reconciliation_events is
  'Staff decisions about differences between the books and M-PESA. Append-only, by resolve_difference, resolve_review, take_back_payment, and with notes of change. actor_email: the email address at that time.';

alter table public.reconciliation_events enable row level security;

revoke all on public.reconciliation_events from anon, authenticated, service_role;

grant select on public.reconciliation_events to authenticated, service_role;

grant select (id) on public.reconciliation_events to anon;

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
      where p.status = 'completed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
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
      where p.status = 'failed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
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
    -- Money that a callback named for a completed payment besides its own is not booked: the payment has a row of its own.
    case when (c.p).status = 'review' or ((c.p).status = 'completed' and ((c.t).receipt is null or (c.t).payment_id is not null))
      then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

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
  -- A surplus is of the money, not of the credit beside it.
  order by p.method = 'credit', p.charge_cents desc, p.id limit 1;
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

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review,
  public.check_typed_receipt to authenticated, service_role;

comment on table public.change_notes is
  'Change of a payment (docs/decisions/kept-for-customers.md). credit, to_return: owed to the customer. returned: sent back outside the shop. used: it paid another order (used_for); use_taken_back: it did not after all. Append-only.';

comment on column public.change_notes.way is 'How returned change went back: by M-PESA, with its receipt, or in cash. Null: for other kinds, and where earlier versions noted it.';

comment on column public.change_notes.is_part_refund is 'Part of the price went back, for example for a missing drink: not what was owed as change.';

comment on column public.change_notes.used_for is
  'The payment of method credit on the order that the credit paid. Without a foreign key, as payments embed their notes by the only one.';

alter table public.change_notes enable row level security;

revoke all on public.change_notes from anon, authenticated, service_role;

grant select on public.change_notes to authenticated, service_role;

create index change_notes_by_use on public.change_notes (used_for) where used_for is not null;

create index change_notes_that_owe on public.change_notes (noted_at desc, id desc) where kind in ('credit', 'to_return');

create or replace function private.change_of(payment_id uuid, out owed_cents bigint, out returned_cents bigint, out used_cents bigint)
language sql stable set search_path = '' as $$
  select greatest(coalesce(sum(case
      when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
      when not c.is_part_refund then -c.amount_cents
    end), 0), 0),
    coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0),
    coalesce(sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents end), 0)
  from public.change_notes as c
  where c.payment_id = change_of.payment_id;
$$;

comment on function private.change_of is
  'Change of a payment in cents: what is still owed, what was sent back in part (of it or of the price), and what paid other orders.';

create or replace function private.left_to_refund(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select (paid.charge_cents - c.returned_cents - c.used_cents)::integer from private.change_of(paid.id) as c;
$$;

comment on function private.left_to_refund is
  'What is left of a payment in cents: without what went back in part, and without credit of it that paid other orders.';

create or replace function private.add_change_note(
  payment public.payments, kind text, amount_cents integer, receipt text, note text, member uuid, way text default null,
  is_part_refund boolean default false, used_for uuid default null
) returns public.change_notes
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change record;
  noted public.change_notes;
begin
  select c.*, greatest(payment.charge_cents, (select t.received_cents from public.mpesa_transactions as t where t.receipt = payment.receipt))
    as came_cents
  into change from private.change_of(payment.id) as c;
  -- All of it goes back as a refund, which ends its order.
  if (kind = 'returned' and change.returned_cents + change.used_cents + amount_cents >= change.came_cents)
    or (is_part_refund and change.returned_cents + change.used_cents + change.owed_cents + amount_cents >= change.came_cents)
    or (kind in ('credit', 'to_return')
      and change.returned_cents + change.used_cents + change.owed_cents + amount_cents > change.came_cents)
  then
    perform private.refuse(409, 'change_exceeds_payment', 'This is more than what is left of this payment. To send all of it back, refund it');
  end if;
  -- What M-PESA reported beyond a typed amount is booked with its change: otherwise it would go back without having come.
  update public.payments as p set charge_cents = change.came_cents, updated_at = now()
  where p.id = payment.id and p.method = 'till' and p.charge_cents < change.came_cents and private.is_whole_shillings(change.came_cents);
  insert into public.change_notes (
    payment_id, kind, amount_cents, receipt, note, noted_by, noted_by_email, way, is_part_refund, used_for
  ) values (
    payment.id, kind, amount_cents, receipt, note, member, private.email_of(member), way, is_part_refund, used_for
  )
  returning * into noted;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (
    payment.receipt, payment.id, payment.order_id, 'change_' || noted.kind,
    concat_ws(': ',
      format('KES %s', to_char(noted.amount_cents / 100, 'FM999,999,999')) || coalesce(', receipt ' || noted.receipt, '')
        || case when noted.way = 'cash' then ', in cash' else '' end
        || coalesce(', for ' || (
          select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.id = noted.used_for
        ), ''),
      noted.note),
    member, private.email_of(member)
  );
  return noted;
end
$$;

comment on function private.add_change_note is
  'Adds a note of change, and books all that M-PESA reported for a typed amount. What is owed, what went back and what paid other orders together never exceed the payment. The caller has locked the order and the payment; for credit that is used, the payment and the credit of the phone.';

create or replace function private.lock_payment_to_return(payment_id uuid, seen_notes integer) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid public.payments;
begin
  select * into paid from public.payments as p where p.id = lock_payment_to_return.payment_id for update;
  if not found or paid.purpose <> 'order' then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif lock_payment_to_return.seen_notes <> (select count(*) from public.change_notes as c where c.payment_id = paid.id) then
    perform private.refuse(409, 'payment_changed', 'Something else was noted for this payment in the meantime. Nothing was saved. Close this and look at its notes');
  end if;
  return paid;
end
$$;

comment on function private.lock_payment_to_return is
  'Locks a payment of which part is owed or goes back. Refuses one that is refunded in full, or has another number of notes than the caller saw (null: not compared). The caller has locked its order.';

create or replace function private.read_way(way text, receipt text) returns text
language plpgsql set search_path = '' as $$
begin
  if read_way.way is null or read_way.way not in ('mpesa', 'cash') then
    perform private.refuse(400, 'way_unknown', 'Money goes back by M-PESA, with its receipt, or in cash');
  elsif read_way.way = 'cash' and nullif(trim(read_way.receipt), '') is not null then
    perform private.refuse(400, 'receipt_invalid', 'Cash has no receipt');
  end if;
  return case when read_way.way = 'mpesa' then private.check_refund_receipt(read_way.receipt) end;
end
$$;

comment on function private.read_way is
  'Checks how money went back, and locks and returns the receipt of sending it back. Null: in cash.';

create or replace function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null, way text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(note_change.note);
  has_receipt boolean := nullif(trim(note_change.receipt), '') is not null;
  code text;
  phone text;
  paid public.payments;
  noted public.change_notes;
begin
  if note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif (has_receipt or note_change.way is not null) and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  select o.customer_phone into phone from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for no key update;
  if note_change.kind = 'returned' then
    -- It cannot pay an order at the same time.
    perform private.lock_credit(phone);
  end if;
  if note_change.way is not null then
    code := private.read_way(note_change.way, note_change.receipt);
  elsif has_receipt then
    code := private.check_refund_receipt(note_change.receipt);
  end if;
  paid := private.lock_payment_to_return(note_change.payment_id, note_change.seen_notes);
  -- Earlier versions noted both in the same way.
  if note_change.way is not null and note_change.amount_cents > (select c.owed_cents from private.change_of(paid.id) as c) then
    perform private.refuse(409, 'change_exceeds_owed', 'This is more than what is owed of this payment. A part of the price goes back as a part refund');
  end if;
  noted := private.add_change_note(
    paid, note_change.kind, note_change.amount_cents, code, reason, member, way => note_change.way
  );
  if note_change.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;

comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, by M-PESA with its receipt or in cash (way; then at most what is owed). What is owed and what went back never exceed what came. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create or replace function public.refund_part(
  payment_id uuid, amount_cents integer, way text, reason text, receipt text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  cause text := private.read_reason(refund_part.reason, is_required => true);
  refunded public.orders;
  code text;
  paid public.payments;
  noted public.change_notes;
begin
  if private.is_whole_shillings(refund_part.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into refunded from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = refund_part.payment_id)
  for no key update;
  code := private.read_way(refund_part.way, refund_part.receipt);
  paid := private.lock_payment_to_return(refund_part.payment_id, refund_part.seen_notes);
  -- The money of a cancelled order, and a second payment, go back in full.
  if refunded.payment_status <> 'paid' or refunded.status = 'cancelled' or paid.needs_refund then
    perform private.refuse(409, 'part_not_refundable', 'Only part of what pays an order can go back like this. Other money goes back in full');
  end if;
  noted := private.add_change_note(
    paid, 'returned', refund_part.amount_cents, code, cause, member, way => refund_part.way, is_part_refund => true
  );
  -- Who gets cash stands in front of the member or the rider.
  if refund_part.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;

comment on function public.refund_part is
  'For staff: part of the price of a paid order went back outside the shop, by M-PESA with its receipt or in cash (way), with the reason; the order stays as it is. Its customer gets the message of a refund, for cash none. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create or replace function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  perform private.record_order_event(
    p.order_id, 'change_noted', 'staff', jsonb_build_object(
      'change', new.kind, 'charge_cents', new.amount_cents, 'receipt', new.receipt, 'way', new.way, 'note', new.note,
      'is_part_refund', case when new.is_part_refund then true end,
      'order_number', (
        select o.order_number from public.payments as used join public.orders as o on o.id = used.order_id where used.id = new.used_for
      )
    )
  )
  from public.payments as p where p.id = new.payment_id;
  return null;
end
$$;

create or replace function private.before_change_note_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- A note moves with its payment, when two payments are merged or a receipt becomes a payment of its own.
  if tg_op = 'UPDATE' and to_jsonb(old) - 'payment_id' = to_jsonb(new) - 'payment_id' then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'Notes of change are only added to';
end
$$;

-- Execution rights
grant execute on function public.note_change, public.refund_part to authenticated, service_role;

-- Credits: what the shop owes to customers, by their phone, pays their orders (docs/decisions/kept-for-customers.md).

create or replace function private.lock_credit(phone text) returns void
language sql volatile set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended('credit of ' || lock_credit.phone, 0));
$$;

comment on function private.lock_credit is
  'Only one transaction at a time reduces what is owed to a phone. Taken after the order, and before receipts, payments and products.';

create or replace function private.has_usable_credit(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and (r.tries > 0 or not private.is_dropped_refund(r.status))
  );
$$;

comment on function private.has_usable_credit is
  'Whether what is owed of a payment can pay an order: it is not refunded in full, and M-PESA was never asked to.';

create or replace function private.credit_of_phone(phone text) returns setof public.owed_credit
language plpgsql stable rows 2 set search_path = '' as $$
begin
  return query
    select p.id, o.id, o.order_number, change.owed_cents::integer, noted.at
    from private.orders_of_phone(credit_of_phone.phone) as o
    join public.payments as p on p.order_id = o.id and private.has_usable_credit(p)
    cross join lateral (
      select min(c.noted_at) as at from public.change_notes as c where c.payment_id = p.id and c.kind in ('credit', 'to_return')
    ) as noted
    cross join lateral private.change_of(p.id) as change
    where noted.at is not null and change.owed_cents > 0
    order by noted.at, p.id;
end
$$;

comment on function private.credit_of_phone is 'What is owed to a phone (+254…) and can pay its orders, the oldest first.';

create or replace function public.credit_for_order(order_id uuid) returns setof public.owed_credit
language plpgsql stable security definer rows 2 set search_path = '' as $$
begin
  perform private.expect_staff();
  return query
    select c.* from public.orders as o
    cross join lateral private.credit_of_phone(o.customer_phone) as c
    where o.id = credit_for_order.order_id and o.customer_phone <> '' and c.order_id <> o.id;
end
$$;

comment on function public.credit_for_order is
  'For staff: what is owed to the phone of an order from its other orders, and can pay it, the oldest first.';

create or replace function private.pay_from_credit(ordered public.orders, amount_cents integer, note text, member uuid) returns public.payments
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  missing integer := pay_from_credit.amount_cents;
  source record;
  part integer;
  added public.payments;
begin
  perform private.lock_credit(ordered.customer_phone);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, note, completed_at)
  values (ordered.id, '', missing, 'completed', 'credit', member, pay_from_credit.note, now())
  returning * into added;
  for source in
    select c.* from private.credit_of_phone(ordered.customer_phone) as c where c.order_id <> ordered.id order by c.noted_at, c.payment_id
  loop
    exit when missing = 0;
    part := least(source.owed_cents, missing);
    perform private.add_change_note(p, 'used', part, null, null, member, used_for => added.id)
    -- Another transaction may be joining it to the prompt of the same money.
    from (select * from public.payments as p where p.id = source.payment_id for key share) as p;
    continue when not found;
    missing := missing - part;
  end loop;
  if missing > 0 then
    perform private.refuse(409, 'credit_too_low', format(
      'KES %s of credit is left for this phone, less than what this order needs',
      to_char((pay_from_credit.amount_cents - missing) / 100, 'FM999,999,990')
    ), (pay_from_credit.amount_cents - missing)::text);
  end if;
  return added;
end
$$;

comment on function private.pay_from_credit is
  'Adds a payment of an order from what is owed to its phone, the oldest first; refuses if that is less. The caller has locked the order, and no product.';

create or replace function public.use_credit(order_id uuid, note text default null) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(use_credit.note);
  ordered public.orders;
  received bigint;
  used public.payments;
begin
  select * into ordered from public.orders as o where o.id = use_credit.order_id for no key update;
  if ordered.payment_status = 'needs_review' then
    select sum(p.charge_cents) into received from public.payments as p
    where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund;
    if received >= ordered.charge_cents or exists (
      select from public.payments as p
      where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund
        and (p.refunded_at is not null or private.is_being_refunded(p.id, p.receipt))
    ) then
      perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
    end if;
    used := private.pay_from_credit(ordered, (ordered.charge_cents - coalesce(received, 0))::integer, reason, member);
    perform private.deliver_reviewed_order(ordered.id);
    return used;
  end if;
  ordered := private.lock_order_for_cash(use_credit.order_id);
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  used := private.pay_from_credit(ordered, ordered.charge_cents, reason, member);
  perform private.take_units_to_pay(ordered);
  perform private.set_order_paid(ordered, 'credit');
  return used;
end
$$;

comment on function public.use_credit is
  'For staff: what is owed to the phone of an order pays what is missing of it: all of an unpaid order, or the rest of one that needs review for less than its charge. Refuses if less is owed (the hint is that, in cents). With cash for the rest: receive_cash.';

create or replace function private.release_credit(used public.payments, note text, member uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- What is owed of a refunded payment would be lost.
  if exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used'
      and (source.refunded_at is not null or private.is_being_refunded(source.id, source.receipt))
  ) then
    perform private.refuse(409, 'credit_refunded', 'The rest of the money that this credit came from was sent back, so it cannot be owed again');
  end if;
  perform private.add_change_note(source, 'use_taken_back', use.amount_cents, null, release_credit.note, member, used_for => used.id)
  from public.change_notes as use
  join public.payments as source on source.id = use.payment_id
  where use.used_for = used.id and use.kind = 'used';
end
$$;

comment on function private.release_credit is 'What a payment from credit used is owed again. Once; the caller has locked the payment and ends it.';

create or replace function private.return_to_credit(paid public.payments, reason text, member uuid) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  returned public.refunds;
begin
  if exists (select from public.change_notes as c where c.payment_id = paid.id) then
    perform private.refuse(409, 'partly_returned',
      'Part of this credit went back as money, or is owed again. Give the rest back, and note it as change');
  end if;
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (paid.id, paid.charge_cents, return_to_credit.reason, 'credit', 'completed', member, private.email_of(member), now())
  returning * into returned;
  perform private.release_credit(paid, return_to_credit.reason, member);
  return private.complete_refund(returned.id, null);
end
$$;

comment on function private.return_to_credit is
  'Refunds what an order was paid from credit: it is owed again, and no money moves. The caller has locked the order and the payment.';

create or replace function public.take_back_credit(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  cause text := private.read_reason(take_back_credit.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_credit.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_credit.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'credit' or taken.status <> 'completed' or taken.refunded_at is not null or taken.needs_refund
    or not private.has_money(ordered.payment_status) or ordered.status = 'cancelled'
    or exists (select from public.change_notes as c where c.payment_id = taken.id)
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif private.was_handed_over(ordered) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif exists (
    select from public.payments as p
    where p.order_id = ordered.id and p.method = 'cash' and p.status = 'completed' and p.refunded_at is null
  ) then
    perform private.refuse(409, 'paid_in_cash_too', 'Cash paid the rest of this order. Take the cash back: the credit goes with it');
  end if;
  perform private.release_credit(taken, cause, member);
  update public.payments as p set status = 'failed', note = cause, updated_at = now() where p.id = taken.id;
  perform private.settle_order_again(ordered.id);
  perform private.postpone_messages(ordered.id);
  perform private.withdraw_messages(ordered.id);
end
$$;

comment on function public.take_back_credit is
  'For staff: credit was used by mistake for an order that has not left the shop. It is owed again, and the order is what it was: unpaid with a new time for payment, or under review with the money that came; the payment stays in the books as taken back, with the reason.';

create or replace function public.kept_for_customers(
  only_owed boolean default true, before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.kept_money
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
    select p.id, o.id, o.order_number, o.customer_name, o.customer_phone, first.noted_at,
      change.owed_cents + change.used_cents + settled.cents,
      change.used_cents,
      case when p.refunded_at is null then settled.cents else settled.cents + change.owed_cents end,
      case when p.refunded_at is null then change.owed_cents else 0 end,
      (
        select string_agg(distinct of_use.order_number, ', ')
        from public.change_notes as use
        join public.payments as used on used.id = use.used_for and used.status = 'completed' and used.refunded_at is null
        join public.orders as of_use on of_use.id = used.order_id
        where use.payment_id = p.id and use.kind = 'used'
      )
    -- The first note of each payment, by the index of what owes; the rest of each row by keys.
    from public.change_notes as first
    cross join lateral (select * from public.payments as p where p.id = first.payment_id offset 0) as p
    cross join lateral (select * from public.orders as o where o.id = p.order_id offset 0) as o
    cross join lateral private.change_of(p.id) as change
    cross join lateral (
      select coalesce(sum(c.amount_cents), 0)::bigint as cents from public.change_notes as c
      where c.payment_id = p.id and c.kind = 'returned' and not c.is_part_refund
    ) as settled
    where first.kind in ('credit', 'to_return')
      and not exists (
        select from public.change_notes as earlier
        where earlier.payment_id = first.payment_id and earlier.kind in ('credit', 'to_return')
          and (earlier.noted_at, earlier.id) < (first.noted_at, first.id)
      )
      and (kept_for_customers.before_created_at is null
        or (first.noted_at, p.id) < (kept_for_customers.before_created_at, kept_for_customers.before_id))
      and (not kept_for_customers.only_owed or (p.refunded_at is null and change.owed_cents > 0))
    order by first.noted_at desc, p.id desc
    limit least(greatest(coalesce(kept_for_customers.page_size, 50), 1), 1000);
end
$$;

comment on function public.kept_for_customers is
  'For staff: payments of which something was kept for the customer, the newest first, after the one named by before_created_at and before_id. only_owed: those of which some is still owed.';

create or replace function public.kept_totals() returns table (owed_cents bigint, used_cents bigint, returned_cents bigint, customers integer)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query
    select coalesce(sum(k.owed_cents), 0)::bigint, coalesce(sum(k.used_cents), 0)::bigint, coalesce(sum(k.returned_cents), 0)::bigint,
      (count(distinct nullif(k.customer_phone, '')) filter (where k.owed_cents > 0))::integer
    from public.kept_for_customers(false, page_size => 1000) as k;
end
$$;

comment on function public.kept_totals is
  'For staff: what is owed, was used and went back of what was kept for customers, in cents, and to how many phones something is owed. Of the newest 1,000 such payments.';

-- Execution rights
grant execute on function public.credit_for_order, public.use_credit, public.take_back_credit, public.kept_for_customers, public.kept_totals
  to authenticated, service_role;

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
  if new.method in ('cash', 'credit') then
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

create or replace function private.orders_of_phone(phone text) returns setof public.orders
language plpgsql stable rows 10 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select o.* from public.orders as o where o.customer_phone = orders_of_phone.phone and o.customer_phone <> '';
end
$$;

comment on function private.orders_of_phone is 'The orders with this phone (+254…), by its index.';

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
      select sum(p.charge_cents - change.returned_cents) from public.payments as p
      cross join lateral private.change_of(p.id) as change
      where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null and p.method <> 'credit'
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

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;

-- Customers by their phone: list, page, notes of staff, and blocked phones (docs/decisions/customers.md).

create table public.customer_notes (
  phone text primary key,
  notes text not null,
  noted_by uuid,
  noted_by_email text,
  updated_at timestamptz not null default now(),
  constraint "notes are of a Kenyan phone" check (phone ~ '^\+254\d{9}$'),
  constraint "notes have words" check (char_length(trim(notes)) between 1 and 1000)
);

comment on table public.customer_notes is 'What staff note about a customer for each other. Erased with the customer''s data.';

alter table public.customer_notes enable row level security;

revoke all on public.customer_notes from anon, authenticated, service_role;

grant select on public.customer_notes to authenticated, service_role;

create policy "staff read every note about customers" on public.customer_notes
  for select to authenticated using ((select public.is_admin()));

create table public.blocked_phones (
  person_hash text primary key,
  phone text,
  reason text,
  blocked_by uuid,
  blocked_by_email text,
  blocked_at timestamptz not null default now(),
  constraint "a blocked phone has a reason, until both are erased" check ((phone is null) = (reason is null)),
  constraint "a reason for blocking has words" check (char_length(trim(reason)) between 3 and 200)
);

comment on table public.blocked_phones is
  'Phones that cannot place orders on the storefront. After an erasure only the keyed hash of the phone is left (private.hash_person).';

alter table public.blocked_phones enable row level security;

revoke all on public.blocked_phones from anon, authenticated, service_role;

grant select on public.blocked_phones to authenticated, service_role;

create policy "staff read every blocked phone" on public.blocked_phones for select to authenticated using ((select public.is_admin()));

create or replace function private.is_blocked(phone text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (select from public.blocked_phones as b where b.person_hash = private.hash_person(is_blocked.phone));
end
$$;

create or replace function private.refuse_blocked_phone(phone text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.is_blocked(refuse_blocked_phone.phone) then
    perform private.refuse(403, 'phone_blocked', format(
      'We cannot take an online order for this phone number. Please call or WhatsApp us on %s, and we will help you',
      private.contact_numbers()
    ));
  end if;
end
$$;

comment on function private.refuse_blocked_phone is 'Refuses an order of a visitor with a blocked phone, and says how to reach the shop.';

create or replace function private.sums_of_phones(phones text[])
returns table (phone text, orders integer, spent_cents bigint, credit_cents bigint)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select wanted.phone, (count(*) filter (where o.status <> 'cancelled'))::integer,
      coalesce(sum(money.came_cents - money.back_cents), 0)::bigint, coalesce(sum(money.owed_cents), 0)::bigint
    from unnest(sums_of_phones.phones) as wanted (phone)
    cross join lateral (
      select o.id, o.status from public.orders as o where o.customer_phone = wanted.phone and o.customer_phone <> '' offset 0
    ) as o
    left join lateral (
      select sum(case when p.needs_refund then 0 else p.charge_cents end) as came_cents,
        sum(case when p.needs_refund then 0 else coalesce(notes.back_cents, 0) end) as back_cents,
        sum(coalesce(notes.owed_cents, 0)) as owed_cents
      from (
        select * from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null offset 0
      ) as p
      -- Without notes nothing is owed, and few payments have any.
      left join lateral (
        select change.owed_cents, change.owed_cents + change.returned_cents + change.used_cents as back_cents
        from private.change_of(p.id) as change
        where exists (select from public.change_notes as c where c.payment_id = p.id)
      ) as notes on true
    ) as money on true
    group by wanted.phone;
end
$$;

comment on function private.sums_of_phones is
  'Orders and money of phones (+254…). Credit that an order was paid from counts there, not where it came from.';

create or replace function private.newest_of_phones(
  until_created_at timestamptz, until_id uuid, most integer, only_repeat boolean
) returns table (id uuid, created_at timestamptz, phone text, name text)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set enable_sort = off set jit = off as $$
begin
  -- Walks the newest orders, and keeps those that are the last of their phone: one step in the index of phones for each.
  return query
    select o.id, o.created_at, o.customer_phone, o.customer_name
    from public.orders as o
    cross join lateral (
      select newest.id from public.orders as newest
      where newest.customer_phone = o.customer_phone and newest.customer_phone <> ''
      order by newest.created_at desc, newest.id desc limit 1
    ) as last
    where last.id = o.id
      and (newest_of_phones.until_created_at is null
        or (o.created_at, o.id) < (newest_of_phones.until_created_at, newest_of_phones.until_id))
      and (not newest_of_phones.only_repeat or exists (
        select from public.orders as earlier
        where earlier.customer_phone = o.customer_phone and earlier.customer_phone <> ''
          and (earlier.created_at, earlier.id) < (o.created_at, o.id)
      ))
    order by o.created_at desc, o.id desc
    limit newest_of_phones.most;
end
$$;

comment on function private.newest_of_phones is 'The last order of each phone, the newest first, after the one named by until_created_at and until_id.';

create or replace function private.last_of_phones(phones text[])
returns table (id uuid, created_at timestamptz, phone text, name text)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select last.id, last.created_at, last.customer_phone, last.customer_name
    from (select distinct p.phone from unnest(last_of_phones.phones) as p (phone)) as wanted
    cross join lateral (
      select o.* from public.orders as o
      where o.customer_phone = wanted.phone and o.customer_phone <> ''
      order by o.created_at desc, o.id desc limit 1
    ) as last;
end
$$;

create or replace function public.list_customers(
  search text default '', kind text default null, sort text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 25
) returns setof public.listed_customer
language plpgsql stable security definer rows 25 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(list_customers.page_size, 25), 1), 1000);
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(list_customers.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
  digits constant text := regexp_replace(left(list_customers.search, 100), '\D', '', 'g');
  phones text[];
begin
  perform private.expect_staff();
  if list_customers.kind not in ('repeat', 'credit', 'blocked') then
    perform private.refuse(400, 'filter_unknown', 'Customers are listed with repeat orders, with credit, or blocked');
  elsif coalesce(list_customers.sort, '') not in ('', 'name', '-name', 'orders', '-orders', 'spent', '-spent') then
    perform private.refuse(400, 'sort_unknown', 'Customers are sorted by name, orders or spending');
  end if;
  if cardinality(words) = 0 and coalesce(list_customers.sort, '') = '' and coalesce(list_customers.kind, 'repeat') = 'repeat' then
    return query
      with page as (
        select n.* from private.newest_of_phones(
          list_customers.before_created_at, list_customers.before_id, most, list_customers.kind is not null
        ) as n
      ), sums as (
        select s.* from private.sums_of_phones((select array_agg(p.phone) from page as p)) as s
      )
      select p.id, p.created_at, p.phone, p.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(p.phone)
      from page as p join sums as s on s.phone = p.phone
      order by p.created_at desc, p.id desc;
    return;
  end if;
  -- A search, a rare kind of customer, or another order than the date: all of a bounded set of phones, as in the lists of orders.
  phones := case
    when cardinality(words) > 0 then array(
      select distinct o.customer_phone from public.search_orders(search => list_customers.search, page_size => 500) as o
      where o.customer_phone <> '' and (
        private.without_accents(o.customer_name) like all (words)
        or (char_length(digits) >= 3 and o.customer_phone like '%' || ltrim(digits, '0') || '%')
        or o.customer_phone = private.normalised_phone(left(list_customers.search, 40))
      )
    )
    when list_customers.kind = 'credit' then array(
      select distinct k.customer_phone from public.kept_for_customers(page_size => 1000) as k where k.customer_phone <> ''
    )
    when list_customers.kind = 'blocked' then array(
      select b.phone from public.blocked_phones as b where b.phone is not null order by b.blocked_at desc limit 1000
    )
    else array(
      select distinct newest.customer_phone
      from (select o.customer_phone from public.orders as o order by o.created_at desc, o.id desc limit 5000) as newest
      where newest.customer_phone <> ''
    )
  end;
  return query
    with found as (
      select l.id, l.created_at, l.phone, l.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(l.phone) as is_blocked
      from private.last_of_phones(phones) as l
      join private.sums_of_phones(phones) as s on s.phone = l.phone
      where case list_customers.kind
        when 'repeat' then s.orders > 1
        when 'credit' then s.credit_cents > 0
        else true
      end
    ), placed as (
      select f.*, row_number() over (
        order by
          case list_customers.sort when 'name' then lower(f.name) end, case list_customers.sort when '-name' then lower(f.name) end desc,
          case list_customers.sort when 'orders' then f.orders when '-orders' then -f.orders end,
          case list_customers.sort when 'spent' then f.spent_cents when '-spent' then -f.spent_cents end,
          f.created_at desc, f.id desc
      ) as place
      from found as f
      where list_customers.kind is distinct from 'blocked' or f.is_blocked
    )
    select p.id, p.created_at, p.phone, p.name, p.orders, p.spent_cents, p.credit_cents, p.is_blocked
    from placed as p
    where p.place > coalesce((select before.place from placed as before where before.id = list_customers.before_id), 0)
    order by p.place
    limit most;
end
$$;

comment on function public.list_customers is
  'For staff: a page of customers, those with the newest orders first, after the one named by before_created_at and before_id. search: words of the name, or digits of the phone, of the newest 500 orders that it finds. kind: repeat, credit or blocked. sort: name, orders, spent, with - before it for the opposite; by these only the customers of the newest 5,000 orders.';

create or replace function public.customer_page(phone text) returns public.shown_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_page.phone);
  shown public.shown_customer;
begin
  perform private.expect_staff();
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  shown.phone := wanted;
  select (array_agg(o.customer_name order by o.created_at desc, o.id desc))[1],
    (array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1],
    count(*) filter (where o.status = 'cancelled'), min(o.created_at)
  into shown.name, shown.email, shown.cancelled, shown.first_order_at
  from private.orders_of_phone(wanted) as o;
  select s.orders, s.spent_cents, s.credit_cents into shown.orders, shown.spent_cents, shown.credit_cents
  from private.sums_of_phones(array[wanted]) as s;
  shown.orders := coalesce(shown.orders, 0);
  shown.spent_cents := coalesce(shown.spent_cents, 0);
  shown.credit_cents := coalesce(shown.credit_cents, 0);
  select n.notes, n.noted_by_email, n.updated_at into shown.notes, shown.notes_by, shown.notes_at
  from public.customer_notes as n where n.phone = wanted;
  select true, b.reason, b.blocked_by_email, b.blocked_at
  into shown.is_blocked, shown.block_reason, shown.blocked_by, shown.blocked_at
  from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
  shown.is_blocked := coalesce(shown.is_blocked, false);
  return shown;
end
$$;

comment on function public.customer_page is 'For staff: what is known of a phone, in any Kenyan format.';

create or replace function private.read_customer_phone(phone text) returns text
language plpgsql stable set search_path = '' as $$
declare
  wanted constant text := private.normalised_phone(read_customer_phone.phone);
begin
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  return wanted;
end
$$;

create or replace function public.note_customer(phone text, notes text, seen_at timestamptz default null) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  wanted text := private.read_customer_phone(note_customer.phone);
  words text := private.visible_text(note_customer.notes);
  known public.customer_notes;
begin
  if char_length(words) > 1000 then
    perform private.refuse(400, 'notes_too_long', 'The notes are longer than 1,000 characters');
  end if;
  perform pg_advisory_xact_lock(hashtextextended('notes about ' || wanted, 0));
  select * into known from public.customer_notes as n where n.phone = wanted;
  if known.updated_at is distinct from note_customer.seen_at then
    perform private.refuse(409, 'notes_changed', 'These notes were changed in the meantime. Nothing was saved');
  elsif words is null then
    delete from public.customer_notes as n where n.phone = wanted;
  else
    insert into public.customer_notes as n (phone, notes, noted_by, noted_by_email)
    values (wanted, words, member, private.email_of(member))
    on conflict (phone) do update set
      notes = excluded.notes, noted_by = excluded.noted_by, noted_by_email = excluded.noted_by_email,
      updated_at = greatest(clock_timestamp(), n.updated_at + interval '1 millisecond');
  end if;
end
$$;

comment on function public.note_customer is
  'For staff: sets the notes about a phone, or removes them (blank). seen_at: updated_at of the notes that the member saw; null: none.';

create or replace function public.block_phone(phone text, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  wanted text := private.read_customer_phone(block_phone.phone);
begin
  insert into public.blocked_phones as b (person_hash, phone, reason, blocked_by, blocked_by_email)
  values (
    private.hash_person(wanted), wanted, private.read_reason(block_phone.reason, is_required => true), member, private.email_of(member)
  )
  on conflict (person_hash) do update set
    phone = excluded.phone, reason = excluded.reason, blocked_by = excluded.blocked_by, blocked_by_email = excluded.blocked_by_email,
    blocked_at = now();
end
$$;

comment on function public.block_phone is
  'For staff: a phone cannot place orders on the storefront any more; staff can still enter them. Its present orders stay as they are.';

create or replace function public.unblock_phone(phone text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := private.read_customer_phone(unblock_phone.phone);
begin
  perform private.expect_staff_member();
  delete from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
end
$$;

comment on function public.unblock_phone is 'For staff: a phone can place orders again. Repeating it changes nothing.';

create or replace function public.nth_order(ordered public.orders) returns integer
language sql stable set search_path = '' as $$
  select count(*)::integer from (
    select from public.orders as o
    where o.customer_phone = ordered.customer_phone and o.customer_phone <> '' and o.status <> 'cancelled'
      and (o.created_at, o.id) <= (ordered.created_at, ordered.id)
    limit 100
  ) as counted;
$$;

comment on function public.nth_order is
  'Which order of its phone this is, without cancelled ones; 100: or a later one, 0: unknown. Counts orders that the caller may read.';

-- Execution rights
grant execute on function public.list_customers, public.customer_page, public.note_customer, public.block_phone, public.unblock_phone,
  public.nth_order to authenticated, service_role;

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
    -- Not where the last part of it became credit again: nothing was sent.
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' and 'credit' is distinct from (
      select r.method from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
      order by r.completed_at desc, r.updated_at desc limit 1
    ) then
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries: the shop.';

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
        -- What was kept may have paid other orders.
        and private.left_to_refund(p) > 0
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
      having sum(c.amount_cents) filter (where c.kind = 'to_return') > coalesce(sum(case
        when c.kind = 'used' or (c.kind = 'returned' and not c.is_part_refund) then c.amount_cents
        when c.kind = 'use_taken_back' then -c.amount_cents
      end), 0)
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
    select format('KES %s of credit is owed to its customer. Give it back first', to_char(sum(change.owed_cents) / 100, 'FM999,999,999'))
    from public.payments as p
    cross join lateral private.change_of(p.id) as change
    where p.order_id = retention_reason.order_id and p.status = 'completed' and p.refunded_at is null
    having sum(change.owed_cents) > 0
  ), (
    select 'A message to its customer is being sent'
    from public.outbox_messages as m
    where m.order_id = retention_reason.order_id and m.status = 'sending'
    limit 1
  ));
end
$$;

comment on function private.retention_reason is
  'Why an order cannot be anonymised on request yet, as a sentence. Null: it can. Retention periods ignore deliveries and credit.';

create or replace function private.describe_payment(payment public.payments) returns jsonb
language sql stable
return jsonb_build_object(
  'phone', payment.phone, 'charge_cents', payment.charge_cents, 'status', payment.status, 'method', payment.method,
  'receipt', payment.receipt, 'created_at', payment.created_at, 'completed_at', payment.completed_at,
  'refunded_at', payment.refunded_at, 'refund_receipt', payment.refund_receipt,
  'change', array(
    select jsonb_build_object('kind', c.kind, 'amount_cents', c.amount_cents, 'receipt', c.receipt, 'way', c.way, 'note', c.note, 'noted_at', c.noted_at)
    from public.change_notes as c where c.payment_id = payment.id order by c.noted_at, c.id
  ),
  'payer_name', (select t.payer_name from public.mpesa_transactions as t where t.receipt = payment.receipt),
  'mpesa_messages', array(
    select jsonb_build_object('received_at', m.received_at, 'source', m.source, 'body', m.body)
    from public.payment_messages as m where m.payment_id = payment.id and m.body <> '{}' order by m.id
  )
);

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
    'notes_of_staff', (
      select jsonb_build_object('notes', n.notes, 'updated_at', n.updated_at) from public.customer_notes as n where n.phone = person.phone
    ),
    'blocked', (
      select jsonb_build_object('reason', b.reason, 'blocked_at', b.blocked_at)
      from public.blocked_phones as b where b.person_hash = private.hash_person(person.phone)
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

  delete from public.customer_notes as n where n.phone = person.phone;
  -- The phone stays blocked, without being stored.
  update public.blocked_phones as b set phone = null, reason = null where b.person_hash = private.hash_person(person.phone);

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
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries, notes of staff and the newsletter subscription; a blocked phone stays blocked as a hash. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create or replace function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
-- No money came with credit.
return case when counted.status = 'completed' and counted.purpose = 'order' and counted.method <> 'credit' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null and counted.method <> 'credit'
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.change_notes) returns private.day_figures
language sql immutable
return case when counted.kind = 'returned' then
  (private.nairobi_day(counted.noted_at), 0, 0, -counted.amount_cents, 0)::private.day_figures
end;

create or replace function private.change_balance(payment_id uuid, moment timestamptz, note_id uuid) returns bigint
language sql stable set search_path = '' as $$
  -- Part of the price that went back was never owed.
  select coalesce(sum(private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end)), 0)
  from public.change_notes as c
  where c.payment_id = change_balance.payment_id and (c.noted_at, c.id) < (change_balance.moment, change_balance.note_id)
    -- A refund returns all that is left of a payment.
    and not exists (
      select from public.refunds as r
      where r.payment_id = change_balance.payment_id and r.status = 'completed' and r.completed_at < change_balance.moment
    );
$$;

comment on function private.change_balance is
  'Change of a payment that was noted before a note: what is owed to its customer, less what went back. Only a positive balance is owed.';

create or replace function private.money_rows(since timestamptz, until timestamptz) returns setof private.money_row
language plpgsql stable rows 100 set search_path = '' as $$
begin
  return query
  select p.id, p.completed_at, p.method, p.id, p.order_id, p.receipt,
    p.charge_cents, 0, 0::bigint, p.confirmed_by, p.received_from, p.note
  from public.payments as p
  -- No money comes with credit: its note is below.
  where p.status = 'completed' and p.purpose = 'order' and p.method <> 'credit'
    and p.completed_at >= money_rows.since and p.completed_at < money_rows.until
  union all
  select r.id, r.completed_at, case r.method when 'reversal' then 'refund_by_mpesa' when 'cash' then 'refund_in_cash' else 'refund_by_hand' end,
    p.id, p.order_id, coalesce(r.refund_receipt, r.receipt), 0, r.refund_cents,
    -greatest(private.change_balance(p.id, r.completed_at, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), 0), r.requested_by, null, r.reason
  from public.refunds as r
  -- A lookup by key for each refund, with any statistics.
  cross join lateral (select * from public.payments as own where own.id = r.payment_id offset 0) as p
  where r.status = 'completed' and p.purpose = 'order' and r.method <> 'credit'
    and r.completed_at >= money_rows.since and r.completed_at < money_rows.until
  union all
  select c.id, c.noted_at,
    case
      when c.kind in ('credit', 'to_return') then 'kept'
      when c.kind = 'used' then 'credit_used'
      when c.kind = 'use_taken_back' then 'credit_returned'
      -- Earlier versions did not note how it went back.
      when coalesce(c.way = 'cash', p.method = 'cash' and c.receipt is null) then 'change_in_cash'
      else 'change_by_hand'
    end,
    p.id, p.order_id, c.receipt, 0, case when c.kind = 'returned' then c.amount_cents else 0 end,
    case when own.is_refunded then 0 else greatest(own.balance + own.cents, 0) - greatest(own.balance, 0) end,
    c.noted_by, null, c.note
  from public.change_notes as c
  cross join lateral (select * from public.payments as own where own.id = c.payment_id offset 0) as p
  cross join lateral (
    select private.change_balance(p.id, c.noted_at, c.id) as balance,
      private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end) as cents,
      exists (
        select from public.refunds as r where r.payment_id = p.id and r.status = 'completed' and r.completed_at < c.noted_at
      ) as is_refunded
  ) as own
  where p.purpose = 'order' and c.noted_at >= money_rows.since and c.noted_at < money_rows.until;
end
$$;

comment on function private.money_rows is
  'What moved money of orders within a period. kind: prompt, till, cash (a payment by its method); refund_by_mpesa, refund_by_hand, refund_in_cash; change_by_hand, change_in_cash (part of a payment went back); kept (owed to the customer); credit_used, credit_returned (it paid another order, or did not after all). kept_cents: how much more the shop owes to customers after it. member: who took cash, gave it back, or requested the refund.';
