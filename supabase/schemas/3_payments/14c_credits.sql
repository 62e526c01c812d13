-- Credits: what the shop owes to customers, by their phone, pays their orders (docs/decisions/kept-for-customers.md).

create function private.lock_credit(phone text) returns void
language sql volatile set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended('credit of ' || lock_credit.phone, 0));
$$;
comment on function private.lock_credit is
  'Only one transaction at a time reduces what is owed to a phone. Taken after the order, and before receipts, payments and products.';

create function private.has_usable_credit(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and (r.tries > 0 or not private.is_dropped_refund(r.status))
  ) and not private.was_reversed(money.receipt);
$$;
comment on function private.has_usable_credit is
  'Whether what is owed of a payment can pay an order: it is not refunded in full, and M-PESA was never asked to and did not reverse it.';

create function private.is_unconfirmed(paid public.payments) returns boolean
language sql stable set search_path = '' as $$
  select paid.status = 'completed' and paid.method = 'till' and paid.confirmed_by is not null
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = paid.receipt and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
    and private.should_be_reported(paid.order_id)
    and 'accepted' is distinct from (
      select e.kind from public.reconciliation_events as e
      where e.payment_id = paid.id and e.kind not like 'change\_%' order by e.id desc limit 1
    );
$$;
comment on function private.is_unconfirmed is
  'Whether a payment is a receipt that staff typed and M-PESA should have reported, but has not. Ends when staff keep it in Reconciliation.';

create function public.is_unconfirmed(paid public.payments) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return (select private.is_unconfirmed(p) from public.payments as p where p.id = paid.id);
end
$$;
comment on function public.is_unconfirmed is
  'For staff: whether a payment is a receipt that staff typed and M-PESA should have reported, but has not. What is owed of it pays no order until then, or until staff keep it in Reconciliation.';

create type public.owed_credit as (
  payment_id uuid, order_id uuid, order_number text, owed_cents integer, noted_at timestamptz, unconfirmed_receipt text
);
comment on type public.owed_credit is
  'What is owed of one payment, in cents, and the order that it came for. unconfirmed_receipt: M-PESA has not reported it, so that it pays no order yet (private.is_unconfirmed).';

create function private.credit_of_phone(phone text) returns setof public.owed_credit
language plpgsql stable rows 2 set search_path = '' as $$
begin
  return query
    select p.id, o.id, o.order_number, change.owed_cents::integer, noted.at,
      case when private.is_unconfirmed(p) then p.receipt end
    from private.orders_of_phone(credit_of_phone.phone) as o
    join public.payments as p on p.order_id = o.id and private.has_usable_credit(p)
    cross join lateral (
      select min(c.noted_at) as at from public.change_notes as c where c.payment_id = p.id and c.kind in ('credit', 'to_return')
    ) as noted
    cross join lateral private.change_of(p.id) as change
    where noted.at is not null and change.owed_cents > 0
    order by noted.at, p.id;
end
$$;
comment on function private.credit_of_phone is 'What is owed to a phone (+254…) and can pay its orders, at once or once M-PESA has reported it, the oldest first.';

create function private.credit_of_own_order(ordered public.orders, payment_id uuid default null) returns setof public.payments
language sql stable rows 1 set search_path = '' as $$
  select p.*
  from public.payments as p
  cross join lateral private.change_of(p.id) as change
  where p.order_id = ordered.id and (credit_of_own_order.payment_id is null or p.id = credit_of_own_order.payment_id)
    and p.method <> 'credit' and change.owed_cents > 0 and private.has_usable_credit(p)
    and case ordered.payment_status
      when 'needs_review' then not p.needs_refund
      when 'unpaid' then p.needs_refund and change.owed_cents >= ordered.charge_cents and not private.is_unconfirmed(p)
      else false
    end
  order by p.completed_at, p.id;
$$;
comment on function private.credit_of_own_order is
  'Payments of an order of which something is owed that can pay the order itself: of its own money while it needs review, or of a second payment that was kept and covers the charge of the unpaid order.';

create function public.credit_for_order(order_id uuid) returns setof public.owed_credit
language plpgsql stable security definer rows 2 set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return query
    select c.payment_id, c.order_id, c.order_number, c.owed_cents, c.noted_at,
      -- To count for its own order again, it need not have come.
      case when c.order_id <> o.id then c.unconfirmed_receipt end
    from public.orders as o
    cross join lateral private.credit_of_phone(o.customer_phone) as c
    where o.id = credit_for_order.order_id and o.customer_phone <> '' and (
      c.order_id <> o.id or exists (select private.credit_of_own_order(o, c.payment_id))
    );
end
$$;
comment on function public.credit_for_order is
  'For staff: what is owed to the phone of an order, and can pay it (with unconfirmed_receipt once M-PESA has reported that), the oldest first. Of the order itself: what is owed of its money while it needs review, or of a second payment that covers its charge.';

create function private.pay_from_credit(ordered public.orders, amount_cents integer, note text, member uuid) returns public.payments
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  missing integer := pay_from_credit.amount_cents;
  source record;
  part integer;
  added public.payments;
begin
  perform private.lock_credit(ordered.customer_phone);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, note, completed_at)
  values (ordered.id, '', missing, 'completed', 'credit', member, pay_from_credit.note, now())
  returning * into added;
  for source in
    select c.* from private.credit_of_phone(ordered.customer_phone) as c
    where c.order_id <> ordered.id and c.unconfirmed_receipt is null
    order by c.noted_at, c.payment_id
  loop
    exit when missing = 0;
    part := least(source.owed_cents, missing);
    perform private.add_change_note(p, 'used', part, null, null, member, used_for => added.id)
    -- Another transaction may be joining it to the prompt of the same money.
    from (select * from public.payments as p where p.id = source.payment_id for key share) as p;
    continue when not found;
    missing := missing - part;
  end loop;
  if missing > 0 then
    perform private.refuse(409, 'credit_too_low', format(
      'KES %s of credit is left for this phone, less than what this order needs',
      to_char((pay_from_credit.amount_cents - missing) / 100, 'FM999,999,990')
    ), (pay_from_credit.amount_cents - missing)::text);
  end if;
  return added;
end
$$;
comment on function private.pay_from_credit is
  'Adds a payment of an order from what is owed to its phone, the oldest first; refuses if that is less. The caller has locked the order, and no product.';

create function public.use_credit(order_id uuid, note text default null) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  reason text := private.read_reason(use_credit.note);
  ordered public.orders;
  missing bigint;
  own public.payments;
  part integer;
  used public.payments;
begin
  select * into ordered from public.orders as o where o.id = use_credit.order_id for no key update;
  if ordered.payment_status = 'needs_review' then
    -- As resolve_review, which decides about such orders.
    perform private.expect_staff('refunds');
    missing := ordered.charge_cents - coalesce(private.counted_for_order(ordered.id), 0);
    if missing <= 0 or exists (
      select from public.payments as p
      where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund
        and (p.refunded_at is not null or private.is_being_refunded(p.id, p.receipt))
    ) then
      perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
    end if;
    perform private.lock_credit(ordered.customer_phone);
    for own in select * from private.credit_of_own_order(ordered) loop
      exit when missing = 0;
      part := least(missing, (select c.owed_cents from private.change_of(own.id) as c));
      perform private.add_change_note(own, 'not_owed', part, null, coalesce(reason, 'It pays its own order'), member);
      missing := missing - part;
      used := own;
    end loop;
    if missing > 0 then
      used := private.pay_from_credit(ordered, missing::integer, reason, member);
    end if;
    perform private.deliver_reviewed_order(ordered.id);
    return used;
  end if;
  ordered := private.lock_order_for_cash(use_credit.order_id);
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  perform private.lock_credit(ordered.customer_phone);
  select * into own from private.credit_of_own_order(ordered) limit 1;
  if own.id is not null then
    -- A second payment that was kept: it pays the order itself, without a payment from credit.
    perform private.add_change_note(own, 'not_owed', ordered.charge_cents, null, coalesce(reason, 'It pays its own order'), member);
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = own.id returning * into used;
    perform private.take_units_to_pay(ordered);
    perform private.set_order_paid(ordered, 'mpesa');
    return used;
  end if;
  used := private.pay_from_credit(ordered, ordered.charge_cents, reason, member);
  perform private.take_units_to_pay(ordered);
  perform private.set_order_paid(ordered, 'credit');
  return used;
end
$$;
comment on function public.use_credit is
  'For staff: what is owed to the phone of an order pays what is missing of it: all of an unpaid order, or the rest of one that needs review for less than its charge. What is owed of its own money counts for it again, first. Refuses if less is owed (the hint is that, in cents). With cash for the rest: receive_cash.';

create function private.has_refunded_source(used public.payments) returns boolean
language sql stable set search_path = '' as $$
  select used.method = 'credit' and exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used' and source.refunded_at is not null
  );
$$;
comment on function private.has_refunded_source is
  'Whether the rest of the money that a payment from credit came from was refunded: what it used cannot be owed again, and goes back as money.';

create function public.has_refunded_source(used public.payments) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return (select private.has_refunded_source(p) from public.payments as p where p.id = used.id);
end
$$;
comment on function public.has_refunded_source is
  'For staff: whether the rest of the money that a payment from credit came from was refunded. Then the credit of a cancelled order goes back as money (give_back_cash, note_refund_by_hand).';

create function private.release_credit(used public.payments, note text, member uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- A refund of the money that it came from takes this lock, too: it leaves what is owed again, or is seen here.
  perform private.lock_credit(o.customer_phone) from public.orders as o where o.id = used.order_id;
  -- What is owed of a refunded payment would be lost.
  if exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used'
      and (source.refunded_at is not null or private.is_being_refunded(source.id, source.receipt))
  ) then
    perform private.refuse(409, 'credit_refunded',
      'The rest of the money that this credit came from was sent back, so it cannot be owed again. Cancel the order and give this part back, too');
  end if;
  perform private.add_change_note(source, 'use_taken_back', use.amount_cents, null, release_credit.note, member, used_for => used.id)
  from public.change_notes as use
  join public.payments as source on source.id = use.payment_id
  where use.used_for = used.id and use.kind = 'used';
  -- M-PESA may have reported less since it was used.
  perform private.limit_owed(use.payment_id, 'M-PESA reported less than was entered')
  from public.change_notes as use where use.used_for = used.id and use.kind = 'used';
end
$$;
comment on function private.release_credit is 'What a payment from credit used is owed again, as far as it came. Once; the caller has locked the payment and ends it.';

create function private.return_to_credit(paid public.payments, reason text, member uuid) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  returned public.refunds;
begin
  if exists (select from public.change_notes as c where c.payment_id = paid.id) then
    perform private.refuse(409, 'partly_returned',
      'Part of this credit went back as money, or is owed again. Give the rest back, and note it as change');
  end if;
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (paid.id, paid.charge_cents, return_to_credit.reason, 'credit', 'completed', member, private.email_of(member), now())
  returning * into returned;
  perform private.release_credit(paid, return_to_credit.reason, member);
  return private.complete_refund(returned.id, null);
end
$$;
comment on function private.return_to_credit is
  'Refunds what an order was paid from credit: it is owed again, and no money moves. The caller has locked the order and the payment.';

create function public.take_back_credit(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  cause text := private.read_reason(take_back_credit.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_credit.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_credit.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'credit' or taken.status <> 'completed' or taken.refunded_at is not null or taken.needs_refund
    or not private.has_money(ordered.payment_status) or ordered.status = 'cancelled'
    or exists (select from public.change_notes as c where c.payment_id = taken.id)
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif private.was_handed_over(ordered) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif exists (
    select from public.payments as p
    where p.order_id = ordered.id and p.method = 'cash' and p.status = 'completed' and p.refunded_at is null
  ) then
    perform private.refuse(409, 'paid_in_cash_too', 'Cash paid the rest of this order. Take the cash back: the credit goes with it');
  end if;
  perform private.release_credit(taken, cause, member);
  update public.payments as p set status = 'failed', note = cause, updated_at = now() where p.id = taken.id;
  perform private.settle_order_again(ordered.id);
  perform private.postpone_messages(ordered.id);
  perform private.withdraw_messages(ordered.id);
end
$$;
comment on function public.take_back_credit is
  'For staff: credit was used by mistake for an order that has not left the shop. It is owed again, and the order is what it was: unpaid with a new time for payment, or under review with the money that came; the payment stays in the books as taken back, with the reason.';

-- Kept for customers

create type public.kept_money as (
  id uuid, order_id uuid, order_number text, customer_name text, customer_phone text, created_at timestamptz,
  kept_cents bigint, used_cents bigint, returned_cents bigint, owed_cents bigint, used_orders text
);
comment on type public.kept_money is
  'What was kept of one payment (id) for its customer since created_at, in cents: kept_cents = used_cents + returned_cents + owed_cents. returned_cents: also what went back with a refund of the whole payment. used_orders: numbers of the orders that it paid.';

create function public.kept_for_customers(
  only_owed boolean default true, before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.kept_money
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('refunds');
  return query
    select p.id, o.id, o.order_number, o.customer_name, o.customer_phone, first.noted_at,
      change.owed_cents + change.used_cents + settled.cents,
      change.used_cents,
      case when p.refunded_at is null then settled.cents else settled.cents + change.owed_cents end,
      case when p.refunded_at is null then change.owed_cents else 0 end,
      (
        select string_agg(distinct of_use.order_number, ', ')
        from public.change_notes as use
        join public.payments as used on used.id = use.used_for and used.status = 'completed' and used.refunded_at is null
        join public.orders as of_use on of_use.id = used.order_id
        where use.payment_id = p.id and use.kind = 'used'
      )
    -- The first note of each payment, by the index of what owes; the rest of each row by keys.
    from public.change_notes as first
    cross join lateral (select * from public.payments as p where p.id = first.payment_id offset 0) as p
    cross join lateral (select * from public.orders as o where o.id = p.order_id offset 0) as o
    cross join lateral private.change_of(p.id) as change
    cross join lateral (
      select coalesce(sum(c.amount_cents), 0)::bigint as cents from public.change_notes as c
      where c.payment_id = p.id and c.kind = 'returned' and not c.is_part_refund
    ) as settled
    where first.kind in ('credit', 'to_return')
      and not exists (
        select from public.change_notes as earlier
        where earlier.payment_id = first.payment_id and earlier.kind in ('credit', 'to_return')
          and (earlier.noted_at, earlier.id) < (first.noted_at, first.id)
      )
      and (kept_for_customers.before_created_at is null
        or (first.noted_at, p.id) < (kept_for_customers.before_created_at, kept_for_customers.before_id))
      and (not kept_for_customers.only_owed or (p.refunded_at is null and change.owed_cents > 0))
    order by first.noted_at desc, p.id desc
    limit least(greatest(coalesce(kept_for_customers.page_size, 50), 1), 1000);
end
$$;
comment on function public.kept_for_customers is
  'For staff: payments of which something was kept for the customer, the newest first, after the one named by before_created_at and before_id. only_owed: those of which some is still owed.';

create function public.kept_totals() returns table (owed_cents bigint, used_cents bigint, returned_cents bigint, customers integer)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('refunds');
  return query
    with notes as materialized (
      -- As private.change_of, of all payments in one pass.
      select c.payment_id,
        greatest(sum(case
          when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
          when not c.is_part_refund then -c.amount_cents
          else 0
        end), 0) as owed,
        sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents else 0 end) as used,
        coalesce(sum(c.amount_cents) filter (where c.kind = 'returned' and not c.is_part_refund), 0) as returned
      from public.change_notes as c
      group by c.payment_id
      having bool_or(c.kind in ('credit', 'to_return'))
    )
    select coalesce(sum(n.owed) filter (where p.refunded_at is null), 0)::bigint,
      coalesce(sum(n.used), 0)::bigint,
      coalesce(sum(n.returned + case when p.refunded_at is null then 0 else n.owed end), 0)::bigint,
      (count(distinct nullif(o.customer_phone, '')) filter (where p.refunded_at is null and n.owed > 0))::integer
    from notes as n
    join public.payments as p on p.id = n.payment_id
    join public.orders as o on o.id = p.order_id;
end
$$;
comment on function public.kept_totals is
  'For staff: what is owed, was used and went back of what was kept for customers, in cents, and to how many phones something is owed. Of all payments.';

-- Execution rights
grant execute on function public.counted_cents, public.is_unconfirmed, public.has_refunded_source to authenticated, service_role;
grant execute on function public.credit_for_order, public.use_credit, public.take_back_credit, public.kept_for_customers, public.kept_totals
  to authenticated, service_role;
