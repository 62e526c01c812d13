-- Abuse by many networks: right payment ids are never refused, one phone is prompted less, abandoned orders shrink to their row.

comment on column public.order_events.order_id is 'The order. Its events go when it is deleted, or reduced to its row.';

create index orders_to_reduce on public.orders (created_at)
  where status = 'cancelled' and payment_status = 'unpaid' and anonymised_at is null;

create or replace function private.reduce_abandoned_orders() returns void
language plpgsql set search_path = '' set enable_seqscan = off as $$
#variable_conflict use_column
declare
  -- A flood of orders fills no disk: beyond these, details are kept for a day only.
  kept_in_full constant integer := 5000;
  kept_since timestamptz := greatest(now() - interval '30 days', (
    select least(o.created_at, now() - interval '1 day') from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
    order by o.created_at desc offset kept_in_full limit 1
  ));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
      and o.created_at <= kept_since
      and o.reserved_until is null
      and not exists (select from public.payments as p where p.order_id = o.id)
      and not exists (select from public.mpesa_transactions as t where t.order_id = o.id)
      and not exists (select from public.deliveries as d where d.order_id = o.id)
      and private.reason_to_keep(o.id) is null
    order by o.created_at limit 2000
    for update skip locked
  );
begin
  delete from private.order_keys as k where k.order_id = any (due);
  delete from public.order_items as i where i.order_id = any (due);
  perform private.anonymise_orders(due);
  delete from public.order_events as e where e.order_id = any (due);
end
$$;

comment on function private.reduce_abandoned_orders is
  'Leaves only the row of orders that were cancelled without ever having a payment: numbers, total, status and times, which reports count. After 30 days, or after a day for those beyond the newest 5,000.';

-- What a phone was asked to pay, also without an order of its own.
create index payments_of_a_phone on public.payments (phone, created_at desc);

create or replace function private.may_ring(payer text, paid_order public.orders) returns boolean
language plpgsql volatile set search_path = '' set enable_seqscan = off as $$
#variable_conflict use_column
declare
  unanswered constant integer := 20;
begin
  -- Concurrent prompts to one phone are counted one after another.
  perform pg_advisory_xact_lock(hashtextextended('prompts to ' || may_ring.payer, 0));
  if (
    select count(*) from (
      select from public.payments as p
      where p.phone = may_ring.payer and p.created_at > now() - interval '1 day'
        -- A prompt that M-PESA refused at once has reached no phone.
        and (p.status in ('initiating', 'processing', 'unresolved') or (p.status = 'failed' and p.checkout_request_id is not null))
      limit unanswered
    ) as prompts
  ) < unanswered then
    return true;
  end if;
  if (may_ring.paid_order).customer_phone <> may_ring.payer then
    return false;
  end if;
  -- A stranger may order in the name of this phone, but does not know the email address of its earlier orders.
  return exists (
    select from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.phone = may_ring.payer and p.status = 'completed'
      and o.customer_phone = may_ring.payer and lower(o.customer_email) = lower((may_ring.paid_order).customer_email)
  ) or private.count_call('prompts_beyond_unanswered', may_ring.payer);
end
$$;

comment on function private.may_ring is
  'Whether a phone may be prompted once more. After 20 prompts within a day that were not paid, only for its own orders: as often as its earlier limits allow where it has paid an order with the same email address, otherwise twice a day per network.';

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, notice_secret text, expected_cents integer default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
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
  if not private.may_ring(payer, paid_order) then
    return private.refusal_answer('PT429',
      'This phone had many payment prompts today that nobody paid. Please pay from another phone, or contact us',
      'too_many_unanswered_prompts', '');
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

comment on function public.begin_payment is
  'Opens an attempt to collect an order''s money, or returns the one that is open or has succeeded. The id and the tracking number must belong to one order. Only when is_new may a prompt be sent.';

-- Who may call these functions
grant execute on function public.begin_payment, public.begin_payment_test to service_role;

create or replace function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- The customer's device knows an attempt by M-PESA's id, or by ours when the answer with that id was lost.
  select to_jsonb(p) || case
    -- Money that is being refunded has not paid: staff contact the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  -- M-PESA's ids consist of the time and the phone, so they can be guessed. Wrong guesses never hide a payment from its customer.
  if found_payment is null and not private.count_call('unknown_payments') then
    return private.refusal_answer('PT429', 'Too many unknown payments. Please try again in a few minutes',
      'too_many_lookups', '');
  end if;
  return found_payment;
end
$$;

comment on function public.find_payment is
  'An attempt by M-PESA''s checkout request id or by its own id, for clients that poll its status; null when there is none. Only unknown references count for the networks of the caller, and only they are refused.';

-- Who may call these functions
grant execute on function public.record_push, public.find_payment, public.find_payment_by_secret,
  public.lease_payment_queries
  to service_role;

create or replace function private.keep_order_events() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' and not exists (
    select from public.orders as o
    where o.id = old.order_id and not (o.anonymised_at is not null and o.status = 'cancelled' and o.payment_status = 'unpaid')
  ) then
    return old;
  end if;
  -- Only the phone of a payment may be removed.
  if tg_op = 'UPDATE' and old.kind like 'payment\_%' and new.details = old.details - 'phone'
    and to_jsonb(new) - 'details' = to_jsonb(old) - 'details'
  then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'The timeline of an order is only added to';
end
$$;

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  forgotten integer;
begin
  perform private.forget_old_limits();
  forgotten := private.forget_message_words();
  perform private.forget_payment_words();
  perform private.forget_order_details();
  perform private.reduce_abandoned_orders();
  perform private.forget_inquiries();
  perform private.forget_unconfirmed_subscriptions();
  return forgotten;
end
$$;

comment on function public.forget_old_rows() is
  'Removes what is not needed any more, a bounded number of rows of each kind at a time: counters of limits; recipient and words of messages after 90 days; M-PESA''s words, details of orders and inquiries after the periods of store_settings; all but the row of cancelled orders without a payment after 30 days; addresses that were not confirmed for the newsletter within 7 days. Returns the number of messages.';

grant execute on function public.forget_old_rows() to service_role;

insert into private.limits (name, allowed, within) values ('prompts_beyond_unanswered', 2, '1 day');
