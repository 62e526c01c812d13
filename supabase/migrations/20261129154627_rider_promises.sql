-- Earlier versions keep working: their page of a rider shows the jobs in the order of the answer, and a part of a template whose placeholder
-- they do not know is left out.

create or replace function private.describe_ride(link public.rider_links) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
      'link_id', link.id, 'rider_id', r.id, 'expires_at', link.expires_at, 'name', r.name, 'now', now(),
      'shop', (
        select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'chat_phone', s.chat_phone)
        from public.store_settings as s
      ),
      'jobs', coalesce((
        -- As on Today (work_queue).
        select jsonb_agg(private.describe_job(d) order by private.due_at(o, d.created_at), d.id)
        from (
          select * from public.deliveries as open
          where open.rider_id = r.id and private.is_open_job(open.delivery_status)
          union all
          select * from public.deliveries as done
          where done.rider_id = r.id and private.has_ended(done.delivery_status) and done.updated_at > now() - interval '1 hour'
        ) as d
        join public.orders as o on o.id = d.order_id
      ), '[]'::jsonb)
    )
    from public.riders as r where r.id = link.rider_id
  );
end
$$;

create or replace function public.rider_page(secret text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  link public.rider_links;
begin
  if not private.count_call('rider_pages') then
    return private.refuse_many_rider_calls('rider_pages');
  end if;
  link := private.find_rider_link(rider_page.secret);
  if link.id is null then
    return private.refuse_ended_link();
  end if;
  return private.describe_ride(link);
end
$$;

comment on function public.rider_page is
  'The page of the rider whose link has this secret: deliveries by when they are due, open ones and for an hour those that are done. Changes nothing but the count of calls.';

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when new.kind = 'second_factor_removed' then array['member', 'cause', 'time', 'staff_link']
    when new.kind = 'job_for_rider' then array['order', 'name', 'customer_phone', 'address', 'arrival', 'notes', 'items', 'pay']
    when new.kind = 'back_in_stock' then array['product', 'product_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'arrival', 'code', 'link', 'receipt_link'
    ]
  end;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(written, placeholders);
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

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
  elsif private.is_staff_message(message_facts.kind) then
    return jsonb_build_object('shop', shop) || private.staff_message_facts(message_facts.kind, message_facts.event_key);
  elsif message_facts.kind in ('inquiry_reply', 'test_message') then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  elsif message_facts.kind = 'back_in_stock' then
    -- As above.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    ) || private.stock_alert_facts(message_facts.event_key);
  end if;
  if message_facts.kind = 'job_for_rider' then
    return (select jsonb_build_object(
      'shop', shop, 'tracking_number', o.tracking_number, 'customer_name', o.customer_name, 'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount, 'payment', null, 'failure', null, 'access_key', null,
      'arrival', coalesce(o.promised_again_at, o.promised_at),
      'items', array(
        select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        from public.order_items as i where i.order_id = o.id order by i.position
      ),
      'job', jsonb_build_object(
        'order_number', o.order_number, 'phone', o.customer_phone, 'address', concat_ws(', ', o.shipping_address, o.city),
        'notes', concat_ws('; ', o.delivery_notes, (select d.delivery_notes from public.deliveries as d where d.order_id = o.id)),
        'cash_cents', case when o.payment_status = 'unpaid' then o.charge_cents end
      )
    ) from public.orders as o where o.id = message_facts.order_id);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee, 'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'arrival', case when not o.is_collected then coalesce(o.promised_again_at, o.promised_at) end,
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'code', (select d.proof_code from public.deliveries as d where d.order_id = o.id and private.asks_for_code(d)),
    'payment', (
      select jsonb_build_object(
        'charge_cents', coalesce(part.amount_cents, p.charge_cents), 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', coalesce(part.receipt, p.refund_receipt), 'is_credit', case when p.method = 'credit' then true end
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      left join lateral (
        select c.* from public.change_notes as c where c.payment_id = p.id and c.id::text = message_facts.event_key
      ) as part on true
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          when part.id is not null then true
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. code: what the customer says to the rider, where it is asked for. job: of a text to a rider. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Texts about stock: the product. Replies to inquiries and tests: the shop.';

-- Words of the owner stay.
update public.message_templates as t
set body = case when t.body = t.default_body then worded.body else t.body end, default_body = worded.body
from (
  select m.id, replace(m.default_body, '{address}[. Note', '{address}[. By {arrival}][. Note') as body
  from public.message_templates as m where m.kind = 'job_for_rider'
) as worded
where t.id = worded.id and worded.body <> t.default_body;
