-- Names and comments that a reader had to read twice. A test prompt counts in a bucket of its own name.
comment on column public.orders.expires_at is
  'When an unpaid order is cancelled. Null: expire_reservations has closed it, expired or cancelled before. Not used once the order is paid.';
comment on column public.orders.expiry_limit is
  'Upper bound of expires_at, which an open prompt moves. A payment under review delays the cancellation beyond it.';

drop function private.hold_paid_order(uuid);

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
  ordered public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into ordered from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      ordered.payment_status in ('paid', 'refunded')
      or (ordered.payment_status = 'needs_review' and p.charge_cents = ordered.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (ordered.total_amount, ordered.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- Without limits, one order could send prompts to many phones.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', ordered.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, ordered) then
    return private.refusal_answer('PT429',
      'This phone had many unpaid payment prompts today. Please pay from another phone, or contact us',
      'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (ordered.id, payer, ordered.charge_cents, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(ordered.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', ordered.tracking_number
  );
end
$$;

create or replace function public.begin_payment_test(phone text, callback_secret text, requested_by uuid) returns public.payments
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  test public.payments;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  elsif not exists (
    select from public.admin_profiles as a where a.user_id = begin_payment_test.requested_by and a.is_active
  ) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  -- Tests send prompts too, so they are limited.
  if private.count_hit('payment_tests', 'all', interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Too many tests. Please wait a few minutes');
  elsif private.count_hit('payment_test_prompts_to_phone', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payments (purpose, phone, charge_cents, requested_by, requested_by_email)
  values ('test', payer, 100, begin_payment_test.requested_by, private.email_of(begin_payment_test.requested_by))
  returning * into test;
  insert into private.payment_secrets (payment_id, callback_secret) values (test.id, begin_payment_test.callback_secret);
  return test;
end
$$;

create or replace function private.put_order_under_review(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set payment_status = 'needs_review', status = 'pending', updated_at = now()
  where o.id = put_order_under_review.order_id and o.payment_status = 'paid' and o.status in ('pending', 'processing');
  if not found then
    return false;
  end if;
  perform private.return_units(put_order_under_review.order_id);
  delete from public.deliveries as d where d.order_id = put_order_under_review.order_id;
  return true;
end
$$;

comment on function private.put_order_under_review is
  'Puts a paid order under review, because less than its charge was received. False: it was handed over, or is not paid.';

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
  decision text := case
    when is_other_request then 'other_request'
    when report.result = 'pending' then 'pending'
    -- Also an attempt completed by presumption: the money was not this prompt's.
    when report.result = 'failed' and (
      attempt.status in ('initiating', 'processing', 'unresolved')
      or (is_completed and attempt.presumption = 'attempt' and not attempt_is_refunded)
    ) then 'failed'
    when report.result = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.received_cents is null then 'needs_review'
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
  if receipt_owner.charge_cents <> attempt.charge_cents and not receipt_owner.needs_refund
    and exists (select from public.orders as o where o.id = attempt.order_id and o.payment_status = 'needs_review')
  then
    -- The order needed review only for the amount that staff typed.
    perform private.mark_order_paid(attempt.order_id);
  end if;
  perform private.match_receipts(attempt.order_id);
end
$$;

create or replace function private.add_second_payment(attempt public.payments, report private.payment_report) returns uuid
language plpgsql set search_path = '' as $$
declare
  second_id uuid;
begin
  insert into public.payments (order_id, phone, charge_cents, status, method)
  values (attempt.order_id, '', report.received_cents, 'unresolved', 'till')
  returning id into second_id;
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = report.receipt, needs_refund = true, completed_at = now(), updated_at = now()
  where p.id = second_id;
  return second_id;
end
$$;

create or replace function private.apply_reported_amount(known public.payments, reported public.mpesa_transactions) returns void
language plpgsql set search_path = '' as $$
declare
  of_order public.orders;
begin
  if known.method <> 'till' or known.charge_cents = reported.received_cents or private.is_being_refunded(known.id) then
    return;
  end if;
  select * into of_order from public.orders as o where o.id = known.order_id;
  if private.is_whole_shillings(reported.received_cents) and (known.needs_refund or of_order.payment_status = 'needs_review') then
    -- Nothing was decided by the typed amount.
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    if not known.needs_refund and reported.received_cents = of_order.charge_cents then
      perform private.mark_order_paid(of_order.id);
    end if;
  elsif reported.received_cents < known.charge_cents and not known.needs_refund then
    if private.put_order_under_review(of_order.id) and private.is_whole_shillings(reported.received_cents) then
      update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    end if;
  end if;
end
$$;

create or replace function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff();
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', private.email_of(member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received <> known.charge_cents then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

-- A parameter cannot be renamed in place.
drop function private.record_order_event(uuid, text, text, jsonb);

create function private.record_order_event(order_id uuid, kind text, default_actor text, details jsonb default '{}') returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select a.user_id from public.admin_profiles as a where a.user_id = (select auth.uid()));
begin
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  values (
    order_id, kind, case when member is null then default_actor else 'staff' end, member, private.email_of(member),
    jsonb_strip_nulls(details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  );
end
$$;
comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the calling staff member, else default_actor.';
