-- Earlier versions of the program keep working during the update: procedures keep their names, arguments and results. The texts about stock
-- have the empty values of an order beside their own, for processes that fill in every message, and no one can ask for one before the new
-- version shows the form.

comment on column public.outbox_messages.order_id is 'Null for newsletter mails, replies to inquiries, texts about stock, messages to staff and tests.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of a job the id of its rider, and after a space how many texts that rider had about it before; of newsletter mails the subscription''s id; of replies the inquiry''s id; of texts about stock the alert''s id; of messages to staff the id of the incident, the refund or the audit event; of a repeated message of an order its own id.';

alter table public.store_settings add column offers_stock_alerts boolean not null default true;
comment on column public.store_settings.offers_stock_alerts is
  'Whether visitors may ask for a text when a product is in stock again, and such texts are sent.';
grant update (offers_stock_alerts) on public.store_settings to authenticated;
grant select (offers_stock_alerts) on public.store_settings to anon, authenticated;

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order, a reader, an inquiry or the shop";

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'second_factor_removed'::text, 'job_for_rider'::text, 'back_in_stock'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'second_factor_removed'::text, 'test_message'::text, 'job_for_rider'::text, 'back_in_stock'::text])));

alter table public.outbox_messages add constraint "a message is about an order, a reader, an inquiry or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'second_factor_removed'::text, 'test_message'::text, 'back_in_stock'::text]))));

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when new.kind = 'second_factor_removed' then array['member', 'cause', 'time', 'staff_link']
    when new.kind = 'job_for_rider' then array['order', 'name', 'customer_phone', 'address', 'notes', 'items', 'pay']
    when new.kind = 'back_in_stock' then array['product', 'product_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'arrival', 'code', 'link', 'receipt_link'
    ]
  end;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(written, placeholders);
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

-- Texts about drinks that are in stock again, which visitors ask for (docs/decisions/stock-alerts.md).

create table public.stock_alerts (
  id uuid primary key default gen_random_uuid(),
  product_id uuid not null references public.products (id) on delete cascade,
  phone text not null,
  created_at timestamptz not null default now(),
  ends_at timestamptz not null default now() + interval '60 days',
  constraint "a phone waits once for a product" unique (product_id, phone),
  constraint "a stock alert has a Kenyan mobile number" check (phone ~ '^\+254[17]\d{8}$')
);

comment on table public.stock_alerts is
  'Who asked for one text when a product is in stock again. The text is the message of kind back_in_stock whose event_key is the id; without one the phone waits.';

comment on column public.stock_alerts.ends_at is 'After this time nothing is sent, and the row is deleted. Asking again moves it, not the place in the queue.';

alter table public.stock_alerts enable row level security;

revoke all on public.stock_alerts from anon, authenticated, service_role;

grant select on public.stock_alerts to authenticated, service_role;

create policy "staff read who waits for a product" on public.stock_alerts for select to authenticated using ((select public.may('products')));

create index stock_alerts_by_phone on public.stock_alerts (phone);

create index stock_alerts_by_end on public.stock_alerts (ends_at);

-- One text for each alert, also where two processes queue it at once.
create unique index outbox_messages_of_stock_alerts on public.outbox_messages (event_key)
  where kind = 'back_in_stock' and repeat_of is null;

create index outbox_messages_of_stock_alerts_by_time on public.outbox_messages (created_at) where kind = 'back_in_stock';

create or replace function private.is_waiting_for_stock(alert public.stock_alerts) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return alert.ends_at > now() and not exists (
    select from public.outbox_messages as m where m.kind = 'back_in_stock' and m.repeat_of is null and m.event_key = alert.id::text
  );
end
$$;

create or replace function private.offers_stock_alerts(settings public.store_settings) returns boolean
language sql stable
return settings.offers_stock_alerts and settings.texts_per_day > 0;

create or replace function public.request_stock_alert(product_id uuid, phone text, has_consented boolean default false) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  number text := private.normalised_phone(left(request_stock_alert.phone, 100));
  wanted public.products;
begin
  if not private.count_call('stock_alerts') then
    perform private.refuse(429, 'too_many_stock_alerts', format(
      'Too many requests from your network. Please try again in %s', private.time_left('stock_alerts')
    ));
  elsif not coalesce((select private.offers_stock_alerts(s) from public.store_settings as s), false) then
    return private.refusal_answer('PT409', 'We send no texts about drinks that are back at the moment', 'stock_alerts_off', '');
  elsif request_stock_alert.has_consented is not true then
    return private.refusal_answer('PT400', 'Please tick the box, so that we may text you', 'consent_missing', '');
  elsif number is null then
    return private.refusal_answer('PT400', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)',
      'phone_invalid', '');
  end if;
  select * into wanted from public.products as p where p.id = request_stock_alert.product_id and p.is_active;
  if not found then
    return private.refusal_answer('PT404', 'This product does not exist', 'product_not_found', '');
  elsif public.units_for_sale(wanted) > 0 then
    return private.refusal_answer('PT409', 'This drink is in stock again. You can order it now', 'in_stock', '');
  -- As for a phone that waits, so that no one learns which phones are blocked.
  elsif private.is_blocked(number) then
    return null;
  end if;
  -- Concurrent requests for one phone count one after the other.
  perform pg_advisory_xact_lock(hashtextextended('stock alerts of ' || number, 0));
  -- A text that has left ends the wait.
  delete from public.stock_alerts as a
  where a.product_id = wanted.id and a.phone = number and exists (
    select from public.outbox_messages as m
    where m.kind = 'back_in_stock' and m.repeat_of is null and m.event_key = a.id::text and not private.is_leaving_message(m.status)
  );
  if not exists (select from public.stock_alerts as a where a.product_id = wanted.id and a.phone = number) then
    if 5 <= (select count(*) from public.stock_alerts as a where a.phone = number and private.is_waiting_for_stock(a)) then
      return private.refusal_answer('PT429', 'This number waits for five drinks already. A wait ends with its text, or after 60 days',
        'too_many_stock_alerts', '');
    elsif 5000 <= (select count(*) from public.stock_alerts) then
      return private.refusal_answer('PT429', 'Too many customers wait for drinks at the moment. Please try again another day',
        'too_many_stock_alerts', '');
    end if;
  end if;
  insert into public.stock_alerts as known (product_id, phone) values (wanted.id, number)
  on conflict (product_id, phone) do update set ends_at = excluded.ends_at;
  return null;
end
$$;

comment on function public.request_stock_alert is
  'A visitor asks for one text when a product that is sold out is in stock again. Limited per network and phone; asking twice is one wait, of 60 days. Returns null, or a refusal.';

-- Texts wake people: none by night.
create or replace function private.is_time_for_texts(at timestamptz) returns boolean
language sql stable
return extract(hour from at at time zone 'Africa/Nairobi') between 8 and 20;

create or replace function private.alerts_to_send() returns setof uuid
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  settings public.store_settings := (select s from public.store_settings as s);
  left_today integer;
begin
  if not private.offers_stock_alerts(settings) or private.are_orders_paused(settings) or not private.is_time_for_texts(now())
    or not exists (select from public.stock_alerts)
    or not exists (select from public.message_templates as t where t.kind = 'back_in_stock' and t.channel = 'text' and t.is_on)
  then
    return;
  end if;
  -- A budget of their own, so that texts about orders never lack what these spend. What does not fit waits for the next day.
  left_today := least(
    ceil(settings.texts_per_day / 5.0) - (
      select count(*) from public.outbox_messages as m
      where m.kind = 'back_in_stock' and m.created_at >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
    ),
    settings.texts_per_day / 2 - private.sent_without_priority('text'),
    private.left_of_budget('text')
  );
  if left_today <= 0 then
    return;
  end if;
  return query
    select due.id
    from (
      select a.id, a.created_at, p.units, p.texted,
        row_number() over (partition by a.product_id order by a.created_at, a.id) as place
      from (
        select p.id, public.units_for_sale(p) as units, (
          select count(*)
          from public.outbox_messages as m join public.stock_alerts as texted on texted.id = m.event_key::uuid
          where m.kind = 'back_in_stock' and m.created_at > now() - interval '1 hour' and texted.product_id = p.id
        ) as texted
        from public.products as p
        where p.is_active and public.units_for_sale(p) > 0 and p.id in (select wanted.product_id from public.stock_alerts as wanted)
      ) as p
      join public.stock_alerts as a on a.product_id = p.id
      where private.is_waiting_for_stock(a)
    ) as due
    -- Few units do not call many customers; an hour later, those that are left call further ones.
    where due.place <= 2 * due.units - due.texted
    order by due.created_at, due.id
    limit least(left_today, 100);
end
$$;

comment on function private.alerts_to_send is
  'Alerts whose product is in stock now, oldest first: in any hour two for each unit in stock, in all at most a fifth of the day''s texts. None by night and while orders are paused.';

create or replace function private.queue_stock_texts() returns void
language plpgsql set search_path = '' as $$
begin
  -- Of two processes, one counts.
  if not pg_try_advisory_xact_lock(hashtext('texts about stock')) then
    return;
  end if;
  with queued as (
    insert into public.outbox_messages (
      order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, next_attempt_at
    )
    select null, 'back_in_stock', a.id::text, 'text', a.phone, '', '', '',
      -- A stock that was typed by mistake can be corrected before.
      now() + interval '1 minute'
    from public.stock_alerts as a
    where a.id in (select private.alerts_to_send())
    order by a.created_at, a.id
    on conflict do nothing
    returning id, channel, next_attempt_at
  )
  insert into private.outbox_queue (message_id, channel, due_at) select q.id, q.channel, q.next_attempt_at from queued as q;
exception when others then
  -- Messages about orders leave all the same.
  raise warning 'the texts about stock could not be put into the outbox: %', sqlerrm;
end
$$;

comment on function private.queue_stock_texts is
  'Puts due texts about drinks that are in stock again into the outbox. Never fails. A text that is no longer true when it would leave is deleted (begin_message), and its phone waits on.';

create or replace function private.stock_alert_facts(alert_id text) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object('product', (
    select jsonb_build_object('name', p.name, 'slug', p.slug)
    from public.stock_alerts as a join public.products as p on p.id = a.product_id
    where a.id = stock_alert_facts.alert_id::uuid
  ));
$$;

create or replace function private.is_stock_alert_true(alert_id text) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from public.stock_alerts as a join public.products as p on p.id = a.product_id
    where a.id = is_stock_alert_true.alert_id::uuid and a.ends_at > now() and p.is_active and public.units_for_sale(p) > 0
  );
$$;

comment on function private.is_stock_alert_true is 'Whether a phone still waits for its text, and the product can be ordered.';

create or replace function public.waiting_for_stock(product public.products) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return (select count(*) from public.stock_alerts as a where a.product_id = product.id and private.is_waiting_for_stock(a));
end
$$;

comment on function public.waiting_for_stock is 'Computed column for staff: how many phones wait for a text about this product.';

create or replace function private.delete_old_stock_alerts() returns void
language sql set search_path = '' as $$
  delete from public.stock_alerts as a
  where a.id in (
    select old.id from public.stock_alerts as old
    where old.ends_at < now() or exists (
      select from public.outbox_messages as m
      where m.kind = 'back_in_stock' and m.repeat_of is null and m.event_key = old.id::text
        and not private.is_leaving_message(m.status) and m.updated_at < now() - interval '1 day'
    )
    limit 5000
    for update skip locked
  );
$$;

comment on function private.delete_old_stock_alerts is 'Deletes alerts that ended, and those whose text left a day ago.';

-- Execution rights
grant execute on function public.request_stock_alert to anon, authenticated, service_role;

grant execute on function public.waiting_for_stock to authenticated, service_role;

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
  elsif private.is_staff_message(message_facts.kind) then
    return jsonb_build_object('shop', shop) || private.staff_message_facts(message_facts.kind, message_facts.event_key);
  elsif message_facts.kind in ('inquiry_reply', 'test_message') then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  elsif message_facts.kind = 'back_in_stock' then
    -- As above.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    ) || private.stock_alert_facts(message_facts.event_key);
  end if;
  if message_facts.kind = 'job_for_rider' then
    return (select jsonb_build_object(
      'shop', shop, 'tracking_number', o.tracking_number, 'customer_name', o.customer_name, 'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount, 'payment', null, 'failure', null, 'access_key', null,
      'items', array(
        select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        from public.order_items as i where i.order_id = o.id order by i.position
      ),
      'job', jsonb_build_object(
        'order_number', o.order_number, 'phone', o.customer_phone, 'address', concat_ws(', ', o.shipping_address, o.city),
        'notes', concat_ws('; ', o.delivery_notes, (select d.delivery_notes from public.deliveries as d where d.order_id = o.id)),
        'cash_cents', case when o.payment_status = 'unpaid' then o.charge_cents end
      )
    ) from public.orders as o where o.id = message_facts.order_id);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee, 'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'arrival', case when not o.is_collected then coalesce(o.promised_again_at, o.promised_at) end,
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'code', (select d.proof_code from public.deliveries as d where d.order_id = o.id and private.asks_for_code(d)),
    'payment', (
      select jsonb_build_object(
        'charge_cents', coalesce(part.amount_cents, p.charge_cents), 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', coalesce(part.receipt, p.refund_receipt), 'is_credit', case when p.method = 'credit' then true end
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      left join lateral (
        select c.* from public.change_notes as c where c.payment_id = p.id and c.id::text = message_facts.event_key
      ) as part on true
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          when part.id is not null then true
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. code: what the customer says to the rider, where it is asked for. job: of a text to a rider. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Texts about stock: the product. Replies to inquiries and tests: the shop.';

create or replace function public.lease_messages(at_most integer default 10, channel text default null)
returns setof public.leased_message
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  most integer := least(greatest(coalesce(lease_messages.at_most, 10), 1), 100);
  lost uuid[];
  due uuid[];
begin
  if lease_messages.channel is distinct from 'mail' then
    perform private.queue_stock_texts();
  end if;
  -- The process ended while it was sending the message.
  lost := array(
    select m.id from public.outbox_messages as m
    where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    for update skip locked
  );
  if cardinality(lost) > 0 then
    update public.outbox_messages as m
    set status = 'unsure', problem = 'The shop stopped while it was sending this. It may have arrived.', updated_at = now()
    where m.id = any (lost);
  end if;

  due := array(
    select next.message_id
    from unnest(case when lease_messages.channel is null then array['mail', 'text'] else array[lease_messages.channel] end)
      as wanted (channel)
    cross join lateral private.due_messages(wanted.channel, most) as next (message_id)
    limit most
  );
  return query
  with taken as (
    update private.outbox_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid()
    where q.message_id = any (due)
    returning q.message_id, q.lease
  )
  select m.id, taken.lease, m.kind, m.channel, m.recipient,
    case when m.is_verbatim then m.subject else worded.subject end, case when m.is_verbatim then m.body else worded.body end,
    private.message_facts(m.order_id, m.kind, m.event_key), m.is_verbatim
  from taken
  -- With an offset these stay lookups by key: a join could read all messages.
  cross join lateral (select * from public.outbox_messages as m where m.id = taken.message_id offset 0) as m
  left join lateral (
    select * from public.message_templates as t where t.kind = m.kind and t.channel = m.channel offset 0
  ) as worded on true
  where m.is_verbatim or worded.id is not null;
end
$$;

comment on function public.lease_messages is
  'Leases due messages for a minute, of one channel or both, each with its template and values; due texts about stock are queued first. Messages whose process ended while sending them become unsure.';

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

create or replace function private.is_still_true(message public.outbox_messages) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(
    case
    when message.kind = 'job_for_rider' and not exists (
      select from public.deliveries as d where d.order_id = message.order_id and d.rider_id::text = split_part(message.event_key, ' ', 1)
    ) then false
    when message.kind = 'back_in_stock' then private.is_stock_alert_true(message.event_key)
    when message.order_id is not null then private.is_message_true(message.order_id, message.kind)
    else private.is_staff_message_true(message.kind, message.event_key) end, false
  );
$$;

comment on function private.is_still_true is 'Whether a message still reports what is so. False if its order was deleted.';

create or replace function public.forget_old_rows() returns integer
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

create or replace function public.export_person(identifier text) returns jsonb
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

create or replace function public.erase_person(identifier text) returns public.erasure
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

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

grant execute on function public.forget_old_rows to service_role;

-- What the shop's processes ask: which jobs have work, and whether the database fits their version

create or replace function private.is_job_due(job text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that do or lease the work, such as lease_payment_queries.
  return case is_job_due.job
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or private.is_open_attempt(p.status)
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (private.is_refund_at_mpesa(r.status) and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where private.is_unsent_refund(r.status)
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    when 'expire-reservations' then exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
    ) or exists (
      select from public.orders as o where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
    ) or exists (
      select from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
    ) or exists (select from public.payments as p where p.status = 'review')
    when 'send-messages' then exists (
      select from private.outbox_queue as q where q.channel = 'mail' and q.due_at <= now()
    ) or exists (
      select from private.outbox_queue as q where q.channel = 'text' and q.due_at <= now()
    ) or exists (select from private.alerts_to_send()) or exists (
      select from public.outbox_messages as m where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    )
    when 'send-notices' then exists (select from private.push_queue as q where q.due_at <= now())
      or exists (select from private.newly_late_orders())
      or exists (select from private.delays_to_announce())
      or not exists (select from private.push_keys)
    else false
  end;
end
$$;

comment on function private.is_job_due is 'Whether a job of the shop''s processes has work now.';

insert into private.limits (name, allowed, within, per_paid_order) values ('stock_alerts', 30, '1 day', 0.2);

insert into public.message_templates (kind, channel, body, default_body)
select 'back_in_stock', 'text', body, body
from (values (
  '{product} is back: {product_link} You asked {shop} for this one text. To stop: {shop_phone}'
)) as template (body);

-- The privacy notice names the new data, where the owner has not written another one. The audit is of changes by staff.
alter table public.shop_texts disable trigger shop_texts_after_change;
update public.shop_texts as t
set body = case when t.body = t.default_body then n.body else t.body end, default_body = n.body
from (
  select replace(
    old.default_body,
    '- **When you join the newsletter:**',
    '- **When you ask for a text about a drink that is sold out:** your phone, until the text has left, and for 60 days at most.' || E'\n'
      || '- **When you join the newsletter:**'
  ) as body
  from public.shop_texts as old where old.slug = 'privacy'
) as n
where t.slug = 'privacy';
alter table public.shop_texts enable trigger shop_texts_after_change;
select pg_catalog.pg_notify('page_changes', '{"table": "shop_texts"}');
