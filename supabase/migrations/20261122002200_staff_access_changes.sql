-- Staff screens notice within a second that a session has ended or that an account is no longer staff.

create function private.announce_access_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  -- Only a hint: the screens then ask the services. The topic is the account's id, which only the account itself knows.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || old.user_id, false);
  return null;
end
$$;
comment on function private.announce_access_change() is
  'Broadcasts access_changed on the live channel staff-{user_id}: a session of this account ended, or it is no longer active staff.';

create trigger sessions_announce_their_end after delete on auth.sessions
  for each row execute function private.announce_access_change();
create trigger profiles_announce_deactivation after update of is_active on public.admin_profiles
  for each row when (old.is_active and not new.is_active)
  execute function private.announce_access_change();
create trigger profiles_announce_removal after delete on public.admin_profiles
  for each row execute function private.announce_access_change();
