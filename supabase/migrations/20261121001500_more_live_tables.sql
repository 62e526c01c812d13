-- Staff screens follow the catalogue and the settings as well. (An order's timeline moves with the tables followed already.)

do $$
declare
  wanted text;
begin
  foreach wanted in array array['products', 'categories', 'store_settings'] loop
    if exists (select from pg_publication where pubname = 'supabase_realtime')
      and not exists (
        select from pg_publication_tables
        where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = wanted
      )
    then
      execute format('alter publication supabase_realtime add table public.%I', wanted);
    end if;
  end loop;
end
$$;
