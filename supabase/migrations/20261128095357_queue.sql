-- Earlier versions keep working: new columns are empty, and the numbers of count_work keep their names.

alter table public.deliveries
  add column taken_by text, add column ready_at timestamptz, add column failure_reason text,
  add column failures smallint not null default 0;

comment on column public.deliveries.taken_by is 'Email address of the staff member who prepares the order. Null: nobody yet.';
comment on column public.deliveries.ready_at is 'When the order was packed, at the latest when its rider took it. Null: not packed.';
comment on column public.deliveries.failure_reason is 'Why the delivery failed, as staff stated it. Null: it has not failed, or nobody said why.';
comment on column public.deliveries.failures is 'How often the goods came back.';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund, or the number of payments that were taken back or of failed deliveries; of newsletter mails the subscription''s id; of messages to staff the id of the incident or the refund.';

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

drop function public.count_work();

drop function private.work_step(text,text,text);

drop function public.set_delivery_status(uuid,text,text,boolean);

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.deliveries add constraint "a reason of a failed delivery is known" CHECK ((failure_reason = ANY (ARRAY['nobody_there'::text, 'no_answer'::text, 'address_not_found'::text, 'not_accepted'::text, 'damaged'::text, 'rider_problem'::text, 'other'::text])));

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
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
  update public.orders as o
  set payment_status = 'paid', payment_method = 'mpesa',
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at;
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
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

create or replace function private.check_rider(person text, phone text, vehicle text, notes text default null) returns void
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

create or replace function public.assign_delivery(
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
  perform private.expect_staff();
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

-- Execution rights
grant execute on function public.assign_delivery, public.recent_riders to authenticated, service_role;

create or replace function private.record_delivery_events(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  is_made boolean := old.id is null;
  status_before text := case when is_made then 'pending' else old.delivery_status end;
  courier jsonb := jsonb_build_object('person', new.delivery_person, 'phone', new.delivery_phone, 'vehicle', new.delivery_vehicle);
  is_newly_assigned boolean := new.delivery_person is not null and (is_made
    or (old.delivery_person, old.delivery_phone, old.delivery_vehicle)
      is distinct from (new.delivery_person, new.delivery_phone, new.delivery_vehicle));
begin
  if is_made then
    perform private.record_order_event(new.order_id, 'delivery_made', 'shop');
  end if;
  if is_newly_assigned then
    perform private.record_order_event(new.order_id, 'delivery_assigned', 'shop',
      courier || jsonb_build_object('instead_of', case when not is_made then nullif(old.delivery_person, new.delivery_person) end));
  end if;
  -- delivery_assigned implies the status "assigned".
  if new.delivery_status <> status_before and not (is_newly_assigned and new.delivery_status = 'assigned') then
    perform private.record_order_event(new.order_id, 'delivery_status_changed', 'shop',
      jsonb_build_object('from', status_before, 'to', new.delivery_status, 'failure', new.failure_reason));
  end if;
  if new.taken_by is distinct from old.taken_by then
    perform private.record_order_event(new.order_id, 'delivery_taken', 'shop',
      jsonb_build_object('person', new.taken_by, 'instead_of', old.taken_by));
  end if;
  -- A delivery that was picked up was packed.
  if (old.ready_at is null) <> (new.ready_at is null) and not private.was_picked_up(new.delivery_status) then
    perform private.record_order_event(
      new.order_id, case when new.ready_at is null then 'delivery_unpacked' else 'delivery_ready' end, 'shop'
    );
  end if;
end
$$;

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
        'taken_by', d.taken_by, 'ready_at', d.ready_at, 'failure_reason', d.failure_reason, 'failures', d.failures
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create or replace function private.lock_delivery(delivery_id uuid) returns public.deliveries
language plpgsql set search_path = '' as $$
declare
  locked public.deliveries;
begin
  select * into locked from public.deliveries as d where d.id = lock_delivery.delivery_id;
  if not found then
    perform private.refuse(404, 'delivery_not_found', 'This delivery does not exist');
  end if;
  perform from public.orders as o where o.id = locked.order_id for no key update;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  select * into locked from public.deliveries as d where d.id = locked.id for no key update skip locked;
  if not found then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  return locked;
end
$$;

comment on function private.lock_delivery is 'Locks the order of a delivery, then the delivery, and reads it.';

create or replace function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false, failure_reason text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff();
  changed := private.lock_delivery(set_delivery_status.delivery_id);
  if changed.delivery_status is distinct from set_delivery_status.expected_status then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  perform private.state('although_unpaid', set_delivery_status.although_unpaid);
  update public.deliveries as d
  set delivery_status = set_delivery_status.status, failure_reason = set_delivery_status.failure_reason
  where d.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.set_delivery_status is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. failure_reason: why it failed; the customer reads it. although_unpaid and result as in set_order_status.';

create or replace function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff();
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
  public.undo_status_change to authenticated, service_role;

-- The queue of paid orders: what each waits for, who prepares it, and one step on (docs/decisions/queue.md).

create or replace function private.work_step(order_status text, payment_status text, delivery public.deliveries) returns text
language sql immutable
return case
  when payment_status <> 'paid' or not private.is_open_order(order_status) then null
  when delivery.delivery_status = 'failed' then 'failed'
  when private.is_on_the_way(order_status) then 'on_the_way'
  when delivery.ready_at is not null then 'ready'
  when delivery.taken_by is not null then 'preparing'
  else 'prepare'
end;

comment on function private.work_step is
  'What a paid order waits for: prepare (nobody has it), preparing (somebody has), ready (packed, in the shop), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing.';

create or replace function public.work_queue() returns setof public.deliveries
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff();
  return query
    select d.*
    from public.orders as o
    -- One step in an index for each open order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status) and o.payment_status = 'paid'
    order by d.created_at, d.id
    limit 500;
end
$$;

comment on function public.work_queue is
  'For staff: the deliveries of all paid orders that are neither delivered nor cancelled, the earliest payment first, at most 500.';

create or replace function public.move_on(
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
  perform private.expect_staff();
  changed := private.lock_delivery(move_on.delivery_id);
  if (select private.work_step(o.status, o.payment_status, changed) from public.orders as o where o.id = changed.order_id)
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
  'For staff: moves a paid order to a step of private.work_step or to delivered, if it still is at the expected one. preparing: the caller has it. ready: it is packed. on_the_way: its rider takes it, the one given if none was assigned. Result as in set_order_status.';

-- Execution rights
grant execute on function public.work_queue, public.move_on to authenticated, service_role;

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
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_open || format($sql$ and o.payment_status = 'paid' and coalesce(
          (select private.work_step(o.status, o.payment_status, d) from public.deliveries as d where d.order_id = o.id), 'prepare'
        ) = any (%L)$sql$, case filters.due when 'prepare' then array['prepare', 'preparing'] else array[filters.due] end)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then $sql$d.delivery_status <> 'delivered' and d.created_at < now() - private.delivery_promise()$sql$
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
    checked := checked || (is_open || $sql$ and o.payment_status = 'paid'$sql$);
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_open || $sql$ and o.payment_status = 'paid'$sql$;
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

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create or replace function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select o.* from public.orders as o where o.id = any (found_ids) order by o.created_at desc, o.id desc;
end
$$;

comment on function public.search_orders is
  'For staff: a page of orders, newest first, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare (also being prepared), ready, on_the_way, failed.';

create or replace function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late'));
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work to authenticated, service_role;

create or replace function private.failure_event_key(order_id uuid) returns text
language sql stable set search_path = '' as $$
  select nullif(d.failures, 0)::text from public.deliveries as d where d.order_id = failure_event_key.order_id;
$$;

comment on function private.failure_event_key is
  'Key of messages about the way of an order: how often its goods came back, so that the next try is reported again. Null: never.';

create or replace function private.queue_messages_of_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The words speak of a payment.
  if new.delivery_status = 'failed' and old.delivery_status <> 'failed' and new.failure_reason is not null and exists (
    select from public.orders as o where o.id = new.order_id and o.payment_status = 'paid'
  ) then
    perform private.queue_order_messages(
      new.order_id, 'delivery_failed', private.failure_event_key(new.order_id), due_at => now() + private.undo_window()
    );
  end if;
end
$$;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', private.payment_event_key(new.id));
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if private.is_on_the_way(new.status) then
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

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'link', 'receipt_link'
    ]
  end;
  unknown text;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  elsif is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- Brackets that remain after all complete ones are removed.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create or replace function private.is_status_message(kind text) returns boolean
language sql immutable
return kind in ('order_on_its_way', 'delivery_failed', 'order_delivered', 'order_cancelled');

comment on function private.is_status_message is
  'Whether a kind of message reports a status change by staff, and is withdrawn with it.';

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
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts.';

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'delivery_failed' then private.is_in_shop(o.status) and exists (
      select from public.deliveries as d where d.order_id = o.id and d.delivery_status = 'failed'
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

create or replace function private.after_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.record_delivery_events(old, new);
  if old.delivery_status is distinct from new.delivery_status and not private.is_stated('undoes') then
    perform private.move_order_with_delivery(old, new);
    perform private.queue_messages_of_delivery(old, new);
  end if;
  return null;
end
$$;

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('delivery_failed', 'text', null, '{shop}: we could not deliver {order}[: {failure}]. We will call you about what happens next. Or call {shop_phone}.'),
  ('delivery_failed', 'mail', 'We could not deliver your order {order}', $text$Habari {name},

We tried to deliver your order {order} and could not[: {failure}]. Your payment is safe.

We will call you to agree on what happens next: another try, or your money back. You can also call us at {shop_phone}.

Your order:
{link}

{shop}
{shop_phone}
{shop_email}$text$)
) as template (kind, channel, subject, body);
