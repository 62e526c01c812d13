drop function private.is_being_refunded(uuid);

create or replace function private.email_of(user_id uuid) returns text
language sql stable set search_path = '' as $$
  select u.email from auth.users as u where u.id = user_id;
$$;

comment on function private.email_of is 'The current email address of an account, which logs store beside its id.';

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
  elsif private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payments (purpose, phone, charge_cents, requested_by, requested_by_email)
  values ('test', payer, 100, begin_payment_test.requested_by, private.email_of(begin_payment_test.requested_by))
  returning * into test;
  insert into private.payment_secrets (payment_id, callback_secret) values (test.id, begin_payment_test.callback_secret);
  return test;
end
$$;

comment on function public.begin_payment_test is 'Opens a payment of KSh 1 by which a staff member checks the M-PESA settings.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test to service_role;

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff();
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  received := private.reported_amount(code, received);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (confirmed_order.id, '', received, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform set_config('private.is_typed_by_staff', '', true);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid.';

create or replace function private.check_receipt_is_free(receipt text, is_new boolean) returns void
language plpgsql stable set search_path = '' as $$
begin
  if exists (select from public.payments as p where p.receipt = check_receipt_is_free.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif is_new and private.is_being_refunded(null, check_receipt_is_free.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
end
$$;

comment on function private.check_receipt_is_free is
  'Refuses the receipt of a payment test, and a new one whose money is being refunded.';

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
    perform private.hold_paid_order(paid_order.id);
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order becomes paid when the amount is its charge, otherwise it needs review.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment to authenticated, service_role;

create or replace function private.is_being_refunded(payment_id uuid, receipt text default null) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.refunds as r
    where (r.payment_id = is_being_refunded.payment_id or r.receipt = is_being_refunded.receipt)
      and r.status not in ('withdrawn', 'failed')
  );
end
$$;

comment on function private.is_being_refunded is
  'Whether a refund of this payment, or of the money with this receipt, is requested or done. Then its receipt is not moved.';

create or replace function private.withdraw_unsent_transaction_refunds(receipt text) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
  where r.receipt = withdraw_unsent_transaction_refunds.receipt and r.transaction_receipt is not null
    and r.status in ('requested', 'approved') and r.tries = 0;
  return not private.is_being_refunded(null, withdraw_unsent_transaction_refunds.receipt);
end
$$;

comment on function private.withdraw_unsent_transaction_refunds is
  'Withdraws refunds of unassigned money that were not sent to M-PESA. Returns whether the money can pay an order: not if it was, or may be, refunded. The caller has locked the receipt.';

create or replace function private.record_refund_limit_raise(old public.store_settings, new public.store_settings) returns void
language plpgsql set search_path = '' as $$
begin
  insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
  select member.id, private.email_of(member.id), old.refund_approval_above, new.refund_approval_above
  from (select auth.uid() as id) as member
  where member.id is not null;
end
$$;

-- Records refunds by hand of an order's payments when staff mark the order as refunded.
create or replace function private.record_refund_of_order(new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, p.charge_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.charge_cents, 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
end
$$;

-- Refuses payments that cannot be refunded. Locks the order first.
create or replace function private.lock_refundable_payment(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = lock_refundable_payment.payment_id)
  for update;
  select * into paid from public.payments as p where p.id = lock_refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif paid.status <> 'completed' or not (
    paid.needs_refund
    or paid.purpose = 'test'
    or paid_order.payment_status = 'needs_review'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  return paid;
end
$$;

create or replace function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  if char_length(trim(coalesce(reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, trim(reason),
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  return opened;
end
$$;

comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create or replace function private.lock_refundable_transaction(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  code text := upper(trim(lock_refundable_transaction.receipt));
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

create or replace function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  approved public.refunds := private.lock_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif approved.requested_by = member then
    perform private.refuse(403, 'second_member_needed', 'Another member of staff must approve what you asked for');
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member, approved_by_email = private.email_of(member), updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;

comment on function public.approve_refund is 'Approves, as a second staff member, a refund above the limit.';

-- After a refund that sent no money, staff resolve the unmatched payment again.
create or replace function private.reopen_transaction_of_refund(new public.refunds) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  update public.mpesa_transactions as t
  set resolution = null, resolved_by = null, resolved_at = null, updated_at = now()
  where t.receipt = new.receipt and t.resolution = 'refund';
  if found or new.transaction_receipt is not null or 'refund' = (
    select e.kind from public.reconciliation_events as e where e.payment_id = new.payment_id order by e.id desc limit 1
  ) then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      new.receipt, new.payment_id, (select p.order_id from public.payments as p where p.id = new.payment_id), 'reopened',
      case new.status
        when 'withdrawn' then 'The refund was withdrawn'
        else 'The refund failed'
      end || coalesce(': ' || new.result_description, ''),
      member, private.email_of(member)
    );
  end if;
end
$$;

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  seen public.refunds := private.lock_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif char_length(trim(coalesce(acknowledge_sent_twice.note, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member, sent_twice_seen_by_email = private.email_of(member),
      sent_twice_note = trim(acknowledge_sent_twice.note), updated_at = now()
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
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice to authenticated;

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
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(resolve_difference.receipt, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
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
      elsif resolve_difference.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || resolve_difference.receipt));
        select * into reported from public.mpesa_transactions as t where t.receipt = resolve_difference.receipt for update;
      end if;
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
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'given' then
    if money.purpose = 'test' then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    elsif reported.receipt is null or reported.payment_id is not null or reported.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
    elsif not private.is_whole_shillings(reported.received_cents) then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    elsif private.is_being_refunded(null, reported.receipt) then
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
    if money.id is null and reported.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
    elsif money.id is null and not private.is_whole_shillings(reported.received_cents) then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  elsif event_kind = 'reopened' then
    if private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given' then
      perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
    end if;
  elsif event_kind = 'not_an_order' and reported.payment_id is not null then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
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
  public.resolve_difference
  to authenticated, service_role;

create or replace function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff();
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message is waiting already, or was sent in the meantime');
  end if;
  if private.daily_budget(again.channel) <= coalesce((
    select s.total from private.messages_sent as s where s.day = private.nairobi_day(now()) and s.channel = again.channel
  ), 0) then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;

comment on function public.send_message_again is
  'For staff: sends a failed, unsure or over-budget message again, for another day and with the whole daily budget.';

grant execute on function public.send_message_again, public.message_budgets to authenticated, service_role;

create or replace function private.log_personal_data_request(kind text, identifier text, counts jsonb) returns void
language plpgsql set search_path = '' as $$
begin
  insert into public.personal_data_requests (kind, person_hash, counts, requested_by, requested_by_email)
  values (kind, private.hash_person(identifier), counts, (select auth.uid()), private.email_of((select auth.uid())));
end
$$;
