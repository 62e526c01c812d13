-- Placing an order sends nothing, so that a stranger cannot text and mail other people by ordering in their names. The link
-- to an unpaid order leaves with the first M-PESA prompt. How many such messages a network can cause per day is limited.

insert into private.limits (name, allowed, within) values
  ('unpaid_order_texts', 10, '1 day'),
  ('unpaid_order_mails', 20, '1 day');

alter table public.outbox_messages
  add column has_priority boolean not null default false,
  drop constraint "a message status is known",
  add constraint "a message status is known"
    check (status in ('waiting', 'sending', 'sent', 'failed', 'unsure', 'over_budget'));
comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget. False for messages that a visitor can cause without paying: they may use half of it.';
comment on table public.outbox_messages is
  'Messages to customers and their status. sending: being handed over. unsure: it may have left, so only staff send it again. over_budget: a limit or a daily budget kept it back; staff may send it later. subject and body are those of the last attempt.';
update public.outbox_messages as m set has_priority = true where m.kind <> 'order_received';

create function private.add_to_outbox(ordered public.orders, kind text, occasion text, channel text, recipient text) returns void
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
  if exists (
    select from public.outbox_messages as m
    where m.order_id = ordered.id and m.kind = add_to_outbox.kind
      and m.occasion = add_to_outbox.occasion and m.channel = add_to_outbox.channel
  ) then
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
    case when problem is null then now() end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, now());
  end if;
end
$$;
comment on function private.add_to_outbox(public.orders, text, text, text, text) is
  'Adds one message of an order to the outbox, once per order, kind, occasion and channel. Messages about unpaid orders are kept back (over_budget) above the limits of the caller''s networks and above five per recipient and hour.';

-- Each channel has its own queue: many mails that wait do not slow down taking the next texts.
alter table private.outbox_queue add column channel text;
update private.outbox_queue as q set channel = m.channel from public.outbox_messages as m where m.id = q.message_id;
alter table private.outbox_queue alter column channel set not null;
create index outbox_queue_by_channel_and_due_time on private.outbox_queue (channel, due_at);
drop index private.outbox_queue_by_due_time;

drop function private.queue_order_messages(uuid, text, text);
create function private.queue_order_messages(
  order_id uuid,
  kind text,
  occasion text default '',
  channels text[] default array['mail', 'text']
) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  ordered public.orders;
begin
  select * into ordered from public.orders as o where o.id = queue_order_messages.order_id;
  perform private.add_to_outbox(ordered, queue_order_messages.kind, coalesce(queue_order_messages.occasion, ''), way.channel, way.recipient)
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
comment on function private.queue_order_messages(uuid, text, text, text[]) is
  'Adds the messages of a kind to the outbox, one per channel whose template is switched on. Never fails.';

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
      perform private.queue_order_messages(new.id, 'order_on_its_way');
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered');
    end if;
  end if;
  return null;
end
$$;
drop trigger orders_tell_customers_that_they_came on public.orders;

create function private.send_link_with_prompt() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.queue_order_messages(
    new.order_id,
    'order_received',
    channels => case
      -- Another phone than the one that rings gets no text: it may be a stranger's.
      when new.phone = (select o.customer_phone from public.orders as o where o.id = new.order_id) then array['mail', 'text']
      else array['mail']
    end
  );
  return null;
end
$$;
create trigger payments_send_the_link_to_their_order after insert on public.payments
  for each row
  when (new.method = 'prompt' and new.status = 'initiating')
  execute function private.send_link_with_prompt();
