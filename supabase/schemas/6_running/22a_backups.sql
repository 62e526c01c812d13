-- What staff do with a backup: check it once more, and download it (docs/decisions/backups.md).

create table public.backup_downloads (
  id bigint generated always as identity primary key,
  backup_id bigint not null,
  file_name text not null,
  downloaded_by uuid references auth.users (id) on delete set null,
  downloaded_by_email text not null,
  allowed_at timestamptz not null default now(),
  started_at timestamptz,
  token_hash text not null,
  constraint "a download has its own token" unique (token_hash)
);
comment on table public.backup_downloads is
  'Who downloaded a backup, which contains all personal data. Append-only; started_at is null while no file was sent.';
comment on column public.backup_downloads.token_hash is
  'SHA-256 of the token in the URL, which opens the file for two minutes from allowed_at.';
alter table public.backup_downloads enable row level security;
revoke all on public.backup_downloads from anon, authenticated, service_role;
grant select (id, backup_id, file_name, downloaded_by, downloaded_by_email, allowed_at, started_at) on public.backup_downloads
  to authenticated, service_role;
create policy "staff read who downloaded backups" on public.backup_downloads
  for select to authenticated using ((select public.may('settings')));

create function private.backup_with_file(backup_id bigint) returns public.backups
language plpgsql stable set search_path = '' as $$
declare
  found_backup public.backups;
begin
  select * into found_backup from public.backups as b where b.id = backup_with_file.backup_id and b.file_name is not null;
  if not found then
    perform private.refuse(404, 'backup_not_found', 'This backup does not exist any more');
  end if;
  return found_backup;
end
$$;

create function public.request_backup_check(backup_id bigint) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform private.backup_with_file(request_backup_check.backup_id);
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  update public.backups as b set check_requested_at = now() where b.id = request_backup_check.backup_id;
  perform pg_catalog.pg_notify('backup_checks', request_backup_check.backup_id::text);
end
$$;
comment on function public.request_backup_check is
  'For staff and the secret key: requests that a backup is restored once more, as a check. Its outcome is checked_at and check_problem of its row.';

create function public.record_backup_check(backup_id bigint, problem text default null) returns void
language sql volatile security definer set search_path = '' as $$
  update public.backups as b set checked_at = now(), check_problem = record_backup_check.problem where b.id = record_backup_check.backup_id;
$$;
comment on function public.record_backup_check is 'Records the outcome of a check. problem: null if the backup could be restored.';

create function private.has_fresh_second_factor() returns boolean
language sql stable set search_path = '' as $$
  select not exists (select from auth.mfa_factors as f where f.user_id = (select auth.uid()) and f.status = 'verified')
    or exists (
      select from jsonb_array_elements(
        case jsonb_typeof((select auth.jwt()) -> 'amr') when 'array' then (select auth.jwt()) -> 'amr' else '[]' end
      ) as passed (method)
      where passed.method ->> 'method' in ('totp', 'mfa/webauthn', 'mfa/phone')
        and to_timestamp((passed.method ->> 'timestamp')::double precision) > now() - interval '5 minutes'
    );
$$;
comment on function private.has_fresh_second_factor is
  'Whether the caller passed a second factor within the last five minutes, or has none.';

create function public.allow_backup_download(backup_id bigint) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  member constant uuid := private.expect_staff_member('settings');
  asked public.backups := private.backup_with_file(allow_backup_download.backup_id);
  token constant text := encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
begin
  if not private.has_fresh_second_factor() then
    perform private.refuse(403, 'second_factor_needed', 'Please enter the code of your authenticator app first');
  elsif private.count_hit('backup_downloads', 'all', interval '1 hour') > 20 then
    perform private.refuse(429, 'too_many_downloads', 'Backups were downloaded twenty times within an hour. Please wait before the next one');
  end if;
  insert into public.backup_downloads (backup_id, file_name, downloaded_by, downloaded_by_email, token_hash)
  values (
    asked.id, asked.file_name, member, coalesce(private.email_of(member), ''), encode(sha256(convert_to(token, 'UTF8')), 'hex')
  );
  return token;
end
$$;
comment on function public.allow_backup_download is
  'For staff who passed their second factor within five minutes, if they have one: records who downloads a backup, and returns the token of its URL, valid for two minutes.';

create function public.open_backup_download(token text, is_started boolean default false) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  allowed public.backup_downloads;
begin
  select * into allowed from public.backup_downloads as d
  where d.token_hash = encode(sha256(convert_to(open_backup_download.token, 'UTF8')), 'hex')
    and d.allowed_at > now() - interval '2 minutes'
  for update;
  if found and open_backup_download.is_started and allowed.started_at is null then
    update public.backup_downloads as d set started_at = now() where d.id = allowed.id;
  end if;
  return allowed.file_name;
end
$$;
comment on function public.open_backup_download is
  'The file that a token opens; null if it opens none, or no longer. is_started: the file is about to be sent.';

-- Execution rights
grant execute on function public.request_backup_check to authenticated, service_role;
grant execute on function public.allow_backup_download to authenticated;
grant execute on function public.record_backup_check, public.open_backup_download to service_role;
