-- Refunds, requested and approved by staff (docs/decisions/refunds.md).

create table private.refund_limit_raises (
  id bigint generated always as identity primary key,
  raised_by uuid not null,
  raised_by_email text,
  raised_from integer not null,
  raised_to integer not null,
  raised_at timestamptz not null default now()
);
comment on table private.refund_limit_raises is
  'Raises of the refund limit. The previous limit applies for one more day, so that other staff notice the raise.';
alter table private.refund_limit_raises enable row level security;
create index refund_limit_raises_newest on private.refund_limit_raises (raised_at desc);

create table public.refunds (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid,
  transaction_receipt text,
  receipt text,
  refund_cents integer not null,
  reason text not null,
  method text not null,
  status text not null,
  needs_approval boolean not null default false,
  requested_by uuid,
  requested_by_email text,
  approved_by uuid,
  approved_by_email text,
  conversation_id text,
  originator_conversation_id text,
  result_code text,
  result_description text,
  refund_receipt text,
  check_count integer not null default 0,
  next_check_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  sent_at timestamptz,
  completed_at timestamptz,
  tries integer not null default 0,
  sent_twice_at timestamptz,
  sent_twice_seen_at timestamptz,
  sent_twice_seen_by uuid,
  sent_twice_seen_by_email text,
  sent_twice_note text,
  approved_at timestamptz,
  approved_alone boolean not null default false,
  -- Deferred: merging two payments moves the refund within the transaction.
  constraint "a refund is of a payment" foreign key (payment_id) references public.payments (id) deferrable initially deferred,
  constraint "a refund is of a transaction" foreign key (transaction_receipt) references public.mpesa_transactions (receipt),
  constraint "a refund is of a payment or a transaction" check (num_nonnulls(payment_id, transaction_receipt) = 1),
  constraint "a refund has a known status" check (status in (
    'requested', 'approved', 'sending', 'sent', 'completed', 'failed', 'unknown', 'withdrawn'
  )),
  constraint "a refund goes by M-PESA, by hand, in cash or as credit" check (method in ('reversal', 'by_hand', 'cash', 'credit')),
  constraint "a refund by M-PESA has a receipt" check (method <> 'reversal' or receipt is not null),
  constraint "a refund by hand is completed" check (method = 'reversal' or status = 'completed'),
  constraint "a refund is of whole shillings" check (refund_cents >= 100 and refund_cents % 100 = 0),
  constraint "a refund has a reason" check (char_length(trim(reason)) between 3 and 200),
  constraint "a second staff member approves above the limit" check (
    method <> 'reversal' or not needs_approval or status in ('requested', 'withdrawn')
    or (approved_by is not null and requested_by is not null and (approved_by <> requested_by or approved_alone))
  ),
  constraint "only sent refunds are checked" check (next_check_at is null or status in ('sent', 'unknown')),
  constraint "a refund receipt is used once" unique (refund_receipt),
  constraint "only a double refund is acknowledged" check (sent_twice_seen_at is null or sent_twice_at is not null),
  constraint "an acknowledgement has a note" check (
    (sent_twice_seen_at is null) = (sent_twice_note is null) and char_length(trim(sent_twice_note)) between 3 and 200
  )
);
comment on table public.refunds is
  'Refunds of a payment, or of money without an order (transaction_receipt). receipt: M-PESA''s receipt of the incoming money; refund_receipt: of the refund. unknown: M-PESA may have sent it; M-PESA is queried and nothing is sent again. method credit: what an order was paid from is credit again; no money moved.';
comment on column public.refunds.sent_twice_at is
  'When M-PESA reported this reversal after the money had been refunded in another way. refund_receipt is the receipt of the second refund.';
comment on column public.refunds.needs_approval is 'Whether refund_cents was above the limit when the refund was requested.';
comment on column public.refunds.approved_alone is
  'The requester approved it, as the only owner, after a second factor and ten minutes.';
comment on column public.refunds.sent_twice_note is
  'How staff resolved the double refund: the customer repaid one, or it is written off.';
alter table public.refunds enable row level security;
grant select on public.refunds to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.refunds to anon;
create policy "staff read every refund" on public.refunds for select to authenticated using ((select public.may('orders')));
create index refunds_sent_twice on public.refunds (sent_twice_at) where sent_twice_at is not null;
create unique index "a payment is sent back once" on public.refunds (payment_id) where status not in ('failed', 'withdrawn');
create unique index "the money of a receipt is sent back once" on public.refunds (receipt) where status not in ('failed', 'withdrawn');
create index refunds_newest_first on public.refunds (created_at desc);
create index refunds_by_approval on public.refunds (approved_at desc) where approved_at is not null;
create index refunds_of_a_payment on public.refunds (payment_id);
create index refunds_of_a_receipt on public.refunds (receipt);
create index refunds_under_way on public.refunds (created_at) where status not in ('completed', 'failed', 'withdrawn');
create index refunds_sent_twice_and_not_seen on public.refunds (sent_twice_at)
  where sent_twice_at is not null and sent_twice_seen_at is null;

create table private.refund_secrets (
  refund_id uuid primary key references public.refunds (id) on delete cascade,
  result_secret text not null,
  constraint "a result secret opens one refund" unique (result_secret)
);
comment on table private.refund_secrets is 'Secret part of a refund''s result URLs.';
alter table private.refund_secrets enable row level security;

create function private.refund_limit() returns integer
language sql stable set search_path = '' as $$
  select least(s.refund_approval_above, (
    select min(r.raised_from) from private.refund_limit_raises as r where r.raised_at > now() - interval '1 day'
  ))
  from public.store_settings as s;
$$;
comment on function private.refund_limit is 'The current limit in cents. A raise applies after one day.';

create function private.check_refund_right(cents bigint, payment_id uuid) returns void
language plpgsql stable set search_path = '' as $$
begin
  if cents + (select c.returned_cents from private.change_of(check_refund_right.payment_id) as c) > private.refund_limit() and (select auth.uid()) is not null and not public.may('approvals') then
    perform private.refuse(403, 'above_refund_limit', format(
      'Only an owner may note money that went back above KES %s', to_char(private.refund_limit() / 100, 'FM999,999,999')
    ));
  end if;
end
$$;
comment on function private.check_refund_right is
  'Refuses staff who may not approve refunds to give back more than the limit by hand or in cash, which no one approves. cents: with what went back in part already.';

-- A paid order is delivered or refunded, never both.
create function private.refuse_while_refund_is_open(new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and private.is_open_refund(r.status)
  ) then
    perform private.refuse(409, 'refund_under_way',
      'This money is on its way back to the customer. Withdraw the refund first, where that is still possible');
  elsif new.payment_status = 'paid' and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
  ) then
    perform private.refuse(409, 'partly_refunded',
      'Part of this money went back to the customer already. Send the rest back too');
  end if;
end
$$;

-- Records refunds by hand of an order's payments when staff mark the order as refunded.
create function private.record_refund_of_order(new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, private.left_to_refund(p) as left_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.left_cents, 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
end
$$;

-- Updates the order of a refunded payment, as resolve_paid_order does.
create function private.refund_order_of_payment(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for no key update;
  if new.needs_refund or not private.has_money(refunded_order.payment_status) then
    if new.needs_refund and new.method <> 'credit' then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- Paid in parts: the order is refunded with the last part.
    if new.method <> 'credit' then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  -- M-PESA reversed the payment after refusing to, and the order was not sent: its units return to stock.
  if refunded_order.payment_status = 'paid' and private.is_in_shop(refunded_order.status) then
    perform private.return_units(refunded_order.id, 'refunded');
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then 'cancelled'
        else o.status
      end,
      cancel_reason = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then 'refunded'
        else o.cancel_reason
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
end
$$;

-- Moves the refund to the remaining payment when two payments with one receipt are merged.
create function private.move_refund_with_receipt(new public.payments) returns public.payments
language plpgsql set search_path = '' as $$
declare
  refund public.refunds;
begin
  update public.refunds as r
  set payment_id = new.id, transaction_receipt = null, updated_at = now()
  where r.receipt = new.receipt and r.payment_id is distinct from new.id
    -- An earlier refund by hand stays with the payment.
    and (private.is_dropped_refund(r.status) or not exists (
      select from public.refunds as own
      where own.payment_id = new.id and own.id <> r.id and not private.is_dropped_refund(own.status)
    ));
  select * into refund from public.refunds as r where r.payment_id = new.id and r.status = 'completed';
  if found then
    new.refunded_at := coalesce(new.refunded_at, refund.completed_at);
    new.refund_receipt := coalesce(new.refund_receipt, refund.refund_receipt);
  end if;
  -- A refund recorded before the receipt was known gets the receipt.
  update public.refunds as r
  set receipt = new.receipt, updated_at = now()
  where r.payment_id = new.id and r.receipt is null and not exists (
    select from public.refunds as known
    where known.receipt = new.receipt and known.id <> r.id and not private.is_dropped_refund(known.status)
  );
  return new;
end
$$;

-- Refuses payments that cannot be refunded. Locks the order first.
create function private.lock_refundable_payment(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = lock_refundable_payment.payment_id)
  for no key update;
  -- Credit of this money is not used while its refund begins.
  if exists (select from public.change_notes as c where lock_refundable_payment.payment_id in (c.payment_id, c.used_for)) then
    perform private.lock_credit(paid_order.customer_phone);
  end if;
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
  if private.left_to_refund(paid) < 100 then
    perform private.refuse(409, 'nothing_to_send_back', 'All of this money went back already, or paid another order');
  end if;
  return paid;
end
$$;

create function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  reason := private.read_reason(reason, is_required => true);
  if sent_by_hand is not null then
    perform private.check_refund_right(refund_cents, payment_id);
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, reason,
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  if opened.status = 'requested' then
    perform private.queue_staff_message('refund_to_approve', opened.id::text, except_member => member);
    perform private.add_notice('refund_to_approve', opened.id::text, caused_by => member);
  end if;
  return opened;
end
$$;
comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create function private.lock_refundable_transaction(receipt text, is_sure boolean) returns public.mpesa_transactions
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

create function private.request_refund_of(payment_id uuid, reason text, member uuid) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  paid public.payments := private.lock_refundable_payment(request_refund_of.payment_id);
  reported public.mpesa_transactions;
begin
  if paid.method = 'credit' then
    return private.return_to_credit(paid, private.read_reason(request_refund_of.reason, is_required => true), member);
  elsif paid.method = 'cash' then
    perform private.refuse(409, 'cash_goes_back_in_cash', 'This was paid in cash, which M-PESA cannot send back. Give it back, and note it');
  elsif paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if private.left_to_refund(paid) < paid.charge_cents then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, or paid another order as credit, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund_of.reason, member);
end
$$;
comment on function private.request_refund_of is
  'Requests the full refund by M-PESA of a payment; what was paid from credit is credit again at once. Refuses what can only go back by hand.';

create function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  return private.request_refund_of(request_refund.payment_id, request_refund.reason, member);
end
$$;
comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure. What was paid from credit is credit again at once.';

create function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('approvals');
  approved public.refunds := private.lock_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif approved.requested_by = member then
    if exists (select from private.active_owners() as owner where owner.user_id <> member) then
      perform private.refuse(403, 'second_member_needed', 'You requested this refund, so a colleague must approve it');
    elsif (select auth.jwt() ->> 'aal') is distinct from 'aal2' then
      perform private.refuse(403, 'second_factor_needed',
        'You are the only owner. Add an authenticator app under Account, sign in with it, and approve this refund then');
    elsif approved.created_at > now() - interval '10 minutes' then
      perform private.refuse(409, 'approval_too_early', format(
        'You are the only owner, so take ten minutes to think it over. You can approve it from %s on',
        to_char((approved.created_at + interval '10 minutes') at time zone 'Africa/Nairobi', 'HH24:MI')
      ));
    end if;
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member, approved_by_email = private.email_of(member), approved_at = now(),
      approved_alone = approved.requested_by = member, updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;
comment on function public.approve_refund is 'Approves, as a second owner, a refund above the limit. The only owner approves an own one after a second factor and ten minutes.';

create function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  withdrawn public.refunds := private.lock_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return withdrawn;
  end if;
  if not private.is_unsent_refund(withdrawn.status) then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return withdrawn;
end
$$;
comment on function public.withdraw_refund is 'Withdraws a refund that was not sent to M-PESA yet.';

-- The reconciliation lists every refund, wherever it was requested.
create function private.record_refund_in_reconciliation(new public.refunds) returns void
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

-- After a refund that sent no money, staff resolve the unmatched payment again.
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
      member, private.email_of(member)
    );
  end if;
end
$$;

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;
