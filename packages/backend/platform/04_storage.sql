-- Replaces: 0011_inline_auth_functions
-- Object storage with the names of a hosted project: buckets, objects, and functions for policies. Content is stored in files
-- named by `version`, so that renaming an object changes only its row.

create schema storage;
grant usage on schema storage to anon, authenticated, service_role;

create table storage.buckets (
  id text primary key,
  name text not null unique,
  owner uuid,
  owner_id text,
  public boolean not null default false,
  avif_autodetection boolean not null default false,
  file_size_limit bigint,
  allowed_mime_types text[],
  type text not null default 'STANDARD',
  versioning_status text not null default 'disabled',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint buckets_name_length check (char_length(name) between 1 and 100),
  constraint buckets_type_check check (type = 'STANDARD')
);
comment on table storage.buckets is 'Containers of objects, with their limits.';
comment on column storage.buckets.owner_id is 'The sub claim of its creator; null with the secret key.';
alter table storage.buckets enable row level security;
grant all on storage.buckets to anon, authenticated, service_role;

create table storage.objects (
  id uuid primary key default gen_random_uuid(),
  bucket_id text not null references storage.buckets (id),
  name text not null,
  owner uuid,
  owner_id text,
  version text not null default gen_random_uuid(),
  metadata jsonb,
  user_metadata jsonb,
  path_tokens text[] generated always as (string_to_array(name, '/')) stored,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  last_accessed_at timestamptz not null default now(),
  archived_at timestamptz,
  is_delete_marker boolean not null default false,
  is_versioned boolean not null default false
);
comment on table storage.objects is 'Objects in buckets. Without a policy, access is denied.';
comment on column storage.objects.version is 'Name of the file with the content, which never changes.';
alter table storage.objects enable row level security;
grant all on storage.objects to anon, authenticated, service_role;
create unique index bucketid_objname on storage.objects (bucket_id, name collate "C");
create index objects_lower_name on storage.objects (bucket_id, lower(name) collate "C");
create unique index objects_version on storage.objects (version);

create table storage.installations (
  id uuid primary key default gen_random_uuid()
);
comment on table storage.installations is
  'One row that identifies the folder with the files of this database, so that no other database deletes them as unused.';
alter table storage.installations enable row level security;
insert into storage.installations default values;

create function storage.touch_updated_at() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  new.updated_at := pg_catalog.now();
  return new;
end
$$;
create trigger update_objects_updated_at before update on storage.objects
for each row execute function storage.touch_updated_at();
create trigger update_buckets_updated_at before update on storage.buckets
for each row execute function storage.touch_updated_at();

create function storage.protect_delete() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if coalesce(pg_catalog.current_setting('storage.allow_delete_query', true), '') <> 'true' then
    raise exception 'Direct deletion from storage tables is not allowed. Use the Storage API instead.'
      using errcode = '42501', hint = 'Deleting only the row leaves its file behind.';
  end if;
  return null;
end
$$;
create trigger protect_objects_delete before delete on storage.objects
for each statement execute function storage.protect_delete();
create trigger protect_buckets_delete before delete on storage.buckets
for each statement execute function storage.protect_delete();

create function storage.foldername(name text) returns text[]
language sql immutable
set search_path = ''
return (pg_catalog.string_to_array(name, '/'))[1 : pg_catalog.cardinality(pg_catalog.string_to_array(name, '/')) - 1];
comment on function storage.foldername(text) is 'The folders of an object, outermost first.';

create function storage.filename(name text) returns text
language sql immutable
set search_path = ''
return (pg_catalog.string_to_array(name, '/'))[pg_catalog.cardinality(pg_catalog.string_to_array(name, '/'))];
comment on function storage.filename(text) is 'The last part of an object''s name.';

create function storage.extension(name text) returns text
language sql immutable
set search_path = ''
return pg_catalog.reverse(pg_catalog.split_part(pg_catalog.reverse(storage.filename(name)), '.', 1));
comment on function storage.extension(text) is 'The part of a file name after its last dot.';

create function storage.operation() returns text
language sql stable
set search_path = ''
return pg_catalog.current_setting('storage.operation', true);
comment on function storage.operation() is 'The operation of the request, such as storage.object.upload, for policies.';

create function storage.allow_any_operation(expected_operations text[]) returns boolean
language sql stable
set search_path = ''
return exists (
  select from pg_catalog.unnest(expected_operations) as expected (operation)
  where pg_catalog.regexp_replace(expected.operation, '^storage\.', '')
    = pg_catalog.regexp_replace(storage.operation(), '^storage\.', '')
);

create function storage.allow_only_operation(expected_operation text) returns boolean
language sql stable
set search_path = ''
return storage.allow_any_operation(array[expected_operation]);

create function storage.can_insert_object(bucketid text, name text, owner uuid, metadata jsonb) returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into storage.objects (bucket_id, name, owner, metadata) values (bucketid, name, owner, metadata);
  raise sqlstate 'PT200' using message = 'ROLLBACK', detail = 'rollback successful insert';
end
$$;
comment on function storage.can_insert_object(text, text, uuid, jsonb) is
  'Always raises: PT200 if policies allow the insert, otherwise the error of the insert.';

create function storage.get_size_by_bucket() returns table (size bigint, bucket_id text)
language sql stable
set search_path = ''
begin atomic
  select pg_catalog.sum((objects.metadata ->> 'size')::bigint)::bigint, objects.bucket_id
  from storage.objects
  group by objects.bucket_id;
end;

create function storage.like_start(start text) returns text
language sql immutable
set search_path = ''
return pg_catalog.regexp_replace(start, '([%_\\])', '\\\1', 'g') operator(pg_catalog.||) '%';
comment on function storage.like_start(text) is 'LIKE pattern for texts with this prefix.';

create function storage.search(
  prefix text,
  bucketname text,
  limits integer default 100,
  levels integer default 1,
  offsets integer default 0,
  search text default '',
  sortcolumn text default 'name',
  sortorder text default 'asc'
) returns table (
  name text,
  id uuid,
  updated_at timestamptz,
  created_at timestamptz,
  last_accessed_at timestamptz,
  metadata jsonb
)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  direction constant text := case when pg_catalog.lower(sortorder) = 'desc' then 'desc' else 'asc' end;
  by_time constant text := case
    when sortcolumn in ('updated_at', 'created_at', 'last_accessed_at')
      then pg_catalog.format('entries.id is not null, entries.%I %s, ', sortcolumn, direction)
    else ''
  end;
begin
  return query execute pg_catalog.format(
    $sql$
      with found as (
        select o.path_tokens[$1] as name, pg_catalog.cardinality(o.path_tokens) = $1 as is_file,
          o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata
        from storage.objects o
        where o.bucket_id = $2
          and pg_catalog.lower(o.name) collate "C" like $3
          and pg_catalog.cardinality(o.path_tokens) >= $1
      ), entries as (
        select f.name, f.id, f.updated_at, f.created_at, f.last_accessed_at, f.metadata from found f where f.is_file
        union all
        select distinct f.name, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz, null::jsonb
        from found f where not f.is_file
      )
      select * from entries
      order by %s pg_catalog.lower(entries.name) collate "C" %s, entries.name collate "C"
      limit $4 offset $5
    $sql$,
    by_time, direction
  ) using
    levels, bucketname, storage.like_start(pg_catalog.lower(prefix operator(pg_catalog.||) coalesce(search, ''))),
    limits, offsets;
end
$$;
comment on function storage.search(text, text, integer, integer, integer, text, text, text) is
  'The files and folders at one level below a prefix, which ends in a slash or is empty. Folders have nothing but a name.';

create function storage.search_v2(
  prefix text,
  bucket_name text,
  limits integer default 100,
  levels integer default 1,
  start_after text default '',
  sort_order text default 'asc',
  sort_column text default 'name',
  sort_column_after text default ''
) returns table (
  key text,
  name text,
  id uuid,
  updated_at timestamptz,
  created_at timestamptz,
  last_accessed_at timestamptz,
  metadata jsonb
)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  is_descending constant boolean := pg_catalog.lower(sort_order) = 'desc';
  direction constant text := case when is_descending then 'desc' else 'asc' end;
  beyond constant text := case when is_descending then '<' else '>' end;
  by_time constant boolean := sort_column in ('updated_at', 'created_at');
begin
  return query execute pg_catalog.format(
    $sql$
      with found as (
        select o.*, levels_of.is_file,
          case when levels_of.is_file then o.name
            else pg_catalog.array_to_string(o.path_tokens[1:$1], '/') operator(pg_catalog.||) '/' end as entry
        from storage.objects o,
          lateral (select pg_catalog.cardinality(o.path_tokens) = $1 or $1 = 0 as is_file) levels_of
        where o.bucket_id = $2 and o.name collate "C" like $3 and pg_catalog.cardinality(o.path_tokens) >= $1
      ), entries as (
        select f.entry as name, f.id, f.updated_at, f.created_at, f.last_accessed_at, f.metadata,
          coalesce(pg_catalog.date_trunc('milliseconds', f.%1$I), '-infinity') as moment
        from found f where f.is_file
        union all
        select distinct f.entry, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz, null::jsonb,
          timestamptz '-infinity'
        from found f where not f.is_file
      )
      select case when $1 = 0 then e.name else pg_catalog.split_part(e.name, '/', $1) end,
        e.name, e.id, e.updated_at, e.created_at, e.last_accessed_at, e.metadata
      from entries e
      where $4 = '' or %2$s
      order by %3$s e.name collate "C" %4$s
      limit $5
    $sql$,
    case when by_time then sort_column else 'created_at' end,
    case when by_time
      then pg_catalog.format('(e.moment, e.name collate "C") %s (nullif($6, '''')::timestamptz, $4 collate "C")', beyond)
      else pg_catalog.format('e.name collate "C" %s $4 collate "C"', beyond)
    end,
    case when by_time then pg_catalog.format('e.moment %s, ', direction) else '' end,
    direction
  ) using levels, bucket_name, storage.like_start(prefix), start_after, limits, sort_column_after;
end
$$;
comment on function storage.search_v2(text, text, integer, integer, text, text, text, text) is
  'The next files and folders (names that end with a slash) after a position in the order. Level 0 returns every file and no folders.';

grant execute on function
  storage.foldername(text),
  storage.filename(text),
  storage.extension(text),
  storage.operation(),
  storage.allow_any_operation(text[]),
  storage.allow_only_operation(text),
  storage.can_insert_object(text, text, uuid, jsonb),
  storage.get_size_by_bucket(),
  storage.like_start(text),
  storage.search(text, text, integer, integer, integer, text, text, text),
  storage.search_v2(text, text, integer, integer, text, text, text, text)
to anon, authenticated, service_role;
