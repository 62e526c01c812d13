-- Orders whose delivery fee and day staff agree on with the customer (docs/decisions/delivery-areas.md).

create function public.agree_delivery(order_id uuid, fee_cents integer, delivery_day date) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today constant date := private.nairobi_day(now());
  agreed public.orders;
  is_first boolean;
  former_day date;
  new_total integer;
  new_discount integer;
begin
  perform private.expect_staff('orders');
  if agree_delivery.fee_cents is null or agree_delivery.fee_cents not between 0 and 100000000 or agree_delivery.fee_cents % 100 <> 0 then
    perform private.refuse(400, 'fee_invalid', 'The delivery fee must be in whole shillings');
  elsif agree_delivery.delivery_day is null or agree_delivery.delivery_day not between today and today + 60 then
    perform private.refuse(400, 'day_invalid', 'Choose a day from today to 60 days on');
  end if;
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into agreed from public.orders as o where o.id = agree_delivery.order_id for no key update;
  is_first := agreed.awaits_agreement;
  former_day := agreed.delivery_day;
  new_total := agreed.total_amount - agreed.delivery_fee + agree_delivery.fee_cents;
  -- As in private.discount_on: a discount leaves one shilling to pay, also when it was made with a higher fee.
  new_discount := agreed.discount_cents - least(greatest(100 - new_total, 0), agreed.discount_cents);
  new_total := new_total + agreed.discount_cents - new_discount;
  if agreed.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.is_open_order(agreed.status) then
    perform private.refuse(409, 'order_closed', 'This order is closed. Nothing was changed');
  elsif not is_first and agreed.delivery_day is null then
    perform private.refuse(409, 'delivery_not_to_agree', 'The fee and the time of this order follow from its area');
  elsif agreed.delivery_fee <> agree_delivery.fee_cents and (
    agreed.payment_status <> 'unpaid' or agreed.payment_method = 'cash'
    or exists (select from public.payments as p where p.order_id = agreed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = agreed.id)
  ) then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its delivery fee cannot change');
  elsif (new_total::bigint + 99) / 100 * 100 > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;
  update public.orders as o
  set delivery_fee = agree_delivery.fee_cents, total_amount = new_total, discount_cents = new_discount,
      delivery_day = agree_delivery.delivery_day, awaits_agreement = false, updated_at = now()
  where o.id = agreed.id
  returning * into agreed;
  -- Another day is another promise, also with cash at the door.
  if agreed.promised_at is not null and agreed.delivery_day is distinct from former_day then
    update public.orders as o set promised_at = private.promise_of(agreed, now()), promised_again_at = null where o.id = agreed.id;
  end if;
  perform private.record_order_event(agreed.id, 'delivery_agreed', 'shop', jsonb_build_object(
    'fee_cents', agreed.delivery_fee, 'total_cents', agreed.total_amount, 'day', agreed.delivery_day
  ));
  if agreed.payment_status = 'unpaid' then
    perform private.wait_for_pay_link(agreed);
    if is_first then
      perform private.queue_order_messages(agreed.id, 'order_received');
    end if;
  end if;
  perform private.notify_order_followers(agreed.id);
end
$$;
comment on function public.agree_delivery is
  'For staff: what they agreed on with the customer of an order outside the promise: its delivery fee in cents, and the day. The order can be paid from then on, waits a day for that, and its customer gets the link. Can be repeated until a payment has begun; the day also afterwards, which then replaces the promise.';

-- Execution rights
grant execute on function public.agree_delivery to authenticated, service_role;
