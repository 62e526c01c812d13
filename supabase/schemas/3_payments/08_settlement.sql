-- Settlement: deciding what a message means for a payment attempt, and applying it (docs/decisions/payments.md).

create type private.payment_report as (
  source text,
  result text,
  result_code text,
  result_description text,
  received_cents integer,
  receipt text,
  merchant_request_id text,
  checkout_request_id text,
  unreadable text[],
  ended_by text
);
comment on type private.payment_report is
  'What a message reports about a payment attempt. result: succeeded, failed or pending. received_cents: null if the message names no amount, or one that cannot be read. unreadable: what the message has but cannot be read: code, receipt, amount. ended_by: who can end a failure (payments.ended_by).';

create type private.settlement as (
  decision text,
  splits_receipt boolean
);
comment on type private.settlement is
  'What a message means for an attempt. splits_receipt: the presumed receipt of the attempt is other money and first becomes a separate payment.';

create type public.settled_payment as (
  outcome text,
  payment public.payments
);
comment on type public.settled_payment is 'Outcome of a message about a payment, and the payment afterwards.';

create function public.settle_payment(
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

create function private.set_order_paid(paid_order public.orders, payment_method text) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
begin
  update public.orders as o
  set payment_status = 'paid', payment_method = set_order_paid.payment_method,
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now(),
      promised_at = case
        when paid_order.payment_method = 'cash' and paid_order.promised_at is not null then paid_order.promised_at
        else private.promise_of(paid_order, now())
      end,
      promised_again_at = case when paid_order.payment_method = 'cash' then o.promised_again_at end
  where o.id = paid_order.id;
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it; with cash at the door, from
  -- the agreement on it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at
  where paid_order.payment_method <> 'cash';
  perform private.note_paid_order(paid_order.id);
end
$$;
comment on function private.set_order_paid is
  'Marks an order as paid, as it was before, and creates its delivery. The caller has locked the order, which has its units.';

create function private.mark_order_paid(order_id uuid, is_decided boolean default false) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review, and so does money that a customer sent after cancelling; such an order holds no units.
  if (paid_order.cancel_reason = 'by_customer' and not mark_order_paid.is_decided) or (paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  )) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id, 'under_review');
    end if;
    -- Of an order that was to be paid in cash.
    delete from public.deliveries as d where d.order_id = paid_order.id;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  perform private.set_order_paid(paid_order, 'mpesa');
  return 'paid';
end
$$;
comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, too few units left, or cancelled by its customer, unless staff have decided to deliver it (is_decided). Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create function private.put_order_under_review(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set payment_status = 'needs_review', status = 'pending', updated_at = now()
  where o.id = put_order_under_review.order_id and o.payment_status = 'paid' and private.is_in_shop(o.status);
  if not found then
    return false;
  end if;
  perform private.return_units(put_order_under_review.order_id, 'under_review');
  delete from public.deliveries as d where d.order_id = put_order_under_review.order_id;
  return true;
end
$$;
comment on function private.put_order_under_review is
  'Puts a paid order under review, because less than its charge was received. False: it was handed over, or is not paid.';

create function private.decide_settlement(
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
      private.may_still_succeed(attempt.status)
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
      case attempt.purpose when 'test' then 'already_completed' else 'paid_twice' end
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else splits_receipt and decision in ('confirmed_by_hand', 'paid_twice', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;
comment on function private.decide_settlement is
  'Decides what a message means for a payment attempt, from facts alone. receipt_owner: the other payment with this receipt. is_other_request: the request id belongs to another attempt. attempt_is_refunded, owner_is_refunded: a refund of that money is requested or done.';

create function private.fail_attempt(
  attempt_id uuid, new_status text, report private.payment_report, description text, cause text default null
) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = new_status, result_code = report.result_code, result_description = description,
      ended_by = case when new_status = 'failed' then report.ended_by end,
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

create function private.receipt_of_contradiction(attempt_id uuid) returns text
language sql stable set search_path = '' as $$
  select t.receipt
  from public.payments as p
  join public.mpesa_transactions as t on t.attempt_id = p.id and t.received_cents = p.charge_cents
  where p.id = receipt_of_contradiction.attempt_id and private.ended_unpaid(p.status) and p.review_cause = 'contradiction'
  order by t.created_at, t.receipt
  limit 1;
$$;
comment on function private.receipt_of_contradiction is
  'The receipt of the charged amount that a message named which contradicted itself about this attempt. Staff may have decided about that money since: a query that confirms the attempt confirms this money, and no other.';

create function private.check_settled_message(attempt public.payments, report private.payment_report, body text, decision text)
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

create function private.store_mismatched_money(attempt public.payments, report private.payment_report) returns void
language sql set search_path = '' as $$
  insert into public.mpesa_transactions as t (receipt, received_cents, reference, transacted_at, reported_by_callback_at, attempt_id)
  select report.receipt, report.received_cents, o.tracking_number, now(), now(), attempt.id
  from public.orders as o
  where o.id = attempt.order_id and report.receipt is distinct from attempt.receipt and report.received_cents > 0
    and report.receipt is not null
    and not exists (select from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id)
  on conflict (receipt) do update set
    attempt_id = coalesce(t.attempt_id, excluded.attempt_id),
    reported_by_callback_at = coalesce(t.reported_by_callback_at, excluded.reported_by_callback_at),
    updated_at = now();
$$;
comment on function private.store_mismatched_money is
  'Stores money of another amount than charged for staff, unless a payment has its receipt.';

create function private.merge_receipt_owner(attempt public.payments, report private.payment_report, receipt_owner public.payments)
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

create function private.add_payment_to_refund(attempt public.payments, report private.payment_report) returns uuid
language plpgsql set search_path = '' as $$
declare
  added_id uuid;
begin
  added_id := (private.add_till_payment(attempt.order_id, report.received_cents)).id;
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = report.receipt, needs_refund = true, completed_at = now(), updated_at = now()
  where p.id = added_id;
  return added_id;
end
$$;
comment on function private.add_payment_to_refund is 'Adds a second success of an attempt as a payment to refund. Returns its id.';

create function private.add_details(attempt public.payments, report private.payment_report) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set receipt = coalesce(p.receipt, report.receipt),
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      result_code = case
        when p.presumption = 'attempt' and report.source not in ('confirmation', 'statement') then report.result_code
        else p.result_code
      end,
      presumption = case
        when report.source in ('confirmation', 'statement') and p.receipt is null and p.method = 'prompt' then 'receipt'
        when report.source in ('confirmation', 'statement') or p.presumption is null then p.presumption
        when report.receipt is null then 'receipt'
      end,
      updated_at = now()
  where p.id = attempt.id;
$$;
comment on function private.add_details is 'Adds receipt, ids and confirmation from a further message about a completed attempt.';

create function private.mark_attempt_completed(
  attempt_id uuid, report private.payment_report, needs_refund boolean default false
) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      presumption = case when report.source in ('confirmation', 'statement') and p.method = 'prompt' then 'attempt' end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      needs_refund = mark_attempt_completed.needs_refund, next_query_at = null, completed_at = now(), updated_at = now()
  where p.id = attempt_id;
$$;

create function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  purpose text;
begin
  if attempt.purpose = 'test' then
    perform private.mark_attempt_completed(attempt.id, report);
    return 'completed';
  end if;
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  purpose := case
    -- Money that is being refunded, or was refunded, pays nothing.
    when report.receipt is not null and not private.withdraw_unsent_transaction_refunds(report.receipt) then 'goes_back'
    when paid_order.payment_status = 'unpaid' then 'pays'
    when paid_order.payment_status = 'needs_review' then private.purpose_for_reviewed_order(attempt, report.source, paid_order)
    else 'paid_twice'
  end;
  perform private.mark_attempt_completed(attempt.id, report, needs_refund => purpose in ('paid_twice', 'goes_back'));
  case purpose
    when 'pays' then
      return private.mark_order_paid(paid_order.id);
    when 'part' then
      return 'paid_needs_review';
    when 'goes_back' then
      return 'goes_back';
    else
      if attempt.method = 'till' then
        -- M-PESA refunds only money with a receipt, and this may be the receipt of an earlier prompt. Cash and credit have none.
        update public.payments as p
        set needs_refund = true, updated_at = now()
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
          and not p.needs_refund and p.charge_cents = attempt.charge_cents and p.method = 'prompt' and not private.is_being_refunded(p.id);
        if found then
          update public.payments as p set needs_refund = false where p.id = attempt.id;
        end if;
      end if;
      return 'paid_twice';
  end case;
end
$$;
comment on function private.complete_attempt is
  'Completes an open attempt and pays its order, or marks the money as too much, too little or being refunded. Returns the outcome: paid, paid_needs_review, paid_twice or goes_back; completed for a test. The caller has locked the order.';

create function private.purpose_for_reviewed_order(attempt public.payments, source text, reviewed public.orders) returns text
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
