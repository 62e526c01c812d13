-- Notices to staff: events that wait for someone, and their Web Push to the devices of members (docs/decisions/notices.md).

create table public.notices (
  id uuid primary key default gen_random_uuid(),
  kind text not null,
  event_key text not null,
  order_id uuid references public.orders (id) on delete cascade,
  caused_by uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  constraint "an event has one notice" unique (kind, event_key),
  constraint "a kind of notice is known" check (kind in ('paid_order', 'late_order', 'failed_delivery', 'cancel_request', 'order_to_agree', 'refund_to_approve', 'inquiry', 'low_stock'))
);
comment on table public.notices is
  'Events that wait for staff: a new paid order, a late order, a failed delivery, a request to cancel, an order to agree on, a refund to approve, an inquiry, a drink that is low on stock. Deleted after a week.';
comment on column public.notices.event_key is
  'What makes the event unique within its kind: the id of the order, refund or inquiry; of failed deliveries with the number of failures, of requests to cancel with their time. Of a low stock the product and the day, and the member whose edit it was.';
comment on column public.notices.caused_by is 'The member who caused the event and needs no notice of it. Null: a customer, or the shop itself.';
alter table public.notices enable row level security;
grant select on public.notices to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.notices to anon;
create policy "staff read every notice" on public.notices for select to authenticated using ((select public.may('panel')));
create index notices_newest_first on public.notices (created_at desc);
create index notices_of_an_order on public.notices (order_id);

create table public.push_subscriptions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  session_id uuid,
  endpoint text not null,
  p256dh text not null,
  auth_secret text not null,
  device text not null,
  kinds text[] not null,
  created_at timestamptz not null default now(),
  last_sent_at timestamptz,
  failures integer not null default 0,
  constraint "a browser has one push subscription" unique (endpoint),
  constraint "an endpoint of push is an https URL" check (endpoint ~ '^https://[^/?#@[:space:]]+/[^[:space:]]*$' and char_length(endpoint) <= 1000),
  -- An uncompressed point of P-256 and 16 bytes, both in base64url (RFC 8291).
  constraint "the keys of a push subscription are complete" check (p256dh ~ '^B[A-Za-z0-9_-]{86}$' and auth_secret ~ '^[A-Za-z0-9_-]{22}$'),
  constraint "the name of a device is short" check (char_length(device) between 1 and 80)
);
comment on table public.push_subscriptions is
  'Browsers of staff that receive notices by Web Push while the panel is closed. Deleted with the session that subscribed, when the member is deactivated, and when the push service no longer knows it.';
comment on column public.push_subscriptions.session_id is 'The session that subscribed. Its end ends the subscription.';
comment on column public.push_subscriptions.device is 'Browser and system, such as Chrome on Android.';
comment on column public.push_subscriptions.kinds is 'Kinds of notices that this device wants.';
comment on column public.push_subscriptions.last_sent_at is 'When the push service last accepted a notice.';
comment on column public.push_subscriptions.failures is 'Attempts since then that failed.';
alter table public.push_subscriptions enable row level security;
-- Not the keys: a browser knows its own.
grant select (id, user_id, endpoint, device, kinds, created_at, last_sent_at, failures), delete on public.push_subscriptions to authenticated;
create policy "staff read their own push subscriptions" on public.push_subscriptions
  for select to authenticated using (user_id = (select auth.uid()) and (select public.is_admin()));
create policy "staff delete their own push subscriptions" on public.push_subscriptions
  for delete to authenticated using (user_id = (select auth.uid()) and (select public.is_admin()));
create index push_subscriptions_of_a_member on public.push_subscriptions (user_id);
create index push_subscriptions_of_a_session on public.push_subscriptions (session_id);

create table private.push_keys (
  is_only boolean primary key default true,
  public_key text not null,
  private_key text not null,
  created_at timestamptz not null default now(),
  constraint "there is one pair of push keys" check (is_only)
);
comment on table private.push_keys is
  'The VAPID key pair of the shop (RFC 8292), created by its first start. Subscriptions are valid with it only. private_key never leaves the server.';
alter table private.push_keys enable row level security;

create table private.push_queue (
  id bigint generated always as identity primary key,
  notice_id uuid not null references public.notices (id) on delete cascade,
  subscription_id uuid not null references public.push_subscriptions (id) on delete cascade,
  due_at timestamptz not null,
  attempts integer not null default 0,
  lease uuid,
  constraint "a notice is pushed to a device once" unique (notice_id, subscription_id)
);
comment on table private.push_queue is 'Notices that wait to be pushed, one row for each device, and when they are due.';
comment on column private.push_queue.lease is 'Of the process that leased the push until due_at.';
alter table private.push_queue enable row level security;
create index push_queue_by_due_time on private.push_queue (due_at);
create index push_queue_of_a_subscription on private.push_queue (subscription_id);

alter publication supabase_realtime add table public.notices;

create function private.notice_kinds() returns text[]
language sql immutable
return array['paid_order', 'late_order', 'failed_delivery', 'cancel_request', 'order_to_agree', 'refund_to_approve', 'inquiry', 'low_stock'];

create function private.notice_area(kind text) returns text
language sql immutable
return case kind
  when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' when 'cancel_request' then 'refunds' when 'order_to_agree' then 'orders'
  when 'low_stock' then 'products'
  else 'deliveries'
end;
comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

create function private.notice_lifetime(kind text) returns interval
language sql immutable
return case when kind in ('paid_order', 'late_order') then interval '30 minutes' else interval '12 hours' end;
comment on function private.notice_lifetime is 'How long a notice is worth a push to a device that is switched off or not reachable.';

create function private.is_news(paid public.payments) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(
    -- A statement brings old money: only M-PESA's time shows it. A prompt is answered within two minutes.
    (select t.transacted_at from public.mpesa_transactions as t where t.receipt = paid.receipt),
    case when paid.method = 'prompt' then paid.created_at else paid.completed_at end
  ) > now() - interval '5 minutes';
$$;
comment on function private.is_news is
  'Whether the customer has just paid. False for money that a statement, a late answer or a later decision brings to light.';

create function private.add_notice(kind text, event_key text, order_id uuid default null, caused_by uuid default null) returns void
language plpgsql set search_path = '' as $$
declare
  added public.notices;
begin
  -- Anyone can write inquiries, and place unpaid orders. The others are counted in the panel.
  if add_notice.kind in ('inquiry', 'order_to_agree') and private.count_hit('notices', add_notice.kind, interval '1 hour') > 20 then
    return;
  end if;
  insert into public.notices (kind, event_key, order_id, caused_by)
  values (add_notice.kind, add_notice.event_key, add_notice.order_id, add_notice.caused_by)
  on conflict on constraint "an event has one notice" do nothing
  returning * into added;
  if added.id is not null then
    insert into private.push_queue (notice_id, subscription_id, due_at)
    select added.id, s.id, now() + case when added.kind in ('failed_delivery', 'low_stock') then private.undo_window() else interval '0' end
    from public.push_subscriptions as s
    where added.kind = any (s.kinds) and s.user_id is distinct from added.caused_by;
  end if;
exception when others then
  -- Its cause stays valid without the notice.
  raise warning 'no notice % could be added: %', add_notice.kind, sqlerrm;
end
$$;
comment on function private.add_notice is
  'Adds the notice of an event, unless it exists, and queues its push to all devices that want its kind, except those of the member who caused it. Never fails.';

create function private.note_paid_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  if (
    select private.is_news(paid) from public.payments as paid
    where paid.id = (
      select p.id
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = note_paid_order.order_id offset 0) as p
      where p.status = 'completed' and not p.needs_refund
      order by p.completed_at desc
      limit 1
    )
  ) then
    perform private.add_notice('paid_order', note_paid_order.order_id::text, note_paid_order.order_id, (select auth.uid()));
  end if;
end
$$;
comment on function private.note_paid_order is 'Adds the notice of an order that was just paid, if the payment is news.';

create function private.note_failed_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The delivery of a cancelled order fails, too.
  if new.delivery_status = 'failed' and old.delivery_status is distinct from 'failed' and exists (
    select from public.orders as o where o.id = new.order_id and private.is_to_deliver(o.payment_status, o.payment_method) and private.is_open_order(o.status)
  ) then
    perform private.add_notice('failed_delivery', concat_ws(' ', new.order_id, new.failures), new.order_id, (select auth.uid()));
  end if;
end
$$;

create function private.note_low_stock(product_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  -- Null for orders: a member who enters one does not see the stock, and gets the notice, too.
  editor constant uuid := case when coalesce(current_setting('private.cause_of_units', true), '') = '' then auth.uid() end;
begin
  -- Counted without private.count_hit: orders would wait for its row while they hold their products.
  if (select count(*) from public.notices as n where n.kind = 'low_stock' and n.created_at > now() - interval '1 hour') >= 20 then
    return;
  end if;
  -- Once a day: units that unpaid orders hold return, so that a stock can become low many times.
  perform private.add_notice('low_stock', concat_ws(' ', note_low_stock.product_id, private.nairobi_day(now()), editor), caused_by => editor);
end
$$;
comment on function private.note_low_stock is
  'Adds the notice of a product whose stock has just become low, once a day for orders and for each member who edits; at most 20 an hour.';

create function private.newly_late_orders() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select o.id
    from public.orders as o
    -- One step in an index for each order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status)
      -- After an outage, orders that have been late for longer are no news.
      and o.promised_at < now() and o.promised_at > now() - interval '1 hour'
      and private.is_open_delivery(d.delivery_status) and private.work_step(o, d) is not null
      and not exists (select from public.notices as n where n.kind = 'late_order' and n.event_key = o.id::text)
    limit 500;
end
$$;
comment on function private.newly_late_orders is 'Paid orders that are late since at most an hour and have no notice of it.';

create function private.delays_to_announce() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select o.id
    from public.orders as o
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status)
      and o.promised_at < now() and o.promised_at > now() - interval '1 hour'
      and o.promised_again_at is null and private.is_to_deliver(o.payment_status, o.payment_method) and not o.is_collected and o.delivery_day is null
      -- A rider who left half an hour ago or less is about to arrive.
      and (private.is_before_pickup(d.delivery_status) or (private.is_open_delivery(d.delivery_status) and d.pickup_time < now() - interval '30 minutes'))
      and (select s.announces_delays from public.store_settings as s)
    order by o.promised_at
    limit 500;
end
$$;
comment on function private.delays_to_announce is
  'Orders to deliver that are late since at most an hour, whose customer was not informed of a new time. Not those that failed or left the shop within half an hour, that the customer collects, or whose day was agreed on.';

create function private.announce_delays() returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
declare
  late public.orders;
  way interval;
begin
  for late in
    select o.* from public.orders as o
    where o.id in (select private.delays_to_announce())
    order by o.id
    for no key update skip locked
  loop
    -- Another process may have informed the customer before the lock.
    continue when late.promised_again_at is not null;
    way := case when private.is_on_the_way(late.status) then make_interval(mins => coalesce(private.way_minutes(late.area_id), 20)) end;
    update public.orders as o
    -- In steps of five minutes, as a person would say it.
    set promised_again_at = date_bin('5 minutes', coalesce(now() + way, private.promise_for(late.area_id, now()), now() + interval '1 hour')
      + interval '4 minutes 59 seconds', timestamptz '2026-01-01')
    where o.id = late.id;
    perform private.queue_order_messages(late.id, 'order_delayed');
    perform private.notify_order_followers(late.id);
  end loop;
end
$$;
comment on function private.announce_delays is
  'Informs the customers of late orders of a new time (promised_again_at), each once by text and mail.';

create function private.is_notice_waiting(notice public.notices) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  step text;
begin
  if notice.kind = 'refund_to_approve' then
    return exists (select from public.refunds as r where r.id::text = notice.event_key and r.status = 'requested');
  elsif notice.kind = 'inquiry' then
    return exists (select from public.inquiries as i where i.id = notice.event_key::uuid and not i.is_read);
  elsif notice.kind = 'low_stock' then
    return exists (
      select from public.products as p where p.id = split_part(notice.event_key, ' ', 1)::uuid and p.is_active and p.is_low_on_stock
    );
  elsif notice.kind = 'cancel_request' then
    return exists (select from public.orders as o where o.id = notice.order_id and private.has_cancel_request(o));
  elsif notice.kind = 'order_to_agree' then
    return exists (select from public.orders as o where o.id = notice.order_id and o.awaits_agreement and private.is_open_order(o.status));
  end if;
  select private.work_step(o, d) into step
  from public.orders as o
  join public.deliveries as d on d.order_id = o.id
  where o.id = notice.order_id;
  return coalesce(case notice.kind
    when 'paid_order' then step = 'prepare'
    when 'failed_delivery' then step = 'failed'
    else true
  end and step is not null, false);
end
$$;
comment on function private.is_notice_waiting is
  'Whether the event still waits for staff. It waits until the paid order is taken, the late order delivered, the failed delivery sent again, the request to cancel answered, fee and day agreed on, the refund decided, or the inquiry read; a low stock as long as the active product is low.';

create function private.notice_facts(notice public.notices) returns jsonb
language sql stable set search_path = '' as $$
  select case
    when notice.kind = 'inquiry' then (
      select jsonb_build_object('name', i.name) from public.inquiries as i where i.id = notice.event_key::uuid
    )
    when notice.kind = 'low_stock' then (
      select jsonb_build_object('product_name', p.name, 'units', p.stock_quantity)
      from public.products as p where p.id = split_part(notice.event_key, ' ', 1)::uuid
    )
    when notice.kind = 'refund_to_approve' then (
      select jsonb_build_object('refund_cents', r.refund_cents, 'requested_by', r.requested_by_email, 'order_number', o.order_number)
      from public.refunds as r
      left join public.payments as p on p.id = r.payment_id
      left join public.orders as o on o.id = p.order_id
      where r.id = notice.event_key::uuid
    )
    else (
      select jsonb_build_object(
        'order_number', o.order_number, 'name', o.customer_name, 'shipping_address', o.shipping_address, 'city', o.city,
        'charge_cents', o.charge_cents, 'failure_reason', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
        'items', array(
          select jsonb_build_object('quantity', i.quantity, 'product_name', i.product_name, 'brand', p.brand)
          from public.order_items as i left join public.products as p on p.id = i.product_id
          where i.order_id = o.id order by i.position
        )
      )
      from public.orders as o where o.id = notice.order_id
    )
  end;
$$;
comment on function private.notice_facts is 'What a notice says, in its parts (domain/messages/notice-text.ts). A push leaves names out.';

create function public.waiting_notices() returns table (
  id uuid, kind text, event_key text, order_id uuid, created_at timestamptz, facts jsonb
)
language plpgsql stable security definer rows 20 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('panel');
  return query
    select n.id, n.kind, n.event_key, n.order_id, n.created_at, private.notice_facts(n)
    from (
      select * from public.notices as recent where recent.created_at > now() - interval '1 day'
      order by recent.created_at desc limit 500
    ) as r
    cross join lateral (select * from public.notices as own where own.id = r.id) as n
    where n.caused_by is distinct from (select auth.uid()) and private.is_notice_waiting(n)
      and ((select auth.role()) = 'service_role' or public.may(private.notice_area(n.kind)))
    order by n.created_at desc;
end
$$;
comment on function public.waiting_notices is
  'For staff: which of the newest 500 notices of the last day nobody has dealt with, the newest first, without those that the caller caused or whose area the caller''s role lacks.';

create function public.push_public_key() returns text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return (select k.public_key from private.push_keys as k);
end
$$;
comment on function public.push_public_key is
  'For staff: the public VAPID key with which a browser subscribes, in base64url. Null until the shop has started once.';

create function public.save_push_subscription(endpoint text, p256dh text, auth_secret text, device text, kinds text[]) returns uuid
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant uuid := private.expect_staff_member('panel');
  saved uuid;
begin
  if not coalesce(
    save_push_subscription.endpoint ~ '^https://[^/?#@[:space:]]+/[^[:space:]]*$' and char_length(save_push_subscription.endpoint) <= 1000
    and save_push_subscription.p256dh ~ '^B[A-Za-z0-9_-]{86}$' and save_push_subscription.auth_secret ~ '^[A-Za-z0-9_-]{22}$', false
  ) then
    perform private.refuse(400, 'push_subscription_invalid', 'The shop cannot send notices to this browser');
  end if;
  -- Two devices that subscribe at once count one after the other.
  perform pg_advisory_xact_lock(hashtextextended('push subscriptions of ' || member, 0));
  if 10 <= (
    select count(*) from public.push_subscriptions as s where s.user_id = member and s.endpoint <> save_push_subscription.endpoint
  ) then
    perform private.refuse(409, 'too_many_devices', 'Ten of your devices get notices already. Please remove one first');
  end if;
  insert into public.push_subscriptions as s (user_id, session_id, endpoint, p256dh, auth_secret, device, kinds)
  values (
    member, ((select auth.jwt()) ->> 'session_id')::uuid, save_push_subscription.endpoint, save_push_subscription.p256dh,
    save_push_subscription.auth_secret, left(coalesce(private.visible_text(save_push_subscription.device), 'An unknown device'), 80),
    array(select known from unnest(private.notice_kinds()) as known where known = any (save_push_subscription.kinds))
  )
  -- The browser belongs to the member who is signed in.
  on conflict on constraint "a browser has one push subscription" do update
  set user_id = excluded.user_id, session_id = excluded.session_id, p256dh = excluded.p256dh, auth_secret = excluded.auth_secret,
      device = excluded.device, kinds = excluded.kinds, failures = 0
  returning s.id into saved;
  return saved;
end
$$;
comment on function public.save_push_subscription is
  'For staff: lets the calling member''s browser receive notices of some kinds by Web Push, until the session ends. At most 10 devices per member.';

create function private.end_push_subscriptions(of_user uuid, of_session uuid default null) returns void
language sql set search_path = '' as $$
  delete from public.push_subscriptions as s
  where s.user_id = end_push_subscriptions.of_user
    and (end_push_subscriptions.of_session is null or s.session_id = end_push_subscriptions.of_session);
$$;
comment on function private.end_push_subscriptions is 'Ends the push subscriptions of a member, or those of one session.';

create function public.read_push_keys() returns table (public_key text, private_key text)
language sql stable security definer set search_path = '' as $$
  select k.public_key, k.private_key from private.push_keys as k;
$$;
comment on function public.read_push_keys is 'The VAPID key pair, for the server.';

create function public.store_push_keys(public_key text, private_key text) returns void
language sql security definer set search_path = '' as $$
  insert into private.push_keys (public_key, private_key) values (store_push_keys.public_key, store_push_keys.private_key)
  on conflict do nothing;
$$;
comment on function public.store_push_keys is 'Stores the first VAPID key pair. Of several processes that start at once, the first decides.';

create function public.lease_pushes(at_most integer default 20) returns table (
  id bigint, lease uuid, endpoint text, p256dh text, auth_secret text, notice_id uuid, kind text, event_key text, order_id uuid,
  seconds_to_live integer, facts jsonb
)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  due bigint[];
begin
  perform private.add_notice('late_order', late.order_id::text, late.order_id) from private.newly_late_orders() as late (order_id);
  perform private.announce_delays();
  due := array(
    select q.id from private.push_queue as q
    where q.due_at <= now()
    order by q.due_at
    limit least(greatest(coalesce(lease_pushes.at_most, 20), 1), 100)
    for update skip locked
  );
  delete from private.push_queue as q
  using public.notices as n, public.push_subscriptions as s
  where q.id = any (due) and n.id = q.notice_id and s.id = q.subscription_id and not (
    n.created_at > now() - private.notice_lifetime(n.kind) and private.is_notice_waiting(n)
    and exists (
      select from public.admin_profiles as profile
      join auth.users as account on account.id = profile.user_id
      where profile.user_id = s.user_id and profile.is_active and private.notice_area(n.kind) = any (private.areas_of(profile.role))
        and account.deleted_at is null
        and (account.banned_until is null or account.banned_until <= now())
    )
  );
  return query
  with taken as (
    update private.push_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid(), attempts = q.attempts + 1
    where q.id = any (due)
    returning q.id, q.lease, q.notice_id, q.subscription_id
  )
  select taken.id, taken.lease, s.endpoint, s.p256dh, s.auth_secret, n.id, n.kind, n.event_key, n.order_id,
    greatest(60, extract(epoch from n.created_at + private.notice_lifetime(n.kind) - now()))::integer, private.notice_facts(n)
  from taken
  join public.push_subscriptions as s on s.id = taken.subscription_id
  join public.notices as n on n.id = taken.notice_id;
end
$$;
comment on function public.lease_pushes is
  'Adds notices of orders that are late now. Then leases due pushes for a minute, without those whose notice was dealt with, is too old or is for a member who is no longer active or whose role lacks its area. A push whose process ended is leased again; its device replaces the earlier notification. seconds_to_live: how long the push service may retain it. facts: see notice_facts.';

create function public.finish_push(push_id bigint, lease uuid, outcome text, retry_after_seconds integer default null) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  pushed private.push_queue;
begin
  if finish_push.outcome not in ('sent', 'refused', 'failed', 'gone') then
    perform private.refuse(400, 'outcome_unknown', 'A push is sent, refused, failed or gone');
  end if;
  select * into pushed from private.push_queue as q where q.id = finish_push.push_id and q.lease = finish_push.lease for update;
  if not found then
    return;
  elsif finish_push.outcome = 'gone' then
    delete from public.push_subscriptions as s where s.id = pushed.subscription_id;
    return;
  elsif finish_push.outcome = 'refused' then
    update private.push_queue as q
    set lease = null, due_at = now() + greatest(
      private.back_off(interval '5 seconds', pushed.attempts - 1, interval '5 minutes'),
      make_interval(secs => least(coalesce(finish_push.retry_after_seconds, 0), 3600))
    )
    where q.id = pushed.id;
  else
    delete from private.push_queue as q where q.id = pushed.id;
  end if;
  update public.push_subscriptions as s
  set last_sent_at = case when finish_push.outcome = 'sent' then now() else s.last_sent_at end,
      failures = case when finish_push.outcome = 'sent' then 0 else s.failures + 1 end
  where s.id = pushed.subscription_id;
  -- Its push service has not accepted anything for a week.
  delete from public.push_subscriptions as s
  where s.id = pushed.subscription_id and s.failures >= 50 and coalesce(s.last_sent_at, s.created_at) < now() - interval '7 days';
end
$$;
comment on function public.finish_push is
  'Records the outcome of a leased push: sent; refused, to be retried with growing delays while the notice is news; failed, for this notice only; gone: the device has no subscription any more, and it is deleted.';

-- Execution rights
grant execute on function public.waiting_notices, public.push_public_key, public.save_push_subscription to authenticated;
grant execute on function public.waiting_notices, public.push_public_key to service_role;
grant execute on function public.read_push_keys, public.store_push_keys, public.lease_pushes, public.finish_push to service_role;
