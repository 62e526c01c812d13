-- Earlier versions keep working: they know no recovery codes, and their audit page shows the new kinds of changes by their names.

create or replace function private.audit_area(kind text) returns text
language sql immutable
return case
  when kind = 'settings_changed' then 'settings'
  when kind ~ '^(shop_text|message_template|reply_template)_' then 'texts'
  when kind ~ '^discount_code_' then 'discounts'
  when kind in ('phone_blocked', 'phone_unblocked') then 'customers'
  else 'team'
end;

comment on function private.audit_area is 'The area of a kind of audit event, by which search_audit filters.';

drop trigger shop_texts_after_change on public.shop_texts;

alter table public.audit_events drop constraint "an audited change is known";

alter table public.audit_events add constraint "an audited change is known" CHECK ((kind = ANY (ARRAY['member_invited'::text, 'member_changed'::text, 'member_removed'::text, 'second_factor_reset'::text, 'recovery_codes_made'::text, 'recovery_code_used'::text, 'settings_changed'::text, 'shop_text_changed'::text, 'message_template_changed'::text, 'reply_template_added'::text, 'reply_template_changed'::text, 'reply_template_removed'::text, 'discount_code_added'::text, 'discount_code_changed'::text, 'discount_code_removed'::text, 'phone_blocked'::text, 'phone_unblocked'::text])));

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create or replace function private.has_staff_session() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    -- A token outlives its session by up to an hour; staff rights end with the session. A session whose refresh token was
    -- stolen keeps its row but has ended.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions as session
      where session.id = (select (auth.jwt() ->> 'session_id')::uuid) and session.user_id = (select auth.uid())
        and (session.not_after is null or session.not_after > now())
    )
  );
end
$$;

comment on function private.has_staff_session is
  'Whether the caller is active staff, not banned or deleted, in a session that has not ended. The second factor may still be missing.';

create or replace function public.is_admin() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  -- Visitors call functions that check this, too.
  if auth.uid() is null then
    return false;
  end if;
  return private.has_staff_session() and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  );
end
$$;

comment on function public.is_admin is
  'Whether the caller is active staff: not banned or deleted, in a session that has not ended, with the second factor verified if there is one. Every staff policy checks this.';

-- Execution rights
grant execute on function public.is_admin, public.may, public.is_recent_order to authenticated, service_role;

create or replace function private.after_shop_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_catalog.pg_notify('page_changes', '{"table": "shop_texts"}');
  perform private.record_audit_event(
    'shop_text_changed', new.title,
    jsonb_build_object('title', old.title, 'body', old.body), jsonb_build_object('title', new.title, 'body', new.body)
  );
  return null;
end
$$;

create trigger shop_texts_after_change after update on public.shop_texts
  for each row
  when (old.* is distinct from new.*)
  execute function private.after_shop_text_change();

comment on table public.audit_events is
  'Changes that no other table keeps a history of, with the changed values only. Append-only. search_audit adds the other histories. actor_email: the email address at that time. subject: the member, the discount code, the text.';

create or replace function public.reset_second_factor(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles := private.lock_member(reset_second_factor.member_id, caller);
begin
  delete from auth.mfa_factors as factor where factor.user_id = changed.user_id and factor.status = 'verified';
  if not found then
    perform private.refuse(409, 'no_second_factor', 'This member has no second factor');
  end if;
  delete from private.recovery_codes as known where known.user_id = changed.user_id;
  delete from auth.sessions as session where session.user_id = changed.user_id;
  perform private.record_audit_event('second_factor_reset', private.email_of(changed.user_id), null, null);
end
$$;

comment on function public.reset_second_factor is
  'For owners: removes the authenticator apps and recovery codes of another member who has lost them, and ends all sessions of the member. The password stays.';

create table private.recovery_codes (
  user_id uuid not null references auth.users (id) on delete cascade,
  code_hash bytea not null,
  created_at timestamptz not null default now(),
  primary key (user_id, code_hash)
);

comment on table private.recovery_codes is
  'Recovery codes of staff that were not used yet. Each removes the second factor of its member once (use_recovery_code).';

comment on column private.recovery_codes.code_hash is
  'SHA-256 of member and code. Codes are random with 60 bits, so that no slow hash is needed.';

alter table private.recovery_codes enable row level security;

create or replace function private.hash_recovery_code(user_id uuid, code text) returns bytea
language sql immutable
-- As it was typed: small letters, blanks and hyphens, and the letters that look like digits.
return sha256(convert_to(
  user_id || ' ' || translate(regexp_replace(upper(left(code, 100)), '[^0-9A-Z]', '', 'g'), 'OIL', '011'), 'UTF8'
));

create or replace function private.has_second_factor(user_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from auth.mfa_factors as factor where factor.user_id = has_second_factor.user_id and factor.status = 'verified'
  );
$$;

create or replace function public.count_recovery_codes() returns integer
language sql stable security definer set search_path = '' as $$
  select count(*)::integer from private.recovery_codes as known where known.user_id = (select auth.uid());
$$;

comment on function public.count_recovery_codes is 'How many recovery codes of the caller were not used yet.';

create or replace function public.make_recovery_codes() returns setof text
language plpgsql volatile security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('panel');
  code text;
begin
  if not private.has_second_factor(caller) then
    perform private.refuse(409, 'no_second_factor', 'Add an authenticator app first');
  end if;
  -- Two sets at once would both be valid.
  perform from public.admin_profiles as profile where profile.user_id = caller for update;
  delete from private.recovery_codes as known where known.user_id = caller;
  for count in 1..10 loop
    select string_agg(
      -- Crockford's base32: without letters that look like digits.
      substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', get_byte(random.bytes, place) % 32 + 1, 1) || case when place in (3, 7) then '-' else '' end,
      '' order by place
    ) into code
    from (select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) as bytes) as random
    cross join generate_series(0, 11) as place;
    insert into private.recovery_codes (user_id, code_hash) values (caller, private.hash_recovery_code(caller, code));
    return next code;
  end loop;
  perform private.record_audit_event('recovery_codes_made', private.email_of(caller), null, null);
end
$$;

comment on function public.make_recovery_codes is
  'For staff with a second factor: ten new recovery codes, which are shown once. They end the earlier ones.';

create or replace function public.use_recovery_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  caller constant uuid := auth.uid();
  remaining integer;
begin
  -- Before the second factor a member has no rights, so this is the only procedure that asks for less than expect_staff.
  if not private.has_staff_session() then
    perform private.refuse_staff();
  elsif not private.has_second_factor(caller) then
    perform private.refuse(409, 'no_second_factor', 'Your account has no second factor');
  elsif private.count_hit('recovery_codes', caller::text, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tries', 'That were too many tries. Please wait an hour, or ask an owner to reset your second factor');
  end if;
  delete from private.recovery_codes as known
  where known.user_id = caller and known.code_hash = private.hash_recovery_code(caller, use_recovery_code.code);
  if not found then
    -- Not raised, so that the try is counted.
    return private.refusal_answer('PT400', 'This is none of your recovery codes that are left. Please check each letter and digit',
      'recovery_code_wrong', '');
  end if;
  delete from auth.mfa_factors as factor where factor.user_id = caller and factor.status = 'verified';
  -- The lost phone may still be signed in.
  delete from auth.sessions as session
  where session.user_id = caller and session.id::text is distinct from auth.jwt() ->> 'session_id';
  select count(*) into remaining from private.recovery_codes as known where known.user_id = caller;
  perform private.record_audit_event('recovery_code_used', private.email_of(caller), null, jsonb_build_object('codes_left', remaining));
  return jsonb_build_object('codes_left', remaining);
end
$$;

comment on function public.use_recovery_code is
  'For staff who signed in with the password and have lost the second factor: an unused recovery code removes the second factor, and ends all other sessions. At most ten tries an hour.';

-- Trigger of tables without a history. Arguments: what a row is, as in the kinds of events; the columns that name it; the audited ones.
create or replace function private.after_audited_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  row_before constant jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after constant jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  audited constant text[] := string_to_array(tg_argv[2], ' ');
begin
  -- Not the rows of a new shop.
  if auth.role() is not null then
    perform private.record_audit_event(
      tg_argv[0] || case tg_op when 'INSERT' then '_added' when 'DELETE' then '_removed' else '_changed' end,
      (select string_agg(coalesce(row_after, row_before) ->> named.name, ', ' order by named.place)
       from unnest(string_to_array(tg_argv[1], ' ')) with ordinality as named (name, place)),
      (select jsonb_object_agg(e.key, e.value) from jsonb_each(row_before) as e where e.key = any (audited)),
      (select jsonb_object_agg(e.key, e.value) from jsonb_each(row_after) as e where e.key = any (audited))
    );
  end if;
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

create or replace function private.after_phone_block() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  phone constant text := case tg_op when 'INSERT' then new.phone else old.phone end;
begin
  -- An erasure must leave no number and no reason behind. The last digits are enough to recognise it.
  perform private.record_audit_event(
    case tg_op when 'INSERT' then 'phone_blocked' else 'phone_unblocked' end,
    coalesce('0' || substr(phone, 5, 1) || '•• ••• ' || right(phone, 3), 'An erased phone'), null, null
  );
  return null;
end
$$;

create trigger blocked_phones_after_change after insert or delete on public.blocked_phones
  for each row execute function private.after_phone_block();

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
    ) as history
    order by (found).created_at desc, (found).id desc
    limit most;
end
$$;

comment on function public.search_audit is
  'For owners: who changed what, newest first, after the row named by before_created_at and before_id. area: team, settings, texts, discounts, customers, prices, refunds, reconciliation, personal_data. person: the email address that the histories store. Days of Nairobi.';

-- Execution rights
grant execute on function public.team, public.change_member, public.reset_second_factor, public.check_invitation,
  public.withdraw_invitation, public.staff_names, public.search_audit, public.count_recovery_codes, public.make_recovery_codes,
  public.use_recovery_code to authenticated;
