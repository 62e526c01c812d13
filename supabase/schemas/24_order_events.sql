-- Order events: the timeline of an order. Triggers write them for changes of any origin.

create table public.order_events (
  id bigint generated always as identity primary key,
  order_id uuid not null,
  kind text not null,
  actor text not null,
  actor_id uuid,
  actor_email text,
  details jsonb not null default '{}',
  happened_at timestamptz not null default clock_timestamp(),
  constraint "an actor is known" check (actor in ('staff', 'customer', 'mpesa', 'shop')),
  constraint "a kind of event is known" check (kind in (
    'order_placed', 'status_changed', 'payment_status_changed', 'units_taken', 'units_returned',
    'payment_prompted', 'payment_completed', 'payment_failed', 'payment_in_review', 'payment_unresolved',
    'payment_receipt_known', 'payment_corrected',
    'delivery_made', 'delivery_assigned', 'delivery_status_changed',
    'refund_requested', 'refund_approved', 'refund_withdrawn', 'refund_sent', 'refund_unknown', 'refund_failed',
    'refund_completed', 'refund_sent_twice', 'refund_sent_twice_seen'
  ))
);
comment on table public.order_events is
  'The timeline of every order, ordered by id. Append-only. actor_email: the email address at that time.';
alter table public.order_events enable row level security;
revoke all on public.order_events from anon, authenticated, service_role;
grant select on public.order_events to authenticated, service_role;
create policy "staff read every order's timeline" on public.order_events
  for select to authenticated using ((select public.is_admin()));
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

create function private.record_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language plpgsql set search_path = '' as $$
begin
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  select
    order_id,
    kind,
    case when member.user_id is null then otherwise else 'staff' end,
    member.user_id,
    member.email,
    jsonb_strip_nulls(details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  from (select) as once
  left join (
    select a.user_id, u.email
    from public.admin_profiles as a
    join auth.users as u on u.id = a.user_id
    where a.user_id = (select auth.uid())
  ) as member on true;
end
$$;
comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the calling staff member, else otherwise.';

create function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.id is null then
    perform private.record_order_event(new.id, 'order_placed', 'customer', jsonb_build_object(
      'total_amount', new.total_amount,
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    return;
  end if;
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_review') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          -- Only expire_reservations empties expires_at.
          when new.status = 'cancelled' and new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null
            then 'not_paid_in_time'
          when pg_trigger_depth() > 1 then 'delivery'
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
  result jsonb := jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(new.order_id, 'payment_prompted', 'customer', payment);
    if new.status in ('initiating', 'processing') then
      return;
    end if;
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', payment || result);
    end if;
    return;
  end if;
  if new.status = 'completed' then
    perform private.record_order_event(new.order_id, 'payment_completed', 'mpesa',
      payment || result || case when new.needs_refund then '{"needs_refund": true}' else '{}' end::jsonb);
  elsif new.status = 'failed' then
    perform private.record_order_event(new.order_id, 'payment_failed', 'mpesa', payment || result);
  elsif new.status = 'review' then
    perform private.record_order_event(new.order_id, 'payment_in_review', 'mpesa', payment || result);
  elsif new.status = 'unresolved' then
    perform private.record_order_event(new.order_id, 'payment_unresolved', 'shop', payment || result);
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
      jsonb_build_object('from', status_before, 'to', new.delivery_status));
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
    case when new.status in ('completed', 'failed') then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'refund_cents', new.refund_cents, 'method', new.method, 'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end,
      'result_code', case when new.status in ('failed', 'unknown') then new.result_code end,
      'result_description', case when new.status in ('failed', 'unknown') then new.result_description end
    )
  );
end
$$;

create trigger order_events_before_change before update or delete on public.order_events
  for each row execute function private.refuse_order_event_change();
create trigger order_events_before_truncate before truncate on public.order_events
  for each statement execute function private.refuse_order_event_change();
