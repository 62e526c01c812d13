drop function private.anonymise_old_messages();

drop function private.describe_payment(uuid);

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.event_key = '' then not p.needs_refund
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription.';

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  old_messages uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and m.status not in ('waiting', 'sending')
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
  perform private.anonymise_messages(old_messages);
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
  return cardinality(old_messages);
end
$$;

comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

create or replace function private.describe_payment(payment public.payments) returns jsonb
language sql stable set search_path = ''
return jsonb_build_object(
  'phone', payment.phone, 'charge_cents', payment.charge_cents, 'status', payment.status, 'method', payment.method,
  'receipt', payment.receipt, 'created_at', payment.created_at, 'completed_at', payment.completed_at,
  'refunded_at', payment.refunded_at, 'refund_receipt', payment.refund_receipt,
  'payer_name', (select t.payer_name from public.mpesa_transactions as t where t.receipt = payment.receipt),
  'mpesa_messages', array(
    select jsonb_build_object('received_at', m.received_at, 'source', m.source, 'body', m.body)
    from public.payment_messages as m where m.payment_id = payment.id and m.body <> '{}' order by m.id
  )
);

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := array(
    select o.id from public.orders as o
    where lower(o.customer_email) = person.email or o.customer_phone = person.phone
    order by o.created_at desc, o.id
  );
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - 'id' - 'is_read'
      from public.inquiries as i
      where lower(i.email) = person.email or private.read_phone(i.phone) = person.phone
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and lower(m.recipient) = person.email order by m.created_at
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

grant execute on function public.forget_old_rows to service_role;
