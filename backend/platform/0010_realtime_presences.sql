-- Presence across processes: each writes the presences of its own clients, and reads those of the others.

create table realtime.presence_processes (
  id uuid primary key,
  seen_at timestamptz not null default clock_timestamp()
);
comment on table realtime.presence_processes is
  'Processes with presences. Each renews its row; the others delete one that stopped, with its presences.';
alter table realtime.presence_processes enable row level security;

create table realtime.presences (
  ref text primary key,
  process uuid not null references realtime.presence_processes on delete cascade,
  audience text not null,
  -- Text: jsonb refuses some characters that clients may send.
  appearance text not null
);
comment on table realtime.presences is
  'Presences of all processes by topic; appearance is JSON (key, meta, bytes). Only the backend reads it.';
alter table realtime.presences enable row level security;
create index presences_audience on realtime.presences (audience);
create index presences_process on realtime.presences (process);
