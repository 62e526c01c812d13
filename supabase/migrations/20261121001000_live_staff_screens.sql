-- What staff screens follow while they are open. Row level security decides who hears of which row.

do $$
declare
  wanted text;
begin
  foreach wanted in array array['orders', 'inquiries', 'deliveries', 'payments'] loop
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
