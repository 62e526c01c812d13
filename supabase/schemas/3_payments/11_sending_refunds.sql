-- Sending refunds: reversal requests to M-PESA, and their results.

create function private.complete_refund(refund_id uuid, refund_receipt text) returns public.refunds
language plpgsql set search_path = '' as $$
declare
  done public.refunds;
begin
  update public.refunds as r
  set status = 'completed', refund_receipt = coalesce(r.refund_receipt, complete_refund.refund_receipt),
      next_check_at = null, completed_at = coalesce(r.completed_at, now()), updated_at = now()
  where r.id = complete_refund.refund_id
  returning * into strict done;
  update public.payments as p
  set refunded_at = coalesce(p.refunded_at, done.completed_at), refund_receipt = coalesce(p.refund_receipt, done.refund_receipt),
      updated_at = now()
  where p.id = done.payment_id;
  return done;
end
$$;
comment on function private.complete_refund is
  'Completes a refund and its payment. The caller has locked the order, the payment and the refund.';

-- All functions lock in the same order, against deadlocks: the order, the receipt (its advisory lock, then its row of
-- mpesa_transactions), the payment, the refund; last the products, by id.
create function private.lock_refund(refund_id uuid) returns public.refunds
language plpgsql set search_path = '' as $$
declare
  seen public.refunds;
  locked public.refunds;
begin
  -- The order and receipt must be locked first, but are known only after reading. If they changed before the lock, read again.
  loop
    select * into seen from public.refunds as r where r.id = lock_refund.refund_id;
    if not found then
      perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
    end if;
    begin
      perform from public.orders as o
      where o.id = (select p.order_id from public.payments as p where p.id = seen.payment_id)
      for no key update;
      if seen.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || seen.receipt));
        perform from public.mpesa_transactions as t where t.receipt = seen.receipt for update;
      end if;
      perform from public.payments as p where p.id = seen.payment_id for update;
      select * into strict locked from public.refunds as r where r.id = seen.id for update;
      if (locked.payment_id, locked.receipt) is distinct from (seen.payment_id, seen.receipt) then
        raise exception using errcode = 'JJ001';
      end if;
      return locked;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
end
$$;

create function private.check_refund_receipt(typed text) returns text
language plpgsql set search_path = '' as $$
declare
  code text := private.read_receipt(typed);
begin
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  -- Also of money that no order has got.
  if exists (select from public.payments as p where p.receipt = code)
    or exists (select from public.mpesa_transactions as t where t.receipt = code)
  then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  elsif exists (select from public.refunds as r where r.refund_receipt = code)
    or exists (select from public.change_notes as c where c.receipt = code)
  then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = private.normalised_receipt(note_refund_by_hand.refund_receipt)
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = private.normalised_receipt(note_refund_by_hand.receipt) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  if paid.method = 'credit' and not private.has_refunded_source(paid) then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  end if;
  noted := private.open_refund(
    paid.id, null, paid.receipt, private.left_to_refund(paid),
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;
comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

create function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  closed public.refunds := private.lock_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif close_unknown_refund.refund_receipt is not null then
    return private.complete_refund(closed.id, private.check_refund_receipt(close_unknown_refund.refund_receipt));
  end if;
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA may still be working on it. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return closed;
end
$$;
comment on function public.close_unknown_refund is
  'Resolves a refund with unknown result: with its receipt, or, half an hour after it was sent, as not sent.';

create function public.lease_refunds(at_most integer default 1)
returns table (work text, refund public.refunds, secret text)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  leased public.refunds;
  excessive record;
  remaining integer := lease_refunds.at_most;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- M-PESA reported less than staff typed: no more is refunded than was received. First, since it locks more than the refund.
  for excessive in
    select r.id, reported.received_cents
    from public.refunds as r
    join public.mpesa_transactions as reported on reported.receipt = r.receipt and reported.received_cents < r.refund_cents
    where private.is_unsent_refund(r.status)
    order by r.id
  loop
    perform private.lock_refund(excessive.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA reported %s cents under this receipt, %s were to be refunded', excessive.received_cents, r.refund_cents)
    where r.id = excessive.id and private.is_unsent_refund(r.status) and excessive.received_cents < r.refund_cents;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: retried at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - private.back_off(interval '15 seconds', r.tries, interval '10 minutes'))
    order by r.created_at limit remaining for update skip locked
  loop
    remaining := remaining - 1;
    insert into private.refund_secrets (refund_id, result_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.result_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    work := 'send';
    refund := leased;
    return next;
  end loop;

  for leased in
    select * from public.refunds as r
    where (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
      -- The process that sent it ended before M-PESA's response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit remaining for update skip locked
  loop
    -- One update only: a second update of the row would check its foreign keys, and wait for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it sent the request to M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- A larger exponent would overflow the interval.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    work := 'query';
    refund := leased;
    select s.result_secret into secret from private.refund_secrets as s where s.refund_id = leased.id;
    return next;
  end loop;
end
$$;
comment on function public.lease_refunds is
  'Leases refunds to send, each once (work = send), and refunds to query, at growing intervals (work = query), with the secret of their URLs.';

create function public.record_reversal_push(
  refund_id uuid, body text, conversation_id text default null, originator_conversation_id text default null,
  refusal_code text default null, refusal_description text default null
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  pushed public.refunds := private.lock_refund(record_reversal_push.refund_id);
  outcome text := case
    when record_reversal_push.refusal_code = 'R000001' then 'already_reversed'
    -- Nothing was carried out, for a temporary reason.
    when record_reversal_push.refusal_code in (
      'mpesa_unreachable', 'http_403', 'http_429', '500.003.02', '500.003.03', '400.003.01', '401.002.01', '404.001.03'
    ) and pushed.tries < 20 then 'busy'
    when record_reversal_push.refusal_code is not null then 'refused'
    when record_reversal_push.conversation_id is not null or record_reversal_push.originator_conversation_id is not null then 'accepted'
    else 'unknown'
  end;
begin
  insert into public.payment_messages (refund_id, source, body, outcome)
  values (pushed.id, 'reversal', record_reversal_push.body, outcome);
  -- A result may arrive before the response: what it settled stays settled.
  update public.refunds as r
  set status = case
        when r.status <> 'sending' then r.status
        when outcome = 'refused' then 'failed'
        when outcome = 'accepted' then 'sent'
        when outcome = 'busy' then 'approved'
        else 'unknown'
      end,
      result_code = case when r.status = 'sending' then record_reversal_push.refusal_code else r.result_code end,
      result_description = case when r.status = 'sending' then record_reversal_push.refusal_description else r.result_description end,
      conversation_id = coalesce(r.conversation_id, record_reversal_push.conversation_id),
      originator_conversation_id = coalesce(r.originator_conversation_id, record_reversal_push.originator_conversation_id),
      next_check_at = case
        when r.status <> 'sending' then r.next_check_at
        when outcome = 'accepted' then now() + interval '2 minutes'
        when outcome = 'unknown' then now() + interval '1 minute'
        when outcome = 'already_reversed' then now()
      end,
      updated_at = now()
  where r.id = pushed.id
  returning * into pushed;
  return pushed;
end
$$;
comment on function public.record_reversal_push is
  'Stores the response to a reversal request. After a temporary refusal it is sent again later. Without conversation ids and refusal, the response was lost: the reversal is queried, never sent again.';

create type public.settled_refund as (
  outcome text,
  refund public.refunds
);
comment on type public.settled_refund is 'Outcome of a message about a refund, and the refund afterwards.';

create function private.decide_reversal(
  refund public.refunds, source text, result text, refund_receipt text, refund_cents integer, originator_conversation_id text
) returns text
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  is_success constant boolean := decide_reversal.result = 'succeeded';
  code constant text := nullif(decide_reversal.refund_receipt, '');
begin
  return case
    when exists (select from public.refunds as r where r.refund_receipt = code and r.id <> refund.id) then 'receipt_replayed'
    when is_success and (
      code = refund.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then 'receipt_of_payment'
    -- Reversal results include the amount; a status with another amount may be about another payment.
    when is_success and code is not null and decide_reversal.source = 'status_result'
      and decide_reversal.refund_cents is distinct from refund.refund_cents then 'pending'
    when decide_reversal.originator_conversation_id <> refund.originator_conversation_id then 'other_request'
    when decide_reversal.result = 'pending' then 'pending'
    when is_success and refund.status = 'completed' then 'already_completed'
    when is_success and refund.tries = 0 then 'not_sent'
    when is_success and decide_reversal.refund_cents <> refund.refund_cents then 'wrong_amount'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt and r.status = 'completed'
        and (r.method = 'by_hand' or r.refund_receipt <> code)
    ) then 'sent_twice'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt
        and not private.is_dropped_refund(r.status) and not private.is_unsent_refund(r.status)
    ) then 'sent_by_another'
    when is_success then 'completed'
    when not private.is_refund_on_the_way(refund.status) then 'superseded'
    when decide_reversal.result = 'already_reversed' then 'already_reversed'
    when decide_reversal.result = 'not_reversed' and (
      -- M-PESA may not have processed the request yet, or has accepted it, or has reported a reversal of the payment before, in whatever amount.
      refund.sent_at > now() - interval '10 minutes' or refund.originator_conversation_id is not null
      or exists (select from public.payment_messages as m where m.refund_id = refund.id and m.outcome in ('already_reversed', 'wrong_amount'))
    ) then 'pending'
    else 'failed'
  end;
end
$$;
comment on function private.decide_reversal is
  'Decides what a message means for a refund. A receipt of incoming money is no receipt of a refund. not_reversed proves that nothing was sent only if M-PESA never accepted the request. The caller has locked the refund.';

create function public.settle_reversal(
  refund_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, refund_receipt text default null, refund_cents integer default null,
  originator_conversation_id text default null, source_address text default null, unreadable text[] default '{}'
) returns public.settled_refund
language plpgsql security definer set search_path = '' as $$
declare
  settled public.refunds;
  stored_message bigint;
  message_outcome text;
  settled_receipt constant text := private.normalised_receipt(settle_reversal.refund_receipt);
  unknown constant text[] := coalesce(settle_reversal.unreadable, '{}') || case
    when nullif(trim(settle_reversal.refund_receipt), '') is not null and settled_receipt is null then array['receipt'] else '{}'
  end;
begin
  if settle_reversal.result not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.lock_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into stored_message;
  if settled_receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settled_receipt));
  end if;
  -- lease_refunds does not lock the receipt: no other refund of this money may begin to be sent between the decision and the update.
  perform from public.refunds as r where r.receipt = settled.receipt and r.id <> settled.id for update;
  message_outcome := private.decide_reversal(
    settled, settle_reversal.source, settle_reversal.result, settled_receipt, settle_reversal.refund_cents,
    settle_reversal.originator_conversation_id
  );

  if message_outcome in ('completed', 'sent_twice', 'sent_by_another') then
    -- Also supersedes a failure. A second refund of the same money, requested after that failure, is withdrawn.
    update public.refunds as r
    set status = 'withdrawn', updated_at = now()
    where r.id <> settled.id and r.receipt = settled.receipt and private.is_unsent_refund(r.status);
  end if;
  case message_outcome
    when 'completed' then
      update public.refunds as r
      set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
      where r.id = settled.id;
      settled := private.complete_refund(settled.id, settled_receipt);
    when 'already_completed' then
      -- A result with another amount does not have this refund's receipt.
      if settled.refund_receipt is null and settled_receipt is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, settled_receipt);
      end if;
    when 'sent_twice' then
      settled := private.mark_sent_twice(settled, settled_receipt, settle_reversal.result_code, settle_reversal.result_description);
    when 'wrong_amount', 'already_reversed', 'failed' then
      update public.refunds as r
      set status = case
            when message_outcome = 'failed' then 'failed'
            when private.is_refund_on_the_way(r.status) then 'unknown'
            else r.status
          end,
          result_code = settle_reversal.result_code,
          result_description = case
            when message_outcome = 'wrong_amount'
              then format('M-PESA reported %s cents, %s were to be refunded', settle_reversal.refund_cents, r.refund_cents)
            else settle_reversal.result_description
          end,
          next_check_at = case when message_outcome = 'already_reversed' then now() end, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      null;
  end case;
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message;
  if cardinality(unknown) > 0 and settled.refund_receipt is null then
    perform private.add_message_to_check(
      settle_reversal.source, 'unreadable', settle_reversal.body, unknown, settled_receipt, settle_reversal.refund_cents, null, '', null,
      settled.id
    );
  elsif settled.refund_receipt is not null then
    update public.messages_to_check as m
    set resolution = 'read_later', resolved_at = now()
    where m.refund_id = settled.id and m.problem = 'unreadable' and m.resolution is null;
  end if;
  return (message_outcome, settled)::public.settled_refund;
end
$$;
comment on function public.settle_reversal is
  'Settles a refund by a message of M-PESA: stores the message, decides what it means (decide_reversal) and updates refund, payment and order in the same transaction. Idempotent. A success supersedes a failure, never the reverse. unreadable: as in settle_payment.';

create function private.mark_sent_twice(refund public.refunds, receipt text, result_code text, result_description text)
returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  marked public.refunds := refund;
begin
  if refund.sent_twice_at is not null then
    return refund;
  end if;
  update public.refunds as r
  set sent_twice_at = now(), refund_receipt = coalesce(r.refund_receipt, mark_sent_twice.receipt),
      result_code = mark_sent_twice.result_code, result_description = mark_sent_twice.result_description,
      next_check_at = null, updated_at = now()
  where r.id = refund.id
  returning * into marked;
  perform private.record_order_event(p.order_id, 'refund_sent_twice', 'mpesa', jsonb_build_object(
    'refund_id', marked.id, 'refund_cents', marked.refund_cents, 'receipt', marked.refund_receipt
  ))
  from public.payments as p where p.id = marked.payment_id;
  return marked;
end
$$;
comment on function private.mark_sent_twice is 'Marks a refund whose money was refunded in another way, too.';

create function public.find_refund_by_secret(result_secret text) returns uuid
language sql stable security definer set search_path = '' as $$
  select s.refund_id from private.refund_secrets as s where s.result_secret = find_refund_by_secret.result_secret;
$$;
comment on function public.find_refund_by_secret is 'The refund with this secret in its result URLs. Null: none.';

create function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  seen public.refunds := private.lock_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member, sent_twice_seen_by_email = private.email_of(member),
      sent_twice_note = private.read_reason(acknowledge_sent_twice.note, is_required => true), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;
comment on function public.acknowledge_sent_twice is 'Records how staff resolved money that was refunded twice.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;
grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret to service_role;
