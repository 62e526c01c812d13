-- The shop page shows at most 250 drinks of a search: as many as are compared with each other. docs/decisions/search.md

create or replace function public.find_products(search text) returns jsonb
language sql stable
set search_path = ''
as $$
  select jsonb_build_object(
    'slugs', (
      select coalesce(jsonb_agg((f.product).slug order by f.place), '[]')
      from (
        select p as product, row_number() over () as place
        from public.search_products(find_products.search, 250) as p
      ) as f
    ),
    'correction', public.correct_search(find_products.search)
  );
$$;
comment on function public.find_products(text) is
  'What the shop page shows of a search: the slugs of its 250 best matches, and the text that correct_search suggests, or null.';
