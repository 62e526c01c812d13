-- Payment health: the shared access token, pausing prompts while M-PESA refuses them, and the jobs that call the payment function.

-- The access token. A new token invalidates the previous one.

create unlogged table private.daraja_tokens (
  account text primary key,
  token text,
  fresh_until timestamptz,
  lease uuid,
  leased_until timestamptz
);
comment on table private.daraja_tokens is
  'Access token of each M-PESA account (a digest of its credentials), and the lease for requesting the next one.';
alter table private.daraja_tokens enable row level security;

-- Prompts pause when M-PESA reports that the shop's settings are wrong: customers see another way to pay, staff see the cause.
create table private.prompt_pause (
  id boolean primary key default true,
  code text not null,
  description text,
  times integer not null default 1,
  since timestamptz not null default now(),
  until timestamptz not null,
  caused_by text not null,
  probe_at timestamptz,
  constraint "there is one pause" check (id)
);
comment on table private.prompt_pause is
  'Until when no prompt is sent, and the response that caused the pause. Then one prompt is sent as a probe: a success ends the pause, the same error extends it.';
comment on column private.prompt_pause.caused_by is 'Phone of the last failed prompt.';
comment on column private.prompt_pause.probe_at is 'When the probe was sent. Null: no open probe.';
alter table private.prompt_pause enable row level security;

create table private.failed_prompts (
  phone text primary key,
  at timestamptz not null
);
comment on table private.failed_prompts is
  'Phones whose prompts failed with a code about the shop''s account, since the last success. One phone proves nothing, since it may be the cause.';
alter table private.failed_prompts enable row level security;

create type public.daraja_token_lease as (state text, token text, fresh_for_ms bigint, lease uuid);
comment on type public.daraja_token_lease is
  'state: fresh (token is valid for fresh_for_ms), request (the lease to request the next one) or wait (another process requests it).';

create function public.lease_daraja_token(account text, stale_token text default null) returns public.daraja_token_lease
language plpgsql security definer set search_path = '' as $$
declare
  known private.daraja_tokens;
begin
  insert into private.daraja_tokens (account) values (lease_daraja_token.account) on conflict do nothing;
  select * into strict known from private.daraja_tokens as t where t.account = lease_daraja_token.account for update;
  if known.token is distinct from lease_daraja_token.stale_token and known.fresh_until > now() then
    return ('fresh', known.token, floor(extract(epoch from known.fresh_until - now()) * 1000), null)::public.daraja_token_lease;
  end if;
  if known.leased_until > now() then
    return ('wait', null, null, null)::public.daraja_token_lease;
  end if;
  -- Ten seconds, in case the process with the lease ends.
  update private.daraja_tokens as t
  set lease = gen_random_uuid(), leased_until = now() + interval '10 seconds'
  where t.account = known.account
  returning t.lease into known.lease;
  return ('request', null, null, known.lease)::public.daraja_token_lease;
end
$$;
comment on function public.lease_daraja_token is
  'The token, if it is fresh and not stale_token; else the next step.';

create function public.store_daraja_token(account text, lease uuid, token text, fresh_for_ms bigint) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  update private.daraja_tokens as t
  set token = coalesce(store_daraja_token.token, t.token),
      fresh_until = case
        when store_daraja_token.token is null then t.fresh_until
        else now() + store_daraja_token.fresh_for_ms * interval '1 millisecond'
      end,
      lease = null, leased_until = null
  -- After the lease has expired, another token may have invalidated this one.
  where t.account = store_daraja_token.account and t.lease = store_daraja_token.lease;
  return found;
end
$$;
comment on function public.store_daraja_token is
  'Ends a lease with its token, or without (token null), so that the next caller requests one. Returns whether the lease was valid.';

create function private.is_credential_error(result_code text, result_description text) returns boolean
language sql immutable set search_path = '' as $$
  select coalesce(
    result_code in ('400.008.01', '400.008.02')
    or (result_code = '500.001.1001' and result_description ~* 'wrong credentials|merchant does not exist')
    or (result_code = 'mpesa_unreachable' and result_description ~* 'no access token: HTTP 40[0-3]'),
    false
  );
$$;
comment on function private.is_credential_error is
  'Whether M-PESA refused the shop''s credentials, before any phone was involved.';

create function private.is_configuration_error(result_code text, result_description text) returns boolean
language sql immutable set search_path = '' as $$
  -- M-PESA's result codes about the merchant's account, and Daraja's errors about its credentials.
  select coalesce(
    result_code in ('2006', '2028', '2029', 'SFC_IC0003') or private.is_credential_error(result_code, result_description),
    false
  );
$$;

-- Hosted projects refuse an UPDATE or DELETE without a WHERE (safeupdate), also within a function.
create function private.end_prompt_pause() returns void
language sql set search_path = '' as $$
  delete from private.prompt_pause where true;
  delete from private.failed_prompts where true;
$$;

create function private.pause_prompts(new public.payments) returns void
language plpgsql set search_path = '' as $$
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  end if;
  if not private.is_configuration_error(new.result_code, new.result_description) then
    -- Proves nothing about M-PESA: the next prompt is the probe.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  -- A later refusal, unlike an immediate one, may be caused by the phone.
  if new.checkout_request_id is not null and not private.is_credential_error(new.result_code, new.result_description) then
    insert into private.failed_prompts as known (phone, at) values (new.phone, now())
    on conflict (phone) do update set at = excluded.at;
    -- A second phone confirms it, now or as the probe after a pause.
    if not exists (
      select from private.failed_prompts as f where f.phone <> new.phone and f.at > now() - interval '10 minutes'
    ) and not exists (
      select from private.prompt_pause as paused
      where paused.caused_by <> new.phone and paused.until between now() - interval '1 hour' and now()
    ) then
      update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
      return;
    end if;
  end if;
  insert into private.prompt_pause as paused (code, description, caused_by, until)
  values (new.result_code, new.result_description, new.phone, now() + interval '5 minutes')
  on conflict (id) do update
  set code = excluded.code, description = excluded.description, caused_by = excluded.caused_by, probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      since = case when paused.until > now() - interval '1 hour' then paused.since else now() end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then least(interval '5 minutes' * power(2, least(paused.times, 10)), interval '1 hour')
        else interval '5 minutes'
      end
  -- Failures of prompts sent before the pause do not extend it.
  where paused.until <= now();
end
$$;

create function private.refuse_prompt_in_pause() returns void
language plpgsql set search_path = '' as $$
declare
  must_wait boolean;
begin
  select paused.until > now()
    or coalesce(paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes', false)
  into must_wait
  from private.prompt_pause as paused for update;
  if not must_wait then
    -- This prompt is the probe.
    update private.prompt_pause as paused set probe_at = now() where true;
  elsif must_wait then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is saved: please try again in a few minutes');
  end if;
end
$$;

create function public.resume_prompts() returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  perform private.end_prompt_pause();
end
$$;
comment on function public.resume_prompts is 'For staff who corrected the settings: ends the pause of prompts.';

create type public.active_pause as (code text, description text, since timestamptz, until timestamptz);

create type public.refund_limit_raise as (
  raised_by_email text, raised_at timestamptz, raised_from integer, raised_to integer, applies_from timestamptz,
  current_limit integer
);

create type public.received_message as (received_at timestamptz, outcome text, source_address text);

create type public.payment_health as (
  checked_at timestamptz, pause public.active_pause, refunds_to_approve bigint, refunds_unknown bigint,
  refunds_stuck bigint, refunds_sent_twice bigint, limit_raise public.refund_limit_raise,
  token_fresh_until timestamptz, last_push public.received_message, last_callback public.received_message
);
comment on type public.payment_health is
  'pause: null while prompts are sent. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';

create function public.payment_health() returns public.payment_health
language plpgsql stable security definer set search_path = '' as $$
declare
  health public.payment_health;
begin
  perform private.expect_staff();
  health.checked_at := clock_timestamp();
  health.pause := (
    select (p.code, p.description, p.since, p.until)::public.active_pause from private.prompt_pause as p where p.until > now()
  );
  -- Each count reads its own partial index.
  health.refunds_to_approve := (select count(*) from public.refunds as r where r.status = 'requested');
  health.refunds_unknown := (select count(*) from public.refunds as r where r.status = 'unknown');
  health.refunds_stuck := (
    select count(*) from public.refunds as r
    where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
  );
  health.refunds_sent_twice := (
    select count(*) from public.refunds as r where r.sent_twice_at is not null and r.sent_twice_seen_at is null
  );
  health.limit_raise := (
    select (r.raised_by_email, r.raised_at, r.raised_from, r.raised_to, r.raised_at + interval '1 day', private.refund_limit())
      ::public.refund_limit_raise
    from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
    order by r.raised_at desc, r.id desc limit 1
  );
  health.token_fresh_until := (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null);
  health.last_push := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
  );
  health.last_callback := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source in ('callback', 'confirmation', 'reversal_result') order by m.id desc limit 1
  );
  return health;
end
$$;
comment on function public.payment_health is
  'For staff: a pause of prompts and its cause, refunds that wait for staff, the last prompt and the last callback.';

-- Jobs: claims of calls of the payment function, by one process at a time

create function private.is_payment_job_due(action text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that lease the work, such as lease_payment_queries.
  return case is_payment_job_due.action
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
grant execute on function public.resume_prompts, public.payment_health to authenticated;
grant execute on function public.lease_daraja_token, public.store_daraja_token, public.claim_payment_job
  to service_role;
