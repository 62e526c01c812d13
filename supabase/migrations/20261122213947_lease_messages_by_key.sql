create or replace function public.lease_messages(at_most integer default 10, channel text default null) returns setof jsonb
language plpgsql security definer
set search_path = ''
-- A plan that was made for an empty queue must not scan or sort a full one.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  most integer := least(greatest(coalesce(lease_messages.at_most, 10), 1), 100);
  lost uuid[];
  due uuid[];
begin
  -- The process that was sending it has died: it may have left.
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
    cross join lateral (
      select q.message_id from private.outbox_queue as q
      where q.channel = wanted.channel and q.due_at <= now()
      order by q.due_at
      limit most
      for update skip locked
    ) as next
    limit most
  );
  return query
  with taken as (
    -- A process that dies before it begins the message delays it by a minute.
    update private.outbox_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid()
    where q.message_id = any (due)
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
  -- With an offset these stay lookups by key: a join could read all messages.
  cross join lateral (select * from public.outbox_messages as m where m.id = taken.message_id offset 0) as m
  cross join lateral (
    select * from public.message_templates as t where t.kind = m.kind and t.channel = m.channel offset 0
  ) as worded;
end
$$;

comment on function public.lease_messages(integer, text) is
  'Messages to send now, of one channel or of both, each reserved for the caller for a minute, with their template and the facts that fill it. Messages whose process died while sending them become unsure.';

grant execute on function public.lease_messages(integer, text) to service_role;
