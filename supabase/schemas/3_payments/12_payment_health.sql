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

-- Prompts pause while M-PESA refuses them for a reason that only the owner can end: customers see another way to pay, staff see the cause.
create table private.prompt_incidents (
  id uuid primary key default gen_random_uuid(),
  code text not null,
  description text,
  is_refused boolean not null,
  began_at timestamptz not null default now(),
  ended_at timestamptz
);
comment on table private.prompt_incidents is
  'Times in which prompts did not work, from the first pause until a prompt worked or staff ended the pause.';
comment on column private.prompt_incidents.is_refused is
  'Whether M-PESA refused the requests themselves. False: prompts ended with this code.';
alter table private.prompt_incidents enable row level security;

create table private.prompt_pause (
  id boolean primary key default true,
  code text not null,
  description text,
  times integer not null default 1,
  since timestamptz not null default now(),
  until timestamptz not null,
  caused_by text not null,
  probe_at timestamptz,
  is_refused boolean not null default false,
  incident_id uuid references private.prompt_incidents (id),
  constraint "there is one pause" check (id)
);
comment on table private.prompt_pause is
  'Until when no prompt is sent, and the response that caused the pause. Then one prompt is sent as a probe: a success ends the pause, the same error extends it.';
comment on column private.prompt_pause.caused_by is 'Phone of the last failed prompt.';
comment on column private.prompt_pause.probe_at is 'When the probe was sent. Null: no open probe.';
comment on column private.prompt_pause.is_refused is 'As in prompt_incidents. A request that M-PESA accepts ends such a pause.';
alter table private.prompt_pause enable row level security;

create table private.failed_prompts (
  phone text,
  at timestamptz not null,
  cause text not null default '',
  order_id uuid,
  is_refused boolean not null default false,
  constraint "a phone counts once per cause" primary key (cause, phone)
);
comment on table private.failed_prompts is
  'Phones whose prompts failed since the last success, with a code about the shop''s account (cause: owner) or one without a documented meaning (cause: the code). One phone proves nothing, since it may be the cause.';
alter table private.failed_prompts enable row level security;

create table private.mpesa_settings (
  id boolean primary key default true,
  digest text not null,
  constraint "there is one digest" check (id)
);
comment on table private.mpesa_settings is
  'Digest of the settings with which prompts were last sent: other settings end a pause.';
alter table private.mpesa_settings enable row level security;

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

-- Hosted projects refuse an UPDATE or DELETE without a WHERE (safeupdate), also within a function.
create function private.end_prompt_pause() returns void
language plpgsql set search_path = '' as $$
declare
  ended uuid;
begin
  delete from private.failed_prompts where true;
  delete from private.prompt_pause where true returning incident_id into ended;
  if ended is not null then
    update private.prompt_incidents as i set ended_at = now() where i.id = ended;
    perform private.announce_end_of_incident(ended);
  end if;
end
$$;

create function private.end_refusal_pause() returns void
language plpgsql set search_path = '' as $$
begin
  delete from private.failed_prompts as f where f.is_refused;
  if exists (select from private.prompt_pause as p where p.is_refused) then
    perform private.end_prompt_pause();
  end if;
end
$$;
comment on function private.end_refusal_pause is 'Ends a pause that M-PESA''s refusals caused, because it has accepted a request.';

create function private.is_owners_problem(failed public.payments, was_refused boolean) returns boolean
language plpgsql set search_path = '' as $$
declare
  counted_cause text := coalesce(case failed.ended_by when 'owner' then 'owner' else failed.result_code end, '');
  phones bigint;
  orders bigint;
begin
  if failed.ended_by = 'owner' and was_refused then
    -- No phone was involved.
    return true;
  end if;
  insert into private.failed_prompts as known (cause, phone, order_id, is_refused, at)
  values (counted_cause, failed.phone, failed.order_id, was_refused, now())
  on conflict on constraint "a phone counts once per cause" do update
  set order_id = excluded.order_id, is_refused = excluded.is_refused, at = excluded.at;
  select count(distinct f.phone), count(distinct f.order_id) into phones, orders
  from private.failed_prompts as f where f.cause = counted_cause and f.at > now() - interval '1 hour';
  -- A second customer confirms a code that is about the shop; a code without a documented meaning needs a third.
  return least(phones, orders) >= case failed.ended_by when 'owner' then 2 else 3 end
    -- The probe after a pause, by another phone.
    or exists (
      select from private.prompt_pause as paused
      where paused.caused_by <> failed.phone and paused.until between now() - interval '1 hour' and now()
        and (failed.ended_by = 'owner' or paused.code = failed.result_code)
    );
end
$$;
comment on function private.is_owners_problem is
  'Whether a failure with ended_by owner or unknown shows that no customer can pay. Counts it where one customer proves nothing.';

create function private.pause_prompts(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  was_refused boolean := new.checkout_request_id is null;
  incident uuid;
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  elsif new.status <> 'failed' then
    perform private.end_refusal_pause();
    return;
  end if;
  if coalesce(new.ended_by not in ('owner', 'unknown'), true) or not private.is_owners_problem(new, was_refused) then
    -- Proves nothing about M-PESA: the next prompt is the probe.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  insert into private.prompt_pause (code, description, caused_by, is_refused, until)
  values (coalesce(new.result_code, ''), new.result_description, new.phone, was_refused, now() + interval '5 minutes')
  on conflict (id) do nothing;
  if found then
    insert into private.prompt_incidents (code, description, is_refused)
    values (coalesce(new.result_code, ''), new.result_description, was_refused)
    returning id into incident;
    update private.prompt_pause as paused set incident_id = incident where paused.incident_id is null;
    perform private.queue_staff_message('prompts_paused', incident::text);
    return;
  end if;
  update private.prompt_pause as paused
  set code = coalesce(new.result_code, ''), description = new.result_description, caused_by = new.phone,
      is_refused = was_refused, probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then private.back_off(interval '5 minutes', paused.times, interval '1 hour')
        else interval '5 minutes'
      end
  -- Failures of prompts sent before the pause do not extend it.
  where paused.until <= now();
end
$$;
comment on function private.pause_prompts is
  'Begins, extends or ends the pause of prompts after a prompt was accepted, refused, paid or failed.';

create function public.are_prompts_paused() returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (
    select from private.prompt_pause as paused
    where paused.until > now() or (paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes')
  );
$$;
comment on function public.are_prompts_paused is
  'Whether no prompt is sent right now, because M-PESA refuses the shop''s, or because one is being tried. Customers then pay without one.';

create function private.refuse_prompt_in_pause() returns void
language plpgsql set search_path = '' as $$
begin
  perform from private.prompt_pause as paused for update;
  if not found then
    return;
  elsif public.are_prompts_paused() then
    perform private.refuse(409, 'prompts_paused', 'M-PESA prompts do not work right now. Your order is saved');
  end if;
  -- This prompt is the probe.
  update private.prompt_pause as paused set probe_at = now() where true;
end
$$;

create function public.resume_prompts() returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform private.end_prompt_pause();
end
$$;
comment on function public.resume_prompts is 'For staff who corrected the settings: ends the pause of prompts.';

create function public.note_mpesa_settings(digest text) returns void
language plpgsql security definer set search_path = '' as $$
begin
  insert into private.mpesa_settings (digest) values (note_mpesa_settings.digest) on conflict (id) do nothing;
  if found then
    return;
  end if;
  update private.mpesa_settings as s set digest = note_mpesa_settings.digest where s.digest <> note_mpesa_settings.digest;
  if found then
    perform private.end_prompt_pause();
  end if;
end
$$;
comment on function public.note_mpesa_settings is
  'Ends the pause of prompts if the payment function has other settings than before. Called once per process.';

create type public.active_pause as (code text, description text, since timestamptz, until timestamptz, is_refused boolean);

create type public.refund_limit_raise as (
  raised_by_email text, raised_at timestamptz, raised_from integer, raised_to integer, applies_from timestamptz,
  current_limit integer
);

create type public.received_message as (received_at timestamptz, outcome text, source_address text);

create type public.payment_health as (
  checked_at timestamptz, pause public.active_pause, refunds_to_approve bigint, refunds_unknown bigint,
  refunds_stuck bigint, refunds_sent_twice bigint, limit_raise public.refund_limit_raise,
  token_fresh_until timestamptz, last_push public.received_message, last_callback public.received_message,
  refunds_to_approve_by_me bigint
);
comment on type public.payment_health is
  'pause: null while prompts work; after its until the next prompt is sent as a probe. refunds_to_approve_by_me: those that other staff requested; 0 for a role that may not approve. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';

create function public.payment_health() returns public.payment_health
language plpgsql stable security definer set search_path = '' as $$
declare
  health public.payment_health;
begin
  perform private.expect_staff('panel');
  health.checked_at := clock_timestamp();
  health.pause := (
    select (p.code, p.description, p.since, p.until, p.is_refused)::public.active_pause from private.prompt_pause as p
  );
  -- Each count reads its own partial index.
  health.refunds_to_approve := (select count(*) from public.refunds as r where r.status = 'requested');
  health.refunds_to_approve_by_me := (
    select count(*) from public.refunds as r
    where r.status = 'requested' and r.requested_by is distinct from (select auth.uid()) and (select public.may('approvals'))
  );
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

-- Execution rights
grant execute on function public.are_prompts_paused to anon, authenticated, service_role;
grant execute on function public.resume_prompts, public.payment_health to authenticated;
grant execute on function public.lease_daraja_token, public.store_daraja_token,
  public.note_mpesa_settings
  to service_role;
