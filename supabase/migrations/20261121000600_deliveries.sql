-- Deliveries: one per paid order, in step with its status.

create table public.deliveries (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  delivery_status text not null default 'pending',
  delivery_person text,
  delivery_phone text,
  delivery_vehicle text,
  delivery_notes text,
  pickup_time timestamptz,
  delivery_time timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "an order is delivered once" unique (order_id),
  constraint "a delivery status is known"
    check (delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit', 'delivered', 'failed'))
);
comment on table public.deliveries is 'How a paid order gets to its customer. Made with the payment, filled when staff assign it.';
alter table public.deliveries enable row level security;
create index deliveries_newest_first on public.deliveries (created_at desc);

create policy "staff read every delivery" on public.deliveries
  for select to authenticated using ((select public.is_admin()));
create policy "staff assign deliveries" on public.deliveries
  for insert to authenticated with check ((select public.is_admin()));
create policy "staff update deliveries" on public.deliveries
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
grant select,
  insert (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes),
  update (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes, pickup_time, delivery_time, updated_at)
  on public.deliveries to authenticated;

create function private.make_delivery(order_id uuid) returns void
language sql
set search_path = ''
as $$
  insert into public.deliveries (order_id) values (make_delivery.order_id) on conflict (order_id) do nothing;
$$;

-- Always the order first, then what hangs on it: a settlement holds the order while it makes the delivery, so staff who
-- assign it at that moment must not hold the delivery while its reference waits for the order.
create function private.lock_order_of_delivery() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform from public.orders as o where o.id = new.order_id for no key update;
  return new;
end
$$;
create trigger deliveries_wait_for_orders before insert on public.deliveries
  for each row execute function private.lock_order_of_delivery();

-- A delivery on its way moves its order, and a finished one finishes it.
create function private.move_order_with_delivery() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  update public.orders as o
  set status = case when new.delivery_status = 'delivered' then 'delivered' else 'out_for_delivery' end,
      updated_at = now()
  where o.id = new.order_id
    and o.status is distinct from case when new.delivery_status = 'delivered' then 'delivered' else 'out_for_delivery' end;
  return null;
end
$$;
create trigger deliveries_move_orders after insert or update of delivery_status on public.deliveries
  for each row
  when (new.delivery_status in ('picked_up', 'in_transit', 'delivered'))
  execute function private.move_order_with_delivery();
