-- Messages that are bytes instead of JSON, as SQL sends them on a hosted project.

alter table realtime.messages
  add column binary_payload bytea,
  add constraint messages_carry_one_payload check (payload is null or binary_payload is null);

create function realtime.send_binary(payload bytea, event text, topic text, private boolean default true) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform pg_catalog.set_config('realtime.topic', topic, true);
  insert into realtime.messages (binary_payload, event, topic, private, extension)
  values (payload, event, topic, private, 'broadcast');
exception when others then
  -- Telling others is never worth the sender's own work.
  raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end
$$;
comment on function realtime.send_binary(bytea, text, text, boolean) is
  'Sends bytes to a topic when the transaction commits; clients of protocol 2 alone can hear them. A failure is a warning.';
