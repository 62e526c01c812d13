-- Transactions: money that M-PESA reports without a prompt, matched to an attempt or an order, else resolved by staff.

create table public.mpesa_transactions (
  receipt text primary key,
  received_cents integer not null,
  reference text not null default '',
  payer_phone text,
  payer_name text,
  transacted_at timestamptz not null,
  reported_by_callback_at timestamptz,
  reported_by_confirmation_at timestamptz,
  reported_by_statement_at timestamptz,
  payment_id uuid references public.payments (id) on delete set null,
  attempt_id uuid references public.payments (id) on delete set null,
  order_id uuid references public.orders (id) on delete set null,
  resolution text,
  resolved_by uuid,
  resolved_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a resolution is known" check (resolution in ('given', 'not_an_order', 'refund', 'accepted')),
  constraint "money came" check (received_cents > 0),
  constraint "a receipt is in capitals, without blanks" check (receipt = upper(receipt) and receipt !~ '\s')
);
comment on table public.mpesa_transactions is
  'Money that M-PESA reported by a confirmation, by its statement, or by a callback with another amount than charged. payment_id: the payment of this money; null while unknown.';
comment on column public.mpesa_transactions.payer_phone is 'As M-PESA reports it: masked or hashed. Never matched.';
comment on column public.mpesa_transactions.attempt_id is
  'The attempt whose callback named the receipt with another amount than charged.';
comment on column public.mpesa_transactions.order_id is
  'The order that the reference names, if the amount is less than its charge: it pays nothing until staff decide.';
comment on column public.mpesa_transactions.resolution is
  'What staff decided; null before. The history is in reconciliation_events.';
alter table public.mpesa_transactions enable row level security;
grant select on public.mpesa_transactions to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (receipt) on public.mpesa_transactions to anon;
create policy "staff read every transaction" on public.mpesa_transactions
  for select to authenticated using ((select public.may('orders')));
create index mpesa_transactions_by_time on public.mpesa_transactions (transacted_at);
create index mpesa_transactions_by_payment on public.mpesa_transactions (payment_id);
create index mpesa_transactions_by_attempt on public.mpesa_transactions (attempt_id) where attempt_id is not null;
create index mpesa_transactions_by_order on public.mpesa_transactions (order_id) where order_id is not null;
create index mpesa_transactions_unassigned on public.mpesa_transactions (transacted_at)
  where payment_id is null and resolution is null;

create table private.mpesa_registrations (
  kind text primary key,
  registered_at timestamptz not null default now(),
  api_version text,
  constraint "a version of C2B is known" check (api_version in ('v1', 'v2')),
  constraint "a registration is known" check (kind in ('till', 'statement'))
);
comment on table private.mpesa_registrations is
  'Registrations that M-PESA confirmed: URLs for confirmations, and access to its statement.';
comment on column private.mpesa_registrations.api_version is
  'Version of the C2B API that the app has. Null: of the statement, or not known.';
alter table private.mpesa_registrations enable row level security;

create function private.order_numbers_in(written text) returns text[]
language sql immutable set search_path = '' as $$
  -- The patterns of domain/orders/tracking-number.ts.
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
  'The tracking numbers and order numbers that a short text names, as they are stored, the tracking numbers first. The same as readOrderNumbers in domain/orders/tracking-number.ts.';

create function private.orders_named(numbers text[]) returns setof uuid
language sql stable set search_path = '' as $$
  select o.id from public.orders as o where o.tracking_number = any (orders_named.numbers)
  union
  select o.id from public.orders as o where o.order_number = any (orders_named.numbers);
$$;
comment on function private.orders_named is 'The orders with these tracking numbers or order numbers.';

create function private.order_of_reference(reference text) returns uuid
language sql stable set search_path = '' as $$
  -- If the text names several orders, staff decide.
  select case when count(*) = 1 then min(named.id::text)::uuid end
  from private.orders_named(private.order_numbers_in(order_of_reference.reference)) as named (id);
$$;
comment on function private.order_of_reference is
  'The order that a payer''s reference names, by its tracking number or its order number in any spelling. Null for none or several.';

create function private.link_transaction() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.mpesa_transactions as t
  set payment_id = new.id, updated_at = now()
  where t.receipt = new.receipt and t.payment_id is distinct from new.id;
  return null;
end
$$;

create function private.is_being_refunded(payment_id uuid, receipt text default null) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.refunds as r
    where (r.payment_id = is_being_refunded.payment_id or r.receipt = is_being_refunded.receipt)
      and not private.is_dropped_refund(r.status)
  );
end
$$;
comment on function private.is_being_refunded is
  'Whether a refund of this payment, or of the money with this receipt, is requested or done. Then its receipt is not moved.';

create function private.withdraw_unsent_transaction_refunds(receipt text) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
  where r.receipt = withdraw_unsent_transaction_refunds.receipt and r.transaction_receipt is not null
    and private.is_unsent_refund(r.status) and r.tries = 0;
  return not private.is_being_refunded(null, withdraw_unsent_transaction_refunds.receipt);
end
$$;
comment on function private.withdraw_unsent_transaction_refunds is
  'Withdraws refunds of unassigned money that were not sent to M-PESA. Returns whether the money can pay an order: not if it was, or may be, refunded. The caller has locked the receipt.';

create function private.correct_message_outcomes(payment_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  money public.payments;
  completing_message bigint;
begin
  select * into strict money from public.payments as p where p.id = correct_message_outcomes.payment_id;
  select m.id into completing_message
  from public.payment_messages as m
  where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_review', 'paid_twice', 'goes_back')
  order by m.outcome = 'paid_twice', m.id
  limit 1;
  if money.status <> 'completed' then
    update public.payment_messages as m set outcome = 'presumed'
    where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_review', 'paid_twice', 'goes_back');
  elsif completing_message is null then
    update public.payment_messages as m
    set outcome = case when money.needs_refund then 'paid_twice' else 'paid' end
    where m.id = (
      select min(later.id) from public.payment_messages as later
      where later.payment_id = money.id and later.receipt = money.receipt and later.outcome is not null
    );
  else
    update public.payment_messages as m set outcome = 'confirmed_by_hand'
    where m.payment_id = money.id and m.id <> completing_message and m.outcome in ('paid', 'paid_needs_review', 'paid_twice', 'goes_back');
  end if;
end
$$;
comment on function private.correct_message_outcomes is
  'Ensures that exactly one message of a completed payment has the outcome that completed it.';

create function private.separate_receipt(payment_id uuid, failed boolean default false) returns uuid
language plpgsql set search_path = '' as $$
declare
  attempt public.payments;
  own_id uuid;
  confirmed_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = separate_receipt.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into confirmed_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null, confirmed_by = case when confirmed_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when separate_receipt.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and private.is_open_attempt(other.status)
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not separate_receipt.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end, presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  own_id := (private.add_till_payment(attempt.order_id, attempt.charge_cents, confirmed_by_staff)).id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = attempt.receipt,
      -- An attempt that stays completed still pays the order.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at, updated_at = now()
  where p.id = own_id;
  -- What is owed of the money moves with it.
  if attempt.presumption = 'attempt' then
    update public.change_notes as c set payment_id = own_id where c.payment_id = attempt.id;
  end if;
  perform private.correct_message_outcomes(attempt.id);
  perform private.correct_message_outcomes(own_id);
  return own_id;
end
$$;
comment on function private.separate_receipt is
  'Makes a wrongly presumed receipt a separate payment; the attempt becomes what it was before, or failed. The caller has locked the order. Returns the id of the separate payment.';

create function private.merge_payments(own_id uuid, attempt_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = merge_payments.own_id;
  select * into strict attempt from public.payments as p where p.id = merge_payments.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  update public.change_notes as c set payment_id = attempt.id where c.payment_id = by_hand.id;
  -- Refunds of its present receipt move with that (move_refund_with_receipt). Staff may have corrected the receipt since.
  update public.refunds as r set payment_id = attempt.id
  where r.payment_id = by_hand.id and r.receipt is distinct from by_hand.receipt and private.is_dropped_refund(r.status);
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

create function private.attempt_for(order_id uuid, receipt text, received_cents integer, transacted_at timestamptz) returns uuid
language sql stable set search_path = '' as $$
  select p.id
  from public.payments as p
  where p.order_id = attempt_for.order_id
    and p.method = 'prompt'
    and p.receipt is null
    and p.charge_cents = attempt_for.received_cents
    and p.status in ('initiating', 'processing', 'unresolved', 'review', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at < attempt_for.transacted_at + interval '15 minutes'
    -- An attempt whose callback named a receipt matches only that receipt.
    and not exists (
      select from public.mpesa_transactions as t where t.attempt_id = p.id and t.receipt <> attempt_for.receipt
    )
    -- A manual refund from before the receipt was known belongs to this money.
    and (p.status = 'completed' or not private.is_being_refunded(p.id))
  order by p.status = 'completed' desc, p.created_at desc, p.id
  limit 1;
$$;
comment on function private.attempt_for is
  'The attempt of an order that money under its reference completes: same amount, no receipt yet.';

create function private.orders_missing_receipt(receipt text) returns setof uuid
language sql stable set search_path = '' as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  cross join lateral (
    select p.order_id, p.status, p.purpose from public.payments as p
    where p.charge_cents = t.received_cents and p.method = 'prompt' and p.receipt is null
      -- M-PESA's clock may differ by minutes.
      and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
    offset 0
  ) as p
  where t.receipt = orders_missing_receipt.receipt and t.payment_id is null and p.purpose = 'order'
    and p.status in ('initiating', 'processing', 'unresolved', 'completed');
$$;
comment on function private.orders_missing_receipt is
  'Orders that unassigned money may belong to: they have a prompt of the same amount and time without a receipt.';

create function private.match_receipts(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  own record;
  attempt public.payments;
begin
  -- A separate payment with M-PESA's receipt and an attempt without one are presumed to be the same money.
  for own in
    select p.id, p.receipt, p.charge_cents, t.transacted_at
    from public.payments as p
    join public.mpesa_transactions as t on t.receipt = p.receipt
    where p.order_id = match_receipts.order_id and p.method = 'till' and p.status = 'completed'
      and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
      and not private.is_being_refunded(p.id)
    order by p.needs_refund, t.transacted_at, p.receipt
  loop
    select a.* into attempt from public.payments as a
    where a.id = private.attempt_for(match_receipts.order_id, own.receipt, own.charge_cents, own.transacted_at);
    continue when attempt.id is null;
    perform private.merge_payments(own.id, attempt.id);
    update public.payments as p
    set presumption = case when attempt.status = 'completed' then 'receipt' else 'attempt' end
    where p.id = attempt.id;
  end loop;
end
$$;
comment on function private.match_receipts is
  'Matches receipts reported by M-PESA with attempts of the same order that lack one, one to one. The caller has locked the order.';

create function private.store_message_outcome(
  message_id bigint, source text, body text, payment_id uuid, receipt text, outcome text
) returns void
language plpgsql set search_path = '' as $$
begin
  if message_id is null then
    insert into public.payment_messages (payment_id, source, body, receipt, outcome)
    values (payment_id, source, body, receipt, outcome);
  else
    update public.payment_messages as m
    set payment_id = coalesce(store_message_outcome.payment_id, m.payment_id),
        receipt = coalesce(store_message_outcome.receipt, m.receipt), outcome = store_message_outcome.outcome
    where m.id = store_message_outcome.message_id;
  end if;
end
$$;
comment on function private.store_message_outcome is 'Stores the outcome of a message, which may be stored already (message_id).';

create function private.store_transaction(
  source text, receipt text, received_cents integer, reference text, transacted_at timestamptz, payer_phone text, payer_name text
) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  is_confirmation constant boolean := store_transaction.source = 'confirmation';
  stored public.mpesa_transactions;
begin
  insert into public.mpesa_transactions as t (
    receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_confirmation_at, reported_by_statement_at,
    payment_id
  ) values (
    store_transaction.receipt, store_transaction.received_cents, coalesce(trim(store_transaction.reference), ''),
    nullif(trim(store_transaction.payer_phone), ''), nullif(trim(store_transaction.payer_name), ''), store_transaction.transacted_at,
    case when is_confirmation then now() end, case when not is_confirmation then now() end,
    (select p.id from public.payments as p where p.receipt = store_transaction.receipt)
  )
  on conflict (receipt) do update set
    -- A statement overrides a confirmation, which overrides a callback, because callbacks can be forged.
    received_cents = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.received_cents
      else excluded.received_cents
    end,
    transacted_at = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.transacted_at
      else excluded.transacted_at
    end,
    reference = case
      when t.reference <> '' and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.reference
      else excluded.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    reported_by_confirmation_at = coalesce(t.reported_by_confirmation_at, excluded.reported_by_confirmation_at),
    reported_by_statement_at = coalesce(t.reported_by_statement_at, excluded.reported_by_statement_at),
    updated_at = now()
  returning * into stored;
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.receipt = stored.receipt and m.problem = 'unreadable' and m.resolution is null;
  return stored;
end
$$;
comment on function private.store_transaction is
  'Stores what a confirmation or the statement reports about a receipt, each receipt once. The caller has locked the receipt.';

create function private.add_receipt_to_test(reported public.mpesa_transactions) returns void
language sql set search_path = '' as $$
  with lacking as (
    select p.id from public.payments as p
    where upper(trim(reported.reference)) = 'TEST' and reported.payment_id is null
      and p.purpose = 'test' and p.status = 'completed' and p.receipt is null and p.charge_cents = reported.received_cents
      and p.created_at between reported.transacted_at - interval '15 minutes' and reported.transacted_at + interval '15 minutes'
  )
  update public.payments as p set receipt = reported.receipt, updated_at = now()
  from lacking where p.id = lacking.id and (select count(*) from lacking) = 1;
$$;
comment on function private.add_receipt_to_test is 'Adds the receipt to the only KSh 1 test of that time that a query completed without one.';

create function private.apply_reported_amount(known public.payments, reported public.mpesa_transactions) returns void
language plpgsql set search_path = '' as $$
declare
  of_order public.orders;
  pays_exactly boolean;
  -- The payment with the reported amount.
  money public.payments;
  is_being_refunded constant boolean := private.is_being_refunded(known.id);
begin
  if known.method <> 'till' or known.charge_cents = reported.received_cents then
    return;
  end if;
  perform private.limit_owed(known.id, 'M-PESA reported less than was entered', leaves_charge => true)
  where known.charge_cents > reported.received_cents;
  if is_being_refunded then
    return;
  end if;
  select * into of_order from public.orders as o where o.id = known.order_id;
  if private.is_whole_shillings(reported.received_cents) and (known.needs_refund or of_order.payment_status = 'needs_review') then
    -- Nothing was decided by the typed amount.
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    if not known.needs_refund and private.counted_for_order(of_order.id) = of_order.charge_cents then
      perform private.mark_order_paid(of_order.id);
    end if;
    return;
  end if;
  -- Staff accepted another amount, and the charge came.
  money := known;
  money.charge_cents := reported.received_cents;
  pays_exactly := of_order.payment_status = 'paid' and not known.needs_refund
    and of_order.charge_cents = public.counted_cents(money)
      + coalesce(private.counted_for_order(of_order.id, except_payment => known.id), 0);
  if pays_exactly then
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
  elsif reported.received_cents < known.charge_cents and not known.needs_refund then
    if private.put_order_under_review(of_order.id) and private.is_whole_shillings(reported.received_cents) then
      update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    end if;
  end if;
end
$$;
comment on function private.apply_reported_amount is
  'Replaces the amount that staff typed for a receipt by the one that M-PESA reports, and updates the order: what did not come is not owed, and what paid another order does not count for its own. The caller has locked the order, and the credit of the receipt.';

create function public.receive_mpesa_transaction(
  source text, receipt text, received_cents integer, reference text default '', transacted_at timestamptz default null,
  payer_phone text default null, payer_name text default null, body text default '', message_id bigint default null,
  kind text default 'payment', unreadable text[] default '{}', reversed_receipt text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := private.normalised_receipt(receipt);
  unknown text[] := coalesce(unreadable, '{}')
    || case when private.normalised_receipt(receipt) is null then array['receipt'] else '{}' end
    || case when coalesce(received_cents, 0) <= 0 then array['amount'] else '{}' end;
  moment timestamptz := coalesce(transacted_at, now());
  for_order uuid;
  reported public.mpesa_transactions;
  known public.payments;
  settled public.settled_payment;
  outcome text;
  is_part boolean;
begin
  if source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is reported by a confirmation or the statement');
  elsif kind = 'outgoing' then
    perform private.store_message_outcome(message_id, source, body, null, null, 'outgoing') where message_id is not null;
    return ('outgoing', null)::public.settled_payment;
  elsif kind = 'reversal' then
    outcome := private.receive_reversal(source, code, received_cents, reference, moment, body, reversed_receipt);
    perform private.store_message_outcome(message_id, source, body, null, null, outcome) where message_id is not null;
    return (outcome, null)::public.settled_payment;
  elsif kind <> 'payment' or unknown && array['receipt', 'amount'] or (source = 'statement' and unknown && array['time']) then
    outcome := private.add_message_to_check(
      source, case when kind = 'payment' then 'unreadable' else 'unknown_kind' end, body, unknown, code, received_cents, transacted_at,
      reference
    );
    perform private.store_message_outcome(message_id, source, body, null, null, 'unreadable') where message_id is not null or outcome = 'new';
    outcome := case outcome when 'checked' then 'checked' else 'unreadable' end;
    return (outcome, null)::public.settled_payment;
  end if;

  -- The order must be locked first, but is known only after reading. If it changed before the lock, read again.
  loop
    for_order := private.order_of_transaction(code, reference);
    begin
      -- Leaving this block releases the lock, so that no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for no key update;
      perform private.lock_credit_of_receipt(code);
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_transaction(code, reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  reported := private.store_transaction(source, code, received_cents, reference, moment, payer_phone, payer_name);
  -- A confirmation arrives within moments, so its money counts by the time of arrival until the statement names the time.
  if unknown && array['time'] and reported.reported_by_statement_at is null then
    perform private.add_message_to_check(source, 'unreadable', body, unknown, code, received_cents, null, reference);
  end if;
  perform private.add_receipt_to_test(reported);
  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    perform private.store_message_outcome(message_id, source, body, known.id, code, outcome);
    perform private.apply_reported_amount(known, reported);
    perform private.match_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return (outcome, known)::public.settled_payment;
  end if;

  -- Anyone can type an order's number. Less than its charge never pays it: staff decide.
  is_part := reported.received_cents < (select o.charge_cents from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or reported.resolution is not null or private.was_reversed(code)
    or not private.is_whole_shillings(reported.received_cents)
  then
    outcome := 'unmatched';
    perform private.store_message_outcome(message_id, source, body, null, code, outcome);
    return (outcome, null)::public.settled_payment;
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, reported.received_cents, reported.transacted_at);
  if known.id is null then
    known := private.add_till_payment(for_order, reported.received_cents);
  end if;
  settled := public.settle_payment(
    payment_id => known.id, source => source, body => body,
    result => 'succeeded', result_code => '0', received_cents => reported.received_cents, receipt => code
  );
  -- The settlement stored the message again, with its payment.
  if message_id is not null then
    update public.payment_messages as m
    set source_address = stored.source_address, received_at = stored.received_at
    from public.payment_messages as stored
    where stored.id = receive_mpesa_transaction.message_id and m.id = (select max(later.id) from public.payment_messages as later
      where later.payment_id = (settled.payment).id and later.receipt = code and later.source = 'confirmation');
    delete from public.payment_messages as m where m.id = receive_mpesa_transaction.message_id;
  end if;
  return settled;
end
$$;
comment on function public.receive_mpesa_transaction is
  'Stores money that M-PESA reports by a confirmation or its statement, each receipt once. It belongs to the payment with this receipt, else to the order that its reference names: it completes an attempt of the same amount without a receipt, becomes a separate payment, or, if less than the charge, waits for staff. All other money stays unmatched for staff. Idempotent, in any order with other messages. kind: payment, reversal (of reversed_receipt, if it is named), outgoing (ignored) or unknown. unreadable: what the message has but cannot be read (receipt, amount, time). What cannot be read, and unknown kinds, wait in messages_to_check: the outcome is unreadable, or checked once staff have resolved it.';

create function private.order_of_transaction(receipt text, reference text) returns uuid
language sql stable set search_path = '' as $$
  select coalesce(
    (select p.order_id from public.payments as p where p.receipt = order_of_transaction.receipt),
    private.order_of_reference(order_of_transaction.reference),
    (select private.order_of_reference(t.reference) from public.mpesa_transactions as t where t.receipt = order_of_transaction.receipt)
  );
$$;
comment on function private.order_of_transaction is
  'The order of the payment with this receipt, else of this reference, else of the reference reported earlier.';

create function public.receipts_not_in_statement(receipts text[]) returns text[]
language sql stable security definer set search_path = '' as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_not_in_statement.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = private.normalised_receipt(given.receipt) and t.reported_by_statement_at is not null
  );
$$;
comment on function public.receipts_not_in_statement is 'Those of the receipts that no statement has listed.';

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.receipts_not_in_statement to service_role;
