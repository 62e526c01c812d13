-- Changes of tables, for whoever subscribes to them. Every table of the publication `supabase_realtime` is watched by a
-- trigger that writes to one log; each process reads from the log what was committed since it last looked, in the order
-- of the commits, and tells its sockets. A replication slot would need wal_level = logical, which the embedded database
-- and many hosts do not have.

create table realtime.changes (
  transaction xid8 not null default pg_current_xact_id(),
  id bigint not null generated always as identity,
  relation oid not null,
  table_schema text not null,
  table_name text not null,
  type text not null check (type in ('INSERT', 'UPDATE', 'DELETE')),
  record jsonb,
  old_record jsonb,
  changed_at timestamptz not null default clock_timestamp(),
  primary key (transaction, id)
);
-- Logged, although that doubles what a change writes: subscribers whose process outlives a crash of the database
-- would otherwise never hear of what was committed just before it.
comment on table realtime.changes is
  'Changes of watched tables in the last hour. old_record holds the replica identity. Only the backend reads it.';
alter table realtime.changes enable row level security;
create index changes_by_time on realtime.changes using brin (changed_at);

create function realtime.record_change() returns trigger
language plpgsql security definer
set search_path = ''
-- Times look the same whatever the writer's time zone is.
set timezone = 'UTC'
as $$
declare
  old_row jsonb;
begin
  -- The first argument says what identifies a row: everything, or the columns that follow.
  if tg_op <> 'INSERT' then
    old_row := pg_catalog.to_jsonb(old);
    if tg_argv[0] <> 'full' then
      old_row := coalesce(
        (select pg_catalog.jsonb_object_agg(name, old_row operator(pg_catalog.->) name) from pg_catalog.unnest(tg_argv[1:]) as name),
        '{}'
      );
    end if;
  end if;
  insert into realtime.changes (relation, table_schema, table_name, type, record, old_record)
  values (
    tg_relid, tg_table_schema, tg_table_name, tg_op,
    case when tg_op <> 'DELETE' then pg_catalog.to_jsonb(new) end, old_row
  );
  -- The same words many times in one transaction are one notification; notifications come in the order of commits.
  perform pg_catalog.pg_notify('realtime_changes', pg_catalog.pg_current_xact_id()::text);
  return null;
end
$$;
comment on function realtime.record_change() is 'Writes a row''s change to the log. realtime.watch_tables() puts it on tables.';
revoke execute on function realtime.record_change() from public;

create view realtime.watched_tables with (security_invoker = true) as
with wanted as (
  select
    c.oid as relation,
    -- pg_trigger's own words: 1 for each row, 4 insert, 8 delete, 16 update.
    (1 + 4 * p.pubinsert::int + 8 * p.pubdelete::int + 16 * p.pubupdate::int)::int2 as events,
    case when c.relreplident = 'f' then array['full'] else 'key'::text || coalesce(identity.columns, '{}') end as arguments
  from pg_publication as p
  join pg_publication_tables as t on t.pubname = p.pubname
  join pg_namespace as n on n.nspname = t.schemaname
  join pg_class as c on c.relnamespace = n.oid and c.relname = t.tablename
  left join lateral (
    select array_agg(a.attname::text order by a.attnum) as columns
    from pg_index as i
    join pg_attribute as a on a.attrelid = c.oid and a.attnum = any(i.indkey)
    where i.indrelid = c.oid
      and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end
  ) as identity on true
  where p.pubname = 'supabase_realtime'
    and (p.pubinsert or p.pubdelete or p.pubupdate)
    and c.relkind in ('r', 'p')
    and t.schemaname not in ('realtime', 'platform')
),
present as (
  select tgrelid as relation, tgtype as events, tgargs as arguments
  from pg_trigger
  where tgfoid = 'realtime.record_change()'::regprocedure and not tgisinternal and tgparentid = 0
)
select
  relation,
  wanted.events,
  wanted.arguments,
  wanted.relation is not null as is_wanted,
  present.relation is not null and wanted.relation is not null
    and present.events = wanted.events
    and present.arguments = (
      select string_agg(convert_to(argument, 'UTF8') || '\x00'::bytea, ''::bytea order by place)
      from unnest(wanted.arguments) with ordinality as a (argument, place)
    ) as is_watched
from wanted
full join present using (relation);
comment on view realtime.watched_tables is 'Tables of the publication and tables with the trigger, and whether the two agree.';

create function realtime.watch_tables() returns void
language plpgsql security definer
set search_path = ''
as $$
declare
  due record;
begin
  if not exists (select from realtime.watched_tables where not is_watched) then
    return;
  end if;
  -- Processes that start at once do it one after another.
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('realtime.watch_tables'));
  for due in select * from realtime.watched_tables where not is_watched loop
    begin
      if due.is_wanted then
        -- Of several triggers the first by name fires first: the log has a row's change before the changes that other
        -- triggers make because of it.
        execute pg_catalog.format(
          'create or replace trigger "0_record_change" after %s on %s for each row execute function realtime.record_change(%s)',
          pg_catalog.concat_ws(' or ',
            case when due.events operator(pg_catalog.&) 4::int2 > 0 then 'insert' end,
            case when due.events operator(pg_catalog.&) 16::int2 > 0 then 'update' end,
            case when due.events operator(pg_catalog.&) 8::int2 > 0 then 'delete' end),
          due.relation::pg_catalog.regclass,
          (select pg_catalog.string_agg(pg_catalog.quote_literal(argument), ', ' order by place)
            from pg_catalog.unnest(due.arguments) with ordinality as a (argument, place))
        );
      else
        execute pg_catalog.format('drop trigger "0_record_change" on %s', due.relation::pg_catalog.regclass);
      end if;
    exception when others then
      -- Telling others of changes is never worth a migration.
      raise warning 'changes of % cannot be watched: %', due.relation::pg_catalog.regclass, sqlerrm;
    end;
  end loop;
  perform pg_catalog.pg_notify('realtime_tables', '');
end
$$;
comment on function realtime.watch_tables() is
  'Puts the trigger on every table of the publication supabase_realtime and takes it from all others.';
revoke execute on function realtime.watch_tables() from public;

create function realtime.watch_tables_after_ddl() returns event_trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform realtime.watch_tables();
end
$$;
revoke execute on function realtime.watch_tables_after_ddl() from public;

do $$
begin
  create event trigger watch_tables on ddl_command_end
    when tag in ('CREATE PUBLICATION', 'ALTER PUBLICATION', 'DROP PUBLICATION', 'CREATE TABLE', 'ALTER TABLE')
    execute function realtime.watch_tables_after_ddl();
exception when insufficient_privilege then
  raise notice 'tables are watched at each start and schema reload: the connecting role may not make event triggers';
end
$$;

create function realtime.prune_changes(keep interval default interval '1 hour') returns bigint
language sql
set search_path = ''
begin atomic
  with pruned as (
    delete from realtime.changes where changed_at < pg_catalog.now() - keep returning 1
  )
  select pg_catalog.count(*) from pruned;
end;
comment on function realtime.prune_changes(interval) is 'Deletes changes older than that from the log; says how many.';
revoke execute on function realtime.prune_changes(interval) from public;

create or replace function realtime.prune_messages(keep interval default interval '1 day') returns bigint
language sql
set search_path = ''
begin atomic
  select realtime.prune_changes(least(keep, interval '1 hour'));
  with pruned as (
    delete from realtime.messages where inserted_at < pg_catalog.now() - keep returning 1
  )
  select pg_catalog.count(*) from pruned;
end;
comment on function realtime.prune_messages(interval) is
  'Deletes messages older than that, and changes older than an hour; says how many messages.';
