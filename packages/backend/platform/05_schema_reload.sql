-- Replaces: 0011_inline_auth_functions
-- Notifies processes that cache the schema after every DDL statement, as on a hosted project.

create function platform.announce_schema_change() returns event_trigger
language plpgsql
set search_path = ''
as $$
begin
  if tg_event = 'ddl_command_end' then
    perform pg_catalog.pg_notify('pgrst', 'reload schema')
    from pg_catalog.pg_event_trigger_ddl_commands() as command
    where coalesce(command.schema_name, '') not in ('pg_temp', 'platform', 'auth', 'storage', 'realtime')
    limit 1;
  else
    perform pg_catalog.pg_notify('pgrst', 'reload schema')
    from pg_catalog.pg_event_trigger_dropped_objects() as dropped
    where not dropped.is_temporary
      and coalesce(dropped.schema_name, '') not in ('platform', 'auth', 'storage', 'realtime')
    limit 1;
  end if;
end
$$;
comment on function platform.announce_schema_change() is
  'Notifies listeners of pgrst once per transaction that the schema changed.';

do $$
begin
  create event trigger announce_schema_change on ddl_command_end
    when tag in (
      'CREATE SCHEMA', 'ALTER SCHEMA',
      'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE',
      'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE',
      'CREATE VIEW', 'ALTER VIEW', 'CREATE MATERIALIZED VIEW', 'ALTER MATERIALIZED VIEW',
      'CREATE FUNCTION', 'ALTER FUNCTION', 'CREATE PROCEDURE', 'ALTER PROCEDURE',
      'CREATE TRIGGER', 'CREATE TYPE', 'ALTER TYPE', 'CREATE DOMAIN', 'ALTER DOMAIN', 'CREATE RULE',
      'GRANT', 'REVOKE', 'COMMENT'
    )
    execute function platform.announce_schema_change();
  create event trigger announce_schema_drop on sql_drop
    execute function platform.announce_schema_change();
exception when insufficient_privilege then
  raise notice 'schema changes need "notify pgrst, ''reload schema''": the connecting role may not create event triggers';
end
$$;
