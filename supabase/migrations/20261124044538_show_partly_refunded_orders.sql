create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
  cancelled record;
  cents bigint;
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

  if described.payment_status = 'unpaid' then
    if described.status = 'pending' then
      answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
    end if;
  else
    select sum(p.charge_cents) into cents
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed' and not p.needs_refund;
    if cents > 0 then
      answer := answer || jsonb_build_object('paid_cents', cents);
    end if;
    select sum(p.charge_cents) into cents
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is not null;
    if cents > 0 then
      answer := answer || jsonb_build_object('refunded_cents', cents);
    end if;
    select sum(p.charge_cents) into cents
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null;
    if cents > 0 then
      answer := answer || jsonb_build_object('surplus_cents', cents);
    end if;
  end if;
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  select sum(t.received_cents) into cents
  from public.mpesa_transactions as t
  where t.order_id = described.id and t.payment_id is null and t.resolution is null;
  if cents > 0 then
    answer := answer || jsonb_build_object('part_paid_cents', cents);
  end if;
  return answer;
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that domain/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded) and part_paid_cents.';

-- A paid order is delivered or refunded, never both.
create or replace function private.refuse_while_refund_is_open(new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and r.status in ('requested', 'approved', 'sending', 'sent', 'unknown')
  ) then
    perform private.refuse(409, 'refund_under_way',
      'This money is on its way back to the customer. Withdraw the refund first, where that is still possible');
  elsif new.payment_status = 'paid' and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
  ) then
    perform private.refuse(409, 'partly_refunded',
      'Part of this money went back to the customer already. Send the rest back too');
  end if;
end
$$;
