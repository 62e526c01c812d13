-- Payments: attempts to collect an order's money, their prompts and queries (docs/decisions/payments.md). Amounts are in cents.

create table public.payments (
  id uuid primary key default gen_random_uuid(),
  order_id uuid references public.orders (id),
  phone text not null,
  charge_cents integer not null,
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
  method text not null default 'prompt',
  confirmed_by uuid,
  presumption text,
  refunded_at timestamptz,
  refund_receipt text,
  purpose text not null default 'order',
  requested_by uuid,
  requested_by_email text,
  review_cause text,
  ended_by text,
  received_from text,
  note text,
  constraint "a payment status is one of the life cycle"
    check (status in ('initiating', 'processing', 'completed', 'failed', 'review', 'unresolved')),
  constraint "who can end the cause of a failure is known" check (ended_by in ('customer', 'time', 'owner', 'unknown')),
  constraint "M-PESA charges whole shillings" check (charge_cents >= 100 and charge_cents % 100 = 0),
  constraint "a checkout request belongs to one payment" unique (checkout_request_id),
  constraint "a receipt pays once" unique (receipt),
  constraint "a receipt is in capitals, without blanks" check (receipt = upper(receipt) and receipt !~ '\s'),
  constraint "a cause of a review is known" check (review_cause in ('wrong_amount', 'contradiction')),
  constraint "a payment method is known" check (method in ('prompt', 'till', 'cash', 'credit')),
  constraint "cash and credit have no receipt, and a staff member noted them"
    check (method not in ('cash', 'credit') or (receipt is null and phone = '' and purpose = 'order' and confirmed_by is not null and status in ('completed', 'failed'))),
  constraint "only cash is received from a person" check (method = 'cash' or received_from is null),
  constraint "a presumption is known" check (presumption in ('attempt', 'receipt')),
  constraint "a payment is for an order or a test" check (
    case purpose
      when 'order' then order_id is not null
      when 'test' then order_id is null and requested_by is not null and method = 'prompt' and charge_cents = 100
      else false
    end
  )
);
comment on table public.payments is
  'Payment attempts. charge_cents: the amount of the prompt, or of money that came without one. failed: M-PESA reported a final code. unresolved: M-PESA gave no result.';
comment on column public.payments.method is
  'prompt: a prompt for charge_cents was sent. till: money without a prompt, reported by staff or M-PESA; its phone is unknown (''''). cash: a staff member (confirmed_by) took it. credit: a staff member used what the shop owed to the customer (change_notes.used_for); no money came. cash and credit that failed were taken back.';
comment on column public.payments.received_from is 'Who handed over the cash: the rider. Null: the customer, and for other methods.';
comment on column public.payments.note is 'Why cash differs from the charge of its order, or why cash or credit was taken back.';
comment on column public.payments.confirmed_by is
  'The staff member who confirmed the money by its receipt or assigned it to the order. Null: reported by M-PESA.';
comment on column public.payments.presumption is
  'What is assumed from a reference alone. attempt: this prompt was paid; receipt: this receipt is the prompt''s. Null: confirmed by M-PESA or staff.';
comment on column public.payments.purpose is
  'order: pays an order. test: a staff member (requested_by) pays KSh 1 to check the M-PESA settings; it pays no order and is not in reports.';
comment on column public.payments.requested_by is 'The staff member who sent the prompt. Null: the customer did.';
comment on column public.payments.review_cause is
  'Why the attempt came into review, and stays afterwards. wrong_amount: a message named another amount than the charge, or none. contradiction: a message said that it failed, or gave no known result, but named money.';
comment on column public.payments.ended_by is
  'Who can end the cause of the failure, as the payment function classified it (domain/mpesa/result-advice.ts). owner: the shop''s settings or account. Null: not failed.';
comment on column public.payments.refunded_at is 'When the money was refunded. needs_refund stays set.';
alter table public.payments enable row level security;
grant select on public.payments to authenticated;
grant select (id) on public.payments to anon;
create policy "staff read every payment, the counter those of recent orders" on public.payments
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));
create unique index "one open attempt per order" on public.payments (order_id) where status in ('initiating', 'processing');
create index payments_by_order on public.payments (order_id);
create index payments_due_for_a_query on public.payments (next_query_at) where status in ('processing', 'review');
create index payments_without_receipt on public.payments (charge_cents, created_at) where receipt is null and method = 'prompt';
-- Not where status = 'completed': without statistics the planner takes such an index for small, and reads all of it for the completed
-- payments of one order.
create index payments_by_completion on public.payments (completed_at) where completed_at is not null;
create index payments_in_review on public.payments (updated_at) where status = 'review';
create index payments_failed on public.payments (updated_at) where status = 'failed';
-- M-PESA accepts the same amount from one phone once in two minutes and answers result 17 otherwise. No prompt is sent in that time:
-- it would fail, or be paid twice.
create index payments_of_the_same_amount on public.payments (phone, charge_cents, updated_at) where result_code = '17';
create index payments_that_are_tests on public.payments (created_at desc) where purpose = 'test';
create index payments_typed on public.payments (completed_at) where method = 'till' and confirmed_by is not null;
create index payments_of_a_phone on public.payments (phone, created_at desc);
create index payments_to_send_back on public.payments (order_id) where needs_refund and refunded_at is null;

create table private.payment_secrets (
  payment_id uuid primary key references public.payments (id) on delete cascade,
  callback_secret text not null,
  constraint "a callback secret opens one payment" unique (callback_secret)
);
comment on table private.payment_secrets is 'Secret last part of an attempt''s callback URL.';
alter table private.payment_secrets enable row level security;

create function private.refuse_same_amount(payer text, charge_cents integer, paid_within interval) returns void
language plpgsql set search_path = '' as $$
declare
  free_at timestamptz;
begin
  select max(known.free_at) into free_at
  from (
    select p.updated_at + interval '2 minutes' as free_at
    from public.payments as p
    where p.phone = refuse_same_amount.payer and p.charge_cents = refuse_same_amount.charge_cents and p.result_code = '17'
      and p.status = 'failed' and p.purpose = 'order'
      and p.updated_at > now() - interval '2 minutes'
    union all
    select p.completed_at + refuse_same_amount.paid_within
    from public.payments as p
    where p.phone = refuse_same_amount.payer and p.charge_cents = refuse_same_amount.charge_cents
      and p.status = 'completed' and p.method = 'prompt'
      and p.created_at > now() - interval '1 hour' and p.completed_at > now() - refuse_same_amount.paid_within
  ) as known;
  if free_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from free_at - now()))::integer
    ));
  end if;
end
$$;
comment on function private.refuse_same_amount is
  'Refuses a prompt that M-PESA would end with result 17: within two minutes after such a result, or within paid_within after a prompt of this amount was paid.';

create function private.has_paid(payer text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.payments as p where p.phone = has_paid.payer and p.status = 'completed' and p.purpose = 'order'
  );
end
$$;
comment on function private.has_paid is 'Whether an order was paid from this phone before.';

create function private.may_prompt_from_network(payer text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Customers who paid before are served even while a stranger uses up the limit of their common network.
  return private.count_call('payment_prompts') or private.has_paid(may_prompt_from_network.payer);
end
$$;
comment on function private.may_prompt_from_network is
  'Counts a prompt for the caller''s networks. Whether it may be sent: within the limit payment_prompts, or to a phone that paid before.';

create function private.may_prompt_new_phone(payer text) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  phone_of_caller text := (private.caller_networks())[1] || ' ' || may_prompt_new_phone.payer;
begin
  if phone_of_caller is null or private.hits_so_far('phone_prompted', phone_of_caller, interval '1 day') > 0
    or private.has_paid(may_prompt_new_phone.payer)
  then
    return true;
  elsif not private.count_call('prompted_phones') then
    return false;
  end if;
  perform private.count_hit('phone_prompted', phone_of_caller, interval '1 day');
  return true;
end
$$;
comment on function private.may_prompt_new_phone is
  'Whether the caller''s networks may prompt this phone: one that paid before, that was prompted today, or one more within the limit prompted_phones.';

create function private.add_till_payment(order_id uuid, received_cents integer, confirmed_by uuid default null) returns public.payments
language plpgsql set search_path = '' as $$
declare
  added public.payments;
begin
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (add_till_payment.order_id, '', add_till_payment.received_cents, 'unresolved', 'till', add_till_payment.confirmed_by)
  returning * into added;
  return added;
end
$$;
comment on function private.add_till_payment is
  'Adds money that came without a prompt as a payment of an order, to be settled by the caller. confirmed_by: the member of staff who typed it.';

create function private.may_prompt_phone(payer text, paid_order public.orders) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  unanswered constant integer := 20;
begin
  perform pg_advisory_xact_lock(hashtextextended('prompts to ' || may_prompt_phone.payer, 0));
  if (
    select count(*) from (
      select from public.payments as p
      where p.phone = may_prompt_phone.payer and p.created_at > now() - interval '1 day'
        -- A prompt that M-PESA refused at once did not reach the phone.
        and (private.may_still_succeed(p.status) or (p.status = 'failed' and p.checkout_request_id is not null))
      limit unanswered
    ) as prompts
  ) < unanswered then
    return true;
  end if;
  if (may_prompt_phone.paid_order).customer_phone <> may_prompt_phone.payer then
    return false;
  end if;
  -- A stranger may order with this phone, but does not know the email address of its earlier orders.
  return exists (
    select from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.phone = may_prompt_phone.payer and p.status = 'completed'
      and o.customer_phone = may_prompt_phone.payer and lower(o.customer_email) = lower((may_prompt_phone.paid_order).customer_email)
  ) or private.count_call('prompts_beyond_unanswered', may_prompt_phone.payer);
end
$$;
comment on function private.may_prompt_phone is
  'Whether a phone may get another prompt. After 20 unpaid prompts within a day only for its own orders: without a further limit if it has paid an order with the same email address, else twice a day per network.';

create function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null,
  same_amount_seconds integer default 0, requested_by uuid default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment.phone);
  ordered public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into ordered from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    private.is_unsettled_attempt(p.status)
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      private.was_paid(ordered.payment_status)
      or (ordered.payment_status = 'needs_review' and p.charge_cents = ordered.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  perform private.refuse_before_agreement(ordered, begin_payment.requested_by is not null);
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (ordered.total_amount, ordered.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  elsif ordered.charge_cents > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;

  -- Without limits, one order could send prompts to many phones. Staff send them to all who call, from the network of the shop.
  if begin_payment.requested_by is not null then
    null;
  elsif not private.may_prompt_from_network(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payments from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts'), private.contact_numbers()
    ), 'too_many_payments', '');
  elsif not private.may_prompt_new_phone(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payment prompts to new phones from your network today. Please try again in %s, or call or WhatsApp us on %s', private.time_left('prompted_phones'), private.contact_numbers()
    ), 'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', ordered.id::text) then
    return private.refusal_answer('PT429', format(
      'Too many payment attempts for this order. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts_of_order'), private.contact_numbers()
    ), 'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', format(
      'Too many payment prompts to this phone. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts_to_phone'), private.contact_numbers()
    ), 'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, ordered) then
    return private.refusal_answer('PT429', format(
      'This phone had many unpaid payment prompts today. Please pay from another phone, or call or WhatsApp us on %s',
      private.contact_numbers()
    ), 'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    perform private.refuse_same_amount(
      payer, ordered.charge_cents, interval '1 second' * least(greatest(begin_payment.same_amount_seconds, 0), 600)
    );
    insert into public.payments (order_id, phone, charge_cents, next_query_at, requested_by, requested_by_email)
    values (
      ordered.id, payer, ordered.charge_cents, null, begin_payment.requested_by, private.email_of(begin_payment.requested_by)
    )
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(ordered.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', ordered.tracking_number
  );
end
$$;
comment on function public.begin_payment is
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new. same_amount_seconds: how long M-PESA refuses the same amount from one phone; 0: it does not. requested_by: the staff member who sends the prompt, whose network is not limited; null: the customer.';

create function public.begin_payment_test(phone text, callback_secret text, requested_by uuid) returns public.payments
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  test public.payments;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  elsif not exists (
    select from public.admin_profiles as a where a.user_id = begin_payment_test.requested_by and a.is_active
  ) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  -- Tests send prompts too, so they are limited.
  if private.count_hit('payment_tests', 'all', interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Too many tests. Please wait a few minutes');
  elsif private.count_hit('payment_test_prompts_to_phone', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payments (purpose, phone, charge_cents, requested_by, requested_by_email)
  values ('test', payer, 100, begin_payment_test.requested_by, private.email_of(begin_payment_test.requested_by))
  returning * into test;
  insert into private.payment_secrets (payment_id, callback_secret) values (test.id, begin_payment_test.callback_secret);
  return test;
end
$$;
comment on function public.begin_payment_test is 'Opens a payment of KSh 1 by which a staff member checks the M-PESA settings.';

-- Prompts: their responses, and leasing status queries

create function public.record_push(
  payment_id uuid, body text, merchant_request_id text default null, checkout_request_id text default null,
  refusal_code text default null, refusal_description text default null, refusal_ended_by text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
declare
  attempt public.payments;
begin
  -- Locked before the message is stored: its foreign key takes a weaker lock, which two concurrent calls could not upgrade.
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
  -- A callback may arrive before the response to the push: what it settled stays settled.
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
      ended_by = case when p.status = 'initiating' then coalesce(record_push.refusal_ended_by, p.ended_by) else p.ended_by end,
      merchant_request_id = coalesce(p.merchant_request_id, record_push.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, record_push.checkout_request_id),
      next_query_at = case
        when p.status <> 'initiating' then p.next_query_at
        when record_push.refusal_code is null then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = record_push.payment_id
  returning * into attempt;
  return attempt;
end
$$;
comment on function public.record_push is
  'Stores the response to the push. Without request ids and refusal, the response was lost: the attempt stays open. refusal_ended_by: who can end the refusal (payments.ended_by).';

create function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- Clients have M-PESA's id, or only ours when the response with M-PESA's was lost.
  select to_jsonb(p) || case
    -- Money that is being refunded has not paid the order: staff contact the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  -- M-PESA's ids contain the time and the phone, so they can be guessed. Limits apply to wrong guesses only.
  if found_payment is null and not private.count_call('unknown_payments') then
    return private.refusal_answer('PT429', format(
      'Too many unknown payments. Please try again in %s, or call or WhatsApp us on %s', private.time_left('unknown_payments'), private.contact_numbers()
    ), 'too_many_lookups', '');
  end if;
  return found_payment;
end
$$;
comment on function public.find_payment is
  'An attempt by M-PESA''s checkout request id or its own id, for clients that poll its status. Null: none. Only unknown references count for the caller''s networks, and only they are refused.';

-- M-PESA allows few queries per minute. Prompts of one network must not delay the payments of others.
create function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5)
returns setof public.payments
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push had no response cannot be queried, and its callback arrives within 15 minutes or never. M-PESA reports
  -- no results after a day.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where private.is_open_attempt(p.status)
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  update public.payments as p
  set next_query_at = null
  where p.status = 'review' and p.next_query_at is not null and p.created_at < now() - interval '1 day';
  -- All processes share the merchant's rate limit: one batch, then none until the limit allows the next.
  if not exists (
    select from public.payments as p
    where private.can_be_queried(p.status) and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where private.can_be_queried(p.status) and p.checkout_request_id is not null and p.next_query_at <= now()
  ), network_queries as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join network_queries as n on n.widest_network = w.widest_network
    where private.can_be_queried(p.status)
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(n.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- A larger exponent would overflow the interval.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;
comment on function public.lease_payment_queries is
  'Leases attempts to query now: at most at_most at once, and per_minute; first those of the networks with the fewest queries in the last 15 minutes. Each is due again at growing intervals until it is settled.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.lease_payment_queries to service_role;
