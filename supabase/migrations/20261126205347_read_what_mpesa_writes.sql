-- What M-PESA writes is read in one place, and what cannot be read waits for staff (docs/decisions/reading-messages.md).
alter type private.payment_report add attribute unreadable text[];
comment on type private.payment_report is
  'What a message reports about a payment attempt. result: succeeded, failed or pending. received_cents: null if the message names no amount, or one that cannot be read. unreadable: what the message has but cannot be read: code, receipt, amount.';
alter type public.statement_status add attribute to_check bigint;
comment on type public.statement_status is
  'missed: gaps of the last 14 days. unsettled_messages: callbacks and confirmations that could not be settled. unmatched: money without a payment. to_check: messages_to_check that wait.';
alter table public.payments add column review_cause text;
comment on column public.payments.review_cause is
  'Why the attempt came into review, and stays afterwards. wrong_amount: a message named another amount than the charge, or none. contradiction: a message said that it failed, or gave no known result, but named money.';

drop function private.fail_attempt(uuid,text,private.payment_report,text);

drop function public.receive_mpesa_transaction(text,text,integer,text,timestamp with time zone,text,text,text,bigint);

drop function public.settle_payment(uuid,text,text,text,text,text,integer,text,text,text,text);

drop function public.settle_reversal(uuid,text,text,text,text,text,text,integer,text,text);

drop index public.payments_due_for_a_query;

alter table public.payments add constraint "a cause of a review is known" CHECK ((review_cause = ANY (ARRAY['wrong_amount'::text, 'contradiction'::text])));

create or replace function private.normalised_receipt(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if char_length(written) > 100 then
    return null;
  end if;
  -- Checked before the change to capitals, which turns some other letters into these.
  return upper(substring(regexp_replace(
    normalize(written, nfkc),
    '[\s\u0085\u00A0\u00AD\u061C\u1680\u180E\u2000-\u200F\u2028-\u202F\u205F-\u206F\u3000\uFEFF]', '', 'g'
  ) from '^[A-Za-z0-9]{10}$'));
end
$$;

comment on function private.normalised_receipt is
  'An M-PESA receipt in capitals, without blanks; null for any other text. normaliseReceipt in domain/mpesa-receipt.ts.';

create or replace function private.end_reviews() returns void
language plpgsql
set search_path = ''
-- Starts from the few attempts under review, not from all orders in order of id.
set enable_sort = on
set enable_bitmapscan = on
set jit = off
as $$
declare
  reviewed record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
begin
  for reviewed in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Resolved money belongs to another payment, was refunded, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for update of o skip locked
  loop
    -- updated_at stays: it decides the day in the books.
    update public.payments as p set status = 'failed', next_query_at = null where p.id = reviewed.payment_id and p.status = 'review';
    -- The customer gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

comment on function private.end_reviews is
  'Ends attempts under review whose money staff have resolved. A later success still supersedes this.';

create index payments_due_for_a_query on public.payments (next_query_at) where status in ('processing', 'review');

-- M-PESA allows few queries per minute. Prompts of one network must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5)
returns setof public.payments
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push had no response cannot be queried, and its callback arrives within 15 minutes or never. M-PESA reports
  -- no results after a day.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  update public.payments as p
  set next_query_at = null
  where p.status = 'review' and p.next_query_at is not null and p.created_at < now() - interval '1 day';
  -- All processes share the merchant's rate limit: one batch, then none until the limit allows the next.
  if not exists (
    select from public.payments as p
    where p.status in ('processing', 'review') and p.checkout_request_id is not null and p.next_query_at <= now()
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
    where p.status in ('processing', 'review') and p.checkout_request_id is not null and p.next_query_at <= now()
  ), network_queries as materialized (
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
    left join network_queries as n on n.widest_network = w.widest_network
    where p.status in ('processing', 'review')
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(n.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- A larger exponent would overflow the interval.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;

comment on function public.lease_payment_queries is
  'Leases attempts to query now: at most at_most at once, and per_minute; first those of the networks with the fewest queries in the last 15 minutes. Each is due again at growing intervals until it is settled.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  unreadable text[] default '{}'
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, private.normalised_receipt(receipt), merchant_request_id,
    checkout_request_id, coalesce(unreadable, '{}')
  );
  reported_receipt text;
  stored_message bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  message_outcome text;
  settled_id uuid;
begin
  if report.result not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  if nullif(trim(settle_payment.receipt), '') is not null and report.receipt is null then
    report.unreadable := report.unreadable || array['receipt'];
  end if;
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  -- A query names no receipt; a message that contradicted itself may have named it.
  if report.result = 'succeeded' and report.receipt is null then
    reported_receipt := private.receipt_of_contradiction(settle_payment.payment_id);
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id, reported_receipt]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into stored_message;

  if reported_receipt = private.receipt_of_contradiction(attempt.id) then
    report.receipt := reported_receipt;
  end if;
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_is_refunded => private.is_being_refunded(attempt.id),
    owner_is_refunded => private.is_being_refunded(receipt_owner.id)
  );

  if settlement.splits_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  settled_id := attempt.id;
  case settlement.decision
    when 'completes' then
      message_outcome := private.complete_attempt(attempt, report);
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents),
        'wrong_amount');
      perform private.store_mismatched_money(attempt, report);
    when 'contradiction' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported money and the result %s', coalesce(report.result_code, 'without a code')), 'contradiction');
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      perform private.store_mismatched_money(attempt, report);
    when 'confirmed_by_hand' then
      perform private.merge_receipt_owner(attempt, report, receipt_owner);
    when 'second_payment' then
      message_outcome := 'paid_twice';
      settled_id := private.add_second_payment(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = stored_message;
    when 'adds_details' then
      message_outcome := 'already_completed';
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  message_outcome := coalesce(message_outcome, settlement.decision);
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.match_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = stored_message;
  end if;
  if report.result = 'succeeded' and attempt.purpose = 'order' then
    perform private.correct_message_outcomes(m.payment_id) from public.payment_messages as m where m.id = stored_message;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  perform private.check_settled_message(attempt, report, settle_payment.body, settlement.decision);
  return (message_outcome, attempt)::public.settled_payment;
end
$$;

comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; a failure that names money needs review; every receipt stays in the books; an amount other than the charge needs review. unreadable: what the message has but cannot be read (code, receipt, amount): it waits for staff in messages_to_check.';

create or replace function private.decide_settlement(
  attempt public.payments, report private.payment_report, receipt_owner public.payments, is_other_request boolean,
  attempt_is_refunded boolean, owner_is_refunded boolean
) returns private.settlement
language plpgsql immutable set search_path = '' as $$
declare
  is_completed boolean := attempt.status = 'completed';
  names_other_amount boolean := report.received_cents <> attempt.charge_cents or (report.received_cents is null and report.source = 'callback');
  -- Anyone can type a reference, so it disproves nothing.
  is_by_reference boolean := report.source in ('confirmation', 'statement');
  splits_receipt boolean := coalesce(
    report.receipt <> attempt.receipt and attempt.presumption is not null and not is_by_reference and not attempt_is_refunded, false
  );
  -- The attempt without its presumed receipt.
  stays_completed boolean := is_completed and not (splits_receipt and attempt.presumption = 'attempt');
  attempt_receipt text := case when not splits_receipt then attempt.receipt end;
  -- M-PESA names money only when it moved.
  is_contradiction boolean := report.result <> 'succeeded' and (
    coalesce(report.received_cents > 0, false) or report.receipt is not null
    or coalesce(report.unreadable && array['receipt', 'amount'], false)
  );
  decision text := case
    when is_other_request then 'other_request'
    when is_contradiction and is_completed then 'superseded'
    -- The money is in the books already.
    when is_contradiction and receipt_owner.id is not null then 'receipt_replayed'
    when is_contradiction and report.received_cents <> attempt.charge_cents then 'wrong_amount'
    when is_contradiction then 'contradiction'
    when report.result = 'pending' then 'pending'
    -- Also an attempt completed by presumption: the money was not this prompt's.
    when report.result = 'failed' and (
      attempt.status in ('initiating', 'processing', 'unresolved')
      or (is_completed and attempt.presumption = 'attempt' and not attempt_is_refunded)
    ) then 'failed'
    when report.result = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.received_cents is null and attempt.review_cause is distinct from 'contradiction'
      then 'needs_review'
    -- The money of a payment test pays no order, and money of an order completes no test.
    when receipt_owner.id is not null and (receipt_owner.order_id is distinct from attempt.order_id
      or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)) then 'receipt_replayed'
    -- Already in the books; money that is refunded is not moved.
    when owner_is_refunded and (receipt_owner.method = 'prompt' or attempt_is_refunded) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and attempt_receipt is not null then 'already_completed'
    -- The receipt is in the books: as a separate payment, or as the presumed receipt of another attempt.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is a separate payment.
    when stays_completed and report.receipt <> attempt_receipt then
      case attempt.purpose when 'test' then 'already_completed' else 'second_payment' end
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else splits_receipt and decision in ('confirmed_by_hand', 'second_payment', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;

comment on function private.decide_settlement is
  'Decides what a message means for a payment attempt, from facts alone. receipt_owner: the other payment with this receipt. is_other_request: the request id belongs to another attempt. attempt_is_refunded, owner_is_refunded: a refund of that money is requested or done.';

create or replace function private.fail_attempt(
  attempt_id uuid, new_status text, report private.payment_report, description text, cause text default null
) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = new_status, result_code = report.result_code, result_description = description,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      review_cause = coalesce(p.review_cause, cause),
      -- A query can confirm money that a contradicting message named. It names no amount, so it cannot confirm another one.
      next_query_at = case
        when coalesce(p.review_cause, cause) = 'contradiction' and new_status = 'review'
          and coalesce(p.checkout_request_id, report.checkout_request_id) is not null and p.created_at > now() - interval '1 day'
        then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = attempt_id;
$$;

comment on function private.fail_attempt is
  'Ends an attempt without paying its order: failed, or review when the amount is not the charge or a message contradicts itself (cause).';

create or replace function private.receipt_of_contradiction(attempt_id uuid) returns text
language sql stable set search_path = '' as $$
  select t.receipt
  from public.payments as p
  join public.mpesa_transactions as t on t.attempt_id = p.id and t.received_cents = p.charge_cents
  where p.id = receipt_of_contradiction.attempt_id and p.status = 'review' and p.review_cause = 'contradiction'
    and t.payment_id is null and t.resolution is null
  order by t.created_at, t.receipt
  limit 1;
$$;

comment on function private.receipt_of_contradiction is
  'The receipt of the charged amount that a message named which contradicted itself about this attempt.';

create or replace function private.check_settled_message(attempt public.payments, report private.payment_report, body text, decision text)
returns void
language plpgsql set search_path = '' as $$
declare
  unknown text[] := report.unreadable;
begin
  if decision in ('wrong_amount', 'contradiction') then
    -- Money without a receipt or an amount cannot be stored as a transaction.
    unknown := unknown || case when report.receipt is null then array['receipt'] else '{}' end
      || case when coalesce(report.received_cents, 0) <= 0 then array['amount'] else '{}' end;
  end if;
  if cardinality(unknown) > 0 and decision <> 'other_request' and not (attempt.status = 'completed' and attempt.receipt is not null)
    and not (attempt.status = 'failed' and unknown = array['code'])
  then
    perform private.add_message_to_check(
      report.source, 'unreadable', check_settled_message.body, unknown, report.receipt, report.received_cents, null,
      coalesce((select o.tracking_number from public.orders as o where o.id = attempt.order_id), ''), attempt.id
    );
  end if;
  perform private.close_messages_to_check(attempt);
end
$$;

comment on function private.check_settled_message is
  'Lets a message about an attempt wait for staff as long as a part of it is unknown, and ends the wait of earlier messages that it explains.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

create or replace function private.store_transaction(
  source text, receipt text, received_cents integer, reference text, transacted_at timestamptz, payer_phone text, payer_name text
) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  is_confirmation constant boolean := store_transaction.source = 'confirmation';
  stored public.mpesa_transactions;
begin
  insert into public.mpesa_transactions as t (
    receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_confirmation_at, reported_by_statement_at,
    payment_id
  ) values (
    store_transaction.receipt, store_transaction.received_cents, coalesce(trim(store_transaction.reference), ''),
    nullif(trim(store_transaction.payer_phone), ''), nullif(trim(store_transaction.payer_name), ''), store_transaction.transacted_at,
    case when is_confirmation then now() end, case when not is_confirmation then now() end,
    (select p.id from public.payments as p where p.receipt = store_transaction.receipt)
  )
  on conflict (receipt) do update set
    -- A statement overrides a confirmation, which overrides a callback, because callbacks can be forged.
    received_cents = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.received_cents
      else excluded.received_cents
    end,
    transacted_at = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.transacted_at
      else excluded.transacted_at
    end,
    reference = case
      when t.reference <> '' and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.reference
      else excluded.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    reported_by_confirmation_at = coalesce(t.reported_by_confirmation_at, excluded.reported_by_confirmation_at),
    reported_by_statement_at = coalesce(t.reported_by_statement_at, excluded.reported_by_statement_at),
    updated_at = now()
  returning * into stored;
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.receipt = stored.receipt and m.problem = 'unreadable' and m.resolution is null;
  return stored;
end
$$;

comment on function private.store_transaction is
  'Stores what a confirmation or the statement reports about a receipt, each receipt once. The caller has locked the receipt.';

create or replace function public.receive_mpesa_transaction(
  source text, receipt text, received_cents integer, reference text default '', transacted_at timestamptz default null,
  payer_phone text default null, payer_name text default null, body text default '', message_id bigint default null,
  kind text default 'payment', unreadable text[] default '{}', reversed_receipt text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := private.normalised_receipt(receipt);
  unknown text[] := coalesce(unreadable, '{}')
    || case when private.normalised_receipt(receipt) is null then array['receipt'] else '{}' end
    || case when coalesce(received_cents, 0) <= 0 then array['amount'] else '{}' end;
  moment timestamptz := coalesce(transacted_at, now());
  for_order uuid;
  reported public.mpesa_transactions;
  known public.payments;
  settled public.settled_payment;
  outcome text;
  is_part boolean;
begin
  if source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is reported by a confirmation or the statement');
  elsif kind = 'outgoing' then
    perform private.store_message_outcome(message_id, source, body, null, null, 'outgoing') where message_id is not null;
    return ('outgoing', null)::public.settled_payment;
  elsif kind = 'reversal' then
    outcome := private.receive_reversal(source, code, received_cents, reference, moment, body, reversed_receipt);
    perform private.store_message_outcome(message_id, source, body, null, null, outcome) where message_id is not null;
    return (outcome, null)::public.settled_payment;
  elsif kind <> 'payment' or unknown && array['receipt', 'amount'] or (source = 'statement' and unknown && array['time']) then
    outcome := private.add_message_to_check(
      source, case when kind = 'payment' then 'unreadable' else 'unknown_kind' end, body, unknown, code, received_cents, transacted_at,
      reference
    );
    perform private.store_message_outcome(message_id, source, body, null, null, 'unreadable') where message_id is not null or outcome = 'new';
    outcome := case outcome when 'checked' then 'checked' else 'unreadable' end;
    return (outcome, null)::public.settled_payment;
  end if;

  -- The order must be locked first, but is known only after reading. If it changed before the lock, read again.
  loop
    for_order := private.order_of_transaction(code, reference);
    begin
      -- Leaving this block releases the lock, so that no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_transaction(code, reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  reported := private.store_transaction(source, code, received_cents, reference, moment, payer_phone, payer_name);
  -- A confirmation arrives within moments, so its money counts by the time of arrival until the statement names the time.
  if unknown && array['time'] and reported.reported_by_statement_at is null then
    perform private.add_message_to_check(source, 'unreadable', body, unknown, code, received_cents, null, reference);
  end if;
  perform private.add_receipt_to_test(reported);
  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    perform private.store_message_outcome(message_id, source, body, known.id, code, outcome);
    perform private.apply_reported_amount(known, reported);
    perform private.match_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return (outcome, known)::public.settled_payment;
  end if;

  -- Anyone can type an order's number. Less than its charge never pays it: staff decide.
  is_part := reported.received_cents < (select o.charge_cents from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or reported.resolution is not null
    or not private.is_whole_shillings(reported.received_cents)
  then
    outcome := 'unmatched';
    perform private.store_message_outcome(message_id, source, body, null, code, outcome);
    return (outcome, null)::public.settled_payment;
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, reported.received_cents, reported.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', reported.received_cents, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id, source => source, body => body,
    result => 'succeeded', result_code => '0', received_cents => reported.received_cents, receipt => code
  );
  -- The settlement stored the message again, with its payment.
  if message_id is not null then
    update public.payment_messages as m
    set source_address = stored.source_address, received_at = stored.received_at
    from public.payment_messages as stored
    where stored.id = receive_mpesa_transaction.message_id and m.id = (select max(later.id) from public.payment_messages as later
      where later.payment_id = (settled.payment).id and later.receipt = code and later.source = 'confirmation');
    delete from public.payment_messages as m where m.id = receive_mpesa_transaction.message_id;
  end if;
  return settled;
end
$$;

comment on function public.receive_mpesa_transaction is
  'Stores money that M-PESA reports by a confirmation or its statement, each receipt once. It belongs to the payment with this receipt, else to the order that its reference names: it completes an attempt of the same amount without a receipt, becomes a separate payment, or, if less than the charge, waits for staff. All other money stays unmatched for staff. Idempotent, in any order with other messages. kind: payment, reversal (of reversed_receipt, if it is named), outgoing (ignored) or unknown. unreadable: what the message has but cannot be read (receipt, amount, time). What cannot be read, and unknown kinds, wait in messages_to_check: the outcome is unreadable, or checked once staff have resolved it.';

create or replace function public.receipts_not_in_statement(receipts text[]) returns text[]
language sql stable security definer set search_path = '' as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_not_in_statement.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = private.normalised_receipt(given.receipt) and t.reported_by_statement_at is not null
  );
$$;

comment on function public.receipts_not_in_statement is 'Those of the receipts that no statement has listed.';

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.receipts_not_in_statement to service_role;

create or replace function private.lock_refundable_transaction(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  code text := private.normalised_receipt(lock_refundable_transaction.receipt);
  reported public.mpesa_transactions;
begin
  -- Settlements and reconciliation take the same lock for a receipt.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif private.is_being_refunded(null, code) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.payment_id is not null or exists (select from public.payments as p where p.receipt = code)
    or not private.is_whole_shillings(reported.received_cents)
  then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif not coalesce(lock_refundable_transaction.is_sure, false) and exists (select private.orders_missing_receipt(code)) then
    perform private.refuse(409, 'may_be_of_order', format(
      'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
      (select o.order_number from public.orders as o
       where o.id in (select private.orders_missing_receipt(code)) order by o.created_at desc limit 1)
    ));
  end if;
  return reported;
end
$$;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
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
  noted := private.open_refund(
    paid.id, null, paid.receipt, paid.charge_cents, note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

create or replace function public.settle_reversal(
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
    where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
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
            when r.status in ('sending', 'sent', 'unknown') then 'unknown'
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

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret to service_role;

-- Jobs: claims of calls of the payment function, by one process at a time

create or replace function private.is_payment_job_due(action text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that lease the work, such as lease_payment_queries.
  return case is_payment_job_due.action
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or p.status in ('initiating', 'processing')
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (r.status in ('sent', 'unknown') and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where r.status in ('requested', 'approved')
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
    ) or exists (
      select from public.payment_messages as m
      where m.outcome = 'error' and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    else false
  end;
end
$$;

comment on function private.is_payment_job_due is 'Whether the payment function has work for this action now.';

create or replace function private.read_receipt(typed text) returns text
language plpgsql stable set search_path = '' as $$
declare
  code text := private.normalised_receipt(typed);
begin
  if code is null then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  return code;
end
$$;

comment on function private.read_receipt is
  'An M-PESA receipt that staff typed, in capitals and without spaces. Refuses anything else.';

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff();
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  select max(s.finished_at), max(s.window_to) into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete';
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from public.statement_pulls as s
    where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where (m.outcome = 'error' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

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
  for select to authenticated using ((select public.is_admin()));

create index messages_to_check_waiting on public.messages_to_check (received_at) where resolution is null;

create index messages_to_check_by_payment on public.messages_to_check (payment_id) where payment_id is not null;

create index messages_to_check_by_refund on public.messages_to_check (refund_id) where refund_id is not null;

create index messages_to_check_by_receipt on public.messages_to_check (receipt) where receipt is not null;

create index messages_to_check_with_bodies on public.messages_to_check (received_at) where resolution is not null and body <> '{}';

create or replace function private.add_message_to_check(
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

create or replace function private.close_messages_to_check(attempt public.payments) returns void
language sql set search_path = '' as $$
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.resolution is null and m.problem = 'unreadable' and (
    (m.payment_id = attempt.id and (
      (attempt.status = 'completed' and attempt.receipt is not null)
      -- A message without a readable code is explained by any final result.
      or (attempt.status in ('completed', 'failed') and m.unreadable = array['code'])
    ))
    or (attempt.status = 'completed' and m.receipt = attempt.receipt and not m.unreadable && array['time'])
  );
$$;

comment on function private.close_messages_to_check is
  'Ends the wait of unreadable messages about an attempt once its result and receipt are known.';

create or replace function private.receive_reversal(
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
  where o.id = (select p.order_id from public.payments as p where p.receipt = original) for update;
  select p.* into reversed from public.payments as p where p.receipt = original;
  state := private.add_message_to_check(
    receive_reversal.source, 'reversed', receive_reversal.body, '{}', receive_reversal.receipt, receive_reversal.received_cents,
    receive_reversal.reversed_at, coalesce(original, receive_reversal.reference), reversed.id, refund.id
  );
  if state = 'new' and reversed.order_id is not null and not reversed.needs_refund and reversed.refunded_at is null then
    perform private.put_order_under_review(reversed.order_id);
  end if;
  return case state when 'checked' then 'checked' else 'reversed' end;
end
$$;

comment on function private.receive_reversal is
  'Matches a reversal that M-PESA lists with the refund that asked for it. Without one it waits for staff, and the order of the reversed payment needs review. Returns the outcome: completed, already_completed, reversed, or checked once staff have resolved it.';

create or replace function private.waiting_message_to_check(message_id bigint) returns public.messages_to_check
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

create or replace function private.finish_message_to_check(message_id bigint, resolution text, note text) returns public.messages_to_check
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

create or replace function public.enter_message_to_check(
  message_id bigint, receipt text, received_cents integer, transacted_at timestamptz
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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

create or replace function public.dismiss_message_to_check(message_id bigint, note text) returns public.messages_to_check
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  waiting public.messages_to_check := private.waiting_message_to_check(dismiss_message_to_check.message_id);
  reason text := trim(coalesce(dismiss_message_to_check.note, ''));
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
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

create or replace function public.suggest_orders(receipt text) returns table (
  id uuid, order_number text, tracking_number text, customer_name text, total_amount integer, payment_status text, status text,
  created_at timestamptz, lacks_receipt boolean
)
language plpgsql stable security definer set search_path = '' as $$
declare
  reported public.mpesa_transactions;
  -- Possibly paid by this money, whose receipt was lost.
  missing_receipt uuid[];
  referenced uuid;
begin
  perform private.expect_staff();
  select * into reported from public.mpesa_transactions as t where t.receipt = private.normalised_receipt(suggest_orders.receipt);
  missing_receipt := array(select private.orders_missing_receipt(reported.receipt));
  referenced := private.order_of_reference(reported.reference);
  return query
  select o.id, o.order_number, o.tracking_number, o.customer_name, o.total_amount, o.payment_status, o.status, o.created_at,
    o.id = any (missing_receipt)
  from public.orders as o
  where o.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour'
    and (
      (o.payment_status = 'unpaid' and o.charge_cents = reported.received_cents)
      or o.id = referenced
      or o.id = (select p.order_id from public.payments as p where p.id = reported.attempt_id)
      or o.id = any (missing_receipt)
    )
  order by o.id = any (missing_receipt) desc, o.id is not distinct from referenced desc, o.created_at desc
  limit 5;
end
$$;

comment on function public.suggest_orders is
  'For staff: orders that money may be for. First those with a prompt of this amount and time without a receipt (lacks_receipt), then unpaid ones of the same amount from the days before.';

create or replace function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := nullif(trim(resolve_difference.note), '');
  settled public.settled_payment;
  outcome text;
  event_kind text;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(code, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = code)
    );
    begin
      perform from public.orders as o where o.id = of_order for update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif code is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || code));
        select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
      end if;
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = code)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = code)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', reported.received_cents, 'unresolved', 'till', member)
    returning * into money;
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;

comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept; reopen. Recorded in reconciliation_events.';

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days, public.suggest_orders,
  public.resolve_difference to authenticated, service_role;

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := private.normalised_receipt(search);
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select private.order_of_reference(written) as id
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;

comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, reference or M-PESA receipt was typed completely; then only these match.';

create or replace function private.unsettled_money_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
declare
  unsettled public.orders;
begin
  select * into unsettled from public.orders as o where o.id = unsettled_money_reason.order_id;
  return case
    when unsettled.payment_status = 'unpaid' and unsettled.status <> 'cancelled' then 'It waits for its payment'
    when unsettled.payment_status = 'needs_review' then 'Its payment needs review'
    when exists (
      select from public.payments as p where p.order_id = unsettled.id and p.status in ('initiating', 'processing', 'review')
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and r.status not in ('completed', 'failed', 'withdrawn')
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
    when exists (
      select from public.messages_to_check as m
      join public.payments as p on p.id = m.payment_id
      where p.order_id = unsettled.id and m.resolution is null
    ) then 'A message of M-PESA about its payment is being checked'
  end;
end
$$;

comment on function private.unsettled_money_reason is
  'Why the money of an order is not settled yet, as a sentence. Null: settled. Until then the customer''s details are needed.';

create or replace function private.clear_old_payment_messages() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s));
begin
  -- Responses without a result prove nothing.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- The time, payment and outcome stay. Messages that could not be settled yet stay complete.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < retained_since and old.body <> '{}' and old.outcome is not null and old.outcome <> 'error'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < retained_since and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  -- Who resolved it, when and how stays; what waits stays complete.
  update public.messages_to_check as m
  set body = '{}', note = null
  where m.id in (
    select old.id from public.messages_to_check as old
    where old.received_at < retained_since and old.resolution is not null and old.body <> '{}'
    order by old.received_at limit 5000
    for update skip locked
  );
end
$$;

-- Metrics for monitoring (docs/monitoring.md)

create or replace function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and p.status in ('initiating', 'processing')
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status in ('initiating', 'processing')
  union all
  select 'payments_completed_last_day', null, count(*)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed' and p.completed_at > now() - interval '1 day'
  union all
  select 'payment_last_completed_timestamp_seconds', null, coalesce(extract(epoch from max(p.completed_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed'
  union all
  select 'transactions_without_payment', null, count(*)
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null
  union all
  select 'messages_to_check', null, count(*) from public.messages_to_check as m where m.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  ) + (select count(*) from public.payment_messages as m where m.outcome = 'error')
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    select m.received_at from public.payment_messages as m where m.source = known.source order by m.id desc limit 1
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause as pause where pause.until > now()
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and r.status not in ('completed', 'failed', 'withdrawn')
  )
  from unnest(array['requested', 'approved', 'sending', 'sent', 'unknown']) as known (status)
  union all
  select 'outbox_waiting', known.channel, (select count(*) from private.outbox_queue as q where q.channel = known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_oldest_due_seconds', known.channel, greatest(0, coalesce(extract(epoch from now() - (
    select min(q.due_at) from private.outbox_queue as q where q.channel = known.channel
  )), 0))
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_failed_last_day', known.status, (
    select count(*) from public.outbox_messages as m
    where m.status = known.status and m.created_at > now() - interval '1 day'
  )
  from unnest(array['failed', 'unsure', 'over_budget']) as known (status)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;

comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

alter publication supabase_realtime add table public.messages_to_check;

-- Rows

-- Receipts in capitals, without blanks. The same money may be booked under both spellings: then the prompt loses the other spelling, and is
-- matched with the payment that has M-PESA's.
do $$
declare
  known record;
  code text;
begin
  for known in
    select t.* from public.mpesa_transactions as t
    where t.receipt <> upper(regexp_replace(t.receipt, '\s', '', 'g'))
    order by t.created_at
  loop
    code := upper(regexp_replace(known.receipt, '\s', '', 'g'));
    insert into public.mpesa_transactions as t (
      receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_callback_at, reported_by_confirmation_at,
      reported_by_statement_at, payment_id, attempt_id, order_id, resolution, resolved_by, resolved_at, created_at, updated_at
    ) values (
      code, known.received_cents, known.reference, known.payer_phone, known.payer_name, known.transacted_at, known.reported_by_callback_at,
      known.reported_by_confirmation_at, known.reported_by_statement_at, known.payment_id, known.attempt_id, known.order_id,
      known.resolution, known.resolved_by, known.resolved_at, known.created_at, known.updated_at
    )
    on conflict (receipt) do update set
      attempt_id = coalesce(t.attempt_id, excluded.attempt_id),
      reported_by_callback_at = coalesce(t.reported_by_callback_at, excluded.reported_by_callback_at);
    update public.refunds as r set transaction_receipt = code where r.transaction_receipt = known.receipt;
    delete from public.mpesa_transactions as t where t.receipt = known.receipt;
  end loop;
  for known in
    select p.id, p.receipt, p.order_id from public.payments as p
    where p.receipt <> upper(regexp_replace(p.receipt, '\s', '', 'g'))
    order by p.created_at
  loop
    code := upper(regexp_replace(known.receipt, '\s', '', 'g'));
    if exists (select from public.payments as p where p.receipt = code) then
      update public.payments as p set receipt = null where p.id = known.id;
      perform private.match_receipts(known.order_id);
    else
      update public.payments as p set receipt = code where p.id = known.id;
    end if;
  end loop;
  update public.payment_messages as m set receipt = upper(regexp_replace(m.receipt, '\s', '', 'g'))
  where m.receipt <> upper(regexp_replace(m.receipt, '\s', '', 'g'));
  update public.refunds as r set receipt = upper(regexp_replace(r.receipt, '\s', '', 'g'))
  where r.receipt <> upper(regexp_replace(r.receipt, '\s', '', 'g')) and not exists (
    select from public.refunds as other where other.receipt = upper(regexp_replace(r.receipt, '\s', '', 'g'))
  );
  update public.refunds as r set refund_receipt = upper(regexp_replace(r.refund_receipt, '\s', '', 'g'))
  where r.refund_receipt <> upper(regexp_replace(r.refund_receipt, '\s', '', 'g')) and not exists (
    select from public.refunds as other where other.refund_receipt = upper(regexp_replace(r.refund_receipt, '\s', '', 'g'))
  );
end
$$;

-- Confirmations that could not be read were on no screen.
do $$
begin
  perform private.add_message_to_check(m.source, 'unreadable', m.body, array['receipt', 'amount'], null, null, null, '')
  from public.payment_messages as m
  where m.source = 'confirmation' and m.outcome = 'unreadable' and m.body <> '{}';
end
$$;

-- Until now attempts came into review by another amount only.
update public.payments as p set review_cause = 'wrong_amount' where p.status = 'review' and p.review_cause is null;

-- Only now, because rows may have had other spellings. Deferred checks of the changed rows would refuse the change of the table.
set constraints all immediate;
alter table public.payments add constraint "a receipt is in capitals, without blanks" check (receipt = upper(receipt) and receipt !~ '\s');
alter table public.mpesa_transactions
  add constraint "a receipt is in capitals, without blanks" check (receipt = upper(receipt) and receipt !~ '\s');
