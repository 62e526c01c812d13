-- Statement pulls: reading M-PESA's statement of the last 48 hours.

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
create policy "staff read every pull" on public.statement_pulls for select to authenticated using ((select public.is_admin()));
create unique index "one pull at a time" on public.statement_pulls ((true)) where outcome = 'running';
create index statement_pulls_that_are_complete on public.statement_pulls (window_to desc) where outcome = 'complete';

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

create function private.statement_coverage() returns tstzmultirange
language sql stable set search_path = '' as $$
  select coalesce(range_agg(tstzrange(s.window_from, s.window_to)), '{}'::tstzmultirange)
  from public.statement_pulls as s
  where s.outcome = 'complete';
$$;
comment on function private.statement_coverage is 'The time that complete pulls cover.';

create type public.period as (starts_at timestamptz, ends_at timestamptz);

create type public.statement_status as (
  checked_at timestamptz, till_registered_at timestamptz, statement_registered_at timestamptz,
  last_confirmation_at timestamptz, last_complete_at timestamptz, covered_until timestamptz, problem text,
  missed public.period[], unsettled_messages bigint, unmatched bigint
);
comment on type public.statement_status is
  'missed: gaps of the last 14 days. unsettled_messages: callbacks and confirmations that could not be settled. unmatched: money without a payment.';

create function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
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
  select max(s.finished_at), max(s.window_to) into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete';
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from public.statement_pulls as s
    where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where (m.outcome = 'error' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  return status;
end
$$;
comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.lease_statement_pull, public.extend_statement_pull, public.finish_statement_pull to service_role;
grant execute on function public.statement_status to authenticated, service_role;
