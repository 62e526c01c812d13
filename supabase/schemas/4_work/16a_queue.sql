-- The queue of paid orders: what each waits for, who prepares it, and one step on (docs/decisions/queue.md).

create function private.work_step(ordered public.orders, delivery public.deliveries) returns text
language sql immutable
return case
  when not private.is_to_deliver(ordered.payment_status, ordered.payment_method) or not private.is_open_order(ordered.status) then null
  when delivery.delivery_status = 'failed' then 'failed'
  when private.is_on_the_way(ordered.status) then 'on_the_way'
  when delivery.ready_at is not null then 'ready'
  when delivery.taken_by is not null then 'preparing'
  else 'prepare'
end;
comment on function private.work_step is
  'What an order that is to be delivered (private.is_to_deliver) waits for: prepare (nobody has it), preparing (somebody has), ready (packed, in the shop), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing.';

create function public.work_queue() returns setof public.deliveries
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

create function public.move_on(
  delivery_id uuid, expected_step text, step text,
  delivery_person text default null, delivery_phone text default null, delivery_vehicle text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(move_on.delivery_person);
  phone text := private.visible_text(move_on.delivery_phone);
  vehicle text := private.visible_text(move_on.delivery_vehicle);
  member constant text := private.email_of((select auth.uid()));
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  changed := private.lock_delivery(move_on.delivery_id);
  if (select private.work_step(o, changed) from public.orders as o where o.id = changed.order_id)
    is distinct from move_on.expected_step
  then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  case move_on.step
    when 'prepare' then
      changed.taken_by := null;
      changed.ready_at := null;
    when 'preparing' then
      changed.taken_by := member;
      changed.ready_at := null;
    when 'ready' then
      changed.taken_by := coalesce(changed.taken_by, member);
      changed.ready_at := coalesce(changed.ready_at, clock_timestamp());
    when 'on_the_way' then
      if (select o.is_collected from public.orders as o where o.id = changed.order_id) then
        perform private.refuse(409, 'order_is_collected', 'The customer collects this order at the shop, so no rider takes it');
      end if;
      if changed.delivery_person is null then
        perform private.check_rider(person, phone, vehicle);
        changed.delivery_person := person;
        changed.delivery_phone := phone;
        changed.delivery_vehicle := vehicle;
      elsif person is distinct from changed.delivery_person and person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', changed.delivery_person));
      end if;
    when 'delivered' then
    else
      perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  end case;
  update public.deliveries as d
  set delivery_status = case
        when move_on.step = 'on_the_way' then 'picked_up'
        when move_on.step = 'delivered' then 'delivered'
        when private.is_before_pickup(changed.delivery_status) then changed.delivery_status
        when changed.delivery_person is null then 'pending'
        else 'assigned'
      end,
      delivery_person = changed.delivery_person, delivery_phone = changed.delivery_phone, delivery_vehicle = changed.delivery_vehicle,
      taken_by = changed.taken_by, ready_at = changed.ready_at
  where d.id = changed.id;
  return private.record_status_change(changed.order_id, state_before);
end
$$;
comment on function public.move_on is
  'For staff: moves a paid order to a step of private.work_step or to delivered, if it still is at the expected one. preparing: the caller has it. ready: it is packed. on_the_way: its rider takes it, the one given if none was assigned; refused for an order that is collected, which goes from ready to delivered. Result as in set_order_status.';

-- Execution rights
grant execute on function public.work_queue, public.move_on to authenticated, service_role;
