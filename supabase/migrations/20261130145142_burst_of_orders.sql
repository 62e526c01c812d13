-- Earlier versions keep working: no function changes what it takes or returns.

create or replace function private.units_in_order(order_id uuid, product_id uuid) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return (
    select sum(own.quantity)::integer
    -- One step in the index of orders: that of products would read every order of a popular one.
    from (select i.product_id, i.quantity from public.order_items as i where i.order_id = units_in_order.order_id offset 0) as own
    where own.product_id = units_in_order.product_id
  );
end
$$;

comment on function private.units_in_order is 'Units of a product in an order. Null if it has none.';

create or replace function private.return_units(order_id uuid, cause text) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = return_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  perform private.state_cause_of_units(return_units.cause, return_units.order_id);
  update public.products as p
  set stock_quantity = p.stock_quantity
    + private.units_in_order(return_units.order_id, p.id)
  where p.id = any (product_ids);
  perform private.state_cause_of_units();
end
$$;

comment on function private.return_units is
  'Returns an order''s units to stock, for one of the causes of stock_changes. The caller has locked the order.';

create or replace function private.take_units(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = take_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  if exists (
    select from public.products as p
    where p.id = any (product_ids) and p.stock_quantity < private.units_in_order(take_units.order_id, p.id)
  ) then
    return false;
  end if;
  perform private.subtract_units(take_units.order_id);
  return true;
end
$$;

comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  paid_networks text[];
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and private.is_before_work(old.status);
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and private.is_before_work(new.status);
begin
  if was_held and not is_held then
    -- In order of product, as expire_reservations locks them.
    perform from private.held_units as h
    where h.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id))
    order by h.product_id
    for no key update;
  end if;
  if is_held and not was_held then
    insert into private.held_units as known (product_id, quantity)
    select i.product_id, sum(i.quantity)
    from public.order_items as i
    where i.order_id = new.id and i.product_id is not null
    group by i.product_id
    order by i.product_id
    on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  elsif was_held and not is_held then
    update private.held_units as known
    set quantity = known.quantity - private.units_in_order(old.id, known.product_id)
    where known.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id));
    -- Before the networks are deleted.
    perform private.end_counted_hold(old.id, is_sold => new.payment_status <> 'unpaid' or not private.is_before_work(new.status));
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that were handed over, are not limited.
  if new.payment_status <> 'unpaid' or not private.is_before_work(new.status) then
    with forgotten as (
      delete from private.order_networks as k where k.order_id = new.id returning k.network
    )
    select array_agg(f.network) into paid_networks from forgotten as f;
    if new.payment_status <> 'unpaid' and paid_networks is not null then
      perform private.count_paid_order(paid_networks);
    end if;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
end
$$;

create or replace function private.extend_counted_hold(order_id uuid, held_until timestamptz) returns boolean
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  held private.unpaid_holds[];
  extended private.unpaid_holds;
  networks text[];
  settings public.store_settings;
begin
  perform from private.held_units as h
  where h.product_id = any (array(select u.product_id from private.unpaid_holds as u where u.order_id = extend_counted_hold.order_id))
  order by h.product_id
  for no key update;
  held := array(select h from private.unpaid_holds as h where h.order_id = extend_counted_hold.order_id order by h.product_id);
  select array_agg(k.network) into networks from private.order_networks as k where k.order_id = extend_counted_hold.order_id;
  select * into strict settings from public.store_settings;
  foreach extended in array held loop
    if not private.is_within_hold_time(
      networks, extended.product_id,
      private.units_in_order(extended.order_id, extended.product_id),
      (select p.stock_quantity + private.units_held(p.id) from public.products as p where p.id = extended.product_id),
      extend_counted_hold.held_until - extended.held_until, extended.is_prompted, settings
    ) then
      return false;
    end if;
  end loop;
  foreach extended in array held loop
    perform private.add_hold_time(extended, extended.held_since - extended.held_until);
    extended.held_until := extend_counted_hold.held_until;
    update private.unpaid_holds as h set held_until = extended.held_until
    where h.order_id = extended.order_id and h.product_id = extended.product_id;
    perform private.add_hold_time(extended, extended.held_until - extended.held_since);
  end loop;
  return true;
end
$$;

comment on function private.extend_counted_hold is
  'Moves the planned end of an order''s hold, if its networks may hold all of its units for longer. Returns whether they may; true for holds that are not counted.';

-- Units of an order are read by its own items, not by all of a popular product.
-- A plan that a session made for few orders must not scan the many of a burst (docs/decisions/database-speed.md). The private functions
-- are called by others, too, which may make their plans.
alter function private.hits_so_far set enable_seqscan = off set jit = off;
alter function private.count_call_from set enable_seqscan = off set jit = off;
alter function public.place_order set enable_seqscan = off set jit = off;
alter function public.change_order_items set enable_seqscan = off set jit = off;
alter function public.track_order set enable_seqscan = off set jit = off;
