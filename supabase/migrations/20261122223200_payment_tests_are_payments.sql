-- A test with KSh 1 is a payment without an order: one life cycle, one settlement.

drop trigger payment_tests_after_change on public.payment_tests;
drop trigger mpesa_transactions_after_insert on public.mpesa_transactions;
drop function public.begin_payment_test(text,text,uuid);
drop function public.find_payment_test_by_secret(text);
drop function public.lease_payment_test_queries(integer,integer);
drop function private.after_payment_test_change();
drop function private.after_transaction_insert();
drop function private.decide_settlement(payments,private.payment_report,payments,boolean,boolean,boolean,boolean);
drop function private.open_refund(uuid,uuid,text,integer,text,uuid);
drop function private.set_test_money_aside(text);
drop function public.record_test_push(uuid,text,text,text,text,text);
drop function public.request_test_refund(uuid);
drop function public.settle_payment_test(uuid,text,text,text,text,text,integer,text,text,text,text);

alter table public.payments
  alter column order_id drop not null,
  add column purpose text not null default 'order',
  add column requested_by uuid,
  add column requested_by_email text,
  add constraint "a payment is for an order or a test" check (
    case purpose
      when 'order' then order_id is not null
      when 'test' then order_id is null and requested_by is not null and method = 'prompt' and charge_cents = 100
      else false
    end
  );
comment on column public.payments.purpose is
  'order: its money pays an order. test: a staff member pays KSh 1 to check the M-PESA settings (requested_by); it pays no order, and reports leave it out.';

create index payments_that_are_tests on public.payments (created_at desc) where purpose = 'test';

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
    and p.purpose = 'order'
    and p.updated_at > now() - interval '2 minutes';
  if told_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from told_at + interval '2 minutes' - now()))::integer
    ));
  end if;
end
$$;

create or replace function public.begin_payment_test(phone text, notice_secret text, requested_by uuid) returns public.payments
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  test public.payments;
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
  insert into public.payments (purpose, phone, charge_cents, requested_by, requested_by_email)
  values (
    'test', payer, 100, begin_payment_test.requested_by,
    (select u.email from auth.users as u where u.id = begin_payment_test.requested_by)
  )
  returning * into test;
  insert into private.payment_secrets (payment_id, notice_secret) values (test.id, begin_payment_test.notice_secret);
  return test;
end
$$;

comment on function public.begin_payment_test(text, text, uuid) is
  'Opens a payment of KSh 1 by which a staff member checks the M-PESA settings. Only then may its prompt be sent.';

grant execute on function public.begin_payment_test(text, text, uuid) to service_role;

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
  -- Lock the order, the receipt and request id, then the payment, and all before the message is stored: its reference would take a
  -- weaker lock that two concurrent settlements cannot raise.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into message_id;

  -- What the message means.
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
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
    when 'completes' then case attempt.purpose
      when 'order' then private.complete_attempt(attempt, report)
      else private.complete_test(attempt, report)
    end
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
  if report.verdict = 'succeeded' and attempt.purpose = 'order' then
    perform private.tidy_outcomes(m.payment_id) from public.payment_messages as m where m.id = message_id;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  return jsonb_build_object('outcome', outcome, 'payment', to_jsonb(attempt));
end
$$;

comment on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a payment ends. Keeps the message, is repeatable, compares with the charged amount, lets a success supersede a failure and never the reverse, keeps every receipt as money of its own, and writes order, stock and delivery in the same transaction.';

grant execute on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) to service_role;

create or replace function private.decide_settlement(
  attempt public.payments,
  report private.payment_report,
  receipt_owner public.payments,
  is_other_request boolean,
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
    -- The money of a payment test pays no order, and money of an order completes no test.
    when receipt_owner.id is not null and (receipt_owner.order_id is distinct from attempt.order_id
      or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)) then 'receipt_replayed'
    -- It is in the books already; money that goes back stays where it is.
    when owner_goes_back and (receipt_owner.method = 'prompt' or attempt_goes_back) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and own_receipt is not null then 'already_completed'
    -- The receipt is in the books: as money of its own, or as what another attempt was presumed to have brought.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is money of its own.
    when stays_completed and report.receipt <> own_receipt then
      case attempt.purpose when 'test' then 'already_completed' else 'second_money' end
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

comment on function private.decide_settlement(public.payments, private.payment_report, public.payments, boolean, boolean, boolean) is
  'What a message means for a payment attempt, from facts alone; writes nothing. receipt_owner: the other payment that has the receipt. is_other_request: its request id belongs to another attempt. attempt_goes_back, owner_goes_back: a refund of that money is requested or done.';

create or replace function private.complete_test(test public.payments, report private.payment_report) returns text
language plpgsql
set search_path = ''
as $$
begin
  update public.payments as p
  set status = 'completed',
      result_code = report.result_code,
      result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      next_query_at = null,
      completed_at = now(),
      updated_at = now()
  where p.id = test.id;
  return 'completed';
end
$$;

comment on function private.complete_test(public.payments, private.payment_report) is
  'Money came with a payment test: it pays no order. Returns the outcome.';

-- M-PESA allows few queries per minute. Prompts of one network, which anyone can cause, must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5) returns setof public.payments
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- One process at a time; each attempt at growing intervals.
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push was never answered has no id to query; after 15 minutes no callback arrives any more. What M-PESA does not
  -- know after a day it will never know.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- All processes share the rate that M-PESA allows one merchant: a batch at once, then none until so many are allowed again.
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
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ), asked as materialized (
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
    left join asked as a on a.widest_network = w.widest_network
    where p.status = 'processing'
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(a.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- The exponent is kept small: a long wait would be no interval any more.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;

comment on function public.lease_payment_queries(integer, integer) is
  'Attempts to query now, at most at_most at once and per_minute; those of the networks with the fewest queries in the last 15 minutes first. Each is leased: it is due again later, at growing intervals, until it is settled.';

grant execute on function public.lease_payment_queries(integer, integer) to service_role;

create or replace function private.expect_free_receipt(receipt text, is_new boolean) returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if exists (select from public.payments as p where p.receipt = expect_free_receipt.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  end if;
  if is_new and exists (
    select from public.refunds as r where r.receipt = expect_free_receipt.receipt and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
end
$$;

comment on function private.expect_free_receipt(text, boolean) is 'Refuses the receipt of a test, and one whose money is being sent back.';

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
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
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
  where t.receipt = orders_of_lost_receipts.receipt and t.payment_id is null and p.purpose = 'order';
$$;

comment on function private.orders_of_lost_receipts(text) is
  'The orders whose prompts lack a receipt and were for the same amount at the time of money that nobody knows: it may be theirs.';

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

  -- A payment test that only a query completed has no receipt yet.
  if upper(trim(told.reference)) = 'TEST' and told.payment_id is null then
    with lacking as (
      select p.id from public.payments as p
      where p.purpose = 'test' and p.status = 'completed' and p.receipt is null and p.charge_cents = told.received_cents
        and p.created_at between told.transacted_at - interval '15 minutes' and told.transacted_at + interval '15 minutes'
    )
    update public.payments as p set receipt = code, updated_at = now()
    from lacking where p.id = lacking.id and (select count(*) from lacking) = 1;
  end if;
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

  -- Anyone can type the number of an order. Less than its charge never pays it: staff decide.
  is_part := told.received_cents < (select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or told.resolution is not null or told.received_cents < 100 or told.received_cents % 100 <> 0 then
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

-- Two entries of one receipt became one payment: its refund belongs to the one that stays.
create or replace function private.move_refund_with_receipt(new public.payments) returns public.payments
language plpgsql
set search_path = ''
as $$
declare
  moved public.refunds;
begin
  update public.refunds as r
  set payment_id = new.id, transaction_receipt = null, updated_at = now()
  where r.receipt = new.receipt and r.payment_id is distinct from new.id
    -- An earlier refund by hand stays the payment's own.
    and (r.status in ('failed', 'withdrawn') or not exists (
      select from public.refunds as own
      where own.payment_id = new.id and own.id <> r.id and own.status not in ('failed', 'withdrawn')
    ));
  select * into moved from public.refunds as r where r.payment_id = new.id and r.status = 'completed';
  if found then
    new.refunded_at := coalesce(new.refunded_at, moved.completed_at);
    new.refund_receipt := coalesce(new.refund_receipt, moved.refund_receipt);
  end if;
  -- A refund that was noted before the receipt was known gets this receipt.
  update public.refunds as r
  set receipt = new.receipt, updated_at = now()
  where r.payment_id = new.id and r.receipt is null and not exists (
    select from public.refunds as known
    where known.receipt = new.receipt and known.id <> r.id and known.status not in ('failed', 'withdrawn')
  );
  return new;
end
$$;

-- A payment that may be refunded. Locks its order first.
create or replace function private.refundable_payment(payment_id uuid) returns public.payments
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = refundable_payment.payment_id)
  for update;
  select * into paid from public.payments as p where p.id = refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if paid.refunded_at is not null or exists (
    select from public.refunds as r
    where (r.payment_id = paid.id or r.receipt = paid.receipt) and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if paid.status <> 'completed' or not (
    paid.needs_refund
    or paid.purpose = 'test'
    or paid_order.payment_status = 'needs_decision'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  return paid;
end
$$;

create or replace function private.open_refund(
  payment_id uuid, receipt text, refund_cents integer, reason text, member uuid
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
    payment_id, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    open_refund.payment_id, open_refund.receipt, open_refund.refund_cents, trim(open_refund.reason), 'reversal',
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
  return private.open_refund(paid.id, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund(uuid, text) is
  'A member of staff asks to send a payment''s money back by M-PESA, all of it. Up to store_settings.refund_approval_above it is sent next; above, it waits for another member.';

grant execute on function public.request_refund(uuid, text) to authenticated;

-- The reconciliation's history lists every refund of a payment, wherever it was requested or noted.
create or replace function private.record_refund_in_reconciliation(new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  select new.receipt, p.id, p.order_id, 'refund',
    case when new.method = 'by_hand' and new.refund_receipt is not null
      then format('By hand, receipt %s: %s', new.refund_receipt, new.reason) else new.reason end,
    new.requested_by, new.requested_by_email
  from public.payments as p
  where p.id = new.payment_id and p.purpose = 'order';
end
$$;

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

-- Sending refunds: reversals asked of M-PESA, and their results.

create or replace function private.complete_refund(refund_id uuid, refund_receipt text) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  done public.refunds;
begin
  update public.refunds as r
  set status = 'completed',
      refund_receipt = coalesce(r.refund_receipt, complete_refund.refund_receipt),
      next_check_at = null,
      completed_at = coalesce(r.completed_at, now()),
      updated_at = now()
  where r.id = complete_refund.refund_id
  returning * into strict done;
  update public.payments as p
  set refunded_at = coalesce(p.refunded_at, done.completed_at), refund_receipt = coalesce(p.refund_receipt, done.refund_receipt),
      updated_at = now()
  where p.id = done.payment_id;
  return done;
end
$$;

comment on function private.complete_refund(uuid, text) is 'Its order, payment and row must be locked.';

create or replace function private.checked_refund_receipt(typed text) returns text
language plpgsql
set search_path = ''
as $$
declare
  code text := upper(regexp_replace(checked_refund_receipt.typed, '\s', '', 'g'));
begin
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  -- Settlements take the same lock for their receipts.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code) then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  end if;
  if exists (select from public.refunds as r where r.refund_receipt = code) then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

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

create or replace function public.statement_status() returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  return jsonb_build_object(
    'checked_at', clock_timestamp(),
    'till_registered_at', (select r.registered_at from private.mpesa_registrations as r where r.kind = 'till'),
    'statement_registered_at', (select r.registered_at from private.mpesa_registrations as r where r.kind = 'statement'),
    'last_confirmation_at', (select max(t.heard_by_confirmation_at) from public.mpesa_transactions as t
      where t.transacted_at > now() - interval '30 days'),
    'last_complete_at', (select max(s.finished_at) from public.statement_pulls as s where s.outcome = 'complete'),
    'covered_until', (select max(s.window_to) from public.statement_pulls as s where s.outcome = 'complete'),
    'problem', (
      select s.problem from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1
    ),
    'missed', coalesce((
      select jsonb_agg(jsonb_build_object('from', s.missed_since, 'to', s.window_from) order by s.id desc)
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    ), '[]'),
    -- Stored callbacks and confirmations that could not be settled.
    'left', (
      select count(*) from public.payment_messages as m
      where (m.outcome = 'fault' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes'
    ),
    'unmatched', (
      select count(*) from public.mpesa_transactions as t
      where t.payment_id is null and t.resolution is null
    )
  );
end
$$;

comment on function public.statement_status() is
  'For staff: whether M-PESA tells us of money by confirmations and by its statement, until when the statement is read, what of the last 14 days no statement will ever tell, and how much of what it told could not be settled (left).';

grant execute on function public.statement_status() to authenticated, service_role;

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
      and not exists (select from public.payments as k where k.id = t.payment_id and k.purpose = 'test')
  ),
  ours as (
    select p.id
    from public.payments as p
    where p.status = 'completed' and p.purpose = 'order'
      and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
    union all
    select p.id
    from public.payments as p
    where (p.status = 'review' or (p.status = 'failed' and exists (
        -- Looked at, and ended by that.
        select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted'
      )))
      and p.purpose = 'order' and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
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
    if money.purpose = 'test' then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    end if;
    if told.receipt is null or told.payment_id is not null or told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if told.received_cents < 100 or told.received_cents % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
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

create or replace function private.forget_order_details() returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  kept_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.created_at < kept_since and private.money_under_way(o.id) is null
    order by o.created_at limit 1000
    for update skip locked
  ) || array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.erasure_requested_at is not null and private.reason_to_keep(o.id) is null
    limit 1000
    for update skip locked
  );
begin
  -- Checked again under the lock: a payment may have begun in the meantime.
  perform private.anonymise_orders(array(
    select id from unnest(due) as id where private.money_under_way(id) is null
  ));
  update public.payments as p set phone = '' where p.purpose = 'test' and p.created_at < kept_since and p.phone <> '';
end
$$;

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  person record;
  known_as text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  known_as := coalesce(person.email, person.phone);
  order_ids := private.orders_of_person(person.email, person.phone);
  answer := jsonb_build_object(
    'identifier', known_as,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
          'status', o.status, 'payment_status', o.payment_status,
          'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
          'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
          'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
          'erasure_requested_at', o.erasure_requested_at,
          'reason_to_keep', private.reason_to_keep(o.id),
          'items', coalesce((
            select jsonb_agg(
              jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
              order by i.created_at, i.id
            )
            from public.order_items as i where i.order_id = o.id
          ), '[]'::jsonb),
          'payments', coalesce((
            select jsonb_agg(private.describe_payment(p.id) order by p.created_at)
            from public.payments as p where p.order_id = o.id
          ), '[]'::jsonb),
          -- Who delivered is another person's data.
          'delivery', (
            select jsonb_build_object(
              'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
            )
            from public.deliveries as d where d.order_id = o.id
          ),
          'history', coalesce((
            select jsonb_agg(jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at) order by e.id)
            from public.order_events as e where e.order_id = o.id
          ), '[]'::jsonb),
          'messages', coalesce((
            select jsonb_agg(private.describe_message(m) order by m.created_at)
            from public.outbox_messages as m where m.order_id = o.id
          ), '[]'::jsonb)
        )
        order by o.created_at desc, o.id
      )
      from public.orders as o where o.id = any (order_ids)
    ), '[]'::jsonb),
    'payments_for_others', coalesce((
      select jsonb_agg(private.describe_payment(p.id) order by p.created_at)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
    ), '[]'::jsonb),
    'inquiries', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'created_at', i.created_at, 'name', i.name, 'email', i.email, 'phone', i.phone, 'subject', i.subject, 'message', i.message
        )
        order by i.created_at desc
      )
      from public.inquiries as i
      where lower(i.email) = person.email or private.read_phone(i.phone) = person.phone
    ), '[]'::jsonb),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', coalesce((
      select jsonb_agg(private.describe_message(m) order by m.created_at)
      from public.outbox_messages as m where m.order_id is null and lower(m.recipient) = person.email
    ), '[]'::jsonb),
    -- The same customer may have used others, which are asked for separately.
    'also_used', coalesce((
      select jsonb_agg(distinct other.identifier)
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> known_as
    ), '[]'::jsonb),
    'earlier_requests', coalesce((
      select jsonb_agg(
        jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts) order by r.id desc
      )
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(known_as) and r.kind = 'erasure'
    ), '[]'::jsonb)
  );
  perform private.log_personal_data_request('export', known_as, jsonb_build_object(
    'orders', cardinality(order_ids),
    'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person(text) is
  'For staff: everything the shop holds about a phone (in any Kenyan spelling) or an e-mail address. Amounts in cents. reason_to_keep says why an order cannot be anonymised yet. Logged.';

grant execute on function public.export_person(text) to authenticated, service_role;

create or replace function public.erase_person(identifier text) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  person record;
  known_as text;
  order_ids uuid[];
  closed uuid[];
  erased jsonb;
  postponed jsonb;
  touched integer;
begin
  perform private.expect_staff();
  select * into person from private.read_person(erase_person.identifier);
  known_as := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and (lower(o.customer_email) = person.email or o.customer_phone = person.phone
      or exists (select from public.payments as p where p.order_id = o.id and p.phone = person.phone))
    order by o.id
    for no key update
  );

  closed := array(
    select o.id from public.orders as o
    where o.id = any (order_ids) and (lower(o.customer_email) = person.email or o.customer_phone = person.phone)
      and private.reason_to_keep(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased := jsonb_build_object('orders', cardinality(closed));
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.reason_to_keep(p.order_id) is null;
  get diagnostics touched = row_count;
  erased := erased || jsonb_build_object('payments_for_others', touched);
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.reason_to_keep(e.order_id) is null;
  update public.payments as p set phone = ''
  where p.purpose = 'test' and p.phone = person.phone and p.status not in ('initiating', 'processing');

  delete from public.inquiries as i where lower(i.email) = person.email or private.read_phone(i.phone) = person.phone;
  get diagnostics touched = row_count;
  erased := erased || jsonb_build_object('inquiries', touched);
  -- Its mails go with it.
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics touched = row_count;
  erased := erased || jsonb_build_object('newsletter', touched);

  postponed := coalesce((
    select jsonb_agg(
      jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'reason', private.reason_to_keep(o.id),
        'is_own', coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
      )
      order by o.created_at desc
    )
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.reason_to_keep(o.id) is not null
  ), '[]'::jsonb);
  perform private.log_personal_data_request(
    'erasure', known_as, erased || jsonb_build_object('postponed', jsonb_array_length(postponed))
  );
  return jsonb_build_object('identifier', known_as, 'erased', erased, 'postponed', postponed);
end
$$;

comment on function public.erase_person(text) is
  'For staff: anonymises the orders of a phone or e-mail address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason; own ones (is_own) are anonymised once they are closed, for the others the request has to be repeated. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

grant execute on function public.erase_person(text) to authenticated, service_role;

create or replace function public.system_status() returns table (
  checked_at timestamptz,
  last_backup_at timestamptz,
  last_backup_outcome text,
  last_attempt_at timestamptz,
  last_attempt_outcome text,
  last_attempt_problem text,
  last_payment_answer_at timestamptz,
  overdue_payments bigint
)
language sql stable security definer
set search_path = ''
as $$
  select private.expect_staff();
  select
    clock_timestamp(),
    made.finished_at,
    made.outcome,
    tried.finished_at,
    tried.outcome,
    tried.problem,
    (select m.received_at from public.payment_messages as m order by m.id desc limit 1),
    (
      select count(*) from public.payments as p
      where p.purpose = 'order' and p.status in ('initiating', 'processing') and p.created_at < now() - interval '5 minutes'
    )
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;

comment on function public.system_status() is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, and prompts open for more than five minutes.';

grant execute on function public.system_status() to authenticated;

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
    select p.charge_cents, p.completed_at from public.payments as p where p.status = 'completed' and p.purpose = 'order'
    union all
    select -r.refund_cents, r.completed_at
    from public.refunds as r
    join public.payments as p on p.id = r.payment_id and p.purpose = 'order'
    where r.status = 'completed'
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

-- Payments and refunds

create or replace function private.before_payment_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if new.purpose = 'test' then
    return new;
  end if;
  if tg_op = 'INSERT' and new.status = 'initiating' and new.method = 'prompt' then
    perform private.refuse_same_amount(new);
    perform private.refuse_prompt_in_pause();
  end if;
  if new.receipt is not null then
    new := private.move_refund_with_receipt(new);
  end if;
  return new;
end
$$;

create or replace function private.after_payment_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  -- A test pays no order, so nothing follows but that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_followers_of_order(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if old.status <> new.status and new.method = 'prompt' and new.status in ('completed', 'failed') then
    perform private.pause_prompts(new);
  end if;
  if new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)) then
    perform private.refund_order_of_payment(new);
  end if;
  if old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
    old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
  )) then
    perform private.notify_followers_of_order(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

-- Metrics: figures of the shop for monitoring (docs/monitoring.md).

create or replace function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer
set search_path = ''
as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the shop.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and p.status in ('initiating', 'processing')
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status in ('initiating', 'processing')
  union all
  select 'payments_completed_last_day', null, count(*)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed' and p.completed_at > now() - interval '1 day'
  union all
  select 'payment_last_completed_timestamp_seconds', null, coalesce(extract(epoch from max(p.completed_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed'
  union all
  select 'transactions_without_payment', null, count(*)
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  ) + (select count(*) from public.payment_messages as m where m.outcome = 'fault')
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    select m.received_at from public.payment_messages as m where m.source = known.source order by m.id desc limit 1
  )), 0)
  from unnest(array['notice', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause as pause where pause.until > now()
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and r.status not in ('completed', 'failed', 'withdrawn')
  )
  from unnest(array['requested', 'approved', 'sending', 'sent', 'unknown']) as known (status)
  union all
  select 'outbox_waiting', known.channel, (select count(*) from private.outbox_queue as q where q.channel = known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_oldest_due_seconds', known.channel, greatest(0, coalesce(extract(epoch from now() - (
    select min(q.due_at) from private.outbox_queue as q where q.channel = known.channel
  )), 0))
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_failed_last_day', known.status, (
    select count(*) from public.outbox_messages as m
    where m.status = known.status and m.created_at > now() - interval '1 day'
  )
  from unnest(array['failed', 'unsure', 'over_budget']) as known (status)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;

comment on function public.shop_metrics() is
  'Figures of the whole shop for monitoring: name of the metric, value of its label (null where it has none), value.';

grant execute on function public.shop_metrics() to service_role;

-- Tests, their messages, refunds and addresses move to the payments.
insert into public.payments (
  id, purpose, phone, charge_cents, status, result_code, result_description, receipt, merchant_request_id, checkout_request_id,
  requested_by, requested_by_email, query_count, next_query_at, refunded_at, refund_receipt, created_at, updated_at, completed_at
)
select t.id, 'test', t.phone, t.charge_cents, t.status, t.result_code, t.result_description, t.receipt, t.merchant_request_id,
  t.checkout_request_id, t.requested_by, t.requested_by_email, t.query_count, t.next_query_at, t.refunded_at, t.refund_receipt,
  t.created_at, t.updated_at, t.completed_at
from public.payment_tests as t;
insert into private.payment_secrets (payment_id, notice_secret)
select s.test_id, s.notice_secret from private.payment_test_secrets as s;
update public.payment_messages as m set payment_id = m.test_id where m.test_id is not null;
update public.refunds as r set payment_id = r.test_id, test_id = null where r.test_id is not null;
set constraints all immediate;

alter table public.payment_messages drop column test_id;
alter table public.refunds drop constraint "a refund is of one thing";
alter table public.refunds drop column test_id;
alter table public.refunds add constraint "a refund is of one thing" check (num_nonnulls(payment_id, transaction_receipt) = 1);
comment on table public.refunds is
  'Money that is sent back: of a payment, or that nobody knows what it was for (transaction_receipt). receipt is M-PESA''s of the money that came in, refund_receipt the one of its way back. unknown: it may have been sent, M-PESA is asked and nothing is sent again.';
drop table private.payment_test_secrets;
drop table public.payment_tests;
