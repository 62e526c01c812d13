-- Refunds of money that belongs to no payment.

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

create function private.open_transaction_refund(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  code text := upper(trim(open_transaction_refund.receipt));
  told public.mpesa_transactions;
begin
  -- Settlements and reconciliation take the same lock for a receipt.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into told from public.mpesa_transactions as t where t.receipt = code for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if exists (select from public.refunds as r where r.receipt = code and r.status not in ('failed', 'withdrawn')) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if told.payment_id is not null or exists (select from public.payments as p where p.receipt = code)
    or told.received_cents < 100 or told.received_cents % 100 <> 0
  then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if not coalesce(open_transaction_refund.is_sure, false) and exists (select private.orders_of_lost_receipts(code)) then
    perform private.refuse(409, 'may_be_of_order', format(
      'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
      (select o.order_number from public.orders as o
       where o.id in (select private.orders_of_lost_receipts(code)) order by o.created_at desc limit 1)
    ));
  end if;
  return told;
end
$$;

create function public.request_transaction_refund(receipt text, reason text, is_sure boolean default false) returns public.refunds
language plpgsql security definer set search_path = '' as $$
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
comment on function public.request_transaction_refund is
  'A staff member requests the refund of money without an order, by its receipt and the rules of request_refund. Money that may be an order''s, whose prompt lacks its receipt, only when is_sure.';

create function public.note_transaction_refund_by_hand(
  receipt text, refund_receipt text, reason text, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
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
comment on function public.note_transaction_refund_by_hand is
  'A staff member records that money without an order was refunded outside the shop. Repeatable by receipt.';

-- Who may call these functions
grant execute on function public.request_transaction_refund, public.note_transaction_refund_by_hand to authenticated;
