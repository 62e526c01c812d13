-- Earlier versions keep working: they call place_order by the names of its arguments, without an area, and such an order costs the shop's
-- fee as before. An order that awaits an agreement is unpaid to them; their prompts for it are refused.

alter table public.orders
  add column area_id uuid,
  add column area_name text,
  add column awaits_agreement boolean not null default false,
  add column delivery_day date,
  add column map_point text;
comment on column public.orders.area_id is 'The area that the customer chose. Null: none, as in orders that are collected or were placed before there were areas.';
comment on column public.orders.area_name is 'Name of the area when the order was placed.';
comment on column public.orders.awaits_agreement is
  'Staff and customer have not agreed on fee and day yet (agree_delivery): the delivery fee is 0, and no prompt is sent.';
comment on column public.orders.delivery_day is 'The day on which it arrives, as agreed. Null: within the promise of its area.';
comment on column public.orders.map_point is
  'Latitude and longitude that the customer''s device reported, for staff and rider alone. Null: not shared, or erased.';

alter table public.order_events drop constraint "a kind of event is known";

drop function public.place_order(uuid,uuid,integer,text,text,text,text,integer,text,text,text,boolean,jsonb,text,boolean,text);

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'delivery_agreed'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.orders add constraint "an area has a name" CHECK (((area_id IS NULL) OR (area_name IS NOT NULL)));

-- Areas of delivery: their fee, their promise, and which of them need an agreement first (docs/decisions/delivery-areas.md).
-- Amounts are in cents.

create table public.delivery_areas (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  spellings text[] not null default '{}',
  fee_cents integer,
  promise_from_minutes integer not null default 15,
  promise_to_minutes integer not null default 60,
  needs_agreement boolean not null default false,
  is_active boolean not null default true,
  position integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "names of areas are unique" unique (name),
  constraint "an area has a name of at most 60 characters" check (char_length(trim(name)) between 2 and 60 and name !~ '[\n\r]'),
  constraint "the fee of an area is whole shillings" check (fee_cents between 0 and 100000000 and fee_cents % 100 = 0),
  constraint "a promise is between a minute and four weeks"
    check (promise_from_minutes between 1 and 40320 and promise_to_minutes between promise_from_minutes and 40320)
);

comment on table public.delivery_areas is
  'Areas that customers choose from when ordering. Orders refer to them, so they are not deleted: an inactive one is not offered.';

comment on column public.delivery_areas.spellings is
  'Other names, streets and towns by which a typed address is recognised (domain/delivery-area.ts).';

comment on column public.delivery_areas.fee_cents is 'Delivery fee. Null: that of the shop (store_settings.delivery_fee). Not used where it is agreed.';

comment on column public.delivery_areas.promise_to_minutes is
  'Within how many minutes after the payment an order arrives; promise_from_minutes: at the earliest. 1440 or more are shown as days.';

comment on column public.delivery_areas.needs_agreement is
  'Staff and customer agree on fee and day before an order is paid (orders.awaits_agreement).';

comment on column public.delivery_areas.position is 'Place in the list, counted from 1. Changed by sort_delivery_areas.';

comment on column public.delivery_areas.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';

alter table public.delivery_areas enable row level security;

grant select on public.delivery_areas to anon, authenticated;

grant
  insert (name, spellings, fee_cents, promise_from_minutes, promise_to_minutes, needs_agreement, is_active),
  update (name, spellings, fee_cents, promise_from_minutes, promise_to_minutes, needs_agreement, is_active, updated_at)
  on public.delivery_areas to authenticated;

create policy "everyone reads active areas" on public.delivery_areas for select to anon, authenticated using (is_active);

create policy "staff read every area" on public.delivery_areas for select to authenticated using ((select public.may('panel')));

create policy "owners add areas" on public.delivery_areas for insert to authenticated with check ((select public.may('settings')));

create policy "owners edit the areas" on public.delivery_areas
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create or replace function private.before_area_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  new.spellings := array(
    select distinct on (lower(trim(written.spelling))) left(trim(written.spelling), 60)
    from unnest(new.spellings) as written (spelling)
    where private.visible_length(left(written.spelling, 60)) > 0
    order by lower(trim(written.spelling))
  );
  if cardinality(new.spellings) > 200 then
    perform private.refuse(400, 'spellings_too_many', 'An area has at most 200 other names');
  elsif tg_op = 'UPDATE' then
    -- A place in the list is no edit, so that it does not conflict with a staff member's edit.
    old.position := new.position;
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  else
    -- Each page with an order form has all of them.
    if (select count(*) from public.delivery_areas) >= 60 then
      perform private.refuse(409, 'areas_too_many', 'There are 60 areas already. Please change one of them instead');
    end if;
    if new.position = 0 then
      new.position := coalesce((select max(a.position) from public.delivery_areas as a), 0) + 1;
    end if;
  end if;
  return new;
end
$$;

create trigger delivery_areas_before_change before insert or update on public.delivery_areas
  for each row execute function private.before_area_change();

create or replace function public.sort_delivery_areas(ids uuid[]) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform from public.delivery_areas as a order by a.id for no key update;
  if (select array_agg(distinct given.id order by given.id) from unnest(ids) as given (id))
    is distinct from (select array_agg(a.id order by a.id) from public.delivery_areas as a)
  then
    perform private.refuse(409, 'areas_changed', 'An area was added in the meantime. Nothing was moved');
  end if;
  update public.delivery_areas as a set position = given.place
  from unnest(ids) with ordinality as given (id, place)
  where a.id = given.id and a.position <> given.place;
end
$$;

comment on function public.sort_delivery_areas is
  'For staff: brings the areas into the order of ids, which has each area once. Refuses (areas_changed) a list that lacks one.';

create or replace function private.read_area(area_id uuid) returns public.delivery_areas
language plpgsql stable set search_path = '' as $$
declare
  area public.delivery_areas;
begin
  select * into area from public.delivery_areas as a where a.id = read_area.area_id and a.is_active;
  if area.id is null and read_area.area_id is not null then
    perform private.refuse(409, 'area_unavailable', 'We do not deliver to this area any more. Please choose another one');
  end if;
  return area;
end
$$;

comment on function private.read_area is 'The active area with this id; a row of nulls without an id. Refuses any other (area_unavailable).';

create or replace function private.delivery_fee_in(area public.delivery_areas, shop_fee integer, is_collected boolean) returns integer
language sql immutable
return case
  when is_collected or coalesce(area.needs_agreement, false) then 0
  else coalesce(area.fee_cents, shop_fee)
end;

comment on function private.delivery_fee_in is
  'The one rule of the delivery fee, in cents: that of the area, or of the shop. 0 if the customer collects the order, and until a fee is agreed on.';

create or replace function private.read_map_point(written text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  parts text[];
begin
  if written is null or trim(left(written, 60)) = '' then
    return null;
  end if;
  parts := regexp_match(left(written, 60), '^\s*(-?\d{1,2}(?:\.\d+)?)\s*,\s*(-?\d{1,3}(?:\.\d+)?)\s*$');
  if parts is null or abs(parts[1]::numeric) > 90 or abs(parts[2]::numeric) > 180 then
    perform private.refuse(400, 'map_point_invalid', 'A point on the map is a latitude and a longitude, such as -1.29207,36.82195');
  end if;
  -- Five digits are about a metre.
  return round(parts[1]::numeric, 5) || ',' || round(parts[2]::numeric, 5);
end
$$;

comment on function private.read_map_point is 'A latitude and longitude in degrees, rounded to five digits; null for none. Refuses anything else.';

-- Execution rights
grant execute on function public.sort_delivery_areas to authenticated, service_role;

-- The first fifteen are the areas of the delivery page. Spellings: domain/delivery-area.ts.
insert into public.delivery_areas (name, spellings, promise_from_minutes, promise_to_minutes, needs_agreement, position) values
  ('Nairobi CBD', array['CBD', 'Nairobi town', 'City centre', 'City center', 'Tao', 'Moi Avenue', 'Kenyatta Avenue', 'Tom Mboya', 'River Road', 'Kimathi Street', 'Haile Selassie', 'University Way', 'KICC', 'Archives'], 15, 60, false, 1),
  ('Westlands', array['Westy', 'Westi', 'Sarit', 'Westgate', 'Mpaka Road', 'Waiyaki Way', 'Rhapta', 'Muthangari', 'Spring Valley', 'Mwanzi'], 15, 60, false, 2),
  ('Kilimani', array['Kili', 'Yaya', 'Hurlingham', 'Argwings Kodhek', 'Dennis Pritt', 'Lenana Road', 'Wood Avenue', 'Adams Arcade', 'Prestige Plaza', 'Ngong Hills Hotel', 'Chaka Road'], 15, 60, false, 3),
  ('Parklands', array['Parkie', 'Highridge', 'Limuru Road', 'Aga Khan Hospital', 'City Park', 'Ojijo', 'Diamond Plaza', '3rd Parklands', 'Muthaiga'], 15, 60, false, 4),
  ('Lavington', array['Lavi', 'Valley Arcade', 'James Gichuru', 'Gitanga', 'Bernard', 'Junction Mall'], 15, 60, false, 5),
  ('Karen', array['Langata Road Karen', 'The Hub', 'Bomas', 'Hardy', 'Waterfront', 'Miotoni', 'Dagoretti Road'], 15, 60, false, 6),
  ('Runda', array['Gigiri', 'Village Market', 'Rosslyn', 'Nyari', 'Two Rivers', 'Ridgeways', 'Runda Mumwe'], 15, 60, false, 7),
  ('Kileleshwa', array['Kile', 'Mandera Road', 'Oloitoktok', 'Othaya Road', 'Kandara Road', 'Riverside'], 15, 60, false, 8),
  ('Upperhill', array['Upper Hill', 'Upper-Hill', 'Upperhil', 'KNH', 'Kenyatta Hospital', 'Ragati', 'Hospital Road', 'Elgon Road', 'Bunyala'], 15, 60, false, 9),
  ('South B & C', array['South B', 'South C', 'South B and C', 'Bellevue', 'Mugoya', 'Akila', 'Capital Centre', 'Muhoho', 'Nyayo Estate South'], 15, 60, false, 10),
  ('Ngong Road', array['Ngong Rd', 'Race Course', 'Jamhuri', 'Lenana School', 'Dagoretti Corner', 'Ngando', 'Karinde'], 15, 60, false, 11),
  ('Thika Road', array['Thika Rd', 'Thika Superhighway', 'TRM', 'Garden City', 'Roysambu', 'Zimmerman', 'Githurai', 'Kahawa', 'Ruaraka', 'Allsops', 'Muthaiga North', 'USIU'], 15, 60, false, 12),
  ('Mombasa Road', array['Mombasa Rd', 'Msa Road', 'Msa Rd', 'JKIA', 'Airport', 'Syokimau', 'Imara Daima', 'Embakasi', 'Gateway Mall', 'Cabanas', 'Nyayo Estate', 'Mlolongo', 'Pipeline'], 15, 60, false, 13),
  ('Langata', array['Lang''ata', 'Lang ata', 'Langata Road', 'Wilson Airport', 'Nairobi West', 'Madaraka', 'Uhuru Gardens', 'Otiende', 'Kibera', 'Onyonka'], 15, 60, false, 14),
  ('Kasarani', array['Kasa', 'Mwiki', 'Hunters', 'Seasons', 'Sportsview', 'Clay City', 'Santon', 'Kasarani Stadium'], 15, 60, false, 15),
  ('Elsewhere in Nairobi', array['Nairobi', 'NRB', 'NBO', 'Ngara', 'Eastleigh', 'Buruburu', 'Buru Buru', 'Donholm', 'Umoja', 'Utawala', 'Ruaka', 'Kitengela', 'Rongai', 'Kikuyu', 'Ruiru', 'Kangemi', 'Kawangware', 'Uthiru', 'Kinoo', 'Pangani', 'Huruma', 'Komarock', 'Kayole', 'Industrial Area', 'Ruai', 'Ngong', 'Syokimau Katani', 'Athi River', 'Kiambu', 'Limuru', 'Banana', 'Tassia', 'Fedha'], 15, 60, false, 16),
  ('Outside Nairobi', array['Mombasa', 'Kisumu', 'Nakuru', 'Eldoret', 'Malindi', 'Kitale', 'Garissa', 'Nyeri', 'Meru', 'Embu', 'Kericho', 'Kisii', 'Kakamega', 'Bungoma', 'Busia', 'Naivasha', 'Nanyuki', 'Machakos', 'Kitui', 'Isiolo', 'Marsabit', 'Moyale', 'Mandera', 'Wajir', 'Lamu', 'Kilifi', 'Kwale', 'Diani', 'Watamu', 'Mtwapa', 'Nyali', 'Voi', 'Taveta', 'Wundanyi', 'Mwingi', 'Makueni', 'Wote', 'Narok', 'Bomet', 'Kajiado', 'Namanga', 'Loitoktok', 'Nyahururu', 'Nyandarua', 'Laikipia', 'Maralal', 'Samburu', 'Lodwar', 'Turkana', 'Kapenguria', 'Iten', 'Kabarnet', 'Baringo', 'Eldama Ravine', 'Nandi', 'Kapsabet', 'Vihiga', 'Mumias', 'Webuye', 'Malaba', 'Siaya', 'Bondo', 'Homa Bay', 'Homabay', 'Migori', 'Nyamira', 'Kerugoya', 'Kirinyaga', 'Karatina', 'Chuka', 'Tharaka', 'Maua', 'Murang''a', 'Gilgil', 'Molo', 'Njoro', 'Emali', 'Mtito Andei', 'Uasin Gishu', 'Trans Nzoia', 'Tana River', 'Mpeketoni', 'Hola', 'Kakuma', 'Uganda', 'Kampala', 'Entebbe', 'Jinja', 'Tanzania', 'Dar es Salaam', 'Arusha', 'Moshi', 'Mwanza', 'Dodoma', 'Zanzibar', 'Rwanda', 'Kigali', 'Burundi', 'Bujumbura', 'Ethiopia', 'Addis Ababa', 'Somalia', 'Mogadishu', 'Hargeisa', 'South Sudan', 'Juba', 'Sudan', 'Khartoum', 'Congo', 'Goma', 'Kinshasa', 'Nigeria', 'Lagos', 'Ghana', 'Accra', 'South Africa', 'Johannesburg', 'Dubai', 'London'], 1440, 4320, true, 17);

alter table public.orders add constraint orders_area_id_fkey FOREIGN KEY (area_id) REFERENCES delivery_areas(id);

create index orders_to_agree on public.orders (created_at desc, id desc) where awaits_agreement and status <> 'cancelled';

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
  end || case when placed.awaits_agreement then '{"awaits_agreement": true}' else '{}' end::jsonb;
end
$$;

comment on function private.placed_order is 'The response of place_order.';

create or replace function private.agreement_time() returns interval
language sql immutable
return interval '3 days';

comment on function private.agreement_time is 'How long an order waits until staff and customer have agreed on its fee and day.';

create or replace function private.refuse_before_agreement(ordered public.orders, for_staff boolean default false) returns void
language plpgsql stable set search_path = '' as $$
begin
  if not ordered.awaits_agreement then
    return;
  elsif for_staff then
    perform private.refuse(409, 'delivery_not_agreed', 'Agree with the customer on the delivery fee and the day first');
  end if;
  perform private.refuse(409, 'delivery_not_agreed', format(
    'We first agree with you on the delivery fee and the day. Please wait for our call, or call or WhatsApp us on %s',
    private.contact_numbers()
  ));
end
$$;

comment on function private.refuse_before_agreement is 'Refuses to take money for an order whose fee and day are not agreed on yet.';

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
      reserved_until = case when private.may_hold_from_placing(networks, offer, settings) then
        -- Some orders wait longer than units are held.
        least(changed.expires_at, now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes)))
      end
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

create or replace function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(opened.found_order);
  end if;
  return private.describe_order(opened.found_order, opened.is_open);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. awaits_agreement: fee and day are to be agreed on. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. Null: no such order, or several.';

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
  ) || jsonb_strip_nulls(jsonb_build_object('area_name', described.area_name, 'delivery_day', described.delivery_day)) || case when described.discount_code is null then '{}' else jsonb_build_object('discount', (
    select private.discount_terms(d) from public.discount_codes as d where d.code = described.discount_code
  )) end;
end
$$;

comment on function private.describe_order is
  'The order as its caller may see it: everything with proof, also the terms of its discount code (discount), its area (area_name) and the agreed day (delivery_day), never its point on the map; else status, items and total, with name and phone masked; after 30 days only the status.';

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
  if described.awaits_agreement and described.status <> 'cancelled' then
    answer := answer || '{"awaits_agreement": true}';
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
  perform private.refuse_before_agreement(ordered, begin_payment.requested_by is not null);
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

-- Cash: orders that are paid at the door or the counter (docs/decisions/cash.md).

create or replace function private.lock_order_for_cash(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  ordered public.orders;
begin
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into ordered from public.orders as o where o.id = lock_order_for_cash.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' or (private.is_before_work(ordered.status) and ordered.payment_method <> 'cash' and ordered.expires_at <= now()) then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif exists (select from public.payments as p where p.order_id = ordered.id and private.is_unsettled_attempt(p.status)) then
    perform private.refuse(409, 'payment_open', 'A payment by M-PESA is open for this order. Wait until it has ended, so that it is not paid twice');
  elsif exists (
    select from public.mpesa_transactions as t where t.order_id = ordered.id and t.payment_id is null and t.resolution is null
  ) then
    perform private.refuse(409, 'money_waiting', 'Money for this order has come to the till. Decide about it in Reconciliation first');
  end if;
  perform private.refuse_before_agreement(ordered, public.may('cash'));
  return ordered;
end
$$;

comment on function private.lock_order_for_cash is 'Locks an order that can be paid in cash. Refuses others.';

create or replace function public.show_pay_link(order_id uuid) returns public.pay_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  shown public.orders;
begin
  perform private.expect_staff('orders');
  select * into shown from public.orders as o where o.id = show_pay_link.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif shown.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif shown.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  perform private.refuse_before_agreement(shown, for_staff => true);
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

-- Orders whose delivery fee and day staff agree on with the customer (docs/decisions/delivery-areas.md).

create or replace function public.agree_delivery(order_id uuid, fee_cents integer, delivery_day date) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today constant date := private.nairobi_day(now());
  agreed public.orders;
  is_first boolean;
  new_total integer;
begin
  perform private.expect_staff('orders');
  if agree_delivery.fee_cents is null or agree_delivery.fee_cents not between 0 and 100000000 or agree_delivery.fee_cents % 100 <> 0 then
    perform private.refuse(400, 'fee_invalid', 'The delivery fee must be in whole shillings');
  elsif agree_delivery.delivery_day is null or agree_delivery.delivery_day not between today and today + 60 then
    perform private.refuse(400, 'day_invalid', 'Choose a day from today to 60 days on');
  end if;
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into agreed from public.orders as o where o.id = agree_delivery.order_id for no key update;
  is_first := agreed.awaits_agreement;
  new_total := agreed.total_amount - agreed.delivery_fee + agree_delivery.fee_cents;
  if agreed.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.is_open_order(agreed.status) then
    perform private.refuse(409, 'order_closed', 'This order is closed. Nothing was changed');
  elsif not is_first and agreed.delivery_day is null then
    perform private.refuse(409, 'delivery_not_to_agree', 'The fee and the time of this order follow from its area');
  elsif agreed.delivery_fee <> agree_delivery.fee_cents and (
    agreed.payment_status <> 'unpaid' or agreed.payment_method = 'cash'
    or exists (select from public.payments as p where p.order_id = agreed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = agreed.id)
  ) then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its delivery fee cannot change');
  elsif (new_total::bigint + 99) / 100 * 100 > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;
  update public.orders as o
  set delivery_fee = agree_delivery.fee_cents, total_amount = new_total, delivery_day = agree_delivery.delivery_day,
      awaits_agreement = false, updated_at = now()
  where o.id = agreed.id
  returning * into agreed;
  perform private.record_order_event(agreed.id, 'delivery_agreed', 'shop', jsonb_build_object(
    'fee_cents', agreed.delivery_fee, 'total_cents', agreed.total_amount, 'day', agreed.delivery_day
  ));
  if agreed.payment_status = 'unpaid' then
    perform private.wait_for_pay_link(agreed);
    if is_first then
      perform private.queue_order_messages(agreed.id, 'order_received');
    end if;
  end if;
  perform private.notify_order_followers(agreed.id);
end
$$;

comment on function public.agree_delivery is
  'For staff: what they agreed on with the customer of an order outside the promise: its delivery fee in cents, and the day. The order can be paid from then on, waits a day for that, and its customer gets the link. Can be repeated until a payment has begun; the day also afterwards.';

-- Execution rights
grant execute on function public.agree_delivery to authenticated, service_role;

create or replace function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      map_point = null, anonymised_at = now()
  where o.id = any (anonymise_orders.order_ids);
  -- Links in old messages stop working.
  update private.order_keys as k
  set request_hash = '', access_key = replace(gen_random_uuid()::text, '-', '')
  where k.order_id = any (anonymise_orders.order_ids);
  delete from private.order_networks as n where n.order_id = any (anonymise_orders.order_ids);
  update public.payments as p set phone = '' where p.order_id = any (anonymise_orders.order_ids) and p.phone <> '';
  update public.deliveries as d
  set delivery_notes = null
  where d.order_id = any (anonymise_orders.order_ids) and d.delivery_notes is not null;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;

comment on function private.anonymise_orders is
  'Removes the customer''s name, email, phone, address, point on the map and notes from orders and related rows. M-PESA''s messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff('personal_data');
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
        'shipping_address', o.shipping_address, 'city', o.city, 'area', o.area_name, 'map_point', o.map_point,
        'delivery_day', o.delivery_day, 'delivery_notes', o.delivery_notes,
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

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create or replace function public.report(since date, until date) returns public.report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  answer public.report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(report.since, report.until);
  with placed as materialized (
    select o.id, o.created_at, o.payment_status = 'paid' as is_sold, o.charge_cents, o.is_collected,
      case when o.payment_status = 'paid' then coalesce(o.area_name, private.area_of(o.shipping_address, o.city)) end as area
    from public.orders as o
    where o.created_at >= span_start and o.created_at < span_end
  ), money as materialized (
    select m.* from private.money_rows(span_start, span_end) as m
  ), placed_by_day as (
    select private.nairobi_day(p.created_at) as day, count(*) as orders, count(*) filter (where p.is_sold) as sold,
      sum(p.charge_cents) filter (where p.is_sold) as cents
    from placed as p group by 1
  ), money_by_day as (
    select private.nairobi_day(m.happened_at) as day, sum(m.received_cents) as received, sum(m.refunded_cents) as refunded
    from money as m group by 1
  ), by_day as (
    select (
      d.day::date, coalesce(p.orders, 0), coalesce(p.sold, 0), coalesce(p.cents, 0),
      coalesce(m.received, 0), coalesce(m.refunded, 0), coalesce(m.received, 0) - coalesce(m.refunded, 0)
    )::public.report_day as line, d.day
    from generate_series(report.since::timestamp, report.until::timestamp, interval '1 day') as d (day)
    left join placed_by_day as p on p.day = d.day::date
    left join money_by_day as m on m.day = d.day::date
  ), by_drink as (
    select (i.product_name, max(own.brand), count(distinct i.order_id), sum(i.quantity), sum(i.quantity::bigint * i.unit_price))::public.report_drink as line
    from placed as p
    -- Lookups by key for each order, with any statistics.
    cross join lateral (select * from public.order_items as i where i.order_id = p.id offset 0) as i
    left join lateral (select d.brand from public.products as d where d.id = i.product_id offset 0) as own on true
    where p.is_sold
    group by i.product_name
  ), by_hour as (
    select (h.hour, count(p.id), coalesce(sum(p.charge_cents), 0))::public.report_hour as line, h.hour
    from generate_series(0, 23) as h (hour)
    left join placed as p on p.is_sold and extract(hour from p.created_at at time zone 'Africa/Nairobi') = h.hour
    where exists (select from placed as any_sold where any_sold.is_sold)
    group by h.hour
  ), area_sums as (
    select case when p.is_collected then 'Collected at the shop' else mode() within group (order by p.area) end as area,
      count(*) as orders, sum(p.charge_cents) as cents
    from placed as p where p.is_sold
    group by p.is_collected, case when not p.is_collected then lower(p.area) end
  ), ranked_areas as (
    select a.*, row_number() over (order by a.orders desc, a.cents desc, a.area) <= 50 as is_listed from area_sums as a
  ), by_area as (
    select (case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end, sum(a.orders), sum(a.cents))::public.report_area as line
    from ranked_areas as a
    group by a.is_listed, case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end
  ), by_rider as (
    select (
      mode() within group (order by trim(d.delivery_person)), count(*), count(*) filter (where d.delivery_status = 'delivered'),
      sum(d.failures), coalesce(sum(cash.cents), 0)
    )::public.report_rider as line
    from placed as p
    cross join lateral (select * from public.deliveries as d where d.order_id = p.id offset 0) as d
    left join lateral (
      select sum(c.charge_cents) as cents
      from (select * from public.payments as c where c.order_id = p.id offset 0) as c
      where c.method = 'cash' and c.status = 'completed' and lower(trim(c.received_from)) = lower(trim(d.delivery_person))
    ) as cash on true
    where d.delivery_person is not null
    group by lower(trim(d.delivery_person))
  ), by_refund as (
    select (m.kind, m.note, count(*), sum(m.refunded_cents))::public.report_refund as line
    from money as m where m.refunded_cents > 0
    group by m.kind, m.note
  ), by_prompt as (
    select (tried.status, case when tried.status = 'failed' then tried.result_code end, count(*))::public.report_prompt as line
    from placed as p
    cross join lateral (select * from public.payments as tried where tried.order_id = p.id offset 0) as tried
    where tried.method = 'prompt' and tried.purpose = 'order'
    group by tried.status, case when tried.status = 'failed' then tried.result_code end
  )
  select
    array(select d.line from by_day as d order by d.day),
    array(select d.line from by_drink as d order by (d.line).units desc, (d.line).cents desc, (d.line).name),
    array(select h.line from by_hour as h order by h.hour),
    array(select a.line from by_area as a order by (a.line).area = 'All others', (a.line).orders desc, (a.line).cents desc, (a.line).area),
    array(select r.line from by_rider as r order by (r.line).orders desc, (r.line).rider),
    array(select r.line from by_refund as r order by (r.line).cents desc, (r.line).kind, (r.line).reason),
    array(select t.line from by_prompt as t order by (t.line).prompts desc, (t.line).status, (t.line).result_code)
  into answer;
  return answer;
end
$$;

comment on function public.report is
  'For staff: the report on up to 367 days in Nairobi. Reads the orders and the money of these days, whatever the size of the shop. Areas: the 50 with the most orders, and all others.';

-- Execution rights
grant execute on function public.report to authenticated, service_role;

create trigger delivery_areas_after_statement after insert or update or delete or truncate on public.delivery_areas
  for each statement execute function private.announce_page_change();

create or replace function private.after_area_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  of_no_interest constant text[] := '{id,position,created_at,updated_at}';
begin
  -- Not the areas that a new shop begins with.
  if auth.uid() is not null then
    perform private.record_audit_event(
      'settings_changed', new.name,
      case when tg_op = 'UPDATE' then to_jsonb(old) - of_no_interest end, to_jsonb(new) - of_no_interest
    );
  end if;
  return null;
end
$$;

create trigger delivery_areas_after_change after insert or update on public.delivery_areas
  for each row execute function private.after_area_change();

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
    -- Callers and chats get the link at once, unless fee and day are agreed on first; a customer in the shop, as on the storefront, with a prompt.
    if new.source in ('call', 'whatsapp') and not new.awaits_agreement then
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

create trigger delivery_areas_by_staff before insert or update or delete on public.delivery_areas for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

alter publication supabase_realtime add table public.delivery_areas;
