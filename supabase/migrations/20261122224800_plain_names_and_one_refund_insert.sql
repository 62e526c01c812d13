-- Names in plain terms, and one function that writes every refund.

alter table public.mpesa_transactions rename column heard_by_notice_at to reported_by_callback_at;
alter table public.mpesa_transactions rename column heard_by_confirmation_at to reported_by_confirmation_at;
alter table public.mpesa_transactions rename column heard_by_statement_at to reported_by_statement_at;
comment on column public.mpesa_transactions.attempt_id is 'The attempt whose callback named the receipt with an amount that was not charged.';
comment on column public.payment_messages.receipt is 'The receipt that the message names. A message follows its receipt to another payment.';
comment on column public.payments.confirmed_by is
  'The staff member who confirmed the money by its receipt, or gave it to the order. Null when M-PESA reported it.';
comment on column public.payments.method is
  'prompt: M-PESA asked the phone for charge_cents. till: the money came without a prompt of ours, or beyond one; staff or M-PESA reported it; charge_cents is what came, and the phone is not known ('''').';
comment on column public.payments.presumption is
  'What only a reference suggests. attempt: that this prompt was paid; receipt: that this receipt is the prompt''s. Null when M-PESA or staff confirmed it.';
comment on column public.payments.refunded_at is 'When its money was refunded. needs_refund stays: it marks whose money it is.';
comment on column private.prompt_pause.probe_at is
  'When the probe was sent; null when none is open.';
comment on column public.refunds.sent_twice_at is
  'When M-PESA reported this reversal although the money had been refunded in another way in the meantime. refund_receipt is then the one of the second refund.';
comment on column public.refunds.sent_twice_note is
  'How a staff member resolved money that was refunded twice: the customer repaid one of the two, or it is written off.';
comment on column public.statement_pulls.news is 'Number of payments that no earlier statement listed.';
comment on table public.mpesa_transactions is
  'Money that M-PESA reported by a confirmation, by its statement, or by a callback with another amount than charged. payment_id: the payment that this money is; null while unknown.';
comment on table private.daraja_tokens is
  'The access token of each M-PESA account (a digest of its credentials), and the lease for requesting the next one. Expires within an hour.';
comment on table private.payment_secrets is 'The secret last part of the callback URL of one attempt.';
comment on table private.prompt_faults is
  'Phones whose prompts ended with a result code about the shop''s own account, since the last success. One phone alone proves nothing: the phone may be the cause.';
comment on table private.prompt_pause is
  'Until when no prompt is sent, and the response that caused it. Then one prompt is sent as a probe: a success ends the pause, the same error extends it.';
comment on table private.refund_limit_raises is
  'Raises of the refund limit. The previous limit applies for a day, so that a colleague can see the raise first.';
comment on table private.refund_secrets is 'The secret part of the result URLs of one refund.';
comment on table private.till_secret is 'The secret part of the URL for confirmations. One row, because the URL is registered once.';
comment on table public.refunds is
  'Refunds of a payment, or of money without an order (transaction_receipt). receipt is M-PESA''s of the money that came in, refund_receipt the one of its way back. unknown: it may have been sent, M-PESA is asked and nothing is sent again.';
comment on table public.statement_pulls is
  'Every pull of M-PESA''s statement. missed_since: the statement covers 48 hours only; no pull covers the time from missed_since to window_from.';

drop trigger reconciliation_events_stay on public.reconciliation_events;

drop function public.finish_failed_notice(bigint);

drop function public.keep_daraja_token(text,uuid,text,bigint);

drop function public.keep_failed_notice(uuid,text,text);

drop function public.keep_till_message(text,text);

drop function public.list_failed_notices(integer);

drop function public.list_till_messages_to_take_up(integer);

drop function private.absorb(uuid,uuid);

drop function private.expect_member();

drop function private.keep_reconciliation_events();

drop function private.keep_refund_decision(text,text,uuid);

drop function private.keep_unexplained_money(payments,private.payment_report);

drop function private.open_refund(uuid,text,integer,text,uuid);

drop function private.reconciliation_rows(timestamp with time zone,timestamp with time zone);

drop function private.take_back_refunds(text);

drop function private.take_receipt_away(uuid,boolean);

drop function public.receipts_unheard(text[]);

drop index public.mpesa_transactions_nobody_knows;

drop index public.payment_messages_not_taken_up;

drop index public.payment_messages_with_words;

create or replace function private.expect_staff_member() returns uuid
language plpgsql stable
set search_path = ''
as $$
begin
  if not public.is_admin() or (select auth.uid()) is null then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  return (select auth.uid());
end
$$;

comment on function private.expect_staff_member() is 'The calling staff member; refuses all other callers, the shop itself included.';

create or replace function public.settle_payment(
  payment_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  received_cents integer default null,
  receipt text default null,
  merchant_request_id text default null,
  checkout_request_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  report private.payment_report := (
    settle_payment.source, settle_payment.verdict, settle_payment.result_code, settle_payment.result_description,
    settle_payment.received_cents, settle_payment.receipt, settle_payment.merchant_request_id, settle_payment.checkout_request_id
  );
  message_id bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  outcome text;
  settled_id uuid;
begin
  if report.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the order, the receipt and request id, then the payment, and all before the message is stored: its reference would take a
  -- weaker lock that two concurrent settlements cannot raise.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into message_id;

  -- What the message means.
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_goes_back => private.is_being_refunded(attempt.id),
    owner_goes_back => private.is_being_refunded(receipt_owner.id)
  );

  -- What follows from it.
  if settlement.parts_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  outcome := case settlement.decision
    when 'second_money' then 'paid_twice'
    when 'adds_details' then 'already_completed'
    when 'completes' then case attempt.purpose
      when 'order' then private.complete_attempt(attempt, report)
      else private.complete_test(attempt, report)
    end
    else settlement.decision
  end;
  settled_id := attempt.id;
  case settlement.decision
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents));
      perform private.store_unexplained_money(attempt, report);
    when 'superseded' then
      if report.verdict = 'succeeded' then
        perform private.store_unexplained_money(attempt, report);
      end if;
    when 'confirmed_by_hand' then
      perform private.join_owner_of_receipt(attempt, report, receipt_owner);
    when 'second_money' then
      settled_id := private.add_second_money(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = message_id;
    when 'adds_details' then
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  update public.payment_messages as m
  set outcome = settled.outcome
  from (select outcome) as settled (outcome)
  where m.id = message_id and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.join_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = message_id;
  end if;
  if report.verdict = 'succeeded' and attempt.purpose = 'order' then
    perform private.tidy_outcomes(m.payment_id) from public.payment_messages as m where m.id = message_id;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  return jsonb_build_object('outcome', outcome, 'payment', to_jsonb(attempt));
end
$$;

comment on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a payment ends. Stores the message, is repeatable, compares with the charged amount, lets a success supersede a failure and never the reverse, keeps every receipt as money of its own, and writes order, stock and delivery in the same transaction.';

grant execute on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) to service_role;

create or replace function private.store_unexplained_money(attempt public.payments, report private.payment_report) returns void
language sql
set search_path = ''
as $$
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

comment on function private.store_unexplained_money(public.payments, private.payment_report) is
  'Money of another amount than charged, under a receipt that no payment has, is stored for staff.';

create or replace function private.join_owner_of_receipt(attempt public.payments, report private.payment_report, receipt_owner public.payments)
returns void
language plpgsql
set search_path = ''
as $$
declare
  own_id uuid := receipt_owner.id;
begin
  if receipt_owner.method = 'prompt' then
    own_id := private.separate_receipt(receipt_owner.id);
  end if;
  perform private.join_payments(own_id, attempt.id);
  update public.payments as p
  set result_code = report.result_code,
      result_description = report.result_description,
      presumption = null,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      updated_at = now()
  where p.id = attempt.id;
  if receipt_owner.charge_cents <> attempt.charge_cents and not receipt_owner.needs_refund
    and exists (select from public.orders as o where o.id = attempt.order_id and o.payment_status = 'needs_decision')
  then
    -- Only the amount that staff typed needed review.
    perform private.mark_order_paid(attempt.order_id);
  end if;
  perform private.join_receipts(attempt.order_id);
end
$$;

comment on function private.join_owner_of_receipt(public.payments, private.payment_report, public.payments) is
  'The attempt and the payment that has its receipt become one: the attempt stays. The order must be locked.';

create or replace function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  charge integer;
  part integer;
  -- Money that is being refunded, or was refunded, pays nothing.
  is_free boolean := report.receipt is null or private.withdraw_unsent_refunds(report.receipt);
  pays_order boolean;
  is_extra boolean;
  outcome text;
begin
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  pays_order := is_free and paid_order.payment_status = 'unpaid';
  if is_free and paid_order.payment_status = 'needs_decision' and not exists (
    select from public.payments as p
    where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund and p.charge_cents = charge
  ) then
    if attempt.charge_cents = charge then
      -- The whole charge settles an order that needed review; the part, or the surplus, is refunded.
      pays_order := true;
      update public.payments as p
      set needs_refund = true, updated_at = now()
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
      perform private.tidy_outcomes(p.id) from public.payments as p
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed';
    elsif report.source = 'till' then
      -- Parts that staff give to one order pay it once they add up to its charge.
      select attempt.charge_cents + coalesce(sum(p.charge_cents), 0) into part
      from public.payments as p
      where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
        and not private.is_being_refunded(p.id);
      pays_order := part = charge and not exists (
        select from public.payments as p
        where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
          and private.is_being_refunded(p.id)
      );
    end if;
  end if;
  is_extra := not pays_order and coalesce(part, charge) >= charge;
  update public.payments as p
  set status = 'completed',
      result_code = report.result_code,
      result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      presumption = case when report.source in ('confirmation', 'statement') and p.method = 'prompt' then 'attempt' end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      needs_refund = is_extra,
      next_query_at = null,
      completed_at = now(),
      updated_at = now()
  where p.id = attempt.id;
  outcome := case
    when pays_order then private.mark_order_paid(paid_order.id)
    when not is_free then 'goes_back'
    when is_extra then 'paid_twice'
    else 'paid_needs_decision'
  end;
  if outcome = 'paid_twice' and attempt.method = 'till' then
    -- Only money with a receipt can be sent back, and this may well be the receipt of what the order was paid with.
    update public.payments as p
    set needs_refund = true, updated_at = now()
    where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
      and not p.needs_refund and p.charge_cents = attempt.charge_cents and not private.is_being_refunded(p.id);
    if found then
      update public.payments as p set needs_refund = false where p.id = attempt.id;
    end if;
  end if;
  return outcome;
end
$$;

comment on function private.complete_attempt(public.payments, private.payment_report) is
  'Money came with an open attempt: completes it and pays its order, or marks the money as too much, too little or on its way back. Returns the outcome: paid, paid_needs_decision, paid_twice or goes_back. The order must be locked.';

create or replace function public.confirm_till_payment(order_id uuid, receipt text, received_cents integer) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(confirm_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := confirm_till_payment.received_cents;
  settled jsonb;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  -- The order's row is the lock of all its payments, as everywhere.
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return jsonb_build_object('outcome', 'already_completed', 'payment', to_jsonb(known));
  end if;
  perform private.expect_free_receipt(code, known.id is null);
  -- M-PESA's amount counts.
  select * into told from public.mpesa_transactions as t where t.receipt = code;
  if told.received_cents >= 100 and told.received_cents % 100 = 0
    and (told.reported_by_confirmation_at is not null or told.reported_by_statement_at is not null)
  then
    came := told.received_cents;
  end if;

  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: a prompt may be on the phone at the same time, and its result is still expected.
  values (confirmed_order.id, '', came, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code,
      'received_cents', confirm_till_payment.received_cents,
      'confirmed_by', member,
      'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    verdict => 'succeeded',
    received_cents => came,
    receipt => code
  );
  perform set_config('private.is_typed_by_staff', '', true);
  if settled ->> 'outcome' = 'receipt_replayed' then
    -- Roll everything back.
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment(uuid, text, integer) is
  'Staff confirm money that a customer paid by hand: its M-PESA receipt and the amount that came, in cents. Repeatable by receipt. Settled like every payment: an amount that is not the order''s charge waits for a decision, a second payment is flagged for refund.';

grant execute on function public.confirm_till_payment(uuid, text, integer) to authenticated, service_role;

create or replace function public.store_confirmation(body text, source_address text default null) returns bigint
language sql volatile security definer
set search_path = ''
as $$
  insert into public.payment_messages (source, body, source_address)
  values ('confirmation', store_confirmation.body, store_confirmation.source_address)
  returning id;
$$;

comment on function public.store_confirmation(text, text) is
  'Stores a confirmation verbatim before it is processed. Returns its id, for receive_mpesa_transaction.';

grant execute on function public.store_confirmation(text, text) to service_role;

create or replace function public.list_unprocessed_confirmations(at_most integer default 50) returns table (id bigint, body text)
language sql stable security definer
set search_path = ''
as $$
  select m.id, m.body from public.payment_messages as m
  where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unprocessed_confirmations.at_most;
$$;

comment on function public.list_unprocessed_confirmations(integer) is
  'Confirmations that were stored and not processed: the process died, or the database was unavailable.';

grant execute on function public.list_unprocessed_confirmations(integer) to service_role;

create or replace function public.judge_till_payment(reference text, offered_cents integer) returns text
language sql stable security definer
set search_path = ''
as $$
  select case
    when not s.refuses_unknown_payments then 'accepted'
    when coalesce(judge_till_payment.offered_cents, 0) < 100 or judge_till_payment.offered_cents % 100 <> 0 then 'amount'
    when private.order_of_reference(judge_till_payment.reference) is null then 'reference'
    when exists (
      select from public.orders as o
      where o.id = private.order_of_reference(judge_till_payment.reference)
        and judge_till_payment.offered_cents <> (o.total_amount + 99) / 100 * 100
    ) then 'amount'
    else 'accepted'
  end
  from public.store_settings as s;
$$;

comment on function public.judge_till_payment(text, integer) is
  'Whether M-PESA may accept a payment by hand: accepted, or what is wrong with it (reference, amount). Always accepted unless the settings refuse unknown payments.';

grant execute on function public.judge_till_payment(text, integer) to service_role;

create or replace function public.read_till_secret() returns text
language plpgsql volatile security definer
set search_path = ''
as $$
begin
  insert into private.till_secret default values on conflict do nothing;
  return (select t.secret from private.till_secret as t);
end
$$;

comment on function public.read_till_secret() is 'The secret of the till''s URLs; created by the first call.';

grant execute on function public.read_till_secret() to service_role;

create or replace function private.expect_till_receipt(receipt text, received_cents integer) returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if receipt is null or receipt !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  if received_cents is null or received_cents < 100 or received_cents % 100 <> 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
end
$$;

comment on function private.expect_till_receipt(text, integer) is 'Refuses anything but an M-PESA receipt and whole shillings in cents.';

create or replace function private.expect_free_receipt(receipt text, is_new boolean) returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if exists (select from public.payments as p where p.receipt = expect_free_receipt.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  end if;
  if is_new and exists (
    select from public.refunds as r where r.receipt = expect_free_receipt.receipt and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
end
$$;

comment on function private.expect_free_receipt(text, boolean) is 'Refuses the receipt of a test, and one whose money is being refunded.';

create or replace function public.correct_till_payment(payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(correct_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := correct_till_payment.received_cents;
  charge integer;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  end if;
  if exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_decision'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or came = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  if code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.expect_free_receipt(code, true);
    -- M-PESA's amount counts.
    select * into told from public.mpesa_transactions as t where t.receipt = code;
    if told.received_cents >= 100 and told.received_cents % 100 = 0
      and (told.reported_by_confirmation_at is not null or told.reported_by_statement_at is not null)
    then
      came := told.received_cents;
    end if;
  end if;
  if (code, came) = (known.receipt, known.charge_cents) then
    return jsonb_build_object('outcome', 'unchanged', 'payment', to_jsonb(known));
  end if;

  update public.payments as p set receipt = code, charge_cents = came, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages about money follow its receipt; their bodies stay as they came.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', came, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_decision' and came = charge and known.charge_cents <> charge then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and came <> known.charge_cents then
    -- As when M-PESA reports less than staff typed: an order that has not left the shop needs review.
    update public.orders as o
    set payment_status = 'needs_decision', status = 'pending', updated_at = now()
    where o.id = paid_order.id;
    perform private.return_units(paid_order.id);
    delete from public.deliveries as d where d.order_id = paid_order.id;
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  -- Not sent yet and no longer true; what is sent again later is queued again.
  delete from public.outbox_messages as m
  where m.order_id = paid_order.id and m.status = 'waiting' and m.attempts = 0 and not private.is_message_true(m.order_id, m.kind);
  perform private.join_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  return jsonb_build_object('outcome', paid_order.payment_status);
end
$$;

comment on function public.correct_till_payment(uuid, text, integer, text, integer) is
  'For staff: corrects the receipt and the amount (in cents) of money that staff confirmed by hand, as long as M-PESA has not confirmed it and it is the only money of its order. Refuses when receipt or amount are not those that were seen. The order follows: paid when the amount is its charge, otherwise it needs a decision.';

grant execute on function public.correct_till_payment(uuid, text, integer, text, integer) to authenticated, service_role;

create index mpesa_transactions_unassigned on public.mpesa_transactions (transacted_at)
  where payment_id is null and resolution is null;

create or replace function private.is_being_refunded(payment_id uuid) returns boolean
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return exists (
    select from public.refunds as r where r.payment_id = is_being_refunded.payment_id and r.status not in ('withdrawn', 'failed')
  );
end
$$;

comment on function private.is_being_refunded(uuid) is 'Whether a refund of this payment was requested: then its receipt stays where it is.';

create or replace function private.withdraw_unsent_refunds(receipt text) returns boolean
language plpgsql
set search_path = ''
as $$
begin
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
  where r.receipt = withdraw_unsent_refunds.receipt and r.transaction_receipt is not null
    and r.status in ('requested', 'approved') and r.tries = 0;
  return not exists (
    select from public.refunds as r
    where r.receipt = withdraw_unsent_refunds.receipt and r.status not in ('withdrawn', 'failed')
  );
end
$$;

comment on function private.withdraw_unsent_refunds(text) is
  'Withdraws refunds of unassigned money that were not sent to M-PESA yet. Returns whether the money can pay an order: not when it was refunded or may be. The receipt must be locked.';

create or replace function private.separate_receipt(payment_id uuid, failed boolean default false) returns uuid
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt public.payments;
  own_id uuid;
  told_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = separate_receipt.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into told_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null,
      confirmed_by = case when told_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when separate_receipt.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and other.status in ('initiating', 'processing')
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not separate_receipt.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end,
      presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  values (attempt.order_id, '', attempt.charge_cents, 'unresolved', 'till', told_by_staff)
  returning id into own_id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed',
      result_code = '0',
      receipt = attempt.receipt,
      -- An attempt that stays completed stays what the order was paid with.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at,
      updated_at = now()
  where p.id = own_id;
  perform private.tidy_outcomes(attempt.id);
  perform private.tidy_outcomes(own_id);
  return own_id;
end
$$;

comment on function private.separate_receipt(uuid, boolean) is
  'A presumption was wrong: the receipt becomes a payment of its own, and the attempt what it was before, or failed. The order must be locked. Returns the payment the receipt is now.';

create or replace function private.join_payments(own_id uuid, attempt_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = join_payments.own_id;
  select * into strict attempt from public.payments as p where p.id = join_payments.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  delete from public.payments as p where p.id = by_hand.id;
  update public.payments as p
  set status = 'completed',
      result_code = '0',
      receipt = by_hand.receipt,
      confirmed_by = coalesce(by_hand.confirmed_by, p.confirmed_by),
      needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
      next_query_at = null,
      completed_at = least(attempt.completed_at, by_hand.completed_at),
      updated_at = now()
  where p.id = attempt.id;
  perform private.tidy_outcomes(attempt.id);
end
$$;

comment on function private.join_payments(uuid, uuid) is
  'A payment by its receipt and an attempt are the same money: they become one payment, and the attempt stays. The order must be locked.';

create or replace function private.orders_of_lost_receipts(receipt text) returns setof uuid
language sql stable
set search_path = ''
as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  join public.payments as p on p.charge_cents = t.received_cents and p.method = 'prompt' and p.receipt is null
    and p.status in ('initiating', 'processing', 'unresolved', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
  where t.receipt = orders_of_lost_receipts.receipt and t.payment_id is null and p.purpose = 'order';
$$;

comment on function private.orders_of_lost_receipts(text) is
  'Orders that unassigned money may belong to: their prompts of the same amount and time lack a receipt.';

create or replace function private.join_receipts(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  own record;
  attempt public.payments;
begin
  -- A payment of its own with a receipt from M-PESA, and an attempt without a receipt, count as the same until disproved.
  for own in
    select p.id, p.receipt, p.charge_cents, t.transacted_at
    from public.payments as p
    join public.mpesa_transactions as t on t.receipt = p.receipt
    where p.order_id = join_receipts.order_id and p.method = 'till' and p.status = 'completed'
      and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
      and not private.is_being_refunded(p.id)
    order by p.needs_refund, t.transacted_at, p.receipt
  loop
    select a.* into attempt from public.payments as a
    where a.id = private.attempt_for(join_receipts.order_id, own.receipt, own.charge_cents, own.transacted_at);
    continue when attempt.id is null;
    perform private.join_payments(own.id, attempt.id);
    update public.payments as p
    set presumption = case when attempt.status = 'completed' then 'receipt' else 'attempt' end
    where p.id = attempt.id;
  end loop;
end
$$;

comment on function private.join_receipts(uuid) is
  'Joins receipts that M-PESA reported to attempts of the same order that were paid or may be, one to one. The order must be locked.';

create or replace function public.receive_mpesa_transaction(
  source text,
  receipt text,
  received_cents integer,
  reference text default '',
  transacted_at timestamptz default null,
  payer_phone text default null,
  payer_name text default null,
  body text default '',
  message_id bigint default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(trim(receive_mpesa_transaction.receipt));
  kept_id bigint := receive_mpesa_transaction.message_id;
  moment timestamptz := coalesce(receive_mpesa_transaction.transacted_at, now());
  for_order uuid;
  told public.mpesa_transactions;
  known public.payments;
  settled jsonb;
  outcome text;
  is_part boolean;
begin
  if receive_mpesa_transaction.source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is told of by a confirmation or the statement');
  end if;
  if coalesce(code, '') = '' or coalesce(receive_mpesa_transaction.received_cents, 0) <= 0 then
    if kept_id is null then
      insert into public.payment_messages (source, body) values (receive_mpesa_transaction.source, receive_mpesa_transaction.body)
      returning id into kept_id;
    end if;
    update public.payment_messages as m set outcome = 'unreadable' where m.id = kept_id;
    return jsonb_build_object('outcome', 'unreadable', 'receipt', code, 'payment', null);
  end if;

  -- The order is known only after reading, and must be locked first. What changes between reading and locking is read again.
  loop
    for_order := private.order_of_money(code, receive_mpesa_transaction.reference);
    begin
      -- Leaving this block releases the lock: no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_money(code, receive_mpesa_transaction.reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  insert into public.mpesa_transactions as t (
    receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_confirmation_at, reported_by_statement_at, payment_id
  ) values (
    code, receive_mpesa_transaction.received_cents, coalesce(trim(receive_mpesa_transaction.reference), ''),
    nullif(trim(receive_mpesa_transaction.payer_phone), ''), nullif(trim(receive_mpesa_transaction.payer_name), ''), moment,
    case when receive_mpesa_transaction.source = 'confirmation' then now() end,
    case when receive_mpesa_transaction.source = 'statement' then now() end,
    (select p.id from public.payments as p where p.receipt = code)
  )
  on conflict (receipt) do update set
    -- A statement outranks a confirmation, and a confirmation outranks a callback, which may be forged.
    received_cents = case
      when receive_mpesa_transaction.source = 'statement' or t.reported_by_statement_at is null
        and t.reported_by_confirmation_at is null then excluded.received_cents
      else t.received_cents
    end,
    reference = case
      when t.reference = '' or t.reported_by_confirmation_at is null and t.reported_by_statement_at is null then excluded.reference
      else t.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    transacted_at = case
      when receive_mpesa_transaction.source = 'statement' or t.reported_by_statement_at is null
        and t.reported_by_confirmation_at is null then excluded.transacted_at
      else t.transacted_at
    end,
    reported_by_confirmation_at = coalesce(t.reported_by_confirmation_at, excluded.reported_by_confirmation_at),
    reported_by_statement_at = coalesce(t.reported_by_statement_at, excluded.reported_by_statement_at),
    updated_at = now()
  returning * into told;

  -- A payment test that only a query completed has no receipt yet.
  if upper(trim(told.reference)) = 'TEST' and told.payment_id is null then
    with lacking as (
      select p.id from public.payments as p
      where p.purpose = 'test' and p.status = 'completed' and p.receipt is null and p.charge_cents = told.received_cents
        and p.created_at between told.transacted_at - interval '15 minutes' and told.transacted_at + interval '15 minutes'
    )
    update public.payments as p set receipt = code, updated_at = now()
    from lacking where p.id = lacking.id and (select count(*) from lacking) = 1;
  end if;
  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    if kept_id is null then
      insert into public.payment_messages (payment_id, source, body, receipt, outcome)
      values (known.id, receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m
      set payment_id = known.id, receipt = code, outcome = 'already_completed' where m.id = kept_id;
    end if;
    if known.method = 'till' and known.charge_cents <> told.received_cents and told.received_cents >= 100 and told.received_cents % 100 = 0
      and not private.is_being_refunded(known.id)
      and (known.needs_refund or (select o.payment_status from public.orders as o where o.id = known.order_id) = 'needs_decision')
    then
      -- Staff typed another amount. Where nothing was decided with it yet, M-PESA''s amount counts.
      update public.payments as p set charge_cents = told.received_cents, updated_at = now() where p.id = known.id;
      if not known.needs_refund and told.received_cents = (
        select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = known.order_id
      ) then
        perform private.mark_order_paid(known.order_id);
      end if;
    elsif known.method = 'till' and told.received_cents < known.charge_cents and not known.needs_refund
      and not private.is_being_refunded(known.id)
    then
      -- Less came than staff typed: an order that has not left the shop needs review.
      update public.orders as o
      set payment_status = 'needs_decision', status = 'pending', updated_at = now()
      where o.id = known.order_id and o.payment_status = 'paid' and o.status in ('pending', 'processing');
      if found then
        perform private.return_units(known.order_id);
        delete from public.deliveries as d where d.order_id = known.order_id;
        if told.received_cents >= 100 and told.received_cents % 100 = 0 then
          update public.payments as p set charge_cents = told.received_cents, updated_at = now() where p.id = known.id;
        end if;
      end if;
    end if;
    perform private.join_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', to_jsonb(known));
  end if;

  -- Anyone can type the number of an order. Less than its charge never pays it: staff decide.
  is_part := told.received_cents < (select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or told.resolution is not null or told.received_cents < 100 or told.received_cents % 100 <> 0 then
    outcome := 'unmatched';
    if kept_id is null then
      insert into public.payment_messages (source, body, receipt, outcome)
      values (receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m set receipt = code, outcome = 'unmatched' where m.id = kept_id;
    end if;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', null);
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, told.received_cents, told.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', told.received_cents, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id,
    source => receive_mpesa_transaction.source,
    body => receive_mpesa_transaction.body,
    verdict => 'succeeded',
    result_code => '0',
    received_cents => told.received_cents,
    receipt => code
  );
  -- It was stored before; now it belongs to its payment.
  if kept_id is not null then
    update public.payment_messages as m
    set source_address = kept.source_address, received_at = kept.received_at
    from public.payment_messages as kept
    where kept.id = kept_id and m.id = (select max(said.id) from public.payment_messages as said
      where said.payment_id = (settled -> 'payment' ->> 'id')::uuid and said.receipt = code and said.source = 'confirmation');
    delete from public.payment_messages as m where m.id = kept_id;
  end if;
  return settled || jsonb_build_object('receipt', code);
end
$$;

comment on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) is
  'Money that M-PESA reports by a confirmation or its statement: each receipt once. Joined to the payment with this receipt, else to the order its reference names (an attempt without a receipt and of the same amount is completed by it, otherwise it is a payment of its own, and less than the charge waits for staff), else kept unmatched for staff. Repeatable, in any order with everything else.';

grant execute on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) to service_role;

create or replace function private.order_of_money(receipt text, reference text) returns uuid
language sql stable
set search_path = ''
as $$
  select coalesce(
    (select p.order_id from public.payments as p where p.receipt = order_of_money.receipt),
    private.order_of_reference(order_of_money.reference),
    (select private.order_of_reference(t.reference) from public.mpesa_transactions as t where t.receipt = order_of_money.receipt)
  );
$$;

comment on function private.order_of_money(text, text) is
  'The order of the payment with this receipt, else of this reference, else of the reference reported earlier.';

create or replace function public.record_mpesa_registration(kind text) returns void
language sql volatile security definer
set search_path = ''
as $$
  insert into private.mpesa_registrations (kind) values (record_mpesa_registration.kind)
  on conflict (kind) do update set registered_at = now();
$$;

comment on function public.record_mpesa_registration(text) is
  'Records that M-PESA accepted a registration: till (confirmations) or statement. The statement is pulled from then on.';

grant execute on function public.record_mpesa_registration(text) to service_role;

create or replace function public.receipts_not_in_statement(receipts text[]) returns text[]
language sql stable security definer
set search_path = ''
as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_not_in_statement.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = upper(trim(given.receipt)) and t.reported_by_statement_at is not null
  );
$$;

comment on function public.receipts_not_in_statement(text[]) is 'The receipts that no statement has listed yet.';

grant execute on function public.receipts_not_in_statement(text[]) to service_role;

create or replace function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid, sent_by_hand text default null
) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  opened public.refunds;
  must_wait boolean := open_refund.sent_by_hand is null and open_refund.refund_cents > private.refund_limit();
begin
  if char_length(trim(coalesce(open_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    open_refund.payment_id, open_refund.transaction_receipt, open_refund.receipt, open_refund.refund_cents, trim(open_refund.reason),
    case when open_refund.sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when open_refund.sent_by_hand is not null then 'completed' when must_wait then 'requested' else 'approved' end, must_wait,
    open_refund.member, (select u.email from auth.users as u where u.id = open_refund.member),
    case when open_refund.sent_by_hand is not null then private.checked_refund_receipt(open_refund.sent_by_hand) end,
    case when open_refund.sent_by_hand is not null then now() end
  )
  returning * into opened;
  return opened;
end
$$;

comment on function private.open_refund(uuid, text, text, integer, text, uuid, text) is
  'Requests a refund by M-PESA, or records one by hand when its receipt (sent_by_hand) is given.';

-- Staff may have typed the amount: no more is refunded than M-PESA has reported under the same receipt.
create or replace function public.request_refund(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  paid public.payments := private.refundable_payment(request_refund.payment_id);
  told integer;
begin
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  select t.received_cents into told from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if told < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA told of less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund(uuid, text) is
  'A staff member requests the refund of a payment by M-PESA, in full. Up to store_settings.refund_approval_above it is sent next; above, it waits for another staff member.';

grant execute on function public.request_refund(uuid, text) to authenticated;

create or replace function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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

comment on function public.approve_refund(uuid) is 'A second staff member approves a refund above the limit. It is sent next.';

grant execute on function public.approve_refund(uuid) to authenticated;

create or replace function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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

create or replace function private.record_refund_decision(receipt text, note text, member uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into public.reconciliation_events (receipt, kind, note, actor_id, actor_email)
  values (
    record_refund_decision.receipt, 'refund', record_refund_decision.note, record_refund_decision.member,
    (select u.email from auth.users as u where u.id = record_refund_decision.member)
  );
end
$$;

comment on function private.record_refund_decision(text, text, uuid) is
  'Records a refund of unassigned money. The receipt stays open: when it turns out to be an order''s, an unsent refund is withdrawn.';

create or replace function public.request_transaction_refund(receipt text, reason text, is_sure boolean default false) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  told public.mpesa_transactions := private.open_transaction_refund(
    request_transaction_refund.receipt, request_transaction_refund.is_sure
  );
  asked public.refunds := private.open_refund(
    null, told.receipt, told.receipt, told.received_cents, request_transaction_refund.reason, member
  );
begin
  perform private.record_refund_decision(told.receipt, asked.reason, member);
  return asked;
end
$$;

comment on function public.request_transaction_refund(text, text, boolean) is
  'A staff member requests the refund of money without an order, by its receipt and the rules of request_refund. Money that may be an order''s, whose prompt lacks its receipt, only when is_sure.';

grant execute on function public.request_transaction_refund(text, text, boolean) to authenticated;

create or replace function public.note_transaction_refund_by_hand(
  receipt text, refund_receipt text, reason text, is_sure boolean default false
) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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
  noted := private.open_refund(
    null, told.receipt, told.receipt, told.received_cents, note_transaction_refund_by_hand.reason, member,
    coalesce(note_transaction_refund_by_hand.refund_receipt, '')
  );
  perform private.record_refund_decision(told.receipt, format('By hand, receipt %s: %s', noted.refund_receipt, noted.reason), member);
  return noted;
end
$$;

comment on function public.note_transaction_refund_by_hand(text, text, text, boolean) is
  'A staff member records that money without an order was refunded outside the shop. Repeatable by receipt.';

grant execute on function public.note_transaction_refund_by_hand(text, text, text, boolean) to authenticated;

-- The order of locks is the same everywhere, against deadlocks: the order, the receipt (its advisory lock, then its row of
-- mpesa_transactions), the payment, the refund; products by id, last.
create or replace function private.locked_refund(refund_id uuid) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  seen public.refunds;
  locked public.refunds;
begin
  -- What is refunded is known only after reading, and must be locked first. What changes in between is read again.
  loop
    select * into seen from public.refunds as r where r.id = locked_refund.refund_id;
    if not found then
      perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
    end if;
    begin
      perform from public.orders as o
      where o.id = (select p.order_id from public.payments as p where p.id = seen.payment_id)
      for update;
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

comment on function private.locked_refund(uuid) is
  'Locks a refund after its order, its receipt and its payment.';

create or replace function public.note_refund_by_hand(payment_id uuid, refund_receipt text, reason text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.payment_id = note_refund_by_hand.payment_id and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return noted;
  end if;
  paid := private.refundable_payment(note_refund_by_hand.payment_id);
  noted := private.open_refund(
    paid.id, null, paid.receipt, paid.charge_cents, note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand(uuid, text, text) is
  'A staff member records that a payment was refunded outside the shop, with M-PESA''s receipt. Repeatable by receipt.';

grant execute on function public.note_refund_by_hand(uuid, text, text) to authenticated;

create or replace function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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
  'A staff member resolves a refund that M-PESA does not report: with its receipt, or, half an hour after it was tried, as not sent.';

grant execute on function public.close_unknown_refund(uuid, text) to authenticated;

create or replace function public.lease_refunds(at_most integer default 1) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  leased public.refunds;
  too_much record;
  left_over integer := lease_refunds.at_most;
  secret text;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- Requested with the amount that staff typed, and then M-PESA reported less: no more is refunded than came. First, since it locks
  -- more than the refund.
  for too_much in
    select r.id, told.received_cents
    from public.refunds as r
    join public.mpesa_transactions as told on told.receipt = r.receipt and told.received_cents < r.refund_cents
    where r.status in ('requested', 'approved')
    order by r.id
  loop
    perform private.locked_refund(too_much.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA told of %s cents under this receipt, %s were to go back', too_much.received_cents, r.refund_cents)
    where r.id = too_much.id and r.status in ('requested', 'approved') and too_much.received_cents < r.refund_cents;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: tried again at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - least(interval '15 seconds' * power(2, least(r.tries, 10)), interval '10 minutes'))
    order by r.created_at limit left_over for update skip locked
  loop
    left_over := left_over - 1;
    insert into private.refund_secrets (refund_id, notice_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.notice_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    return next jsonb_build_object('work', 'send', 'refund', to_jsonb(leased), 'secret', secret);
  end loop;

  for leased in
    select * from public.refunds as r
    where (r.status in ('sent', 'unknown') and r.next_check_at <= now())
      -- The process that sent it never reported M-PESA''s response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit left_over for update skip locked
  loop
    -- One update only: of a row that one transaction changes twice PostgreSQL checks the references, which waits for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it asked M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- The exponent is kept small: a long wait would be no interval any more.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    return next jsonb_build_object(
      'work', 'ask', 'refund', to_jsonb(leased),
      'secret', (select s.notice_secret from private.refund_secrets as s where s.refund_id = leased.id)
    );
  end loop;
end
$$;

comment on function public.lease_refunds(integer) is
  'Refunds to send now, each only once (work = send), and refunds to query, at growing intervals (work = ask); each with the secret of its URLs.';

grant execute on function public.lease_refunds(integer) to service_role;

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
  'Stores the response to a reversal request. A temporary refusal leaves it approved, to be retried. Without conversation ids and without a refusal the response was lost: the reversal is queried, never sent again.';

grant execute on function public.record_reversal_push(uuid, text, text, text, text, text) to service_role;

-- A refund that is completed already learns its receipt only from a result about the same amount.
-- That a payment still stands is no proof that its reversal, once taken, was not carried out: only where the request itself was
-- lost it means that nothing was sent. And an answer that names money that came in tells nothing of its way back.
create or replace function public.settle_reversal(
  refund_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  refund_receipt text default null,
  refund_cents integer default null,
  originator_conversation_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  settled public.refunds;
  message_id bigint;
  outcome text;
  code text := nullif(settle_reversal.refund_receipt, '');
begin
  if settle_reversal.verdict not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.locked_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into message_id;
  if code is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || code));
    if exists (select from public.refunds as r where r.refund_receipt = code and r.id <> settled.id) then
      outcome := 'receipt_replayed';
    elsif settle_reversal.verdict = 'succeeded' and (
      code = settled.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then
      outcome := 'receipt_of_payment';
    -- A result of a reversal names the amount; a status without one may be of something else.
    elsif settle_reversal.verdict = 'succeeded' and settle_reversal.source = 'status_result'
      and settle_reversal.refund_cents is distinct from settled.refund_cents then
      outcome := 'pending';
    end if;
  end if;

  if outcome is not null then
    null;
  elsif settle_reversal.originator_conversation_id <> settled.originator_conversation_id then
    outcome := 'other_request';
  elsif settle_reversal.verdict = 'pending' then
    outcome := 'pending';
  elsif settle_reversal.verdict = 'succeeded' then
    if settled.status = 'completed' then
      outcome := 'already_completed';
      -- A result with another amount does not have this refund''s receipt.
      if settled.refund_receipt is null and code is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, code);
      end if;
    elsif settled.tries = 0 then
      -- Nothing was sent yet: this result cannot be about the refund.
      outcome := 'not_sent';
    elsif settle_reversal.refund_cents <> settled.refund_cents then
      outcome := 'wrong_amount';
      update public.refunds as r
      set status = case when r.status in ('sending', 'sent', 'unknown') then 'unknown' else r.status end,
          result_code = settle_reversal.result_code,
          result_description = format('M-PESA reported %s cents, %s were to go back', settle_reversal.refund_cents, r.refund_cents),
          next_check_at = null, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      -- Supersedes a failure as well: the money has gone back. A second refund of the same money, begun after that
      -- failure, has lost its reason.
      update public.refunds as r
      set status = 'withdrawn', updated_at = now()
      where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
      if exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status = 'completed'
          and (r.method = 'by_hand' or r.refund_receipt <> code)
      ) then
        outcome := 'sent_twice';
        if settled.sent_twice_at is null then
          update public.refunds as r
          set sent_twice_at = now(), refund_receipt = coalesce(r.refund_receipt, code),
              result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
              next_check_at = null, updated_at = now()
          where r.id = settled.id
          returning * into settled;
          if settled.payment_id is not null then
            perform private.record_order_event(
              (select p.order_id from public.payments as p where p.id = settled.payment_id), 'refund_sent_twice', 'mpesa',
              jsonb_build_object('refund_id', settled.id, 'refund_cents', settled.refund_cents, 'receipt', settled.refund_receipt)
            );
          end if;
        end if;
      elsif exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status not in ('failed', 'withdrawn')
      ) then
        outcome := 'sent_by_another';
      else
        outcome := 'completed';
        update public.refunds as r
        set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
        where r.id = settled.id;
        settled := private.complete_refund(settled.id, code);
      end if;
    end if;
  elsif settled.status not in ('sending', 'sent', 'unknown') then
    outcome := 'superseded';
  elsif settle_reversal.verdict = 'already_reversed' then
    outcome := 'already_reversed';
    update public.refunds as r
    set status = 'unknown', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = now(), updated_at = now()
    where r.id = settled.id
    returning * into settled;
  elsif settle_reversal.verdict = 'not_reversed' and (
    -- M-PESA may not have processed it yet; it may have carried out what it accepted, whatever status the payment has since; and after
    -- the report that it is reversed already, no other status counts.
    settled.sent_at > now() - interval '10 minutes' or settled.originator_conversation_id is not null
    or settled.result_code is not distinct from 'R000001'
  ) then
    outcome := 'pending';
  else
    outcome := 'failed';
    update public.refunds as r
    set status = 'failed', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = null, updated_at = now()
    where r.id = settled.id
    returning * into settled;
  end if;
  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'refund', to_jsonb(settled));
end
$$;

comment on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) is
  'The one way a refund by M-PESA ends. Stores the message, is repeatable, lets a success supersede a failure and never the reverse, and writes refund, payment and order in the same transaction.';

grant execute on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) to service_role;

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;

comment on function public.acknowledge_sent_twice(uuid, text) is
  'A staff member records how money that was refunded twice was resolved.';

grant execute on function public.acknowledge_sent_twice(uuid, text) to authenticated;

create or replace function public.store_daraja_token(account text, lease uuid, token text, fresh_for_ms bigint) returns boolean
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  update private.daraja_tokens as t
  set token = coalesce(store_daraja_token.token, t.token),
      fresh_until = case
        when store_daraja_token.token is null then t.fresh_until
        else now() + store_daraja_token.fresh_for_ms * interval '1 millisecond'
      end,
      lease = null,
      leased_until = null
  -- After the lease has expired, the next token may have made this one invalid.
  where t.account = store_daraja_token.account and t.lease = store_daraja_token.lease;
  return found;
end
$$;

comment on function public.store_daraja_token(text, uuid, text, bigint) is
  'Ends a lease with its token, or without one (token null) so that the next caller may request one at once. Returns whether the lease was still valid.';

grant execute on function public.store_daraja_token(text, uuid, text, bigint) to service_role;

create or replace function private.is_credential_fault(result_code text, result_description text) returns boolean
language sql immutable
set search_path = ''
as $$
  select coalesce(
    result_code in ('400.008.01', '400.008.02')
    or (result_code = '500.001.1001' and result_description ~* 'wrong credentials|merchant does not exist')
    or (result_code = 'mpesa_unreachable' and result_description ~* 'no access token: HTTP 40[0-3]'),
    false
  );
$$;

comment on function private.is_credential_fault(text, text) is 'Errors that M-PESA reports before any phone is involved.';

create or replace function public.resume_prompts() returns void
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  delete from private.prompt_pause where true;
  delete from private.prompt_faults where true;
end
$$;

comment on function public.resume_prompts() is 'Staff corrected the settings: prompts are sent again at once.';

grant execute on function public.resume_prompts() to authenticated;

create or replace function public.payment_health() returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select private.expect_staff();
  select jsonb_build_object(
    'checked_at', clock_timestamp(),
    'pause', (
      select jsonb_build_object('code', p.code, 'description', p.description, 'since', p.since, 'until', p.until)
      from private.prompt_pause as p where p.until > now()
    ),
    'refunds_to_approve', (select count(*) from public.refunds as r where r.status = 'requested'),
    'refunds_unknown', (select count(*) from public.refunds as r where r.status = 'unknown'),
    'refunds_stuck', (
      select count(*) from public.refunds as r
      where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
    ),
    'limit_raise', (
      select jsonb_build_object('by', r.raised_by_email, 'at', r.raised_at, 'from', r.raised_from, 'to', r.raised_to,
        'counts_from', r.raised_at + interval '1 day', 'limit', private.refund_limit())
      from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
      order by r.raised_at desc, r.id desc limit 1
    ),
    'refunds_sent_twice', (
      select count(*) from public.refunds as r where r.sent_twice_at is not null and r.sent_twice_seen_at is null
    ),
    'token_fresh_until', (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null),
    'last_push', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome)
      from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
    ),
    'last_notice', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome, 'address', m.source_address)
      from public.payment_messages as m where m.source in ('notice', 'confirmation', 'reversal_result') order by m.id desc limit 1
    )
  );
$$;

comment on function public.payment_health() is
  'For staff: whether prompts are paused and why, refunds that wait for staff, the last prompt and the last callback.';

grant execute on function public.payment_health() to authenticated;

create index payment_messages_unprocessed on public.payment_messages (id) where source = 'confirmation' and outcome is null;

create index payment_messages_with_bodies on public.payment_messages (received_at) where body <> '{}';

create or replace function public.store_failed_callback(payment_id uuid, body text, source_address text default null) returns bigint
language sql volatile security definer
set search_path = ''
as $$
  insert into public.payment_messages (payment_id, source, body, source_address, outcome)
  values (store_failed_callback.payment_id, 'notice', store_failed_callback.body, store_failed_callback.source_address, 'fault')
  returning id;
$$;

comment on function public.store_failed_callback(uuid, text, text) is
  'Stores a callback that could not be settled, verbatim: M-PESA sends it once. It is processed again later.';

grant execute on function public.store_failed_callback(uuid, text, text) to service_role;

create or replace function public.list_failed_callbacks(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer
set search_path = ''
as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.outcome = 'fault' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_failed_callbacks.at_most;
$$;

comment on function public.list_failed_callbacks(integer) is 'Callbacks of prompts that were stored and could not be settled yet.';

grant execute on function public.list_failed_callbacks(integer) to service_role;

create or replace function public.finish_failed_callback(message_id bigint) returns void
language sql volatile security definer
set search_path = ''
as $$
  update public.payment_messages as m set outcome = 'settled_later' where m.id = finish_failed_callback.message_id and m.outcome = 'fault';
$$;

comment on function public.finish_failed_callback(bigint) is 'The callback is settled now, with a message of its own.';

grant execute on function public.finish_failed_callback(bigint) to service_role;

create or replace function public.lease_statement_pull(every interval default '30 minutes') returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  covered_until timestamptz;
  reach timestamptz := now() - interval '48 hours';
  leased public.statement_pulls;
begin
  perform pg_advisory_xact_lock(hashtext('lease_statement_pull'));
  if not exists (select from private.mpesa_registrations as r where r.kind = 'statement') then
    return null;
  end if;
  -- The process with the lease has died.
  update public.statement_pulls as s
  set outcome = 'failed', problem = 'It was begun and never ended', finished_at = now()
  where s.outcome = 'running' and s.leased_until < now();
  if exists (
    select from public.statement_pulls as s
    where s.outcome = 'running'
      or (s.outcome = 'complete' and s.finished_at > now() - lease_statement_pull.every)
      -- A failed pull is repeated sooner, but not at once.
      or (s.outcome = 'failed' and s.finished_at > now() - least(lease_statement_pull.every, interval '5 minutes'))
  ) then
    return null;
  end if;
  select max(s.window_to) into covered_until from public.statement_pulls as s where s.outcome = 'complete';
  insert into public.statement_pulls (window_from, window_to, missed_since, leased_until)
  values (
    -- Overlapping, for late entries. A little less than 48 hours, since clocks differ.
    greatest(covered_until - interval '3 hours', reach + interval '5 minutes'),
    now(),
    case when covered_until < reach + interval '5 minutes' then covered_until end,
    now() + interval '10 minutes'
  )
  returning * into leased;
  return to_jsonb(leased);
end
$$;

comment on function public.lease_statement_pull(interval) is
  'The time window of M-PESA''s statement to pull now, leased to one process: from three hours before the end of the last complete pull, at most 48 hours. Null when none is due or no statement is registered.';

grant execute on function public.lease_statement_pull(interval) to service_role;

create or replace function private.statement_coverage() returns tstzmultirange
language sql stable
set search_path = ''
as $$
  select coalesce(range_agg(tstzrange(s.window_from, s.window_to)), '{}'::tstzmultirange)
  from public.statement_pulls as s
  where s.outcome = 'complete';
$$;

comment on function private.statement_coverage() is 'The time that complete pulls of the statement cover.';

create or replace function public.statement_status() returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  return jsonb_build_object(
    'checked_at', clock_timestamp(),
    'till_registered_at', (select r.registered_at from private.mpesa_registrations as r where r.kind = 'till'),
    'statement_registered_at', (select r.registered_at from private.mpesa_registrations as r where r.kind = 'statement'),
    'last_confirmation_at', (select max(t.reported_by_confirmation_at) from public.mpesa_transactions as t
      where t.transacted_at > now() - interval '30 days'),
    'last_complete_at', (select max(s.finished_at) from public.statement_pulls as s where s.outcome = 'complete'),
    'covered_until', (select max(s.window_to) from public.statement_pulls as s where s.outcome = 'complete'),
    'problem', (
      select s.problem from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1
    ),
    'missed', coalesce((
      select jsonb_agg(jsonb_build_object('from', s.missed_since, 'to', s.window_from) order by s.id desc)
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    ), '[]'),
    -- Stored callbacks and confirmations that could not be settled.
    'left', (
      select count(*) from public.payment_messages as m
      where (m.outcome = 'fault' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes'
    ),
    'unmatched', (
      select count(*) from public.mpesa_transactions as t
      where t.payment_id is null and t.resolution is null
    )
  );
end
$$;

comment on function public.statement_status() is
  'For staff: whether confirmations and the statement are registered, until when the statement is read, gaps of the last 14 days that no statement covers, and messages that could not be settled (left).';

grant execute on function public.statement_status() to authenticated, service_role;

create or replace function private.refuse_reconciliation_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  raise exception using errcode = 'insufficient_privilege', message = 'The history of the reconciliation is only added to';
end
$$;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz)
returns table (
  id text,
  happened_at timestamptz,
  kind text,
  is_open boolean,
  receipt text,
  our_cents integer,
  their_cents integer,
  payment_id uuid,
  payment_status text,
  method text,
  needs_refund boolean,
  refunded_at timestamptz,
  refund_status text,
  order_id uuid,
  order_number text,
  tracking_number text,
  customer_name text,
  charge_cents integer,
  order_payment_status text,
  reference text,
  payer_name text,
  payer_phone text,
  reported_by_confirmation_at timestamptz,
  reported_by_statement_at timestamptz,
  resolution text
)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with theirs as (
    select t.receipt, t.received_cents, t.reference, t.payer_name, t.payer_phone, t.transacted_at, t.payment_id, t.attempt_id, t.order_id,
      t.reported_by_confirmation_at, t.reported_by_statement_at, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payments as k where k.id = t.payment_id and k.purpose = 'test')
  ),
  ours as (
    select p.id
    from public.payments as p
    where p.status = 'completed' and p.purpose = 'order'
      and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
    union all
    select p.id
    from public.payments as p
    where (p.status = 'review' or (p.status = 'failed' and exists (
        -- Looked at, and ended by that.
        select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted'
      )))
      and p.purpose = 'order' and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
  ),
  beside as (
    select t.receipt as told, t.received_cents as came, t.reference, t.payer_name, t.payer_phone, t.transacted_at,
      t.reported_by_confirmation_at, t.reported_by_statement_at, t.resolution, t.attempt_id, t.order_id as named, t.payment_id as money
    from theirs as t
    union all
    select null, null, null, null, null, null, null, null, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = o.id order by e.id desc limit 1
    ), null, null, o.id
    from ours as o
  ),
  known as (
    select b.*, p.id as p_id, p.receipt as p_receipt, p.charge_cents as p_charge, p.status as p_status, p.method as p_method,
      p.needs_refund as p_needs_refund, p.refunded_at as p_refunded_at, p.completed_at as p_completed_at,
      p.created_at as p_created_at, p.updated_at as p_updated_at,
      o.id as o_id, o.order_number as o_number, o.tracking_number as o_tracking, o.customer_name as o_customer,
      (o.total_amount + 99) / 100 * 100 as o_charge, o.payment_status as o_payment_status,
      (
        select r.status from public.refunds as r
        where r.payment_id = p.id or r.receipt = coalesce(b.told, p.receipt)
        order by r.status in ('failed', 'withdrawn'), r.created_at desc
        limit 1
      ) as r_status
    from beside as b
    -- The attempt whose callback named a wrong amount is listed beside it.
    left join public.payments as p on p.id = coalesce(b.money, b.attempt_id)
    -- Less than the charge is listed beside the order that its reference names.
    left join public.orders as o on o.id = coalesce(p.order_id, b.named)
  ),
  judged as (
    select k.*,
      case
        when k.told is not null and k.money is null then case when k.attempt_id is null and k.named is null then 'missing_here' else 'wrong_amount' end
        when k.p_status in ('review', 'failed') then 'wrong_amount'
        when k.p_needs_refund then 'double'
        when k.came <> k.p_charge or k.p_charge <> k.o_charge then 'wrong_amount'
        when k.told is not null then 'matched'
        when coverage @> tstzrange(k.p_created_at, k.p_completed_at + interval '10 minutes') then 'missing_there'
        else 'not_compared'
      end as verdict,
      coalesce(k.r_status, 'failed') not in ('failed', 'withdrawn') as is_refunding
    from known as k
  )
  select
    coalesce(j.told, j.p_id::text),
    coalesce(j.transacted_at, j.p_completed_at, j.p_updated_at),
    j.verdict,
    case
      when j.verdict in ('matched', 'not_compared') or j.is_refunding or j.resolution in ('accepted', 'not_an_order') then false
      when j.verdict = 'double' then j.p_refunded_at is null
      when j.verdict = 'wrong_amount' and j.money is not null and j.p_status = 'completed'
        then j.came <> j.p_charge or j.o_payment_status = 'needs_decision'
      else true
    end,
    coalesce(j.told, j.p_receipt),
    case when j.p_status in ('completed', 'review') then j.p_charge end,
    j.came,
    j.p_id,
    j.p_status,
    j.p_method,
    coalesce(j.p_needs_refund, false),
    j.p_refunded_at,
    j.r_status,
    j.o_id,
    j.o_number,
    j.o_tracking,
    j.o_customer,
    j.o_charge,
    j.o_payment_status,
    j.reference,
    j.payer_name,
    j.payer_phone,
    j.reported_by_confirmation_at,
    j.reported_by_statement_at,
    j.resolution
  from judged as j;
end
$$;

comment on function private.reconciliation_rows(timestamptz, timestamptz) is
  'Our payments and M-PESA''s of a stretch of time, joined by receipt. kind: matched, missing_here (M-PESA has it, no payment is it), missing_there (the statement covers it and lacks it), not_compared (no statement covers it yet), double, wrong_amount.';

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
  member := private.expect_staff_member();
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
    if money.purpose = 'test' then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    end if;
    if told.receipt is null or told.payment_id is not null or told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if told.received_cents < 100 or told.received_cents % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', told.received_cents, 'unresolved', 'till', member)
    returning * into money;
    answer := public.settle_payment(
      payment_id => money.id,
      source => 'till',
      body => jsonb_build_object('receipt', told.receipt, 'received_cents', told.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      verdict => 'succeeded',
      received_cents => told.received_cents,
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
    if told.received_cents < 100 or told.received_cents % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    perform private.open_transaction_refund(told.receipt, resolve_difference.is_sure);
    perform private.open_refund(
      null, told.receipt, told.receipt, told.received_cents, coalesce(reason, 'Not for any order'), member
    );
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

create trigger reconciliation_events_stay before update or delete on public.reconciliation_events
  for each row execute function private.refuse_reconciliation_change();
