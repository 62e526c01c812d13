-- Deliveries and inquiries in the hands of several members of staff: times by one clock, orders in step, nobody's change lost.

-- Deliveries -------------------------------------------------------------------------------------------------------

drop index public.deliveries_newest_first;
create index deliveries_newest_first on public.deliveries (created_at desc, id desc);
create index deliveries_by_status on public.deliveries (delivery_status, created_at desc, id desc);

-- Not checked for what was written before: a long text of the past must not keep the shop from starting.
alter table public.deliveries
  add constraint "who delivers is told in short" check (
    char_length(delivery_person) <= 120 and char_length(delivery_phone) <= 40
    and char_length(delivery_vehicle) <= 120 and char_length(delivery_notes) <= 500
  ) not valid;

create function private.follow_delivery_status() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  moment timestamptz := clock_timestamp();
begin
  if tg_op = 'UPDATE' then
    -- Whatever a device's clock says: there is one clock, and it never shows the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      return new;
    end if;
  end if;
  -- Before the delivery is written, whatever it becomes: who holds the order may be about to make sure of its delivery.
  perform from public.orders as o where o.id = new.order_id for no key update;
  if new.delivery_status not in ('pending', 'failed') then
    if exists (select from public.orders as o where o.id = new.order_id and o.status = 'cancelled') then
      perform private.refuse(409, 'delivery_of_cancelled_order',
        'This order was cancelled. To deliver it after all, change the order first');
    end if;
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
create trigger deliveries_follow_their_status before insert or update on public.deliveries
  for each row execute function private.follow_delivery_status();
comment on column public.deliveries.pickup_time is 'When it became picked_up, by the database''s clock. Null when it never was, or was undone.';
comment on column public.deliveries.delivery_time is 'When it became delivered, by the database''s clock. Null again when that was undone.';
comment on column public.deliveries.updated_at is
  'Moves with every change. Who saves an edit names the one they saw, and changes nothing if it has moved.';

-- A delivery on its way moves its order, and a finished one finishes it. One that failed or was taken back undoes what
-- it did, unless staff have chosen something else for the order since.
drop trigger deliveries_move_orders on public.deliveries;
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
    where o.id = new.order_id and o.status <> 'cancelled' and o.status is distinct from wanted;
  elsif had_wanted is not null then
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.told_status(o.status) = had_wanted;
  end if;
  return null;
end
$$;
create function private.order_status_of_delivery(delivery_status text) returns text
language sql immutable
set search_path = ''
return case
  when delivery_status in ('picked_up', 'in_transit') then 'out_for_delivery'
  when delivery_status = 'delivered' then 'delivered'
end;
create trigger deliveries_move_new_orders after insert on public.deliveries
  for each row execute function private.move_order_with_delivery();
create trigger deliveries_move_orders after update of delivery_status on public.deliveries
  for each row when (old.delivery_status is distinct from new.delivery_status)
  execute function private.move_order_with_delivery();

create function public.assign_delivery(
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
    select * into delivery from public.deliveries as d where d.order_id = assign_delivery.order_id for update;
    exit when found;
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

  -- The same again, because the first answer was lost or the button pressed twice, is no change.
  if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
    is not distinct from (person, phone, vehicle, notes) then
    return delivery;
  end if;
  if assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
    perform private.refuse(409, 'delivery_already_assigned',
      format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
  end if;
  if assign_delivery.seen_updated_at <> delivery.updated_at then
    perform private.refuse(409, 'delivery_changed',
      'This delivery was changed meanwhile. Please look at it again and save once more if you still want to');
  end if;
  update public.deliveries as d
  set delivery_person = person,
      delivery_phone = phone,
      delivery_vehicle = vehicle,
      delivery_notes = notes,
      delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
  where d.id = delivery.id
  returning * into delivery;
  return delivery;
end
$$;
comment on function public.assign_delivery(uuid, text, text, text, text, timestamptz) is
  'Says who delivers an order. An assignment that is there already is only changed by who names the updated_at they saw.';
grant execute on function public.assign_delivery(uuid, text, text, text, text, timestamptz) to authenticated, service_role;

-- Inquiries --------------------------------------------------------------------------------------------------------

drop index public.inquiries_newest_first;
create index inquiries_newest_first on public.inquiries (created_at desc, id desc);
create index inquiries_unread on public.inquiries (created_at desc) where not is_read;

create function public.mark_inquiry_read(inquiry_id uuid) returns text
language plpgsql volatile security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  update public.inquiries as i set is_read = true where i.id = mark_inquiry_read.inquiry_id and not i.is_read;
  if found then
    return 'marked';
  end if;
  return case
    when exists (select from public.inquiries as i where i.id = mark_inquiry_read.inquiry_id) then 'already_read'
    else 'not_found'
  end;
end
$$;
comment on function public.mark_inquiry_read(uuid) is 'There is no way back. Answers marked, already_read or not_found.';

create function public.mark_all_inquiries_read(seen_until timestamptz default null) returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  count integer;
begin
  perform private.expect_staff();
  update public.inquiries as i set is_read = true
  where not i.is_read and i.created_at <= coalesce(mark_all_inquiries_read.seen_until, 'infinity');
  get diagnostics count = row_count;
  return count;
end
$$;
comment on function public.mark_all_inquiries_read(timestamptz) is
  'Marks every unread inquiry, or those that had come by the time of the newest that was seen. Returns how many.';
grant execute on function public.mark_inquiry_read(uuid), public.mark_all_inquiries_read(timestamptz)
  to authenticated, service_role;
