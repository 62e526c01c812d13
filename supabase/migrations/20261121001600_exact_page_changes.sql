-- Who keeps rendered pages hears what exactly has changed: the row as it was and as it is now, as far as it decides where
-- it is shown, so that the pages which show it are forgotten and no other.

drop trigger categories_change_pages on public.categories;
drop trigger products_come_and_go_on_pages on public.products;
drop trigger products_change_pages on public.products;
drop trigger store_settings_change_pages on public.store_settings;

create or replace function private.announce_page_change() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  change jsonb := jsonb_build_object('table', tg_table_name);
begin
  if tg_level = 'ROW' and tg_table_name = 'products' then
    if tg_op <> 'INSERT' then
      change := change || jsonb_build_object('old', jsonb_build_object(
        'slug', old.slug, 'category', old.category, 'is_active', old.is_active,
        'home_section', old.home_section, 'home_position', old.home_position));
    end if;
    if tg_op <> 'DELETE' then
      change := change || jsonb_build_object('new', jsonb_build_object(
        'slug', new.slug, 'category', new.category, 'is_active', new.is_active,
        'home_section', new.home_section, 'home_position', new.home_position));
    end if;
    -- A notification holds 8000 bytes. Without its rows it means any row of the table.
    if octet_length(change::text) > 7000 then
      change := jsonb_build_object('table', tg_table_name);
    end if;
  end if;
  perform pg_catalog.pg_notify('page_changes', change::text);
  return null;
end
$$;
comment on function private.announce_page_change() is
  'Tells on the channel page_changes, as JSON, which table changed and, of products, the keys of the row before and after.';

create trigger products_come_and_go_on_pages after insert or delete on public.products
  for each row execute function private.announce_page_change();
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
create trigger products_all_leave_pages after truncate on public.products
  for each statement execute function private.announce_page_change();

create trigger categories_come_and_go_on_pages after insert or delete on public.categories
  for each row execute function private.announce_page_change();
create trigger categories_change_pages after update on public.categories
  for each row
  when ((old.name, old.is_active) is distinct from (new.name, new.is_active))
  execute function private.announce_page_change();
create trigger categories_all_leave_pages after truncate on public.categories
  for each statement execute function private.announce_page_change();

create trigger store_settings_change_pages after update on public.store_settings
  for each row
  when (old.* is distinct from new.*)
  execute function private.announce_page_change();
create trigger store_settings_come_and_go_on_pages after insert or delete or truncate on public.store_settings
  for each statement execute function private.announce_page_change();

-- A product's page is read at once: what it shows of the product and of those beside it is of one moment.
create function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable
set search_path = ''
as $$
  select p.*
  from public.products as p
  where p.is_active and p.slug = product_slug
  union all
  (
    select r.*
    from public.products as p
    join public.products as r on r.category = p.category and r.id <> p.id and r.is_active
    where p.is_active and p.slug = product_slug
    order by r.created_at desc, r.id
    limit least(greatest(related_limit, 0), 24)
  );
$$;
comment on function public.product_and_related(text, integer) is
  'The active product with this slug, first, and the newest others of its category. No row when there is no such product.';
grant execute on function public.product_and_related(text, integer) to anon, authenticated, service_role;
