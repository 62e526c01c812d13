-- Earlier versions keep working: the lists have one value more, which they ignore.

create function public.serving(product public.products) returns text
language sql immutable set search_path = '' as $$
  select nullif(concat_ws(' · ', coalesce(product.size, said.size), coalesce(
    substring(product.slug from '-(bottle|can|flask|jug|carton|pouch)$'),
    lower(substring(said.after_size from '(?i)^(?:\s+[[:alpha:]-]+){0,2}?\s+(bottle|can|flask|jug|carton|pouch)\M'))
  )), '')
  from (
    select
      regexp_replace(lower(found[1]), '(\d)\s*(ml|cl|l)$', '\1 \2') as size,
      found[2] as after_size
    from (select regexp_match(product.description, '(?i)\m(\d+(?:\.\d+)?\s?(?:ml|cl|l))\M(.{0,60})') as found) as named
  ) as said;
$$;

comment on function public.serving is
  'Computed column: size and vessel of a product, such as "500 ml · bottle": its size, else that of its description, and the vessel at the end of its slug or after that size. Null where neither is known.';

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
          'sold_out_until', p.sold_out_until, 'serving', public.serving(p)
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

-- Execution rights
grant execute on function public.product_and_related, public.home_products, public.shop_page, public.serving
  to anon, authenticated, service_role;
