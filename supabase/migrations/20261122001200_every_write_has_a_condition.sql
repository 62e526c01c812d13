-- Hosted projects load safeupdate for API connections: it refuses an UPDATE or DELETE without a WHERE, also within a function.

create or replace function private.pause_prompts() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if new.status = 'completed' then
    delete from private.prompt_pause where true;
    delete from private.prompt_faults where true;
    return null;
  end if;
  if not private.is_configuration_fault(new.result_code, new.result_description) then
    -- It neither proved that M-PESA works nor that it does not: the next one tries it.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return null;
  end if;
  -- What is refused at once has reached no phone; what comes later may be about the phone.
  if new.checkout_request_id is not null and not private.is_credential_fault(new.result_code, new.result_description) then
    insert into private.prompt_faults as known (phone, at) values (new.phone, now())
    on conflict (phone) do update set at = excluded.at;
    -- A second phone says so as well, now or when it was the one that tried it after a pause.
    if not exists (
      select from private.prompt_faults as f where f.phone <> new.phone and f.at > now() - interval '10 minutes'
    ) and not exists (
      select from private.prompt_pause as paused
      where paused.caused_by <> new.phone and paused.until between now() - interval '1 hour' and now()
    ) then
      update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
      return null;
    end if;
  end if;
  insert into private.prompt_pause as paused (code, description, caused_by, until)
  values (new.result_code, new.result_description, new.phone, now() + interval '5 minutes')
  on conflict (id) do update
  set code = excluded.code,
      description = excluded.description,
      caused_by = excluded.caused_by,
      probe_at = null,
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

create or replace function private.refuse_prompt_in_pause() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  must_wait boolean;
begin
  select paused.until > now()
    or coalesce(paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes', false)
  into must_wait
  from private.prompt_pause as paused for update;
  if not must_wait then
    -- This one tries it; the others wait for what becomes of it.
    update private.prompt_pause as paused set probe_at = now() where true;
  elsif must_wait then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is kept: please try again in a few minutes');
  end if;
  return new;
end
$$;

create or replace function private.end_pause_by_test() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  delete from private.prompt_pause where true;
  delete from private.prompt_faults where true;
  return null;
end
$$;

create or replace function public.resume_prompts() returns void
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  delete from private.prompt_pause where true;
  delete from private.prompt_faults where true;
end
$$;
