-- A refund that M-PESA was too busy for stays agreed on; money that nobody knows what it was for goes back as well; and the
-- shillings of tests are no riddle for reconciliation.

alter table public.refunds
  add column tries integer not null default 0,
  add column sent_twice_at timestamptz,
  add constraint "a refund is of a transaction" foreign key (transaction_receipt) references public.mpesa_transactions (receipt);

comment on column public.refunds.sent_twice_at is
  'When M-PESA told that it had carried out this reversal after all, though the money had gone back in another way meanwhile. refund_receipt is then the one of this second time.';
create index refunds_sent_twice on public.refunds (sent_twice_at) where sent_twice_at is not null;

create or replace function public.lease_refunds(at_most integer default 1) returns setof jsonb
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

create or replace function public.record_reversal_push(
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

-- It tells of an approval, not of every try.
create or replace function private.tell_refund_events() returns trigger
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

-- Staff confirm by what they read; where M-PESA has told of the same receipt itself, no more goes back than it told.
create or replace function public.request_refund(payment_id uuid, reason text) returns jsonb
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

-- Money without an order -----------------------------------------------------------------------------------------------

create function private.open_transaction_refund(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(trim(open_transaction_refund.receipt));
  told public.mpesa_transactions;
begin
  -- Settlements and reconciliation take the same lock for a receipt.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into told from public.mpesa_transactions as t where t.receipt = code for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if exists (select from public.refunds as r where r.receipt = code and r.status not in ('failed', 'withdrawn')) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if told.payment_id is not null or exists (select from public.payments as p where p.receipt = code)
    or exists (select from public.payment_tests as t where t.receipt = code)
    or told.amount < 100 or told.amount % 100 <> 0
  then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if not coalesce(open_transaction_refund.is_sure, false) and exists (select private.orders_of_lost_receipts(code)) then
    perform private.refuse(409, 'may_be_of_order', format(
      'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
      (select o.order_number from public.orders as o
       where o.id in (select private.orders_of_lost_receipts(code)) order by o.created_at desc limit 1)
    ));
  end if;
  return told;
end
$$;

create function public.request_transaction_refund(receipt text, reason text, is_sure boolean default false) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  told public.mpesa_transactions := private.open_transaction_refund(
    request_transaction_refund.receipt, request_transaction_refund.is_sure
  );
  asked public.refunds;
  must_wait boolean := told.amount > private.refund_limit();
begin
  if char_length(trim(coalesce(request_transaction_refund.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    transaction_receipt, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
  ) values (
    told.receipt, told.receipt, told.amount, trim(request_transaction_refund.reason), 'reversal',
    case when must_wait then 'requested' else 'approved' end, must_wait, member,
    (select u.email from auth.users as u where u.id = member)
  )
  returning * into asked;
  return to_jsonb(asked);
end
$$;
comment on function public.request_transaction_refund(text, text, boolean) is
  'A member of staff asks to send money back that is no order''s, by its receipt; by the rules of request_refund. What may be an order''s, whose prompt lost its receipt, only when is_sure.';

create function public.note_transaction_refund_by_hand(
  receipt text, refund_receipt text, reason text, is_sure boolean default false
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  told public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.transaction_receipt = upper(trim(note_transaction_refund_by_hand.receipt)) and r.method = 'by_hand'
    and r.refund_receipt = upper(regexp_replace(note_transaction_refund_by_hand.refund_receipt, '\s', '', 'g'));
  if found then
    return to_jsonb(noted);
  end if;
  told := private.open_transaction_refund(
    note_transaction_refund_by_hand.receipt, note_transaction_refund_by_hand.is_sure
  );
  if char_length(trim(coalesce(note_transaction_refund_by_hand.reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    transaction_receipt, receipt, amount, reason, method, status, requested_by, requested_by_email, refund_receipt, completed_at
  ) values (
    told.receipt, told.receipt, told.amount, trim(note_transaction_refund_by_hand.reason), 'by_hand', 'completed', member,
    (select u.email from auth.users as u where u.id = member),
    private.checked_refund_receipt(note_transaction_refund_by_hand.refund_receipt), now()
  )
  returning * into noted;
  return to_jsonb(noted);
end
$$;
comment on function public.note_transaction_refund_by_hand(text, text, text, boolean) is
  'A member of staff notes that money which is no order''s was sent back outside the shop. Repeatable by receipt.';

-- The shillings of tests ------------------------------------------------------------------------------------------------

create function private.set_test_money_aside() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  update public.mpesa_transactions as t
  set resolution = 'not_an_order', resolved_at = now(), updated_at = now()
  where t.receipt = new.receipt and t.payment_id is null and t.resolution is null
    and exists (select from public.payment_tests as test where test.receipt = new.receipt);
  return null;
end
$$;
comment on function private.set_test_money_aside() is 'The money of a test is known, and no order''s: reconciliation need not ask about it.';
create trigger transactions_of_tests_are_known after insert on public.mpesa_transactions
  for each row execute function private.set_test_money_aside();
create trigger payment_tests_set_their_money_aside after update of receipt on public.payment_tests
  for each row
  when (new.receipt is not null and new.receipt is distinct from old.receipt)
  execute function private.set_test_money_aside();

-- A test and the token in what the machinery tells ---------------------------------------------------------------------

create or replace function public.payment_health() returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select private.expect_staff();
  select jsonb_build_object(
    'checked_at', clock_timestamp(),
    'pause', (
      select jsonb_build_object('code', p.code, 'description', p.description, 'since', p.since, 'until', p.until)
      from private.prompt_pause as p where p.until > now()
    ),
    'refunds_to_approve', (select count(*) from public.refunds as r where r.status = 'requested'),
    'refunds_unknown', (select count(*) from public.refunds as r where r.status = 'unknown'),
    'refunds_stuck', (
      select count(*) from public.refunds as r
      where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
    ),
    'limit_raise', (
      select jsonb_build_object('by', r.raised_by_email, 'at', r.raised_at, 'from', r.raised_from, 'to', r.raised_to,
        'counts_from', r.raised_at + interval '1 day', 'limit', private.refund_limit())
      from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
      order by r.raised_at desc, r.id desc limit 1
    ),
    'refunds_sent_twice', (
      select count(*) from public.refunds as r where r.sent_twice_at > now() - interval '30 days'
    ),
    'token_fresh_until', (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null),
    'last_push', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome)
      from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
    ),
    'last_notice', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome, 'address', m.source_address)
      from public.payment_messages as m where m.source in ('notice', 'confirmation', 'reversal_result') order by m.id desc limit 1
    )
  );
$$;

grant execute on function
  public.request_transaction_refund(text, text, boolean),
  public.note_transaction_refund_by_hand(text, text, text, boolean)
to authenticated;
