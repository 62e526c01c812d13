-- Catalogue: categories (the flavours) and products.

create table public.categories (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  constraint "category names are unique" unique (name),
  constraint "a category has a name" check (char_length(trim(name)) between 1 and 80)
);
comment on table public.categories is 'Flavours. Products name them, and follow a rename.';
alter table public.categories enable row level security;

create policy "everyone reads active categories" on public.categories for select to anon, authenticated using (is_active);
create policy "staff read every category" on public.categories
  for select to authenticated using ((select public.is_admin()));
create policy "staff add categories" on public.categories
  for insert to authenticated with check ((select public.is_admin()));
create policy "staff edit categories" on public.categories
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
grant select on public.categories to anon, authenticated;
grant insert (name, is_active), update (name, is_active) on public.categories to authenticated;

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
  constraint "product slugs are unique" unique (slug),
  constraint "a product has a name" check (char_length(trim(name)) between 1 and 160),
  constraint "a slug is lower-case letters, digits and hyphens" check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  constraint "a price is not negative" check (price between 0 and 1000000000),
  constraint "stock is never below zero" check (stock_quantity >= 0),
  constraint "a product's category exists" foreign key (category) references public.categories (name) on update cascade,
  constraint "home sections are known" check (home_section in ('top_picks', 'drinks_on_offer'))
);
comment on table public.products is 'What the shop sells. Prices in cents.';
comment on column public.products.category is 'The category''s name, used as the flavour.';
comment on column public.products.home_section is 'Where the home page shows it besides the collection, in the order of home_position.';
alter table public.products enable row level security;
create index products_newest_first on public.products (created_at desc);
create index products_by_category on public.products (category);

create policy "everyone reads active products" on public.products for select to anon, authenticated using (is_active);
create policy "staff read every product" on public.products
  for select to authenticated using ((select public.is_admin()));
create policy "staff add products" on public.products
  for insert to authenticated with check ((select public.is_admin()));
create policy "staff edit products" on public.products
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create policy "staff delete products" on public.products
  for delete to authenticated using ((select public.is_admin()));
grant select on public.products to anon, authenticated;
grant
  insert (name, slug, tagline, description, price, image_url, category, brand, stock_quantity, is_active, home_section, home_position),
  update (name, slug, tagline, description, price, image_url, category, brand, stock_quantity, is_active, home_section, home_position, updated_at),
  delete on public.products to authenticated;

-- Rendered pages are kept in memory by every process of the shop; this is how they hear that one is out of date.
create function private.announce_page_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  perform pg_catalog.pg_notify('page_changes', tg_table_name);
  return null;
end
$$;
create trigger categories_change_pages after insert or update or delete or truncate on public.categories
  for each statement execute function private.announce_page_change();
create trigger products_come_and_go_on_pages after insert or delete or truncate on public.products
  for each statement execute function private.announce_page_change();
-- Every order takes units, but pages only show whether there are any.
create trigger products_change_pages after update on public.products
  for each row
  when (
    (old.name, old.slug, old.tagline, old.description, old.price, old.image_url, old.category, old.brand,
      old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.image_url, new.category, new.brand,
      new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  )
  execute function private.announce_page_change();
create trigger store_settings_change_pages after insert or update or delete or truncate on public.store_settings
  for each statement execute function private.announce_page_change();
