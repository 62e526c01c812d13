-- Decisions about money for an order: finding its order, taking an assignment back, an amount that differs from the charge,
-- and receipts that M-PESA has not reported (docs/decisions/money-without-a-prompt.md).

-- Finding the order of a payment

create function private.compare_payer_phone(payer_phone text, customer_phone text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  compact text := regexp_replace(left(payer_phone, 100), '[\s+()-]', '', 'g');
  own text := right(customer_phone, 9);
  masked text;
  is_whole boolean;
  visible integer;
begin
  -- M-PESA hashes the number in confirmations, and masks it in statements.
  if compact ~ '^[0-9A-Fa-f]{64}$' then
    return case when exists (
      select from unnest(array['254' || own, '+254' || own, '0' || own, own]) as spelled (number)
      where encode(sha256(convert_to(spelled.number, 'UTF8')), 'hex') = lower(compact)
    ) then 'whole' end;
  elsif coalesce(compact, '') !~ '^[0-9*xX#•]{6,20}$' or own !~ '^\d{9}$' then
    return null;
  elsif private.normalised_phone(compact) is not null then
    return case when private.normalised_phone(compact) = customer_phone then 'whole' else 'differs' end;
  end if;
  masked := regexp_replace(compact, '[^0-9]', '*', 'g');
  -- 254 and nine digits, 0 and nine digits, or nine digits; of another length only the end can be compared.
  is_whole := char_length(masked) in (10, 12) or (char_length(masked) = 9 and masked !~ '^254');
  masked := case when is_whole then right(masked, 9) else lpad(right(coalesce(substring(masked from '[0-9]+$'), ''), 9), 9, '*') end;
  if exists (
    select from generate_series(1, 9) as place
    where substr(masked, place, 1) <> '*' and substr(masked, place, 1) <> substr(own, place, 1)
  ) then
    return 'differs';
  end if;
  -- Every number begins with 7 or 1.
  visible := char_length(replace(substr(masked, 2), '*', ''));
  return case when visible >= 3 then 'digits' end;
end
$$;
comment on function private.compare_payer_phone is
  'Compares the payer''s phone as M-PESA shows it (masked, hashed or whole) with the phone of a customer: whole, digits (at least three visible digits, and all of them, are the same), differs, or null if nothing can be compared.';

create function private.shares_name(payer_name text, customer_name text) returns boolean
language sql immutable set search_path = '' as $$
  select exists (
    select from regexp_split_to_table(lower(left(payer_name, 200)), '[^[:alpha:]]+') as part
    where char_length(part) >= 3 and part = any (regexp_split_to_array(lower(customer_name), '[^[:alpha:]]+'))
  );
$$;
comment on function private.shares_name is 'Whether a name of the payer, of at least three letters, is a name of the customer.';

create type public.suggested_order as (
  id uuid, order_number text, tracking_number text, customer_name text, customer_phone text, items text, total_amount integer,
  charge_cents integer, payment_status text, status text, created_at timestamptz, lacks_receipt boolean, is_named boolean,
  fits_amount boolean, phone_match text, shares_name boolean, is_certain boolean
);
comment on type public.suggested_order is
  'An order that money may be for. lacks_receipt: a prompt of this amount and time has no receipt. is_named: the payer''s reference names it. phone_match: as private.compare_payer_phone. is_certain: the only unpaid order whose charge is the amount and whose phone has the payer''s visible digits, and the reference names no other.';

create function public.suggest_orders(receipt text, search text default '') returns setof public.suggested_order
language plpgsql stable security definer set search_path = '' as $$
declare
  reported public.mpesa_transactions;
  is_search boolean := trim(coalesce(suggest_orders.search, '')) <> '';
  -- Possibly paid by this money, whose receipt was lost.
  missing_receipt uuid[];
  named uuid[];
  of_attempt uuid;
  found_ids uuid[];
begin
  perform private.expect_staff('reconciliation');
  select * into reported from public.mpesa_transactions as t where t.receipt = private.normalised_receipt(suggest_orders.receipt);
  missing_receipt := array(select private.orders_missing_receipt(reported.receipt));
  named := array(select private.orders_named(private.order_numbers_in(reported.reference)));
  of_attempt := (select p.order_id from public.payments as p where p.id = reported.attempt_id);
  if is_search then
    found_ids := array(select s.id from public.search_orders(search => suggest_orders.search, page_size => 8) as s);
  end if;
  return query
  with likely as (
    select o.*, o.id = any (missing_receipt) as lacks_receipt, o.id = any (named) as is_named,
      o.charge_cents = reported.received_cents as fits_amount,
      private.compare_payer_phone(reported.payer_phone, o.customer_phone) as phone_match,
      private.shares_name(reported.payer_name, o.customer_name) as shares_name,
      o.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour' as is_recent
    from public.orders as o
    where o.id in (
      select unnest(named || missing_receipt || of_attempt || found_ids)
      union
      select recent.id from public.orders as recent
      where private.can_be_paid(recent.payment_status)
        and recent.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour'
    )
  ),
  judged as (
    select l.*,
      l.payment_status = 'unpaid' and l.fits_amount and l.is_recent and l.phone_match in ('whole', 'digits') as fits_all
    from likely as l
  ),
  counted as (
    select j.*, count(*) filter (where j.fits_all) over () as fitting from judged as j
  )
  select c.id, c.order_number, c.tracking_number, c.customer_name, c.customer_phone,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position)
     from public.order_items as i where i.order_id = c.id),
    c.total_amount, c.charge_cents, c.payment_status, c.status, c.created_at, c.lacks_receipt, c.is_named, c.fits_amount,
    c.phone_match, c.shares_name,
    c.fits_all and c.fitting = 1 and cardinality(array_remove(named, c.id)) = 0
      and (cardinality(missing_receipt) = 0 or c.lacks_receipt)
  from counted as c
  where case
    when is_search then c.id = any (found_ids)
    else c.lacks_receipt or c.is_named or c.id = of_attempt
      or (c.payment_status = 'unpaid' and (c.fits_amount or c.phone_match in ('whole', 'digits')))
      or (c.payment_status = 'needs_review' and c.phone_match in ('whole', 'digits'))
  end
  order by c.lacks_receipt desc, c.is_named desc, coalesce(c.phone_match in ('whole', 'digits'), false) desc, c.fits_amount desc,
    c.phone_match = 'whole' desc nulls last, c.shares_name desc nulls last, c.phone_match = 'differs' nulls first, c.created_at desc
  limit case when is_search then 8 else greatest(5, cardinality(named)) end;
end
$$;
comment on function public.suggest_orders is
  'For staff: orders that money may be for, the likeliest first: those with a prompt of this amount and time without a receipt, those that the reference names, then unpaid ones of the days before with the payer''s visible digits or of the same amount. With search: the orders that a search finds, with the same hints.';

-- Taking an assignment back

create function private.was_handed_over(seen public.orders) returns boolean
language sql stable set search_path = '' as $$
  select private.has_left_shop(seen.status)
    -- Cancelled after it left: its units were not returned.
    or (seen.status = 'cancelled' and seen.payment_status = 'paid' and seen.units_returned_at is null)
    or exists (
      select from public.deliveries as d
      where d.order_id = seen.id and private.was_picked_up(d.delivery_status)
    );
$$;
comment on function private.was_handed_over is 'Whether an order was handed over, to a rider or to its customer.';

create function private.reopen_unpaid_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  reopened public.orders;
  minutes interval := private.reservation();
  was_cancelled boolean;
  holds_units boolean;
begin
  select * into strict reopened from public.orders as o where o.id = reopen_unpaid_order.order_id;
  delete from public.deliveries as d where d.order_id = reopened.id;
  -- Its time for payment had passed before the money came.
  was_cancelled := reopened.payment_status = 'paid' and 'cancelled' = (
    select e.details ->> 'from' from public.order_events as e
    where e.order_id = reopened.id and e.kind = 'status_changed' and e.details ->> 'reason' = 'paid'
    order by e.id desc limit 1
  );
  if reopened.status = 'cancelled' or was_cancelled then
    if reopened.status <> 'cancelled' then
      perform private.return_units(reopened.id, 'reservation_ended');
    end if;
    update public.orders as o
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled',
        cancel_reason = case when reopened.cancel_reason = 'by_customer' then 'by_customer' else 'not_paid_in_time' end,
        reserved_until = null, expires_at = null, units_returned_at = null, updated_at = now()
    where o.id = reopened.id;
    return;
  end if;
  -- A paid order has its units. One that needed review takes them, if enough are left.
  holds_units := reopened.payment_status = 'paid' or (
    not exists (select from public.order_items as i where i.order_id = reopened.id and i.product_id is null)
    and private.take_units(reopened.id)
  );
  update public.orders as o
  set payment_status = 'unpaid', payment_method = 'pending', status = 'pending', expires_at = now() + minutes,
      reserved_until = case when holds_units then now() + minutes end, expiry_limit = now() + private.longest_reservation(minutes), extended_at = null,
      updated_at = now()
  where o.id = reopened.id;
end
$$;
comment on function private.reopen_unpaid_order is
  'Makes an order unpaid again whose payment was not its own: with a new time for payment, or cancelled if its time had passed before. The caller has locked the order.';

create function private.is_kept_apart(money public.payments) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return money.needs_refund and exists (select from public.change_notes as c where c.payment_id = money.id);
end
$$;
comment on function private.is_kept_apart is
  'Whether a payment that was not needed is owed to its customer, went back in part, or paid another order: its own order cannot have it, too.';

create function private.can_still_pay(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not private.is_kept_apart(money) and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and private.is_open_refund(r.status)
      and not (private.is_unsent_refund(r.status) and r.tries = 0)
  );
$$;
comment on function private.can_still_pay is 'Whether money has come for an order, M-PESA was not asked to send it back, and it was not kept for something else.';

create function private.settle_order_again(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  settled public.orders;
  exact uuid;
  received bigint;
begin
  select * into strict settled from public.orders as o where o.id = settle_order_again.order_id;
  -- Only money that goes back is left: if M-PESA was not asked for it yet, it pays the order instead.
  if settled.status <> 'cancelled' and not exists (
    select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
  ) then
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
    where private.is_unsent_refund(r.status) and r.tries = 0 and r.payment_id = (
      select p.id from public.payments as p
      where p.order_id = settled.id and private.can_still_pay(p)
      order by p.charge_cents = settled.charge_cents desc, private.is_being_refunded(p.id, p.receipt), p.completed_at, p.id
      limit 1
    );
  end if;
  -- The exact charge pays the order; otherwise the earliest money counts for it, if none does.
  select p.id into exact from public.payments as p
  where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null and not private.is_being_refunded(p.id, p.receipt)
    and not private.is_kept_apart(p)
    and (public.counted_cents(p) = settled.charge_cents or not exists (
      select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
    ))
  order by public.counted_cents(p) = settled.charge_cents desc, not p.needs_refund desc, p.completed_at, p.id
  limit 1;
  if exact is not null then
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = exact and p.needs_refund;
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = settled.id and p.id <> exact and p.status = 'completed' and not p.needs_refund;
  end if;
  received := private.counted_for_order(settled.id);
  if received is null then
    perform private.reopen_unpaid_order(settled.id);
  elsif received <> settled.charge_cents and settled.payment_status = 'paid' then
    if not private.put_order_under_review(settled.id) then
      -- Cancelled, and its units were returned.
      update public.orders as o set payment_status = 'needs_review', units_returned_at = null, updated_at = now()
      where o.id = settled.id;
      delete from public.deliveries as d where d.order_id = settled.id;
    end if;
  elsif received = settled.charge_cents and settled.payment_status = 'needs_review' then
    perform private.mark_order_paid(settled.id);
  end if;
  perform private.correct_message_outcomes(p.id)
  from public.payments as p where p.order_id = settled.id and p.status = 'completed';
end
$$;
comment on function private.settle_order_again is
  'Sets what an order is after one of its payments was taken away: paid by another one, under review, or unpaid. The caller has locked the order.';

create function public.take_back_payment(payment_id uuid, note text default null) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  reason text := private.read_reason(take_back_payment.note);
  paid_order public.orders;
  taken public.payments;
  reported public.mpesa_transactions;
  was_told boolean;
begin
  -- The order first: then its payments and their receipts do not change.
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_payment.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id;
  perform pg_advisory_xact_lock(hashtext('settle ' || taken.receipt)) where taken.receipt is not null;
  select * into reported from public.mpesa_transactions as t where t.receipt = taken.receipt for update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid_order.id is null or taken.status <> 'completed' or taken.method <> 'till' or taken.confirmed_by is null then
    perform private.refuse(409, 'not_assigned_by_staff', 'Only money that staff assigned or typed can be taken back from an order');
  elsif taken.refunded_at is not null or private.is_being_refunded(taken.id, taken.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.receipt is null and exists (select from public.refunds as r where r.payment_id = taken.id and r.tries > 0) then
    perform private.refuse(409, 'refund_exists', 'M-PESA was asked to send this money back before. It stays with its order');
  elsif exists (select from public.change_notes as c where c.payment_id = taken.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif not taken.needs_refund and private.was_handed_over(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and private.may_have_arrived(m.status)
  );
  perform private.record_order_event(paid_order.id, 'payment_taken_back', 'staff', jsonb_build_object(
    'payment_id', taken.id, 'charge_cents', taken.charge_cents, 'receipt', taken.receipt, 'note', reason
  ));
  -- Before the payment is deleted: a second update of the row would check its foreign keys, and wait for the lock of another order.
  update public.mpesa_transactions as t
  set payment_id = null, resolution = null, resolved_by = null, resolved_at = null, updated_at = now(),
      order_id = case when private.order_of_reference(t.reference) = paid_order.id then paid_order.id else t.order_id end
  where t.receipt = taken.receipt;
  -- The messages stay as received, without the payment.
  update public.payment_messages as m
  set payment_id = null, outcome = case when m.source = 'till' then 'taken_back' else 'unmatched' end
  where m.payment_id = taken.id;
  -- Refunds that sent nothing stay with the money, and go with a receipt that only staff typed.
  delete from public.refunds as r where r.payment_id = taken.id and reported.receipt is null;
  update public.refunds as r set payment_id = null, transaction_receipt = reported.receipt, updated_at = now() where r.payment_id = taken.id;
  delete from public.payments as p where p.id = taken.id;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (taken.receipt, taken.id, paid_order.id, 'taken_back', reason, member, private.email_of(member));

  if not taken.needs_refund then
    perform private.settle_order_again(paid_order.id);
    perform private.postpone_messages(paid_order.id);
  end if;
  perform private.withdraw_messages(paid_order.id);
  select * into paid_order from public.orders as o where o.id = paid_order.id;
  if was_told and paid_order.payment_status = 'unpaid' and paid_order.status <> 'cancelled' then
    perform private.queue_order_messages(
      paid_order.id, 'order_payment_corrected', private.payment_event_key(paid_order.id), due_at => now() + private.undo_window()
    );
  end if;
  return paid_order.payment_status;
end
$$;
comment on function public.take_back_payment is
  'For staff: takes money that they assigned or typed back from its order, until the order leaves the shop. The money is unassigned again, and the order is what it was: unpaid with a new time for payment, under review, or paid by other money of its own. A customer who was notified of the payment gets a correction. Returns the order''s payment status.';

-- An amount that differs from the charge: one decision about the money and the order

create function private.deliver_reviewed_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  if private.mark_order_paid(deliver_reviewed_order.order_id, is_decided => true) <> 'paid' then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;
comment on function private.deliver_reviewed_order is
  'Makes an order that needs review paid with the money that came. Refuses if its units are sold. The caller has locked the order.';

create function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  reason text := private.read_reason(resolve_review.note);
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
  has_something_left boolean;
begin
  if resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_review.receipt is not null then
    perform public.resolve_difference('give', resolve_review.receipt, null, resolve_review.order_id, reason);
  end if;
  select * into decided from public.orders as o where o.id = resolve_review.order_id;
  select sum(public.counted_cents(p)), bool_or(private.left_to_refund(p) >= 100) into received, has_something_left
  from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    and not private.is_being_refunded(p.id, p.receipt);
  select p.* into largest from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund
  -- A surplus is of the money, not of the credit beside it.
  order by p.method = 'credit', p.charge_cents desc, p.id limit 1;
  surplus := received - decided.charge_cents;
  -- The exact charge under the receipt may have paid it already.
  if received is null or (decided.payment_status <> 'needs_review' and not (
    decided.payment_status = 'paid' and resolve_review.receipt is not null and surplus = 0 and resolve_review.decision = 'deliver'
  )) then
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  elsif received <> resolve_review.seen_cents then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  elsif (surplus > 0) <> (resolve_review.decision in ('deliver_with_credit', 'deliver_and_return')) and resolve_review.decision <> 'cancel_and_refund' then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;

  if resolve_review.decision = 'cancel_and_refund' and not has_something_left then
    -- All of it paid other orders, or went back already.
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund;
    perform private.settle_order_again(decided.id);
    update public.orders as o set status = 'cancelled', updated_at = now() where o.id = decided.id and o.status <> 'cancelled';
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (largest.receipt, largest.id, decided.id, 'accepted', reason, member, private.email_of(member));
    return resolve_review.decision;
  end if;
  if resolve_review.decision = 'cancel_and_refund' then
    -- Each refund records its own event.
    perform public.request_refund(coalesce(reason, 'Another amount than the charge'), p.id)
    from public.payments as p
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
      and not private.is_being_refunded(p.id, p.receipt);
    return resolve_review.decision;
  end if;
  if decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  end if;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (largest.receipt, largest.id, decided.id, 'delivered', reason, member, private.email_of(member));
  if surplus > 0 then
    perform private.add_change_note(
      largest, case resolve_review.decision when 'deliver_with_credit' then 'credit' else 'to_return' end, surplus::integer, null, reason, member
    );
  end if;
  return resolve_review.decision;
end
$$;
comment on function public.resolve_review is
  'For staff: decides in one step about an order that needs review and the money that came for it (seen_cents: what counts of it, as seen). deliver: a shortfall is forgiven. deliver_with_credit, deliver_and_return: the surplus is owed as credit, or to be sent back. cancel_and_refund: all of it goes back, by the rules of refunds; if nothing is left of it, the order is only cancelled. receipt: unassigned money that is assigned to the order first.';

-- Receipts that staff type

create type public.typed_receipt as (receipt text, state text, reported_cents integer, order_number text);
comment on type public.typed_receipt is
  'What is known about a typed receipt. state: reported (M-PESA has it, with reported_cents), not_reported (its confirmations or statement should have it), or unknown. order_number: the order that it has paid.';

create function public.check_typed_receipt(order_id uuid, receipt text) returns public.typed_receipt
language plpgsql stable security definer set search_path = '' as $$
declare
  code text;
  reported_cents integer;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(check_typed_receipt.receipt);
  select t.received_cents into reported_cents from public.mpesa_transactions as t
  where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null);
  return (
    code,
    case
      when reported_cents is not null then 'reported'
      when private.should_be_reported(check_typed_receipt.order_id) then 'not_reported'
      else 'unknown'
    end,
    reported_cents,
    (select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.receipt = code)
  )::public.typed_receipt;
end
$$;
comment on function public.check_typed_receipt is
  'For staff: whether M-PESA has reported a receipt that they type for an order, and with which amount.';

create function private.should_be_reported(order_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (select from private.mpesa_registrations as r where r.kind = 'till') or case
    -- A receipt does not show its time: any since the order was placed.
    when o.created_at < now() - interval '1 hour'
      then private.statement_coverage(tstzrange(o.created_at, now() - interval '1 hour')) @> tstzrange(o.created_at, now() - interval '1 hour')
    else false
  end
  from public.orders as o where o.id = should_be_reported.order_id;
$$;
comment on function private.should_be_reported is
  'Whether M-PESA reports every payment for an order: confirmations are registered, or complete statements cover the time since it was placed.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review,
  public.check_typed_receipt to authenticated, service_role;
