-- Earlier versions keep working: no function changes what it takes or returns, and their panels show the sentence of a refusal.

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
  if for_order is null or is_part or reported.resolution is not null or private.was_reversed(code)
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
grant execute on function public.receive_mpesa_transaction, public.receipts_not_in_statement to service_role;

create or replace function private.check_receipt_is_free(receipt text, is_new boolean) returns void
language plpgsql stable set search_path = '' as $$
begin
  if exists (select from public.payments as p where p.receipt = check_receipt_is_free.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif is_new and private.is_being_refunded(null, check_receipt_is_free.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif is_new and private.was_reversed(check_receipt_is_free.receipt) then
    perform private.refuse(409, 'money_reversed', 'M-PESA has taken this money back. It pays no order');
  -- Customers quote the message about their refund as a payment. What M-PESA has reported as received was received all the same.
  elsif is_new and (
    exists (select from public.refunds as r where r.refund_receipt = check_receipt_is_free.receipt)
    or exists (select from public.change_notes as c where c.receipt = check_receipt_is_free.receipt)
  ) and not exists (select from public.mpesa_transactions as t where t.receipt = check_receipt_is_free.receipt) then
    perform private.refuse(409, 'receipt_of_refund', 'This is the receipt of money that went back to a customer. It pays no order');
  end if;
end
$$;

comment on function private.check_receipt_is_free is
  'Refuses the receipt of a payment test, and a new one whose money is being refunded or was reversed, or with which the shop sent money back.';

create index messages_to_check_about_reversals on public.messages_to_check (reference) where problem = 'reversed';

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

create or replace function private.was_reversed(receipt text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.messages_to_check as m where m.problem = 'reversed' and m.reference = was_reversed.receipt
  );
end
$$;

comment on function private.was_reversed is
  'Whether M-PESA took the money with this receipt back, and no refund asked for it. It is gone, whatever staff have noted about that message.';

create or replace function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := private.read_reason(resolve_difference.note);
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
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
      perform from public.orders as o where o.id = of_order for no key update;
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

  if event_kind = 'accepted' and money.status = 'completed' and not money.needs_refund
    and exists (select from public.orders as o where o.id = money.order_id and o.payment_status = 'needs_review')
  then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif event_kind = 'given' and money.purpose = 'test' then
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
    elsif private.was_reversed(reported.receipt) then
      perform private.refuse(409, 'money_reversed', 'M-PESA has taken this money back. It pays no order');
    end if;
    money := private.add_till_payment(resolve_difference.order_id, reported.received_cents, member);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    -- Staff can take it back before the customer is notified.
    perform private.postpone_messages(resolve_difference.order_id);
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  -- Money that the shop keeps beyond the charge is owed to its customer.
  kept_cents := case
    when event_kind <> 'accepted' or money.status is distinct from 'completed' then 0
    when money.needs_refund then money.charge_cents
    else greatest(reported.received_cents - money.charge_cents, 0)
  end;
  if kept_cents >= 100 and not exists (select from public.change_notes as c where c.payment_id = money.id) then
    if private.is_being_refunded(money.id, money.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    perform private.add_change_note(money, 'credit', kept_cents / 100 * 100, null, reason, member);
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
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept: leave it as it is, what is kept beyond the charge becomes credit; reopen. Money of an order that needs review is decided by resolve_review. Recorded in reconciliation_events.';

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;

create or replace function private.has_usable_credit(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and (r.tries > 0 or not private.is_dropped_refund(r.status))
  ) and not private.was_reversed(money.receipt);
$$;

comment on function private.has_usable_credit is
  'Whether what is owed of a payment can pay an order: it is not refunded in full, and M-PESA was never asked to and did not reverse it.';
