-- Refunds of unassigned money.

create function private.reopen_transaction_of_refund(new public.refunds) returns void
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
      member, (select u.email from auth.users as u where u.id = member)
    );
  end if;
end
$$;

create function private.lock_refundable_transaction(receipt text, is_sure boolean) returns public.mpesa_transactions
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
  elsif exists (select from public.refunds as r where r.receipt = code and r.status not in ('failed', 'withdrawn')) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.payment_id is not null or exists (select from public.payments as p where p.receipt = code)
    or reported.received_cents < 100 or reported.received_cents % 100 <> 0
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

create function public.request_transaction_refund(receipt text, reason text, is_sure boolean default false) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reported public.mpesa_transactions := private.lock_refundable_transaction(
    request_transaction_refund.receipt, request_transaction_refund.is_sure
  );
  requested public.refunds := private.open_refund(
    null, reported.receipt, reported.receipt, reported.received_cents, request_transaction_refund.reason, member
  );
begin
  perform private.record_transaction_refund(reported.receipt, requested.reason, member);
  return requested;
end
$$;
comment on function public.request_transaction_refund is
  'Requests the refund of unassigned money by its receipt, by the rules of request_refund. Money that may be an order''s, whose prompt lacks a receipt, only when is_sure.';

create function public.note_transaction_refund_by_hand(
  receipt text, refund_receipt text, reason text, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.transaction_receipt = upper(trim(note_transaction_refund_by_hand.receipt)) and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_transaction_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return noted;
  end if;
  reported := private.lock_refundable_transaction(
    note_transaction_refund_by_hand.receipt, note_transaction_refund_by_hand.is_sure
  );
  noted := private.open_refund(
    null, reported.receipt, reported.receipt, reported.received_cents, note_transaction_refund_by_hand.reason, member,
    coalesce(note_transaction_refund_by_hand.refund_receipt, '')
  );
  perform private.record_transaction_refund(reported.receipt, format('By hand, receipt %s: %s', noted.refund_receipt, noted.reason), member);
  return noted;
end
$$;
comment on function public.note_transaction_refund_by_hand is
  'Records that unassigned money was refunded outside the shop. Idempotent by receipt.';

-- Who may call these functions
grant execute on function public.request_transaction_refund, public.note_transaction_refund_by_hand to authenticated;
