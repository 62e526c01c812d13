-- One order in which everybody takes locks, so that nobody waits for whom he keeps waiting: the order, the receipt (its advisory
-- lock, then its row of mpesa_transactions), the payment, the refund; products by their id, after all of these.

create or replace function private.locked_refund(refund_id uuid) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  seen public.refunds;
  locked public.refunds;
begin
  -- What it is of is known only by looking, and locked before it. What changes in between is looked at again.
  loop
    select * into seen from public.refunds as r where r.id = locked_refund.refund_id;
    if not found then
      perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
    end if;
    begin
      perform from public.orders as o
      where o.id = (select p.order_id from public.payments as p where p.id = seen.payment_id)
      for update;
      if seen.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || seen.receipt));
        perform from public.mpesa_transactions as t where t.receipt = seen.receipt for update;
      end if;
      perform from public.payments as p where p.id = seen.payment_id for update;
      select * into strict locked from public.refunds as r where r.id = seen.id for update;
      if (locked.payment_id, locked.receipt) is distinct from (seen.payment_id, seen.receipt) then
        raise exception using errcode = 'JJ001';
      end if;
      return locked;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
end
$$;
comment on function private.locked_refund(uuid) is
  'A refund with everything it is about locked before it: its order, its receipt, its payment.';

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
  -- Asked for by what staff typed, and then M-PESA told of less: nobody gets more back than came. First of all, since it
  -- takes the locks of more than the refund.
  for too_much in
    select r.id, told.amount
    from public.refunds as r
    join public.mpesa_transactions as told on told.receipt = r.receipt and told.amount < r.amount
    where r.status in ('requested', 'approved')
    order by r.id
  loop
    perform private.locked_refund(too_much.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA told of %s cents under this receipt, %s were to go back', too_much.amount, r.amount)
    where r.id = too_much.id and r.status in ('requested', 'approved') and too_much.amount < r.amount;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Surely not carried out: it is tried again, at growing intervals.
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
      -- Whoever had it never told what M-PESA answered: it may have been sent.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit left_over for update skip locked
  loop
    -- Once: the references of a row that one transaction changes twice are checked, which waits for who has those.
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

-- Products -------------------------------------------------------------------------------------------------------------

create or replace function private.return_units(order_id uuid) returns void
language sql
set search_path = ''
as $$
  select from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = return_units.order_id
  order by p.id
  for update of p;
  update public.products as p
  set stock_quantity = p.stock_quantity + i.quantity
  from public.order_items as i
  where i.order_id = return_units.order_id and p.id = i.product_id;
$$;

create or replace function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  due uuid[];
  expired uuid;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
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
  ) as o;
  -- Asked again under the lock: a payment may have begun while we were waiting for it.
  select coalesce(array_agg(id), '{}') into due from unnest(due) as o (id)
  where not exists (
    select from public.payments as p where p.order_id = o.id and p.status in ('initiating', 'processing', 'review')
  );
  -- All of them before the first is changed, as whoever renames their category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for update;
  foreach expired in array due loop
    perform private.return_units(expired);
    update public.orders as o
    set status = 'cancelled', reserved_until = null, updated_at = now()
    where o.id = expired;
  end loop;
  return cardinality(due);
end
$$;

create function private.lock_products_of_category() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform from public.products as p where p.category = old.name order by p.id for update;
  return new;
end
$$;
comment on function private.lock_products_of_category() is
  'A category that gets another name takes its products along, in whatever order the database finds them: so all are locked before.';
create trigger categories_lock_their_products before update of name on public.categories
  for each row when (old.name is distinct from new.name)
  execute function private.lock_products_of_category();

-- Tests ----------------------------------------------------------------------------------------------------------------

create or replace function public.settle_payment_test(
  test_id uuid,
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
  test public.payment_tests;
  message_id bigint;
  outcome text;
begin
  if settle_payment_test.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- The receipt before the test: its confirmation, which looks for a test without one, takes them in this order too.
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
    when settle_payment_test.amount <> test.amount
      or (settle_payment_test.amount is null and settle_payment_test.source = 'notice') then
      case when test.status = 'completed' then 'superseded' else 'wrong_amount' end
    when exists (select from public.payments as p where p.receipt = settle_payment_test.receipt)
      or exists (select from public.payment_tests as t where t.receipt = settle_payment_test.receipt and t.id <> test.id)
      then 'receipt_replayed'
    when test.status = 'review' and settle_payment_test.amount is null then 'needs_review'
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
