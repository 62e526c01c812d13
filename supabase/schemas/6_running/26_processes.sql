-- What the shop's processes ask: which jobs have work, and whether the database fits their version

create function private.is_job_due(job text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that do or lease the work, such as lease_payment_queries.
  return case is_job_due.job
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or private.is_open_attempt(p.status)
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where private.is_unsent_refund(r.status)
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
    ) or exists (select from private.alerts_to_send()) or exists (
      select from public.outbox_messages as m where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    )
    when 'send-notices' then exists (select from private.push_queue as q where q.due_at <= now())
      or exists (select from private.newly_late_orders())
      or exists (select from private.delays_to_announce())
      or not exists (select from private.push_keys)
    else false
  end;
end
$$;
comment on function private.is_job_due is 'Whether a job of the shop''s processes has work now.';

create function private.claim_job(job text) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  every constant interval := case
    when claim_job.job in ('query-open', 'send-refunds') then interval '3 seconds'
    when claim_job.job in ('take-up-till', 'expire-reservations') then interval '30 seconds'
    when claim_job.job = 'pull-statement' then interval '1 minute'
    -- All processes send: each leases messages of its own.
    when claim_job.job in ('send-messages', 'send-notices') then interval '0'
  end;
begin
  if every is null then
    return false;
  end if;
  if private.is_job_due(claim_job.job) then
    return every = interval '0' or private.count_hit('jobs', claim_job.job, every) = 1;
  end if;
  -- Every 10 minutes in any case, in case is_job_due misses a condition.
  return private.hits_so_far('idle_jobs', claim_job.job, interval '10 minutes') = 0
    and private.count_hit('idle_jobs', claim_job.job, interval '10 minutes') = 1;
end
$$;
comment on function private.claim_job is
  'Whether the calling process should run this job now: one process once per interval while there is work, else once in 10 minutes.';

create function public.claim_due_jobs(busy text[] default '{}') returns text[]
language sql volatile security definer set search_path = '' as $$
  -- Always in this order, so that two processes cannot deadlock.
  select array(
    select wanted.job
    from unnest(array[
      'query-open', 'send-refunds', 'take-up-till', 'pull-statement', 'expire-reservations', 'send-messages', 'send-notices'
    ])
      with ordinality as wanted (job, position)
    where case when wanted.job = any(busy) then false else private.claim_job(wanted.job) end
    order by wanted.position
  );
$$;
comment on function public.claim_due_jobs is
  'The jobs that the calling process should run now, except busy ones, which it runs already. One call for all jobs: a hosted project counts and bills requests.';

create function public.claim_payment_job(action text) returns boolean
language sql volatile security definer set search_path = '' as $$
  select private.claim_job(claim_payment_job.action);
$$;
comment on function public.claim_payment_job is
  'claim_due_jobs for one job. Only processes of earlier versions call it, which run until an update has reached all.';

create function public.applied_migrations() returns text[]
language plpgsql stable security definer set search_path = '' as $$
declare
  applied text[];
begin
  -- The Supabase CLI keeps this table on a hosted project, the shop itself elsewhere.
  if to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select array_agg(version order by version) from supabase_migrations.schema_migrations' into applied;
  elsif to_regclass('platform.schema_migrations') is not null then
    execute $query$
      select array_agg(substring(version from '^\d{14}') order by version)
      from platform.schema_migrations where version ~ '^\d{14}'
    $query$ into applied;
  end if;
  return coalesce(applied, '{}');
end
$$;
comment on function public.applied_migrations is 'Timestamps of the applied migrations, for `npm run hosted:check`.';

grant execute on function public.claim_due_jobs, public.claim_payment_job, public.applied_migrations to service_role;
