-- Messages to customers: put into the outbox in the transaction of what they tell, and sent afterwards by the shop's jobs.

create table public.outbox_messages (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null,
  kind text not null,
  occasion text not null default '',
  channel text not null,
  recipient text not null,
  order_number text not null,
  tracking_number text not null,
  customer_name text not null,
  status text not null default 'waiting',
  attempts integer not null default 0,
  subject text,
  body text,
  problem text,
  next_attempt_at timestamptz default now(),
  give_up_at timestamptz not null default now() + interval '1 day',
  sending_since timestamptz,
  sent_at timestamptz,
  gateway_reference text,
  resent_by text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a customer is told once of each occasion" unique (order_id, kind, occasion, channel),
  constraint "a kind of message is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded'
  )),
  constraint "a message goes by mail or as a text" check (channel in ('mail', 'text')),
  constraint "a message status is known" check (status in ('waiting', 'sending', 'sent', 'failed', 'unsure')),
  constraint "only what waits is tried again" check ((next_attempt_at is not null) = (status = 'waiting'))
);
comment on table public.outbox_messages is
  'What customers are told, and what became of it. sending: handed over right now. unsure: it may have left, so that only a person sends it again. subject and body are those of the last attempt.';
-- No reference to orders: it would lock the order's row, and a message must never make a payment wait.
comment on column public.outbox_messages.order_id is 'The order. Its messages go when it is deleted.';
comment on column public.outbox_messages.occasion is
  'Tells messages of one kind and order apart: empty, or the id of the refund by which a payment was sent back.';
comment on column public.outbox_messages.recipient is 'A mail address, or a phone as +254….';
comment on column public.outbox_messages.gateway_reference is 'The id that the text message gateway gave it.';
comment on column public.outbox_messages.resent_by is 'The mail address of the member of staff who had it sent again.';
alter table public.outbox_messages enable row level security;
create index outbox_messages_newest_first on public.outbox_messages (created_at desc, id desc);
create index outbox_messages_of_a_status_newest_first on public.outbox_messages (status, created_at desc, id desc);

create policy "staff read every message" on public.outbox_messages
  for select to authenticated using ((select public.is_admin()));
grant select on public.outbox_messages to authenticated;
-- As of the other tables that staff screens follow: the live service tells visitors nothing of them.
grant select (id) on public.outbox_messages to anon;

do $$
begin
  if exists (select from pg_publication where pubname = 'supabase_realtime')
    and not exists (
      select from pg_publication_tables
      where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = 'outbox_messages'
    )
  then
    alter publication supabase_realtime add table public.outbox_messages;
  end if;
end
$$;

create table private.outbox_queue (
  message_id uuid primary key references public.outbox_messages (id) on delete cascade,
  due_at timestamptz not null,
  lease uuid
);
comment on table private.outbox_queue is
  'The messages that wait, and since when or until when. Apart from them, so that staff screens hear of messages, not of who looks after them.';
comment on column private.outbox_queue.lease is 'Of whoever took it last, and has it to himself until due_at.';
alter table private.outbox_queue enable row level security;
create index outbox_queue_by_due_time on private.outbox_queue (due_at);

create function private.queue_order_messages(order_id uuid, kind text, occasion text default '') returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  with told as (
    insert into public.outbox_messages (
      order_id, kind, occasion, channel, recipient, order_number, tracking_number, customer_name
    )
    select o.id, queue_order_messages.kind, coalesce(queue_order_messages.occasion, ''), way.channel, way.recipient,
      o.order_number, o.tracking_number, o.customer_name
    from public.orders as o
    cross join lateral (values ('mail', o.customer_email), ('text', o.customer_phone)) as way (channel, recipient)
    join public.message_templates as worded
      on worded.kind = queue_order_messages.kind and worded.channel = way.channel and worded.is_on
    where o.id = queue_order_messages.order_id and way.recipient <> ''
    on conflict do nothing
    returning id
  )
  insert into private.outbox_queue (message_id, due_at) select told.id, now() from told;
exception when others then
  -- What is told has happened, whatever becomes of the telling.
  raise warning 'no message % of order % could be put into the outbox: %',
    queue_order_messages.kind, queue_order_messages.order_id, sqlerrm;
end
$$;
comment on function private.queue_order_messages(uuid, text, text) is
  'Puts the messages of a kind into the outbox, for mail and text, once per order, kind, occasion and channel. Never fails.';

create function private.tell_customer() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    -- Anybody may order in anybody's name: nobody is told of more than a few orders that he may not have placed.
    if greatest(
      private.count_hit('orders_told', new.customer_phone, interval '1 hour'),
      private.count_hit('orders_told', lower(new.customer_email), interval '1 hour')
    ) <= 5 then
      perform private.queue_order_messages(new.id, 'order_received');
    end if;
    return null;
  end if;
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
create trigger orders_tell_customers_that_they_came after insert on public.orders
  for each row execute function private.tell_customer();
create trigger orders_tell_customers_what_happened after update on public.orders
  for each row
  when (old.status is distinct from new.status or old.payment_status is distinct from new.payment_status)
  execute function private.tell_customer();

create function private.forget_messages() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  delete from public.outbox_messages as m where m.order_id = old.id;
  return null;
end
$$;
create trigger orders_take_their_messages_along after delete on public.orders
  for each row execute function private.forget_messages();
