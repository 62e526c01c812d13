/**
 * Removes a shop from a PostgreSQL database, before a backup takes its place. Its schemas are dropped with all their content: objects
 * that a later version has added would depend on the restored tables, and conflict with the next update of the shop.
 */
export const dropShopSchemas = `
set client_min_messages = warning;
do $$
declare
  made record;
begin
  for made in
    select t.evtname as name from pg_event_trigger as t join pg_proc as p on p.oid = t.evtfoid
    where p.pronamespace in (select oid from pg_namespace where nspname in ('platform', 'realtime'))
  loop
    execute format('drop event trigger %I', made.name);
  end loop;
  drop publication if exists supabase_realtime;
  for made in
    select nspname as name from pg_namespace
    where nspname in ('private', 'auth', 'storage', 'realtime', 'extensions', 'platform')
  loop
    execute format('drop schema %I cascade', made.name);
  end loop;
  -- The schema public is not created again, and may have another owner: only its objects are dropped.
  for made in
    select c.relname as name, case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
      when 'f' then 'foreign table' else 'table' end as kind
    from pg_class as c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
      and not exists (select from pg_depend as d where d.objid = c.oid and d.deptype in ('e', 'i', 'a'))
    order by c.relkind in ('r', 'p') desc
  loop
    execute format('drop %s if exists public.%I cascade', made.kind, made.name);
  end loop;
  for made in
    select p.oid::regprocedure::text as name from pg_proc as p
    where p.pronamespace = 'public'::regnamespace
      and not exists (select from pg_depend as d where d.objid = p.oid and d.deptype = 'e')
  loop
    execute 'drop routine if exists ' || made.name || ' cascade';
  end loop;
  for made in
    select t.typname as name from pg_type as t
    where t.typnamespace = 'public'::regnamespace and t.typtype in ('c', 'd', 'e', 'r')
      and not exists (select from pg_depend as d where d.objid = t.oid and d.deptype in ('e', 'i', 'a'))
  loop
    execute format('drop type if exists public.%I cascade', made.name);
  end loop;
end
$$;
`;
