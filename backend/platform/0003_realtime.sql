-- Messages to whoever listens: the realtime schema as applications of a hosted project use it. A row is announced with
-- its id alone, because a notification holds less than 8000 bytes; each process fetches the row and tells its sockets.

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
  inserted_at timestamptz not null default now()
);
comment on table realtime.messages is
  'What was sent to topics in the last day. Its policies also decide who may join (select) and send to (insert) a private topic.';
alter table realtime.messages enable row level security;
grant select, insert on realtime.messages to anon, authenticated, service_role;
create index messages_inserted_at on realtime.messages (inserted_at);
create index messages_replay on realtime.messages (topic, inserted_at desc) where extension = 'broadcast' and private;

create function realtime.topic() returns text
language sql stable
set search_path = ''
return nullif(pg_catalog.current_setting('realtime.topic', true), '');
comment on function realtime.topic() is 'The topic that is being joined or sent to, for use in policies.';

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
  -- Telling others is never worth the sender's own work.
  raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end
$$;
comment on function realtime.send(jsonb, text, text, boolean) is
  'Sends a message to a topic when the transaction commits. A failure is a warning.';

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
  'Sends what a row trigger saw to a private topic.';

create function realtime.prune_messages(keep interval default interval '1 day') returns bigint
language sql
set search_path = ''
begin atomic
  with pruned as (
    delete from realtime.messages where inserted_at < pg_catalog.now() - keep returning 1
  )
  select pg_catalog.count(*) from pruned;
end;
comment on function realtime.prune_messages(interval) is 'Deletes messages older than that; says how many.';
revoke execute on function realtime.prune_messages(interval) from public;

do $$
begin
  -- Migrations add tables to it, as on a hosted project.
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
exception when insufficient_privilege then
  raise notice 'the publication supabase_realtime was not made: the connecting role may not';
end
$$;
