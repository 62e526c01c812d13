-- Replaces: 0011_inline_auth_functions
-- Broadcasts, table changes and presence: the realtime schema with the names of a hosted project. Notifications contain only the
-- id of a message, because they hold less than 8000 bytes; each process reads the row and sends it to its sockets.

create schema realtime;
grant usage on schema realtime to anon, authenticated, service_role;

create table realtime.messages (
  id uuid primary key default gen_random_uuid(),
  topic text not null,
  extension text not null,
  payload jsonb,
  event text,
  private boolean not null default false,
  updated_at timestamptz not null default now(),
  inserted_at timestamptz not null default now(),
  binary_payload bytea,
  constraint messages_carry_one_payload check (payload is null or binary_payload is null)
);
comment on table realtime.messages is
  'Messages of the last day. Policies also decide who may join (select) and send to (insert) a private topic.';
alter table realtime.messages enable row level security;
grant select, insert on realtime.messages to anon, authenticated, service_role;
create index messages_inserted_at on realtime.messages (inserted_at);
create index messages_replay on realtime.messages (topic, inserted_at desc) where extension = 'broadcast' and private;

create function realtime.topic() returns text
language sql stable
set search_path = ''
return nullif(pg_catalog.current_setting('realtime.topic', true), '');
comment on function realtime.topic() is 'The topic that a client joins or sends to, for policies.';

create function realtime.announce_message() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  perform pg_catalog.pg_notify('realtime_messages', new.id::text);
  return null;
end
$$;

create trigger announce_message after insert on realtime.messages
for each row when (new.extension = 'broadcast') execute function realtime.announce_message();

create function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void
language plpgsql
set search_path = ''
as $$
declare
  message_id constant uuid := pg_catalog.gen_random_uuid();
begin
  perform pg_catalog.set_config('realtime.topic', topic, true);
  insert into realtime.messages (id, payload, event, topic, private, extension)
  values (
    message_id,
    case
      when pg_catalog.jsonb_typeof(payload) = 'object' and not payload operator(pg_catalog.?) 'id'
        then payload operator(pg_catalog.||) pg_catalog.jsonb_build_object('id', message_id)
      else payload
    end,
    event, topic, private, 'broadcast'
  );
exception when others then
  -- A failed broadcast must not undo the sender's transaction.
  raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end
$$;
comment on function realtime.send(jsonb, text, text, boolean) is
  'Sends a message to a topic when the transaction commits. A failure is a warning.';

create function realtime.send_binary(payload bytea, event text, topic text, private boolean default true) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform pg_catalog.set_config('realtime.topic', topic, true);
  insert into realtime.messages (binary_payload, event, topic, private, extension)
  values (payload, event, topic, private, 'broadcast');
exception when others then
  raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end
$$;
comment on function realtime.send_binary(bytea, text, text, boolean) is
  'Sends bytes instead of JSON. Only clients of protocol version 2 receive them. A failure is a warning.';

create function realtime.broadcast_changes(
  topic_name text,
  event_name text,
  operation text,
  table_name text,
  table_schema text,
  new record,
  old record,
  level text default 'ROW'
) returns void
language plpgsql
set search_path = ''
as $$
begin
  if level = 'STATEMENT' then
    raise exception 'function can only be triggered for each row, not for each statement';
  end if;
  if operation not in ('INSERT', 'UPDATE', 'DELETE') then
    raise exception 'Unexpected operation type: %', operation;
  end if;
  perform realtime.send(
    pg_catalog.jsonb_build_object(
      'schema', table_schema,
      'table', table_name,
      'operation', operation,
      'record', case when operation <> 'DELETE' then pg_catalog.to_jsonb(new) end,
      'old_record', case when operation <> 'INSERT' then pg_catalog.to_jsonb(old) end
    ),
    event_name,
    topic_name
  );
end
$$;
comment on function realtime.broadcast_changes(text, text, text, text, text, record, record, text) is
  'Sends the change of a row trigger to a private topic.';

do $$
begin
  -- Migrations add tables to it, as on a hosted project.
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
exception when insufficient_privilege then
  raise notice 'the publication supabase_realtime was not created: the connecting role may not create publications';
end
$$;

-- Changes of tables. A trigger on every table of the publication `supabase_realtime` writes to one log. Each process reads the
-- changes committed since it last read, in the order of the commits, and sends them to its sockets. A replication slot would need
-- wal_level = logical, which the embedded database and many hosts do not have.
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
-- A logged table, although that doubles the write-ahead log of a change: otherwise a crash of the database would lose changes
-- that were committed before it, and subscribers of a surviving process would never receive them.
comment on table realtime.changes is
  'Changes of watched tables in the last hour. old_record contains the replica identity. Only the backend reads it.';
alter table realtime.changes enable row level security;
create index changes_by_time on realtime.changes using brin (changed_at);

create function realtime.record_change() returns trigger
language plpgsql security definer
set search_path = ''
-- Timestamps are written alike in every session time zone.
set timezone = 'UTC'
as $$
declare
  old_row jsonb;
begin
  -- The first argument is the replica identity: the full row, or the columns that follow.
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
  -- Equal notifications of a transaction are sent once, in the order of commits.
  perform pg_catalog.pg_notify('realtime_changes', pg_catalog.pg_current_xact_id()::text);
  return null;
end
$$;
comment on function realtime.record_change() is 'Records the change of a row. realtime.watch_tables() adds the trigger to tables.';
revoke execute on function realtime.record_change() from public;

create view realtime.watched_tables with (security_invoker = true) as
with wanted as (
  select
    c.oid as relation,
    -- Bits of pg_trigger.tgtype: 1 for each row, 4 insert, 8 delete, 16 update.
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
comment on view realtime.watched_tables is 'Tables of the publication and tables with the trigger, and whether both agree.';

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
  -- Processes that start concurrently do this one after another.
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('realtime.watch_tables'));
  for due in select * from realtime.watched_tables where not is_watched loop
    begin
      if due.is_wanted then
        -- Triggers fire in the order of their names: a change is recorded before the changes that other triggers make.
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
      -- A table that cannot be watched must not fail a migration.
      raise warning 'changes of % cannot be watched: %', due.relation::pg_catalog.regclass, sqlerrm;
    end;
  end loop;
  perform pg_catalog.pg_notify('realtime_tables', '');
end
$$;
comment on function realtime.watch_tables() is
  'Adds the trigger to every table of the publication supabase_realtime and removes it from all others.';
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
  raise notice 'tables are watched at each start and schema reload: the connecting role may not create event triggers';
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
comment on function realtime.prune_changes(interval) is 'Deletes changes older than `keep` and returns their number.';
revoke execute on function realtime.prune_changes(interval) from public;

create function realtime.prune_messages(keep interval default interval '1 day') returns bigint
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
  'Deletes messages older than `keep`, and changes older than an hour. Returns the number of messages.';
revoke execute on function realtime.prune_messages(interval) from public;

-- Presence across processes: each writes the presences of its own clients and reads those of the others.
create table realtime.presence_processes (
  id uuid primary key,
  seen_at timestamptz not null default clock_timestamp()
);
comment on table realtime.presence_processes is
  'Processes with presences. Each renews its row; others delete the row of a process that stopped, with its presences.';
alter table realtime.presence_processes enable row level security;

create table realtime.presences (
  ref text primary key,
  process uuid not null references realtime.presence_processes on delete cascade,
  audience text not null,
  -- Text, because jsonb rejects some characters that clients may send.
  appearance text not null
);
comment on table realtime.presences is
  'Presences of all processes by topic; appearance is JSON (key, meta, bytes). Only the backend reads it.';
alter table realtime.presences enable row level security;
create index presences_audience on realtime.presences (audience);
create index presences_process on realtime.presences (process);
