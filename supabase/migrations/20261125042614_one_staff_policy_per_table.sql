drop policy "staff add categories" on public.categories;

drop policy "staff edit categories" on public.categories;

drop policy "staff read every category" on public.categories;

drop policy "staff assign deliveries" on public.deliveries;

drop policy "staff read every delivery" on public.deliveries;

drop policy "staff update deliveries" on public.deliveries;

drop policy "staff edit the templates" on public.message_templates;

drop policy "staff read the templates" on public.message_templates;

drop policy "staff read every order" on public.orders;

drop policy "staff set the order status" on public.orders;

drop policy "staff add products" on public.products;

drop policy "staff delete products" on public.products;

drop policy "staff edit products" on public.products;

drop policy "staff read every product" on public.products;

drop policy "staff add synonyms" on public.search_synonyms;

drop policy "staff edit synonyms" on public.search_synonyms;

drop policy "staff read the synonyms" on public.search_synonyms;

drop policy "staff remove synonyms" on public.search_synonyms;

drop policy "staff delete product images" on storage.objects;

drop policy "staff replace product images" on storage.objects;

drop policy "staff upload product images" on storage.objects;

create policy "staff read and edit every category" on public.categories
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create policy "staff read and edit every product" on public.products
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create policy "staff edit product images" on storage.objects for all to authenticated
  using (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin()))
  with check (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin()));

create policy "staff read and edit the synonyms" on public.search_synonyms
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create policy "staff read and edit every order" on public.orders
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
  cancelled record;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number, 'live_handle', described.live_handle,
    'status', private.shown_status(described.status), 'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- Public: whether the order is paid and whether staff check a payment. Not public: the amount.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(p.status in ('initiating', 'processing')) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif described.payment_status in ('paid', 'needs_review') and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and r.status in ('approved', 'sending', 'sent', 'unknown')
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.status = 'cancelled' then
    select e.actor, e.details ->> 'reason' as reason into cancelled
    from public.order_events as e
    where e.order_id = described.id and e.kind = 'status_changed' and e.details ->> 'to' = 'cancelled'
    order by e.id desc limit 1;
    if cancelled.reason = 'not_paid_in_time' or cancelled.actor = 'staff' then
      answer := answer || jsonb_build_object(
        'cancelled_because', case when cancelled.reason = 'not_paid_in_time' then 'not_paid_in_time' else 'by_shop' end
      );
    end if;
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' and described.status = 'pending' then
    answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
  elsif described.payment_status <> 'unpaid' then
    select answer || jsonb_strip_nulls(jsonb_build_object(
      'paid_cents', sum(p.charge_cents) filter (where not p.needs_refund),
      'refunded_cents', sum(p.charge_cents) filter (where not p.needs_refund and p.refunded_at is not null),
      'surplus_cents', sum(p.charge_cents) filter (where p.needs_refund and p.refunded_at is null)
    )) into answer
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed';
  end if;
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that domain/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded) and part_paid_cents.';

create policy "staff read and edit every delivery" on public.deliveries
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create policy "staff read and edit the templates" on public.message_templates
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

-- Triggers: one for each table and timing, which calls its steps in the order written here. Steps run as the owner. A change by a
-- step fires its triggers before the next step begins. old is null for an inserted row, new for a deleted one.

-- Products, categories and settings

create or replace function private.before_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  -- Ignores the stock, so that orders do not conflict with a staff member's edit.
  new.updated_at := private.time_of_edit(to_jsonb(old) - 'stock_quantity', to_jsonb(new) - 'stock_quantity');
  -- A price that is not below the previous one ends the offer.
  if new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price then
    new.previous_price := null;
  end if;
  return new;
end
$$;
