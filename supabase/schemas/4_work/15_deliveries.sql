-- Deliveries: one per paid order; its status and its order's status are synchronised (docs/decisions/order-status-changes.md).

create table public.deliveries (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  delivery_status text not null default 'pending',
  delivery_person text,
  delivery_phone text,
  delivery_vehicle text,
  delivery_notes text,
  pickup_time timestamptz,
  delivery_time timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  taken_by text,
  ready_at timestamptz,
  failure_reason text,
  failures smallint not null default 0,
  rider_id uuid references public.riders (id) on delete set null,
  proof_code text,
  wrong_codes smallint not null default 0,
  proven_by text,
  collected_cents integer,
  constraint "an order is delivered once" unique (order_id),
  constraint "a delivery status is known"
    check (delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit', 'delivered', 'failed')),
  constraint "a reason of a failed delivery is known" check (failure_reason in (
    'nobody_there', 'no_answer', 'address_not_found', 'not_accepted', 'damaged', 'rider_problem', 'other'
  )),
  constraint "a code has four digits" check (proof_code ~ '^\d{4}$'),
  constraint "a proof is known" check (proven_by in ('code', 'staff')),
  constraint "collected cash is whole shillings" check (collected_cents >= 100 and collected_cents % 100 = 0),
  constraint "delivery details are short" check (
    char_length(delivery_person) <= 120 and char_length(delivery_phone) <= 40
    and char_length(delivery_vehicle) <= 120 and char_length(delivery_notes) <= 500
  )
);
comment on table public.deliveries is 'Delivery of a paid order. Created with the payment, completed when staff assign it.';
comment on column public.deliveries.pickup_time is 'When the goods left the shop: the status became picked_up, or in_transit without that step; by a rider without a network when the rider pressed. Null: never, or undone.';
comment on column public.deliveries.delivery_time is 'When the status became delivered, as with pickup_time. Null: never, or undone.';
comment on column public.deliveries.taken_by is 'Email address of the staff member who prepares the order. Null: nobody yet.';
comment on column public.deliveries.ready_at is 'When the order was packed, at the latest when its rider took it. Null: not packed.';
comment on column public.deliveries.failure_reason is 'Why the delivery failed, as staff stated it. Null: it has not failed, or nobody said why.';
comment on column public.deliveries.failures is 'How often the goods came back.';
comment on column public.deliveries.rider_id is
  'The rider of the list whose phone is delivery_phone. Null: nobody, or a rider who is not on the list.';
comment on column public.deliveries.proof_code is
  'Four digits that the customer gives to the rider of the list. Null: of a delivery from before there were codes.';
comment on column public.deliveries.wrong_codes is 'How many wrong codes its riders typed. After five only staff finish it.';
comment on column public.deliveries.proven_by is
  'code: its rider typed the code. staff: a member finished it without the code, with a reason. Null: neither.';
comment on column public.deliveries.collected_cents is
  'Cash that its rider got at the door, as the rider said. Null: none. It is no payment before staff note it (receive_cash).';
comment on column public.deliveries.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
alter table public.deliveries enable row level security;
grant select,
  insert (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes),
  update (delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes, pickup_time, delivery_time, updated_at)
  on public.deliveries to authenticated;
grant select (id) on public.deliveries to anon;
create policy "staff edit every delivery, the counter those of recent orders" on public.deliveries
  for all to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)))
  with check ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));
create index deliveries_newest_first on public.deliveries (created_at desc, id desc);
create index deliveries_by_status on public.deliveries (delivery_status, created_at desc, id desc);
create index deliveries_by_words on public.deliveries using gin (
  private.without_accents(
    coalesce(delivery_person, '') || E'\n' || regexp_replace(coalesce(delivery_phone, ''), '[^0-9]', '', 'g')
  ) extensions.gin_trgm_ops
) with (fastupdate = off);
create index deliveries_open on public.deliveries (created_at desc, id desc)
  where delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit');
create index deliveries_open_of_listed_rider on public.deliveries (rider_id)
  where rider_id is not null and delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit');
create index deliveries_done_of_listed_rider on public.deliveries (rider_id, updated_at desc)
  where rider_id is not null and delivery_status in ('delivered', 'failed');
create index deliveries_of_a_rider on public.deliveries (lower(delivery_person), created_at desc, id desc)
  where delivery_person is not null;

create function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  new_status text := private.order_status_of_delivery(new.delivery_status);
  old_status text := private.order_status_of_delivery(old.delivery_status);
begin
  perform private.state('follows_delivery');
  if new_status is not null then
    update public.orders as o
    set status = new_status, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.shown_status(o.status) is distinct from new_status;
  elsif old_status is not null or new.delivery_status = 'failed' then
    -- A delivery that fails without a rider belongs to an order that was shipped without one.
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.shown_status(o.status) = coalesce(old_status, 'out_for_delivery')
      and o.payment_status <> 'refunded';
  end if;
  perform private.state('follows_delivery', false);
end
$$;

create function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := private.moment();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if not private.is_stated('undoes') and old.delivery_phone is distinct from new.delivery_phone then
    new.rider_id := private.rider_of_phone(new.delivery_phone);
  end if;
  if not private.is_stated('undoes') and ordered.is_collected and new.delivery_person is distinct from old.delivery_person
    and new.delivery_person is not null
  then
    perform private.refuse(409, 'order_is_collected', 'The customer collects this order at the shop, so no rider takes it');
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
    new.updated_at := greatest(clock_timestamp(), old.updated_at + interval '1 microsecond');
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
    when 'in_transit' then
      -- Riders and staff may leave out the step before.
      new.pickup_time := coalesce(new.pickup_time, moment);
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

create function private.order_status_of_delivery(delivery_status text) returns text
language sql immutable
return case
  when private.is_with_rider(delivery_status) then 'out_for_delivery'
  when delivery_status = 'delivered' then 'delivered'
end;

create function private.check_rider(person text, phone text, vehicle text, notes text default null) returns void
language plpgsql set search_path = '' as $$
begin
  if person is null then
    perform private.refuse(400, 'delivery_person_missing', 'Delivery person name is required');
  elsif phone is null then
    perform private.refuse(400, 'delivery_phone_missing', 'Phone number is required');
  elsif vehicle is null then
    perform private.refuse(400, 'delivery_vehicle_missing', 'Vehicle information is required');
  elsif char_length(person) > 120 or char_length(phone) > 40 or char_length(vehicle) > 120 or char_length(notes) > 500 then
    perform private.refuse(400, 'delivery_too_long', 'The name, phone, vehicle or notes of the delivery are too long');
  end if;
end
$$;

create function public.assign_delivery(
  order_id uuid, delivery_person text, delivery_phone text, delivery_vehicle text, delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(assign_delivery.delivery_person);
  phone text := private.visible_text(assign_delivery.delivery_phone);
  vehicle text := private.visible_text(assign_delivery.delivery_vehicle);
  notes text := private.visible_text(assign_delivery.delivery_notes);
  ordered public.orders;
  delivery public.deliveries;
begin
  perform private.expect_staff('deliveries');
  perform private.check_rider(person, phone, vehicle, notes);

  select * into ordered from public.orders as o where o.id = assign_delivery.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  -- A repeated request changes nothing.
  if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
    is not distinct from (person, phone, vehicle, notes) then
    return delivery;
  elsif coalesce(delivery.delivery_status, 'pending') in ('pending', 'failed') and ordered.status = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  elsif assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
    perform private.refuse(409, 'delivery_already_assigned',
      format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
  elsif delivery.id is null then
    insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
    values (ordered.id, 'assigned', person, phone, vehicle, notes)
    returning * into delivery;
    return delivery;
  end if;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  perform from public.deliveries as d where d.id = delivery.id for no key update skip locked;
  if not found or assign_delivery.seen_updated_at <> delivery.updated_at then
    perform private.refuse(409, 'delivery_changed',
      'This delivery was changed in the meantime. Please look at it again and save once more if you still want to');
  end if;
  update public.deliveries as d
  set delivery_person = person, delivery_phone = phone, delivery_vehicle = vehicle, delivery_notes = notes,
      delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
  where d.id = delivery.id
  returning * into delivery;
  return delivery;
end
$$;
comment on function public.assign_delivery is
  'Assigns the delivery of an order. Changes an existing assignment only with the updated_at that the caller read.';

create function private.is_called_off(ordered public.orders) returns boolean
language sql immutable
return ordered.status = 'cancelled' or (ordered.payment_status = 'refunded' and ordered.status <> 'delivered');
comment on function private.is_called_off is
  'Whether nothing of an order is to be delivered any more: it was cancelled, or its money was sent back before it was delivered.';

create function private.delivery_status_for_order(ordered public.orders, delivery_status text, delivery_person text) returns text
language sql immutable
return case
  -- Whatever the rider had begun ends; what arrived has arrived.
  when private.is_called_off(ordered) then case when delivery_status = 'delivered' then 'delivered' else 'failed' end
  when ordered.status = 'delivered' then 'delivered'
  when private.shown_status(ordered.status) = 'out_for_delivery' then case
    when private.is_with_rider(delivery_status) then delivery_status
    -- Shipped without a rider: it waits for one.
    when delivery_person is null then 'pending'
    else 'in_transit'
  end
  when not private.was_picked_up(delivery_status) then delivery_status
  when delivery_person is null then 'pending'
  else 'assigned'
end;
comment on function private.delivery_status_for_order is
  'The status that a delivery gets from its order; unchanged if they agree.';

create function private.move_delivery_with_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  delivery public.deliveries;
  new_status text;
begin
  -- Skips a locked delivery: the request that has it waits for this order, then reads it.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    new_status := private.delivery_status_for_order(
      new,
      -- A reactivated order is delivered again.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = new_status
    where d.id = delivery.id and d.delivery_status <> new_status;
  end if;
end
$$;

create function private.newest_delivery_of_each_rider(since timestamptz) returns setof public.deliveries
language plpgsql stable
set search_path = ''
-- One step in the index for each rider, whatever number of deliveries they have.
as $$
begin
  return query
  with recursive riders (name) as (
    (select lower(d.delivery_person) from public.deliveries as d where d.delivery_person is not null order by 1 limit 1)
    union all
    select (
      select lower(d.delivery_person) from public.deliveries as d
      where d.delivery_person is not null and lower(d.delivery_person) > r.name
      order by 1 limit 1
    )
    from riders as r where r.name is not null
  )
  select newest.*
  from riders as r
  cross join lateral (
    select * from public.deliveries as d
    where d.delivery_person is not null and lower(d.delivery_person) = r.name and d.created_at > newest_delivery_of_each_rider.since
    order by d.created_at desc, d.id desc limit 1
  ) as newest;
end
$$;

create function public.recent_riders() returns table (
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
