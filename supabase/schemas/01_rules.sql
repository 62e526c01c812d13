-- Shared rules: refusing a request, and reading phones, emails, names and days.
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

create function private.is_whole_shillings(cents bigint) returns boolean
language sql immutable set search_path = ''
return cents >= 100 and cents % 100 = 0;
comment on function private.is_whole_shillings is 'Whether M-PESA can charge or refund an amount: whole shillings, at least one.';

create function private.nairobi_day(moment timestamptz) returns date
language sql immutable set search_path = ''
return (moment at time zone 'Africa/Nairobi')::date;
comment on function private.nairobi_day is 'The day in Nairobi at a moment.';
