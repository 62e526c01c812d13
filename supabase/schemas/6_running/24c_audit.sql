-- The audit: who changed what (docs/decisions/roles.md). Of tables that have a trigger already, a step in 23_changes.sql records changes.

create table public.audit_events (
  id bigint generated always as identity primary key,
  kind text not null,
  actor_id uuid,
  actor_email text,
  subject text,
  before jsonb,
  after jsonb,
  happened_at timestamptz not null default clock_timestamp(),
  constraint "an audited change is known" check (kind in (
    'member_invited', 'member_changed', 'member_removed', 'second_factor_reset', 'recovery_codes_made', 'recovery_code_used',
    'authenticator_removed', 'settings_changed', 'shop_text_changed', 'message_template_changed',
    'reply_template_added', 'reply_template_changed', 'reply_template_removed',
    'discount_code_added', 'discount_code_changed', 'discount_code_removed', 'phone_blocked', 'phone_unblocked',
    'product_added', 'product_changed', 'product_removed', 'category_added', 'category_changed', 'quote_shown', 'quote_hidden',
    'rider_added', 'rider_changed', 'rider_link_made', 'rider_link_revoked'
  ))
);
comment on table public.audit_events is
  'Changes that no other table keeps a history of, with the changed values only. Append-only. search_audit adds the other histories. actor_email: the email address at that time. subject: the member, the discount code, the text, the product, the rider, or the number of the order.';
alter table public.audit_events enable row level security;
revoke all on public.audit_events from anon, authenticated, service_role;
grant select on public.audit_events to authenticated, service_role;
create policy "owners read the audit" on public.audit_events for select to authenticated using ((select public.may('team')));
create index audit_events_by_time on public.audit_events (happened_at desc);
create trigger audit_events_before_change before update or delete on public.audit_events
  for each row execute function private.refuse_change('The audit is only added to');
create trigger audit_events_before_truncate before truncate on public.audit_events
  for each statement execute function private.refuse_change('The audit is only added to');

create function private.after_audit_event() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  -- To the member who pressed, too: that may be another person with the member's password.
  perform private.queue_staff_message('second_factor_removed', new.id::text);
  return null;
end
$$;
create trigger audit_events_after_insert after insert on public.audit_events
  for each row when (new.kind in ('second_factor_reset', 'recovery_code_used')) execute function private.after_audit_event();

create function private.audit_area(kind text) returns text
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

create function private.phone_in_audit(phone text) returns text
language sql immutable set search_path = '' as $$
  -- An erasure must leave no number behind. The last digits are enough to recognise it.
  select '0' || substr(phone, 5, 1) || '•• ••• ' || right(phone, 3);
$$;

create function private.value_in_audit(field text, value jsonb) returns jsonb
language sql immutable set search_path = '' as $$
  select case when field = 'phone' then to_jsonb(private.phone_in_audit(value #>> '{}')) else value end;
$$;

create function private.record_audit_event(kind text, subject text, before jsonb, after jsonb, actor uuid default auth.uid()) returns void
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

create function private.audit_row(row_kind text, subject text, before jsonb, after jsonb) returns void
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
create function private.after_audited_change() returns trigger
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
create trigger discount_codes_after_change after insert or update or delete on public.discount_codes
  for each row execute function private.after_audited_change(
    'discount_code', 'code', 'code percent amount_cents minimum_cents starts_at ends_at max_uses max_uses_per_phone is_active'
  );
create trigger message_templates_after_change after update on public.message_templates
  for each row execute function private.after_audited_change('message_template', 'kind channel', 'subject body is_on');
create trigger reply_templates_after_change after insert or update or delete on public.reply_templates
  for each row execute function private.after_audited_change('reply_template', 'title', 'title body');

create function private.after_area_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  of_no_interest constant text[] := '{id,position,created_at,updated_at}';
begin
  -- Not the areas that a new shop begins with.
  if auth.uid() is not null then
    perform private.record_audit_event(
      'settings_changed', new.name,
      case when tg_op = 'UPDATE' then to_jsonb(old) - of_no_interest end, to_jsonb(new) - of_no_interest
    );
  end if;
  return null;
end
$$;

create trigger delivery_areas_after_change after insert or update on public.delivery_areas
  for each row execute function private.after_area_change();

-- Presses of riders change their rows, too. The shop itself adds and deletes the practice rider at its start.
create trigger riders_after_change after insert or update of name, phone, vehicle, plate, is_active on public.riders
  for each row when (not new.is_practice) execute function private.after_audited_change('rider', 'name', 'name phone vehicle plate is_active');

create function private.after_rider_link_change() returns trigger
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

create function private.after_factor_end() returns trigger
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

create function private.after_phone_block() returns trigger
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
create trigger blocked_phones_after_change after insert or delete on public.blocked_phones
  for each row execute function private.after_phone_block();

create type public.audit_row as (
  id text, created_at timestamptz, area text, kind text, actor_id uuid, actor_email text, subject text, before jsonb, after jsonb
);

create function public.search_audit(
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

-- Execution rights
grant execute on function public.search_audit to authenticated;
