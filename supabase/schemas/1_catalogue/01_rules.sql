-- Shared rules: refusing a request, reading phones, emails, names and days; people.
-- The schemas apply in the order of their names; functions may call what a later file creates.
set check_function_bodies = off;

-- No access by default: each table and function has its own grants.
alter default privileges in schema public revoke all on tables from anon, authenticated;
alter default privileges in schema public revoke all on sequences from anon, authenticated;
alter default privileges in schema public revoke execute on functions from anon, authenticated;
alter default privileges revoke execute on functions from public;
-- Grants say what staff may do with a table and which columns they may write; one policy per table says that only staff may.

create schema private;

-- Staff search parts of names, email addresses and numbers.
create extension if not exists pg_trgm with schema extensions;

-- Product search corrects typing errors by edit distance.
create extension if not exists fuzzystrmatch with schema extensions;

revoke all on schema private from public;

create sequence private.order_numbers start 1001;

create function private.normalised_phone(phone text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  written text;
  run text[];
  digits text;
  found_number text;
  has_other_digits boolean := false;
  is_bare boolean := false;
begin
  if octet_length(phone) > 400 or char_length(phone) > 100 then
    return null;
  end if;
  written := regexp_replace(
    translate(phone, '０１２３４５６７８９＋', '0123456789+'),
    '[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]', '', 'g'
  );
  -- Digits with what people write between them, and a letter that touches them.
  for run in
    select * from regexp_matches(
      written,
      '([a-zA-Z]?)(\+?[0-9](?:[0-9 \t\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000().-]*[0-9])?)([a-zA-Z]?)', 'g'
    )
  loop
    digits := regexp_replace(
      regexp_replace(run[2], '[^0-9+]', '', 'g'), '^(?:\+254|00254|254)0?(?=[17])', '0'
    );
    if digits ~ '^[17][0-9]{8}$' and run[1] || run[3] = '' then
      is_bare := true;
      digits := '0' || digits;
    end if;
    if digits ~ '^(\+254|0)[17][0-9]{8}$' then
      if found_number <> right(digits, 9) then
        return null;
      end if;
      found_number := right(digits, 9);
    elsif char_length(digits) > 6 then
      return null;
    else
      has_other_digits := true;
    end if;
  end loop;
  -- Beside other digits, nine digits may be the end of a foreign number.
  if is_bare and has_other_digits then
    return null;
  end if;
  return '+254' || found_number;
end
$$;
comment on function private.normalised_phone is
  'The Kenyan mobile number in a text, also in a link or with a name, as +2547… or +2541…; null for a text without one or with different ones. Reads as domain/people/phone.ts.';

create function private.are_opening_hours(written jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  if jsonb_typeof(written) is distinct from 'array' or jsonb_array_length(written) > 42 then
    return false;
  end if;
  -- A value of another type, or a missing one, makes the condition null: that counts as wrong.
  return not exists (
    select from jsonb_array_elements(written) as s (span)
    where not coalesce(
      jsonb_typeof(s.span) = 'object' and jsonb_typeof(s.span -> 'day') = 'number'
        and jsonb_typeof(s.span -> 'from') = 'string' and jsonb_typeof(s.span -> 'to') = 'string'
        and s.span ->> 'day' ~ '^[1-7]$' and s.span ->> 'from' ~ '^([01]\d|2[0-3]):[0-5]\d$'
        and s.span ->> 'to' ~ '^(([01]\d|2[0-3]):[0-5]\d|24:00)$' and s.span ->> 'from' <> s.span ->> 'to',
      false
    )
  );
end
$$;
comment on function private.are_opening_hours is
  'Whether this is a list of spans {day, from, to}: ISO weekday and times such as 08:00. A span whose end is not after its beginning ends on the next day; 24:00 is midnight.';

create function private.are_days_off(written jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  if jsonb_typeof(written) is distinct from 'array' or jsonb_array_length(written) > 60 then
    return false;
  end if;
  return not exists (
    select from jsonb_array_elements(written) as d (off)
    where not coalesce(case when
      jsonb_typeof(d.off) = 'object' and jsonb_typeof(d.off -> 'day') = 'string' and jsonb_typeof(d.off -> 'reason') = 'string'
        and d.off ->> 'day' ~ '^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$'
      -- 31 February is 3 March.
      then to_char(make_date(left(d.off ->> 'day', 4)::integer, substr(d.off ->> 'day', 6, 2)::integer, 1)
          + right(d.off ->> 'day', 2)::integer - 1, 'YYYY-MM-DD') = d.off ->> 'day'
        and char_length(trim(d.off ->> 'reason')) between 1 and 80 and d.off ->> 'reason' !~ '[\n\r]' end,
      false
    )
  );
end
$$;
comment on function private.are_days_off is 'Whether this is a list of days {day, reason}, at most 60.';

create function private.visible_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return char_length(regexp_replace(
    written,
    '[\u0001-\u0020\u007f-\u00a0\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0600-\u0605\u0610-\u061c'
    '\u064b-\u065f\u0670\u06d6-\u06dd\u070f\u0890\u0891\u08e2\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0e31\u0e34-\u0e3a'
    '\u0e47-\u0e4e\u115f\u1160\u135d-\u135f\u1680\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff'
    '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u20d0-\u20f0\u2800\u3000\u302a-\u302f\u3099\u309a\u3164'
    '\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f'
    '\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]',
    '', 'g'
  ));
end
$$;
comment on function private.visible_length is
  'Number of characters that a reader sees: without white space, control and format characters, and combining marks. Counts as domain/visible-text.ts.';

create function private.word_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return private.visible_length(regexp_replace(
    written,
    '[\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u007e\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9'
    '\u00bb-\u00bf\u00d7\u00f7\u02c2-\u02df\u2010-\u2bff\u2e00-\u2e7f\u3001-\u3004\u3008-\u3020\u3030'
    '\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd'
    '\U0001f000-\U0001faff]',
    '', 'g'
  ));
end
$$;
comment on function private.word_length is
  'Number of letters and digits of any script in a text. Counts as domain/visible-text.ts.';

create function private.without_accents(written text) returns text
language plpgsql immutable parallel safe as $$
begin
  -- Nearly all texts are plain, and `translate` compares each of their letters with each of the accented ones.
  if octet_length(written) = char_length(written) then
    return replace(lower(written), '''', '');
  end if;
  return translate(lower(written), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu');
end
$$;
comment on function private.without_accents is
  'A text as staff lists are searched: small letters without accents and apostrophes. The indexes by words hold what it returned: a migration that changes this rebuilds them.';
-- The indexes by words are written by those who may write their tables.
grant execute on function private.without_accents to authenticated, service_role;

create function private.back_off(first interval, tries integer, longest interval) returns interval
language sql immutable
return least(first * power(2, least(tries, 10)), longest);
comment on function private.back_off is 'The wait after a number of tries (from 0): it doubles with each, up to the longest.';

create function private.normalised_receipt(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if char_length(written) > 100 then
    return null;
  end if;
  -- Checked before the change to capitals, which turns some other letters into these.
  return upper(substring(regexp_replace(
    normalize(written, nfkc),
    '[\s\u0085\u00A0\u00AD\u061C\u1680\u180E\u2000-\u200F\u2028-\u202F\u205F-\u206F\u3000\uFEFF]', '', 'g'
  ) from '^[A-Za-z0-9]{10}$'));
end
$$;
comment on function private.normalised_receipt is
  'An M-PESA receipt in capitals, without blanks; null for any other text. normaliseReceipt in domain/mpesa/receipt.ts.';

create function private.masked_phone(phone text) returns text
language sql immutable set search_path = '' as $$
  -- The last four digits stay hidden: they prove that an order is the caller's.
  select case
    when phone ~ '^\+254\d{9}$' then '0' || substr(phone, 5, 3) || ' ••• •••'
    else '•••'
  end;
$$;

create function private.masked_name(name text) returns text
language sql immutable set search_path = '' as $$
  select string_agg(left(part, 1) || '•••', ' ')
  from regexp_split_to_table(trim(name), '\s+') as part;
$$;

create function private.refuse(status integer, code text, message text, hint text default null) returns void
language plpgsql set search_path = '' as $$
begin
  -- PT4xx becomes the HTTP status of the response; the detail is the error code.
  raise exception using errcode = 'PT' || status, message = message, detail = code, hint = coalesce(hint, '');
end
$$;
comment on function private.refuse is 'Ends the request with an HTTP status, an error code for programs and a message for users.';

-- A trigger has no parameters. What only the writer of a row knows and the triggers of the row need, such as that a change is undone, the
-- writer states before its statement and takes back after it.
create function private.state(fact text, is_true boolean default true) returns void
language plpgsql set search_path = '' as $$
begin
  perform set_config('private.' || fact, case when is_true then 'yes' else '' end, true);
end
$$;
comment on function private.state is
  'States a fact for the triggers of the next statements: undoes, although_unpaid, follows_delivery, has_inquiry, by_rider. It ends with the transaction at the latest.';

create function private.is_stated(fact text) returns boolean
language sql stable
return coalesce(current_setting('private.' || fact, true), '') = 'yes';
comment on function private.is_stated is 'Whether the writer of the row has stated a fact (private.state).';

create function private.state_moment(at timestamptz) returns void
language plpgsql set search_path = '' as $$
begin
  perform set_config('private.moment', coalesce(extract(epoch from state_moment.at)::text, ''), true);
end
$$;
comment on function private.state_moment is
  'States for the triggers of the next statements when their change happened, where that was before now. Null takes it back. It ends with the transaction at the latest.';

create function private.moment() returns timestamptz
language sql volatile
return coalesce(to_timestamp(nullif(current_setting('private.moment', true), '')::double precision), clock_timestamp());
comment on function private.moment is 'When the change of this statement happened: as stated (private.state_moment), else now.';

create function private.refuse_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  raise exception using errcode = 'insufficient_privilege', message = tg_argv[0];
end
$$;
comment on function private.refuse_change is 'Trigger of append-only tables. Its argument is the message.';

create function private.has_control_characters(written text) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  return written ~ '[\u0001-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]';
end
$$;
comment on function private.has_control_characters is
  'Whether a text has characters that a single line must not have: line breaks, tabs, other control characters, bidirectional controls.';

create function private.refusal_answer(code text, message text, details text, hint text) returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  perform set_config('response.status', substr(code, 3), true);
  return jsonb_build_object('code', code, 'message', message, 'details', details, 'hint', hint);
end
$$;
comment on function private.refusal_answer is
  'Refuses without raising, so that counted calls are committed: sets the HTTP status and returns PostgREST''s error body. A public procedure counts first, works in an inner block, and returns this from "exception when sqlstate ''PT000''", which matches every PTxxx.';

create function private.visible_text(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  return case when private.visible_length(written) > 0 then trim(written) end;
end
$$;
comment on function private.visible_text is 'A text without the spaces around it; null for one that a reader does not see.';

create function private.without_invisible_texts(written anyelement) returns anyelement
language plpgsql stable set search_path = '' as $$
declare
  cleared jsonb;
begin
  select jsonb_object_agg(field.key, case when a.attnotnull then '' end) into cleared
  from jsonb_each_text(to_jsonb(written)) as field
  join pg_catalog.pg_attribute as a on a.attname = field.key and a.atttypid = 'text'::regtype
    and a.attrelid = (select t.typrelid from pg_catalog.pg_type as t where t.oid = pg_typeof(written))
  where field.value <> '' and private.visible_length(left(field.value, 10000)) = 0;
  return case when cleared is null then written else jsonb_populate_record(written, cleared) end;
end
$$;
comment on function private.without_invisible_texts is
  'A row that visitors or staff write, before it is stored: a text that a reader does not see counts as none. Constraints then refuse it where one is required.';

create function private.read_reason(written text, is_required boolean default false) returns text
language plpgsql immutable set search_path = '' as $$
declare
  reason text := private.visible_text(left(written, 1000));
begin
  if char_length(reason) > 200 or private.visible_length(reason) < 3 or (is_required and reason is null) then
    if is_required then
      perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
    end if;
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  return reason;
end
$$;
comment on function private.read_reason is
  'The reason or note of a staff member, trimmed; null for none. Refuses one with fewer than 3 visible characters or more than 200.';

create function private.is_email(address text) returns boolean
language plpgsql immutable set search_path = '' as $$
declare
  domain text;
begin
  if address is null or octet_length(address) > 1016 or char_length(address) > 254 then
    return false;
  end if;
  -- White space and control characters, written out: \s depends on the database's locale.
  if address ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]' then
    return false;
  end if;
  domain := split_part(address, '@', 2);
  return char_length(replace(address, '@', '')) = char_length(address) - 1
    and private.visible_length(split_part(address, '@', 1)) > 0 and private.word_length(domain) > 0
    -- A dot that is neither the first nor the last character.
    and position('.' in substr(domain, 2, greatest(char_length(domain) - 2, 0))) > 0;
end
$$;
comment on function private.is_email is
  'Whether a text can be an email address, by the rule of domain/people/email.ts: at most 254 characters; one @ with text before it; after it a dot with text on both sides; no spaces or control characters.';

-- A function with a body of `return` is read when it is created, so it needs no search_path; without one it becomes part of its
-- caller's plan.
create function private.is_whole_shillings(cents bigint) returns boolean
language sql immutable
return cents >= 100 and cents % 100 = 0;
comment on function private.is_whole_shillings is 'Whether M-PESA can charge or refund an amount: whole shillings, at least one.';

create function private.nairobi_day(moment timestamptz) returns date
language sql immutable
return (moment at time zone 'Africa/Nairobi')::date;
comment on function private.nairobi_day is 'The day in Nairobi at a moment.';

-- People: staff accounts, and the identity of the current request

create table public.admin_profiles (
  user_id uuid primary key references auth.users (id) on delete cascade,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  role text not null default 'owner',
  name text not null default '',
  invited_at timestamptz,
  invited_by uuid,
  constraint "a role is known" check (role in ('owner', 'staff', 'counter')),
  constraint "a name is one line of up to 60 characters" check (name ~ '^[^\u0001-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]{0,60}$')
);
comment on table public.admin_profiles is 'Staff accounts. A signed-in user is staff only while the row is active.';
comment on column public.admin_profiles.role is
  'What a member may do (private.areas_of). Default: owner, because rows without a role come from the command for the first owner.';
comment on column public.admin_profiles.invited_at is 'When the last invitation was sent. Null: the account was not invited from the panel.';
comment on column public.admin_profiles.name is 'Shown to colleagues instead of the email address. Empty: none was given.';
alter table public.admin_profiles enable row level security;
grant select on public.admin_profiles to authenticated;
create policy "people read their own profile" on public.admin_profiles
  for select to authenticated using (user_id = (select auth.uid()));

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create function private.has_staff_session() returns boolean
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

create function public.is_admin() returns boolean
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

create function public.list_own_sessions() returns table (
  id uuid, created_at timestamptz, last_seen_at timestamptz, user_agent text, address text, is_current boolean
)
language sql stable security definer set search_path = '' as $$
  select session.id, session.created_at, coalesce(session.refreshed_at, session.created_at), session.user_agent,
    host(session.ip), session.id::text = (select auth.jwt() ->> 'session_id')
  from auth.sessions as session
  where session.user_id = (select auth.uid()) and (session.not_after is null or session.not_after > now())
  order by 6 desc, 3 desc;
$$;
comment on function public.list_own_sessions is 'Sessions of the caller, the current one first.';

-- The rights of the roles: the only place in the database that states them (docs/decisions/roles.md).
create function private.areas_of(role text) returns text[]
language sql immutable
return case role
  when 'counter' then array['panel', 'deliveries', 'cash']
  when 'staff' then array['panel', 'deliveries', 'cash', 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures']
  when 'owner' then array[
    'panel', 'deliveries', 'cash', 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures',
    'approvals', 'reconciliation', 'personal_data', 'settings', 'team'
  ]
end;
comment on function private.areas_of is
  'The areas in which a role may read and write. panel: what every screen needs. deliveries: Today and deliveries. refunds: up to the limit; approvals: above it. domain/people/staff-rights.ts repeats it for screens.';

create function public.may(area text) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return public.is_admin() and exists (
    select from public.admin_profiles as profile
    where profile.user_id = (select auth.uid()) and may.area = any (private.areas_of(profile.role))
  );
end
$$;
comment on function public.may is
  'Whether the caller is active staff (is_admin) with a role that has the area. Staff policies and procedures check this.';

create function private.counter_days() returns integer
language sql immutable
return 7;
comment on function private.counter_days is 'For how many days, today included, the role counter sees closed orders.';

-- Only the counter's policies call it: all other staff see every order before this is asked.
create function public.is_recent_order(order_id uuid) returns boolean
language plpgsql stable security definer cost 1 set search_path = '' as $$
declare
  since constant timestamptz := (private.nairobi_day(now()) - private.counter_days() + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  return exists (
    select from public.orders as o
    where o.id = is_recent_order.order_id and (
      private.is_open_order(o.status) or o.created_at >= since
      or exists (select from public.deliveries as d where d.order_id = o.id and d.created_at >= since)
    )
  );
end
$$;
comment on function public.is_recent_order is
  'Whether an order is open, or was placed or paid in the last seven days: what the role counter sees (docs/decisions/roles.md).';

-- For security definer functions that act for staff.
create function private.refuse_staff() returns void
language plpgsql stable set search_path = '' as $$
begin
  if public.is_admin() then
    perform private.refuse(403, 'not_in_role', 'Your role does not include this. Please ask an owner');
  end if;
  perform private.refuse(403, 'staff_only', 'Only staff may do this');
end
$$;

create function private.expect_staff(area text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if not (public.may(expect_staff.area) or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse_staff();
  end if;
end
$$;
comment on function private.expect_staff is 'Refuses callers other than staff whose role has the area, and the shop itself.';

create function private.expect_staff_member(area text) returns uuid
language plpgsql stable set search_path = '' as $$
begin
  if not public.may(expect_staff_member.area) or (select auth.uid()) is null then
    perform private.refuse_staff();
  end if;
  return (select auth.uid());
end
$$;
comment on function private.expect_staff_member is
  'The calling staff member, whose role has the area; refuses all other callers, the shop itself included.';

create function private.email_of(user_id uuid) returns text
language sql stable strict set search_path = '' as $$
  select u.email from auth.users as u where u.id = user_id;
$$;
comment on function private.email_of is 'The current email address of an account, which logs store beside its id.';

-- Execution rights
grant execute on function public.is_admin, public.may, public.is_recent_order to authenticated, service_role;
grant execute on function public.list_own_sessions to authenticated;
