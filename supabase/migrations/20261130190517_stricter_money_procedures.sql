-- Earlier versions keep working: none of them moves a delivery to another order, and their panels show the sentence of a refusal.

revoke update (order_id) on public.deliveries from authenticated;

create or replace function private.check_refund_receipt(typed text) returns text
language plpgsql set search_path = '' as $$
declare
  code text := private.read_receipt(typed);
begin
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  -- Also of money that no order has got.
  if exists (select from public.payments as p where p.receipt = code)
    or exists (select from public.mpesa_transactions as t where t.receipt = code)
  then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  elsif exists (select from public.refunds as r where r.refund_receipt = code)
    or exists (select from public.change_notes as c where c.receipt = code)
  then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create or replace function private.check_receipt_is_free(receipt text, is_new boolean) returns void
language plpgsql stable set search_path = '' as $$
begin
  if exists (select from public.payments as p where p.receipt = check_receipt_is_free.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif is_new and private.is_being_refunded(null, check_receipt_is_free.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
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
  'Refuses the receipt of a payment test, and a new one whose money is being refunded, or with which the shop sent money back.';

create or replace function public.choose_cash(order_id uuid, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cash_orders');
  refusal_details text;
  refusal_hint text;
begin
  if not (select s.offers_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'We take no cash at the door at the moment. Please pay by M-PESA');
  elsif not exists (
    select from private.order_keys as k where k.order_id = choose_cash.order_id and k.access_key = choose_cash.access_key
  ) then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  ordered := private.lock_order_for_cash(choose_cash.order_id);
  if ordered.payment_method = 'cash' then
    return private.placed_order(ordered, choose_cash.access_key);
  elsif ordered.is_collected then
    perform private.refuse(409, 'cash_not_taken', 'You collect this order at the shop. Please pay there, or by M-PESA');
  end if;
  -- Nothing is paid before the rider stands at the door: a stranger could send riders around. One phone has one such order at a time,
  -- unless it has paid before.
  perform pg_advisory_xact_lock(hashtextextended('cash orders of ' || ordered.customer_phone, 0));
  if not private.has_paid(ordered.customer_phone) and (
    not is_within_limit or exists (
      select from public.orders as o
      where private.is_open_order(o.status) and o.payment_status = 'unpaid' and o.payment_method = 'cash'
        and o.customer_phone = ordered.customer_phone
    )
  ) then
    perform private.refuse(429, 'too_many_cash_orders', format(
      'Another order of this phone or network is paid in cash already. Please pay this one by M-PESA, or call or WhatsApp us on %s',
      private.contact_numbers()
    ));
  end if;
  perform private.deliver_for_cash(ordered, 'customer');
  -- The link of an order leaves with its first prompt, or now.
  perform private.queue_order_messages(ordered.id, 'order_received');
  perform private.add_notice('paid_order', ordered.id::text, ordered.id);
  select * into ordered from public.orders as o where o.id = ordered.id;
  return private.placed_order(ordered, choose_cash.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.choose_cash is
  'A customer pays in cash at the door, where the settings offer it (store_settings.offers_cash). Proof: the order''s access key. Answers as place_order.';

-- Execution rights
grant execute on function public.choose_cash to anon, authenticated, service_role;

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

-- Orders whose delivery fee and day staff agree on with the customer (docs/decisions/delivery-areas.md).

create or replace function public.agree_delivery(order_id uuid, fee_cents integer, delivery_day date) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today constant date := private.nairobi_day(now());
  agreed public.orders;
  is_first boolean;
  former_day date;
  new_total integer;
  new_discount integer;
begin
  perform private.expect_staff('orders');
  if agree_delivery.fee_cents is null or agree_delivery.fee_cents not between 0 and 100000000 or agree_delivery.fee_cents % 100 <> 0 then
    perform private.refuse(400, 'fee_invalid', 'The delivery fee must be in whole shillings');
  elsif agree_delivery.delivery_day is null or agree_delivery.delivery_day not between today and today + 60 then
    perform private.refuse(400, 'day_invalid', 'Choose a day from today to 60 days on');
  end if;
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into agreed from public.orders as o where o.id = agree_delivery.order_id for no key update;
  is_first := agreed.awaits_agreement;
  former_day := agreed.delivery_day;
  new_total := agreed.total_amount - agreed.delivery_fee + agree_delivery.fee_cents;
  -- As in private.discount_on: a discount leaves one shilling to pay, also when it was made with a higher fee.
  new_discount := agreed.discount_cents - least(greatest(100 - new_total, 0), agreed.discount_cents);
  new_total := new_total + agreed.discount_cents - new_discount;
  if agreed.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.is_open_order(agreed.status) then
    perform private.refuse(409, 'order_closed', 'This order is closed. Nothing was changed');
  elsif not is_first and agreed.delivery_day is null then
    perform private.refuse(409, 'delivery_not_to_agree', 'The fee and the time of this order follow from its area');
  elsif agreed.delivery_fee <> agree_delivery.fee_cents and (
    agreed.payment_status <> 'unpaid' or agreed.payment_method = 'cash'
    or exists (select from public.payments as p where p.order_id = agreed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = agreed.id)
  ) then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its delivery fee cannot change');
  elsif (new_total::bigint + 99) / 100 * 100 > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;
  update public.orders as o
  set delivery_fee = agree_delivery.fee_cents, total_amount = new_total, discount_cents = new_discount,
      delivery_day = agree_delivery.delivery_day, awaits_agreement = false, updated_at = now()
  where o.id = agreed.id
  returning * into agreed;
  -- Another day is another promise, also with cash at the door.
  if agreed.promised_at is not null and agreed.delivery_day is distinct from former_day then
    update public.orders as o set promised_at = private.promise_of(agreed, now()), promised_again_at = null where o.id = agreed.id;
  end if;
  perform private.record_order_event(agreed.id, 'delivery_agreed', 'shop', jsonb_build_object(
    'fee_cents', agreed.delivery_fee, 'total_cents', agreed.total_amount, 'day', agreed.delivery_day
  ));
  if agreed.payment_status = 'unpaid' then
    perform private.wait_for_pay_link(agreed);
    if is_first then
      perform private.queue_order_messages(agreed.id, 'order_received');
    end if;
  end if;
  perform private.notify_order_followers(agreed.id);
end
$$;

comment on function public.agree_delivery is
  'For staff: what they agreed on with the customer of an order outside the promise: its delivery fee in cents, and the day. The order can be paid from then on, waits a day for that, and its customer gets the link. Can be repeated until a payment has begun; the day also afterwards, which then replaces the promise.';

-- Execution rights
grant execute on function public.agree_delivery to authenticated, service_role;
