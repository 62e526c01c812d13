-- Earlier versions keep working: they name an order only where money is given to it, and read the resolution of a refund.

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
  -- The others are about the payment's own order.
  given_to uuid := case when resolve_difference.decision = 'give' then resolve_difference.order_id end;
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
      given_to,
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
        given_to,
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
    money := private.add_till_payment(given_to, reported.received_cents, member);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    -- Staff can take it back before the customer is notified.
    perform private.postpone_messages(given_to);
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
      coalesce(reported.receipt, money.receipt), money.id, coalesce(given_to, money.order_id),
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

create or replace function private.record_refund_in_reconciliation(new public.refunds) returns void
language plpgsql set search_path = '' as $$
begin
  -- Money without a payment that went back by hand is decided about. What M-PESA is asked to send back may still find its order.
  update public.mpesa_transactions as t
  set resolution = 'refund', resolved_by = new.requested_by, resolved_at = now(), updated_at = now()
  where t.receipt = new.transaction_receipt and new.method = 'by_hand';
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  select new.receipt, p.id, p.order_id, 'refund',
    case when new.method = 'by_hand' and new.refund_receipt is not null
      then format('By hand, receipt %s: %s', new.refund_receipt, new.reason) else new.reason end,
    new.requested_by, new.requested_by_email
  from (select) as one
  left join public.payments as p on p.id = new.payment_id
  where p.purpose is distinct from 'test';
end
$$;

-- Noted by hand by earlier versions.
update public.mpesa_transactions as t
set resolution = 'refund', resolved_by = r.requested_by, resolved_at = r.created_at, updated_at = now()
from public.refunds as r
where r.transaction_receipt = t.receipt and t.payment_id is null and t.resolution is null and r.method = 'by_hand';
