-- Earlier versions keep working: the new column has a default, and their saves name other columns.

alter table public.products add column more_images text[] not null default '{}';
grant insert (more_images), update (more_images) on public.products to authenticated;
comment on column public.products.more_images is 'Shown on its page after image_url, in this order.';

alter table public.products add constraint "at most four more images, each at such an address" check (
  cardinality(more_images) <= 4
  and array_position(more_images, null) is null
  and '' <> all (more_images)
  and array_to_string(more_images, '') !~ '[\\\s[:cntrl:]]'
  and char_length(array_to_string(more_images, '')) <= 2000
  and array_to_string(more_images, ' ')
    ~ '^((https://[^/ ]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/ ])[^ ]*( |$))*$'
);

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  if tg_op = 'UPDATE' and old.price <> new.price then
    perform private.record_price_change(new.id, new.name, old.price, new.price);
  end if;
  if tg_op <> 'DELETE' and coalesce(old.stock_quantity, 0) <> new.stock_quantity then
    perform private.record_stock_change(new.id, coalesce(old.stock_quantity, 0), new.stock_quantity);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.sold_out_until, old.stock_quantity = 0,
      old.size, old.khat_strength, old.caffeine, old.sweetened_with, old.keeps, old.allergens, old.serving_note, old.more_images)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.sold_out_until, new.stock_quantity = 0,
      new.size, new.khat_strength, new.caffeine, new.sweetened_with, new.keeps, new.allergens, new.serving_note, new.more_images)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;
