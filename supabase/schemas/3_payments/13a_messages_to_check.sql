-- Messages of M-PESA that a person must check: what cannot be read is neither done nor failed (docs/decisions/reading-messages.md).

create table public.messages_to_check (
  id bigint generated always as identity primary key,
  source text not null,
  problem text not null,
  body text not null,
  digest text not null,
  unreadable text[] not null default '{}',
  receipt text,
  received_cents integer,
  transacted_at timestamptz,
  reference text not null default '',
  payment_id uuid references public.payments (id) on delete set null,
  refund_id uuid references public.refunds (id) on delete set null,
  received_at timestamptz not null default now(),
  resolution text,
  note text,
  resolved_by uuid,
  resolved_by_email text,
  resolved_at timestamptz,
  constraint "a message is checked once" unique (digest),
  constraint "a problem of a message is known" check (problem in ('unreadable', 'unknown_kind', 'reversed')),
  constraint "a resolution of a message is known" check (resolution in ('entered', 'not_a_payment', 'read_later')),
  constraint "a resolved message has a time" check ((resolution is null) = (resolved_at is null))
);
comment on table public.messages_to_check is
  'Messages of M-PESA that cannot be settled by what can be read of them, until staff enter what they say or note that they are no payment. problem: unreadable; unknown_kind (of transaction); reversed (money was taken back that no refund asked for).';
comment on column public.messages_to_check.unreadable is 'The parts that are missing or cannot be read: code, receipt, amount, time.';
comment on column public.messages_to_check.resolution is
  'entered: staff entered what it says. not_a_payment: staff noted why. read_later: another message reported the same. Null: it waits.';
alter table public.messages_to_check enable row level security;
grant select on public.messages_to_check to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.messages_to_check to anon;
create policy "staff read every message to check" on public.messages_to_check
  for select to authenticated using ((select public.may('reconciliation')));
create index messages_to_check_waiting on public.messages_to_check (received_at) where resolution is null;
create index messages_to_check_by_payment on public.messages_to_check (payment_id) where payment_id is not null;
create index messages_to_check_by_refund on public.messages_to_check (refund_id) where refund_id is not null;
create index messages_to_check_by_receipt on public.messages_to_check (receipt) where receipt is not null;
create index messages_to_check_about_reversals on public.messages_to_check (reference) where problem = 'reversed';
create index messages_to_check_with_bodies on public.messages_to_check (received_at) where resolution is not null and body <> '{}';

create function private.add_message_to_check(
  source text, problem text, body text, unreadable text[], receipt text, received_cents integer, transacted_at timestamptz,
  reference text, payment_id uuid default null, refund_id uuid default null
) returns text
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Spacing makes no other message.
  message_digest text := encode(sha256(convert_to(concat_ws(
    ' ', add_message_to_check.source, add_message_to_check.payment_id, add_message_to_check.refund_id,
    regexp_replace(add_message_to_check.body, '\s', '', 'g')
  ), 'UTF8')), 'hex');
begin
  insert into public.messages_to_check (
    source, problem, body, digest, unreadable, receipt, received_cents, transacted_at, reference, payment_id, refund_id
  ) values (
    add_message_to_check.source, add_message_to_check.problem, add_message_to_check.body, message_digest,
    array(select distinct part from unnest(add_message_to_check.unreadable) as part order by part),
    add_message_to_check.receipt, add_message_to_check.received_cents, add_message_to_check.transacted_at,
    coalesce(trim(add_message_to_check.reference), ''), add_message_to_check.payment_id, add_message_to_check.refund_id
  )
  on conflict (digest) do nothing;
  if found then
    return 'new';
  end if;
  return (
    select case when m.resolution is null then 'waiting' else 'checked' end from public.messages_to_check as m where m.digest = message_digest
  );
end
$$;
comment on function private.add_message_to_check is
  'Stores a message that staff must check, each once. Returns new; waiting if it is stored already, checked if it is resolved.';

create function private.close_messages_to_check(attempt public.payments) returns void
language sql set search_path = '' as $$
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.resolution is null and m.problem = 'unreadable' and (
    (m.payment_id = attempt.id and (
      (attempt.status = 'completed' and attempt.receipt is not null)
      -- A message without a readable code is explained by any final result.
      or (private.has_result(attempt.status) and m.unreadable = array['code'])
    ))
    or (attempt.status = 'completed' and m.receipt = attempt.receipt and not m.unreadable && array['time'])
  );
$$;
comment on function private.close_messages_to_check is
  'Ends the wait of unreadable messages about an attempt once its result and receipt are known.';

create function private.receive_reversal(
  source text, receipt text, received_cents integer, reference text, reversed_at timestamptz, body text, reversed_receipt text
) returns text
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  original text;
  reversed public.payments;
  refund public.refunds;
  outcome text;
  state text;
begin
  -- The reversed payment is named, or its receipt is the reference, or the reversal has its receipt.
  select named.receipt into original
  from unnest(array[
    private.normalised_receipt(receive_reversal.reversed_receipt), private.normalised_receipt(receive_reversal.reference),
    receive_reversal.receipt
  ]) with ordinality as named (receipt, place)
  where exists (select from public.payments as p where p.receipt = named.receipt)
    or exists (select from public.mpesa_transactions as t where t.receipt = named.receipt)
  order by named.place
  limit 1;

  select * into refund from public.refunds as r
  where r.refund_receipt = receive_reversal.receipt
    or (r.receipt = original and r.tries > 0 and r.status <> 'withdrawn')
  order by r.refund_receipt is not distinct from receive_reversal.receipt desc, r.status = 'failed', r.created_at desc
  limit 1;
  if refund.status = 'completed' and (
    refund.refund_receipt = receive_reversal.receipt or refund.refund_receipt is null and receive_reversal.receipt = original
  ) then
    return 'already_completed';
  elsif refund.id is not null then
    outcome := (public.settle_reversal(
      refund.id, receive_reversal.source, receive_reversal.body, 'succeeded', '0', 'Reversed, by the statement',
      nullif(receive_reversal.receipt, original), abs(receive_reversal.received_cents)
    )).outcome;
    if outcome in ('completed', 'already_completed') then
      return outcome;
    end if;
  end if;

  -- Locked first: the message's reference to the payment locks that.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.receipt = original) for no key update;
  select p.* into reversed from public.payments as p where p.receipt = original;
  state := private.add_message_to_check(
    receive_reversal.source, 'reversed', receive_reversal.body, '{}', receive_reversal.receipt, receive_reversal.received_cents,
    receive_reversal.reversed_at,
    coalesce(original, private.normalised_receipt(receive_reversal.reversed_receipt), receive_reversal.reference), reversed.id, refund.id
  );
  if state = 'new' and reversed.order_id is not null and not reversed.needs_refund and reversed.refunded_at is null then
    perform private.put_order_under_review(reversed.order_id);
  end if;
  return case state when 'checked' then 'checked' else 'reversed' end;
end
$$;
comment on function private.receive_reversal is
  'Matches a reversal that M-PESA lists with the refund that asked for it. Without one it waits for staff, and the order of the reversed payment needs review. Returns the outcome: completed, already_completed, reversed, or checked once staff have resolved it.';

create function private.was_reversed(receipt text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.messages_to_check as m where m.problem = 'reversed' and m.reference = was_reversed.receipt
  );
end
$$;
comment on function private.was_reversed is
  'Whether M-PESA took the money with this receipt back, and no refund asked for it. It is gone, whatever staff have noted about that message.';

create function private.waiting_message_to_check(message_id bigint) returns public.messages_to_check
language plpgsql set search_path = '' as $$
declare
  waiting public.messages_to_check;
begin
  select * into waiting from public.messages_to_check as m where m.id = waiting_message_to_check.message_id;
  if not found then
    perform private.refuse(404, 'message_not_found', 'This message does not exist');
  elsif waiting.resolution is not null then
    perform private.refuse(409, 'message_checked', 'This message was checked in the meantime. Nothing was saved');
  end if;
  return waiting;
end
$$;
comment on function private.waiting_message_to_check is 'A message that waits. Refuses others.';

create function private.finish_message_to_check(message_id bigint, resolution text, note text) returns public.messages_to_check
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
  finished public.messages_to_check;
begin
  update public.messages_to_check as m
  set resolution = finish_message_to_check.resolution, note = finish_message_to_check.note, resolved_by = member,
      resolved_by_email = private.email_of(member), resolved_at = now()
  -- Settling what staff entered ends its wait, too.
  where m.id = finish_message_to_check.message_id and (m.resolution is null or (m.resolution = 'read_later' and m.resolved_by is null))
  returning * into finished;
  if not found then
    perform private.refuse(409, 'message_checked', 'This message was checked in the meantime. Nothing was saved');
  end if;
  return finished;
end
$$;

create function public.enter_message_to_check(
  message_id bigint, receipt text, received_cents integer, transacted_at timestamptz
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  waiting public.messages_to_check;
  code text;
  settled public.settled_payment;
begin
  waiting := private.waiting_message_to_check(enter_message_to_check.message_id);
  code := private.read_receipt(enter_message_to_check.receipt);
  if waiting.problem = 'reversed' or waiting.refund_id is not null then
    perform private.refuse(409, 'message_of_refund', 'This message is about money that went back. It pays no order');
  elsif coalesce(enter_message_to_check.received_cents, 0) <= 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be more than 0');
  elsif enter_message_to_check.transacted_at is null or enter_message_to_check.transacted_at > now() + interval '1 day' then
    perform private.refuse(400, 'time_invalid', 'The time must be when M-PESA received the money');
  end if;
  settled := public.receive_mpesa_transaction(
    source => case waiting.source when 'statement' then 'statement' else 'confirmation' end,
    receipt => code, received_cents => enter_message_to_check.received_cents, reference => waiting.reference,
    transacted_at => enter_message_to_check.transacted_at,
    body => jsonb_build_object(
      'receipt', code, 'received_cents', enter_message_to_check.received_cents, 'transacted_at', enter_message_to_check.transacted_at,
      'entered_by', member, 'email', private.email_of(member), 'message_to_check', waiting.id
    )::text
  );
  perform private.finish_message_to_check(waiting.id, 'entered', null);
  return settled;
end
$$;
comment on function public.enter_message_to_check is
  'For staff: enters what a message says that could not be read (received_cents in cents). Settled like every payment that M-PESA reports (receive_mpesa_transaction), under the reference of the message.';

create function public.dismiss_message_to_check(message_id bigint, note text) returns public.messages_to_check
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('reconciliation');
  waiting public.messages_to_check := private.waiting_message_to_check(dismiss_message_to_check.message_id);
  reason text := private.read_reason(dismiss_message_to_check.note, is_required => true);
begin
  -- Ends the review of an attempt that has no other evidence (private.end_reviews).
  insert into public.reconciliation_events (payment_id, order_id, kind, note, actor_id, actor_email)
  select p.id, p.order_id, 'accepted', reason, member, private.email_of(member)
  from public.payments as p
  where p.id = waiting.payment_id and p.status = 'review'
    and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id);
  return private.finish_message_to_check(waiting.id, 'not_a_payment', reason);
end
$$;
comment on function public.dismiss_message_to_check is 'For staff: notes why a message that could not be read is no payment, or how it was dealt with.';

-- Execution rights
grant execute on function public.enter_message_to_check, public.dismiss_message_to_check to authenticated, service_role;
