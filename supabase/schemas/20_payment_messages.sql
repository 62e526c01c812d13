-- Payment messages: every message of M-PESA about money.

create table public.payment_messages (
  id bigint generated always as identity primary key,
  payment_id uuid references public.payments (id) on delete cascade,
  source text not null,
  source_address text,
  body text not null,
  outcome text,
  received_at timestamptz not null default now(),
  receipt text,
  refund_id uuid references public.refunds (id) on delete cascade,
  constraint "a message has a known source" check (source in (
    'push', 'callback', 'query', 'till', 'confirmation', 'statement',
    'reversal', 'reversal_result', 'reversal_timeout', 'status_query', 'status_result'
  ))
);
comment on table public.payment_messages is 'M-PESA''s messages about money, verbatim, stored before they are processed.';
comment on column public.payment_messages.receipt is
  'Receipt that the message names. A message moves with its receipt to another payment.';
alter table public.payment_messages enable row level security;
grant select on public.payment_messages to authenticated;
create policy "staff read every payment message" on public.payment_messages
  for select to authenticated using ((select public.is_admin()));
create index payment_messages_by_payment on public.payment_messages (payment_id);
create index payment_messages_unprocessed on public.payment_messages (id) where source = 'confirmation' and outcome is null;
create index payment_messages_not_settled on public.payment_messages (id) where outcome = 'error';
create index payment_messages_by_refund on public.payment_messages (refund_id) where refund_id is not null;
create index payment_messages_latest_by_source on public.payment_messages (source, id desc);
create index payment_messages_with_bodies on public.payment_messages (received_at) where body <> '{}';
create index payment_messages_that_decided_nothing on public.payment_messages (received_at)
  where source = 'query' and outcome = 'pending';

create function public.store_failed_callback(payment_id uuid, body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (payment_id, source, body, source_address, outcome)
  values (payment_id, 'callback', body, source_address, 'error')
  returning id;
$$;
comment on function public.store_failed_callback is
  'Stores a callback that could not be settled, to process it again later: M-PESA sends it once.';

create function public.list_failed_callbacks(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.outcome = 'error' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_failed_callbacks.at_most;
$$;
comment on function public.list_failed_callbacks is 'Stored callbacks that could not be settled yet.';

create function public.finish_failed_callback(message_id bigint) returns void
language sql volatile security definer set search_path = '' as $$
  update public.payment_messages as m set outcome = 'settled_later' where m.id = finish_failed_callback.message_id and m.outcome = 'error';
$$;
comment on function public.finish_failed_callback is 'Marks a failed callback as settled; its settlement stored another message.';

-- Execution rights
grant execute on function public.store_failed_callback, public.list_failed_callbacks, public.finish_failed_callback
  to service_role;
