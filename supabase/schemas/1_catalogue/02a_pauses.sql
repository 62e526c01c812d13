-- What cannot be ordered for a while: everything while orders are paused, and drinks that are sold out (docs/decisions/pauses.md)

-- Pauses of orders

create table public.order_pauses (
  id bigint generated always as identity primary key,
  reason text,
  paused_until timestamptz,
  changed_by uuid,
  changed_by_email text,
  changed_at timestamptz not null default clock_timestamp()
);
comment on table public.order_pauses is
  'Pauses of orders, and when staff ended them (without a reason). Append-only. changed_by_email: the email address at that time.';
alter table public.order_pauses enable row level security;
revoke all on public.order_pauses from anon, authenticated, service_role;
grant select on public.order_pauses to authenticated, service_role;
create policy "staff read every pause" on public.order_pauses for select to authenticated using ((select public.may('orders')));

create trigger order_pauses_before_change before update or delete on public.order_pauses
  for each row execute function private.refuse_change('The history of pauses is only added to');

create function private.are_orders_paused(settings public.store_settings) returns boolean
language sql stable
return settings.orders_pause_reason is not null and coalesce(settings.orders_paused_until > now(), true);

create function private.end_of_pause(paused_until timestamptz) returns text
language sql stable
return coalesce('until ' || to_char(paused_until at time zone 'Africa/Nairobi', 'HH24:MI'), 'for now');
comment on function private.end_of_pause is
  'The end of a pause as customers read it: until 18:30. The same sentence is in domain/orders/order-pause.ts.';

create function public.pause_orders(reason text, minutes integer default null) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  shown text;
begin
  perform private.expect_staff('orders');
  shown := rtrim(private.read_reason(pause_orders.reason, is_required => true), ' .');
  if char_length(shown) not between 1 and 80 or private.has_control_characters(shown) then
    perform private.refuse(400, 'reason_invalid', 'Customers read this: please write one line of at most 80 characters');
  elsif pause_orders.minutes not between 1 and 1440 then
    perform private.refuse(400, 'pause_invalid', 'A pause lasts up to 24 hours, or until you resume');
  end if;
  update public.store_settings as s
  set orders_pause_reason = shown, orders_paused_until = now() + make_interval(mins => pause_orders.minutes)
  where s.id;
end
$$;
comment on function public.pause_orders is
  'For staff: place_order refuses orders for some minutes (null: until resume_orders). Orders that exist are paid and delivered as usual.';

create function public.resume_orders() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  update public.store_settings as s
  set orders_pause_reason = null, orders_paused_until = null
  where private.are_orders_paused(s);
end
$$;
comment on function public.resume_orders is 'For staff: ends a pause of orders.';

create function private.refuse_while_paused(settings public.store_settings) returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.are_orders_paused(settings) then
    perform private.refuse(409, 'orders_paused', format(
      'Orders are paused %s: %s.', private.end_of_pause(settings.orders_paused_until), settings.orders_pause_reason
    ));
  end if;
end
$$;

-- Drinks that are sold out for a while

create function public.units_for_sale(product public.products) returns integer
language sql stable
return case when product.sold_out_until > now() then 0 else product.stock_quantity end;
comment on function public.units_for_sale is
  'Computed column: the units that can be ordered now, none while staff have set the product to sold out.';

create function public.set_sold_out(product_id uuid, span text default null) returns timestamptz
language plpgsql volatile security definer set search_path = '' as $$
declare
  ends_at timestamptz := case set_sold_out.span
    when 'hour' then now() + interval '1 hour'
    when 'tomorrow' then (private.nairobi_day(now()) + 1 + time '06:00') at time zone 'Africa/Nairobi'
  end;
begin
  perform private.expect_staff('products');
  if set_sold_out.span is not null and ends_at is null then
    perform private.refuse(400, 'span_unknown', 'A product is sold out for an hour or until tomorrow');
  end if;
  update public.products as p set sold_out_until = ends_at where p.id = set_sold_out.product_id;
  if not found then
    perform private.refuse(404, 'product_not_found', 'This product does not exist');
  end if;
  return ends_at;
end
$$;
comment on function public.set_sold_out is
  'For staff: nobody can order a product for an hour (span: hour) or until 6:00 of the next day in Nairobi (tomorrow), or its stock decides again (null). Its stock does not change. Returns the end.';

-- Execution rights
grant execute on function public.units_for_sale to anon, authenticated, service_role;
grant execute on function public.pause_orders, public.resume_orders, public.set_sold_out to authenticated, service_role;
