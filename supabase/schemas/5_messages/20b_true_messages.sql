-- Whether a message still reports what is so. What is no longer true is not sent.

create function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'delivery_failed' then private.is_in_shop(o.status) and exists (
      select from public.deliveries as d where d.order_id = o.id and d.delivery_status = 'failed'
    )
    when 'order_delayed' then private.is_to_deliver(o.payment_status, o.payment_method) and private.is_open_order(o.status) and o.promised_again_at > now()
    when 'job_for_rider' then exists (
      select from public.deliveries as d where d.order_id = o.id and d.rider_id is not null and private.is_open_delivery(d.delivery_status)
    )
    when 'order_delivered' then o.status = 'delivered'
    -- Its link asks for a payment.
    when 'order_received' then o.status <> 'cancelled'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then private.was_paid(o.payment_status)
    when 'order_payment_held' then o.payment_status = 'needs_review'
    when 'order_payment_corrected' then o.payment_status = 'unpaid' and o.status <> 'cancelled'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;
comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

create function private.is_still_true(message public.outbox_messages) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(
    case
    when message.kind = 'job_for_rider' and not exists (
      select from public.deliveries as d where d.order_id = message.order_id and d.rider_id::text = split_part(message.event_key, ' ', 1)
    ) then false
    when message.kind = 'back_in_stock' then private.is_stock_alert_true(message.event_key)
    when message.order_id is not null then private.is_message_true(message.order_id, message.kind)
    else private.is_staff_message_true(message.kind, message.event_key) end, false
  );
$$;
comment on function private.is_still_true is 'Whether a message still reports what is so. False if its order was deleted.';

create function private.withdraw_messages(order_id uuid) returns void
language sql set search_path = '' as $$
  delete from public.outbox_messages as m
  where m.order_id = withdraw_messages.order_id and m.status = 'waiting' and m.attempts = 0 and not m.is_verbatim
    and not private.is_message_true(m.order_id, m.kind);
$$;
comment on function private.withdraw_messages is
  'Deletes unsent messages that the order''s state no longer confirms; a later change queues them again.';
