-- What happened to an order: who, what, when. Written by the database alone, whatever way a change is made.

create table public.order_events (
  id bigint generated always as identity primary key,
  order_id uuid not null,
  kind text not null,
  actor text not null,
  actor_id uuid,
  actor_email text,
  details jsonb not null default '{}',
  happened_at timestamptz not null default clock_timestamp(),
  constraint "a kind of event is known" check (kind in (
    'order_placed', 'status_changed', 'payment_status_changed', 'units_returned', 'units_taken',
    'payment_prompted', 'payment_completed', 'payment_receipt_known', 'payment_failed', 'payment_in_review',
    'payment_unresolved', 'delivery_made', 'delivery_assigned', 'delivery_status_changed'
  )),
  constraint "an actor is known" check (actor in ('staff', 'customer', 'mpesa', 'shop'))
);
comment on table public.order_events is
  'The timeline of every order, in the order of id. Only added to, by triggers. actor_email is the address at that moment.';
-- No reference to orders: it would lock the order's row when a payment's row is locked already, and settlements lock the
-- order first.
comment on column public.order_events.order_id is 'The order. Its events go when it is deleted.';
alter table public.order_events enable row level security;
create index order_events_by_order on public.order_events (order_id, id);

create policy "staff read every order's timeline" on public.order_events
  for select to authenticated using ((select public.is_admin()));
revoke all on public.order_events from anon, authenticated, service_role;
grant select on public.order_events to authenticated, service_role;

create function private.keep_order_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'DELETE' and not exists (select from public.orders as o where o.id = old.order_id) then
    return old;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'The timeline of an order is only added to';
end
$$;
create trigger order_events_stay before update or delete on public.order_events
  for each row execute function private.keep_order_events();
create trigger order_events_stay_all before truncate on public.order_events
  for each statement execute function private.keep_order_events();

create function private.forget_order_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  delete from public.order_events as e where e.order_id = old.id;
  return null;
end
$$;
create trigger orders_take_their_events_along after delete on public.orders
  for each row execute function private.forget_order_events();

create function private.tell_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language sql
set search_path = ''
as $$
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  select
    tell_order_event.order_id,
    tell_order_event.kind,
    case when member.user_id is null then tell_order_event.otherwise else 'staff' end,
    member.user_id,
    member.email,
    jsonb_strip_nulls(tell_order_event.details)
  from (select) as once
  left join (
    select a.user_id, u.email
    from public.admin_profiles as a
    join auth.users as u on u.id = a.user_id
    where a.user_id = (select auth.uid())
  ) as member on true;
$$;
comment on function private.tell_order_event(uuid, text, text, jsonb) is
  'Adds to an order''s timeline. The actor is the member of staff whose request this is, otherwise the one named.';

-- Orders -----------------------------------------------------------------------------------------------------------

alter table public.orders add column units_returned_at timestamptz;
comment on column public.orders.units_returned_at is
  'Once paid: since when its units are in stock again, because it was cancelled before they left. Null while they are its own.';

create function private.tell_order_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    perform private.tell_order_event(new.id, 'order_placed', 'customer', jsonb_build_object('total_amount', new.total_amount));
    return null;
  end if;
  if old.payment_status <> new.payment_status then
    perform private.tell_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_decision') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.tell_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          when new.status = 'cancelled' and new.payment_status = 'unpaid' and old.reserved_until < now() and new.reserved_until is null
            then 'not_paid_in_time'
          when pg_trigger_depth() > 1 then 'delivery'
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.tell_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.tell_order_event(new.id, 'units_taken', 'shop');
  end if;
  return null;
end
$$;
create trigger orders_tell_that_they_were_placed after insert on public.orders
  for each row execute function private.tell_order_events();
create trigger orders_tell_what_happened after update on public.orders
  for each row
  when (
    old.status is distinct from new.status
    or old.payment_status is distinct from new.payment_status
    or (old.reserved_until is null) <> (new.reserved_until is null)
    or (old.units_returned_at is null) <> (new.units_returned_at is null)
  )
  execute function private.tell_order_events();

-- Payments ---------------------------------------------------------------------------------------------------------

create function private.tell_payment_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  payment jsonb := jsonb_build_object('payment_id', new.id, 'phone', new.phone, 'amount', new.amount);
  answer jsonb := jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if tg_op = 'INSERT' then
    perform private.tell_order_event(new.order_id, 'payment_prompted', 'customer', payment);
    if new.status in ('initiating', 'processing') then
      return null;
    end if;
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.tell_order_event(new.order_id, 'payment_receipt_known', 'mpesa', payment || answer);
    end if;
    return null;
  end if;
  if new.status = 'completed' then
    perform private.tell_order_event(new.order_id, 'payment_completed', 'mpesa',
      payment || answer || case when new.needs_refund then '{"needs_refund": true}' else '{}' end::jsonb);
  elsif new.status = 'failed' then
    perform private.tell_order_event(new.order_id, 'payment_failed', 'mpesa', payment || answer);
  elsif new.status = 'review' then
    perform private.tell_order_event(new.order_id, 'payment_in_review', 'mpesa', payment || answer);
  elsif new.status = 'unresolved' then
    perform private.tell_order_event(new.order_id, 'payment_unresolved', 'shop', payment || answer);
  end if;
  return null;
end
$$;
create trigger payments_tell_what_happened after insert or update of status, receipt on public.payments
  for each row execute function private.tell_payment_events();

-- Deliveries -------------------------------------------------------------------------------------------------------

create function private.tell_delivery_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  is_made boolean := tg_op = 'INSERT';
  status_before text := case when is_made then 'pending' else old.delivery_status end;
  courier jsonb := jsonb_build_object('person', new.delivery_person, 'phone', new.delivery_phone, 'vehicle', new.delivery_vehicle);
  is_newly_assigned boolean := new.delivery_person is not null and (is_made
    or (old.delivery_person, old.delivery_phone, old.delivery_vehicle)
      is distinct from (new.delivery_person, new.delivery_phone, new.delivery_vehicle));
begin
  if is_made then
    perform private.tell_order_event(new.order_id, 'delivery_made', 'shop');
  end if;
  if is_newly_assigned then
    perform private.tell_order_event(new.order_id, 'delivery_assigned', 'shop',
      courier || jsonb_build_object('instead_of', case when not is_made then nullif(old.delivery_person, new.delivery_person) end));
  end if;
  -- That it is assigned is told by whom it is assigned to.
  if new.delivery_status <> status_before and not (is_newly_assigned and new.delivery_status = 'assigned') then
    perform private.tell_order_event(new.order_id, 'delivery_status_changed', 'shop',
      jsonb_build_object('from', status_before, 'to', new.delivery_status));
  end if;
  return null;
end
$$;
-- Told before the order moves with it: triggers run in the order of their names.
create trigger deliveries_have_happened
  after insert or update of delivery_status, delivery_person, delivery_phone, delivery_vehicle on public.deliveries
  for each row execute function private.tell_delivery_events();

-- What is known of orders from before this ---------------------------------------------------------------------------

insert into public.order_events (order_id, kind, actor, details, happened_at)
select known.order_id, known.kind, known.actor, jsonb_strip_nulls(known.details), known.happened_at
from (
  select 1 as step, o.id as order_id, 'order_placed' as kind, 'customer' as actor,
    jsonb_build_object('total_amount', o.total_amount) as details, o.created_at as happened_at
  from public.orders as o
  union all
  select 2, p.order_id, 'payment_prompted', 'customer',
    jsonb_build_object('payment_id', p.id, 'phone', p.phone, 'amount', p.amount), p.created_at
  from public.payments as p
  union all
  select 3, p.order_id,
    case p.status
      when 'completed' then 'payment_completed'
      when 'failed' then 'payment_failed'
      when 'review' then 'payment_in_review'
      else 'payment_unresolved'
    end,
    case p.status when 'unresolved' then 'shop' else 'mpesa' end,
    jsonb_build_object(
      'payment_id', p.id, 'phone', p.phone, 'amount', p.amount, 'result_code', p.result_code,
      'result_description', p.result_description, 'receipt', p.receipt,
      'needs_refund', case when p.needs_refund then true end
    ),
    coalesce(p.completed_at, p.updated_at)
  from public.payments as p
  where p.status not in ('initiating', 'processing')
  union all
  select 4, o.id, 'payment_status_changed', 'mpesa', jsonb_build_object('to', o.payment_status),
    coalesce((select max(p.completed_at) from public.payments as p where p.order_id = o.id and not p.needs_refund), o.updated_at)
  from public.orders as o
  where o.payment_status <> 'unpaid'
  union all
  select 5, d.order_id, 'delivery_made', 'shop', '{}', d.created_at
  from public.deliveries as d
  union all
  select 6, d.order_id, 'delivery_assigned', 'shop',
    jsonb_build_object('person', d.delivery_person, 'phone', d.delivery_phone, 'vehicle', d.delivery_vehicle),
    coalesce(d.pickup_time, d.delivery_time, d.updated_at)
  from public.deliveries as d
  where d.delivery_person is not null
  union all
  select 7, d.order_id, 'delivery_status_changed', 'shop', jsonb_build_object('to', d.delivery_status),
    coalesce(case d.delivery_status when 'picked_up' then d.pickup_time when 'delivered' then d.delivery_time end, d.updated_at)
  from public.deliveries as d
  where d.delivery_status not in ('pending', 'assigned')
  union all
  select 8, o.id, 'status_changed', 'shop', jsonb_build_object('to', o.status), o.updated_at
  from public.orders as o
  where o.status <> 'pending'
) as known
order by known.happened_at, known.step;
