-- Who is asking: the auth schema as far as policies and foreign keys of an application refer to it.

create schema auth;
grant usage on schema auth to anon, authenticated, service_role;

create table auth.users (
  id uuid primary key default gen_random_uuid(),
  aud text not null default 'authenticated',
  role text not null default 'authenticated',
  email text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table auth.users is 'People who can sign in.';
alter table auth.users enable row level security;
create unique index users_email_key on auth.users (lower(email));

create function auth.jwt() returns jsonb
language sql stable
set search_path = ''
return coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::jsonb;
comment on function auth.jwt() is 'The verified claims of the request.';

create function auth.uid() returns uuid
language sql stable
set search_path = ''
return nullif(auth.jwt() ->> 'sub', '')::uuid;
comment on function auth.uid() is 'The signed-in user of the request, or null.';

create function auth.role() returns text
language sql stable
set search_path = ''
return auth.jwt() ->> 'role';

create function auth.email() returns text
language sql stable
set search_path = ''
return auth.jwt() ->> 'email';

grant execute on function auth.jwt(), auth.uid(), auth.role(), auth.email() to anon, authenticated, service_role;
