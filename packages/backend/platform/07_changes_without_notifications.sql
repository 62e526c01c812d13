-- A change is only logged. PostgreSQL makes transactions that notify commit one after another, each waiting for the disk alone; processes
-- with subscribers read the log at short intervals instead (packages/backend/realtime/changes/change-log.ts).
create or replace function realtime.record_change() returns trigger
language plpgsql security definer
set search_path = ''
-- Timestamps are written alike in every session time zone.
set timezone = 'UTC'
as $$
declare
  old_row jsonb := case when tg_op <> 'INSERT' then pg_catalog.to_jsonb(old) end;
begin
  -- The first argument is the replica identity: the full row, or the columns that follow.
  insert into realtime.changes (relation, table_schema, table_name, type, record, old_record)
  values (
    tg_relid, tg_table_schema, tg_table_name, tg_op,
    case when tg_op <> 'DELETE' then pg_catalog.to_jsonb(new) end,
    case when old_row is null or tg_argv[0] = 'full' then old_row else coalesce(
      (select pg_catalog.jsonb_object_agg(name, old_row operator(pg_catalog.->) name) from pg_catalog.unnest(tg_argv[1:]) as name),
      '{}'
    ) end
  );
  return null;
end
$$;
