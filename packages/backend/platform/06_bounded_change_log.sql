-- The log of table changes is bounded by its size, too, and a reader learns when changes that it has not read were deleted.
create table realtime.pruned_changes (
  is_only boolean primary key default true check (is_only),
  transaction xid8 not null
);
comment on table realtime.pruned_changes is
  'The latest transaction whose changes were deleted. A reader that had not seen it committed has missed changes.';
alter table realtime.pruned_changes enable row level security;

drop function realtime.prune_messages(interval);
drop function realtime.prune_changes(interval);

create function realtime.prune_changes(keep interval default interval '1 hour', max_bytes bigint default 33554432) returns bigint
language plpgsql
set search_path = ''
as $$
declare
  last_excess_id bigint;
  deleted bigint;
  latest xid8;
begin
  -- Deleted rows occupy the file until a vacuum: its size is only a reason to add up the rows.
  if pg_catalog.pg_table_size('realtime.changes') > max_bytes then
    select max(sized.id) into last_excess_id
    from (
      select c.id, sum(
        100 + coalesce(pg_catalog.pg_column_size(c.record), 0) + coalesce(pg_catalog.pg_column_size(c.old_record), 0)
      ) over (order by c.id desc rows between unbounded preceding and 1 preceding) as newer_bytes
      from realtime.changes as c
    ) as sized
    where sized.newer_bytes >= max_bytes;
  end if;
  with pruned as (
    delete from realtime.changes as c
    where c.changed_at < pg_catalog.now() - keep or c.id <= last_excess_id
    returning c.transaction
  )
  select count(*), (select p.transaction from pruned as p order by p.transaction desc limit 1) into deleted, latest from pruned;
  if latest is not null then
    insert into realtime.pruned_changes as p (transaction) values (latest)
    -- A number of another cluster, from which the database was copied, may be in the future.
    on conflict (is_only) do update set transaction = case
      when p.transaction >= pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()) then excluded.transaction
      else greatest(p.transaction, excluded.transaction)
    end;
  end if;
  return deleted;
end
$$;
comment on function realtime.prune_changes(interval, bigint) is
  'Deletes changes older than `keep`, and the oldest beyond `max_bytes`. Returns their number.';
revoke execute on function realtime.prune_changes(interval, bigint) from public;

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
