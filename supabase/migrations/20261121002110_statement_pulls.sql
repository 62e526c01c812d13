-- The statement of the last 48 hours, pulled by one process at a time; what no pull has covered is said plainly.

create table public.statement_pulls (
  id bigint generated always as identity primary key,
  window_from timestamptz not null,
  window_to timestamptz not null,
  missed_since timestamptz,
  outcome text not null default 'running',
  payments integer,
  news integer,
  unreadable integer,
  problem text,
  started_at timestamptz not null default now(),
  leased_until timestamptz not null,
  finished_at timestamptz,
  constraint "a window has a length" check (window_from < window_to),
  constraint "an outcome of a pull is known" check (outcome in ('running', 'complete', 'failed')),
  constraint "a pull that ended says when" check ((outcome = 'running') = (finished_at is null))
);
comment on table public.statement_pulls is
  'Every pull of M-PESA''s statement. missed_since: M-PESA gives 48 hours only, and from then until window_from no pull has seen anything.';
comment on column public.statement_pulls.news is 'How many of the payments no statement had told of before.';
alter table public.statement_pulls enable row level security;
create unique index "one pull at a time" on public.statement_pulls ((true)) where outcome = 'running';
create index statement_pulls_that_are_complete on public.statement_pulls (window_to desc) where outcome = 'complete';
create policy "staff read every pull" on public.statement_pulls
  for select to authenticated using ((select public.is_admin()));
grant select on public.statement_pulls to authenticated;
grant select (id) on public.statement_pulls to anon;

do $$
begin
  if exists (select from pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.statement_pulls;
  end if;
end
$$;

create table private.mpesa_registrations (
  kind text primary key,
  registered_at timestamptz not null default now(),
  constraint "a registration is known" check (kind in ('till', 'statement'))
);
comment on table private.mpesa_registrations is 'What M-PESA has confirmed: where it sends word of money, and that it gives us its statement.';
alter table private.mpesa_registrations enable row level security;

create function public.record_mpesa_registration(kind text) returns void
language sql volatile security definer
set search_path = ''
as $$
  insert into private.mpesa_registrations (kind) values (record_mpesa_registration.kind)
  on conflict (kind) do update set registered_at = now();
$$;
comment on function public.record_mpesa_registration(text) is
  'Notes that M-PESA took a registration: till (confirmations) or statement. The statement is pulled from then on.';

create function public.lease_statement_pull(every interval default '30 minutes') returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  covered_until timestamptz;
  reach timestamptz := now() - interval '48 hours';
  leased public.statement_pulls;
begin
  perform pg_advisory_xact_lock(hashtext('lease_statement_pull'));
  if not exists (select from private.mpesa_registrations as r where r.kind = 'statement') then
    return null;
  end if;
  -- Whoever held the lease is gone.
  update public.statement_pulls as s
  set outcome = 'failed', problem = 'It was begun and never ended', finished_at = now()
  where s.outcome = 'running' and s.leased_until < now();
  if exists (
    select from public.statement_pulls as s
    where s.outcome = 'running'
      or (s.outcome = 'complete' and s.finished_at > now() - lease_statement_pull.every)
      -- What failed is tried again sooner, but not at once.
      or (s.outcome = 'failed' and s.finished_at > now() - least(lease_statement_pull.every, interval '5 minutes'))
  ) then
    return null;
  end if;
  select max(s.window_to) into covered_until from public.statement_pulls as s where s.outcome = 'complete';
  insert into public.statement_pulls (window_from, window_to, missed_since, leased_until)
  values (
    -- Overlapping, for what M-PESA entered late. A little within its 48 hours, whose clock is not ours.
    greatest(covered_until - interval '3 hours', reach + interval '5 minutes'),
    now(),
    case when covered_until < reach + interval '5 minutes' then covered_until end,
    now() + interval '10 minutes'
  )
  returning * into leased;
  return to_jsonb(leased);
end
$$;
comment on function public.lease_statement_pull(interval) is
  'The stretch of M-PESA''s statement to pull now, leased to one process: from a few hours before where the last complete pull ended, at most 48 hours. Null when none is due, or when no statement is registered.';

create function public.extend_statement_pull(pull_id bigint) returns boolean
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  update public.statement_pulls as s
  set leased_until = now() + interval '10 minutes'
  where s.id = extend_statement_pull.pull_id and s.outcome = 'running';
  return found;
end
$$;
comment on function public.extend_statement_pull(bigint) is 'Whoever works on a pull still does. False when it was taken from him.';

create function public.finish_statement_pull(
  pull_id bigint,
  payments integer default null,
  news integer default null,
  unreadable integer default null,
  problem text default null
) returns void
language sql volatile security definer
set search_path = ''
as $$
  update public.statement_pulls as s
  set outcome = case when finish_statement_pull.problem is null then 'complete' else 'failed' end,
      payments = finish_statement_pull.payments,
      news = finish_statement_pull.news,
      unreadable = finish_statement_pull.unreadable,
      problem = finish_statement_pull.problem,
      finished_at = now()
  where s.id = finish_statement_pull.pull_id and s.outcome = 'running';
  -- Those of half a year are kept, and whatever missed something.
  delete from public.statement_pulls as s
  where s.started_at < now() - interval '190 days' and s.missed_since is null;
$$;
comment on function public.finish_statement_pull(bigint, integer, integer, integer, text) is
  'Ends a pull: complete when every payment of its window was received, failed with the problem otherwise; then its window is pulled again.';

create function public.receipts_unheard(receipts text[]) returns text[]
language sql stable security definer
set search_path = ''
as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_unheard.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = upper(trim(given.receipt)) and t.heard_by_statement_at is not null
  );
$$;
comment on function public.receipts_unheard(text[]) is 'Those of the receipts that no statement has told of yet.';

grant execute on function
  public.record_mpesa_registration(text),
  public.lease_statement_pull(interval),
  public.extend_statement_pull(bigint),
  public.finish_statement_pull(bigint, integer, integer, integer, text),
  public.receipts_unheard(text[])
to service_role;
