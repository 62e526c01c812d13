-- Replaces: 20261126093235_plain_words
-- The database as described by supabase/schemas, and the rows of a new shop at the end.

-- schemas/01_rules.sql
-- Shared rules: refusing a request, reading phones, emails, names and days; people; limits of calls.
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
begin
  if octet_length(phone) > 100 then
    return null;
  end if;
  -- 07…, 01…, 7…, 1…, 254… and +254…, with spaces or hyphens, all become +254…; anything else becomes null.
  return '+254' || substring(regexp_replace(phone, '[\s-]', '', 'g') from '^(?:\+?254|0)?([17]\d{8})$');
end
$$;
comment on function private.normalised_phone is 'A Kenyan mobile number as +2547… or +2541…; null for any other text.';

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
    and split_part(address, '@', 1) <> ''
    -- A dot that is neither the first nor the last character.
    and position('.' in substr(domain, 2, greatest(char_length(domain) - 2, 0))) > 0;
end
$$;
comment on function private.is_email is
  'Whether a text can be an email address, by the rule of domain/email.ts: at most 254 characters; one @ with text before it; after it a dot with text on both sides; no spaces or control characters.';

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
  created_at timestamptz not null default now()
);
comment on table public.admin_profiles is 'Staff accounts. A signed-in user is staff only while the row is active.';
alter table public.admin_profiles enable row level security;
grant select on public.admin_profiles to authenticated;
create policy "people read their own profile" on public.admin_profiles
  for select to authenticated using (user_id = (select auth.uid()));

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create function public.is_admin() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return (select auth.uid()) is not null and exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
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

-- For security definer functions that act for staff.
create function private.expect_staff() returns void
language plpgsql stable set search_path = '' as $$
begin
  if not (public.is_admin() or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
end
$$;
comment on function private.expect_staff is 'Refuses callers other than staff and the shop itself.';

create function private.expect_staff_member() returns uuid
language plpgsql stable set search_path = '' as $$
begin
  if not public.is_admin() or (select auth.uid()) is null then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  return (select auth.uid());
end
$$;
comment on function private.expect_staff_member is 'The calling staff member; refuses all other callers, the shop itself included.';

create function private.email_of(user_id uuid) returns text
language sql stable strict set search_path = '' as $$
  select u.email from auth.users as u where u.id = user_id;
$$;
comment on function private.email_of is 'The current email address of an account, which logs store beside its id.';

-- Limits: calls per network of the caller and time window (docs/decisions/limits.md). Their values are rows of private.limits, at the
-- end of the baseline migration.

create unlogged table private.rate_limits (
  bucket text not null,
  subject text not null,
  window_start timestamptz not null,
  hits integer not null,
  window_end timestamptz not null default now() + interval '2 hours',
  constraint "one counter per subject and window" primary key (bucket, subject, window_start)
);
comment on table private.rate_limits is 'Calls counted per subject and time window.';
alter table private.rate_limits enable row level security;
create index rate_limits_by_window_end on private.rate_limits (window_end);

create table private.limits (
  name text primary key,
  allowed integer not null,
  within interval not null,
  constraint "a limit allows at least one call" check (allowed >= 1),
  constraint "a limit has a window" check (within > interval '0')
);
comment on table private.limits is
  'Allowed calls of a network per window. allowed applies to one IP address or /64; wider networks have private.allowance_factor times as many.';
alter table private.limits enable row level security;

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create function private.count_hit(bucket text, subject text, within interval) returns integer
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  started timestamptz := date_bin(count_hit.within, clock_timestamp(), timestamptz '2000-01-01');
  counted integer;
begin
  insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
  values (count_hit.bucket, count_hit.subject, started, started + count_hit.within, 1)
  on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
  returning hits into counted;
  return counted;
end
$$;
comment on function private.count_hit is
  'Counts one hit in the current window and returns the number of hits. Rolled back with its transaction.';

-- Plans of functions do not depend on statistics, which a new table lacks: scans of whole tables are switched off. PostgreSQL
-- prices such a scan at 1e10 where no index can replace it, and would compile the statement, which takes 0.2 s: so jit is off, too.
create function private.hits_so_far(bucket text, subject text, within interval) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return coalesce((
    select known.hits
    from private.rate_limits as known
    where known.bucket = hits_so_far.bucket and known.subject = hits_so_far.subject
      and known.window_start = date_bin(hits_so_far.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0);
end
$$;
comment on function private.hits_so_far is 'Number of hits in the current window, without counting one.';

create table private.storefront_tokens (
  token_hash text primary key,
  registered_at timestamptz not null default now(),
  constraint "a token hash is SHA-256 in hexadecimal" check (token_hash ~ '^[0-9a-f]{64}$')
);
comment on table private.storefront_tokens is
  'SHA-256 hashes of the tokens with which the shop''s servers send their visitor''s IP address (x-visitor-token).';
alter table private.storefront_tokens enable row level security;

create function public.register_storefront(token_hash text) returns void
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
begin
  insert into private.storefront_tokens as known (token_hash)
  values (register_storefront.token_hash)
  on conflict (token_hash) do update set registered_at = now();
  -- Several hashes are valid, because keys are rotated.
  delete from private.storefront_tokens as known
  where known.token_hash not in (
    select latest.token_hash from private.storefront_tokens as latest order by latest.registered_at desc limit 5
  );
end
$$;
comment on function public.register_storefront is
  'Accepts visitor addresses from servers with the token of this hash. The five newest hashes are valid.';

create function private.request_address() returns text
language plpgsql stable security definer set search_path = '' as $$
declare
  headers jsonb := nullif(current_setting('request.headers', true), '')::jsonb;
  visitor text := left(headers ->> 'x-visitor-address', 100);
begin
  if coalesce((select auth.role()), '') = 'service_role' then
    return visitor;
  end if;
  if visitor is not null and exists (
    select from private.storefront_tokens as known
    where known.token_hash = encode(sha256(convert_to(left(headers ->> 'x-visitor-token', 100), 'UTF8')), 'hex')
  ) then
    return visitor;
  end if;
  -- An IP address with its zone has at most 100 characters.
  return coalesce(
    left(headers ->> 'cf-connecting-ip', 100),
    split_part(right(rtrim(headers ->> 'x-forwarded-for'), 100), ',', -1)
  );
end
$$;
comment on function private.request_address is
  'The caller''s IP address, from sources that a client cannot write: x-visitor-address, with a storefront token or the secret key; cf-connecting-ip, set by a hosted project''s network; the last address of x-forwarded-for, added by the nearest proxy. Null for calls of the shop itself.';

create function private.caller_networks() returns text[]
language plpgsql stable set search_path = '' as $$
declare
  request_address text;
  address inet;
begin
  request_address := private.request_address();
  if request_address is null then
    return '{}';
  end if;
  address := split_part(trim(request_address), '%', 1)::inet;
  if address <<= inet '::ffff:0.0.0.0/96' then
    address := inet '0.0.0.0' + (address - inet '::ffff:0.0.0.0');
  end if;
  if family(address) = 4 then
    return array[host(address), network(set_masklen(address, 24))::text];
  end if;
  return array[
    network(set_masklen(address, 64))::text,
    network(set_masklen(address, 56))::text,
    network(set_masklen(address, 48))::text
  ];
exception when data_exception then
  return '{unknown}';
end
$$;
comment on function private.caller_networks is
  'Networks of the caller''s IP address, narrowest first: the IPv4 address and its /24, or the IPv6 /64, /56 and /48. Unreadable addresses share the network "unknown". Empty for calls of the shop itself.';

create function private.allowance_factor(network text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  -- Many customers of one provider share a wider network.
  return case split_part(network, '/', 2) when '56' then 2 when '48' then 8 when '24' then 8 else 1 end;
end
$$;
comment on function private.allowance_factor is
  'How many times the allowance of an IP address or /64 a network has: /56 twice, /48 and IPv4 /24 eight times.';

create function private.is_within_limit(rule private.limits, networks text[], subject text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where private.hits_so_far(rule.name, rtrim(caller.network || ' ' || is_within_limit.subject), rule.within)
      >= rule.allowed * private.allowance_factor(caller.network)
  );
end
$$;

create function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return private.is_within_limit(rule, private.caller_networks(), is_within_limit.subject);
end
$$;
comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';

create function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  rule private.limits;
  networks text[] := private.caller_networks();
  started timestamptz;
  is_within boolean;
begin
  select * into strict rule from private.limits as l where l.name = count_call.limit_name;
  -- A call over the limit writes nothing, so that one address cannot use up the allowance of its wider networks.
  if not private.is_within_limit(rule, networks, count_call.subject) then
    return false;
  end if;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, rtrim(caller.network || ' ' || count_call.subject), started, started + rule.within, 1
    from unnest(networks) with ordinality as caller (network, level)
    -- Concurrent calls lock their common counters in the same order.
    order by caller.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, hits
  )
  select coalesce(bool_and(c.hits <= rule.allowed * private.allowance_factor(split_part(c.subject, ' ', 1))), true) into is_within
  from counted as c;
  return is_within;
end
$$;
comment on function private.count_call is
  'Counts one call in this limit, and subject if given, for each network of the caller. Returns whether all are within their allowance. Bound the subject''s length first. True without an IP address.';

-- Execution rights
grant execute on function public.is_admin to authenticated, service_role;
grant execute on function public.list_own_sessions to authenticated;
grant execute on function public.register_storefront to service_role;

-- schemas/02_settings_and_catalogue.sql
-- What staff edit: settings and texts of the shop, categories (flavours) and products. Prices are in cents.

-- Settings and texts

create table public.store_settings (
  id boolean primary key default true,
  store_name text not null default 'Jani Juice',
  support_phone text not null default '+254700000000',
  chat_phone text not null default '+254700000000',
  support_email text not null default 'hello@jani.example',
  instagram_url text not null default 'https://instagram.example/janijuice',
  facebook_url text not null default 'https://facebook.example/janijuice',
  tiktok_url text not null default 'https://tiktok.example/@janijuice',
  delivery_fee integer not null default 100,
  reservation_minutes integer not null default 15,
  updated_at timestamptz not null default now(),
  till_number text not null default '',
  paybill_number text not null default '',
  refuses_unknown_payments boolean not null default false,
  refund_approval_above integer not null default 100000,
  payment_messages_months integer not null default 72,
  unpaid_orders_per_phone integer not null default 5,
  reserved_share_percent integer not null default 50,
  texts_per_day integer not null default 300,
  mails_per_day integer not null default 1000,
  order_details_months integer not null default 24,
  inquiries_months integer not null default 12,
  requires_terms_tick boolean not null default false,
  constraint "there is one row of settings" check (id),
  constraint "the store has a name" check (char_length(trim(store_name)) between 1 and 80),
  constraint "the delivery fee is not negative" check (delivery_fee between 0 and 100000000),
  constraint "a reservation lasts minutes" check (reservation_minutes between 1 and 1440),
  constraint "phones are in international form"
    check (support_phone ~ '^\+[1-9]\d{7,14}$' and chat_phone ~ '^\+[1-9]\d{7,14}$'),
  constraint "social links are https or empty"
    check (
      (instagram_url = '' or instagram_url ~ '^https://[^\s]+$') and char_length(instagram_url) <= 300
      and (facebook_url = '' or facebook_url ~ '^https://[^\s]+$') and char_length(facebook_url) <= 300
      and (tiktok_url = '' or tiktok_url ~ '^https://[^\s]+$') and char_length(tiktok_url) <= 300
    ),
  constraint "a till number is digits or empty" check (till_number ~ '^(\d{4,10})?$'),
  constraint "a paybill number is digits or empty" check (paybill_number ~ '^(\d{4,10})?$'),
  constraint "the refund limit is not negative" check (refund_approval_above between 0 and 100000000),
  constraint "payment messages are stored between one and twenty years" check (payment_messages_months between 12 and 240),
  constraint "a phone may have an unpaid order" check (unpaid_orders_per_phone between 1 and 100),
  constraint "a share of the stock can be reserved" check (reserved_share_percent between 1 and 100),
  constraint "daily message budgets are bounded"
    check (texts_per_day between 0 and 100000 and mails_per_day between 0 and 100000),
  constraint "order details are stored between one month and twenty years"
    check (order_details_months between 1 and 240),
  constraint "inquiries are stored between one month and twenty years" check (inquiries_months between 1 and 240)
);
comment on table public.store_settings is 'Settings of the shop, in one row.';
comment on column public.store_settings.delivery_fee is
  'In cents. 0: free delivery. The only source of the fee in an order''s total.';
comment on column public.store_settings.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
comment on column public.store_settings.till_number is 'Till (Buy Goods) for manual payments. Empty: none.';
comment on column public.store_settings.paybill_number is
  'Paybill for manual payments, with the tracking number as account. Empty: none.';
comment on column public.store_settings.refuses_unknown_payments is
  'Whether M-PESA''s validation rejects manual payments without an order''s number or of another amount than its charge.';
comment on column public.store_settings.refund_approval_above is
  'In cents. Refunds by M-PESA above this amount need approval by a second staff member.';
comment on column public.store_settings.payment_messages_months is
  'Months for which M-PESA''s messages are stored verbatim, with the payer''s name. Kenyan law requires records for five years.';
comment on column public.store_settings.unpaid_orders_per_phone is
  'Maximum unpaid orders of one phone in one network; ten times as many for all phones. Wider networks: private.allowance_factor.';
comment on column public.store_settings.reserved_share_percent is
  'Percentage of a product''s units that unpaid orders may hold from placing. Orders beyond it hold units only while a prompt is open.';
comment on column public.store_settings.texts_per_day is
  'Maximum texts to customers per day in Nairobi. 0: none. Messages that visitors cause without paying may use half of it.';
comment on column public.store_settings.mails_per_day is 'Maximum emails per day, as texts_per_day.';
comment on column public.store_settings.order_details_months is
  'Months until an order is anonymised. The order itself stays in the books.';
comment on column public.store_settings.requires_terms_tick is
  'Whether place_order requires the box for being 18 or older and accepting terms and privacy notice.';
alter table public.store_settings enable row level security;
grant update (
  store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee, reservation_minutes,
  updated_at, till_number, paybill_number, refuses_unknown_payments, refund_approval_above, payment_messages_months,
  unpaid_orders_per_phone, reserved_share_percent, texts_per_day, mails_per_day, order_details_months, inquiries_months,
  requires_terms_tick
) on public.store_settings to authenticated;
-- The other settings are for staff only (staff_settings). The privacy notice shows the retention periods.
grant select (
  id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee,
  reservation_minutes, till_number, paybill_number, updated_at, order_details_months, inquiries_months, payment_messages_months,
  requires_terms_tick
) on public.store_settings to anon, authenticated;
create policy "everyone reads the settings" on public.store_settings for select to anon, authenticated using (true);
create policy "staff edit the settings" on public.store_settings
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create table public.shop_texts (
  slug text primary key,
  title text not null,
  body text not null,
  default_title text not null,
  default_body text not null,
  updated_at timestamptz not null default now(),
  constraint "a text has a place on the contact page" check (slug in ('faq', 'privacy', 'terms')),
  constraint "a text has a title" check (char_length(trim(title)) between 1 and 80 and title !~ '[\n\r]'),
  constraint "a text has a body" check (char_length(body) <= 20000 and trim(body) <> '')
);
comment on table public.shop_texts is
  'Texts of the contact page in Markdown; slug is the anchor. {name} is replaced by a setting (domain/shop-text.ts).';
alter table public.shop_texts enable row level security;
grant select on public.shop_texts to anon, authenticated;
grant update (title, body, updated_at) on public.shop_texts to authenticated;
create policy "everyone reads the texts of the shop" on public.shop_texts for select to anon, authenticated using (true);
create policy "staff edit the texts of the shop" on public.shop_texts
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create function private.time_of_edit(old jsonb, new jsonb) returns timestamptz
language sql volatile set search_path = '' as $$
  -- Two edits never have the same updated_at, even when the clock is set back.
  select case
    when old - 'updated_at' is distinct from new - 'updated_at'
    then greatest(clock_timestamp(), (old ->> 'updated_at')::timestamptz + interval '1 microsecond')
    else (old ->> 'updated_at')::timestamptz
  end;
$$;
comment on function private.time_of_edit is
  'updated_at of an edited row: later than before if any other column changed, else unchanged.';

create function private.before_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create function public.staff_settings() returns public.store_settings
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return (select s from public.store_settings as s);
end
$$;
comment on function public.staff_settings is 'For staff: all settings, also those that visitors may not read.';

create trigger shop_texts_before_change before update on public.shop_texts
  for each row execute function private.before_text_change();

-- Catalogue

create table public.categories (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  constraint "category names are unique" unique (name),
  constraint "a category has a name" check (char_length(trim(name)) between 1 and 80)
);
comment on table public.categories is 'Flavours of products. Products follow a rename.';
comment on column public.categories.is_active is 'Inactive: not offered in filters and forms; its products stay listed.';
alter table public.categories enable row level security;
grant select on public.categories to anon, authenticated;
grant insert (name, is_active), update (name, is_active) on public.categories to authenticated;
create policy "everyone reads active categories" on public.categories for select to anon, authenticated using (is_active);
create policy "staff read and edit every category" on public.categories
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create unique index "category names are unique in any case" on public.categories (lower(name));

create table public.products (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  slug text not null,
  tagline text,
  description text,
  price integer not null,
  image_url text,
  category text,
  brand text,
  stock_quantity integer not null default 0,
  is_active boolean not null default true,
  home_section text,
  home_position integer,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  previous_price integer,
  constraint "product slugs are unique" unique (slug),
  constraint "a product has a name" check (char_length(trim(name)) between 1 and 160),
  constraint "a slug is lower-case letters, digits and hyphens" check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  constraint "a price is not negative" check (price between 0 and 1000000000),
  constraint "a brand is at most 160 characters" check (char_length(brand) <= 160),
  constraint "stock is never below zero" check (stock_quantity >= 0),
  constraint "a product's category exists" foreign key (category) references public.categories (name) on update cascade,
  constraint "home sections are known" check (home_section in ('top_picks', 'drinks_on_offer')),
  constraint "an image is at an https URL or a path of this site" check (
    char_length(image_url) <= 2000
    and image_url ~ '^(https://[^/]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/])'
    and image_url !~ '[\\\s[:cntrl:]]'
  ),
  constraint "a previous price is above the price" check (previous_price > price and previous_price <= 1000000000)
);
comment on table public.products is 'What the shop sells. Prices in cents.';
comment on column public.products.category is 'Name of the category (flavour).';
comment on column public.products.home_section is 'Section of the home page that shows the product, ordered by home_position.';
comment on column public.products.updated_at is
  'Changes with every edit except of the stock. A save sends the value that it read, and changes nothing if the row has changed since.';
comment on column public.products.previous_price is 'In cents: price before the current offer. Null: not on offer.';
alter table public.products enable row level security;
grant select on public.products to anon, authenticated;
grant
  insert (
    name, slug, tagline, description, price, previous_price, image_url, category, brand, stock_quantity, is_active, home_section,
    home_position
  ),
  update (
    name, slug, tagline, description, price, previous_price, image_url, category, brand, stock_quantity, is_active, home_section,
    home_position, updated_at
  ),
  delete on public.products to authenticated;
create policy "everyone reads active products" on public.products for select to anon, authenticated using (is_active);
create policy "staff read and edit every product" on public.products
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create index products_newest_first on public.products (created_at desc);
create index products_by_category on public.products (category);
-- Sort orders of the shop page. Those by brand and by flavour serve its filters, too.
create index products_shown_newest_first on public.products (created_at desc, id) where is_active;
create index products_shown_by_price on public.products (price, created_at desc, id) where is_active;
create index products_shown_by_brand on public.products (lower(brand), brand, created_at desc, id) where is_active;
create index products_shown_by_flavour on public.products (lower(category), category, created_at desc, id) where is_active;
create index products_on_the_home_page on public.products (home_section, home_position) where home_section is not null;

create table private.catalogue_counts (
  category text not null,
  brand text not null,
  products integer not null,
  primary key (category, brand)
);
comment on table private.catalogue_counts is
  'How many active products each pair of flavour and brand has, empty for none. Changes with them, so that no page reads the catalogue to count it.';
alter table private.catalogue_counts enable row level security;

create function private.count_active_products(old public.products, new public.products) returns void
language plpgsql set search_path = '' as $$
declare
  change record;
begin
  -- Always in the same order, so that two edits cannot deadlock.
  for change in
    select moved.category, moved.brand, sum(moved.difference) as products
    from (
      select coalesce(old.category, ''), coalesce(old.brand, ''), -1 where old.is_active
      union all
      select coalesce(new.category, ''), coalesce(new.brand, ''), 1 where new.is_active
    ) as moved (category, brand, difference)
    group by 1, 2
    having sum(moved.difference) <> 0
    order by 1, 2
  loop
    insert into private.catalogue_counts as c (category, brand, products)
    values (change.category, change.brand, change.products)
    on conflict (category, brand) do update set products = c.products + excluded.products;
    delete from private.catalogue_counts as c
    where c.category = change.category and c.brand = change.brand and c.products = 0;
  end loop;
end
$$;
comment on function private.count_active_products(public.products, public.products) is
  'Updates catalogue_counts with a product that was added (old is null), changed or deleted (new is null).';

create function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable set search_path = '' as $$
  select p.*
  from public.products as p
  where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  union all
  (
    select r.*
    from public.products as p
    join public.products as r on r.category = p.category and r.id <> p.id and r.is_active
    where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
    order by r.created_at desc, r.id
    limit least(greatest(related_limit, 0), 24)
  );
$$;
comment on function public.product_and_related is
  'The active product with this slug, then the newest others of its category. No row: no such product.';

create function public.home_products(newest integer default 6) returns setof public.products
language plpgsql stable rows 50
set search_path = ''
-- Finds a few products by index, with any statistics.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return query
    select p.*
    from (
      select s.id from public.products as s where s.home_section is not null and s.is_active
      union
      (
        select n.id from public.products as n
        where n.is_active
        order by n.created_at desc
        limit least(greatest(home_products.newest, 0), 24)
      )
      union
      -- One product shows that its flavour is sold.
      select one.id
      from public.categories as c
      cross join lateral (
        select o.id from public.products as o where o.category = c.name and o.is_active limit 1
      ) as one
      where c.is_active
    ) as shown
    cross join lateral (select * from public.products as p where p.id = shown.id offset 0) as p
    order by p.created_at desc, p.id;
end
$$;
comment on function public.home_products is
  'What the home page is made from, newest first: the active products of its sections, the newest products, and one of each active category.';

create function private.shop_page_ids(brand text, category text, sort text, first integer, most integer) returns uuid[]
language plpgsql stable
set search_path = ''
-- Scans the index of the sort and stops early, with any statistics.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  ids uuid[];
begin
  execute format(
    'select array_agg(p.id order by p.place)
     from (
       select p.id, row_number() over (order by %2$s) as place from public.products as p where p.is_active%1$s
       order by %2$s offset $1 limit $2
     ) as p',
    -- The first part of each condition is the first column of its index.
    case when brand <> '' then format(' and lower(p.brand) = lower(%1$L) and p.brand = %1$L', brand) else '' end
    || case when category <> '' then format(' and lower(p.category) = lower(%1$L) and p.category = %1$L', category) else '' end,
    case sort
      when 'brand' then 'lower(p.brand), p.brand, '
      when 'flavor' then 'lower(p.category), p.category, '
      when 'price' then 'p.price, '
      else ''
    end || 'p.created_at desc, p.id'
  ) into ids using first, most;
  return ids;
end
$$;

create function public.shop_page(
  search text default '',
  brand text default null,
  category text default null,
  sort text default null,
  page integer default 1
) returns jsonb
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  page_size constant integer := 60;
  most_found constant integer := 250;
  wanted text := trim(left(coalesce(shop_page.search, ''), 200));
  of_brand text := left(shop_page.brand, 200);
  of_category text := left(shop_page.category, 200);
  before integer := (least(greatest(coalesce(shop_page.page, 1), 1), 1000) - 1) * page_size;
  is_whole boolean := (select count(*) from (select from public.products as p where p.is_active limit page_size + 1) as few) <= page_size;
  terms private.search_terms;
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    terms := private.read_search(wanted);
    found_ids := private.found_products(terms, most_found);
  end if;
  if is_whole then
    shown_ids := private.shop_page_ids(null, null, null, 0, page_size);
    matching := coalesce(cardinality(shown_ids), 0);
  elsif wanted <> '' then
    select array_agg(f.id order by f.place) filter (where f.place > before and f.place <= before + page_size), count(*)
    into shown_ids, matching
    from (
      select p.id, row_number() over (
        order by
          case shop_page.sort when 'brand' then lower(p.brand) when 'flavor' then lower(p.category) end,
          case shop_page.sort when 'brand' then p.brand when 'flavor' then p.category end,
          case shop_page.sort when 'price' then p.price end,
          case when shop_page.sort in ('popularity', 'brand', 'flavor', 'price') then p.created_at end desc,
          match.place
      ) as place
      from unnest(found_ids) with ordinality as match (id, place)
      join public.products as p on p.id = match.id
      where (coalesce(of_brand, '') in ('', p.brand)) and (coalesce(of_category, '') in ('', p.category))
    ) as f;
  else
    select coalesce(sum(c.products), 0) into matching
    from private.catalogue_counts as c
    where coalesce(of_brand, '') in ('', c.brand) and coalesce(of_category, '') in ('', c.category);
    shown_ids := private.shop_page_ids(of_brand, of_category, shop_page.sort, before, page_size);
  end if;
  return jsonb_build_object(
    'is_whole', is_whole,
    'count', matching,
    'may_be_more', coalesce(cardinality(found_ids), 0) = most_found,
    'pages', greatest((matching + page_size - 1) / page_size, 1),
    'products', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'slug', p.slug, 'name', p.name, 'tagline', p.tagline, 'price', p.price, 'previous_price', p.previous_price,
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', p.stock_quantity
        ) order by s.place
      )
      from unnest(case when matching > 0 then shown_ids else private.shop_page_ids(null, null, null, 0, 12) end)
        with ordinality as s (id, place)
      join public.products as p on p.id = s.id
    ), '[]'),
    'brands', (
      select coalesce(jsonb_agg(distinct c.brand order by c.brand), '[]')
      from private.catalogue_counts as c where c.brand <> ''
    ),
    'categories', (
      select coalesce(jsonb_agg(distinct c.category order by c.category), '[]')
      from private.catalogue_counts as c
      join public.categories as k on k.name = c.category and k.is_active
    ),
    'found', case when is_whole and wanted <> '' then (
      select coalesce(jsonb_agg(p.slug order by f.place), '[]')
      from unnest(found_ids) with ordinality as f (id, place)
      join public.products as p on p.id = f.id
    ) end,
    'correction', case when wanted <> '' then private.better_search(terms) end
  );
end
$$;
comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. count: products that match; may_be_more: the search has reached its 250 best matches.';

create policy "everyone reads product images" on storage.objects
  for select to anon, authenticated using (bucket_id = 'product-images');
create policy "staff edit product images" on storage.objects for all to authenticated
  using (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin()))
  with check (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin()));

-- Execution rights
grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;
grant execute on function public.staff_settings to authenticated, service_role;

-- schemas/03_product_search.sql
-- Product search: an index of words, synonyms, and ranking (docs/decisions/search.md).

-- Words
-- English stems, so that singular and plural are one word; Kiswahili words pass unchanged. No stop words: "can" is a vessel.
create text search dictionary private.word_stem (template = pg_catalog.snowball, language = english);

create text search configuration private.catalogue (parser = pg_catalog.default);

alter text search configuration private.catalogue
  add mapping for asciiword, word, numword, uint, sfloat with private.word_stem;

-- Synonyms
create table public.search_synonyms (
  id uuid primary key default gen_random_uuid(),
  word text not null,
  means text not null default '',
  stem text not null default '',
  created_at timestamptz not null default now(),
  constraint "a search word is listed once" unique (stem),
  constraint "a search word is one to three words" check (
    char_length(word) between 1 and 60 and array_length(string_to_array(word, ' '), 1) <= 3
  ),
  constraint "a meaning is at most ten words" check (
    char_length(means) <= 200 and coalesce(array_length(string_to_array(means, ' '), 1), 0) <= 10
  )
);
comment on table public.search_synonyms is
  'Words that customers type and their meaning in the catalogue. Folded when they are saved.';
comment on column public.search_synonyms.word is 'One word, or a phrase of two or three.';
comment on column public.search_synonyms.means is
  'Words of the catalogue, any of which matches. Empty: matches every drink, so that the other words of a search decide.';
comment on column public.search_synonyms.stem is 'Stem of the word, so that juice and juices are one entry.';
alter table public.search_synonyms enable row level security;
grant select, insert (word, means), update (word, means), delete on public.search_synonyms to authenticated;
create policy "staff read and edit the synonyms" on public.search_synonyms
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

-- Search index
create table private.searchable_products (
  product_id uuid primary key references public.products (id) on delete cascade,
  name text not null,
  words tsvector not null,
  created_at timestamptz not null
);
comment on table private.searchable_products is
  'Search index of active products. Weights: A name, B flavour and brand, C tagline, D description.';
comment on column private.searchable_products.name is 'The folded name.';
alter table private.searchable_products enable row level security;

-- Without fastupdate: on the embedded database nothing would flush the pending list, and every search would read it.
create index searchable_products_by_word on private.searchable_products using gin (words) with (fastupdate = off);
create index searchable_products_by_word_of_name on private.searchable_products
  using gin (to_tsvector('private.catalogue', name)) with (fastupdate = off);
create index searchable_products_by_name on private.searchable_products (name text_pattern_ops);
create index searchable_products_newest_first on private.searchable_products (created_at desc, product_id);

create table private.search_words (
  word text collate "C" primary key,
  is_name boolean not null,
  constraint "a search word has a length that is compared" check (char_length(word) between 2 and 40)
);
comment on table private.search_words is 'Words of active products, for completing words and correcting typing errors.';
comment on column private.search_words.is_name is 'Whether it is in a name, flavour or brand.';
alter table private.search_words enable row level security;
create index search_words_by_trigram on private.search_words using gin (word extensions.gin_trgm_ops) with (fastupdate = off);

create function private.fold_text(written text) returns text
language sql immutable set search_path = '' as $$
  select trim(regexp_replace(
    regexp_replace(
      -- Accents are their own characters after NFKD: the first range removes them, with apostrophes and the variants of emoji.
      regexp_replace(lower(normalize(written, nfkd)), '[\u0300-\u036f\ufe0f''’]', '', 'g'),
      -- A size is one word: 500 ml is 500ml.
      '(\d)\s+(ml|cl|l|g|kg)\M', '\1\2', 'g'
    ),
    '[^a-z0-9\u0080-\U0010ffff]+', ' ', 'g'
  ));
$$;
comment on function private.fold_text is
  'Searchable form of a text: lower case, no accents or punctuation, single spaces. The caller bounds the length.';

create function private.stem_text(folded text) returns text
language sql immutable set search_path = '' as $$
  select string_agg(coalesce((ts_lexize('private.word_stem', word))[1], word), ' ' order by position)
  from string_to_table(folded, ' ') with ordinality as words (word, position);
$$;
comment on function private.stem_text is 'The stems of folded words: the same for singular and plural.';

create function private.fold_synonym() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' and (select count(*) from public.search_synonyms) >= 500 then
    raise exception 'there are at most 500 search words' using errcode = '23514';
  end if;
  new.word := private.fold_text(left(new.word, 200));
  new.means := private.fold_text(left(new.means, 1000));
  new.stem := coalesce(private.stem_text(new.word), '');
  return new;
end
$$;

create function private.meaning_of(phrase text) returns text
language sql stable set search_path = '' as $$
  select case
    when s.means = '' or exists (
      select from string_to_table(s.means, ' ') as meant (word)
      join public.search_synonyms as other on other.stem = private.stem_text(meant.word)
      where other.means = ''
    ) then ''
    else s.means
  end
  from public.search_synonyms as s
  where s.stem = private.stem_text(phrase);
$$;
comment on function private.meaning_of is
  'Meaning of a folded phrase: words of the catalogue; empty for every drink; null if it is no synonym. A synonym may refer to another one for every drink.';

create function private.searchable_texts(product public.products) returns text[]
language sql immutable set search_path = '' as $$
  select array[
    private.fold_text(product.name),
    private.fold_text(concat_ws(' ', product.category, product.brand)),
    private.fold_text(left(coalesce(product.tagline, ''), 1000)),
    private.fold_text(concat_ws(' ', left(product.description, 10000), case when product.previous_price > 0 then 'offer' end))
  ];
$$;
comment on function private.searchable_texts is
  'Searchable texts of a product, folded: name; flavour and brand; tagline; description, with the word offer if it is on offer.';

create function private.index_product(product public.products) returns void
language plpgsql
set search_path = ''
-- A cached plan that was made for small tables must not scan large ones.
set enable_seqscan = off
set jit = off
as $$
declare
  texts text[] := private.searchable_texts(product);
  found_words text[];
  names text[];
begin
  insert into private.searchable_products (product_id, name, words, created_at)
  values (
    product.id, texts[1],
    setweight(to_tsvector('private.catalogue', texts[1]), 'A') || setweight(to_tsvector('private.catalogue', texts[2]), 'B')
      || setweight(to_tsvector('private.catalogue', texts[3]), 'C')
      || setweight(to_tsvector('private.catalogue', texts[4]), 'D'),
    product.created_at
  );
  select array_agg(distinct t.word), array_agg(distinct t.word) filter (where field <= 2) into found_words, names
  from generate_subscripts(texts, 1) as field, string_to_table(texts[field], ' ') as t (word)
  where char_length(t.word) between 2 and 40;
  insert into private.search_words (word, is_name)
  select f.word, f.word = any (names)
  from unnest(found_words) as f (word)
  where not exists (select from private.search_words as known where known.word = f.word)
  order by f.word
  on conflict do nothing;
  update private.search_words as w set is_name = true where w.word = any (names) and not w.is_name;
end
$$;

create function private.delete_unused_words(removed text[]) returns void
language sql set search_path = '' set enable_seqscan = off set jit = off as $$
  delete from private.search_words as w
  where w.word = any (removed)
    and not exists (
      select from private.searchable_products as s
      where s.words @@ plainto_tsquery('private.catalogue', w.word)
    );
$$;
comment on function private.delete_unused_words is
  'Deletes words that no active product has any more, so that no suggestion leads nowhere.';

create function private.update_product_search(old public.products, new public.products) returns void
language plpgsql set search_path = '' as $$
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
    perform private.delete_unused_words(removed);
  end if;
end
$$;

create type private.search_terms as (
  folded text,
  all_words tsquery,
  exact_words tsquery,
  any_words tsquery,
  correction text,
  is_misspelt boolean
);
comment on type private.search_terms is
  'A search as it was read. all_words: every word, as typed or similar; null if all words match every drink. exact_words: any word as typed or its meaning. any_words: any word, or similar. correction: the text with typing errors corrected. is_misspelt: whether a word is in no product.';

-- The number of corrected and compared words, indexes and the number of synonyms bound the cost of a search (docs/decisions/search.md).
create function private.read_search(search text) returns private.search_terms
language plpgsql stable
set search_path = ''
-- The embedded database gathers no statistics: without this it scans tables. Where it must scan one, the estimated cost would start
-- the JIT compiler.
set enable_seqscan = off
-- Parts of words are found in the trigram index: with a limit the planner would rather scan all words in order.
set enable_indexscan = off
set enable_indexonlyscan = off
set jit = off
-- Minimum similarity of a word with a typing error. The edit distance then decides.
set pg_trgm.similarity_threshold = 0.2
as $$
declare
  folded text := private.fold_text(left(search, 100));
  all_words tsquery;
  exact_words tsquery;
  any_words tsquery;
  is_misspelt boolean := false;
  words text[];
  word_index integer := 1;
  word_count integer;
  typed text;
  meaning text;
  exact tsquery;
  wide tsquery;
  others text[];
  best text;
  halves text[];
  found_count integer;
  corrected text[] := '{}';
  -- More words have fewer similar words each, and only three unknown words are corrected, so that the cost does not grow with the text.
  max_similar integer;
  corrected_count integer := 0;
  price constant text := '\m(\d+ ?(bob|kshs?|kes|shillings?)|(bob|kshs?|kes) ?\d+)\M ?';
begin
  -- A price matches every drink: "500 bob" is no size.
  if folded ~ price then
    folded := trim(regexp_replace(folded, price, '', 'g'));
    exact_words := '';
  end if;
  -- Some characters fold to several.
  words := (string_to_array(left(folded, 200), ' '))[1:10];
  max_similar := greatest(4, 40 / greatest(coalesce(cardinality(words), 0), 2));
  while word_index <= coalesce(cardinality(words), 0) loop
    -- The longest phrase from here on that has a meaning, else one word, or two that the catalogue writes as one.
    word_count := least(3, cardinality(words) - word_index + 1);
    loop
      typed := array_to_string(words[word_index : word_index + word_count - 1], ' ');
      meaning := private.meaning_of(typed);
      exit when meaning is not null or word_count = 1;
      word_count := word_count - 1;
    end loop;
    if meaning is null and word_index < cardinality(words)
      and exists (select from private.search_words as w where w.word = words[word_index] || words[word_index + 1])
    then
      word_count := 2;
      typed := words[word_index] || words[word_index + 1];
    end if;
    typed := left(typed, 60);
    if typed = any ('{a,an,and,the,of,for,with,in,to,or,my,na,ya,wa,za,la,cha,vya,kwa,au}') then
      word_index := word_index + word_count;
      continue;
    end if;

    exact := plainto_tsquery('private.catalogue', typed);
    if meaning <> '' then
      exact := exact || to_tsquery('private.catalogue', replace(meaning, ' ', ' | '));
    end if;
    -- Words that begin with it, words that contain it, and the meanings of synonyms that begin with it.
    select array_agg(near.word) into others
    from (
      (
        select w.word from private.search_words as w
        where w.word > typed and w.word < typed || E'\uffff'
        limit max_similar
      )
      union
      (
        select w.word from private.search_words as w
        where char_length(typed) between 4 and 24 and w.word like '%' || typed || '%' and w.word <> typed
        limit max_similar
      )
      union
      (
        select m.word
        from public.search_synonyms as s, string_to_table(s.means, ' ') as m (word)
        where meaning is null and char_length(typed) >= 2 and s.word > typed and s.word like typed || '%'
          and s.word not like '% %' and m.word <> ''
        limit max_similar
      )
    ) as near;

    best := null;
    if meaning is null and others is null and char_length(typed) between 4 and 24 and typed !~ '\d' and corrected_count < 3 then
      corrected_count := corrected_count + 1;
      select count(*) into found_count
      from (select from private.searchable_products as s where s.words @@ exact limit 3) as s;
      if found_count < 3 then
        -- The words with the fewest edits; swapped neighbours count as one edit.
        with alike as (
          (
            select w.word, w.is_name from private.search_words as w
            where w.word operator(extensions.%) typed
              and (w.is_name or greatest(char_length(w.word), char_length(typed)) > 4)
          )
          union
          select s.word, true from public.search_synonyms as s where s.word not like '% %'
        ), compared as (
          select a.word, a.is_name,
            d.edits - (
              d.edits = 2
              and (select string_agg(c, '' order by c) from string_to_table(a.word, null) as c)
                = (select string_agg(c, '' order by c) from string_to_table(typed, null) as c)
            )::integer as edits
          from alike as a
          cross join lateral (select extensions.levenshtein_less_equal(a.word, typed, 2) as edits) as d
          where d.edits between 1 and 2
        ), nearest as (
          select n.word, n.is_name, n.edits, min(n.edits) over () as fewest
          from compared as n
          where n.edits <= case when char_length(typed) <= 5 then 1 else 2 end
        )
        select array_agg(n.word order by not n.is_name, right(n.word, 1) <> right(typed, 1), extensions.similarity(n.word, typed) desc, n.word) into others
        from nearest as n
        where n.edits = n.fewest;
        best := others[1];
        if found_count > 0 then
          -- The word has matches: similar words are suggested, not searched.
          others := null;
        elsif best is not null then
          is_misspelt := true;
          meaning := private.meaning_of(best);
          if meaning <> '' then
            others := others || string_to_array(meaning, ' ');
          end if;
        else
          -- Two words without their space.
          select array[left(typed, cut), substr(typed, cut + 1)] into halves
          from generate_series(3, char_length(typed) - 3) as cut
          where cardinality(words) < 12
            and (select count(*) from unnest(array[left(typed, cut), substr(typed, cut + 1)]) as half
              where exists (select from private.search_words as w where w.word = half)
                or private.meaning_of(half) is not null) = 2
          order by cut desc
          limit 1;
          if found then
            is_misspelt := true;
            words := words[: word_index - 1] || halves || words[word_index + word_count :];
            continue;
          end if;
          -- A longer word that begins with a name: lemonade.
          select array[w.word] into others
          from private.search_words as w
          where w.is_name and w.word = any (array(select left(typed, n) from generate_series(4, char_length(typed) - 1) as n))
          order by char_length(w.word) desc
          limit 1;
          best := others[1];
          is_misspelt := is_misspelt or best is not null;
        end if;
      end if;
    end if;

    wide := exact;
    if others is not null then
      wide := wide || to_tsquery('private.catalogue', array_to_string(others, ' | '));
    end if;
    corrected := corrected || coalesce(best, typed);
    exact_words := coalesce(exact_words || exact, exact);
    any_words := coalesce(any_words || wide, wide);
    if meaning is distinct from '' then
      all_words := coalesce(all_words && wide, wide);
    end if;
    word_index := word_index + word_count;
  end loop;
  return (folded, all_words, exact_words, any_words, array_to_string(corrected, ' '), is_misspelt)::private.search_terms;
end
$$;
comment on function private.read_search is 'Parses a search.';

create function private.ranked_products(candidates tid[], folded text, exact_words tsquery, any_words tsquery, most integer)
returns uuid[]
language sql stable set search_path = '' as $$
  select array(
    select s.product_id
    from private.searchable_products as s
    where s.ctid = any (candidates)
    order by
      s.name = folded desc,
      s.name like folded || '%' desc,
      -- Typed words count more than near words.
      2 * ts_rank('{0.1, 0.3, 0.6, 1}', s.words, exact_words) + ts_rank('{0.1, 0.3, 0.6, 1}', s.words, any_words) desc,
      s.created_at desc,
      s.product_id
    limit most
  );
$$;
comment on function private.ranked_products is
  'The best of some searchable products: exact name, names that start with the search, then by rank of the words, then the newest.';

create function private.found_products(terms private.search_terms, most integer) returns uuid[]
language plpgsql stable
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  -- At most this many matches are ranked; of more, the newest.
  compared integer := greatest(most, 250);
  candidates tid[];
  by_word tid[];
  found_ids uuid[] := '{}';
begin
  if terms.exact_words is not null then
    by_word := array(
      select s.ctid from private.searchable_products as s
      where s.words @@ coalesce(terms.all_words, terms.exact_words)
      limit compared
    );
    candidates := by_word;
    -- There may be more: those named so, and the newest.
    if cardinality(by_word) = compared then
      candidates := candidates || array(
        select s.ctid from private.searchable_products as s where s.name ~>=~ terms.folded and s.name ~<~ (terms.folded || E'\uffff') limit compared
      ) || array(
        select s.ctid from private.searchable_products as s
        where to_tsvector('private.catalogue', s.name) @@ coalesce(terms.all_words, terms.exact_words)
        limit compared
      ) || array(
        select n.ctid
        from (
          select s.ctid, s.words from private.searchable_products as s
          order by s.created_at desc, s.product_id
          limit 2 * compared
        ) as n
        where n.words @@ coalesce(terms.all_words, terms.exact_words)
      );
    end if;
    found_ids := private.ranked_products(candidates, terms.folded, terms.exact_words, terms.any_words, most);
    -- Some of the words, where hardly any product matches all of them.
    if terms.all_words <> terms.any_words and cardinality(found_ids) < least(most, 3) then
      candidates := array(
        select s.ctid from private.searchable_products as s where s.words @@ terms.any_words limit compared
      );
      found_ids := (array(
        select f.id
        from unnest(found_ids || private.ranked_products(candidates, terms.folded, terms.exact_words, terms.any_words, most))
          with ordinality as f (id, place)
        group by f.id
        order by min(f.place)
      ))[:most];
    end if;
  end if;
  -- No word narrows the search: every drink, newest first.
  if terms.all_words is null and (terms.exact_words is not null or terms.folded is null) then
    found_ids := found_ids || array(
      select s.product_id from private.searchable_products as s
      where s.product_id <> all (found_ids)
      order by s.created_at desc, s.product_id
      limit most - cardinality(found_ids)
    );
  end if;
  return found_ids;
end
$$;
comment on function private.found_products is
  'Ids of the active products that match a search, best first. Without a text: the newest.';

create function public.search_products(search text default '', page_size integer default 50) returns setof public.products
language plpgsql stable security definer rows 50
set search_path = ''
set enable_seqscan = off
-- Finds a few products by id: without statistics the planner would scan the table to join them.
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  terms private.search_terms := private.read_search(nullif(trim(search_products.search), ''));
  found_ids uuid[] := private.found_products(terms, least(greatest(coalesce(search_products.page_size, 50), 1), 1000));
begin
  return query
    select p.*
    from unnest(found_ids) with ordinality as f (id, place)
    join public.products as p on p.id = f.id and p.is_active
    order by f.place;
end
$$;
comment on function public.search_products is
  'Active products that match a search, best first: in name, flavour, brand, tagline and description, with synonyms, word beginnings and typing errors. A blank search returns the newest. Reads 100 characters and 10 words; returns 1 to 1000 rows.';

create function private.better_search(terms private.search_terms) returns text
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  corrected private.search_terms;
  found_count integer;
  found_corrected integer;
begin
  if coalesce(terms.correction, '') in ('', terms.folded) then
    return null;
  end if;
  corrected := private.read_search(terms.correction);
  select count(*) into found_corrected
  from (select from private.searchable_products as s where s.words @@ corrected.all_words limit 250) as s;
  if not terms.is_misspelt then
    select count(*) into found_count
    from (select from private.searchable_products as s where s.words @@ terms.all_words limit 250) as s;
  end if;
  if found_corrected > coalesce(found_count, 0) or (terms.is_misspelt and corrected.all_words is null) then
    return terms.correction;
  end if;
  return null;
end
$$;
comment on function private.better_search is 'The search with typing errors corrected, if that finds more; else null.';

create function public.correct_search(search text) returns text
language sql stable security definer set search_path = '' as $$
  select private.better_search(private.read_search(correct_search.search));
$$;
comment on function public.correct_search is 'The search with typing errors corrected, if that finds more; else null.';

create trigger search_synonyms_before_change before insert or update on public.search_synonyms
  for each row execute function private.fold_synonym();

-- Execution rights
grant execute on function public.search_products, public.correct_search to anon, authenticated, service_role;

-- schemas/04_orders.sql
-- Orders, their items, and placing an order. Amounts are in cents.

create table public.orders (
  id uuid primary key default gen_random_uuid(),
  order_number text not null default 'ORD-' || nextval('private.order_numbers'),
  tracking_number text not null,
  customer_name text not null,
  customer_email text not null,
  customer_phone text not null,
  shipping_address text not null,
  city text not null default 'Nairobi',
  delivery_notes text,
  status text not null default 'pending',
  delivery_fee integer not null,
  total_amount integer not null,
  -- M-PESA takes whole shillings: a fraction is rounded up.
  charge_cents integer not null generated always as ((total_amount + 99) / 100 * 100) stored,
  payment_method text not null default 'pending',
  payment_status text not null default 'unpaid',
  reserved_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  units_returned_at timestamptz,
  expires_at timestamptz,
  expiry_limit timestamptz,
  extended_at timestamptz,
  live_handle uuid not null default gen_random_uuid(),
  anonymised_at timestamptz,
  erasure_requested_at timestamptz,
  terms_accepted_at timestamptz,
  accepted_terms jsonb,
  constraint "order numbers are unique" unique (order_number),
  constraint "tracking numbers are unique" unique (tracking_number),
  constraint "a tracking number is JJ-YYYYMMDD-NNNN" check (tracking_number ~ '^JJ-\d{8}-\d{4,6}$'),
  constraint "an order status is known"
    check (status in ('pending', 'processing', 'shipped', 'out_for_delivery', 'delivered', 'cancelled')),
  constraint "a payment status is known"
    check (payment_status in ('unpaid', 'paid', 'needs_review', 'refunded')),
  constraint "amounts are not negative" check (delivery_fee >= 0 and total_amount >= 0),
  constraint "an order expires by its limit" check (expires_at <= expiry_limit),
  constraint "units are held no longer than the order waits" check (reserved_until <= expires_at),
  constraint "accepted terms have a time" check ((terms_accepted_at is null) = (accepted_terms is null))
);
comment on table public.orders is 'Customer orders. Amounts in cents. Staff set the status; payment_status follows M-PESA.';
comment on column public.orders.reserved_until is 'End of the hold on units of an unpaid order. Null: it holds none.';
comment on column public.orders.units_returned_at is
  'When the units of a paid order returned to stock, because it was cancelled before they left. Null: not returned.';
comment on column public.orders.expires_at is
  'When an unpaid order is cancelled. Null: expired. Not used once the order is paid.';
comment on column public.orders.expiry_limit is
  'The latest expires_at. An open prompt delays expiry up to this time; only a payment under review delays it further.';
comment on column public.orders.extended_at is 'When a prompt moved expires_at. That happens once.';
comment on column public.orders.live_handle is
  'Name of the live channel order-{live_handle}, which anyone with the tracking number may join. Grants no other access.';
comment on column public.orders.anonymised_at is
  'When the customer''s name, email, phone, address and notes were removed. The order itself stays in the books.';
comment on column public.orders.erasure_requested_at is
  'When erasure was requested while the order was open. It is anonymised once it is closed.';
comment on column public.orders.terms_accepted_at is
  'When the customer confirmed being 18 or older and accepted terms and privacy notice. Null: the form did not show them.';
comment on column public.orders.accepted_terms is
  'shop_texts.updated_at of the accepted terms and privacy notice, and is_ticked: whether ticking a box was required.';
alter table public.orders enable row level security;
grant select, update (status, updated_at) on public.orders to authenticated;
grant select (id) on public.orders to anon;
create policy "staff read and edit every order" on public.orders
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create index orders_newest_first on public.orders (created_at desc, id desc);
create index orders_of_a_status_newest_first on public.orders (status, created_at desc, id desc);
create index orders_to_resolve on public.orders (created_at desc)
  where payment_status = 'needs_review' or (payment_status = 'paid' and status = 'cancelled');
create index orders_by_expiry on public.orders (expires_at) where payment_status = 'unpaid' and status = 'pending';
create index orders_by_end_of_hold on public.orders (reserved_until) where payment_status = 'unpaid' and status = 'pending';
create index orders_cancelled_with_units on public.orders (id)
  where payment_status = 'unpaid' and status = 'cancelled' and reserved_until is not null;
create index orders_with_personal_details on public.orders (created_at) where anonymised_at is null;
create index orders_to_reduce on public.orders (created_at)
  where status = 'cancelled' and payment_status = 'unpaid' and anonymised_at is null;
create index orders_to_anonymise on public.orders (erasure_requested_at)
  where erasure_requested_at is not null and anonymised_at is null;
-- The words of an order are many: they are added to the index for about thirty orders at once. Searches read those that wait, up to
-- 64 kB, which takes less than a millisecond.
create index orders_by_words on public.orders using gin (
  translate(
    lower(
      order_number || E'\n' || split_part(tracking_number, '-', 3) || E'\n' || customer_name || E'\n' || customer_email ||
      E'\n' || customer_phone || E'\n' || replace(customer_phone, '+254', '0') || E'\n' || shipping_address || E'\n' || city
    ),
    'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'
  ) extensions.gin_trgm_ops
) with (gin_pending_list_limit = 64);
-- One partial index for each filter of the staff lists, in the order of the lists.
create index orders_open on public.orders (created_at desc, id desc)
  where status in ('pending', 'processing', 'shipped', 'out_for_delivery');
create index orders_unpaid on public.orders (created_at desc, id desc) where payment_status = 'unpaid' and status <> 'cancelled';
create index orders_refunded on public.orders (created_at desc, id desc) where payment_status = 'refunded';

create table public.order_items (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  product_id uuid references public.products (id) on delete set null,
  product_name text not null,
  quantity integer not null,
  unit_price integer not null,
  created_at timestamptz not null default now(),
  constraint "at least one is ordered" check (quantity >= 1),
  constraint "a unit price is not negative" check (unit_price >= 0)
);
comment on table public.order_items is 'Items of orders, with name and price of the product at ordering.';
alter table public.order_items enable row level security;
grant select on public.order_items to authenticated;
create policy "staff read every order item" on public.order_items for select to authenticated using ((select public.is_admin()));
create index order_items_by_order on public.order_items (order_id);
create index order_items_by_product on public.order_items (product_id);
create index order_items_by_words on public.order_items using gin (
  translate(lower(product_name), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu') extensions.gin_trgm_ops
) with (gin_pending_list_limit = 64);

create table private.order_keys (
  idempotency_key uuid primary key,
  request_hash text not null,
  order_id uuid references public.orders (id) on delete cascade,
  access_key text not null default replace(gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now()
);
comment on table private.order_keys is 'Idempotency key of each order, and the access key that shows its personal data.';
alter table private.order_keys enable row level security;
create unique index order_keys_by_order on private.order_keys (order_id);
create index order_keys_by_access_key on private.order_keys (access_key);

create function private.draw_tracking_number() returns text
language plpgsql volatile set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  prefix text := 'JJ-' || to_char(private.nairobi_day(now()), 'YYYYMMDD') || '-';
  lowest integer;
  number text;
begin
  -- Four digits; five, then six, when most numbers of the day are taken.
  foreach lowest in array '{1000,1000,1000,1000,10000,10000,10000,10000,100000,100000,100000,100000}'::integer[] loop
    number := prefix || lowest + floor(random() * 9 * lowest)::integer;
    exit when not exists (select from public.orders as o where o.tracking_number = number);
  end loop;
  return number;
end
$$;
comment on function private.draw_tracking_number is
  'A random tracking number of today that no order has. A concurrent order may still take it first.';

create function private.placed_order(order_id uuid) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
      'id', o.id,
      'tracking_number', o.tracking_number,
      'access_key', k.access_key,
      'status', o.status,
      'payment_status', o.payment_status,
      'delivery_fee', o.delivery_fee,
      'total_amount', o.total_amount,
      'charge_cents', o.charge_cents,
      'customer_phone', o.customer_phone,
      'reserved_until', o.reserved_until,
      'expires_at', o.expires_at,
      'created_at', o.created_at
    )
    from public.orders as o
    join private.order_keys as k on k.order_id = o.id
    where o.id = placed_order.order_id
  );
end
$$;
comment on function private.placed_order is 'The response of place_order.';

create function public.count_product_orders(product_id uuid) returns table (orders bigint, unpaid bigint)
language sql stable set search_path = '' as $$
  select count(distinct o.id),
    count(distinct o.id) filter (where o.payment_status = 'unpaid' and o.reserved_until is not null)
  from public.order_items as i
  join public.orders as o on o.id = i.order_id
  where i.product_id = count_product_orders.product_id;
$$;
comment on function public.count_product_orders is
  'Number of orders that contain a product, and of those that hold units for a payment. Counts orders that the caller may read.';

create type private.order_details as (name text, email text, phone text, address text, notes text);

create function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text
) returns private.order_details
language plpgsql immutable set search_path = '' as $$
declare
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
begin
  -- octet_length is cheap: longer texts are refused before they are trimmed, matched or counted.
  if octet_length(customer_name) > 4000 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(customer_email) > 4000 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(octet_length(delivery_location), octet_length(building), octet_length(unit)) > 4000 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(delivery_notes) > 4000 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(customer_name);
  email := trim(customer_email);
  phone := private.normalised_phone(customer_phone);
  location := trim(delivery_location);
  building_name := nullif(trim(building), '');
  unit_name := nullif(trim(unit), '');
  -- Line feeds stay; other control characters become spaces.
  notes := nullif(trim(regexp_replace(delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or char_length(name) < 2 or private.has_control_characters(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  elsif char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif not private.is_email(email) or private.has_control_characters(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif phone is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif location is null or char_length(location) < 3
    or private.has_control_characters(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  elsif char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  return (
    name, email, phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;
comment on function private.read_order_details is 'Checks and trims what a customer typed; refuses what is missing, invalid or too long.';

create function private.total_of_offer(product public.products, quantity integer, delivery_fee integer, expected_total integer)
returns integer
language plpgsql stable set search_path = '' as $$
declare
  total bigint := product.price::bigint * total_of_offer.quantity + total_of_offer.delivery_fee;
begin
  if product.id is null then
    perform private.refuse(404, 'product_unavailable', 'This product is not available');
  elsif product.stock_quantity = 0 then
    perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
  elsif product.stock_quantity < total_of_offer.quantity then
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity), product.stock_quantity::text);
  elsif total > 2000000000 then
    perform private.refuse(400, 'total_too_large', 'The total is too large for one order');
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;
comment on function private.total_of_offer is
  'Price of the units and the delivery fee, in cents. Refuses an order whose product (null: not for sale), stock or total is not what its customer saw.';

create function public.place_order(
  idempotency_key uuid,
  product_id uuid,
  quantity integer,
  customer_name text,
  customer_email text,
  customer_phone text,
  delivery_location text,
  expected_total integer,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- A cached plan made for few orders must not scan or join many.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('place_order');
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total integer;
  refusal jsonb;
  new_order public.orders;
  number text;
  -- Empty for staff and the shop itself, whose unpaid orders are not limited.
  networks text[] := case
    when coalesce((select auth.role()), '') = 'service_role' or public.is_admin() then '{}'
    else private.caller_networks()
  end;
  is_held boolean;
  expires_at timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  -- A repeated call returns its order even over the limit: its client may have lost the first response.
  if not is_within_limit and not exists (
    select from private.order_keys as k where k.idempotency_key = place_order.idempotency_key
  ) then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  elsif place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone, place_order.delivery_location,
    place_order.building, place_order.unit, place_order.delivery_notes
  );
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, customer.name, customer.email, customer.phone, customer.address,
      customer.notes, place_order.expected_total)::text, 'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys (idempotency_key, request_hash)
  values (place_order.idempotency_key, fingerprint)
  on conflict do nothing;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    return private.placed_order(earlier.order_id);
  end if;

  select * into strict settings from public.store_settings;
  if settings.requires_terms_tick and place_order.accepts_terms is not true then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings.unpaid_orders_per_phone);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
  total := private.total_of_offer(product, place_order.quantity, settings.delivery_fee, place_order.expected_total);
  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
  );
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := private.draw_tracking_number();
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when is_held then expires_at end, expires_at,
      now() + 2 * make_interval(mins => settings.reservation_minutes),
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    continue when not found;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left.
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
    perform private.total_of_offer(product, place_order.quantity, settings.delivery_fee, place_order.expected_total);
    exit when not is_held or private.may_hold_units(
      networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
    );
    is_held := false;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  if is_held then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  insert into private.order_networks (order_id, network, product_id, taken)
  select new_order.id, caller.network, product.id, case when is_held then place_order.quantity else 0 end
  from unnest(networks) as caller (network);
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  -- Current figures for the form.
  if product.id is not null then
    refusal := refusal || jsonb_build_object('quote', jsonb_build_object(
      'price', product.price, 'delivery_fee', settings.delivery_fee,
      'total', product.price::bigint * place_order.quantity + settings.delivery_fee,
      'units_left', product.stock_quantity
    ));
  end if;
  return refusal;
end
$$;
comment on function public.place_order is
  'Places an order in one transaction: price and fee from the database, a new tracking number, units held (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes quote: the current price, delivery_fee, total and units_left.';

-- Execution rights
grant execute on function public.place_order to anon, authenticated, service_role;
grant execute on function public.count_product_orders to authenticated, service_role;

-- schemas/05_reservations.sql
-- Reservations: the units that unpaid orders hold, and their expiry (docs/decisions/unpaid-orders.md).

create table private.held_units (
  product_id uuid primary key references public.products (id) on delete cascade,
  quantity integer not null
);
comment on table private.held_units is
  'Units of a product that unpaid orders hold, so that place_order does not sum all orders. Maintained by private.count_held_units.';
alter table private.held_units enable row level security;

create table private.order_networks (
  order_id uuid not null references public.orders (id) on delete cascade,
  network text not null,
  product_id uuid not null,
  taken integer not null,
  is_open boolean not null default true,
  ended_at timestamptz,
  primary key (order_id, network)
);
comment on table private.order_networks is
  'Networks of the visitor who placed an unpaid order. Deleted when it is paid, or an hour after it ended.';
comment on column private.order_networks.taken is 'Units the order has held so far. Units held again count again.';
comment on column private.order_networks.ended_at is 'When its last hold, or the order itself, ended. Null while it holds units.';
alter table private.order_networks enable row level security;
create index order_networks_by_product on private.order_networks (network, product_id);
create index order_networks_of_open_orders on private.order_networks (network) where is_open;

create function private.return_units(order_id uuid) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = return_units.order_id
  order by p.id
  for update of p;
  update public.products as p
  set stock_quantity = p.stock_quantity + i.quantity
  from public.order_items as i
  where i.order_id = return_units.order_id and p.id = i.product_id;
end
$$;
comment on function private.return_units is 'Returns an order''s units to stock. The caller has locked the order.';

create function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- The partial indexes return due orders in order.
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  due uuid[];
  ended public.orders;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  -- Each kind has its own index, so that a run without due orders reads nothing.
  select array_agg(found.id) into due from (
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
        and not private.has_payment_in_progress(o.id, o.expiry_limit)
      order by o.expires_at limit expire_reservations.at_most
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
        and not private.has_payment_in_progress(o.id, o.expiry_limit)
      order by o.reserved_until limit expire_reservations.at_most
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
        and not private.has_payment_in_progress(o.id, o.expiry_limit)
      order by o.id limit expire_reservations.at_most
    )
  ) as found;
  if due is null then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
    where o.id = any (due) and o.payment_status = 'unpaid'
      and (
        (o.status = 'pending' and (o.expires_at <= now() or o.reserved_until <= now()))
        or (o.status = 'cancelled' and o.reserved_until is not null)
      )
    for update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and not private.has_payment_in_progress(o.id, o.expiry_limit);
  -- Lock all products before the first changes, as renaming a category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    -- A hold for a prompt ends before its order does.
    update public.orders as o
    set reserved_until = null,
        status = case when o.status = 'cancelled' or o.expires_at <= now() then 'cancelled' else o.status end,
        expires_at = case when o.status = 'cancelled' or o.expires_at <= now() then null else o.expires_at end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;
comment on function public.expire_reservations is
  'Cancels unpaid orders at expires_at, and returns units at reserved_until and after a cancellation. Skips orders with a payment under review, or with an open prompt before expiry_limit. At most at_most orders of each of these three kinds. Returns the number of orders.';

create function private.take_units(order_id uuid) returns boolean
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
  order by p.id
  for update of p;
  if exists (
    select from public.products as p
    join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
    group by p.id
    having p.stock_quantity < sum(i.quantity)
  ) then
    return false;
  end if;
  update public.products as p
  set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = take_units.order_id and p.id = i.product_id;
  return true;
end
$$;
comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create function private.move_units_with_status(old public.orders, new public.orders) returns public.orders
language plpgsql set search_path = '' as $$
declare
  minutes interval;
begin
  if new.status = 'cancelled' then
    -- Units that have left the shop are not returned automatically.
    if new.payment_status in ('paid', 'refunded') and new.units_returned_at is null and old.status in ('pending', 'processing') then
      perform private.return_units(new.id);
      new.units_returned_at := now();
    end if;
    return new;
  end if;
  if (new.payment_status in ('paid', 'refunded') and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and new.reserved_until is null)
  then
    if not private.take_units(new.id) then
      perform private.refuse(409, 'units_sold',
        'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
    end if;
    new.units_returned_at := null;
  end if;
  if new.payment_status = 'unpaid' and new.reserved_until is null then
    select make_interval(mins => s.reservation_minutes) into minutes from public.store_settings as s;
    new.expires_at := now() + minutes;
    new.reserved_until := new.expires_at;
    new.expiry_limit := now() + 2 * minutes;
    new.extended_at := null;
  end if;
  return new;
end
$$;

create function private.end_reviews() returns void
language plpgsql
set search_path = ''
-- Starts from the few attempts under review, not from all orders in order of id.
set enable_sort = on
set enable_bitmapscan = on
set jit = off
as $$
declare
  reviewed record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
begin
  for reviewed in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Resolved money belongs to another payment, was refunded, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for update of o skip locked
  loop
    -- updated_at stays: it decides the day in the books.
    update public.payments as p set status = 'failed' where p.id = reviewed.payment_id and p.status = 'review';
    -- The customer gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;
comment on function private.end_reviews is
  'Ends attempts under review whose money staff have resolved. A later success still supersedes this.';

create function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
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

  -- Paid orders, and unpaid ones that were handed over, are not limited.
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

create function private.after_order_item_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into private.held_units as known (product_id, quantity)
  select new.product_id, new.quantity
  from public.orders as o
  where o.id = new.order_id and o.payment_status = 'unpaid' and o.reserved_until is not null and o.status in ('pending', 'cancelled')
  on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  return null;
end
$$;

create function private.refuse_too_many_unpaid_orders(networks text[], phone text, per_phone integer) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  waiting record;
begin
  for waiting in
    select open.of_network, open.of_phone, per_phone * private.allowance_factor(caller.network) as allowed
    from unnest(networks) as caller (network)
    -- A subquery per row reads only the network's rows; the planner cannot turn it into a join of all orders.
    cross join lateral (
      select count(*) as of_network,
        count(*) filter (where refuse_too_many_unpaid_orders.phone = (
          select o.customer_phone from public.orders as o where o.id = k.order_id
        )) as of_phone
      from private.order_networks as k
      where k.network = caller.network and k.is_open
    ) as open
  loop
    -- Only orders of the same network count, so that a stranger's orders with this phone do not block the customer.
    if waiting.of_phone >= waiting.allowed then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in a few minutes',
        waiting.of_phone
      ));
    elsif waiting.of_network >= waiting.allowed * 10 then
      perform private.refuse(429, 'too_many_unpaid_orders',
        'Too many orders from your network wait to be paid already. Please try again in a few minutes');
    end if;
  end loop;
end
$$;
comment on function private.refuse_too_many_unpaid_orders is
  'Refuses an order when its phone has per_phone unpaid orders, or its network ten times as many, times private.allowance_factor.';

create function private.is_within_unit_allowance(networks text[], product_id uuid, quantity integer, allowed bigint)
returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where is_within_unit_allowance.quantity + (
      select coalesce(sum(k.taken), 0)
      from private.order_networks as k
      where k.network = caller.network and k.product_id = is_within_unit_allowance.product_id
        and (k.ended_at is null or k.ended_at > now() - interval '1 hour')
    )
    -- Always at least two units. Wider networks have only twice as many, because units are few; an order without a hold can still
    -- be paid.
    > greatest(2, is_within_unit_allowance.allowed * least(private.allowance_factor(caller.network), 2))
  );
end
$$;
comment on function private.is_within_unit_allowance is
  'Whether each network may hold that many more units of a product: together with units that it holds, or held without paying within the last hour, at most allowed units (a /56 and wider: twice).';

create function private.may_hold_units(networks text[], product_id uuid, quantity integer, units_left integer, share integer)
returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  held bigint;
  most bigint;
begin
  if cardinality(networks) = 0 then
    return true;
  end if;
  select coalesce(max(h.quantity), 0) into held from private.held_units as h where h.product_id = may_hold_units.product_id;
  most := ceil((units_left + held) * share / 100.0);
  return held + may_hold_units.quantity <= most
    and private.is_within_unit_allowance(networks, may_hold_units.product_id, may_hold_units.quantity, most);
end
$$;
comment on function private.may_hold_units is
  'Whether an order holds its units from placing: all unpaid orders together, and its networks, stay within the share (percent) of the product''s units. Always true without networks.';

create function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  prompt_time constant interval := '5 minutes';
  waiting public.orders;
  item record;
  networks text[];
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for update;
  -- An unpaid order that was handed over has already taken its units.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' then
    return;
  end if;
  if waiting.extended_at is null and waiting.expires_at < least(now() + prompt_time, waiting.expiry_limit) then
    update public.orders as o
    set expires_at = least(now() + prompt_time, o.expiry_limit),
        reserved_until = case when o.reserved_until is not null then least(now() + prompt_time, o.expiry_limit) end,
        extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif waiting.reserved_until is not null then
    return;
  end if;

  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = waiting.id)
  order by p.id
  for no key update;
  for item in
    select p.id as product_id, coalesce(p.stock_quantity, 0) as units_left, i.quantity, coalesce(h.quantity, 0) as held
    from public.order_items as i
    left join public.products as p on p.id = i.product_id and p.is_active
    left join private.held_units as h on h.product_id = p.id
    where i.order_id = waiting.id
  loop
    if item.product_id is null then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif item.units_left = 0 then
      perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
    elsif item.units_left < item.quantity then
      perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', item.units_left), item.units_left::text);
    end if;
    -- A network may hold all units, and all of them again after a hold that was not paid.
    may_hold := may_hold
      and private.is_within_unit_allowance(networks, item.product_id, item.quantity, 2 * (item.units_left::bigint + item.held));
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.products as p
    set stock_quantity = p.stock_quantity - i.quantity
    from public.order_items as i
    where i.order_id = waiting.id and p.id = i.product_id;
    update public.orders as o
    set reserved_until = least(now() + prompt_time, o.expires_at)
    where o.id = waiting.id;
  end if;
end
$$;
comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

create function private.has_payment_in_progress(order_id uuid, expiry_limit timestamptz) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.payments as p
    where p.order_id = has_payment_in_progress.order_id and (
      p.status = 'review' or (p.status in ('initiating', 'processing') and coalesce(has_payment_in_progress.expiry_limit > now(), true))
    )
  );
end
$$;
comment on function private.has_payment_in_progress is
  'Whether a payment delays the end of an unpaid order: one under review, or an open prompt until the order''s expiry_limit.';

create trigger order_items_after_insert after insert on public.order_items
  for each row when (new.product_id is not null)
  execute function private.after_order_item_insert();

create function private.reduce_abandoned_orders() returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  -- Bounds the disk that a flood of orders uses: beyond the newest 5,000, details are stored for a day only.
  stored_since timestamptz := greatest(now() - interval '30 days', (
    select least(o.created_at, now() - interval '1 day') from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
    order by o.created_at desc offset 5000 limit 1
  ));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
      and o.created_at <= stored_since
      and o.reserved_until is null
      and not exists (select from public.payments as p where p.order_id = o.id and p.status <> 'failed')
      and not exists (select from public.mpesa_transactions as t where t.order_id = o.id)
      and not exists (select from public.deliveries as d where d.order_id = o.id)
      and private.retention_reason(o.id) is null
    order by o.created_at limit 2000
    for update skip locked
  );
begin
  delete from private.order_keys as k where k.order_id = any (due);
  delete from public.order_items as i where i.order_id = any (due);
  perform private.anonymise_orders(due);
  delete from public.order_events as e where e.order_id = any (due);
end
$$;
comment on function private.reduce_abandoned_orders is
  'Reduces cancelled orders whose payments all failed, or that had none, to their row, which reports count: after 30 days, or after a day beyond the newest 5,000.';

-- Execution rights
grant execute on function public.expire_reservations to service_role;

-- schemas/06_order_access.sql
-- Order access: the data shown for a tracking number, an access key or digits of the phone (docs/decisions/what-a-tracking-number-shows.md).

create function private.shown_status(status text) returns text
language sql immutable
return case status when 'shipped' then 'out_for_delivery' else status end;
comment on function private.shown_status is 'The order status that the storefront shows.';

create function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  return private.describe_order(opened.found_order, opened.is_open);
end
$$;
comment on function public.track_order is
  'An order by its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents and part_paid_cents. live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. Null: no such order.';

create function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;
comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create function private.notify_order_followers(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- Anyone may join the second channel: no personal data, and no order id, which allows paying.
  perform realtime.send(
    jsonb_build_object(
      'id', channel.id, 'tracking_number', o.tracking_number, 'status', private.shown_status(o.status),
      'payment_status', o.payment_status, 'updated_at', o.updated_at
    ),
    'UPDATE',
    'order-' || channel.id,
    false
  )
  from public.orders as o
  cross join lateral (values (o.id), (o.live_handle)) as channel (id)
  where o.id = notify_order_followers.order_id;
end
$$;
comment on function private.notify_order_followers is
  'Broadcasts an order''s status on its live channels order-{id} and order-{live_handle}.';

create function private.count_order_lookup(tracking_number text) returns boolean
language plpgsql set search_path = '' as $$
declare
  number_of_caller text := (private.caller_networks())[1] || ' ' || count_order_lookup.tracking_number;
begin
  if not private.count_call('order_lookups') then
    return false;
  end if;
  -- The same number counts once a day, so that an open page is not limited.
  if number_of_caller is null or private.hits_so_far('order_looked_up', number_of_caller, interval '1 day') > 0 then
    return true;
  end if;
  if not private.count_call('orders_looked_up') then
    return false;
  end if;
  perform private.count_hit('order_looked_up', number_of_caller, interval '1 day');
  return true;
end
$$;
comment on function private.count_order_lookup is
  'Counts a lookup without proof, and returns whether it is allowed: per network 60 in 10 minutes, and 300 different numbers a day.';

create function private.open_order(
  tracking_number text, access_key text, phone_digits text, out found_order public.orders, out is_open boolean,
  out refusal jsonb
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  needs_whole_phone boolean;
  networks text[];
begin
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  is_open := exists (
    select from private.order_keys as k
    where k.order_id = found_order.id and k.access_key = left(open_order.access_key, 64)
  );
  if is_open then
    return;
  end if;

  if digits is not null then
    -- Guesses are serialised, so that each is counted before the next is compared. Unknown numbers take the same path, so that the
    -- response does not distinguish them.
    perform pg_advisory_xact_lock(hashtext('order_digits ' || wanted));
    -- The widest network contains the others. Always after the order, so that two guesses never wait for each other.
    networks := private.caller_networks();
    perform pg_advisory_xact_lock(hashtext('digits ' || networks[cardinality(networks)]));
    if not private.is_within_limit('order_digits', wanted) then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    if not private.is_within_limit('digits') then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits from your network. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    -- Many networks together could try all 10,000 endings. After 200 misses only the whole number opens the order.
    needs_whole_phone := private.hits_so_far('order_digits_of_all', wanted, interval '30 days') >= 200;
    is_open := coalesce(
      private.normalised_phone(digits) = found_order.customer_phone
        or (right(found_order.customer_phone, 4) = digits and not needs_whole_phone),
      false
    );
    if is_open then
      return;
    end if;
    perform private.count_call('order_digits', wanted);
    perform private.count_call('digits');
    if found_order.id is not null then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
    end if;
    if needs_whole_phone then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please enter the whole phone number',
        'too_many_guesses', '');
      return;
    end if;
  end if;

  if not private.count_order_lookup(wanted) then
    refusal := private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
end
$$;
comment on function private.open_order is
  'Finds an order and checks the proof: its access key, the last four digits of its phone, or the whole number. is_open: the proof is valid; that is not counted. refusal: the response when the caller is over a limit.';

create function private.describe_order(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb := private.order_facts(described, is_open) || jsonb_build_object('is_masked', not is_open);
begin
  if not is_open and described.created_at < now() - interval '30 days' then
    return answer;
  end if;

  answer := answer || jsonb_build_object(
    'delivery_fee', described.delivery_fee,
    'created_at', described.created_at,
    'customer_name', case when is_open then described.customer_name else private.masked_name(described.customer_name) end,
    'customer_phone', case when is_open then described.customer_phone else private.masked_phone(described.customer_phone) end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name), 'image_url', p.image_url, 'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.created_at, i.id)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = described.id
    ), '[]'::jsonb)
  );
  if not is_open then
    return answer;
  end if;
  return answer || jsonb_build_object(
    'id', described.id,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = described.id),
    'shipping_address', described.shipping_address, 'delivery_notes', described.delivery_notes
  );
end
$$;
comment on function private.describe_order is
  'The order as its caller may see it: everything with proof; else status, items and total, with name and phone masked; after 30 days only the status.';

create function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
  cancelled record;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number, 'live_handle', described.live_handle,
    'status', private.shown_status(described.status), 'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- Public: whether the order is paid and whether staff check a payment. Not public: the amount.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(p.status in ('initiating', 'processing')) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif described.payment_status in ('paid', 'needs_review') and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and r.status in ('approved', 'sending', 'sent', 'unknown')
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.status = 'cancelled' then
    select e.actor, e.details ->> 'reason' as reason into cancelled
    from public.order_events as e
    where e.order_id = described.id and e.kind = 'status_changed' and e.details ->> 'to' = 'cancelled'
    order by e.id desc limit 1;
    if cancelled.reason = 'not_paid_in_time' or cancelled.actor = 'staff' then
      answer := answer || jsonb_build_object(
        'cancelled_because', case when cancelled.reason = 'not_paid_in_time' then 'not_paid_in_time' else 'by_shop' end
      );
    end if;
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' and described.status = 'pending' then
    answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
  elsif described.payment_status <> 'unpaid' then
    select answer || jsonb_strip_nulls(jsonb_build_object(
      'paid_cents', sum(p.charge_cents) filter (where not p.needs_refund),
      'refunded_cents', sum(p.charge_cents) filter (where not p.needs_refund and p.refunded_at is not null),
      'surplus_cents', sum(p.charge_cents) filter (where p.needs_refund and p.refunded_at is null)
    )) into answer
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed';
  end if;
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;
comment on function private.order_facts is
  'Facts about an order''s state that domain/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded) and part_paid_cents.';

create function public.orders_by_access_key(access_keys text[]) returns jsonb
language plpgsql volatile security definer
set search_path = ''
-- Without statistics the embedded database would scan all keys.
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  answer jsonb;
begin
  select jsonb_agg(private.order_facts(o, true) order by o.created_at desc) into answer
  from (select distinct left(requested.access_key, 64) as access_key from unnest(access_keys[1:20]) as requested (access_key)) as known
  join private.order_keys as k on k.access_key = known.access_key
  join public.orders as o on o.id = k.order_id;
  -- Valid keys are not counted, as in track_order.
  if answer is null and not private.count_call('order_lookups') then
    return private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
  return coalesce(answer, '[]'::jsonb);
end
$$;
comment on function public.orders_by_access_key is
  'State of the orders with these access keys, at most 20, newest first, without personal data. Calls without a valid key count as order lookups.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

-- schemas/07_payments.sql
-- Payments: attempts to collect an order's money, their prompts and queries (docs/decisions/payments.md). Amounts are in cents.

create table public.payments (
  id uuid primary key default gen_random_uuid(),
  order_id uuid references public.orders (id),
  phone text not null,
  charge_cents integer not null,
  status text not null default 'initiating',
  result_code text,
  result_description text,
  receipt text,
  merchant_request_id text,
  checkout_request_id text,
  needs_refund boolean not null default false,
  query_count integer not null default 0,
  next_query_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  completed_at timestamptz,
  method text not null default 'prompt',
  confirmed_by uuid,
  presumption text,
  refunded_at timestamptz,
  refund_receipt text,
  purpose text not null default 'order',
  requested_by uuid,
  requested_by_email text,
  constraint "a payment status is one of the life cycle"
    check (status in ('initiating', 'processing', 'completed', 'failed', 'review', 'unresolved')),
  constraint "M-PESA charges whole shillings" check (charge_cents >= 100 and charge_cents % 100 = 0),
  constraint "a checkout request belongs to one payment" unique (checkout_request_id),
  constraint "a receipt pays once" unique (receipt),
  constraint "a payment method is known" check (method in ('prompt', 'till')),
  constraint "a presumption is known" check (presumption in ('attempt', 'receipt')),
  constraint "a payment is for an order or a test" check (
    case purpose
      when 'order' then order_id is not null
      when 'test' then order_id is null and requested_by is not null and method = 'prompt' and charge_cents = 100
      else false
    end
  )
);
comment on table public.payments is
  'Payment attempts. charge_cents: the amount of the prompt, or of money that came without one. failed: M-PESA reported a final code. unresolved: M-PESA gave no result.';
comment on column public.payments.method is
  'prompt: a prompt for charge_cents was sent. till: money without a prompt, reported by staff or M-PESA; its phone is unknown ('''').';
comment on column public.payments.confirmed_by is
  'The staff member who confirmed the money by its receipt or assigned it to the order. Null: reported by M-PESA.';
comment on column public.payments.presumption is
  'What is assumed from a reference alone. attempt: this prompt was paid; receipt: this receipt is the prompt''s. Null: confirmed by M-PESA or staff.';
comment on column public.payments.purpose is
  'order: pays an order. test: a staff member (requested_by) pays KSh 1 to check the M-PESA settings; it pays no order and is not in reports.';
comment on column public.payments.refunded_at is 'When the money was refunded. needs_refund stays set.';
alter table public.payments enable row level security;
grant select on public.payments to authenticated;
grant select (id) on public.payments to anon;
create policy "staff read every payment" on public.payments for select to authenticated using ((select public.is_admin()));
create unique index "one open attempt per order" on public.payments (order_id) where status in ('initiating', 'processing');
create index payments_by_order on public.payments (order_id);
create index payments_due_for_a_query on public.payments (next_query_at) where status = 'processing';
create index payments_without_receipt on public.payments (charge_cents, created_at) where receipt is null and method = 'prompt';
create index payments_by_completion on public.payments (completed_at) where status = 'completed';
create index payments_in_review on public.payments (updated_at) where status = 'review';
create index payments_failed on public.payments (updated_at) where status = 'failed';
-- M-PESA accepts the same amount from one phone once in two minutes and answers result 17 otherwise. No prompt is sent in that time:
-- it would fail, or be paid twice.
create index payments_of_the_same_amount on public.payments (phone, charge_cents, updated_at) where result_code = '17';
create index payments_that_are_tests on public.payments (created_at desc) where purpose = 'test';
create index payments_of_a_phone on public.payments (phone, created_at desc);
create index payments_to_send_back on public.payments (order_id) where needs_refund and refunded_at is null;

create table private.payment_secrets (
  payment_id uuid primary key references public.payments (id) on delete cascade,
  callback_secret text not null,
  constraint "a callback secret opens one payment" unique (callback_secret)
);
comment on table private.payment_secrets is 'Secret last part of an attempt''s callback URL.';
alter table private.payment_secrets enable row level security;

create function private.refuse_same_amount(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  refused_at timestamptz;
begin
  select max(p.updated_at) into refused_at
  from public.payments as p
  where p.phone = new.phone and p.charge_cents = new.charge_cents and p.result_code = '17' and p.status = 'failed'
    and p.purpose = 'order'
    and p.updated_at > now() - interval '2 minutes';
  if refused_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from refused_at + interval '2 minutes' - now()))::integer
    ));
  end if;
end
$$;

create function private.may_prompt_phone(payer text, paid_order public.orders) returns boolean
language plpgsql volatile set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  unanswered constant integer := 20;
begin
  perform pg_advisory_xact_lock(hashtextextended('prompts to ' || may_prompt_phone.payer, 0));
  if (
    select count(*) from (
      select from public.payments as p
      where p.phone = may_prompt_phone.payer and p.created_at > now() - interval '1 day'
        -- A prompt that M-PESA refused at once did not reach the phone.
        and (p.status in ('initiating', 'processing', 'unresolved') or (p.status = 'failed' and p.checkout_request_id is not null))
      limit unanswered
    ) as prompts
  ) < unanswered then
    return true;
  end if;
  if (may_prompt_phone.paid_order).customer_phone <> may_prompt_phone.payer then
    return false;
  end if;
  -- A stranger may order with this phone, but does not know the email address of its earlier orders.
  return exists (
    select from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.phone = may_prompt_phone.payer and p.status = 'completed'
      and o.customer_phone = may_prompt_phone.payer and lower(o.customer_email) = lower((may_prompt_phone.paid_order).customer_email)
  ) or private.count_call('prompts_beyond_unanswered', may_prompt_phone.payer);
end
$$;
comment on function private.may_prompt_phone is
  'Whether a phone may get another prompt. After 20 unpaid prompts within a day only for its own orders: without a further limit if it has paid an order with the same email address, else twice a day per network.';

create function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
  paid_order public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into paid_order from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_review' and p.charge_cents = paid_order.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if paid_order.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif paid_order.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif paid_order.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if paid_order.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (paid_order.total_amount, paid_order.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- Without limits, one order could send prompts to many phones.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', paid_order.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, paid_order) then
    return private.refusal_answer('PT429',
      'This phone had many unpaid payment prompts today. Please pay from another phone, or contact us',
      'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (paid_order.id, payer, paid_order.charge_cents, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(paid_order.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', paid_order.tracking_number
  );
end
$$;
comment on function public.begin_payment is
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new.';

create function public.begin_payment_test(phone text, callback_secret text, requested_by uuid) returns public.payments
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  test public.payments;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  elsif not exists (
    select from public.admin_profiles as a where a.user_id = begin_payment_test.requested_by and a.is_active
  ) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  -- Tests send prompts too, so they are limited.
  if private.count_hit('payment_tests', 'all', interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Too many tests. Please wait a few minutes');
  elsif private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payments (purpose, phone, charge_cents, requested_by, requested_by_email)
  values ('test', payer, 100, begin_payment_test.requested_by, private.email_of(begin_payment_test.requested_by))
  returning * into test;
  insert into private.payment_secrets (payment_id, callback_secret) values (test.id, begin_payment_test.callback_secret);
  return test;
end
$$;
comment on function public.begin_payment_test is 'Opens a payment of KSh 1 by which a staff member checks the M-PESA settings.';

-- Prompts: their responses, and leasing status queries

create function public.record_push(
  payment_id uuid, body text, merchant_request_id text default null, checkout_request_id text default null,
  refusal_code text default null, refusal_description text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
declare
  attempt public.payments;
begin
  -- Locked before the message is stored: its foreign key takes a weaker lock, which two concurrent calls could not upgrade.
  perform from public.payments as p where p.id = record_push.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, body, outcome)
  values (
    record_push.payment_id, 'push', record_push.body,
    case
      when record_push.checkout_request_id is not null then 'accepted'
      when record_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  -- A callback may arrive before the response to the push: what it settled stays settled.
  update public.payments as p
  set status = case
        when p.status <> 'initiating' then p.status
        when record_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when p.status = 'initiating' then coalesce(record_push.refusal_code, p.result_code) else p.result_code end,
      result_description = case
        when p.status = 'initiating' then coalesce(record_push.refusal_description, p.result_description)
        else p.result_description
      end,
      merchant_request_id = coalesce(p.merchant_request_id, record_push.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, record_push.checkout_request_id),
      next_query_at = case
        when p.status <> 'initiating' then p.next_query_at
        when record_push.refusal_code is null then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = record_push.payment_id
  returning * into attempt;
  return attempt;
end
$$;
comment on function public.record_push is
  'Stores the response to the push. Without request ids and refusal, the response was lost: the attempt stays open.';

create function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- Clients have M-PESA's id, or only ours when the response with M-PESA's was lost.
  select to_jsonb(p) || case
    -- Money that is being refunded has not paid the order: staff contact the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  -- M-PESA's ids contain the time and the phone, so they can be guessed. Limits apply to wrong guesses only.
  if found_payment is null and not private.count_call('unknown_payments') then
    return private.refusal_answer('PT429', 'Too many unknown payments. Please try again in a few minutes',
      'too_many_lookups', '');
  end if;
  return found_payment;
end
$$;
comment on function public.find_payment is
  'An attempt by M-PESA''s checkout request id or its own id, for clients that poll its status. Null: none. Only unknown references count for the caller''s networks, and only they are refused.';

create function public.find_payment_by_secret(callback_secret text) returns uuid
language sql stable security definer set search_path = '' as $$
  select s.payment_id from private.payment_secrets as s where s.callback_secret = find_payment_by_secret.callback_secret;
$$;
comment on function public.find_payment_by_secret is 'The payment with this secret in its callback URL. Null: none.';

-- M-PESA allows few queries per minute. Prompts of one network must not delay the payments of others.
create function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5)
returns setof public.payments
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push had no response cannot be queried, and its callback arrives within 15 minutes or never. M-PESA reports
  -- no results after a day.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- All processes share the merchant's rate limit: one batch, then none until the limit allows the next.
  if not exists (
    select from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ), network_queries as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join network_queries as n on n.widest_network = w.widest_network
    where p.status = 'processing'
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(n.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- A larger exponent would overflow the interval.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;
comment on function public.lease_payment_queries is
  'Leases attempts to query now: at most at_most at once, and per_minute; first those of the networks with the fewest queries in the last 15 minutes. Each is due again at growing intervals until it is settled.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

-- schemas/08_settlement.sql
-- Settlement: deciding what a message means for a payment attempt, and applying it (docs/decisions/payments.md).

create type private.payment_report as (
  source text,
  result text,
  result_code text,
  result_description text,
  received_cents integer,
  receipt text,
  merchant_request_id text,
  checkout_request_id text
);
comment on type private.payment_report is
  'What a message reports about a payment attempt. result: succeeded, failed or pending. received_cents: null if the message names no amount.';

create type private.settlement as (
  decision text,
  splits_receipt boolean
);
comment on type private.settlement is
  'What a message means for an attempt. splits_receipt: the presumed receipt of the attempt is other money and first becomes a separate payment.';

create type public.settled_payment as (
  outcome text,
  payment public.payments
);
comment on type public.settled_payment is 'Outcome of a message about a payment, and the payment afterwards.';

create function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, receipt, merchant_request_id, checkout_request_id
  );
  stored_message bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  message_outcome text;
  settled_id uuid;
begin
  if report.result not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into stored_message;

  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_is_refunded => private.is_being_refunded(attempt.id),
    owner_is_refunded => private.is_being_refunded(receipt_owner.id)
  );

  if settlement.splits_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  settled_id := attempt.id;
  case settlement.decision
    when 'completes' then
      message_outcome := private.complete_attempt(attempt, report);
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents));
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      if report.result = 'succeeded' then
        perform private.store_mismatched_money(attempt, report);
      end if;
    when 'confirmed_by_hand' then
      perform private.merge_receipt_owner(attempt, report, receipt_owner);
    when 'second_payment' then
      message_outcome := 'paid_twice';
      settled_id := private.add_second_payment(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = stored_message;
    when 'adds_details' then
      message_outcome := 'already_completed';
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  message_outcome := coalesce(message_outcome, settlement.decision);
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.match_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = stored_message;
  end if;
  if report.result = 'succeeded' and attempt.purpose = 'order' then
    perform private.correct_message_outcomes(m.payment_id) from public.payment_messages as m where m.id = stored_message;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  return (message_outcome, attempt)::public.settled_payment;
end
$$;
comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; every receipt stays in the books; an amount other than the charge needs review.';

create function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  update public.orders as o
  set payment_status = 'paid', payment_method = 'mpesa',
      status = case when o.status in ('pending', 'cancelled') then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  insert into public.deliveries (order_id) values (paid_order.id) on conflict do nothing;
  return 'paid';
end
$$;
comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create function private.hold_paid_order(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set payment_status = 'needs_review', status = 'pending', updated_at = now()
  where o.id = hold_paid_order.order_id and o.payment_status = 'paid' and o.status in ('pending', 'processing');
  if not found then
    return false;
  end if;
  perform private.return_units(hold_paid_order.order_id);
  delete from public.deliveries as d where d.order_id = hold_paid_order.order_id;
  return true;
end
$$;
comment on function private.hold_paid_order is
  'Puts a paid order under review, because less than its charge was received. False: it was handed over, or is not paid.';

create function private.decide_settlement(
  attempt public.payments, report private.payment_report, receipt_owner public.payments, is_other_request boolean,
  attempt_is_refunded boolean, owner_is_refunded boolean
) returns private.settlement
language plpgsql immutable set search_path = '' as $$
declare
  is_completed boolean := attempt.status = 'completed';
  names_other_amount boolean := report.received_cents <> attempt.charge_cents or (report.received_cents is null and report.source = 'callback');
  -- Anyone can type a reference, so it disproves nothing.
  is_by_reference boolean := report.source in ('confirmation', 'statement');
  splits_receipt boolean := coalesce(
    report.receipt <> attempt.receipt and attempt.presumption is not null and not is_by_reference and not attempt_is_refunded, false
  );
  -- The attempt without its presumed receipt.
  stays_completed boolean := is_completed and not (splits_receipt and attempt.presumption = 'attempt');
  own_receipt text := case when not splits_receipt then attempt.receipt end;
  decision text := case
    when is_other_request then 'other_request'
    when report.result = 'pending' then 'pending'
    -- Also an attempt completed by presumption: the money was not this prompt's.
    when report.result = 'failed' and (
      attempt.status in ('initiating', 'processing', 'unresolved')
      or (is_completed and attempt.presumption = 'attempt' and not attempt_is_refunded)
    ) then 'failed'
    when report.result = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.received_cents is null then 'needs_review'
    -- The money of a payment test pays no order, and money of an order completes no test.
    when receipt_owner.id is not null and (receipt_owner.order_id is distinct from attempt.order_id
      or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)) then 'receipt_replayed'
    -- Already in the books; money that is refunded is not moved.
    when owner_is_refunded and (receipt_owner.method = 'prompt' or attempt_is_refunded) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and own_receipt is not null then 'already_completed'
    -- The receipt is in the books: as a separate payment, or as the presumed receipt of another attempt.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is a separate payment.
    when stays_completed and report.receipt <> own_receipt then
      case attempt.purpose when 'test' then 'already_completed' else 'second_payment' end
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else splits_receipt and decision in ('confirmed_by_hand', 'second_payment', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;
comment on function private.decide_settlement is
  'Decides what a message means for a payment attempt, from facts alone. receipt_owner: the other payment with this receipt. is_other_request: the request id belongs to another attempt. attempt_is_refunded, owner_is_refunded: a refund of that money is requested or done.';

create function private.fail_attempt(attempt_id uuid, new_status text, report private.payment_report, description text) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = new_status, result_code = report.result_code, result_description = description,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id), next_query_at = null,
      updated_at = now()
  where p.id = attempt_id;
$$;
comment on function private.fail_attempt is
  'Ends an attempt without paying its order: failed, or review when the amount is not the charge.';

create function private.store_mismatched_money(attempt public.payments, report private.payment_report) returns void
language sql set search_path = '' as $$
  insert into public.mpesa_transactions as t (receipt, received_cents, reference, transacted_at, reported_by_callback_at, attempt_id)
  select report.receipt, report.received_cents, o.tracking_number, now(), now(), attempt.id
  from public.orders as o
  where o.id = attempt.order_id and report.receipt is distinct from attempt.receipt and report.received_cents > 0
    and report.receipt is not null
    and not exists (select from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id)
  on conflict (receipt) do update set
    attempt_id = coalesce(t.attempt_id, excluded.attempt_id),
    reported_by_callback_at = coalesce(t.reported_by_callback_at, excluded.reported_by_callback_at),
    updated_at = now();
$$;
comment on function private.store_mismatched_money is
  'Stores money of another amount than charged for staff, unless a payment has its receipt.';

create function private.merge_receipt_owner(attempt public.payments, report private.payment_report, receipt_owner public.payments)
returns void
language plpgsql set search_path = '' as $$
declare
  own_id uuid := receipt_owner.id;
begin
  if receipt_owner.method = 'prompt' then
    own_id := private.separate_receipt(receipt_owner.id);
  end if;
  perform private.merge_payments(own_id, attempt.id);
  update public.payments as p
  set result_code = report.result_code, result_description = report.result_description, presumption = null,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id), updated_at = now()
  where p.id = attempt.id;
  if receipt_owner.charge_cents <> attempt.charge_cents and not receipt_owner.needs_refund
    and exists (select from public.orders as o where o.id = attempt.order_id and o.payment_status = 'needs_review')
  then
    -- The order needed review only for the amount that staff typed.
    perform private.mark_order_paid(attempt.order_id);
  end if;
  perform private.match_receipts(attempt.order_id);
end
$$;
comment on function private.merge_receipt_owner is
  'Merges the payment that has the attempt''s receipt into the attempt. The caller has locked the order.';

create function private.add_second_payment(attempt public.payments, report private.payment_report) returns uuid
language plpgsql set search_path = '' as $$
declare
  own_id uuid;
begin
  insert into public.payments (order_id, phone, charge_cents, status, method)
  values (attempt.order_id, '', report.received_cents, 'unresolved', 'till')
  returning id into own_id;
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = report.receipt, needs_refund = true, completed_at = now(), updated_at = now()
  where p.id = own_id;
  return own_id;
end
$$;
comment on function private.add_second_payment is 'Adds a second success of an attempt as a payment to refund. Returns its id.';

create function private.add_details(attempt public.payments, report private.payment_report) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set receipt = coalesce(p.receipt, report.receipt),
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      result_code = case
        when p.presumption = 'attempt' and report.source not in ('confirmation', 'statement') then report.result_code
        else p.result_code
      end,
      presumption = case
        when report.source in ('confirmation', 'statement') and p.receipt is null and p.method = 'prompt' then 'receipt'
        when report.source in ('confirmation', 'statement') or p.presumption is null then p.presumption
        when report.receipt is null then 'receipt'
      end,
      updated_at = now()
  where p.id = attempt.id;
$$;
comment on function private.add_details is 'Adds receipt, ids and confirmation from a further message about a completed attempt.';

create function private.mark_attempt_completed(attempt_id uuid, report private.payment_report, is_extra boolean default false)
returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = 'completed', result_code = report.result_code, result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      presumption = case when report.source in ('confirmation', 'statement') and p.method = 'prompt' then 'attempt' end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id), needs_refund = is_extra,
      next_query_at = null, completed_at = now(), updated_at = now()
  where p.id = attempt_id;
$$;

create function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  purpose text;
begin
  if attempt.purpose = 'test' then
    perform private.mark_attempt_completed(attempt.id, report);
    return 'completed';
  end if;
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  purpose := case
    -- Money that is being refunded, or was refunded, pays nothing.
    when report.receipt is not null and not private.withdraw_unsent_transaction_refunds(report.receipt) then 'goes_back'
    when paid_order.payment_status = 'unpaid' then 'pays'
    when paid_order.payment_status = 'needs_review' then private.purpose_for_reviewed_order(attempt, report.source, paid_order)
    else 'extra'
  end;
  perform private.mark_attempt_completed(attempt.id, report, is_extra => purpose in ('extra', 'goes_back'));
  case purpose
    when 'pays' then
      return private.mark_order_paid(paid_order.id);
    when 'part' then
      return 'paid_needs_review';
    when 'goes_back' then
      return 'goes_back';
    else
      if attempt.method = 'till' then
        -- Only money with a receipt can be refunded, and this may be the receipt of the earlier payment.
        update public.payments as p
        set needs_refund = true, updated_at = now()
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
          and not p.needs_refund and p.charge_cents = attempt.charge_cents and not private.is_being_refunded(p.id);
        if found then
          update public.payments as p set needs_refund = false where p.id = attempt.id;
        end if;
      end if;
      return 'paid_twice';
  end case;
end
$$;
comment on function private.complete_attempt is
  'Completes an open attempt and pays its order, or marks the money as too much, too little or being refunded. Returns the outcome: paid, paid_needs_review, paid_twice or goes_back; completed for a test. The caller has locked the order.';

create function private.purpose_for_reviewed_order(attempt public.payments, source text, reviewed public.orders) returns text
language plpgsql set search_path = '' as $$
declare
  received_cents bigint;
  is_refunding boolean;
begin
  if exists (
    select from public.payments as p
    where p.order_id = reviewed.id and p.status = 'completed' and not p.needs_refund and p.charge_cents = reviewed.charge_cents
  ) then
    return 'extra';
  elsif attempt.charge_cents = reviewed.charge_cents then
    -- The exact charge pays the order; earlier money is refunded.
    update public.payments as p
    set needs_refund = true, updated_at = now()
    where p.order_id = reviewed.id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
    perform private.correct_message_outcomes(p.id) from public.payments as p
    where p.order_id = reviewed.id and p.id <> attempt.id and p.status = 'completed';
    return 'pays';
  elsif source <> 'till' then
    return 'extra';
  end if;
  -- Partial payments assigned by staff pay the order once they add up to its charge.
  select attempt.charge_cents + coalesce(sum(p.charge_cents) filter (where not private.is_being_refunded(p.id)), 0),
    coalesce(bool_or(private.is_being_refunded(p.id)), false)
  into received_cents, is_refunding
  from public.payments as p
  where p.order_id = reviewed.id and p.status = 'completed' and not p.needs_refund;
  return case
    when received_cents < reviewed.charge_cents then 'part'
    when received_cents = reviewed.charge_cents and not is_refunding then 'pays'
    else 'extra'
  end;
end
$$;
comment on function private.purpose_for_reviewed_order is
  'What further money does for an order that needs review: pays (then earlier money is refunded, or added up), part or extra.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

-- schemas/09_transactions.sql
-- Transactions: money that M-PESA reports without a prompt, matched to an attempt or an order, else resolved by staff.

create table public.mpesa_transactions (
  receipt text primary key,
  received_cents integer not null,
  reference text not null default '',
  payer_phone text,
  payer_name text,
  transacted_at timestamptz not null,
  reported_by_callback_at timestamptz,
  reported_by_confirmation_at timestamptz,
  reported_by_statement_at timestamptz,
  payment_id uuid references public.payments (id) on delete set null,
  attempt_id uuid references public.payments (id) on delete set null,
  order_id uuid references public.orders (id) on delete set null,
  resolution text,
  resolved_by uuid,
  resolved_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a resolution is known" check (resolution in ('given', 'not_an_order', 'refund', 'accepted')),
  constraint "money came" check (received_cents > 0)
);
comment on table public.mpesa_transactions is
  'Money that M-PESA reported by a confirmation, by its statement, or by a callback with another amount than charged. payment_id: the payment of this money; null while unknown.';
comment on column public.mpesa_transactions.payer_phone is 'As M-PESA reports it: masked or hashed. Never matched.';
comment on column public.mpesa_transactions.attempt_id is
  'The attempt whose callback named the receipt with another amount than charged.';
comment on column public.mpesa_transactions.order_id is
  'The order that the reference names, if the amount is less than its charge: it pays nothing until staff decide.';
comment on column public.mpesa_transactions.resolution is
  'What staff decided; null before. The history is in reconciliation_events.';
alter table public.mpesa_transactions enable row level security;
grant select on public.mpesa_transactions to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (receipt) on public.mpesa_transactions to anon;
create policy "staff read every transaction" on public.mpesa_transactions
  for select to authenticated using ((select public.is_admin()));
create index mpesa_transactions_by_time on public.mpesa_transactions (transacted_at);
create index mpesa_transactions_by_payment on public.mpesa_transactions (payment_id);
create index mpesa_transactions_by_attempt on public.mpesa_transactions (attempt_id) where attempt_id is not null;
create index mpesa_transactions_by_order on public.mpesa_transactions (order_id) where order_id is not null;
create index mpesa_transactions_unassigned on public.mpesa_transactions (transacted_at)
  where payment_id is null and resolution is null;

create table private.mpesa_registrations (
  kind text primary key,
  registered_at timestamptz not null default now(),
  constraint "a registration is known" check (kind in ('till', 'statement'))
);
comment on table private.mpesa_registrations is
  'Registrations that M-PESA confirmed: URLs for confirmations, and access to its statement.';
alter table private.mpesa_registrations enable row level security;

create function private.order_of_reference(reference text) returns uuid
language sql stable set search_path = '' as $$
  -- JJ-20261121-1234, JJ2611211234 and 26112112345 (five digits). Case, spaces and hyphens are ignored.
  with written as (
    select regexp_replace(regexp_replace(upper(order_of_reference.reference), '[^A-Z0-9]', '', 'g'), '^JJ', '') as digits
  ),
  readings as (
    select 'JJ-' || left(digits, 8) || '-' || substr(digits, 9) as number from written where digits ~ '^20\d{10,12}$'
    union
    select 'JJ-20' || left(digits, 6) || '-' || substr(digits, 7) from written where digits ~ '^\d{10,12}$'
  ),
  found as (
    select o.id from public.orders as o where o.tracking_number in (select r.number from readings as r)
  )
  -- If both readings name an order, staff decide.
  select f.id from found as f where (select count(*) from found) = 1;
$$;
comment on function private.order_of_reference is
  'The order that a payer''s reference names, in either spelling of its tracking number. Null for none or several.';

create function private.link_transaction() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.mpesa_transactions as t
  set payment_id = new.id, updated_at = now()
  where t.receipt = new.receipt and t.payment_id is distinct from new.id;
  return null;
end
$$;

create function private.is_being_refunded(payment_id uuid, receipt text default null) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (
    select from public.refunds as r
    where (r.payment_id = is_being_refunded.payment_id or r.receipt = is_being_refunded.receipt)
      and r.status not in ('withdrawn', 'failed')
  );
end
$$;
comment on function private.is_being_refunded is
  'Whether a refund of this payment, or of the money with this receipt, is requested or done. Then its receipt is not moved.';

create function private.withdraw_unsent_transaction_refunds(receipt text) returns boolean
language plpgsql set search_path = '' as $$
begin
  update public.refunds as r
  set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
  where r.receipt = withdraw_unsent_transaction_refunds.receipt and r.transaction_receipt is not null
    and r.status in ('requested', 'approved') and r.tries = 0;
  return not private.is_being_refunded(null, withdraw_unsent_transaction_refunds.receipt);
end
$$;
comment on function private.withdraw_unsent_transaction_refunds is
  'Withdraws refunds of unassigned money that were not sent to M-PESA. Returns whether the money can pay an order: not if it was, or may be, refunded. The caller has locked the receipt.';

create function private.correct_message_outcomes(payment_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  money public.payments;
  completing_message bigint;
begin
  select * into strict money from public.payments as p where p.id = correct_message_outcomes.payment_id;
  select m.id into completing_message
  from public.payment_messages as m
  where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_review', 'paid_twice', 'goes_back')
  order by m.outcome = 'paid_twice', m.id
  limit 1;
  if money.status <> 'completed' then
    update public.payment_messages as m set outcome = 'presumed'
    where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_review', 'paid_twice', 'goes_back');
  elsif completing_message is null then
    update public.payment_messages as m
    set outcome = case when money.needs_refund then 'paid_twice' else 'paid' end
    where m.id = (
      select min(later.id) from public.payment_messages as later
      where later.payment_id = money.id and later.receipt = money.receipt and later.outcome is not null
    );
  else
    update public.payment_messages as m set outcome = 'confirmed_by_hand'
    where m.payment_id = money.id and m.id <> completing_message and m.outcome in ('paid', 'paid_needs_review', 'paid_twice', 'goes_back');
  end if;
end
$$;
comment on function private.correct_message_outcomes is
  'Ensures that exactly one message of a completed payment has the outcome that completed it.';

create function private.separate_receipt(payment_id uuid, failed boolean default false) returns uuid
language plpgsql set search_path = '' as $$
declare
  attempt public.payments;
  own_id uuid;
  confirmed_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = separate_receipt.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into confirmed_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null, confirmed_by = case when confirmed_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when separate_receipt.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and other.status in ('initiating', 'processing')
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not separate_receipt.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end, presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  values (attempt.order_id, '', attempt.charge_cents, 'unresolved', 'till', confirmed_by_staff)
  returning id into own_id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = attempt.receipt,
      -- An attempt that stays completed still pays the order.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at, updated_at = now()
  where p.id = own_id;
  perform private.correct_message_outcomes(attempt.id);
  perform private.correct_message_outcomes(own_id);
  return own_id;
end
$$;
comment on function private.separate_receipt is
  'Makes a wrongly presumed receipt a separate payment; the attempt becomes what it was before, or failed. The caller has locked the order. Returns the id of the separate payment.';

create function private.merge_payments(own_id uuid, attempt_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = merge_payments.own_id;
  select * into strict attempt from public.payments as p where p.id = merge_payments.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  delete from public.payments as p where p.id = by_hand.id;
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = by_hand.receipt,
      confirmed_by = coalesce(by_hand.confirmed_by, p.confirmed_by),
      needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
      next_query_at = null, completed_at = least(attempt.completed_at, by_hand.completed_at), updated_at = now()
  where p.id = attempt.id;
  perform private.correct_message_outcomes(attempt.id);
end
$$;
comment on function private.merge_payments is
  'Merges a payment by its receipt into the attempt of the same money. The caller has locked the order.';

create function private.attempt_for(order_id uuid, receipt text, received_cents integer, transacted_at timestamptz) returns uuid
language sql stable set search_path = '' as $$
  select p.id
  from public.payments as p
  where p.order_id = attempt_for.order_id
    and p.method = 'prompt'
    and p.receipt is null
    and p.charge_cents = attempt_for.received_cents
    and p.status in ('initiating', 'processing', 'unresolved', 'review', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at < attempt_for.transacted_at + interval '15 minutes'
    -- An attempt whose callback named a receipt matches only that receipt.
    and not exists (
      select from public.mpesa_transactions as t where t.attempt_id = p.id and t.receipt <> attempt_for.receipt
    )
    -- A manual refund from before the receipt was known belongs to this money.
    and (p.status = 'completed' or not private.is_being_refunded(p.id))
  order by p.status = 'completed' desc, p.created_at desc, p.id
  limit 1;
$$;
comment on function private.attempt_for is
  'The attempt of an order that money under its reference completes: same amount, no receipt yet.';

create function private.orders_missing_receipt(receipt text) returns setof uuid
language sql stable set search_path = '' as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  join public.payments as p on p.charge_cents = t.received_cents and p.method = 'prompt' and p.receipt is null
    and p.status in ('initiating', 'processing', 'unresolved', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
  where t.receipt = orders_missing_receipt.receipt and t.payment_id is null and p.purpose = 'order';
$$;
comment on function private.orders_missing_receipt is
  'Orders that unassigned money may belong to: they have a prompt of the same amount and time without a receipt.';

create function private.match_receipts(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  own record;
  attempt public.payments;
begin
  -- A separate payment with M-PESA's receipt and an attempt without one are presumed to be the same money.
  for own in
    select p.id, p.receipt, p.charge_cents, t.transacted_at
    from public.payments as p
    join public.mpesa_transactions as t on t.receipt = p.receipt
    where p.order_id = match_receipts.order_id and p.method = 'till' and p.status = 'completed'
      and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
      and not private.is_being_refunded(p.id)
    order by p.needs_refund, t.transacted_at, p.receipt
  loop
    select a.* into attempt from public.payments as a
    where a.id = private.attempt_for(match_receipts.order_id, own.receipt, own.charge_cents, own.transacted_at);
    continue when attempt.id is null;
    perform private.merge_payments(own.id, attempt.id);
    update public.payments as p
    set presumption = case when attempt.status = 'completed' then 'receipt' else 'attempt' end
    where p.id = attempt.id;
  end loop;
end
$$;
comment on function private.match_receipts is
  'Matches receipts reported by M-PESA with attempts of the same order that lack one, one to one. The caller has locked the order.';

create function private.store_message_outcome(
  message_id bigint, source text, body text, payment_id uuid, receipt text, outcome text
) returns void
language plpgsql set search_path = '' as $$
begin
  if message_id is null then
    insert into public.payment_messages (payment_id, source, body, receipt, outcome)
    values (payment_id, source, body, receipt, outcome);
  else
    update public.payment_messages as m
    set payment_id = coalesce(store_message_outcome.payment_id, m.payment_id),
        receipt = coalesce(store_message_outcome.receipt, m.receipt), outcome = store_message_outcome.outcome
    where m.id = store_message_outcome.message_id;
  end if;
end
$$;
comment on function private.store_message_outcome is 'Stores the outcome of a message, which may be stored already (message_id).';

create function private.store_transaction(
  source text, receipt text, received_cents integer, reference text, transacted_at timestamptz, payer_phone text, payer_name text
) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  is_confirmation constant boolean := store_transaction.source = 'confirmation';
  stored public.mpesa_transactions;
begin
  insert into public.mpesa_transactions as t (
    receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_confirmation_at, reported_by_statement_at,
    payment_id
  ) values (
    store_transaction.receipt, store_transaction.received_cents, coalesce(trim(store_transaction.reference), ''),
    nullif(trim(store_transaction.payer_phone), ''), nullif(trim(store_transaction.payer_name), ''), store_transaction.transacted_at,
    case when is_confirmation then now() end, case when not is_confirmation then now() end,
    (select p.id from public.payments as p where p.receipt = store_transaction.receipt)
  )
  on conflict (receipt) do update set
    -- A statement overrides a confirmation, which overrides a callback, because callbacks can be forged.
    received_cents = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.received_cents
      else excluded.received_cents
    end,
    transacted_at = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.transacted_at
      else excluded.transacted_at
    end,
    reference = case
      when t.reference <> '' and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.reference
      else excluded.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    reported_by_confirmation_at = coalesce(t.reported_by_confirmation_at, excluded.reported_by_confirmation_at),
    reported_by_statement_at = coalesce(t.reported_by_statement_at, excluded.reported_by_statement_at),
    updated_at = now()
  returning * into stored;
  return stored;
end
$$;
comment on function private.store_transaction is
  'Stores what a confirmation or the statement reports about a receipt, each receipt once. The caller has locked the receipt.';

create function private.add_receipt_to_test(reported public.mpesa_transactions) returns void
language sql set search_path = '' as $$
  with lacking as (
    select p.id from public.payments as p
    where upper(trim(reported.reference)) = 'TEST' and reported.payment_id is null
      and p.purpose = 'test' and p.status = 'completed' and p.receipt is null and p.charge_cents = reported.received_cents
      and p.created_at between reported.transacted_at - interval '15 minutes' and reported.transacted_at + interval '15 minutes'
  )
  update public.payments as p set receipt = reported.receipt, updated_at = now()
  from lacking where p.id = lacking.id and (select count(*) from lacking) = 1;
$$;
comment on function private.add_receipt_to_test is 'Adds the receipt to the only KSh 1 test of that time that a query completed without one.';

create function private.apply_reported_amount(known public.payments, reported public.mpesa_transactions) returns void
language plpgsql set search_path = '' as $$
declare
  of_order public.orders;
begin
  if known.method <> 'till' or known.charge_cents = reported.received_cents or private.is_being_refunded(known.id) then
    return;
  end if;
  select * into of_order from public.orders as o where o.id = known.order_id;
  if private.is_whole_shillings(reported.received_cents) and (known.needs_refund or of_order.payment_status = 'needs_review') then
    -- Nothing was decided by the typed amount.
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    if not known.needs_refund and reported.received_cents = of_order.charge_cents then
      perform private.mark_order_paid(of_order.id);
    end if;
  elsif reported.received_cents < known.charge_cents and not known.needs_refund then
    if private.hold_paid_order(of_order.id) and private.is_whole_shillings(reported.received_cents) then
      update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    end if;
  end if;
end
$$;
comment on function private.apply_reported_amount is
  'Replaces the amount that staff typed for a receipt by the one that M-PESA reports, and updates the order. The caller has locked the order.';

create function public.receive_mpesa_transaction(
  source text, receipt text, received_cents integer, reference text default '', transacted_at timestamptz default null,
  payer_phone text default null, payer_name text default null, body text default '', message_id bigint default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := upper(trim(receipt));
  moment timestamptz := coalesce(transacted_at, now());
  for_order uuid;
  reported public.mpesa_transactions;
  known public.payments;
  settled public.settled_payment;
  outcome text;
  is_part boolean;
begin
  if source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is reported by a confirmation or the statement');
  elsif coalesce(code, '') = '' or coalesce(received_cents, 0) <= 0 then
    perform private.store_message_outcome(message_id, source, body, null, null, 'unreadable');
    return ('unreadable', null)::public.settled_payment;
  end if;

  -- The order must be locked first, but is known only after reading. If it changed before the lock, read again.
  loop
    for_order := private.order_of_transaction(code, reference);
    begin
      -- Leaving this block releases the lock, so that no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_transaction(code, reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  reported := private.store_transaction(source, code, received_cents, reference, moment, payer_phone, payer_name);
  perform private.add_receipt_to_test(reported);
  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    perform private.store_message_outcome(message_id, source, body, known.id, code, outcome);
    perform private.apply_reported_amount(known, reported);
    perform private.match_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return (outcome, known)::public.settled_payment;
  end if;

  -- Anyone can type an order's number. Less than its charge never pays it: staff decide.
  is_part := reported.received_cents < (select o.charge_cents from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or reported.resolution is not null
    or not private.is_whole_shillings(reported.received_cents)
  then
    outcome := 'unmatched';
    perform private.store_message_outcome(message_id, source, body, null, code, outcome);
    return (outcome, null)::public.settled_payment;
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, reported.received_cents, reported.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', reported.received_cents, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id, source => source, body => body,
    result => 'succeeded', result_code => '0', received_cents => reported.received_cents, receipt => code
  );
  -- The settlement stored the message again, with its payment.
  if message_id is not null then
    update public.payment_messages as m
    set source_address = stored.source_address, received_at = stored.received_at
    from public.payment_messages as stored
    where stored.id = receive_mpesa_transaction.message_id and m.id = (select max(later.id) from public.payment_messages as later
      where later.payment_id = (settled.payment).id and later.receipt = code and later.source = 'confirmation');
    delete from public.payment_messages as m where m.id = receive_mpesa_transaction.message_id;
  end if;
  return settled;
end
$$;
comment on function public.receive_mpesa_transaction is
  'Stores money that M-PESA reports by a confirmation or its statement, each receipt once. It belongs to the payment with this receipt, else to the order that its reference names: it completes an attempt of the same amount without a receipt, becomes a separate payment, or, if less than the charge, waits for staff. All other money stays unmatched for staff. Idempotent, in any order with other messages.';

create function private.order_of_transaction(receipt text, reference text) returns uuid
language sql stable set search_path = '' as $$
  select coalesce(
    (select p.order_id from public.payments as p where p.receipt = order_of_transaction.receipt),
    private.order_of_reference(order_of_transaction.reference),
    (select private.order_of_reference(t.reference) from public.mpesa_transactions as t where t.receipt = order_of_transaction.receipt)
  );
$$;
comment on function private.order_of_transaction is
  'The order of the payment with this receipt, else of this reference, else of the reference reported earlier.';

create function public.record_mpesa_registration(kind text) returns void
language sql volatile security definer set search_path = '' as $$
  insert into private.mpesa_registrations (kind) values (record_mpesa_registration.kind)
  on conflict (kind) do update set registered_at = now();
$$;
comment on function public.record_mpesa_registration is
  'Records that M-PESA accepted a registration: till (confirmations) or statement. From then on the statement is pulled.';

create function public.receipts_not_in_statement(receipts text[]) returns text[]
language sql stable security definer set search_path = '' as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_not_in_statement.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = upper(trim(given.receipt)) and t.reported_by_statement_at is not null
  );
$$;
comment on function public.receipts_not_in_statement is 'Those of the receipts that no statement has listed.';

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.receipts_not_in_statement to service_role;

-- schemas/10_refunds.sql
-- Refunds, requested and approved by staff (docs/decisions/refunds.md).

create table private.refund_limit_raises (
  id bigint generated always as identity primary key,
  raised_by uuid not null,
  raised_by_email text,
  raised_from integer not null,
  raised_to integer not null,
  raised_at timestamptz not null default now()
);
comment on table private.refund_limit_raises is
  'Raises of the refund limit. The previous limit applies for one more day, so that other staff notice the raise.';
alter table private.refund_limit_raises enable row level security;
create index refund_limit_raises_newest on private.refund_limit_raises (raised_at desc);

create table public.refunds (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid,
  transaction_receipt text,
  receipt text,
  refund_cents integer not null,
  reason text not null,
  method text not null,
  status text not null,
  needs_approval boolean not null default false,
  requested_by uuid,
  requested_by_email text,
  approved_by uuid,
  approved_by_email text,
  conversation_id text,
  originator_conversation_id text,
  result_code text,
  result_description text,
  refund_receipt text,
  check_count integer not null default 0,
  next_check_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  sent_at timestamptz,
  completed_at timestamptz,
  tries integer not null default 0,
  sent_twice_at timestamptz,
  sent_twice_seen_at timestamptz,
  sent_twice_seen_by uuid,
  sent_twice_seen_by_email text,
  sent_twice_note text,
  -- Deferred: merging two payments moves the refund within the transaction.
  constraint "a refund is of a payment" foreign key (payment_id) references public.payments (id) deferrable initially deferred,
  constraint "a refund is of a transaction" foreign key (transaction_receipt) references public.mpesa_transactions (receipt),
  constraint "a refund is of a payment or a transaction" check (num_nonnulls(payment_id, transaction_receipt) = 1),
  constraint "a refund has a known status" check (status in (
    'requested', 'approved', 'sending', 'sent', 'completed', 'failed', 'unknown', 'withdrawn'
  )),
  constraint "a refund goes by M-PESA or by hand" check (method in ('reversal', 'by_hand')),
  constraint "a refund by M-PESA has a receipt" check (method = 'by_hand' or receipt is not null),
  constraint "a refund by hand is completed" check (method = 'reversal' or status = 'completed'),
  constraint "a refund is of whole shillings" check (refund_cents >= 100 and refund_cents % 100 = 0),
  constraint "a refund has a reason" check (char_length(trim(reason)) between 3 and 200),
  constraint "a second staff member approves above the limit" check (
    method = 'by_hand' or not needs_approval or status in ('requested', 'withdrawn')
    or (approved_by is not null and requested_by is not null and approved_by <> requested_by)
  ),
  constraint "only sent refunds are checked" check (next_check_at is null or status in ('sent', 'unknown')),
  constraint "a refund receipt is used once" unique (refund_receipt),
  constraint "only a double refund is acknowledged" check (sent_twice_seen_at is null or sent_twice_at is not null),
  constraint "an acknowledgement has a note" check (
    (sent_twice_seen_at is null) = (sent_twice_note is null) and char_length(trim(sent_twice_note)) between 3 and 200
  )
);
comment on table public.refunds is
  'Refunds of a payment, or of money without an order (transaction_receipt). receipt: M-PESA''s receipt of the incoming money; refund_receipt: of the refund. unknown: M-PESA may have sent it; M-PESA is queried and nothing is sent again.';
comment on column public.refunds.sent_twice_at is
  'When M-PESA reported this reversal after the money had been refunded in another way. refund_receipt is the receipt of the second refund.';
comment on column public.refunds.needs_approval is 'Whether refund_cents was above the limit when the refund was requested.';
comment on column public.refunds.sent_twice_note is
  'How staff resolved the double refund: the customer repaid one, or it is written off.';
alter table public.refunds enable row level security;
grant select on public.refunds to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.refunds to anon;
create policy "staff read every refund" on public.refunds for select to authenticated using ((select public.is_admin()));
create index refunds_sent_twice on public.refunds (sent_twice_at) where sent_twice_at is not null;
create unique index "a payment is sent back once" on public.refunds (payment_id) where status not in ('failed', 'withdrawn');
create unique index "the money of a receipt is sent back once" on public.refunds (receipt) where status not in ('failed', 'withdrawn');
create index refunds_of_a_payment on public.refunds (payment_id);
create index refunds_of_a_receipt on public.refunds (receipt);
create index refunds_under_way on public.refunds (created_at) where status not in ('completed', 'failed', 'withdrawn');
create index refunds_sent_twice_and_not_seen on public.refunds (sent_twice_at)
  where sent_twice_at is not null and sent_twice_seen_at is null;

create table private.refund_secrets (
  refund_id uuid primary key references public.refunds (id) on delete cascade,
  result_secret text not null,
  constraint "a result secret opens one refund" unique (result_secret)
);
comment on table private.refund_secrets is 'Secret part of a refund''s result URLs.';
alter table private.refund_secrets enable row level security;

create function private.refund_limit() returns integer
language sql stable set search_path = '' as $$
  select least(s.refund_approval_above, (
    select min(r.raised_from) from private.refund_limit_raises as r where r.raised_at > now() - interval '1 day'
  ))
  from public.store_settings as s;
$$;
comment on function private.refund_limit is 'The current limit in cents. A raise applies after one day.';

-- A paid order is delivered or refunded, never both.
create function private.refuse_while_refund_is_open(new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and r.status in ('requested', 'approved', 'sending', 'sent', 'unknown')
  ) then
    perform private.refuse(409, 'refund_under_way',
      'This money is on its way back to the customer. Withdraw the refund first, where that is still possible');
  elsif new.payment_status = 'paid' and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
  ) then
    perform private.refuse(409, 'partly_refunded',
      'Part of this money went back to the customer already. Send the rest back too');
  end if;
end
$$;

-- Records refunds by hand of an order's payments when staff mark the order as refunded.
create function private.record_refund_of_order(new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, p.charge_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.charge_cents, 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
end
$$;

-- Updates the order of a refunded payment, as resolve_paid_order does.
create function private.refund_order_of_payment(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for update;
  if new.needs_refund or refunded_order.payment_status not in ('paid', 'needs_review') then
    if new.needs_refund then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- Paid in parts: the order is refunded with the last part.
    perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    return;
  end if;
  -- M-PESA reversed the payment after refusing to, and the order was not sent: its units return to stock.
  if refunded_order.payment_status = 'paid' and refunded_order.status in ('pending', 'processing') then
    perform private.return_units(refunded_order.id);
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_review' or refunded_order.status in ('pending', 'processing') then 'cancelled'
        else o.status
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_review' or refunded_order.status in ('pending', 'processing') then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
end
$$;

-- Moves the refund to the remaining payment when two payments with one receipt are merged.
create function private.move_refund_with_receipt(new public.payments) returns public.payments
language plpgsql set search_path = '' as $$
declare
  refund public.refunds;
begin
  update public.refunds as r
  set payment_id = new.id, transaction_receipt = null, updated_at = now()
  where r.receipt = new.receipt and r.payment_id is distinct from new.id
    -- An earlier refund by hand stays with the payment.
    and (r.status in ('failed', 'withdrawn') or not exists (
      select from public.refunds as own
      where own.payment_id = new.id and own.id <> r.id and own.status not in ('failed', 'withdrawn')
    ));
  select * into refund from public.refunds as r where r.payment_id = new.id and r.status = 'completed';
  if found then
    new.refunded_at := coalesce(new.refunded_at, refund.completed_at);
    new.refund_receipt := coalesce(new.refund_receipt, refund.refund_receipt);
  end if;
  -- A refund recorded before the receipt was known gets the receipt.
  update public.refunds as r
  set receipt = new.receipt, updated_at = now()
  where r.payment_id = new.id and r.receipt is null and not exists (
    select from public.refunds as known
    where known.receipt = new.receipt and known.id <> r.id and known.status not in ('failed', 'withdrawn')
  );
  return new;
end
$$;

-- Refuses payments that cannot be refunded. Locks the order first.
create function private.lock_refundable_payment(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = lock_refundable_payment.payment_id)
  for update;
  select * into paid from public.payments as p where p.id = lock_refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif paid.status <> 'completed' or not (
    paid.needs_refund
    or paid.purpose = 'test'
    or paid_order.payment_status = 'needs_review'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  return paid;
end
$$;

create function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  if char_length(trim(coalesce(reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, trim(reason),
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  return opened;
end
$$;
comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create function private.lock_refundable_transaction(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  code text := upper(trim(lock_refundable_transaction.receipt));
  reported public.mpesa_transactions;
begin
  -- Settlements and reconciliation take the same lock for a receipt.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif private.is_being_refunded(null, code) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.payment_id is not null or exists (select from public.payments as p where p.receipt = code)
    or not private.is_whole_shillings(reported.received_cents)
  then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif not coalesce(lock_refundable_transaction.is_sure, false) and exists (select private.orders_missing_receipt(code)) then
    perform private.refuse(409, 'may_be_of_order', format(
      'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
      (select o.order_number from public.orders as o
       where o.id in (select private.orders_missing_receipt(code)) order by o.created_at desc limit 1)
    ));
  end if;
  return reported;
end
$$;

create function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  paid := private.lock_refundable_payment(request_refund.payment_id);
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;
comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure.';

create function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  approved public.refunds := private.lock_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif approved.requested_by = member then
    perform private.refuse(403, 'second_member_needed', 'You requested this refund, so a colleague must approve it');
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member, approved_by_email = private.email_of(member), updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;
comment on function public.approve_refund is 'Approves, as a second staff member, a refund above the limit.';

create function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  withdrawn public.refunds := private.lock_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return withdrawn;
  end if;
  if withdrawn.status not in ('requested', 'approved') then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return withdrawn;
end
$$;
comment on function public.withdraw_refund is 'Withdraws a refund that was not sent to M-PESA yet.';

-- The reconciliation lists every refund, wherever it was requested.
create function private.record_refund_in_reconciliation(new public.refunds) returns void
language plpgsql set search_path = '' as $$
begin
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  select new.receipt, p.id, p.order_id, 'refund',
    case when new.method = 'by_hand' and new.refund_receipt is not null
      then format('By hand, receipt %s: %s', new.refund_receipt, new.reason) else new.reason end,
    new.requested_by, new.requested_by_email
  from (select) as one
  left join public.payments as p on p.id = new.payment_id
  where p.purpose is distinct from 'test';
end
$$;

-- After a refund that sent no money, staff resolve the unmatched payment again.
create function private.reopen_transaction_of_refund(new public.refunds) returns void
language plpgsql set search_path = '' as $$
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
      member, private.email_of(member)
    );
  end if;
end
$$;

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

-- schemas/11_sending_refunds.sql
-- Sending refunds: reversal requests to M-PESA, and their results.

create function private.complete_refund(refund_id uuid, refund_receipt text) returns public.refunds
language plpgsql set search_path = '' as $$
declare
  done public.refunds;
begin
  update public.refunds as r
  set status = 'completed', refund_receipt = coalesce(r.refund_receipt, complete_refund.refund_receipt),
      next_check_at = null, completed_at = coalesce(r.completed_at, now()), updated_at = now()
  where r.id = complete_refund.refund_id
  returning * into strict done;
  update public.payments as p
  set refunded_at = coalesce(p.refunded_at, done.completed_at), refund_receipt = coalesce(p.refund_receipt, done.refund_receipt),
      updated_at = now()
  where p.id = done.payment_id;
  return done;
end
$$;
comment on function private.complete_refund is
  'Completes a refund and its payment. The caller has locked the order, the payment and the refund.';

-- All functions lock in the same order, against deadlocks: the order, the receipt (its advisory lock, then its row of
-- mpesa_transactions), the payment, the refund; last the products, by id.
create function private.lock_refund(refund_id uuid) returns public.refunds
language plpgsql set search_path = '' as $$
declare
  seen public.refunds;
  locked public.refunds;
begin
  -- The order and receipt must be locked first, but are known only after reading. If they changed before the lock, read again.
  loop
    select * into seen from public.refunds as r where r.id = lock_refund.refund_id;
    if not found then
      perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
    end if;
    begin
      perform from public.orders as o
      where o.id = (select p.order_id from public.payments as p where p.id = seen.payment_id)
      for update;
      if seen.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || seen.receipt));
        perform from public.mpesa_transactions as t where t.receipt = seen.receipt for update;
      end if;
      perform from public.payments as p where p.id = seen.payment_id for update;
      select * into strict locked from public.refunds as r where r.id = seen.id for update;
      if (locked.payment_id, locked.receipt) is distinct from (seen.payment_id, seen.receipt) then
        raise exception using errcode = 'JJ001';
      end if;
      return locked;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
end
$$;

create function private.check_refund_receipt(typed text) returns text
language plpgsql set search_path = '' as $$
declare
  code text := private.read_receipt(typed);
begin
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code) then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  elsif exists (select from public.refunds as r where r.refund_receipt = code) then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = upper(regexp_replace(note_refund_by_hand.refund_receipt, '\s', '', 'g'))
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = upper(trim(note_refund_by_hand.receipt)) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  noted := private.open_refund(
    paid.id, null, paid.receipt, paid.charge_cents, note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;
comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

create function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  closed public.refunds := private.lock_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif close_unknown_refund.refund_receipt is not null then
    return private.complete_refund(closed.id, private.check_refund_receipt(close_unknown_refund.refund_receipt));
  end if;
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA may still be working on it. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return closed;
end
$$;
comment on function public.close_unknown_refund is
  'Resolves a refund with unknown result: with its receipt, or, half an hour after it was sent, as not sent.';

create function public.lease_refunds(at_most integer default 1)
returns table (work text, refund public.refunds, secret text)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  leased public.refunds;
  excessive record;
  remaining integer := lease_refunds.at_most;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- M-PESA reported less than staff typed: no more is refunded than was received. First, since it locks more than the refund.
  for excessive in
    select r.id, reported.received_cents
    from public.refunds as r
    join public.mpesa_transactions as reported on reported.receipt = r.receipt and reported.received_cents < r.refund_cents
    where r.status in ('requested', 'approved')
    order by r.id
  loop
    perform private.lock_refund(excessive.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA reported %s cents under this receipt, %s were to be refunded', excessive.received_cents, r.refund_cents)
    where r.id = excessive.id and r.status in ('requested', 'approved') and excessive.received_cents < r.refund_cents;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: retried at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - least(interval '15 seconds' * power(2, least(r.tries, 10)), interval '10 minutes'))
    order by r.created_at limit remaining for update skip locked
  loop
    remaining := remaining - 1;
    insert into private.refund_secrets (refund_id, result_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.result_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    work := 'send';
    refund := leased;
    return next;
  end loop;

  for leased in
    select * from public.refunds as r
    where (r.status in ('sent', 'unknown') and r.next_check_at <= now())
      -- The process that sent it ended before M-PESA's response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit remaining for update skip locked
  loop
    -- One update only: a second update of the row would check its foreign keys, and wait for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it sent the request to M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- A larger exponent would overflow the interval.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    work := 'query';
    refund := leased;
    select s.result_secret into secret from private.refund_secrets as s where s.refund_id = leased.id;
    return next;
  end loop;
end
$$;
comment on function public.lease_refunds is
  'Leases refunds to send, each once (work = send), and refunds to query, at growing intervals (work = query), with the secret of their URLs.';

create function public.record_reversal_push(
  refund_id uuid, body text, conversation_id text default null, originator_conversation_id text default null,
  refusal_code text default null, refusal_description text default null
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  pushed public.refunds := private.lock_refund(record_reversal_push.refund_id);
  outcome text := case
    when record_reversal_push.refusal_code = 'R000001' then 'already_reversed'
    -- Nothing was carried out, for a temporary reason.
    when record_reversal_push.refusal_code in (
      'mpesa_unreachable', 'http_403', 'http_429', '500.003.02', '500.003.03', '400.003.01', '401.002.01', '404.001.03'
    ) and pushed.tries < 20 then 'busy'
    when record_reversal_push.refusal_code is not null then 'refused'
    when record_reversal_push.conversation_id is not null or record_reversal_push.originator_conversation_id is not null then 'accepted'
    else 'unknown'
  end;
begin
  insert into public.payment_messages (refund_id, source, body, outcome)
  values (pushed.id, 'reversal', record_reversal_push.body, outcome);
  -- A result may arrive before the response: what it settled stays settled.
  update public.refunds as r
  set status = case
        when r.status <> 'sending' then r.status
        when outcome = 'refused' then 'failed'
        when outcome = 'accepted' then 'sent'
        when outcome = 'busy' then 'approved'
        else 'unknown'
      end,
      result_code = case when r.status = 'sending' then record_reversal_push.refusal_code else r.result_code end,
      result_description = case when r.status = 'sending' then record_reversal_push.refusal_description else r.result_description end,
      conversation_id = coalesce(r.conversation_id, record_reversal_push.conversation_id),
      originator_conversation_id = coalesce(r.originator_conversation_id, record_reversal_push.originator_conversation_id),
      next_check_at = case
        when r.status <> 'sending' then r.next_check_at
        when outcome = 'accepted' then now() + interval '2 minutes'
        when outcome = 'unknown' then now() + interval '1 minute'
        when outcome = 'already_reversed' then now()
      end,
      updated_at = now()
  where r.id = pushed.id
  returning * into pushed;
  return pushed;
end
$$;
comment on function public.record_reversal_push is
  'Stores the response to a reversal request. After a temporary refusal it is sent again later. Without conversation ids and refusal, the response was lost: the reversal is queried, never sent again.';

create type public.settled_refund as (
  outcome text,
  refund public.refunds
);
comment on type public.settled_refund is 'Outcome of a message about a refund, and the refund afterwards.';

create function private.decide_reversal(
  refund public.refunds, source text, result text, refund_receipt text, refund_cents integer, originator_conversation_id text
) returns text
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  is_success constant boolean := decide_reversal.result = 'succeeded';
  code constant text := nullif(decide_reversal.refund_receipt, '');
begin
  return case
    when exists (select from public.refunds as r where r.refund_receipt = code and r.id <> refund.id) then 'receipt_replayed'
    when is_success and (
      code = refund.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then 'receipt_of_payment'
    -- Reversal results include the amount; a status with another amount may be about another payment.
    when is_success and code is not null and decide_reversal.source = 'status_result'
      and decide_reversal.refund_cents is distinct from refund.refund_cents then 'pending'
    when decide_reversal.originator_conversation_id <> refund.originator_conversation_id then 'other_request'
    when decide_reversal.result = 'pending' then 'pending'
    when is_success and refund.status = 'completed' then 'already_completed'
    when is_success and refund.tries = 0 then 'not_sent'
    when is_success and decide_reversal.refund_cents <> refund.refund_cents then 'wrong_amount'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt and r.status = 'completed'
        and (r.method = 'by_hand' or r.refund_receipt <> code)
    ) then 'sent_twice'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt
        and r.status not in ('failed', 'withdrawn', 'requested', 'approved')
    ) then 'sent_by_another'
    when is_success then 'completed'
    when refund.status not in ('sending', 'sent', 'unknown') then 'superseded'
    when decide_reversal.result = 'already_reversed' then 'already_reversed'
    when decide_reversal.result = 'not_reversed' and (
      -- M-PESA may not have processed the request yet, or has accepted it, or has reported the payment as reversed already.
      refund.sent_at > now() - interval '10 minutes' or refund.originator_conversation_id is not null
      or refund.result_code is not distinct from 'R000001'
    ) then 'pending'
    else 'failed'
  end;
end
$$;
comment on function private.decide_reversal is
  'Decides what a message means for a refund. A receipt of incoming money is no receipt of a refund. not_reversed proves that nothing was sent only if M-PESA never accepted the request. The caller has locked the refund.';

create function public.settle_reversal(
  refund_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, refund_receipt text default null, refund_cents integer default null,
  originator_conversation_id text default null, source_address text default null
) returns public.settled_refund
language plpgsql security definer set search_path = '' as $$
declare
  settled public.refunds;
  stored_message bigint;
  message_outcome text;
  settled_receipt constant text := nullif(settle_reversal.refund_receipt, '');
begin
  if settle_reversal.result not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.lock_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into stored_message;
  if settled_receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settled_receipt));
  end if;
  -- lease_refunds does not lock the receipt: no other refund of this money may begin to be sent between the decision and the update.
  perform from public.refunds as r where r.receipt = settled.receipt and r.id <> settled.id for update;
  message_outcome := private.decide_reversal(
    settled, settle_reversal.source, settle_reversal.result, settled_receipt, settle_reversal.refund_cents,
    settle_reversal.originator_conversation_id
  );

  if message_outcome in ('completed', 'sent_twice', 'sent_by_another') then
    -- Also supersedes a failure. A second refund of the same money, requested after that failure, is withdrawn.
    update public.refunds as r
    set status = 'withdrawn', updated_at = now()
    where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
  end if;
  case message_outcome
    when 'completed' then
      update public.refunds as r
      set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
      where r.id = settled.id;
      settled := private.complete_refund(settled.id, settled_receipt);
    when 'already_completed' then
      -- A result with another amount does not have this refund's receipt.
      if settled.refund_receipt is null and settled_receipt is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, settled_receipt);
      end if;
    when 'sent_twice' then
      settled := private.mark_sent_twice(settled, settled_receipt, settle_reversal.result_code, settle_reversal.result_description);
    when 'wrong_amount', 'already_reversed', 'failed' then
      update public.refunds as r
      set status = case
            when message_outcome = 'failed' then 'failed'
            when r.status in ('sending', 'sent', 'unknown') then 'unknown'
            else r.status
          end,
          result_code = settle_reversal.result_code,
          result_description = case
            when message_outcome = 'wrong_amount'
              then format('M-PESA reported %s cents, %s were to be refunded', settle_reversal.refund_cents, r.refund_cents)
            else settle_reversal.result_description
          end,
          next_check_at = case when message_outcome = 'already_reversed' then now() end, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      null;
  end case;
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message;
  return (message_outcome, settled)::public.settled_refund;
end
$$;
comment on function public.settle_reversal is
  'Settles a refund by a message of M-PESA: stores the message, decides what it means (decide_reversal) and updates refund, payment and order in the same transaction. Idempotent. A success supersedes a failure, never the reverse.';

create function private.mark_sent_twice(refund public.refunds, receipt text, result_code text, result_description text)
returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  marked public.refunds := refund;
begin
  if refund.sent_twice_at is not null then
    return refund;
  end if;
  update public.refunds as r
  set sent_twice_at = now(), refund_receipt = coalesce(r.refund_receipt, mark_sent_twice.receipt),
      result_code = mark_sent_twice.result_code, result_description = mark_sent_twice.result_description,
      next_check_at = null, updated_at = now()
  where r.id = refund.id
  returning * into marked;
  perform private.record_order_event(p.order_id, 'refund_sent_twice', 'mpesa', jsonb_build_object(
    'refund_id', marked.id, 'refund_cents', marked.refund_cents, 'receipt', marked.refund_receipt
  ))
  from public.payments as p where p.id = marked.payment_id;
  return marked;
end
$$;
comment on function private.mark_sent_twice is 'Marks a refund whose money was refunded in another way, too.';

create function public.find_refund_by_secret(result_secret text) returns uuid
language sql stable security definer set search_path = '' as $$
  select s.refund_id from private.refund_secrets as s where s.result_secret = find_refund_by_secret.result_secret;
$$;
comment on function public.find_refund_by_secret is 'The refund with this secret in its result URLs. Null: none.';

create function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  seen public.refunds := private.lock_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif char_length(trim(coalesce(acknowledge_sent_twice.note, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member, sent_twice_seen_by_email = private.email_of(member),
      sent_twice_note = trim(acknowledge_sent_twice.note), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;
comment on function public.acknowledge_sent_twice is 'Records how staff resolved money that was refunded twice.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;
grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret to service_role;

-- schemas/12_payment_health.sql
-- Payment health: the shared access token, pausing prompts while M-PESA refuses them, and the jobs that call the payment function.

-- The access token. A new token invalidates the previous one.

create unlogged table private.daraja_tokens (
  account text primary key,
  token text,
  fresh_until timestamptz,
  lease uuid,
  leased_until timestamptz
);
comment on table private.daraja_tokens is
  'Access token of each M-PESA account (a digest of its credentials), and the lease for requesting the next one.';
alter table private.daraja_tokens enable row level security;

-- Prompts pause when M-PESA reports that the shop's settings are wrong: customers see another way to pay, staff see the cause.
create table private.prompt_pause (
  id boolean primary key default true,
  code text not null,
  description text,
  times integer not null default 1,
  since timestamptz not null default now(),
  until timestamptz not null,
  caused_by text not null,
  probe_at timestamptz,
  constraint "there is one pause" check (id)
);
comment on table private.prompt_pause is
  'Until when no prompt is sent, and the response that caused the pause. Then one prompt is sent as a probe: a success ends the pause, the same error extends it.';
comment on column private.prompt_pause.caused_by is 'Phone of the last failed prompt.';
comment on column private.prompt_pause.probe_at is 'When the probe was sent. Null: no open probe.';
alter table private.prompt_pause enable row level security;

create table private.failed_prompts (
  phone text primary key,
  at timestamptz not null
);
comment on table private.failed_prompts is
  'Phones whose prompts failed with a code about the shop''s account, since the last success. One phone proves nothing, since it may be the cause.';
alter table private.failed_prompts enable row level security;

create type public.daraja_token_lease as (state text, token text, fresh_for_ms bigint, lease uuid);
comment on type public.daraja_token_lease is
  'state: fresh (token is valid for fresh_for_ms), request (the lease to request the next one) or wait (another process requests it).';

create function public.lease_daraja_token(account text, stale_token text default null) returns public.daraja_token_lease
language plpgsql security definer set search_path = '' as $$
declare
  known private.daraja_tokens;
begin
  insert into private.daraja_tokens (account) values (lease_daraja_token.account) on conflict do nothing;
  select * into strict known from private.daraja_tokens as t where t.account = lease_daraja_token.account for update;
  if known.token is distinct from lease_daraja_token.stale_token and known.fresh_until > now() then
    return ('fresh', known.token, floor(extract(epoch from known.fresh_until - now()) * 1000), null)::public.daraja_token_lease;
  end if;
  if known.leased_until > now() then
    return ('wait', null, null, null)::public.daraja_token_lease;
  end if;
  -- Ten seconds, in case the process with the lease ends.
  update private.daraja_tokens as t
  set lease = gen_random_uuid(), leased_until = now() + interval '10 seconds'
  where t.account = known.account
  returning t.lease into known.lease;
  return ('request', null, null, known.lease)::public.daraja_token_lease;
end
$$;
comment on function public.lease_daraja_token is
  'The token, if it is fresh and not stale_token; else the next step.';

create function public.store_daraja_token(account text, lease uuid, token text, fresh_for_ms bigint) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  update private.daraja_tokens as t
  set token = coalesce(store_daraja_token.token, t.token),
      fresh_until = case
        when store_daraja_token.token is null then t.fresh_until
        else now() + store_daraja_token.fresh_for_ms * interval '1 millisecond'
      end,
      lease = null, leased_until = null
  -- After the lease has expired, another token may have invalidated this one.
  where t.account = store_daraja_token.account and t.lease = store_daraja_token.lease;
  return found;
end
$$;
comment on function public.store_daraja_token is
  'Ends a lease with its token, or without (token null), so that the next caller requests one. Returns whether the lease was valid.';

create function private.is_credential_error(result_code text, result_description text) returns boolean
language sql immutable set search_path = '' as $$
  select coalesce(
    result_code in ('400.008.01', '400.008.02')
    or (result_code = '500.001.1001' and result_description ~* 'wrong credentials|merchant does not exist')
    or (result_code = 'mpesa_unreachable' and result_description ~* 'no access token: HTTP 40[0-3]'),
    false
  );
$$;
comment on function private.is_credential_error is
  'Whether M-PESA refused the shop''s credentials, before any phone was involved.';

create function private.is_configuration_error(result_code text, result_description text) returns boolean
language sql immutable set search_path = '' as $$
  -- M-PESA's result codes about the merchant's account, and Daraja's errors about its credentials.
  select coalesce(
    result_code in ('2006', '2028', '2029', 'SFC_IC0003') or private.is_credential_error(result_code, result_description),
    false
  );
$$;

-- Hosted projects refuse an UPDATE or DELETE without a WHERE (safeupdate), also within a function.
create function private.end_prompt_pause() returns void
language sql set search_path = '' as $$
  delete from private.prompt_pause where true;
  delete from private.failed_prompts where true;
$$;

create function private.pause_prompts(new public.payments) returns void
language plpgsql set search_path = '' as $$
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  end if;
  if not private.is_configuration_error(new.result_code, new.result_description) then
    -- Proves nothing about M-PESA: the next prompt is the probe.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  -- A later refusal, unlike an immediate one, may be caused by the phone.
  if new.checkout_request_id is not null and not private.is_credential_error(new.result_code, new.result_description) then
    insert into private.failed_prompts as known (phone, at) values (new.phone, now())
    on conflict (phone) do update set at = excluded.at;
    -- A second phone confirms it, now or as the probe after a pause.
    if not exists (
      select from private.failed_prompts as f where f.phone <> new.phone and f.at > now() - interval '10 minutes'
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
  set code = excluded.code, description = excluded.description, caused_by = excluded.caused_by, probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      since = case when paused.until > now() - interval '1 hour' then paused.since else now() end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then least(interval '5 minutes' * power(2, least(paused.times, 10)), interval '1 hour')
        else interval '5 minutes'
      end
  -- Failures of prompts sent before the pause do not extend it.
  where paused.until <= now();
end
$$;

create function private.refuse_prompt_in_pause() returns void
language plpgsql set search_path = '' as $$
declare
  must_wait boolean;
begin
  select paused.until > now()
    or coalesce(paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes', false)
  into must_wait
  from private.prompt_pause as paused for update;
  if not must_wait then
    -- This prompt is the probe.
    update private.prompt_pause as paused set probe_at = now() where true;
  elsif must_wait then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is saved: please try again in a few minutes');
  end if;
end
$$;

create function public.resume_prompts() returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  perform private.end_prompt_pause();
end
$$;
comment on function public.resume_prompts is 'For staff who corrected the settings: ends the pause of prompts.';

create type public.active_pause as (code text, description text, since timestamptz, until timestamptz);

create type public.refund_limit_raise as (
  raised_by_email text, raised_at timestamptz, raised_from integer, raised_to integer, applies_from timestamptz,
  current_limit integer
);

create type public.received_message as (received_at timestamptz, outcome text, source_address text);

create type public.payment_health as (
  checked_at timestamptz, pause public.active_pause, refunds_to_approve bigint, refunds_unknown bigint,
  refunds_stuck bigint, refunds_sent_twice bigint, limit_raise public.refund_limit_raise,
  token_fresh_until timestamptz, last_push public.received_message, last_callback public.received_message
);
comment on type public.payment_health is
  'pause: null while prompts are sent. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';

create function public.payment_health() returns public.payment_health
language plpgsql stable security definer set search_path = '' as $$
declare
  health public.payment_health;
begin
  perform private.expect_staff();
  health.checked_at := clock_timestamp();
  health.pause := (
    select (p.code, p.description, p.since, p.until)::public.active_pause from private.prompt_pause as p where p.until > now()
  );
  -- Each count reads its own partial index.
  health.refunds_to_approve := (select count(*) from public.refunds as r where r.status = 'requested');
  health.refunds_unknown := (select count(*) from public.refunds as r where r.status = 'unknown');
  health.refunds_stuck := (
    select count(*) from public.refunds as r
    where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
  );
  health.refunds_sent_twice := (
    select count(*) from public.refunds as r where r.sent_twice_at is not null and r.sent_twice_seen_at is null
  );
  health.limit_raise := (
    select (r.raised_by_email, r.raised_at, r.raised_from, r.raised_to, r.raised_at + interval '1 day', private.refund_limit())
      ::public.refund_limit_raise
    from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
    order by r.raised_at desc, r.id desc limit 1
  );
  health.token_fresh_until := (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null);
  health.last_push := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
  );
  health.last_callback := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source in ('callback', 'confirmation', 'reversal_result') order by m.id desc limit 1
  );
  return health;
end
$$;
comment on function public.payment_health is
  'For staff: a pause of prompts and its cause, refunds that wait for staff, the last prompt and the last callback.';

-- Jobs: claims of calls of the payment function, by one process at a time

create function private.is_payment_job_due(action text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that lease the work, such as lease_payment_queries.
  return case is_payment_job_due.action
    when 'query-open' then exists (
      select from public.payments as p
      where p.status in ('initiating', 'processing')
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (r.status in ('sent', 'unknown') and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where r.status in ('requested', 'approved')
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
    ) or exists (
      select from public.payment_messages as m
      where m.outcome = 'error' and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    else false
  end;
end
$$;
comment on function private.is_payment_job_due is 'Whether the payment function has work for this action now.';

create function public.claim_payment_job(action text) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare
  every constant interval := case
    when claim_payment_job.action in ('query-open', 'send-refunds') then interval '3 seconds'
    when claim_payment_job.action = 'take-up-till' then interval '30 seconds'
    when claim_payment_job.action = 'pull-statement' then interval '1 minute'
  end;
begin
  if every is null then
    return false;
  end if;
  if private.is_payment_job_due(claim_payment_job.action) then
    return private.count_hit('payment_jobs', claim_payment_job.action, every) = 1;
  end if;
  -- Every 10 minutes in any case, in case is_payment_job_due misses a condition.
  return private.hits_so_far('idle_payment_jobs', claim_payment_job.action, interval '10 minutes') = 0
    and private.count_hit('idle_payment_jobs', claim_payment_job.action, interval '10 minutes') = 1;
end
$$;
comment on function public.claim_payment_job is
  'Whether the calling process should call the payment function with this action now: one process once per interval while there is work, else once in 10 minutes.';

-- Execution rights
grant execute on function public.resume_prompts, public.payment_health to authenticated;
grant execute on function public.lease_daraja_token, public.store_daraja_token, public.claim_payment_job
  to service_role;

-- schemas/13_till_payments.sql
-- M-PESA's messages, payments without a prompt, and M-PESA's statement (docs/decisions/money-without-a-prompt.md).

-- Messages about money

create table public.payment_messages (
  id bigint generated always as identity primary key,
  payment_id uuid references public.payments (id) on delete cascade,
  source text not null,
  source_address text,
  body text not null,
  outcome text,
  received_at timestamptz not null default now(),
  receipt text,
  refund_id uuid references public.refunds (id) on delete cascade,
  constraint "a message has a known source" check (source in (
    'push', 'callback', 'query', 'till', 'confirmation', 'statement',
    'reversal', 'reversal_result', 'reversal_timeout', 'status_query', 'status_result'
  ))
);
comment on table public.payment_messages is 'M-PESA''s messages about money, verbatim, stored before they are processed.';
comment on column public.payment_messages.receipt is
  'Receipt that the message names. A message moves with its receipt to another payment.';
alter table public.payment_messages enable row level security;
grant select on public.payment_messages to authenticated;
create policy "staff read every payment message" on public.payment_messages
  for select to authenticated using ((select public.is_admin()));
create index payment_messages_by_payment on public.payment_messages (payment_id);
create index payment_messages_unprocessed on public.payment_messages (id) where source = 'confirmation' and outcome is null;
create index payment_messages_not_settled on public.payment_messages (id) where outcome = 'error';
create index payment_messages_by_refund on public.payment_messages (refund_id) where refund_id is not null;
create index payment_messages_latest_by_source on public.payment_messages (source, id desc);
create index payment_messages_with_bodies on public.payment_messages (received_at) where body <> '{}';
create index payment_messages_that_decided_nothing on public.payment_messages (received_at)
  where source = 'query' and outcome = 'pending';

create function public.store_failed_callback(payment_id uuid, body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (payment_id, source, body, source_address, outcome)
  values (payment_id, 'callback', body, source_address, 'error')
  returning id;
$$;
comment on function public.store_failed_callback is
  'Stores a callback that could not be settled, to process it again later: M-PESA sends it once.';

create function public.list_failed_callbacks(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.outcome = 'error' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_failed_callbacks.at_most;
$$;
comment on function public.list_failed_callbacks is 'Stored callbacks that could not be settled yet.';

create function public.finish_failed_callback(message_id bigint) returns void
language sql volatile security definer set search_path = '' as $$
  update public.payment_messages as m set outcome = 'settled_later' where m.id = finish_failed_callback.message_id and m.outcome = 'error';
$$;
comment on function public.finish_failed_callback is 'Marks a failed callback as settled; its settlement stored another message.';

-- Manual payments, confirmed by their receipt

create table private.till_secret (
  id boolean primary key default true check (id),
  secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now()
);
comment on table private.till_secret is 'Secret part of the URL for confirmations. One row, because the URL is registered once.';
alter table private.till_secret enable row level security;

create function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff();
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  received := private.reported_amount(code, received);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (confirmed_order.id, '', received, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform set_config('private.is_typed_by_staff', '', true);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;
comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid.';

create function public.store_confirmation(body text, source_address text default null) returns bigint
language sql volatile security definer set search_path = '' as $$
  insert into public.payment_messages (source, body, source_address)
  values ('confirmation', body, source_address)
  returning id;
$$;
comment on function public.store_confirmation is
  'Stores a confirmation verbatim before it is processed. Returns its id for receive_mpesa_transaction.';

create function public.list_unprocessed_confirmations(at_most integer default 50) returns table (id bigint, body text)
language sql stable security definer set search_path = '' as $$
  select m.id, m.body from public.payment_messages as m
  where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_unprocessed_confirmations.at_most;
$$;
comment on function public.list_unprocessed_confirmations is
  'Stored confirmations that were not processed, because a process ended or the database was unavailable.';

create function public.validate_till_payment(reference text, offered_cents integer) returns text
language sql stable security definer set search_path = '' as $$
  select case
    when not s.refuses_unknown_payments then 'accepted'
    when private.is_whole_shillings(validate_till_payment.offered_cents) is not true then 'amount'
    when private.order_of_reference(validate_till_payment.reference) is null then 'reference'
    when exists (
      select from public.orders as o
      where o.id = private.order_of_reference(validate_till_payment.reference)
        and validate_till_payment.offered_cents <> o.charge_cents
    ) then 'amount'
    else 'accepted'
  end
  from public.store_settings as s;
$$;
comment on function public.validate_till_payment is
  'Whether M-PESA may accept a manual payment: accepted, or what is wrong (reference, amount). Always accepted unless the settings refuse unknown payments.';

create function public.read_till_secret() returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into private.till_secret default values on conflict do nothing;
  return (select t.secret from private.till_secret as t);
end
$$;
comment on function public.read_till_secret is 'The secret of the till''s URLs. The first call creates it.';

create function private.read_receipt(typed text) returns text
language plpgsql stable set search_path = '' as $$
declare
  code text := upper(regexp_replace(typed, '\s', '', 'g'));
begin
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  return code;
end
$$;
comment on function private.read_receipt is
  'An M-PESA receipt that staff typed, in capitals and without spaces. Refuses anything else.';

create function private.reported_amount(receipt text, typed_cents integer) returns integer
language sql stable set search_path = '' as $$
  select coalesce((
    select t.received_cents from public.mpesa_transactions as t
    where t.receipt = reported_amount.receipt and private.is_whole_shillings(t.received_cents)
      and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
  ), typed_cents);
$$;
comment on function private.reported_amount is 'The amount that M-PESA reported for a receipt, else the amount that staff typed.';

create function private.check_receipt_is_free(receipt text, is_new boolean) returns void
language plpgsql stable set search_path = '' as $$
begin
  if exists (select from public.payments as p where p.receipt = check_receipt_is_free.receipt and p.purpose = 'test') then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif is_new and private.is_being_refunded(null, check_receipt_is_free.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
end
$$;
comment on function private.check_receipt_is_free is
  'Refuses the receipt of a payment test, and a new one whose money is being refunded.';

create function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff();
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', private.email_of(member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received <> known.charge_cents then
    perform private.hold_paid_order(paid_order.id);
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;
comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order becomes paid when the amount is its charge, otherwise it needs review.';

-- Pulls of M-PESA's statement of the last 48 hours

create table public.statement_pulls (
  id bigint generated always as identity primary key,
  window_from timestamptz not null,
  window_to timestamptz not null,
  missed_since timestamptz,
  outcome text not null default 'running',
  payments integer,
  new_payments integer,
  unreadable integer,
  problem text,
  started_at timestamptz not null default now(),
  leased_until timestamptz not null,
  finished_at timestamptz,
  constraint "a window has a length" check (window_from < window_to),
  constraint "an outcome of a pull is known" check (outcome in ('running', 'complete', 'failed')),
  constraint "a pull that ended has a time" check ((outcome = 'running') = (finished_at is null))
);
comment on table public.statement_pulls is
  'Pulls of M-PESA''s statement, which covers 48 hours. missed_since: no pull covers the time from missed_since to window_from.';
comment on column public.statement_pulls.new_payments is 'Payments that no earlier statement listed.';
alter table public.statement_pulls enable row level security;
grant select on public.statement_pulls to authenticated;
grant select (id) on public.statement_pulls to anon;
create policy "staff read every pull" on public.statement_pulls for select to authenticated using ((select public.is_admin()));
create unique index "one pull at a time" on public.statement_pulls ((true)) where outcome = 'running';
create index statement_pulls_that_are_complete on public.statement_pulls (window_to desc) where outcome = 'complete';

create function public.lease_statement_pull(every interval default '30 minutes') returns setof public.statement_pulls
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  covered_until timestamptz;
  reach timestamptz := now() - interval '48 hours';
begin
  perform pg_advisory_xact_lock(hashtext('lease_statement_pull'));
  if not exists (select from private.mpesa_registrations as r where r.kind = 'statement') then
    return;
  end if;
  -- The process with the lease ended.
  update public.statement_pulls as s
  set outcome = 'failed', problem = 'It was begun and never ended', finished_at = now()
  where s.outcome = 'running' and s.leased_until < now();
  if exists (
    select from public.statement_pulls as s
    where s.outcome = 'running'
      or (s.outcome = 'complete' and s.finished_at > now() - lease_statement_pull.every)
      -- A failed pull is retried after five minutes at the earliest.
      or (s.outcome = 'failed' and s.finished_at > now() - least(lease_statement_pull.every, interval '5 minutes'))
  ) then
    return;
  end if;
  select max(s.window_to) into covered_until from public.statement_pulls as s where s.outcome = 'complete';
  return query insert into public.statement_pulls (window_from, window_to, missed_since, leased_until)
  values (
    -- Overlapping, for late entries. A little less than 48 hours, since clocks differ.
    greatest(covered_until - interval '3 hours', reach + interval '5 minutes'),
    now(),
    case when covered_until < reach + interval '5 minutes' then covered_until end,
    now() + interval '10 minutes'
  )
  returning *;
end
$$;
comment on function public.lease_statement_pull is
  'Leases the next pull to one process: from three hours before the end of the last complete pull, at most 48 hours. No row: none is due, or no statement is registered.';

create function public.extend_statement_pull(pull_id bigint) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  update public.statement_pulls as s
  set leased_until = now() + interval '10 minutes'
  where s.id = extend_statement_pull.pull_id and s.outcome = 'running';
  return found;
end
$$;
comment on function public.extend_statement_pull is 'Extends the lease of a pull. False: another process has taken it over.';

create function public.finish_statement_pull(
  pull_id bigint, payments integer default null, new_payments integer default null, unreadable integer default null,
  problem text default null
) returns void
language sql volatile security definer set search_path = '' as $$
  update public.statement_pulls as s
  set outcome = case when finish_statement_pull.problem is null then 'complete' else 'failed' end,
      payments = finish_statement_pull.payments, new_payments = finish_statement_pull.new_payments,
      unreadable = finish_statement_pull.unreadable, problem = finish_statement_pull.problem, finished_at = now()
  where s.id = finish_statement_pull.pull_id and s.outcome = 'running';
  -- Pulls are stored for half a year, those with gaps forever.
  delete from public.statement_pulls as s
  where s.started_at < now() - interval '190 days' and s.missed_since is null;
$$;
comment on function public.finish_statement_pull is
  'Ends a pull: complete if all payments of its window were received, else failed with the problem; then its window is pulled again.';

create function private.statement_coverage() returns tstzmultirange
language sql stable set search_path = '' as $$
  select coalesce(range_agg(tstzrange(s.window_from, s.window_to)), '{}'::tstzmultirange)
  from public.statement_pulls as s
  where s.outcome = 'complete';
$$;
comment on function private.statement_coverage is 'The time that complete pulls cover.';

create type public.period as (starts_at timestamptz, ends_at timestamptz);

create type public.statement_status as (
  checked_at timestamptz, till_registered_at timestamptz, statement_registered_at timestamptz,
  last_confirmation_at timestamptz, last_complete_at timestamptz, covered_until timestamptz, problem text,
  missed public.period[], unsettled_messages bigint, unmatched bigint
);
comment on type public.statement_status is
  'missed: gaps of the last 14 days. unsettled_messages: callbacks and confirmations that could not be settled. unmatched: money without a payment.';

create function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff();
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  select max(s.finished_at), max(s.window_to) into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete';
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from public.statement_pulls as s
    where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where (m.outcome = 'error' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  return status;
end
$$;
comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;
grant execute on function public.store_failed_callback, public.list_failed_callbacks, public.finish_failed_callback,
  public.store_confirmation, public.list_unprocessed_confirmations, public.validate_till_payment,
  public.read_till_secret, public.lease_statement_pull, public.extend_statement_pull, public.finish_statement_pull
  to service_role;

-- schemas/14_reconciliation.sql
-- Reconciliation: the books of M-PESA and the shop by day, and the resolution of differences by staff.

create table public.reconciliation_events (
  id bigint generated always as identity primary key,
  receipt text,
  payment_id uuid,
  order_id uuid,
  kind text not null,
  note text,
  actor_id uuid,
  actor_email text,
  happened_at timestamptz not null default clock_timestamp(),
  constraint "a decision is known" check (kind in ('given', 'not_an_order', 'refund', 'accepted', 'reopened')),
  constraint "a decision is about something" check (num_nonnulls(receipt, payment_id) >= 1)
);
comment on table public.reconciliation_events is
  'Staff decisions about differences between the books and M-PESA. Append-only, by resolve_difference. actor_email: the email address at that time.';
alter table public.reconciliation_events enable row level security;
revoke all on public.reconciliation_events from anon, authenticated, service_role;
grant select on public.reconciliation_events to authenticated, service_role;
grant select (id) on public.reconciliation_events to anon;
create policy "staff read every decision" on public.reconciliation_events
  for select to authenticated using ((select public.is_admin()));
create index reconciliation_events_by_receipt on public.reconciliation_events (receipt, id);
create index reconciliation_events_by_payment on public.reconciliation_events (payment_id, id);

create type public.reconciliation_row as (
  id text, happened_at timestamptz, kind text, is_open boolean, receipt text, our_cents integer, their_cents integer,
  payment_id uuid, payment_status text, method text, needs_refund boolean, refunded_at timestamptz, refund_status text,
  order_id uuid, order_number text, tracking_number text, customer_name text, charge_cents integer,
  order_payment_status text, reference text, payer_name text, payer_phone text,
  reported_by_confirmation_at timestamptz, reported_by_statement_at timestamptz, resolution text
);
comment on type public.reconciliation_row is
  'A payment in the books of the shop and of M-PESA, joined by receipt. kind: matched; missing_here (no payment has M-PESA''s receipt); missing_there (a statement covers the payment but lacks it); not_compared (no statement covers it yet); double; wrong_amount.';

create function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable
set search_path = ''
-- A day and a year need different plans.
set plan_cache_mode = force_custom_plan
as $$
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payments as k where k.id = t.payment_id and k.purpose = 'test')
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order'
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when p.status in ('review', 'failed') then 'wrong_amount'
        when p.needs_refund then 'double'
        when (e.t).received_cents <> p.charge_cents or p.charge_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        when coverage @> tstzrange(p.created_at, p.completed_at + interval '10 minutes') then 'missing_there'
        else 'not_compared'
      end as kind
    from entries as e
    left join public.payments as p on p.id = e.payment_id
    left join public.orders as o on o.id = coalesce(p.order_id, (e.t).order_id)
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by r.status in ('failed', 'withdrawn'), r.created_at desc
      limit 1
    ) as refund on true
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or c.refund_status not in ('failed', 'withdrawn')
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    case when (c.p).status in ('completed', 'review') then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution
  from compared as c;
end
$$;

create type public.reconciliation_day as (
  day date, rows public.reconciliation_row[], is_covered boolean, missed public.period[]
);

create function public.reconciliation_day(day date) returns public.reconciliation_day
language plpgsql stable security definer
set search_path = ''
-- Finds the rows of a day by key, with any number of other rows and any statistics.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return (
    reconciliation_day.day,
    array(select r from private.reconciliation_rows(since, until) as r order by r.is_open desc, r.happened_at desc, r.id),
    private.statement_coverage() @> tstzrange(since, greatest(since, least(until, now() - interval '2 hours'))),
    array(
      select (s.missed_since, s.window_from)::public.period
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since < until and s.window_from > since
      order by s.id
    )
  )::public.reconciliation_day;
end
$$;
comment on function public.reconciliation_day is
  'For staff: both books of a day in Nairobi, open differences first; whether complete statements cover the day; and gaps that no statement covers.';

create function public.reconciliation_days(since date, until date) returns table (
  day date, ours bigint, theirs bigint, payments bigint, matched bigint, missing_here bigint, missing_there bigint,
  not_compared bigint, doubles bigint, wrong_amounts bigint, open bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  if reconciliation_days.until - reconciliation_days.since not between 0 and 366 then
    perform private.refuse(400, 'range_invalid', 'A range has up to 366 days');
  end if;
  return query
  select
    d.day::date,
    coalesce(sum(r.our_cents) filter (where r.payment_status = 'completed'), 0),
    coalesce(sum(r.their_cents), 0),
    count(r.id),
    count(*) filter (where r.kind = 'matched'),
    count(*) filter (where r.kind = 'missing_here'),
    count(*) filter (where r.kind = 'missing_there'),
    count(*) filter (where r.kind = 'not_compared'),
    count(*) filter (where r.kind = 'double'),
    count(*) filter (where r.kind = 'wrong_amount'),
    count(*) filter (where r.is_open)
  from generate_series(reconciliation_days.since::timestamp, reconciliation_days.until::timestamp, interval '1 day') as d (day)
  left join private.reconciliation_rows(
    reconciliation_days.since::timestamp at time zone 'Africa/Nairobi',
    (reconciliation_days.until + 1)::timestamp at time zone 'Africa/Nairobi'
  ) as r on private.nairobi_day(r.happened_at) = d.day::date
  group by d.day
  order by d.day desc;
end
$$;
comment on function public.reconciliation_days is
  'For staff: days of a range in Nairobi, newest first, with the sums of both books in cents and the number of differences by kind, and open ones.';

create function public.suggest_orders(receipt text) returns table (
  id uuid, order_number text, tracking_number text, customer_name text, total_amount integer, payment_status text, status text,
  created_at timestamptz, lacks_receipt boolean
)
language plpgsql stable security definer set search_path = '' as $$
declare
  reported public.mpesa_transactions;
  -- Possibly paid by this money, whose receipt was lost.
  missing_receipt uuid[];
  referenced uuid;
begin
  perform private.expect_staff();
  select * into reported from public.mpesa_transactions as t where t.receipt = suggest_orders.receipt;
  missing_receipt := array(select private.orders_missing_receipt(reported.receipt));
  referenced := private.order_of_reference(reported.reference);
  return query
  select o.id, o.order_number, o.tracking_number, o.customer_name, o.total_amount, o.payment_status, o.status, o.created_at,
    o.id = any (missing_receipt)
  from public.orders as o
  where o.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour'
    and (
      (o.payment_status = 'unpaid' and o.charge_cents = reported.received_cents)
      or o.id = referenced
      or o.id = (select p.order_id from public.payments as p where p.id = reported.attempt_id)
      or o.id = any (missing_receipt)
    )
  order by o.id = any (missing_receipt) desc, o.id is not distinct from referenced desc, o.created_at desc
  limit 5;
end
$$;
comment on function public.suggest_orders is
  'For staff: orders that money may be for. First those with a prompt of this amount and time without a receipt (lacks_receipt), then unpaid ones of the same amount from the days before.';

create type public.resolved_difference as (decision text, outcome text, payment_id uuid);
comment on type public.resolved_difference is
  'decision: as in reconciliation_events. outcome: of the settlement, when money was given to an order; joined: it completed the order''s prompt. payment_id: the payment of the money.';

create function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := nullif(trim(resolve_difference.note), '');
  settled public.settled_payment;
  outcome text;
  event_kind text;
  of_order uuid;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(resolve_difference.receipt, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
    );
    begin
      perform from public.orders as o where o.id = of_order for update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif resolve_difference.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || resolve_difference.receipt));
        select * into reported from public.mpesa_transactions as t where t.receipt = resolve_difference.receipt for update;
      end if;
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', reported.received_cents, 'unresolved', 'till', member)
    returning * into money;
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;
comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept; reopen. Recorded in reconciliation_events.';

create trigger reconciliation_events_before_change before update or delete on public.reconciliation_events
  for each row execute function private.refuse_change('The history of the reconciliation is only added to');

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days, public.suggest_orders,
  public.resolve_difference to authenticated, service_role;

-- schemas/15_deliveries.sql
-- Deliveries: one per paid order; its status and its order's status are synchronised (docs/decisions/deliveries-and-inquiries.md).

create table public.deliveries (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  delivery_status text not null default 'pending',
  delivery_person text,
  delivery_phone text,
  delivery_vehicle text,
  delivery_notes text,
  pickup_time timestamptz,
  delivery_time timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "an order is delivered once" unique (order_id),
  constraint "a delivery status is known"
    check (delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit', 'delivered', 'failed')),
  constraint "delivery details are short" check (
    char_length(delivery_person) <= 120 and char_length(delivery_phone) <= 40
    and char_length(delivery_vehicle) <= 120 and char_length(delivery_notes) <= 500
  )
);
comment on table public.deliveries is 'Delivery of a paid order. Created with the payment, completed when staff assign it.';
comment on column public.deliveries.pickup_time is 'When the status became picked_up. Null: never, or undone.';
comment on column public.deliveries.delivery_time is 'When the status became delivered. Null: never, or undone.';
comment on column public.deliveries.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
alter table public.deliveries enable row level security;
grant select,
  insert (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes),
  update (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes, pickup_time, delivery_time, updated_at)
  on public.deliveries to authenticated;
grant select (id) on public.deliveries to anon;
create policy "staff read and edit every delivery" on public.deliveries
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
create index deliveries_newest_first on public.deliveries (created_at desc, id desc);
create index deliveries_by_status on public.deliveries (delivery_status, created_at desc, id desc);
create index deliveries_by_words on public.deliveries using gin (
  translate(
    lower(coalesce(delivery_person, '') || E'\n' || regexp_replace(coalesce(delivery_phone, ''), '[^0-9]', '', 'g')),
    'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'
  ) extensions.gin_trgm_ops
) with (fastupdate = off);
create index deliveries_open on public.deliveries (created_at desc, id desc)
  where delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit');
create index deliveries_of_a_rider on public.deliveries (lower(delivery_person), created_at desc, id desc)
  where delivery_person is not null;

create function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  new_status text := private.order_status_of_delivery(new.delivery_status);
  old_status text := private.order_status_of_delivery(old.delivery_status);
begin
  if new_status is not null then
    update public.orders as o
    set status = new_status, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.shown_status(o.status) is distinct from new_status;
  elsif old_status is not null then
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.shown_status(o.status) = old_status;
  end if;
end
$$;

create function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  of_order text;
begin
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select o.status into of_order from public.orders as o where o.id = new.order_id for no key update;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if current_setting('private.is_undoing', true) = 'yes' then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(of_order, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(of_order, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (of_order = 'cancelled' or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is cancelled.
      new.delivery_status := private.delivery_status_for_order(of_order,
        case when of_order = 'cancelled' then old.delivery_status else new.delivery_status end, new.delivery_person);
    end if;
  elsif new.delivery_status in ('pending', 'assigned') and of_order <> 'cancelled' then
    new.delivery_status := private.delivery_status_for_order(of_order, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status not in ('pending', 'failed') and of_order = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  return new;
end
$$;

create function private.order_status_of_delivery(delivery_status text) returns text
language sql immutable
return case
  when delivery_status in ('picked_up', 'in_transit') then 'out_for_delivery'
  when delivery_status = 'delivered' then 'delivered'
end;

create function public.assign_delivery(
  order_id uuid, delivery_person text, delivery_phone text, delivery_vehicle text, delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := nullif(trim(assign_delivery.delivery_person), '');
  phone text := nullif(trim(assign_delivery.delivery_phone), '');
  vehicle text := nullif(trim(assign_delivery.delivery_vehicle), '');
  notes text := nullif(trim(assign_delivery.delivery_notes), '');
  ordered public.orders;
  delivery public.deliveries;
begin
  perform private.expect_staff();
  if person is null then
    perform private.refuse(400, 'delivery_person_missing', 'Delivery person name is required');
  elsif phone is null then
    perform private.refuse(400, 'delivery_phone_missing', 'Phone number is required');
  elsif vehicle is null then
    perform private.refuse(400, 'delivery_vehicle_missing', 'Vehicle information is required');
  elsif char_length(person) > 120 or char_length(phone) > 40 or char_length(vehicle) > 120 or char_length(notes) > 500 then
    perform private.refuse(400, 'delivery_too_long', 'The name, phone, vehicle or notes of the delivery are too long');
  end if;

  select * into ordered from public.orders as o where o.id = assign_delivery.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  -- A repeated request changes nothing.
  if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
    is not distinct from (person, phone, vehicle, notes) then
    return delivery;
  elsif coalesce(delivery.delivery_status, 'pending') in ('pending', 'failed') and ordered.status = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  elsif assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
    perform private.refuse(409, 'delivery_already_assigned',
      format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
  elsif delivery.id is null then
    insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
    values (ordered.id, 'assigned', person, phone, vehicle, notes)
    returning * into delivery;
    return delivery;
  end if;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  perform from public.deliveries as d where d.id = delivery.id for no key update skip locked;
  if not found or assign_delivery.seen_updated_at <> delivery.updated_at then
    perform private.refuse(409, 'delivery_changed',
      'This delivery was changed in the meantime. Please look at it again and save once more if you still want to');
  end if;
  update public.deliveries as d
  set delivery_person = person, delivery_phone = phone, delivery_vehicle = vehicle, delivery_notes = notes,
      delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
  where d.id = delivery.id
  returning * into delivery;
  return delivery;
end
$$;
comment on function public.assign_delivery is
  'Assigns the delivery of an order. Changes an existing assignment only with the updated_at that the caller read.';

create function private.delivery_status_for_order(order_status text, delivery_status text, delivery_person text) returns text
language sql immutable
return case private.shown_status(order_status)
  when 'delivered' then 'delivered'
  when 'out_for_delivery' then case when delivery_status in ('picked_up', 'in_transit') then delivery_status else 'in_transit' end
  -- A delivery in progress continues.
  when 'cancelled' then case when delivery_status in ('pending', 'assigned') then 'failed' else delivery_status end
  else case
    when delivery_status not in ('picked_up', 'in_transit', 'delivered') then delivery_status
    when delivery_person is null then 'pending'
    else 'assigned'
  end
end;
comment on function private.delivery_status_for_order is
  'The status that a delivery gets from its order''s status; unchanged if they agree.';

create function private.move_delivery_with_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  delivery public.deliveries;
  new_status text;
begin
  -- Skips a locked delivery: the request that has it waits for this order, then reads it.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    new_status := private.delivery_status_for_order(
      new.status,
      -- A reactivated order is delivered again.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = new_status
    where d.id = delivery.id and d.delivery_status <> new_status;
  end if;
end
$$;

-- Execution rights
grant execute on function public.assign_delivery to authenticated, service_role;

-- schemas/16_orders_by_staff.sql
-- Orders in the hands of staff: their timeline, status changes that can be undone, and orders that need review.

-- The timeline. Triggers write it for changes of any origin.

create table public.order_events (
  id bigint generated always as identity primary key,
  order_id uuid not null,
  kind text not null,
  actor text not null,
  actor_id uuid,
  actor_email text,
  details jsonb not null default '{}',
  happened_at timestamptz not null default clock_timestamp(),
  constraint "an actor is known" check (actor in ('staff', 'customer', 'mpesa', 'shop')),
  constraint "a kind of event is known" check (kind in (
    'order_placed', 'status_changed', 'payment_status_changed', 'units_taken', 'units_returned',
    'payment_prompted', 'payment_completed', 'payment_failed', 'payment_in_review', 'payment_unresolved',
    'payment_receipt_known', 'payment_corrected',
    'delivery_made', 'delivery_assigned', 'delivery_status_changed',
    'refund_requested', 'refund_approved', 'refund_withdrawn', 'refund_sent', 'refund_unknown', 'refund_failed',
    'refund_completed', 'refund_sent_twice', 'refund_sent_twice_seen'
  ))
);
comment on table public.order_events is
  'The timeline of every order, ordered by id. Append-only. actor_email: the email address at that time.';
alter table public.order_events enable row level security;
revoke all on public.order_events from anon, authenticated, service_role;
grant select on public.order_events to authenticated, service_role;
create policy "staff read every order's timeline" on public.order_events
  for select to authenticated using ((select public.is_admin()));
create index order_events_by_order on public.order_events (order_id, id);

create function private.refuse_order_event_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' and not exists (
    select from public.orders as o
    where o.id = old.order_id and not (o.anonymised_at is not null and o.status = 'cancelled' and o.payment_status = 'unpaid')
  ) then
    return old;
  end if;
  -- Erasure removes the phone of a payment.
  if tg_op = 'UPDATE' and old.kind like 'payment\_%' and new.details = old.details - 'phone'
    and to_jsonb(new) - 'details' = to_jsonb(old) - 'details'
  then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'The timeline of an order is only added to';
end
$$;

create function private.record_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select a.user_id from public.admin_profiles as a where a.user_id = (select auth.uid()));
begin
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  values (
    order_id, kind, case when member is null then otherwise else 'staff' end, member, private.email_of(member),
    jsonb_strip_nulls(details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  );
end
$$;
comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the calling staff member, else otherwise.';

create function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.id is null then
    perform private.record_order_event(new.id, 'order_placed', 'customer', jsonb_build_object(
      'total_amount', new.total_amount,
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    return;
  end if;
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_review') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
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
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

create function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'charge_cents', new.charge_cents,
    'method', case when new.method <> 'prompt' then new.method end
  );
  result jsonb := payment || jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(new.order_id, 'payment_prompted', 'customer', payment);
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', result);
    end if;
    return;
  end if;
  if new.status not in ('initiating', 'processing') then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'review' then 'in_review' else new.status end,
      case new.status when 'unresolved' then 'shop' else 'mpesa' end,
      result || jsonb_build_object('needs_refund', case when new.status = 'completed' and new.needs_refund then true end)
    );
  end if;
end
$$;

create function private.record_delivery_events(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  is_made boolean := old.id is null;
  status_before text := case when is_made then 'pending' else old.delivery_status end;
  courier jsonb := jsonb_build_object('person', new.delivery_person, 'phone', new.delivery_phone, 'vehicle', new.delivery_vehicle);
  is_newly_assigned boolean := new.delivery_person is not null and (is_made
    or (old.delivery_person, old.delivery_phone, old.delivery_vehicle)
      is distinct from (new.delivery_person, new.delivery_phone, new.delivery_vehicle));
begin
  if is_made then
    perform private.record_order_event(new.order_id, 'delivery_made', 'shop');
  end if;
  if is_newly_assigned then
    perform private.record_order_event(new.order_id, 'delivery_assigned', 'shop',
      courier || jsonb_build_object('instead_of', case when not is_made then nullif(old.delivery_person, new.delivery_person) end));
  end if;
  -- delivery_assigned implies the status "assigned".
  if new.delivery_status <> status_before and not (is_newly_assigned and new.delivery_status = 'assigned') then
    perform private.record_order_event(new.order_id, 'delivery_status_changed', 'shop',
      jsonb_build_object('from', status_before, 'to', new.delivery_status));
  end if;
end
$$;

-- Records approvals, not every attempt to send.
create function private.record_refund_events(old public.refunds, new public.refunds) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (old.id is not null and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order's status event already shows a refund without a receipt.
    or (old.id is null and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return;
  end if;
  perform private.record_order_event(
    refunded_order,
    'refund_' || case when old.id is null and new.status <> 'completed' then 'requested' else new.status end,
    case when new.status in ('completed', 'failed') then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'refund_cents', new.refund_cents, 'method', new.method, 'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end,
      'result_code', case when new.status in ('failed', 'unknown') then new.result_code end,
      'result_description', case when new.status in ('failed', 'unknown') then new.result_description end
    )
  );
end
$$;

create trigger order_events_before_change before update or delete on public.order_events
  for each row execute function private.refuse_order_event_change();
create trigger order_events_before_truncate before truncate on public.order_events
  for each statement execute function private.refuse_order_event_change();

-- Status changes, and orders that need review

create table private.status_changes (
  id uuid primary key default gen_random_uuid(),
  order_id uuid not null references public.orders (id) on delete cascade,
  changed_by uuid,
  undo_until timestamptz not null,
  state_before jsonb not null,
  state_after jsonb not null
);
comment on table private.status_changes is
  'Status changes that can still be undone, with the state of order and delivery before and after (private.order_state).';
alter table private.status_changes enable row level security;
create index status_changes_by_order on private.status_changes (order_id);

create function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_paid_order.resolution = 'deliver' and decided.payment_status = 'needs_review' then
    if private.mark_order_paid(decided.id) <> 'paid' then
      perform private.refuse(409, 'units_sold',
        'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
    end if;
  elsif resolve_paid_order.resolution = 'refunded' and (
    decided.payment_status = 'needs_review' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- This procedure must not bypass receipts and approval of refunds.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded', status = 'cancelled',
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_review' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  end if;
end
$$;
comment on function public.resolve_paid_order is
  'For staff: deliver an order that needs review, if its units are in stock; or mark such an order, or a cancelled one, as refunded, if the shop has no payment of it. Payments are refunded by request_refund or note_refund_by_hand.';

create function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  -- For customers, shipped and out_for_delivery are the same.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
  elsif coalesce(current_setting('private.although_unpaid', true), '') <> 'yes'
    and coalesce(current_setting('private.is_undoing', true), '') <> 'yes'
  then
    perform private.refuse(409, 'order_unpaid', 'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;
comment on function private.check_handover is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless although_unpaid was passed to set_order_status or set_delivery_status.';

create function private.undo_window() returns interval
language sql immutable
return interval '15 seconds';
comment on function private.undo_window is 'How long staff can undo a status change. Its messages are sent afterwards.';

create function private.order_state(order_id uuid) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'status', o.status,
    'payment_status', o.payment_status,
    'delivery', (
      select jsonb_build_object(
        'delivery_status', d.delivery_status, 'delivery_person', d.delivery_person,
        'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
      )
      from public.deliveries as d where d.order_id = o.id
    )
  )
  from public.orders as o where o.id = order_state.order_id;
$$;

create type public.status_change as (
  change_id uuid,
  undo_seconds integer,
  notifies_customer boolean
);
comment on type public.status_change is
  'A change that undo_status_change can undo within undo_seconds. notifies_customer: a message is sent afterwards.';

create function private.record_status_change(order_id uuid, state_before jsonb) returns public.status_change
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change_id uuid;
begin
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    record_status_change.order_id, (select auth.uid()), now() + private.undo_window(),
    record_status_change.state_before, private.order_state(record_status_change.order_id)
  )
  returning id into change_id;
  return (
    change_id, extract(epoch from private.undo_window())::integer,
    exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = record_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  )::public.status_change;
end
$$;
comment on function private.record_status_change is
  'Stores what undo_status_change needs. Returns the result of the procedure that made the change.';

create function public.set_order_status(
  order_id uuid, status text, expected_status text, expected_payment_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.orders;
  state_before jsonb;
begin
  perform private.expect_staff();
  select * into changed from public.orders as o where o.id = set_order_status.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif (changed.status, changed.payment_status) is distinct from (set_order_status.expected_status, set_order_status.expected_payment_status) then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.id);
  perform set_config('private.although_unpaid', case when set_order_status.although_unpaid then 'yes' else '' end, true);
  update public.orders as o set status = set_order_status.status, updated_at = now() where o.id = changed.id;
  perform set_config('private.although_unpaid', '', true);
  return private.record_status_change(changed.id, state_before);
end
$$;
comment on function public.set_order_status is
  'For staff: sets the status of an order that still has the expected status and payment status. although_unpaid: consent to hand it over unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message is sent after that time.';

create function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff();
  select * into changed from public.deliveries as d where d.id = set_delivery_status.delivery_id;
  if not found then
    perform private.refuse(404, 'delivery_not_found', 'This delivery does not exist');
  end if;
  perform from public.orders as o where o.id = changed.order_id for no key update;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  select * into changed from public.deliveries as d where d.id = changed.id for no key update skip locked;
  if not found or changed.delivery_status is distinct from set_delivery_status.expected_status then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  perform set_config('private.although_unpaid', case when set_delivery_status.although_unpaid then 'yes' else '' end, true);
  update public.deliveries as d set delivery_status = set_delivery_status.status where d.id = changed.id;
  perform set_config('private.although_unpaid', '', true);
  return private.record_status_change(changed.order_id, state_before);
end
$$;
comment on function public.set_delivery_status is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. although_unpaid and result as in set_order_status.';

create function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff();
  select * into change from private.status_changes as c
  where c.id = undo_status_change.change_id and c.changed_by is not distinct from (select auth.uid())
  for update;
  if not found or change.undo_until < clock_timestamp() then
    perform private.refuse(409, 'undo_too_late', 'It is too late to undo this. Set the status again instead');
  end if;
  had_delivery := nullif(change.state_before -> 'delivery', 'null');
  perform from public.orders as o where o.id = change.order_id for no key update;
  -- A locked delivery counts as changed, as in set_delivery_status.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  elsif exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_window()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform set_config('private.is_undoing', 'yes', true);
  update public.orders as o
  set status = change.state_before ->> 'status', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz
    where d.order_id = change.order_id;
  end if;
  perform set_config('private.is_undoing', '', true);
  perform private.withdraw_messages(change.order_id);
  delete from private.status_changes as c where c.id = change.id;
end
$$;
comment on function public.undo_status_change is
  'For the staff member who made a change: restores the status of order and delivery with its times, and withdraws the message. Refuses after the undo window, once the message was sent, or if the order has changed again.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change to authenticated, service_role;

-- schemas/17_staff_lists.sql
-- Lists of orders and deliveries for staff: search, filters and counts (docs/decisions/staff-screens.md).

create function private.delivery_promise() returns interval
language sql immutable
return interval '60 minutes';
comment on function private.delivery_promise is
  'Time after the payment from which an order is late. deliveryPromiseMinutes in domain/delivery-status.ts.';

create function private.short_search_rows() returns integer
language sql immutable
return 5000;
comment on function private.short_search_rows is
  'Number of newest rows that are searched if every part of the search has fewer than three letters, because trigram indexes do not contain shorter parts.';

create function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := upper(regexp_replace(written, '\s', '', 'g'));
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select private.order_of_reference(written) as id
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;
comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, reference or M-PESA receipt was typed completely; then only these match.';

create function private.is_in_item_names(pattern text) returns boolean
language sql stable
set search_path = ''
-- The embedded database gathers no statistics: without this it would scan every item for an unknown word.
set enable_seqscan = off
set jit = off
as $$
  select exists (
    select from public.order_items as i
    where translate(lower(i.product_name), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu') like pattern
  );
$$;
comment on function private.is_in_item_names is 'Whether a LIKE pattern matches the name of any ordered product.';

create function private.is_in_rider_names(pattern text) returns boolean
language sql stable set search_path = '' set enable_seqscan = off set jit = off as $$
  select exists (
    select from public.deliveries as d
    where translate(
      lower(coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')),
      'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'
    ) like pattern
  );
$$;
comment on function private.is_in_rider_names is 'Whether a LIKE pattern matches the name or phone of any rider.';

create type private.list_filters as (
  list text, search text, status text, payment text, from_day date, until_day date, rider text, due text
);
comment on type private.list_filters is 'Filters of a staff list: of orders or deliveries. Null or an empty text: no filter.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create function private.list_conditions(
  filters private.list_filters, out by_index text, out by_row text, out candidates text, out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'prepare' then is_open || $sql$ and o.payment_status = 'paid' and o.status in ('pending', 'processing')$sql$
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then 'false' end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_broad := false;
  elsif typed.words is not null then
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
end
$$;
comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_broad: whether the newest rows are scanned first.';

create function private.walk_list(
  list text, by_index text, by_row text, before_created_at timestamptz, before_id uuid, most integer, nearby integer,
  out found_ids uuid[], out is_whole_list boolean
)
language plpgsql stable
set search_path = ''
set jit = off
-- Scans an index in its order and stops early. Without statistics, which the embedded database never gathers, the
-- planner would gather and sort the whole list.
set enable_sort = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  own constant text := case when list = 'orders' then 'o' else 'd' end;
  near constant text := format(
    'select %1$s.* from public.%2$I as %1$s where %3$s%4$s order by %1$s.created_at desc, %1$s.id desc limit $3',
    own, list, by_index, case when before_id is not null then format(' and (%1$s.created_at, %1$s.id) < ($1, $2)', own) end
  );
begin
  execute format(
    'select array_agg(found.id) from (select %1$s.id from (%2$s) as %1$s%3$s where %4$s limit $4) as found',
    own, near,
    case when own = 'd' and by_row is not null then
      ' cross join lateral (select o.* from public.orders as o where o.id = d.order_id limit 1) as o' end,
    coalesce(by_row, 'true')
  ) into found_ids using before_created_at, before_id, nearby, most;
  is_whole_list := coalesce(cardinality(found_ids), 0) < most;
  if is_whole_list and by_row is not null then
    execute format('select count(*) < $3 from (%s) as near', near) into is_whole_list using before_created_at, before_id, nearby;
  end if;
end
$$;
comment on function private.walk_list is
  'The first rows that meet the conditions among the newest `nearby` rows of a staff list, and whether the list has no other matches.';

create function private.rows_of_candidates(list text, by_index text, by_row text, candidates text) returns text
language sql immutable set search_path = '' as $$
  -- The limits keep the planner from reading every row for a few ids.
  select format(
    'with candidates as materialized (%1$s)
     select %2$s.id, %2$s.created_at
     from candidates as c
     cross join lateral (select o.* from public.orders as o where o.id = c.id limit 1) as o%3$s
     where %4$s and %5$s',
    candidates, case when list = 'orders' then 'o' else 'd' end,
    case when list <> 'orders' then
      ' cross join lateral (select d.* from public.deliveries as d where d.order_id = o.id limit 1) as d' end,
    by_index, by_row
  );
$$;

create function private.find_in_list(
  filters private.list_filters, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' set jit = off as $$
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  conditions record;
  found_ids uuid[];
  is_whole_list boolean := false;
  nearby integer;
begin
  conditions := private.list_conditions(filters);
  if conditions.is_broad then
    -- A few of the newest rows show whether a search is broad. Then its page is soon complete; rarer matches come from the candidates.
    foreach nearby in array case
      when conditions.by_row is null then array[most]
      when conditions.candidates is null then array[10 * most, greatest(private.short_search_rows(), 10 * most)]
      else array[10 * most, 40 * most]
    end loop
      select w.found_ids, w.is_whole_list into found_ids, is_whole_list
      from private.walk_list(filters.list, conditions.by_index, conditions.by_row, before_created_at, before_id, most, nearby) as w;
      exit when is_whole_list or coalesce(cardinality(found_ids), 0) = most
        or (conditions.candidates is not null and 8 * coalesce(cardinality(found_ids), 0) < most);
    end loop;
  end if;
  if conditions.candidates is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (%s)
       select array_agg(newest.id)
       from (
         select f.id from found as f where $2 is null or (f.created_at, f.id) < ($1, $2)
         order by f.created_at desc, f.id desc limit $3
       ) as newest',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into found_ids using before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;
comment on function private.find_in_list is 'The ids of a page of a staff list, newest first.';

create function private.count_along_index(list text, by_index text) returns integer
language plpgsql stable
set search_path = ''
set jit = off
-- Stops at the limit: a bitmap scan would read all rows first.
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  count integer;
begin
  execute format(
    'select count(*) from (select from public.%I as %s where %s limit 10001) as bounded',
    list, case when list = 'orders' then 'o' else 'd' end, by_index
  ) into count;
  return count;
end
$$;

create function private.count_in_list(filters private.list_filters) returns integer
language plpgsql stable set search_path = '' set jit = off as $$
declare
  conditions record;
  count integer;
begin
  conditions := private.list_conditions(filters);
  if filters.list = 'orders' and conditions.by_row is null and conditions.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif conditions.by_row is null then
    count := private.count_along_index(filters.list, conditions.by_index);
  elsif conditions.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(filters.list, conditions.by_index, conditions.by_row, null, null, 1001, private.short_search_rows()) as w;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit 1001) as bounded',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into count;
  end if;
  return count;
end
$$;
comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most 1001. All orders are counted exactly.';

create function private.find_by_text(
  list text, searched text, condition text, search text, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  -- Characters match literally. A line break, which would match across two columns, counts as a space. Null for an empty search.
  pattern constant text := '%' || regexp_replace(
    lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g'
  ) || '%';
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  -- A search scans this many of the newest before it uses the trigram index: a broad search has found its page by then.
  nearby constant integer := case when pattern is null then most else 40 * most end;
  newest constant text := format(
    'from public.%I as t where %s%s', list, condition, case when before_id is not null then ' and (t.created_at, t.id) < ($2, $3)' end
  );
  found_ids uuid[];
  is_whole_list boolean;
begin
  execute format(
    'with near as materialized (
       select t.id, t.created_at, coalesce(%s like $1, true) as matches %s order by t.created_at desc, t.id desc limit $5
     )
     select
       (select array_agg(found.id) from (
         select n.id from near as n where n.matches order by n.created_at desc, n.id desc limit $4
       ) as found),
       (select count(*) < $5 from near)',
    searched, newest
  ) into found_ids, is_whole_list using pattern, before_created_at, before_id, most, nearby;
  if pattern is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (select t.id, t.created_at %s and %s like $1)
       select array_agg(last.id)
       from (select f.id from found as f order by f.created_at desc, f.id desc limit $4) as last',
      -- Hides the status from the planner, which would prefer its index.
      replace(newest, 't.status =', $sql$t.status || '' =$sql$), searched
    ) into found_ids using pattern, before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;
comment on function private.find_by_text is
  'The ids of a page of a list, newest first, that meet a condition and whose searched text contains the search. Both are SQL about t, the row.';

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select o.* from public.orders as o where o.id = any (found_ids) order by o.created_at desc, o.id desc;
end
$$;
comment on function public.search_orders is
  'For staff: a page of orders, newest first, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: prepare (paid, not sent yet) or late.';

create function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(('orders', search, status, payment, from_day, until_day, rider, due));
end
$$;
comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 1001 means more than 1,000, for a search or rider; 10001 more than 10,000, for other filters.';

create function public.search_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null, before_created_at timestamptz default null,
  before_id uuid default null, page_size integer default 50
) returns setof public.deliveries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('deliveries', search, status, null, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select d.* from public.deliveries as d where d.id = any (found_ids) order by d.created_at desc, d.id desc;
end
$$;
comment on function public.search_deliveries is
  'For staff: a page of deliveries, newest first, after the one named by before_created_at and before_id. search: as in search_orders, also in name and phone of the rider. from_day, until_day: of the payment, in Nairobi. due: late.';

create function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(('deliveries', search, status, null, from_day, until_day, rider, due));
end
$$;
comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 1001 means more than 1,000, for a search; 10001 more than 10,000, otherwise.';

create function public.count_work() returns table (
  to_prepare integer, late integer, unpaid integer, refunds_due integer, to_assign integer, late_deliveries integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late'));
end
$$;
comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

create function public.recent_riders() returns table (
  name text, phone text, vehicle text, open_deliveries integer, last_assigned_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
    select latest.delivery_person, latest.delivery_phone, latest.delivery_vehicle, latest.open_deliveries, latest.updated_at
    from (
      select distinct on (lower(d.delivery_person))
        d.delivery_person, d.delivery_phone, d.delivery_vehicle, d.updated_at,
        (count(*) filter (where d.delivery_status in ('assigned', 'picked_up', 'in_transit'))
          over (partition by lower(d.delivery_person)))::integer as open_deliveries
      from public.deliveries as d
      where d.created_at > now() - interval '60 days' and d.delivery_person is not null
      order by lower(d.delivery_person), d.created_at desc, d.id
    ) as latest
    order by latest.updated_at desc
    limit 20;
end
$$;
comment on function public.recent_riders is
  'For staff: riders of the last 60 days, with phone and vehicle of their newest delivery and the number of open deliveries.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.recent_riders to authenticated, service_role;

-- schemas/18_inquiries_and_newsletter.sql
-- What visitors send without an order: inquiries and newsletter subscriptions.

-- Inquiries: messages from the contact form

create table public.inquiries (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  email text not null,
  phone text,
  subject text,
  message text not null,
  is_read boolean not null default false,
  created_at timestamptz not null default now(),
  constraint "an inquiry has a name" check (char_length(trim(name)) between 1 and 200),
  constraint "an inquiry's phone is short" check (char_length(phone) <= 40),
  constraint "an inquiry's subject is short" check (char_length(subject) <= 300),
  constraint "an inquiry has a message" check (char_length(trim(message)) between 1 and 10000)
);
comment on table public.inquiries is 'Messages from the contact form.';
alter table public.inquiries enable row level security;
grant insert (name, email, phone, subject, message) on public.inquiries to anon, authenticated;
grant select on public.inquiries to authenticated;
grant select (id) on public.inquiries to anon;
create policy "everyone sends inquiries" on public.inquiries for insert to anon, authenticated with check (not is_read);
create policy "staff read every inquiry" on public.inquiries for select to authenticated using ((select public.is_admin()));
create index inquiries_newest_first on public.inquiries (created_at desc, id desc);
create index inquiries_unread on public.inquiries (created_at desc) where not is_read;
create index inquiries_by_part_of_their_text on public.inquiries
  using gin (lower(name || E'\n' || email || E'\n' || coalesce(subject, '')) extensions.gin_trgm_ops) with (fastupdate = off);

create function private.before_inquiry_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request bounds the checks of an insert.
    if current_setting('private.has_inquiry', true) = 'yes' then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform set_config('private.has_inquiry', 'yes', true);
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network. Please try again in a few minutes');
    elsif not private.count_call('inquiries_of_day') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network today. Please call us, or try again tomorrow');
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  return new;
end
$$;

create function public.mark_inquiry_read(inquiry_id uuid) returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  update public.inquiries as i set is_read = true where i.id = mark_inquiry_read.inquiry_id and not i.is_read;
  if found then
    return 'marked';
  end if;
  return case
    when exists (select from public.inquiries as i where i.id = mark_inquiry_read.inquiry_id) then 'already_read'
    else 'not_found'
  end;
end
$$;
comment on function public.mark_inquiry_read is 'For staff. Returns marked, already_read or not_found.';

create function public.mark_all_inquiries_read(seen_until timestamptz default null) returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  count integer;
begin
  perform private.expect_staff();
  update public.inquiries as i set is_read = true
  where not i.is_read and i.created_at <= coalesce(mark_all_inquiries_read.seen_until, 'infinity');
  get diagnostics count = row_count;
  return count;
end
$$;
comment on function public.mark_all_inquiries_read is
  'For staff: marks all unread inquiries up to the newest that was seen. Returns how many.';

create function public.search_inquiries(
  search text default '', before_created_at timestamptz default null, before_id uuid default null,
  page_size integer default 50
) returns setof public.inquiries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_by_text(
    'inquiries', $sql$lower(t.name || E'\n' || t.email || E'\n' || coalesce(t.subject, ''))$sql$, 'true',
    search, before_created_at, before_id, page_size
  );
  return query
    select i.* from public.inquiries as i where i.id = any (found_ids) order by i.created_at desc, i.id desc;
end
$$;
comment on function public.search_inquiries is
  'For staff: a page of inquiries whose name, email or subject contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

create trigger inquiries_before_insert before insert on public.inquiries for each row execute function private.before_inquiry_insert();

-- Newsletter: subscription, confirmation and unsubscribing by links

create table public.newsletter_subscriptions (
  id uuid primary key default gen_random_uuid(),
  email text not null,
  created_at timestamptz not null default now(),
  confirmed_at timestamptz,
  confirmation_queued_at timestamptz,
  constraint "a subscription has an e-mail address" check (email ~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' and char_length(email) <= 254)
);
comment on table public.newsletter_subscriptions is
  'Newsletter subscriptions. Only confirmed ones (confirmed_at) may receive newsletters.';
comment on column public.newsletter_subscriptions.confirmed_at is
  'When the owner of the address confirmed it. Null: not confirmed.';
comment on column public.newsletter_subscriptions.confirmation_queued_at is
  'When the last confirmation mail was queued: at most one a day. An unconfirmed address is deleted seven days later.';
alter table public.newsletter_subscriptions enable row level security;
grant select on public.newsletter_subscriptions to authenticated;
create policy "staff read every subscription" on public.newsletter_subscriptions
  for select to authenticated using ((select public.is_admin()));
create unique index newsletter_addresses_are_unique on public.newsletter_subscriptions (lower(email));
create index newsletter_subscriptions_newest_first on public.newsletter_subscriptions (created_at desc);

create table private.newsletter_tokens (
  token_hash bytea primary key,
  subscription_id uuid not null references public.newsletter_subscriptions (id) on delete cascade,
  purpose text not null,
  created_at timestamptz not null default now(),
  constraint "a token confirms or unsubscribes" check (purpose in ('confirm', 'unsubscribe'))
);
comment on table private.newsletter_tokens is 'SHA-256 hashes of the tokens in newsletter links.';
alter table private.newsletter_tokens enable row level security;
create index newsletter_tokens_by_subscription on private.newsletter_tokens (subscription_id);

-- Deletes the emails of a deleted subscription, since they hold its address.
create function private.delete_newsletter_mails() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  delete from public.outbox_messages as m
  where m.order_id is null and m.kind = 'newsletter_confirmation' and m.event_key = old.id::text;
  return null;
end
$$;

create function public.subscribe_to_newsletter(email text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  address text;
  subscription_id uuid;
begin
  -- Checked for every address, so that a refusal does not reveal which addresses need a mail.
  if not (private.count_call('newsletter') and private.is_within_limit('newsletter_mails')) then
    perform private.refuse(429, 'too_many_subscriptions', 'Too many subscriptions from your network. Please try again in a few minutes');
  elsif char_length(subscribe_to_newsletter.email) <= 300 then
    address := trim(subscribe_to_newsletter.email);
  end if;
  if not private.is_email(address) then
    return private.refusal_answer('PT400', 'Please enter a valid email address', 'email_invalid', '');
  end if;
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
  -- At most one mail a day and address.
  update public.newsletter_subscriptions as n
  set confirmation_queued_at = now()
  where lower(n.email) = lower(address) and n.confirmed_at is null
    and (n.confirmation_queued_at is null or n.confirmation_queued_at < now() - interval '1 day')
  returning n.id into subscription_id;
  if found then
    perform private.count_call('newsletter_mails');
    perform private.queue_newsletter_confirmation(subscription_id);
  end if;
  -- The same result for every address, so that it does not reveal who is subscribed.
  return null;
end
$$;
comment on function public.subscribe_to_newsletter is
  'Mails a confirmation link to the address, at most once a day. Returns null for every address, so that the result does not reveal who is subscribed.';

create function private.queue_newsletter_confirmation(subscription_id uuid) returns void
language sql set search_path = '' as $$
  with queued as (
    insert into public.outbox_messages (
      order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name
    )
    select null, template.kind, n.id::text, template.channel, n.email, '', '', ''
    from public.newsletter_subscriptions as n
    join public.message_templates as template on template.kind = 'newsletter_confirmation' and template.is_on
    where n.id = queue_newsletter_confirmation.subscription_id
    returning id, channel
  )
  insert into private.outbox_queue (message_id, channel, due_at) select queued.id, queued.channel, now() from queued;
$$;

create function public.issue_newsletter_tokens(subscription_id uuid) returns table (confirm text, unsubscribe text)
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform from public.newsletter_subscriptions as n where n.id = issue_newsletter_tokens.subscription_id for key share;
  if not found then
    return;
  end if;
  confirm := replace(gen_random_uuid()::text, '-', '');
  unsubscribe := replace(gen_random_uuid()::text, '-', '');
  insert into private.newsletter_tokens (token_hash, subscription_id, purpose)
  values
    (sha256(convert_to(confirm, 'UTF8')), issue_newsletter_tokens.subscription_id, 'confirm'),
    (sha256(convert_to(unsubscribe, 'UTF8')), issue_newsletter_tokens.subscription_id, 'unsubscribe');
  return next;
end
$$;
comment on function public.issue_newsletter_tokens is
  'New tokens for the links of one newsletter mail; only their hashes are stored. No row: the subscription was deleted.';

create function public.confirm_newsletter(token text) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare
  of_subscription uuid;
begin
  if char_length(confirm_newsletter.token) <> 32 then
    return false;
  end if;
  delete from private.newsletter_tokens as t
  where t.token_hash = sha256(convert_to(confirm_newsletter.token, 'UTF8')) and t.purpose = 'confirm'
  returning t.subscription_id into of_subscription;
  if not found then
    return false;
  end if;
  delete from private.newsletter_tokens as t where t.subscription_id = of_subscription and t.purpose = 'confirm';
  update public.newsletter_subscriptions as n
  set confirmed_at = coalesce(n.confirmed_at, now())
  where n.id = of_subscription;
  return true;
end
$$;
comment on function public.confirm_newsletter is
  'Confirms the subscription of the address to which this token was mailed. False: unknown or used token.';

create function public.unsubscribe_from_newsletter(token text) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  if char_length(unsubscribe_from_newsletter.token) <> 32 then
    return false;
  end if;
  delete from public.newsletter_subscriptions as n
  using private.newsletter_tokens as t
  where t.token_hash = sha256(convert_to(unsubscribe_from_newsletter.token, 'UTF8')) and t.purpose = 'unsubscribe'
    and n.id = t.subscription_id;
  return found;
end
$$;
comment on function public.unsubscribe_from_newsletter is
  'Deletes the address to which this token was mailed, with everything stored for it. False: unknown token.';

create trigger newsletter_subscriptions_after_delete after delete on public.newsletter_subscriptions
  for each row execute function private.delete_newsletter_mails();

-- Execution rights
grant execute on function public.subscribe_to_newsletter, public.confirm_newsletter, public.unsubscribe_from_newsletter
  to anon, authenticated, service_role;
grant execute on function public.mark_inquiry_read, public.mark_all_inquiries_read, public.search_inquiries
  to authenticated, service_role;
grant execute on function public.issue_newsletter_tokens to service_role;

-- schemas/19_messages.sql
-- Messages to customers: templates and the outbox (docs/decisions/messages-to-customers.md).

-- A message enters the outbox in the transaction of the change that it reports; the shop's jobs send it afterwards.
create table public.outbox_messages (
  id uuid primary key default gen_random_uuid(),
  order_id uuid,
  kind text not null,
  event_key text not null default '',
  channel text not null,
  recipient text not null,
  order_number text not null,
  tracking_number text not null,
  customer_name text not null,
  status text not null default 'waiting',
  attempts integer not null default 0,
  subject text,
  body text,
  problem text,
  next_attempt_at timestamptz default now(),
  give_up_at timestamptz not null default now() + interval '1 day',
  sending_since timestamptz,
  sent_at timestamptz,
  gateway_reference text,
  resent_by text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  has_priority boolean not null default false,
  constraint "a message is sent once per event and channel" unique (order_id, kind, event_key, channel),
  constraint "a message goes by mail or as a text" check (channel in ('mail', 'text')),
  constraint "only waiting messages are retried" check ((next_attempt_at is not null) = (status = 'waiting')),
  constraint "a message status is known"
    check (status in ('waiting', 'sending', 'sent', 'failed', 'unsure', 'over_budget')),
  constraint "a message is about an order or the newsletter"
    check ((order_id is null) = (kind = 'newsletter_confirmation')),
  constraint "a kind of message is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded',
    'order_cancelled', 'order_expired', 'newsletter_confirmation'
  ))
);
comment on table public.outbox_messages is
  'Messages to customers. sending: being handed over. unsure: may have been sent, so only staff send it again. over_budget: held back by a limit or daily budget; staff may send it. subject and body: of the last attempt.';
comment on column public.outbox_messages.order_id is 'Null for newsletter mails.';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, or the id of the refund; of newsletter mails the subscription''s id.';
comment on column public.outbox_messages.recipient is 'Email address, or phone as +254….';
comment on column public.outbox_messages.gateway_reference is 'Id from the text message gateway.';
comment on column public.outbox_messages.resent_by is 'Email address of the staff member who sent it again.';
comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget. Messages that visitors cause without paying may use half of it.';
alter table public.outbox_messages enable row level security;
grant select on public.outbox_messages to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.outbox_messages to anon;
create policy "staff read every message" on public.outbox_messages for select to authenticated using ((select public.is_admin()));
create index outbox_messages_newest_first on public.outbox_messages (created_at desc, id desc);
create index outbox_messages_of_a_status_newest_first on public.outbox_messages (status, created_at desc, id desc);
create index outbox_messages_by_order on public.outbox_messages (order_id, created_at);
create index outbox_messages_by_part_of_their_text on public.outbox_messages
  using gin (
    lower(customer_name || E'\n' || recipient || E'\n' || order_number || E'\n' || tracking_number) extensions.gin_trgm_ops
  )
  with (fastupdate = off);
create index outbox_messages_with_words on public.outbox_messages (created_at) where recipient <> '';
create index outbox_messages_being_sent on public.outbox_messages (sending_since) where status = 'sending';

create table private.outbox_queue (
  message_id uuid primary key references public.outbox_messages (id) on delete cascade,
  due_at timestamptz not null,
  lease uuid,
  channel text not null
);
comment on table private.outbox_queue is
  'Waiting messages and when they are due. A separate table, so that realtime does not announce leases.';
comment on column private.outbox_queue.lease is 'Of the process that leased the message until due_at.';
alter table private.outbox_queue enable row level security;
create index outbox_queue_by_channel_and_due_time on private.outbox_queue (channel, due_at);

create table public.message_templates (
  id uuid primary key default gen_random_uuid(),
  kind text not null,
  channel text not null,
  subject text,
  body text not null,
  is_on boolean not null default true,
  default_subject text,
  default_body text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a kind of message is worded once per channel" unique (kind, channel),
  constraint "a template is of a mail or a text" check (channel in ('mail', 'text')),
  constraint "mails have a subject, texts have none" check ((subject is not null) = (channel = 'mail')),
  constraint "a template is of a kind that is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded',
    'order_cancelled', 'order_expired', 'newsletter_confirmation'
  ))
);
comment on table public.message_templates is
  'Texts of each kind of message. {name}: placeholder. [ ]: a part that is left out if one of its placeholders is empty.';
comment on column public.message_templates.is_on is 'Whether messages of this kind and channel are sent.';
comment on column public.message_templates.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
alter table public.message_templates enable row level security;
grant select, update (subject, body, is_on, updated_at) on public.message_templates to authenticated;
-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.message_templates to anon;
create policy "staff read and edit the templates" on public.message_templates
  for all to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create table private.messages_sent (
  day date not null,
  channel text not null,
  total integer not null default 0,
  without_priority integer not null default 0,
  constraint "one count per day and channel" primary key (day, channel)
);
comment on table private.messages_sent is
  'Messages sent per day in Nairobi and channel. Resent messages count again, refused ones do not.';
alter table private.messages_sent enable row level security;

create function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  -- Staff can correct a manual payment for as long as they can undo a status change.
  due_at timestamptz := now() + case
    when current_setting('private.is_typed_by_staff', true) = 'yes' then private.undo_window() else interval '0'
  end;
begin
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', due_at => due_at);
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', due_at => due_at);
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_window());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      -- Only expire_reservations empties expires_at.
      if new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null then
        -- Not without a prompt: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
  end if;
end
$$;

create function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
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
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  elsif is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- Brackets that remain after all complete ones are removed.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create function public.search_messages(
  search text default '', status text default null, channel text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_by_text(
    'outbox_messages',
    $sql$lower(t.customer_name || E'\n' || t.recipient || E'\n' || t.order_number || E'\n' || t.tracking_number)$sql$,
    concat_ws(' and ', 'true', 't.status = ' || quote_literal(status), 't.channel = ' || quote_literal(channel)),
    search, before_created_at, before_id, page_size
  );
  return query
    select m.* from public.outbox_messages as m where m.id = any (found_ids) order by m.created_at desc, m.id desc;
end
$$;
comment on function public.search_messages is
  'For staff: a page of messages whose recipient, customer, order or tracking number contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

create function private.queue_link_with_prompt(new public.payments) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.queue_order_messages(
    new.order_id,
    'order_received',
    channels => case
      -- Only the prompted phone gets a text: another may be a stranger's.
      when new.phone = (select o.customer_phone from public.orders as o where o.id = new.order_id) then array['mail', 'text']
      else array['mail']
    end
  );
end
$$;

create function private.add_to_outbox(
  ordered public.orders, kind text, event_key text, channel text, recipient text, due_at timestamptz
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Other messages follow a payment, or a change by staff of a paid order.
  has_priority boolean := add_to_outbox.kind not in ('order_received', 'order_expired')
    and (add_to_outbox.kind <> 'order_cancelled' or ordered.payment_status <> 'unpaid');
  problem text;
  added uuid;
begin
  -- Further prompts for an order are not limited: the message exists already.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.event_key = add_to_outbox.event_key and m.channel = add_to_outbox.channel;
  if found then
    -- Changed again before it was sent: the undo window starts again.
    if add_to_outbox.due_at > now() then
      update public.outbox_messages as m set next_attempt_at = add_to_outbox.due_at
      where m.id = added and m.status = 'waiting' and m.attempts = 0;
      if found then
        update private.outbox_queue as q set due_at = add_to_outbox.due_at, lease = null where q.message_id = added;
      end if;
    end if;
    return;
  end if;
  if not has_priority then
    -- The network first, so that a network over its limit does not use up the recipient's limit. Orders are ended by the shop and
    -- staff, whose networks are not limited.
    problem := case
      when add_to_outbox.kind = 'order_received'
        and not private.count_call(case add_to_outbox.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
        then 'Not sent: too many unpaid orders from one network today'
      when private.count_hit('unpaid_orders_of_recipient', lower(add_to_outbox.recipient), interval '1 hour') > 5
        then 'Not sent: too many unpaid orders for this recipient in one hour'
    end;
  end if;
  insert into public.outbox_messages (
    order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.event_key, add_to_outbox.channel, add_to_outbox.recipient,
    ordered.order_number, ordered.tracking_number, ordered.customer_name,
    has_priority,
    case when problem is null then 'waiting' else 'over_budget' end,
    case when problem is null then add_to_outbox.due_at end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, add_to_outbox.due_at);
  end if;
end
$$;
comment on function private.add_to_outbox is
  'Adds a message of an order to the outbox, once per order, kind, event_key and channel; it is sent at due_at. Messages about unpaid orders are held back (over_budget) above the limits of the caller''s networks, and above five per recipient and hour.';

create function private.queue_order_messages(
  order_id uuid, kind text, event_key text default '', channels text[] default array['mail', 'text'],
  due_at timestamptz default now()
) returns void
language plpgsql set search_path = '' as $$
declare
  ordered public.orders;
begin
  select * into ordered from public.orders as o where o.id = queue_order_messages.order_id;
  perform private.add_to_outbox(
    ordered, queue_order_messages.kind, coalesce(queue_order_messages.event_key, ''), way.channel, way.recipient,
    queue_order_messages.due_at
  )
  from (values ('mail', ordered.customer_email), ('text', ordered.customer_phone)) as way (channel, recipient)
  join public.message_templates as template
    on template.kind = queue_order_messages.kind and template.channel = way.channel and template.is_on
  where way.recipient <> '' and way.channel = any (queue_order_messages.channels);
exception when others then
  -- The order's change stays valid without its message.
  raise warning 'no message % of order % could be put into the outbox: %',
    queue_order_messages.kind, queue_order_messages.order_id, sqlerrm;
end
$$;
comment on function private.queue_order_messages is
  'Adds the messages of a kind to the outbox, one per channel with an active template, to be sent at due_at. Never fails.';

create function private.is_status_message(kind text) returns boolean
language sql immutable
return kind in ('order_on_its_way', 'order_delivered', 'order_cancelled');
comment on function private.is_status_message is
  'Whether a kind of message reports a status change by staff, and is withdrawn with it.';

-- Execution rights
grant execute on function public.search_messages to authenticated, service_role;

-- schemas/20_sending_messages.sql
-- Sending messages: the queue of the outbox and the daily budgets.

create function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.event_key = '' then not p.needs_refund
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription.';

create type public.leased_message as (
  id uuid, lease uuid, kind text, channel text, recipient text, subject text, body text, facts jsonb
);
comment on type public.leased_message is 'subject and body: of the template. facts: the values of its placeholders (message_facts).';

create function public.lease_messages(at_most integer default 10, channel text default null)
returns setof public.leased_message
language plpgsql security definer
set search_path = ''
-- A plan that was made for an empty queue must not scan or sort a full one.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
  most integer := least(greatest(coalesce(lease_messages.at_most, 10), 1), 100);
  lost uuid[];
  due uuid[];
begin
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
    cross join lateral (
      select q.message_id from private.outbox_queue as q
      where q.channel = wanted.channel and q.due_at <= now()
      order by q.due_at
      limit most
      for update skip locked
    ) as next
    limit most
  );
  return query
  with taken as (
    update private.outbox_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid()
    where q.message_id = any (due)
    returning q.message_id, q.lease
  )
  select m.id, taken.lease, m.kind, m.channel, m.recipient, worded.subject, worded.body,
    private.message_facts(m.order_id, m.kind, m.event_key)
  from taken
  -- With an offset these stay lookups by key: a join could read all messages.
  cross join lateral (select * from public.outbox_messages as m where m.id = taken.message_id offset 0) as m
  cross join lateral (
    select * from public.message_templates as t where t.kind = m.kind and t.channel = m.channel offset 0
  ) as worded;
end
$$;
comment on function public.lease_messages is
  'Leases due messages for a minute, of one channel or both, each with its template and values. Messages whose process ended while sending them become unsure.';

create function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  message public.outbox_messages;
  final_status text;
  reason text;
  attempt integer;
begin
  select * into message from public.outbox_messages as m where m.id = begin_message.message_id for update;
  delete from private.outbox_queue as q where q.message_id = begin_message.message_id and q.lease = begin_message.lease;
  if not found or message.status <> 'waiting' then
    return null;
  end if;
  if message.order_id is not null and not private.is_message_true(message.order_id, message.kind) then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := 'Given up after a day: ' || coalesce(message.problem, 'nothing could be sent in that time');
  elsif not exists (
    select from public.message_templates as t where t.kind = message.kind and t.channel = message.channel and t.is_on
  ) then
    final_status := 'failed';
    reason := 'Messages of this kind are switched off';
  else
    reason := private.take_from_budget(message.channel, message.has_priority);
    final_status := case when reason is not null then 'over_budget' end;
  end if;
  if final_status is not null then
    update public.outbox_messages as m
    set status = final_status, next_attempt_at = null, problem = reason, updated_at = now()
    where m.id = message.id;
    return null;
  end if;
  update public.outbox_messages as m
  set status = 'sending', attempts = m.attempts + 1, sending_since = now(), next_attempt_at = null,
      subject = begin_message.subject, body = begin_message.body, updated_at = now()
  where m.id = message.id
  returning m.attempts into attempt;
  return attempt;
end
$$;
comment on function public.begin_message is
  'Marks a leased message as being sent, stores its text and counts it in today''s budget. Returns the number of the attempt; only then may it be sent. Null: another process has it, a day has passed, its template is off, the budget is used up, or it no longer matches the order; then it is deleted.';

create function public.finish_message(
  message_id uuid, attempt integer, outcome text, problem text default null, gateway_reference text default null
) returns text
language plpgsql security definer set search_path = '' as $$
declare
  sent public.outbox_messages;
  next_at timestamptz;
begin
  if finish_message.outcome not in ('sent', 'refused', 'failed', 'unsure') then
    perform private.refuse(400, 'outcome_unknown', 'A message is sent, refused, failed or unsure');
  end if;
  -- A slow process may still report its outcome, unless another attempt has followed.
  select * into sent from public.outbox_messages as m
  where m.id = finish_message.message_id and m.attempts = finish_message.attempt
    and (m.status in ('sending', 'unsure') or (m.status = 'waiting' and finish_message.outcome = 'sent'))
  for update;
  if not found then
    return null;
  end if;
  delete from private.outbox_queue as q where q.message_id = sent.id;
  if finish_message.outcome in ('refused', 'failed') then
    perform private.return_to_budget(sent.channel, sent.has_priority, sent.sending_since);
  end if;
  if finish_message.outcome = 'refused' then
    next_at := now() + least(interval '30 seconds' * power(2, least(sent.attempts - 1, 10)), interval '2 hours');
    if next_at <= sent.give_up_at then
      insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, next_at) on conflict do nothing;
    else
      next_at := null;
    end if;
  end if;
  update public.outbox_messages as m
  set status = case
        when finish_message.outcome <> 'refused' then finish_message.outcome
        when next_at is null then 'failed'
        else 'waiting'
      end,
      next_attempt_at = next_at,
      problem = case
        when finish_message.outcome = 'sent' then null
        when finish_message.outcome = 'refused' and next_at is null
          then 'Given up after a day: ' || coalesce(finish_message.problem, 'refused without a reason')
        else finish_message.problem
      end,
      gateway_reference = coalesce(finish_message.gateway_reference, m.gateway_reference),
      sent_at = case when finish_message.outcome = 'sent' then now() end, updated_at = now()
  where m.id = sent.id
  returning * into sent;
  return sent.status;
end
$$;
comment on function public.finish_message is
  'Records the outcome of an attempt: sent; refused, to be retried with growing delays for a day; failed; or unsure. Refused and failed messages are returned to the budget. Returns the message''s status, or null if a later attempt has begun.';

create function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff();
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message is waiting already, or was sent in the meantime');
  end if;
  if private.daily_budget(again.channel) <= coalesce((
    select s.total from private.messages_sent as s where s.day = private.nairobi_day(now()) and s.channel = again.channel
  ), 0) then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;
comment on function public.send_message_again is
  'For staff: sends a failed, unsure or over-budget message again, for another day and with the whole daily budget.';

create function private.daily_budget(channel text) returns integer
language sql stable set search_path = '' as $$
  select case daily_budget.channel when 'text' then s.texts_per_day else s.mails_per_day end from public.store_settings as s;
$$;

create function private.take_from_budget(channel text, has_priority boolean) returns text
language plpgsql set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  budget integer := private.daily_budget(take_from_budget.channel);
  used private.messages_sent;
begin
  insert into private.messages_sent (day, channel) values (today, take_from_budget.channel) on conflict do nothing;
  update private.messages_sent as counted
  set total = counted.total + 1,
      without_priority = counted.without_priority + case when take_from_budget.has_priority then 0 else 1 end
  where counted.day = today and counted.channel = take_from_budget.channel
    and counted.total < budget
    and (take_from_budget.has_priority or counted.without_priority < budget / 2);
  if found then
    return null;
  end if;
  select * into used from private.messages_sent as m where m.day = today and m.channel = take_from_budget.channel;
  return format(
    case
      when used.total < budget then 'Not sent: the half of today''s budget of %ss for visitors who have not paid is used up'
      else 'Not sent: today''s budget of %ss is used up'
    end,
    take_from_budget.channel
  );
end
$$;
comment on function private.take_from_budget is
  'Counts a message in today''s budget. Null: it may be sent; else the reason why not. Half of the budget is reserved for messages with priority.';

create function private.return_to_budget(channel text, has_priority boolean, taken_at timestamptz) returns void
language sql set search_path = '' as $$
  update private.messages_sent as counted
  set total = counted.total - 1,
      without_priority = counted.without_priority - case when return_to_budget.has_priority then 0 else 1 end
  where counted.day = private.nairobi_day(return_to_budget.taken_at) and counted.channel = return_to_budget.channel
    and counted.total > 0;
$$;

create function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
begin
  perform private.expect_staff();
  return query
  select way.channel, coalesce(s.total, 0), coalesce(s.without_priority, 0), private.daily_budget(way.channel), (
    select count(*) from public.outbox_messages as m
    where m.status = 'over_budget' and m.channel = way.channel
      and m.created_at >= today::timestamp at time zone 'Africa/Nairobi'
  )
  from (values ('text'), ('mail')) as way (channel)
  left join private.messages_sent as s on s.day = today and s.channel = way.channel;
end
$$;
comment on function public.message_budgets is
  'For staff: per channel the messages sent today, those without priority, the daily budget, and today''s messages over budget.';

create function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then o.payment_status in ('paid', 'refunded')
    when 'order_payment_held' then o.payment_status = 'needs_review'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;
comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

create function private.withdraw_messages(order_id uuid) returns void
language sql set search_path = '' as $$
  delete from public.outbox_messages as m
  where m.order_id = withdraw_messages.order_id and m.status = 'waiting' and m.attempts = 0
    and not private.is_message_true(m.order_id, m.kind);
$$;
comment on function private.withdraw_messages is
  'Deletes unsent messages that the order''s state no longer confirms; a later change queues them again.';

-- Execution rights
grant execute on function public.send_message_again, public.message_budgets to authenticated, service_role;
grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

-- schemas/21_personal_data.sql
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
  for select to authenticated using ((select public.is_admin()));
create index personal_data_requests_of_a_person on public.personal_data_requests (person_hash, requested_at desc);

create function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  old_messages uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and m.status not in ('waiting', 'sending')
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
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
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

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
      select from public.payments as p where p.order_id = unsettled.id and p.status in ('initiating', 'processing', 'review')
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and r.status not in ('completed', 'failed', 'withdrawn')
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
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
      anonymised_at = now()
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
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;
comment on function private.anonymise_orders is
  'Removes the customer''s name, email, phone, address and notes from orders and related rows. M-PESA''s messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

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
    where old.received_at < retained_since and old.body <> '{}' and old.outcome is not null and old.outcome <> 'error'
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
end
$$;

create function private.anonymise_old_orders() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.created_at < retained_since and private.unsettled_money_reason(o.id) is null
    order by o.created_at limit 1000
    for update skip locked
  ) || array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.erasure_requested_at is not null and private.retention_reason(o.id) is null
    limit 1000
    for update skip locked
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
    where o.id = retention_reason.order_id and o.payment_status = 'paid' and o.status not in ('delivered', 'cancelled')
  ), (
    select 'A message to its customer is being sent'
    from public.outbox_messages as m
    where m.order_id = retention_reason.order_id and m.status = 'sending'
    limit 1
  ));
end
$$;
comment on function private.retention_reason is
  'Why an order cannot be anonymised on request yet, as a sentence. Null: it can. Retention periods ignore deliveries.';

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

create function private.read_phone(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if octet_length(written) > 300 then
    return null;
  end if;
  -- As domain/phone.ts reads it: with brackets and dots, 00254 and +254 (0).
  return private.normalised_phone(
    regexp_replace(regexp_replace(regexp_replace(written, '[^0-9+]', '', 'g'), '^00254', '+254'), '^\+?2540', '+254')
  );
end
$$;

create function private.read_person(identifier text, out email text, out phone text)
language plpgsql immutable set search_path = '' as $$
begin
  if octet_length(read_person.identifier) <= 1016 and private.is_email(trim(read_person.identifier)) then
    email := lower(trim(read_person.identifier));
  else
    phone := private.read_phone(read_person.identifier);
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

create function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := array(
    select o.id from public.orders as o
    where lower(o.customer_email) = person.email or o.customer_phone = person.phone
    order by o.created_at desc, o.id
  );
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
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
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
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
      select to_jsonb(i) - 'id' - 'is_read'
      from public.inquiries as i
      where lower(i.email) = person.email or private.read_phone(i.phone) = person.phone
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and lower(m.recipient) = person.email order by m.created_at
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
  perform private.expect_staff();
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and (lower(o.customer_email) = person.email or o.customer_phone = person.phone
      or exists (select from public.payments as p where p.order_id = o.id and p.phone = person.phone))
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
  where p.purpose = 'test' and p.phone = person.phone and p.status not in ('initiating', 'processing');

  delete from public.inquiries as i where lower(i.email) = person.email or private.read_phone(i.phone) = person.phone;
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

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
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

create trigger personal_data_requests_before_change before update or delete on public.personal_data_requests
  for each row execute function private.refuse_change('The log of requests is only added to');
create trigger personal_data_requests_before_truncate before truncate on public.personal_data_requests
  for each statement execute function private.refuse_change('The log of requests is only added to');

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;
grant execute on function public.forget_old_rows to service_role;

-- schemas/22_figures.sql
-- Figures: page views, sums for the dashboard, backups, system status and metrics.

create table public.page_views (
  day date not null,
  path text not null,
  views integer not null,
  constraint "one count per day and page" primary key (day, path),
  constraint "a view was counted" check (views > 0)
);
comment on table public.page_views is 'Views of each storefront page per day in Nairobi, without any data of the visitor.';
alter table public.page_views enable row level security;
grant select on public.page_views to authenticated;
create policy "staff read the page views" on public.page_views for select to authenticated using ((select public.is_admin()));

create table public.backups (
  id bigint generated always as identity primary key,
  started_at timestamptz not null,
  finished_at timestamptz not null default now(),
  outcome text not null,
  file_name text,
  size bigint,
  problem text,
  constraint "an outcome of a backup is known" check (outcome in ('verified', 'readable', 'failed', 'impossible')),
  constraint "a backup that was made has a file" check ((outcome in ('verified', 'readable')) = (file_name is not null)),
  constraint "a backup that was not made says why" check ((outcome in ('failed', 'impossible')) = (problem is not null))
);
comment on table public.backups is
  'Backup attempts. verified: restored elsewhere and compared; readable: read completely, without a restore; failed; impossible: a program is missing.';
comment on column public.backups.size is 'In bytes.';
alter table public.backups enable row level security;
grant select on public.backups to authenticated;
create policy "staff read every backup" on public.backups for select to authenticated using ((select public.is_admin()));

create function private.counted_page(path text) returns text
language sql stable set search_path = '' as $$
  -- Only existing pages have their own rows, so that requests cannot fill the table.
  select case
    when page in ('/', '/shop', '/contact', '/delivery', '/newsletter', '/track-order') then page
    -- Tracking numbers are not counted.
    when page like '/track-order/%' then '/track-order'
    when page ~ '^/(admin|api)(/|$)' then null
    when exists (select from public.products as p where page = '/shop/' || p.slug) then page
    else 'other'
  end
  from (select coalesce(nullif(rtrim(counted_page.path, '/'), ''), '/') as page) as visited;
$$;
comment on function private.counted_page is
  'The page under which a view is counted: a storefront page; ''other'' for unknown paths; null for staff screens.';

create function public.record_page_views(views jsonb) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.page_views as counted (day, path, views)
  select private.nairobi_day(now()), private.counted_page(seen.path), sum(seen.views)::integer
  from jsonb_to_recordset(record_page_views.views) as seen (path text, views integer)
  where private.counted_page(seen.path) is not null and seen.views > 0
  group by 2
  -- Always in the same order, so that two processes cannot deadlock.
  order by 2
  on conflict (day, path) do update set views = counted.views + excluded.views;
$$;
comment on function public.record_page_views is 'Adds page views to today''s counts: [{"path": "/shop", "views": 3}, …].';

-- Totals that are updated in the transaction of each change: summing up all orders would take longer with every order.
create table private.daily_totals (
  id bigint generated always as identity primary key,
  day date not null,
  orders bigint not null default 0,
  revenue_cents bigint not null default 0,
  received_cents bigint not null default 0
);
comment on table private.daily_totals is
  'Orders and money per day in Nairobi, in as many rows for a day as transactions changed it at once: each takes a row that no other has locked.';
comment on column private.daily_totals.day is 'When orders were placed and money moved; -infinity for money without a time.';
comment on column private.daily_totals.revenue_cents is 'Total of the orders that were placed, paid or not.';
comment on column private.daily_totals.received_cents is 'What arrived for orders, less what was sent back.';
alter table private.daily_totals enable row level security;
create index daily_totals_by_day on private.daily_totals (day);

create type private.day_figures as (day date, orders bigint, revenue_cents bigint, received_cents bigint);

create function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0)::private.day_figures
end;

create function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
return case when counted.status = 'completed' and counted.purpose = 'order' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents)::private.day_figures
end;

create function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents)::private.day_figures
end;

create function private.count_change(old private.day_figures, new private.day_figures) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  moved private.day_figures;
begin
  if old is not distinct from new then
    return;
  end if;
  foreach moved in array array[(old.day, -old.orders, -old.revenue_cents, -old.received_cents)::private.day_figures, new] loop
    continue when moved.day is null;
    update private.daily_totals as t
    set orders = t.orders + moved.orders,
        revenue_cents = t.revenue_cents + moved.revenue_cents,
        received_cents = t.received_cents + moved.received_cents
    where t.id = (select free.id from private.daily_totals as free where free.day = moved.day limit 1 for update skip locked);
    if not found then
      insert into private.daily_totals (day, orders, revenue_cents, received_cents)
      values (moved.day, moved.orders, moved.revenue_cents, moved.received_cents);
    end if;
  end loop;
end
$$;
comment on function private.count_change is
  'Replaces what a row counts in daily_totals; null: nothing. Never waits for another transaction.';

create function public.daily_figures(days integer default 30) returns table (day date, page_views bigint, orders bigint)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff();
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select t.day, sum(t.orders) as count from private.daily_totals as t where t.day >= first_day group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;
comment on function public.daily_figures is
  'For staff: page views and orders of the last days in Nairobi, including today and days without any.';

create function public.record_backup(
  started_at timestamptz, outcome text, file_name text default null, size bigint default null, problem text default null
) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.backups (started_at, outcome, file_name, size, problem)
  values (record_backup.started_at, record_backup.outcome, record_backup.file_name, record_backup.size, record_backup.problem);
  -- Stores about a year of two backups a day.
  delete from public.backups as b where b.id <= (select max(id) - 730 from public.backups);
$$;
comment on function public.record_backup is 'Records the outcome of a backup.';

create function public.request_backup() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  perform pg_catalog.pg_notify('backup_requests', '');
end
$$;
comment on function public.request_backup is
  'For staff and the secret key: requests a backup now. Its outcome is a new row of backups.';

create function public.system_status() returns table (
  checked_at timestamptz, last_backup_at timestamptz, last_backup_outcome text, last_attempt_at timestamptz,
  last_attempt_outcome text, last_attempt_problem text, last_payment_answer_at timestamptz, overdue_payments bigint
)
language sql stable security definer set search_path = '' as $$
  select private.expect_staff();
  select
    clock_timestamp(),
    made.finished_at,
    made.outcome,
    tried.finished_at,
    tried.outcome,
    tried.problem,
    (select m.received_at from public.payment_messages as m order by m.id desc limit 1),
    (
      select count(*) from public.payments as p
      where p.purpose = 'order' and p.status in ('initiating', 'processing') and p.created_at < now() - interval '5 minutes'
    )
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;
comment on function public.system_status is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, and prompts open for more than five minutes.';

create function public.dashboard_figures() returns table (
  products bigint, orders bigint, inquiries bigint, revenue bigint, received bigint, received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  monday date := date_trunc('week', today::timestamp)::date;
begin
  perform private.expect_staff();
  return query
  select
    (select coalesce(sum(c.products), 0)::bigint from private.catalogue_counts as c),
    coalesce(sum(t.orders), 0)::bigint,
    (select count(*) from public.inquiries),
    coalesce(sum(t.revenue_cents), 0)::bigint,
    coalesce(sum(t.received_cents), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= monday), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= today), 0)::bigint
  from private.daily_totals as t;
end
$$;
comment on function public.dashboard_figures is
  'For staff: active products, orders, inquiries, and money in cents. revenue: total of all orders, paid or not (specification §7). received: money for orders minus refunds, by its time; days of Nairobi, weeks from Monday.';

-- Metrics for monitoring (docs/monitoring.md)

create function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and p.status in ('initiating', 'processing')
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status in ('initiating', 'processing')
  union all
  select 'payments_completed_last_day', null, count(*)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed' and p.completed_at > now() - interval '1 day'
  union all
  select 'payment_last_completed_timestamp_seconds', null, coalesce(extract(epoch from max(p.completed_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed'
  union all
  select 'transactions_without_payment', null, count(*)
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  ) + (select count(*) from public.payment_messages as m where m.outcome = 'error')
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    select m.received_at from public.payment_messages as m where m.source = known.source order by m.id desc limit 1
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause as pause where pause.until > now()
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and r.status not in ('completed', 'failed', 'withdrawn')
  )
  from unnest(array['requested', 'approved', 'sending', 'sent', 'unknown']) as known (status)
  union all
  select 'outbox_waiting', known.channel, (select count(*) from private.outbox_queue as q where q.channel = known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_oldest_due_seconds', known.channel, greatest(0, coalesce(extract(epoch from now() - (
    select min(q.due_at) from private.outbox_queue as q where q.channel = known.channel
  )), 0))
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_failed_last_day', known.status, (
    select count(*) from public.outbox_messages as m
    where m.status = known.status and m.created_at > now() - interval '1 day'
  )
  from unnest(array['failed', 'unsure', 'over_budget']) as known (status)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;
comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

-- Execution rights
grant execute on function public.request_backup to authenticated, service_role;
grant execute on function public.daily_figures, public.system_status, public.dashboard_figures to authenticated;
grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

-- schemas/23_changes.sql
-- What follows from a change: notifications, then the triggers (docs/architecture.md).

-- Notifications that clear cached pages, and tables that realtime publishes to staff screens

create function private.announce_page_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  perform pg_catalog.pg_notify('page_changes', jsonb_build_object('table', tg_table_name)::text);
  return null;
end
$$;
comment on function private.announce_page_change is 'Notifies page_changes, as JSON, that rows of this table changed.';

create function private.announce_product_change(old public.products, new public.products) returns void
language plpgsql set search_path = '' as $$
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
  -- A notification has at most 8000 bytes. Without keys it means any row of the table.
  if octet_length(change::text) > 7000 then
    change := '{"table": "products"}';
  end if;
  perform pg_catalog.pg_notify('page_changes', change::text);
end
$$;
comment on function private.announce_product_change is
  'Notifies page_changes, as JSON, of a product''s keys before and after a change.';

create function private.announce_access_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'UPDATE' then
    if new.is_active or not old.is_active then
      return null;
    end if;
  end if;
  -- No details: screens query the services then. Only the account has its id, which names the topic.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || old.user_id, false);
  return null;
end
$$;
comment on function private.announce_access_change is
  'Broadcasts access_changed on the live channel staff-{user_id} when a session of the account ended or it is no longer active staff.';

create trigger products_after_truncate after truncate on public.products
  for each statement execute function private.announce_page_change();
create trigger categories_after_change after update on public.categories
  for each row
  when ((old.name, old.is_active) is distinct from (new.name, new.is_active))
  execute function private.announce_page_change();
create trigger categories_after_statement after insert or delete or truncate on public.categories
  for each statement execute function private.announce_page_change();
create trigger store_settings_after_statement after insert or delete or truncate on public.store_settings
  for each statement execute function private.announce_page_change();
create trigger shop_texts_after_change after update on public.shop_texts
  for each row
  when (old.* is distinct from new.*)
  execute function private.announce_page_change();
create trigger shop_texts_after_statement after insert or delete or truncate on public.shop_texts
  for each statement execute function private.announce_page_change();
create trigger search_synonyms_after_statement after insert or update or delete or truncate on public.search_synonyms
  for each statement execute function private.announce_page_change();
create trigger profiles_after_change after update of is_active or delete on public.admin_profiles
  for each row execute function private.announce_access_change();
create trigger sessions_announce_their_end after delete on auth.sessions for each row execute function private.announce_access_change();

-- The realtime service checks this policy for sending to public topics, such as order-{id}: visitors only receive. Private topics
-- require the secret key.
create policy "Staff send broadcasts to public topics" on realtime.messages for insert to authenticated
with check (extension = 'broadcast' and not private and (select public.is_admin()));

alter publication supabase_realtime add table
  public.orders, public.inquiries, public.deliveries, public.payments, public.products, public.categories,
  public.store_settings, public.outbox_messages, public.message_templates, public.mpesa_transactions,
  public.statement_pulls, public.reconciliation_events, public.refunds, public.shop_texts, public.search_synonyms;

-- Triggers: one for each table and timing, which calls its steps in the order written here. Steps run as the owner. A change by a
-- step fires its triggers before the next step begins. old is null for an inserted row, new for a deleted one.

-- Products, categories and settings

create function private.before_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  -- A change of the stock alone is no edit, so that orders do not conflict with a staff member's edit.
  old.stock_quantity := new.stock_quantity;
  if old is not distinct from new then
    return new;
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  -- A price that is not below the previous one ends the offer.
  if new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price then
    new.previous_price := null;
  end if;
  return new;
end
$$;

create trigger products_before_change before update on public.products
  for each row execute function private.before_product_change();

create function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
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
  -- Of the stock, pages only show whether there is any.
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

create function private.before_category_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'UPDATE' and old.name <> new.name then
    -- The foreign key updates its products in any order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  return new;
end
$$;

create trigger categories_before_change before insert or update of name on public.categories
  for each row execute function private.before_category_change();

create function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger store_settings_before_change before update on public.store_settings
  for each row execute function private.before_settings_change();

create function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;

create trigger store_settings_after_change after update on public.store_settings
  for each row execute function private.after_settings_change();

-- Orders

create function private.before_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    return old;
  end if;
  if (old.payment_status in ('unpaid', 'needs_review') and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_review' and old.status <> new.status
      and new.status in ('processing', 'shipped', 'out_for_delivery', 'delivered'))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and new.status in ('shipped', 'out_for_delivery', 'delivered') then
    perform private.check_handover(old, new);
  end if;
  -- An unpaid order that is handed over takes its units if it held none.
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

create function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
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
  if old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
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

create function private.before_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if new.purpose = 'test' then
    return new;
  end if;
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

create function private.after_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A test pays no order; it only proves that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_order_followers(new.order_id);
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
    perform private.notify_order_followers(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

-- Two triggers, which fire in the order of their names. The first also fires when an update sets the same receipt again: a
-- transaction with this receipt may have arrived in the meantime.
create trigger payments_after_receipt after insert or update of receipt on public.payments
  for each row
  when (new.receipt is not null)
  execute function private.link_transaction();
create trigger payments_after_status_change after insert or update or delete on public.payments
  for each row execute function private.after_payment_change();

create function private.after_refund_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A refund that got its payment later has been recorded.
  if tg_op = 'UPDATE' and old.payment_id is distinct from new.payment_id then
    return null;
  end if;
  if tg_op = 'INSERT' then
    perform private.record_refund_in_reconciliation(new);
  end if;
  if new.payment_id is not null then
    perform private.notify_order_followers(p.order_id) from public.payments as p where p.id = new.payment_id;
  end if;
  perform private.record_refund_events(old, new);
  if old.status <> new.status and new.status in ('failed', 'withdrawn') then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;

create trigger refunds_after_change after insert or update of status, payment_id or delete on public.refunds
  for each row execute function private.after_refund_change();

-- Deliveries

create trigger deliveries_before_change before insert or update on public.deliveries
  for each row execute function private.before_delivery_change();

create function private.after_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.record_delivery_events(old, new);
  if old.delivery_status is distinct from new.delivery_status and current_setting('private.is_undoing', true) is distinct from 'yes' then
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

-- The rows of a new shop.
reset check_function_bodies;

insert into public.store_settings default values;

insert into private.person_hash_key default values;

insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
values (
  'product-images', 'product-images', true, 10 * 1024 * 1024,
  array['image/jpeg', 'image/png', 'image/webp', 'image/avif', 'image/gif']
)
on conflict (id) do update set
  public = excluded.public,
  file_size_limit = excluded.file_size_limit,
  allowed_mime_types = excluded.allowed_mime_types;

insert into private.limits (name, allowed, within) values
  ('place_order', 100, '10 minutes'),
  ('inquiries', 30, '10 minutes'),
  ('order_lookups', 60, '10 minutes'),
  ('orders_looked_up', 300, '1 day'),
  ('order_digits', 5, '1 hour'),
  ('digits', 60, '1 hour'),
  ('payment_prompts', 100, '10 minutes'),
  ('payment_prompts_of_order', 10, '10 minutes'),
  ('payment_prompts_to_phone', 10, '10 minutes'),
  ('unknown_payments', 60, '10 minutes'),
  ('unpaid_order_texts', 10, '1 day'),
  ('unpaid_order_mails', 20, '1 day'),
  ('newsletter', 30, '10 minutes'),
  ('newsletter_mails', 20, '1 day'),
  ('inquiries_of_day', 100, '1 day'),
  ('prompts_beyond_unanswered', 2, '1 day');

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_received', 'text', null,
    '{shop}: we have your order {order}, {total}. Pay or follow it: {link}'),
  ('order_paid', 'text', null,
    '{shop}: {paid} received for {order}[, M-PESA {receipt}]. Asante! Follow it: {link}'),
  ('order_payment_held', 'text', null,
    '{shop}: {paid} received[, M-PESA {receipt}], {order} needs a check. We will call you. {link}'),
  ('order_on_its_way', 'text', null,
    '{shop}: your order {order} is on its way. Follow it: {link}'),
  ('order_delivered', 'text', null,
    '{shop}: your order {order} was delivered. Asante! Your receipt: {receipt_link}'),
  ('order_refunded', 'text', null,
    '{shop}: {refunded} for {order} was sent back to the phone that paid[, M-PESA {refund_receipt}]. {link}'),
  ('order_cancelled', 'text', null,
    '{shop}: your order {order} was cancelled.[ We are sending {due_back} back to you.] {link}'),
  ('order_received', 'mail', 'We have your order {order}',
    E'Habari {name},\n\nThank you for your order at {shop}.\n\n{items}\nDelivery: {delivery_fee}\nTotal: {total}\n\nPay or follow your order here:\n{link}\n\nYour tracking number is {tracking}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_paid', 'mail', 'We received your payment for {order}',
    E'Habari {name},\n\nWe received {paid} for your order {order}. Asante![ The M-PESA receipt is {receipt}.]\n\n{items}\nDelivery: {delivery_fee}\nTotal: {total}\n\nFollow your order here:\n{link}\n\nYour receipt, to keep or to print:\n{receipt_link}\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_payment_held', 'mail', 'Your payment for {order} reached us, and we will call you',
    E'Habari {name},\n\nWe received {paid} for your order {order}.[ The M-PESA receipt is {receipt}.]\n\nIt came too late for the drinks we kept for you, or in another amount than the total of {total}. Nothing is lost: our team will call you to sort it out.\n\nYour order:\n{link}\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_on_its_way', 'mail', 'Your order {order} is on its way',
    E'Habari {name},\n\nYour order {order} has left our fridge and is on its way to you.\n\nFollow it here:\n{link}\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_delivered', 'mail', 'Your order {order} was delivered',
    E'Habari {name},\n\nYour order {order} was delivered. Asante, and enjoy it cold!\n\nYour receipt, to keep or to print:\n{receipt_link}\n\nIf something is not right, call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_refunded', 'mail', 'Your money for {order} was sent back',
    E'Habari {name},\n\nWe sent {refunded} for your order {order} back to the phone that paid.[ The M-PESA receipt of it is {refund_receipt}.]\n\nYour order:\n{link}\n\nIf it has not reached you within a day, call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_cancelled', 'mail', 'Your order {order} was cancelled',
    E'Habari {name},\n\nWe have cancelled your order {order}.[ We are sending your {due_back} back to the phone that paid.]\n\nYour order:\n{link}\n\nIf you have a question, call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_expired', 'mail', 'Your order {order} was not paid in time',
    E'Habari {name},\n\nNo payment for your order {order} reached us in time, so we have cancelled it.\n\n{items}\n\nYou can order again here:\n{link}\n\nIf you did pay, keep your M-PESA receipt and call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('newsletter_confirmation', 'mail', 'Please confirm: news from {shop}',
    E'Habari,\n\nYou asked for news from {shop}: a short note when a new flavor leaves the press.\n\nPlease confirm your address here:\n{confirm_link}\n\nIf it was not you, do nothing. Without your confirmation we send no news and forget your address after 7 days. To remove it now:\n{unsubscribe_link}\n\n{shop}\n{shop_phone}\n{shop_email}')
) as template (kind, channel, subject, body);

insert into public.shop_texts (slug, title, body, default_title, default_body)
select slug, title, body, title, body
from (values
  ('faq', 'Frequently asked questions', $text$## How fast is delivery?

15 to 60 minutes within Nairobi, 7 days a week, public holidays included. The [delivery page](/delivery) lists the areas we cover.

## What does delivery cost?

Within Nairobi: {delivery_fee}. You see it before you pay. Outside Nairobi County it may cost more, and we ask you before we send anything.

## Do you deliver outside Nairobi?

Yes, nationwide. Call {phone} first, and we tell you when a parcel reaches your town.

## How do I pay?

By M-PESA. After you order, a prompt appears on your phone; enter your PIN and your drinks are on their way. You need no account.

## Where is my order?

Enter your tracking number on the [tracking page](/track-order). It updates by itself while you watch.

## Who can order?

Anyone aged 18 or older. Our drinks contain khat (miraa), which is legal for adults in Kenya.

## Something is wrong with my order

Call {phone} or write to {email}. We are there 24/7 by phone and chat, and answer email within 24 hours.$text$),
  ('privacy', 'Privacy notice', $text$We ask for what a delivery needs, use it for that, and delete it on a schedule. We sell no one's data and set no advertising cookies.

## Who we are

{shop} in Nairobi is the data controller under Kenya's Data Protection Act, 2019. For anything about your data, write to {email} or call {phone}.

## What we collect, and why

- **When you order:** your name, phone, email, delivery address and notes. We need them to take your payment, to deliver, and to keep you posted. Our legal basis is the contract with you.
- **When you pay:** the phone that pays, the amount and the M-PESA receipt. Safaricom also tells us the payer's name. Tax law asks us to keep these records.
- **When you write to us:** your name, email, phone and message, to answer you.
- **When you join the newsletter:** your email address, once you have confirmed it. Every mail has a link to unsubscribe.
- **When you visit:** how often each page is opened per day, without cookies and without anything about you. For a few hours we use IP addresses to keep the shop safe from abuse.

If you let this device remember your details for the next order, they stay on the device.

## Who receives it

- Safaricom (M-PESA): the phone that pays and the amount.
- Your rider: your name, phone, address and notes.
- The companies that send our texts and emails: your phone or email address, and the message.
- The companies that host this website and its backups, on our behalf.
- Authorities, where Kenyan law requires it.

## How long we keep it

- Your details in an order: {order_details_kept}. After that the order stays in our books without them.
- M-PESA's messages about payments: {payment_messages_kept}, as tax law asks for records.
- Texts and emails we sent you: 90 days.
- Messages you sent us: {inquiries_kept}.
- Newsletter: until you unsubscribe. An address that is not confirmed is deleted after 7 days.
- Backups: about a week.

## Your rights

You may ask us for a copy of your data, to correct it, to erase it, or to stop using it. Write to {email} or call {phone}. So that no one else gets your data, we check that the phone or email address is yours. We answer a request for a copy within 7 days, and a request to correct or erase within 14 days. What tax law asks us to keep, we keep until its time is over.

Not happy with our answer? You can complain to the [Office of the Data Protection Commissioner](https://www.odpc.go.ke).$text$),
  ('terms', 'Terms of service', $text$## Who may order

You must be 18 or older. Our drinks contain khat (miraa), which is legal for adults in Kenya. Riders may ask for your ID, and hand nothing to anyone under 18. Khat is a stimulant: take it in moderation, and not while you are pregnant or breastfeeding, or if you have heart trouble.

## Your order

When you order, we reserve your drinks for a few minutes while you pay. The contract begins when your payment reaches us. If we cannot deliver after all, your money comes back.

## Prices

Prices are in Kenyan shillings and include taxes. Delivery within Nairobi: {delivery_fee}. You see the total before you pay.

## Payment

You pay by M-PESA: by the prompt on the phone you enter, or to our till or paybill where we offer it. M-PESA takes whole shillings, so the total is rounded up to the next one. We never ask for your PIN.

## Delivery

Within Nairobi we deliver in 15 to 60 minutes, 7 days a week, in the areas on the [delivery page](/delivery). Rain and traffic can make it longer. Outside Nairobi we agree on time and charges with you first. Please make sure that an adult can receive the order and answer the phone.

## Cancelling and refunds

- Until your rider leaves you can cancel for a full refund: call {phone}.
- If a drink arrives damaged, warm or wrong, tell us within 24 hours. We replace it or send your money back.
- Refunds go by M-PESA to the phone that paid.
- For your safety we do not take back drinks that reached you in order.

## The rest

Kenyan law applies. Changes of these terms apply to orders placed after the change. How we handle your data is in the [privacy notice](#privacy).$text$)
) as page (slug, title, body);

-- Words that mean nothing are left out of a search.
insert into public.search_synonyms (word, means) values
  ('juice', ''),
  ('juisi', ''),
  ('jusi', ''),
  ('sharubati', ''),
  ('drink', ''),
  ('kinywaji', ''),
  ('vinywaji', ''),
  ('beverage', ''),
  ('refreshment', ''),
  ('flavour', ''),
  ('flavor', ''),
  ('ladha', ''),
  ('fruit', ''),
  ('tunda', ''),
  ('matunda', ''),
  ('price', ''),
  ('bei', ''),
  ('buy', ''),
  ('nunua', ''),
  ('order', ''),
  ('nataka', ''),
  ('naomba', ''),
  ('please', ''),
  ('best', ''),
  ('new', ''),
  ('delivery', ''),
  ('nairobi', ''),
  ('qat', 'khat'),
  ('miraa', 'khat'),
  ('muguka', 'khat'),
  ('mairungi', 'khat'),
  ('veve', 'khat'),
  ('jaba', 'khat'),
  ('gomba', 'khat'),
  ('energy drink', 'energy'),
  ('nguvu', 'energy'),
  ('stim', 'energy'),
  ('soda', 'sparkling'),
  ('fizzy', 'sparkling'),
  ('carbonated', 'sparkling'),
  ('sparkle', 'sparkling'),
  ('bubbles', 'sparkling'),
  ('kopo', 'can'),
  ('mkebe', 'can'),
  ('debe', 'can'),
  ('tin', 'can'),
  ('chupa', 'bottle'),
  ('glass bottle', 'bottle'),
  ('large', '750ml'),
  ('big', '750ml'),
  ('kubwa', '750ml'),
  ('family', '750ml'),
  ('share', '750ml'),
  ('small', '330ml'),
  ('ndogo', '330ml'),
  ('dogo', '330ml'),
  ('mini', '330ml'),
  ('medium', '500ml'),
  ('half litre', '500ml'),
  ('half liter', '500ml'),
  ('500 millilitres', '500ml'),
  ('75cl', '750ml'),
  ('three quarter litre', '750ml'),
  ('50cl', '500ml'),
  ('33cl', '330ml'),
  ('embe', 'mango'),
  ('maembe', 'mango'),
  ('apple mango', 'mango'),
  ('karakara', 'passion'),
  ('pasheni', 'passion'),
  ('granadilla', 'passion'),
  ('passion fruit', 'passion'),
  ('nanasi', 'pineapple'),
  ('mananasi', 'pineapple'),
  ('ananas', 'pineapple'),
  ('mint leaf', 'mint'),
  ('mnanaa', 'mint'),
  ('nanaa', 'mint'),
  ('peppermint', 'mint'),
  ('ukwaju', 'tamarind'),
  ('imli', 'tamarind'),
  ('zobo', 'hibiscus'),
  ('sobolo', 'hibiscus'),
  ('bissap', 'hibiscus'),
  ('karkade', 'hibiscus'),
  ('karkadeh', 'hibiscus'),
  ('rosella', 'hibiscus'),
  ('roselle', 'hibiscus'),
  ('sorrel', 'hibiscus'),
  ('hibiscus tea', 'hibiscus'),
  ('tangawizi', 'ginger'),
  ('limau', 'lemon'),
  ('ndimu', 'lemon lime'),
  ('malimau', 'lemon lime'),
  ('dawa', 'dawa ginger'),
  ('tikiti', 'watermelon'),
  ('tikiti maji', 'watermelon'),
  ('tikitimaji', 'watermelon'),
  ('matikiti', 'watermelon'),
  ('melon', 'watermelon'),
  ('currant', 'blackcurrant'),
  ('cassis', 'blackcurrant'),
  ('berry', 'blackcurrant'),
  ('nazi', 'coconut'),
  ('dafu', 'coconut'),
  ('madafu', 'coconut'),
  ('coco', 'coconut'),
  ('maji', 'water watermelon'),
  ('water', 'water watermelon'),
  ('asali', 'honey'),
  ('sukari', 'sweet'),
  ('tamu', 'sweet'),
  ('chachu', 'sour sharp tart'),
  ('ukali', 'sour sharp tart'),
  ('kali', 'strong ginger double'),
  ('strong', 'strong ginger double'),
  ('hot', 'strong ginger double'),
  ('spicy', 'strong ginger double'),
  ('baridi', ''),
  ('cold', ''),
  ('maji ya matunda', ''),
  ('cool', ''),
  ('ice', ''),
  ('chilled', ''),
  ('chungwa', 'orange'),
  ('machungwa', 'orange'),
  ('discount', 'offer'),
  ('deal', 'offer'),
  ('sale', 'offer'),
  ('ofa', 'offer'),
  ('punguzo', 'offer'),
  ('nafuu', 'offer'),
  ('cheap', 'offer'),
  ('maji ya', ''),
  ('0 5l', '500ml'),
  ('0 33l', '330ml'),
  ('0 75l', '750ml'),
  ('best seller', ''),
  ('bestseller', ''),
  ('popular', ''),
  ('maracuja', 'passion'),
  ('maracuya', 'passion'),
  ('ribena', 'blackcurrant'),
  ('red bull', 'energy'),
  ('redbull', 'energy'),
  ('cheapest', 'offer'),
  ('promo', 'offer'),
  ('promotion', 'offer'),
  ('rahisi', 'offer'),
  ('jus', ''),
  ('joosi', ''),
  ('mpya', ''),
  ('kabisa', ''),
  ('barafu', ''),
  ('iko', ''),
  ('kitu', ''),
  ('moja', ''),
  ('gani', ''),
  ('how much', ''),
  ('menu', ''),
  ('zote', ''),
  ('nipe', ''),
  ('zabibu', 'blackcurrant'),
  ('grape', 'blackcurrant'),
  ('ginja', 'ginger'),
  ('power', 'energy'),
  ('kangeta', 'khat'),
  ('giza', 'khat'),
  ('bei poa', 'offer'),
  ('bei ya chini', 'offer'),
  ('affordable', 'offer'),
  ('bila sukari', 'sugary'),
  ('bob', ''),
  ('ksh', ''),
  ('🥭', 'mango'),
  ('🍍', 'pineapple'),
  ('🍋', 'lemon'),
  ('🍉', 'watermelon'),
  ('🥥', 'coconut'),
  ('🍇', 'blackcurrant'),
  ('🌺', 'hibiscus'),
  ('🫚', 'ginger'),
  ('🌿', 'khat mint'),
  ('🧃', ''),
  ('🥤', ''),
  ('🍹', '');
