-- Retention: personal data is removed after the periods of the settings. Money records stay whole: amounts, receipts, what
-- was sold and what happened to it.

alter table public.orders
  add column anonymised_at timestamptz,
  add column erasure_requested_at timestamptz;
comment on column public.orders.anonymised_at is
  'When name, e-mail, phone, address and notes of the customer were removed. The order itself stays in the books.';
comment on column public.orders.erasure_requested_at is
  'When staff were asked to erase its customer while the order was still open. It is anonymised once it is not.';
create index orders_with_personal_details on public.orders (created_at) where anonymised_at is null;
create index orders_to_anonymise on public.orders (erasure_requested_at)
  where erasure_requested_at is not null and anonymised_at is null;

-- What must stay for now -------------------------------------------------------------------------------------------

create function private.money_under_way(order_id uuid) returns text
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  asked public.orders;
begin
  select * into asked from public.orders as o where o.id = money_under_way.order_id;
  return case
    when asked.payment_status = 'unpaid' and asked.reserved_until is not null then 'It waits for its payment'
    when asked.payment_status = 'needs_decision' then 'Its payment waits for a decision'
    when exists (
      select from public.payments as p where p.order_id = asked.id and p.status in ('initiating', 'processing', 'review')
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = asked.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = asked.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = asked.id and r.status not in ('completed', 'failed', 'withdrawn')
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = asked.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number waits for a decision'
  end;
end
$$;
comment on function private.money_under_way(uuid) is
  'Why the money of an order is not settled yet, as a sentence; null when it is. Until then its customer''s details are needed.';

-- Anonymising orders -----------------------------------------------------------------------------------------------

create or replace function private.keep_order_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'DELETE' and not exists (select from public.orders as o where o.id = old.order_id) then
    return old;
  end if;
  -- The phone of a payment may be removed, and nothing else.
  if tg_op = 'UPDATE' and old.kind like 'payment\_%' and new.details = old.details - 'phone'
    and to_jsonb(new) - 'details' = to_jsonb(old) - 'details'
  then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'The timeline of an order is only added to';
end
$$;

create function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      anonymised_at = now()
  where o.id = any (anonymise_orders.order_ids);
  -- Links in old mails and texts open nothing any more, and the fingerprint of what was typed goes.
  update private.order_keys as k
  set request_hash = '', access_key = replace(gen_random_uuid()::text, '-', '')
  where k.order_id = any (anonymise_orders.order_ids);
  delete from private.order_networks as n where n.order_id = any (anonymise_orders.order_ids);
  update public.payments as p set phone = '' where p.order_id = any (anonymise_orders.order_ids) and p.phone <> '';
  update public.deliveries as d
  set delivery_notes = null
  where d.order_id = any (anonymise_orders.order_ids) and d.delivery_notes is not null;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;
comment on function private.anonymise_orders(uuid[]) is
  'Removes name, e-mail, phone, address and notes of the customer from orders and everything that belongs to them. M-PESA''s own messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

create function private.anonymise_messages(message_ids uuid[]) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  delete from private.outbox_queue as q where q.message_id = any (anonymise_messages.message_ids);
  update public.outbox_messages as m
  set recipient = '', customer_name = '', subject = null, body = null, next_attempt_at = null, updated_at = now(),
      status = case when m.status = 'waiting' then 'failed' else m.status end,
      problem = case when m.status = 'waiting' then 'The recipient was erased' end
  where m.id = any (anonymise_messages.message_ids);
end
$$;
comment on function private.anonymise_messages(uuid[]) is
  'Removes recipient and words from messages. Those that still waited are not sent.';

-- The steps of forgetting, each bounded, so that none takes long ---------------------------------------------------

create function private.forget_message_words() returns integer
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  due uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and m.status not in ('waiting', 'sending')
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  perform private.anonymise_messages(due);
  return cardinality(due);
end
$$;

create function private.forget_payment_words() returns void
language plpgsql
set search_path = ''
as $$
declare
  kept_since timestamptz := now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s));
begin
  -- That M-PESA had not decided yet is no evidence of anything.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- It stays known that it came, when, of what and what it did; what could not be settled yet is kept whole.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < kept_since and old.body <> '{}' and old.outcome is not null and old.outcome <> 'fault'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < kept_since and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
end
$$;

create function private.forget_order_details() returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  kept_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.created_at < kept_since and private.money_under_way(o.id) is null
    order by o.created_at limit 1000
    for update skip locked
  ) || array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.erasure_requested_at is not null and private.reason_to_keep(o.id) is null
    limit 1000
    for update skip locked
  );
begin
  -- Asked again under the lock: a payment may have begun in between.
  perform private.anonymise_orders(array(
    select id from unnest(due) as id where private.money_under_way(id) is null
  ));
  update public.payment_tests as t set phone = '' where t.created_at < kept_since and t.phone <> '';
end
$$;

create function private.reason_to_keep(order_id uuid) returns text
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return coalesce(private.money_under_way(reason_to_keep.order_id), (
    select 'It is paid and not delivered yet'
    from public.orders as o
    where o.id = reason_to_keep.order_id and o.payment_status = 'paid' and o.status not in ('delivered', 'cancelled')
  ), (
    select 'A message to its customer is being sent'
    from public.outbox_messages as m
    where m.order_id = reason_to_keep.order_id and m.status = 'sending'
    limit 1
  ));
end
$$;
comment on function private.reason_to_keep(uuid) is
  'Why an order cannot be anonymised on request yet, as a sentence; null when it can. The retention period does not wait for deliveries that nobody closed.';

create function private.forget_inquiries() returns void
language plpgsql
set search_path = ''
as $$
begin
  delete from public.inquiries as i
  where i.id in (
    select old.id from public.inquiries as old
    where old.created_at < now() - make_interval(months => (select s.inquiries_months from public.store_settings as s))
    order by old.created_at limit 5000
    for update skip locked
  );
end
$$;

create function private.forget_unconfirmed_subscriptions() returns void
language plpgsql
set search_path = ''
as $$
begin
  delete from public.newsletter_subscriptions as n
  where n.id in (
    select old.id from public.newsletter_subscriptions as old
    where old.confirmed_at is null and coalesce(old.confirmation_queued_at, old.created_at) < now() - interval '7 days'
    order by old.created_at limit 5000
    for update skip locked
  );
end
$$;

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  forgotten integer;
begin
  perform private.forget_old_limits();
  forgotten := private.forget_message_words();
  perform private.forget_payment_words();
  perform private.forget_order_details();
  perform private.forget_inquiries();
  perform private.forget_unconfirmed_subscriptions();
  return forgotten;
end
$$;
comment on function public.forget_old_rows() is
  'Removes what is not needed any more, a bounded number of rows of each kind at a time: counters of limits; recipient and words of messages after 90 days; M-PESA''s words, details of orders and inquiries after the periods of store_settings; addresses that were not confirmed for the newsletter within 7 days. Returns the number of messages.';
