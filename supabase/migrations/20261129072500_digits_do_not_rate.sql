-- Earlier versions keep working: they do without an access key, as they did while the code of a delivery was asked for.

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
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time, by_shop or by_customer. cancel_requested: the customer asked to cancel the paid order, and staff have not answered. awaits_agreement: fee and day are to be agreed on. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. proof_code: what the customer says to the rider, with the access key only; once a rider was assigned, digits of the phone do not show the access key. promised_at, promised_again_at, arrives_at: when it arrives, while it is open. steps: when it was paid, picked up and delivered. With proof also rider (who is on the way with it), rating and may_rate. Null: no such order, or several.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.with_proof(answer jsonb, described public.orders, access_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  select * into delivery from public.deliveries as d where d.order_id = described.id;
  if delivery.delivery_person is null then
    return answer;
  elsif exists (
    select from private.order_keys as k where k.order_id = described.id and k.access_key = left(with_proof.access_key, 64)
  ) then
    return answer || case
      when private.asks_for_code(delivery) then jsonb_build_object('proof_code', delivery.proof_code) else '{}'
    end;
  end if;
  -- The rider knows the customer's phone, and finds the numbers on the slip: with the key a rider could read the code, and rate the own work.
  return answer - array['access_key', 'may_rate'];
end
$$;

comment on function private.with_proof is
  'The order as its customer sees it, with the code for the rider. Only for callers with the access key: once a rider was assigned, those who gave digits of the phone get neither the code nor the key, and cannot rate, because the rider knows the phone.';
