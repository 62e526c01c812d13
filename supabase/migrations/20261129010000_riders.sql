-- Earlier versions keep working: they read and write deliveries by names of columns, and assign riders by name, phone and vehicle as before;
-- a phone that is on the list makes the delivery that rider's. Their texts leave the new placeholder empty, with its brackets.

create type public.rider_link as (secret text, expires_at timestamptz);
comment on type public.rider_link is 'The secret of a new link. It is shown once: only its hash is stored.';

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

alter table public.deliveries
  add column rider_id uuid,
  add column proof_code text,
  add column wrong_codes smallint not null default 0,
  add column proven_by text,
  add column collected_cents integer;
-- Deliveries that exist keep no code: no customer was sent one.
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

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'job_for_rider'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'cash_collected'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'code_locked'::text, 'code_waived'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.order_events add constraint "an actor is known" CHECK ((actor = ANY (ARRAY['staff'::text, 'customer'::text, 'mpesa'::text, 'shop'::text, 'rider'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text, 'job_for_rider'::text])));

alter table public.deliveries add constraint "a code has four digits" CHECK ((proof_code ~ '^\d{4}$'::text));

alter table public.deliveries add constraint "a proof is known" CHECK ((proven_by = ANY (ARRAY['code'::text, 'staff'::text])));

alter table public.deliveries add constraint "collected cash is whole shillings" CHECK (((collected_cents >= 100) AND ((collected_cents % 100) = 0)));

alter table public.deliveries add constraint deliveries_rider_id_fkey FOREIGN KEY (rider_id) REFERENCES riders(id) ON DELETE SET NULL;

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
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. proof_code: what the customer says to the rider, with the access key only; while it is asked for, digits of the phone do not show the access key. Null: no such order, or several.';

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
    - array['delivery_notes', 'proof_code'] || jsonb_build_object(
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

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

-- Riders, and the links with which they open their page (docs/decisions/riders.md).

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
                where d.rider_id = r.id and d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')
                order by d.updated_at desc limit 1)
              union all
              (select d.updated_at from public.deliveries as d
                where d.rider_id = r.id and d.delivery_status in ('delivered', 'failed')
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

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change, public.show_pay_link, public.ended_pay_links, public.dismiss_ended_pay_link to authenticated, service_role;

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
          where open.rider_id = r.id and open.delivery_status in ('assigned', 'picked_up', 'in_transit')
          union all
          select * from public.deliveries as done
          where done.rider_id = r.id and done.delivery_status in ('delivered', 'failed') and done.updated_at > now() - interval '1 hour'
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
  elsif delivery.delivery_status not in ('assigned', 'picked_up', 'in_transit') then
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
      'failure', 'cash', 'code', 'link', 'receipt_link'
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
    'delivery_fee', o.delivery_fee,
    'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
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
  return null;
end
$$;

insert into private.limits (name, allowed, within, per_paid_order) values
  ('rider_pages', 1200, '10 minutes', 0),
  ('rider_presses', 300, '10 minutes', 0);

-- Words of the owner stay.
update public.message_templates as t
set body = case when t.body = t.default_body then worded.body else t.body end, default_body = worded.body
from (
  select m.id, case m.channel
    when 'text' then replace(m.default_body, '{cash}. ]Follow', '{cash}. ][Code for the rider: {code}. ]Follow')
    else replace(m.default_body, '{cash}.]', E'{cash}.][\n\nThe rider asks for this code: {code}]')
  end as body
  from public.message_templates as m where m.kind = 'order_on_its_way'
) as worded
where t.id = worded.id and worded.body <> t.default_body;

-- Off, because each text costs: the page of a rider shows the same.
insert into public.message_templates (kind, channel, body, default_body, is_on)
select 'job_for_rider', 'text', body, body, false
from (values (
  '{order} for {name}, {customer_phone}: {address}[. Note: {notes}]. {items}. {pay}. {shop}'
)) as template (body);
