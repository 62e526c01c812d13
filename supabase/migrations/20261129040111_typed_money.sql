-- Earlier versions keep working: they read and write the same columns. To them a note of kind not_owed is a note with its own word as label,
-- and an order counts all that came for it: after such a note, or once credit of its money paid another order, resolve_review refuses their
-- sum (order_changed) instead of counting that money twice. Their list of credit includes what M-PESA has not reported yet; use_credit
-- refuses it.
alter type public.owed_credit add attribute unconfirmed_receipt text;
comment on type public.owed_credit is
  'What is owed of one payment, in cents, and the order that it came for. unconfirmed_receipt: M-PESA has not reported it, so that it pays no order yet (private.is_unconfirmed).';
comment on type public.reconciliation_row is
  'A payment in the books of the shop and of M-PESA, joined by receipt. kind: matched; missing_here (no payment has M-PESA''s receipt); missing_there (a statement covers the payment but lacks it); not_compared (no statement covers it yet); typed (staff typed a receipt that M-PESA should have reported); double; wrong_amount. order_booked_cents: what counts for its order (counted_cents); order_waiting_cents: unassigned money under the order''s number.';
alter table public.payments rename constraint "only cash is received from somebody" to "only cash is received from a person";

alter table public.change_notes drop constraint "a kind of change is known";

alter table public.reconciliation_events drop constraint "a decision is known";

alter table public.change_notes add constraint "a kind of change is known" CHECK ((kind = ANY (ARRAY['credit'::text, 'to_return'::text, 'returned'::text, 'used'::text, 'use_taken_back'::text, 'not_owed'::text])));

alter table public.reconciliation_events add constraint "a decision is known" CHECK ((kind = ANY (ARRAY['given'::text, 'not_an_order'::text, 'refund'::text, 'accepted'::text, 'reopened'::text, 'taken_back'::text, 'delivered'::text, 'change_credit'::text, 'change_to_return'::text, 'change_returned'::text, 'change_used'::text, 'change_use_taken_back'::text, 'change_not_owed'::text])));

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  unreadable text[] default '{}', ended_by text default null, message_id bigint default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, private.normalised_receipt(receipt), merchant_request_id,
    checkout_request_id, coalesce(unreadable, '{}'), ended_by
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
  for no key update;
  perform private.lock_credit_of_receipt(private.normalised_receipt(settle_payment.receipt));
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
  if settle_payment.message_id is null then
    insert into public.payment_messages (payment_id, source, source_address, body, receipt)
    values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
    returning id into stored_message;
  else
    update public.payment_messages as m set receipt = report.receipt
    where m.id = settle_payment.message_id and m.payment_id = attempt.id and m.outcome is null
    returning m.id into stored_message;
    if stored_message is null then
      -- Another process has settled it.
      select m.outcome into message_outcome from public.payment_messages as m where m.id = settle_payment.message_id;
      return (coalesce(message_outcome, 'unknown'), attempt)::public.settled_payment;
    end if;
  end if;

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
    when 'paid_twice' then
      settled_id := private.add_payment_to_refund(attempt, report);
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
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; a failure that names money needs review; every receipt stays in the books; an amount other than the charge needs review. message_id: the message is stored already (store_callback), and is settled once. unreadable: what the message has but cannot be read (code, receipt, amount): it waits for staff in messages_to_check.';

create or replace function private.merge_receipt_owner(attempt public.payments, report private.payment_report, receipt_owner public.payments)
returns void
language plpgsql set search_path = '' as $$
declare
  merged_id uuid := receipt_owner.id;
begin
  if receipt_owner.method = 'prompt' then
    merged_id := private.separate_receipt(receipt_owner.id);
  end if;
  perform private.merge_payments(merged_id, attempt.id);
  update public.payments as p
  set result_code = report.result_code, result_description = report.result_description, presumption = null,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id), updated_at = now()
  where p.id = attempt.id;
  if receipt_owner.charge_cents <> attempt.charge_cents and not receipt_owner.needs_refund then
    -- The order needed review only for the amount that staff typed.
    if receipt_owner.charge_cents > attempt.charge_cents then
      perform private.limit_owed(attempt.id, 'M-PESA reported less than was entered', leaves_charge => true);
      perform private.put_order_under_review(o.id) from public.orders as o
      where o.id = attempt.order_id and private.counted_for_order(o.id) < o.charge_cents;
    end if;
    perform private.mark_order_paid(o.id) from public.orders as o
    where o.id = attempt.order_id and o.payment_status = 'needs_review' and private.counted_for_order(o.id) >= o.charge_cents;
  end if;
  perform private.match_receipts(attempt.order_id);
end
$$;

comment on function private.merge_receipt_owner is
  'Merges the payment that has the attempt''s receipt into the attempt. The caller has locked the order.';

create or replace function private.purpose_for_reviewed_order(attempt public.payments, source text, reviewed public.orders) returns text
language plpgsql set search_path = '' as $$
declare
  received_cents bigint;
  is_refunding boolean;
begin
  if exists (
    select from public.payments as p
    where p.order_id = reviewed.id and p.status = 'completed' and not p.needs_refund and public.counted_cents(p) = reviewed.charge_cents
  ) then
    return 'paid_twice';
  elsif attempt.charge_cents = reviewed.charge_cents then
    -- The exact charge pays the order; earlier money is refunded.
    update public.payments as p
    set needs_refund = true, updated_at = now()
    where p.order_id = reviewed.id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
    perform private.correct_message_outcomes(p.id) from public.payments as p
    where p.order_id = reviewed.id and p.id <> attempt.id and p.status = 'completed';
    return 'pays';
  elsif source <> 'till' then
    return 'paid_twice';
  end if;
  -- Partial payments assigned by staff pay the order once they add up to its charge.
  select attempt.charge_cents + coalesce(sum(public.counted_cents(p)) filter (where not private.is_being_refunded(p.id)), 0),
    coalesce(bool_or(private.is_being_refunded(p.id)), false)
  into received_cents, is_refunding
  from public.payments as p
  where p.order_id = reviewed.id and p.status = 'completed' and not p.needs_refund;
  return case
    when received_cents < reviewed.charge_cents then 'part'
    when received_cents = reviewed.charge_cents and not is_refunding then 'pays'
    else 'paid_twice'
  end;
end
$$;

comment on function private.purpose_for_reviewed_order is
  'What further money does for an order that needs review: pays (then earlier money is refunded, or added up), part or paid_twice.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

create or replace function private.apply_reported_amount(known public.payments, reported public.mpesa_transactions) returns void
language plpgsql set search_path = '' as $$
declare
  of_order public.orders;
  pays_exactly boolean;
  -- The payment with the reported amount.
  money public.payments;
  is_being_refunded constant boolean := private.is_being_refunded(known.id);
begin
  if known.method <> 'till' or known.charge_cents = reported.received_cents then
    return;
  end if;
  perform private.limit_owed(known.id, 'M-PESA reported less than was entered', leaves_charge => true)
  where known.charge_cents > reported.received_cents;
  if is_being_refunded then
    return;
  end if;
  select * into of_order from public.orders as o where o.id = known.order_id;
  if private.is_whole_shillings(reported.received_cents) and (known.needs_refund or of_order.payment_status = 'needs_review') then
    -- Nothing was decided by the typed amount.
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    if not known.needs_refund and private.counted_for_order(of_order.id) = of_order.charge_cents then
      perform private.mark_order_paid(of_order.id);
    end if;
    return;
  end if;
  -- Staff accepted another amount, and the charge came.
  money := known;
  money.charge_cents := reported.received_cents;
  pays_exactly := of_order.payment_status = 'paid' and not known.needs_refund
    and of_order.charge_cents = public.counted_cents(money)
      + coalesce(private.counted_for_order(of_order.id, except_payment => known.id), 0);
  if pays_exactly then
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
  elsif reported.received_cents < known.charge_cents and not known.needs_refund then
    if private.put_order_under_review(of_order.id) and private.is_whole_shillings(reported.received_cents) then
      update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    end if;
  end if;
end
$$;

comment on function private.apply_reported_amount is
  'Replaces the amount that staff typed for a receipt by the one that M-PESA reports, and updates the order: what did not come is not owed, and what paid another order does not count for its own. The caller has locked the order, and the credit of the receipt.';

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
      perform from public.orders as o where o.id = for_order for no key update;
      perform private.lock_credit_of_receipt(code);
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
    known := private.add_till_payment(for_order, reported.received_cents);
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

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.till_registration, public.receipts_not_in_statement to service_role;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable set search_path = '' as $$
declare
  coverage tstzmultirange := private.statement_coverage(tstzrange(since, until + interval '10 minutes'));
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when private.ended_unpaid(p.status) then 'wrong_amount'
        -- Paid twice. Earlier versions read this word.
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents
          or (o.payment_status = 'needs_review' and money.counted_cents <> o.charge_cents) then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        -- A payment that joins a later attempt was completed before that was made.
        when (
          case when p.created_at >= since then coverage
            else private.statement_coverage(tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes')) end
        ) @> tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.counted_cents, money.waiting_cents, change.owed_cents, change.returned_cents, change.used_cents
    from entries as e
    -- Lookups by key for each entry, with any statistics: an offset keeps the planner from joining whole tables.
    left join lateral (select * from public.payments as p where p.id = e.payment_id offset 0) as p on true
    left join lateral (select * from public.orders as o where o.id = coalesce(p.order_id, (e.t).order_id) offset 0) as o on true
    left join lateral (
      select
        booked.*,
        (select sum(part.received_cents) from (select * from public.mpesa_transactions as part where part.order_id = o.id offset 0) as part
         where part.payment_id is null and part.resolution is null) as waiting_cents
      from (
        select sum((own.payment).charge_cents) as booked_cents, sum(public.counted_cents(own.payment)) as counted_cents
        from (select p as payment from public.payments as p where p.order_id = o.id offset 0) as own
        where (own.payment).status = 'completed' and not (own.payment).needs_refund
      ) as booked
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by private.is_dropped_refund(r.status), r.created_at desc
      limit 1
    ) as refund on true
    -- The money of a payment test pays no order.
    where p.purpose is distinct from 'test'
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or not private.is_dropped_refund(c.refund_status)
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null and (c.p).charge_cents > c.returned_cents + c.used_cents
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    -- Money that a callback named for a completed payment besides its own is not booked: the payment has a row of its own.
    case when (c.p).status = 'review' or ((c.p).status = 'completed' and ((c.t).receipt is null or (c.t).payment_id is not null))
      then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.counted_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function private.settle_order_again(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  settled public.orders;
  exact uuid;
  received bigint;
begin
  select * into strict settled from public.orders as o where o.id = settle_order_again.order_id;
  -- Only money that goes back is left: if M-PESA was not asked for it yet, it pays the order instead.
  if settled.status <> 'cancelled' and not exists (
    select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
  ) then
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
    where private.is_unsent_refund(r.status) and r.tries = 0 and r.payment_id = (
      select p.id from public.payments as p
      where p.order_id = settled.id and private.can_still_pay(p)
      order by p.charge_cents = settled.charge_cents desc, private.is_being_refunded(p.id, p.receipt), p.completed_at, p.id
      limit 1
    );
  end if;
  -- The exact charge pays the order; otherwise the earliest money counts for it, if none does.
  select p.id into exact from public.payments as p
  where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null and not private.is_being_refunded(p.id, p.receipt)
    and not private.is_kept_apart(p)
    and (public.counted_cents(p) = settled.charge_cents or not exists (
      select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
    ))
  order by public.counted_cents(p) = settled.charge_cents desc, not p.needs_refund desc, p.completed_at, p.id
  limit 1;
  if exact is not null then
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = exact and p.needs_refund;
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = settled.id and p.id <> exact and p.status = 'completed' and not p.needs_refund;
  end if;
  received := private.counted_for_order(settled.id);
  if received is null then
    perform private.reopen_unpaid_order(settled.id);
  elsif received <> settled.charge_cents and settled.payment_status = 'paid' then
    if not private.put_order_under_review(settled.id) then
      -- Cancelled, and its units were returned.
      update public.orders as o set payment_status = 'needs_review', units_returned_at = null, updated_at = now()
      where o.id = settled.id;
      delete from public.deliveries as d where d.order_id = settled.id;
    end if;
  elsif received = settled.charge_cents and settled.payment_status = 'needs_review' then
    perform private.mark_order_paid(settled.id);
  end if;
  perform private.correct_message_outcomes(p.id)
  from public.payments as p where p.order_id = settled.id and p.status = 'completed';
end
$$;

comment on function private.settle_order_again is
  'Sets what an order is after one of its payments was taken away: paid by another one, under review, or unpaid. The caller has locked the order.';

create or replace function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  reason text := private.read_reason(resolve_review.note);
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
  has_something_left boolean;
begin
  if resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_review.receipt is not null then
    perform public.resolve_difference('give', resolve_review.receipt, null, resolve_review.order_id, reason);
  end if;
  select * into decided from public.orders as o where o.id = resolve_review.order_id;
  select sum(public.counted_cents(p)), bool_or(private.left_to_refund(p) >= 100) into received, has_something_left
  from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    and not private.is_being_refunded(p.id, p.receipt);
  select p.* into largest from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund
  -- A surplus is of the money, not of the credit beside it.
  order by p.method = 'credit', p.charge_cents desc, p.id limit 1;
  surplus := received - decided.charge_cents;
  -- The exact charge under the receipt may have paid it already.
  if received is null or (decided.payment_status <> 'needs_review' and not (
    decided.payment_status = 'paid' and resolve_review.receipt is not null and surplus = 0 and resolve_review.decision = 'deliver'
  )) then
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  elsif received <> resolve_review.seen_cents then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  elsif (surplus > 0) <> (resolve_review.decision in ('deliver_with_credit', 'deliver_and_return')) and resolve_review.decision <> 'cancel_and_refund' then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;

  if resolve_review.decision = 'cancel_and_refund' and not has_something_left then
    -- All of it paid other orders, or went back already.
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund;
    perform private.settle_order_again(decided.id);
    update public.orders as o set status = 'cancelled', updated_at = now() where o.id = decided.id and o.status <> 'cancelled';
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (largest.receipt, largest.id, decided.id, 'accepted', reason, member, private.email_of(member));
    return resolve_review.decision;
  end if;
  if resolve_review.decision = 'cancel_and_refund' then
    -- Each refund records its own event.
    perform public.request_refund(coalesce(reason, 'Another amount than the charge'), p.id)
    from public.payments as p
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
      and not private.is_being_refunded(p.id, p.receipt);
    return resolve_review.decision;
  end if;
  if decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  end if;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (largest.receipt, largest.id, decided.id, 'delivered', reason, member, private.email_of(member));
  if surplus > 0 then
    perform private.add_change_note(
      largest, case resolve_review.decision when 'deliver_with_credit' then 'credit' else 'to_return' end, surplus::integer, null, reason, member
    );
  end if;
  return resolve_review.decision;
end
$$;

comment on function public.resolve_review is
  'For staff: decides in one step about an order that needs review and the money that came for it (seen_cents: what counts of it, as seen). deliver: a shortfall is forgiven. deliver_with_credit, deliver_and_return: the surplus is owed as credit, or to be sent back. cancel_and_refund: all of it goes back, by the rules of refunds; if nothing is left of it, the order is only cancelled. receipt: unassigned money that is assigned to the order first.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review,
  public.check_typed_receipt to authenticated, service_role;

comment on table public.change_notes is
  'Change of a payment (docs/decisions/kept-for-customers.md). credit, to_return: owed to the customer. returned: sent back outside the shop. used: it paid another order (used_for); use_taken_back: it did not after all. not_owed: less is owed, because M-PESA reported less than staff typed, or because it counts for its own order again. Append-only.';

comment on column public.change_notes.way is 'How returned change went back: by M-PESA, with its receipt, or in cash. Null: for other kinds, and where earlier versions noted it.';

comment on column public.change_notes.is_part_refund is 'Part of the price went back, for example for a missing drink: not what was owed as change.';

comment on column public.change_notes.used_for is
  'The payment of method credit on the order that the credit paid. Without a foreign key, as payments embed their notes by the only one.';

create or replace function public.counted_cents(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select greatest(paid.charge_cents - greatest(sums.balance, 0) - sums.used - sums.returned, 0)::integer
  from (
    select
      coalesce(sum(case
        when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
        when not c.is_part_refund then -c.amount_cents
      end), 0) as balance,
      coalesce(sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents end), 0) as used,
      coalesce(sum(c.amount_cents) filter (where c.kind = 'returned' and not c.is_part_refund), 0) as returned
    from public.change_notes as c
    where c.payment_id = paid.id
  ) as sums;
$$;

comment on function public.counted_cents is
  'What a payment counts for its own order, in cents: without what is owed of it, went back as change, or paid other orders. A part refund lowers the price, not what came for it.';

create or replace function private.counted_for_order(order_id uuid, except_payment uuid default null) returns bigint
language sql stable set search_path = '' as $$
  select sum(public.counted_cents(p)) from public.payments as p
  where p.order_id = counted_for_order.order_id and p.status = 'completed' and not p.needs_refund
    and p.id is distinct from counted_for_order.except_payment;
$$;

comment on function private.counted_for_order is
  'What counts for an order of all its payments (counted_cents), or of all but one. Null: it has none.';

create or replace function private.came_cents(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select coalesce((
    select case
      when t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null then t.received_cents
      else greatest(paid.charge_cents, t.received_cents)
    end
    from public.mpesa_transactions as t where t.receipt = paid.receipt
  ), paid.charge_cents);
$$;

comment on function private.came_cents is
  'What came with a payment, in cents: what a confirmation or the statement reported for its receipt, else what is booked. An order that has left the shop keeps the amount that staff typed.';

create or replace function private.limit_owed(payment_id uuid, note text, leaves_charge boolean default false) returns void
language plpgsql set search_path = '' as $$
declare
  paid public.payments;
  change record;
  part_refunds bigint;
  of_order bigint := 0;
  excess bigint;
begin
  select * into strict paid from public.payments as p where p.id = limit_owed.payment_id;
  select * into change from private.change_of(paid.id);
  if change.owed_cents = 0 or paid.refunded_at is not null then
    return;
  end if;
  select coalesce(sum(c.amount_cents), 0) into part_refunds
  from public.change_notes as c where c.payment_id = paid.id and c.is_part_refund;
  if limit_owed.leaves_charge and not paid.needs_refund then
    select o.charge_cents - coalesce(private.counted_for_order(o.id, except_payment => paid.id), 0) into of_order
    from public.orders as o where o.id = paid.order_id;
  end if;
  -- A part refund came out of what the order has.
  excess := change.owed_cents - greatest(
    private.came_cents(paid) - change.used_cents - (change.returned_cents - part_refunds) - greatest(of_order, part_refunds), 0
  ) / 100 * 100;
  if excess > 0 then
    perform private.add_change_note(paid, 'not_owed', excess::integer, null, limit_owed.note, null);
  end if;
end
$$;

comment on function private.limit_owed is
  'Notes that less is owed of a payment than was noted, if so much did not come: it paid other orders or went back, too, and leaves the charge to its own order (leaves_charge). The caller has locked the credit of its phone.';

create or replace function private.lock_credit_of_receipt(receipt text) returns void
language sql volatile set search_path = '' as $$
  select private.lock_credit(o.customer_phone)
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.receipt = lock_credit_of_receipt.receipt and exists (select from public.change_notes as c where c.payment_id = p.id);
$$;

comment on function private.lock_credit_of_receipt is
  'Locks the credit that money with this receipt is part of: a report may lower it. Taken after the order, and before the receipt.';

create or replace function private.add_change_note(
  payment public.payments, kind text, amount_cents integer, receipt text, note text, member uuid, way text default null,
  is_part_refund boolean default false, used_for uuid default null
) returns public.change_notes
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change record;
  noted public.change_notes;
begin
  select c.*, private.came_cents(payment) as came_cents into change from private.change_of(payment.id) as c;
  -- All of it goes back as a refund, which ends its order.
  if (kind = 'returned' and change.returned_cents + change.used_cents + amount_cents >= change.came_cents)
    or (is_part_refund and change.returned_cents + change.used_cents + change.owed_cents + amount_cents >= change.came_cents)
    or (kind in ('credit', 'to_return')
      and change.returned_cents + change.used_cents + change.owed_cents + amount_cents > change.came_cents)
  then
    perform private.refuse(409, 'change_exceeds_payment', 'This is more than what is left of this payment. To send all of it back, refund it');
  end if;
  -- What M-PESA reported beyond a typed amount is booked with its change: otherwise it would go back without having come.
  update public.payments as p set charge_cents = change.came_cents, updated_at = now()
  where p.id = payment.id and p.method = 'till' and p.charge_cents < change.came_cents and private.is_whole_shillings(change.came_cents);
  insert into public.change_notes (
    payment_id, kind, amount_cents, receipt, note, noted_by, noted_by_email, way, is_part_refund, used_for
  ) values (
    payment.id, kind, amount_cents, receipt, note, member, private.email_of(member), way, is_part_refund, used_for
  )
  returning * into noted;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (
    payment.receipt, payment.id, payment.order_id, 'change_' || noted.kind,
    concat_ws(': ',
      format('KES %s', to_char(noted.amount_cents / 100, 'FM999,999,999')) || coalesce(', receipt ' || noted.receipt, '')
        || case when noted.way = 'cash' then ', in cash' else '' end
        || coalesce(', for ' || (
          select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.id = noted.used_for
        ), ''),
      noted.note),
    member, private.email_of(member)
  );
  return noted;
end
$$;

comment on function private.add_change_note is
  'Adds a note of change, and books all that M-PESA reported for a typed amount. What is owed, what went back and what paid other orders together never exceed the payment. The caller has locked the order and the payment; for credit that is used, the payment and the credit of the phone.';

create or replace function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  perform private.record_order_event(
    -- Less than staff typed was reported.
    p.order_id, 'change_noted', case when new.kind = 'not_owed' and new.noted_by is null then 'mpesa' else 'staff' end, jsonb_build_object(
      'change', new.kind, 'charge_cents', new.amount_cents, 'receipt', new.receipt, 'way', new.way, 'note', new.note,
      'is_part_refund', case when new.is_part_refund then true end,
      'order_number', (
        select o.order_number from public.payments as used join public.orders as o on o.id = used.order_id where used.id = new.used_for
      )
    )
  )
  from public.payments as p where p.id = new.payment_id;
  return null;
end
$$;

create or replace function private.is_unconfirmed(paid public.payments) returns boolean
language sql stable set search_path = '' as $$
  select paid.status = 'completed' and paid.method = 'till' and paid.confirmed_by is not null
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = paid.receipt and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
    and private.should_be_reported(paid.order_id)
    and 'accepted' is distinct from (
      select e.kind from public.reconciliation_events as e
      where e.payment_id = paid.id and e.kind not like 'change\_%' order by e.id desc limit 1
    );
$$;

comment on function private.is_unconfirmed is
  'Whether a payment is a receipt that staff typed and M-PESA should have reported, but has not. Ends when staff keep it in Reconciliation.';

create or replace function public.is_unconfirmed(paid public.payments) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return (select private.is_unconfirmed(p) from public.payments as p where p.id = paid.id);
end
$$;

comment on function public.is_unconfirmed is
  'For staff: whether a payment is a receipt that staff typed and M-PESA should have reported, but has not. What is owed of it pays no order until then, or until staff keep it in Reconciliation.';

create or replace function private.credit_of_phone(phone text) returns setof public.owed_credit
language plpgsql stable rows 2 set search_path = '' as $$
begin
  return query
    select p.id, o.id, o.order_number, change.owed_cents::integer, noted.at,
      case when private.is_unconfirmed(p) then p.receipt end
    from private.orders_of_phone(credit_of_phone.phone) as o
    join public.payments as p on p.order_id = o.id and private.has_usable_credit(p)
    cross join lateral (
      select min(c.noted_at) as at from public.change_notes as c where c.payment_id = p.id and c.kind in ('credit', 'to_return')
    ) as noted
    cross join lateral private.change_of(p.id) as change
    where noted.at is not null and change.owed_cents > 0
    order by noted.at, p.id;
end
$$;

comment on function private.credit_of_phone is 'What is owed to a phone (+254…) and can pay its orders, at once or once M-PESA has reported it, the oldest first.';

create or replace function private.credit_of_own_order(ordered public.orders, payment_id uuid default null) returns setof public.payments
language sql stable rows 1 set search_path = '' as $$
  select p.*
  from public.payments as p
  cross join lateral private.change_of(p.id) as change
  where p.order_id = ordered.id and (credit_of_own_order.payment_id is null or p.id = credit_of_own_order.payment_id)
    and p.method <> 'credit' and change.owed_cents > 0 and private.has_usable_credit(p)
    and case ordered.payment_status
      when 'needs_review' then not p.needs_refund
      when 'unpaid' then p.needs_refund and change.owed_cents >= ordered.charge_cents and not private.is_unconfirmed(p)
      else false
    end
  order by p.completed_at, p.id;
$$;

comment on function private.credit_of_own_order is
  'Payments of an order of which something is owed that can pay the order itself: of its own money while it needs review, or of a second payment that was kept and covers the charge of the unpaid order.';

create or replace function public.credit_for_order(order_id uuid) returns setof public.owed_credit
language plpgsql stable security definer rows 2 set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return query
    select c.payment_id, c.order_id, c.order_number, c.owed_cents, c.noted_at,
      -- To count for its own order again, it need not have come.
      case when c.order_id <> o.id then c.unconfirmed_receipt end
    from public.orders as o
    cross join lateral private.credit_of_phone(o.customer_phone) as c
    where o.id = credit_for_order.order_id and o.customer_phone <> '' and (
      c.order_id <> o.id or exists (select private.credit_of_own_order(o, c.payment_id))
    );
end
$$;

comment on function public.credit_for_order is
  'For staff: what is owed to the phone of an order, and can pay it (with unconfirmed_receipt once M-PESA has reported that), the oldest first. Of the order itself: what is owed of its money while it needs review, or of a second payment that covers its charge.';

create or replace function private.pay_from_credit(ordered public.orders, amount_cents integer, note text, member uuid) returns public.payments
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  missing integer := pay_from_credit.amount_cents;
  source record;
  part integer;
  added public.payments;
begin
  perform private.lock_credit(ordered.customer_phone);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, note, completed_at)
  values (ordered.id, '', missing, 'completed', 'credit', member, pay_from_credit.note, now())
  returning * into added;
  for source in
    select c.* from private.credit_of_phone(ordered.customer_phone) as c
    where c.order_id <> ordered.id and c.unconfirmed_receipt is null
    order by c.noted_at, c.payment_id
  loop
    exit when missing = 0;
    part := least(source.owed_cents, missing);
    perform private.add_change_note(p, 'used', part, null, null, member, used_for => added.id)
    -- Another transaction may be joining it to the prompt of the same money.
    from (select * from public.payments as p where p.id = source.payment_id for key share) as p;
    continue when not found;
    missing := missing - part;
  end loop;
  if missing > 0 then
    perform private.refuse(409, 'credit_too_low', format(
      'KES %s of credit is left for this phone, less than what this order needs',
      to_char((pay_from_credit.amount_cents - missing) / 100, 'FM999,999,990')
    ), (pay_from_credit.amount_cents - missing)::text);
  end if;
  return added;
end
$$;

comment on function private.pay_from_credit is
  'Adds a payment of an order from what is owed to its phone, the oldest first; refuses if that is less. The caller has locked the order, and no product.';

create or replace function public.use_credit(order_id uuid, note text default null) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  reason text := private.read_reason(use_credit.note);
  ordered public.orders;
  missing bigint;
  own public.payments;
  part integer;
  used public.payments;
begin
  select * into ordered from public.orders as o where o.id = use_credit.order_id for no key update;
  if ordered.payment_status = 'needs_review' then
    -- As resolve_review, which decides about such orders.
    perform private.expect_staff('refunds');
    missing := ordered.charge_cents - coalesce(private.counted_for_order(ordered.id), 0);
    if missing <= 0 or exists (
      select from public.payments as p
      where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund
        and (p.refunded_at is not null or private.is_being_refunded(p.id, p.receipt))
    ) then
      perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
    end if;
    perform private.lock_credit(ordered.customer_phone);
    for own in select * from private.credit_of_own_order(ordered) loop
      exit when missing = 0;
      part := least(missing, (select c.owed_cents from private.change_of(own.id) as c));
      perform private.add_change_note(own, 'not_owed', part, null, coalesce(reason, 'It pays its own order'), member);
      missing := missing - part;
      used := own;
    end loop;
    if missing > 0 then
      used := private.pay_from_credit(ordered, missing::integer, reason, member);
    end if;
    perform private.deliver_reviewed_order(ordered.id);
    return used;
  end if;
  ordered := private.lock_order_for_cash(use_credit.order_id);
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  perform private.lock_credit(ordered.customer_phone);
  select * into own from private.credit_of_own_order(ordered) limit 1;
  if own.id is not null then
    -- A second payment that was kept: it pays the order itself, without a payment from credit.
    perform private.add_change_note(own, 'not_owed', ordered.charge_cents, null, coalesce(reason, 'It pays its own order'), member);
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = own.id returning * into used;
    perform private.take_units_to_pay(ordered);
    perform private.set_order_paid(ordered, 'mpesa');
    return used;
  end if;
  used := private.pay_from_credit(ordered, ordered.charge_cents, reason, member);
  perform private.take_units_to_pay(ordered);
  perform private.set_order_paid(ordered, 'credit');
  return used;
end
$$;

comment on function public.use_credit is
  'For staff: what is owed to the phone of an order pays what is missing of it: all of an unpaid order, or the rest of one that needs review for less than its charge. What is owed of its own money counts for it again, first. Refuses if less is owed (the hint is that, in cents). With cash for the rest: receive_cash.';

create or replace function public.has_refunded_source(used public.payments) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return (select private.has_refunded_source(p) from public.payments as p where p.id = used.id);
end
$$;

comment on function public.has_refunded_source is
  'For staff: whether the rest of the money that a payment from credit came from was refunded. Then the credit of a cancelled order goes back as money (give_back_cash, note_refund_by_hand).';

create or replace function private.release_credit(used public.payments, note text, member uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- A refund of the money that it came from takes this lock, too: it leaves what is owed again, or is seen here.
  perform private.lock_credit(o.customer_phone) from public.orders as o where o.id = used.order_id;
  -- What is owed of a refunded payment would be lost.
  if exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used'
      and (source.refunded_at is not null or private.is_being_refunded(source.id, source.receipt))
  ) then
    perform private.refuse(409, 'credit_refunded',
      'The rest of the money that this credit came from was sent back, so it cannot be owed again. Cancel the order and give this part back, too');
  end if;
  perform private.add_change_note(source, 'use_taken_back', use.amount_cents, null, release_credit.note, member, used_for => used.id)
  from public.change_notes as use
  join public.payments as source on source.id = use.payment_id
  where use.used_for = used.id and use.kind = 'used';
  -- M-PESA may have reported less since it was used.
  perform private.limit_owed(use.payment_id, 'M-PESA reported less than was entered')
  from public.change_notes as use where use.used_for = used.id and use.kind = 'used';
end
$$;

comment on function private.release_credit is 'What a payment from credit used is owed again, as far as it came. Once; the caller has locked the payment and ends it.';

-- Execution rights
grant execute on function public.counted_cents, public.is_unconfirmed, public.has_refunded_source to authenticated, service_role;

grant execute on function public.credit_for_order, public.use_credit, public.take_back_credit, public.kept_for_customers, public.kept_totals
  to authenticated, service_role;

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
      select from public.payments as p where p.order_id = unsettled.id and private.is_unsettled_attempt(p.status)
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
        -- What was kept may have paid other orders.
        and private.left_to_refund(p) > 0
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and private.is_open_refund(r.status)
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
    when exists (
      select from public.payments as p
      join public.change_notes as c on c.payment_id = p.id
      where p.order_id = unsettled.id and p.refunded_at is null
      group by p.id
      having sum(c.amount_cents) filter (where c.kind = 'to_return') > coalesce(sum(case
        when c.kind in ('used', 'not_owed') or (c.kind = 'returned' and not c.is_part_refund) then c.amount_cents
        when c.kind = 'use_taken_back' then -c.amount_cents
      end), 0)
    ) then 'Change is owed to its customer'
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

create or replace function private.money_rows(since timestamptz, until timestamptz) returns setof private.money_row
language plpgsql stable rows 100 set search_path = '' as $$
begin
  return query
  select p.id, p.completed_at, p.method, p.id, p.order_id, p.receipt,
    p.charge_cents, 0, 0::bigint, p.confirmed_by, p.received_from, p.note
  from public.payments as p
  -- No money comes with credit: its note is below.
  where p.status = 'completed' and p.purpose = 'order' and p.method <> 'credit'
    and p.completed_at >= money_rows.since and p.completed_at < money_rows.until
  union all
  select r.id, r.completed_at, case r.method when 'reversal' then 'refund_by_mpesa' when 'cash' then 'refund_in_cash' else 'refund_by_hand' end,
    p.id, p.order_id, coalesce(r.refund_receipt, r.receipt), 0, r.refund_cents,
    -greatest(private.change_balance(p.id, r.completed_at, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), 0), r.requested_by, null, r.reason
  from public.refunds as r
  -- A lookup by key for each refund, with any statistics.
  cross join lateral (select * from public.payments as own where own.id = r.payment_id offset 0) as p
  where r.status = 'completed' and p.purpose = 'order' and r.method <> 'credit'
    and r.completed_at >= money_rows.since and r.completed_at < money_rows.until
  union all
  select c.id, c.noted_at,
    case
      when c.kind in ('credit', 'to_return') then 'kept'
      when c.kind = 'used' then 'credit_used'
      when c.kind = 'use_taken_back' then 'credit_returned'
      when c.kind = 'not_owed' then 'not_owed'
      -- Earlier versions did not note how it went back.
      when coalesce(c.way = 'cash', p.method = 'cash' and c.receipt is null) then 'change_in_cash'
      else 'change_by_hand'
    end,
    p.id, p.order_id, c.receipt, 0, case when c.kind = 'returned' then c.amount_cents else 0 end,
    case when own.is_refunded then 0 else greatest(own.balance + own.cents, 0) - greatest(own.balance, 0) end,
    c.noted_by, null, c.note
  from public.change_notes as c
  cross join lateral (select * from public.payments as own where own.id = c.payment_id offset 0) as p
  cross join lateral (
    select private.change_balance(p.id, c.noted_at, c.id) as balance,
      private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end) as cents,
      exists (
        select from public.refunds as r where r.payment_id = p.id and r.status = 'completed' and r.completed_at < c.noted_at
      ) as is_refunded
  ) as own
  where p.purpose = 'order' and c.noted_at >= money_rows.since and c.noted_at < money_rows.until;
end
$$;

comment on function private.money_rows is
  'What moved money of orders within a period. kind: prompt, till, cash (a payment by its method); refund_by_mpesa, refund_by_hand, refund_in_cash; change_by_hand, change_in_cash (part of a payment went back); kept (owed to the customer); credit_used, credit_returned (it paid another order, or did not after all); not_owed (less is owed than was noted). kept_cents: how much more the shop owes to customers after it. member: who took cash, gave it back, or requested the refund.';
