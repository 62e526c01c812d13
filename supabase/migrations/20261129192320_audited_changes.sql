-- Earlier versions keep working: their audit shows the new kinds by their names, and writes them by these triggers, too.

drop trigger brands_after_change on public.brands;

drop trigger categories_after_change on public.categories;

alter table public.audit_events drop constraint "an audited change is known";

alter table public.audit_events add constraint "an audited change is known" CHECK ((kind = ANY (ARRAY['member_invited'::text, 'member_changed'::text, 'member_removed'::text, 'second_factor_reset'::text, 'recovery_codes_made'::text, 'recovery_code_used'::text, 'authenticator_removed'::text, 'settings_changed'::text, 'shop_text_changed'::text, 'message_template_changed'::text, 'reply_template_added'::text, 'reply_template_changed'::text, 'reply_template_removed'::text, 'discount_code_added'::text, 'discount_code_changed'::text, 'discount_code_removed'::text, 'phone_blocked'::text, 'phone_unblocked'::text, 'product_added'::text, 'product_changed'::text, 'product_removed'::text, 'category_added'::text, 'category_changed'::text, 'quote_shown'::text, 'quote_hidden'::text, 'rider_added'::text, 'rider_changed'::text, 'rider_link_made'::text, 'rider_link_revoked'::text])));

create or replace function private.after_page_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is not distinct from new then
    return null;
  end if;
  perform pg_catalog.pg_notify('page_changes', jsonb_build_object('table', tg_table_name)::text);
  if tg_op = 'UPDATE' then
    perform private.record_audit_event(
      'shop_text_changed', new.name, jsonb_build_object('body', old.page_text), jsonb_build_object('body', new.page_text)
    );
  end if;
  if tg_table_name = 'categories' then
    perform private.audit_row(
      'category', new.name,
      case when tg_op = 'UPDATE' then jsonb_build_object('name', old.name, 'is_active', old.is_active) end,
      jsonb_build_object('name', new.name, 'is_active', new.is_active)
    );
  end if;
  return null;
end
$$;

create trigger categories_after_change after insert or update on public.categories
  for each row execute function private.after_page_text_change();

create trigger brands_after_change after update on public.brands
  for each row execute function private.after_page_text_change();

create or replace function private.after_quote_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(old.quoted_at, new.quoted_at) is not null and (old.quoted_at, old.words) is distinct from (new.quoted_at, new.words) then
    perform pg_catalog.pg_notify('page_changes', '{"table": "ratings"}');
  end if;
  -- The choices of staff. A customer who changes the words hides them, too.
  if tg_op = 'UPDATE' and (old.quoted_at is null) <> (new.quoted_at is null) and auth.uid() is not null then
    perform private.record_audit_event(
      case when new.quoted_at is null then 'quote_hidden' else 'quote_shown' end,
      (select o.order_number from public.orders as o where o.id = new.order_id), null, null
    );
  end if;
  return null;
end
$$;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  not_audited text[] := '{id,created_at,updated_at,stock_quantity,is_low_on_stock}';
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  if tg_op = 'UPDATE' and old.price <> new.price then
    perform private.record_price_change(new.id, new.name, old.price, new.price);
  end if;
  if tg_op <> 'DELETE' and coalesce(old.stock_quantity, 0) <> new.stock_quantity then
    perform private.record_stock_change(new.id, coalesce(old.stock_quantity, 0), new.stock_quantity);
  end if;
  -- Not of a product that is added or activated with a low stock.
  if tg_op = 'UPDATE' and new.is_active and new.is_low_on_stock and not old.is_low_on_stock then
    perform private.note_low_stock(new.id);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.sold_out_until, old.stock_quantity = 0,
      old.size, old.khat_strength, old.caffeine, old.sweetened_with, old.keeps, old.allergens, old.serving_note, old.more_images)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.sold_out_until, new.stock_quantity = 0,
      new.size, new.khat_strength, new.caffeine, new.sweetened_with, new.keeps, new.allergens, new.serving_note, new.more_images)
  then
    perform private.announce_product_change(old, new);
  end if;
  -- Orders change the stock alone.
  if (old.id, old.updated_at, old.sold_out_until) is distinct from (new.id, new.updated_at, new.sold_out_until) then
    if tg_op = 'UPDATE' then
      -- In the history of prices.
      not_audited := not_audited || 'price'::text;
      if old.category <> new.category and not exists (select from public.categories as c where c.name = old.category) then
        -- It was renamed, which is one change, and not one of each of its products.
        not_audited := not_audited || 'category'::text;
      end if;
    end if;
    perform private.audit_row(
      'product', coalesce(new.name, old.name),
      case when tg_op <> 'INSERT' then to_jsonb(old) - not_audited end,
      case when tg_op <> 'DELETE' then to_jsonb(new) - not_audited end
    );
  end if;
  return null;
end
$$;

comment on table public.audit_events is
  'Changes that no other table keeps a history of, with the changed values only. Append-only. search_audit adds the other histories. actor_email: the email address at that time. subject: the member, the discount code, the text, the product, the rider, or the number of the order.';

create index audit_events_by_time on public.audit_events (happened_at desc);

create or replace function private.audit_area(kind text) returns text
language sql immutable
return case
  when kind = 'settings_changed' then 'settings'
  when kind ~ '^(shop_text|message_template|reply_template|quote)_' then 'texts'
  when kind ~ '^(product|category)_' then 'products'
  when kind ~ '^rider_' then 'riders'
  when kind ~ '^discount_code_' then 'discounts'
  when kind in ('phone_blocked', 'phone_unblocked') then 'customers'
  else 'team'
end;

comment on function private.audit_area is 'The area of a kind of audit event, by which search_audit filters.';

create or replace function private.phone_in_audit(phone text) returns text
language sql immutable set search_path = '' as $$
  -- An erasure must leave no number behind. The last digits are enough to recognise it.
  select '0' || substr(phone, 5, 1) || '•• ••• ' || right(phone, 3);
$$;

create or replace function private.value_in_audit(field text, value jsonb) returns jsonb
language sql immutable set search_path = '' as $$
  select case when field = 'phone' then to_jsonb(private.phone_in_audit(value #>> '{}')) else value end;
$$;

create or replace function private.record_audit_event(kind text, subject text, before jsonb, after jsonb, actor uuid default auth.uid()) returns void
language plpgsql set search_path = '' as $$
declare
  -- A change says what differs; what begins or ends, all of it.
  changed text[] := array(
    select known.key from jsonb_object_keys(coalesce(before, after, '{}')) as known (key)
    where before is null or after is null or before -> known.key is distinct from after -> known.key
  );
  pick_before jsonb := (
    select jsonb_object_agg(e.key, private.value_in_audit(e.key, e.value)) from jsonb_each(before) as e where e.key = any (changed)
  );
  pick_after jsonb := (
    select jsonb_object_agg(e.key, private.value_in_audit(e.key, e.value)) from jsonb_each(after) as e where e.key = any (changed)
  );
begin
  if before is not null and after is not null and cardinality(changed) = 0 then
    return;
  end if;
  insert into public.audit_events (kind, actor_id, actor_email, subject, before, after)
  values (
    record_audit_event.kind, record_audit_event.actor, private.email_of(record_audit_event.actor), record_audit_event.subject,
    pick_before, pick_after
  );
end
$$;

comment on function private.record_audit_event is 'Adds a change to the audit, with the values that differ. Without a difference it adds nothing.';

create or replace function private.audit_row(row_kind text, subject text, before jsonb, after jsonb) returns void
language plpgsql set search_path = '' as $$
begin
  -- Not the rows of a new shop.
  if auth.role() is not null then
    perform private.record_audit_event(
      audit_row.row_kind || case when before is null then '_added' when after is null then '_removed' else '_changed' end,
      audit_row.subject, before, after
    );
  end if;
end
$$;

comment on function private.audit_row is
  'Adds a change of a row by a member or the secret key to the audit. row_kind: as in the kinds of events. before: null for a new row; after: null for a deleted one.';

-- Trigger of tables without a history. Arguments: what a row is, as in the kinds of events; the columns that name it; the audited ones.
create or replace function private.after_audited_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  row_before constant jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after constant jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  audited constant text[] := string_to_array(tg_argv[2], ' ');
begin
  perform private.audit_row(
    tg_argv[0],
    (select string_agg(coalesce(row_after, row_before) ->> named.name, ', ' order by named.place)
     from unnest(string_to_array(tg_argv[1], ' ')) with ordinality as named (name, place)),
    (select jsonb_object_agg(e.key, e.value) from jsonb_each(row_before) as e where e.key = any (audited)),
    (select jsonb_object_agg(e.key, e.value) from jsonb_each(row_after) as e where e.key = any (audited))
  );
  return null;
end
$$;

-- Presses of riders change their rows, too. The shop itself adds and deletes the practice rider at its start.
create trigger riders_after_change after insert or update of name, phone, vehicle, plate, is_active on public.riders
  for each row when (not new.is_practice) execute function private.after_audited_change('rider', 'name', 'name phone vehicle plate is_active');

create or replace function private.after_rider_link_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if auth.uid() is not null
    and (tg_op = 'INSERT' or (old.revoked_at is null and new.revoked_at is not null and old.expires_at > now()))
  then
    perform private.record_audit_event(
      case tg_op when 'INSERT' then 'rider_link_made' else 'rider_link_revoked' end,
      (select r.name from public.riders as r where r.id = new.rider_id), null, null
    );
  end if;
  return null;
end
$$;

create trigger rider_links_after_change after insert or update of revoked_at on public.rider_links
  for each row execute function private.after_rider_link_change();

create or replace function private.after_factor_end() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  -- Procedures that remove a factor record it themselves. A deleted account takes its factors with it.
  if auth.uid() is null and exists (
    select from public.admin_profiles as profile join auth.users as account on account.id = profile.user_id
    where profile.user_id = old.user_id
  ) then
    perform private.record_audit_event('authenticator_removed', private.email_of(old.user_id), null, null, old.user_id);
  end if;
  return null;
end
$$;

comment on function private.after_factor_end is
  'Trigger of second factors: the auth service removed an authenticator app, which only its owner asks for in a session that has passed it.';

create trigger factors_after_delete after delete on auth.mfa_factors
  for each row when (old.status = 'verified') execute function private.after_factor_end();

create or replace function private.after_phone_block() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  phone constant text := case tg_op when 'INSERT' then new.phone else old.phone end;
begin
  -- An erasure must leave no reason behind either.
  perform private.record_audit_event(
    case tg_op when 'INSERT' then 'phone_blocked' else 'phone_unblocked' end,
    coalesce(private.phone_in_audit(phone), 'An erased phone'), null, null
  );
  return null;
end
$$;

create or replace function public.search_audit(
  area text default null, person text default null, from_day date default null, until_day date default null,
  before_created_at timestamptz default null, before_id text default null, page_size integer default 50
) returns setof public.audit_row
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := nullif(search_audit.area, '');
  by_whom constant text := nullif(search_audit.person, '');
  since constant timestamptz := coalesce(search_audit.from_day::timestamp at time zone 'Africa/Nairobi', '-infinity');
  until constant timestamptz := coalesce((search_audit.until_day + 1)::timestamp at time zone 'Africa/Nairobi', 'infinity');
  upto constant timestamptz := coalesce(search_audit.before_created_at, 'infinity');
  most constant integer := least(greatest(coalesce(search_audit.page_size, 50), 1), 1000);
begin
  perform private.expect_staff('team');
  -- Each history is read from its newest row, no further than a page.
  return query
    select (found).* from (
      (select ('change-' || e.id, e.happened_at, private.audit_area(e.kind), e.kind, e.actor_id, e.actor_email, e.subject, e.before, e.after)::public.audit_row as found
        from public.audit_events as e
        where (wanted is null or wanted = private.audit_area(e.kind))
          and (by_whom is null or e.actor_email = by_whom) and e.happened_at >= since and e.happened_at < until
          and (e.happened_at, 'change-' || e.id) < (upto, coalesce(search_audit.before_id, ''))
        order by e.happened_at desc, 'change-' || e.id desc limit most)
      union all
      (select ('price-' || p.id, p.changed_at, 'prices', 'price_changed', p.changed_by, p.changed_by_email,
          coalesce(p.product_name, 'Delivery fee'),
          jsonb_build_object('price', p.from_cents), jsonb_build_object('price', p.to_cents))::public.audit_row
        from public.price_changes as p
        where (wanted is null or wanted = 'prices')
          and (by_whom is null or p.changed_by_email = by_whom) and p.changed_at >= since and p.changed_at < until
          and (p.changed_at, 'price-' || p.id) < (upto, coalesce(search_audit.before_id, ''))
        order by p.changed_at desc, 'price-' || p.id desc limit most)
      union all
      (select ('refund-' || r.id, r.created_at, 'refunds', case when r.method = 'reversal' then 'refund_requested' else 'refund_noted' end,
          r.requested_by, r.requested_by_email, coalesce(r.receipt, r.refund_receipt, case r.method when 'credit' then 'From credit' else 'In cash' end), null,
          jsonb_build_object('refund', r.refund_cents, 'reason', r.reason))::public.audit_row
        from public.refunds as r
        where (wanted is null or wanted = 'refunds') and r.requested_by is not null
          and (by_whom is null or r.requested_by_email = by_whom) and r.created_at >= since and r.created_at < until
          and (r.created_at, 'refund-' || r.id) < (upto, coalesce(search_audit.before_id, ''))
        order by r.created_at desc, 'refund-' || r.id desc limit most)
      union all
      (select ('approval-' || r.id, r.approved_at, 'refunds', 'refund_approved', r.approved_by, r.approved_by_email,
          coalesce(r.receipt, 'In cash'), null,
          jsonb_build_object('refund', r.refund_cents, 'alone', case when r.approved_alone then true end))::public.audit_row
        from public.refunds as r
        where (wanted is null or wanted = 'refunds') and r.approved_at is not null
          and (by_whom is null or r.approved_by_email = by_whom) and r.approved_at >= since and r.approved_at < until
          and (r.approved_at, 'approval-' || r.id) < (upto, coalesce(search_audit.before_id, ''))
        order by r.approved_at desc, 'approval-' || r.id desc limit most)
      union all
      (select ('decision-' || d.id, d.happened_at, 'reconciliation', d.kind, d.actor_id, d.actor_email,
          coalesce(d.receipt, 'A payment'), null, jsonb_build_object('note', d.note))::public.audit_row
        from public.reconciliation_events as d
        -- Refunds have their own rows.
        where (wanted is null or wanted = 'reconciliation') and d.kind <> 'refund' and d.actor_id is not null
          and (by_whom is null or d.actor_email = by_whom) and d.happened_at >= since and d.happened_at < until
          and (d.happened_at, 'decision-' || d.id) < (upto, coalesce(search_audit.before_id, ''))
        order by d.happened_at desc, 'decision-' || d.id desc limit most)
      union all
      (select ('download-' || b.id, b.allowed_at, 'personal_data', 'backup_downloaded', b.downloaded_by, b.downloaded_by_email,
          b.file_name, null, null)::public.audit_row
        from public.backup_downloads as b
        where (wanted is null or wanted = 'personal_data')
          and (by_whom is null or b.downloaded_by_email = by_whom) and b.allowed_at >= since and b.allowed_at < until
          and (b.allowed_at, 'download-' || b.id) < (upto, coalesce(search_audit.before_id, ''))
        order by b.allowed_at desc, 'download-' || b.id desc limit most)
      union all
      (select ('person-' || q.id, q.requested_at, 'personal_data', 'person_' || q.kind, q.requested_by, q.requested_by_email,
          'A customer', null, null)::public.audit_row
        from public.personal_data_requests as q
        where (wanted is null or wanted = 'personal_data')
          and (by_whom is null or q.requested_by_email = by_whom) and q.requested_at >= since and q.requested_at < until
          and (q.requested_at, 'person-' || q.id) < (upto, coalesce(search_audit.before_id, ''))
        order by q.requested_at desc, 'person-' || q.id desc limit most)
      union all
      (select ('pause-' || s.id, s.changed_at, 'pauses', case when s.reason is null then 'orders_resumed' else 'orders_paused' end,
          s.changed_by, s.changed_by_email, null, null,
          case when s.reason is not null then jsonb_build_object('reason', s.reason, 'until', s.paused_until) end)::public.audit_row
        from public.order_pauses as s
        where (wanted is null or wanted = 'pauses')
          and (by_whom is null or s.changed_by_email = by_whom) and s.changed_at >= since and s.changed_at < until
          and (s.changed_at, 'pause-' || s.id) < (upto, coalesce(search_audit.before_id, ''))
        order by s.changed_at desc, 'pause-' || s.id desc limit most)
      union all
      (select ('close-' || c.day, c.closed_at, 'days', 'day_closed', c.closed_by, c.closed_by_email, c.day::text, null,
          jsonb_build_object('difference', counted.difference, 'note', c.note))::public.audit_row
        from public.day_closes as c
        cross join lateral (
          select coalesce(sum(n.counted_cents - n.expected_cents), 0) as difference from public.cash_counts as n where n.day = c.day
        ) as counted
        where (wanted is null or wanted = 'days')
          and (by_whom is null or c.closed_by_email = by_whom) and c.closed_at >= since and c.closed_at < until
          and (c.closed_at, 'close-' || c.day) < (upto, coalesce(search_audit.before_id, ''))
        order by c.closed_at desc, 'close-' || c.day desc limit most)
    ) as history
    order by (found).created_at desc, (found).id desc
    limit most;
end
$$;

comment on function public.search_audit is
  'For owners: who changed what, newest first, after the row named by before_created_at and before_id. area: team, settings, texts, products, prices, discounts, riders, pauses, customers, refunds, reconciliation, days, personal_data. The stock is in product_history only. person: the email address that the histories store. Days of Nairobi.';
