-- Replaces: 0011_inline_auth_functions
-- Roles of requests, and their default privileges on new tables and functions: as on a hosted project, so that a migration
-- that forgets to revoke a privilege fails here, too.

do $$
declare
  wanted text;
begin
  -- Roles belong to the cluster: another database may have created them, or may be creating them concurrently.
  foreach wanted in array array['anon', 'authenticated', 'service_role', 'authenticator'] loop
    begin
      if not exists (select from pg_catalog.pg_roles where rolname = wanted) then
        execute pg_catalog.format('create role %I nologin noinherit', wanted);
      end if;
    exception when duplicate_object or unique_violation then
      null;
    end;
  end loop;
  if not (select rolbypassrls from pg_catalog.pg_roles where rolname = 'service_role') then
    alter role service_role bypassrls;
  end if;
end
$$;

grant anon, authenticated, service_role to authenticator;
-- The connecting role switches to one of these roles for each request.
grant anon, authenticated, service_role to current_user;

create schema if not exists extensions;
grant usage on schema extensions to anon, authenticated, service_role;

revoke create on schema public from public;
grant usage on schema public to anon, authenticated, service_role;
alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
alter default privileges in schema public grant all on functions to anon, authenticated, service_role;

revoke all on schema platform from public;
