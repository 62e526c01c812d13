-- The team: invitations, roles, access and second factors (docs/decisions/roles.md).

create function private.active_owners() returns table (user_id uuid)
language sql stable set search_path = '' as $$
  select profile.user_id
  from public.admin_profiles as profile
  join auth.users as account on account.id = profile.user_id
  where profile.role = 'owner' and profile.is_active and account.deleted_at is null
    and (account.banned_until is null or account.banned_until <= now())
    and (profile.invited_at is null or account.email_confirmed_at is not null);
$$;
comment on function private.active_owners is 'Owners who can sign in. Who was invited and has not accepted is none.';

create function private.after_profile_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  before jsonb := case when tg_op <> 'INSERT' then jsonb_build_object('role', old.role, 'name', old.name, 'is_active', old.is_active) end;
  after jsonb := case when tg_op <> 'DELETE' then jsonb_build_object('role', new.role, 'name', new.name, 'is_active', new.is_active) end;
begin
  perform private.record_audit_event(
    case tg_op when 'INSERT' then 'member_invited' when 'DELETE' then 'member_removed' else 'member_changed' end,
    coalesce(private.email_of(coalesce(new.user_id, old.user_id)), old.name), before, after,
    coalesce(auth.uid(), case when tg_op = 'INSERT' then new.invited_by end)
  );
  if tg_op <> 'INSERT' and old.is_active and not coalesce(new.is_active, false) then
    perform private.end_push_subscriptions(old.user_id);
    perform private.notify_access_change(old.user_id);
  elsif tg_op = 'UPDATE' and old.role <> new.role then
    perform private.notify_access_change(old.user_id);
  end if;
  -- The secret key may do everything. Two owners who take each other's role away at once come one after the other.
  if tg_op <> 'INSERT' and old.role = 'owner' and old.is_active and auth.uid() is not null then
    perform pg_advisory_xact_lock(hashtextextended('owners of the shop', 0));
    if not exists (select from private.active_owners()) then
      perform private.refuse(409, 'last_owner', 'At least one active owner must remain. Make another member an owner first');
    end if;
  end if;
  return null;
end
$$;
create trigger profiles_after_change after insert or delete or update of role, name, is_active on public.admin_profiles
  for each row execute function private.after_profile_change();

create function public.team() returns table (
  user_id uuid, email text, name text, role text, is_active boolean, is_invited boolean, invited_at timestamptz,
  created_at timestamptz, last_seen_at timestamptz, second_factors integer
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('team');
  return query
    select profile.user_id, account.email::text, profile.name, profile.role, profile.is_active,
      profile.invited_at is not null and account.email_confirmed_at is null, profile.invited_at, profile.created_at,
      coalesce((
        select max(coalesce(session.refreshed_at, session.created_at)) from auth.sessions as session
        where session.user_id = profile.user_id
      ), account.last_sign_in_at),
      (select count(*)::integer from auth.mfa_factors as factor
       where factor.user_id = profile.user_id and factor.status = 'verified')
    from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    order by not profile.is_active, lower(coalesce(nullif(profile.name, ''), account.email::text)), profile.user_id;
end
$$;
comment on function public.team is
  'For owners: all members, active ones first. is_invited: the invitation was not accepted yet. last_seen_at: when a session was last renewed, or the last sign-in.';

create function private.lock_member(member_id uuid, caller uuid) returns public.admin_profiles
language plpgsql set search_path = '' as $$
declare
  locked public.admin_profiles;
begin
  select * into locked from public.admin_profiles as profile where profile.user_id = lock_member.member_id for update;
  if not found then
    perform private.refuse(404, 'member_not_found', 'This member does not exist any more');
  elsif lock_member.member_id = lock_member.caller then
    perform private.refuse(409, 'own_access', 'Another owner changes your role and your access');
  end if;
  return locked;
end
$$;

create function private.read_role(role text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if private.areas_of(role) is null then
    perform private.refuse(400, 'role_unknown', 'A role is owner, staff or counter');
  end if;
  return role;
end
$$;

create function private.read_member_name(name text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  shown text := coalesce(private.visible_text(left(name, 200)), '');
begin
  if char_length(shown) not between 1 and 60 or private.has_control_characters(shown) then
    perform private.refuse(400, 'member_name_invalid', 'A name has 1 to 60 characters');
  end if;
  return shown;
end
$$;

create function public.change_member(
  member_id uuid, role text default null, name text default null, is_active boolean default null
) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles;
begin
  -- One's own name is no question of access.
  if change_member.member_id = caller and change_member.role is null and change_member.is_active is null then
    update public.admin_profiles as p set name = private.read_member_name(change_member.name) where p.user_id = caller;
    return;
  end if;
  changed := private.lock_member(change_member.member_id, caller);
  update public.admin_profiles as p
  set role = case when change_member.role is null then changed.role else private.read_role(change_member.role) end,
      name = case when change_member.name is null then changed.name else private.read_member_name(change_member.name) end,
      is_active = coalesce(change_member.is_active, changed.is_active)
  where p.user_id = changed.user_id;
  if change_member.is_active = false then
    delete from auth.sessions as session where session.user_id = changed.user_id;
  end if;
end
$$;
comment on function public.change_member is
  'For owners: another role, name or access of a member; null leaves it as it is. Without access all sessions of the member end. Of their own row owners change the name only.';

create function public.reset_second_factor(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles := private.lock_member(reset_second_factor.member_id, caller);
begin
  delete from auth.mfa_factors as factor where factor.user_id = changed.user_id and factor.status = 'verified';
  if not found then
    perform private.refuse(409, 'no_second_factor', 'This member has no second factor');
  end if;
  delete from private.recovery_codes as known where known.user_id = changed.user_id;
  delete from auth.sessions as session where session.user_id = changed.user_id;
  perform private.record_audit_event('second_factor_reset', private.email_of(changed.user_id), null, null);
end
$$;
comment on function public.reset_second_factor is
  'For owners: removes the authenticator apps and recovery codes of another member who has lost them, and ends all sessions of the member. The password stays.';

create table private.recovery_codes (
  user_id uuid not null references auth.users (id) on delete cascade,
  code_hash bytea not null,
  created_at timestamptz not null default now(),
  primary key (user_id, code_hash)
);
comment on table private.recovery_codes is
  'Recovery codes of staff that were not used yet. Each removes the second factor of its member once (use_recovery_code).';
comment on column private.recovery_codes.code_hash is
  'SHA-256 of member and code. Codes are random with 60 bits, so that no slow hash is needed.';
alter table private.recovery_codes enable row level security;

create function private.hash_recovery_code(user_id uuid, code text) returns bytea
language sql immutable
-- As it was typed: small letters, blanks and hyphens, and the letters that look like digits.
return sha256(convert_to(
  user_id || ' ' || translate(regexp_replace(upper(left(code, 100)), '[^0-9A-Z]', '', 'g'), 'OIL', '011'), 'UTF8'
));

create function private.has_second_factor(user_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from auth.mfa_factors as factor where factor.user_id = has_second_factor.user_id and factor.status = 'verified'
  );
$$;

create function public.count_recovery_codes() returns integer
language sql stable security definer set search_path = '' as $$
  select count(*)::integer from private.recovery_codes as known where known.user_id = (select auth.uid());
$$;
comment on function public.count_recovery_codes is 'How many recovery codes of the caller were not used yet.';

create function public.make_recovery_codes() returns setof text
language plpgsql volatile security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('panel');
  code text;
begin
  if not private.has_second_factor(caller) then
    perform private.refuse(409, 'no_second_factor', 'Add an authenticator app first');
  end if;
  -- Two sets at once would both be valid.
  perform from public.admin_profiles as profile where profile.user_id = caller for update;
  delete from private.recovery_codes as known where known.user_id = caller;
  for count in 1..10 loop
    select string_agg(
      -- Crockford's base32: without letters that look like digits.
      substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', get_byte(random.bytes, place) % 32 + 1, 1) || case when place in (3, 7) then '-' else '' end,
      '' order by place
    ) into code
    from (select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) as bytes) as random
    cross join generate_series(0, 11) as place;
    insert into private.recovery_codes (user_id, code_hash) values (caller, private.hash_recovery_code(caller, code));
    return next code;
  end loop;
  perform private.record_audit_event('recovery_codes_made', private.email_of(caller), null, null);
end
$$;
comment on function public.make_recovery_codes is
  'For staff with a second factor: ten new recovery codes, which are shown once. They end the earlier ones.';

create function public.use_recovery_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  caller constant uuid := auth.uid();
  remaining integer;
begin
  -- Before the second factor a member has no rights, so this is the only procedure that asks for less than expect_staff.
  if not private.has_staff_session() then
    perform private.refuse_staff();
  elsif not private.has_second_factor(caller) then
    perform private.refuse(409, 'no_second_factor', 'Your account has no second factor');
  elsif private.count_hit('recovery_codes', caller::text, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tries', 'That were too many tries. Please wait an hour, or ask an owner to reset your second factor');
  end if;
  delete from private.recovery_codes as known
  where known.user_id = caller and known.code_hash = private.hash_recovery_code(caller, use_recovery_code.code);
  if not found then
    -- Not raised, so that the try is counted.
    return private.refusal_answer('PT400', 'This is none of your recovery codes that are left. Please check each letter and digit',
      'recovery_code_wrong', '');
  end if;
  delete from auth.mfa_factors as factor where factor.user_id = caller and factor.status = 'verified';
  -- The lost phone may still be signed in.
  delete from auth.sessions as session
  where session.user_id = caller and session.id::text is distinct from auth.jwt() ->> 'session_id';
  select count(*) into remaining from private.recovery_codes as known where known.user_id = caller;
  perform private.record_audit_event('recovery_code_used', private.email_of(caller), null, jsonb_build_object('codes_left', remaining));
  return jsonb_build_object('codes_left', remaining);
end
$$;
comment on function public.use_recovery_code is
  'For staff who signed in with the password and have lost the second factor: an unused recovery code removes the second factor, and ends all other sessions. At most ten tries an hour.';

create function public.check_invitation(email text, role text, name text) returns void
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('team');
  perform private.read_role(check_invitation.role), private.read_member_name(check_invitation.name);
  if not private.is_email(trim(check_invitation.email)) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif exists (
    select from auth.users as account
    left join public.admin_profiles as profile on profile.user_id = account.id
    where lower(account.email::text) = lower(trim(check_invitation.email)) and account.deleted_at is null
      and (account.email_confirmed_at is not null or (profile.user_id is not null and profile.invited_at is null))
  ) then
    perform private.refuse(409, 'email_has_account', 'This address has an account already. Members who left are readmitted in the list');
  end if;
end
$$;
comment on function public.check_invitation is
  'For owners, by the function that invites: refuses an invitation of an address that has an account, or with an invalid name or role.';

create function public.record_invitation(member_id uuid, role text, name text, invited_by uuid) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
begin
  insert into public.admin_profiles as p (user_id, role, name, invited_at, invited_by)
  values (
    record_invitation.member_id, private.read_role(record_invitation.role), private.read_member_name(record_invitation.name),
    now(), record_invitation.invited_by
  )
  on conflict (user_id) do update
  set invited_at = excluded.invited_at, invited_by = excluded.invited_by, role = excluded.role, name = excluded.name, is_active = true
  where p.invited_at is not null;
end
$$;
comment on function public.record_invitation is
  'Makes an invited account staff, with its role and name. Again for an invitation that is sent again.';

create function public.withdraw_invitation(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  withdrawn public.admin_profiles := private.lock_member(withdraw_invitation.member_id, caller);
begin
  if withdrawn.invited_at is null
    or exists (select from auth.users as account where account.id = withdrawn.user_id and account.email_confirmed_at is not null)
  then
    perform private.refuse(409, 'invitation_accepted', 'This invitation was accepted already. Take the access away instead');
  end if;
  delete from public.admin_profiles as profile where profile.user_id = withdrawn.user_id;
  delete from auth.users as account where account.id = withdrawn.user_id;
end
$$;
comment on function public.withdraw_invitation is 'For owners: withdraws an invitation that was not accepted. Its link does not work any more.';

create function public.staff_names() returns table (email text, name text)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return query
    select account.email::text, profile.name
    from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.name <> '' and account.email <> '';
end
$$;
comment on function public.staff_names is 'For staff: the names of all present and former members who have one, by the email address that histories store.';

-- Execution rights
grant execute on function public.team, public.change_member, public.reset_second_factor, public.check_invitation,
  public.withdraw_invitation, public.staff_names, public.count_recovery_codes, public.make_recovery_codes,
  public.use_recovery_code to authenticated;
grant execute on function public.record_invitation to service_role;
