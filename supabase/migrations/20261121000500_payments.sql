-- Payments: every attempt to collect an order's money, every raw message about one, and the one way they end.

create table public.payments (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id),
  phone text not null,
  amount integer not null,
  status text not null default 'initiating',
  result_code text,
  result_description text,
  receipt text,
  merchant_request_id text,
  checkout_request_id text,
  needs_refund boolean not null default false,
  query_count integer not null default 0,
  next_query_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  completed_at timestamptz,
  constraint "a payment status is one of the life cycle"
    check (status in ('initiating', 'processing', 'completed', 'failed', 'review', 'unresolved')),
  constraint "M-PESA charges whole shillings" check (amount >= 100 and amount % 100 = 0),
  constraint "a checkout request belongs to one payment" unique (checkout_request_id),
  constraint "a receipt pays once" unique (receipt)
);
comment on table public.payments is
  'Attempts to collect an order''s money by an M-PESA prompt. amount is what was charged, in cents. failed only on a code known to be final; unresolved when no answer can be had.';
alter table public.payments enable row level security;
create unique index "one open attempt per order" on public.payments (order_id) where status in ('initiating', 'processing');
create index payments_by_order on public.payments (order_id);
create index payments_due_for_a_query on public.payments (next_query_at) where status = 'processing';

create policy "staff read every payment" on public.payments for select to authenticated using ((select public.is_admin()));
grant select on public.payments to authenticated;

create table private.payment_secrets (
  payment_id uuid primary key references public.payments (id) on delete cascade,
  notice_secret text not null,
  constraint "a notice secret opens one payment" unique (notice_secret)
);
comment on table private.payment_secrets is 'The unguessable last part of the address at which M-PESA tells us about one attempt.';
alter table private.payment_secrets enable row level security;

create table public.payment_messages (
  id bigint generated always as identity primary key,
  payment_id uuid references public.payments (id) on delete cascade,
  source text not null,
  source_address text,
  body text not null,
  outcome text,
  received_at timestamptz not null default now(),
  constraint "a message has a known source" check (source in ('push', 'notice', 'query'))
);
comment on table public.payment_messages is 'What M-PESA said, word for word, kept before anything is concluded from it.';
alter table public.payment_messages enable row level security;
create index payment_messages_by_payment on public.payment_messages (payment_id);
create policy "staff read every payment message" on public.payment_messages
  for select to authenticated using ((select public.is_admin()));
grant select on public.payment_messages to authenticated;

-- Starting an attempt ----------------------------------------------------------------------------------------------

create function public.begin_payment(order_id uuid, phone text, notice_secret text, expected_amount integer default null)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment.phone);
  paid_order public.orders;
  current_attempt public.payments;
  charge integer;
  caller text := private.caller_address();
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The order's row is the lock: attempts, settlements and expiry of one order happen one after another.
  select * into paid_order from public.orders as o where o.id = begin_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and p.status in ('initiating', 'processing', 'review', 'completed')
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
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
  if caller is not null and private.count_hit('payment_prompts_from', caller, interval '10 minutes') > 100 then
    perform private.refuse(429, 'too_many_payments', 'Too many payments from your network. Please try again in a few minutes');
  end if;
  if private.count_hit('payment_prompts_of', paid_order.id::text, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_attempts', 'Too many payment attempts for this order. Please wait a few minutes');
  end if;
  if private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;

  insert into public.payments (order_id, phone, amount, next_query_at)
  values (paid_order.id, payer, charge, null)
  returning * into current_attempt;
  insert into private.payment_secrets (payment_id, notice_secret)
  values (current_attempt.id, begin_payment.notice_secret);
  -- The units stay reserved while the customer has a prompt on the phone.
  update public.orders as o
  set reserved_until = greatest(o.reserved_until, now() + interval '5 minutes')
  where o.id = paid_order.id and o.reserved_until is not null;
  return jsonb_build_object(
    'is_new', true,
    'payment', to_jsonb(current_attempt),
    'tracking_number', paid_order.tracking_number
  );
end
$$;
comment on function public.begin_payment(uuid, text, text, integer) is
  'Opens an attempt to collect an order''s money, or returns the one that is open or has succeeded. Only then may a prompt be sent, and only when is_new.';

create function public.record_push(
  payment_id uuid,
  body text,
  merchant_request_id text default null,
  checkout_request_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt public.payments;
begin
  -- Locked before its message is kept: the message's reference would hold a weaker lock that two at once cannot raise.
  perform from public.payments as p where p.id = record_push.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, body, outcome)
  values (
    record_push.payment_id, 'push', record_push.body,
    case
      when record_push.checkout_request_id is not null then 'accepted'
      when record_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  -- A notice may have come before the push was answered: what it settled stays settled.
  update public.payments as p
  set status = case
        when p.status <> 'initiating' then p.status
        when record_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when p.status = 'initiating' then coalesce(record_push.refusal_code, p.result_code) else p.result_code end,
      result_description = case
        when p.status = 'initiating' then coalesce(record_push.refusal_description, p.result_description)
        else p.result_description
      end,
      merchant_request_id = coalesce(p.merchant_request_id, record_push.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, record_push.checkout_request_id),
      next_query_at = case
        when p.status <> 'initiating' then p.next_query_at
        when record_push.refusal_code is null then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = record_push.payment_id
  returning * into attempt;
  return to_jsonb(attempt);
end
$$;
comment on function public.record_push(uuid, text, text, text, text, text) is
  'Keeps what the push was answered. Without request ids and without a refusal the answer was lost: the attempt stays open.';

-- The one settlement -----------------------------------------------------------------------------------------------

create function public.settle_payment(
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
comment on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a payment ends. Keeps the message, is repeatable, compares with the charged amount, lets a success supersede a failure and never the reverse, and writes order, stock and delivery in the same transaction.';

create function private.mark_order_paid(order_id uuid) returns text
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  is_short boolean;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
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

-- Reading an attempt -----------------------------------------------------------------------------------------------

create function public.find_payment(reference text) returns jsonb
language sql stable security definer
set search_path = ''
as $$
  -- The customer's device knows an attempt by M-PESA's id, or by ours when the answer with that id was lost.
  select to_jsonb(p) from public.payments as p
  where p.checkout_request_id = find_payment.reference or p.id::text = find_payment.reference
  limit 1;
$$;

create function public.find_payment_by_secret(notice_secret text) returns uuid
language sql stable security definer
set search_path = ''
as $$
  select s.payment_id from private.payment_secrets as s where s.notice_secret = find_payment_by_secret.notice_secret;
$$;

-- Asking about open attempts ---------------------------------------------------------------------------------------

create function public.lease_payment_queries(at_most integer default 1) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- Whoever polls, in whichever process: one at a time, and each attempt at growing intervals.
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push was never answered has no id to ask with; after a quarter of an hour no notice will come. And
  -- what M-PESA does not know after a day it will never know.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- Nor may all processes together ask more often than M-PESA lets one merchant ask: five times a minute, evenly.
  if not exists (
    select from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit('payment_queries', 'all', interval '12 seconds') > 1 then
    return;
  end if;
  return query
  with due as (
    select p.id from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
    order by p.next_query_at
    limit lease_payment_queries.at_most
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- The exponent is kept small: a long wait would be no interval any more.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning to_jsonb(p);
end
$$;
comment on function public.lease_payment_queries(integer) is
  'Attempts to ask M-PESA about now. Each is leased: it comes up again later, at growing intervals, if no answer settles it.';

-- Unpaid orders ----------------------------------------------------------------------------------------------------

create function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  expired public.orders;
  count integer := 0;
begin
  -- Two at once would take the same products in different orders.
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  for expired in
    select * from public.orders as o
    where o.payment_status = 'unpaid' and o.reserved_until is not null
      -- What staff cancelled gives its units back too.
      and (o.status = 'cancelled' or (o.status = 'pending' and o.reserved_until < now()))
      -- Not before a final answer on an open prompt.
      and not exists (
        select from public.payments as p where p.order_id = o.id and p.status in ('initiating', 'processing', 'review')
      )
    order by o.reserved_until
    limit 200
    for update skip locked
  loop
    -- Asked again under the lock: a payment may have begun while we were waiting for it.
    continue when exists (
      select from public.payments as p where p.order_id = expired.id and p.status in ('initiating', 'processing', 'review')
    );
    perform private.return_units(expired.id);
    update public.orders as o
    set status = 'cancelled', reserved_until = null, updated_at = now()
    where o.id = expired.id;
    count := count + 1;
  end loop;
  return count;
end
$$;
comment on function public.expire_reservations() is
  'Cancels unpaid orders whose reservation ran out, and gives the units of cancelled ones back. Returns how many.';

grant execute on function
  public.begin_payment(uuid, text, text, integer),
  public.record_push(uuid, text, text, text, text, text),
  public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text),
  public.find_payment(text),
  public.find_payment_by_secret(text),
  public.lease_payment_queries(integer),
  public.expire_reservations()
to service_role;
