-- Personal data: retention, export and erasure (docs/decisions/personal-data.md).

create table private.person_hash_key (
  id boolean primary key default true,
  key bytea not null default sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')),
  constraint "there is one key" check (id)
);
comment on table private.person_hash_key is
  'Key of the hashes in personal_data_requests, so that phone numbers cannot be guessed from them.';
alter table private.person_hash_key enable row level security;

create table public.personal_data_requests (
  id bigint generated always as identity primary key,
  kind text not null,
  person_hash text not null,
  counts jsonb not null,
  requested_by uuid,
  requested_by_email text,
  requested_at timestamptz not null default clock_timestamp(),
  constraint "a request is known" check (kind in ('export', 'erasure'))
);
comment on table public.personal_data_requests is
  'Log of exports and erasures of personal data by staff. Append-only. Persons are keyed hashes.';
alter table public.personal_data_requests enable row level security;
revoke all on public.personal_data_requests from anon, authenticated, service_role;
grant select on public.personal_data_requests to authenticated, service_role;
create policy "staff read the requests" on public.personal_data_requests
  for select to authenticated using ((select public.may('personal_data')));
create index personal_data_requests_of_a_person on public.personal_data_requests (person_hash, requested_at desc);

create function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  old_messages uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and not private.is_leaving_message(m.status)
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.network_paid_orders as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
  delete from private.hold_time as t where t.counts_until < now();
  delete from public.notices as n where n.created_at < now() - interval '7 days';
  delete from private.newsletter_mailed as m where m.mailed_at < now() - interval '30 days';
  perform private.delete_old_stock_alerts();
  perform private.anonymise_messages(old_messages);
  perform private.clear_old_payment_messages();
  perform private.anonymise_old_orders();
  perform private.reduce_abandoned_orders();
  delete from public.inquiries as i
  where i.id in (
    select old.id from public.inquiries as old
    where old.created_at < now() - make_interval(months => (select s.inquiries_months from public.store_settings as s))
    order by old.created_at limit 5000
    for update skip locked
  );
  delete from public.newsletter_subscriptions as n
  where n.id in (
    select old.id from public.newsletter_subscriptions as old
    where old.confirmed_at is null and coalesce(old.confirmation_queued_at, old.created_at) < now() - interval '7 days'
    order by old.created_at limit 5000
    for update skip locked
  );
  return cardinality(old_messages);
end
$$;
comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; notices to staff after a week; who waits for a product after 60 days; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

create function private.unsettled_money_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
declare
  unsettled public.orders;
begin
  select * into unsettled from public.orders as o where o.id = unsettled_money_reason.order_id;
  return case
    when unsettled.payment_status = 'unpaid' and unsettled.status <> 'cancelled' then 'It waits for its payment'
    when unsettled.payment_status = 'needs_review' then 'Its payment needs review'
    when exists (
      select from public.payments as p where p.order_id = unsettled.id and private.is_unsettled_attempt(p.status)
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
        -- What was kept may have paid other orders.
        and private.left_to_refund(p) > 0
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and private.is_open_refund(r.status)
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
    when exists (
      select from public.payments as p
      join public.change_notes as c on c.payment_id = p.id
      where p.order_id = unsettled.id and p.refunded_at is null
      group by p.id
      having sum(c.amount_cents) filter (where c.kind = 'to_return') > coalesce(sum(case
        when c.kind in ('used', 'not_owed') or (c.kind = 'returned' and not c.is_part_refund) then c.amount_cents
        when c.kind = 'use_taken_back' then -c.amount_cents
      end), 0)
    ) then 'Change is owed to its customer'
    when exists (
      select from public.messages_to_check as m
      join public.payments as p on p.id = m.payment_id
      where p.order_id = unsettled.id and m.resolution is null
    ) then 'A message of M-PESA about its payment is being checked'
  end;
end
$$;
comment on function private.unsettled_money_reason is
  'Why the money of an order is not settled yet, as a sentence. Null: settled. Until then the customer''s details are needed.';

create function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      map_point = null, cancel_answer = case when o.cancel_declined_at is not null then '' end, anonymised_at = now()
  where o.id = any (anonymise_orders.order_ids);
  -- Links in old messages stop working.
  update private.order_keys as k
  set request_hash = '', access_key = replace(gen_random_uuid()::text, '-', '')
  where k.order_id = any (anonymise_orders.order_ids);
  delete from private.order_networks as n where n.order_id = any (anonymise_orders.order_ids);
  update public.payments as p set phone = '' where p.order_id = any (anonymise_orders.order_ids) and p.phone <> '';
  update public.deliveries as d
  set delivery_notes = null
  where d.order_id = any (anonymise_orders.order_ids) and d.delivery_notes is not null;
  update public.ratings as r set words = null, may_quote = false, quoted_at = null
  where r.order_id = any (anonymise_orders.order_ids) and r.words is not null;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;
comment on function private.anonymise_orders is
  'Removes the customer''s name, email, phone, address, point on the map and notes from orders and related rows. M-PESA''s messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

create function private.anonymise_messages(message_ids uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  delete from private.outbox_queue as q where q.message_id = any (anonymise_messages.message_ids);
  update public.outbox_messages as m
  set recipient = '', customer_name = '', subject = null, body = null, next_attempt_at = null, updated_at = now(),
      status = case when m.status = 'waiting' then 'failed' else m.status end,
      problem = case when m.status = 'waiting' then 'The recipient was erased' end
  where m.id = any (anonymise_messages.message_ids);
end
$$;
comment on function private.anonymise_messages is 'Removes recipient and text of messages. Waiting ones are not sent.';

create function private.clear_old_payment_messages() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s));
begin
  -- Responses without a result prove nothing.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- The time, payment and outcome stay. Messages that could not be settled yet stay complete.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < retained_since and old.body <> '{}' and old.outcome is not null
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < retained_since and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  -- Who resolved it, when and how stays; what waits stays complete.
  update public.messages_to_check as m
  set body = '{}', note = null
  where m.id in (
    select old.id from public.messages_to_check as old
    where old.received_at < retained_since and old.resolution is not null and old.body <> '{}'
    order by old.received_at limit 5000
    for update skip locked
  );
end
$$;

create function private.anonymise_old_orders() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and (o.payment_status <> 'unpaid' or o.status = 'cancelled')
      and o.created_at < retained_since and private.unsettled_money_reason(o.id) is null
    order by o.created_at limit 1000
    for no key update skip locked
  ) || array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.erasure_requested_at is not null and private.retention_reason(o.id) is null
    limit 1000
    for no key update skip locked
  );
begin
  -- Checked again under the lock: a payment may have begun in the meantime.
  perform private.anonymise_orders(array(
    select id from unnest(due) as id where private.unsettled_money_reason(id) is null
  ));
  update public.payments as p set phone = '' where p.purpose = 'test' and p.created_at < retained_since and p.phone <> '';
end
$$;

create function private.retention_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
begin
  return coalesce(private.unsettled_money_reason(retention_reason.order_id), (
    select 'It is paid and not delivered yet'
    from public.orders as o
    where o.id = retention_reason.order_id and o.payment_status = 'paid' and private.is_open_order(o.status)
  ), (
    select format('KES %s of credit is owed to its customer. Give it back first', to_char(sum(change.owed_cents) / 100, 'FM999,999,999'))
    from public.payments as p
    cross join lateral private.change_of(p.id) as change
    where p.order_id = retention_reason.order_id and p.status = 'completed' and p.refunded_at is null
    having sum(change.owed_cents) > 0
  ), (
    select 'A message to its customer is being sent'
    from public.outbox_messages as m
    where m.order_id = retention_reason.order_id and m.status = 'sending'
    limit 1
  ));
end
$$;
comment on function private.retention_reason is
  'Why an order cannot be anonymised on request yet, as a sentence. Null: it can. Retention periods ignore deliveries and credit.';

create function private.hash_person(identifier text) returns text
language plpgsql stable set search_path = '' as $$
declare
  secret bytea := (select k.key from private.person_hash_key as k);
begin
  return encode(sha256(secret || sha256(secret || convert_to(hash_person.identifier, 'UTF8'))), 'hex');
end
$$;
comment on function private.hash_person is
  'Keyed hash of a phone or email address, which shows that two requests were about the same person.';

create function private.log_personal_data_request(kind text, identifier text, counts jsonb) returns void
language plpgsql set search_path = '' as $$
begin
  insert into public.personal_data_requests (kind, person_hash, counts, requested_by, requested_by_email)
  values (kind, private.hash_person(identifier), counts, (select auth.uid()), private.email_of((select auth.uid())));
end
$$;

create function private.read_person(identifier text, out email text, out phone text)
language plpgsql immutable set search_path = '' as $$
begin
  if octet_length(read_person.identifier) <= 1016 and private.is_email(trim(read_person.identifier)) then
    email := lower(trim(read_person.identifier));
  else
    phone := private.normalised_phone(read_person.identifier);
  end if;
  if email is null and phone is null then
    perform private.refuse(400, 'person_invalid', 'Please enter a Kenyan mobile number or an email address');
  end if;
end
$$;
comment on function private.read_person is 'A person as email address in lower case, or phone as +254…. Refuses other texts.';

create function private.describe_payment(payment public.payments) returns jsonb
language sql stable
return jsonb_build_object(
  'phone', payment.phone, 'charge_cents', payment.charge_cents, 'status', payment.status, 'method', payment.method,
  'receipt', payment.receipt, 'created_at', payment.created_at, 'completed_at', payment.completed_at,
  'refunded_at', payment.refunded_at, 'refund_receipt', payment.refund_receipt,
  'change', array(
    select jsonb_build_object('kind', c.kind, 'amount_cents', c.amount_cents, 'receipt', c.receipt, 'way', c.way, 'note', c.note, 'noted_at', c.noted_at)
    from public.change_notes as c where c.payment_id = payment.id order by c.noted_at, c.id
  ),
  'payer_name', (select t.payer_name from public.mpesa_transactions as t where t.receipt = payment.receipt),
  'mpesa_messages', array(
    select jsonb_build_object('received_at', m.received_at, 'source', m.source, 'body', m.body)
    from public.payment_messages as m where m.payment_id = payment.id and m.body <> '{}' order by m.id
  )
);

create function private.describe_message(message public.outbox_messages) returns jsonb
language sql immutable
return jsonb_build_object(
  'kind', message.kind, 'channel', message.channel, 'recipient', message.recipient, 'subject', message.subject,
  'body', message.body, 'status', message.status, 'created_at', message.created_at, 'sent_at', message.sent_at
);

create function private.is_phone(written text, phone text) returns boolean
language sql immutable
-- Reading a phone costs much more than comparing its last digits.
return right(regexp_replace(is_phone.written, '[^0-9]', '', 'g'), 9) = right(is_phone.phone, 9)
  and private.normalised_phone(is_phone.written) = is_phone.phone;

create function private.orders_of_person(email text, phone text) returns uuid[]
language plpgsql stable set search_path = '' as $$
begin
  return array(
    select o.id
    from public.orders as o
    -- Served by the index of the order search.
    where private.without_accents(private.order_text(o)) like
        '%' || regexp_replace(private.without_accents(coalesce(orders_of_person.email, orders_of_person.phone)), '([\\%_])', '\\\1', 'g') || '%'
      and (lower(o.customer_email) = orders_of_person.email or o.customer_phone = orders_of_person.phone)
    order by o.created_at desc, o.id
  );
end
$$;
comment on function private.orders_of_person is 'The orders with this email address, in lower case, or this phone, newest first.';

create function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff('personal_data');
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := private.orders_of_person(person.email, person.phone);
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'area', o.area_name, 'map_point', o.map_point,
        'delivery_day', o.delivery_day, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'discount_code', o.discount_code, 'discount_cents', o.discount_cents,
        'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.position
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'rating', (
          select private.describe_rating(r) || jsonb_build_object('rated_at', r.created_at) from public.ratings as r where r.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m
          -- The recipient of a text to a rider is someone else.
          where m.order_id = o.id and m.kind <> 'job_for_rider' order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - '{id,is_read,answered_by,answered_at}'::text[] || jsonb_build_object('answers', array(
        select jsonb_build_object('by', a.way, 'body', a.body, 'answered_at', a.answered_at)
        from public.inquiry_answers as a where a.inquiry_id = i.id order by a.answered_at
      ))
      from public.inquiries as i
      where lower(i.email) = person.email or private.is_phone(i.phone, person.phone)
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and m.kind <> 'inquiry_reply' and lower(m.recipient) = person.email order by m.created_at
    ),
    'waits_for_drinks', array(
      select jsonb_build_object('product', p.name, 'created_at', a.created_at, 'ends_at', a.ends_at)
      from public.stock_alerts as a join public.products as p on p.id = a.product_id
      where a.phone = person.phone order by a.created_at
    ),
    'texts_about_drinks', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.kind = 'back_in_stock' and m.recipient = person.phone order by m.created_at
    ),
    'notes_of_staff', (
      select jsonb_build_object('notes', n.notes, 'updated_at', n.updated_at) from public.customer_notes as n where n.phone = person.phone
    ),
    'blocked', (
      select jsonb_build_object('reason', b.reason, 'blocked_at', b.blocked_at)
      from public.blocked_phones as b where b.person_hash = private.hash_person(person.phone)
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;
comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

create type public.erased_counts as (
  orders integer, payments_for_others integer, inquiries integer, newsletter integer
);

create type public.postponed_order as (
  id uuid, order_number text, reason text, is_own boolean
);

create type public.erasure as (identifier text, erased public.erased_counts, postponed public.postponed_order[]);

create function public.erase_person(identifier text) returns public.erasure
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  closed uuid[];
  erased public.erased_counts;
  postponed public.postponed_order[];
begin
  perform private.expect_staff('personal_data');
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.id = any (private.orders_of_person(person.email, person.phone)
        || array(select p.order_id from public.payments as p where p.phone = person.phone and p.order_id is not null))
      and o.anonymised_at is null
    order by o.id
    for no key update
  );

  closed := array(
    select o.id from public.orders as o
    where o.id = any (order_ids) and (lower(o.customer_email) = person.email or o.customer_phone = person.phone)
      and private.retention_reason(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased.orders := cardinality(closed);
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.retention_reason(p.order_id) is null;
  get diagnostics erased.payments_for_others = row_count;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.retention_reason(e.order_id) is null;
  update public.payments as p set phone = ''
  where p.purpose = 'test' and p.phone = person.phone and not private.is_open_attempt(p.status);

  delete from public.inquiries as i where lower(i.email) = person.email or private.is_phone(i.phone, person.phone);
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

  delete from public.stock_alerts as a where a.phone = person.phone;
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m
    where m.kind = 'back_in_stock' and m.recipient = person.phone and m.status <> 'sending'
  ));
  delete from public.customer_notes as n where n.phone = person.phone;
  -- The phone stays blocked, without being stored.
  update public.blocked_phones as b set phone = null, reason = null where b.person_hash = private.hash_person(person.phone);

  postponed := array(
    select (
      o.id, o.order_number, private.retention_reason(o.id),
      coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
    )::public.postponed_order
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.retention_reason(o.id) is not null
    order by o.created_at desc
  );
  perform private.log_personal_data_request(
    'erasure', person_key, to_jsonb(erased) || jsonb_build_object('postponed', cardinality(postponed))
  );
  return (person_key, erased, postponed)::public.erasure;
end
$$;
comment on function public.erase_person is
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries, waits for drinks, notes of staff and the newsletter subscription; a blocked phone stays blocked as a hash. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

create trigger personal_data_requests_before_change before update or delete on public.personal_data_requests
  for each row execute function private.refuse_change('The log of requests is only added to');
create trigger personal_data_requests_before_truncate before truncate on public.personal_data_requests
  for each statement execute function private.refuse_change('The log of requests is only added to');

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;
grant execute on function public.forget_old_rows to service_role;
