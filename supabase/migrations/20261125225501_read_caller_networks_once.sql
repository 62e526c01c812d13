-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create or replace function public.is_admin() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return (select auth.uid()) is not null and exists (
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

create or replace function private.is_within_limit(rule private.limits, networks text[], subject text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where private.hits_so_far(rule.name, rtrim(caller.network || ' ' || is_within_limit.subject), rule.within)
      >= rule.allowed * private.allowance_factor(caller.network)
  );
end
$$;

create or replace function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return private.is_within_limit(rule, private.caller_networks(), is_within_limit.subject);
end
$$;

comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';

create or replace function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  rule private.limits;
  networks text[] := private.caller_networks();
  started timestamptz;
  is_within boolean;
begin
  select * into strict rule from private.limits as l where l.name = count_call.limit_name;
  -- A call over the limit writes nothing, so that one address cannot use up the allowance of its wider networks.
  if not private.is_within_limit(rule, networks, count_call.subject) then
    return false;
  end if;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, rtrim(caller.network || ' ' || count_call.subject), started, started + rule.within, 1
    from unnest(networks) with ordinality as caller (network, level)
    -- Concurrent calls lock their common counters in the same order.
    order by caller.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, hits
  )
  select coalesce(bool_and(c.hits <= rule.allowed * private.allowance_factor(split_part(c.subject, ' ', 1))), true) into is_within
  from counted as c;
  return is_within;
end
$$;

comment on function private.count_call is
  'Counts one call in this limit, and subject if given, for each network of the caller. Returns whether all are within their allowance. Bound the subject''s length first. True without an IP address.';

-- Execution rights
grant execute on function public.is_admin to authenticated, service_role;
