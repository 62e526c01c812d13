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

create function private.is_waiting_for_stock(alert public.stock_alerts) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return alert.ends_at > now() and not exists (
    select from public.outbox_messages as m where m.kind = 'back_in_stock' and m.repeat_of is null and m.event_key = alert.id::text
  );
end
$$;

create function private.offers_stock_alerts(settings public.store_settings) returns boolean
language sql stable
return settings.offers_stock_alerts and settings.texts_per_day > 0;

create function public.request_stock_alert(product_id uuid, phone text, has_consented boolean default false) returns jsonb
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
create function private.is_time_for_texts(at timestamptz) returns boolean
language sql stable
return extract(hour from at at time zone 'Africa/Nairobi') between 8 and 20;

create function private.alerts_to_send() returns setof uuid
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

create function private.queue_stock_texts() returns void
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

create function private.stock_alert_facts(alert_id text) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object('product', (
    select jsonb_build_object('name', p.name, 'slug', p.slug)
    from public.stock_alerts as a join public.products as p on p.id = a.product_id
    where a.id = stock_alert_facts.alert_id::uuid
  ));
$$;

create function private.is_stock_alert_true(alert_id text) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from public.stock_alerts as a join public.products as p on p.id = a.product_id
    where a.id = is_stock_alert_true.alert_id::uuid and a.ends_at > now() and p.is_active and public.units_for_sale(p) > 0
  );
$$;
comment on function private.is_stock_alert_true is 'Whether a phone still waits for its text, and the product can be ordered.';

create function public.waiting_for_stock(product public.products) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return (select count(*) from public.stock_alerts as a where a.product_id = product.id and private.is_waiting_for_stock(a));
end
$$;
comment on function public.waiting_for_stock is 'Computed column for staff: how many phones wait for a text about this product.';

create function private.delete_old_stock_alerts() returns void
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
