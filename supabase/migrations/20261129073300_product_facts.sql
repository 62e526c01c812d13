-- Earlier versions keep working: the new columns are optional, and their saves name other columns.

alter table public.products
  add column size text,
  add column khat_strength text,
  add column caffeine text,
  add column sweetened_with text,
  add column keeps text,
  add column allergens text,
  add column serving_note text;

grant
  insert (size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note),
  update (size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note)
  on public.products to authenticated;

comment on column public.products.size is 'What one unit holds, such as "500 ml". With the next six: facts of the page, null where not known.';
comment on column public.products.khat_strength is 'Such as "Medium".';
comment on column public.products.caffeine is 'Such as "None added".';
comment on column public.products.sweetened_with is 'Such as "Wild honey".';
comment on column public.products.keeps is 'How long it keeps, such as "3 days in the fridge".';
comment on column public.products.allergens is 'Such as "None".';
comment on column public.products.serving_note is 'How to serve it, such as "Shake well, pour over ice".';

alter table public.products add constraint "facts of a product are one line each" CHECK ((concat(size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note) !~ '[[:cntrl:]]'::text));

alter table public.products add constraint "facts of a product are within their lengths" check (
    char_length(size) between 1 and 40 and char_length(khat_strength) between 1 and 40 and char_length(caffeine) between 1 and 40
    and char_length(sweetened_with) between 1 and 80 and char_length(keeps) between 1 and 80
    and char_length(allergens) between 1 and 200 and char_length(serving_note) between 1 and 200
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
      old.size, old.khat_strength, old.caffeine, old.sweetened_with, old.keeps, old.allergens, old.serving_note)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.sold_out_until, new.stock_quantity = 0,
      new.size, new.khat_strength, new.caffeine, new.sweetened_with, new.keeps, new.allergens, new.serving_note)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;
