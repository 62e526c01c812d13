-- Catalogue: categories (flavours) and products. Prices are in cents.

create table public.categories (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  constraint "category names are unique" unique (name),
  constraint "a category has a name" check (char_length(trim(name)) between 1 and 80)
);
comment on table public.categories is 'Flavours of products. Products follow a rename.';
comment on column public.categories.is_active is 'Inactive: not offered in filters and forms; its products stay listed.';
alter table public.categories enable row level security;
grant select on public.categories to anon, authenticated;
grant insert (name, is_active), update (name, is_active) on public.categories to authenticated;
create policy "everyone reads active categories" on public.categories for select to anon, authenticated using (is_active);
create policy "staff read every category" on public.categories for select to authenticated using ((select public.is_admin()));
create policy "staff add categories" on public.categories for insert to authenticated with check ((select public.is_admin()));
create policy "staff edit categories" on public.categories
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create unique index "category names are unique in any case" on public.categories (lower(name));

create table public.products (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  slug text not null,
  tagline text,
  description text,
  price integer not null,
  image_url text,
  category text,
  brand text,
  stock_quantity integer not null default 0,
  is_active boolean not null default true,
  home_section text,
  home_position integer,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  previous_price integer,
  constraint "product slugs are unique" unique (slug),
  constraint "a product has a name" check (char_length(trim(name)) between 1 and 160),
  constraint "a slug is lower-case letters, digits and hyphens" check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  constraint "a price is not negative" check (price between 0 and 1000000000),
  constraint "stock is never below zero" check (stock_quantity >= 0),
  constraint "a product's category exists" foreign key (category) references public.categories (name) on update cascade,
  constraint "home sections are known" check (home_section in ('top_picks', 'drinks_on_offer')),
  constraint "an image is at an https URL or a path of this site" check (
    char_length(image_url) <= 2000
    and image_url ~ '^(https://[^/]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/])'
    and image_url !~ '[\\\s[:cntrl:]]'
  ),
  constraint "a previous price is above the price" check (previous_price > price and previous_price <= 1000000000)
);
comment on table public.products is 'What the shop sells. Prices in cents.';
comment on column public.products.category is 'Name of the category (flavour).';
comment on column public.products.home_section is 'Section of the home page that shows the product, ordered by home_position.';
comment on column public.products.updated_at is
  'Changes with every edit except of the stock. A save sends the value that it read, and changes nothing if the row has changed since.';
comment on column public.products.previous_price is 'In cents: price before the current offer. Null: not on offer.';
alter table public.products enable row level security;
grant select on public.products to anon, authenticated;
grant
  insert (name, slug, tagline, description, price, image_url, category, brand, stock_quantity, is_active, home_section, home_position),
  update (name, slug, tagline, description, price, image_url, category, brand, stock_quantity, is_active, home_section, home_position, updated_at),
  delete on public.products to authenticated;
grant insert (previous_price), update (previous_price) on public.products to authenticated;
create policy "everyone reads active products" on public.products for select to anon, authenticated using (is_active);
create policy "staff read every product" on public.products for select to authenticated using ((select public.is_admin()));
create policy "staff add products" on public.products for insert to authenticated with check ((select public.is_admin()));
create policy "staff edit products" on public.products
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create policy "staff delete products" on public.products for delete to authenticated using ((select public.is_admin()));
create index products_newest_first on public.products (created_at desc);
create index products_by_category on public.products (category);
create index products_on_the_home_page on public.products (home_section, home_position) where home_section is not null;

create function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable set search_path = '' as $$
  select p.*
  from public.products as p
  where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  union all
  (
    select r.*
    from public.products as p
    join public.products as r on r.category = p.category and r.id <> p.id and r.is_active
    where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
    order by r.created_at desc, r.id
    limit least(greatest(related_limit, 0), 24)
  );
$$;
comment on function public.product_and_related is
  'The active product with this slug, then the newest others of its category. No row: no such product.';

create function public.home_products(newest integer default 6) returns setof public.products
language plpgsql stable rows 50
set search_path = ''
-- Looks up a few products by index, whatever the statistics say.
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
comment on function public.home_products is
  'What the home page is made from, newest first: the active products of its sections, the newest products, and one of each active category.';

create policy "everyone reads product images" on storage.objects
  for select to anon, authenticated using (bucket_id = 'product-images');
create policy "staff upload product images" on storage.objects
  for insert to authenticated with check (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  );
create policy "staff replace product images" on storage.objects
  for update to authenticated
  using (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  )
  with check (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  );
create policy "staff delete product images" on storage.objects
  for delete to authenticated using (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  );

-- Who may call these functions
grant execute on function public.product_and_related, public.home_products to anon, authenticated, service_role;
