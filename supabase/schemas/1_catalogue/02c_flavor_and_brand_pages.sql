-- Pages of flavours and brands (docs/decisions/flavor-and-brand-pages.md). Flavours are public.categories.

create table public.brands (
  name text primary key,
  slug text not null default '',
  page_text text not null default '',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "brand slugs are unique" unique (slug),
  constraint "a brand has a name" check (char_length(trim(name)) between 1 and 160),
  constraint "a brand's slug is lower-case letters, digits and hyphens" check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  constraint "the text of a brand's page is at most 2,000 characters" check (char_length(page_text) <= 2000)
);
comment on table public.brands is
  'Brands that a product has or had, added with its first product (private.before_product_change). Visitors see those of active products.';
comment on column public.brands.slug is 'Of its page, /brands/{slug}, as of categories.';
comment on column public.brands.page_text is 'What its page says, as plain text. Empty: only the drinks.';
comment on column public.brands.updated_at is 'As of categories.';
alter table public.brands enable row level security;
grant select on public.brands to anon, authenticated;
grant update (page_text) on public.brands to authenticated;
create policy "everyone reads brands of active products" on public.brands for select to anon, authenticated using (
  -- The first condition is the first column of products_shown_by_brand.
  exists (select from public.products as p where lower(p.brand) = lower(brands.name) and p.brand = brands.name and p.is_active)
);
create policy "staff read and edit every brand" on public.brands
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

alter table public.products add constraint "a product's brand is known"
  foreign key (brand) references public.brands (name) on update cascade;

create function private.free_slug(page_table text, name text) returns text
language plpgsql volatile set search_path = '' as $$
declare
  base constant text := coalesce(
    nullif(trim(both '-' from left(regexp_replace(
      -- Without accents, which normalisation separates from their letters.
      regexp_replace(lower(normalize(free_slug.name, nfkd)), '[^a-z0-9 -]', '', 'g'), '[ -]+', '-', 'g'), 100)), ''),
    'page'
  );
  candidate text := base;
  is_taken boolean;
begin
  for number in 2..10000 loop
    execute format('select exists (select from public.%I as t where t.slug = $1)', page_table) into is_taken using candidate;
    exit when not is_taken;
    candidate := base || '-' || number;
  end loop;
  return candidate;
end
$$;
comment on function private.free_slug is
  'The slug of a name in categories or brands that no other row has: "Pineapple Mint" is pineapple-mint, a second one pineapple-mint-2.';

create function private.add_brand(name text) returns void
language plpgsql set search_path = '' as $$
begin
  if not exists (select from public.brands as b where b.name = add_brand.name) then
    insert into public.brands (name) values (add_brand.name) on conflict on constraint brands_pkey do nothing;
  end if;
end
$$;
comment on function private.add_brand is 'Adds the brand of a product, unless it is known.';

create function public.list_pages() returns table (
  kind text, name text, slug text, page_text text, products integer, is_active boolean, updated_at timestamptz
)
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('products');
  return query
    with counts as (select c.category, c.brand, c.products from private.catalogue_counts as c)
    select 'flavor', k.name, k.slug, k.page_text,
      (select coalesce(sum(c.products), 0)::integer from counts as c where c.category = k.name), k.is_active, k.updated_at
    from public.categories as k
    union all
    select 'brand', b.name, b.slug, b.page_text,
      (select coalesce(sum(c.products), 0)::integer from counts as c where c.brand = b.name), true, b.updated_at
    from public.brands as b
    where exists (select from public.products as p where p.brand = b.name)
    order by 1 desc, 2;
end
$$;
comment on function public.list_pages is
  'For staff: the pages of flavours and of the brands that a product has, with the number of active products. A page without one is not shown to visitors.';

-- Execution rights
grant execute on function public.list_pages to authenticated, service_role;
