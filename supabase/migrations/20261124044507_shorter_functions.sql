drop function private.check_support_email(text);

drop function private.check_till_receipt(text,integer);

drop function private.notify_followers_of_order(uuid);

drop function private.notify_order_followers(orders);

drop function private.order_search_pattern(text);

create or replace function private.refusal_answer(code text, message text, details text, hint text) returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  perform set_config('response.status', substr(code, 3), true);
  return jsonb_build_object('code', code, 'message', message, 'details', details, 'hint', hint);
end
$$;

comment on function private.refusal_answer is
  'Refuses without raising, so that counted calls are committed: sets the HTTP status and returns PostgREST''s error body. A public procedure counts first, works in an inner block, and returns this from "exception when sqlstate ''PT000''", which matches every PTxxx.';

create or replace function private.nairobi_day(moment timestamptz) returns date
language sql immutable set search_path = ''
return (moment at time zone 'Africa/Nairobi')::date;

comment on function private.nairobi_day is 'The day in Nairobi at a moment.';

create or replace function private.hits_so_far(bucket text, subject text, within interval) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off as $$
begin
  return coalesce((
    select known.hits
    from private.rate_limits as known
    where known.bucket = hits_so_far.bucket and known.subject = hits_so_far.subject
      and known.window_start = date_bin(hits_so_far.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0);
end
$$;

comment on function private.hits_so_far is 'Number of hits in the current window, without counting one.';

create or replace function private.draw_tracking_number() returns text
language plpgsql volatile set search_path = '' set enable_seqscan = off as $$
declare
  prefix text := 'JJ-' || to_char(private.nairobi_day(now()), 'YYYYMMDD') || '-';
  lowest integer;
  number text;
begin
  -- Four digits; five, then six, when most numbers of the day are taken.
  foreach lowest in array '{1000,1000,1000,1000,10000,10000,10000,10000,100000,100000,100000,100000}'::integer[] loop
    number := prefix || lowest + floor(random() * 9 * lowest)::integer;
    exit when not exists (select from public.orders as o where o.tracking_number = number);
  end loop;
  return number;
end
$$;

comment on function private.draw_tracking_number is
  'A random tracking number of today that no order has. A concurrent order may still take it first.';

create or replace function private.placed_order(order_id uuid) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
      'id', o.id,
      'tracking_number', o.tracking_number,
      'access_key', k.access_key,
      'status', o.status,
      'payment_status', o.payment_status,
      'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount,
      'charge_cents', o.charge_cents,
      'customer_phone', o.customer_phone,
      'reserved_until', o.reserved_until,
      'expires_at', o.expires_at,
      'created_at', o.created_at
    )
    from public.orders as o
    join private.order_keys as k on k.order_id = o.id
    where o.id = placed_order.order_id
  );
end
$$;

comment on function private.placed_order is 'The response of place_order.';

create or replace function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text
) returns private.order_details
language plpgsql immutable set search_path = '' as $$
declare
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
begin
  -- octet_length is cheap: longer texts are refused before they are trimmed, matched or counted.
  if octet_length(customer_name) > 4000 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(customer_email) > 4000 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(octet_length(delivery_location), octet_length(building), octet_length(unit)) > 4000 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(delivery_notes) > 4000 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(customer_name);
  email := trim(customer_email);
  phone := private.normalised_phone(customer_phone);
  location := trim(delivery_location);
  building_name := nullif(trim(building), '');
  unit_name := nullif(trim(unit), '');
  -- Line feeds stay; other control characters become spaces.
  notes := nullif(trim(regexp_replace(delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or char_length(name) < 2 or private.has_control_characters(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  elsif char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif not private.is_email(email) or private.has_control_characters(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif phone is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif location is null or char_length(location) < 3
    or private.has_control_characters(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  elsif char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  return (
    name, email, phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;

comment on function private.read_order_details is 'Checks and trims what a customer typed; refuses what is missing, invalid or too long.';

create or replace function private.return_units(order_id uuid) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = return_units.order_id
  order by p.id
  for update of p;
  update public.products as p
  set stock_quantity = p.stock_quantity + i.quantity
  from public.order_items as i
  where i.order_id = return_units.order_id and p.id = i.product_id;
end
$$;

comment on function private.return_units is 'Returns an order''s units to stock. The caller has locked the order.';

create or replace function private.notify_order_followers(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- Anyone may join the second channel: no personal data, and no order id, which allows paying.
  perform realtime.send(
    jsonb_build_object(
      'id', channel.id, 'tracking_number', o.tracking_number, 'status', private.shown_status(o.status),
      'payment_status', o.payment_status, 'updated_at', o.updated_at
    ),
    'UPDATE',
    'order-' || channel.id,
    false
  )
  from public.orders as o
  cross join lateral (values (o.id), (o.live_handle)) as channel (id)
  where o.id = notify_order_followers.order_id;
end
$$;

comment on function private.notify_order_followers is
  'Broadcasts an order''s status on its live channels order-{id} and order-{live_handle}.';

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, receipt, merchant_request_id, checkout_request_id
  );
  stored_message bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  message_outcome text;
  settled_id uuid;
begin
  if report.result not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into stored_message;

  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_is_refunded => private.is_being_refunded(attempt.id),
    owner_is_refunded => private.is_being_refunded(receipt_owner.id)
  );

  if settlement.splits_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  settled_id := attempt.id;
  case settlement.decision
    when 'completes' then
      message_outcome := private.complete_attempt(attempt, report);
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents));
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      if report.result = 'succeeded' then
        perform private.store_mismatched_money(attempt, report);
      end if;
    when 'confirmed_by_hand' then
      perform private.merge_receipt_owner(attempt, report, receipt_owner);
    when 'second_payment' then
      message_outcome := 'paid_twice';
      settled_id := private.add_second_payment(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = stored_message;
    when 'adds_details' then
      message_outcome := 'already_completed';
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  message_outcome := coalesce(message_outcome, settlement.decision);
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.match_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = stored_message;
  end if;
  if report.result = 'succeeded' and attempt.purpose = 'order' then
    perform private.correct_message_outcomes(m.payment_id) from public.payment_messages as m where m.id = stored_message;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  return (message_outcome, attempt)::public.settled_payment;
end
$$;

comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; every receipt stays in the books; an amount other than the charge needs review.';

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  update public.orders as o
  set payment_status = 'paid', payment_method = 'mpesa',
      status = case when o.status in ('pending', 'cancelled') then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  perform private.create_delivery(paid_order.id);
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

create or replace function public.find_payment_by_secret(callback_secret text) returns uuid
language sql stable security definer set search_path = '' as $$
  select s.payment_id from private.payment_secrets as s where s.callback_secret = find_payment_by_secret.callback_secret;
$$;

comment on function public.find_payment_by_secret is 'The payment with this secret in its callback URL. Null: none.';

-- Execution rights
grant execute on function public.record_push, public.find_payment, public.find_payment_by_secret,
  public.lease_payment_queries
  to service_role;

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false
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
      'email', (select u.email from auth.users as u where u.id = member)
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
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid.';

create or replace function public.store_confirmation(body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (source, body, source_address)
  values ('confirmation', body, source_address)
  returning id;
$$;

comment on function public.store_confirmation is
  'Stores a confirmation verbatim before it is processed. Returns its id for receive_mpesa_transaction.';

create or replace function private.read_receipt(typed text) returns text
language plpgsql stable set search_path = '' as $$
declare
  code text := upper(regexp_replace(typed, '\s', '', 'g'));
begin
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  return code;
end
$$;

comment on function private.read_receipt is
  'An M-PESA receipt that staff typed, in capitals and without spaces. Refuses anything else.';

create or replace function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff();
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received <> known.charge_cents then
    perform private.hold_paid_order(paid_order.id);
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order becomes paid when the amount is its charge, otherwise it needs review.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment to authenticated, service_role;

grant execute on function public.store_confirmation, public.list_unprocessed_confirmations, public.validate_till_payment,
  public.read_till_secret
  to service_role;

create or replace function private.store_message_outcome(
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

create or replace function public.receive_mpesa_transaction(
  source text, receipt text, received_cents integer, reference text default '', transacted_at timestamptz default null,
  payer_phone text default null, payer_name text default null, body text default '', message_id bigint default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := upper(trim(receipt));
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
  elsif coalesce(code, '') = '' or coalesce(received_cents, 0) <= 0 then
    perform private.store_message_outcome(message_id, source, body, null, null, 'unreadable');
    return ('unreadable', null)::public.settled_payment;
  end if;

  -- The order must be locked first, but is known only after reading. If it changed before the lock, read again.
  loop
    for_order := private.order_of_transaction(code, reference);
    begin
      -- Leaving this block releases the lock, so that no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
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
  if for_order is null or is_part or reported.resolution is not null
    or not private.is_whole_shillings(reported.received_cents)
  then
    outcome := 'unmatched';
    perform private.store_message_outcome(message_id, source, body, null, code, outcome);
    return (outcome, null)::public.settled_payment;
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, reported.received_cents, reported.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', reported.received_cents, 'unresolved', 'till')
    returning * into known;
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
  'Stores money that M-PESA reports by a confirmation or its statement, each receipt once. It belongs to the payment with this receipt, else to the order that its reference names: it completes an attempt of the same amount without a receipt, becomes a separate payment, or, if less than the charge, waits for staff. All other money stays unmatched for staff. Idempotent, in any order with other messages.';

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.receipts_not_in_statement
  to service_role;

create or replace function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  if char_length(trim(coalesce(reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, trim(reason),
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, (select u.email from auth.users as u where u.id = member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  return opened;
end
$$;

comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create or replace function private.check_refund_receipt(typed text) returns text
language plpgsql set search_path = '' as $$
declare
  code text := private.read_receipt(typed);
begin
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code) then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  elsif exists (select from public.refunds as r where r.refund_receipt = code) then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create or replace function public.find_refund_by_secret(result_secret text) returns uuid
language sql stable security definer set search_path = '' as $$
  select s.refund_id from private.refund_secrets as s where s.result_secret = find_refund_by_secret.result_secret;
$$;

comment on function public.find_refund_by_secret is 'The refund with this secret in its result URLs. Null: none.';

grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret
  to service_role;

create or replace function public.store_failed_callback(payment_id uuid, body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (payment_id, source, body, source_address, outcome)
  values (payment_id, 'callback', body, source_address, 'error')
  returning id;
$$;

comment on function public.store_failed_callback is
  'Stores a callback that could not be settled, to process it again later: M-PESA sends it once.';

-- Execution rights
grant execute on function public.store_failed_callback, public.list_failed_callbacks, public.finish_failed_callback
  to service_role;

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
    count(*) filter (where r.kind = 'not_compared'),
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

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days, public.suggest_orders,
  public.resolve_difference
  to authenticated, service_role;

create or replace function private.record_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language plpgsql set search_path = '' as $$
begin
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  select
    order_id,
    kind,
    case when member.user_id is null then otherwise else 'staff' end,
    member.user_id,
    member.email,
    jsonb_strip_nulls(details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  from (select) as once
  left join (
    select a.user_id, u.email
    from public.admin_profiles as a
    join auth.users as u on u.id = a.user_id
    where a.user_id = (select auth.uid())
  ) as member on true;
end
$$;

comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the calling staff member, else otherwise.';

create or replace function private.find_by_text(
  list text, searched text, condition text, search text, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  -- Characters match literally. A line break, which would match across two columns, counts as a space. Null for an empty search.
  pattern constant text := '%' || regexp_replace(
    lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g'
  ) || '%';
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  -- A search scans this many of the newest before it uses the trigram index: a broad search has found its page by then.
  nearby constant integer := case when pattern is null then most else 40 * most end;
  newest constant text := format(
    'from public.%I as t where %s%s', list, condition, case when before_id is not null then ' and (t.created_at, t.id) < ($2, $3)' end
  );
  found_ids uuid[];
  is_whole_list boolean;
begin
  execute format(
    'with near as materialized (
       select t.id, t.created_at, coalesce(%s like $1, true) as matches %s order by t.created_at desc, t.id desc limit $5
     )
     select
       (select array_agg(found.id) from (
         select n.id from near as n where n.matches order by n.created_at desc, n.id desc limit $4
       ) as found),
       (select count(*) < $5 from near)',
    searched, newest
  ) into found_ids, is_whole_list using pattern, before_created_at, before_id, most, nearby;
  if pattern is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (select t.id, t.created_at %s and %s like $1)
       select array_agg(last.id)
       from (select f.id from found as f order by f.created_at desc, f.id desc limit $4) as last',
      -- Hides the status from the planner, which would prefer its index.
      replace(newest, 't.status =', $sql$t.status || '' =$sql$), searched
    ) into found_ids using pattern, before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;

comment on function private.find_by_text is
  'The ids of a page of a list, newest first, that meet a condition and whose searched text contains the search. Both are SQL about t, the row.';

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', coalesce((
      select jsonb_agg(
        jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = o.id
    ), '[]'::jsonb),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.event_key = '' then not p.needs_refund
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription.';

create or replace function private.log_personal_data_request(kind text, identifier text, counts jsonb) returns void
language plpgsql set search_path = '' as $$
begin
  insert into public.personal_data_requests (kind, person_hash, counts, requested_by, requested_by_email)
  values (
    kind, private.hash_person(identifier), counts, (select auth.uid()), (select u.email from auth.users as u where u.id = (select auth.uid()))
  );
end
$$;

create or replace function public.record_page_views(views jsonb) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.page_views as counted (day, path, views)
  select private.nairobi_day(now()), private.counted_page(seen.path), sum(seen.views)::integer
  from jsonb_to_recordset(record_page_views.views) as seen (path text, views integer)
  where private.counted_page(seen.path) is not null and seen.views > 0
  group by 2
  -- Always in the same order, so that two processes cannot deadlock.
  order by 2
  on conflict (day, path) do update set views = counted.views + excluded.views;
$$;

comment on function public.record_page_views is 'Adds page views to today''s counts: [{"path": "/shop", "views": 3}, …].';

create or replace function public.daily_figures(days integer default 30) returns table (day date, page_views bigint, orders bigint)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff();
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select t.day, sum(t.orders) as count from private.daily_totals as t where t.day >= first_day group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;

comment on function public.daily_figures is
  'For staff: page views and orders of the last days in Nairobi, including today and days without any.';

-- Execution rights
grant execute on function public.record_page_views, public.record_backup to service_role;

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures to authenticated;

create or replace function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    perform private.record_order_events(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    perform private.count_order(old, null);
    return null;
  end if;
  perform private.count_order(old, new);
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  if old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if old.status <> new.status and current_setting('private.is_undoing', true) is distinct from 'yes' then
    perform private.move_delivery_with_order(old, new);
  end if;
  return null;
end
$$;

create or replace function private.after_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op <> 'INSERT' then
    perform private.count_payment(old, new);
  end if;
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A test pays no order; it only proves that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_order_followers(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if old.status <> new.status and new.method = 'prompt' and new.status in ('completed', 'failed') then
    perform private.pause_prompts(new);
  end if;
  if new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)) then
    perform private.refund_order_of_payment(new);
  end if;
  if old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
    old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
  )) then
    perform private.notify_order_followers(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

create or replace function private.after_refund_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_refund(old, new);
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A refund that got its payment later has been recorded.
  if tg_op = 'UPDATE' and old.payment_id is distinct from new.payment_id then
    return null;
  end if;
  if tg_op = 'INSERT' then
    perform private.record_refund_in_reconciliation(new);
  end if;
  if new.payment_id is not null then
    perform private.notify_order_followers(p.order_id) from public.payments as p where p.id = new.payment_id;
  end if;
  perform private.record_refund_events(old, new);
  if old.status <> new.status and new.status in ('failed', 'withdrawn') then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;
