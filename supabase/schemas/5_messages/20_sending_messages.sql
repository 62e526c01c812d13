-- Sending messages: the queue of the outbox and the daily budgets.

create function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
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
  elsif message_facts.kind in ('inquiry_reply', 'test_message') then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  elsif message_facts.kind = 'back_in_stock' then
    -- As above.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    ) || private.stock_alert_facts(message_facts.event_key);
  end if;
  if message_facts.kind = 'job_for_rider' then
    return (select jsonb_build_object(
      'shop', shop, 'tracking_number', o.tracking_number, 'customer_name', o.customer_name, 'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount, 'payment', null, 'failure', null, 'access_key', null,
      'arrival', coalesce(o.promised_again_at, o.promised_at),
      'items', array(
        select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        from public.order_items as i where i.order_id = o.id order by i.position
      ),
      'job', jsonb_build_object(
        'order_number', o.order_number, 'phone', o.customer_phone, 'address', concat_ws(', ', o.shipping_address, o.city),
        'notes', concat_ws('; ', o.delivery_notes, (select d.delivery_notes from public.deliveries as d where d.order_id = o.id)),
        'cash_cents', case when o.payment_status = 'unpaid' then o.charge_cents end
      )
    ) from public.orders as o where o.id = message_facts.order_id);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee, 'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'arrival', case when not o.is_collected then coalesce(o.promised_again_at, o.promised_at) end,
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'code', (select d.proof_code from public.deliveries as d where d.order_id = o.id and private.asks_for_code(d)),
    'payment', (
      select jsonb_build_object(
        'charge_cents', coalesce(part.amount_cents, p.charge_cents), 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', coalesce(part.receipt, p.refund_receipt), 'is_credit', case when p.method = 'credit' then true end
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      left join lateral (
        select c.* from public.change_notes as c where c.payment_id = p.id and c.id::text = message_facts.event_key
      ) as part on true
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          when part.id is not null then true
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. code: what the customer says to the rider, where it is asked for. job: of a text to a rider. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Texts about stock: the product. Replies to inquiries and tests: the shop.';

create type public.leased_message as (
  id uuid, lease uuid, kind text, channel text, recipient text, subject text, body text, facts jsonb, is_verbatim boolean
);
comment on type public.leased_message is
  'subject and body: of the template, or, if is_verbatim, of the message itself. facts: the values of the placeholders (message_facts).';

create function private.due_messages(channel text, most integer) returns setof uuid
language plpgsql
set search_path = ''
-- A plan that was made for an empty queue must not scan or sort a full one.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  return query
    select q.message_id from private.outbox_queue as q
    where q.channel = due_messages.channel and q.due_at <= now()
    order by q.due_at
    limit due_messages.most
    for update skip locked;
end
$$;
comment on function private.due_messages is 'Locks the messages of a channel that have been due for longest, and returns their ids.';

create function public.lease_messages(at_most integer default 10, channel text default null)
returns setof public.leased_message
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  most integer := least(greatest(coalesce(lease_messages.at_most, 10), 1), 100);
  lost uuid[];
  due uuid[];
begin
  if lease_messages.channel is distinct from 'mail' then
    perform private.queue_stock_texts();
  end if;
  -- The process ended while it was sending the message.
  lost := array(
    select m.id from public.outbox_messages as m
    where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    for update skip locked
  );
  if cardinality(lost) > 0 then
    update public.outbox_messages as m
    set status = 'unsure', problem = 'The shop stopped while it was sending this. It may have arrived.', updated_at = now()
    where m.id = any (lost);
  end if;

  due := array(
    select next.message_id
    from unnest(case when lease_messages.channel is null then array['mail', 'text'] else array[lease_messages.channel] end)
      as wanted (channel)
    cross join lateral private.due_messages(wanted.channel, most) as next (message_id)
    limit most
  );
  return query
  with taken as (
    update private.outbox_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid()
    where q.message_id = any (due)
    returning q.message_id, q.lease
  )
  select m.id, taken.lease, m.kind, m.channel, m.recipient,
    case when m.is_verbatim then m.subject else worded.subject end, case when m.is_verbatim then m.body else worded.body end,
    private.message_facts(m.order_id, m.kind, m.event_key), m.is_verbatim
  from taken
  -- With an offset these stay lookups by key: a join could read all messages.
  cross join lateral (select * from public.outbox_messages as m where m.id = taken.message_id offset 0) as m
  left join lateral (
    select * from public.message_templates as t where t.kind = m.kind and t.channel = m.channel offset 0
  ) as worded on true
  where m.is_verbatim or worded.id is not null;
end
$$;
comment on function public.lease_messages is
  'Leases due messages for a minute, of one channel or both, each with its template and values; due texts about stock are queued first. Messages whose process ended while sending them become unsure.';

create function private.given_up(message public.outbox_messages, problem text) returns text
language sql immutable set search_path = '' as $$
  select case
    -- Tried once: its sender waits for the answer.
    when message.kind = 'test_message' then coalesce(given_up.problem, 'No process of the shop sent it in time. Is one running?')
    else 'Given up after a day: ' || coalesce(given_up.problem, 'nothing could be sent in that time')
  end;
$$;

create function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
language plpgsql security definer set search_path = '' as $$
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
  if not message.is_verbatim and not private.is_still_true(message) then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := private.given_up(message, message.problem);
  elsif not message.is_verbatim and not exists (
    select from public.message_templates as t where t.kind = message.kind and t.channel = message.channel and t.is_on
  ) then
    final_status := 'failed';
    reason := 'Messages of this kind are switched off';
  else
    -- Newsletter confirmations have a budget of their own (subscribe_to_newsletter).
    reason := private.take_from_budget(message.channel, message.has_priority or message.kind = 'newsletter_confirmation');
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
comment on function public.begin_message is
  'Marks a leased message as being sent, stores its text and counts it in today''s budget. Returns the number of the attempt; only then may it be sent. Null: another process has it, a day has passed, its template is off, the budget is used up, or it no longer matches the order; then it is deleted.';

create function public.finish_message(
  message_id uuid, attempt integer, outcome text, problem text default null, gateway_reference text default null
) returns text
language plpgsql security definer set search_path = '' as $$
declare
  sent public.outbox_messages;
  next_at timestamptz;
begin
  if finish_message.outcome not in ('sent', 'refused', 'failed', 'unsure') then
    perform private.refuse(400, 'outcome_unknown', 'A message is sent, refused, failed or unsure');
  end if;
  -- A slow process may still report its outcome, unless another attempt has followed.
  select * into sent from public.outbox_messages as m
  where m.id = finish_message.message_id and m.attempts = finish_message.attempt
    and (m.status in ('sending', 'unsure') or (m.status = 'waiting' and finish_message.outcome = 'sent'))
  for update;
  if not found then
    return null;
  end if;
  delete from private.outbox_queue as q where q.message_id = sent.id;
  if finish_message.outcome in ('refused', 'failed') then
    perform private.return_to_budget(sent.channel, sent.sending_since);
  end if;
  if finish_message.outcome = 'refused' then
    next_at := now() + private.back_off(interval '30 seconds', sent.attempts - 1, interval '2 hours');
    if next_at <= sent.give_up_at then
      insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, next_at) on conflict do nothing;
    else
      next_at := null;
    end if;
  end if;
  update public.outbox_messages as m
  set status = case
        when finish_message.outcome <> 'refused' then finish_message.outcome
        when next_at is null then 'failed'
        else 'waiting'
      end,
      next_attempt_at = next_at,
      problem = case
        when finish_message.outcome = 'sent' then null
        when finish_message.outcome = 'refused' and next_at is null
          then private.given_up(sent, coalesce(finish_message.problem, 'refused without a reason'))
        else finish_message.problem
      end,
      gateway_reference = coalesce(finish_message.gateway_reference, m.gateway_reference),
      sent_at = case when finish_message.outcome = 'sent' then now() end, updated_at = now()
  where m.id = sent.id
  returning * into sent;
  return sent.status;
end
$$;
comment on function public.finish_message is
  'Records the outcome of an attempt: sent; refused, to be retried with growing delays for a day; failed; or unsure. Refused and failed messages are returned to the budget. Returns the message''s status, or null if a later attempt has begun.';

create function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff('messages');
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message is waiting already, or was sent in the meantime');
  end if;
  if private.left_of_budget(again.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;
comment on function public.send_message_again is
  'For staff: sends a failed, unsure or over-budget message again, for another day and with the whole daily budget.';

create function private.reason_not_to_repeat(message public.outbox_messages) returns text
language plpgsql stable set search_path = '' as $$
begin
  return case
    when message.kind = 'newsletter_confirmation' then 'its links work once, and the shop keeps no copy of them'
    when message.recipient = '' or message.body is null then 'its recipient and text were erased'
    when message.status <> 'sent' then 'it was not sent yet'
    when exists (
      select from public.outbox_messages as m
      where m.repeat_of = coalesce(message.repeat_of, message.id) and private.is_leaving_message(m.status)
    ) then 'it is being sent again already'
  end;
end
$$;
comment on function private.reason_not_to_repeat is 'Why a message cannot be sent once more, after "because". Null: it can.';

create function public.check_repeat(message_id uuid) returns table (problem text, is_true boolean)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('messages');
  return query
    select private.reason_not_to_repeat(m), private.is_still_true(m) from public.outbox_messages as m where m.id = check_repeat.message_id;
end
$$;
comment on function public.check_repeat is
  'For staff: why a sent message cannot be sent once more (null: it can), and whether what it says is still true.';

create function public.repeat_message(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  first_id uuid;
  sent public.outbox_messages;
  new_id constant uuid := gen_random_uuid();
  reason text;
begin
  perform private.expect_staff('messages');
  select coalesce(m.repeat_of, m.id) into first_id from public.outbox_messages as m where m.id = repeat_message.message_id;
  -- Of two members who repeat it at once, the second one sees the first one's message.
  perform from public.outbox_messages as m where m.id = first_id for update;
  select * into sent from public.outbox_messages as m where m.id = repeat_message.message_id;
  if not found then
    perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
  end if;
  reason := private.reason_not_to_repeat(sent);
  if reason is not null then
    perform private.refuse(409, 'message_not_to_repeat', format('This message cannot be sent again, because %s', reason));
  elsif private.left_of_budget(sent.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', sent.channel || 's'
    ));
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, repeat_of, resent_by
  ) values (
    new_id, sent.order_id, sent.kind, case when sent.order_id is null then sent.event_key else new_id::text end, sent.channel,
    sent.recipient, sent.order_number, sent.tracking_number, sent.customer_name, true, true, sent.subject, sent.body, first_id,
    coalesce(private.email_of((select auth.uid())), 'the shop itself')
  )
  returning * into sent;
  insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, now());
  return sent;
end
$$;
comment on function public.repeat_message is
  'For staff: sends the text of a sent message once more, as a new message that refers to the first (repeat_of), within the daily budget. The screen confirms it, with recipient and text.';

create function public.send_withheld_messages(channel text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  sent integer;
  withheld bigint;
begin
  perform private.expect_staff('messages');
  with chosen as (
    select m.id
    from (values ('mail'), ('text')) as way (channel)
    cross join lateral (
      select m.id from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at, m.id
      -- Further ones stay withheld, so that they do not fail one by one.
      limit least(private.left_of_budget(way.channel), 1000)
      for update
    ) as m
    where send_withheld_messages.channel is null or way.channel = send_withheld_messages.channel
  ), released as (
    update public.outbox_messages as m
    set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
        has_priority = true, resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'), updated_at = now()
    from chosen
    where m.id = chosen.id and m.status = 'over_budget'
    returning m.id, m.channel
  ), queued as (
    insert into private.outbox_queue (message_id, channel, due_at) select r.id, r.channel, now() from released as r
    on conflict do nothing
    returning 1
  )
  select count(*) into sent from queued;
  withheld := coalesce(private.withheld_messages(send_withheld_messages.channel), 0);
  if sent = 0 and withheld > 0 then
    perform private.refuse(409, 'message_budget_used_up',
      'Today''s budget is used up. Raise it under Settings, or send these tomorrow');
  end if;
  return jsonb_build_object('sent', sent, 'withheld', withheld);
end
$$;
comment on function public.send_withheld_messages is
  'For staff: sends the withheld messages of the last week, of one channel or both, the oldest first, as far as today''s budgets allow and at most 1,000 per channel. Returns sent, their number, and withheld, the number of those that stay.';

create function private.withheld_since() returns timestamptz
language sql stable
return now() - interval '7 days';
comment on function private.withheld_since is 'Messages withheld before this time are too old to be sent and counted.';

create function private.withheld_messages(channel text) returns bigint
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*) from public.outbox_messages as m
    where m.status = 'over_budget' and m.recipient <> '' and m.created_at > private.withheld_since()
      and (withheld_messages.channel is null or m.channel = withheld_messages.channel)
  );
end
$$;
comment on function private.withheld_messages is 'Withheld messages of the last week that can still be sent, of one channel or (null) both.';

create function private.daily_budget(channel text) returns integer
language sql stable set search_path = '' as $$
  select case daily_budget.channel when 'text' then s.texts_per_day else s.mails_per_day end from public.store_settings as s;
$$;

create function private.sent_today(channel text) returns integer
language sql stable set search_path = '' as $$
  select coalesce(sum(s.total), 0)::integer from private.messages_sent as s
  where s.day = private.nairobi_day(now()) and s.channel = sent_today.channel;
$$;

create function private.left_of_budget(channel text) returns integer
language sql stable set search_path = '' as $$
  select greatest(0, private.daily_budget(left_of_budget.channel) - private.sent_today(left_of_budget.channel));
$$;
comment on function private.left_of_budget is 'Messages of a channel that today''s budget still allows.';

create function private.sent_without_priority(channel text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*)
    from (
      select m.kind, m.status from public.outbox_messages as m
      where m.channel = sent_without_priority.channel and not m.has_priority
        and m.sending_since >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
      -- Keeps the planner from the index by status, which is of all messages ever sent.
      offset 0
    ) as m
    where m.kind <> 'newsletter_confirmation' and private.may_have_arrived(m.status)
  );
end
$$;
comment on function private.sent_without_priority is
  'Messages of a channel sent today about orders that visitors placed without paying. Those of an order stop counting when it is paid.';

create function private.take_from_budget(channel text, has_priority boolean) returns text
language plpgsql set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  budget integer := private.daily_budget(take_from_budget.channel);
  remaining integer := private.left_of_budget(take_from_budget.channel);
  is_half_used boolean := false;
  parts constant integer := 8;
  taken smallint;
begin
  -- While less than half of the budget is used, so is that of messages without priority. Fewer than 100 are counted at once.
  if not take_from_budget.has_priority and remaining between 1 and budget / 2 + 100 then
    -- Until the end of the transaction no other message without priority of this channel is counted.
    perform pg_advisory_xact_lock(hashtext('messages without priority ' || take_from_budget.channel));
    remaining := private.left_of_budget(take_from_budget.channel);
    is_half_used := private.sent_without_priority(take_from_budget.channel) >= budget / 2;
  end if;
  -- The parts' shares cover this, except after the budget was lowered.
  if remaining = 0 then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  elsif is_half_used then
    return format('Not sent: the half of today''s budget of %ss for visitors who have not paid is used up', take_from_budget.channel);
  end if;
  if not exists (select from private.messages_sent as m where m.day = today and m.channel = take_from_budget.channel) then
    insert into private.messages_sent (day, channel, part)
    select today, take_from_budget.channel, part from generate_series(0, parts - 1) as part on conflict do nothing;
  end if;
  -- Each part has its share of the budget, so that all together never exceed it. A part from which no other message is taken
  -- at the moment comes first.
  select m.part into taken from private.messages_sent as m
  where m.day = today and m.channel = take_from_budget.channel and m.total < (budget + parts - 1 - m.part) / parts
  order by m.total limit 1 for update skip locked;
  if not found then
    select m.part into taken from private.messages_sent as m
    where m.day = today and m.channel = take_from_budget.channel and m.total < (budget + parts - 1 - m.part) / parts
    order by m.total limit 1 for update;
  end if;
  if not found then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  end if;
  update private.messages_sent as counted
  set total = counted.total + 1
  where counted.day = today and counted.channel = take_from_budget.channel and counted.part = taken;
  return null;
end
$$;
comment on function private.take_from_budget is
  'Counts a message in today''s budget. Null: it may be sent; else the reason why not. Half of the budget is reserved for messages with priority.';

create function private.return_to_budget(channel text, taken_at timestamptz) returns void
language sql set search_path = '' as $$
  update private.messages_sent as counted
  set total = counted.total - 1
  where counted.day = private.nairobi_day(return_to_budget.taken_at) and counted.channel = return_to_budget.channel
    and counted.part = (
      select m.part from private.messages_sent as m
      where m.day = private.nairobi_day(return_to_budget.taken_at) and m.channel = return_to_budget.channel
      order by m.total desc limit 1
    );
$$;
comment on function private.return_to_budget is 'Returns a message that was counted and not sent.';

create function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint, reason text
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('messages');
  return query
  select way.channel, private.sent_today(way.channel), private.sent_without_priority(way.channel), private.daily_budget(way.channel),
    private.withheld_messages(way.channel), (
      select m.problem from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at desc limit 1
    )
  from (values ('text'), ('mail')) as way (channel);
end
$$;
comment on function public.message_budgets is
  'For staff: per channel the messages sent today, those caused by visitors who have not paid, the daily budget, the withheld messages of the last week that can still be sent, and why the newest is withheld.';

-- Execution rights
grant execute on function public.send_message_again, public.check_repeat, public.repeat_message, public.send_withheld_messages, public.message_budgets to authenticated, service_role;
grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;
