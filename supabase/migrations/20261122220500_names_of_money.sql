-- Columns and arguments with money are named for what it is: a charge, money that M-PESA received, a refund. All are in cents.

drop function public.begin_payment(uuid,text,text,text,integer);
drop function public.confirm_till_payment(uuid,text,integer);
drop function public.correct_till_payment(uuid,text,integer,text,integer);
drop function public.judge_till_payment(text,integer);
drop function private.attempt_for(uuid,text,integer,timestamp with time zone);
drop function private.expect_till_receipt(text,integer);
drop function private.open_refund(uuid,uuid,text,integer,text,uuid);
drop function private.reconciliation_rows(timestamp with time zone,timestamp with time zone);
drop function public.receive_mpesa_transaction(text,text,integer,text,timestamp with time zone,text,text,text,bigint);
drop function public.settle_payment(uuid,text,text,text,text,text,integer,text,text,text,text);
drop function public.settle_payment_test(uuid,text,text,text,text,text,integer,text,text,text,text);
drop function public.settle_reversal(uuid,text,text,text,text,text,text,integer,text,text);

alter table public.payments rename column amount to charge_cents;
alter table public.payment_tests rename column amount to charge_cents;
alter table public.mpesa_transactions rename column amount to received_cents;
alter table public.refunds rename column amount to refund_cents;
alter type private.payment_report rename attribute amount to received_cents;

-- Events are only added to; here only their keys change.
alter table public.order_events disable trigger user;
update public.order_events as e
set details = e.details - 'amount' - 'amount_before'
  || jsonb_build_object(case when e.kind like 'refund%' then 'refund_cents' else 'charge_cents' end, e.details -> 'amount')
  || case when e.details ? 'amount_before' then jsonb_build_object('charge_cents_before', e.details -> 'amount_before') else '{}' end
where e.details ? 'amount';
alter table public.order_events enable trigger user;

comment on table public.payments is
  'Attempts to collect an order''s money by an M-PESA prompt. charge_cents is what a prompt asks the payer for, or what came without one. failed only on a code known to be final; unresolved when no answer can be had.';
comment on column public.payments.method is
  'prompt: M-PESA asked the phone for charge_cents. till: the money came without a prompt of ours, or beyond one; staff or M-PESA itself told of it; charge_cents is what came, and the phone is not known ('''').';
comment on table public.mpesa_transactions is
  'What M-PESA told of money by a confirmation, by its statement, or by a notice that could not be believed. payment_id: the payment this money is; null while nobody knows what it was for.';
comment on column public.refunds.needs_approval is 'Whether refund_cents was above the limit when it was asked for.';
comment on type private.payment_report is
  'What a message says about a payment attempt. received_cents is null where the message names none. verdict: succeeded, failed or pending.';

create or replace function private.placed_order(order_id uuid) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return (
    select jsonb_build_object(
      'id', o.id,
      'tracking_number', o.tracking_number,
      'access_key', k.access_key,
      'status', o.status,
      'payment_status', o.payment_status,
      'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount,
      -- M-PESA takes whole shillings only: a fraction is rounded up.
      'charge_cents', (o.total_amount + 99) / 100 * 100,
      'customer_phone', o.customer_phone,
      'reserved_until', o.reserved_until,
      'expires_at', o.expires_at,
      'created_at', o.created_at
    )
    from public.orders as o
    join private.order_keys as k on k.order_id = o.id
    where o.id = placed_order.order_id
  );
end
$$;

create or replace function public.track_order(
  tracking_number text,
  access_key text default null,
  phone_last_four text default null
) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  return private.describe_order(opened.found_order, opened.is_open);
end
$$;

comment on function public.track_order(text, text, text) is
  'An order by its tracking number: status, items and total for anyone, and after 30 days only the status; id, access key and personal data only with the access key, the last four digits of the phone or the whole number. live_handle names the live channel. payment_check says of an unpaid order that staff check a payment (review) or send it back (goes_back), that a prompt is open (prompted), or that M-PESA never reported how the last one ended (unresolved); is_refunding that the money of a paid order is on its way back; cancelled_because why it was cancelled (not_paid_in_time, by_shop). With proof also reserved_until, expires_at, paid_cents and part_paid. Null when there is none.';

grant execute on function public.track_order(text, text, text) to anon, authenticated, service_role;

create or replace function public.order_receipt(
  tracking_number text,
  access_key text default null,
  phone_last_four text default null
) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    -- As it was sold, whatever the product is called now.
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id,
          'charge_cents', p.charge_cents,
          'receipt', p.receipt,
          'completed_at', p.completed_at,
          'is_surplus', p.needs_refund,
          'refunded_at', p.refunded_at,
          'refund_receipt', p.refund_receipt
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt(text, text, text) is
  'What track_order shows of an order with proof, and every payment that came for it. Without proof only that there is such an order. Null when there is none.';

grant execute on function public.order_receipt(text, text, text) to anon, authenticated, service_role;

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
  cancelled record;
  cents bigint;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number,
    'live_handle', described.live_handle,
    'status', private.shown_status(described.status),
    'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- That staff check a payment is public, as whether the order is paid; the amount is not.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(p.status in ('initiating', 'processing')) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif described.payment_status in ('paid', 'needs_decision') and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and r.status in ('approved', 'sending', 'sent', 'unknown')
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.status = 'cancelled' then
    select e.actor, e.details ->> 'reason' as reason into cancelled
    from public.order_events as e
    where e.order_id = described.id and e.kind = 'status_changed' and e.details ->> 'to' = 'cancelled'
    order by e.id desc limit 1;
    if cancelled.reason = 'not_paid_in_time' or cancelled.actor = 'staff' then
      answer := answer || jsonb_build_object(
        'cancelled_because', case when cancelled.reason = 'not_paid_in_time' then 'not_paid_in_time' else 'by_shop' end
      );
    end if;
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' then
    if described.status = 'pending' then
      answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
    end if;
  else
    select sum(p.charge_cents) into cents
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed' and not p.needs_refund;
    if cents > 0 then
      answer := answer || jsonb_build_object('paid_cents', cents);
    end if;
  end if;
  -- Less than the charge that came under the order's number: shown to the customer alone, because anyone can send it.
  select sum(t.received_cents) into cents
  from public.mpesa_transactions as t
  where t.order_id = described.id and t.payment_id is null and t.resolution is null;
  if cents > 0 then
    answer := answer || jsonb_build_object('part_paid_cents', cents);
  end if;
  return answer;
end
$$;

comment on function private.order_facts(public.orders, boolean) is
  'The facts about an order''s state that domain/order-meaning.ts reads. With proof (is_open) also until when units are held and the order waits (reserved_until, expires_at), what was paid (paid_cents) and what came in part (part_paid_cents).';

create or replace function private.refuse_same_amount(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  told_at timestamptz;
begin
  select max(p.updated_at) into told_at
  from public.payments as p
  where p.phone = new.phone and p.charge_cents = new.charge_cents and p.result_code = '17' and p.status = 'failed'
    and p.updated_at > now() - interval '2 minutes';
  if told_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from told_at + interval '2 minutes' - now()))::integer
    ));
  end if;
end
$$;

create or replace function public.begin_payment(
  order_id uuid,
  tracking_number text,
  phone text,
  notice_secret text,
  expected_cents integer default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
  paid_order public.orders;
  current_attempt public.payments;
  charge integer;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The order's row is the lock: attempts, settlements and expiry of one order happen one after another.
  select * into paid_order from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order does not stop another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_decision' and p.charge_cents = (paid_order.total_amount + 99) / 100 * 100)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if paid_order.payment_status = 'needs_decision' then
    perform private.refuse(409, 'payment_to_decide',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  end if;
  if paid_order.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  end if;
  if paid_order.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if charge < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  if begin_payment.expected_cents is not null and begin_payment.expected_cents not in (paid_order.total_amount, charge) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- One order may be tried with many phones: without a limit, its owner could make many phones ring.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', paid_order.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;

  -- Refused requests stay counted from here on.
  begin
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (paid_order.id, payer, charge, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, notice_secret)
    values (current_attempt.id, begin_payment.notice_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(paid_order.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true,
    'payment', to_jsonb(current_attempt),
    'tracking_number', paid_order.tracking_number
  );
end
$$;

comment on function public.begin_payment(uuid, text, text, text, integer) is
  'Opens an attempt to collect an order''s money, or returns the one that is open or has succeeded. The id and the tracking number must belong to one order. Only when is_new may a prompt be sent.';

grant execute on function public.begin_payment(uuid, text, text, text, integer) to service_role;

create or replace function public.settle_payment(
  payment_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  received_cents integer default null,
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
  report private.payment_report := (
    settle_payment.source, settle_payment.verdict, settle_payment.result_code, settle_payment.result_description,
    settle_payment.received_cents, settle_payment.receipt, settle_payment.merchant_request_id, settle_payment.checkout_request_id
  );
  message_id bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  outcome text;
  settled_id uuid;
begin
  if report.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the order first, then its payment, and both before the message is stored: its reference would take a weaker lock that two
  -- concurrent settlements cannot raise.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into message_id;
  -- Serialises settlements with the same receipt or request id.
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;

  -- What the message means.
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    is_receipt_of_test => exists (select from public.payment_tests as t where t.receipt = report.receipt),
    attempt_goes_back => private.is_being_refunded(attempt.id),
    owner_goes_back => private.is_being_refunded(receipt_owner.id)
  );

  -- What follows from it.
  if settlement.parts_receipt then
    perform private.take_receipt_away(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  outcome := case settlement.decision
    when 'second_money' then 'paid_twice'
    when 'adds_details' then 'already_completed'
    when 'completes' then private.complete_attempt(attempt, report)
    else settlement.decision
  end;
  settled_id := attempt.id;
  case settlement.decision
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents));
      perform private.keep_unexplained_money(attempt, report);
    when 'superseded' then
      if report.verdict = 'succeeded' then
        perform private.keep_unexplained_money(attempt, report);
      end if;
    when 'confirmed_by_hand' then
      perform private.join_owner_of_receipt(attempt, report, receipt_owner);
    when 'second_money' then
      settled_id := private.add_second_money(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = message_id;
    when 'adds_details' then
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  update public.payment_messages as m
  set outcome = settled.outcome
  from (select outcome) as settled (outcome)
  where m.id = message_id and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.join_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = message_id;
  end if;
  if report.verdict = 'succeeded' then
    perform private.tidy_outcomes(m.payment_id) from public.payment_messages as m where m.id = message_id;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  return jsonb_build_object('outcome', outcome, 'payment', to_jsonb(attempt));
end
$$;

comment on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a payment ends. Keeps the message, is repeatable, compares with the charged amount, lets a success supersede a failure and never the reverse, keeps every receipt as money of its own, and writes order, stock and delivery in the same transaction.';

grant execute on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) to service_role;

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
  -- Too little or too much money needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> (paid_order.total_amount + 99) / 100 * 100
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
    -- Late money: the units were returned. Take them again if they are available, else the order needs review.
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

create or replace function private.decide_settlement(
  attempt public.payments,
  report private.payment_report,
  receipt_owner public.payments,
  is_other_request boolean,
  is_receipt_of_test boolean,
  attempt_goes_back boolean,
  owner_goes_back boolean
) returns private.settlement
language plpgsql immutable
set search_path = ''
as $$
declare
  is_completed boolean := attempt.status = 'completed';
  names_other_amount boolean := report.received_cents <> attempt.charge_cents or (report.received_cents is null and report.source = 'notice');
  -- A reference that anyone can type disproves nothing.
  is_by_reference boolean := report.source in ('confirmation', 'statement');
  parts_receipt boolean := coalesce(
    report.receipt <> attempt.receipt and attempt.presumption is not null and not is_by_reference and not attempt_goes_back, false
  );
  -- As the attempt will be without the receipt it was presumed to have.
  stays_completed boolean := is_completed and not (parts_receipt and attempt.presumption = 'attempt');
  own_receipt text := case when not parts_receipt then attempt.receipt end;
  decision text := case
    when is_other_request then 'other_request'
    when report.verdict = 'pending' then 'pending'
    -- Also where money that came for the order completed the attempt by presumption: it was not this prompt's.
    when report.verdict = 'failed' and (
      attempt.status in ('initiating', 'processing', 'unresolved')
      or (is_completed and attempt.presumption = 'attempt' and not attempt_goes_back)
    ) then 'failed'
    when report.verdict = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.received_cents is null then 'needs_review'
    when receipt_owner.order_id <> attempt.order_id or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)
      then 'receipt_replayed'
    -- The money of a payment test pays no order.
    when is_receipt_of_test then 'receipt_replayed'
    -- It is in the books already; money that goes back stays where it is.
    when owner_goes_back and (receipt_owner.method = 'prompt' or attempt_goes_back) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and own_receipt is not null then 'already_completed'
    -- The receipt is in the books: as money of its own, or as what another attempt was presumed to have brought.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is money of its own.
    when stays_completed and report.receipt <> own_receipt then 'second_money'
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else parts_receipt and decision in ('confirmed_by_hand', 'second_money', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;

comment on function private.decide_settlement(public.payments, private.payment_report, public.payments, boolean, boolean, boolean, boolean) is
  'What a message means for a payment attempt, from facts alone; writes nothing. receipt_owner: the other payment that has the receipt. is_other_request: its request id belongs to another attempt. attempt_goes_back, owner_goes_back: a refund of that money is requested or done.';

create or replace function private.keep_unexplained_money(attempt public.payments, report private.payment_report) returns void
language sql
set search_path = ''
as $$
  insert into public.mpesa_transactions as t (receipt, received_cents, reference, transacted_at, heard_by_notice_at, attempt_id)
  select report.receipt, report.received_cents, o.tracking_number, now(), now(), attempt.id
  from public.orders as o
  where o.id = attempt.order_id and report.receipt is distinct from attempt.receipt and report.received_cents > 0
    and report.receipt is not null
    and not exists (select from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id)
  on conflict (receipt) do update set
    attempt_id = coalesce(t.attempt_id, excluded.attempt_id),
    heard_by_notice_at = coalesce(t.heard_by_notice_at, excluded.heard_by_notice_at),
    updated_at = now();
$$;

comment on function private.keep_unexplained_money(public.payments, private.payment_report) is
  'Money of another amount than charged, under a receipt that no payment has, is kept for staff.';

create or replace function private.join_owner_of_receipt(attempt public.payments, report private.payment_report, receipt_owner public.payments)
returns void
language plpgsql
set search_path = ''
as $$
declare
  own_id uuid := receipt_owner.id;
begin
  if receipt_owner.method = 'prompt' then
    own_id := private.take_receipt_away(receipt_owner.id);
  end if;
  perform private.absorb(own_id, attempt.id);
  update public.payments as p
  set result_code = report.result_code,
      result_description = report.result_description,
      presumption = null,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      updated_at = now()
  where p.id = attempt.id;
  if receipt_owner.charge_cents <> attempt.charge_cents and not receipt_owner.needs_refund
    and exists (select from public.orders as o where o.id = attempt.order_id and o.payment_status = 'needs_decision')
  then
    -- Only the amount that staff typed needed review.
    perform private.mark_order_paid(attempt.order_id);
  end if;
  perform private.join_receipts(attempt.order_id);
end
$$;

comment on function private.join_owner_of_receipt(public.payments, private.payment_report, public.payments) is
  'The attempt and the payment that has its receipt become one: the attempt stays. The order must be locked.';

create or replace function private.add_second_money(attempt public.payments, report private.payment_report) returns uuid
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  own_id uuid;
begin
  insert into public.payments (order_id, phone, charge_cents, status, method)
  values (attempt.order_id, '', report.received_cents, 'unresolved', 'till')
  returning id into own_id;
  update public.payments as p
  set status = 'completed',
      result_code = report.result_code,
      result_description = report.result_description,
      receipt = report.receipt,
      needs_refund = true,
      completed_at = now(),
      updated_at = now()
  where p.id = own_id;
  return own_id;
end
$$;

comment on function private.add_second_money(public.payments, private.payment_report) is
  'A payment of its own for a second success of an attempt, to be sent back. Returns its id.';

create or replace function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  charge integer;
  part integer;
  -- Money that is being refunded, or was refunded, pays nothing.
  is_free boolean := report.receipt is null or private.take_back_refunds(report.receipt);
  pays_order boolean;
  is_extra boolean;
  outcome text;
begin
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  pays_order := is_free and paid_order.payment_status = 'unpaid';
  if is_free and paid_order.payment_status = 'needs_decision' and not exists (
    select from public.payments as p
    where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund and p.charge_cents = charge
  ) then
    if attempt.charge_cents = charge then
      -- The whole charge settles an order that needed review; the part, or the surplus, is refunded.
      pays_order := true;
      update public.payments as p
      set needs_refund = true, updated_at = now()
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
      perform private.tidy_outcomes(p.id) from public.payments as p
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed';
    elsif report.source = 'till' then
      -- Parts that staff give to one order pay it once they add up to its charge.
      select attempt.charge_cents + coalesce(sum(p.charge_cents), 0) into part
      from public.payments as p
      where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
        and not private.is_being_refunded(p.id);
      pays_order := part = charge and not exists (
        select from public.payments as p
        where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
          and private.is_being_refunded(p.id)
      );
    end if;
  end if;
  is_extra := not pays_order and coalesce(part, charge) >= charge;
  update public.payments as p
  set status = 'completed',
      result_code = report.result_code,
      result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      presumption = case when report.source in ('confirmation', 'statement') and p.method = 'prompt' then 'attempt' end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      needs_refund = is_extra,
      next_query_at = null,
      completed_at = now(),
      updated_at = now()
  where p.id = attempt.id;
  outcome := case
    when pays_order then private.mark_order_paid(paid_order.id)
    when not is_free then 'goes_back'
    when is_extra then 'paid_twice'
    else 'paid_needs_decision'
  end;
  if outcome = 'paid_twice' and attempt.method = 'till' then
    -- Only money with a receipt can be sent back, and this may well be the receipt of what the order was paid with.
    update public.payments as p
    set needs_refund = true, updated_at = now()
    where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
      and not p.needs_refund and p.charge_cents = attempt.charge_cents and not private.is_being_refunded(p.id);
    if found then
      update public.payments as p set needs_refund = false where p.id = attempt.id;
    end if;
  end if;
  return outcome;
end
$$;

comment on function private.complete_attempt(public.payments, private.payment_report) is
  'Money came with an open attempt: completes it and pays its order, or marks the money as too much, too little or on its way back. Returns the outcome: paid, paid_needs_decision, paid_twice or goes_back. The order must be locked.';

create or replace function public.confirm_till_payment(order_id uuid, receipt text, received_cents integer) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(confirm_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := confirm_till_payment.received_cents;
  settled jsonb;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  -- The order's row is the lock of all its payments, as everywhere.
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return jsonb_build_object('outcome', 'already_completed', 'payment', to_jsonb(known));
  end if;
  perform private.expect_free_receipt(code, known.id is null);
  -- M-PESA's amount counts.
  select * into told from public.mpesa_transactions as t where t.receipt = code;
  if told.received_cents >= 100 and told.received_cents % 100 = 0
    and (told.heard_by_confirmation_at is not null or told.heard_by_statement_at is not null)
  then
    came := told.received_cents;
  end if;

  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: a prompt may be on the phone at the same time, and its result is still expected.
  values (confirmed_order.id, '', came, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code,
      'received_cents', confirm_till_payment.received_cents,
      'confirmed_by', member,
      'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    verdict => 'succeeded',
    received_cents => came,
    receipt => code
  );
  perform set_config('private.is_typed_by_staff', '', true);
  if settled ->> 'outcome' = 'receipt_replayed' then
    -- Roll everything back.
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment(uuid, text, integer) is
  'Staff confirm money that a customer paid by hand: its M-PESA receipt and the amount that came, in cents. Repeatable by receipt. Settled like every payment: an amount that is not the order''s charge waits for a decision, a second payment is flagged for refund.';

grant execute on function public.confirm_till_payment(uuid, text, integer) to authenticated, service_role;

create or replace function public.judge_till_payment(reference text, offered_cents integer) returns text
language sql stable security definer
set search_path = ''
as $$
  select case
    when not s.refuses_unknown_payments then 'accepted'
    when coalesce(judge_till_payment.offered_cents, 0) < 100 or judge_till_payment.offered_cents % 100 <> 0 then 'amount'
    when private.order_of_reference(judge_till_payment.reference) is null then 'reference'
    when exists (
      select from public.orders as o
      where o.id = private.order_of_reference(judge_till_payment.reference)
        and judge_till_payment.offered_cents <> (o.total_amount + 99) / 100 * 100
    ) then 'amount'
    else 'accepted'
  end
  from public.store_settings as s;
$$;

comment on function public.judge_till_payment(text, integer) is
  'Whether M-PESA may take money that somebody is about to pay by hand: accepted, or what is wrong with it (reference, amount). Everything is, unless the settings say otherwise.';

grant execute on function public.judge_till_payment(text, integer) to service_role;

create or replace function private.expect_till_receipt(receipt text, received_cents integer) returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if receipt is null or receipt !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  if received_cents is null or received_cents < 100 or received_cents % 100 <> 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
end
$$;

comment on function private.expect_till_receipt(text, integer) is 'Refuses what is no M-PESA receipt, or no amount of whole shillings in cents.';

create or replace function public.correct_till_payment(payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(correct_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := correct_till_payment.received_cents;
  charge integer;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  end if;
  if exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_decision'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or came = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  if code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code) then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.expect_free_receipt(code, true);
    -- M-PESA's amount counts.
    select * into told from public.mpesa_transactions as t where t.receipt = code;
    if told.received_cents >= 100 and told.received_cents % 100 = 0
      and (told.heard_by_confirmation_at is not null or told.heard_by_statement_at is not null)
    then
      came := told.received_cents;
    end if;
  end if;
  if (code, came) = (known.receipt, known.charge_cents) then
    return jsonb_build_object('outcome', 'unchanged', 'payment', to_jsonb(known));
  end if;

  update public.payments as p set receipt = code, charge_cents = came, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages about money follow its receipt; their bodies stay as they came.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', came, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_decision' and came = charge and known.charge_cents <> charge then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and came <> known.charge_cents then
    -- As when M-PESA reports less than staff typed: an order that has not left the shop needs review.
    update public.orders as o
    set payment_status = 'needs_decision', status = 'pending', updated_at = now()
    where o.id = paid_order.id;
    perform private.return_units(paid_order.id);
    delete from public.deliveries as d where d.order_id = paid_order.id;
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  -- Not sent yet and no longer true; what is sent again later is queued again.
  delete from public.outbox_messages as m
  where m.order_id = paid_order.id and m.status = 'waiting' and m.attempts = 0 and not private.is_message_true(m.order_id, m.kind);
  perform private.join_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  return jsonb_build_object('outcome', paid_order.payment_status);
end
$$;

comment on function public.correct_till_payment(uuid, text, integer, text, integer) is
  'For staff: corrects the receipt and the amount (in cents) of money that staff confirmed by hand, as long as M-PESA has not confirmed it and it is the only money of its order. Refuses when receipt or amount are not those that were seen. The order follows: paid when the amount is its charge, otherwise it needs a decision.';

grant execute on function public.correct_till_payment(uuid, text, integer, text, integer) to authenticated, service_role;

create or replace function private.take_receipt_away(payment_id uuid, failed boolean default false) returns uuid
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt public.payments;
  own_id uuid;
  told_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = take_receipt_away.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into told_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null,
      confirmed_by = case when told_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when take_receipt_away.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and other.status in ('initiating', 'processing')
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not take_receipt_away.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end,
      presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  values (attempt.order_id, '', attempt.charge_cents, 'unresolved', 'till', told_by_staff)
  returning id into own_id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed',
      result_code = '0',
      receipt = attempt.receipt,
      -- An attempt that stays completed stays what the order was paid with.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at,
      updated_at = now()
  where p.id = own_id;
  perform private.tidy_outcomes(attempt.id);
  perform private.tidy_outcomes(own_id);
  return own_id;
end
$$;

comment on function private.take_receipt_away(uuid, boolean) is
  'A presumption was wrong: the receipt becomes a payment of its own, and the attempt what it was before, or failed. The order must be locked. Returns the payment the receipt is now.';

create or replace function private.attempt_for(order_id uuid, receipt text, received_cents integer, transacted_at timestamptz) returns uuid
language sql stable
set search_path = ''
as $$
  select p.id
  from public.payments as p
  where p.order_id = attempt_for.order_id
    and p.method = 'prompt'
    and p.receipt is null
    and p.charge_cents = attempt_for.received_cents
    and p.status in ('initiating', 'processing', 'unresolved', 'review', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at < attempt_for.transacted_at + interval '15 minutes'
    -- An attempt whose callback named a receipt waits for that receipt.
    and not exists (
      select from public.mpesa_transactions as t where t.attempt_id = p.id and t.receipt <> attempt_for.receipt
    )
    -- A refund by hand from before the receipt was known is of this money.
    and (p.status = 'completed' or not private.is_being_refunded(p.id))
  order by p.status = 'completed' desc, p.created_at desc, p.id
  limit 1;
$$;

comment on function private.attempt_for(uuid, text, integer, timestamptz) is
  'The attempt of an order that money under its reference completes: it has no receipt yet, and was for the same amount.';

create or replace function private.orders_of_lost_receipts(receipt text) returns setof uuid
language sql stable
set search_path = ''
as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  join public.payments as p on p.charge_cents = t.received_cents and p.method = 'prompt' and p.receipt is null
    and p.status in ('initiating', 'processing', 'unresolved', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
  where t.receipt = orders_of_lost_receipts.receipt and t.payment_id is null;
$$;

comment on function private.orders_of_lost_receipts(text) is
  'The orders whose prompts lack a receipt and were for the same amount at the time of money that nobody knows: it may be theirs.';

create or replace function private.join_receipts(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  own record;
  attempt public.payments;
begin
  -- A payment of its own with a receipt from M-PESA, and an attempt without a receipt, count as the same until disproved.
  for own in
    select p.id, p.receipt, p.charge_cents, t.transacted_at
    from public.payments as p
    join public.mpesa_transactions as t on t.receipt = p.receipt
    where p.order_id = join_receipts.order_id and p.method = 'till' and p.status = 'completed'
      and (t.heard_by_confirmation_at is not null or t.heard_by_statement_at is not null)
      and not private.is_being_refunded(p.id)
    order by p.needs_refund, t.transacted_at, p.receipt
  loop
    select a.* into attempt from public.payments as a
    where a.id = private.attempt_for(join_receipts.order_id, own.receipt, own.charge_cents, own.transacted_at);
    continue when attempt.id is null;
    perform private.absorb(own.id, attempt.id);
    update public.payments as p
    set presumption = case when attempt.status = 'completed' then 'receipt' else 'attempt' end
    where p.id = attempt.id;
  end loop;
end
$$;

comment on function private.join_receipts(uuid) is
  'Joins receipts that M-PESA told of to attempts of the same order that were paid or may be, one to one. The order must be locked.';

create or replace function public.receive_mpesa_transaction(
  source text,
  receipt text,
  received_cents integer,
  reference text default '',
  transacted_at timestamptz default null,
  payer_phone text default null,
  payer_name text default null,
  body text default '',
  message_id bigint default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(trim(receive_mpesa_transaction.receipt));
  kept_id bigint := receive_mpesa_transaction.message_id;
  moment timestamptz := coalesce(receive_mpesa_transaction.transacted_at, now());
  for_order uuid;
  told public.mpesa_transactions;
  known public.payments;
  settled jsonb;
  outcome text;
  is_part boolean;
begin
  if receive_mpesa_transaction.source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is told of by a confirmation or the statement');
  end if;
  if coalesce(code, '') = '' or coalesce(receive_mpesa_transaction.received_cents, 0) <= 0 then
    if kept_id is null then
      insert into public.payment_messages (source, body) values (receive_mpesa_transaction.source, receive_mpesa_transaction.body)
      returning id into kept_id;
    end if;
    update public.payment_messages as m set outcome = 'unreadable' where m.id = kept_id;
    return jsonb_build_object('outcome', 'unreadable', 'receipt', code, 'payment', null);
  end if;

  -- The order is known only after reading, and must be locked first. What changes between reading and locking is read again.
  loop
    for_order := private.order_of_money(code, receive_mpesa_transaction.reference);
    begin
      -- Leaving this block releases the lock: no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_money(code, receive_mpesa_transaction.reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  insert into public.mpesa_transactions as t (
    receipt, received_cents, reference, payer_phone, payer_name, transacted_at, heard_by_confirmation_at, heard_by_statement_at, payment_id
  ) values (
    code, receive_mpesa_transaction.received_cents, coalesce(trim(receive_mpesa_transaction.reference), ''),
    nullif(trim(receive_mpesa_transaction.payer_phone), ''), nullif(trim(receive_mpesa_transaction.payer_name), ''), moment,
    case when receive_mpesa_transaction.source = 'confirmation' then now() end,
    case when receive_mpesa_transaction.source = 'statement' then now() end,
    (select p.id from public.payments as p where p.receipt = code)
  )
  on conflict (receipt) do update set
    -- A statement outranks a confirmation, and a confirmation outranks a callback, which may be forged.
    received_cents = case
      when receive_mpesa_transaction.source = 'statement' or t.heard_by_statement_at is null
        and t.heard_by_confirmation_at is null then excluded.received_cents
      else t.received_cents
    end,
    reference = case
      when t.reference = '' or t.heard_by_confirmation_at is null and t.heard_by_statement_at is null then excluded.reference
      else t.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    transacted_at = case
      when receive_mpesa_transaction.source = 'statement' or t.heard_by_statement_at is null
        and t.heard_by_confirmation_at is null then excluded.transacted_at
      else t.transacted_at
    end,
    heard_by_confirmation_at = coalesce(t.heard_by_confirmation_at, excluded.heard_by_confirmation_at),
    heard_by_statement_at = coalesce(t.heard_by_statement_at, excluded.heard_by_statement_at),
    updated_at = now()
  returning * into told;

  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    if kept_id is null then
      insert into public.payment_messages (payment_id, source, body, receipt, outcome)
      values (known.id, receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m
      set payment_id = known.id, receipt = code, outcome = 'already_completed' where m.id = kept_id;
    end if;
    if known.method = 'till' and known.charge_cents <> told.received_cents and told.received_cents >= 100 and told.received_cents % 100 = 0
      and not private.is_being_refunded(known.id)
      and (known.needs_refund or (select o.payment_status from public.orders as o where o.id = known.order_id) = 'needs_decision')
    then
      -- Staff typed another amount. Where nothing was decided with it yet, M-PESA''s amount counts.
      update public.payments as p set charge_cents = told.received_cents, updated_at = now() where p.id = known.id;
      if not known.needs_refund and told.received_cents = (
        select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = known.order_id
      ) then
        perform private.mark_order_paid(known.order_id);
      end if;
    elsif known.method = 'till' and told.received_cents < known.charge_cents and not known.needs_refund
      and not private.is_being_refunded(known.id)
    then
      -- Less came than staff typed: an order that has not left the shop needs review.
      update public.orders as o
      set payment_status = 'needs_decision', status = 'pending', updated_at = now()
      where o.id = known.order_id and o.payment_status = 'paid' and o.status in ('pending', 'processing');
      if found then
        perform private.return_units(known.order_id);
        delete from public.deliveries as d where d.order_id = known.order_id;
        if told.received_cents >= 100 and told.received_cents % 100 = 0 then
          update public.payments as p set charge_cents = told.received_cents, updated_at = now() where p.id = known.id;
        end if;
      end if;
    end if;
    perform private.join_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', to_jsonb(known));
  end if;

  -- A payment test that only a query completed has no receipt yet.
  if upper(trim(told.reference)) = 'TEST' then
    with lacking as (
      select t.id from public.payment_tests as t
      where t.status = 'completed' and t.receipt is null and t.charge_cents = told.received_cents
        and t.created_at between told.transacted_at - interval '15 minutes' and told.transacted_at + interval '15 minutes'
    )
    update public.payment_tests as t set receipt = code, updated_at = now()
    from lacking where t.id = lacking.id and (select count(*) from lacking) = 1;
  end if;

  -- Anyone can type the number of an order. Less than its charge never pays it: staff decide.
  is_part := told.received_cents < (select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or told.resolution is not null or told.received_cents < 100 or told.received_cents % 100 <> 0
    or exists (select from public.payment_tests as t where t.receipt = code)
  then
    outcome := 'unmatched';
    if kept_id is null then
      insert into public.payment_messages (source, body, receipt, outcome)
      values (receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m set receipt = code, outcome = 'unmatched' where m.id = kept_id;
    end if;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', null);
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, told.received_cents, told.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', told.received_cents, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id,
    source => receive_mpesa_transaction.source,
    body => receive_mpesa_transaction.body,
    verdict => 'succeeded',
    result_code => '0',
    received_cents => told.received_cents,
    receipt => code
  );
  -- It was stored before; now it belongs to its payment.
  if kept_id is not null then
    update public.payment_messages as m
    set source_address = kept.source_address, received_at = kept.received_at
    from public.payment_messages as kept
    where kept.id = kept_id and m.id = (select max(said.id) from public.payment_messages as said
      where said.payment_id = (settled -> 'payment' ->> 'id')::uuid and said.receipt = code and said.source = 'confirmation');
    delete from public.payment_messages as m where m.id = kept_id;
  end if;
  return settled || jsonb_build_object('receipt', code);
end
$$;

comment on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) is
  'Money that M-PESA tells of by a confirmation or its statement: each receipt once. Joined to the payment with this receipt, else to the order its reference names (an attempt without a receipt and of the same amount is completed by it, otherwise it is a payment of its own, and less than the charge waits for staff), else kept unmatched for staff. Repeatable, in any order with everything else.';

grant execute on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) to service_role;

create or replace function public.settle_payment_test(
  test_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  received_cents integer default null,
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
  test public.payment_tests;
  message_id bigint;
  outcome text;
begin
  if settle_payment_test.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the receipt before the test, in the same order as its confirmation.
  if settle_payment_test.receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settle_payment_test.receipt));
  end if;
  select * into test from public.payment_tests as t where t.id = settle_payment_test.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (test_id, source, source_address, body)
  values (test.id, settle_payment_test.source, settle_payment_test.source_address, settle_payment_test.body)
  returning id into message_id;
  outcome := case
    when settle_payment_test.checkout_request_id <> test.checkout_request_id then 'other_request'
    when settle_payment_test.verdict = 'pending' then 'pending'
    when settle_payment_test.verdict = 'failed' then
      case when test.status in ('completed', 'failed', 'review') then 'superseded' else 'failed' end
    when test.status = 'completed' and test.receipt is not null then 'already_completed'
    when settle_payment_test.received_cents <> test.charge_cents
      or (settle_payment_test.received_cents is null and settle_payment_test.source = 'notice') then
      case when test.status = 'completed' then 'superseded' else 'wrong_amount' end
    when exists (select from public.payments as p where p.receipt = settle_payment_test.receipt)
      or exists (select from public.payment_tests as t where t.receipt = settle_payment_test.receipt and t.id <> test.id)
      then 'receipt_replayed'
    when test.status = 'review' and settle_payment_test.received_cents is null then 'needs_review'
    else 'completed'
  end;
  if outcome in ('completed', 'failed', 'wrong_amount') then
    update public.payment_tests as t
    set status = case outcome when 'wrong_amount' then 'review' else outcome end,
        result_code = settle_payment_test.result_code,
        result_description = settle_payment_test.result_description,
        receipt = case outcome when 'completed' then coalesce(t.receipt, settle_payment_test.receipt) else t.receipt end,
        merchant_request_id = coalesce(t.merchant_request_id, settle_payment_test.merchant_request_id),
        checkout_request_id = coalesce(t.checkout_request_id, settle_payment_test.checkout_request_id),
        completed_at = case outcome when 'completed' then coalesce(t.completed_at, now()) else t.completed_at end,
        next_query_at = null,
        updated_at = now()
    where t.id = test.id
    returning * into test;
  end if;
  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'test', to_jsonb(test));
end
$$;

comment on function public.settle_payment_test(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a test ends: by the rules of settle_payment, without an order.';

grant execute on function public.settle_payment_test(uuid, text, text, text, text, text, integer, text, text, text, text) to service_role;

-- Staff noted at the order that its money was sent back: its payments follow.
create or replace function private.record_refund_of_order(new public.orders) returns void
language plpgsql
set search_path = ''
as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, p.charge_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.charge_cents, 'Noted with the order', 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member), now()
  from sent_back as s;
end
$$;

create or replace function private.open_refund(
  payment_id uuid, test_id uuid, receipt text, refund_cents integer, reason text, member uuid
) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  opened public.refunds;
  must_wait boolean := open_refund.refund_cents > private.refund_limit();
  member_email text := (select u.email from auth.users as u where u.id = open_refund.member);
begin
  if char_length(trim(coalesce(open_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, test_id, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    open_refund.payment_id, open_refund.test_id, open_refund.receipt, open_refund.refund_cents, trim(open_refund.reason), 'reversal',
    case when must_wait then 'requested' else 'approved' end, must_wait, open_refund.member, member_email
  )
  returning * into opened;
  return opened;
end
$$;

-- Staff may have typed the amount: no more is refunded than M-PESA has reported under the same receipt.
create or replace function public.request_refund(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  paid public.payments := private.refundable_payment(request_refund.payment_id);
  told integer;
begin
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  select t.received_cents into told from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if told < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA told of less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund(uuid, text) is
  'A member of staff asks to send a payment''s money back by M-PESA, all of it. Up to store_settings.refund_approval_above it is sent next; above, it waits for another member.';

grant execute on function public.request_refund(uuid, text) to authenticated;

create or replace function public.request_test_refund(test_id uuid) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  test public.payment_tests;
begin
  select * into test from public.payment_tests as t where t.id = request_test_refund.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if test.refunded_at is not null or exists (
    select from public.refunds as r where (r.test_id = test.id or r.receipt = test.receipt) and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if test.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if test.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  return private.open_refund(null, test.id, test.receipt, test.charge_cents, 'Test with KSh 1', member);
end
$$;

comment on function public.request_test_refund(uuid) is 'A staff member requests the refund of a payment test.';

grant execute on function public.request_test_refund(uuid) to authenticated;

create or replace function private.open_transaction_refund(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql
set search_path = ''
as $$
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
    or exists (select from public.payment_tests as t where t.receipt = code)
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

create or replace function public.request_transaction_refund(receipt text, reason text, is_sure boolean default false) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  told public.mpesa_transactions := private.open_transaction_refund(
    request_transaction_refund.receipt, request_transaction_refund.is_sure
  );
  asked public.refunds;
  must_wait boolean := told.received_cents > private.refund_limit();
begin
  if char_length(trim(coalesce(request_transaction_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    told.receipt, told.receipt, told.received_cents, trim(request_transaction_refund.reason), 'reversal',
    case when must_wait then 'requested' else 'approved' end, must_wait, member,
    (select u.email from auth.users as u where u.id = member)
  )
  returning * into asked;
  perform private.keep_refund_decision(told.receipt, asked.reason, member);
  return asked;
end
$$;

comment on function public.request_transaction_refund(text, text, boolean) is
  'A member of staff asks to send money back that is no order''s, by its receipt; by the rules of request_refund. What may be an order''s, whose prompt lost its receipt, only when is_sure.';

grant execute on function public.request_transaction_refund(text, text, boolean) to authenticated;

create or replace function public.note_transaction_refund_by_hand(
  receipt text, refund_receipt text, reason text, is_sure boolean default false
) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
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
  if char_length(trim(coalesce(note_transaction_refund_by_hand.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    transaction_receipt, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, refund_receipt, completed_at
  ) values (
    told.receipt, told.receipt, told.received_cents, trim(note_transaction_refund_by_hand.reason), 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member),
    private.checked_refund_receipt(note_transaction_refund_by_hand.refund_receipt), now()
  )
  returning * into noted;
  perform private.keep_refund_decision(told.receipt, format('By hand, receipt %s: %s', noted.refund_receipt, noted.reason), member);
  return noted;
end
$$;

comment on function public.note_transaction_refund_by_hand(text, text, text, boolean) is
  'A member of staff notes that money which is no order''s was sent back outside the shop. Repeatable by receipt.';

grant execute on function public.note_transaction_refund_by_hand(text, text, text, boolean) to authenticated;

create or replace function public.note_refund_by_hand(payment_id uuid, refund_receipt text, reason text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  paid public.payments;
  noted public.refunds;
  code text;
begin
  select r.* into noted from public.refunds as r
  where r.payment_id = note_refund_by_hand.payment_id and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return noted;
  end if;
  paid := private.refundable_payment(note_refund_by_hand.payment_id);
  if char_length(trim(coalesce(note_refund_by_hand.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  code := private.checked_refund_receipt(note_refund_by_hand.refund_receipt);
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, refund_receipt, completed_at
  ) values (
    paid.id, paid.receipt, paid.charge_cents, trim(note_refund_by_hand.reason), 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member), code, now()
  )
  returning * into noted;
  return private.complete_refund(noted.id, code);
end
$$;

comment on function public.note_refund_by_hand(uuid, text, text) is
  'A member of staff notes that a payment''s money was sent back outside the shop, with M-PESA''s receipt of that. Repeatable by receipt.';

grant execute on function public.note_refund_by_hand(uuid, text, text) to authenticated;

create or replace function public.lease_refunds(at_most integer default 1) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  leased public.refunds;
  too_much record;
  left_over integer := lease_refunds.at_most;
  secret text;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- Requested with the amount that staff typed, and then M-PESA reported less: no more is refunded than came. First, since it locks
  -- more than the refund.
  for too_much in
    select r.id, told.received_cents
    from public.refunds as r
    join public.mpesa_transactions as told on told.receipt = r.receipt and told.received_cents < r.refund_cents
    where r.status in ('requested', 'approved')
    order by r.id
  loop
    perform private.locked_refund(too_much.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA told of %s cents under this receipt, %s were to go back', too_much.received_cents, r.refund_cents)
    where r.id = too_much.id and r.status in ('requested', 'approved') and too_much.received_cents < r.refund_cents;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: tried again at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - least(interval '15 seconds' * power(2, least(r.tries, 10)), interval '10 minutes'))
    order by r.created_at limit left_over for update skip locked
  loop
    left_over := left_over - 1;
    insert into private.refund_secrets (refund_id, notice_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.notice_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    return next jsonb_build_object('work', 'send', 'refund', to_jsonb(leased), 'secret', secret);
  end loop;

  for leased in
    select * from public.refunds as r
    where (r.status in ('sent', 'unknown') and r.next_check_at <= now())
      -- The process that sent it never reported M-PESA''s response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit left_over for update skip locked
  loop
    -- One update only: of a row that one transaction changes twice PostgreSQL checks the references, which waits for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it asked M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- The exponent is kept small: a long wait would be no interval any more.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    return next jsonb_build_object(
      'work', 'ask', 'refund', to_jsonb(leased),
      'secret', (select s.notice_secret from private.refund_secrets as s where s.refund_id = leased.id)
    );
  end loop;
end
$$;

comment on function public.lease_refunds(integer) is
  'Refunds to send now, each only ever once (work = send), and refunds to ask M-PESA about, at growing intervals (work = ask); each with the secret of its addresses.';

grant execute on function public.lease_refunds(integer) to service_role;

-- A refund that is completed already learns its receipt only from a result about the same amount.
-- That a payment still stands is no proof that its reversal, once taken, was not carried out: only where the request itself was
-- lost it means that nothing was sent. And an answer that names money that came in tells nothing of its way back.
create or replace function public.settle_reversal(
  refund_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  refund_receipt text default null,
  refund_cents integer default null,
  originator_conversation_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  settled public.refunds;
  message_id bigint;
  outcome text;
  code text := nullif(settle_reversal.refund_receipt, '');
begin
  if settle_reversal.verdict not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.locked_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into message_id;
  if code is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || code));
    if exists (select from public.refunds as r where r.refund_receipt = code and r.id <> settled.id) then
      outcome := 'receipt_replayed';
    elsif settle_reversal.verdict = 'succeeded' and (
      code = settled.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.payment_tests as t where t.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then
      outcome := 'receipt_of_payment';
    -- A result of a reversal names the amount; a status without one may be of something else.
    elsif settle_reversal.verdict = 'succeeded' and settle_reversal.source = 'status_result'
      and settle_reversal.refund_cents is distinct from settled.refund_cents then
      outcome := 'pending';
    end if;
  end if;

  if outcome is not null then
    null;
  elsif settle_reversal.originator_conversation_id <> settled.originator_conversation_id then
    outcome := 'other_request';
  elsif settle_reversal.verdict = 'pending' then
    outcome := 'pending';
  elsif settle_reversal.verdict = 'succeeded' then
    if settled.status = 'completed' then
      outcome := 'already_completed';
      -- A result with another amount does not have this refund''s receipt.
      if settled.refund_receipt is null and code is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, code);
      end if;
    elsif settled.tries = 0 then
      -- Nothing was sent yet: this result cannot be about the refund.
      outcome := 'not_sent';
    elsif settle_reversal.refund_cents <> settled.refund_cents then
      outcome := 'wrong_amount';
      update public.refunds as r
      set status = case when r.status in ('sending', 'sent', 'unknown') then 'unknown' else r.status end,
          result_code = settle_reversal.result_code,
          result_description = format('M-PESA reported %s cents, %s were to go back', settle_reversal.refund_cents, r.refund_cents),
          next_check_at = null, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      -- Supersedes a failure as well: the money has gone back. A second refund of the same money, begun after that
      -- failure, has lost its reason.
      update public.refunds as r
      set status = 'withdrawn', updated_at = now()
      where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
      if exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status = 'completed'
          and (r.method = 'by_hand' or r.refund_receipt <> code)
      ) then
        outcome := 'sent_twice';
        if settled.sent_twice_at is null then
          update public.refunds as r
          set sent_twice_at = now(), refund_receipt = coalesce(r.refund_receipt, code),
              result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
              next_check_at = null, updated_at = now()
          where r.id = settled.id
          returning * into settled;
          if settled.payment_id is not null then
            perform private.record_order_event(
              (select p.order_id from public.payments as p where p.id = settled.payment_id), 'refund_sent_twice', 'mpesa',
              jsonb_build_object('refund_id', settled.id, 'refund_cents', settled.refund_cents, 'receipt', settled.refund_receipt)
            );
          end if;
        end if;
      elsif exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status not in ('failed', 'withdrawn')
      ) then
        outcome := 'sent_by_another';
      else
        outcome := 'completed';
        update public.refunds as r
        set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
        where r.id = settled.id;
        settled := private.complete_refund(settled.id, code);
      end if;
    end if;
  elsif settled.status not in ('sending', 'sent', 'unknown') then
    outcome := 'superseded';
  elsif settle_reversal.verdict = 'already_reversed' then
    outcome := 'already_reversed';
    update public.refunds as r
    set status = 'unknown', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = now(), updated_at = now()
    where r.id = settled.id
    returning * into settled;
  elsif settle_reversal.verdict = 'not_reversed' and (
    -- M-PESA may not have processed it yet; it may have carried out what it accepted, whatever status the payment has since; and after
    -- the report that it is reversed already, no other status counts.
    settled.sent_at > now() - interval '10 minutes' or settled.originator_conversation_id is not null
    or settled.result_code is not distinct from 'R000001'
  ) then
    outcome := 'pending';
  else
    outcome := 'failed';
    update public.refunds as r
    set status = 'failed', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = null, updated_at = now()
    where r.id = settled.id
    returning * into settled;
  end if;
  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'refund', to_jsonb(settled));
end
$$;

comment on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) is
  'The one way a refund by M-PESA ends. Keeps the message, is repeatable, lets a success supersede a failure and never the reverse, and writes refund, payment and order in the same transaction.';

grant execute on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) to service_role;

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  seen public.refunds := private.locked_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if char_length(trim(coalesce(acknowledge_sent_twice.note, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member,
      sent_twice_seen_by_email = (select u.email from auth.users as u where u.id = member),
      sent_twice_note = trim(acknowledge_sent_twice.note), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;

comment on function public.acknowledge_sent_twice(uuid, text) is
  'A member of staff has dealt with money that went back twice, and says how. It is shown with the refund, and waits for nobody any more.';

grant execute on function public.acknowledge_sent_twice(uuid, text) to authenticated;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz)
returns table (
  id text,
  happened_at timestamptz,
  kind text,
  is_open boolean,
  receipt text,
  our_cents integer,
  their_cents integer,
  payment_id uuid,
  payment_status text,
  method text,
  needs_refund boolean,
  refunded_at timestamptz,
  refund_status text,
  order_id uuid,
  order_number text,
  tracking_number text,
  customer_name text,
  charge_cents integer,
  order_payment_status text,
  reference text,
  payer_name text,
  payer_phone text,
  heard_by_confirmation_at timestamptz,
  heard_by_statement_at timestamptz,
  resolution text
)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with theirs as (
    select t.receipt, t.received_cents, t.reference, t.payer_name, t.payer_phone, t.transacted_at, t.payment_id, t.attempt_id, t.order_id,
      t.heard_by_confirmation_at, t.heard_by_statement_at, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payment_tests as k where k.receipt = t.receipt)
  ),
  ours as (
    select p.id
    from public.payments as p
    where p.status = 'completed'
      and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
    union all
    select p.id
    from public.payments as p
    where (p.status = 'review' or (p.status = 'failed' and exists (
        -- Looked at, and ended by that.
        select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted'
      )))
      and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
  ),
  beside as (
    select t.receipt as told, t.received_cents as came, t.reference, t.payer_name, t.payer_phone, t.transacted_at,
      t.heard_by_confirmation_at, t.heard_by_statement_at, t.resolution, t.attempt_id, t.order_id as named, t.payment_id as money
    from theirs as t
    union all
    select null, null, null, null, null, null, null, null, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = o.id order by e.id desc limit 1
    ), null, null, o.id
    from ours as o
  ),
  known as (
    select b.*, p.id as p_id, p.receipt as p_receipt, p.charge_cents as p_charge, p.status as p_status, p.method as p_method,
      p.needs_refund as p_needs_refund, p.refunded_at as p_refunded_at, p.completed_at as p_completed_at,
      p.created_at as p_created_at, p.updated_at as p_updated_at,
      o.id as o_id, o.order_number as o_number, o.tracking_number as o_tracking, o.customer_name as o_customer,
      (o.total_amount + 99) / 100 * 100 as o_charge, o.payment_status as o_payment_status,
      (
        select r.status from public.refunds as r
        where r.payment_id = p.id or r.receipt = coalesce(b.told, p.receipt)
        order by r.status in ('failed', 'withdrawn'), r.created_at desc
        limit 1
      ) as r_status
    from beside as b
    -- The attempt whose callback named a wrong amount is listed beside it.
    left join public.payments as p on p.id = coalesce(b.money, b.attempt_id)
    -- Less than the charge is listed beside the order that its reference names.
    left join public.orders as o on o.id = coalesce(p.order_id, b.named)
  ),
  judged as (
    select k.*,
      case
        when k.told is not null and k.money is null then case when k.attempt_id is null and k.named is null then 'missing_here' else 'wrong_amount' end
        when k.p_status in ('review', 'failed') then 'wrong_amount'
        when k.p_needs_refund then 'double'
        when k.came <> k.p_charge or k.p_charge <> k.o_charge then 'wrong_amount'
        when k.told is not null then 'matched'
        when coverage @> tstzrange(k.p_created_at, k.p_completed_at + interval '10 minutes') then 'missing_there'
        else 'not_compared'
      end as verdict,
      coalesce(k.r_status, 'failed') not in ('failed', 'withdrawn') as is_refunding
    from known as k
  )
  select
    coalesce(j.told, j.p_id::text),
    coalesce(j.transacted_at, j.p_completed_at, j.p_updated_at),
    j.verdict,
    case
      when j.verdict in ('matched', 'not_compared') or j.is_refunding or j.resolution in ('accepted', 'not_an_order') then false
      when j.verdict = 'double' then j.p_refunded_at is null
      when j.verdict = 'wrong_amount' and j.money is not null and j.p_status = 'completed'
        then j.came <> j.p_charge or j.o_payment_status = 'needs_decision'
      else true
    end,
    coalesce(j.told, j.p_receipt),
    case when j.p_status in ('completed', 'review') then j.p_charge end,
    j.came,
    j.p_id,
    j.p_status,
    j.p_method,
    coalesce(j.p_needs_refund, false),
    j.p_refunded_at,
    j.r_status,
    j.o_id,
    j.o_number,
    j.o_tracking,
    j.o_customer,
    j.o_charge,
    j.o_payment_status,
    j.reference,
    j.payer_name,
    j.payer_phone,
    j.heard_by_confirmation_at,
    j.heard_by_statement_at,
    j.resolution
  from judged as j;
end
$$;

comment on function private.reconciliation_rows(timestamptz, timestamptz) is
  'Our payments and M-PESA''s of a stretch of time, joined by receipt. kind: matched, missing_here (M-PESA has it, no payment is it), missing_there (the statement covers it and lacks it), not_compared (no statement covers it yet), double, wrong_amount.';

create or replace function public.reconciliation_days(since date, until date) returns table (
  day date,
  ours bigint,
  theirs bigint,
  payments bigint,
  matched bigint,
  missing_here bigint,
  missing_there bigint,
  not_compared bigint,
  doubles bigint,
  wrong_amounts bigint,
  open bigint
)
language plpgsql stable security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  if reconciliation_days.until - reconciliation_days.since not between 0 and 366 then
    perform private.refuse(400, 'range_invalid', 'A range has up to 366 days');
  end if;
  return query
  select
    d.day::date,
    coalesce(sum(r.our_cents) filter (where r.payment_status = 'completed'), 0),
    coalesce(sum(r.their_cents), 0),
    count(r.id),
    count(*) filter (where r.kind = 'matched'),
    count(*) filter (where r.kind = 'missing_here'),
    count(*) filter (where r.kind = 'missing_there'),
    count(*) filter (where r.kind = 'not_compared'),
    count(*) filter (where r.kind = 'double'),
    count(*) filter (where r.kind = 'wrong_amount'),
    count(*) filter (where r.is_open)
  from generate_series(reconciliation_days.since::timestamp, reconciliation_days.until::timestamp, interval '1 day') as d (day)
  left join private.reconciliation_rows(
    reconciliation_days.since::timestamp at time zone 'Africa/Nairobi',
    (reconciliation_days.until + 1)::timestamp at time zone 'Africa/Nairobi'
  ) as r on (r.happened_at at time zone 'Africa/Nairobi')::date = d.day::date
  group by d.day
  order by d.day desc;
end
$$;

comment on function public.reconciliation_days(date, date) is
  'For staff: the days of a range in Nairobi, newest first, with the sums of both books in cents and how many differences of each kind there are and are open.';

grant execute on function public.reconciliation_days(date, date) to authenticated, service_role;

create or replace function public.suggest_orders(receipt text) returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  told public.mpesa_transactions;
begin
  perform private.expect_staff();
  select * into told from public.mpesa_transactions as t where t.receipt = suggest_orders.receipt;
  return coalesce((
    select jsonb_agg(to_jsonb(o)) from (
      select o.id, o.order_number, o.tracking_number, o.customer_name, o.total_amount, o.payment_status, o.status, o.created_at,
        o.id in (select private.orders_of_lost_receipts(told.receipt)) as lacks_receipt
      from public.orders as o
      where o.created_at between told.transacted_at - interval '3 days' and told.transacted_at + interval '1 hour'
        and (
          (o.payment_status = 'unpaid' and (o.total_amount + 99) / 100 * 100 = told.received_cents)
          or o.id = private.order_of_reference(told.reference)
          or o.id = (select p.order_id from public.payments as p where p.id = told.attempt_id)
          -- Possibly paid by this money, whose receipt was lost.
          or o.id in (select private.orders_of_lost_receipts(told.receipt))
        )
      order by o.id in (select private.orders_of_lost_receipts(told.receipt)) desc, o.id is not distinct from private.order_of_reference(told.reference) desc, o.created_at desc
      limit 5
    ) as o
  ), '[]');
end
$$;

comment on function public.suggest_orders(text) is
  'For staff: the orders that money may be for: those whose prompts of this amount and time lack a receipt (lacks_receipt) first, then unpaid ones of the same amount, placed in the days before.';

grant execute on function public.suggest_orders(text) to authenticated, service_role;

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

  -- Lock the order, then the receipt, then read. Whose the receipt is by then is checked again: no transaction waits for an order while
  -- it holds a receipt.
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
      -- With the same reference as before: another one might name another order.
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
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if told.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if happened = 'given' then
    if told.receipt is null or told.payment_id is not null or told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if told.received_cents < 100 or told.received_cents % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if exists (select from public.payment_tests as t where t.receipt = told.receipt) then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', told.received_cents, 'unresolved', 'till', member)
    returning * into money;
    answer := public.settle_payment(
      payment_id => money.id,
      source => 'till',
      body => jsonb_build_object('receipt', told.receipt, 'received_cents', told.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      verdict => 'succeeded',
      received_cents => told.received_cents,
      receipt => told.receipt
    );
    money.id := (answer -> 'payment' ->> 'id')::uuid;
    if answer -> 'payment' ->> 'method' = 'prompt' and not (answer -> 'payment' ->> 'needs_refund')::boolean then
      answer := answer || '{"outcome": "joined"}';
    end if;
  elsif happened = 'refund' and money.id is not null then
    -- The rules of refunds decide what may be refunded, and who must approve.
    answer := to_jsonb(public.request_refund(money.id, coalesce(reason, 'Paid twice')));
  elsif happened = 'refund' then
    if told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    if told.received_cents < 100 or told.received_cents % 100 <> 0 then
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
      transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email
    )
    select told.receipt, told.receipt, told.received_cents, coalesce(reason, 'Not for any order'), 'reversal',
      case when told.received_cents > private.refund_limit() then 'requested' else 'approved' end,
      told.received_cents > private.refund_limit(), member, member_email;
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
  -- A refund of a payment records its own event.
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

comment on function public.resolve_difference(text, text, uuid, uuid, text, boolean) is
  'What staff decide about a difference of the reconciliation, named by its receipt or its payment: give it to an order (settled like every payment), not_an_order, refund (queued, by the rules of refunds; money that may be an order''s only when is_sure), accept, reopen. Kept in reconciliation_events.';

grant execute on function public.resolve_difference(text, text, uuid, uuid, text, boolean) to authenticated, service_role;

create or replace function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'charge_cents', new.charge_cents,
    'method', case when new.method <> 'prompt' then new.method end
  );
  answer jsonb := jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- It is settled in the same transaction, and recorded then.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(new.order_id, 'payment_prompted', 'customer', payment);
    if new.status in ('initiating', 'processing') then
      return;
    end if;
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', payment || answer);
    end if;
    return;
  end if;
  if new.status = 'completed' then
    perform private.record_order_event(new.order_id, 'payment_completed', 'mpesa',
      payment || answer || case when new.needs_refund then '{"needs_refund": true}' else '{}' end::jsonb);
  elsif new.status = 'failed' then
    perform private.record_order_event(new.order_id, 'payment_failed', 'mpesa', payment || answer);
  elsif new.status = 'review' then
    perform private.record_order_event(new.order_id, 'payment_in_review', 'mpesa', payment || answer);
  elsif new.status = 'unresolved' then
    perform private.record_order_event(new.order_id, 'payment_unresolved', 'shop', payment || answer);
  end if;
end
$$;

-- Records approvals, not every attempt to send.
create or replace function private.record_refund_events(old public.refunds, new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (old.id is not null and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order's own event reports the refund; without a receipt there is nothing to add.
    or (old.id is null and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return;
  end if;
  perform private.record_order_event(
    refunded_order,
    'refund_' || case when old.id is null and new.status <> 'completed' then 'requested' else new.status end,
    case when new.status in ('completed', 'failed') then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'refund_cents', new.refund_cents, 'method', new.method,
      'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end,
      'result_code', case when new.status in ('failed', 'unknown') then new.result_code end,
      'result_description', case when new.status in ('failed', 'unknown') then new.result_description end
    )
  );
end
$$;

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, occasion text) returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.occasion);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', coalesce((
      select jsonb_agg(
        jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = o.id
    ), '[]'::jsonb),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        -- Of a refund, if there is one.
        'refund_receipt', to_jsonb(p) ->> 'refund_receipt'
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.occasion = '' then not p.needs_refund
          -- A payment that was entered twice becomes one; its refund stays.
          else exists (select from public.refunds as r where r.id::text = message_facts.occasion and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts(uuid, text, text) is
  'Values of the placeholders of a message. Of an order: payment is the one that paid it, or the one whose refund the occasion names. Of a newsletter mail: the shop and the subscription.';

create or replace function private.describe_payment(payment_id uuid) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return (
    select jsonb_build_object(
      'phone', p.phone, 'charge_cents', p.charge_cents, 'status', p.status, 'method', p.method, 'receipt', p.receipt,
      'created_at', p.created_at, 'completed_at', p.completed_at, 'refunded_at', p.refunded_at,
      'refund_receipt', p.refund_receipt,
      'payer_name', (select t.payer_name from public.mpesa_transactions as t where t.receipt = p.receipt),
      'mpesa_messages', coalesce((
        select jsonb_agg(jsonb_build_object('received_at', m.received_at, 'source', m.source, 'body', m.body) order by m.id)
        from public.payment_messages as m where m.payment_id = p.id and m.body <> '{}'
      ), '[]'::jsonb)
    )
    from public.payments as p
    where p.id = describe_payment.payment_id
  );
end
$$;

create or replace function public.dashboard_figures() returns table (
  products bigint,
  orders bigint,
  inquiries bigint,
  revenue bigint,
  received bigint,
  received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  now_in_nairobi timestamp := now() at time zone 'Africa/Nairobi';
  today timestamptz := date_trunc('day', now_in_nairobi) at time zone 'Africa/Nairobi';
  monday timestamptz := date_trunc('week', now_in_nairobi) at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return query
  with money (cents, moved_at) as (
    select p.charge_cents, p.completed_at from public.payments as p where p.status = 'completed'
    union all
    select -r.refund_cents, r.completed_at from public.refunds as r where r.status = 'completed' and r.payment_id is not null
  )
  select
    (select count(*) from public.products as p where p.is_active),
    o.count,
    (select count(*) from public.inquiries),
    o.revenue,
    m.in_all,
    m.this_week,
    m.today
  from (
    select count(*), coalesce(sum(total_amount), 0)::bigint as revenue from public.orders
  ) as o
  cross join (
    select
      coalesce(sum(cents), 0)::bigint as in_all,
      coalesce(sum(cents) filter (where moved_at >= monday), 0)::bigint as this_week,
      coalesce(sum(cents) filter (where moved_at >= today), 0)::bigint as today
    from money
  ) as m;
end
$$;

comment on function public.dashboard_figures() is
  'Active products, orders, inquiries, and money in cents: revenue is the total of all orders, paid or not (specification §7); received is what arrived for orders less what was sent back, by the time it moved; days are those of Nairobi, weeks begin on Monday. For staff.';

grant execute on function public.dashboard_figures() to authenticated;

-- Background jobs of the payment function: which process calls it, and when.

create or replace function private.is_payment_job_due(action text) returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  -- The same conditions as in the functions that hand the work out (lease_payment_queries and the others).
  return case is_payment_job_due.action
    when 'query-open' then exists (
      select from public.payments as p
      where p.status in ('initiating', 'processing')
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (r.status in ('sent', 'unknown') and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where r.status in ('requested', 'approved')
    ) or exists (
      select from public.payment_tests as t
      where t.status in ('initiating', 'processing')
        and (t.next_query_at <= now() or t.created_at < now()
          - case when t.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
    ) or exists (
      select from public.payment_messages as m
      where m.outcome = 'fault' and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    else false
  end;
end
$$;

comment on function private.is_payment_job_due(text) is
  'Whether the payment function would find work for this action now.';
