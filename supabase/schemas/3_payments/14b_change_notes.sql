-- Change: money of a payment that is owed to its customer, went back in part outside the shop, or paid another order
-- (docs/decisions/kept-for-customers.md).

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
  constraint "a kind of change is known" check (kind in ('credit', 'to_return', 'returned', 'used', 'use_taken_back', 'not_owed')),
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
  'Change of a payment (docs/decisions/kept-for-customers.md). credit, to_return: owed to the customer. returned: sent back outside the shop. used: it paid another order (used_for); use_taken_back: it did not after all. not_owed: less is owed, because M-PESA reported less than staff typed, or because it counts for its own order again. Append-only.';
comment on column public.change_notes.way is 'How returned change went back: by M-PESA, with its receipt, or in cash. Null: for other kinds, and where earlier versions noted it.';
comment on column public.change_notes.is_part_refund is 'Part of the price went back, for example for a missing drink: not what was owed as change.';
comment on column public.change_notes.used_for is
  'The payment of method credit on the order that the credit paid. Without a foreign key, as payments embed their notes by the only one.';
alter table public.change_notes enable row level security;
revoke all on public.change_notes from anon, authenticated, service_role;
grant select on public.change_notes to authenticated, service_role;
create policy "staff read every note of change, the counter recent ones" on public.change_notes
  for select to authenticated using ((select public.may('orders')) or exists (select from public.payments as p where p.id = payment_id));
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

create function public.counted_cents(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select greatest(paid.charge_cents - greatest(sums.balance, 0) - sums.used - sums.returned, 0)::integer
  from (
    select
      coalesce(sum(case
        when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
        when not c.is_part_refund then -c.amount_cents
      end), 0) as balance,
      coalesce(sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents end), 0) as used,
      coalesce(sum(c.amount_cents) filter (where c.kind = 'returned' and not c.is_part_refund), 0) as returned
    from public.change_notes as c
    where c.payment_id = paid.id
  ) as sums;
$$;
comment on function public.counted_cents is
  'What a payment counts for its own order, in cents: without what is owed of it, went back as change, or paid other orders. A part refund lowers the price, not what came for it.';

create function private.counted_for_order(order_id uuid, except_payment uuid default null) returns bigint
language sql stable set search_path = '' as $$
  select sum(public.counted_cents(p)) from public.payments as p
  where p.order_id = counted_for_order.order_id and p.status = 'completed' and not p.needs_refund
    and p.id is distinct from counted_for_order.except_payment;
$$;
comment on function private.counted_for_order is
  'What counts for an order of all its payments (counted_cents), or of all but one. Null: it has none.';

create function private.came_cents(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select coalesce((
    select case
      when t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null then t.received_cents
      else greatest(paid.charge_cents, t.received_cents)
    end
    from public.mpesa_transactions as t where t.receipt = paid.receipt
  ), paid.charge_cents);
$$;
comment on function private.came_cents is
  'What came with a payment, in cents: what a confirmation or the statement reported for its receipt, else what is booked. An order that has left the shop keeps the amount that staff typed.';

create function private.limit_owed(payment_id uuid, note text, leaves_charge boolean default false) returns void
language plpgsql set search_path = '' as $$
declare
  paid public.payments;
  change record;
  part_refunds bigint;
  of_order bigint := 0;
  excess bigint;
begin
  select * into strict paid from public.payments as p where p.id = limit_owed.payment_id;
  select * into change from private.change_of(paid.id);
  if change.owed_cents = 0 or paid.refunded_at is not null then
    return;
  end if;
  select coalesce(sum(c.amount_cents), 0) into part_refunds
  from public.change_notes as c where c.payment_id = paid.id and c.is_part_refund;
  if limit_owed.leaves_charge and not paid.needs_refund then
    select o.charge_cents - coalesce(private.counted_for_order(o.id, except_payment => paid.id), 0) into of_order
    from public.orders as o where o.id = paid.order_id;
  end if;
  -- A part refund came out of what the order has.
  excess := change.owed_cents - greatest(
    private.came_cents(paid) - change.used_cents - (change.returned_cents - part_refunds) - greatest(of_order, part_refunds), 0
  ) / 100 * 100;
  if excess > 0 then
    perform private.add_change_note(paid, 'not_owed', excess::integer, null, limit_owed.note, null);
  end if;
end
$$;
comment on function private.limit_owed is
  'Notes that less is owed of a payment than was noted, if so much did not come: it paid other orders or went back, too, and leaves the charge to its own order (leaves_charge). The caller has locked the credit of its phone.';

create function private.lock_credit_of_receipt(receipt text) returns void
language sql volatile set search_path = '' as $$
  select private.lock_credit(o.customer_phone)
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.receipt = lock_credit_of_receipt.receipt and exists (select from public.change_notes as c where c.payment_id = p.id);
$$;
comment on function private.lock_credit_of_receipt is
  'Locks the credit that money with this receipt is part of: a report may lower it. Taken after the order, and before the receipt.';

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
  select c.*, private.came_cents(payment) as came_cents into change from private.change_of(payment.id) as c;
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

create function private.lock_payment_to_return(payment_id uuid, seen_notes integer) returns public.payments
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
  elsif lock_payment_to_return.seen_notes <> (select count(*) from public.change_notes as c where c.payment_id = paid.id) then
    perform private.refuse(409, 'payment_changed', 'Something else was noted for this payment in the meantime. Nothing was saved. Close this and look at its notes');
  end if;
  return paid;
end
$$;
comment on function private.lock_payment_to_return is
  'Locks a payment of which part is owed or goes back. Refuses one that is refunded in full, or has another number of notes than the caller saw (null: not compared). The caller has locked its order.';

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
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null, way text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
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
  paid := private.lock_payment_to_return(note_change.payment_id, note_change.seen_notes);
  -- Earlier versions noted both in the same way.
  if note_change.way is not null and note_change.amount_cents > (select c.owed_cents from private.change_of(paid.id) as c) then
    perform private.refuse(409, 'change_exceeds_owed', 'This is more than what is owed of this payment. A part of the price goes back as a part refund');
  end if;
  if note_change.kind = 'returned' then
    perform private.check_refund_right(note_change.amount_cents, paid.id);
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
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, by M-PESA with its receipt or in cash (way; then at most what is owed). What is owed and what went back never exceed what came. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create function public.refund_part(
  payment_id uuid, amount_cents integer, way text, reason text, receipt text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
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
  paid := private.lock_payment_to_return(refund_part.payment_id, refund_part.seen_notes);
  -- The money of a cancelled order, and a second payment, go back in full.
  if refunded.payment_status <> 'paid' or refunded.status = 'cancelled' or paid.needs_refund then
    perform private.refuse(409, 'part_not_refundable', 'Only part of what pays an order can go back like this. Other money goes back in full');
  end if;
  perform private.check_refund_right(refund_part.amount_cents, paid.id);
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
  'For staff: part of the price of a paid order went back outside the shop, by M-PESA with its receipt or in cash (way), with the reason; the order stays as it is. Its customer gets the message of a refund, for cash none. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  perform private.record_order_event(
    -- Less than staff typed was reported.
    p.order_id, 'change_noted', case when new.kind = 'not_owed' and new.noted_by is null then 'mpesa' else 'staff' end, jsonb_build_object(
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

-- Execution rights
grant execute on function public.note_change, public.refund_part to authenticated, service_role;
