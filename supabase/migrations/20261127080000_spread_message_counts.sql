-- Messages that are sent concurrently waited for one row per day and channel. Today's counts are spread over the parts, too.
alter table private.messages_sent drop constraint "one count per day and channel";
alter table private.messages_sent add column part smallint;
insert into private.messages_sent (day, channel, total, part)
select s.day, s.channel, (s.total + 7 - p) / 8, p from private.messages_sent as s cross join generate_series(0, 7) as p;
delete from private.messages_sent where part is null;
alter table private.messages_sent alter column part set not null;
alter table private.messages_sent add constraint "one count per day, channel and part" primary key (day, channel, part);

comment on table private.messages_sent is
  'Messages sent per day in Nairobi and channel, in parts, so that messages that are sent concurrently do not wait for one row. Resent messages count again, refused ones do not.';

comment on column private.messages_sent.total is 'Negative where more was returned to this part than was taken from it.';

create or replace function private.sent_today(channel text) returns integer
language sql stable set search_path = '' as $$
  select coalesce(sum(s.total), 0)::integer from private.messages_sent as s
  where s.day = private.nairobi_day(now()) and s.channel = sent_today.channel;
$$;

create or replace function private.left_of_budget(channel text) returns integer
language sql stable set search_path = '' as $$
  select greatest(0, private.daily_budget(left_of_budget.channel) - private.sent_today(left_of_budget.channel));
$$;

comment on function private.left_of_budget is 'Messages of a channel that today''s budget still allows.';

create or replace function private.take_from_budget(channel text, has_priority boolean) returns text
language plpgsql set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  budget integer := private.daily_budget(take_from_budget.channel);
  parts constant integer := 8;
  taken smallint;
begin
  if not take_from_budget.has_priority then
    -- Until the end of the transaction no other message without priority of this channel is counted.
    perform pg_advisory_xact_lock(hashtext('messages without priority ' || take_from_budget.channel));
  end if;
  -- The parts' shares cover this, except after the budget was lowered.
  if private.left_of_budget(take_from_budget.channel) = 0 then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  elsif not take_from_budget.has_priority and private.sent_without_priority(take_from_budget.channel) >= budget / 2 then
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

create or replace function private.return_to_budget(channel text, taken_at timestamptz) returns void
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

create or replace function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint, reason text
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
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
