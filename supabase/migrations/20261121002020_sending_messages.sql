-- Sending what waits in the outbox: taken by one process at a time, marked before it leaves, and never sent twice by itself.

create function private.message_facts(order_id uuid, kind text, occasion text) returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return (select jsonb_build_object(
    'shop', (
      select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
      from public.store_settings as s
    ),
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', coalesce((
      select jsonb_agg(
        jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = o.id
    ), '[]'::jsonb),
    'payment', (
      select jsonb_build_object(
        'amount', p.amount, 'receipt', p.receipt, 'paid_at', p.completed_at,
        -- Known once money can be sent back.
        'refund_receipt', to_jsonb(p) ->> 'refund_receipt'
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.occasion = '' then not p.needs_refund
          -- A payment that was entered twice becomes one; its refund stays.
          else exists (select from public.refunds as r where r.id::text = message_facts.occasion and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;
comment on function private.message_facts(uuid, text, text) is
  'What the placeholders of a message stand for. payment is the one that paid the order, or the one whose refund the occasion names.';

create function public.lease_messages(at_most integer default 10, channel text default null) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- Whoever was sending it is gone: it may have left.
  with lost as (
    select m.id from public.outbox_messages as m
    where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    for update skip locked
  )
  update public.outbox_messages as m
  set status = 'unsure', problem = 'The shop stopped while it was sending this. It may have arrived.', updated_at = now()
  from lost
  where m.id = lost.id;

  with late as (
    select m.id, not coalesce(worded.is_on, false) as is_off
    from public.outbox_messages as m
    left join public.message_templates as worded on worded.kind = m.kind and worded.channel = m.channel
    where m.status = 'waiting' and (m.give_up_at < now() or not coalesce(worded.is_on, false))
    for update of m skip locked
  ), given_up as (
    update public.outbox_messages as m
    set status = 'failed', next_attempt_at = null, updated_at = now(),
        problem = case
          when late.is_off then 'Messages of this kind are switched off'
          else 'Given up after a day: ' || coalesce(m.problem, 'nothing could be sent meanwhile')
        end
    from late
    where m.id = late.id
    returning m.id
  )
  delete from private.outbox_queue as q using given_up where q.message_id = given_up.id;

  return query
  with due as (
    select q.message_id from private.outbox_queue as q
    join public.outbox_messages as m on m.id = q.message_id
    where q.due_at <= now() and (lease_messages.channel is null or m.channel = lease_messages.channel)
    order by q.due_at
    limit least(greatest(coalesce(lease_messages.at_most, 10), 1), 100)
    for update of q skip locked
  ), taken as (
    -- Who takes it and then stops before sending it has kept it from the others for a minute, no longer.
    update private.outbox_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid()
    from due
    where q.message_id = due.message_id
    returning q.message_id, q.lease
  )
  select jsonb_build_object(
    'id', m.id,
    'lease', taken.lease,
    'kind', m.kind,
    'channel', m.channel,
    'recipient', m.recipient,
    'template', jsonb_build_object('subject', worded.subject, 'body', worded.body),
    'facts', private.message_facts(m.order_id, m.kind, m.occasion)
  )
  from taken
  join public.outbox_messages as m on m.id = taken.message_id
  join public.message_templates as worded on worded.kind = m.kind and worded.channel = m.channel;
end
$$;
comment on function public.lease_messages(integer, text) is
  'Messages to send now, of one channel or of both, each to one caller for a minute, with their template and what it is filled with. What was being sent when its process died becomes unsure; what could not be sent for a day is given up.';

create function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt integer;
begin
  perform from public.outbox_messages as m where m.id = begin_message.message_id for update;
  delete from private.outbox_queue as q where q.message_id = begin_message.message_id and q.lease = begin_message.lease;
  if not found then
    return null;
  end if;
  update public.outbox_messages as m
  set status = 'sending', attempts = m.attempts + 1, sending_since = now(), next_attempt_at = null,
      subject = begin_message.subject, body = begin_message.body, updated_at = now()
  where m.id = begin_message.message_id and m.status = 'waiting'
  returning m.attempts into attempt;
  return attempt;
end
$$;
comment on function public.begin_message(uuid, uuid, text, text) is
  'Marks a leased message as being sent, with the words it is sent with. Only who gets a number of the attempt back may send it; null means that somebody else has it.';

create function public.finish_message(
  message_id uuid,
  attempt integer,
  outcome text,
  problem text default null,
  gateway_reference text default null
) returns text
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  sent public.outbox_messages;
  next_at timestamptz;
begin
  if finish_message.outcome not in ('sent', 'refused', 'failed', 'unsure') then
    perform private.refuse(400, 'outcome_unknown', 'A message is sent, refused, failed or unsure');
  end if;
  -- Who was slow may still say how it ended; an attempt that another one followed has nothing to say any more.
  select * into sent from public.outbox_messages as m
  where m.id = finish_message.message_id and m.attempts = finish_message.attempt
    and (m.status in ('sending', 'unsure') or (m.status = 'waiting' and finish_message.outcome = 'sent'))
  for update;
  if not found then
    return null;
  end if;
  delete from private.outbox_queue as q where q.message_id = sent.id;
  if finish_message.outcome = 'refused' then
    next_at := now() + least(interval '30 seconds' * power(2, least(sent.attempts - 1, 10)), interval '2 hours');
    if next_at <= sent.give_up_at then
      insert into private.outbox_queue (message_id, due_at) values (sent.id, next_at) on conflict do nothing;
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
          then 'Given up after a day: ' || coalesce(finish_message.problem, 'refused without a reason')
        else finish_message.problem
      end,
      gateway_reference = coalesce(finish_message.gateway_reference, m.gateway_reference),
      sent_at = case when finish_message.outcome = 'sent' then now() end,
      updated_at = now()
  where m.id = sent.id
  returning * into sent;
  return sent.status;
end
$$;
comment on function public.finish_message(uuid, integer, text, text, text) is
  'Notes how an attempt to send a message ended: sent; refused, to be tried again after a growing while until a day is over; failed for good; or unsure whether it left. Gives the status it has now, null when the attempt is not the last one any more.';
grant execute on function
  public.lease_messages(integer, text),
  public.begin_message(uuid, uuid, text, text),
  public.finish_message(uuid, integer, text, text, text)
to service_role;

create index outbox_messages_under_way on public.outbox_messages (status) where status in ('waiting', 'sending');
