-- People: who of the signed-in users is staff. Also the ground rules that every later file builds on.

-- Nothing is open by default: each table and function grants by name what it means to.
alter default privileges in schema public revoke all on tables from anon, authenticated;
alter default privileges in schema public revoke all on sequences from anon, authenticated;
alter default privileges in schema public revoke execute on functions from anon, authenticated;
alter default privileges revoke execute on functions from public;

create schema private;
comment on schema private is 'What no client may reach: not exposed by the table API.';
revoke all on schema private from public;

create table public.admin_profiles (
  user_id uuid primary key references auth.users (id) on delete cascade,
  is_active boolean not null default true,
  created_at timestamptz not null default now()
);
comment on table public.admin_profiles is 'Staff accounts. A signed-in user counts as staff only while the row is active.';
alter table public.admin_profiles enable row level security;

create function public.is_admin() returns boolean
language sql stable security definer
set search_path = ''
as $$
  select exists (
    select from public.admin_profiles where user_id = (select auth.uid()) and is_active
  ) and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  ) and (
    -- A token outlives its session by up to an hour; what staff may do ends with the session.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions
      where id = (select (auth.jwt() ->> 'session_id')::uuid) and user_id = (select auth.uid())
    )
  );
$$;
comment on function public.is_admin() is
  'Whether the request comes from active staff, in a session that goes on, who have passed their second factor if they have one. Every staff policy asks this.';
grant execute on function public.is_admin() to authenticated, service_role;

create policy "people read their own profile" on public.admin_profiles
  for select to authenticated using (user_id = (select auth.uid()));
grant select on public.admin_profiles to authenticated;

create function public.list_own_sessions() returns table (
  id uuid,
  created_at timestamptz,
  last_seen_at timestamptz,
  user_agent text,
  address text,
  is_current boolean
)
language sql stable security definer
set search_path = ''
as $$
  select session.id, session.created_at, coalesce(session.refreshed_at, session.created_at), session.user_agent,
    host(session.ip), session.id::text = (select auth.jwt() ->> 'session_id')
  from auth.sessions as session
  where session.user_id = (select auth.uid()) and (session.not_after is null or session.not_after > now())
  order by 6 desc, 3 desc;
$$;
comment on function public.list_own_sessions() is 'Where the caller is signed in, this session first.';
grant execute on function public.list_own_sessions() to authenticated;

-- Limits hold across processes because they are counted here.
create unlogged table private.rate_limits (
  bucket text not null,
  subject text not null,
  window_start timestamptz not null,
  hits integer not null,
  constraint "one counter per subject and window" primary key (bucket, subject, window_start)
);
comment on table private.rate_limits is 'How often a subject did something within a time window.';
alter table private.rate_limits enable row level security;

create function private.count_hit(bucket text, subject text, within interval) returns integer
language sql volatile
set search_path = ''
as $$
  insert into private.rate_limits as counted (bucket, subject, window_start, hits)
  values (
    count_hit.bucket,
    count_hit.subject,
    date_bin(count_hit.within, clock_timestamp(), timestamptz '2000-01-01'),
    1
  )
  on conflict (bucket, subject, window_start) do update set hits = counted.hits + 1
  returning hits;
$$;
comment on function private.count_hit(text, text, interval) is
  'Counts one more hit in the current window and returns how many there are. Rolled back with its transaction.';

create function private.hits_so_far(bucket text, subject text, within interval) returns integer
language sql stable
set search_path = ''
as $$
  select coalesce(max(hits), 0)
  from private.rate_limits as counted
  where counted.bucket = hits_so_far.bucket
    and counted.subject = hits_so_far.subject
    and counted.window_start = date_bin(hits_so_far.within, clock_timestamp(), timestamptz '2000-01-01');
$$;

create function private.caller_address() returns text
language sql stable
set search_path = ''
as $$
  select nullif(
    split_part(coalesce(nullif(current_setting('request.headers', true), ''), '{}')::jsonb ->> 'x-forwarded-for', ',', 1),
    ''
  );
$$;
comment on function private.caller_address() is 'The network address of the request, or null inside the house.';
