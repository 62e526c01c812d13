-- The receipt of an order: what was bought and what was paid, for who may see the order in full.

create function public.order_receipt(
  tracking_number text,
  access_key text default null,
  phone_last_four text default null
) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  -- Who asks shows what they know of the order there, and guesses are counted there.
  tracked jsonb := public.track_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of uuid := (tracked ->> 'id')::uuid;
begin
  if tracked is null then
    return null;
  end if;
  if (tracked ->> 'is_masked')::boolean then
    return jsonb_build_object('tracking_number', tracked ->> 'tracking_number', 'is_masked', true);
  end if;
  return tracked - 'delivery_notes' || jsonb_build_object(
    'order_number', (select o.order_number from public.orders as o where o.id = receipt_of),
    -- As it was sold, whatever the product is called now.
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = receipt_of
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id,
          'amount', p.amount,
          'receipt', p.receipt,
          'completed_at', p.completed_at,
          'is_surplus', p.needs_refund,
          -- Known once money can be sent back.
          'refunded_at', to_jsonb(p) ->> 'refunded_at',
          'refund_receipt', to_jsonb(p) ->> 'refund_receipt'
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;
comment on function public.order_receipt(text, text, text) is
  'What track_order tells of an order, and every payment that came for it, for who holds its access key or gives the last four digits of its phone. To others only that there is such an order. Null when there is none.';
grant execute on function public.order_receipt(text, text, text) to anon, authenticated, service_role;
