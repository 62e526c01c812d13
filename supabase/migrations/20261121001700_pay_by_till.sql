-- Pay by till: the customer pays a till or paybill number by hand, and staff confirm the money by its receipt.

alter table public.store_settings
  add column till_number text not null default '',
  add column paybill_number text not null default '',
  add constraint "a till number is digits or empty" check (till_number ~ '^(\d{4,10})?$'),
  add constraint "a paybill number is digits or empty" check (paybill_number ~ '^(\d{4,10})?$');
comment on column public.store_settings.till_number is 'The till (Buy Goods) that customers may pay by hand; empty when there is none.';
comment on column public.store_settings.paybill_number is
  'The paybill that customers may pay by hand, with the tracking number as account; empty when there is none.';
grant update (till_number, paybill_number) on public.store_settings to authenticated;

alter table public.payments
  add column method text not null default 'prompt',
  add column confirmed_by uuid,
  add constraint "a payment method is known" check (method in ('prompt', 'till'));
comment on column public.payments.method is
  'prompt: M-PESA asked the phone for amount. till: the customer paid by hand and staff confirmed it; amount is what came, and the phone is not known ('''').';
comment on column public.payments.confirmed_by is 'The member of staff who confirmed the money by its receipt.';

alter table public.payment_messages
  drop constraint "a message has a known source",
  add constraint "a message has a known source" check (source in ('push', 'notice', 'query', 'till'));

create or replace function private.tell_payment_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'amount', new.amount,
    'method', case when new.method <> 'prompt' then new.method end
  );
  answer jsonb := jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if tg_op = 'INSERT' then
    -- It is settled in the same transaction, and told then.
    if new.method = 'till' then
      return null;
    end if;
    perform private.tell_order_event(new.order_id, 'payment_prompted', 'customer', payment);
    if new.status in ('initiating', 'processing') then
      return null;
    end if;
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.tell_order_event(new.order_id, 'payment_receipt_known', 'mpesa', payment || answer);
    end if;
    return null;
  end if;
  if new.status = 'completed' then
    perform private.tell_order_event(new.order_id, 'payment_completed', 'mpesa',
      payment || answer || case when new.needs_refund then '{"needs_refund": true}' else '{}' end::jsonb);
  elsif new.status = 'failed' then
    perform private.tell_order_event(new.order_id, 'payment_failed', 'mpesa', payment || answer);
  elsif new.status = 'review' then
    perform private.tell_order_event(new.order_id, 'payment_in_review', 'mpesa', payment || answer);
  elsif new.status = 'unresolved' then
    perform private.tell_order_event(new.order_id, 'payment_unresolved', 'shop', payment || answer);
  end if;
  return null;
end
$$;

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  is_short boolean;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Money by hand may be too little or too much: then it waits for a person, and what waits holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.amount <> (paid_order.total_amount + 99) / 100 * 100
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
    update public.orders as o
    set payment_status = 'needs_decision', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_decision';
  end if;
  if paid_order.reserved_until is null then
    -- Late money: the units were given back. Take them again if they are still there, else a person decides.
    perform from public.products as p
    join public.order_items as i on i.product_id = p.id and i.order_id = paid_order.id
    order by p.id
    for update of p;
    select coalesce(bool_or(p.id is null or p.stock_quantity < i.quantity), true) into is_short
    from public.order_items as i
    left join public.products as p on p.id = i.product_id
    where i.order_id = paid_order.id;
    if is_short then
      update public.orders as o
      set payment_status = 'needs_decision', payment_method = 'mpesa', reserved_until = null, updated_at = now()
      where o.id = paid_order.id;
      return 'paid_needs_decision';
    end if;
    update public.products as p
    set stock_quantity = p.stock_quantity - i.quantity
    from public.order_items as i
    where i.order_id = paid_order.id and p.id = i.product_id;
  end if;
  update public.orders as o
  set payment_status = 'paid',
      payment_method = 'mpesa',
      status = case when o.status in ('pending', 'cancelled') then 'processing' else o.status end,
      reserved_until = null,
      updated_at = now()
  where o.id = paid_order.id;
  perform private.make_delivery(paid_order.id);
  return 'paid';
end
$$;

create or replace function public.settle_payment(
  payment_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  amount integer default null,
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
  message_id bigint;
  attempt public.payments;
  paid_order public.orders;
  by_hand public.payments;
  outcome text;
  is_first_money boolean;
begin
  if settle_payment.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Always the order first, then its payment, and both before the message is kept, whose reference would hold a weaker
  -- lock that two at once cannot raise.
  select o.* into paid_order
  from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body)
  values (settle_payment.payment_id, settle_payment.source, settle_payment.source_address, settle_payment.body)
  returning id into message_id;

  -- A receipt or request id told of two attempts at once is looked at by one settlement after the other.
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[settle_payment.receipt, settle_payment.checkout_request_id]) as known (id)
  where known.id is not null;

  if settle_payment.checkout_request_id <> attempt.checkout_request_id or exists (
    select from public.payments as p
    where p.checkout_request_id = settle_payment.checkout_request_id and p.id <> attempt.id
  ) then
    outcome := 'other_request';
  elsif settle_payment.verdict = 'pending' then
    outcome := 'pending';
  elsif settle_payment.verdict = 'failed' then
    if attempt.status in ('initiating', 'processing', 'unresolved') then
      outcome := 'failed';
      update public.payments as p
      set status = 'failed',
          result_code = settle_payment.result_code,
          result_description = settle_payment.result_description,
          merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
          checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
          next_query_at = null,
          updated_at = now()
      where p.id = attempt.id
      returning * into attempt;
    else
      outcome := 'superseded';
    end if;
  elsif settle_payment.amount <> attempt.amount or (settle_payment.amount is null and settle_payment.source = 'notice') then
    if attempt.status = 'completed' then
      outcome := 'superseded';
    else
      outcome := 'wrong_amount';
      update public.payments as p
      set status = 'review',
          result_code = settle_payment.result_code,
          result_description = format('M-PESA reported %s cents, %s were charged', coalesce(settle_payment.amount::text, 'no'), p.amount),
          merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
          checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
          next_query_at = null,
          updated_at = now()
      where p.id = attempt.id
      returning * into attempt;
    end if;
  elsif attempt.status = 'review' and settle_payment.amount is null then
    -- A query names no amount: it cannot clear an attempt whose notice named a wrong one.
    outcome := 'needs_review';
  elsif (attempt.status <> 'completed' or attempt.receipt is null) and exists (
    select from public.payments as p
    where p.receipt = settle_payment.receipt and p.id <> attempt.id and p.order_id = attempt.order_id and p.method = 'till'
  ) then
    -- Staff typed the receipt of this very prompt before M-PESA told of it: one payment, and the prompt is the one that stays.
    outcome := 'confirmed_by_hand';
    select * into strict by_hand from public.payments as p where p.receipt = settle_payment.receipt;
    update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
    -- A query, which names no receipt, had completed it: the one of the two that came second looked like money to send back.
    if attempt.status = 'completed' then
      update public.payment_messages as m set outcome = 'confirmed_by_hand'
      where m.id = (
        select max(second.id) from public.payment_messages as second
        where second.payment_id = attempt.id and second.outcome = 'paid_twice'
      );
    end if;
    delete from public.payments as p where p.id = by_hand.id;
    update public.payments as p
    set status = 'completed',
        result_code = settle_payment.result_code,
        result_description = settle_payment.result_description,
        receipt = by_hand.receipt,
        confirmed_by = by_hand.confirmed_by,
        merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
        checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
        needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
        next_query_at = null,
        completed_at = least(attempt.completed_at, by_hand.completed_at),
        updated_at = now()
    where p.id = attempt.id
    returning * into attempt;
  elsif settle_payment.receipt is not null and exists (
    select from public.payments as p where p.receipt = settle_payment.receipt and p.id <> attempt.id
  ) then
    outcome := 'receipt_replayed';
  elsif attempt.status = 'completed' then
    outcome := 'already_completed';
    update public.payments as p
    set receipt = coalesce(p.receipt, settle_payment.receipt),
        merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
        checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
        updated_at = now()
    where p.id = attempt.id
    returning * into attempt;
  else
    is_first_money := paid_order.payment_status = 'unpaid';
    update public.payments as p
    set status = 'completed',
        result_code = settle_payment.result_code,
        result_description = settle_payment.result_description,
        receipt = coalesce(p.receipt, settle_payment.receipt),
        merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
        checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
        needs_refund = not is_first_money,
        next_query_at = null,
        completed_at = now(),
        updated_at = now()
    where p.id = attempt.id
    returning * into attempt;
    outcome := case when is_first_money then private.mark_order_paid(paid_order.id) else 'paid_twice' end;
  end if;

  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'payment', to_jsonb(attempt));
end
$$;

create function public.confirm_till_payment(order_id uuid, receipt text, amount integer) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(confirm_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  settled jsonb;
begin
  perform private.expect_staff();
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  if confirm_till_payment.amount is null or confirm_till_payment.amount < 100 or confirm_till_payment.amount % 100 <> 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  -- The order's row is the lock of all its payments, as everywhere.
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    return jsonb_build_object('outcome', 'already_completed', 'payment', to_jsonb(known));
  end if;

  insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
  -- Not among the open attempts: a prompt may be on the phone meanwhile, and its answer stays awaited.
  values (confirmed_order.id, '', confirm_till_payment.amount, 'unresolved', 'till', member)
  returning * into known;
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code,
      'amount', confirm_till_payment.amount,
      'confirmed_by', member,
      'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    verdict => 'succeeded',
    amount => confirm_till_payment.amount,
    receipt => code
  );
  if settled ->> 'outcome' = 'receipt_replayed' then
    -- Nothing of it stays.
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;
comment on function public.confirm_till_payment(uuid, text, integer) is
  'Staff confirm money that a customer paid by hand: its M-PESA receipt and the amount that came, in cents. Repeatable by receipt. Settled like every payment: an amount that is not the order''s charge waits for a decision, a second payment is flagged for refund.';
grant execute on function public.confirm_till_payment(uuid, text, integer) to authenticated, service_role;
