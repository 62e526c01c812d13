-- Refunds: money that came in is sent back, whole and once, by M-PESA or by hand, and above a limit only when a second
-- member of staff agrees.

alter table public.store_settings
  add column refund_approval_above integer not null default 100000,
  add constraint "the refund limit is not negative" check (refund_approval_above between 0 and 100000000);
comment on column public.store_settings.refund_approval_above is
  'In cents. A refund by M-PESA of more than this waits for a second member of staff.';
grant update (refund_approval_above) on public.store_settings to authenticated;

create table private.refund_limit_raises (
  id bigint generated always as identity primary key,
  raised_by uuid not null,
  raised_by_email text,
  raised_from integer not null,
  raised_to integer not null,
  raised_at timestamptz not null default now()
);
comment on table private.refund_limit_raises is
  'Whoever raised the limit: the old one binds everybody for a day, so that two can see it before it lifts anything out of the way.';
create index refund_limit_raises_newest on private.refund_limit_raises (raised_at desc);
alter table private.refund_limit_raises enable row level security;

create function private.keep_refund_limit_raise() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
  select member.id, (select u.email from auth.users as u where u.id = member.id),
    old.refund_approval_above, new.refund_approval_above
  from (select auth.uid() as id) as member
  where member.id is not null;
  return null;
end
$$;
create trigger store_settings_keep_who_raised_the_refund_limit after update on public.store_settings
  for each row
  when (new.refund_approval_above > old.refund_approval_above)
  execute function private.keep_refund_limit_raise();

create function private.refund_limit() returns integer
language sql stable
set search_path = ''
as $$
  select least(s.refund_approval_above, (
    select min(r.raised_from) from private.refund_limit_raises as r where r.raised_at > now() - interval '1 day'
  ))
  from public.store_settings as s;
$$;
comment on function private.refund_limit() is 'In cents, what binds now: a raise of the last day does not count yet, whoever made it.';

create table public.refunds (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid,
  test_id uuid references public.payment_tests (id),
  transaction_receipt text,
  receipt text,
  amount integer not null,
  reason text not null,
  method text not null,
  status text not null,
  needs_approval boolean not null default false,
  requested_by uuid,
  requested_by_email text,
  approved_by uuid,
  approved_by_email text,
  conversation_id text,
  originator_conversation_id text,
  result_code text,
  result_description text,
  refund_receipt text,
  check_count integer not null default 0,
  next_check_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  sent_at timestamptz,
  completed_at timestamptz,
  tries integer not null default 0,
  sent_twice_at timestamptz,
  -- A payment that staff entered by hand becomes one with M-PESA's own within a transaction: its refund moves along.
  constraint "a refund is of a payment" foreign key (payment_id) references public.payments (id) deferrable initially deferred,
  constraint "a refund is of a transaction" foreign key (transaction_receipt) references public.mpesa_transactions (receipt),
  constraint "a refund is of one thing" check (num_nonnulls(payment_id, test_id, transaction_receipt) = 1),
  constraint "a refund has a known status" check (status in (
    'requested', 'approved', 'sending', 'sent', 'completed', 'failed', 'unknown', 'withdrawn'
  )),
  constraint "a refund goes by M-PESA or by hand" check (method in ('reversal', 'by_hand')),
  constraint "M-PESA sends back what it knows by its receipt" check (method = 'by_hand' or receipt is not null),
  constraint "a refund by hand has happened" check (method = 'reversal' or status = 'completed'),
  constraint "a refund is of whole shillings" check (amount >= 100 and amount % 100 = 0),
  constraint "a refund has a reason" check (char_length(trim(reason)) between 3 and 200),
  constraint "above the limit a second member approves" check (
    method = 'by_hand' or not needs_approval or status in ('requested', 'withdrawn')
    or (approved_by is not null and requested_by is not null and approved_by <> requested_by)
  ),
  constraint "only what was sent is asked about" check (next_check_at is null or status in ('sent', 'unknown')),
  constraint "a receipt sends back once" unique (refund_receipt)
);
comment on table public.refunds is
  'Money that is sent back: of a payment, of a test, or that nobody knows what it was for (transaction_receipt). receipt is M-PESA''s of the money that came in, refund_receipt the one of its way back. unknown: it may have been sent, M-PESA is asked and nothing is sent again.';
comment on column public.refunds.sent_twice_at is
  'When M-PESA told that it had carried out this reversal after all, though the money had gone back in another way meanwhile. refund_receipt is then the one of this second time.';
create index refunds_sent_twice on public.refunds (sent_twice_at) where sent_twice_at is not null;
comment on column public.refunds.needs_approval is 'Whether its amount was above the limit when it was asked for.';
alter table public.refunds enable row level security;
create unique index "a payment is sent back once" on public.refunds (payment_id) where status not in ('failed', 'withdrawn');
create unique index "a test is sent back once" on public.refunds (test_id) where status not in ('failed', 'withdrawn');
create unique index "the money of a receipt is sent back once" on public.refunds (receipt) where status not in ('failed', 'withdrawn');
create index refunds_of_a_payment on public.refunds (payment_id);
create index refunds_of_a_receipt on public.refunds (receipt);
create index payments_in_review on public.payments (updated_at) where status = 'review';
create index refunds_under_way on public.refunds (created_at) where status not in ('completed', 'failed', 'withdrawn');
create policy "staff read every refund" on public.refunds for select to authenticated using ((select public.is_admin()));
grant select on public.refunds to authenticated;
-- As of the other tables that staff screens follow: the live service tells visitors nothing of them.
grant select (id) on public.refunds to anon;

create table private.refund_secrets (
  refund_id uuid primary key references public.refunds (id) on delete cascade,
  notice_secret text not null,
  constraint "a notice secret opens one refund" unique (notice_secret)
);
comment on table private.refund_secrets is 'The unguessable part of the address at which M-PESA tells us about one refund.';
alter table private.refund_secrets enable row level security;

alter table public.payments add column refunded_at timestamptz, add column refund_receipt text;
comment on column public.payments.refunded_at is 'When its money was sent back. needs_refund stays: it tells whose money it is.';

alter table public.payment_messages add column refund_id uuid references public.refunds (id) on delete cascade;
create index payment_messages_by_refund on public.payment_messages (refund_id) where refund_id is not null;

-- Others add words to these lists as well: these are added to whatever is there by now.
do $$
declare
  list record;
  words text[];
begin
  for list in
    select * from (values
      ('public.payment_messages', 'source', 'a message has a known source',
        array['reversal', 'reversal_result', 'reversal_timeout', 'status_question', 'status_result']),
      ('public.order_events', 'kind', 'a kind of event is known',
        array['refund_requested', 'refund_approved', 'refund_withdrawn', 'refund_sent', 'refund_unknown', 'refund_failed',
          'refund_completed', 'refund_sent_twice'])
    ) as lists (relation, field, name, added)
  loop
    select array_agg(distinct known.word) into strict words
    from (
      select matched[1] as word
      from pg_constraint as c, regexp_matches(pg_get_constraintdef(c.oid), '''([a-z_]+)''', 'g') as matched
      where c.conrelid = list.relation::regclass and c.conname = list.name
      union
      select unnest(list.added)
    ) as known;
    execute format('alter table %s drop constraint %I, add constraint %I check (%I in (%s))',
      list.relation, list.name, list.name, list.field, (select string_agg(quote_literal(w), ', ') from unnest(words) as w));
  end loop;
end
$$;

do $$
declare
  wanted text;
begin
  foreach wanted in array array['refunds', 'payment_tests'] loop
    if exists (select from pg_publication where pubname = 'supabase_realtime')
      and not exists (
        select from pg_publication_tables
        where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = wanted
      )
    then
      execute format('alter publication supabase_realtime add table public.%I', wanted);
    end if;
  end loop;
end
$$;

-- The timeline ------------------------------------------------------------------------------------------------------

-- It tells of an approval, not of every try.
create function private.tell_refund_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (tg_op = 'UPDATE' and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order tells that its money was sent back; without a receipt there is nothing to add.
    or (tg_op = 'INSERT' and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return null;
  end if;
  perform private.tell_order_event(
    refunded_order,
    'refund_' || case when tg_op = 'INSERT' and new.status <> 'completed' then 'requested' else new.status end,
    case when new.status in ('completed', 'failed') then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'amount', new.amount, 'method', new.method,
      'receipt', new.refund_receipt,
      'reason', case when tg_op = 'INSERT' then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end,
      'result_code', case when new.status in ('failed', 'unknown') then new.result_code end,
      'result_description', case when new.status in ('failed', 'unknown') then new.result_description end
    )
  );
  return null;
end
$$;
create trigger refunds_tell_what_happened after insert or update of status on public.refunds
  for each row execute function private.tell_refund_events();

-- What follows from it ------------------------------------------------------------------------------------------------

-- A paid order is delivered or its money sent back, never both.
create function private.hold_refunded_order() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund
      and (r.status in ('requested', 'approved', 'sending', 'sent', 'unknown')
        -- Of an order that was paid in parts, one part may have gone back already.
        or (r.status = 'completed' and new.payment_status = 'paid'))
  ) then
    perform private.refuse(409, 'refund_under_way',
      'This money is on its way back to the customer. Withdraw the refund first, where that is still possible');
  end if;
  return new;
end
$$;
create trigger orders_are_held_while_their_money_goes_back before update of status, payment_status on public.orders
  for each row
  when (
    (old.payment_status in ('unpaid', 'needs_decision') and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (old.payment_status in ('paid', 'needs_decision') and new.payment_status = 'refunded')
    or (
      old.payment_status = 'needs_decision' and old.status <> new.status
      and new.status in ('processing', 'shipped', 'out_for_delivery', 'delivered')
    )
  )
  execute function private.hold_refunded_order();

-- Whoever notes that an order's money was sent back: its payment's books follow.
create function private.note_refund_of_order() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, p.amount, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, amount, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.amount, 'Noted with the order', 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member), now()
  from sent_back as s;
  return null;
end
$$;
create trigger orders_note_their_refund after update of payment_status on public.orders
  for each row
  when (old.payment_status in ('paid', 'needs_decision') and new.payment_status = 'refunded')
  execute function private.note_refund_of_order();

-- The money of an order went back: what is decided about the order follows the rules of decide_paid_order.
create function private.follow_refunded_payment() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for update;
  if new.needs_refund or refunded_order.payment_status not in ('paid', 'needs_decision') then
    if new.needs_refund then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return null;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- It was paid in parts: it is refunded with the last one.
    perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    return null;
  end if;
  -- Only against all rules (M-PESA reversed what it had refused to) the order is still to be delivered: then its units
  -- stay in the house.
  if refunded_order.payment_status = 'paid' and refunded_order.status in ('pending', 'processing') then
    perform private.return_units(refunded_order.id);
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_decision' or refunded_order.status in ('pending', 'processing') then 'cancelled'
        else o.status
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_decision' or refunded_order.status in ('pending', 'processing') then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
  return null;
end
$$;
create trigger payments_take_their_order_along after update on public.payments
  for each row
  when (new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)))
  execute function private.follow_refunded_payment();

-- Two entries of one receipt became one payment: its refund belongs to the one that stays.
create function private.move_refund_with_receipt() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  moved public.refunds;
begin
  update public.refunds as r
  set payment_id = new.id, transaction_receipt = null, updated_at = now()
  where r.receipt = new.receipt and r.payment_id is distinct from new.id and r.test_id is null
    -- What was sent back before by hand, as money of this payment, stays the payment's own refund.
    and (r.status in ('failed', 'withdrawn') or not exists (
      select from public.refunds as own
      where own.payment_id = new.id and own.id <> r.id and own.status not in ('failed', 'withdrawn')
    ));
  select * into moved from public.refunds as r where r.payment_id = new.id and r.status = 'completed';
  if found then
    new.refunded_at := coalesce(new.refunded_at, moved.completed_at);
    new.refund_receipt := coalesce(new.refund_receipt, moved.refund_receipt);
  end if;
  -- What was noted by hand before the receipt was known is of this receipt.
  update public.refunds as r
  set receipt = new.receipt, updated_at = now()
  where r.payment_id = new.id and r.receipt is null and not exists (
    select from public.refunds as known
    where known.receipt = new.receipt and known.id <> r.id and known.status not in ('failed', 'withdrawn')
  );
  return new;
end
$$;
create trigger payments_take_the_refund_of_their_receipt before insert or update of receipt on public.payments
  for each row
  when (new.receipt is not null)
  execute function private.move_refund_with_receipt();

-- What was not sent back after all is for staff to decide again.
create function private.reopen_transaction_of_refund() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  update public.mpesa_transactions as t
  set resolution = null, resolved_by = null, resolved_at = null, updated_at = now()
  where t.receipt = new.receipt and t.resolution = 'refund';
  return null;
end
$$;
create trigger refunds_that_end_reopen_their_transaction after update of status on public.refunds
  for each row
  when (new.status in ('failed', 'withdrawn') and old.status <> new.status)
  execute function private.reopen_transaction_of_refund();

create function private.complete_refund(refund_id uuid, refund_receipt text) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  done public.refunds;
begin
  update public.refunds as r
  set status = 'completed',
      refund_receipt = coalesce(r.refund_receipt, complete_refund.refund_receipt),
      next_check_at = null,
      completed_at = coalesce(r.completed_at, now()),
      updated_at = now()
  where r.id = complete_refund.refund_id
  returning * into strict done;
  update public.payments as p
  set refunded_at = coalesce(p.refunded_at, done.completed_at), refund_receipt = coalesce(p.refund_receipt, done.refund_receipt),
      updated_at = now()
  where p.id = done.payment_id;
  update public.payment_tests as t
  set refunded_at = coalesce(t.refunded_at, done.completed_at), refund_receipt = coalesce(t.refund_receipt, done.refund_receipt),
      updated_at = now()
  where t.id = done.test_id;
  return done;
end
$$;
comment on function private.complete_refund(uuid, text) is 'Its order, payment and row must be locked.';

create function private.locked_refund(refund_id uuid) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  locked public.refunds;
begin
  -- Always the order first, then its payment, then the refund: as settlements do.
  perform from public.orders as o
  where o.id = (
    select p.order_id from public.refunds as r join public.payments as p on p.id = r.payment_id
    where r.id = locked_refund.refund_id
  )
  for update;
  perform from public.payments as p
  where p.id = (select r.payment_id from public.refunds as r where r.id = locked_refund.refund_id)
  for update;
  select * into locked from public.refunds as r where r.id = locked_refund.refund_id for update;
  if not found then
    perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
  end if;
  return locked;
end
$$;

-- What staff ask for --------------------------------------------------------------------------------------------------

create function private.expect_member() returns uuid
language plpgsql stable
set search_path = ''
as $$
begin
  if not public.is_admin() or (select auth.uid()) is null then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  return (select auth.uid());
end
$$;
comment on function private.expect_member() is 'The member of staff whose request this is; ends the request of anybody else, the shop itself included.';

-- The payment whose money may go back, its order locked before it.
create function private.refundable_payment(payment_id uuid) returns public.payments
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = refundable_payment.payment_id)
  for update;
  select * into paid from public.payments as p where p.id = refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if paid.refunded_at is not null or exists (
    select from public.refunds as r
    where (r.payment_id = paid.id or r.receipt = paid.receipt) and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if paid.status <> 'completed' or not (
    paid.needs_refund
    or paid_order.payment_status = 'needs_decision'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  return paid;
end
$$;

create function private.open_refund(
  payment_id uuid, test_id uuid, receipt text, amount integer, reason text, member uuid
) returns jsonb
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  opened public.refunds;
  must_wait boolean := open_refund.amount > private.refund_limit();
  member_email text := (select u.email from auth.users as u where u.id = open_refund.member);
begin
  if char_length(trim(coalesce(open_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, test_id, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    open_refund.payment_id, open_refund.test_id, open_refund.receipt, open_refund.amount, trim(open_refund.reason), 'reversal',
    case when must_wait then 'requested' else 'approved' end, must_wait, open_refund.member, member_email
  )
  returning * into opened;
  return to_jsonb(opened);
end
$$;

-- Staff confirm by what they read; where M-PESA has told of the same receipt itself, no more goes back than it told.
create function public.request_refund(payment_id uuid, reason text) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  paid public.payments := private.refundable_payment(request_refund.payment_id);
  told integer;
begin
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  select t.amount into told from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if told < paid.amount then
    perform private.refuse(409, 'amount_differs',
      'M-PESA told of less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.amount, request_refund.reason, member);
end
$$;
comment on function public.request_refund(uuid, text) is
  'A member of staff asks to send a payment''s money back by M-PESA, all of it. Up to store_settings.refund_approval_above it is sent next; above, it waits for another member.';

create function public.request_test_refund(test_id uuid) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  test public.payment_tests;
begin
  select * into test from public.payment_tests as t where t.id = request_test_refund.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if test.refunded_at is not null or exists (
    select from public.refunds as r where (r.test_id = test.id or r.receipt = test.receipt) and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if test.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if test.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  return private.open_refund(null, test.id, test.receipt, test.amount, 'Test with KSh 1', member);
end
$$;
comment on function public.request_test_refund(uuid) is 'A member of staff asks to send the shilling of a test back.';

create function public.approve_refund(refund_id uuid) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  approved public.refunds := private.locked_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if approved.requested_by = member then
    perform private.refuse(403, 'second_member_needed', 'Another member of staff must approve what you asked for');
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member,
      approved_by_email = (select u.email from auth.users as u where u.id = member), updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return to_jsonb(approved);
end
$$;
comment on function public.approve_refund(uuid) is 'A second member of staff agrees to a refund above the limit. It is sent next.';

create function public.withdraw_refund(refund_id uuid) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  withdrawn public.refunds := private.locked_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return to_jsonb(withdrawn);
  end if;
  if withdrawn.status not in ('requested', 'approved') then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return to_jsonb(withdrawn);
end
$$;
comment on function public.withdraw_refund(uuid) is 'Any member of staff takes a refund back that M-PESA was not asked for yet.';

create function private.checked_refund_receipt(typed text) returns text
language plpgsql
set search_path = ''
as $$
declare
  code text := upper(regexp_replace(checked_refund_receipt.typed, '\s', '', 'g'));
begin
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  -- One at a time: settlements take the same lock for the receipts they are told of.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code)
    or exists (select from public.payment_tests as t where t.receipt = code)
  then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  end if;
  if exists (select from public.refunds as r where r.refund_receipt = code) then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create function public.note_refund_by_hand(payment_id uuid, refund_receipt text, reason text) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  paid public.payments;
  noted public.refunds;
  code text;
begin
  select r.* into noted from public.refunds as r
  where r.payment_id = note_refund_by_hand.payment_id and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return to_jsonb(noted);
  end if;
  paid := private.refundable_payment(note_refund_by_hand.payment_id);
  if char_length(trim(coalesce(note_refund_by_hand.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  code := private.checked_refund_receipt(note_refund_by_hand.refund_receipt);
  insert into public.refunds (
    payment_id, receipt, amount, reason, method, status, requested_by, requested_by_email, refund_receipt, completed_at
  ) values (
    paid.id, paid.receipt, paid.amount, trim(note_refund_by_hand.reason), 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member), code, now()
  )
  returning * into noted;
  return to_jsonb(private.complete_refund(noted.id, code));
end
$$;
comment on function public.note_refund_by_hand(uuid, text, text) is
  'A member of staff notes that a payment''s money was sent back outside the shop, with M-PESA''s receipt of that. Repeatable by receipt.';

create function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  closed public.refunds := private.locked_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if close_unknown_refund.refund_receipt is not null then
    return to_jsonb(private.complete_refund(closed.id, private.checked_refund_receipt(close_unknown_refund.refund_receipt)));
  end if;
  -- M-PESA may still be at it.
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA is still being asked. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return to_jsonb(closed);
end
$$;
comment on function public.close_unknown_refund(uuid, text) is
  'What a member of staff found out about a refund of which M-PESA tells nothing: the receipt by which it was sent, or, half an hour after it was tried, that nothing was sent.';

-- What M-PESA is asked, and what it tells ------------------------------------------------------------------------------

create function public.lease_refunds(at_most integer default 1) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  leased public.refunds;
  left_over integer := lease_refunds.at_most;
  secret text;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- Whoever had it never told what M-PESA answered: it may have been sent.
  update public.refunds as r
  set status = 'unknown', next_check_at = now(), updated_at = now(),
      result_description = 'The shop was interrupted while it asked M-PESA'
  where r.status = 'sending' and r.sent_at < now() - interval '2 minutes';

  -- Asked for by what staff typed, and then M-PESA told of less: nobody gets more back than came.
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(),
      result_description = format('M-PESA told of %s cents under this receipt, %s were to go back', told.amount, r.amount)
  from public.mpesa_transactions as told
  where told.receipt = r.receipt and r.status in ('requested', 'approved') and told.amount < r.amount;

  for leased in
    select * from public.refunds as r
    -- Surely not carried out: it is tried again, at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - least(interval '15 seconds' * power(2, least(r.tries, 10)), interval '10 minutes'))
    order by r.created_at limit left_over for update skip locked
  loop
    left_over := left_over - 1;
    insert into private.refund_secrets (refund_id, notice_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.notice_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    return next jsonb_build_object('work', 'send', 'refund', to_jsonb(leased), 'secret', secret);
  end loop;

  for leased in
    select * from public.refunds as r
    where r.status in ('sent', 'unknown') and r.next_check_at <= now()
    order by r.next_check_at limit left_over for update skip locked
  loop
    update public.refunds as r
    set status = case when r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        check_count = r.check_count + 1,
        -- The exponent is kept small: a long wait would be no interval any more.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    return next jsonb_build_object(
      'work', 'ask', 'refund', to_jsonb(leased),
      'secret', (select s.notice_secret from private.refund_secrets as s where s.refund_id = leased.id)
    );
  end loop;
end
$$;
comment on function public.lease_refunds(integer) is
  'Refunds to send now, each only ever once (work = send), and refunds to ask M-PESA about, at growing intervals (work = ask); each with the secret of its addresses.';

create function public.record_reversal_push(
  refund_id uuid,
  body text,
  conversation_id text default null,
  originator_conversation_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  pushed public.refunds := private.locked_refund(record_reversal_push.refund_id);
  outcome text := case
    when record_reversal_push.refusal_code = 'R000001' then 'already_reversed'
    -- Nothing was carried out, and the reason passes.
    when record_reversal_push.refusal_code in (
      'mpesa_unreachable', 'http_403', 'http_429', '500.003.02', '500.003.03', '400.003.01', '401.002.01', '404.001.03'
    ) and pushed.tries < 20 then 'busy'
    when record_reversal_push.refusal_code is not null then 'refused'
    when record_reversal_push.conversation_id is not null or record_reversal_push.originator_conversation_id is not null then 'accepted'
    else 'unknown'
  end;
begin
  insert into public.payment_messages (refund_id, source, body, outcome)
  values (pushed.id, 'reversal', record_reversal_push.body, outcome);
  -- A result may have come before the request was answered: what it settled stays settled.
  update public.refunds as r
  set status = case
        when r.status <> 'sending' then r.status
        when outcome = 'refused' then 'failed'
        when outcome = 'accepted' then 'sent'
        when outcome = 'busy' then 'approved'
        else 'unknown'
      end,
      result_code = case when r.status = 'sending' then record_reversal_push.refusal_code else r.result_code end,
      result_description = case when r.status = 'sending' then record_reversal_push.refusal_description else r.result_description end,
      conversation_id = coalesce(r.conversation_id, record_reversal_push.conversation_id),
      originator_conversation_id = coalesce(r.originator_conversation_id, record_reversal_push.originator_conversation_id),
      next_check_at = case
        when r.status <> 'sending' then r.next_check_at
        when outcome = 'accepted' then now() + interval '2 minutes'
        when outcome = 'unknown' then now() + interval '1 minute'
        when outcome = 'already_reversed' then now()
      end,
      updated_at = now()
  where r.id = pushed.id
  returning * into pushed;
  return to_jsonb(pushed);
end
$$;
comment on function public.record_reversal_push(uuid, text, text, text, text, text) is
  'Keeps what the request to reverse was answered. A refusal that passes leaves it agreed on, to be tried again. Without conversation ids and without a refusal the answer was lost: it is asked about, never sent again.';

-- That a payment still stands is no proof that its reversal, once taken, was not carried out: only where the request itself was
-- lost it means that nothing was sent. And an answer that names money that came in tells nothing of its way back.
create function public.settle_reversal(
  refund_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  refund_receipt text default null,
  amount integer default null,
  originator_conversation_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  settled public.refunds;
  message_id bigint;
  outcome text;
  code text := nullif(settle_reversal.refund_receipt, '');
begin
  if settle_reversal.verdict not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.locked_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into message_id;
  if code is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || code));
    if exists (select from public.refunds as r where r.refund_receipt = code and r.id <> settled.id) then
      outcome := 'receipt_replayed';
    elsif settle_reversal.verdict = 'succeeded' and (
      code = settled.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.payment_tests as t where t.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then
      outcome := 'receipt_of_payment';
    -- Whoever answers for a reversal tells how much went back; a status that does not may be that of something else.
    elsif settle_reversal.verdict = 'succeeded' and settle_reversal.source = 'status_result'
      and settle_reversal.amount is distinct from settled.amount then
      outcome := 'pending';
    end if;
  end if;

  if outcome is not null then
    null;
  elsif settle_reversal.originator_conversation_id <> settled.originator_conversation_id then
    outcome := 'other_request';
  elsif settle_reversal.verdict = 'pending' then
    outcome := 'pending';
  elsif settle_reversal.verdict = 'succeeded' then
    if settled.status = 'completed' then
      outcome := 'already_completed';
      if settled.refund_receipt is null and code is not null then
        settled := private.complete_refund(settled.id, code);
      end if;
    elsif settled.tries = 0 then
      -- Nothing was asked for yet: whoever tells this does not know the refund.
      outcome := 'not_sent';
    elsif settle_reversal.amount <> settled.amount then
      outcome := 'wrong_amount';
      update public.refunds as r
      set status = case when r.status in ('sending', 'sent', 'unknown') then 'unknown' else r.status end,
          result_code = settle_reversal.result_code,
          result_description = format('M-PESA reported %s cents, %s were to go back', settle_reversal.amount, r.amount),
          next_check_at = null, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      -- Supersedes a failure as well: the money has gone back. A second refund of the same money, begun after that
      -- failure, has lost its reason.
      update public.refunds as r
      set status = 'withdrawn', updated_at = now()
      where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
      if exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status = 'completed'
          and (r.method = 'by_hand' or r.refund_receipt <> code)
      ) then
        outcome := 'sent_twice';
        if settled.sent_twice_at is null then
          update public.refunds as r
          set sent_twice_at = now(), refund_receipt = coalesce(r.refund_receipt, code),
              result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
              next_check_at = null, updated_at = now()
          where r.id = settled.id
          returning * into settled;
          if settled.payment_id is not null then
            perform private.tell_order_event(
              (select p.order_id from public.payments as p where p.id = settled.payment_id), 'refund_sent_twice', 'mpesa',
              jsonb_build_object('refund_id', settled.id, 'amount', settled.amount, 'receipt', settled.refund_receipt)
            );
          end if;
        end if;
      elsif exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status not in ('failed', 'withdrawn')
      ) then
        outcome := 'sent_by_another';
      else
        outcome := 'completed';
        update public.refunds as r
        set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
        where r.id = settled.id;
        settled := private.complete_refund(settled.id, code);
      end if;
    end if;
  elsif settled.status not in ('sending', 'sent', 'unknown') then
    outcome := 'superseded';
  elsif settle_reversal.verdict = 'already_reversed' then
    outcome := 'already_reversed';
    update public.refunds as r
    set status = 'unknown', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = now(), updated_at = now()
    where r.id = settled.id
    returning * into settled;
  elsif settle_reversal.verdict = 'not_reversed' and (
    -- M-PESA may not have got to it yet; what it has taken it may have carried out, however it calls the payment since; and
    -- who was told that it is reversed already does not believe the contrary.
    settled.sent_at > now() - interval '10 minutes' or settled.originator_conversation_id is not null
    or settled.result_code is not distinct from 'R000001'
  ) then
    outcome := 'pending';
  else
    outcome := 'failed';
    update public.refunds as r
    set status = 'failed', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = null, updated_at = now()
    where r.id = settled.id
    returning * into settled;
  end if;
  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'refund', to_jsonb(settled));
end
$$;
comment on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) is
  'The one way a refund by M-PESA ends. Keeps the message, is repeatable, lets a success supersede a failure and never the reverse, and writes refund, payment and order in the same transaction.';

create function public.find_refund_by_secret(notice_secret text) returns uuid
language sql stable security definer
set search_path = ''
as $$
  select s.refund_id from private.refund_secrets as s where s.notice_secret = find_refund_by_secret.notice_secret;
$$;

grant execute on function
  public.request_refund(uuid, text),
  public.request_test_refund(uuid),
  public.approve_refund(uuid),
  public.withdraw_refund(uuid),
  public.note_refund_by_hand(uuid, text, text),
  public.close_unknown_refund(uuid, text)
to authenticated;
grant execute on function
  public.lease_refunds(integer),
  public.record_reversal_push(uuid, text, text, text, text, text),
  public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text),
  public.find_refund_by_secret(text)
to service_role;

-- What was noted before there were refunds -------------------------------------------------------------------------------

with sent_back as (
  update public.payments as p
  set refunded_at = o.updated_at
  from public.orders as o
  where o.id = p.order_id and o.payment_status = 'refunded' and p.status = 'completed' and not p.needs_refund
  returning p.id, p.amount, p.receipt, o.updated_at
)
insert into public.refunds (payment_id, receipt, amount, reason, method, status, created_at, updated_at, completed_at)
select s.id, s.receipt, s.amount, 'Noted with the order', 'by_hand', 'completed', s.updated_at, s.updated_at, s.updated_at
from sent_back as s;
