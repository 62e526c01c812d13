-- The facts from which a customer's screen concludes what an order's state means: in track_order, and of several orders at once
-- for the device that placed them.

create index order_keys_by_access_key on private.order_keys (access_key);

create function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
  cancelled record;
  amount bigint;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number,
    'live_handle', described.live_handle,
    'status', private.told_status(described.status),
    'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- Staff checking a payment is as little a secret as whether the order is paid; how much came is.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- Money of an unpaid order was on its way back already when it turned out to be the order's.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(p.status in ('initiating', 'processing')) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif described.payment_status in ('paid', 'needs_decision') and exists (
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

  if described.payment_status = 'unpaid' then
    if described.status = 'pending' then
      answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
    end if;
  else
    select sum(p.amount) into amount
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed' and not p.needs_refund;
    if amount > 0 then
      answer := answer || jsonb_build_object('paid_amount', amount);
    end if;
  end if;
  -- Less than the charge that came under the order's number: shown to the customer alone, because anyone can send it.
  select sum(t.amount) into amount
  from public.mpesa_transactions as t
  where t.order_id = described.id and t.payment_id is null and t.resolution is null;
  if amount > 0 then
    answer := answer || jsonb_build_object('part_paid', amount);
  end if;
  return answer;
end
$$;
comment on function private.order_facts(public.orders, boolean) is
  'The facts about an order''s state that domain/order-meaning.ts reads. With proof (is_open) also until when units are held and the order waits (reserved_until, expires_at), what was paid (paid_amount) and what came in part (part_paid).';

create or replace function private.describe_order(described public.orders, is_open boolean) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  answer jsonb := private.order_facts(described, is_open) || jsonb_build_object('is_masked', not is_open);
begin
  if not is_open and described.created_at < now() - interval '30 days' then
    return answer;
  end if;

  answer := answer || jsonb_build_object(
    'delivery_fee', described.delivery_fee,
    'created_at', described.created_at,
    'customer_name', case when is_open then described.customer_name else private.masked_name(described.customer_name) end,
    'customer_phone', case when is_open then described.customer_phone else private.masked_phone(described.customer_phone) end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name),
          'image_url', p.image_url,
          'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.created_at, i.id)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = described.id
    ), '[]'::jsonb)
  );
  if not is_open then
    return answer;
  end if;
  return answer || jsonb_build_object(
    'id', described.id,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = described.id),
    'shipping_address', described.shipping_address,
    'delivery_notes', described.delivery_notes
  );
end
$$;

comment on function public.track_order(text, text, text) is
  'An order by its tracking number: status, items and total for anyone, and after 30 days only the status; id, access key and personal data only with the access key, the last four digits of the phone or the whole number. live_handle names the live channel. payment_check says of an unpaid order that staff check a payment (review) or send it back (goes_back), that a prompt is open (prompted), or that M-PESA never reported how the last one ended (unresolved); is_refunding that the money of a paid order is on its way back; cancelled_because why it was cancelled (not_paid_in_time, by_shop). With proof also reserved_until, expires_at, paid_amount and part_paid. Null when there is none.';

-- Orders of one device ------------------------------------------------------------------------------------------------

create function public.orders_by_access_key(access_keys text[]) returns jsonb
language plpgsql volatile security definer
set search_path = ''
-- The embedded database never analyzes: it would read all keys.
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  answer jsonb;
begin
  select jsonb_agg(private.order_facts(o, true) order by o.created_at desc) into answer
  from (select distinct left(given.access_key, 64) as access_key from unnest(access_keys[1:20]) as given (access_key)) as asked
  join private.order_keys as k on k.access_key = asked.access_key
  join public.orders as o on o.id = k.order_id;
  -- A right key counts nothing, as in track_order.
  if answer is null and not private.count_call('order_lookups') then
    return private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
  return coalesce(answer, '[]'::jsonb);
end
$$;
comment on function public.orders_by_access_key(text[]) is
  'The state of the orders that these access keys open, at most 20, newest first, without personal data. Calls in which no key is right count as order look-ups.';
grant execute on function public.orders_by_access_key(text[]) to anon, authenticated, service_role;

-- Changes of these facts on the live channels ---------------------------------------------------------------------------

drop trigger payments_tell_followers_of_a_check on public.payments;
create trigger payments_tell_followers_of_a_prompt after insert on public.payments
  for each row when (new.status in ('initiating', 'processing'))
  execute function private.tell_followers_of_check();
-- A payment that succeeds changes the order, which is announced by itself.
create trigger payments_tell_followers_of_a_check after update of status, refunded_at on public.payments
  for each row
  when (
    old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
      old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
    ))
  )
  execute function private.tell_followers_of_check();

create function private.tell_followers_of_refund() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.notify_order_followers(o)
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.id = new.payment_id;
  return null;
end
$$;
create trigger refunds_tell_followers after insert or update of status on public.refunds
  for each row when (new.payment_id is not null)
  execute function private.tell_followers_of_refund();
