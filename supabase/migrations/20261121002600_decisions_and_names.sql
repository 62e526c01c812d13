-- That an order's money was sent back is told by M-PESA's receipt of it, or not at all.

create or replace function public.decide_paid_order(order_id uuid, decision text) returns void
language plpgsql security definer
set search_path = ''
as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = decide_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  if decide_paid_order.decision = 'deliver' and decided.payment_status = 'needs_decision' then
    if private.mark_order_paid(decided.id) <> 'paid' then
      perform private.refuse(409, 'units_sold_meanwhile',
        'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
    end if;
  elsif decide_paid_order.decision = 'refunded' and (
    decided.payment_status = 'needs_decision' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- Refunds ask for a receipt, and above the limit for a second member: nobody decides past them.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded',
        status = 'cancelled',
        -- Money that waited for a decision holds no units.
        units_returned_at = case when decided.payment_status = 'needs_decision' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_decide', 'This order has changed. There is nothing to decide any more');
  end if;
end
$$;
comment on function public.decide_paid_order(uuid, text) is
  'What a member of staff decides about money: deliver an order whose units were sold before it was paid, once there are units again; or note that the money of such an order, or of a cancelled one, was sent back (refunded), where the shop has no payment of it. Payments are sent back by request_refund or note_refund_by_hand.';
