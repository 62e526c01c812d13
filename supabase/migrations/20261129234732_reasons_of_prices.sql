-- Earlier versions keep working: they give no reason, and read the other columns.

alter table public.price_changes add column reason text;
comment on column public.price_changes.reason is 'Why, in the words of the member. Null: none was given.';
alter table public.products add column reason_of_change text;
comment on column public.products.reason_of_change is
  'Why an update changes the price or the stock, for their histories. Always null: the update''s trigger takes it.';
grant update (reason_of_change) on public.products to authenticated;

alter table public.price_changes add constraint "a reason of a price has at most 200 characters" CHECK (((char_length(reason) >= 3) AND (char_length(reason) <= 200)));

alter table public.products add constraint "a reason is kept in the history alone" CHECK ((reason_of_change IS NULL));

create or replace function private.reason_of_change() returns text
language sql volatile
return nullif(current_setting('private.reason_of_change', true), '');

comment on function private.reason_of_change is 'Why the update of a product that is under way changes its price or stock. Null: no reason was given.';

create or replace function private.record_price_change(product_id uuid, product_name text, from_cents integer, to_cents integer) returns void
language sql volatile set search_path = '' as $$
  insert into public.price_changes (product_id, product_name, from_cents, to_cents, changed_by, changed_by_email, reason)
  select record_price_change.product_id, record_price_change.product_name, record_price_change.from_cents,
    record_price_change.to_cents, (select auth.uid()), private.email_of((select auth.uid())),
    case when record_price_change.product_id is not null then private.reason_of_change() end
  where record_price_change.from_cents <> record_price_change.to_cents;
$$;

create or replace function private.record_stock_change(product_id uuid, from_units integer, to_units integer) returns void
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

create or replace function public.product_history(
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

create or replace function public.change_stock(
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

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;

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
  perform set_config('private.reason_of_change', coalesce(private.read_reason(new.reason_of_change), ''), true);
  new.reason_of_change := null;
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
