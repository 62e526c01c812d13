-- Changes of a status by staff: unpaid orders are handed over only with consent, refunded ones never, and for 15 seconds a change
-- can be undone and its message to the customer is held back.

-- Handing over ---------------------------------------------------------------------------------------------------------------

create function private.check_handover() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  -- The customer sees both as out for delivery: the second is no other step.
  if private.told_status(old.status) = private.told_status(new.status) then
    return new;
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
  return new;
end
$$;
comment on function private.check_handover() is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless set_order_status or set_delivery_status was called with although_unpaid.';
-- By its name after the trigger that holds an order whose refund is under way, and before the one that takes units.
create trigger orders_leave_the_shop_paid before update of status on public.orders
  for each row
  when (
    new.payment_status <> 'paid'
    and old.status <> new.status
    and new.status in ('shipped', 'out_for_delivery', 'delivered')
  )
  execute function private.check_handover();

-- Messages that wait until the change can no longer be undone ------------------------------------------------------------------

create function private.undo_time() returns interval
language sql immutable
set search_path = ''
return interval '15 seconds';
comment on function private.undo_time() is 'How long staff can undo a change of a status. Its messages leave afterwards.';

create function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable
set search_path = ''
as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.told_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;
comment on function private.is_message_true(uuid, text) is
  'Whether the order still has the status that a message of this kind reports. Null without an order.';

drop function private.add_to_outbox(public.orders, text, text, text, text);
create function private.add_to_outbox(
  ordered public.orders,
  kind text,
  occasion text,
  channel text,
  recipient text,
  due_at timestamptz
) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  -- All other kinds follow a payment or a change made by staff.
  has_priority boolean := add_to_outbox.kind <> 'order_received';
  problem text;
  added uuid;
begin
  -- The next prompt for an order counts for no limit: its customer has been notified.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.occasion = add_to_outbox.occasion and m.channel = add_to_outbox.channel;
  if found then
    -- Set again before the message left: the last change can be undone for as long as the first.
    if add_to_outbox.due_at > now() then
      update public.outbox_messages as m set next_attempt_at = add_to_outbox.due_at
      where m.id = added and m.status = 'waiting' and m.attempts = 0;
      if found then
        update private.outbox_queue as q set due_at = add_to_outbox.due_at, lease = null where q.message_id = added;
      end if;
    end if;
    return;
  end if;
  if not has_priority then
    -- The network first: what a network over its limit causes does not use up the recipient's limit.
    problem := case
      when not private.count_call(case add_to_outbox.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
        then 'Not sent: too many unpaid orders from one network today'
      when private.count_hit('unpaid_orders_of_recipient', lower(add_to_outbox.recipient), interval '1 hour') > 5
        then 'Not sent: too many unpaid orders for this recipient in one hour'
    end;
  end if;
  insert into public.outbox_messages (
    order_id, kind, occasion, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.occasion, add_to_outbox.channel, add_to_outbox.recipient,
    ordered.order_number, ordered.tracking_number, ordered.customer_name,
    has_priority,
    case when problem is null then 'waiting' else 'over_budget' end,
    case when problem is null then add_to_outbox.due_at end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, add_to_outbox.due_at);
  end if;
end
$$;
comment on function private.add_to_outbox(public.orders, text, text, text, text, timestamptz) is
  'Adds one message of an order to the outbox, once per order, kind, occasion and channel; it leaves at due_at. Messages about unpaid orders are kept back (over_budget) above the limits of the caller''s networks and above five per recipient and hour.';

drop function private.queue_order_messages(uuid, text, text, text[]);
create function private.queue_order_messages(
  order_id uuid,
  kind text,
  occasion text default '',
  channels text[] default array['mail', 'text'],
  due_at timestamptz default now()
) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  ordered public.orders;
begin
  select * into ordered from public.orders as o where o.id = queue_order_messages.order_id;
  perform private.add_to_outbox(
    ordered, queue_order_messages.kind, coalesce(queue_order_messages.occasion, ''), way.channel, way.recipient,
    queue_order_messages.due_at
  )
  from (values ('mail', ordered.customer_email), ('text', ordered.customer_phone)) as way (channel, recipient)
  join public.message_templates as template
    on template.kind = queue_order_messages.kind and template.channel = way.channel and template.is_on
  where way.recipient <> '' and way.channel = any (queue_order_messages.channels);
exception when others then
  -- The order has changed, whether or not its customer can be notified.
  raise warning 'no message % of order % could be put into the outbox: %',
    queue_order_messages.kind, queue_order_messages.order_id, sqlerrm;
end
$$;
comment on function private.queue_order_messages(uuid, text, text, text[], timestamptz) is
  'Adds the messages of a kind to the outbox, one per channel whose template is switched on. They leave at due_at. Never fails.';

create or replace function private.tell_customer() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid');
    elsif new.payment_status = 'needs_decision' then
      perform private.queue_order_messages(new.id, 'order_payment_held');
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_time());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_time());
    end if;
  end if;
  return null;
end
$$;

create or replace function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  message public.outbox_messages;
  final_status text;
  reason text;
  attempt integer;
begin
  select * into message from public.outbox_messages as m where m.id = begin_message.message_id for update;
  delete from private.outbox_queue as q where q.message_id = begin_message.message_id and q.lease = begin_message.lease;
  if not found or message.status <> 'waiting' then
    return null;
  end if;
  if message.order_id is not null and not private.is_message_true(message.order_id, message.kind) then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := 'Given up after a day: ' || coalesce(message.problem, 'nothing could be sent in that time');
  elsif not exists (
    select from public.message_templates as t where t.kind = message.kind and t.channel = message.channel and t.is_on
  ) then
    final_status := 'failed';
    reason := 'Messages of this kind are switched off';
  else
    reason := private.take_from_budget(message.channel, message.has_priority);
    final_status := case when reason is not null then 'over_budget' end;
  end if;
  if final_status is not null then
    update public.outbox_messages as m
    set status = final_status, next_attempt_at = null, problem = reason, updated_at = now()
    where m.id = message.id;
    return null;
  end if;
  update public.outbox_messages as m
  set status = 'sending', attempts = m.attempts + 1, sending_since = now(), next_attempt_at = null,
      subject = begin_message.subject, body = begin_message.body, updated_at = now()
  where m.id = message.id
  returning m.attempts into attempt;
  return attempt;
end
$$;
comment on function public.begin_message(uuid, uuid, text, text) is
  'Marks a leased message as being sent, with the words it is sent with, and counts it in today''s budget. Returns the number of the attempt; only then may the caller send it. Null: another process has it, a day is over, its kind is switched off, the budget is used up, or the order no longer has the status that it reports; then the message is deleted.';

-- Undo -----------------------------------------------------------------------------------------------------------------------

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

create function private.order_state(order_id uuid) returns jsonb
language sql stable
set search_path = ''
as $$
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
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  change_id uuid;
begin
  -- Rows that another request holds are deleted by the next one: nobody waits for this.
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
      where m.order_id = remember_status_change.order_id and m.kind in ('order_on_its_way', 'order_delivered')
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  );
end
$$;
comment on function private.remember_status_change(uuid, jsonb) is
  'Keeps what undo_status_change needs, in the transaction of the change. Returns the answer of the procedure that made it.';

create function public.set_order_status(
  order_id uuid,
  status text,
  expected_status text,
  expected_payment_status text,
  although_unpaid boolean default false
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
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
comment on function public.set_order_status(uuid, text, text, text, boolean) is
  'For staff: sets the status of an order that still has the expected status and payment status; although_unpaid is the consent to ship or deliver it unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message leaves after that time.';

create function public.set_delivery_status(
  delivery_id uuid,
  status text,
  expected_status text,
  although_unpaid boolean default false
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
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
comment on function public.set_delivery_status(uuid, text, text, boolean) is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. although_unpaid and the answer are those of set_order_status.';

create function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer
set search_path = ''
as $$
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
      and m.kind in ('order_on_its_way', 'order_delivered')
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
comment on function public.undo_status_change(uuid) is
  'For the staff member who made a change: restores the status of the order and its delivery, times included, and withdraws the message. Refuses once the time is over, the message has left, or the order has changed again.';
grant execute on function
  public.set_order_status(uuid, text, text, text, boolean),
  public.set_delivery_status(uuid, text, text, boolean),
  public.undo_status_change(uuid)
to authenticated, service_role;

-- What follows a change otherwise, an undo sets by itself -----------------------------------------------------------------------

create or replace function private.tell_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
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
    jsonb_strip_nulls(tell_order_event.details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and tell_order_event.kind = 'status_changed'
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
$$;

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
    if current_setting('private.is_undoing', true) = 'yes' then
      return new;
    end if;
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

drop trigger deliveries_move_orders on public.deliveries;
create trigger deliveries_move_orders after update of delivery_status on public.deliveries
  for each row
  when (
    old.delivery_status is distinct from new.delivery_status
    and current_setting('private.is_undoing', true) is distinct from 'yes'
  )
  execute function private.move_order_with_delivery();
drop trigger orders_then_move_their_delivery on public.orders;
create trigger orders_then_move_their_delivery after update of status on public.orders
  for each row
  when (
    old.status is distinct from new.status
    and current_setting('private.is_undoing', true) is distinct from 'yes'
  )
  execute function private.move_delivery_with_order();
