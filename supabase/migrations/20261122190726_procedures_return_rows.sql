drop function public.acknowledge_sent_twice(uuid,text);

drop function public.approve_refund(uuid);

drop function public.begin_payment_test(text,text,uuid);

drop function public.close_unknown_refund(uuid,text);

drop function public.lease_payment_queries(integer,integer);

drop function public.lease_payment_test_queries(integer,integer);

drop function public.note_refund_by_hand(uuid,text,text);

drop function public.note_transaction_refund_by_hand(text,text,text,boolean);

drop function private.open_refund(uuid,uuid,text,integer,text,uuid);

drop function public.record_push(uuid,text,text,text,text,text);

drop function public.record_reversal_push(uuid,text,text,text,text,text);

drop function public.record_test_push(uuid,text,text,text,text,text);

drop function public.request_refund(uuid,text);

drop function public.request_test_refund(uuid);

drop function public.request_transaction_refund(text,text,boolean);

drop function public.withdraw_refund(uuid);

-- M-PESA prompts: what the payment function records about them and asks again.

create or replace function public.record_push(
  payment_id uuid,
  body text,
  merchant_request_id text default null,
  checkout_request_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns public.payments
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt public.payments;
begin
  -- Locked before its message is stored: the message's reference would take a weaker lock that two concurrent calls cannot raise.
  perform from public.payments as p where p.id = record_push.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, body, outcome)
  values (
    record_push.payment_id, 'push', record_push.body,
    case
      when record_push.checkout_request_id is not null then 'accepted'
      when record_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  -- A callback may arrive before the push is answered: what it settled stays settled.
  update public.payments as p
  set status = case
        when p.status <> 'initiating' then p.status
        when record_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when p.status = 'initiating' then coalesce(record_push.refusal_code, p.result_code) else p.result_code end,
      result_description = case
        when p.status = 'initiating' then coalesce(record_push.refusal_description, p.result_description)
        else p.result_description
      end,
      merchant_request_id = coalesce(p.merchant_request_id, record_push.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, record_push.checkout_request_id),
      next_query_at = case
        when p.status <> 'initiating' then p.next_query_at
        when record_push.refusal_code is null then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = record_push.payment_id
  returning * into attempt;
  return attempt;
end
$$;

comment on function public.record_push(uuid, text, text, text, text, text) is
  'Stores the response to the push. Without request ids and without a refusal the response was lost: the attempt stays open.';

grant execute on function public.record_push(uuid, text, text, text, text, text) to service_role;

-- M-PESA allows few queries per minute. Prompts of one network, which anyone can cause, must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5) returns setof public.payments
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- One process at a time; each attempt at growing intervals.
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push was never answered has no id to query; after 15 minutes no callback arrives any more. What M-PESA does not
  -- know after a day it will never know.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- All processes share the rate that M-PESA allows one merchant: a batch at once, then none until so many are allowed again.
  if not exists (
    select from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ), asked as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join asked as a on a.widest_network = w.widest_network
    where p.status = 'processing'
    -- The network with the fewest queries first, then the attempt that has waited longest.
    order by coalesce(a.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- The exponent is kept small: a long wait would be no interval any more.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;

comment on function public.lease_payment_queries(integer, integer) is
  'Attempts to query now, at most at_most at once and per_minute; those of the networks with the fewest queries in the last 15 minutes first. Each is leased: it is due again later, at growing intervals, until it is settled.';

grant execute on function public.lease_payment_queries(integer, integer) to service_role;

create or replace function public.begin_payment_test(phone text, notice_secret text, requested_by uuid) returns public.payment_tests
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  begun public.payment_tests;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  if not exists (
    select from public.admin_profiles as a where a.user_id = begin_payment_test.requested_by and a.is_active
  ) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  -- Tests make phones ring as well, so they are limited.
  if private.count_hit('payment_tests', 'all', interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Too many tests. Please wait a few minutes');
  end if;
  if private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payment_tests (phone, requested_by, requested_by_email)
  values (
    payer, begin_payment_test.requested_by,
    (select u.email from auth.users as u where u.id = begin_payment_test.requested_by)
  )
  returning * into begun;
  insert into private.payment_test_secrets (test_id, notice_secret) values (begun.id, begin_payment_test.notice_secret);
  return begun;
end
$$;

comment on function public.begin_payment_test(text, text, uuid) is
  'Opens a test by a member of staff. Only then may its prompt be sent.';

grant execute on function public.begin_payment_test(text, text, uuid) to service_role;

create or replace function public.record_test_push(
  test_id uuid,
  body text,
  merchant_request_id text default null,
  checkout_request_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns public.payment_tests
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  test public.payment_tests;
begin
  perform from public.payment_tests as t where t.id = record_test_push.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (test_id, source, body, outcome)
  values (
    record_test_push.test_id, 'push', record_test_push.body,
    case
      when record_test_push.checkout_request_id is not null then 'accepted'
      when record_test_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  update public.payment_tests as t
  set status = case
        when t.status <> 'initiating' then t.status
        when record_test_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when t.status = 'initiating' then record_test_push.refusal_code else t.result_code end,
      result_description = case when t.status = 'initiating' then record_test_push.refusal_description else t.result_description end,
      merchant_request_id = coalesce(t.merchant_request_id, record_test_push.merchant_request_id),
      checkout_request_id = coalesce(t.checkout_request_id, record_test_push.checkout_request_id),
      next_query_at = case
        when t.status = 'initiating' and record_test_push.refusal_code is null then now() + interval '10 seconds'
        when t.status <> 'initiating' then t.next_query_at
      end,
      updated_at = now()
  where t.id = record_test_push.test_id
  returning * into test;
  return test;
end
$$;

comment on function public.record_test_push(uuid, text, text, text, text, text) is
  'Keeps what the push of a test was answered, as record_push does of a payment.';

grant execute on function public.record_test_push(uuid, text, text, text, text, text) to service_role;

create or replace function public.lease_payment_test_queries(at_most integer default 1, per_minute integer default 5) returns setof public.payment_tests
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_test_queries'));
  update public.payment_tests as t
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where t.status in ('initiating', 'processing')
    and t.created_at < now() - case when t.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- Shares the rate with queries of payments, which come first.
  if not exists (
    select from public.payment_tests as t
    where t.status = 'processing' and t.checkout_request_id is not null and t.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_test_queries.at_most / greatest(lease_payment_test_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with due as (
    select t.id from public.payment_tests as t
    where t.status = 'processing' and t.checkout_request_id is not null and t.next_query_at <= now()
    order by t.next_query_at
    limit lease_payment_test_queries.at_most
    for update skip locked
  )
  update public.payment_tests as t
  set query_count = t.query_count + 1,
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(t.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where t.id = due.id
  returning t.*;
end
$$;

comment on function public.lease_payment_test_queries(integer, integer) is
  'Tests to ask M-PESA about now, if there are any; with the same limits as lease_payment_queries, whose allowance they share.';

grant execute on function public.lease_payment_test_queries(integer, integer) to service_role;

create or replace function private.open_refund(
  payment_id uuid, test_id uuid, receipt text, amount integer, reason text, member uuid
) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  opened public.refunds;
  must_wait boolean := open_refund.amount > private.refund_limit();
  member_email text := (select u.email from auth.users as u where u.id = open_refund.member);
begin
  if char_length(trim(coalesce(open_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, test_id, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    open_refund.payment_id, open_refund.test_id, open_refund.receipt, open_refund.amount, trim(open_refund.reason), 'reversal',
    case when must_wait then 'requested' else 'approved' end, must_wait, open_refund.member, member_email
  )
  returning * into opened;
  return opened;
end
$$;

-- Staff may have typed the amount: no more is refunded than M-PESA has reported under the same receipt.
create or replace function public.request_refund(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  paid public.payments := private.refundable_payment(request_refund.payment_id);
  told integer;
begin
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  select t.amount into told from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if told < paid.amount then
    perform private.refuse(409, 'amount_differs',
      'M-PESA told of less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.amount, request_refund.reason, member);
end
$$;

comment on function public.request_refund(uuid, text) is
  'A member of staff asks to send a payment''s money back by M-PESA, all of it. Up to store_settings.refund_approval_above it is sent next; above, it waits for another member.';

grant execute on function public.request_refund(uuid, text) to authenticated;

create or replace function public.request_test_refund(test_id uuid) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  test public.payment_tests;
begin
  select * into test from public.payment_tests as t where t.id = request_test_refund.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if test.refunded_at is not null or exists (
    select from public.refunds as r where (r.test_id = test.id or r.receipt = test.receipt) and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if test.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if test.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  return private.open_refund(null, test.id, test.receipt, test.amount, 'Test with KSh 1', member);
end
$$;

comment on function public.request_test_refund(uuid) is 'A staff member requests the refund of a payment test.';

grant execute on function public.request_test_refund(uuid) to authenticated;

create or replace function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  approved public.refunds := private.locked_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if approved.requested_by = member then
    perform private.refuse(403, 'second_member_needed', 'Another member of staff must approve what you asked for');
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member,
      approved_by_email = (select u.email from auth.users as u where u.id = member), updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;

comment on function public.approve_refund(uuid) is 'A second member of staff agrees to a refund above the limit. It is sent next.';

grant execute on function public.approve_refund(uuid) to authenticated;

create or replace function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  withdrawn public.refunds := private.locked_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return withdrawn;
  end if;
  if withdrawn.status not in ('requested', 'approved') then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return withdrawn;
end
$$;

comment on function public.withdraw_refund(uuid) is 'Any staff member withdraws a refund that was not sent to M-PESA yet.';

grant execute on function public.withdraw_refund(uuid) to authenticated;

create or replace function public.request_transaction_refund(receipt text, reason text, is_sure boolean default false) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  told public.mpesa_transactions := private.open_transaction_refund(
    request_transaction_refund.receipt, request_transaction_refund.is_sure
  );
  asked public.refunds;
  must_wait boolean := told.amount > private.refund_limit();
begin
  if char_length(trim(coalesce(request_transaction_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    transaction_receipt, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    told.receipt, told.receipt, told.amount, trim(request_transaction_refund.reason), 'reversal',
    case when must_wait then 'requested' else 'approved' end, must_wait, member,
    (select u.email from auth.users as u where u.id = member)
  )
  returning * into asked;
  perform private.keep_refund_decision(told.receipt, asked.reason, member);
  return asked;
end
$$;

comment on function public.request_transaction_refund(text, text, boolean) is
  'A member of staff asks to send money back that is no order''s, by its receipt; by the rules of request_refund. What may be an order''s, whose prompt lost its receipt, only when is_sure.';

grant execute on function public.request_transaction_refund(text, text, boolean) to authenticated;

create or replace function public.note_transaction_refund_by_hand(
  receipt text, refund_receipt text, reason text, is_sure boolean default false
) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  told public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.transaction_receipt = upper(trim(note_transaction_refund_by_hand.receipt)) and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_transaction_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return noted;
  end if;
  told := private.open_transaction_refund(
    note_transaction_refund_by_hand.receipt, note_transaction_refund_by_hand.is_sure
  );
  if char_length(trim(coalesce(note_transaction_refund_by_hand.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    transaction_receipt, receipt, amount, reason, method, status, requested_by, requested_by_email, refund_receipt, completed_at
  ) values (
    told.receipt, told.receipt, told.amount, trim(note_transaction_refund_by_hand.reason), 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member),
    private.checked_refund_receipt(note_transaction_refund_by_hand.refund_receipt), now()
  )
  returning * into noted;
  perform private.keep_refund_decision(told.receipt, format('By hand, receipt %s: %s', noted.refund_receipt, noted.reason), member);
  return noted;
end
$$;

comment on function public.note_transaction_refund_by_hand(text, text, text, boolean) is
  'A member of staff notes that money which is no order''s was sent back outside the shop. Repeatable by receipt.';

grant execute on function public.note_transaction_refund_by_hand(text, text, text, boolean) to authenticated;

create or replace function public.note_refund_by_hand(payment_id uuid, refund_receipt text, reason text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  paid public.payments;
  noted public.refunds;
  code text;
begin
  select r.* into noted from public.refunds as r
  where r.payment_id = note_refund_by_hand.payment_id and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return noted;
  end if;
  paid := private.refundable_payment(note_refund_by_hand.payment_id);
  if char_length(trim(coalesce(note_refund_by_hand.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  code := private.checked_refund_receipt(note_refund_by_hand.refund_receipt);
  insert into public.refunds (
    payment_id, receipt, amount, reason, method, status, requested_by, requested_by_email, refund_receipt, completed_at
  ) values (
    paid.id, paid.receipt, paid.amount, trim(note_refund_by_hand.reason), 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member), code, now()
  )
  returning * into noted;
  return private.complete_refund(noted.id, code);
end
$$;

comment on function public.note_refund_by_hand(uuid, text, text) is
  'A member of staff notes that a payment''s money was sent back outside the shop, with M-PESA''s receipt of that. Repeatable by receipt.';

grant execute on function public.note_refund_by_hand(uuid, text, text) to authenticated;

create or replace function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  closed public.refunds := private.locked_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if close_unknown_refund.refund_receipt is not null then
    return private.complete_refund(closed.id, private.checked_refund_receipt(close_unknown_refund.refund_receipt));
  end if;
  -- M-PESA may still be working on it.
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA is still being asked. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return closed;
end
$$;

comment on function public.close_unknown_refund(uuid, text) is
  'What a member of staff found out about a refund of which M-PESA tells nothing: the receipt by which it was sent, or, half an hour after it was tried, that nothing was sent.';

grant execute on function public.close_unknown_refund(uuid, text) to authenticated;

create or replace function public.record_reversal_push(
  refund_id uuid,
  body text,
  conversation_id text default null,
  originator_conversation_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  pushed public.refunds := private.locked_refund(record_reversal_push.refund_id);
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
  -- A result may arrive before the response to the request: what it settled stays settled.
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

comment on function public.record_reversal_push(uuid, text, text, text, text, text) is
  'Keeps what the request to reverse was answered. A refusal that passes leaves it agreed on, to be tried again. Without conversation ids and without a refusal the answer was lost: it is asked about, never sent again.';

grant execute on function public.record_reversal_push(uuid, text, text, text, text, text) to service_role;

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  seen public.refunds := private.locked_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if char_length(trim(coalesce(acknowledge_sent_twice.note, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member,
      sent_twice_seen_by_email = (select u.email from auth.users as u where u.id = member),
      sent_twice_note = trim(acknowledge_sent_twice.note), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'amount', seen.amount, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;

comment on function public.acknowledge_sent_twice(uuid, text) is
  'A member of staff has dealt with money that went back twice, and says how. It is shown with the refund, and waits for nobody any more.';

grant execute on function public.acknowledge_sent_twice(uuid, text) to authenticated;

create or replace function public.resolve_difference(
  decision text,
  receipt text default null,
  payment_id uuid default null,
  order_id uuid default null,
  note text default null,
  is_sure boolean default false
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid;
  member_email text;
  told public.mpesa_transactions;
  money public.payments;
  reason text := nullif(trim(resolve_difference.note), '');
  answer jsonb := '{}';
  happened text;
  of_order uuid;
begin
  perform private.expect_staff();
  member := private.expect_member();
  select u.email into member_email from auth.users as u where u.id = member;
  -- As the reason of a refund, which it may become.
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  happened := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if happened is null or num_nonnulls(resolve_difference.receipt, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt, then read. Whose the receipt is by then is checked again: no transaction waits for an order while
  -- it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
    );
    begin
      perform from public.orders as o where o.id = of_order for update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      end if;
      if resolve_difference.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || resolve_difference.receipt));
        select * into told from public.mpesa_transactions as t where t.receipt = resolve_difference.receipt for update;
      end if;
      -- With the same reference as before: another one might name another order.
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, told.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if told.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if happened = 'given' then
    if told.receipt is null or told.payment_id is not null or told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if told.amount < 100 or told.amount % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if exists (select from public.payment_tests as t where t.receipt = told.receipt) then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
    values (resolve_difference.order_id, '', told.amount, 'unresolved', 'till', member)
    returning * into money;
    answer := public.settle_payment(
      payment_id => money.id,
      source => 'till',
      body => jsonb_build_object('receipt', told.receipt, 'amount', told.amount, 'confirmed_by', member, 'email', member_email)::text,
      verdict => 'succeeded',
      amount => told.amount,
      receipt => told.receipt
    );
    money.id := (answer -> 'payment' ->> 'id')::uuid;
    if answer -> 'payment' ->> 'method' = 'prompt' and not (answer -> 'payment' ->> 'needs_refund')::boolean then
      answer := answer || '{"outcome": "joined"}';
    end if;
  elsif happened = 'refund' and money.id is not null then
    -- The rules of refunds decide what may be refunded, and who must approve.
    answer := to_jsonb(public.request_refund(money.id, coalesce(reason, 'Paid twice')));
  elsif happened = 'refund' then
    if told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    if told.amount < 100 or told.amount % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if not coalesce(resolve_difference.is_sure, false) and exists (select private.orders_of_lost_receipts(told.receipt)) then
      perform private.refuse(409, 'may_be_of_order', format(
        'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
        (select o.order_number from public.orders as o
         where o.id in (select private.orders_of_lost_receipts(told.receipt)) order by o.created_at desc limit 1)
      ));
    end if;
    insert into public.refunds (
      transaction_receipt, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
    )
    select told.receipt, told.receipt, told.amount, coalesce(reason, 'Not for any order'), 'reversal',
      case when told.amount > private.refund_limit() then 'requested' else 'approved' end,
      told.amount > private.refund_limit(), member, member_email;
  elsif happened = 'reopened' then
    if exists (
      select from public.refunds as r
      where (r.receipt = told.receipt or r.payment_id = money.id) and r.status not in ('failed', 'withdrawn')
    ) or told.resolution = 'given' then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
  elsif happened = 'not_an_order' and told.payment_id is not null then
    perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
  end if;

  if told.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(happened, 'reopened'),
        resolved_by = case when happened <> 'reopened' then member end,
        resolved_at = case when happened <> 'reopened' then now() end,
        updated_at = now()
    where t.receipt = told.receipt;
  end if;
  -- A refund of a payment records its own event.
  if happened <> 'refund' or money.id is null then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(told.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      happened, reason, member, member_email
    );
  end if;
  return jsonb_build_object('decision', happened, 'outcome', answer ->> 'outcome', 'payment_id', money.id);
end
$$;

comment on function public.resolve_difference(text, text, uuid, uuid, text, boolean) is
  'What staff decide about a difference of the reconciliation, named by its receipt or its payment: give it to an order (settled like every payment), not_an_order, refund (queued, by the rules of refunds; money that may be an order''s only when is_sure), accept, reopen. Kept in reconciliation_events.';

grant execute on function public.resolve_difference(text, text, uuid, uuid, text, boolean) to authenticated, service_role;
