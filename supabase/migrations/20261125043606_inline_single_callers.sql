drop function private.caller_address();

drop function private.create_delivery(uuid);

drop function private.delete_old_limits();

drop function private.fail_attempt(uuid,text,private.payment_report,text);

drop function private.record_refund_limit_raise(store_settings,store_settings);

create or replace function private.count_order_lookup(tracking_number text) returns boolean
language plpgsql set search_path = '' as $$
declare
  number_of_caller text := (private.caller_networks())[1] || ' ' || count_order_lookup.tracking_number;
begin
  if not private.count_call('order_lookups') then
    return false;
  end if;
  -- The same number counts once a day, so that an open page is not limited.
  if number_of_caller is null or private.hits_so_far('order_looked_up', number_of_caller, interval '1 day') > 0 then
    return true;
  end if;
  if not private.count_call('orders_looked_up') then
    return false;
  end if;
  perform private.count_hit('order_looked_up', number_of_caller, interval '1 day');
  return true;
end
$$;

comment on function private.count_order_lookup is
  'Counts a lookup without proof, and returns whether it is allowed: per network 60 in 10 minutes, and 300 different numbers a day.';

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  update public.orders as o
  set payment_status = 'paid', payment_method = 'mpesa',
      status = case when o.status in ('pending', 'cancelled') then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  insert into public.deliveries (order_id) values (paid_order.id) on conflict do nothing;
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function private.fail_attempt(attempt_id uuid, new_status text, report private.payment_report, description text) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = new_status, result_code = report.result_code, result_description = description,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id), next_query_at = null,
      updated_at = now()
  where p.id = attempt_id;
$$;

comment on function private.fail_attempt is
  'Ends an attempt without paying its order: failed, or review when the amount is not the charge.';

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  forgotten integer;
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
  forgotten := private.anonymise_old_messages();
  perform private.clear_old_payment_messages();
  perform private.anonymise_old_orders();
  perform private.reduce_abandoned_orders();
  delete from public.inquiries as i
  where i.id in (
    select old.id from public.inquiries as old
    where old.created_at < now() - make_interval(months => (select s.inquiries_months from public.store_settings as s))
    order by old.created_at limit 5000
    for update skip locked
  );
  delete from public.newsletter_subscriptions as n
  where n.id in (
    select old.id from public.newsletter_subscriptions as old
    where old.confirmed_at is null and coalesce(old.confirmation_queued_at, old.created_at) < now() - interval '7 days'
    order by old.created_at limit 5000
    for update skip locked
  );
  return forgotten;
end
$$;

comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

grant execute on function public.forget_old_rows to service_role;

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;
