-- Inquiries: messages from the contact form.
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

-- Execution rights
grant execute on function public.mark_inquiry_read, public.mark_all_inquiries_read, public.search_inquiries
  to authenticated, service_role;
