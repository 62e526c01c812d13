-- Earlier versions keep working: new columns are empty, a template is not needed for a verbatim message, and its facts are those of an
-- order, so that an earlier version sends its text as it is.

alter table public.inquiries add column answered_by text, add column answered_at timestamptz;

alter table public.outbox_messages
  add column is_verbatim boolean not null default false, add column repeat_of uuid;

alter type public.leased_message add attribute is_verbatim boolean;

comment on type public.leased_message is
  'subject and body: of the template, or, if is_verbatim, of the message itself. facts: the values of the placeholders (message_facts).';

comment on column public.inquiries.answered_by is 'Email address of the staff member who answered last. Null: not answered.';

comment on column public.inquiries.answered_at is 'When staff answered last (inquiry_answers). Null: not answered.';

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order, the newsletter or the shop";

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.outbox_messages add constraint "a message is about an order, a reader, an inquiry or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text]))));

alter table public.outbox_messages add constraint "a verbatim message has words" CHECK (((NOT is_verbatim) OR (body IS NOT NULL) OR (recipient = ''::text)));

alter table public.outbox_messages add constraint outbox_messages_repeat_of_fkey FOREIGN KEY (repeat_of) REFERENCES outbox_messages(id) ON DELETE SET NULL;

-- Answers of staff to inquiries: by email or text, which leave by the outbox, or noted after a call or chat.

create table public.inquiry_answers (
  id uuid primary key default gen_random_uuid(),
  inquiry_id uuid not null references public.inquiries (id) on delete cascade,
  way text not null,
  body text,
  answered_by text not null,
  answered_at timestamptz not null default now(),
  constraint "an inquiry is answered by mail, text or elsewhere" check (way in ('mail', 'text', 'elsewhere')),
  constraint "a reply has words" check (way = 'elsewhere' or body is not null)
);

comment on table public.inquiry_answers is
  'Answers to inquiries. The message of an answer by mail or text has the same id in outbox_messages; its repetitions have the inquiry''s id as event_key, too. Deleted with the inquiry.';

comment on column public.inquiry_answers.way is 'mail, text, or elsewhere: by phone or chat, noted afterwards.';

comment on column public.inquiry_answers.body is 'What the customer reads; a note for colleagues if it was answered elsewhere.';

comment on column public.inquiry_answers.answered_by is 'Email address of the staff member.';

alter table public.inquiry_answers enable row level security;

grant select on public.inquiry_answers to authenticated;

create policy "staff read every answer" on public.inquiry_answers for select to authenticated using ((select public.is_admin()));

create index inquiry_answers_of_an_inquiry on public.inquiry_answers (inquiry_id, answered_at);

create or replace function public.answer_inquiry(
  inquiry_id uuid, way text, body text, seen_answered_at timestamptz default null, subject text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  inquiry public.inquiries;
  member constant text := coalesce(private.email_of((select auth.uid())), 'the shop itself');
  words constant text := private.visible_text(left(answer_inquiry.body, 5001));
  heading constant text := private.visible_text(left(regexp_replace(answer_inquiry.subject, '\s+', ' ', 'g'), 301));
  is_sent constant boolean := answer_inquiry.way in ('mail', 'text');
  recipient text;
  added uuid;
  change public.status_change;
begin
  perform private.expect_staff();
  select * into inquiry from public.inquiries as i where i.id = answer_inquiry.inquiry_id for update;
  if not found then
    perform private.refuse(404, 'inquiry_not_found', 'This inquiry does not exist any more');
  elsif inquiry.answered_at is distinct from answer_inquiry.seen_answered_at then
    perform private.refuse(409, 'inquiry_answered', 'Someone else answered this in the meantime. Nothing was sent');
  end if;
  recipient := case answer_inquiry.way when 'mail' then inquiry.email when 'text' then private.normalised_phone(inquiry.phone) end;
  if is_sent and recipient is null then
    perform private.refuse(409, 'recipient_missing', 'This customer gave no mobile number');
  elsif is_sent and words is null then
    perform private.refuse(400, 'reply_empty', 'Please write a reply');
  elsif char_length(words) > (case answer_inquiry.way when 'text' then 480 else 5000 end) then
    perform private.refuse(400, 'reply_too_long', 'This reply is too long');
  elsif is_sent and coalesce(words || heading, words) ~ '\{[a-z_]*\}' then
    perform private.refuse(400, 'placeholder_left', 'A placeholder is not filled in');
  elsif answer_inquiry.way = 'mail' and (heading is null or char_length(heading) > 300) then
    perform private.refuse(400, 'subject_invalid', 'A mail needs a subject of at most 300 characters');
  elsif is_sent and private.left_of_budget(answer_inquiry.way) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', answer_inquiry.way || 's'
    ));
  end if;
  insert into public.inquiry_answers (inquiry_id, way, body, answered_by)
  values (inquiry.id, answer_inquiry.way, words, member)
  returning id into added;
  update public.inquiries as i set is_read = true, answered_by = member, answered_at = now() where i.id = inquiry.id;
  if is_sent then
    insert into public.outbox_messages (
      id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
      subject, body, next_attempt_at
    ) values (
      added, null, 'inquiry_reply', inquiry.id::text, answer_inquiry.way, recipient, '', '', inquiry.name, true, true,
      case answer_inquiry.way when 'mail' then heading end, words, now() + private.undo_window()
    );
    insert into private.outbox_queue (message_id, channel, due_at) values (added, answer_inquiry.way, now() + private.undo_window());
  end if;
  change := (added, extract(epoch from private.undo_window())::integer, is_sent);
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;

comment on function public.answer_inquiry is
  'For staff: sends a reply to an inquiry by mail or text after the undo window, as it is written, or notes that it was answered elsewhere, and marks it as read. seen_answered_at: of the inquiry as the member read it; it is refused if a colleague was first. change_id: of the answer, for withdraw_answer.';

create or replace function public.withdraw_answer(answer_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  answer public.inquiry_answers;
begin
  perform private.expect_staff();
  -- The inquiry first, as in answer_inquiry.
  perform from public.inquiries as i
  where i.id = (select a.inquiry_id from public.inquiry_answers as a where a.id = withdraw_answer.answer_id)
  for update;
  select * into answer from public.inquiry_answers as a where a.id = withdraw_answer.answer_id;
  if not found then
    perform private.refuse(404, 'answer_not_found', 'This answer does not exist any more');
  elsif answer.answered_by is distinct from coalesce(private.email_of((select auth.uid())), 'the shop itself') then
    perform private.refuse(403, 'answer_of_colleague', 'Only who answered can undo this');
  elsif answer.answered_at + private.undo_window() < clock_timestamp() then
    perform private.refuse(409, 'answer_too_late', 'It is too late to undo this answer');
  end if;
  if answer.way <> 'elsewhere' then
    delete from public.outbox_messages as m where m.id = answer.id and m.status = 'waiting' and m.attempts = 0;
    if not found then
      perform private.refuse(409, 'answer_sent', 'This reply is being sent already');
    end if;
  end if;
  delete from public.inquiry_answers as a where a.id = answer.id;
  update public.inquiries as i
  set answered_by = last.answered_by, answered_at = last.answered_at
  from (select) as one
  left join lateral (
    select a.answered_by, a.answered_at from public.inquiry_answers as a
    where a.inquiry_id = answer.inquiry_id order by a.answered_at desc, a.id limit 1
  ) as last on true
  where i.id = answer.inquiry_id;
end
$$;

comment on function public.withdraw_answer is
  'For the staff member who answered an inquiry: withdraws the answer within the undo window, before it is sent. The inquiry stays read.';

create table public.reply_templates (
  id uuid primary key default gen_random_uuid(),
  title text not null,
  body text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

comment on table public.reply_templates is
  'Texts from which staff begin a reply to an inquiry. {name}: placeholder. [ ]: a part that is left out if one of its placeholders is empty.';

comment on column public.reply_templates.title is 'For staff.';

comment on column public.reply_templates.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';

alter table public.reply_templates enable row level security;

grant select, insert (title, body), update (title, body, updated_at), delete on public.reply_templates to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.reply_templates to anon;

create policy "staff read and edit the reply templates" on public.reply_templates
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create or replace function private.check_reply_template() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if private.visible_length(left(new.title, 1000)) = 0 or private.visible_length(left(new.body, 10000)) = 0 then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.title) > 80 or char_length(new.body) > 2000 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.title ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(
    new.body, array['shop', 'shop_phone', 'shop_email', 'first_name', 'name', 'tracking']
  );
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create trigger reply_templates_before_change before insert or update on public.reply_templates
  for each row execute function private.check_reply_template();

-- Execution rights
grant execute on function public.answer_inquiry, public.withdraw_answer to authenticated, service_role;

comment on table public.outbox_messages is
  'Messages to customers and staff. sending: being handed over. unsure: may have been sent, so only staff send it again. over_budget: withheld by a limit or daily budget (problem says which) until the order is paid or staff send it. subject and body: of the last attempt, or those to send (is_verbatim).';

comment on column public.outbox_messages.order_id is 'Null for newsletter mails, replies to inquiries and messages to staff.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund, or the number of payments that were taken back or of failed deliveries; of newsletter mails the subscription''s id; of replies the inquiry''s id; of messages to staff the id of the incident or the refund; of a repeated message of an order its own id.';

comment on column public.outbox_messages.recipient is 'Email address, or phone as +254….';

comment on column public.outbox_messages.gateway_reference is 'Id from the text message gateway.';

comment on column public.outbox_messages.resent_by is 'Email address of the staff member who sent it again.';

comment on column public.outbox_messages.is_verbatim is
  'Whether subject and body are sent as they are, because staff wrote or confirmed them; otherwise the template is filled in when it is sent.';

comment on column public.outbox_messages.repeat_of is 'The first message, whose text this one sends once more. Null: none.';

comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget: its order was paid, or staff caused or sent it. Messages that visitors cause without paying may use half of it.';

create index outbox_messages_that_repeat on public.outbox_messages (repeat_of) where repeat_of is not null;

create index outbox_messages_of_inquiries on public.outbox_messages (event_key) where kind = 'inquiry_reply';

create or replace function private.check_placeholders(written text, known text[]) returns void
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

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'link', 'receipt_link'
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

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
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
  elsif message_facts.kind = 'inquiry_reply' then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries: the shop.';

create or replace function public.lease_messages(at_most integer default 10, channel text default null)
returns setof public.leased_message
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  most integer := least(greatest(coalesce(lease_messages.at_most, 10), 1), 100);
  lost uuid[];
  due uuid[];
begin
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
  'Leases due messages for a minute, of one channel or both, each with its template and values. Messages whose process ended while sending them become unsure.';

create or replace function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
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
    reason := 'Given up after a day: ' || coalesce(message.problem, 'nothing could be sent in that time');
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

create or replace function private.reason_not_to_repeat(message public.outbox_messages) returns text
language plpgsql stable set search_path = '' as $$
begin
  return case
    when message.kind = 'newsletter_confirmation' then 'its links work once, and the shop keeps no copy of them'
    when message.recipient = '' or message.body is null then 'its recipient and text were erased'
    when message.status <> 'sent' then 'it was not sent yet'
    when exists (
      select from public.outbox_messages as m
      where m.repeat_of = coalesce(message.repeat_of, message.id) and m.status in ('waiting', 'sending')
    ) then 'it is being sent again already'
  end;
end
$$;

comment on function private.reason_not_to_repeat is 'Why a message cannot be sent once more, after "because". Null: it can.';

create or replace function public.check_repeat(message_id uuid) returns table (problem text, is_true boolean)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query
    select private.reason_not_to_repeat(m), private.is_still_true(m) from public.outbox_messages as m where m.id = check_repeat.message_id;
end
$$;

comment on function public.check_repeat is
  'For staff: why a sent message cannot be sent once more (null: it can), and whether what it says is still true.';

create or replace function public.repeat_message(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  first_id uuid;
  sent public.outbox_messages;
  new_id constant uuid := gen_random_uuid();
  reason text;
begin
  perform private.expect_staff();
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

create or replace function private.is_still_true(message public.outbox_messages) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(
    case when message.order_id is not null then private.is_message_true(message.order_id, message.kind)
    else private.is_staff_message_true(message.kind, message.event_key) end, false
  );
$$;

comment on function private.is_still_true is 'Whether a message still reports what is so. False if its order was deleted.';

create or replace function private.withdraw_messages(order_id uuid) returns void
language sql set search_path = '' as $$
  delete from public.outbox_messages as m
  where m.order_id = withdraw_messages.order_id and m.status = 'waiting' and m.attempts = 0 and not m.is_verbatim
    and not private.is_message_true(m.order_id, m.kind);
$$;

comment on function private.withdraw_messages is
  'Deletes unsent messages that the order''s state no longer confirms; a later change queues them again.';

-- Execution rights
grant execute on function public.send_message_again, public.check_repeat, public.repeat_message, public.send_withheld_messages, public.message_budgets to authenticated, service_role;

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := private.orders_of_person(person.email, person.phone);
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - '{id,is_read,answered_by,answered_at}'::text[] || jsonb_build_object('answers', array(
        select jsonb_build_object('by', a.way, 'body', a.body, 'answered_at', a.answered_at)
        from public.inquiry_answers as a where a.inquiry_id = i.id order by a.answered_at
      ))
      from public.inquiries as i
      where lower(i.email) = person.email or private.is_phone(i.phone, person.phone)
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and m.kind <> 'inquiry_reply' and lower(m.recipient) = person.email order by m.created_at
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create trigger inquiry_answers_by_staff before insert or update or delete on public.inquiry_answers for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger reply_templates_by_staff before insert or update or delete on public.reply_templates for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

alter publication supabase_realtime add table public.reply_templates;

insert into public.reply_templates (title, body) values
  ('Which order is it?', 'Habari {first_name}, please send us your tracking number (it begins with JJ) or the phone you ordered with, and we look at once. {shop}, {shop_phone}'),
  ('It is on its way', 'Habari {first_name}, your order[ {tracking}] is on its way. Our rider calls you on arrival. {shop}, {shop_phone}'),
  ('Yes, we deliver there', 'Habari {first_name}, yes, we deliver to you. Order on our website or call us. In Nairobi it takes 15 to 60 minutes. {shop}, {shop_phone}'),
  ('Sorry, we call you', 'Habari {first_name}, we are sorry about[ order {tracking} and] the trouble. We call you today to put it right. {shop}, {shop_phone}');

create or replace function private.forget_answers(inquiry_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m
    where m.kind = 'inquiry_reply' and m.event_key = forget_answers.inquiry_id::text and m.recipient <> ''
  ));
end
$$;

comment on function private.forget_answers is 'Removes recipient and text of the replies to a deleted inquiry.';

-- Inquiries

create or replace function private.after_inquiry_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    perform private.add_notice('inquiry', new.id::text);
  else
    perform private.forget_answers(old.id);
  end if;
  return null;
end
$$;

create trigger inquiries_after_change after insert or delete on public.inquiries
  for each row execute function private.after_inquiry_change();

create or replace function private.is_leaving_message(status text) returns boolean
language sql immutable
return status in ('waiting', 'sending');

comment on function private.is_leaving_message is 'A message that will be handed over, or is just being.';

create or replace function private.reason_not_to_repeat(message public.outbox_messages) returns text
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

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  old_messages uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and not private.is_leaving_message(m.status)
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.network_paid_orders as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
  delete from private.hold_time as t where t.counts_until < now();
  delete from public.notices as n where n.created_at < now() - interval '7 days';
  delete from private.newsletter_mailed as m where m.mailed_at < now() - interval '30 days';
  perform private.anonymise_messages(old_messages);
  perform private.clear_old_payment_messages();
  perform private.anonymise_old_orders();
  perform private.reduce_abandoned_orders();
  delete from public.inquiries as i
  where i.id in (
    select old.id from public.inquiries as old
    where old.created_at < now() - make_interval(months => (select s.inquiries_months from public.store_settings as s))
    order by old.created_at limit 5000
    for update skip locked
  );
  delete from public.newsletter_subscriptions as n
  where n.id in (
    select old.id from public.newsletter_subscriptions as old
    where old.confirmed_at is null and coalesce(old.confirmation_queued_at, old.created_at) < now() - interval '7 days'
    order by old.created_at limit 5000
    for update skip locked
  );
  return cardinality(old_messages);
end
$$;

comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; notices to staff after a week; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

grant execute on function public.forget_old_rows to service_role;
