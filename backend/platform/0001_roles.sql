-- The roles a request may take, and what new tables and functions grant them by default: the same as on a hosted
-- project, so that a migration which forgets to revoke something is caught here too.

do $$
declare
  wanted text;
begin
  -- Roles belong to the whole cluster: another database of it may have made them, or be making them right now.
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
-- The connecting role takes these roles on for each request; a superuser may anyway.
grant anon, authenticated, service_role to current_user;

create schema if not exists extensions;
grant usage on schema extensions to anon, authenticated, service_role;

revoke create on schema public from public;
grant usage on schema public to anon, authenticated, service_role;
alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
alter default privileges in schema public grant all on functions to anon, authenticated, service_role;

revoke all on schema platform from public;
