-- Cancelled orders whose payments all failed are reduced like those without a payment.

create or replace function private.reduce_abandoned_orders() returns void
language plpgsql set search_path = '' set enable_seqscan = off as $$
declare
  -- Bounds the disk that a flood of orders uses: beyond the newest 5,000, details are stored for a day only.
  stored_since timestamptz := greatest(now() - interval '30 days', (
    select least(o.created_at, now() - interval '1 day') from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
    order by o.created_at desc offset 5000 limit 1
  ));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
      and o.created_at <= stored_since
      and o.reserved_until is null
      and not exists (select from public.payments as p where p.order_id = o.id and p.status <> 'failed')
      and not exists (select from public.mpesa_transactions as t where t.order_id = o.id)
      and not exists (select from public.deliveries as d where d.order_id = o.id)
      and private.retention_reason(o.id) is null
    order by o.created_at limit 2000
    for update skip locked
  );
begin
  delete from private.order_keys as k where k.order_id = any (due);
  delete from public.order_items as i where i.order_id = any (due);
  perform private.anonymise_orders(due);
  delete from public.order_events as e where e.order_id = any (due);
end
$$;
comment on function private.reduce_abandoned_orders is
  'Reduces cancelled orders whose payments all failed, or that had none, to their row, which reports count: after 30 days, or after a day beyond the newest 5,000.';

comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';
