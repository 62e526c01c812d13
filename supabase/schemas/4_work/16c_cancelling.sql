-- Customers cancel their orders: an unpaid one at once, a paid one by a request that staff answer (docs/decisions/cancelling.md).

create function private.has_cancel_request(o public.orders) returns boolean
language sql immutable
return o.cancel_requested_at is not null and o.cancel_declined_at is null and o.payment_status = 'paid' and private.is_open_order(o.status);
comment on function private.has_cancel_request is 'Whether the customer asked to cancel a paid order, and staff have not answered.';

create function private.refuse_before_answer() returns void
language plpgsql stable set search_path = '' as $$
begin
  perform private.refuse(409, 'cancel_requested', 'The customer asked to cancel this order. Answer that first');
end
$$;
comment on function private.refuse_before_answer is 'Refuses a step of an order that its customer asked to cancel.';

create function private.way_to_cancel(ordered public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  if ordered.payment_status = 'unpaid' and ordered.payment_method <> 'cash' then
    return case when ordered.status = 'pending' then 'at_once' end;
  elsif not private.is_in_shop(ordered.status) or ordered.cancel_requested_at is not null then
    return null;
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  return case
    when private.work_step(ordered, delivery) is distinct from 'prepare' or private.was_picked_up(delivery.delivery_status) then null
    when ordered.payment_status = 'unpaid' then 'at_once'
    else 'by_request'
  end;
end
$$;
comment on function private.way_to_cancel is
  'How a customer cancels an order. at_once: it is unpaid. by_request: it is paid, and nobody prepares it yet. Null: only staff cancel it, or were asked to already.';

create function private.lock_own_order(
  tracking_number text, access_key text, is_within_limit boolean, is_within_limit_of_order boolean, out own public.orders
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- The lock on the order's row serialises this with its payments, its expiry and its steps.
  select o.* into own from public.orders as o
  join private.order_keys as k on k.order_id = o.id
  where k.access_key = left(lock_own_order.access_key, 64)
    and o.tracking_number = upper(trim(left(lock_own_order.tracking_number, 40)))
  for no key update of o;
  -- Customers who paid before are served even while a stranger uses up the limit of their common network.
  if not (is_within_limit or (own.id is not null and private.has_paid(own.customer_phone)))
    or not is_within_limit_of_order
  then
    perform private.refuse(429, 'too_many_cancellations', format(
      'Too many requests to cancel. Please try again in %s, or call or WhatsApp us on %s',
      private.time_left(case when is_within_limit then 'cancellations_of_order' else 'cancellations' end), private.contact_numbers()
    ));
  elsif own.id is null then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
end
$$;
comment on function private.lock_own_order is
  'Locks the order of a customer, by its tracking number and its access key; digits of the phone are no proof here. Refuses calls above the limits, which the caller has counted.';

create function public.cancel_own_order(tracking_number text, access_key text, expected_payment_status text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cancellations');
  is_within_limit_of_order boolean := private.count_call('cancellations_of_order', left(cancel_own_order.access_key, 64));
  own public.orders;
  way text;
  refusal_details text;
  refusal_hint text;
begin
  own := private.lock_own_order(cancel_own_order.tracking_number, cancel_own_order.access_key, is_within_limit, is_within_limit_of_order);
  -- The customer confirmed what happens to an order in this state.
  if own.payment_status is distinct from cancel_own_order.expected_payment_status then
    perform private.refuse(409, 'payment_arrived', 'Your payment has changed in the meantime. Please look at your order again');
  elsif own.status = 'cancelled' or private.has_cancel_request(own) then
    return private.order_facts(own, true);
  end if;
  way := private.way_to_cancel(own);
  if way is null then
    perform private.refuse(409, 'cancel_too_late', format(
      'This order cannot be cancelled here any more. Please call or WhatsApp us on %s', private.contact_numbers()
    ));
  elsif way = 'by_request' then
    update public.orders as o set cancel_requested_at = now(), updated_at = now() where o.id = own.id returning * into own;
    perform private.record_order_event(own.id, 'cancel_requested', 'customer');
    perform private.notify_order_followers(own.id);
    perform private.add_notice('cancel_request', concat_ws(' ', own.id, extract(epoch from own.cancel_requested_at)), own.id);
    return private.order_facts(own, true);
  end if;
  if own.reserved_until is not null then
    perform private.return_units(own.id, 'cancelled');
  end if;
  -- Money of an open prompt that arrives from here on needs review (private.mark_order_paid): staff send it back.
  update public.orders as o
  set status = 'cancelled', cancel_reason = 'by_customer', reserved_until = null, expires_at = null, updated_at = now()
  where o.id = own.id
  returning * into own;
  return private.order_facts(own, true);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;
comment on function public.cancel_own_order is
  'A customer cancels an order. Proof: its access key. An unpaid one ends at once, and its units return; for a paid one that nobody prepares yet, staff are asked. Answers as orders_by_access_key. Refuses if it has another payment status than the customer saw.';

create function public.keep_own_order(tracking_number text, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cancellations');
  is_within_limit_of_order boolean := private.count_call('cancellations_of_order', left(keep_own_order.access_key, 64));
  own public.orders;
  refusal_details text;
  refusal_hint text;
begin
  own := private.lock_own_order(keep_own_order.tracking_number, keep_own_order.access_key, is_within_limit, is_within_limit_of_order);
  if private.has_cancel_request(own) then
    update public.orders as o set cancel_requested_at = null, updated_at = now() where o.id = own.id returning * into own;
    perform private.record_order_event(own.id, 'cancel_withdrawn', 'customer');
    perform private.notify_order_followers(own.id);
  elsif own.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  return private.order_facts(own, true);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;
comment on function public.keep_own_order is
  'A customer keeps the paid order that staff were asked to cancel. Proof and answer as cancel_own_order. Repeating it changes nothing.';

create function private.lock_requested_order(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  requested public.orders;
begin
  select * into requested from public.orders as o where o.id = lock_requested_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.has_cancel_request(requested) then
    perform private.refuse(409, 'cancel_answered', 'This request was answered or withdrawn in the meantime. Nothing was changed');
  end if;
  return requested;
end
$$;
comment on function private.lock_requested_order is 'Locks an order that its customer asked to cancel. Refuses others.';

create function public.grant_cancel_request(order_id uuid, sends_back boolean default true) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  granted public.orders := private.lock_requested_order(grant_cancel_request.order_id);
  due uuid[];
  payment_id uuid;
  refund public.refunds;
  outcome text := 'sent';
begin
  update public.orders as o set status = 'cancelled', cancel_reason = 'by_customer', updated_at = now() where o.id = granted.id;
  due := array(
    select p.id from public.payments as p
    where p.order_id = granted.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    order by p.id
  );
  foreach payment_id in array due loop
    if not grant_cancel_request.sends_back then
      return 'left';
    end if;
    begin
      refund := private.request_refund_of(payment_id, 'The customer cancelled', member);
      if refund.status = 'requested' and outcome = 'sent' then
        outcome := 'needs_approval';
      end if;
    exception when sqlstate 'PT409' then
      -- Cash, or money that M-PESA cannot reverse: the order stays among those whose refund is due.
      outcome := 'left';
    end;
  end loop;
  return outcome;
end
$$;
comment on function public.grant_cancel_request is
  'For staff: cancels a paid order as its customer asked, and requests the refund of its money, which above the limit a second owner approves. sends_back false: M-PESA cannot reverse payments here. Returns sent (M-PESA is asked, or it is credit again), needs_approval, or left: some of it goes back by hand or in cash.';

create function public.decline_cancel_request(order_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  answer text;
  declined public.orders;
begin
  perform private.expect_staff('orders');
  answer := private.read_reason(decline_cancel_request.reason, is_required => true);
  declined := private.lock_requested_order(decline_cancel_request.order_id);
  update public.orders as o set cancel_declined_at = now(), cancel_answer = answer, updated_at = now() where o.id = declined.id;
  perform private.record_order_event(declined.id, 'cancel_declined', 'staff', jsonb_build_object('note', answer));
  perform private.notify_order_followers(declined.id);
end
$$;
comment on function public.decline_cancel_request is
  'For staff: does not cancel a paid order, although its customer asked for it. The customer reads the reason on the tracking page.';

-- Execution rights
grant execute on function public.cancel_own_order, public.keep_own_order to anon, authenticated, service_role;
grant execute on function public.grant_cancel_request, public.decline_cancel_request to authenticated, service_role;
