-- Backups: what became of each, and the state of the shop's machinery as far as the database knows it.

create table public.backups (
  id bigint generated always as identity primary key,
  started_at timestamptz not null,
  finished_at timestamptz not null default now(),
  outcome text not null,
  file_name text,
  size bigint,
  problem text,
  constraint "an outcome of a backup is known" check (outcome in ('verified', 'readable', 'failed', 'impossible')),
  constraint "a backup that was made has a file" check ((outcome in ('verified', 'readable')) = (file_name is not null)),
  constraint "a backup that was not made says why" check ((outcome in ('failed', 'impossible')) = (problem is not null))
);
comment on table public.backups is
  'Every attempt to back the shop up. verified: restored elsewhere and compared; readable: read to its end, there was no place to restore it; failed; impossible: a program is missing.';
comment on column public.backups.size is 'Bytes.';
alter table public.backups enable row level security;
create policy "staff read every backup" on public.backups
  for select to authenticated using ((select public.is_admin()));
grant select on public.backups to authenticated;

create function public.record_backup(
  started_at timestamptz,
  outcome text,
  file_name text default null,
  size bigint default null,
  problem text default null
) returns void
language sql volatile security definer
set search_path = ''
as $$
  insert into public.backups (started_at, outcome, file_name, size, problem)
  values (record_backup.started_at, record_backup.outcome, record_backup.file_name, record_backup.size, record_backup.problem);
  -- Two per day for a year are kept.
  delete from public.backups as b where b.id <= (select max(id) - 730 from public.backups);
$$;
comment on function public.record_backup(timestamptz, text, text, bigint, text) is 'Writes down what became of a backup.';
grant execute on function public.record_backup(timestamptz, text, text, bigint, text) to service_role;

create function public.request_backup() returns void
language plpgsql volatile security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just asked for. Please wait a few minutes');
  end if;
  perform pg_catalog.pg_notify('backup_requests', '');
end
$$;
comment on function public.request_backup() is
  'Asks the shop for a backup now. Its outcome is a new row of backups. For staff and for programs with the secret key.';
grant execute on function public.request_backup() to authenticated, service_role;

create function public.system_status() returns table (
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
      where p.status in ('initiating', 'processing') and p.created_at < now() - interval '5 minutes'
    )
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;
comment on function public.system_status() is
  'What the database knows of the machinery: the last good backup and the last attempt, the last word of M-PESA, prompts open for more than five minutes. For staff.';
grant execute on function public.system_status() to authenticated;
