-- Money that M-PESA tells of without a prompt: each receipt once, joined to its attempt or its order, else kept for staff.

create table public.mpesa_transactions (
  receipt text primary key,
  amount integer not null,
  reference text not null default '',
  payer_phone text,
  payer_name text,
  transacted_at timestamptz not null,
  heard_by_notice_at timestamptz,
  heard_by_confirmation_at timestamptz,
  heard_by_statement_at timestamptz,
  payment_id uuid references public.payments (id) on delete set null,
  attempt_id uuid references public.payments (id) on delete set null,
  order_id uuid references public.orders (id) on delete set null,
  resolution text,
  resolved_by uuid,
  resolved_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a resolution is known" check (resolution in ('given', 'not_an_order', 'refund', 'accepted')),
  constraint "money came" check (amount > 0)
);
comment on table public.mpesa_transactions is
  'What M-PESA told of money by a confirmation, by its statement, or by a notice that could not be believed. amount in cents. payment_id: the payment this money is; null while nobody knows what it was for.';
comment on column public.mpesa_transactions.payer_phone is 'As M-PESA tells it: masked, or a hash. Never matched.';
comment on column public.mpesa_transactions.attempt_id is 'The attempt whose notice named the receipt with an amount that was not charged.';
comment on column public.mpesa_transactions.order_id is
  'The order that its reference names, where it is less than the charge: it pays nothing until staff decide.';
comment on column public.mpesa_transactions.resolution is 'What staff decided; null while nobody has. The history is in reconciliation_events.';
alter table public.mpesa_transactions enable row level security;
create index mpesa_transactions_by_time on public.mpesa_transactions (transacted_at);
create index mpesa_transactions_by_payment on public.mpesa_transactions (payment_id);
create index mpesa_transactions_by_attempt on public.mpesa_transactions (attempt_id) where attempt_id is not null;
create index mpesa_transactions_by_order on public.mpesa_transactions (order_id) where order_id is not null;
create index mpesa_transactions_nobody_knows on public.mpesa_transactions (transacted_at)
  where payment_id is null and resolution is null;
create policy "staff read every transaction" on public.mpesa_transactions
  for select to authenticated using ((select public.is_admin()));
grant select on public.mpesa_transactions to authenticated;
-- The live service tells a role that may not read a table's key that something happened.
grant select (receipt) on public.mpesa_transactions to anon;

do $$
begin
  if exists (select from pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.mpesa_transactions;
  end if;
end
$$;

alter table public.payments
  add column presumption text,
  add constraint "a presumption is known" check (presumption in ('attempt', 'receipt'));
comment on column public.payments.presumption is
  'What follows only from money that came for the order under its reference. attempt: that this prompt was paid at all; receipt: that this receipt is the prompt''s. Null where M-PESA or staff said so themselves.';
comment on column public.payments.method is
  'prompt: M-PESA asked the phone for amount. till: the money came without a prompt of ours, or beyond one; staff or M-PESA itself told of it; amount is what came, and the phone is not known ('''').';
comment on column public.payments.confirmed_by is
  'The member of staff who confirmed the money by its receipt, or gave it to the order. Null where M-PESA told of it.';
create index payments_without_receipt on public.payments (amount, created_at) where receipt is null and method = 'prompt';
create index payments_by_completion on public.payments (completed_at) where status = 'completed';

alter table public.payment_messages
  add column receipt text,
  drop constraint "a message has a known source",
  add constraint "a message has a known source"
    check (source in ('push', 'notice', 'query', 'till', 'confirmation', 'statement'));
comment on column public.payment_messages.receipt is 'The money it speaks of. A message follows its receipt when that turns out to be another payment''s.';
create index payment_messages_not_taken_up on public.payment_messages (id) where source = 'confirmation' and outcome is null;
create index payment_messages_at_fault on public.payment_messages (id) where outcome = 'fault';

-- References ---------------------------------------------------------------------------------------------------------

create function private.order_of_reference(reference text) returns uuid
language sql stable
set search_path = ''
as $$
  -- JJ-20261121-1234, JJ2611211234 and, for numbers of a busy day, 26112112345: case, spaces and signs do not matter.
  with written as (
    select regexp_replace(regexp_replace(upper(order_of_reference.reference), '[^A-Z0-9]', '', 'g'), '^JJ', '') as digits
  ),
  readings as (
    select 'JJ-' || left(digits, 8) || '-' || substr(digits, 9) as number from written where digits ~ '^20\d{10,12}$'
    union
    select 'JJ-20' || left(digits, 6) || '-' || substr(digits, 7) from written where digits ~ '^\d{10,12}$'
  ),
  found as (
    select o.id from public.orders as o where o.tracking_number in (select r.number from readings as r)
  )
  -- What can be read in two ways that both exist is for a person.
  select f.id from found as f where (select count(*) from found) = 1;
$$;
comment on function private.order_of_reference(text) is
  'The order that a payer''s reference names, in either spelling of its tracking number. Null for none, or for more than one.';

-- A payment and its receipt ------------------------------------------------------------------------------------------

create function private.link_transaction() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  update public.mpesa_transactions as t
  set payment_id = new.id, updated_at = now()
  where t.receipt = new.receipt and t.payment_id is distinct from new.id;
  return null;
end
$$;
create trigger payments_claim_their_transaction after insert or update of receipt on public.payments
  for each row when (new.receipt is not null) execute function private.link_transaction();

create function private.is_being_refunded(payment_id uuid) returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  answer boolean := false;
begin
  if to_regclass('public.refunds') is not null then
    execute 'select exists (select from public.refunds as r
      where r.payment_id = $1 and r.status not in (''withdrawn'', ''failed''))' into answer using is_being_refunded.payment_id;
  end if;
  return answer;
end
$$;
comment on function private.is_being_refunded(uuid) is 'Whether somebody has asked for this very money to be sent back: then its receipt stays where it is.';

create function private.take_back_refunds(receipt text) returns boolean
language plpgsql
set search_path = ''
as $$
begin
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
  where r.receipt = take_back_refunds.receipt and r.transaction_receipt is not null
    and r.status in ('requested', 'approved') and r.tries = 0;
  return not exists (
    select from public.refunds as r
    where r.receipt = take_back_refunds.receipt and r.status not in ('withdrawn', 'failed')
  );
end
$$;
comment on function private.take_back_refunds(text) is
  'Withdraws refunds of money that nobody knew, as far as M-PESA was not asked for them yet, and tells whether the money can pay an order now: not when it went back, or may be on its way. The receipt must be locked.';

create function private.tidy_outcomes(payment_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  money public.payments;
  first_word bigint;
begin
  select * into strict money from public.payments as p where p.id = tidy_outcomes.payment_id;
  -- Messages came together or parted with their receipts: one of them is the one that completed the payment.
  select m.id into first_word
  from public.payment_messages as m
  where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_decision', 'paid_twice', 'goes_back')
  order by m.outcome = 'paid_twice', m.id
  limit 1;
  if money.status <> 'completed' then
    update public.payment_messages as m set outcome = 'presumed'
    where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_decision', 'paid_twice', 'goes_back');
  elsif first_word is null then
    update public.payment_messages as m
    set outcome = case when money.needs_refund then 'paid_twice' else 'paid' end
    where m.id = (
      select min(said.id) from public.payment_messages as said
      where said.payment_id = money.id and said.receipt = money.receipt and said.outcome is not null
    );
  else
    update public.payment_messages as m set outcome = 'confirmed_by_hand'
    where m.payment_id = money.id and m.id <> first_word and m.outcome in ('paid', 'paid_needs_decision', 'paid_twice', 'goes_back');
  end if;
end
$$;
comment on function private.tidy_outcomes(uuid) is 'Leaves a completed payment exactly one message that completed it.';

create function private.take_receipt_away(payment_id uuid, failed boolean default false) returns uuid
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt public.payments;
  own_id uuid;
  told_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = take_receipt_away.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into told_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null,
      confirmed_by = case when told_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when take_receipt_away.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and other.status in ('initiating', 'processing')
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not take_receipt_away.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end,
      presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
  values (attempt.order_id, '', attempt.amount, 'unresolved', 'till', told_by_staff)
  returning id into own_id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed',
      result_code = '0',
      receipt = attempt.receipt,
      -- An attempt that stays completed stays what the order was paid with.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at,
      updated_at = now()
  where p.id = own_id;
  perform private.tidy_outcomes(attempt.id);
  perform private.tidy_outcomes(own_id);
  return own_id;
end
$$;
comment on function private.take_receipt_away(uuid, boolean) is
  'A presumption was wrong: the receipt becomes a payment of its own, and the attempt what it was before, or failed. The order must be locked. Returns the payment the receipt is now.';

create function private.absorb(own_id uuid, attempt_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = absorb.own_id;
  select * into strict attempt from public.payments as p where p.id = absorb.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  delete from public.payments as p where p.id = by_hand.id;
  update public.payments as p
  set status = 'completed',
      result_code = '0',
      receipt = by_hand.receipt,
      confirmed_by = coalesce(by_hand.confirmed_by, p.confirmed_by),
      needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
      next_query_at = null,
      completed_at = least(attempt.completed_at, by_hand.completed_at),
      updated_at = now()
  where p.id = attempt.id;
  perform private.tidy_outcomes(attempt.id);
end
$$;
comment on function private.absorb(uuid, uuid) is
  'Money told of by its receipt, and an attempt, are the same: one payment, and the attempt is the one that stays. The order must be locked.';

create function private.attempt_for(order_id uuid, receipt text, amount integer, transacted_at timestamptz) returns uuid
language sql stable
set search_path = ''
as $$
  select p.id
  from public.payments as p
  where p.order_id = attempt_for.order_id
    and p.method = 'prompt'
    and p.receipt is null
    and p.amount = attempt_for.amount
    and p.status in ('initiating', 'processing', 'unresolved', 'review', 'completed')
    -- M-PESA's clock is not ours: minutes apart are seen.
    and p.created_at < attempt_for.transacted_at + interval '15 minutes'
    -- An attempt whose notice named a receipt waits for that one.
    and not exists (
      select from public.mpesa_transactions as t where t.attempt_id = p.id and t.receipt <> attempt_for.receipt
    )
    -- What staff have sent back by hand before its receipt was known is still that money.
    and (p.status = 'completed' or not private.is_being_refunded(p.id))
  order by p.status = 'completed' desc, p.created_at desc, p.id
  limit 1;
$$;
comment on function private.attempt_for(uuid, text, integer, timestamptz) is
  'The attempt of an order that money under its reference completes: it has no receipt yet, and was for the same amount.';

create function private.orders_of_lost_receipts(receipt text) returns setof uuid
language sql stable
set search_path = ''
as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  join public.payments as p on p.amount = t.amount and p.method = 'prompt' and p.receipt is null
    and p.status in ('initiating', 'processing', 'unresolved', 'completed')
    -- M-PESA's clock is not ours: minutes apart are seen.
    and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
  where t.receipt = orders_of_lost_receipts.receipt and t.payment_id is null;
$$;
comment on function private.orders_of_lost_receipts(text) is
  'The orders whose prompts lack a receipt and were for the same amount at the time of money that nobody knows: it may be theirs.';

create function private.join_receipts(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  own record;
  attempt public.payments;
begin
  -- Money that stands for itself and that M-PESA told of, and an attempt that lacks a receipt, are the same until
  -- something says otherwise.
  for own in
    select p.id, p.receipt, p.amount, t.transacted_at
    from public.payments as p
    join public.mpesa_transactions as t on t.receipt = p.receipt
    where p.order_id = join_receipts.order_id and p.method = 'till' and p.status = 'completed'
      and (t.heard_by_confirmation_at is not null or t.heard_by_statement_at is not null)
      and not private.is_being_refunded(p.id)
    order by p.needs_refund, t.transacted_at, p.receipt
  loop
    select a.* into attempt from public.payments as a
    where a.id = private.attempt_for(join_receipts.order_id, own.receipt, own.amount, own.transacted_at);
    continue when attempt.id is null;
    perform private.absorb(own.id, attempt.id);
    update public.payments as p
    set presumption = case when attempt.status = 'completed' then 'receipt' else 'attempt' end
    where p.id = attempt.id;
  end loop;
end
$$;
comment on function private.join_receipts(uuid) is
  'Joins receipts that M-PESA told of to attempts of the same order that were paid or may be, one to one. The order must be locked.';

-- The one settlement -------------------------------------------------------------------------------------------------

create or replace function public.settle_payment(
  payment_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  amount integer default null,
  receipt text default null,
  merchant_request_id text default null,
  checkout_request_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  message_id bigint;
  attempt public.payments;
  paid_order public.orders;
  other public.payments;
  own_id uuid;
  outcome text;
  is_first_money boolean;
  is_free boolean;
  charge integer;
  part integer;
  -- Money told of by its receipt alone: it is this attempt's only by presumption.
  is_by_reference boolean := settle_payment.source in ('confirmation', 'statement');
begin
  if settle_payment.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Always the order first, then its payment, and both before the message is kept, whose reference would hold a weaker
  -- lock that two at once cannot raise.
  select o.* into paid_order
  from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (
    settle_payment.payment_id, settle_payment.source, settle_payment.source_address, settle_payment.body, settle_payment.receipt
  )
  returning id into message_id;

  -- A receipt or request id told of two attempts at once is looked at by one settlement after the other.
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[settle_payment.receipt, settle_payment.checkout_request_id]) as known (id)
  where known.id is not null;

  if settle_payment.receipt is not null then
    select * into other from public.payments as p where p.receipt = settle_payment.receipt and p.id <> attempt.id;
  end if;

  if settle_payment.checkout_request_id <> attempt.checkout_request_id or exists (
    select from public.payments as p
    where p.checkout_request_id = settle_payment.checkout_request_id and p.id <> attempt.id
  ) then
    outcome := 'other_request';
  elsif settle_payment.verdict = 'pending' then
    outcome := 'pending';
  elsif settle_payment.verdict = 'failed' then
    if attempt.status = 'completed' and attempt.presumption = 'attempt' and not private.is_being_refunded(attempt.id) then
      -- The money that came for the order was not this prompt's.
      perform private.take_receipt_away(attempt.id, failed => true);
      outcome := 'failed';
    elsif attempt.status in ('initiating', 'processing', 'unresolved') then
      outcome := 'failed';
    else
      outcome := 'superseded';
    end if;
    if outcome = 'failed' then
      update public.payments as p
      set status = 'failed',
          result_code = settle_payment.result_code,
          result_description = settle_payment.result_description,
          merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
          checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
          next_query_at = null,
          updated_at = now()
      where p.id = attempt.id
      returning * into attempt;
    end if;
  elsif settle_payment.amount <> attempt.amount or (settle_payment.amount is null and settle_payment.source = 'notice') then
    if attempt.status = 'completed' then
      outcome := 'superseded';
    else
      outcome := 'wrong_amount';
      update public.payments as p
      set status = 'review',
          result_code = settle_payment.result_code,
          result_description = format('M-PESA reported %s cents, %s were charged', coalesce(settle_payment.amount::text, 'no'), p.amount),
          merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
          checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
          next_query_at = null,
          updated_at = now()
      where p.id = attempt.id
      returning * into attempt;
    end if;
    -- Money under a receipt that no payment has is kept for staff.
    if settle_payment.receipt is not null and settle_payment.receipt is distinct from attempt.receipt
      and other.id is null and settle_payment.amount > 0
    then
      insert into public.mpesa_transactions as t (receipt, amount, reference, transacted_at, heard_by_notice_at, attempt_id)
      values (settle_payment.receipt, settle_payment.amount, paid_order.tracking_number, now(), now(), attempt.id)
      on conflict (receipt) do update set
        attempt_id = coalesce(t.attempt_id, excluded.attempt_id),
        heard_by_notice_at = coalesce(t.heard_by_notice_at, excluded.heard_by_notice_at),
        updated_at = now();
    end if;
  elsif attempt.status = 'review' and settle_payment.amount is null then
    -- A query names no amount: it cannot clear an attempt whose notice named a wrong one.
    outcome := 'needs_review';
  elsif other.id is not null and (other.order_id <> attempt.order_id or (other.method = 'prompt' and other.presumption is null)) then
    outcome := 'receipt_replayed';
  elsif exists (select from public.payment_tests as t where t.receipt = settle_payment.receipt) then
    -- A member's own shilling is no order's.
    outcome := 'receipt_replayed';
  elsif private.is_being_refunded(other.id) and (other.method = 'prompt' or private.is_being_refunded(attempt.id)) then
    -- It is in the books already, and what is being sent back keeps its place.
    outcome := 'already_completed';
  end if;

  if outcome is null and settle_payment.receipt <> attempt.receipt and attempt.presumption is not null
    and not is_by_reference and not private.is_being_refunded(attempt.id)
  then
    -- What it was presumed to have brought was other money.
    perform private.take_receipt_away(attempt.id);
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;

  if outcome is not null then
    null;
  elsif other.id is not null and attempt.status = 'completed' and attempt.receipt is not null then
    -- Both have their receipts already.
    outcome := 'already_completed';
  elsif other.id is not null then
    -- This attempt's receipt is known, as money of its own or as what another attempt was presumed to have brought.
    outcome := 'confirmed_by_hand';
    if other.method = 'prompt' then
      own_id := private.take_receipt_away(other.id);
    else
      own_id := other.id;
    end if;
    perform private.absorb(own_id, attempt.id);
    update public.payments as p
    set result_code = settle_payment.result_code,
        result_description = settle_payment.result_description,
        presumption = null,
        merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
        checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
        updated_at = now()
    where p.id = attempt.id;
    if other.amount <> attempt.amount and not other.needs_refund and paid_order.payment_status = 'needs_decision' then
      -- Staff had typed another amount, which was all there was to decide.
      perform private.mark_order_paid(attempt.order_id);
    end if;
    perform private.join_receipts(attempt.order_id);
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  elsif attempt.status = 'completed' and settle_payment.receipt <> attempt.receipt then
    -- A second success under another receipt: money of its own.
    outcome := 'paid_twice';
    insert into public.payments (order_id, phone, amount, status, method)
    values (attempt.order_id, '', settle_payment.amount, 'unresolved', 'till')
    returning id into own_id;
    update public.payments as p
    set status = 'completed',
        result_code = settle_payment.result_code,
        result_description = settle_payment.result_description,
        receipt = settle_payment.receipt,
        needs_refund = true,
        completed_at = now(),
        updated_at = now()
    where p.id = own_id
    returning * into attempt;
    update public.payment_messages as m set payment_id = own_id where m.id = message_id;
  elsif attempt.status = 'completed' then
    outcome := 'already_completed';
    update public.payments as p
    set receipt = coalesce(p.receipt, settle_payment.receipt),
        merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
        checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
        result_code = case when p.presumption = 'attempt' and not is_by_reference then settle_payment.result_code else p.result_code end,
        presumption = case
          when is_by_reference and p.receipt is null and p.method = 'prompt' then 'receipt'
          when is_by_reference or p.presumption is null then p.presumption
          when settle_payment.receipt is null then 'receipt'
        end,
        updated_at = now()
    where p.id = attempt.id
    returning * into attempt;
  else
    charge := (paid_order.total_amount + 99) / 100 * 100;
    -- What is on its way back to its payer, or has gone, pays nothing.
    is_free := settle_payment.receipt is null or private.take_back_refunds(settle_payment.receipt);
    is_first_money := is_free and paid_order.payment_status = 'unpaid';
    if is_free and paid_order.payment_status = 'needs_decision' and not exists (
      select from public.payments as p
      where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund and p.amount = charge
    ) then
      if attempt.amount = charge then
        -- The whole charge settles what a part, or too much, had left to decide: that is sent back.
        is_first_money := true;
        update public.payments as p
        set needs_refund = true, updated_at = now()
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
        perform private.tidy_outcomes(p.id) from public.payments as p
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed';
      elsif settle_payment.source = 'till' then
        -- Parts that staff give to one order pay it once they add up to its charge.
        select sum(p.amount) + attempt.amount into part
        from public.payments as p
        where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
        having not bool_or(private.is_being_refunded(p.id));
        is_first_money := part = charge;
      end if;
    end if;
    update public.payments as p
    set status = 'completed',
        result_code = settle_payment.result_code,
        result_description = settle_payment.result_description,
        receipt = coalesce(p.receipt, settle_payment.receipt),
        presumption = case when is_by_reference and p.method = 'prompt' then 'attempt' end,
        merchant_request_id = coalesce(p.merchant_request_id, settle_payment.merchant_request_id),
        checkout_request_id = coalesce(p.checkout_request_id, settle_payment.checkout_request_id),
        needs_refund = not is_first_money and coalesce(part, charge) >= charge,
        next_query_at = null,
        completed_at = now(),
        updated_at = now()
    where p.id = attempt.id
    returning * into attempt;
    outcome := case
      when is_first_money then private.mark_order_paid(paid_order.id)
      when not is_free then 'goes_back'
      when attempt.needs_refund then 'paid_twice'
      else 'paid_needs_decision'
    end;
    if outcome = 'paid_twice' and attempt.method = 'till' then
      -- Only money with a receipt can be sent back, and this may well be the receipt of what the order was paid with.
      update public.payments as p
      set needs_refund = true, updated_at = now()
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
        and not p.needs_refund and p.amount = attempt.amount and not private.is_being_refunded(p.id);
      if found then
        update public.payments as p set needs_refund = false where p.id = attempt.id;
      end if;
    end if;
    update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
    perform private.join_receipts(attempt.order_id);
    -- By its own id, or what it was joined to.
    select p.* into strict attempt from public.payments as p
    where p.id = (select m.payment_id from public.payment_messages as m where m.id = message_id);
  end if;

  update public.payment_messages as m
  set outcome = outcome_of.word
  from (select outcome as word) as outcome_of
  where m.id = message_id and m.outcome is null;
  perform private.tidy_outcomes(m.payment_id) from public.payment_messages as m
  where m.id = message_id and settle_payment.verdict = 'succeeded';
  return jsonb_build_object('outcome', outcome, 'payment', to_jsonb(attempt));
end
$$;
comment on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a payment ends. Keeps the message, is repeatable, compares with the charged amount, lets a success supersede a failure and never the reverse, keeps every receipt as money of its own, and writes order, stock and delivery in the same transaction.';

create or replace function public.confirm_till_payment(order_id uuid, receipt text, amount integer) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(confirm_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := confirm_till_payment.amount;
  settled jsonb;
begin
  perform private.expect_staff();
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  if confirm_till_payment.amount is null or confirm_till_payment.amount < 100 or confirm_till_payment.amount % 100 <> 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  -- The order's row is the lock of all its payments, as everywhere.
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return jsonb_build_object('outcome', 'already_completed', 'payment', to_jsonb(known));
  end if;
  if exists (select from public.payment_tests as t where t.receipt = code) then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  end if;
  if known.id is null and exists (
    select from public.refunds as r where r.receipt = code and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  -- What M-PESA said came is what came.
  select * into told from public.mpesa_transactions as t where t.receipt = code;
  if told.amount >= 100 and told.amount % 100 = 0
    and (told.heard_by_confirmation_at is not null or told.heard_by_statement_at is not null)
  then
    came := told.amount;
  end if;

  insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
  -- Not among the open attempts: a prompt may be on the phone meanwhile, and its answer stays awaited.
  values (confirmed_order.id, '', came, 'unresolved', 'till', member)
  returning * into known;
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code,
      'amount', confirm_till_payment.amount,
      'confirmed_by', member,
      'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    verdict => 'succeeded',
    amount => came,
    receipt => code
  );
  if settled ->> 'outcome' = 'receipt_replayed' then
    -- Nothing of it stays.
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

create or replace function public.begin_payment(order_id uuid, phone text, notice_secret text, expected_amount integer default null)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment.phone);
  paid_order public.orders;
  current_attempt public.payments;
  charge integer;
  caller text := private.caller_address();
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The order's row is the lock: attempts, settlements and expiry of one order happen one after another.
  select * into paid_order from public.orders as o where o.id = begin_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order is no answer to who wants to pay it.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_decision' and p.amount = (paid_order.total_amount + 99) / 100 * 100)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if paid_order.payment_status = 'needs_decision' then
    perform private.refuse(409, 'payment_to_decide',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  end if;
  if paid_order.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  end if;
  if paid_order.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if charge < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  if begin_payment.expected_amount is not null and begin_payment.expected_amount not in (paid_order.total_amount, charge) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;
  -- An order may be tried with many phones, so whoever has one could have the phones of many strangers ring.
  if caller is not null and private.count_hit('payment_prompts_from', caller, interval '10 minutes') > 100 then
    perform private.refuse(429, 'too_many_payments', 'Too many payments from your network. Please try again in a few minutes');
  end if;
  if private.count_hit('payment_prompts_of', paid_order.id::text, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_attempts', 'Too many payment attempts for this order. Please wait a few minutes');
  end if;
  if private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;

  insert into public.payments (order_id, phone, amount, next_query_at)
  values (paid_order.id, payer, charge, null)
  returning * into current_attempt;
  insert into private.payment_secrets (payment_id, notice_secret)
  values (current_attempt.id, begin_payment.notice_secret);
  -- The units stay reserved while the customer has a prompt on the phone.
  update public.orders as o
  set reserved_until = greatest(o.reserved_until, now() + interval '5 minutes')
  where o.id = paid_order.id and o.reserved_until is not null;
  return jsonb_build_object(
    'is_new', true,
    'payment', to_jsonb(current_attempt),
    'tracking_number', paid_order.tracking_number
  );
end
$$;

create or replace function public.find_payment(reference text) returns jsonb
language sql stable security definer
set search_path = ''
as $$
  -- The customer's device knows an attempt by M-PESA's id, or by ours when the answer with that id was lost.
  select to_jsonb(p) || case
    -- Money that came and goes back again has not paid: a person tells the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = find_payment.reference or p.id::text = find_payment.reference
  limit 1;
$$;

create or replace function public.track_order(
  tracking_number text,
  access_key text default null,
  phone_last_four text default null
) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  wanted text := upper(trim(track_order.tracking_number));
  caller text := coalesce(private.caller_address(), 'unknown');
  found_order public.orders;
  key text;
  is_open boolean := false;
  waiting bigint;
begin
  if private.hits_so_far('track_order_misses', caller, interval '10 minutes') >= 60 then
    perform private.refuse(429, 'too_many_lookups', 'Too many look-ups. Please try again in a few minutes');
  end if;
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  if not found then
    perform private.count_hit('track_order_misses', caller, interval '10 minutes');
    return null;
  end if;

  select k.access_key into key from private.order_keys as k where k.order_id = found_order.id;
  is_open := coalesce(key = track_order.access_key, false);
  if not is_open and nullif(trim(track_order.phone_last_four), '') is not null then
    -- Four digits are guessed in 10,000 tries: so there are only a few, and one after the other, that each is counted
    -- before the next is looked at.
    perform pg_advisory_xact_lock(hashtext('track_order_phone ' || wanted));
    if private.hits_so_far('track_order_phone', wanted, interval '1 hour') >= 5 then
      perform private.refuse(429, 'too_many_guesses', 'Too many wrong digits for this order. Please try again in an hour');
    end if;
    is_open := right(found_order.customer_phone, 4) = trim(track_order.phone_last_four);
    if not is_open then
      perform private.count_hit('track_order_phone', wanted, interval '1 hour');
    end if;
  end if;

  -- What came under the order's number and is less than its charge: told to the customer alone, for anybody can send it.
  select sum(t.amount) into waiting
  from public.mpesa_transactions as t
  where t.order_id = found_order.id and t.payment_id is null and t.resolution is null;
  return jsonb_build_object(
    'id', found_order.id,
    'tracking_number', found_order.tracking_number,
    'status', private.told_status(found_order.status),
    'payment_status', found_order.payment_status,
    'delivery_fee', found_order.delivery_fee,
    'total_amount', found_order.total_amount,
    'created_at', found_order.created_at,
    'updated_at', found_order.updated_at,
    'is_masked', not is_open,
    'customer_name', case when is_open then found_order.customer_name else private.masked_name(found_order.customer_name) end,
    'customer_phone', case when is_open then found_order.customer_phone else private.masked_phone(found_order.customer_phone) end,
    'shipping_address', case when is_open then found_order.shipping_address end,
    'delivery_notes', case when is_open then found_order.delivery_notes end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name),
          'image_url', p.image_url,
          'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.created_at, i.id)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = found_order.id
    ), '[]'::jsonb)
  ) || case
    when is_open and waiting > 0 then jsonb_build_object('part_paid', waiting)
    else '{}'
  end;
end
$$;

-- Money without a prompt ---------------------------------------------------------------------------------------------

create function public.keep_till_message(body text, source_address text default null) returns bigint
language sql volatile security definer
set search_path = ''
as $$
  insert into public.payment_messages (source, body, source_address)
  values ('confirmation', keep_till_message.body, keep_till_message.source_address)
  returning id;
$$;
comment on function public.keep_till_message(text, text) is
  'Keeps a confirmation word for word, before anything is made of it. Returns its number, for receive_mpesa_transaction.';

create function public.list_till_messages_to_take_up(at_most integer default 50) returns table (id bigint, body text)
language sql stable security definer
set search_path = ''
as $$
  select m.id, m.body from public.payment_messages as m
  where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_till_messages_to_take_up.at_most;
$$;
comment on function public.list_till_messages_to_take_up(integer) is
  'Confirmations that were kept but not taken up: the process died in between, or the database was away.';

create function public.keep_failed_notice(payment_id uuid, body text, source_address text default null) returns bigint
language sql volatile security definer
set search_path = ''
as $$
  insert into public.payment_messages (payment_id, source, body, source_address, outcome)
  values (keep_failed_notice.payment_id, 'notice', keep_failed_notice.body, keep_failed_notice.source_address, 'fault')
  returning id;
$$;
comment on function public.keep_failed_notice(uuid, text, text) is
  'Keeps a notice of a prompt that could not be settled, word for word: M-PESA tells it once. It is taken up again later.';

create function public.list_failed_notices(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer
set search_path = ''
as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.outcome = 'fault' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_failed_notices.at_most;
$$;
comment on function public.list_failed_notices(integer) is 'Notices of prompts that were kept and could not be settled yet.';

create function public.finish_failed_notice(message_id bigint) returns void
language sql volatile security definer
set search_path = ''
as $$
  update public.payment_messages as m set outcome = 'settled_later' where m.id = finish_failed_notice.message_id and m.outcome = 'fault';
$$;
comment on function public.finish_failed_notice(bigint) is 'The notice is settled now, with a message of its own.';

create function public.receive_mpesa_transaction(
  source text,
  receipt text,
  amount integer,
  reference text default '',
  transacted_at timestamptz default null,
  payer_phone text default null,
  payer_name text default null,
  body text default '',
  message_id bigint default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(trim(receive_mpesa_transaction.receipt));
  kept_id bigint := receive_mpesa_transaction.message_id;
  moment timestamptz := coalesce(receive_mpesa_transaction.transacted_at, now());
  for_order uuid;
  told public.mpesa_transactions;
  known public.payments;
  settled jsonb;
  outcome text;
  is_part boolean;
begin
  if receive_mpesa_transaction.source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is told of by a confirmation or the statement');
  end if;
  if coalesce(code, '') = '' or coalesce(receive_mpesa_transaction.amount, 0) <= 0 then
    if kept_id is null then
      insert into public.payment_messages (source, body) values (receive_mpesa_transaction.source, receive_mpesa_transaction.body)
      returning id into kept_id;
    end if;
    update public.payment_messages as m set outcome = 'unreadable' where m.id = kept_id;
    return jsonb_build_object('outcome', 'unreadable', 'receipt', code, 'payment', null);
  end if;

  -- Which order it is for is known only by looking, and the order's row is locked before anything of it is touched. What
  -- changes between the look and the lock is looked at again.
  loop
    for_order := private.order_of_money(code, receive_mpesa_transaction.reference);
    begin
      -- Given up with this block: nobody waits for a second order with the first one in his hands.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_money(code, receive_mpesa_transaction.reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  insert into public.mpesa_transactions as t (
    receipt, amount, reference, payer_phone, payer_name, transacted_at, heard_by_confirmation_at, heard_by_statement_at, payment_id
  ) values (
    code, receive_mpesa_transaction.amount, coalesce(trim(receive_mpesa_transaction.reference), ''),
    nullif(trim(receive_mpesa_transaction.payer_phone), ''), nullif(trim(receive_mpesa_transaction.payer_name), ''), moment,
    case when receive_mpesa_transaction.source = 'confirmation' then now() end,
    case when receive_mpesa_transaction.source = 'statement' then now() end,
    (select p.id from public.payments as p where p.receipt = code)
  )
  on conflict (receipt) do update set
    -- The statement is M-PESA's book; a confirmation is word of it; a notice may have been forged.
    amount = case
      when receive_mpesa_transaction.source = 'statement' or t.heard_by_statement_at is null
        and t.heard_by_confirmation_at is null then excluded.amount
      else t.amount
    end,
    reference = case
      when t.reference = '' or t.heard_by_confirmation_at is null and t.heard_by_statement_at is null then excluded.reference
      else t.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    transacted_at = case
      when receive_mpesa_transaction.source = 'statement' or t.heard_by_statement_at is null
        and t.heard_by_confirmation_at is null then excluded.transacted_at
      else t.transacted_at
    end,
    heard_by_confirmation_at = coalesce(t.heard_by_confirmation_at, excluded.heard_by_confirmation_at),
    heard_by_statement_at = coalesce(t.heard_by_statement_at, excluded.heard_by_statement_at),
    updated_at = now()
  returning * into told;

  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    if kept_id is null then
      insert into public.payment_messages (payment_id, source, body, receipt, outcome)
      values (known.id, receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m
      set payment_id = known.id, receipt = code, outcome = 'already_completed' where m.id = kept_id;
    end if;
    if known.method = 'till' and known.amount <> told.amount and told.amount >= 100 and told.amount % 100 = 0
      and not private.is_being_refunded(known.id)
      and (known.needs_refund or (select o.payment_status from public.orders as o where o.id = known.order_id) = 'needs_decision')
    then
      -- Staff typed another amount. Where that decided nothing yet, M-PESA's word counts.
      update public.payments as p set amount = told.amount, updated_at = now() where p.id = known.id;
      if not known.needs_refund and told.amount = (
        select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = known.order_id
      ) then
        perform private.mark_order_paid(known.order_id);
      end if;
    elsif known.method = 'till' and told.amount < known.amount and not known.needs_refund
      and not private.is_being_refunded(known.id)
    then
      -- Less came than staff typed: what has not left the house waits for a person.
      update public.orders as o
      set payment_status = 'needs_decision', status = 'pending', updated_at = now()
      where o.id = known.order_id and o.payment_status = 'paid' and o.status in ('pending', 'processing');
      if found then
        perform private.return_units(known.order_id);
        delete from public.deliveries as d where d.order_id = known.order_id;
        if told.amount >= 100 and told.amount % 100 = 0 then
          update public.payments as p set amount = told.amount, updated_at = now() where p.id = known.id;
        end if;
      end if;
    end if;
    perform private.join_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', to_jsonb(known));
  end if;

  -- The shilling of a test that only a query completed: it has no receipt yet.
  if upper(trim(told.reference)) = 'TEST' then
    with lacking as (
      select t.id from public.payment_tests as t
      where t.status = 'completed' and t.receipt is null and t.amount = told.amount
        and t.created_at between told.transacted_at - interval '15 minutes' and told.transacted_at + interval '15 minutes'
    )
    update public.payment_tests as t set receipt = code, updated_at = now()
    from lacking where t.id = lacking.id and (select count(*) from lacking) = 1;
  end if;

  -- Anybody can type a number that looks like an order's. Less than the charge never takes its place: staff decide.
  is_part := told.amount < (select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or told.resolution is not null or told.amount < 100 or told.amount % 100 <> 0
    or exists (select from public.payment_tests as t where t.receipt = code)
  then
    outcome := 'unmatched';
    if kept_id is null then
      insert into public.payment_messages (source, body, receipt, outcome)
      values (receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m set receipt = code, outcome = 'unmatched' where m.id = kept_id;
    end if;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', null);
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, told.amount, told.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, amount, status, method)
    values (for_order, '', told.amount, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id,
    source => receive_mpesa_transaction.source,
    body => receive_mpesa_transaction.body,
    verdict => 'succeeded',
    result_code => '0',
    amount => told.amount,
    receipt => code
  );
  -- It was kept before; now it stands with its payment.
  if kept_id is not null then
    update public.payment_messages as m
    set source_address = kept.source_address, received_at = kept.received_at
    from public.payment_messages as kept
    where kept.id = kept_id and m.id = (select max(said.id) from public.payment_messages as said
      where said.payment_id = (settled -> 'payment' ->> 'id')::uuid and said.receipt = code and said.source = 'confirmation');
    delete from public.payment_messages as m where m.id = kept_id;
  end if;
  return settled || jsonb_build_object('receipt', code);
end
$$;
comment on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) is
  'Money that M-PESA tells of by a confirmation or its statement: each receipt once. Joined to the payment with this receipt, else to the order its reference names (an attempt without a receipt and of the same amount is completed by it, otherwise it is a payment of its own, and less than the charge waits for staff), else kept unmatched for staff. Repeatable, in any order with everything else.';

create function private.order_of_money(receipt text, reference text) returns uuid
language sql stable
set search_path = ''
as $$
  select coalesce(
    (select p.order_id from public.payments as p where p.receipt = order_of_money.receipt),
    private.order_of_reference(order_of_money.reference),
    (select private.order_of_reference(t.reference) from public.mpesa_transactions as t where t.receipt = order_of_money.receipt)
  );
$$;
comment on function private.order_of_money(text, text) is
  'The order that money is for: of the payment with its receipt, else of its reference, else of what was told of it before.';

alter table public.store_settings add column refuses_unknown_payments boolean not null default false;
comment on column public.store_settings.refuses_unknown_payments is
  'Whether payments by hand without an order''s number, or of another amount than its charge, are turned away before they are made. Needs M-PESA''s validation.';
grant update (refuses_unknown_payments) on public.store_settings to authenticated;

create function public.judge_till_payment(reference text, amount integer) returns text
language sql stable security definer
set search_path = ''
as $$
  select case
    when not s.refuses_unknown_payments then 'accepted'
    when coalesce(judge_till_payment.amount, 0) < 100 or judge_till_payment.amount % 100 <> 0 then 'amount'
    when private.order_of_reference(judge_till_payment.reference) is null then 'reference'
    when exists (
      select from public.orders as o
      where o.id = private.order_of_reference(judge_till_payment.reference)
        and judge_till_payment.amount <> (o.total_amount + 99) / 100 * 100
    ) then 'amount'
    else 'accepted'
  end
  from public.store_settings as s;
$$;
comment on function public.judge_till_payment(text, integer) is
  'Whether M-PESA may take money that somebody is about to pay by hand: accepted, or what is wrong with it (reference, amount). Everything is, unless the settings say otherwise.';

create table private.till_secret (
  id boolean primary key default true check (id),
  secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now()
);
comment on table private.till_secret is 'The unguessable part of the address at which M-PESA tells us of money without a prompt. One, since it is registered once.';
alter table private.till_secret enable row level security;

create function public.read_till_secret() returns text
language plpgsql volatile security definer
set search_path = ''
as $$
begin
  insert into private.till_secret default values on conflict do nothing;
  return (select t.secret from private.till_secret as t);
end
$$;
comment on function public.read_till_secret() is 'The secret of the till''s addresses; drawn when it is asked for the first time.';

grant execute on function
  public.keep_till_message(text, text),
  public.list_till_messages_to_take_up(integer),
  public.keep_failed_notice(uuid, text, text),
  public.list_failed_notices(integer),
  public.finish_failed_notice(bigint),
  public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint),
  public.judge_till_payment(text, integer),
  public.read_till_secret()
to service_role;
