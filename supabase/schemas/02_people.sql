-- People: staff accounts, and the identity of the current request.

create table public.admin_profiles (
  user_id uuid primary key references auth.users (id) on delete cascade,
  is_active boolean not null default true,
  created_at timestamptz not null default now()
);
comment on table public.admin_profiles is 'Staff accounts. A signed-in user is staff only while the row is active.';
alter table public.admin_profiles enable row level security;
grant select on public.admin_profiles to authenticated;
create policy "people read their own profile" on public.admin_profiles
  for select to authenticated using (user_id = (select auth.uid()));

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create function public.is_admin() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  ) and (
    -- A token outlives its session by up to an hour; staff rights end with the session. A session whose refresh token was
    -- stolen keeps its row but has ended.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions as session
      where session.id = (select (auth.jwt() ->> 'session_id')::uuid) and session.user_id = (select auth.uid())
        and (session.not_after is null or session.not_after > now())
    )
  );
end
$$;
comment on function public.is_admin is
  'Whether the caller is active staff: not banned or deleted, in a session that has not ended, with the second factor verified if there is one. Every staff policy checks this.';

create function public.list_own_sessions() returns table (
  id uuid, created_at timestamptz, last_seen_at timestamptz, user_agent text, address text, is_current boolean
)
language sql stable security definer set search_path = '' as $$
  select session.id, session.created_at, coalesce(session.refreshed_at, session.created_at), session.user_agent,
    host(session.ip), session.id::text = (select auth.jwt() ->> 'session_id')
  from auth.sessions as session
  where session.user_id = (select auth.uid()) and (session.not_after is null or session.not_after > now())
  order by 6 desc, 3 desc;
$$;
comment on function public.list_own_sessions is 'Sessions of the caller, the current one first.';

create function private.caller_address() returns text
language plpgsql stable set search_path = '' as $$
begin
  return (private.caller_networks())[1];
end
$$;
comment on function private.caller_address is
  'The narrowest network of the caller: the IPv4 address or the IPv6 /64. Null for calls of the shop itself.';

-- For security definer functions that act for staff.
create function private.expect_staff() returns void
language plpgsql stable set search_path = '' as $$
begin
  if not (public.is_admin() or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
end
$$;
comment on function private.expect_staff is 'Refuses callers other than staff and the shop itself.';

create function private.expect_staff_member() returns uuid
language plpgsql stable set search_path = '' as $$
begin
  if not public.is_admin() or (select auth.uid()) is null then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  return (select auth.uid());
end
$$;
comment on function private.expect_staff_member is 'The calling staff member; refuses all other callers, the shop itself included.';

create function private.email_of(user_id uuid) returns text
language sql stable set search_path = '' as $$
  select u.email from auth.users as u where u.id = user_id;
$$;
comment on function private.email_of is 'The current email address of an account, which logs store beside its id.';

-- Execution rights
grant execute on function public.is_admin to authenticated, service_role;
grant execute on function public.list_own_sessions to authenticated;
