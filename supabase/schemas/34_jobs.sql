-- Background jobs: claims of calls of the payment function, by one process at a time.

create function private.is_payment_job_due(action text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that lease the work, such as lease_payment_queries.
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
      where m.outcome = 'error' and m.received_at < now() - interval '30 seconds'
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
comment on function private.is_payment_job_due is 'Whether the payment function has work for this action now.';

create function public.claim_payment_job(action text) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare
  every constant interval := case
    when claim_payment_job.action in ('query-open', 'send-refunds') then interval '3 seconds'
    when claim_payment_job.action = 'take-up-till' then interval '30 seconds'
    when claim_payment_job.action = 'pull-statement' then interval '1 minute'
  end;
begin
  if every is null then
    return false;
  end if;
  if private.is_payment_job_due(claim_payment_job.action) then
    return private.count_hit('payment_jobs', claim_payment_job.action, every) = 1;
  end if;
  -- Every 10 minutes in any case, in case is_payment_job_due misses a condition.
  return private.hits_so_far('idle_payment_jobs', claim_payment_job.action, interval '10 minutes') = 0
    and private.count_hit('idle_payment_jobs', claim_payment_job.action, interval '10 minutes') = 1;
end
$$;
comment on function public.claim_payment_job is
  'Whether the calling process should call the payment function with this action now: one process once per interval while there is work, else once in 10 minutes.';

-- Execution rights
grant execute on function public.claim_payment_job to service_role;
