-- Orders in the hands of staff: status changes with an undo, decisions, lists and search.

create table private.status_changes (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  changed_by uuid,
  undo_until timestamptz not null,
  state_before jsonb not null,
  state_after jsonb not null
);
comment on table private.status_changes is
  'Changes of a status that can still be undone, with the state of the order and its delivery before and after (private.order_state).';
alter table private.status_changes enable row level security;
create index status_changes_by_order on private.status_changes (order_id);

create function public.decide_paid_order(order_id uuid, decision text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = decide_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  if decide_paid_order.decision = 'deliver' and decided.payment_status = 'needs_decision' then
    if private.mark_order_paid(decided.id) <> 'paid' then
      perform private.refuse(409, 'units_sold_meanwhile',
        'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
    end if;
  elsif decide_paid_order.decision = 'refunded' and (
    decided.payment_status = 'needs_decision' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- Refunds need a receipt, and above the limit a second staff member: this procedure must not bypass them.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded',
        status = 'cancelled',
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_decision' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_decide', 'This order has changed. There is nothing to decide any more');
  end if;
end
$$;
comment on function public.decide_paid_order is
  'What a member of staff decides about money: deliver an order whose units were sold before it was paid, once there are units again; or note that the money of such an order, or of a cancelled one, was sent back (refunded), where the shop has no payment of it. Payments are sent back by request_refund or note_refund_by_hand.';

-- Unpaid orders are handed over only with consent, refunded ones never. A change can be undone for 15 seconds, in which its message
-- to the customer waits.
create function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  -- Customers see both as out for delivery.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded',
      'The money of this order was sent back. It can be neither shipped nor delivered');
  end if;
  if coalesce(current_setting('private.although_unpaid', true), '') <> 'yes'
    and coalesce(current_setting('private.is_undoing', true), '') <> 'yes'
  then
    perform private.refuse(409, 'order_unpaid',
      'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;
comment on function private.check_handover is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless set_order_status or set_delivery_status was called with although_unpaid.';

create function private.undo_time() returns interval
language sql immutable set search_path = ''
return interval '15 seconds';
comment on function private.undo_time is 'How long staff can undo a change of a status. Its messages leave afterwards.';

create function private.order_state(order_id uuid) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'status', o.status,
    'payment_status', o.payment_status,
    'delivery', (
      select jsonb_build_object(
        'delivery_status', d.delivery_status, 'delivery_person', d.delivery_person,
        'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create function private.remember_status_change(order_id uuid, state_before jsonb) returns jsonb
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change_id uuid;
begin
  -- Rows that another request has locked are left for the next one.
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    remember_status_change.order_id, (select auth.uid()), now() + private.undo_time(),
    remember_status_change.state_before, private.order_state(remember_status_change.order_id)
  )
  returning id into change_id;
  return jsonb_build_object(
    'change_id', change_id,
    'undo_seconds', extract(epoch from private.undo_time())::integer,
    'notifies_customer', exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = remember_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  );
end
$$;
comment on function private.remember_status_change is
  'Keeps what undo_status_change needs, in the transaction of the change. Returns the answer of the procedure that made it.';

create function public.set_order_status(
  order_id uuid, status text, expected_status text, expected_payment_status text, although_unpaid boolean default false
) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.orders;
  state_before jsonb;
begin
  perform private.expect_staff();
  select * into changed from public.orders as o where o.id = set_order_status.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  if (changed.status, changed.payment_status) is distinct from (set_order_status.expected_status, set_order_status.expected_payment_status) then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.id);
  perform set_config('private.although_unpaid', case when set_order_status.although_unpaid then 'yes' else '' end, true);
  update public.orders as o set status = set_order_status.status, updated_at = now() where o.id = changed.id;
  perform set_config('private.although_unpaid', '', true);
  return private.remember_status_change(changed.id, state_before);
end
$$;
comment on function public.set_order_status is
  'For staff: sets the status of an order that still has the expected status and payment status; although_unpaid is the consent to ship or deliver it unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message leaves after that time.';

create function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false
) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff();
  select * into changed from public.deliveries as d where d.id = set_delivery_status.delivery_id;
  if not found then
    perform private.refuse(404, 'delivery_not_found', 'This delivery does not exist');
  end if;
  perform from public.orders as o where o.id = changed.order_id for no key update;
  -- A request that holds the delivery waits for this order, so waiting for it would be a deadlock: it counts as a change.
  select * into changed from public.deliveries as d where d.id = changed.id for no key update skip locked;
  if not found or changed.delivery_status is distinct from set_delivery_status.expected_status then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  perform set_config('private.although_unpaid', case when set_delivery_status.although_unpaid then 'yes' else '' end, true);
  update public.deliveries as d set delivery_status = set_delivery_status.status where d.id = changed.id;
  perform set_config('private.although_unpaid', '', true);
  return private.remember_status_change(changed.order_id, state_before);
end
$$;
comment on function public.set_delivery_status is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. although_unpaid and the answer are those of set_order_status.';

create function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
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
  -- As in set_delivery_status: a request that holds the delivery is about to change it.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  end if;
  if exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_time()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform set_config('private.is_undoing', 'yes', true);
  update public.orders as o
  set status = change.state_before ->> 'status', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz
    where d.order_id = change.order_id;
  end if;
  perform set_config('private.is_undoing', '', true);
  delete from public.outbox_messages as m
  where m.order_id = change.order_id and m.status = 'waiting' and m.attempts = 0 and not private.is_message_true(m.order_id, m.kind);
  delete from private.status_changes as c where c.id = change.id;
end
$$;
comment on function public.undo_status_change is
  'For the staff member who made a change: restores the status of the order and its delivery, times included, and withdraws the message. Refuses once the time is over, the message has left, or the order has changed again.';

-- Who may call these functions
grant execute on function public.decide_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change
  to authenticated, service_role;
