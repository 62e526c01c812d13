create index products_on_the_home_page on public.products (home_section, home_position) where home_section is not null;

create or replace function public.home_products(newest integer default 6) returns setof public.products
language plpgsql stable rows 50
set search_path = ''
-- Looks a few products up, however many there are and whatever the statistics say.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return query
    select p.*
    from (
      select s.id from public.products as s where s.home_section is not null and s.is_active
      union
      (
        select n.id from public.products as n
        where n.is_active
        order by n.created_at desc
        limit least(greatest(home_products.newest, 0), 24)
      )
      union
      -- One product shows that its flavour is sold.
      select one.id
      from public.categories as c
      cross join lateral (
        select o.id from public.products as o where o.category = c.name and o.is_active limit 1
      ) as one
      where c.is_active
    ) as shown
    cross join lateral (select * from public.products as p where p.id = shown.id offset 0) as p
    order by p.created_at desc, p.id;
end
$$;

comment on function public.home_products(integer) is
  'What the home page is made from, newest first: the active products of its sections, the newest products, and one of each active category.';

grant execute on function public.home_products(integer) to anon, authenticated, service_role;
