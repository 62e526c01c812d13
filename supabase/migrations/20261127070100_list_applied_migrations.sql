-- Earlier versions keep working: the function is new.

create or replace function public.applied_migrations() returns text[]
language plpgsql stable security definer set search_path = '' as $$
declare
  applied text[];
begin
  -- The Supabase CLI keeps this table on a hosted project, the shop itself elsewhere.
  if to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select array_agg(version order by version) from supabase_migrations.schema_migrations' into applied;
  elsif to_regclass('platform.schema_migrations') is not null then
    execute $query$
      select array_agg(substring(version from '^\d{14}') order by version)
      from platform.schema_migrations where version ~ '^\d{14}'
    $query$ into applied;
  end if;
  return coalesce(applied, '{}');
end
$$;

comment on function public.applied_migrations is 'Timestamps of the applied migrations, for `npm run hosted:check`.';

grant execute on function public.claim_due_jobs, public.claim_payment_job, public.applied_migrations to service_role;
