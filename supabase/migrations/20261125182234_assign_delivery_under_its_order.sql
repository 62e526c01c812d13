create or replace function public.assign_delivery(
  order_id uuid, delivery_person text, delivery_phone text, delivery_vehicle text, delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := nullif(trim(assign_delivery.delivery_person), '');
  phone text := nullif(trim(assign_delivery.delivery_phone), '');
  vehicle text := nullif(trim(assign_delivery.delivery_vehicle), '');
  notes text := nullif(trim(assign_delivery.delivery_notes), '');
  ordered public.orders;
  delivery public.deliveries;
begin
  perform private.expect_staff();
  if person is null then
    perform private.refuse(400, 'delivery_person_missing', 'Delivery person name is required');
  elsif phone is null then
    perform private.refuse(400, 'delivery_phone_missing', 'Phone number is required');
  elsif vehicle is null then
    perform private.refuse(400, 'delivery_vehicle_missing', 'Vehicle information is required');
  elsif char_length(person) > 120 or char_length(phone) > 40 or char_length(vehicle) > 120 or char_length(notes) > 500 then
    perform private.refuse(400, 'delivery_too_long', 'The name, phone, vehicle or notes of the delivery are too long');
  end if;

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

-- Execution rights
grant execute on function public.assign_delivery to authenticated, service_role;
