-- The catalogue in the hands of several members of staff: nobody's change is silently lost, and orders stay whole.

-- Products ---------------------------------------------------------------------------------------------------------

create function private.date_product_edit() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  -- Orders take and give back units all day: stock is compared on its own, or every sale would be in an editor's way.
  -- Nor may a clock that is set back make a change look as if it had not been.
  new.updated_at := case
    when (old.name, old.slug, old.tagline, old.description, old.price, old.image_url, old.category, old.brand,
        old.is_active, old.home_section, old.home_position)
      is distinct from
      (new.name, new.slug, new.tagline, new.description, new.price, new.image_url, new.category, new.brand,
        new.is_active, new.home_section, new.home_position)
    then greatest(clock_timestamp(), old.updated_at + interval '1 microsecond')
    else old.updated_at
  end;
  return new;
end
$$;
create trigger products_date_their_edit before update on public.products
  for each row execute function private.date_product_edit();
comment on column public.products.updated_at is
  'Moves with every edit except of the stock. Who saves an edit names the one they saw, and changes nothing if it has moved.';

create function public.count_product_orders(product_id uuid) returns table (orders bigint, unpaid bigint)
language sql stable
set search_path = ''
as $$
  select count(distinct o.id),
    count(distinct o.id) filter (where o.payment_status = 'unpaid' and o.reserved_until is not null)
  from public.order_items as i
  join public.orders as o on o.id = i.order_id
  where i.product_id = count_product_orders.product_id;
$$;
comment on function public.count_product_orders(uuid) is
  'How many orders contain a product, and in how many of them its units are kept for a payment. Counts what the caller may read.';
grant execute on function public.count_product_orders(uuid) to authenticated, service_role;

-- Categories -------------------------------------------------------------------------------------------------------

-- Names that differ by case or spaces only were possible until now: the older one keeps its name.
do $$
declare
  renamed record;
begin
  for renamed in
    select n.id, n.tidy || case when n.nth > 1 then ' (' || n.nth || ')' else '' end as name
    from (
      select id, name, trim(regexp_replace(name, '\s+', ' ', 'g')) as tidy,
        row_number() over (partition by lower(trim(regexp_replace(name, '\s+', ' ', 'g'))) order by created_at, id) as nth
      from public.categories
    ) as n
    where n.nth > 1 or n.tidy <> n.name
    -- The younger ones first: they may have the very name that the oldest is going to have.
    order by n.nth desc
  loop
    update public.categories as c set name = renamed.name where c.id = renamed.id;
  end loop;
end
$$;
create unique index "category names are unique in any case" on public.categories (lower(name));

create function private.tidy_category_name() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  return new;
end
$$;
create trigger categories_tidy_their_name before insert or update of name on public.categories
  for each row execute function private.tidy_category_name();
comment on column public.categories.is_active is
  'An inactive category is no choice in filters and forms any more; its products keep it and stay listed.';
