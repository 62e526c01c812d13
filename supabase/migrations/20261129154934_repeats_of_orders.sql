-- Earlier versions keep working: the column is null where they place an order, and their pages show the new refusal as they show any other.

alter table private.order_keys add column repeats_id uuid references public.orders (id) on delete set null;
comment on column private.order_keys.repeats_id is 'The order that order_again repeated. Null for other orders.';

create index order_keys_by_repeated_order on private.order_keys (repeats_id) where repeats_id is not null;

create or replace function public.order_again(access_key text, idempotency_key uuid, expected_total integer, accepts_terms boolean default null) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  earlier public.orders := private.order_to_repeat(array[order_again.access_key]);
  address text[] := private.address_parts(earlier.shipping_address);
  running_number text;
  answer jsonb;
begin
  if earlier.id is null then
    if not private.count_call('order_lookups') then
      return private.refuse_lookup();
    end if;
    return private.refusal_answer('PT404', 'This order cannot be placed again', 'order_not_repeatable', '');
  end if;
  -- Requests of several tabs have different idempotency keys. They wait for each other, so that each sees the order of the one before.
  perform pg_advisory_xact_lock(hashtext('order_again ' || earlier.id));
  select o.tracking_number into running_number
  from private.order_keys as k
  join public.orders as o on o.id = k.order_id
  where k.repeats_id = earlier.id and k.idempotency_key <> order_again.idempotency_key and private.is_open_order(o.status)
  limit 1;
  if found then
    perform private.refuse(409, 'order_repeated', format('You have just ordered this: %s', running_number), running_number);
  end if;
  answer := public.place_order(
    idempotency_key => order_again.idempotency_key,
    items => private.lines_to_repeat(earlier.id),
    customer_name => earlier.customer_name,
    customer_email => earlier.customer_email,
    customer_phone => earlier.customer_phone,
    delivery_location => address[1],
    building => address[2],
    unit => address[3],
    delivery_notes => earlier.delivery_notes,
    expected_total => order_again.expected_total,
    accepts_terms => order_again.accepts_terms,
    area_id => earlier.area_id,
    map_point => earlier.map_point
  );
  -- A refusal has no id.
  update private.order_keys as k set repeats_id = earlier.id where k.order_id = (answer ->> 'id')::uuid;
  return answer;
end
$$;

comment on function public.order_again is
  'Places a delivered order again by the rules of place_order, with today''s prices and without its discount code. Proof: its access key. Refuses (order_repeated) while an order that repeats it is under way. Answers as place_order.';
