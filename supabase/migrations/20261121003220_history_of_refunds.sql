-- Every refund of a payment is in the history of its money, wherever it was asked for or noted: at the order as in the reconciliation.

create function private.keep_refund_of_payment() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  select new.receipt, p.id, p.order_id, 'refund',
    case when new.method = 'by_hand' and new.refund_receipt is not null
      then format('By hand, receipt %s: %s', new.refund_receipt, new.reason) else new.reason end,
    new.requested_by, new.requested_by_email
  from public.payments as p
  where p.id = new.payment_id;
  return null;
end
$$;
create trigger refunds_of_payments_are_remembered after insert on public.refunds
  for each row when (new.payment_id is not null)
  execute function private.keep_refund_of_payment();

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
  member := private.expect_member();
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

  -- The order first, as everywhere; then the receipt; then what is known of it is read. Whose the receipt is by then is looked
  -- at again: nobody waits for an order with its receipt in his hands.
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
      -- By the same words as before: in others it might never be the same.
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
    -- What staff typed has a receipt that M-PESA may not have told of yet.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if told.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if happened = 'given' then
    if told.receipt is null or told.payment_id is not null or told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if told.amount < 100 or told.amount % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if exists (select from public.payment_tests as t where t.receipt = told.receipt) then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
    values (resolve_difference.order_id, '', told.amount, 'unresolved', 'till', member)
    returning * into money;
    answer := public.settle_payment(
      payment_id => money.id,
      source => 'till',
      body => jsonb_build_object('receipt', told.receipt, 'amount', told.amount, 'confirmed_by', member, 'email', member_email)::text,
      verdict => 'succeeded',
      amount => told.amount,
      receipt => told.receipt
    );
    money.id := (answer -> 'payment' ->> 'id')::uuid;
    if answer -> 'payment' ->> 'method' = 'prompt' and not (answer -> 'payment' ->> 'needs_refund')::boolean then
      answer := answer || '{"outcome": "joined"}';
    end if;
  elsif happened = 'refund' and money.id is not null then
    -- The refunds' own rules: what may be sent back, who must agree, once.
    answer := public.request_refund(money.id, coalesce(reason, 'Paid twice'));
  elsif happened = 'refund' then
    if told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    if told.amount < 100 or told.amount % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if not coalesce(resolve_difference.is_sure, false) and exists (select private.orders_of_lost_receipts(told.receipt)) then
      perform private.refuse(409, 'may_be_of_order', format(
        'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
        (select o.order_number from public.orders as o
         where o.id in (select private.orders_of_lost_receipts(told.receipt)) order by o.created_at desc limit 1)
      ));
    end if;
    insert into public.refunds (
      transaction_receipt, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
    )
    select told.receipt, told.receipt, told.amount, coalesce(reason, 'Not for any order'), 'reversal',
      case when told.amount > private.refund_limit() then 'requested' else 'approved' end,
      told.amount > private.refund_limit(), member, member_email;
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
  -- A refund of a payment tells itself.
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

create or replace function private.reopen_transaction_of_refund() returns trigger
language plpgsql security definer
set search_path = ''
as $$
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
  return null;
end
$$;
