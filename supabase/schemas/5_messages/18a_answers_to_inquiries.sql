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
  'Answers to inquiries, one by each way: a mail and the text sent with it have the same answered_at. The message of an answer by mail or text has the same id in outbox_messages; its repetitions have the inquiry''s id as event_key, too. Deleted with the inquiry.';
comment on column public.inquiry_answers.way is 'mail, text, or elsewhere: by phone or chat, noted afterwards.';
comment on column public.inquiry_answers.body is 'What the customer reads; a note for colleagues if it was answered elsewhere.';
comment on column public.inquiry_answers.answered_by is 'Email address of the staff member.';
alter table public.inquiry_answers enable row level security;
grant select on public.inquiry_answers to authenticated;
create policy "staff read every answer" on public.inquiry_answers for select to authenticated using ((select public.may('inquiries')));
create index inquiry_answers_of_an_inquiry on public.inquiry_answers (inquiry_id, answered_at);

create function private.add_answer(inquiry public.inquiries, way text, body text, subject text, member text) returns uuid
language plpgsql set search_path = '' as $$
declare
  words constant text := private.visible_text(left(add_answer.body, 5001));
  heading constant text := private.visible_text(left(regexp_replace(add_answer.subject, '\s+', ' ', 'g'), 301));
  is_sent constant boolean := add_answer.way in ('mail', 'text');
  recipient constant text := case add_answer.way
    when 'mail' then inquiry.email
    when 'text' then private.normalised_phone(inquiry.phone)
  end;
  added uuid;
begin
  if is_sent and recipient is null then
    perform private.refuse(409, 'recipient_missing', 'This customer gave no mobile number');
  elsif is_sent and words is null then
    perform private.refuse(400, 'reply_empty', 'Please write a reply');
  elsif char_length(words) > (case add_answer.way when 'text' then 480 else 5000 end) then
    perform private.refuse(400, 'reply_too_long', 'This reply is too long');
  elsif is_sent and coalesce(words || heading, words) ~ '\{[a-z_]*\}' then
    perform private.refuse(400, 'placeholder_left', 'A placeholder is not filled in');
  elsif add_answer.way = 'mail' and (heading is null or char_length(heading) > 300) then
    perform private.refuse(400, 'subject_invalid', 'A mail needs a subject of at most 300 characters');
  elsif is_sent and private.left_of_budget(add_answer.way) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', add_answer.way || 's'
    ));
  end if;
  insert into public.inquiry_answers (inquiry_id, way, body, answered_by)
  values (inquiry.id, add_answer.way, words, member)
  returning id into added;
  if is_sent then
    insert into public.outbox_messages (
      id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
      subject, body, next_attempt_at
    ) values (
      added, null, 'inquiry_reply', inquiry.id::text, add_answer.way, recipient, '', '', inquiry.name, true, true,
      case add_answer.way when 'mail' then heading end, words, now() + private.undo_window()
    );
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_answer.way, now() + private.undo_window());
  end if;
  return added;
end
$$;
comment on function private.add_answer is 'Adds an answer and, by mail or text, its message; refuses one that cannot be sent.';

create function public.answer_inquiry(
  inquiry_id uuid, way text, body text, seen_answered_at timestamptz default null, subject text default null,
  text_body text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  inquiry public.inquiries;
  member constant text := coalesce(private.email_of((select auth.uid())), 'the shop itself');
  added uuid;
  change public.status_change;
begin
  perform private.expect_staff('inquiries');
  select * into inquiry from public.inquiries as i where i.id = answer_inquiry.inquiry_id for update;
  if not found then
    perform private.refuse(404, 'inquiry_not_found', 'This inquiry does not exist any more');
  elsif inquiry.answered_at is distinct from answer_inquiry.seen_answered_at then
    perform private.refuse(409, 'inquiry_answered', 'Someone else answered this in the meantime. Nothing was sent');
  elsif answer_inquiry.text_body is not null and answer_inquiry.way <> 'mail' then
    perform private.refuse(400, 'text_without_mail', 'Only a mail can be sent as a text, too');
  end if;
  added := private.add_answer(inquiry, answer_inquiry.way, answer_inquiry.body, answer_inquiry.subject, member);
  if answer_inquiry.text_body is not null then
    perform private.add_answer(inquiry, 'text', answer_inquiry.text_body, null, member);
  end if;
  update public.inquiries as i set is_read = true, answered_by = member, answered_at = now() where i.id = inquiry.id;
  change := (added, extract(epoch from private.undo_window())::integer, answer_inquiry.way in ('mail', 'text'));
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;
comment on function public.answer_inquiry is
  'For staff: sends a reply to an inquiry by mail or text after the undo window, as it is written, or notes that it was answered elsewhere, and marks it as read. text_body: the words of a mail that is sent as a text, too. seen_answered_at: of the inquiry as the member read it; it is refused if a colleague was first. change_id: of the answer, for withdraw_answer.';

create function public.withdraw_answer(answer_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  answer public.inquiry_answers;
  parts uuid[];
  withdrawn integer;
begin
  perform private.expect_staff('inquiries');
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
  -- A mail and its text have the time of their transaction.
  parts := array(
    select a.id from public.inquiry_answers as a where a.inquiry_id = answer.inquiry_id and a.answered_at = answer.answered_at
  );
  if answer.way <> 'elsewhere' then
    delete from public.outbox_messages as m where m.id = any (parts) and m.status = 'waiting' and m.attempts = 0;
    get diagnostics withdrawn = row_count;
    if withdrawn < cardinality(parts) then
      perform private.refuse(409, 'answer_sent', 'This reply is being sent already');
    end if;
  end if;
  delete from public.inquiry_answers as a where a.id = any (parts);
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
  'For the staff member who answered an inquiry: withdraws the answer within the undo window, before it is sent, and the text that was sent with a mail. The inquiry stays read.';

create function private.forget_answers(inquiry_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m
    where m.kind = 'inquiry_reply' and m.event_key = forget_answers.inquiry_id::text and m.recipient <> ''
  ));
end
$$;
comment on function private.forget_answers is 'Removes recipient and text of the replies to a deleted inquiry.';

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
  for all to authenticated using ((select public.may('inquiries'))) with check ((select public.may('inquiries')));

create function private.check_reply_template() returns trigger
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
