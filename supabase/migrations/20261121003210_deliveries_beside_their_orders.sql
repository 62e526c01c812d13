-- An order and its delivery never contradict each other, whichever of the two staff change: the delivery follows its order as well.

create function private.delivery_status_beside(order_status text, delivery_status text, delivery_person text) returns text
language sql immutable
set search_path = ''
return case private.told_status(order_status)
  when 'delivered' then 'delivered'
  -- Whether somebody came to pick it up is not known: it is on its way.
  when 'out_for_delivery' then case when delivery_status in ('picked_up', 'in_transit') then delivery_status else 'in_transit' end
  -- Who is on the way is not back by it.
  when 'cancelled' then case when delivery_status in ('pending', 'assigned') then 'failed' else delivery_status end
  else case
    when delivery_status not in ('picked_up', 'in_transit', 'delivered') then delivery_status
    when delivery_person is null then 'pending'
    else 'assigned'
  end
end;
comment on function private.delivery_status_beside(text, text, text) is
  'What a delivery''s status becomes when its order has this one: the same where the two agree already.';

create or replace function private.follow_delivery_status() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  moment timestamptz := clock_timestamp();
  of_order text;
begin
  -- Before the delivery is written, whatever it becomes: who holds the order may be about to make sure of its delivery.
  select o.status into of_order from public.orders as o where o.id = new.order_id for no key update;
  if tg_op = 'UPDATE' then
    -- Whatever a device's clock says: there is one clock, and it never shows the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have been changed while somebody had the delivery in his hands.
      new.delivery_status := private.delivery_status_beside(of_order, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_beside(of_order, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (of_order = 'cancelled' or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- Overtaken by that change. One that moves the order itself is the later word, unless the order is cancelled.
      new.delivery_status := private.delivery_status_beside(of_order,
        case when of_order = 'cancelled' then old.delivery_status else new.delivery_status end, new.delivery_person);
    end if;
  elsif new.delivery_status in ('pending', 'assigned') and of_order <> 'cancelled' then
    new.delivery_status := private.delivery_status_beside(of_order, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status not in ('pending', 'failed') and of_order = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- A step back takes back the times it undoes.
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
  return new;
end
$$;

create or replace function private.move_order_with_delivery() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  wanted text := private.order_status_of_delivery(new.delivery_status);
  had_wanted text := case when tg_op = 'UPDATE' then private.order_status_of_delivery(old.delivery_status) end;
begin
  if wanted is not null then
    update public.orders as o
    set status = wanted, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.told_status(o.status) is distinct from wanted;
  elsif had_wanted is not null then
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.told_status(o.status) = had_wanted;
  end if;
  return null;
end
$$;

create function private.move_delivery_with_order() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  delivery public.deliveries;
  wanted text;
begin
  -- Who changes a delivery waits for its order, and looks at it then: to wait for him would be a deadlock.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    wanted := private.delivery_status_beside(
      new.status,
      -- An order that is taken up again is brought anew.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = wanted
    where d.id = delivery.id and d.delivery_status <> wanted;
  end if;
  return null;
end
$$;
-- After the order's own change is told: triggers run in the order of their names.
create trigger orders_then_move_their_delivery after update of status on public.orders
  for each row when (old.status is distinct from new.status)
  execute function private.move_delivery_with_order();

create or replace function public.assign_delivery(
  order_id uuid,
  delivery_person text,
  delivery_phone text,
  delivery_vehicle text,
  delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  person text := nullif(trim(assign_delivery.delivery_person), '');
  phone text := nullif(trim(assign_delivery.delivery_phone), '');
  vehicle text := nullif(trim(assign_delivery.delivery_vehicle), '');
  notes text := nullif(trim(assign_delivery.delivery_notes), '');
  delivery public.deliveries;
begin
  perform private.expect_staff();
  if person is null then
    perform private.refuse(400, 'delivery_person_missing', 'Delivery person name is required');
  end if;
  if phone is null then
    perform private.refuse(400, 'delivery_phone_missing', 'Phone number is required');
  end if;
  if vehicle is null then
    perform private.refuse(400, 'delivery_vehicle_missing', 'Vehicle information is required');
  end if;
  if char_length(person) > 120 or char_length(phone) > 40 or char_length(vehicle) > 120 or char_length(notes) > 500 then
    perform private.refuse(400, 'delivery_too_long', 'The name, phone, vehicle or notes of the delivery are too long');
  end if;

  loop
    -- Looked at without being held: who holds a delivery changes it.
    select * into delivery from public.deliveries as d where d.order_id = assign_delivery.order_id;
    if found then
      -- The same again, because the first answer was lost or the button pressed twice, is no change.
      if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
        is not distinct from (person, phone, vehicle, notes) then
        return delivery;
      end if;
      if delivery.delivery_status in ('pending', 'failed') and exists (
        select from public.orders as o where o.id = assign_delivery.order_id and o.status = 'cancelled'
      ) then
        perform private.refuse(409, 'delivery_of_cancelled_order',
          'This order was cancelled. To deliver it after all, change the order first');
      end if;
      if assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
      end if;
      if assign_delivery.seen_updated_at <> delivery.updated_at then
        perform private.refuse(409, 'delivery_changed',
          'This delivery was changed meanwhile. Please look at it again and save once more if you still want to');
      end if;
      begin
        update public.deliveries as d
        set delivery_person = person,
            delivery_phone = phone,
            delivery_vehicle = vehicle,
            delivery_notes = notes,
            delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
        where d.id = delivery.id and d.updated_at = delivery.updated_at
        returning * into delivery;
        if found then
          return delivery;
        end if;
        -- Somebody was first. Leaving this block lets go of the delivery, which nobody holds without changing it.
        raise exception using errcode = 'JJ001';
      exception when sqlstate 'JJ001' then
        continue;
      end;
    end if;
    if not exists (select from public.orders as o where o.id = assign_delivery.order_id) then
      perform private.refuse(404, 'order_not_found', 'This order does not exist');
    end if;
    begin
      insert into public.deliveries
        (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
      values (assign_delivery.order_id, 'assigned', person, phone, vehicle, notes)
      returning * into delivery;
      return delivery;
    exception when unique_violation then
      -- It was made meanwhile. Leaving this block lets go of the order, which is never held while waiting for its delivery.
      null;
    end;
  end loop;
end
$$;
