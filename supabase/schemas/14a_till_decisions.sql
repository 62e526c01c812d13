-- Decisions about money for an order: finding its order, taking an assignment back, an amount that differs from the charge, change,
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
  perform private.expect_staff();
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
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled', cancel_reason = 'not_paid_in_time',
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

create function private.can_still_pay(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and private.is_open_refund(r.status)
      and not (private.is_unsent_refund(r.status) and r.tries = 0)
  );
$$;
comment on function private.can_still_pay is 'Whether money has come for an order, and M-PESA was not asked to send it back.';

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
    and (p.charge_cents = settled.charge_cents or not exists (
      select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
    ))
  order by p.charge_cents = settled.charge_cents desc, not p.needs_refund desc, p.completed_at, p.id
  limit 1;
  if exact is not null then
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = exact and p.needs_refund;
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = settled.id and p.id <> exact and p.status = 'completed' and not p.needs_refund;
  end if;
  select sum(p.charge_cents) into received
  from public.payments as p where p.order_id = settled.id and p.status = 'completed' and not p.needs_refund;
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
  member uuid := private.expect_staff_member();
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
  if private.mark_order_paid(deliver_reviewed_order.order_id) <> 'paid' then
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
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(resolve_review.note);
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
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
  select sum(p.charge_cents) into received from public.payments as p
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
  'For staff: decides in one step about an order that needs review and the money that came for it (seen_cents: its sum as seen). deliver: a shortfall is forgiven. deliver_with_credit, deliver_and_return: the surplus is owed as credit, or to be sent back. cancel_and_refund: all of it goes back, by the rules of refunds. receipt: unassigned money that is assigned to the order first.';

-- Change: money of a payment that is owed to its customer, or went back in part outside the shop

create table public.change_notes (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid not null references public.payments (id),
  kind text not null,
  amount_cents integer not null,
  receipt text,
  note text,
  noted_by uuid,
  noted_by_email text,
  noted_at timestamptz not null default now(),
  way text,
  is_part_refund boolean not null default false,
  used_for uuid,
  constraint "a kind of change is known" check (kind in ('credit', 'to_return', 'returned', 'used', 'use_taken_back')),
  constraint "change goes back by M-PESA or in cash" check (way in ('mpesa', 'cash')),
  constraint "only returned change has a way" check (way is null or kind = 'returned'),
  constraint "change sent by M-PESA has a receipt, cash has none" check ((way = 'mpesa') = (receipt is not null)),
  constraint "a part refund is returned" check (not is_part_refund or (kind = 'returned' and way is not null and note is not null)),
  constraint "used credit pays an order" check ((kind in ('used', 'use_taken_back')) = (used_for is not null)),
  constraint "change is of whole shillings" check (amount_cents >= 100 and amount_cents % 100 = 0),
  constraint "only returned change has a receipt" check (receipt is null or kind = 'returned'),
  constraint "a receipt returns change once" unique (receipt)
);
comment on table public.change_notes is
  'Change of a payment (docs/decisions/kept-for-customers.md). credit, to_return: owed to the customer. returned: sent back outside the shop. used: it paid another order (used_for); use_taken_back: it did not after all. Append-only.';
comment on column public.change_notes.way is 'How returned change went back: by M-PESA, with its receipt, or in cash. Null: for other kinds, and where earlier versions noted it.';
comment on column public.change_notes.is_part_refund is 'Part of the price went back, for example for a missing drink: not what was owed as change.';
comment on column public.change_notes.used_for is
  'The payment of method credit on the order that the credit paid. Without a foreign key, as payments embed their notes by the only one.';
alter table public.change_notes enable row level security;
revoke all on public.change_notes from anon, authenticated, service_role;
grant select on public.change_notes to authenticated, service_role;
create policy "staff read every note of change" on public.change_notes for select to authenticated using ((select public.is_admin()));
create index change_notes_by_payment on public.change_notes (payment_id);
create index change_notes_by_use on public.change_notes (used_for) where used_for is not null;
create index change_notes_that_owe on public.change_notes (noted_at desc, id desc) where kind in ('credit', 'to_return');

create function private.change_of(payment_id uuid, out owed_cents bigint, out returned_cents bigint, out used_cents bigint)
language sql stable set search_path = '' as $$
  select greatest(coalesce(sum(case
      when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
      when not c.is_part_refund then -c.amount_cents
    end), 0), 0),
    coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0),
    coalesce(sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents end), 0)
  from public.change_notes as c
  where c.payment_id = change_of.payment_id;
$$;
comment on function private.change_of is
  'Change of a payment in cents: what is still owed, what was sent back in part (of it or of the price), and what paid other orders.';

create function private.left_to_refund(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select (paid.charge_cents - c.returned_cents - c.used_cents)::integer from private.change_of(paid.id) as c;
$$;
comment on function private.left_to_refund is
  'What is left of a payment in cents: without what went back in part, and without credit of it that paid other orders.';

create function private.add_change_note(
  payment public.payments, kind text, amount_cents integer, receipt text, note text, member uuid, way text default null,
  is_part_refund boolean default false, used_for uuid default null
) returns public.change_notes
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change record;
  noted public.change_notes;
begin
  select c.*, greatest(payment.charge_cents, (select t.received_cents from public.mpesa_transactions as t where t.receipt = payment.receipt))
    as came_cents
  into change from private.change_of(payment.id) as c;
  -- All of it goes back as a refund, which ends its order.
  if (kind = 'returned' and change.returned_cents + change.used_cents + amount_cents >= change.came_cents)
    or (is_part_refund and change.returned_cents + change.used_cents + change.owed_cents + amount_cents >= change.came_cents)
    or (kind in ('credit', 'to_return')
      and change.returned_cents + change.used_cents + change.owed_cents + amount_cents > change.came_cents)
  then
    perform private.refuse(409, 'change_exceeds_payment', 'This is more than what is left of this payment. To send all of it back, refund it');
  end if;
  -- What M-PESA reported beyond a typed amount is booked with its change: otherwise it would go back without having come.
  update public.payments as p set charge_cents = change.came_cents, updated_at = now()
  where p.id = payment.id and p.method = 'till' and p.charge_cents < change.came_cents and private.is_whole_shillings(change.came_cents);
  insert into public.change_notes (
    payment_id, kind, amount_cents, receipt, note, noted_by, noted_by_email, way, is_part_refund, used_for
  ) values (
    payment.id, kind, amount_cents, receipt, note, member, private.email_of(member), way, is_part_refund, used_for
  )
  returning * into noted;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (
    payment.receipt, payment.id, payment.order_id, 'change_' || noted.kind,
    concat_ws(': ',
      format('KES %s', to_char(noted.amount_cents / 100, 'FM999,999,999')) || coalesce(', receipt ' || noted.receipt, '')
        || case when noted.way = 'cash' then ', in cash' else '' end
        || coalesce(', for ' || (
          select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.id = noted.used_for
        ), ''),
      noted.note),
    member, private.email_of(member)
  );
  return noted;
end
$$;
comment on function private.add_change_note is
  'Adds a note of change, and books all that M-PESA reported for a typed amount. What is owed, what went back and what paid other orders together never exceed the payment. The caller has locked the order and the payment; for credit that is used, the payment and the credit of the phone.';

create function private.lock_payment_to_return(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid public.payments;
begin
  select * into paid from public.payments as p where p.id = lock_payment_to_return.payment_id for update;
  if not found or paid.purpose <> 'order' then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  return paid;
end
$$;
comment on function private.lock_payment_to_return is
  'Locks a payment of which part is owed or goes back. Refuses one that is refunded in full. The caller has locked its order.';

create function private.read_way(way text, receipt text) returns text
language plpgsql set search_path = '' as $$
begin
  if read_way.way is null or read_way.way not in ('mpesa', 'cash') then
    perform private.refuse(400, 'way_unknown', 'Money goes back by M-PESA, with its receipt, or in cash');
  elsif read_way.way = 'cash' and nullif(trim(read_way.receipt), '') is not null then
    perform private.refuse(400, 'receipt_invalid', 'Cash has no receipt');
  end if;
  return case when read_way.way = 'mpesa' then private.check_refund_receipt(read_way.receipt) end;
end
$$;
comment on function private.read_way is
  'Checks how money went back, and locks and returns the receipt of sending it back. Null: in cash.';

create function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null, way text default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := private.read_reason(note_change.note);
  has_receipt boolean := nullif(trim(note_change.receipt), '') is not null;
  code text;
  phone text;
  paid public.payments;
  noted public.change_notes;
begin
  if note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif (has_receipt or note_change.way is not null) and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  select o.customer_phone into phone from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for no key update;
  if note_change.kind = 'returned' then
    -- It cannot pay an order at the same time.
    perform private.lock_credit(phone);
  end if;
  if note_change.way is not null then
    code := private.read_way(note_change.way, note_change.receipt);
  elsif has_receipt then
    code := private.check_refund_receipt(note_change.receipt);
  end if;
  paid := private.lock_payment_to_return(note_change.payment_id);
  -- Earlier versions did not tell it from a part of the price.
  if note_change.way is not null and note_change.amount_cents > (select c.owed_cents from private.change_of(paid.id) as c) then
    perform private.refuse(409, 'change_exceeds_owed', 'This is more than what is owed of this payment. A part of the price goes back as a part refund');
  end if;
  noted := private.add_change_note(
    paid, note_change.kind, note_change.amount_cents, code, reason, member, way => note_change.way
  );
  if note_change.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;
comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, by M-PESA with its receipt or in cash (way; then at most what is owed). What is owed and what went back never exceed what came.';

create function public.refund_part(
  payment_id uuid, amount_cents integer, way text, reason text, receipt text default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  cause text := private.read_reason(refund_part.reason, is_required => true);
  refunded public.orders;
  code text;
  paid public.payments;
  noted public.change_notes;
begin
  if private.is_whole_shillings(refund_part.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into refunded from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = refund_part.payment_id)
  for no key update;
  code := private.read_way(refund_part.way, refund_part.receipt);
  paid := private.lock_payment_to_return(refund_part.payment_id);
  -- The money of a cancelled order, and a second payment, go back in full.
  if refunded.payment_status <> 'paid' or refunded.status = 'cancelled' or paid.needs_refund then
    perform private.refuse(409, 'part_not_refundable', 'Only part of what pays an order can go back like this. Other money goes back in full');
  end if;
  noted := private.add_change_note(
    paid, 'returned', refund_part.amount_cents, code, cause, member, way => refund_part.way, is_part_refund => true
  );
  -- Who gets cash stands in front of the member or the rider.
  if refund_part.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;
comment on function public.refund_part is
  'For staff: part of the price of a paid order went back outside the shop, by M-PESA with its receipt or in cash (way), with the reason; the order stays as it is. Its customer gets the message of a refund, for cash none.';

create function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  perform private.record_order_event(
    p.order_id, 'change_noted', 'staff', jsonb_build_object(
      'change', new.kind, 'charge_cents', new.amount_cents, 'receipt', new.receipt, 'way', new.way, 'note', new.note,
      'is_part_refund', case when new.is_part_refund then true end,
      'order_number', (
        select o.order_number from public.payments as used join public.orders as o on o.id = used.order_id where used.id = new.used_for
      )
    )
  )
  from public.payments as p where p.id = new.payment_id;
  return null;
end
$$;
create trigger change_notes_after_insert after insert on public.change_notes
  for each row execute function private.after_change_note();
create function private.before_change_note_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- A note moves with its payment, when two payments are merged or a receipt becomes a payment of its own.
  if tg_op = 'UPDATE' and to_jsonb(old) - 'payment_id' = to_jsonb(new) - 'payment_id' then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'Notes of change are only added to';
end
$$;
create trigger change_notes_before_change before update or delete on public.change_notes
  for each row execute function private.before_change_note_change();

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
  perform private.expect_staff();
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
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review, public.note_change,
  public.refund_part, public.check_typed_receipt to authenticated, service_role;
