-- Paying needs the order's id together with its tracking number, and attempts count per network, so that no one can use up the
-- attempts of another.

insert into private.limits (name, allowed, within) values
  ('payment_prompts', 100, '10 minutes'),
  ('payment_prompts_of_order', 10, '10 minutes'),
  ('payment_prompts_to_phone', 10, '10 minutes'),
  ('unknown_payments', 60, '10 minutes');

drop function public.begin_payment(uuid, text, text, integer);
create function public.begin_payment(
  order_id uuid,
  tracking_number text,
  phone text,
  notice_secret text,
  expected_amount integer default null
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
    -- Money that does not pay the order is no answer to who wants to pay it.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_decision' and p.amount = (paid_order.total_amount + 99) / 100 * 100)
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
  if begin_payment.expected_amount is not null and begin_payment.expected_amount not in (paid_order.total_amount, charge) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- An order may be tried with many phones, so whoever has one could have the phones of many strangers ring.
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

  -- What is refused from here on stays counted.
  begin
    insert into public.payments (order_id, phone, amount, next_query_at)
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

create or replace function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- M-PESA's ids are made of the time and the phone, so they could be guessed.
  if not private.is_within_limit('unknown_payments') then
    return private.refusal_answer('PT429', 'Too many unknown payments. Please try again in a few minutes',
      'too_many_lookups', '');
  end if;
  -- The customer's device knows an attempt by M-PESA's id, or by ours when the answer with that id was lost.
  select to_jsonb(p) || case
    -- Money that came and goes back again has not paid: a person tells the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  if found_payment is null then
    perform private.count_call('unknown_payments');
  end if;
  return found_payment;
end
$$;
comment on function public.find_payment(text) is
  'An attempt by M-PESA''s checkout request id or by its own id, for who polls its status; null when there is none. Unknown references count for the networks of the caller.';
