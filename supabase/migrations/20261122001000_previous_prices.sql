-- Offers: a product may show the price it had before, crossed out.

alter table public.products
  add column previous_price integer,
  add constraint "a previous price is above the price" check (previous_price > price and previous_price <= 1000000000);
comment on column public.products.previous_price is
  'In cents: the price before the current offer, shown crossed out. Null: the product is not on offer.';
grant insert (previous_price), update (previous_price) on public.products to authenticated;

create function private.end_outdated_offer() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  new.previous_price := null;
  return new;
end
$$;
comment on function private.end_outdated_offer() is
  'Ends an offer when an update that does not mention it raises the price to the previous price or above.';
-- Clients that know nothing of offers can change prices as before.
create trigger products_end_outdated_offers before update on public.products
  for each row
  when (new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price)
  execute function private.end_outdated_offer();

create or replace function private.date_product_edit() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  -- Stock is compared on its own: orders take and return units all day and must not conflict with a staff member's edit.
  -- The date never moves backwards, even when the clock does.
  new.updated_at := case
    when (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
        old.brand, old.is_active, old.home_section, old.home_position)
      is distinct from
      (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
        new.brand, new.is_active, new.home_section, new.home_position)
    then greatest(clock_timestamp(), old.updated_at + interval '1 microsecond')
    else old.updated_at
  end;
  return new;
end
$$;

drop trigger products_change_pages on public.products;
-- Every order takes units, but pages only show whether there are any.
create trigger products_change_pages after update on public.products
  for each row
  when (
    (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  )
  execute function private.announce_page_change();
