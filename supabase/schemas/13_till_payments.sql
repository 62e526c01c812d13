-- Till payments: manual payments, confirmed by their receipt.

create table private.till_secret (
  id boolean primary key default true check (id),
  secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now()
);
comment on table private.till_secret is 'Secret part of the URL for confirmations. One row, because the URL is registered once.';
alter table private.till_secret enable row level security;

create function public.confirm_till_payment(
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

create function public.store_confirmation(body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (source, body, source_address)
  values ('confirmation', body, source_address)
  returning id;
$$;
comment on function public.store_confirmation is
  'Stores a confirmation verbatim before it is processed. Returns its id for receive_mpesa_transaction.';

create function public.list_unprocessed_confirmations(at_most integer default 50) returns table (id bigint, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.body from public.payment_messages as m
  where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unprocessed_confirmations.at_most;
$$;
comment on function public.list_unprocessed_confirmations is
  'Stored confirmations that were not processed, because a process ended or the database was unavailable.';

create function public.validate_till_payment(reference text, offered_cents integer) returns text
language sql stable security definer set search_path = '' as $$
  select case
    when not s.refuses_unknown_payments then 'accepted'
    when private.is_whole_shillings(validate_till_payment.offered_cents) is not true then 'amount'
    when private.order_of_reference(validate_till_payment.reference) is null then 'reference'
    when exists (
      select from public.orders as o
      where o.id = private.order_of_reference(validate_till_payment.reference)
        and validate_till_payment.offered_cents <> o.charge_cents
    ) then 'amount'
    else 'accepted'
  end
  from public.store_settings as s;
$$;
comment on function public.validate_till_payment is
  'Whether M-PESA may accept a manual payment: accepted, or what is wrong (reference, amount). Always accepted unless the settings refuse unknown payments.';

create function public.read_till_secret() returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into private.till_secret default values on conflict do nothing;
  return (select t.secret from private.till_secret as t);
end
$$;
comment on function public.read_till_secret is 'The secret of the till''s URLs. The first call creates it.';

create function private.read_receipt(typed text) returns text
language plpgsql stable set search_path = '' as $$
declare
  code text := upper(regexp_replace(typed, '\s', '', 'g'));
begin
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  return code;
end
$$;
comment on function private.read_receipt is
  'An M-PESA receipt that staff typed, in capitals and without spaces. Refuses anything else.';

create function private.reported_amount(receipt text, typed_cents integer) returns integer
language sql stable set search_path = '' as $$
  select coalesce((
    select t.received_cents from public.mpesa_transactions as t
    where t.receipt = reported_amount.receipt and private.is_whole_shillings(t.received_cents)
      and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
  ), typed_cents);
$$;
comment on function private.reported_amount is 'The amount that M-PESA reported for a receipt, else the amount that staff typed.';

create function private.check_receipt_is_free(receipt text, is_new boolean) returns void
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

create function public.correct_till_payment(
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
grant execute on function public.store_confirmation, public.list_unprocessed_confirmations, public.validate_till_payment,
  public.read_till_secret
  to service_role;
