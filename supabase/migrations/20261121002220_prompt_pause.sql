-- When M-PESA says that the shop's own settings are wrong, no further prompt is tried for a while: customers are told to
-- pay in another way, staff what to look at.

create table private.prompt_pause (
  id boolean primary key default true,
  code text not null,
  description text,
  times integer not null default 1,
  since timestamptz not null default now(),
  until timestamptz not null,
  constraint "there is one pause" check (id)
);
comment on table private.prompt_pause is
  'Until when no prompt is sent, and the answer that caused it. After it one is let through; a success ends it, the same fault makes the next one longer.';
alter table private.prompt_pause enable row level security;

create function private.is_configuration_fault(result_code text, result_description text) returns boolean
language sql immutable
set search_path = ''
as $$
  -- M-PESA's result codes for the merchant's own account, and Daraja's errors for its own credentials.
  select coalesce(
    result_code in ('2006', '2028', '2029', 'SFC_IC0003', '400.008.01', '400.008.02')
    or (result_code = '500.001.1001' and result_description ~* 'wrong credentials|merchant does not exist')
    or (result_code = 'mpesa_unreachable' and result_description ~* 'no access token: HTTP 40[0-3]'),
    false
  );
$$;

create function private.pause_prompts() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if new.status = 'completed' then
    delete from private.prompt_pause;
  end if;
  if new.status <> 'failed' or not private.is_configuration_fault(new.result_code, new.result_description) then
    return null;
  end if;
  insert into private.prompt_pause as paused (code, description, until)
  values (new.result_code, new.result_description, now() + interval '5 minutes')
  on conflict (id) do update
  set code = excluded.code,
      description = excluded.description,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      since = case when paused.until > now() - interval '1 hour' then paused.since else now() end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then least(interval '5 minutes' * power(2, least(paused.times, 10)), interval '1 hour')
        else interval '5 minutes'
      end
  -- Prompts that were on their way already fail for the same reason: they make it no longer.
  where paused.until <= now();
  return null;
end
$$;
create trigger payments_pause_prompts after update of status on public.payments
  for each row
  when (old.status <> new.status and new.method = 'prompt' and new.status in ('completed', 'failed'))
  execute function private.pause_prompts();

create function private.end_pause_by_test() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  delete from private.prompt_pause;
  return null;
end
$$;
create trigger payment_tests_end_the_pause after update of status on public.payment_tests
  for each row
  when (old.status <> new.status and new.status = 'completed')
  execute function private.end_pause_by_test();

create function private.refuse_prompt_in_pause() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if exists (select from private.prompt_pause as paused where paused.until > now()) then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is kept: please try again in a few minutes');
  end if;
  return new;
end
$$;
create trigger payments_respect_the_pause before insert on public.payments
  for each row
  when (new.status = 'initiating' and new.method = 'prompt')
  execute function private.refuse_prompt_in_pause();

create function public.resume_prompts() returns void
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  delete from private.prompt_pause;
end
$$;
comment on function public.resume_prompts() is 'Staff have set right what was wrong: prompts are sent again at once.';

create function public.payment_health() returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select private.expect_staff();
  select jsonb_build_object(
    'checked_at', clock_timestamp(),
    'pause', (
      select jsonb_build_object('code', p.code, 'description', p.description, 'since', p.since, 'until', p.until)
      from private.prompt_pause as p where p.until > now()
    ),
    'refunds_to_approve', (select count(*) from public.refunds as r where r.status = 'requested'),
    'refunds_unknown', (select count(*) from public.refunds as r where r.status = 'unknown'),
    'refunds_stuck', (
      select count(*) from public.refunds as r
      where r.status in ('approved', 'sending') and r.updated_at < now() - interval '10 minutes'
    ),
    'last_push', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome)
      from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
    ),
    'last_notice', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome, 'address', m.source_address)
      from public.payment_messages as m where m.source in ('notice', 'confirmation', 'reversal_result') order by m.id desc limit 1
    )
  );
$$;
comment on function public.payment_health() is
  'What the database knows of the way to M-PESA and back: whether prompts are paused and why, refunds that wait for somebody, the last prompt and the last notice. For staff.';
create index payment_messages_latest_by_source on public.payment_messages (source, id desc);

grant execute on function public.resume_prompts(), public.payment_health() to authenticated;
