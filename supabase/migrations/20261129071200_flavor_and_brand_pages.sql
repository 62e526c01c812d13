-- Earlier versions keep working: they neither read nor write the new table and columns, which triggers fill. Their page caches drop
-- all pages when they receive a change of a table that they do not know.

alter table public.categories
  add column slug text not null default '',
  add column page_text text not null default '',
  add column updated_at timestamptz not null default now();

comment on column public.categories.slug is
  'Of its page, /flavors/{slug}. Made from the first name (private.free_slug); a rename keeps it, so that links stay valid.';
comment on column public.categories.page_text is 'What its page says, as plain text. Empty: only the drinks.';
comment on column public.categories.updated_at is
  'Changes with every edit. A save of the text sends the value that it read, and changes nothing if the row has changed since.';

grant update (page_text) on public.categories to authenticated;

drop trigger categories_after_change on public.categories;

drop trigger categories_before_change on public.categories;

create or replace function public.shop_page(
  search text default '',
  brand text default null,
  category text default null,
  sort text default null,
  page integer default 1
) returns jsonb
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  page_size constant integer := 60;
  most_found constant integer := 250;
  wanted text := trim(left(coalesce(shop_page.search, ''), 200));
  of_brand text := left(shop_page.brand, 200);
  of_category text := left(shop_page.category, 200);
  before integer := (least(greatest(coalesce(shop_page.page, 1), 1), 1000) - 1) * page_size;
  is_whole boolean := (select count(*) from (select from public.products as p where p.is_active limit page_size + 1) as few) <= page_size;
  terms private.search_terms;
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    terms := private.read_search(wanted);
    found_ids := private.found_products(terms, most_found);
  end if;
  if is_whole then
    shown_ids := private.shop_page_ids(null, null, null, 0, page_size);
    matching := coalesce(cardinality(shown_ids), 0);
  elsif wanted <> '' then
    select array_agg(f.id order by f.place) filter (where f.place > before and f.place <= before + page_size), count(*)
    into shown_ids, matching
    from (
      select p.id, row_number() over (
        order by
          case shop_page.sort when 'brand' then lower(p.brand) when 'flavor' then lower(p.category) end,
          case shop_page.sort when 'brand' then p.brand when 'flavor' then p.category end,
          case shop_page.sort when 'price' then p.price end,
          case when shop_page.sort in ('popularity', 'brand', 'flavor', 'price') then p.created_at end desc,
          match.place
      ) as place
      from unnest(found_ids) with ordinality as match (id, place)
      cross join lateral (select * from public.products as p where p.id = match.id offset 0) as p
      where (coalesce(of_brand, '') in ('', p.brand)) and (coalesce(of_category, '') in ('', p.category))
    ) as f;
  else
    select coalesce(sum(c.products), 0) into matching
    from private.catalogue_counts as c
    where coalesce(of_brand, '') in ('', c.brand) and coalesce(of_category, '') in ('', c.category);
    shown_ids := private.shop_page_ids(of_brand, of_category, shop_page.sort, before, page_size);
  end if;
  return jsonb_build_object(
    'is_whole', is_whole,
    'count', matching,
    'may_be_more', coalesce(cardinality(found_ids), 0) = most_found,
    'pages', greatest((matching + page_size - 1) / page_size, 1),
    'products', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'slug', p.slug, 'name', p.name, 'tagline', p.tagline, 'price', p.price, 'previous_price', p.previous_price,
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', public.units_for_sale(p),
          'sold_out_until', p.sold_out_until
        ) order by s.place
      )
      from unnest(case when matching > 0 then shown_ids else private.shop_page_ids(null, null, null, 0, 12) end)
        with ordinality as s (id, place)
      cross join lateral (select * from public.products as p where p.id = s.id offset 0) as p
    ), '[]'),
    'brands', (
      select coalesce(jsonb_agg(distinct c.brand order by c.brand), '[]')
      from private.catalogue_counts as c where c.brand <> ''
    ),
    'categories', (
      select coalesce(jsonb_agg(distinct c.category order by c.category), '[]')
      from private.catalogue_counts as c
      join public.categories as k on k.name = c.category and k.is_active
    ),
    'brand_slugs', (
      select coalesce(jsonb_object_agg(b.name, b.slug), '{}')
      from public.brands as b where b.name in (select c.brand from private.catalogue_counts as c)
    ),
    'category_slugs', (
      select coalesce(jsonb_object_agg(k.name, k.slug), '{}')
      from public.categories as k
      where k.is_active and k.name in (select c.category from private.catalogue_counts as c)
    ),
    'found', case when is_whole and wanted <> '' then (
      select coalesce(jsonb_agg(p.slug order by f.place), '[]')
      from unnest(found_ids) with ordinality as f (id, place)
      cross join lateral (select * from public.products as p where p.id = f.id offset 0) as p
    ) end,
    'correction', case when wanted <> '' then private.better_search(terms) end,
    'most_cents', terms.most_cents
  );
end
$$;

comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. brand_slugs, category_slugs: the pages of brands and flavours, by their names. most_cents: the highest price that the search names. count: products that match; may_be_more: the search has reached its 250 best matches.';

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

create or replace function private.free_slug(page_table text, name text) returns text
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

do $$
declare
  named record;
begin
  for named in select c.name from public.categories as c order by c.created_at, c.name loop
    update public.categories as c set slug = private.free_slug('categories', named.name) where c.name = named.name;
  end loop;
  update public.products as p set brand = null where trim(p.brand) = '';
  for named in select distinct p.brand as name from public.products as p where p.brand is not null order by 1 loop
    insert into public.brands (name, slug) values (named.name, private.free_slug('brands', named.name));
  end loop;
end
$$;

alter table public.categories add constraint "a category's slug is lower-case letters, digits and hyphens" CHECK ((slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'::text));

alter table public.categories add constraint "category slugs are unique" UNIQUE (slug);

alter table public.categories add constraint "the text of a flavor's page is at most 2,000 characters" CHECK ((char_length(page_text) <= 2000));

alter table public.products add constraint "a product's brand is known" FOREIGN KEY (brand) REFERENCES brands(name) ON UPDATE CASCADE;

create or replace function private.add_brand(name text) returns void
language plpgsql set search_path = '' as $$
begin
  if not exists (select from public.brands as b where b.name = add_brand.name) then
    insert into public.brands (name) values (add_brand.name) on conflict on constraint brands_pkey do nothing;
  end if;
end
$$;

comment on function private.add_brand is 'Adds the brand of a product, unless it is known.';

create or replace function public.list_pages() returns table (
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

create or replace function private.counted_page(path text) returns text
language sql stable set search_path = '' as $$
  -- Only existing pages have their own rows, so that requests cannot fill the table.
  select case
    when page in ('/', '/shop', '/contact', '/delivery', '/newsletter', '/track-order') then page
    -- Tracking numbers are not counted.
    when page like '/track-order/%' then '/track-order'
    when page ~ '^/(admin|api)(/|$)' then null
    when exists (select from public.products as p where page = '/shop/' || p.slug) then page
    when exists (select from public.categories as c where page = '/flavors/' || c.slug) then page
    when exists (select from public.brands as b where page = '/brands/' || b.slug) then page
    else 'other'
  end
  from (select coalesce(nullif(rtrim(counted_page.path, '/'), ''), '/') as page) as visited;
$$;

comment on function private.counted_page is
  'The page under which a view is counted: a storefront page; ''other'' for unknown paths; null for staff screens.';

create or replace function private.after_page_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_catalog.pg_notify('page_changes', jsonb_build_object('table', tg_table_name)::text);
  perform private.record_audit_event(
    'shop_text_changed', new.name, jsonb_build_object('body', old.page_text), jsonb_build_object('body', new.page_text)
  );
  return null;
end
$$;

create trigger categories_after_change after update on public.categories
  for each row
  when (old.* is distinct from new.*)
  execute function private.after_page_text_change();

create trigger brands_after_change after update on public.brands
  for each row
  when (old.* is distinct from new.*)
  execute function private.after_page_text_change();

-- Triggers: one for each table and timing, which calls its steps in the order written here. Steps run as the owner. A change by a
-- step fires its triggers before the next step begins. old is null for an inserted row, new for a deleted one.

-- Products, categories and settings

create or replace function private.before_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    new := private.without_invisible_texts(new);
    new.brand := nullif(new.brand, '');
    perform private.add_brand(new.brand) where new.brand is not null;
    return new;
  end if;
  -- A change of the stock or of sold_out_until alone is no edit, so that neither conflicts with a staff member's edit.
  old.stock_quantity := new.stock_quantity;
  old.sold_out_until := new.sold_out_until;
  -- Generated columns are computed after this.
  old.is_low_on_stock := new.is_low_on_stock;
  if old is not distinct from new then
    return new;
  end if;
  new := private.without_invisible_texts(new);
  new.brand := nullif(new.brand, '');
  perform private.add_brand(new.brand) where new.brand <> coalesce(old.brand, '');
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  -- A price that is not below the previous one ends the offer.
  if new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price then
    new.previous_price := null;
  end if;
  return new;
end
$$;

create or replace function private.before_category_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'INSERT' then
    new.slug := coalesce(nullif(new.slug, ''), private.free_slug('categories', new.name));
    return new;
  end if;
  if old.name <> new.name then
    -- The foreign key updates its products in any order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger categories_before_change before insert or update on public.categories
  for each row execute function private.before_category_change();

create or replace function private.before_brand_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  if tg_op = 'INSERT' then
    new.slug := coalesce(nullif(new.slug, ''), private.free_slug('brands', new.name));
    return new;
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger brands_before_change before insert or update on public.brands
  for each row execute function private.before_brand_change();

create trigger brands_by_staff before insert or update or delete on public.brands for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

alter publication supabase_realtime add table public.brands;
