-- Orders in the hands of staff: their timeline, status changes that can be undone, and orders that need review.

-- The timeline. Triggers write it for changes of any origin.

create table public.order_events (
  id bigint generated always as identity primary key,
  order_id uuid not null,
  kind text not null,
  actor text not null,
  actor_id uuid,
  actor_email text,
  details jsonb not null default '{}',
  happened_at timestamptz not null default clock_timestamp(),
  constraint "an actor is known" check (actor in ('staff', 'customer', 'mpesa', 'shop', 'rider')),
  constraint "a kind of event is known" check (kind in (
    'order_placed', 'pay_link_shown', 'delivery_agreed', 'items_changed', 'status_changed', 'cancel_requested', 'cancel_declined', 'cancel_withdrawn', 'payment_status_changed', 'units_taken', 'units_returned',
    'cash_agreed', 'cash_collected', 'change_noted', 'payment_prompted', 'payment_completed', 'payment_failed', 'payment_in_review', 'payment_unresolved',
    'payment_receipt_known', 'payment_corrected', 'payment_taken_back',
    'delivery_made', 'delivery_assigned', 'delivery_status_changed', 'delivery_taken', 'delivery_ready', 'delivery_unpacked',
    'code_locked', 'code_waived', 'refund_requested', 'refund_approved', 'refund_withdrawn', 'refund_sent', 'refund_unknown', 'refund_failed',
    'refund_completed', 'refund_sent_twice', 'refund_sent_twice_seen'
  ))
);
comment on table public.order_events is
  'The timeline of every order, ordered by id. Append-only. actor_email: the email address at that time.';
alter table public.order_events enable row level security;
revoke all on public.order_events from anon, authenticated, service_role;
grant select on public.order_events to authenticated, service_role;
create policy "staff read every timeline, the counter those of recent orders" on public.order_events
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));
create index order_events_by_order on public.order_events (order_id, id);

create function private.refuse_order_event_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' and not exists (
    select from public.orders as o
    where o.id = old.order_id and not (o.anonymised_at is not null and o.status = 'cancelled' and o.payment_status = 'unpaid')
  ) then
    return old;
  end if;
  -- Erasure removes the phone of a payment.
  if tg_op = 'UPDATE' and old.kind like 'payment\_%' and new.details = old.details - 'phone'
    and to_jsonb(new) - 'details' = to_jsonb(old) - 'details'
  then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'The timeline of an order is only added to';
end
$$;

create function private.record_order_event(
  order_id uuid, kind text, default_actor text, details jsonb default '{}', member uuid default auth.uid()
) returns void
language plpgsql set search_path = '' as $$
begin
  if member is not null then
    select a.user_id into member from public.admin_profiles as a where a.user_id = member;
  end if;
  insert into public.order_events (happened_at, order_id, kind, actor, actor_id, actor_email, details)
  values (
    private.moment(), order_id, kind,
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
  'Appends to an order''s timeline, with the time of private.moment. The actor is the staff member, by default the caller, else the rider whose press it is, else default_actor.';

create function private.record_order_events(old public.orders, new public.orders) returns void
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

create function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'charge_cents', new.charge_cents,
    'method', case when new.method <> 'prompt' then new.method end
  );
  result jsonb := payment || jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if new.method in ('cash', 'credit') then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'completed' then 'completed' else 'taken_back' end, 'staff',
      payment || jsonb_build_object('person', new.received_from, 'note', new.note)
    );
    return;
  elsif old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(
      new.order_id, 'payment_prompted', 'customer', payment, member => coalesce(new.requested_by, auth.uid())
    );
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', result);
    end if;
    return;
  end if;
  if not private.is_open_attempt(new.status) then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'review' then 'in_review' else new.status end,
      case new.status when 'unresolved' then 'shop' else 'mpesa' end,
      result || jsonb_build_object('needs_refund', case when new.status = 'completed' and new.needs_refund then true end)
    );
  end if;
end
$$;

create function private.record_delivery_events(old public.deliveries, new public.deliveries) returns void
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

-- Records approvals, not every attempt to send.
create function private.record_refund_events(old public.refunds, new public.refunds) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (old.id is not null and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order's status event already shows a refund without a receipt.
    or (old.id is null and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return;
  end if;
  perform private.record_order_event(
    refunded_order,
    'refund_' || case when old.id is null and new.status <> 'completed' then 'requested' else new.status end,
    case when private.has_result(new.status) then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'refund_cents', new.refund_cents, 'method', new.method, 'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end
    ) || case when new.status in ('failed', 'unknown')
      then jsonb_build_object('result_code', new.result_code, 'result_description', new.result_description)
      else '{}'
    end
  );
end
$$;

create trigger order_events_before_change before update or delete on public.order_events
  for each row execute function private.refuse_order_event_change();
create trigger order_events_before_truncate before truncate on public.order_events
  for each statement execute function private.refuse_order_event_change();

-- Status changes, and orders that need review

create table private.status_changes (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  changed_by uuid,
  undo_until timestamptz not null,
  state_before jsonb not null,
  state_after jsonb not null
);
comment on table private.status_changes is
  'Status changes that can still be undone, with the state of order and delivery before and after (private.order_state).';
alter table private.status_changes enable row level security;
create index status_changes_by_order on private.status_changes (order_id);

create function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff('refunds');
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_paid_order.resolution = 'deliver' and decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  elsif resolve_paid_order.resolution = 'refunded' and (
    decided.payment_status = 'needs_review' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- This procedure must not bypass receipts and approval of refunds.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded', status = 'cancelled', cancel_reason = coalesce(o.cancel_reason, 'refunded'),
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_review' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  end if;
end
$$;
comment on function public.resolve_paid_order is
  'For staff: deliver an order that needs review, if its units are in stock; or mark such an order, or a cancelled one, as refunded, if the shop has no payment of it. Payments are refunded by request_refund or note_refund_by_hand.';

create function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  -- For customers, shipped and out_for_delivery are the same.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
  elsif not private.is_to_deliver(new.payment_status, new.payment_method) and not private.is_stated('although_unpaid') and not private.is_stated('undoes') then
    perform private.refuse(409, 'order_unpaid', 'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;
comment on function private.check_handover is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless although_unpaid was passed to set_order_status or set_delivery_status.';

create function private.undo_window() returns interval
language sql immutable
return interval '15 seconds';
comment on function private.undo_window is 'How long staff can undo a status change. Its messages are sent afterwards.';

create function private.order_state(order_id uuid) returns jsonb
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

create type public.status_change as (
  change_id uuid,
  undo_seconds integer,
  notifies_customer boolean
);
comment on type public.status_change is
  'A change that undo_status_change can undo within undo_seconds. notifies_customer: a message is sent afterwards.';

create function private.record_status_change(order_id uuid, state_before jsonb) returns public.status_change
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change_id uuid;
  change public.status_change;
begin
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    record_status_change.order_id, (select auth.uid()), now() + private.undo_window(),
    record_status_change.state_before, private.order_state(record_status_change.order_id)
  )
  returning id into change_id;
  change := (
    change_id, extract(epoch from private.undo_window())::integer,
    exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = record_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  )::public.status_change;
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;
comment on function private.record_status_change is
  'Stores what undo_status_change needs. Returns the result of the procedure that made the change.';

create function public.set_order_status(
  order_id uuid, status text, expected_status text, expected_payment_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.orders;
  state_before jsonb;
begin
  perform private.expect_staff('orders');
  select * into changed from public.orders as o where o.id = set_order_status.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif (changed.status, changed.payment_status) is distinct from (set_order_status.expected_status, set_order_status.expected_payment_status) then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.id);
  perform private.state('although_unpaid', set_order_status.although_unpaid);
  update public.orders as o
  set status = set_order_status.status, cancel_reason = case when set_order_status.status = 'cancelled' then 'by_shop' end, updated_at = now()
  where o.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.id, state_before);
end
$$;
comment on function public.set_order_status is
  'For staff: sets the status of an order that still has the expected status and payment status. although_unpaid: consent to hand it over unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message is sent after that time.';

create function private.lock_delivery(delivery_id uuid) returns public.deliveries
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

create function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false, failure_reason text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
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

create function public.undo_status_change(change_id uuid) returns void
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

create table private.ended_pay_links (
  order_id uuid primary key references public.orders (id) on delete cascade,
  ended_at timestamptz not null default now()
);
comment on table private.ended_pay_links is
  'Orders that ended unpaid although staff had given their customers the link. Deleted after a day, or when staff have seen it.';
alter table private.ended_pay_links enable row level security;
create index ended_pay_links_by_time on private.ended_pay_links (ended_at);

create function private.had_pay_link(ended public.orders) returns boolean
language sql stable set search_path = '' as $$
  select ended.source in ('call', 'whatsapp') or exists (
    select from public.order_events as e where e.order_id = ended.id and e.kind = 'pay_link_shown'
  );
$$;
comment on function private.had_pay_link is 'Whether staff gave the customer of an order its link.';

create function public.ended_pay_links() returns table (
  order_id uuid, order_number text, customer_name text, charge_cents integer, ended_at timestamptz
)
language plpgsql stable security definer rows 10 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('orders');
  return query
    select o.id, o.order_number, o.customer_name, o.charge_cents, l.ended_at
    from (
      select * from private.ended_pay_links as recent where recent.ended_at > now() - interval '1 day'
      order by recent.ended_at desc limit 100
    ) as l
    cross join lateral (select * from public.orders as own where own.id = l.order_id offset 0) as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid'
    order by l.ended_at desc;
end
$$;
comment on function public.ended_pay_links is
  'For staff: orders of the last day that ended unpaid although their customers got the link from staff, and that no one has dealt with; the newest first.';

create function public.dismiss_ended_pay_link(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  delete from private.ended_pay_links as l where l.order_id = dismiss_ended_pay_link.order_id or l.ended_at < now() - interval '1 day';
end
$$;
comment on function public.dismiss_ended_pay_link is 'For staff: someone has dealt with an order that ended unpaid. Repeating it changes nothing.';

create type public.pay_link as (tracking_number text, access_key text);
comment on type public.pay_link is 'What the link of an order consists of (domain/orders/order-link.ts).';

create function private.wait_for_pay_link(shown public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  waits_until constant timestamptz := now() + private.pay_link_time();
  held_until timestamptz := shown.reserved_until;
  -- No longer than prompts could have held its units.
  longest_hold constant timestamptz := least(shown.created_at + private.longest_reservation(private.reservation()), waits_until);
begin
  if shown.status <> 'pending' or shown.payment_method = 'cash' or shown.expires_at is null or shown.expires_at >= waits_until then
    return;
  end if;
  if held_until < longest_hold and private.extend_counted_hold(shown.id, longest_hold) then
    held_until := longest_hold;
  end if;
  update public.orders as o
  set expires_at = waits_until, reserved_until = held_until,
      expiry_limit = greatest(o.expiry_limit, private.limit_of_pay_link(waits_until)), updated_at = now()
  where o.id = shown.id;
end
$$;
comment on function private.wait_for_pay_link is
  'An unpaid order waits longer for its payment, because its customer gets the link now. Its units stay held at most for the longest reservation. The caller has locked the order.';

create function public.show_pay_link(order_id uuid) returns public.pay_link
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
