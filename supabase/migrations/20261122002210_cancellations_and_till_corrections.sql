-- Customers hear of a cancelled or expired order, and of money by till only what stands: staff can correct what they typed until
-- M-PESA confirms it, and the messages about it wait as those about a status do.

-- Templates -------------------------------------------------------------------------------------------------------------------

-- Kinds are added to whatever the lists hold by now.
do $$
declare
  list record;
  words text[];
begin
  for list in
    select * from (values
      ('public.message_templates', 'a template is of a kind that is known', array['order_cancelled', 'order_expired']),
      ('public.outbox_messages', 'a kind of message is known', array['order_cancelled', 'order_expired']),
      ('public.order_events', 'a kind of event is known', array['payment_corrected'])
    ) as known (relation, name, added)
  loop
    select array_agg(distinct known.word) into strict words
    from (
      select matched[1] as word
      from pg_constraint as c, regexp_matches(pg_get_constraintdef(c.oid), '''([a-z_]+)''', 'g') as matched
      where c.conrelid = list.relation::regclass and c.conname = list.name
      union
      select unnest(list.added)
    ) as known;
    execute format('alter table %s drop constraint %I, add constraint %I check (kind in (%s))',
      list.relation, list.name, list.name, (select string_agg(quote_literal(w), ', ' order by w) from unnest(words) as w));
  end loop;
end
$$;

create or replace function private.check_message_template() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'link', 'receipt_link'
    ]
  end;
  unknown text;
  missing text;
begin
  if trim(new.body) = '' or (new.channel = 'mail' and trim(new.subject) = '') then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  end if;
  if char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  end if;
  if new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  end if;
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- What is left once everything that is whole is taken away.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  end if;
  return new;
end
$$;

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_cancelled', 'text', null,
    '{shop}: your order {order} was cancelled.[ We are sending {due_back} back to you.] {link}'),
  ('order_cancelled', 'mail', 'Your order {order} was cancelled',
    E'Habari {name},\n\nWe have cancelled your order {order}.[ We are sending your {due_back} back to the phone that paid.]\n\nYour order:\n{link}\n\nIf you have a question, call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_expired', 'mail', 'Your order {order} was not paid in time',
    E'Habari {name},\n\nNo payment for your order {order} reached us in time, so we have cancelled it.\n\n{items}\n\nYou can order again here:\n{link}\n\nIf you did pay, keep your M-PESA receipt and call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}')
) as worded (kind, channel, subject, body);

-- A sentence begins with a capital letter. What staff have reworded stays as it is.
update public.message_templates as t
set body = case when t.body = t.default_body then better.body else t.body end,
    default_body = better.body
from (
  select id, regexp_replace(default_body, '^(Habari[^\n]*,\n\n)([a-z])(.*)$', '\1') ||
    upper(regexp_replace(default_body, '^(Habari[^\n]*,\n\n)([a-z])(.*)$', '\2')) ||
    regexp_replace(default_body, '^(Habari[^\n]*,\n\n)([a-z])(.*)$', '\3') as body
  from public.message_templates
  where channel = 'mail' and default_body ~ '^Habari[^\n]*,\n\n[a-z]'
) as better
where better.id = t.id;

-- Which messages wait, and which are still true -------------------------------------------------------------------------------

create function private.is_status_message(kind text) returns boolean
language sql immutable
set search_path = ''
return kind in ('order_on_its_way', 'order_delivered', 'order_cancelled');
comment on function private.is_status_message(text) is 'Whether a kind of message follows a change of a status by staff, and is withdrawn with it.';

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable
set search_path = ''
as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.told_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    -- The message about the refund says the same and more.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then o.payment_status in ('paid', 'refunded')
    when 'order_payment_held' then o.payment_status = 'needs_decision'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;
comment on function private.is_message_true(uuid, text) is
  'Whether what a message of this kind reports of the order still stands. Null without an order.';

create or replace function private.add_to_outbox(
  ordered public.orders,
  kind text,
  occasion text,
  channel text,
  recipient text,
  due_at timestamptz
) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  -- All others follow a payment, or a change made by staff to an order that was paid.
  has_priority boolean := add_to_outbox.kind not in ('order_received', 'order_expired')
    and (add_to_outbox.kind <> 'order_cancelled' or ordered.payment_status <> 'unpaid');
  problem text;
  added uuid;
begin
  -- The next prompt for an order counts for no limit: its customer has been notified.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.occasion = add_to_outbox.occasion and m.channel = add_to_outbox.channel;
  if found then
    -- Set again before the message left: the last change can be undone for as long as the first.
    if add_to_outbox.due_at > now() then
      update public.outbox_messages as m set next_attempt_at = add_to_outbox.due_at
      where m.id = added and m.status = 'waiting' and m.attempts = 0;
      if found then
        update private.outbox_queue as q set due_at = add_to_outbox.due_at, lease = null where q.message_id = added;
      end if;
    end if;
    return;
  end if;
  if not has_priority then
    -- The network first: what a network over its limit causes does not use up the recipient's limit. Orders are ended by the shop
    -- and by staff, whose networks say nothing about the customer.
    problem := case
      when add_to_outbox.kind = 'order_received'
        and not private.count_call(case add_to_outbox.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
        then 'Not sent: too many unpaid orders from one network today'
      when private.count_hit('unpaid_orders_of_recipient', lower(add_to_outbox.recipient), interval '1 hour') > 5
        then 'Not sent: too many unpaid orders for this recipient in one hour'
    end;
  end if;
  insert into public.outbox_messages (
    order_id, kind, occasion, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.occasion, add_to_outbox.channel, add_to_outbox.recipient,
    ordered.order_number, ordered.tracking_number, ordered.customer_name,
    has_priority,
    case when problem is null then 'waiting' else 'over_budget' end,
    case when problem is null then add_to_outbox.due_at end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, add_to_outbox.due_at);
  end if;
end
$$;

create or replace function private.tell_customer() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  -- What staff typed about a payment can be corrected as long as a status can be undone.
  due_at timestamptz := now() + case
    when current_setting('private.is_typed_by_staff', true) = 'yes' then private.undo_time() else interval '0'
  end;
begin
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', due_at => due_at);
    elsif new.payment_status = 'needs_decision' then
      perform private.queue_order_messages(new.id, 'order_payment_held', due_at => due_at);
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_time());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_time());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      -- Only expire_reservations empties expires_at.
      if new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null then
        -- An order without a prompt may name anybody's address.
        if exists (select from public.payments as p where p.order_id = new.id) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- A text costs money: orders that nobody paid for cost the seller none.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_time());
      end if;
    end if;
  end if;
  return null;
end
$$;

create or replace function private.remember_status_change(order_id uuid, state_before jsonb) returns jsonb
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  change_id uuid;
begin
  -- Rows that another request holds are deleted by the next one: nobody waits for this.
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    remember_status_change.order_id, (select auth.uid()), now() + private.undo_time(),
    remember_status_change.state_before, private.order_state(remember_status_change.order_id)
  )
  returning id into change_id;
  return jsonb_build_object(
    'change_id', change_id,
    'undo_seconds', extract(epoch from private.undo_time())::integer,
    'notifies_customer', exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = remember_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  );
end
$$;

create or replace function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff();
  select * into change from private.status_changes as c
  where c.id = undo_status_change.change_id and c.changed_by is not distinct from (select auth.uid())
  for update;
  if not found or change.undo_until < clock_timestamp() then
    perform private.refuse(409, 'undo_too_late', 'It is too late to undo this. Set the status again instead');
  end if;
  had_delivery := nullif(change.state_before -> 'delivery', 'null');
  perform from public.orders as o where o.id = change.order_id for no key update;
  -- As in set_delivery_status: a request that holds the delivery is about to change it.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  end if;
  if exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_time()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform set_config('private.is_undoing', 'yes', true);
  update public.orders as o
  set status = change.state_before ->> 'status', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz
    where d.order_id = change.order_id;
  end if;
  perform set_config('private.is_undoing', '', true);
  delete from public.outbox_messages as m
  where m.order_id = change.order_id and m.status = 'waiting' and m.attempts = 0 and not private.is_message_true(m.order_id, m.kind);
  delete from private.status_changes as c where c.id = change.id;
end
$$;

-- Money by till -----------------------------------------------------------------------------------------------------------------

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
  perform private.expect_till_receipt(code, came);
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
  perform private.expect_free_receipt(code, known.id is null);
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
  perform set_config('private.is_typed_by_staff', 'yes', true);
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
  perform set_config('private.is_typed_by_staff', '', true);
  if settled ->> 'outcome' = 'receipt_replayed' then
    -- Nothing of it stays.
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

create function private.expect_till_receipt(receipt text, amount integer) returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if receipt is null or receipt !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  if amount is null or amount < 100 or amount % 100 <> 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
end
$$;
comment on function private.expect_till_receipt(text, integer) is 'Refuses what is no M-PESA receipt, or no amount of whole shillings in cents.';

create function private.expect_free_receipt(receipt text, is_new boolean) returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if exists (select from public.payment_tests as t where t.receipt = expect_free_receipt.receipt) then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  end if;
  if is_new and exists (
    select from public.refunds as r where r.receipt = expect_free_receipt.receipt and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
end
$$;
comment on function private.expect_free_receipt(text, boolean) is 'Refuses the receipt of a test, and one whose money is being sent back.';

create function public.correct_till_payment(payment_id uuid, seen_receipt text, seen_amount integer, receipt text, amount integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(correct_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := correct_till_payment.amount;
  charge integer;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if (known.receipt, known.amount) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_amount) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  end if;
  if exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_decision'
      -- What was handed over was handed over for this money.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or came = known.amount))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  if code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code) then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.expect_free_receipt(code, true);
    -- What M-PESA said came is what came.
    select * into told from public.mpesa_transactions as t where t.receipt = code;
    if told.amount >= 100 and told.amount % 100 = 0
      and (told.heard_by_confirmation_at is not null or told.heard_by_statement_at is not null)
    then
      came := told.amount;
    end if;
  end if;
  if (code, came) = (known.receipt, known.amount) then
    return jsonb_build_object('outcome', 'unchanged', 'payment', to_jsonb(known));
  end if;

  update public.payments as p set receipt = code, amount = came, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages about money follow its receipt; their bodies stay as they came.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'amount', correct_till_payment.amount, 'instead_of', jsonb_build_object('receipt', known.receipt, 'amount', known.amount),
      'confirmed_by', member, 'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    code, 'corrected'
  );
  perform private.tell_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'amount', came, 'receipt', code, 'amount_before', known.amount, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_decision' and came = charge and known.amount <> charge then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and came <> known.amount then
    -- As when M-PESA reports less than staff typed: what has not left the shop waits for a person.
    update public.orders as o
    set payment_status = 'needs_decision', status = 'pending', updated_at = now()
    where o.id = paid_order.id;
    perform private.return_units(paid_order.id);
    delete from public.deliveries as d where d.order_id = paid_order.id;
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  -- Not sent yet and no longer true; what is sent again later is queued again.
  delete from public.outbox_messages as m
  where m.order_id = paid_order.id and m.status = 'waiting' and m.attempts = 0 and not private.is_message_true(m.order_id, m.kind);
  perform private.join_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  return jsonb_build_object('outcome', paid_order.payment_status);
end
$$;
comment on function public.correct_till_payment(uuid, text, integer, text, integer) is
  'For staff: corrects the receipt and the amount (in cents) of money that staff confirmed by hand, as long as M-PESA has not confirmed it and it is the only money of its order. Refuses when receipt or amount are not those that were seen. The order follows: paid when the amount is its charge, otherwise it needs a decision.';
grant execute on function public.correct_till_payment(uuid, text, integer, text, integer) to authenticated, service_role;
