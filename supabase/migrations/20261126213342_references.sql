-- Order numbers in any text, decisions about money for an order, change, and receipts that M-PESA has not reported.

create type public.suggested_order as (
  id uuid, order_number text, tracking_number text, customer_name text, customer_phone text, items text, total_amount integer,
  charge_cents integer, payment_status text, status text, created_at timestamptz, lacks_receipt boolean, is_named boolean,
  fits_amount boolean, phone_match text, shares_name boolean, is_certain boolean
);
comment on type public.suggested_order is
  'An order that money may be for. lacks_receipt: a prompt of this amount and time has no receipt. is_named: the payer''s reference names it. phone_match: as private.compare_payer_phone. is_certain: the only unpaid order whose charge is the amount and whose phone has the payer''s visible digits, and the reference names no other.';

create type public.typed_receipt as (receipt text, state text, reported_cents integer, order_number text);
comment on type public.typed_receipt is
  'What is known about a typed receipt. state: reported (M-PESA has it, with reported_cents), not_reported (its confirmations or statement should have it), or unknown. order_number: the order that it has paid.';

alter type public.reconciliation_row add attribute order_status text, add attribute order_booked_cents bigint,
  add attribute order_waiting_cents bigint, add attribute owed_cents bigint, add attribute returned_cents bigint,
  add attribute confirmed_by uuid;
comment on type public.reconciliation_row is
  'A payment in the books of the shop and of M-PESA, joined by receipt. kind: matched; missing_here (no payment has M-PESA''s receipt); missing_there (a statement covers the payment but lacks it); not_compared (no statement covers it yet); typed (staff typed a receipt that M-PESA should have reported); double; wrong_amount. order_booked_cents: what counts for its order; order_waiting_cents: unassigned money under the order''s number.';

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.reconciliation_events drop constraint "a decision is known";

drop function public.confirm_till_payment(uuid,text,integer,boolean);

drop function private.open_order(text,text,text);

drop function public.suggest_orders(text);

revoke all on public.reconciliation_events from anon, authenticated;

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text])));

alter table public.reconciliation_events add constraint "a decision is known" CHECK ((kind = ANY (ARRAY['given'::text, 'not_an_order'::text, 'refund'::text, 'accepted'::text, 'reopened'::text, 'taken_back'::text, 'delivered'::text, 'change_credit'::text, 'change_to_return'::text, 'change_returned'::text])));

create or replace function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(opened.found_order);
  end if;
  return private.describe_order(opened.found_order, opened.is_open);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents and part_paid_cents. live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. Null: no such order, or several.';

create or replace function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(receipt_of);
  elsif not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create or replace function private.open_order(
  tracking_number text, access_key text, phone_digits text, out found_order public.orders, out is_open boolean,
  out is_by_order_number boolean, out refusal jsonb
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  numbers text[];
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  needs_whole_phone boolean;
  networks text[];
begin
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  is_by_order_number := false;
  if not found then
    numbers := private.order_numbers_in(open_order.tracking_number);
    select * into found_order from public.orders as o where o.id = private.order_of_reference(open_order.tracking_number);
    is_by_order_number := found and found_order.tracking_number <> all (numbers);
    -- Each spelling of a number counts for the same limits.
    wanted := coalesce(found_order.tracking_number, numbers[1], wanted);
  end if;
  is_open := exists (
    select from private.order_keys as k
    where k.order_id = found_order.id and k.access_key = left(open_order.access_key, 64)
  );
  if is_open then
    return;
  end if;

  if digits is not null then
    -- Guesses are serialised, so that each is counted before the next is compared. Unknown numbers take the same path, so that the
    -- response does not distinguish them.
    perform pg_advisory_xact_lock(hashtext('order_digits ' || wanted));
    -- The widest network contains the others. Always after the order, so that two guesses never wait for each other.
    networks := private.caller_networks();
    perform pg_advisory_xact_lock(hashtext('digits ' || networks[cardinality(networks)]));
    if not private.is_within_limit('order_digits', wanted) then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    if not private.is_within_limit('digits') then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits from your network. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    -- Many networks together could try all 10,000 endings. After 200 misses only the whole number opens the order.
    needs_whole_phone := private.hits_so_far('order_digits_of_all', wanted, interval '30 days') >= 200;
    is_open := coalesce(
      private.normalised_phone(digits) = found_order.customer_phone
        or (right(found_order.customer_phone, 4) = digits and not needs_whole_phone),
      false
    );
    if is_open then
      return;
    end if;
    perform private.count_call('order_digits', wanted);
    perform private.count_call('digits');
    if found_order.id is not null then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
    end if;
    if needs_whole_phone then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please enter the whole phone number',
        'too_many_guesses', '');
      return;
    end if;
  end if;

  if not private.count_order_lookup(wanted) then
    refusal := private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
end
$$;

comment on function private.open_order is
  'Finds an order and checks the proof: its access key, the last four digits of its phone, or the whole number. is_open: the proof is valid; that is not counted. is_by_order_number: only its order number was given. refusal: the response when the caller is over a limit.';

create or replace function private.describe_by_order_number(described public.orders) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'order_number', described.order_number, 'status', private.shown_status(described.status), 'is_masked', true, 'needs_digits', true
  );
$$;

comment on function private.describe_by_order_number is
  'The order as a caller may see it who gave only its order number. Order numbers are consecutive, so neither payment nor tracking number is shown.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.order_numbers_in(written text) returns text[]
language sql immutable set search_path = '' as $$
  -- The patterns of domain/tracking-number.ts.
  with spelled as (
    select translate(
      regexp_replace(left(order_numbers_in.written, 300), '[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]', '', 'g'),
      'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
    ) as text
  ),
  found as (
    select 1 as kind, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      'J[^A-Z0-9]?J[^A-Z0-9]{0,3}((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6}(?![A-Z0-9])|[0-9]{4,6}(?=[A-Z]))',
      'g') with ordinality as m (parts, place)
    union all
    select 2, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6})(?![A-Z0-9])',
      'g') with ordinality as m (parts, place)
    union all
    select 3, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])[0O]RD(?:ER)?[^A-Z0-9]{0,3}(?:N(?:O|R|UMBER)[^A-Z0-9]{0,3})?(?=[OIL]{0,8}[0-9])([1-9IL][0-9OIL]{3,8}(?![A-Z0-9]|[.,][0-9]|/[=-])|[1-9][0-9]{3,8}(?=[A-Z])(?!KES|KSH|SH|BOB|ML))',
      'g') with ordinality as m (parts, place)
  ),
  numbers as (
    select f.kind, f.place, translate(
      case
        when f.kind = 3 then '#' || f.parts[1]
        else 'JJ-' || case when char_length(f.parts[1]) = 2 then '20' else '' end || f.parts[1] || f.parts[2] || f.parts[3] || '-' || f.parts[4]
      end, 'OIL', '011') as number
    from found as f
  )
  select coalesce(array_agg(replace(n.number, '#', 'ORD-') order by n.kind, n.place), '{}')
  from (select distinct on (k.number) k.number, k.kind, k.place from numbers as k order by k.number, k.kind, k.place) as n;
$$;

comment on function private.order_numbers_in is
  'The tracking numbers and order numbers that a short text names, as they are stored, the tracking numbers first. The same as readOrderNumbers in domain/tracking-number.ts.';

create or replace function private.orders_named(numbers text[]) returns setof uuid
language sql stable set search_path = '' as $$
  select o.id from public.orders as o where o.tracking_number = any (orders_named.numbers)
  union
  select o.id from public.orders as o where o.order_number = any (orders_named.numbers);
$$;

comment on function private.orders_named is 'The orders with these tracking numbers or order numbers.';

create or replace function private.order_of_reference(reference text) returns uuid
language sql stable set search_path = '' as $$
  -- If the text names several orders, staff decide.
  select case when count(*) = 1 then min(named.id::text)::uuid end
  from private.orders_named(private.order_numbers_in(order_of_reference.reference)) as named (id);
$$;

comment on function private.order_of_reference is
  'The order that a payer''s reference names, by its tracking number or its order number in any spelling. Null for none or several.';

create or replace function private.merge_payments(own_id uuid, attempt_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = merge_payments.own_id;
  select * into strict attempt from public.payments as p where p.id = merge_payments.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  update public.change_notes as c set payment_id = attempt.id where c.payment_id = by_hand.id;
  delete from public.payments as p where p.id = by_hand.id;
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = by_hand.receipt,
      confirmed_by = coalesce(by_hand.confirmed_by, p.confirmed_by),
      needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
      next_query_at = null, completed_at = least(attempt.completed_at, by_hand.completed_at), updated_at = now()
  where p.id = attempt.id;
  perform private.correct_message_outcomes(attempt.id);
end
$$;

comment on function private.merge_payments is
  'Merges a payment by its receipt into the attempt of the same money. The caller has locked the order.';

-- Records refunds by hand of an order's payments when staff mark the order as refunded.
create or replace function private.record_refund_of_order(new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, p.charge_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.charge_cents - (select c.returned_cents from private.change_of(s.id) as c), 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
end
$$;

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  paid := private.lock_refundable_payment(request_refund.payment_id);
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = paid.id and c.kind = 'returned') then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function private.check_refund_receipt(typed text) returns text
language plpgsql set search_path = '' as $$
declare
  code text := private.read_receipt(typed);
begin
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code) then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  elsif exists (select from public.refunds as r where r.refund_receipt = code)
    or exists (select from public.change_notes as c where c.receipt = code)
  then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = upper(regexp_replace(note_refund_by_hand.refund_receipt, '\s', '', 'g'))
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = upper(trim(note_refund_by_hand.receipt)) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  noted := private.open_refund(
    paid.id, null, paid.receipt, (paid.charge_cents - (select c.returned_cents from private.change_of(paid.id) as c))::integer,
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false,
  although_not_reported boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff();
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  if known.id is null and not coalesce(confirm_till_payment.although_not_reported, false)
    and private.should_be_reported(confirmed_order.id)
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
  then
    perform private.refuse(409, 'receipt_not_reported',
      'M-PESA has not reported this receipt yet. Check it in the till''s own messages before you confirm it');
  end if;
  received := private.reported_amount(code, received);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (confirmed_order.id, '', received, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform set_config('private.is_typed_by_staff', '', true);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid. although_not_reported: consent to a receipt that M-PESA should have reported and has not (receipt_not_reported otherwise).';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

comment on table public.reconciliation_events is
  'Staff decisions about differences between the books and M-PESA. Append-only, by resolve_difference, resolve_review, take_back_payment and note_change. actor_email: the email address at that time.';

alter table public.reconciliation_events enable row level security;

revoke all on public.reconciliation_events from anon, authenticated, service_role;

grant select on public.reconciliation_events to authenticated, service_role;

grant select (id) on public.reconciliation_events to anon;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable
set search_path = ''
-- A day and a year need different plans.
set plan_cache_mode = force_custom_plan
as $$
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payments as k where k.id = t.payment_id and k.purpose = 'test')
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order'
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when p.status in ('review', 'failed') then 'wrong_amount'
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        when coverage @> tstzrange(p.created_at, p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.booked_cents, money.waiting_cents, change.owed_cents, change.returned_cents
    from entries as e
    left join public.payments as p on p.id = e.payment_id
    left join public.orders as o on o.id = coalesce(p.order_id, (e.t).order_id)
    left join lateral (
      select
        (select sum(own.charge_cents) from public.payments as own
         where own.order_id = o.id and own.status = 'completed' and not own.needs_refund) as booked_cents,
        (select sum(part.received_cents) from public.mpesa_transactions as part
         where part.order_id = o.id and part.payment_id is null and part.resolution is null) as waiting_cents
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by r.status in ('failed', 'withdrawn'), r.created_at desc
      limit 1
    ) as refund on true
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or c.refund_status not in ('failed', 'withdrawn')
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    case when (c.p).status in ('completed', 'review') then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function public.reconciliation_days(since date, until date) returns table (
  day date, ours bigint, theirs bigint, payments bigint, matched bigint, missing_here bigint, missing_there bigint,
  not_compared bigint, doubles bigint, wrong_amounts bigint, open bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  if reconciliation_days.until - reconciliation_days.since not between 0 and 366 then
    perform private.refuse(400, 'range_invalid', 'A range has up to 366 days');
  end if;
  return query
  select
    d.day::date,
    coalesce(sum(r.our_cents) filter (where r.payment_status = 'completed'), 0),
    coalesce(sum(r.their_cents), 0),
    count(r.id),
    count(*) filter (where r.kind = 'matched'),
    count(*) filter (where r.kind = 'missing_here'),
    count(*) filter (where r.kind = 'missing_there'),
    count(*) filter (where r.kind in ('not_compared', 'typed')),
    count(*) filter (where r.kind = 'double'),
    count(*) filter (where r.kind = 'wrong_amount'),
    count(*) filter (where r.is_open)
  from generate_series(reconciliation_days.since::timestamp, reconciliation_days.until::timestamp, interval '1 day') as d (day)
  left join private.reconciliation_rows(
    reconciliation_days.since::timestamp at time zone 'Africa/Nairobi',
    (reconciliation_days.until + 1)::timestamp at time zone 'Africa/Nairobi'
  ) as r on private.nairobi_day(r.happened_at) = d.day::date
  group by d.day
  order by d.day desc;
end
$$;

comment on function public.reconciliation_days is
  'For staff: days of a range in Nairobi, newest first, with the sums of both books in cents and the number of differences by kind, and open ones.';

create or replace function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := nullif(trim(resolve_difference.note), '');
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  of_order uuid;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(resolve_difference.receipt, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
    );
    begin
      perform from public.orders as o where o.id = of_order for update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif resolve_difference.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || resolve_difference.receipt));
        select * into reported from public.mpesa_transactions as t where t.receipt = resolve_difference.receipt for update;
      end if;
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'accepted' and money.status = 'completed' and not money.needs_refund
    and exists (select from public.orders as o where o.id = money.order_id and o.payment_status = 'needs_review')
  then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', reported.received_cents, 'unresolved', 'till', member)
    returning * into money;
    -- Staff can take it back before the customer is notified.
    perform set_config('private.is_typed_by_staff', 'yes', true);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    perform set_config('private.is_typed_by_staff', '', true);
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  -- Money that the shop keeps beyond the charge is owed to its customer.
  kept_cents := case
    when event_kind <> 'accepted' or money.status is distinct from 'completed' then 0
    when money.needs_refund then money.charge_cents
    else greatest(reported.received_cents - money.charge_cents, 0)
  end;
  if kept_cents >= 100 and not exists (select from public.change_notes as c where c.payment_id = money.id) then
    perform private.add_change_note(money, 'credit', kept_cents / 100 * 100, null, reason, member);
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;

comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept: leave it as it is, what is kept beyond the charge becomes credit; reopen. Money of an order that needs review is decided by resolve_review. Recorded in reconciliation_events.';

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;

-- Decisions about money for an order: finding its order, taking an assignment back, an amount that differs from the charge, change,
-- and receipts that M-PESA has not reported (docs/decisions/money-without-a-prompt.md).

-- Finding the order of a payment

create or replace function private.compare_payer_phone(payer_phone text, customer_phone text) returns text
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

create or replace function private.shares_name(payer_name text, customer_name text) returns boolean
language sql immutable set search_path = '' as $$
  select exists (
    select from regexp_split_to_table(lower(left(payer_name, 200)), '[^[:alpha:]]+') as part
    where char_length(part) >= 3 and part = any (regexp_split_to_array(lower(customer_name), '[^[:alpha:]]+'))
  );
$$;

comment on function private.shares_name is 'Whether a name of the payer, of at least three letters, is a name of the customer.';

create or replace function public.suggest_orders(receipt text, search text default '') returns setof public.suggested_order
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
  select * into reported from public.mpesa_transactions as t where t.receipt = suggest_orders.receipt;
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
      where recent.payment_status in ('unpaid', 'needs_review')
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
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.created_at, i.id)
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

create or replace function private.has_left_shop(seen public.orders) returns boolean
language sql stable set search_path = '' as $$
  select seen.status in ('shipped', 'out_for_delivery', 'delivered')
    -- Cancelled after it left: its units were not returned.
    or (seen.status = 'cancelled' and seen.payment_status = 'paid' and seen.units_returned_at is null)
    or exists (
      select from public.deliveries as d
      where d.order_id = seen.id and d.delivery_status in ('picked_up', 'in_transit', 'delivered')
    );
$$;

comment on function private.has_left_shop is 'Whether an order was handed over, to a rider or to its customer.';

create or replace function private.reopen_unpaid_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  reopened public.orders;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
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
      perform private.return_units(reopened.id);
    end if;
    update public.orders as o
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled', reserved_until = null, expires_at = null,
        units_returned_at = null, updated_at = now()
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
      reserved_until = case when holds_units then now() + minutes end, expiry_limit = now() + 2 * minutes, extended_at = null,
      updated_at = now()
  where o.id = reopened.id;
end
$$;

comment on function private.reopen_unpaid_order is
  'Makes an order unpaid again whose payment was not its own: with a new time for payment, or cancelled if its time had passed before. The caller has locked the order.';

create or replace function private.settle_order_again(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  settled public.orders;
  exact uuid;
  received bigint;
begin
  select * into strict settled from public.orders as o where o.id = settle_order_again.order_id;
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

create or replace function public.take_back_payment(payment_id uuid, note text default null) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := nullif(trim(take_back_payment.note), '');
  paid_order public.orders;
  taken public.payments;
  reported public.mpesa_transactions;
  was_told boolean;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  -- The order first: then its payments and their receipts do not change.
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_payment.payment_id)
  for update;
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
  elsif exists (select from public.change_notes as c where c.payment_id = taken.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif not taken.needs_refund and private.has_left_shop(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and m.status in ('sending', 'sent', 'unsure')
  );
  perform private.record_order_event(paid_order.id, 'payment_taken_back', 'staff', jsonb_build_object(
    'payment_id', taken.id, 'charge_cents', taken.charge_cents, 'receipt', taken.receipt, 'note', reason
  ));
  -- The messages stay as received, without the payment.
  update public.payment_messages as m
  set payment_id = null, outcome = case when m.source = 'till' then 'taken_back' else 'unmatched' end
  where m.payment_id = taken.id;
  delete from public.payments as p where p.id = taken.id;
  update public.mpesa_transactions as t
  set payment_id = null, resolution = null, resolved_by = null, resolved_at = null, updated_at = now(),
      order_id = case when private.order_of_reference(t.reference) = paid_order.id then paid_order.id else t.order_id end
  where t.receipt = taken.receipt;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (taken.receipt, taken.id, paid_order.id, 'taken_back', reason, member, private.email_of(member));

  if not taken.needs_refund then
    perform set_config('private.is_typed_by_staff', 'yes', true);
    perform private.settle_order_again(paid_order.id);
    perform set_config('private.is_typed_by_staff', '', true);
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

create or replace function private.deliver_reviewed_order(order_id uuid) returns void
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

create or replace function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := nullif(trim(resolve_review.note), '');
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  elsif resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for update;
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
  order by p.charge_cents desc, p.id limit 1;
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
  constraint "change is credit, to return, or returned" check (kind in ('credit', 'to_return', 'returned')),
  constraint "change is of whole shillings" check (amount_cents >= 100 and amount_cents % 100 = 0),
  constraint "only returned change has a receipt" check (receipt is null or kind = 'returned'),
  constraint "a receipt returns change once" unique (receipt)
);

comment on table public.change_notes is
  'Change of a payment, added by note_change and resolve_review. credit, to_return: owed to the customer. returned: sent back outside the shop, with M-PESA''s receipt if there is one. Append-only.';

alter table public.change_notes enable row level security;

revoke all on public.change_notes from anon, authenticated, service_role;

grant select on public.change_notes to authenticated, service_role;

create policy "staff read every note of change" on public.change_notes for select to authenticated using ((select public.is_admin()));

create index change_notes_by_payment on public.change_notes (payment_id);

create or replace function private.change_of(payment_id uuid, out owed_cents bigint, out returned_cents bigint)
language sql stable set search_path = '' as $$
  select greatest(coalesce(sum(c.amount_cents) filter (where c.kind <> 'returned'), 0)
      - coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0), 0),
    coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0)
  from public.change_notes as c
  where c.payment_id = change_of.payment_id;
$$;

comment on function private.change_of is 'Change of a payment in cents: what is still owed, and what was sent back in part.';

create or replace function private.add_change_note(
  payment public.payments, kind text, amount_cents integer, receipt text, note text, member uuid
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
  if (kind = 'returned' and change.returned_cents + amount_cents >= change.came_cents)
    or (kind <> 'returned' and change.returned_cents + change.owed_cents + amount_cents > change.came_cents)
  then
    perform private.refuse(409, 'change_exceeds_payment', 'This is more than what is left of this payment. To send all of it back, refund it');
  end if;
  insert into public.change_notes (payment_id, kind, amount_cents, receipt, note, noted_by, noted_by_email)
  values (payment.id, kind, amount_cents, receipt, note, member, private.email_of(member))
  returning * into noted;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (
    payment.receipt, payment.id, payment.order_id, 'change_' || noted.kind,
    concat_ws(': ', format('KES %s', to_char(noted.amount_cents / 100, 'FM999,999,999')) || coalesce(', receipt ' || noted.receipt, ''), noted.note),
    member, private.email_of(member)
  );
  return noted;
end
$$;

comment on function private.add_change_note is
  'Adds a note of change. What is owed, and what went back, together never exceed the payment. The caller has locked the order and the payment.';

create or replace function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := nullif(trim(note_change.note), '');
  code text := nullif(trim(note_change.receipt), '');
  paid public.payments;
  noted public.change_notes;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  elsif note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif code is not null and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for update;
  if code is not null then
    code := private.check_refund_receipt(code);
  end if;
  select * into paid from public.payments as p where p.id = note_change.payment_id for update;
  if not found or paid.purpose <> 'order' then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  noted := private.add_change_note(paid, note_change.kind, note_change.amount_cents, code, reason, member);
  return noted;
end
$$;

comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, with M-PESA''s receipt if there is one. What is owed and what went back never exceed what came.';

create or replace function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  return null;
end
$$;

create trigger change_notes_after_insert after insert on public.change_notes
  for each row execute function private.after_change_note();

create or replace function private.before_change_note_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- A note moves with its payment, when two payments are merged.
  if tg_op = 'UPDATE' and to_jsonb(old) - 'payment_id' = to_jsonb(new) - 'payment_id' then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'Notes of change are only added to';
end
$$;

create trigger change_notes_before_change before update or delete on public.change_notes
  for each row execute function private.before_change_note_change();

create or replace function public.check_typed_receipt(order_id uuid, receipt text) returns public.typed_receipt
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

create or replace function private.should_be_reported(order_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (select from private.mpesa_registrations as r where r.kind = 'till') or case
    -- A receipt does not show its time: any since the order was placed.
    when o.created_at < now() - interval '1 hour'
      then private.statement_coverage() @> tstzrange(o.created_at, now() - interval '1 hour')
    else false
  end
  from public.orders as o where o.id = should_be_reported.order_id;
$$;

comment on function private.should_be_reported is
  'Whether M-PESA reports every payment for an order: confirmations are registered, or complete statements cover the time since it was placed.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review, public.note_change,
  public.check_typed_receipt to authenticated, service_role;

create or replace function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_paid_order.resolution = 'deliver' and decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  elsif resolve_paid_order.resolution = 'refunded' and (
    decided.payment_status = 'needs_review' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- This procedure must not bypass receipts and approval of refunds.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded', status = 'cancelled',
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_review' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  end if;
end
$$;

comment on function public.resolve_paid_order is
  'For staff: deliver an order that needs review, if its units are in stock; or mark such an order, or a cancelled one, as refunded, if the shop has no payment of it. Payments are refunded by request_refund or note_refund_by_hand.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change to authenticated, service_role;

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := upper(regexp_replace(written, '\s', '', 'g'));
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select named.id from private.orders_named(private.order_numbers_in(written)) as named (id)
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;

comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, order number or M-PESA receipt was typed completely; then only these match.';

create or replace function private.payment_event_key(order_id uuid) returns text
language sql stable set search_path = '' as $$
  select coalesce(nullif(count(*), 0)::text, '')
  from public.order_events as e where e.order_id = payment_event_key.order_id and e.kind = 'payment_taken_back';
$$;

comment on function private.payment_event_key is
  'Key of messages about an order''s payment: blank, then the number of payments that were taken back, so that the next payment is reported again.';

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  -- Staff can correct a manual payment for as long as they can undo a status change.
  due_at timestamptz := now() + case
    when current_setting('private.is_typed_by_staff', true) = 'yes' then private.undo_window() else interval '0'
  end;
begin
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', private.payment_event_key(new.id), due_at => due_at);
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id), due_at => due_at);
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_window());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      -- Only expire_reservations empties expires_at.
      if new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null then
        -- Not without a prompt: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
  end if;
end
$$;

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then o.payment_status in ('paid', 'refunded')
    when 'order_payment_held' then o.payment_status = 'needs_review'
    when 'order_payment_corrected' then o.payment_status = 'unpaid' and o.status <> 'cancelled'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

create or replace function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
return case when counted.status = 'completed' and counted.purpose = 'order' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents)::private.day_figures
end;

create or replace function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents)::private.day_figures
end;

create or replace function private.figures_of(counted public.change_notes) returns private.day_figures
language sql immutable
return case when counted.kind = 'returned' then
  (private.nairobi_day(counted.noted_at), 0, 0, -counted.amount_cents)::private.day_figures
end;

-- Rows (kept when the rest is drafted again)

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_payment_corrected', 'text', null,
    '{shop}: sorry, a payment noted for {tracking} was not yours. To pay {total}: {link}'),
  ('order_payment_corrected', 'mail', 'Your order {tracking} is not paid yet',
    E'Habari {name},\n\nWe are sorry: we noted another customer''s payment for your order {tracking} by mistake. Your order is not paid yet, and its total is {total}.\n\nYou can pay for it here:\n{link}\n\nIf you have paid, please reply or call us, and we will look for your payment.\n\n{shop}\n{shop_phone}\n{shop_email}')
) as starting (kind, channel, subject, body);
