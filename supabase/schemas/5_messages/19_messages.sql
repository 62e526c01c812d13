-- Messages to customers: templates and the outbox (docs/decisions/messages.md).

-- A message enters the outbox in the transaction of the change that it reports; the shop's jobs send it afterwards.
create table public.outbox_messages (
  id uuid primary key default gen_random_uuid(),
  order_id uuid,
  kind text not null,
  event_key text not null default '',
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
  has_priority boolean not null default false,
  is_verbatim boolean not null default false,
  repeat_of uuid references public.outbox_messages (id) on delete set null,
  constraint "a message is sent once per event and channel" unique (order_id, kind, event_key, channel),
  constraint "a message goes by mail or as a text" check (channel in ('mail', 'text')),
  constraint "only waiting messages are retried" check ((next_attempt_at is not null) = (status = 'waiting')),
  constraint "a verbatim message has words" check (not is_verbatim or body is not null or recipient = ''),
  constraint "a message status is known"
    check (status in ('waiting', 'sending', 'sent', 'failed', 'unsure', 'over_budget')),
  constraint "a message is about an order, a reader, an inquiry or the shop"
    check ((order_id is null) = (kind in ('newsletter_confirmation', 'inquiry_reply', 'prompts_paused', 'prompts_resumed', 'refund_to_approve', 'second_factor_removed', 'test_message', 'back_in_stock'))),
  constraint "a kind of message is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_payment_corrected', 'order_on_its_way', 'order_delayed', 'delivery_failed',
    'order_delivered', 'order_refunded', 'order_cancelled', 'order_expired', 'newsletter_confirmation', 'inquiry_reply',
    'prompts_paused', 'prompts_resumed', 'refund_to_approve', 'second_factor_removed', 'test_message', 'job_for_rider', 'back_in_stock'
  ))
);
comment on table public.outbox_messages is
  'Messages to customers and staff. sending: being handed over. unsure: may have been sent, so only staff send it again. over_budget: withheld by a limit or daily budget (problem says which) until the order is paid or staff send it. subject and body: of the last attempt, or those to send (is_verbatim).';
comment on column public.outbox_messages.order_id is 'Null for newsletter mails, replies to inquiries, texts about stock, messages to staff and tests.';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of a job the id of its rider, and after a space how many texts that rider had about it before; of newsletter mails the subscription''s id; of replies the inquiry''s id; of texts about stock the alert''s id; of messages to staff the id of the incident, the refund or the audit event; of a repeated message of an order its own id.';
comment on column public.outbox_messages.recipient is 'Email address, or phone as +254….';
comment on column public.outbox_messages.gateway_reference is 'Id from the text message gateway.';
comment on column public.outbox_messages.resent_by is 'Email address of the staff member who sent it again.';
comment on column public.outbox_messages.is_verbatim is
  'Whether subject and body are sent as they are, because staff wrote or confirmed them; otherwise the template is filled in when it is sent.';
comment on column public.outbox_messages.repeat_of is 'The first message, whose text this one sends once more. Null: none.';
comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget: its order was paid, or staff caused or sent it. Messages that visitors cause without paying may use half of it.';
alter table public.outbox_messages enable row level security;
grant select on public.outbox_messages to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.outbox_messages to anon;
create policy "staff read every message" on public.outbox_messages for select to authenticated using ((select public.may('messages')));
create index outbox_messages_newest_first on public.outbox_messages (created_at desc, id desc);
create index outbox_messages_of_a_status_newest_first on public.outbox_messages (status, created_at desc, id desc);
-- Added for about a hundred messages at once, as orders_by_words.
create index outbox_messages_by_part_of_their_text on public.outbox_messages
  using gin (
    lower(customer_name || E'\n' || recipient || E'\n' || order_number || E'\n' || tracking_number) extensions.gin_trgm_ops
  )
  with (gin_pending_list_limit = 256);
-- Messages that visitors caused without paying: of one recipient, and sent today.
create index outbox_messages_unpaid_of_recipient on public.outbox_messages (lower(recipient), kind, created_at)
  where not has_priority;
create index outbox_messages_unpaid_by_time_of_sending on public.outbox_messages (channel, sending_since) where not has_priority;
create index outbox_messages_that_repeat on public.outbox_messages (repeat_of) where repeat_of is not null;
create index outbox_messages_of_inquiries on public.outbox_messages (event_key) where kind = 'inquiry_reply';
create index outbox_messages_with_words on public.outbox_messages (created_at) where recipient <> '';
create index outbox_messages_being_sent on public.outbox_messages (sending_since) where status = 'sending';

create table private.outbox_queue (
  message_id uuid primary key references public.outbox_messages (id) on delete cascade,
  due_at timestamptz not null,
  lease uuid,
  channel text not null
);
comment on table private.outbox_queue is
  'Waiting messages and when they are due. A separate table, so that realtime does not announce leases.';
comment on column private.outbox_queue.lease is 'Of the process that leased the message until due_at.';
alter table private.outbox_queue enable row level security;
create index outbox_queue_by_channel_and_due_time on private.outbox_queue (channel, due_at);

create table public.message_templates (
  id uuid primary key default gen_random_uuid(),
  kind text not null,
  channel text not null,
  subject text,
  body text not null,
  is_on boolean not null default true,
  default_subject text,
  default_body text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a kind of message is worded once per channel" unique (kind, channel),
  constraint "a template is of a mail or a text" check (channel in ('mail', 'text')),
  constraint "mails have a subject, texts have none" check ((subject is not null) = (channel = 'mail')),
  constraint "a template is of a kind that is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_payment_corrected', 'order_on_its_way', 'order_delayed', 'delivery_failed',
    'order_delivered', 'order_refunded', 'order_cancelled', 'order_expired', 'newsletter_confirmation', 'prompts_paused', 'prompts_resumed', 'refund_to_approve', 'second_factor_removed', 'job_for_rider', 'back_in_stock'
  ))
);
comment on table public.message_templates is
  'Texts of each kind of message. {name}: placeholder. [ ]: a part that is left out if one of its placeholders is empty.';
comment on column public.message_templates.is_on is 'Whether messages of this kind and channel are sent.';
comment on column public.message_templates.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
alter table public.message_templates enable row level security;
grant select, update (subject, body, is_on, updated_at) on public.message_templates to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.message_templates to anon;
create policy "staff read and edit the templates" on public.message_templates
  for all to authenticated using ((select public.may('messages'))) with check ((select public.may('messages')));

create table private.messages_sent (
  day date not null,
  channel text not null,
  total integer not null default 0,
  part smallint not null,
  constraint "one count per day, channel and part" primary key (day, channel, part)
);
comment on table private.messages_sent is
  'Messages sent per day in Nairobi and channel, in parts, so that messages that are sent concurrently do not wait for one row. Resent messages count again, refused ones do not.';
comment on column private.messages_sent.total is 'Negative where more was returned to this part than was taken from it.';
alter table private.messages_sent enable row level security;

create function private.payment_event_key(order_id uuid) returns text
language sql stable set search_path = '' as $$
  select coalesce(nullif(count(*), 0)::text, '')
  from public.order_events as e where e.order_id = payment_event_key.order_id and e.kind = 'payment_taken_back';
$$;
comment on function private.payment_event_key is
  'Key of messages about an order''s payment: blank, then the number of payments that were taken back, so that the next payment is reported again.';

create function private.failure_event_key(order_id uuid) returns text
language sql stable set search_path = '' as $$
  select nullif(d.failures, 0)::text from public.deliveries as d where d.order_id = failure_event_key.order_id;
$$;
comment on function private.failure_event_key is
  'Key of messages about the way of an order: how often its goods came back, so that the next try is reported again. Null: never.';

create function private.queue_messages_of_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The words of the mail speak of a payment.
  if new.delivery_status = 'failed' and old.delivery_status <> 'failed' and new.failure_reason is not null and exists (
    select from public.orders as o where o.id = new.order_id and private.is_to_deliver(o.payment_status, o.payment_method)
  ) then
    perform private.queue_order_messages(
      new.order_id, 'delivery_failed', private.failure_event_key(new.order_id), due_at => now() + private.undo_window(),
      channels => case (select o.payment_status from public.orders as o where o.id = new.order_id)
        when 'paid' then array['mail', 'text'] else array['text'] end
    );
  end if;
end
$$;

create function private.queue_job_for_rider(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  if new.rider_id is null or old.rider_id is not distinct from new.rider_id or not private.is_open_delivery(new.delivery_status) then
    return;
  end if;
  perform private.add_to_outbox(
    o, 'job_for_rider', concat_ws(' ', r.id, nullif((
      -- One that waits says the same. Undoing brings back what the rider has read.
      select count(*) from public.outbox_messages as m
      where m.order_id = o.id and m.kind = 'job_for_rider' and split_part(m.event_key, ' ', 1) = r.id::text
        and (m.status <> 'waiting' or m.attempts > 0) and not private.is_stated('undoes')
    ), 0)), 'text', r.phone, now() + private.undo_window()
  )
  from public.orders as o
  cross join public.riders as r
  join public.message_templates as template on template.kind = 'job_for_rider' and template.channel = 'text' and template.is_on
  where o.id = new.order_id and r.id = new.rider_id and not r.is_practice;
exception when others then
  -- The assignment stays valid without its message.
  raise warning 'no text to the rider of order % could be put into the outbox: %', new.order_id, sqlerrm;
end
$$;
comment on function private.queue_job_for_rider is
  'Puts the text with a delivery to its new rider into the outbox, also to one who had it before, where its template is on. Never fails.';

create function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      -- A customer who pays cash stands in front of staff or the rider, and texts cost money.
      perform private.queue_order_messages(
        new.id, 'order_paid', private.payment_event_key(new.id),
        channels => case new.payment_method when 'cash' then array['mail'] else array['mail', 'text'] end
      );
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    -- Not where the last part of it became credit again or was given back in cash: nothing was sent.
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' and coalesce((
      select r.method from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
      order by r.completed_at desc, r.updated_at desc limit 1
    ), '') not in ('credit', 'cash') then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    -- The customer of a collected order has it in hand.
    if new.is_collected and private.has_left_shop(new.status) then
      null;
    elsif private.is_on_the_way(new.status) then
      perform private.queue_order_messages(
        new.id, 'order_on_its_way', private.failure_event_key(new.id), due_at => now() + private.undo_window()
      );
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      if new.cancel_reason = 'not_paid_in_time' or (new.cancel_reason = 'by_customer' and new.payment_status = 'unpaid') then
        -- Not without a prompt, nor when the link was withheld: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) and not exists (
          select from public.outbox_messages as m
          where m.order_id = new.id and m.kind = 'order_received' and m.channel = 'mail' and m.status = 'over_budget'
        ) then
          perform private.queue_order_messages(
            new.id, case new.cancel_reason when 'by_customer' then 'order_cancelled' else 'order_expired' end, channels => array['mail']
          );
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
    if new.status = 'cancelled' then
      delete from public.outbox_messages as m
      where m.order_id = new.id and m.status = 'over_budget' and not private.is_message_true(m.order_id, m.kind);
    end if;
  end if;
end
$$;

create function private.check_placeholders(written text, known text[]) returns void
language plpgsql immutable set search_path = '' as $$
declare
  unknown text;
begin
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (known)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  end if;
  -- Brackets that remain after all complete ones are removed.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  end if;
end
$$;
comment on function private.check_placeholders is 'Refuses a template with an unknown placeholder or unbalanced brackets.';

create function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when new.kind = 'second_factor_removed' then array['member', 'cause', 'time', 'staff_link']
    when new.kind = 'job_for_rider' then array['order', 'name', 'customer_phone', 'address', 'arrival', 'notes', 'items', 'pay']
    when new.kind = 'back_in_stock' then array['product', 'product_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'arrival', 'code', 'link', 'receipt_link'
    ]
  end;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(written, placeholders);
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create function public.search_messages(
  search text default '', status text default null, channel text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('messages');
  found_ids := private.find_by_text(
    'outbox_messages',
    $sql$lower(t.customer_name || E'\n' || t.recipient || E'\n' || t.order_number || E'\n' || t.tracking_number)$sql$,
    concat_ws(' and ', 'true', 't.status = ' || quote_literal(status), 't.channel = ' || quote_literal(channel)),
    search, sort, before_created_at, before_id, page_size
  );
  return query
    select m.* from unnest(found_ids) with ordinality as f (id, place) join public.outbox_messages as m on m.id = f.id order by f.place;
end
$$;
comment on function public.search_messages is
  'For staff: a page of messages whose recipient, customer, order or tracking number contains a text, ignoring case; after the one named by before_created_at and before_id. sort: date (oldest first), -date (default), customer, order or status (failed first), with - before it for the opposite; by another column than the date only the newest 5,000, or 500 of a search.';

create function private.queue_link_with_prompt(new public.payments) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.queue_order_messages(
    new.order_id,
    'order_received',
    channels => case
      -- Only the prompted phone gets a text: another may be a stranger's.
      when new.phone = (select o.customer_phone from public.orders as o where o.id = new.order_id) then array['mail', 'text']
      else array['mail']
    end
  );
end
$$;

create function private.release_messages(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  with released as (
    update public.outbox_messages as m
    set has_priority = true,
        status = case when m.status = 'over_budget' then 'waiting' else m.status end,
        next_attempt_at = case when m.status = 'over_budget' then now() else m.next_attempt_at end,
        give_up_at = case when m.status = 'over_budget' then now() + interval '1 day' else m.give_up_at end,
        problem = case when m.status <> 'over_budget' then m.problem end,
        updated_at = now()
    where m.order_id = release_messages.order_id and not m.has_priority and m.recipient <> ''
    returning m.id, m.channel, m.status, m.next_attempt_at
  )
  insert into private.outbox_queue (message_id, channel, due_at)
  select r.id, r.channel, r.next_attempt_at from released as r where r.status = 'waiting'
  on conflict do nothing;
exception when others then
  -- The payment is settled all the same.
  raise warning 'the messages of order % could not be released: %', release_messages.order_id, sqlerrm;
end
$$;
comment on function private.release_messages is
  'Money for an order arrived: its messages no longer count as those of visitors who have not paid, and what was withheld is sent at due_at, if it is still true (begin_message). Never fails.';

create function private.reason_to_withhold(kind text, channel text, recipient text) returns text
language plpgsql volatile set search_path = '' as $$
begin
  -- Concurrent prompts count one after the other. Orders end one after the other anyway, in transactions that hold locks of products,
  -- for which a prompt waits.
  if reason_to_withhold.kind = 'order_received' then
    perform pg_advisory_xact_lock(hashtextextended('messages to ' || lower(reason_to_withhold.recipient), 0));
  end if;
  -- The recipient first, so that a message withheld for it does not use up the network's limit.
  return case
    when 5 <= (
      select count(*) from (
        select from public.outbox_messages as m
        where lower(m.recipient) = lower(reason_to_withhold.recipient) and m.kind = reason_to_withhold.kind
          and not m.has_priority and m.created_at > now() - interval '1 day' and m.status <> 'over_budget'
        limit 5
      ) as of_recipient
    ) then 'Not sent: too many unpaid orders for this recipient today'
    -- Orders are ended by the shop and staff, whose networks are not limited.
    when reason_to_withhold.kind = 'order_received'
      and not private.count_call(case reason_to_withhold.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
      then 'Not sent: too many unpaid orders from one network today'
  end;
end
$$;
comment on function private.reason_to_withhold is
  'Why a message of an unpaid order is withheld. Null: it may be sent. A recipient gets five of a kind a day, for all unpaid orders together; of the links (order_received) a network causes its limit, which grows with its paid orders.';

create function private.add_to_outbox(
  ordered public.orders, kind text, event_key text, channel text, recipient text, due_at timestamptz
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Other messages follow a payment, or a change by staff.
  has_priority boolean := ordered.payment_status <> 'unpaid' or ordered.source <> 'storefront'
    or add_to_outbox.kind not in ('order_received', 'order_expired', 'order_cancelled');
  problem text;
  added uuid;
begin
  -- Further prompts for an order are not limited: the message exists already.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.event_key = add_to_outbox.event_key and m.channel = add_to_outbox.channel;
  if found then
    -- Changed again before it was sent: the undo window starts again.
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
    problem := private.reason_to_withhold(add_to_outbox.kind, add_to_outbox.channel, add_to_outbox.recipient);
  end if;
  insert into public.outbox_messages (
    order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.event_key, add_to_outbox.channel, add_to_outbox.recipient,
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
comment on function private.add_to_outbox is
  'Adds a message of an order to the outbox, once per order, kind, event_key and channel; it is sent at due_at. Messages of unpaid orders are withheld (over_budget) above the limits of private.reason_to_withhold.';

create function private.queue_order_messages(
  order_id uuid, kind text, event_key text default '', channels text[] default array['mail', 'text'],
  due_at timestamptz default now()
) returns void
language plpgsql set search_path = '' as $$
declare
  ordered public.orders;
begin
  select * into ordered from public.orders as o where o.id = queue_order_messages.order_id;
  perform private.add_to_outbox(
    ordered, queue_order_messages.kind, coalesce(queue_order_messages.event_key, ''), way.channel, way.recipient,
    queue_order_messages.due_at
  )
  from (values ('mail', ordered.customer_email), ('text', ordered.customer_phone)) as way (channel, recipient)
  join public.message_templates as template
    on template.kind = queue_order_messages.kind and template.channel = way.channel and template.is_on
  where way.recipient <> '' and way.channel = any (queue_order_messages.channels);
exception when others then
  -- The order's change stays valid without its message.
  raise warning 'no message % of order % could be put into the outbox: %',
    queue_order_messages.kind, queue_order_messages.order_id, sqlerrm;
end
$$;
comment on function private.queue_order_messages is
  'Adds the messages of a kind to the outbox, one per channel with an active template, to be sent at due_at. Never fails.';

create function private.postpone_messages(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  with postponed as (
    update private.outbox_queue as q set due_at = now() + private.undo_window()
    from public.outbox_messages as m
    where m.order_id = postpone_messages.order_id and m.id = q.message_id and q.due_at = now()
    returning q.message_id, q.due_at
  )
  update public.outbox_messages as m set next_attempt_at = p.due_at from postponed as p where m.id = p.message_id;
end
$$;
comment on function private.postpone_messages is
  'Delays what this transaction says about an order by the undo window: staff typed it and can correct it.';

create function private.is_status_message(kind text) returns boolean
language sql immutable
return kind in ('order_on_its_way', 'delivery_failed', 'order_delivered', 'order_cancelled');
comment on function private.is_status_message is
  'Whether a kind of message reports a status change by staff, and is withdrawn with it.';

-- Execution rights
grant execute on function public.search_messages to authenticated, service_role;
