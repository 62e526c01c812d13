-- Earlier versions keep working: an answer has one more field, which they do not read.

create or replace function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(opened.found_order);
  end if;
  return private.with_proof(private.describe_order(opened.found_order, opened.is_open), opened.found_order, track_order.access_key);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time, by_shop or by_customer. cancel_requested: the customer asked to cancel the paid order, and staff have not answered. awaits_agreement: fee and day are to be agreed on. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. customer_email, and proof_code, which the customer says to the rider: with the access key only; once a rider was assigned, digits of the phone do not show the access key. promised_at, promised_again_at, arrives_at: when it arrives, while it is open. steps: when it was paid, picked up and delivered. With proof also rider (who is on the way with it), rating and may_rate. Null: no such order, or several.';

create or replace function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(receipt_of);
  elsif not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.with_proof(private.describe_order(receipt_of, true), receipt_of, order_receipt.access_key)
    - array['customer_email', 'delivery_notes', 'proof_code', 'rider', 'rating', 'may_rate'] || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.position
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'method', p.method, 'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt,
          'parts_back', array(
            select jsonb_build_object('amount_cents', c.amount_cents, 'receipt', c.receipt, 'way', c.way, 'noted_at', c.noted_at)
            from public.change_notes as c where c.payment_id = p.id and c.kind = 'returned' order by c.noted_at, c.id
          ),
          'credit_cents', case when p.refunded_at is null then (select change.owed_cents from private.change_of(p.id) as change) end
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create or replace function private.with_proof(answer jsonb, described public.orders, access_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  select * into delivery from public.deliveries as d where d.order_id = described.id;
  if exists (
    select from private.order_keys as k where k.order_id = described.id and k.access_key = left(with_proof.access_key, 64)
  ) then
    return answer || jsonb_build_object('customer_email', described.customer_email) || case
      when delivery.delivery_person is not null and private.asks_for_code(delivery)
        then jsonb_build_object('proof_code', delivery.proof_code)
      else '{}'
    end;
  elsif delivery.delivery_person is null then
    return answer;
  end if;
  -- The rider knows the customer's phone, and finds the numbers on the slip: with the key a rider could read the code, and rate the own work.
  return answer - array['access_key', 'may_rate'];
end
$$;

comment on function private.with_proof is
  'The order as its customer sees it. With the access key also customer_email, which fills the form of another order, and the code for the rider. Once a rider was assigned, callers who gave digits of the phone do not get the key, and cannot rate, because the rider knows the phone.';
