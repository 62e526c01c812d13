drop function public.confirm_till_payment(uuid,text,integer);

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(confirm_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff();
  perform private.check_till_receipt(code, received);
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
      'email', (select u.email from auth.users as u where u.id = member)
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

-- Who may call these functions
grant execute on function public.confirm_till_payment, public.correct_till_payment to authenticated, service_role;
