drop trigger profiles_announce_deactivation on public.admin_profiles;

drop trigger profiles_announce_removal on public.admin_profiles;

drop trigger categories_all_leave_pages on public.categories;

drop trigger categories_come_and_go_on_pages on public.categories;

drop trigger categories_lock_their_products on public.categories;

drop trigger categories_tidy_their_name on public.categories;

drop trigger deliveries_follow_their_status on public.deliveries;

drop trigger deliveries_have_happened on public.deliveries;

drop trigger deliveries_move_new_orders on public.deliveries;

drop trigger deliveries_move_orders on public.deliveries;

drop trigger deliveries_wait_for_orders on public.deliveries;

drop trigger message_templates_are_checked on public.message_templates;

drop trigger message_templates_date_their_edit on public.message_templates;

drop trigger transactions_of_tests_are_known on public.mpesa_transactions;

drop trigger orders_are_held_while_their_money_goes_back on public.orders;

drop trigger orders_count_held_units on public.orders;

drop trigger orders_leave_the_shop_paid on public.orders;

drop trigger orders_move_their_units on public.orders;

drop trigger orders_note_their_refund on public.orders;

drop trigger orders_take_held_units_along on public.orders;

drop trigger orders_take_their_events_along on public.orders;

drop trigger orders_take_their_messages_along on public.orders;

drop trigger orders_tell_customers_what_happened on public.orders;

drop trigger orders_tell_followers on public.orders;

drop trigger orders_tell_that_they_were_placed on public.orders;

drop trigger orders_tell_what_happened on public.orders;

drop trigger orders_then_move_their_delivery on public.orders;

drop trigger payment_tests_end_the_pause on public.payment_tests;

drop trigger payment_tests_set_their_money_aside on public.payment_tests;

drop trigger payments_claim_their_transaction on public.payments;

drop trigger payments_hold_the_same_amount on public.payments;

drop trigger payments_pause_prompts on public.payments;

drop trigger payments_respect_the_pause on public.payments;

drop trigger payments_send_the_link_to_their_order on public.payments;

drop trigger payments_take_the_refund_of_their_receipt on public.payments;

drop trigger payments_take_their_order_along on public.payments;

drop trigger payments_tell_followers_of_a_check on public.payments;

drop trigger payments_tell_followers_of_a_prompt on public.payments;

drop trigger payments_tell_what_happened on public.payments;

drop trigger products_change_in_search on public.products;

drop trigger products_change_pages on public.products;

drop trigger products_come_and_go_in_search on public.products;

drop trigger products_come_and_go_on_pages on public.products;

drop trigger products_date_their_edit on public.products;

drop trigger products_end_outdated_offers on public.products;

drop trigger refunds_of_payments_are_remembered on public.refunds;

drop trigger refunds_tell_followers on public.refunds;

drop trigger refunds_tell_what_happened on public.refunds;

drop trigger refunds_that_end_reopen_their_transaction on public.refunds;

drop trigger store_settings_change_pages on public.store_settings;

drop trigger store_settings_date_their_edit on public.store_settings;

drop trigger store_settings_have_an_email_address on public.store_settings;

drop trigger store_settings_keep_who_raised_the_refund_limit on public.store_settings;

drop function private.check_handover();

drop function private.count_held_units();

drop function private.date_product_edit();

drop function private.end_outdated_offer();

drop function private.end_pause_by_test();

drop function private.expect_support_email();

drop function private.follow_product();

drop function private.follow_refunded_payment();

drop function private.forget_messages();

drop function private.forget_order_events();

drop function private.hold_refunded_order();

drop function private.hold_same_amount();

drop function private.keep_refund_limit_raise();

drop function private.keep_refund_of_payment();

drop function private.lock_order_of_delivery();

drop function private.lock_products_of_category();

drop function private.move_delivery_with_order();

drop function private.move_order_with_delivery();

drop function private.move_refund_with_receipt();

drop function private.move_units_with_status();

drop function private.note_refund_of_order();

drop function private.pause_prompts();

drop function private.refuse_prompt_in_pause();

drop function private.reopen_transaction_of_refund();

drop function private.send_link_with_prompt();

drop function private.set_test_money_aside();

drop function private.tell_customer();

drop function private.tell_delivery_events();

drop function private.tell_followers_of_check();

drop function private.tell_followers_of_refund();

drop function private.tell_order_events();

drop function private.tell_order_followers();

drop function private.tell_payment_events();

drop function private.tell_refund_events();

drop function private.tidy_category_name();

-- The settings in the hands of several members of staff: nobody's change is silently lost, and nothing odd gets in.
create or replace function private.time_of_edit(old jsonb, new jsonb) returns timestamptz
language sql volatile
set search_path = ''
as $$
  -- A save names the updated_at that it saw: two edits never have the same, even when the clock is set back.
  select case
    when old - 'updated_at' is distinct from new - 'updated_at'
    then greatest(clock_timestamp(), (old ->> 'updated_at')::timestamptz + interval '1 microsecond')
    else (old ->> 'updated_at')::timestamptz
  end;
$$;

comment on function private.time_of_edit(jsonb, jsonb) is 'updated_at of an edited row: later than before when anything else changed, else as before.';

create or replace function private.date_settings_edit() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

-- Settings
create or replace function private.expect_support_email(email text) returns void
language plpgsql
set search_path = ''
as $$
begin
  if not private.is_email(expect_support_email.email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
end
$$;

create or replace function private.update_product_search(old public.products, new public.products) returns void
language plpgsql
set search_path = ''
as $$
declare
  removed text[];
begin
  if old.id is not null then
    removed := string_to_array(array_to_string(private.searchable_texts(old), ' '), ' ');
    delete from private.searchable_products as s where s.product_id = old.id;
  end if;
  if new.is_active then
    perform private.index_product(new);
    removed := array(
      select unnest(removed) except select string_to_table(array_to_string(private.searchable_texts(new), ' '), ' ')
    );
  end if;
  if cardinality(removed) > 0 then
    perform private.forget_words(removed);
  end if;
end
$$;

-- Staff
create or replace function private.move_units_with_status(old public.orders, new public.orders) returns public.orders
language plpgsql
set search_path = ''
as $$
declare
  minutes interval;
begin
  if new.status = 'cancelled' then
    -- Units that have left the shop do not come back by themselves.
    if new.payment_status in ('paid', 'refunded') and new.units_returned_at is null and old.status in ('pending', 'processing') then
      perform private.return_units(new.id);
      new.units_returned_at := now();
    end if;
  elsif new.payment_status in ('paid', 'refunded') and new.units_returned_at is not null then
    perform private.take_units(new.id);
    new.units_returned_at := null;
  elsif new.payment_status = 'unpaid' and new.reserved_until is null then
    perform private.take_units(new.id);
    select make_interval(mins => s.reservation_minutes) into minutes from public.store_settings as s;
    new.expires_at := now() + minutes;
    new.reserved_until := new.expires_at;
    new.expiry_limit := now() + 2 * minutes;
    new.extended_at := null;
  end if;
  return new;
end
$$;

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
declare
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and new.status in ('pending', 'cancelled');
begin
  if is_held and not was_held then
    insert into private.held_units as known (product_id, quantity)
    select i.product_id, sum(i.quantity)
    from public.order_items as i
    where i.order_id = new.id and i.product_id is not null
    group by i.product_id
    order by i.product_id
    on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  elsif was_held and not is_held then
    update private.held_units as known
    set quantity = known.quantity - held.quantity
    from (
      select i.product_id, sum(i.quantity) as quantity
      from public.order_items as i
      where i.order_id = old.id
      group by i.product_id
    ) as held
    where known.product_id = held.product_id;
  end if;
  if new.id is null then
    return;
  end if;

  -- An order that was paid, or that staff hand on unpaid, counts for no limit.
  if new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled') then
    delete from private.order_networks as k where k.order_id = new.id;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        taken = k.taken + case
          when is_held and not was_held then coalesce((
            select sum(i.quantity) from public.order_items as i where i.order_id = new.id and i.product_id = k.product_id
          ), 0)
          else 0
        end,
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
end
$$;

create or replace function private.notify_followers_of_order(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.notify_order_followers(o) from public.orders as o where o.id = notify_followers_of_order.order_id;
end
$$;

create or replace function private.refuse_same_amount(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  told_at timestamptz;
begin
  select max(p.updated_at) into told_at
  from public.payments as p
  where p.phone = new.phone and p.amount = new.amount and p.result_code = '17' and p.status = 'failed'
    and p.updated_at > now() - interval '2 minutes';
  if told_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from told_at + interval '2 minutes' - now()))::integer
    ));
  end if;
end
$$;

-- The shillings of tests
create or replace function private.set_test_money_aside(receipt text) returns void
language plpgsql
set search_path = ''
as $$
begin
  update public.mpesa_transactions as t
  set resolution = 'not_an_order', resolved_at = now(), updated_at = now()
  where t.receipt = set_test_money_aside.receipt and t.payment_id is null and t.resolution is null
    and exists (select from public.payment_tests as test where test.receipt = set_test_money_aside.receipt);
end
$$;

comment on function private.set_test_money_aside(text) is 'The money of a test is known, and no order''s: reconciliation need not ask about it.';

create or replace function private.record_refund_limit_raise(old public.store_settings, new public.store_settings) returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
  select member.id, (select u.email from auth.users as u where u.id = member.id),
    old.refund_approval_above, new.refund_approval_above
  from (select auth.uid() as id) as member
  where member.id is not null;
end
$$;

-- What follows from it
-- A paid order is delivered or its money sent back, never both.
create or replace function private.refuse_while_refund_is_open(new public.orders) returns void
language plpgsql
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
end
$$;

-- Whoever notes that an order's money was sent back: its payment's books follow.
create or replace function private.record_refund_of_order(new public.orders) returns void
language plpgsql
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
end
$$;

-- The money of an order went back: what is decided about the order follows the rules of decide_paid_order.
create or replace function private.refund_order_of_payment(new public.payments) returns void
language plpgsql
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
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- It was paid in parts: it is refunded with the last one.
    perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    return;
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
end
$$;

-- Two entries of one receipt became one payment: its refund belongs to the one that stays.
create or replace function private.move_refund_with_receipt(new public.payments) returns public.payments
language plpgsql
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

-- Every refund of a payment is in the history of its money, wherever it was asked for or noted: at the order as in the reconciliation.
create or replace function private.record_refund_in_reconciliation(new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  select new.receipt, p.id, p.order_id, 'refund',
    case when new.method = 'by_hand' and new.refund_receipt is not null
      then format('By hand, receipt %s: %s', new.refund_receipt, new.reason) else new.reason end,
    new.requested_by, new.requested_by_email
  from public.payments as p
  where p.id = new.payment_id;
end
$$;

-- Refunds of money that belongs to no payment.

create or replace function private.reopen_transaction_of_refund(new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
declare
  member uuid := (select auth.uid());
begin
  update public.mpesa_transactions as t
  set resolution = null, resolved_by = null, resolved_at = null, updated_at = now()
  where t.receipt = new.receipt and t.resolution = 'refund';
  if found or new.transaction_receipt is not null or 'refund' = (
    select e.kind from public.reconciliation_events as e where e.payment_id = new.payment_id order by e.id desc limit 1
  ) then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      new.receipt, new.payment_id, (select p.order_id from public.payments as p where p.id = new.payment_id), 'reopened',
      case new.status
        when 'withdrawn' then 'The refund was withdrawn'
        else 'The refund failed'
      end || coalesce(': ' || new.result_description, ''),
      member, (select u.email from auth.users as u where u.id = member)
    );
  end if;
end
$$;

-- Hosted projects load safeupdate for API connections: it refuses an UPDATE or DELETE without a WHERE, also within a function.
create or replace function private.end_prompt_pause() returns void
language sql
set search_path = ''
as $$
  delete from private.prompt_pause where true;
  delete from private.prompt_faults where true;
$$;

create or replace function private.pause_prompts(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  end if;
  if not private.is_configuration_fault(new.result_code, new.result_description) then
    -- It neither proved that M-PESA works nor that it does not: the next one tries it.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  -- What is refused at once has reached no phone; what comes later may be about the phone.
  if new.checkout_request_id is not null and not private.is_credential_fault(new.result_code, new.result_description) then
    insert into private.prompt_faults as known (phone, at) values (new.phone, now())
    on conflict (phone) do update set at = excluded.at;
    -- A second phone says so as well, now or when it was the one that tried it after a pause.
    if not exists (
      select from private.prompt_faults as f where f.phone <> new.phone and f.at > now() - interval '10 minutes'
    ) and not exists (
      select from private.prompt_pause as paused
      where paused.caused_by <> new.phone and paused.until between now() - interval '1 hour' and now()
    ) then
      update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
      return;
    end if;
  end if;
  insert into private.prompt_pause as paused (code, description, caused_by, until)
  values (new.result_code, new.result_description, new.phone, now() + interval '5 minutes')
  on conflict (id) do update
  set code = excluded.code,
      description = excluded.description,
      caused_by = excluded.caused_by,
      probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      since = case when paused.until > now() - interval '1 hour' then paused.since else now() end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then least(interval '5 minutes' * power(2, least(paused.times, 10)), interval '1 hour')
        else interval '5 minutes'
      end
  -- Prompts that were on their way already fail for the same reason: they make it no longer.
  where paused.until <= now();
end
$$;

create or replace function private.refuse_prompt_in_pause() returns void
language plpgsql
set search_path = ''
as $$
declare
  must_wait boolean;
begin
  select paused.until > now()
    or coalesce(paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes', false)
  into must_wait
  from private.prompt_pause as paused for update;
  if not must_wait then
    -- This one tries it; the others wait for what becomes of it.
    update private.prompt_pause as paused set probe_at = now() where true;
  elsif must_wait then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is kept: please try again in a few minutes');
  end if;
end
$$;

create or replace function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql
set search_path = ''
as $$
declare
  wanted text := private.order_status_of_delivery(new.delivery_status);
  had_wanted text := private.order_status_of_delivery(old.delivery_status);
begin
  if wanted is not null then
    update public.orders as o
    set status = wanted, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.told_status(o.status) is distinct from wanted;
  elsif had_wanted is not null then
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.told_status(o.status) = had_wanted;
  end if;
end
$$;

create or replace function private.move_delivery_with_order(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
declare
  delivery public.deliveries;
  wanted text;
begin
  -- Who changes a delivery waits for its order, and looks at it then: to wait for him would be a deadlock.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    wanted := private.delivery_status_beside(
      new.status,
      -- An order that is taken up again is brought anew.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = wanted
    where d.id = delivery.id and d.delivery_status <> wanted;
  end if;
end
$$;

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
begin
  if old.id is null then
    perform private.tell_order_event(new.id, 'order_placed', 'customer', jsonb_build_object(
      'total_amount', new.total_amount,
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    return;
  end if;
  if old.payment_status <> new.payment_status then
    perform private.tell_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_decision') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.tell_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          -- Only expire_reservations empties expires_at.
          when new.status = 'cancelled' and new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null
            then 'not_paid_in_time'
          when pg_trigger_depth() > 1 then 'delivery'
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.tell_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.tell_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

create or replace function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'amount', new.amount,
    'method', case when new.method <> 'prompt' then new.method end
  );
  answer jsonb := jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- It is settled in the same transaction, and told then.
    if new.method = 'till' then
      return;
    end if;
    perform private.tell_order_event(new.order_id, 'payment_prompted', 'customer', payment);
    if new.status in ('initiating', 'processing') then
      return;
    end if;
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.tell_order_event(new.order_id, 'payment_receipt_known', 'mpesa', payment || answer);
    end if;
    return;
  end if;
  if new.status = 'completed' then
    perform private.tell_order_event(new.order_id, 'payment_completed', 'mpesa',
      payment || answer || case when new.needs_refund then '{"needs_refund": true}' else '{}' end::jsonb);
  elsif new.status = 'failed' then
    perform private.tell_order_event(new.order_id, 'payment_failed', 'mpesa', payment || answer);
  elsif new.status = 'review' then
    perform private.tell_order_event(new.order_id, 'payment_in_review', 'mpesa', payment || answer);
  elsif new.status = 'unresolved' then
    perform private.tell_order_event(new.order_id, 'payment_unresolved', 'shop', payment || answer);
  end if;
end
$$;

-- Deliveries
create or replace function private.record_delivery_events(old public.deliveries, new public.deliveries) returns void
language plpgsql
set search_path = ''
as $$
declare
  is_made boolean := old.id is null;
  status_before text := case when is_made then 'pending' else old.delivery_status end;
  courier jsonb := jsonb_build_object('person', new.delivery_person, 'phone', new.delivery_phone, 'vehicle', new.delivery_vehicle);
  is_newly_assigned boolean := new.delivery_person is not null and (is_made
    or (old.delivery_person, old.delivery_phone, old.delivery_vehicle)
      is distinct from (new.delivery_person, new.delivery_phone, new.delivery_vehicle));
begin
  if is_made then
    perform private.tell_order_event(new.order_id, 'delivery_made', 'shop');
  end if;
  if is_newly_assigned then
    perform private.tell_order_event(new.order_id, 'delivery_assigned', 'shop',
      courier || jsonb_build_object('instead_of', case when not is_made then nullif(old.delivery_person, new.delivery_person) end));
  end if;
  -- That it is assigned is told by whom it is assigned to.
  if new.delivery_status <> status_before and not (is_newly_assigned and new.delivery_status = 'assigned') then
    perform private.tell_order_event(new.order_id, 'delivery_status_changed', 'shop',
      jsonb_build_object('from', status_before, 'to', new.delivery_status));
  end if;
end
$$;

-- The timeline
-- It tells of an approval, not of every try.
create or replace function private.record_refund_events(old public.refunds, new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (old.id is not null and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order tells that its money was sent back; without a receipt there is nothing to add.
    or (old.id is null and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return;
  end if;
  perform private.tell_order_event(
    refunded_order,
    'refund_' || case when old.id is null and new.status <> 'completed' then 'requested' else new.status end,
    case when new.status in ('completed', 'failed') then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'amount', new.amount, 'method', new.method,
      'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end,
      'result_code', case when new.status in ('failed', 'unknown') then new.result_code end,
      'result_description', case when new.status in ('failed', 'unknown') then new.result_description end
    )
  );
end
$$;

-- Changes of a status by staff: unpaid orders are handed over only with consent, refunded ones never, and for 15 seconds a change
-- can be undone and its message to the customer is held back.
-- Handing over
create or replace function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- The customer sees both as out for delivery: the second is no other step.
  if private.told_status(old.status) = private.told_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded',
      'The money of this order was sent back. It can be neither shipped nor delivered');
  end if;
  if coalesce(current_setting('private.although_unpaid', true), '') <> 'yes'
    and coalesce(current_setting('private.is_undoing', true), '') <> 'yes'
  then
    perform private.refuse(409, 'order_unpaid',
      'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;

comment on function private.check_handover(public.orders, public.orders) is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless set_order_status or set_delivery_status was called with although_unpaid.';

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql
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
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create or replace function private.queue_link_with_prompt(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.queue_order_messages(
    new.order_id,
    'order_received',
    channels => case
      -- Another phone than the one that rings gets no text: it may be a stranger's.
      when new.phone = (select o.customer_phone from public.orders as o where o.id = new.order_id) then array['mail', 'text']
      else array['mail']
    end
  );
end
$$;

-- Live updates: notifications that clear cached pages, and tables that staff screens follow.

create or replace function private.announce_page_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  perform pg_catalog.pg_notify('page_changes', jsonb_build_object('table', tg_table_name)::text);
  return null;
end
$$;

comment on function private.announce_page_change() is 'Announces on the channel page_changes, as JSON, that pages with rows of this table changed.';

create or replace function private.announce_product_change(old public.products, new public.products) returns void
language plpgsql
set search_path = ''
as $$
declare
  change jsonb := '{"table": "products"}';
begin
  if old.id is not null then
    change := change || jsonb_build_object('old', jsonb_build_object(
      'slug', old.slug, 'category', old.category, 'is_active', old.is_active,
      'home_section', old.home_section, 'home_position', old.home_position));
  end if;
  if new.id is not null then
    change := change || jsonb_build_object('new', jsonb_build_object(
      'slug', new.slug, 'category', new.category, 'is_active', new.is_active,
      'home_section', new.home_section, 'home_position', new.home_position));
  end if;
  -- A notification holds 8000 bytes. Without its rows it means any row of the table.
  if octet_length(change::text) > 7000 then
    change := '{"table": "products"}';
  end if;
  perform pg_catalog.pg_notify('page_changes', change::text);
end
$$;

comment on function private.announce_product_change(public.products, public.products) is
  'Announces on the channel page_changes, as JSON, the keys of a product before and after.';

-- Staff screens notice within a second that a session has ended or that an account is no longer staff.
create or replace function private.announce_access_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' then
    if new.is_active or not old.is_active then
      return null;
    end if;
  end if;
  -- Only a hint: the screens then ask the services. The topic is the account's id, which only the account itself knows.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || old.user_id, false);
  return null;
end
$$;

comment on function private.announce_access_change() is
  'Broadcasts access_changed on the live channel staff-{user_id}: a session of this account ended, or it is no longer active staff.';

create trigger categories_come_and_go_on_pages after insert or delete or truncate on public.categories
  for each statement execute function private.announce_page_change();

create trigger profiles_after_change after update of is_active or delete on public.admin_profiles
  for each row execute function private.announce_access_change();

-- What follows from a change of a row: one trigger for each table and timing, which calls its steps in the order written here.
-- Steps run as the owner. What a step itself changes fires the triggers of that table before the next step begins.

-- Products, categories and settings

create or replace function private.before_product_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  -- Stock is left out: orders take and return units all day and must not conflict with a staff member's edit.
  -- The date never moves backwards, even when the clock does.
  new.updated_at := case
    when (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
        old.brand, old.is_active, old.home_section, old.home_position)
      is distinct from
      (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
        new.brand, new.is_active, new.home_section, new.home_position)
    then greatest(clock_timestamp(), old.updated_at + interval '1 microsecond')
    else old.updated_at
  end;
  -- An update that does not mention the offer ends it by a price that is not below the previous one.
  if new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price then
    new.previous_price := null;
  end if;
  return new;
end
$$;

create trigger products_before_change before update on public.products
  for each row execute function private.before_product_change();

create or replace function private.after_product_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    perform private.update_product_search(null, new);
    perform private.announce_product_change(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    perform private.update_product_search(old, null);
    perform private.announce_product_change(old, null);
    return null;
  end if;
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
  end if;
  -- Every order takes units, but pages only show whether there are any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;

create trigger products_after_change after insert or update or delete on public.products
  for each row execute function private.after_product_change();

create or replace function private.before_category_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'UPDATE' and old.name <> new.name then
    -- The foreign key renames its products in no certain order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  return new;
end
$$;

create trigger categories_before_change before insert or update of name on public.categories
  for each row execute function private.before_category_change();

create or replace function private.before_settings_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if old.support_email is distinct from new.support_email then
    perform private.expect_support_email(new.support_email);
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger store_settings_before_change before update on public.store_settings
  for each row execute function private.before_settings_change();

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  if new.refund_approval_above > old.refund_approval_above then
    perform private.record_refund_limit_raise(old, new);
  end if;
  return null;
end
$$;

create trigger store_settings_after_change after update on public.store_settings
  for each row execute function private.after_settings_change();

-- Orders

create or replace function private.before_order_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    return old;
  end if;
  if (old.payment_status in ('unpaid', 'needs_decision') and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (old.payment_status in ('paid', 'needs_decision') and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_decision' and old.status <> new.status
      and new.status in ('processing', 'shipped', 'out_for_delivery', 'delivered'))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and new.status in ('shipped', 'out_for_delivery', 'delivered') then
    perform private.check_handover(old, new);
  end if;
  -- An unpaid order that staff hand on takes its units even when it has held none so far.
  if old.payment_status = new.payment_status and old.status <> new.status
    and (old.status = 'cancelled' or new.status = 'cancelled' or (new.payment_status = 'unpaid' and new.reserved_until is null))
  then
    new := private.move_units_with_status(old, new);
  end if;
  return new;
end
$$;

create trigger orders_before_change before update of status, payment_status or delete on public.orders
  for each row execute function private.before_order_change();

create or replace function private.after_order_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    perform private.record_order_events(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  if old.payment_status in ('paid', 'needs_decision') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new);
  end if;
  perform private.record_order_events(old, new);
  if old.status <> new.status and current_setting('private.is_undoing', true) is distinct from 'yes' then
    perform private.move_delivery_with_order(old, new);
  end if;
  return null;
end
$$;

create trigger orders_after_change after insert or update or delete on public.orders
  for each row execute function private.after_order_change();

-- Payments and refunds

create or replace function private.before_payment_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' and new.status = 'initiating' and new.method = 'prompt' then
    perform private.refuse_same_amount(new);
    perform private.refuse_prompt_in_pause();
  end if;
  if new.receipt is not null then
    new := private.move_refund_with_receipt(new);
  end if;
  return new;
end
$$;

create trigger payments_before_change before insert or update of receipt on public.payments
  for each row execute function private.before_payment_change();

create or replace function private.after_payment_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_followers_of_order(new.order_id);
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
    perform private.notify_followers_of_order(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

-- The two exceptions from one trigger fire in the order of their names. The first also fires when an update writes the same receipt
-- again, which no function could see: a transaction with this receipt may have come in the meantime.
create trigger payments_after_receipt after insert or update of receipt on public.payments
  for each row
  when (new.receipt is not null)
  execute function private.link_transaction();

create trigger payments_after_status_change after insert or update on public.payments
  for each row execute function private.after_payment_change();

create or replace function private.after_refund_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' and new.payment_id is not null then
    perform private.record_refund_in_reconciliation(new);
  end if;
  if new.payment_id is not null then
    perform private.notify_followers_of_order(p.order_id) from public.payments as p where p.id = new.payment_id;
  end if;
  if tg_op = 'INSERT' then
    perform private.record_refund_events(null, new);
    return null;
  end if;
  perform private.record_refund_events(old, new);
  if old.status <> new.status and new.status in ('failed', 'withdrawn') then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;

create trigger refunds_after_change after insert or update of status on public.refunds
  for each row execute function private.after_refund_change();

create or replace function private.after_transaction_insert() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.set_test_money_aside(new.receipt);
  return null;
end
$$;

create trigger mpesa_transactions_after_insert after insert on public.mpesa_transactions
  for each row execute function private.after_transaction_insert();

create or replace function private.after_payment_test_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if new.receipt is distinct from old.receipt and new.receipt is not null then
    perform private.set_test_money_aside(new.receipt);
  end if;
  if old.status <> new.status and new.status = 'completed' then
    perform private.end_prompt_pause();
  end if;
  return null;
end
$$;

create trigger payment_tests_after_change after update on public.payment_tests
  for each row execute function private.after_payment_test_change();

-- Deliveries

create trigger deliveries_before_change before insert or update on public.deliveries
  for each row execute function private.follow_delivery_status();

create or replace function private.after_delivery_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    perform private.record_delivery_events(null, new);
    perform private.move_order_with_delivery(null, new);
    return null;
  end if;
  perform private.record_delivery_events(old, new);
  if old.delivery_status <> new.delivery_status and current_setting('private.is_undoing', true) is distinct from 'yes' then
    perform private.move_order_with_delivery(old, new);
  end if;
  return null;
end
$$;

create trigger deliveries_after_change after insert or update on public.deliveries
  for each row execute function private.after_delivery_change();

-- Message templates

create trigger message_templates_before_change before insert or update on public.message_templates
  for each row execute function private.check_message_template();

comment on table private.held_units is
  'Units of a product that unpaid orders hold, so that placing an order does not read all of them. Maintained by private.count_held_units.';
