-- Earlier versions keep working. They call place_order by the names of its arguments, without an area, and such an order costs the shop's fee
-- as before; to them an order that awaits an agreement is unpaid, and their prompts for it are refused. set_order_paid fixes the promise for
-- them, too; their lists show an hour from the payment as before. They assign riders by name, phone and vehicle: a phone that is on the list
-- makes the delivery that rider's. Their messages leave the new placeholders empty.
-- To them an order that its customer cancelled has no reason, and an order whose customer asked for that is a paid
-- one: the database refuses its next steps with a sentence. Their payments settle as before; money for an order that its customer cancelled needs
-- review, which they show. They do not show the notices of a kind that they do not know. Their tracking pages ignore
-- what they do not know of an order, and show no rating.

create function private.has_ended(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('delivered', 'failed');
comment on function private.has_ended is 'Delivered or failed.';

create function private.is_open_job(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('assigned', 'picked_up', 'in_transit');
comment on function private.is_open_job is 'An open delivery that a rider was assigned to.';

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

alter table public.orders
  add column promised_at timestamptz,
  add column promised_again_at timestamptz;
comment on column public.orders.promised_at is
  'When it arrives at the latest, as promised when it was paid or its customer chose cash (private.promise_of). Null: not yet, or within no open time.';
comment on column public.orders.promised_again_at is 'The new time that the customer of a late order was informed of, once. Null: never.';

alter table public.store_settings
  add column opening_hours jsonb not null default '[]',
  add column days_off jsonb not null default '[]',
  add column queue_minutes integer not null default 5,
  add column announces_delays boolean not null default true;
comment on column public.store_settings.opening_hours is
  'When the shop delivers: spans {day, from, to} of ISO weekdays in Nairobi. Empty: always. Orders are taken at any time.';
comment on column public.store_settings.days_off is 'Days {day, reason} on which the shop does not deliver.';
comment on column public.store_settings.queue_minutes is
  'Minutes that every ten orders that have not left the shop add to the promise of the next ones, at most 60 in all.';
comment on column public.store_settings.announces_delays is 'Whether the customer of a late order gets a message with a new time (announce_delays).';
grant update (opening_hours, days_off, queue_minutes, announces_delays) on public.store_settings to authenticated;
grant select (opening_hours, days_off) on public.store_settings to anon, authenticated;

create type public.rider_link as (secret text, expires_at timestamptz);
comment on type public.rider_link is 'The secret of a new link. It is shown once: only its hash is stored.';

alter table public.deliveries
  add column rider_id uuid,
  add column proof_code text,
  add column wrong_codes smallint not null default 0,
  add column proven_by text,
  add column collected_cents integer;
comment on column public.deliveries.rider_id is
  'The rider of the list whose phone is delivery_phone. Null: nobody, or a rider who is not on the list.';
comment on column public.deliveries.proof_code is
  'Four digits that the customer gives to the rider of the list. Null: of a delivery from before there were codes.';
comment on column public.deliveries.wrong_codes is 'How many wrong codes its riders typed. After five only staff finish it.';
comment on column public.deliveries.proven_by is
  'code: its rider typed the code. staff: a member finished it without the code, with a reason. Null: neither.';
comment on column public.deliveries.collected_cents is
  'Cash that its rider got at the door, as the rider said. Null: none. It is no payment before staff note it (receive_cash).';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of a job the id of its rider; of newsletter mails the subscription''s id; of replies the inquiry''s id; of messages to staff the id of the incident or the refund; of a repeated message of an order its own id.';

alter table public.store_settings add column asks_delivery_code boolean not null default true;
grant update (asks_delivery_code) on public.store_settings to authenticated;
comment on column public.store_settings.asks_delivery_code is
  'Whether riders of the list need the code of the customer to finish a delivery on their page.';

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.order_events drop constraint "an actor is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

drop function public.place_order(uuid,uuid,integer,text,text,text,text,integer,text,text,text,boolean,jsonb,text,boolean,text);

drop function private.delivery_promise();

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'job_for_rider'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'delivery_agreed'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'cash_collected'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'code_locked'::text, 'code_waived'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.order_events add constraint "an actor is known" CHECK ((actor = ANY (ARRAY['staff'::text, 'customer'::text, 'mpesa'::text, 'shop'::text, 'rider'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text, 'job_for_rider'::text])));

alter table public.deliveries add constraint "a code has four digits" CHECK ((proof_code ~ '^\d{4}$'::text));

alter table public.deliveries add constraint "a proof is known" CHECK ((proven_by = ANY (ARRAY['code'::text, 'staff'::text])));

alter table public.deliveries add constraint "collected cash is whole shillings" CHECK (((collected_cents >= 100) AND ((collected_cents % 100) = 0)));

alter table public.orders add constraint "an area has a name" CHECK (((area_id IS NULL) OR (area_name IS NOT NULL)));

alter table public.store_settings add constraint "the queue adds at most an hour" CHECK (((queue_minutes >= 0) AND (queue_minutes <= 60)));

create or replace function private.are_opening_hours(written jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  if jsonb_typeof(written) is distinct from 'array' or jsonb_array_length(written) > 42 then
    return false;
  end if;
  -- A value of another type, or a missing one, makes the condition null: that counts as wrong.
  return not exists (
    select from jsonb_array_elements(written) as s (span)
    where not coalesce(
      jsonb_typeof(s.span) = 'object' and jsonb_typeof(s.span -> 'day') = 'number'
        and jsonb_typeof(s.span -> 'from') = 'string' and jsonb_typeof(s.span -> 'to') = 'string'
        and s.span ->> 'day' ~ '^[1-7]$' and s.span ->> 'from' ~ '^([01]\d|2[0-3]):[0-5]\d$'
        and s.span ->> 'to' ~ '^(([01]\d|2[0-3]):[0-5]\d|24:00)$' and s.span ->> 'from' <> s.span ->> 'to',
      false
    )
  );
end
$$;

comment on function private.are_opening_hours is
  'Whether this is a list of spans {day, from, to}: ISO weekday and times such as 08:00. A span whose end is not after its beginning ends on the next day; 24:00 is midnight.';

create or replace function private.are_days_off(written jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  if jsonb_typeof(written) is distinct from 'array' or jsonb_array_length(written) > 60 then
    return false;
  end if;
  return not exists (
    select from jsonb_array_elements(written) as d (off)
    where not coalesce(case when
      jsonb_typeof(d.off) = 'object' and jsonb_typeof(d.off -> 'day') = 'string' and jsonb_typeof(d.off -> 'reason') = 'string'
        and d.off ->> 'day' ~ '^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$'
      -- 31 February is 3 March.
      then to_char(make_date(left(d.off ->> 'day', 4)::integer, substr(d.off ->> 'day', 6, 2)::integer, 1)
          + right(d.off ->> 'day', 2)::integer - 1, 'YYYY-MM-DD') = d.off ->> 'day'
        and char_length(trim(d.off ->> 'reason')) between 1 and 80 and d.off ->> 'reason' !~ '[\n\r]' end,
      false
    )
  );
end
$$;

comment on function private.are_days_off is 'Whether this is a list of days {day, reason}, at most 60.';

-- A trigger has no parameters. What only the writer of a row knows and the triggers of the row need, such as that a change is undone, the
-- writer states before its statement and takes back after it.
create or replace function private.state(fact text, is_true boolean default true) returns void
language plpgsql set search_path = '' as $$
begin
  perform set_config('private.' || fact, case when is_true then 'yes' else '' end, true);
end
$$;

comment on function private.state is
  'States a fact for the triggers of the next statements: undoes, although_unpaid, follows_delivery, has_inquiry, by_rider. It ends with the transaction at the latest.';

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

create index orders_to_agree on public.orders (created_at desc, id desc) where awaits_agreement and status <> 'cancelled';

create index orders_by_promise on public.orders (promised_at)
  where status in ('pending', 'processing', 'shipped', 'out_for_delivery') and promised_at is not null;

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

-- When an order arrives: opening hours, days off, and the one rule of the promise (docs/decisions/promise.md).
-- All days and times of day are those of Nairobi.

create or replace function private.shop_promise_minutes() returns integer
language sql immutable
return 60;

comment on function private.shop_promise_minutes is
  'Minutes from the payment to the arrival, for orders without an area. shopPromiseMinutes in domain/delivery-promise.ts.';

create or replace function private.open_times(settings public.store_settings, since timestamptz) returns tstzmultirange
language plpgsql stable set search_path = '' as $$
begin
  -- From the day before, whose last span can end after midnight.
  return (
    select range_agg(tstzrange(
      (day.day + opening.from_time) at time zone 'Africa/Nairobi',
      (day.day + opening.to_time + case when opening.to_time <= opening.from_time then interval '1 day' else interval '0' end)
        at time zone 'Africa/Nairobi'
    ))
    from (
      select (since at time zone 'Africa/Nairobi')::date::timestamp + make_interval(days => n.n - 1) as day
      from generate_series(0, 61) as n (n)
    ) as day
    join lateral (
      select (span.span ->> 'from')::interval as from_time, (span.span ->> 'to')::interval as to_time
      from jsonb_array_elements(settings.opening_hours) as span (span)
      where (span.span ->> 'day')::integer = extract(isodow from day.day)
      union all
      select interval '0', interval '24 hours' where settings.opening_hours = '[]'
    ) as opening on true
    where not settings.days_off @> jsonb_build_array(jsonb_build_object('day', to_char(day.day, 'YYYY-MM-DD')))
  );
end
$$;

comment on function private.open_times is
  'The times in which the shop delivers in the 60 days after a moment. A span that begins before a day off ends as on any other day.';

create or replace function private.arrival_after(settings public.store_settings, minutes integer, since timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
declare
  -- A pause without an end delays nothing: no one knows how long it lasts.
  starts timestamptz := greatest(since, case when settings.orders_pause_reason is not null then settings.orders_paused_until end);
  remaining interval := make_interval(mins => minutes);
  span tstzrange;
begin
  if settings.opening_hours = '[]' and settings.days_off = '[]' then
    return starts + remaining;
  end if;
  -- A promise in days counts the closed hours.
  if minutes >= 1440 then
    starts := starts + remaining;
    remaining := interval '0';
  end if;
  for span in select s from unnest(private.open_times(settings, starts)) as s order by s loop
    if upper(span) > starts then
      starts := greatest(starts, lower(span));
      if remaining <= upper(span) - starts then
        return starts + remaining;
      end if;
      remaining := remaining - (upper(span) - starts);
    end if;
  end loop;
  return null;
end
$$;

comment on function private.arrival_after is
  'The moment after this many open minutes, from the end of a pause on. Never in a closed time. Null: not within 60 days.';

create or replace function private.queue_minutes(settings public.store_settings) returns integer
language plpgsql stable set search_path = '' as $$
begin
  -- At most an hour, so counting can stop at 12 steps.
  return least(60, settings.queue_minutes * ((
    select count(*) from (
      select from public.deliveries as d
      -- One step in an index for each delivery: the planner would rather read all orders.
      cross join lateral (select own.delivery_day from public.orders as own where own.id = d.order_id limit 1) as o
      where private.is_before_pickup(d.delivery_status) and coalesce(o.delivery_day <= private.nairobi_day(now()), true)
      limit 120
    ) as waiting
  ) / 10)::integer);
end
$$;

comment on function private.queue_minutes is
  'Minutes that the load of the queue adds to a promise: store_settings.queue_minutes for every ten orders that have not left the shop and are due today or sooner, at most 60.';

create or replace function private.promise_for(area_id uuid, at timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
declare
  settings public.store_settings;
  minutes integer;
begin
  select * into strict settings from public.store_settings as s;
  minutes := coalesce(
    (select a.promise_to_minutes from public.delivery_areas as a where a.id = promise_for.area_id), private.shop_promise_minutes()
  );
  -- Of all hours: with that of one hour, a later payment could arrive earlier.
  minutes := greatest(minutes, (
    select least(minutes * 2, e.p90_minutes) from private.delivery_estimates as e where e.area_id = promise_for.area_id and e.hour is null
  ));
  return private.arrival_after(settings, minutes + private.queue_minutes(settings), promise_for.at);
end
$$;

comment on function private.promise_for is
  'The one rule of the promise: when an order for this area, or without one, arrives that is paid at this moment. Null: not within 60 days.';

create or replace function private.promise_of(ordered public.orders, at timestamptz) returns timestamptz
language plpgsql stable set search_path = '' as $$
begin
  if ordered.delivery_day is null then
    return private.promise_for(ordered.area_id, promise_of.at);
  end if;
  return (
    -- Not midnight, which is shown as the next day.
    select least(upper(private.open_times(s, day.starts) * tstzmultirange(tstzrange(day.starts, day.ends))), day.ends - interval '1 minute')
    from public.store_settings as s,
      (select ordered.delivery_day::timestamp at time zone 'Africa/Nairobi' as starts,
        (ordered.delivery_day + 1)::timestamp at time zone 'Africa/Nairobi' as ends) as day
  );
end
$$;

comment on function private.promise_of is 'The promise of an order that is paid at this moment: as promise_for, or by the end of the day that was agreed on.';

create or replace function private.due_at(o public.orders, delivery_created_at timestamptz) returns timestamptz
language sql immutable
return coalesce(
  o.promised_at, (o.delivery_day + 1)::timestamp at time zone 'Africa/Nairobi' - interval '1 minute',
  coalesce(delivery_created_at, o.created_at) + make_interval(mins => private.shop_promise_minutes())
);

comment on function private.due_at is
  'When an order is late: its promise, else the end of the agreed day, else an hour after its payment. dueAt in domain/delivery-promise.ts.';

create or replace function public.delivery_promise(area_id uuid default null) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  settings public.store_settings;
  opens timestamptz;
begin
  select * into strict settings from public.store_settings as s;
  opens := private.arrival_after(settings, 0, now());
  return jsonb_build_object(
    'arrives_by', private.promise_for(delivery_promise.area_id, now()),
    'opens_at', case when opens > now() then opens end
  );
end
$$;

comment on function public.delivery_promise is
  'When an order for this area, or without one, arrives that is paid now (arrives_by), and when the shop delivers next, if it does not now (opens_at).';

-- What deliveries took

create table private.delivery_estimates (
  area_id uuid references public.delivery_areas (id),
  hour smallint,
  deliveries integer not null,
  median_minutes integer not null,
  p90_minutes integer not null,
  median_way_minutes integer,
  constraint "one estimate per area and hour" unique nulls not distinct (area_id, hour)
);

comment on table private.delivery_estimates is
  'Minutes from payment to delivery in the last 30 days, per area and hour of the payment; hour null: of all hours. Only after twenty deliveries. Filled by learn_delivery_times.';

comment on column private.delivery_estimates.median_way_minutes is 'Median of the minutes from the shop to the door. Null: no pickup was noted.';

alter table private.delivery_estimates enable row level security;

create or replace function public.learn_delivery_times() returns void
language plpgsql security definer set search_path = '' as $$
declare
  -- By today's hours. Null: always open.
  open_times constant tstzmultirange := (
    select private.open_times(s, now() - interval '30 days') from public.store_settings as s
    where s.opening_hours <> '[]' or s.days_off <> '[]'
  );
begin
  -- Two processes of the shop learn one after the other.
  perform pg_advisory_xact_lock(hashtext('learn_delivery_times'));
  delete from private.delivery_estimates where true;
  insert into private.delivery_estimates (area_id, hour, deliveries, median_minutes, p90_minutes, median_way_minutes)
  select took.area_id, took.hour, count(*), percentile_disc(0.5) within group (order by took.minutes),
    percentile_disc(0.9) within group (order by took.minutes),
    percentile_disc(0.5) within group (order by took.way_minutes)
  from (
    select o.area_id, extract(hour from d.created_at at time zone 'Africa/Nairobi')::smallint as hour,
      private.minutes_taken(
        case when a.promise_to_minutes < 1440 then open_times end, d.created_at, d.delivery_time
      ) as minutes,
      ceil(extract(epoch from d.delivery_time - d.pickup_time) / 60)::integer as way_minutes
    from public.deliveries as d
    join public.orders as o on o.id = d.order_id
    join public.delivery_areas as a on a.id = o.area_id
    -- By the index of the newest deliveries.
    where d.created_at > now() - interval '30 days' and d.delivery_status = 'delivered' and d.delivery_time > d.created_at
      and o.delivery_day is null and not o.is_collected
  ) as took
  where took.minutes > 0
  group by grouping sets ((took.area_id, took.hour), (took.area_id))
  having count(*) >= 20;
end
$$;
comment on function public.learn_delivery_times is
  'For the shop itself, once an hour: computes delivery_estimates from the deliveries of the last 30 days. Counts open minutes, as the promise does.';

create or replace function public.delivery_estimates() returns table (
  area_id uuid, hour smallint, deliveries integer, median_minutes integer, p90_minutes integer
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('panel');
  return query
    select e.area_id, e.hour, e.deliveries, e.median_minutes, e.p90_minutes
    from private.delivery_estimates as e
    order by e.area_id, e.hour nulls first;
end
$$;

comment on function public.delivery_estimates is
  'For staff: what deliveries took in the last 30 days, in minutes from the payment, per area and hour of the day (null: all), where there were at least twenty.';

create or replace function private.way_minutes(area_id uuid) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return (
    select e.median_way_minutes from private.delivery_estimates as e
    where e.area_id = way_minutes.area_id and e.median_way_minutes is not null
      and (e.hour is null or e.hour = extract(hour from now() at time zone 'Africa/Nairobi'))
    order by e.hour nulls last
    limit 1
  );
end
$$;

comment on function private.way_minutes is 'Learned minutes from the shop to the door in an area at this hour. Null: fewer than twenty deliveries.';

-- Execution rights
grant execute on function public.delivery_promise to anon, authenticated, service_role;

grant execute on function public.delivery_estimates to authenticated, service_role;
grant execute on function public.learn_delivery_times to service_role;

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
  return private.with_proof(private.describe_order(opened.found_order, opened.is_open), opened.found_order, track_order.access_key);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. awaits_agreement: fee and day are to be agreed on. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. proof_code: what the customer says to the rider, with the access key only; while it is asked for, digits of the phone do not show the access key. promised_at, promised_again_at, arrives_at: when it arrives, while it is open. steps: when it was paid, picked up and delivered. With proof also rider (who is on the way with it), rating and may_rate. Null: no such order, or several.';

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
  return private.with_proof(private.describe_order(receipt_of, true), receipt_of, order_receipt.access_key)
    - array['delivery_notes', 'proof_code', 'rider', 'rating', 'may_rate'] || jsonb_build_object(
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

create or replace function private.describe_order(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb := private.order_facts(described, is_open) || jsonb_build_object('is_masked', not is_open);
  delivery record;
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
  select * into delivery from public.deliveries as d where d.order_id = described.id;
  answer := answer || jsonb_strip_nulls(jsonb_build_object('steps', nullif(jsonb_strip_nulls(jsonb_build_object(
    'paid_at', case when private.is_to_deliver(described.payment_status, described.payment_method) then delivery.created_at end,
    'picked_up_at', delivery.pickup_time, 'delivered_at', delivery.delivery_time
  )), '{}')));
  if not is_open then
    return answer;
  end if;
  if described.status = 'delivered' then
    answer := answer || jsonb_strip_nulls(jsonb_build_object(
      'rating', (select private.describe_rating(r) from public.ratings as r where r.order_id = described.id),
      'may_rate', private.may_rate(described)
    ));
  elsif private.is_on_the_way(described.status) and delivery.delivery_person is not null then
    answer := answer || jsonb_build_object('rider', (
      select private.describe_rider(d) from public.deliveries as d where d.order_id = described.id
    ));
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
  'The order as its caller may see it: everything with proof, also its rider while on the way, its rating, the terms of its discount code (discount), its area (area_name) and the agreed day (delivery_day), never its point on the map; else status, items and total, with name and phone masked, and the times of its steps; after 30 days only the status.';

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
  if described.promised_at is not null and private.is_open_order(described.status) and not described.is_collected then
    answer := answer || jsonb_strip_nulls(jsonb_build_object(
      'promised_at', described.promised_at, 'promised_again_at', described.promised_again_at,
      'arrives_at', case when private.is_on_the_way(described.status) then (
        select d.pickup_time + make_interval(mins => private.way_minutes(described.area_id))
        from public.deliveries as d where d.order_id = described.id
      ) end
    ));
  end if;
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
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads; while it is open also when it arrives (promised_at, promised_again_at, and once on the way arrives_at). With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded), part_refunded_cents (what went back in part), credit_cents (what is owed for another order) and part_paid_cents.';

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

create or replace function private.set_order_paid(paid_order public.orders, payment_method text) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
begin
  update public.orders as o
  set payment_status = 'paid', payment_method = set_order_paid.payment_method,
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now(),
      promised_at = case
        when paid_order.payment_method = 'cash' and paid_order.promised_at is not null then paid_order.promised_at
        else private.promise_of(paid_order, now())
      end,
      promised_again_at = case when paid_order.payment_method = 'cash' then o.promised_again_at end
  where o.id = paid_order.id;
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it; with cash at the door, from
  -- the agreement on it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at
  where paid_order.payment_method <> 'cash';
  perform private.note_paid_order(paid_order.id);
end
$$;

comment on function private.set_order_paid is
  'Marks an order as paid, as it was before, and creates its delivery. The caller has locked the order, which has its units.';

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

create or replace function private.deliver_for_cash(ordered public.orders, agreed_by text) returns void
language plpgsql set search_path = '' as $$
begin
  -- The order holds its units from now on, as one that was handed over unpaid: it does not expire any more.
  update public.orders as o
  set payment_method = 'cash', status = case when o.status = 'pending' then 'processing' else o.status end, updated_at = now(),
      promised_at = private.promise_of(ordered, now())
  where o.id = ordered.id;
  insert into public.deliveries (order_id) values (ordered.id) on conflict on constraint "an order is delivered once" do nothing;
  perform private.record_order_event(
    ordered.id, 'cash_agreed', deliver_for_cash.agreed_by, jsonb_build_object('charge_cents', ordered.charge_cents)
  );
end
$$;

-- Riders, and the links with which they open their page (docs/decisions/riders.md).

create table public.riders (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  phone text not null,
  vehicle text not null,
  plate text not null default '',
  is_active boolean not null default true,
  is_practice boolean not null default false,
  last_seen_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a phone belongs to one rider" unique (phone),
  constraint "a rider has a Kenyan mobile number" check (phone ~ '^\+254[17]\d{8}$'),
  constraint "details of a rider are short"
    check (char_length(name) between 1 and 80 and char_length(vehicle) between 1 and 80 and char_length(plate) <= 20)
);

comment on table public.riders is
  'The riders of the shop. A delivery whose phone is that of an active rider is theirs (deliveries.rider_id).';

comment on column public.riders.is_active is 'Inactive: not offered for assignments, gets no new deliveries, and has no link.';

comment on column public.riders.is_practice is 'The rider of a shop with the M-PESA simulator. Deleted when the shop starts without it.';

comment on column public.riders.last_seen_at is 'When the rider last pressed or touched something on the page. Opening the link does not count.';

comment on column public.riders.updated_at is 'Changes with every edit of staff. A save sends the value that it read, and is refused if the row has changed since.';

alter table public.riders enable row level security;

grant select on public.riders to authenticated;

create policy "staff read the riders" on public.riders for select to authenticated using ((select public.may('deliveries')));

create table public.rider_links (
  id uuid primary key default gen_random_uuid(),
  rider_id uuid not null references public.riders (id) on delete cascade,
  secret_hash text not null,
  created_at timestamptz not null default now(),
  created_by_email text,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  constraint "secrets of riders are unique" unique (secret_hash),
  constraint "a secret is stored as SHA-256 in hexadecimal" check (secret_hash ~ '^[0-9a-f]{64}$')
);

comment on table public.rider_links is 'Links to the page of a rider (/ride/{secret}). One is valid per rider: a new one revokes the others.';

comment on column public.rider_links.expires_at is 'The end of the shift.';

comment on column public.rider_links.revoked_at is 'When staff ended it, or opened another one. Null: not revoked.';

alter table public.rider_links enable row level security;

grant select (id, rider_id, created_at, created_by_email, expires_at, revoked_at) on public.rider_links to authenticated;

create policy "staff read the links of riders" on public.rider_links for select to authenticated using ((select public.may('deliveries')));

create index rider_links_by_rider on public.rider_links (rider_id, created_at desc);

create index rider_links_by_end on public.rider_links (expires_at);

create table private.rider_presses (
  press_key uuid primary key,
  link_id uuid not null references public.rider_links (id) on delete cascade,
  delivery_id uuid not null,
  request_hash text not null,
  outcome jsonb,
  pressed_at timestamptz not null default now()
);

comment on table private.rider_presses is
  'What riders pressed, by the idempotency key of the press, with what was sent and its outcome. Deleted with the link, 30 days after its end.';

alter table private.rider_presses enable row level security;

create index rider_presses_by_link on private.rider_presses (link_id);

create or replace function private.shift_length() returns interval
language sql immutable
return interval '16 hours';

comment on function private.shift_length is 'How long a link of a rider is valid.';

create or replace function private.rider_of_phone(phone text) returns uuid
language plpgsql stable set search_path = '' as $$
begin
  return (
    select r.id from public.riders as r where r.phone = private.normalised_phone(rider_of_phone.phone) and r.is_active
  );
end
$$;

comment on function private.rider_of_phone is 'The active rider with a phone, in any spelling. Null: none.';

create or replace function private.hash_rider_secret(secret text) returns text
language sql immutable
return encode(sha256(convert_to(secret, 'UTF8')), 'hex');

create or replace function private.find_rider_link(secret text) returns public.rider_links
language plpgsql stable set search_path = '' as $$
declare
  found_link public.rider_links;
begin
  if find_rider_link.secret is null or octet_length(find_rider_link.secret) > 64 then
    return null;
  end if;
  select l.* into found_link
  from public.rider_links as l
  join public.riders as r on r.id = l.rider_id and r.is_active
  where l.secret_hash = private.hash_rider_secret(find_rider_link.secret) and l.revoked_at is null and l.expires_at > now();
  return found_link;
end
$$;

comment on function private.find_rider_link is 'The valid link with a secret. Null: it never was one, ended, was revoked, or its rider is inactive.';

create or replace function private.create_rider_link(rider_id uuid, created_by_email text) returns text
language plpgsql set search_path = '' as $$
declare
  -- 144 random bits, as 24 characters of a URL.
  secret constant text := translate(encode(substr(
    sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 1, 18
  ), 'base64'), '+/', '-_');
begin
  -- Their presses go with them.
  delete from public.rider_links as l where l.expires_at < now() - interval '30 days';
  insert into public.rider_links (rider_id, secret_hash, created_by_email, expires_at)
  values (
    create_rider_link.rider_id, private.hash_rider_secret(secret), create_rider_link.created_by_email, now() + private.shift_length()
  );
  return secret;
end
$$;

comment on function private.create_rider_link is 'Stores a new link and returns its secret, which cannot be read again.';

create or replace function public.list_riders() returns table (
  id uuid, name text, phone text, vehicle text, plate text, is_active boolean, last_seen_at timestamptz, updated_at timestamptz,
  open_deliveries integer, link_expires_at timestamptz
)
language plpgsql stable security definer rows 20 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('deliveries');
  return query
    select r.id, r.name, r.phone, r.vehicle, r.plate, r.is_active, r.last_seen_at, r.updated_at,
      (select count(*)::integer from public.deliveries as d where d.rider_id = r.id and private.is_open_delivery(d.delivery_status)),
      (
        select max(l.expires_at) from public.rider_links as l
        where l.rider_id = r.id and l.revoked_at is null and l.expires_at > now()
      )
    from public.riders as r
    order by r.is_active desc, lower(r.name), r.id
    limit 500;
end
$$;

comment on function public.list_riders is
  'For staff: the riders, active ones first, with the number of their open deliveries and the end of their valid link.';

create or replace function public.save_rider(
  name text, phone text, vehicle text, plate text default '', is_active boolean default true,
  rider_id uuid default null, seen_updated_at timestamptz default null
) returns public.riders
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  rider_name text := private.visible_text(save_rider.name);
  number text := private.normalised_phone(save_rider.phone);
  rider_vehicle text := private.visible_text(save_rider.vehicle);
  rider_plate text := coalesce(private.visible_text(save_rider.plate), '');
  saved public.riders;
begin
  perform private.expect_staff('deliveries');
  if rider_name is null then
    perform private.refuse(400, 'rider_name_missing', 'A rider needs a name');
  elsif number is null then
    perform private.refuse(400, 'rider_phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif rider_vehicle is null then
    perform private.refuse(400, 'rider_vehicle_missing', 'A rider needs a vehicle');
  elsif char_length(rider_name) > 80 or char_length(rider_vehicle) > 80 or char_length(rider_plate) > 20
    or private.has_control_characters(rider_name || rider_vehicle || rider_plate)
  then
    perform private.refuse(400, 'rider_too_long', 'Name and vehicle have at most 80 characters, a plate 20, each in one line');
  elsif exists (select from public.riders as r where r.phone = number and r.id is distinct from save_rider.rider_id) then
    perform private.refuse(409, 'rider_phone_taken', 'Another rider has this phone number');
  end if;
  if save_rider.rider_id is null then
    insert into public.riders (name, phone, vehicle, plate, is_active)
    values (rider_name, number, rider_vehicle, rider_plate, coalesce(save_rider.is_active, true))
    returning * into saved;
  else
    update public.riders as r
    set name = rider_name, phone = number, vehicle = rider_vehicle, plate = rider_plate,
        is_active = coalesce(save_rider.is_active, true),
        updated_at = greatest(clock_timestamp(), r.updated_at + interval '1 microsecond')
    where r.id = save_rider.rider_id and r.updated_at is not distinct from save_rider.seen_updated_at
    returning * into saved;
    if not found then
      if exists (select from public.riders as r where r.id = save_rider.rider_id) then
        perform private.refuse(409, 'rider_changed', 'This rider was changed in the meantime. Nothing was saved');
      end if;
      perform private.refuse(404, 'rider_not_found', 'This rider does not exist');
    end if;
  end if;
  if saved.is_active then
    -- Those whose rider was typed before the rider was on the list.
    update public.deliveries as d set rider_id = saved.id
    where private.is_open_delivery(d.delivery_status) and d.rider_id is null
      and d.delivery_phone is not null and private.normalised_phone(d.delivery_phone) = saved.phone;
  else
    update public.rider_links as l set revoked_at = now() where l.rider_id = saved.id and l.revoked_at is null and l.expires_at > now();
  end if;
  return saved;
end
$$;

comment on function public.save_rider is
  'For staff: adds a rider, or changes the one with rider_id if it still is as the caller read it (seen_updated_at). An inactive one loses the link.';

create or replace function public.open_rider_link(rider_id uuid) returns public.rider_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  rider public.riders;
begin
  perform private.expect_staff('deliveries');
  -- Two members who open one at once come one after the other.
  select * into rider from public.riders as r where r.id = open_rider_link.rider_id for no key update;
  if not found then
    perform private.refuse(404, 'rider_not_found', 'This rider does not exist');
  elsif not rider.is_active then
    perform private.refuse(409, 'rider_inactive', 'This rider is not active. Activate the rider first');
  end if;
  update public.rider_links as l set revoked_at = now() where l.rider_id = rider.id and l.revoked_at is null;
  return (
    private.create_rider_link(rider.id, private.email_of((select auth.uid()))), now() + private.shift_length()
  )::public.rider_link;
end
$$;

comment on function public.open_rider_link is
  'For staff: a new link to the page of a rider, valid for one shift. Links that the rider had before end.';

create or replace function public.revoke_rider_link(rider_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  update public.rider_links as l set revoked_at = now()
  where l.rider_id = revoke_rider_link.rider_id and l.revoked_at is null and l.expires_at > now();
end
$$;

comment on function public.revoke_rider_link is 'For staff: ends the link of a rider at once. Repeating it changes nothing.';

create or replace function public.practice_rider(is_practice boolean) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  rider uuid;
begin
  if not practice_rider.is_practice then
    delete from public.riders as r where r.is_practice;
    return null;
  end if;
  -- Safaricom assigns no number that begins with +254100000.
  insert into public.riders (name, phone, vehicle, plate, is_practice)
  values ('Practice rider', '+254100000000', 'Motorbike', 'KMPR 001A', true)
  on conflict (phone) do update set is_active = true
  returning id into rider;
  -- Several processes of the shop have a link each.
  return private.create_rider_link(rider, null);
end
$$;

comment on function public.practice_rider is
  'For the shop itself, at its start: with the M-PESA simulator the secret of a link of the practice rider, else it deletes that rider.';

create or replace function private.draw_proof_code() returns text
language sql volatile set search_path = '' as $$
  -- random() can be predicted from earlier values.
  select lpad((('x' || left(replace(gen_random_uuid()::text, '-', ''), 8))::bit(32)::bigint % 10000)::text, 4, '0');
$$;

comment on function private.draw_proof_code is 'Four random digits.';

-- Execution rights
grant execute on function public.list_riders, public.save_rider, public.open_rider_link, public.revoke_rider_link to authenticated, service_role;

grant execute on function public.practice_rider to service_role;

create index deliveries_open_of_listed_rider on public.deliveries (rider_id)
  where rider_id is not null and delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit');

create index deliveries_done_of_listed_rider on public.deliveries (rider_id, updated_at desc)
  where rider_id is not null and delivery_status in ('delivered', 'failed');

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if not private.is_stated('undoes') and old.delivery_phone is distinct from new.delivery_phone then
    new.rider_id := private.rider_of_phone(new.delivery_phone);
  end if;
  if tg_op = 'INSERT' then
    new.proof_code := private.draw_proof_code();
  end if;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if private.is_stated('undoes') then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(ordered, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(ordered, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (private.is_called_off(ordered) or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is called off.
      new.delivery_status := private.delivery_status_for_order(ordered,
        case when private.is_called_off(ordered) then old.delivery_status else new.delivery_status end, new.delivery_person);
    elsif private.order_status_of_delivery(old.delivery_status) is null and private.is_before_pickup(new.delivery_status)
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif private.is_before_pickup(new.delivery_status) and not private.is_called_off(ordered) then
    new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status <> 'failed' and private.is_called_off(ordered) then
    if ordered.payment_status = 'refunded' then
      perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
    end if;
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  if private.was_picked_up(new.delivery_status) then
    new.ready_at := coalesce(new.ready_at, moment);
  end if;
  if new.delivery_status <> 'failed' then
    new.failure_reason := null;
  elsif private.has_left_shop(ordered.status) then
    new.failures := new.failures + 1;
  end if;
  return new;
end
$$;

create or replace function public.recent_riders() returns table (
  name text, phone text, vehicle text, open_deliveries integer, last_assigned_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('deliveries');
  return query
    with open as materialized (
      select lower(d.delivery_person) as name, count(*)::integer as count
      from (select * from public.deliveries as d where private.is_open_delivery(d.delivery_status) offset 0) as d
      where d.delivery_status <> 'pending' and d.created_at > now() - interval '60 days'
      group by 1
    )
    select * from (
      (
        select r.name, private.readable_phone(r.phone) as phone, concat_ws(', ', r.vehicle, nullif(r.plate, '')),
          (select count(*)::integer from public.deliveries as d where d.rider_id = r.id and private.is_open_delivery(d.delivery_status)),
          (
            select max(newest.updated_at) from (
              (select d.updated_at from public.deliveries as d
                where d.rider_id = r.id and private.is_open_delivery(d.delivery_status)
                order by d.updated_at desc limit 1)
              union all
              (select d.updated_at from public.deliveries as d
                where d.rider_id = r.id and private.has_ended(d.delivery_status)
                order by d.updated_at desc limit 1)
            ) as newest
          ) as last_at
        from public.riders as r where r.is_active
        limit 100
      )
      union all
      (
        select latest.delivery_person, latest.delivery_phone, latest.delivery_vehicle,
          coalesce((select o.count from open as o where o.name = lower(latest.delivery_person)), 0), latest.updated_at
        from private.newest_delivery_of_each_rider(now() - interval '60 days') as latest
        where not exists (select from public.riders as r where r.phone = private.normalised_phone(latest.delivery_phone))
        order by latest.updated_at desc
        limit 20
      )
    ) as known
    order by known.last_at desc nulls last, lower(known.name);
end
$$;

comment on function public.recent_riders is
  'For staff: whom a delivery can be assigned to. The active riders of the list, and those who were typed in the last 60 days, with phone and vehicle of their newest delivery; each with the number of open deliveries, the last one assigned first.';

-- Execution rights
grant execute on function public.assign_delivery, public.recent_riders to authenticated, service_role;

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
    order_id, kind,
    case when member is not null then 'staff' when private.is_stated('by_rider') then 'rider' else default_actor end, member,
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
  'Appends to an order''s timeline. The actor is the staff member, by default the caller, else the rider whose press it is, else default_actor.';

create or replace function private.order_state(order_id uuid) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'status', o.status,
    'cancel_reason', o.cancel_reason,
    'payment_status', o.payment_status,
    'delivery', (
      select jsonb_build_object(
        'delivery_status', d.delivery_status, 'delivery_person', d.delivery_person, 'delivery_phone', d.delivery_phone,
        'delivery_vehicle', d.delivery_vehicle, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time,
        'rider_id', d.rider_id, 'proven_by', d.proven_by, 'taken_by', d.taken_by, 'ready_at', d.ready_at, 'failure_reason', d.failure_reason, 'failures', d.failures
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create or replace function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff('deliveries');
  select * into change from private.status_changes as c
  where c.id = undo_status_change.change_id and c.changed_by is not distinct from (select auth.uid())
  for update;
  if not found or change.undo_until < clock_timestamp() then
    perform private.refuse(409, 'undo_too_late', 'It is too late to undo this. Set the status again instead');
  end if;
  had_delivery := nullif(change.state_before -> 'delivery', 'null');
  perform from public.orders as o where o.id = change.order_id for no key update;
  -- A locked delivery counts as changed, as in set_delivery_status.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  elsif exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_window()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform private.state('undoes');
  -- The delivery first: messages about its order read it.
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        delivery_person = had_delivery ->> 'delivery_person',
        delivery_phone = had_delivery ->> 'delivery_phone',
        delivery_vehicle = had_delivery ->> 'delivery_vehicle',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz,
        rider_id = (had_delivery ->> 'rider_id')::uuid,
        proven_by = had_delivery ->> 'proven_by',
        taken_by = had_delivery ->> 'taken_by',
        ready_at = (had_delivery ->> 'ready_at')::timestamptz,
        failure_reason = had_delivery ->> 'failure_reason',
        failures = coalesce((had_delivery ->> 'failures')::smallint, d.failures)
    where d.order_id = change.order_id;
  end if;
  update public.orders as o
  set status = change.state_before ->> 'status', cancel_reason = change.state_before ->> 'cancel_reason', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  perform private.state('undoes', false);
  perform private.withdraw_messages(change.order_id);
  delete from private.status_changes as c where c.id = change.id;
end
$$;

comment on function public.undo_status_change is
  'For the staff member who made a change: restores the status of order and delivery with its times, and withdraws the message. Refuses after the undo window, once the message was sent, or if the order has changed again.';

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
  former_day date;
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
  former_day := agreed.delivery_day;
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
  -- Another day is another promise, also with cash at the door.
  if agreed.promised_at is not null and agreed.delivery_day is distinct from former_day then
    update public.orders as o set promised_at = private.promise_of(agreed, now()), promised_again_at = null where o.id = agreed.id;
  end if;
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
  'For staff: what they agreed on with the customer of an order outside the promise: its delivery fee in cents, and the day. The order can be paid from then on, waits a day for that, and its customer gets the link. Can be repeated until a payment has begun; the day also afterwards, which then replaces the promise.';

-- Execution rights
grant execute on function public.agree_delivery to authenticated, service_role;

-- The page of a rider: what it shows, and what is pressed there (docs/decisions/riders.md).

create or replace function private.most_code_tries() returns smallint
language sql immutable
return 5::smallint;

comment on function private.most_code_tries is 'Wrong codes after which only staff finish a delivery.';

create or replace function private.asks_for_code(delivery public.deliveries) returns boolean
language sql stable set search_path = '' as $$
  select delivery.proof_code is not null and delivery.rider_id is not null and private.is_open_delivery(delivery.delivery_status)
    and (select s.asks_delivery_code from public.store_settings as s);
$$;

comment on function private.asks_for_code is
  'Whether the rider of an open delivery needs the code of its customer. Riders who are not on the list have no page that asks for it.';

create or replace function private.with_proof(answer jsonb, described public.orders, access_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  select * into delivery from public.deliveries as d where d.order_id = described.id;
  if not found or not private.asks_for_code(delivery) then
    return answer;
  elsif exists (
    select from private.order_keys as k where k.order_id = described.id and k.access_key = left(with_proof.access_key, 64)
  ) then
    return answer || jsonb_build_object('proof_code', delivery.proof_code);
  end if;
  -- The rider knows the customer's phone, and finds the numbers on the slip.
  return answer - 'access_key';
end
$$;

comment on function private.with_proof is
  'The order as its customer sees it, with the code for the rider. Only for callers with the access key: those who gave digits of the phone get neither the code nor the key, because the rider knows the phone.';

create or replace function private.describe_job(delivery public.deliveries) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  ordered public.orders;
  job jsonb;
begin
  select * into ordered from public.orders as o where o.id = delivery.order_id;
  job := jsonb_build_object(
    'id', delivery.id, 'order_number', ordered.order_number, 'status', delivery.delivery_status,
    'items', (
      select jsonb_agg(jsonb_build_object('name', i.product_name, 'quantity', i.quantity) order by i.position)
      from public.order_items as i where i.order_id = ordered.id
    ),
    'first_name', split_part(ordered.customer_name, ' ', 1)
  );
  if not private.is_open_delivery(delivery.delivery_status) then
    return job || jsonb_build_object(
      'done_at', coalesce(delivery.delivery_time, delivery.updated_at),
      'failure', delivery.failure_reason, 'is_cancelled', private.is_called_off(ordered)
    );
  end if;
  return job || jsonb_build_object(
    'name', ordered.customer_name, 'phone', ordered.customer_phone,
    'address', ordered.shipping_address, 'city', ordered.city,
    'customer_notes', ordered.delivery_notes, 'notes', delivery.delivery_notes,
    'cash_cents', case when ordered.payment_status = 'unpaid' then ordered.charge_cents end,
    'asks_code', private.asks_for_code(delivery),
    'tries_left', greatest(private.most_code_tries() - delivery.wrong_codes, 0)
  );
end
$$;

comment on function private.describe_job is
  'A delivery as its rider sees it: no email, tracking number, access key or code. Once it is done, nothing that identifies the customer but the first name.';

create or replace function private.describe_ride(link public.rider_links) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
      'link_id', link.id, 'expires_at', link.expires_at, 'name', r.name, 'now', now(),
      'shop', (
        select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'chat_phone', s.chat_phone)
        from public.store_settings as s
      ),
      'jobs', coalesce((
        select jsonb_agg(private.describe_job(d) order by d.created_at, d.id)
        from (
          select * from public.deliveries as open
          where open.rider_id = r.id and private.is_open_job(open.delivery_status)
          union all
          select * from public.deliveries as done
          where done.rider_id = r.id and private.has_ended(done.delivery_status) and done.updated_at > now() - interval '1 hour'
        ) as d
      ), '[]'::jsonb)
    )
    from public.riders as r where r.id = link.rider_id
  );
end
$$;

create or replace function private.refuse_ended_link() returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  return private.refusal_answer('PT410', format(
    'This link has ended. Ask the shop for a new one: %s', private.contact_numbers()
  ), 'rider_link_ended', '');
end
$$;

create or replace function private.refuse_many_rider_calls(limit_name text) returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  return private.refusal_answer('PT429', format(
    'Too many requests from your network. Please try again in %s, or call the shop on %s',
    private.time_left(refuse_many_rider_calls.limit_name), private.contact_numbers()
  ), 'too_many_rider_calls', '');
end
$$;

create or replace function public.rider_page(secret text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  link public.rider_links;
begin
  if not private.count_call('rider_pages') then
    return private.refuse_many_rider_calls('rider_pages');
  end if;
  link := private.find_rider_link(rider_page.secret);
  if link.id is null then
    return private.refuse_ended_link();
  end if;
  return private.describe_ride(link);
end
$$;

comment on function public.rider_page is
  'The page of the rider whose link has this secret: open deliveries in the order of payment, and for an hour those that are done. Changes nothing but the count of calls.';

create or replace function private.step_rank(delivery_status text) returns integer
language sql immutable
return case delivery_status
  when 'assigned' then 1 when 'picked_up' then 2 when 'in_transit' then 3 when 'delivered' then 4 when 'failed' then 4 else 0
end;

create or replace function private.decide_press(
  link public.rider_links, delivery_id uuid, step text, code text, received_cents integer, is_other_amount boolean, failure_reason text
) returns jsonb
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  delivery public.deliveries;
  ordered public.orders;
  owes_cash boolean;
begin
  if not exists (select from public.deliveries as d where d.id = decide_press.delivery_id and d.rider_id = link.rider_id) then
    return '{"outcome": "not_yours"}';
  end if;
  delivery := private.lock_delivery(decide_press.delivery_id);
  select * into ordered from public.orders as o where o.id = delivery.order_id;
  -- Read again under the lock: staff may have given it to another rider in the meantime.
  if delivery.rider_id is distinct from link.rider_id then
    return '{"outcome": "not_yours"}';
  elsif private.is_called_off(ordered) then
    return jsonb_build_object('outcome', 'cancelled', 'order_number', ordered.order_number);
  elsif private.step_rank(delivery.delivery_status) >= private.step_rank(decide_press.step) then
    return jsonb_build_object(
      'outcome', 'already', 'order_number', ordered.order_number, 'status', delivery.delivery_status, 'failure', delivery.failure_reason
    );
  elsif not private.is_open_job(delivery.delivery_status) then
    return '{"outcome": "not_yours"}';
  end if;
  owes_cash := ordered.payment_status = 'unpaid';
  if decide_press.step = 'delivered' then
    if private.asks_for_code(delivery) then
      if delivery.wrong_codes >= private.most_code_tries() then
        return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
      elsif decide_press.code is null or decide_press.code !~ '^\s*(\d\s*){4}$' then
        return jsonb_build_object('outcome', 'code_missing', 'order_number', ordered.order_number);
      elsif regexp_replace(decide_press.code, '\s', '', 'g') <> delivery.proof_code then
        update public.deliveries as d set wrong_codes = d.wrong_codes + 1 where d.id = delivery.id returning * into delivery;
        if delivery.wrong_codes >= private.most_code_tries() then
          perform private.record_order_event(ordered.id, 'code_locked', 'rider', jsonb_build_object('person', delivery.delivery_person));
          return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
        end if;
        return jsonb_build_object(
          'outcome', 'wrong_code', 'order_number', ordered.order_number, 'tries_left', private.most_code_tries() - delivery.wrong_codes
        );
      end if;
    end if;
    if owes_cash then
      if private.is_whole_shillings(decide_press.received_cents) is not true or decide_press.received_cents > 100000000 then
        return jsonb_build_object('outcome', 'cash_missing', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents);
      elsif decide_press.received_cents <> ordered.charge_cents and decide_press.is_other_amount is not true then
        return jsonb_build_object(
          'outcome', 'cash_differs', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents,
          'received_cents', decide_press.received_cents
        );
      end if;
    end if;
  elsif decide_press.step = 'failed' and coalesce(decide_press.failure_reason, '') not in (
    'nobody_there', 'no_answer', 'address_not_found', 'not_accepted', 'damaged', 'rider_problem', 'other'
  ) then
    return jsonb_build_object('outcome', 'reason_missing', 'order_number', ordered.order_number);
  end if;
  update public.deliveries as d
  set delivery_status = decide_press.step,
      failure_reason = case when decide_press.step = 'failed' then decide_press.failure_reason end,
      proven_by = case when decide_press.step = 'delivered' and private.asks_for_code(delivery) then 'code' else d.proven_by end,
      collected_cents = case when decide_press.step = 'delivered' and owes_cash then decide_press.received_cents else d.collected_cents end
  where d.id = delivery.id;
  if decide_press.step = 'delivered' and owes_cash then
    perform private.record_order_event(ordered.id, 'cash_collected', 'rider', jsonb_build_object(
      'person', delivery.delivery_person, 'received_cents', decide_press.received_cents, 'charge_cents', ordered.charge_cents
    ));
  end if;
  return jsonb_build_object('outcome', 'done', 'order_number', ordered.order_number, 'status', decide_press.step);
end
$$;

comment on function private.decide_press is
  'What a press of a rider does. outcome: done; already (someone has done it or gone further: status, failure); not_yours; cancelled; wrong_code (tries_left); code_locked, code_missing, cash_missing, cash_differs, reason_missing. Only done changes the delivery, a wrong code its count.';

create or replace function public.rider_press(
  secret text, press_key uuid, delivery_id uuid, step text, code text default null, received_cents integer default null,
  is_other_amount boolean default false, failure_reason text default null
) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  link public.rider_links;
  answer jsonb;
  request_hash text;
begin
  if not private.count_call('rider_presses') then
    return private.refuse_many_rider_calls('rider_presses');
  end if;
  link := private.find_rider_link(rider_press.secret);
  if link.id is null then
    return private.refuse_ended_link();
  elsif coalesce(rider_press.step, '') not in ('seen', 'picked_up', 'in_transit', 'delivered', 'failed') then
    perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  elsif rider_press.step <> 'seen' then
    if rider_press.press_key is null or rider_press.delivery_id is null then
      perform private.refuse(400, 'press_incomplete', 'A press has a key and a delivery');
    end if;
    request_hash := encode(sha256(convert_to(concat_ws(
      E'\n', rider_press.delivery_id, rider_press.step, left(rider_press.code, 40), rider_press.received_cents,
      rider_press.is_other_amount, left(rider_press.failure_reason, 40)
    ), 'UTF8')), 'hex');
    -- A repeated press waits for the first one here, and then reads its outcome. The form of a press that was refused can be sent again
    -- with other values.
    insert into private.rider_presses as known (press_key, link_id, delivery_id, request_hash)
    values (rider_press.press_key, link.id, rider_press.delivery_id, request_hash)
    on conflict (press_key) do update set request_hash = excluded.request_hash
    where known.link_id = link.id and known.outcome ->> 'outcome' <> 'done' and known.request_hash <> excluded.request_hash;
    if found then
      perform private.state('by_rider');
      answer := private.decide_press(
        link, rider_press.delivery_id, rider_press.step, left(rider_press.code, 40), rider_press.received_cents,
        rider_press.is_other_amount, rider_press.failure_reason
      );
      perform private.state('by_rider', false);
      update private.rider_presses as p set outcome = answer where p.press_key = rider_press.press_key;
    else
      select p.outcome || '{"is_repeated": true}' into answer
      from private.rider_presses as p where p.press_key = rider_press.press_key and p.link_id = link.id;
      answer := coalesce(answer, '{"outcome": "not_yours"}');
    end if;
  end if;
  update public.riders as r set last_seen_at = now()
  where r.id = link.rider_id and (r.last_seen_at is null or r.last_seen_at < now() - interval '20 seconds');
  return private.describe_ride(link) || case
    when answer is null then '{}' else jsonb_build_object('press', answer || jsonb_build_object('delivery_id', rider_press.delivery_id))
  end;
end
$$;

comment on function public.rider_press is
  'A press on the page of the rider whose link has this secret: a step of a delivery, or seen. Once per press_key: a repeated one answers as the first. Answers as rider_page, with the outcome of private.decide_press as press. code: of the customer. received_cents: cash that the rider got, confirmed by is_other_amount where it is not what the order costs.';

create or replace function public.finish_without_code(delivery_id uuid, reason text) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text;
  finished public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  cause := private.read_reason(finish_without_code.reason, is_required => true);
  finished := private.lock_delivery(finish_without_code.delivery_id);
  if not private.is_open_delivery(finished.delivery_status) or finished.delivery_person is null then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(finished.order_id);
  update public.deliveries as d set delivery_status = 'delivered', proven_by = 'staff' where d.id = finished.id;
  perform private.record_order_event(finished.order_id, 'code_waived', 'staff', jsonb_build_object('note', cause));
  return private.record_status_change(finished.order_id, state_before);
end
$$;

comment on function public.finish_without_code is
  'For staff: a delivery has arrived although its rider could not give the code of the customer, with the reason. Result as in set_order_status.';

-- Execution rights
grant execute on function public.rider_page, public.rider_press to anon, authenticated, service_role;

grant execute on function public.finish_without_code to authenticated, service_role;

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
      when 'late' then is_to_deliver || $sql$ and private.due_at(
        o, (select d.created_at from public.deliveries as d where d.order_id = o.id)
      ) < now()$sql$
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
      when 'late' then $sql$d.delivery_status <> 'delivered'$sql$
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
    checked := checked || (is_to_deliver || ' and private.due_at(o, d.created_at) < now()');
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

create or replace function private.queue_job_for_rider(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  if new.rider_id is null or old.rider_id is not distinct from new.rider_id or not private.is_open_delivery(new.delivery_status) then
    return;
  end if;
  perform private.add_to_outbox(o, 'job_for_rider', r.id::text, 'text', r.phone, now() + private.undo_window())
  from public.orders as o
  cross join public.riders as r
  join public.message_templates as template on template.kind = 'job_for_rider' and template.channel = 'text' and template.is_on
  where o.id = new.order_id and r.id = new.rider_id and not r.is_practice;
exception when others then
  -- The assignment stays valid without its message.
  raise warning 'no text to the rider of order % could be put into the outbox: %', new.order_id, sqlerrm;
end
$$;

comment on function private.queue_job_for_rider is
  'Puts the text with a delivery to its new rider into the outbox, where its template is on. Never fails.';

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when new.kind = 'job_for_rider' then array['order', 'name', 'customer_phone', 'address', 'notes', 'items', 'pay']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'arrival', 'code', 'link', 'receipt_link'
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
  if message_facts.kind = 'job_for_rider' then
    return (select jsonb_build_object(
      'shop', shop, 'tracking_number', o.tracking_number, 'customer_name', o.customer_name, 'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount, 'payment', null, 'failure', null, 'access_key', null,
      'items', array(
        select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        from public.order_items as i where i.order_id = o.id order by i.position
      ),
      'job', jsonb_build_object(
        'order_number', o.order_number, 'phone', o.customer_phone, 'address', concat_ws(', ', o.shipping_address, o.city),
        'notes', concat_ws('; ', o.delivery_notes, (select d.delivery_notes from public.deliveries as d where d.order_id = o.id)),
        'cash_cents', case when o.payment_status = 'unpaid' then o.charge_cents end
      )
    ) from public.orders as o where o.id = message_facts.order_id);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee, 'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'arrival', case when not o.is_collected then coalesce(o.promised_again_at, o.promised_at) end,
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'code', (select d.proof_code from public.deliveries as d where d.order_id = o.id and private.asks_for_code(d)),
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. code: what the customer says to the rider, where it is asked for. job: of a text to a rider. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries and tests: the shop.';

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'delivery_failed' then private.is_in_shop(o.status) and exists (
      select from public.deliveries as d where d.order_id = o.id and d.delivery_status = 'failed'
    )
    when 'order_delayed' then private.is_to_deliver(o.payment_status, o.payment_method) and private.is_open_order(o.status) and o.promised_again_at > now()
    when 'job_for_rider' then exists (
      select from public.deliveries as d where d.order_id = o.id and d.rider_id is not null and private.is_open_delivery(d.delivery_status)
    )
    when 'order_delivered' then o.status = 'delivered'
    -- Its link asks for a payment.
    when 'order_received' then o.status <> 'cancelled'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then private.was_paid(o.payment_status)
    when 'order_payment_held' then o.payment_status = 'needs_review'
    when 'order_payment_corrected' then o.payment_status = 'unpaid' and o.status <> 'cancelled'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

create or replace function private.is_still_true(message public.outbox_messages) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(
    case
    when message.kind = 'job_for_rider' and not exists (
      select from public.deliveries as d where d.order_id = message.order_id and d.rider_id::text = message.event_key
    ) then false
    when message.order_id is not null then private.is_message_true(message.order_id, message.kind)
    else private.is_staff_message_true(message.kind, message.event_key) end, false
  );
$$;

comment on function private.is_still_true is 'Whether a message still reports what is so. False if its order was deleted.';

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
  update public.ratings as r set words = null where r.order_id = any (anonymise_orders.order_ids) and r.words is not null;
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
        'rating', (
          select private.describe_rating(r) || jsonb_build_object('rated_at', r.created_at) from public.ratings as r where r.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m
          -- The recipient of a text to a rider is someone else.
          where m.order_id = o.id and m.kind <> 'job_for_rider' order by m.created_at
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
    select o.id, o.created_at, o.payment_status = 'paid' as is_sold, o.charge_cents, o.charge_cents - o.delivery_fee as drinks_cents, o.is_collected,
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
  ), sold_lines as (
    select i.order_id, i.product_id, i.product_name, i.quantity, i.list_cents, p.drinks_cents - i.all_cents as difference,
      i.list_cents + i.before_cents as until_cents, i.before_cents, i.all_cents
    from placed as p
    -- Lookups by key for each order, with any statistics.
    cross join lateral (
      select i.*, i.quantity::bigint * i.unit_price as list_cents,
        sum(i.quantity::bigint * i.unit_price) over () as all_cents,
        coalesce(sum(i.quantity::bigint * i.unit_price) over (order by i.position, i.id rows between unbounded preceding and 1 preceding), 0) as before_cents
      from public.order_items as i where i.order_id = p.id offset 0
    ) as i
    where p.is_sold
  ), by_drink as (
    -- The discount and the rounding to whole shillings, shared in proportion: each line gets what is due until it, less what is until the one before.
    select (
      i.product_name, max(own.brand), count(distinct i.order_id), sum(i.quantity),
      sum(i.list_cents + coalesce(
        round(i.difference * i.until_cents / nullif(i.all_cents, 0)) - round(i.difference * i.before_cents / nullif(i.all_cents, 0)), 0
      ))::bigint
    )::public.report_drink as line
    from sold_lines as i
    left join lateral (select d.brand from public.products as d where d.id = i.product_id offset 0) as own on true
    group by i.product_name
  ), by_hour as (
    select (h.hour, count(p.id), coalesce(sum(p.charge_cents), 0))::public.report_hour as line, h.hour
    from generate_series(0, 23) as h (hour)
    left join placed as p on p.is_sold and extract(hour from p.created_at at time zone 'Africa/Nairobi') = h.hour
    where exists (select from placed as any_sold where any_sold.is_sold)
    group by h.hour
  ), area_spellings as materialized (
    select p.is_collected, case when not p.is_collected then p.area end as area, count(*) as orders, sum(p.charge_cents) as cents
    from placed as p where p.is_sold
    group by 1, 2
  ), area_sums as (
    select case when s.is_collected then 'Collected at the shop' else (array_agg(s.area order by s.orders desc, s.area))[1] end as area,
      sum(s.orders) as orders, sum(s.cents) as cents
    from area_spellings as s
    group by s.is_collected, private.folded_area(s.area)
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
  -- Constraints run as the caller, who may call no private function.
  if not private.are_opening_hours(new.opening_hours) or not private.are_days_off(new.days_off) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "opening hours and days off are well-formed"',
      constraint = 'opening hours and days off are well-formed';
  end if;
  -- A pause of orders is no edit, so that it does not conflict with a staff member's edit.
  old.orders_pause_reason := new.orders_pause_reason;
  old.orders_paused_until := new.orders_paused_until;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

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

create or replace function private.after_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(old.failures, 0) <> new.failures then
    perform private.count_change(
      null, (private.nairobi_day(now()), 0, 0, 0, new.failures - coalesce(old.failures, 0))::private.day_figures
    );
  end if;
  perform private.record_delivery_events(old, new);
  perform private.queue_job_for_rider(old, new);
  if old.delivery_status is distinct from new.delivery_status and not private.is_stated('undoes') then
    perform private.move_order_with_delivery(old, new);
    perform private.queue_messages_of_delivery(old, new);
    perform private.note_failed_delivery(old, new);
  end if;
  -- Its page names the rider.
  if private.is_with_rider(new.delivery_status)
    and (old.delivery_person, old.delivery_phone) is distinct from (new.delivery_person, new.delivery_phone)
  then
    perform private.notify_order_followers(new.order_id);
  end if;
  return null;
end
$$;

create or replace function private.newly_late_orders() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select o.id
    from public.orders as o
    -- One step in an index for each order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status)
      -- After an outage, orders that have been late for longer are no news.
      and o.promised_at < now() and o.promised_at > now() - interval '1 hour'
      and private.is_open_delivery(d.delivery_status) and private.work_step(o, d) is not null
      and not exists (select from public.notices as n where n.kind = 'late_order' and n.event_key = o.id::text)
    limit 500;
end
$$;

comment on function private.newly_late_orders is 'Paid orders that are late since at most an hour and have no notice of it.';

create or replace function private.delays_to_announce() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select o.id
    from public.orders as o
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status)
      and o.promised_at < now() and o.promised_at > now() - interval '1 hour'
      and o.promised_again_at is null and private.is_to_deliver(o.payment_status, o.payment_method) and not o.is_collected and o.delivery_day is null
      -- A rider who left half an hour ago or less is about to arrive.
      and (private.is_before_pickup(d.delivery_status) or (private.is_open_delivery(d.delivery_status) and d.pickup_time < now() - interval '30 minutes'))
      and (select s.announces_delays from public.store_settings as s)
    order by o.promised_at
    limit 500;
end
$$;

comment on function private.delays_to_announce is
  'Orders to deliver that are late since at most an hour, whose customer was not informed of a new time. Not those that failed or left the shop within half an hour, that the customer collects, or whose day was agreed on.';

create or replace function private.announce_delays() returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
declare
  late public.orders;
  way interval;
begin
  for late in
    select o.* from public.orders as o
    where o.id in (select private.delays_to_announce())
    order by o.id
    for no key update skip locked
  loop
    -- Another process may have informed the customer before the lock.
    continue when late.promised_again_at is not null;
    way := case when private.is_on_the_way(late.status) then make_interval(mins => coalesce(private.way_minutes(late.area_id), 20)) end;
    update public.orders as o
    -- In steps of five minutes, as a person would say it.
    set promised_again_at = date_bin('5 minutes', coalesce(now() + way, private.promise_for(late.area_id, now()), now() + interval '1 hour')
      + interval '4 minutes 59 seconds', timestamptz '2026-01-01')
    where o.id = late.id;
    perform private.queue_order_messages(late.id, 'order_delayed');
    perform private.notify_order_followers(late.id);
  end loop;
end
$$;

comment on function private.announce_delays is
  'Informs the customers of late orders of a new time (promised_again_at), each once by text and mail.';

create or replace function public.lease_pushes(at_most integer default 20) returns table (
  id bigint, lease uuid, endpoint text, p256dh text, auth_secret text, notice_id uuid, kind text, event_key text, order_id uuid,
  seconds_to_live integer, facts jsonb
)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  due bigint[];
begin
  perform private.add_notice('late_order', late.order_id::text, late.order_id) from private.newly_late_orders() as late (order_id);
  perform private.announce_delays();
  due := array(
    select q.id from private.push_queue as q
    where q.due_at <= now()
    order by q.due_at
    limit least(greatest(coalesce(lease_pushes.at_most, 20), 1), 100)
    for update skip locked
  );
  delete from private.push_queue as q
  using public.notices as n, public.push_subscriptions as s
  where q.id = any (due) and n.id = q.notice_id and s.id = q.subscription_id and not (
    n.created_at > now() - private.notice_lifetime(n.kind) and private.is_notice_waiting(n)
    and exists (
      select from public.admin_profiles as profile
      join auth.users as account on account.id = profile.user_id
      where profile.user_id = s.user_id and profile.is_active and private.notice_area(n.kind) = any (private.areas_of(profile.role))
        and account.deleted_at is null
        and (account.banned_until is null or account.banned_until <= now())
    )
  );
  return query
  with taken as (
    update private.push_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid(), attempts = q.attempts + 1
    where q.id = any (due)
    returning q.id, q.lease, q.notice_id, q.subscription_id
  )
  select taken.id, taken.lease, s.endpoint, s.p256dh, s.auth_secret, n.id, n.kind, n.event_key, n.order_id,
    greatest(60, extract(epoch from n.created_at + private.notice_lifetime(n.kind) - now()))::integer, private.notice_facts(n)
  from taken
  join public.push_subscriptions as s on s.id = taken.subscription_id
  join public.notices as n on n.id = taken.notice_id;
end
$$;

comment on function public.lease_pushes is
  'Adds notices of orders that are late now. Then leases due pushes for a minute, without those whose notice was dealt with, is too old or is for a member who is no longer active or whose role lacks its area. A push whose process ended is leased again; its device replaces the earlier notification. seconds_to_live: how long the push service may retain it. facts: see notice_facts.';

grant execute on function public.read_push_keys, public.store_push_keys, public.lease_pushes, public.finish_push to service_role;

create trigger delivery_areas_by_staff before insert or update or delete on public.delivery_areas for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

-- What the shop's processes ask: which jobs have work, and whether the database fits their version

create or replace function private.is_job_due(job text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that do or lease the work, such as lease_payment_queries.
  return case is_job_due.job
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or private.is_open_attempt(p.status)
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where private.is_unsent_refund(r.status)
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    when 'expire-reservations' then exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
    ) or exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
    ) or exists (
      select from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
    ) or exists (select from public.payments as p where p.status = 'review')
    when 'send-messages' then exists (
      select from private.outbox_queue as q where q.channel = 'mail' and q.due_at <= now()
    ) or exists (
      select from private.outbox_queue as q where q.channel = 'text' and q.due_at <= now()
    ) or exists (
      select from public.outbox_messages as m where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    )
    when 'send-notices' then exists (select from private.push_queue as q where q.due_at <= now())
      or exists (select from private.newly_late_orders())
      or exists (select from private.delays_to_announce())
      or not exists (select from private.push_keys)
    else false
  end;
end
$$;

comment on function private.is_job_due is 'Whether a job of the shop''s processes has work now.';

alter table public.deliveries add constraint deliveries_rider_id_fkey FOREIGN KEY (rider_id) REFERENCES riders(id) ON DELETE SET NULL;

alter table public.orders add constraint orders_area_id_fkey FOREIGN KEY (area_id) REFERENCES delivery_areas(id);

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

create or replace function public.work_queue() returns setof public.deliveries
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query
    select d.*
    from public.orders as o
    -- One step in an index for each open order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status) and private.is_to_deliver(o.payment_status, o.payment_method)
    order by private.due_at(o, d.created_at), d.id
    limit 500;
end
$$;

comment on function public.work_queue is
  'For staff: the deliveries of all orders that are paid, or paid in cash at the door, and are neither delivered nor cancelled, the earliest promise first (private.due_at), at most 500.';

create table public.ratings (
  order_id uuid primary key references public.orders (id) on delete cascade,
  stars smallint not null,
  words text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a rating has one to five stars" check (stars between 1 and 5),
  constraint "words of a rating are short" check (char_length(words) <= 300)
);

comment on table public.ratings is 'What customers think of a delivered order. One per order, changeable for a day, for staff alone.';

comment on column public.ratings.words is 'Null: none, or erased with the other details of the order.';

alter table public.ratings enable row level security;

grant select on public.ratings to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (order_id) on public.ratings to anon;

create policy "staff read every rating, the counter those of recent orders" on public.ratings
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

alter publication supabase_realtime add table public.ratings;

create or replace function private.may_rate(ordered public.orders) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return ordered.status = 'delivered'
    and coalesce(
      (select d.delivery_time from public.deliveries as d where d.order_id = ordered.id), ordered.updated_at
    ) > now() - interval '30 days'
    and not exists (select from public.ratings as r where r.order_id = ordered.id and r.created_at <= now() - interval '1 day');
end
$$;

comment on function private.may_rate is
  'Whether the customer can rate an order, or change the rating: within 30 days of the delivery, and a day after the first rating.';

create or replace function private.describe_rating(rated public.ratings) returns jsonb
language sql stable
return jsonb_build_object('stars', rated.stars, 'words', rated.words);

create or replace function private.describe_rider(delivery public.deliveries) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return jsonb_build_object(
    'first_name', split_part(delivery.delivery_person, ' ', 1),
    'plate', coalesce(
      (select nullif(r.plate, '') from public.riders as r where r.id = delivery.rider_id), delivery.delivery_vehicle
    ),
    'phone', private.normalised_phone(delivery.delivery_phone)
  );
end
$$;

comment on function private.describe_rider is
  'What the customer sees of the rider who is on the way: first name, plate (or the vehicle, where no plate is known) and phone. phone null: staff typed no Kenyan number.';

create or replace function public.rate_order(order_id uuid, access_key text, stars integer, words text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  written text;
  ordered public.orders;
  rated public.ratings;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('ratings');
  refusal_details text;
  refusal_hint text;
begin
  if not is_within_limit then
    perform private.refuse(429, 'too_many_ratings', format(
      'Too many ratings from your network. Please try again in %s', private.time_left('ratings')
    ));
  elsif rate_order.stars is null or rate_order.stars not between 1 and 5 then
    perform private.refuse(400, 'rating_invalid', 'A rating has one to five stars');
  elsif octet_length(rate_order.words) > 4000 then
    perform private.refuse(400, 'rating_too_long', 'The words are longer than 300 characters');
  end if;
  -- Line feeds stay; other control characters become spaces.
  written := private.visible_text(regexp_replace(rate_order.words, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g'));
  if char_length(written) > 300 then
    perform private.refuse(400, 'rating_too_long', 'The words are longer than 300 characters');
  end if;
  -- Serialises this with an erasure of the order.
  select o.* into ordered
  from public.orders as o
  where o.id = rate_order.order_id and exists (
    select from private.order_keys as k where k.order_id = o.id and k.access_key = left(rate_order.access_key, 64)
  )
  for share;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.may_rate(ordered) then
    perform private.refuse(409, 'rating_closed', 'This order cannot be rated now');
  end if;
  insert into public.ratings as r (order_id, stars, words) values (ordered.id, rate_order.stars, written)
  on conflict on constraint ratings_pkey do update set stars = excluded.stars, words = excluded.words, updated_at = now()
  returning * into rated;
  return private.describe_rating(rated);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.rate_order is
  'A customer rates a delivered order with one to five stars and optional words, or changes the rating within a day. Proof: the order''s access key. Answers with the rating.';

grant execute on function public.rate_order to anon, authenticated, service_role;

alter publication supabase_realtime add table public.delivery_areas;

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_delayed', 'text', null, '{shop}: sorry, {order} takes longer than we promised. It arrives by {arrival}. Questions? {shop_phone}'),
  ('order_delayed', 'mail', 'Your order {order} takes a little longer', $text$Habari {name},

We are sorry: your order {order} takes longer than we promised. It arrives by {arrival}.

[Follow it here: {link}

]Questions? Call us at {shop_phone}.

{shop}
{shop_email}$text$)
) as written (kind, channel, subject, body);

insert into private.limits (name, allowed, within, per_paid_order) values
  ('rider_pages', 1200, '10 minutes', 0),
  ('rider_presses', 300, '10 minutes', 0),
  ('ratings', 60, '10 minutes', 0);

-- Words of the owner stay.
update public.message_templates as t
set body = case when t.body = t.default_body then worded.body else t.body end, default_body = worded.body
from (
  select m.id, case m.channel
    when 'text' then replace(m.default_body, '{cash}. ]Follow', '{cash}. ][Code for the rider: {code}. ]Follow')
    else replace(m.default_body, '{cash}.]', E'{cash}.][\n\nThe rider asks for this code: {code}]')
  end as body
  from public.message_templates as m where m.kind = 'order_on_its_way'
  union all
  select m.id, case m.channel
    when 'text' then '{shop}: {paid} paid[, M-PESA {receipt}]. {order}[ arrives by {arrival}]: {link}'
    else replace(m.default_body, 'Follow your order here:', E'[It arrives by {arrival}.\n\n]Follow your order here:')
  end
  from public.message_templates as m where m.kind = 'order_paid'
  union all
  select m.id, replace(m.default_body, 'Pay or follow your order here:', E'[It arrives by {arrival}.\n\n]Pay or follow your order here:')
  from public.message_templates as m where m.kind = 'order_received' and m.channel = 'mail'
) as worded
where t.id = worded.id and worded.body <> t.default_body;

-- Off, because each text costs: the page of a rider shows the same.
insert into public.message_templates (kind, channel, body, default_body, is_on)
select 'job_for_rider', 'text', body, body, false
from (values (
  '{order} for {name}, {customer_phone}: {address}[. Note: {notes}]. {items}. {pay}. {shop}'
)) as template (body);

alter table public.orders
  add column cancel_requested_at timestamptz,
  add column cancel_declined_at timestamptz,
  add column cancel_answer text;
comment on column public.orders.cancel_requested_at is
  'When the customer asked to cancel the paid order (cancel_own_order). Null: never, or the customer keeps it.';
comment on column public.orders.cancel_declined_at is 'When staff declined that. Null: they have not.';
comment on column public.orders.cancel_answer is 'Why staff declined it. The customer reads it.';
comment on column public.orders.cancel_reason is
  'Why an order is cancelled: its time for payment ended, its money was sent back before it left the shop, the shop decided so, or the customer did, or asked for it. Null for other statuses, and where nobody said why.';

create type public.delivery_line as (
  name text, delivered bigint, on_time bigint, median_minutes integer, p90_minutes integer, failures bigint, ratings bigint,
  average_stars numeric
);
create type public.delivery_failures as (reason text, failures bigint);
create type public.delivery_report as (
  total public.delivery_line, areas public.delivery_line[], hours public.delivery_line[], riders public.delivery_line[],
  reasons public.delivery_failures[]
);
comment on type public.delivery_report is
  'Deliveries of orders that were paid, or whose customers chose cash at the door, in a span of days in Nairobi; not of orders that are collected, nor of those that wait. on_time: of the delivered ones, by the first promise (private.due_at). Minutes: from the payment, within opening hours as in the promise; without orders whose day was agreed on. hours: of the payment. failures: how often goods came back. average_stars: of the ratings, with one decimal; null without any.';

insert into private.limits (name, allowed, within, per_paid_order) values
  ('cancellations', 60, '10 minutes', 1),
  ('cancellations_of_order', 6, '1 hour', 0);

alter table public.notices drop constraint "a kind of notice is known";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.orders drop constraint "a reason for cancelling is known";

drop function private.mark_order_paid(uuid);

drop function private.open_times(store_settings,timestamp with time zone);

revoke all on public.notices from anon, authenticated;

alter table public.notices add constraint "a kind of notice is known" CHECK ((kind = ANY (ARRAY['paid_order'::text, 'late_order'::text, 'failed_delivery'::text, 'cancel_request'::text, 'refund_to_approve'::text, 'inquiry'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'delivery_agreed'::text, 'items_changed'::text, 'status_changed'::text, 'cancel_requested'::text, 'cancel_declined'::text, 'cancel_withdrawn'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'cash_collected'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'code_locked'::text, 'code_waived'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.orders add constraint "a reason for cancelling is known" CHECK ((cancel_reason = ANY (ARRAY['not_paid_in_time'::text, 'refunded'::text, 'by_shop'::text, 'by_customer'::text])));

alter table public.orders add constraint "only a request to cancel is declined, with a reason" CHECK ((((cancel_declined_at IS NULL) = (cancel_answer IS NULL)) AND ((cancel_requested_at IS NOT NULL) OR (cancel_declined_at IS NULL))));

create or replace function private.open_times(settings public.store_settings, since timestamptz, days integer default 61) returns tstzmultirange
language plpgsql stable set search_path = '' as $$
begin
  -- From the day before, whose last span can end after midnight.
  return (
    select range_agg(tstzrange(
      (day.day + opening.from_time) at time zone 'Africa/Nairobi',
      (day.day + opening.to_time + case when opening.to_time <= opening.from_time then interval '1 day' else interval '0' end)
        at time zone 'Africa/Nairobi'
    ))
    from (
      select (since at time zone 'Africa/Nairobi')::date::timestamp + make_interval(days => n.n - 1) as day
      from generate_series(0, open_times.days) as n (n)
    ) as day
    join lateral (
      select (span.span ->> 'from')::interval as from_time, (span.span ->> 'to')::interval as to_time
      from jsonb_array_elements(settings.opening_hours) as span (span)
      where (span.span ->> 'day')::integer = extract(isodow from day.day)
      union all
      select interval '0', interval '24 hours' where settings.opening_hours = '[]'
    ) as opening on true
    where not settings.days_off @> jsonb_build_array(jsonb_build_object('day', to_char(day.day, 'YYYY-MM-DD')))
  );
end
$$;

comment on function private.open_times is
  'The times in which the shop delivers in the days after a moment. Default: 60 whole days. A span that begins before a day off ends as on any other day.';

create or replace function private.minutes_taken(open_times tstzmultirange, since timestamptz, until timestamptz) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return ceil(extract(epoch from case
    when open_times is null then until - since
    else (select sum(upper(span) - lower(span)) from unnest(open_times * tstzmultirange(tstzrange(since, until))) as span)
  end) / 60);
end
$$;

comment on function private.minutes_taken is 'Minutes between two moments within open times. Null: always open.';

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
  return private.with_proof(private.describe_order(opened.found_order, opened.is_open), opened.found_order, track_order.access_key);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time, by_shop or by_customer. cancel_requested: the customer asked to cancel the paid order, and staff have not answered. awaits_agreement: fee and day are to be agreed on. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. proof_code: what the customer says to the rider, with the access key only; while it is asked for, digits of the phone do not show the access key. promised_at, promised_again_at, arrives_at: when it arrives, while it is open. steps: when it was paid, picked up and delivered. With proof also rider (who is on the way with it), rating and may_rate. Null: no such order, or several.';

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
  if described.promised_at is not null and private.is_open_order(described.status) and not described.is_collected then
    answer := answer || jsonb_strip_nulls(jsonb_build_object(
      'promised_at', described.promised_at, 'promised_again_at', described.promised_again_at,
      'arrives_at', case when private.is_on_the_way(described.status) then (
        select d.pickup_time + make_interval(mins => private.way_minutes(described.area_id))
        from public.deliveries as d where d.order_id = described.id
      ) end
    ));
  end if;
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
  if private.has_cancel_request(described) then
    answer := answer || '{"cancel_requested": true}';
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
  answer := answer || jsonb_strip_nulls(jsonb_build_object(
    'way_to_cancel', private.way_to_cancel(described),
    'cancel_answer', case when private.is_open_order(described.status) then described.cancel_answer end
  ));
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads; while it is open also when it arrives (promised_at, promised_again_at, and once on the way arrives_at). With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded), part_refunded_cents (what went back in part), credit_cents (what is owed for another order), part_paid_cents, way_to_cancel (private.way_to_cancel) and cancel_answer (why staff declined to cancel it).';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.mark_order_paid(order_id uuid, is_decided boolean default false) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review, and so does money that a customer sent after cancelling; such an order holds no units.
  if (paid_order.cancel_reason = 'by_customer' and not mark_order_paid.is_decided) or (paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  )) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id, 'under_review');
    end if;
    -- Of an order that was to be paid in cash.
    delete from public.deliveries as d where d.order_id = paid_order.id;
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
  perform private.set_order_paid(paid_order, 'mpesa');
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, too few units left, or cancelled by its customer, unless staff have decided to deliver it (is_decided). Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function private.request_refund_of(payment_id uuid, reason text, member uuid) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  paid public.payments := private.lock_refundable_payment(request_refund_of.payment_id);
  reported public.mpesa_transactions;
begin
  if paid.method = 'credit' then
    return private.return_to_credit(paid, private.read_reason(request_refund_of.reason, is_required => true), member);
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
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund_of.reason, member);
end
$$;

comment on function private.request_refund_of is
  'Requests the full refund by M-PESA of a payment; what was paid from credit is credit again at once. Refuses what can only go back by hand.';

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  return private.request_refund_of(request_refund.payment_id, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure. What was paid from credit is credit again at once.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

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
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled',
        cancel_reason = case when reopened.cancel_reason = 'by_customer' then 'by_customer' else 'not_paid_in_time' end,
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

-- An amount that differs from the charge: one decision about the money and the order

create or replace function private.deliver_reviewed_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  if private.mark_order_paid(deliver_reviewed_order.order_id, is_decided => true) <> 'paid' then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;

comment on function private.deliver_reviewed_order is
  'Makes an order that needs review paid with the money that came. Refuses if its units are sold. The caller has locked the order.';

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if not private.is_stated('undoes') and old.delivery_phone is distinct from new.delivery_phone then
    new.rider_id := private.rider_of_phone(new.delivery_phone);
  end if;
  if tg_op = 'INSERT' then
    new.proof_code := private.draw_proof_code();
  end if;
  if tg_op = 'UPDATE' and not private.is_stated('undoes') and private.has_cancel_request(ordered) and (
    (new.taken_by is not null and old.taken_by is null) or (new.ready_at is not null and old.ready_at is null)
    or (private.was_picked_up(new.delivery_status) and not private.was_picked_up(old.delivery_status))
  ) then
    perform private.refuse_before_answer();
  end if;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if private.is_stated('undoes') then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(ordered, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(ordered, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (private.is_called_off(ordered) or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is called off.
      new.delivery_status := private.delivery_status_for_order(ordered,
        case when private.is_called_off(ordered) then old.delivery_status else new.delivery_status end, new.delivery_person);
    elsif private.order_status_of_delivery(old.delivery_status) is null and private.is_before_pickup(new.delivery_status)
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif private.is_before_pickup(new.delivery_status) and not private.is_called_off(ordered) then
    new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status <> 'failed' and private.is_called_off(ordered) then
    if ordered.payment_status = 'refunded' then
      perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
    end if;
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  if private.was_picked_up(new.delivery_status) then
    new.ready_at := coalesce(new.ready_at, moment);
  end if;
  if new.delivery_status <> 'failed' then
    new.failure_reason := null;
  elsif private.has_left_shop(ordered.status) then
    new.failures := new.failures + 1;
  end if;
  return new;
end
$$;

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed',
      case when private.has_money(new.payment_status) and new.payment_method = 'mpesa' then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
      new.id, 'status_changed', case when new.cancel_reason = 'by_customer' and old.cancel_reason is null then 'customer' else 'shop' end,
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          when private.is_stated('follows_delivery') then 'delivery'
          else nullif(new.cancel_reason, 'by_shop')
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

create or replace function private.order_state(order_id uuid) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'status', o.status,
    'cancel_reason', o.cancel_reason,
    'cancel_requested_at', o.cancel_requested_at,
    'payment_status', o.payment_status,
    'delivery', (
      select jsonb_build_object(
        'delivery_status', d.delivery_status, 'delivery_person', d.delivery_person, 'delivery_phone', d.delivery_phone,
        'delivery_vehicle', d.delivery_vehicle, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time,
        'rider_id', d.rider_id, 'proven_by', d.proven_by, 'taken_by', d.taken_by, 'ready_at', d.ready_at, 'failure_reason', d.failure_reason, 'failures', d.failures
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create or replace function private.decide_press(
  link public.rider_links, delivery_id uuid, step text, code text, received_cents integer, is_other_amount boolean, failure_reason text
) returns jsonb
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  delivery public.deliveries;
  ordered public.orders;
  owes_cash boolean;
begin
  if not exists (select from public.deliveries as d where d.id = decide_press.delivery_id and d.rider_id = link.rider_id) then
    return '{"outcome": "not_yours"}';
  end if;
  delivery := private.lock_delivery(decide_press.delivery_id);
  select * into ordered from public.orders as o where o.id = delivery.order_id;
  -- Read again under the lock: staff may have given it to another rider in the meantime.
  if delivery.rider_id is distinct from link.rider_id then
    return '{"outcome": "not_yours"}';
  elsif private.is_called_off(ordered) then
    return jsonb_build_object('outcome', 'cancelled', 'order_number', ordered.order_number);
  elsif private.has_cancel_request(ordered) then
    return jsonb_build_object('outcome', 'asked_to_cancel', 'order_number', ordered.order_number);
  elsif private.step_rank(delivery.delivery_status) >= private.step_rank(decide_press.step) then
    return jsonb_build_object(
      'outcome', 'already', 'order_number', ordered.order_number, 'status', delivery.delivery_status, 'failure', delivery.failure_reason
    );
  elsif not private.is_open_job(delivery.delivery_status) then
    return '{"outcome": "not_yours"}';
  end if;
  owes_cash := ordered.payment_status = 'unpaid';
  if decide_press.step = 'delivered' then
    if private.asks_for_code(delivery) then
      if delivery.wrong_codes >= private.most_code_tries() then
        return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
      elsif decide_press.code is null or decide_press.code !~ '^\s*(\d\s*){4}$' then
        return jsonb_build_object('outcome', 'code_missing', 'order_number', ordered.order_number);
      elsif regexp_replace(decide_press.code, '\s', '', 'g') <> delivery.proof_code then
        update public.deliveries as d set wrong_codes = d.wrong_codes + 1 where d.id = delivery.id returning * into delivery;
        if delivery.wrong_codes >= private.most_code_tries() then
          perform private.record_order_event(ordered.id, 'code_locked', 'rider', jsonb_build_object('person', delivery.delivery_person));
          return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
        end if;
        return jsonb_build_object(
          'outcome', 'wrong_code', 'order_number', ordered.order_number, 'tries_left', private.most_code_tries() - delivery.wrong_codes
        );
      end if;
    end if;
    if owes_cash then
      if private.is_whole_shillings(decide_press.received_cents) is not true or decide_press.received_cents > 100000000 then
        return jsonb_build_object('outcome', 'cash_missing', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents);
      elsif decide_press.received_cents <> ordered.charge_cents and decide_press.is_other_amount is not true then
        return jsonb_build_object(
          'outcome', 'cash_differs', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents,
          'received_cents', decide_press.received_cents
        );
      end if;
    end if;
  elsif decide_press.step = 'failed' and coalesce(decide_press.failure_reason, '') not in (
    'nobody_there', 'no_answer', 'address_not_found', 'not_accepted', 'damaged', 'rider_problem', 'other'
  ) then
    return jsonb_build_object('outcome', 'reason_missing', 'order_number', ordered.order_number);
  end if;
  update public.deliveries as d
  set delivery_status = decide_press.step,
      failure_reason = case when decide_press.step = 'failed' then decide_press.failure_reason end,
      proven_by = case when decide_press.step = 'delivered' and private.asks_for_code(delivery) then 'code' else d.proven_by end,
      collected_cents = case when decide_press.step = 'delivered' and owes_cash then decide_press.received_cents else d.collected_cents end
  where d.id = delivery.id;
  if decide_press.step = 'delivered' and owes_cash then
    perform private.record_order_event(ordered.id, 'cash_collected', 'rider', jsonb_build_object(
      'person', delivery.delivery_person, 'received_cents', decide_press.received_cents, 'charge_cents', ordered.charge_cents
    ));
  end if;
  return jsonb_build_object('outcome', 'done', 'order_number', ordered.order_number, 'status', decide_press.step);
end
$$;

comment on function private.decide_press is
  'What a press of a rider does. outcome: done; already (someone has done it or gone further: status, failure); not_yours; cancelled; asked_to_cancel (staff have not answered yet); wrong_code (tries_left); code_locked, code_missing, cash_missing, cash_differs, reason_missing. Only done changes the delivery, a wrong code its count.';

-- Customers cancel their orders: an unpaid one at once, a paid one by a request that staff answer (docs/decisions/cancelling.md).

create or replace function private.has_cancel_request(o public.orders) returns boolean
language sql immutable
return o.cancel_requested_at is not null and o.cancel_declined_at is null and o.payment_status = 'paid' and private.is_open_order(o.status);

comment on function private.has_cancel_request is 'Whether the customer asked to cancel a paid order, and staff have not answered.';

create or replace function private.refuse_before_answer() returns void
language plpgsql stable set search_path = '' as $$
begin
  perform private.refuse(409, 'cancel_requested', 'The customer asked to cancel this order. Answer that first');
end
$$;

comment on function private.refuse_before_answer is 'Refuses a step of an order that its customer asked to cancel.';

create or replace function private.way_to_cancel(ordered public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  if ordered.payment_status = 'unpaid' and ordered.payment_method <> 'cash' then
    return case when ordered.status = 'pending' then 'at_once' end;
  elsif not private.is_in_shop(ordered.status) or ordered.cancel_requested_at is not null then
    return null;
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  return case
    when private.work_step(ordered, delivery) is distinct from 'prepare' or private.was_picked_up(delivery.delivery_status) then null
    when ordered.payment_status = 'unpaid' then 'at_once'
    else 'by_request'
  end;
end
$$;

comment on function private.way_to_cancel is
  'How a customer cancels an order. at_once: it is unpaid. by_request: it is paid, and nobody prepares it yet. Null: only staff cancel it, or were asked to already.';

create or replace function private.lock_own_order(
  tracking_number text, access_key text, is_within_limit boolean, is_within_limit_of_order boolean, out own public.orders
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- The lock on the order's row serialises this with its payments, its expiry and its steps.
  select o.* into own from public.orders as o
  join private.order_keys as k on k.order_id = o.id
  where k.access_key = left(lock_own_order.access_key, 64)
    and o.tracking_number = upper(trim(left(lock_own_order.tracking_number, 40)))
  for no key update of o;
  -- Customers who paid before are served even while a stranger uses up the limit of their common network.
  if not (is_within_limit or (own.id is not null and private.has_paid(own.customer_phone)))
    or not is_within_limit_of_order
  then
    perform private.refuse(429, 'too_many_cancellations', format(
      'Too many requests to cancel. Please try again in %s, or call or WhatsApp us on %s',
      private.time_left(case when is_within_limit then 'cancellations_of_order' else 'cancellations' end), private.contact_numbers()
    ));
  elsif own.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
end
$$;

comment on function private.lock_own_order is
  'Locks the order of a customer, by its tracking number and its access key; digits of the phone are no proof here. Refuses calls above the limits, which the caller has counted.';

create or replace function public.cancel_own_order(tracking_number text, access_key text, expected_payment_status text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cancellations');
  is_within_limit_of_order boolean := private.count_call('cancellations_of_order', left(cancel_own_order.access_key, 64));
  own public.orders;
  way text;
  refusal_details text;
  refusal_hint text;
begin
  own := private.lock_own_order(cancel_own_order.tracking_number, cancel_own_order.access_key, is_within_limit, is_within_limit_of_order);
  -- The customer confirmed what happens to an order in this state.
  if own.payment_status is distinct from cancel_own_order.expected_payment_status then
    perform private.refuse(409, 'payment_arrived', 'Your payment has changed in the meantime. Please look at your order again');
  elsif own.status = 'cancelled' or private.has_cancel_request(own) then
    return private.order_facts(own, true);
  end if;
  way := private.way_to_cancel(own);
  if way is null then
    perform private.refuse(409, 'cancel_too_late', format(
      'This order cannot be cancelled here any more. Please call or WhatsApp us on %s', private.contact_numbers()
    ));
  elsif way = 'by_request' then
    update public.orders as o set cancel_requested_at = now(), updated_at = now() where o.id = own.id returning * into own;
    perform private.record_order_event(own.id, 'cancel_requested', 'customer');
    perform private.notify_order_followers(own.id);
    perform private.add_notice('cancel_request', concat_ws(' ', own.id, extract(epoch from own.cancel_requested_at)), own.id);
    return private.order_facts(own, true);
  end if;
  if own.reserved_until is not null then
    perform private.return_units(own.id, 'cancelled');
  end if;
  -- Money of an open prompt that arrives from here on needs review (private.mark_order_paid): staff send it back.
  update public.orders as o
  set status = 'cancelled', cancel_reason = 'by_customer', reserved_until = null, expires_at = null, updated_at = now()
  where o.id = own.id
  returning * into own;
  return private.order_facts(own, true);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.cancel_own_order is
  'A customer cancels an order. Proof: its access key. An unpaid one ends at once, and its units return; for a paid one that nobody prepares yet, staff are asked. Answers as orders_by_access_key. Refuses if it has another payment status than the customer saw.';

create or replace function public.keep_own_order(tracking_number text, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cancellations');
  is_within_limit_of_order boolean := private.count_call('cancellations_of_order', left(keep_own_order.access_key, 64));
  own public.orders;
  refusal_details text;
  refusal_hint text;
begin
  own := private.lock_own_order(keep_own_order.tracking_number, keep_own_order.access_key, is_within_limit, is_within_limit_of_order);
  if private.has_cancel_request(own) then
    update public.orders as o set cancel_requested_at = null, updated_at = now() where o.id = own.id returning * into own;
    perform private.record_order_event(own.id, 'cancel_withdrawn', 'customer');
    perform private.notify_order_followers(own.id);
  elsif own.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  return private.order_facts(own, true);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.keep_own_order is
  'A customer keeps the paid order that staff were asked to cancel. Proof and answer as cancel_own_order. Repeating it changes nothing.';

create or replace function private.lock_requested_order(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  requested public.orders;
begin
  select * into requested from public.orders as o where o.id = lock_requested_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.has_cancel_request(requested) then
    perform private.refuse(409, 'cancel_answered', 'This request was answered or withdrawn in the meantime. Nothing was changed');
  end if;
  return requested;
end
$$;

comment on function private.lock_requested_order is 'Locks an order that its customer asked to cancel. Refuses others.';

create or replace function public.grant_cancel_request(order_id uuid, sends_back boolean default true) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  granted public.orders := private.lock_requested_order(grant_cancel_request.order_id);
  due uuid[];
  payment_id uuid;
  refund public.refunds;
  outcome text := 'sent';
begin
  update public.orders as o set status = 'cancelled', cancel_reason = 'by_customer', updated_at = now() where o.id = granted.id;
  due := array(
    select p.id from public.payments as p
    where p.order_id = granted.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    order by p.id
  );
  foreach payment_id in array due loop
    if not grant_cancel_request.sends_back then
      return 'left';
    end if;
    begin
      refund := private.request_refund_of(payment_id, 'The customer cancelled', member);
      if refund.status = 'requested' and outcome = 'sent' then
        outcome := 'needs_approval';
      end if;
    exception when sqlstate 'PT409' then
      -- Cash, or money that M-PESA cannot reverse: the order stays among those whose refund is due.
      outcome := 'left';
    end;
  end loop;
  return outcome;
end
$$;

comment on function public.grant_cancel_request is
  'For staff: cancels a paid order as its customer asked, and requests the refund of its money, which above the limit a second owner approves. sends_back false: M-PESA cannot reverse payments here. Returns sent (M-PESA is asked, or it is credit again), needs_approval, or left: some of it goes back by hand or in cash.';

create or replace function public.decline_cancel_request(order_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  answer text;
  declined public.orders;
begin
  perform private.expect_staff('orders');
  answer := private.read_reason(decline_cancel_request.reason, is_required => true);
  declined := private.lock_requested_order(decline_cancel_request.order_id);
  update public.orders as o set cancel_declined_at = now(), cancel_answer = answer, updated_at = now() where o.id = declined.id;
  perform private.record_order_event(declined.id, 'cancel_declined', 'staff', jsonb_build_object('note', answer));
  perform private.notify_order_followers(declined.id);
end
$$;

comment on function public.decline_cancel_request is
  'For staff: does not cancel a paid order, although its customer asked for it. The customer reads the reason on the tracking page.';

-- Execution rights
grant execute on function public.cancel_own_order, public.keep_own_order to anon, authenticated, service_role;

grant execute on function public.grant_cancel_request, public.decline_cancel_request to authenticated, service_role;

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
    -- Not where the last part of it became credit again or was given back in cash: nothing was sent.
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' and coalesce((
      select r.method from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
      order by r.completed_at desc, r.updated_at desc limit 1
    ), '') not in ('credit', 'cash') then
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
      if new.cancel_reason = 'not_paid_in_time' or (new.cancel_reason = 'by_customer' and new.payment_status = 'unpaid') then
        -- Not without a prompt, nor when the link was withheld: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) and not exists (
          select from public.outbox_messages as m
          where m.order_id = new.id and m.kind = 'order_received' and m.channel = 'mail' and m.status = 'over_budget'
        ) then
          perform private.queue_order_messages(
            new.id, case new.cancel_reason when 'by_customer' then 'order_cancelled' else 'order_expired' end, channels => array['mail']
          );
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

create or replace function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      map_point = null, cancel_answer = case when o.cancel_declined_at is not null then '' end, anonymised_at = now()
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
  update public.ratings as r set words = null where r.order_id = any (anonymise_orders.order_ids) and r.words is not null;
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

create or replace function public.delivery_report(since date, until date) returns public.delivery_report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := delivery_report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (delivery_report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  open_times tstzmultirange;
  answer public.delivery_report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(delivery_report.since, delivery_report.until);
  -- By today's hours; null: always open. A delivery of the last day can take some more.
  select private.open_times(s, span_start, delivery_report.until - delivery_report.since + 8) into open_times
  from public.store_settings as s where s.opening_hours <> '[]' or s.days_off <> '[]';
  with rides as materialized (
    select d.order_id, d.failures, d.delivery_status = 'delivered' as is_delivered, trim(d.delivery_person) as rider,
      d.delivery_status = 'delivered' and d.delivery_time <= private.due_at(o, d.created_at) as is_on_time,
      case when d.delivery_status = 'delivered' and o.delivery_day is null then private.minutes_taken(
        case when coalesce(a.promise_to_minutes, private.shop_promise_minutes()) < 1440 then open_times end, d.created_at, d.delivery_time
      ) end as minutes,
      coalesce(o.area_name, private.area_of(o.shipping_address, o.city)) as area,
      extract(hour from d.created_at at time zone 'Africa/Nairobi')::integer as hour,
      (select given.stars from public.ratings as given where given.order_id = d.order_id) as stars
    -- By the index of the newest deliveries; the rest by keys, with any statistics.
    from (select * from public.deliveries as d where d.created_at >= span_start and d.created_at < span_end offset 0) as d
    cross join lateral (select * from public.orders as o where o.id = d.order_id offset 0) as o
    left join public.delivery_areas as a on a.id = o.area_id
    where not o.is_collected and (d.delivery_status = 'delivered' or d.failures > 0)
  ), spellings as materialized (
    select r.area, private.folded_area(r.area) as folded, count(*) as rides from rides as r group by r.area
  ), named_areas as (
    select s.folded, (array_agg(s.area order by s.rides desc, s.area))[1] as area,
      row_number() over (order by sum(s.rides) desc, min(s.area)) <= 50 as is_listed
    from spellings as s group by s.folded
  ), named as materialized (
    select r.*, case when n.is_listed then coalesce(n.area, 'Not known any more') else 'All others' end as area_line
    from rides as r
    join spellings as s on s.area is not distinct from r.area
    join named_areas as n on n.folded is not distinct from s.folded
  ), lines as (
    select grouping(r.area_line, r.hour, lower(r.rider)) as level, r.hour, (
      case grouping(r.area_line, r.hour, lower(r.rider))
        when 3 then r.area_line when 5 then lpad(r.hour::text, 2, '0') || ':00' when 6 then mode() within group (order by r.rider) else ''
      end,
      count(*) filter (where r.is_delivered), count(*) filter (where r.is_on_time),
      percentile_disc(0.5) within group (order by r.minutes), percentile_disc(0.9) within group (order by r.minutes), coalesce(sum(r.failures), 0), count(r.stars), round(avg(r.stars), 1)
    )::public.delivery_line as line
    from named as r
    group by grouping sets ((r.area_line), (r.hour), (lower(r.rider)), ())
    having lower(r.rider) is not null or grouping(lower(r.rider)) = 1
  ), stated as (
    select e.failure as reason, count(*) as failures
    from named as r
    cross join lateral (
      select own.details ->> 'from' as old_status, own.details ->> 'to' as new_status, own.details ->> 'failure' as failure,
        own.details ->> 'reason' as reason, lead(own.details ->> 'reason') over (order by own.id) as next_reason
      from public.order_events as own
      where own.order_id = r.order_id and own.kind = 'delivery_status_changed' offset 0
    ) as e
    where r.failures > 0 and e.new_status = 'failed' and private.is_with_rider(e.old_status) and e.failure is not null
      -- Neither undone itself, nor restored by undoing the next change.
      and e.reason is distinct from 'undone' and e.next_reason is distinct from 'undone'
    group by e.failure
  ), by_reason as (
    select (s.reason, s.failures)::public.delivery_failures as line from stated as s
    union all
    select (null, rest.failures)::public.delivery_failures
    from (
      select coalesce(sum(r.failures), 0) - (select coalesce(sum(s.failures), 0) from stated as s) as failures from named as r
    ) as rest
    where rest.failures > 0
  )
  select
    (select l.line from lines as l where l.level = 7),
    array(select l.line from lines as l where l.level = 3
      order by (l.line).name = 'All others', (l.line).delivered desc, (l.line).failures desc, (l.line).name),
    array(select l.line from lines as l where l.level = 5 order by l.hour),
    array(select l.line from lines as l where l.level = 6 order by (l.line).delivered desc, (l.line).failures desc, (l.line).name),
    array(select b.line from by_reason as b order by (b.line).reason is null, (b.line).failures desc, (b.line).reason)
  into answer;
  return answer;
end
$$;

comment on function public.delivery_report is
  'For staff: how the deliveries of up to 367 days in Nairobi went, in all, by area (the 50 with the most, and all others), by hour of the payment and by rider, and why goods came back (reason null: not said). Reads the deliveries of these days, whatever the size of the shop.';

-- Execution rights
grant execute on function public.delivery_report to authenticated, service_role;

-- Orders

create or replace function private.before_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    delete from private.order_networks as k where k.order_id = old.id;
    return old;
  end if;
  if new.status <> 'cancelled' then
    new.cancel_reason := null;
    if old.status = 'cancelled' and not private.is_stated('undoes') then
      -- Staff deliver it after all.
      new.cancel_requested_at := null;
      new.cancel_declined_at := null;
      new.cancel_answer := null;
    end if;
  elsif old.status <> 'cancelled' and new.cancel_reason is null and auth.uid() is not null then
    -- Only staff have accounts; they may write no more than the status.
    new.cancel_reason := 'by_shop';
  end if;
  if (private.can_be_paid(old.payment_status) and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (private.has_money(old.payment_status) and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_review' and old.status <> new.status
      and not private.is_before_work(new.status))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if private.has_cancel_request(old) and old.payment_status = new.payment_status and new.status not in (old.status, 'cancelled')
    and not private.is_stated('undoes')
  then
    perform private.refuse_before_answer();
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and private.has_left_shop(new.status) then
    perform private.check_handover(old, new);
  end if;
  -- An unpaid order that is handed over takes its units if it held none.
  if old.payment_status = new.payment_status and old.status <> new.status
    and (old.status = 'cancelled' or new.status = 'cancelled' or (new.payment_status = 'unpaid' and new.reserved_until is null))
  then
    new := private.move_units_with_status(old, new);
  end if;
  return new;
end
$$;

comment on table public.notices is
  'Events that wait for staff: a new paid order, a late order, a failed delivery, a request to cancel, a refund to approve, an inquiry. Deleted after a week.';

comment on column public.notices.event_key is
  'What makes the event unique within its kind: the id of the order, refund or inquiry; of failed deliveries with the number of failures, of requests to cancel with their time.';

comment on column public.notices.caused_by is 'The member who caused the event and needs no notice of it. Null: a customer, or the shop itself.';

alter table public.notices enable row level security;

grant select on public.notices to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.notices to anon;

create or replace function private.notice_kinds() returns text[]
language sql immutable
return array['paid_order', 'late_order', 'failed_delivery', 'cancel_request', 'refund_to_approve', 'inquiry'];

create or replace function private.notice_area(kind text) returns text
language sql immutable
return case kind when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' when 'cancel_request' then 'refunds' else 'deliveries' end;

comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

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
  'Whether nobody has dealt with it: nobody has taken the paid order, the late one is not delivered, the failed one is not sent again, the request to cancel is not answered, the refund is not decided, the inquiry is unread.';
