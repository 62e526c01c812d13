drop function public.system_status();

create or replace function public.system_status() returns table (
  checked_at timestamptz, last_backup_at timestamptz, last_backup_outcome text, last_attempt_at timestamptz,
  last_attempt_outcome text, last_attempt_problem text, last_payment_answer_at timestamptz, overdue_payments bigint,
  opened_at timestamptz
)
language sql stable security definer set search_path = '' as $$
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
    ),
    (select min(a.created_at) from public.admin_profiles as a)
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;

comment on function public.system_status is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, prompts open for more than five minutes, and when the first staff account was created.';

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures to authenticated;
