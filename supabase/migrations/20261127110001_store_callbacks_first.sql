-- Callbacks are stored and answered before they are settled. All processes, and the function of a hosted project, change with it.

update public.payment_messages set outcome = null where source = 'callback' and outcome = 'error';

drop function public.find_payment_by_secret(text);

drop function public.finish_failed_callback(bigint);

drop function public.list_failed_callbacks(integer);

drop function public.settle_payment(uuid,text,text,text,text,text,integer,text,text,text,text,text[],text);

drop function public.store_failed_callback(uuid,text,text);

drop index public.payment_messages_not_settled;

drop index public.payment_messages_unprocessed;

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  unreadable text[] default '{}', ended_by text default null, message_id bigint default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, private.normalised_receipt(receipt), merchant_request_id,
    checkout_request_id, coalesce(unreadable, '{}'), ended_by
  );
  reported_receipt text;
  stored_message bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  message_outcome text;
  settled_id uuid;
begin
  if report.result not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  if nullif(trim(settle_payment.receipt), '') is not null and report.receipt is null then
    report.unreadable := report.unreadable || array['receipt'];
  end if;
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for no key update;
  -- A query names no receipt; a message that contradicted itself may have named it.
  if report.result = 'succeeded' and report.receipt is null then
    reported_receipt := private.receipt_of_contradiction(settle_payment.payment_id);
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id, reported_receipt]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if settle_payment.message_id is null then
    insert into public.payment_messages (payment_id, source, source_address, body, receipt)
    values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
    returning id into stored_message;
  else
    update public.payment_messages as m set receipt = report.receipt
    where m.id = settle_payment.message_id and m.payment_id = attempt.id and m.outcome is null
    returning m.id into stored_message;
    if stored_message is null then
      -- Another process has settled it.
      select m.outcome into message_outcome from public.payment_messages as m where m.id = settle_payment.message_id;
      return (coalesce(message_outcome, 'unknown'), attempt)::public.settled_payment;
    end if;
  end if;

  if reported_receipt = private.receipt_of_contradiction(attempt.id) then
    report.receipt := reported_receipt;
  end if;
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_is_refunded => private.is_being_refunded(attempt.id),
    owner_is_refunded => private.is_being_refunded(receipt_owner.id)
  );

  if settlement.splits_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  settled_id := attempt.id;
  case settlement.decision
    when 'completes' then
      message_outcome := private.complete_attempt(attempt, report);
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents),
        'wrong_amount');
      perform private.store_mismatched_money(attempt, report);
    when 'contradiction' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported money and the result %s', coalesce(report.result_code, 'without a code')), 'contradiction');
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      perform private.store_mismatched_money(attempt, report);
    when 'confirmed_by_hand' then
      perform private.merge_receipt_owner(attempt, report, receipt_owner);
    when 'second_payment' then
      message_outcome := 'paid_twice';
      settled_id := private.add_second_payment(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = stored_message;
    when 'adds_details' then
      message_outcome := 'already_completed';
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  message_outcome := coalesce(message_outcome, settlement.decision);
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.match_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = stored_message;
  end if;
  if report.result = 'succeeded' and attempt.purpose = 'order' then
    perform private.correct_message_outcomes(m.payment_id) from public.payment_messages as m where m.id = stored_message;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  perform private.check_settled_message(attempt, report, settle_payment.body, settlement.decision);
  return (message_outcome, attempt)::public.settled_payment;
end
$$;

comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; a failure that names money needs review; every receipt stays in the books; an amount other than the charge needs review. message_id: the message is stored already (store_callback), and is settled once. unreadable: what the message has but cannot be read (code, receipt, amount): it waits for staff in messages_to_check.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

create index payment_messages_unprocessed on public.payment_messages (id)
  where source in ('callback', 'confirmation') and outcome is null;

create or replace function public.store_callback(callback_secret text, body text, source_address text default null)
returns table (message_id bigint, payment_id uuid)
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (payment_id, source, body, source_address)
  select s.payment_id, 'callback', store_callback.body, store_callback.source_address
  from private.payment_secrets as s where s.callback_secret = store_callback.callback_secret
  returning id, payment_id;
$$;

comment on function public.store_callback is
  'Stores a callback before it is settled: M-PESA sends it once. No row: no payment has this secret in its callback URL.';

create or replace function public.list_unsettled_callbacks(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null
    and m.source = 'callback' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unsettled_callbacks.at_most;
$$;

comment on function public.list_unsettled_callbacks is
  'Stored callbacks that were not settled, because a process ended or the database was unavailable.';

create or replace function public.list_unprocessed_confirmations(at_most integer default 50) returns table (id bigint, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.body from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null
    and m.source = 'confirmation' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unprocessed_confirmations.at_most;
$$;

comment on function public.list_unprocessed_confirmations is
  'Stored confirmations that were not processed, because a process ended or the database was unavailable.';

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff();
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  -- Windows end with the start of their pull, and one pull runs at a time: the last window is of the last pull.
  select s.finished_at, s.window_to into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete' order by s.window_to desc limit 1;
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from (select * from public.statement_pulls as gap where gap.missed_since is not null offset 0) as s
    where s.outcome = 'complete' and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

grant execute on function public.store_callback, public.list_unsettled_callbacks, public.store_confirmation, public.list_unprocessed_confirmations, public.validate_till_payment,
  public.read_till_secret, public.lease_statement_pull, public.extend_statement_pull, public.finish_statement_pull
  to service_role;

create or replace function private.clear_old_payment_messages() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s));
begin
  -- Responses without a result prove nothing.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- The time, payment and outcome stay. Messages that could not be settled yet stay complete.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < retained_since and old.body <> '{}' and old.outcome is not null
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < retained_since and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  -- Who resolved it, when and how stays; what waits stays complete.
  update public.messages_to_check as m
  set body = '{}', note = null
  where m.id in (
    select old.id from public.messages_to_check as old
    where old.received_at < retained_since and old.resolution is not null and old.body <> '{}'
    order by old.received_at limit 5000
    for update skip locked
  );
end
$$;

-- Metrics for monitoring (docs/monitoring.md)

create or replace function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
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
  select 'messages_to_check', null, count(*) from public.messages_to_check as m where m.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
  )
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    -- Not where source = known.source: with statistics the planner would read all messages backwards for one of a rare source.
    select m.received_at
    from (select * from public.payment_messages as m where m.source >= known.source order by m.source, m.id desc limit 1) as m
    where m.source = known.source
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause
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
  select 'messages_withheld', known.channel, private.withheld_messages(known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;

comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

-- What the shop's processes ask: which jobs have work, and whether the database fits their version

create or replace function private.is_job_due(job text) returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  -- The conditions of the functions that do or lease the work, such as lease_payment_queries.
  return case is_job_due.job
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or p.status in ('initiating', 'processing')
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
      where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    when 'expire-reservations' then exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
    ) or exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
    ) or exists (
      select from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
    ) or exists (select from public.payments as p where p.status = 'review')
    when 'send-messages' then exists (
      select from private.outbox_queue as q where q.channel = 'mail' and q.due_at <= now()
    ) or exists (
      select from private.outbox_queue as q where q.channel = 'text' and q.due_at <= now()
    ) or exists (
      select from public.outbox_messages as m where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    )
    else false
  end;
end
$$;

comment on function private.is_job_due is 'Whether a job of the shop''s processes has work now.';
