-- Staff set any status from any other: the units of an order follow, each of them once; and what only a person can decide.

create function private.take_units(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- In one order for all, so that two orders of the same products do not wait for each other.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
  order by p.id
  for update of p;
  if exists (
    select from public.products as p
    join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
    group by p.id
    having p.stock_quantity < sum(i.quantity)
  ) then
    perform private.refuse(409, 'units_sold_meanwhile',
      'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
  end if;
  update public.products as p
  set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = take_units.order_id and p.id = i.product_id;
end
$$;
comment on function private.take_units(uuid) is 'Takes an order''s units out of stock again. The order''s row must be locked.';

-- Only where nothing but the status changes: a settlement and a reservation that runs out move the units themselves.
-- The units of an unpaid order that is cancelled go back with the next sweep of the reservations, once no prompt is open.
create function private.move_units_with_status() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if new.status = 'cancelled' then
    -- What has left the house does not come back by itself.
    if new.payment_status in ('paid', 'refunded') and new.units_returned_at is null and old.status in ('pending', 'processing') then
      perform private.return_units(new.id);
      new.units_returned_at := now();
    end if;
  elsif new.payment_status in ('paid', 'refunded') and new.units_returned_at is not null then
    perform private.take_units(new.id);
    new.units_returned_at := null;
  elsif new.payment_status = 'unpaid' and new.reserved_until is null then
    perform private.take_units(new.id);
    new.reserved_until := now() + (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
  end if;
  return new;
end
$$;
create trigger orders_move_their_units before update of status on public.orders
  for each row
  when (
    old.payment_status = new.payment_status
    and old.status <> new.status
    and (old.status = 'cancelled' or new.status = 'cancelled')
  )
  execute function private.move_units_with_status();

create function public.decide_paid_order(order_id uuid, decision text) returns void
language plpgsql security definer
set search_path = ''
as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = decide_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  if decide_paid_order.decision = 'deliver' and decided.payment_status = 'needs_decision' then
    if private.mark_order_paid(decided.id) <> 'paid' then
      perform private.refuse(409, 'units_sold_meanwhile',
        'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
    end if;
  elsif decide_paid_order.decision = 'refunded' and (
    decided.payment_status = 'needs_decision' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    update public.orders as o
    set payment_status = 'refunded',
        status = 'cancelled',
        -- Money that waited for a decision holds no units.
        units_returned_at = case when decided.payment_status = 'needs_decision' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_decide', 'This order has changed. There is nothing to decide any more');
  end if;
end
$$;
comment on function public.decide_paid_order(uuid, text) is
  'What a member of staff decides about money: deliver an order whose units were sold before it was paid, once there are units again; or note that the money of such an order, or of a cancelled one, was sent back (refunded).';
grant execute on function public.decide_paid_order(uuid, text) to authenticated, service_role;
