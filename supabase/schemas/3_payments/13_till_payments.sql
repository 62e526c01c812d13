-- M-PESA's messages, payments without a prompt, and M-PESA's statement (docs/decisions/money-without-a-prompt.md).

-- Messages about money

create table public.payment_messages (
  id bigint generated always as identity primary key,
  payment_id uuid references public.payments (id) on delete cascade,
  source text not null,
  source_address text,
  body text not null,
  outcome text,
  received_at timestamptz not null default now(),
  receipt text,
  refund_id uuid references public.refunds (id) on delete cascade,
  constraint "a message has a known source" check (source in (
    'push', 'callback', 'query', 'till', 'confirmation', 'statement',
    'reversal', 'reversal_result', 'reversal_timeout', 'status_query', 'status_result'
  ))
);
comment on table public.payment_messages is 'M-PESA''s messages about money, verbatim, stored before they are processed.';
comment on column public.payment_messages.receipt is
  'Receipt that the message names. A message moves with its receipt to another payment.';
alter table public.payment_messages enable row level security;
grant select on public.payment_messages to authenticated;
create policy "staff read every payment message" on public.payment_messages
  for select to authenticated using ((select public.may('reconciliation')));
create index payment_messages_by_payment on public.payment_messages (payment_id);
create index payment_messages_unprocessed on public.payment_messages (id)
  where source in ('callback', 'confirmation') and outcome is null;
create index payment_messages_by_refund on public.payment_messages (refund_id) where refund_id is not null;
create index payment_messages_latest_by_source on public.payment_messages (source, id desc);
create index payment_messages_with_bodies on public.payment_messages (received_at) where body <> '{}';
create index payment_messages_that_decided_nothing on public.payment_messages (received_at)
  where source = 'query' and outcome = 'pending';

create function public.store_callback(callback_secret text, body text, source_address text default null)
returns table (message_id bigint, payment_id uuid)
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (payment_id, source, body, source_address)
  select s.payment_id, 'callback', store_callback.body, store_callback.source_address
  from private.payment_secrets as s where s.callback_secret = store_callback.callback_secret
  returning id, payment_id;
$$;
comment on function public.store_callback is
  'Stores a callback before it is settled: M-PESA sends it once. No row: no payment has this secret in its callback URL.';

create function public.list_unsettled_callbacks(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null
    and m.source = 'callback' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unsettled_callbacks.at_most;
$$;
comment on function public.list_unsettled_callbacks is
  'Stored callbacks that were not settled, because a process ended or the database was unavailable.';

-- Manual payments, confirmed by their receipt

create table private.till_secret (
  id boolean primary key default true check (id),
  secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now()
);
comment on table private.till_secret is 'Secret part of the URL for confirmations. One row, because the URL is registered once.';
alter table private.till_secret enable row level security;

create function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false,
  although_not_reported boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  if known.id is null and not coalesce(confirm_till_payment.although_not_reported, false)
    and private.should_be_reported(confirmed_order.id)
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
  then
    perform private.refuse(409, 'receipt_not_reported',
      'M-PESA has not reported this receipt yet. Check it in the till''s own messages before you confirm it');
  end if;
  received := private.reported_amount(code, received);
  known := private.add_till_payment(confirmed_order.id, received, member);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform private.postpone_messages(confirmed_order.id);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;
comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid. although_not_reported: consent to a receipt that M-PESA should have reported and has not (receipt_not_reported otherwise).';

create function public.store_confirmation(body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (source, body, source_address)
  values ('confirmation', body, source_address)
  returning id;
$$;
comment on function public.store_confirmation is
  'Stores a confirmation verbatim before it is processed. Returns its id for receive_mpesa_transaction.';

create function public.list_unprocessed_confirmations(at_most integer default 50) returns table (id bigint, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.body from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null
    and m.source = 'confirmation' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unprocessed_confirmations.at_most;
$$;
comment on function public.list_unprocessed_confirmations is
  'Stored confirmations that were not processed, because a process ended or the database was unavailable.';

create function public.validate_till_payment(reference text, offered_cents integer) returns text
language sql stable security definer set search_path = '' as $$
  select case
    when not s.refuses_unknown_payments then 'accepted'
    when private.is_whole_shillings(validate_till_payment.offered_cents) is not true then 'amount'
    when private.order_of_reference(validate_till_payment.reference) is null then 'reference'
    when exists (
      select from public.orders as o
      where o.id = private.order_of_reference(validate_till_payment.reference)
        and validate_till_payment.offered_cents <> o.charge_cents
    ) then 'amount'
    else 'accepted'
  end
  from public.store_settings as s;
$$;
comment on function public.validate_till_payment is
  'Whether M-PESA may accept a manual payment: accepted, or what is wrong (reference, amount). Always accepted unless the settings refuse unknown payments.';

create function public.read_till_secret() returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into private.till_secret default values on conflict do nothing;
  return (select t.secret from private.till_secret as t);
end
$$;
comment on function public.read_till_secret is 'The secret of the till''s URLs. The first call creates it.';

create function private.read_receipt(typed text) returns text
language plpgsql stable set search_path = '' as $$
declare
  code text := private.normalised_receipt(typed);
begin
  if code is null then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  return code;
end
$$;
comment on function private.read_receipt is
  'An M-PESA receipt that staff typed, in capitals and without spaces. Refuses anything else.';

create function private.reported_amount(receipt text, typed_cents integer) returns integer
language sql stable set search_path = '' as $$
  select coalesce((
    select t.received_cents from public.mpesa_transactions as t
    where t.receipt = reported_amount.receipt and private.is_whole_shillings(t.received_cents)
      and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
  ), typed_cents);
$$;
comment on function private.reported_amount is 'The amount that M-PESA reported for a receipt, else the amount that staff typed.';

create function private.check_receipt_is_free(receipt text, is_new boolean) returns void
language plpgsql stable set search_path = '' as $$
begin
  if exists (select from public.payments as p where p.receipt = check_receipt_is_free.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif is_new and private.is_being_refunded(null, check_receipt_is_free.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif is_new and private.was_reversed(check_receipt_is_free.receipt) then
    perform private.refuse(409, 'money_reversed', 'M-PESA has taken this money back. It pays no order');
  -- Customers quote the message about their refund as a payment. What M-PESA has reported as received was received all the same.
  elsif is_new and (
    exists (select from public.refunds as r where r.refund_receipt = check_receipt_is_free.receipt)
    or exists (select from public.change_notes as c where c.receipt = check_receipt_is_free.receipt)
  ) and not exists (select from public.mpesa_transactions as t where t.receipt = check_receipt_is_free.receipt) then
    perform private.refuse(409, 'receipt_of_refund', 'This is the receipt of money that went back to a customer. It pays no order');
  end if;
end
$$;
comment on function private.check_receipt_is_free is
  'Refuses the receipt of a payment test, and a new one whose money is being refunded or was reversed, or with which the shop sent money back.';

create function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for no key update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = known.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (private.is_in_shop(paid_order.status) or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', private.email_of(member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received not in (known.charge_cents, paid_order.charge_cents) then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform private.postpone_messages(paid_order.id);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;
comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order is paid when the amount is its charge, otherwise it needs review.';

-- Pulls of M-PESA's statement of the last 48 hours

create table public.statement_pulls (
  id bigint generated always as identity primary key,
  window_from timestamptz not null,
  window_to timestamptz not null,
  missed_since timestamptz,
  outcome text not null default 'running',
  payments integer,
  new_payments integer,
  unreadable integer,
  problem text,
  started_at timestamptz not null default now(),
  leased_until timestamptz not null,
  finished_at timestamptz,
  constraint "a window has a length" check (window_from < window_to),
  constraint "an outcome of a pull is known" check (outcome in ('running', 'complete', 'failed')),
  constraint "a pull that ended has a time" check ((outcome = 'running') = (finished_at is null))
);
comment on table public.statement_pulls is
  'Pulls of M-PESA''s statement, which covers 48 hours. missed_since: no pull covers the time from missed_since to window_from.';
comment on column public.statement_pulls.new_payments is 'Payments that no earlier statement listed.';
alter table public.statement_pulls enable row level security;
grant select on public.statement_pulls to authenticated;
grant select (id) on public.statement_pulls to anon;
create policy "staff read every pull" on public.statement_pulls for select to authenticated using ((select public.may('reconciliation')));
create unique index "one pull at a time" on public.statement_pulls ((true)) where outcome = 'running';
create index statement_pulls_that_are_complete on public.statement_pulls (window_to desc) where outcome = 'complete';
create index statement_pulls_with_gaps on public.statement_pulls (window_from) where missed_since is not null;
create index statement_pulls_by_window on public.statement_pulls using gist (tstzrange(window_from, window_to)) where outcome = 'complete';

create function public.lease_statement_pull(every interval default '30 minutes') returns setof public.statement_pulls
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  covered_until timestamptz;
  reach timestamptz := now() - interval '48 hours';
begin
  perform pg_advisory_xact_lock(hashtext('lease_statement_pull'));
  if not exists (select from private.mpesa_registrations as r where r.kind = 'statement') then
    return;
  end if;
  -- The process with the lease ended.
  update public.statement_pulls as s
  set outcome = 'failed', problem = 'It was begun and never ended', finished_at = now()
  where s.outcome = 'running' and s.leased_until < now();
  if exists (
    select from public.statement_pulls as s
    where s.outcome = 'running'
      or (s.outcome = 'complete' and s.finished_at > now() - lease_statement_pull.every)
      -- A failed pull is retried after five minutes at the earliest.
      or (s.outcome = 'failed' and s.finished_at > now() - least(lease_statement_pull.every, interval '5 minutes'))
  ) then
    return;
  end if;
  select max(s.window_to) into covered_until from public.statement_pulls as s where s.outcome = 'complete';
  return query insert into public.statement_pulls (window_from, window_to, missed_since, leased_until)
  values (
    -- Overlapping, for late entries. A little less than 48 hours, since clocks differ.
    greatest(covered_until - interval '3 hours', reach + interval '5 minutes'),
    now(),
    case when covered_until < reach + interval '5 minutes' then covered_until end,
    now() + interval '10 minutes'
  )
  returning *;
end
$$;
comment on function public.lease_statement_pull is
  'Leases the next pull to one process: from three hours before the end of the last complete pull, at most 48 hours. No row: none is due, or no statement is registered.';

create function public.extend_statement_pull(pull_id bigint) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  update public.statement_pulls as s
  set leased_until = now() + interval '10 minutes'
  where s.id = extend_statement_pull.pull_id and s.outcome = 'running';
  return found;
end
$$;
comment on function public.extend_statement_pull is 'Extends the lease of a pull. False: another process has taken it over.';

create function public.finish_statement_pull(
  pull_id bigint, payments integer default null, new_payments integer default null, unreadable integer default null,
  problem text default null
) returns void
language sql volatile security definer set search_path = '' as $$
  update public.statement_pulls as s
  set outcome = case when finish_statement_pull.problem is null then 'complete' else 'failed' end,
      payments = finish_statement_pull.payments, new_payments = finish_statement_pull.new_payments,
      unreadable = finish_statement_pull.unreadable, problem = finish_statement_pull.problem, finished_at = now()
  where s.id = finish_statement_pull.pull_id and s.outcome = 'running';
  -- Pulls are stored for half a year, those with gaps forever.
  delete from public.statement_pulls as s
  where s.started_at < now() - interval '190 days' and s.missed_since is null;
$$;
comment on function public.finish_statement_pull is
  'Ends a pull: complete if all payments of its window were received, else failed with the problem; then its window is pulled again.';

create function private.statement_coverage(period tstzrange) returns tstzmultirange
language sql stable set search_path = '' as $$
  select coalesce(range_agg(tstzrange(s.window_from, s.window_to)), '{}'::tstzmultirange)
  from public.statement_pulls as s
  where s.outcome = 'complete' and tstzrange(s.window_from, s.window_to) && statement_coverage.period;
$$;
comment on function private.statement_coverage is 'The time within a period, and around it, that complete pulls cover.';

create type public.period as (starts_at timestamptz, ends_at timestamptz);

create type public.statement_status as (
  checked_at timestamptz, till_registered_at timestamptz, statement_registered_at timestamptz,
  last_confirmation_at timestamptz, last_complete_at timestamptz, covered_until timestamptz, problem text,
  missed public.period[], unsettled_messages bigint, unmatched bigint, to_check bigint, unconfirmed bigint,
  waiting_since timestamptz
);
comment on type public.statement_status is
  'missed: gaps of the last 14 days. unsettled_messages: callbacks and confirmations that could not be settled. unmatched: money without a payment. to_check: messages_to_check that wait. unconfirmed: receipts of the last 14 days that staff typed and M-PESA should have reported (private.is_unconfirmed), and that no refund sends back. waiting_since: time of the oldest of unmatched and unconfirmed.';

create function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff('panel');
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
  select count(*), min(t.transacted_at) into status.unmatched, status.waiting_since
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  select count(*), least(status.waiting_since, min(p.completed_at)) into status.unconfirmed, status.waiting_since
  from public.payments as p
  where p.method = 'till' and p.confirmed_by is not null and p.completed_at > now() - interval '14 days'
    and private.is_unconfirmed(p)
    and not exists (select from public.refunds as r where r.payment_id = p.id and not private.is_dropped_refund(r.status));
  return status;
end
$$;
comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

create function public.record_mpesa_registration(kind text, api_version text default null) returns void
language sql volatile security definer set search_path = '' as $$
  insert into private.mpesa_registrations as known (kind, api_version)
  values (record_mpesa_registration.kind, record_mpesa_registration.api_version)
  on conflict (kind) do update set registered_at = now(), api_version = coalesce(excluded.api_version, known.api_version);
$$;
comment on function public.record_mpesa_registration is
  'Records that M-PESA accepted a registration: till (confirmations) or statement. From then on the statement is pulled. api_version: of the C2B API.';

create function public.till_registration() returns table (registered_at timestamptz, api_version text)
language sql stable security definer set search_path = '' as $$
  select r.registered_at, r.api_version from private.mpesa_registrations as r where r.kind = 'till';
$$;
comment on function public.till_registration is 'When the addresses for confirmations were registered, and by which version of C2B. No row: not yet.';

create function public.begin_till_registration() returns void
language plpgsql security definer set search_path = '' as $$
begin
  if private.count_hit('till_registrations', 'all', interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_registrations', 'The addresses were registered ten times within an hour. Please wait before the next time');
  end if;
end
$$;
comment on function public.begin_till_registration is
  'Counts a registration of the till''s addresses from the panel; refuses more than ten an hour, of all staff together.';

-- Execution rights
grant execute on function public.begin_till_registration, public.record_mpesa_registration, public.till_registration to service_role;
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;
grant execute on function public.store_callback, public.list_unsettled_callbacks, public.store_confirmation, public.list_unprocessed_confirmations, public.validate_till_payment,
  public.read_till_secret, public.lease_statement_pull, public.extend_statement_pull, public.finish_statement_pull
  to service_role;
