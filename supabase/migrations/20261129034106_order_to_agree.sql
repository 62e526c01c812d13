-- Earlier versions keep working: they ignore the two new columns of count_work and notices of a kind that they do not know.

alter table public.notices drop constraint "a kind of notice is known";

drop function public.count_work();

revoke all on public.notices from anon, authenticated;

alter table public.notices add constraint "a kind of notice is known" CHECK ((kind = ANY (ARRAY['paid_order'::text, 'late_order'::text, 'failed_delivery'::text, 'cancel_request'::text, 'order_to_agree'::text, 'refund_to_approve'::text, 'inquiry'::text])));

create index orders_to_cancel on public.orders (cancel_requested_at) where cancel_requested_at is not null and status <> 'cancelled';

create or replace function private.way_minutes(area_id uuid) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return coalesce(
    (
      select e.median_way_minutes from private.delivery_estimates as e
      where e.area_id = way_minutes.area_id and e.median_way_minutes is not null
        and (e.hour is null or e.hour = extract(hour from now() at time zone 'Africa/Nairobi'))
      order by e.hour nulls last
      limit 1
    ),
    (select a.promise_from_minutes from public.delivery_areas as a where a.id = way_minutes.area_id and a.promise_to_minutes < 1440),
    -- As the shop's promise, "15 to 60 minutes".
    case when way_minutes.area_id is null then 15 end
  );
end
$$;

comment on function private.way_minutes is 'Minutes from the shop to the door in an area at this hour: learned, else the earliest arrival that the area, or without one the shop, promises. Null for promises of days.';

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
  discount_code text default null,
  area_id uuid default null,
  map_point text default null
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
  is_by_shop boolean := coalesce(auth.role(), '') = 'service_role' or public.may('orders');
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := case when is_by_shop then true else private.count_call_from(callers, 'place_order') end;
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  area public.delivery_areas;
  point text;
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
  point := case when not place_order.is_collected then private.read_map_point(place_order.map_point) end;
  lines := private.read_order_lines(place_order.product_id, place_order.quantity, place_order.items);
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, coalesce(to_jsonb(place_order.quantity), place_order.items), customer.name, customer.email,
      customer.phone, customer.address, customer.notes, place_order.expected_total)::text
      || case when place_order.source <> 'storefront' or place_order.is_collected
        then concat_ws(' ', place_order.source, place_order.is_collected) else '' end
      || coalesce(' ' || code, '')
      || case when place_order.area_id is not null or point is not null then concat_ws(' ', '', place_order.area_id, point) else '' end,
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

  if not place_order.is_collected then
    area := private.read_area(place_order.area_id);
  end if;
  settings.delivery_fee := private.delivery_fee_in(area, settings.delivery_fee, place_order.is_collected);
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
  if area.needs_agreement then
    -- Without a hold beyond the usual one.
    expires_at := greatest(expires_at, now() + private.agreement_time());
    expiry_limit := private.limit_of_pay_link(expires_at);
  end if;
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected, discount_cents, discount_code, area_id, area_name, awaits_agreement, map_point
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then held_until end, expires_at, expiry_limit,
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end,
      place_order.source, place_order.is_collected, discount_cents, discount.code, area.id, area.name,
      coalesce(area.needs_agreement, false), point
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
  if new_order.awaits_agreement then
    perform private.add_notice('order_to_agree', new_order.id::text, new_order.id, (select auth.uid()));
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
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote). discount_code: the order uses it, and expected_total is what remains to pay after its discount. area_id: the area, whose fee it costs (private.delivery_fee_in); without one, that of the shop. Where fee and day are agreed on, awaits_agreement is true. map_point: "latitude,longitude". Staff also say where it came from (source) and whether it is collected; their orders need no email address and no terms.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

create or replace function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer, cash_not_received integer, to_cancel integer, to_agree integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, 'delivered', 'cash', null, null, null, null)),
    (
      select count(*) from public.orders as o
      where o.cancel_requested_at is not null and o.status <> 'cancelled' and private.has_cancel_request(o)
    )::integer,
    (select count(*) from public.orders as o where o.awaits_agreement and o.status <> 'cancelled')::integer;
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;

comment on table public.notices is
  'Events that wait for staff: a new paid order, a late order, a failed delivery, a request to cancel, an order to agree on, a refund to approve, an inquiry. Deleted after a week.';

comment on column public.notices.event_key is
  'What makes the event unique within its kind: the id of the order, refund or inquiry; of failed deliveries with the number of failures, of requests to cancel with their time.';

comment on column public.notices.caused_by is 'The member who caused the event and needs no notice of it. Null: a customer, or the shop itself.';

alter table public.notices enable row level security;

grant select on public.notices to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.notices to anon;

create or replace function private.notice_kinds() returns text[]
language sql immutable
return array['paid_order', 'late_order', 'failed_delivery', 'cancel_request', 'order_to_agree', 'refund_to_approve', 'inquiry'];

create or replace function private.notice_area(kind text) returns text
language sql immutable
return case kind
  when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' when 'cancel_request' then 'refunds' when 'order_to_agree' then 'orders'
  else 'deliveries'
end;

comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

create or replace function private.add_notice(kind text, event_key text, order_id uuid default null, caused_by uuid default null) returns void
language plpgsql set search_path = '' as $$
declare
  added public.notices;
begin
  -- Anyone can write inquiries, and place unpaid orders. The others are counted in the panel.
  if add_notice.kind in ('inquiry', 'order_to_agree') and private.count_hit('notices', add_notice.kind, interval '1 hour') > 20 then
    return;
  end if;
  insert into public.notices (kind, event_key, order_id, caused_by)
  values (add_notice.kind, add_notice.event_key, add_notice.order_id, add_notice.caused_by)
  on conflict on constraint "an event has one notice" do nothing
  returning * into added;
  if added.id is not null then
    insert into private.push_queue (notice_id, subscription_id, due_at)
    select added.id, s.id, now() + case added.kind when 'failed_delivery' then private.undo_window() else interval '0' end
    from public.push_subscriptions as s
    where added.kind = any (s.kinds) and s.user_id is distinct from added.caused_by;
  end if;
exception when others then
  -- Its cause stays valid without the notice.
  raise warning 'no notice % could be added: %', add_notice.kind, sqlerrm;
end
$$;

comment on function private.add_notice is
  'Adds the notice of an event, unless it exists, and queues its push to all devices that want its kind, except those of the member who caused it. Never fails.';

create or replace function private.is_notice_waiting(notice public.notices) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  step text;
begin
  if notice.kind = 'refund_to_approve' then
    return exists (select from public.refunds as r where r.id::text = notice.event_key and r.status = 'requested');
  elsif notice.kind = 'inquiry' then
    return exists (select from public.inquiries as i where i.id = notice.event_key::uuid and not i.is_read);
  elsif notice.kind = 'cancel_request' then
    return exists (select from public.orders as o where o.id = notice.order_id and private.has_cancel_request(o));
  elsif notice.kind = 'order_to_agree' then
    return exists (select from public.orders as o where o.id = notice.order_id and o.awaits_agreement and private.is_open_order(o.status));
  end if;
  select private.work_step(o, d) into step
  from public.orders as o
  join public.deliveries as d on d.order_id = o.id
  where o.id = notice.order_id;
  return coalesce(case notice.kind
    when 'paid_order' then step = 'prepare'
    when 'failed_delivery' then step = 'failed'
    else true
  end and step is not null, false);
end
$$;

comment on function private.is_notice_waiting is
  'Whether nobody has dealt with it: nobody has taken the paid order, the late one is not delivered, the failed one is not sent again, the request to cancel is not answered, fee and day are not agreed on, the refund is not decided, the inquiry is unread.';
