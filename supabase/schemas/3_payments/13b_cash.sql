-- Cash: orders that are paid at the door or the counter (docs/decisions/cash.md).

create function private.lock_order_for_cash(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  ordered public.orders;
begin
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into ordered from public.orders as o where o.id = lock_order_for_cash.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' or (private.is_before_work(ordered.status) and ordered.payment_method <> 'cash' and ordered.expires_at <= now()) then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif exists (select from public.payments as p where p.order_id = ordered.id and private.is_unsettled_attempt(p.status)) then
    perform private.refuse(409, 'payment_open', 'A payment by M-PESA is open for this order. Wait until it has ended, so that it is not paid twice');
  elsif exists (
    select from public.mpesa_transactions as t where t.order_id = ordered.id and t.payment_id is null and t.resolution is null
  ) then
    perform private.refuse(409, 'money_waiting', 'Money for this order has come to the till. Decide about it in Reconciliation first');
  end if;
  perform private.refuse_before_agreement(ordered, public.may('cash'));
  return ordered;
end
$$;
comment on function private.lock_order_for_cash is 'Locks an order that can be paid in cash. Refuses others.';

create function private.deliver_for_cash(ordered public.orders, agreed_by text) returns void
language plpgsql set search_path = '' as $$
begin
  -- The order holds its units from now on, as one that was handed over unpaid: it does not expire any more.
  update public.orders as o
  set payment_method = 'cash', status = case when o.status = 'pending' then 'processing' else o.status end, updated_at = now(),
      promised_at = private.promise_of(ordered, now())
  where o.id = ordered.id;
  insert into public.deliveries (order_id) values (ordered.id) on conflict on constraint "an order is delivered once" do nothing;
  perform private.record_order_event(
    ordered.id, 'cash_agreed', deliver_for_cash.agreed_by, jsonb_build_object('charge_cents', ordered.charge_cents)
  );
end
$$;

create function public.agree_cash(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
begin
  perform private.expect_staff('cash');
  if not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(agree_cash.order_id);
  if ordered.payment_method <> 'cash' then
    perform private.deliver_for_cash(ordered, 'staff');
  end if;
end
$$;
comment on function public.agree_cash is
  'For staff: the customer pays an unpaid order in cash at the door. It goes into work, has a delivery, and does not expire any more. Repeating it changes nothing.';

create function public.choose_cash(order_id uuid, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cash_orders');
  refusal_details text;
  refusal_hint text;
begin
  if not (select s.offers_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'We take no cash at the door at the moment. Please pay by M-PESA');
  elsif not exists (
    select from private.order_keys as k where k.order_id = choose_cash.order_id and k.access_key = choose_cash.access_key
  ) then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  ordered := private.lock_order_for_cash(choose_cash.order_id);
  if ordered.payment_method = 'cash' then
    return private.placed_order(ordered, choose_cash.access_key);
  elsif ordered.is_collected then
    perform private.refuse(409, 'cash_not_taken', 'You collect this order at the shop. Please pay there, or by M-PESA');
  end if;
  -- Nothing is paid before the rider stands at the door: a stranger could send riders around. One phone has one such order at a time,
  -- unless it has paid before.
  perform pg_advisory_xact_lock(hashtextextended('cash orders of ' || ordered.customer_phone, 0));
  if not private.has_paid(ordered.customer_phone) and (
    not is_within_limit or exists (
      select from public.orders as o
      where private.is_open_order(o.status) and o.payment_status = 'unpaid' and o.payment_method = 'cash'
        and o.customer_phone = ordered.customer_phone
    )
  ) then
    perform private.refuse(429, 'too_many_cash_orders', format(
      'Another order of this phone or network is paid in cash already. Please pay this one by M-PESA, or call or WhatsApp us on %s',
      private.contact_numbers()
    ));
  end if;
  perform private.deliver_for_cash(ordered, 'customer');
  -- The link of an order leaves with its first prompt, or now.
  perform private.queue_order_messages(ordered.id, 'order_received');
  perform private.add_notice('paid_order', ordered.id::text, ordered.id);
  select * into ordered from public.orders as o where o.id = ordered.id;
  return private.placed_order(ordered, choose_cash.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;
comment on function public.choose_cash is
  'A customer pays in cash at the door, where the settings offer it (store_settings.offers_cash). Proof: the order''s access key. Answers as place_order.';

create function private.take_units_to_pay(ordered public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if private.is_before_work(ordered.status) and ordered.reserved_until is null and not private.take_units(ordered.id) then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;
comment on function private.take_units_to_pay is 'Takes the units of an unpaid order that holds none. Refuses if they are sold.';

create function public.receive_cash(
  order_id uuid, received_cents integer, received_from text default null, difference text default null, note text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  person text := private.visible_text(receive_cash.received_from);
  reason text := private.read_reason(receive_cash.note);
  ordered public.orders;
  received public.payments;
begin
  if private.is_whole_shillings(receive_cash.received_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif char_length(person) > 120 then
    perform private.refuse(400, 'rider_too_long', 'The name of the person is longer than 120 characters');
  elsif not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(receive_cash.order_id);
  -- A shortfall is forgiven, with the reason, or paid from credit; a surplus is a tip, or owed to the customer.
  if receive_cash.received_cents < ordered.charge_cents
      and not coalesce(receive_cash.difference = 'from_credit' or (receive_cash.difference = 'forgiven' and reason is not null), false)
    or receive_cash.received_cents > ordered.charge_cents and coalesce(receive_cash.difference, '') not in ('tip', 'credit')
    or receive_cash.received_cents = ordered.charge_cents and receive_cash.difference is not null
  then
    perform private.refuse(409, 'cash_differs', 'This is another amount than the order costs. Say why', ordered.charge_cents::text);
  end if;
  if receive_cash.difference = 'from_credit' then
    perform private.pay_from_credit(ordered, ordered.charge_cents - receive_cash.received_cents, null, member);
  end if;
  -- An order that waits without a hold takes its units now.
  perform private.take_units_to_pay(ordered);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, received_from, note, completed_at)
  values (ordered.id, '', receive_cash.received_cents, 'completed', 'cash', member, person, reason, now())
  returning * into received;
  perform private.set_order_paid(ordered, 'cash');
  if receive_cash.difference = 'credit' then
    perform private.add_change_note(received, 'credit', receive_cash.received_cents - ordered.charge_cents, null, reason, member);
  end if;
  return received;
end
$$;
comment on function public.receive_cash is
  'For staff: cash for an unpaid order was received, from its rider (received_from) or the customer, and pays it. Another amount than the charge needs difference: forgiven (with a note), from_credit (what the shop owes to the customer pays the rest), tip, or credit (owed to the customer); its refusal has the charge as hint.';

create function public.take_back_cash(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text := private.read_reason(take_back_cash.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
  minutes interval := private.reservation();
  member uuid := private.expect_staff_member('cash');
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_cash.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_cash.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'cash' or taken.status <> 'completed' or taken.refunded_at is not null or ordered.payment_status <> 'paid'
    or ordered.status = 'cancelled' or exists (
      select from public.change_notes as c join public.payments as p on p.id = c.payment_id
      where p.order_id = ordered.id and (p.id = taken.id or (p.method = 'credit' and p.status = 'completed'))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  -- Credit paid the rest.
  perform private.release_credit(p, cause, member)
  from public.payments as p
  where p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund;
  update public.payments as p set status = 'failed', note = cause, updated_at = now()
  where p.id = taken.id
    or (p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund);
  -- The customer has paid by M-PESA, too: that money pays the order instead of going back.
  if exists (select from public.payments as p where p.order_id = ordered.id and private.can_still_pay(p)) then
    update public.orders as o set payment_method = 'mpesa', updated_at = now() where o.id = ordered.id;
    perform private.settle_order_again(ordered.id);
    return;
  end if;
  -- It has its units, as every unpaid order in work.
  update public.orders as o
  set payment_status = 'unpaid', expires_at = now() + minutes, reserved_until = now() + minutes,
      expiry_limit = now() + private.longest_reservation(minutes), extended_at = null, updated_at = now()
  where o.id = ordered.id;
end
$$;
comment on function public.take_back_cash is
  'For staff: cash was noted by mistake for an order that is not cancelled. Its order is to be paid in cash again, unless it was paid by M-PESA, too; the payment stays in the books as taken back, with the reason. Credit that paid the rest of it is taken back, too.';

create function public.give_back_cash(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments := private.lock_refundable_payment(give_back_cash.payment_id);
  given public.refunds;
begin
  if paid.method = 'credit' and not private.has_refunded_source(paid) then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  elsif paid.method not in ('cash', 'credit') then
    perform private.refuse(409, 'not_cash', 'This payment came by M-PESA. It goes back by M-PESA, or by hand with its receipt');
  end if;
  perform private.check_refund_right(private.left_to_refund(paid), paid.id);
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (
    paid.id, private.left_to_refund(paid),
    private.read_reason(give_back_cash.reason, is_required => true), 'cash', 'completed', member, private.email_of(member), now()
  )
  returning * into given;
  return private.complete_refund(given.id, null);
end
$$;
comment on function public.give_back_cash is
  'For staff: the cash of a cancelled order was given back to its customer; also what it was paid from credit, if the rest of the money that the credit came from was refunded since.';

-- Cash that was not received yet

create function private.cash_due(until timestamptz) returns table (order_id uuid, person text, cents integer, is_open boolean)
language plpgsql stable rows 20 set search_path = '' as $$
begin
  return query
  select o.id, d.delivery_person, coalesce(d.collected_cents, o.charge_cents), o.payment_status = 'unpaid'
  from (
    select due.id from public.orders as due
    where due.status = 'delivered' and due.payment_status = 'unpaid' and due.payment_method = 'cash'
    union
    select p.order_id from public.payments as p
    where p.completed_at >= cash_due.until and p.method = 'cash' and p.status = 'completed'
  ) as own
  cross join lateral (select * from public.orders as o where o.id = own.id offset 0) as o
  left join public.deliveries as d on d.order_id = o.id
  where o.status = 'delivered' and o.payment_method = 'cash'
    -- Without a time it was delivered before.
    and (d.delivery_time < cash_due.until) is not false
    and (o.payment_status = 'unpaid' or not exists (
      select from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.completed_at < cash_due.until
    ));
end
$$;
comment on function private.cash_due is
  'Orders in cash that were delivered before a moment, and whose cash was not noted as received by then. person: who delivered it. cents: what the rider got, as the rider said, or the charge. is_open: it is not received yet. infinity: all that are to be received now.';

create type public.cash_due as (person text, orders bigint, cents bigint, open_orders bigint);
comment on type public.cash_due is
  'Cash of delivered orders that was not received by the end of a day. person: the rider who has it; null: delivered without one. open_orders: those of orders whose cash is not received yet.';

create function public.cash_due_of_day(day date) returns setof public.cash_due
language plpgsql stable security definer rows 10 set search_path = '' as $$
begin
  perform private.expect_staff('figures');
  return query
  select mode() within group (order by c.person), count(*), sum(c.cents), count(*) filter (where c.is_open)
  from private.cash_due((cash_due_of_day.day + 1)::timestamp at time zone 'Africa/Nairobi') as c
  group by lower(c.person)
  order by lower(c.person) nulls last;
end
$$;
comment on function public.cash_due_of_day is
  'For staff: cash that was not received by the end of a day in Nairobi, of orders that were delivered by then, by the rider who has it (private.cash_due).';

-- Execution rights
grant execute on function public.choose_cash to anon, authenticated, service_role;
grant execute on function public.agree_cash, public.receive_cash, public.take_back_cash, public.give_back_cash, public.cash_due_of_day
  to authenticated, service_role;
