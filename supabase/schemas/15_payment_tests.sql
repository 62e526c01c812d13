-- Payment tests: staff pay KSh 1 to themselves to check the M-PESA settings.

-- "Test with KSh 1": a prompt to a staff member's own phone that pays no order. Only its raw messages are stored with all others.
create table public.payment_tests (
  id uuid primary key default gen_random_uuid(),
  phone text not null,
  charge_cents integer not null default 100,
  status text not null default 'initiating',
  result_code text,
  result_description text,
  receipt text,
  merchant_request_id text,
  checkout_request_id text,
  requested_by uuid not null,
  requested_by_email text,
  query_count integer not null default 0,
  next_query_at timestamptz,
  refunded_at timestamptz,
  refund_receipt text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  completed_at timestamptz,
  constraint "a test has a known status"
    check (status in ('initiating', 'processing', 'completed', 'failed', 'review', 'unresolved')),
  constraint "a test costs one shilling" check (charge_cents = 100),
  constraint "a checkout request belongs to one test" unique (checkout_request_id),
  constraint "a receipt belongs to one test" unique (receipt)
);

comment on table public.payment_tests is
  'Prompts for KSh 1 by which staff try out the payment settings. Their money is no order''s: reconciliation leaves their receipts out.';

alter table public.payment_tests enable row level security;
grant select on public.payment_tests to authenticated;
-- Without this grant realtime would announce changes to visitors, if without their rows.
grant select (id) on public.payment_tests to anon;

create policy "staff read every test" on public.payment_tests for select to authenticated using ((select public.is_admin()));

create index payment_tests_newest_first on public.payment_tests (created_at desc);
create index payment_tests_due_for_a_query on public.payment_tests (next_query_at) where status = 'processing';

create table private.payment_test_secrets (
  test_id uuid primary key references public.payment_tests (id) on delete cascade,
  notice_secret text not null,
  constraint "a notice secret opens one test" unique (notice_secret)
);

comment on table private.payment_test_secrets is 'The unguessable last part of the address at which M-PESA tells us about one test.';

alter table private.payment_test_secrets enable row level security;

create function public.begin_payment_test(phone text, notice_secret text, requested_by uuid) returns public.payment_tests
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  begun public.payment_tests;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  if not exists (
    select from public.admin_profiles as a where a.user_id = begin_payment_test.requested_by and a.is_active
  ) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  -- Tests make phones ring as well, so they are limited.
  if private.count_hit('payment_tests', 'all', interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Too many tests. Please wait a few minutes');
  end if;
  if private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payment_tests (phone, requested_by, requested_by_email)
  values (
    payer, begin_payment_test.requested_by,
    (select u.email from auth.users as u where u.id = begin_payment_test.requested_by)
  )
  returning * into begun;
  insert into private.payment_test_secrets (test_id, notice_secret) values (begun.id, begin_payment_test.notice_secret);
  return begun;
end
$$;
comment on function public.begin_payment_test(text, text, uuid) is
  'Opens a test by a member of staff. Only then may its prompt be sent.';
grant execute on function public.begin_payment_test(text, text, uuid) to service_role;

create function public.record_test_push(
  test_id uuid,
  body text,
  merchant_request_id text default null,
  checkout_request_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns public.payment_tests
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  test public.payment_tests;
begin
  perform from public.payment_tests as t where t.id = record_test_push.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (test_id, source, body, outcome)
  values (
    record_test_push.test_id, 'push', record_test_push.body,
    case
      when record_test_push.checkout_request_id is not null then 'accepted'
      when record_test_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  update public.payment_tests as t
  set status = case
        when t.status <> 'initiating' then t.status
        when record_test_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when t.status = 'initiating' then record_test_push.refusal_code else t.result_code end,
      result_description = case when t.status = 'initiating' then record_test_push.refusal_description else t.result_description end,
      merchant_request_id = coalesce(t.merchant_request_id, record_test_push.merchant_request_id),
      checkout_request_id = coalesce(t.checkout_request_id, record_test_push.checkout_request_id),
      next_query_at = case
        when t.status = 'initiating' and record_test_push.refusal_code is null then now() + interval '10 seconds'
        when t.status <> 'initiating' then t.next_query_at
      end,
      updated_at = now()
  where t.id = record_test_push.test_id
  returning * into test;
  return test;
end
$$;
comment on function public.record_test_push(uuid, text, text, text, text, text) is
  'Keeps what the push of a test was answered, as record_push does of a payment.';
grant execute on function public.record_test_push(uuid, text, text, text, text, text) to service_role;

create function public.settle_payment_test(
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

create function public.find_payment_test_by_secret(notice_secret text) returns uuid
language sql stable security definer
set search_path = ''
as $$
  select s.test_id from private.payment_test_secrets as s where s.notice_secret = find_payment_test_by_secret.notice_secret;
$$;
grant execute on function public.find_payment_test_by_secret(text) to service_role;

create function public.lease_payment_test_queries(at_most integer default 1, per_minute integer default 5) returns setof public.payment_tests
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_test_queries'));
  update public.payment_tests as t
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where t.status in ('initiating', 'processing')
    and t.created_at < now() - case when t.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- Shares the rate with queries of payments, which come first.
  if not exists (
    select from public.payment_tests as t
    where t.status = 'processing' and t.checkout_request_id is not null and t.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_test_queries.at_most / greatest(lease_payment_test_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with due as (
    select t.id from public.payment_tests as t
    where t.status = 'processing' and t.checkout_request_id is not null and t.next_query_at <= now()
    order by t.next_query_at
    limit lease_payment_test_queries.at_most
    for update skip locked
  )
  update public.payment_tests as t
  set query_count = t.query_count + 1,
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(t.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where t.id = due.id
  returning t.*;
end
$$;
comment on function public.lease_payment_test_queries(integer, integer) is
  'Tests to ask M-PESA about now, if there are any; with the same limits as lease_payment_queries, whose allowance they share.';
grant execute on function public.lease_payment_test_queries(integer, integer) to service_role;

create function private.set_test_money_aside(receipt text) returns void
language plpgsql
set search_path = ''
as $$
begin
  update public.mpesa_transactions as t
  set resolution = 'not_an_order', resolved_at = now(), updated_at = now()
  where t.receipt = set_test_money_aside.receipt and t.payment_id is null and t.resolution is null
    and exists (select from public.payment_tests as test where test.receipt = set_test_money_aside.receipt);
end
$$;
comment on function private.set_test_money_aside(text) is 'Marks the money of a payment test as not an order''s, so that the reconciliation does not list it.';
