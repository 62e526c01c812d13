-- What staff see of products: the history of prices and stock (docs/decisions/stock-history.md), lists, and changes of the stock.

-- History of prices and stock

create table public.price_changes (
  id bigint generated always as identity primary key,
  product_id uuid,
  product_name text,
  from_cents integer not null,
  to_cents integer not null,
  changed_by uuid,
  changed_by_email text,
  changed_at timestamptz not null default clock_timestamp(),
  reason text,
  constraint "a change of a price has its product's name" check ((product_id is null) = (product_name is null)),
  -- As private.read_reason reads it.
  constraint "a reason of a price has at most 200 characters" check (char_length(reason) between 3 and 200)
);
comment on table public.price_changes is
  'Changes of prices, and of the delivery fee (without a product). Append-only. It refers to no product, so that it survives one. changed_by_email: the email address at that time.';
comment on column public.price_changes.reason is 'Why, in the words of the member. Null: none was given.';
alter table public.price_changes enable row level security;
revoke all on public.price_changes from anon, authenticated, service_role;
grant select on public.price_changes to authenticated, service_role;
create policy "staff read every price change" on public.price_changes
  for select to authenticated using ((select public.may('products')));
create index price_changes_by_product on public.price_changes (product_id, id);

create trigger price_changes_before_change before update or delete on public.price_changes
  for each row execute function private.refuse_change('The history of prices is only added to');

create function private.reason_of_change() returns text
language sql volatile
return nullif(current_setting('private.reason_of_change', true), '');
comment on function private.reason_of_change is 'Why the update of a product that is under way changes its price or stock. Null: no reason was given.';

create function private.record_price_change(product_id uuid, product_name text, from_cents integer, to_cents integer) returns void
language sql volatile set search_path = '' as $$
  insert into public.price_changes (product_id, product_name, from_cents, to_cents, changed_by, changed_by_email, reason)
  select record_price_change.product_id, record_price_change.product_name, record_price_change.from_cents,
    record_price_change.to_cents, (select auth.uid()), private.email_of((select auth.uid())),
    case when record_price_change.product_id is not null then private.reason_of_change() end
  where record_price_change.from_cents <> record_price_change.to_cents;
$$;

create table public.stock_changes (
  id bigint generated always as identity,
  product_id uuid not null,
  order_id uuid,
  changed_by uuid,
  changed_at timestamptz not null default clock_timestamp(),
  from_units integer not null,
  to_units integer not null,
  cause text not null,
  changed_by_email text,
  reason text,
  -- The only index: every order adds a row.
  primary key (product_id, id),
  constraint "a cause of a stock change is known" check (
    cause in ('edited', 'ordered', 'reservation_ended', 'order_changed', 'cancelled', 'refunded', 'under_review')
  ),
  constraint "a stock change has its order, unless it is an edit" check ((order_id is null) = (cause = 'edited')),
  -- As private.read_reason reads it.
  constraint "only an edit has a reason, of at most 200 characters" check (
    reason is null or (cause = 'edited' and char_length(reason) between 3 and 200)
  )
);
comment on table public.stock_changes is
  'Changes of the stock, with what caused them. Append-only. It refers to no product and no order, so that it survives them. changed_by_email: the email address at that time.';
comment on column public.stock_changes.cause is
  'edited: by staff, or by the shop itself. ordered: an order took the units. All others returned the units of an order: its reservation ended, its customer changed its drinks, it was cancelled, its money was sent back, or its payment needs review.';
comment on column public.stock_changes.reason is 'Why, in the words of the member. Null: none was given.';
alter table public.stock_changes enable row level security;
revoke all on public.stock_changes from anon, authenticated, service_role;
grant select on public.stock_changes to authenticated, service_role;
create policy "staff read every stock change" on public.stock_changes
  for select to authenticated using ((select public.may('products')));

create trigger stock_changes_before_change before update or delete on public.stock_changes
  for each row execute function private.refuse_change('The history of the stock is only added to');

create function private.state_cause_of_units(cause text default null, order_id uuid default null) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform set_config('private.cause_of_units', coalesce(cause || ' ' || order_id, ''), true);
end
$$;
comment on function private.state_cause_of_units is
  'States why the next statements change stock, and for which order. Without arguments: the order has its units now.';

create function private.record_stock_change(product_id uuid, from_units integer, to_units integer) returns void
language plpgsql set search_path = '' as $$
declare
  member constant uuid := auth.uid();
  stated constant text := coalesce(current_setting('private.cause_of_units', true), '');
begin
  insert into public.stock_changes (product_id, from_units, to_units, cause, order_id, changed_by, changed_by_email, reason)
  values (
    record_stock_change.product_id, record_stock_change.from_units, record_stock_change.to_units,
    case when stated = '' then 'edited' else split_part(stated, ' ', 1) end,
    nullif(split_part(stated, ' ', 2), '')::uuid,
    member, case when member is not null then private.email_of(member) end,
    private.reason_of_change()
  );
end
$$;

create function public.product_history(
  product_id uuid, before_stock_change bigint default null, before_price_change bigint default null, page_size integer default 50
) returns table (
  kind text, id bigint, from_value integer, to_value integer, cause text, order_id uuid, order_number text, changed_by_email text,
  changed_at timestamptz, reason text
)
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 200);
begin
  perform private.expect_staff('products');
  -- Of one edit, the trigger records the price before the stock.
  return query
    with changes as (
      (
        select 'stock' as kind, s.id, s.from_units, s.to_units, s.cause, s.order_id, s.changed_by_email, s.changed_at, s.reason
        from public.stock_changes as s
        where s.product_id = product_history.product_id and s.id < coalesce(before_stock_change, 9223372036854775807)
        order by s.id desc limit most
      )
      union all
      (
        select 'price', c.id, c.from_cents, c.to_cents, 'edited', null, c.changed_by_email, c.changed_at, c.reason
        from public.price_changes as c
        where c.product_id = product_history.product_id and c.id < coalesce(before_price_change, 9223372036854775807)
        order by c.id desc limit most
      )
    )
    select c.kind, c.id, c.from_units, c.to_units, c.cause, c.order_id, o.order_number, c.changed_by_email, c.changed_at, c.reason
    from (select * from changes order by changes.changed_at desc, changes.kind desc, changes.id desc limit most) as c
    left join lateral (select own.order_number from public.orders as own where own.id = c.order_id offset 0) as o on true
    order by c.changed_at desc, c.kind desc, c.id desc;
end
$$;
comment on function public.product_history is
  'For staff: a page of the changes of a product''s stock (units) and price (cents), newest first. The next page is before the smallest id of each kind so far.';

-- Stock, brands, lists

create function public.change_stock(
  product_id uuid, by integer, reason text default null, seen_units integer default null
) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  units integer;
begin
  perform private.expect_staff('products');
  update public.products as p set stock_quantity = p.stock_quantity + change_stock.by, reason_of_change = private.read_reason(change_stock.reason)
  where p.id = change_stock.product_id and p.stock_quantity::bigint + change_stock.by between 0 and 2147483647
    and p.stock_quantity = coalesce(change_stock.seen_units, p.stock_quantity)
  returning p.stock_quantity into units;
  if not found then
    select p.stock_quantity into units from public.products as p where p.id = change_stock.product_id;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif units <> change_stock.seen_units then
      perform private.refuse(409, 'stock_changed', format('There are %s in stock now', units), units::text);
    end if;
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', units), units::text);
  end if;
  perform private.note_answer(to_jsonb(units));
  return units;
end
$$;
comment on function public.change_stock is
  'For staff: adds units to the stock of a product, or takes some away (by < 0), whatever was sold in the meantime; with seen_units only if that is the stock. reason: why, in their own words. Returns the units now.';

create function public.list_brands() returns setof text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return query select distinct c.brand from private.catalogue_counts as c where c.brand <> '' order by c.brand;
end
$$;
comment on function public.list_brands is 'For staff: the brands of active products, by name.';

create function public.typical_price() returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return (
    select percentile_disc(0.5) within group (order by p.price)
    from (select n.price from public.products as n where n.is_active order by n.created_at desc, n.id limit 200) as p
  );
end
$$;
comment on function public.typical_price is 'For staff: the median price of the newest 200 active products in cents. Null without products.';

create function public.find_products(
  search text default '', category text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50,
  sort text default '', low_on_stock boolean default false
) returns setof public.products
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  condition constant text := case when find_products.low_on_stock then 't.is_active and t.is_low_on_stock' else 'true' end
    || coalesce(' and t.category = ' || quote_literal(find_products.category), '');
  sorted_by constant text := case ltrim(find_products.sort, '-')
    when 'name' then 'lower(t.name)' when 'price' then 't.price' when 'stock' then 't.stock_quantity'
  end;
  direction constant text := case when find_products.sort like '-%' then 'desc' else 'asc' end;
  found_ids uuid[];
begin
  perform private.expect_staff('products');
  if sorted_by is null then
    found_ids := private.find_by_text(
      'products', 'lower(t.name)', condition,
      find_products.search, null, find_products.before_created_at, find_products.before_id, find_products.page_size
    );
    return query
      select p.* from public.products as p where p.id = any (found_ids) order by p.created_at desc, p.id desc;
    return;
  end if;
  -- Reads the whole catalogue: an index by stock would be updated by every order.
  return query execute format(
    'select t.* from public.products as t
     where %1$s and (trim(coalesce($1, '''')) = '''' or position(lower(trim($1)) in lower(t.name)) > 0)
       and ($2 is null or (%2$s, t.id) %4$s (select %2$s, t.id from public.products as t where t.id = $2))
     order by %2$s %3$s, t.id %3$s
     limit least(greatest(coalesce($3, 50), 1), 1000)',
    condition, sorted_by, direction, case direction when 'asc' then '>' else '<' end
  ) using find_products.search, find_products.before_id, find_products.page_size;
end
$$;
comment on function public.find_products is
  'For staff: a page of products, hidden ones included, whose name contains a text, ignoring case; after the one named by before_created_at and before_id. sort: name, price or stock, with - before it for descending; otherwise newest first. low_on_stock: only active ones with a low stock.';

create function public.list_categories() returns table (id uuid, name text, is_active boolean, products integer)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('products');
  return query
    select c.id, c.name, c.is_active, (
      select count(*)::integer
      from (select from public.products as p where p.category = c.name limit 101) as bounded
    )
    from public.categories as c
    order by c.name;
end
$$;
comment on function public.list_categories is
  'For staff: every category by name, hidden ones included, with the number of its products; 101 means more than 100.';

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;
