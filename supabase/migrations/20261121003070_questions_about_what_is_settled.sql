-- A question is not leased about a payment that is settled at the same moment: its next question stayed in the books, and was never
-- asked, though the payment had ended.

create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5) returns setof jsonb
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
  -- Nor may all processes together ask more often than M-PESA lets one merchant ask: as many as are wanted at once, and
  -- then nobody until so many may be asked again.
  if not exists (
    select from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with due as (
    select p.id from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
    order by p.next_query_at
    limit lease_payment_queries.at_most
    -- What is being settled at this moment has its answer.
    for update skip locked
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
create or replace function public.lease_payment_test_queries(at_most integer default 1, per_minute integer default 5) returns setof jsonb
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
  -- Out of the same allowance as the questions about payments, which come first.
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
  returning to_jsonb(t);
end
$$;

update public.payments as p set next_query_at = null where p.next_query_at is not null and p.status <> 'processing';
update public.payment_tests as t set next_query_at = null where t.next_query_at is not null and t.status <> 'processing';
